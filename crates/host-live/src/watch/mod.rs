//! Looking after programs that somebody else started.
//!
//! ```text
//!   notice   who was born, who ended: events, cgroup lists, or numbers given since
//!   choice   whom the user wants looked after        respect  who is left alone all the same
//!   census   everybody known, each with its next look; sleepers ever more seldom
//!      │ busy
//!      ▼
//!   adopt    a process becomes a job of the engine: its threads are read, and placed if we may act
//!      │ ended, asleep for minutes, or no longer to be touched
//!      ▼
//!   leave    it gets back what it had
//! ```
//!
//! A job is one process with its threads. What it starts meanwhile has its mask by birth ([`heirs`]): an
//! heir is written down as ours, left where it is, and put back with it; when it is busy itself it
//! becomes a job of its own.
//!
//! Memory is looked at and moved by the same helper thread that jobs of ours have ([`crate::memory`]).
//! Who said itself where its memory is to come from keeps it there.
//!
//! Nothing is started, signalled or ended here, and without [`WatchOptions::act`] nothing is changed.

mod adopt;
mod board;
mod census;
mod choice;
mod heirs;
mod here;
mod notice;
mod options;
mod people;
mod respect;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use base::{Bytes, JobId, Nanos, NodeId};
use engine::{Approved, Host};
use linux::glance::{ProcFolder, ProcStatus};
use linux::system::DescriptorLimit;
use linux::undo::{self, Log, Restored};
use linux::{affinity, fork_latency, mempolicy, system};
use sched::{
    Action, Cause, DetachCause, JobEvent, NumaSettings, Outcome, OutcomeResult, PageMoveEnd,
    RejectCause, Sample, Target, Turn,
};
use topology::Machine;

pub use board::{Alone, Board, Managed};
pub use choice::{Choice, Marks, matches as name_matches};
pub use options::{WatchError, WatchOptions};
pub use respect::LeftAlone;

use crate::LiveError;
use crate::agenda::Ticks;
use crate::hold::{Hands, Hold, Refused, confirm, not_running};
use crate::host::in_one_line;
use crate::memory::{Manner, Memory};
use crate::nodes::Nodes;
use crate::wakes::{Wake, Wakes};
use adopt::Watched;
use census::Census;
use heirs::{Given, Heir};
use here::Here;
use linux::collectors::LiveCollectors;
use linux::tasks::{DescriptorBudget, SampleTime, SampledTasks, TaskCounters, TaskReader};
use notice::Notice;

/// A sleeping thread of a busy process is looked at at least this often.
const THREAD_REST_MAX: Nanos = Nanos::from_secs(10);
/// A turn comes at least this often, so that readers see that we live.
const HEARTBEAT: Nanos = Nanos::from_secs(10);
/// What is shown is counted anew at most this often while jobs stay the same.
const BOARD_EVERY: Nanos = Nanos::from_secs(5);
/// Masks and births during changes, and memory, are looked after this often.
const SELDOM: Nanos = Nanos::from_secs(1);
/// More descriptors than this are of no use to us.
const DESCRIPTORS_ENOUGH: u64 = 4096;

/// Looks after processes that run on this machine.
///
/// When it is dropped, everything that it changed and that still lives is put back.
pub struct WatchHost {
    options: WatchOptions,
    run: String,
    proc: ProcFolder,
    notice: Notice,
    census: Census,
    watched: BTreeMap<JobId, Watched>,
    /// Processes with a mask of ours by birth.
    heirs: BTreeMap<u32, Heir>,
    /// Whose children are to be looked at for how long, since it was given back what it had.
    late: Vec<(Nanos, Given)>,
    next_job: u32,
    free_jobs: VecDeque<JobId>,
    /// Numbers of jobs that left: free once that has been told.
    freed: Vec<JobId>,
    family: TaskReader,
    undo: Result<Log, String>,
    is_record_kept: bool,
    unconfirmed: Vec<u64>,
    restored: Restored,
    /// Whose rights we have, and which.
    own: ProcStatus,
    here: Here,
    nodes: Nodes,
    memory: Memory,
    wakes: Wakes,
    woken: Vec<Wake>,
    ticks: Ticks,
    causes: BTreeSet<Cause>,
    pending: Sample,
    senses: Option<LiveCollectors>,
    n_turns: u64,
    turn_at: Nanos,
    seldom_at: Nanos,
    is_first: bool,
    stop: Stop,
    was_stopped: bool,
    board: Rc<RefCell<Board>>,
    board_at: Nanos,
    limit: DescriptorLimit,
    /// Clock ticks in a second.
    tick_hz: u64,
}

