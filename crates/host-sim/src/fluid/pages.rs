//! Memory of jobs: first touch, fallback to other nodes, page migration. The model accounts for every page of a node.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::Fluid;
use super::events::FluidEvent;
use super::job_map::JobMap;
use super::jobs::FluidJob;
use super::tasks::TaskActivity;
use crate::frame::{HostNotice, JobPageMigration, MemoryPlacement};
use crate::hardware::Hardware;
use crate::physics::{LINE, PAGE_BYTES};

/// Bandwidth of page migration in bytes per nanosecond. Guessed: move_pages(2) reaches about 1 GB/s on recent servers
/// with pages of 4 KiB.
const PAGE_MIGRATION_RATE: f64 = 1.0;
/// Largest share of a channel that page migration uses.
const MIGRATION_SHARE_MAX: f64 = 0.5;
/// Bytes per batch of page migration.
const BATCH: u64 = 64 << 20;

/// The memory of all nodes and jobs.
#[derive(Clone, Debug, Default)]
pub(super) struct MemoryState {
    size: Vec<u64>,
    free: Vec<u64>,
    /// Memory that the kernel and the page cache use at the start of the run, in bytes. It is reclaimed for an
    /// allocation if no permitted node has free memory, and for page migrations to the node.
    reclaimable: Vec<u64>,
    jobs: JobMap<JobPageCounts>,
    queue: VecDeque<JobPageMigration>,
    /// The batch in progress.
    batch: Option<MigrationBatch>,
}

/// A job with memory that could not be allocated.
#[derive(Clone, Copy, Debug)]
pub(super) struct FailedAllocation {
    job: usize,
    generation: u64,
    /// Node of the CPU that touched the memory, and number of missing bytes.
    node: usize,
    bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct MigrationBatch {
    from: usize,
    to: usize,
    /// Bandwidth in bytes per nanosecond.
    rate: f64,
    bytes: u64,
    began: u64,
}

#[derive(Clone, Debug, Default)]
struct JobPageCounts {
    on: Vec<u64>,
    /// Touched bytes that do not yet fill a page; negative for freed bytes that are not yet a page.
    partial_page: f64,
    /// Index of the next node of interleaved memory.
    next: usize,
    /// Share of the job's memory on each node that has some of it.
    parts: Vec<(usize, f64)>,
}

impl JobPageCounts {
    /// Computes the shares. Returns whether one has changed by more than the tolerance; otherwise they stay as they were.
    fn update(&mut self, tolerance: f64) -> bool {
        let total: u64 = self.on.iter().sum();
        let each = self.on.iter().enumerate().filter(|(_, bytes)| 0 < **bytes);
        let parts: Vec<_> =
            each.map(|(node, bytes)| (node, *bytes as f64 / total as f64)).collect();
        let has_changed = !is_near(&parts, &self.parts, tolerance);
        if has_changed {
            self.parts = parts;
        }
        has_changed
    }
}

/// Returns whether two distributions over nodes differ by at most the tolerance.
fn is_near(one: &[(usize, f64)], other: &[(usize, f64)], tolerance: f64) -> bool {
    let is_equal = |(one, other): (&(usize, f64), &(usize, f64))| {
        one.0 == other.0 && libm::fabs(one.1 - other.1) <= tolerance
    };
    one.len() == other.len() && one.iter().zip(other).all(is_equal)
}

impl MemoryState {
    /// Returns the memory of a machine. `used_share` returns the share of a node's memory that is in use at the
    /// start.
    pub fn new(hardware: &Hardware, used_share: impl Fn(usize) -> f64) -> Self {
        let size: Vec<u64> =
            hardware.nodes.iter().map(|node| node.memory.0 / PAGE_BYTES * PAGE_BYTES).collect();
        let part = |(node, size): (usize, &u64)| {
            (*size as f64 * used_share(node)) as u64 / PAGE_BYTES * PAGE_BYTES
        };
        let used: Vec<u64> = size.iter().enumerate().map(part).collect();
        let free = size.iter().zip(&used).map(|(size, used)| size - used).collect();
        MemoryState { free, reclaimable: used, size, ..MemoryState::default() }
    }

    /// Frees up to `bytes` on a node by reclaim.
    fn reclaim(&mut self, node: usize, bytes: u64) {
        let taken = bytes.saturating_sub(self.free[node]).min(self.reclaimable[node]);
        self.reclaimable[node] -= taken;
        self.free[node] += taken;
    }

