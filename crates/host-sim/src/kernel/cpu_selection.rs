//! CPU selection for new tasks, for tasks that wake up, and for tasks that NUMA balancing migrates to their memory.
//!
//! ```text
//!   a CPU of the memory's node is idle, and the imbalance is tolerated      ─► the idle CPU
//!   no CPU is idle, and the imbalance between the nodes does not grow        ─► the least busy CPU
//!   otherwise                                                               ─► two tasks are swapped
//! ```
//!
//! The rules for NUMA balancing are those of `task_numa_find_cpu`, `task_numa_compare` and `load_too_imbalanced` in
//! `kernel/sched/fair.c`.

use topology::CAPACITY_MAX;

use super::{Allowed, DomainCounts, KernelModel, KernelVersion, TieBreaker, UnlikeCpus, least};
use crate::hardware::Hardware;

/// Share of a node that may be busy while small imbalances between nodes are ignored: an eighth, since Linux 6.0
/// (`imb_numa_nr` in `kernel/sched/topology.c` for a node with one LLC domain). On a node with several LLC domains,
/// the limit is one task per LLC domain.
const NUMA_PART: u32 = 8;
/// Difference of idle CPUs that is ignored below this share (`NUMA_IMBALANCE_MIN`).
const NUMA_TOLERATED: u32 = 2;
/// Maximum load of the local group, in percent of the lowest load, for which a new task stays in the local group.
/// Chosen between the values of `imbalance_pct`, which is 125 between nodes and 117 within a node; for new tasks, old
/// kernels use half of the excess over 100.
const TOLERATED: u32 = 112;

impl KernelModel {
    /// Selects the CPU of a new task with a parent on CPU `parent`. Returns `None` if no CPU is allowed.
    pub fn fork(
        &mut self,
        parent: usize,
        allowed: Allowed<'_>,
        tie_breaker: &mut TieBreaker,
    ) -> Option<usize> {
        let node = self.fork_node(parent, allowed, tie_breaker)?;
        let cache = self.fork_cache((parent, node), allowed, tie_breaker)?;
        let cpus = self.hardware.caches[cache].cpus.iter().copied();
        let mut open = std::mem::take(&mut self.open);
        open.clear();
        open.extend(
            cpus.filter(|&cpu| self.hardware.cpus[cpu].node == node && self.may_run(allowed, cpu)),
        );
        let idlest = self.idlest_cpu(&open, tie_breaker);
        self.open = open;
        idlest
    }

    /// Selects the node: the node of the parent, unless another node is clearly less busy.
    fn fork_node(
        &self,
        parent: usize,
        allowed: Allowed<'_>,
        tie_breaker: &mut TieBreaker,
    ) -> Option<usize> {
        let local = self.hardware.cpus[parent].node;
        let nodes = self.load.nodes.iter().copied();
        let sums = self.sums(self.hardware.nodes.iter().map(|n| &n.cpus[..]), allowed, nodes);
        if let [only] = sums[..] {
            return (0 < only.n_cpus).then_some(local);
        }
        let best =
            self.idlest_group(&sums, (0 < sums[local].n_cpus).then_some(local), tie_breaker)?;
        let (own, other) = (sums[local], sums[best]);
        let limit = numa_imbalance_limit(&self.hardware, local).min(own.n_cpus);
        let stays = self.version == KernelVersion::V6_18
            && 0 < own.n_idle
            && numa_imbalance(other.n_idle.saturating_sub(own.n_idle), own.n_runnable + 1, limit)
                == 0;
        Some(if stays { local } else { best })
    }

    /// Selects the LLC domain in a node.
    fn fork_cache(
        &self,
        (parent, node): (usize, usize),
        allowed: Allowed<'_>,
        tie_breaker: &mut TieBreaker,
    ) -> Option<usize> {
        let caches = &self.hardware.nodes[node].caches;
        if let [only] = caches[..] {
            return Some(only);
        }
        let cpus = caches.iter().map(|&cache| &self.hardware.caches[cache].cpus[..]);
        let whole = caches.iter().map(|&cache| self.load.caches[cache]);
        let sums = self.sums(cpus, allowed, whole);
        let local = caches.iter().position(|&cache| cache == self.hardware.cpus[parent].cache);
        let local = local.filter(|&local| 0 < sums[local].n_cpus);
        self.idlest_group(&sums, local, tie_breaker)
            .map(|idx| self.hardware.nodes[node].caches[idx])
    }

