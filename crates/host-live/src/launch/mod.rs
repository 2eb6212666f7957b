//! The job source of a run: starts the jobs of a workload, and terminates processes that outlive their job.
//!
//! ```text
//!   timer_queue          timed events: starts, time limits, kills
//!   interval_turns       times of interval turns: in every interval, or after counter overflows
//!   command              a job of the workload as a program to start
//!   start                fork, affinity, exec of all jobs that are due
//!   jobs                 the state of each job
//!   lifecycle            exit requests, exits, the end of the run
//!   remaining_processes  processes that outlive their job, and orphans
//!   mon_groups           a resctrl monitoring group per job
//!   memory_cgroups       a cgroup per job whose memory is bound
//!   supervisor           kills the jobs when evenkeel itself is killed
//!   preflight            checks a workload before anything is started
//! ```

mod command;
mod interval_turns;
mod jobs;
mod lifecycle;
mod memory_cgroups;
mod mon_groups;
mod oom_kills;
mod options;
mod preflight;
mod programs;
mod remaining_processes;
mod start;
mod supervisor;
mod timer_queue;

use base::{JobId, Nanos};
use engine::{Approved, Host};
use linux::child_exit::SigchldGuard;
use linux::inherited_children::InheritedChildren;
use linux::tasks::{CounterMode, SampleTime};
use linux::undo::{self, Log, RestoreControl, Restored};
use linux::{affinity, system};
use program::{MemoryPolicy, Workload};
use sched::{
    Action, Cause, CauseAndDetail, NodeSample, Outcome, OutcomeResult, Request, Sample, StopCause,
    Target, Turn,
};
use topology::Machine;

pub use memory_cgroups::check_cgroups;
pub use options::{LaunchOptions, StandardInput, StandardStreams};
pub use preflight::{PreflightError, find_runnable, preflight};
pub use programs::{ProgramError, find_program};
pub use supervisor::{SUPERVISOR_ARGUMENT, supervise};

use crate::LiveError;
use crate::errors::with_causes;
use crate::session::{
    Console, JobAffinities, JobSource, MemoryConfig, Session, SessionConfig, UndoRecord, Wakeup,
    Wakeups, outcome, while_forks_are_hidden,
};
use command::LaunchContext;
use interval_turns::{IntervalTurns, Overflow, TURN_EVERY_MAX};
use jobs::JobTable;
use lifecycle::{Lifecycle, RunStop};
use memory_cgroups::MemoryCgroups;
use mon_groups::MonGroups;
use oom_kills::OomKills;
use remaining_processes::RemainingProcesses;
use start::Starter;
use supervisor::Supervisor;
use timer_queue::{TimedEvent, TimerQueue};

/// Upper limit of RLIMIT_NOFILE. evenkeel does not use more descriptors, and a larger table costs kernel memory.
const DESCRIPTORS_MAX: u64 = 65_536;
/// Limit of starts per turn. Other due jobs start in the next turn, which follows immediately. Signals and exits are
/// handled between these turns.
const STARTS_PER_TURN: usize = 64;
/// Maximum time between two checks for orphans and stopped jobs while no job uses CPU time.
const ORPHANS_EVERY_MAX: Nanos = Nanos::from_secs(10);

/// Host that runs the jobs of a workload on this machine.
///
/// The host starts each job at its start time, samples the processes of jobs, sets their affinity as approved plans
/// request, and terminates remaining processes. Drop restores all changed settings of running processes.
pub struct LaunchHost {
    session: Session,
    run: Lifecycle,
    turns: IntervalTurns,
    context: LaunchContext,
    machine: Machine,
    options: LaunchOptions,
    /// Whether the last sample contained no load data.
    had_no_load_data: bool,
    /// Whether a job ran since the last check for orphans.
    may_have_orphans: bool,
    orphans_at: Nanos,
    /// Guard that restores the SIGCHLD disposition on drop.
    _sigchld: SigchldGuard,
}