/// What is said when nobody is left to look after.
const ALL_GONE: &str =
    "the processes that were named have ended, and whatever they started: watching ends";

/// How far the end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    No,
    Asked,
    Told,
}

impl WatchHost {
    /// Gets ready: checks whom to look after, opens the undo record if it may act, and finds out how
    /// new processes can be noticed. Nothing is changed.
    ///
    /// # Errors
    /// Nobody is chosen, a process that was named is not there, or what is needed cannot be had.
    pub fn new(machine: &Machine, options: WatchOptions) -> Result<Self, WatchError> {
        if options.choice.is_empty() {
            return Err(WatchError::NobodyChosen);
        }
        let proc = ProcFolder::open("/".as_ref()).map_err(WatchError::Proc)?;
        for (&pid, &born_ticks) in &options.choice.pids {
            let same = proc.glance(pid).is_ok_and(|glance| glance.born_ticks == born_ticks);
            if !same {
                return Err(WatchError::NoProcess { pid });
            }
        }
        let limit = system::raise_descriptors(DESCRIPTORS_ENOUGH);
        let wakes = Wakes::new(options.takes_signals)?;
        let own_cpus = affinity::get(0).map_err(LiveError::OwnCpus)?;
        let here = Here::new("/".as_ref(), &proc, own_cpus, machine.nodes_with_memory().clone());
        let own = proc.status(std::process::id()).map_err(WatchError::Proc)?;
        let run = system::random_id("/".as_ref()).map_err(WatchError::Proc)?;
        let (undo, restored) = undo_for(&options, &run)?;
        let tick_hz = rustix::param::clock_ticks_per_second().max(1);
        let groups = match options.choice.only_cgroups() {
            true => options.cgroup_folders.clone(),
            false => Vec::new(),
        };
        let notice = Notice::new(groups, options.may_hear);
        let descriptors = DescriptorBudget::new(limit.now, 0);
        let (senses, chosen, said) = match &options.machine {
            Some(machine) => {
                let (senses, chosen, said) = LiveCollectors::open(machine, options.counters);
                (Some(senses), chosen, said)
            }
            None => (None, Vec::new(), Vec::new()),
        };
        let counting = TaskCounters::of_watch(chosen, options.counters);
        let mut family = TaskReader::new(descriptors, counting, run.clone());
        family.follows_children = false;
        let manner = Manner {
            options: options.memory,
            interval: Some(options.interval),
            nice: None,
            of_strangers: true,
        };
        let mut host = WatchHost {
            nodes: Nodes::open(machine),
            memory: Memory::new(machine, manner),
            notice,
            census: Census::new(options.interval, Nanos(1_000_000_000 / tick_hz))
                .with_job_rest(options.idle_after)
                .with_busy(options.busy_permille),
            watched: BTreeMap::new(),
            heirs: BTreeMap::new(),
            late: Vec::new(),
            next_job: 0,
            free_jobs: VecDeque::new(),
            freed: Vec::new(),
            family,
            undo,
            is_record_kept: false,
            unconfirmed: Vec::new(),
            restored,
            own,
            here,
            wakes,
            woken: Vec::new(),
            ticks: Ticks::new(options.interval),
            causes: BTreeSet::new(),
            pending: Sample { degraded: said, ..Sample::default() },
            senses,
            n_turns: 0,
            turn_at: Nanos::ZERO,
            seldom_at: Nanos::ZERO,
            is_first: true,
            stop: Stop::No,
            was_stopped: false,
            board: Rc::default(),
            board_at: Nanos::ZERO,
            limit,
            tick_hz,
            proc,
            run,
            options,
        };
        host.say_rights();
        Ok(host)
    }

    /// What this run is called.
    pub fn run_id(&self) -> &str {
        &self.run
    }

    /// The time since the start.
    pub fn now(&mut self) -> Nanos {
        self.wakes.now()
    }

    /// Whether something could not be put back when watching was over: its record stays, and
    /// `evenkeel restore` tries again.
    pub fn is_record_kept(&self) -> bool {
        self.is_record_kept
    }

    /// Whether somebody asked it to end before its time.
    pub fn was_stopped(&self) -> bool {
        self.was_stopped
    }

    /// What the start found left over by killed runs, and did about it. Nothing unless it may act.
    pub fn restored(&self) -> &Restored {
        &self.restored
    }

    /// What there is to show; kept up to date turn by turn.
    pub fn board(&self) -> Rc<RefCell<Board>> {
        Rc::clone(&self.board)
    }

