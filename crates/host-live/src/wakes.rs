//! What wakes us: one timer, the ends of processes, signals, and counters that overflow where they are
//! waited for, all as descriptors of one epoll.
//!
//! Nothing here spins and nothing runs in a signal handler. The timer is armed for an instant, not
//! for a length of time, so that turns do not drift.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use base::Nanos;
use linux::fault;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{Timespec, epoll};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, clock_gettime,
    timerfd_create, timerfd_settime,
};

use crate::LiveError;

/// Why we woke up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// Somebody wants the run to stop.
    Stop,
    /// Somebody does not want to wait for it.
    StopAtOnce,
    /// The process with this number has ended.
    Ended(u32),
    /// The helper thread has something to tell.
    Helper,
    /// A counter may have overflowed. It is not told again until [`Wakes::watch_overflows`].
    Overflow,
}

const TIMER: u64 = u64::MAX;
const SIGNAL: u64 = u64::MAX - 1;
const HELPER: u64 = u64::MAX - 2;
const OVERFLOW: u64 = u64::MAX - 3;

/// Waits for everything at once.
pub(crate) struct Wakes {
    epoll: OwnedFd,
    timer: OwnedFd,
    armed: Option<Nanos>,
    signals: Option<Signals>,
    start: Option<Nanos>,
    events: Vec<epoll::Event>,
}

/// Signals that are read instead of being handled; given back when this is dropped.
#[derive(Debug)]
struct Signals {
    file: SignalFd,
    mask_before: SigSet,
    asked: Asked,
}

/// Whether an interrupt, a termination or a quit has been seen.
#[derive(Debug, Default)]
struct Asked(bool);

impl Wakes {
    pub(crate) fn new(takes_signals: bool) -> Result<Self, LiveError> {
        let refuse = |what| move |source: rustix::io::Errno| events_error(what, source.into());
        let begin = |what| move |source: io::Error| events_error(what, source);
        fault::refuse("epoll_create1").map_err(begin("epoll"))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(refuse("epoll"))?;
        fault::refuse("timerfd_create").map_err(begin("timer"))?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).map_err(refuse("timer"))?;
        // Edge-triggered: arming the timer anew takes the expiry back, so nobody has to read it.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        add(&epoll, &timer, TIMER, flags).map_err(refuse("timer"))?;
        let signals = takes_signals.then(Signals::take).transpose()?;
        if let Some(signals) = &signals {
            add(&epoll, &signals.file, SIGNAL, epoll::EventFlags::IN).map_err(refuse("signals"))?;
        }
        let events = Vec::with_capacity(256);
        Ok(Wakes { epoll, timer, armed: None, signals, start: None, events })
    }

    /// Time since this was asked for the first time, which is the start of the run.
    pub(crate) fn now(&mut self) -> Nanos {
        let now = monotonic();
        now.saturating_sub(*self.start.get_or_insert(now))
    }

    /// Wakes us when a process ends, once.
    pub(crate) fn watch(&self, process: impl AsFd, pid: u32) -> io::Result<()> {
        fault::refuse("epoll_ctl")?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        Ok(add(&self.epoll, process, u64::from(pid), flags)?)
    }

    /// Wakes us each time the helper thread writes to its counter, which nobody has to read.
    pub(crate) fn watch_helper(&self, counter: impl AsFd) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        Ok(add(&self.epoll, counter, HELPER, flags)?)
    }

    /// Wakes us once when a counter of this set overflows, however many do.
    pub(crate) fn watch_overflows(&self, set: impl AsFd) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        match add(&self.epoll, &set, OVERFLOW, flags) {
            Err(rustix::io::Errno::EXIST) => {
                Ok(epoll::modify(&self.epoll, set, epoll::EventData::new_u64(OVERFLOW), flags)?)
            }
            result => Ok(result?),
        }
    }

    /// Takes a process out before its descriptor is closed: a child between fork and exec may still
    /// hold a copy, and would keep it in.
    pub(crate) fn unwatch(&self, process: impl AsFd) {
        let _ = epoll::delete(&self.epoll, process);
    }

    /// Waits for events until an instant, and adds them. With `None` it waits for as long as it takes.
    pub(crate) fn wait(
        &mut self,
        until: Option<Nanos>,
        woken: &mut Vec<Wake>,
    ) -> Result<(), LiveError> {
        self.arm(until)?;
        self.take_events(None, woken)
    }

    /// Adds the events that are there already.
    pub(crate) fn poll(&mut self, woken: &mut Vec<Wake>) -> Result<(), LiveError> {
        self.take_events(Some(&Timespec { tv_sec: 0, tv_nsec: 0 }), woken)
    }

    fn take_events(
        &mut self,
        timeout: Option<&Timespec>,
        woken: &mut Vec<Wake>,
    ) -> Result<(), LiveError> {
        self.events.clear();
        let room = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, room, timeout) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(events_error("epoll", error.into())),
        }
        for event in &self.events {
            match event.data.u64() {
                TIMER => self.armed = None,
                SIGNAL => {
                    woken.extend(self.signals.as_mut().and_then(Signals::drain));
                }
                HELPER => woken.push(Wake::Helper),
                OVERFLOW => woken.push(Wake::Overflow),
                pid => woken.extend(u32::try_from(pid).ok().map(Wake::Ended)),
            }
        }
        Ok(())
    }

    fn arm(&mut self, until: Option<Nanos>) -> Result<(), LiveError> {
        if until == self.armed {
            return Ok(());
        }
        // An instant that has passed must not read as zero, which would disarm the timer.
        let start = self.start.unwrap_or_default();
        let at = until.map_or(Nanos::ZERO, |until| Nanos(start.saturating_add(until).0.max(1)));
        let once = Itimerspec { it_interval: timespec(Nanos::ZERO), it_value: timespec(at) };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once)
            .map_err(|error| events_error("timer", error.into()))?;
        self.armed = until;
        Ok(())
    }
}

