//! Phases of a program from hardware counters read while it runs.
//!
//! The counters are cumulative. The difference of two samples is an interval; adjacent similar intervals
//! form a phase:
//!
//! ```text
//!   sample ── interval ── sample ── interval ── sample …
//! ```
//!
//! The result has one point of the miss-ratio curve, at the size of this machine's last-level cache, and
//! the measured cycles per instruction with and without memory stalls. A counter that did not run is
//! absent in the profile.
//!
//! Out of scope: memory-level parallelism, which depends on the miss latency of the machine. No task counter measures
//! this latency.

use base::{Bytes, LINE_BYTES, Nanos};
use program::profile::{CurvePoint, MissRatioCurve, Phase, ProfileValue, ValueSource};

/// Cumulative counter values of a program and all its children since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CounterTotals {
    /// CPU time.
    pub cpu_time: Nanos,
    /// CPU cycles.
    pub cycles: Option<f64>,
    /// Retired instructions.
    pub instructions: Option<f64>,
    /// Accesses to the last-level cache.
    pub llc_references: Option<f64>,
    /// Misses of the last-level cache.
    pub llc_misses: Option<f64>,
    /// Cycles in which the core stalled on memory.
    pub memory_stalls: Option<f64>,
}

/// Maximum relative difference of the misses per 1000 instructions within one phase, as for traces. Guessed.
const DIFFERENCE_MAX: f64 = 0.5;
/// Intervals with fewer misses per 1000 instructions count as equal. Guessed.
const MPKI_MIN: f64 = 0.5;
/// Maximum number of phases of a profile.
const N_PHASES_MAX: usize = 6;

/// Computes the phases of a run from its samples, in order. Returns no phase if no instruction was counted. `llc` is
/// the size of the last-level cache.
pub fn phases(totals: &[CounterTotals], llc: Option<Bytes>) -> Vec<Phase> {
    let intervals: Vec<CounterTotals> =
        totals.windows(2).map(|pair| pair[1].since(&pair[0])).collect();
    let intervals: Vec<CounterTotals> =
        intervals.into_iter().filter(|one| one.instructions.is_some_and(|n| 0.0 < n)).collect();
    let whole: f64 = intervals.iter().filter_map(|interval| interval.instructions).sum();
    let segments = segments(&intervals);
    segments.iter().filter_map(|segment| phase(segment, whole, llc)).collect()
}

impl CounterTotals {
    fn since(&self, before: &CounterTotals) -> CounterTotals {
        let cpu_time = self.cpu_time.saturating_sub(before.cpu_time);
        self.zip(before, cpu_time, |now, then| (now - then).max(0.0))
    }

    fn and(&self, more: &CounterTotals) -> CounterTotals {
        self.zip(more, self.cpu_time + more.cpu_time, |one, other| one + other)
    }

    /// Combines the counters that are present in both totals.
    fn zip(&self, other: &Self, cpu_time: Nanos, by: fn(f64, f64) -> f64) -> CounterTotals {
        let both = |of: fn(&Self) -> Option<f64>| Some(by(of(self)?, of(other)?));
        CounterTotals {
            cpu_time,
            cycles: both(|totals| totals.cycles),
            instructions: both(|totals| totals.instructions),
            llc_references: both(|totals| totals.llc_references),
            llc_misses: both(|totals| totals.llc_misses),
            memory_stalls: both(|totals| totals.memory_stalls),
        }
    }

    fn per_1000(&self, count: Option<f64>) -> Option<f64> {
        Some(count? * 1000.0 / self.instructions?)
    }
}

/// Merges similar adjacent intervals. Raises the limit until there are at most [`N_PHASES_MAX`] phases.
fn segments(intervals: &[CounterTotals]) -> Vec<CounterTotals> {
    let mut limit = DIFFERENCE_MAX;
    loop {
        let mut found: Vec<CounterTotals> = Vec::new();
        for interval in intervals {
            match found.last_mut() {
                Some(last) if difference(last, interval) <= limit => *last = last.and(interval),
                _ => found.push(*interval),
            }
        }
        if found.len() <= N_PHASES_MAX {
            return found;
        }
        limit *= 1.25; // The loop ends, because no difference exceeds 2.
    }
}

fn difference(one: &CounterTotals, other: &CounterTotals) -> f64 {
    let mpki = |total: &CounterTotals| total.per_1000(total.llc_misses).unwrap_or(0.0);
    let (a, b) = (mpki(one), mpki(other));
    if (a + b) / 2.0 < MPKI_MIN { 0.0 } else { (a - b).abs() / ((a + b) / 2.0) }
}

