//! Reads workloads in TOML.
//!
//! ```toml
//! version = 1                    # optional
//! name = "pictures"              # default: the name of the file
//!
//! [defaults]                     # values for jobs that do not set the key
//! dir = "input"
//!
//! [[job]]
//! name = "small"                 # default: the program's file name; a suffix makes it unique
//! command = ["cjpeg", "-quality", "90", "photo.ppm"]
//! output = "/dev/null"
//! start = "250ms"                # or seconds as a number
//! copies = 3                     # small, small.2, small.3; {copy} in a string is replaced by 1, 2, 3
//! every = 0.5                    # time between the starts of two copies
//! class = 7
//! ```
//!
//! A job has exactly one of `command` (a program and its arguments, no shell), `shell` (a line for
//! `/bin/sh -c`) and `load` (a built-in synthetic program).

use std::path::{Path, PathBuf};

use base::toml_reader::{
    SourceText, TomlTable, TomlVersion, Value, decimal, describe, integer, wrong_type,
};
use base::{IdSet, JobId, Nanos, SetId};

use crate::assemble::{self, FileHeader, WorkloadLine};
use crate::error::{N_JOBS_MAX, N_THREADS_MAX, WorkloadFault};
use crate::sensitivity::parse_slowdown;
use crate::{
    Class, Command, Ending, FilePosition, Job, LOADS, MemoryPolicy, Sensitivity, Workload,
    WorkloadError, sections, values,
};

/// Version of the format.
const VERSION: TomlVersion = TomlVersion { key: "version", supported: 1, conversion: None };

/// The keys of a workload.
const KNOWN: &[&str] = &["version", "name", "defaults", "job", "read_only"];

/// A valid job, which is printed in the error for a workload without jobs.
const EXAMPLE: &str = "[[job]] command = [\"sort\", \"words.txt\"]";

/// Parses a workload in TOML. Name and directory are taken from `path`; no file is opened.
pub fn parse_toml(text: &str, path: &Path) -> Result<Workload, WorkloadError> {
    let text = SourceText::new(text, path);
    let document = text.parse(VERSION)?;
    let top = TomlTable::new(&text, document.get_ref(), 0, "the workload", KNOWN, JOB_KEYS)?;
    let name = top.get("name", values::name)?;
    let read_only = top.get("read_only", paths)?.unwrap_or_default();
    let defaults = top.table("defaults", "the defaults", SHARED_KEYS, JOB_KEYS)?;
    let defaults = match defaults {
        Some(table) => with_shared_keys(&table, &without_defaults())?,
        None => without_defaults(),
    };
    let jobs = top.tables("job", "a job", JOB_KEYS)?;
    let lines = jobs.iter().map(|table| job_line(&text, table, &defaults));
    let lines = lines.collect::<Result<Vec<_>, _>>()?;
    assemble::workload(&text, FileHeader { name, read_only, example: EXAMPLE }, lines)
}

fn paths(key: &'static str, value: &Value<'_>) -> Result<Vec<PathBuf>, WorkloadFault> {
    Ok(values::strings(key, value)?.into_iter().map(PathBuf::from).collect())
}

/// Keys of a job. The keys from `output` on may also be in the defaults.
const JOB_KEYS: &[&str] = &[
    "name",
    "command",
    "shell",
    "load",
    "start",
    "copies",
    "every",
    "output",
    "class",
    "sensitivity",
    "profile",
    "dir",
    "env",
    "input",
    "threads",
    "rounds",
    "section",
    "stop_after",
    "restart",
    "cpus",
    "nodes",
    "memory",
];

/// Keys of the defaults: the keys from `output` on.
const SHARED_KEYS: &[&str] = JOB_KEYS.split_at(7).1;

/// Returns the job for a table without keys.
pub(crate) fn without_defaults() -> Job {
    Job::new(JobId(0), "", Command::Shell(String::new()))
}

