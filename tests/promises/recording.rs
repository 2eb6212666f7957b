//! A recording ends what it started, and all that came of it, whichever way it ends; nobody else.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::tool;

/// A machine that is busy takes its time.
const PATIENCE: Duration = Duration::from_secs(60);

/// A child, one that left the group and its parent, and one that goes on after the shell.
const FAMILY: &str = "sleep 3311 & echo $! >> pids; setsid sleep 3312 & echo $! >> pids; \
    (sleep 3313 & echo $! >> pids); echo $$ >> pids; sleep 3314";

fn record(folder: &Path, args: &[&str]) -> std::process::Child {
    let mut command = tool::command(&["record", "--output", "s.stream"]);
    command.args(args).current_dir(folder).stdout(std::process::Stdio::null());
    command.spawn().expect("it starts")
}

/// The processes that the family told of, once all four have.
fn pids(folder: &Path) -> Vec<u32> {
    let begun = Instant::now();
    loop {
        let text = std::fs::read_to_string(folder.join("pids")).unwrap_or_default();
        let pids: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        if pids.len() == 4 {
            return pids;
        }
        assert!(begun.elapsed() < PATIENCE, "{text}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn lives(pid: u32) -> bool {
    linux::procfs::stat("/".as_ref(), pid).is_ok_and(|stat| stat.state != 'Z')
}

fn assert_all_ended(pids: &[u32]) {
    let left: Vec<&u32> = pids.iter().filter(|pid| lives(**pid)).collect();
    assert!(left.is_empty(), "{left:?} of {pids:?} are left");
}

#[test]
fn a_family_is_ended_with_the_time_of_its_recording() {
    let folder = tempfile::tempdir().expect("a folder");
    let args = ["--for", "1s", "--", "sh", "-c", FAMILY];
    let mut child = record(folder.path(), &args);
    let pids = pids(folder.path());
    assert!(child.wait().expect("ours").success());
    assert_all_ended(&pids);
}

#[test]
fn a_family_is_ended_with_a_recording_that_is_told_to_end() {
    use rustix::process::Signal;
    // A signal that this test was started with as ignored is ignored by the child as well.
    let is_heeded = |signal: &Signal| !linux::system::is_ignored(signal.as_raw());
    for signal in [Signal::TERM, Signal::INT, Signal::HUP].into_iter().filter(is_heeded) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut child = record(folder.path(), &["--", "sh", "-c", FAMILY]);
        let pids = pids(folder.path());
        let raw = rustix::process::Pid::from_raw(child.id().cast_signed()).expect("a number");
        rustix::process::kill_process(raw, signal).expect("ours");
        assert!(child.wait().expect("ours").success());
        assert_all_ended(&pids);
        let stream = linux::stream::read(&folder.path().join("s.stream"));
        stream.expect("what was recorded until then can be read");
    }
}

/// `nohup` starts a program with SIGHUP ignored.
#[test]
fn a_recording_started_with_an_ignored_signal_ignores_it() {
    use rustix::process::{Signal, kill_process};
    let folder = tempfile::tempdir().expect("a folder");
    let script = format!(
        "trap '' HUP; exec '{}' record --output s.stream -- sh -c '{FAMILY}'",
        tool::path().display()
    );
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script]).current_dir(folder.path()).stdout(std::process::Stdio::null());
    let mut child = command.spawn().expect("it starts");
    let pids = pids(folder.path());
    let pid = rustix::process::Pid::from_child(&child);
    kill_process(pid, Signal::HUP).expect("the signal is sent");
    std::thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().expect("permitted").is_none(), "SIGHUP ended it");
    kill_process(pid, Signal::TERM).expect("the signal is sent");
    assert!(child.wait().expect("permitted").success());
    assert_all_ended(&pids);
}

#[test]
fn without_a_time_a_recording_ends_with_its_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let begun = Instant::now();
    let mut child = record(folder.path(), &["--interval", "300s", "--", "sleep", "0.2"]);
    assert!(child.wait().expect("ours").success());
    assert!(begun.elapsed() < PATIENCE, "it waited for the next look");
}

/// A shell that becomes the last command of its line leaves that its background jobs.
#[test]
fn children_that_a_shell_left_us_are_not_ours_to_end() {
    for line in [
        "record --for 200ms --output s.stream -- sleep 30",
        "profile --once --refs 100K --windows 1 --no-html --output p.toml -- true",
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let tool = tool::path();
        let script = format!(
            "sleep 3315 >/dev/null 2>&1 & echo $! > left; exec '{}' {line}",
            tool.display()
        );
        let mut shell = std::process::Command::new("sh");
        let ended = shell.args(["-c", &script]).current_dir(folder.path()).output();
        let ended = ended.expect("a shell");
        let left = std::fs::read_to_string(folder.path().join("left")).expect("its number");
        let left: u32 = left.trim().parse().expect("a number");
        let is_left = lives(left);
        let raw = rustix::process::Pid::from_raw(left.cast_signed()).expect("a number");
        let _ = rustix::process::kill_process(raw, rustix::process::Signal::KILL);
        let said = tool::text(&ended.stderr);
        if said.contains("valgrind") && !ended.status.success() {
            println!("not run in part: {said}");
            continue;
        }
        assert!(ended.status.success() && is_left, "{line}: {said}");
    }
}
