//! Decisions of policies over whole runs: engine, run loop and policy on a machine described by a few lines.
//!
//! ```text
//!   job hog class=9 from=0 work=2000 cpus=0-1    start and CPU time in milliseconds
//!   at 1000 usable 0,2-3                          usable CPUs from this time on
//! ```
//!
//! Every 250 ms, all jobs on a CPU receive equal shares of the CPU time. A job ends after its CPU time. Its class
//! determines the operations that the memory controller of its node counts. Without counters, loads are declared.

use std::io;

use base::{CpuId, CpuSet, JobId, Nanos, NodeId, TaskId};
use engine::{Approved, Engine, Host, Sink, TurnRecord};
use expect_test::{Expect, expect};
use program::{Class, Command, Job};
use sched::{
    Action, Cause, ExitStatus, JobEvent, JobExit, NodeSample, NumaSettings, Outcome, OutcomeResult,
    RawCounter, Sample, Target, TaskSample, Turn,
};
use topology::Machine;

/// Length of a turn.
const SLICE_MS: u64 = 250;

struct ToyMachine {
    machine: Machine,
    has_counters: bool,
    now_ms: u64,
    jobs: Vec<ToyJob>,
    changes: Vec<(u64, CpuSet)>,
    ops: Vec<u64>,
}

struct ToyJob {
    job: Job,
    from_ms: u64,
    work_ms: u64,
    used: Nanos,
    is_running: bool,
    has_ended: bool,
    cpu: CpuId,
}

impl Host for ToyMachine {
    type Error = String;

    fn wait(&mut self) -> Result<Option<Turn>, String> {
        let is_over = self.jobs.iter().all(|job| job.has_ended);
        if is_over {
            return Ok(None);
        }
        let at = Nanos::from_millis(self.now_ms);
        let causes = if self.now_ms == 0 { Cause::JobsDue } else { Cause::Interval };
        Ok(Some(Turn { number: self.now_ms / SLICE_MS, at, causes: vec![causes] }))
    }

    fn sample(&mut self, turn: &Turn) -> Result<Sample, String> {
        let first = turn.number == 0;
        let usable = self.changes.iter().find(|(at, _)| *at == self.now_ms);
        let mut sample = Sample {
            tasks: self.jobs.iter().filter(|job| job.is_running).map(ToyJob::sample).collect(),
            nodes: if self.has_counters { self.nodes() } else { Vec::new() },
            usable_cpus: usable.map(|(_, cpus)| cpus.clone()),
            numa_settings: first.then(NumaSettings::default),
            ..Sample::default()
        };
        for job in &mut self.jobs {
            if job.is_running && Nanos::from_millis(job.work_ms) <= job.used {
                (job.is_running, job.has_ended) = (false, true);
                sample.exited.push(job.task());
                sample.jobs.push(JobEvent::Ended(job.job.id, Box::new(end())));
            }
            if job.from_ms == self.now_ms {
                sample.jobs.push(JobEvent::Due(job.job.id));
            }
        }
        Ok(sample)
    }

    fn apply(&mut self, plan: &Approved) -> Vec<Outcome> {
        let done_outcome =
            |target, action| Outcome { target, action, result: OutcomeResult::Done { n: 1 } };
        let mut outcomes = Vec::new();
        for request in plan.requests() {
            let (Target::Job(id), Action::Place(cpus)) = (request.target, &request.action) else {
                continue;
            };
            self.jobs[id.index()].cpu = cpus.first().expect("the guard rejects empty sets");
            outcomes.push(done_outcome(request.target, Some(Action::Place(cpus.clone()))));
        }
        for job in self.jobs.iter_mut().filter(|job| job.from_ms == self.now_ms) {
            job.is_running = true;
            outcomes.push(done_outcome(Target::Job(job.job.id), None));
        }
        self.run_a_slice();
        outcomes
    }

    fn stop(&mut self) {
        self.jobs.iter_mut().for_each(|job| job.has_ended = true);
    }
}

impl ToyMachine {
    fn new(machine: &str, has_counters: bool, script: &str) -> Self {
        let machine = Machine::synthetic(machine).expect("a machine");
        let (mut jobs, mut changes) = (Vec::new(), Vec::new());
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["job", name, ref keys @ ..] => jobs.push(ToyJob::new(jobs.len(), name, keys)),
                ["at", at, "usable", cpus] => {
                    changes.push((at.parse().expect("a time"), cpus.parse().expect("CPUs")));
                }
                _ => panic!("{line}: neither a job nor a change"),
            }
        }
        let ops = vec![0; machine.nodes().len()];
        ToyMachine { machine, has_counters, now_ms: 0, jobs, changes, ops }
    }

    /// Divides the time of every CPU equally among the jobs of the CPU.
    fn run_a_slice(&mut self) {
        for at in 0..self.jobs.len() {
            let cpu = self.jobs[at].cpu;
            let n_there = self.jobs.iter().filter(|job| job.is_running && job.cpu == cpu).count();
            let job = &mut self.jobs[at];
            if job.is_running {
                let share = Nanos(Nanos::from_millis(SLICE_MS).0 / n_there as u64);
                job.used += share;
                let node = self.machine.cpu(cpu).and_then(|cpu| cpu.node).expect("a node");
                let class = job.job.class.unwrap_or_default();
                self.ops[node.index()] += class.controller_ops_per_ms() * share.0 / 1_000_000;
            }
        }
        self.now_ms += SLICE_MS;
    }

    fn nodes(&self) -> Vec<NodeSample> {
        let sample = |(idx, ops): (usize, &u64)| NodeSample {
            controller_ops: Some(RawCounter::unmultiplexed(*ops)),
            counter_bits: 64,
            ..NodeSample::new(NodeId(idx as u32))
        };
        self.ops.iter().enumerate().map(sample).collect()
    }
}