impl LaunchHost {
    /// Prepares the run of a workload. Changes of killed runs are restored first
    /// ([`LaunchHost::restored`]). No job is started before the first turn.
    ///
    /// # Errors
    /// The event loop, the output directory or the supervisor is not available, or the
    /// affinity of evenkeel cannot be read.
    pub fn new(
        workload: Workload,
        machine: &Machine,
        options: LaunchOptions,
    ) -> Result<Self, LiveError> {
        // Processes that a shell started before it executed evenkeel, and as PID 1 all orphans of the PID namespace, are
        // children without being of a job.
        let has_other_children =
            !InheritedChildren::now().is_empty() || rustix::process::getpid().is_init();
        let limit = system::raise_descriptors(DESCRIPTORS_MAX);
        let wakeups = Wakeups::new(options.takes_signals, false)?;
        let context = LaunchContext::new(&workload, &options, &limit);
        let supervisor = match options.kill_on_exit {
            true => Some(Supervisor::start(&context.tool, &context.run)),
            false => None,
        };
        let supervisor = supervisor.transpose().map_err(LiveError::Supervisor)?;
        let own_cpus = affinity::get(0).map_err(LiveError::OwnCpus)?;
        let config = SessionConfig {
            run: context.run.clone(),
            machine,
            measured: Some(machine),
            own_cpus,
            counters: options.counters,
            memory: MemoryConfig {
                options: options.memory,
                interval: options.interval,
                nice: context.nice,
                source: JobSource::Launched,
            },
            limit,
            n_jobs: workload.jobs.len() as u64,
        };
        let undo = open_undo(&context.run, &options, &wakeups);
        let session = Session::open(config, wakeups, undo);
        let mut host = LaunchHost::with_session(session, context, supervisor, machine, options);
        host.run.remaining.has_other_children |= has_other_children;
        host.take_jobs(workload);
        host.become_subreaper();
        Ok(host)
    }

    fn with_session(
        mut session: Session,
        context: LaunchContext,
        supervisor: Option<Supervisor>,
        machine: &Machine,
        options: LaunchOptions,
    ) -> Self {
        let overflow = Overflow::open(options.wake, &session.cpus.own, &session.wakeups);
        let overflow = overflow.unwrap_or_else(|warning| {
            session.warn(warning);
            None
        });
        let root = || options.resctrl_root.clone();
        let cgroups = MemoryCgroups::open(root(), machine, &context.run, options.cgroups);
        let is_counted = options.counters != CounterMode::Off;
        let mut mon_groups = MonGroups::open(root(), machine, &context.run, is_counted);
        mon_groups.warnings.take().into_iter().for_each(|warning| session.warn(warning));
        LaunchHost {
            session,
            run: Lifecycle {
                jobs: JobTable::new(Vec::new()),
                timers: TimerQueue::default(),
                mon_groups,
                cgroups,
                supervisor,
                remaining: RemainingProcesses::new(options.grace, options.is_sole_parent),
                stopping: RunStop::No,
                stopped_by: None,
                oom_kills: OomKills::new(root()),
                grace: options.grace,
                fail_fast: options.fail_fast,
            },
            turns: IntervalTurns::new(options.interval, overflow),
            context,
            machine: machine.clone(),
            options,
            had_no_load_data: false,
            may_have_orphans: true,
            orphans_at: ORPHANS_EVERY_MAX,
            _sigchld: SigchldGuard::keep(),
        }
    }

    fn take_jobs(&mut self, workload: Workload) {
        for job in &workload.jobs {
            self.run.timers.add(job.start, TimedEvent::Start(job.id));
            self.session.tasks.register_job_name(&job.name, job.id);
        }
        self.run.jobs = JobTable::new(workload.jobs);
        if let Some(limit) = self.options.time_limit {
            self.run.timers.add(limit, TimedEvent::TimeLimit);
        }
    }

    /// Makes evenkeel the subreaper, so that orphans of jobs are reparented to evenkeel and not to the init process.
    fn become_subreaper(&mut self) {
        let own = rustix::process::getpid();
        if rustix::process::set_child_subreaper(Some(own)).is_err() {
            let text = "orphaned processes cannot be assigned to jobs: prctl(PR_SET_CHILD_SUBREAPER) failed";
            self.session.warn(text);
        }
        if let Some(text) = self.not_placed_because() {
            self.session.warn(text);
        }
    }

