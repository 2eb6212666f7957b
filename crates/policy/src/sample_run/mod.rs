//! Sample-Run: measures each job on each core kind, then places the jobs with the largest ratio on the fast cores.
//!
//! ```text
//!   sampling                       running                        sampling
//!   round 1   round 2   round 3    jobs stay on their kinds       round 1 …
//!   100 ms    100 ms    100 ms     2 s
//! ```
//!
//! In a round each job is bound to one core. No core gets more tasks than the tasks per core of the machine, rounded
//! up, so that a sample of a slow core includes the wait for it. Rounds continue until each job has a valid sample of
//! each kind, up to a limit. The sampling costs migrations and time on the wrong cores.

use base::{CpuSet, Nanos};
use sched::{Action, CounterEvent, PerJob, Plan, Reason, Snapshot, reasons};

use crate::core_kinds::quotas::{self, QuotaRule, Sorting};
use crate::core_kinds::{self, CoreKinds, KindCore, KindJob, core_of, is_interval, is_new};
use crate::declaration::{INTERVAL_TIMES, MILLION, Millionths, READING, Values, names, params};
use crate::placement::{cpus_label, remove_old_state};
use crate::{IfMissing, PolicyInfo, RequiredSignal, Rules, Signal};

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "sample-run",
    summary: "Measures the speed of each job on each core kind in turn, then places the jobs with the largest gain on the \
              fast cores.",
    source: "M. Becchi, P. Crowley, Dynamic Thread Assignment on Heterogeneous Multiprocessor Architectures, Computing \
             Frontiers 2006, as described by R. Chen et al. (Journal of Software 24(2), 2013); times and the order of \
             samples are evenkeel's choice",
    signals: &[RequiredSignal {
        signal: Signal::Instructions,
        if_missing: IfMissing::Degrades("the gain of a job counts as half of the largest gain"),
    }],
    params: &[&[READING], PARAMS],
    reasons: &[core_kinds::REASONS, REASONS],
    work_conserving: false,
    needs_core_kinds: true,
    rules: Some(|params, _seed| Box::new(SampleRun::new(Config::new(params)))),
};

/// With one round no job is measured on two kinds, so that no sample has an effect.
const ROUNDS_MIN: u64 = 2;

params! {
    /// Configuration of the policy.
    struct Config from PARAMS {
        run: Nanos = "2s", "length of the running phase";
        valid: Nanos [Values::Time(Nanos::ZERO, Nanos::from_secs(3600))] = "50ms", "CPU time of all threads of a job in \
            a round below which its sample is invalid";
        rounds: u64 [Values::integer("", ROUNDS_MIN, 1000)] = "8", "largest number of rounds in a sampling phase";
        speed: Speed = "time", "compared speed: time, instructions per CPU time; cycles, instructions per cycle, which \
            ignores the frequency of a core".paper("cycles");
        quota: QuotaRule = "level", "tasks per kind in the running phase: level, one per core, then further tasks from the \
            fastest kind on; ceiling, the tasks per core rounded up, so that slow cores can be idle".paper("ceiling");
        interval: Nanos [INTERVAL_TIMES] = "100ms", "length of a sampling round";
    }
}

names! {
    /// Compared speed.
    enum Speed { Time = "time", Cycles = "cycles" }
}

reasons! {
    /// A job gets its first kind.
    SAMPLE_RUN_STARTED = "sample-run-started":
        "the job has no sample yet, and [by=idle: the {kind} cores are the fastest with an idle core for each task][by=load: the {kind} cores have the fewest tasks per core] ({tasks}): it gets {cpus}";
    /// A job is sampled.
    SAMPLED = "sampled":
        "sampling round {round}: the job is measured on a {kind} core ({cpus})";
    /// A job waits in a sampling round.
    SAMPLED_BESIDE = "sampled-beside":
        "sampling round {round}: the job is measured already, or the cores it needs are taken: it runs on a {kind} core ({cpus})";
    /// A job gets its kind for the running phase.
    SAMPLES_COMPARED = "samples-compared":
        "sampling ended after {rounds} rounds: speed on the fastest over the slowest cores [speedup=unknown: not measured, assumed to be ]{factor}, number {place} of {n_jobs}; the {kind} cores get the tasks {quota} (tasks by kind): the job gets {cpus}";
}

/// State of the policy.
#[derive(Debug)]
struct SampleRun {
    config: Config,
    kinds: CoreKinds,
    phase: Phase,
    samples: PerJob<Samples>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The number of the round that ends next; 0 before the first.
    Sampling(u64),
    /// The end of the phase.
    Running(Nanos),
}

