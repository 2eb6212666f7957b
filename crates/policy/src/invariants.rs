//! What holds of every policy in every world: random machines, jobs, counters and mishaps.

use std::collections::BTreeMap;
use std::fmt::Write;

use proptest::prelude::*;

use crate::testing::{plans, play_watched, requests};

const MACHINES: [&str; 7] = [
    "nodes=2 cores=2",
    "nodes=4 cores=1",
    "nodes=3 llcs=2 cores=2",
    "nodes=1 llcs=3 cores=2 smt=2",
    "nodes=1 cores=4",
    // The last two: here nothing is placed with domains=llc, and there nothing at all.
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
    /// Jobs and what can happen to them; of each turn what, to whom, four numbers, and CPUs.
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
        for (at, (what, whom, n, usable)) in turns.iter().enumerate() {
            let whom = whom % jobs.len();
            match what {
                0..3 => writeln!(text, "{at}s due j{whom}"),
                3 => writeln!(text, "{at}s ended j{whom}"),
                4 => writeln!(text, "{at}s usable 0-{usable}"),
                5 => writeln!(text, "{at}s unmanaged j{whom}"),
                6 => writeln!(text, "{at}s unmanaged j{whom} on 0"),
                7 => writeln!(text, "{at}s memory j{whom} 0={} 1={}; poll", n[0], n[1]),
                _ => writeln!(
                    text,
                    "{at}s counts j{whom} in=1s cycles={}000000 instructions=1000000000 llc-misses={}000 llc-references={} queue-full={}; poll",
                    1000 + n[0], n[1], n[2], n[3],
                ),
            }.expect("text");
        }
        text
    }
}

/// Turns after which averages and groups have settled, where figures stay as they were told last. N-MASS takes
/// longest: a program that changed its nature goes to and fro until the ten intervals that are kept of each side are
/// new ones, and each stay of two or three turns brings one.
const N_TO_SETTLE: u64 = 80;

/// Whether nobody moves any more after that.
fn comes_to_rest(machine: &str, policy: &str, script: &str) -> Result<(), TestCaseError> {
    let polls =
        |from: u64, to: u64| -> String { (from..to).map(|at| format!("{at}s poll\n")).collect() };
    let settle = polls(100, 100 + N_TO_SETTLE);
    let rest = polls(100 + N_TO_SETTLE, 110 + N_TO_SETTLE);
    let settled = plans(machine, policy, &format!("{script}{settle}"));
    let rested = plans(machine, policy, &format!("{script}{settle}{rest}"));
    // Who gives up says so again each time that he is asked; a host does not ask again.
    let moves = |told: &str| told.lines().filter(|line| !line.contains(" abort ")).count();
    prop_assert_eq!(moves(&settled), moves(&rested), "{}", rested);
    Ok(())
}

/// Found by chance: half as fast from the twelfth second on, at home and away.
#[test]
fn who_changes_its_nature_comes_to_rest_when_both_sides_are_seen_anew() {
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
    comes_to_rest(MACHINES[5], "maximum-local", &script).expect("nobody moves any more");
}

proptest! {
    // A failure prints its script, which then joins the tests beside the policy.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_snapshots_give_the_same_plans(
        script in script(), machine in 0..MACHINES.len(), policy in 0..POLICIES.len(),
    ) {
        let play = || plans(MACHINES[machine], POLICIES[policy], &script);
        prop_assert_eq!(play(), play());
    }

    #[test]
    fn no_wish_is_ever_for_a_cpu_that_may_not_be_used(
        script in script(), machine in 0..MACHINES.len(), policy in 0..POLICIES.len(),
    ) {
        play_watched(MACHINES[machine], POLICIES[policy], &script, |watched| {
            assert!(watched.cpus.is_subset(watched.allowed), "{} of {}", watched.cpus, watched.allowed);
            assert!(!watched.cpus.is_empty() && watched.movable);
        });
    }

    #[test]
    fn where_nothing_changes_any_more_nobody_moves_any_more(
        script in script(), machine in 0..MACHINES.len(), policy in 0..POLICIES.len(),
    ) {
        comes_to_rest(MACHINES[machine], POLICIES[policy], &script)?;
    }

    #[test]
    fn whoever_may_run_somewhere_is_placed_when_it_starts(
        script in script(), machine in 0..MACHINES.len() - 2, policy in 0..POLICIES.len(),
    ) {
        let told = plans(MACHINES[machine], POLICIES[policy], &format!("job free\n0ms due free\n{script}"));
        prop_assert!(told.contains("0ms free on "), "{}", told);
    }

    #[test]
    fn a_turn_places_nobody_twice(
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
