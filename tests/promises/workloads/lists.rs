//! What is generated from a list of one's own can be run, and means what the list means.

use std::path::Path;
use std::process::Output;

use program::Command;

use crate::tool;

/// A list in a folder of its own, two levels down.
fn folder(list: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let below = folder.path().join("lists/own");
    std::fs::create_dir_all(&below).expect("made");
    std::fs::write(below.join("list.toml"), list).expect("written");
    folder
}

fn generate(folder: &Path, args: &str) -> Output {
    let args: Vec<&str> = std::iter::once("generate").chain(args.split(' ')).collect();
    tool::command(&args).current_dir(folder).output().expect("it starts")
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
fn relative_paths_of_a_list_mean_the_same_elsewhere() {
    let folder = folder(LIST);
    let own = folder.path().canonicalize().expect("it is there").join("lists/own");
    let job = job(folder.path(), "--n 1 --list lists/own/list.toml");
    let Command::Program { program, .. } = &job.command else { panic!("a program") };
    assert_eq!(program, &own.join("./bin/a"));
    assert_eq!(job.dir, Some(own.join("in")));
    assert_eq!(job.input, Some(own.join("in/data")));
    assert_eq!(job.output.as_deref(), Some(Path::new("out")), "it belongs to the new workload");
}

#[test]
fn a_program_without_a_directory_runs_in_that_of_its_list() {
    let folder = folder("[[program]]\nname = \"a\"\ncommand = [\"sort\", \"words.txt\"]\n");
    let own = folder.path().canonicalize().expect("it is there").join("lists/own");
    let job = job(folder.path(), "--n 1 --list lists/own/list.toml");
    assert_eq!(
        (&job.command, &job.dir),
        (&Command::Program { program: "sort".into(), args: vec!["words.txt".into()] }, &Some(own))
    );
}

#[test]
fn beside_its_list_a_workload_keeps_the_paths_as_they_are() {
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
fn the_first_line_is_the_command_that_writes_the_same_again() {
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
fn a_name_without_an_ending_is_written_so_that_run_reads_it() {
    let folder = tempfile::tempdir().expect("a folder");
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
fn a_limit_of_memory_that_holds_for_some_programs_only_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = |args: &str| tool::text(&generate(folder.path(), args).stderr);
    assert_eq!(said("--n 1"), "");
    assert!(
        said("--n 1 --memory 1").contains("--memory does not limit"),
        "{}",
        said("--n 1 --memory 1")
    );
}

#[test]
fn lists_that_are_no_text_or_have_no_end_are_refused_in_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("list.toml"), b"# x\n# \xff\n").expect("written");
    for (list, words) in [
        ("list.toml", "list.toml:2:3: the file is not UTF-8 text"),
        ("/dev/zero", "larger than 64 MiB"),
    ] {
        let output = generate(folder.path(), &format!("--list {list}"));
        let said = tool::text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(words) && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn negative_numbers_are_refused_with_the_name_of_the_option() {
    let folder = tempfile::tempdir().expect("a folder");
    for option in ["--n", "--span", "--seed", "--hog-fraction", "--memory"] {
        let output = generate(folder.path(), &format!("{option} -1"));
        let said = tool::text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        let name = option.trim_start_matches("--").replace('-', " ");
        assert!(said.contains(option) || said.contains(&name), "{option}: {said}");
        assert!(!said.contains("unexpected argument"), "{option}: {said}");
    }
}
