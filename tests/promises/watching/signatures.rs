//! A managed process has the profile in the signature of its program. What another user could have written, and what is
//! beside another file with the path of the program, is not used.

use std::fs;
use std::os::unix::fs::chown;
use std::process::Command;

use serde_json::Value;
use tests::dir::Dir;
use tests::evenkeel::EvenkeelWatch;
use tests::process::Process;

use super::BURN;

/// Returns a directory with copies of a shell, of which `embedded` and `beside` have a signature.
fn programs(names: &[&str]) -> Dir {
    let profile = "name = \"prog\"\nclass = 9\n[[phase]]\nllc_accesses_per_1000 = 20.0\n";
    let dir = Dir::with(&[("p.toml", profile)]);
    for name in names {
        fs::copy("/bin/dash", dir.path(name)).expect("a shell");
        let args = ["profile", "--embed", &dir.arg(name), "--from", "p.toml", "--beside"];
        match *name {
            "none" => String::new(),
            "embedded" => dir.success(&args[..5]),
            _ => dir.success(&args),
        };
    }
    dir
}

fn burn(dir: &Dir, program: &str) -> Process {
    Process::new(Command::new(dir.path(program)).args(["-c", BURN]))
}

/// Watches processes until all are managed. Returns their rows of the report, and the messages.
fn watch(processes: &[&Process], args: &[&str]) -> (Vec<Value>, String) {
    let pids: Vec<String> = processes.iter().map(|it| format!("--pid={}", it.pid())).collect();
    let pids: Vec<&str> = pids.iter().map(String::as_str).collect();
    let mut watch = EvenkeelWatch::new(&[&pids[..], args, &["--policy", "linux"]].concat());
    watch.wait_until_managed(processes, &[]);
    let messages = watch.end().0;
    let report: Value =
        serde_json::from_str(&watch.dir.success(&["report", "w.jsonl", "--json"])).expect("JSON");
    // A used signature is no failure.
    for note in report["notes"].as_array().expect("notes") {
        let text = note["text"].as_str().expect("text");
        assert!(note["kind"] != "degraded" || !text.starts_with("the profile of "), "{note}");
    }
    let row = |process: &&Process| {
        let is_of = |row: &&Value| {
            let name = row["name"].as_str().expect("a name");
            name.ends_with(&format!(".{}", process.pid()))
        };
        report["jobs"].as_array().expect("jobs").iter().find(is_of).expect("a job").clone()
    };
    (processes.iter().map(row).collect(), messages)
}

#[test]
fn a_managed_process_has_the_profile_in_the_signature_of_its_program() {
    let dir = programs(&["embedded", "beside", "none"]);
    let [embedded, again, beside, none] =
        ["embedded", "embedded", "beside", "none"].map(|program| burn(&dir, program));
    let (rows, messages) = watch(&[&embedded, &again, &beside, &none], &["--class", "besid?=4"]);
    let classes: Vec<&Value> = rows.iter().map(|row| &row["class"]).collect();
    let (signed, declared) = (Value::from(9), Value::from(4));
    assert_eq!(classes, [&signed, &signed, &declared, &Value::Null], "{messages}");
    let files: Vec<&Value> = rows.iter().map(|row| &row["profile_file"]).collect();
    let (program, side) = (dir.arg("embedded"), dir.arg("beside.evenkeel-profile"));
    let [program, side] = [program, side].map(Value::from);
    assert_eq!(files, [&program, &program, &side, &Value::Null], "{messages}");
    for note in ["is its embedded signature", "is the signature "] {
        let n_notes = messages.lines().filter(|line| line.contains(note)).count();
        assert_eq!(n_notes, 1, "one note for each program: {messages}");
    }
}

#[test]
fn a_signature_of_another_build_is_reported_and_not_used() {
    let dir = programs(&["beside"]);
    let mut changed = fs::read(dir.path("beside")).expect("a shell");
    changed.extend(b"data");
    dir.write("beside", changed);
    let process = burn(&dir, "beside");
    let (rows, messages) = watch(&[&process], &[]);
    assert_eq!(rows[0]["class"], Value::Null);
    let expected = "the signature is of another build; profile the program again";
    assert!(messages.lines().any(|line| line.ends_with(expected)), "{messages}");
}

#[test]
fn a_side_file_beside_another_file_with_the_path_of_a_program_is_not_used() {
    let dir = programs(&["none", "none (deleted)"]);
    let process = burn(&dir, "none");
    // /proc/PID/exe is now the path of the other file.
    fs::remove_file(dir.path("none")).expect("permitted");
    let (rows, messages) = watch(&[&process], &[]);
    assert_eq!(rows[0]["profile_file"], Value::Null, "{messages}");
    assert!(!messages.contains("signature"), "{messages}");
}

#[test]
fn a_side_file_of_another_user_is_reported_and_not_used() {
    if !rustix::process::geteuid().is_root() {
        println!("not run: only root can change the owner of a file");
        return;
    }
    let dir = programs(&["beside"]);
    chown(dir.path("beside.evenkeel-profile"), Some(1234), None).expect("root");
    let process = burn(&dir, "beside");
    let (rows, messages) = watch(&[&process], &[]);
    assert_eq!(rows[0]["class"], Value::Null);
    let expected = "it belongs to another user than its program";
    assert_eq!(messages.lines().filter(|line| line.contains(expected)).count(), 1, "{messages}");
}

/// The mount namespace of a process may have another file at the path of a program of this machine.
#[test]
fn a_side_file_in_another_mount_namespace_is_not_used() {
    let dir = programs(&["none", "beside"]);
    let script = format!(
        "mount --bind {} {} && exec {} -c '{BURN}'",
        dir.arg("none"),
        dir.arg("beside"),
        dir.arg("beside")
    );
    let can_unshare = Command::new("unshare").args(["-m", "true"]).output();
    if !can_unshare.is_ok_and(|output| output.status.success()) {
        println!("skipped: needs the permission to create a mount namespace");
        return;
    }
    let process = Process::new(Command::new("unshare").args(["-m", "sh", "-c", &script]));
    let (rows, messages) = watch(&[&process], &[]);
    assert_eq!(rows[0]["profile_file"], Value::Null, "{messages}");
    let exe = fs::read_link(format!("/proc/{}/exe", process.pid())).expect("it is running");
    assert_eq!(exe, dir.path("beside"), "{messages}");
}
