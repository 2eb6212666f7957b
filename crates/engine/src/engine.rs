//! One turn: the engine computes an approved plan from a sample, and updates the state of jobs from outcomes.

use base::{CpuSet, JobId, Nanos};
use program::Job;
use sched::{
    Action, ActivePageMigration, Cause, JobEvent, JobMemory, NumaSettings, Outcome, OutcomeResult,
    Plan, Policy, Reason, RejectCause, Rejection, Request, Sample, Snapshot, Target, TaskView,
    TierOverride, Tiers, Turn, UnmanagedCause,
};
use topology::{Domains, Machine};

use crate::derive::{
    Controllers, LoadDomains, LoadMeter, ProcessMemories, SystemSignals, Tasks, TierSelector,
};
use crate::guard::{Guard, GuardResult, MemoryView};
use crate::jobs::Jobs;
use crate::task_affinities::TaskAffinities;
use crate::{Approved, LoadBasis, LoadSample, PageMigrationLimits};

/// State of a run: machine, policy, jobs, tasks, rates and affinities.
///
/// In each turn, the caller calls [`Engine::step`], passes the approved plan to the host, and passes the outcomes to
/// [`Engine::record_outcomes`]. Equal turns, samples and outcomes give equal steps.
pub struct Engine {
    machine: Machine,
    policy: Box<dyn Policy>,
    usable: CpuSet,
    domains: LoadDomains,
    numa_settings: NumaSettings,
    jobs: Jobs,
    tasks: Tasks,
    task_affinities: TaskAffinities,
    controllers: Controllers,
    system: SystemSignals,
    memories: ProcessMemories,
    limits: PageMigrationLimits,
    meter: LoadMeter,
    signals: TierSelector,
    notes_sent: Vec<Reason>,
    aborted: bool,
    now: Nanos,
}

/// Result of one turn, before the host applies it.
#[derive(Clone, Debug)]
pub struct Step {
    /// Requests that the host has to apply.
    pub approved: Approved,
    /// The plan of the policy, including rejected requests. Notes of earlier turns are not repeated.
    pub plan: Plan,
    /// Requests that the guard rejected.
    pub rejected: Vec<Rejection>,
    /// Requests that the guard narrowed, in their narrowed form. The plan contains the original request with the same
    /// target and kind.
    pub narrowed: Vec<Request>,
    /// Loads of the domains; only in interval turns.
    pub loads: Option<LoadSample>,
}

impl Engine {
    /// Returns the engine of a run that has not started.
    pub fn new(machine: Machine, jobs: Vec<Job>, policy: Box<dyn Policy>) -> Engine {
        let usable = machine.allowed().clone();
        let domains = LoadDomains::new(Domains::select(&machine, policy.domains(), &usable));
        let mut engine = Engine {
            numa_settings: NumaSettings::default(),
            jobs: Jobs::new(jobs, &machine),
            tasks: Tasks::default(),
            task_affinities: TaskAffinities::default(),
            controllers: Controllers::new(&machine),
            system: SystemSignals::default(),
            memories: ProcessMemories::default(),
            limits: PageMigrationLimits::default(),
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
            domains,
        };
        engine.set_usable(engine.usable.clone());
        engine
    }

    /// Replaces the limits of page migrations.
    #[must_use]
    pub fn with_page_migration_limits(mut self, limits: PageMigrationLimits) -> Engine {
        self.limits = limits;
        self
    }

    /// Sets the tiers of some values, with precedence over the tiers that the engine would choose.
    #[must_use]
    pub fn with_signals(mut self, overrides: TierOverride) -> Engine {
        self.meter.set_preference(overrides.loads(self.policy.load_source()));
        self.signals = TierSelector::new(overrides);
        self
    }

    /// Returns the tiers of the values of the last interval.
    pub fn tiers(&self) -> &Tiers {
        self.signals.tiers()
    }

    /// Returns the tasks with their deltas of the last interval.
    pub fn tasks(&self) -> &[TaskView] {
        self.tasks.views()
    }

    /// Returns the machine at the start of the run.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns the policy.
    pub fn policy(&self) -> &dyn Policy {
        &*self.policy
    }

    /// Returns the domains of the loads in the snapshot.
    pub fn domains(&self) -> &Domains {
        &self.domains.domains
    }

    /// Returns level and source of the loads; before the first interval turn, the expected source.
    pub fn load_basis(&self) -> LoadBasis {
        LoadBasis { level: self.domains.domains.level(), tier: self.meter.loads().tier }
    }

