//! The load of each place, by the best signal of a place that is really there.
//!
//! | tier | the load of a place is | there when |
//! |---|---|---|
//! | `bandwidth` | what its memory controller counted, or the lines that resctrl counted between its cache and memory | places are nodes or LLC domains, and all of them have a counter |
//! | `counters` | cache misses of the tasks in it | every task that has run has a counter |
//! | `declared` | class × CPU time of the tasks in it | a job of the workload has a class |
//! | `none` | nothing | otherwise |
//!
//! A job's own load is in the same unit. A controller does not tell whose operations it counted, so
//! in tier `bandwidth` the load of a place is shared out among our tasks in it, by their misses,
//! else by what is declared of them, else by their CPU time: at most what is theirs, since
//! strangers' traffic is in it.
//!
//! Where places are nodes and it is known where a job's memory lies, what its tasks did is charged to
//! the nodes of its own memory, by how much of it lies on each (spec 0.3); otherwise to the place where
//! they ran.
//!
//! A policy or the user can ask for one of these and no other ([`LoadWish`]).

use base::{JobId, LlcId, Nanos, NodeId};
use sched::{DomainLoads, LoadPreference, SignalTier};
use topology::{Domains, Level};

use super::tasks::{Misses, TaskGrowth};
use super::{ControllerGrowth, Controllers, SystemMetrics, Tasks};
use crate::LoadSample;
use crate::jobs::{JobRates, Jobs};

/// Nanoseconds in a millisecond: declared loads are operations a millisecond times nanoseconds.
const NANOS_PER_MILLI: u128 = 1_000_000;

/// Bytes that one memory operation moves.
const LINE_BYTES: u64 = 64;

/// Turns what grew in an interval into loads.
#[derive(Debug, Default)]
pub(crate) struct LoadMeter {
    loads: DomainLoads,
    cpu_time: Vec<Nanos>,
    /// How long the last interval was; zero before the first has gone by.
    interval: Nanos,
    interval_at: Nanos,
    /// How long the policy wants intervals to be.
    nominal: Option<Nanos>,
    wish: LoadPreference,
    /// The traffic of all LLC domains was counted, when places were those.
    llcs_known: bool,
    n_intervals: u64,
    controllers_at: Nanos,
    /// Kept between turns for their memory alone.
    shares: Vec<Share>,
    sums: Vec<Sums>,
}

/// What a task did in the interval, and where.
#[derive(Clone, Copy, Debug)]
struct Share {
    job_idx: Option<usize>,
    domain: Option<usize>,
    cpu_time: Nanos,
    wait: Option<Nanos>,
    /// Operations a millisecond as declared × nanoseconds.
    declared: u64,
    misses: Misses,
    /// Whether it has run since it was born, in this interval or before.
    has_run: bool,
}

/// The same for all tasks in one place.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    cpu_time: Nanos,
    declared: u128,
    misses: u64,
}

/// The places of a run and the nodes that they are, if they are nodes.
#[derive(Debug)]
pub(crate) struct LoadDomains {
    pub domains: Domains,
    /// By index of the domain; empty unless places are nodes.
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

    pub fn new(nominal: Option<Nanos>, wish: LoadPreference) -> Self {
        LoadMeter { nominal, wish, n_intervals: 1, ..LoadMeter::default() }
    }

    /// What loads shall stand on from here on.
    pub fn set_preference(&mut self, wish: LoadPreference) {
        self.wish = wish;
    }

    /// When the interval began that is not over yet at this instant. After a stretch without turns
    /// only its end counts, as long as an interval is: loads of other lengths cannot be compared.
    pub fn begin(&self, at: Nanos) -> Nanos {
        match self.nominal {
            Some(nominal) if 1 < self.n_gone_by(at) => at.saturating_sub(nominal),
            _ => self.interval_at,
        }
    }

    /// When the last interval turn was.
    pub fn last_at(&self) -> Nanos {
        self.interval_at
    }

    /// How many intervals there would have been by now since the last; at least the one.
    fn n_gone_by(&self, at: Nanos) -> u64 {
        let Some(nominal) = self.nominal.filter(|nominal| *nominal != Nanos::ZERO) else {
            return 1;
        };
        let elapsed = at.saturating_sub(self.interval_at);
        (elapsed.saturating_add(Nanos(nominal.0 / 2)).0 / nominal.0).max(1)
    }

    /// How many intervals went by between the last two interval turns.
    pub fn n_intervals(&self) -> u64 {
        self.n_intervals
    }

    /// The loads with the names of the places.
    pub fn seen_loads(&self, domains: &Domains) -> LoadSample {
        LoadSample {
            level: domains.level(),
            numbers: domains.iter().map(|(_, domain)| domain.number).collect(),
            loads: self.loads.clone(),
            cpu_time: self.cpu_time.clone(),
        }
    }

