//! Core kinds: the sets of CPUs among which the policies for asymmetric machines place jobs.
//!
//! ```text
//!   kind 0   performance   capacity 1024   cpus 0-15      fastest first
//!   kind 1   efficiency    capacity  600   cpus 16-31
//! ```
//!
//! A job that is placed on a kind is bound to all usable CPUs of the kind that it may use. The kernel selects the CPU
//! inside this set. A job counts as one task per thread.
//!
//! A job with more threads than CPUs of every kind is not placed: if it were bound to one kind, the other kinds would be
//! idle. On a machine with one kind, or while only one kind is usable, these policies place no job.

pub(crate) mod quotas;
pub(crate) mod speed;

use std::borrow::Cow;
use std::cmp::Ordering;

use base::{CpuSet, Nanos, NodeId};
use sched::{Action, Cause, JobState, JobView, Plan, Reason, Snapshot, Target, TaskView, reasons};

use crate::declaration::{MILLION, Millionths};
use crate::placement::cpus_label;

reasons! {
    /// All usable cores are of one kind.
    ONE_CORE_KIND = "one-core-kind":
        "all usable cores are {kind} cores, so the policy places no job: it selects between core kinds";
    /// A program has no signature with a miss curve.
    NO_SIGNATURE = "no-signature":
        "the program of job {job} has no valid signature (its misses over cache sizes); [then=half: half of its time counts as memory time][then=mean: its global behaviour is the mean of its intervals]. To make one: evenkeel profile --embed PROGRAM -- ARG…";
    /// The usable CPUs of a kind changed.
    KIND_CPUS_CHANGED = "kind-cpus-changed":
        "the usable CPUs of the {kind} cores changed: the job gets {cpus}";
}

/// Changes of a ratio are relative to at least this value ([`compare_change`]). Chosen.
pub(crate) const RATIO_MIN: u64 = MILLION / 100;

/// Throughput of a core with busy siblings in permille, if the machine does not report it. Guessed.
const SMT_PERMILLE: u64 = 1250;

/// The usable cores of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CoreKind {
    /// Name of the kind, such as `efficiency`.
    pub name: String,
    /// Largest capacity of a core of the kind ([`topology::CoreKind::capacity`]).
    pub capacity: u32,
    /// The usable CPUs.
    pub cpus: CpuSet,
    /// Number of cores with a usable CPU.
    pub n_cores: u64,
    /// Throughput of a core with all siblings busy, in permille of its throughput with one.
    smt_permille: u64,
}

impl CoreKind {
    /// Returns the sum over `n_tasks` tasks of the logarithm of the time of each, relative to its time alone on the kind.
    /// A CPU has a whole number of tasks, which share it, and busy siblings share their core.
    pub fn log_slowdown(&self, n_tasks: u64) -> f64 {
        let n_cpus = self.cpus.len() as u64;
        let (n_each, n_cpus_with_more) = (n_tasks / n_cpus, n_tasks % n_cpus);
        let on_cpu = |n: u64| n as f64 * libm::log(n.max(1) as f64);
        let on_cpus = n_cpus_with_more as f64 * on_cpu(n_each + 1)
            + (n_cpus - n_cpus_with_more) as f64 * on_cpu(n_each);
        // Each task above the number of cores makes a pair of siblings, until no task is alone on its core.
        let n_beside = n_tasks.min(n_tasks.saturating_sub(self.n_cores) * 2);
        on_cpus + n_beside as f64 * libm::log(self.smt_slowdown(n_tasks))
    }

    /// Returns the factor by which busy siblings slow a task down, if `n_tasks` are on the kind.
    pub fn smt_slowdown(&self, n_tasks: u64) -> f64 {
        let n_siblings = self.cpus.len() as f64 / self.n_cores as f64;
        match n_tasks <= self.n_cores {
            true => 1.0,
            false => (n_siblings * 1000.0 / self.smt_permille as f64).max(1.0),
        }
    }
}

/// All core kinds with usable CPUs, by decreasing capacity, then by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct CoreKinds {
    kinds: Vec<CoreKind>,
    /// The usable CPUs for which `kinds` was computed.
    usable: CpuSet,
    has_noted_one_kind: bool,
    has_noted_signature: bool,
}

