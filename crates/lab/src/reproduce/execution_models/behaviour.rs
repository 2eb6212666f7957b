//! Miss ratio and integrated behaviour of each thread and interval by execution model, under `ib`.
//!
//! ```text
//!   thread 1   LLCMR  0.71 0.71 0.72 …  one value for each interval of 200 ms in which the thread ran
//!              LB          0.71 …       mean of the last three
//!   thread 2   LLCMR  …
//! ```
//!
//! GB is the mean LLCMR of the program as one thread, and IB the weighted mean of GB and LB with the published alpha.

use std::collections::BTreeMap;
use std::io;

use base::{Nanos, TaskId};
use engine::{Sink, TurnRecord};
use report::study::{RuleReading, StudyClaim};
use sched::{Cause, CounterEvent};

use super::models::{Model, policies, testbed};
use crate::reproduce::finding::{judged_claim, number};
use crate::reproduce::ib::PLATFORMS;
use crate::reproduce::{Finding, FindingTable, ReproduceError, RunPool};
use crate::stats::{mean, mean_of, quantile};

/// Threshold1 of the source: a change of the behaviour.
const CHANGE: f64 = 0.12;
/// Intervals of the local behaviour.
const WINDOW: usize = 3;
/// Smallest base of a relative change.
const BASE_MIN: f64 = 0.01;
/// Accesses in an interval below which its miss ratio counts as 0, as in the policy.
const ACCESSES_MIN: u64 = 1000;
/// Share of the intervals below the printed range, and above it.
const TAIL: f64 = 0.05;

const NOTE: &str = "GB: mean LLCMR of one thread; IB: alpha of GB and the rest of the mean LB; the shipped profiles have no \
                    data that threads share, so that more threads need more cache";
const THREAD_NOTE: &str = "the claims about threads of one program were added after the first run";

/// Behaviour of a thread in one run.
#[derive(Clone, Debug, Default)]
struct ThreadBehaviour {
    job: usize,
    /// Miss ratio of each interval in which the thread ran.
    ratios: Vec<f64>,
    /// Local behaviour of each of these intervals, from the third on.
    local: Vec<f64>,
    n_changes: u64,
    /// Sum of these intervals.
    time: Nanos,
}

impl ThreadBehaviour {
    fn record(&mut self, ratio: f64, interval: Nanos) {
        self.time = self.time.saturating_add(interval);
        self.ratios.push(ratio);
        let Some(recent) = self.ratios.last_chunk::<WINDOW>() else { return };
        let local = mean(recent);
        let change = |last: &f64| CHANGE < (local - last).abs() / last.max(BASE_MIN);
        self.n_changes += u64::from(self.local.last().is_some_and(change));
        self.local.push(local);
    }
}

/// Observes the threads of a run.
#[derive(Debug, Default)]
struct BehaviourObserver {
    threads: BTreeMap<TaskId, ThreadBehaviour>,
    last_at: Nanos,
}

impl Sink for BehaviourObserver {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        if !record.turn.causes.contains(&Cause::Interval) {
            return Ok(());
        }
        let interval = record.turn.at.saturating_sub(self.last_at);
        self.last_at = record.turn.at;
        for task in record.tasks.iter().filter(|task| task.cpu_time != Nanos::ZERO) {
            let (Some(misses), Some(accesses)) =
                (task.counters.misses(), task.counters.get(CounterEvent::LlcReferences))
            else {
                continue;
            };
            let is_known = ACCESSES_MIN <= accesses;
            let ratio = if is_known { (misses as f64 / accesses as f64).min(1.0) } else { 0.0 };
            let thread = self.threads.entry(task.task).or_default();
            thread.job = task.job.index();
            thread.record(ratio, interval);
        }
        Ok(())
    }
}

/// Values of a program over all threads, intervals and seeds.
#[derive(Clone, Copy, Debug, Default)]
struct Behaviour {
    ratio: Option<f64>,
    local: Option<f64>,
    changes_per_min: Option<f64>,
    /// Mean miss ratio of the thread with the lowest and with the highest one; means over the seeds.
    of_threads: Option<(f64, f64)>,
    /// Range of the miss ratios of single intervals, without the tails.
    of_intervals: Option<(f64, f64)>,
}

