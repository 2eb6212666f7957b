//! `evenkeel status` prints all running evenkeel processes, killed ones until their settings are restored, and one line per
//! unreadable state file.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use super::{BURN, PATIENCE, Program, tool};

fn evenkeel(state: &Path, args: &[&str]) -> Command {
    let mut command = tool::command(args);
    command.env("EVENKEEL_STATE_DIR", state);
    command
}

fn run_evenkeel(state: &Path, args: &[&str]) -> Output {
    evenkeel(state, args).output().expect("it starts")
}

/// Output of `status --json` when it has `n` entries and the condition holds for all.
fn until(state: &Path, n: usize, holds: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    let begun = Instant::now();
    loop {
        let output = run_evenkeel(state, &["status", "--json"]);
        let all: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let found = all.as_array().expect("a list");
        if found.len() == n && found.iter().all(&holds) {
            return all;
        }
        assert!(begun.elapsed() < PATIENCE, "{all}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn workload(folder: &Path, text: &str) -> String {
    let path = folder.join("w.toml");
    std::fs::write(&path, text).expect("permitted");
    path.display().to_string()
}

#[test]
fn two_watches_and_a_run_are_listed_separately() {
    let world = tempfile::tempdir().expect("a temporary folder");
    let (state, out) = (world.path().join("state"), world.path().join("out"));
    let busy = Program::shell(BURN);
    let pid = busy.pid().to_string();
    let watch = ["watch", "--pid", &pid, "--quiet", "--policy", "dfs[interval=100ms]"];
    let watches = [(); 2].map(|()| Program::new(&mut evenkeel(&state, &watch)));
    let text = "[[job]]\nname = \"one\"\ncommand = [\"sleep\", \"600\"]\nclass = 3\n";
    let (path, out) = (workload(world.path(), text), out.display().to_string());
    let run = ["run", &path, "--quiet", "--out", &out, "--policy", "dfs[interval=100ms]"];
    let run = Program::new(&mut evenkeel(&state, &run));
    let is_full = |status: &serde_json::Value| {
        let managed = status["state"]["managed"].as_array();
        status["writer"] == "running" && managed.is_some_and(|all| all.len() == 1)
    };
    let all = until(&state, 3, is_full);
    let of = |kind: &str| {
        let all = all.as_array().expect("a list");
        all.iter().filter(|one| one["state"]["kind"] == kind).cloned().collect::<Vec<_>>()
    };
    assert_eq!((of("watch").len(), of("run").len()), (2, 1));
    let state_of_run = of("run")[0]["state"].clone();
    assert_eq!(
        (state_of_run["n_known"].as_u64(), state_of_run["pid"].as_u64()),
        (Some(1), Some(run.pid().into()))
    );
    assert_eq!(state_of_run["managed"][0]["name"], "one");
    let text = tool::text(&run_evenkeel(&state, &["status"]).stdout);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(
        text.contains("evenkeel run") && text.contains("jobs            1, 1 running"),
        "{text}"
    );
    for program in watches.iter().chain([&run]) {
        let pid = rustix::process::Pid::from_raw(program.pid().cast_signed()).expect("a number");
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("permitted");
    }
    until(&state, 0, |_| true);
}

#[test]
fn a_killed_process_is_listed_until_its_settings_are_restored() {
    let world = tempfile::tempdir().expect("a temporary folder");
    let state = world.path().join("state");
    let busy = Program::shell(BURN);
    let pid = busy.pid().to_string();
    let kill_one = |args: &[&str]| {
        let all = [&["watch", "--pid", &pid, "--quiet"], args].concat();
        let watch = Program::new(&mut evenkeel(&state, &all));
        until(&state, 1, |status| status["writer"] == "running");
        drop(watch);
        until(&state, 1, |status| status["writer"] == "exited");
    };
    kill_one(&["--act"]);
    let killed = run_evenkeel(&state, &["status"]);
    assert_eq!(killed.status.code(), Some(1));
    assert!(tool::text(&killed.stdout).contains("run evenkeel restore"));
    assert_eq!(run_evenkeel(&state, &["restore", "--dry-run"]).status.code(), Some(0));
    until(&state, 1, |status| status["writer"] == "exited");
    assert_eq!(run_evenkeel(&state, &["restore"]).status.code(), Some(0));
    let none = run_evenkeel(&state, &["status"]);
    assert_eq!(none.status.code(), Some(0));
    assert!(tool::text(&none.stdout).contains("no evenkeel process of this user"));
    // A killed process that changed nothing needs no restore; the next watch removes its state file.
    kill_one(&[]);
    assert_eq!(run_evenkeel(&state, &["status"]).status.code(), Some(0));
    let watch = Program::new(&mut evenkeel(&state, &["watch", "--pid", &pid, "--quiet"]));
    until(&state, 1, |status| status["writer"] == "running");
    drop(watch);
}

#[test]
fn an_invalid_state_file_gives_one_line_with_the_remedy() {
    let check = |name: &str, text: &str, expected: &str| {
        let world = tempfile::tempdir().expect("a temporary folder");
        let state = world.path().join("state");
        // Created by evenkeel, with the required mode.
        assert_eq!(
            run_evenkeel(&state, &["watch", "--all", "--for", "1ms", "-q"]).status.code(),
            Some(0)
        );
        std::fs::write(state.join(name), text).expect("permitted");
        let output = run_evenkeel(&state, &["status"]);
        let stderr = tool::text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}: {stderr}");
        assert!(stderr.contains(expected) && stderr.lines().count() == 1, "{text}: {stderr}");
    };
    check("a.state.json", "", "remove it");
    check("a.state.json", "{\"evenkeel_state\": 3, \"tool\"", "remove it");
    check("a.state.json", "{\"evenkeel_state\": 3}", "remove it");
    check("a.state.json", "[1, 2]", "remove it");
    let old = "{\"evenkeel_state\": 1, \"tool\": \"0.1.7\"}";
    check("a.state.json", old, "has format 1; use the evenkeel version that wrote it (0.1.7)");
    check("a.state.json", "{\"evenkeel_state\": 99}", "has format 99");
}

#[test]
fn states_of_another_boot_or_in_an_unsafe_folder_are_ignored() {
    let world = tempfile::tempdir().expect("a temporary folder");
    let state = world.path().join("state");
    let busy = Program::shell(BURN);
    let pid = busy.pid().to_string();
    let watch = Program::new(&mut evenkeel(&state, &["watch", "--pid", &pid, "--quiet"]));
    let all = until(&state, 1, |status| status["writer"] == "running");
    drop(watch);
    let mut one = all[0]["state"].clone();
    one["boot_id"] = "another".into();
    let path = all[0]["path"].as_str().expect("a path");
    std::fs::write(path, one.to_string()).expect("permitted");
    assert_eq!(run_evenkeel(&state, &["status"]).status.code(), Some(0));
    assert!(!Path::new(path).exists(), "it is removed");
    std::fs::write(path, all[0]["state"].to_string()).expect("permitted");
    until(&state, 1, |status| status["writer"] == "exited");
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o777)).expect("permitted");
    until(&state, 0, |_| true);
}

#[test]
fn an_unsafe_state_folder_is_reported_with_exit_status_1() {
    use std::os::unix::fs::PermissionsExt;
    let world = tempfile::tempdir().expect("a temporary folder");
    let (wide, file) = (world.path().join("wide"), world.path().join("file"));
    std::fs::create_dir(&wide).expect("permitted");
    std::fs::set_permissions(&wide, std::fs::Permissions::from_mode(0o755)).expect("permitted");
    std::fs::write(&file, "").expect("permitted");
    for state in [&wide, &file] {
        let output = run_evenkeel(state, &["status"]);
        let stderr = tool::text(&output.stderr);
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
        assert!(stderr.contains(&state.display().to_string()), "{stderr}");
        assert_eq!(tool::text(&output.stdout), "", "the running processes are unknown");
    }
    let absent = run_evenkeel(&world.path().join("absent"), &["status"]);
    assert_eq!(absent.status.code(), Some(0), "without a state file there is no folder");
}
