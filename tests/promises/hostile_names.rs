//! Every command that prints, with names that contain control sequences, line ends and bidirectional controls.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output};

use rustix::process::Signal;
use tests::dir::Dir;
use tests::evenkeel::{EvenkeelRun, MIGRATES_ONLY_JOB};
use tests::process::{Process, until};
use tests::tool;

/// At most 15 bytes, the length of the name of a process.
const HOSTILE: &str = "\u{1b}]0;\u{7}\n\u{9b}\u{202e}\u{200b}";

/// Checks that the output of a command controls no terminal. A rejected command prints one line.
fn check(what: &str, output: &Output) {
    for stream in [&output.stdout, &output.stderr] {
        let text = tool::text(stream);
        let hidden = text.chars().find(|c| *c != '\n' && !base::is_printable(*c));
        assert_eq!(hidden, None, "{what}: {text:?}");
    }
    let n_lines = tool::text(&output.stderr).lines().count();
    assert!(output.status.code() != Some(2) || n_lines == 1, "{what}: {n_lines} lines");
}

/// A directory with a hostile name, in which `sleep` also has a hostile name.
struct Hostile {
    _parent: Dir,
    dir: Dir,
}

impl Hostile {
    fn new() -> Self {
        let parent = Dir::new();
        let path = parent.path(HOSTILE);
        fs::create_dir(&path).expect("a directory");
        let dir = Dir::inside(&path);
        let sleep = host_live::find_program("sleep".as_ref(), "/".as_ref(), &path_variable());
        fs::copy(sleep.expect("a program"), dir.path(HOSTILE)).expect("permitted");
        Hostile { _parent: parent, dir }
    }

    fn run(&self, args: &[&str]) -> Output {
        let output = self.dir.command_with_state(args).output().expect("evenkeel starts");
        check(&format!("{args:?}"), &output);
        output
    }
}

fn path_variable() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

#[test]
fn commands_that_read_processes_escape_their_names() {
    let hostile = Hostile::new();
    let mut sleep = Command::new(hostile.dir.path(HOSTILE));
    let process = Process::spawn(sleep.arg("600"));
    let comm = || fs::read(format!("/proc/{}/comm", process.pid())).unwrap_or_default();
    until("exec", || comm().starts_with(HOSTILE.as_bytes()));
    let pid = process.pid().to_string();
    hostile.run(&["record", "--pid", &pid, "--for", "300ms", "-o", "r.stream"]);
    hostile.run(&["replay", "r.stream"]);
    hostile.run(&["replay", "r.stream", "--json"]);
    hostile.run(&["watch", "--pid", &pid, "--for", "500ms", "--journal", "j.jsonl"]);
    let mut watch = hostile.dir.command_with_state(&["watch", "--pid", &pid, "--for", "1min"]);
    let watch = watch.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let watch = watch.spawn().expect("evenkeel starts");
    until("a state file", || tool::text(&hostile.run(&["status", "--json"]).stdout).contains(&pid));
    hostile.run(&["status"]);
    tests::process::signal(watch.id(), Signal::TERM);
    check("watch", &watch.wait_with_output().expect("own child"));
    for args in
        [&["explain", "j.jsonl"][..], &["report", "j.jsonl"], &["report", "j.jsonl", "--json"]]
    {
        hostile.run(args);
    }
    hostile.run(&["profile", "--engine", "counters", "--", &hostile.dir.arg(HOSTILE), "0.1"]);
}

#[test]
fn a_killed_run_of_a_hostile_program_is_restored_and_reported_with_escapes() {
    let Hostile { _parent, dir } = Hostile::new();
    let program = toml_text(dir.path(HOSTILE).as_os_str().as_bytes());
    let text = format!("[[job]]\nname = \"a\"\nclass = 8\ncommand = [{program}, \"600\"]\n");
    dir.write("w.toml", &text);
    let mut run = EvenkeelRun::new(dir, &text, &["--policy", MIGRATES_ONLY_JOB]);
    run.wait_for_start(1);
    let hostile = |dir: &Dir, args: &[&str]| {
        check(&format!("{args:?}"), &dir.command_with_state(args).output().expect("it starts"));
    };
    hostile(&run.dir, &["status"]);
    run.end_by(Signal::KILL);
    assert!(run.output.chars().all(|c| c == '\n' || base::is_printable(c)), "{:?}", run.output);
    for args in [
        &["restore", "--dry-run"][..],
        &["restore", "--json"],
        &["explain", "out"],
        &["report", "out"],
    ] {
        hostile(&run.dir, args);
    }
}

