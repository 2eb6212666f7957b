//! Signatures: a program keeps its signature through the usual ways to copy and package it, runs as before, and gets
//! its original bytes back. A signature that is not valid is reported in one line and not used.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use serde_json::Value;
use tests::dir::Dir;
use tests::tool;

const PROFILE: &str = "name = \"prog\"\nclass = 9\nclass_cache_bytes = 1048576\n\
    [[phase]]\nllc_accesses_per_1000 = 20.0\n\
    [phase.curve]\ncache_bytes = [1048576]\nmisses_per_1000 = [5.0]\n";

const OTHER_USER: u32 = 1234;

/// Returns a directory with a program, a script and a profile.
fn dir() -> Dir {
    let dir = Dir::with(&[("p.toml", PROFILE), ("script", "#!/bin/sh\nexit 0\n")]);
    fs::copy("/bin/true", dir.path("prog")).expect("a program");
    for name in ["prog", "script"] {
        fs::set_permissions(dir.path(name), fs::Permissions::from_mode(0o755)).expect("permitted");
    }
    dir
}

fn embed(dir: &Dir, program: &str) -> String {
    dir.success(&["profile", "--embed", program, "--from", "p.toml"])
}

/// Returns the error line of a command with exit status 2.
fn rejection(dir: &Dir, args: &[&str]) -> String {
    tool::rejection(&mut dir.command(args))
}

/// Runs a job, and returns its row of the report and the messages.
fn run_job(dir: &Dir, job: &str) -> (Value, String) {
    dir.write("w.toml", format!("[[job]]\n{job}\n"));
    let mut command = dir.command_with_state(&["run", "w.toml", "--policy", "linux", "--json"]);
    let output = command.env("XDG_DATA_HOME", dir.root()).output().expect("it starts");
    let messages = tool::text(&output.stderr);
    let report: Value = serde_json::from_slice(&output.stdout).expect(&messages);
    (report["jobs"][0].clone(), messages)
}

