//! Notes of several policies about the conditions of placement on this machine.
//!
//! A note is added when its condition holds at the start of a run, and again after the condition changed. The engine
//! prints each sentence once per run.

use sched::{CounterEvent, JobState, Plan, Reason, SignalTier, Snapshot, reasons};
use topology::Level;

use crate::Params;
use crate::placement::{can_place, n_nodes_with_memory};

reasons! {
    /// Fewer than two CPUs are usable.
    NOTHING_TO_PLACE = "nothing-to-place":
        "only one CPU is usable, so no job is placed";
    /// The machine has no domain of the requested level.
    NO_DOMAINS = "no-domains":
        "the usable CPUs have no {level} domain, so no job is placed";
    /// The usable CPUs changed.
    DOMAINS_CHANGED = "domains-changed":
        "the usable CPUs changed: jobs are placed on {level} domains from now on";
    /// Only one node with memory is usable: placement balances caches or cores.
    MEMORY_GAINS_NOTHING = "memory-gains-nothing":
        "only one node with memory is usable: jobs are placed on {level} domains, and memory placement has no effect";
    /// The kernel migrates pages and tasks too.
    NUMA_BALANCING_ON = "numa-balancing-on":
        "automatic NUMA balancing is enabled and may undo the placement; to disable it, use sysctl kernel.numa_balancing=0 on a live host and --numa-balancing off on a simulated one";
    /// Interleaved memory has no home node.
    INTERLEAVED_BY_DEFAULT = "interleaved-by-default":
        "this process interleaves its memory over nodes, and its jobs inherit this memory policy: placement near memory has no effect";
    /// Memory policies are applied only if domains are nodes.
    MEMORY_NOT_BOUND = "memory-not-bound":
        "jobs are placed on {level} domains, and memory is bound only where domains are nodes: pages stay on the node of their first touch";
    /// Loads are unknown; jobs are spread evenly over the domains.
    LOADS_UNKNOWN = "loads-unknown":
        "no memory counter is readable and no job has a class: all loads count as 0, jobs are spread evenly over the domains at start, and none migrates";
    /// Loads are unknown; jobs start on the first domain.
    LOADS_UNKNOWN_LOWEST = "loads-unknown-lowest":
        "no memory counter is readable and no job has a class: all loads count as 0, every job starts on the usable domain with the lowest number, and none migrates";
    /// The run ends: misses and instructions are unknown.
    RATES_UNREADABLE = "rates-unreadable":
        "cache misses and instructions of tasks were neither counted nor declared for {n_failures} intervals in a row: `evenkeel machine` lists the readable counters";
    /// A job that stays on its domain gets a core with fewer jobs.
    OWN_CORE = "own-core":
        "the job shared a core, and {cpus} had fewer jobs in {domain}";
}

/// The conditions that cause notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NotedConditions {
    can_place: bool,
    level: Level,
    one_memory: bool,
}

/// The conditions of the notes about domains and memory in earlier turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MachineNotes {
    noted: Option<NotedConditions>,
}

impl MachineNotes {
    /// Adds notes about domains and memory. Returns whether a condition changed.
    pub fn add(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) -> bool {
        let has_changed = self.add_domains(snapshot, plan);
        if has_changed && can_place(snapshot) {
            match n_nodes_with_memory(snapshot) < 2 {
                true => {
                    let level = snapshot.domains.level().to_string();
                    plan.note(Reason::new(MEMORY_GAINS_NOTHING).with("level", level));
                }
                false => {
                    add_numa_balancing(snapshot, plan);
                    if snapshot.numa_settings.interleaves {
                        plan.note(Reason::new(INTERLEAVED_BY_DEFAULT));
                    }
                }
            }
        }
        has_changed
    }

    /// Adds notes for policies that distribute jobs over caches: as [`MachineNotes::add`], but NUMA balancing is the
    /// only memory condition.
    pub fn add_for_caches(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        if self.add_domains(snapshot, plan)
            && can_place(snapshot)
            && 2 <= n_nodes_with_memory(snapshot)
        {
            add_numa_balancing(snapshot, plan);
        }
    }

    /// Adds notes for policies that do not depend on memory: as [`MachineNotes::add`], but without the memory
    /// conditions.
    pub fn add_domains(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) -> bool {
        let level = snapshot.domains.level();
        let one_memory = n_nodes_with_memory(snapshot) < 2;
        let conditions = NotedConditions { can_place: can_place(snapshot), level, one_memory };
        if self.noted == Some(conditions) {
            return false;
        }
        let is_first = self.noted.replace(conditions).is_none();
        match nothing_to_place(snapshot) {
            Some(note) => plan.note(note),
            None if !is_first => {
                plan.note(Reason::new(DOMAINS_CHANGED).with("level", level.to_string()));
            }
            None => {}
        }
        true
    }
}

fn add_numa_balancing(snapshot: &Snapshot<'_>, plan: &mut Plan) {
    if snapshot.numa_settings.numa_balancing {
        plan.note(Reason::new(NUMA_BALANCING_ON));
    }
}

/// Returns the note that no job can be placed; `None` if jobs can be placed.
pub(crate) fn nothing_to_place(snapshot: &Snapshot<'_>) -> Option<Reason> {
    if snapshot.usable_cpus.len() <= 1 {
        return Some(Reason::new(NOTHING_TO_PLACE));
    }
    let level = snapshot.domains.level().to_string();
    snapshot.domains.is_empty().then(|| Reason::new(NO_DOMAINS).with("level", level))
}

/// Number of intervals in a row without misses or instructions of tasks.
#[derive(Debug)]
pub(crate) struct RateFailures {
    limit: u64,
    n_failures: u64,
}

impl RateFailures {
    /// Creates the counter of a policy with the parameter `failures`.
    pub fn new(params: &Params<'_>) -> Self {
        RateFailures { limit: params.get("failures"), n_failures: 0 }
    }

    /// Aborts the run after `failures` intervals in a row in which tasks ran and neither counters nor profiles provided
    /// their misses and instructions. The policy has no other input.
    pub fn check(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        let runs =
            snapshot.jobs.iter().any(|job| job.state == JobState::Running && job.n_tasks != 0);
        let is_unknown = |event| snapshot.tiers.get(event) == SignalTier::None;
        let is_unreadable =
            is_unknown(CounterEvent::Instructions) || is_unknown(CounterEvent::LlcMisses);
        if !runs || !is_unreadable {
            self.n_failures = 0;
            return;
        }
        self.n_failures += 1;
        if self.limit <= self.n_failures {
            plan.abort = Some(Reason::new(RATES_UNREADABLE).with("n_failures", self.n_failures));
        }
    }
}
