//! NUMA balancing: the kernel finds out where a job's memory is used, brings memory to tasks and
//! tasks to memory.
//!
//! ```text
//!   a pass over all memory      256 MiB at a time; the whole in a second, later ever more seldom
//!     │  what a task uses on another node
//!     ├─ and used from its node in the pass before, or is young ─► comes to the task
//!     └─ else: counts for the node where it lies; most of it there ─► the task goes there, if it may,
//!                                                                   or changes places with another
//! ```
//!
//! Rules as in `task_numa_work`, `should_numa_migrate_memory`, `task_numa_placement`, `task_numa_migrate` and
//! `update_task_scan_period` of `kernel/sched/fair.c`:
//!
//! - a page that was never seen to be used comes at once, since Linux 4.20 every page of a job's first four passes;
//!   later one must be used twice in a row from the same node;
//! - time is CPU time of the job; with each pass the period grows by three tenths, since memory is used by one
//!   task alone (in Linux 4.2: as far as it is local, else it shrinks), and doubles if all of it was remote; a task
//!   that left its memory's node makes it the shortest again (since Linux 4.20); each look puts off the next one
//!   by 32 times what it took itself;
//! - a job with a memory policy of its own is left alone: such policies do not ask for it
//!   (`vma_policy_mof`; that one may, since Linux 5.12, is not used here).
//!
//! Every thread has its own part of a job's memory. Left out: groups of processes that share memory,
//! and that the balancing of load is a little slower to take a task from its memory.

use super::events::Event;
use super::jobs::MemoryRule;
use super::{Fluid, TaskState};
use crate::kernel::Version;

/// Nanoseconds of a pass at first, and before the first one (`numa_balancing_scan_period_min_ms`,
/// `scan_delay_ms`).
pub(super) const SCAN_NS_MIN: u64 = 1_000_000_000;
/// At most (`scan_period_max_ms`).
const SCAN_NS_MAX: u64 = 60_000_000_000;
/// Bytes that are looked at together (`scan_size_mb`).
const SCAN_BYTES: u64 = 256 << 20;
/// Nanoseconds between two such looks at least (`MAX_SCAN_WINDOW`: 2,560 MiB a second).
const LOOK_NS_MIN: u64 = 100_000_000;
/// Passes in which every page comes at once.
const YOUNG_PASSES: u32 = 4;
/// Tenths of memory that is private, or local, from which on the period grows: by the tenths that are more
/// (`NUMA_PERIOD_THRESHOLD`).
const SLOWER_FROM_TENTHS: i64 = 7;
/// Nanoseconds that a look takes for each page. Guessed.
const LOOK_PAGE_NS: f64 = 10.0;
/// So many times what a look took goes by before the next one, beyond its period (`task_numa_work`).
const BRAKE: f64 = 32.0;
/// Nanoseconds of a hinting fault. Guessed.
const FAULT_NS: f64 = 500.0;
/// Nanoseconds of the move of a page, besides. Guessed, as [`super::pages::MOVE_RATE`].
const MOVE_NS: f64 = 4096.0 / super::pages::MOVE_RATE;
const PAGE: f64 = 4096.0;
/// A task changes places with another one if both together gain so much of their memory, in parts
/// (`SMALLIMP`, thousandths).
const EXCHANGE_MIN: f64 = 0.03;

/// What the kernel knows of a job's memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scan {
    /// Nanoseconds of CPU time between two looks.
    every_ns: u64,
    /// Passes that are over.
    n_passes: u32,
    /// Looks left of the pass that goes on.
    n_left: u64,
    /// CPU time of the thread that had most of it, at the last look.
    ran_ns: f64,
    /// Bytes that came in the pass that goes on.
    moved: u64,
    /// Some of what should have come did not fit.
    is_refused: bool,
}

impl Default for Scan {
    fn default() -> Self {
        Scan {
            every_ns: SCAN_NS_MIN,
            n_passes: 0,
            n_left: 0,
            ran_ns: 0.0,
            moved: 0,
            is_refused: false,
        }
    }
}

/// Nanoseconds between two looks at so much memory, at least and at most.
fn bounds(bytes: u64) -> (u64, u64) {
    let n_looks = bytes.div_ceil(SCAN_BYTES).max(1);
    let least = (SCAN_NS_MIN / n_looks).max(LOOK_NS_MIN);
    (least, (SCAN_NS_MAX / n_looks).max(least))
}

impl Fluid {
    /// From now on the kernel looks at a job's memory.
    pub(super) fn begin_scans(&mut self, job: usize, life: u64, memory: &MemoryRule) {
        let balances = self.settings.numa_balancing && self.settings.kernel.can_balance_numa();
        if balances && *memory == MemoryRule::FirstTouch {
            self.events.add(self.now + SCAN_NS_MIN, Event::NumaScan(job, life));
        }
    }

