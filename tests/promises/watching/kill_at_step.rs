//! `evenkeel watch` killed at any step: `restore` undoes all its changes, for every child.
//!
//! `EVENKEEL_FAULT=kill-at:N` kills the watch at its N-th step: before each undo record, after the record, after the
//! change, and during the restoration at its end. N increases from 1 until a watch exits regularly.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use rustix::process::Signal;
use tests::dir::Dir;
use tests::process::{self, wait_for};

use super::{BURN, Process, affinity, mask, tool, two_cpus, until};

/// A single program with a class loads only one core. This policy migrates the program.
const POLICY: &str = "dfs[interval=50ms,domains=core,only_job=move,cooldown=0]";
/// Upper bound of the number of steps.
const N_STEPS_MAX: u32 = 60;

#[test]
fn after_a_kill_at_any_step_restore_undoes_all_changes() {
    let Some((all, _)) = two_cpus() else { return };
    if !cfg!(debug_assertions) {
        return;
    }
    let program = Process::shell(&format!("sleep 600 & {BURN}"));
    let pid = program.pid();
    let children = || process::children(pid);
    until("a child", || !children().is_empty());
    for step in 1..N_STEPS_MAX {
        let dir = Dir::new();
        let evenkeel = |args: &[&str]| dir.command_with_state(args);
        let was_killed = watch_until_killed(
            evenkeel(&["watch", "--act", "--pid", &pid.to_string(), "--class", "*=8", "--quiet"]),
            step,
            pid,
        );
        if was_killed {
            let restored = evenkeel(&["restore"]).output().expect("it starts");
            let output = tool::text(&restored.stdout);
            assert_eq!(restored.status.code(), Some(0), "step {step}: {output}");
        }
        for one in children().into_iter().chain([pid]) {
            assert_eq!(affinity::get(one).expect("it is running"), all, "{one} at step {step}");
        }
        if !was_killed {
            println!("{} steps", step - 1);
            assert!(4 < step, "too few steps: {step}");
            return;
        }
    }
    panic!("more than {N_STEPS_MAX} steps");
}

/// Watches until the program is placed, then ends the watch with SIGTERM. Returns whether the watch was killed at
/// `step` before.
fn watch_until_killed(mut command: Command, step: u32, pid: u32) -> bool {
    command.args(["--policy", POLICY]).env(linux::fault::VARIABLE, format!("kill-at:{step}"));
    let mut watch = Process::new(&mut command);
    let mut is_signaled = false;
    wait_for("a placement or an exit", || {
        if let Some(status) = watch.0.try_wait().expect("permitted") {
            assert!(status.success() || status.signal() == Some(9), "{status}");
            return Some(!status.success());
        }
        if !is_signaled && mask(pid).len() == 1 {
            watch.signal(Signal::TERM);
            is_signaled = true;
        }
        None
    })
}
