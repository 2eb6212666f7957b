//! Do controllers and cores tell the same? (spec 1.11, load signal)
//!
//! ```text
//!   a poll ─┬─ controllers: operations of each node ──────────► busiest node ─► who would go from there
//!           └─ cores: misses of tasks, by the node they run on ► busiest node ─► who would go from there
//!                                                                └ or: who misses most on the controllers'
//! ```
//!
//! Both signals are asked in the same poll of the same run, so that what differs is the signal and not what
//! came of it. Who would go is reckoned by the policy's own rule: of the programs that were put on the node and
//! do not rest the one of the highest class, of equals the one that started last. That this is the rule is
//! checked on every move that the policy makes.
//!
//! The two signals count at different ends: a core counts where a program runs, a controller where its memory lies.
//! A program that was moved without its memory is seen by one on the new node and by the other on the old one.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;

use base::{CpuId, JobId, Nanos, TaskId};
use engine::{Sink, TurnRecord};
use program::{Class, Job};
use sched::{Action, CounterEvent, JobEvent, ReasonCode, Target};
use topology::Machine;

use super::super::defaults::cooldown_polls;
use super::super::{
    Claim, Found, Gain, Played, Reading, ReproduceError, Rig, StudyFigure, Table, World,
};
use super::{ALL, dfs, roomy};

/// Signals are equivalent from so large a part of the polls on, and up to so large a part of a time (spec 1.11).
const AGREE: f64 = 0.9;
const SAME: f64 = 0.005;

/// Counts how often the signals agree.
struct Agreement {
    node_of: BTreeMap<CpuId, usize>,
    jobs: BTreeMap<JobId, Seen>,
    tasks: BTreeMap<TaskId, Misses>,
    cooldown: u64,
    n_polls: u64,
    /// Polls in which there was load at all.
    n_told: usize,
    n_same_node: usize,
    n_same_victim: usize,
    n_same_by_misses: usize,
    /// Moves that the policy made, and those that went as reckoned here.
    n_moves: usize,
    n_as_reckoned: usize,
}

/// A job.
struct Seen {
    class: Option<Class>,
    /// The node that it was put on, while it runs.
    node: Option<usize>,
    started: Nanos,
    moved_at: Option<u64>,
}

/// A task's misses.
#[derive(Clone, Copy)]
struct Misses {
    job: JobId,
    /// Where it runs.
    node: usize,
    now: u64,
    at_poll: u64,
}

impl Misses {
    fn fresh(self) -> u64 {
        self.now.saturating_sub(self.at_poll)
    }
}

impl Agreement {
    fn new(machine: &Machine, jobs: &[Job], cooldown: u64) -> Self {
        let nodes = machine.nodes().iter().enumerate();
        let node_of = nodes.flat_map(|(idx, node)| node.cpus.iter().map(move |cpu| (cpu, idx)));
        let seen =
            |job: &Job| Seen { class: job.class, node: None, started: Nanos::ZERO, moved_at: None };
        Agreement {
            node_of: node_of.collect(),
            jobs: jobs.iter().map(|job| (job.id, seen(job))).collect(),
            tasks: BTreeMap::new(),
            cooldown,
            n_polls: 0,
            n_told: 0,
            n_same_node: 0,
            n_same_victim: 0,
            n_same_by_misses: 0,
            n_moves: 0,
            n_as_reckoned: 0,
        }
    }

    fn take(&mut self, record: &TurnRecord<'_>) {
        for task in &record.sample.tasks {
            let node = task.last_cpu.and_then(|cpu| self.node_of.get(&cpu)).copied();
            let misses = task.counters.get(CounterEvent::LlcMisses).value();
            let (Some(node), Some(now)) = (node, misses) else { continue };
            let at_poll = self.tasks.get(&task.task).map_or(0, |seen| seen.at_poll);
            self.tasks.insert(task.task, Misses { job: task.job, node, now, at_poll });
        }
        for task in &record.sample.exited {
            self.tasks.remove(task);
        }
        for event in &record.sample.jobs {
            let JobEvent::Ended(job, _) = event else { continue };
            if let Some(seen) = self.jobs.get_mut(job) {
                seen.node = None;
            }
        }
    }

    /// Where jobs are put in this turn; a job that was somewhere is moved.
    fn follow(&mut self, record: &TurnRecord<'_>) {
        for ask in &record.plan.requests {
            let (Target::Job(job), Action::Place(cpus)) = (ask.target, &ask.action) else {
                continue;
            };
            let node = cpus.iter().next().and_then(|cpu| self.node_of.get(&cpu)).copied();
            let Some(seen) = self.jobs.get_mut(&job) else { continue };
            match seen.node {
                None => seen.started = record.turn.at,
                Some(_) => seen.moved_at = Some(self.n_polls),
            }
            seen.node = node;
        }
    }

