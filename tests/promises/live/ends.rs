//! How runs and jobs come to their end, whatever happens at that moment.

use base::Nanos;
use rustix::process::Signal;
use sched::ExitStatus;

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
        assert_eq!(play.ends(name)[0].status, ExitStatus::Killed(15), "{broken}: {name}");
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