/// Returns the job `defaults` with the keys in [`SHARED_KEYS`] that the table sets.
fn with_shared_keys(table: &TomlTable<'_>, defaults: &Job) -> Result<Job, WorkloadError> {
    let job = defaults.clone();
    Ok(Job {
        class: table.get("class", class)?.or(job.class),
        sensitivity: table.get("sensitivity", sensitivity)?.or(job.sensitivity),
        profile: table.get("profile", values::name)?.or(job.profile),
        dir: table.get("dir", values::path)?.or(job.dir),
        env: match table.get("env", values::variables)? {
            Some(env) => job.env.into_iter().chain(env).collect(),
            None => job.env,
        },
        input: table.get("input", values::path)?.or(job.input),
        output: table.get("output", values::path)?.or(job.output),
        threads: table.get("threads", threads)?.unwrap_or(job.threads),
        sections: sections::sections(table)?.or(job.sections),
        ending: ending(table)?.unwrap_or(job.ending),
        cpus: table.get("cpus", set)?.or(job.cpus),
        nodes: table.get("nodes", set)?.or(job.nodes),
        memory: table.get("memory", memory)?.or(job.memory),
        ..job
    })
}

/// Reads one job. Absent keys have the values of the defaults.
pub(crate) fn job_line(
    text: &SourceText<'_>,
    table: &TomlTable<'_>,
    defaults: &Job,
) -> Result<WorkloadLine, WorkloadError> {
    let job = with_shared_keys(table, defaults)?;
    let copies = table.get("copies", copies)?;
    let every = table.get("every", values::time)?;
    if every.is_some() && copies.unwrap_or(1) < 2 {
        return Err(table.error_in("every", WorkloadFault::EveryWithoutCopies));
    }
    let job = Job {
        command: command(table)?,
        start: table.get("start", values::time)?.unwrap_or_default(),
        origin: FilePosition { file: text.file.to_owned(), line: text.line(table.offset) },
        ..job
    };
    sections::check(table, job.sections.as_ref(), job.threads)?;
    let name = table.get("name", values::name)?;
    let every = every.unwrap_or(Nanos::ZERO);
    let (name_offset, output_offset) = (table.offset_of("name"), table.offset_of("output"));
    Ok(WorkloadLine { name, copies, every, job, offset: table.offset, name_offset, output_offset })
}

/// Reads the command, which is exactly one of `command`, `shell` and `load`.
fn command(table: &TomlTable<'_>) -> Result<Command, WorkloadError> {
    let present: Vec<&'static str> =
        ["command", "shell", "load"].into_iter().filter(|key| table.has(key)).collect();
    let read = match present[..] {
        [] => return Err(table.error(WorkloadFault::NoCommand)),
        [first, second, ..] => {
            return Err(table.error_in(second, WorkloadFault::TwoCommands { first, second }));
        }
        ["command"] => table.get("command", program)?,
        ["shell"] => table.get("shell", shell)?,
        [_] => table.get("load", load)?,
    };
    read.ok_or_else(|| table.error(WorkloadFault::NoCommand))
}

fn program(key: &'static str, value: &Value<'_>) -> Result<Command, WorkloadFault> {
    const EXPECTED: &str =
        "an array such as [\"sort\", \"-n\"] (use the key shell for a line of shell)";
    if let Value::String(_) = value {
        return Err(wrong_type(key, EXPECTED, value));
    }
    let mut args = values::strings(key, value)?.into_iter();
    match args.next().filter(|program| !program.trim().is_empty()) {
        Some(program) => Ok(Command::Program { program: program.into(), args: args.collect() }),
        None => Err(WorkloadFault::EmptyCommand(key)),
    }
}

fn shell(key: &'static str, value: &Value<'_>) -> Result<Command, WorkloadFault> {
    match values::string(key, value)? {
        line if line.trim().is_empty() => Err(WorkloadFault::EmptyCommand(key)),
        line => Ok(Command::Shell(line)),
    }
}

/// Reads an array of arguments, or a string that is split at spaces.
fn load(key: &'static str, value: &Value<'_>) -> Result<Command, WorkloadFault> {
    let args: Vec<String> = match value {
        Value::String(text) => {
            values::without_nul(key, text)?.split_whitespace().map(str::to_owned).collect()
        }
        other => values::strings(key, other)?,
    };
    match args.first() {
        None => Err(WorkloadFault::EmptyCommand(key)),
        Some(kind) if LOADS.contains(&kind.as_str()) => Ok(Command::Load(args)),
        Some(kind) if kind == "throttle" => Err(WorkloadFault::ThrottleJob),
        Some(kind) => Err(WorkloadFault::UnknownLoad(kind.clone())),
    }
}