impl Behaviour {
    fn of(runs: &[BehaviourObserver], job: usize) -> Self {
        let of_run = |run| threads_of(run, job).collect::<Vec<&ThreadBehaviour>>();
        let runs: Vec<Vec<&ThreadBehaviour>> = runs.iter().map(of_run).collect();
        let mean_over_runs = |value: &dyn Fn(&[&ThreadBehaviour]) -> Option<f64>| {
            mean_of(runs.iter().filter_map(|threads| value(threads)))
        };
        let all = |values: fn(&ThreadBehaviour) -> &[f64]| {
            move |threads: &[&ThreadBehaviour]| {
                mean_of(threads.iter().flat_map(|thread| values(thread)).copied())
            }
        };
        let end = |of: fn(f64, f64) -> f64| {
            move |threads: &[&ThreadBehaviour]| {
                threads.iter().filter_map(|it| mean_of(it.ratios.iter().copied())).reduce(of)
            }
        };
        let intervals: Vec<f64> =
            runs.iter().flatten().flat_map(|thread| &thread.ratios).copied().collect();
        let at = |fraction| (!intervals.is_empty()).then(|| quantile(&intervals, fraction));
        Behaviour {
            ratio: mean_over_runs(&all(|thread| &thread.ratios)),
            local: mean_over_runs(&all(|thread| &thread.local)),
            changes_per_min: mean_over_runs(&|threads| {
                let n_changes: u64 = threads.iter().map(|thread| thread.n_changes).sum();
                let minutes = threads.iter().map(|it| it.time.as_secs_f64()).sum::<f64>() / 60.0;
                (minutes != 0.0).then(|| n_changes as f64 / minutes)
            }),
            of_threads: mean_over_runs(&end(f64::min)).zip(mean_over_runs(&end(f64::max))),
            of_intervals: at(TAIL).zip(at(1.0 - TAIL)),
        }
    }

    /// Returns the integrated behaviour with this global behaviour.
    fn integrated(&self, alpha: f64, global: Option<f64>) -> Option<f64> {
        Some(alpha * global? + (1.0 - alpha) * self.local?)
    }

    /// Returns the larger of the relative changes of miss ratio and integrated behaviour from those of one thread.
    fn change(&self, alpha: f64, single: &Behaviour) -> Option<f64> {
        let integrated = |one: &Behaviour| one.integrated(alpha, single.ratio);
        let of_ratio = relative(self.ratio?, single.ratio?);
        Some(of_ratio.max(relative(integrated(self)?, integrated(single)?)))
    }
}

fn threads_of(run: &BehaviourObserver, job: usize) -> impl Iterator<Item = &ThreadBehaviour> {
    run.threads.values().filter(move |thread| thread.job == job)
}

fn relative(value: f64, base: f64) -> f64 {
    (value - base).abs() / base.max(BASE_MIN)
}