/// Returns a TOML string.
fn toml_text(bytes: &[u8]) -> String {
    let text = String::from_utf8(bytes.to_vec()).expect("UTF-8");
    let escape = |c: char| format!("\\U{:08x}", u32::from(c));
    format!("\"{}\"", text.chars().map(escape).collect::<String>())
}

#[test]
fn errors_escape_arguments_paths_and_the_content_of_files() {
    let hostile = Hostile::new();
    let name = HOSTILE;
    hostile.dir.write("h.toml", format!("\"{name}\" = 1\n[[job]]\n"));
    hostile.dir.write("k.toml", "\"\\u001b[2J\\u202e\" = 1\n");
    hostile.dir.write("h.csv", format!("\"{name}\",b\n1,2\n"));
    hostile.dir.write("h.jsonl", format!("{{\"journal\":2,\"{name}\":1}}\n"));
    for file in [name, "h.toml", "k.toml", "h.csv", "h.jsonl", "absent\u{1b}"] {
        for command in [
            &["run", file][..],
            &["run", "--host", "sim", file],
            &["run", "w", "--out", file, "--host", "sim", "--machine", file],
            &["compare", file, "--host", "sim"],
            &["tune", "-p", file, "--param", file, file],
            &["tune", "-p", "dfs", "--param", file, file],
            &["watch", "--journal", file, "--for", "1ms", "--command", file],
            &["machine", "--file", file],
            &["predict", "--machine", "xeon-2x4", "--programs", file, file],
            &["generate", "--list", file, "--out", file],
            &["explain", file],
            &["report", file],
            &["replay", file],
            &["calibrate", file],
            &["record", "--pid", file],
            &["reproduce", file],
            &["policies", file],
            &["load", file],
            &["profile", "--output", file, "--", file],
            &["restore", file],
            &["status", file],
            &[file],
        ] {
            hostile.run(command);
        }
    }
}

#[test]
fn an_error_about_an_unknown_file_quotes_nothing_of_its_content() {
    let secret = "root:$6$secretsecret:20228:0:99999:7:::\nsecret = \"secretsecret\"\n";
    let dir = Dir::with(&[("secret", secret), ("secret.toml", secret), ("secret.csv", secret)]);
    dir.write("numbers", "1 secretsecret /x\n");
    for file in ["secret", "secret.toml", "secret.csv", "numbers"] {
        for command in [
            &["run", file][..],
            &["compare", file, "--host", "sim"],
            &["tune", "-p", "dfs", file],
            &["machine", "--file", file],
            &["run", "--host", "sim", "--machine", file, "w.toml"],
            &["predict", "--machine", file, "--programs", file, "x"],
            &["predict", "--machine", "xeon-2x4", "--programs", file, "x"],
            &["generate", "--list", file],
            &["explain", file],
            &["report", file],
            &["replay", file],
            &["calibrate", file],
        ] {
            let output = dir.run(command);
            let error = tool::text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{command:?}: {error}");
            assert!(!error.contains("secretsecret"), "{command:?}: {error}");
        }
    }
}

#[test]
fn a_planted_state_directory_is_ignored_with_one_note_and_the_same_exit_status() {
    if !rustix::process::geteuid().is_root() {
        println!("not run: only root can mount a file system");
        return;
    }
    let dir = Dir::new();
    // The executable may be below /tmp.
    let script =
        "mount -t tmpfs none /run && cp \"$3\" /run/tool && mount -t tmpfs none /tmp || exit 99
        mkdir /tmp/evenkeel-0 && chown 65534 /tmp/evenkeel-0
        for command in restore status; do /run/tool $command; echo \"status $?\"; done
        rmdir /tmp/evenkeel-0; ln -s /etc /tmp/evenkeel-0; chown -h 65534 /tmp/evenkeel-0
        /run/tool restore; echo \"status $?\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "--propagation", "private", "sh", "-c", script, "sh", "x", "y"]);
    let output = command.arg(tool::path()).current_dir(dir.root()).output().expect("unshare");
    let (stdout, stderr) = (tool::text(&output.stdout), tool::text(&output.stderr));
    if output.status.code() == Some(99) {
        println!("not run: {stderr}");
        return;
    }
    assert_eq!(stdout.matches("status 0").count(), 3, "{stdout}{stderr}");
    assert_eq!(stderr.matches("ignoring /tmp/evenkeel-0").count(), 3, "{stderr}");
    assert_eq!(stderr.lines().count(), 3, "{stderr}");
}