impl ToyJob {
    fn new(idx: usize, name: &str, keys: &[&str]) -> Self {
        let key = |name: &str| {
            let pairs = keys.iter().filter_map(|pair| pair.split_once('='));
            pairs.filter(|(key, _)| *key == name).map(|(_, value)| value).next()
        };
        let number = |name| key(name).map_or(0, |text| text.parse().expect("a number"));
        let job = Job {
            start: Nanos::from_millis(number("from")),
            class: key("class").and_then(|text| Class::new(text.parse().expect("a class"))),
            cpus: key("cpus").map(|text| text.parse().expect("CPUs")),
            ..Job::new(JobId(idx as u32), name, Command::Shell("true".to_owned()))
        };
        ToyJob {
            from_ms: number("from"),
            work_ms: number("work"),
            used: Nanos::ZERO,
            is_running: false,
            has_ended: false,
            cpu: CpuId(0),
            job,
        }
    }

    fn task(&self) -> TaskId {
        TaskId { tid: 100 + self.job.id.0, start_time_ticks: self.from_ms }
    }

    fn sample(&self) -> TaskSample {
        TaskSample {
            process: 100 + self.job.id.0,
            cpu_time: self.used,
            last_cpu: Some(self.cpu),
            ..TaskSample::new(self.task(), self.job.id)
        }
    }
}

fn end() -> JobExit {
    JobExit::new(ExitStatus::Exited(0), Nanos::ZERO)
}

/// Logs actions, notes and exits.
struct Log {
    names: Vec<String>,
    text: String,
}

impl Sink for Log {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        let at = record.turn.at.0 / 1_000_000;
        let name = |id: JobId| &self.names[id.index()];
        let mut text = String::new();
        for event in &record.sample.jobs {
            if let JobEvent::Ended(id, _) = event {
                text += &format!("{at} {} ends\n", name(*id));
            }
        }
        for note in &record.plan.notes {
            text += &format!("{at} note {}\n", note.code.name());
        }
        for outcome in record.outcomes {
            if let (Target::Job(id), Some(Action::Place(cpus))) = (outcome.target, &outcome.action)
            {
                let request =
                    record.plan.requests.iter().find(|request| request.target == outcome.target);
                let cause = request.expect("every outcome has a request").reason.code.name();
                text += &format!("{at} {} on {cpus} because {cause}\n", name(id));
            }
        }
        assert!(record.rejected.is_empty(), "{:?}", record.rejected);
        self.text += &text;
        Ok(())
    }
}

fn run(machine: &str, has_counters: bool, policy: &str, script: &str) -> String {
    let mut host = ToyMachine::new(machine, has_counters, script);
    let jobs: Vec<Job> = host.jobs.iter().map(|job| job.job.clone()).collect();
    let mut log =
        Log { names: jobs.iter().map(|job| job.name.clone()).collect(), text: String::new() };
    let policy = policy::build(policy, 1).expect("a policy");
    let mut engine = Engine::new(host.machine.clone(), jobs, policy);
    engine::run(&mut host, &mut engine, &mut [&mut log]).expect("the test host has no errors");
    log.text
}

fn check(machine: &str, has_counters: bool, policy: &str, script: &str, expected: Expect) {
    let text = run(machine, has_counters, policy, script);
    expected.assert_eq(&text);
    assert_eq!(text, run(machine, has_counters, policy, script), "the same run has another log");
}

/// With the start rule `plain`, both memory-hungry jobs start on one node.
const TWO_HOGS_AND_TWO_OTHERS: &str = "
    job hog1 class=9 from=0 work=1500
    job hog2 class=9 from=0 work=1500
    job calm1 class=1 from=0 work=1500
    job calm2 class=1 from=0 work=1500
";