pub(super) fn behaviour(pool: &RunPool<'_>) -> Result<Finding, ReproduceError> {
    let models = [
        Model::OneThread,
        Model::ForkJoin { n_threads: 2, serial: 10 },
        Model::ForkJoin { n_threads: 4, serial: 10 },
        Model::ForkJoin { n_threads: 8, serial: 10 },
        Model::Pipeline { n_stages: 2, has_long: false },
        Model::Pipeline { n_stages: 4, has_long: false },
        Model::Pipeline { n_stages: 8, has_long: false },
        Model::Pipeline { n_stages: 4, has_long: true },
    ];
    let names: Vec<String> = models.iter().map(|model| model.name()).collect();
    let texts: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut finding = Finding::default();
    for platform in &PLATFORMS {
        let testbed = testbed(platform, &models)?;
        let policy = &policies(platform)[0];
        let runs = pool
            .observe(&testbed, policy, &texts, |_: &[program::Job]| BehaviourObserver::default())?;
        let by_model: Vec<&[BehaviourObserver]> = runs.chunks(pool.seeds().len()).collect();
        let heads = ["program and model", "LLCMR", "LB", "GB", "IB", "changes"];
        let title =
            format!("{}: misses per LLC access, and phase changes per minute", platform.name);
        let mut means = FindingTable::new(&title, &heads).units(&["1", "1", "1", "1", "1/min"]);
        let heads = ["program and model", "lowest thread", "highest", "5 % of intervals", "95 %"];
        let title = format!("{}: LLCMR of each thread and interval", platform.name);
        let mut each = FindingTable::new(&title, &heads);
        for (job, program) in ["gamess", "mcf"].into_iter().enumerate() {
            let all: Vec<Behaviour> =
                by_model.iter().map(|runs| Behaviour::of(runs, job)).collect();
            let single = &all[0];
            for (name, one) in names.iter().zip(&all) {
                let name = format!("{program}, {name}");
                means.row([
                    name.clone(),
                    number(one.ratio, 3),
                    number(one.local, 3),
                    number(single.ratio, 3),
                    number(one.integrated(platform.alpha, single.ratio), 3),
                    number(one.changes_per_min, 2),
                ]);
                let ends = [one.of_threads, one.of_intervals]
                    .map(|ends| [ends.map(|(low, _)| low), ends.map(|(_, high)| high)]);
                let ends = ends.as_flattened().iter().map(|end| number(*end, 3));
                each.row(std::iter::once(name).chain(ends));
            }
            let subject = format!("{}, {program}", platform.name);
            for kind in ["fork-join", "pipeline"] {
                let of_kind = || names.iter().zip(&all).filter(|(name, _)| name.starts_with(kind));
                let changes = of_kind().map(|(_, one)| one.change(platform.alpha, single));
                let text = "changes mean LLCMR or IB of the program by more than 12 %";
                finding.claims.push(claim(&format!("{subject}: {kind} {text}"), changes));
                let differences = of_kind().map(|(_, one)| {
                    one.of_threads.map(|(lowest, highest)| relative(highest, lowest))
                });
                let text = "has threads whose mean LLCMR differs by more than 12 %";
                finding.claims.push(claim(&format!("{subject}: {kind} {text}"), differences));
            }
        }
        finding.tables.extend([means, each]);
    }
    finding.notes.extend([NOTE, THREAD_NOTE].map(str::to_owned));
    Ok(finding)
}

/// Returns the claim that the change is larger than [`CHANGE`] with some model of a kind. The result has the change with
/// each model.
fn claim(text: &str, changes: impl Iterator<Item = Option<f64>>) -> StudyClaim {
    let changes: Option<Vec<f64>> = changes.collect();
    let each = changes.iter().flatten().map(|change| number(Some(100.0 * change), 1));
    let found = format!("{} %", each.collect::<Vec<String>>().join(", "));
    let is_true = changes.map(|all| all.iter().any(|change| CHANGE < *change));
    judged_claim(text, RuleReading::Corrected, found, is_true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records the miss ratios of the intervals of threads of job 0.
    fn observer(threads: &[&[f64]]) -> BehaviourObserver {
        let mut observer = BehaviourObserver::default();
        for (tid, ratios) in (1..).zip(threads) {
            let thread = observer.threads.entry(TaskId { tid, start_time_ticks: 0 }).or_default();
            ratios.iter().for_each(|ratio| thread.record(*ratio, Nanos::from_millis(200)));
        }
        observer
    }

    #[test]
    fn threads_with_other_behaviour_than_their_mean_are_visible() {
        let runs = [observer(&[&[0.2; 4], &[0.8; 4]])];
        let both = Behaviour::of(&runs, 0);
        assert_eq!((both.ratio, both.of_threads), (Some(0.5), Some((0.2, 0.8))));
        let same = Behaviour::of(&[observer(&[&[0.5; 4], &[0.5; 4]])], 0);
        assert_eq!(both.change(0.3, &same), Some(0.0));
        assert_eq!(same.of_threads, Some((0.5, 0.5)));
    }

    #[test]
    fn a_mean_of_a_thread_hides_no_interval() {
        let one = Behaviour::of(&[observer(&[&[0.0, 0.0, 0.0, 0.9, 0.9, 0.9]])], 0);
        assert_eq!((one.ratio, one.of_intervals), (Some(0.45), Some((0.0, 0.9))));
        // The local behaviour rises in three intervals of 1.2 s.
        assert_eq!(one.changes_per_min, Some(150.0));
    }

    #[test]
    fn alpha_is_the_share_of_the_global_behaviour() {
        let single = Behaviour::of(&[observer(&[&[0.2; 3]])], 0);
        let four = Behaviour::of(&[observer(&[&[0.4; 3]])], 0);
        assert_eq!(four.integrated(1.0, single.ratio), single.ratio);
        assert_eq!(four.integrated(0.0, single.ratio), four.local);
    }
}
