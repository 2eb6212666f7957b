//! Cost of a counter sample of a task.
//!
//! A sample consists of one `read()` of a group of four software events, the parsing of the values, and their
//! accumulation. The benchmark alternates the sample with three other operations: the `read()` alone; the cheapest
//! system call (`getppid`), which makes the value comparable between machines; and one read of the task's `schedstat`,
//! which every sample of a task needs.

use std::hint::black_box;

use anyhow::Context;
use linux::perf::{CounterGroup, CounterTarget, Flags, GROUP_BUFFER, GroupSpec, software};
use linux::source::Live;
use linux::tasks::TaskGroups;
use sched::Counters;

use crate::ab::PairedRuns;
use crate::stats::{MedianRange, thread_cpu_time};

const ROUNDS: usize = 11;
const READS: u32 = 20_000;

/// CPU times in nanoseconds.
struct Costs {
    /// The cheapest system call, and a counter sample.
    pairs: PairedRuns,
    /// The `read()` of the sample alone.
    read: MedianRange,
    schedstat: MedianRange,
}

pub fn main() -> anyhow::Result<()> {
    let Some(Costs { pairs, read, schedstat }) = measure()? else { return Ok(()) };
    println!("| operation | ns of CPU time: median (low to high) of {ROUNDS} rounds | target |");
    println!("| --- | --- | --- |");
    println!("| a counter sample: group of 4 software events | {:.0} | 500 |", pairs.b());
    println!("| the `read()` of the sample alone | {read:.0} | |");
    println!("| one read of schedstat | {schedstat:.0} | |");
    println!("| the cheapest system call | {:.0} | |", pairs.a());
    let ratio = MedianRange::of(pairs.ratios());
    println!("| a counter sample / the cheapest system call | {ratio:.1} | |");
    Ok(())
}

/// Measures a sample of a task: its counter group and its schedstat, in nanoseconds. `None` if events cannot be opened.
pub fn task_sample_ns() -> anyhow::Result<Option<[f64; 2]>> {
    let costs = measure()?;
    Ok(costs.map(|costs| [costs.pairs.b().median, costs.schedstat.median]))
}

/// Measures all operations alternately. Prints the cause and returns `None` if events cannot be opened.
fn measure() -> anyhow::Result<Option<Costs>> {
    let mut source = Live::default();
    let software_events = [&software(Flags::default())];
    let (groups, rejected) = TaskGroups::open(&mut source, 0, software_events, false);
    if let Some(error) = rejected {
        println!("skipped: cannot open software events of a task ({error})");
        return Ok(None);
    }
    let schedstat = linux::procfs::open("/proc/thread-self/schedstat".as_ref())
        .context("cannot open /proc/thread-self/schedstat")?;
    let group = group()?;
    let mut pairs = PairedRuns::default();
    let (mut reads, mut files, mut last) = (Vec::new(), Vec::new(), Counters::NONE);
    for _ in 0..ROUNDS {
        let sample = ns_each(|| {
            let now = groups.read(&mut source);
            black_box(engine::deltas_between(&now, &last));
            last = now;
        });
        reads.push(ns_each(|| {
            let mut buffer = GROUP_BUFFER;
            let _ = black_box(group.read(&mut buffer).map(<[u8]>::len));
        }));
        pairs.push(ns_each(|| _ = black_box(rustix::process::getppid())), sample);
        files.push(ns_each(|| {
            let mut buffer = [0; 96];
            let _ = black_box(linux::procfs::read_again(&schedstat, &mut buffer).map(<[u8]>::len));
        }));
    }
    Ok(Some(Costs { pairs, read: MedianRange::of(reads), schedstat: MedianRange::of(files) }))
}

/// Opens the counter group without the mapping, for `read()` only.
fn group() -> anyhow::Result<CounterGroup> {
    let events = software(Flags::default()).groups.concat().into_iter();
    let named = events.map(|(event, attr)| (event.name().to_owned(), attr)).collect();
    CounterGroup::open(&GroupSpec { target: CounterTarget::Task(0), events: named }, 0)
        .context("cannot open the group")
}

fn ns_each(mut run: impl FnMut()) -> f64 {
    let before = thread_cpu_time();
    for _ in 0..READS {
        run();
    }
    thread_cpu_time().saturating_sub(before).as_secs_f64() * 1e9 / f64::from(READS)
}
