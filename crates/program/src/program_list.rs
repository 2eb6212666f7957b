//! Program lists: the input of the workload generator.
//!
//! ```toml
//! version = 2
//!
//! [[program]]
//! name = "cjpeg"
//! command = ["cjpeg", "-outfile", "/dev/null", "photo.ppm"]
//! class = 5
//! suite = "pictures"     # name of a group; an option of the generator sets a weight for each suite
//! weight = 2             # drawn twice as often as a program of weight 1 (the default)
//! max = 4                # maximum number of running instances
//! footprint = "64M"      # memory of one instance, for the generator's memory limit
//! run_time = "5s"        # approximate run time alone; default 10 s
//! hog = true             # drawn only for memory-hungry jobs (--hog-fraction)
//! ```
//!
//! A program also has the keys of a job, except the keys for start and end. `{copy}` in a value is replaced by the
//! number of the instance.

use std::path::Path;

use base::toml_reader::{SourceText, TomlFault, TomlTable, TomlVersion, Value, integer};
use base::{Bytes, Nanos};

use crate::assemble::is_truncated;
use crate::error::WorkloadFault;
use crate::toml_workload::{job_line, without_defaults};
use crate::{Job, WorkloadError, values};

/// The programs of a list, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramList {
    /// The programs; at least one.
    pub programs: Vec<Program>,
}

/// A program of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Template of the instances. The name of the template is the name of the program.
    pub job: Job,
    /// The suite of the program.
    pub suite: Option<String>,
    /// Relative frequency of the program in the draw.
    pub weight: u64,
    /// Maximum number of running instances; absent: no limit.
    pub instances_max: Option<u32>,
    /// Memory of one instance.
    pub footprint: Bytes,
    /// Approximate run time alone. An instance counts as running for this time.
    pub run_time: Nanos,
    /// Whether the generator draws the program only for memory-hungry jobs.
    pub hog: bool,
}

/// Version of the format.
const VERSION: TomlVersion = TomlVersion {
    key: "version",
    supported: 2,
    conversion: Some("rename the key \"lasts\" to \"run_time\" and write version = 2"),
};

const KNOWN: &[&str] = &["version", "program"];

const PROGRAM_KNOWN: &[&str] = &[
    "name",
    "command",
    "shell",
    "load",
    "class",
    "suite",
    "weight",
    "max",
    "footprint",
    "run_time",
    "hog",
    "profile",
    "dir",
    "env",
    "input",
    "output",
    "threads",
    "rounds",
    "section",
    "cpus",
    "nodes",
    "memory",
];

/// Run time of a program without the key `run_time` (guessed).
const RUN_TIME_DEFAULT: Nanos = Nanos::from_secs(10);

/// Maximum weight. A larger weight is probably a typing error, and the sum of weights could overflow.
const WEIGHT_MAX: u64 = 1_000_000;

impl ProgramList {
    /// Parses a list in TOML. `path` is used only in errors; no file is opened.
    pub fn parse(text: &str, path: &Path) -> Result<ProgramList, WorkloadError> {
        let text = SourceText::new(text, path);
        let document = text.parse(VERSION)?;
        let top =
            TomlTable::new(&text, document.get_ref(), 0, "the program list", KNOWN, PROGRAM_KNOWN)?;
        let tables = top.tables("program", "a program", PROGRAM_KNOWN)?;
        let programs = tables.iter().map(|table| program(&text, table));
        let programs = programs.collect::<Result<Vec<_>, _>>()?;
        check_names(&text, &tables, &programs)?;
        check_outputs(&tables, &programs)?;
        match programs.is_empty() {
            true => Err(top.error(WorkloadFault::Toml(TomlFault::Missing {
                key: "program",
                table: "the program list",
                example: "[[program]] with a name and a command",
            }))),
            false => Ok(ProgramList { programs }),
        }
    }

    /// Returns the names of the suites in the list.
    pub fn suites(&self) -> std::collections::BTreeSet<&str> {
        self.programs.iter().filter_map(|program| program.suite.as_deref()).collect()
    }
}