/// A job, or one thread of a job, that can be placed on a core kind.
#[derive(Clone, Debug)]
pub(crate) struct KindJob<'s> {
    pub view: &'s JobView<'s>,
    /// The job, or its thread.
    pub target: Target,
    /// Indexes of the kinds with enough CPUs that the job may use; at least one.
    pub possible: Vec<usize>,
    /// The CPUs that the job or thread was bound to.
    pub placed: Option<Cow<'s, CpuSet>>,
    /// The kind that it is placed on. `None`: it starts, or is not placed on a kind.
    pub kind: Option<usize>,
}

impl KindJob<'_> {
    /// Returns the number of tasks of the job; 1 for a thread.
    pub fn n_tasks(&self) -> u64 {
        match self.target {
            Target::Job(_) => u64::from(self.view.job.threads),
            Target::Task(_) => 1,
        }
    }

    /// Returns the sampled tasks of the job, or the sampled thread.
    pub fn tasks<'t>(&self, snapshot: &'t Snapshot<'_>) -> &'t [TaskView] {
        let tasks = snapshot.tasks_of(self.view.job.id);
        let Target::Task(task) = self.target else { return tasks };
        let at = tasks.binary_search_by_key(&task, |view| view.task);
        at.map_or(&[], |at| std::slice::from_ref(&tasks[at]))
    }

    /// Returns whether a task of the job was runnable in the last interval. A job that started after this interval is
    /// runnable.
    pub fn is_runnable(&self, snapshot: &Snapshot<'_>) -> bool {
        let JobView { state, started, cpu_time, wait, .. } = *self.view;
        let age = started.map(|started| snapshot.turn.at.saturating_sub(started));
        let is_younger = age.is_some_and(|age| age < snapshot.interval);
        let has_run = cpu_time != Nanos::ZERO || wait.is_some_and(|wait| wait != Nanos::ZERO);
        state == JobState::Due || snapshot.interval == Nanos::ZERO || is_younger || has_run
    }
}

impl CoreKinds {
    /// Reads the usable core kinds. Returns whether there are several. If there is only one, the first call adds a note,
    /// and the policy is quiescent.
    pub fn update(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) -> bool {
        if self.usable != *snapshot.usable_cpus {
            self.kinds = kinds(snapshot);
            self.usable = snapshot.usable_cpus.clone();
        }
        if 1 < self.kinds.len() {
            self.has_noted_one_kind = false;
            return true;
        }
        plan.quiescent = true;
        if let Some(only) = self.kinds.first().filter(|_| !self.has_noted_one_kind) {
            plan.note(Reason::new(ONE_CORE_KIND).with("kind", only.name.clone()));
            self.has_noted_one_kind = true;
        }
        false
    }

    /// Adds a note about the first job whose program has no signature, and how the policy places it then.
    pub fn note_no_signature(&mut self, job: &KindJob<'_>, then: &'static str, plan: &mut Plan) {
        if !std::mem::replace(&mut self.has_noted_signature, true) {
            let name = job.view.job.name.clone();
            plan.note(Reason::new(NO_SIGNATURE).with("job", name).with("then", then));
        }
    }

    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &CoreKind> {
        self.kinds.iter()
    }

    pub fn get(&self, kind: usize) -> &CoreKind {
        &self.kinds[kind]
    }

    /// Returns the number of usable cores of all kinds.
    pub fn n_cores(&self) -> u64 {
        self.iter().map(|kind| kind.n_cores).sum()
    }

    /// Returns the jobs that can be placed, by id.
    pub fn jobs<'s>(&self, snapshot: &'s Snapshot<'_>) -> Vec<KindJob<'s>> {
        snapshot.jobs.iter().filter_map(|view| self.job(view)).collect()
    }

    fn job<'s>(&self, view: &'s JobView<'s>) -> Option<KindJob<'s>> {
        let n_allowed = |kind: &CoreKind| kind.cpus.and(view.allowed).len();
        let has_enough = |kind: &CoreKind| view.job.threads as usize <= n_allowed(kind);
        let possible: Vec<usize> =
            (0..self.len()).filter(|&kind| has_enough(self.get(kind))).collect();
        if !view.movable || possible.is_empty() {
            return None;
        }
        let placed = view.placed.filter(|_| view.state == JobState::Running);
        let kind = placed.and_then(|placed| self.of_cpus(placed));
        let (target, placed) = (view.job.id.into(), placed.map(Cow::Borrowed));
        Some(KindJob { view, target, possible, placed, kind })
    }

