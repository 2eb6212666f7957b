//! Trials of migrations: a wrapper of a policy that passes migrations, measures their effect, and reverts them if there
//! is no improvement.
//!
//! ```text
//!   measure ──► migrations of the policy ──► wait ──► measure again ──► better: continue
//!      ▲           (for some intervals)                                └► inconclusive: try again
//!      │                                                               └► worse, or inconclusive
//!      └──── back-off, twice as long each time ◄── release all jobs ◄────── several times
//! ```
//!
//! [`TrialGoal`] depends on whether the user or evenkeel selected the wrapped policy. The
//! metrics are in [`verdict`], the compared jobs in [`intervals`], the phases of a trial in [`phase`]. While pages
//! migrate, nothing is measured, because the migration itself slows jobs down. Pages that follow a migrated job belong
//! to the trial of the job. A job that is bound where it runs has not migrated; such bindings alone start no trial. A
//! trial is inconclusive if all migrated jobs ended, or if no metric is available.
//!
//! Times are intervals of the wrapped policy.

mod goal;
mod intervals;
mod load_notes;
mod phase;
mod reported_only;
mod verdict;

use std::collections::{BTreeSet, VecDeque};

use base::{Nanos, counted_noun};
use sched::{
    Action, ActionKind, Cause, JobState, Plan, Policy, Reason, ReasonCode, Request, Snapshot,
    Target, reasons,
};

pub(crate) use goal::TrialGoal;
use intervals::{ComparedJobs, MeasuredInterval};
use load_notes::LoadNotes;
use phase::{Origin, Trial, TrialPhase, TrialResult};
pub(crate) use reported_only::ReportedOnly;
use verdict::TrialVerdict;

/// The end of a trial without a gain.
macro_rules! undone {
    () => {
        "[undo=release: all jobs are released][undo=return: the migrated jobs return to the CPUs that they had before the trial, and are then released]; none migrates for {rest}"
    };
}

/// The metric of a trial after a text; nothing if no metric was measured.
macro_rules! metric {
    ($before:literal) => {
        concat!(
            "[metric=instructions: ",
            $before,
            "the mean speed of the jobs (instructions per second of CPU time, relative to before)][metric=wait: ",
            $before,
            "the share of wait time][metric=imbalance: ",
            $before,
            "the excess of the largest load over the mean]",
        )
    };
}

reasons! {
    /// Note: a metric improved.
    JUDGED_BETTER = "judged-better":
        concat!(metric!(""), " changed from {before} to {after} after {moves}, more than noise ({tolerance})[others=changed: , for the jobs that ran during the whole measurement (others: {n_ended} ended, {n_started} started)]: performance improved");
    /// Note and release: a metric got worse.
    JUDGED_WORSE = "judged-worse":
        concat!(metric!(""), " changed from {before} to {after} after {moves}, more than noise ({tolerance})[others=changed: , for the jobs that ran during the whole measurement (others: {n_ended} ended, {n_started} started)]: performance got worse, so ", undone!());
    /// Note and release: several trials in a row were inconclusive.
    JUDGED_NO_BETTER = "judged-no-better":
        concat!("{trials} had no measurable effect", metric!("; in the last one "), "[ changed from {before} to {after} after {moves}, not more than noise ({tolerance})][others=changed: , for the jobs that ran during the whole measurement (others: {n_ended} ended, {n_started} started)]: ", undone!());
    /// Note: a trial has no result.
    NOT_JUDGED = "not-judged":
        "the effect of {moves} is unknown, because all migrated jobs ended or no metric of the others was measured: inconclusive, {n_tries} of {n_max} times until all jobs are released";
    /// Note: the back-off is over.
    TRIES_AGAIN = "tries-again":
        "the back-off is over: migrations are tried and measured again";
    /// Release of a job that runs on its domain before the trial again.
    RETURNED = "returned":
        "the job runs on its CPUs before the trial again";
    /// Note: no load is known, so no job migrates.
    NOTHING_IS_MOVED = "nothing-is-moved":
        "no job migrates: no memory counter is readable, and no attached process has a class; declare classes with --class 'PATTERN=CLASS', from 0 to 15";
}

/// Number of measured intervals before and after migrations. Guessed: enough for a median.
const N_MEASURED: usize = 8;
/// Number of intervals in which a trial passes migrations.
const N_MOVING: u64 = 4;
/// Number of intervals after migrations that are not measured: they include the cost of the migrations.
const N_UNMEASURED: u64 = 1;
/// The first and the longest back-off.
const BACK_OFF_FIRST: Nanos = Nanos::from_secs(60);
const BACK_OFF_MAX: Nanos = Nanos::from_secs(3600);
/// A wrapper around a policy, whose migrations are tried and measured.
pub(crate) struct Trials {
    policy: Box<dyn Policy>,
    goal: TrialGoal,
    load_notes: LoadNotes,
    /// Whether the last trial with a measured effect improved performance.
    has_improved: bool,
    /// The last intervals, the newest last.
    intervals: VecDeque<MeasuredInterval>,
    phase: TrialPhase,
    n_tries: u64,
    n_setbacks: u32,
}

