//! NUMA balancing. The kernel samples from which nodes a job accesses its memory. It migrates pages to the nodes of
//! tasks, and tasks to the nodes of their pages.
//!
//! ```text
//!   pass over all mappings       by scans of up to 256 MiB; the first scan is after two seconds of CPU time
//!     │  a task uses memory on another node
//!     ├─ the previous scan recorded the same node, or the job is young ─► pages migrate to the task
//!     └─ otherwise, if most memory of the job is on that node           ─► the task migrates there, or
//!                                                                          is swapped with another task
//! ```
//!
//! The rules are those of `task_numa_work`, `vma_is_accessed`, `should_numa_migrate_memory`, `task_numa_placement`,
//! `task_numa_migrate` and `update_task_scan_period` in `kernel/sched/fair.c`:
//!
//! - After a delay of a second of CPU time (`node_stamp`), the kernel sets the time of the first scan of a program, a
//!   second later (`numa_next_scan`, which `execve` clears). So the first scan is at two seconds.
//! - Old kernels scan all mappings in one pass. Since Linux 6.7, only the first two passes do so. Later, a mapping is
//!   scanned if the task had hinting faults in it within about eight seconds; if all remaining mappings of the pass
//!   are unused, one of them is scanned (`vma_pids_forced`). A scan takes place once per period, so a pass takes as
//!   many periods as there are unused mappings. The memory of a job is then scanned once per eleven periods.
//! - A page without a recorded access migrates at its first NUMA hinting fault. Since Linux 4.20, every page migrates
//!   at its first fault in the first four passes of a job. Later, a page migrates after two consecutive accesses from
//!   the same node.
//! - The time between scans is CPU time of the job. The first fault after a pass adapts the period to the faults
//!   counted before: three tenths more, because the memory is private to one task (in Linux 4.2, the change depends on
//!   the local share and may be negative); twice the period without a local fault, as at the first pass, or if pages
//!   did not fit on their target node. When a task leaves the node of its memory, the period is reset to the minimum
//!   (since Linux 4.20). Every scan delays the next scan by 32 times its own duration.
//! - Jobs with a memory policy are excluded, because such policies do not enable NUMA balancing (`vma_policy_mof`).
//!   The option of Linux 5.12 that enables it for a memory policy is not modelled.
//!
//! Load balancing between nodes prefers tasks that are not on their preferred node (`kernel/load_balance.rs`).
//!
//! Every thread uses a separate part of the job's memory. Out of scope: NUMA groups of processes with shared memory,
//! and migrations of the threads of a job with several threads to their memory.

use super::events::FluidEvent;
use super::{Fluid, TaskState};
use crate::frame::MemoryPlacement;
use crate::kernel::{KernelVersion, TICK_NS};
use crate::physics::PAGE_BYTES;

/// Minimum time in which all memory is scanned, and delay before the time of the first scan is set, in nanoseconds
/// (`numa_balancing_scan_period_min_ms`, `scan_delay_ms`).
pub(super) const SCAN_NS_MIN: u64 = 1_000_000_000;
/// Maximum time in which all memory is scanned, in nanoseconds (`scan_period_max_ms`).
const SCAN_NS_MAX: u64 = 60_000_000_000;
/// Bytes per chunk (`scan_size_mb`).
const SCAN_BYTES: u64 = 256 << 20;
/// Minimum time between two chunks in nanoseconds (`MAX_SCAN_WINDOW`: 2,560 MiB per second).
const CHUNK_NS_MIN: u64 = 100_000_000;
/// Number of passes in which every page migrates at its first NUMA hinting fault.
const YOUNG_PASSES: u32 = 4;
/// Number of passes that scan all mappings, also unused ones.
const FULL_PASSES: u32 = 2;
/// Number of unused mappings of a program. Measured: `evenkeel load hog` has 10 (heap, stack, vDSO, and data of
/// libraries), counted in the guest with the trace event `sched_skip_vma_numa`. Other programs have others: `sleep`, a
/// small C program, has 9 mappings that can be scanned.
const UNUSED_MAPPINGS: u64 = 10;
/// Tenths of private or local memory above which the period increases in proportion to the excess
/// (`NUMA_PERIOD_THRESHOLD`).
const SLOWER_FROM_TENTHS: i64 = 7;
/// Cost of scanning a page in nanoseconds (guessed).
const SCAN_PAGE_NS: f64 = 10.0;
/// A chunk delays the next chunk by this multiple of its cost (`task_numa_work`).
const SCAN_DELAY_FACTOR: f64 = 32.0;
/// Cost of a NUMA hinting fault in nanoseconds (guessed).
const HINTING_FAULT_NS: f64 = 500.0;
/// Minimum sum of the gains in local memory for which two tasks are swapped (`SMALLIMP`, in the kernel in permille).
const SWAP_GAIN_MIN: f64 = 0.03;

