//! Waiting for threads, one by one, and refused calls. Whole CPUs: `tests/promises/live/wakes.rs`.

use engine::{Engine, Host};
use linux::fault;
use sched::{Cause, Plan, Policy, Snapshot};

use super::*;
use crate::LiveOptions;

/// Wants turns, and nothing done in them.
struct Idle;

impl Policy for Idle {
    fn decide(&mut self, _: &Snapshot<'_>, _: &mut Plan) {}

    fn name(&self) -> &str {
        "idle"
    }

    fn interval(&self) -> Option<Nanos> {
        Some(Nanos::from_millis(20))
    }
}

/// The causes of turns of a run of one job until `enough` of them, page faults of its threads waited
/// for; `None` where they cannot be counted.
fn turns_of(shell: &str, every: u64, enough: usize) -> Option<Vec<(Nanos, Vec<Cause>)>> {
    let folder = tempfile::tempdir().expect("a folder");
    let text = format!("[[job]]\nname = \"a\"\nshell = '{shell}'\n");
    let workload = program::parse(&text, &folder.path().join("a.toml")).expect("a workload");
    let machine = linux::topology::read("/".as_ref()).expect("this machine");
    let options = LiveOptions {
        interval: Idle.interval(),
        output_dir: folder.path().to_owned(),
        takes_signals: false,
        is_sole_parent: false,
        undo_folders: Some(vec![folder.path().join("state")]),
        ..LiveOptions::default()
    };
    let mut engine = Engine::new(machine.clone(), workload.jobs.clone(), Box::new(Idle));
    let mut host = LiveHost::new(workload, &machine, options).expect("a host");
    match Overflow::of_threads(CounterEvent::PageFaults, every) {
        Ok(overflow) => host.overflow = Some(overflow),
        Err(why) => {
            println!("not run: {why}");
            return None;
        }
    }
    let overflow = host.overflow.as_ref().expect("just set");
    host.wakes.watch_overflows(&overflow.counters).expect("watched");
    let mut turns = Vec::new();
    while turns.len() < enough {
        let turn = host.wait().expect("it lives").expect("the job goes on");
        let sample = host.sample(&turn).expect("it lives");
        let step = engine.step(&turn, &sample);
        let outcomes = host.apply(&step.approved);
        engine.record_outcomes(&outcomes);
        assert!(host.overflow.is_some(), "{:?}", host.pending.degraded);
        turns.push((turn.at, turn.causes));
    }
    host.stop();
    while let Some(turn) = host.wait().expect("it lives") {
        let sample = host.sample(&turn).expect("it lives");
        let step = engine.step(&turn, &sample);
        engine.record_outcomes(&host.apply(&step.approved));
    }
    Some(turns)
}

const OVERFLOW: [Cause; 2] = [Cause::Interval, Cause::Overflow];

#[test]
fn a_thread_that_faults_brings_turns_about_and_one_that_does_not_only_the_last_there_may_be() {
    // Each child that a shell starts makes it fault anew on the pages that it writes.
    let Some(busy) = turns_of("while :; do (:); done", 50, 6) else { return };
    // Not of all turns: on a crowded machine the shell may not get to run for two seconds.
    let n_overflows = busy.iter().filter(|(_, causes)| *causes == OVERFLOW).count();
    assert!(3 <= n_overflows, "{busy:?}");
    let ticks: Vec<u64> = busy[1..].iter().map(|(at, _)| at.0 / 20_000_000).collect();
    assert!(ticks.is_sorted_by(|a, b| a < b), "never twice in an interval: {busy:?}");
    let calm = turns_of("while :; do :; done", 1_000_000, 2).expect("it was counted before");
    assert_eq!(calm[1].1, [Cause::Interval], "{calm:?}");
    assert!(Nanos::from_millis(1900) < calm[1].0, "{calm:?}");
}

#[test]
fn a_refusal_is_said_in_words_and_there_is_a_turn_in_every_interval() {
    let wakes = Wakes::new(false).expect("a set");
    let cpus = linux::affinity::get(0).expect("ours");
    let wish = Wake::Overflow { event: CounterEvent::PageFaults, every: 1000 };
    let mut n_refused = 0;
    for seed in 0..100 {
        let asked = fault::FaultPlan { seed, permille: 200 };
        let opened = fault::with_errors(asked, || Overflow::open(wish, &cpus, &wakes));
        if let Err(why) = opened {
            n_refused += 1;
            let start = "there is a turn in every interval: page-faults cannot wake us: ";
            assert!(why.starts_with(start) && !why.contains('\n'), "{why}");
        }
    }
    assert!(0 < n_refused);
    assert!(matches!(Overflow::open(Wake::Poll, &cpus, &wakes), Ok(None)));
}

#[test]
fn what_this_processor_does_not_count_is_polled() {
    let mut source = Live::new("/".as_ref());
    let user_only = Flags { user_only: true, ..Flags::default() };
    let why =
        attrs(&mut source, CounterEvent::ContextSwitches, user_only).expect_err("kernel only");
    assert!(why.contains("set perf_event_paranoid to 1 or less"), "{why}");
    let page_faults = attrs(&mut source, CounterEvent::PageFaults, user_only).expect("everywhere");
    assert_eq!(page_faults.len(), 1);
}
