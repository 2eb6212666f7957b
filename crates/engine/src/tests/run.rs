//! Tests of the loop over a host, an engine and sinks.

use std::collections::VecDeque;
use std::io;

use base::Nanos;
use sched::{Cause, Outcome, Plan, Policy, Reason, ReasonCode, Sample, SignalTier, Snapshot, Turn};
use topology::Machine;

use crate::{Approved, Engine, Host, RunError, RunSummary, Sink, TurnRecord, run};

/// A host with a fixed number of turns, and two further turns after a stop.
struct Turns {
    remaining: VecDeque<u64>,
    calls: Vec<String>,
    fails_at: Option<u64>,
}

impl Host for Turns {
    type Error = String;

    fn wait(&mut self) -> Result<Option<Turn>, String> {
        let Some(number) = self.remaining.pop_front() else { return Ok(None) };
        self.calls.push(format!("wait {number}"));
        if self.fails_at == Some(number) {
            return Err("the host failed".to_owned());
        }
        Ok(Some(Turn { number, at: Nanos(number), causes: vec![Cause::Interval] }))
    }

    fn sample(&mut self, turn: &Turn) -> Result<Sample, String> {
        self.calls.push(format!("sample {}", turn.number));
        Ok(Sample::default())
    }

    fn apply(&mut self, plan: &Approved) -> Vec<Outcome> {
        self.calls.push(format!("apply {}", plan.requests().len()));
        Vec::new()
    }

    fn stop(&mut self) {
        self.calls.push("stop".to_owned());
        self.remaining = VecDeque::from([90, 91]);
    }
}

/// A policy that aborts in one turn, and fails the test if it is called after that.
struct Aborting {
    at: Option<u64>,
}

impl Policy for Aborting {
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        assert!(self.at.is_none_or(|at| snapshot.turn.number <= at), "called after the abort");
        if self.at == Some(snapshot.turn.number) {
            plan.abort = Some(
                Reason::new(ReasonCode::new(
                    "unreadable",
                    "the memory controller counters were unreadable {n_failures} times in a row",
                ))
                .with("n_failures", 4),
            );
        }
    }

    fn name(&self) -> &str {
        "aborting"
    }

    fn interval(&self) -> Option<Nanos> {
        None
    }
}

/// A sink that stores the numbers of recorded turns and of turns with changed tiers, and fails in one turn.
#[derive(Default)]
struct RecordedTurns {
    turns: Vec<u64>,
    tier_changes: Vec<(u64, SignalTier)>,
    fails_at: Option<u64>,
}

impl Sink for RecordedTurns {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        let number = record.turn.number;
        self.turns.push(number);
        self.tier_changes.extend(record.signals.map(|tiers| (number, tiers.loads)));
        match self.fails_at == Some(number) {
            true => Err(io::Error::other("the disk is full")),
            false => Ok(()),
        }
    }
}

struct RunTrace {
    result: Result<RunSummary, RunError<String>>,
    calls: String,
    recorded: [Vec<u64>; 2],
    tier_changes: Vec<(u64, SignalTier)>,
}

fn trace(
    aborts_at: Option<u64>,
    sink_fails_at: Option<u64>,
    host_fails_at: Option<u64>,
) -> RunTrace {
    let mut host =
        Turns { remaining: (0..4).collect(), calls: Vec::new(), fails_at: host_fails_at };
    let machine = Machine::synthetic("nodes=2").expect("a machine");
    let job = testkit::jobs(0, "a class=1");
    let mut engine = Engine::new(machine, job, Box::new(Aborting { at: aborts_at }));
    let (mut first, mut second) =
        (RecordedTurns { fails_at: sink_fails_at, ..Default::default() }, RecordedTurns::default());
    let result = run(&mut host, &mut engine, &mut [&mut first, &mut second]);
    let (calls, tier_changes) = (host.calls.join(", "), first.tier_changes);
    RunTrace { result, calls, recorded: [first.turns, second.turns], tier_changes }
}

#[test]
fn a_run_continues_until_the_host_has_no_more_turns() {
    let run = trace(None, None, None);
    assert_eq!(run.result.expect("no error"), RunSummary { n_turns: 4, at: Nanos(3) });
    assert!(run.calls.starts_with("wait 0, sample 0, apply 0, wait 1"), "{}", run.calls);
    assert_eq!(run.recorded, [vec![0, 1, 2, 3], vec![0, 1, 2, 3]]);
}

#[test]
fn after_an_abort_of_the_policy_the_host_stops_and_all_sinks_record_the_last_turns() {
    let run = trace(Some(1), None, None);
    let error = run.result.expect_err("the abort").to_string();
    assert_eq!(
        error,
        "the policy aborted: the memory controller counters were unreadable 4 times in a row"
    );
    assert!(run.calls.ends_with("stop, wait 90, sample 90, apply 0, wait 91, sample 91, apply 0"));
    assert_eq!(run.recorded, [vec![0, 1, 90, 91], vec![0, 1, 90, 91]]);
}

#[test]
fn after_an_error_of_a_sink_the_host_stops_and_the_other_sinks_record_the_last_turns() {
    let run = trace(None, Some(1), None);
    assert!(matches!(run.result, Err(RunError::Sink(_))));
    assert_eq!(run.calls.matches("stop").count(), 1);
    assert_eq!(run.recorded, [vec![0, 1], vec![0, 1, 90, 91]]);
}

#[test]
fn an_error_of_the_host_ends_the_run_immediately() {
    let run = trace(None, None, Some(2));
    assert!(matches!(run.result, Err(RunError::Host(text)) if text.contains("host")));
    assert_eq!(run.recorded, [vec![0, 1], vec![0, 1]]);
}

#[test]
fn tiers_are_recorded_only_in_turns_in_which_they_change() {
    assert_eq!(trace(None, None, None).tier_changes, [(0, SignalTier::Declared)]);
}
