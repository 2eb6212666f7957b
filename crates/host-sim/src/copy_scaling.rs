//! Slowdown of a program that runs together with copies of the same program, computed from the counters of one copy
//! alone.
//!
//! The published values of SPEC CPU2006 contain no miss-ratio curves. Each program therefore gets a curve with one free
//! parameter `s`. It is fitted to the slowdown of 8 copies and validated on the slowdowns of 2 and 4 copies:
//!
//! ```text
//!   misses │╲                 mpki(c) = MPKI + (APKI − MPKI) × f(c)  for c below the cache size C
//!          │ ╲__              f(c) falls as exp(−c / s), from 1 without cache to 0 at C
//!          │    ╲______
//!          └──────────┴─► c
//!        C/8  C/4  C/2  C     each of k copies has C / k
//! ```
//!
//! The slowdowns are those of the physics of this crate ([`crate::predict`]), on the machine of the published values as
//! far as it is known. Its memory has the loaded latency that the simulator assumes for servers.

use std::collections::BTreeMap;

use topology::Replacement;

use crate::csv_table::{CsvError, CsvRow, CsvTable};
use crate::hardware::assumed_loaded_latency;
use crate::physics::{
    Calibration, Channel, CoreSpeed, CpiModel, LINE, LoadCurve, MissCurve, MissPoint,
    StreamEfficiency,
};
use crate::predict::{CacheDomain, CacheLimits, predict_together};

/// Last-level cache of the machine in MiB. Guessed; publications state 20 to 25.
pub const CACHE_MIB: f64 = 20.0;
/// Frequency in Hz. The value is consistent with bandwidth, misses and instructions per cycle.
pub const CLOCK: f64 = 2.4e9;
/// Unloaded miss latency in cycles (assumed).
pub const MEMORY_CYCLES: f64 = 200.0;
/// Hit latency in cycles (assumed), also of [`CoreSpeed::HIT_NS`].
const HIT_CYCLES: f64 = 40.0;
/// Achievable bandwidth of the memory in bytes per second: the throughput of eight copies of 462.libquantum, the largest
/// in the table (eight times its bandwidth alone, divided by the slowdown). A lower bound: the memory may reach more.
pub const BANDWIDTH: f64 = 57.6e9;
/// Share of prefetches in the traffic beyond the missed lines: the middle of the range of the shipped profiles.
const PREFETCHED: f64 = 0.6;
/// Points of a curve below the cache size: two for each doubling.
const N_POINTS: i32 = 20;
/// Minimum number of misses per 1000 instructions for which the measured bytes per miss are reliable.
const RELIABLE_MPKI_MIN: f64 = 0.3;
/// Bytes per miss of a program with few misses.
const BYTES_PER_MISS_DEFAULT: f64 = 128.0;
/// Upper bound of the memory-level parallelism that is derived from stalls.
const OVERLAP_MAX: f64 = 16.0;
/// Smallest number of core cycles per instruction.
const CORE_CYCLES_MIN: f64 = 0.05;

/// Counters of a program alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CountersAlone {
    /// Instructions per cycle.
    pub ipc: f64,
    /// Misses of the last-level cache per 1000 instructions.
    pub mpki: f64,
    /// LLC accesses per 1000 instructions.
    pub apki: f64,
    /// Memory traffic in bytes per second.
    pub bandwidth: f64,
    /// Share of cycles that are stalled with an outstanding access.
    pub stall_share: f64,
}

impl CountersAlone {
    /// Returns the stall cycles per instruction if accesses did not overlap.
    fn serial_stall_cycles(&self) -> f64 {
        (self.mpki * MEMORY_CYCLES + (self.apki - self.mpki) * HIT_CYCLES) / 1000.0
    }

    /// Returns the memory-level parallelism: serial access latencies divided by stall cycles.
    pub fn overlap(&self) -> f64 {
        self.overlap_before_clamp().clamp(1.0, OVERLAP_MAX)
    }

    /// Returns the memory-level parallelism that may be outside the possible range, because the stalls of the table are
    /// rounded and contain only some of the waits.
    pub fn overlap_before_clamp(&self) -> f64 {
        self.serial_stall_cycles() * self.ipc / self.stall_share
    }

    /// Returns the bytes transferred per miss: the line, write-backs and prefetches.
    pub fn bytes_per_miss(&self) -> f64 {
        match self.mpki <= RELIABLE_MPKI_MIN {
            true => BYTES_PER_MISS_DEFAULT,
            false => (self.bandwidth / (CLOCK * self.ipc * self.mpki / 1000.0)).clamp(64.0, 400.0),
        }
    }
}

/// Returns the misses per 1000 instructions with a cache of `mib` MiB and a curve of length `s` MiB.
pub fn mpki_with_cache(apki: f64, mpki: f64, mib: f64, s: f64) -> f64 {
    if CACHE_MIB <= mib {
        return mpki;
    }
    let end = libm::exp(-CACHE_MIB / s);
    mpki + (apki - mpki) * (libm::exp(-mib / s) - end) / (1.0 - end)
}

