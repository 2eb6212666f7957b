//! HASS-S: a job starts on the kind on which its signature predicts the shortest time, with the load of the kind.
//!
//! ```text
//!   time(kind) = time per instruction(kind) × tasks per core(kind), with the job
//! ```
//!
//! The name of three kinds of assignment (regular, refresh, optimistic) is from recollection of the article; their
//! formulas are evenkeel's choice. With `reading=paper` only the regular assignment at the start is used.

use base::{Nanos, Rng};
use sched::{Cause, JobState, Plan, Reason, Snapshot, reasons};

use crate::core_kinds::speed::{SpeedModel, unknown_speedup};
use crate::core_kinds::{self, CoreKinds, KindJob, is_interval, is_new, percent_text};
use crate::declaration::{INTERVAL_TIMES, Millionths, READING, names, params};
use crate::{IfMissing, PolicyInfo, RequiredSignal, Rules, Signal};

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "hass-s",
    summary: "Places each job on the core kind on which its profile predicts the shortest time.",
    source: "D. Shelepov et al., HASS: A Scheduler for Heterogeneous Multicore Systems, ACM SIGOPS Operating Systems Review \
             43(2), 2009; formulas and times are evenkeel's choice",
    signals: &[RequiredSignal {
        signal: Signal::MissCurve,
        if_missing: IfMissing::Degrades("a program without a profile counts as half memory time"),
    }],
    params: &[&[READING], PARAMS],
    reasons: &[core_kinds::REASONS, REASONS],
    work_conserving: false,
    needs_core_kinds: true,
    rules: Some(|params, seed| Box::new(Static::new(Config::new(params), Rng::new(seed)))),
};

params! {
    /// Configuration of the policy.
    struct Config from PARAMS {
        later: Later = "both", "changes after the start: refresh, once per interval and when jobs end, a job migrates to a \
            kind that is better by more than `gain`; optimistic, once per interval, a random pair swaps its kinds; both; none"
            .paper("none");
        gain: Millionths = "5%", "predicted gain above which a job migrates".no_effect_with(&["later=none", "later=optimistic"]);
        cycles: Cycles = "profile", "core cycles per instruction and outstanding misses: from the profile, or 1 each"
            .paper("one");
        idle: Idle = "first", "kinds with idle cores: first, they come before kinds without, and count as 1 task per \
            core; load, compared by their tasks per core only".paper("load");
        interval: Nanos [INTERVAL_TIMES] = "1s", "time between two changes";
    }
}

names! {
    /// Changes after the start.
    enum Later { Both = "both", Refresh = "refresh", Optimistic = "optimistic", Nothing = "none" }
}

names! {
    /// Source of core cycles and outstanding misses.
    enum Cycles { Profile = "profile", One = "one" }
}

names! {
    /// Preference for kinds with idle cores.
    enum Idle { First = "first", Load = "load" }
}

reasons! {
    /// A job gets its first kind.
    HASS_STARTED = "hass-started":
        "[signature=known: its profile predicts {time} ns per instruction on the {kind} cores with their load, the shortest time][signature=unknown: without a profile, half of its time counts as memory time, and the {kind} cores have the shortest time with their load][among=idle:  of the kinds with an idle core for each of its tasks] (tasks {tasks}): the job gets {cpus}";
    /// A job changes its kind.
    HASS_REFRESHED = "hass-refreshed":
        "[why=time: the predicted time with the load is {gain} % shorter on the {kind} than on the {from} cores][why=idle: tasks on the {from} cores share a core, and the {kind} cores have an idle one for each task of the job] (tasks {tasks}): the job gets {cpus}";
    /// Two jobs swap their kinds.
    HASS_SWAPPED = "hass-swapped":
        "in the random pair with {other}, the sum of the predicted times relative to the fastest cores is {gain} % shorter if both swap their kinds: the job migrates from the {from} to the {kind} cores ({cpus})";
}

/// State of the policy.
#[derive(Debug)]
struct Static {
    config: Config,
    rng: Rng,
    kinds: CoreKinds,
}

