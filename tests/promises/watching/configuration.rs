//! `evenkeel watch --config`: a file with the options, read again on SIGHUP.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Command, Stdio};

use tests::evenkeel::MIGRATES_ONLY_JOB;
use tests::process::until_or;
use tests::tool;

use super::{Dir, EvenkeelWatch, Process, Signal, two_cpus};

/// Writes a configuration that places one process.
fn configure(dir: &Dir, process: &Process, more: &str) -> String {
    let text = format!("pid = [{}]\nact = true\nclass = ['*=8']\n{more}", process.pid());
    dir.write("watch.toml", text);
    dir.arg("watch.toml")
}

fn policy(options: &str) -> String {
    format!("policy = '{}{options}]'\n", MIGRATES_ONLY_JOB.trim_end_matches(']'))
}

fn wait_for_placement(watch: &mut EvenkeelWatch, process: &Process) {
    watch.until("a placement", |_| process.mask().len() == 1);
}

fn wait_for_line(watch: &EvenkeelWatch, line: &str) {
    until_or(line, || watch.stderr().contains(line), || watch.stderr());
}

#[test]
fn sighup_releases_processes_that_the_new_selection_does_not_contain() {
    let Some((all, _)) = two_cpus() else { return };
    let (first, second, dir) = (Process::busy(), Process::busy(), Dir::new());
    let file = configure(&dir, &first, &policy(""));
    let mut watch = EvenkeelWatch::new(&["--config", &file]);
    wait_for_placement(&mut watch, &first);
    configure(&dir, &second, &policy(""));
    watch.process.signal(Signal::HUP);
    wait_for_line(&watch, "the new selection is active");
    wait_for_placement(&mut watch, &second);
    assert_eq!(first.mask(), all, "{}", watch.stderr());
    watch.wait_until_managed(&[&second], &[&first]);
    let (stderr, code) = watch.end();
    assert_eq!((code, second.mask()), (Some(0), all), "{stderr}");
}

#[test]
fn sighup_attaches_a_process_with_another_class_again() {
    let Some((all, _)) = two_cpus() else { return };
    let (busy, dir) = (Process::busy(), Dir::new());
    let file = configure(&dir, &busy, &policy(""));
    let mut watch = EvenkeelWatch::new(&["--config", &file]);
    wait_for_placement(&mut watch, &busy);
    dir.write("watch.toml", dir.read("watch.toml").replace("*=8", "*=9"));
    watch.process.signal(Signal::HUP);
    wait_for_line(&watch, "managed from now on, class 9");
    let (stderr, code) = watch.end();
    assert_eq!((code, busy.mask()), (Some(0), all), "{stderr}");
    assert_eq!(stderr.matches("managed from now on, class 8").count(), 1, "{stderr}");
}

#[test]
fn sighup_with_an_invalid_file_changes_nothing_and_prints_the_position() {
    let Some((all, _)) = two_cpus() else { return };
    let (busy, dir) = (Process::busy(), Dir::new());
    let file = configure(&dir, &busy, &policy(""));
    let mut watch = EvenkeelWatch::new(&["--config", &file]);
    wait_for_placement(&mut watch, &busy);
    let errors = [
        ("pid = [", "watch.toml:1:"),
        ("act = true\npolicy = 'dsf'", "watch.toml:2:10: policy: "),
        ("act = true", "no process is selected"),
        ("exlude = ['a']", "did you mean \"exclude\"?"),
    ];
    for (text, error) in errors {
        dir.write("watch.toml", text);
        watch.process.signal(Signal::HUP);
        wait_for_line(&watch, error);
    }
    let is_kept = |line: &&str| line.ends_with("the previous configuration stays active");
    until_or(
        "four lines",
        || watch.stderr().lines().filter(is_kept).count() == errors.len(),
        || watch.stderr(),
    );
    assert_eq!(busy.mask().len(), 1, "it is still placed");
    let (stderr, code) = watch.end();
    assert_eq!((code, busy.mask()), (Some(0), all), "{stderr}");
}

#[test]
fn sighup_with_another_policy_restarts_the_watch_in_its_process_with_a_new_journal() {
    let Some((all, _)) = two_cpus() else { return };
    let (busy, dir) = (Process::busy(), Dir::new());
    let file = configure(&dir, &busy, &policy(""));
    let mut watch = EvenkeelWatch::new(&["--config", &file]);
    wait_for_placement(&mut watch, &busy);
    configure(&dir, &busy, &policy(",gain=off"));
    watch.process.signal(Signal::HUP);
    // The second request arrives during the restart or after it.
    watch.process.signal(Signal::HUP);
    wait_for_line(&watch, "restarting with the new configuration");
    let second = || watch.dir.text("w-2.jsonl");
    until_or("a placement by the second policy", || second().contains("\"place\""), second);
    let (stderr, code) = watch.end();
    assert_eq!((code, busy.mask()), (Some(0), all), "{stderr}");
    assert!(watch.dir.read("w-2.jsonl").contains("gain=off"), "{stderr}");
    for (journal, stopped_by) in [("w.jsonl", "reload"), ("w-2.jsonl", "signal")] {
        tool::success(&["explain", &watch.dir.arg(journal)]);
        let report = tool::success(&["report", &watch.dir.arg(journal), "--json"]);
        let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
        assert_eq!(report["run"]["stopped_by"], stopped_by, "{journal}");
        let result = report["run"]["result"].as_str().expect("a sentence");
        assert!(result.starts_with("stopped ") && result.ends_with("; managed 1 job"), "{result}");
    }
}

