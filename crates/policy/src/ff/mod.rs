//! Faster cores first: balances the number of tasks by the capacity of cores, and ignores the behaviour of tasks.
//!
//! ```text
//!   core        fast   fast   slow   slow
//!   tasks         2      1      1      0
//!   capacity   1024   1024    512    512
//!   scaled load  2.0    1.0    2.0     0       tasks × 1024 / capacity
//! ```
//!
//! A job is bound to one core per thread when it starts, and again when it wakes up: all its tasks slept during an
//! interval, and one was runnable in the next. Between these times only jobs with one thread migrate; the threads of other
//! jobs count on their cores. An idle core gets a task of a slower core, also the only task of that core.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use base::{Bytes, CpuId, CpuSet, JobId, Nanos};
use sched::{Action, PerJob, Plan, Reason, Snapshot, reasons};
use topology::CAPACITY_MAX;

use crate::core_kinds::{self, CoreKinds, KindCore, KindJob, is_interval, is_new};
use crate::declaration::{INTERVAL_TIMES, Values, params};
use crate::placement::{cpus_label, remove_old_state};
use crate::{PolicyInfo, Rules};

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "ff",
    summary: "Starts jobs on fast cores first and balances the number of tasks by the capacity of the cores.",
    source: "T. Li, D. Baumberger, D. A. Koufaty, S. Hahn, Efficient Operating System Scheduling for \
             Performance-asymmetric Multi-core Architectures, SC 2007; limits and times are evenkeel's choice",
    signals: &[],
    params: &[PARAMS],
    reasons: &[core_kinds::REASONS, REASONS],
    work_conserving: false,
    needs_core_kinds: true,
    rules: Some(|params, _seed| Box::new(FasterFirst::new(Config::new(params)))),
};

/// The largest memory of a job that migrates to another node.
const LIMITS: Values = Values::Or("none", &Values::integer("MiB", 0, 1 << 30));

params! {
    /// Configuration of the policy.
    struct Config from PARAMS {
        rss_limit: Option<u64> [LIMITS] = "4", "memory of a job in MiB above which the job migrates to another node only if \
            the core there is idle; none: no limit";
        interval: Nanos [INTERVAL_TIMES] = "100ms", "time between two attempts to balance";
    }
}

reasons! {
    /// A job gets its first cores.
    FASTER_FIRST = "faster-first":
        "[core=below-mean: the fastest core whose load with the job is not above the mean ({mean})][core=least: the core with the least load with the job] (load {load}, tasks by capacity) is a {kind} core: the job gets {cpus}";
    /// A job gets other cores when it wakes up.
    WOKEN = "woken":
        "the job slept during an interval and runs again: [core=below-mean: the fastest core whose load with the job is not above the mean ({mean})][core=least: the core with the least load with the job] (load {load}, tasks by capacity) is a {kind} core: the job migrates from {from} cores to {cpus}";
    /// A job migrates to an idle core.
    PULLED = "pulled-by-idle-core":
        "a {kind} core was idle, and the job ran on a [step=slower: slower][step=shared: shared] {from} core: it gets {cpus}";
    /// A job migrates for balance.
    SCALED_BALANCE = "scaled-balance":
        "the load of its {from} core ({high}, tasks by capacity) exceeds that of a {kind} core ({low}) by more than one task of the slowest core: it gets {cpus}";
    /// A job lost its core.
    CORE_LOST = "core-lost":
        "the core of the job became unusable: the job gets {cpus} ({kind})";
}

/// State of the policy.
#[derive(Debug)]
struct FasterFirst {
    config: Config,
    kinds: CoreKinds,
    /// Whether all tasks of a job slept during the last interval.
    slept: PerJob<bool>,
}