    /// Returns the number of runnable tasks and idle CPUs of each group, among the allowed CPUs.
    fn sums<'a>(
        &self,
        groups: impl Iterator<Item = &'a [usize]>,
        allowed: Allowed<'_>,
        whole: impl Iterator<Item = DomainCounts>,
    ) -> Vec<DomainCounts> {
        if allowed.is_none() && self.n_offline == 0 {
            return whole.collect();
        }
        let sum_of = |cpus: &[usize]| {
            let mut sum = DomainCounts::default();
            for &cpu in cpus.iter().filter(|&&cpu| self.may_run(allowed, cpu)) {
                sum.n_runnable += self.load.n_runnable[cpu];
                sum.n_idle += u32::from(self.load.n_runnable[cpu] == 0);
                sum.n_cpus += 1;
            }
            sum
        };
        groups.map(sum_of).collect()
    }

    /// Selects the group for a new task (`find_idlest_group`). Returns the local group unless another group is
    /// clearly less busy.
    fn idlest_group(
        &self,
        sums: &[DomainCounts],
        local: Option<usize>,
        tie_breaker: &mut TieBreaker,
    ) -> Option<usize> {
        let has_cpus = |idx: &usize| 0 < sums[*idx].n_cpus;
        let others = (0..sums.len()).filter(has_cpus).filter(|&idx| Some(idx) != local);
        let by_load = |idx: usize| permille(&sums[idx]);
        let has_spare = |idx: usize| 0 < sums[idx].n_idle;
        let best = match self.version {
            // The group with the most idle CPUs is the best; if no CPU is idle, the group with the lowest load.
            KernelVersion::V6_18 => least(tie_breaker, others.clone(), |idx| {
                (std::cmp::Reverse(sums[idx].n_idle), by_load(idx))
            }),
            _ => least(tie_breaker, others, by_load),
        };
        let (Some(best), Some(local)) = (best, local) else { return best.or(local) };
        let stays = match self.version {
            KernelVersion::V6_18 if has_spare(local) || has_spare(best) => {
                sums[best].n_idle <= sums[local].n_idle
            }
            KernelVersion::V6_18 => 100 * by_load(local) <= TOLERATED * by_load(best),
            _ => 100 * by_load(local) < TOLERATED * by_load(best),
        };
        Some(if stays { local } else { best })
    }

    /// Returns the least busy CPU of `open`. Of equally busy CPUs, the core decides (`find_idlest_group` between the
    /// cores of an LLC domain): in Linux 6.18 the core with the most idle siblings, in old kernels the core with the
    /// lowest load. Without a tie breaker, the capacity decides before the core, so that a job alone runs on the fastest
    /// core kind.
    fn idlest_cpu(&self, open: &[usize], tie_breaker: &mut TieBreaker) -> Option<usize> {
        let (load, hardware) = (&self.load, &self.hardware);
        let is_new = self.version == KernelVersion::V6_18;
        let is_random = tie_breaker.is_some();
        least(tie_breaker, open.iter().copied(), |cpu| {
            let below = CAPACITY_MAX.saturating_sub(hardware.cpus[cpu].capacity);
            let core = load.cores[hardware.cpus[cpu].core];
            let (n_busy, n_idle) = (i64::from(core.n_busy()), i64::from(core.n_idle));
            let by_core = if is_new { (-n_idle, n_busy) } else { (n_busy, 0) };
            (load.n_runnable[cpu], if is_random { 0 } else { below }, by_core)
        })
    }

    /// Selects the CPU of a task that wakes up. Its previous CPU is `before`.
    pub fn wake(
        &self,
        before: usize,
        allowed: Allowed<'_>,
        tie_breaker: &mut TieBreaker,
    ) -> Option<usize> {
        let may_stay = self.may_run(allowed, before);
        let by_capacity = self.unlike == UnlikeCpus::Capacity;
        if may_stay && self.load.n_runnable[before] == 0 && !by_capacity {
            return Some(before);
        }
        let cache_cpus = &self.hardware.caches[self.hardware.cpus[before].cache].cpus;
        let candidates = if by_capacity { self.unlike_span(before) } else { cache_cpus };
        let is_idle = |cpu: usize| self.may_run(allowed, cpu) && self.load.n_runnable[cpu] == 0;
        let ranked = candidates.iter().copied().filter(|&cpu| is_idle(cpu));
        let ranked = ranked.filter_map(|cpu| Some((self.wake_rank(before, cpu)?, cpu)));
        let ranked: Vec<(u32, usize)> = ranked.collect();
        if let Some(best) = least(tie_breaker, 0..ranked.len(), |idx| ranked[idx].0) {
            return Some(ranked[best].1);
        }
        if may_stay {
            return Some(before);
        }
        let allowed_cpus: Vec<usize> =
            (0..self.hardware.cpus.len()).filter(|&cpu| self.may_run(allowed, cpu)).collect();
        self.idlest_cpu(&allowed_cpus, tie_breaker)
    }

    /// Returns the rank of an idle CPU for a task that wakes up on CPU `before`, lowest first; `None` if the kernel
    /// does not consider the CPU.
    ///
    /// With asymmetric capacity, the CPU of the highest capacity is the first, and the previous CPU is the first of
    /// equal CPUs. Otherwise, the previous CPU is busy here.
    ///
    /// All versions but the oldest prefer an idle core of the LLC domain, then an idle sibling of the previous CPU.
    /// Linux 6.18 then takes any idle CPU (`select_idle_cpu`), Linux 4.2 does not search further
    /// (`select_idle_sibling`). Linux 2.6.27 considers only siblings, and only if no task waits on the previous CPU
    /// (`wake_idle`).
    fn wake_rank(&self, before: usize, cpu: usize) -> Option<u32> {
        if self.unlike == UnlikeCpus::Capacity {
            let below = CAPACITY_MAX.saturating_sub(self.hardware.cpus[cpu].capacity);
            return Some(2 * below + u32::from(cpu != before));
        }
        let is_sibling = self.hardware.cpus[cpu].core == self.hardware.cpus[before].core;
        match self.version {
            KernelVersion::V2_6_27 => {
                (is_sibling && self.load.n_runnable[before] <= 1).then_some(0)
            }
            _ if self.is_core_idle(cpu) => Some(0),
            _ if is_sibling => Some(1),
            KernelVersion::V6_18 => Some(2),
            KernelVersion::V4_2 => None,
        }
    }

    /// Selects a CPU of node `home` for a task on CPU `from`. Returns `None` if the imbalance would grow, or if the
    /// affinity of the task excludes the node.
    pub fn numa_cpu(&self, (from, home): (usize, usize), allowed: Allowed<'_>) -> Option<usize> {
        let (src, dst) = (self.load.nodes[self.hardware.cpus[from].node], self.load.nodes[home]);
        let has_spare = self.version == KernelVersion::V6_18 && dst.n_runnable < dst.n_cpus;
        let may_move = if has_spare {
            let more = (dst.n_runnable + 1).saturating_sub(src.n_runnable.saturating_sub(1));
            numa_imbalance(more, dst.n_runnable + 1, numa_imbalance_limit(&self.hardware, home))
                == 0
        } else {
            let apart = |src_tasks: u32, dst_tasks: u32| {
                (u64::from(dst_tasks) * u64::from(src.n_cpus))
                    .abs_diff(u64::from(src_tasks) * u64::from(dst.n_cpus))
            };
            apart(src.n_runnable.saturating_sub(1), dst.n_runnable + 1)
                <= apart(src.n_runnable, dst.n_runnable)
        };
        let candidates = self.hardware.nodes[home].cpus.iter().copied();
        let candidates = candidates.filter(|&cpu| self.may_run(allowed, cpu));
        candidates
            .min_by_key(|&cpu| (self.load.n_runnable[cpu], !self.is_core_idle(cpu), cpu))
            .filter(|_| may_move)
    }
}

/// Returns the load per CPU of a group, in permille.
fn permille(sum: &DomainCounts) -> u32 {
    1000 * sum.n_runnable / sum.n_cpus.max(1)
}

/// Returns the imbalance between nodes, or 0 if it is tolerated. After the migration, the target node would run
/// `running` tasks (`adjust_numa_imbalance`).
pub(super) fn numa_imbalance(difference: u32, running: u32, limit: u32) -> u32 {
    let is_small = running <= limit && difference <= NUMA_TOLERATED;
    if is_small { 0 } else { difference }
}

/// Returns the number of tasks on a node up to which small imbalances are tolerated.
pub(super) fn numa_imbalance_limit(hardware: &Hardware, node: usize) -> u32 {
    let node = &hardware.nodes[node];
    match node.caches.len() as u32 {
        n_caches @ 2.. => n_caches,
        _ => (node.cpus.len() as u32 / NUMA_PART).max(1),
    }
}
