//! Actions of a policy and counter rates of a run, for values that [`crate::compare::RunMetrics`] does not contain.
//!
//! ```text
//!   plan ── request to migrate pages ─┬─ the guard rejects it: a migration is active, ping-pong, over budget …
//!                                     └─ started ─► completed: bytes moved
//!
//!   start of the run ── 20 s ────────────── first job ends ────────── last job ends
//!                         ├── steady part ──┤
//! ```
//!
//! A rejected request may be repeated in every interval. Consecutive requests of the same job for the same node
//! therefore count once. In the steady part no job starts or ends. DI and DINO, which have a window of ten seconds,
//! have reacted to the starts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

use base::{CpuId, JobId, Nanos, NodeId, TaskId};
use engine::{Sink, TurnRecord};
use program::Job;
use sched::{Action, Cause, CounterEvent, JobEvent, OutcomeResult, Target, TaskView};
use topology::Machine;

use super::interval_of;
use super::overhead::{OperationCounter, Operations};
use super::published_groups::published_group;
use crate::stats::{mean, mean_of, variation};

/// Observation of one run.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// Actions from the start to the end of the last job.
    whole: ActionCounts,
    /// Actions from [`STEADY_FROM`] to the end of the first job.
    steady: ActionCounts,
    /// Periods after the end of Group 2 in which two or more tasks of Group 1 run.
    n_periods: u64,
    /// Number of the periods of `n_periods` in which tasks of Group 1 run on several nodes.
    n_on_several_nodes: u64,
    /// Number of rates: one per task and period, from the second period of a task on.
    n_rates: u64,
    /// Coefficient of variation of the queue-full events per second of CPU time; `None` for fewer than two rates.
    queue_full_variation: Option<f64>,
    /// Coefficient of variation of the LLC references per second of CPU time.
    reference_variation: Option<f64>,
    /// Operations of the policy.
    operations: Operations,
}

/// Actions in a part of a run.
#[derive(Clone, Debug, Default)]
struct ActionCounts {
    /// Requests to migrate pages; consecutive requests for one node count once.
    n_requested: u64,
    /// Page migrations that passed the guard and were started by the host, by job.
    n_started: BTreeMap<JobId, u64>,
    /// Bytes that migrated to another node.
    bytes: u64,
    /// Placements of running jobs.
    n_placed: u64,
    /// Migrations between caches if ranks were assigned by the rates of the last interval alone.
    n_undamped: u64,
    /// Length of the part.
    time: Nanos,
}

/// Start of the steady part: twice the window of DI and DINO.
const STEADY_FROM: Nanos = Nanos::from_secs(20);
/// Minimum CPU time of a task in a period that has a rate.
const RATE_CPU_TIME_MIN: Nanos = Nanos::from_secs(1);
/// Minimum mean rate, in events per second; the variation of smaller rates counts as 0.
const RATE_MIN: f64 = 1.0;

impl ActionCounts {
    /// Returns a count as a rate per hour; zero for a part without length.
    fn per_hour(&self, n: u64) -> f64 {
        match self.time {
            Nanos::ZERO => 0.0,
            time => n as f64 / time.as_secs_f64() * 3600.0,
        }
    }

    /// Returns the started page migrations per hour: of all jobs, or the mean over some jobs.
    fn started_per_hour(&self, jobs: &[usize]) -> f64 {
        if jobs.is_empty() {
            return self.per_hour(self.n_started.values().sum());
        }
        let of_job = |job: &usize| self.n_started.get(&JobId(*job as u32)).copied().unwrap_or(0);
        mean(&jobs.iter().map(|job| self.per_hour(of_job(job))).collect::<Vec<f64>>())
    }

    fn add(&mut self, other: &ActionCounts) {
        self.n_requested += other.n_requested;
        self.bytes += other.bytes;
        self.n_placed += other.n_placed;
        self.n_undamped += other.n_undamped;
        for (job, n) in &other.n_started {
            *self.n_started.entry(*job).or_default() += n;
        }
    }
}

/// Observations of finished runs, and the selection that a value is computed from.
pub(super) struct ObservedRuns<'a> {
    pub runs: &'a [Observation],
    /// Whether only the steady part counts.
    pub is_steady: bool,
    /// The jobs of `started_per_h`; empty: all jobs.
    pub jobs: &'a [usize],
    /// Whether the policy reads the counters of tasks.
    pub reads_counters: bool,
}

