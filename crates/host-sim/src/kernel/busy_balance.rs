//! Load balancing among busy CPUs. Tasks on shared CPUs migrate, so that each task runs alone on a CPU for a part of
//! the time.
//!
//! ```text
//!   two CPUs, three tasks      cpu 0  a b    a b ─b has waited longest─►  a      ─►  c a  …
//!                              cpu 1  c                                   c b        b
//! ```
//!
//! In this example, no CPU is idle, and a migration changes only which tasks share a CPU. The kernel balances anyway.
//! A busy CPU balances sixteen times less often than an idle CPU (`busy_factor`). If the load of its group is below
//! the average, the CPU pulls a task from a group above the average. The load that may be moved is the smaller of
//! both distances from the average. The load of a task is usually larger. The kernel therefore halves the load of a
//! task after every failed attempt (`detach_tasks`: shifted by `nr_balance_failed`) until a task can be moved.
//!
//! Older kernels move one task unless the migration would reverse the imbalance (`fix_small_imbalance`). The result
//! is the same without the delay.
//!
//! Out of scope: cache-hot tasks (`sched_migration_cost`), and overlapping groups on machines with several node
//! distances.

use std::borrow::Cow;

use topology::CAPACITY_MAX;

use super::{
    Allowed, KeptTasks, KernelModel, KernelVersion, RunQueues, TaskPull, UnlikeCpus, ring_distance,
};
use crate::hardware::Hardware;

/// A scheduling domain and its groups.
#[derive(Clone, Debug)]
pub(super) struct BusyDomain {
    /// CPUs of each group.
    groups: Vec<Vec<usize>>,
    /// Number of consecutive failed attempts of each group (`nr_balance_failed`).
    failed: Vec<u32>,
    /// Nanoseconds between two attempts of a busy CPU.
    period_ns: u64,
    /// Whether the groups are nodes (`SD_NUMA`).
    is_numa: bool,
}

/// Milliseconds between two attempts of a busy CPU, per CPU of the domain. In the kernel, `get_sd_balance_interval`
/// multiplies the number of CPUs of the domain by `busy_factor`.
const BUSY_MS_PER_CPU: u64 = 16;
/// A group is busier than the local group if its load is above this percentage of the local load (`imbalance_pct`).
/// Since Linux 5.5, this rule applies only between overloaded groups. Older kernels apply it to all groups, with 125.
const BUSIER_PERCENT: u64 = 117;
const BUSIER_PERCENT_BEFORE_5_5: u64 = 125;
/// Load of a task (`NICE_0_LOAD`).
const TASK_LOAD: u64 = 1024;
/// Capacity of a CPU if all CPUs are equal.
const CAPACITY: u64 = CAPACITY_MAX as u64;

/// Returns the domains: CPUs of each cache, caches of each node, nodes of the machine.
pub(super) fn domains(hardware: &Hardware) -> Vec<BusyDomain> {
    let of_cache = |cache: usize| hardware.caches[cache].cpus.clone();
    let node_of =
        |cache: usize| hardware.caches[cache].cpus.first().map(|&c| hardware.cpus[c].node);
    let caches = (0..hardware.caches.len())
        .map(|cache| of_cache(cache).into_iter().map(|cpu| vec![cpu]).collect());
    let nodes = (0..hardware.nodes.len()).map(|node| {
        let own_caches = (0..hardware.caches.len()).filter(|&cache| node_of(cache) == Some(node));
        own_caches.map(of_cache).collect()
    });
    let machine = hardware.nodes.iter().map(|node| node.cpus.clone()).collect();
    let all = caches.chain(nodes).map(|groups| (groups, false)).chain([(machine, true)]);
    let with_two = all.filter(|(groups, _): &(Vec<Vec<usize>>, bool)| 1 < groups.len());
    with_two.map(|(groups, is_numa)| BusyDomain::new(groups, is_numa)).collect()
}

