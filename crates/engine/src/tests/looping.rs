//! The loop over a host, an engine and sinks.

use std::collections::VecDeque;
use std::io;

use base::Nanos;
use sched::{Cause, Outcome, Plan, Policy, Reason, ReasonCode, Sample, Snapshot, Turn};
use topology::Machine;

use crate::{Approved, Engine, Finish, Host, RunError, Sink, TurnRecord, run};

/// A host with some turns before it, and two more once it is told to stop.
struct Turns {
    left: VecDeque<u64>,
    did: Vec<String>,
    fails_at: Option<u64>,
}

impl Host for Turns {
    type Error = String;

    fn wait(&mut self) -> Result<Option<Turn>, String> {
        let Some(number) = self.left.pop_front() else { return Ok(None) };
        self.did.push(format!("wait {number}"));
        if self.fails_at == Some(number) {
            return Err("the machine is on fire".to_owned());
        }
        Ok(Some(Turn { number, at: Nanos(number), causes: vec![Cause::Interval] }))
    }

    fn sample(&mut self, turn: &Turn) -> Result<Sample, String> {
        self.did.push(format!("sample {}", turn.number));
        Ok(Sample::default())
    }

    fn apply(&mut self, plan: &Approved) -> Vec<Outcome> {
        self.did.push(format!("apply {}", plan.requests().len()));
        Vec::new()
    }

    fn stop(&mut self) {
        self.did.push("stop".to_owned());
        self.left = VecDeque::from([90, 91]);
    }
}

/// Gives up in one turn, and says so if it is asked again.
struct GivesUp {
    at: Option<u64>,
}

impl Policy for GivesUp {
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        assert!(self.at.is_none_or(|at| seen.turn.number <= at), "asked after giving up");
        if self.at == Some(seen.turn.number) {
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
        "gives-up"
    }

    fn interval(&self) -> Option<Nanos> {
        None
    }
}

/// Notes the turns that it is told of and fails in one.
#[derive(Default)]
struct Notes {
    turns: Vec<u64>,
    fails_at: Option<u64>,
}

impl Sink for Notes {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        self.turns.push(record.turn.number);
        match self.fails_at == Some(record.turn.number) {
            true => Err(io::Error::other("the disk is full")),
            false => Ok(()),
        }
    }
}

struct Ran {
    result: Result<Finish, RunError<String>>,
    did: String,
    told: [Vec<u64>; 2],
}

fn ran(gives_up_at: Option<u64>, sink_fails_at: Option<u64>, host_fails_at: Option<u64>) -> Ran {
    let mut host = Turns { left: (0..4).collect(), did: Vec::new(), fails_at: host_fails_at };
    let machine = Machine::synthetic("nodes=2").expect("a machine");
    let mut engine = Engine::new(machine, Vec::new(), Box::new(GivesUp { at: gives_up_at }));
    let (mut first, mut second) =
        (Notes { fails_at: sink_fails_at, ..Notes::default() }, Notes::default());
    let result = run(&mut host, &mut engine, &mut [&mut first, &mut second]);
    Ran { result, did: host.did.join(", "), told: [first.turns, second.turns] }
}

#[test]
fn a_run_goes_on_until_the_host_says_that_everything_is_over() {
    let ran = ran(None, None, None);
    assert_eq!(ran.result.expect("all is well"), Finish { n_turns: 4, at: Nanos(3) });
    assert!(ran.did.starts_with("wait 0, sample 0, apply 0, wait 1"), "{}", ran.did);
    assert_eq!(ran.told, [vec![0, 1, 2, 3], vec![0, 1, 2, 3]]);
}

#[test]
fn when_the_policy_gives_up_the_host_ends_everything_and_the_sinks_hear_of_it() {
    let ran = ran(Some(1), None, None);
    let error = ran.result.expect_err("it gave up").to_string();
    assert_eq!(
        error,
        "the policy gave up: the memory controller counters were unreadable 4 times in a row"
    );
    assert!(ran.did.ends_with("stop, wait 90, sample 90, apply 0, wait 91, sample 91, apply 0"));
    assert_eq!(ran.told, [vec![0, 1, 90, 91], vec![0, 1, 90, 91]]);
}

#[test]
fn when_a_sink_fails_the_host_ends_everything_and_the_other_sinks_hear_of_it() {
    let ran = ran(None, Some(1), None);
    assert!(matches!(ran.result, Err(RunError::Sink(_))));
    assert_eq!(ran.did.matches("stop").count(), 1);
    assert_eq!(ran.told, [vec![0, 1], vec![0, 1, 90, 91]]);
}

#[test]
fn when_the_host_fails_there_is_nothing_to_go_on_with() {
    let ran = ran(None, None, Some(2));
    assert!(matches!(ran.result, Err(RunError::Host(text)) if text.contains("fire")));
    assert_eq!(ran.told, [vec![0, 1], vec![0, 1]]);
}
