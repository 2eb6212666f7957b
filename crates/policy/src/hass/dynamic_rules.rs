//! HASS-D: jobs are sorted by their counted speedup whenever the behaviour of one changed.
//!
//! ```text
//!   each interval   miss ratio of a job differs by more than 12 % from that of its last decision?
//!                     └─► sort all jobs by speedup: the first on the fast cores, up to their number of tasks
//! ```
//!
//! As printed, jobs are sorted for a change only and without a margin, and the cores of ended jobs stay idle beside jobs on slower cores. The
//! default sorts them also if a core was idle in two intervals in a row.
//!
//! There is no filter for short phases, so that alternating phases cause many migrations. The formula of the speedup is
//! evenkeel's choice: the article uses a fitted estimate.

use base::Nanos;
use sched::{PerJob, Plan, Reason, Snapshot, reasons};

use crate::core_kinds::quotas::{self, QuotaRule, Sorting};
use crate::core_kinds::speed::{self, Counts, SpeedModel, share_on_fastest};
use crate::core_kinds::{
    self, CoreKinds, IDLE_INTERVALS, KindJob, RATIO_MIN, compare_change, is_interval, is_new,
    percent_text,
};
use crate::declaration::{INTERVAL_TIMES, MILLION, Millionths, READING, Values, params};
use crate::placement::remove_old_state;
use crate::{IfMissing, PolicyInfo, RequiredSignal, Rules, Signal};

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "hass-d",
    summary: "Sorts jobs by the speedup that their counters predict, whenever the miss ratio of one changed, and places the \
              first on the fast cores.",
    source: "J. C. Saez et al., Leveraging Core Specialization via OS Scheduling to Improve Performance on Asymmetric \
             Multicore Systems, and the dynamic version of HASS as described by R. Chen et al. (Journal of Software 24(2), \
             2013); the formula of the speedup is evenkeel's choice",
    signals: &[
        RequiredSignal {
            signal: Signal::LlcMisses,
            if_missing: IfMissing::Degrades("a job keeps its kind, and counts as half memory time"),
        },
        RequiredSignal {
            signal: Signal::LlcReferences,
            if_missing: IfMissing::Degrades(
                "misses per instruction are compared instead of misses per access",
            ),
        },
    ],
    params: &[&[READING], PARAMS],
    reasons: &[core_kinds::REASONS, REASONS],
    work_conserving: false,
    needs_core_kinds: true,
    rules: Some(|params, _seed| Box::new(Dynamic::new(Config::new(params)))),
};

params! {
    /// Configuration of the policy.
    struct Config from PARAMS {
        change: Millionths = "12%", "relative change of the miss ratio since the last decision that causes a new decision"
            .published();
        quota: QuotaRule = "level", "tasks per kind: level, one per core, then further tasks from the fastest kind on, and a \
            new decision if a core was idle in two intervals; ceiling, as printed, the tasks per core rounded up, so that \
            slow cores can be idle".paper("ceiling");
        margin: Millionths [Values::decimal("", 1)] = "0.05", "difference of the speedup above which a job passes a job on the \
            next faster kind; over two kinds twice as much (chosen: speedups that are counted in two intervals differ)".paper("0");
        interval: Nanos [INTERVAL_TIMES] = "200ms", "time between two samples".published();
    }
}

reasons! {
    /// A job gets its first kind.
    HASS_D_STARTED = "hass-d-started":
        "the speedup of the job is not known yet, and [by=idle: the {kind} cores are the fastest with an idle core for each task][by=load: the {kind} cores have the fewest tasks per core] ({tasks}): it gets {cpus}";
    /// A job changes its kind.
    HASS_D_SORTED = "hass-d-sorted":
        "[why=changed: the miss ratios of jobs ({n_changed}) changed by more than {limit} %][why=idle: a core was idle in {n_intervals} intervals]: sorted by speedup ([speedup=unknown: not counted, assumed to be ]{factor})[, plus {margin} for each slower kind below its present one,] the job is number {place} of {n_jobs}, and the {kind} cores get the tasks {quota} (tasks by kind): it migrates from the {from} cores to {cpus}";
}

/// State of the policy.
#[derive(Debug)]
struct Dynamic {
    config: Config,
    kinds: CoreKinds,
    jobs: PerJob<JobSpeed>,
    /// Intervals in a row in which a core was idle that a job may use.
    n_idle: u64,
}

/// State of a job.
#[derive(Clone, Debug, Default)]
struct JobSpeed {
    /// Misses in the last interval.
    ratio: Option<MissRatio>,
    /// Misses at the last decision.
    decided: Option<MissRatio>,
    /// In millionths.
    speedup: Option<u64>,
}

/// LLC misses of a job, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MissRatio {
    PerAccess(u64),
    /// Without counted references.
    PerInstruction(u64),
}

/// Changes of misses per instruction are relative to at least this value: 0.3 misses per 1000 instructions. Chosen: 1 %
/// of the 30 misses per 1000 instructions that count as fully memory-bound in `ib`. The minimum for misses per access,
/// 1 %, would be 10 misses per 1000 instructions, so that most changes would not count.
const PER_INSTRUCTION_MIN: u64 = 300;