    /// Other places than before: a place of the same number keeps its load.
    pub fn places_changed(&mut self, old: &Domains, new: &Domains) {
        let was = |number: u32| {
            let same = old.level() == new.level();
            same.then(|| old.iter().find(|(_, domain)| domain.number == number)).flatten()
        };
        let old_idxs = new.iter().map(|(_, domain)| was(domain.number).map(|(idx, _)| idx));
        let old_idxs: Vec<Option<usize>> = old_idxs.collect();
        let load = |idx: &Option<usize>| idx.and_then(|i| self.loads.loads.get(i)).copied();
        self.loads.loads = old_idxs.iter().map(|idx| load(idx).unwrap_or(0)).collect();
        let time = |idx: &Option<usize>| idx.and_then(|i| self.cpu_time.get(i)).copied();
        self.cpu_time = old_idxs.iter().map(|idx| time(idx).unwrap_or_default()).collect();
    }

    /// What loads will stand on, as far as that can be told before an interval with these places is
    /// over: tasks that were counted before will be counted again.
    pub fn expect(
        &mut self,
        places: &LoadDomains,
        controllers: &Controllers,
        around: &SystemMetrics,
        jobs: &Jobs,
    ) {
        self.loads.readable = true;
        let was_counted = self.loads.tier == SignalTier::Counters;
        let of_tasks = match counted(&self.shares, was_counted) {
            Coverage::All | Coverage::Lost => SignalTier::Counters,
            Coverage::NotAll => without_counters(jobs),
        };
        let of_llcs = || match places.domains.level() {
            Level::Llc => places.domains.iter().all(|(_, d)| around.is_counted(LlcId(d.number))),
            Level::Node | Level::Core => false,
        };
        let of_nodes = || controllers.known(places.nodes.iter().copied());
        let of_places = self.llcs_known || of_llcs() || of_nodes();
        self.loads.tier = match self.wish {
            LoadPreference::Best if of_places => SignalTier::Bandwidth,
            LoadPreference::Best | LoadPreference::Tasks => of_tasks,
            LoadPreference::Only(SignalTier::Counters) if of_tasks != SignalTier::Counters => {
                SignalTier::None
            }
            LoadPreference::Only(SignalTier::Bandwidth) if !of_places => SignalTier::None,
            LoadPreference::Only(tier) => tier,
        };
    }

    /// Ends an interval: new rates for every task and job, new loads for every place.
    pub fn turn_over(
        &mut self,
        at: Nanos,
        places: &LoadDomains,
        jobs: &mut Jobs,
        tasks: &mut Tasks,
        controllers: &mut Controllers,
        around: &mut SystemMetrics,
    ) {
        self.interval = at.saturating_sub(self.begin(at));
        self.n_intervals = self.n_gone_by(at);
        self.interval_at = at;
        let elapsed = at.saturating_sub(self.controllers_at);
        let reading = controllers.turn_over(&places.nodes, self.interval, elapsed);
        if reading != ControllerGrowth::Lost {
            self.controllers_at = at;
        }
        around.turn_over(at, self.interval);
        let reading = match places.domains.level() {
            Level::Llc => self.read_llcs(&places.domains, around),
            Level::Node | Level::Core => reading,
        };
        tasks.derive();
        self.collect(places, jobs, tasks);
        self.cpu_time.clear();
        self.cpu_time.extend(self.sums.iter().map(|sums| sums.cpu_time));
        self.set_loads(reading, jobs);
        self.set_job_rates(jobs, places);
        tasks.turn_over();
    }

    /// What was counted of each LLC domain.
    fn read_llcs(&mut self, domains: &Domains, around: &SystemMetrics) -> ControllerGrowth {
        let bytes = |number: u32| {
            let llc = around.llcs.iter().find(|llc| llc.llc.0 == number)?;
            llc.traffic.total_bytes
        };
        let ops = domains.iter().map(|(_, d)| bytes(d.number).map(|bytes| bytes / LINE_BYTES));
        match ops.collect::<Option<Vec<u64>>>() {
            Some(ops) if !ops.is_empty() => {
                self.llcs_known = true;
                ControllerGrowth::Ops(ops)
            }
            _ if self.llcs_known => ControllerGrowth::Lost,
            _ => ControllerGrowth::Never,
        }
    }

