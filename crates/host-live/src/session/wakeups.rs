//! Wake-ups of the event loop: one timer, process exits, POSIX signals, counter overflows, and the console of a view.
//! Each source is a descriptor of one epoll instance.
//!
//! The loop sleeps until an event occurs. There are no signal handlers. The timer is armed for an absolute time, so
//! turns do not drift.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use base::Nanos;
use linux::fault;
use linux::stop_signals::{self, StopSignals};
use rustix::event::{Timespec, epoll};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, clock_gettime,
    timerfd_create, timerfd_settime,
};

use crate::LiveError;

/// Cause of a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wakeup {
    /// A signal requests the end of the run.
    Stop,
    /// A second signal requests the end of the run without a grace period.
    ImmediateStop,
    /// SIGHUP requests that the configuration is read again.
    Reload,
    /// The process with this PID has exited.
    Exited(u32),
    /// The helper thread has sent a result.
    Helper,
    /// A counter may have overflowed. The wake-up is sent once per call of [`Wakeups::watch_overflows`].
    Overflow,
}

const TIMER: u64 = u64::MAX;
const SIGNAL: u64 = u64::MAX - 1;
const HELPER: u64 = u64::MAX - 2;
const OVERFLOW: u64 = u64::MAX - 3;
const CONSOLE: u64 = u64::MAX - 4;

/// The keys and the timer of a full-screen view. The event loop of a host polls the descriptor and calls the handler
/// when it is readable. A wake-up causes no turn.
pub struct Console {
    descriptor: OwnedFd,
    handler: Box<dyn FnMut(Nanos) -> bool>,
}

impl Console {
    /// Creates a console. The argument of the handler is the time since the start of the run. The handler returns
    /// whether the user requests the end of the run, which has the effect of SIGINT.
    pub fn new(descriptor: OwnedFd, handler: impl FnMut(Nanos) -> bool + 'static) -> Self {
        Console { descriptor, handler: Box::new(handler) }
    }
}

/// An epoll instance with all its sources.
pub(crate) struct Wakeups {
    epoll: OwnedFd,
    timer: OwnedFd,
    armed: Option<Nanos>,
    signals: Option<SignalReader>,
    console: Option<Console>,
    start: Option<Nanos>,
    events: Vec<epoll::Event>,
}

/// Signals that are blocked and read through a signalfd.
#[derive(Debug)]
struct SignalReader {
    signals: StopSignals,
    requests: StopRequests,
    /// Name of the first received signal other than INT, QUIT, TERM and HUP.
    unusual: Option<String>,
}

/// The requests of signals.
#[derive(Debug, Default)]
struct StopRequests {
    /// Whether INT, QUIT or TERM has been received.
    was_requested: bool,
    /// Whether SIGHUP is a request to read the configuration again.
    reloads: bool,
}

