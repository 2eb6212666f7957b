//! `evenkeel run` as a process: effects of a terminal, a shell and signals.

use std::process::{Child, Command, Stdio};

use rustix::process::Signal;

use super::live_run::{World, is_running, signal};
use crate::tool;

/// An `evenkeel run` process.
pub struct Run {
    pub child: Child,
    pub world: World,
}

impl Run {
    /// Starts `evenkeel run` with a workload, through a shell command that ends in `"$@"`.
    pub fn start(workload: &str, args: &[&str], shell: &str) -> Self {
        let world = World::new();
        std::fs::write(world.path("test.toml"), workload).expect("writable");
        let mut command = Command::new("sh");
        command.args(["-c", shell, "sh"]).arg(tool::path()).args([
            "run",
            "test.toml",
            "--out",
            "out",
        ]);
        command.args(args).current_dir(world.folder.path());
        command.env(linux::undo::STATE_VARIABLE, world.path("state"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("a shell");
        Run { child, world }
    }

    /// The output of a job, as soon as it has this many lines.
    pub fn lines(&self, file: &str, n_lines: usize) -> Vec<u32> {
        for _ in 0..10_000 {
            let text = std::fs::read_to_string(self.world.path("out/jobs").join(file));
            let text = text.unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            if n_lines <= lines.len() && text.ends_with('\n') {
                return lines.iter().filter_map(|line| line.parse().ok()).collect();
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("timeout: {file} has fewer than {n_lines} lines");
    }

    pub fn end(mut self) -> (std::process::ExitStatus, String, World) {
        let mut errors = String::new();
        let mut pipe = self.child.stderr.take().expect("piped");
        std::io::Read::read_to_string(&mut pipe, &mut errors).expect("text");
        let status = self.child.wait().expect("a child of this process");
        (status, errors, self.world)
    }
}

pub fn have_exited(pids: &[u32]) -> bool {
    (0..10_000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(5));
        !pids.iter().any(|&pid| is_running(pid))
    })
}

/// Like [`FAMILY`]; the second process has neither the process group nor the environment of its job.
const HIDDEN: &str = r#"
    [[job]]
    name = "a"
    shell = "echo $$; env -i setsid sh -c 'echo $$; exec sleep 600' & wait"
"#;

#[test]
fn with_kill_on_exit_a_process_outside_its_jobs_group_and_environment_is_killed_too() {
    let run = Run::start(HIDDEN, &["--kill-on-exit", "--quiet"], "exec \"$@\"");
    let pids = run.lines("a.out", 2);
    // The journal contains it, so the supervisor process knows it.
    let pid_field = format!("\"pid\":{}", pids[1]);
    let journal = run.world.path("out/journal.jsonl");
    while !std::fs::read_to_string(&journal).is_ok_and(|text| text.contains(&pid_field)) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    signal(run.child.id(), Signal::KILL);
    run.end();
    assert!(have_exited(&pids), "{pids:?}");
}

/// Two processes that print their PID: one in the process group of the job, one in its own session.
const FAMILY: &str = r#"
    [[job]]
    name = "a"
    shell = "echo $$; setsid sh -c 'echo $$; exec sleep 600' & wait"
"#;

#[test]
fn without_kill_on_exit_jobs_survive_a_kill_and_restore_restores_their_affinity() {
    let Some((all, ..)) = super::live_run::two_cpus() else { return };
    let run = Run::start(FAMILY, &["--policy", "spread", "--quiet"], "exec \"$@\"");
    let pids = run.lines("a.out", 2);
    signal(run.child.id(), Signal::KILL);
    let (_, _, world) = run.end();
    let mut restore = tool::command(&["restore", "--json"]);
    let output =
        restore.env(linux::undo::STATE_VARIABLE, world.path("state")).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["files"][0]["verdict"], "settled");
    for &pid in &pids {
        assert!(is_running(pid));
        assert_eq!(super::live_run::mask(pid).as_ref(), Some(&all), "{json}");
    }
    pids.iter().for_each(|&pid| signal(pid, Signal::KILL));
}

#[test]
fn with_kill_on_exit_no_process_of_a_job_survives_a_kill() {
    let run = Run::start(FAMILY, &["--kill-on-exit", "--quiet"], "exec \"$@\"");
    let pids = run.lines("a.out", 2);
    signal(run.child.id(), Signal::KILL);
    run.end();
    assert!(have_exited(&pids), "{pids:?}");
}

#[test]
fn a_second_sigint_kills_jobs_that_ignore_sigterm() {
    let ignores_sigterm =
        "[[job]]\nname = \"a\"\nshell = \"trap '' TERM; echo $$; while :; do sleep 600; done\"\n";
    // A background job of a shell ignores SIGINT, and this test can run in one.
    let run = Run::start(
        ignores_sigterm,
        &["--grace", "10min", "--quiet"],
        "exec env --default-signal=INT \"$@\"",
    );
    let pids = run.lines("a.out", 1);
    signal(run.child.id(), Signal::INT);
    // The shell ignores SIGTERM; only its current `sleep` exits.
    signal(run.child.id(), Signal::INT);
    let child = run.child.id();
    for _ in 0..1000 {
        std::thread::sleep(std::time::Duration::from_millis(20));
        if !is_running(pids[0]) {
            break; // A process that is signaled after its exit is not reaped.
        }
        signal(child, Signal::INT);
    }
    let (_, _, world) = run.end();
    assert!(have_exited(&pids));
    assert_eq!(std::fs::read_dir(world.path("state")).map_or(0, Iterator::count), 0);
    assert!(world.path("out/report.json").is_file(), "the partial report is written");
}

#[test]
fn with_a_low_descriptor_limit_the_run_reports_it_and_continues() {
    let many = "[[job]]\nname = \"a\"\nshell = \"i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; sleep 1\"\ncopies = 40\n";
    for limit in [200, 64] {
        let shell = format!("ulimit -n {limit}; exec \"$@\"");
        let run = Run::start(many, &["--quiet"], &shell);
        let (status, errors, world) = run.end();
        assert!(status.success(), "{limit}: {errors}");
        let journal = std::fs::read_to_string(world.path("out/journal.jsonl")).expect("a journal");
        assert!(journal.contains("opened for each sample"), "{limit}");
        assert_eq!(limit == 64, journal.contains("polled ten times a second"), "{limit}");
    }
}

#[test]
fn an_ignored_sighup_ends_neither_run_nor_jobs() {
    let run = Run::start(FAMILY, &["--quiet"], "trap '' HUP; exec \"$@\"");
    let pids = run.lines("a.out", 2);
    signal(run.child.id(), Signal::HUP);
    signal(pids[0], Signal::HUP);
    // Both signals are delivered before the SIGTERM below ends the run.
    assert!(pids.iter().all(|&pid| is_running(pid)));
    signal(run.child.id(), Signal::TERM);
    let (_, errors, _) = run.end();
    assert!(have_exited(&pids), "{errors}");
}

#[test]
fn a_job_that_cannot_start_is_an_error_before_any_job_starts() {
    let first = "[[job]]\nname = \"fine\"\nshell = \"touch started\"\n[[job]]\nname = \"b\"\n";
    for (line, part) in [
        ("command = [\"no-such-program\"]", "no-such-program"),
        ("command = [\"/etc/passwd\"]", "executed"),
        ("command = [\"true\"]\ndir = \"nowhere\"", "nowhere"),
        ("command = [\"true\"]\ninput = \"nothing\"", "nothing"),
        ("command = [\"true\"]\ninput = \"pipe\"", "neither a regular file"),
        ("command = [\"true\"]\noutput = \"pipe\"", "neither a regular file"),
        ("command = [\"true\"]\ncpus = \"4000\"", "4000"),
        ("command = [\"true\"]\nnodes = \"900\"", "node"),
        ("command = [\"true\"]\nmemory = \"bind:900\"", "node"),
    ] {
        let shell = "mkfifo pipe; exec \"$@\"";
        let run = Run::start(&format!("{first}{line}\n"), &["--quiet"], shell);
        let (status, errors, world) = run.end();
        assert_eq!(status.code(), Some(2), "{line}: {errors}");
        assert_eq!(errors.lines().count(), 1, "{line}: {errors}");
        assert!(errors.contains("test.toml:4") && errors.contains(part), "{line}: {errors}");
        assert!(!world.path("started").exists(), "{line}");
    }
}
