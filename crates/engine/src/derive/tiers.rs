//! Signal tiers of the counter events of tasks.
//!
//! | tier | value of a task | available if |
//! |---|---|---|
//! | `counters` | delta of the task's counter | every task that has run since its start has the counter |
//! | `bandwidth` | (misses) memory traffic of the job × the task's share of the job's CPU time | every job with tasks that have run has a monitoring group |
//! | `declared` | rate in the profile or class of the job × the task's CPU time | a job declares the event |
//! | `counters` | delta of the task's counter, absent for tasks without the counter | at least one task has the counter, and no tier above is available |
//! | `none` | absent | otherwise |
//!
//! All tasks have the same tier in an interval, because values from different sources are not comparable. A
//! [`TierOverride`] sets the tier; if that tier is not available, the tier is `none`.

use std::collections::BTreeMap;

use base::{JobId, LINE_BYTES, Nanos};
use sched::{
    CounterDeltas, CounterEvent, EventSet, Measured, MonGroupView, SignalTier, TaskView,
    TierOverride, Tiers,
};

use crate::jobs::Jobs;

#[derive(Debug, Default)]
pub(crate) struct TierSelector {
    overrides: TierOverride,
    tiers: Tiers,
}

/// View of a task, and whether the task has run since its start.
pub(crate) type TaskViewRow<'a> = (&'a mut TaskView, bool);

impl TierSelector {
    pub fn new(overrides: TierOverride) -> Self {
        TierSelector { overrides, tiers: Tiers::default() }
    }

    pub fn tiers(&self) -> &Tiers {
        &self.tiers
    }

    /// Sets the tier of the loads, which [`super::LoadMeter`] chooses.
    pub fn set_loads(&mut self, tier: SignalTier) {
        self.tiers.loads = tier;
    }

    /// Chooses the tiers of the interval that ends, and computes the values of tiers other than `counters`.
    pub fn end_interval(
        &mut self,
        rows: &mut [TaskViewRow<'_>],
        jobs: &Jobs,
        groups: &[MonGroupView],
    ) {
        let (of_all, of_some) = self.counted_events(rows);
        let traffic = JobTraffic::of(rows, groups);
        let declared = jobs.declared_events();
        let mut absent = EventSet::NONE;
        let mut computed = Vec::new();
        for &event in CounterEvent::ALL {
            let is_counted = (of_all.contains(event), of_some.contains(event));
            let tier = self.choose(event, is_counted, &traffic, declared.contains(event));
            self.tiers.set(event, tier);
            match tier {
                SignalTier::Counters => {}
                SignalTier::None => absent = absent.with(event),
                SignalTier::Bandwidth | SignalTier::Declared => computed.push((event, tier)),
            }
        }
        for (view, _) in rows {
            view.counters.remove(absent);
            computed.iter().for_each(|&(event, tier)| fill(view, event, tier, &traffic, jobs));
        }
    }

    /// Returns the events with a counter for every task that has run, and the events with a counter for at least one
    /// task. If no task has run, the first set is unchanged.
    fn counted_events(&self, rows: &[TaskViewRow<'_>]) -> (EventSet, EventSet) {
        let (mut of_all, mut of_some) = (None, EventSet::NONE);
        for (view, has_run) in rows {
            let events = presence(&view.counters);
            of_some = of_some.or(events);
            if *has_run {
                of_all = Some(of_all.unwrap_or(events).and(events));
            }
        }
        let before = || {
            let known =
                self.tiers.events_with_source().filter(|(_, tier)| *tier == SignalTier::Counters);
            known.fold(EventSet::NONE, |set, (event, _)| set.with(event))
        };
        (of_all.unwrap_or_else(before), of_some)
    }

    fn choose(
        &self,
        event: CounterEvent,
        (is_counted, is_counted_of_some): (bool, bool),
        traffic: &JobTraffic,
        is_declared: bool,
    ) -> SignalTier {
        let by_traffic = event == CounterEvent::LlcMisses && traffic.is_known;
        let is_available = |tier: &SignalTier| match tier {
            SignalTier::Counters => is_counted,
            SignalTier::Bandwidth => by_traffic,
            SignalTier::Declared => is_declared,
            SignalTier::None => true,
        };
        match self.overrides.get(event) {
            Some(only) if is_available(&only) => only,
            Some(_) => SignalTier::None,
            // Counters of only some tasks are used if no tier has values of all tasks.
            None if is_counted_of_some => {
                let whole = SignalTier::ALL.into_iter().find(is_available);
                whole.filter(|tier| *tier != SignalTier::None).unwrap_or(SignalTier::Counters)
            }
            None => SignalTier::ALL.into_iter().find(is_available).unwrap_or_default(),
        }
    }
}

/// Returns the events with a value. Misses have a value if it can be computed from misses by loads, stores and
/// prefetches.
fn presence(counted: &CounterDeltas) -> EventSet {
    match counted.misses() {
        Some(_) => counted.present().with(CounterEvent::LlcMisses),
        None => counted.present(),
    }
}

/// Sets the value of an event with the tier `bandwidth` or `declared`.
fn fill(
    view: &mut TaskView,
    event: CounterEvent,
    tier: SignalTier,
    traffic: &JobTraffic,
    jobs: &Jobs,
) {
    let value = match tier {
        SignalTier::Counters | SignalTier::None => return,
        SignalTier::Bandwidth => traffic.misses_of(view),
        SignalTier::Declared => {
            jobs.declared(view.job).and_then(|d| d.in_time(event, view.cpu_time))
        }
    };
    match value {
        Some(value) => view.counters.set(event, Measured::Exact(value)),
        None => view.counters.remove(EventSet::NONE.with(event)),
    }
}

/// Memory traffic of jobs from their monitoring groups, and the CPU time of their tasks.
#[derive(Debug, Default)]
struct JobTraffic {
    is_known: bool,
    of_jobs: BTreeMap<JobId, (u64, Nanos)>,
}

impl JobTraffic {
    fn of(rows: &[TaskViewRow<'_>], groups: &[MonGroupView]) -> Self {
        let mut of_jobs: BTreeMap<JobId, (u64, Nanos)> = BTreeMap::new();
        for group in groups {
            if let Some(bytes) = group.traffic.total_bytes {
                let (sum, _) = of_jobs.entry(group.job).or_default();
                *sum = sum.saturating_add(bytes);
            }
        }
        if of_jobs.is_empty() {
            return JobTraffic::default();
        }
        let mut is_known = true;
        for (view, has_run) in rows {
            match of_jobs.get_mut(&view.job) {
                Some((_, cpu_time)) => *cpu_time = cpu_time.saturating_add(view.cpu_time),
                None => is_known &= !has_run,
            }
        }
        JobTraffic { is_known, of_jobs }
    }

    fn misses_of(&self, view: &TaskView) -> Option<u64> {
        let (bytes, cpu_time) = *self.of_jobs.get(&view.job)?;
        let lines = u128::from(bytes / LINE_BYTES) * u128::from(view.cpu_time.0);
        let share = lines.checked_div(u128::from(cpu_time.0)).unwrap_or(0);
        Some(u64::try_from(share).unwrap_or(u64::MAX))
    }
}