    /// The kernel looks at a job's pages.
    pub(super) fn numa_scan(&mut self, job: usize, life: u64) {
        let Some(state) = self.jobs.get(job).filter(|its| its.life == life && 0 < its.n_alive)
        else {
            return;
        };
        let mut scan = state.scan;
        let tasks = state.tasks.clone();
        let running: Vec<usize> =
            tasks.into_iter().filter(|&idx| self.tasks[idx].state != TaskState::Ended).collect();
        let next = match self.too_soon(job, &running, &mut scan) {
            Some(more) => more,
            None => {
                self.look_at_pages(job, &running, &mut scan);
                scan.every_ns
            }
        };
        if let Some(state) = self.jobs.get_mut(job) {
            state.scan = scan;
        }
        self.events.add(self.now + next, Event::NumaScan(job, life));
    }

    /// Nanoseconds that a job must run until the next look.
    fn too_soon(&mut self, job: usize, running: &[usize], scan: &mut Scan) -> Option<u64> {
        self.settle_job(job);
        running.iter().for_each(|&idx| self.settle_cpu(self.tasks[idx].cpu));
        let ran_ns = running.iter().map(|&idx| self.tasks[idx].cpu_ns).fold(0.0, f64::max);
        let left = scan.ran_ns + scan.every_ns as f64 - ran_ns;
        if TICK_NS < left {
            return Some(left as u64);
        }
        scan.ran_ns = ran_ns;
        None
    }

    /// One look, the last of a pass or not.
    fn look_at_pages(&mut self, job: usize, running: &[usize], scan: &mut Scan) {
        let total = self.pages.total(job);
        if scan.n_left == 0 {
            scan.n_left = total.div_ceil(SCAN_BYTES).max(1);
        }
        let pages = total.min(SCAN_BYTES) as f64 / PAGE;
        let each_ns = pages * (FAULT_NS + LOOK_PAGE_NS) / running.len().max(1) as f64;
        running.iter().for_each(|&idx| self.charge(idx, each_ns));
        scan.ran_ns += BRAKE * pages * LOOK_PAGE_NS;
        let moved = self.fetch_memory(job, running, scan);
        scan.moved += moved;
        if moved == 0 {
            self.go_to_memory(job, running);
        }
        scan.n_left -= 1;
        if scan.n_left == 0 {
            self.pass_is_over(job, running, scan);
        }
    }

    /// All memory has been looked at: who used it from where is kept for the next pass.
    fn pass_is_over(&mut self, job: usize, running: &[usize], scan: &mut Scan) {
        let (least, most) = bounds(self.pages.total(job));
        let home = self.home(job);
        let mut has_left = false;
        for &idx in running {
            let node = self.hardware.cpus[self.tasks[idx].cpu].node;
            let before = self.tasks[idx].used_from.replace(node);
            has_left |= before.is_some_and(|before| before != node) && Some(node) != home;
        }
        let is_new = self.settings.kernel == Version::V6_18;
        let before = if has_left && is_new { least } else { scan.every_ns };
        let total = self.pages.total(job).max(1);
        let remote = (scan.moved + self.away(job, running)).min(total);
        let tenths = match is_new {
            true => 10,
            false => ((total - remote) as u128 * 10 / total as u128) as i64,
        };
        let is_all_remote = remote == total;
        let after =
            if is_all_remote || scan.is_refused { 2 * before } else { grown(before, tenths) };
        scan.every_ns = after.clamp(least, most);
        scan.n_passes += 1;
        (scan.moved, scan.is_refused) = (0, false);
    }

    /// Bytes of a job that its threads use from other nodes.
    fn away(&self, job: usize, running: &[usize]) -> u64 {
        let nodes = self.nodes_of(running);
        let total = self.pages.total(job);
        let shares = shares(&nodes);
        let on = self.memory_of(job).iter().enumerate();
        on.map(|(node, on)| on.saturating_sub(part_of(total, &shares, node))).sum()
    }

    fn nodes_of(&self, running: &[usize]) -> Vec<usize> {
        running.iter().map(|&idx| self.hardware.cpus[self.tasks[idx].cpu].node).collect()
    }

