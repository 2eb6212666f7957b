//! Workloads generated from a user's program list can run and keep the meaning of the list.

use std::path::Path;
use std::process::Output;

use program::Command;

use crate::tool;

/// A list in a folder two levels below the returned one.
fn folder(list: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let below = folder.path().join("lists/own");
    std::fs::create_dir_all(&below).expect("made");
    std::fs::write(below.join("list.toml"), list).expect("written");
    folder
}

fn command(folder: &Path, args: &str) -> std::process::Command {
    let args: Vec<&str> = std::iter::once("generate").chain(args.split(' ')).collect();
    let mut command = tool::command(&args);
    command.current_dir(folder);
    command
}

fn generate(folder: &Path, args: &str) -> Output {
    command(folder, args).output().expect("it starts")
}

fn job(folder: &Path, args: &str) -> program::Job {
    let output = generate(folder, args);
    assert!(output.status.success(), "{args}: {}", tool::text(&output.stderr));
    let text = tool::text(&output.stdout);
    let mut workload = program::parse_toml(&text, Path::new("w.toml")).expect("a workload");
    workload.jobs.remove(0)
}

const LIST: &str = r#"
[[program]]
name = "a"
command = ["./bin/a", "x"]
dir = "in"
input = "in/data"
output = "out"
"#;

#[test]
fn relative_paths_of_a_list_become_absolute_in_another_folder() {
    let folder = folder(LIST);
    let own = folder.path().canonicalize().expect("the folder exists").join("lists/own");
    let job = job(folder.path(), "--n 1 --list lists/own/list.toml");
    let Command::Program { program, .. } = &job.command else { panic!("a program") };
    assert_eq!(program, &own.join("./bin/a"));
    assert_eq!(job.dir, Some(own.join("in")));
    assert_eq!(job.input, Some(own.join("in/data")));
    assert_eq!(job.output.as_deref(), Some(Path::new("out")), "outputs belong to the new workload");
}

#[test]
fn a_program_without_a_directory_runs_in_the_folder_of_its_list() {
    let folder = folder("[[program]]\nname = \"a\"\ncommand = [\"sort\", \"words.txt\"]\n");
    let own = folder.path().canonicalize().expect("the folder exists").join("lists/own");
    let job = job(folder.path(), "--n 1 --list lists/own/list.toml");
    assert_eq!(
        (&job.command, &job.dir),
        (&Command::Program { program: "sort".into(), args: vec!["words.txt".into()] }, &Some(own))
    );
}

#[test]
fn a_workload_beside_its_list_keeps_relative_paths() {
    let folder = folder(LIST);
    let own = folder.path().join("lists/own");
    let output = generate(&own, "--n 1 --list list.toml --out w.toml");
    assert!(output.status.success(), "{}", tool::text(&output.stderr));
    let text = std::fs::read_to_string(own.join("w.toml")).expect("written");
    assert!(
        text.contains("command = [\"./bin/a\", \"x\"]") && text.contains("dir = \"in\""),
        "{text}"
    );
}

#[test]
fn the_first_line_is_the_command_that_reproduces_the_file() {
    let folder = folder("[[program]]\nname = \"a\"\ncommand = [\"/bin/true\"]\n");
    let list = folder.path().join("my list.toml");
    std::fs::copy(folder.path().join("lists/own/list.toml"), &list).expect("copied");
    let list = list.to_str().expect("UTF-8");
    for args in [
        &["--n", "2"][..],
        &["--n", "2", "--form", "classic"],
        &["--n", "2", "--out", "a file.txt"],
    ] {
        let written = |output: Output| {
            assert!(output.status.success(), "{args:?}: {}", tool::text(&output.stderr));
            let file = folder.path().join("a file.txt");
            std::fs::read_to_string(&file).unwrap_or_else(|_| tool::text(&output.stdout))
        };
        let args = [&["generate", "--list", list], args].concat();
        let run = tool::command(&args).current_dir(folder.path()).output().expect("it starts");
        let first = written(run);
        let line = first.lines().next().and_then(|line| line.strip_prefix("# evenkeel "));
        let line = format!("'{}' {}", tool::path().display(), line.expect("a comment"));
        let shell = std::process::Command::new("sh")
            .args(["-c", &line])
            .current_dir(folder.path())
            .output();
        assert_eq!(written(shell.expect("it starts")), first, "{line}");
    }
}

#[test]
fn a_file_without_an_extension_is_written_in_the_format_that_run_expects() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for name in ["jobs", "jobs.TOML", "jobs.toml"] {
        let output = generate(folder.path(), &format!("--n 2 --out {name}"));
        assert!(output.status.success(), "{name}: {}", tool::text(&output.stderr));
        let bytes = std::fs::read(folder.path().join(name)).expect("written");
        program::parse_bytes(&bytes, Path::new(name)).unwrap_or_else(|error| panic!("{error}"));
    }
    let output = generate(folder.path(), "--n 2 --out jobs.txt --form toml");
    assert_eq!(output.status.code(), Some(2), "run would not read it");
}

#[test]
fn a_memory_limit_without_effect_on_some_programs_is_reported() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let stderr = |args: &str| tool::text(&generate(folder.path(), args).stderr);
    assert_eq!(stderr("--n 1"), "");
    assert!(
        stderr("--n 1 --memory 1").contains("--memory does not limit"),
        "{}",
        stderr("--n 1 --memory 1")
    );
}

#[test]
fn binary_and_endless_lists_are_rejected_in_one_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("list.toml"), b"# x\n# \xff\n").expect("written");
    for (list, words) in [
        ("list.toml", "list.toml:2:3: the file is not UTF-8 text"),
        ("/dev/zero", "larger than 64 MiB"),
    ] {
        let stderr = tool::rejection(&mut command(folder.path(), &format!("--list {list}")));
        assert!(stderr.contains(words), "{stderr}");
    }
}

#[test]
fn negative_numbers_are_rejected_with_the_name_of_the_option() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for option in ["--n", "--span", "--seed", "--hog-fraction", "--memory"] {
        let stderr = tool::rejection(&mut command(folder.path(), &format!("{option} -1")));
        let name = option.trim_start_matches("--").replace('-', " ");
        assert!(stderr.contains(option) || stderr.contains(&name), "{option}: {stderr}");
        assert!(!stderr.contains("unexpected argument"), "{option}: {stderr}");
    }
}
