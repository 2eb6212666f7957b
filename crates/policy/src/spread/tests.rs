//! Decisions of `spread`, text in, text out: [`crate::testing`] says how a world is written.

use expect_test::{Expect, expect};

use crate::testing::{plans, stories};

const FIVE_JOBS: &str = "
    job a
    job b
    job c
    job d
    job e
    0ms due a b c d e
";

fn check(machine: &str, policy: &str, script: &str, expected: Expect) {
    expected.assert_eq(&plans(machine, policy, script));
}

#[test]
fn consecutive_jobs_go_to_other_nodes_first_and_then_to_other_caches() {
    check(
        "nodes=2 llcs=2 cores=2",
        "spread",
        FIVE_JOBS,
        expect![[r#"
        0ms a on 0 because next-in-turn
        0ms b on 4 because next-in-turn
        0ms c on 2 because next-in-turn
        0ms d on 6 because next-in-turn
        0ms e on 1 because next-in-turn
    "#]],
    );
}

#[test]
fn on_one_node_they_go_round_the_caches() {
    check(
        "nodes=1 llcs=3 cores=2",
        "spread",
        FIVE_JOBS,
        expect![[r#"
        0ms a on 0 because next-in-turn
        0ms b on 2 because next-in-turn
        0ms c on 4 because next-in-turn
        0ms d on 1 because next-in-turn
        0ms e on 3 because next-in-turn
    "#]],
    );
}

#[test]
fn on_one_cache_they_go_round_the_cores_before_siblings_share_one() {
    check(
        "nodes=1 cores=2 smt=2",
        "spread",
        FIVE_JOBS,
        expect![[r#"
        0ms a on 0 because next-in-turn
        0ms b on 2 because next-in-turn
        0ms c on 1 because next-in-turn
        0ms d on 3 because next-in-turn
        0ms e on 0 because next-in-turn
    "#]],
    );
}

#[test]
fn by_core_neighbours_in_turn_lie_on_other_nodes_and_caches() {
    let machine = "nodes=2 llcs=2 cores=2";
    check(
        machine,
        "spread[domains=core]",
        FIVE_JOBS,
        expect![[r#"
        0ms a on 0 because next-in-turn
        0ms b on 4 because next-in-turn
        0ms c on 2 because next-in-turn
        0ms d on 6 because next-in-turn
        0ms e on 1 because next-in-turn
    "#]],
    );
    check(
        "nodes=2 cores=3 llc=0",
        "spread[domains=core]",
        FIVE_JOBS,
        expect![[r#"
        0ms a on 0 because next-in-turn
        0ms b on 3 because next-in-turn
        0ms c on 1 because next-in-turn
        0ms d on 4 because next-in-turn
        0ms e on 2 because next-in-turn
    "#]],
    );
}

#[test]
fn with_a_single_cpu_nothing_is_placed() {
    check(
        "nodes=1",
        "spread",
        FIVE_JOBS,
        expect![[r#"
        0ms note: nothing-to-place
    "#]],
    );
}

#[test]
fn a_job_that_may_not_run_in_the_place_in_turn_takes_the_next_one() {
    check(
        "nodes=3 cores=2",
        "spread",
        "
        job a
        job tied cpus=4-5
        job b
        job lost cpus=9
        0ms due a tied b lost
        ",
        expect![[r#"
            0ms a on 0 because next-in-turn
            0ms tied on 4 because next-in-turn
            0ms b on 1 because next-in-turn
        "#]],
    );
}

#[test]
fn threads_get_a_cpu_each_in_one_cache_or_else_in_the_whole_node() {
    check(
        "nodes=2 llcs=2 cores=2",
        "spread",
        "
        job two threads=2
        job many threads=4
        0ms due two many
        ",
        expect![[r#"
            0ms two on 0-1 because next-in-turn
            0ms many on 4-7 because next-in-turn
        "#]],
    );
}

#[test]
fn memory_is_bound_to_the_node_of_the_cpus_when_told_so() {
    let script = "job a\njob b memory=0\njob c\n0ms due a b c";
    let expected = expect![[r#"
        0ms a on 0 because node 0 was next in round-robin order; cpu 0 had the fewest jobs there
        0ms a memory 0 because the job runs on node 0, so its memory is allocated there
        0ms b on 2 because node 1 was next in round-robin order; cpu 2 had the fewest jobs there
        0ms c on 1 because node 0 was next in round-robin order; cpu 1 had the fewest jobs there
        0ms c memory 0 because the job runs on node 0, so its memory is allocated there
    "#]];
    expected.assert_eq(&stories("nodes=2 cores=2", "spread[memory=bind]", script));
    check(
        "nodes=2 cores=2",
        "spread[memory=preferred]",
        "job a\n0ms due a",
        expect![[r#"
        0ms a on 0 because next-in-turn
        0ms a memory Preferred({0}) because memory-beside-cpus
    "#]],
    );
    check(
        "nodes=1 llcs=2",
        "spread[memory=bind]",
        "job a\n0ms due a",
        expect![[r#"
        0ms note: memory-not-bound
        0ms a on 0 because next-in-turn
    "#]],
    );
}

#[test]
fn nothing_moves_however_uneven_the_loads() {
    let script = "job a class=9\njob b class=9\n0ms due a b\n250ms poll 9000 0\n500ms poll 0 9000";
    check(
        "nodes=2 cores=2",
        "spread",
        script,
        expect![[r#"
        0ms a on 0 because next-in-turn
        0ms b on 2 because next-in-turn
    "#]],
    );
}

#[test]
fn a_job_whose_cpu_goes_offline_takes_the_next_place_in_turn() {
    let script = "job a\njob b\n0ms due a b\n100ms usable 1-3\n200ms usable 0-3";
    let expected = expect![[r#"
        0ms a on 0 because node 0 was next in round-robin order; cpu 0 had the fewest jobs there
        0ms b on 2 because node 1 was next in round-robin order; cpu 2 had the fewest jobs there
        100ms a on 1 because some of the job's CPUs (0) became unusable, so it was placed like a new job: node 0 was next in round-robin order; cpu 1 had the fewest jobs there
    "#]];
    expected.assert_eq(&stories("nodes=2 cores=2", "spread", script));
}
