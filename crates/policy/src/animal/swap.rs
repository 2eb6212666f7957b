//! A pair of threads on two caches that would get on better the other way round.
//!
//! One is drawn by lot, then its partner among those that it may change places with. Nothing is searched
//! for: that is the published rule, and with the seed it is the same in every run.

use base::{CpuId, CpuSet, JobId, Rng};
use sched::{Action, CounterEvent, JobView, Plan, Reason, ReasonCode, Snapshot};

use super::Animals;
use super::classes::Company;
use crate::common::cpus_label;
use crate::intensity::seats::Seats;

/// A thread on its seat.
#[derive(Clone, Copy)]
pub(super) struct Seated<'s> {
    pub job: &'s JobView<'s>,
    pub placed: &'s CpuSet,
    pub cpu: CpuId,
    pub cache: usize,
}

impl Seated<'_> {
    fn could_go_to(&self, other: &Seated<'_>) -> bool {
        self.job.allowed.contains(other.cpu) && !self.placed.contains(other.cpu)
    }

    fn could_swap(&self, other: &Seated<'_>) -> bool {
        let is_other = self.cache != other.cache && self.job.job.id != other.job.job.id;
        is_other && self.could_go_to(other) && other.could_go_to(self)
    }

    /// The job's CPUs with another instead of this one.
    fn instead(&self, cpu: CpuId) -> CpuSet {
        let mut cpus = self.placed.clone();
        cpus.remove(self.cpu);
        cpus.insert(cpu);
        cpus
    }
}

/// All threads that may change places. One of a job that floats over more CPUs than it has threads has no
/// seat to change.
pub(super) fn all_seated<'s>(
    seats: &Seats,
    jobs: impl Iterator<Item = &'s JobView<'s>>,
) -> Vec<Seated<'s>> {
    let placed = jobs.filter_map(|job| Some((job, job.placed?)));
    let seated = placed.filter(|(job, placed)| placed.len() <= job.job.threads as usize);
    let each = seated.flat_map(|(job, placed)| {
        let seat = |cpu| Some(Seated { job, placed, cpu, cache: seats.cache_of(cpu)? });
        placed.iter().filter_map(seat).collect::<Vec<_>>()
    });
    each.collect()
}

fn draw<'a, 's>(rng: &mut Rng, from: &[&'a Seated<'s>]) -> Option<&'a Seated<'s>> {
    let n = from.len() as u64;
    (n != 0).then(|| from[rng.below(n) as usize])
}

impl Animals {
    /// Draws pairs, and swaps those that gain by it. Nobody is swapped twice in one plan.
    pub(super) fn swap_pairs(
        &mut self,
        seen: &Snapshot<'_>,
        seated: &[Seated<'_>],
        company: &mut Company,
        plan: &mut Plan,
    ) {
        let mut swapped: Vec<JobId> = Vec::new();
        for _ in 0..self.config.pairs {
            let rests = |one: &&Seated<'_>| !swapped.contains(&one.job.job.id);
            let free: Vec<&Seated<'_>> = seated.iter().filter(rests).collect();
            let Some(one) = draw(&mut self.rng, &free) else { return };
            let partners: Vec<&Seated<'_>> =
                free.iter().copied().filter(|other| one.could_swap(other)).collect();
            let Some(other) = draw(&mut self.rng, &partners) else { continue };
            let (before, after) = self.both_ways(one, other, company);
            if after < before {
                swapped.extend([one.job.job.id, other.job.job.id]);
                self.ask_swap(seen, (one, other), (before, after), plan);
                self.ask_swap(seen, (other, one), (before, after), plan);
                self.swap(one, other, company);
            }
        }
    }

    /// The penalties of a pair as it is, and the other way round.
    fn both_ways(&self, one: &Seated<'_>, other: &Seated<'_>, company: &Company) -> (u64, u64) {
        let (a, b) = (self.animal(one.job), self.animal(other.job));
        let mut without = company.clone();
        without.leave(one.cache, a);
        without.leave(other.cache, b);
        let sum = |of_a, of_b| without.penalty(of_a, a) + without.penalty(of_b, b);
        (sum(one.cache, other.cache), sum(other.cache, one.cache))
    }

    fn swap(&self, one: &Seated<'_>, other: &Seated<'_>, company: &mut Company) {
        let (a, b) = (self.animal(one.job), self.animal(other.job));
        company.leave(one.cache, a);
        company.leave(other.cache, b);
        company.enter(other.cache, a);
        company.enter(one.cache, b);
    }

    fn ask_swap(
        &mut self,
        seen: &Snapshot<'_>,
        (one, other): (&Seated<'_>, &Seated<'_>),
        (before, after): (u64, u64),
        plan: &mut Plan,
    ) {
        let cpus = one.instead(other.cpu);
        let reason = Reason::new(ReasonCode::AnimalsSwapped)
            .with("animal", self.animal(one.job).name().to_owned())
            .with("basis", self.shown.of(one.job.job.id).basis())
            .with("from", seen.domains.label(one.cache))
            .with("other", other.job.job.name.clone())
            .with("other_animal", self.animal(other.job).name().to_owned())
            .with("to", seen.domains.label(other.cache))
            .with("before", before.to_string())
            .with("after", after.to_string())
            .with("cpus", cpus_label(&cpus))
            .with("tier", seen.tiers.get(CounterEvent::LlcMisses).to_string());
        plan.request(one.job.job.id, Action::Place(cpus), reason);
    }
}
