//! The memory hog: random places of a large buffer, one 64-byte line an access.
//!
//! Before it runs it tries its own pattern: walking the buffer must cost at least half of what
//! reading memory costs. What memory costs is measured by another way through the same buffer, a
//! chain whose next place is a hash of what was read, which is slow but leaves nothing to guess.

use std::hint::black_box;
use std::time::Duration;

use anyhow::bail;
use base::Bytes;

use super::Account;
use super::budget::Budget;
use super::memory::{self, Buffer, LINE_BYTES, Room};
use super::walk::Walk;
use super::workers::{self, Part, least_cpu_time};
use crate::command_result::{CommandResult, OrUsageError};
use crate::input;

/// Options of `load hog`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    budget: Budget,
    #[command(flatten)]
    room: Room,
    /// Size of the buffer of all threads together (default: four times the last-level cache, at
    /// least 64 MB, at most free memory / (4 x copies))
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,
    /// Change each line after reading it, so that lines are written back too
    #[arg(long)]
    write: bool,
    /// Independent chains of accesses in each thread: how many misses are under way at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = input::whole::<u32>(1..=64), allow_hyphen_values = true)]
    mlp: u32,
}

/// A cache line. The first word is always zero and is what chains wait for; the second counts writes.
#[derive(Clone, Default)]
#[repr(align(64))]
struct Line([u64; 8]);

/// One thread's buffer and its walks through it.
pub(crate) struct Hog {
    lines: Vec<Line>,
    chains: Vec<(Walk, u64)>,
    write: bool,
}