/// Cores with their tasks.
struct Loads {
    cores: Vec<KindCore>,
    /// Index of the core of each CPU.
    core_of: BTreeMap<CpuId, usize>,
    capacities: Vec<u64>,
    /// Tasks by core, in thousandths: a job on more CPUs than threads counts in parts.
    tasks: Vec<u64>,
    /// Jobs with one thread that are bound to the core.
    movable: Vec<Vec<JobId>>,
}

/// One task in [`Loads::tasks`].
const TASK: u64 = 1000;
/// Capacity of the fastest core.
const FASTEST: u64 = CAPACITY_MAX as u64;

impl Rules for FasterFirst {
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        remove_old_state(&mut self.slept, snapshot);
        if !self.kinds.update(snapshot, plan) {
            return;
        }
        let jobs = self.kinds.jobs_of_some_kind(snapshot);
        let mut loads = Loads::new(snapshot, &self.kinds, &jobs);
        let woken = self.woken(snapshot, &jobs);
        jobs.iter()
            .filter(|job| woken.contains(&job.view.job.id))
            .for_each(|job| loads.remove(job));
        for job in &jobs {
            let is_woken = woken.contains(&job.view.job.id);
            let has_lost = loads.cores_of(job).is_empty();
            if is_woken || is_new(snapshot, job) || job.kind.is_some() && has_lost {
                self.start(snapshot, (job, is_woken), &mut loads, plan);
            }
        }
        if plan.requests.is_empty() {
            self.pull(snapshot, &jobs, &mut loads, plan);
        }
        if plan.requests.is_empty() && is_interval(snapshot) {
            self.balance(snapshot, &jobs, &mut loads, plan);
        }
    }
}

impl Loads {
    fn new(snapshot: &Snapshot<'_>, kinds: &CoreKinds, jobs: &[KindJob<'_>]) -> Self {
        let cores = kinds.cores(snapshot);
        let of_cpus = cores.iter().enumerate();
        let core_of = of_cpus.flat_map(|(at, core)| core.cpus.iter().map(move |cpu| (cpu, at)));
        let mut loads = Loads {
            core_of: core_of.collect(),
            capacities: cores.iter().map(|core| u64::from(core.capacity)).collect(),
            tasks: vec![0; cores.len()],
            movable: vec![Vec::new(); cores.len()],
            cores,
        };
        for job in jobs.iter().filter(|job| job.kind.is_some() && job.is_runnable(snapshot)) {
            let of_job = loads.cores_of(job);
            for &core in &of_job {
                loads.tasks[core] += Loads::share(job, &of_job);
            }
            if let ([only], 1) = (&of_job[..], job.n_tasks()) {
                loads.movable[*only].push(job.view.job.id);
            }
        }
        loads
    }

    /// Returns the part of a job that counts on each of its cores.
    fn share(job: &KindJob<'_>, cores: &[usize]) -> u64 {
        TASK * job.n_tasks() / cores.len() as u64
    }

    /// Removes a job from its cores.
    fn remove(&mut self, job: &KindJob<'_>) {
        let of_job = self.cores_of(job);
        for &core in &of_job {
            self.tasks[core] -= Loads::share(job, &of_job);
            self.movable[core].retain(|other| *other != job.view.job.id);
        }
    }

    /// Returns the cores to which a running job is bound.
    fn cores_of(&self, job: &KindJob<'_>) -> Vec<usize> {
        let placed = job.view.placed.into_iter().flat_map(CpuSet::iter);
        let mut cores: Vec<usize> =
            placed.filter_map(|cpu| self.core_of.get(&cpu).copied()).collect();
        cores.sort_unstable();
        cores.dedup();
        cores
    }

    /// Returns the load of a core with `more` tasks, in thousandths of a task on the fastest core.
    fn scaled(&self, core: usize, more: u64) -> u64 {
        (self.tasks[core] + more * TASK) * FASTEST / self.capacities[core]
    }

    fn is_idle(&self, core: usize) -> bool {
        self.tasks[core] == 0
    }
}