    pub fn begin(&mut self, job: usize) {
        let pages = JobPageCounts { on: vec![0; self.size.len()], ..JobPageCounts::default() };
        self.jobs.insert(job, pages);
    }

    pub fn end(&mut self, job: usize) {
        let Some(pages) = self.jobs.remove(job) else { return };
        for (free, bytes) in self.free.iter_mut().zip(&pages.on) {
            *free += bytes;
        }
    }

    pub fn total(&self, job: usize) -> u64 {
        self.jobs.get(job).map_or(0, |pages| pages.on.iter().sum())
    }

    /// Frees memory of a job, on all nodes in proportion.
    pub fn free_some(&mut self, job: usize, bytes: f64) {
        let Some(pages) = self.jobs.get_mut(job) else { return };
        pages.partial_page -= bytes;
        let total: u64 = pages.on.iter().sum::<u64>().max(1);
        let bytes = ((-pages.partial_page).max(0.0) as u64).min(total);
        for (on, free) in pages.on.iter_mut().zip(&mut self.free) {
            let part = (u128::from(*on) * u128::from(bytes) / u128::from(total)) as u64;
            let part = part / PAGE_BYTES * PAGE_BYTES;
            *on -= part;
            *free += part;
            pages.partial_page += part as f64;
        }
        pages.update(0.0);
    }

    /// Returns the share of a job's memory on each node that has some of it.
    pub fn parts(&self, job: usize) -> &[(usize, f64)] {
        self.jobs.get(job).map_or(&[], |pages| &pages.parts)
    }

    /// Returns the node with CPUs that is nearest to most of a job's memory (`numa_nearest_node`); of several such nodes,
    /// the lowest.
    pub fn home(&self, job: usize, hardware: &Hardware) -> Option<usize> {
        let parts = self.parts(job).iter();
        let most = parts.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
        most.map(|&(node, _)| hardware.nearest_with_cpus(node))
    }

    /// Returns the share of a job's memory on a node.
    pub fn part_on(&self, job: usize, node: usize) -> f64 {
        self.parts(job).iter().find(|(n, _)| *n == node).map_or(0.0, |(_, part)| *part)
    }

    /// Returns the traffic of page migration on a channel, in bytes per nanosecond.
    pub fn migration_bandwidth(&self, channel: usize, hardware: &Hardware) -> f64 {
        match &self.batch {
            Some(batch)
                if migration_channels(hardware, batch.from, batch.to).any(|at| at == channel) =>
            {
                batch.rate
            }
            _ => 0.0,
        }
    }

    /// Allocates up to `bytes` on a node. Returns the number of allocated bytes.
    fn take(&mut self, job: usize, node: usize, bytes: u64) -> u64 {
        let taken = bytes.min(self.free[node]);
        if let Some(pages) = self.jobs.get_mut(job) {
            self.free[node] -= taken;
            pages.on[node] += taken;
            return taken;
        }
        0
    }
}

impl Fluid {
    /// Returns the free memory of a node in bytes.
    pub fn memory_free(&self, node: usize) -> u64 {
        self.pages.free[node]
    }

    /// Returns the reclaimable memory of a node in bytes.
    pub fn memory_reclaimable(&self, node: usize) -> u64 {
        self.pages.reclaimable[node]
    }

    /// Returns the memory of a job on each node in bytes.
    pub fn memory_of(&self, job: usize) -> &[u64] {
        self.pages.jobs.get(job).map_or(&[], |pages| &pages.on)
    }

    /// Checks that used and free memory of each node add up to its size.
    pub fn check_pages(&self) -> Result<(), String> {
        for (node, size) in self.pages.size.iter().enumerate() {
            let jobs: u64 = self.pages.jobs.values().map(|pages| pages.on[node]).sum();
            let (used, free) = (jobs + self.pages.reclaimable[node], self.pages.free[node]);
            if used + free != *size {
                return Err(format!(
                    "node {node}: {used} bytes used and {free} free are not {size}"
                ));
            }
        }
        Ok(())
    }

    /// Allocates memory of a job without first touch, for hypothetical placements.
    pub fn place_memory(&mut self, job: usize, on: &[u64]) {
        for (node, &bytes) in on.iter().enumerate() {
            self.pages.take(job, node, bytes / PAGE_BYTES * PAGE_BYTES);
        }
        self.update_parts(job);
    }

