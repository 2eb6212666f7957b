//! Median and range of measured values, and CPU clocks.

use std::fmt;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use rustix::time::{ClockId, clock_gettime};

/// Median with the lowest and highest value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MedianRange {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl MedianRange {
    /// Computes median and range. Panics without values.
    pub fn of(mut values: Vec<f64>) -> Self {
        assert!(!values.is_empty(), "no values");
        values.sort_by(f64::total_cmp);
        let median = lab::stats::median(&values);
        MedianRange { median, low: values[0], high: values[values.len() - 1] }
    }
}

impl fmt::Display for MedianRange {
    /// Formats as `0.012 (0.010 to 0.019)`, with 3 decimals unless a precision is set.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(3);
        write!(f, "{:.digits$} ({:.digits$} to {:.digits$})", self.median, self.low, self.high)
    }
}

/// Reads the CPU time of this thread.
pub fn thread_cpu_time() -> Duration {
    clock(ClockId::ThreadCPUTime)
}

/// Reads the CPU time of all threads of this process.
pub fn process_cpu_time() -> Duration {
    clock(ClockId::ProcessCPUTime)
}

/// Reads the CPU time of all reaped children of this process.
pub fn cpu_time_of_children() -> Duration {
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(Duration::ZERO, |usage| {
        let micros = |time: nix::sys::time::TimeVal| {
            Duration::from_micros((time.tv_sec() * 1_000_000 + time.tv_usec()).unsigned_abs())
        };
        micros(usage.user_time()) + micros(usage.system_time())
    })
}

fn clock(id: ClockId) -> Duration {
    let now = clock_gettime(id);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_of_values_is_the_mean_of_the_middle_two() {
        let spread = MedianRange::of(vec![4.0, 1.0, 2.0, 3.0]);
        assert_eq!((spread.median, spread.low, spread.high), (2.5, 1.0, 4.0));
        assert_eq!(format!("{spread:.1}"), "2.5 (1.0 to 4.0)");
    }
}
