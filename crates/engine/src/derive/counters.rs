//! From raw counter readings to growth: scaling of multiplexed counters, subtraction of children.
//!
//! **Scaling.** Readings are cumulative since the counter was opened, and so are both times. Scaling the
//! totals would spread a share of time over the whole past: a counter that ran for all of a minute and
//! half of the last second has missed half of that second, not a hundredth of it. So the growth of an
//! interval is scaled by the growth of the times in the same interval:
//!
//! ```text
//!   reading      value   enabled   running      growth
//!   first          100        10        10
//!   second         130        20        15      30 × 10 ÷ 5 = 60
//!   third          130        30        15      absent: the counter did not run
//!   fourth         140        40        25      10 × 10 ÷ 10 = 10
//! ```
//!
//! Events that were missed in the third interval are not added in the fourth. Times are in nanoseconds.
//!
//! **Children.** The counters of the first task of a job are inherited: they include its descendants, so
//! that processes that start and exit between two samples are counted. Every other task that is found
//! has counters of its own. The growth of the first task is that of its inherited counters less that of
//! all others ([`InheritedCounters`]), so that no event counts twice.

use sched::{CounterDeltas, CounterEvent, CounterReading, Counters, Measured};

/// Growth of a counter since an earlier reading, scaled if it was multiplexed. Absent if it was enabled
/// and never running in between. A 64-bit value that wraps has grown; one that decreases otherwise
/// has not.
pub(crate) fn growth(now: CounterReading, before: Option<CounterReading>) -> Measured {
    let base = before.unwrap_or_default();
    let grown = now.value.wrapping_sub(base.value);
    let grown = if before.is_some() && grown.cast_signed() < 0 { 0 } else { grown };
    let enabled_ns = now.enabled_ns.saturating_sub(base.enabled_ns);
    let running_ns = now.running_ns.saturating_sub(base.running_ns);
    if enabled_ns <= running_ns {
        return Measured::Exact(grown);
    }
    let (enabled, running) = (u128::from(enabled_ns), u128::from(running_ns));
    match (u128::from(grown) * enabled).checked_div(running) {
        None => Measured::Absent,
        Some(scaled) => Measured::Scaled {
            value: u64::try_from(scaled).unwrap_or(u64::MAX),
            running_permille: (running * 1000 / enabled).clamp(1, 999) as u16,
        },
    }
}

/// Growth of all counters of a task between two readings. An event that `before` does not have is
/// absent, since its growth in the interval is unknown.
pub fn deltas_between(now: &Counters, before: &Counters) -> CounterDeltas {
    let mut deltas = CounterDeltas::default();
    for (event, base) in before.iter().filter(|(_, base)| !base.never_ran()) {
        let grown = now.get(event).map_or(Measured::Absent, |now| growth(now, Some(base)));
        match grown {
            Measured::Absent => deltas.set_missed(event),
            grown => deltas.set(event, grown),
        }
    }
    deltas
}

/// Growth of all counters of a task since they were opened.
pub fn deltas_since_opened(now: &Counters) -> CounterDeltas {
    deltas_since_start(now, &Counters::NONE)
}

/// Growth of the counters of a task that started in the interval: an event that `before` does not have
/// was zero then.
pub fn deltas_since_start(now: &Counters, before: &Counters) -> CounterDeltas {
    let mut deltas = CounterDeltas::default();
    for (event, reading) in now.iter() {
        deltas.set(event, growth(reading, before.get(event)));
    }
    deltas
}

/// Linear interpolation between two readings. `share` returns the part of a growth.
pub(super) fn interpolate(
    before: CounterReading,
    now: CounterReading,
    share: impl Fn(u64) -> u64,
) -> CounterReading {
    let part = |before: u64, now: u64| before + share(now.saturating_sub(before));
    CounterReading {
        value: part(before.value, now.value),
        enabled_ns: part(before.enabled_ns, now.enabled_ns),
        running_ns: part(before.running_ns, now.running_ns),
    }
}

/// The inherited counters of the first task of a job, as scaled totals since it was first sampled.
///
/// The counters of descendants are read a moment later than the inherited ones, so that their growth can
/// exceed the inherited growth. The excess is subtracted in the next interval: totals are compared, not
/// growths, and the growth of the first task is never negative.
#[derive(Clone, Debug, Default)]
pub(super) struct InheritedCounters {
    whole: [u64; CounterEvent::N],
    others: [u64; CounterEvent::N],
    own: [u64; CounterEvent::N],
}

impl InheritedCounters {
    /// Adds the growth of a task with counters of its own.
    pub fn add_other(&mut self, deltas: &CounterDeltas) {
        for (event, grown) in deltas.iter() {
            let sum = &mut self.others[event as usize];
            *sum = sum.saturating_add(grown);
        }
    }