#[test]
fn without_a_configuration_sighup_ends_the_watch_and_restores_the_affinity() {
    let Some((all, _)) = two_cpus() else { return };
    let busy = Process::busy();
    let pid = busy.pid().to_string();
    let args = ["--pid", &pid, "--act", "--class", "*=8", "--policy", MIGRATES_ONLY_JOB];
    let mut watch = EvenkeelWatch::new(&args);
    wait_for_placement(&mut watch, &busy);
    watch.process.signal(Signal::HUP);
    let (stderr, code) = watch.wait();
    assert_eq!((code, busy.mask()), (Some(0), all), "{stderr}");
}

#[test]
fn check_config_prints_the_first_error_and_starts_nothing() {
    let dir = Dir::with(&[("good.toml", "all = true\n"), ("bad.toml", "all = true\nact = 1\n")]);
    let output = dir.success(&["watch", "--check-config", "good.toml"]);
    assert_eq!(output, "good.toml: the configuration is valid\n");
    let output = dir.success(&["watch", "--config", "good.toml", "--check-config"]);
    assert_eq!(output, "good.toml: the configuration is valid\n");
    let error = dir.rejection(&["watch", "--check-config", "bad.toml"]);
    assert_eq!(error, "evenkeel: bad.toml:2:7: \"act\" must be true or false, not an integer\n");
    dir.rejection(&["watch", "--check-config", "absent.toml"]);
    dir.write("kinds.toml", "all = true\ncore_kinds = 'p=9999:1024'\n");
    let error = dir.rejection(&["watch", "--check-config", "kinds.toml"]);
    assert!(error.starts_with("evenkeel: kinds.toml:2:14: core_kinds: the kind p has"), "{error}");
    dir.write("large.toml", &("#".repeat(1 << 20) + "\nact = 1\n"));
    let error = dir.rejection(&["watch", "--check-config", "large.toml"]);
    assert_eq!(error, "evenkeel: the configuration large.toml is larger than 1 MiB\n");
    assert!(dir.shell("mkfifo fifo.toml").status.success());
    let error = dir.rejection(&["watch", "--check-config", "fifo.toml"]);
    assert_eq!(
        error,
        "evenkeel: cannot read the configuration fifo.toml: this is not a regular file\n"
    );
}

#[test]
fn root_rejects_a_configuration_that_others_can_write() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: needs root");
    }
    let dir = Dir::with(&[("watch.toml", "all = true\n"), ("open/watch.toml", "all = true\n")]);
    let open = |name: &str, mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(dir.path(name), mode).expect("own file");
    };
    open("watch.toml", 0o666);
    open("open", 0o777);
    for file in ["watch.toml", "open/watch.toml"] {
        let error = dir.rejection(&["watch", "--config", file]);
        assert!(error.contains("other users can write"), "{error}");
    }
    open("open", 0o1777);
    dir.success(&["watch", "--check-config", "open/watch.toml"]);
    std::os::unix::fs::chown(dir.path("open/watch.toml"), Some(65534), None).expect("root");
    dir.rejection(&["watch", "--check-config", "open/watch.toml"]);
}

#[test]
fn lines_for_journald_have_priorities_and_no_times() {
    let (busy, dir) = (Process::busy(), Dir::new());
    let run = |args: &[&str]| {
        let file = std::fs::File::create(dir.path("stderr")).expect("a file");
        let of = file.metadata().expect("a file");
        let mut command = Command::new(tool::path());
        command.args(args).env("JOURNAL_STREAM", format!("{}:{}", of.dev(), of.ino()));
        command.env(linux::undo::STATE_VARIABLE, dir.path("state"));
        command.stdout(Stdio::null()).stderr(file).status().expect("evenkeel starts");
        dir.read("stderr")
    };
    let error = run(&["watch", "--pid", "4194304"]);
    assert_eq!(error, "<3>there is no process 4194304\n");
    let pid = busy.pid().to_string();
    let text = run(&["watch", "--pid", &pid, "--policy", MIGRATES_ONLY_JOB, "--for", "3s"]);
    assert!(text.lines().any(|line| line.starts_with("<6>attached: ")), "{text}");
    for line in text.lines() {
        assert!(["<4>", "<5>", "<6>"].iter().any(|start| line.starts_with(start)), "{text}");
    }
}

#[test]
fn systemd_is_notified_of_the_start_and_of_the_end() {
    let (busy, dir) = (Process::busy(), Dir::new());
    let socket = std::os::unix::net::UnixDatagram::bind(dir.path("notify")).expect("a socket");
    let pid = busy.pid().to_string();
    let mut command =
        dir.command_with_state(&["watch", "--pid", &pid, "--for", "100ms", "--quiet"]);
    let status = command.env("NOTIFY_SOCKET", dir.path("notify")).status();
    assert!(status.expect("evenkeel starts").success());
    let mut message = [0; 64];
    for expected in ["READY=1", "STOPPING=1"] {
        let n = socket.recv(&mut message).expect("a message");
        assert_eq!(String::from_utf8_lossy(&message[..n]).trim(), expected);
    }
}
