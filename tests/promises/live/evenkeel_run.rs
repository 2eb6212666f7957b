//! `evenkeel run` as a process: terminal, shell, signals, and processes that continue after the end of their job.

use rustix::process::Signal;
use tests::dir::Dir;
use tests::evenkeel::EvenkeelRun;
use tests::live_run::LiveRun;
use tests::process::{is_running, mask, signal, two_cpus, until};
use tests::tool;

fn run(workload: &str, args: &[&str]) -> EvenkeelRun {
    EvenkeelRun::new(Dir::new(), workload, args)
}

fn run_by_shell(workload: &str, args: &[&str], shell: &str) -> EvenkeelRun {
    EvenkeelRun::by_shell(shell, Dir::new(), workload, args)
}

fn wait_until_exited(pids: &[u32]) {
    until("the exit of all processes", || !pids.iter().any(|&pid| is_running(pid)));
}

/// Two processes like [`FAMILY`]; the second process has neither the process group nor the environment of its job.
const HIDDEN: &str = r#"
    [[job]]
    name = "a"
    shell = "echo $$; env -i setsid sh -c 'echo $$; exec sleep 600' & wait"
"#;

#[test]
fn with_kill_on_exit_a_process_outside_its_jobs_group_and_environment_is_killed_too() {
    let mut run = run(HIDDEN, &["--kill-on-exit", "--quiet"]);
    let pids = run.printed("a", 2);
    // The journal contains the process, so the process is in the list of the supervisor process.
    run.wait_for_journal(&format!("\"pid\":{}", pids[1]));
    run.end_by(Signal::KILL);
    wait_until_exited(&pids);
}

/// Two processes that print their PID: one in the process group of the job, one in its own session.
const FAMILY: &str = r#"
    [[job]]
    name = "a"
    shell = "echo $$; setsid sh -c 'echo $$; exec sleep 600' & wait"
"#;

#[test]
fn without_kill_on_exit_jobs_survive_a_kill_and_restore_restores_their_affinity() {
    let Some((all, ..)) = two_cpus() else { return };
    let mut run = run(FAMILY, &["--policy", "spread", "--quiet"]);
    let pids = run.printed("a", 2);
    run.end_by(Signal::KILL);
    let output = run.dir.command_with_state(&["restore", "--json"]).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["files"][0]["verdict"], "complete");
    for &pid in &pids {
        assert!(is_running(pid));
        assert_eq!(mask(pid).as_ref(), Some(&all), "{json}");
    }
    pids.iter().for_each(|&pid| signal(pid, Signal::KILL));
}

#[test]
fn with_kill_on_exit_no_process_of_a_job_survives_a_kill() {
    let mut run = run(FAMILY, &["--kill-on-exit", "--quiet"]);
    let pids = run.printed("a", 2);
    run.end_by(Signal::KILL);
    wait_until_exited(&pids);
}

#[test]
fn a_second_sigint_kills_jobs_that_ignore_sigterm() {
    let ignores_sigterm =
        "[[job]]\nname = \"a\"\nshell = \"trap '' TERM; echo $$; while :; do sleep 600; done\"\n";
    // A background job of a shell ignores SIGINT, and this test may run as a background job.
    let mut run = run_by_shell(
        ignores_sigterm,
        &["--grace", "10min", "--quiet"],
        "exec env --default-signal=INT \"$@\"",
    );
    let pids = run.printed("a", 1);
    signal(run.pid(), Signal::INT);
    // The shell ignores SIGTERM; only its current `sleep` exits.
    signal(run.pid(), Signal::INT);
    for _ in 0..1000 {
        std::thread::sleep(std::time::Duration::from_millis(20));
        if !is_running(pids[0]) {
            break; // A process that is signaled after its exit is not reaped.
        }
        signal(run.pid(), Signal::INT);
    }
    run.wait();
    wait_until_exited(&pids);
    assert_eq!(run.records().len(), 0);
    assert!(run.dir.path("out/report.json").is_file(), "the partial report is written");
}

