//! Invalid options, damaged journals and full disks.

use std::process::{Command, Stdio};

use super::{MARK, Trial, run_args};
use crate::tool;

#[test]
fn values_out_of_range_are_rejected_with_the_name_of_the_option() {
    for args in [
        &["--grace", "-1s"][..],
        &["--grace", "400000000"],
        &["--grace", "99999999999999999999"],
        &["--time-limit", "0"],
        &["--time-limit", "-1"],
        &["--time-limit", "367000000"],
        &["--journal-part", "1"],
        &["--journal-part", "63K"],
        &["--journal-part", "-1"],
        &["--seed", "-1"],
    ] {
        let stderr = run_args(args);
        assert!(stderr.contains(args[0]) && !stderr.contains("unexpected"), "{args:?}: {stderr}");
    }
    let stderr = run_args(&["--grace", "99999999999999999999"]);
    assert!(stderr.contains("366 days"), "{stderr}");
}

/// The message states the accepted values instead of an error of the number parser.
#[test]
fn invalid_numbers_are_rejected_with_the_accepted_range() {
    let seed = "write an integer from 0 to 18446744073709551615";
    for (args, expected) in [
        (&["run", "w.toml", "--seed", "-1"][..], seed),
        (&["run", "w.toml", "--seed", "1.5"], seed),
        (&["run", "w.toml", "--seed", "99999999999999999999"], seed),
        (&["run", "w.toml", "--seed", ""], seed),
        (&["watch", "--all", "--seed", "-1"], seed),
        (&["replay", "nowhere", "--seed", "-1"], seed),
        (&["generate", "--seed", "-1"], seed),
        (&["generate", "--n", "few"], "write an integer from 0"),
        (&["generate", "--hog-fraction", "half"], "write a share from 0 to 1"),
        (&["compare", "w.toml", "-j", "0"], "write an integer from 1 to 1024"),
        (&["compare", "w.toml", "--jobs", "x"], "write an integer from 1 to 1024"),
        (&["profile", "--windows", "x", "--", "true"], "write an integer from 1 to 10000"),
        (&["watch", "--pid", "-1"], "write a PID"),
        (&["record", "--pid", "init", "-o", "a"], "write a PID"),
        (&["load", "sleep", "--status", "256"], "write an integer from 0 to 255"),
        (&["load", "hog", "--ops", "-1"], seed),
        (&["load", "hog", "--mlp", "65"], "write an integer from 1 to 64"),
        (&["load", "fork", "--children", "0"], "write an integer from 1 to 10000"),
    ] {
        let trial = Trial::new();
        trial.write("w.toml", MARK);
        let stderr = trial.rejection(args);
        assert!(stderr.contains(expected), "{args:?}: {stderr}");
    }
}

#[test]
fn missing_and_conflicting_options_are_named() {
    for (args, expected) in [
        (&["predict", "--programs", "solo.csv", "xz"][..], "not provided: (--machine <FILE>)"),
        (&["predict", "xz"], "(--machine <FILE>; --programs <FILE>)"),
        (&["policies", "orcale"], "(did you mean oracle?)"),
        (&["policies", "nope"], "oracle (simulated runs alone)"),
    ] {
        let stderr = Trial::new().rejection(args);
        assert!(stderr.contains(expected), "{args:?}: {stderr}");
    }
}

/// No machine counts the memory traffic of a single core.
#[test]
fn loads_that_cannot_be_read_are_rejected_before_any_job_starts() {
    let policy = "dfs[loads=controller,domains=core]";
    let trial = Trial::new();
    trial.write("w.toml", MARK);
    for args in [
        &["run", "w.toml", "--policy", policy][..],
        &["run", "w.toml", "--policy", "dfs[domains=core]", "--signal", "loads=bandwidth"],
        &["watch", "--command", "no-such-program", "--policy", policy],
    ] {
        let stderr = trial.rejection(args);
        assert!(
            stderr.contains("which cannot be read: neither memory controllers"),
            "{args:?}: {stderr}"
        );
    }
}

#[test]
fn an_endless_workload_file_is_rejected() {
    let stderr = Trial::new().rejection(&["run", "/dev/zero"]);
    assert!(stderr.contains("/dev/zero") && stderr.contains("64 MiB"), "{stderr}");
}

