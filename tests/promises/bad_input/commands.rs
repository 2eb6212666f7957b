//! Options that make no sense, journals that are damaged, and places that are full.

use std::process::{Command, Stdio};

use super::{MARK, Trial, run_args};
use crate::tool;

#[test]
fn values_beyond_reason_are_refused_with_the_name_of_the_option() {
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
        let said = run_args(args);
        assert!(said.contains(args[0]) && !said.contains("unexpected"), "{args:?}: {said}");
    }
    let said = run_args(&["--grace", "99999999999999999999"]);
    assert!(said.contains("366 days"), "{said}");
}

/// What a number must be is said in our words, not in those of the language that this is written in.
#[test]
fn what_is_no_number_is_told_what_would_be() {
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
        (&["watch", "--pid", "-1"], "write the number of a process"),
        (&["record", "--pid", "init", "-o", "a"], "write the number of a process"),
        (&["load", "sleep", "--status", "256"], "write an integer from 0 to 255"),
        (&["load", "hog", "--ops", "-1"], seed),
        (&["load", "hog", "--mlp", "65"], "write an integer from 1 to 64"),
        (&["load", "fork", "--children", "0"], "write an integer from 1 to 10000"),
    ] {
        let trial = Trial::new();
        trial.write("w.toml", MARK);
        let said = trial.refused(args);
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}

#[test]
fn options_that_are_missing_or_clash_are_named() {
    for (args, expected) in [
        (&["predict", "--programs", "solo.csv", "xz"][..], "not provided: (--machine <FILE>)"),
        (&["predict", "xz"], "(--machine <FILE>; --programs <FILE>)"),
        (&["policies", "orcale"], "(did you mean oracle?)"),
        (&["policies", "nope"], "oracle (simulated runs alone)"),
    ] {
        let said = Trial::new().refused(args);
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}

/// No machine counts the traffic of a single core.
#[test]
fn loads_that_cannot_be_read_are_refused_before_anything_starts() {
    let policy = "dfs[loads=controller,domains=core]";
    let trial = Trial::new();
    trial.write("w.toml", MARK);
    for args in [
        &["run", "w.toml", "--policy", policy][..],
        &["run", "w.toml", "--policy", "dfs[domains=core]", "--signal", "loads=bandwidth"],
        &["watch", "--command", "nobody-at-all", "--policy", policy],
    ] {
        let said = trial.refused(args);
        assert!(said.contains("cannot be read here: neither controllers"), "{args:?}: {said}");
    }
}

#[test]
fn a_workload_without_an_end_is_refused() {
    let said = Trial::new().refused(&["run", "/dev/zero"]);
    assert!(said.contains("/dev/zero") && said.contains("64 MiB"), "{said}");
}

/// A folder in which `run` holds a run whose journal is damaged in the middle.
fn damaged() -> Trial {
    let trial = Trial::new();
    trial.write("w.toml", MARK);
    let output = trial.run(&["run", "w.toml", "--policy", "linux", "--out", "run", "--quiet"]);
    assert!(output.status.success(), "{}", tool::text(&output.stderr));
    let journal = std::fs::read_to_string(trial.path("run/journal.jsonl")).expect("it is there");
    let mut lines: Vec<&str> = journal.lines().collect();
    lines.insert(lines.len() - 1, "damaged");
    trial.write("run/journal.jsonl", lines.join("\n") + "\n");
    trial
}

#[test]
fn a_damaged_journal_is_refused_by_all_that_read_it() {
    let trial = damaged();
    for args in [&["explain", "run"][..], &["report", "run"], &["replay", "run"]] {
        let said = trial.refused(args);
        assert!(said.contains("run/journal.jsonl:"), "{args:?}: {said}");
    }
}

#[test]
fn a_replay_of_a_damaged_journal_leaves_no_half_file() {
    let trial = damaged();
    trial.refused(&["replay", "run", "--out", "new.jsonl"]);
    assert!(!trial.path("new.jsonl").exists());
    trial.write("taken", "mine");
    trial.refused(&["replay", "run", "--out", "taken"]);
    assert_eq!(std::fs::read_to_string(trial.path("taken")).expect("it is there"), "mine");
}

/// Runs a command line where no file can grow, as on a disk that is full.
fn on_a_full_disk(trial: &Trial, args: &str) -> std::process::Output {
    let line = format!("trap '' XFSZ; ulimit -f 0; exec '{}' {args}", tool::path().display());
    let mut shell = Command::new("sh");
    shell.args(["-c", &line]).current_dir(trial.folder.path()).stdin(Stdio::null());
    shell.output().expect("it starts")
}

#[test]
fn on_a_full_disk_nothing_is_started_and_nothing_is_left() {
    for args in ["run w.toml --out new", "run w.toml"] {
        let trial = Trial::new();
        trial.write("w.toml", MARK);
        let output = on_a_full_disk(&trial, args);
        let said = tool::text(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains("journal.jsonl"), "{said}");
        assert!(!trial.path("started").exists() && !trial.path("new").exists(), "{args}");
        assert!(!trial.path("evenkeel-runs/w-1").exists(), "the folder of no run is left");
    }
}

#[test]
fn a_job_that_failed_counts_although_nobody_reads_the_report() {
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
fn a_job_that_nothing_resembles_is_no_hint() {
    let trial = damaged();
    let said = trial.refused(&["explain", "run", "--job", "zebra"]);
    assert!(!said.contains("did you mean"), "{said}");
    let said = trial.refused(&["explain", "run", "--job", "marc"]);
    assert!(said.contains("did you mean \"mark\"?"), "{said}");
}

#[test]
fn watching_nobody_ever_is_refused() {
    let said = Trial::new().refused(&["watch", "--user", "4294967295"]);
    assert!(said.contains("there is no user \"4294967295\""), "{said}");
    let stat = linux::procfs::stat("/".as_ref(), 2);
    if !stat.is_ok_and(|stat| stat.is_kernel_thread) {
        println!("not run: the kernel's own threads are not to be seen here");
        return;
    }
    let said = Trial::new().refused(&["watch", "--pid", "2"]);
    assert!(said.contains("no process can be managed: process 2 is a kernel thread"), "{said}");
}