#[test]
fn with_a_low_descriptor_limit_the_run_prints_a_note_and_continues() {
    let many = "[[job]]\nname = \"a\"\nshell = \"i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; sleep 1\"\ncopies = 40\n";
    for limit in [200, 64] {
        let shell = format!("ulimit -n {limit}; exec \"$@\"");
        let mut run = run_by_shell(many, &["--quiet"], &shell);
        assert!(run.wait().success(), "{limit}: {}", run.output);
        let journal = run.journal();
        assert!(journal.contains("opened for each sample"), "{limit}");
        assert_eq!(limit == 64, journal.contains("polled ten times a second"), "{limit}");
    }
}

#[test]
fn an_ignored_sighup_ends_neither_run_nor_jobs() {
    let mut run = run_by_shell(FAMILY, &["--quiet"], "trap '' HUP; exec \"$@\"");
    let pids = run.printed("a", 2);
    signal(run.pid(), Signal::HUP);
    signal(pids[0], Signal::HUP);
    // Both signals are delivered before the SIGTERM below ends the run.
    assert!(pids.iter().all(|&pid| is_running(pid)));
    run.end_by(Signal::TERM);
    wait_until_exited(&pids);
}

#[test]
fn a_process_started_by_an_orphan_during_its_end_is_ended() {
    let mut run = LiveRun::new(
        r#"
        [[job]]
        name = "a"
        shell = """
        sh -c 'trap "setsid sleep 600 & echo \\$!; exit" TERM; echo $$; while :; do sleep 0.05; done' &
        while [ ! -s a.out ]; do sleep 0.05; done
        """
        "#,
    );
    run.finish();
    let output = run.dir.read("a.out");
    assert_eq!(output.lines().count(), 2, "{output}");
    assert!(!output.lines().any(|pid| is_running(pid.parse().expect("a number"))), "{output}");
}

/// Job `a` leaves a process that has neither the process group nor the environment of the job. Job `b` runs at the same
/// time.
const UNASSIGNED: &str = r#"
    [[job]]
    name = "a"
    shell = "sleep 0.1; (env -i setsid sh -c 'echo $$; exec sleep 600' &); while [ ! -s out/jobs/a.out ]; do sleep 0.05; done"
    [[job]]
    name = "b"
    command = ["true"]
"#;

#[test]
fn a_process_without_group_and_environment_of_its_job_is_ended_with_the_run_and_reported() {
    let mut run = run(UNASSIGNED, &["--quiet"]);
    run.expect_status(0);
    let pid = run.dir.read("out/jobs/a.out").trim().parse().expect("a number");
    assert!(!is_running(pid));
    // The job of the process is known only if the process was sampled before its parent exited.
    let journal = run.journal();
    let is_reported = journal.contains("without a known job");
    assert!(is_reported || journal.contains("\"n_remaining\":1"), "{journal}");
}

#[test]
fn a_process_without_group_and_environment_is_assigned_to_the_job_if_there_is_only_one() {
    let text = "[[job]]\nname = \"a\"\nshell = \"(env -i setsid sh -c 'echo $$; exec sleep 600' &); while [ ! -s out/jobs/a.out ]; do sleep 0.05; done\"\n";
    let mut run = run(text, &["--quiet"]);
    run.expect_status(0);
    let pid = run.dir.read("out/jobs/a.out").trim().parse().expect("a number");
    assert!(!is_running(pid));
    let report: serde_json::Value =
        serde_json::from_str(&run.dir.read("out/report.json")).expect("JSON");
    let n_remaining = &report["jobs"][0]["n_remaining"];
    assert_eq!(*n_remaining, 1, "{}", report["jobs"][0]);
}

