//! Bad input. evenkeel prints one line that states the error, its place and the remedy, exits with status 2, and starts
//! no job.
//!
//! The cases are in `rejected/*.txt`. Every workload of a case starts with a valid job that would create a file, which
//! must not exist afterwards. The tests in this file need a condition that a transcript cannot express.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use tests::dir::Dir;
use tests::{tool, transcript};

/// A job that creates the file `started` in the workload's directory.
const MARK: &str = "[[job]]\nname = \"mark\"\ncommand = [\"touch\", \"started\"]\n";

/// Contents of a user's file that must not change.
const PRECIOUS: &str = "precious\n";

fn with_mark(lines: &str) -> Dir {
    Dir::with(&[("w.toml", &format!("{MARK}{lines}\n"))])
}

/// Expands a step to a shell command, and writes the workload of the step:
///
/// ```text
///   job LINES      run of the valid job and a job with these lines        jobs LINES   of these lines after the valid job
///   classic LINE   run of a classic workload with this line               run ARGS     of the valid job with arguments
///   program TEXT   run of a job that executes a file with this text       damaged ARGS a command that reads a damaged journal
/// ```
fn expand(dir: &Dir, step: &str) -> String {
    let (kind, rest) = step.split_once(' ').unwrap_or((step, ""));
    let lines = rest.replace(" | ", "\n");
    let workload = match kind {
        "job" => format!("{MARK}[[job]]\n{lines}\n"),
        "jobs" => format!("{MARK}{lines}\n"),
        "run" => MARK.to_owned(),
        "program" => format!("{MARK}[[job]]\ncommand = [\"./program\"]\n"),
        "classic" => {
            dir.write("w.txt", format!("0 - /usr/bin/touch started\n{rest}\n"));
            return "evenkeel run w.txt".to_owned();
        }
        "damaged" => {
            damage_journal(dir);
            return format!("evenkeel {rest}");
        }
        _ => panic!("unknown step: {step}"),
    };
    dir.write("w.toml", workload);
    match kind {
        "run" => format!("evenkeel run w.toml {rest}"),
        "program" => format!("printf '{rest}' > program; chmod 755 program; evenkeel run w.toml"),
        _ => "evenkeel run w.toml".to_owned(),
    }
}

/// Writes a run to `run` whose journal is damaged in the middle.
fn damage_journal(dir: &Dir) {
    if dir.path("run").exists() {
        return;
    }
    dir.write("w.toml", MARK);
    dir.success(&["run", "w.toml", "--policy", "linux", "--out", "run", "--quiet"]);
    let journal = dir.read("run/journal.jsonl");
    let mut lines: Vec<&str> = journal.lines().collect();
    lines.insert(1, "damaged");
    dir.write("run/journal.jsonl", lines.join("\n") + "\n");
}

#[test]
fn invalid_workloads_are_rejected_before_any_job_starts() {
    let set_up = |dir: &Dir| {
        dir.write("precious", PRECIOUS);
        fs::create_dir(dir.path("sub")).expect("a directory");
        std::os::unix::fs::symlink("precious", dir.path("link")).expect("a link");
    };
    transcript::check("workloads", set_up, |dir, step| {
        let command = expand(dir, step);
        // No file beside the workload is truncated.
        format!("{command}; status=$?; test \"$(cat precious)\" = precious && exit $status")
    });
}

#[test]
fn invalid_commands_and_files_are_rejected() {
    let set_up = |dir: &Dir| dir.write("w.toml", MARK);
    transcript::check("commands", set_up, expand);
}

#[test]
fn files_that_the_kernel_cannot_execute_are_rejected() {
    if has_foreign_formats() {
        println!("skipped: binfmt_misc has additional formats");
        return;
    }
    let set_up = |dir: &Dir| ["program", "w.toml"].iter().for_each(|n| dir.write(n, ""));
    transcript::check("programs", set_up, expand);
}

#[test]
fn the_valid_job_creates_its_file() {
    let dir = with_mark("");
    dir.success(&["run", "w.toml", "--policy", "linux"]);
    assert!(dir.path("started").exists(), "the other tests depend on it");
}

#[test]
fn cpus_and_nodes_that_do_not_exist_are_rejected() {
    for (line, number) in [
        ("cpus = \"60000\"", "60000"),
        ("nodes = \"1023\"", "1023"),
        ("memory = \"bind:1023\"", "1023"),
    ] {
        let dir = with_mark(&format!("[[job]]\ncommand = [\"true\"]\n{line}"));
        let stderr = dir.rejection(&["run", "w.toml"]);
        assert!(stderr.contains("w.toml:4: ") && stderr.contains(number), "{line}: {stderr}");
    }
}

