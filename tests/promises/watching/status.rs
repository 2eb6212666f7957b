//! `evenkeel status` prints all running evenkeel processes, killed processes until their settings are restored, and one
//! line per unreadable state file.

use std::os::unix::fs::PermissionsExt;

use tests::dir::Dir;
use tests::process::wait_for;

use super::{MIGRATES_ONLY_JOB, Process, Signal, tool};

/// Runs `evenkeel` with the state in this directory. Returns the output.
fn run_evenkeel(dir: &Dir, args: &[&str]) -> std::process::Output {
    dir.command_with_state(args).output().expect("it starts")
}

fn exit_status(dir: &Dir, args: &[&str]) -> Option<i32> {
    run_evenkeel(dir, args).status.code()
}

fn watch(dir: &Dir, pid: &str, args: &[&str]) -> Process {
    let all = [&["watch", "--pid", pid, "--quiet"], args].concat();
    Process::new(&mut dir.command_with_state(&all))
}

/// Waits until `status --json` has `n` entries and the condition is true for all entries. Returns the output.
fn until(dir: &Dir, n: usize, holds: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    wait_for("the states", || {
        let output = run_evenkeel(dir, &["status", "--json"]);
        let all: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let found = all.as_array().expect("a list");
        (found.len() == n && found.iter().all(&holds)).then_some(all)
    })
}

#[test]
fn two_watches_and_a_run_are_listed_separately() {
    let dir = Dir::new();
    let busy = Process::busy();
    let pid = busy.pid().to_string();
    let watches = [(); 2].map(|()| watch(&dir, &pid, &["--policy", "dfs[interval=100ms]"]));
    let text = "[[job]]\nname = \"one\"\ncommand = [\"sleep\", \"600\"]\nclass = 3\n";
    dir.write("w.toml", text);
    let run = ["run", "w.toml", "--quiet", "--out", "out", "--policy", "dfs[interval=100ms]"];
    let run = Process::new(&mut dir.command_with_state(&run));
    let is_full = |status: &serde_json::Value| {
        let managed = status["state"]["managed"].as_array();
        status["writer"] == "running" && managed.is_some_and(|all| all.len() == 1)
    };
    let all = until(&dir, 3, is_full);
    let states = |kind: &str| {
        let all = all.as_array().expect("a list");
        all.iter().filter(|process| process["state"]["kind"] == kind).cloned().collect::<Vec<_>>()
    };
    assert_eq!((states("watch").len(), states("run").len()), (2, 1));
    let state_of_run = states("run")[0]["state"].clone();
    assert_eq!(
        (state_of_run["n_known"].as_u64(), state_of_run["pid"].as_u64()),
        (Some(1), Some(run.pid().into()))
    );
    assert_eq!(state_of_run["managed"][0]["name"], "one");
    let text = tool::text(&run_evenkeel(&dir, &["status"]).stdout);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(
        text.contains("evenkeel run") && text.contains("jobs            1, 1 running"),
        "{text}"
    );
    watches.iter().chain([&run]).for_each(|process| process.signal(Signal::TERM));
    until(&dir, 0, |_| true);
}

