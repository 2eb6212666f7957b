//! Where a program starts.
//!
//! ```text
//!   N = domain with the least load        ties: fewest programs, smallest sum of classes, number
//!   C = CPU of N with the fewest programs ties: number
//! ```
//!
//! Loads do not change between two polls, so programs that start together would all go to one
//! domain. With `start=estimate` each of them adds the load that a program of its class has shown
//! to a copy of the loads, kept until the next poll ([`super::expected`]). With `start=plain` loads stay as measured, and
//! only the number breaks ties, as printed.
//!
//! With `placement=sens` what a program is predicted to cost on a domain, and the programs there by it,
//! comes before all that ([`super::company`]).

use base::CpuSet;
use sched::{Action, JobView, Plan, Reason, ReasonCode, Snapshot};
use topology::Level;

use super::Dfs;
use super::company::remoteness;
use super::config::{Bind, Placement, Start};
use super::table::InDomain;
use crate::common::{self, cpus_label, permille_text};

/// What decides between domains, in this order; the index is their number's rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    /// Slow-downs that it adds, in thousandths; 0 when nobody asks.
    slowdown: u64,
    load: u64,
    n_jobs: u64,
    class_sum: u64,
    idx: usize,
}

/// The chosen domain and how it was chosen.
struct Choice {
    key: Key,
    code: ReasonCode,
    /// How many domains were equal in everything that decides, this one among them.
    n_equal: u64,
}

impl Dfs {
    /// Starts a job that is due.
    pub(super) fn start(&mut self, seen: &Snapshot<'_>, job: &JobView<'_>, plan: &mut Plan) {
        *self.moved_at.of(job.job.id) = None;
        *self.following.of(job.job.id) = None;
        self.classes.forget(job);
        let Some(choice) = self.choose(seen, job) else { return };
        let cpus = self.take_cpus(seen, job, choice.key.idx);
        let reason = self.tell(seen, &choice, choice.code, &cpus);
        self.expect(job, choice.key.idx);
        plan.request(job.job.id, Action::Place(cpus), reason);
    }

    /// A job whose CPUs went away is treated as if it had just been created.
    pub(super) fn place_again(&mut self, seen: &Snapshot<'_>, job: &JobView<'_>, plan: &mut Plan) {
        *self.moved_at.of(job.job.id) = None;
        if let Some(old) = was_in(seen, job).filter(|_| self.config.start == Start::Estimate) {
            self.expected.take(old, job.load);
        }
        let Some(choice) = self.choose(seen, job) else { return };
        self.leave(job);
        let cpus = self.take_cpus(seen, job, choice.key.idx);
        self.follow(seen, job, choice.key.idx);
        let gone = job.placed.map(CpuSet::to_string).unwrap_or_default();
        let reason = self.tell(seen, &choice, ReasonCode::DomainGone, &cpus).with("gone", gone);
        self.expect(job, choice.key.idx);
        plan.request(job.job.id, Action::Place(cpus), reason);
    }

    /// The domain for a job, among those that it may use; `None` when it may use none.
    fn choose(&self, seen: &Snapshot<'_>, job: &JobView<'_>) -> Option<Choice> {
        let possible = seen.domains.iter().filter(|(_, d)| d.cpus.intersects(job.allowed));
        let mut keys: Vec<Key> = possible.map(|(idx, _)| self.key(seen, job, idx)).collect();
        keys.sort_unstable();
        let key = *keys.first()?;
        let code = self.decided(key, keys.get(1).copied());
        let n_equal =
            keys.iter().take_while(|other| Key { idx: key.idx, ..**other } == key).count();
        Some(Choice { key, code, n_equal: n_equal as u64 })
    }

    /// What told the best domain from the second best.
    fn decided(&self, key: Key, second: Option<Key>) -> ReasonCode {
        match second {
            None => ReasonCode::OnlyDomain,
            Some(other) if key.slowdown < other.slowdown => ReasonCode::LeastSlowdown,
            Some(other) if key.load < other.load => match self.expected.total() {
                0 => ReasonCode::LeastLoad,
                _ => ReasonCode::LeastExpectedLoad,
            },
            Some(other) if key.n_jobs < other.n_jobs => ReasonCode::FewestJobs,
            Some(other) if key.class_sum < other.class_sum => ReasonCode::SmallestClasses,
            Some(_) => ReasonCode::LowestNumber,
        }
    }

    fn key(&self, seen: &Snapshot<'_>, job: &JobView<'_>, idx: usize) -> Key {
        let load = self.load(seen, idx);
        let slowdown = match self.config.placement {
            Placement::Load => 0,
            Placement::Sens => self.slowdown(seen, job, idx),
        };
        match self.config.start {
            Start::Plain => Key { slowdown, load, n_jobs: 0, class_sum: 0, idx },
            Start::Estimate => {
                let InDomain { n_jobs, class_sum, .. } = self.table.in_domain(idx);
                Key { slowdown, load, n_jobs, class_sum, idx }
            }
        }
    }

    /// What a job adds to the slow-downs of all where it is, or would add there.
    pub(super) fn slowdown(&self, seen: &Snapshot<'_>, job: &JobView<'_>, idx: usize) -> u64 {
        let class = self.classes.class_of(job);
        let beside = match job.domain == Some(idx) {
            true => self.company.cost_of_staying(job, class, idx),
            false => self.company.cost(job, class, idx),
        };
        let far = remoteness(job) * self.remote_permille(seen, job, idx) / 1000;
        beside.saturating_add(far)
    }

