//! One turn from a sample to an approved plan.

use std::collections::{BTreeMap, BTreeSet};

use base::{CpuSet, JobId, Nanos, TaskId};
use program::Job;
use sched::{
    Action, ActivePageMove, Cause, JobEvent, JobMemory, NumaSettings, Outcome, OutcomeResult, Plan,
    Policy, Reason, RejectCause, Rejection, Request, Sample, Snapshot, Target, TierOverride, Tiers,
    Turn, UnmanagedCause,
};
use topology::{Domains, Machine};

use crate::derive::{
    Controllers, LoadDomains, LoadMeter, ProcessMemories, SystemMetrics, Tasks, TierSelector,
};
use crate::guard::{Guard, GuardResult, MemoryView};
use crate::jobs::Jobs;
use crate::{Approved, LoadBasis, LoadSample, MoveLimits};

/// Knows a run: its machine, its jobs, what was measured and where everything was put.
///
/// A turn is [`Engine::step`], then the host's work, then [`Engine::settle`] with what came of it.
/// The same turns, samples and outcomes give the same steps.
pub struct Engine {
    machine: Machine,
    policy: Box<dyn Policy>,
    usable: CpuSet,
    places: LoadDomains,
    rules: NumaSettings,
    jobs: Jobs,
    tasks: Tasks,
    task_places: TaskPlaces,
    controllers: Controllers,
    around: SystemMetrics,
    memories: ProcessMemories,
    limits: MoveLimits,
    meter: LoadMeter,
    signals: TierSelector,
    notes_sent: Vec<Reason>,
    aborted: bool,
    now: Nanos,
}

/// What came of one turn, before the host acts.
#[derive(Clone, Debug)]
pub struct Step {
    /// What the host is to do.
    pub approved: Approved,
    /// What the policy wanted, the refused wishes too; its notes are those not said before.
    pub plan: Plan,
    /// What the guard did not let through.
    pub rejected: Vec<Rejection>,
    /// What it let through in part: the wish as it is approved. What was wished stands in the plan
    /// under the same target, a placement or a memory policy like this one.
    pub narrowed: Vec<Request>,
    /// The loads, in turns where an interval went by.
    pub loads: Option<LoadSample>,
}

/// Single tasks that were placed apart from their job.
#[derive(Debug, Default)]
pub(crate) struct TaskPlaces {
    placed: BTreeMap<TaskId, CpuSet>,
    hands_off: BTreeSet<TaskId>,
}

impl TaskPlaces {
    pub fn get(&self, task: TaskId) -> Option<&CpuSet> {
        self.placed.get(&task)
    }

    pub fn is_unmanaged(&self, task: TaskId) -> bool {
        self.hands_off.contains(&task)
    }

    fn forget_ended(&mut self, tasks: &Tasks) {
        self.placed.retain(|&task, _| tasks.job_of(task).is_some());
        self.hands_off.retain(|&task| tasks.job_of(task).is_some());
    }

    fn forget_places(&mut self, job: JobId, tasks: &Tasks) {
        self.placed.retain(|&task, _| tasks.job_of(task) != Some(job));
    }
}

impl Engine {
    /// A run that has not begun.
    pub fn new(machine: Machine, jobs: Vec<Job>, policy: Box<dyn Policy>) -> Engine {
        let usable = machine.allowed().clone();
        let places = LoadDomains::new(Domains::of(&machine, policy.domains(), &usable));
        let mut engine = Engine {
            rules: NumaSettings::default(),
            jobs: Jobs::new(jobs, &machine),
            tasks: Tasks::default(),
            task_places: TaskPlaces::default(),
            controllers: Controllers::new(&machine),
            around: SystemMetrics::default(),
            memories: ProcessMemories::default(),
            limits: MoveLimits::default(),
            meter: LoadMeter::new(
                policy.interval(),
                TierOverride::default().loads(policy.load_source()),
            ),
            signals: TierSelector::default(),
            notes_sent: Vec::new(),
            aborted: false,
            now: Nanos::ZERO,
            machine,
            policy,
            usable,
            places,
        };
        engine.set_usable(engine.usable.clone());
        engine
    }

    /// The same with other limits for moves of memory.
    #[must_use]
    pub fn with_move_limits(mut self, limits: MoveLimits) -> Engine {
        self.limits = limits;
        self
    }

    /// The same with figures that stand on what is wished, whatever else is there.
    #[must_use]
    pub fn with_signals(mut self, wish: TierOverride) -> Engine {
        self.meter.set_preference(wish.loads(self.policy.load_source()));
        self.signals = TierSelector::new(wish);
        self
    }

    /// What the figures of the last interval stand on.
    pub fn tiers(&self) -> &Tiers {
        self.signals.tiers()
    }

    /// The machine as it was read at the start.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The policy that decides.
    pub fn policy(&self) -> &dyn Policy {
        &*self.policy
    }

    /// The places that loads stand for now.
    pub fn domains(&self) -> &Domains {
        &self.places.domains
    }

