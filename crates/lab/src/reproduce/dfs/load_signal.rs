//! Agreement of two load signals: counters of memory controllers, and LLC misses of cores.
//!
//! ```text
//!   a poll ─┬─ controllers: memory operations of each node ───────► busiest node ─► victim there
//!           └─ cores: misses of tasks, by the node they run on ───► busiest node ─► victim there
//!                                                └ or: most misses on the controllers' busiest node
//! ```
//!
//! Both signals are evaluated in the same poll of the same run. The victim follows the rule of the policy: the program
//! with the highest class among the programs that were placed on the node and are not in their cool-down; ties: the
//! latest start. The check `moves as predicted` compares this victim with every move of the policy.
//!
//! A core counts a program on the node where the program runs; a controller counts it on the node of its memory. A
//! program that migrated without its memory therefore appears on different nodes in the two signals.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;

use base::{CpuId, JobId, Nanos};
use engine::{Sink, TurnRecord};
use program::{Class, Job};
use report::format::{fixed, or_absent};
use report::study::{RuleReading, StudyValue};
use sched::{Action, CounterEvent, JobEvent, Target, TaskView};
use topology::Machine;

use super::super::finding::{BOTH_READINGS, judged_claim, with_values};
use super::super::measure_values::largest;
use super::super::run_pool::Series;
use super::super::{Finding, FindingTable, Gain, ReproduceError, RunPool, Testbed};
use super::{ALL, first_touch};

/// Signals are equivalent if they agree in this fraction of the polls. Chosen before the first run.
const AGREEMENT_MIN: f64 = 0.9;
/// Two times are equal if they differ by at most this fraction. Chosen before the first run.
const TIME_DIFFERENCE_MAX: f64 = 0.005;

/// Counts the polls in which the signals agree.
struct Agreement {
    node_of: BTreeMap<CpuId, usize>,
    jobs: BTreeMap<JobId, JobPlacement>,
    /// Number of polls after a move in which the program does not move again.
    cooldown: u64,
    /// Number of polls so far.
    poll: u64,
    counts: PollCounts,
}

/// Counts over all polls of one run or of several runs.
#[derive(Clone, Copy, Default)]
struct PollCounts {
    /// Number of polls with a load above 0.
    n_polls: usize,
    n_same_node: usize,
    n_same_victim: usize,
    n_same_by_misses: usize,
    /// Number of moves of the policy.
    n_moves: usize,
    /// Number of moves in which the predicted victim moved.
    n_predicted: usize,
}

struct JobPlacement {
    class: Option<Class>,
    /// Node on which the policy placed the program, while the program runs.
    node: Option<usize>,
    started: Nanos,
    moved_at: Option<u64>,
}

/// Returns the LLC misses of a task since the last poll.
fn misses(task: &TaskView) -> u64 {
    task.counters.get(CounterEvent::LlcMisses).unwrap_or(0)
}

impl Agreement {
    fn new(machine: &Machine, jobs: &[Job], cooldown: u64) -> Self {
        let nodes = machine.nodes().iter().enumerate();
        let node_of = nodes.flat_map(|(idx, node)| node.cpus.iter().map(move |cpu| (cpu, idx)));
        let state = |job: &Job| JobPlacement {
            class: job.class,
            node: None,
            started: Nanos::ZERO,
            moved_at: None,
        };
        Agreement {
            node_of: node_of.collect(),
            jobs: jobs.iter().map(|job| (job.id, state(job))).collect(),
            cooldown,
            poll: 0,
            counts: PollCounts::default(),
        }
    }

    fn read_ends(&mut self, record: &TurnRecord<'_>) {
        for event in &record.sample.jobs {
            let JobEvent::Ended(job, _) = event else { continue };
            if let Some(state) = self.jobs.get_mut(job) {
                state.node = None;
            }
        }
    }

    /// Reads the placements of this turn. The placement of a job that already has a node is a move.
    fn read_plan(&mut self, record: &TurnRecord<'_>) {
        for request in &record.plan.requests {
            let (Target::Job(job), Action::Place(cpus)) = (request.target, &request.action) else {
                continue;
            };
            let node = cpus.iter().next().and_then(|cpu| self.node_of.get(&cpu)).copied();
            let Some(state) = self.jobs.get_mut(&job) else { continue };
            match state.node {
                None => state.started = record.turn.at,
                Some(_) => state.moved_at = Some(self.poll),
            }
            state.node = node;
        }
    }

    /// Returns the jobs of a node that are not in their cool-down.
    fn movable(&self, node: usize) -> impl Iterator<Item = (JobId, &JobPlacement)> {
        let is_cooling = move |state: &JobPlacement| {
            state.moved_at.is_some_and(|poll| self.poll - poll < self.cooldown)
        };
        let on_node = self.jobs.iter().filter(move |(_, state)| state.node == Some(node));
        on_node.map(|(job, state)| (*job, state)).filter(move |(_, state)| !is_cooling(state))
    }

