//! Swaps of random pairs of threads on two caches.
//!
//! A thread is drawn at random. Its partner is drawn from the threads with which the first thread may swap. As
//! published, the policy does not search for the best pair. The same seed gives the same pairs.

use base::{CpuId, CpuSet, JobId, Rng};
use sched::{Action, CounterEvent, JobView, Plan, Reason, Snapshot};

use super::Animals;
use super::classes::AnimalCounts;
use super::declaration::ANIMALS_SWAPPED;
use crate::memory_intensity::cache_slots::CacheSlots;
use crate::placement::cpus_label;

/// A thread and its slot.
#[derive(Clone, Copy)]
pub(super) struct ThreadSlot<'s> {
    pub job: &'s JobView<'s>,
    pub placed: &'s CpuSet,
    pub cpu: CpuId,
    pub cache: usize,
}

impl ThreadSlot<'_> {
    fn can_move_to(&self, other: &ThreadSlot<'_>) -> bool {
        self.job.allowed.contains(other.cpu) && !self.placed.contains(other.cpu)
    }

    fn can_swap(&self, other: &ThreadSlot<'_>) -> bool {
        let is_other = self.cache != other.cache && self.job.job.id != other.job.job.id;
        is_other && self.can_move_to(other) && other.can_move_to(self)
    }

    /// Returns the CPUs of the job, in which `cpu` replaces the CPU of the thread.
    fn with_cpu(&self, cpu: CpuId) -> CpuSet {
        let mut cpus = self.placed.clone();
        cpus.remove(self.cpu);
        cpus.insert(cpu);
        cpus
    }
}

/// Returns all threads with a slot. A job bound to more CPUs than it has threads has no slots.
pub(super) fn slots_of_threads<'s>(
    slots: &CacheSlots,
    jobs: impl Iterator<Item = &'s JobView<'s>>,
) -> Vec<ThreadSlot<'s>> {
    let placed = jobs.filter_map(|job| Some((job, job.placed?)));
    let exact = placed.filter(|(job, placed)| placed.len() <= job.job.threads as usize);
    let each = exact.flat_map(|(job, placed)| {
        let slot = |cpu| Some(ThreadSlot { job, placed, cpu, cache: slots.cache_of(cpu)? });
        placed.iter().filter_map(slot).collect::<Vec<_>>()
    });
    each.collect()
}

fn draw<'a, 's>(rng: &mut Rng, from: &[&'a ThreadSlot<'s>]) -> Option<&'a ThreadSlot<'s>> {
    let n = from.len() as u64;
    (n != 0).then(|| from[rng.below(n) as usize])
}

impl Animals {
    /// Draws pairs, and swaps a pair if the swap lowers the sum of penalties. A job is swapped at most once per plan.
    pub(super) fn swap_pairs(
        &mut self,
        snapshot: &Snapshot<'_>,
        threads: &[ThreadSlot<'_>],
        counts: &mut AnimalCounts,
        plan: &mut Plan,
    ) {
        let mut swapped: Vec<JobId> = Vec::new();
        for _ in 0..self.config.pairs {
            let is_unswapped = |one: &&ThreadSlot<'_>| !swapped.contains(&one.job.job.id);
            let free: Vec<&ThreadSlot<'_>> = threads.iter().filter(is_unswapped).collect();
            let Some(one) = draw(&mut self.rng, &free) else { return };
            let partners: Vec<&ThreadSlot<'_>> =
                free.iter().copied().filter(|other| one.can_swap(other)).collect();
            let Some(other) = draw(&mut self.rng, &partners) else { continue };
            let (before, after) = self.penalties(one, other, counts);
            if after < before {
                swapped.extend([one.job.job.id, other.job.job.id]);
                self.request_swap(snapshot, (one, other), (before, after), plan);
                self.request_swap(snapshot, (other, one), (before, after), plan);
                self.swap(one, other, counts);
            }
        }
    }

    /// Returns the sum of penalties of a pair, before and after a swap.
    fn penalties(
        &self,
        one: &ThreadSlot<'_>,
        other: &ThreadSlot<'_>,
        counts: &AnimalCounts,
    ) -> (u64, u64) {
        let (a, b) = (self.animal(one.job), self.animal(other.job));
        let mut without = counts.clone();
        without.remove(one.cache, a);
        without.remove(other.cache, b);
        let sum = |of_a, of_b| without.penalty(of_a, a) + without.penalty(of_b, b);
        (sum(one.cache, other.cache), sum(other.cache, one.cache))
    }

    fn swap(&self, one: &ThreadSlot<'_>, other: &ThreadSlot<'_>, counts: &mut AnimalCounts) {
        let (a, b) = (self.animal(one.job), self.animal(other.job));
        counts.remove(one.cache, a);
        counts.remove(other.cache, b);
        counts.add(other.cache, a);
        counts.add(one.cache, b);
    }

    fn request_swap(
        &mut self,
        snapshot: &Snapshot<'_>,
        (one, other): (&ThreadSlot<'_>, &ThreadSlot<'_>),
        (before, after): (u64, u64),
        plan: &mut Plan,
    ) {
        let cpus = one.with_cpu(other.cpu);
        let history = self.history.get_or_default(one.job.job.id);
        let reason = history
            .with_basis(Reason::new(ANIMALS_SWAPPED))
            .with("animal", self.animal(one.job).name())
            .with("from", snapshot.domains.label(one.cache))
            .with("other", other.job.job.name.clone())
            .with("other_animal", self.animal(other.job).name())
            .with("to", snapshot.domains.label(other.cache))
            .with("before", before.to_string())
            .with("after", after.to_string())
            .with("cpus", cpus_label(&cpus))
            .with("tier", snapshot.tiers.get(CounterEvent::LlcMisses).to_string());
        plan.request(one.job.job.id, Action::Place(cpus), reason);
    }
}
