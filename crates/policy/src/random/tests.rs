//! Decisions of `random`.

use std::collections::BTreeSet;

use expect_test::expect;

use crate::testing::{check, plans};

#[test]
fn jobs_start_on_random_cpus_and_are_drawn_again_only_when_configured() {
    check(expect![[r#"
        nodes=2 cores=2
        0ms due a b c d
        250ms..500ms/250ms poll
        >> random
        0ms a on 3 because node 1 was drawn at random from the 2 domains that the job may use, with cpu 3
        0ms b on 0 because node 0 was drawn at random from the 2 domains that the job may use, with cpu 0
        0ms c on 1 because node 0 was drawn at random from the 2 domains that the job may use, with cpu 1
        0ms d on 2 because node 1 was drawn at random from the 2 domains that the job may use, with cpu 2
        > random[every=500ms]
        0ms a on 3; b on 0; c on 1; d on 2 because by-lot
        500ms a on 1; b on 3 because drawn-again
    "#]]);
}

#[test]
fn every_cpu_is_drawn_eventually() {
    let script: String = (0..200).map(|n| format!("{n}ms due j{n}\n")).collect();
    let output = plans("nodes=2 llcs=2 cores=2", "random", &script);
    let cpus: BTreeSet<&str> = output.lines().filter_map(|line| line.split(' ').nth(3)).collect();
    assert_eq!(cpus.len(), 8);
}

#[test]
fn a_job_gets_a_cpu_for_each_thread_within_its_affinity() {
    check(expect![[r#"
        nodes=2 llcs=2 cores=2
        job wide threads=3
        job tied cpus=5
        job nowhere cpus=99
        job huge threads=99
        0ms due wide tied nowhere huge
        > random[domains=llc]
        0ms wide on 4,6-7; tied on 5; huge on 0-7 because by-lot
    "#]]);
}

#[test]
fn with_bind_domain_a_job_gets_all_cpus_of_its_domain() {
    check(expect![[r#"
        nodes=2 cores=2
        0ms due a
        > random[bind=domain]
        0ms a on 2-3 because by-lot
    "#]]);
}

#[test]
fn a_job_is_drawn_again_when_its_cpu_goes_offline_unless_it_is_unmanaged() {
    check(expect![[r#"
        nodes=2 cores=2
        0ms due a b
        100ms unmanaged b
        200ms usable 0-2
        1s poll
        > random
        0ms a on 3; b on 0 because by-lot
        200ms a on 1 because by-lot
        > random[every=1s]
        0ms a on 3; b on 0 because by-lot
        200ms a on 1 because by-lot
        1s a on 2 because drawn-again
    "#]]);
}

#[test]
fn with_a_single_cpu_no_job_is_placed() {
    check(expect![[r#"
        nodes=1
        0ms due a
        > random
        0ms note: nothing-to-place
    "#]]);
}

#[test]
fn the_same_seed_gives_the_same_plans() {
    let play =
        || plans("nodes=2 llcs=2 cores=2", "random", "0ms due a b c d\n250ms..500ms/250ms poll");
    assert_eq!(play(), play());
}
