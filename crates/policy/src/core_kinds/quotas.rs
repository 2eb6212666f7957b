//! The number of tasks for each core kind, and the assignment of sorted jobs to kinds with few migrations.
//!
//! ```text
//!   5 tasks, cores 2 + 2      published   F × ⌈n/m⌉ = 4 on the fast kind, 1 on the slow kind: a slow core is idle
//!                             corrected   one task per core, the rest fastest first: 3 and 2
//! ```

use sched::{Plan, Reason};

use super::speed::unknown_speedup;
use super::{CoreKinds, KindJob};
use crate::declaration::{MILLION, Millionths, names};

names! {
    /// Number of tasks per core kind.
    pub(crate) enum QuotaRule {
        /// One task per core, then further tasks per core, each time from the fastest kind on.
        Level = "level",
        /// Cores times the tasks per core, rounded up; the slowest kind gets the rest.
        Ceiling = "ceiling",
    }
}

/// How jobs are placed by their speedups.
pub(crate) struct Sorting {
    pub rule: QuotaRule,
    /// Difference of the speedup above which a job passes a job on the next faster kind.
    pub margin: Millionths,
    /// Gets the values `speedup` (known or unknown), `factor`, `place`, `n_jobs` and `quota`.
    pub reason: Reason,
}

/// Places the jobs with the largest speedups on the fastest kinds. Jobs that are bound to the CPUs of their kind
/// already keep them. A job with an unknown speedup counts as half memory time.
pub(crate) fn place_by_speedup<'s>(
    kinds: &CoreKinds,
    jobs: Vec<KindJob<'s>>,
    speedup: impl Fn(&KindJob<'s>) -> Option<u64>,
    sorting: &Sorting,
    plan: &mut Plan,
) {
    let unknown = unknown_speedup(kinds);
    let key = |job: KindJob<'s>| {
        let n_slower = job.kind.map_or(0, |kind| kinds.len() - 1 - kind) as u64;
        let key = speedup(&job).unwrap_or(unknown) + n_slower * sorting.margin.0;
        (job, key)
    };
    let keyed: Vec<(KindJob<'_>, u64)> = jobs.into_iter().map(key).collect();
    let n_tasks = keyed.iter().map(|(job, _)| job.n_tasks()).sum();
    let quotas = quotas(kinds, n_tasks, sorting.rule);
    for ((job, key), kind) in keyed.iter().zip(assign(kinds, &keyed, (sorting.rule, &quotas))) {
        if job.view.placed == Some(&kinds.cpus_for(kind, job)) {
            continue;
        }
        let place = keyed.iter().filter(|(_, other)| key < other).count() as u64 + 1;
        let known = speedup(job);
        let reason = sorting.reason.clone();
        let reason = reason
            .with("speedup", if known.is_some() { "known" } else { "unknown" })
            .with("factor", known.unwrap_or(unknown) as f64 / MILLION as f64)
            .with("place", place)
            .with("n_jobs", keyed.len() as u64)
            .with("quota", kinds.counts_label(&quotas));
        kinds.place(kind, job, reason, plan);
    }
}

/// Returns the number of tasks for each kind.
fn quotas(kinds: &CoreKinds, n_tasks: u64, rule: QuotaRule) -> Vec<u64> {
    let n_cores = kinds.n_cores().max(1);
    let (whole, mut rest) = match rule {
        QuotaRule::Level => (n_tasks / n_cores, n_tasks % n_cores),
        QuotaRule::Ceiling => (0, n_tasks),
    };
    let per_core = n_tasks.div_ceil(n_cores) - whole;
    let quota = |kind: &super::CoreKind| {
        let more = rest.min(kind.n_cores() * per_core);
        rest -= more;
        kind.n_cores() * whole + more
    };
    kinds.iter().map(quota).collect()
}

/// Assigns jobs to kinds: the jobs with the largest keys to the fastest kind, up to the quotas. Jobs with equal keys
/// keep their kinds if possible. Returns the kind of each job. A job that fits no quota, because it has several tasks or
/// may use few kinds, gets the first kind with an idle core for each task, else the kind with the fewest tasks per core;
/// as printed, the last kind.
fn assign(
    all: &CoreKinds,
    jobs: &[(KindJob<'_>, u64)],
    (rule, quotas): (QuotaRule, &[u64]),
) -> Vec<usize> {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    // Jobs that may use few kinds come first: otherwise other jobs get the places on these kinds.
    order.sort_by_key(|&idx| {
        let (job, key) = &jobs[idx];
        let is_tied = job.possible.len() < quotas.len();
        (!is_tied, std::cmp::Reverse(*key), job.kind.unwrap_or(usize::MAX), job.view.job.id)
    });
    let mut n_tasks = vec![0; quotas.len()];
    let mut kinds = vec![0; jobs.len()];
    for idx in order {
        let job = &jobs[idx].0;
        let first = |limit: &dyn Fn(usize) -> u64| {
            job.possible.iter().find(|&kind| n_tasks[kind] + job.n_tasks() <= limit(kind))
        };
        let kind = first(&|kind| quotas[kind]).unwrap_or_else(|| match rule {
            QuotaRule::Level => least_loaded(all, &n_tasks, job),
            QuotaRule::Ceiling => job.possible.last().unwrap_or(0),
        });
        n_tasks[kind] += job.n_tasks();
        kinds[idx] = kind;
    }
    kinds
}

/// Places a job that starts on the least loaded kind, and counts its tasks. The reason gets the values `by` (an idle core
/// for each task, or the load) and `tasks`.
pub(crate) fn start(
    kinds: &CoreKinds,
    job: &KindJob<'_>,
    n_tasks: &mut [u64],
    reason: Reason,
    plan: &mut Plan,
) {
    let kind = least_loaded(kinds, n_tasks, job);
    let is_idle = n_tasks[kind] + job.n_tasks() <= kinds.get(kind).n_cores();
    let reason = reason
        .with("by", if is_idle { "idle" } else { "load" })
        .with("tasks", kinds.counts_label(n_tasks));
    kinds.place(kind, job, reason, plan);
    n_tasks[kind] += job.n_tasks();
}

/// Returns the kind with the fewest tasks per core after the placement of a job, where an idle core for each task counts
/// as one task per core; ties: the fastest kind.
fn least_loaded(kinds: &CoreKinds, n_tasks: &[u64], job: &KindJob<'_>) -> usize {
    let load = |&kind: &usize| {
        let after = n_tasks[kind] + job.n_tasks();
        (after.max(kinds.get(kind).n_cores()) * MILLION / kinds.get(kind).n_cores(), kind)
    };
    job.possible.iter().min_by_key(load).unwrap_or(0)
}