impl ObservedRuns<'_> {
    fn parts(&self) -> impl Iterator<Item = &ActionCounts> {
        self.runs.iter().map(|run| if self.is_steady { &run.steady } else { &run.whole })
    }

    fn sum(&self, value: fn(&Observation) -> u64) -> f64 {
        self.runs.iter().map(value).sum::<u64>() as f64
    }

    fn count(&self, count: fn(&ActionCounts) -> u64) -> f64 {
        self.parts().map(count).sum::<u64>() as f64
    }

    /// Returns the mean over the runs of a count per hour.
    fn per_h(&self, count: fn(&ActionCounts) -> u64) -> f64 {
        mean(&self.parts().map(|part| part.per_hour(count(part))).collect::<Vec<f64>>())
    }

    fn operations(&self, value: impl Fn(&Operations) -> f64) -> Option<f64> {
        mean_of(self.runs.iter().map(|run| value(&run.operations)))
    }

    fn largest(&self, value: fn(&Observation) -> Option<f64>) -> Option<f64> {
        self.runs.iter().filter_map(value).reduce(f64::max)
    }
}

/// A value over several runs: the sum (`n_…`), the mean, or the largest value. `None` if the value is unknown.
pub(super) type ObservedValue = fn(&ObservedRuns<'_>) -> Option<f64>;

/// The values of observations, by name.
const VALUES: [(&str, ObservedValue); 19] = [
    ("n_runs", |all| Some(all.runs.len() as f64)),
    ("n_placed", |all| Some(all.count(|part| part.n_placed))),
    ("n_requested", |all| Some(all.count(|part| part.n_requested))),
    ("requested_per_h", |all| Some(all.per_h(|part| part.n_requested))),
    ("started_per_h", |all| mean_of(all.parts().map(|part| part.started_per_hour(all.jobs)))),
    ("gib_per_h", |all| Some(all.per_h(|part| part.bytes >> 20) / 1024.0)),
    ("placed_per_min", |all| Some(all.per_h(|part| part.n_placed) / 60.0)),
    ("undamped_per_min", |all| Some(all.per_h(|part| part.n_undamped) / 60.0)),
    ("n_periods", |all| Some(all.sum(|run| run.n_periods))),
    ("n_on_several_nodes", |all| Some(all.sum(|run| run.n_on_several_nodes))),
    ("percent_on_several_nodes", |all| {
        let n_periods = Some(all.sum(|run| run.n_periods)).filter(|n| *n != 0.0)?;
        Some(all.sum(|run| run.n_on_several_nodes) / n_periods * 100.0)
    }),
    ("n_rates", |all| Some(all.sum(|run| run.n_rates))),
    ("queue_full_variation", |all| all.largest(|run| run.queue_full_variation)),
    ("reference_variation", |all| all.largest(|run| run.reference_variation)),
    ("sampling_percent", |all| all.operations(Operations::sampling_percent)),
    ("kind_moves_per_min", |all| all.operations(Operations::kind_moves_per_min)),
    ("node_moves_per_min", |all| all.operations(Operations::node_moves_per_min)),
    ("reads_per_min", |all| all.operations(|it| it.reads_per_min(all.reads_counters))),
    ("steps_per_min", |all| all.operations(Operations::steps_per_min)),
];

/// Returns the function that computes the value with this name.
pub(super) fn value(name: &str) -> Option<ObservedValue> {
    VALUES.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// Returns the coefficient of variation; `None` for fewer than two periods, 0 without events.
fn variation_of(rates: &[f64]) -> Option<f64> {
    variation(rates).map(|variation| if mean(rates) < RATE_MIN { 0.0 } else { variation })
}

/// Observes one run.
pub(super) struct RunObserver {
    observation: Observation,
    n_caches: usize,
    node_of_cpu: BTreeMap<CpuId, usize>,
    /// Published group of each job.
    groups: BTreeMap<JobId, u8>,
    /// Running jobs of Group 2.
    running_group_2: BTreeSet<JobId>,
    group_2_ended_at: Option<Nanos>,
    /// Period of the policy `divided`, which reacts to the end of Group 2 in its next period.
    period: Nanos,
    has_job_ended: bool,
    last_request: BTreeMap<JobId, NodeId>,
    placed: BTreeSet<JobId>,
    /// Tasks that existed at the end of the last interval.
    tasks: BTreeSet<TaskId>,
    cache_of_job: BTreeMap<JobId, usize>,
    /// Queue-full events and LLC references per second of CPU time.
    rates: [Vec<f64>; 2],
    operations: OperationCounter,
}

impl RunObserver {
    pub fn new(machine: &Machine, jobs: &[Job]) -> Self {
        let nodes = machine.nodes().iter().enumerate();
        let node_of_cpu = nodes.flat_map(|(idx, node)| node.cpus.iter().map(move |cpu| (cpu, idx)));
        let groups: BTreeMap<JobId, u8> =
            jobs.iter().map(|job| (job.id, published_group(job))).collect();
        let group_2 = groups.iter().filter(|(_, group)| **group == 2).map(|(job, _)| *job);
        RunObserver {
            observation: Observation::default(),
            n_caches: machine.llcs().len(),
            node_of_cpu: node_of_cpu.collect(),
            running_group_2: group_2.collect(),
            groups,
            group_2_ended_at: None,
            period: interval_of("divided"),
            has_job_ended: false,
            last_request: BTreeMap::new(),
            placed: BTreeSet::new(),
            tasks: BTreeSet::new(),
            cache_of_job: BTreeMap::new(),
            rates: Default::default(),
            operations: OperationCounter::new(machine),
        }
    }

    pub fn into_observation(self) -> Observation {
        let [queue_full, references] = &self.rates;
        Observation {
            n_rates: queue_full.len() as u64,
            queue_full_variation: variation_of(queue_full),
            reference_variation: variation_of(references),
            operations: self.operations.operations,
            ..self.observation
        }
    }

    fn count_actions(&mut self, record: &TurnRecord<'_>) -> ActionCounts {
        let mut counts = ActionCounts::default();
        for request in &record.plan.requests {
            if let (Target::Job(job), Action::MovePages { to, .. }) =
                (request.target, &request.action)
            {
                let is_new = self.last_request.insert(job, *to) != Some(*to);
                counts.n_requested += u64::from(is_new);
            }
        }
        for outcome in record.outcomes {
            let Target::Job(job) = outcome.target else { continue };
            match (&outcome.action, &outcome.result) {
                (Some(Action::MovePages { .. }), OutcomeResult::InProgress) => {
                    *counts.n_started.entry(job).or_default() += 1;
                }
                (Some(Action::Place(_)), OutcomeResult::Done { .. }) => {
                    counts.n_placed += u64::from(!self.placed.insert(job));
                }
                _ => {}
            }
        }
        let completed = record.sample.page_migrations_completed.iter();
        counts.bytes = completed.map(|migration| migration.moved.0).sum();
        counts
    }

    /// Adds the rates of tasks, from their second period on.
    fn add_rates(&mut self, tasks: &[TaskView]) {
        let has_rate =
            |task: &&TaskView| self.tasks.contains(&task.task) && RATE_CPU_TIME_MIN < task.cpu_time;
        for task in tasks.iter().filter(has_rate) {
            let count = |event| task.counters.get(event).unwrap_or(0) as f64;
            let rate = |event| count(event) / task.cpu_time.as_secs_f64();
            self.rates[0].push(rate(CounterEvent::QueueFull));
            self.rates[1].push(rate(CounterEvent::LlcReferences));
        }
        self.tasks = tasks.iter().map(|task| task.task).collect();
    }

    /// Ranks jobs by their misses in this interval alone, rounded as in the released code of DIO, and assigns the ranks
    /// to caches. Returns the number of jobs whose cache changes.
    fn count_undamped(&mut self, tasks: &[TaskView]) -> u64 {
        let mut by_job: BTreeMap<JobId, (u64, u64)> = BTreeMap::new();
        for TaskView { job, counters, .. } in tasks {
            let counts =
                counters.get(CounterEvent::LlcMisses).zip(counters.get(CounterEvent::Instructions));
            let Some((misses, instructions)) = counts else { continue };
            let sum = by_job.entry(*job).or_default();
            *sum = (sum.0 + misses, sum.1 + instructions);
        }
        let rank = |(job, (misses, instructions)): (&JobId, &(u64, u64))| {
            let mpki = (misses * 1000 + instructions / 2).checked_div(*instructions)?;
            Some((Reverse(mpki), *job))
        };
        let ranked: BTreeSet<(Reverse<u64>, JobId)> = by_job.iter().filter_map(rank).collect();
        let mut n_changed = 0;
        for (rank, (_, job)) in ranked.into_iter().enumerate() {
            let cache = rank % self.n_caches.max(1);
            let before = self.cache_of_job.insert(job, cache);
            n_changed += u64::from(before.is_some_and(|before| before != cache));
        }
        n_changed
    }

    /// Counts the periods after the end of Group 2, and those in which tasks of Group 1 run on several nodes.
    fn count_nodes_of_group_1(&mut self, record: &TurnRecord<'_>) {
        let reacted_at = self.group_2_ended_at.map(|ended| ended + self.period + self.period);
        if reacted_at.is_none_or(|at| record.turn.at < at) {
            return;
        }
        let group_1 =
            record.sample.tasks.iter().filter(|task| self.groups.get(&task.job) == Some(&1));
        let nodes = group_1.filter_map(|task| self.node_of_cpu.get(&task.last_cpu?));
        let nodes: Vec<usize> = nodes.copied().collect();
        if 2 <= nodes.len() {
            self.observation.n_periods += 1;
            self.observation.n_on_several_nodes +=
                u64::from(nodes.iter().any(|node| *node != nodes[0]));
        }
    }

    fn read_ends(&mut self, record: &TurnRecord<'_>) {
        for event in &record.sample.jobs {
            let JobEvent::Ended(job, _) = event else { continue };
            self.observation.whole.time = record.turn.at;
            if !self.has_job_ended {
                self.observation.steady.time = record.turn.at.saturating_sub(STEADY_FROM);
            }
            self.has_job_ended = true;
            if self.running_group_2.remove(job) && self.running_group_2.is_empty() {
                self.group_2_ended_at = Some(record.turn.at);
            }
        }
    }
}

impl Sink for RunObserver {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        self.operations.record(record);
        let mut counts = self.count_actions(record);
        self.read_ends(record);
        if record.turn.causes.contains(&Cause::Interval) {
            self.add_rates(record.tasks);
            counts.n_undamped = self.count_undamped(record.tasks);
            self.count_nodes_of_group_1(record);
        }
        self.observation.whole.add(&counts);
        if STEADY_FROM <= record.turn.at && !self.has_job_ended {
            self.observation.steady.add(&counts);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use base::CpuSet;
    use sched::{Cause, Outcome, Plan, Reason, ReasonCode, Sample, Turn};

    use super::*;

    fn observer() -> RunObserver {
        RunObserver::new(&Machine::synthetic("nodes=2 cores=2").expect("a valid machine"), &[])
    }

    /// Records a turn in which the policy requests this action of job 0, with its outcome if the action has a result.
    fn turn(
        observer: &mut RunObserver,
        second: u64,
        action: &Action,
        result: Option<OutcomeResult>,
    ) {
        let mut plan = Plan::default();
        plan.request(JobId(0), action.clone(), Reason::new(ReasonCode::new("test", "a test")));
        let outcome =
            |result| Outcome { target: JobId(0).into(), action: Some(action.clone()), result };
        let outcomes: Vec<Outcome> = result.map(outcome).into_iter().collect();
        let at = Nanos::from_secs(second);
        let turn = Turn { number: second, at, causes: vec![Cause::Interval] };
        let record = TurnRecord {
            turn: &turn,
            sample: &Sample::default(),
            tasks: &[],
            loads: None,
            load_basis: None,
            signals: None,
            plan: &plan,
            rejected: &[],
            outcomes: &outcomes,
        };
        observer.record(&record).expect("an observer reports no error");
    }

    fn pages_to(node: u32) -> Action {
        Action::MovePages { from: None, to: NodeId(node), limit: Action::NO_LIMIT }
    }

    #[test]
    fn a_request_that_is_repeated_until_it_starts_counts_once() {
        let mut observer = observer();
        for second in 1..=9 {
            let started = (second == 9).then_some(OutcomeResult::InProgress);
            turn(&mut observer, second, &pages_to(1), started);
        }
        turn(&mut observer, 10, &pages_to(0), None);
        let counts = &observer.observation.whole;
        assert_eq!((counts.n_requested, counts.n_started[&JobId(0)]), (2, 1));
    }

    #[test]
    fn actions_of_the_first_seconds_are_not_steady() {
        let mut observer = observer();
        for second in [5, 19, 20, 30] {
            let node = u32::from(second % 10 == 0);
            turn(&mut observer, second, &pages_to(node), Some(OutcomeResult::InProgress));
        }
        let Observation { whole, steady, .. } = &observer.observation;
        assert_eq!((whole.n_started[&JobId(0)], steady.n_started[&JobId(0)]), (4, 2));
    }

    #[test]
    fn a_rate_of_a_part_without_length_is_zero() {
        let counts = ActionCounts { time: Nanos::from_secs(1800), ..ActionCounts::default() };
        assert_eq!((counts.per_hour(3), ActionCounts::default().per_hour(3)), (6.0, 0.0));
    }

    #[test]
    fn the_first_placement_of_a_job_is_not_a_placement_of_a_running_job() {
        let mut observer = observer();
        for second in 0..2 {
            let action = Action::Place(CpuSet::from_iter([CpuId(second as u32)]));
            turn(&mut observer, second, &action, Some(OutcomeResult::Done { n: 1 }));
        }
        assert_eq!(observer.observation.whole.n_placed, 1);
    }
}
