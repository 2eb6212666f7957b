//! Invariants of every registered policy on random machines, with random jobs, counters and events.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use base::{JobId, Nanos};
use proptest::prelude::*;
use proptest::sample::select;

use crate::registry;
use crate::testing::{
    WatchedRequest, first_idle_domain, idle_domain_from, plans, play_watched, requests,
};

/// On the second to last machine, no job is placed with `domains=llc`. On the last machine, no job is placed. The first
/// machines have several core kinds.
const MACHINES: [&str; 11] = [
    "nodes=1 cores=4 kinds=1024x2+512x2",
    "nodes=4 cores=1 kinds=1024x2+700x2",
    "nodes=2 cores=3 kinds=1024x1+700x1+400x1",
    "nodes=2 cores=2",
    "nodes=4 cores=1",
    "nodes=3 llcs=2 cores=2",
    "nodes=2 llcs=2 cores=2",
    "nodes=1 llcs=3 cores=2 smt=2",
    "nodes=1 cores=4",
    "nodes=2 cores=2 smt=2 no-llcs",
    "nodes=1",
];

/// Parameters of the registered policies that change their rules, in addition to the defaults.
const VARIANTS: [&str; 39] = [
    "spread[memory=bind]",
    "random[every=2s,domains=core]",
    "dfs[reading=paper]",
    "dfs[trigger=ratio,cooldown=1]",
    "dfs[migrations_per_poll=4,bind=domain]",
    "dfs[domains=core,min_load=0]",
    "dfs[domains=llc,only_job=move]",
    "dfs[min_load=0]",
    "dfs[min_load=0,only_job=move,cooldown=2]",
    "di[reading=paper]",
    "dio[reading=paper]",
    "di-migrate[domains=node]",
    "dino[reading=paper]",
    "dino[limits=article,hyst_hits=1]",
    "animal[pairs=9]",
    "nmass[reading=paper,d_min=0]",
    "nmass[domains=llc,k=1]",
    "nmass[domains=core]",
    "home-cluster[pages=h2,t_rehome=1ms]",
    "home-cluster[processors=free,pages=h1]",
    "home-cluster[domains=llc]",
    "divided[reading=paper]",
    "divided[repeat=1,th_sq=500,th_ref=500]",
    "divided[domains=core,repeat=1,th_sq=500]",
    "divided[domains=node,keep=no,repeat=1]",
    "linux[interval=1s]",
    "spread[domains=llc]",
    "ib[reading=paper]",
    "ib[metric=miss-ratio,interval=1s]",
    "ib[beta=0.5,margin=0]",
    "ib[reading=paper,beta=0.3,interval=1s]",
    "ib[tlp=yes,interval=1s]",
    "ib[lrt=yes,cosched=yes]",
    "hass-s[reading=paper]",
    "hass-s[later=refresh]",
    "hass-d[reading=paper,interval=1s]",
    "sample-run[run=2s,interval=1s]",
    "sample-run[reading=paper,rounds=2]",
    "ff[rss_limit=none,interval=1s]",
];

/// Number of turns with constant values after which averages and groups no longer change. N-MASS needs the most turns:
/// a job that changed its speed migrates back and forth until all ten stored intervals of each node were measured after
/// the change. Each stay of two or three turns adds one interval.
const CONVERGENCE_TURNS: u64 = 80;