impl Wakeups {
    /// Creates the epoll instance. With `reloads`, SIGHUP alone is [`Wakeup::Reload`].
    pub(crate) fn new(takes_signals: bool, reloads: bool) -> Result<Self, LiveError> {
        let kernel_error =
            |facility| move |source: rustix::io::Errno| events_error(facility, source.into());
        let io_error = |facility| move |source: io::Error| events_error(facility, source);
        fault::inject("epoll_create1").map_err(io_error("epoll"))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(kernel_error("epoll"))?;
        fault::inject("timerfd_create").map_err(io_error("timer"))?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, flags).map_err(kernel_error("timer"))?;
        // Edge-triggered: arming the timer again clears the expiration, so the timer is never read.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        add(&epoll, &timer, TIMER, flags).map_err(kernel_error("timer"))?;
        let signals = takes_signals.then(|| SignalReader::take(reloads)).transpose()?;
        if let Some(signals) = &signals {
            add(&epoll, &signals.signals, SIGNAL, epoll::EventFlags::IN)
                .map_err(kernel_error("signals"))?;
        }
        let events = Vec::with_capacity(256);
        Ok(Wakeups { epoll, timer, armed: None, signals, console: None, start: None, events })
    }

    /// Adds the console.
    pub(crate) fn add_console(&mut self, console: Console) -> io::Result<()> {
        add(&self.epoll, &console.descriptor, CONSOLE, epoll::EventFlags::IN)?;
        self.console = Some(console);
        Ok(())
    }

    /// Returns the time since the first call, which is the start of the run.
    pub(crate) fn now(&mut self) -> Nanos {
        let now = monotonic();
        now.saturating_sub(*self.start.get_or_insert(now))
    }

    /// Returns the name of the first received stop signal other than INT, QUIT, TERM and HUP.
    pub(crate) fn unusual_signal(&self) -> Option<&str> {
        self.signals.as_ref()?.unusual.as_deref()
    }

    /// Returns whether a stop signal is pending. The signal stays pending.
    pub(crate) fn is_stop_requested(&self) -> bool {
        self.signals.as_ref().is_some_and(|reader| reader.signals.is_pending())
    }

    /// Adds a process. The exit of the process wakes the loop once.
    pub(crate) fn watch(&self, process: impl AsFd, pid: u32) -> io::Result<()> {
        fault::inject("epoll_ctl")?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        Ok(add(&self.epoll, process, u64::from(pid), flags)?)
    }

    /// Adds the eventfd of the helper thread. Each write wakes the loop; the eventfd is never read.
    pub(crate) fn watch_helper(&self, counter: impl AsFd) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        Ok(add(&self.epoll, counter, HELPER, flags)?)
    }

    /// Adds a set of counters. The first overflow of a counter wakes the loop once.
    pub(crate) fn watch_overflows(&self, set: impl AsFd) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        match add(&self.epoll, &set, OVERFLOW, flags) {
            Err(rustix::io::Errno::EXIST) => {
                Ok(epoll::modify(&self.epoll, set, epoll::EventData::new_u64(OVERFLOW), flags)?)
            }
            result => Ok(result?),
        }
    }

    /// Removes a process. Call this function before the descriptor of the process is closed: a child between fork and
    /// exec may have a copy, which would keep the descriptor in the epoll instance.
    pub(crate) fn unwatch(&self, process: impl AsFd) {
        let _ = epoll::delete(&self.epoll, process);
    }

    /// Waits for events until an instant (`None`: without a limit), and appends the wake-ups.
    pub(crate) fn wait(
        &mut self,
        until: Option<Nanos>,
        woken: &mut Vec<Wakeup>,
    ) -> Result<(), LiveError> {
        self.arm(until)?;
        self.take_events(None, woken)
    }

    /// Appends the pending events without waiting.
    pub(crate) fn poll(&mut self, woken: &mut Vec<Wakeup>) -> Result<(), LiveError> {
        self.take_events(Some(&Timespec { tv_sec: 0, tv_nsec: 0 }), woken)
    }

    fn take_events(
        &mut self,
        timeout: Option<&Timespec>,
        woken: &mut Vec<Wakeup>,
    ) -> Result<(), LiveError> {
        self.events.clear();
        let buffer = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, buffer, timeout) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(events_error("epoll", error.into())),
        }
        let mut is_console_ready = false;
        for event in &self.events {
            match event.data.u64() {
                TIMER => self.armed = None,
                SIGNAL => woken.extend(self.signals.as_mut().and_then(SignalReader::drain)),
                CONSOLE => is_console_ready = true,
                HELPER => woken.push(Wakeup::Helper),
                OVERFLOW => woken.push(Wakeup::Overflow),
                pid => woken.extend(u32::try_from(pid).ok().map(Wakeup::Exited)),
            }
        }
        if is_console_ready {
            woken.extend(self.wake_console());
        }
        Ok(())
    }

    fn wake_console(&mut self) -> Option<Wakeup> {
        let now = self.now();
        let is_end_requested = self.console.as_mut().is_some_and(|console| (console.handler)(now));
        let interrupt = (nix::sys::signal::Signal::SIGINT as i32).cast_unsigned();
        let signals = self.signals.as_mut().filter(|_| is_end_requested)?;
        signals.requests.take(&[interrupt])
    }

    fn arm(&mut self, until: Option<Nanos>) -> Result<(), LiveError> {
        if until == self.armed {
            return Ok(());
        }
        // An instant in the past must not become zero, which would disarm the timer.
        let start = self.start.unwrap_or_default();
        let at = until.map_or(Nanos::ZERO, |until| Nanos(start.saturating_add(until).0.max(1)));
        let once = Itimerspec { it_interval: timespec(Nanos::ZERO), it_value: timespec(at) };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once)
            .map_err(|error| events_error("timer", error.into()))?;
        self.armed = until;
        Ok(())
    }
}

/// Blocks the signals that end a run or a watch. For a command with several watches in succession.
///
/// # Errors
/// The kernel rejects the signal mask.
pub fn block_signals() -> Result<StopSignals, LiveError> {
    StopSignals::block_terminating().map_err(|error| events_error("signals", error))
}