#[test]
fn a_killed_process_is_listed_until_its_settings_are_restored() {
    let dir = Dir::new();
    let busy = Process::busy();
    let pid = busy.pid().to_string();
    let kill_one = |args: &[&str], is_placed: bool| {
        let watch = watch(&dir, &pid, args);
        let is_due = |status: &serde_json::Value| {
            let row = &status["state"]["managed"][0];
            status["writer"] == "running" && (!is_placed || row["cpus_placed"].is_string())
        };
        until(&dir, 1, is_due);
        drop(watch);
        until(&dir, 1, |status| status["writer"] == "exited" && status["has_changes"] == is_placed);
    };
    kill_one(&["--act", "--class", "*=8", "--policy", MIGRATES_ONLY_JOB], true);
    let killed = run_evenkeel(&dir, &["status"]);
    assert_eq!(killed.status.code(), Some(1));
    assert!(tool::text(&killed.stdout).contains("run evenkeel restore"));
    assert_eq!(exit_status(&dir, &["restore", "--dry-run"]), Some(0));
    until(&dir, 1, |status| status["writer"] == "exited");
    assert_eq!(exit_status(&dir, &["restore"]), Some(0));
    let none = run_evenkeel(&dir, &["status"]);
    assert_eq!(none.status.code(), Some(0));
    assert!(tool::text(&none.stdout).contains("no evenkeel process of this user"));
    // A killed process that changed nothing needs no restore; the next watch removes its state file.
    for args in [&[][..], &["--act", "--policy", "linux"]] {
        kill_one(args, false);
        let killed = run_evenkeel(&dir, &["status"]);
        assert_eq!(killed.status.code(), Some(0));
        let text = tool::text(&killed.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("it was killed and left no changes manages"), "{text}");
        assert_eq!(exit_status(&dir, &["restore"]), Some(0));
    }
    kill_one(&[], false);
    let watch = watch(&dir, &pid, &[]);
    until(&dir, 1, |status| status["writer"] == "running");
    drop(watch);
}

#[test]
fn an_invalid_state_file_gives_one_line_with_the_remedy() {
    let check = |text: &str, expected: &str| {
        let dir = Dir::new();
        // evenkeel creates the directory with the required mode.
        assert_eq!(exit_status(&dir, &["watch", "--all", "--for", "1ms", "-q"]), Some(0));
        dir.write("state/a.state.json", text);
        let output = run_evenkeel(&dir, &["status"]);
        let stderr = tool::text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}: {stderr}");
        assert!(stderr.contains(expected) && stderr.lines().count() == 1, "{text}: {stderr}");
    };
    check("", "remove it");
    check("{\"evenkeel_state\": 4, \"tool\"", "remove it");
    check("{\"evenkeel_state\": 4}", "remove it");
    check("[1, 2]", "remove it");
    let old = "{\"evenkeel_state\": 1, \"tool\": \"0.1.7\"}";
    check(
        old,
        "has format 1, this evenkeel reads format 4 only; another build wrote it (0.1.7): read it",
    );
    check("{\"evenkeel_state\": 99}", "has format 99");
}

#[test]
fn states_of_another_boot_or_in_an_unsafe_directory_are_ignored() {
    let dir = Dir::new();
    let busy = Process::busy();
    let pid = busy.pid().to_string();
    let watch = watch(&dir, &pid, &[]);
    let all = until(&dir, 1, |status| status["writer"] == "running");
    drop(watch);
    let mut state = all[0]["state"].clone();
    state["boot_id"] = "another".into();
    let path = all[0]["path"].as_str().expect("a path");
    std::fs::write(path, state.to_string()).expect("permitted");
    assert_eq!(exit_status(&dir, &["status"]), Some(0));
    assert!(!std::path::Path::new(path).exists(), "it is removed");
    std::fs::write(path, all[0]["state"].to_string()).expect("permitted");
    until(&dir, 1, |status| status["writer"] == "exited");
    let mode = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(dir.path("state"), mode).expect("permitted");
    until(&dir, 0, |_| true);
}

#[test]
fn an_unsafe_state_directory_is_reported_with_exit_status_1() {
    let (wide, file) = (Dir::new(), Dir::with(&[("state", "")]));
    std::fs::create_dir(wide.path("state")).expect("permitted");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(wide.path("state"), mode).expect("permitted");
    for dir in [wide, file] {
        let output = run_evenkeel(&dir, &["status"]);
        let stderr = tool::text(&output.stderr);
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
        assert!(stderr.contains(&dir.arg("state")), "{stderr}");
        assert_eq!(tool::text(&output.stdout), "", "the running processes are unknown");
    }
    assert_eq!(
        exit_status(&Dir::new(), &["status"]),
        Some(0),
        "without a state file there is no directory"
    );
}
