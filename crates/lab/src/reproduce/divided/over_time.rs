//! When each group is done: Group 2 early, then Group 1 spreads.
//!
//! ```text
//!   by default   1 1 1 1 1 1 1 1 1 1 1 1|          divided   1 1 1 1 1 1 1 1 1 1 1|
//!                2 2 2 2 2 2 2 2 2 2|                        2 2 2 2 2 2 2|← earlier
//!                                                                         └ from here on 1 on both sockets
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use base::{CpuId, JobId, Nanos, TaskId};
use engine::{Sink, TurnRecord};
use program::Job;
use sched::JobEvent;
use topology::Machine;

use super::super::defaults::interval;
use super::super::given::GIVEN;
use super::super::world::ClassBasis;
use super::super::{
    Claim, Drawing, Found, Gain, Played, Reading, ReproduceError, Rig, StudyFigure, Table, World,
};
use super::mixes::CONTENDED;
use super::programs::group_of;
use super::versions::{Columns, KERNELS, N_EACH};
use crate::shipped::Draw;

/// Group 1 may be so much later, as a part (spec 5.5).
const AS_EARLY: f64 = -0.03;

/// Where Group 1 runs once Group 2 is done.
struct Spread {
    node_of: BTreeMap<CpuId, usize>,
    groups: BTreeMap<JobId, u8>,
    tasks: BTreeMap<TaskId, (JobId, usize)>,
    /// Of Group 2, who has not ended yet.
    left: BTreeSet<JobId>,
    done_at: Option<Nanos>,
    /// A period of the policy; after Group 2 is done one has to begin before anything can be seen.
    period: Nanos,
    n_told: usize,
    n_spread: usize,
}

impl Spread {
    fn new(machine: &Machine, jobs: &[Job]) -> Self {
        let nodes = machine.nodes().iter().enumerate();
        let node_of = nodes.flat_map(|(idx, node)| node.cpus.iter().map(move |cpu| (cpu, idx)));
        let groups: BTreeMap<JobId, u8> = jobs.iter().map(|job| (job.id, group_of(job))).collect();
        let left = groups.iter().filter(|(_, group)| **group == 2).map(|(job, _)| *job);
        Spread {
            node_of: node_of.collect(),
            left: left.collect(),
            groups,
            tasks: BTreeMap::new(),
            done_at: None,
            period: interval("divided"),
            n_told: 0,
            n_spread: 0,
        }
    }

    fn take(&mut self, record: &TurnRecord<'_>) {
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
            if self.left.remove(job) && self.left.is_empty() {
                self.done_at = Some(record.turn.at);
            }
        }
    }
}

impl Sink for Spread {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        self.take(record);
        let period = self.period;
        let is_late = self.done_at.is_some_and(|done| done + period + period <= record.turn.at);
        if record.loads.is_some() && is_late {
            let ones = self.tasks.values().filter(|(job, _)| self.groups.get(job) == Some(&1));
            let nodes: Vec<usize> = ones.map(|(_, node)| *node).collect();
            if 2 <= nodes.len() {
                self.n_told += 1;
                self.n_spread += usize::from(1 < nodes.iter().collect::<BTreeSet<_>>().len());
            }
        }
        Ok(())
    }
}

/// How much earlier the last of a group ends, on all mixes, seed by seed.
fn earlier(played: &Played, groups: &[Vec<u8>], group: u8, (column, base): (usize, usize)) -> Gain {
    let of_mix = |mix: usize| {
        let end = |column: usize, at: usize| -> Option<f64> {
            let run = played.run(column, mix, at);
            let ends = run.jobs.iter().zip(&groups[mix]).filter(|(_, of)| **of == group);
            ends.map(|(job, _)| job.end.map(Nanos::as_secs_f64))
                .try_fold(0.0, |most, end| Some(f64::max(most, end?)))
        };
        let of = |(at, seed): (usize, &u64)| {
            played.whole_s(column, mix)[at]?;
            played.whole_s(base, mix)[at]?;
            Some((*seed, 1.0 - end(column, at)? / end(base, at)?))
        };
        Gain::by_seed(played.seeds().iter().enumerate().filter_map(of).collect())
    };
    Gain::over(&(0..groups.len()).map(of_mix).collect::<Vec<Gain>>())
}

