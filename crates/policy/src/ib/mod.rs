//! Integrated behaviour: jobs with much memory time run on slow cores, computing jobs on fast cores.
//!
//! ```text
//!   global behaviour (whole run, from the profile) ──┐ alpha
//!                                                    ├─► integrated behaviour ─► queue of a core kind
//!   local behaviour (last intervals, counted) ───────┘ 1 - alpha
//! ```
//!
//! [`monitor`] detects stable phases, which reschedule a job. [`queues`] selects the kind: principles are matching
//! behaviour and kind, few migrations, and equal loads of the kinds, which the parameter beta relaxes.

mod behaviour;
mod declaration;
mod monitor;
mod queues;
mod reasons;
mod threads;

use std::collections::BTreeMap;

use base::NodeId;
use sched::{Cause, JobState, JobView, Plan, Reason, ReasonValue, Snapshot};

use crate::Rules;
use crate::core_kinds::speed::{
    self, Counts, SpeedModel, UNKNOWN_SHARE, memory_utilization, share_on_fastest,
};
use crate::core_kinds::{CoreKinds, IDLE_INTERVALS, KindJob, is_interval, is_new};
use crate::declaration::MILLION;
use behaviour::integrated;
pub(crate) use declaration::INFO;
use declaration::{Balance, Config};
use monitor::{Monitor, Phase};
use queues::{Balanced, Between, By, Gain, Member, Queues, Rule, Unit, Units};
use reasons::{
    IB_BALANCED, IB_CHANGE, IB_FILTERED, IB_IDLE, IB_PHASE, IB_PHASE_QUEUED, IB_SHORTER, IB_STARTED,
};
use threads::Threads;

/// Shares of the achievable bandwidth: below the first the memory controller limits no task, above the second it limits
/// all tasks. Chosen: its latency rises with its use, and its use varies between intervals.
const SATURATED: (f64, f64) = (0.7, 0.9);

/// State of the policy.
#[derive(Debug)]
struct IntegratedBehaviour {
    config: Config,
    kinds: CoreKinds,
    /// The jobs that are placed as a whole, and the threads that are placed one by one.
    behaviours: Units<UnitBehaviour>,
    threads: Threads,
    n_arrivals: u64,
    n_intervals: u64,
    /// Intervals in a row in which a core was idle.
    n_idle: u64,
    /// How far the memory controller of each node limited the tasks in the last interval, 0 to 1.
    saturation: BTreeMap<NodeId, f64>,
}

/// State of a job or thread.
#[derive(Clone, Debug, Default)]
struct UnitBehaviour {
    monitor: Monitor,
    /// Global behaviour from the profile, in millionths.
    profiled: Option<u64>,
    /// Integrated behaviour, in millionths.
    ib: u64,
    /// Integrated behaviour at the start.
    start: u64,
    /// Whether `ib` contains a counted phase.
    is_counted: bool,
    /// Share of memory time on the fastest kind.
    memory_share: f64,
    /// LLC misses per millisecond of CPU time in the interval in which the last phase became stable.
    misses_per_ms: u64,
    /// Order of arrival in its queue.
    arrived: u64,
    returns: IdleReturns,
}

/// The migrations of a job or thread to idle slower cores, and back to idle faster ones. Programs with serial and
/// parallel phases leave fast cores idle in turn, and each migration costs cache contents, and local memory if the kinds
/// are on different nodes.
#[derive(Clone, Copy, Debug, Default)]
struct IdleReturns {
    /// Interval of the last migration to idle slower cores, until the next migration.
    left_in_interval: Option<u64>,
    /// Number of intervals after a return in which idle slower cores alone are no reason for a migration.
    n_hold_intervals: u64,
    /// Interval in which the hold ends.
    hold_ends_in_interval: u64,
}

impl IdleReturns {
    /// Shortest and longest hold: 2 s and 32 s by default. Chosen.
    const HOLD: (u64, u64) = (10, 160);
    /// A return at most this number of intervals after the migration doubles the hold; a later one resets it. 20 s by
    /// default. Chosen: phases of a few seconds are usual.
    const SOON: u64 = 100;

