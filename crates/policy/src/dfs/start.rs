//! Placement of jobs that start.
//!
//! ```text
//!   N = domain with the lowest load       ties: fewest jobs, smallest sum of classes, number
//!   C = CPU of N with the fewest jobs     ties: number
//! ```
//!
//! Loads do not change between two polls, so jobs that start together would all start on one domain. With
//! `start=estimate` each start adds the mean load of the job's class to a copy of the loads, which is kept until the
//! next poll ([`super::loads::ExpectedLoads`]). With `start=plain`, as printed, the measured loads are used, and the
//! number resolves ties.
//!
//! With `placement=sens` the predicted slowdowns are compared before the loads ([`super::cost`]).

use base::CpuSet;
use sched::{Action, JobView, Plan, Reason, ReasonCode, Snapshot};
use topology::Level;

use super::Dfs;
use super::cost::remote_slowdown;
use super::declaration::{
    CPUS_UNUSABLE, FEWEST_JOBS, LEAST_EXPECTED_LOAD, LEAST_LOAD, LEAST_SLOWDOWN, LOWEST_NUMBER,
    ONLY_DOMAIN, PlacementCriterion, SMALLEST_CLASSES, Start,
};
use super::loads::DomainJobs;
use crate::placement::{self, Bind, cpus_label, permille_text};

/// Sort key of a domain for a job; the domain with the smallest key is selected. Indices are in the order of domain
/// numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct StartCriterion {
    /// Slowdowns that the job adds, in permille; 0 with `placement=load`.
    slowdown: u64,
    load: u64,
    n_jobs: u64,
    class_sum: u64,
    idx: usize,
}

/// The selected domain and the decisive criterion.
struct SelectedDomain {
    key: StartCriterion,
    decided_by: DecidedBy,
    /// Number of domains with an equal key, including the selected domain.
    n_equal: u64,
}

/// The first part of the key in which the best domain differs from the second-best domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DecidedBy {
    OnlyDomain,
    Slowdown,
    Load,
    Jobs,
    Classes,
    Number,
}

impl DecidedBy {
    /// Returns the word of the sentence templates.
    fn word(self) -> &'static str {
        match self {
            DecidedBy::OnlyDomain => "only-domain",
            DecidedBy::Slowdown => "slowdown",
            DecidedBy::Load => "load",
            DecidedBy::Jobs => "jobs",
            DecidedBy::Classes => "classes",
            DecidedBy::Number => "number",
        }
    }
}

impl Dfs {
    /// Starts a due job.
    pub(super) fn start(&mut self, snapshot: &Snapshot<'_>, job: &JobView<'_>, plan: &mut Plan) {
        *self.moved_at.get_or_default(job.job.id) = None;
        *self.following.get_or_default(job.job.id) = None;
        self.classes.reset(job);
        let Some(choice) = self.choose(snapshot, job) else { return };
        let cpus = self.take_cpus(snapshot, job, choice.key.idx);
        let reason = self.start_reason(snapshot, &choice, self.code(&choice), &cpus);
        self.expect(job, choice.key.idx);
        plan.request(job.job.id, Action::Place(cpus), reason);
    }

    /// Places a job whose CPUs became unusable like a job that starts.
    pub(super) fn place_after_cpu_loss(
        &mut self,
        snapshot: &Snapshot<'_>,
        job: &JobView<'_>,
        plan: &mut Plan,
    ) {
        *self.moved_at.get_or_default(job.job.id) = None;
        if let Some(old) =
            old_domain(snapshot, job).filter(|_| self.config.start == Start::Estimate)
        {
            self.expected.subtract(old, job.load);
        }
        let Some(choice) = self.choose(snapshot, job) else { return };
        self.uncount(job);
        let cpus = self.take_cpus(snapshot, job, choice.key.idx);
        self.follow_with_pages(snapshot, job, choice.key.idx);
        let lost = job.placed.map(CpuSet::to_string).unwrap_or_default();
        let reason = self.start_reason(snapshot, &choice, CPUS_UNUSABLE, &cpus).with("lost", lost);
        self.expect(job, choice.key.idx);
        plan.request(job.job.id, Action::Place(cpus), reason);
    }