    /// The node that holds most of a job's memory, the lowest of equals.
    fn home(&self, job: usize) -> Option<usize> {
        let parts = self.pages.parts(job).iter();
        parts.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0))).map(|&(node, _)| node)
    }

    /// The part of a job's memory on a node.
    fn part_on(&self, job: usize, node: usize) -> f64 {
        self.pages.parts(job).iter().find(|(n, _)| *n == node).map_or(0.0, |(_, part)| *part)
    }

    /// A job of one thread goes to the node that holds most of its memory, or changes places with a task
    /// there that gains by it.
    fn go_to_memory(&mut self, job: usize, running: &[usize]) {
        let &[idx] = running else { return };
        let Some(home) = self.home(job) else { return };
        let task = &self.tasks[idx];
        let here = self.hardware.cpus[task.cpu].node;
        if here == home || task.state != TaskState::Runnable {
            return;
        }
        let gain = self.part_on(job, home) - self.part_on(job, here);
        let allowed = task.allowed.as_deref().map(Vec::as_slice);
        let way = (task.cpu, home);
        let free = self.kernel.numa_cpu(&self.hardware, &self.load, way, allowed);
        if let Some(cpu) = free.filter(|&cpu| self.load.running[cpu] == 0) {
            return self.migrate(idx, cpu);
        }
        let other = self.exchange(idx, home, gain);
        match (free, other) {
            (Some(cpu), None) => self.migrate(idx, cpu),
            (Some(cpu), Some((_, both))) if both <= gain => self.migrate(idx, cpu),
            (_, Some((other, _))) => {
                // At once: no CPU falls idle meanwhile and pulls somebody.
                let (cpu, its) = (self.tasks[idx].cpu, self.tasks[other].cpu);
                [idx, other].into_iter().for_each(|one| self.dequeue(one));
                for (one, to) in [(idx, its), (other, cpu)] {
                    self.enqueue(one, to);
                    self.count_migration(one);
                }
            }
            (None, None) => {}
        }
    }

    /// The task on a node with which another one gains most by changing places, and what both gain.
    fn exchange(&self, idx: usize, home: usize, gain: f64) -> Option<(usize, f64)> {
        let task = &self.tasks[idx];
        let here = self.hardware.cpus[task.cpu].node;
        let may = |task: &super::Task, cpu: usize| {
            self.kernel.online[cpu] && task.allowed.as_ref().is_none_or(|allowed| allowed[cpu])
        };
        let cpus = self.hardware.nodes[home].cpus.iter().filter(|&&cpu| may(task, cpu));
        let others = cpus.flat_map(|&cpu| self.cpus[cpu].tasks.iter().copied());
        let others = others.filter(|&other| {
            let its = &self.tasks[other];
            its.job != task.job && may(its, task.cpu)
        });
        let gains = others.map(|other| {
            let its = self.tasks[other].job;
            (other, gain + self.part_on(its, here) - self.part_on(its, home))
        });
        let worth = gains.filter(|(_, both)| EXCHANGE_MIN <= *both);
        worth.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))
    }

    /// Pages that are used from another node come there; how many bytes.
    fn fetch_memory(&mut self, job: usize, running: &[usize], scan: &mut Scan) -> u64 {
        let is_young = self.settings.kernel == Version::V6_18 && scan.n_passes < YOUNG_PASSES;
        let nodes = self.nodes_of(running);
        let again = running.iter().zip(&nodes).filter(|&(&idx, node)| {
            is_young || self.tasks[idx].used_from.is_none_or(|before| before == *node)
        });
        let fetching: Vec<usize> = again.map(|(_, node)| *node).collect();
        let shares = shares(&nodes);
        let total = self.pages.total(job);
        let wants = |node: usize| part_of(total, &shares, node);
        let away = self.away(job, running);
        let mut budget = away.div_ceil(scan.n_left);
        let mut all = 0;
        for (node, _) in shares.iter().filter(|(node, _)| fetching.contains(node)) {
            loop {
                let on = self.memory_of(job).to_vec();
                let short = wants(*node).saturating_sub(on[*node]).min(budget);
                let more =
                    |other: &usize| other != node && wants(*other) + (PAGE as u64) < on[*other];
                let Some(from) = (0..on.len()).find(more).filter(|_| PAGE as u64 <= short) else {
                    break;
                };
                let moved = self.shift(job, from, *node, short.min(on[from] - wants(from)));
                if moved == 0 {
                    scan.is_refused = true;
                    break;
                }
                budget -= moved;
                all += moved;
                let each = moved as f64 / PAGE * MOVE_NS / running.len() as f64;
                running.iter().for_each(|&idx| self.charge(idx, each));
            }
        }
        all
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

/// A period after a pass in which so many tenths were private, or local.
fn grown(every_ns: u64, tenths: i64) -> u64 {
    let slots = match tenths - SLOWER_FROM_TENTHS {
        0 => 1,
        slots => slots,
    };
    every_ns.saturating_add_signed(slots * every_ns.div_ceil(10) as i64)
}

/// Bytes that a node's share of the threads uses of so many.
fn part_of(total: u64, shares: &[(usize, f64)], node: usize) -> u64 {
    let share = shares.iter().find(|(n, _)| *n == node).map_or(0.0, |its| its.1);
    (total as f64 * share) as u64
}

/// CPU time is looked at in ticks of this length: 250 in a second.
const TICK_NS: f64 = 4e6;

/// The part of the threads on each node.
fn shares(nodes: &[usize]) -> Vec<(usize, f64)> {
    let mut sorted = nodes.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let part =
        |node: usize| nodes.iter().filter(|&&n| n == node).count() as f64 / nodes.len() as f64;
    sorted.into_iter().map(|node| (node, part(node))).collect()
}