    fn collect(&mut self, places: &LoadDomains, jobs: &Jobs, tasks: &Tasks) {
        let domains = &places.domains;
        self.shares.clear();
        let mut last = None;
        for growth in tasks.growth() {
            self.shares.push(share(domains, jobs, &mut last, &growth));
        }
        for growth in tasks.ended() {
            let mut share = share(domains, jobs, &mut last, growth);
            share.domain = growth.cpu.and_then(|cpu| domains.of_cpu(cpu));
            self.shares.push(share);
        }
        self.sums.clear();
        self.sums.resize(domains.len(), Sums::default());
        let sums = &mut self.sums;
        for share in &self.shares {
            if let Some(idx) = share.domain {
                sums[idx].cpu_time += share.cpu_time;
            }
            share.each_place(places, jobs, |idx, part, whole| {
                let declared = u128::from(share.declared) * u128::from(part) / u128::from(whole);
                sums[idx].declared += declared;
                let misses = part_of(share.misses.grew(), part, u128::from(whole));
                sums[idx].misses = sums[idx].misses.saturating_add(misses);
            });
        }
    }

    fn set_loads(&mut self, reading: ControllerGrowth, jobs: &Jobs) {
        self.loads.readable = true;
        match (self.wish, reading) {
            (LoadPreference::Tasks, _) => self.set_loads_of_tasks(jobs),
            (LoadPreference::Only(SignalTier::Bandwidth), ControllerGrowth::Never) => {
                self.loads.tier = SignalTier::None;
                self.loads.loads = vec![0; self.sums.len()];
                self.loads.readable = false;
            }
            (LoadPreference::Best | LoadPreference::Only(SignalTier::Bandwidth), reading) => {
                self.set_loads_of_places(reading, jobs);
            }
            (LoadPreference::Only(tier), _) => self.set_loads_only(tier, jobs),
        }
    }

    /// Of tasks, by one signal and no other; where it is not there loads stand on nothing.
    fn set_loads_only(&mut self, wished: SignalTier, jobs: &Jobs) {
        let is_there = match wished {
            SignalTier::Counters => counted(&self.shares, true) == Coverage::All,
            SignalTier::Declared => jobs.any_declares_traffic(),
            SignalTier::Bandwidth | SignalTier::None => false,
        };
        self.loads.tier = if is_there { wished } else { SignalTier::None };
        let tier = self.loads.tier;
        self.loads.loads = self.sums.iter().map(|sums| sums.load(tier)).collect();
    }

    fn set_loads_of_places(&mut self, reading: ControllerGrowth, jobs: &Jobs) {
        match reading {
            ControllerGrowth::Ops(ops) => {
                self.loads.tier = SignalTier::Bandwidth;
                self.loads.loads = ops;
            }
            ControllerGrowth::Lost => self.loads.readable = false,
            ControllerGrowth::Never => self.set_loads_of_tasks(jobs),
        }
    }

    fn set_loads_of_tasks(&mut self, jobs: &Jobs) {
        let counted = counted(&self.shares, self.loads.tier == SignalTier::Counters);
        if counted == Coverage::Lost {
            self.loads.readable = false;
            return;
        }
        self.loads.tier = match counted {
            Coverage::All => SignalTier::Counters,
            _ => without_counters(jobs),
        };
        let tier = self.loads.tier;
        self.loads.loads.clear();
        self.loads.loads.extend(self.sums.iter().map(|sums| sums.load(tier)));
    }

    fn set_job_rates(&self, jobs: &mut Jobs, places: &LoadDomains) {
        for at in 0..jobs.live_idxs().len() {
            let idx = jobs.live_idxs()[at];
            jobs.entry_mut(idx).rates = JobRates::default();
        }
        let counted = counted(&self.shares, false) == Coverage::All;
        let mut declared = Fraction::default();
        for share in &self.shares {
            let Some(idx) = share.job_idx else { continue };
            let load = self.load_of(share, counted, declared.of(idx), (places, jobs));
            jobs.entry_mut(idx).rates.add(share.cpu_time, share.wait, load);
        }
    }

    /// What a task's share adds to the load of its job.
    fn load_of(
        &self,
        share: &Share,
        counted: bool,
        rest: &mut u64,
        (places, jobs): (&LoadDomains, &Jobs),
    ) -> u64 {
        match self.loads.tier {
            SignalTier::None => 0,
            SignalTier::Counters => share.misses.grew(),
            SignalTier::Declared => {
                let exact = u128::from(share.declared) + u128::from(*rest);
                *rest = (exact % NANOS_PER_MILLI) as u64;
                u64::try_from(exact / NANOS_PER_MILLI).unwrap_or(u64::MAX)
            }
            SignalTier::Bandwidth => {
                let mut sum = 0u64;
                share.each_place(places, jobs, |idx, part, whole| {
                    sum = sum.saturating_add(self.part_in(share, idx, counted, (part, whole)));
                });
                sum
            }
        }
    }

