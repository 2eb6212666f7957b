//! A profile from what the processor counts while the program runs.
//!
//! The counters are cumulative and read every so often; differences of two readings are intervals:
//!
//! ```text
//!   reading ── interval ── reading ── interval ── reading …   alike intervals are a phase
//! ```
//!
//! They tell one point of the miss curve, that of this machine's last-level cache, and the true cycles
//! per instruction, with and without those in which the core waited for memory. A counter that did not run
//! is absent in the profile too.
//!
//! Not here: how many misses are under way at a time. That takes the latency of a miss on this machine,
//! which no counter of a task tells.

use base::{Bytes, Nanos};
use program::profile::{Curve, Figure, Phase, Point, Source};

/// What was counted of a program and all its children since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    /// CPU time.
    pub cpu_time: Nanos,
    /// Processor cycles.
    pub cycles: Option<f64>,
    /// Instructions.
    pub instructions: Option<f64>,
    /// Accesses to the last-level cache.
    pub llc_references: Option<f64>,
    /// Misses of the last-level cache.
    pub llc_misses: Option<f64>,
    /// Cycles in which the core waited for memory.
    pub memory_stalls: Option<f64>,
}

/// Bytes of a cache line.
const LINE_BYTES: f64 = 64.0;
/// Intervals whose misses per 1000 instructions differ by more than this part of their mean are two phases,
/// as in a trace. Guessed.
const DIFFERENCE_MAX: f64 = 0.5;
/// Below this many misses per 1000 instructions nothing is worth telling apart.
const MPKI_MIN: f64 = 0.5;
/// What a profile holds at most.
const N_PHASES_MAX: usize = 6;

/// The phases of a run; empty if no instruction was counted.
pub fn phases(readings: &[Reading], llc: Option<Bytes>) -> Vec<Phase> {
    let intervals: Vec<Reading> = readings.windows(2).map(|pair| pair[1].since(&pair[0])).collect();
    let intervals: Vec<Reading> =
        intervals.into_iter().filter(|one| one.instructions.is_some_and(|n| 0.0 < n)).collect();
    let whole: f64 = intervals.iter().filter_map(|interval| interval.instructions).sum();
    let stretches = stretches(&intervals);
    stretches.iter().filter_map(|stretch| phase(stretch, whole, llc)).collect()
}

impl Reading {
    fn since(&self, before: &Reading) -> Reading {
        let less = |now: Option<f64>, then: Option<f64>| Some((now? - then?).max(0.0));
        Reading {
            cpu_time: self.cpu_time.saturating_sub(before.cpu_time),
            cycles: less(self.cycles, before.cycles),
            instructions: less(self.instructions, before.instructions),
            llc_references: less(self.llc_references, before.llc_references),
            llc_misses: less(self.llc_misses, before.llc_misses),
            memory_stalls: less(self.memory_stalls, before.memory_stalls),
        }
    }

    fn and(&self, more: &Reading) -> Reading {
        let sum = |one: Option<f64>, other: Option<f64>| Some(one? + other?);
        Reading {
            cpu_time: self.cpu_time + more.cpu_time,
            cycles: sum(self.cycles, more.cycles),
            instructions: sum(self.instructions, more.instructions),
            llc_references: sum(self.llc_references, more.llc_references),
            llc_misses: sum(self.llc_misses, more.llc_misses),
            memory_stalls: sum(self.memory_stalls, more.memory_stalls),
        }
    }

    fn per_1000(&self, count: Option<f64>) -> Option<f64> {
        Some(count? * 1000.0 / self.instructions?)
    }
}

/// Alike intervals together, in order; the limit is raised until a profile holds them.
fn stretches(intervals: &[Reading]) -> Vec<Reading> {
    let mut limit = DIFFERENCE_MAX;
    loop {
        let mut found: Vec<Reading> = Vec::new();
        for interval in intervals {
            match found.last_mut() {
                Some(last) if difference(last, interval) <= limit => *last = last.and(interval),
                _ => found.push(*interval),
            }
        }
        if found.len() <= N_PHASES_MAX {
            return found;
        }
        limit *= 1.25; // Ends: nothing differs by more than 2.
    }
}

fn difference(one: &Reading, other: &Reading) -> f64 {
    let mpki = |reading: &Reading| reading.per_1000(reading.llc_misses).unwrap_or(0.0);
    let (a, b) = (mpki(one), mpki(other));
    if (a + b) / 2.0 < MPKI_MIN { 0.0 } else { (a - b).abs() / ((a + b) / 2.0) }
}