/// Signals that end a run in order.
const ENDING: [Signal; 8] = [
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGXCPU,
    Signal::SIGXFSZ,
];

impl Signals {
    /// Interrupt, quit, termination and hang-up, and what else would end us on the spot and leave behind
    /// what was changed (USR1, USR2, and the limits of CPU time and file size), except those that whoever started us wants ignored:
    /// a blocked signal would reach us even so, and `nohup` would be broken.
    fn take() -> Result<Self, LiveError> {
        let refuse = |error: nix::Error| events_error("signals", error.into());
        let mut wanted = SigSet::empty();
        for signal in ENDING {
            if !linux::system::is_ignored(signal as i32) {
                wanted.add(signal);
            }
        }
        let mask_before = SigSet::thread_get_mask().map_err(refuse)?;
        wanted.thread_block().map_err(refuse)?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let file = SignalFd::with_flags(&wanted, flags).map_err(refuse)?;
        Ok(Signals { file, mask_before, asked: Asked::default() })
    }

    fn drain(&mut self) -> Option<Wake> {
        let next = || self.file.read_signal().ok().flatten();
        let numbers: Vec<u32> = std::iter::from_fn(next).map(|read| read.ssi_signo).collect();
        self.asked.take(&numbers)
    }
}

impl Asked {
    /// What signals that came together mean. A service manager sends TERM and HUP at once, and a
    /// terminal that closes sends HUP: only a person says INT, QUIT or TERM a second time.
    fn take(&mut self, numbers: &[u32]) -> Option<Wake> {
        let hang_up = (Signal::SIGHUP as i32).cast_unsigned();
        let asks = numbers.iter().any(|&number| number != hang_up);
        let asked_before = self.0;
        self.0 |= asks;
        match asked_before && asks {
            true => Some(Wake::StopAtOnce),
            false => (!numbers.is_empty()).then_some(Wake::Stop),
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.drain(); // Whatever came last was meant for the run, which is over.
        let _ = self.mask_before.thread_set_mask();
    }
}

fn add(
    epoll: &OwnedFd,
    file: impl AsFd,
    data: u64,
    flags: epoll::EventFlags,
) -> rustix::io::Result<()> {
    epoll::add(epoll, file, epoll::EventData::new_u64(data), flags)
}

fn events_error(what: &'static str, source: io::Error) -> LiveError {
    LiveError::Events { what, source }
}

/// The clock that only goes forward, in nanoseconds since some instant.
fn monotonic() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    Nanos(now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs())
}

fn timespec(at: Nanos) -> Timespec {
    let whole = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    Timespec { tv_sec: whole(at.0 / 1_000_000_000), tv_nsec: whole(at.0 % 1_000_000_000) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Batches of signals between bars, and what each means.
    fn check(batches: &str, expected: &str) {
        let mut asked = Asked::default();
        let number = |name: &str| {
            let signal: Signal = format!("SIG{name}").parse().expect("a signal");
            (signal as i32).cast_unsigned()
        };
        let mut means = |batch: &str| {
            let numbers: Vec<u32> = batch.split_whitespace().map(number).collect();
            match asked.take(&numbers) {
                Some(Wake::StopAtOnce) => "at-once",
                Some(_) => "stop",
                None => "-",
            }
        };
        let means: Vec<&str> = batches.split('|').map(&mut means).collect();
        assert_eq!(means.join(" "), expected, "{batches}");
    }

    #[test]
    fn only_who_asks_a_second_time_does_not_want_to_wait() {
        check("INT | INT", "stop at-once");
        check("TERM | QUIT | INT", "stop at-once at-once");
        check("", "-");
    }

    #[test]
    fn signals_that_come_together_and_hang_ups_ask_once() {
        check("TERM HUP", "stop");
        check("TERM TERM INT", "stop");
        check("TERM | HUP | HUP", "stop stop stop");
        check("HUP | TERM", "stop stop");
    }
}
