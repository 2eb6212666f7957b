//! Timed events of a run, as time since its start.

use std::collections::BTreeSet;

use base::{JobId, Nanos};
use linux::tasks::KeptFile;

use crate::session::Session;

/// Period at which processes without a pidfd are polled.
pub(super) const POLL_EVERY: Nanos = Nanos::from_millis(100);

/// An event that is due at an instant. Events of the same instant are handled in the order of the variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TimedEvent {
    /// A job starts.
    Start(JobId),
    /// A run of a job (with this number) has reached the time limit in the workload.
    StopAfter(JobId, u32),
    /// Every process with an exit request of `requested_at` or earlier is killed.
    Kill { requested_at: Nanos },
    /// The exit of a run of a job (with this number) is handled.
    TakeExit(JobId, u32),
    /// Processes without a pidfd are polled for their exit.
    PollExits,
    /// Orphans whose job could not be read are read again.
    TakeOrphans,
    /// The run has reached its time limit.
    TimeLimit,
}

/// All timed events, earliest first.
#[derive(Debug, Default)]
pub(super) struct TimerQueue {
    events: BTreeSet<(Nanos, TimedEvent)>,
}

impl TimerQueue {
    pub(super) fn add(&mut self, at: Nanos, item: TimedEvent) {
        self.events.insert((at, item));
    }

    pub(super) fn take_due(&mut self, now: Nanos) -> Option<TimedEvent> {
        let (at, _) = self.events.first()?;
        (*at <= now).then(|| self.events.pop_first().map(|(_, item)| item))?
    }

    pub(super) fn next(&self) -> Option<Nanos> {
        self.events.first().map(|(at, _)| *at)
    }

    /// Registers a wake-up at the exit of a process. If no descriptor is free, the process is polled.
    pub(super) fn watch_exit(&mut self, session: &mut Session, pid: u32) -> Option<KeptFile> {
        let pidfd = session.watch_exit(pid);
        if pidfd.is_none() {
            session.warn_once(
                "no descriptor is left to be notified of the exit of some jobs: they are polled ten \
                 times a second; raise the hard limit (ulimit -Hn)",
            );
            self.add(session.now() + POLL_EVERY, TimedEvent::PollExits);
        }
        pidfd
    }

    pub(super) fn remove(&mut self, unwanted: impl Fn(&TimedEvent) -> bool) {
        self.events.retain(|(_, item)| !unwanted(item));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_due_in_order_of_time_and_not_before() {
        let mut timers = TimerQueue::default();
        let start = |number| TimedEvent::Start(JobId(number));
        timers.add(Nanos(20), start(1));
        timers.add(Nanos(10), start(3));
        timers.add(Nanos(10), start(2));
        assert_eq!(timers.take_due(Nanos(9)), None);
        assert_eq!(timers.take_due(Nanos(10)), Some(start(2)));
        assert_eq!(timers.take_due(Nanos(10)), Some(start(3)));
        assert_eq!((timers.take_due(Nanos(10)), timers.next()), (None, Some(Nanos(20))));
    }
}