    fn say_rights(&mut self) {
        let nobodys = ProcStatus { uid: u32::MAX, uid_effective: u32::MAX, ..self.own.clone() };
        if self.options.act && !self.own.may_bind(&nobodys) {
            self.pending.degraded.push(
                "processes of other users are left alone, since placing them needs CAP_SYS_NICE: \
                 run it as root"
                    .to_owned(),
            );
        }
    }

    fn take_wakes(&mut self) {
        let mut woken = std::mem::take(&mut self.woken);
        for wake in woken.drain(..) {
            match wake {
                Wake::Stop | Wake::StopAtOnce => {
                    self.was_stopped = true;
                    self.ask_to_stop();
                }
                Wake::Ended(pid) => {
                    // Births that were told before its end are its children's.
                    let now = self.wakes.now();
                    self.take_births(now);
                    self.has_ended(pid);
                }
                Wake::Helper => self.take_memory_news(),
                Wake::Overflow => {} // A watch polls: nothing of it waits for counters.
            }
        }
        self.woken = woken;
    }

    /// What the helper has told since.
    fn take_memory_news(&mut self) {
        let now = self.wakes.now();
        if self.memory.take_news(&self.family, &mut self.pending, now) {
            self.causes.insert(Cause::MemoryMoved);
        }
    }

    fn ask_to_stop(&mut self) {
        if self.stop == Stop::No {
            self.stop = Stop::Asked;
        }
    }

    /// Everything that is due at this instant.
    fn take_due(&mut self) {
        let now = self.wakes.now();
        if self.options.time_limit.is_some_and(|limit| limit <= now) {
            self.ask_to_stop();
        }
        if self.stop == Stop::No && self.are_all_gone() {
            self.pending.degraded.push(ALL_GONE.to_owned());
            self.ask_to_stop();
        }
        if self.stop == Stop::Asked {
            self.stop = Stop::Told;
            self.leave_all(DetachCause::WatchStopped);
            self.causes.insert(Cause::Stopping);
            return;
        }
        if self.stop == Stop::Told || now < self.ticks.next() && !self.is_first {
            return;
        }
        self.ticks.skip_to(now);
        self.look_here(now);
        self.look_around(now);
        let is_news = !self.pending.jobs.is_empty() || !self.pending.degraded.is_empty();
        let is_late = self.turn_at.saturating_add(HEARTBEAT) <= now;
        if self.is_first || is_news || is_late || !self.watched.is_empty() {
            self.causes.insert(Cause::Interval);
        }
    }

    /// Whether nobody is left of those that were chosen by number, and nobody else can come.
    fn are_all_gone(&self) -> bool {
        let choice = &self.options.choice;
        let is_gone = |(&pid, &born_ticks): (&u32, &u64)| match self.proc.glance(pid) {
            Ok(glance) => glance.born_ticks != born_ticks || glance.has_ended(),
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        };
        // Before the first turn nobody has been met yet.
        !self.is_first
            && choice.only_pids()
            && self.census.n_named() == 0
            && choice.pids.iter().all(is_gone)
    }

    fn look_here(&mut self, now: Nanos) {
        if let Some(said) = self.here.look("/".as_ref(), &self.proc, now) {
            self.pending.degraded.extend(said);
            self.pending.usable_cpus = Some(self.here.targets());
            self.causes.insert(Cause::CpusChanged);
        }
    }

    /// When something is to be done next. New processes are noticed once an interval; that is what a tick
    /// without jobs is for.
    fn next_deadline(&self) -> Nanos {
        let next = self.ticks.next();
        self.options.time_limit.map_or(next, |limit| next.min(limit))
    }

    fn new_turn(&mut self) -> Turn {
        self.take_memory_news();
        let causes = std::mem::take(&mut self.causes).into_iter().collect();
        let turn = Turn { number: self.n_turns, at: self.wakes.now(), causes };
        self.n_turns += 1;
        self.turn_at = turn.at;
        turn
    }

    /// A job, and the hands that place it.
    fn grasp(&mut self, job: JobId) -> Option<(&mut Hold, Hands<'_>)> {
        let hold = &mut self.watched.get_mut(&job)?.hold;
        let hands = Hands {
            family: &mut self.family,
            undo: &mut self.undo,
            own_cpus: Arc::clone(&self.here.own),
            compared: Arc::clone(&self.here.compared),
            unconfirmed: &mut self.unconfirmed,
            told: &mut self.pending.jobs,
            of_strangers: true,
        };
        Some((hold, hands))
    }