    /// Who may go from a node, with what the rule looks at.
    fn free_on(&self, node: usize) -> impl Iterator<Item = (JobId, &Seen)> {
        let rests = move |seen: &Seen| {
            seen.moved_at.is_some_and(|poll| self.n_polls - poll < self.cooldown)
        };
        let there = self.jobs.iter().filter(move |(_, seen)| seen.node == Some(node));
        there.map(|(job, seen)| (*job, seen)).filter(move |(_, seen)| !rests(seen))
    }

    fn by_class(&self, node: usize) -> Option<JobId> {
        let order = |(job, seen): &(JobId, &Seen)| {
            (seen.class.unwrap_or_default(), seen.started, Reverse(*job))
        };
        self.free_on(node).max_by_key(order).map(|(job, _)| job)
    }

    fn by_misses(&self, node: usize) -> Option<JobId> {
        let misses = |job: JobId| -> u64 {
            self.tasks.values().filter(|task| task.job == job).map(|task| task.fresh()).sum()
        };
        let free = self.free_on(node);
        free.max_by_key(|(job, seen)| (misses(*job), seen.class, seen.started, Reverse(*job)))
            .map(|(job, _)| job)
    }

    fn compare(&mut self, controllers: &[u64], record: &TurnRecord<'_>) {
        let mut cores = vec![0u64; controllers.len()];
        for task in self.tasks.values() {
            if let Some(load) = cores.get_mut(task.node) {
                *load += task.fresh();
            }
        }
        let (Some(one), Some(other)) = (busiest(controllers), busiest(&cores)) else { return };
        let victim = self.by_class(one);
        self.n_told += 1;
        self.n_same_node += usize::from(one == other);
        self.n_same_victim += usize::from(victim == self.by_class(other));
        self.n_same_by_misses += usize::from(victim == self.by_misses(one));
        let moved =
            record.plan.requests.iter().find(|ask| ask.reason.code == ReasonCode::LoadUneven);
        if let Some(Target::Job(job)) = moved.map(|ask| ask.target) {
            self.n_moves += 1;
            self.n_as_reckoned += usize::from(victim == Some(job));
        }
    }
}

/// The place of the largest load, the lowest of equals; none where there is no load at all.
fn busiest(loads: &[u64]) -> Option<usize> {
    let most = loads.iter().copied().max().filter(|most| 0 < *most)?;
    loads.iter().position(|load| *load == most)
}

impl Sink for Agreement {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        self.take(record);
        if let Some(loads) = record.loads {
            self.n_polls += 1;
            self.compare(&loads.loads.loads, record);
            self.tasks.values_mut().for_each(|task| task.at_poll = task.now);
        }
        self.follow(record);
        Ok(())
    }
}

/// What the signals agreed on in all runs of a policy.
struct Shares {
    n_polls: usize,
    node: f64,
    victim: f64,
    by_misses: f64,
    n_moves: usize,
    n_as_reckoned: usize,
}

fn shares(
    rig: &Rig<'_>,
    world: &World,
    (column, workloads): (&str, &[&str]),
    cooldown: u64,
) -> Result<Shares, ReproduceError> {
    let heard = rig
        .listen(world, column, workloads, |jobs| Agreement::new(&world.machine, jobs, cooldown))?;
    let sum = |of: fn(&Agreement) -> usize| heard.iter().map(of).sum::<usize>();
    let n_polls = sum(|one| one.n_told);
    let share = |n: usize| n as f64 / n_polls.max(1) as f64;
    Ok(Shares {
        n_polls,
        node: share(sum(|one| one.n_same_node)),
        victim: share(sum(|one| one.n_same_victim)),
        by_misses: share(sum(|one| one.n_same_by_misses)),
        n_moves: sum(|one| one.n_moves),
        n_as_reckoned: sum(|one| one.n_as_reckoned),
    })
}

