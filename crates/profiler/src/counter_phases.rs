//! Phases of a program from hardware counters read while it runs.
//!
//! The deltas of two consecutive samples form an interval; adjacent similar intervals form a phase:
//!
//! ```text
//!   sample ── interval ── sample ── interval ── sample …
//!             └────────── phase ────────┘
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
use sched::{CounterDeltas, CounterEvent};

/// Maximum relative difference of the misses per 1000 instructions within one phase, as for traces. Guessed.
const DIFFERENCE_MAX: f64 = 0.5;
/// Intervals with fewer misses per 1000 instructions count as equal. Guessed.
const MPKI_MIN: f64 = 0.5;
/// Maximum number of phases of a profile.
const N_PHASES_MAX: usize = 6;

/// Computes the phases of a run from the counter deltas of its intervals, in order. Returns no phase if no instruction
/// was counted. `llc` is the size of the last-level cache.
pub fn phases(intervals: &[CounterDeltas], llc: Option<Bytes>) -> Vec<Phase> {
    let has_instructions = |interval: &&CounterDeltas| 0.0 < instructions(interval);
    let intervals: Vec<CounterDeltas> =
        intervals.iter().filter(has_instructions).copied().collect();
    let whole: f64 = intervals.iter().map(instructions).sum();
    segments(&intervals).iter().filter_map(|segment| phase(segment, whole, llc)).collect()
}

/// Returns the CPU time of some intervals.
pub fn cpu_time(intervals: &[CounterDeltas]) -> Nanos {
    let times = intervals.iter().filter_map(|interval| interval.get(CounterEvent::TaskClock));
    Nanos(times.fold(0, u64::saturating_add))
}

fn instructions(interval: &CounterDeltas) -> f64 {
    interval.get(CounterEvent::Instructions).unwrap_or(0) as f64
}

/// Returns the sum of two intervals for the events that both counted.
fn sum(one: &CounterDeltas, other: &CounterDeltas) -> CounterDeltas {
    let both =
        one.iter().filter_map(|(event, a)| Some((event, a.saturating_add(other.get(event)?))));
    both.fold(CounterDeltas::default(), |sum, (event, delta)| sum.with(event, delta))
}

/// Returns the events per 1000 instructions.
fn per_1000(interval: &CounterDeltas, event: CounterEvent) -> Option<f64> {
    Some(interval.get(event)? as f64 * 1000.0 / instructions(interval))
}

/// Merges similar adjacent intervals. Raises the limit until there are at most [`N_PHASES_MAX`] phases.
fn segments(intervals: &[CounterDeltas]) -> Vec<CounterDeltas> {
    let mut limit = DIFFERENCE_MAX;
    loop {
        let mut found: Vec<CounterDeltas> = Vec::new();
        for interval in intervals {
            match found.last_mut() {
                Some(last) if difference(last, interval) <= limit => *last = sum(last, interval),
                _ => found.push(*interval),
            }
        }
        if found.len() <= N_PHASES_MAX {
            return found;
        }
        limit *= 1.25; // The loop ends, because no difference exceeds 2.
    }
}

fn difference(one: &CounterDeltas, other: &CounterDeltas) -> f64 {
    let mpki = |interval| per_1000(interval, CounterEvent::LlcMisses).unwrap_or(0.0);
    let (a, b) = (mpki(one), mpki(other));
    if (a + b) / 2.0 < MPKI_MIN { 0.0 } else { (a - b).abs() / ((a + b) / 2.0) }
}

fn phase(segment: &CounterDeltas, whole: f64, llc: Option<Bytes>) -> Option<Phase> {
    let counted = |value: f64| ProfileValue::new(value, ValueSource::Counters);
    let count = |event| segment.get(event).map(|n| n as f64);
    let instructions = instructions(segment);
    let misses = per_1000(segment, CounterEvent::LlcMisses);
    let cycles = count(CounterEvent::Cycles);
    let cpu_s = cpu_time(std::slice::from_ref(segment)).as_secs_f64();
    // Both values can be estimates of multiplexed counters, so the difference is at least zero.
    let core = cycles
        .zip(count(CounterEvent::MemoryStalls))
        .map(|(all, stalled)| (all - stalled).max(0.0));
    let points = misses.zip(llc).map(|(misses, cache)| {
        vec![CurvePoint { cache, misses, write_backs: None, prefetches: None, error: None }]
    });
    let bandwidth =
        count(CounterEvent::LlcMisses).and_then(|n| counted(n * LINE_BYTES as f64 / cpu_s));
    Some(Phase {
        share: counted((instructions / whole).min(1.0))?,
        instructions: counted(instructions),
        cycles_per_instruction: cycles
            .filter(|cycles| 0.0 < *cycles)
            .and_then(|cycles| counted(cycles / instructions)),
        core_cycles_per_instruction: core.and_then(|cycles| counted(cycles / instructions)),
        llc_accesses: per_1000(segment, CounterEvent::LlcReferences).and_then(counted),
        bandwidth,
        curve: MissRatioCurve::new(ValueSource::Counters, points.unwrap_or_default())?,
        ..Phase::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns intervals of one millisecond with 2 million cycles, 1 million instructions and these MPKI.
    fn intervals(mpki: &[f64]) -> Vec<CounterDeltas> {
        let interval = |mpki: &f64| {
            CounterDeltas::default()
                .with(CounterEvent::TaskClock, Nanos::from_millis(1).0)
                .with(CounterEvent::Cycles, 2_000_000)
                .with(CounterEvent::Instructions, 1_000_000)
                .with(CounterEvent::LlcMisses, (mpki * 1000.0) as u64)
        };
        mpki.iter().map(interval).collect()
    }

    #[test]
    fn similar_intervals_form_a_phase_and_absent_counters_stay_absent() {
        let phases = phases(&intervals(&[10.0, 11.0, 9.0, 0.1]), Some(Bytes::from_mib(32)));
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
        let mut intervals = intervals(&[10.0, 10.0]);
        assert_eq!(phases(&intervals, None)[0].core_cycles_per_instruction, None);
        intervals.iter_mut().for_each(|one| *one = one.with(CounterEvent::MemoryStalls, 500_000));
        let core = phases(&intervals, None)[0].core_cycles_per_instruction.expect("counted");
        assert_eq!((core.value(), core.source), (1.5, ValueSource::Counters));
        // Estimates of multiplexed counters can contain more stalls than cycles.
        intervals[1] = intervals[1].with(CounterEvent::MemoryStalls, 9_000_000);
        let core = phases(&intervals, None)[0].core_cycles_per_instruction.expect("counted");
        assert_eq!(core.value(), 0.0);
    }

    #[test]
    fn no_phase_without_instructions_and_no_curve_without_a_cache_size() {
        assert!(phases(&[], None).is_empty());
        assert!(phases(&[CounterDeltas::default(); 3], None).is_empty());
        assert!(phases(&intervals(&[1.0]), None)[0].curve.points().is_empty());
    }

    #[test]
    fn the_number_of_phases_is_bounded() {
        let mpki: Vec<f64> = (0..50).map(|nr| if nr % 2 == 0 { 1.0 } else { 9.0 }).collect();
        assert!(phases(&intervals(&mpki), None).len() <= N_PHASES_MAX);
    }
}
