//! Sections of a parallel program: threads that wait for each other, for simulated runs.
//!
//! ```text
//!   thread 0  ██████ ██████·· ████ ██████·        ·  waits for the other threads
//!   thread 1  ······ ████████ ···· ███████
//!            serial   team   serial  team          the sections in order, repeated `rounds` times
//! ```
//!
//! At the end of a section, all threads of the job wait for each other (fork and join, or a barrier). In a team, the
//! threads divide the work equally, or each thread has its own work. In a pipeline, each stage is a thread, and a bounded queue is between two stages. A
//! pipeline has no cycle, and no queue has a capacity of 0, so that no workload deadlocks. With as many items as stages
//! and queues for all items, a pipeline is the wavefront of a square grid, in which each cell needs its neighbours in
//! the previous row and column.

use base::toml_reader::{TomlFault, TomlTable, Value, integer, wrong_type};

use crate::WorkloadError;
use crate::error::{N_THREADS_MAX, WorkloadFault};

/// The sections of a job, which are executed in order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sections {
    /// Number of repetitions of the sections; at least 1.
    pub rounds: u32,
    /// The sections; at least one.
    pub sections: Vec<Section>,
}

/// A section of a parallel program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// Threads that divide the work equally.
    Team {
        /// Number of threads; absent: all threads of the job.
        threads: Option<u32>,
        /// Work of all threads together.
        part: WorkPart,
    },
    /// Threads with a work each.
    UnlikeTeam {
        /// Work of each thread.
        parts: Vec<WorkPart>,
    },
    /// Threads that pass items from one to the next.
    Pipeline {
        /// Work of each stage for all items; at least two stages.
        stages: Vec<WorkPart>,
        /// Number of items that pass the stages in each round.
        items: u32,
        /// Capacity of each queue between two stages in items; at least 1.
        queue: u32,
    },
}

/// A part of the work of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkPart {
    /// Work relative to the other parts.
    pub work: u32,
    /// Number of the phase of the profile that the part executes, from 1. Absent: the sections are executed in every
    /// phase.
    pub phase: Option<u32>,
}

impl Sections {
    /// Returns whether the sections name the phases of the profile that they execute.
    pub fn names_phases(&self) -> bool {
        self.sections.iter().flat_map(Section::parts).any(|part| part.phase.is_some())
    }
}

impl Section {
    /// Returns the number of threads of the section in a job with this number of threads.
    pub fn n_threads(&self, n_job: u32) -> u32 {
        match self {
            Section::Team { threads, .. } => threads.unwrap_or(n_job),
            Section::UnlikeTeam { parts } => parts.len() as u32,
            Section::Pipeline { stages, .. } => stages.len() as u32,
        }
    }

    /// Returns the parts of the work.
    pub fn parts(&self) -> &[WorkPart] {
        match self {
            Section::Team { part, .. } => std::slice::from_ref(part),
            Section::UnlikeTeam { parts } => parts,
            Section::Pipeline { stages, .. } => stages,
        }
    }

    /// Returns the number of times that a thread of the job executes a part of the section in one round.
    fn n_executions(&self, n_job: u32) -> u64 {
        match self {
            Section::Team { .. } | Section::UnlikeTeam { .. } => u64::from(self.n_threads(n_job)),
            Section::Pipeline { stages, items, .. } => stages.len() as u64 * u64::from(*items),
        }
    }
}

/// Keys of a section.
const SECTION_KEYS: &[&str] = &["threads", "work", "phase", "stages", "phases", "items", "queue"];

/// Maximum of `rounds`, `items`, `queue` and a work. A larger number is probably a typing error.
const NUMBER_MAX: u64 = 1_000_000;
/// Maximum number of parts that all threads of a job execute. Each is an event of the simulator.
const N_EXECUTIONS_MAX: u64 = 10_000_000;

/// Reads the sections of a job.
pub(crate) fn sections(table: &TomlTable<'_>) -> Result<Option<Sections>, WorkloadError> {
    let rounds = table.get("rounds", number)?;
    if !table.has("section") {
        return match rounds {
            Some(_) => Err(table.error_in("rounds", WorkloadFault::RoundsWithoutSection)),
            None => Ok(None),
        };
    }
    let tables = table.tables("section", "a section", SECTION_KEYS)?;
    let sections: Vec<Section> = tables.iter().map(section).collect::<Result<_, _>>()?;
    let parts = || sections.iter().flat_map(Section::parts);
    if parts().any(|part| part.phase.is_some()) && parts().any(|part| part.phase.is_none()) {
        return Err(table.error_in("section", WorkloadFault::SomePhases));
    }
    match sections.is_empty() {
        true => Err(table.error_in("section", WorkloadFault::NoSection)),
        false => Ok(Some(Sections { rounds: rounds.unwrap_or(1), sections })),
    }
}

fn section(table: &TomlTable<'_>) -> Result<Section, WorkloadError> {
    let of_pipeline = ["items", "queue"];
    if table.has("stages") {
        return pipeline(table);
    }
    if let Some(key) = of_pipeline.into_iter().find(|key| table.has(key)) {
        return Err(table.error_in(key, WorkloadFault::KeyWithoutStages(key)));
    }
    match table.get("work", work)? {
        Some(Work::OfEachThread(works)) => {
            match ["threads", "phase"].iter().find(|key| table.has(key)) {
                Some(key) => Err(table.error_in(key, WorkloadFault::KeyWithWorks(key))),
                None => Ok(Section::UnlikeTeam { parts: parts(table, works)? }),
            }
        }
        Some(Work::OfAll(_)) | None if table.has("phases") => {
            Err(table.error_in("phases", WorkloadFault::PhasesOfTeam))
        }
        of_all => Ok(Section::Team {
            threads: table.get("threads", number)?,
            part: WorkPart {
                work: if let Some(Work::OfAll(work)) = of_all { work } else { 1 },
                phase: table.get("phase", number)?,
            },
        }),
    }
}