    /// Returns the domain for a job; `None`: the job may use no domain.
    fn choose(&self, snapshot: &Snapshot<'_>, job: &JobView<'_>) -> Option<SelectedDomain> {
        let possible = snapshot.domains.iter().filter(|(_, d)| d.cpus.intersects(job.allowed));
        let mut keys: Vec<StartCriterion> =
            possible.map(|(idx, _)| self.key(snapshot, job, idx)).collect();
        keys.sort_unstable();
        let key = *keys.first()?;
        let decided_by = decided_by(key, keys.get(1).copied());
        let n_equal = keys
            .iter()
            .take_while(|other| StartCriterion { idx: key.idx, ..**other } == key)
            .count();
        Some(SelectedDomain { key, decided_by, n_equal: n_equal as u64 })
    }

    fn code(&self, choice: &SelectedDomain) -> ReasonCode {
        match choice.decided_by {
            DecidedBy::OnlyDomain => ONLY_DOMAIN,
            DecidedBy::Slowdown => LEAST_SLOWDOWN,
            DecidedBy::Load if self.expected.total() == 0 => LEAST_LOAD,
            DecidedBy::Load => LEAST_EXPECTED_LOAD,
            DecidedBy::Jobs => FEWEST_JOBS,
            DecidedBy::Classes => SMALLEST_CLASSES,
            DecidedBy::Number => LOWEST_NUMBER,
        }
    }

    fn key(&self, snapshot: &Snapshot<'_>, job: &JobView<'_>, idx: usize) -> StartCriterion {
        let load = self.load(snapshot, idx);
        let slowdown = match self.config.placement {
            PlacementCriterion::Load => 0,
            PlacementCriterion::Sens => self.slowdown(snapshot, job, idx),
        };
        match self.config.start {
            Start::Plain => StartCriterion { slowdown, load, n_jobs: 0, class_sum: 0, idx },
            Start::Estimate => {
                let DomainJobs { n_jobs, class_sum, .. } = self.counts.in_domain[idx];
                StartCriterion { slowdown, load, n_jobs, class_sum, idx }
            }
        }
    }

    /// Returns the slowdowns that a job adds or would add on a domain.
    pub(super) fn slowdown(&self, snapshot: &Snapshot<'_>, job: &JobView<'_>, idx: usize) -> u64 {
        let class = self.classes.class(job);
        let corun = match job.domain == Some(idx) {
            true => self.corun_costs.cost_of_staying(job, class, idx),
            false => self.corun_costs.cost(job, class, idx),
        };
        let remote = remote_slowdown(job) * self.remote_permille(snapshot, job, idx) / 1000;
        corun.saturating_add(remote)
    }

    /// Returns the measured load of a domain with the expected changes.
    fn load(&self, snapshot: &Snapshot<'_>, idx: usize) -> u64 {
        self.expected.load(idx, snapshot.loads.loads.get(idx).copied().unwrap_or(0))
    }

    /// Assigns CPUs of a domain to a job.
    pub(super) fn take_cpus(
        &mut self,
        snapshot: &Snapshot<'_>,
        job: &JobView<'_>,
        idx: usize,
    ) -> CpuSet {
        let possible = snapshot.domains.get(idx).cpus.and(job.allowed);
        let cpus = match self.config.bind {
            Bind::Cpu => self.cpus_for_threads(snapshot, job, &possible),
            Bind::Domain => possible,
        };
        let class = self.classes.class(job);
        self.counts.add(class, idx, &cpus);
        if self.config.placement == PlacementCriterion::Sens {
            self.corun_costs.add(job, class, idx);
        }
        cpus
    }

    /// Returns a CPU for each thread: the CPUs of the domain with the fewest jobs. If a core or a cache has fewer CPUs
    /// than the job has threads, the job also gets CPUs of its node: four threads on one core would take four times as
    /// long. A job never gets CPUs of several nodes, because its memory would be remote.
    fn cpus_for_threads(
        &self,
        snapshot: &Snapshot<'_>,
        job: &JobView<'_>,
        possible: &CpuSet,
    ) -> CpuSet {
        let n = job.job.threads;
        let n_missing = (n as usize).saturating_sub(possible.len());
        if n_missing == 0 || snapshot.domains.level() == Level::Node {
            return self.counts.per_cpu.least_loaded(possible, n);
        }
        let further = placement::other_cpus_of_node(snapshot, job, possible);
        match further.is_empty() {
            true => possible.clone(),
            false => possible.or(&self.counts.per_cpu.least_loaded(&further, n_missing as u32)),
        }
    }

