//! Invariants of the policies that distribute threads over caches, on random machines with random jobs, rates and
//! events.

use std::fmt::Write;

use proptest::prelude::*;

use crate::testing::{plans, play_watched, requests};

const MACHINES: [&str; 6] = [
    "nodes=2 cores=2",
    "nodes=4 cores=1",
    "nodes=2 llcs=2 cores=2",
    "nodes=1 llcs=3 cores=2 smt=2",
    "nodes=2 cores=2 no-llcs",
    "nodes=1",
];

/// Number of machines with the four CPUs that scripts use, which are the first.
const N_WITH_FOUR_CPUS: usize = 5;

const POLICIES: [&str; 12] = [
    "di",
    "di[reading=paper]",
    "dio",
    "dio[reading=paper]",
    "di-migrate[domains=node]",
    "dino",
    "dino[reading=paper]",
    "dino[limits=article,hyst_hits=1]",
    "animal",
    "animal[pairs=9]",
    "random",
    "random[every=2s,domains=core]",
];

prop_compose! {
    /// A script of random events.
    fn script()(
        jobs in proptest::collection::vec((1u32..5, 0u32..8, 0u32..30), 1..8),
        turns in proptest::collection::vec((0u32..12, 0usize..8, 0u32..80, 0u32..11), 1..40),
    ) -> String {
        let mut text = String::new();
        for (number, (threads, limit, curve)) in jobs.iter().enumerate() {
            write!(text, "job j{number} threads={threads}").expect("text");
            if *limit < 2 {
                write!(text, " cpus={limit}-3").expect("text");
            }
            if *curve < 20 {
                write!(text, " curve={curve}").expect("text");
            }
            text.push('\n');
        }
        for (number, (event, job, rate, usable)) in turns.iter().enumerate() {
            let at = number + 1;
            let job = job % jobs.len();
            match event {
                0..=2 => writeln!(text, "{at}s due j{job}"),
                3 => writeln!(text, "{at}s ended j{job}"),
                4 => writeln!(text, "{at}s usable 0-{}", usable % 4),
                5 => writeln!(text, "{at}s unmanaged j{job}"),
                6 => writeln!(text, "{at}s rates j{job}=-; poll"),
                7 => writeln!(text, "{at}s rates j{job}={rate}@{usable}0; poll"),
                _ => writeln!(text, "{at}s rates j{job}={rate}/{usable}; poll"),
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
    fn no_request_is_for_an_unusable_cpu_or_an_unmanaged_job(
        script in script(), machine in 0..MACHINES.len(), policy in 0..POLICIES.len(),
    ) {
        play_watched(MACHINES[machine], POLICIES[policy], &script, |watched| {
            assert!(watched.cpus.is_subset(watched.allowed), "{} of {}", watched.cpus, watched.allowed);
            assert!(!watched.cpus.is_empty() && watched.movable);
        });
    }

    #[test]
    fn a_placed_job_gets_a_cpu_for_each_thread_up_to_its_allowed_cpus(
        script in script(), machine in 0..N_WITH_FOUR_CPUS, policy in 0..POLICIES.len(),
    ) {
        let threads: Vec<usize> = script.lines()
            .filter_map(|line| line.split("threads=").nth(1)?.split(' ').next()?.parse().ok())
            .collect();
        play_watched(MACHINES[machine], POLICIES[policy], &script, move |watched| {
            let expected = threads[watched.job.index()].min(watched.allowed.len());
            assert_eq!(watched.cpus.len(), expected, "{} of {}", watched.cpus, watched.allowed);
        });
    }

    #[test]
    fn no_job_is_requested_twice_in_a_turn(
        script in script(), machine in 0..MACHINES.len(), policy in 0..POLICIES.len(),
    ) {
        let output = plans(MACHINES[machine], POLICIES[policy], &script);
        let jobs = requests(&output).filter(|(_, text)| !text.contains(" pages "));
        let mut jobs: Vec<(&str, &str)> =
            jobs.map(|(time, text)| (time, text.split(' ').next().expect("a job"))).collect();
        let n_requests = jobs.len();
        jobs.sort_unstable();
        jobs.dedup();
        prop_assert_eq!(jobs.len(), n_requests, "{}", output);
    }
}