    /// Adds a migration, with the reason of its request.
    fn migrated(&mut self, now: u64, (from, to): (usize, usize), reason: &Reason) {
        let left = self.left_in_interval.take();
        if reason.code != IB_IDLE {
            return;
        }
        if from < to {
            self.left_in_interval = Some(now);
        } else if let Some(left) = left {
            let (min, max) = Self::HOLD;
            let is_soon = now - left <= Self::SOON;
            self.n_hold_intervals = match is_soon {
                true => (2 * self.n_hold_intervals).clamp(min, max),
                false => 0,
            };
            self.hold_ends_in_interval = now + self.n_hold_intervals;
        }
    }
}

impl UnitBehaviour {
    fn reason_of_start(&self, unit: Unit) -> Reason {
        Reason::new(IB_STARTED)
            .with("unit", unit.noun())
            .with("ib", share(self.ib))
            .with("global", if self.profiled.is_some() { "known" } else { "unknown" })
    }
}

/// The last decision about a job or thread in this turn.
struct Decision {
    unit: Unit,
    to: usize,
    reason: Reason,
}

/// Returns the decisions about each unit, in order.
fn by_unit(decisions: &[Decision]) -> BTreeMap<Unit, Vec<&Decision>> {
    let mut all: BTreeMap<Unit, Vec<&Decision>> = BTreeMap::new();
    decisions.iter().for_each(|decision| all.entry(decision.unit).or_default().push(decision));
    all
}

impl Rules for IntegratedBehaviour {
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        self.remove_old_state(snapshot);
        if !self.kinds.update(snapshot, plan) {
            return;
        }
        if is_interval(snapshot) {
            self.n_intervals += 1;
            let (from, to) = SATURATED;
            self.saturation = memory_utilization(snapshot);
            let limits = |used: f64| ((used - from) / (to - from)).clamp(0.0, 1.0);
            self.saturation.values_mut().for_each(|share| *share = limits(*share));
        }
        let units = self.units(snapshot, plan);
        let mut queues = self.queues(snapshot, &units);
        // Samples are of the interval before the decisions of this turn.
        let n_sampled = queues.n_tasks();
        let mut decisions: Vec<Decision> = Vec::new();
        let mut phases = self.phases(snapshot, (&units, &n_sampled), &mut queues, plan);
        for unit in units.iter().filter(|unit| is_interval(snapshot) || is_new(snapshot, unit)) {
            // A running unit without a kind whose placement was not carried out, for example in a watch without --act,
            // keeps its monitor.
            if self.behaviours.get(Unit::from(unit)).is_some() {
                let phase = phases.remove(&Unit::from(unit));
                self.sampled((snapshot, unit), phase, &mut queues, &mut decisions);
            } else {
                self.start((snapshot, unit), &mut queues, &mut decisions, plan);
            }
        }
        if self.config.tlp && is_interval(snapshot) {
            self.serial_phases(snapshot, &units, &mut queues, &mut decisions);
        }
        if self.rebalances(snapshot, &queues) {
            let moves = queues.rebalance();
            self.balanced(moves, &mut decisions);
        }
        if self.config.cosched && is_interval(snapshot) {
            self.coschedule(snapshot, (&units, &n_sampled), &mut queues, &mut decisions);
        }
        self.request(snapshot, &units, &decisions, plan);
    }
}

impl IntegratedBehaviour {
    fn new(config: Config) -> Self {
        let (mut kinds, behaviours, threads, saturation): (CoreKinds, _, _, _) = Default::default();
        kinds.places_threads = config.uses_threads();
        let (n_arrivals, n_intervals, n_idle) = (0, 0, 0);
        IntegratedBehaviour {
            config,
            kinds,
            behaviours,
            threads,
            n_arrivals,
            n_intervals,
            n_idle,
            saturation,
        }
    }

    /// Discards the state of ended jobs and threads, and of earlier runs of jobs that start.
    fn remove_old_state(&mut self, snapshot: &Snapshot<'_>) {
        let starts = snapshot.jobs.iter().any(|job| job.state == JobState::Due);
        if starts || snapshot.turn.causes.contains(&Cause::Ended) || !self.threads.is_empty() {
            self.behaviours.retain(|unit| match unit.thread {
                None => snapshot.job(unit.job).is_some_and(|job| job.state == JobState::Running),
                Some(_) => self.threads.contains(unit),
            });
        }
    }