#[test]
fn cpus_outside_the_affinity_of_this_process_are_rejected() {
    let Some((_, first, last)) = tests::process::two_cpus() else { return };
    let dir = with_mark(&format!("[[job]]\ncommand = [\"true\"]\ncpus = {last}"));
    let mut confined = Command::new("taskset");
    confined.args(["--cpu-list", &first.to_string()]).arg(tool::path());
    confined.args(["run", "w.toml"]).current_dir(dir.root());
    confined.env("XDG_DATA_HOME", "/proc/nonexistent");
    let stderr = tool::rejection(&mut confined);
    assert!(stderr.contains("w.toml:4: "), "{stderr}");
    assert!(!dir.path("started").exists());
}

/// Runs a command line with a file size limit of 0. Writing then fails as on a full disk.
fn on_a_full_disk(dir: &Dir, args: &str) -> std::process::Output {
    let line = format!("trap '' XFSZ; ulimit -f 0; exec '{}' {args}", tool::path().display());
    let mut shell = Command::new("sh");
    shell.args(["-c", &line]).current_dir(dir.root()).stdin(Stdio::null());
    shell.output().expect("a shell")
}

#[test]
fn on_a_full_disk_no_job_starts_and_no_file_is_left() {
    for args in ["run w.toml --out new", "run w.toml"] {
        let dir = with_mark("");
        let output = on_a_full_disk(&dir, args);
        let stderr = tool::text(&output.stderr);
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(2), 1), "{stderr}");
        assert!(stderr.contains("journal.jsonl"), "{stderr}");
        assert!(!dir.path("started").exists() && !dir.path("new").exists(), "{args}");
        assert!(!dir.path("evenkeel-runs/w-1").exists(), "the directory of the run is left");
    }
}

#[test]
fn a_failed_job_sets_the_exit_status_although_the_report_pipe_is_closed() {
    let dir = Dir::with(&[("w.toml", "[[job]]\ncommand = [\"false\"]\n")]);
    let line =
        format!("'{}' run w.toml --policy linux --json; echo $? >&3", tool::path().display());
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("{{ {line}; }} 3>status | true")]);
    let output = shell.current_dir(dir.root()).output().expect("bash");
    assert!(output.status.success());
    assert_eq!(dir.read("status"), "1\n");
}

#[test]
fn an_output_on_a_full_disk_is_an_error_of_one_line() {
    for args in [&["policies"][..], &["policies", "dfs"], &["--help"], &["run", "--help"]] {
        let full = std::fs::File::create("/dev/full").expect("a device of Linux");
        let output = tool::command(args).stdout(full).output().expect("it starts");
        let stderr = tool::text(&output.stderr);
        let line =
            "evenkeel: the output cannot be written: No space left on device (os error 28)\n";
        assert_eq!((output.status.code(), stderr.as_str()), (Some(1), line), "{args:?}");
    }
}

#[test]
fn a_closed_standard_output_is_an_error_of_one_line() {
    let dir = Dir::new();
    for args in ["policies", "--help", "run -q --json -p linux -- true"] {
        let output = dir.shell(&format!("evenkeel {args} >&-"));
        let stderr = tool::text(&output.stderr);
        let line = "evenkeel: the output cannot be written: Bad file descriptor (os error 9)\n";
        assert_eq!((output.status.code(), stderr.as_str()), (Some(1), line), "{args}");
    }
    assert!(dir.shell("evenkeel run -q -p linux -- true >&-").status.success(), "nothing printed");
}

#[test]
fn a_kernel_thread_cannot_be_watched() {
    let stat = linux::procfs::stat("/".as_ref(), 2);
    if !stat.is_ok_and(|stat| stat.is_kernel_thread) {
        println!("skipped: kernel threads are not visible");
        return;
    }
    let stderr = Dir::new().rejection(&["watch", "--pid", "2"]);
    assert!(stderr.contains("no process can be managed: process 2 is a kernel thread"), "{stderr}");
}

#[test]
fn jobs_may_share_an_output_device_and_read_outputs_of_earlier_jobs() {
    let dir = with_mark(
        "[[job]]\nname = \"a\"\ncommand = [\"true\"]\noutput = \"/dev/null\"\n\
         [[job]]\nname = \"b\"\ncommand = [\"true\"]\noutput = \"/dev/null\"\n\
         [[job]]\nname = \"c\"\ncommand = [\"echo\", \"x\"]\noutput = \"passed\"\n\
         [[job]]\nname = \"d\"\ncommand = [\"cat\"]\ninput = \"passed\"\nstart = 0.2",
    );
    dir.write("passed", "");
    dir.success(&["run", "w.toml", "--policy", "linux", "--out", "out"]);
}

/// UID of the program when these tests run as root.
const UNPRIVILEGED: u32 = 65534;

/// Returns the program as an unprivileged user: the user of this process, or UID 65534.
fn as_unprivileged_user(dir: &Dir) -> Option<Command> {
    unprivileged(dir, dir.command(&["run", "w.toml"]))
}

