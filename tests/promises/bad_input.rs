//! Bad input: one line that states what is wrong, where, and what to do; exit status 2; no job starts.
//!
//! Every workload here starts with a valid job that would create a file. The file must not exist afterwards.

mod commands;
mod files;

use std::path::Path;
use std::process::Output;

use expect_test::{Expect, expect};

use crate::tool;

/// A folder with a workload.
struct Trial {
    folder: tempfile::TempDir,
}

impl Trial {
    fn new() -> Self {
        Trial { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), text).expect("a file");
    }

    /// Runs evenkeel in the folder.
    fn run(&self, args: &[&str]) -> Output {
        tool::command(args).current_dir(self.folder.path()).output().expect("it starts")
    }

    /// The error line of a rejected command. The path of the folder is replaced by FOLDER.
    fn rejection(&self, args: &[&str]) -> String {
        let before = self.listing();
        let stderr = tool::rejection(tool::command(args).current_dir(self.folder.path()));
        assert_eq!(self.listing(), before, "{args:?}: a job was started or a file created");
        stderr.replace(&self.folder.path().display().to_string(), "FOLDER")
    }

    fn listing(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).expect("the folder exists");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<String> =
            names.map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// A job that creates the file `started` in the workload's folder.
const MARK: &str = "[[job]]\nname = \"mark\"\ncommand = [\"touch\", \"started\"]\n";

/// Checks the rejection of a workload with these lines after the valid job (they start in line 4).
fn toml(lines: &str, expected: Expect) {
    let trial = Trial::new();
    trial.write("w.toml", format!("{MARK}{lines}"));
    expected.assert_eq(&trial.rejection(&["run", "w.toml"]));
}

/// Checks the rejections of jobs. Each case is the lines of a job, separated by ` | `, above its error.
fn jobs(expected: Expect) {
    let with_job = |lines: &str| format!("{MARK}[[job]]\n{}\n", lines.replace(" | ", "\n"));
    check_cases(&expected, "w.toml", with_job);
}

/// Checks the rejections of lines of a classic workload, each above its error.
fn classic(expected: Expect) {
    check_cases(&expected, "w.txt", |line| format!("0 - /usr/bin/touch started\n{line}\n"));
}

/// Runs a workload for each case.
fn check_cases(expected: &Expect, file: &str, workload: impl Fn(&str) -> String) {
    tool::check_cases(expected, |case| {
        let trial = Trial::new();
        trial.write(file, workload(case));
        trial.rejection(&["run", file])
    });
}

/// The error line of a valid workload that runs with these arguments.
fn run_args(args: &[&str]) -> String {
    let trial = Trial::new();
    trial.write("w.toml", MARK);
    trial.rejection(&[&["run", "w.toml"], args].concat())
}

#[test]
fn the_valid_job_creates_its_file() {
    let trial = Trial::new();
    trial.write("w.toml", MARK);
    let output = trial.run(&["run", "w.toml", "--policy", "linux"]);
    assert!(output.status.success(), "{}", tool::text(&output.stderr));
    assert!(trial.path("started").exists(), "the other tests depend on it");
}

