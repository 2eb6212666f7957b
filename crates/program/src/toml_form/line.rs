//! One `[[job]]` of a TOML workload, and the `[defaults]` behind it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base::{CpuSet, IdSet, JobId, Nanos, NodeSet, SetId};
use toml::de::DeValue;

use super::fields::{self, Fields};
use crate::assemble::{self, Line};
use crate::error::{N_JOBS_MAX, N_THREADS_MAX, Text, WorkloadFault, nearest};
use crate::sensitivity::parse_slowdown;
use crate::{Class, Command, Ending, Job, LOADS, MemoryPolicy, Origin, Sensitivity, WorkloadError};

/// The keys that a job knows.
pub(super) const KNOWN: &[&str] = &[
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
    "stop_after",
    "restart",
    "cpus",
    "nodes",
    "memory",
];

/// The keys that the defaults know: what several jobs may share.
pub(super) const COMMON: &[&str] = &[
    "class",
    "sensitivity",
    "profile",
    "dir",
    "env",
    "input",
    "threads",
    "stop_after",
    "restart",
    "cpus",
    "nodes",
    "memory",
];

/// What a job and the defaults can both say.
#[derive(Default)]
pub(crate) struct Common {
    class: Option<Class>,
    sensitivity: Option<Sensitivity>,
    profile: Option<String>,
    dir: Option<PathBuf>,
    env: BTreeMap<String, String>,
    input: Option<PathBuf>,
    threads: Option<u32>,
    ending: Option<Ending>,
    cpus: Option<CpuSet>,
    nodes: Option<NodeSet>,
    memory: Option<MemoryPolicy>,
}

impl Common {
    pub(super) fn read(table: &Fields<'_>) -> Result<Common, WorkloadError> {
        Ok(Common {
            class: table.get("class", class)?,
            sensitivity: table.get("sensitivity", sensitivity)?,
            profile: table.get("profile", profile)?,
            dir: table.get("dir", fields::path)?,
            env: table.get("env", fields::variables)?.unwrap_or_default(),
            input: table.get("input", fields::path)?,
            threads: table.get("threads", threads)?,
            ending: ending(table)?,
            cpus: table.get("cpus", set)?,
            nodes: table.get("nodes", set)?,
            memory: table.get("memory", memory)?,
        })
    }
}

/// One job; what it leaves out comes from the defaults.
pub(crate) fn read(
    text: &Text<'_>,
    table: &Fields<'_>,
    defaults: &Common,
) -> Result<Line, WorkloadError> {
    let own = Common::read(table)?;
    let copies = table.get("copies", copies)?;
    let every = table.get("every", fields::time)?;
    if every.is_some() && copies.unwrap_or(1) < 2 {
        return Err(table.fault_at("every", WorkloadFault::NothingToSpace));
    }
    let env = defaults.env.clone().into_iter().chain(own.env).collect();
    let job = Job {
        id: JobId(0),
        name: String::new(),
        command: command(table)?,
        start: table.get("start", fields::time)?.unwrap_or_default(),
        class: own.class.or(defaults.class),
        sensitivity: own.sensitivity.or_else(|| defaults.sensitivity.clone()),
        profile: own.profile.or_else(|| defaults.profile.clone()),
        found: None,
        dir: own.dir.or_else(|| defaults.dir.clone()),
        env,
        input: own.input.or_else(|| defaults.input.clone()),
        output: table.get("output", fields::path)?,
        threads: own.threads.or(defaults.threads).unwrap_or(1),
        ending: own.ending.or(defaults.ending).unwrap_or_default(),
        cpus: own.cpus.or_else(|| defaults.cpus.clone()),
        nodes: own.nodes.or_else(|| defaults.nodes.clone()),
        memory: own.memory.or_else(|| defaults.memory.clone()),
        origin: Origin { file: text.file.to_owned(), line: text.line(table.offset) },
    };
    let name = table.get("name", name)?;
    let every = every.unwrap_or(Nanos::ZERO);
    let (name_at, output_at) = (table.offset_of("name"), table.offset_of("output"));
    Ok(Line { name, copies, every, job, offset: table.offset, name_at, output_at })
}

/// Exactly one of the three ways to say what runs.
fn command(table: &Fields<'_>) -> Result<Command, WorkloadError> {
    let said: Vec<&'static str> =
        ["command", "shell", "load"].into_iter().filter(|key| table.has(key)).collect();
    let read = match said[..] {
        [] => return Err(table.fault(WorkloadFault::NoCommand)),
        [first, second, ..] => {
            return Err(table.fault_at(second, WorkloadFault::TwoCommands { first, second }));
        }
        ["command"] => table.get("command", program)?,
        ["shell"] => table.get("shell", shell)?,
        [_] => table.get("load", load)?,
    };
    read.ok_or_else(|| table.fault(WorkloadFault::NoCommand))
}

fn program(key: &'static str, value: &DeValue<'_>) -> Result<Command, WorkloadFault> {
    const EXPECTED: &str =
        "a list such as [\"sort\", \"-n\"] (for a line that a shell reads there is the key shell)";
    if let DeValue::String(_) = value {
        return Err(WorkloadFault::WrongKind {
            key: key.into(),
            expected: EXPECTED,
            found: "a text",
        });
    }
    let mut args = fields::strings(key, value)?.into_iter();
    match args.next().filter(|program| !program.trim().is_empty()) {
        Some(program) => Ok(Command::Program { program: program.into(), args: args.collect() }),
        None => Err(WorkloadFault::EmptyCommand { key }),
    }
}

fn shell(key: &'static str, value: &DeValue<'_>) -> Result<Command, WorkloadFault> {
    match fields::string(key, value)? {
        line if line.trim().is_empty() => Err(WorkloadFault::EmptyCommand { key }),
        line => Ok(Command::Shell(line)),
    }
}