    /// Returns the kind to which all usable CPUs of a set belong.
    pub fn of_cpus(&self, cpus: &CpuSet) -> Option<usize> {
        let usable = cpus.and(&self.usable);
        let holds = |kind: &CoreKind| !usable.is_empty() && usable.is_subset(&kind.cpus);
        self.kinds.iter().position(holds)
    }

    /// Returns the CPUs of a kind that a job may use.
    pub fn cpus_for(&self, kind: usize, job: &KindJob<'_>) -> CpuSet {
        self.get(kind).cpus.and(job.view.allowed)
    }

    /// Requests the placement of a job or thread on a kind, with the kinds and CPUs added to the reason.
    pub fn place(&self, kind: usize, job: &KindJob<'_>, reason: Reason, plan: &mut Plan) {
        let cpus = self.cpus_for(kind, job);
        let from = job.kind.map(|from| self.get(from).name.clone());
        let reason = reason
            .with("kind", self.get(kind).name.clone())
            .with_some("from", from)
            .with("cpus", cpus_label(&cpus));
        plan.request(job.target, Action::Place(cpus), reason);
    }

    /// Binds a job or thread again if the usable CPUs of its kind changed in this turn. Returns whether it did.
    pub fn rebind(&self, snapshot: &Snapshot<'_>, job: &KindJob<'_>, plan: &mut Plan) -> bool {
        let (Some(kind), Some(placed)) = (job.kind, &job.placed) else { return false };
        let has_changed = snapshot.turn.causes.contains(&Cause::CpusChanged);
        if !has_changed || **placed == self.cpus_for(kind, job) {
            return false;
        }
        self.place(kind, job, Reason::new(KIND_CPUS_CHANGED), plan);
        true
    }

    /// Returns the number of runnable tasks on each kind.
    pub fn n_tasks(&self, snapshot: &Snapshot<'_>, jobs: &[KindJob<'_>]) -> Vec<u64> {
        let mut n_tasks = vec![0; self.len()];
        for job in jobs.iter().filter(|job| job.is_runnable(snapshot)) {
            job.kind.into_iter().for_each(|kind| n_tasks[kind] += job.n_tasks());
        }
        n_tasks
    }

    /// Returns the text of a number of tasks on each kind: `performance 2, efficiency 1`.
    pub fn counts_label(&self, n_tasks: &[u64]) -> String {
        let each = self.iter().zip(n_tasks).map(|(kind, n)| format!("{} {n}", kind.name));
        each.collect::<Vec<_>>().join(", ")
    }
}

/// Returns the kinds with usable CPUs.
fn kinds(snapshot: &Snapshot<'_>) -> Vec<CoreKind> {
    let usable = |kind: topology::CoreKind<'_>| {
        let cpus = kind.cpus().and(snapshot.usable_cpus);
        let n_cores = kind.cores.iter().filter(|core| core.cpus.intersects(&cpus)).count() as u64;
        let (name, capacity) = (kind.name.to_owned(), kind.capacity());
        let smt_permille = match cpus.len() as u64 == n_cores {
            true => 1000,
            false => smt_permille(snapshot, kind.name),
        };
        (n_cores != 0).then_some(CoreKind { name, capacity, cpus, n_cores, smt_permille })
    };
    snapshot.machine.core_kinds().into_iter().filter_map(usable).collect()
}

/// Returns the throughput of a core with all siblings busy, at least that with one.
fn smt_permille(snapshot: &Snapshot<'_>, kind: &str) -> u64 {
    let known = snapshot.machine.perf_attributes().kinds.get(kind);
    let known = known.and_then(|kind| kind.smt_throughput_permille.as_ref()?.values.last());
    known.map_or(SMT_PERMILLE, |permille| (*permille).max(1000))
}

/// Returns whether the snapshot ends an interval.
pub(crate) fn is_interval(snapshot: &Snapshot<'_>) -> bool {
    snapshot.turn.causes.contains(&Cause::Interval)
}