    /// Returns the reason why no job is placed in this run, or `None` if the undo record can be written.
    pub fn not_placed_because(&self) -> Option<String> {
        let error = self.session.undo.missing_because()?;
        Some(format!("jobs are not placed: the undo record cannot be written: {error}"))
    }

    /// Returns the changes of killed runs that were restored at the start.
    pub fn restored(&self) -> &Restored {
        &self.session.undo.restored
    }

    /// Returns the name of the signal that ended the run if it is not INT, QUIT, TERM or HUP.
    pub fn unusual_stop_signal(&self) -> Option<&str> {
        self.session.wakeups.unusual_signal()
    }

    /// Returns the settings that could not be restored after the run, for which the undo record is kept.
    pub fn remaining(&self) -> Option<&Restored> {
        self.session.undo.remaining()
    }

    /// Returns the id of this run, unique on the machine.
    pub fn run_id(&self) -> &str {
        &self.context.run
    }

    /// Polls the console of a view in the event loop.
    ///
    /// # Errors
    /// The kernel rejects the descriptor.
    pub fn add_console(&mut self, console: Console) -> Result<(), LiveError> {
        let added = self.session.wakeups.add_console(console);
        added.map_err(|source| LiveError::Events { facility: "console", source })
    }

    /// Returns the version of cgroups for jobs with bound memory, and the reason.
    pub fn cgroup_description(&self) -> String {
        self.run.cgroups.description()
    }

    /// Returns whether a job of the workload gets a cgroup.
    pub fn needs_cgroups(&self) -> bool {
        self.run.jobs.all.iter().any(|entry| {
            let of_nodes = entry.job.nodes.clone().map(MemoryPolicy::Bind);
            self.run.cgroups.would_bind(entry.job.memory.as_ref().or(of_nodes.as_ref()))
        })
    }

    /// Returns the time since the start of the run.
    pub fn now(&mut self) -> Nanos {
        self.session.now()
    }

    /// Returns why the run was stopped before all jobs had ended.
    pub fn stopped_by(&self) -> Option<StopCause> {
        self.run.stopped_by
    }

    fn take_wakeups(&mut self, woken: Vec<Wakeup>) {
        let now = self.session.now();
        for wakeup in &woken {
            match *wakeup {
                Wakeup::Stop | Wakeup::Reload => {
                    self.run.request_stop(&mut self.session, StopCause::Signal, now);
                }
                Wakeup::ImmediateStop => self.run.request_immediate_stop(&mut self.session, now),
                Wakeup::Exited(pid) => self.run.process_exited(&mut self.session, pid, now),
                Wakeup::Helper => self.session.take_memory_results(),
                Wakeup::Overflow => self.turns.woken(&mut self.session),
            }
        }
        self.session.recycle(woken);
    }

    fn take_due(&mut self) {
        let now = self.session.now();
        while self.run.jobs.due.len() < STARTS_PER_TURN
            && let Some(item) = self.run.timers.take_due(now)
        {
            self.run.handle(&mut self.session, item, now);
        }
        let any_running = !self.run.jobs.by_pid.is_empty();
        if let Some(by_overflow) = self.turns.take_due(now, any_running, &self.session.tasks) {
            self.session.turn.causes.insert(Cause::Interval);
            if by_overflow {
                self.session.turn.causes.insert(Cause::Overflow);
            }
            self.update_own_cpus();
        }
    }

    /// Detects a change of evenkeel's affinity mask: a CPU went offline or online, or the cpuset changed.
    fn update_own_cpus(&mut self) {
        let Ok(now) = affinity::get(0) else { return };
        if now != *self.session.cpus.own {
            self.session.cpus.set(now.clone());
            self.session.turn.pending.usable_cpus = Some(now);
            self.session.turn.causes.insert(Cause::CpusChanged);
        }
    }

    fn next_deadline(&self) -> Option<Nanos> {
        let any_running = !self.run.jobs.by_pid.is_empty();
        let interval_end = self.turns.next(&self.session.tasks).filter(|_| any_running);
        [self.run.timers.next(), interval_end].into_iter().flatten().min()
    }

