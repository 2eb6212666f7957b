//! DINO: threads migrate only if classes change, and their pages migrate with them.
//!
//! DI assigns threads by their exact order, so any change of the order migrates threads. On a NUMA machine, the remote
//! accesses after a migration cost more than a less contended cache gains. DINO migrates less often:
//!
//! ```text
//!   class     turtle, devil, super-devil; 7 of 10 intervals must agree              [`classes`]
//!   slots     classes over the caches, in alternating direction; threads stay if possible  [`class_map`]
//!   pages     migrate to the node of the thread                                     [`page_migrations`]
//! ```
//!
//! If no job is new, and all jobs are turtles or there is only one thread, no slots are assigned, because there is no
//! contention to reduce.
//!
//! A job that starts between two intervals counts as a devil and gets a free slot of the map for a devil. No other job
//! migrates in that turn. Pages of a job whose threads are on several nodes do not migrate. [`crate::memory_intensity`]
//! describes the placement of jobs instead of threads, and the selection of the scheduled jobs.

mod class_map;
mod classes;
mod declaration;
mod page_migrations;

use base::CpuSet;
use sched::{Action, Cause, CounterEvent, JobState, JobView, PerJob, Plan, Reason, Snapshot};

use crate::memory_intensity::cache_slots::{CacheSlots, SlotsByJob};
use crate::memory_intensity::parameters::Common;
use crate::memory_intensity::rates::misses_of;
use crate::memory_intensity::{Utilization, release, utilizations, with_slots};
use crate::notes::{MachineNotes, RateFailures};
use crate::placement;
use crate::{Params, Rules};
use class_map::ClassMap;
use classes::{ClassHistory, MissClass};
pub(crate) use declaration::INFO;
use declaration::{ASSIGNED_BY_CLASS, Config, KeepSlot};
use page_migrations::MovedPages;

/// State of the policy.
#[derive(Debug)]
struct Dino {
    config: Config,
    common: Common,
    notes: MachineNotes,
    failures: RateFailures,
    history: PerJob<ClassHistory>,
    /// The class of a job at the last assignment; for `keep=core`.
    class_before: PerJob<Option<MissClass>>,
    moved: PerJob<Option<MovedPages>>,
}

impl Rules for Dino {
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        self.notes.add_for_caches(snapshot, plan);
        placement::remove_old_state(&mut self.history, snapshot);
        placement::remove_old_state(&mut self.class_before, snapshot);
        placement::remove_old_state(&mut self.moved, snapshot);
        if !placement::can_place(snapshot) {
            return;
        }
        let is_interval = snapshot.turn.causes.contains(&Cause::Interval);
        let slots = CacheSlots::of(snapshot);
        let of_jobs = utilizations(snapshot, &slots, &self.common);
        if !is_interval {
            return self.assign_new(snapshot, slots, &of_jobs, plan);
        }
        self.failures.check(snapshot, plan);
        for (job, _) in of_jobs.iter().filter(|(_, utilization)| *utilization == Utilization::Busy)
        {
            self.add_sample(snapshot, job);
        }
        self.assign_all(snapshot, slots, &of_jobs, plan);
        self.request_remaining(snapshot, plan);
    }
}

impl Dino {
    fn new(params: &Params<'_>) -> Self {
        let (config, common) = (Config::new(params), Common::new(params));
        let (notes, history, class_before, moved) = Default::default();
        let failures = RateFailures::new(params);
        Dino { config, common, notes, failures, history, class_before, moved }
    }

    /// Adds the rate of an interval. A job whose misses were not counted in this interval keeps its class.
    fn add_sample(&mut self, snapshot: &Snapshot<'_>, job: &JobView<'_>) {
        if let Some(sample) = misses_of(snapshot, job) {
            self.history.get_or_default(job.job.id).add(sample, &self.config);
        }
    }

