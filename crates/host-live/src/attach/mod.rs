//! The job source of a watch: manages processes that evenkeel did not start.
//!
//! ```text
//!   discovery      forks, execs and exits: events, cgroups, or new PIDs
//!   selection      criteria of selected processes      status     excluded processes, with reasons
//!   process_table  all known processes, each with its next sample; idle ones less often
//!      │ busy
//!      ▼
//!   tracker        the process becomes a job: its threads are sampled, and placed if evenkeel may act
//!      │ exited, idle for minutes, or excluded
//!      ▼
//!   detached       the affinity of the process is restored
//! ```
//!
//! A job is one process with its threads. A child inherits the mask of its parent ([`inherited`]). The child is
//! recorded, and restored together with its parent. When the child is busy, it becomes a job.
//!
//! No process is started, signalled or terminated. Without [`AttachOptions::act`] nothing is changed. The pages of a
//! process that set a memory policy do not migrate.

mod discovery;
mod inherited;
mod jobs;
mod options;
mod placement_cpus;
mod process_inspector;
mod process_table;
mod selection;
mod signature_search;
mod status;
mod tracker;

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use base::{JobId, Nanos};
use engine::{Approved, Host};
use linux::proc_dir::ProcDir;
use linux::tasks::{KeptFile, SampleTime};
use linux::undo::{self, Entry, Log, RestoreControl, Restored};
use linux::{affinity, system};
use program::Class;
use sched::{
    Action, Cause, CauseAndDetail, DetachCause, JobEvent, Outcome, OutcomeResult, RejectCause,
    Sample, StopCause, Target, Turn,
};
use topology::Machine;

pub use options::{AttachError, AttachOptions};
pub use selection::{Criteria, Selection};
pub use signature_search::{ProgramSignature, SearchFn};
pub use status::{ExcludedProcesses, ExclusionReason, ManagedProcess, WatchStatus};

use crate::LiveError;
use crate::errors::with_causes;
use crate::session::{
    Console, IntervalEnds, JobAffinities, JobSource, MemoryConfig, Session, SessionConfig,
    UndoRecord, UsableCpus, Wakeup, Wakeups, outcome, while_forks_are_hidden,
};
use discovery::Discovery;
use inherited::InheritedMasks;
use jobs::AttachedJobs;
use placement_cpus::PlacementCpus;
use process_inspector::ProcessInspector;
use process_table::ProcessTable;
use signature_search::SignatureSearch;
use tracker::Tracker;

/// Maximum time between two samples of a sleeping thread of a job.
const THREAD_SAMPLE_MAX: Nanos = Nanos::from_secs(10);
/// Maximum time between two turns. A turn updates the state file, so that `evenkeel status` shows that the watch is
/// running.
const HEARTBEAT: Nanos = Nanos::from_secs(10);
/// Minimum time between two updates of the status without a change of jobs.
const STATUS_EVERY: Nanos = Nanos::from_secs(5);
/// Upper limit of RLIMIT_NOFILE. A watch does not use more descriptors.
const DESCRIPTORS_MAX: u64 = 4096;
/// Warning after the exit of all selected processes.
const ALL_EXITED: &str = "the selected processes and their children have exited: the watch ends";

/// Host that manages processes on this machine.
///
/// On drop, the host restores all settings that it changed for running processes.
pub struct AttachHost {
    session: Session,
    tracker: Tracker,
    interval_ends: IntervalEnds,
    end: WatchEnd,
    stopped_by: Option<StopCause>,
    reload_requested: bool,
    status: Rc<RefCell<WatchStatus>>,
    status_at: Nanos,
    turn_at: Nanos,
    /// Clock ticks per second.
    tick_hz: u64,
    /// Open pidfds of the processes with which the watch ends.
    watched: Vec<KeptFile>,
    with_unknown_parent: Vec<Entry>,
    options: AttachOptions,
}

/// Stage of the end of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchEnd {
    No,
    Requested,
    /// All jobs are detached and reported.
    Reported,
}

