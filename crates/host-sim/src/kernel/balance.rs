//! How the kernel evens out what runs where.
//!
//! ```text
//!   system: nodes ── node: caches ── cache: CPUs
//!        every level in its own time; a CPU that fell idle asks at once, the nearest level first
//! ```

use super::select::{numa_imbalance, numa_room};
use super::{Allowed, Kernel, Load, Version};
use crate::hardware::Hardware;

/// An even-out of one domain fails so often before a task that runs is moved, not only one that waits
/// (`cache_nice_tries` + 2 in `need_active_balance`).
const FAILED_MAX: u32 = 3;
/// Between nodes a load above this, in hundredths of the other's, is an imbalance (`imbalance_pct`).
const TOLERATED: u32 = 125;

/// A task is to be pulled from one CPU to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pull {
    /// From the run queue of this CPU.
    pub from: usize,
    /// To that of this one.
    pub to: usize,
    /// Even the task that runs may be taken, where the queue holds no other.
    pub running_too: bool,
}

impl Kernel {
    /// What a CPU that has nothing to do takes from others: from the nearest domain that has tasks
    /// waiting. `takes(from)` tells whether one that waits there may go to it.
    pub fn pull_idle(
        &self,
        hardware: &Hardware,
        load: &Load,
        idle: usize,
        takes: &dyn Fn(usize) -> bool,
    ) -> Option<Pull> {
        let its = &hardware.cpus[idle];
        // Domains in which somebody waits, the nearest first.
        let cache = &hardware.caches[its.cache].cpus;
        let own_node = &hardware.nodes[its.node].cpus;
        let near = [(cache, load.caches[its.cache]), (own_node, load.nodes[its.node])];
        let far = hardware.nodes.iter().map(|node| &node.cpus).zip(load.nodes.iter().copied());
        let levels =
            near.into_iter().chain(far).filter(|(_, sum)| sum.cpus - sum.idle < sum.running);
        levels.into_iter().find_map(|(cpus, _)| {
            let open = cpus.iter().copied().filter(|&cpu| cpu != idle && 2 <= load.running[cpu]);
            let open = open.filter(|&cpu| takes(cpu));
            let from = open.max_by_key(|&cpu| (load.running[cpu], std::cmp::Reverse(cpu)))?;
            Some(Pull { from, to: idle, running_too: false })
        })
    }

    /// One even-out of the whole machine: what is pulled within each domain, one task each.
    pub fn even_out(
        &mut self,
        hardware: &Hardware,
        load: &Load,
        takes: &dyn Fn(usize, usize, bool) -> bool,
    ) -> Option<Pull> {
        for node in 0..hardware.nodes.len() {
            if let Some(pull) = self.between_nodes(hardware, load, node, takes) {
                return Some(pull);
            }
        }
        for cache in 0..hardware.caches.len() {
            if let Some(pull) = self.between_caches(hardware, load, cache, takes) {
                return Some(pull);
            }
        }
        for cache in &hardware.caches {
            if let Some(pull) = self.within(&cache.cpus, &cache.cpus, load, takes, false) {
                return Some(pull);
            }
        }
        // Where loads are even and affinity alone makes somebody wait (`sgc->imbalance`).
        let idle = (0..hardware.cpus.len())
            .filter(|&cpu| load.running[cpu] == 0 && self.may(Allowed::None, cpu));
        idle.into_iter()
            .find_map(|cpu| self.pull_idle(hardware, load, cpu, &|from| takes(from, cpu, false)))
    }

    /// What a node pulls from the busiest other one.
    fn between_nodes(
        &mut self,
        hardware: &Hardware,
        load: &Load,
        here: usize,
        takes: &dyn Fn(usize, usize, bool) -> bool,
    ) -> Option<Pull> {
        let nodes = &load.nodes;
        if nodes[here].cpus == 0 {
            return None;
        }
        let others = (0..nodes.len()).filter(|&node| node != here && 0 < nodes[node].cpus);
        let per_cpu =
            |node: usize| u64::from(nodes[node].running) * 1000 / u64::from(nodes[node].cpus);
        let busiest = others.max_by_key(|&node| (per_cpu(node), std::cmp::Reverse(node)))?;
        let (busy, own) = (nodes[busiest], nodes[here]);
        let is_overloaded = busy.cpus < busy.running;
        let imbalance = match self.version {
            // An idle CPU never leaves others waiting elsewhere, whatever the loads.
            _ if is_overloaded && 0 < own.idle => 1,
            Version::V6_18 if !is_overloaded => {
                let more = own.idle.saturating_sub(busy.idle);
                numa_imbalance(more, own.running + 1, numa_room(hardware, here)) / 2
            }
            _ => {
                let tips = u64::from(TOLERATED) * per_cpu(here) < 100 * per_cpu(busiest);
                let helps = per_cpu(here) + 1000 / u64::from(own.cpus)
                    <= per_cpu(busiest).saturating_sub(1000 / u64::from(busy.cpus));
                u32::from(tips && helps)
            }
        };
        if imbalance == 0 {
            self.set_failed(hardware.nodes[here].cpus[0], 0);
            return None;
        }
        let (from, to) = (&hardware.nodes[busiest].cpus, &hardware.nodes[here].cpus);
        let key = hardware.nodes[here].cpus[0];
        self.move_one(from, to, load, takes, key)
    }

