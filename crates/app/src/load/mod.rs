//! The built-in synthetic programs: `evenkeel load KIND …`.
//!
//! With them a workload runs on a machine with nothing else installed, and a policy can be shown
//! programs whose character is known: a hog that misses every cache, arithmetic that never leaves
//! the core, one array read along its rows or across them.
//!
//! ```text
//!   hog       random places of a large buffer: nearly every access goes to memory
//!   compute   arithmetic in registers, no memory
//!   rows      a two-dimensional array along its rows: every line is used whole
//!   columns   the same array across its rows: a new line for every element
//!   sleep     nothing at all, then an exit status of one's choice
//!   fork      children that compute
//!   phases    compute, hog and sleep in turn
//! ```
//!
//! What would make such a program measure something else is ruled out: every page is written before
//! the clock starts (untouched pages all map one page of zeros), what is read goes through a black
//! box (else the compiler drops the loop), and the pattern is tried first and refused if it does
//! not cost what it should.

mod bench;
mod budget;
mod compute;
mod family;
mod hog;
mod memory;
mod phases;
mod walk;
mod workers;

use std::io::Write;

use clap::{Parser, Subcommand};
use serde_json::{Map, Value};

use crate::command_result::CommandResult;

/// Be one of the built-in synthetic programs
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, Subcommand)]
enum Kind {
    /// Work on random places of a large buffer: nearly every access goes to memory
    Hog(hog::Args),
    /// Do arithmetic in registers, without memory
    Compute(compute::Args),
    /// Read a two-dimensional array along its rows
    Rows(bench::Args),
    /// Read a two-dimensional array across its rows
    Columns(bench::Args),
    /// Sleep, then exit with a status
    Sleep(family::SleepArgs),
    /// Start children that compute
    Fork(family::ForkArgs),
    /// Compute, hog and sleep in turn
    Phases(phases::Args),
}

/// Runs the program.
pub fn main(args: &Args) -> CommandResult {
    match &args.kind {
        Kind::Hog(args) => hog::main(args),
        Kind::Compute(args) => compute::main(args),
        Kind::Rows(args) => bench::main(args, bench::Order::Rows),
        Kind::Columns(args) => bench::main(args, bench::Order::Columns),
        Kind::Sleep(args) => family::sleep(args),
        Kind::Fork(args) => family::fork(args),
        Kind::Phases(args) => phases::main(args),
    }
}

/// Whether a job with these arguments would run: whether they are understood, and what the program
/// would refuse at its start. Called before any job starts.
pub fn check(args: &[String]) -> Result<(), String> {
    match parse(args)?.kind {
        Kind::Hog(args) => hog::check(&args),
        Kind::Rows(args) | Kind::Columns(args) => bench::check(&args),
        Kind::Phases(args) => phases::check(&args),
        Kind::Compute(_) | Kind::Sleep(_) | Kind::Fork(_) => Ok(()),
    }
    .map_err(|error| format!("{error:#}"))
}

fn parse(args: &[String]) -> Result<Args, String> {
    #[derive(Parser)]
    #[command(name = "load")]
    struct Alone {
        #[command(flatten)]
        args: Args,
    }
    let words = std::iter::once("load").chain(args.iter().map(String::as_str));
    match Alone::try_parse_from(words) {
        Ok(alone) => Ok(alone.args),
        Err(error) if !error.use_stderr() => {
            Err("it asks for help and would do nothing else; leave that out".to_owned())
        }
        Err(error) => {
            let text = error.render().to_string();
            let line = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
            let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
            Err(tip.map_or(line.to_owned(), |tip| format!("{line}; {tip}")))
        }
    }
}

/// What a program says about itself: text for people, or one JSON object at the end.
struct Account {
    kind: &'static str,
    json: bool,
    fields: Map<String, Value>,
}

impl Account {
    fn new(kind: &'static str, json: bool) -> Self {
        let fields = Map::from_iter([("kind".to_owned(), kind.into())]);
        Account { kind, json, fields }
    }

    /// Notes a figure for the JSON object.
    fn note(&mut self, field: &str, value: impl Into<Value>) {
        self.fields.insert(field.to_owned(), value.into());
    }

    /// A line for people.
    fn say(&self, line: &str) -> std::io::Result<()> {
        match self.json {
            true => Ok(()),
            false => writeln!(std::io::stdout(), "{}: {line}", self.kind),
        }
    }

    /// The last line for people, or the object.
    fn end(mut self, done: &budget::Work, unit: &str) -> std::io::Result<()> {
        let (cpu_s, wall_s) = (done.cpu.as_secs_f64(), done.wall.as_secs_f64());
        let rate = if 0.0 < cpu_s { done.ops as f64 / cpu_s } else { 0.0 };
        if !self.json {
            return self.say(&format!(
                "{} {unit} in {wall_s:.3} s, {cpu_s:.3} s of CPU time, {rate:.0} per CPU second",
                done.ops
            ));
        }
        self.note("ops", done.ops);
        self.note("wall_s", wall_s);
        self.note("cpu_s", cpu_s);
        self.note("ops_per_cpu_s", rate);
        writeln!(std::io::stdout(), "{}", Value::Object(self.fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn arguments_of_a_job_are_understood_before_it_starts() {
        for text in ["hog --for 5s", "compute --ops 10 --threads 2", "sleep --for 1ms --status 3"] {
            assert_eq!(check(&words(text)), Ok(()), "{text}");
        }
        for text in ["", "hogg", "hog --fro 5s", "compute --throttle 0", "rows --size 1M --n 0"] {
            let error = check(&words(text)).expect_err(text);
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }

    #[test]
    fn what_a_program_would_refuse_at_its_start_is_known_before() {
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
    fn every_program_that_a_workload_may_name_is_here() {
        for kind in program::LOADS {
            let known = check(&words(&format!("{kind} --help"))).expect_err("help is no run");
            assert!(!known.contains("unrecognized"), "{kind}: {known}");
        }
    }
}