    /// What loads stand on, or will once there are some.
    pub fn load_basis(&self) -> LoadBasis {
        LoadBasis { level: self.places.domains.level(), tier: self.meter.loads().tier }
    }

    /// Takes in what was seen, asks the policy and checks its plan.
    pub fn step(&mut self, turn: &Turn, sample: &Sample) -> Step {
        let is_interval = turn.causes.contains(&Cause::Interval);
        self.now = turn.at;
        self.take(sample);
        if is_interval {
            self.turn_over();
        } else if self.meter.interval() == Nanos::ZERO {
            self.meter.expect(&self.places, &self.controllers, &self.around, &self.jobs);
        }
        self.tasks.refresh(&mut self.jobs, &self.places.domains);
        let plan = self.decide(turn);
        let guard = Guard {
            machine: &self.machine,
            usable: &self.usable,
            jobs: &self.jobs,
            tasks: &self.tasks,
            task_places: &self.task_places,
            memory: MemoryView {
                limits: &self.limits,
                nodes: self.controllers.seen(),
                now: self.now,
            },
        };
        let GuardResult { asks, narrowed, refused } = guard.check(&plan.requests);
        let loads = is_interval.then(|| self.meter.seen_loads(&self.places.domains));
        let rests = plan.quiescent && asks.is_empty();
        Step {
            approved: Approved { requests: asks, quiescent: rests },
            plan,
            rejected: refused,
            narrowed,
            loads,
        }
    }

    fn take(&mut self, sample: &Sample) {
        if let Some(rules) = sample.numa_settings {
            self.rules = rules;
        }
        if let Some(usable) = &sample.usable_cpus {
            self.set_usable(usable.clone());
        }
        self.controllers.take(&sample.nodes);
        self.around.take(sample);
        let appeared = self.take_strangers(&sample.jobs);
        let jobs = &self.jobs;
        let interval = (self.meter.last_at(), self.meter.begin(self.now), self.now);
        self.tasks.take(&sample.tasks, interval, |job| jobs.live(job).is_some());
        self.tasks.begin_here(&appeared);
        self.tasks.remove(&sample.exited, |job| place_of(jobs, &self.places.domains, job));
        self.take_memory(sample);
        for event in &sample.jobs {
            self.take_event(event);
        }
        if !sample.exited.is_empty() || !sample.jobs.is_empty() {
            self.task_places.forget_ended(&self.tasks);
        }
    }

    fn take_memory(&mut self, sample: &Sample) {
        for moved in &sample.page_moves_completed {
            if let Some(idx) = self.jobs.live_idx(moved.job) {
                self.jobs.entry_mut(idx).moves.ended(self.now, moved);
            }
        }
        for job in self.memories.take(&sample.memory, &sample.exited) {
            if let Some(idx) = self.jobs.live_idx(job) {
                self.jobs.entry_mut(idx).memory = self.memories.of(job);
            }
        }
    }

    /// Jobs that ran already; tells which.
    fn take_strangers(&mut self, events: &[JobEvent]) -> Vec<JobId> {
        let mut appeared = Vec::new();
        for event in events {
            if let JobEvent::Attached(job) = event {
                self.jobs.attached(job, self.now, &self.machine, &self.usable);
                appeared.push(job.id);
            }
        }
        appeared
    }

    fn take_event(&mut self, event: &JobEvent) {
        match event {
            JobEvent::Due(job) => self.jobs.due(*job),
            JobEvent::Unmanaged(job, UnmanagedCause::NotPermitted) => self.jobs.set_unmanaged(*job),
            JobEvent::Unmanaged(job, UnmanagedCause::AffinityChanged(cpus)) => {
                self.taken_away(*job, Some(cpus.clone()));
            }
            JobEvent::Attached(_) => {} // Before its tasks were taken in.
            JobEvent::Detached(job, ..) => self.forget_job(*job),
            // One that starts again is told to be due again, in the same sample; not when the run
            // is being stopped.
            JobEvent::Ended(job, _) => self.forget_job(*job),
        }
    }

    /// It is over, for us: what its tasks did in this interval still counts.
    fn forget_job(&mut self, job: JobId) {
        let (jobs, domains) = (&self.jobs, &self.places.domains);
        self.tasks.remove_job(job, |job| place_of(jobs, domains, job));
        self.around.forget(job);
        self.memories.remove_job(job);
        self.jobs.ended(job);
    }

    /// Somebody else bound a job; `cpus` is `None` until it is told where to.
    fn taken_away(&mut self, job: JobId, cpus: Option<CpuSet>) {
        self.jobs.set_unmanaged(job);
        self.jobs.placed(job, cpus, &self.places.domains, &self.usable);
    }

    fn set_usable(&mut self, usable: CpuSet) {
        self.usable = usable;
        let domains = Domains::of(&self.machine, self.policy.domains(), &self.usable);
        self.meter.places_changed(&self.places.domains, &domains);
        self.jobs.usable_changed(&self.machine, &domains, &self.usable);
        let level_before = self.places.domains.level();
        self.places = LoadDomains::new(domains);
        if level_before != self.places.domains.level() {
            self.meter.expect(&self.places, &self.controllers, &self.around, &self.jobs);
        }
    }