fn phase(stretch: &Reading, whole: f64, llc: Option<Bytes>) -> Option<Phase> {
    let counted = |value: f64| Figure::new(value, Source::Counters);
    let instructions = stretch.instructions?;
    let misses = stretch.per_1000(stretch.llc_misses);
    let cpu_s = stretch.cpu_time.as_secs_f64();
    // Both may be scaled estimates: a difference below none is none.
    let core =
        stretch.cycles.zip(stretch.memory_stalls).map(|(all, waited)| (all - waited).max(0.0));
    let points = misses.zip(llc).map(|(misses, cache)| {
        vec![Point { cache, misses, write_backs: None, prefetches: None, error: None }]
    });
    Some(Phase {
        share: counted((instructions / whole).min(1.0))?,
        instructions: counted(instructions),
        cycles_per_instruction: stretch.cycles.and_then(|cycles| counted(cycles / instructions)),
        core_cycles_per_instruction: core.and_then(|cycles| counted(cycles / instructions)),
        llc_accesses: stretch.per_1000(stretch.llc_references).and_then(counted),
        bandwidth: stretch.llc_misses.and_then(|n| counted(n * LINE_BYTES / cpu_s)),
        curve: Curve::new(Source::Counters, points.unwrap_or_default())?,
        ..Phase::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After so many units of time: 1 ms, 2 million cycles, 1 million instructions and these misses each.
    fn readings(mpki: &[f64]) -> Vec<Reading> {
        let mut readings = vec![Reading {
            cycles: Some(0.0),
            instructions: Some(0.0),
            llc_misses: Some(0.0),
            ..Reading::default()
        }];
        for mpki in mpki {
            let step = Reading {
                cpu_time: Nanos::from_millis(1),
                cycles: Some(2e6),
                instructions: Some(1e6),
                llc_misses: Some(mpki * 1000.0),
                ..Reading::default()
            };
            readings.push(readings[readings.len() - 1].and(&step));
        }
        readings
    }

    #[test]
    fn alike_intervals_are_a_phase_and_absent_counters_stay_absent() {
        let phases = phases(&readings(&[10.0, 11.0, 9.0, 0.1]), Some(Bytes::from_mib(32)));
        assert_eq!(phases.len(), 2);
        let first = &phases[0];
        assert_eq!(first.share.value(), 0.75);
        assert_eq!(first.cycles_per_instruction.unwrap().value(), 2.0);
        assert_eq!(first.curve.misses_at(Bytes::from_mib(1)), Some(10.0));
        assert_eq!(first.bandwidth.unwrap().value(), 30_000.0 * 64.0 / 0.003);
        assert_eq!(first.llc_accesses, None);
        assert_eq!(first.share.source, Source::Counters);
    }

    #[test]
    fn cycles_that_waited_for_memory_are_none_of_the_cores_own() {
        let mut readings = readings(&[10.0, 10.0]);
        assert_eq!(phases(&readings, None)[0].core_cycles_per_instruction, None);
        for (nr, reading) in readings.iter_mut().enumerate() {
            reading.memory_stalls = Some(nr as f64 * 0.5e6);
        }
        let core = phases(&readings, None)[0].core_cycles_per_instruction.expect("counted");
        assert_eq!((core.value(), core.source), (1.5, Source::Counters));
        // Counters that took turns: more waiting than cycles.
        readings[2].memory_stalls = Some(9e6);
        let core = phases(&readings, None)[0].core_cycles_per_instruction.expect("counted");
        assert_eq!(core.value(), 0.0);
    }

    #[test]
    fn without_instructions_there_is_no_phase_and_without_a_cache_size_no_curve() {
        assert!(phases(&[], None).is_empty());
        assert!(phases(&[Reading::default(); 3], None).is_empty());
        assert!(phases(&readings(&[1.0]), None)[0].curve.points().is_empty());
    }

    #[test]
    fn a_wild_program_has_no_more_phases_than_a_profile_holds() {
        let wild: Vec<f64> = (0..50).map(|nr| if nr % 2 == 0 { 1.0 } else { 9.0 }).collect();
        assert!(phases(&readings(&wild), None).len() <= N_PHASES_MAX);
    }
}