/// Speeds of a job by kind: millionths of an instruction per nanosecond or cycle.
#[derive(Clone, Debug, Default)]
struct Samples(Vec<Option<u64>>);

impl Samples {
    fn get(&self, kind: usize) -> Option<u64> {
        self.0.get(kind).copied().flatten()
    }

    fn set(&mut self, kind: usize, speed: u64) {
        if self.0.len() <= kind {
            self.0.resize(kind + 1, None);
        }
        self.0[kind] = Some(speed);
    }

    /// Returns the speed on the fastest over that on the slowest possible kind, in millionths.
    fn ratio(&self, job: &KindJob<'_>) -> Option<u64> {
        let (fast, slow) = (job.possible.first()?, job.possible.last()?);
        let ratio = u128::from(self.get(fast)?) * u128::from(MILLION);
        u64::try_from(ratio.checked_div(u128::from(self.get(slow)?))?).ok()
    }
}

impl Rules for SampleRun {
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        remove_old_state(&mut self.samples, snapshot);
        if !self.kinds.update(snapshot, plan) {
            return;
        }
        let jobs = self.kinds.jobs(snapshot, plan);
        if is_interval(snapshot) {
            match self.phase {
                Phase::Sampling(round) => self.sample(snapshot, &jobs, round, plan),
                Phase::Running(until) if until <= snapshot.turn.at => {
                    self.samples = PerJob::default();
                    self.start_round(snapshot, &jobs, 1, plan);
                }
                Phase::Running(_) => {}
            }
        }
        self.place_new(snapshot, &jobs, plan);
    }
}

impl SampleRun {
    fn new(config: Config) -> Self {
        let (kinds, samples) = Default::default();
        SampleRun { config, kinds, phase: Phase::Sampling(0), samples }
    }

    /// Places jobs that have no kind and no request in this turn.
    fn place_new(&mut self, snapshot: &Snapshot<'_>, jobs: &[KindJob<'_>], plan: &mut Plan) {
        let mut n_tasks = self.kinds.n_tasks(snapshot, jobs);
        let is_requested: Vec<bool> = (jobs.iter())
            .map(|job| plan.requests.iter().any(|request| request.target == job.view.job.id.into()))
            .collect();
        for (job, _) in jobs.iter().zip(is_requested).filter(|(_, is_requested)| !is_requested) {
            if is_new(snapshot, job) {
                let reason = Reason::new(SAMPLE_RUN_STARTED);
                quotas::start(&self.kinds, job, &mut n_tasks, reason, plan);
            } else if matches!(self.phase, Phase::Running(_)) {
                self.kinds.rebind(snapshot, job, plan);
            }
        }
    }

    /// Ends a round: records its samples, and begins the next round or the running phase.
    fn sample(
        &mut self,
        snapshot: &Snapshot<'_>,
        jobs: &[KindJob<'_>],
        round: u64,
        plan: &mut Plan,
    ) {
        if round != 0 {
            jobs.iter().for_each(|job| self.record(snapshot, job));
        }
        let running: Vec<KindJob<'_>> = jobs
            .iter()
            .filter(|job| job.kind.is_some() && job.is_runnable(snapshot))
            .cloned()
            .collect();
        let lacks = |job: &KindJob<'_>| {
            let samples = self.samples.get(job.view.job.id);
            job.possible.iter().any(|kind| samples.is_none_or(|s| s.get(kind).is_none()))
        };
        if running.is_empty() {
            return;
        }
        if round < self.config.rounds && running.iter().any(lacks) {
            self.start_round(snapshot, &running, round + 1, plan);
        } else {
            self.run(snapshot, running, round, plan);
        }
    }

    fn record(&mut self, snapshot: &Snapshot<'_>, job: &KindJob<'_>) {
        let Some(kind) = job.kind else { return };
        let (mut instructions, mut time, mut cpu_time) = (0u64, 0u64, 0u64);
        for task in snapshot.tasks_of(job.view.job.id) {
            let clock = match self.config.speed {
                Speed::Time => Some(task.cpu_time.0),
                Speed::Cycles => task.counters.get(CounterEvent::Cycles),
            };
            let counted = task.counters.get(CounterEvent::Instructions);
            if let (Some(counted), Some(clock)) = (counted, clock) {
                instructions = instructions.saturating_add(counted);
                time = time.saturating_add(clock);
                cpu_time = cpu_time.saturating_add(task.cpu_time.0);
            }
        }
        if time != 0 && self.config.valid.0 <= cpu_time {
            let speed = u128::from(instructions) * u128::from(MILLION) / u128::from(time);
            let speed = u64::try_from(speed).unwrap_or(u64::MAX);
            self.samples.get_or_default(job.view.job.id).set(kind, speed);
        }
    }

    /// Binds each job to a core: jobs with one possible kind first, then jobs that lack samples, on a kind that they
    /// lack.
    fn start_round(
        &mut self,
        snapshot: &Snapshot<'_>,
        jobs: &[KindJob<'_>],
        round: u64,
        plan: &mut Plan,
    ) {
        self.phase = Phase::Sampling(round);
        let cores = self.kinds.cores(snapshot);
        let n_tasks: u64 = jobs.iter().map(KindJob::n_tasks).sum();
        let mut slots = CoreSlots::new(&cores, n_tasks);
        let n_lacking = |job: &KindJob<'_>| {
            let samples = self.samples.get(job.view.job.id);
            let lacks = |kind: &usize| samples.is_none_or(|s| s.get(*kind).is_none());
            job.possible.iter().filter(lacks).count()
        };
        let mut order: Vec<&KindJob<'_>> = jobs.iter().collect();
        // A job that may run on one kind only takes its place there in any case.
        order.sort_by_key(|job| {
            (1 < job.possible.len(), std::cmp::Reverse(n_lacking(job)), job.view.job.id)
        });
        for job in order {
            let samples = self.samples.get(job.view.job.id);
            let lacks = |kind: usize| samples.is_none_or(|s| s.get(kind).is_none());
            let Some((kind, cpus)) = slots.take(job, lacks) else { continue };
            if job.view.placed == Some(&cpus) {
                continue;
            }
            let code = if lacks(kind) { SAMPLED } else { SAMPLED_BESIDE };
            let reason = Reason::new(code)
                .with("round", round)
                .with("kind", self.kinds.get(kind).name.clone())
                .with("cpus", cpus_label(&cpus));
            plan.request(job.view.job.id, Action::Place(cpus), reason);
        }
    }

    /// Begins the running phase.
    fn run(
        &mut self,
        snapshot: &Snapshot<'_>,
        jobs: Vec<KindJob<'_>>,
        rounds: u64,
        plan: &mut Plan,
    ) {
        self.phase = Phase::Running(snapshot.turn.at.saturating_add(self.config.run));
        let speedup = |job: &KindJob<'_>| self.samples.get(job.view.job.id)?.ratio(job);
        let reason = Reason::new(SAMPLES_COMPARED).with("rounds", rounds);
        let sorting = Sorting { rule: self.config.quota, margin: Millionths(0), reason };
        quotas::place_by_speedup(&self.kinds, jobs, speedup, &sorting, plan);
    }
}

