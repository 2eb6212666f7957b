//! Whether the programs outside the eleven are steady, as the paper says of its own (spec 5.5).

use std::collections::BTreeMap;
use std::io;

use base::{Nanos, TaskId};
use engine::{Sink, TurnRecord};
use sched::CounterEvent;

use super::super::{Claim, Found, Reading, ReproduceError, Rig, Table, World};
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
/// A coefficient of variation up to this is steady (spec 5.5).
const STEADY: f64 = 0.2;
/// Fewer full queues in a second than this are none.
const NONE: f64 = 1.0;

/// Rates of each period.
#[derive(Default)]
struct Rates {
    before: BTreeMap<TaskId, [u64; 3]>,
    full: Vec<f64>,
    references: Vec<f64>,
}

impl Sink for Rates {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        if record.loads.is_none() {
            return Ok(());
        }
        for task in &record.sample.tasks {
            let get = |event| task.counters.get(event).value().unwrap_or(0);
            let now =
                [task.cpu_time.0, get(CounterEvent::QueueFull), get(CounterEvent::LlcReferences)];
            let before = self.before.insert(task.task, now);
            let Some(before) = before else { continue }; // It began in this period.
            let grown = [0, 1, 2].map(|at| now[at].saturating_sub(before[at]));
            let seconds = Nanos(grown[0]).as_secs_f64();
            if 1.0 < seconds {
                self.full.push(grown[1] as f64 / seconds);
                self.references.push(grown[2] as f64 / seconds);
            }
        }
        Ok(())
    }
}

/// How much rates vary; none of fewer than two periods, 0 where nothing happens.
fn variation_of(rates: &[f64]) -> Option<f64> {
    variation(rates).map(|variation| if mean(rates) < NONE { 0.0 } else { variation })
}

pub(super) fn steady(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let world = World::shipped("xeon-2x4")?;
    let workloads = OUTSIDE.map(|name| format!("programs:{name}"));
    let workloads: Vec<&str> = workloads.iter().map(String::as_str).collect();
    let heard = rig.listen(&world, "divided[version=rank]", &workloads, |_| Rates::default())?;
    let heads = ["program", "periods", "full queues", "references"];
    let title = "variation from period to period of 10 s, alone: deviation / mean, the largest over the seeds";
    let mut table = Table::new(title, &heads).units(&["count", "1"]);
    let (mut found, mut not) = (Found::default(), Vec::new());
    let n_seeds = rig.seeds().len().max(1);
    for (name, of) in OUTSIDE.iter().zip(heard.chunks(n_seeds)) {
        let most = |rates: fn(&Rates) -> &[f64]| {
            of.iter()
                .filter_map(|one| variation_of(rates(one)))
                .fold(None, |most: Option<f64>, one| Some(most.map_or(one, |most| most.max(one))))
        };
        let (full, references) = (most(|one| &one.full), most(|one| &one.references));
        let n: usize = of.iter().map(|one| one.full.len()).sum();
        let shown = |of: Option<f64>| of.map_or("–".to_owned(), |of| format!("{of:.3}"));
        table.row([(*name).to_owned(), n.to_string(), shown(full), shown(references)]);
        let is_steady = full.zip(references).map(|(full, refs)| full.max(refs) <= STEADY);
        not.extend((is_steady != Some(true)).then_some(*name));
    }
    found.tables.push(table);
    let words =
        if not.is_empty() { "all are".to_owned() } else { format!("not: {}", not.join(", ")) };
    found.claims.push(Claim::judged(
        "the programs outside the eleven are steady: variation 0.2 or less",
        Reading::Either,
        words,
        Some(not.is_empty()),
    ));
    found.why.push(
        "profiles from tables are of one phase each, so that what varies here is the chance of counters: the data cannot \
         tell whether the programs themselves are steady"
            .to_owned(),
    );
    Ok(found)
}
