//! Core kinds: the sets of CPUs among which the policies for asymmetric machines place jobs.
//!
//! ```text
//!   kind 0   performance   capacity 1024   cpus 0-15      fastest first
//!   kind 1   efficiency    capacity  600   cpus 16-31
//! ```
//!
//! A job that is placed on a kind is bound to all usable CPUs of the kind that it may use. The kernel selects the CPU
//! inside this set. A job counts as one task per thread; with `ib`, as its runnable tasks.
//!
//! A job with more threads than a kind has CPUs is not placed: while it is bound to another kind, this kind could be idle.
//! On a machine with one kind, or while only one kind is usable, these policies place no job.

mod kind_set;
mod parallel;
pub(crate) mod quotas;
pub(crate) mod speed;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use base::{CpuSet, Nanos, NodeId};
use program::Command;
use sched::{Action, Cause, JobState, JobView, Plan, Reason, Snapshot, Target, TaskView, reasons};

use crate::declaration::{MILLION, Millionths};
use crate::placement::cpus_label;
pub(crate) use kind_set::KindSet;
use parallel::ParallelJobs;

reasons! {
    /// All usable cores are of one kind.
    ONE_CORE_KIND = "one-core-kind":
        "all usable cores are {kind} cores, so the policy places no job: it selects between core kinds";
    /// A program has no signature with a miss curve.
    NO_SIGNATURE = "no-signature":
        "the program of job {job} has no valid signature (its misses over cache sizes); [then=half: half of its time counts as memory time][then=mean: its global behaviour is the mean of its counted intervals, if there are any]. [remedy=embed: To make one: evenkeel profile --embed PROGRAM -- ARG…][remedy=declare: A built-in program cannot have one: declare a profile with the key profile of the job]";
    /// The usable CPUs of a kind changed.
    KIND_CPUS_CHANGED = "kind-cpus-changed":
        "the usable CPUs of the {kind} cores changed: the job gets {cpus}";
    /// A job has more runnable tasks than CPUs.
    MORE_TASKS_THAN_CPUS = "more-tasks-than-cpus":
        "the job had {n_runnable} runnable tasks in the mean of the last {n_intervals} intervals, more than CPUs ({n_cpus}) and declared threads ({n_threads}; key threads): the kernel schedules it";
    /// A job has more threads than usable CPUs of a kind.
    MORE_THREADS_THAN_CPUS = "more-threads-than-cpus":
        "the job has more threads ({n_threads}) than there are usable {kind} CPUs: the kernel schedules it on all kinds";
}

/// Changes of a ratio are relative to at least this value ([`compare_change`]). Chosen.
pub(crate) const RATIO_MIN: u64 = MILLION / 100;

/// Intervals in a row with an idle core after which jobs migrate for balance. Chosen: a job that sleeps in one interval
/// only causes no migration.
pub(crate) const IDLE_INTERVALS: u64 = 2;

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
    /// Text of the CPUs in reasons, formatted once: a kind can have many separate CPUs.
    cpus_label: String,
    /// The usable CPUs of each core with one.
    cores: Vec<CpuSet>,
    has_several_nodes: bool,
    /// Number of usable CPUs of a core with siblings; 1 if there is none.
    n_siblings_of_core: u64,
    /// Number of usable CPUs of all cores with siblings.
    n_siblings: u64,
    /// Throughput of a core with all siblings busy, in permille of its throughput with one.
    smt_permille: u64,
}

impl CoreKind {
    /// Returns the sum over `n_tasks` tasks of the logarithm of the number of tasks on the CPU of each.
    ///
    /// If the kernel never migrates a task inside the kind, each CPU has a whole number of tasks; if it does so all the
    /// time, the tasks share the CPUs equally. Kernels do so at times: the mean of both (chosen). If the kind has
    /// several nodes, such a migration leaves memory behind, so that equal shares gain nothing.
    pub fn log_shared(&self, n_tasks: u64) -> f64 {
        let n_cpus = self.cpus.len() as u64;
        let (n_each, n_cpus_with_more) = (n_tasks / n_cpus, n_tasks % n_cpus);
        let on_cpu = |n: u64| n as f64 * libm::log(n.max(1) as f64);
        let whole = n_cpus_with_more as f64 * on_cpu(n_each + 1)
            + (n_cpus - n_cpus_with_more) as f64 * on_cpu(n_each);
        let equal = n_tasks as f64 * libm::log((n_tasks as f64 / n_cpus as f64).max(1.0));
        if self.has_several_nodes { whole } else { (whole + equal) / 2.0 }
    }