    fn sample_jobs(&mut self, at: Nanos, sample: &mut Sample) {
        let interval = self.options.interval.unwrap_or(TURN_EVERY_MAX);
        let time = SampleTime { at, interval, idle_interval_max: TURN_EVERY_MAX };
        let sampled = self.session.sample_threads(time, &self.run.jobs, sample);
        if !sampled.changed_jobs.is_empty() {
            self.update_supervisor();
        }
        self.session.check_affinity(&mut self.run.jobs, sampled);
        if self.session.is_slow_sample_due(at) {
            // While no job uses CPU time, only processes that were never sampled can leave orphans, so the check is
            // rare.
            if std::mem::take(&mut self.may_have_orphans) || self.orphans_at <= at {
                self.orphans_at = at + ORPHANS_EVERY_MAX;
                self.run.take_orphans(&mut self.session);
                if self.options.is_sole_parent {
                    self.run.jobs.report_stopped(&mut self.session);
                }
            }
            self.update_supervisor();
            self.session.sample_slow(at, &self.run.jobs.running_ids(), sample);
        }
        self.session.collectors.sample_loads(sample);
        self.run.mon_groups.sample(sample);
        self.warn();
        self.turns.rearm(&mut self.session, at);
    }

    fn update_supervisor(&mut self) {
        let (remaining, mut parts) = self.run.split(&mut self.session);
        remaining.update_supervisor(&mut parts);
    }

    fn warn(&mut self) {
        let descriptors = &self.session.tasks.files.descriptors;
        if descriptors.ran_out {
            let n_all = descriptors.n_all;
            self.session.warn_once(format!(
                "at most {n_all} descriptors can be kept open: the files of further tasks are opened for \
                 each sample, which costs more; raise the hard limit (ulimit -Hn)"
            ));
        }
        let mut warnings = self.session.counter_warnings();
        warnings.extend(self.run.mon_groups.warnings.take());
        warnings.extend(self.run.cgroups.warnings.take());
        warnings.into_iter().for_each(|warning| self.session.warn(warning));
    }

    fn execute(&mut self, request: &Request) -> Result<OutcomeResult, CauseAndDetail> {
        let (session, jobs) = (&mut self.session, &mut self.run.jobs);
        match (request.target, &request.action) {
            (Target::Job(job), Action::Release) => {
                Ok(OutcomeResult::Done { n: self.run.release(session, job) })
            }
            (target, Action::MovePages { from, to, limit }) => {
                let cgroups = &self.run.cgroups;
                session
                    .move_pages(jobs, target, (*from, *to, *limit), |job| cgroups.cgroup_of(job))?;
                Ok(OutcomeResult::InProgress)
            }
            (target, action) => {
                session.place(jobs, target, action).map(|n| OutcomeResult::Done { n })
            }
        }
    }

    /// Restores all settings of running processes, and closes the undo record.
    fn restore(&mut self) {
        let running = self.run.jobs.running_ids();
        for &job in &running {
            self.run.release(&mut self.session, job);
        }
        self.run.remaining.release(&mut self.session, &self.run.jobs);
        self.release_late_children(&running);
        let undo = &mut self.session.undo;
        let no_mon_groups = self.run.mon_groups.end_all(undo);
        if !self.run.cgroups.end_all(undo) || !no_mon_groups {
            undo.keep(); // `evenkeel restore` removes the groups later.
        }
        undo.close(&self.options.resctrl_root);
    }

    fn release_late_children(&mut self, running: &[JobId]) {
        let (session, jobs) = (&mut self.session, &mut self.run.jobs);
        let was_placed =
            |job: &&JobId| jobs.affinity(**job).is_some_and(|state| state.was_ever_placed());
        let placed: Vec<JobId> = running.iter().filter(was_placed).copied().collect();
        let parents = placed.iter().flat_map(|&job| session.tasks.processes_of(job));
        let parents: Vec<u32> = parents.map(|(pid, _)| pid).collect();
        while_forks_are_hidden(parents, || {
            for &job in &placed {
                if let Some(state) = jobs.affinity(job) {
                    session.binder().release_late_children(state);
                }
            }
        });
    }
}

