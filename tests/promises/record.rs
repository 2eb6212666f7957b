//! `evenkeel record` ends the program that it started with all descendants, and no other process.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::tool;

/// Timeout, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A shell with a child, a child in another session, and an orphan; all write their PIDs.
const FAMILY: &str = "sleep 3311 & echo $! >> pids; setsid sleep 3312 & echo $! >> pids; \
    (sleep 3313 & echo $! >> pids); echo $$ >> pids; sleep 3314";

fn record(folder: &Path, args: &[&str]) -> std::process::Child {
    let mut command = tool::command(&["record", "--output", "s.stream"]);
    command.args(args).current_dir(folder).stdout(std::process::Stdio::null());
    command.spawn().expect("it starts")
}

/// The PIDs of the four processes, as soon as all are written.
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

fn is_running(pid: u32) -> bool {
    linux::procfs::stat("/".as_ref(), pid).is_ok_and(|stat| stat.state != 'Z')
}

fn assert_all_ended(pids: &[u32]) {
    let left: Vec<&u32> = pids.iter().filter(|pid| is_running(**pid)).collect();
    assert!(left.is_empty(), "{left:?} of {pids:?} are left");
}

#[test]
fn all_descendants_are_ended_after_the_recording_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let args = ["--for", "1s", "--", "sh", "-c", FAMILY];
    let mut child = record(folder.path(), &args);
    let pids = pids(folder.path());
    assert!(child.wait().expect("permitted").success());
    assert_all_ended(&pids);
}

#[test]
fn all_descendants_are_ended_when_a_signal_ends_the_recording() {
    use rustix::process::Signal;
    // A signal that this test was started with as ignored is ignored by the child as well.
    let is_handled = |signal: &Signal| !linux::system::is_ignored(signal.as_raw());
    for signal in [Signal::TERM, Signal::INT, Signal::HUP].into_iter().filter(is_handled) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut child = record(folder.path(), &["--", "sh", "-c", FAMILY]);
        let pids = pids(folder.path());
        let raw = rustix::process::Pid::from_raw(child.id().cast_signed()).expect("a number");
        rustix::process::kill_process(raw, signal).expect("permitted");
        assert!(child.wait().expect("permitted").success());
        assert_all_ended(&pids);
        let stream = linux::stream::read(&folder.path().join("s.stream"));
        stream.expect("the recording until then is readable");
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
fn without_a_recording_time_it_ends_with_its_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let begun = Instant::now();
    let mut child = record(folder.path(), &["--interval", "300s", "--", "sleep", "0.2"]);
    assert!(child.wait().expect("permitted").success());
    assert!(begun.elapsed() < PATIENCE, "it waited for the next sample");
}

/// A shell that executes its last command without fork passes its background jobs on to it.
#[test]
fn children_inherited_from_a_shell_are_not_ended() {
    for line in [
        "record --for 200ms --output s.stream -- sleep 30",
        "profile --once --refs 100K --windows 1 --no-html --output p.toml -- true",
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let tool = tool::path();
        let script = format!(
            "sleep 3315 >/dev/null 2>&1 & echo $! > inherited; exec '{}' {line}",
            tool.display()
        );
        let mut shell = std::process::Command::new("sh");
        let ended = shell.args(["-c", &script]).current_dir(folder.path()).output();
        let ended = ended.expect("a shell");
        let inherited = std::fs::read_to_string(folder.path().join("inherited")).expect("its PID");
        let inherited: u32 = inherited.trim().parse().expect("a number");
        let is_unchanged = is_running(inherited);
        let raw = rustix::process::Pid::from_raw(inherited.cast_signed()).expect("a number");
        let _ = rustix::process::kill_process(raw, rustix::process::Signal::KILL);
        let stderr = tool::text(&ended.stderr);
        if stderr.contains("valgrind") && !ended.status.success() {
            println!("skipped in part: {stderr}");
            continue;
        }
        assert!(ended.status.success() && is_unchanged, "{line}: {stderr}");
    }
}
