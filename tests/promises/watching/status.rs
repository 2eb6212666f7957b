//! `evenkeel status` prints all running evenkeel processes, killed ones until their settings are restored, and one line per
//! unreadable state file.

use std::os::unix::fs::PermissionsExt;

use tests::folder::Folder;
use tests::process::wait_for;

use super::{Process, Signal, tool};

/// Output of `evenkeel` with the state in this folder.
fn run_evenkeel(folder: &Folder, args: &[&str]) -> std::process::Output {
    folder.command_with_state(args).output().expect("it starts")
}

fn exit_status(folder: &Folder, args: &[&str]) -> Option<i32> {
    run_evenkeel(folder, args).status.code()
}

fn watch(folder: &Folder, pid: &str, args: &[&str]) -> Process {
    let all = [&["watch", "--pid", pid, "--quiet"], args].concat();
    Process::new(&mut folder.command_with_state(&all))
}

/// Output of `status --json` when it has `n` entries and the condition holds for all.
fn until(
    folder: &Folder,
    n: usize,
    holds: impl Fn(&serde_json::Value) -> bool,
) -> serde_json::Value {
    wait_for("the states", || {
        let output = run_evenkeel(folder, &["status", "--json"]);
        let all: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let found = all.as_array().expect("a list");
        (found.len() == n && found.iter().all(&holds)).then_some(all)
    })
}

#[test]
fn two_watches_and_a_run_are_listed_separately() {
    let folder = Folder::new();
    let busy = Process::busy();
    let pid = busy.pid().to_string();
    let watches = [(); 2].map(|()| watch(&folder, &pid, &["--policy", "dfs[interval=100ms]"]));
    let text = "[[job]]\nname = \"one\"\ncommand = [\"sleep\", \"600\"]\nclass = 3\n";
    folder.write("w.toml", text);
    let run = ["run", "w.toml", "--quiet", "--out", "out", "--policy", "dfs[interval=100ms]"];
    let run = Process::new(&mut folder.command_with_state(&run));
    let is_full = |status: &serde_json::Value| {
        let managed = status["state"]["managed"].as_array();
        status["writer"] == "running" && managed.is_some_and(|all| all.len() == 1)
    };
    let all = until(&folder, 3, is_full);
    let states = |kind: &str| {
        let all = all.as_array().expect("a list");
        all.iter().filter(|one| one["state"]["kind"] == kind).cloned().collect::<Vec<_>>()
    };
    assert_eq!((states("watch").len(), states("run").len()), (2, 1));
    let state_of_run = states("run")[0]["state"].clone();
    assert_eq!(
        (state_of_run["n_known"].as_u64(), state_of_run["pid"].as_u64()),
        (Some(1), Some(run.pid().into()))
    );
    assert_eq!(state_of_run["managed"][0]["name"], "one");
    let text = tool::text(&run_evenkeel(&folder, &["status"]).stdout);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(
        text.contains("evenkeel run") && text.contains("jobs            1, 1 running"),
        "{text}"
    );
    watches.iter().chain([&run]).for_each(|process| process.signal(Signal::TERM));
    until(&folder, 0, |_| true);
}

#[test]
fn a_killed_process_is_listed_until_its_settings_are_restored() {
    let folder = Folder::new();
    let busy = Process::busy();
    let pid = busy.pid().to_string();
    let kill_one = |args: &[&str]| {
        let watch = watch(&folder, &pid, args);
        until(&folder, 1, |status| status["writer"] == "running");
        drop(watch);
        until(&folder, 1, |status| status["writer"] == "exited");
    };
    kill_one(&["--act"]);
    let killed = run_evenkeel(&folder, &["status"]);
    assert_eq!(killed.status.code(), Some(1));
    assert!(tool::text(&killed.stdout).contains("run evenkeel restore"));
    assert_eq!(exit_status(&folder, &["restore", "--dry-run"]), Some(0));
    until(&folder, 1, |status| status["writer"] == "exited");
    assert_eq!(exit_status(&folder, &["restore"]), Some(0));
    let none = run_evenkeel(&folder, &["status"]);
    assert_eq!(none.status.code(), Some(0));
    assert!(tool::text(&none.stdout).contains("no evenkeel process of this user"));
    // A killed process that changed nothing needs no restore; the next watch removes its state file.
    kill_one(&[]);
    assert_eq!(exit_status(&folder, &["status"]), Some(0));
    let watch = watch(&folder, &pid, &[]);
    until(&folder, 1, |status| status["writer"] == "running");
    drop(watch);
}

#[test]
fn an_invalid_state_file_gives_one_line_with_the_remedy() {
    let check = |text: &str, expected: &str| {
        let folder = Folder::new();
        // Created by evenkeel, with the required mode.
        assert_eq!(exit_status(&folder, &["watch", "--all", "--for", "1ms", "-q"]), Some(0));
        folder.write("state/a.state.json", text);
        let output = run_evenkeel(&folder, &["status"]);
        let stderr = tool::text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}: {stderr}");
        assert!(stderr.contains(expected) && stderr.lines().count() == 1, "{text}: {stderr}");
    };
    check("", "remove it");
    check("{\"evenkeel_state\": 3, \"tool\"", "remove it");
    check("{\"evenkeel_state\": 3}", "remove it");
    check("[1, 2]", "remove it");
    let old = "{\"evenkeel_state\": 1, \"tool\": \"0.1.7\"}";
    check(old, "has format 1; use the evenkeel version that wrote it (0.1.7)");
    check("{\"evenkeel_state\": 99}", "has format 99");
}

#[test]
fn states_of_another_boot_or_in_an_unsafe_folder_are_ignored() {
    let folder = Folder::new();
    let busy = Process::busy();
    let pid = busy.pid().to_string();
    let watch = watch(&folder, &pid, &[]);
    let all = until(&folder, 1, |status| status["writer"] == "running");
    drop(watch);
    let mut one = all[0]["state"].clone();
    one["boot_id"] = "another".into();
    let path = all[0]["path"].as_str().expect("a path");
    std::fs::write(path, one.to_string()).expect("permitted");
    assert_eq!(exit_status(&folder, &["status"]), Some(0));
    assert!(!std::path::Path::new(path).exists(), "it is removed");
    std::fs::write(path, all[0]["state"].to_string()).expect("permitted");
    until(&folder, 1, |status| status["writer"] == "exited");
    let mode = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(folder.path("state"), mode).expect("permitted");
    until(&folder, 0, |_| true);
}

#[test]
fn an_unsafe_state_folder_is_reported_with_exit_status_1() {
    let (wide, file) = (Folder::new(), Folder::with(&[("state", "")]));
    std::fs::create_dir(wide.path("state")).expect("permitted");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(wide.path("state"), mode).expect("permitted");
    for folder in [wide, file] {
        let output = run_evenkeel(&folder, &["status"]);
        let stderr = tool::text(&output.stderr);
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
        assert!(stderr.contains(&folder.arg("state")), "{stderr}");
        assert_eq!(tool::text(&output.stdout), "", "the running processes are unknown");
    }
    assert_eq!(
        exit_status(&Folder::new(), &["status"]),
        Some(0),
        "without a state file there is no folder"
    );
}