pub(super) fn load_signal(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let world = roomy()?;
    let mut found = Found::default();
    let heads =
        ["policy", "polls", "same node", "same victim", "victim by misses", "moves as reckoned"];
    let mut table = Table::new("polls in which both signals name the same, in %", &heads)
        .units(&["count", "%", "%", "%", "count"]);
    let heads = ["reading", "per-core", "both"];
    let mut times = Table::new(
        "largest difference of a workload's time to that with loads=controller, in %",
        &heads,
    )
    .units(&["%"]);
    for reading in Reading::BOTH {
        let cooldown = cooldown_polls(reading);
        let signals = ["loads=controller", "loads=per-core", "loads=both"];
        let signals = signals.map(|signal| dfs(reading, signal));
        let columns: Vec<&str> = signals.iter().map(String::as_str).collect();
        let played = rig.play(&world, &columns, &ALL)?;
        let usual = shares(rig, &world, (columns[0], &ALL), cooldown)?;
        let others = ["memory=follow", "factor=1000"].map(|more| {
            let column = dfs(reading, &format!("loads=controller,{more}"));
            shares(rig, &world, (&column, &ALL), cooldown)
        });
        let [follows, still] = others;
        let (follows, still) = (follows?, still?);
        let said = reading.word();
        table.row(row(said.to_owned(), &usual));
        table.row(row(format!("{said}, memory follows"), &follows));
        table.row(row(format!("{said}, nobody moves"), &still));
        let (cores, both) = (off(&played, 1), off(&played, 2));
        let shown = |off: &Option<Gain>| off.as_ref().map_or("–".to_owned(), Gain::percent);
        times.row([said.to_owned(), shown(&cores), shown(&both)]);
        let agree = |victim: f64, off: Option<Gain>| {
            Some(AGREE <= victim && off?.mean.abs() <= SAME).filter(|_| 0 < usual.n_polls)
        };
        let part = |part: f64| StudyFigure::of(part * 100.0, "%");
        let equivalent = Claim::judged(
            "counters of cores and of controllers are equivalent",
            reading,
            format!(
                "the same node in {}, the same victim in {} % of the polls",
                percent(usual.node),
                percent(usual.victim)
            ),
            agree(usual.node.min(usual.victim), cores),
        );
        found.claims.push(equivalent.on([usual.node, usual.victim].map(part)));
        let who = Claim::judged(
            "controllers that tell when and misses that tell who are equivalent to controllers and classes",
            reading,
            format!("the same victim in {} % of the polls", percent(usual.by_misses)),
            agree(usual.by_misses, both),
        );
        found.claims.push(who.on([part(usual.by_misses)]));
        found.why.push(format!(
            "reading {said}: the same node in {} % of the polls as it is, in {} % when memory follows the program, in \
             {} % when nobody is moved; chance alone gives 25 % of four nodes. What is between the first and \
             the last is done by programs that were moved and left their memory where it was",
            percent(usual.node),
            percent(follows.node),
            percent(still.node)
        ));
        found.why.extend(played.faults());
    }
    found.tables.extend([table, times]);
    Ok(found)
}

fn percent(part: f64) -> String {
    format!("{:.1}", part * 100.0)
}

fn row(name: String, shares: &Shares) -> [String; 6] {
    [
        name,
        shares.n_polls.to_string(),
        percent(shares.node),
        percent(shares.victim),
        percent(shares.by_misses),
        format!("{} of {}", shares.n_as_reckoned, shares.n_moves),
    ]
}

/// The largest difference of a workload's time to that with the first policy; none where a pair is missing.
fn off(played: &Played, column: usize) -> Option<Gain> {
    let of = (0..ALL.len()).map(|place| played.gain(column, place, (played, 0)));
    let of: Vec<Gain> = of.collect();
    if of.iter().any(Gain::is_empty) {
        return None;
    }
    of.into_iter().max_by(|one, other| one.mean.abs().total_cmp(&other.mean.abs()))
}

#[cfg(test)]
mod tests {
    use base::StopFlag;

    use super::*;

    fn on_wl1(column: &str, cooldown: u64) -> Shares {
        let stop = StopFlag::default();
        let rig = Rig::new(vec![1], 1, 2, &stop, &|_, _| {});
        let world = roomy().expect("ships");
        shares(&rig, &world, (column, &["wl1"]), cooldown).expect("runs")
    }

    #[test]
    fn who_would_go_is_who_goes_in_every_move_of_the_policy() {
        for (column, reading) in [("dfs[reading=paper]", Reading::Paper), ("dfs", Reading::Ours)] {
            let shares = on_wl1(column, cooldown_polls(reading));
            assert!(2 < shares.n_moves, "{column}: {}", shares.n_moves);
            assert_eq!(shares.n_as_reckoned, shares.n_moves, "{column}");
        }
    }

    #[test]
    fn programs_that_leave_their_memory_behind_are_why_the_signals_disagree() {
        let as_it_is = on_wl1("dfs[reading=paper]", 0).node;
        let still = on_wl1("dfs[reading=paper,factor=1000]", 0);
        assert_eq!(still.n_moves, 0);
        assert!(as_it_is + 0.2 < still.node, "{as_it_is} {}", still.node);
    }
}
