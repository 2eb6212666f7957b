//! What jobs used, as it is told while they run and when they end.

use base::Nanos;
use host_live::CounterMode;
use sched::CounterEvent;

use super::play::Play;

#[test]
fn what_short_children_used_is_the_load_of_their_job() {
    // A shell that uses hardly anything itself: its children live shorter than a turn.
    let mut play = Play::new(
        "[[job]]\nname = \"a\"\nshell = \"for i in 1 2 3 4 5 6 7 8 9 10 11 12; do \
         sh -c 'i=0; while [ $i -lt 15000 ]; do i=$((i+1)); done'; done; :\"\n",
    );
    play.finish();
    let end = &play.ends("a")[0];
    let used = end.user + end.system;
    let mut seen = std::collections::BTreeMap::new();
    for scene in &play.story {
        for task in &scene.sample.tasks {
            let most = seen.entry(task.task).or_insert(Nanos::ZERO);
            assert!(*most <= task.cpu_time, "what a task used never shrinks");
            *most = task.cpu_time;
        }
    }
    let told: u64 = seen.values().map(|time| time.0).sum();
    // The kernel tells whole ticks of children while the job runs, and all of it at the end.
    assert!(used.0 <= told && told <= used.0 + 20_000_000, "{told} ns told, {used:?} used");
}

#[test]
fn a_waiting_time_that_was_mostly_not_seen_is_not_told() {
    let mut play = Play::with(
        "[[job]]\nname = \"a\"\nshell = \"for i in 1 2 3 4 5 6; do \
         sh -c 'i=0; while [ $i -lt 15000 ]; do i=$((i+1)); done'; done; :\"\n\
         [[job]]\nname = \"b\"\nshell = \"i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done\"\n",
        |options| {
            options.interval = Some(Nanos::from_secs(600));
            options.counters = CounterMode::Off;
        },
    );
    play.finish();
    assert_eq!(play.ends("a")[0].wait, None);
    assert_eq!(play.ends("a")[0].n_migrations, None);
    assert!(play.ends("b")[0].wait.is_some());
    assert!(play.ends("b")[0].n_migrations.is_some());
}

#[test]
fn what_children_did_unseen_is_counted_at_the_end() {
    let mut play = Play::with(
        "[[job]]\nname = \"a\"\nshell = \"for i in 1 2 3 4 5 6 7 8 9; do sh -c :; done; :\"\n\
         [[job]]\nname = \"b\"\nshell = \":\"\n",
        |options| options.interval = Some(Nanos::from_secs(600)),
    );
    play.finish();
    let of =
        |job: &str, event| play.ends(job)[0].counters.get(event).expect("it was waited for").value;
    // Each shell maps some dozens of pages anew, and its parent waits for it.
    assert!(of("b", CounterEvent::PageFaults) + 9 * 20 < of("a", CounterEvent::PageFaults));
    assert!(of("b", CounterEvent::ContextSwitches) + 9 <= of("a", CounterEvent::ContextSwitches));
}

#[test]
fn who_slept_says_since_when_it_was_not_looked_at() {
    let mut play = Play::new("[[job]]\nname = \"a\"\nshell = \"sleep 0.5; while :; do :; done\"\n");
    let woke = |play: &Play| {
        let mut samples = play.story.iter().flat_map(|scene| &scene.sample.tasks);
        samples.any(|task| task.previous_sample_at.is_some())
    };
    play.until("the shell woke", woke);
    let (at, before) = play
        .story
        .iter()
        .flat_map(|scene| scene.sample.tasks.iter().map(move |task| (scene.turn.at, task)))
        .find_map(|(at, task)| Some((at, task.previous_sample_at?)))
        .expect("it was just seen");
    assert!(before < at && Nanos::from_millis(30) < at - before);
    play.host_stop();
    play.finish();
}

#[test]
fn while_nobody_runs_turns_are_left_out() {
    let mut play = Play::new("[[job]]\nname = \"a\"\ncommand = [\"sleep\", \"3\"]\n");
    play.rests.set(true);
    play.finish();
    // 150 at 20 ms if none were: a busy machine can only make them fewer.
    let quiet = |scene: &&super::play::Scene| scene.sample.tasks.is_empty();
    let n_quiet = play.story.iter().filter(quiet).count();
    assert!(n_quiet < 40, "{n_quiet} turns in which nobody ran");
    // Somebody who may start again is not forgotten for more than two seconds.
    let ats: Vec<Nanos> = play.story.iter().map(|scene| scene.turn.at).collect();
    assert!(2 < ats.len(), "{ats:?}");
}