#[test]
fn invalid_toml_is_rejected_with_its_position() {
    toml(
        "[[job]\n",
        expect![[r#"
        evenkeel: w.toml:4:7: invalid TOML: unclosed array table, expected `]`
    "#]],
    );
    toml(
        "[[job]]\ncommand = [\"a\n",
        expect![[r#"
        evenkeel: w.toml:5:14: invalid TOML: unclosed array, expected `]`
    "#]],
    );
}

#[test]
fn a_binary_or_missing_file_is_rejected() {
    let trial = Trial::new();
    trial.write("w.toml", b"# \xff\n");
    expect![[r#"
        evenkeel: w.toml:1:3: the file is not UTF-8 text
    "#]]
    .assert_eq(&trial.rejection(&["run", "w.toml"]));
    expect![[r#"
        evenkeel: cannot read the workload nowhere.toml: No such file or directory (os error 2)
    "#]]
    .assert_eq(&trial.rejection(&["run", "nowhere.toml"]));
    expect![[r#"
        evenkeel: cannot read the workload .: Is a directory (os error 21)
    "#]]
    .assert_eq(&trial.rejection(&["run", "."]));
}

#[test]
fn unknown_keys_are_rejected_with_the_nearest_known_one() {
    jobs(expect![[r#"
        comand = ["true"]
            evenkeel: w.toml:5:1: unknown key "comand" in a job; did you mean "command"?
        command = ["true"] | thread = 2
            evenkeel: w.toml:6:1: unknown key "thread" in a job; did you mean "threads"?
    "#]]);
}

#[test]
fn negative_and_huge_times_are_rejected() {
    jobs(expect![[r#"
        command = ["true"] | start = -1
            evenkeel: w.toml:6:9: start is -1, and times cannot be negative; write 0 or more
        command = ["true"] | start = 1e30
            evenkeel: w.toml:6:9: start is 1e30, more than 366 days; write seconds such as 1.5, or 250ms, 10us, 3min, 2h, 1d
        command = ["true"] | start = 99999999999
            evenkeel: w.toml:6:9: start is 99999999999, more than 366 days; write seconds such as 1.5, or 250ms, 10us, 3min, 2h, 1d
        command = ["true"] | stop_after = "0s"
            evenkeel: w.toml:6:14: stop_after must be longer than 0
    "#]]);
    classic(expect![[r#"
        -1 3 /bin/true
            evenkeel: w.txt:2:1: start is -1, and times cannot be negative; write 0 or more
    "#]]);
}

#[test]
fn a_missing_or_not_executable_program_is_rejected() {
    jobs(expect![[r#"
        command = ["no-such-program-at-all"]
            evenkeel: w.toml:4: job no-such-program-at-all: program no-such-program-at-all is not in PATH
        command = ["./no-such-program"]
            evenkeel: w.toml:4: job no-such-program: program FOLDER/./no-such-program: No such file or directory
        command = ["/nowhere/program"]
            evenkeel: w.toml:4: job program: program /nowhere/program: No such file or directory
    "#]]);
    classic(expect![[r#"
        0 3 /nowhere/program
            evenkeel: w.txt:2: job program: program /nowhere/program: No such file or directory
    "#]]);
    let trial = Trial::new();
    trial.write("data", "no program\n");
    trial.write("w.toml", format!("{MARK}[[job]]\ncommand = [\"./data\"]\n"));
    expect![[r#"
        evenkeel: w.toml:4: job data: program FOLDER/./data may not be executed by this user
    "#]]
    .assert_eq(&trial.rejection(&["run", "w.toml"]));
}

#[test]
fn a_missing_working_directory_or_input_is_rejected() {
    jobs(expect![[r#"
        command = ["true"] | dir = "nowhere"
            evenkeel: w.toml:4: job true: working directory FOLDER/nowhere does not exist: make it
        command = ["true"] | input = "nowhere"
            evenkeel: w.toml:4: job true: input FOLDER/nowhere: No such file or directory
        command = ["true"] | output = "nowhere/out"
            evenkeel: w.toml:4: job true: output FOLDER/nowhere/out cannot be written: its directory FOLDER/nowhere does not exist: make it
    "#]]);
}

#[test]
fn duplicate_names_are_rejected() {
    jobs(expect![[r#"
        name = "mark" | command = ["true"]
            evenkeel: w.toml:5:8: the name "mark" is already used in line 2; rename one
    "#]]);
}

#[test]
fn classes_counts_and_threads_out_of_range_are_rejected() {
    jobs(expect![[r#"
        command = ["true"] | class = 16
            evenkeel: w.toml:6:9: class 16 is out of range; classes are integers from 0 to 15
        command = ["true"] | class = -1
            evenkeel: w.toml:6:9: class -1 is out of range; classes are integers from 0 to 15
        command = ["true"] | copies = 0
            evenkeel: w.toml:6:10: copies is 0, which is out of range; write 1 to 100000
        command = ["true"] | copies = 1000000
            evenkeel: w.toml:6:10: copies is 1000000, which is out of range; write 1 to 100000
        command = ["true"] | threads = 0
            evenkeel: w.toml:6:11: threads is 0, which is out of range; write 1 to 65536
    "#]]);
    classic(expect![[r#"
        0 16 /bin/true
            evenkeel: w.txt:2:3: class 16 is out of range; classes are integers from 0 to 15
    "#]]);
}

#[test]
fn a_job_without_a_command_or_with_two_is_rejected() {
    jobs(expect![[r#"
        class = 1
            evenkeel: w.toml:4:1: the job has no command; add command = ["program", "argument"], shell or load
        command = ["true"] | load = "hog"
            evenkeel: w.toml:6:8: command and load in one job; keep one, or make two jobs
        command = []
            evenkeel: w.toml:5:11: command is empty; write the program and its arguments
        load = "hog --fro 5s"
            evenkeel: w.toml:4: job "hog": unexpected argument '--fro' found
        load = "pig"
            evenkeel: w.toml:5:8: there is no built-in program "pig"; known are hog, compute, rows, columns, sleep, fork, phases
    "#]]);
}

#[test]
fn arguments_that_a_built_in_program_rejects_are_rejected_before_any_job_starts() {
    jobs(expect![[r#"
        load = "hog --size 1"
            evenkeel: w.toml:4: job "hog": --size 1 B is less than a line of 64 B per thread (1)
        load = "hog --threads 4096 --size 1K"
            evenkeel: w.toml:4: job "hog": --size 1.0 KiB is less than a line of 64 B per thread (4096)
        load = "phases hog:1s --size 0"
            evenkeel: w.toml:4: job "phases": --size 0 B is less than a line of 64 B per thread (1)
        load = "hog --help"
            evenkeel: w.toml:4: job "hog": --help would only print help; remove it
    "#]]);
}

#[test]
fn a_workload_without_jobs_or_with_only_restarting_jobs_is_rejected() {
    let trial = Trial::new();
    trial.write("w.toml", "name = \"empty\"\n");
    trial.write("w.txt", "# empty\n");
    expect![[r#"
        evenkeel: w.toml:1:1: there is no job; add one, such as: [[job]] command = ["sort", "words.txt"]
    "#]].assert_eq(&trial.rejection(&["run", "w.toml"]));
    expect![[r#"
        evenkeel: w.txt:1:1: there is no job; add one, such as: 0 - /usr/bin/sort /tmp/words
    "#]]
    .assert_eq(&trial.rejection(&["run", "w.txt"]));
    trial.write("w.toml", format!("{MARK}restart = \"until-others-done\"\n"));
    expect![[r#"
        evenkeel: w.toml:1:1: every job is restarted until the others are done, so the run never ends; let one job end
    "#]].assert_eq(&trial.rejection(&["run", "w.toml"]));
}

#[test]
fn unknown_policies_parameters_and_values_are_rejected() {
    for (spec, words) in [
        ("dsf", &["dsf", "dfs"][..]),
        ("dfs[cooldwn=3]", &["cooldwn", "cooldown"]),
        ("dfs[cooldown=-1]", &["cooldown", "-1"]),
        ("dfs[cooldown=]", &["cooldown cannot be"]),
        ("dfs[cooldown=soon]", &["cooldown", "soon"]),
        ("dfs[reading=mine]", &["reading", "mine", "paper", "ours"]),
        ("dfs[cooldown=3", &["]"]),
        ("", &[]),
    ] {
        let stderr = run_args(&["--policy", spec]);
        for word in words {
            assert!(stderr.contains(word), "{spec}: {word} is not in {stderr}");
        }
    }
}

#[test]
fn an_unwritable_output_folder_is_rejected() {
    let stderr = run_args(&["--out", "/proc/nowhere"]);
    assert!(stderr.contains("/proc/nowhere"), "{stderr}");
    let trial = Trial::new();
    trial.write("w.toml", MARK);
    trial.write("file", "");
    let stderr = trial.rejection(&["run", "w.toml", "--out", "file"]);
    assert!(stderr.contains("file"), "{stderr}");
}

#[test]
fn invalid_options_are_rejected() {
    for args in [
        &["--grace=-1s"][..],
        &["--time-limit", "soon"],
        &["--seed", "x"],
        &["--host", "moon"],
        &["--no-such-option"],
    ] {
        let stderr = run_args(args);
        let option = args[0].split('=').next().unwrap_or_default();
        assert!(stderr.contains(option), "{args:?}: {stderr}");
    }
    let trial = Trial::new();
    let stderr = trial.rejection(&["run"]);
    assert!(stderr.contains("WORKLOAD"), "{stderr}");
}

#[test]
fn cpus_and_nodes_that_do_not_exist_are_rejected() {
    for (lines, word) in [
        ("cpus = \"60000\"", "60000"),
        ("nodes = \"1023\"", "node"),
        ("memory = \"bind:1023\"", "node"),
        ("cpus = \"0-\"", "0-"),
        ("cpus = \"\"", "cpus"),
        ("memory = \"somewhere\"", "somewhere"),
    ] {
        let trial = Trial::new();
        trial.write("w.toml", format!("{MARK}[[job]]\ncommand = [\"true\"]\n{lines}\n"));
        let stderr = trial.rejection(&["run", "w.toml"]);
        assert!(stderr.contains("w.toml:") && stderr.contains(word), "{lines}: {stderr}");
    }
}

#[test]
fn cpus_outside_the_affinity_of_this_process_are_rejected() {
    let own = linux::affinity::get(0).expect("every process has an affinity");
    let (Some(first), Some(last)) = (own.first(), own.last()) else { return };
    if first == last {
        eprintln!("skipped: this process has only one CPU");
        return;
    }
    let trial = Trial::new();
    let lines = format!("{MARK}[[job]]\ncommand = [\"true\"]\ncpus = {}\n", last.0);
    trial.write("w.toml", lines);
    let mut confined = std::process::Command::new("taskset");
    confined.args(["--cpu-list", &first.0.to_string()]).arg(tool::path());
    confined.args(["run", "w.toml"]).current_dir(trial.folder.path());
    let output = confined.output().expect("taskset is part of util-linux");
    let stderr = tool::text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains("w.toml:4: "), "{stderr}");
    assert!(!Path::exists(&trial.path("started")));
}
