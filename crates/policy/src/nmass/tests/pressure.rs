//! Step 3: migrations that lower the pressure on a cache.

use expect_test::expect;

use crate::testing::check;

/// The map is the same in every interval, so no job migrates back and forth. Each limit alone keeps the jobs on
/// the node of their pages, as does `maximum-local`.
#[test]
fn of_jobs_with_all_pages_on_one_node_the_one_with_the_lowest_penalty_migrates_within_the_limits() {
    check(expect![[r#"
        nodes=2 cores=4
        job a sens=remote:300
        job b sens=remote:200
        job c sens=remote:100
        job d sens=remote:50
        0ms due a b c d
        1s memory a 0=64; memory b 0=64; memory c 0=64; memory d 0=64; counts a in=1s instructions=1000000000 llc-misses=20000000; counts b in=1s instructions=1000000000 llc-misses=20000000; counts c in=1s instructions=1000000000 llc-misses=20000000; counts d in=1s instructions=1000000000 llc-misses=5000000; poll
        2s..29s/1s poll
        >> nmass
        0ms a on 0 because its home is any node (it has no pages yet); node 0 was the least occupied (0 of 4 slots); cpu 0 had the fewest jobs there
        0ms b on 4 because its home is any node (it has no pages yet); node 1 was the least occupied (0 of 4 slots); cpu 4 had the fewest jobs there
        0ms c on 1 because its home is any node (it has no pages yet); node 0 was the least occupied (1 of 4 slots); cpu 1 had the fewest jobs there
        0ms d on 5 because its home is any node (it has no pages yet); node 1 was the least occupied (1 of 4 slots); cpu 5 had the fewest jobs there
        1s b on 1 because its home is node 0 (which holds 64.0 MiB of its 64.0 MiB), node 0 had 3 of 4 slots free when the job was placed, and its remote penalty is 1.200 (as declared); cpu 1 had the fewest jobs there
        1s c on 4 because node 0 had a pressure of 60.000 misses per 1000 instructions and node 1 5.000, a difference of more than 2.000; this job has the lowest remote penalty (1.100, as declared; home node 0 (which holds 64.0 MiB of its 64.0 MiB); at most 1.550 is accepted) of the jobs on node 0 whose migration lowers the larger pressure: with its 20.000 on node 1, 40.000 and 25.000 remain; cpu 4 had the fewest jobs on node 1 (tier counters)
        > maximum-local
        0ms a on 0; b on 4; c on 1; d on 5 because no-home
        1s b on 2; d on 3 because home-free
        > nmass[k=0.0001]
        0ms a on 0; b on 4; c on 1; d on 5 because no-home
        1s b on 2; d on 3 because home-free
        > nmass[d_min=70]
        0ms a on 0; b on 4; c on 1; d on 5 because no-home
        1s b on 2; d on 3 because home-free
    "#]]);
}

#[test]
fn without_a_free_core_the_job_with_the_fewest_misses_is_swapped() {
    check(expect![[r#"
        nodes=2 cores=2
        job a memory=0 mpki=20
        job b memory=0 mpki=18
        job c memory=1 mpki=1
        job d memory=1 mpki=0.5
        0ms due a b c d
        >> nmass
        0ms a on 2 because node 0 had a pressure of 38.000 misses per 1000 instructions and node 1 1.500, a difference of more than 2.000; this job has the lowest remote penalty (1.000, unknown; home node 0 (its declared memory node); at most 1.365 is accepted) of the jobs on node 0 whose migration lowers the larger pressure: with its 20.000 on node 1 and the 0.500 of d on node 0, 18.500 and 21.000 remain; cpu 2 had the fewest jobs on node 1 (tier none)
        0ms b on 0 because its home is node 0 (its declared memory node), node 0 had 1 of 2 slots free when the job was placed, and its remote penalty is 1.000 (unknown); cpu 0 had the fewest jobs there
        0ms c on 1 because node 1 had a pressure of 21.000 misses per 1000 instructions and node 0 18.500, a difference of more than 2.000; this job has the lowest remote penalty (1.000, unknown; home node 1 (its declared memory node); at most 1.025 is accepted) of the jobs on node 1 whose migration lowers the larger pressure: with its 1.000 on node 0 and the 0.500 of d on node 1, 20.500 and 19.000 remain; cpu 1 had the fewest jobs on node 0 (tier none)
        0ms d on 3 because node 1 had a pressure of 21.000 misses per 1000 instructions and node 0 18.500, a difference of more than 2.000, and node 0 had no free slot: c (1.000) migrates there, and this job (0.500), which has the fewest misses of the movable jobs there (remote penalty 1.000, unknown; home node 1 (its declared memory node); at most 1.025 is accepted), migrates to node 1; 20.500 and 19.000 remain; cpu 3 had the fewest jobs on node 1 (tier none)
    "#]]);
}

#[test]
fn the_published_rules_have_no_swap() {
    check(expect![[r#"
        nodes=2 cores=2
        job a memory=0 mpki=20
        job b memory=0 mpki=18
        job c memory=1 mpki=1
        job d memory=1 mpki=0.5
        0ms due a b c d
        > nmass[reading=paper]
        0ms a on 0; b on 1; c on 2; d on 3 because home-free
        > nmass[reading=paper,swap=yes]
        0ms a on 2 because pressure-uneven
        0ms b on 0 because home-free
        0ms c on 1 because pressure-uneven
        0ms d on 3 because pressure-swapped
    "#]]);
}

#[test]
fn a_job_above_the_penalty_limit_is_not_swapped() {
    check(expect![[r#"
        nodes=2 cores=2
        job a memory=0 mpki=20
        job b memory=0 mpki=18
        job c memory=1 mpki=1
        job d memory=1 mpki=0.5 sens=remote:900
        0ms due a b c d
        > nmass
        0ms a on 2 because pressure-uneven
        0ms b on 0 because home-free
        0ms c on 1 because pressure-swapped
        0ms d on 3 because home-free
    "#]]);
}

#[test]
fn misses_are_those_of_the_profile_until_they_are_counted() {
    check(expect![[r#"
        nodes=2 cores=4
        job a b memory=0 mpki=20
        0ms due a b
        1s counts b in=1s instructions=1000000000 llc-misses=1000000; poll
        > nmass
        0ms a on 4 because pressure-uneven
        0ms b on 0 because home-free
    "#]]);
}

#[test]
fn each_thread_of_a_job_adds_its_pressure() {
    check(expect![[r#"
        nodes=2 cores=4
        job a memory=0 mpki=4 threads=3
        job b memory=0 mpki=9
        0ms due a b
        > nmass
        0ms a on 4-6 because pressure-uneven
        0ms b on 0 because home-free
    "#]]);
}

#[test]
fn without_known_misses_jobs_stay_and_the_run_ends_after_four_intervals() {
    check(expect![[r#"
        nodes=2 cores=2
        job a b memory=0
        0ms due a b
        1s waits a=0ms/1s; poll
        2s poll
        3s poll
        4s poll
        >> nmass
        0ms a on 0 because its home is node 0 (its declared memory node), node 0 had 2 of 2 slots free when the job was placed, and its remote penalty is 1.000 (unknown); cpu 0 had the fewest jobs there
        0ms b on 1 because its home is node 0 (its declared memory node), node 0 had 1 of 2 slots free when the job was placed, and its remote penalty is 1.000 (unknown); cpu 1 had the fewest jobs there
        1s note: cache misses per instruction are neither counted nor declared by a profile: jobs stay on the node of their memory, whatever the pressure on its cache
        4s abort because cache misses and instructions of tasks were neither counted nor declared for 4 intervals in a row: `evenkeel machine` lists the readable counters
    "#]]);
}

#[test]
fn an_unmanaged_job_adds_its_pressure_where_it_is() {
    check(expect![[r#"
        nodes=2 cores=4
        job alien mpki=40
        job a memory=0 mpki=9
        0ms due alien
        1ms unmanaged alien on 0
        2ms due a
        > nmass
        0ms alien on 0 because no-home
        2ms a on 4 because pressure-uneven
    "#]]);
}