/// State of NUMA balancing for the memory of one job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct NumaScanState {
    /// CPU time between two scans in nanoseconds.
    every_ns: u64,
    /// Number of completed passes (`numa_scan_seq`).
    n_passes: u32,
    /// Number of passes at the last adaptation of the period.
    n_adapted: u32,
    /// Number of remaining scans of the memory, and of unused mappings, in the current pass.
    n_left: u64,
    n_unused_left: u64,
    /// CPU time of the thread with the most CPU time at the last scan, in nanoseconds.
    ran_ns: f64,
    /// Bytes migrated since the memory was first scanned in this pass.
    moved: u64,
    /// Bytes of the memory, and bytes used from another node, when the memory was last scanned.
    used: Option<[u64; 2]>,
    /// Whether some pages did not fit on their target node.
    target_was_full: bool,
    /// Whether the job ran on the node of its memory at the last scan.
    was_home: bool,
}

impl Default for NumaScanState {
    fn default() -> Self {
        NumaScanState {
            every_ns: SCAN_NS_MIN,
            n_passes: 0,
            n_adapted: 0,
            n_left: 0,
            n_unused_left: 0,
            ran_ns: SCAN_NS_MIN as f64,
            moved: 0,
            used: None,
            target_was_full: false,
            was_home: false,
        }
    }
}

impl NumaScanState {
    /// Returns whether the memory has been scanned.
    pub fn is_scanned(&self) -> bool {
        self.used.is_some()
    }
}

/// Returns the minimum and maximum time between two chunks for this amount of memory, in nanoseconds.
fn period_bounds(bytes: u64) -> (u64, u64) {
    let n_chunks = bytes.div_ceil(SCAN_BYTES).max(1);
    let period_min = (SCAN_NS_MIN / n_chunks).max(CHUNK_NS_MIN);
    (period_min, (SCAN_NS_MAX / n_chunks).max(period_min))
}

impl Fluid {
    /// Schedules the first scan of a job's memory.
    pub(super) fn begin_scans(&mut self, job: usize, generation: u64, memory: &MemoryPlacement) {
        let balances = self.settings.numa_balancing && self.settings.kernel.can_balance_numa();
        if balances && *memory == MemoryPlacement::FirstTouch {
            self.events.add(self.now + SCAN_NS_MIN, FluidEvent::NumaScan(job, generation));
        }
    }

    /// Handles a scan event of a job.
    pub(super) fn handle_numa_scan(&mut self, job: usize, generation: u64) {
        let Some(state) = self
            .jobs
            .get(job)
            .filter(|state| state.generation == generation && 0 < state.n_running)
        else {
            return;
        };
        let mut scan = state.scan;
        let tasks = state.tasks.clone();
        let running: Vec<usize> =
            tasks.into_iter().filter(|&idx| self.tasks[idx].state != TaskState::Ended).collect();
        let next = match self.until_next_chunk(job, &running, &mut scan) {
            Some(more) => more,
            None => {
                self.note_node(job, &running, &mut scan);
                let every_ns = scan.every_ns;
                self.scan_some(job, &running, &mut scan);
                every_ns
            }
        };
        if let Some(state) = self.jobs.get_mut(job) {
            state.scan = scan;
        }
        self.events.add(self.now + next, FluidEvent::NumaScan(job, generation));
    }

