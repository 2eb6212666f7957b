//! Loads of domains, from the best available source.
//!
//! | tier | load of a domain | available if |
//! |---|---|---|
//! | `bandwidth` | operations of its memory controllers, or lines that resctrl counted between its cache and memory | the domains are nodes or LLC domains, and each has a counter |
//! | `counters` | cache misses of its tasks | every task that has run has a counter |
//! | `declared` | class times CPU time of its tasks | a job of the workload has a class |
//! | `none` | zero | otherwise |
//!
//! The load of a job has the same unit. Memory controllers do not report which task caused an operation. Therefore,
//! in tier `bandwidth`, the load of a domain is distributed over the managed tasks in the domain: by their misses,
//! else by their declared traffic, else by their CPU time. The result is an upper bound, because the load includes
//! the traffic of unmanaged tasks.
//!
//! If the domains are nodes and the memory of a job has been sampled, the traffic of the job's tasks is charged to
//! the nodes in proportion to the job's private memory on them. Otherwise the traffic is charged to the domain in
//! which the task ran.
//!
//! A policy or the user can restrict the sources ([`LoadPreference`]).

use base::{LINE_BYTES, LlcId, Nanos, NodeId};
use sched::{DomainLoads, LoadPreference, SignalTier};
use topology::{Domains, Level};

use super::cpu_attribution::{AttributedCpuTime, TaskCpuTime};
use super::tasks::{CpuTotals, Misses, TaskDelta};
use super::{ControllerDelta, Controllers, SystemSignals, Tasks};
use crate::LoadSample;
use crate::jobs::{JobRates, Jobs};

/// Converts declared loads, which are operations per millisecond multiplied by nanoseconds.
const NANOS_PER_MILLI: u128 = 1_000_000;

/// Computes loads from the deltas of counters in an interval.
#[derive(Debug, Default)]
pub(crate) struct LoadMeter {
    loads: DomainLoads,
    cpu_time: AttributedCpuTime,
    /// Length of the last interval; zero before the first interval has ended.
    interval: Nanos,
    interval_at: Nanos,
    /// Whether turns before the last interval turn were skipped.
    is_late: bool,
    /// Interval of the policy.
    nominal: Option<Nanos>,
    preference: LoadPreference,
    /// Whether the traffic of all LLC domains was counted in an earlier interval.
    llcs_known: bool,
    n_intervals: u64,
    controllers_at: Nanos,
    /// Buffer, which is a field so that its allocation is reused.
    tasks: Vec<TaskInDomain>,
    sums: Vec<DomainSums>,
}

/// Delta of a task in the interval, and its domain.
#[derive(Clone, Copy, Debug)]
struct TaskInDomain {
    job_idx: Option<usize>,
    domain: Option<usize>,
    domain_before: Option<usize>,
    /// Whether the job is bound to `domain`.
    is_bound: bool,
    cpu_time: Nanos,
    /// CPU time since the last interval turn.
    since_last_turn: CpuTotals,
    wait: Option<Nanos>,
    /// Declared operations per millisecond, multiplied by the CPU time in nanoseconds.
    declared: u64,
    misses: Misses,
    /// Whether the task has run since its start.
    has_run: bool,
}

/// Sum over all tasks in one domain.
#[derive(Clone, Copy, Debug, Default)]
struct DomainSums {
    cpu_time: Nanos,
    declared: u128,
    misses: u64,
}

/// Domains for which loads are computed.
#[derive(Debug)]
pub(crate) struct LoadDomains {
    pub domains: Domains,
    /// The node of each domain; empty if the domains are not nodes.
    pub nodes: Vec<NodeId>,
}

impl LoadDomains {
    pub fn new(domains: Domains) -> Self {
        let nodes = match domains.level() {
            Level::Node => domains.iter().map(|(_, domain)| NodeId(domain.number)).collect(),
            Level::Llc | Level::Core => Vec::new(),
        };
        LoadDomains { domains, nodes }
    }
}

impl LoadMeter {
    pub fn loads(&self) -> &DomainLoads {
        &self.loads
    }

    pub fn interval(&self) -> Nanos {
        self.interval
    }

    pub fn new(nominal: Option<Nanos>, preference: LoadPreference) -> Self {
        LoadMeter { nominal, preference, n_intervals: 1, ..LoadMeter::default() }
    }

    /// Sets the accepted signal tiers of the loads.
    pub fn set_preference(&mut self, preference: LoadPreference) {
        self.preference = preference;
    }

