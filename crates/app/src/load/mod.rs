//! The built-in synthetic programs: `evenkeel load KIND …`.
//!
//! With these programs a workload runs on a machine without other software. Their behaviour is known, which allows tests
//! of policies.
//!
//! ```text
//!   hog       random accesses to a large buffer: nearly every access misses all caches
//!   compute   arithmetic in registers, no memory
//!   rows      a two-dimensional array, read row by row: every cache line is used completely
//!   columns   the same array, read column by column: a new cache line for every element
//!   sleep     sleeps, then exits with a given status
//!   fork      starts children that compute
//!   phases    compute, hog and sleep in sequence
//!   forkjoin  a serial part and a fork of threads that wait for each other, repeatedly
//!   pipeline  threads that pass items through bounded queues
//!   throttle  occupies CPUs by duty cycle, so that they are slower for other programs
//! ```
//!
//! The programs are part of the evenkeel executable and not a separate binary. A job starts the programs through
//! /proc/self/exe, so no installation and no search path is required. The check of a workload parses the arguments of
//! each program with the parser of the program, before any job starts.
//!
//! Three measures prevent wrong results. Every page is written before the clock starts, because untouched pages share
//! one zero page. All read values pass through `black_box`, because the compiler removes a loop without results. A
//! self-check rejects an access pattern that does not have the expected cost.

mod array;
mod budget;
mod compute;
mod forkjoin;
mod hog;
mod memory;
mod phases;
mod pipeline;
mod processes;
mod throttle;
mod walk;

use std::io::Write;

use clap::{Parser, Subcommand};
use report::format::fixed;
use serde_json::{Map, Value};

use crate::command_result::CommandResult;
use crate::help::{examples, examples_with, page};

/// Run a built-in synthetic program
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    kind: LoadProgram,
}

#[derive(Debug, Subcommand)]
enum LoadProgram {
    /// Access random lines of a large buffer; nearly every access misses all caches
    #[command(after_help = examples_of_kind("hog"))]
    Hog(hog::Args),
    /// Compute in registers, without memory accesses
    #[command(after_help = examples_of_kind("compute"))]
    Compute(compute::Args),
    /// Read a two-dimensional array row by row
    #[command(after_help = examples_of_kind("rows"))]
    Rows(array::Args),
    /// Read a two-dimensional array column by column
    #[command(after_help = examples_of_kind("columns"))]
    Columns(array::Args),
    /// Sleep, then exit with a status
    #[command(after_help = examples_of_kind("sleep"))]
    Sleep(processes::SleepArgs),
    /// Start children that compute
    #[command(after_help = examples_of_kind("fork"))]
    Fork(processes::ForkArgs),
    /// Run phases of compute, hog and sleep
    #[command(after_help = examples_of_kind("phases"))]
    Phases(phases::Args),
    /// Fork and join threads repeatedly, with a serial part
    #[command(after_help = examples_of_kind("forkjoin"))]
    Forkjoin(forkjoin::Args),
    /// Pass items through stages, a thread each, with bounded queues
    #[command(after_help = examples_of_kind("pipeline"))]
    Pipeline(pipeline::Args),
    /// Occupy CPUs for a share of the time, so that other programs run slower there
    #[command(after_help = examples_of_kind("throttle"))]
    Throttle(throttle::Args),
}

fn examples_of_kind(kind: &str) -> String {
    examples_with(&examples(page("load")), &format!("evenkeel load {kind} "))
}

pub fn main(args: &Args) -> CommandResult {
    match &args.kind {
        LoadProgram::Hog(args) => hog::main(args),
        LoadProgram::Compute(args) => compute::main(args),
        LoadProgram::Rows(args) => array::main(args, array::Traversal::Rows),
        LoadProgram::Columns(args) => array::main(args, array::Traversal::Columns),
        LoadProgram::Sleep(args) => processes::sleep(args),
        LoadProgram::Fork(args) => processes::fork(args),
        LoadProgram::Phases(args) => phases::main(args),
        LoadProgram::Forkjoin(args) => forkjoin::main(args),
        LoadProgram::Pipeline(args) => pipeline::main(args),
        LoadProgram::Throttle(args) => throttle::main(args),
    }
}

/// Checks the arguments of a job: the syntax, and all conditions that the program checks at its start. Called before
/// any job starts.
pub fn check(args: &[String]) -> Result<(), String> {
    match parse(args)?.kind {
        LoadProgram::Hog(args) => hog::check(&args),
        LoadProgram::Rows(args) | LoadProgram::Columns(args) => array::check(&args),
        LoadProgram::Phases(args) => phases::check(&args),
        LoadProgram::Throttle(_) => {
            Err(anyhow::anyhow!("throttle cannot be a job: start it before the run, in a shell"))
        }
        LoadProgram::Compute(_)
        | LoadProgram::Sleep(_)
        | LoadProgram::Fork(_)
        | LoadProgram::Forkjoin(_)
        | LoadProgram::Pipeline(_) => Ok(()),
    }
    .map_err(|error| format!("{error:#}"))
}