/// A program in the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CopyModel {
    alone: CountersAlone,
    bandwidth: f64,
}

impl CopyModel {
    /// Returns the model of a program with these counters alone, on a memory with this bandwidth in bytes per second.
    pub fn new(alone: CountersAlone, bandwidth: f64) -> Self {
        CopyModel { alone, bandwidth }
    }

    /// Returns the run time with `n_copies` copies relative to the run time alone, for a curve of length `s` MiB.
    pub fn slowdown(&self, n_copies: usize, s: f64) -> f64 {
        let Some(program) = self.program(s) else { return 1.0 };
        let copies = vec![&program; n_copies];
        predict_together(&copies, &self.domain()).first().map_or(1.0, |copy| copy.slowdown)
    }

    /// Returns the cache and the memory of the machine.
    fn domain(&self) -> CacheDomain {
        CacheDomain {
            cache: CACHE_MIB * MIB,
            replacement: Replacement::default(),
            limits: CacheLimits::default(),
            channel: Channel {
                unloaded_ns: MEMORY_CYCLES / CLOCK * 1e9,
                capacity: self.bandwidth / 1e9,
                curve: LoadCurve::new(&assumed_loaded_latency()),
                streams: StreamEfficiency::CONSTANT,
            },
        }
    }

    /// Returns the program with a curve of length `s` MiB.
    fn program(&self, s: f64) -> Option<CpiModel> {
        let CountersAlone { ipc, mpki, apki, .. } = self.alone;
        let overlap = self.alone.overlap();
        let core_cycles = 1.0 / ipc - mpki * MEMORY_CYCLES / 1000.0 / overlap;
        let more_lines = self.alone.bytes_per_miss() / LINE - 1.0;
        let point = |mib: f64| {
            let misses = mpki_with_cache(apki, mpki, mib, s);
            let reads = misses * (1.0 + more_lines * PREFETCHED);
            MissPoint {
                misses: reads,
                reads,
                writes: misses * more_lines * (1.0 - PREFETCHED),
                ..MissPoint::of_demand(mib * MIB, misses)
            }
        };
        let sizes = (0..=N_POINTS).map(|at| CACHE_MIB * libm::exp2(-f64::from(at) / 2.0));
        let curve = MissCurve::new(sizes.map(point).collect(), point(0.0)).ok()?;
        let core = CoreSpeed { outstanding_max: OVERLAP_MAX, ..CoreSpeed::new(CLOCK / 1e9) };
        let parameters = Calibration::default().parameters(core);
        let core_cycles = core_cycles.max(CORE_CYCLES_MIN);
        Some(CpiModel::from_core_cycles(&curve, core_cycles, overlap, parameters))
    }

    /// Returns the curve length in MiB with the smallest error for a measured slowdown.
    pub fn fit(&self, n_copies: usize, slowdown: f64) -> f64 {
        let error = |s: &f64| (self.slowdown(n_copies, *s) - slowdown).abs();
        let lengths = (0..N_LENGTHS)
            .map(|idx| CACHE_MIB / CACHE_RATIO_MIN / libm::pow(LENGTH_STEP, idx as f64));
        let best = lengths.min_by(|one, other| error(one).total_cmp(&error(other)));
        best.unwrap_or(CACHE_MIB)
    }
}

/// Number of curve lengths that the fit tries: from four times the cache size down to a sixtieth, in steps of six
/// percent.
const N_LENGTHS: usize = 95;
const CACHE_RATIO_MIN: f64 = 0.25;
const LENGTH_STEP: f64 = 1.06;
const MIB: f64 = 1048576.0;

/// A program that was fitted to 8 copies, with its predictions for all numbers of copies.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyFit {
    /// The program.
    pub program: String,
    /// The fitted curve length in MiB.
    pub s: f64,
    /// Absolute error of the slowdown of 8 copies after the fit.
    pub fit_error: f64,
    /// Number of copies, measured slowdown, predicted slowdown.
    pub rows: Vec<(u32, f64, f64)>,
}

impl CopyFit {
    /// Returns the largest absolute error.
    pub fn max_error(&self) -> f64 {
        self.rows
            .iter()
            .map(|(_, measured, predicted)| (measured - predicted).abs())
            .fold(0.0, f64::max)
    }
}

/// Fits every program that has a slowdown with 8 copies, and validates the fit with 2 and 4 copies.
pub fn validate(programs: &[PublishedBenchmark], bandwidth: f64) -> Vec<CopyFit> {
    let fit = |benchmark: &PublishedBenchmark| {
        let model = CopyModel::new(benchmark.alone, bandwidth);
        let fitted_to = benchmark.slowdown(8)?;
        let s = model.fit(8, fitted_to);
        let fit_error = (model.slowdown(8, s) - fitted_to).abs();
        let row = |n: u32| Some((n, benchmark.slowdown(n)?, model.slowdown(n as usize, s)));
        let rows = [2, 4].into_iter().filter_map(row).collect();
        Some(CopyFit { program: benchmark.program.clone(), s, fit_error, rows })
    };
    programs.iter().filter_map(fit).collect()
}

