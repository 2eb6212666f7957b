//! Load balancing between nodes, LLC domains and CPUs.
//!
//! ```text
//!   machine: nodes ── node: caches ── cache: CPUs
//!        an attempt balances all levels, widest first; a newly idle CPU balances immediately, nearest level first
//! ```

use super::cpu_selection::{numa_imbalance, numa_imbalance_limit};
use super::{Allowed, KernelModel, KernelVersion};

/// Number of failed attempts of a domain after which a running task may be moved (`cache_nice_tries` + 2 in
/// `need_active_balance`).
const FAILED_MAX: u32 = 3;
/// Nodes are balanced if the load of the busiest node is above this percentage of the local load (`imbalance_pct`).
const TOLERATED: u32 = 125;

/// A migration from one run queue to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskPull {
    /// The source CPU.
    pub from: usize,
    /// The target CPU.
    pub to: usize,
    /// Whether a running task may be moved if the queue has no waiting task.
    pub running_too: bool,
}

impl KernelModel {
    /// Returns a pull to the CPU `idle` from the nearest domain with waiting tasks. `takes(from)` returns whether a
    /// waiting task of CPU `from` may run on `idle`.
    pub fn pull_idle(&self, idle: usize, takes: &dyn Fn(usize) -> bool) -> Option<TaskPull> {
        let idle_cpu = &self.hardware.cpus[idle];
        // The levels with waiting tasks, nearest first.
        let cache = &self.hardware.caches[idle_cpu.cache].cpus;
        let own_node = &self.hardware.nodes[idle_cpu.node].cpus;
        let near_levels =
            [(cache, self.load.caches[idle_cpu.cache]), (own_node, self.load.nodes[idle_cpu.node])];
        let node_levels =
            self.hardware.nodes.iter().map(|node| &node.cpus).zip(self.load.nodes.iter().copied());
        let levels = near_levels
            .into_iter()
            .chain(node_levels)
            .filter(|(_, sum)| sum.n_cpus - sum.n_idle < sum.n_runnable);
        levels.into_iter().find_map(|(cpus, _)| {
            let candidates =
                cpus.iter().copied().filter(|&cpu| cpu != idle && 2 <= self.load.n_runnable[cpu]);
            let candidates = candidates.filter(|&cpu| takes(cpu));
            let from = candidates
                .max_by_key(|&cpu| (self.load.n_runnable[cpu], std::cmp::Reverse(cpu)))?;
            Some(TaskPull { from, to: idle, running_too: false })
        })
    }

    /// Makes one balancing attempt for the whole machine. Returns the first possible pull.
    pub fn balance(&mut self, takes: &dyn Fn(usize, usize, bool) -> bool) -> Option<TaskPull> {
        for node in 0..self.hardware.nodes.len() {
            if let Some(pull) = self.pull_between_nodes(node, takes) {
                return Some(pull);
            }
        }
        for cache in 0..self.hardware.caches.len() {
            if let Some(pull) = self.pull_between_caches(cache, takes) {
                return Some(pull);
            }
        }
        for cache in &self.hardware.caches {
            if let Some(pull) = self.pull_busiest(&cache.cpus, &cache.cpus, takes, false) {
                return Some(pull);
            }
        }
        // The loads are balanced, but a task may wait because of its affinity (`sgc->imbalance`).
        let idle = (0..self.hardware.cpus.len())
            .filter(|&cpu| self.load.n_runnable[cpu] == 0 && self.may_run(Allowed::None, cpu));
        idle.into_iter().find_map(|cpu| self.pull_idle(cpu, &|from| takes(from, cpu, false)))
    }