    /// Returns the sum over `n_tasks` tasks of the logarithm of the factor by which busy siblings slow each down.
    pub fn log_beside(&self, n_tasks: u64) -> f64 {
        self.n_beside(n_tasks) * libm::log(self.slowdown_beside())
    }

    /// Returns the number of cores with a usable CPU.
    pub fn n_cores(&self) -> u64 {
        self.cores.len() as u64
    }

    /// Returns the number of cores of the kind with a CPU of a set.
    pub fn n_cores_of(&self, cpus: &CpuSet) -> u64 {
        self.cores.iter().filter(|core| core.intersects(cpus)).count() as u64
    }

    /// Returns the mean factor by which busy siblings slow a task down, if `n_tasks` are on the kind.
    pub fn smt_slowdown(&self, n_tasks: u64) -> f64 {
        let beside = self.n_beside(n_tasks) / n_tasks.max(1) as f64;
        1.0 + beside * (self.slowdown_beside() - 1.0)
    }

    /// Returns the number of tasks beside a busy sibling. Each task above the number of cores makes a pair of siblings,
    /// until all siblings are busy.
    fn n_beside(&self, n_tasks: u64) -> f64 {
        let n_cpus = self.cpus.len() as u64;
        if n_cpus <= n_tasks {
            return n_tasks as f64 * self.n_siblings as f64 / n_cpus as f64;
        }
        self.n_siblings.min(n_tasks.saturating_sub(self.n_cores()) * 2).min(n_tasks) as f64
    }

    /// Returns the factor by which busy siblings slow a task down.
    fn slowdown_beside(&self) -> f64 {
        (self.n_siblings_of_core as f64 * 1000.0 / self.smt_permille as f64).max(1.0)
    }
}

/// All core kinds with usable CPUs, by decreasing capacity, then by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct CoreKinds {
    kinds: Arc<[CoreKind]>,
    /// The usable CPUs for which `kinds` was computed.
    usable: CpuSet,
    has_noted_one_kind: bool,
    has_noted_signature: bool,
    /// Whether the policy places the threads of parallel programs one by one.
    pub places_threads: bool,
    parallel: ParallelJobs,
}

/// A job, or one thread of a job, that can be placed on a core kind.
#[derive(Clone, Debug)]
pub(crate) struct KindJob<'s> {
    pub view: &'s JobView<'s>,
    /// The job, or its thread.
    pub target: Target,
    /// Indexes of the kinds with enough CPUs that the job may use; at least one.
    pub possible: KindSet,
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

    /// Returns the mean number of runnable tasks of the job in the last interval, rounded up if the fraction exceeds
    /// 1/16 (hosts read the times of a task up to some milliseconds after the interval); the number of all tasks if it
    /// is unknown. A parallel program can have threads that sleep at a join or queue; these occupy no core. Threads
    /// that slept long are sampled every two seconds: their next fork counts up to two seconds late.
    pub fn n_runnable(&self, snapshot: &Snapshot<'_>) -> u64 {
        let JobView { cpu_time, wait, .. } = *self.view;
        let interval = snapshot.interval.0;
        match wait {
            _ if !self.is_runnable(snapshot) => 0,
            Some(wait) if interval != 0 && !self.is_younger(snapshot) => {
                let runnable = cpu_time.0.saturating_add(wait.0).saturating_sub(interval / 16);
                runnable.div_ceil(interval).clamp(1, self.n_tasks())
            }
            _ => self.n_tasks(),
        }
    }

    /// Returns whether the job starts, or started after the last interval began.
    fn is_younger(&self, snapshot: &Snapshot<'_>) -> bool {
        let age = self.view.started.map(|started| snapshot.turn.at.saturating_sub(started));
        self.view.state == JobState::Due || age.is_some_and(|age| age < snapshot.interval)
    }

    /// Returns whether a task of the job was runnable in the last interval. A job that started after this interval is
    /// runnable.
    pub fn is_runnable(&self, snapshot: &Snapshot<'_>) -> bool {
        let JobView { cpu_time, wait, .. } = *self.view;
        let has_run = cpu_time != Nanos::ZERO || wait.is_some_and(|wait| wait != Nanos::ZERO);
        self.is_younger(snapshot) || snapshot.interval == Nanos::ZERO || has_run
    }
}