    /// Allocates memory that a job touches first, from a node.
    pub(super) fn touch(&mut self, job: usize, cpu_node: usize, bytes: f64) {
        let Some(pages) = self.pages.jobs.get_mut(job) else { return };
        pages.partial_page += bytes;
        let whole = libm::floor((pages.partial_page + 0.5) / PAGE_BYTES as f64) as u64 * PAGE_BYTES;
        pages.partial_page -= whole as f64;
        if whole == 0 {
            return;
        }
        let left = self.allocate(job, cpu_node, whole);
        let running = self.jobs.get(job).filter(|state| 0 < state.n_running);
        if let Some(generation) = running.map(|state| state.generation).filter(|_| 0 < left) {
            self.failed_allocations.push(FailedAllocation {
                job,
                generation,
                node: cpu_node,
                bytes: left,
            });
        }
    }

    /// Repeats a failed allocation, and OOM-kills its job if the allocation fails again. Kills one job at a time,
    /// because the memory of the job must be free before the next job is checked. A first touch does not kill a job
    /// directly, because it is part of other updates. Returns whether the state changed.
    pub(super) fn oom_kill(&mut self) -> bool {
        let mut has_changed = false;
        while self.oom_killed.is_none() && !self.failed_allocations.is_empty() {
            let FailedAllocation { job, generation, node, bytes } =
                self.failed_allocations.remove(0);
            let running = self
                .jobs
                .get(job)
                .filter(|state| state.generation == generation && 0 < state.n_running);
            if running.is_none() {
                continue;
            }
            has_changed = true;
            if 0 < self.allocate(job, node, bytes) {
                self.kill(job);
                self.oom_killed = Some(job);
                self.notify(HostNotice::JobEnded { job, out_of_memory: true });
            }
        }
        has_changed
    }

    /// Allocates pages of a job by its policy. Returns the number of bytes that could not be allocated.
    fn allocate(&mut self, job: usize, cpu_node: usize, bytes: u64) -> u64 {
        self.update_job(job);
        let rule = self.jobs.get(job).map(|state| state.memory.clone()).unwrap_or_default();
        let left = self.allocate_by(job, cpu_node, &rule, bytes);
        self.update_parts(job);
        left
    }

    /// Allocates pages by a policy. Returns the number of bytes that could not be allocated.
    fn allocate_by(
        &mut self,
        job: usize,
        cpu_node: usize,
        rule: &MemoryPlacement,
        bytes: u64,
    ) -> u64 {
        let first = first_node(rule, cpu_node, &self.hardware);
        let nodes = match rule {
            MemoryPlacement::Interleave(nodes) => self.interleave(job, nodes, bytes),
            _ => vec![(first, bytes)],
        };
        let hardware = self.hardware.clone();
        let mut left = 0;
        for (node, bytes) in nodes {
            let mut rest = bytes;
            // Free memory on any node is used before reclaim.
            for by_reclaim in [false, true] {
                for node in allocation_order(rule, node, &hardware) {
                    if rest == 0 {
                        break;
                    }
                    if by_reclaim {
                        self.pages.reclaim(node, rest);
                    }
                    rest -= self.allocate_on(job, node, rest);
                }
            }
            left += rest;
        }
        left
    }

    /// Returns the shares of the nodes in the memory of a job; before its first page, those of its next pages.
    pub(super) fn memory_parts(&self, job: usize, cpu_node: usize) -> Cow<'_, [(usize, f64)]> {
        match self.pages.parts(job) {
            [] => self.touch_parts(job, cpu_node).into(),
            parts => parts.into(),
        }
    }

    /// Returns the nodes on which the next new pages of a job are allocated, with their shares.
    pub(super) fn touch_parts(&self, job: usize, cpu_node: usize) -> Vec<(usize, f64)> {
        let Some(FluidJob { memory: rule, .. }) = self.jobs.get(job) else { return Vec::new() };
        let nearest = |first: usize| {
            let has_page = |bytes: &[u64]| {
                allocation_order(rule, first, &self.hardware)
                    .find(|&node| PAGE_BYTES <= bytes[node])
            };
            let node = has_page(&self.pages.free).or_else(|| has_page(&self.pages.reclaimable));
            node.unwrap_or(first)
        };
        let MemoryPlacement::Interleave(nodes) = rule else {
            return vec![(nearest(first_node(rule, cpu_node, &self.hardware)), 1.0)];
        };
        let mut parts: Vec<(usize, f64)> = Vec::new();
        for node in nodes.iter().map(|&node| nearest(node)) {
            let share = 1.0 / nodes.len() as f64;
            match parts.iter_mut().find(|part| part.0 == node) {
                Some(part) => part.1 += share,
                None => parts.push((node, share)),
            }
        }
        parts
    }

