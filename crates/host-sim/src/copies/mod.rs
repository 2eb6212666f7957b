//! How much slower a program gets beside copies of itself, from a few figures of it alone.
//!
//! The published figures of SPEC CPU2006 hold no miss-ratio curves, so a curve of one free length `s` is
//! assumed for each program, fitted on the slow-down of 8 copies and judged on those of 2 and 4:
//!
//! ```text
//!   misses │╲                 mpki(c) = MPKI + (APKI − MPKI) × f(c)  below the cache C
//!          │ ╲__              f falls as exp(−c / s), from 1 at no cache to 0 at C
//!          │    ╲______
//!          └──────────┴─► c
//!        C/8  C/4  C/2  C     k copies have C / k each
//! ```
//!
//! This is a model of its own beside the room's physics: the table tells too little for that one.
//! Constants are those of the machine that the figures come from, as far as it is known.

mod table;

pub use table::{Measured, measured};

/// Bytes of last-level cache of the machine, in MiB. Guessed: it is said to be 20 to 25.
pub const CACHE_MIB: f64 = 20.0;
/// Cycles in a second. Fits bandwidth, misses and instructions per cycle together.
pub const CLOCK: f64 = 2.4e9;
/// Cycles of a miss when nobody else asks. Assumed.
pub const MEMORY_CYCLES: f64 = 200.0;
/// Cycles of a hit. Assumed.
const HIT_CYCLES: f64 = 40.0;
/// Bytes in a second of the memory that the copies share. Fitted; 58e9 is seen in the data.
const BANDWIDTH: f64 = 80e9;
/// A use beyond which the queue's formula tells nothing.
const USE_MAX: f64 = 0.98;
/// Bytes for each miss are not told well where hardly anything misses: below so many per 1000 ...
const MISSES_FEW: f64 = 0.3;
/// ... this is taken.
const BYTES_WHERE_FEW: f64 = 128.0;
/// Most accesses under way at a time that a stall can tell.
const OVERLAP_MAX: f64 = 16.0;
/// Cycles per instruction that the core itself needs at least.
const CORE_CYCLES_MIN: f64 = 0.05;

/// What is known of a program alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alone {
    /// Instructions per cycle.
    pub ipc: f64,
    /// Misses of the last-level cache per 1000 instructions.
    pub mpki: f64,
    /// Its accesses per 1000 instructions.
    pub apki: f64,
    /// Bytes in a second between cache and memory.
    pub bandwidth: f64,
    /// The part of all cycles in which it waits with an access under way.
    pub stall_share: f64,
}

impl Alone {
    /// Cycles per instruction that it would wait if nothing overlapped.
    fn waits(&self) -> f64 {
        (self.mpki * MEMORY_CYCLES + (self.apki - self.mpki) * HIT_CYCLES) / 1000.0
    }

    /// Accesses under way at a time: what all would wait for one after the other, through what it stalls.
    pub fn overlap(&self) -> f64 {
        (self.waits() * self.ipc / self.stall_share).clamp(1.0, OVERLAP_MAX)
    }

    /// Bytes that are moved for each miss: its line, what is written back, and what prefetchers read.
    pub fn bytes_per_miss(&self) -> f64 {
        match self.mpki <= MISSES_FEW {
            true => BYTES_WHERE_FEW,
            false => (self.bandwidth / (CLOCK * self.ipc * self.mpki / 1000.0)).clamp(64.0, 400.0),
        }
    }
}

/// Misses per 1000 instructions with so many MiB and a curve of the length `s` MiB.
pub fn falling(apki: f64, mpki: f64, mib: f64, s: f64) -> f64 {
    if CACHE_MIB <= mib {
        return mpki;
    }
    let end = libm::exp(-CACHE_MIB / s);
    mpki + (apki - mpki) * (libm::exp(-mib / s) - end) / (1.0 - end)
}

/// A program as the formulas see it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Copied {
    alone: Alone,
    overlap: f64,
    core_cycles: f64,
    bytes_per_miss: f64,
}

impl Copied {
    /// What follows from the figures alone.
    pub fn new(alone: Alone) -> Self {
        let cycles = 1.0 / alone.ipc;
        let overlap = alone.overlap();
        let core_cycles = (cycles - alone.waits() / overlap).max(CORE_CYCLES_MIN);
        Copied { alone, overlap, core_cycles, bytes_per_miss: alone.bytes_per_miss() }
    }