impl CoreKinds {
    /// Reads the usable core kinds. Returns whether there are several. If there is only one, the first call adds a
    /// note, and the policy is quiescent. Releases jobs with more runnable tasks than CPUs.
    pub fn update(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) -> bool {
        if self.usable != *snapshot.usable_cpus {
            self.kinds = kinds(snapshot).into();
            self.usable = snapshot.usable_cpus.clone();
        }
        self.parallel.remove_old(snapshot);
        if 1 < self.kinds.len() {
            self.has_noted_one_kind = false;
            if !self.places_threads {
                self.parallel.release(snapshot, plan);
            }
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
            let note = Reason::new(NO_SIGNATURE).with("job", job.view.job.name.clone());
            let remedy = signature_remedy(&job.view.job.command);
            plan.note(note.with("then", then).with("remedy", remedy));
        }
    }

    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &CoreKind> {
        self.kinds.iter()
    }

    /// Returns all kinds without a copy.
    pub fn shared(&self) -> Arc<[CoreKind]> {
        self.kinds.clone()
    }

    pub fn get(&self, kind: usize) -> &CoreKind {
        &self.kinds[kind]
    }

    /// Returns the number of usable cores of all kinds.
    pub fn n_cores(&self) -> u64 {
        self.iter().map(|kind| kind.n_cores()).sum()
    }

    /// Returns the jobs that can be placed on every kind that they may use, by id. Releases the others if their kinds lost
    /// CPUs.
    pub fn jobs<'s>(&self, snapshot: &'s Snapshot<'_>, plan: &mut Plan) -> Vec<KindJob<'s>> {
        let has_changed = snapshot.turn.causes.contains(&Cause::CpusChanged);
        let mut jobs = self.jobs_of_some_kind(snapshot);
        jobs.retain(|job| {
            let is_small = |kind: usize| {
                !job.possible.contains(kind) && self.get(kind).cpus.intersects(job.view.allowed)
            };
            let Some(small) = (0..self.len()).find(|kind| is_small(*kind)) else { return true };
            if has_changed && job.kind.is_some() {
                let reason = Reason::new(MORE_THREADS_THAN_CPUS)
                    .with("n_threads", u64::from(job.view.job.threads))
                    .with("kind", self.get(small).name.clone());
                plan.request(job.view.job.id, Action::Release, reason);
            }
            false
        });
        jobs
    }

    /// Returns the jobs that can be placed on a kind, by id.
    pub fn jobs_of_some_kind<'s>(&self, snapshot: &'s Snapshot<'_>) -> Vec<KindJob<'s>> {
        snapshot.jobs.iter().filter_map(|view| self.job(view)).collect()
    }

    fn job<'s>(&self, view: &'s JobView<'s>) -> Option<KindJob<'s>> {
        let n_allowed = |kind: &CoreKind| match *view.allowed == self.usable {
            true => kind.cpus.len(), // The common case.
            false => kind.cpus.n_common(view.allowed),
        };
        let has_enough = |kind: &CoreKind| view.job.threads as usize <= n_allowed(kind);
        let possible: KindSet =
            (0..self.len()).filter(|&kind| has_enough(self.get(kind))).collect();
        if !view.movable || possible.is_empty() || self.parallel.contains(view) {
            return None;
        }
        let placed = view.placed.filter(|_| view.state == JobState::Running);
        let kind = placed.and_then(|placed| self.of_cpus(placed));
        let (target, placed) = (view.job.id.into(), placed.map(Cow::Borrowed));
        Some(KindJob { view, target, possible, placed, kind })
    }

    /// Returns the kind to which all usable CPUs of a set belong.
    pub fn of_cpus(&self, cpus: &CpuSet) -> Option<usize> {
        let n_usable = || cpus.n_common(&self.usable);
        let holds = |kind: &CoreKind| {
            let n_common = kind.cpus.n_common(cpus);
            n_common != 0 && n_common == n_usable()
        };
        let is_whole = |kind: &CoreKind| kind.cpus == *cpus; // The common case.
        self.kinds.iter().position(is_whole).or_else(|| self.kinds.iter().position(holds))
    }

    /// Returns the CPUs of a kind that a job may use.
    pub fn cpus_for(&self, kind: usize, job: &KindJob<'_>) -> CpuSet {
        self.get(kind).cpus.and(job.view.allowed)
    }