    /// Returns the CPU time in nanoseconds until the next scan is due; `None` if it is due now.
    fn until_next_chunk(
        &mut self,
        job: usize,
        running: &[usize],
        scan: &mut NumaScanState,
    ) -> Option<u64> {
        self.update_job(job);
        running.iter().for_each(|&idx| self.update_cpu(self.tasks[idx].cpu));
        let ran_ns = running.iter().map(|&idx| self.tasks[idx].cpu_ns).fold(0.0, f64::max);
        let left = scan.ran_ns + scan.every_ns as f64 - ran_ns;
        // The kernel compares CPU times at timer interrupts.
        if TICK_NS < left {
            return Some(left as u64);
        }
        scan.ran_ns = ran_ns;
        None
    }

    /// Scans a part of the memory or an unused mapping.
    fn scan_some(&mut self, job: usize, running: &[usize], scan: &mut NumaScanState) {
        let is_new = self.settings.kernel == KernelVersion::V6_18;
        if scan.n_left + scan.n_unused_left == 0 {
            scan.n_left = self.pages.total(job).div_ceil(SCAN_BYTES).max(1);
            let skips_unused = is_new && FULL_PASSES <= scan.n_passes;
            scan.n_unused_left = if skips_unused { UNUSED_MAPPINGS } else { 0 };
        }
        let is_memory = 0 < scan.n_left;
        match is_memory {
            true => scan.n_left -= 1,
            false => scan.n_unused_left -= 1,
        }
        scan.n_passes += u32::from(scan.n_left + scan.n_unused_left == 0);
        if is_memory {
            self.scan_chunk(job, running, scan);
        }
    }

    /// Resets the period if a thread has left the node of the job's memory.
    fn note_node(&self, job: usize, running: &[usize], scan: &mut NumaScanState) {
        let home = self.pages.home(job, &self.hardware);
        let is_home = self.nodes_of(running).into_iter().all(|node| Some(node) == home);
        let was_home = std::mem::replace(&mut scan.was_home, is_home);
        if self.settings.kernel == KernelVersion::V6_18 && was_home && !is_home {
            scan.every_ns = period_bounds(self.pages.total(job)).0;
        }
    }

    /// Scans one chunk of the memory.
    fn scan_chunk(&mut self, job: usize, running: &[usize], scan: &mut NumaScanState) {
        if scan.n_adapted != scan.n_passes {
            scan.n_adapted = scan.n_passes;
            self.adapt_period(job, scan);
        }
        let total = self.pages.total(job);
        let pages = total.min(SCAN_BYTES) as f64 / PAGE_BYTES as f64;
        let each_ns = pages * (HINTING_FAULT_NS + SCAN_PAGE_NS) / running.len().max(1) as f64;
        running.iter().for_each(|&idx| self.charge_kernel_time(idx, each_ns));
        scan.ran_ns += SCAN_DELAY_FACTOR * pages * SCAN_PAGE_NS;
        let moved = self.migrate_memory(job, running, scan);
        scan.moved += moved;
        if moved == 0 {
            self.migrate_to_memory(job, running);
        }
        if scan.n_left == 0 {
            let remote = (scan.moved + self.remote_bytes(job, running)).min(total);
            (scan.used, scan.moved) = (Some([total, remote]), 0);
            for &idx in running {
                self.tasks[idx].used_from = Some(self.hardware.cpus[self.tasks[idx].cpu].node);
            }
        }
    }