    /// Reads the threads of all jobs.
    fn look(&mut self, turn: &Turn, sample: &mut Sample) {
        let mut look = SampledTasks::default();
        let (watched, own) = (&self.watched, &self.here.own);
        let mask = |job: JobId| match watched.get(&job) {
            Some(watched) => Arc::clone(watched.hold.mask_by_birth()),
            None => Arc::clone(own),
        };
        let interval = self.options.interval;
        let when = SampleTime { at: turn.at, interval, rest_max: THREAD_REST_MAX };
        self.family.sample(when, mask, &mut look);
        sample.tasks.append(&mut look.tasks);
        sample.exited.append(&mut look.exited);
        for job in look.changed_jobs {
            if let Some((hold, mut hands)) = self.grasp(job) {
                hands.check_newcomers(hold);
            }
        }
        for (job, id) in look.masks_to_verify {
            if let Some((hold, mut hands)) = self.grasp(job) {
                hands.verify(hold, id);
            }
        }
        if self.seldom_at <= turn.at {
            self.seldom_at = turn.at + SELDOM;
            confirm(&mut self.undo, &mut self.unconfirmed);
            sample.nodes = self.nodes.look();
            self.look_at_memory(turn.at);
            if let Some(senses) = &mut self.senses {
                senses.sample_pressure(sample);
            }
        }
        self.look_at_loads(sample);
    }

    /// Has memory looked at now and then.
    fn look_at_memory(&mut self, at: Nanos) {
        if self.memory.wants_to_look(at) && !self.watched.is_empty() {
            let jobs = self.watched.keys().copied();
            let said = self.memory.look((&self.wakes, &self.family), jobs, at);
            self.pending.degraded.extend(said);
        }
    }

    /// What loads come from, and once why a task is not counted.
    fn look_at_loads(&mut self, sample: &mut Sample) {
        let Some(senses) = &mut self.senses else { return };
        senses.sample(sample);
        let counting = &mut self.family.counters;
        let refused = counting.refused.take();
        let is_shut_out = std::mem::take(&mut counting.is_shut_out);
        sample.degraded.extend(senses.notes(refused.as_ref(), is_shut_out));
    }

    fn first_words(&mut self, sample: &mut Sample) {
        sample.usable_cpus = Some(self.here.targets());
        let interleaves = mempolicy::own().is_ok_and(|(interleaves, _)| interleaves);
        let numa_balancing = system::numa_balancing("/".as_ref());
        sample.numa_settings = Some(NumaSettings { numa_balancing, interleaves });
        sample.nodes = self.nodes.look();
        sample.degraded.extend(self.here.first_news());
        if let Some(senses) = &mut self.senses {
            senses.sample_pressure(sample);
            senses.sample(sample);
        }
    }

    fn change(&mut self, target: Target, action: &Action) -> Result<OutcomeResult, Refused> {
        if !self.options.act {
            let text = "only watching: nothing is changed without --act".to_owned();
            return Err((RejectCause::DryRun, text));
        }
        if let Action::MovePages { from, to, limit } = action {
            self.move_pages(target, (*from, *to, *limit))?;
            return Ok(OutcomeResult::InProgress);
        }
        self.bind(target, action).map(|n| OutcomeResult::Done { n })
    }

    /// Begins a move of memory.
    fn move_pages(
        &mut self,
        target: Target,
        wish: (Option<NodeId>, NodeId, Bytes),
    ) -> Result<(), Refused> {
        let watched = &self.watched;
        let is_ours = |job: JobId| watched.get(&job).map(|watched| !watched.hold.hands_off);
        self.memory.begin_move((&self.wakes, &mut self.family), is_ours, target, wish, |_| None)
    }

    /// Places, or gives back; tells how many threads that concerned.
    fn bind(&mut self, target: Target, action: &Action) -> Result<u32, Refused> {
        let job = match target {
            Target::Job(job) => job,
            Target::Task(task) => self.family.job_of_task(task).ok_or_else(not_running)?,
        };
        if (matches!(target, Target::Job(_)), action) == (true, &Action::Release) {
            return Ok(self.release(job));
        }
        let now_ticks = self.boot_ticks();
        if let (Action::Place(_), Some(watched)) = (action, self.watched.get_mut(&job)) {
            // From now on what it starts may have a mask of ours.
            watched.placed_ticks.get_or_insert(now_ticks);
            self.memory.look_anew(job);
        }
        let (hold, mut hands) = self.grasp(job).ok_or_else(not_running)?;
        match (target, action) {
            (Target::Job(_), Action::Place(cpus)) => hands.place(hold, cpus),
            (Target::Task(task), Action::Place(cpus)) => hands.place_task(hold, task, Some(cpus)),
            (Target::Task(task), Action::Release) => hands.place_task(hold, task, None),
            (_, Action::Release | Action::MemoryPolicy(_) | Action::MovePages { .. }) => Err((
                RejectCause::AlreadyStarted,
                "it runs already: its pages lie where they lie".to_owned(),
            )),
        }
    }