    /// Updates rates from the sample, calls the policy and checks its plan.
    pub fn step(&mut self, turn: &Turn, sample: &Sample) -> Step {
        let is_interval = turn.causes.contains(&Cause::Interval);
        self.now = turn.at;
        self.update(sample);
        // No interval turn follows the last job: the CPU time since the last interval turn is attributed now.
        let ends_last =
            !is_interval && turn.causes.contains(&Cause::Ended) && self.jobs.live_idxs().is_empty();
        if is_interval {
            self.end_interval();
        } else if ends_last {
            self.meter.end_last(self.now, &self.domains, &self.jobs, &mut self.tasks);
        } else if self.meter.interval() == Nanos::ZERO {
            self.meter.expect(&self.domains, &self.controllers, &self.system, &self.jobs);
        }
        self.tasks.update_jobs(&mut self.jobs, &self.domains.domains);
        let plan = self.decide(turn);
        let guard = Guard {
            machine: &self.machine,
            usable: &self.usable,
            jobs: &self.jobs,
            tasks: &self.tasks,
            task_affinities: &self.task_affinities,
            memory: MemoryView {
                limits: &self.limits,
                nodes: self.controllers.views(),
                now: self.now,
            },
        };
        let GuardResult { approved, narrowed, rejected } = guard.check(&plan.requests);
        let loads = (is_interval || ends_last)
            .then(|| self.meter.load_sample(&self.domains.domains, ends_last));
        let quiescent = plan.quiescent && approved.is_empty();
        let approved = Approved { requests: approved, quiescent };
        Step { approved, plan, rejected, narrowed, loads }
    }

    fn update(&mut self, sample: &Sample) {
        if let Some(settings) = sample.numa_settings {
            self.numa_settings = settings;
        }
        if let Some(usable) = &sample.usable_cpus {
            self.set_usable(usable.clone());
        }
        self.controllers.update(&sample.nodes);
        self.system.update(sample);
        let attached = self.attach_jobs(&sample.jobs);
        let jobs = &self.jobs;
        let interval = (self.meter.last_at(), self.meter.begin(self.now), self.now);
        self.tasks.update(&sample.tasks, interval, |job| jobs.live(job).is_some());
        self.tasks.start_counting(&attached);
        self.tasks.remove(&sample.exited, |job| home_cpu(jobs, &self.domains.domains, job));
        self.update_memory(sample);
        for event in &sample.jobs {
            self.update_job(event);
        }
        if !sample.exited.is_empty() || !sample.jobs.is_empty() {
            self.task_affinities.remove_exited(&self.tasks);
        }
    }

    fn update_memory(&mut self, sample: &Sample) {
        for completed in &sample.page_migrations_completed {
            if let Some(idx) = self.jobs.live_idx(completed.job) {
                self.jobs.entry_mut(idx).page_migrations.complete(self.now, completed);
            }
        }
        for job in self.memories.update(&sample.memory, &sample.exited) {
            if let Some(idx) = self.jobs.live_idx(job) {
                self.jobs.entry_mut(idx).memory = self.memories.job_sum(job);
            }
        }
    }

    /// Adds the attached jobs and returns their ids. Called before the tasks of the same sample are added.
    fn attach_jobs(&mut self, events: &[JobEvent]) -> Vec<JobId> {
        let mut attached = Vec::new();
        for event in events {
            if let JobEvent::Attached(job) = event {
                self.jobs.add_attached(job, self.now, &self.machine, &self.usable);
                attached.push(job.id);
            }
        }
        attached
    }

    fn update_job(&mut self, event: &JobEvent) {
        match event {
            JobEvent::Due(job) => self.jobs.set_due(*job),
            JobEvent::Unmanaged(job, UnmanagedCause::NotPermitted) => self.jobs.set_unmanaged(*job),
            JobEvent::Unmanaged(job, UnmanagedCause::AffinityChanged(cpus)) => {
                self.set_unmanaged(*job, Some(cpus.clone()));
            }
            JobEvent::Attached(_) => {} // `attach_jobs` handles this event.
            // If the job restarts, a `Due` event follows in the same sample.
            JobEvent::Detached(job, ..) | JobEvent::Ended(job, _) => self.remove_job(*job),
        }
    }

    /// Removes a job. The deltas of its tasks in this interval are included in the loads.
    fn remove_job(&mut self, job: JobId) {
        let (jobs, domains) = (&self.jobs, &self.domains.domains);
        self.tasks.remove_job(job, |job| home_cpu(jobs, domains, job));
        self.system.remove_job(job);
        self.memories.remove_job(job);
        self.jobs.set_ended(job);
    }

    /// Records that another program set the affinity of a job. `cpus` is `None` if the new affinity is not yet known.
    fn set_unmanaged(&mut self, job: JobId, cpus: Option<CpuSet>) {
        self.jobs.set_unmanaged(job);
        self.jobs.set_placed(job, cpus, &self.domains.domains, &self.usable);
    }

    fn set_usable(&mut self, usable: CpuSet) {
        self.usable = usable;
        let domains = Domains::select(&self.machine, self.policy.domains(), &self.usable);
        self.meter.domains_changed(&self.domains.domains, &domains);
        self.jobs.update_usable(&self.machine, &domains, &self.usable);
        let level_before = self.domains.domains.level();
        self.domains = LoadDomains::new(domains);
        if level_before != self.domains.domains.level() {
            self.meter.expect(&self.domains, &self.controllers, &self.system, &self.jobs);
        }
    }

