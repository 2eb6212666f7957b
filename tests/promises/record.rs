//! `evenkeel record` terminates the started program and all of its descendants, and no other process.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tests::dir::Dir;
use tests::process::{TIMEOUT, is_running, signal, wait_for};
use tests::tool;

/// A shell with a child, a child in another session, and an orphan. All four processes write their PIDs.
const FAMILY: &str = "sleep 3311 & echo $! >> pids; setsid sleep 3312 & echo $! >> pids; \
    (sleep 3313 & echo $! >> pids); echo $$ >> pids; sleep 3314";

fn record(dir: &Dir, args: &[&str]) -> Child {
    let mut command = dir.command(&["record", "--output", "s.stream"]);
    command.args(args).stdout(Stdio::null()).spawn().expect("it starts")
}

/// Waits for the PIDs of the four processes and returns them.
fn pids(dir: &Dir) -> Vec<u32> {
    wait_for("four PIDs", || {
        let text = dir.text("pids");
        let pids: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        (pids.len() == 4).then_some(pids)
    })
}

fn assert_all_ended(pids: &[u32]) {
    let remaining: Vec<&u32> = pids.iter().filter(|pid| is_running(**pid)).collect();
    assert!(remaining.is_empty(), "{remaining:?} of {pids:?} are left");
}

#[test]
fn all_descendants_are_ended_after_the_recording_time() {
    let dir = Dir::new();
    let args = ["--for", "1s", "--", "sh", "-c", FAMILY];
    let mut child = record(&dir, &args);
    let pids = pids(&dir);
    assert!(child.wait().expect("permitted").success());
    assert_all_ended(&pids);
}

#[test]
fn all_descendants_are_ended_when_a_signal_ends_the_recording() {
    // If this test was started with an ignored signal, its child ignores the signal too.
    let is_handled = |signal: &Signal| !linux::system::is_ignored(signal.as_raw());
    for by in [Signal::TERM, Signal::INT, Signal::HUP].into_iter().filter(is_handled) {
        let dir = Dir::new();
        let mut child = record(&dir, &["--", "sh", "-c", FAMILY]);
        let pids = pids(&dir);
        signal(child.id(), by);
        assert!(child.wait().expect("permitted").success());
        assert_all_ended(&pids);
        let stream = linux::stream::read(&dir.path("s.stream"));
        stream.expect("the recording until then is readable");
    }
}

/// A command that is started by `nohup` ignores SIGHUP from its start.
#[test]
fn a_recording_started_with_an_ignored_signal_ignores_it() {
    let dir = Dir::new();
    let script = format!(
        "trap '' HUP; exec '{}' record --output s.stream -- sh -c '{FAMILY}'",
        tool::path().display()
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(dir.root()).stdout(Stdio::null());
    let mut child = command.spawn().expect("it starts");
    let pids = pids(&dir);
    signal(child.id(), Signal::HUP);
    std::thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().expect("permitted").is_none(), "SIGHUP ended it");
    signal(child.id(), Signal::TERM);
    assert!(child.wait().expect("permitted").success());
    assert_all_ended(&pids);
}

#[test]
fn a_recording_without_a_time_limit_ends_with_its_program() {
    let dir = Dir::new();
    let begun = Instant::now();
    let mut child = record(&dir, &["--interval", "300s", "--", "sleep", "0.2"]);
    assert!(child.wait().expect("permitted").success());
    assert!(begun.elapsed() < TIMEOUT, "it waited for the next sample");
}

/// A shell that executes its last command without fork leaves its background jobs to this command as children.
#[test]
fn children_inherited_from_a_shell_are_not_ended() {
    for line in [
        "record --for 200ms --output s.stream -- sleep 30",
        "profile --once --refs 100K --windows 1 --no-html --output p.toml -- true",
    ] {
        let dir = Dir::new();
        let script = format!(
            "sleep 3315 >/dev/null 2>&1 & echo $! > inherited; exec '{}' {line}",
            tool::path().display()
        );
        let mut shell = Command::new("sh");
        let ended = shell.args(["-c", &script]).current_dir(dir.root()).output();
        let ended = ended.expect("a shell");
        let inherited: u32 = dir.read("inherited").trim().parse().expect("a number");
        let is_unchanged = is_running(inherited);
        signal(inherited, Signal::KILL);
        let stderr = tool::text(&ended.stderr);
        if stderr.contains("valgrind") && !ended.status.success() {
            println!("skipped in part: {stderr}");
            continue;
        }
        assert!(ended.status.success() && is_unchanged, "{line}: {stderr}");
    }
}

#[test]
fn a_process_that_cannot_be_read_is_named_in_one_line_before_anything_is_recorded() {
    if !cfg!(debug_assertions) {
        return println!("skipped: release builds contain no fault injection");
    }
    let dir = Dir::new();
    let pid = std::process::id().to_string();
    let mut command = dir.command(&["record", "--pid", &pid, "--output", "new.stream"]);
    let output = command.env(linux::fault::VARIABLE, "errors:1:1000").output().expect("it starts");
    let text = tool::text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.starts_with(&format!("evenkeel: cannot read process {pid}: ")), "{text}");
    assert_eq!((text.lines().count(), dir.listing().len()), (1, 0), "{text}");
}
