//! Placement on CPUs of unlike capacity, in Linux 6.18.
//!
//! ```text
//!   with SMT      asymmetric packing   an idle core pulls the running task of a core of lower capacity
//!   without SMT   asymmetric capacity  an idle CPU pulls the running task of a CPU of lower capacity (misfit);
//!                                      a task wakes up on the idle CPU of the highest capacity
//! ```
//!
//! A machine file does not contain the rule that the kernel selects. On x86, the kernel packs by the priorities of the
//! cores (`SD_ASYM_PACKING`, ITMT), but if SMT is off or absent, it uses capacities (`hybrid_init_cpu_capacity_scaling`
//! in `drivers/cpufreq/intel_pstate.c`). On Arm, CPUs of unlike capacity have no SMT, and the kernel uses capacities
//! (`SD_ASYM_CPUCAPACITY`). So the presence of SMT siblings decides. The priority of a core is its capacity. SMT
//! siblings have the same priority (since Linux 6.5).
//!
//! Linux 4.2 and 2.6.27 treat all CPUs as equal: asymmetric capacity came with Linux 4.10, and asymmetric packing of
//! x86 cores with Linux 4.10 (4.2 packs only SMT siblings of POWER7).
//!
//! The rules are those of `sched_group_asym`, `asym_active_balance`, `update_misfit_status` and
//! `select_idle_capacity` in `kernel/sched/fair.c`. Assumed: a task uses more than four fifths of each CPU but the
//! fastest, so that it is a misfit on all others. Out of scope: energy-aware scheduling, utilization clamping.

use super::{KernelModel, KernelVersion, RunQueues, TaskPull};
use crate::hardware::{Hardware, HardwareCpu};

/// The rule for CPUs of unlike capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnlikeCpus {
    /// All CPUs have the same capacity, or the kernel treats them as equal.
    Equal,
    /// Cores of higher capacity are used first (`SD_ASYM_PACKING`).
    Packing,
    /// Tasks that need more than the capacity of their CPU migrate (`SD_ASYM_CPUCAPACITY`).
    Capacity,
}

impl UnlikeCpus {
    /// Returns the rule of a kernel version on a machine.
    pub fn new(version: KernelVersion, hardware: &Hardware) -> Self {
        let capacities = || hardware.cpus.iter().map(|cpu| cpu.capacity);
        if version != KernelVersion::V6_18 || capacities().min() == capacities().max() {
            return UnlikeCpus::Equal;
        }
        match hardware.cores.iter().any(|core| 1 < core.len()) {
            true => UnlikeCpus::Packing,
            false => UnlikeCpus::Capacity,
        }
    }
}

/// Returns whether each node has CPUs of all capacities of the machine.
pub(super) fn nodes_with_all_capacities(hardware: &Hardware) -> Vec<bool> {
    let distinct = |cpus: &mut dyn Iterator<Item = &HardwareCpu>| {
        let mut capacities: Vec<u32> = cpus.map(|cpu| cpu.capacity).collect();
        capacities.sort_unstable();
        capacities.dedup();
        capacities.len()
    };
    let n_all = distinct(&mut hardware.cpus.iter());
    let n_of = |cpus: &[usize]| distinct(&mut cpus.iter().map(|&cpu| &hardware.cpus[cpu]));
    hardware.nodes.iter().map(|node| n_of(&node.cpus) == n_all).collect()
}

/// Returns whether a capacity is clearly higher than another, by more than 5 % (`capacity_greater`).
fn is_greater(capacity: u32, other: u32) -> bool {
    other * 1078 < capacity * 1024
}

impl KernelModel {
    /// Returns the CPUs among which unlike CPUs are compared: for packing, the CPUs of the node; for capacities, the
    /// node if it has CPUs of all capacities, else the machine.
    pub(super) fn unlike_span(&self, cpu: usize) -> &[usize] {
        let node = self.hardware.cpus[cpu].node;
        let spans_machine = self.unlike == UnlikeCpus::Capacity && !self.has_all_capacities[node];
        if spans_machine { &self.all_cpus } else { &self.hardware.nodes[node].cpus }
    }

    /// Returns a pull of a running task to the idle CPU `idle` from the busy CPU of the lowest capacity.
    pub fn pull_to_larger(&self, idle: usize, queues: &dyn RunQueues) -> Option<TaskPull> {
        let is_candidate = match self.unlike {
            UnlikeCpus::Equal => false,
            UnlikeCpus::Packing => self.is_core_idle(idle),
            UnlikeCpus::Capacity => true,
        };
        if !is_candidate {
            return None;
        }
        let sources = self.unlike_span(idle).iter().copied();
        let sources = sources.filter(|&from| 0 < self.load.n_runnable[from]);
        let pulls = sources.filter(|&from| self.is_better(idle, from)).map(|from| TaskPull {
            from,
            to: idle,
            running_too: true,
            ..TaskPull::default()
        });
        let pulls = pulls.filter(|&pull| queues.movable(pull).is_some());
        pulls.min_by_key(|pull| (self.hardware.cpus[pull.from].capacity, pull.from))
    }

    /// Returns whether the idle CPU `to` is better for the running task of CPU `from` because of its capacity. For
    /// packing, a core with several busy siblings is compared by its number of tasks, not by its capacity.
    fn is_better(&self, to: usize, from: usize) -> bool {
        let [to, from] = [to, from].map(|cpu| &self.hardware.cpus[cpu]);
        match self.unlike {
            UnlikeCpus::Equal => false,
            UnlikeCpus::Packing => from.capacity < to.capacity && self.has_one_busy_cpu(from),
            UnlikeCpus::Capacity => is_greater(to.capacity, from.capacity),
        }
    }

    /// Returns whether load balancing may move the only task of CPU `from` to `to` (`sched_balance_find_src_rq`).
    pub(super) fn may_move_running(&self, from: usize, to: usize) -> bool {
        let [source, target] = [from, to].map(|cpu| &self.hardware.cpus[cpu]);
        match self.unlike {
            UnlikeCpus::Equal => true,
            UnlikeCpus::Packing => {
                source.capacity <= target.capacity || !self.has_one_busy_cpu(source)
            }
            UnlikeCpus::Capacity => self.is_better(to, from),
        }
    }

    fn has_one_busy_cpu(&self, cpu: &HardwareCpu) -> bool {
        self.load.cores[cpu.core].n_busy() == 1
    }

    /// Returns the first pull of a running task to a CPU of higher capacity.
    pub(super) fn pull_any_to_larger(&self, queues: &dyn RunQueues) -> Option<TaskPull> {
        if self.unlike == UnlikeCpus::Equal {
            return None;
        }
        let is_idle = |cpu: &usize| self.online[*cpu] && self.load.n_runnable[*cpu] == 0;
        let mut idle: Vec<usize> = (0..self.hardware.cpus.len()).filter(is_idle).collect();
        idle.sort_by_key(|&cpu| (std::cmp::Reverse(self.hardware.cpus[cpu].capacity), cpu));
        idle.into_iter().find_map(|cpu| self.pull_to_larger(cpu, queues))
    }
}