    /// Times as long as alone, with so many copies and a curve of the length `s` MiB.
    pub fn slowdown(&self, n_copies: u32, s: f64) -> f64 {
        let alone = &self.alone;
        let n_copies = f64::from(n_copies);
        let mpki = self.mpki(CACHE_MIB / n_copies, s);
        let (cycles_alone, queue_alone) = (1.0 / alone.ipc, {
            let asks = CLOCK * alone.ipc * alone.mpki / 1000.0 * self.bytes_per_miss;
            queue(asks / BANDWIDTH)
        });
        let moved = n_copies * mpki / 1000.0 * self.bytes_per_miss * CLOCK;
        let mut cycles = cycles_alone;
        for _ in 0..N_ROUNDS {
            let latency =
                MEMORY_CYCLES * (1.0 + 0.5 * (queue(moved / cycles / BANDWIDTH) - queue_alone));
            let waits = (mpki * latency + (alone.apki - mpki) * HIT_CYCLES) / 1000.0;
            let next = (self.core_cycles + waits / self.overlap).max(moved / BANDWIDTH);
            cycles += DAMPING * (next - cycles);
        }
        cycles / cycles_alone
    }

    /// Misses per 1000 instructions with so many MiB.
    fn mpki(&self, mib: f64, s: f64) -> f64 {
        falling(self.alone.apki, self.alone.mpki, mib, s)
    }

    /// The length in MiB with which so many copies are slowed down most nearly as was measured.
    pub fn fit(&self, n_copies: u32, slowdown: f64) -> f64 {
        let off = |s: &f64| (self.slowdown(n_copies, *s) - slowdown).abs();
        let lengths = (0..N_LENGTHS).map(|idx| CACHE_MIB / RATIO_MIN / libm::pow(STEP, idx as f64));
        let best = lengths.min_by(|one, other| off(one).total_cmp(&off(other)));
        best.unwrap_or(CACHE_MIB)
    }
}

/// Rounds until cycles and use go together.
const N_ROUNDS: usize = 400;
/// The part of a change that is taken.
const DAMPING: f64 = 0.3;
/// Lengths tried: from 4 caches down to a sixtieth of one, in steps of two percent.
const N_LENGTHS: usize = 280;
const RATIO_MIN: f64 = 0.25;
const STEP: f64 = 1.02;

fn queue(in_use: f64) -> f64 {
    let in_use = in_use.min(USE_MAX);
    in_use * in_use / (1.0 - in_use)
}

/// A program's slow-down fitted on 8 copies, beside what was measured at fewer.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// Which program.
    pub program: String,
    /// The length fitted, in MiB.
    pub s: f64,
    /// Copies, measured, told by the formulas.
    pub rows: Vec<(u32, f64, f64)>,
}

impl Judged {
    /// The largest difference, at any number of copies.
    pub fn off(&self) -> f64 {
        self.rows.iter().map(|(_, measured, told)| (measured - told).abs()).fold(0.0, f64::max)
    }
}

/// Every program that has a slow-down at 8 copies, fitted there and judged at 2 and 4.
pub fn judge(programs: &[Measured]) -> Vec<Judged> {
    let judged = |its: &Measured| {
        let copied = Copied::new(its.alone);
        let s = copied.fit(8, its.slowdown(8)?);
        let row = |n: u32| Some((n, its.slowdown(n)?, copied.slowdown(n, s)));
        let rows = [2, 4].into_iter().filter_map(row).collect();
        Some(Judged { program: its.program.clone(), s, rows })
    };
    programs.iter().filter_map(judged).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = include_str!("../../../../workloads/data/benchmarks.csv");

    fn all() -> Vec<Measured> {
        measured(TABLE, "benchmarks.csv").expect("it is sound")
    }

    #[test]
    fn fitted_on_eight_copies_it_is_right_on_two_and_four_for_eighteen_of_twenty_four() {
        let judged = judge(&all());
        let n_right = judged.iter().filter(|its| its.off() <= 0.10).count();
        assert_eq!((n_right, judged.len()), (19, 24), "{judged:#?}");
    }

    #[test]
    fn the_programs_that_are_off_are_those_of_the_published_check() {
        let off: Vec<_> = judge(&all()).into_iter().filter(|its| 0.10 < its.off()).collect();
        let off: Vec<&str> = off.iter().map(|its| its.program.as_str()).collect();
        let known = ["433.milc", "459.GemsFDTD", "462.libquantum", "471.omnetpp", "483.xalancbmk"];
        assert_eq!(off, known);
    }

    #[test]
    fn one_copy_is_not_slowed_down() {
        for its in all() {
            let slowdown = Copied::new(its.alone).slowdown(1, 5.0);
            // Where the core needs more than is left, cycles alone are not met.
            assert!((slowdown - 1.0).abs() < 0.02, "{}: {slowdown}", its.program);
        }
    }

    #[test]
    fn more_copies_are_never_faster() {
        for its in all() {
            let copied = Copied::new(its.alone);
            for s in [0.5, 2.0, 10.0, 40.0] {
                let each = [1, 2, 4, 8].map(|n| copied.slowdown(n, s));
                assert!(each.windows(2).all(|two| two[0] <= two[1] + 1e-9), "{each:?}");
            }
        }
    }
}