impl AttachHost {
    /// Prepares a watch: checks the selection, opens the undo record if the watch may act, and selects the source of
    /// new processes. A watch that may act restores the changes of killed runs; no other setting is changed.
    ///
    /// # Errors
    /// Nothing is selected, a selected PID does not exist, a required kernel interface is
    /// not available, or the undo record cannot be created.
    pub fn new(machine: &Machine, options: AttachOptions) -> Result<Self, AttachError> {
        if options.selection.is_empty() {
            return Err(AttachError::NothingSelected);
        }
        let proc = ProcDir::open("/".as_ref()).map_err(AttachError::Proc)?;
        let is_running = |(pid, start): (&u32, &u64)| {
            proc.stat(*pid).is_ok_and(|stat| stat.start_time_ticks == *start)
        };
        if let Some((&pid, _)) = options.selection.pids.iter().find(|&it| !is_running(it)) {
            return Err(AttachError::NoProcess { pid });
        }
        let limit = system::raise_descriptors(DESCRIPTORS_MAX);
        let wakeups = Wakeups::new(options.takes_signals, options.reloads)?;
        let own = affinity::get(0).map_err(LiveError::OwnCpus)?;
        let with_memory = machine.nodes_with_memory().clone();
        let cpus = PlacementCpus::new("/".as_ref(), &proc, own.clone(), with_memory);
        let inspector = ProcessInspector::new(proc, options.selection.clone(), options.act)
            .map_err(AttachError::Proc)?;
        let run = system::random_id("/".as_ref()).map_err(AttachError::Proc)?;
        let undo = open_undo(&options, &run, &wakeups)?;
        let interval = Some(options.interval);
        let config = SessionConfig {
            run,
            machine,
            measured: options.machine.as_ref(),
            own_cpus: own,
            counters: options.counters,
            memory: MemoryConfig {
                options: options.memory,
                interval,
                nice: None,
                source: JobSource::Attached,
            },
            limit,
            n_jobs: 0,
        };
        let session = Session::open(config, wakeups, undo);
        let mut host = AttachHost::with_session(session, (inspector, cpus), options);
        host.watch_pids();
        host.apply_cpus();
        host.warn_restricted();
        Ok(host)
    }

    fn with_session(
        session: Session,
        (inspector, cpus): (ProcessInspector, PlacementCpus),
        options: AttachOptions,
    ) -> Self {
        let tick_hz = rustix::param::clock_ticks_per_second().max(1);
        let cgroups = match options.selection.only_cgroups() {
            true => options.cgroup_dirs.clone(),
            false => Vec::new(),
        };
        let table = ProcessTable::new(options.interval, Nanos(1_000_000_000 / tick_hz));
        AttachHost {
            session,
            tracker: Tracker {
                inspector,
                discovery: Discovery::new(cgroups, options.use_events),
                table: table.with_job_period(options.idle_after).with_busy(options.busy_permille),
                jobs: AttachedJobs::default(),
                inherited: InheritedMasks::default(),
                cpus,
                classes: options.classes.clone(),
                signatures: SignatureSearch::default(),
                idle_after: options.idle_after,
                now: Nanos::ZERO,
            },
            interval_ends: IntervalEnds::new(options.interval),
            end: WatchEnd::No,
            stopped_by: None,
            reload_requested: false,
            status: Rc::default(),
            status_at: Nanos::ZERO,
            turn_at: Nanos::ZERO,
            tick_hz,
            watched: Vec::new(),
            with_unknown_parent: Vec::new(),
            options,
        }
    }

    /// Returns the id of this watch, unique on the machine.
    pub fn run_id(&self) -> &str {
        &self.session.run
    }

    /// Searches the signature of the program of each process that becomes a job, in a helper thread. Without this call no
    /// job has a profile.
    pub fn search_signatures(&mut self, search: SearchFn) {
        match SignatureSearch::start(search) {
            Ok(started) => self.tracker.signatures = started,
            Err(error) => self.session.warn(format!(
                "signatures of programs are not used, because their helper thread cannot be started: {error}"
            )),
        }
    }

    /// Polls the console of a view in the event loop.
    ///
    /// # Errors
    /// The kernel rejects the descriptor.
    pub fn add_console(&mut self, console: Console) -> Result<(), LiveError> {
        let added = self.session.wakeups.add_console(console);
        added.map_err(|source| LiveError::Events { facility: "console", source })
    }

    /// Returns the time since the start of the watch.
    pub fn now(&mut self) -> Nanos {
        self.session.now()
    }

    /// Returns the name of the signal that ended the watch if it is not INT, QUIT, TERM or HUP.
    pub fn unusual_stop_signal(&self) -> Option<&str> {
        self.session.wakeups.unusual_signal()
    }

