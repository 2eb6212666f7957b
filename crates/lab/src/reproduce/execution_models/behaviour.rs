//! Miss ratio and integrated behaviour of each thread by execution model, from the intervals of `ib`.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use base::{Nanos, TaskId};
use engine::{Sink, TurnRecord};
use report::study::{RuleReading, StudyClaim};
use sched::{Cause, CounterEvent};

use super::models::{Model, policies, testbed};
use crate::reproduce::finding::{judged_claim, number};
use crate::reproduce::ib::PLATFORMS;
use crate::reproduce::{Finding, FindingTable, ReproduceError, RunPool};
use crate::stats::mean_of;

/// Threshold1 of the source: a change of the behaviour.
const CHANGE: f64 = 0.12;
/// Intervals of the local behaviour.
const WINDOW: usize = 3;
/// Smallest base of a relative change.
const BASE_MIN: f64 = 0.01;
/// Accesses in an interval below which its miss ratio counts as 0, as in the policy.
const ACCESSES_MIN: u64 = 1000;
/// Weight of the global behaviour, published for UMA.
const ALPHA: f64 = 0.3;

const NOTE: &str = "IB: 0.3 of the mean LLCMR of one thread, and 0.7 of the mean LB; the shipped profiles have no data that \
                    threads share, so that more threads need more cache";

/// Behaviour of the threads of a job in one run.
#[derive(Clone, Debug, Default)]
struct Intervals {
    /// Sum and number of the miss ratios of all intervals and threads.
    ratios: (f64, u64),
    /// The same of the local behaviours.
    local: (f64, u64),
    n_changes: u64,
    /// Time in which threads ran.
    time: Nanos,
}

/// Observes the programs of a run.
#[derive(Debug, Default)]
struct BehaviourObserver {
    /// By job.
    jobs: BTreeMap<usize, Intervals>,
    /// The last miss ratios of each thread, and its local behaviour.
    threads: BTreeMap<TaskId, (VecDeque<f64>, Option<f64>)>,
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
            let of_job = self.jobs.entry(task.job.index()).or_default();
            of_job.ratios = (of_job.ratios.0 + ratio, of_job.ratios.1 + 1);
            of_job.time = of_job.time.saturating_add(interval);
            let (recent, last) = self.threads.entry(task.task).or_default();
            recent.push_back(ratio);
            if recent.len() < WINDOW {
                continue;
            }
            let local = recent.iter().sum::<f64>() / WINDOW as f64;
            recent.pop_front();
            of_job.local = (of_job.local.0 + local, of_job.local.1 + 1);
            let is_change =
                last.is_some_and(|last| CHANGE < (local - last).abs() / last.max(BASE_MIN));
            of_job.n_changes += u64::from(is_change);
            *last = Some(local);
        }
        Ok(())
    }
}

/// Mean values of a program over the seeds.
#[derive(Clone, Copy, Debug, Default)]
struct Behaviour {
    ratio: Option<f64>,
    local: Option<f64>,
    changes_per_min: Option<f64>,
}

impl Behaviour {
    fn of(runs: &[BehaviourObserver], job: usize) -> Self {
        let values = |value: fn(&Intervals) -> (f64, f64)| {
            let known = runs.iter().filter_map(|run| run.jobs.get(&job)).map(value);
            mean_of(known.filter(|(_, n)| 0.0 < *n).map(|(sum, n)| sum / n))
        };
        Behaviour {
            ratio: values(|one| (one.ratios.0, one.ratios.1 as f64)),
            local: values(|one| (one.local.0, one.local.1 as f64)),
            changes_per_min: values(|one| (one.n_changes as f64, one.time.as_secs_f64() / 60.0)),
        }
    }

    /// Returns the integrated behaviour with this global behaviour.
    fn integrated(&self, global: Option<f64>) -> Option<f64> {
        Some(ALPHA * global? + (1.0 - ALPHA) * self.local?)
    }
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
        let heads = ["program and model", "LLCMR", "LB", "IB", "changes"];
        let title =
            format!("{}: misses per LLC access, and phase changes per minute", platform.name);
        let mut table = FindingTable::new(&title, &heads).units(&["1", "1", "1", "1/min"]);
        for (job, program) in ["gamess", "mcf"].into_iter().enumerate() {
            let single = Behaviour::of(by_model[0], job);
            for (name, runs) in names.iter().zip(&by_model) {
                let one = Behaviour::of(runs, job);
                table.row([
                    format!("{program}, {name}"),
                    number(one.ratio, 3),
                    number(one.local, 3),
                    number(one.integrated(single.ratio), 3),
                    number(one.changes_per_min, 2),
                ]);
            }
            let others = || by_model[1..].iter().map(|runs| Behaviour::of(runs, job));
            finding.claims.push(claim(&format!("{}, {program}", platform.name), single, others()));
        }
        finding.tables.push(table);
    }
    finding.notes.push(NOTE.to_owned());
    Ok(finding)
}

/// Returns the claim that some model changes the behaviour by more than [`CHANGE`].
fn claim(subject: &str, single: Behaviour, others: impl Iterator<Item = Behaviour>) -> StudyClaim {
    let relative =
        |value: Option<f64>, base: Option<f64>| Some((value? - base?).abs() / base?.max(BASE_MIN));
    let changes = others.flat_map(|one| {
        let own = single.integrated(single.ratio);
        [relative(one.ratio, single.ratio), relative(one.integrated(single.ratio), own)]
    });
    let largest = changes.collect::<Option<Vec<f64>>>();
    let largest = largest.map(|all| all.into_iter().fold(0.0, f64::max));
    judged_claim(
        &format!("{subject}: an execution model changes mean LLCMR or IB by more than 12 %"),
        RuleReading::Corrected,
        format!("largest change {} %", number(largest.map(|change| 100.0 * change), 1)),
        largest.map(|change| CHANGE < change),
    )
}
