//! Turns that counter overflows trigger. Without counters a run polls, and these tests are skipped.

use base::Nanos;
use sched::{Cause, CounterEvent, Wake};
use tests::live_run::LiveRun;

/// A number of events that no machine counts during a test.
const NEVER: u64 = 1_000_000_000_000;

fn run_with(event: CounterEvent, every: u64, text: &str) -> LiveRun {
    LiveRun::with(text, |options| options.wake = Wake::Overflow { event, every })
}

/// Runs this shell script with a turn after every `every` page faults on a CPU. Returns `None` if counters are
/// unavailable.
fn page_fault_run(every: u64, shell: &str) -> Option<LiveRun> {
    let text = format!("[[job]]\nname = \"a\"\nshell = \"{shell}\"\n");
    let mut run = run_with(CounterEvent::PageFaults, every, &text);
    assert!(run.step(), "the job is due");
    let polls = |text: &&String| text.starts_with("polling in every interval");
    if let Some(cause) = run.warnings().find(polls) {
        println!("skipped: {cause}");
        return None;
    }
    Some(run)
}

/// Returns the time of each interval turn, and whether a counter overflow caused the turn.
fn interval_turns(run: &LiveRun) -> Vec<(Nanos, bool)> {
    let turns = run.turns.iter().map(|turn| &turn.turn);
    turns
        .filter(|turn| turn.causes.contains(&Cause::Interval))
        .map(|turn| (turn.at, turn.causes.contains(&Cause::Overflow)))
        .collect()
}

#[test]
fn overflows_trigger_at_most_one_turn_per_interval() {
    let Some(mut run) = page_fault_run(20, "while :; do (:); done") else { return };
    run.until("ten overflows", |run| {
        10 <= interval_turns(run).iter().filter(|(_, overflowed)| *overflowed).count()
    });
    let ticks: Vec<u64> =
        interval_turns(&run).iter().map(|(at, _)| at.0 / Nanos::from_millis(20).0).collect();
    assert!(ticks.is_sorted_by(|a, b| a < b), "{ticks:?}");
    run.stop();
}

#[test]
fn without_overflows_there_is_one_turn_in_two_seconds() {
    let Some(mut run) = page_fault_run(NEVER, "while :; do :; done") else { return };
    run.until("two turns", |run| 2 <= interval_turns(run).len());
    let turns = interval_turns(&run);
    assert!(turns.iter().all(|(_, overflowed)| !overflowed), "{turns:?}");
    assert!(Nanos::from_millis(1900) < turns[0].0, "{turns:?}");
    assert!(Nanos::from_millis(1000) < turns[1].0 - turns[0].0, "{turns:?}");
    run.stop();
}

#[test]
fn starts_and_exits_of_jobs_trigger_turns_without_overflows() {
    let text = "[[job]]\nname = \"a\"\nshell = \":\"\n[[job]]\nname = \"b\"\nstart = 0.05\nshell = \":\"\n";
    let mut run = run_with(CounterEvent::PageFaults, NEVER, text);
    run.finish();
    assert_eq!((run.exits("a").len(), run.exits("b").len()), (1, 1));
    let has = |cause| run.turns.iter().any(|turn| turn.turn.causes.contains(&cause));
    assert!(has(Cause::JobsDue) && has(Cause::Ended));
}

#[test]
fn an_event_that_cannot_be_counted_is_reported_once_and_the_run_polls() {
    let text = "[[job]]\nname = \"a\"\nshell = \"while :; do :; done\"\n";
    let mut run = run_with(CounterEvent::Cycles, NEVER, text);
    assert!(run.step());
    let n_reported = |run: &LiveRun| {
        let is_warning = |text: &&String| text.contains("overflows of cycles cannot be counted: ");
        run.warnings().filter(is_warning).count()
    };
    if n_reported(&run) == 0 {
        println!("skipped: cycles can be counted on this processor");
    } else {
        run.until("turns", |run| 10 <= interval_turns(run).len());
        assert_eq!(n_reported(&run), 1);
        assert!(interval_turns(&run).iter().all(|(_, overflowed)| !overflowed));
    }
    run.stop();
}
