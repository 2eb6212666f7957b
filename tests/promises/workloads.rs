//! Workload files: shipped files are valid, generated workloads are reproducible and agree with their program list, and
//! the synthetic programs behave as documented.

use std::path::{Path, PathBuf};
use std::process::Output;

use expect_test::expect;
use program::{Command, Workload};
use tests::dir::Dir;
use tests::tool;

/// Returns the shipped workloads, by path.
fn shipped() -> Vec<PathBuf> {
    let dir = std::fs::read_dir(tool::root().join("workloads")).expect("the shipped files exist");
    let mut paths: Vec<PathBuf> = dir
        .map(|entry| entry.expect("the directory can be read").path())
        .filter(|path| path.is_file() && is_workload(path))
        .collect();
    paths.sort();
    paths
}

/// Returns whether a file is a workload: its name ends in `.toml` or `.txt`. The directory also has the script that
/// creates the input of programs.
fn is_workload(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "toml" || end == "txt")
}

fn read(path: &Path) -> Workload {
    let text = std::fs::read_to_string(path).expect("it can be read");
    program::parse(&text, path).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_shipped_workload_is_valid_and_equal_after_writing() {
    let paths = shipped();
    let names: Vec<_> = paths.iter().filter_map(|path| path.file_stem()?.to_str()).collect();
    for expected in
        ["core-kinds", "debian", "demo", "mix", "numa-demo", "parallel", "server", "synthetic"]
    {
        assert!(names.contains(&expected), "{expected} is missing among {names:?}");
    }
    for path in paths {
        let workload = read(&path);
        let text = program::to_toml(&workload).expect("its paths are text");
        let reparsed = program::parse_toml(&text, &path).expect("evenkeel wrote it");
        assert_eq!(reparsed.jobs.len(), workload.jobs.len(), "{}", path.display());
        let is_characterized = |job: &program::Job| job.class.is_some() || job.profile.is_some();
        assert!(workload.jobs.iter().any(is_characterized), "{}", path.display());
    }
}

#[test]
fn every_built_in_program_of_a_shipped_workload_has_valid_arguments() {
    for path in shipped() {
        for job in read(&path).jobs {
            let Command::Load(args) = &job.command else { continue };
            // The option does not exist, so no program runs. If all other options are valid, the error names only this
            // option.
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let output = tool::run(&[&["load"], &args[..], &["--no-such-option"]].concat());
            let result = tool::text(&output.stderr);
            assert!(result.contains("'--no-such-option'"), "{}: {result}", job.origin);
        }
    }
}

#[test]
fn generate_needs_no_file_and_writes_the_same_bytes_for_a_seed() {
    let args = ["generate", "--n", "4", "--seed", "7", "--hog-fraction", "0.25", "--span", "10s"];
    let output = tool::run(&args);
    assert!(output.status.success(), "{}", tool::text(&output.stderr));
    let text = tool::text(&output.stdout);
    expect![[r##"
        # evenkeel generate --n 4 --seed 7 --span 10s --hog-fraction 0.25
        version = 1
        name = "generated-7"

        [[job]]
        name = "columns"
        load = ["columns", "--ops", "5000"]
        start = 0.61
        class = 8

        [[job]]
        name = "compute"
        load = ["compute", "--cpu", "4s"]
        start = 4.647
        class = 0

        [[job]]
        name = "rows"
        load = ["rows", "--ops", "10000"]
        start = 5.853
        class = 3

        [[job]]
        name = "hog-writes"
        load = ["hog", "--write", "--mlp", "4", "--cpu", "4s", "--copies", "4"]
        start = 6.204
        class = 15
    "##]]
    .assert_eq(&text);
    assert_eq!(tool::text(&tool::run(&args).stdout), text);
    program::parse_toml(&text, Path::new("generated.toml")).expect("it is a valid workload");
}

#[test]
fn every_shipped_program_list_works_with_generate() {
    let dir = tool::root().join("workloads/programs");
    let mut n_lists = 0;
    for entry in std::fs::read_dir(dir).expect("the shipped files exist") {
        let path = entry.expect("an entry").path();
        let list = path.to_str().expect("a plain path");
        let options = ["--n", "20", "--span", "60s", "--hog-fraction", "0.2", "--memory", "1G"];
        let output = tool::run(&[&["generate", "--list", list], &options[..]].concat());
        assert!(output.status.success(), "{list}: {}", tool::text(&output.stderr));
        let text = tool::text(&output.stdout);
        let workload = program::parse_toml(&text, &path).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(workload.jobs.len(), 20);
        n_lists += 1;
    }
    assert!(2 <= n_lists);
}

#[test]
fn both_formats_support_100000_jobs() {
    let lines: String = (0..100_000).map(|i| format!("{} 3 /bin/true {i}\n", i % 977)).collect();
    let workload = program::parse_classic(&lines, Path::new("w.txt")).expect("it is valid");
    assert_eq!(workload.jobs.len(), 100_000);
    let text = program::to_toml(&workload).expect("its paths are text");
    let reparsed = program::parse_toml(&text, Path::new("w.toml")).expect("evenkeel wrote it");
    assert_eq!(
        reparsed.jobs.last().map(|job| &job.name),
        workload.jobs.last().map(|job| &job.name)
    );
}

#[test]
fn generate_writes_the_format_of_the_file_name() {
    let dir = Dir::new();
    for (name, is_toml) in [("w.toml", true), ("w.txt", false)] {
        dir.success(&["generate", "--n", "3", "--seed", "1", "--out", name]);
        let workload = read(&dir.path(name));
        assert_eq!(workload.jobs.len(), 3);
        let built_in = workload.jobs.iter().all(|job| matches!(job.command, Command::Load(_)));
        assert_eq!(built_in, is_toml, "the classic format has the evenkeel executable as program");
    }
}

#[test]
fn synthetic_programs_perform_the_requested_operations_and_report_them_in_json() {
    for (args, kind, ops) in [
        (&["compute", "--ops", "100", "--threads", "3"][..], "compute", 100),
        (&["hog", "--ops", "5000", "--size", "1M", "--no-self-check"], "hog", 5000),
        (
            &["hog", "--ops", "64", "--size", "1M", "--no-self-check", "--write", "--mlp", "8"],
            "hog",
            64,
        ),
        (&["rows", "--ops", "3", "--n", "64", "--no-self-check"], "rows", 3),
        (&["columns", "--ops", "3", "--n", "64", "--no-self-check"], "columns", 3),
        (&["fork", "--children", "3", "--ops", "10"], "fork", 30),
    ] {
        let output = tool::run(&[&["load"], args, &["--json"]].concat());
        assert!(output.status.success(), "{args:?}: {}", tool::text(&output.stderr));
        let result: serde_json::Value =
            serde_json::from_slice(&output.stdout).expect("one JSON object");
        assert_eq!((result["kind"].as_str(), result["ops"].as_u64()), (Some(kind), Some(ops)));
    }
}

#[test]
fn a_hog_that_fits_the_cache_is_rejected_with_its_miss_share() {
    let output = tool::run(&["load", "hog", "--size", "8M", "--llc", "32M", "--ops", "1"]);
    assert_eq!(output.status.code(), Some(1));
    let result = tool::text(&output.stderr);
    assert!(result.contains("8.0 MiB") && result.contains("50 %"), "{result}");
}

#[test]
fn phases_run_the_self_check_of_their_hog_and_report_copies() {
    let args = ["load", "phases", "hog:1ms", "--size", "1M", "--llc", "32M", "--copies", "2"];
    let output = tool::run(&args);
    assert_eq!(output.status.code(), Some(1), "{}", tool::text(&output.stdout));
    assert!(tool::text(&output.stderr).contains("miss the cache"));
    let output = tool::run(&[&args[..], &["--json", "--no-self-check"]].concat());
    let result: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(
        (result["copies"].as_u64(), result["buffer_bytes"].as_u64()),
        (Some(2), Some(1 << 20))
    );
}

#[test]
fn load_sleep_exits_with_the_requested_status() {
    let output = tool::run(&["load", "sleep", "--for", "1ms", "--status", "7"]);
    assert_eq!(output.status.code(), Some(7));
}

/// Creates a directory with a program list two levels below it.
fn with_list(list: &str) -> Dir {
    Dir::with(&[("lists/own/list.toml", list)])
}

fn job(dir: &Dir, args: &str) -> program::Job {
    let args: Vec<&str> = std::iter::once("generate").chain(args.split(' ')).collect();
    let text = dir.success(&args);
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
fn relative_paths_of_a_list_become_absolute_in_another_directory() {
    let dir = with_list(LIST);
    let list_dir = dir.root().canonicalize().expect("the directory exists").join("lists/own");
    let job = job(&dir, "--n 1 --list lists/own/list.toml");
    let Command::Program { program, .. } = &job.command else { panic!("a program") };
    assert_eq!(program, &list_dir.join("./bin/a"));
    assert_eq!(job.dir, Some(list_dir.join("in")));
    assert_eq!(job.input, Some(list_dir.join("in/data")));
    assert_eq!(job.output.as_deref(), Some(Path::new("out")), "outputs belong to the new workload");
}

#[test]
fn a_program_without_a_directory_runs_in_the_directory_of_its_list() {
    let dir = with_list("[[program]]\nname = \"a\"\ncommand = [\"sort\", \"words.txt\"]\n");
    let list_dir = dir.root().canonicalize().expect("the directory exists").join("lists/own");
    let job = job(&dir, "--n 1 --list lists/own/list.toml");
    assert_eq!(
        (&job.command, &job.dir),
        (
            &Command::Program { program: "sort".into(), args: vec!["words.txt".into()] },
            &Some(list_dir)
        )
    );
}

#[test]
fn a_workload_beside_its_list_keeps_relative_paths() {
    let dir = with_list(LIST);
    let args = ["generate", "--n", "1", "--list", "lists/own/list.toml"];
    dir.success(&[&args[..], &["--out", "lists/own/w.toml"]].concat());
    let text = dir.read("lists/own/w.toml");
    assert!(
        text.contains("command = [\"./bin/a\", \"x\"]") && text.contains("dir = \"in\""),
        "{text}"
    );
}

#[test]
fn the_first_line_is_the_command_that_reproduces_the_file() {
    let dir = with_list("[[program]]\nname = \"a\"\ncommand = [\"/bin/true\"]\n");
    dir.write("my list.toml", dir.read("lists/own/list.toml"));
    let list = dir.arg("my list.toml");
    for args in [
        &["--n", "2"][..],
        &["--n", "2", "--format", "classic"],
        &["--n", "2", "--out", "a file.txt"],
    ] {
        let written = |output: Output| {
            assert!(output.status.success(), "{args:?}: {}", tool::text(&output.stderr));
            let text = dir.text("a file.txt");
            if text.is_empty() { tool::text(&output.stdout) } else { text }
        };
        let args = [&["generate", "--list", &list], args].concat();
        let first = written(dir.run(&args));
        let line = first.lines().next().and_then(|line| line.strip_prefix("# evenkeel "));
        let line = format!("'{}' {}", tool::path().display(), line.expect("a comment"));
        let shell =
            std::process::Command::new("sh").args(["-c", &line]).current_dir(dir.root()).output();
        assert_eq!(written(shell.expect("it starts")), first, "{line}");
    }
}

#[test]
fn a_file_without_an_extension_is_written_in_the_format_that_run_expects() {
    let dir = Dir::new();
    for name in ["jobs", "jobs.TOML", "jobs.toml"] {
        dir.success(&["generate", "--n", "2", "--out", name]);
        let bytes = std::fs::read(dir.path(name)).expect("written");
        program::parse_bytes(&bytes, Path::new(name)).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn a_memory_limit_without_effect_on_some_programs_is_reported() {
    let stderr = |args: &[&str]| tool::text(&tool::run(args).stderr);
    assert_eq!(stderr(&["generate", "--n", "1"]), "");
    let limited = stderr(&["generate", "--n", "1", "--memory", "1"]);
    assert!(limited.contains("--memory does not limit"), "{limited}");
}

#[test]
fn a_throttle_that_cannot_occupy_its_share_fails_with_a_line_for_the_cpu() {
    let cpu = tests::process::all_cpus().first().expect("a CPU");
    // Two throttles request 180 % of one CPU, so at least one of them has less than its share.
    let args = ["load", "throttle", "--cpus", &cpu.0.to_string(), "--percent", "90", "--for", "2s"];
    let start = || {
        let mut command = tool::command(&args);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        command.spawn().expect("evenkeel starts")
    };
    let both = [start(), start()];
    let outputs = both.map(|it| it.wait_with_output().expect("it ends"));
    let failed = outputs.iter().filter(|output| !output.status.success());
    let failed: Vec<&Output> = failed.collect();
    assert!(!failed.is_empty(), "{outputs:?}");
    for output in failed {
        let messages = tool::text(&output.stderr);
        let line = format!("evenkeel: CPU {} was occupied for only ", cpu.0);
        let n_lines = messages.lines().filter(|it| it.starts_with(&line)).count();
        assert_eq!((output.status.code(), n_lines), (Some(1), 1), "{messages}");
    }
}
