//! The simulated machine as a host: turns, samples, applied plans.
//!
//! ```text
//!   wait    advances the simulation to the next turn
//!   sample  counters, /proc and memory of the simulated machine
//!   apply   sets affinities, starts jobs, migrates pages; only their effects take time
//! ```

mod act;
mod look;
mod slots;
#[cfg(test)]
mod tests;
mod trouble;

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{JobId, Nanos, NodeId, StopFlag};
use engine::{Approved, Host};
use program::Job;
use sched::{Cause, JobEvent, Outcome, PageMoveEnd, Sample, Turn};
use topology::Machine;

use crate::cast::{self, CastError};
use crate::chance::{Causes, Chance};
use crate::check::{Broken, Checker};
use crate::faults::{Faults, Luck};
use crate::fluid::{Counts, Fluid, News, Settings};
use crate::hardware::Hardware;
use crate::kernel::Version;
use crate::script::Script;

pub use look::Capabilities;
use slots::{Slot, State};
use trouble::Trouble;

/// Bytes of a cache line.
const LINE_BYTES: f64 = 64.0;
/// Instants with events after which the host polls the stop flag, even without a turn: a few hundredths of a second.
const N_INSTANTS: u64 = 1 << 14;

/// Options of a simulated run.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// The policy's interval; `None` for turns on events only.
    pub interval: Option<Nanos>,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Run-to-run variation.
    pub chance: Chance,
    /// The modelled kernel; `None` for that of the machine file, else the newest.
    pub kernel: Option<Version>,
    /// Whether it balances between nodes; `None` for the setting of the machine file, else no.
    pub numa_balancing: Option<bool>,
    /// Whether programs contend for caches and memory bandwidth.
    pub contention: bool,
    /// Whether the memory of jobs without a memory policy is interleaved over all nodes.
    pub interleave: bool,
    /// Available data sources.
    pub capabilities: Capabilities,
    /// Whether interval turns are skipped while the policy is quiescent, although jobs run. The record then lacks the
    /// samples in between.
    pub leaves_out_rests: bool,
    /// All jobs are terminated at this time.
    pub time_limit: Option<Nanos>,
    /// All jobs are terminated when one fails.
    pub fail_fast: bool,
    /// Injected faults.
    pub faults: Faults,
    /// All jobs are terminated when this flag is raised.
    pub stop: StopFlag,
}

impl Default for SimOptions {
    fn default() -> Self {
        SimOptions {
            interval: None,
            seed: 0,
            chance: Chance::default(),
            kernel: None,
            numa_balancing: None,
            contention: true,
            interleave: false,
            capabilities: Capabilities::default(),
            leaves_out_rests: false,
            time_limit: None,
            fail_fast: false,
            faults: Faults::default(),
            stop: StopFlag::default(),
        }
    }
}

/// The error of a machine and a workload that cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// A job cannot be simulated.
    #[error(transparent)]
    Cast(#[from] CastError),
    /// The machine file names a kernel without a model.
    #[error("there is no model of the kernel {found:?}: write {known}")]
    Kernel {
        /// As in the file.
        found: String,
        /// The modelled kernels.
        known: String,
    },
    /// The kernel does not have the requested feature.
    #[error("{0} cannot balance between nodes (kernels since 3.13 can): remove numa_balancing")]
    NoNumaBalancing(&'static str),
}

/// The simulated host.
#[derive(Debug)]
pub struct SimHost {
    pub(crate) fluid: Fluid,
    pub(crate) slots: Vec<Slot>,
    pub(crate) options: SimOptions,
    pub(crate) settings: Settings,
    pub(crate) causes: Causes,
    pub(crate) pending: Sample,
    pub(crate) due: Vec<JobId>,
    pub(crate) why: BTreeSet<Cause>,
    /// Instants at which jobs are due or must end; the earliest last.
    pub(crate) agenda: Vec<(u64, JobId, Agenda)>,
    pub(crate) next_interval: Option<u64>,
    pub(crate) n_turns: u64,
    pub(crate) is_first_sample: bool,
    pub(crate) rests: bool,
    pub(crate) is_stopping: bool,
    pub(crate) noted: look::Noted,
    pub(crate) luck: Luck,
    pub(crate) trouble: Trouble,
    checker: Checker,
    broken: Option<Broken>,
}

/// A scheduled action for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Agenda {
    /// The job is due.
    Due,
    /// The run time of the job is over, if it is still this run of it.
    Stop(u32),
}

impl SimHost {
    /// A machine without running jobs.
    ///
    /// # Errors
    /// A job that cannot be simulated, or a kernel without a model.
    pub fn new(machine: &Machine, jobs: &[Job], options: SimOptions) -> Result<Self, SimError> {
        let hardware = Arc::new(Hardware::new(machine));
        let scripts = cast::cast(jobs, &hardware)?;
        SimHost::with_scripts(machine, hardware, jobs, scripts, options)
    }