    /// Returns the start of the current interval. If turns were skipped, it is `at` minus one interval of the policy,
    /// because loads of intervals with different lengths are not comparable.
    pub fn begin(&self, at: Nanos) -> Nanos {
        match self.nominal {
            Some(nominal) if 1 < self.n_elapsed(at) => at.saturating_sub(nominal),
            _ => self.interval_at,
        }
    }

    /// Returns the time of the last interval turn.
    pub fn last_at(&self) -> Nanos {
        self.interval_at
    }

    /// Returns the number of intervals since the last interval turn; at least 1.
    fn n_elapsed(&self, at: Nanos) -> u64 {
        let Some(nominal) = self.nominal.filter(|nominal| *nominal != Nanos::ZERO) else {
            return 1;
        };
        let elapsed = at.saturating_sub(self.interval_at);
        (elapsed.saturating_add(Nanos(nominal.0 / 2)).0 / nominal.0).max(1)
    }

    /// Returns the number of intervals between the last two interval turns.
    pub fn n_intervals(&self) -> u64 {
        self.n_intervals
    }

    /// Returns the loads together with the numbers of the domains. The interval that ended with the last job has no
    /// readable loads.
    pub fn load_sample(&self, domains: &Domains, is_last: bool) -> LoadSample {
        let readable = self.loads.readable && !is_last;
        LoadSample {
            level: domains.level(),
            numbers: domains.iter().map(|(_, domain)| domain.number).collect(),
            loads: DomainLoads { readable, ..self.loads.clone() },
            cpu_time: self.cpu_time.by_domain.clone(),
            unattributed: self.cpu_time.unattributed,
            interval: self.is_late.then_some(self.interval),
        }
    }

    /// Replaces the domains. A domain with an unchanged level and number keeps its load.
    pub fn domains_changed(&mut self, old: &Domains, new: &Domains) {
        let old_domain = |number: u32| {
            let same = old.level() == new.level();
            same.then(|| old.iter().find(|(_, domain)| domain.number == number)).flatten()
        };
        let old_idxs = new.iter().map(|(_, domain)| old_domain(domain.number).map(|(idx, _)| idx));
        let old_idxs: Vec<Option<usize>> = old_idxs.collect();
        let load = |idx: &Option<usize>| idx.and_then(|i| self.loads.loads.get(i)).copied();
        self.loads.loads = old_idxs.iter().map(|idx| load(idx).unwrap_or(0)).collect();
        let before = &self.cpu_time.by_domain;
        let time = |idx: &Option<usize>| idx.and_then(|i| before.get(i)).copied();
        self.cpu_time.by_domain =
            old_idxs.iter().map(|idx| time(idx).unwrap_or_default()).collect();
    }

    /// Sets the tier that the next interval is expected to have. Called before the first interval with these domains
    /// ends. If tasks had counters, they are expected to have counters again.
    pub fn expect(
        &mut self,
        domains: &LoadDomains,
        controllers: &Controllers,
        system: &SystemSignals,
        jobs: &Jobs,
    ) {
        self.loads.readable = true;
        let was_counted = self.loads.tier == SignalTier::Counters;
        let of_tasks = match counter_coverage(&self.tasks, was_counted) {
            Coverage::All | Coverage::Lost => SignalTier::Counters,
            Coverage::NotAll => tier_without_counters(jobs),
        };
        let of_llcs = || match domains.domains.level() {
            Level::Llc => domains.domains.iter().all(|(_, d)| system.is_counted(LlcId(d.number))),
            Level::Node | Level::Core => false,
        };
        let of_nodes = || controllers.all_have_been_read(domains.nodes.iter().copied());
        let of_domains = self.llcs_known || of_llcs() || of_nodes();
        self.loads.tier = match self.preference {
            LoadPreference::Best if of_domains => SignalTier::Bandwidth,
            LoadPreference::Best | LoadPreference::Tasks => of_tasks,
            LoadPreference::Only(SignalTier::Counters) if of_tasks != SignalTier::Counters => {
                SignalTier::None
            }
            LoadPreference::Only(SignalTier::Bandwidth) if !of_domains => SignalTier::None,
            LoadPreference::Only(tier) => tier,
        };
    }