impl BusyDomain {
    fn new(groups: Vec<Vec<usize>>, is_numa: bool) -> Self {
        let n_cpus = groups.iter().map(Vec::len).sum::<usize>() as u64;
        let failed = vec![0; groups.len()];
        BusyDomain { groups, failed, period_ns: n_cpus * BUSY_MS_PER_CPU * 1_000_000, is_numa }
    }
}

/// Returns the domains of each CPU.
pub(super) fn domains_by_cpu(domains: &[BusyDomain], n_cpus: usize) -> Vec<Vec<usize>> {
    let mut of_cpu = vec![Vec::new(); n_cpus];
    for (idx, domain) in domains.iter().enumerate() {
        domain.groups.iter().flatten().for_each(|&cpu| of_cpu[cpu].push(idx));
    }
    of_cpu
}

/// Runnable tasks and online CPUs of a group.
#[derive(Clone, Copy, Debug, Default)]
pub struct BusyGroup {
    n_runnable: u64,
    n_cpus: u64,
    /// Sum of the capacities of the CPUs.
    capacity: u64,
    has_idle: bool,
}

impl BusyGroup {
    /// Returns the load per capacity of a CPU.
    fn load(self) -> u64 {
        load(self.n_runnable, self.capacity)
    }

    fn is_overloaded(self) -> bool {
        self.n_cpus < self.n_runnable
    }
}

/// Returns the load per capacity of a CPU.
fn load(n_runnable: u64, capacity: u64) -> u64 {
    TASK_LOAD * CAPACITY * n_runnable / capacity.max(1)
}

impl KernelModel {
    /// Returns the number of domains.
    pub fn n_domains(&self) -> usize {
        self.domains.len()
    }

    /// Returns the domains of a CPU.
    pub fn domains_of(&self, cpu: usize) -> &[usize] {
        &self.domains_of_cpu[cpu]
    }

    /// Returns the nanoseconds between two attempts of the busy CPUs of a domain.
    pub fn period_ns(&self, domain: usize) -> u64 {
        self.domains[domain].period_ns
    }

    /// Returns the current load of each group of a domain.
    pub fn busy_groups(&self, domain: usize) -> Vec<BusyGroup> {
        self.domains[domain].groups.iter().map(|cpus| self.group(cpus)).collect()
    }

    /// Returns whether any CPU of a domain has more than one runnable task.
    pub fn has_shared_cpu(&self, domain: usize) -> bool {
        self.domains[domain].groups.iter().flatten().any(|&cpu| 1 < self.load.n_runnable[cpu])
    }

    /// Returns a pull to a group from the busiest other group of the domain. Returns `None` if the group has an idle
    /// CPU, or if the groups are balanced.
    pub fn balance_busy(
        &mut self,
        (domain, group_idx): (usize, usize),
        groups: &[BusyGroup],
        queues: &dyn RunQueues,
    ) -> Option<TaskPull> {
        let failed = self.domains[domain].failed[group_idx];
        let pull = self.busiest(groups, group_idx).and_then(|(busiest, imbalance)| {
            Some((self.pull_from_busiest(domain, (busiest, group_idx), queues)?, imbalance))
        });
        let Some((pull, imbalance)) = pull else {
            self.domains[domain].failed[group_idx] = 0;
            return None;
        };
        let weighs = match self.version {
            KernelVersion::V6_18 => TASK_LOAD.checked_shr(failed).unwrap_or(0),
            KernelVersion::V4_2 | KernelVersion::V2_6_27 => 0,
        };
        let keeps = match self.domains[domain].is_numa {
            true => self.kept(KeptTasks::WithMemory, failed),
            false => KeptTasks::None,
        };
        let pull = TaskPull { keeps, ..pull };
        let pull = Some(pull).filter(|&pull| weighs <= imbalance && queues.movable(pull).is_some());
        self.domains[domain].failed[group_idx] = if pull.is_some() { 0 } else { failed + 1 };
        pull
    }

