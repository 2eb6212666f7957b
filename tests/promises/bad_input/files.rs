//! Files that jobs read, write and execute: uses that would destroy a file or cannot work are rejected before any job
//! starts.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use expect_test::{Expect, expect};

use super::{MARK, Trial, jobs, toml};
use crate::tool;

/// Contents of a user's file that must not change.
const PRECIOUS: &str = "precious\n";

/// Checks rejections of jobs, and that the files beside the workload are unchanged. Each case is the lines of the jobs,
/// separated by ` | `, or what `jobs` makes of it.
fn reject_and_keep_files(expected: Expect, jobs: impl Fn(&str) -> String) {
    tool::check_cases(&expected, |case| {
        let trial = Trial::new();
        trial.write("precious", PRECIOUS);
        fs::create_dir(trial.path("sub")).expect("made");
        symlink("precious", trial.path("link")).expect("linked");
        let text = format!("{MARK}{}\n", jobs(case).replace(" | ", "\n"));
        trial.write("w.toml", &text);
        let rejection = trial.rejection(&["run", "w.toml"]);
        let read = |name: &str| fs::read_to_string(trial.path(name)).expect("the file exists");
        assert_eq!((read("precious").as_str(), read("w.toml")), (PRECIOUS, text));
        rejection
    });
}