    /// Ends an interval: computes the rates of all tasks and jobs and the loads of all domains.
    pub fn end_interval(
        &mut self,
        at: Nanos,
        domains: &LoadDomains,
        jobs: &mut Jobs,
        tasks: &mut Tasks,
        controllers: &mut Controllers,
        system: &mut SystemSignals,
    ) {
        let since_last_turn = at.saturating_sub(self.interval_at);
        self.interval = at.saturating_sub(self.begin(at));
        self.is_late = self.begin(at) != self.interval_at;
        self.n_intervals = self.n_elapsed(at);
        self.interval_at = at;
        let elapsed = at.saturating_sub(self.controllers_at);
        let delta = controllers.end_interval(&domains.nodes, self.interval, elapsed);
        if delta != ControllerDelta::Lost {
            self.controllers_at = at;
        }
        system.end_interval(at, self.interval);
        let delta = match domains.domains.level() {
            Level::Llc => self.llc_delta(&domains.domains, system),
            Level::Node | Level::Core => delta,
        };
        self.attribute_cpu_time(domains, jobs, tasks, since_last_turn);
        self.set_loads(delta, jobs);
        self.set_job_rates(jobs, domains);
    }

    /// Ends the interval in which the last job ended, before the next interval turn. Memory controllers are not read at
    /// this time, so that only CPU time is computed.
    pub fn end_last(&mut self, at: Nanos, domains: &LoadDomains, jobs: &Jobs, tasks: &mut Tasks) {
        let since_last_turn = at.saturating_sub(self.interval_at);
        (self.interval_at, self.is_late) = (at, false);
        self.attribute_cpu_time(domains, jobs, tasks, since_last_turn);
    }

    fn attribute_cpu_time(
        &mut self,
        domains: &LoadDomains,
        jobs: &Jobs,
        tasks: &mut Tasks,
        since_last_turn: Nanos,
    ) {
        self.collect(domains, jobs, tasks);
        self.cpu_time.attribute(
            self.tasks.iter().map(TaskInDomain::cpu_time),
            domains.domains.iter().map(|(_, domain)| domain.cpus.len()),
            since_last_turn,
        );
        self.cpu_time.unattributed += tasks.take_earlier_cpu_time();
    }

    /// Returns the traffic of each LLC domain in the interval.
    fn llc_delta(&mut self, domains: &Domains, system: &SystemSignals) -> ControllerDelta {
        let bytes = |number: u32| {
            let llc = system.llcs.iter().find(|llc| llc.llc.0 == number)?;
            llc.traffic.total_bytes
        };
        let ops = domains.iter().map(|(_, d)| bytes(d.number).map(|bytes| bytes / LINE_BYTES));
        match ops.collect::<Option<Vec<u64>>>() {
            Some(ops) if !ops.is_empty() => {
                self.llcs_known = true;
                ControllerDelta::Ops(ops)
            }
            _ if self.llcs_known => ControllerDelta::Lost,
            _ => ControllerDelta::Never,
        }
    }

    fn collect(&mut self, load_domains: &LoadDomains, jobs: &Jobs, tasks: &mut Tasks) {
        let domains = &load_domains.domains;
        self.tasks.clear();
        tasks.end_interval(|delta, has_exited| {
            let mut task = TaskInDomain::of(domains, jobs, delta);
            if has_exited {
                task.domain = delta.cpu.and_then(|cpu| domains.of_cpu(cpu));
                task.is_bound = delta.was_bound;
            }
            self.tasks.push(task);
        });
        self.sums.clear();
        self.sums.resize(domains.len(), DomainSums::default());
        let sums = &mut self.sums;
        for task in &self.tasks {
            if let Some(idx) = task.domain {
                let sum = &mut sums[idx].cpu_time;
                *sum = sum.saturating_add(task.cpu_time);
            }
            task.each_domain(load_domains, jobs, |idx, part, whole| {
                let declared = u128::from(task.declared) * u128::from(part) / u128::from(whole);
                sums[idx].declared += declared;
                let misses = part_of(task.misses.count(), part, u128::from(whole));
                sums[idx].misses = sums[idx].misses.saturating_add(misses);
            });
        }
    }