    fn group(&self, cpus: &[usize]) -> BusyGroup {
        let mut group = BusyGroup::default();
        for &cpu in cpus.iter().filter(|&&cpu| self.may_run(Allowed::None, cpu)) {
            group.n_cpus += 1;
            group.capacity += self.capacity(cpu);
            group.n_runnable += u64::from(self.load.n_runnable[cpu]);
            group.has_idle |= self.load.n_runnable[cpu] == 0;
        }
        group
    }

    /// Returns the busiest group and the load that may be moved (`find_busiest_group`, `calculate_imbalance`).
    fn busiest(&self, groups: &[BusyGroup], group_idx: usize) -> Option<(usize, u64)> {
        let own = groups[group_idx];
        if own.n_cpus == 0 || own.has_idle {
            return None; // An idle CPU balances in `load_balance`, more often.
        }
        let others =
            (0..groups.len()).filter(|&idx| idx != group_idx && groups[idx].is_overloaded());
        let nearness = |idx: usize| std::cmp::Reverse(ring_distance(group_idx, idx, groups.len()));
        let busiest = others.max_by_key(|&idx| (groups[idx].load(), nearness(idx)))?;
        let busy = groups[busiest];
        let all = groups.iter().fold(BusyGroup::default(), |all, group| BusyGroup {
            n_runnable: all.n_runnable + group.n_runnable,
            capacity: all.capacity + group.capacity,
            ..all
        });
        let average = all.load();
        let is_even = match self.version {
            KernelVersion::V6_18 => {
                own.is_overloaded() && 100 * busy.load() <= BUSIER_PERCENT * own.load()
            }
            KernelVersion::V4_2 | KernelVersion::V2_6_27 => {
                100 * busy.load() <= BUSIER_PERCENT_BEFORE_5_5 * own.load()
            }
        };
        if busy.load() <= own.load() || average <= own.load() || is_even {
            return None;
        }
        let over = (busy.load().saturating_sub(average)) * busy.capacity / CAPACITY;
        let under = (average - own.load()) * own.capacity / CAPACITY;
        Some((busiest, over.min(under)))
    }

    /// Returns the capacity of a CPU in the sums of load balancing.
    fn capacity(&self, cpu: usize) -> u64 {
        match self.unlike {
            UnlikeCpus::Capacity => u64::from(self.hardware.cpus[cpu].capacity),
            UnlikeCpus::Equal | UnlikeCpus::Packing => CAPACITY,
        }
    }

    /// Returns a pull from the CPU with the highest load of a group to the CPU with the lowest load of another group.
    fn pull_from_busiest(
        &self,
        domain: usize,
        (busiest, group_idx): (usize, usize),
        queues: &dyn RunQueues,
    ) -> Option<TaskPull> {
        let BusyDomain { groups, is_numa, .. } = &self.domains[domain];
        let candidates =
            groups[group_idx].iter().copied().filter(|&cpu| self.may_run(Allowed::None, cpu));
        let load_of = |cpu: usize| load(u64::from(self.load.n_runnable[cpu]), self.capacity(cpu));
        let to = candidates.min_by_key(|&cpu| (load_of(cpu), cpu))?;
        let pull_from = |from: usize| TaskPull { from, to, is_first: true, ..TaskPull::default() };
        let sources = match is_numa {
            true => self.numa_sources(&groups[busiest], queues),
            false => Cow::Borrowed(&groups[busiest][..]),
        };
        let load_to = load_of(to);
        let shared_cpus = sources.iter().copied().filter(|&cpu| {
            self.may_run(Allowed::None, cpu)
                && 1 < self.load.n_runnable[cpu]
                && load_to < load_of(cpu)
                && queues.movable(pull_from(cpu)).is_some()
        });
        let from = shared_cpus.max_by_key(|&cpu| (load_of(cpu), std::cmp::Reverse(cpu)))?;
        Some(pull_from(from))
    }
}