    fn end_interval(&mut self) {
        let Engine { meter, domains, jobs, tasks, controllers, system, signals, .. } = self;
        meter.end_interval(self.now, domains, jobs, tasks, controllers, system);
        signals.set_loads(meter.loads().tier);
        signals.end_interval(&mut tasks.views_mut(), jobs, &system.groups);
    }

    /// Calls the policy, unless the policy has aborted the run.
    fn decide(&mut self, turn: &Turn) -> Plan {
        let mut plan = Plan::default();
        if self.aborted {
            return plan;
        }
        let jobs = self.jobs.views(&self.usable);
        let snapshot = Snapshot {
            turn,
            machine: &self.machine,
            usable_cpus: &self.usable,
            domains: &self.domains.domains,
            loads: self.meter.loads(),
            tiers: self.signals.tiers(),
            interval: self.meter.interval(),
            n_intervals: self.meter.n_intervals(),
            numa_settings: &self.numa_settings,
            jobs: &jobs,
            tasks: self.tasks.views(),
            nodes: self.controllers.views(),
            llcs: &self.system.llcs,
            mon_groups: &self.system.groups,
            cpus: &self.system.cpus,
            pressure: &self.system.stall_times,
        };
        self.policy.decide(&snapshot, &mut plan);
        plan.notes.retain(|note| !self.notes_sent.contains(note));
        self.notes_sent.extend(plan.notes.iter().cloned());
        self.aborted = plan.abort.is_some();
        plan
    }

    /// Updates the state of jobs and tasks from the outcomes of the last step.
    pub fn record_outcomes(&mut self, outcomes: &[Outcome]) {
        for outcome in outcomes {
            match &outcome.result {
                OutcomeResult::Done { .. } => {
                    self.record_done(outcome.target, outcome.action.as_ref())
                }
                OutcomeResult::InProgress => {
                    self.record_started_migration(outcome.target, outcome.action.as_ref())
                }
                OutcomeResult::Rejected { cause, .. } => {
                    self.record_rejection(outcome.target, outcome.action.as_ref(), *cause);
                }
            }
        }
    }

    fn record_started_migration(&mut self, target: Target, action: Option<&Action>) {
        let Some(&Action::MovePages { from, to, limit }) = action else { return };
        let job = match target {
            Target::Job(job) => Some(job),
            Target::Task(task) => self.tasks.job_of(task),
        };
        let Some(idx) = job.and_then(|job| self.jobs.live_idx(job)) else { return };
        let entry = self.jobs.entry_mut(idx);
        let home = entry.memory.as_ref().and_then(JobMemory::home);
        let amount = entry.amount(from, to, limit);
        let started = ActivePageMigration { target, from, to, limit, since: self.now };
        entry.page_migrations.start(started, amount, home);
    }

    fn record_done(&mut self, target: Target, action: Option<&Action>) {
        let cpus = match action {
            Some(Action::Place(cpus)) => Some(cpus.clone()),
            Some(Action::Release) => None,
            Some(Action::MemoryPolicy(_) | Action::MovePages { .. }) => return,
            None => {
                if let Target::Job(job) = target {
                    self.jobs.set_running(job, self.now);
                }
                return;
            }
        };
        match (target, cpus) {
            (Target::Job(job), cpus) => {
                self.task_affinities.remove_job(job, &self.tasks);
                self.jobs.set_placed(job, cpus, &self.domains.domains, &self.usable);
            }
            (Target::Task(task), cpus) => self.task_affinities.set(task, cpus),
        }
    }

    /// Records a rejection by the host. If a job could not be started, it has ended. If the host must not change a
    /// target, the target becomes unmanaged. Other rejections change no state: the policy may repeat the request, and
    /// the next sample reports offline CPUs.
    fn record_rejection(&mut self, target: Target, action: Option<&Action>, cause: RejectCause) {
        if matches!(action, Some(Action::MovePages { .. } | Action::MemoryPolicy(_))) {
            return; // The permissions for memory do not affect the affinity.
        }
        match (target, action, cause) {
            (Target::Job(job), None, _) => self.jobs.set_ended(job),
            (Target::Job(job), _, RejectCause::NotPermitted) => self.jobs.set_unmanaged(job),
            // The next sample reports the new affinity.
            (Target::Job(job), _, RejectCause::Unmanaged) if !self.jobs.is_unmanaged(job) => {
                self.set_unmanaged(job, None);
            }
            (Target::Task(task), _, RejectCause::NotPermitted | RejectCause::Unmanaged) => {
                self.task_affinities.set_unmanaged(task);
            }
            _ => {}
        }
    }
}

/// Returns a CPU of the home domain of a job.
fn home_cpu(jobs: &Jobs, domains: &Domains, job: JobId) -> Option<base::CpuId> {
    let (_, entry) = jobs.live(job)?;
    domains.get(entry.home?).cpus.first()
}
