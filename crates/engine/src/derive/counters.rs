//! Deltas of raw counters: scaling of multiplexed counters, subtraction of children.
//!
//! **Scaling.** Value, time enabled and time running of a sample are cumulative since the counter was opened. The
//! delta of an interval is scaled by the deltas of both times in the same interval. With a ratio of the totals, a
//! counter that was multiplexed only in the last second of a minute would be scaled by the ratio of the whole minute.
//!
//! ```text
//!   sample       value   enabled   running      delta
//!   first          100        10        10
//!   second         130        20        15      30 × 10 ÷ 5 = 60
//!   third          130        30        15      absent: the counter did not run
//!   fourth         140        40        25      10 × 10 ÷ 10 = 10
//! ```
//!
//! Events that were not counted in the third interval are not added in the fourth interval. Times are in nanoseconds.
//!
//! **Children.** The counters of the main task of a job are inherited: they include the counters of its descendants,
//! even of processes that start and exit between two samples. Every other sampled task has its own counters. The
//! delta of the main task without its descendants is the inherited delta minus the deltas of all other tasks of the
//! job ([`InheritedCounters`]), so no event counts twice.

use sched::{CounterDeltas, CounterEvent, Counters, Measured, RawCounter, value_delta};

/// Returns the delta of a counter since an earlier sample, scaled if the counter was multiplexed. Absent if the
/// counter was enabled and never ran between the two samples.
pub(crate) fn raw_delta(now: RawCounter, before: Option<RawCounter>) -> Measured {
    let base = before.unwrap_or_default();
    let delta = before.map_or(now.value, |before| value_delta(now.value, before.value));
    let enabled_ns = now.enabled_ns.saturating_sub(base.enabled_ns);
    let running_ns = now.running_ns.saturating_sub(base.running_ns);
    if enabled_ns <= running_ns {
        return Measured::Exact(delta);
    }
    let (enabled, running) = (u128::from(enabled_ns), u128::from(running_ns));
    match (u128::from(delta) * enabled).checked_div(running) {
        None => Measured::Absent,
        Some(scaled) => Measured::Scaled {
            value: u64::try_from(scaled).unwrap_or(u64::MAX),
            running_permille: (running * 1000 / enabled).clamp(1, 999) as u16,
        },
    }
}

/// Returns the deltas of all counters of a task between two samples. The delta of an event without a sample in
/// `before` is unknown and therefore absent.
pub fn deltas_between(now: &Counters, before: &Counters) -> CounterDeltas {
    now.unscaled_deltas_since(before).unwrap_or_else(|| scaled_deltas_between(now, before))
}

fn scaled_deltas_between(now: &Counters, before: &Counters) -> CounterDeltas {
    let mut deltas = CounterDeltas::default();
    for (event, base) in before.iter().filter(|(_, base)| !base.never_ran()) {
        let delta = now.get(event).map_or(Measured::Absent, |now| raw_delta(now, Some(base)));
        match delta {
            Measured::Absent => deltas.set_uncounted(event),
            delta => deltas.set(event, delta),
        }
    }
    deltas
}

/// Returns the deltas of all counters of a task since they were opened.
pub fn deltas_since_opened(now: &Counters) -> CounterDeltas {
    deltas_since_start(now, &Counters::NONE)
}

/// Returns the deltas of the counters of a task that started in the interval. An event without a sample in `before`
/// starts at zero.
pub fn deltas_since_start(now: &Counters, before: &Counters) -> CounterDeltas {
    let mut deltas = CounterDeltas::default();
    for (event, raw) in now.iter() {
        deltas.set(event, raw_delta(raw, before.get(event)));
    }
    deltas
}

