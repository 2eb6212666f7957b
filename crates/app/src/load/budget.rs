//! Amount of work of a synthetic program: a time or a number of operations, with an optional duty cycle.
//!
//! Each thread prepares its data, waits for all other threads, and works in batches of about a millisecond or less. The
//! CPU time limit applies to the CPU time of the thread: a program that shares its CPU performs the same work in more
//! wall time.

use std::io;
use std::sync::{Barrier, OnceLock};
use std::thread::Builder;
use std::time::{Duration, Instant};

use anyhow::Context;
use base::Nanos;
use rustix::time::{ClockId, clock_gettime};

use crate::input;

/// Options for the amount of work.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Budget {
    /// Work for this wall time (default: 5s if neither --cpu nor --ops is given)
    #[arg(long = "for", value_name = "TIME", value_parser = input::nonzero_time, allow_hyphen_values = true)]
    wall: Option<Nanos>,
    /// Work until each thread has used this CPU time
    #[arg(long, value_name = "TIME", value_parser = input::nonzero_time, allow_hyphen_values = true)]
    cpu: Option<Nanos>,
    /// Perform this many operations, divided among the threads
    #[arg(long, value_name = "N", value_parser = input::integer::<u64>(1..=u64::MAX), allow_hyphen_values = true)]
    ops: Option<u64>,
    /// Set the duty cycle: the share of time to work, more than 0 and at most 1
    #[arg(long, value_name = "SHARE", default_value = "1", value_parser = share, allow_hyphen_values = true)]
    throttle: f64,
    /// Set the number of threads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = input::integer::<u32>(1..=4096), allow_hyphen_values = true)]
    pub(crate) threads: u32,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share: &f64| 0.0 < *share && *share <= 1.0);
    share.ok_or_else(|| "write a share such as 0.25: more than 0, up to 1".to_owned())
}

/// Default wall time.
const WALL_DEFAULT: Duration = Duration::from_secs(5);

/// Busy time of a throttled thread between two sleeps.
const WORK_BEFORE_PAUSE: Duration = Duration::from_millis(5);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CompletedWork {
    /// Operations of all threads.
    pub(crate) ops: u64,
    /// CPU time of all threads.
    pub(crate) cpu: Duration,
    /// Wall time of the slowest thread.
    pub(crate) wall: Duration,
}

impl Budget {
    /// Creates the budget of one thread without throttling for this CPU time.
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

    /// Returns the budget as command-line arguments of a child.
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

    /// Works in this thread, which has the index `thread_idx`. `batch` performs the requested number of operations.
    pub(crate) fn spend(
        &self,
        thread_idx: u32,
        batch_ops: u64,
        mut batch: impl FnMut(u64),
    ) -> CompletedWork {
        let begin = (Instant::now(), cpu_time());
        let ops_max = self.ops_of(thread_idx);
        let mut ops = 0;
        let mut cpu_at_pause = begin.1;
        loop {
            let (wall, cpu) = (begin.0.elapsed(), cpu_time());
            if ops_max <= ops || self.is_over(wall, cpu.saturating_sub(begin.1)) {
                return CompletedWork { ops, cpu: cpu.saturating_sub(begin.1), wall };
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

    /// Returns the number of operations of one thread. The first threads perform the remainder of the division.
    fn ops_of(&self, thread_idx: u32) -> u64 {
        let (threads, thread_idx) = (u64::from(self.threads), u64::from(thread_idx));
        self.ops.map_or(u64::MAX, |ops| ops / threads + u64::from(thread_idx < ops % threads))
    }
}

/// Returns the CPU time that this thread has used.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Work of one thread. The constructor touches the memory of the thread.
pub(crate) trait WorkerTask: Sized {
    /// Operations between two reads of the clock.
    const BATCH_OPS: u64;
    /// Performs this many operations.
    fn work(&mut self, ops: u64);
}

/// Starts the threads and returns the completed work. Every thread creates its own work, so that first touch allocates
/// the memory on the node of the thread. The clock starts when all threads are ready.
///
/// # Errors
/// A thread cannot be started. No thread does any work.
pub(crate) fn run<P: WorkerTask>(
    budget: &Budget,
    make: impl Fn(u32) -> P + Sync,
) -> anyhow::Result<CompletedWork> {
    let ready = Barrier::new(budget.threads as usize);
    let run_thread = |thread_idx: usize| {
        let mut part = make(thread_idx as u32);
        ready.wait();
        budget.spend(thread_idx as u32, P::BATCH_OPS, |ops| part.work(ops))
    };
    if budget.threads == 1 {
        return Ok(run_thread(0));
    }
    let parts = run_each(budget.threads as usize, run_thread)?;
    Ok(parts.into_iter().fold(CompletedWork::default(), sum))
}

/// Calls a function in each of `n` threads, with the index of the thread. Returns the results in this order.
///
/// # Errors
/// A thread cannot be started. No thread calls the function.
pub(crate) fn run_each<T: Send>(
    n: usize,
    run: impl Fn(usize) -> T + Sync,
) -> anyhow::Result<Vec<T>> {
    // The threads wait for this value: whether all were started.
    let all_started: OnceLock<bool> = OnceLock::new();
    std::thread::scope(|scope| {
        let (run, all_started) = (&run, &all_started);
        let start =
            |idx| Builder::new().spawn_scoped(scope, move || all_started.wait().then(|| run(idx)));
        let threads: io::Result<Vec<_>> = (0..n).map(start).collect();
        // Set once.
        let _ = all_started.set(threads.is_ok());
        let threads = threads.with_context(|| format!("cannot start {n} threads"))?;
        Ok(threads.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect())
    })
}

fn sum(all: CompletedWork, part: CompletedWork) -> CompletedWork {
    CompletedWork {
        ops: all.ops + part.ops,
        cpu: all.cpu + part.cpu,
        wall: all.wall.max(part.wall),
    }
}

/// Returns the minimum CPU time of several repetitions, because disturbances only increase the time.
pub(crate) fn least_cpu_time(n_tries: u32, mut run: impl FnMut()) -> Duration {
    let mut time = || {
        let begin = cpu_time();
        run();
        cpu_time().saturating_sub(begin)
    };
    (0..n_tries).map(|_| time()).min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> Budget {
        Budget { ops: Some(10), threads: 4, ..Budget::of_cpu(Duration::from_secs(3600)) }
    }

    #[test]
    fn operations_are_divided_without_a_remainder() {
        let shares: Vec<u64> = (0..4).map(|idx| budget().ops_of(idx)).collect();
        assert_eq!(shares, [3, 3, 2, 2]);
        let mut n_done = 0;
        let work = budget().spend(0, 2, |ops| n_done += ops);
        assert_eq!((work.ops, n_done), (3, 3));
    }

    #[test]
    fn the_first_limit_ends_the_work_and_the_default_is_five_seconds() {
        let secs = Duration::from_secs;
        let both = Budget { wall: Some(Nanos::from_secs(2)), ..Budget::of_cpu(secs(1)) };
        assert!(!both.is_over(secs(1), Duration::ZERO));
        assert!(both.is_over(secs(2), Duration::ZERO));
        assert!(both.is_over(secs(1), secs(1)));
        let none = Budget { cpu: None, ..Budget::of_cpu(secs(1)) };
        assert!(none.is_over(secs(5), secs(0)) && !none.is_over(secs(4), secs(4)));
    }
}