    fn set_loads(&mut self, delta: ControllerDelta, jobs: &Jobs) {
        use LoadPreference::{Best, Only, Tasks};
        let was_counted = self.loads.tier == SignalTier::Counters;
        self.loads.readable = true;
        let tier = match (self.preference, delta) {
            (Best | Only(SignalTier::Bandwidth), ControllerDelta::Ops(ops)) => {
                (self.loads.tier, self.loads.loads) = (SignalTier::Bandwidth, ops);
                return;
            }
            (Best | Only(SignalTier::Bandwidth), ControllerDelta::Lost) => {
                self.loads.readable = false;
                return;
            }
            (Only(SignalTier::Bandwidth), ControllerDelta::Never) => {
                self.loads.readable = false;
                SignalTier::None
            }
            (Best | Tasks, _) => match counter_coverage(&self.tasks, was_counted) {
                Coverage::All => SignalTier::Counters,
                Coverage::NotAll => tier_without_counters(jobs),
                Coverage::Lost => {
                    self.loads.readable = false;
                    return;
                }
            },
            (Only(SignalTier::Counters), _)
                if counter_coverage(&self.tasks, true) == Coverage::All =>
            {
                SignalTier::Counters
            }
            (Only(SignalTier::Declared), _) if jobs.any_declares_traffic() => SignalTier::Declared,
            (Only(_), _) => SignalTier::None,
        };
        self.loads.tier = tier;
        self.loads.loads.clear();
        self.loads.loads.extend(self.sums.iter().map(|sums| sums.load(tier)));
    }

    fn set_job_rates(&self, jobs: &mut Jobs, domains: &LoadDomains) {
        for at in 0..jobs.live_idxs().len() {
            let idx = jobs.live_idxs()[at];
            jobs.entry_mut(idx).rates = JobRates::default();
        }
        let counted = counter_coverage(&self.tasks, false) == Coverage::All;
        let mut declared = Fraction::default();
        for task in &self.tasks {
            let Some(idx) = task.job_idx else { continue };
            let load = self.load_of(task, counted, declared.remainder_of(idx), (domains, jobs));
            jobs.entry_mut(idx).rates.add(task.cpu_time, task.wait, load);
        }
    }

    /// Returns the contribution of a task to the load of its job.
    fn load_of(
        &self,
        task: &TaskInDomain,
        counted: bool,
        remainder: &mut u64,
        (domains, jobs): (&LoadDomains, &Jobs),
    ) -> u64 {
        match self.loads.tier {
            SignalTier::None => 0,
            SignalTier::Counters => task.misses.count(),
            SignalTier::Declared => {
                let exact = u128::from(task.declared) + u128::from(*remainder);
                *remainder = (exact % NANOS_PER_MILLI) as u64;
                u64::try_from(exact / NANOS_PER_MILLI).unwrap_or(u64::MAX)
            }
            SignalTier::Bandwidth => {
                let mut sum = 0u64;
                task.each_domain(domains, jobs, |idx, part, whole| {
                    sum = sum.saturating_add(self.part_in(task, idx, counted, (part, whole)));
                });
                sum
            }
        }
    }

    /// Returns the part of the load of domain `idx` that is attributed to a task. `n` of `n_parts` of the task's
    /// traffic are charged to this domain.
    fn part_in(
        &self,
        task: &TaskInDomain,
        idx: usize,
        counted: bool,
        (n, n_parts): (u64, u64),
    ) -> u64 {
        let load = self.loads.loads.get(idx).copied().unwrap_or(0);
        let sums = &self.sums[idx];
        let in_domain = |value: u64| part_of(value, n, u128::from(n_parts));
        let (part, whole) = match (counted && sums.misses != 0, sums.declared) {
            (true, _) => (in_domain(task.misses.count()), u128::from(sums.misses)),
            (false, 0) if task.domain == Some(idx) => {
                (task.cpu_time.0, u128::from(sums.cpu_time.0))
            }
            (false, 0) => return 0,
            (false, declared) => (in_domain(task.declared), declared),
        };
        part_of(load, part, whole)
    }
}

impl TaskInDomain {
    fn of(domains: &Domains, jobs: &Jobs, delta: &TaskDelta) -> Self {
        let TaskDelta {
            job,
            cpu,
            cpu_before,
            cpu_time,
            since_last_turn,
            wait,
            misses,
            has_run,
            ..
        } = *delta;
        let job_idx = jobs.live_idx(job);
        let ran_on = || domains.of_cpu(cpu?);
        let entry = job_idx.map(|idx| jobs.entry(idx));
        let is_bound = entry.is_some_and(|entry| !entry.is_unmanaged && entry.home.is_some());
        let domain_before = cpu_before.and_then(|cpu| domains.of_cpu(cpu));
        let domain = match entry {
            // Another program may have set the affinity of only some threads.
            Some(entry) if entry.is_unmanaged => ran_on().or(entry.home),
            Some(entry) => entry.home.or_else(ran_on),
            None => ran_on(),
        };
        let ops_per_ms = jobs.declared(job).and_then(|declared| declared.ops_per_ms).unwrap_or(0);
        let declared = ops_per_ms.saturating_mul(cpu_time.0);
        TaskInDomain {
            job_idx,
            domain,
            domain_before,
            is_bound,
            cpu_time,
            since_last_turn,
            wait,
            declared,
            misses,
            has_run,
        }
    }

