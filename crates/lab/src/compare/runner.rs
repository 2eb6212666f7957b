//! Many runs over some threads.
//!
//! ```text
//!   numbers of runs still to do ─► threads take the next one each ─► results land one at a time, here
//! ```
//!
//! A result hangs on its number alone, so it does not matter who reckons it or when. Results land in the
//! thread that called, as they finish; between them it looks around ([`Landed::Nothing`]) a few times a
//! second, so that it can show progress and notice that it is to stop.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use base::StopFlag;

/// Something for the caller.
#[derive(Debug)]
pub enum Landed<T> {
    /// A run is done.
    Run(usize, T),
    /// Nothing for a while.
    Nothing,
}

/// Between two looks around.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Works all numbers off, in order of their beginning. `work` returns nothing for a run that was given up
/// because of `stop`; when that is set no further one begins.
///
/// # Errors
/// The first error of a run, or of `land`; no further run begins after it.
pub fn run_all<T: Send, E: Send>(
    numbers: &[usize],
    n_threads: usize,
    stop: &StopFlag,
    work: impl Fn(usize) -> Result<Option<T>, E> + Sync,
    mut land: impl FnMut(Landed<T>) -> Result<(), E>,
) -> Result<(), E> {
    let next = AtomicUsize::new(0);
    let (told, results) = mpsc::channel();
    let take = |told: mpsc::Sender<(usize, Result<Option<T>, E>)>| {
        while !stop.is_raised() {
            let Some(&number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
            if told.send((number, work(number))).is_err() {
                break;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..n_threads.clamp(1, numbers.len().max(1)) {
            let told = told.clone();
            scope.spawn(|| take(told));
        }
        drop(told);
        let mut first_error = None;
        loop {
            let landed = match results.recv_timeout(LOOK_EVERY) {
                Ok((number, Ok(Some(result)))) => land(Landed::Run(number, result)),
                Ok((_, Ok(None))) => Ok(()),
                Ok((_, Err(error))) => Err(error),
                Err(RecvTimeoutError::Timeout) => land(Landed::Nothing),
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if let Err(error) = landed {
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

    fn landed(n_threads: usize) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        let numbers: Vec<usize> = (0..50).collect();
        let done = run_all(
            &numbers,
            n_threads,
            &StopFlag::default(),
            |number| Ok::<_, ()>(Some(number * number)),
            |landed| {
                if let Landed::Run(number, result) = landed {
                    found.push((number, result));
                }
                Ok(())
            },
        );
        assert_eq!(done, Ok(()));
        found.sort_unstable();
        found
    }

    #[test]
    fn every_number_is_worked_once_by_however_many_threads() {
        let expected: Vec<(usize, usize)> = (0..50).map(|n| (n, n * n)).collect();
        for n_threads in [0, 1, 2, 7, 100] {
            assert_eq!(landed(n_threads), expected);
        }
    }

    #[test]
    fn an_error_ends_it_and_what_had_landed_has_landed() {
        let mut n_landed = 0;
        let work = |number| if number == 3 { Err("broken") } else { Ok(Some(())) };
        let land = |landed: Landed<()>| {
            n_landed += usize::from(matches!(landed, Landed::Run(..)));
            Ok(())
        };
        let numbers: Vec<usize> = (0..1000).collect();
        let done = run_all(&numbers, 1, &StopFlag::default(), work, land);
        assert_eq!(done, Err("broken"));
        assert!((3..1000).contains(&n_landed), "{n_landed}");
    }

    #[test]
    fn whoever_stops_it_gets_nothing_more_to_begin() {
        let stop = StopFlag::default();
        let n_begun = AtomicUsize::new(0);
        let work = |number| {
            n_begun.fetch_add(1, Ordering::Relaxed);
            if number == 10 {
                stop.raise();
                return Ok::<_, ()>(None);
            }
            Ok(Some(()))
        };
        let numbers: Vec<usize> = (0..1000).collect();
        assert_eq!(run_all(&numbers, 1, &stop, work, |_| Ok(())), Ok(()));
        assert_eq!(n_begun.load(Ordering::Relaxed), 11);
    }
}