    fn turn_over(&mut self) {
        let Engine { meter, places, jobs, tasks, controllers, around, signals, .. } = self;
        meter.turn_over(self.now, places, jobs, tasks, controllers, around);
        signals.set_loads(meter.loads().tier);
        signals.turn_over(&mut tasks.rows_mut(), jobs, &around.groups);
    }

    /// Asks the policy, unless it gave up before: then the run only comes to its end.
    fn decide(&mut self, turn: &Turn) -> Plan {
        let mut plan = Plan::default();
        if self.aborted {
            return plan;
        }
        let jobs = self.jobs.seen(&self.usable);
        let snapshot = Snapshot {
            turn,
            machine: &self.machine,
            usable_cpus: &self.usable,
            domains: &self.places.domains,
            loads: self.meter.loads(),
            tiers: self.signals.tiers(),
            interval: self.meter.interval(),
            n_intervals: self.meter.n_intervals(),
            numa_settings: &self.rules,
            jobs: &jobs,
            tasks: self.tasks.seen(),
            nodes: self.controllers.seen(),
            llcs: &self.around.llcs,
            mon_groups: &self.around.groups,
            cpus: &self.around.cpus,
            pressure: &self.around.pressed,
        };
        self.policy.decide(&snapshot, &mut plan);
        plan.notes.retain(|note| !self.notes_sent.contains(note));
        self.notes_sent.extend(plan.notes.iter().cloned());
        self.aborted = plan.abort.is_some();
        plan
    }

    /// Takes in what came of the last step.
    pub fn record_outcomes(&mut self, outcomes: &[Outcome]) {
        for outcome in outcomes {
            match &outcome.result {
                OutcomeResult::Done { .. } => self.done(outcome.target, outcome.action.as_ref()),
                OutcomeResult::InProgress => self.begun(outcome.target, outcome.action.as_ref()),
                OutcomeResult::Rejected { cause: why, .. } => {
                    self.refused(outcome.target, outcome.action.as_ref(), *why);
                }
            }
        }
    }

    fn begun(&mut self, target: Target, action: Option<&Action>) {
        let Some(&Action::MovePages { from, to, limit }) = action else { return };
        let job = match target {
            Target::Job(job) => Some(job),
            Target::Task(task) => self.tasks.job_of(task),
        };
        let Some(idx) = job.and_then(|job| self.jobs.live_idx(job)) else { return };
        let now = self.now;
        let entry = self.jobs.entry_mut(idx);
        let (amount, home) =
            (entry.amount(from, to, limit), entry.memory.as_ref().and_then(JobMemory::home));
        entry.moves.forget_old(now);
        entry.moves.begun(ActivePageMove { target, from, to, limit, since: now }, amount, home);
    }

    fn done(&mut self, target: Target, action: Option<&Action>) {
        let cpus = match action {
            Some(Action::Place(cpus)) => Some(cpus.clone()),
            Some(Action::Release) => None,
            Some(Action::MemoryPolicy(_) | Action::MovePages { .. }) => return,
            None => {
                if let Target::Job(job) = target {
                    self.jobs.running(job, self.now);
                }
                return;
            }
        };
        match (target, cpus) {
            (Target::Job(job), cpus) => {
                self.task_places.forget_places(job, &self.tasks);
                self.jobs.placed(job, cpus, &self.places.domains, &self.usable);
            }
            (Target::Task(task), Some(cpus)) => {
                self.task_places.placed.insert(task, cpus);
            }
            (Target::Task(task), None) => {
                self.task_places.placed.remove(&task);
            }
        }
    }

    /// A job that could not be started is over; one that we may not touch is left alone for good.
    /// Everything else may be asked again: a CPU that has just gone offline comes with the next sample.
    fn refused(&mut self, target: Target, action: Option<&Action>, cause: RejectCause) {
        if matches!(action, Some(Action::MovePages { .. } | Action::MemoryPolicy(_))) {
            return; // Memory that is to stay says nothing of who may place its threads.
        }
        match (target, action, cause) {
            (Target::Job(job), None, _) => self.jobs.ended(job),
            (Target::Job(job), _, RejectCause::NotPermitted) => self.jobs.set_unmanaged(job),
            // Where it was put comes with the next sample.
            (Target::Job(job), _, RejectCause::Unmanaged) if !self.jobs.is_unmanaged(job) => {
                self.taken_away(job, None);
            }
            (Target::Task(task), _, RejectCause::NotPermitted | RejectCause::Unmanaged) => {
                self.task_places.hands_off.insert(task);
            }
            _ => {}
        }
    }
}

/// A CPU of the place that the tasks of a job are in, if they are in one.
fn place_of(jobs: &Jobs, domains: &Domains, job: JobId) -> Option<base::CpuId> {
    let (_, entry) = jobs.live(job)?;
    domains.get(entry.home?).cpus.first()
}
