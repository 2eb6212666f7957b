//! Stability of the programs outside the eleven, from period to period.

use std::collections::BTreeMap;
use std::io;

use base::{Nanos, TaskId};
use engine::{Sink, TurnRecord};
use report::study::RuleReading;
use sched::CounterEvent;

use super::super::finding::judged;
use super::super::{Finding, ReproduceError, RunPool, Table, Testbed};
use crate::stats::{mean, variation};

/// The programs of the extended mixes that the paper does not name.
const OUTSIDE: [&str; 10] = [
    "milc",
    "leslie3d",
    "namd",
    "GemsFDTD",
    "bwaves",
    "hmmer",
    "povray",
    "zeusmp",
    "cactusADM",
    "h264ref",
];
/// Largest coefficient of variation of a stable program. Chosen here.
const STABLE: f64 = 0.2;
/// Fewer queue-full events per second than this count as none.
const NONE: f64 = 1.0;

/// Rates of each period, per second of CPU time.
#[derive(Default)]
struct Rates {
    before: BTreeMap<TaskId, [u64; 3]>,
    queue_full: Vec<f64>,
    references: Vec<f64>,
}

impl Sink for Rates {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        if record.loads.is_none() {
            return Ok(());
        }
        for task in &record.sample.tasks {
            let count = |event| task.counters.get(event).map_or(0, |read| read.value);
            let now = [
                task.cpu_time.0,
                count(CounterEvent::QueueFull),
                count(CounterEvent::LlcReferences),
            ];
            let before = self.before.insert(task.task, now);
            let Some(before) = before else { continue }; // The task started in this period.
            let delta = [0, 1, 2].map(|idx| now[idx].saturating_sub(before[idx]));
            let seconds = Nanos(delta[0]).as_secs_f64();
            if 1.0 < seconds {
                self.queue_full.push(delta[1] as f64 / seconds);
                self.references.push(delta[2] as f64 / seconds);
            }
        }
        Ok(())
    }
}

/// Coefficient of variation; `None` of fewer than two periods, 0 without any events.
fn variation_of(rates: &[f64]) -> Option<f64> {
    variation(rates).map(|variation| if mean(rates) < NONE { 0.0 } else { variation })
}

pub(super) fn steady(pool: &RunPool<'_>) -> Result<Finding, ReproduceError> {
    let testbed = Testbed::parse("xeon-2x4")?;
    let workloads = OUTSIDE.map(|name| format!("programs:{name}"));
    let workloads: Vec<&str> = workloads.iter().map(String::as_str).collect();
    let observed =
        pool.observe(&testbed, "divided[version=rank]", &workloads, |_| Rates::default())?;
    let title = "coefficient of variation over periods of 10 s, alone, the largest over the seeds";
    let heads = ["program", "periods", "queue full", "references"];
    let mut table = Table::new(title, &heads).units(&["count", "1"]);
    let mut unstable = Vec::new();
    for (name, runs) in OUTSIDE.iter().zip(observed.chunks(pool.seeds().len().max(1))) {
        let largest = |rates: fn(&Rates) -> &[f64]| {
            runs.iter().filter_map(|run| variation_of(rates(run))).reduce(f64::max)
        };
        let (full, references) = (largest(|run| &run.queue_full), largest(|run| &run.references));
        let n_periods: usize = runs.iter().map(|run| run.queue_full.len()).sum();
        let shown =
            |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.3}"));
        table.row([(*name).to_owned(), n_periods.to_string(), shown(full), shown(references)]);
        let is_stable = full.zip(references).map(|(full, refs)| full.max(refs) <= STABLE);
        unstable.extend((is_stable != Some(true)).then_some(*name));
    }
    let found = match unstable.as_slice() {
        [] => "all are".to_owned(),
        names => format!("not: {}", names.join(", ")),
    };
    let claim = judged(
        "the programs outside the eleven are stable: variation 0.2 or less",
        RuleReading::Either,
        found,
        Some(unstable.is_empty()),
    );
    let note = "profiles from tables have one phase each, so that only the noise of counters varies here: the data do not \
                show whether the programs themselves are stable";
    Ok(Finding { tables: vec![table], claims: vec![claim], notes: vec![note.to_owned()] })
}
