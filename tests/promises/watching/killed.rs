//! A watch may be killed at any moment: what it left is put back by `restore`, to the last child.
//!
//! The kills fall on counted moments, as those of runs do: before each record, after it, after the change, and
//! so on through the giving back. Moment 1, 2, 3 … until a watch comes to its own end: then all were tried.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{BURN, PATIENCE, Program, affinity, mask, tool, two_cpus};

/// One busy program with a class loads one place and not the other, and this reading moves it then.
const POLICY: &str = "dfs[interval=50ms,domains=core,only_job=move,cooldown=0]";
/// More moments than this there are not.
const MOMENTS_MAX: u32 = 60;

#[test]
fn killed_at_any_counted_moment_it_leaves_nothing_that_restore_does_not_put_back() {
    let Some((all, _)) = two_cpus() else { return };
    if !cfg!(debug_assertions) {
        return;
    }
    let program = Program::shell(&format!("sleep 600 & {BURN}"));
    let pid = program.pid();
    let children = || linux::procfs::children("/".as_ref(), pid, pid).unwrap_or_default();
    let begun = Instant::now();
    while children().is_empty() {
        assert!(begun.elapsed() < PATIENCE, "it starts nobody");
        std::thread::sleep(Duration::from_millis(5));
    }
    for moment in 1..MOMENTS_MAX {
        let world = tempfile::tempdir().expect("a folder");
        let evenkeel = |args: &[&str]| {
            let mut command = tool::command(args);
            command.env("EVENKEEL_STATE_DIR", world.path().join("state"));
            command
        };
        let was_killed = watch_until_killed(
            evenkeel(&["watch", "--act", "--pid", &pid.to_string(), "--class", "*=8", "--quiet"]),
            moment,
            pid,
        );
        if was_killed {
            let restored = evenkeel(&["restore"]).output().expect("it starts");
            let said = tool::text(&restored.stdout);
            assert_eq!(restored.status.code(), Some(0), "moment {moment}: {said}");
        }
        for one in children().into_iter().chain([pid]) {
            assert_eq!(affinity::get(one).expect("it lives"), all, "{one} at moment {moment}");
        }
        if !was_killed {
            println!("{} moments", moment - 1);
            assert!(4 < moment, "too few moments: {moment}");
            return;
        }
    }
    panic!("there are more than {MOMENTS_MAX} moments");
}

/// Watches until the program is placed, and ends that in order, unless the moment comes first.
fn watch_until_killed(mut command: Command, moment: u32, pid: u32) -> bool {
    command.args(["--policy", POLICY]).env(linux::fault::VARIABLE, format!("kill-at:{moment}"));
    let mut watch = Program::new(&mut command);
    let begun = Instant::now();
    let mut is_told = false;
    loop {
        if let Some(status) = watch.0.try_wait().expect("ours") {
            assert!(status.success() || status.signal() == Some(9), "{status}");
            return !status.success();
        }
        if !is_told && mask(pid).len() == 1 {
            let its = Pid::from_raw(watch.pid().cast_signed()).expect("a number");
            kill_process(its, Signal::TERM).expect("ours");
            is_told = true;
        }
        assert!(begun.elapsed() < PATIENCE, "it is neither placed nor killed");
        std::thread::sleep(Duration::from_millis(5));
    }
}
