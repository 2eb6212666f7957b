//! A fork-join program: a serial part, then all threads, repeatedly. The threads wait for each other at each join.
//!
//! ```text
//!   thread 0  ██ ██████ ██ ██████      serial part, fork, join, serial part, …
//!   thread 1  ·· ██████ ·· ██████      ·  sleeps
//!   thread 2  ·· ███··· ·· ███···      --works 2,2,1
//! ```
//!
//! The operations are those of `load compute`. The self-check compares the operations of each thread at each join with the
//! plan. If the threads did not wait for each other, the result is rejected.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::ensure;

use super::LoadReport;
use super::budget::{CompletedWork, WorkerTask, cpu_time, run_each};
use super::compute::Arithmetic;
use crate::command_result::CommandResult;
use crate::input;

/// Options of `load forkjoin`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    work: ParallelWork,
    /// Fork and join this many times
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = input::integer::<u32>(1..=1_000_000), allow_hyphen_values = true)]
    rounds: u32,
    /// Set the number of threads; each has the same work
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = input::integer::<u32>(2..=4096), allow_hyphen_values = true, conflicts_with = "works")]
    threads: u32,
    /// Set the relative work of each thread, and with it the number of threads
    #[arg(long, value_name = "N,N…", value_parser = works)]
    works: Option<Works>,
    /// Set the share of the operations in the serial part, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = input::integer::<u32>(0..=99), allow_hyphen_values = true)]
    serial: u32,
}

/// Options of the programs whose threads wait for each other.
#[derive(Debug, clap::Args)]
pub(super) struct ParallelWork {
    /// Perform this many operations of load compute, about a microsecond each
    #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = input::integer::<u64>(1..=1_000_000_000_000_000), allow_hyphen_values = true)]
    pub ops: u64,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Relative work of each thread, at least two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Works(pub Vec<u64>);

/// Parses the relative work of each thread, such as `1,1,3`.
pub(super) fn works(text: &str) -> Result<Works, String> {
    let is_work = |work: &u64| (1..=1_000_000).contains(work);
    let works: Option<Vec<u64>> =
        text.split(',').map(|work| work.parse().ok().filter(is_work)).collect();
    let works = works.filter(|works| (2..=4096).contains(&works.len()));
    works.map(Works).ok_or_else(|| {
        "write 2 to 4096 numbers from 1 to 1000000, separated by commas, such as 1,1,3".to_owned()
    })
}

/// Returns part `idx` of `ops` operations that are divided in proportion to `works`. The parts add up to `ops`.
pub(super) fn part(ops: u64, works: &[u64], idx: usize) -> u64 {
    let total: u128 = works.iter().map(|work| u128::from(*work)).sum();
    let before = |n: usize| {
        let works = works[..n].iter().map(|work| u128::from(*work)).sum::<u128>();
        u64::try_from(u128::from(ops) * works / total).unwrap_or(u64::MAX)
    };
    before(idx + 1) - before(idx)
}

/// As [`part`], for `n` equal parts.
pub(super) fn equal_part(ops: u64, n: u32, idx: u32) -> u64 {
    let before = |idx: u32| (u128::from(ops) * u128::from(idx) / u128::from(n)) as u64;
    before(idx + 1) - before(idx)
}

/// Performs operations in batches.
pub(super) fn work(arithmetic: &mut Arithmetic, ops: u64) {
    let mut left = ops;
    while 0 < left {
        let now = left.min(Arithmetic::BATCH_OPS);
        arithmetic.work(now);
        left -= now;
    }
}

/// Operations of a round.
struct Round {
    serial: u64,
    /// By thread.
    team: Vec<u64>,
}

fn rounds(args: &Args, works: &[u64]) -> Vec<Round> {
    let round = |idx: u32| {
        let ops = equal_part(args.work.ops, args.rounds, idx);
        let serial = part(ops, &[u64::from(args.serial), u64::from(100 - args.serial)], 0);
        let team = (0..works.len()).map(|thread| part(ops - serial, works, thread)).collect();
        Round { serial, team }
    };
    (0..args.rounds).map(round).collect()
}

pub(crate) fn main(args: &Args) -> CommandResult {
    let works = args.works.as_ref().map_or(vec![1; args.threads as usize], |works| works.0.clone());
    let rounds = rounds(args, &works);
    let begin = Instant::now();
    let barrier = Barrier::new(works.len());
    let done: Vec<AtomicU64> = works.iter().map(|_| AtomicU64::new(0)).collect();
    let missing = AtomicU64::new(0);
    let threads = run_each(works.len(), |thread| {
        let (cpu, mut arithmetic) = (cpu_time(), Arithmetic::new(thread as u32));
        let mut expected = vec![0; works.len()];
        for round in &rounds {
            if thread == 0 {
                work(&mut arithmetic, round.serial);
            }
            barrier.wait();
            work(&mut arithmetic, round.team[thread]);
            done[thread].fetch_add(round.team[thread], Ordering::Relaxed);
            barrier.wait();
            expected.iter_mut().zip(&round.team).for_each(|(all, ops)| *all += ops);
            // Between this barrier and the fork, no thread works: thread 0 has not begun its serial part.
            if thread == 0 {
                let found = done.iter().map(|ops| ops.load(Ordering::Relaxed));
                let early = found.zip(&expected).filter(|(found, expected)| found != *expected);
                missing.fetch_add(early.count() as u64, Ordering::Relaxed);
            }
        }
        cpu_time().saturating_sub(cpu)
    })?;
    let missing = missing.into_inner();
    if missing != 0 {
        return Err(anyhow::anyhow!("self-check: {missing} threads did not wait at a join").into());
    }
    let serial: u64 = rounds.iter().map(|round| round.serial).sum();
    let by_thread: Vec<u64> = done.into_iter().map(AtomicU64::into_inner).collect();
    let ops = serial + by_thread.iter().sum::<u64>();
    check_ops(ops, args.work.ops)?;
    let mut report = LoadReport::new("forkjoin", args.work.json);
    report.add("rounds", args.rounds);
    report.add("serial_ops", serial);
    report.add("ops_by_thread", by_thread);
    let (cpu, wall) = (threads.iter().sum(), begin.elapsed());
    report.end(&CompletedWork { ops, cpu, wall }, "operations")?;
    Ok(())
}

/// Checks that all operations were performed.
pub(super) fn check_ops(found: u64, expected: u64) -> anyhow::Result<()> {
    ensure!(found == expected, "self-check: {found} of {expected} operations were performed");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_in_proportion_to_the_works_and_add_up() {
        let parts = |ops, works: &[u64]| -> Vec<u64> {
            (0..works.len()).map(|idx| part(ops, works, idx)).collect()
        };
        assert_eq!(parts(10, &[1, 1, 3]), [2, 2, 6]);
        assert_eq!(parts(10, &[1, 1, 1]), [3, 3, 4]);
        assert_eq!(parts(0, &[1, 2]), [0, 0]);
        assert_eq!([0, 1, 2].map(|idx| equal_part(10, 3, idx)), [3, 3, 4]);
        for ops in [1, 7, 1000, u64::from(u32::MAX)] {
            assert_eq!(parts(ops, &[5, 1, 9, 2]).iter().sum::<u64>(), ops);
        }
    }

    #[test]
    fn works_are_two_or_more_numbers() {
        assert_eq!(works("1,1,3"), Ok(Works(vec![1, 1, 3])));
        for text in ["", "1", "0,1", "1,,2", "1,-1", "1,x", "1,1000001"] {
            assert!(works(text).is_err(), "{text}");
        }
    }
}
