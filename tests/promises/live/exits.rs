//! Ends of runs and jobs under unusual conditions.

use base::Nanos;
use rustix::process::Signal;
use sched::ExitStatus;
use tests::dir::Dir;
use tests::evenkeel::EvenkeelRun;
use tests::live_run::LiveRun;
use tests::process::{is_running, signal, until};

/// Writes an executable file that is not a program: exec of this file fails.
fn write_broken_program(dir: &Dir) {
    use std::os::unix::fs::PermissionsExt;
    dir.write("broken", "nothing\n");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(dir.path("broken"), mode).expect("permitted");
}

/// Checks `--fail-fast`: three jobs start together, and the second job cannot start.
fn check_fail_fast(broken: &str) {
    let dir = Dir::new();
    write_broken_program(&dir);
    let sleeps = |name| format!("[[job]]\nname = \"{name}\"\ncommand = [\"sleep\", \"600\"]\n");
    let text = format!("{}[[job]]\nname = \"bad\"\n{broken}\n{}", sleeps("a"), sleeps("c"));
    let mut run = LiveRun::within(dir, &text, |options| options.fail_fast = true);
    let pids = [run.wait_until_started("a"), run.wait_until_started("c")];
    run.finish();
    for name in ["a", "c"] {
        assert_eq!(run.exits(name)[0].status, ExitStatus::Signaled(15), "{broken}: {name}");
    }
    assert!(!pids.into_iter().any(is_running));
}

#[test]
fn with_fail_fast_jobs_that_start_together_with_a_broken_job_are_ended() {
    check_fail_fast("command = [\"./broken\"]");
    check_fail_fast("command = [\"true\"]\noutput = \"no/such/directory\"");
}

#[test]
fn a_restarting_job_is_not_restarted_after_the_last_other_job_ends() {
    let mut run = LiveRun::new(
        r#"
        [[job]]
        name = "last"
        command = ["sleep", "600"]
        [[job]]
        name = "again"
        command = ["sleep", "600"]
        restart = "until-others-done"
        "#,
    );
    let pids = [run.wait_until_started("again"), run.wait_until_started("last")];
    // After this time the end of the job is processed immediately.
    run.until("some age", |run| {
        run.turns.last().is_some_and(|turn| Nanos::from_millis(300) < turn.turn.at)
    });
    for pid in pids {
        signal(pid, Signal::KILL);
        while is_running(pid) {
            std::thread::yield_now();
        }
    }
    run.finish();
    assert_eq!((run.exits("again").len(), run.exits("last").len()), (1, 1));
}

#[test]
fn exit_statuses_are_known_even_if_the_parent_ignores_sigchld() {
    let text = "[[job]]\nname = \"a\"\nshell = \"sleep 0.2; exit 3\"\n";
    let shell = "trap '' CHLD; exec \"$@\"";
    let mut run = EvenkeelRun::by_shell(shell, Dir::new(), text, &["--quiet"]);
    run.expect_status(1);
    let report: serde_json::Value =
        serde_json::from_str(&run.dir.read("out/report.json")).expect("JSON");
    assert_eq!(report["jobs"][0]["exit_status"], 3, "{report}");
}

#[test]
fn killing_one_run_does_not_affect_another_even_without_undo_records() {
    let text = "[[job]]\nname = \"a\"\nshell = \"echo $$; exec sleep 600\"\n";
    // The directory of the undo record cannot be created, because a file has its name.
    let start = || {
        let dir = Dir::with(&[("state", "")]);
        EvenkeelRun::new(dir, text, &["--quiet", "--kill-on-exit"])
    };
    let (mut one, mut other) = (start(), start());
    let pids = [one.printed("a", 1)[0], other.printed("a", 1)[0]];
    one.end_by(Signal::KILL);
    until("the exit of its job", || !is_running(pids[0]));
    // The first run received SIGKILL before this run. When the supervisor of this run has killed its job, the
    // supervisor of the first run has finished too.
    let mut third = start();
    let pid = third.printed("a", 1)[0];
    third.end_by(Signal::KILL);
    until("the exit of its job", || !is_running(pid));
    assert!(is_running(pids[1]));
    other.end_by(Signal::TERM);
}

#[test]
fn a_pipe_in_place_of_a_file_blocks_no_other_job() {
    let dir = Dir::new();
    for name in ["pipe", "b.out"] {
        rustix::fs::mknodat(
            rustix::fs::CWD,
            dir.path(name),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .expect("permitted");
    }
    let text = "[[job]]\nname = \"a\"\ncommand = [\"cat\"]\ninput = \"pipe\"\n\
                [[job]]\nname = \"b\"\ncommand = [\"true\"]\n\
                [[job]]\nname = \"c\"\ncommand = [\"true\"]\n";
    let mut run = LiveRun::within(dir, text, |_| {});
    run.finish();
    assert_eq!(["a", "b", "c"].map(|name| run.exits(name).len()), [0, 0, 1]);
}

#[test]
fn the_first_exit_of_a_job_that_restarts_until_all_are_done_is_its_result() {
    let text = r#"
        [defaults]
        restart = "until-all-done"
        [[job]]
        name = "status"
        command = ["false"]
        [[job]]
        name = "signal"
        shell = "kill -KILL $$"
        [[job]]
        name = "fails-later"
        shell = "test -e ran && exit 3; touch ran"
        [[job]]
        name = "slow"
        command = ["sleep", "0.5"]
    "#;
    let mut run = EvenkeelRun::new(Dir::new(), text, &["--quiet"]);
    run.expect_status(1);
    let result = "2 of 4 jobs failed (status: exit status 1; signal: ended by SIGKILL), \
                  2 ended with status 0 after ";
    assert_eq!(run.output.lines().count(), 1, "{}", run.output);
    assert!(run.output.contains(result), "{}", run.output);
}