    fn cpu_time(&self) -> TaskCpuTime {
        let TaskInDomain { domain, domain_before, is_bound, since_last_turn, .. } = *self;
        let CpuTotals { all, unseen } = since_last_turn;
        let own = all.saturating_sub(unseen);
        TaskCpuTime { own, unseen, domain, domain_before, is_bound }
    }

    /// Calls `visit` with each domain to which the traffic of the task is charged, and the share of the traffic. The
    /// domains are the nodes of the job's private memory; if they are unknown, the domain in which the task ran.
    fn each_domain(
        &self,
        domains: &LoadDomains,
        jobs: &Jobs,
        mut visit: impl FnMut(usize, u64, u64),
    ) {
        let memory = self.job_idx.and_then(|idx| jobs.entry(idx).memory.as_ref());
        // Only private memory counts, because file pages and shared pages are mostly program code.
        let whole = memory.map_or(0, |memory| memory.private_bytes().0);
        let Some(memory) = memory.filter(|_| !domains.nodes.is_empty() && whole != 0) else {
            if let Some(idx) = self.domain {
                visit(idx, 1, 1);
            }
            return;
        };
        for on_node in &memory.nodes {
            if let Some(idx) = domains.nodes.iter().position(|&node| node == on_node.node) {
                visit(idx, on_node.private_bytes().0, whole);
            }
        }
    }
}

/// Remainder of a division of declared load. It is added to the load of the next task of the same job, so that the
/// loads of many small tasks are not rounded to zero.
#[derive(Debug, Default)]
struct Fraction {
    job_idx: usize,
    remainder: u64,
}

impl Fraction {
    fn remainder_of(&mut self, job_idx: usize) -> &mut u64 {
        if self.job_idx != job_idx {
            *self = Fraction { job_idx, remainder: 0 };
        }
        &mut self.remainder
    }
}

impl DomainSums {
    fn load(&self, tier: SignalTier) -> u64 {
        match tier {
            SignalTier::Counters => self.misses,
            SignalTier::Declared => {
                u64::try_from(self.declared / NANOS_PER_MILLI).unwrap_or(u64::MAX)
            }
            SignalTier::Bandwidth | SignalTier::None => 0,
        }
    }
}

impl Misses {
    fn count(self) -> u64 {
        match self {
            Misses::Counted(delta) => delta,
            Misses::NeverRead | Misses::Lost => 0,
        }
    }
}

/// Whether all tasks that have run have counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coverage {
    All,
    NotAll,
    /// All tasks had counters, and at least one counter cannot be read now.
    Lost,
}

/// Returns whether all tasks that have run since their start have counters. If no task has run, the coverage is
/// unchanged. Sleeping tasks are included, because otherwise the unit of the loads could change when a task wakes up.
fn counter_coverage(tasks: &[TaskInDomain], before: bool) -> Coverage {
    let that_ran = || tasks.iter().filter(|task| task.has_run);
    if before && that_ran().any(|task| task.misses == Misses::Lost) {
        return Coverage::Lost;
    }
    let all = that_ran().all(|task| matches!(task.misses, Misses::Counted(_)));
    if all && (before || that_ran().next().is_some()) { Coverage::All } else { Coverage::NotAll }
}

fn tier_without_counters(jobs: &Jobs) -> SignalTier {
    if jobs.any_declares_traffic() { SignalTier::Declared } else { SignalTier::None }
}

fn part_of(load: u64, part: u64, whole: u128) -> u64 {
    match (u64::try_from(whole), load.checked_mul(part)) {
        (Ok(0), _) => 0,
        (Ok(whole), Some(product)) => product / whole,
        _ => u64::try_from(u128::from(load) * u128::from(part) / whole).unwrap_or(u64::MAX),
    }
}
