//! Limits, clock, stop requests and progress output of a restore.
//!
//! An ordinary user can fork processes faster than a restore finds them. A restore therefore ends at a time limit even
//! if it still finds changed threads, and keeps the record. Its first pass over the processes is always complete,
//! unless a stop is requested: only environments of more than 128 KiB are not read after the time limit.

use std::path::Path;
use std::time::Duration;

/// Interval of the progress output. A restore of a usual machine ends before the first output.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Upper bounds of a restore of all records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoreLimits {
    /// Time after which no further pass over the processes starts. It is longer than the longest fork latency (5 s).
    pub time_max: Duration,
    /// Number of passes over the processes for one record.
    pub n_passes_max: u32,
}

impl Default for RestoreLimits {
    fn default() -> Self {
        RestoreLimits { time_max: Duration::from_secs(10), n_passes_max: 2000 }
    }
}

/// The clock of a restore.
pub trait RestoreClock {
    /// Returns the monotonic time since a fixed instant.
    fn now(&self) -> Duration;
    /// Waits.
    fn pause(&self, time: Duration);
}

/// The monotonic clock of the kernel.
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock;

impl RestoreClock for MonotonicClock {
    fn now(&self) -> Duration {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
    }

    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// Progress of a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreProgress {
    /// Passes over the processes, over all records.
    pub n_passes: u32,
    /// Inspected threads.
    pub n_inspected: u64,
    /// Restored threads.
    pub n_restored: u64,
}

/// Parameters of a restore.
#[derive(Clone, Copy)]
pub struct RestoreControl<'a> {
    /// Root below which cgroups and resctrl groups are found; `/` except in tests.
    pub groups_root: &'a Path,
    /// Whether nothing is changed.
    pub dry_run: bool,
    /// Upper bounds.
    pub limits: RestoreLimits,
    /// The clock.
    pub clock: &'a dyn RestoreClock,
    /// Returns whether the restore has to end, for example because of SIGTERM.
    pub is_stop_requested: &'a dyn Fn() -> bool,
    /// Receives the progress, once per second.
    pub on_progress: &'a dyn Fn(&RestoreProgress),
}

impl Default for RestoreControl<'_> {
    fn default() -> Self {
        RestoreControl {
            groups_root: Path::new("/"),
            dry_run: false,
            limits: RestoreLimits::default(),
            clock: &MonotonicClock,
            is_stop_requested: &|| false,
            on_progress: &|_| (),
        }
    }
}

/// A restore in progress.
pub(super) struct RestoreRun<'a> {
    pub(super) control: RestoreControl<'a>,
    pub(super) deadline: Duration,
    pub(super) progress: RestoreProgress,
    next_output: Duration,
}

impl<'a> RestoreRun<'a> {
    pub(super) fn new(control: RestoreControl<'a>) -> Self {
        let now = control.clock.now();
        RestoreRun {
            control,
            deadline: now + control.limits.time_max,
            progress: RestoreProgress::default(),
            next_output: now + PROGRESS_INTERVAL,
        }
    }

    pub(super) fn now(&self) -> Duration {
        self.control.clock.now()
    }

    pub(super) fn is_stop_requested(&self) -> bool {
        (self.control.is_stop_requested)()
    }

    /// Reports the progress if the report is due.
    pub(super) fn report(&mut self) {
        let now = self.now();
        if self.next_output <= now {
            self.next_output = now + PROGRESS_INTERVAL;
            (self.control.on_progress)(&self.progress);
        }
    }
}
