//! What holds in every world: random machines, jobs, loads and mishaps.

use std::collections::BTreeMap;
use std::fmt::Write;

use base::JobId;
use proptest::prelude::*;

use crate::testing::plans;

const MACHINES: [&str; 6] = [
    "nodes=2 cores=2",
    "nodes=4 cores=1",
    "nodes=3 llcs=2 cores=2",
    "nodes=1 llcs=3 cores=2 smt=2",
    "nodes=1 cores=4",
    "nodes=1",
];

const POLICIES: [&str; 8] = [
    "dfs",
    "dfs[reading=paper]",
    "dfs[trigger=ratio,cooldown=1]",
    "dfs[migrations_per_poll=4,bind=domain]",
    "dfs[domains=core,min_load=0]",
    "dfs[domains=llc,only_job=move]",
    "spread",
    "spread[memory=bind,domains=core]",
];

/// Policies with the polls for which they let a job rest.
const RESTS: [(&str, u64); 3] =
    [("dfs", 8), ("dfs[min_load=0,only_job=move,cooldown=2]", 2), ("dfs[reading=paper]", 0)];

prop_compose! {
    /// A script that may hold anything that can happen.
    fn script()(
        jobs in proptest::collection::vec((0u8..18, 1u32..4, 0u32..6), 1..8),
        turns in proptest::collection::vec((0u32..12, 0usize..8, proptest::collection::vec(0u64..2000, 4), 0u32..15), 1..40),
    ) -> String {
        let mut text = String::new();
        for (number, (class, threads, limit)) in jobs.iter().enumerate() {
            write!(text, "job j{number} threads={threads}").expect("text");
            if *class < 16 {
                write!(text, " class={class}").expect("text");
            }
            if *limit < 2 {
                write!(text, " cpus={limit}").expect("text");
            }
            text.push('\n');
        }
        for (number, (what, whom, loads, usable)) in turns.iter().enumerate() {
            let at = 250 * number;
            let whom = whom % jobs.len();
            match what {
                0 | 1 => writeln!(text, "{at}ms due j{whom}"),
                2 => writeln!(text, "{at}ms ended j{whom}"),
                3 => writeln!(text, "{at}ms usable 0-{usable}"),
                4 => writeln!(text, "{at}ms unmanaged j{whom}"),
                5 => writeln!(text, "{at}ms poll unreadable"),
                _ => writeln!(text, "{at}ms poll {} with j{whom}={}", loads.iter().map(u64::to_string).collect::<Vec<_>>().join(" "), loads[0]),
            }.expect("text");
        }
        text
    }
}

proptest! {
    // A failure prints its script, which then joins the tests beside this file.
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
        crate::testing::play_watched(MACHINES[machine], POLICIES[policy], &script, |watched| {
            assert!(watched.cpus.is_subset(watched.allowed), "{} of {}", watched.cpus, watched.allowed);
            assert!(!watched.cpus.is_empty() && watched.movable);
        });
    }

    #[test]
    fn who_moves_has_the_highest_class_of_those_on_the_busiest_place_that_could(
        script in script(), machine in 0..MACHINES.len(),
    ) {
        crate::testing::play_watched(MACHINES[machine], "dfs[reading=paper]", &script, |watched| {
            let Some(from) = watched.moved_from else { return };
            assert_eq!(Some(&watched.loads[from]), watched.loads.iter().max());
            assert!(watched.candidate_classes.iter().all(|&class| class <= watched.class));
        });
    }

    #[test]
    fn equal_loads_never_move_anybody(
        script in script(), machine in 0..MACHINES.len(), policy in 0..6usize,
    ) {
        crate::testing::play_watched(MACHINES[machine], POLICIES[policy], &script, |watched| {
            if watched.moved_from.is_some() {
                assert!(watched.loads.iter().any(|load| load != &watched.loads[0]));
            }
        });
    }

    #[test]
    fn no_poll_moves_more_jobs_than_it_may(
        script in script(), machine in 0..MACHINES.len(), policy in 0..6usize,
    ) {
        let most = if POLICIES[policy].contains("migrations_per_poll=4") { 4 } else { 1 };
        let mut moves: Vec<u64> = Vec::new();
        crate::testing::play_watched(MACHINES[machine], POLICIES[policy], &script, move |watched| {
            if watched.moved_from.is_some() {
                moves.push(watched.n_polls);
                assert!(moves.iter().filter(|&&poll| poll == watched.n_polls).count() <= most);
            }
        });
    }

    #[test]
    fn who_was_moved_rests(
        script in script(), machine in 0..MACHINES.len(), which in 0..RESTS.len(),
    ) {
        let (policy, rest) = RESTS[which];
        let mut moved: BTreeMap<JobId, u64> = BTreeMap::new();
        crate::testing::play_watched(MACHINES[machine], policy, &script, move |watched| {
            // A start, or a place that is gone: a job that has just been created has not moved.
            let before = moved.remove(&watched.job);
            if watched.moved_from.is_some() {
                assert!(before.is_none_or(|before| rest <= watched.n_polls - before));
                moved.insert(watched.job, watched.n_polls);
            }
        });
    }

    #[test]
    fn who_is_alone_stays(script in script(), machine in 0..MACHINES.len()) {
        crate::testing::play_watched(MACHINES[machine], "dfs[min_load=0]", &script, |watched| {
            assert!(watched.moved_from.is_none() || 2 <= watched.n_movable_there);
        });
    }
}
