//! Workload files: what ships is sound, what is generated can be repeated, and the synthetic
//! programs are what they say.

mod lists;

use std::path::{Path, PathBuf};

use expect_test::expect;
use program::{Command, Ending, Workload};

use crate::tool;

/// The shipped workloads, by path.
fn shipped() -> Vec<PathBuf> {
    let folder = std::fs::read_dir(tool::root().join("workloads")).expect("they ship");
    let mut paths: Vec<PathBuf> = folder
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.is_file() && is_workload(path))
        .collect();
    paths.sort();
    paths
}

/// Workloads end in `.toml` or `.txt`; beside them lies the script that makes their input.
fn is_workload(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "toml" || end == "txt")
}

fn read(path: &Path) -> Workload {
    let text = std::fs::read_to_string(path).expect("it can be read");
    program::parse(&text, path).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_shipped_workload_is_sound_and_survives_being_written() {
    let paths = shipped();
    let names: Vec<_> = paths.iter().filter_map(|path| path.file_stem()?.to_str()).collect();
    for expected in ["debian", "demo", "mix", "numa-demo", "synthetic"] {
        assert!(names.contains(&expected), "{expected} is missing among {names:?}");
    }
    for path in paths {
        let workload = read(&path);
        let text = program::to_toml(&workload).expect("its paths are text");
        let again = program::parse_toml(&text, &path).expect("it was written by us");
        assert_eq!(again.jobs.len(), workload.jobs.len(), "{}", path.display());
        assert!(workload.jobs.iter().any(|job| job.class.is_some()), "{}", path.display());
    }
}

#[test]
fn every_built_in_program_of_a_shipped_workload_is_understood() {
    for path in shipped() {
        for job in read(&path).jobs {
            let Command::Load(args) = &job.command else { continue };
            // No built-in program can run so: the option does not exist. What is complained about
            // is that option alone if all the others are understood.
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let output = tool::run(&[&["load"], &args[..], &["--no-such-option"]].concat());
            let said = tool::text(&output.stderr);
            assert!(said.contains("'--no-such-option'"), "{}: {said}", job.origin);
        }
    }
}

#[test]
fn the_demo_is_made_so_that_two_hungry_jobs_are_left_on_one_of_two_cpus() {
    let demo = read(&tool::root().join("workloads/demo.toml"));
    let first: Vec<_> = demo.jobs.iter().take_while(|job| job.start.0 == 0).collect();
    let names: Vec<&str> = first.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["archive", "pack", "archive-too", "pack-too"]);
    assert!(first.iter().all(|job| job.class == first[0].class && job.ending == Ending::Exit));
}

#[test]
fn generate_needs_no_file_and_gives_the_same_bytes_for_a_seed() {
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
    program::parse_toml(&text, Path::new("generated.toml")).expect("it is a workload");
}

#[test]
fn every_shipped_program_list_can_be_drawn_from() {
    let folder = tool::root().join("workloads/programs");
    let mut n_lists = 0;
    for entry in std::fs::read_dir(folder).expect("they ship") {
        let path = entry.expect("an entry").path();
        let list = path.to_str().expect("a plain path");
        let wish = ["--n", "20", "--span", "60s", "--hog-fraction", "0.2", "--memory", "1G"];
        let output = tool::run(&[&["generate", "--list", list], &wish[..]].concat());
        assert!(output.status.success(), "{list}: {}", tool::text(&output.stderr));
        let text = tool::text(&output.stdout);
        let workload = program::parse_toml(&text, &path).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(workload.jobs.len(), 20);
        n_lists += 1;
    }
    assert!(2 <= n_lists);
}

#[test]
fn a_hundred_thousand_jobs_are_read_from_either_form() {
    let lines: String = (0..100_000).map(|i| format!("{} 3 /bin/true {i}\n", i % 977)).collect();
    let workload = program::parse_classic(&lines, Path::new("w.txt")).expect("it is sound");
    assert_eq!(workload.jobs.len(), 100_000);
    let text = program::to_toml(&workload).expect("its paths are text");
    let again = program::parse_toml(&text, Path::new("w.toml")).expect("it was written by us");
    assert_eq!(again.jobs.last().map(|job| &job.name), workload.jobs.last().map(|job| &job.name));
}

#[test]
fn generate_writes_the_form_that_the_file_name_asks_for() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, is_toml) in [("w.toml", true), ("w.txt", false)] {
        let path = folder.path().join(name);
        let out = path.to_str().expect("a plain path");
        let output = tool::run(&["generate", "--n", "3", "--seed", "1", "--out", out]);
        assert!(output.status.success(), "{}", tool::text(&output.stderr));
        let workload = read(&path);
        assert_eq!(workload.jobs.len(), 3);
        let built_in = workload.jobs.iter().all(|job| matches!(job.command, Command::Load(_)));
        assert_eq!(built_in, is_toml, "the classic form names evenkeel itself as the program");
    }
}

#[test]
fn generate_refuses_what_it_cannot_make_in_one_line() {
    for args in [
        &["--n", "0"][..],
        &["--hog-fraction", "2"],
        &["--suite-weights", "nobody=1"],
        &["--suite-weights", "calm"],
        &["--span", "-1s"],
        &["--list", "/nowhere"],
        &["--out", "/proc/nowhere/w.toml"],
    ] {
        let output = tool::run(&[&["generate"], args].concat());
        let said = tool::text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn synthetic_programs_do_what_they_are_told_and_say_so_in_json() {
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
        let said: serde_json::Value =
            serde_json::from_slice(&output.stdout).expect("one JSON object");
        assert_eq!((said["kind"].as_str(), said["ops"].as_u64()), (Some(kind), Some(ops)));
    }
}

#[test]
fn a_hog_that_would_stay_in_the_cache_is_refused_with_the_figure() {
    let output = tool::run(&["load", "hog", "--size", "8M", "--llc", "32M", "--ops", "1"]);
    assert_eq!(output.status.code(), Some(1));
    let said = tool::text(&output.stderr);
    assert!(said.contains("8.0 MiB") && said.contains("50 %"), "{said}");
}

#[test]
fn phases_try_their_hog_first_and_say_how_many_run_at_a_time() {
    let args = ["load", "phases", "hog:1ms", "--size", "1M", "--llc", "32M", "--copies", "2"];
    let output = tool::run(&args);
    assert_eq!(output.status.code(), Some(1), "{}", tool::text(&output.stdout));
    assert!(tool::text(&output.stderr).contains("miss the cache"));
    let output = tool::run(&[&args[..], &["--json", "--no-self-check"]].concat());
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!((said["copies"].as_u64(), said["buffer_bytes"].as_u64()), (Some(2), Some(1 << 20)));
}

#[test]
fn an_exit_status_can_be_asked_for() {
    let output = tool::run(&["load", "sleep", "--for", "1ms", "--status", "7"]);
    assert_eq!(output.status.code(), Some(7));
}
