//! How much a synthetic program does: for a time, for a number of operations, and how steadily.
//!
//! Work goes in batches small enough that the end is met within a millisecond or so. CPU time is the
//! thread's own, so a program that shares its CPU does as much as one that does not, only later.

use std::time::{Duration, Instant};

use base::Nanos;
use rustix::time::{ClockId, clock_gettime};

use crate::input;

/// How long and how hard to work.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Budget {
    /// Work for so long by the clock (5s if nothing else is said)
    #[arg(long = "for", value_name = "TIME", value_parser = input::time, allow_hyphen_values = true)]
    wall: Option<Nanos>,
    /// Work until each thread has used so much CPU time
    #[arg(long, value_name = "TIME", value_parser = input::time, allow_hyphen_values = true)]
    cpu: Option<Nanos>,
    /// Do so many operations, shared among the threads
    #[arg(long, value_name = "N", value_parser = input::whole::<u64>(0..=u64::MAX), allow_hyphen_values = true)]
    ops: Option<u64>,
    /// Share of time to work, the rest asleep: more than 0, up to 1
    #[arg(long, value_name = "SHARE", default_value = "1", value_parser = share, allow_hyphen_values = true)]
    throttle: f64,
    /// Threads that work at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = input::whole::<u32>(1..=4096), allow_hyphen_values = true)]
    pub(crate) threads: u32,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share: &f64| 0.0 < *share && *share <= 1.0);
    share.ok_or_else(|| "write a share such as 0.25: more than 0, up to 1".to_owned())
}

/// How long to work when nobody says.
const WALL_DEFAULT: Duration = Duration::from_secs(5);

/// A throttled thread works so long between two pauses.
const WORK_BEFORE_PAUSE: Duration = Duration::from_millis(5);

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    /// Operations, of all threads.
    pub(crate) ops: u64,
    /// CPU time, of all threads.
    pub(crate) cpu: Duration,
    /// From the start to the end of the slowest thread.
    pub(crate) wall: Duration,
}

impl Budget {
    /// As much CPU time, in one thread that never rests.
    pub(crate) fn of_cpu(cpu: Duration) -> Self {
        Budget {
            wall: None,
            cpu: Some(cpu.into()),
            ops: None,
            throttle: 1.0,
            threads: 1,
            json: false,
        }
    }

    /// The same for each of several children, as arguments.
    pub(crate) fn to_args(&self) -> Vec<String> {
        let times = [("--for", self.wall), ("--cpu", self.cpu)];
        let mut args: Vec<String> = times
            .into_iter()
            .filter_map(|(flag, time)| Some([flag.to_owned(), format!("{}ns", time?.0)]))
            .flatten()
            .collect();
        args.extend(self.ops.iter().flat_map(|ops| ["--ops".to_owned(), ops.to_string()]));
        args.extend(["--throttle".to_owned(), self.throttle.to_string()]);
        args.extend(["--threads".to_owned(), self.threads.to_string()]);
        args
    }

    /// Works in this thread, the `thread_idx`-th. `batch` does as many operations as it is told.
    pub(crate) fn spend(
        &self,
        thread_idx: u32,
        batch_ops: u64,
        mut batch: impl FnMut(u64),
    ) -> Work {
        let begin = (Instant::now(), cpu_time());
        let ops_max = self.ops_of(thread_idx);
        let mut ops = 0;
        let mut cpu_at_pause = begin.1;
        loop {
            let (wall, cpu) = (begin.0.elapsed(), cpu_time());
            if ops_max <= ops || self.is_over(wall, cpu.saturating_sub(begin.1)) {
                return Work { ops, cpu: cpu.saturating_sub(begin.1), wall };
            }
            let now = batch_ops.min(ops_max - ops);
            batch(now);
            ops += now;
            if self.throttle < 1.0 && WORK_BEFORE_PAUSE <= cpu.saturating_sub(cpu_at_pause) {
                let worked = cpu_time().saturating_sub(cpu_at_pause);
                std::thread::sleep(worked.mul_f64((1.0 - self.throttle) / self.throttle));
                cpu_at_pause = cpu_time();
            }
        }
    }

    fn is_over(&self, wall: Duration, cpu: Duration) -> bool {
        let wall_max = match (self.wall, self.cpu, self.ops) {
            (None, None, None) => Some(WALL_DEFAULT),
            (wall, ..) => wall.map(Duration::from),
        };
        let cpu_max = self.cpu.map(Duration::from);
        wall_max.is_some_and(|max| max <= wall) || cpu_max.is_some_and(|max| max <= cpu)
    }

    /// The operations of one thread: the first ones take what does not divide.
    fn ops_of(&self, thread_idx: u32) -> u64 {
        let (threads, thread_idx) = (u64::from(self.threads), u64::from(thread_idx));
        self.ops.map_or(u64::MAX, |ops| ops / threads + u64::from(thread_idx < ops % threads))
    }
}

/// CPU time that this thread has used.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> Budget {
        Budget { ops: Some(10), threads: 4, ..Budget::of_cpu(Duration::from_secs(3600)) }
    }

    #[test]
    fn operations_are_shared_out_whole() {
        let shares: Vec<u64> = (0..4).map(|idx| budget().ops_of(idx)).collect();
        assert_eq!(shares, [3, 3, 2, 2]);
        let mut seen = 0;
        let done = budget().spend(0, 2, |ops| seen += ops);
        assert_eq!((done.ops, seen), (3, 3));
    }

    #[test]
    fn the_first_limit_reached_ends_it_and_five_seconds_hold_without_any() {
        let secs = Duration::from_secs;
        let both = Budget { wall: Some(Nanos::from_secs(2)), ..Budget::of_cpu(secs(1)) };
        assert!(!both.is_over(secs(1), Duration::ZERO));
        assert!(both.is_over(secs(2), Duration::ZERO));
        assert!(both.is_over(secs(1), secs(1)));
        let none = Budget { cpu: None, ..Budget::of_cpu(secs(1)) };
        assert!(none.is_over(secs(5), secs(0)) && !none.is_over(secs(4), secs(4)));
    }
}
