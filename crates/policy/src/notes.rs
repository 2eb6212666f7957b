//! Notes that several policies give: the conditions of placement on this machine.
//!
//! A note is given when its condition holds at the start of a run, and again after the condition changed. The
//! engine prints each sentence once per run.

use sched::{CounterEvent, JobState, Plan, Reason, SignalTier, Snapshot, reasons};
use topology::Level;

use crate::placement::{can_place, n_nodes_with_memory};

reasons! {
    /// Fewer than two CPUs are usable.
    NOTHING_TO_PLACE = "nothing-to-place":
        "only one CPU is usable, so no job is placed";
    /// The machine has no domain of the requested level.
    NO_PLACES = "no-places":
        "the usable CPUs have no {level} domain, so no job is placed";
    /// The usable CPUs changed.
    PLACES_CHANGED = "places-changed":
        "the usable CPUs changed: jobs are placed on {level} domains from now on";
    /// One usable node: placement balances caches or cores.
    MEMORY_GAINS_NOTHING = "memory-gains-nothing":
        "only one node with memory is usable: jobs are placed on {level} domains, and memory placement has no effect";
    /// The kernel migrates pages and tasks too.
    NUMA_BALANCING_ON = "numa-balancing-on":
        "automatic NUMA balancing is enabled and may undo the placement; disable it with sysctl kernel.numa_balancing=0";
    /// Interleaved memory has no home node.
    INTERLEAVED_BY_DEFAULT = "interleaved-by-default":
        "this process interleaves its memory over nodes, and its jobs inherit that: placement near memory has no effect";
    /// Memory policies are applied only where domains are nodes.
    MEMORY_NOT_BOUND = "memory-not-bound":
        "jobs are placed on {level} domains, and memory is bound only where domains are nodes: pages stay on the node of their first touch";
    /// Loads are unknown; jobs are spread by number.
    LOADS_UNKNOWN = "loads-unknown":
        "no memory counter is readable and no job has a class: all loads count as 0, jobs are spread by domain number at start, and none migrates";
    /// Loads are unknown; jobs start on the first domain.
    LOADS_UNKNOWN_LOWEST = "loads-unknown-lowest":
        "no memory counter is readable and no job has a class: all loads count as 0, every job starts on the usable domain with the lowest number, and none migrates";
    /// The run ends: misses and instructions are unknown.
    RATES_UNREADABLE = "rates-unreadable":
        "cache misses and instructions of tasks were neither counted nor declared for {n_failures} intervals in a row: `evenkeel machine` lists the readable counters";
    /// A job takes a less crowded core of its domain.
    OWN_CORE = "own-core":
        "the job shared a core, and {cpus} had fewer jobs in {domain}";
}

/// The conditions that notes are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Conditions {
    can_place: bool,
    level: Level,
    one_memory: bool,
}

/// Gives notes about domains and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MachineNotes {
    noted: Option<Conditions>,
}

impl MachineNotes {
    /// Notes about domains and memory; whether any condition changed.
    pub fn add(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) -> bool {
        let has_changed = self.add_domains(seen, plan);
        if has_changed && can_place(seen) {
            match n_nodes_with_memory(seen) < 2 {
                true => {
                    let level = seen.domains.level().to_string();
                    plan.note(Reason::new(MEMORY_GAINS_NOTHING).with("level", level));
                }
                false => {
                    add_numa_balancing(seen, plan);
                    if seen.numa_settings.interleaves {
                        plan.note(Reason::new(INTERLEAVED_BY_DEFAULT));
                    }
                }
            }
        }
        has_changed
    }

    /// The same for a policy about caches: of the memory conditions, only NUMA balancing matters.
    pub fn add_for_caches(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        if self.add_domains(seen, plan) && can_place(seen) && 2 <= n_nodes_with_memory(seen) {
            add_numa_balancing(seen, plan);
        }
    }

    /// The same for a policy to which memory does not matter.
    pub fn add_domains(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) -> bool {
        let level = seen.domains.level();
        let one_memory = n_nodes_with_memory(seen) < 2;
        let conditions = Conditions { can_place: can_place(seen), level, one_memory };
        if self.noted == Some(conditions) {
            return false;
        }
        let is_first = self.noted.replace(conditions).is_none();
        match nothing_to_place(seen) {
            Some(note) => plan.note(note),
            None if !is_first => {
                plan.note(Reason::new(PLACES_CHANGED).with("level", level.to_string()));
            }
            None => {}
        }
        true
    }
}

fn add_numa_balancing(seen: &Snapshot<'_>, plan: &mut Plan) {
    if seen.numa_settings.numa_balancing {
        plan.note(Reason::new(NUMA_BALANCING_ON));
    }
}

/// The note that no job can be placed, if none can.
pub(crate) fn nothing_to_place(seen: &Snapshot<'_>) -> Option<Reason> {
    if seen.usable_cpus.len() <= 1 {
        return Some(Reason::new(NOTHING_TO_PLACE));
    }
    let level = seen.domains.level().to_string();
    seen.domains.is_empty().then(|| Reason::new(NO_PLACES).with("level", level))
}

/// Intervals in a row without misses or instructions of tasks.
#[derive(Debug, Default)]
pub(crate) struct RateFailures {
    n_failures: u64,
}

impl RateFailures {
    /// Ends the run after `limit` intervals in a row in which tasks ran and neither counters nor profiles gave
    /// their misses and instructions: the policy has no other input.
    pub fn check(&mut self, limit: u64, seen: &Snapshot<'_>, plan: &mut Plan) {
        let runs = seen.jobs.iter().any(|job| job.state == JobState::Running && job.n_tasks != 0);
        let is_unknown = |event| seen.tiers.get(event) == SignalTier::None;
        let is_unreadable =
            is_unknown(CounterEvent::Instructions) || is_unknown(CounterEvent::LlcMisses);
        if !runs || !is_unreadable {
            self.n_failures = 0;
            return;
        }
        self.n_failures += 1;
        if limit <= self.n_failures {
            plan.abort = Some(Reason::new(RATES_UNREADABLE).with("n_failures", self.n_failures));
        }
    }
}
