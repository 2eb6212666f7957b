//! `evenkeel watch -- CMD`: a program that evenkeel starts and manages.

use std::process::Output;

use rustix::process::Signal;
use tests::dir::Dir;
use tests::evenkeel::{EvenkeelWatch, MIGRATES_ONLY_JOB};
use tests::process::{is_running, signal, until};
use tests::tool;

use super::BURN;

fn watch(args: &[&str]) -> Output {
    let dir = Dir::new();
    dir.command_with_state(&[&["watch"], args].concat()).output().expect("it starts")
}

#[test]
fn the_watch_ends_with_its_program_and_has_its_exit_status() {
    for (script, status) in [("echo a", 0), ("echo a; exit 3", 3), ("echo a; kill -9 $$", 137)] {
        let output = watch(&["--quiet", "--", "sh", "-c", script]);
        assert_eq!(output.status.code(), Some(status), "{script}");
        assert_eq!(tool::text(&output.stdout), "a\n", "the output of the program only");
    }
}

#[test]
fn the_program_and_its_descendants_are_managed_and_a_remaining_child_does_not_delay_the_end() {
    let dir = Dir::new();
    let script = format!(
        "sh -c '{BURN}' & echo $! > {child}; while [ ! -e {end} ]; do sleep 0.05; done; exit 4",
        child = dir.arg("child"),
        end = dir.arg("end"),
    );
    let args = ["--policy", MIGRATES_ONLY_JOB, "--act", "--", "sh", "-c", &script];
    let mut watch = EvenkeelWatch::new(&args);
    let child = || dir.text("child").trim().parse::<u32>().ok();
    watch.until("the child", |status| {
        let managed = status["managed"].as_array();
        managed.is_some_and(|all| {
            all.iter().any(|process| child().is_some_and(|child| process["pid"] == child))
        })
    });
    dir.write("end", "");
    assert_eq!(watch.wait().1, Some(4));
    let child = child().expect("the script wrote it");
    assert!(is_running(child), "a descendant is not signaled");
    signal(child, Signal::KILL);
}

#[test]
fn a_stop_signal_ends_the_watch_and_its_program() {
    let dir = Dir::new();
    let script = format!("echo $$ > {}; exec sleep 600", dir.arg("pid"));
    let mut watch = EvenkeelWatch::new(&["--", "sh", "-c", &script]);
    watch.until("its first state", |status| status["n_known"].as_u64().is_some());
    until("the PID", || dir.text("pid").ends_with('\n'));
    let pid: u32 = dir.read("pid").trim().parse().expect("a number");
    assert_eq!(watch.end().1, Some(143), "the program ended by SIGTERM");
    assert!(!is_running(pid));
}