    fn victim_by_class(&self, node: usize) -> Option<JobId> {
        let order = |(job, state): &(JobId, &JobPlacement)| {
            (state.class.unwrap_or_default(), state.started, Reverse(*job))
        };
        self.movable(node).max_by_key(order).map(|(job, _)| job)
    }

    fn victim_by_misses(&self, node: usize, tasks: &[TaskView]) -> Option<JobId> {
        let misses =
            |job: JobId| -> u64 { tasks.iter().filter(|task| task.job == job).map(misses).sum() };
        let order = |(job, state): &(JobId, &JobPlacement)| {
            (misses(*job), state.class, state.started, Reverse(*job))
        };
        self.movable(node).max_by_key(order).map(|(job, _)| job)
    }

    fn compare(&mut self, controllers: &[u64], record: &TurnRecord<'_>) {
        let mut cores = vec![0u64; controllers.len()];
        for task in record.tasks {
            let node = task.last_cpu.and_then(|cpu| self.node_of.get(&cpu));
            if let Some(load) = node.and_then(|node| cores.get_mut(*node)) {
                *load += misses(task);
            }
        }
        let (Some(one), Some(other)) = (busiest(controllers), busiest(&cores)) else { return };
        let victim = self.victim_by_class(one);
        let same_victim = victim == self.victim_by_class(other);
        let same_by_misses = victim == self.victim_by_misses(one, record.tasks);
        let counts = &mut self.counts;
        counts.n_polls += 1;
        counts.n_same_node += usize::from(one == other);
        counts.n_same_victim += usize::from(same_victim);
        counts.n_same_by_misses += usize::from(same_by_misses);
        let mut requests = record.plan.requests.iter();
        let moved = requests.find(|request| request.reason.code.name() == "load-uneven");
        if let Some(Target::Job(job)) = moved.map(|request| request.target) {
            counts.n_moves += 1;
            counts.n_predicted += usize::from(victim == Some(job));
        }
    }
}

/// Returns the index of the largest load; ties: the lowest index. `None`: all loads are 0.
fn busiest(loads: &[u64]) -> Option<usize> {
    let most = loads.iter().copied().max().filter(|most| 0 < *most)?;
    loads.iter().position(|load| *load == most)
}

impl Sink for Agreement {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        self.read_ends(record);
        if let Some(loads) = record.loads.filter(|loads| loads.loads.readable) {
            self.poll += 1;
            self.compare(&loads.loads.loads, record);
        }
        self.read_plan(record);
        Ok(())
    }
}

impl PollCounts {
    fn fraction(&self, n: usize) -> f64 {
        n as f64 / self.n_polls.max(1) as f64
    }

    fn same_node(&self) -> f64 {
        self.fraction(self.n_same_node)
    }

    fn same_victim(&self) -> f64 {
        self.fraction(self.n_same_victim)
    }

    fn same_by_misses(&self) -> f64 {
        self.fraction(self.n_same_by_misses)
    }

    fn row(&self, name: String) -> [String; 6] {
        let [node, victim, misses] =
            [self.same_node(), self.same_victim(), self.same_by_misses()].map(percent);
        let predicted = format!("{} of {}", self.n_predicted, self.n_moves);
        [name, self.n_polls.to_string(), node, victim, misses, predicted]
    }
}

fn counts(
    pool: &RunPool<'_>,
    testbed: &Testbed,
    (policy, workloads): (&str, &[&str]),
    cooldown: u64,
) -> Result<PollCounts, ReproduceError> {
    let make = |jobs: &[Job]| Agreement::new(&testbed.machine, jobs, cooldown);
    let observed = pool.observe(testbed, policy, workloads, make)?;
    Ok(observed.iter().fold(PollCounts::default(), |sum, one| PollCounts {
        n_polls: sum.n_polls + one.counts.n_polls,
        n_same_node: sum.n_same_node + one.counts.n_same_node,
        n_same_victim: sum.n_same_victim + one.counts.n_same_victim,
        n_same_by_misses: sum.n_same_by_misses + one.counts.n_same_by_misses,
        n_moves: sum.n_moves + one.counts.n_moves,
        n_predicted: sum.n_predicted + one.counts.n_predicted,
    }))
}

/// Returns the number of polls after a move in which `dfs` does not move the program again.
fn cooldown_polls(reading: RuleReading) -> u64 {
    let info = policy::find("dfs").expect("it ships");
    let cooldown = info.param("cooldown").expect("dfs declares a cool-down");
    let text = match reading {
        RuleReading::Paper => cooldown.default_paper.unwrap_or(cooldown.default),
        _ => cooldown.default,
    };
    text.parse().expect("a whole number of polls")
}

fn dfs(reading: RuleReading, params: &str) -> String {
    let reading = if reading == RuleReading::Paper { "reading=paper," } else { "" };
    format!("dfs[{reading}{params}]")
}

