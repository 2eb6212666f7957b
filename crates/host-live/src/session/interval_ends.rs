//! Ticks of interval turns: multiples of the interval, so that turns do not drift. A missed tick is skipped.

use base::Nanos;

/// Interval and next tick, as time since the start of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticks {
    interval: Nanos,
    next: Nanos,
}

impl Ticks {
    pub(crate) fn new(interval: Nanos) -> Self {
        let interval = Nanos(interval.0.max(1));
        Ticks { interval, next: interval }
    }

    pub(crate) fn next(&self) -> Nanos {
        self.next
    }

    /// Returns the tick nearest to an instant, but not before the next tick.
    pub(crate) fn around(&self, at: Nanos) -> Nanos {
        self.at_or_after(at.saturating_sub(Nanos(self.interval.0 / 2)))
    }

    /// Returns the first tick at or after an instant, but not before the next tick.
    pub(crate) fn at_or_after(&self, at: Nanos) -> Nanos {
        let n_more = at.saturating_sub(self.next).0.div_ceil(self.interval.0);
        Nanos(self.next.0.saturating_add(n_more.saturating_mul(self.interval.0)))
    }

    /// Returns the last tick at or before an instant, but not before the next tick.
    pub(crate) fn at_or_before(&self, at: Nanos) -> Nanos {
        self.at_or_after(at.saturating_sub(Nanos(self.interval.0 - 1)))
    }

    /// Skips all ticks up to now.
    pub(crate) fn skip_to(&mut self, now: Nanos) {
        self.next =
            Nanos((now.0 / self.interval.0).saturating_add(1).saturating_mul(self.interval.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_multiples_of_the_interval_and_missed_ticks_are_skipped() {
        let mut ticks = Ticks::new(Nanos(250));
        assert_eq!(ticks.next(), Nanos(250));
        ticks.skip_to(Nanos(251));
        assert_eq!(ticks.next(), Nanos(500));
        ticks.skip_to(Nanos(1300));
        assert_eq!(ticks.next(), Nanos(1500));
        let from = |at| ticks.at_or_after(Nanos(at)).0;
        assert_eq!([from(0), from(1500), from(1501), from(2000)], [1500, 1500, 1750, 2000]);
        let at_or_before = |at| ticks.at_or_before(Nanos(at)).0;
        let last = [at_or_before(0), at_or_before(1999), at_or_before(2000), at_or_before(2001)];
        assert_eq!(last, [1500, 1750, 2000, 2000]);
    }
}
