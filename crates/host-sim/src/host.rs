//! The simulated machine as a host: turns, samples and applied plans.
//!
//! ```text
//!   wait    advances the simulation to the next turn
//!   sample  counters, /proc and memory of the simulated machine
//!   apply   sets affinities, starts jobs, migrates pages; only their effects take time
//! ```

mod apply;
mod fault_injection;
mod job_runs;
mod observation;
mod progress;
mod sampling;

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{JobId, Nanos, NodeId, StopFlag};
use engine::{Approved, Host};
use program::Job;
use sched::{Cause, JobEvent, Outcome, PageMigrationEnd, Sample, StopCause, Turn};
use topology::Machine;

use crate::build_scripts::{self, ScriptError};
use crate::faults::{FaultInjector, Faults};
use crate::fluid::Fluid;
use crate::frame::{
    GrainError, GrainKind, GrainSettings, HostNotice, InvariantViolation, MachineSettings,
    PRECISION, PRECISION_EXACT, SimMachine, SimulationWork,
};
use crate::hardware::Hardware;
use crate::inert_keys::{self, InertKey};
use crate::kernel::{KernelVersion, UnknownKernel};
use crate::quantum::{FairQueue, Quantum};
use crate::script::Script;
use crate::variation::{RandomKey, Variation, VariationStreams};

use fault_injection::FaultSchedule;
use observation::Observer;
pub use observation::{CpuObservation, ObservedThread};
pub use progress::SharedProgress;
pub use sampling::Capabilities;

/// Number of instants with events after which the host polls the stop flag, even without a turn. Their simulation
/// takes less than a second, also on machines with thousands of tasks.
const N_INSTANTS: u64 = 1 << 8;

/// Options of a simulated run.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// Interval of the policy; `None`: turns are caused only by events.
    pub interval: Option<Nanos>,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Run-to-run variation.
    pub variation: Variation,
    /// Relative error of the values that policies receive as declared ([`crate::declared`]).
    pub declared_error: f64,
    /// The modelled kernel; `None`: the kernel of the machine file, else the newest.
    pub kernel: Option<KernelVersion>,
    /// The grain of the machine; `None`: the grain of the machine file, else fluid.
    pub grain: Option<GrainKind>,
    /// Whether automatic NUMA balancing is enabled; `None`: the setting of the machine file, else disabled.
    pub numa_balancing: Option<bool>,
    /// Whether programs contend for caches and memory bandwidth.
    pub contention: bool,
    /// Whether the memory of jobs without a memory policy is interleaved over all nodes.
    pub interleave: bool,
    /// Whether no change of a rate is ignored ([`PRECISION_EXACT`]).
    pub exact: bool,
    /// Available data sources.
    pub capabilities: Capabilities,
    /// Whether interval turns are skipped while the policy is quiescent and jobs are running. The skipped turns are
    /// missing in the journal.
    pub skip_quiescent_turns: bool,
    /// Time between two observations of the CPUs of all threads ([`SimHost::take_observations`]); `None`: no
    /// observations.
    pub observed_every: Option<Nanos>,
    /// Time at which all jobs are terminated.
    pub time_limit: Option<Nanos>,
    /// Whether all jobs are terminated when one fails.
    pub fail_fast: bool,
    /// Injected faults.
    pub faults: Faults,
    /// When this flag is raised, all jobs are terminated.
    pub stop: StopFlag,
}

impl Default for SimOptions {
    fn default() -> Self {
        SimOptions {
            interval: None,
            seed: 0,
            variation: Variation::default(),
            declared_error: 0.0,
            kernel: None,
            grain: None,
            numa_balancing: None,
            contention: true,
            interleave: false,
            exact: false,
            capabilities: Capabilities::default(),
            skip_quiescent_turns: false,
            observed_every: None,
            time_limit: None,
            fail_fast: false,
            faults: Faults::default(),
            stop: StopFlag::default(),
        }
    }
}