impl Hog {
    /// A buffer of which every page has been written.
    pub(crate) fn new(size: Bytes, n_chains: u32, write: bool) -> Self {
        let n_lines = (size.0 / LINE_BYTES).max(1) as usize;
        let mut lines = vec![Line::default(); n_lines];
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

    /// CPU time of one access of a single chain.
    fn time_per_access(&self) -> Duration {
        let mut walk = Walk::new(self.lines.len(), 0, 1);
        let mut loaded = 0;
        least_cpu_time(TRIES, || {
            for _ in 0..TRY_ACCESSES {
                loaded = black_box(self.lines[walk.next(loaded)].0[0]);
            }
        }) / TRY_ACCESSES
    }

    /// CPU time of one access to the first `n_lines` lines along a chain that nothing can foresee.
    fn time_per_hashed_access(&self, n_lines: usize) -> Duration {
        let lines = &self.lines[..n_lines.min(self.lines.len())];
        let mut place: u64 = 1;
        least_cpu_time(TRIES, || {
            for _ in 0..TRY_ACCESSES {
                place = (place ^ (place >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                let line_idx = (u128::from(place) * lines.len() as u128) >> 64;
                place = place.wrapping_add(1 + black_box(lines[line_idx as usize].0[0]));
            }
        }) / TRY_ACCESSES
    }
}

/// Tries of each figure, of which the least counts.
const TRIES: u32 = 3;
/// Accesses of one try: some milliseconds.
const TRY_ACCESSES: u32 = 1 << 16;
/// 16 KiB, which every first-level cache holds.
const NEAR_LINES: usize = 256;
/// Memory must cost at least so many times what the first-level cache costs, else the buffer is not
/// in memory at all. Guessed low: it is 10 and more on everything we have seen.
const MEMORY_TO_CACHE_MIN: u32 = 3;

/// The share of accesses that must miss (spec 1.9).
const MISS_SHARE_MIN: f64 = 0.5;

impl Part for Hog {
    const BATCH_OPS: u64 = 2048;

    fn work(&mut self, ops: u64) {
        let n_chains = self.chains.len();
        (0..ops).for_each(|op| self.access(op as usize % n_chains));
    }
}

/// What the self-check measured, in CPU time per access.
struct Measured {
    walk: Duration,
    memory: Duration,
    cache: Duration,
}

/// What can be known to be wrong without trying.
pub(crate) fn check(args: &Args) -> anyhow::Result<()> {
    check_buffer(&args.room, &args.room.buffer(args.size, args.budget.threads)?)
}

pub(crate) fn main(args: &Args) -> CommandResult {
    let buffer = args.room.buffer(args.size, args.budget.threads).or_usage_error()?;
    let Buffer { size, llc, .. } = buffer;
    let mut account = Account::new("hog", args.budget.json);
    account.say(&headline(args, size, llc))?;
    account.note("buffer_bytes", size.0);
    account.note("llc_bytes", llc.map(|size| size.0));
    account.note("copies", args.room.copies);
    account.note("threads", args.budget.threads);
    account.note("mlp", args.mlp);
    account.note("write", args.write);
    try_pattern(&args.room, &buffer, &mut account)?;
    let own = Bytes(size.0 / u64::from(args.budget.threads));
    let done = workers::run(&args.budget, |_| Hog::new(own, args.mlp, args.write));
    account.end(&done, "accesses")?;
    Ok(())
}

fn headline(args: &Args, size: Bytes, llc: Option<Bytes>) -> String {
    format!(
        "buffer {size}, last-level cache {}, copies {}, threads {}, chains {}, {}",
        memory::shown(llc),
        args.room.copies,
        args.budget.threads,
        args.mlp,
        if args.write { "reads and writes" } else { "reads" }
    )
}

/// Tries whether the pattern is a hog's, unless that is not wanted, and notes what was found.
pub(crate) fn try_pattern(
    room: &Room,
    buffer: &Buffer,
    account: &mut Account,
) -> anyhow::Result<()> {
    if room.no_self_check {
        return Ok(());
    }
    check_buffer(room, buffer)?;
    account.note("miss_share_expected", buffer.miss_share);
    let found = self_check(buffer.size)?;
    account.note("check_access_ns", found.walk.as_nanos() as u64);
    account.note("check_memory_ns", found.memory.as_nanos() as u64);
    account.say(&format!("self-check: {}", found.text()))?;
    Ok(())
}

/// Refuses a buffer of which the cache would hold too much.
pub(crate) fn check_buffer(room: &Room, buffer: &Buffer) -> anyhow::Result<()> {
    let Buffer { size, miss_share, .. } = buffer;
    if !room.no_self_check && *miss_share < MISS_SHARE_MIN {
        bail!(
            "a buffer of {size} would miss the cache in {:.0} % of accesses or less, and a hog needs \
             50 %; use a larger --size, or --no-self-check to run it all the same",
            (miss_share * 100.0).max(0.0)
        );
    }
    Ok(())
}

/// Refuses a pattern that would not be a hog's.
fn self_check(size: Bytes) -> anyhow::Result<Measured> {
    let hog = Hog::new(size, 1, false);
    let found = Measured {
        walk: hog.time_per_access(),
        memory: hog.time_per_hashed_access(usize::MAX),
        cache: hog.time_per_hashed_access(NEAR_LINES),
    };
    match found.is_hog() {
        true => Ok(found),
        false => bail!(
            "the pattern does not cost what it should: {}; use a larger --size, or --no-self-check \
             to run it all the same",
            found.text()
        ),
    }
}

impl Measured {
    fn is_hog(&self) -> bool {
        self.memory <= 2 * self.walk && MEMORY_TO_CACHE_MIN * self.cache <= self.memory
    }

    fn text(&self) -> String {
        let ns = |time: Duration| time.as_nanos();
        let (walk, memory, cache) = (ns(self.walk), ns(self.memory), ns(self.cache));
        format!("{walk} ns an access (memory {memory} ns, first-level cache {cache} ns)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(walk: u64, memory: u64, cache: u64) -> Measured {
        let [walk, memory, cache] = [walk, memory, cache].map(Duration::from_nanos);
        Measured { walk, memory, cache }
    }

    #[test]
    fn a_hog_pays_at_least_half_the_price_of_memory() {
        assert!(measured(50, 100, 7).is_hog());
        assert!(!measured(49, 100, 7).is_hog());
    }

    #[test]
    fn a_buffer_as_fast_as_the_first_cache_is_not_in_memory() {
        assert!(!measured(7, 8, 7).is_hog());
    }

    #[test]
    fn a_buffer_that_the_cache_would_hold_is_refused_with_the_figure() {
        let refused = |no_self_check| {
            let room = Room { copies: 1, llc: None, no_self_check };
            let buffer = Buffer { size: Bytes::from_mib(8), llc: None, miss_share: 0.2 };
            check_buffer(&room, &buffer).err().map(|error| error.to_string())
        };
        assert!(refused(false).is_some_and(|error| error.contains("20 %")));
        assert_eq!(refused(true), None);
    }

    #[test]
    fn writing_changes_a_line_a_time_and_reading_none() {
        for (write, changed) in [(false, 0), (true, 10)] {
            let mut hog = Hog::new(Bytes::from_kib(64), 2, write);
            hog.work(10);
            assert_eq!(hog.lines.iter().filter(|line| line.0[1] != 1).count(), changed);
            assert!(hog.lines.iter().all(|line| line.0[0] == 0), "chains wait for a zero");
        }
    }
}