    /// Returns the settings that could not be restored after the watch, for which the undo record is kept.
    pub fn remaining(&self) -> Option<&Restored> {
        self.session.undo.remaining()
    }

    /// Returns the processes that have a mask of this watch after its end and may have it from another program. They are
    /// unchanged.
    pub fn with_unknown_parent(&self) -> &[Entry] {
        &self.with_unknown_parent
    }

    /// Returns why the watch stopped; `None` if it runs, or ended without a request: at its time limit, or because the
    /// processes have exited.
    pub fn stopped_by(&self) -> Option<StopCause> {
        self.stopped_by
    }

    /// Ends the watch, so that another watch can start with a new configuration.
    pub fn stop_to_reload(&mut self) {
        self.stop_because(StopCause::Reload);
    }

    fn stop_because(&mut self, cause: StopCause) {
        self.stopped_by.get_or_insert(cause);
        self.request_stop();
    }

    /// Returns whether SIGHUP requested a new configuration, and clears the request. [`Host::wait`] returns `None` for
    /// such a request; the watch has not ended, and the next call of `wait` continues it.
    pub fn take_reload_request(&mut self) -> bool {
        self.end == WatchEnd::No && std::mem::take(&mut self.reload_requested)
    }

    /// Replaces the selection and the classes. A process that is no longer selected is detached, and its affinity is
    /// restored. A process that stays selected keeps its placement; if its class changes, it is detached and attached
    /// again.
    pub fn reselect(
        &mut self,
        selection: Selection,
        cgroup_dirs: Vec<PathBuf>,
        classes: Vec<(String, Class)>,
    ) {
        let cgroups = if selection.only_cgroups() { cgroup_dirs } else { Vec::new() };
        self.tracker.discovery = Discovery::new(cgroups, self.options.use_events);
        self.tracker.reselect(&mut self.session, selection, classes);
    }

    /// Returns the changes of killed runs that were restored at the start. Without [`AttachOptions::act`] nothing is
    /// restored.
    pub fn restored(&self) -> &Restored {
        &self.session.undo.restored
    }

    /// Returns the status. Turns update the status when jobs or their affinity change, otherwise at most every five
    /// seconds.
    pub fn status(&self) -> Rc<RefCell<WatchStatus>> {
        Rc::clone(&self.status)
    }

    /// Watches for the exit of the processes with which the watch ends. Without a pidfd the exit is detected by a sample.
    fn watch_pids(&mut self) {
        let selection = &self.options.selection;
        let pids: Vec<u32> = selection.pids.keys().copied().collect();
        if selection.ends_with_pids {
            self.watched = pids.iter().filter_map(|&pid| self.session.watch_exit(pid)).collect();
        }
    }

    fn warn_restricted(&mut self) {
        if self.tracker.inspector.is_restricted() {
            self.session.warn(
                "processes of other users are not managed, because this requires CAP_SYS_NICE: \
                 run evenkeel as root",
            );
        }
    }

    fn take_wakeups(&mut self, woken: Vec<Wakeup>) {
        for wakeup in &woken {
            match *wakeup {
                Wakeup::Stop | Wakeup::ImmediateStop => self.stop_because(StopCause::Signal),
                Wakeup::Reload => self.reload_requested = true,
                Wakeup::Exited(pid) => {
                    // Events are handled first: they may contain forks of this process before its exit.
                    let now = self.session.now();
                    self.tracker.discover(&mut self.session, now);
                    self.tracker.handle_exit(&mut self.session, pid);
                }
                Wakeup::Helper => self.session.take_memory_results(),
                Wakeup::Overflow => {} // The turns of a watch do not depend on overflows.
            }
        }
        self.session.recycle(woken);
    }

    fn request_stop(&mut self) {
        if self.end == WatchEnd::No {
            self.end = WatchEnd::Requested;
        }
    }

