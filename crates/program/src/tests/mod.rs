//! Workloads: parsing, generating, writing.

mod classic;
mod generate;
mod round_trip;
mod toml;

use std::fmt::Write;
use std::path::Path;

use expect_test::Expect;

use crate::{Command, Job, Workload, WorkloadError};

/// Compares the results of a transcript: the parsed workload with one line per job, or the error. Each input follows
/// `prefix` and may have `␀`, `␉` and `␍` for control characters.
fn check(path: &str, prefix: &str, expected: Expect) {
    let parse = |text: &str| {
        let text = text.replace('␀', "\0").replace('␉', "\t").replace('␍', "\r");
        printed(crate::parse(&format!("{prefix}{text}\n"), Path::new(path)))
    };
    expected.assert_eq(&base::transcript(expected.data(), parse));
}

fn printed(result: Result<Workload, WorkloadError>) -> String {
    match result {
        Err(error) => format!("{error}\n"),
        Ok(workload) => {
            let mut text = format!("{} in {:?}\n", workload.name, workload.folder);
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
    let what = match &job.command {
        Command::Program { program, args } => format!("{} {args:?}", program.display()),
        Command::Shell(line) => format!("sh {line:?}"),
        Command::Load(args) => format!("load {args:?}"),
    };
    let mut text = format!("{} at {}: {what}", job.name, job.start);
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