impl Trials {
    pub(crate) fn new(policy: Box<dyn Policy>, goal: TrialGoal) -> Self {
        Trials {
            policy,
            goal,
            has_improved: false,
            load_notes: LoadNotes::default(),
            intervals: VecDeque::new(),
            phase: TrialPhase::Baseline,
            n_tries: 0,
            n_setbacks: 0,
        }
    }

    /// Adds an interval. Returns the result of a trial that ended, with its number of migrations.
    fn measure(&mut self, snapshot: &Snapshot<'_>) -> Option<(TrialResult, Trial)> {
        if let TrialPhase::Moving(trial) | TrialPhase::After(trial) = &mut self.phase
            && !trial.has_running_job(snapshot)
        {
            let trial = std::mem::take(trial);
            self.phase = TrialPhase::Baseline;
            self.intervals.clear();
            return Some((TrialResult::Unknown, trial));
        }
        if snapshot.jobs.iter().any(|job| job.active_page_migration.is_some()) {
            // Page migrations slow jobs down, and last longer than an interval.
            self.restart_measurement();
            return None;
        }
        self.intervals.push_back(MeasuredInterval::of(snapshot));
        if N_MEASURED < self.intervals.len() {
            self.intervals.pop_front();
        }
        self.advance()
    }

    /// Discards the measured intervals.
    fn restart_measurement(&mut self) {
        self.intervals.clear();
        if let TrialPhase::After(trial) = &mut self.phase {
            trial.n_intervals = 0;
        }
    }

    fn advance(&mut self) -> Option<(TrialResult, Trial)> {
        match &mut self.phase {
            TrialPhase::Baseline | TrialPhase::BackOff { .. } => None,
            TrialPhase::Moving(trial) => {
                trial.n_intervals += 1;
                if N_MOVING <= trial.n_intervals || self.goal.n_moves_max() <= trial.n_moves {
                    let trial = std::mem::take(trial);
                    self.phase = TrialPhase::After(Trial { n_intervals: 0, ..trial });
                }
                None
            }
            TrialPhase::After(trial) => {
                trial.n_intervals += 1;
                if trial.n_intervals == N_UNMEASURED {
                    self.intervals.clear();
                }
                if self.intervals.len() < N_MEASURED {
                    return None;
                }
                let after = self.intervals.make_contiguous();
                let result = match intervals::compare(&trial.before, after, self.goal) {
                    Some((comparison, jobs)) => TrialResult::Measured(comparison, jobs),
                    None => TrialResult::Unknown,
                };
                let trial = std::mem::take(trial);
                self.phase = TrialPhase::Baseline; // These intervals precede the next trial.
                Some((result, trial))
            }
        }
    }

    fn conclude(
        &mut self,
        snapshot: &Snapshot<'_>,
        plan: &mut Plan,
        result: &TrialResult,
        trial: Trial,
    ) {
        let n_moves = trial.n_moves;
        let verdict = match result {
            TrialResult::Measured(comparison, _) => comparison.verdict,
            TrialResult::Unknown => TrialVerdict::Inconclusive,
        };
        match verdict {
            TrialVerdict::Better => {
                (self.n_tries, self.n_setbacks, self.has_improved) = (0, 0, true);
                plan.note(result_reason(JUDGED_BETTER, result, n_moves));
            }
            TrialVerdict::Worse => self.release_all(
                snapshot,
                plan,
                trial,
                result_reason(JUDGED_WORSE, result, n_moves),
            ),
            TrialVerdict::Inconclusive if self.goal == TrialGoal::Speed && self.has_improved => {}
            TrialVerdict::Inconclusive => {
                self.n_tries += 1;
                if self.goal.n_tries_max() <= self.n_tries {
                    let reason = result_reason(JUDGED_NO_BETTER, result, n_moves);
                    self.release_all(
                        snapshot,
                        plan,
                        trial,
                        reason.with("trials", counted_noun(self.n_tries, "trial")),
                    );
                } else if matches!(result, TrialResult::Unknown) {
                    let reason = result_reason(NOT_JUDGED, result, n_moves);
                    plan.note(
                        reason.with("n_tries", self.n_tries).with("n_max", self.goal.n_tries_max()),
                    );
                }
            }
        }
    }

    fn release_all(
        &mut self,
        snapshot: &Snapshot<'_>,
        plan: &mut Plan,
        trial: Trial,
        reason: Reason,
    ) {
        let back_off =
            Nanos(BACK_OFF_FIRST.0.saturating_mul(1 << self.n_setbacks.min(16))).min(BACK_OFF_MAX);
        self.n_setbacks += 1;
        (self.n_tries, self.has_improved) = (0, false);
        let undo = if self.goal == TrialGoal::Speed { "return" } else { "release" };
        let reason = reason.with("rest", back_off.to_string()).with("undo", undo);
        let mut returned = BTreeSet::new();
        for job in snapshot.jobs.iter().filter(|job| job.placed.is_some() && job.movable) {
            let run = intervals::run_of(job);
            match trial.origins.get(&run).filter(|_| self.goal == TrialGoal::Speed) {
                Some(origin) => {
                    returned.insert(run);
                    plan.request(job.job.id, Action::Place(origin.cpus.clone()), reason.clone());
                    if let Some(to) =
                        origin.node.filter(|_| trial.moved.contains(&(run, ActionKind::Pages)))
                    {
                        let action = Action::MovePages { from: None, to, limit: Action::NO_LIMIT };
                        plan.request(job.job.id, action, reason.clone());
                    }
                }
                None => plan.request(job.job.id, Action::Release, reason.clone()),
            }
        }
        self.phase = TrialPhase::BackOff { until: snapshot.turn.at + back_off, returned };
        plan.note(reason);
    }