pub(super) fn load_signal(pool: &RunPool<'_>) -> Result<Finding, ReproduceError> {
    let testbed = first_touch()?;
    let mut finding = Finding::default();
    let heads =
        ["policy", "polls", "same node", "same victim", "victim by misses", "moves as predicted"];
    let mut polls = FindingTable::new("polls in which both signals select the same, in %", &heads)
        .units(&["count", "%", "%", "%", "count"]);
    let title = "largest difference of a workload's makespan to that with loads=controller, in %";
    let mut times = FindingTable::new(title, &["reading", "per-core", "both"]).units(&["%"]);
    for reading in BOTH_READINGS {
        let cooldown = cooldown_polls(reading);
        let signals = ["loads=controller", "loads=per-core", "loads=both"];
        let policies = signals.map(|signal| dfs(reading, signal));
        let policies: Vec<&str> = policies.iter().map(String::as_str).collect();
        let runs = pool.run(&testbed, &policies, &ALL, pool.seeds())?;
        let usual = counts(pool, &testbed, (policies[0], &ALL), cooldown)?;
        let variant = |params: &str| {
            let policy = dfs(reading, &format!("loads=controller,{params}"));
            counts(pool, &testbed, (&policy, &ALL), cooldown)
        };
        let (follows, still) = (variant("memory=follow")?, variant("factor=1000")?);
        let word = reading.name();
        polls.row(usual.row(word.to_owned()));
        polls.row(follows.row(format!("{word}, memory follows")));
        polls.row(still.row(format!("{word}, no migration")));
        let differences = [1, 2].map(|policy| {
            let pairs = runs[policy].iter().zip(&runs[0]);
            largest(&pairs.map(|(runs, base)| Gain::time_saved(runs, base)).collect::<Vec<Gain>>())
        });
        let printed = differences.each_ref().map(|gain| or_absent(gain.as_ref(), Gain::percent));
        times.row(std::iter::once(word.to_owned()).chain(printed));
        finding.claims.extend(claims(reading, &usual, differences));
        let same_node = [&usual, &follows, &still].map(|counts| percent(counts.same_node()));
        finding.notes.push(same_node_note(word, same_node));
        finding.notes.extend(runs.iter().flatten().filter_map(Series::failure));
    }
    finding.tables.extend([polls, times]);
    Ok(finding)
}

fn same_node_note(reading: &str, [usual, follows, still]: [String; 3]) -> String {
    format!(
        "reading {reading}: the same node in {usual} % of the polls with the memory placement of the run, in {follows} % if memory follows the \
         program, in {still} % without any migration; a random choice gives 25 % with four nodes. The difference \
         between the first and the last is caused by programs that migrated without their memory"
    )
}

fn claims(
    reading: RuleReading,
    usual: &PollCounts,
    [cores, both]: [Option<Gain>; 2],
) -> [report::study::StudyClaim; 2] {
    let agree = |fraction: f64, difference: Option<Gain>| {
        Some(AGREEMENT_MIN <= fraction && difference?.mean.abs() <= TIME_DIFFERENCE_MAX)
            .filter(|_| 0 < usual.n_polls)
    };
    let value = |fraction: f64| StudyValue::of(fraction * 100.0, "%");
    let (node, victim, misses) = (usual.same_node(), usual.same_victim(), usual.same_by_misses());
    let equivalent = judged_claim(
        "counters of cores and of controllers are equivalent",
        reading,
        format!(
            "the same node in {}, the same victim in {} % of the polls",
            percent(node),
            percent(victim)
        ),
        agree(node.min(victim), cores),
    );
    let by_misses = judged_claim(
        "selecting the time by controllers and the victim by misses is equivalent to controllers and classes",
        reading,
        format!("the same victim in {} % of the polls", percent(misses)),
        agree(misses, both),
    );
    [with_values(equivalent, [node, victim].map(value)), with_values(by_misses, [value(misses)])]
}

fn percent(fraction: f64) -> String {
    fixed(fraction * 100.0, 1)
}

#[cfg(test)]
mod tests {
    use base::StopFlag;

    use super::*;

    fn on_wl1(policy: &str, cooldown: u64) -> PollCounts {
        let stop = StopFlag::default();
        let pool = RunPool::new(vec![1], 1, 2, &stop, &|_, _| {});
        let testbed = first_touch().expect("it ships");
        counts(&pool, &testbed, (policy, &["wl1"]), cooldown).expect("it runs")
    }

    #[test]
    fn the_predicted_victim_is_the_program_that_the_policy_moves_in_every_move() {
        let policies =
            [("dfs[reading=paper]", RuleReading::Paper, 0), ("dfs", RuleReading::Corrected, 8)];
        for (policy, reading, cooldown) in policies {
            assert_eq!(cooldown_polls(reading), cooldown);
            let counts = on_wl1(policy, cooldown);
            assert!(2 < counts.n_moves, "{policy}: {}", counts.n_moves);
            assert_eq!(counts.n_predicted, counts.n_moves, "{policy}");
        }
    }

    #[test]
    fn signals_agree_less_because_programs_migrate_without_their_memory() {
        let usual = on_wl1("dfs[reading=paper]", 0).same_node();
        let still = on_wl1("dfs[reading=paper,factor=1000]", 0);
        assert_eq!(still.n_moves, 0);
        assert!(usual + 0.2 < still.same_node(), "{usual} {}", still.same_node());
    }
}