    /// The same from prepared scripts, for several runs of one workload.
    ///
    /// # Errors
    /// A kernel without a model.
    pub fn with_scripts(
        machine: &Machine,
        hardware: Arc<Hardware>,
        jobs: &[Job],
        scripts: Vec<Arc<Script>>,
        options: SimOptions,
    ) -> Result<Self, SimError> {
        let settings = settings(machine, &options)?;
        cast::check_lengths(jobs, &scripts, &hardware, options.time_limit)?;
        let causes = options.chance.causes(options.seed);
        let slots: Vec<Slot> =
            jobs.iter().zip(scripts).map(|(job, script)| Slot::new(job.clone(), script)).collect();
        let mut agenda: Vec<(u64, JobId, Agenda)> = slots
            .iter()
            .map(|slot| {
                let late = causes.late(slot.job.id.index(), 0);
                ((slot.job.start + late).0, slot.job.id, Agenda::Due)
            })
            .collect();
        agenda.sort_unstable_by(|one, other| other.cmp(one));
        let luck = Luck::new(options.faults, options.seed);
        let mut host = SimHost {
            fluid: Fluid::new(hardware, settings, causes.clone()),
            next_interval: options.interval.map(|_| 0),
            slots,
            settings,
            causes,
            agenda,
            options,
            pending: Sample::default(),
            due: Vec::new(),
            why: BTreeSet::new(),
            n_turns: 0,
            is_first_sample: true,
            rests: false,
            is_stopping: false,
            noted: look::Noted::default(),
            luck,
            trouble: Trouble::default(),
            checker: Checker,
            broken: None,
        };
        host.plan_trouble();
        Ok(host)
    }

    /// Simulated time since the start.
    pub fn now(&self) -> Nanos {
        Nanos(self.fluid.now())
    }

    /// Work done by the simulation so far.
    pub fn counts(&self) -> Counts {
        self.fluid.counts()
    }

    /// Bytes read from and written to the memory of each node so far.
    pub fn controllers(&mut self) -> Vec<(Option<NodeId>, [u64; 2])> {
        self.fluid.settle_all();
        let nodes = self.fluid.hardware().nodes.iter().enumerate();
        let bytes = |lines: f64| (lines * LINE_BYTES) as u64;
        nodes.map(|(idx, node)| (node.id, self.fluid.lines(idx).map(bytes))).collect()
    }

    /// The assumed values of the machine, one sentence each.
    pub fn assumed(&self) -> &[String] {
        self.fluid.hardware().assumed()
    }

    /// The modelled kernel and its settings.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Whether the run was stopped early.
    pub fn was_stopped(&self) -> bool {
        self.is_stopping
    }

    fn is_over(&self) -> bool {
        self.slots.iter().all(|slot| matches!(slot.state, State::Over))
    }

    fn never_ends(&self) -> Broken {
        let running = self.slots.iter().find(|slot| !matches!(slot.state, State::Over));
        let name = running.map_or("a job", |slot| &slot.job.name);
        Broken { at: self.now(), what: format!("{name} never ends") }
    }

    /// The next instant with a scheduled turn or action.
    fn next_known(&self) -> Option<u64> {
        let agenda = self.agenda.last().map(|(at, ..)| *at);
        let interval = self.next_interval.filter(|_| !self.rests);
        let limit = self.options.time_limit.filter(|_| !self.is_stopping).map(|limit| limit.0);
        [agenda, interval, limit, self.next_trouble()].into_iter().flatten().min()
    }

    /// Handles everything that is due now.
    fn take_due(&mut self) {
        self.take_trouble();
        let now = self.fluid.now();
        while let Some((_, job, what)) = self.agenda.pop_if(|(at, ..)| *at <= now) {
            match what {
                Agenda::Due => self.job_due(job),
                Agenda::Stop(run) => self.time_is_over(job, run),
            }
        }
        let is_due = self.next_interval.is_some_and(|at| at <= now) && !self.rests;
        if let Some(interval) = self.options.interval.filter(|_| is_due) {
            self.why.insert(Cause::Interval);
            self.next_interval = Some(after(now, interval));
        }
        let is_late = self.options.time_limit.is_some_and(|limit| limit.0 <= now);
        if (is_late || self.options.stop.is_raised()) && !self.is_stopping {
            self.stop();
        }
    }