    /// The growth of the first task itself, from that of its inherited counters.
    pub fn subtract_others(&mut self, inherited: &CounterDeltas) -> CounterDeltas {
        let mut own = *inherited;
        for (event, grown) in inherited.iter() {
            let idx = event as usize;
            self.whole[idx] = self.whole[idx].saturating_add(grown);
            let total = self.whole[idx].saturating_sub(self.others[idx]).max(self.own[idx]);
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

    const fn reading(value: u64, enabled_ns: u64, running_ns: u64) -> CounterReading {
        CounterReading { value, enabled_ns, running_ns }
    }

    const fn scaled(value: u64, running_permille: u16) -> Measured {
        Measured::Scaled { value, running_permille }
    }

    /// The growth at each reading of value, time enabled and time running.
    fn growths(readings: &[[u64; 3]]) -> Vec<Measured> {
        let mut before = None;
        let mut grown = |&[value, enabled_ns, running_ns]: &[u64; 3]| {
            let now = reading(value, enabled_ns, running_ns);
            growth(now, before.replace(now))
        };
        readings.iter().map(&mut grown).collect()
    }

    #[test]
    fn a_counter_that_always_ran_is_exact_and_one_that_never_ran_is_absent() {
        assert_eq!(growths(&[[7, 100, 100]]), [Measured::Exact(7)]);
        assert_eq!(growths(&[[7, 300, 100]]), [scaled(21, 333)]);
        assert_eq!(growths(&[[0, 300, 0]]), [Measured::Absent]);
        assert_eq!(growths(&[[0, 0, 0]]), [Measured::Exact(0)], "the task has not run yet");
    }

    #[test]
    fn the_growth_of_an_interval_is_scaled_by_the_times_of_that_interval() {
        // A minute in full, and half of a second: 5 counted of 10 events.
        let grown = growths(&[[600, 60_000, 60_000], [605, 61_000, 60_500], [615, 62_000, 61_500]]);
        assert_eq!(grown, [Measured::Exact(600), scaled(10, 500), Measured::Exact(10)]);
    }

    #[test]
    fn an_interval_in_which_the_counter_did_not_run_is_absent_and_not_added_later() {
        let grown = growths(&[[100, 10, 10], [100, 20, 10], [107, 30, 20], [107, 30, 20]]);
        let exact = Measured::Exact;
        assert_eq!(grown, [exact(100), Measured::Absent, exact(7), exact(0)]);
    }

    #[test]
    fn a_counter_that_decreases_has_not_grown_and_one_that_wraps_has() {
        let exact = Measured::Exact;
        assert_eq!(growths(&[[100, 10, 10], [40, 20, 20], [50, 30, 30]]), [100, 0, 10].map(exact));
        assert_eq!(growths(&[[u64::MAX - 4, 10, 10], [5, 20, 20]])[1], exact(10));
        // Times that decrease: the counter was opened again, or the recording is damaged.
        assert_eq!(growths(&[[100, 10, 10], [100, 5, 2]]), [100, 0].map(exact));
    }

    #[test]
    fn large_counts_do_not_overflow() {
        assert_eq!(growths(&[[u64::MAX, u64::MAX, 1]]), [scaled(u64::MAX, 1)]);
    }

    #[test]
    fn growth_needs_two_readings_unless_the_task_started_in_the_interval() {
        let before = Counters::NONE.with(Cycles, reading(3, 0, 0));
        let now = before.with(Instructions, reading(5, 0, 0));
        let deltas = |deltas: CounterDeltas| deltas.iter().collect::<Vec<_>>();
        assert_eq!(deltas(deltas_between(&now, &before)), [(Cycles, 0)]);
        let started = deltas_since_start(&now, &Counters::NONE);
        assert_eq!(deltas(started), [(Cycles, 3), (Instructions, 5)]);
        assert!(deltas_between(&before, &now).missed().contains(Instructions));
        let never_ran = before.with(Instructions, reading(0, 9, 0));
        assert_eq!(deltas(deltas_between(&now, &never_ran)), [(Cycles, 0)]);
    }

    #[test]
    fn no_event_counts_twice_and_an_excess_of_children_is_subtracted_later() {
        let of = |value| CounterDeltas::default().with(Cycles, value);
        let mut inherited = InheritedCounters::default();
        assert_eq!(inherited.subtract_others(&of(100)), of(100));
        inherited.add_other(&of(30));
        assert_eq!(inherited.subtract_others(&of(50)), of(20));
        inherited.add_other(&of(60)); // Read a moment later than the inherited counters.
        assert_eq!(inherited.subtract_others(&of(50)), of(0));
        assert_eq!(inherited.subtract_others(&of(40)), of(30));
        assert_eq!(inherited.subtract_others(&CounterDeltas::default()), CounterDeltas::default());
    }
}