#[test]
fn copying_packaging_and_stripping_keep_the_signature_and_removal_restores_the_bytes() {
    let dir = dir();
    assert_eq!(embed(&dir, "./prog"), "signature: ./prog\n");
    let output = dir.shell(
        "set -e; ./prog; mkdir -p out deb/DEBIAN deb/usr/bin; cp prog out/cp
        install -m 755 prog out/install; install -m 755 prog deb/usr/bin/deb
        tar -c prog | tar -x -C out; mv out/prog out/tar
        if command -v strip; then strip -o out/strip prog; objcopy prog out/objcopy; fi
        if command -v dpkg-deb; then
            printf 'Package: x\\nVersion: 1\\nArchitecture: all\\nMaintainer: x <x@x>\\nDescription: x\\n' > deb/DEBIAN/control
            dpkg-deb --build deb x.deb; dpkg-deb -x x.deb out/root; mv out/root/usr/bin/deb out/deb
        fi
        for program in out/*; do test -d $program || $program; done",
    );
    assert!(output.status.success(), "{}", tool::text(&output.stderr));
    let list = dir.success(&["profile", "--list", "out", "script"]);
    let rows: Vec<&str> = list.lines().skip(1).collect();
    let n_copies = fs::read_dir(dir.path("out")).expect("a directory").flatten();
    let n_copies = n_copies.filter(|entry| entry.path().is_file()).count();
    assert_eq!(rows.len(), n_copies + 1, "{list}");
    for row in &rows[..n_copies] {
        assert!(
            row.starts_with("out/") && row.contains("prog     5.00 ") && row.ends_with(" embedded"),
            "{list}"
        );
    }
    assert!(rows[n_copies].ends_with("none"), "{list}");
    let twice = dir.success(&["profile", "--list", "./prog", "./"]);
    assert_eq!(twice.matches("./prog").count(), 1, "{twice}");
    dir.success(&["profile", "--remove", "out/tar"]);
    let [restored, original] =
        [&dir.path("out/tar"), Path::new("/bin/true")].map(|path| fs::read(path).expect("a file"));
    assert!(restored == original);
    if dir.path("out/strip").exists() {
        let output = dir.run(&["profile", "--remove", "out/strip"]);
        let command = "objcopy --remove-section .note.evenkeel out/strip\n";
        assert!(tool::text(&output.stderr).ends_with(command));
    }
}

#[test]
fn a_job_uses_the_signature_of_its_program_and_the_report_names_the_file() {
    let dir = dir();
    let job = "command = [\"./prog\"]";
    assert_eq!(run_job(&dir, job).0["class"], Value::Null);
    embed(&dir, "./prog");
    let (row, messages) = run_job(&dir, job);
    assert_eq!((&row["class"], &row["exit_status"]), (&9.into(), &0.into()), "{messages}");
    assert!(row["profile_file"].as_str().expect(&messages).ends_with("/prog"), "{row}");
    assert!(messages.contains("is its embedded signature"), "{messages}");
    let journal = dir.shell("cat evenkeel-runs/*/journal.jsonl");
    assert!(tool::text(&journal.stdout).contains("\"profile_file\":"));
    let (row, _) = run_job(&dir, &format!("{job}\nclass = 3"));
    assert_eq!(row["class"], 3);
    // A profile directory of the command line comes before the signature, a profile beside the program after it.
    dir.write("prog.profile.toml", PROFILE.replace("class = 9", "class = 2"));
    assert_eq!(run_job(&dir, job).0["class"], 9);
    symlink(dir.path("prog"), dir.path("link")).expect("a link");
    assert_eq!(run_job(&dir, "command = [\"./link\"]").0["class"], 9);
}

#[test]
fn a_script_has_its_own_side_file_and_a_change_of_the_script_is_reported() {
    let dir = dir();
    let args = ["profile", "--embed", "./script", "--from", "p.toml"];
    let output = dir.run(&args);
    assert_eq!(tool::text(&output.stdout), "signature: ./script.evenkeel-profile\n");
    assert!(tool::text(&output.stderr).contains("the file is not an ELF program"));
    let job = "command = [\"./script\"]";
    let (row, messages) = run_job(&dir, job);
    assert_eq!(row["class"], 9, "{messages}");
    dir.write("script", "#!/bin/sh\ntrue\n");
    let (row, messages) = run_job(&dir, job);
    assert_eq!(row["class"], Value::Null);
    let expected =
        "script.evenkeel-profile: the signature is of another build; profile the program again";
    assert!(messages.lines().any(|line| line.ends_with(expected)), "{messages}");
    dir.success(&["profile", "--remove", "./script"]);
    assert!(!dir.path("script.evenkeel-profile").exists());
}

#[test]
fn a_signature_beside_a_program_with_an_embedded_one_is_rejected() {
    let dir = dir();
    embed(&dir, "./prog");
    let args = ["profile", "--embed", "./prog", "--from", "p.toml"];
    let line = rejection(&dir, &[&args[..], &["--beside"]].concat());
    assert!(line.ends_with("to remove it: evenkeel profile --remove ./prog\n"), "{line}");
    fs::hard_link(dir.path("prog"), dir.path("second")).expect("a link");
    let line = rejection(&dir, &args);
    assert!(line.contains("the program has an embedded one"), "{line}");
    assert!(!dir.path("prog.evenkeel-profile").exists());
}

#[test]
fn a_program_that_failed_or_changed_during_the_measurement_gets_no_signature() {
    if !crate::profiles::has_valgrind() {
        return;
    }
    let dir = dir();
    dir.write("script", "#!/bin/sh\nexit $1\n");
    let embed = ["profile", "--embed", "./script", "--once", "--output", "p2.toml"];
    let failed = dir.run(&[&embed[..], &["--", "3"]].concat());
    let messages = tool::text(&failed.stderr);
    assert_eq!(failed.status.code(), Some(1), "{messages}");
    let command = "to write it: evenkeel profile --embed ./script --from p2.toml";
    assert!(messages.lines().any(|line| line.ends_with(command)), "{messages}");
    dir.write("script", "#!/bin/sh\necho true >> script\n");
    let changed = dir.run(&embed);
    let messages = tool::text(&changed.stderr);
    assert_eq!(changed.status.code(), Some(1), "{messages}");
    assert!(
        messages.ends_with("no signature is written: it changed meanwhile; try again\n"),
        "{messages}"
    );
    assert!(!dir.path("script.evenkeel-profile").exists());
}

#[test]
fn a_side_file_that_another_user_could_write_is_not_used() {
    let dir = dir();
    let side = dir.path("script.evenkeel-profile");
    let job = "command = [\"./script\"]";
    let check = |expected: &str| {
        let line = rejection(&dir, &["profile", "--show", "./script"]);
        assert!(line.contains(&format!("script.evenkeel-profile: {expected}")), "{line}");
        let (row, messages) = run_job(&dir, job);
        assert_eq!((&row["class"], &row["exit_status"]), (&Value::Null, &0.into()), "{messages}");
        let notes = messages.lines().filter(|line| line.contains(expected));
        assert_eq!(notes.count(), 1, "{messages}");
    };
    let output = dir.shell("umask 002; evenkeel profile --embed ./script --from p.toml");
    assert!(output.status.success(), "{}", tool::text(&output.stderr));
    assert_eq!(run_job(&dir, job).0["class"], 9, "a new side file is used also with umask 002");
    fs::set_permissions(&side, fs::Permissions::from_mode(0o664)).expect("permitted");
    check("other users can write it; use chmod go-w");
    fs::set_permissions(&side, fs::Permissions::from_mode(0o644)).expect("permitted");
    if !rustix::process::geteuid().is_root() {
        println!("not run: only root can change the owner of a file");
        return;
    }
    chown(&side, Some(OTHER_USER), None).expect("root");
    check("it belongs to another user than its program; remove it, or use chown");
    chown(dir.path("script"), Some(OTHER_USER), None).expect("root");
    assert_eq!(run_job(&dir, job).0["class"], 9, "the owner of the program may write it");
    chown(&side, Some(0), None).expect("root");
    assert_eq!(run_job(&dir, job).0["class"], 9, "root may write it");
}

#[test]
fn show_and_list_print_json() {
    let dir = dir();
    embed(&dir, "./prog");
    embed(&dir, "./script");
    fs::copy("/bin/true", dir.path("none")).expect("a program");
    let json = |args: &[&str]| -> Value {
        let text = dir.success(&[&["profile", "--json"], args].concat());
        serde_json::from_str(&text).expect(&text)
    };
    let shown = json(&["--show", "./prog"]);
    let keys = ["program", "signature_file", "name", "class", "llc_miss_ratio"];
    let expected: [Value; 5] =
        ["./prog".into(), "./prog".into(), "prog".into(), 9.into(), 0.25.into()];
    assert_eq!(keys.map(|key| shown[key].clone()), expected);
    assert_eq!(shown["phases"][0]["curve"][0]["misses_per_1000"], 5.0);
    let state = |list: &Value, idx: usize| {
        ["program", "signature", "signature_file", "name", "class", "llc_miss_ratio", "error"]
            .map(|key| list["programs"][idx][key].clone())
    };
    let list = json(&["--list", "./prog", "script", "none"]);
    let signed = |program: &str, place: &str, file: &str| -> [Value; 7] {
        [
            program.into(),
            place.into(),
            file.into(),
            "prog".into(),
            9.into(),
            0.25.into(),
            Value::Null,
        ]
    };
    assert_eq!(state(&list, 0), signed("./prog", "embedded", "./prog"));
    assert_eq!(state(&list, 1), signed("script", "side file", "script.evenkeel-profile"));
    let absent = || Value::Null;
    let unsigned: [Value; 7] =
        ["none".into(), "none".into(), absent(), absent(), absent(), absent(), absent()];
    assert_eq!(state(&list, 2), unsigned);
    dir.write("script", "#!/bin/sh\ntrue\n");
    let row = json(&["--list", "script"])["programs"][0].clone();
    let error = "the signature is of another build; profile the program again";
    assert_eq!((&row["signature"], &row["error"]), (&"invalid".into(), &error.into()));
    let names = json(&["--list"])["profiles"].clone();
    assert!(names.as_array().expect("names").contains(&"470.lbm".into()), "{names}");
}

#[test]
fn invalid_signatures_and_programs_have_one_error_line_each() {
    let dir = dir();
    embed(&dir, "./prog");
    let signed = fs::read(dir.path("prog")).expect("a program");
    let with = |from: &str, to: &str| {
        let at = signed.windows(from.len()).position(|part| part == from.as_bytes()).expect(from);
        [&signed[..at], to.as_bytes(), &signed[at + to.len()..]].concat()
    };
    for (from, to, expected) in [
        (
            "misses_per_1000",
            "misses_per_100\u{1b}",
            "the signature is damaged: its checksum differs; remove it, and bytes that were appended to the program, with objcopy --remove-section .note.evenkeel ",
        ),
        (
            "evenkeel-signature 1",
            "evenkeel-signature 7",
            "the signature has format 7, this evenkeel reads format 1",
        ),
        ("evenkeel-signature 1", "another-signature 1\n", "the signature is not of evenkeel"),
    ] {
        dir.write("prog", with(from, to));
        let line = rejection(&dir, &["profile", "--show", "./prog"]);
        assert!(line.contains(expected), "{line}");
        let (row, messages) = run_job(&dir, "command = [\"./prog\"]");
        assert_eq!((&row["class"], &row["exit_status"]), (&Value::Null, &0.into()), "{messages}");
        assert!(messages.contains(expected), "{messages}");
    }
    // A list that is no terminal's contains complete reasons.
    let list = dir.success(&["profile", "--list", "prog"]);
    let reason =
        "the signature is not of evenkeel: its first line is not \"evenkeel-signature NUMBER\"";
    assert!(list.contains(reason), "{list}");
    dir.write("other.toml", format!("build_id = \"00ff\"\n{PROFILE}"));
    fs::copy("/bin/sh", dir.path("set-id")).expect("a program");
    fs::set_permissions(dir.path("set-id"), fs::Permissions::from_mode(0o4755)).expect("permitted");
    for (args, expected) in [
        (
            ["--embed", "./set-id", "--from", "p.toml"].as_slice(),
            "has the set-user-ID or set-group-ID bit",
        ),
        (&["--embed", "./none", "--from", "p.toml"], "program ./none: No such file"),
        (&["--embed", "", "--from", "p.toml"], "a value is required for '--embed <PROGRAM>'"),
        (&["--embed", "./script", "--from", "none.toml"], "cannot read the profile none.toml"),
        (&["--show", "./script"], "./script has no signature; create one with"),
        (&["--remove", "./script"], "./script has no signature"),
        (&["--list", "none"], "none: No such file"),
        (&["--show", "./prog", "--", "x"], "cannot be used with"),
        (&["--show", "./prog", "--once"], "cannot be used with"),
        (&["--list", "./prog", "--engine", "counters"], "cannot be used with"),
    ] {
        let line = rejection(&dir, &[&["profile"], args].concat());
        assert!(line.contains(expected), "{line}");
    }
    assert_eq!(dir.listing().iter().filter(|name| name.contains("evenkeel-profile")).count(), 0);
}

#[test]
fn a_line_with_a_path_has_no_control_character() {
    let dir = dir();
    let name = "./two\nlines";
    fs::rename(dir.path("prog"), dir.path(name)).expect("renamed");
    assert_eq!(embed(&dir, name), "signature: ./two\\u000alines\n");
    let list = dir.success(&["profile", "--list", name]);
    assert!(list.contains("./two\\u000alines"), "{list}");
    assert_eq!(dir.success(&["profile", "--remove", name]), "removed from: ./two\\u000alines\n");
}

#[test]
fn a_profile_without_a_program_needs_embed_and_no_command() {
    let line = rejection(&dir(), &["profile", "--from", "p.toml"]);
    assert!(line.contains("--embed <PROGRAM>") && !line.contains("CMD"), "{line}");
}

#[test]
fn a_profile_with_impossible_values_is_neither_embedded_nor_used() {
    let dir = dir();
    dir.write("p.toml", PROFILE.replace("[5.0]", "[1e308]"));
    let line = rejection(&dir, &["profile", "--embed", "./prog", "--from", "p.toml"]);
    assert!(line.contains("\"misses_per_1000\" is 1e308, which is out of range"), "{line}");
}

#[test]
fn a_program_that_was_truncated_is_damaged() {
    let dir = dir();
    let program = fs::read(dir.path("prog")).expect("a program");
    dir.write("prog", &program[..program.len() - 10]);
    let embed = ["--embed", "./prog", "--from", "p.toml"];
    for args in [&["--show", "./prog"][..], &["--remove", "./prog"], &embed] {
        let line = rejection(&dir, &[&["profile"], args].concat());
        assert!(line.contains("./prog: the program is damaged or truncated"), "{line}");
    }
}

#[test]
fn errors_of_side_files_have_a_remedy() {
    let dir = dir();
    let side = dir.path("script.evenkeel-profile");
    let show = || rejection(&dir, &["profile", "--show", "./script"]);
    let irregular = "script.evenkeel-profile: this is not a regular file; remove it";
    fs::create_dir(&side).expect("a directory");
    assert!(show().contains(irregular), "{}", show());
    fs::remove_dir(&side).expect("empty");
    assert!(dir.shell("mkfifo script.evenkeel-profile").status.success());
    assert!(show().contains(irregular), "{}", show());
    let embed = ["profile", "--embed", "./script", "--from", "p.toml", "--beside"];
    assert!(rejection(&dir, &embed).contains(irregular), "{}", rejection(&dir, &embed));
    fs::remove_file(&side).expect("a FIFO");
    fs::write(&side, vec![b'x'; (1 << 20) + 1]).expect("written");
    assert!(show().contains("the file is too large; remove it"), "{}", show());
    let line = rejection(&dir, &["profile", "--embed", ".", "--from", "p.toml"]);
    assert!(line.contains("is a directory"), "{line}");
}