impl Rules for Dynamic {
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        remove_old_state(&mut self.jobs, snapshot);
        if !self.kinds.update(snapshot, plan) {
            return;
        }
        let mut jobs = self.kinds.jobs(snapshot, plan);
        let mut n_tasks = self.kinds.n_tasks(snapshot, &jobs);
        for job in &jobs {
            if is_new(snapshot, job) {
                let reason = Reason::new(HASS_D_STARTED);
                quotas::start(&self.kinds, job, &mut n_tasks, reason, plan);
            } else {
                self.kinds.rebind(snapshot, job, plan);
            }
        }
        if !is_interval(snapshot) || !plan.requests.is_empty() {
            return;
        }
        jobs.retain(|job| job.kind.is_some() && job.is_runnable(snapshot));
        let n_changed = self.sample(snapshot, &jobs, &n_tasks);
        let is_idle =
            self.config.quota == QuotaRule::Level && self.kinds.leaves_core_idle(&n_tasks, &jobs);
        self.n_idle = if is_idle { self.n_idle + 1 } else { 0 };
        if n_changed != 0 || IDLE_INTERVALS <= self.n_idle {
            self.n_idle = 0;
            self.sort(jobs, n_changed, plan);
        }
    }
}

impl Dynamic {
    fn new(config: Config) -> Self {
        let (kinds, jobs) = Default::default();
        Dynamic { config, kinds, jobs, n_idle: 0 }
    }

    /// Updates the miss ratios and speedups. Returns the number of jobs whose miss ratio changed.
    fn sample(&mut self, snapshot: &Snapshot<'_>, jobs: &[KindJob<'_>], n_tasks: &[u64]) -> u64 {
        let model = SpeedModel::new(snapshot, &self.kinds);
        let mut n_changed = 0;
        for job in jobs {
            let Some(counts) = speed::counts(job.tasks(snapshot)) else { continue };
            let state = self.jobs.get_or_default(job.view.job.id);
            let share = model.memory_share(job.tasks(snapshot)).zip(job.kind).map(|(share, on)| {
                let smt_slowdown = self.kinds.get(on).smt_slowdown(n_tasks[on]);
                share_on_fastest(&self.kinds, share, (on, smt_slowdown))
            });
            state.speedup = share.map(|share| speed::speedup(&self.kinds, share));
            let Some(ratio) = MissRatio::of(counts) else { continue };
            state.ratio = Some(ratio);
            let limit = self.config.change;
            let has_changed = state.decided.is_none_or(|decided| ratio.has_changed(decided, limit));
            n_changed += u64::from(has_changed);
        }
        n_changed
    }

    /// Assigns the jobs with the largest speedups to the fastest kinds.
    fn sort(&mut self, jobs: Vec<KindJob<'_>>, n_changed: u64, plan: &mut Plan) {
        for job in &jobs {
            let state = self.jobs.get_or_default(job.view.job.id);
            state.decided = state.ratio;
        }
        let speedup = |job: &KindJob<'_>| self.jobs.get(job.view.job.id)?.speedup;
        let margin = Some(self.config.margin).filter(|margin| margin.0 != 0);
        let reason = Reason::new(HASS_D_SORTED)
            .with("why", if n_changed == 0 { "idle" } else { "changed" })
            .with("n_intervals", IDLE_INTERVALS)
            .with("n_changed", n_changed)
            .with("limit", percent_text(self.config.change.0))
            .with_some("margin", margin.map(|margin| margin.0 as f64 / MILLION as f64));
        let (rule, margin) = (self.config.quota, self.config.margin);
        let sorting = Sorting { rule, margin, reason };
        quotas::place_by_speedup(&self.kinds, jobs, speedup, &sorting, plan);
    }
}

impl MissRatio {
    /// Returns the misses per access, or per instruction if the accesses are unknown.
    fn of(counts: Counts) -> Option<Self> {
        let per = |whole: u64| {
            let ratio = u128::from(counts.misses) * u128::from(MILLION) / u128::from(whole.max(1));
            u64::try_from(ratio).unwrap_or(u64::MAX)
        };
        let per_access = counts.accesses.map(|accesses| MissRatio::PerAccess(per(accesses)));
        per_access.or_else(|| Some(MissRatio::PerInstruction(per(counts.instructions?))))
    }

    /// Returns whether the relative change since the last decision exceeds the limit. A change between misses per access
    /// and misses per instruction counts.
    fn has_changed(self, decided: MissRatio, limit: Millionths) -> bool {
        let (change, min) = match (decided, self) {
            (MissRatio::PerAccess(from), MissRatio::PerAccess(to)) => ((from, to), RATIO_MIN),
            (MissRatio::PerInstruction(from), MissRatio::PerInstruction(to)) => {
                ((from, to), PER_INSTRUCTION_MIN)
            }
            _ => return true,
        };
        compare_change(change, min, limit).is_gt()
    }
}