/// A shell starts a background process and executes evenkeel, as the start script of a container does. The background
/// process leaves an orphan while the run is active.
#[test]
fn processes_that_are_children_of_evenkeel_before_its_first_job_are_neither_bound_nor_ended() {
    let Some((all, ..)) = two_cpus() else { return };
    let service = "echo $$ > child; while [ ! -e out/jobs ]; do sleep 0.05; done\n\
                   (setsid sh -c 'echo $$ > orphan; exec sleep 600' &); exec sleep 600\n";
    let job = "[[job]]\nname = \"a\"\nshell = \"while [ ! -s orphan ]; do sleep 0.05; done; sleep 0.7\"\n";
    for copies in [1, 2] {
        let text = format!("{job}copies = {copies}\n");
        let shell = "sh service > /dev/null 2>&1 & exec \"$@\"";
        let args = ["--quiet", "--policy", "spread"];
        let dir = Dir::with(&[("service", service)]);
        let mut run = EvenkeelRun::by_shell(shell, dir, &text, &args);
        run.expect_status(0);
        for name in ["child", "orphan"] {
            let pid = run.dir.read(name).trim().parse().expect("a PID");
            assert_eq!(mask(pid).as_ref(), Some(&all), "{name}: it runs on its CPUs");
            signal(pid, Signal::KILL);
        }
    }
}

/// A process that Drop kills, also after a failed assertion.
struct KillAtEnd(u32);

impl Drop for KillAtEnd {
    fn drop(&mut self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.0.cast_signed()) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
}

/// A program whose main thread exits while another thread uses CPU time. `None` without a perl with threads.
fn without_main_thread() -> Option<String> {
    let number = match std::env::consts::ARCH {
        "x86_64" => 60,
        _ => 93, // The number of exit(2) on other architectures of evenkeel.
    };
    let script = format!("$t = threads->create(sub {{ 1 while 1 }}); syscall({number}, 0)");
    let perl = std::process::Command::new("perl").args(["-Mthreads", "-e", "1"]).output();
    if !perl.is_ok_and(|output| output.status.success()) {
        println!("not run: needs perl with threads");
        return None;
    }
    Some(format!("perl -Mthreads -e '{script}'"))
}

#[test]
fn a_process_whose_main_thread_has_exited_is_restored_after_a_kill_and_ended_with_its_job() {
    let (Some((all, ..)), Some(program)) = (two_cpus(), without_main_thread()) else { return };
    let has_exited = |pid: u32| {
        let stat = linux::procfs::stat("/".as_ref(), pid);
        stat.is_ok_and(|stat| stat.state == 'Z')
    };
    let thread_of = |pid: u32| {
        let threads = linux::procfs::threads("/".as_ref(), pid).expect("it is running");
        *threads.iter().find(|tid| **tid != pid).expect("another thread")
    };
    let job = format!("echo $$; exec {program}");
    // An orphan in a session of its own is found by its environment, which only the other thread still has.
    let orphan = format!("(setsid sh -c 'echo $$; exec \"$@\"' sh {program} &); exec sleep 600");
    for shell in [job, orphan] {
        let text = format!(
            "[[job]]\nname = \"a\"\nshell = \"\"\"{shell}\"\"\"\n\
             [[job]]\nname = \"b\"\nshell = \"sleep 600\"\n"
        );
        let mut killed = run(&text, &["--policy", "spread", "--quiet"]);
        let pid = killed.printed("a", 1)[0];
        let _program = KillAtEnd(pid);
        until("the exit of the main thread", || has_exited(pid));
        until("the placement", || mask(thread_of(pid)).is_some_and(|mask| mask != all));
        killed.end_by(Signal::KILL);
        let output = killed.dir.command_with_state(&["restore"]).output().expect("it runs");
        assert!(output.status.success(), "{output:?}");
        assert_eq!(mask(thread_of(pid)).as_ref(), Some(&all), "{output:?}");
    }

    let text = format!(
        "[[job]]\nname = \"a\"\nshell = \"\"\"sh -c 'echo $$; exec \"$@\"' sh {program} & sleep 3\"\"\"\n\
         [[job]]\nname = \"b\"\nshell = \"sleep 3\"\n"
    );
    let mut ended = run(&text, &["--policy", "spread", "--quiet"]);
    let pid = ended.printed("a", 1)[0];
    let _second = KillAtEnd(pid);
    until("the exit of the main thread", || has_exited(pid));
    ended.expect_status(0);
    wait_until_exited(&[pid]);
}