fn phase(segment: &CounterTotals, whole: f64, llc: Option<Bytes>) -> Option<Phase> {
    let counted = |value: f64| ProfileValue::new(value, ValueSource::Counters);
    let instructions = segment.instructions?;
    let misses = segment.per_1000(segment.llc_misses);
    let cpu_s = segment.cpu_time.as_secs_f64();
    // Both values can be estimates of multiplexed counters, so the difference is at least zero.
    let core =
        segment.cycles.zip(segment.memory_stalls).map(|(all, waited)| (all - waited).max(0.0));
    let points = misses.zip(llc).map(|(misses, cache)| {
        vec![CurvePoint { cache, misses, write_backs: None, prefetches: None, error: None }]
    });
    Some(Phase {
        share: counted((instructions / whole).min(1.0))?,
        instructions: counted(instructions),
        cycles_per_instruction: segment.cycles.and_then(|cycles| counted(cycles / instructions)),
        core_cycles_per_instruction: core.and_then(|cycles| counted(cycles / instructions)),
        llc_accesses: segment.per_1000(segment.llc_references).and_then(counted),
        bandwidth: segment.llc_misses.and_then(|n| counted(n * LINE_BYTES as f64 / cpu_s)),
        curve: MissRatioCurve::new(ValueSource::Counters, points.unwrap_or_default())?,
        ..Phase::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns totals after each millisecond with 2 million cycles, 1 million instructions and these MPKI.
    fn totals(mpki: &[f64]) -> Vec<CounterTotals> {
        let mut totals = vec![CounterTotals {
            cycles: Some(0.0),
            instructions: Some(0.0),
            llc_misses: Some(0.0),
            ..CounterTotals::default()
        }];
        for mpki in mpki {
            let step = CounterTotals {
                cpu_time: Nanos::from_millis(1),
                cycles: Some(2e6),
                instructions: Some(1e6),
                llc_misses: Some(mpki * 1000.0),
                ..CounterTotals::default()
            };
            totals.push(totals[totals.len() - 1].and(&step));
        }
        totals
    }

    #[test]
    fn similar_intervals_form_a_phase_and_absent_counters_stay_absent() {
        let phases = phases(&totals(&[10.0, 11.0, 9.0, 0.1]), Some(Bytes::from_mib(32)));
        assert_eq!(phases.len(), 2);
        let first = &phases[0];
        assert_eq!(first.share.value(), 0.75);
        assert_eq!(first.cycles_per_instruction.unwrap().value(), 2.0);
        assert_eq!(first.curve.misses_at(Bytes::from_mib(1)), Some(10.0));
        assert_eq!(first.bandwidth.unwrap().value(), 30_000.0 * 64.0 / 0.003);
        assert_eq!(first.llc_accesses, None);
        assert_eq!(first.share.source, ValueSource::Counters);
    }

    #[test]
    fn memory_stall_cycles_are_subtracted_from_core_cycles() {
        let mut totals = totals(&[10.0, 10.0]);
        assert_eq!(phases(&totals, None)[0].core_cycles_per_instruction, None);
        for (nr, total) in totals.iter_mut().enumerate() {
            total.memory_stalls = Some(nr as f64 * 0.5e6);
        }
        let core = phases(&totals, None)[0].core_cycles_per_instruction.expect("counted");
        assert_eq!((core.value(), core.source), (1.5, ValueSource::Counters));
        // Estimates of multiplexed counters can contain more stalls than cycles.
        totals[2].memory_stalls = Some(9e6);
        let core = phases(&totals, None)[0].core_cycles_per_instruction.expect("counted");
        assert_eq!(core.value(), 0.0);
    }

    #[test]
    fn no_phase_without_instructions_and_no_curve_without_a_cache_size() {
        assert!(phases(&[], None).is_empty());
        assert!(phases(&[CounterTotals::default(); 3], None).is_empty());
        assert!(phases(&totals(&[1.0]), None)[0].curve.points().is_empty());
    }

    #[test]
    fn the_number_of_phases_is_bounded() {
        let mpki: Vec<f64> = (0..50).map(|nr| if nr % 2 == 0 { 1.0 } else { 9.0 }).collect();
        assert!(phases(&totals(&mpki), None).len() <= N_PHASES_MAX);
    }
}