#[test]
fn two_memory_hungry_jobs_on_one_node_are_separated_at_the_first_sample_and_stay() {
    let policy = "dfs[start=plain]";
    check(
        "nodes=2 cores=2",
        true,
        policy,
        TWO_HOGS_AND_TWO_OTHERS,
        expect![[r#"
            0 hog1 on 0 because lowest-number
            0 hog2 on 1 because lowest-number
            0 calm1 on 0 because lowest-number
            0 calm2 on 1 because lowest-number
            250 hog1 on 2 because load-uneven
            1750 hog1 ends
            1750 calm1 ends
            2000 hog2 on 2 because load-uneven
            2500 hog2 ends
            2500 calm2 ends
        "#]],
    );
}

#[test]
fn without_counters_the_declared_loads_give_the_same_move() {
    let policy = "dfs[start=plain]";
    check(
        "nodes=2 cores=2",
        false,
        policy,
        TWO_HOGS_AND_TWO_OTHERS,
        expect![[r#"
            0 hog1 on 0 because lowest-number
            0 hog2 on 1 because lowest-number
            0 calm1 on 0 because lowest-number
            0 calm2 on 1 because lowest-number
            250 note loads-declared
            250 hog1 on 2 because load-uneven
            1750 hog1 ends
            1750 calm1 ends
            2000 hog2 on 2 because load-uneven
            2500 hog2 ends
            2500 calm2 ends
        "#]],
    );
}

#[test]
fn on_a_machine_with_one_node_cores_are_balanced() {
    let policy = "dfs[start=plain]";
    check(
        "nodes=1 cores=2",
        false,
        policy,
        TWO_HOGS_AND_TWO_OTHERS,
        expect![[r#"
            0 note memory-gains-nothing
            0 hog1 on 0 because lowest-number
            0 hog2 on 0 because lowest-number
            0 calm1 on 0 because lowest-number
            0 calm2 on 0 because lowest-number
            250 note loads-declared
            250 hog1 on 1 because load-uneven
            1750 hog1 ends
            2000 hog2 on 1 because load-uneven
            3000 hog2 ends
            3750 calm1 ends
            3750 calm2 ends
        "#]],
    );
}

#[test]
fn jobs_that_start_on_separate_nodes_are_not_moved() {
    check(
        "nodes=2 cores=2",
        true,
        "dfs",
        TWO_HOGS_AND_TWO_OTHERS,
        expect![[r#"
        0 hog1 on 0 because lowest-number
        0 hog2 on 2 because fewest-jobs
        0 calm1 on 1 because lowest-number
        0 calm2 on 3 because fewest-jobs
        1500 hog1 ends
        1500 hog2 ends
        1500 calm1 ends
        1500 calm2 ends
    "#]],
    );
}

#[test]
fn a_late_job_starts_on_the_node_with_the_lowest_load() {
    check(
        "nodes=2 cores=2",
        true,
        "dfs",
        "
        job calm class=1 from=0 work=3000
        job hog class=9 from=0 work=1000
        job late class=9 from=500 work=1000
        job later class=1 from=1500 work=500
        ",
        expect![[r#"
            0 calm on 0 because lowest-number
            0 hog on 2 because fewest-jobs
            500 late on 1 because least-load
            1000 hog ends
            1250 late on 2 because load-uneven
            1500 late ends
            1500 later on 1 because least-load
            2000 later ends
            3000 calm ends
        "#]],
    );
}

#[test]
fn jobs_of_a_node_that_goes_offline_are_placed_again() {
    let script = format!("{TWO_HOGS_AND_TWO_OTHERS}at 500 usable 0-1\nat 1000 usable 0-3");
    check(
        "nodes=2 cores=2",
        true,
        "dfs",
        &script,
        expect![[r#"
            0 hog1 on 0 because lowest-number
            0 hog2 on 2 because fewest-jobs
            0 calm1 on 1 because lowest-number
            0 calm2 on 3 because fewest-jobs
            500 note domains-changed
            500 note loads-declared
            500 hog2 on 1 because cpus-unusable
            500 calm2 on 0 because cpus-unusable
            1000 note domains-changed
            1000 hog1 on 2 because load-uneven
            1750 hog1 ends
            1750 calm2 ends
            2000 hog2 on 2 because load-uneven
            2250 hog2 ends
            2250 calm1 ends
        "#]],
    );
    check(
        "nodes=2 cores=2",
        true,
        "spread",
        &script,
        expect![[r#"
        0 hog1 on 0 because round-robin
        0 hog2 on 2 because round-robin
        0 calm1 on 1 because round-robin
        0 calm2 on 3 because round-robin
        500 hog2 on 0 because cpus-unusable
        500 calm2 on 1 because cpus-unusable
        2500 hog1 ends
        2500 hog2 ends
        2500 calm1 ends
        2500 calm2 ends
    "#]],
    );
}

#[test]
fn an_empty_plan_changes_nothing() {
    check(
        "nodes=2 cores=2",
        true,
        "linux",
        TWO_HOGS_AND_TWO_OTHERS,
        expect![[r#"
        6000 hog1 ends
        6000 hog2 ends
        6000 calm1 ends
        6000 calm2 ends
    "#]],
    );
}
