//! Commands on the command line instead of a workload file.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tests::dir::Dir;
use tests::tool;

/// Runs evenkeel with this text as standard input, in an empty directory that it must not change.
fn run_with_input(args: &[&str], input: &str) -> Output {
    let dir = Dir::new();
    let output = with_input(dir.command(args), input);
    assert_eq!(dir.listing(), [""; 0], "a run of one command writes no file");
    output
}

fn with_input(mut command: Command, input: &str) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it is read");
    child.wait_with_output().expect("it ends")
}

#[test]
fn one_command_uses_the_standard_streams_of_evenkeel_and_leaves_no_file() {
    let output = run_with_input(&["run", "--", "sh", "-c", "cat; echo problem >&2"], "text\n");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(tool::text(&output.stdout), "text\n");
    let errors = tool::text(&output.stderr);
    let (own, report) = errors.split_once('\n').expect("two parts");
    assert_eq!(own, "problem");
    assert!(report.contains("\nsh   done "), "the report follows on standard error: {report}");
    assert!(!report.contains("journal:"), "{report}");
}

#[test]
fn with_quiet_the_output_of_the_command_and_one_line_about_a_failure_are_printed() {
    let args = ["run", "--quiet", "--policy", "linux", "--", "sh", "-c", "echo a; exit 3"];
    let output = run_with_input(&args, "");
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(tool::text(&output.stdout), "a\n");
    let errors = tool::text(&output.stderr);
    assert!(
        errors.starts_with("evenkeel: 1 of 1 job failed (sh: exit status 3) after "),
        "{errors}"
    );
    assert_eq!(errors.lines().count(), 1, "{errors}");
}

#[test]
fn the_exit_status_is_that_of_the_command_as_in_a_shell() {
    for (script, status) in [("exit 0", 0), ("exit 255", 255), ("kill -9 $$", 137)] {
        let output = run_with_input(&["run", "-q", "-p", "linux", "--", "sh", "-c", script], "");
        assert_eq!(output.status.code(), Some(status), "{script}");
    }
}

/// The commands that start one program.
const STARTERS: [&[&str]; 3] = [&["run"], &["watch"], &["record", "--output", "stream"]];

#[test]
fn a_program_that_cannot_be_started_has_one_line_and_status_126_or_127() {
    let dir = Dir::new();
    for (name, text) in [("empty", ""), ("script", "#!/no/interpreter\n"), ("data", "#!/bin/sh\n")]
    {
        dir.write(name, text);
        let mode = if name == "data" { 0o644 } else { 0o755 };
        std::fs::set_permissions(dir.path(name), Permissions::from_mode(mode)).expect("own file");
    }
    let interpreter = "its interpreter, program /no/interpreter: No such file or directory\n";
    for (program, status, end) in [
        ("no-such-program", 127, "program no-such-program is not in PATH\n"),
        ("./no-such-program", 127, "No such file or directory\n"),
        ("./empty", 126, "empty is an empty file\n"),
        ("./script", 126, interpreter),
        ("./data", 126, "data may not be executed by this user\n"),
    ] {
        for starter in STARTERS {
            let output = dir.run(&[starter, &["--", program]].concat());
            let errors = tool::text(&output.stderr);
            assert_eq!(output.status.code(), Some(status), "{starter:?} {program}: {errors}");
            assert!(errors.ends_with(end) && errors.lines().count() == 1, "{starter:?}: {errors}");
        }
    }
    assert_eq!(dir.listing(), ["data", "empty", "script"]);
}

#[test]
fn arguments_with_any_bytes_are_passed_on_or_rejected_with_a_remedy() {
    let dir = Dir::new();
    let word = OsStr::from_bytes(b"caf\xe9");
    let script = ["--", "sh", "-c", "printf %s \"$1\" > word", "sh"];
    for starter in &STARTERS[1..] {
        let output = dir.command_with_state(&[starter, &script[..]].concat()).arg(word).output();
        let output = output.expect("it starts");
        assert!(output.status.success(), "{starter:?}: {}", tool::text(&output.stderr));
        assert_eq!(std::fs::read(dir.path("word")).expect("written"), word.as_bytes());
    }
    let line = tool::rejection(dir.command(&[&["run"], &script[..]].concat()).arg(word));
    assert!(line.contains("\"$(printf 'caf\\351')\" is not UTF-8 text"), "{line}");
    let line = tool::rejection(dir.command(&["compare", "--", "true"]).arg(word));
    assert!(line.contains("\"$(printf 'caf\\351')\" is not UTF-8 text"), "{line}");
}

