//! What is to happen when. Instants are since the start of the run.

use std::collections::BTreeSet;

use base::{JobId, Nanos};

/// Something that is to happen at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Item {
    /// A job starts.
    Start(JobId),
    /// A run of a job (its number) is told to end, as the workload says.
    StopAfter(JobId, u32),
    /// Whatever was told to end at or before `told` is killed.
    Kill {
        /// When it was told.
        told: Nanos,
    },
    /// A job that ends at once and restarts is taken notice of only now.
    TakeEnd(JobId, u32),
    /// Processes that cannot wake us are asked whether they have ended.
    Ask,
    /// Orphans that could not be asked whose they are can be by now.
    Orphans,
    /// The run has taken as long as it may.
    TimeLimit,
}

/// The list of what is to happen.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    items: BTreeSet<(Nanos, Item)>,
}

impl Agenda {
    pub(crate) fn add(&mut self, at: Nanos, item: Item) {
        self.items.insert((at, item));
    }

    /// The next thing that is due, earliest first.
    pub(crate) fn take_due(&mut self, now: Nanos) -> Option<Item> {
        let (at, _) = self.items.first()?;
        (*at <= now).then(|| self.items.pop_first().map(|(_, item)| item))?
    }

    pub(crate) fn next(&self) -> Option<Nanos> {
        self.items.first().map(|(at, _)| *at)
    }

    pub(crate) fn forget(&mut self, unwanted: impl Fn(&Item) -> bool) {
        self.items.retain(|(_, item)| !unwanted(item));
    }
}

/// The grid of interval turns: whole multiples of the interval, so that they do not drift. One that
/// came too late is not made up for.
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

    /// The tick that is nearest to an instant, and not over yet.
    pub(crate) fn around(&self, at: Nanos) -> Nanos {
        self.from(at.saturating_sub(Nanos(self.interval.0 / 2)))
    }

    /// The first tick that is not before an instant, and not over yet.
    pub(crate) fn from(&self, at: Nanos) -> Nanos {
        let n_more = at.saturating_sub(self.next).0.div_ceil(self.interval.0);
        Nanos(self.next.0.saturating_add(n_more.saturating_mul(self.interval.0)))
    }

    /// The last tick that is not after an instant; the next one, where that is later.
    pub(crate) fn last_by(&self, at: Nanos) -> Nanos {
        self.from(at.saturating_sub(Nanos(self.interval.0 - 1)))
    }

    /// Ticks up to now are none: nothing ran.
    pub(crate) fn skip_to(&mut self, now: Nanos) {
        self.next =
            Nanos((now.0 / self.interval.0).saturating_add(1).saturating_mul(self.interval.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_happen_in_order_of_time_and_not_before() {
        let mut agenda = Agenda::default();
        let start = |number| Item::Start(JobId(number));
        agenda.add(Nanos(20), start(1));
        agenda.add(Nanos(10), start(3));
        agenda.add(Nanos(10), start(2));
        assert_eq!(agenda.take_due(Nanos(9)), None);
        assert_eq!(agenda.take_due(Nanos(10)), Some(start(2)));
        assert_eq!(agenda.take_due(Nanos(10)), Some(start(3)));
        assert_eq!((agenda.take_due(Nanos(10)), agenda.next()), (None, Some(Nanos(20))));
    }

    #[test]
    fn ticks_stay_on_their_grid_and_late_ones_are_not_made_up_for() {
        let mut ticks = Ticks::new(Nanos(250));
        assert_eq!(ticks.next(), Nanos(250));
        ticks.skip_to(Nanos(251));
        assert_eq!(ticks.next(), Nanos(500));
        ticks.skip_to(Nanos(1300));
        assert_eq!(ticks.next(), Nanos(1500));
        let from = |at| ticks.from(Nanos(at)).0;
        assert_eq!([from(0), from(1500), from(1501), from(2000)], [1500, 1500, 1750, 2000]);
        let last_by = |at| ticks.last_by(Nanos(at)).0;
        assert_eq!(
            [last_by(0), last_by(1999), last_by(2000), last_by(2001)],
            [1500, 1750, 2000, 2000]
        );
    }
}
