//! Cost of a counter sample of a task.
//!
//! A sample is one `read()` of a group of four software events, its parsing and its accumulation. For comparison,
//! alternately: the `read()` alone, the cheapest system call (`getppid`), which makes the value portable to other machines, and
//! one read of the task's `schedstat`, which evenkeel performs anyway.

use std::hint::black_box;
use std::time::Instant;

use anyhow::Context;
use linux::perf::{CounterGroup, CounterTarget, Flags, GROUP_BUFFER, GroupSpec, software};
use linux::source::Live;
use linux::tasks::TaskGroups;
use sched::Counters;

use crate::stats::MedianRange;

const ROUNDS: usize = 11;
const READS: u32 = 20_000;

pub fn main() -> anyhow::Result<()> {
    let mut source = Live::default();
    let software_events = [&software(Flags::default())];
    let (groups, rejected) = TaskGroups::open(&mut source, 0, software_events, false);
    if let Some(error) = rejected {
        println!("skipped: cannot open software events of a task ({error})");
        return Ok(());
    }
    let schedstat = linux::procfs::open("/proc/thread-self/schedstat".as_ref())
        .context("cannot open /proc/thread-self/schedstat")?;
    let bare = bare()?;
    let (mut samples, mut reads, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    let (mut files, mut last) = (Vec::new(), Counters::NONE);
    for _ in 0..ROUNDS {
        samples.push(ns_each(|| {
            let now = groups.read(&mut source);
            black_box(engine::deltas_between(&now, &last));
            last = now;
        }));
        reads.push(ns_each(|| {
            let mut buffer = GROUP_BUFFER;
            let _ = black_box(bare.read(&mut buffer).map(<[u8]>::len));
        }));
        calls.push(ns_each(|| _ = black_box(rustix::process::getppid())));
        files.push(ns_each(|| {
            let mut buffer = [0; 96];
            let _ = black_box(linux::procfs::read_again(&schedstat, &mut buffer).map(<[u8]>::len));
        }));
    }
    let ratio: Vec<f64> = samples.iter().zip(&calls).map(|(sample, call)| sample / call).collect();
    println!("| operation | ns: median (low to high) of {ROUNDS} rounds | target |");
    println!("| --- | --- | --- |");
    println!(
        "| a counter sample: group of 4 software events | {:.0} | 500 |",
        MedianRange::of(samples)
    );
    println!("| its `read()` alone | {:.0} | |", MedianRange::of(reads));
    println!("| one read of schedstat | {:.0} | |", MedianRange::of(files));
    println!("| the cheapest system call | {:.0} | |", MedianRange::of(calls));
    println!("| a counter sample / the cheapest system call | {:.1} | |", MedianRange::of(ratio));
    Ok(())
}

/// The same group, only for `read()`.
fn bare() -> anyhow::Result<CounterGroup> {
    let events = software(Flags::default()).groups.concat().into_iter();
    let named = events.map(|(event, attr)| (event.name().to_owned(), attr)).collect();
    CounterGroup::open(&GroupSpec { target: CounterTarget::Task(0), events: named }, 0)
        .context("cannot open the group")
}

fn ns_each(mut run: impl FnMut()) -> f64 {
    let begin = Instant::now();
    for _ in 0..READS {
        run();
    }
    begin.elapsed().as_secs_f64() * 1e9 / f64::from(READS)
}