/// Places of tasks on cores in a round.
struct CoreSlots<'c> {
    cores: &'c [KindCore],
    free: Vec<u64>,
}

impl<'c> CoreSlots<'c> {
    fn new(cores: &'c [KindCore], n_tasks: u64) -> Self {
        let per_core = n_tasks.div_ceil(cores.len().max(1) as u64);
        CoreSlots { cores, free: vec![per_core; cores.len()] }
    }

    /// Takes a place for each task of a job on cores of one kind: a kind that the job lacks if possible. A job keeps
    /// its kind and its core if it can; otherwise it gets the kind with the most free places; ties: the fastest.
    fn take(
        &mut self,
        job: &KindJob<'_>,
        lacks: impl Fn(usize) -> bool,
    ) -> Option<(usize, CpuSet)> {
        let is_of = |idx: usize, kind: usize| {
            let core = &self.cores[idx];
            core.kind == kind && core.cpus.intersects(job.view.allowed)
        };
        let n_free = |kind: usize| -> u64 {
            (0..self.cores.len()).filter(|&idx| is_of(idx, kind)).map(|idx| self.free[idx]).sum()
        };
        let fits = |&kind: &usize| job.n_tasks() <= n_free(kind);
        let order = |&kind: &usize| {
            (!lacks(kind), Some(kind) != job.kind, std::cmp::Reverse(n_free(kind)), kind)
        };
        let kind = job.possible.iter().filter(fits).min_by_key(order);
        let kind = kind.or(job.kind).or_else(|| job.possible.first())?;
        let now = job.view.placed.and_then(|placed| core_of(self.cores, placed));
        let mut cpus = CpuSet::new();
        for _ in 0..job.n_tasks() {
            let order = |&idx: &usize| (std::cmp::Reverse(self.free[idx]), Some(idx) != now, idx);
            let candidates = (0..self.cores.len()).filter(|&idx| is_of(idx, kind));
            let Some(idx) = candidates.min_by_key(order) else { break };
            self.free[idx] = self.free[idx].saturating_sub(1);
            cpus = cpus.or(&self.cores[idx].cpus.and(job.view.allowed));
        }
        (!cpus.is_empty()).then_some((kind, cpus))
    }
}