    fn allocate_on(&mut self, job: usize, node: usize, bytes: u64) -> u64 {
        let taken = self.pages.take(job, node, bytes);
        self.lines[node][1] += taken as f64 / LINE;
        taken
    }

    /// Distributes pages over nodes in turn. Returns the bytes for each node.
    fn interleave(&mut self, job: usize, nodes: &[usize], bytes: u64) -> Vec<(usize, u64)> {
        let Some(pages) = self.pages.jobs.get_mut(job) else { return Vec::new() };
        let n_pages = bytes / PAGE_BYTES;
        let n_nodes = nodes.len() as u64;
        let first = pages.next;
        pages.next = (first + (n_pages % n_nodes) as usize) % nodes.len();
        let bytes_on = |idx: usize| {
            let turn = (idx + nodes.len() - first) % nodes.len();
            let more = u64::from((turn as u64) < n_pages % n_nodes);
            (nodes[idx], (n_pages / n_nodes + more) * PAGE_BYTES)
        };
        (0..nodes.len()).map(bytes_on).collect()
    }

    /// Adds the lines of a job to the counters of the controllers of its pages.
    pub(super) fn count_lines(&mut self, job: usize, cpu_node: usize, reads: f64, writes: f64) {
        let parts = self.pages.parts(job);
        if parts.is_empty() {
            self.lines[cpu_node][0] += reads;
            self.lines[cpu_node][1] += writes;
        }
        for &(node, part) in parts {
            self.lines[node][0] += reads * part;
            self.lines[node][1] += writes * part;
        }
    }

    /// Returns the lines that a controller has read and written since the start.
    pub fn lines(&self, node: usize) -> [f64; 2] {
        self.lines[node]
    }

    /// Queues a page migration.
    pub fn move_pages(&mut self, page_migration: JobPageMigration) {
        self.pages.queue.push_back(JobPageMigration { started: self.now, ..page_migration });
        if self.pages.batch.is_none() {
            self.next_batch();
        }
    }

    /// Handles the end of a batch of a page migration.
    pub(super) fn batch_moved(&mut self) {
        let Some(batch) = self.pages.batch.take() else { return };
        let Some(mut page_migration) = self.pages.queue.pop_front() else { return };
        page_migration.in_kernel += self.now - batch.began;
        page_migration.requested += batch.bytes;
        let has = self.pages.jobs.get(page_migration.job).map_or(0, |pages| pages.on[batch.from]);
        let busy = batch.bytes / PAGE_BYTES * page_migration.busy_permille / 1000 * PAGE_BYTES;
        let bytes = (batch.bytes - busy).min(has);
        self.pages.reclaim(batch.to, bytes);
        let moved = self.move_now(page_migration.job, batch.from, batch.to, bytes);
        self.count_moved_lines((batch.from, batch.to), moved as f64 / LINE);
        for channel in migration_channels(&self.hardware, batch.from, batch.to) {
            self.solver.transfer(channel, moved as f64);
        }
        page_migration.moved += moved;
        page_migration.busy += busy;
        page_migration.no_memory += batch.bytes - busy - moved;
        self.pages.queue.push_front(page_migration);
        self.next_batch();
    }

    /// Counts the lines of moved pages.
    pub(super) fn count_moved_lines(&mut self, (from, to): (usize, usize), lines: f64) {
        self.lines[from][0] += lines;
        self.lines[to][1] += lines;
    }

    /// Moves pages without delay and without traffic. Returns the number of bytes that fit on the target.
    pub(super) fn move_now(&mut self, job: usize, from: usize, to: usize, bytes: u64) -> u64 {
        let moved = bytes.min(self.pages.free[to]) / PAGE_BYTES * PAGE_BYTES;
        self.update_job(job);
        let Some(pages) = self.pages.jobs.get_mut(job) else { return 0 };
        pages.on[from] -= moved;
        pages.on[to] += moved;
        self.pages.free[from] += moved;
        self.pages.free[to] -= moved;
        self.counts.pages_moved_bytes += moved;
        self.update_parts(job);
        moved
    }

