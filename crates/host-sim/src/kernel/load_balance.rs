//! Load balancing between nodes, LLC domains, cores and CPUs.
//!
//! ```text
//!   machine: nodes ── node: caches ── cache: cores ── core: CPUs
//!        an attempt balances all levels, widest first; a newly idle CPU balances immediately, nearest level first
//! ```
//!
//! Sibling groups are the LLC domains of a node, and the cores of an LLC domain with SMT. A group with an idle CPU
//! pulls a task from a sibling group with at least two more tasks, also a running task after failed attempts. So two
//! busy siblings do not share a core while another core of the LLC domain is idle. The versions reach this by
//! different rules: Linux 6.18 by `SD_PREFER_SIBLING` and `group_smt_balance`, Linux 4.2 by `SD_PREFER_SIBLING`, which
//! lowers the capacity of a group with several tasks, and Linux 2.6.27 by the power of one CPU that each core has.
//! With NUMA balancing, load balancing between nodes prefers tasks that are not on the node of their memory:
//!
//! - If a node has tasks without a preferred node, other nodes pull only from the CPUs of these tasks; else, if it has
//!   displaced tasks, only from the CPUs of these (`fbq_classify_group`, `find_busiest_queue`; [`super::Locality`]).
//! - In Linux 6.18, two kinds of tasks do not migrate until three attempts have failed: a task on its preferred node
//!   that shares its CPU with a task for which this is not the preferred node; and, if the new CPU is busy or newly idle,
//!   a task that has less memory on the new node (`migrate_degrades_locality`; Linux 4.2 does so only with
//!   `NUMA_RESIST_LOWER`, which is off). If all tasks of a CPU are on their preferred node, each may migrate.
//!
//! So a few displaced tasks migrate between the nodes, and the others stay.
//!
//! Not modelled: in Linux 4.2 (`fix_small_imbalance`), a running task may also move to a core with one task less, so
//! that three tasks rotate on two cores.

use std::borrow::Cow;

use super::cpu_selection::{numa_imbalance, numa_imbalance_limit};
use super::{
    Allowed, DomainCounts, KeptTasks, KernelModel, KernelVersion, RunQueues, TaskPull, UnlikeCpus,
    ring_distance,
};
use crate::hardware::Hardware;

/// Number of failed attempts of a domain after which a running task may be moved (`cache_nice_tries` + 2 in
/// `need_active_balance`).
const FAILED_MAX: u32 = 3;
/// A task whose locality degrades migrates between nodes when more attempts than this have failed
/// (`cache_nice_tries`).
const LOCAL_TRIES: u32 = 2;
/// Nodes are balanced if the load of the busiest node is above this percentage of the local load (`imbalance_pct`).
const TOLERATED: u32 = 125;

/// A level of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Node,
    Cache,
    Core,
}

/// Groups between which tasks are spread evenly.
#[derive(Clone, Debug)]
pub(super) struct SiblingDomain {
    level: Level,
    /// Number and number of cores of each group.
    groups: Vec<(usize, u32)>,
}

/// Returns the LLC domains of each node, and the cores of each LLC domain with SMT.
pub(super) fn sibling_domains(hardware: &Hardware) -> Vec<SiblingDomain> {
    let cores_of = |cpus: &[usize]| {
        let mut cores: Vec<usize> = cpus.iter().map(|&cpu| hardware.cpus[cpu].core).collect();
        cores.sort_unstable();
        cores.dedup();
        cores
    };
    let caches = hardware.nodes.iter().map(|node| {
        let is_first = |cache: &usize| node.cpus.contains(&hardware.caches[*cache].cpus[0]);
        let caches = node.caches.iter().copied().filter(is_first);
        let n_cores = |cache: usize| cores_of(&hardware.caches[cache].cpus).len() as u32;
        let groups = caches.map(|cache| (cache, n_cores(cache))).collect();
        SiblingDomain { level: Level::Cache, groups }
    });
    let with_smt = hardware
        .caches
        .iter()
        .map(|cache| cores_of(&cache.cpus))
        .filter(|cores| cores.iter().any(|&core| 1 < hardware.cores[core].len()));
    let cores = with_smt.map(|cores| {
        let groups = cores.into_iter().map(|core| (core, 1)).collect();
        SiblingDomain { level: Level::Core, groups }
    });
    caches.chain(cores).filter(|domain| 1 < domain.groups.len()).collect()
}

