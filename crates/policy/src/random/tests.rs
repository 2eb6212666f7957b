//! Decisions of `random`, text in, text out: [`crate::testing`] says how a world is written.

use std::collections::BTreeSet;

use expect_test::{Expect, expect};

use crate::testing::{plans, stories};

fn check(machine: &str, policy: &str, script: &str, expected: Expect) {
    expected.assert_eq(&plans(machine, policy, script));
}

const FOUR: &str = "job a\njob b\njob c\njob d\n0ms due a b c d\n250ms poll\n500ms poll";

#[test]
fn programs_start_on_cpus_drawn_by_lot_and_stay_there() {
    expect![[r#"
        0ms a on 3 because node 1 was drawn at random from the 2 domains that the job may use, with cpu 3
        0ms b on 0 because node 0 was drawn at random from the 2 domains that the job may use, with cpu 0
        0ms c on 1 because node 0 was drawn at random from the 2 domains that the job may use, with cpu 1
        0ms d on 2 because node 1 was drawn at random from the 2 domains that the job may use, with cpu 2
    "#]]
    .assert_eq(&stories("nodes=2 cores=2", "random", FOUR));
}

#[test]
fn every_cpu_is_drawn_sooner_or_later() {
    let mut script = String::new();
    (0..200).for_each(|n| script.push_str(&format!("job j{n}\n")));
    (0..200).for_each(|n| script.push_str(&format!("{n}ms due j{n}\n")));
    let told = plans("nodes=2 llcs=2 cores=2", "random", &script);
    let cpus: BTreeSet<&str> = told.lines().filter_map(|line| line.split(' ').nth(3)).collect();
    assert_eq!(cpus.len(), 8);
}

#[test]
fn lots_are_drawn_again_every_so_often_if_asked_for() {
    check(
        "nodes=2 cores=2",
        "random[every=500ms]",
        FOUR,
        expect![[r#"
        0ms a on 3 because by-lot
        0ms b on 0 because by-lot
        0ms c on 1 because by-lot
        0ms d on 2 because by-lot
        500ms a on 1 because drawn-again
        500ms b on 3 because drawn-again
    "#]],
    );
}

#[test]
fn a_job_gets_cpus_for_its_threads_where_it_may_run() {
    check(
        "nodes=2 llcs=2 cores=2",
        "random[domains=llc]",
        "
        job wide threads=3
        job tied cpus=5
        job nowhere cpus=99
        job huge threads=99
        0ms due wide tied nowhere huge
        ",
        expect![[r#"
            0ms wide on 4,6-7 because by-lot
            0ms tied on 5 because by-lot
            0ms huge on 0-7 because by-lot
        "#]],
    );
}

#[test]
fn a_whole_place_is_given_if_asked_for() {
    check(
        "nodes=2 cores=2",
        "random[bind=domain]",
        "job a\n0ms due a",
        expect![[r#"
        0ms a on 2-3 because by-lot
    "#]],
    );
}

#[test]
fn a_job_whose_cpu_went_offline_draws_again_and_one_that_is_not_ours_does_not() {
    let script = "job a\njob b\n0ms due a b\n100ms hands-off b\n200ms usable 0-2";
    check(
        "nodes=2 cores=2",
        "random",
        script,
        expect![[r#"
            0ms a on 3 because by-lot
            0ms b on 0 because by-lot
            200ms a on 1 because by-lot
        "#]],
    );
    let script = "job a\njob b\n0ms due a b\n100ms hands-off b\n200ms usable 0-2\n1s poll";
    check(
        "nodes=2 cores=2",
        "random[every=1s]",
        script,
        expect![[r#"
            0ms a on 3 because by-lot
            0ms b on 0 because by-lot
            200ms a on 1 because by-lot
            1s a on 2 because drawn-again
        "#]],
    );
}

#[test]
fn with_a_single_cpu_nothing_is_placed() {
    check(
        "nodes=1",
        "random",
        "job a\n0ms due a",
        expect![[r#"
        0ms note: nothing-to-place
    "#]],
    );
}

#[test]
fn the_same_seed_draws_the_same_lots() {
    let play = || plans("nodes=2 llcs=2 cores=2", "random", FOUR);
    assert_eq!(play(), play());
}
