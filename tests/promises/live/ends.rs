//! How runs and jobs come to their end, whatever happens at that moment.

use base::Nanos;
use rustix::process::Signal;
use sched::ExitStatus;

use super::command::{Run, gone};
use super::play::{Play, World, lives, signal};

/// A file that may be executed and is no program: it fails at the last step of its start.
fn no_program(world: &World) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(world.path("broken"), "nothing\n").expect("ours");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(world.path("broken"), mode).expect("ours");
}

/// With `--fail-fast`: the middle one of three jobs that are due together cannot start.
fn check_fail_fast(broken: &str) {
    let world = World::new();
    no_program(&world);
    let sleeps = |name| format!("[[job]]\nname = \"{name}\"\ncommand = [\"sleep\", \"600\"]\n");
    let text = format!("{}[[job]]\nname = \"bad\"\n{broken}\n{}", sleeps("a"), sleeps("c"));
    let mut play = Play::within(world, &text, |options| options.fail_fast = true);
    let pids = [play.begin("a"), play.begin("c")];
    play.finish();
    for name in ["a", "c"] {
        assert_eq!(play.ends(name)[0].status, ExitStatus::Signaled(15), "{broken}: {name}");
    }
    assert!(!pids.into_iter().any(lives));
}

#[test]
fn with_fail_fast_who_starts_together_with_a_job_that_cannot_is_ended_with_the_run() {
    check_fail_fast("command = [\"./broken\"]");
    check_fail_fast("command = [\"true\"]\noutput = \"no/such/folder\"");
}

#[test]
fn a_job_that_is_due_again_when_the_last_of_the_others_ends_is_not_started_any_more() {
    let mut play = Play::new(
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
    let pids = [play.begin("again"), play.begin("last")];
    // So old that its end is taken notice of at once.
    play.until("some age", |play| {
        play.story.last().is_some_and(|scene| Nanos::from_millis(300) < scene.turn.at)
    });
    for pid in pids {
        signal(pid, Signal::KILL);
        while lives(pid) {
            std::thread::yield_now();
        }
    }
    play.finish();
    assert_eq!((play.ends("again").len(), play.ends("last").len()), (1, 1));
}

#[test]
fn how_jobs_ended_is_known_even_where_our_parent_wanted_no_word_of_its_children() {
    let text = "[[job]]\nname = \"a\"\nshell = \"sleep 0.2; exit 3\"\n";
    let run = Run::start(text, &["--quiet"], "trap '' CHLD; exec \"$@\"");
    let (status, errors, world) = run.end();
    assert_eq!(status.code(), Some(1), "{errors}");
    let report: serde_json::Value =
        serde_json::from_str(&world.read("out/report.json")).expect("JSON");
    assert_eq!(report["jobs"][0]["exit_status"], 3, "{report}");
}

#[test]
fn a_kill_of_one_run_ends_nothing_of_another_even_if_neither_has_an_undo_record() {
    let text = "[[job]]\nname = \"a\"\nshell = \"echo $$; exec sleep 600\"\n";
    // The folder for the record cannot be made: a file has its name.
    let start = || Run::start(text, &["--quiet", "--die-with-me"], "touch state; exec \"$@\"");
    let (one, other) = (start(), start());
    let pids = [one.lines("a.out", 1)[0], other.lines("a.out", 1)[0]];
    signal(one.child.id(), Signal::KILL);
    one.end();
    assert!(gone(&pids[..1]));
    // The keeper of the killed run has ended everything that it takes for its own by the time that a
    // second killed run's keeper has.
    let third = start();
    let pid = third.lines("a.out", 1);
    signal(third.child.id(), Signal::KILL);
    third.end();
    assert!(gone(&pid) && lives(pids[1]));
    signal(other.child.id(), Signal::TERM);
    other.end();
}

#[test]
fn a_pipe_in_the_place_of_a_file_stops_nobody() {
    let world = World::new();
    for name in ["pipe", "b.out"] {
        rustix::fs::mknodat(
            rustix::fs::CWD,
            world.path(name),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .expect("ours");
    }
    let text = "[[job]]\nname = \"a\"\ncommand = [\"cat\"]\ninput = \"pipe\"\n\
                [[job]]\nname = \"b\"\ncommand = [\"true\"]\n\
                [[job]]\nname = \"c\"\ncommand = [\"true\"]\n";
    let mut play = Play::within(world, text, |_| {});
    play.finish();
    assert_eq!(["a", "b", "c"].map(|name| play.ends(name).len()), [0, 0, 1]);
}