#[test]
fn a_command_that_ctrl_c_ended_is_reported_with_the_name_of_the_signal() {
    let output = run_with_input(&["run", "-p", "linux", "--", "sh", "-c", "kill -INT $$"], "");
    assert_eq!(output.status.code(), Some(130));
    let errors = tool::text(&output.stderr);
    assert!(errors.contains("1 of 1 job failed (sh: ended by SIGINT) after "), "{errors}");
    assert!(errors.contains("\nsh   ended by SIGINT "), "{errors}");
}

#[test]
fn a_run_that_is_stopped_by_its_time_limit_has_exit_status_1_and_one_line() {
    let args = ["run", "-q", "-p", "linux", "--time-limit", "10ms", "--", "sleep", "600"];
    let output = run_with_input(&args, "");
    assert_eq!(output.status.code(), Some(1));
    let errors = tool::text(&output.stderr);
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(errors.contains("1 of 1 job reached the time limit"), "{errors}");
}

#[test]
fn an_output_directory_keeps_report_and_journal_and_not_the_output_of_the_command() {
    let dir = Dir::new();
    let output = dir.run(&["run", "-q", "-p", "linux", "--out", "out", "--", "echo", "a b"]);
    assert_eq!((output.status.code(), tool::text(&output.stdout)), (Some(0), "a b\n".into()));
    let report: Value = serde_json::from_str(&dir.read("out/report.json")).expect("JSON");
    assert_eq!(report["jobs"][0]["command"], "echo 'a b'");
    assert!(dir.path("out/journal.jsonl").is_file());
    let jobs = std::fs::read_dir(dir.path("out/jobs")).into_iter().flatten();
    assert_eq!(jobs.count(), 0, "the output was not redirected");
}

#[test]
fn json_takes_only_standard_output_from_the_command() {
    let dir = Dir::new();
    let args = ["run", "--json", "-q", "-p", "linux", "--out", "out", "--"];
    let command = ["sh", "-c", "cat; echo problem >&2; exit 3"];
    let output = with_input(dir.command(&[&args[..], &command].concat()), "text\n");
    assert_eq!(output.status.code(), Some(3));
    let report: Value = serde_json::from_slice(&output.stdout).expect("only JSON");
    assert_eq!(report["totals"]["n_failed"], 1);
    assert_eq!(dir.read("out/jobs/sh.out"), "text\n");
    let errors = tool::text(&output.stderr);
    assert!(errors.starts_with("problem\nevenkeel: 1 of 1 job failed"), "{errors}");
    assert!(!dir.path("out/jobs/sh.err").exists());
}

#[test]
fn several_commands_are_jobs_with_files_of_their_own() {
    let dir = Dir::new();
    let job = ["--job", "echo 'one  job'", "--job", "sh -c 'echo two; exit 1'"];
    let args = [&["run", "-p", "linux", "--class", "7", "--threads", "2"], &job[..]].concat();
    let output = dir.run(&[&args[..], &["--", "echo", "three"]].concat());
    assert_eq!(output.status.code(), Some(1), "a job failed");
    let read = |name: &str| dir.read(&format!("evenkeel-runs/echo-1/jobs/{name}.out"));
    assert_eq!([read("echo"), read("sh"), read("echo.2")], ["one  job\n", "two\n", "three\n"]);
    let report: Value =
        serde_json::from_str(&dir.read("evenkeel-runs/echo-1/report.json")).expect("JSON");
    let jobs = report["jobs"].as_array().expect("a list");
    assert!(jobs.iter().all(|job| job["class"] == 7 && job["threads"] == 2), "{jobs:?}");
}

#[test]
fn each_copy_of_a_command_has_its_number() {
    let dir = Dir::new();
    let args = ["run", "-q", "-p", "linux", "--copies", "3", "--out", "out", "--"];
    assert!(dir.run(&[&args[..], &["echo", "part-{copy}"]].concat()).status.success());
    let read = |name: &str| dir.read(&format!("out/jobs/{name}.out"));
    assert_eq!(
        [read("echo"), read("echo.2"), read("echo.3")],
        ["part-1\n", "part-2\n", "part-3\n"]
    );
}
