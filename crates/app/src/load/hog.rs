//! The memory hog: random accesses to a large buffer, one 64-byte line each.
//!
//! A self-check runs first: an access of the walk must cost at least half of a memory access. The cost of a memory
//! access is measured with another pattern in the same buffer: a chain whose next index is a hash of the loaded value.
//! Prefetchers cannot predict this chain. The hash makes the chain too slow for the walk itself.

use std::hint::black_box;
use std::time::Duration;

use anyhow::bail;
use base::{Bytes, LINE_BYTES};

use super::LoadReport;
use super::budget::{self, Budget, WorkerTask, least_cpu_time};
use super::memory::{self, Buffer, BufferOptions};
use super::walk::Walk;
use crate::command_result::{CommandResult, OrUsageError};
use crate::input;

/// Options of `load hog`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    budget: Budget,
    #[command(flatten)]
    options: BufferOptions,
    /// Set the total buffer size of all threads (default: four times the last-level cache, at least 64 MB, at most
    /// free memory / (4 x copies))
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,
    /// Write each line after reading it, so that lines are written back
    #[arg(long)]
    write: bool,
    /// Set the number of independent access chains per thread, that is, of concurrent misses
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = input::integer::<u32>(1..=64), allow_hyphen_values = true)]
    mlp: u32,
}

/// A cache line. The first word is always zero; the next index of a chain depends on the first word. The second word
/// counts writes.
#[derive(Clone, Default)]
#[repr(align(64))]
struct CacheLine([u64; 8]);

/// Buffer of one thread and its walks.
pub(crate) struct Hog {
    lines: Vec<CacheLine>,
    chains: Vec<(Walk, u64)>,
    write: bool,
}

impl Hog {
    /// Allocates a buffer and writes every page.
    pub(crate) fn new(size: Bytes, n_chains: u32, write: bool) -> Self {
        let n_lines = (size.0 / LINE_BYTES).max(1) as usize;
        let mut lines = vec![CacheLine::default(); n_lines];
        lines.iter_mut().for_each(|line| line.0[1] = black_box(1));
        let chains = (0..n_chains).map(|idx| (Walk::new(n_lines, idx, n_chains), 0)).collect();
        Hog { lines, chains, write }
    }

    fn access(&mut self, chain_idx: usize) {
        let (walk, loaded) = &mut self.chains[chain_idx];
        let line = &mut self.lines[walk.next(*loaded)].0;
        *loaded = black_box(line[0]);
        if self.write {
            line[1] = black_box(line[1].wrapping_add(1));
        }
    }

    /// Measures the CPU time of one access of a single chain.
    fn time_per_access(&self) -> Duration {
        let mut walk = Walk::new(self.lines.len(), 0, 1);
        let mut loaded = 0;
        least_cpu_time(N_REPETITIONS, || {
            for _ in 0..ACCESSES_PER_REPETITION {
                loaded = black_box(self.lines[walk.next(loaded)].0[0]);
            }
        }) / ACCESSES_PER_REPETITION
    }