    fn take_due(&mut self) {
        let now = self.session.now();
        let is_first = !self.session.had_first_sample();
        if self.options.time_limit.is_some_and(|limit| limit <= now) {
            self.request_stop();
        }
        // Before the first turn the process table is empty.
        if self.end == WatchEnd::No
            && !is_first
            && self.tracker.inspector.have_all_exited(&self.tracker.table)
        {
            if !self.tracker.inspector.selection.ends_with_pids {
                self.session.warn(ALL_EXITED);
            }
            self.request_stop();
        }
        if self.end == WatchEnd::Requested {
            self.end = WatchEnd::Reported;
            self.tracker.detach_all(&mut self.session, DetachCause::WatchStopped);
            self.session.turn.causes.insert(Cause::Stopping);
            return;
        }
        if self.end == WatchEnd::Reported || now < self.interval_ends.next() && !is_first {
            return;
        }
        self.interval_ends.skip_to(now);
        self.update_cpus(now);
        self.tracker.update(&mut self.session, now);
        if is_first && let Some(note) = self.tracker.no_match_note() {
            self.session.warn(note);
        }
        let pending = &self.session.turn.pending;
        let has_events = !(pending.jobs.is_empty()
            && pending.degraded.is_empty()
            && pending.host_notes.is_empty());
        let is_late = self.turn_at.saturating_add(HEARTBEAT) <= now;
        if is_first || has_events || is_late || !self.tracker.jobs.is_empty() {
            self.session.turn.causes.insert(Cause::Interval);
        }
    }

    fn update_cpus(&mut self, now: Nanos) {
        let Tracker { cpus, inspector, .. } = &mut self.tracker;
        if let Some(warnings) = cpus.update("/".as_ref(), &inspector.proc, now) {
            self.session.turn.pending.degraded.extend(warnings);
            self.session.turn.pending.usable_cpus = Some(cpus.targets());
            self.session.turn.causes.insert(Cause::CpusChanged);
        }
        self.apply_cpus();
    }

    /// Passes the current CPUs to the session.
    fn apply_cpus(&mut self) {
        let UsableCpus { own, compared } = &mut self.session.cpus;
        let cpus = &self.tracker.cpus;
        if **own != cpus.own {
            *own = Arc::new(cpus.own.clone());
        }
        let all = cpus.compared();
        if **compared != all {
            *compared = Arc::new(all);
        }
    }

    /// Returns the time of the next scheduled event. New processes are discovered once per interval, even without jobs.
    fn next_deadline(&self) -> Nanos {
        let next = self.interval_ends.next();
        self.options.time_limit.map_or(next, |limit| next.min(limit))
    }

    fn sample_jobs(&mut self, at: Nanos, sample: &mut Sample) {
        let interval = self.options.interval;
        let time = SampleTime { at, interval, idle_interval_max: THREAD_SAMPLE_MAX };
        let (session, jobs) = (&mut self.session, &mut self.tracker.jobs);
        let sampled = session.sample_threads(time, jobs, sample);
        session.check_affinity(jobs, sampled);
        if session.is_slow_sample_due(at) {
            session.sample_slow(at, &jobs.ids(), sample);
        }
        session.collectors.sample_loads(sample);
        let warnings = session.counter_warnings();
        sample.degraded.extend(warnings);
    }

    fn execute(
        &mut self,
        target: Target,
        action: &Action,
    ) -> Result<OutcomeResult, CauseAndDetail> {
        if !self.options.act {
            let text = "dry run: without --act nothing is changed".to_owned();
            return Err((RejectCause::DryRun, text));
        }
        let now_ticks = self.boot_ticks();
        let Tracker { jobs, inherited, .. } = &mut self.tracker;
        match (target, action) {
            (target, Action::MovePages { from, to, limit }) => {
                self.session.move_pages(jobs, target, (*from, *to, *limit), |_| None)?;
                Ok(OutcomeResult::InProgress)
            }
            (Target::Job(job), Action::Release) => {
                Ok(OutcomeResult::Done { n: inherited.release(&mut self.session, jobs, job) })
            }
            (target, action) => {
                if let (Action::Place(_), Some(job)) = (action, self.session.job_of(target))
                    && let Some(attached) = jobs.jobs.get_mut(&job)
                {
                    // Children that are forked from now on may have an assigned mask.
                    attached.placed_ticks.get_or_insert(now_ticks);
                }
                let n = self.session.place(jobs, target, action)?;
                Ok(OutcomeResult::Done { n })
            }
        }
    }

