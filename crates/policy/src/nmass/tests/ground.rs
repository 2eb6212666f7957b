//! Levels of domains, changes of usable CPUs, and notes.

use expect_test::expect;

use crate::testing::check;

#[test]
fn with_a_single_cpu_no_job_is_placed() {
    check(expect![[r#"
        nodes=1
        0ms due a
        1s poll
        > nmass
        0ms note: nothing-to-place
    "#]]);
}

#[test]
fn on_one_node_caches_count_as_processors_and_each_is_a_home() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        job a mpki=20
        job b mpki=1
        job c mpki=20
        0ms due a b c
        1s memory a 0=64; memory b 0=64; memory c 0=64; poll
        >> nmass
        0ms note: only one node with memory is usable: jobs are placed on llc domains, and memory placement has no effect
        0ms a on 2 because llc 0 had a pressure of 40.000 misses per 1000 instructions and llc 1 1.000, a difference of more than 2.000; this job has the lowest remote penalty (1.000, it has no home; home any node (it has no pages yet); at most 1.390 is accepted) of the jobs on llc 0 whose migration lowers the larger pressure: with its 20.000 on llc 1, 20.000 and 21.000 remain; cpu 2 had the fewest jobs on llc 1 (tier none)
        0ms b on 3 because its home is any node (it has no pages yet); llc 1 was the least occupied (0 of 2 slots); cpu 3 had the fewest jobs there
        0ms c on 0 because its home is any node (it has no pages yet); llc 0 was the least occupied (1 of 2 slots); cpu 0 had the fewest jobs there
    "#]]);
}

#[test]
fn with_core_domains_a_starting_job_gets_an_idle_core() {
    check(expect![[r#"
        nodes=1 cores=4
        job a b c
        0ms due c
        100ms due b
        1s memory b 0=64; memory c 0=64; poll
        1500ms due a
        2s memory a 0=64; poll
        > maximum-local
        0ms note: memory-gains-nothing
        0ms c on 0 because no-home
        100ms b on 1 because no-home
        1500ms a on 2 because no-home
    "#]]);
}

#[test]
fn with_llc_domains_a_job_stays_on_its_cache_of_the_home_node() {
    check(expect![[r#"
        nodes=2 llcs=2 cores=2
        job a b memory=1
        0ms due a b
        1s memory a 1=64; memory b 1=64; poll
        2s memory b 0=64; poll
        3s poll
        > maximum-local[domains=llc]
        0ms a on 4; b on 6 because home-free
        2s b on 0 because home-free
    "#]]);
}

#[test]
fn a_job_stays_within_its_affinity() {
    check(expect![[r#"
        nodes=2 cores=2
        job a cpus=1 memory=1 mpki=30
        job b memory=0 mpki=30
        job lost cpus=9
        0ms due a b lost
        1s poll
        > nmass
        0ms a on 1 because home-full
        0ms b on 2 because pressure-uneven
    "#]]);
}

#[test]
fn a_job_whose_cpu_goes_offline_is_placed_elsewhere_and_returns_home() {
    check(expect![[r#"
        nodes=2 cores=2
        job a b memory=1
        0ms due a b
        100ms usable 0-2
        200ms usable 0-1
        300ms usable 0-3
        >> maximum-local
        0ms a on 2 because its home is node 1 (its declared memory node), node 1 had 2 of 2 slots free when the job was placed, and its remote penalty is 1.000 (unknown); cpu 2 had the fewest jobs there
        0ms b on 3 because its home is node 1 (its declared memory node), node 1 had 1 of 2 slots free when the job was placed, and its remote penalty is 1.000 (unknown); cpu 3 had the fewest jobs there
        100ms b on 0 because some of the job's CPUs (3) became unusable: its home is node 1 (its declared memory node), which had no free slot when the job was placed (remote penalty 1.000, unknown); node 0 was the least occupied of the others (0 of 2 slots); cpu 0 had the fewest jobs there
        200ms note: the usable CPUs changed: jobs are placed on core domains from now on
        200ms a on 1 because some of the job's CPUs (2) became unusable: its home is node 1 (its declared memory node), which had no free slot when the job was placed (remote penalty 1.000, unknown); core 1 was the least occupied of the others (0 of 1 slots); cpu 1 had the fewest jobs there
        300ms note: the usable CPUs changed: jobs are placed on node domains from now on
        300ms a on 2 because its home is node 1 (its declared memory node), node 1 had 2 of 2 slots free when the job was placed, and its remote penalty is 1.000 (unknown); cpu 2 had the fewest jobs there
        300ms b on 3 because its home is node 1 (its declared memory node), node 1 had 1 of 2 slots free when the job was placed, and its remote penalty is 1.000 (unknown); cpu 3 had the fewest jobs there
    "#]]);
}

#[test]
fn threads_that_exceed_a_cache_get_other_cpus_of_the_node_and_stay() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        job wide threads=3
        job a
        0ms due wide a
        1s poll
        2s poll
        > nmass
        0ms note: memory-gains-nothing
        0ms wide on 0-2; a on 3 because no-home
    "#]]);
}

#[test]
fn an_unmanaged_job_takes_slots() {
    check(expect![[r#"
        nodes=2 cores=1
        job alien
        job a memory=0
        0ms due alien
        1ms unmanaged alien on 0
        2ms due a
        > maximum-local
        0ms alien on 0 because no-home
        2ms a on 1 because home-full
    "#]]);
}

#[test]
fn jobs_that_share_a_core_are_separated_when_another_core_becomes_idle() {
    check(expect![[r#"
        nodes=2 cores=2
        job a b c memory=0
        job d e memory=1
        0ms due a b c d e
        1s ended d
        2s ended b
        >> maximum-local
        0ms a on 0 because its home is node 0 (its declared memory node), node 0 had 4 of 4 slots free when the job was placed, and its remote penalty is 1.000 (unknown); cpu 0 had the fewest jobs there
        0ms b on 1 because its home is node 0 (its declared memory node), node 0 had 3 of 4 slots free when the job was placed, and its remote penalty is 1.000 (unknown); cpu 1 had the fewest jobs there
        0ms c on 0 because its home is node 0 (its declared memory node), node 0 had 2 of 4 slots free when the job was placed, and its remote penalty is 1.000 (unknown); cpu 0 had the fewest jobs there
        0ms d on 2 because its home is node 1 (its declared memory node), node 1 had 4 of 4 slots free when the job was placed, and its remote penalty is 1.000 (unknown); cpu 2 had the fewest jobs there
        0ms e on 3 because its home is node 1 (its declared memory node), node 1 had 3 of 4 slots free when the job was placed, and its remote penalty is 1.000 (unknown); cpu 3 had the fewest jobs there
        1s c on 2 because its home is node 0 (its declared memory node), which had no free slot when the job was placed (remote penalty 1.000, unknown); node 1 was the least occupied of the others (0 of 2 slots); cpu 2 had the fewest jobs there
        2s c on 1 because its home is node 0 (its declared memory node), node 0 had 1 of 2 slots free when the job was placed, and its remote penalty is 1.000 (unknown); cpu 1 had the fewest jobs there
    "#]]);
}

#[test]
fn a_restarted_job_has_no_history() {
    check(expect![[r#"
        nodes=2 cores=2
        job a b
        0ms due b
        1ms due a
        1s memory a 0=64; poll
        2s ended a b
        2100ms memory a; due a
        > maximum-local
        0ms b on 0 because no-home
        1ms a on 1 because no-home
        2100ms a on 0 because no-home
    "#]]);
}