fn parse(args: &[String]) -> Result<Args, String> {
    #[derive(Parser)]
    #[command(name = "load")]
    struct LoadCli {
        #[command(flatten)]
        args: Args,
    }
    let words = std::iter::once("load").chain(args.iter().map(String::as_str));
    match LoadCli::try_parse_from(words) {
        Ok(cli) => Ok(cli.args),
        Err(error) if !error.use_stderr() => Err("--help prints only help; remove it".to_owned()),
        Err(error) => {
            let text = error.render().to_string();
            let line = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
            let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
            Err(tip.map_or(line.to_owned(), |tip| format!("{line}; {tip}")))
        }
    }
}

/// Output of a program: text lines, or one JSON object at the end.
struct LoadReport {
    kind: &'static str,
    json: bool,
    fields: Map<String, Value>,
}

impl LoadReport {
    fn new(kind: &'static str, json: bool) -> Self {
        let fields = Map::from_iter([("kind".to_owned(), kind.into())]);
        LoadReport { kind, json, fields }
    }

    /// Adds a field to the JSON object.
    fn add(&mut self, field: &str, value: impl Into<Value>) {
        self.fields.insert(field.to_owned(), value.into());
    }

    /// Prints a line, except with `--json`.
    fn print(&self, line: &str) -> std::io::Result<()> {
        match self.json {
            true => Ok(()),
            false => writeln!(crate::print::stdout(), "{}: {line}", self.kind),
        }
    }

    /// Prints the last line, or the JSON object.
    fn end(mut self, work: &budget::CompletedWork, unit: &str) -> std::io::Result<()> {
        let (cpu_s, wall_s) = (work.cpu.as_secs_f64(), work.wall.as_secs_f64());
        let rate = if 0.0 < cpu_s { work.ops as f64 / cpu_s } else { 0.0 };
        if !self.json {
            return self.print(&format!(
                "{} {unit} in {} s, {} s of CPU time, {} per CPU second",
                work.ops,
                fixed(wall_s, 3),
                fixed(cpu_s, 3),
                fixed(rate, 0)
            ));
        }
        self.add("ops", work.ops);
        self.add("wall_s", wall_s);
        self.add("cpu_s", cpu_s);
        self.add("ops_per_cpu_s", rate);
        writeln!(crate::print::stdout(), "{}", Value::Object(self.fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn arguments_of_a_job_are_parsed_before_it_starts() {
        for text in ["hog --for 5s", "compute --ops 10 --threads 2", "sleep --for 1ms --status 3"] {
            assert_eq!(check(&words(text)), Ok(()), "{text}");
        }
        for text in ["", "hogg", "hog --fro 5s", "compute --throttle 0", "rows --size 1M --n 0"] {
            let error = check(&words(text)).expect_err(text);
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }

    #[test]
    fn arguments_that_a_program_would_reject_are_rejected_before_it_starts() {
        for (text, word) in [
            ("hog --size 0", "less than a line"),
            ("hog --size 1", "less than a line"),
            ("hog --threads 4096 --size 1K", "(4096)"),
            ("hog --size 1M --llc 32M", "miss the cache"),
            ("hog --size 1024T", "free memory"),
            ("phases hog:1s --size 0", "less than a line"),
            ("phases hog:1s --size 1M --llc 32M", "miss the cache"),
            ("phases hog:1s --size 1024T", "free memory"),
            ("phases compute:1s --size 0", "less than a line"),
            ("rows --n 65535 --threads 4096", "free memory"),
            ("columns --n 65535 --copies 100000", "free memory"),
            ("hog --help", "help"),
        ] {
            let error = check(&words(text)).expect_err(text);
            assert!(error.contains(word), "{text}: {error}");
        }
        for text in [
            "hog --size 1M --llc 32M --no-self-check",
            "phases hog:1s --size 1M --llc 32M --no-self-check",
            "phases compute:1s sleep:1s",
        ] {
            assert_eq!(check(&words(text)), Ok(()), "{text}");
        }
    }

    #[test]
    fn every_program_that_a_workload_may_name_exists() {
        for kind in program::LOADS {
            let message = check(&words(&format!("{kind} --help"))).expect_err("help is rejected");
            assert!(!message.contains("unrecognized"), "{kind}: {message}");
        }
    }
}
