//! The ends of the intervals of a policy: multiples of the interval, so that turns do not drift. A missed end is
//! skipped.

use base::Nanos;

/// Interval and next interval end, as time since the start of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IntervalEnds {
    interval: Nanos,
    next: Nanos,
}

impl IntervalEnds {
    pub(crate) fn new(interval: Nanos) -> Self {
        let interval = Nanos(interval.0.max(1));
        IntervalEnds { interval, next: interval }
    }

    pub(crate) fn next(&self) -> Nanos {
        self.next
    }

    /// Returns the later of `next` and the interval end nearest to an instant.
    pub(crate) fn around(&self, at: Nanos) -> Nanos {
        self.at_or_after(at.saturating_sub(Nanos(self.interval.0 / 2)))
    }

    /// Returns the later of `next` and the first interval end at or after an instant.
    pub(crate) fn at_or_after(&self, at: Nanos) -> Nanos {
        let n_more = at.saturating_sub(self.next).0.div_ceil(self.interval.0);
        Nanos(self.next.0.saturating_add(n_more.saturating_mul(self.interval.0)))
    }

    /// Returns the later of `next` and the last interval end at or before an instant.
    pub(crate) fn at_or_before(&self, at: Nanos) -> Nanos {
        self.at_or_after(at.saturating_sub(Nanos(self.interval.0 - 1)))
    }

    /// Skips all interval ends up to now.
    pub(crate) fn skip_to(&mut self, now: Nanos) {
        self.next =
            Nanos((now.0 / self.interval.0).saturating_add(1).saturating_mul(self.interval.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_ends_are_multiples_of_the_interval_and_missed_ends_are_skipped() {
        let mut ends = IntervalEnds::new(Nanos(250));
        assert_eq!(ends.next(), Nanos(250));
        ends.skip_to(Nanos(251));
        assert_eq!(ends.next(), Nanos(500));
        ends.skip_to(Nanos(1300));
        assert_eq!(ends.next(), Nanos(1500));
        let from = |at| ends.at_or_after(Nanos(at)).0;
        assert_eq!([from(0), from(1500), from(1501), from(2000)], [1500, 1500, 1750, 2000]);
        let at_or_before = |at| ends.at_or_before(Nanos(at)).0;
        let last = [at_or_before(0), at_or_before(1999), at_or_before(2000), at_or_before(2001)];
        assert_eq!(last, [1500, 1750, 2000, 2000]);
    }
}