fn unprivileged(dir: &Dir, mut command: Command) -> Option<Command> {
    if fs::metadata(dir.root()).expect("the directory exists").uid() == 0 {
        set_mode(dir, ".", 0o777);
        command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
        let mut probe = Command::new(tool::path());
        let probed = probe.arg("--version").uid(UNPRIVILEGED).gid(UNPRIVILEGED).output();
        if !probed.is_ok_and(|output| output.status.success()) {
            println!("skipped: an unprivileged user cannot execute {}", tool::path().display());
            return None;
        }
    }
    Some(command)
}

fn set_mode(dir: &Dir, name: &str, mode: u32) {
    fs::set_permissions(dir.path(name), Permissions::from_mode(mode)).expect("permitted");
}

/// The limit counts all processes of the user, and includes the first thread of the program.
#[test]
fn a_limit_on_threads_is_no_panic() {
    let compare = ["compare", "w.toml", "--host", "sim", "--seeds", "2", "--jobs", "2", "--quiet"];
    let load: &[&str] = &["load", "compute", "--cpu", "1ms", "--threads", "4"];
    for (args, status, error) in [
        (&[&compare[..], &["--out", "compared"]].concat()[..], 0, ""),
        (
            load,
            1,
            "evenkeel: cannot start 4 threads: Resource temporarily unavailable (os error 11)\n",
        ),
    ] {
        let dir = Dir::with(&[("w.toml", "[[job]]\nload = \"hog\"\nprofile = \"429.mcf\"\n")]);
        let mut limited = Command::new("prlimit");
        limited.arg("--nproc=1").arg(tool::path()).args(args).current_dir(dir.root());
        limited.env("HOME", dir.root());
        let Some(mut command) = unprivileged(&dir, limited) else { return };
        let output = command.output().expect("prlimit");
        assert_eq!(tool::text(&output.stderr), error, "{args:?}");
        assert_eq!(output.status.code(), Some(status), "{args:?}");
    }
}

#[test]
fn files_without_permission_are_rejected() {
    for (line, expected) in [
        ("output = \"locked/out\"", "output DIR/locked/out cannot be written"),
        ("output = \"mine\"", "output DIR/mine cannot be written"),
        ("dir = \"locked\"", "working directory DIR/locked cannot be entered"),
        ("input = \"mine\"", "input DIR/mine"),
    ] {
        let dir = with_mark(&format!("[[job]]\ncommand = [\"true\"]\n{line}"));
        fs::create_dir(dir.path("locked")).expect("a directory");
        dir.write("mine", PRECIOUS);
        ["locked", "mine"].iter().for_each(|name| set_mode(&dir, name, 0o000));
        let Some(mut command) = as_unprivileged_user(&dir) else { return };
        let stderr = tool::rejection(&mut command);
        assert!(!dir.path("started").exists(), "{line}: a job was started");
        let stderr = stderr.replace(&dir.root().display().to_string(), "DIR");
        let expected = format!("evenkeel: w.toml:4: job \"true\": {expected}: Permission denied\n");
        assert_eq!(stderr, expected);
        set_mode(&dir, "locked", 0o700);
    }
}

#[test]
fn a_program_for_another_architecture_is_rejected() {
    if has_foreign_formats() || !Path::new("/proc/sys/fs/binfmt_misc/status").exists() {
        println!("skipped: binfmt_misc has additional formats or is not mounted");
        return;
    }
    let dir = with_mark("[[job]]\ncommand = [\"./program\"]");
    let mut bytes = fs::read("/bin/true").expect("the file exists");
    bytes[18..20].copy_from_slice(&[0x16, 0x00]); // The machine type is s390.
    dir.write("program", bytes);
    set_mode(&dir, "program", 0o755);
    let stderr = dir.rejection(&["run", "w.toml"]);
    assert!(stderr.contains("for another processor (ELF machine 22"), "{stderr}");
}

fn has_foreign_formats() -> bool {
    let entries = fs::read_dir("/proc/sys/fs/binfmt_misc").into_iter().flatten().flatten();
    let is_format = |name: std::ffi::OsString| name != "register" && name != "status";
    entries.map(|entry| entry.file_name()).any(is_format)
}

#[test]
fn executable_scripts_and_programs_are_accepted() {
    for text in ["#!/bin/sh\n", "#! /bin/sh -e\n", "#!/bin/sh", "#!/usr/bin/env sh\nexit 0\n"] {
        let dir = Dir::with(&[("text", text), ("w.toml", "[[job]]\ncommand = [\"./program\"]\n")]);
        // install(1) writes the file, because a file that this process writes could be open in a child that another
        // test has forked. The kernel does not execute a file that is open for writing (ETXTBSY).
        let mut install = Command::new("install");
        install.args(["-m", "755", "text", "program"]).current_dir(dir.root());
        assert!(install.status().expect("it is part of coreutils").success());
        dir.success(&["run", "w.toml", "--policy", "linux"]);
    }
}