    /// The load of a domain, with what is known beyond what was measured.
    fn load(&self, seen: &Snapshot<'_>, idx: usize) -> u64 {
        self.expected.load(idx, seen.loads.loads.get(idx).copied().unwrap_or(0))
    }

    /// The CPUs for a job in a domain; from now on they count as taken.
    pub(super) fn take_cpus(
        &mut self,
        seen: &Snapshot<'_>,
        job: &JobView<'_>,
        idx: usize,
    ) -> CpuSet {
        let possible = seen.domains.get(idx).cpus.and(job.allowed);
        let cpus = match self.config.bind {
            Bind::Cpu => self.for_threads(seen, job, &possible),
            Bind::Domain => possible,
        };
        let class = self.classes.class_of(job);
        self.table.enter(class.number(), idx, &cpus);
        if self.config.placement == Placement::Sens {
            self.company.enter(job, class, idx);
        }
        cpus
    }

    /// A CPU for each thread, the emptiest ones of the domain. A core or a cache that has fewer CPUs
    /// than the job has threads lends no more than it has, so the rest come from its node: four
    /// threads on one core would take four times as long. Beyond a node a job is not stretched:
    /// there its memory would be far.
    fn for_threads(&self, seen: &Snapshot<'_>, job: &JobView<'_>, possible: &CpuSet) -> CpuSet {
        let n = job.job.threads;
        let n_missing = (n as usize).saturating_sub(possible.len());
        if n_missing == 0 || seen.domains.level() == Level::Node {
            return self.table.crowd.emptiest(possible, n);
        }
        let rest = common::beside(seen, job, possible);
        match rest.is_empty() {
            true => possible.clone(),
            false => possible.or(&self.table.crowd.emptiest(&rest, n_missing as u32)),
        }
    }

    /// A program goes away from where it is.
    pub(super) fn leave(&mut self, job: &JobView<'_>) {
        let class = self.classes.class_of(job);
        self.table.leave(job, class.number());
        if self.config.placement == Placement::Sens
            && let Some(idx) = job.domain
        {
            self.company.leave(job, class, idx);
        }
    }

    fn expect(&mut self, job: &JobView<'_>, idx: usize) {
        if self.config.start == Start::Estimate {
            self.expected.add(job.job.id, idx, self.shown.class_load(self.classes.of(job)));
        }
    }

    /// What all that tie are equal in.
    fn equal_in(&self) -> &'static str {
        match (self.config.placement, self.config.start) {
            (Placement::Load, Start::Plain) => "load",
            (Placement::Load, Start::Estimate) => "load, programs and classes",
            (Placement::Sens, Start::Plain) => "slow-downs and load",
            (Placement::Sens, Start::Estimate) => "slow-downs, load, programs and classes",
        }
    }

    /// What made a domain the best.
    fn by(&self, choice: &Choice) -> String {
        match choice.code {
            ReasonCode::OnlyDomain => "the only one that it may use".to_owned(),
            ReasonCode::LeastSlowdown => "programs slow each other least there".to_owned(),
            ReasonCode::FewestJobs => "of equal loads it had the fewest programs".to_owned(),
            ReasonCode::SmallestClasses => {
                "of equal loads and programs it had the smallest sum of classes".to_owned()
            }
            ReasonCode::LowestNumber => {
                let (n_equal, equal_in) = (choice.n_equal, self.equal_in());
                format!("of {n_equal} that were equal in {equal_in} it has the lowest number")
            }
            _ => "it had the least load".to_owned(),
        }
    }

    fn tell(
        &self,
        seen: &Snapshot<'_>,
        choice: &Choice,
        code: ReasonCode,
        cpus: &CpuSet,
    ) -> Reason {
        let n_domains = seen.domains.len();
        let total = (0..n_domains).fold(0u64, |sum, i| sum.saturating_add(self.load(seen, i)));
        let reason = Reason::new(code)
            .with("domain", seen.domains.label(choice.key.idx))
            .with("load", choice.key.load)
            .with("total", total)
            .with("expected", self.expected.total())
            .with("cpus", cpus_label(cpus))
            .with("tier", seen.loads.tier.to_string());
        match code {
            ReasonCode::LeastSlowdown => {
                reason.with("slowdown", permille_text(choice.key.slowdown))
            }
            ReasonCode::FewestJobs => reason.with("n_jobs", choice.key.n_jobs),
            ReasonCode::SmallestClasses => {
                reason.with("n_jobs", choice.key.n_jobs).with("class_sum", choice.key.class_sum)
            }
            ReasonCode::LowestNumber => {
                reason.with("n_equal", choice.n_equal).with("equal_in", self.equal_in().to_owned())
            }
            ReasonCode::DomainGone => reason.with("by", self.by(choice)),
            _ => reason,
        }
    }
}

/// The domain that held the CPUs that a job was put on, whether they can be used now or not; its
/// load, if it is still there, holds what the job did.
fn was_in(seen: &Snapshot<'_>, job: &JobView<'_>) -> Option<usize> {
    let cpu = seen.machine.cpu(job.placed?.first()?)?;
    let number = match seen.domains.level() {
        Level::Node => cpu.node?.0,
        Level::Llc => cpu.llc?.0,
        Level::Core => cpu.core?.0,
    };
    seen.domains.iter().find(|(_, domain)| domain.number == number).map(|(idx, _)| idx)
}
