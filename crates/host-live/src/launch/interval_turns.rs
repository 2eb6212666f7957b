//! Interval turns that wait for a counter overflow, for policies that request them.
//!
//! ```text
//!   interval end  |     |     |     |     |  …  |     multiples of the interval, over two seconds
//!   overflow         ×           ×
//!   turn          |     |           |           |     first interval end after an overflow, or after two seconds
//! ```
//!
//! If permitted, the counters count whole CPUs, including other programs and evenkeel. Otherwise the counters count
//! each known thread of the jobs; a new thread is counted from the next turn on. If the kernel rejects a counter later,
//! the loop falls back to a turn at every interval end.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use base::{CpuId, CpuSet, Nanos, TaskId};
use linux::collectors::{counting_rights, identity_of};
use linux::perf::{self, Attr, CounterScope, CounterTarget, Flags, OverflowCounters};
use linux::source::{Live, text};
use linux::tasks::{DescriptorReservation, TaskReader};
use sched::{CounterEvent, Wake};

use crate::session::{IntervalEnds, Session, Wakeups};

/// Maximum time between two interval turns.
pub(super) const TURN_EVERY_MAX: Nanos = Nanos::from_secs(2);

/// Counters that cause an interval turn when they overflow.
#[derive(Debug)]
pub(super) struct Overflow {
    event: CounterEvent,
    counters: OverflowCounters,
    targets: CountedTargets,
    /// Whether the ring buffers have to be read before the loop waits.
    is_unread: bool,
    /// The first interval end after an overflow, if a counter overflowed.
    due: Option<Nanos>,
    /// Time of the last interval turn.
    last_turn: Nanos,
    /// `perf_event_paranoid` at the start, for error messages.
    paranoid: Option<i32>,
}

/// The CPUs or threads that are counted, with the attributes of the event.
#[derive(Debug)]
enum CountedTargets {
    Cpus(Vec<Attr>, CpuSet),
    Threads(Vec<Attr>, BTreeMap<TaskId, DescriptorReservation>),
}

impl Overflow {
    /// Opens the counters that a policy requests. Returns `None` if the policy requests a turn at every
    /// interval end.
    ///
    /// # Errors
    /// The reason for the fallback to a turn at every interval end.
    pub(super) fn open(
        wake: Wake,
        cpus: &CpuSet,
        wakeups: &Wakeups,
    ) -> Result<Option<Self>, String> {
        let Wake::Overflow { event, every } = wake else { return Ok(None) };
        let opened = match Overflow::open_for_cpus(event, every, cpus) {
            Ok(overflow) => Ok(overflow),
            Err((_, is_permission)) if is_permission => Overflow::open_for_threads(event, every),
            Err((cause, _)) => Err(cause),
        };
        let overflow = opened.map_err(|cause| fallback(event, &cause))?;
        wakeups
            .watch_overflows(&overflow.counters)
            .map_err(|error| fallback(event, &error.to_string()))?;
        Ok(Some(overflow))
    }