    /// Removes a job from the job counts of its domain and CPUs.
    pub(super) fn uncount(&mut self, job: &JobView<'_>) {
        let class = self.classes.class(job);
        self.counts.remove(job, class);
        if self.config.placement == PlacementCriterion::Sens
            && let Some(idx) = job.domain
        {
            self.corun_costs.remove(job, class, idx);
        }
    }

    fn expect(&mut self, job: &JobView<'_>, idx: usize) {
        if self.config.start == Start::Estimate {
            self.expected.add(job.job.id, idx, self.class_loads.mean(self.classes.class(job)));
        }
    }

    /// Returns the criteria in which tied domains are equal, as a word of the sentence templates.
    fn equal_in(&self) -> &'static str {
        match (self.config.placement, self.config.start) {
            (PlacementCriterion::Load, Start::Plain) => "load",
            (PlacementCriterion::Load, Start::Estimate) => "load-jobs-classes",
            (PlacementCriterion::Sens, Start::Plain) => "slowdowns-load",
            (PlacementCriterion::Sens, Start::Estimate) => "slowdowns-load-jobs-classes",
        }
    }

    fn start_reason(
        &self,
        snapshot: &Snapshot<'_>,
        choice: &SelectedDomain,
        code: ReasonCode,
        cpus: &CpuSet,
    ) -> Reason {
        let n_domains = snapshot.domains.len();
        let total = (0..n_domains).fold(0u64, |sum, i| sum.saturating_add(self.load(snapshot, i)));
        let reason = Reason::new(code.clone())
            .with("domain", snapshot.domains.label(choice.key.idx))
            .with("load", choice.key.load)
            .with("total", total)
            .with("expected", self.expected.total())
            .with("cpus", cpus_label(cpus))
            .with("tier", snapshot.loads.tier.to_string());
        let with_equal = |reason: Reason| {
            reason.with("n_equal", choice.n_equal).with("equal_in", self.equal_in())
        };
        if code == CPUS_UNUSABLE {
            let reason = reason.with("by", choice.decided_by.word());
            return match choice.decided_by {
                DecidedBy::Number => with_equal(reason),
                _ => reason,
            };
        }
        let StartCriterion { slowdown, n_jobs, class_sum, .. } = choice.key;
        match choice.decided_by {
            DecidedBy::Slowdown => reason.with("slowdown", permille_text(slowdown)),
            DecidedBy::Jobs => reason.with("n_jobs", n_jobs),
            DecidedBy::Classes => reason.with("n_jobs", n_jobs).with("class_sum", class_sum),
            DecidedBy::Number => with_equal(reason),
            DecidedBy::OnlyDomain | DecidedBy::Load => reason,
        }
    }
}

fn decided_by(key: StartCriterion, second: Option<StartCriterion>) -> DecidedBy {
    match second {
        None => DecidedBy::OnlyDomain,
        Some(other) if key.slowdown < other.slowdown => DecidedBy::Slowdown,
        Some(other) if key.load < other.load => DecidedBy::Load,
        Some(other) if key.n_jobs < other.n_jobs => DecidedBy::Jobs,
        Some(other) if key.class_sum < other.class_sum => DecidedBy::Classes,
        Some(_) => DecidedBy::Number,
    }
}

/// Returns the domain of a job's CPUs, usable or not. The measured load of the domain includes the job.
fn old_domain(snapshot: &Snapshot<'_>, job: &JobView<'_>) -> Option<usize> {
    let cpu = snapshot.machine.cpu(job.placed?.first()?)?;
    let number = match snapshot.domains.level() {
        Level::Node => cpu.node?.0,
        Level::Llc => cpu.llc?.0,
        Level::Core => cpu.core?.0,
    };
    snapshot.domains.iter().find(|(_, domain)| domain.number == number).map(|(idx, _)| idx)
}
