//! Turns that counters bring about. Where nothing can be counted a run polls, and these do not run.

use base::Nanos;
use sched::{Cause, CounterEvent, Wake};

use super::play::Play;

/// A run that waits for so many page faults on one CPU; `None` where that is refused here.
fn waits_for(every: u64, shell: &str) -> Option<Play> {
    let text = format!("[[job]]\nname = \"a\"\nshell = \"{shell}\"\n");
    let mut play = Play::with(&text, |options| {
        options.wake = Wake::Overflow { event: CounterEvent::PageFaults, every };
    });
    assert!(play.step(), "the job is due");
    let polls = |text: &&String| text.starts_with("turns are taken in every interval");
    if let Some(why) = play.story[0].sample.degraded.iter().find(polls) {
        println!("not run: {why}");
        return None;
    }
    Some(play)
}

/// Interval turns, and whether an overflow was the cause.
fn interval_turns(play: &Play) -> Vec<(Nanos, bool)> {
    let turns = play.story.iter().map(|scene| &scene.turn);
    turns
        .filter(|turn| turn.causes.contains(&Cause::Interval))
        .map(|turn| (turn.at, turn.causes.contains(&Cause::Overflow)))
        .collect()
}

#[test]
fn a_job_that_faults_brings_turns_about_once_an_interval_at_most() {
    let Some(mut play) = waits_for(20, "while :; do (:); done") else { return };
    play.until("ten overflows", |play| {
        10 <= interval_turns(play).iter().filter(|(_, overflowed)| *overflowed).count()
    });
    let ticks: Vec<u64> =
        interval_turns(&play).iter().map(|(at, _)| at.0 / Nanos::from_millis(20).0).collect();
    assert!(ticks.is_sorted_by(|a, b| a < b), "{ticks:?}");
    play.host_stop();
    play.finish();
}

#[test]
fn where_nothing_overflows_there_is_a_turn_in_two_seconds_and_not_a_hundred() {
    // More page faults than a machine makes in a test, whoever else is busy on it.
    let Some(mut play) = waits_for(1_000_000_000_000, "while :; do :; done") else { return };
    play.until("two turns", |play| 2 <= interval_turns(play).len());
    let turns = interval_turns(&play);
    assert!(turns.iter().all(|(_, overflowed)| !overflowed), "{turns:?}");
    assert!(Nanos::from_millis(1900) < turns[0].0, "{turns:?}");
    assert!(Nanos::from_millis(1000) < turns[1].0 - turns[0].0, "{turns:?}");
    play.host_stop();
    play.finish();
}

#[test]
fn jobs_that_come_and_go_have_their_turns_at_once_all_the_same() {
    let text = "[[job]]\nname = \"a\"\nshell = \":\"\n[[job]]\nname = \"b\"\nstart = 0.05\nshell = \":\"\n";
    let mut play = Play::with(text, |options| {
        options.wake = Wake::Overflow { event: CounterEvent::PageFaults, every: 1_000_000_000_000 };
    });
    play.finish();
    assert_eq!((play.ends("a").len(), play.ends("b").len()), (1, 1));
    let has = |cause| play.story.iter().any(|scene| scene.turn.causes.contains(&cause));
    assert!(has(Cause::JobsDue) && has(Cause::Ended));
}

#[test]
fn what_is_counted_nowhere_here_is_polled_and_said_once() {
    let text = "[[job]]\nname = \"a\"\nshell = \"while :; do :; done\"\n";
    let mut play = Play::with(text, |options| {
        options.wake = Wake::Overflow { event: CounterEvent::Cycles, every: 1_000_000_000_000 };
    });
    assert!(play.step());
    let said = |play: &Play| {
        let all = play.story.iter().flat_map(|scene| &scene.sample.degraded);
        all.filter(|text| text.contains("overflows of cycles cannot be used: ")).count()
    };
    if said(&play) == 0 {
        println!("not run: this processor's cycles can be counted");
    } else {
        play.until("turns", |play| 10 <= interval_turns(play).len());
        assert_eq!(said(&play), 1);
        assert!(interval_turns(&play).iter().all(|(_, overflowed)| !overflowed));
    }
    play.host_stop();
    play.finish();
}
