//! Resource usage of jobs, sampled while they run and reported when they exit.

use std::collections::BTreeMap;

use base::Nanos;
use host_live::CounterMode;
use sched::CounterEvent;
use tests::live_run::LiveRun;

#[test]
fn cpu_time_of_short_lived_children_counts_for_their_job() {
    // The shell itself uses almost no CPU time. Its children run for less than a turn.
    let mut run = LiveRun::shell(
        "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do \
         sh -c 'i=0; while [ $i -lt 15000 ]; do i=$((i+1)); done'; done; :",
    );
    run.finish();
    let end = run.exits("a")[0];
    let used = end.user + end.system;
    let mut sampled = BTreeMap::new();
    for task in run.tasks() {
        let cpu_time = sampled.entry(task.task).or_insert(Nanos::ZERO);
        assert!(*cpu_time <= task.cpu_time, "the CPU time of a task never decreases");
        *cpu_time = task.cpu_time;
    }
    let sum: u64 = sampled.values().map(|time| time.0).sum();
    // While the job runs, the kernel reports the CPU time of its children in whole ticks; at its exit, the exact time.
    assert!(used.0 <= sum && sum <= used.0 + 20_000_000, "{sum} ns sampled, {used:?} at the exit");
}

#[test]
fn a_wait_time_that_was_mostly_unsampled_is_absent() {
    let mut run = LiveRun::with(
        "[[job]]\nname = \"a\"\nshell = \"for i in 1 2 3 4 5 6; do \
         sh -c 'i=0; while [ $i -lt 15000 ]; do i=$((i+1)); done'; done; :\"\n\
         [[job]]\nname = \"b\"\nshell = \"i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done\"\n",
        |options| {
            options.interval = Some(Nanos::from_secs(600));
            options.counters = CounterMode::Off;
        },
    );
    run.finish();
    let are_reported =
        |name| (run.exits(name)[0].wait.is_some(), run.exits(name)[0].n_migrations.is_some());
    assert_eq!((are_reported("a"), are_reported("b")), ((false, false), (true, true)));
}

#[test]
fn events_of_unsampled_children_are_counted_at_the_exit() {
    let mut run = LiveRun::with(
        "[[job]]\nname = \"a\"\nshell = \"for i in 1 2 3 4 5 6 7 8 9; do sh -c :; done; :\"\n\
         [[job]]\nname = \"b\"\nshell = \":\"\n",
        |options| options.interval = Some(Nanos::from_secs(600)),
    );
    run.finish();
    let count =
        |job: &str, event| run.exits(job)[0].counters.get(event).expect("it was awaited").value;
    // Each shell maps some dozens of pages, and the parent of the shell waits for the shell.
    assert!(count("b", CounterEvent::PageFaults) + 9 * 20 < count("a", CounterEvent::PageFaults));
    assert!(
        count("b", CounterEvent::ContextSwitches) + 9 <= count("a", CounterEvent::ContextSwitches)
    );
}

#[test]
fn the_sample_of_a_task_that_slept_has_the_time_of_its_previous_sample() {
    let mut run = LiveRun::shell("sleep 0.5; while :; do :; done");
    let woken = |run: &LiveRun| {
        let with_time = run.turns.iter().flat_map(|turn| {
            turn.sample.tasks.iter().map(|task| (turn.turn.at, task.previous_sample_at))
        });
        with_time.into_iter().find_map(|(at, previous)| Some((at, previous?)))
    };
    run.until("a sample after the sleep", |run| woken(run).is_some());
    let (at, previous) = woken(&run).expect("it was found");
    assert!(previous < at && Nanos::from_millis(30) < at - previous);
    run.stop();
}

#[test]
fn turns_are_omitted_while_no_task_runs() {
    let mut run = LiveRun::new("[[job]]\nname = \"a\"\ncommand = [\"sleep\", \"3\"]\n");
    run.quiescent.set(true);
    run.finish();
    // Without omitted turns the run would have 150 turns of 20 ms, or fewer on a busy machine.
    let n_quiet = run.turns.iter().filter(|turn| turn.sample.tasks.is_empty()).count();
    assert!(n_quiet < 40, "{n_quiet} turns without a running task");
    // A task that may become runnable is sampled at least every two seconds.
    let ats: Vec<Nanos> = run.turns.iter().map(|turn| turn.turn.at).collect();
    assert!(2 < ats.len(), "{ats:?}");
}
