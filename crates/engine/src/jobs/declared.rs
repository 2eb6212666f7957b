//! Declared rates of a job's program.
//!
//! A profile has rates of counters in events per second of CPU time ([`program::profile::ProfileRates`]), for the
//! last-level cache size of this machine and the CPU frequency of the measurement. A class has only a rate of memory
//! operations, which count as cache misses.

use base::{Bytes, Nanos};
use program::{Job, Profile};
use sched::{CounterEvent, EventSet};
use topology::Machine;

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Declared rates of one job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Declared {
    /// Memory controller operations per millisecond of CPU time. `None` if they are not declared.
    pub ops_per_ms: Option<u64>,
    per_second: [u64; CounterEvent::N],
    /// Events with a rate.
    pub events: EventSet,
}

impl Declared {
    pub fn of(job: &Job, machine: &Machine) -> Self {
        let by_class = job.class.map(|class| Declared::from_ops(class.controller_ops_per_ms()));
        let by_profile = job.found.as_deref().and_then(|profile| from_profile(profile, machine));
        match (by_class, by_profile) {
            // A class in the workload has precedence over the memory operations of a profile.
            (Some(class), Some(profile)) => Declared { ops_per_ms: class.ops_per_ms, ..profile },
            (class, profile) => profile.or(class).unwrap_or_default(),
        }
    }

    fn from_ops(per_ms: u64) -> Self {
        let mut declared = Declared { ops_per_ms: Some(per_ms), ..Declared::default() };
        declared.set(CounterEvent::LlcMisses, per_ms.saturating_mul(1000));
        declared
    }

    fn set(&mut self, event: CounterEvent, per_second: u64) {
        self.per_second[event as usize] = per_second;
        self.events = self.events.with(event);
    }

    /// Returns the declared number of events in an amount of CPU time.
    pub fn in_time(&self, event: CounterEvent, cpu_time: Nanos) -> Option<u64> {
        let per_second = self.events.contains(event).then(|| self.per_second[event as usize])?;
        let exact = u128::from(per_second) * u128::from(cpu_time.0) / NANOS_PER_SECOND;
        Some(u64::try_from(exact).unwrap_or(u64::MAX))
    }
}

/// Computes the rates from a profile. Returns `None` if the profile has no CPU frequency.
fn from_profile(profile: &Profile, machine: &Machine) -> Option<Declared> {
    let cache = machine.llcs().iter().filter_map(|llc| llc.size).min().unwrap_or(Bytes::ZERO);
    let rates = profile.rates_per_cpu_second(cache, profile.frequency()?);
    let mut declared = Declared::default();
    for (event, rate) in [
        (CounterEvent::Cycles, Some(rates.cycles)),
        (CounterEvent::Instructions, rates.instructions),
        (CounterEvent::LlcReferences, rates.llc_references),
        (CounterEvent::LlcMisses, rates.llc_misses),
    ] {
        if let Some(rate) = rate.and_then(whole_rate) {
            declared.set(event, rate);
        }
    }
    let per_second = rates.controller_ops().and_then(whole_rate);
    declared.ops_per_ms = per_second.map(|per_second| per_second / 1000);
    Some(declared)
}

/// Returns a rate in whole events per second; `None` if it is negative or not finite.
fn whole_rate(rate: f64) -> Option<u64> {
    (rate.is_finite() && 0.0 <= rate).then_some(rate as u64)
}