/// Returns whether a job is placed in this turn: it starts, or it runs unplaced at the end of an interval, for example
/// because it was attached.
pub(crate) fn is_new(snapshot: &Snapshot<'_>, job: &KindJob<'_>) -> bool {
    job.kind.is_none()
        && (job.view.state == JobState::Due
            || is_interval(snapshot)
            || snapshot.turn.causes.contains(&Cause::CpusChanged))
}

/// A usable core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KindCore {
    /// The usable CPUs of the core.
    pub cpus: CpuSet,
    /// Index of the kind.
    pub kind: usize,
    /// Relative throughput; 1024 for the fastest core of the machine.
    pub capacity: u32,
    pub node: Option<NodeId>,
}

impl CoreKinds {
    /// Returns the usable cores by decreasing capacity, then by kind and id.
    pub fn cores(&self, snapshot: &Snapshot<'_>) -> Vec<KindCore> {
        let core = |core: &topology::Core| {
            let cpus = core.cpus.and(snapshot.usable_cpus);
            let kind = self.of_cpus(&cpus)?;
            let node = cpus.first().and_then(|cpu| snapshot.machine.cpu(cpu)?.node);
            Some(KindCore { cpus, kind, capacity: core.capacity, node })
        };
        let mut cores: Vec<KindCore> = snapshot.machine.cores().iter().filter_map(core).collect();
        cores.sort_by_key(|core| (std::cmp::Reverse(core.capacity), core.kind));
        cores
    }
}

/// Returns the core to which all usable CPUs of a set belong.
pub(crate) fn core_of(cores: &[KindCore], cpus: &CpuSet) -> Option<usize> {
    cores.iter().position(|core| !cpus.is_empty() && cpus.is_subset(&core.cpus))
}

/// Compares the relative change of a value with a limit. Changes are relative to at least `min`, so that a change from 0 is
/// finite.
pub(crate) fn compare_change((from, to): (u64, u64), min: u64, limit: Millionths) -> Ordering {
    let change = u128::from(from.abs_diff(to)) * u128::from(MILLION);
    change.cmp(&(u128::from(from.max(min)) * u128::from(limit.0)))
}

/// Returns millionths as a percentage with at most one decimal place: `12`, `5.3`.
pub(crate) fn percent_text(millionths: u64) -> String {
    let tenths = (millionths + 500) / 1000;
    match tenths % 10 {
        0 => (tenths / 10).to_string(),
        tenth => format!("{}.{tenth}", tenths / 10),
    }
}

#[cfg(test)]
impl CoreKind {
    /// Creates a kind for tests.
    pub fn test(capacity: u32, cpus: &str, n_cores: u64, smt_permille: u64) -> Self {
        let cpus = cpus.parse().expect("CPUs");
        CoreKind { name: capacity.to_string(), capacity, cpus, n_cores, smt_permille }
    }
}

#[cfg(test)]
impl CoreKinds {
    /// Creates core kinds for tests, fastest first.
    pub fn test(kinds: Vec<CoreKind>) -> Self {
        CoreKinds { kinds, ..CoreKinds::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_has_a_whole_number_of_tasks_and_busy_siblings_share_their_core() {
        let smt = CoreKind::test(1024, "0-3", 2, 1250);
        let (beside, two) = (libm::log(1.6), libm::log(2.0));
        let expected = [0.0, 0.0, 0.0, 2.0 * beside, 4.0 * beside, 5.0 * beside + 2.0 * two];
        for (n_tasks, expected) in expected.iter().enumerate() {
            let sum = smt.log_slowdown(n_tasks as u64);
            assert!((sum - expected).abs() < 1e-12, "{n_tasks} tasks: {sum}, not {expected}");
        }
        // Four siblings per core: with four tasks on two cores, no task is alone on its core.
        let many = CoreKind::test(1024, "0-7", 2, 1600);
        let beside_three = libm::log(2.5);
        assert!((many.log_slowdown(3) - 2.0 * beside_three).abs() < 1e-12);
        assert!((many.log_slowdown(7) - 7.0 * beside_three).abs() < 1e-12);
        // Three tasks on two CPUs: two tasks share one of them.
        let cores = CoreKind::test(512, "4-5", 2, 1000);
        assert!((cores.log_slowdown(3) - 2.0 * two).abs() < 1e-12);
    }
}