    /// Opens counters of whole CPUs. The flag of the error is set if only the permission for whole CPUs is missing. In
    /// this case counters of threads may be permitted.
    fn open_for_cpus(
        event: CounterEvent,
        every: u64,
        cpus: &CpuSet,
    ) -> Result<Self, (String, bool)> {
        let mut source = Live::new("/".as_ref());
        let attrs = attrs(&mut source, event, Flags::default()).map_err(|cause| (cause, false))?;
        let targets = CountedTargets::Cpus(attrs, CpuSet::default());
        let mut overflow =
            Overflow::new(&mut source, event, every, targets).map_err(|cause| (cause, false))?;
        match overflow.follow_cpus(cpus) {
            Ok(()) => Ok(overflow),
            Err(error) => {
                let is_permission =
                    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM));
                Err((overflow.explain(&error, CounterScope::Cpu), is_permission))
            }
        }
    }

    /// Prepares counters of threads. Opens a counter of the calling thread as a test.
    fn open_for_threads(event: CounterEvent, every: u64) -> Result<Self, String> {
        let mut source = Live::new("/".as_ref());
        let flags = counting_rights(&mut source)?;
        let attrs = attrs(&mut source, event, flags)?;
        let targets = CountedTargets::Threads(attrs.clone(), BTreeMap::new());
        let mut overflow = Overflow::new(&mut source, event, every, targets)?;
        let tried = overflow.counters.add(&attrs, CounterTarget::Task(0));
        tried.map_err(|error| overflow.explain(&error, CounterScope::Task))?;
        overflow.counters.retain(|_| false);
        Ok(overflow)
    }

    fn new(
        source: &mut Live,
        event: CounterEvent,
        every: u64,
        targets: CountedTargets,
    ) -> Result<Self, String> {
        let counters = OverflowCounters::new(every).map_err(|error| error.to_string())?;
        Ok(Overflow {
            event,
            counters,
            targets,
            is_unread: false,
            due: None,
            last_turn: Nanos::ZERO,
            paranoid: paranoid(source),
        })
    }

    pub(super) fn is_due(&self) -> bool {
        self.due.is_some()
    }

    /// Returns the time of the next interval turn if no counter overflows earlier.
    pub(super) fn next_interval_end(&self, interval_ends: &IntervalEnds) -> Nanos {
        self.due.unwrap_or_else(|| interval_ends.at_or_before(self.last_turn + TURN_EVERY_MAX))
    }

    fn woken(&mut self, wakeups: &Wakeups) -> io::Result<()> {
        self.is_unread = true;
        if self.counters.any_overflowed() {
            return Ok(());
        }
        // Without an overflow, the exit of a counted thread caused the event.
        self.counters.rearm().and(wakeups.watch_overflows(&self.counters))
    }

    /// Makes the next interval end due if a counter has overflowed.
    fn check(&mut self, now: Nanos, interval_ends: &IntervalEnds) {
        let is_unread = std::mem::take(&mut self.is_unread);
        if is_unread && self.due.is_none() && self.counters.any_overflowed() {
            self.due = Some(interval_ends.at_or_after(now));
        }
    }

    /// Arms the counters again, at the end of an interval turn.
    fn rearm(&mut self, at: Nanos, wakeups: &Wakeups) -> io::Result<()> {
        (self.due, self.last_turn) = (None, at);
        // The ring buffers are read once more: an overflow before the counters were armed causes no further wake-up.
        self.is_unread = true;
        self.counters.rearm().and(wakeups.watch_overflows(&self.counters))
    }

    /// Adds counters for new CPUs or threads, and removes the counters of offline CPUs and exited threads.
    fn follow(&mut self, cpus: &CpuSet, tasks: &TaskReader) -> Result<(), String> {
        let scope = match self.targets {
            CountedTargets::Cpus(..) => CounterScope::Cpu,
            CountedTargets::Threads(..) => CounterScope::Task,
        };
        let followed = match scope {
            CounterScope::Cpu => self.follow_cpus(cpus),
            CounterScope::Task => self.follow_threads(tasks),
        };
        followed.map_err(|error| self.explain(&error, scope))
    }

    /// Returns the message of an error. If the error has an error number, the message contains the remedy.
    fn explain(&self, error: &io::Error, scope: CounterScope) -> String {
        match error.raw_os_error() {
            Some(_) => perf::explain_open_error(error, self.paranoid, scope),
            None => error.to_string(),
        }
    }

    fn follow_cpus(&mut self, cpus: &CpuSet) -> io::Result<()> {
        let CountedTargets::Cpus(attrs, known) = &mut self.targets else { return Ok(()) };
        if known == cpus {
            return Ok(());
        }
        let is_left =
            |target| matches!(target, CounterTarget::Cpu(cpu) if cpus.contains(CpuId(cpu)));
        self.counters.retain(is_left);
        for cpu in cpus.iter() {
            match self.counters.add(attrs, CounterTarget::Cpu(cpu.0)) {
                // The CPU went offline after the mask was read.
                Err(error) if is_offline(&error) && !self.counters.is_empty() => {}
                added => added?,
            }
        }
        *known = cpus.clone();
        Ok(())
    }

    fn follow_threads(&mut self, tasks: &TaskReader) -> io::Result<()> {
        let CountedTargets::Threads(attrs, known) = &mut self.targets else { return Ok(()) };
        let running: BTreeSet<TaskId> = tasks.thread_ids().collect();
        let mut exited: Vec<u32> = Vec::new();
        known.retain(|id, _| {
            let is_running = running.contains(id);
            exited.extend((!is_running).then_some(id.tid));
            is_running
        });
        // The TID may have been reused, so the counter of the exited thread is removed.
        self.counters.retain(|it| !matches!(it, CounterTarget::Task(tid) if exited.contains(&tid)));
        for id in running {
            if known.contains_key(&id) {
                continue;
            }
            let none_left = || io::Error::from_raw_os_error(libc::EMFILE);
            let held = tasks.files.descriptors.reserve(attrs.len()).ok_or_else(none_left)?;
            match self.counters.add(attrs, CounterTarget::Task(id.tid)) {
                Err(error) if error.raw_os_error() == Some(perf::TASK_EXITED) => {}
                added => {
                    added?;
                    known.insert(id, held);
                }
            }
        }
        Ok(())
    }
}

/// Schedule of interval turns: at every interval end, or at the first interval end after an
/// overflow.
pub(super) struct IntervalTurns {
    /// Interval ends; `None` if the policy has no interval.
    interval_ends: Option<IntervalEnds>,
    /// Counters of overflows; `None` if there is a turn at every interval end.
    pub(super) overflow: Option<Overflow>,
    /// Whether interval ends are skipped: the last sample contained no load data, and the plan is
    /// quiescent.
    is_quiescent: bool,
    /// Time of the next turn if interval ends are skipped and no thread is due earlier.
    quiescent_until: Nanos,
}