#[test]
fn a_job_that_would_truncate_its_own_input_is_rejected() {
    reject_and_keep_files(
        expect![[r#"
        [[job]] | command = ["sort"] | input = "precious" | output = "precious"
            evenkeel: w.toml:7:10: output is also the input, and would be truncated before it is read; name another file
        [[job]] | command = ["sort"] | input = "precious" | output = "./precious"
            evenkeel: w.toml:7:10: output is also the input, and would be truncated before it is read; name another file
        [[job]] | command = ["sort"] | input = "precious" | output = "link"
            evenkeel: w.toml:4: job sort: output FOLDER/link is its input too, and would be truncated first
    "#]],
        str::to_owned,
    );
}

#[test]
fn a_job_that_would_truncate_the_workload_or_a_program_is_rejected() {
    reject_and_keep_files(
        expect![[r#"
        [[job]] | command = ["true"] | output = "w.toml"
            evenkeel: w.toml:6:10: output is this workload file itself, which would be truncated; name another file
        [[job]] | command = ["true"] | output = "sub/../w.toml"
            evenkeel: w.toml:4: job true: output FOLDER/sub/../w.toml is the workload file, which would be truncated
    "#]],
        str::to_owned,
    );
    let trial = Trial::new();
    trial.write("script", "#!/bin/sh\n");
    fs::set_permissions(trial.path("script"), Permissions::from_mode(0o755)).expect("set");
    trial
        .write("w.toml", format!("{MARK}[[job]]\ncommand = [\"./script\"]\noutput = \"script\"\n"));
    expect![[r#"
        evenkeel: w.toml:4: job script: output FOLDER/script is a program that a job runs, and would be truncated
    "#]].assert_eq(&trial.rejection(&["run", "w.toml"]));
}

#[test]
fn two_jobs_with_the_same_output_are_rejected() {
    let two = |outputs: &str| {
        let (first, second) = outputs.split_once(' ').expect("two outputs");
        format!(
            "[[job]] | name = \"a\" | command = [\"true\"] | output = \"{first}\" | \
             [[job]] | name = \"b\" | command = [\"true\"] | output = \"{second}\""
        )
    };
    reject_and_keep_files(
        expect![[r#"
            out out
                evenkeel: w.toml:11:10: the output out is already that of the job in line 4; name another file
            out ./out
                evenkeel: w.toml:11:10: the output ./out is already that of the job in line 4; name another file
            out sub/../out
                evenkeel: w.toml:8: job b: output FOLDER/sub/../out is already the output of job a in line 4
            precious link
                evenkeel: w.toml:8: job b: output FOLDER/link is already the output of job a in line 4
            /dev/shm/evenkeel-test /dev/shm/evenkeel-test
                evenkeel: w.toml:11:10: the output /dev/shm/evenkeel-test is already that of the job in line 4; name another file
    "#]],
        two,
    );
    reject_and_keep_files(
        expect![[r#"
        [[job]] | name = "c" | copies = 2 | command = ["true"] | output = "c.2"
            evenkeel: w.toml:8:10: output is the same file for every copy; put {copy} into its name
        [[job]] | name = "c" | copies = 2 | command = ["true"] | output = "c.{copy}" | [[job]] | name = "d" | command = ["true"] | output = "c.2"
            evenkeel: w.toml:12:10: the output c.2 is already that of the job in line 4; name another file
    "#]],
        str::to_owned,
    );
}

#[test]
fn many_jobs_may_write_to_a_device_and_one_may_read_what_another_wrote() {
    let trial = Trial::new();
    let lines = "[[job]]\nname = \"a\"\ncommand = [\"true\"]\noutput = \"/dev/null\"\n\
                 [[job]]\nname = \"b\"\ncommand = [\"true\"]\noutput = \"/dev/null\"\n\
                 [[job]]\nname = \"c\"\ncommand = [\"echo\", \"x\"]\noutput = \"passed\"\n\
                 [[job]]\nname = \"d\"\ncommand = [\"cat\"]\ninput = \"passed\"\nstart = 0.2\n";
    trial.write("passed", "");
    trial.write("w.toml", format!("{MARK}{lines}"));
    let output = trial.run(&["run", "w.toml", "--policy", "linux", "--out", "out"]);
    assert!(output.status.success(), "{}", tool::text(&output.stderr));
}

#[test]
fn a_folder_as_input_is_rejected() {
    jobs(expect![[r#"
        command = ["cat"] | input = "."
            evenkeel: w.toml:4: job cat: input FOLDER/.: this is a directory; give a file
    "#]]);
}

#[test]
fn an_unwritable_output_is_rejected_and_a_writable_one_is_not_created() {
    jobs(expect![[r#"
        command = ["true"] | output = "/proc/nowhere"
            evenkeel: w.toml:4: job true: output /proc/nowhere cannot be written: No such file or directory
    "#]]);
    toml(
        &format!("[[job]]\ncommand = [\"true\"]\noutput = \"{}\"", "x".repeat(256)),
        expect![[r#"
        evenkeel: w.toml:4: job true: output FOLDER/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx cannot be written: File name too long
    "#]],
    );
    jobs(expect![[r#"
        command = ["true"] | output = "."
            evenkeel: w.toml:4: job true: output FOLDER/. is a directory
    "#]]);
    // The check of the first job's output leaves no file: the second job is rejected.
    toml(
        "[[job]]\nname = \"a\"\ncommand = [\"true\"]\noutput = \"new\"\n[[job]]\ncommand = [\"no-such-program\"]\n",
        expect![[r#"
            evenkeel: w.toml:8: job no-such-program: program no-such-program is not in PATH
        "#]],
    );
}

#[test]
fn a_job_name_that_is_too_long_for_its_output_file_is_rejected() {
    // A file name encodes each of these letters with six characters.
    toml(
        &format!("[[job]]\nname = \"{}\"\ncommand = [\"true\"]", "ü".repeat(45)),
        expect![[r#"
        evenkeel: w.toml:4: job üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü: its name is too long for the files of its output: letters other than a-z and digits take three bytes or more
    "#]],
    );
}

/// UID of the program when these tests run as root.
const UNPRIVILEGED: u32 = 65534;

/// The program as an unprivileged user: this one, or UID 65534.
fn as_unprivileged_user(trial: &Trial) -> Option<Command> {
    let mut command = tool::command(&["run", "w.toml"]);
    command.current_dir(trial.folder.path());
    if fs::metadata(trial.folder.path()).expect("the file exists").uid() == 0 {
        let all = Permissions::from_mode(0o777);
        fs::set_permissions(trial.folder.path(), all).expect("set");
        command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
        let mut probe = Command::new(tool::path());
        let probed = probe.arg("--version").uid(UNPRIVILEGED).gid(UNPRIVILEGED).output();
        if !probed.is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: an unprivileged user cannot execute {}", tool::path().display());
            return None;
        }
    }
    Some(command)
}

#[test]
fn files_without_permission_are_rejected() {
    for (lines, expected) in [
        (
            "output = \"locked/out\"",
            expect![[r#"
            evenkeel: w.toml:4: job true: output FOLDER/locked/out cannot be written: Permission denied
        "#]],
        ),
        (
            "output = \"mine\"",
            expect![[r#"
            evenkeel: w.toml:4: job true: output FOLDER/mine cannot be written: Permission denied
        "#]],
        ),
        (
            "dir = \"locked\"",
            expect![[r#"
            evenkeel: w.toml:4: job true: working directory FOLDER/locked cannot be entered: Permission denied
        "#]],
        ),
        (
            "input = \"mine\"",
            expect![[r#"
            evenkeel: w.toml:4: job true: input FOLDER/mine: Permission denied
        "#]],
        ),
    ] {
        let trial = Trial::new();
        fs::create_dir(trial.path("locked")).expect("made");
        trial.write("mine", PRECIOUS);
        fs::set_permissions(trial.path("locked"), Permissions::from_mode(0o000)).expect("set");
        fs::set_permissions(trial.path("mine"), Permissions::from_mode(0o000)).expect("set");
        trial.write("w.toml", format!("{MARK}[[job]]\ncommand = [\"true\"]\n{lines}\n"));
        let Some(mut command) = as_unprivileged_user(&trial) else { return };
        let output = command.output().expect("it starts");
        let stderr = tool::text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{lines}: {stderr}");
        assert!(!trial.path("started").exists(), "{lines}: a job was started");
        expected.assert_eq(&stderr.replace(&trial.folder.path().display().to_string(), "FOLDER"));
        fs::set_permissions(trial.path("locked"), Permissions::from_mode(0o700)).expect("set");
    }
}

/// Checks the rejection of a job that executes a file with these bytes.
fn program(bytes: &[u8], expected: Expect) {
    let trial = Trial::new();
    trial.write("program", bytes);
    fs::set_permissions(trial.path("program"), Permissions::from_mode(0o755)).expect("set");
    trial.write("w.toml", format!("{MARK}[[job]]\ncommand = [\"./program\"]\n"));
    expected.assert_eq(&trial.rejection(&["run", "w.toml"]));
}

#[test]
fn files_that_the_kernel_cannot_execute_are_rejected() {
    if has_foreign_formats() {
        eprintln!("skipped: binfmt_misc has additional formats");
        return;
    }
    program(
        b"",
        expect![[r#"
        evenkeel: w.toml:4: job program: program FOLDER/./program is an empty file
    "#]],
    );
    program(
        b"echo no shebang\n",
        expect![[r#"
        evenkeel: w.toml:4: job program: program FOLDER/./program is neither a program nor a script: start it with #!/bin/sh or another interpreter, or run it with shell
    "#]],
    );
    program(
        b"\x7fELF and then garbage that is long enough for a header",
        expect![[r#"
            evenkeel: w.toml:4: job program: program FOLDER/./program is a broken program: its ELF header is invalid
        "#]],
    );
    program(
        b"\x7fELF",
        expect![[r#"
        evenkeel: w.toml:4: job program: program FOLDER/./program is a broken program: its ELF header is invalid
    "#]],
    );
    program(
        b"#! \necho\n",
        expect![[r#"
        evenkeel: w.toml:4: job program: program FOLDER/./program has no interpreter after #!: write for example #!/bin/sh
    "#]],
    );
    program(
        b"#!\n",
        expect![[r#"
        evenkeel: w.toml:4: job program: program FOLDER/./program has no interpreter after #!: write for example #!/bin/sh
    "#]],
    );
    program(
        b"#!/no/such/interpreter\n",
        expect![[r#"
        evenkeel: w.toml:4: job program: program FOLDER/./program cannot be run: its interpreter, program /no/such/interpreter: No such file or directory
    "#]],
    );
    program(
        b"#!/etc/passwd -x\n",
        expect![[r#"
        evenkeel: w.toml:4: job program: program FOLDER/./program cannot be run: its interpreter, program /etc/passwd may not be executed by this user
    "#]],
    );
    program(
        b"#!/usr\n",
        expect![[r#"
        evenkeel: w.toml:4: job program: program FOLDER/./program cannot be run: its interpreter, program /usr is a directory
    "#]],
    );
}

#[test]
fn a_program_for_another_architecture_is_rejected() {
    if has_foreign_formats() || !Path::new("/proc/sys/fs/binfmt_misc/status").exists() {
        eprintln!("skipped: binfmt_misc has additional formats or is not mounted");
        return;
    }
    let trial = Trial::new();
    let mut bytes = fs::read("/bin/true").expect("the file exists");
    bytes[18..20].copy_from_slice(&[0x16, 0x00]); // s390
    trial.write("program", bytes);
    fs::set_permissions(trial.path("program"), Permissions::from_mode(0o755)).expect("set");
    trial.write("w.toml", format!("{MARK}[[job]]\ncommand = [\"./program\"]\n"));
    let stderr = trial.rejection(&["run", "w.toml"]);
    assert!(stderr.contains("for another processor (ELF machine 22"), "{stderr}");
}

fn has_foreign_formats() -> bool {
    let entries =
        fs::read_dir(Path::new("/proc/sys/fs/binfmt_misc")).into_iter().flatten().flatten();
    entries.filter(|entry| !["register", "status"].iter().any(|n| entry.file_name() == *n)).count()
        > 0
}

#[test]
fn executable_scripts_and_programs_are_accepted() {
    for text in ["#!/bin/sh\n", "#! /bin/sh -e\n", "#!/bin/sh", "#!/usr/bin/env sh\nexit 0\n"] {
        let trial = Trial::new();
        trial.write("text", text);
        // Not written by this process: a child that another test forks meanwhile could hold the file open for writing, and the
        // kernel does not execute such a file (ETXTBSY).
        let mut install = Command::new("install");
        install.args(["-m", "755", "text", "program"]).current_dir(trial.folder.path());
        assert!(install.status().expect("it is part of coreutils").success());
        trial.write("w.toml", "[[job]]\ncommand = [\"./program\"]\n");
        let output = trial.run(&["run", "w.toml", "--policy", "linux"]);
        assert!(output.status.success(), "{text:?}: {}", tool::text(&output.stderr));
    }
}

#[test]
fn folders_and_devices_are_rejected_as_programs() {
    jobs(expect![[r#"
        command = ["/usr"]
            evenkeel: w.toml:4: job usr: program /usr is a directory
        command = ["/dev/null"]
            evenkeel: w.toml:4: job null: program /dev/null is not a regular file
    "#]]);
}

/// Another version may have other keys, so an error about a key would be misleading.
#[test]
fn a_file_of_another_version_is_rejected_for_its_version_only() {
    let trial = Trial::new();
    trial.write("w.toml", MARK);
    trial.write("future.toml", "stages = 3\nversion = 99\n");
    trial.write("machine.toml", "format_version = 99\n");
    trial.write("machine.json", "{\"format_version\": 99}");
    trial.write("p.profile.toml", "shape = 1\nversion = 99\n");
    trial.write("named.toml", format!("{MARK}profile = \"p\"\n"));
    trial.write("j.jsonl", "{\"journal\":99,\"part\":\"first\"}\n");
    trial.write("s.stream", "{\"evenkeel_stream\":99}\n");
    for (args, expected) in [
        (
            &["run", "future.toml"][..],
            "future.toml:2:11: version is 99; this evenkeel reads version 1",
        ),
        (
            &["generate", "--list", "future.toml"],
            "future.toml:2:11: version is 99; this evenkeel reads version 1",
        ),
        (
            &["run", "named.toml"],
            "p.profile.toml:2:11: version is 99; this evenkeel reads version 1",
        ),
        (&["machine", "--file", "machine.toml"], "machine.toml:1:18: format_version is 99"),
        (&["machine", "--file", "machine.json"], "machine.json: format_version is 99"),
        (&["explain", "j.jsonl"], "j.jsonl:1: the journal has format 99"),
        (&["replay", "j.jsonl"], "j.jsonl:1: the journal has format 99"),
        (&["replay", "s.stream"], "s.stream:1: the stream has format 99"),
    ] {
        let stderr = trial.rejection(args);
        assert!(stderr.contains(expected), "{args:?}: {stderr}");
    }
}
