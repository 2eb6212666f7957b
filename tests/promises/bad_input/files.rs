//! Files that jobs read, write and run: what would destroy one, or cannot be used, is refused before
//! anything is started.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use expect_test::{Expect, expect};

use super::{MARK, Trial, job, toml};
use crate::tool;

/// A file of the user's, and what must still be in it afterwards.
const PRECIOUS: &str = "precious\n";

/// The refusal of a workload beside a precious file, which stays as it is.
fn keeps(jobs: &str, expected: Expect) {
    let trial = Trial::new();
    trial.write("precious", PRECIOUS);
    fs::create_dir(trial.path("sub")).expect("made");
    symlink("precious", trial.path("link")).expect("linked");
    let text = format!("{MARK}{jobs}");
    trial.write("w.toml", &text);
    expected.assert_eq(&trial.refused(&["run", "w.toml"]));
    assert_eq!(fs::read_to_string(trial.path("precious")).expect("it is there"), PRECIOUS);
    assert_eq!(fs::read_to_string(trial.path("w.toml")).expect("it is there"), text);
}

#[test]
fn a_job_that_would_empty_its_own_input_is_refused() {
    for (input, output) in
        [("precious", "precious"), ("precious", "./precious"), ("precious", "link")]
    {
        let trial = Trial::new();
        trial.write("precious", PRECIOUS);
        symlink("precious", trial.path("link")).expect("linked");
        let lines = format!("command = [\"sort\"]\ninput = \"{input}\"\noutput = \"{output}\"\n");
        trial.write("w.toml", format!("{MARK}[[job]]\n{lines}"));
        let said = trial.refused(&["run", "w.toml"]);
        assert!(said.contains("its input") && said.contains("w.toml:"), "{output}: {said}");
        assert_eq!(fs::read_to_string(trial.path("precious")).expect("there"), PRECIOUS);
    }
    keeps(
        "[[job]]\ncommand = [\"sort\"]\ninput = \"precious\"\noutput = \"precious\"\n",
        expect![[r#"
            evenkeel: w.toml:7:10: output is also the input, and would be truncated before it is read; name another file
        "#]],
    );
    keeps(
        "[[job]]\ncommand = [\"sort\"]\ninput = \"precious\"\noutput = \"link\"\n",
        expect![[r#"
        evenkeel: w.toml:4: job sort: output FOLDER/link is its input too, and would be emptied first
    "#]],
    );
}

#[test]
fn a_job_that_would_empty_the_workload_or_a_program_is_refused() {
    keeps(
        "[[job]]\ncommand = [\"true\"]\noutput = \"w.toml\"\n",
        expect![[r#"
        evenkeel: w.toml:6:10: output is this workload file itself, which would be truncated; name another file
    "#]],
    );
    keeps(
        "[[job]]\ncommand = [\"true\"]\noutput = \"sub/../w.toml\"\n",
        expect![[r#"
        evenkeel: w.toml:4: job true: output FOLDER/sub/../w.toml is the workload file, which would be emptied
    "#]],
    );
    let trial = Trial::new();
    trial.write("script", "#!/bin/sh\n");
    fs::set_permissions(trial.path("script"), Permissions::from_mode(0o755)).expect("set");
    trial
        .write("w.toml", format!("{MARK}[[job]]\ncommand = [\"./script\"]\noutput = \"script\"\n"));
    expect![[r#"
        evenkeel: w.toml:4: job script: output FOLDER/script is a program that a job runs, and would be emptied
    "#]].assert_eq(&trial.refused(&["run", "w.toml"]));
}

#[test]
fn two_jobs_with_one_output_are_refused() {
    let two = |first: &str, second: &str| {
        format!(
            "[[job]]\nname = \"a\"\ncommand = [\"true\"]\noutput = \"{first}\"\n\
             [[job]]\nname = \"b\"\ncommand = [\"true\"]\noutput = \"{second}\"\n"
        )
    };
    keeps(
        &two("out", "out"),
        expect![[r#"
        evenkeel: w.toml:11:10: the output out is already that of the job in line 4; name another file
    "#]],
    );
    keeps(
        &two("out", "./out"),
        expect![[r#"
        evenkeel: w.toml:11:10: the output ./out is already that of the job in line 4; name another file
    "#]],
    );
    keeps(
        &two("out", "sub/../out"),
        expect![[r#"
        evenkeel: w.toml:8: job b: output FOLDER/sub/../out is that of job a in line 4 already
    "#]],
    );
    keeps(
        &two("precious", "link"),
        expect![[r#"
        evenkeel: w.toml:8: job b: output FOLDER/link is that of job a in line 4 already
    "#]],
    );
    keeps(
        &two("/dev/shm/evenkeel-test", "/dev/shm/evenkeel-test"),
        expect![[r#"
        evenkeel: w.toml:11:10: the output /dev/shm/evenkeel-test is already that of the job in line 4; name another file
    "#]],
    );
    keeps(
        "[[job]]\nname = \"c\"\ncopies = 2\ncommand = [\"true\"]\noutput = \"c.2\"\n",
        expect![[r#"
            evenkeel: w.toml:8:10: output is the same file for every copy; put {copy} into its name
        "#]],
    );
    keeps(
        "[[job]]\nname = \"c\"\ncopies = 2\ncommand = [\"true\"]\noutput = \"c.{copy}\"\n\
         [[job]]\nname = \"d\"\ncommand = [\"true\"]\noutput = \"c.2\"\n",
        expect![[r#"
            evenkeel: w.toml:12:10: the output c.2 is already that of the job in line 4; name another file
        "#]],
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
fn a_folder_as_input_is_refused() {
    job(
        "command = [\"cat\"]\ninput = \".\"",
        expect![[r#"
        evenkeel: w.toml:4: job cat: input FOLDER/.: this is a folder; name a file in it
    "#]],
    );
}

#[test]
fn an_output_that_cannot_be_written_is_refused_and_one_that_can_is_not_made() {
    job(
        "command = [\"true\"]\noutput = \"/proc/nowhere\"",
        expect![[r#"
        evenkeel: w.toml:4: job true: output /proc/nowhere cannot be written: No such file or directory
    "#]],
    );
    job(
        &format!("command = [\"true\"]\noutput = \"{}\"", "x".repeat(256)),
        expect![[r#"
        evenkeel: w.toml:4: job true: output FOLDER/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx cannot be written: File name too long
    "#]],
    );
    job(
        "command = [\"true\"]\noutput = \".\"",
        expect![[r#"
        evenkeel: w.toml:4: job true: output FOLDER/. is a folder
    "#]],
    );
    // The check of the first job's output leaves nothing behind: the second is refused.
    toml(
        "[[job]]\nname = \"a\"\ncommand = [\"true\"]\noutput = \"new\"\n[[job]]\ncommand = [\"no-such-program\"]\n",
        expect![[r#"
            evenkeel: w.toml:8: job no-such-program: program no-such-program is not in PATH
        "#]],
    );
}

#[test]
fn a_name_that_is_too_long_for_the_file_of_its_output_is_refused() {
    // In the name of a file each of these letters is written with six characters.
    job(
        &format!("name = \"{}\"\ncommand = [\"true\"]", "ü".repeat(45)),
        expect![[r#"
        evenkeel: w.toml:4: job üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü: its name is too long for the files of its output: letters other than a-z and digits take three bytes or more
    "#]],
    );
}

/// As what user the program runs when these tests run as root.
const NOBODY: u32 = 65534;

/// The program as an ordinary user: this one, or nobody.
fn as_ordinary_user(trial: &Trial) -> Option<Command> {
    let mut command = tool::command(&["run", "w.toml"]);
    command.current_dir(trial.folder.path());
    if fs::metadata(trial.folder.path()).expect("it is there").uid() == 0 {
        let all = Permissions::from_mode(0o777);
        fs::set_permissions(trial.folder.path(), all).expect("set");
        command.uid(NOBODY).gid(NOBODY);
        let mut probe = Command::new(tool::path());
        let probed = probe.arg("--version").uid(NOBODY).gid(NOBODY).output();
        if !probed.is_ok_and(|output| output.status.success()) {
            eprintln!("not run: nobody may not run {}", tool::path().display());
            return None;
        }
    }
    Some(command)
}

#[test]
fn what_an_ordinary_user_may_not_use_is_refused() {
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
        let Some(mut command) = as_ordinary_user(&trial) else { return };
        let output = command.output().expect("it starts");
        let said = tool::text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{lines}: {said}");
        assert!(!trial.path("started").exists(), "{lines}: something was started");
        expected.assert_eq(&said.replace(&trial.folder.path().display().to_string(), "FOLDER"));
        fs::set_permissions(trial.path("locked"), Permissions::from_mode(0o700)).expect("set");
    }
}

/// The refusal of a job that runs a file with these bytes.
fn program(bytes: &[u8], expected: Expect) {
    let trial = Trial::new();
    trial.write("program", bytes);
    fs::set_permissions(trial.path("program"), Permissions::from_mode(0o755)).expect("set");
    trial.write("w.toml", format!("{MARK}[[job]]\ncommand = [\"./program\"]\n"));
    expected.assert_eq(&trial.refused(&["run", "w.toml"]));
}

#[test]
fn what_the_kernel_would_not_run_is_refused() {
    if has_foreign_formats() {
        eprintln!("not run: this kernel knows formats of its own (binfmt_misc)");
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
        evenkeel: w.toml:4: job program: program FOLDER/./program is neither a program nor a script: begin it with #!/bin/sh or what else is to read it, or run it with shell
    "#]],
    );
    program(
        b"\x7fELF and then garbage that is long enough to be looked at as a header",
        expect![[r#"
            evenkeel: w.toml:4: job program: program FOLDER/./program is a broken program: its ELF header makes no sense
        "#]],
    );
    program(
        b"\x7fELF",
        expect![[r#"
        evenkeel: w.toml:4: job program: program FOLDER/./program is a broken program: its ELF header makes no sense
    "#]],
    );
    program(
        b"#! \necho\n",
        expect![[r#"
        evenkeel: w.toml:4: job program: program FOLDER/./program names no interpreter behind its #!: write #!/bin/sh or the like
    "#]],
    );
    program(
        b"#!\n",
        expect![[r#"
        evenkeel: w.toml:4: job program: program FOLDER/./program names no interpreter behind its #!: write #!/bin/sh or the like
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
        evenkeel: w.toml:4: job program: program FOLDER/./program cannot be run: its interpreter, program /usr is a folder
    "#]],
    );
}

#[test]
fn a_program_for_another_processor_is_refused() {
    if has_foreign_formats() || !Path::new("/proc/sys/fs/binfmt_misc/status").exists() {
        eprintln!("not run: this kernel knows formats of its own (binfmt_misc), or does not tell");
        return;
    }
    let trial = Trial::new();
    let mut bytes = fs::read("/bin/true").expect("it is there");
    bytes[18..20].copy_from_slice(&[0x16, 0x00]); // s390
    trial.write("program", bytes);
    fs::set_permissions(trial.path("program"), Permissions::from_mode(0o755)).expect("set");
    trial.write("w.toml", format!("{MARK}[[job]]\ncommand = [\"./program\"]\n"));
    let said = trial.refused(&["run", "w.toml"]);
    assert!(said.contains("for another processor (ELF machine 22"), "{said}");
}

fn has_foreign_formats() -> bool {
    let entries =
        fs::read_dir(Path::new("/proc/sys/fs/binfmt_misc")).into_iter().flatten().flatten();
    entries.filter(|entry| !["register", "status"].iter().any(|n| entry.file_name() == *n)).count()
        > 0
}

#[test]
fn scripts_and_programs_that_can_be_run_are_run() {
    for text in ["#!/bin/sh\n", "#! /bin/sh -e\n", "#!/bin/sh", "#!/usr/bin/env sh\nexit 0\n"] {
        let trial = Trial::new();
        trial.write("text", text);
        // Not written here: what another test starts meanwhile would hold it open for writing for a
        // moment, and the kernel runs no such file.
        let mut install = Command::new("install");
        install.args(["-m", "755", "text", "program"]).current_dir(trial.folder.path());
        assert!(install.status().expect("it is part of coreutils").success());
        trial.write("w.toml", "[[job]]\ncommand = [\"./program\"]\n");
        let output = trial.run(&["run", "w.toml", "--policy", "linux"]);
        assert!(output.status.success(), "{text:?}: {}", tool::text(&output.stderr));
    }
}

#[test]
fn a_folder_or_a_device_is_no_program() {
    job(
        "command = [\"/usr\"]",
        expect![[r#"
        evenkeel: w.toml:4: job usr: program /usr is a folder
    "#]],
    );
    job(
        "command = [\"/dev/null\"]",
        expect![[r#"
        evenkeel: w.toml:4: job null: program /dev/null is no regular file
    "#]],
    );
}

/// Another version may have other keys: whoever is told that one is missing or unknown mends the wrong thing.
#[test]
fn of_a_file_of_another_version_nothing_else_is_looked_at() {
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
        let said = trial.refused(args);
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}