impl IntervalTurns {
    pub(super) fn new(interval: Option<Nanos>, overflow: Option<Overflow>) -> Self {
        let (interval_ends, quiescent_until) = (interval.map(IntervalEnds::new), TURN_EVERY_MAX);
        IntervalTurns { interval_ends, overflow, is_quiescent: false, quiescent_until }
    }

    /// Returns the time of the next interval turn while jobs run.
    ///
    /// If no thread ran since the last turn and the policy is quiescent, interval ends are skipped until a thread has
    /// to be sampled again. With overflows, interval ends are skipped until a counter overflows. In both cases
    /// [`TURN_EVERY_MAX`] is the limit.
    pub(super) fn next(&self, tasks: &TaskReader) -> Option<Nanos> {
        let interval_ends = self.interval_ends.as_ref()?;
        if let Some(overflow) = &self.overflow {
            return Some(overflow.next_interval_end(interval_ends));
        }
        if !self.is_quiescent {
            return Some(interval_ends.next());
        }
        let sample_at = tasks.next_sample_at().unwrap_or(self.quiescent_until);
        Some(interval_ends.around(sample_at.min(self.quiescent_until)))
    }

    /// Returns `None` if no interval turn is due, otherwise whether an overflow is the cause. Skips missed
    /// interval ends.
    pub(super) fn take_due(
        &mut self,
        now: Nanos,
        any_running: bool,
        tasks: &TaskReader,
    ) -> Option<bool> {
        if let (Some(overflow), Some(interval_ends)) = (&mut self.overflow, &self.interval_ends) {
            overflow.check(now, interval_ends);
        }
        let is_due = any_running && self.next(tasks).is_some_and(|end| end <= now);
        let interval_ends = self.interval_ends.as_mut()?;
        if is_due || !any_running {
            interval_ends.skip_to(now);
        }
        is_due.then(|| self.overflow.as_ref().is_some_and(Overflow::is_due))
    }

    /// Records the time of a turn. The maximum time without a turn starts at this time.
    pub(super) fn had_turn(&mut self, at: Nanos) {
        self.quiescent_until = at + TURN_EVERY_MAX;
    }

    pub(super) fn set_quiescent(&mut self, is_quiescent: bool) {
        self.is_quiescent = is_quiescent;
    }

    pub(super) fn woken(&mut self, session: &mut Session) {
        let Some(overflow) = &mut self.overflow else { return };
        if let Err(error) = overflow.woken(&session.wakeups) {
            self.fall_back(session, &error.to_string());
        }
    }

    /// Updates the counted threads and CPUs.
    pub(super) fn follow(&mut self, session: &mut Session) {
        let Some(overflow) = &mut self.overflow else { return };
        if let Err(cause) = overflow.follow(&session.cpus.own, &session.tasks) {
            self.fall_back(session, &cause);
        }
    }

    /// Arms the counters again, at the end of an interval turn.
    pub(super) fn rearm(&mut self, session: &mut Session, at: Nanos) {
        self.follow(session);
        let Some(overflow) = &mut self.overflow else { return };
        if let Err(error) = overflow.rearm(at, &session.wakeups) {
            self.fall_back(session, &error.to_string());
        }
    }

    fn fall_back(&mut self, session: &mut Session, cause: &str) {
        if let Some(overflow) = self.overflow.take() {
            session.warn(fallback(overflow.event, cause));
        }
    }
}

/// Returns the warning of the fallback to a turn at every interval end.
fn fallback(event: CounterEvent, cause: &str) -> String {
    format!("polling in every interval: overflows of {} cannot be counted: {cause}", event.name())
}

/// Returns the attributes of an event, one for each core kind.
fn attrs(source: &mut Live, event: CounterEvent, flags: Flags) -> Result<Vec<Attr>, String> {
    let identity = identity_of(source);
    let mut choice = linux::pmu::choose(source, &identity, flags);
    choice.chosen.push(perf::software(flags));
    let all = choice.chosen.iter().flat_map(|chosen| chosen.groups.iter().flatten());
    let attrs: Vec<Attr> = all.filter(|(of, _)| *of == event).map(|(_, attr)| *attr).collect();
    if attrs.is_empty() {
        let hint = "it is counted in kernel mode only: set perf_event_paranoid to 1 or less, or give \
                    CAP_PERFMON";
        return Err(choice.absent.remove(&event).unwrap_or_else(|| hint.to_owned()));
    }
    Ok(attrs)
}

fn paranoid(source: &mut Live) -> Option<i32> {
    text(source, "proc/sys/kernel/perf_event_paranoid").ok()?.parse().ok()
}

fn is_offline(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENODEV)
}

#[cfg(test)]
mod tests;
