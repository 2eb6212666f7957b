//! How runs and jobs come to their end, whatever happens at that moment.

use sched::ExitStatus;

use super::play::{Play, World, lives};

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