/// Interpolates linearly between two samples. `share` returns the included part of a delta.
pub(super) fn interpolate(
    before: RawCounter,
    now: RawCounter,
    share: impl Fn(u64) -> u64,
) -> RawCounter {
    let part = |before: u64, now: u64| before + share(now.saturating_sub(before));
    RawCounter {
        value: part(before.value, now.value),
        enabled_ns: part(before.enabled_ns, now.enabled_ns),
        running_ns: part(before.running_ns, now.running_ns),
    }
}

/// Inherited counters of the main task of a job, as scaled totals since the first sample.
///
/// The counters of descendants are read after the inherited counters, so their delta can exceed the inherited delta.
/// Therefore totals are subtracted instead of deltas: an excess reduces the delta of the next interval, and no delta
/// of the main task is negative.
#[derive(Clone, Debug, Default)]
pub(super) struct InheritedCounters {
    all: [u64; CounterEvent::N],
    others: [u64; CounterEvent::N],
    own: [u64; CounterEvent::N],
}

impl InheritedCounters {
    /// Adds the delta of a task with its own counters.
    pub fn add_other(&mut self, deltas: &CounterDeltas) {
        for (event, delta) in deltas.iter() {
            let sum = &mut self.others[event as usize];
            *sum = sum.saturating_add(delta);
        }
    }