fn pipeline(table: &TomlTable<'_>) -> Result<Section, WorkloadError> {
    if let Some(key) = ["threads", "work", "phase"].into_iter().find(|key| table.has(key)) {
        return Err(table.error_in(key, WorkloadFault::KeyWithStages(key)));
    }
    let works = table.require("stages", "stages = [1, 1]", numbers)?;
    if works.len() < 2 {
        return Err(table.error_in("stages", WorkloadFault::OneStage));
    }
    Ok(Section::Pipeline {
        stages: parts(table, works)?,
        items: table.require("items", "items = 1000", number)?,
        queue: table.require("queue", "queue = 4", number)?,
    })
}

/// Returns the parts with these works and the phases of the key `phases`.
fn parts(table: &TomlTable<'_>, works: Vec<u32>) -> Result<Vec<WorkPart>, WorkloadError> {
    let phases = table.get("phases", numbers)?;
    if phases.as_ref().is_some_and(|phases| phases.len() != works.len()) {
        return Err(table.error_in("phases", WorkloadFault::PhasesOfParts(works.len())));
    }
    let part = |(idx, work)| WorkPart { work, phase: phases.as_ref().map(|phases| phases[idx]) };
    Ok(works.into_iter().enumerate().map(part).collect())
}

/// Checks the sections of a job against its number of threads.
pub(crate) fn check(
    table: &TomlTable<'_>,
    sections: Option<&Sections>,
    threads: u32,
) -> Result<(), WorkloadError> {
    let Some(Sections { rounds, sections }) = sections else { return Ok(()) };
    let reject = |fault| Err(table.error_in("section", fault));
    let most = sections.iter().map(|section| section.n_threads(threads)).max().unwrap_or(0);
    let n = sections.iter().map(|section| section.n_executions(threads)).sum::<u64>();
    match threads {
        1 => reject(WorkloadFault::SectionsOfOneThread),
        _ if threads < most => reject(WorkloadFault::SectionThreads { most, threads }),
        _ if most < threads => reject(WorkloadFault::UnusedThreads { most, threads }),
        _ if N_EXECUTIONS_MAX < n.saturating_mul(u64::from(*rounds)) => {
            reject(WorkloadFault::TooManyParts)
        }
        _ => Ok(()),
    }
}

fn number(key: &'static str, value: &Value<'_>) -> Result<u32, WorkloadFault> {
    let (max, range) = match key {
        "threads" => (u64::from(N_THREADS_MAX), "1 to 65536"),
        _ => (NUMBER_MAX, "1 to 1000000"),
    };
    Ok(integer(key, value, (1, max), range)? as u32)
}

/// Value of the key `work`.
enum Work {
    OfAll(u32),
    OfEachThread(Vec<u32>),
}

fn work(key: &'static str, value: &Value<'_>) -> Result<Work, WorkloadFault> {
    match value {
        Value::Array(array) if array.is_empty() => Err(WorkloadFault::NoWork),
        Value::Array(_) => Ok(Work::OfEachThread(numbers(key, value)?)),
        _ => Ok(Work::OfAll(number(key, value)?)),
    }
}

fn numbers(key: &'static str, value: &Value<'_>) -> Result<Vec<u32>, WorkloadFault> {
    let Value::Array(array) = value else {
        return Err(
            wrong_type::<TomlFault>(key, "an array of integers such as [1, 3]", value).into()
        );
    };
    array.iter().map(|entry| number(key, entry.get_ref())).collect()
}

/// Returns the keys of a job with sections as TOML.
pub(crate) fn to_toml(sections: &Sections) -> [(&'static str, Option<String>); 2] {
    let list: Vec<String> = sections.sections.iter().map(section_text).collect();
    [
        ("rounds", (sections.rounds != 1).then(|| sections.rounds.to_string())),
        ("section", Some(format!("[{}]", list.join(", ")))),
    ]
}

fn section_text(section: &Section) -> String {
    let list = |values: Vec<u32>| {
        let values: Vec<String> = values.iter().map(u32::to_string).collect();
        format!("[{}]", values.join(", "))
    };
    let works =
        |key, parts: &[WorkPart]| (key, Some(list(parts.iter().map(|part| part.work).collect())));
    let phases = |parts: &[WorkPart]| {
        let phases: Option<Vec<u32>> = parts.iter().map(|part| part.phase).collect();
        ("phases", phases.map(list))
    };
    let keys = match section {
        Section::Team { threads, part } => vec![
            ("threads", threads.map(|threads| threads.to_string())),
            ("work", Some(part.work.to_string())),
            ("phase", part.phase.map(|phase| phase.to_string())),
        ],
        Section::UnlikeTeam { parts } => vec![works("work", parts), phases(parts)],
        Section::Pipeline { stages, items, queue } => vec![
            works("stages", stages),
            phases(stages),
            ("items", Some(items.to_string())),
            ("queue", Some(queue.to_string())),
        ],
    };
    let keys = keys.into_iter().filter_map(|(key, value)| Some(format!("{key} = {}", value?)));
    format!("{{ {} }}", keys.collect::<Vec<_>>().join(", "))
}
