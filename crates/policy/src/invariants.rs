//! Invariants of the policies on random machines, with random jobs, counters and events.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use proptest::prelude::*;

use crate::testing::{plans, play_watched, requests};

const MACHINES: [&str; 7] = [
    "nodes=2 cores=2",
    "nodes=4 cores=1",
    "nodes=3 llcs=2 cores=2",
    "nodes=1 llcs=3 cores=2 smt=2",
    "nodes=1 cores=4",
    // On the last two no job is placed with domains=llc, or at all.
    "nodes=2 cores=2 smt=2 no-llcs",
    "nodes=1",
];

const POLICIES: [&str; 14] = [
    "maximum-local",
    "nmass",
    "nmass[reading=paper,d_min=0]",
    "nmass[domains=llc,k=1]",
    "nmass[domains=core]",
    "home-cluster",
    "home-cluster[pages=h2,t_rehome=1ms]",
    "home-cluster[processors=free,pages=h1]",
    "home-cluster[domains=llc]",
    "divided",
    "divided[reading=paper]",
    "divided[repeat=1,th_sq=500,th_ref=500]",
    "divided[domains=core,repeat=1,th_sq=500]",
    "divided[domains=node,keep=no,repeat=1]",
];

prop_compose! {
    /// Jobs and what can happen to them; of each turn what, to job, four numbers, and CPUs.
    fn script()(
        jobs in proptest::collection::vec((1u32..6, 0u32..8, 0u32..4), 1..9),
        turns in proptest::collection::vec((0u32..14, 0usize..9, proptest::collection::vec(0u64..2000, 4), 0u32..15), 1..40),
    ) -> String {
        let mut text = String::new();
        for (number, (threads, limit, memory)) in jobs.iter().enumerate() {
            write!(text, "job j{number} threads={threads}").expect("text");
            if *limit < 2 {
                write!(text, " cpus={limit}").expect("text");
            }
            if *memory == 0 {
                write!(text, " memory=0").expect("text");
            }
            text.push('\n');
        }
        for (at, (event, job, n, usable)) in turns.iter().enumerate() {
            let job = job % jobs.len();
            match event {
                0..3 => writeln!(text, "{at}s due j{job}"),
                3 => writeln!(text, "{at}s ended j{job}"),
                4 => writeln!(text, "{at}s usable 0-{usable}"),
                5 => writeln!(text, "{at}s unmanaged j{job}"),
                6 => writeln!(text, "{at}s unmanaged j{job} on 0"),
                7 => writeln!(text, "{at}s memory j{job} 0={} 1={}; poll", n[0], n[1]),
                _ => writeln!(
                    text,
                    "{at}s counts j{job} in=1s cycles={}000000 instructions=1000000000 llc-misses={}000 llc-references={} queue-full={}; poll",
                    1000 + n[0], n[1], n[2], n[3],
                ),
            }.expect("text");
        }
        text
    }
}

/// Number of turns with constant values after which averages and groups no longer change. N-MASS takes longest: a job
/// that changed its speed migrates back and forth until all ten intervals that are kept for each side are new, and
/// each stay of two or three turns adds one.
const N_TO_SETTLE: u64 = 80;

/// Checks that no job migrates after that number of turns.
fn check_no_late_migration(machine: &str, policy: &str, script: &str) -> Result<(), TestCaseError> {
    let polls = |n: u64| format!("{script}100s..{}s/1s poll", 99 + n);
    let settled = plans(machine, policy, &polls(N_TO_SETTLE));
    let later = plans(machine, policy, &polls(N_TO_SETTLE + 10));
    prop_assert_eq!(requests(&settled).count(), requests(&later).count(), "{}", later);
    Ok(())
}

/// Found by a random test. The job takes twice as many cycles from the twelfth second on, at home and away.
#[test]
fn a_job_that_changed_its_speed_stays_once_both_sides_have_new_intervals() {
    let script = "\
        job j0 threads=1 cpus=0 memory=0
        job j1 threads=1 cpus=0 memory=0
        job j2 threads=2
        job j3 threads=1 cpus=0 memory=0
        job j4 threads=1 cpus=0 memory=0
        job j5 threads=2 memory=0
        job j6 threads=1 cpus=0 memory=0
        0s due j5
        1s due j0
        2s due j2
        3s counts j5 in=1s cycles=1051000000 instructions=1000000000 llc-misses=0000 llc-references=0 queue-full=0; poll
        4s memory j3 0=0 1=0; poll
        5s memory j0 0=0 1=0; poll
        6s memory j0 0=0 1=0; poll
        7s ended j2
        8s memory j0 0=0 1=0; poll
        9s memory j0 0=0 1=0; poll
        10s memory j0 0=0 1=0; poll
        11s memory j0 0=0 1=0; poll
        12s counts j5 in=1s cycles=2007000000 instructions=1000000000 llc-misses=0000 llc-references=0 queue-full=0; poll
";
    let script: String = script.lines().map(|line| format!("{}\n", line.trim())).collect();
    check_no_late_migration(MACHINES[5], "maximum-local", &script).expect("no late migration");
}

proptest! {
    // A failure prints its script, which becomes a test.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_snapshots_give_the_same_plans(
        script in script(), machine in 0..MACHINES.len(), policy in 0..POLICIES.len(),
    ) {
        let play = || plans(MACHINES[machine], POLICIES[policy], &script);
        prop_assert_eq!(play(), play());
    }

    #[test]
    fn no_request_is_for_an_unusable_cpu(
        script in script(), machine in 0..MACHINES.len(), policy in 0..POLICIES.len(),
    ) {
        play_watched(MACHINES[machine], POLICIES[policy], &script, |watched| {
            assert!(watched.cpus.is_subset(watched.allowed), "{} of {}", watched.cpus, watched.allowed);
            assert!(!watched.cpus.is_empty() && watched.movable);
        });
    }

    #[test]
    fn with_constant_values_no_job_migrates_after_some_time(
        script in script(), machine in 0..MACHINES.len(), policy in 0..POLICIES.len(),
    ) {
        check_no_late_migration(MACHINES[machine], POLICIES[policy], &script)?;
    }

    #[test]
    fn a_job_with_allowed_cpus_is_placed_when_it_starts(
        script in script(), machine in 0..MACHINES.len() - 2, policy in 0..POLICIES.len(),
    ) {
        let output = plans(MACHINES[machine], POLICIES[policy], &format!("job free\n0ms due free\n{script}"));
        prop_assert!(output.contains("0ms free on "), "{}", output);
    }

    #[test]
    fn no_job_is_placed_twice_in_a_turn(
        script in script(), machine in 0..MACHINES.len(), policy in 0..POLICIES.len(),
    ) {
        let output = plans(MACHINES[machine], POLICIES[policy], &script);
        let mut n: BTreeMap<(&str, &str), u32> = BTreeMap::new();
        for (time, text) in requests(&output) {
            if let Some((job, _)) = text.split_once(" on ") {
                *n.entry((time, job)).or_default() += 1;
            }
        }
        // Two turns never have the same time.
        prop_assert!(n.values().all(|&n| n == 1), "{}", output);
    }
}

#[test]
fn random_draws_every_cpu_eventually() {
    let script: String = (0..200).map(|n| format!("{n}ms due j{n}\n")).collect();
    let output = plans("nodes=2 llcs=2 cores=2", "random", &script);
    let cpus: BTreeSet<&str> = output.lines().filter_map(|line| line.split(' ').nth(3)).collect();
    assert_eq!(cpus.len(), 8);
}
