//! Invariants of the placement of threads, on random machines with two and three kinds and random programs.

use std::collections::BTreeSet;

use base::CpuSet;
use proptest::prelude::*;
use proptest::sample::select;

use crate::testing::{plans, requests};

const MACHINES: [&str; 4] = [
    "nodes=1 cores=4 kinds=1024x2+512x2",
    "nodes=2 cores=2 kinds=1024x1+700x3",
    "nodes=1 cores=6 kinds=1024x2+700x2+400x2",
    "nodes=2 cores=3 kinds=1024x1+700x1+400x4",
];

const POLICIES: [&str; 6] = [
    "ib[tlp=yes]",
    "ib[lrt=yes]",
    "ib[cosched=yes]",
    "ib[tlp=yes,lrt=yes,cosched=yes]",
    "ib[tlp=yes,lrt=yes,cosched=yes,beta=0.3,margin=0]",
    "ib[reading=paper,tlp=yes,lrt=yes,cosched=yes]",
];

/// Misses and CPU utilization of the threads of one job.
fn threads() -> impl Strategy<Value = String> {
    let thread = (0u32..30, select(&[0u32, 0, 5, 40, 100, 100][..]));
    proptest::collection::vec(thread, 1..5).prop_map(|threads| {
        let each: Vec<String> = threads.iter().map(|(mpki, cpu)| format!("{mpki}@{cpu}")).collect();
        each.join(",")
    })
}

prop_compose! {
    /// Returns a script of jobs with changing threads. Each job names its first values again at the end.
    fn script()(
        jobs in proptest::collection::vec((threads(), 0u32..30, 0u32..6), 1..5),
        turns in proptest::collection::vec((0usize..9, 0usize..4, threads(), 1u32..6), 1..30),
    ) -> String {
        let mut text = String::new();
        for (number, (threads, mpki, limit)) in jobs.iter().enumerate() {
            let n_threads = threads.split(',').count();
            let cpus = match limit { 0 => " cpus=0", 1 => " cpus=1-3", _ => "" };
            text += &format!("job j{number} threads={n_threads} mpki={mpki}/30{cpus}\n");
        }
        for (number, (threads, ..)) in jobs.iter().enumerate() {
            let at = 200 * number;
            text += &format!("{at}ms due j{number}\n{}ms threads j{number}={threads}; poll\n", at + 1);
        }
        for (number, (event, job, threads, cpu)) in turns.iter().enumerate() {
            let (at, job) = (1000 + 200 * number, format!("j{}", job % jobs.len()));
            let (first, second) = (at - 2, at - 1);
            text += &match event {
                0 => format!("{first}ms usable 0-{cpu}\n{at}ms poll\n"),
                1 => format!("{first}ms ended {job}\n{second}ms due {job}\n{at}ms poll\n"),
                2 => format!("{first}ms unmanaged {job}\n{at}ms poll\n"),
                3..=5 => format!("{at}ms threads {job}={threads}; poll\n"),
                _ => format!("{at}ms poll\n"),
            };
        }
        text
    }
}

fn subject() -> impl Strategy<Value = (&'static str, &'static str)> {
    (select(&MACHINES[..]), select(&POLICIES[..]))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_target_gets_cpus_of_one_kind_at_most_once_per_turn(script in script(), (machine, policy) in subject()) {
        let of_machine = testkit::machine(machine);
        let output = plans(machine, policy, &script);
        let mut seen = BTreeSet::new();
        for (time, text) in requests(&output) {
            let (target, cpus) = text.split_once(" on ").expect("a placement");
            let cpus: CpuSet = cpus.parse().expect("CPUs");
            let kinds = of_machine.core_kinds().into_iter().filter(|kind| kind.cpus().intersects(&cpus));
            prop_assert_eq!(kinds.count(), 1, "{} {}", time, text);
            prop_assert!(seen.insert((time, target)), "{} {}\n{}", time, text, script);
        }
    }

    #[test]
    fn without_the_parameters_no_thread_is_placed(script in script(), machine in select(&MACHINES[..])) {
        let output = plans(machine, "ib", &script);
        prop_assert!(requests(&output).all(|(_, text)| !text.contains('/')), "{}", output);
    }

    #[test]
    fn with_constant_values_no_thread_migrates_after_some_time(script in script(), (machine, policy) in subject()) {
        let script = format!("{script}10s..50s/500ms poll\n");
        let output = plans(machine, policy, &script);
        let last = requests(&output).last().map_or("0ms", |(time, _)| time);
        let ms = last.trim_end_matches("ms").trim_end_matches('s').parse::<u64>().expect("a time");
        let ms = if last.ends_with("ms") { ms } else { 1000 * ms };
        prop_assert!(ms < 35_000, "{}\n{}", script, output);
    }
}
