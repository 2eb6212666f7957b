//! DINO: threads migrate only if classes change, and their pages migrate with them.
//!
//! DI assigns threads by their exact order, so any change of the order migrates some of them, and on a NUMA machine
//! the remote accesses after a migration cost more than the less contended cache gains. DINO decides less often:
//!
//! ```text
//!   class     turtle, devil, super-devil; 7 of 10 intervals must agree              [`classes`]
//!   slots     classes over the caches, back and forth; threads stay where possible  [`class_map`]
//!   pages     migrate to the node of the thread                                     [`page_moves`]
//! ```
//!
//! If all jobs are turtles, or there is only one thread, nothing is done: there is no contention to reduce.
//!
//! A job that starts between two intervals counts as a devil and gets a slot that the map has free for one; no
//! other job migrates for it. Threads and jobs, and which jobs are scheduled: [`crate::memory_intensity`]. Pages
//! of a job whose threads are on several nodes stay.

mod class_map;
mod classes;
mod declaration;
mod page_moves;

use base::{CpuSet, Nanos};
use sched::{
    Action, Cause, CounterEvent, JobState, JobView, PerJob, Plan, Policy, Reason, ReasonCode,
    Snapshot,
};
use topology::DomainChoice;

use crate::memory_intensity::activity::{Activity, activity, release};
use crate::memory_intensity::cache_slots::{CacheSlots, SlotsByJob};
use crate::memory_intensity::rates::misses_of;
use crate::memory_intensity::with_slots;
use crate::notes::{MachineNotes, RateFailures};
use crate::placement;
use class_map::ClassMap;
use classes::{Class, ClassHistory};
pub(crate) use declaration::INFO;
use declaration::{Config, DEALT_BY_CLASS, Keep, Memory, NO_ADDRESS_SAMPLING};
use page_moves::MovedPages;

/// State of the policy.
#[derive(Debug)]
struct Dino {
    config: Config,
    notes: MachineNotes,
    failures: RateFailures,
    history: PerJob<ClassHistory>,
    /// The class of a job at the last assignment; for `keep=core`.
    class_before: PerJob<Option<Class>>,
    moved: PerJob<Option<MovedPages>>,
    noted_partial: bool,
}

impl Policy for Dino {
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        self.notes.add_for_caches(seen, plan);
        self.forget(seen);
        if !placement::can_place(seen) {
            return;
        }
        if self.config.memory == Memory::Partial
            && !std::mem::replace(&mut self.noted_partial, true)
        {
            plan.note(Reason::new(NO_ADDRESS_SAMPLING));
        }
        let is_interval = seen.turn.causes.contains(&Cause::Interval);
        let slots = CacheSlots::of(seen);
        let of_jobs: Vec<(&JobView<'_>, Activity)> = (seen.jobs.iter())
            .map(|job| (job, activity(seen, &slots, job, &self.config.common)))
            .collect();
        if !is_interval {
            return self.assign_new(seen, slots, &of_jobs, plan);
        }
        self.failures.check(self.config.failures, seen, plan);
        for (job, _) in of_jobs.iter().filter(|(_, activity)| *activity == Activity::Busy) {
            self.learn(seen, job);
        }
        self.assign_all(seen, slots, &of_jobs, plan);
        self.request_remaining(seen, plan);
    }

    fn name(&self) -> &str {
        INFO.name
    }

    fn reasons(&self) -> Vec<ReasonCode> {
        INFO.reasons.concat()
    }

    fn interval(&self) -> Option<Nanos> {
        Some(self.config.common.interval)
    }

    fn domains(&self) -> DomainChoice {
        self.config.common.domains
    }
}

impl Dino {
    fn new(config: Config) -> Self {
        let (notes, failures, history, class_before, moved) = Default::default();
        Dino { config, notes, failures, history, class_before, moved, noted_partial: false }
    }

