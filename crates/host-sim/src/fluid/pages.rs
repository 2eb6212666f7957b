//! Where memory lies: first touch, spill, moves. Of no byte is anything lost or counted twice.

use std::collections::VecDeque;

use super::by_job::ByJob;
use super::events::Event;
use super::jobs::MemoryRule;
use super::{Fluid, News};
use crate::hardware::Hardware;

/// Bytes of a page.
const PAGE: u64 = 4096;
/// Lines of a page: what a controller counts for it when it is moved or touched.
const LINES_PER_PAGE: f64 = 64.0;
/// Bytes per nanosecond that the mover moves: about a gigabyte a second, as the kernel's `move_pages` does on servers of the last
/// years with pages of 4 KiB. Guessed.
pub(super) const MOVE_RATE: f64 = 1.0;
/// Bytes that are moved before the mover looks again.
const BATCH: u64 = 64 << 20;

/// A move of a job's pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageMove {
    /// Whose.
    pub job: usize,
    /// Thousandths of the pages that are in use and stay.
    pub busy_permille: u64,
    /// Only what lies there.
    pub from: Option<usize>,
    /// Where to.
    pub to: usize,
    /// At most this much.
    pub limit: u64,
    /// What was found to be moved, within the limit.
    pub requested: u64,
    /// What was moved.
    pub moved: u64,
    /// What did not fit on the target.
    pub no_memory: u64,
    /// What was refused as in use.
    pub busy: u64,
    /// When it was begun, in nanoseconds.
    pub since: u64,
    /// Nanoseconds inside the calls that move.
    pub in_kernel: u64,
    /// The job ended meanwhile.
    pub job_ended: bool,
}

/// The memory of all jobs.
#[derive(Clone, Debug, Default)]
pub(super) struct Pages {
    size: Vec<u64>,
    free: Vec<u64>,
    /// What the kernel and files held when the run began, and what it takes back when nothing is free.
    held: Vec<u64>,
    jobs: ByJob<JobPages>,
    queue: VecDeque<PageMove>,
    /// The batch that is being moved now.
    batch: Option<Batch>,
}

/// A job that touched memory for which there was no room.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doomed {
    job: usize,
    life: u64,
    /// The node that it touched it from, and bytes that are missing.
    node: usize,
    bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Batch {
    from: usize,
    to: usize,
    bytes: u64,
    began: u64,
}

#[derive(Clone, Debug, Default)]
struct JobPages {
    on: Vec<u64>,
    /// Bytes touched that are less than a page yet.
    rest: f64,
    /// Whose turn it is to hold the next page of striped memory.
    next: usize,
    /// The part of it on each node that holds some.
    parts: Vec<(usize, f64)>,
}

impl JobPages {
    fn update(&mut self) {
        let total: u64 = self.on.iter().sum();
        let each = self.on.iter().enumerate().filter(|(_, bytes)| 0 < **bytes);
        self.parts = each.map(|(node, bytes)| (node, *bytes as f64 / total as f64)).collect();
    }
}

impl Pages {
    /// Of a machine of whose nodes something else holds these parts.
    pub fn new(hardware: &Hardware, held: impl Fn(usize) -> f64) -> Self {
        let size: Vec<u64> =
            hardware.nodes.iter().map(|node| node.memory.0 / PAGE * PAGE).collect();
        let part = |(node, size): (usize, &u64)| (*size as f64 * held(node)) as u64 / PAGE * PAGE;
        let held: Vec<u64> = size.iter().enumerate().map(part).collect();
        let free = size.iter().zip(&held).map(|(size, held)| size - held).collect();
        Pages { free, held, size, ..Pages::default() }
    }

    /// Makes room for so many bytes on a node, as far as what is held there can be taken back.
    fn reclaim(&mut self, node: usize, bytes: u64) {
        let taken = bytes.saturating_sub(self.free[node]).min(self.held[node]);
        self.held[node] -= taken;
        self.free[node] += taken;
    }

