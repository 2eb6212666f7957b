//! Which signal the figures of tasks stand on, event by event.
//!
//! | tier | a task's figure is | there when |
//! |---|---|---|
//! | `counters` | what was counted of it | every task that has run since its birth was counted |
//! | `bandwidth` | (misses) its job's memory traffic, by its share of the job's CPU time | every job whose tasks ran has a monitoring group |
//! | `declared` | its job's profile or class × its CPU time | a job declares it |
//! | `counters` again | what was counted of it, absent of the others | some task was counted, and none of the above is there |
//! | `none` | nothing | otherwise |
//!
//! One tier holds for all tasks of an interval: figures of two sorts must not be compared. A wish
//! overrides the choice; what is wished for and not there stands on nothing.

use std::collections::BTreeMap;

use base::{JobId, Nanos};
use sched::{
    CounterDeltas, CounterEvent, EventKind, EventSet, MonGroupView, SignalTier, TaskView,
    TierOverride, Tiers,
};

use crate::jobs::Jobs;

/// Bytes that a miss moves.
const LINE_BYTES: u64 = 64;

/// The choice, and what it was.
#[derive(Debug, Default)]
pub(crate) struct TierSelector {
    wish: TierOverride,
    tiers: Tiers,
}

/// A task's figures of an interval and whether it has run since its birth.
pub(crate) type Row<'a> = (&'a mut TaskView, bool);

impl TierSelector {
    pub fn new(wish: TierOverride) -> Self {
        TierSelector { wish, tiers: Tiers::default() }
    }

    pub fn tiers(&self) -> &Tiers {
        &self.tiers
    }

    /// What the loads of places stand on, which the meter finds out.
    pub fn set_loads(&mut self, tier: SignalTier) {
        self.tiers.loads = tier;
    }

    /// Chooses for the interval that ends, and fills in what is not counted.
    pub fn turn_over(&mut self, rows: &mut [Row<'_>], jobs: &Jobs, groups: &[MonGroupView]) {
        let (of_all, of_some) = self.counted(rows);
        let traffic = Traffic::of(rows, groups);
        for &event in CounterEvent::ALL {
            let is_counted = (of_all.contains(event), of_some.contains(event));
            self.tiers.set(event, self.choose(event, is_counted, &traffic, jobs));
        }
        // What was counted stands in the rows already.
        let tiers = CounterEvent::ALL.iter().map(|&event| (event, self.tiers.get(event)));
        let others: Vec<_> = tiers.filter(|(_, tier)| *tier != SignalTier::Counters).collect();
        for (seen, _) in rows {
            others.iter().for_each(|&(event, tier)| fill(seen, event, tier, &traffic, jobs));
        }
    }

    /// What was counted of every task that has run, as long as none has run what was; and what was
    /// counted of any task.
    fn counted(&self, rows: &[Row<'_>]) -> (EventSet, EventSet) {
        let (mut of_all, mut of_some) = (None, EventSet::NONE);
        for (seen, has_run) in rows {
            let its = presence(&seen.counters);
            of_some = of_some.or(its);
            if *has_run {
                of_all = Some(of_all.unwrap_or(its).and(its));
            }
        }
        let were = || {
            let was = |event: &CounterEvent| self.tiers.get(*event) == SignalTier::Counters;
            CounterEvent::ALL.iter().copied().filter(was).fold(EventSet::NONE, EventSet::with)
        };
        (of_all.unwrap_or_else(were), of_some)
    }

    fn choose(
        &self,
        event: CounterEvent,
        (is_counted, is_counted_of_some): (bool, bool),
        traffic: &Traffic,
        jobs: &Jobs,
    ) -> SignalTier {
        let by_traffic = event == CounterEvent::LlcMisses && traffic.is_known;
        let is_there = |tier: &SignalTier| match tier {
            SignalTier::Counters => is_counted,
            SignalTier::Bandwidth => by_traffic,
            SignalTier::Declared => {
                event.source() == EventKind::Hardware && jobs.any_declares(event)
            }
            SignalTier::None => true,
        };
        match self.wish.get(event) {
            Some(wished) if is_there(&wished) => wished,
            Some(_) => SignalTier::None,
            // Absent of some is more than absent of all.
            None if is_counted_of_some => {
                let whole = SignalTier::ALL.into_iter().find(is_there);
                whole.filter(|tier| *tier != SignalTier::None).unwrap_or(SignalTier::Counters)
            }
            None => SignalTier::ALL.into_iter().find(is_there).unwrap_or_default(),
        }
    }
}

/// Misses count as counted where the sorts of misses are, that they are the sum of.
fn presence(counted: &CounterDeltas) -> EventSet {
    match counted.misses() {
        Some(_) => counted.present().with(CounterEvent::LlcMisses),
        None => counted.present(),
    }
}

fn fill(
    seen: &mut TaskView,
    event: CounterEvent,
    tier: SignalTier,
    traffic: &Traffic,
    jobs: &Jobs,
) {
    let figure = match tier {
        SignalTier::Counters => return,
        SignalTier::Bandwidth => traffic.misses_of(seen),
        SignalTier::Declared => {
            jobs.declared(seen.job).and_then(|d| d.in_time(event, seen.cpu_time))
        }
        SignalTier::None => None,
    };
    seen.counters = match figure {
        Some(figure) => seen.counters.with(event, figure),
        None => seen.counters.without(event),
    };
}

/// Memory traffic of jobs by their monitoring groups, and the CPU time that it is shared by.
#[derive(Debug, Default)]
struct Traffic {
    is_known: bool,
    of_jobs: BTreeMap<JobId, (u64, Nanos)>,
}

impl Traffic {
    fn of(rows: &[Row<'_>], groups: &[MonGroupView]) -> Self {
        let mut of_jobs: BTreeMap<JobId, (u64, Nanos)> = BTreeMap::new();
        for group in groups {
            if let Some(bytes) = group.traffic.total_bytes {
                let (sum, _) = of_jobs.entry(group.job).or_default();
                *sum = sum.saturating_add(bytes);
            }
        }
        if of_jobs.is_empty() {
            return Traffic::default();
        }
        let mut is_known = true;
        for (seen, has_run) in rows {
            match of_jobs.get_mut(&seen.job) {
                Some((_, cpu_time)) => *cpu_time = cpu_time.saturating_add(seen.cpu_time),
                None => is_known &= !has_run,
            }
        }
        Traffic { is_known, of_jobs }
    }

    fn misses_of(&self, seen: &TaskView) -> Option<u64> {
        let (bytes, cpu_time) = *self.of_jobs.get(&seen.job)?;
        let lines = u128::from(bytes / LINE_BYTES) * u128::from(seen.cpu_time.0);
        let share = lines.checked_div(u128::from(cpu_time.0)).unwrap_or(0);
        Some(u64::try_from(share).unwrap_or(u64::MAX))
    }
}