impl FasterFirst {
    fn new(config: Config) -> Self {
        let (kinds, slept) = Default::default();
        FasterFirst { config, kinds, slept }
    }

    /// Returns the jobs that were runnable in the last interval and slept during the interval before it.
    fn woken(&mut self, snapshot: &Snapshot<'_>, jobs: &[KindJob<'_>]) -> BTreeSet<JobId> {
        let mut woken = BTreeSet::new();
        for job in jobs.iter().filter(|job| is_interval(snapshot) && job.kind.is_some()) {
            let id = job.view.job.id;
            let sleeps = !job.is_runnable(snapshot);
            let slept = std::mem::replace(self.slept.get_or_default(id), sleeps);
            if slept && !sleeps {
                woken.insert(id);
            }
        }
        woken
    }

    /// Binds a job to a core per thread: the fastest that is not above the mean, else that with the least load. A woken job
    /// stays on its core among equal cores.
    fn start(
        &self,
        snapshot: &Snapshot<'_>,
        (job, is_woken): (&KindJob<'_>, bool),
        loads: &mut Loads,
        plan: &mut Plan,
    ) {
        let own = if is_woken { loads.cores_of(job) } else { Vec::new() };
        let mut cpus = CpuSet::new();
        let mut first = None;
        for _ in 0..job.n_tasks() {
            let all = || {
                (0..loads.cores.len()).filter(|&idx| {
                    let core = &loads.cores[idx].cpus;
                    let may_cross =
                        |&from: &usize| self.may_cross(snapshot, job, loads, (from, idx));
                    core.intersects(job.view.allowed)
                        && !core.intersects(&cpus)
                        && (own.is_empty() || own.iter().any(may_cross))
                })
            };
            let capacity: u64 = loads.capacities.iter().sum();
            let mean = loads.tasks.iter().sum::<u64>() * FASTEST / capacity.max(1);
            let is_other = |idx: usize| !own.contains(&idx);
            let fastest = |&idx: &usize| (Reverse(loads.capacities[idx]), is_other(idx), idx);
            let below = all().filter(|&idx| loads.scaled(idx, 1) <= mean).min_by_key(fastest);
            let least = || all().min_by_key(|&idx| (loads.scaled(idx, 1), is_other(idx), idx));
            let Some(core) = below.or_else(least) else { break };
            first.get_or_insert((core, loads.scaled(core, 1), mean, below.is_some()));
            loads.tasks[core] += TASK;
            cpus = cpus.or(&loads.cores[core].cpus.and(job.view.allowed));
        }
        let Some((core, load, mean, is_below)) = first else { return };
        let chosen = |reason: Reason| {
            reason
                .with("core", if is_below { "below-mean" } else { "least" })
                .with("load", load as f64 / TASK as f64)
                .with("mean", mean as f64 / TASK as f64)
        };
        let reason = match job.kind {
            Some(_) if is_woken => chosen(Reason::new(WOKEN)),
            Some(_) => Reason::new(CORE_LOST),
            None => chosen(Reason::new(FASTER_FIRST)),
        };
        if job.view.placed != Some(&cpus) {
            self.place(job, core, cpus, reason, loads, plan);
        }
    }

    fn place(
        &self,
        job: &KindJob<'_>,
        core: usize,
        cpus: CpuSet,
        reason: Reason,
        loads: &Loads,
        plan: &mut Plan,
    ) {
        let from = job.kind.map(|kind| self.kinds.get(kind).name.clone());
        let reason = reason
            .with("kind", self.kinds.get(loads.cores[core].kind).name.clone())
            .with_some("from", from)
            .with("cpus", cpus_label(&cpus));
        plan.request(job.view.job.id, Action::Place(cpus), reason);
    }

    /// Migrates a job to each idle core, fastest first: from a slower core, or from a core with several tasks.
    fn pull(
        &self,
        snapshot: &Snapshot<'_>,
        jobs: &[KindJob<'_>],
        loads: &mut Loads,
        plan: &mut Plan,
    ) {
        for idle in 0..loads.cores.len() {
            if !loads.is_idle(idle) {
                continue;
            }
            let is_source = |&from: &usize| {
                !loads.is_idle(from)
                    && (loads.capacities[from] < loads.capacities[idle] || TASK < loads.tasks[from])
            };
            let mut sources: Vec<usize> = (0..loads.cores.len()).filter(is_source).collect();
            sources.sort_by_key(|&from| (Reverse(loads.scaled(from, 0)), from));
            let found = sources.into_iter().find_map(|from| {
                Some((from, self.candidate(snapshot, jobs, loads, (from, idle))?))
            });
            let Some((from, job)) = found else { continue };
            let step =
                if loads.capacities[from] < loads.capacities[idle] { "slower" } else { "shared" };
            let reason = Reason::new(PULLED).with("step", step);
            self.migrate(job, (from, idle), reason, loads, plan);
        }
    }

    /// Migrates one job from the core with the highest to the core with the lowest load.
    fn balance(
        &self,
        snapshot: &Snapshot<'_>,
        jobs: &[KindJob<'_>],
        loads: &mut Loads,
        plan: &mut Plan,
    ) {
        let all = 0..loads.cores.len();
        let Some(high) = all.clone().max_by_key(|&core| (loads.scaled(core, 0), Reverse(core)))
        else {
            return;
        };
        let Some(low) = all.min_by_key(|&core| (loads.scaled(core, 0), core)) else { return };
        let slowest = loads.capacities.iter().min().copied().unwrap_or(1);
        if loads.scaled(high, 0) - loads.scaled(low, 0) <= TASK * FASTEST / slowest {
            return;
        }
        let Some(job) = self.candidate(snapshot, jobs, loads, (high, low)) else { return };
        let reason = Reason::new(SCALED_BALANCE)
            .with("high", loads.scaled(high, 0) as f64 / TASK as f64)
            .with("low", loads.scaled(low, 0) as f64 / TASK as f64);
        self.migrate(job, (high, low), reason, loads, plan);
    }

    /// Returns the first job of a core that may migrate to another core.
    fn candidate<'j, 's>(
        &self,
        snapshot: &Snapshot<'_>,
        jobs: &'j [KindJob<'s>],
        loads: &Loads,
        (from, to): (usize, usize),
    ) -> Option<&'j KindJob<'s>> {
        let may = |job: &&KindJob<'_>| {
            loads.movable[from].contains(&job.view.job.id)
                && job.view.allowed.intersects(&loads.cores[to].cpus)
                && self.may_cross(snapshot, job, loads, (from, to))
        };
        jobs.iter().find(may)
    }

    /// Returns whether the memory of a job permits a migration: a large job migrates to another node only if the core there
    /// is idle.
    fn may_cross(
        &self,
        snapshot: &Snapshot<'_>,
        job: &KindJob<'_>,
        loads: &Loads,
        (from, to): (usize, usize),
    ) -> bool {
        let is_other_node = loads.cores[from].node != loads.cores[to].node;
        let limit = self.config.rss_limit.map(Bytes::from_mib);
        let is_small = || {
            limit.is_none_or(|limit| job.view.memory.is_none_or(|memory| memory.total() <= limit))
        };
        let crosses = is_other_node && 1 < snapshot.machine.nodes().len();
        !crosses || loads.is_idle(to) || is_small()
    }

    fn migrate(
        &self,
        job: &KindJob<'_>,
        (from, to): (usize, usize),
        reason: Reason,
        loads: &mut Loads,
        plan: &mut Plan,
    ) {
        loads.tasks[from] -= TASK;
        loads.tasks[to] += TASK;
        loads.movable[from].retain(|other| *other != job.view.job.id);
        let cpus = loads.cores[to].cpus.and(job.view.allowed);
        self.place(job, to, cpus, reason, loads, plan);
    }
}