    /// Returns the jobs that are placed as a whole, then the threads of the other jobs.
    fn units<'s>(&mut self, snapshot: &'s Snapshot<'_>, plan: &mut Plan) -> Vec<KindJob<'s>> {
        if !self.config.uses_threads() {
            return self.kinds.jobs(snapshot, plan);
        }
        self.threads.update(snapshot, &self.kinds);
        let mut units = self.kinds.jobs_of_some_kind(snapshot);
        units.retain(|job| !self.threads.manages(job.view));
        units.extend(self.threads.units(snapshot, &self.kinds));
        units
    }

    /// Returns whether jobs ended, CPUs changed, or a core was idle in two intervals in a row because other jobs sleep.
    fn rebalances(&mut self, snapshot: &Snapshot<'_>, queues: &Queues) -> bool {
        if is_interval(snapshot) {
            self.n_idle = if queues.leaves_core_idle() { self.n_idle + 1 } else { 0 };
        }
        let has_changed = |cause| snapshot.turn.causes.contains(&cause);
        let has_forked = self.threads.take_forked();
        let rebalances = has_changed(Cause::Ended)
            || has_changed(Cause::CpusChanged)
            || has_forked
            || IDLE_INTERVALS <= self.n_idle;
        if rebalances {
            self.n_idle = 0;
        }
        rebalances
    }