/// An error for a machine and a workload that cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum SimError {
    #[error(transparent)]
    Script(#[from] ScriptError),
    #[error(transparent)]
    Grain(#[from] GrainError),
    #[error(transparent)]
    InertKey(#[from] InertKey),
    #[error(transparent)]
    Kernel(#[from] UnknownKernel),
    #[error(
        "{0} has no NUMA balancing (kernels since 3.13 have it): do not enable it (numa_balancing = false), or select another kernel, such as linux-6.18"
    )]
    NoNumaBalancing(&'static str),
}

/// The simulated host.
#[derive(Debug)]
pub struct SimHost {
    pub(crate) machine: Box<dyn SimMachine>,
    hardware: Arc<Hardware>,
    slots: Vec<SimJob>,
    options: SimOptions,
    settings: MachineSettings,
    assumed: Vec<String>,
    variation_streams: VariationStreams,
    pending: Sample,
    due: Vec<JobId>,
    turn_causes: BTreeSet<Cause>,
    /// Times at which jobs are due or must end.
    agenda: BTreeSet<(u64, JobId, ScheduledAction)>,
    next_interval: Option<u64>,
    n_turns: u64,
    is_first_sample: bool,
    is_quiescent: bool,
    is_stopping: bool,
    stopped_by: Option<StopCause>,
    last_reported: sampling::LastReported,
    fault_injector: FaultInjector,
    fault_schedule: FaultSchedule,
    violation: Option<InvariantViolation>,
    /// The work of the machine at its last check.
    checked: Option<SimulationWork>,
    progress: SharedProgress,
    observer: Option<Observer>,
}

/// A job of the workload and its state.
#[derive(Debug)]
struct SimJob {
    pub job: Job,
    pub script: Arc<Script>,
    pub n_runs: u32,
    /// Whether a run of the job has ended.
    pub has_ended: bool,
    pub state: SimJobState,
    /// Owner of the random numbers of all runs of the job.
    pub key: RandomKey,
}

/// State of a job in the simulation.
#[derive(Debug)]
enum SimJobState {
    Waiting,
    Due,
    Running(SimJobRun),
    Over,
}

/// A running job.
#[derive(Debug)]
struct SimJobRun {
    pub pid: u32,
    pub started: u64,
}

impl SimJob {
    pub fn new(job: Job, script: Arc<Script>, key: RandomKey) -> Self {
        SimJob { job, script, n_runs: 0, has_ended: false, state: SimJobState::Waiting, key }
    }

    /// Returns the owner of the random numbers of the current or next run of the job.
    fn random_key(&self) -> RandomKey {
        self.key.part(u64::from(self.n_runs))
    }

    /// Returns whether the run waits for the first exit of the job. After the last of these exits, the host stops the
    /// restarted jobs.
    fn is_awaited(&self) -> bool {
        self.job.ending.is_awaited() && !self.has_ended
    }
}

/// A scheduled action for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ScheduledAction {
    /// The job is due.
    Due,
    /// The maximum run time of this run of the job is reached. Ignored if a later run has started.
    Stop(u32),
}

impl SimHost {
    /// Returns a machine without running jobs.
    ///
    /// # Errors
    /// Returns an error if a job cannot be simulated, or if the kernel has no model.
    pub fn new(machine: &Machine, jobs: &[Job], options: SimOptions) -> Result<Self, SimError> {
        let hardware = Arc::new(Hardware::new(machine));
        let scripts = build_scripts::build_scripts(jobs, &hardware)?;
        SimHost::with_scripts(machine, hardware, jobs, scripts, options)
    }

    /// Returns a machine without running jobs, with prepared scripts. Several runs of a workload can share the
    /// scripts.
    ///
    /// # Errors
    /// Returns an error if the kernel has no model or lacks NUMA balancing that is enabled, or if a job runs too long.
    pub fn with_scripts(
        machine: &Machine,
        hardware: Arc<Hardware>,
        jobs: &[Job],
        scripts: Vec<Arc<Script>>,
        options: SimOptions,
    ) -> Result<Self, SimError> {
        let settings = settings(machine, &options)?;
        build_scripts::check_lengths(jobs, &scripts, &hardware, options.time_limit)?;
        let variation_streams = options.variation.streams(options.seed);
        let slots = jobs.iter().zip(scripts).zip(RandomKey::of_jobs(jobs));
        let slots = slots.map(|((job, script), key)| SimJob::new(job.clone(), script, key));
        let slots: Vec<SimJob> = slots.collect();
        let due = |slot: &SimJob| {
            let delay = variation_streams.start_delay(slot.random_key());
            ((slot.job.start + delay).0, slot.job.id, ScheduledAction::Due)
        };
        let agenda = slots.iter().map(due).collect();
        let mut host = SimHost {
            machine: simulated_machine(hardware.clone(), settings, variation_streams),
            next_interval: options.interval.map(|_| 0),
            observer: options.observed_every.map(Observer::new),
            fault_injector: FaultInjector::new(options.faults, options.seed),
            slots,
            assumed: assumed(machine, &hardware, settings.grain),
            hardware,
            settings,
            variation_streams,
            agenda,
            options,
            pending: Sample::default(),
            due: Vec::new(),
            turn_causes: BTreeSet::new(),
            n_turns: 0,
            is_first_sample: true,
            is_quiescent: false,
            is_stopping: false,
            stopped_by: None,
            last_reported: sampling::LastReported::default(),
            fault_schedule: FaultSchedule::default(),
            violation: None,
            checked: None,
            progress: SharedProgress::default(),
        };
        if host.options.capabilities.resctrl {
            host.machine.monitor_traffic();
        }
        host.schedule_faults();
        Ok(host)
    }

    /// Returns the jobs as policies receive them: with the error of declared values.
    pub fn declared_jobs(&self) -> Vec<Job> {
        let jobs: Vec<Job> = self.slots.iter().map(|slot| slot.job.clone()).collect();
        crate::declared::declared_jobs(&jobs, self.options.declared_error, &self.variation_streams)
    }

    /// Returns the simulated time since the start.
    pub fn now(&self) -> Nanos {
        Nanos(self.machine.now())
    }

    /// Returns the amount of simulation work since the start.
    pub fn work(&self) -> SimulationWork {
        self.machine.work()
    }

    /// Returns the bytes read from and written to the memory of each node since the start.
    pub fn controllers(&mut self) -> Vec<(Option<NodeId>, [u64; 2])> {
        self.machine.update_all();
        let nodes = self.hardware.nodes.iter().enumerate();
        let bytes = |lines: f64| (lines * base::LINE_BYTES as f64) as u64;
        nodes.map(|(idx, node)| (node.id, self.machine.lines(idx).map(bytes))).collect()
    }

    /// Returns a phrase for each assumed value of the machine.
    pub fn assumed(&self) -> &[String] {
        &self.assumed
    }

    /// Returns the modelled kernel and its settings.
    pub fn settings(&self) -> MachineSettings {
        self.settings
    }

    /// Returns why the run was stopped before all jobs had ended.
    pub fn stopped_by(&self) -> Option<StopCause> {
        self.stopped_by
    }

    /// Stops the run. A later cause is ignored.
    fn stop_because(&mut self, cause: StopCause) {
        if !self.is_stopping {
            self.stopped_by = Some(cause);
            self.stop();
        }
    }

    fn is_over(&self) -> bool {
        self.slots.iter().all(|slot| matches!(slot.state, SimJobState::Over))
    }

    fn never_ends(&self) -> InvariantViolation {
        let running = self.slots.iter().find(|slot| !matches!(slot.state, SimJobState::Over));
        let name = running.map_or("a job", |slot| &slot.job.name);
        InvariantViolation { at: self.now(), problem: format!("{name} never ends") }
    }

    /// Returns the time of the next scheduled turn or action.
    fn next_scheduled(&self) -> Option<u64> {
        let agenda = self.agenda.first().map(|(at, ..)| *at);
        let interval = self.next_interval.filter(|_| !self.is_quiescent);
        let limit = self.options.time_limit.filter(|_| !self.is_stopping).map(|limit| limit.0);
        [agenda, interval, limit, self.next_fault()].into_iter().flatten().min()
    }

    /// Handles all actions that are due now.
    fn take_due(&mut self) {
        self.inject_faults();
        let now = self.machine.now();
        while let Some(&(at, job, action)) = self.agenda.first()
            && at <= now
        {
            self.agenda.pop_first();
            match action {
                ScheduledAction::Due => self.job_due(job),
                ScheduledAction::Stop(run) => self.end_after_time(job, run),
            }
        }
        let is_due = self.next_interval.is_some_and(|at| at <= now) && !self.is_quiescent;
        if let Some(interval) = self.options.interval.filter(|_| is_due) {
            self.turn_causes.insert(Cause::Interval);
            self.next_interval = Some(next_multiple(now, interval));
        }
        self.observe();
        let is_late = self.options.time_limit.is_some_and(|limit| limit.0 <= now);
        if self.options.stop.is_raised() {
            self.stop_because(StopCause::Signal);
        } else if is_late {
            self.stop_because(StopCause::TimeLimit);
        }
    }

    fn handle_notices(&mut self) {
        for (_, notice) in self.machine.take_notices() {
            match notice {
                HostNotice::JobEnded { job, out_of_memory } if job < self.slots.len() => {
                    if !out_of_memory {
                        let checked = self.machine.check_instructions(job);
                        self.violation = self.violation.take().or(checked.err());
                    }
                    self.job_ended(job, out_of_memory);
                }
                // The job is an unmanaged program of the fault injection.
                HostNotice::JobEnded { job, .. } => self.machine.remove_job(job),
                HostNotice::PagesMoved(done) => {
                    let checked = self.machine.check_move(&done);
                    self.violation = self.violation.take().or(checked.err());
                    self.page_migration_ended(&done);
                }
            }
        }
    }

    fn new_turn(&mut self) -> Turn {
        let number = self.n_turns;
        self.n_turns += 1;
        self.resume_intervals();
        let causes = std::mem::take(&mut self.turn_causes).into_iter().collect();
        Turn { number, at: self.now(), causes }
    }

    /// Schedules interval turns at multiples of the interval after a quiescent period.
    fn resume_intervals(&mut self) {
        if !std::mem::take(&mut self.is_quiescent) {
            return;
        }
        if let (Some(at), Some(interval)) = (self.next_interval, self.options.interval) {
            self.next_interval = Some(at.max(next_multiple(self.machine.now(), interval)));
        }
    }

    /// Returns whether interval turns may be skipped until the next event.
    fn may_skip_turns(&self) -> bool {
        let runs = |slot: &SimJob| matches!(slot.state, SimJobState::Running(_));
        self.options.skip_quiescent_turns || !self.slots.iter().any(runs)
    }
}

/// Returns a phrase for each assumed value of a machine.
pub fn assumed(machine: &Machine, hardware: &Hardware, grain: GrainSettings) -> Vec<String> {
    [hardware.assumed(), &grain.assumed(machine.system())].concat()
}

/// Returns a machine of the grain in the settings.
fn simulated_machine(
    hardware: Arc<Hardware>,
    settings: MachineSettings,
    variation: VariationStreams,
) -> Box<dyn SimMachine> {
    match settings.grain {
        GrainSettings::Fluid => Box::new(Fluid::new(hardware, settings, variation)),
        GrainSettings::Quantum(own) => {
            Box::new(Quantum::<FairQueue>::new(hardware, settings, own, variation))
        }
    }
}

/// Returns the next multiple of an interval after `now`.
fn next_multiple(now: u64, interval: Nanos) -> u64 {
    (now / interval.0 + 1) * interval.0
}

/// Checks the kernel and its settings, from the options or the machine file, and that the keys of the file have an effect.
///
/// # Errors
/// Returns an error if the kernel has no model, if it lacks a feature, or if a key has no effect.
pub fn check_machine(machine: &Machine, options: &SimOptions) -> Result<(), SimError> {
    settings(machine, options).map(|_| ())
}

fn settings(machine: &Machine, options: &SimOptions) -> Result<MachineSettings, SimError> {
    let named = machine.system().kernel.as_deref().map(str::parse::<KernelVersion>);
    let kernel = match options.kernel {
        Some(kernel) => kernel,
        None => named.transpose()?.unwrap_or_default(),
    };
    let numa_balancing =
        options.numa_balancing.or(machine.system().numa_balancing).unwrap_or(false);
    if numa_balancing && !kernel.can_balance_numa() {
        return Err(SimError::NoNumaBalancing(kernel.name()));
    }
    let grain = GrainSettings::new(machine, options.grain)?;
    inert_keys::check(machine)?;
    Ok(MachineSettings {
        kernel,
        numa_balancing,
        grain,
        contention: options.contention,
        precision: if options.exact { PRECISION_EXACT } else { PRECISION },
    })
}

impl Host for SimHost {
    type Error = InvariantViolation;

    fn wait(&mut self) -> Result<Option<Turn>, InvariantViolation> {
        loop {
            self.take_due();
            let work = self.machine.work();
            self.machine.check(self.checked.replace(work) != Some(work))?;
            if let Some(violation) = self.violation.take() {
                return Err(violation);
            }
            if !self.turn_causes.is_empty() {
                return Ok(Some(self.new_turn()));
            }
            if self.is_over() {
                return Ok(None);
            }
            let observed = self.observer.as_ref().map_or(u64::MAX, Observer::next_ns);
            match self.next_scheduled() {
                Some(until) => self.machine.advance(until.min(observed), N_INSTANTS),
                // Without scheduled turns, the simulation advances to the next event.
                None => match self.machine.next_event() {
                    Some(at) => self.machine.advance(at.min(observed), u64::MAX),
                    None => return Err(self.never_ends()),
                },
            }
            self.handle_notices();
        }
    }

    fn sample(&mut self, turn: &Turn) -> Result<Sample, InvariantViolation> {
        let mut sample = std::mem::take(&mut self.pending);
        if std::mem::take(&mut self.is_first_sample) {
            self.sample_settings(&mut sample);
        }
        if turn.causes.contains(&Cause::Interval) {
            self.sample_all(&mut sample);
        }
        self.store_progress();
        Ok(sample)
    }

    fn apply(&mut self, plan: &Approved) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(plan.requests().len());
        let started = self.start_due(plan, &mut outcomes);
        self.change_running(plan, &started, &mut outcomes);
        self.is_quiescent = plan.is_quiescent() && self.may_skip_turns();
        outcomes
    }

    fn stop(&mut self) {
        self.stopped_by.get_or_insert(StopCause::Error);
        self.is_stopping = true;
        self.agenda.clear();
        for idx in 0..self.slots.len() {
            match self.slots[idx].state {
                SimJobState::Running(_) => self.terminate(idx, true),
                SimJobState::Waiting | SimJobState::Due => {
                    self.slots[idx].state = SimJobState::Over
                }
                SimJobState::Over => {}
            }
        }
        self.pending.jobs.retain(|event| !matches!(event, JobEvent::Due(_)));
        self.due.clear();
        self.turn_causes.insert(Cause::Stopping);
    }
}

/// Returns the cause of the end of a page migration, from its result.
fn stopped_by(done: &crate::frame::JobPageMigration) -> PageMigrationEnd {
    if done.job_ended {
        PageMigrationEnd::Exited
    } else if 0 < done.no_memory {
        PageMigrationEnd::Full
    } else if done.limit <= done.requested {
        PageMigrationEnd::Limit
    } else {
        PageMigrationEnd::Done
    }
}