    fn class(&self, job: &JobView<'_>) -> MissClass {
        self.history.get(job.job.id).map_or(MissClass::Devil, ClassHistory::class)
    }

    /// Returns the number of threads of each class, in the order of [`MissClass::ALL`].
    fn counts(&self, slots: &CacheSlots, jobs: &[&JobView<'_>]) -> [usize; 3] {
        MissClass::ALL.map(|class| {
            let of_class = jobs.iter().filter(|job| self.class(job) == class);
            of_class.map(|job| slots.n_for(job)).sum()
        })
    }

    /// Distributes the classes at the end of an interval. A job that has slots of its class keeps these slots. The
    /// other jobs fill the remaining slots.
    fn assign_all(
        &mut self,
        snapshot: &Snapshot<'_>,
        mut slots: CacheSlots,
        of_jobs: &[(&JobView<'_>, Utilization)],
        plan: &mut Plan,
    ) {
        let is_scheduled =
            |utilization: Utilization| matches!(utilization, Utilization::New | Utilization::Busy);
        let jobs: Vec<&JobView<'_>> = of_jobs
            .iter()
            .filter(|(_, utilization)| is_scheduled(*utilization))
            .map(|(job, _)| *job)
            .collect();
        let n_threads: usize = jobs.iter().map(|job| slots.n_for(job)).sum();
        if !self.needs_assignment(of_jobs, n_threads) {
            return;
        }
        for (job, utilization) in of_jobs {
            match utilization {
                Utilization::Idle(used) => release(job, *used, plan),
                Utilization::Unmanaged => slots.keep(job),
                Utilization::New | Utilization::Busy => {}
            }
        }
        let counts = self.counts(&slots, &jobs);
        let mut map = ClassMap::new(&slots, counts);
        let mut slots_of = SlotsByJob::default();
        for job in &jobs {
            *slots_of.get_or_default(job.job.id) = self.take_current_slots(&mut map, &slots, job);
        }
        for job_cpus in jobs.iter().filter_map(|job| slots_of.get(job.job.id)) {
            job_cpus.iter().for_each(|cpu| slots.take(cpu));
        }
        self.fill(&mut slots, map, &jobs, &mut slots_of, |_| true);
        self.request(snapshot, (&jobs, &slots_of, counts), plan);
        for job in &jobs {
            *self.class_before.get_or_default(job.job.id) = Some(self.class(job));
        }
    }

    /// Returns whether slots must be assigned: a job is new, or contention is possible (at least two threads, and not
    /// only turtles).
    fn needs_assignment(&self, of_jobs: &[(&JobView<'_>, Utilization)], n_threads: usize) -> bool {
        let causes_none = |(job, utilization): &(&JobView<'_>, Utilization)| match utilization {
            Utilization::New => false,
            Utilization::Busy => self.class(job) == MissClass::Turtle,
            Utilization::Idle(_) | Utilization::Unmanaged => true,
        };
        let is_new = of_jobs.iter().any(|(_, utilization)| *utilization == Utilization::New);
        !of_jobs.iter().all(causes_none) && (2 <= n_threads || is_new)
    }

    /// Returns the slots that a job keeps.
    fn take_current_slots(
        &self,
        map: &mut ClassMap,
        slots: &CacheSlots,
        job: &JobView<'_>,
    ) -> CpuSet {
        let class = self.class(job);
        let has_class = self.class_before.get(job.job.id).copied().flatten() == Some(class);
        let Some(placed) = job.placed.filter(|_| job.state == JobState::Running) else {
            return CpuSet::new();
        };
        let usable = placed.iter().filter(|&cpu| job.allowed.contains(cpu));
        let current = usable.filter(|&cpu| match self.config.keep {
            KeepSlot::Cache => map.keep_in_cache(slots, cpu, class),
            KeepSlot::Core => has_class && map.keep_on_core(slots, cpu, class),
        });
        current.take(slots.n_for(job)).collect()
    }

    /// Assigns slots to jobs without slots, between two intervals: free slots of their class in the map, else free
    /// slots of any class, else the CPUs with the fewest threads. All other jobs keep their slots.
    fn assign_new(
        &mut self,
        snapshot: &Snapshot<'_>,
        mut slots: CacheSlots,
        of_jobs: &[(&JobView<'_>, Utilization)],
        plan: &mut Plan,
    ) {
        let has_utilization = |utilization: Utilization| {
            move |one: &&(&JobView<'_>, Utilization)| one.1 == utilization
        };
        let jobs_that = |utilization: Utilization| {
            of_jobs.iter().filter(has_utilization(utilization)).map(|(job, _)| *job)
        };
        let new: Vec<&JobView<'_>> = jobs_that(Utilization::New).collect();
        if new.is_empty() {
            return;
        }
        jobs_that(Utilization::Unmanaged).for_each(|job| slots.keep(job));
        let busy: Vec<&JobView<'_>> = jobs_that(Utilization::Busy).collect();
        let counts = self.counts(&slots, &[busy.as_slice(), new.as_slice()].concat());
        let mut map = ClassMap::new(&slots, counts);
        for job in &busy {
            for cpu in job.placed.iter().flat_map(|placed| placed.iter()) {
                map.keep_in_cache(&slots, cpu, self.class(job));
            }
        }
        let keeping =
            of_jobs.iter().filter(|(_, s)| matches!(s, Utilization::Busy | Utilization::Idle(_)));
        keeping.for_each(|(job, _)| slots.keep(job));
        let taken = slots.clone();
        let mut slots_of = SlotsByJob::default();
        self.fill(&mut slots, map, &new, &mut slots_of, |cpu| taken.n_on(cpu) == 0);
        self.request(snapshot, (&new, &slots_of, counts), plan);
    }

    /// Assigns the missing slots of jobs in list order: a slot of the class of the job, else of any class, else the CPU
    /// with the fewest threads.
    fn fill(
        &self,
        slots: &mut CacheSlots,
        mut map: ClassMap,
        jobs: &[&JobView<'_>],
        slots_of: &mut SlotsByJob,
        may_use: impl Fn(base::CpuId) -> bool,
    ) {
        for is_own_class in [true, false] {
            for job in jobs {
                let class = Some(self.class(job)).filter(|_| is_own_class);
                let job_cpus = slots_of.get_or_default(job.job.id);
                while job_cpus.len() < slots.n_for(job) {
                    let Some(cpu) = map.fill(class, (job.allowed, job_cpus), &may_use) else {
                        break;
                    };
                    slots.take(cpu);
                    job_cpus.insert(cpu);
                }
            }
        }
        for job in jobs {
            let job_cpus = slots_of.get_or_default(job.job.id);
            while job_cpus.len() < slots.n_for(job) {
                let Some(cpu) = slots.assign_next(job.allowed, job_cpus) else { break };
                job_cpus.insert(cpu);
            }
        }
    }

    /// Requests the placement of every job whose slots changed.
    fn request(
        &mut self,
        snapshot: &Snapshot<'_>,
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
            let history = self.history.get_or_default(job.job.id);
            let reason = Reason::new(ASSIGNED_BY_CLASS)
                .with("class", history.class().name())
                .with("n_super_devils", counts[0].to_string())
                .with("n_devils", counts[1].to_string())
                .with("n_turtles", counts[2].to_string())
                .with("n_domains", snapshot.domains.len() as u64);
            let tier =
                history.is_known().then(|| snapshot.tiers.get(CounterEvent::LlcMisses).name());
            let reason = history.with_basis(reason, self.config.limits).with_some("tier", tier);
            let reason = with_slots(reason, snapshot, job, cpus);
            plan.request(job.job.id, Action::Place(cpus.clone()), reason);
            self.move_pages(snapshot, job, cpus, plan);
        }
    }
}