    /// Returns the kinds of which a job may use some CPUs only, with these CPUs.
    pub fn restricted(&self, job: &KindJob<'_>) -> Vec<(usize, CpuSet)> {
        if *job.view.allowed == self.usable {
            return Vec::new();
        }
        let restricted =
            job.possible.iter().filter(|kind| !self.get(*kind).cpus.is_subset(job.view.allowed));
        restricted.map(|kind| (kind, self.cpus_for(kind, job))).collect()
    }

    /// Requests the placement of a job or thread on a kind, with the kinds and CPUs added to the reason.
    pub fn place(&self, kind: usize, job: &KindJob<'_>, reason: Reason, plan: &mut Plan) {
        let cpus = self.cpus_for(kind, job);
        let from = job.kind.map(|from| self.get(from).name.clone());
        let of_kind = self.get(kind);
        let label = match cpus == of_kind.cpus {
            true => of_kind.cpus_label.clone(),
            false => cpus_label(&cpus),
        };
        let reason =
            reason.with("kind", of_kind.name.clone()).with_some("from", from).with("cpus", label);
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

    /// Returns whether a job may use an idle faster core for each of its tasks, or more cores than on its kind.
    pub fn leaves_core_idle(&self, n_tasks: &[u64], jobs: &[KindJob<'_>]) -> bool {
        jobs.iter().any(|job| {
            let Some(from) = job.kind else { return false };
            let n_busy = |kind: usize, n_tasks: u64| n_tasks.min(self.get(kind).n_cores());
            job.possible.iter().filter(|to| *to != from).any(|to| {
                let (n_from, n_to) = (n_tasks[from], n_tasks[to] + job.n_tasks());
                let n_left = n_from.saturating_sub(job.n_tasks());
                let fits = n_to <= self.get(to).n_cores();
                let n_busy_before = n_busy(from, n_from) + n_busy(to, n_tasks[to]);
                fits && to < from || n_busy_before < n_busy(from, n_left) + n_busy(to, n_to)
            })
        })
    }

    /// Returns the text of a number of tasks on each kind: `performance 2, efficiency 1`.
    pub fn counts_label(&self, n_tasks: &[u64]) -> String {
        let each = self.iter().zip(n_tasks).map(|(kind, n)| format!("{} {n}", kind.name));
        each.collect::<Vec<_>>().join(", ")
    }
}

/// Returns how a program gets a signature. One program, evenkeel, runs all built-in programs, so that it has none.
fn signature_remedy(command: &Command) -> &'static str {
    if command.is_built_in() { "declare" } else { "embed" }
}

/// Returns the kinds with usable CPUs.
fn kinds(snapshot: &Snapshot<'_>) -> Vec<CoreKind> {
    let usable = |kind: topology::CoreKind<'_>| {
        let cpus = kind.cpus().and(snapshot.usable_cpus);
        let cores = kind.cores.iter().map(|core| core.cpus.and(&cpus));
        let cores: Vec<CpuSet> = cores.filter(|core| !core.is_empty()).collect();
        let with_siblings = || cores.iter().map(|core| core.len() as u64).filter(|n| 1 < *n);
        let n_siblings_of_core = with_siblings().max().unwrap_or(1);
        let n_siblings = with_siblings().sum();
        let (name, capacity) = (kind.name.to_owned(), kind.capacity());
        let smt_permille = match n_siblings_of_core {
            1 => 1000,
            _ => smt_permille(snapshot, kind.name),
        };
        let nodes = cpus.iter().filter_map(|cpu| snapshot.machine.cpu(cpu)?.node);
        let has_several_nodes = 1 < nodes.collect::<BTreeSet<NodeId>>().len();
        (!cores.is_empty()).then(|| CoreKind {
            name,
            capacity,
            cpus_label: cpus_label(&cpus),
            cpus,
            cores,
            has_several_nodes,
            n_siblings_of_core,
            n_siblings,
            smt_permille,
        })
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

/// Compares the relative change of a value with a limit. Changes are relative to at least `min`, so that a change from
/// 0 is finite.
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
        let cpus: CpuSet = cpus.parse().expect("CPUs");
        let (name, n_cpus) = (capacity.to_string(), cpus.len() as u64);
        let n_siblings_of_core = n_cpus / n_cores;
        let ids: Vec<base::CpuId> = cpus.iter().collect();
        let cores = ids.chunks(n_siblings_of_core as usize);
        let cores = cores.map(|core| core.iter().copied().collect()).collect();
        let cpus_label = cpus_label(&cpus);
        CoreKind {
            name,
            capacity,
            cpus,
            cpus_label,
            cores,
            has_several_nodes: false,
            n_siblings_of_core,
            n_siblings: if 1 < n_siblings_of_core { n_cpus } else { 0 },
            smt_permille,
        }
    }
}