/// A list, or a text whose words are the list.
fn load(key: &'static str, value: &DeValue<'_>) -> Result<Command, WorkloadFault> {
    let args: Vec<String> = match value {
        DeValue::String(text) => {
            fields::no_nul(key, text)?.split_whitespace().map(str::to_owned).collect()
        }
        other => fields::strings(key, other)?,
    };
    match args.first() {
        None => Err(WorkloadFault::EmptyCommand { key }),
        Some(kind) if LOADS.contains(&kind.as_str()) => Ok(Command::Load(args)),
        Some(kind) => {
            Err(WorkloadFault::NoLoad { found: kind.clone(), nearest: nearest(kind, LOADS) })
        }
    }
}

pub(crate) fn name(key: &'static str, value: &DeValue<'_>) -> Result<String, WorkloadFault> {
    let name = fields::string(key, value)?;
    assemble::check_name(&name).map(|()| name)
}

fn profile(key: &'static str, value: &DeValue<'_>) -> Result<String, WorkloadFault> {
    name(key, value)
}

fn class(key: &'static str, value: &DeValue<'_>) -> Result<Class, WorkloadFault> {
    let refuse = || WorkloadFault::Class { found: fields::shown(value) };
    let DeValue::Integer(number) = value else {
        return Err(fields::wrong(key, "a whole number from 0 to 15", value));
    };
    let number = u8::from_str_radix(number.as_str(), number.radix()).map_err(|_| refuse())?;
    Class::new(number).ok_or_else(refuse)
}

/// A table from classes (and `remote`) to slow-downs.
fn sensitivity(key: &'static str, value: &DeValue<'_>) -> Result<Sensitivity, WorkloadFault> {
    const EXPECTED: &str = "a table such as { 4 = 0.05, 9 = 0.3, remote = 0.2 }";
    let DeValue::Table(table) = value else { return Err(fields::wrong(key, EXPECTED, value)) };
    let mut by_class = Vec::new();
    let mut remote = 0;
    for (name, value) in table.iter() {
        let name: &str = name.get_ref();
        let refuse = || WorkloadFault::Sensitivity {
            found: format!("{name} = {}", fields::shown(value.get_ref())),
        };
        let slowdown = slowdown(value.get_ref()).ok_or_else(refuse)?;
        match name.parse().ok().and_then(Class::new) {
            Some(class) => by_class.push((class, slowdown)),
            None if name == "remote" => remote = slowdown,
            None => return Err(refuse()),
        }
    }
    Ok(Sensitivity::new(by_class, remote))
}

fn slowdown(value: &DeValue<'_>) -> Option<u32> {
    match value {
        DeValue::Float(number) => parse_slowdown(number.as_str()),
        DeValue::Integer(number) => parse_slowdown(&fields::decimal(number)),
        _ => None,
    }
}

fn copies(key: &'static str, value: &DeValue<'_>) -> Result<u32, WorkloadFault> {
    let number = fields::whole(key, value, (1, N_JOBS_MAX as u64), "1 to 100000")?;
    Ok(number as u32)
}

fn threads(key: &'static str, value: &DeValue<'_>) -> Result<u32, WorkloadFault> {
    let number = fields::whole(key, value, (1, u64::from(N_THREADS_MAX)), "1 to 65536")?;
    Ok(number as u32)
}

/// `stop_after` or `restart`, which exclude each other.
fn ending(table: &Fields<'_>) -> Result<Option<Ending>, WorkloadError> {
    let after = table.get("stop_after", fields::length)?.map(Ending::After);
    let again = table.get("restart", restart)?;
    match (after, again) {
        (Some(_), Some(Ending::RestartUntilOthersDone)) => {
            Err(table.fault_at("restart", WorkloadFault::EndsTwice))
        }
        (after, again) => Ok(after.or(again)),
    }
}

fn restart(_key: &'static str, value: &DeValue<'_>) -> Result<Ending, WorkloadFault> {
    match value {
        DeValue::String(text) if text == "until-others-done" => Ok(Ending::RestartUntilOthersDone),
        DeValue::String(text) if text == "no" => Ok(Ending::Exit),
        other => Err(WorkloadFault::Restart { found: fields::shown(other) }),
    }
}

/// A list text such as `0-3,8`, or a bare number for one member.
fn set<T: SetId>(key: &'static str, value: &DeValue<'_>) -> Result<IdSet<T>, WorkloadFault> {
    match value {
        DeValue::Integer(number) => members(key, &fields::decimal(number)),
        other => members(key, &fields::string(key, other)?),
    }
}

fn members<T: SetId>(key: &'static str, text: &str) -> Result<IdSet<T>, WorkloadFault> {
    match text.parse::<IdSet<T>>() {
        Ok(set) if set.is_empty() => Err(WorkloadFault::EmptySet { key }),
        Ok(set) => Ok(set),
        Err(source) => Err(WorkloadFault::Set { key, source }),
    }
}

fn memory(key: &'static str, value: &DeValue<'_>) -> Result<MemoryPolicy, WorkloadFault> {
    let text = fields::string(key, value)?;
    let refuse = || WorkloadFault::Memory { found: text.clone() };
    let (kind, nodes) = text.split_once(':').ok_or_else(refuse)?;
    match kind.trim() {
        "bind" => Ok(MemoryPolicy::Bind(members(key, nodes)?)),
        "preferred" => Ok(MemoryPolicy::Preferred(members(key, nodes)?)),
        "interleave" => Ok(MemoryPolicy::Interleave(members(key, nodes)?)),
        "weighted-interleave" => Ok(MemoryPolicy::WeightedInterleave(members(key, nodes)?)),
        _ => Err(refuse()),
    }
}
