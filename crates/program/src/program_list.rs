//! Program lists: what the generator draws from.
//!
//! ```toml
//! version = 1
//!
//! [[program]]
//! name = "cjpeg"
//! command = ["cjpeg", "-outfile", "/dev/null", "photo.ppm"]
//! class = 5
//! suite = "pictures"     # a group whose share of the draw can be chosen
//! weight = 2             # drawn twice as often as one of weight 1 (the default)
//! max = 4                # at most so many at a time
//! footprint = "64M"      # memory of one, counted against the generator's limit
//! lasts = "5s"           # about how long it runs alone; 10 s if nobody says
//! hog = true             # drawn only as one of the hogs (--hog-fraction)
//! ```
//!
//! Beside these a program knows the keys of a job that do not concern its start and end. `{copy}`
//! in them becomes the number of the instance.

use std::path::Path;

use base::toml_reader::{SourceText, Table, TomlFault, Value, integer};
use base::{Bytes, Nanos};

use crate::assemble::is_emptied;
use crate::error::WorkloadFault;
use crate::toml_workload::{job_table, values};
use crate::{Job, WorkloadError};

/// The programs of a list, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramList {
    /// At least one.
    pub programs: Vec<Program>,
}

/// A program that may be drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// What each instance is like; its `name` is the program's.
    pub job: Job,
    /// The group it belongs to.
    pub suite: Option<String>,
    /// How often it is drawn, relative to the others.
    pub weight: u64,
    /// At most so many at a time; absent: as many as are drawn.
    pub instances_max: Option<u32>,
    /// Memory of one instance.
    pub footprint: Bytes,
    /// About how long it runs alone: so long it counts as running.
    pub lasts: Nanos,
    /// Whether it is one of the hogs, which are drawn apart.
    pub hog: bool,
}

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
    "lasts",
    "hog",
    "profile",
    "dir",
    "env",
    "input",
    "output",
    "threads",
    "cpus",
    "nodes",
    "memory",
];

/// How long a program is taken to run when its list does not say. A guess.
const LASTS_DEFAULT: Nanos = Nanos::from_secs(10);

/// Weights beyond this are a mistake, and their sum could overflow.
const WEIGHT_MAX: u64 = 1_000_000;

impl ProgramList {
    /// Reads a list in TOML. `path` stands in messages; nothing is opened.
    pub fn parse(text: &str, path: &Path) -> Result<ProgramList, WorkloadError> {
        let text = SourceText::new(text, path);
        let document = text.parse("version")?;
        let top =
            Table::new(&text, document.get_ref(), 0, "the program list", KNOWN, PROGRAM_KNOWN)?;
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

    /// The suites, each once, in rising order.
    pub fn suites(&self) -> std::collections::BTreeSet<&str> {
        self.programs.iter().filter_map(|program| program.suite.as_deref()).collect()
    }
}

fn program(text: &SourceText<'_>, table: &Table<'_>) -> Result<Program, WorkloadError> {
    let name = table.require("name", "name = \"cjpeg\"", name)?;
    let line = job_table::read(text, table, &job_table::SharedKeys::default())?;
    Ok(Program {
        job: Job { name, ..line.job },
        suite: table.get("suite", job_table::name)?,
        weight: table.get("weight", weight)?.unwrap_or(1),
        instances_max: table.get("max", instances)?,
        footprint: table.get("footprint", values::size)?.unwrap_or_default(),
        lasts: table.get("lasts", values::positive_time)?.unwrap_or(LASTS_DEFAULT),
        hog: table.get("hog", values::boolean)?.unwrap_or(false),
    })
}

/// A name with room for `.2`, `.3` … behind it.
fn name(key: &'static str, value: &Value<'_>) -> Result<String, WorkloadFault> {
    match job_table::name(key, value)? {
        long if NAME_BYTES_MAX < long.len() => Err(WorkloadFault::ProgramName { found: long }),
        name => Ok(name),
    }
}

/// A job's name has at most 100; the largest number behind a dot takes seven.
const NAME_BYTES_MAX: usize = 93;

fn check_names(
    text: &SourceText<'_>,
    tables: &[Table<'_>],
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

/// Programs that write one file would each begin by emptying it.
fn check_outputs(tables: &[Table<'_>], programs: &[Program]) -> Result<(), WorkloadError> {
    let mut lines = std::collections::BTreeMap::new();
    for (table, program) in tables.iter().zip(programs) {
        let Some(output) = program.job.output.as_ref().filter(|path| is_emptied(path)) else {
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
    use expect_test::expect;

    fn parse(text: &str) -> Result<ProgramList, String> {
        ProgramList::parse(text, Path::new("list.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_program_is_a_job_with_what_the_draw_needs() {
        let list = parse(
            r#"
            [[program]]
            name = "a"
            command = ["a"]
            suite = "s"
            weight = 3
            max = 4
            footprint = "2K"
            lasts = 2
            [[program]]
            name = "b"
            load = "hog"
            hog = true
            "#,
        )
        .expect("a list");
        let [a, b] = &list.programs[..] else { panic!("two programs") };
        assert_eq!((a.weight, a.instances_max, a.footprint), (3, Some(4), Bytes(2048)));
        assert_eq!((a.lasts, a.hog), (Nanos::from_secs(2), false));
        assert_eq!((b.weight, b.instances_max, b.lasts, b.hog), (1, None, LASTS_DEFAULT, true));
        assert!(list.suites().into_iter().eq(["s"]));
    }

    #[test]
    fn mistakes_have_their_places() {
        for (text, expected) in [
            (
                "",
                expect![[
                    r#"list.toml:1:1: the program list has no "program"; add [[program]] with a name and a command"#
                ]],
            ),
            (
                "[[program]]\ncommand = [\"a\"]",
                expect![[r#"list.toml:1:1: a program has no "name"; add name = "cjpeg""#]],
            ),
            (
                "[[program]]\nname = \"a\"\nload = \"hog\"\nstart = 1",
                expect![[
                    r#"list.toml:4:1: unknown key "start" in a program; known are name, command, shell, load, class, suite, weight, max, footprint, lasts, hog, profile, dir, env, input, output, threads, cpus, nodes, memory"#
                ]],
            ),
            (
                "[[program]]\nname = \"a\"\nload = \"hog\"\nweight = -1",
                expect![[
                    r#"list.toml:4:10: weight is -1, which is out of range; write 0 to 1000000"#
                ]],
            ),
            (
                "[[program]]\nname = \"a\"\nload = \"hog\"\nfootprint = \"1X\"",
                expect![[
                    r#"list.toml:4:13: footprint: "1X" is not a size; write bytes, or a number with K, M, G or T such as 64M"#
                ]],
            ),
            (
                "[[program]]\nname = \"a\"\nload = \"hog\"\n[[program]]\nname = \"a\"\nload = \"hog\"",
                expect![[r#"list.toml:5:8: the name "a" is already used in line 2; rename one"#]],
            ),
            (
                "[[program]]\nname = \"a\"\nload = \"hog\"\noutput = \"o\"\n[[program]]\nname = \"b\"\nload = \"hog\"\noutput = \"o\"",
                expect![
                    "list.toml:8:10: the output o is already that of the job in line 1; name another file"
                ],
            ),
            (
                "[[program]]\nname = \"a\"\nload = \"hog\"\ninput = \"o\"\noutput = \"o\"",
                expect![
                    "list.toml:5:10: output is also the input, and would be truncated before it is read; name another file"
                ],
            ),
        ] {
            expected.assert_eq(&parse(text).expect_err(text));
        }
    }
}