/// A folder with a run in `run` whose journal is damaged in the middle.
fn damaged() -> Trial {
    let trial = Trial::new();
    trial.write("w.toml", MARK);
    let output = trial.run(&["run", "w.toml", "--policy", "linux", "--out", "run", "--quiet"]);
    assert!(output.status.success(), "{}", tool::text(&output.stderr));
    let journal =
        std::fs::read_to_string(trial.path("run/journal.jsonl")).expect("the file exists");
    let mut lines: Vec<&str> = journal.lines().collect();
    lines.insert(lines.len() - 1, "damaged");
    trial.write("run/journal.jsonl", lines.join("\n") + "\n");
    trial
}

#[test]
fn a_damaged_journal_is_rejected_by_all_commands_that_read_it() {
    let trial = damaged();
    for args in [&["explain", "run"][..], &["report", "run"], &["replay", "run"]] {
        let stderr = trial.rejection(args);
        assert!(stderr.contains("run/journal.jsonl:"), "{args:?}: {stderr}");
    }
}

#[test]
fn a_replay_of_a_damaged_journal_leaves_no_incomplete_file() {
    let trial = damaged();
    trial.rejection(&["replay", "run", "--out", "new.jsonl"]);
    assert!(!trial.path("new.jsonl").exists());
    trial.write("taken", "mine");
    trial.rejection(&["replay", "run", "--out", "taken"]);
    assert_eq!(std::fs::read_to_string(trial.path("taken")).expect("the file exists"), "mine");
}

/// Runs a command line with a file size limit of 0, as on a full disk.
fn on_a_full_disk(trial: &Trial, args: &str) -> std::process::Output {
    let line = format!("trap '' XFSZ; ulimit -f 0; exec '{}' {args}", tool::path().display());
    let mut shell = Command::new("sh");
    shell.args(["-c", &line]).current_dir(trial.folder.path()).stdin(Stdio::null());
    shell.output().expect("it starts")
}

#[test]
fn on_a_full_disk_no_job_starts_and_no_file_is_left() {
    for args in ["run w.toml --out new", "run w.toml"] {
        let trial = Trial::new();
        trial.write("w.toml", MARK);
        let output = on_a_full_disk(&trial, args);
        let stderr = tool::text(&output.stderr);
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(2), 1), "{stderr}");
        assert!(stderr.contains("journal.jsonl"), "{stderr}");
        assert!(!trial.path("started").exists() && !trial.path("new").exists(), "{args}");
        assert!(!trial.path("evenkeel-runs/w-1").exists(), "the folder of the run is left");
    }
}

#[test]
fn a_failed_job_sets_the_exit_status_although_the_report_pipe_is_closed() {
    let trial = Trial::new();
    trial.write("w.toml", "[[job]]\ncommand = [\"false\"]\n");
    let line =
        format!("'{}' run w.toml --policy linux --json; echo $? >&3", tool::path().display());
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("{{ {line}; }} 3>status | true")]);
    let output = shell.current_dir(trial.folder.path()).output().expect("it starts");
    assert!(output.status.success());
    assert_eq!(std::fs::read_to_string(trial.path("status")).expect("written"), "1\n");
}

#[test]
fn only_similar_job_names_are_suggested() {
    let trial = damaged();
    let stderr = trial.rejection(&["explain", "run", "--job", "zebra"]);
    assert!(!stderr.contains("did you mean"), "{stderr}");
    let stderr = trial.rejection(&["explain", "run", "--job", "marc"]);
    assert!(stderr.contains("did you mean \"mark\"?"), "{stderr}");
}

#[test]
fn a_selection_that_never_matches_is_rejected() {
    let stderr = Trial::new().rejection(&["watch", "--user", "4294967295"]);
    assert!(stderr.contains("there is no user \"4294967295\""), "{stderr}");
    let stat = linux::procfs::stat("/".as_ref(), 2);
    if !stat.is_ok_and(|stat| stat.is_kernel_thread) {
        println!("skipped: kernel threads are not visible");
        return;
    }
    let stderr = Trial::new().rejection(&["watch", "--pid", "2"]);
    assert!(stderr.contains("no process can be managed: process 2 is a kernel thread"), "{stderr}");
}