/// A program in the table of published values, `workloads/data/benchmarks.csv`.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedBenchmark {
    /// Name of the program.
    pub program: String,
    /// Mean values over the inputs of the program.
    pub alone: CountersAlone,
    slowdowns: BTreeMap<u32, f64>,
}

impl PublishedBenchmark {
    /// Returns the measured run time with `n_copies` copies relative to the run time alone; `None` if it was not
    /// measured.
    pub fn slowdown(&self, n_copies: u32) -> Option<f64> {
        self.slowdowns.get(&n_copies).copied()
    }
}

/// Returns the programs that have all values of [`CountersAlone`], in the order of the table. The table has one row
/// per program and input.
///
/// # Errors
/// Returns an error if a column is missing, or if a cell is not a number.
pub fn parse_benchmarks(text: &str, file: &str) -> Result<Vec<PublishedBenchmark>, CsvError> {
    let table = CsvTable::read(text, file)?;
    let mut groups: Vec<(&str, Vec<CsvRow<'_>>)> = Vec::new();
    for row in table.rows() {
        let name = row.text("benchmark")?;
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((name, vec![row])),
        }
    }
    let mut programs = Vec::new();
    for (program, rows) in groups {
        let Some(alone) = counters_alone(&rows)? else { continue };
        let mut slowdowns = BTreeMap::new();
        for n_copies in [2, 4, 8] {
            let mean = mean_of_inputs(&rows, &format!("slowdown_{n_copies}_copies"))?;
            slowdowns.extend(mean.map(|mean| (n_copies, mean)));
        }
        programs.push(PublishedBenchmark { program: program.to_owned(), alone, slowdowns });
    }
    Ok(programs)
}

fn counters_alone(rows: &[CsvRow<'_>]) -> Result<Option<CountersAlone>, CsvError> {
    let columns = ["ipc_alone", "llc_mpki", "llc_apki", "mem_bw_mb_s", "l2_stall_frac"];
    let means = columns.map(|column| mean_of_inputs(rows, column));
    let means = means.into_iter().collect::<Result<Vec<Option<f64>>, _>>()?;
    let means: Option<Vec<f64>> = means.into_iter().collect();
    Ok(means.map(|means| CountersAlone {
        ipc: means[0],
        mpki: means[1],
        apki: means[2],
        bandwidth: means[3] * 1e6,
        stall_share: means[4],
    }))
}

/// Returns the mean over the inputs that have a value.
fn mean_of_inputs(rows: &[CsvRow<'_>], column: &str) -> Result<Option<f64>, CsvError> {
    let values = rows.iter().filter_map(|row| row.number(column).transpose());
    let values = values.collect::<Result<Vec<f64>, _>>()?;
    Ok((!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = include_str!("../../../workloads/data/benchmarks.csv");

    fn all() -> Vec<PublishedBenchmark> {
        parse_benchmarks(TABLE, "benchmarks.csv").expect("the table is valid")
    }

    #[test]
    fn a_fit_to_eight_copies_predicts_two_and_four_for_all_but_five_of_twenty_four() {
        let fits = validate(&all(), BANDWIDTH);
        let off = fits.iter().filter(|fit| 0.10 < fit.max_error());
        let off: Vec<&str> = off.map(|fit| fit.program.as_str()).collect();
        let known = ["433.milc", "459.GemsFDTD", "462.libquantum", "473.astar", "483.xalancbmk"];
        assert_eq!((off.as_slice(), fits.len()), (known.as_slice(), 24), "{fits:#?}");
    }

    #[test]
    fn a_program_alone_has_the_measured_ipc() {
        for benchmark in all() {
            let model = CopyModel::new(benchmark.alone, BANDWIDTH);
            for s in [0.5, 5.0, 40.0] {
                let program = model.program(s).expect("a valid curve");
                let ipc = 1e12 / CLOCK / model.domain().ns_alone(&program);
                let error = ipc / benchmark.alone.ipc - 1.0;
                // Stalls that the derived core cycles do not account for: late prefetches, and the latency that the
                // memory has under the load of the program itself.
                assert!((-0.045..=1e-9).contains(&error), "{}: {error}", benchmark.program);
            }
        }
    }

    #[test]
    fn more_copies_are_never_faster() {
        for benchmark in all() {
            let model = CopyModel::new(benchmark.alone, BANDWIDTH);
            for s in [0.5, 2.0, 10.0, 40.0] {
                let each = [1, 2, 4, 8].map(|n| model.slowdown(n, s));
                assert!(each.windows(2).all(|two| two[0] <= two[1] + 1e-9), "{each:?}");
            }
        }
    }
}
