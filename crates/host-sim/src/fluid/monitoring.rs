//! Traffic and occupancy of caches, as the resctrl file system of Linux reports them: per cache, and per cache and job.
//!
//! The traffic is that between the cache and all memory: misses, prefetches, write-backs, first touch, and pages that NUMA
//! balancing migrates in the time of a task. Pages that `move_pages` migrates belong to no job. The counters are exact, and
//! are kept only on request.

use std::collections::BTreeMap;

use super::tasks::Uncounted;
use super::{Fluid, TaskState};
use crate::physics::LINE;

/// Bytes between caches and memory since the start: of all memory, and of the memory of the node of the CPU.
#[derive(Clone, Debug, Default)]
pub(super) struct TrafficMonitor {
    by_cache: BTreeMap<usize, [f64; 2]>,
    by_job: BTreeMap<(usize, usize), [f64; 2]>,
}

impl TrafficMonitor {
    pub fn remove_job(&mut self, job: usize) {
        self.by_job.retain(|(owner, _), _| *owner != job);
    }
}

impl Fluid {
    /// Keeps the traffic of caches and jobs from now on.
    pub fn monitor_traffic(&mut self) {
        self.traffic.get_or_insert_default();
    }

    /// Adds the traffic of a task since its last update, with the lines that it has read and written in `lines`.
    pub(super) fn monitor_task(&mut self, idx: usize, uncounted: &Uncounted, lines: f64) {
        let Some(mut monitor) = self.traffic.take() else { return };
        let (job, cpu) = (self.tasks[idx].job, self.hardware.cpus[self.tasks[idx].cpu]);
        let local_share = |parts: &[(usize, f64)]| match parts.is_empty() {
            true => 1.0,
            false => {
                parts.iter().filter(|(node, _)| *node == cpu.node).map(|(_, share)| share).sum()
            }
        };
        let (mut total, mut local) =
            (lines * LINE, lines * LINE * local_share(self.pages.parts(job)));
        if 0.0 < uncounted.touched_bytes {
            total += uncounted.touched_bytes;
            local += uncounted.touched_bytes * local_share(&self.touch_parts(job, cpu.node));
        }
        if 0.0 < uncounted.moved_bytes {
            // A page is read on one node and written on another.
            let (from, to) = self.tasks[idx].moving_between;
            total += 2.0 * uncounted.moved_bytes;
            local += uncounted.moved_bytes
                * [from, to].iter().filter(|node| **node == cpu.node).count() as f64;
        }
        for bytes in [
            monitor.by_cache.entry(cpu.cache).or_default(),
            monitor.by_job.entry((job, cpu.cache)).or_default(),
        ] {
            *bytes = [bytes[0] + total, bytes[1] + local];
        }
        self.traffic = Some(monitor);
    }

    /// Returns the total and the local bytes of a cache since the start; `None` if they are not kept.
    pub fn cache_traffic(&self, cache: usize) -> Option<[f64; 2]> {
        Some(self.traffic.as_ref()?.by_cache.get(&cache).copied().unwrap_or_default())
    }

    /// Returns the total and the local bytes of a job in a cache since its start; `None` if they are not kept.
    pub fn job_traffic(&self, job: usize, cache: usize) -> Option<[f64; 2]> {
        Some(self.traffic.as_ref()?.by_job.get(&(job, cache)).copied().unwrap_or_default())
    }

    /// Returns the bytes that each job occupies in each cache. Tasks that sleep keep the lines that are not yet replaced. If
    /// the sum exceeds the size of the cache, because running programs have not yet filled their part, all are reduced by
    /// the same factor.
    pub fn occupancies(&self) -> BTreeMap<(usize, usize), f64> {
        let mut by_job: BTreeMap<(usize, usize), f64> = BTreeMap::new();
        let mut sums = vec![0.0; self.hardware.caches.len()];
        for task in self.tasks.iter().filter(|task| task.state != TaskState::Ended) {
            let Some(cache) = task.cached.cache else { continue };
            let bytes = task.own_occupancy() * self.kept_share(task);
            *by_job.entry((task.job, cache)).or_default() += bytes;
            sums[cache] += bytes;
        }
        for (&(_, cache), bytes) in &mut by_job {
            *bytes *= (self.hardware.caches[cache].bytes / sums[cache]).min(1.0);
        }
        by_job
    }
}
