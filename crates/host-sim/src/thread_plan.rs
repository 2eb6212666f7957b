//! The plan of a job with threads that wait for each other: the work of each thread in each section.
//!
//! ```text
//!   group 1 (phase 1 of the profile)                group 2 (phase 2)
//!   ├─ round 1: section 1 │ section 2 │             ├─ round 1: …
//!   └─ round 2: section 1 │ section 2 │                           │  all threads wait for each other
//! ```
//!
//! The instructions of a phase are divided among the parts that execute it, in proportion to their work. If the parts
//! name phases, there is one group.

use program::{Section, Sections, WorkPart};

/// Sections of a job by group.
#[derive(Clone, Debug, Default)]
pub struct ThreadPlan {
    /// Number of repetitions of the sections of each group.
    rounds: u32,
    groups: Vec<PlanGroup>,
}

/// Sections with one memory footprint.
#[derive(Clone, Debug)]
struct PlanGroup {
    footprint: u64,
    sections: Vec<PlanSection>,
}

/// A section at whose end all threads of the job wait for each other.
#[derive(Clone, Debug)]
pub struct PlanSection {
    /// Part of each thread that takes part in the section, by thread.
    pub parts: Vec<PlanPart>,
    /// Number of times that each thread executes its part.
    pub items: u32,
    /// Capacity of the queue between two threads of a pipeline; absent for a team.
    pub queue: Option<u32>,
}

/// Work of a thread for one item.
#[derive(Clone, Copy, Debug)]
pub struct PlanPart {
    /// Index of the phase in the script.
    pub phase: usize,
    /// Instructions.
    pub instructions: f64,
}

/// A position in a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanPosition {
    /// Index of the group.
    pub group: usize,
    round: u32,
    section: usize,
}

impl ThreadPlan {
    /// Returns the plan for phases with these instructions of all threads together, and with these footprints in bytes.
    ///
    /// # Errors
    /// Returns an error if the sections name a phase that does not exist, or if they do not execute a phase.
    pub fn new(sections: &Sections, phases: &[(f64, u64)], n_threads: u32) -> Result<Self, String> {
        check_phases(sections, phases.len())?;
        let group = |only: Option<usize>| {
            let phase_of = |part: &WorkPart| named_phase(part).or(only).unwrap_or(0);
            let per_work = |phase: usize| {
                let works = all_parts(sections).filter(|part| phase_of(part) == phase);
                let works = works.map(|part| f64::from(part.work)).sum::<f64>();
                phases[phase].0 / f64::from(sections.rounds) / works.max(1.0)
            };
            let plan_part = |part: &WorkPart, n: u32| {
                let phase = phase_of(part);
                let instructions = per_work(phase) * f64::from(part.work) / f64::from(n);
                PlanPart { phase, instructions }
            };
            let plan_section = |section: &Section| match section {
                Section::Team { part, .. } => {
                    let n = section.n_threads(n_threads);
                    PlanSection {
                        parts: vec![plan_part(part, n); n as usize],
                        items: 1,
                        queue: None,
                    }
                }
                Section::UnlikeTeam { parts } => PlanSection {
                    parts: parts.iter().map(|part| plan_part(part, 1)).collect(),
                    items: 1,
                    queue: None,
                },
                Section::Pipeline { stages, items, queue } => PlanSection {
                    parts: stages.iter().map(|stage| plan_part(stage, *items)).collect(),
                    items: *items,
                    queue: Some(*queue),
                },
            };
            PlanGroup {
                footprint: phases[only.unwrap_or(0)].1,
                sections: sections.sections.iter().map(plan_section).collect(),
            }
        };
        let groups = match sections.names_phases() {
            true => vec![group(None)],
            false => (0..phases.len()).map(|phase| group(Some(phase))).collect(),
        };
        Ok(ThreadPlan { rounds: sections.rounds, groups })
    }

    /// Returns the section at a position.
    pub fn section(&self, at: PlanPosition) -> &PlanSection {
        &self.groups[at.group].sections[at.section]
    }

    /// Returns the memory of the job at a position, in bytes.
    pub fn footprint(&self, at: PlanPosition) -> u64 {
        self.groups[at.group].footprint
    }

    /// Returns the position of the next section; `None` after the last one.
    pub fn next(&self, at: PlanPosition) -> Option<PlanPosition> {
        let PlanPosition { group, round, section } = at;
        if section + 1 < self.groups[group].sections.len() {
            Some(PlanPosition { section: section + 1, ..at })
        } else if round + 1 < self.rounds {
            Some(PlanPosition { group, round: round + 1, section: 0 })
        } else {
            let next = PlanPosition { group: group + 1, round: 0, section: 0 };
            Some(next).filter(|next| next.group < self.groups.len())
        }
    }

    /// Returns the instructions of a thread. `each` returns those of a part at the random length of its phase, from the
    /// phase and the instructions of the part.
    pub fn instructions(&self, thread: usize, each: impl Fn(usize, f64) -> f64) -> f64 {
        let of_section = |section: &PlanSection| {
            let of_item = |part: &PlanPart| each(part.phase, part.instructions);
            section.parts.get(thread).map_or(0.0, of_item) * f64::from(section.items)
        };
        let sections = self.groups.iter().flat_map(|group| &group.sections);
        sections.map(of_section).sum::<f64>() * f64::from(self.rounds)
    }

    /// Returns a lower bound of the time in nanoseconds: the sum of the longest thread of each section. `ns_per_1000`
    /// returns the nanoseconds per 1000 instructions of a phase.
    pub fn path_ns(&self, ns_per_1000: impl Fn(usize) -> f64) -> f64 {
        let of_section = |section: &PlanSection| {
            let ns = |part: &PlanPart| part.instructions / 1000.0 * ns_per_1000(part.phase);
            section.parts.iter().map(ns).fold(0.0, f64::max) * f64::from(section.items)
        };
        let sections = self.groups.iter().flat_map(|group| &group.sections);
        sections.map(of_section).sum::<f64>() * f64::from(self.rounds)
    }
}

fn all_parts(sections: &Sections) -> impl Iterator<Item = &WorkPart> {
    sections.sections.iter().flat_map(Section::parts)
}

/// Returns the index of the phase that a part names.
fn named_phase(part: &WorkPart) -> Option<usize> {
    part.phase.map(|phase| phase as usize - 1)
}

/// Checks that all named phases exist, and that the sections execute all phases if they name any.
fn check_phases(sections: &Sections, n_phases: usize) -> Result<(), String> {
    let named = || all_parts(sections).filter_map(named_phase);
    if let Some(phase) = named().find(|phase| n_phases <= *phase) {
        let has = base::counted_noun(n_phases as u64, "phase");
        return Err(format!("a section executes phase {}, the profile has {has}", phase + 1));
    }
    let is_executed = |phase| named().any(|named| named == phase);
    match (0..n_phases).find(|&phase| sections.names_phases() && !is_executed(phase)) {
        Some(phase) => {
            Err(format!("no section executes phase {} of the profile; add one", phase + 1))
        }
        None => Ok(()),
    }
}