    /// Discards the state of ended jobs, and of earlier runs of a job.
    fn forget(&mut self, seen: &Snapshot<'_>) {
        if seen.turn.causes.contains(&Cause::Ended) {
            self.history.forget_ended(seen);
            self.class_before.forget_ended(seen);
            self.moved.forget_ended(seen);
        }
        for job in seen.jobs.iter().filter(|job| job.state == JobState::Due) {
            *self.history.of(job.job.id) = ClassHistory::default();
            *self.class_before.of(job.job.id) = None;
            *self.moved.of(job.job.id) = None;
        }
    }

    /// Adds a sample. A job whose misses were not counted in this interval keeps its class.
    fn learn(&mut self, seen: &Snapshot<'_>, job: &JobView<'_>) {
        if let Some(sample) = misses_of(seen, job) {
            let Config { limits, hysteresis, .. } = self.config;
            self.history.of(job.job.id).add(sample, limits, hysteresis);
        }
    }

    fn class(&self, job: &JobView<'_>) -> Class {
        self.history.get(job.job.id).map_or(Class::Devil, ClassHistory::class)
    }

    /// How many threads there are of each class, in the order of [`Class::ALL`].
    fn counts(&self, slots: &CacheSlots, jobs: &[&JobView<'_>]) -> [usize; 3] {
        Class::ALL.map(|class| {
            let of_class = jobs.iter().filter(|job| self.class(job) == class);
            of_class.map(|job| slots.n_for(job)).sum()
        })
    }

    /// At the end of an interval: distributes the classes; matching jobs stay, the others fill the remaining slots.
    fn assign_all(
        &mut self,
        seen: &Snapshot<'_>,
        mut slots: CacheSlots,
        of_jobs: &[(&JobView<'_>, Activity)],
        plan: &mut Plan,
    ) {
        let is_scheduled = |activity: Activity| matches!(activity, Activity::New | Activity::Busy);
        let jobs: Vec<&JobView<'_>> = of_jobs
            .iter()
            .filter(|(_, activity)| is_scheduled(*activity))
            .map(|(job, _)| *job)
            .collect();
        let n_threads: usize = jobs.iter().map(|job| slots.n_for(job)).sum();
        if !self.needs_assignment(of_jobs, n_threads) {
            return;
        }
        for (job, activity) in of_jobs {
            match activity {
                Activity::Idle(used) => release(job, *used, plan),
                Activity::Unmanaged => slots.keep(job),
                Activity::New | Activity::Busy => {}
            }
        }
        let counts = self.counts(&slots, &jobs);
        let mut map = ClassMap::new(&slots, counts);
        let mut slots_of = SlotsByJob::default();
        for job in &jobs {
            *slots_of.of(job.job.id) = self.kept(&mut map, &slots, job);
        }
        for own in jobs.iter().filter_map(|job| slots_of.get(job.job.id)) {
            own.iter().for_each(|cpu| slots.take(cpu));
        }
        self.fill(&mut slots, map, &jobs, &mut slots_of, |_| true);
        self.request(seen, (&jobs, &slots_of, counts), plan);
        for job in &jobs {
            *self.class_before.of(job.job.id) = Some(self.class(job));
        }
    }

    /// Whether contention is possible: turtles cause none, and a single thread has no neighbours.
    fn needs_assignment(&self, of_jobs: &[(&JobView<'_>, Activity)], n_threads: usize) -> bool {
        let is_calm = |(job, activity): &(&JobView<'_>, Activity)| match activity {
            Activity::New => false,
            Activity::Busy => self.class(job) == Class::Turtle,
            Activity::Idle(_) | Activity::Unmanaged => true,
        };
        let is_new = of_jobs.iter().any(|(_, activity)| *activity == Activity::New);
        !of_jobs.iter().all(is_calm) && (2 <= n_threads || is_new)
    }

    /// The slots that a job keeps.
    fn kept(&self, map: &mut ClassMap, slots: &CacheSlots, job: &JobView<'_>) -> CpuSet {
        let class = self.class(job);
        let has_class = self.class_before.get(job.job.id).copied().flatten() == Some(class);
        let Some(placed) = job.placed.filter(|_| job.state == JobState::Running) else {
            return CpuSet::new();
        };
        let mine = placed.iter().filter(|&cpu| job.allowed.contains(cpu));
        let kept = mine.filter(|&cpu| match self.config.keep {
            Keep::Cache => map.keep_in_cache(slots, cpu, class),
            Keep::Core => has_class && map.keep_on_core(slots, cpu, class),
        });
        kept.take(slots.n_for(job)).collect()
    }

    /// Between two intervals: jobs without slots get free slots of their class in the map, else the slots with
    /// the fewest threads. All other jobs keep their slots.
    fn assign_new(
        &mut self,
        seen: &Snapshot<'_>,
        mut slots: CacheSlots,
        of_jobs: &[(&JobView<'_>, Activity)],
        plan: &mut Plan,
    ) {
        let is = |activity: Activity| move |one: &&(&JobView<'_>, Activity)| one.1 == activity;
        let jobs_that =
            |activity: Activity| of_jobs.iter().filter(is(activity)).map(|(job, _)| *job);
        let new: Vec<&JobView<'_>> = jobs_that(Activity::New).collect();
        if new.is_empty() {
            return;
        }
        jobs_that(Activity::Unmanaged).for_each(|job| slots.keep(job));
        let busy: Vec<&JobView<'_>> = jobs_that(Activity::Busy).collect();
        let counts = self.counts(&slots, &[busy.as_slice(), new.as_slice()].concat());
        let mut map = ClassMap::new(&slots, counts);
        for job in &busy {
            for cpu in job.placed.iter().flat_map(|placed| placed.iter()) {
                map.keep_in_cache(&slots, cpu, self.class(job));
            }
        }
        let still = of_jobs.iter().filter(|(_, s)| matches!(s, Activity::Busy | Activity::Idle(_)));
        still.for_each(|(job, _)| slots.keep(job));
        let taken = slots.clone();
        let mut slots_of = SlotsByJob::default();
        self.fill(&mut slots, map, &new, &mut slots_of, |cpu| taken.n_on(cpu) == 0);
        self.request(seen, (&new, &slots_of, counts), plan);
    }

    /// Assigns missing slots in list order: of the class of the job, else of any class, else the CPU with the
    /// fewest threads.
    fn fill(
        &self,
        slots: &mut CacheSlots,
        mut map: ClassMap,
        jobs: &[&JobView<'_>],
        slots_of: &mut SlotsByJob,
        could: impl Fn(base::CpuId) -> bool,
    ) {
        for is_own_class in [true, false] {
            for job in jobs {
                let class = Some(self.class(job)).filter(|_| is_own_class);
                let own = slots_of.of(job.job.id);
                while own.len() < slots.n_for(job) {
                    let Some(cpu) = map.fill(class, (job.allowed, own), &could) else { break };
                    slots.take(cpu);
                    own.insert(cpu);
                }
            }
        }
        for job in jobs {
            let own = slots_of.of(job.job.id);
            while own.len() < slots.n_for(job) {
                let Some(cpu) = slots.assign_next(job.allowed, own) else { break };
                own.insert(cpu);
            }
        }
    }

    /// Requests the placement of every job whose slots changed.
    fn request(
        &mut self,
        seen: &Snapshot<'_>,
        (jobs, slots_of, counts): (&[&JobView<'_>], &SlotsByJob, [usize; 3]),
        plan: &mut Plan,
    ) {
        for job in jobs {
            let Some(cpus) = slots_of.get(job.job.id).filter(|cpus| !cpus.is_empty()) else {
                continue;
            };
            if job.placed == Some(cpus) {
                continue;
            }
            let history = self.history.of(job.job.id);
            let reason = Reason::new(DEALT_BY_CLASS)
                .with("class", history.class().name().to_owned())
                .with("basis", history.basis(self.config.limits))
                .with("n_super_devils", counts[0].to_string())
                .with("n_devils", counts[1].to_string())
                .with("n_turtles", counts[2].to_string())
                .with("n_domains", seen.domains.len() as u64);
            let tier = history.is_known().then(|| seen.tiers.get(CounterEvent::LlcMisses).name());
            let reason = with_slots(reason.with_some("tier", tier), seen, job, cpus);
            plan.request(job.job.id, Action::Place(cpus.clone()), reason);
            self.move_pages(seen, job, cpus, plan);
        }
    }
}
