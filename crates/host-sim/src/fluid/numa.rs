//! NUMA balancing: the kernel finds out where a job's memory is used, brings tasks to memory and
//! memory to tasks.
//!
//! ```text
//!   every scan: most of its memory is on another node and that node has an idle CPU ─► the task goes there
//!               else, from the second scan on ─► pages that it uses remotely come to it, so many a scan
//! ```
//!
//! Rules as in `task_numa_work`, `numa_migrate_preferred` and `should_numa_migrate_memory` of
//! `kernel/sched/fair.c`: a page follows only when it was seen to be used twice from there. Left out:
//! groups of processes that share memory, and swaps of two tasks.

use super::events::Event;
use super::{Fluid, TaskState};

/// Nanoseconds between two scans at first (`numa_balancing_scan_period_min_ms`).
pub(super) const SCAN_NS_MIN: u64 = 1_000_000_000;
/// At most, where memory is local (`numa_balancing_scan_period_max_ms`).
const SCAN_NS_MAX: u64 = 60_000_000_000;
/// Bytes that a scan covers (`numa_balancing_scan_size_mb`).
const SCAN_BYTES: u64 = 256 << 20;
/// Nanoseconds of a hinting fault. Guessed.
const FAULT_NS: f64 = 500.0;
/// Nanoseconds of the move of a page, besides. Guessed, as [`super::pages::MOVE_RATE`].
const MOVE_NS: f64 = 4096.0 / super::pages::MOVE_RATE;
const PAGE: f64 = 4096.0;
/// Memory counts as local from this part on.
const LOCAL_PART: f64 = 0.9;

impl Fluid {
    /// The kernel looks at a job's pages.
    pub(super) fn numa_scan(&mut self, job: usize, life: u64) {
        let Some(state) = self.jobs.get_mut(job).filter(|its| its.life == life && 0 < its.n_alive)
        else {
            return;
        };
        state.n_scans += 1;
        let n_scans = state.n_scans;
        let tasks = state.tasks.clone();
        let running: Vec<usize> =
            tasks.into_iter().filter(|&idx| self.tasks[idx].state != TaskState::Ended).collect();
        let nodes: Vec<usize> =
            running.iter().map(|&idx| self.hardware.cpus[self.tasks[idx].cpu].node).collect();
        let local = self.local_part(job, &nodes);
        let is_local = LOCAL_PART <= local;
        if !is_local && !self.go_to_memory(job, &running) && 2 <= n_scans {
            self.fetch_memory(job, &running, &nodes);
        }
        let total = self.pages.total(job);
        let faults = total.min(SCAN_BYTES) as f64 / PAGE / running.len().max(1) as f64;
        for &idx in &running {
            self.charge(idx, faults * FAULT_NS);
        }
        if let Some(state) = self.jobs.get_mut(job) {
            let longer = state.scan_ns.saturating_mul(2).min(SCAN_NS_MAX);
            state.scan_ns = if is_local { longer } else { SCAN_NS_MIN };
            self.events.add(self.now + state.scan_ns, Event::NumaScan(job, life));
        }
    }

    /// The part of a job's memory that its threads find on their own nodes.
    fn local_part(&self, job: usize, nodes: &[usize]) -> f64 {
        let parts = self.pages.parts(job);
        if parts.is_empty() || nodes.is_empty() {
            return 1.0;
        }
        let on =
            |node: &usize| parts.iter().find(|(n, _)| n == node).map_or(0.0, |(_, part)| *part);
        // Each thread uses its own part of the memory: as much can be local as there are threads.
        let each = 1.0 / nodes.len() as f64;
        let mut left: Vec<(usize, f64)> = parts.to_vec();
        let mut sum = 0.0;
        for node in nodes.iter().filter(|node| 0.0 < on(node)) {
            if let Some((_, part)) = left.iter_mut().find(|(n, _)| n == node) {
                let got = each.min(*part);
                *part -= got;
                sum += got;
            }
        }
        sum
    }

    /// A job of one thread goes to the node that holds most of its memory, if a CPU is idle there.
    fn go_to_memory(&mut self, job: usize, running: &[usize]) -> bool {
        let &[idx] = running else { return false };
        let parts = self.pages.parts(job).iter();
        let Some(&(home, _)) = parts.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0))) else {
            return false;
        };
        let task = &self.tasks[idx];
        if self.hardware.cpus[task.cpu].node == home || task.state != TaskState::Runnable {
            return false;
        }
        let may = |cpu: usize| {
            self.kernel.online[cpu] && task.allowed.as_ref().is_none_or(|allowed| allowed[cpu])
        };
        let idle = |&cpu: &usize| may(cpu) && self.cpus[cpu].tasks.is_empty();
        let found = self.hardware.nodes[home].cpus.iter().copied().find(idle);
        if let Some(cpu) = found {
            self.migrate(idx, cpu);
        }
        found.is_some()
    }

    /// Pages that are used from another node come there.
    fn fetch_memory(&mut self, job: usize, running: &[usize], nodes: &[usize]) {
        let total = self.pages.total(job);
        let mut budget = SCAN_BYTES;
        for (node, share) in shares(nodes) {
            let want = (total as f64 * share) as u64;
            loop {
                let on = self.memory_of(job).to_vec();
                let short = want.saturating_sub(on[node]).min(budget);
                let more = |other: &usize| {
                    let its = shares(nodes).iter().find(|(n, _)| n == other).map_or(0.0, |s| s.1);
                    *other != node && (total as f64 * its) as u64 + (PAGE as u64) < on[*other]
                };
                let Some(from) = (0..on.len()).find(more).filter(|_| PAGE as u64 <= short) else {
                    break;
                };
                let its = shares(nodes).iter().find(|(n, _)| *n == from).map_or(0.0, |s| s.1);
                let spare = on[from] - (total as f64 * its) as u64;
                let moved = self.shift(job, from, node, short.min(spare));
                if moved == 0 {
                    break;
                }
                budget -= moved;
                let each = moved as f64 / PAGE * MOVE_NS / running.len() as f64;
                running.iter().for_each(|&idx| self.charge(idx, each));
            }
        }
    }

    /// CPU time that the kernel takes from a task.
    fn charge(&mut self, idx: usize, ns: f64) {
        let cpu = self.tasks[idx].cpu;
        if self.tasks[idx].state == TaskState::Runnable {
            self.settle_cpu(cpu);
            self.stir(idx);
        }
        self.tasks[idx].owe(ns, 0.0);
        self.touched_cpu(cpu);
    }
}

/// The part of the threads on each node.
fn shares(nodes: &[usize]) -> Vec<(usize, f64)> {
    let mut sorted = nodes.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let part =
        |node: usize| nodes.iter().filter(|&&n| n == node).count() as f64 / nodes.len() as f64;
    sorted.into_iter().map(|node| (node, part(node))).collect()
}