    /// Starts the next batch of the first migration in the queue. If no pages remain, ends the migration.
    fn next_batch(&mut self) {
        while let Some(page_migration) = self.pages.queue.front() {
            let bytes_by_node = self.pages.jobs.get(page_migration.job).map(|pages| &pages.on);
            // Pages that failed are not attempted a second time.
            let is_full = 0 < page_migration.no_memory || 0 < page_migration.busy;
            let found = bytes_by_node.and_then(|bytes_by_node| {
                let leaves = |&node: &usize| {
                    node != page_migration.to
                        && page_migration.from.is_none_or(|from| from == node)
                        && 0 < bytes_by_node[node]
                };
                (0..bytes_by_node.len()).find(leaves).map(|node| (node, bytes_by_node[node]))
            });
            let left = page_migration.limit.saturating_sub(page_migration.requested) / PAGE_BYTES
                * PAGE_BYTES;
            match found.filter(|_| 0 < left && !is_full) {
                Some((from, there)) => {
                    let bytes = there.min(left).min(BATCH);
                    let to = page_migration.to;
                    let capacity = |at: usize| self.hardware.channels[at].capacity;
                    let narrowest = migration_channels(&self.hardware, from, to)
                        .map(capacity)
                        .fold(f64::INFINITY, f64::min);
                    let rate = PAGE_MIGRATION_RATE.min(MIGRATION_SHARE_MAX * narrowest);
                    let duration = libm::ceil(bytes as f64 / rate) as u64;
                    let began = self.now;
                    self.pages.batch = Some(MigrationBatch { from, to, rate, bytes, began });
                    self.events.add(self.now + duration, FluidEvent::PagesMoved);
                    self.update_moving();
                    return;
                }
                None => {
                    let job_ended = bytes_by_node.is_none();
                    if let Some(page_migration) = self.pages.queue.pop_front() {
                        self.notify(HostNotice::PagesMoved(JobPageMigration {
                            job_ended,
                            ..page_migration
                        }));
                        self.update_moving();
                    }
                }
            }
        }
    }

    /// Computes the shares of a job's memory after an allocation or a migration. If they have changed, marks the caches of
    /// its tasks to be solved again.
    fn update_parts(&mut self, job: usize) {
        let precision = self.settings.precision;
        let Some(pages) = self.pages.jobs.get_mut(job) else { return };
        let was_empty = pages.parts.is_empty();
        let has_changed = pages.update(precision);
        let Some(state) = self.jobs.get(job).filter(|_| has_changed) else { return };
        for &idx in &state.tasks {
            let task = &self.tasks[idx];
            // The first channels are the memories of the nodes.
            let memories = task.demand.uses.iter().filter(|of| of.channel < self.pages.size.len());
            let solved_for: Vec<_> = memories.map(|of| (of.channel, of.share)).collect();
            // A task that touches further pages uses their nodes, but is solved for all its pages.
            let is_solved = (was_empty || task.activity != TaskActivity::Touching)
                && is_near(&solved_for, self.pages.parts(job), precision);
            if !is_solved {
                let cache = self.hardware.cpus[task.cpu].cache;
                self.tasks[idx].is_changed = true;
                self.solver.touch(cache);
            }
        }
    }
}

/// Returns the channels between the memories of two nodes.
fn migration_channels(hardware: &Hardware, from: usize, to: usize) -> impl Iterator<Item = usize> {
    let links = hardware.path_between(to, from).links;
    [from, to].into_iter().chain(links.into_iter().flatten())
}

/// Returns the node on which a policy other than interleaving allocates first: the nearest of its nodes.
fn first_node(rule: &MemoryPlacement, here: usize, hardware: &Hardware) -> usize {
    match rule {
        MemoryPlacement::Preferred(nodes) | MemoryPlacement::Bind(nodes) => {
            nodes_from(here, hardware).find(|node| nodes.contains(node)).unwrap_or(here)
        }
        MemoryPlacement::FirstTouch | MemoryPlacement::Interleave(_) => here,
    }
}

/// Returns the nodes from which pages are allocated if a node is full, in order, beginning with this node.
fn allocation_order(
    rule: &MemoryPlacement,
    node: usize,
    hardware: &Hardware,
) -> impl Iterator<Item = usize> {
    nodes_from(node, hardware).filter(move |other| match rule {
        MemoryPlacement::Bind(nodes) => *other == node || nodes.contains(other),
        _ => true,
    })
}

/// Returns a node, and the others in its fallback order.
fn nodes_from(node: usize, hardware: &Hardware) -> impl Iterator<Item = usize> {
    std::iter::once(node).chain(hardware.nodes[node].fallback_order.iter().copied())
}