impl Rules for Static {
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        if !self.kinds.update(snapshot, plan) {
            return;
        }
        let mut jobs = self.kinds.jobs(snapshot, plan);
        let mut n_tasks = self.kinds.n_tasks(snapshot, &jobs);
        let mut moved = vec![false; jobs.len()];
        let model = SpeedModel::new(snapshot, &self.kinds);
        let times: Vec<(bool, Vec<u64>)> =
            jobs.iter().map(|job| self.times(snapshot, &model, job)).collect();
        for (idx, job) in jobs.iter_mut().enumerate() {
            if is_new(snapshot, job) {
                let kind = self.best(job, &times[idx].1, &n_tasks);
                let (is_known, times) = &times[idx];
                let reason = Reason::new(HASS_STARTED)
                    .with("signature", if *is_known { "known" } else { "unknown" })
                    .with("among", self.among(job, &n_tasks))
                    .with("time", times[kind] as f64 / 1000.0)
                    .with("tasks", self.kinds.counts_label(&n_tasks));
                if !is_known {
                    self.kinds.note_no_signature(job, "half", plan);
                }
                self.kinds.place(kind, job, reason, plan);
                n_tasks[kind] += job.n_tasks();
                moved[idx] = true;
            } else if self.kinds.rebind(snapshot, job, plan) {
                moved[idx] = true;
            }
        }
        let later = self.config.later;
        let has_ended = snapshot.turn.causes.contains(&Cause::Ended);
        if matches!(later, Later::Both | Later::Refresh) && (is_interval(snapshot) || has_ended) {
            self.refresh(snapshot, (&jobs, &times), &mut n_tasks, &mut moved, plan);
        }
        if matches!(later, Later::Both | Later::Optimistic) && is_interval(snapshot) {
            self.swap(&jobs, &times, &moved, plan);
        }
    }
}

impl Static {
    fn new(config: Config, rng: Rng) -> Self {
        Static { config, rng, kinds: CoreKinds::default() }
    }

    /// Returns the time per instruction on each kind in picoseconds, and whether it is from a profile.
    fn times(
        &self,
        snapshot: &Snapshot<'_>,
        model: &SpeedModel,
        job: &KindJob<'_>,
    ) -> (bool, Vec<u64>) {
        let uses_profile = self.config.cycles == Cycles::Profile;
        let profile = job.view.job.found.as_deref();
        let known =
            profile.and_then(|found| model.picoseconds(snapshot, &self.kinds, found, uses_profile));
        match known {
            Some(times) => (true, times),
            None => (false, self.unknown_times()),
        }
    }

    /// Returns relative times of a program without a profile: from 1 on the fastest kind to the mean speedup on the
    /// slowest.
    fn unknown_times(&self) -> Vec<u64> {
        let gain = unknown_speedup(&self.kinds) - 1_000_000;
        let fastest = u64::from(self.kinds.get(0).capacity);
        let slowest = u64::from(self.kinds.get(self.kinds.len() - 1).capacity);
        let time = |capacity: u64| {
            // Time grows with 1 / capacity: the gain is the share between the fastest and the slowest kind.
            let share = (fastest - capacity) * slowest * 1_000_000
                / ((fastest - slowest).max(1) * capacity).max(1);
            1_000 + gain * share / 1_000_000 / 1_000
        };
        self.kinds.iter().map(|kind| time(u64::from(kind.capacity))).collect()
    }

    /// Returns the time of a job on a kind if the kind has `n_tasks` tasks with the job.
    fn time(&self, kind: usize, time: u64, n_tasks: u64) -> u128 {
        let n_cores = self.kinds.get(kind).n_cores();
        let n_tasks = match self.config.idle {
            Idle::First => n_tasks.max(n_cores),
            Idle::Load => n_tasks,
        };
        u128::from(time) * u128::from(n_tasks) * 1_000_000 / u128::from(n_cores)
    }

    /// Returns whether tasks of the kind share a core if it has `n_tasks` tasks, and kinds with idle cores come first.
    fn shares(&self, kind: usize, n_tasks: u64) -> bool {
        self.config.idle == Idle::First && self.kinds.get(kind).n_cores() < n_tasks
    }

    fn best(&self, job: &KindJob<'_>, times: &[u64], n_tasks: &[u64]) -> usize {
        let key = |&kind: &usize| {
            let n_tasks = n_tasks[kind] + job.n_tasks();
            (self.shares(kind, n_tasks), self.time(kind, times[kind], n_tasks), kind)
        };
        job.possible.iter().min_by_key(key).unwrap_or(0)
    }