impl SignalReader {
    fn take(reloads: bool) -> Result<Self, LiveError> {
        let signals = block_signals()?;
        let requests = StopRequests { was_requested: false, reloads };
        Ok(SignalReader { signals, requests, unusual: None })
    }

    fn drain(&mut self) -> Option<Wakeup> {
        let numbers = self.signals.take();
        let name = || numbers.iter().find_map(|&number| stop_signals::unusual_name(number));
        self.unusual = self.unusual.take().or_else(name);
        self.requests.take(&numbers)
    }
}

impl StopRequests {
    /// Returns the request of a set of signals that were received together. A service manager sends TERM and HUP
    /// together, a closing terminal sends HUP, and the kernel repeats SIGXCPU and timer signals. Only a later INT, QUIT
    /// or TERM comes from a user.
    fn take(&mut self, numbers: &[u32]) -> Option<Wakeup> {
        let is_request = numbers.iter().any(|&number| stop_signals::is_request(number));
        let is_reload =
            self.reloads && numbers.iter().all(|&number| stop_signals::is_hang_up(number));
        let was_requested = self.was_requested;
        self.was_requested |= is_request;
        match (was_requested, is_request) {
            (true, true) => Some(Wakeup::ImmediateStop),
            (false, false) if is_reload && !numbers.is_empty() => Some(Wakeup::Reload),
            _ => (!numbers.is_empty()).then_some(Wakeup::Stop),
        }
    }
}

impl Drop for SignalReader {
    fn drop(&mut self) {
        // Discards pending signals, which were sent to the ended run. A watch that reloads may be followed by another
        // watch, for which the signals stay pending.
        if !self.requests.reloads {
            self.drain();
        }
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

fn events_error(facility: &'static str, source: io::Error) -> LiveError {
    LiveError::Events { facility, source }
}

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
    use nix::sys::signal::Signal;

    /// Checks which stop request results from each batch of signals. Batches are separated by bars.
    fn check(batches: &str, expected: &str) {
        check_with(StopRequests::default(), batches, expected);
    }

    fn check_with(mut requests: StopRequests, batches: &str, expected: &str) {
        let number = |name: &str| {
            let signal: Signal = format!("SIG{name}").parse().expect("a signal");
            (signal as i32).cast_unsigned()
        };
        let mut request = |batch: &str| {
            let numbers: Vec<u32> = batch.split_whitespace().map(number).collect();
            match requests.take(&numbers) {
                Some(Wakeup::ImmediateStop) => "immediate",
                Some(Wakeup::Reload) => "reload",
                Some(_) => "stop",
                None => "-",
            }
        };
        let all: Vec<&str> = batches.split('|').map(&mut request).collect();
        assert_eq!(all.join(" "), expected, "{batches}");
    }

    #[test]
    fn a_console_wakes_the_loop_without_a_wake_up_of_the_host_until_it_requests_the_end() {
        let mut wakeups = Wakeups::new(true, false).expect("an epoll instance");
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let keys = reader.try_clone().expect("a descriptor");
        let console = Console::new(reader, move |_| {
            let mut key = [0];
            rustix::io::read(&keys, &mut key).expect("a key") == 1 && key == *b"q"
        });
        wakeups.add_console(console).expect("added");
        let mut woken = Vec::new();
        for (key, expected) in
            [(b"x", None), (b"q", Some(Wakeup::Stop)), (b"q", Some(Wakeup::ImmediateStop))]
        {
            rustix::io::write(&writer, key).expect("written");
            woken.clear();
            wakeups.wait(None, &mut woken).expect("woken");
            assert_eq!(woken.first(), expected.as_ref());
        }
    }

    #[test]
    fn a_second_request_skips_the_grace_period() {
        check("INT | INT", "stop immediate");
        check("TERM | QUIT | INT", "stop immediate immediate");
        check("", "-");
    }

    #[test]
    fn signals_received_together_and_hang_ups_are_one_request() {
        check("TERM HUP", "stop");
        check("TERM TERM INT", "stop");
        check("TERM | HUP | HUP", "stop stop stop");
        check("HUP | TERM", "stop stop");
        check("XCPU | XCPU | ALRM", "stop stop stop");
    }

    #[test]
    fn with_a_configuration_a_hang_up_alone_is_a_reload() {
        let requests = || StopRequests { was_requested: false, reloads: true };
        check_with(requests(), "HUP | HUP | TERM", "reload reload stop");
        check_with(requests(), "HUP TERM | HUP", "stop stop");
        check_with(requests(), "XCPU", "stop");
    }
}