/// Returns the difference in tasks per core between two groups with these numbers of cores, in tasks
/// (`sibling_imbalance`).
pub(super) fn sibling_imbalance(busy: (DomainCounts, u32), own: (DomainCounts, u32)) -> u32 {
    let (n_busy, n_own) = (busy.0.n_runnable, own.0.n_runnable);
    if busy.1 == own.1 {
        return n_busy.saturating_sub(n_own);
    }
    let n_cores = busy.1 + own.1;
    let imbalance = (2 * (own.1 * n_busy).saturating_sub(busy.1 * n_own) + n_cores) / n_cores;
    if n_own == 0 && 1 < n_busy { imbalance.max(2) } else { imbalance }
}

impl KernelModel {
    /// Returns a pull to the newly idle CPU `idle` from the nearest domain with waiting tasks.
    pub fn pull_idle(&self, idle: usize, queues: &dyn RunQueues) -> Option<TaskPull> {
        let keeps = self.kept(KeptTasks::WithMemory, 0);
        self.pull_near(idle, queues).or_else(|| {
            let pull = TaskPull { to: idle, keeps, ..TaskPull::default() };
            self.pull_far(pull, queues, |cpus| self.numa_sources(cpus, queues))
        })
    }

    /// Returns a pull to an idle CPU from its cache, or from its node.
    fn pull_near(&self, idle: usize, queues: &dyn RunQueues) -> Option<TaskPull> {
        let idle_cpu = &self.hardware.cpus[idle];
        let (cache, node) = (idle_cpu.cache, idle_cpu.node);
        let near = [
            (&self.hardware.caches[cache].cpus, self.load.caches[cache]),
            (&self.hardware.nodes[node].cpus, self.load.nodes[node]),
        ];
        let pull = TaskPull { to: idle, ..TaskPull::default() };
        let waiting = near.into_iter().filter(|(_, sum)| sum.has_waiting());
        waiting.map(|(cpus, _)| cpus).find_map(|cpus| self.pull_waiting(cpus, pull, queues))
    }