fn class(key: &'static str, value: &Value<'_>) -> Result<Class, WorkloadFault> {
    let reject = || WorkloadFault::Class(describe(value));
    let Value::Integer(number) = value else {
        return Err(wrong_type(key, "an integer from 0 to 15", value));
    };
    let number = u8::from_str_radix(number.as_str(), number.radix()).map_err(|_| reject())?;
    Class::new(number).ok_or_else(reject)
}

/// Reads a table with classes (and `remote`) as keys and slowdowns as values.
fn sensitivity(key: &'static str, value: &Value<'_>) -> Result<Sensitivity, WorkloadFault> {
    const EXPECTED: &str = "a table such as { 4 = 0.05, 9 = 0.3, remote = 0.2 }";
    let Value::Table(table) = value else { return Err(wrong_type(key, EXPECTED, value)) };
    let mut by_class = Vec::new();
    let mut remote = 0;
    for (name, value) in table.iter() {
        let name: &str = name.get_ref();
        let reject =
            || WorkloadFault::Sensitivity(format!("{name} = {}", describe(value.get_ref())));
        let slowdown = slowdown(value.get_ref()).ok_or_else(reject)?;
        match name.parse().ok().and_then(Class::new) {
            Some(class) => by_class.push((class, slowdown)),
            None if name == "remote" => remote = slowdown,
            None => return Err(reject()),
        }
    }
    Ok(Sensitivity::new(by_class, remote))
}

fn slowdown(value: &Value<'_>) -> Option<u32> {
    match value {
        Value::Float(number) => parse_slowdown(number.as_str()),
        Value::Integer(number) => parse_slowdown(&decimal(number)),
        _ => None,
    }
}

fn copies(key: &'static str, value: &Value<'_>) -> Result<u32, WorkloadFault> {
    Ok(integer(key, value, (1, N_JOBS_MAX as u64), "1 to 100000")? as u32)
}

fn threads(key: &'static str, value: &Value<'_>) -> Result<u32, WorkloadFault> {
    Ok(integer(key, value, (1, u64::from(N_THREADS_MAX)), "1 to 65536")? as u32)
}

/// Reads `stop_after` or `restart`; a job cannot have both.
fn ending(table: &TomlTable<'_>) -> Result<Option<Ending>, WorkloadError> {
    let after = table.get("stop_after", values::positive_time)?.map(Ending::After);
    let restart = table.get("restart", restart_value)?;
    match (after, restart) {
        (Some(_), Some(restart)) if restart.restarts() => {
            Err(table.error_in("restart", WorkloadFault::TwoEndings))
        }
        (after, restart) => Ok(after.or(restart)),
    }
}

fn restart_value(_key: &'static str, value: &Value<'_>) -> Result<Ending, WorkloadFault> {
    match value {
        Value::String(text) if text == "until-others-done" => Ok(Ending::RestartUntilOthersDone),
        Value::String(text) if text == "until-all-done" => Ok(Ending::RestartUntilAllDone),
        Value::String(text) if text == "no" => Ok(Ending::Exit),
        other => Err(WorkloadFault::Restart(describe(other))),
    }
}

/// Reads a list such as `"0-3,8"`, or a number for a set with one member.
fn set<T: SetId>(key: &'static str, value: &Value<'_>) -> Result<IdSet<T>, WorkloadFault> {
    match value {
        Value::Integer(number) => members(key, &decimal(number)),
        other => members(key, &values::string(key, other)?),
    }
}

fn members<T: SetId>(key: &'static str, text: &str) -> Result<IdSet<T>, WorkloadFault> {
    match text.parse::<IdSet<T>>() {
        Ok(set) if set.is_empty() => Err(WorkloadFault::EmptySet(key)),
        Ok(set) => Ok(set),
        Err(source) => Err(WorkloadFault::Set { key, source }),
    }
}

fn memory(key: &'static str, value: &Value<'_>) -> Result<MemoryPolicy, WorkloadFault> {
    let text = values::string(key, value)?;
    let reject = || WorkloadFault::Memory(text.clone());
    let (kind, nodes) = text.split_once(':').ok_or_else(reject)?;
    match kind.trim() {
        "bind" => Ok(MemoryPolicy::Bind(members(key, nodes)?)),
        "preferred" => Ok(MemoryPolicy::Preferred(members(key, nodes)?)),
        "interleave" => Ok(MemoryPolicy::Interleave(members(key, nodes)?)),
        "weighted-interleave" => Ok(MemoryPolicy::WeightedInterleave(members(key, nodes)?)),
        _ => Err(reject()),
    }
}