    /// Returns the current time in the unit of process start times: clock ticks since boot.
    fn boot_ticks(&self) -> u64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let (secs, nanos) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
        secs * self.tick_hz + nanos * self.tick_hz / 1_000_000_000
    }

    /// Updates the status if the update is due, or if jobs or their affinity changed.
    fn update_status(&mut self, has_acted: bool) {
        let is_attached_or_detached =
            |event: &JobEvent| matches!(event, JobEvent::Attached(_) | JobEvent::Detached(..));
        let has_changed = has_acted
            || self.session.turn.pending.jobs.iter().any(is_attached_or_detached)
            || self.tracker.jobs.len() != self.status.borrow().managed.len();
        if has_changed || self.status_at <= self.turn_at {
            self.status_at = self.turn_at + STATUS_EVERY;
            *self.status.borrow_mut() = self.tracker.status(&self.session);
        }
    }

    /// Restores all changed settings of running processes, and closes the undo record.
    fn restore(&mut self) {
        let AttachHost { session, tracker, .. } = self;
        let Tracker { jobs, inherited, .. } = tracker;
        let ids: Vec<JobId> = jobs.ids();
        for &job in &ids {
            inherited.release(session, jobs, job);
        }
        let affinities = jobs.jobs.values().map(|attached| &attached.affinity);
        let placed = affinities.filter(|state| state.was_ever_placed()).map(|state| state.pid);
        let parents: Vec<u32> = placed.chain(inherited.late_parents()).collect();
        while_forks_are_hidden(parents, || {
            inherited.release_late_children(session, jobs, Nanos::ZERO);
            for &job in &ids {
                if let Some(state) = jobs.affinity(job) {
                    session.binder().release_late_children(state);
                }
            }
        });
        session.undo.close("/".as_ref());
        self.with_unknown_parent = inherited.with_unknown_parent();
    }
}

/// Restores changes of killed runs and opens the undo record, but only if the watch may act.
fn open_undo(
    options: &AttachOptions,
    run: &str,
    wakeups: &Wakeups,
) -> Result<UndoRecord, AttachError> {
    if !options.act {
        return Ok(UndoRecord::new(Err("dry run".to_owned()), Restored::default()));
    }
    let dirs = options.undo_dirs.clone().unwrap_or_else(undo::dirs);
    let control = RestoreControl {
        is_stop_requested: &|| wakeups.is_stop_requested(),
        on_progress: &options.on_restore_progress,
        ..RestoreControl::default()
    };
    let restored = undo::restore_with(control, &dirs);
    let log = Log::create_watching(run.to_owned(), &dirs);
    let log = log.map_err(|error| AttachError::NoUndo(with_causes(&error)))?;
    Ok(UndoRecord::new(Ok(log), restored))
}

impl Host for AttachHost {
    type Error = LiveError;

    fn wait(&mut self) -> Result<Option<Turn>, LiveError> {
        loop {
            let has_causes = !self.session.turn.causes.is_empty();
            if self.end == WatchEnd::Reported && !has_causes && !self.session.memory.is_migrating()
            {
                self.restore();
                return Ok(None);
            }
            if self.reload_requested && self.end == WatchEnd::No {
                return Ok(None); // The caller takes the request and continues.
            }
            self.take_due();
            if !self.session.turn.causes.is_empty() {
                let turn = self.session.new_turn();
                self.turn_at = turn.at;
                return Ok(Some(turn));
            }
            let until = match self.end {
                WatchEnd::Reported => None, // The loop waits for the end of page migrations.
                _ => Some(self.next_deadline()),
            };
            let woken = self.session.wait(until)?;
            self.take_wakeups(woken);
        }
    }

    fn sample(&mut self, turn: &Turn) -> Result<Sample, LiveError> {
        let is_first = !self.session.had_first_sample();
        let cpus = &self.tracker.cpus;
        let mut sample = self.session.begin_sample(|| cpus.targets());
        if is_first {
            sample.degraded.extend(cpus.first_warnings());
        }
        if turn.causes.contains(&Cause::Interval) {
            self.sample_jobs(turn.at, &mut sample);
        }
        self.session.finish_sample(&mut sample);
        self.tracker.jobs.reuse_ids();
        Ok(sample)
    }

    fn apply(&mut self, plan: &Approved) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(plan.requests().len());
        for request in plan.requests() {
            outcomes.push(outcome(request, self.execute(request.target, &request.action)));
        }
        self.update_status(!outcomes.is_empty());
        outcomes
    }

    fn stop(&mut self) {
        self.stop_because(StopCause::Error);
    }
}

impl Drop for AttachHost {
    fn drop(&mut self) {
        self.session.memory.end();
        self.restore();
        self.session.lower_descriptor_limit();
    }
}
