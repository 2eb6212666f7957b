//! Decisions of `spread`.

use expect_test::expect;

use crate::testing::check;

#[test]
fn consecutive_jobs_start_on_different_nodes_first_then_on_different_caches() {
    check(expect![[r#"
        nodes=2 llcs=2 cores=2
        0ms due a b c d e
        > spread
        0ms a on 0; b on 4; c on 2; d on 6; e on 1 because next-in-turn
    "#]]);
}

#[test]
fn on_one_node_consecutive_jobs_start_on_different_caches() {
    check(expect![[r#"
        nodes=1 llcs=3 cores=2
        0ms due a b c d e
        > spread
        0ms a on 0; b on 2; c on 4; d on 1; e on 3 because next-in-turn
    "#]]);
}

#[test]
fn on_one_cache_cores_are_filled_before_their_smt_siblings() {
    check(expect![[r#"
        nodes=1 cores=2 smt=2
        0ms due a b c d e
        > spread
        0ms a on 0; b on 2; c on 1; d on 3; e on 0 because next-in-turn
    "#]]);
}

#[test]
fn with_core_domains_consecutive_jobs_start_on_different_nodes_and_caches() {
    check(expect![[r#"
        nodes=2 llcs=2 cores=2
        0ms due a b c d e
        > spread[domains=core]
        0ms a on 0; b on 4; c on 2; d on 6; e on 1 because next-in-turn
    "#]]);
    check(expect![[r#"
        nodes=2 cores=3 llc=0
        0ms due a b c d e
        > spread[domains=core]
        0ms a on 0; b on 3; c on 1; d on 4; e on 2 because next-in-turn
    "#]]);
}

#[test]
fn with_a_single_cpu_no_job_is_placed() {
    check(expect![[r#"
        nodes=1
        0ms due a b c d e
        > spread
        0ms note: nothing-to-place
    "#]]);
}

#[test]
fn a_job_that_may_not_use_the_next_domain_gets_the_one_after_it() {
    check(expect![[r#"
        nodes=3 cores=2
        job a
        job tied cpus=4-5
        job b
        job lost cpus=9
        0ms due a tied b lost
        > spread
        0ms a on 0; tied on 4; b on 1 because next-in-turn
    "#]]);
}

#[test]
fn threads_get_a_cpu_each_in_one_cache_or_else_in_the_whole_node() {
    check(expect![[r#"
        nodes=2 llcs=2 cores=2
        job two threads=2
        job many threads=4
        0ms due two many
        > spread
        0ms two on 0-1; many on 4-7 because next-in-turn
    "#]]);
}

#[test]
fn memory_is_bound_to_the_node_of_the_cpus_when_configured() {
    check(expect![[r#"
        nodes=2 cores=2
        job a
        job b memory=0
        job c
        0ms due a b c
        >> spread[memory=bind]
        0ms a on 0 because node 0 was next in round-robin order; cpu 0 had the fewest jobs there
        0ms a memory bind 0 because the job runs on node 0, so its memory is allocated there
        0ms b on 2 because node 1 was next in round-robin order; cpu 2 had the fewest jobs there
        0ms c on 1 because node 0 was next in round-robin order; cpu 1 had the fewest jobs there
        0ms c memory bind 0 because the job runs on node 0, so its memory is allocated there
        > spread[memory=preferred]
        0ms a on 0 because next-in-turn
        0ms a memory prefer 0 because memory-beside-cpus
        0ms b on 2; c on 1 because next-in-turn
        0ms c memory prefer 0 because memory-beside-cpus
    "#]]);
    check(expect![[r#"
        nodes=1 llcs=2
        0ms due a
        > spread[memory=bind]
        0ms note: memory-not-bound
        0ms a on 0 because next-in-turn
    "#]]);
}

#[test]
fn no_job_migrates_whatever_the_loads() {
    check(expect![[r#"
        nodes=2 cores=2
        job a b class=9
        0ms due a b
        250ms poll 9000 0
        500ms poll 0 9000
        > spread
        0ms a on 0; b on 2 because next-in-turn
    "#]]);
}

#[test]
fn a_job_whose_cpu_goes_offline_gets_the_next_domain() {
    check(expect![[r#"
        nodes=2 cores=2
        0ms due a b
        100ms usable 1-3
        200ms usable 0-3
        >> spread
        0ms a on 0 because node 0 was next in round-robin order; cpu 0 had the fewest jobs there
        0ms b on 2 because node 1 was next in round-robin order; cpu 2 had the fewest jobs there
        100ms a on 1 because some of the job's CPUs (0) became unusable, so it was placed like a new job: node 0 was next in round-robin order; cpu 1 had the fewest jobs there
    "#]]);
}