    fn take_news(&mut self) {
        for (_, news) in self.fluid.take_news() {
            match news {
                News::JobEnded { job, out_of_memory } if job < self.slots.len() => {
                    self.job_ended(job, out_of_memory);
                }
                // A neighbour of the fault injection, which is not a managed job.
                News::JobEnded { job, .. } => self.fluid.forget(job),
                News::Moved(done) => {
                    let looked = self.checker.look_at_move(&self.fluid, &done);
                    self.broken = self.broken.take().or(looked.err());
                    self.move_ended(&done);
                }
            }
        }
    }

    fn new_turn(&mut self) -> Turn {
        let number = self.n_turns;
        self.n_turns += 1;
        self.wake_up();
        let causes = std::mem::take(&mut self.why).into_iter().collect();
        Turn { number, at: self.now(), causes }
    }

    /// After a quiescent time, interval turns continue at their original rhythm.
    fn wake_up(&mut self) {
        if !std::mem::take(&mut self.rests) {
            return;
        }
        if let (Some(at), Some(interval)) = (self.next_interval, self.options.interval) {
            self.next_interval = Some(at.max(after(self.fluid.now(), interval)));
        }
    }

    /// Whether interval turns may be skipped until an event.
    fn may_rest(&self) -> bool {
        let runs = |slot: &Slot| matches!(slot.state, State::Running(_));
        self.options.leaves_out_rests || !self.slots.iter().any(runs)
    }
}

/// The next multiple of an interval after `now`.
fn after(now: u64, interval: Nanos) -> u64 {
    (now / interval.0 + 1) * interval.0
}

/// Checks the kernel that a machine file names, and its settings.
///
/// # Errors
/// The kernel has no model, or lacks a feature.
pub fn check_kernel(machine: &Machine, options: &SimOptions) -> Result<(), SimError> {
    settings(machine, options).map(|_| ())
}

fn settings(machine: &Machine, options: &SimOptions) -> Result<Settings, SimError> {
    let named = machine.system().kernel.as_deref().map(|name| {
        let known = || Version::ALL.map(Version::name).join(", ");
        let unknown = || SimError::Kernel { found: name.to_owned(), known: known() };
        Version::of_name(name).ok_or_else(unknown)
    });
    let kernel = match options.kernel {
        Some(kernel) => kernel,
        None => named.transpose()?.unwrap_or_default(),
    };
    let numa_balancing =
        options.numa_balancing.or(machine.system().numa_balancing).unwrap_or(false);
    if numa_balancing && !kernel.can_balance_numa() {
        return Err(SimError::NoNumaBalancing(kernel.name()));
    }
    Ok(Settings { kernel, numa_balancing, contention: options.contention })
}

impl Host for SimHost {
    type Error = Broken;

    fn wait(&mut self) -> Result<Option<Turn>, Broken> {
        loop {
            self.take_due();
            self.checker.look(&self.fluid)?;
            if let Some(broken) = self.broken.take() {
                return Err(broken);
            }
            if !self.why.is_empty() {
                return Ok(Some(self.new_turn()));
            }
            if self.is_over() {
                return Ok(None);
            }
            match self.next_known() {
                Some(until) => self.fluid.advance_some(until, N_INSTANTS),
                // Without scheduled turns: the next event, whenever it is.
                None => match self.fluid.next_event() {
                    Some(at) => self.fluid.advance(at),
                    None => return Err(self.never_ends()),
                },
            }
            self.take_news();
        }
    }

    fn sample(&mut self, turn: &Turn) -> Result<Sample, Broken> {
        let mut sample = std::mem::take(&mut self.pending);
        if std::mem::take(&mut self.is_first_sample) {
            self.first_words(&mut sample);
        }
        if turn.causes.contains(&Cause::Interval) {
            self.look(&mut sample);
        }
        Ok(sample)
    }

    fn apply(&mut self, plan: &Approved) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(plan.requests().len());
        let started = self.start_due(plan, &mut outcomes);
        self.change_running(plan, &started, &mut outcomes);
        self.rests = plan.is_quiescent() && self.may_rest();
        outcomes
    }

    fn stop(&mut self) {
        self.is_stopping = true;
        self.agenda.clear();
        for idx in 0..self.slots.len() {
            match self.slots[idx].state {
                State::Running(_) => self.end(idx, true),
                State::Waiting | State::Due => self.slots[idx].state = State::Over,
                State::Over => {}
            }
        }
        self.pending.jobs.retain(|event| !matches!(event, JobEvent::Due(_)));
        self.due.clear();
        self.why.insert(Cause::Stopping);
    }
}

/// The reason for the end of a page migration, from its result.
fn stopped_by(done: &crate::fluid::PageMove) -> PageMoveEnd {
    if done.job_ended {
        PageMoveEnd::Exited
    } else if 0 < done.no_memory {
        PageMoveEnd::Full
    } else if done.limit <= done.requested {
        PageMoveEnd::Limit
    } else {
        PageMoveEnd::Done
    }
}