impl Host for LaunchHost {
    type Error = LiveError;

    fn wait(&mut self) -> Result<Option<Turn>, LiveError> {
        loop {
            self.take_due();
            if !self.session.turn.causes.is_empty() {
                // Wake-ups that are already pending are handled in this turn.
                let woken = self.session.poll()?;
                self.take_wakeups(woken);
                return Ok(Some(self.session.new_turn()));
            }
            if self.run.is_over() && !self.session.memory.is_migrating() {
                let (remaining, mut parts) = self.run.split(&mut self.session);
                if remaining.end(&mut parts) {
                    self.restore();
                    return Ok(None);
                }
            }
            if !self.session.turn.causes.is_empty() {
                continue;
            }
            let woken = self.session.wait(self.next_deadline())?;
            self.take_wakeups(woken);
            self.take_due();
            if !self.session.turn.causes.is_empty() {
                return Ok(Some(self.session.new_turn()));
            }
        }
    }

    fn sample(&mut self, turn: &Turn) -> Result<Sample, LiveError> {
        let own = self.session.cpus.own.clone();
        let mut sample = self.session.begin_sample(|| (*own).clone());
        if turn.causes.contains(&Cause::Interval) {
            self.sample_jobs(turn.at, &mut sample);
        }
        self.session.finish_sample(&mut sample);
        self.had_no_load_data = has_no_load_data(&sample);
        self.may_have_orphans |= !self.had_no_load_data;
        self.turns.had_turn(turn.at);
        Ok(sample)
    }

    fn apply(&mut self, plan: &Approved) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(plan.requests().len());
        let LaunchHost { session, run, context, machine, .. } = self;
        let started = Starter { session, run, context, machine }.start_due(plan, &mut outcomes);
        let is_start = |target| matches!(target, Target::Job(job) if started.contains(&job));
        for request in plan.requests().iter().filter(|request| !is_start(request.target)) {
            outcomes.push(outcome(request, self.execute(request)));
        }
        if !started.is_empty() {
            self.turns.follow(&mut self.session);
        }
        let has_unconfirmed = self.session.undo.has_unconfirmed();
        self.turns.set_quiescent(self.had_no_load_data && plan.is_quiescent() && !has_unconfirmed);
        outcomes
    }

    fn stop(&mut self) {
        let now = self.session.now();
        if self.run.stopping == RunStop::No {
            self.run.request_stop(&mut self.session, StopCause::Error, now);
        }
    }
}

impl Drop for LaunchHost {
    fn drop(&mut self) {
        self.session.memory.end();
        self.restore();
        if let Some(supervisor) = self.run.supervisor.take() {
            supervisor.dismiss();
        }
        self.session.lower_descriptor_limit();
        if let Some(nice) = self.context.nice {
            // Lowering the priority is always permitted.
            let _ = system::set_own_nice(nice);
        }
    }
}

/// Restores changes of killed runs, and opens the undo record.
fn open_undo(run: &str, options: &LaunchOptions, wakeups: &Wakeups) -> UndoRecord {
    let dirs = options.undo_dirs.clone().unwrap_or_else(undo::dirs);
    let control = RestoreControl {
        groups_root: &options.resctrl_root,
        is_stop_requested: &|| wakeups.is_stop_requested(),
        on_progress: &options.on_restore_progress,
        ..RestoreControl::default()
    };
    let restored = undo::restore_with(control, &dirs);
    let log = Log::create_for(run.to_owned(), &dirs);
    UndoRecord::new(log.map_err(|error| with_causes(&error)), restored)
}

/// Returns whether a sample contains no data for loads. Free memory does not count as data for loads.
fn has_no_load_data(sample: &Sample) -> bool {
    let is_counted = |node: &NodeSample| node.controller_ops.is_some();
    let no_events = sample.tasks.is_empty() && sample.exited.is_empty() && sample.jobs.is_empty();
    no_events && sample.usable_cpus.is_none() && !sample.nodes.iter().any(is_counted)
}
