//! Runs in several threads.
//!
//! ```text
//!   runs ─► each thread takes the next run ─► results are received one at a time by the caller
//! ```
//!
//! The result of a run depends only on its key, and not on other runs. The caller receives each result when its run has
//! finished, and [`RunEvent::Tick`] after 100 ms without a result, so that the caller can print the progress and check
//! for signals.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::Builder;
use std::time::Duration;

use base::StopFlag;

/// Event of a batch of runs, for the caller.
#[derive(Debug)]
pub enum RunEvent<T> {
    /// The index of a run in the batch, and its result.
    Finished(usize, T),
    /// No run has finished since the last event.
    Tick,
}

/// Longest time between two events.
const TICK: Duration = Duration::from_millis(100);

/// Calls `work` for all runs, in order. `work` returns `None` for a run that was interrupted by `stop`; after `stop` is
/// raised, no further run starts.
///
/// # Errors
/// The first error of a run or of `receive`. No further run starts after an error.
pub fn run_all<K: Sync, T: Send, E: Send>(
    runs: &[K],
    n_threads: usize,
    stop: &StopFlag,
    work: impl Fn(&K) -> Result<Option<T>, E> + Sync,
    mut receive: impl FnMut(RunEvent<T>) -> Result<(), E>,
) -> Result<(), E> {
    let next = AtomicUsize::new(0);
    let (sender, results) = mpsc::channel();
    let take = &|sender: mpsc::Sender<(usize, Result<Option<T>, E>)>| {
        while !stop.is_raised() {
            let idx = next.fetch_add(1, Ordering::Relaxed);
            let Some(run) = runs.get(idx) else { break };
            // The receiver outlives the threads.
            let _ = sender.send((idx, work(run)));
        }
    };
    std::thread::scope(|scope| {
        let n_started = (0..n_threads.clamp(1, runs.len().max(1)))
            .map(|_| sender.clone())
            .map(|sender| Builder::new().spawn_scoped(scope, || take(sender)))
            .take_while(Result::is_ok)
            .count();
        match n_started {
            // No thread can be started (RLIMIT_NPROC, pids.max).
            0 => take(sender),
            _ => drop(sender),
        }
        let mut first_error = None;
        loop {
            let received = match results.recv_timeout(TICK) {
                Ok((idx, Ok(Some(result)))) => receive(RunEvent::Finished(idx, result)),
                Ok((_, Ok(None))) => Ok(()),
                Ok((_, Err(error))) => Err(error),
                Err(RecvTimeoutError::Timeout) => receive(RunEvent::Tick),
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if let Err(error) = received {
                first_error.get_or_insert(error);
                stop.raise();
            }
        }
        first_error.map_or(Ok(()), Err)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn squares(n_threads: usize) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        let numbers: Vec<usize> = (0..50).collect();
        let done = run_all(
            &numbers,
            n_threads,
            &StopFlag::default(),
            |number| Ok::<_, ()>(Some(number * number)),
            |event| {
                if let RunEvent::Finished(idx, result) = event {
                    found.push((idx, result));
                }
                Ok(())
            },
        );
        assert_eq!(done, Ok(()));
        found.sort_unstable();
        found
    }

    #[test]
    fn every_run_is_simulated_once_with_any_number_of_threads() {
        let expected: Vec<(usize, usize)> = (0..50).map(|n| (n, n * n)).collect();
        for n_threads in [0, 1, 2, 7, 100] {
            assert_eq!(squares(n_threads), expected);
        }
    }

    #[test]
    fn no_run_starts_after_an_error_and_earlier_results_are_received() {
        let mut n_received = 0;
        let work = |number: &usize| if *number == 3 { Err("broken") } else { Ok(Some(())) };
        let receive = |event: RunEvent<()>| {
            n_received += usize::from(matches!(event, RunEvent::Finished(..)));
            Ok(())
        };
        let numbers: Vec<usize> = (0..1000).collect();
        let done = run_all(&numbers, 1, &StopFlag::default(), work, receive);
        assert_eq!(done, Err("broken"));
        assert!((3..1000).contains(&n_received), "{n_received}");
    }

    #[test]
    fn no_run_starts_after_stop_is_raised() {
        let stop = StopFlag::default();
        let n_started = AtomicUsize::new(0);
        let work = |number: &usize| {
            n_started.fetch_add(1, Ordering::Relaxed);
            if *number == 10 {
                stop.raise();
                return Ok::<_, ()>(None);
            }
            Ok(Some(()))
        };
        let numbers: Vec<usize> = (0..1000).collect();
        assert_eq!(run_all(&numbers, 1, &stop, work, |_| Ok(())), Ok(()));
        assert_eq!(n_started.load(Ordering::Relaxed), 11);
    }
}
