//! The same promises kept by the program itself: what a terminal, a shell and a kill do to it.

use std::process::{Child, Command, Stdio};

use rustix::process::Signal;

use super::play::{World, lives, signal};
use crate::tool;

/// A run of the program that is ended when the test is over.
pub struct Run {
    pub child: Child,
    pub world: World,
}

impl Run {
    /// Starts `evenkeel run` on a workload, by way of a shell command that ends in `"$@"`.
    pub fn start(workload: &str, args: &[&str], shell: &str) -> Self {
        let world = World::new();
        std::fs::write(world.path("test.toml"), workload).expect("ours");
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

    /// What a job has written, once it has so many lines.
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
        panic!("{file} never had {n_lines} lines");
    }

    pub fn end(mut self) -> (std::process::ExitStatus, String, World) {
        let mut errors = String::new();
        let mut pipe = self.child.stderr.take().expect("it was asked for");
        std::io::Read::read_to_string(&mut pipe, &mut errors).expect("text");
        let status = self.child.wait().expect("our child");
        (status, errors, self.world)
    }
}

pub fn gone(pids: &[u32]) -> bool {
    (0..10_000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(5));
        !pids.iter().any(|&pid| lives(pid))
    })
}

/// As [`FAMILY`], with one that has neither the group nor the environment of its job.
const HIDDEN: &str = r#"
    [[job]]
    name = "a"
    shell = "echo $$; env -i setsid sh -c 'echo $$; exec sleep 600' & wait"
"#;

#[test]
fn with_the_wish_to_die_together_what_hides_does_not_survive_either() {
    let run = Run::start(HIDDEN, &["--die-with-me", "--quiet"], "exec \"$@\"");
    let pids = run.lines("a.out", 2);
    // Until it has been seen, and the keeper was told.
    let seen = format!("\"pid\":{}", pids[1]);
    let journal = run.world.path("out/journal.jsonl");
    while !std::fs::read_to_string(&journal).is_ok_and(|text| text.contains(&seen)) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    signal(run.child.id(), Signal::KILL);
    run.end();
    assert!(gone(&pids), "{pids:?}");
}

/// Two processes: one in the group of its job, one in a session of its own. Both say their number.
const FAMILY: &str = r#"
    [[job]]
    name = "a"
    shell = "echo $$; setsid sh -c 'echo $$; exec sleep 600' & wait"
"#;

#[test]
fn without_the_wish_to_die_together_jobs_live_on_after_a_kill_and_restore_frees_them() {
    let Some((all, ..)) = super::play::two_cpus() else { return };
    let run = Run::start(FAMILY, &["--policy", "spread", "--quiet"], "exec \"$@\"");
    let pids = run.lines("a.out", 2);
    signal(run.child.id(), Signal::KILL);
    let (_, _, world) = run.end();
    let mut restore = tool::command(&["restore", "--json"]);
    let output =
        restore.env(linux::undo::STATE_VARIABLE, world.path("state")).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(said["files"][0]["verdict"], "settled");
    for &pid in &pids {
        assert!(lives(pid));
        assert_eq!(super::play::mask(pid).as_ref(), Some(&all), "{said}");
    }
    pids.iter().for_each(|&pid| signal(pid, Signal::KILL));
}

#[test]
fn with_the_wish_to_die_together_nothing_of_a_job_survives_a_kill() {
    let run = Run::start(FAMILY, &["--die-with-me", "--quiet"], "exec \"$@\"");
    let pids = run.lines("a.out", 2);
    signal(run.child.id(), Signal::KILL);
    run.end();
    assert!(gone(&pids), "{pids:?}");
}

#[test]
fn a_second_interrupt_kills_what_ignores_the_first() {
    let stubborn =
        "[[job]]\nname = \"a\"\nshell = \"trap '' TERM; echo $$; while :; do sleep 600; done\"\n";
    // Where this test runs in the background the interrupt is ignored; a terminal would not do that.
    let run = Run::start(
        stubborn,
        &["--grace", "10min", "--quiet"],
        "exec env --default-signal=INT \"$@\"",
    );
    let pids = run.lines("a.out", 1);
    signal(run.child.id(), Signal::INT);
    // Until it was told to end: its sleep, which does not ignore it, is another one then.
    signal(run.child.id(), Signal::INT);
    let child = run.child.id();
    for _ in 0..1000 {
        std::thread::sleep(std::time::Duration::from_millis(20));
        if !lives(pids[0]) {
            break; // One that came later would find nobody who waits for it.
        }
        signal(child, Signal::INT);
    }
    let (_, _, world) = run.end();
    assert!(gone(&pids));
    assert_eq!(std::fs::read_dir(world.path("state")).map_or(0, Iterator::count), 0);
    assert!(world.path("out/report.json").is_file(), "the partial report is written");
}

#[test]
fn with_few_descriptors_the_run_says_so_and_goes_on() {
    let many = "[[job]]\nname = \"a\"\nshell = \"i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; sleep 1\"\ncopies = 40\n";
    for limit in [200, 64] {
        let shell = format!("ulimit -n {limit}; exec \"$@\"");
        let run = Run::start(many, &["--quiet"], &shell);
        let (status, errors, world) = run.end();
        assert!(status.success(), "{limit}: {errors}");
        let journal = std::fs::read_to_string(world.path("out/journal.jsonl")).expect("a journal");
        assert!(journal.contains("opening their files each time"), "{limit}: it says so");
        assert_eq!(limit == 64, journal.contains("asked ten times a second"), "{limit}");
    }
}

#[test]
fn a_hang_up_that_the_user_wants_ignored_ends_nothing() {
    let run = Run::start(FAMILY, &["--quiet"], "trap '' HUP; exec \"$@\"");
    let pids = run.lines("a.out", 2);
    signal(run.child.id(), Signal::HUP);
    signal(pids[0], Signal::HUP);
    // Both signals are delivered by the time that a later one has ended the run.
    assert!(pids.iter().all(|&pid| lives(pid)));
    signal(run.child.id(), Signal::TERM);
    let (_, errors, _) = run.end();
    assert!(gone(&pids), "{errors}");
}

#[test]
fn what_cannot_run_is_told_before_anything_is_started() {
    let first = "[[job]]\nname = \"fine\"\nshell = \"touch started\"\n[[job]]\nname = \"b\"\n";
    for (line, said) in [
        ("command = [\"no-such-program\"]", "no-such-program"),
        ("command = [\"/etc/passwd\"]", "executed"),
        ("command = [\"true\"]\ndir = \"nowhere\"", "nowhere"),
        ("command = [\"true\"]\ninput = \"nothing\"", "nothing"),
        ("command = [\"true\"]\ninput = \"pipe\"", "neither a file"),
        ("command = [\"true\"]\noutput = \"pipe\"", "neither a file"),
        ("command = [\"true\"]\ncpus = \"4000\"", "4000"),
        ("command = [\"true\"]\nnodes = \"900\"", "node"),
        ("command = [\"true\"]\nmemory = \"bind:900\"", "node"),
    ] {
        let shell = "mkfifo pipe; exec \"$@\"";
        let run = Run::start(&format!("{first}{line}\n"), &["--quiet"], shell);
        let (status, errors, world) = run.end();
        assert_eq!(status.code(), Some(2), "{line}: {errors}");
        assert_eq!(errors.lines().count(), 1, "{line}: {errors}");
        assert!(errors.contains("test.toml:4") && errors.contains(said), "{line}: {errors}");
        assert!(!world.path("started").exists(), "{line}");
    }
}
