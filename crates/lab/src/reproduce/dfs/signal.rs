//! Do controllers and cores tell the same? (spec 1.11, load signal)
//!
//! ```text
//!   a poll ─┬─ controllers: operations of each node ─────────────► busiest node ─► victim: highest class there
//!           └─ cores: misses of tasks, by the node they run on ──► busiest node ─► victim: highest class there
//!                                                                  └ or: who misses most on the controllers'
//! ```
//!
//! Both signals are asked in the same poll of the same run, so that what differs is the signal and not what
//! came of it.

use std::collections::BTreeMap;
use std::io;

use base::{JobId, TaskId};
use engine::{Sink, TurnRecord};
use program::{Class, Job};
use sched::Quantity;
use topology::Machine;

use super::super::{Claim, Found, Played, Reading, ReproduceError, Rig, Table, World};
use super::{ALL, dfs};
use crate::stats::mean;

/// Counts how often the signals agree.
struct Agreement {
    node_of: BTreeMap<base::CpuId, usize>,
    classes: BTreeMap<JobId, Option<Class>>,
    tasks: BTreeMap<TaskId, Seen>,
    n_polls: usize,
    n_same_node: usize,
    n_same_victim: usize,
    n_same_by_misses: usize,
}

/// A task as it was seen last.
#[derive(Clone, Copy)]
struct Seen {
    job: JobId,
    node: usize,
    misses: u64,
    /// Since the poll before.
    fresh: u64,
}

impl Agreement {
    fn new(machine: &Machine, jobs: &[Job]) -> Self {
        let nodes = machine.nodes().iter().enumerate();
        let node_of = nodes.flat_map(|(idx, node)| node.cpus.iter().map(move |cpu| (cpu, idx)));
        Agreement {
            node_of: node_of.collect(),
            classes: jobs.iter().map(|job| (job.id, job.class)).collect(),
            tasks: BTreeMap::new(),
            n_polls: 0,
            n_same_node: 0,
            n_same_victim: 0,
            n_same_by_misses: 0,
        }
    }

    fn take(&mut self, record: &TurnRecord<'_>) {
        for task in &record.sample.tasks {
            let node = task.last_cpu.and_then(|cpu| self.node_of.get(&cpu)).copied();
            let misses = task.counters.get(Quantity::LlcMisses).value();
            let (Some(node), Some(misses)) = (node, misses) else { continue };
            let before = self.tasks.get(&task.task).map_or(0, |seen| seen.misses + seen.fresh);
            let fresh = misses.saturating_sub(before);
            self.tasks.insert(task.task, Seen { job: task.job, node, misses: before, fresh });
        }
        record.sample.gone.iter().for_each(|task| {
            self.tasks.remove(task);
        });
    }

    /// The poll is over: what was fresh is old.
    fn settle(&mut self) {
        for seen in self.tasks.values_mut() {
            (seen.misses, seen.fresh) = (seen.misses + seen.fresh, 0);
        }
    }

    /// The one that goes from a node by class, the latest of equals.
    fn by_class(&self, node: usize) -> Option<JobId> {
        let there = self.tasks.values().filter(|seen| seen.node == node);
        there
            .map(|seen| seen.job)
            .max_by_key(|job| (self.classes.get(job).copied().flatten(), *job))
    }

    /// The one that goes by its misses.
    fn by_misses(&self, node: usize) -> Option<JobId> {
        let there = self.tasks.values().filter(|seen| seen.node == node);
        there.max_by_key(|seen| (seen.fresh, seen.job)).map(|seen| seen.job)
    }

    fn compare(&mut self, controllers: &[u64]) {
        let mut cores = vec![0u64; controllers.len()];
        for seen in self.tasks.values() {
            if let Some(load) = cores.get_mut(seen.node) {
                *load += seen.fresh;
            }
        }
        let (Some(one), Some(other)) = (busiest(controllers), busiest(&cores)) else { return };
        self.n_polls += 1;
        self.n_same_node += usize::from(one == other);
        self.n_same_victim += usize::from(self.by_class(one) == self.by_class(other));
        self.n_same_by_misses += usize::from(self.by_class(one) == self.by_misses(one));
    }
}

/// The place of the largest load, the lowest of equals; none where there is no load at all.
fn busiest(loads: &[u64]) -> Option<usize> {
    let most = loads.iter().copied().max().filter(|most| 0 < *most)?;
    loads.iter().position(|load| *load == most)
}

impl Sink for Agreement {
    fn turn(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        self.take(record);
        if let Some(loads) = record.loads {
            self.compare(&loads.loads.loads);
            self.settle();
        }
        Ok(())
    }
}

pub(super) fn load_signal(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let world = World::shipped("tilepro64")?;
    let mut found = Found::default();
    let mut table = Table::new(
        "polls in which both signals name the same, in %, and the largest difference of a mean time",
        &[
            "reading",
            "polls",
            "same node",
            "same victim",
            "victim by misses",
            "time: per-core",
            "both",
        ],
    );
    for reading in Reading::BOTH {
        let signals = ["loads=controller", "loads=per-core", "loads=both"];
        let signals = signals.map(|signal| dfs(reading, signal));
        let columns: Vec<&str> = signals.iter().map(String::as_str).collect();
        let played = rig.play(&world, &columns, &ALL)?;
        let heard =
            rig.listen(&world, columns[0], &ALL, |jobs| Agreement::new(&world.machine, jobs))?;
        let sum = |of: fn(&Agreement) -> usize| heard.iter().map(of).sum::<usize>();
        let n_polls = sum(|one| one.n_polls);
        let share = |n: usize| n as f64 / n_polls.max(1) as f64;
        let (node, victim) =
            (share(sum(|one| one.n_same_node)), share(sum(|one| one.n_same_victim)));
        let by_misses = share(sum(|one| one.n_same_by_misses));
        let (cores, both) = (off(&played, 1), off(&played, 2));
        let percent = |part: f64| format!("{:.1}", part * 100.0);
        table.row([
            reading.word().to_owned(),
            n_polls.to_string(),
            percent(node),
            percent(victim),
            percent(by_misses),
            format!("{:+.2}", cores * 100.0),
            format!("{:+.2}", both * 100.0),
        ]);
        let agree = |victim: f64, off: f64| 0.9 <= node.min(victim) && off.abs() <= 0.005;
        found.claims.push(Claim::new(
            "counters of cores and of controllers are equivalent",
            reading,
            format!(
                "the same node in {}, the same victim in {} % of the polls",
                percent(node),
                percent(victim)
            ),
            agree(victim, cores),
        ));
        found.claims.push(Claim::new(
            "controllers that tell when and misses that tell who are equivalent to controllers and classes",
            reading,
            format!("the same victim in {} % of the polls", percent(by_misses)),
            0.9 <= by_misses && both.abs() <= 0.005,
        ));
        found.why.extend(played.faults());
    }
    found.tables.push(table);
    Ok(found)
}

/// The difference of a workload's mean time to that of the first policy, where it is largest.
fn off(played: &Played, column: usize) -> f64 {
    let mean_s = |column, place| {
        mean(&played.whole_s(column, place).into_iter().flatten().collect::<Vec<f64>>())
    };
    let offs = (0..ALL.len()).map(|place| mean_s(column, place) / mean_s(0, place) - 1.0);
    offs.max_by(|one, other| one.abs().total_cmp(&other.abs())).unwrap_or(0.0)
}