/// Returns the policies for core kinds without `except`, and the variants.
fn core_kind_policies(except: &[&str], variants: &[&'static str]) -> Vec<&'static str> {
    let names = registry().iter().filter(|info| info.needs_core_kinds).map(|info| info.name);
    names.filter(|name| !except.contains(name)).chain(variants.iter().copied()).collect()
}

fn work_conserving_policies() -> Vec<&'static str> {
    registry().iter().filter(|info| info.work_conserving).map(|info| info.name).collect()
}

/// Returns random pairs of a machine and a policy (a registered policy or a variant). `includes` accepts the name of
/// the policy without parameters.
fn machine_and_policy(
    includes: impl Fn(&str) -> bool,
) -> impl Strategy<Value = (&'static str, &'static str)> {
    let all = registry().iter().map(|info| info.name).chain(VARIANTS);
    let policies: Vec<&str> =
        all.filter(|text| includes(text.split('[').next().unwrap_or(text))).collect();
    (select(&MACHINES[..]), select(policies))
}

/// Returns whether a policy selects core kinds.
fn selects_kinds(policy: &str) -> bool {
    crate::find(policy).expect("a policy").needs_core_kinds
}

fn is_dfs(policy: &str) -> bool {
    policy == "dfs"
}

/// Returns whether a policy distributes threads over caches.
fn is_cache_policy(policy: &str) -> bool {
    ["di", "dio", "di-migrate", "dino", "animal"].contains(&policy)
}

/// Returns whether the placement of a policy depends on averages only.
fn converges(policy: &str) -> bool {
    ["maximum-local", "nmass", "home-cluster", "divided"].contains(&policy)
}

prop_compose! {
    /// Returns random scripts. A script has jobs and turns; each turn has an event, a job, four values and CPUs.
    fn script()(
        jobs in proptest::collection::vec((0u8..18, 1u32..6, 0u32..8, 0u32..4, 0u32..30), 1..9),
        turns in proptest::collection::vec((0u32..16, 0usize..9, proptest::collection::vec(0u64..2000, 4), 0u32..15), 1..40),
    ) -> String {
        let mut text = String::new();
        for (number, (class, threads, limit, memory, curve)) in jobs.iter().enumerate() {
            write!(text, "job j{number} threads={threads}").expect("text");
            if *class < 16 {
                write!(text, " class={class}").expect("text");
            }
            match limit {
                0 | 1 => write!(text, " cpus={limit}").expect("text"),
                2 => text.push_str(" cpus=1-3"),
                _ => {}
            }
            if *memory == 0 {
                text.push_str(" memory=0");
            }
            if *curve < 20 {
                write!(text, " curve={curve}").expect("text");
            }
            text.push('\n');
        }
        for (number, (event, job, n, cpu)) in turns.iter().enumerate() {
            let (at, job, rate) = (number + 1, format!("j{}", job % jobs.len()), n[0] % 80);
            match event {
                0..=2 => writeln!(text, "{at}s due {job}"),
                3 => writeln!(text, "{at}s ended {job}"),
                4 => writeln!(text, "{at}s usable 0-{cpu}"),
                5 => writeln!(text, "{at}s unmanaged {job}"),
                6 => writeln!(text, "{at}s unmanaged {job} on 0"),
                7 => writeln!(text, "{at}s memory {job} 0={} 1={}; poll", n[0], n[1]),
                8 => writeln!(text, "{at}s poll unreadable"),
                9 => writeln!(text, "{at}s rates {job}=-; poll"),
                10 => writeln!(text, "{at}s rates {job}={rate}@{cpu}0; poll"),
                11 => writeln!(text, "{at}s rates {job}={rate}/{cpu}; poll"),
                12 | 13 => writeln!(text, "{at}s poll {} {} {} {} with {job}={}", n[0], n[1], n[2], n[3], n[0]),
                _ => writeln!(
                    text,
                    "{at}s counts {job} in=1s cycles={}000000 instructions=1000000000 llc-misses={}000 llc-references={} queue-full={}; poll",
                    1000 + n[0], n[1], n[2], n[3],
                ),
            }.expect("text");
        }
        text
    }
}

/// Checks that no job migrates after [`CONVERGENCE_TURNS`].
///
/// Exception: a turn in which the third step of N-MASS migrates a job. Among equally occupied domains, the second step
/// prefers the current domain of a job, and the third step can migrate the job away from that domain in every interval.
fn check_no_late_migration(
    (machine, policy): (&str, &str),
    script: &str,
) -> Result<(), TestCaseError> {
    let polls = |n: u64| format!("{script}100s..{}s/1s poll", 99 + n);
    let converged = plans(machine, policy, &polls(CONVERGENCE_TURNS));
    let later = plans(machine, policy, &polls(CONVERGENCE_TURNS + 10));
    let late = later.strip_prefix(&converged).expect("the same turns first");
    let third_step =
        |line: &&str| policy.starts_with("nmass") && line.contains(" because pressure-");
    let excepted: BTreeSet<&str> =
        late.lines().filter(third_step).filter_map(|line| line.split(' ').next()).collect();
    let migrates = requests(late).any(|(time, _)| !excepted.contains(time));
    prop_assert!(!migrates, "{policy} on {machine}: {later}");
    Ok(())
}

/// A random test found this script. The job takes twice as many cycles from the twelfth second on, at home and away.
#[test]
fn a_job_that_changed_its_speed_stays_once_both_sides_have_new_intervals() {
    let script = "\
        job j0 j1 j3 j4 j6 threads=1 cpus=0 memory=0
        job j2 threads=2
        job j5 threads=2 memory=0
        0s due j5
        1s due j0
        2s due j2
        3s counts j5 in=1s cycles=1051000000 instructions=1000000000 llc-misses=0000 llc-references=0 queue-full=0; poll
        4s memory j3 0=0 1=0; poll
        5s..6s/1s memory j0 0=0 1=0; poll
        7s ended j2
        8s..11s/1s memory j0 0=0 1=0; poll
        12s counts j5 in=1s cycles=2007000000 instructions=1000000000 llc-misses=0000 llc-references=0 queue-full=0; poll
";
    check_no_late_migration(("nodes=2 cores=2 smt=2 no-llcs", "maximum-local"), script)
        .expect("no late migration");
}

#[test]
fn random_draws_every_cpu_eventually() {
    let script: String = (0..200).map(|n| format!("{n}ms due j{n}\n")).collect();
    let output = plans("nodes=2 llcs=2 cores=2", "random", &script);
    let cpus: BTreeSet<&str> = output.lines().filter_map(|line| line.split(' ').nth(3)).collect();
    assert_eq!(cpus.len(), 8);
}

/// Passes each request to place a job to `check`.
fn watch(
    (machine, policy): (&str, &str),
    script: &str,
    check: impl FnMut(WatchedRequest<'_>) + 'static,
) {
    play_watched(machine, policy, script, check);
}

/// Checks each migration that DFS requests because of loads; the second argument is the domain that the job leaves.
fn watch_migrations(
    subject: (&str, &str),
    script: &str,
    mut check: impl FnMut(WatchedRequest<'_>, usize) + 'static,
) {
    watch(subject, script, move |watched| {
        if let Some(from) = watched.moved_from {
            check(watched, from);
        }
    });
}

/// For each policy that does not declare that it is work-conserving, a script that leaves a domain idle. The jobs of the
/// first scripts end on one of the two domains.
#[test]
fn every_policy_that_is_not_work_conserving_leaves_a_domain_idle() {
    let ends =
        |x: &str, y: &str| format!("0ms due a b c d\n1s poll\n1500ms ended {x} {y}\n2s poll\n");
    let pairs = [("a", "b"), ("a", "c"), ("a", "d"), ("b", "c"), ("b", "d"), ("c", "d")];
    let mut scripts: Vec<String> = pairs.iter().map(|(x, y)| ends(x, y)).collect();
    // A job keeps its domain after another job ended.
    scripts.push(
        "job j0 threads=3 cpus=0 curve=0\njob j1 threads=2 cpus=1-3 curve=0\n1s due j0\n2s due j1\n\
         3s rates j0=11@30; poll\n4s rates j1=-; poll\n5s ended j0\n6s poll\n"
            .to_owned(),
    );
    // A job with two threads is bound to one of two domains.
    scripts.push("job j0 threads=2 cpus=1-3\n1s due j0\n2s poll\n".to_owned());
    // No job migrates while the result of a trial is measured.
    let counted = ["a", "b", "c", "d"].map(|job| format!("{job}=20")).join(" ");
    scripts.push(format!(
        "0ms due a b c d; unmanaged c on 2; unmanaged d on 3\n1s..14s/1s rates {counted}; poll\n\
         15s ended c d\n16s poll\n"
    ));
    // A sleeping job does not count.
    let sleeps = "0ms due a b\n1s..9s/1s rates a=1@0 b=1; poll\n";
    let leaves_idle = |policy: &str| {
        let on_kinds = first_idle_domain("nodes=1 cores=2 kinds=1024x1+512x1", policy, sleeps);
        let is_idle =
            |script: &String| first_idle_domain("nodes=2 cores=2", policy, script).is_some();
        on_kinds.filter(|_| selects_kinds(policy)).is_some() || scripts.iter().any(is_idle)
    };
    for info in registry().iter().filter(|info| !info.work_conserving) {
        assert!(leaves_idle(info.name), "{}: no script leaves a domain idle", info.name);
    }
}

proptest! {
    // A failure prints its script, which becomes a test.
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_snapshots_give_the_same_plans(script in script(), (machine, policy) in machine_and_policy(|_| true)) {
        prop_assert_eq!(plans(machine, policy, &script), plans(machine, policy, &script));
    }

    #[test]
    fn a_policy_that_declares_to_be_work_conserving_leaves_no_domain_idle(
        script in script(), machine in select(&MACHINES[..]), policy in select(work_conserving_policies()),
    ) {
        prop_assert_eq!(first_idle_domain(machine, policy, &script), None, "{} on {}", policy, machine);
    }

    #[test]
    fn no_request_is_for_an_unusable_cpu_or_an_unmanaged_job(
        script in script(), subject in machine_and_policy(|_| true),
    ) {
        watch(subject, &script, |watched| {
            assert!(watched.cpus.is_subset(watched.allowed), "{} of {}", watched.cpus, watched.allowed);
            assert!(!watched.cpus.is_empty() && watched.movable);
        });
    }

    #[test]
    fn no_job_is_placed_twice_in_a_turn(script in script(), (machine, policy) in machine_and_policy(|_| true)) {
        let output = plans(machine, policy, &script);
        let placements = requests(&output).filter(|(_, text)| text.contains(" on ") || text.contains(" released"));
        // Two turns never have the same time.
        let mut placed: Vec<(&str, &str)> =
            placements.map(|(time, text)| (time, text.split(' ').next().expect("a job"))).collect();
        let n_requests = placed.len();
        placed.sort_unstable();
        placed.dedup();
        prop_assert_eq!(placed.len(), n_requests, "{}", output);
    }

    #[test]
    fn a_job_with_allowed_cpus_is_placed_when_it_starts(
        script in script(), (machine, policy) in machine_and_policy(|policy| !["linux", "auto"].contains(&policy)),
    ) {
        prop_assume!(!MACHINES[MACHINES.len() - 2..].contains(&machine));
        let name = policy.split('[').next().unwrap_or(policy);
        prop_assume!(machine.contains("kinds=") || !selects_kinds(name));
        let output = plans(machine, policy, &format!("job free\n0ms due free\n{script}"));
        prop_assert!(output.contains("0ms free on "), "{}", output);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn with_constant_values_no_job_migrates_after_some_time(script in script(), subject in machine_and_policy(converges)) {
        check_no_late_migration(subject, &script)?;
    }

    #[test]
    fn a_job_that_is_placed_on_a_core_kind_gets_all_its_cpus_or_whole_cores_of_it(
        script in script(), machine in select(&MACHINES[..3]),
        // `ff` binds jobs to single CPUs.
        policy in select(core_kind_policies(&["ff"], &["ib[reading=paper]"])),
    ) {
        let kinds = testkit::machine(machine);
        watch((machine, policy), &script, move |watched| {
            let kind = |cpu| kinds.core(kinds.cpu(cpu)?.core?).map(|core| core.kind.clone());
            let of: BTreeSet<_> = watched.cpus.iter().map(kind).collect();
            assert_eq!(of.len(), 1, "{}", watched.cpus);
        });
    }

    #[test]
    fn no_core_kind_stays_idle_while_another_has_several_runnable_jobs(
        script in script(), policy in select(core_kind_policies(&[], &["ib[beta=0.5]"])),
    ) {
        let rates: String = (0..9).map(|job| format!(" j{job}={job}")).collect();
        let script = format!("{script}100s..200s/2s rates{rates}; poll");
        let machine = "nodes=1 cores=2 kinds=1024x1+512x1";
        let from = Nanos::from_secs(120);
        prop_assert_eq!(idle_domain_from(machine, policy, &script, from), None, "{}", script);
    }

    #[test]
    fn a_placed_job_gets_a_cpu_for_each_thread_up_to_its_allowed_cpus(
        script in script(), subject in machine_and_policy(|policy| is_cache_policy(policy) || policy == "random"),
    ) {
        let threads: Vec<usize> = script.lines()
            .filter_map(|line| line.split("threads=").nth(1)?.split(' ').next()?.parse().ok())
            .collect();
        watch(subject, &script, move |watched| {
            let n_cpus = threads[watched.job.index()].min(watched.allowed.len());
            assert_eq!(watched.cpus.len(), n_cpus, "{} of {}", watched.cpus, watched.allowed);
        });
    }

    #[test]
    fn the_victim_has_the_highest_class_of_the_candidates_on_the_busiest_domain(
        script in script(), machine in select(&MACHINES[..]),
    ) {
        watch_migrations((machine, "dfs[reading=paper]"), &script, |watched, from| {
            assert_eq!(Some(&watched.loads[from]), watched.loads.iter().max());
            assert!(watched.candidate_classes.iter().all(|&class| class <= watched.class));
        });
    }

    #[test]
    fn equal_loads_never_cause_a_migration(script in script(), subject in machine_and_policy(is_dfs)) {
        watch_migrations(subject, &script, |watched, _| {
            assert!(watched.loads.iter().any(|load| load != &watched.loads[0]));
        });
    }

    #[test]
    fn no_poll_exceeds_the_maximum_number_of_migrations(script in script(), subject in machine_and_policy(is_dfs)) {
        let n_max = if subject.1.contains("migrations_per_poll=4") { 4 } else { 1 };
        let mut n_by_poll: BTreeMap<u64, u32> = BTreeMap::new();
        watch_migrations(subject, &script, move |watched, _| {
            let n = n_by_poll.entry(watched.n_polls).or_default();
            *n += 1;
            assert!(*n <= n_max);
        });
    }

    #[test]
    fn a_job_that_migrated_has_a_cool_down(
        script in script(), machine in select(&MACHINES[..]),
        (policy, cooldown) in select(&[("dfs", 8), ("dfs[min_load=0,only_job=move,cooldown=2]", 2), ("dfs[reading=paper]", 0)][..]),
    ) {
        let mut migrated_at: BTreeMap<JobId, u64> = BTreeMap::new();
        watch((machine, policy), &script, move |watched| {
            // A start, or a placement because of unusable CPUs, resets the cool-down.
            let before = migrated_at.remove(&watched.job);
            if watched.moved_from.is_some() {
                assert!(before.is_none_or(|before| cooldown <= watched.n_polls - before));
                migrated_at.insert(watched.job, watched.n_polls);
            }
        });
    }

    #[test]
    fn the_only_movable_job_of_a_domain_stays(script in script(), machine in select(&MACHINES[..])) {
        watch_migrations((machine, "dfs[min_load=0]"), &script, |watched, _| {
            assert!(2 <= watched.n_movable_in_domain);
        });
    }
}