/// The versions, and the paper's groups given.
const ROWS: [(&str, Reading); 6] = [
    ("rank", Reading::Paper),
    ("rank", Reading::Ours),
    ("threshold", Reading::Paper),
    ("threshold", Reading::Ours),
    ("groups given", Reading::Paper),
    ("groups given", Reading::Ours),
];

pub(super) fn completion(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let world = World::shipped("xeon-2x4")?;
    let groups: Result<Vec<Vec<u8>>, ReproduceError> = CONTENDED
        .iter()
        .map(|mix| Ok(world.jobs(mix, ClassBasis::Rate)?.iter().map(group_of).collect()))
        .collect();
    let groups = groups?;
    let mut found = Found::default();
    for (kernel, (words, variant)) in KERNELS.into_iter().enumerate() {
        let versions = Columns::on("xeon-2x4", Draw::Middle, KERNELS.len())?;
        let versions = &versions.texts()[kernel * N_EACH..(kernel + 1) * N_EACH];
        let given = ["reading=paper,", "guard=off,"].map(|reading| {
            format!("{GIVEN}divided[{reading}version=threshold,th_sq=1,th_ref=1]@{variant}")
        });
        let columns: Vec<&str> = versions[..N_EACH - 1]
            .iter()
            .copied()
            .chain(given.iter().map(String::as_str))
            .chain([versions[N_EACH - 1]])
            .collect();
        let played = rig.play(&world, &columns, &CONTENDED)?;
        let title = format!("the last of a group ends earlier than by default by, in %, {words}");
        let mut table = Table::new(&title, &["policy", "Group 2", "Group 1"])
            .units(&["%"])
            .drawn(Drawing::Intervals);
        let title =
            format!("of the periods after Group 2 is done, Group 1 is on both sockets in, {words}");
        let mut spreads = Table::new(&title, &["policy", "periods", "on both", "in %"])
            .units(&["count", "count", "%"]);
        for (row, (name, reading)) in ROWS.into_iter().enumerate() {
            let [two, one] =
                [2, 1].map(|group| earlier(&played, &groups, group, (row, ROWS.len())));
            let heard = rig.listen(&world, columns[row], &CONTENDED, |jobs| {
                Spread::new(&world.machine, jobs)
            })?;
            let n_told: usize = heard.iter().map(|one| one.n_told).sum();
            let n_spread: usize = heard.iter().map(|one| one.n_spread).sum();
            let policy = format!("{name}, {}", reading.word());
            table.row([policy.as_str().into(), two.cell(), one.cell()]);
            let part = match n_told {
                0 => "–".to_owned(),
                n => format!("{:.1}", n_spread as f64 / n as f64 * 100.0),
            };
            spreads.row([policy, n_told.to_string(), n_spread.to_string(), part]);
            found.claims.extend(judge(
                &format!("{name}, {words}"),
                reading,
                (&two, &one),
                (n_told, n_spread),
            ));
        }
        found.tables.extend([table, spreads]);
        found.why.extend(played.faults());
    }
    Ok(found)
}

fn judge(
    what: &str,
    reading: Reading,
    (two, one): (&Gain, &Gain),
    (n_told, n_spread): (usize, usize),
) -> [Claim; 3] {
    [
        Claim::judged(
            &format!("{what}: Group 2 ends earlier than by default"),
            reading,
            two.found("%"),
            two.is_surely_above(),
        ),
        Claim::judged(
            &format!("{what}: then Group 1 runs on both sockets, in 9 of 10 periods"),
            reading,
            format!("in {n_spread} of {n_told}"),
            (0 < n_told).then_some(n_told * 9 <= n_spread * 10),
        )
        .on([StudyFigure::count(n_spread, n_told)]),
        Claim::judged(
            &format!("{what}: Group 1 ends no more than 3 % later"),
            reading,
            one.found("%"),
            (!one.is_empty()).then_some(AS_EARLY <= one.mean),
        ),
    ]
}