    /// Returns a pull to an idle CPU from the CPUs of another node that `sources` selects.
    fn pull_far(
        &self,
        pull: TaskPull,
        queues: &dyn RunQueues,
        sources: impl for<'a> Fn(&'a [usize]) -> Cow<'a, [usize]>,
    ) -> Option<TaskPull> {
        let own = self.hardware.cpus[pull.to].node;
        let others = (0..self.hardware.nodes.len())
            .filter(|&node| node != own && self.load.nodes[node].has_waiting());
        let mut others = others.map(|node| sources(&self.hardware.nodes[node].cpus));
        others.find_map(|cpus| self.pull_waiting(&cpus, pull, queues))
    }

    /// Returns a pull of a waiting task to an idle CPU. Other attempts have found none, but a task may wait because of
    /// its affinity (`sgc->imbalance`), or because of its memory. The latter migrates after several attempts, also from
    /// a CPU that is not preferred: in the kernel, such a task waits until another task on its node is preferred.
    fn pull_any_to_idle(&mut self, queues: &dyn RunQueues) -> Option<TaskPull> {
        let idle = (0..self.hardware.cpus.len())
            .filter(|&cpu| self.load.n_runnable[cpu] == 0 && self.may_run(Allowed::None, cpu));
        let idle: Vec<usize> = idle.collect();
        let keeps = self.kept(KeptTasks::Local, 0);
        let of_first = |&cpu: &usize| {
            let pull = TaskPull { to: cpu, keeps, ..TaskPull::default() };
            let far = || self.pull_far(pull, queues, |cpus| self.numa_sources(cpus, queues));
            self.pull_near(cpu, queues).or_else(far)
        };
        let of_all = |&cpu: &usize| {
            let pull = TaskPull { to: cpu, ..TaskPull::default() };
            self.pull_far(pull, queues, |cpus| Cow::Borrowed(cpus))
        };
        let first = idle.iter().find_map(of_first);
        let kept = if first.is_none() { idle.iter().find_map(of_all) } else { None };
        let is_tried = LOCAL_TRIES < self.n_kept;
        let n_kept = if kept.is_some() && !is_tried { self.n_kept + 1 } else { 0 };
        self.n_failed_changes += u64::from(self.n_kept != n_kept);
        self.n_kept = n_kept;
        first.or(kept.filter(|_| is_tried))
    }

    /// Returns a pull of a waiting task from the busiest of these CPUs.
    fn pull_waiting(
        &self,
        cpus: &[usize],
        pull: TaskPull,
        queues: &dyn RunQueues,
    ) -> Option<TaskPull> {
        let pulls = cpus.iter().map(|&from| TaskPull { from, ..pull });
        let pulls = pulls.filter(|pull| {
            pull.from != pull.to
                && 2 <= self.load.n_runnable[pull.from]
                && queues.movable(*pull).is_some()
        });
        pulls.max_by_key(|pull| (self.load.n_runnable[pull.from], std::cmp::Reverse(pull.from)))
    }

    /// Returns the CPUs of a node from which other nodes pull tasks.
    pub(super) fn numa_sources<'a>(
        &self,
        node: &'a [usize],
        queues: &dyn RunQueues,
    ) -> Cow<'a, [usize]> {
        if !queues.has_preferred_nodes() {
            return Cow::Borrowed(node);
        }
        let online = node.iter().copied().filter(|&cpu| self.may_run(Allowed::None, cpu));
        let localities: Vec<_> = online.map(|cpu| (cpu, queues.locality(cpu))).collect();
        let first = localities.iter().map(|(_, locality)| *locality).min();
        let sources = localities.into_iter().filter(|(_, locality)| Some(*locality) == first);
        Cow::Owned(sources.map(|(cpu, _)| cpu).collect())
    }

    /// Returns the tasks that stay on their node after this number of failed attempts.
    pub(super) fn kept(&self, keeps: KeptTasks, failed: u32) -> KeptTasks {
        let stays = self.version == KernelVersion::V6_18 && failed <= LOCAL_TRIES;
        if stays { keeps } else { KeptTasks::None }
    }

    /// Makes one balancing attempt for the whole machine. Returns the first possible pull.
    pub fn balance(&mut self, queues: &dyn RunQueues) -> Option<TaskPull> {
        for node in 0..self.hardware.nodes.len() {
            if let Some(pull) = self.pull_between_nodes(node, queues) {
                return Some(pull);
            }
        }
        for domain in 0..self.sibling_domains.len() {
            if let Some(pull) = self.pull_between_siblings(domain, queues) {
                return Some(pull);
            }
        }
        for cache in &self.hardware.caches {
            if let Some(pull) =
                self.pull_busiest(&cache.cpus, &cache.cpus, TaskPull::default(), queues)
            {
                return Some(pull);
            }
        }
        if let Some(pull) = self.pull_any_to_larger(queues) {
            return Some(pull);
        }
        if !self.load.nodes.iter().any(|node| node.has_waiting()) {
            self.n_kept = 0;
            return None;
        }
        self.pull_any_to_idle(queues)
    }

    /// Returns a pull to a node from the busiest other node.
    fn pull_between_nodes(&mut self, node: usize, queues: &dyn RunQueues) -> Option<TaskPull> {
        let nodes = &self.load.nodes;
        if nodes[node].n_cpus == 0 {
            return None;
        }
        let others = (0..nodes.len()).filter(|&other| other != node && 0 < nodes[other].n_cpus);
        let per_cpu =
            |node: usize| u64::from(nodes[node].n_runnable) * 1000 / u64::from(nodes[node].n_cpus);
        let nearness = |other| std::cmp::Reverse(ring_distance(node, other, nodes.len()));
        let busiest = others.max_by_key(|&other| (per_cpu(other), nearness(other)))?;
        let (busy, own) = (nodes[busiest], nodes[node]);
        let is_overloaded = busy.n_cpus < busy.n_runnable;
        let imbalance = match self.version {
            // An idle CPU pulls a waiting task from another node even if the loads are balanced.
            _ if is_overloaded && 0 < own.n_idle => 1,
            KernelVersion::V6_18 if !is_overloaded => {
                let more = own.n_idle.saturating_sub(busy.n_idle);
                numa_imbalance(more, own.n_runnable + 1, numa_imbalance_limit(&self.hardware, node))
                    / 2
            }
            _ => {
                let tips = u64::from(TOLERATED) * per_cpu(node) < 100 * per_cpu(busiest);
                let helps = per_cpu(node) + 1000 / u64::from(own.n_cpus)
                    <= per_cpu(busiest).saturating_sub(1000 / u64::from(busy.n_cpus));
                u32::from(tips && helps)
            }
        };
        if imbalance == 0 {
            self.set_failed((Level::Node, node), 0);
            return None;
        }
        let hardware = self.hardware.clone();
        let sources = self.numa_sources(&hardware.nodes[busiest].cpus, queues);
        self.move_one((Level::Node, node), &[&sources], queues)
    }

    /// Returns a pull to a group of a domain from a sibling group with at least two more tasks.
    fn pull_between_siblings(&mut self, domain: usize, queues: &dyn RunQueues) -> Option<TaskPull> {
        let domains = self.sibling_domains.clone();
        let SiblingDomain { level, groups } = &domains[domain];
        let counts = self.counts(*level);
        let most = groups.iter().map(|&(idx, _)| counts[idx].n_runnable).max()?;
        let hardware = self.hardware.clone();
        groups.iter().find_map(|&(own, n_cores)| {
            let counts = self.counts(*level);
            let own_counts = counts[own];
            // In most calls, no core has two tasks more than another, or no CPU is idle.
            let is_even = *level == Level::Core && most < own_counts.n_runnable + 2;
            if is_even || own_counts.n_idle == 0 {
                self.set_failed((*level, own), 0);
                return None;
            }
            let imbalance = |&(idx, n): &(usize, u32)| {
                sibling_imbalance((counts[idx], n), (own_counts, n_cores))
            };
            let others = groups.iter().filter(|&&(idx, _)| idx != own && 0 < counts[idx].n_cpus);
            let busier = others.map(|group| (imbalance(group), group.0)).filter(|(n, _)| 1 < *n);
            let mut busier: Vec<(u32, usize)> = busier.collect();
            busier.sort_unstable_by_key(|&(n, idx)| (std::cmp::Reverse(n), idx));
            if busier.is_empty() {
                self.set_failed((*level, own), 0);
                return None;
            }
            let sources: Vec<&[usize]> =
                busier.iter().map(|&(_, idx)| cpus_of(&hardware, *level, idx)).collect();
            self.move_one((*level, own), &sources, queues)
        })
    }

    fn counts(&self, level: Level) -> &[DomainCounts] {
        match level {
            Level::Node => &self.load.nodes,
            Level::Cache => &self.load.caches,
            Level::Core => &self.load.cores,
        }
    }

    /// Returns a pull of a waiting task to a group from the first possible source group. After several failed
    /// attempts, returns a pull of a running task.
    fn move_one(
        &mut self,
        group: (Level, usize),
        sources: &[&[usize]],
        queues: &dyn RunQueues,
    ) -> Option<TaskPull> {
        let hardware = self.hardware.clone();
        let to = cpus_of(&hardware, group.0, group.1);
        let failed = self.failed[self.failed_index(group)];
        let keeps = match group.0 {
            Level::Node => self.kept(KeptTasks::Local, failed),
            Level::Cache | Level::Core => KeptTasks::None,
        };
        let pull_one = |kernel: &Self, running_too: bool| {
            let pull = TaskPull { running_too, keeps, ..TaskPull::default() };
            sources.iter().find_map(|from| kernel.pull_busiest(from, to, pull, queues))
        };
        if let Some(pull) = pull_one(self, false) {
            self.set_failed(group, 0);
            return Some(pull);
        }
        let n_failed = failed + 1;
        if FAILED_MAX < n_failed || self.helps_at_once(group) {
            self.set_failed(group, 0);
            return pull_one(self, true);
        }
        self.set_failed(group, n_failed);
        None
    }

    /// Returns whether the group is an idle core that takes a running task without failed attempts, which is the case
    /// with asymmetric packing (`asym_active_balance`).
    fn helps_at_once(&self, (level, idx): (Level, usize)) -> bool {
        self.unlike == UnlikeCpus::Packing && level == Level::Core && self.load.is_core_idle(idx)
    }

    /// Returns the index of a group in the failure counters.
    fn failed_index(&self, (level, idx): (Level, usize)) -> usize {
        let (n_nodes, n_caches) = (self.load.nodes.len(), self.load.caches.len());
        match level {
            Level::Node => idx,
            Level::Cache => n_nodes + idx,
            Level::Core => n_nodes + n_caches + idx,
        }
    }

    fn set_failed(&mut self, group: (Level, usize), n_failed: u32) {
        let idx = self.failed_index(group);
        self.n_failed_changes += u64::from(self.failed[idx] != n_failed);
        self.failed[idx] = n_failed;
    }

    /// Returns the number of changes of the failure counters. If neither these counters nor the run queues have
    /// changed since an attempt without a migration, the next attempt has the same result, unless memory has migrated.
    pub fn n_failed_changes(&self) -> u64 {
        self.n_failed_changes
    }

    /// Returns a pull like `pull` from the busiest CPU of `from` to the idlest CPU of `to`.
    fn pull_busiest(
        &self,
        from: &[usize],
        to: &[usize],
        pull: TaskPull,
        queues: &dyn RunQueues,
    ) -> Option<TaskPull> {
        // A pull needs a difference of two tasks, or a running task and an idle CPU.
        let more = if pull.running_too { 1 } else { 2 };
        let n_tasks_max = from.iter().map(|&cpu| self.load.n_runnable[cpu]).max()?;
        if to.iter().all(|&cpu| n_tasks_max < self.load.n_runnable[cpu] + more) {
            return None; // In most calls, the loads are balanced.
        }
        let mut targets: Vec<usize> = to
            .iter()
            .copied()
            .filter(|&cpu| {
                self.may_run(Allowed::None, cpu) && self.load.n_runnable[cpu] + more <= n_tasks_max
            })
            .collect();
        targets
            .sort_unstable_by_key(|&cpu| (self.load.n_runnable[cpu], !self.is_core_idle(cpu), cpu));
        // The least busy CPU is tried first, idle cores before idle siblings (`should_we_balance`). If no task may run on this CPU, the next CPU is tried.
        targets.into_iter().find_map(|target| {
            let n_tasks_min = self.load.n_runnable[target] + more;
            let pulls = from.iter().map(|&from| TaskPull { from, to: target, ..pull });
            let pulls = pulls.filter(|pull| {
                let n_tasks = self.load.n_runnable[pull.from];
                n_tasks_min <= n_tasks
                    && (1 < n_tasks || self.may_move_running(pull.from, target))
                    && queues.movable(*pull).is_some()
            });
            pulls.max_by_key(|pull| (self.load.n_runnable[pull.from], std::cmp::Reverse(pull.from)))
        })
    }
}

/// Returns the CPUs of a group.
fn cpus_of(hardware: &Hardware, level: Level, idx: usize) -> &[usize] {
    match level {
        Level::Node => &hardware.nodes[idx].cpus,
        Level::Cache => &hardware.caches[idx].cpus,
        Level::Core => &hardware.cores[idx],
    }
}