    /// Returns among which kinds [`Static::best`] selects: those with idle cores if others have none, or all.
    fn among(&self, job: &KindJob<'_>, n_tasks: &[u64]) -> &'static str {
        let shares = |&kind: &usize| self.shares(kind, n_tasks[kind] + job.n_tasks());
        let n_shared = job.possible.iter().filter(|kind| shares(kind)).count();
        if (1..job.possible.len()).contains(&n_shared) { "idle" } else { "all" }
    }

    /// Migrates jobs to a kind that is better by more than the required gain, and from a shared core to an idle one.
    fn refresh(
        &self,
        snapshot: &Snapshot<'_>,
        (jobs, times): (&[KindJob<'_>], &[(bool, Vec<u64>)]),
        n_tasks: &mut [u64],
        moved: &mut [bool],
        plan: &mut Plan,
    ) {
        for (idx, job) in jobs.iter().enumerate() {
            let Some(from) = job.kind.filter(|_| !moved[idx] && job.is_runnable(snapshot)) else {
                continue;
            };
            n_tasks[from] -= job.n_tasks();
            let times = &times[idx].1;
            let to = self.best(job, times, n_tasks);
            let time = |kind: usize| self.time(kind, times[kind], n_tasks[kind] + job.n_tasks());
            let gain = gain(time(from), time(to));
            let is_shorter = self.config.gain.0 < gain;
            let shares = |kind: usize| self.shares(kind, n_tasks[kind] + job.n_tasks());
            let kind = if is_shorter || shares(from) && !shares(to) { to } else { from };
            n_tasks[kind] += job.n_tasks();
            if kind != from {
                moved[idx] = true;
                let reason = Reason::new(HASS_REFRESHED)
                    .with("why", if is_shorter { "time" } else { "idle" })
                    .with("gain", percent_text(gain))
                    .with("tasks", self.kinds.counts_label(n_tasks));
                self.kinds.place(kind, job, reason, plan);
            }
        }
    }

    /// Swaps one random pair of jobs on different kinds if that lowers the sum of their times relative to the fastest
    /// kind. The loads do not change.
    fn swap(
        &mut self,
        jobs: &[KindJob<'_>],
        times: &[(bool, Vec<u64>)],
        moved: &[bool],
        plan: &mut Plan,
    ) {
        let is_free = |idx: &usize| !moved[*idx] && jobs[*idx].view.state == JobState::Running;
        let free: Vec<usize> = (0..jobs.len()).filter(is_free).collect();
        let Some(one) = self.draw(&free) else { return };
        let can_swap = |a: &KindJob<'_>, b: &KindJob<'_>| {
            a.kind != b.kind
                && a.n_tasks() == b.n_tasks()
                && b.kind.is_some_and(|kind| a.possible.contains(kind))
        };
        let pairs = |other: &usize| {
            can_swap(&jobs[one], &jobs[*other]) && can_swap(&jobs[*other], &jobs[one])
        };
        let partners: Vec<usize> = free.iter().copied().filter(pairs).collect();
        let Some(other) = self.draw(&partners) else { return };
        let (Some(a), Some(b)) = (jobs[one].kind, jobs[other].kind) else { return };
        let (of_one, of_other) = (&times[one].1, &times[other].1);
        // Relative to the fastest kind: the times of two programs have different units of work.
        let relative = |times: &[u64], kind: usize| {
            u128::from(times[kind]) * 1_000_000 / u128::from(times[0].max(1))
        };
        let gain = gain(
            relative(of_one, a) + relative(of_other, b),
            relative(of_one, b) + relative(of_other, a),
        );
        if gain == 0 {
            return;
        }
        for (idx, beside, to) in [(one, other, b), (other, one, a)] {
            let reason = Reason::new(HASS_SWAPPED)
                .with("other", jobs[beside].view.job.name.clone())
                .with("gain", percent_text(gain));
            self.kinds.place(to, &jobs[idx], reason, plan);
        }
    }

    fn draw(&mut self, from: &[usize]) -> Option<usize> {
        let n = from.len() as u64;
        (n != 0).then(|| from[self.rng.below(n) as usize])
    }
}

/// Returns by which share a time is longer than another time, relative to itself, in millionths; 0 if it is not longer.
fn gain(now: u128, then: u128) -> u64 {
    let gain = now.saturating_sub(then) * 1_000_000 / now.max(1);
    u64::try_from(gain).unwrap_or(u64::MAX)
}
