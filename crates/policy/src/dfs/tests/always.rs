//! Invariants of DFS and `spread` on random machines, with random jobs, loads and events.

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

/// Policies with their cool-down in polls.
const COOL_DOWNS: [(&str, u64); 3] =
    [("dfs", 8), ("dfs[min_load=0,only_job=move,cooldown=2]", 2), ("dfs[reading=paper]", 0)];

prop_compose! {
    /// A script of random events.
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
        for (number, (event, job, loads, usable)) in turns.iter().enumerate() {
            let at = 250 * number;
            let job = job % jobs.len();
            match event {
                0 | 1 => writeln!(text, "{at}ms due j{job}"),
                2 => writeln!(text, "{at}ms ended j{job}"),
                3 => writeln!(text, "{at}ms usable 0-{usable}"),
                4 => writeln!(text, "{at}ms unmanaged j{job}"),
                5 => writeln!(text, "{at}ms poll unreadable"),
                _ => writeln!(text, "{at}ms poll {} with j{job}={}", loads.iter().map(u64::to_string).collect::<Vec<_>>().join(" "), loads[0]),
            }.expect("text");
        }
        text
    }
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
        crate::testing::play_watched(MACHINES[machine], POLICIES[policy], &script, |watched| {
            assert!(watched.cpus.is_subset(watched.allowed), "{} of {}", watched.cpus, watched.allowed);
            assert!(!watched.cpus.is_empty() && watched.movable);
        });
    }

    #[test]
    fn the_victim_has_the_highest_class_of_the_candidates_on_the_busiest_domain(
        script in script(), machine in 0..MACHINES.len(),
    ) {
        crate::testing::play_watched(MACHINES[machine], "dfs[reading=paper]", &script, |watched| {
            let Some(from) = watched.moved_from else { return };
            assert_eq!(Some(&watched.loads[from]), watched.loads.iter().max());
            assert!(watched.candidate_classes.iter().all(|&class| class <= watched.class));
        });
    }

    #[test]
    fn equal_loads_never_cause_a_migration(
        script in script(), machine in 0..MACHINES.len(), policy in 0..6usize,
    ) {
        crate::testing::play_watched(MACHINES[machine], POLICIES[policy], &script, |watched| {
            if watched.moved_from.is_some() {
                assert!(watched.loads.iter().any(|load| load != &watched.loads[0]));
            }
        });
    }

    #[test]
    fn no_poll_exceeds_the_maximum_number_of_migrations(
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
    fn a_job_that_migrated_has_a_cool_down(
        script in script(), machine in 0..MACHINES.len(), which in 0..COOL_DOWNS.len(),
    ) {
        let (policy, cooldown) = COOL_DOWNS[which];
        let mut moved: BTreeMap<JobId, u64> = BTreeMap::new();
        crate::testing::play_watched(MACHINES[machine], policy, &script, move |watched| {
            // A start, or a placement because of unusable CPUs, resets the cool-down.
            let before = moved.remove(&watched.job);
            if watched.moved_from.is_some() {
                assert!(before.is_none_or(|before| cooldown <= watched.n_polls - before));
                moved.insert(watched.job, watched.n_polls);
            }
        });
    }

    #[test]
    fn the_only_movable_job_of_a_domain_stays(script in script(), machine in 0..MACHINES.len()) {
        crate::testing::play_watched(MACHINES[machine], "dfs[min_load=0]", &script, |watched| {
            assert!(watched.moved_from.is_none() || 2 <= watched.n_movable_there);
        });
    }
}