    /// Now, as births of processes are told: in clock ticks since boot.
    fn boot_ticks(&self) -> u64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let (secs, nanos) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
        secs * self.tick_hz + nanos * self.tick_hz / 1_000_000_000
    }

    /// Puts back everything that still lives and removes the undo record.
    fn put_back(&mut self) {
        let jobs: Vec<JobId> = self.watched.keys().copied().collect();
        for &job in &jobs {
            self.release(job);
        }
        let was_placed = |watched: &&Watched| watched.hold.was_ever_placed();
        let placed = self.watched.values().filter(was_placed).map(|watched| watched.hold.pid);
        let parents = placed.chain(self.late.iter().map(|(_, given)| given.parent()));
        let longest = fork_latency::max_fork_latency("/".as_ref(), parents);
        let until = Instant::now() + longest;
        while Instant::now() < until {
            std::thread::sleep(fork_latency::POLL_INTERVAL); // The only time that we wait here: everything is over.
            self.release_late(Nanos::ZERO);
            for &job in &jobs {
                if let Some((hold, mut hands)) = self.grasp(job) {
                    hands.release_late(hold);
                }
            }
        }
        if let Ok(log) = std::mem::replace(&mut self.undo, Err("watching is over".to_owned())) {
            self.is_record_kept = log.is_kept();
            // If it cannot be removed, the next start finds it and sees that nothing is left to do.
            let _ = log.remove();
        }
    }
}

/// The undo record, and what became of those that killed runs left; only if we may act.
fn undo_for(
    options: &WatchOptions,
    run: &str,
) -> Result<(Result<Log, String>, Restored), WatchError> {
    if !options.act {
        return Ok((Err("only watching".to_owned()), Restored::default()));
    }
    let places = options.undo_folders.clone().unwrap_or_else(undo::folders);
    let restored = undo::restore(&places, false);
    let log = Log::create_watching(run.to_owned(), &places);
    let log = log.map_err(|error| WatchError::NoUndo(in_one_line(&error)))?;
    Ok((Ok(log), restored))
}

impl Host for WatchHost {
    type Error = LiveError;

    fn wait(&mut self) -> Result<Option<Turn>, LiveError> {
        loop {
            if self.stop == Stop::Told && self.causes.is_empty() && !self.memory.is_moving() {
                self.put_back();
                return Ok(None);
            }
            self.take_due();
            if !self.causes.is_empty() {
                return Ok(Some(self.new_turn()));
            }
            let until = match self.stop {
                Stop::Told => None, // The helper tells how its moves ended, which is all that is left.
                _ => Some(self.next_deadline()),
            };
            self.wakes.wait(until, &mut self.woken)?;
            self.take_wakes();
        }
    }

    fn sample(&mut self, turn: &Turn) -> Result<Sample, LiveError> {
        let mut sample = std::mem::take(&mut self.pending);
        if std::mem::take(&mut self.is_first) {
            self.first_words(&mut sample);
        }
        if turn.causes.contains(&Cause::Interval) {
            self.look(turn, &mut sample);
            // What the look itself had to say.
            sample.merge_events(std::mem::take(&mut self.pending));
        }
        for event in &sample.jobs {
            if let JobEvent::Unmanaged(job, _) = event {
                self.memory.stop_moves_of(*job, PageMoveEnd::Stopped);
            }
        }
        // Numbers of jobs that left are free once the engine has been told.
        self.free_jobs.extend(self.freed.drain(..));
        Ok(sample)
    }

    fn apply(&mut self, plan: &Approved) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(plan.requests().len());
        for ask in plan.requests() {
            let result = match self.change(ask.target, &ask.action) {
                Ok(result) => result,
                Err((why, detail)) => OutcomeResult::Rejected { cause: why, detail },
            };
            outcomes.push(Outcome { target: ask.target, action: Some(ask.action.clone()), result });
        }
        self.show(!outcomes.is_empty());
        outcomes
    }

    fn stop(&mut self) {
        self.was_stopped = true;
        self.ask_to_stop();
    }
}

impl Drop for WatchHost {
    fn drop(&mut self) {
        self.memory.end();
        self.put_back();
        system::lower_descriptors(self.limit);
    }
}

/// Whether somebody began or ceased to be looked after.
fn is_coming_or_going(event: &JobEvent) -> bool {
    matches!(event, JobEvent::Attached(_) | JobEvent::Detached(..))
}