    /// Returns a pull to a node from the busiest other node.
    fn pull_between_nodes(
        &mut self,
        node: usize,
        takes: &dyn Fn(usize, usize, bool) -> bool,
    ) -> Option<TaskPull> {
        let nodes = &self.load.nodes;
        if nodes[node].n_cpus == 0 {
            return None;
        }
        let others = (0..nodes.len()).filter(|&other| other != node && 0 < nodes[other].n_cpus);
        let per_cpu =
            |node: usize| u64::from(nodes[node].n_runnable) * 1000 / u64::from(nodes[node].n_cpus);
        let busiest = others.max_by_key(|&other| (per_cpu(other), std::cmp::Reverse(other)))?;
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
            self.set_failed(self.hardware.nodes[node].cpus[0], 0);
            return None;
        }
        let hardware = self.hardware.clone();
        self.move_one(&hardware.nodes[busiest].cpus, &hardware.nodes[node].cpus, takes)
    }

    /// Returns a pull to a cache from the busiest other cache of the node.
    fn pull_between_caches(
        &mut self,
        cache: usize,
        takes: &dyn Fn(usize, usize, bool) -> bool,
    ) -> Option<TaskPull> {
        let node_of = |cache: usize| self.hardware.cpus[self.hardware.caches[cache].cpus[0]].node;
        let caches = &self.load.caches;
        let others =
            (0..caches.len()).filter(|&other| other != cache && node_of(other) == node_of(cache));
        let others = others.filter(|&other| 0 < caches[other].n_cpus);
        let busiest = others.max_by_key(|&other| {
            let per_cpu =
                u64::from(caches[other].n_runnable) * 1000 / u64::from(caches[other].n_cpus);
            (per_cpu, std::cmp::Reverse(other))
        })?;
        let (busy, own) = (caches[busiest], caches[cache]);
        // With `SD_PREFER_SIBLING`, the kernel migrates half of the difference in running tasks to the sibling domain.
        if own.n_idle == 0 || busy.n_runnable.saturating_sub(own.n_runnable) / 2 == 0 {
            return None;
        }
        let hardware = self.hardware.clone();
        self.move_one(&hardware.caches[busiest].cpus, &hardware.caches[cache].cpus, takes)
    }

    /// Returns a pull of a waiting task. After several failed attempts, returns a pull of a running task.
    fn move_one(
        &mut self,
        from: &[usize],
        to: &[usize],
        takes: &dyn Fn(usize, usize, bool) -> bool,
    ) -> Option<TaskPull> {
        let key = to[0];
        if let Some(pull) = self.pull_busiest(from, to, takes, false) {
            self.set_failed(key, 0);
            return Some(pull);
        }
        self.set_failed(key, self.failed[key] + 1);
        if FAILED_MAX < self.failed[key] {
            self.set_failed(key, 0);
            return self.pull_busiest(from, to, takes, true);
        }
        None
    }

    fn set_failed(&mut self, key: usize, n_failed: u32) {
        self.n_failed_changes += u64::from(self.failed[key] != n_failed);
        self.failed[key] = n_failed;
    }

    /// Returns the number of changes of the failure counters. If neither these counters nor the run queues have
    /// changed since an attempt without a migration, the next attempt has the same result.
    pub fn n_failed_changes(&self) -> u64 {
        self.n_failed_changes
    }

    /// Returns a pull from the busiest CPU of `from` to the idlest CPU of `to`.
    fn pull_busiest(
        &self,
        from: &[usize],
        to: &[usize],
        takes: &dyn Fn(usize, usize, bool) -> bool,
        running_too: bool,
    ) -> Option<TaskPull> {
        // A pull needs a difference of two tasks, or a running task and an idle CPU.
        let more = if running_too { 1 } else { 2 };
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
        targets.sort_unstable_by_key(|&cpu| (self.load.n_runnable[cpu], cpu));
        // The least busy CPU is tried first. If no task may run on this CPU, the next CPU is tried.
        targets.into_iter().find_map(|target| {
            let n_tasks_min = self.load.n_runnable[target] + more;
            let sources =
                from.iter().copied().filter(|&cpu| n_tasks_min <= self.load.n_runnable[cpu]);
            let sources = sources.filter(|&cpu| takes(cpu, target, running_too));
            let from =
                sources.max_by_key(|&cpu| (self.load.n_runnable[cpu], std::cmp::Reverse(cpu)))?;
            Some(TaskPull { from, to: target, running_too })
        })
    }
}