#[test]
fn cpu_time_of_an_orphan_counts_for_its_job() {
    // The job itself uses almost no CPU time; the orphan counts to a hundred thousand.
    let mut run = LiveRun::new(
        r#"
        [[job]]
        name = "a"
        shell = """
        (setsid sh -c 'echo $$; while [ ! -e go ]; do sleep 0.05; done
            i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; times >&2' &)
        while [ ! -s a.err ] || [ -e /proc/$(cat a.out)/exe ]; do sleep 0.05; done
        """
        "#,
    );
    run.until("the orphan", |run| {
        let pid = run.dir.text("a.out");
        let tasks = run.turns.iter().flat_map(|turn| &turn.sample.tasks);
        pid.trim().parse().is_ok_and(|pid: u32| tasks.into_iter().any(|task| task.process == pid))
    });
    run.dir.write("go", "");
    run.finish();
    let output = run.dir.read("a.err");
    let user = output.split_whitespace().next().and_then(|time| time.strip_prefix("0m"));
    let user: f64 = user.and_then(|t| t.trim_end_matches('s').parse().ok()).expect("seconds");
    let end = run.exits("a")[0];
    assert!(0.02 < user && user * 1e9 <= (end.user.0 + 20_000_000) as f64, "{user} {end:?}");
}

#[test]
fn a_quiet_run_that_fails_or_is_stopped_prints_one_line() {
    let check = |job: &str, args: &[&str], expected: &str| {
        let dir = Dir::with(&[("w.toml", &format!("[[job]]\n{job}\n"))]);
        let args = [&["run", "w.toml", "--quiet", "--out", "out"], args].concat();
        let output = dir.command_with_state(&args).output().expect("it runs");
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{job}");
        let text = tool::text(&output.stderr);
        assert!(text.starts_with(&format!("evenkeel: {expected} after ")), "{job}: {text}");
        assert!(text.ends_with("; evenkeel report out/ prints the details\n"), "{job}: {text}");
        assert_eq!(text.lines().count(), 1, "{job}: {text}");
    };
    check("command = [\"false\"]", &[], "1 of 1 job failed (false: exit status 1)");
    let failed = "2 of 2 jobs failed (sh: exit status 3; sh.2: exit status 3)";
    check("name = \"sh\"\nshell = \"exit 3\"\ncopies = 2", &[], failed);
    let stopped = "stopped at the time limit";
    check("command = [\"sleep\", \"60\"]", &["--time-limit", "200ms"], stopped);
    let output = Dir::new().command_with_state(&["run", "-q", "--", "false"]).output();
    let stderr = tool::text(&output.expect("it runs").stderr);
    assert!(stderr.starts_with("evenkeel: 1 of 1 job failed (false: exit status 1)"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn the_cpu_of_a_job_that_ends_before_the_first_interval_is_reported() {
    let dir = Dir::new();
    let run = ["run", "--json", "--policy", "linux", "--", "true"];
    let output = dir.command_with_state(&run).output().expect("it runs");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let cpus = report["jobs"][0]["cpus_used"].as_str().expect("a CPU");
    let cpus: base::CpuSet = cpus.parse().expect("CPUs");
    assert!(!cpus.is_empty() && cpus.is_subset(&tests::process::all_cpus()), "{report}");
}

#[test]
fn a_quiet_run_that_cannot_place_its_jobs_prints_the_reason() {
    let dir = Dir::with(&[("w.toml", "[[job]]\ncommand = [\"true\"]\n")]);
    std::fs::create_dir(dir.path("state")).expect("a directory");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.path("state"), mode).expect("permitted");
    let output = dir.command_with_state(&["run", "w.toml", "--quiet"]).output().expect("it runs");
    let stderr = tool::text(&output.stderr);
    assert!(output.status.success() && stderr.lines().count() == 1, "{stderr}");
    assert!(stderr.contains("jobs are not placed") && stderr.contains("mode 0755"), "{stderr}");
    assert!(!stderr.contains("remove"), "{stderr}");
}