    /// Adapts the period to the faults since the last adaptation.
    fn adapt_period(&self, job: usize, scan: &mut NumaScanState) {
        let (period_min, period_max) = period_bounds(self.pages.total(job));
        let after =
            match scan.used.filter(|[total, remote]| remote < total && !scan.target_was_full) {
                None => 2 * scan.every_ns,
                Some([total, remote]) => {
                    let tenths = match self.settings.kernel {
                        KernelVersion::V6_18 => 10,
                        _ => (u128::from(total - remote) * 10 / u128::from(total)) as i64,
                    };
                    next_period(scan.every_ns, tenths)
                }
            };
        scan.every_ns = after.clamp(period_min, period_max);
        scan.target_was_full = false;
    }

    /// Returns the bytes of a job that its threads use from other nodes.
    fn remote_bytes(&self, job: usize, running: &[usize]) -> u64 {
        let nodes = self.nodes_of(running);
        let total = self.pages.total(job);
        let shares = shares(&nodes);
        let bytes_by_node = self.memory_of(job).iter().enumerate();
        bytes_by_node.map(|(node, bytes)| bytes.saturating_sub(part_of(total, &shares, node))).sum()
    }

    fn nodes_of(&self, running: &[usize]) -> Vec<usize> {
        running.iter().map(|&idx| self.hardware.cpus[self.tasks[idx].cpu].node).collect()
    }

    /// Migrates a job with one thread to the node with most of its memory, or swaps its task with a task on that
    /// node.
    fn migrate_to_memory(&mut self, job: usize, running: &[usize]) {
        let &[idx] = running else { return };
        let Some(home) = self.pages.home(job, &self.hardware) else { return };
        let task = &self.tasks[idx];
        let task_node = self.hardware.cpus[task.cpu].node;
        if task_node == home || task.state != TaskState::Runnable {
            return;
        }
        let gain = self.pages.part_on(job, home) - self.pages.part_on(job, task_node);
        let allowed = task.allowed.as_deref().map(Vec::as_slice);
        let path = (task.cpu, home);
        let free = self.kernel.numa_cpu(path, allowed);
        if let Some(cpu) = free.filter(|&cpu| self.kernel.load.n_runnable[cpu] == 0) {
            return self.migrate(idx, cpu);
        }
        let other = self.best_swap(idx, home, gain);
        match (free, other) {
            (Some(cpu), None) => self.migrate(idx, cpu),
            (Some(cpu), Some((_, both))) if both <= gain => self.migrate(idx, cpu),
            (_, Some((other, _))) => {
                // Both tasks move in one step, so that no CPU becomes idle and pulls a third task.
                let (cpu, other_cpu) = (self.tasks[idx].cpu, self.tasks[other].cpu);
                [idx, other].into_iter().for_each(|one| self.dequeue(one));
                for (one, to) in [(idx, other_cpu), (other, cpu)] {
                    self.enqueue(one, to);
                    self.count_migration(one);
                }
            }
            (None, None) => {}
        }
    }