    pub fn begin(&mut self, job: usize) {
        let pages = JobPages { on: vec![0; self.size.len()], ..JobPages::default() };
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

    /// Gives some of it back, from all nodes alike.
    pub fn give_back(&mut self, job: usize, bytes: u64) {
        let Some(pages) = self.jobs.get_mut(job) else { return };
        let total: u64 = pages.on.iter().sum::<u64>().max(1);
        for (on, free) in pages.on.iter_mut().zip(&mut self.free) {
            let part = (u128::from(*on) * u128::from(bytes) / u128::from(total)) as u64;
            let part = part / PAGE * PAGE;
            *on -= part;
            *free += part;
        }
        pages.update();
    }

    /// The part of a job's memory on each node that holds some.
    pub fn parts(&self, job: usize) -> &[(usize, f64)] {
        self.jobs.get(job).map_or(&[], |pages| &pages.parts)
    }

    /// Bytes that are being moved each nanosecond, by node.
    pub fn moving(&self, node: usize) -> f64 {
        match &self.batch {
            Some(batch) if batch.from == node || batch.to == node => MOVE_RATE,
            _ => 0.0,
        }
    }

    /// Takes up to so many bytes on a node; returns how many.
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
    /// Bytes of free memory on a node.
    pub fn memory_free(&self, node: usize) -> u64 {
        self.pages.free[node]
    }

    /// Bytes on a node that the kernel can take back.
    pub fn memory_reclaimable(&self, node: usize) -> u64 {
        self.pages.held[node]
    }

    /// Bytes of a job on each node.
    pub fn memory_of(&self, job: usize) -> &[u64] {
        self.pages.jobs.get(job).map_or(&[], |pages| &pages.on)
    }

    /// Checks that of each node what is held and what is free make its size.
    pub fn check_pages(&self) -> Result<(), String> {
        for (node, size) in self.pages.size.iter().enumerate() {
            let jobs: u64 = self.pages.jobs.values().map(|pages| pages.on[node]).sum();
            let (held, free) = (jobs + self.pages.held[node], self.pages.free[node]);
            if held + free != *size {
                return Err(format!(
                    "node {node}: {held} bytes held and {free} free are not {size}"
                ));
            }
        }
        Ok(())
    }

    /// A job has so many bytes on each node without having touched them: for what-if reckoning.
    pub fn lay_as(&mut self, job: usize, on: &[u64]) {
        for (node, &bytes) in on.iter().enumerate() {
            self.pages.take(job, node, bytes / PAGE * PAGE);
        }
        if let Some(pages) = self.pages.jobs.get_mut(job) {
            pages.update();
        }
        self.touch_solver(job);
    }

    /// A job touches memory for the first time from a node.
    pub(super) fn touch(&mut self, job: usize, cpu_node: usize, bytes: f64) {
        let Some(pages) = self.pages.jobs.get_mut(job) else { return };
        pages.rest += bytes;
        let whole = libm::floor((pages.rest + 0.5) / PAGE as f64) as u64 * PAGE;
        pages.rest -= whole as f64;
        if whole == 0 {
            return;
        }
        let left = self.lay_down(job, cpu_node, whole);
        let alive = self.jobs.get(job).filter(|state| 0 < state.n_alive);
        if let Some(life) = alive.map(|state| state.life).filter(|_| 0 < left) {
            self.doomed.push(Doomed { job, life, node: cpu_node, bytes: left });
        }
    }

    /// Kills a job that found no room for its memory, if there is none now either. One at a time: what it
    /// held must be free before somebody else is judged. Touching itself kills nobody, since it is found out
    /// in the middle of everything else. Returns whether anything changed.
    pub(super) fn reap(&mut self) -> bool {
        let mut has_changed = false;
        while self.dying.is_none() && !self.doomed.is_empty() {
            let Doomed { job, life, node, bytes } = self.doomed.remove(0);
            let alive = self.jobs.get(job).filter(|its| its.life == life && 0 < its.n_alive);
            if alive.is_none() {
                continue;
            }
            has_changed = true;
            if 0 < self.lay_down(job, node, bytes) {
                self.kill(job);
                self.dying = Some(job);
                self.tell(News::JobEnded { job, out_of_memory: true });
            }
        }
        has_changed
    }

    /// Lays pages of a job down by its own rule; returns what fitted nowhere.
    fn lay_down(&mut self, job: usize, cpu_node: usize, bytes: u64) -> u64 {
        self.settle_job(job);
        let rule = self.jobs.get(job).map(|state| state.memory.clone()).unwrap_or_default();
        let left = self.lay(job, cpu_node, &rule, bytes);
        if let Some(pages) = self.pages.jobs.get_mut(job) {
            pages.update();
        }
        self.touch_solver(job);
        left
    }

    /// Lays pages down as the rule says; returns what fitted nowhere.
    fn lay(&mut self, job: usize, cpu_node: usize, rule: &MemoryRule, bytes: u64) -> u64 {
        let (nodes, may_spill) = match rule {
            MemoryRule::Interleave(nodes) => (self.stripe(job, nodes, bytes), true),
            MemoryRule::FirstTouch => (vec![(cpu_node, bytes)], true),
            MemoryRule::Preferred(nodes) => {
                (vec![(nearest(nodes, cpu_node, &self.hardware), bytes)], true)
            }
            MemoryRule::Bind(nodes) => {
                (vec![(nearest(nodes, cpu_node, &self.hardware), bytes)], false)
            }
        };
        let only: &[usize] = match rule {
            MemoryRule::Bind(nodes) => nodes,
            _ => &[],
        };
        let mut left = 0;
        for (node, bytes) in nodes {
            let hardware = self.hardware.clone();
            let others = hardware.nodes[node].nearest.iter().copied();
            let others = others.filter(|other| may_spill || only.contains(other));
            let order: Vec<usize> = std::iter::once(node).chain(others).collect();
            let mut rest = bytes;
            // What is free anywhere comes before what has to be taken back.
            for takes_back in [false, true] {
                for &node in &order {
                    if takes_back {
                        self.pages.reclaim(node, rest);
                    }
                    rest -= self.put(job, node, rest);
                }
            }
            left += rest;
        }
        left
    }

    fn put(&mut self, job: usize, node: usize, bytes: u64) -> u64 {
        let taken = self.pages.take(job, node, bytes);
        let lines = taken as f64 / PAGE as f64 * LINES_PER_PAGE;
        self.lines[node][1] += lines;
        taken
    }

    /// Pages in turn over some nodes.
    fn stripe(&mut self, job: usize, nodes: &[usize], bytes: u64) -> Vec<(usize, u64)> {
        let Some(pages) = self.pages.jobs.get_mut(job) else { return Vec::new() };
        let n_pages = bytes / PAGE;
        let n_nodes = nodes.len() as u64;
        let first = pages.next;
        pages.next = (first + (n_pages % n_nodes) as usize) % nodes.len();
        let of = |idx: usize| {
            let turn = (idx + nodes.len() - first) % nodes.len();
            let more = u64::from((turn as u64) < n_pages % n_nodes);
            (nodes[idx], (n_pages / n_nodes + more) * PAGE)
        };
        (0..nodes.len()).map(of).collect()
    }

    /// Lines that a job read and wrote, charged to the controllers that hold its pages.
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

    /// Lines that each controller has read and written.
    pub fn lines(&self, node: usize) -> [f64; 2] {
        self.lines[node]
    }

    /// Begins a move of pages, behind those that were asked for before.
    pub fn move_pages(&mut self, wish: PageMove) {
        self.pages.queue.push_back(PageMove { since: self.now, ..wish });
        if self.pages.batch.is_none() {
            self.next_batch();
        }
    }

    /// A batch has been moved.
    pub(super) fn mover_step(&mut self) {
        let Some(batch) = self.pages.batch.take() else { return };
        let Some(mut wish) = self.pages.queue.pop_front() else { return };
        wish.in_kernel += self.now - batch.began;
        wish.requested += batch.bytes;
        let has = self.pages.jobs.get(wish.job).map_or(0, |pages| pages.on[batch.from]);
        let busy = batch.bytes / PAGE * wish.busy_permille / 1000 * PAGE;
        let bytes = (batch.bytes - busy).min(has);
        self.pages.reclaim(batch.to, bytes);
        let moved = self.shift(wish.job, batch.from, batch.to, bytes);
        wish.moved += moved;
        wish.busy += busy;
        wish.no_memory += batch.bytes - busy - moved;
        self.pages.queue.push_front(wish);
        self.next_batch();
    }

    /// Moves pages at once; returns how many bytes fitted.
    pub(super) fn shift(&mut self, job: usize, from: usize, to: usize, bytes: u64) -> u64 {
        let moved = bytes.min(self.pages.free[to]) / PAGE * PAGE;
        self.settle_job(job);
        let Some(pages) = self.pages.jobs.get_mut(job) else { return 0 };
        pages.on[from] -= moved;
        pages.on[to] += moved;
        pages.update();
        self.pages.free[from] += moved;
        self.pages.free[to] -= moved;
        let lines = moved as f64 / PAGE as f64 * LINES_PER_PAGE;
        self.lines[from][0] += lines;
        self.lines[to][1] += lines;
        self.counts.pages_moved_bytes += moved;
        self.touch_solver(job);
        moved
    }

    /// The next batch of the first move, or its end.
    fn next_batch(&mut self) {
        while let Some(wish) = self.pages.queue.front() {
            let on = self.pages.jobs.get(wish.job).map(|pages| &pages.on);
            // What was refused once is not asked for again.
            let is_full = 0 < wish.no_memory || 0 < wish.busy;
            let found = on.and_then(|on| {
                let leaves = |&node: &usize| {
                    node != wish.to && wish.from.is_none_or(|from| from == node) && 0 < on[node]
                };
                (0..on.len()).find(leaves).map(|node| (node, on[node]))
            });
            let left = wish.limit.saturating_sub(wish.requested) / PAGE * PAGE;
            match found.filter(|_| 0 < left && !is_full) {
                Some((from, there)) => {
                    let bytes = there.min(left).min(BATCH);
                    let takes = libm::ceil(bytes as f64 / MOVE_RATE) as u64;
                    let to = wish.to;
                    self.pages.batch = Some(Batch { from, to, bytes, began: self.now });
                    self.events.add(self.now + takes, Event::Mover);
                    self.update_moving();
                    return;
                }
                None => {
                    let job_ended = on.is_none();
                    if let Some(wish) = self.pages.queue.pop_front() {
                        self.tell(News::Moved(PageMove { job_ended, ..wish }));
                        self.update_moving();
                    }
                }
            }
        }
    }

    /// Whether moves are under way.
    pub fn is_moving(&self) -> bool {
        !self.pages.queue.is_empty()
    }

    /// A job's memory lies elsewhere: its tasks run at another speed.
    fn touch_solver(&mut self, job: usize) {
        let cpus: Vec<usize> = self.tasks_of(job).map(|task| task.cpu).collect();
        for cpu in cpus {
            let cache = self.hardware.cpus[cpu].cache;
            self.solver.touch(cache);
        }
    }
}

/// The node itself if it is among them, else the nearest that is.
fn nearest(nodes: &[usize], here: usize, hardware: &Hardware) -> usize {
    if nodes.contains(&here) {
        return here;
    }
    let near = hardware.nodes[here].nearest.iter().copied();
    near.into_iter().find(|node| nodes.contains(node)).unwrap_or(here)
}