    fn queues(&self, snapshot: &Snapshot<'_>, units: &[KindJob<'_>]) -> Queues {
        let placed = units.iter().filter_map(|unit| Some((unit.kind?, unit)));
        let members = placed.map(|(kind, unit)| (kind, self.member(snapshot, unit)));
        Queues::new(self.kinds.shared(), self.config, members)
    }

    /// Returns the entry of a job or thread. The thread of a serial phase counts as computing.
    fn member(&self, snapshot: &Snapshot<'_>, job: &KindJob<'_>) -> Member {
        let unit = Unit::from(job);
        let unknown = UnitBehaviour { memory_share: UNKNOWN_SHARE, ..UnitBehaviour::default() };
        let state = self.behaviours.get(unit).unwrap_or(&unknown);
        let (memory_share, misses_per_ms) = (state.memory_share, state.misses_per_ms);
        let saturation = if misses_per_ms == 0 { 0.0 } else { self.saturation_of(job.view) };
        let n_tasks = match unit.thread {
            _ if self.config.balance == Balance::Always => job.n_tasks(),
            Some(_) => u64::from(self.threads.is_runnable(unit)),
            None => job.n_runnable(snapshot),
        };
        let (ib, start, possible) = match self.threads.is_serial(unit) {
            true => (0, 0, job.possible.iter().take(1).collect()),
            false => (state.ib, state.start, job.possible),
        };
        Member {
            unit,
            ib,
            start,
            is_counted: state.is_counted,
            arrived: state.arrived,
            n_tasks,
            possible,
            restricted: self.kinds.restricted(job),
            memory_share,
            waiting: (saturation * memory_share * MILLION as f64).round() as u64,
            misses_per_ms,
            remaining: self.config.lrt.then(|| self.threads.remaining(unit)).flatten(),
            is_held: self.n_intervals < state.returns.hold_ends_in_interval,
            is_fixed: self.threads.is_cooling_down(unit.job),
        }
    }

    /// Returns how far memory controllers limit a job: the mean over its memory, or the largest if the nodes of its
    /// memory are unknown.
    fn saturation_of(&self, job: &JobView<'_>) -> f64 {
        let of_node = |node: NodeId| self.saturation.get(&node).copied().unwrap_or(0.0);
        let largest = self.saturation.values().copied().fold(0.0, f64::max);
        let memory = job.memory.filter(|_| 0.0 < largest);
        memory.and_then(|memory| memory.mean(of_node)).unwrap_or(largest)
    }

    /// Places a job or thread that starts, by its global behaviour.
    fn start(
        &mut self,
        (snapshot, job): (&Snapshot<'_>, &KindJob<'_>),
        queues: &mut Queues,
        decisions: &mut Vec<Decision>,
        plan: &mut Plan,
    ) {
        let profiled = self.profiled(snapshot, job.view);
        if profiled.is_none() {
            self.kinds.note_no_signature(job, "mean", plan);
        }
        let unit = Unit::from(job);
        let ib = self.start_value(profiled);
        let mut monitor = Monitor::default();
        monitor.skip_next();
        let arrived = self.next_arrival();
        let profile = job.view.job.found.as_deref();
        let model = SpeedModel::new(snapshot, &self.kinds);
        let memory_share = profile.and_then(|of| model.share_of_profile(snapshot, &self.kinds, of));
        let memory_share = memory_share.unwrap_or(UNKNOWN_SHARE);
        let state = UnitBehaviour {
            monitor,
            profiled,
            ib,
            start: ib,
            is_counted: false,
            memory_share,
            misses_per_ms: 0,
            arrived,
            returns: IdleReturns::default(),
        };
        let reason = state.reason_of_start(unit);
        self.behaviours.insert(unit, state);
        self.reschedule(snapshot, job, reason, queues, decisions);
    }

    /// Adds the behaviours of an interval for all units, before the first reschedule compares a unit with others. Returns
    /// the reasons of the reschedules.
    fn phases(
        &mut self,
        snapshot: &Snapshot<'_>,
        (units, n_tasks): (&[KindJob<'_>], &[u64]),
        queues: &mut Queues,
        plan: &mut Plan,
    ) -> BTreeMap<Unit, Reason> {
        let mut phases = BTreeMap::new();
        for job in units.iter().filter(|_| is_interval(snapshot)) {
            let unit = Unit::from(job);
            if let Some(reason) = self.phase(snapshot, job, n_tasks, plan) {
                if let Some((kind, _)) = queues.remove(unit) {
                    queues.insert(kind, self.member(snapshot, job));
                }
                phases.insert(unit, reason);
            }
        }
        phases
    }

    /// Adds the behaviour of an interval. Returns the reason of a reschedule if a new phase is stable. The other
    /// results of the monitor are observations.
    fn phase(
        &mut self,
        snapshot: &Snapshot<'_>,
        job: &KindJob<'_>,
        n_tasks: &[u64],
        plan: &mut Plan,
    ) -> Option<Reason> {
        let value = self.behaviour(snapshot, job)?;
        let config = self.config;
        let unit = Unit::from(job);
        let result = self.behaviours.get_mut(unit)?.monitor.record(value, &config);
        let is_phase = matches!(result, Phase::Stable(_) | Phase::Unstable(_));
        let memory_share = is_phase.then(|| self.memory_share(snapshot, job, n_tasks)).flatten();
        let counts = is_phase.then(|| speed::counts(job.tasks(snapshot))).flatten();
        let state = self.behaviours.get_mut(unit)?;
        let (interval, began) = state.monitor.intervals();
        let of_phase = |code, local| {
            let reason = Reason::new(code).with("interval", interval).with("began", began);
            reason.with("local", share(local))
        };
        let observed = match result {
            Phase::Continues => return None,
            Phase::Changed(from, local) => of_phase(IB_CHANGE, local)
                .with("unit", unit.noun())
                .with("first", if from.is_none() { "yes" } else { "no" })
                .with_some("from", from.map(share)),
            Phase::TooShort(local) => of_phase(IB_FILTERED, local).with("why", "too-short"),
            Phase::Unchecked(local) => of_phase(IB_FILTERED, local).with("why", "unchecked"),
            Phase::Stable(local) | Phase::Unstable(local) => {
                let is_stable = matches!(result, Phase::Stable(_));
                let global = state.profiled.or_else(|| state.monitor.global());
                state.ib = integrated(config.alpha.0, global, local);
                state.is_counted = true;
                state.misses_per_ms = counts.map_or(0, Counts::misses_per_ms);
                state.memory_share = memory_share.unwrap_or(state.memory_share);
                let reason = of_phase(IB_PHASE, local)
                    .with("unit", unit.noun())
                    .with("phase", if is_stable { "stable" } else { "unstable" })
                    .with("n_intervals", monitor::UNSTABLE_AFTER)
                    .with("global", global.map_or("unknown".into(), share))
                    .with("ib", share(state.ib));
                return Some(reason);
            }
        };
        plan.observe(unit, observed);
        None
    }

    /// Returns the share of memory time in the last interval, alone on the fastest kind.
    fn memory_share(
        &self,
        snapshot: &Snapshot<'_>,
        job: &KindJob<'_>,
        n_tasks: &[u64],
    ) -> Option<f64> {
        let (on, tasks) = (job.kind?, job.tasks(snapshot));
        let model = SpeedModel::new(snapshot, &self.kinds);
        let smt_slowdown = self.kinds.get(on).smt_slowdown(n_tasks[on]);
        let profile = job.view.job.found.as_deref();
        let of_kind = (self.kinds.get(on), smt_slowdown);
        let share = profile.and_then(|of| model.profiled_memory_share(tasks, of, of_kind));
        let share = share.or_else(|| model.memory_share(tasks))?;
        Some(share_on_fastest(&self.kinds, share, (on, smt_slowdown)))
    }

    /// Reschedules a job or thread with a new phase, and one that is on no kind yet. A serial phase decides about its
    /// thread.
    fn sampled(
        &mut self,
        (snapshot, job): (&Snapshot<'_>, &KindJob<'_>),
        phase: Option<Reason>,
        queues: &mut Queues,
        decisions: &mut Vec<Decision>,
    ) {
        let unit = Unit::from(job);
        let is_unplaced = job.kind.is_none();
        let start =
            || Some(self.behaviours.get(unit).filter(|_| is_unplaced)?.reason_of_start(unit));
        let Some(reason) = phase.or_else(start) else { return };
        match queues.kind_of(unit).filter(|_| self.threads.is_serial(unit)) {
            Some(to) => {
                let n_tasks = queues.n_tasks();
                let reason = self.with_counts(reason.with("rule", "serial"), (&n_tasks, &n_tasks));
                decisions.push(Decision { unit, to, reason });
            }
            None => self.reschedule(snapshot, job, reason, queues, decisions),
        }
    }

    fn reschedule(
        &self,
        snapshot: &Snapshot<'_>,
        job: &KindJob<'_>,
        reason: Reason,
        queues: &mut Queues,
        decisions: &mut Vec<Decision>,
    ) {
        let member = self.member(snapshot, job);
        let (unit, start) = (member.unit, member.start);
        let before = queues.n_tasks();
        let was = queues.remove(unit).map(|(kind, _)| kind);
        let rescheduled = queues.reschedule(member, was);
        let n_tasks = (&before[..], &rescheduled.after[..]);
        let reason = self.with_rule(reason, (rescheduled.rule, start), n_tasks);
        decisions.push(Decision { unit, to: rescheduled.kind, reason });
        self.balanced(rescheduled.moves, decisions);
    }

    /// Adds the rule that selected a kind, and the numbers of tasks before and after.
    fn with_rule(
        &self,
        reason: Reason,
        (rule, start): (Rule, u64),
        n_tasks: (&[u64], &[u64]),
    ) -> Reason {
        let (rule, bound) = match rule {
            Rule::Below(bound) if bound.is_of_similar => ("below-similar", Some(bound)),
            Rule::Below(bound) if bound.by == By::Start => ("below-start", Some(bound)),
            Rule::Below(bound) => ("below", Some(bound)),
            Rule::Above(bound) if bound.is_of_similar => ("above-similar", Some(bound)),
            Rule::Above(bound) if bound.by == By::Start => ("above-start", Some(bound)),
            Rule::Above(bound) => ("above", Some(bound)),
            Rule::NearlyEqual(bound) => ("nearly-equal", Some(bound)),
            Rule::OnlyKind => ("only", None),
            Rule::Between { by: Between::LowerLoad, .. } => ("between", None),
            Rule::Between { by: Between::Stays, .. } => ("stays", None),
            Rule::Between { by: Between::IdleFast, .. } => ("idle", None),
            Rule::Between { by: Between::IdleSlow, .. } => ("idle-slower", None),
            Rule::Between { by: Between::Left, .. } => ("left", None),
        };
        let reason = reason
            .with("rule", rule)
            .with_some("bound", bound.map(|bound| share(bound.value)))
            .with_some("start", bound.filter(|bound| bound.by == By::Start).map(|_| share(start)))
            .with_some("beside", bound.map(|bound| self.kinds.get(bound.kind).name.clone()));
        self.with_counts(reason, n_tasks)
    }

    fn with_counts(&self, reason: Reason, (before, after): (&[u64], &[u64])) -> Reason {
        reason
            .with("before", self.kinds.counts_label(before))
            .with("after", self.kinds.counts_label(after))
    }

    fn balanced(&self, moves: Vec<Balanced>, decisions: &mut Vec<Decision>) {
        for moved in moves {
            let end = if moved.step.is_down() { "highest" } else { "lowest" };
            let reason = match moved.gain {
                Gain::IdleCores => Reason::new(IB_IDLE),
                Gain::Load => Reason::new(IB_BALANCED).with("beta", share(self.config.beta.0)),
                Gain::Times(gain) => Reason::new(IB_SHORTER).with("gain", share(gain)),
            };
            let (work_unit, per_unit) = self.threads.work_unit(moved.unit);
            let reason = reason
                .with("unit", moved.unit.noun())
                .with("end", end)
                .with_some("similar", moved.remaining.map(|_| end))
                .with_some("remaining", moved.remaining.map(|work| work / per_unit))
                .with_some("work", moved.remaining.map(|_| work_unit))
                .with("ib", share(moved.ib))
                .with("before", self.kinds.counts_label(&moved.before))
                .with("after", self.kinds.counts_label(&moved.after));
            decisions.push(Decision { unit: moved.unit, to: moved.step.to, reason });
        }
    }

    /// Requests the last decision about each job and thread, if it changes its kind. A reschedule that is not the
    /// reason of the request is an observation.
    fn request(
        &mut self,
        snapshot: &Snapshot<'_>,
        units: &[KindJob<'_>],
        decisions: &[Decision],
        plan: &mut Plan,
    ) {
        let of_units = by_unit(decisions);
        for job in units {
            let unit = Unit::from(job);
            let of_unit = || of_units.get(&unit).into_iter().flatten();
            let (first, last) = (of_unit().next(), of_unit().next_back());
            // A job that starts has no kind that it leaves for balance: its reason is that of the start, with the kind
            // that it leaves in the same turn.
            let reason = if job.kind.is_none() { first } else { last };
            let changes = last.is_some_and(|decision| job.kind != Some(decision.to));
            let left = first
                .filter(|first| job.kind.is_none() && last.is_some_and(|last| last.to != first.to));
            let left = left.map(|first| self.kinds.get(first.to).name.clone());
            for Decision { to, reason: of_decision, .. } in of_unit() {
                let is_requested = changes && reason.is_some_and(|r| r.reason == *of_decision);
                if of_decision.code == IB_PHASE && !is_requested {
                    let mut queued = of_decision.clone();
                    queued.code = IB_PHASE_QUEUED;
                    plan.observe(unit, queued.with("kind", self.kinds.get(*to).name.clone()));
                }
            }
            let requested = match last.zip(reason) {
                Some((Decision { to, .. }, Decision { reason, .. })) if job.kind != Some(*to) => {
                    let arrived = self.next_arrival();
                    if let Some(state) = self.behaviours.get_mut(unit) {
                        state.arrived = arrived;
                        if let Some(from) = job.kind {
                            state.monitor.skip_next();
                            state.returns.migrated(self.n_intervals, (from, *to), reason);
                        }
                    }
                    self.kinds.place(*to, job, reason.clone().with_some("left", left), plan);
                    Some(*to)
                }
                _ => job.kind.filter(|_| self.kinds.rebind(snapshot, job, plan)),
            };
            if let Some(kind) = requested {
                self.threads.bind(unit, self.kinds.cpus_for(kind, job));
            }
        }
    }

    fn next_arrival(&mut self) -> u64 {
        self.n_arrivals += 1;
        self.n_arrivals
    }
}

/// Returns millionths as the value of a reason, which is printed with three decimal places.
fn share(millionths: u64) -> ReasonValue {
    (millionths as f64 / MILLION as f64).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_soon_return_doubles_the_hold_and_a_late_one_resets_it() {
        let mut returns = IdleReturns::default();
        let (idle, other) = (Reason::new(IB_IDLE), Reason::new(IB_SHORTER));
        let mut hold_after = |left: u64, returned: u64, reason: &Reason| {
            returns.migrated(left, (0, 1), reason);
            returns.migrated(returned, (1, 0), &idle);
            returns.hold_ends_in_interval.saturating_sub(returned)
        };
        let soon: Vec<u64> = (0..6).map(|n| hold_after(1000 * n, 1000 * n + 100, &idle)).collect();
        assert_eq!(soon, [10, 20, 40, 80, 160, 160]);
        assert_eq!(hold_after(7000, 7100, &other), 0, "it left for a predicted gain");
        assert_eq!(hold_after(8000, 8101, &idle), 0);
        assert_eq!(hold_after(9000, 9001, &idle), 10);
    }
}