    /// Returns the task on a node with the largest sum of gains from a swap, and the sum.
    fn best_swap(&self, idx: usize, home: usize, gain: f64) -> Option<(usize, f64)> {
        let task = &self.tasks[idx];
        let task_node = self.hardware.cpus[task.cpu].node;
        let may_run_on =
            |task: &super::Task, cpu: usize| self.kernel.online[cpu] && task.may_use(cpu);
        let cpus = self.hardware.nodes[home].cpus.iter().filter(|&&cpu| may_run_on(task, cpu));
        let others = cpus.flat_map(|&cpu| self.cpus[cpu].tasks.iter().copied());
        let others = others.filter(|&other| {
            let candidate = &self.tasks[other];
            candidate.job != task.job && may_run_on(candidate, task.cpu)
        });
        let gains = others.map(|other| {
            let other_job = self.tasks[other].job;
            (
                other,
                gain + self.pages.part_on(other_job, task_node)
                    - self.pages.part_on(other_job, home),
            )
        });
        let worth = gains.filter(|(_, both)| SWAP_GAIN_MIN <= *both);
        worth.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))
    }

    /// Migrates pages to the nodes that use them. Returns the number of bytes.
    fn migrate_memory(&mut self, job: usize, running: &[usize], scan: &mut NumaScanState) -> u64 {
        let is_young =
            self.settings.kernel == KernelVersion::V6_18 && scan.n_passes <= YOUNG_PASSES;
        let nodes = self.nodes_of(running);
        let accessed_twice = running.iter().zip(&nodes).filter(|&(&idx, node)| {
            is_young || self.tasks[idx].used_from.is_none_or(|before| before == *node)
        });
        let fetching: Vec<usize> = accessed_twice.map(|(_, node)| *node).collect();
        let shares = shares(&nodes);
        let total = self.pages.total(job);
        let target_bytes = |node: usize| part_of(total, &shares, node);
        let remote_bytes = self.remote_bytes(job, running);
        let mut budget = remote_bytes.div_ceil(scan.n_left + 1);
        let mut all = 0;
        for (node, _) in shares.iter().filter(|(node, _)| fetching.contains(node)) {
            loop {
                let bytes_by_node = self.memory_of(job).to_vec();
                let missing_bytes =
                    target_bytes(*node).saturating_sub(bytes_by_node[*node]).min(budget);
                let has_excess = |other: &usize| {
                    other != node && target_bytes(*other) + PAGE_BYTES < bytes_by_node[*other]
                };
                let Some(from) = (0..bytes_by_node.len())
                    .find(has_excess)
                    .filter(|_| PAGE_BYTES <= missing_bytes)
                else {
                    break;
                };
                let moved = self.move_now(
                    job,
                    from,
                    *node,
                    missing_bytes.min(bytes_by_node[from] - target_bytes(from)),
                );
                if moved == 0 {
                    scan.target_was_full = true;
                    break;
                }
                budget -= moved;
                all += moved;
                let each = moved as f64 / running.len() as f64;
                running.iter().for_each(|&idx| self.charge_move(idx, (from, *node), each));
            }
        }
        all
    }

    /// Charges kernel CPU time to a task.
    pub(super) fn charge_kernel_time(&mut self, idx: usize, ns: f64) {
        self.update_before_charge(idx);
        self.tasks[idx].left.kernel_ns += ns;
        self.mark_task_changed(idx);
    }

    /// Charges the migration of pages between two nodes to a task.
    fn charge_move(&mut self, idx: usize, between: (usize, usize), bytes: f64) {
        self.update_before_charge(idx);
        let task = &mut self.tasks[idx];
        task.left.move_bytes += bytes;
        task.moving_between = between;
        self.mark_task_changed(idx);
    }

    fn update_before_charge(&mut self, idx: usize) {
        if self.tasks[idx].state == TaskState::Runnable {
            self.update_cpu(self.tasks[idx].cpu);
            self.unqueue(idx);
        }
    }
}

/// Returns the period after a scan in which this many tenths of the memory were private or local.
fn next_period(every_ns: u64, tenths: i64) -> u64 {
    let steps = match tenths - SLOWER_FROM_TENTHS {
        0 => 1,
        steps => steps,
    };
    every_ns.saturating_add_signed(steps * every_ns.div_ceil(10) as i64)
}

/// Returns the part of `total` that the threads on a node use.
fn part_of(total: u64, shares: &[(usize, f64)], node: usize) -> u64 {
    let share = shares.iter().find(|(n, _)| *n == node).map_or(0.0, |(_, share)| *share);
    (total as f64 * share) as u64
}

/// Returns the share of the threads on each node.
fn shares(nodes: &[usize]) -> Vec<(usize, f64)> {
    let mut sorted = nodes.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let part =
        |node: usize| nodes.iter().filter(|&&n| n == node).count() as f64 / nodes.len() as f64;
    sorted.into_iter().map(|node| (node, part(node))).collect()
}