#[cfg(test)]
impl CoreKinds {
    /// Creates core kinds for tests, fastest first.
    pub fn test(kinds: Vec<CoreKind>) -> Self {
        CoreKinds { kinds: kinds.into(), ..CoreKinds::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_built_in_program_without_a_signature_needs_a_declared_profile() {
        let note = |command: Command| {
            let note = Reason::new(NO_SIGNATURE).with("job", "a").with("then", "half");
            note.with("remedy", signature_remedy(&command)).to_string()
        };
        let program =
            |program: &str| Command::Program { program: program.into(), args: Vec::new() };
        assert!(
            note(program("/bin/gzip")).contains(" time. To make one: evenkeel profile --embed")
        );
        for built_in in [Command::Load(vec!["hog".to_owned()]), program("/usr/bin/evenkeel")] {
            let note = note(built_in);
            assert!(!note.contains("--embed"), "{note}");
            assert!(note.ends_with(" declare a profile with the key profile of the job"), "{note}");
        }
    }

    #[test]
    fn tasks_share_the_cpus_of_a_kind_and_busy_siblings_share_their_core() {
        let smt = CoreKind::test(1024, "0-3", 2, 1250);
        let beside = libm::log(1.6);
        let two = libm::log(2.0);
        // The mean of equal shares and of whole tasks per CPU.
        let shared = |n: f64, whole: f64| n * beside + (n * libm::log(n / 4.0) + whole) / 2.0;
        let (five, six) = (shared(5.0, 2.0 * two), shared(6.0, 4.0 * two));
        let expected = [0.0, 0.0, 0.0, 2.0 * beside, 4.0 * beside, five, six];
        for (n_tasks, expected) in expected.iter().enumerate() {
            let sum = smt.log_shared(n_tasks as u64) + smt.log_beside(n_tasks as u64);
            assert!((sum - expected).abs() < 1e-12, "{n_tasks} tasks: {sum}, not {expected}");
        }
        // A task that migrates between nodes leaves its memory.
        let nodes = CoreKind { has_several_nodes: true, ..CoreKind::test(1024, "0-1", 2, 1000) };
        assert!((nodes.log_shared(3) - 2.0 * two).abs() < 1e-12);
        // Four siblings per core: with four tasks on two cores, no task is alone on its core.
        let many = CoreKind::test(1024, "0-7", 2, 1600);
        let beside_three = libm::log(2.5);
        assert!((many.log_beside(3) - 2.0 * beside_three).abs() < 1e-12);
        assert!((many.log_beside(7) - 7.0 * beside_three).abs() < 1e-12);
        // Of nine tasks on eight cores, two are beside a sibling.
        let large = CoreKind::test(1024, "0-15", 8, 1250);
        assert!((large.smt_slowdown(9) - (7.0 + 2.0 * 1.6) / 9.0).abs() < 1e-12);
        // Four cores, of which one has a usable sibling.
        let (n_siblings_of_core, n_siblings) = (2, 2);
        let four_cores = CoreKind::test(1024, "0-4", 4, 1250);
        let one_sibling = CoreKind { n_siblings_of_core, n_siblings, ..four_cores };
        assert!((one_sibling.log_beside(5) - 2.0 * beside).abs() < 1e-12);
    }

    #[test]
    fn the_kind_of_a_set_is_that_of_its_usable_cpus() {
        let of_kind = |cpus| CoreKind::test(1024, cpus, 2, 1000);
        let kinds = CoreKinds {
            usable: "0-3".parse().expect("CPUs"),
            ..CoreKinds::test(vec![of_kind("0-1"), of_kind("2-3")])
        };
        for (cpus, expected) in [
            ("0-1", Some(0)),
            ("3", Some(1)),
            ("1-2", None),
            ("0,4-7", Some(0)),
            ("2-3,8", Some(1)),
            ("1-2,8", None),
            ("4-7", None),
            ("", None),
        ] {
            assert_eq!(kinds.of_cpus(&cpus.parse().expect("CPUs")), expected, "{cpus}");
        }
    }
}