    /// Returns the delta of the main task without its descendants.
    pub fn subtract_sampled_tasks(&mut self, inherited: &CounterDeltas) -> CounterDeltas {
        let mut own = *inherited;
        for (event, delta) in inherited.iter() {
            let idx = event as usize;
            self.all[idx] = self.all[idx].saturating_add(delta);
            let total = self.all[idx].saturating_sub(self.others[idx]).max(self.own[idx]);
            let value = total - std::mem::replace(&mut self.own[idx], total);
            own.set(
                event,
                match inherited.measured(event) {
                    Measured::Scaled { running_permille, .. } => {
                        Measured::Scaled { value, running_permille }
                    }
                    _ => Measured::Exact(value),
                },
            );
        }
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CounterEvent::{Cycles, Instructions};

    const fn raw(value: u64, enabled_ns: u64, running_ns: u64) -> RawCounter {
        RawCounter { value, enabled_ns, running_ns }
    }

    const fn scaled(value: u64, running_permille: u16) -> Measured {
        Measured::Scaled { value, running_permille }
    }

    /// Returns the delta at each sample, which has a value, a time enabled and a time running.
    fn deltas(samples: &[[u64; 3]]) -> Vec<Measured> {
        let mut before = None;
        let mut delta = |&[value, enabled_ns, running_ns]: &[u64; 3]| {
            let now = raw(value, enabled_ns, running_ns);
            raw_delta(now, before.replace(now))
        };
        samples.iter().map(&mut delta).collect()
    }

    #[test]
    fn the_delta_is_exact_if_the_counter_always_ran_and_absent_if_it_never_ran() {
        assert_eq!(deltas(&[[7, 100, 100]]), [Measured::Exact(7)]);
        assert_eq!(deltas(&[[7, 300, 100]]), [scaled(21, 333)]);
        assert_eq!(deltas(&[[0, 300, 0]]), [Measured::Absent]);
        assert_eq!(deltas(&[[0, 0, 0]]), [Measured::Exact(0)], "the task has not run yet");
    }

    #[test]
    fn the_delta_of_an_interval_is_scaled_by_the_times_of_that_interval() {
        // The counter runs for a minute, then for half of a second and counts 5 of 10 events.
        let delta = deltas(&[[600, 60_000, 60_000], [605, 61_000, 60_500], [615, 62_000, 61_500]]);
        assert_eq!(delta, [Measured::Exact(600), scaled(10, 500), Measured::Exact(10)]);
    }

    #[test]
    fn the_events_of_an_interval_in_which_the_counter_did_not_run_are_not_added_later() {
        let delta = deltas(&[[100, 10, 10], [100, 20, 10], [107, 30, 20], [107, 30, 20]]);
        let exact = Measured::Exact;
        assert_eq!(delta, [exact(100), Measured::Absent, exact(7), exact(0)]);
    }

    #[test]
    fn a_decreasing_counter_has_a_delta_of_zero_and_a_wrapping_counter_has_its_delta() {
        let exact = Measured::Exact;
        assert_eq!(deltas(&[[100, 10, 10], [40, 20, 20], [50, 30, 30]]), [100, 0, 10].map(exact));
        assert_eq!(deltas(&[[u64::MAX - 4, 10, 10], [5, 20, 20]])[1], exact(10));
        // Decreasing times: the counter was opened again, or the stream is damaged.
        assert_eq!(deltas(&[[100, 10, 10], [100, 5, 2]]), [100, 0].map(exact));
    }

    #[test]
    fn large_counts_do_not_overflow() {
        assert_eq!(deltas(&[[u64::MAX, u64::MAX, 1]]), [scaled(u64::MAX, 1)]);
    }

    #[test]
    fn a_delta_needs_two_samples_unless_the_task_started_in_the_interval() {
        let before = Counters::NONE.with(Cycles, raw(3, 0, 0));
        let now = before.with(Instructions, raw(5, 0, 0));
        let deltas = |deltas: CounterDeltas| deltas.iter().collect::<Vec<_>>();
        assert_eq!(deltas(deltas_between(&now, &before)), [(Cycles, 0)]);
        let started = deltas_since_start(&now, &Counters::NONE);
        assert_eq!(deltas(started), [(Cycles, 3), (Instructions, 5)]);
        assert!(deltas_between(&before, &now).uncounted().contains(Instructions));
        let never_ran = before.with(Instructions, raw(0, 9, 0));
        assert_eq!(deltas(deltas_between(&now, &never_ran)), [(Cycles, 0)]);
    }

    #[test]
    fn counters_without_times_have_the_deltas_of_the_general_computation() {
        let values = [None, Some(0), Some(7), Some(40), Some(u64::MAX - 2)];
        let counters = |cycles: Option<u64>, misses: Option<u64>| {
            let mut counters = Counters::NONE;
            for (event, value) in [(Cycles, cycles), (CounterEvent::LlcMisses, misses)] {
                if let Some(value) = value {
                    counters.set(event, raw(value, 0, 0));
                }
            }
            counters
        };
        for (now, before) in values.iter().flat_map(|now| values.iter().map(move |b| (*now, *b))) {
            let (now, before) = (counters(now, Some(9)), counters(before, now));
            let unscaled = now.unscaled_deltas_since(&before);
            assert_eq!(unscaled, Some(scaled_deltas_between(&now, &before)), "{now:?} {before:?}");
            let timed = now.with(Instructions, raw(1, 2, 1));
            assert_eq!(timed.unscaled_deltas_since(&before), None);
            assert_eq!(now.unscaled_deltas_since(&timed), None);
            let untimed = timed.with(Instructions, raw(1, 0, 0));
            assert_eq!(untimed, now.with(Instructions, raw(1, 0, 0)));
            assert!(untimed.unscaled_deltas_since(&before).is_some());
        }
    }

    #[test]
    fn no_event_counts_twice_and_an_excess_of_children_is_subtracted_later() {
        let cycles = |value| CounterDeltas::default().with(Cycles, value);
        let mut inherited = InheritedCounters::default();
        assert_eq!(inherited.subtract_sampled_tasks(&cycles(100)), cycles(100));
        inherited.add_other(&cycles(30));
        assert_eq!(inherited.subtract_sampled_tasks(&cycles(50)), cycles(20));
        inherited.add_other(&cycles(60)); // These counters are read after the inherited counters.
        assert_eq!(inherited.subtract_sampled_tasks(&cycles(50)), cycles(0));
        assert_eq!(inherited.subtract_sampled_tasks(&cycles(40)), cycles(30));
        assert_eq!(
            inherited.subtract_sampled_tasks(&CounterDeltas::default()),
            CounterDeltas::default()
        );
    }
}
