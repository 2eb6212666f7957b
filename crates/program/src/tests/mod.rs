//! Tests of workloads: parsing, generating, writing.

mod generate;
mod round_trip;

use std::fmt::Write;
use std::path::Path;

use expect_test::{ExpectFile, expect_file};

use crate::{Command, Job, Workload, WorkloadError};

/// Compares the parsed workloads of a file of cases, or their errors, with the expected text. Each input follows
/// `prefix` and may contain `␀`, `␉` and `␍` for control characters.
fn check(path: &str, prefix: &str, cases: ExpectFile) {
    let parse = |text: &str| {
        let text = text.replace('␀', "\0").replace('␉', "\t").replace('␍', "\r");
        printed(crate::parse(&format!("{prefix}{text}\n"), Path::new(path)))
    };
    cases.assert_eq(&base::transcript(&cases.data(), parse));
}

#[test]
fn workloads_in_toml() {
    check("lab/mix.toml", "", expect_file!["../../cases/toml-workloads.txt"]);
}

/// Each input is one job that starts in line 2.
#[test]
fn jobs_in_toml() {
    check("lab/mix.toml", "[[job]]\n", expect_file!["../../cases/toml-jobs.txt"]);
}

/// Each input contains keys of a job and starts in line 3. The job's command is in the prefix.
#[test]
fn keys_of_jobs_in_toml() {
    let prefix = "[[job]]\ncommand = [\"a\"]\n";
    check("lab/mix.toml", prefix, expect_file!["../../cases/toml-job-keys.txt"]);
}

#[test]
fn workloads_in_the_classic_format() {
    check("lab/mix.txt", "", expect_file!["../../cases/classic.txt"]);
}

#[test]
fn invalid_utf_8_is_rejected_at_its_position() {
    let error = crate::parse_bytes(b"# a\n0 - \xff", Path::new("w")).unwrap_err();
    assert_eq!(error.to_string(), "w:2:5: the file is not UTF-8 text");
}

fn printed(result: Result<Workload, WorkloadError>) -> String {
    match result {
        Err(error) => format!("{error}\n"),
        Ok(workload) => {
            let mut text = format!("{} in {:?}\n", workload.name, workload.dir);
            for path in &workload.read_only {
                writeln!(text, "  read only {}", path.display()).unwrap();
            }
            for (job, number) in workload.jobs.iter().zip(0..) {
                assert_eq!(job.id.0, number, "ids follow the start order");
                writeln!(text, "  {}", line(job)).unwrap();
            }
            text
        }
    }
}

fn line(job: &Job) -> String {
    let command = match &job.command {
        Command::Program { program, args } => format!("{} {args:?}", program.display()),
        Command::Shell(line) => format!("sh {line:?}"),
        Command::Load(args) => format!("load {args:?}"),
    };
    // Start times are printed with three digits, to distinguish the draws of a generated workload.
    let start = match job.start.0 {
        0..1_000_000_000 => job.start.to_string(),
        nanos => format!("{:.3} s", nanos as f64 / 1e9),
    };
    let mut text = format!("{} at {start}: {command}", job.name);
    let env = (!job.env.is_empty()).then_some(&job.env);
    let threads = (job.threads != 1).then_some(job.threads);
    for (key, value) in [
        ("class", job.class.map(|class| class.number().to_string())),
        ("sensitivity", job.sensitivity.as_ref().map(|s| format!("{s:?}"))),
        ("profile", job.profile.clone()),
        ("dir", job.dir.as_ref().map(|path| path.display().to_string())),
        ("env", env.map(|env| format!("{env:?}"))),
        ("input", job.input.as_ref().map(|path| path.display().to_string())),
        ("output", job.output.as_ref().map(|path| path.display().to_string())),
        ("threads", threads.map(|threads| threads.to_string())),
        ("sections", job.sections.as_ref().map(|sections| format!("{sections:?}"))),
        ("ending", (job.ending != Default::default()).then(|| format!("{:?}", job.ending))),
        ("cpus", job.cpus.as_ref().map(ToString::to_string)),
        ("nodes", job.nodes.as_ref().map(ToString::to_string)),
        ("memory", job.memory.as_ref().map(|memory| format!("{memory:?}"))),
        ("line", Some(job.origin.line.to_string())),
    ] {
        if let Some(value) = value {
            write!(text, " {key}={value}").unwrap();
        }
    }
    text
}

#[test]
fn the_suffix_toml_is_recognized_in_upper_and_lower_case() {
    for name in ["w.toml", "w.TOML", "w.Toml"] {
        let parsed = crate::parse("[[job]]\ncommand = [\"a\"]\n", Path::new(name));
        assert!(parsed.is_ok(), "{name}");
    }
}