    /// What of a place's load is a task's, of which so much belongs to that place.
    fn part_in(&self, share: &Share, idx: usize, counted: bool, (n, of): (u64, u64)) -> u64 {
        let load = self.loads.loads.get(idx).copied().unwrap_or(0);
        let sums = &self.sums[idx];
        let there = |figure: u64| part_of(figure, n, u128::from(of));
        let (part, whole) = match (counted && sums.misses != 0, sums.declared) {
            (true, _) => (there(share.misses.grew()), u128::from(sums.misses)),
            (false, 0) if share.domain == Some(idx) => {
                (share.cpu_time.0, u128::from(sums.cpu_time.0))
            }
            (false, 0) => return 0,
            (false, declared) => (there(share.declared), declared),
        };
        part_of(load, part, whole)
    }
}

impl Share {
    /// The places that a task's traffic goes to, each with its part of the whole: those of its job's
    /// pages where they are known, else the one where it ran.
    fn each_place(&self, places: &LoadDomains, jobs: &Jobs, mut tell: impl FnMut(usize, u64, u64)) {
        let memory = self.job_idx.and_then(|idx| jobs.entry(idx).memory.as_ref());
        // Pages of files and shared ones are left out: programs live in them, and work on their own.
        let whole = memory.map_or(0, |memory| memory.own().0);
        let Some(memory) = memory.filter(|_| !places.nodes.is_empty() && whole != 0) else {
            if let Some(idx) = self.domain {
                tell(idx, 1, 1);
            }
            return;
        };
        for there in &memory.nodes {
            if let Some(idx) = places.nodes.iter().position(|&node| node == there.node) {
                tell(idx, there.own().0, whole);
            }
        }
    }
}

/// What a division of declared load left over, kept for the same job's next task, so that many
/// small tasks do not round away to nothing.
#[derive(Debug, Default)]
struct Fraction {
    job_idx: usize,
    rest: u64,
}

impl Fraction {
    fn of(&mut self, job_idx: usize) -> &mut u64 {
        if self.job_idx != job_idx {
            *self = Fraction { job_idx, rest: 0 };
        }
        &mut self.rest
    }
}

impl Sums {
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
    fn grew(self) -> u64 {
        match self {
            Misses::Grew(grown) => grown,
            Misses::NeverRead | Misses::Lost => 0,
        }
    }
}

/// How far the tasks that have run are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coverage {
    All,
    NotAll,
    Lost,
}

/// Whether all tasks that have run since their birth have counters. As long as none has run nothing
/// is known, so what was holds. One task that sleeps without a counter is enough for a no:
/// otherwise loads would change their unit whenever it wakes.
fn counted(shares: &[Share], before: bool) -> Coverage {
    let have_run = || shares.iter().filter(|share| share.has_run);
    if before && have_run().any(|share| share.misses == Misses::Lost) {
        return Coverage::Lost;
    }
    let all = have_run().all(|share| matches!(share.misses, Misses::Grew(_)));
    if all && (before || have_run().next().is_some()) { Coverage::All } else { Coverage::NotAll }
}

fn without_counters(jobs: &Jobs) -> SignalTier {
    if jobs.any_declares_traffic() { SignalTier::Declared } else { SignalTier::None }
}

fn share(
    domains: &Domains,
    jobs: &Jobs,
    last: &mut Option<(JobId, Option<usize>)>,
    growth: &TaskGrowth,
) -> Share {
    let TaskGrowth { job, cpu, cpu_time, wait, misses, has_run } = *growth;
    let job_idx = look_up(jobs, last, job);
    let ran_on = || domains.of_cpu(cpu?);
    let domain = match job_idx.map(|idx| jobs.entry(idx)) {
        // Whoever took it may have bound one of its threads only: look where each ran.
        Some(entry) if entry.is_unmanaged => ran_on().or(entry.home),
        Some(entry) => entry.home.or_else(ran_on),
        None => ran_on(),
    };
    let ops_per_ms = jobs.declared(job).and_then(|declared| declared.ops_per_ms).unwrap_or(0);
    let declared = ops_per_ms.saturating_mul(cpu_time.0);
    Share { job_idx, domain, cpu_time, wait, declared, misses, has_run }
}

/// Where a live job stands in the tables; tasks come by job, so most ask for the same as the last.
fn look_up(jobs: &Jobs, last: &mut Option<(JobId, Option<usize>)>, job: JobId) -> Option<usize> {
    match *last {
        Some((same, idx)) if same == job => idx,
        _ => {
            let idx = jobs.idx(job).filter(|&idx| jobs.entry(idx).state.is_some());
            *last = Some((job, idx));
            idx
        }
    }
}

fn part_of(load: u64, part: u64, whole: u128) -> u64 {
    match (u64::try_from(whole), load.checked_mul(part)) {
        (Ok(0), _) => 0,
        (Ok(whole), Some(product)) => product / whole,
        _ => u64::try_from(u128::from(load) * u128::from(part) / whole).unwrap_or(u64::MAX),
    }
}