    fn end_back_off(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        let TrialPhase::BackOff { until, returned } = &mut self.phase else { return };
        for (job, _) in std::mem::take(returned) {
            plan.request(job, Action::Release, Reason::new(RETURNED));
        }
        if *until <= snapshot.turn.at {
            self.phase = TrialPhase::Baseline;
            self.intervals.clear();
            plan.note(Reason::new(TRIES_AGAIN).with("at", snapshot.turn.at.to_string()));
        }
    }

    /// Passes the requests of the wrapped policy that the phase permits.
    fn pass(&mut self, snapshot: &Snapshot<'_>, requests: Vec<Request>, plan: &mut Plan) {
        let (starts, requests): (Vec<Request>, Vec<Request>) =
            requests.into_iter().partition(|request| is_start(snapshot, request));
        // Starts are not migrations.
        if self.goal == TrialGoal::AnyMetric || self.has_improved {
            plan.requests.extend(starts);
        }
        let is_measured = self.phase == TrialPhase::Baseline
            && self.intervals.len() == N_MEASURED
            && (self.goal == TrialGoal::AnyMetric || intervals::is_settled(&self.intervals));
        if is_measured && requests.iter().any(|request| !is_in_place(snapshot, request)) {
            let before = self.intervals.iter().cloned().collect();
            self.phase = TrialPhase::Moving(Trial { before, ..Trial::default() });
        }
        for request in requests {
            // A release passes without a trial.
            if request.action == Action::Release || self.passes(snapshot, &request) {
                plan.requests.push(request);
            }
        }
    }

    fn passes(&mut self, snapshot: &Snapshot<'_>, request: &Request) -> bool {
        let Some((job, kind)) = phase::subject(snapshot, request) else { return false };
        let moved = (intervals::run_of(job), kind);
        match &mut self.phase {
            TrialPhase::Moving(trial)
                if trial.n_moves < self.goal.n_moves_max() || trial.is_followed_by(moved) =>
            {
                trial.moved.insert(moved);
                trial.n_moves += u64::from(!is_in_place(snapshot, request));
                if let Some(origin) = Origin::of(snapshot, job) {
                    trial.origins.entry(moved.0).or_insert(origin);
                }
                true
            }
            TrialPhase::After(trial) if trial.is_followed_by(moved) => {
                trial.moved.insert(moved);
                trial.n_moves += 1;
                self.restart_measurement();
                true
            }
            _ => false,
        }
    }
}

impl Policy for Trials {
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        let mut inner = Plan::default();
        self.policy.decide(snapshot, &mut inner);
        self.load_notes.pass(snapshot, inner.notes, plan);
        plan.abort = inner.abort;
        if snapshot.turn.causes.contains(&Cause::Interval) {
            self.end_back_off(snapshot, plan);
            if let Some((result, trial)) = self.measure(snapshot) {
                self.conclude(snapshot, plan, &result, trial);
            }
        }
        self.pass(snapshot, inner.requests, plan);
    }

    sched::forward_policy!(policy: name, interval, domains, load_source);

    fn reasons(&self) -> Vec<ReasonCode> {
        [self.policy.reasons(), REASONS.to_vec()].concat()
    }
}

fn is_start(snapshot: &Snapshot<'_>, request: &Request) -> bool {
    let Target::Job(job) = request.target else { return false };
    snapshot.job(job).is_some_and(|job| job.state == JobState::Due)
}

/// Returns whether a request binds a job to CPUs that include the domain on which it runs.
fn is_in_place(snapshot: &Snapshot<'_>, request: &Request) -> bool {
    let (Target::Job(job), Action::Place(cpus)) = (request.target, &request.action) else {
        return false;
    };
    let origin = snapshot.job(job).and_then(|job| Origin::of(snapshot, job));
    origin.is_some_and(|origin| origin.cpus.is_subset(cpus))
}

fn result_reason(code: ReasonCode, result: &TrialResult, n_moves: u64) -> Reason {
    let reason = Reason::new(code).with("moves", counted_noun(n_moves, "migration"));
    let TrialResult::Measured(comparison, jobs) = result else { return reason };
    let reason = reason
        .with("metric", comparison.metric.word())
        .with("before", comparison.before)
        .with("after", comparison.after)
        .with("tolerance", comparison.tolerance);
    match jobs {
        ComparedJobs { n_ended: 0, n_started: 0, .. } => reason,
        ComparedJobs { n_ended, n_started, .. } => {
            let reason = reason.with("others", "changed");
            reason.with("n_ended", *n_ended as u64).with("n_started", *n_started as u64)
        }
    }
}
