//! Sockets on which Group 1 runs after Group 2 has finished.
//!
//! ```text
//!   by default   1 1 1 1 1 1 1 1 1 1 1 1|          divided   1 1 1 1 1 1 1 1 1 1 1|
//!                2 2 2 2 2 2 2 2 2 2|                        2 2 2 2 2 2 2|← earlier
//!                                                                         └ from here on 1 on both sockets
//! ```
//!
//! The ends of the groups are data of the experiment.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use base::{CpuId, JobId, Nanos, TaskId};
use engine::{Sink, TurnRecord};
use program::Job;
use report::study::{RuleReading, StudyValue};
use sched::JobEvent;
use topology::Machine;

use super::super::finding::{judged, with_values};
use super::super::published_groups::{PREFIX, published_group};
use super::super::{Finding, ReproduceError, RunPool, Table, Testbed, interval_of};
use super::programs::thresholds;
use super::{CONTENDED, KERNELS};
use crate::shipped::Draw;

/// Counts the periods in which Group 1 runs on both sockets.
struct Spread {
    node_of: BTreeMap<CpuId, usize>,
    groups: BTreeMap<JobId, u8>,
    tasks: BTreeMap<TaskId, (JobId, usize)>,
    /// Running jobs of Group 2.
    running: BTreeSet<JobId>,
    /// End of Group 2.
    ended_at: Option<Nanos>,
    /// Period of the policy. It reacts in the first period after the end of Group 2.
    period: Nanos,
    n_periods: usize,
    n_spread: usize,
}

impl Spread {
    fn new(machine: &Machine, jobs: &[Job]) -> Self {
        let nodes = machine.nodes().iter().enumerate();
        let node_of = nodes.flat_map(|(idx, node)| node.cpus.iter().map(move |cpu| (cpu, idx)));
        let groups: BTreeMap<JobId, u8> =
            jobs.iter().map(|job| (job.id, published_group(job))).collect();
        let running = groups.iter().filter(|(_, group)| **group == 2).map(|(job, _)| *job);
        Spread {
            node_of: node_of.collect(),
            running: running.collect(),
            groups,
            tasks: BTreeMap::new(),
            ended_at: None,
            period: interval_of("divided"),
            n_periods: 0,
            n_spread: 0,
        }
    }

    fn read_sample(&mut self, record: &TurnRecord<'_>) {
        for task in &record.sample.tasks {
            let node = task.last_cpu.and_then(|cpu| self.node_of.get(&cpu)).copied();
            if let Some(node) = node {
                self.tasks.insert(task.task, (task.job, node));
            }
        }
        for task in &record.sample.exited {
            self.tasks.remove(task);
        }
        for event in &record.sample.jobs {
            let JobEvent::Ended(job, _) = event else { continue };
            if self.running.remove(job) && self.running.is_empty() {
                self.ended_at = Some(record.turn.at);
            }
        }
    }
}

impl Sink for Spread {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        self.read_sample(record);
        let reacted_at = self.ended_at.map(|ended| ended + self.period + self.period);
        if record.loads.is_some() && reacted_at.is_some_and(|at| at <= record.turn.at) {
            let ones = self.tasks.values().filter(|(job, _)| self.groups.get(job) == Some(&1));
            let nodes: Vec<usize> = ones.map(|(_, node)| *node).collect();
            if 2 <= nodes.len() {
                self.n_periods += 1;
                self.n_spread += usize::from(1 < nodes.iter().collect::<BTreeSet<_>>().len());
            }
        }
        Ok(())
    }
}

/// Versions, readings and policies; `{}` stands for the thresholds.
const ROWS: [(&str, RuleReading, &str); 6] = [
    ("rank", RuleReading::Paper, "divided[reading=paper,version=rank]"),
    ("rank", RuleReading::Ours, "divided[version=rank]"),
    ("threshold", RuleReading::Paper, "divided[reading=paper,version=threshold,{}]"),
    ("threshold", RuleReading::Ours, "divided[version=threshold,{}]"),
    (
        "groups given",
        RuleReading::Paper,
        "divided[reading=paper,version=threshold,th_sq=1,th_ref=1]",
    ),
    ("groups given", RuleReading::Ours, "divided[version=threshold,guard=off,th_sq=1,th_ref=1]"),
];

pub(super) fn completion(pool: &RunPool<'_>) -> Result<Finding, ReproduceError> {
    let testbed = Testbed::parse("xeon-2x4")?;
    let limits = thresholds(&testbed.machine, Draw::Middle)?;
    let mut finding = Finding::default();
    for (words, kernel) in KERNELS {
        let title = format!(
            "periods after the end of Group 2 in which Group 1 runs on both sockets, {words}"
        );
        let mut table = Table::new(&title, &["policy", "periods", "on both", "in %"])
            .units(&["count", "count", "%"]);
        for (name, reading, policy) in ROWS {
            let prefix = if name == "groups given" { PREFIX } else { "" };
            let policy = format!("{prefix}{}@{kernel}", policy.replace("{}", &limits));
            let make = |jobs: &[Job]| Spread::new(&testbed.machine, jobs);
            let observed = pool.observe(&testbed, &policy, &CONTENDED, make)?;
            let n_periods: usize = observed.iter().map(|one| one.n_periods).sum();
            let n_spread: usize = observed.iter().map(|one| one.n_spread).sum();
            let percent = match n_periods {
                0 => "–".to_owned(),
                n => format!("{:.1}", n_spread as f64 / n as f64 * 100.0),
            };
            let label = format!("{name}, {}", reading.name());
            table.row([label, n_periods.to_string(), n_spread.to_string(), percent]);
            let claim = judged(
                &format!("{name}, {words}: then Group 1 runs on both sockets, in 9 of 10 periods"),
                reading,
                format!("in {n_spread} of {n_periods}"),
                (0 < n_periods).then_some(n_periods * 9 <= n_spread * 10),
            );
            let count = StudyValue::count(n_spread, n_periods);
            finding.claims.push(with_values(claim, [count]));
        }
        finding.tables.push(table);
    }
    Ok(finding)
}
