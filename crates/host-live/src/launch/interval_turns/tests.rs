//! Overflows of single threads, and failed system calls. Whole CPUs are tested in `tests/promises/live/wake_ups.rs`.

use engine::{Engine, Host};
use linux::fault;
use sched::{Cause, Plan, Policy, Snapshot};

use super::*;
use crate::{LaunchHost, LaunchOptions, StandardStreams};

/// A policy that requests turns and no actions.
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

/// Returns the times and causes of the first `enough` turns of a run of one job. Page faults of the threads of the job
/// cause the overflows. Returns `None` if page faults cannot be counted.
fn turns_of(shell: &str, every: u64, enough: usize) -> Option<Vec<(Nanos, Vec<Cause>)>> {
    let dir = tempfile::tempdir().expect("a directory");
    let text = format!("[[job]]\nname = \"a\"\nshell = '{shell}'\n");
    let workload = program::parse(&text, &dir.path().join("a.toml")).expect("a workload");
    let machine = linux::topology::read("/".as_ref()).expect("this machine");
    let options = LaunchOptions {
        interval: Idle.interval(),
        standard_streams: StandardStreams::in_dir(
            &files::OutputDir::create(dir.path(), files::ForeignDir::Reject).expect("a directory"),
        ),
        takes_signals: false,
        is_sole_parent: false,
        undo_dirs: Some(vec![dir.path().join("state")]),
        ..LaunchOptions::default()
    };
    let mut engine = Engine::new(machine.clone(), workload.jobs.clone(), Box::new(Idle));
    let mut host = LaunchHost::new(workload, &machine, options).expect("a host");
    match Overflow::open_for_threads(CounterEvent::PageFaults, every) {
        Ok(overflow) => host.turns.overflow = Some(overflow),
        Err(cause) => {
            println!("not run: {cause}");
            return None;
        }
    }
    let overflow = host.turns.overflow.as_ref().expect("just set");
    host.session.wakeups.watch_overflows(&overflow.counters).expect("watched");
    let mut turns = Vec::new();
    while turns.len() < enough {
        let turn = host.wait().expect("no error").expect("the job is running");
        let sample = host.sample(&turn).expect("no error");
        let step = engine.step(&turn, &sample);
        let outcomes = host.apply(&step.approved);
        engine.record_outcomes(&outcomes);
        assert!(host.turns.overflow.is_some(), "{:?}", host.session.turn.pending.degraded);
        turns.push((turn.at, turn.causes));
    }
    host.stop();
    while let Some(turn) = host.wait().expect("no error") {
        let sample = host.sample(&turn).expect("no error");
        let step = engine.step(&turn, &sample);
        engine.record_outcomes(&host.apply(&step.approved));
    }
    Some(turns)
}

const OVERFLOW: [Cause; 2] = [Cause::Interval, Cause::Overflow];

#[test]
fn page_faults_cause_turns_and_a_job_without_page_faults_has_a_turn_every_two_seconds() {
    // After each fork, the shell has page faults on the pages that it writes.
    let Some(busy) = turns_of("while :; do (:); done", 50, 6) else { return };
    // Some turns may have no overflow: on a busy machine the shell may not run for two seconds.
    let n_overflows = busy.iter().filter(|(_, causes)| *causes == OVERFLOW).count();
    assert!(3 <= n_overflows, "{busy:?}");
    let interval_numbers: Vec<u64> = busy[1..].iter().map(|(at, _)| at.0 / 20_000_000).collect();
    assert!(interval_numbers.is_sorted_by(|a, b| a < b), "never twice in an interval: {busy:?}");
    let quiet = turns_of("while :; do :; done", 1_000_000, 2).expect("it was counted before");
    assert_eq!(quiet[1].1, [Cause::Interval], "{quiet:?}");
    assert!(Nanos::from_millis(1900) < quiet[1].0, "{quiet:?}");
}

#[test]
fn after_a_failed_call_one_warning_is_reported_and_every_interval_has_a_turn() {
    let wakeups = Wakeups::new(false, false).expect("an epoll instance");
    let cpus = linux::affinity::get(0).expect("the own mask");
    let wake = Wake::Overflow { event: CounterEvent::PageFaults, every: 1000 };
    let mut n_failed = 0;
    for seed in 0..100 {
        let plan = fault::FaultPlan { seed, permille: 200 };
        let opened = fault::with_errors(plan, || Overflow::open(wake, &cpus, &wakeups));
        if let Err(cause) = opened {
            n_failed += 1;
            let start = "polling in every interval: overflows of page-faults cannot be counted: ";
            assert!(cause.starts_with(start) && !cause.contains('\n'), "{cause}");
        }
    }
    assert!(0 < n_failed);
    assert!(matches!(Overflow::open(Wake::Poll, &cpus, &wakeups), Ok(None)));
}

#[test]
fn an_event_without_a_counter_has_no_attributes_and_a_hint() {
    let mut source = Live::new("/".as_ref());
    let user_only = Flags { user_only: true, ..Flags::default() };
    let cause =
        attrs(&mut source, CounterEvent::ContextSwitches, user_only).expect_err("kernel only");
    assert!(cause.contains("set perf_event_paranoid to 1 or less"), "{cause}");
    let page_faults = attrs(&mut source, CounterEvent::PageFaults, user_only).expect("everywhere");
    assert_eq!(page_faults.len(), 1);
}