fn program(text: &SourceText<'_>, table: &TomlTable<'_>) -> Result<Program, WorkloadError> {
    let name = table.require("name", "name = \"cjpeg\"", name)?;
    let line = job_line(text, table, &without_defaults())?;
    Ok(Program {
        job: Job { name, ..line.job },
        suite: table.get("suite", values::name)?,
        weight: table.get("weight", weight)?.unwrap_or(1),
        instances_max: table.get("max", instances)?,
        footprint: table.get("footprint", values::size)?.unwrap_or_default(),
        run_time: table.get("run_time", values::positive_time)?.unwrap_or(RUN_TIME_DEFAULT),
        hog: table.get("hog", values::boolean)?.unwrap_or(false),
    })
}

/// Parses a name to which the suffixes `.2`, `.3`, … can be appended.
fn name(key: &'static str, value: &Value<'_>) -> Result<String, WorkloadFault> {
    match values::name(key, value)? {
        long if NAME_BYTES_MAX < long.len() => Err(WorkloadFault::ProgramName(long)),
        name => Ok(name),
    }
}

/// Limit for program names: the limit for job names (100) minus the longest suffix (7).
const NAME_BYTES_MAX: usize = 93;

fn check_names(
    text: &SourceText<'_>,
    tables: &[TomlTable<'_>],
    programs: &[Program],
) -> Result<(), WorkloadError> {
    let mut lines = std::collections::BTreeMap::new();
    for (table, program) in tables.iter().zip(programs) {
        let name = &program.job.name;
        if let Some(other_line) = lines.insert(name, text.line(table.offset_of("name"))) {
            return Err(
                table.error_in("name", WorkloadFault::Duplicate { name: name.clone(), other_line })
            );
        }
    }
    Ok(())
}

/// Rejects programs that would truncate each other's output.
fn check_outputs(tables: &[TomlTable<'_>], programs: &[Program]) -> Result<(), WorkloadError> {
    let mut lines = std::collections::BTreeMap::new();
    for (table, program) in tables.iter().zip(programs) {
        let Some(output) = program.job.output.as_ref().filter(|path| is_truncated(path)) else {
            continue;
        };
        let fault = |fault| Err(table.error_in("output", fault));
        if program.job.input.as_ref() == Some(output) {
            return fault(WorkloadFault::OutputIsInput);
        }
        if let Some(other_line) = lines.insert(output, program.job.origin.line) {
            let path = output.display().to_string();
            return fault(WorkloadFault::TakenOutput { path, other_line });
        }
    }
    Ok(())
}

fn weight(key: &'static str, value: &Value<'_>) -> Result<u64, WorkloadFault> {
    Ok(integer(key, value, (0, WEIGHT_MAX), "0 to 1000000")?)
}

fn instances(key: &'static str, value: &Value<'_>) -> Result<u32, WorkloadFault> {
    Ok(integer(key, value, (1, u64::from(u32::MAX)), "1 or more")? as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect_file;

    fn parse(text: &str) -> Result<ProgramList, String> {
        ProgramList::parse(text, Path::new("list.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn invalid_lists() {
        let result =
            |text: &str| parse(text).map_or_else(|error| error, |list| format!("{list:?}"));
        let cases = expect_file!["../cases/program-list-errors.txt"];
        cases.assert_eq(&base::transcript(&cases.data(), result));
    }

    #[test]
    fn a_program_is_a_job_with_parameters_of_the_draw() {
        let list = parse(
            r#"
            [[program]]
            name = "a"
            command = ["a"]
            suite = "s"
            weight = 3
            max = 4
            footprint = "2K"
            run_time = 2
            [[program]]
            name = "b"
            load = "hog"
            hog = true
            "#,
        )
        .expect("a list");
        let [a, b] = &list.programs[..] else { panic!("two programs") };
        assert_eq!((a.weight, a.instances_max, a.footprint), (3, Some(4), Bytes(2048)));
        assert_eq!((a.run_time, a.hog), (Nanos::from_secs(2), false));
        assert_eq!(
            (b.weight, b.instances_max, b.run_time, b.hog),
            (1, None, RUN_TIME_DEFAULT, true)
        );
        assert!(list.suites().into_iter().eq(["s"]));
    }
}