    /// Measures the CPU time of one access to the first `n_lines` lines along an unpredictable chain.
    fn time_per_hashed_access(&self, n_lines: usize) -> Duration {
        let lines = &self.lines[..n_lines.min(self.lines.len())];
        let mut place: u64 = 1;
        least_cpu_time(N_REPETITIONS, || {
            for _ in 0..ACCESSES_PER_REPETITION {
                place = (place ^ (place >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                let line_idx = (u128::from(place) * lines.len() as u128) >> 64;
                place = place.wrapping_add(1 + black_box(lines[line_idx as usize].0[0]));
            }
        }) / ACCESSES_PER_REPETITION
    }
}

/// Repetitions of a measurement. The result is the minimum.
const N_REPETITIONS: u32 = 3;
/// Accesses per repetition, which take a few milliseconds.
const ACCESSES_PER_REPETITION: u32 = 1 << 16;
/// A buffer of 16 KiB, which fits every L1 cache.
const NEAR_LINES: usize = 256;
/// Minimum ratio of a memory access to an L1 access. Below this ratio the buffer is not in memory. Guessed: measured
/// machines have a ratio of 10 or more.
const MEMORY_TO_CACHE_MIN: u32 = 3;

/// Minimum share of accesses that miss the last-level cache.
const MISS_SHARE_MIN: f64 = 0.5;

impl WorkerTask for Hog {
    const BATCH_OPS: u64 = 2048;

    fn work(&mut self, ops: u64) {
        let n_chains = self.chains.len();
        (0..ops).for_each(|op| self.access(op as usize % n_chains));
    }
}

/// CPU time per access in the self-check.
struct AccessTimes {
    walk: Duration,
    memory: Duration,
    cache: Duration,
}

/// Checks the arguments without running the program.
pub(crate) fn check(args: &Args) -> anyhow::Result<()> {
    check_buffer(&args.options, &args.options.buffer(args.size, args.budget.threads)?)
}

pub(crate) fn main(args: &Args) -> CommandResult {
    let buffer = args.options.buffer(args.size, args.budget.threads).or_usage_error()?;
    let Buffer { size, llc, .. } = buffer;
    let mut report = LoadReport::new("hog", args.budget.json);
    report.print(&headline(args, size, llc))?;
    report.add("buffer_bytes", size.0);
    report.add("llc_bytes", llc.map(|size| size.0));
    report.add("copies", args.options.copies);
    report.add("threads", args.budget.threads);
    report.add("mlp", args.mlp);
    report.add("write", args.write);
    run_self_check(&args.options, &buffer, &mut report)?;
    let per_thread = Bytes(size.0 / u64::from(args.budget.threads));
    let work = budget::run(&args.budget, |_| Hog::new(per_thread, args.mlp, args.write))?;
    report.end(&work, "accesses")?;
    Ok(())
}

fn headline(args: &Args, size: Bytes, llc: Option<Bytes>) -> String {
    format!(
        "buffer {size}, last-level cache {}, copies {}, threads {}, chains {}, {}",
        memory::cache_text(llc),
        args.options.copies,
        args.budget.threads,
        args.mlp,
        if args.write { "reads and writes" } else { "reads" }
    )
}

/// Runs the self-check unless disabled, and adds its result to the report.
pub(crate) fn run_self_check(
    options: &BufferOptions,
    buffer: &Buffer,
    report: &mut LoadReport,
) -> anyhow::Result<()> {
    if options.no_self_check {
        return Ok(());
    }
    check_buffer(options, buffer)?;
    report.add("miss_share_expected", buffer.miss_share);
    let found = self_check(buffer.size)?;
    report.add("check_access_ns", found.walk.as_nanos() as u64);
    report.add("check_memory_ns", found.memory.as_nanos() as u64);
    report.print(&format!("self-check: {}", found.text()))?;
    Ok(())
}

/// Rejects a buffer if too large a part of the buffer fits the cache.
pub(crate) fn check_buffer(options: &BufferOptions, buffer: &Buffer) -> anyhow::Result<()> {
    let Buffer { size, miss_share, .. } = buffer;
    if !options.no_self_check && *miss_share < MISS_SHARE_MIN {
        bail!(
            "at most {} of accesses to a buffer of {size} would miss the cache; a hog needs 50 %; use a \
             larger --size, or --no-self-check",
            report::format::percent(miss_share.max(0.0))
        );
    }
    Ok(())
}

/// Rejects an access pattern that does not miss the caches.
fn self_check(size: Bytes) -> anyhow::Result<AccessTimes> {
    let hog = Hog::new(size, 1, false);
    let found = AccessTimes {
        walk: hog.time_per_access(),
        memory: hog.time_per_hashed_access(usize::MAX),
        cache: hog.time_per_hashed_access(NEAR_LINES),
    };
    match found.is_hog() {
        true => Ok(found),
        false => bail!(
            "the accesses are too fast for memory: {}; use a larger --size, or --no-self-check",
            found.text()
        ),
    }
}

impl AccessTimes {
    fn is_hog(&self) -> bool {
        self.memory <= 2 * self.walk && MEMORY_TO_CACHE_MIN * self.cache <= self.memory
    }

    fn text(&self) -> String {
        let ns = |time: Duration| time.as_nanos();
        let (walk, memory, cache) = (ns(self.walk), ns(self.memory), ns(self.cache));
        format!("{walk} ns per access (memory {memory} ns, L1 cache {cache} ns)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(walk: u64, memory: u64, cache: u64) -> AccessTimes {
        let [walk, memory, cache] = [walk, memory, cache].map(Duration::from_nanos);
        AccessTimes { walk, memory, cache }
    }

    #[test]
    fn an_access_costs_at_least_half_of_a_memory_access() {
        assert!(measured(50, 100, 7).is_hog());
        assert!(!measured(49, 100, 7).is_hog());
    }

    #[test]
    fn a_buffer_as_fast_as_the_l1_cache_is_rejected() {
        assert!(!measured(7, 8, 7).is_hog());
    }

    #[test]
    fn a_buffer_that_fits_the_cache_is_rejected_with_its_miss_share() {
        let rejected = |no_self_check| {
            let options = BufferOptions { copies: 1, llc: None, no_self_check };
            let buffer = Buffer { size: Bytes::from_mib(8), llc: None, miss_share: 0.2 };
            check_buffer(&options, &buffer).err().map(|error| error.to_string())
        };
        assert!(rejected(false).is_some_and(|error| error.contains("20 %")));
        assert_eq!(rejected(true), None);
    }

    #[test]
    fn each_write_changes_one_line_and_reads_change_none() {
        for (write, changed) in [(false, 0), (true, 10)] {
            let mut hog = Hog::new(Bytes::from_kib(64), 2, write);
            hog.work(10);
            assert_eq!(hog.lines.iter().filter(|line| line.0[1] != 1).count(), changed);
            assert!(hog.lines.iter().all(|line| line.0[0] == 0), "chains depend on a zero");
        }
    }
}