    /// What a cache pulls from the busiest other one of its node.
    fn between_caches(
        &mut self,
        hardware: &Hardware,
        load: &Load,
        here: usize,
        takes: &dyn Fn(usize, usize, bool) -> bool,
    ) -> Option<Pull> {
        let node_of = |cache: usize| hardware.cpus[hardware.caches[cache].cpus[0]].node;
        let caches = &load.caches;
        let others =
            (0..caches.len()).filter(|&cache| cache != here && node_of(cache) == node_of(here));
        let others = others.filter(|&cache| 0 < caches[cache].cpus);
        let busiest = others.max_by_key(|&cache| {
            let per_cpu = u64::from(caches[cache].running) * 1000 / u64::from(caches[cache].cpus);
            (per_cpu, std::cmp::Reverse(cache))
        })?;
        let (busy, own) = (caches[busiest], caches[here]);
        // Siblings are spread over: half of the difference (`SD_PREFER_SIBLING`).
        if own.idle == 0 || busy.running.saturating_sub(own.running) / 2 == 0 {
            return None;
        }
        let (from, to) = (&hardware.caches[busiest].cpus, &hardware.caches[here].cpus);
        self.move_one(from, to, load, takes, hardware.caches[here].cpus[0])
    }

    /// A waiting task if there is one; one that runs only after several attempts.
    fn move_one(
        &mut self,
        from: &[usize],
        to: &[usize],
        load: &Load,
        takes: &dyn Fn(usize, usize, bool) -> bool,
        key: usize,
    ) -> Option<Pull> {
        if let Some(pull) = self.within(from, to, load, takes, false) {
            self.set_failed(key, 0);
            return Some(pull);
        }
        self.set_failed(key, self.failed[key] + 1);
        if FAILED_MAX < self.failed[key] {
            self.set_failed(key, 0);
            return self.within(from, to, load, takes, true);
        }
        None
    }

    fn set_failed(&mut self, key: usize, n_failed: u32) {
        self.n_failed_changes += u64::from(self.failed[key] != n_failed);
        self.failed[key] = n_failed;
    }

    /// How often it changed what it remembers of even-outs: where that and what runs where are as they were,
    /// an even-out that found nothing finds nothing again.
    pub fn n_failed_changes(&self) -> u64 {
        self.n_failed_changes
    }

    /// From the busiest CPU of some to the idlest of others.
    fn within(
        &self,
        from: &[usize],
        to: &[usize],
        load: &Load,
        takes: &dyn Fn(usize, usize, bool) -> bool,
        running_too: bool,
    ) -> Option<Pull> {
        // Two tasks of difference, or one that runs alone and a CPU that runs nothing.
        let more = if running_too { 1 } else { 2 };
        let most = from.iter().map(|&cpu| load.running[cpu]).max()?;
        if to.iter().all(|&cpu| most < load.running[cpu] + more) {
            return None; // As nearly always.
        }
        let mut targets: Vec<usize> = to
            .iter()
            .copied()
            .filter(|&cpu| self.may(Allowed::None, cpu) && load.running[cpu] + more <= most)
            .collect();
        targets.sort_unstable_by_key(|&cpu| (load.running[cpu], cpu));
        // The idlest first; another one where nobody may go to that.
        targets.into_iter().find_map(|target| {
            let least = load.running[target] + more;
            let busy = from.iter().copied().filter(|&cpu| least <= load.running[cpu]);
            let busy = busy.filter(|&cpu| takes(cpu, target, running_too));
            let from = busy.max_by_key(|&cpu| (load.running[cpu], std::cmp::Reverse(cpu)))?;
            Some(Pull { from, to: target, running_too })
        })
    }
}
