//! Decisions of `di`, `dio` and `di-migrate`.

use expect_test::expect;

use crate::testing::check;

#[test]
fn jobs_are_assigned_to_caches_in_turn_highest_miss_rate_first() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        job a curve=1
        job b curve=20
        job c curve=4
        job d curve=9
        0ms due a b c d
        >> di
        0ms b on 0 because llc 0 had the fewest threads when the job was placed, with rank 1 of 4 by misses per 1000 instructions (20, from its profile); cpu 0 had the fewest there
        0ms d on 2 because llc 1 had the fewest threads when the job was placed, with rank 2 of 4 by misses per 1000 instructions (9, from its profile); cpu 2 had the fewest there
        0ms c on 1 because llc 0 had the fewest threads when the job was placed, with rank 3 of 4 by misses per 1000 instructions (4, from its profile); cpu 1 had the fewest there
        0ms a on 3 because llc 1 had the fewest threads when the job was placed, with rank 4 of 4 by misses per 1000 instructions (1, from its profile); cpu 3 had the fewest there
    "#]]);
}

#[test]
fn the_rate_of_a_profile_is_that_of_the_smallest_cache() {
    check(expect![[r#"
        llcs=2 llc=1M
        job fits curve=1M:40,16M:1
        job streams curve=1M:10,16M:10
        0ms due fits streams
        > di
        0ms fits on 0; streams on 1 because fewest-threads
    "#]]);
    check(expect![[r#"
        llcs=2 llc=16M
        job fits curve=1M:40,16M:1
        job streams curve=1M:10,16M:10
        0ms due fits streams
        > di
        0ms streams on 0; fits on 1 because fewest-threads
    "#]]);
}

#[test]
fn a_job_without_a_profile_counts_as_one_at_the_limit_of_devils() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        job quiet curve=0.1
        job unknown
        job loud curve=9
        0ms due quiet unknown loud
        >> di
        0ms note: jobs without a profile of misses over cache sizes (unknown) count as programs with 1.500 misses per 1000 instructions
        0ms loud on 0 because llc 0 had the fewest threads when the job was placed, with rank 1 of 3 by misses per 1000 instructions (9, from its profile); cpu 0 had the fewest there
        0ms unknown on 2 because llc 1 had the fewest threads when the job was placed, with rank 2 of 3 by misses per 1000 instructions (2, assumed, since it is unknown); cpu 2 had the fewest there
        0ms quiet on 1 because llc 0 had the fewest threads when the job was placed, with rank 3 of 3 by misses per 1000 instructions (0, from its profile); cpu 1 had the fewest there
    "#]]);
}

#[test]
fn counted_rates_assign_caches_again_in_each_interval() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        0ms due a b c d
        1s rates a=20 b=1 c=18 d=1; poll
        2s poll
        >> dio
        0ms a on 0 because llc 0 had the fewest threads when the job was placed, with rank 1 of 4 by misses per 1000 instructions (2, assumed, since it is unknown); cpu 0 had the fewest there
        0ms b on 2 because llc 1 had the fewest threads when the job was placed, with rank 2 of 4 by misses per 1000 instructions (2, assumed, since it is unknown); cpu 2 had the fewest there
        0ms c on 1 because llc 0 had the fewest threads when the job was placed, with rank 3 of 4 by misses per 1000 instructions (2, assumed, since it is unknown); cpu 1 had the fewest there
        0ms d on 3 because llc 1 had the fewest threads when the job was placed, with rank 4 of 4 by misses per 1000 instructions (2, assumed, since it is unknown); cpu 3 had the fewest there
        1s c on 2 because the job has rank 2 of 4 by misses per 1000 instructions (18, as counted), and jobs are assigned to 2 caches in turn, highest first: it gets cpu 2 on llc 1 (tier counters)
        1s b on 1 because the job has rank 3 of 4 by misses per 1000 instructions (1, as counted), and jobs are assigned to 2 caches in turn, highest first: it gets cpu 1 on llc 0 (tier counters)
    "#]]);
}

#[test]
fn a_job_that_stays_on_its_cache_keeps_its_cpu_and_as_published_gets_the_first_one() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        0ms due a b c d
        1s rates a=1 b=2 c=20 d=18; poll
        > dio
        0ms a on 0; b on 2; c on 1; d on 3 because fewest-threads
        1s b on 0; a on 2 because assigned-by-misses
        > dio[reading=paper]
        0ms a on 0; b on 2; c on 1; d on 3 because fewest-threads
        1s c on 0; d on 2; b on 1; a on 3 because assigned-by-misses
    "#]]);
}

#[test]
fn a_small_change_of_rates_causes_no_migration() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        0ms due a b
        1s rates a=5.1 b=5.4; poll
        2s rates a=5.4 b=5.1; poll
        3s rates a=5.4 b=5.1; poll
        > dio
        0ms a on 0; b on 2 because fewest-threads
    "#]]);
}

#[test]
fn a_rate_that_was_not_counted_is_unchanged() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        0ms due a b c
        1s rates a=1 b=2 c=20; poll
        2s rates a=- b=2 c=-; poll
        3s rates a=1 b=2 c=-; poll
        > dio
        0ms a on 0; b on 2; c on 1 because fewest-threads
    "#]]);
}

#[test]
fn a_single_thread_does_not_migrate() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        0ms due a
        1s rates a=20; poll
        2s rates a=1; poll
        > dio
        0ms a on 0 because fewest-threads
    "#]]);
}

#[test]
fn a_job_with_little_cpu_time_is_released_until_it_uses_more() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        0ms due a b c
        1s rates a=20 b=10 c=5; poll
        2s rates a=20@89 b=10@90 c=5; poll
        3s rates a=20@100 b=10 c=5; poll
        >> dio
        0ms a on 0 because llc 0 had the fewest threads when the job was placed, with rank 1 of 3 by misses per 1000 instructions (2, assumed, since it is unknown); cpu 0 had the fewest there
        0ms b on 2 because llc 1 had the fewest threads when the job was placed, with rank 2 of 3 by misses per 1000 instructions (2, assumed, since it is unknown); cpu 2 had the fewest there
        0ms c on 1 because llc 0 had the fewest threads when the job was placed, with rank 3 of 3 by misses per 1000 instructions (2, assumed, since it is unknown); cpu 1 had the fewest there
        2s a released because the job used 89 % of the CPU time of its 1 threads in the last interval, less than 90 %: the kernel schedules it
        2s b on 0 because the job has rank 1 of 2 by misses per 1000 instructions (10, as counted), and jobs are assigned to 2 caches in turn, highest first: it gets cpu 0 on llc 0 (tier counters)
        2s c on 2 because the job has rank 2 of 2 by misses per 1000 instructions (5, as counted), and jobs are assigned to 2 caches in turn, highest first: it gets cpu 2 on llc 1 (tier counters)
        3s a on 0 because the job has rank 1 of 3 by misses per 1000 instructions (20, as counted), and jobs are assigned to 2 caches in turn, highest first: it gets cpu 0 on llc 0 (tier counters)
        3s b on 2 because the job has rank 2 of 3 by misses per 1000 instructions (10, as counted), and jobs are assigned to 2 caches in turn, highest first: it gets cpu 2 on llc 1 (tier counters)
        3s c on 1 because the job has rank 3 of 3 by misses per 1000 instructions (5, as counted), and jobs are assigned to 2 caches in turn, highest first: it gets cpu 1 on llc 0 (tier counters)
    "#]]);
}

#[test]
fn a_job_is_judged_by_the_time_since_its_start() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        0ms due a
        1s rates a=20; poll
        1600ms due b
        2s rates a=20 b=30@40; poll
        3s rates a=20 b=30@40; poll
        > dio
        0ms a on 0 because fewest-threads
        1600ms b on 2 because fewest-threads
        2s b on 0; a on 2 because assigned-by-misses
        3s b released because not-busy
    "#]]);
}

#[test]
fn wait_time_counts_as_use_and_as_published_does_not() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        0ms due a b
        1s rates a=20 b=20; waits a=500ms/500ms b=0ms/1s; poll
        > dio
        0ms a on 0; b on 2 because fewest-threads
        > dio[reading=paper]
        0ms a on 0; b on 2 because fewest-threads
        1s a released because not-busy
    "#]]);
}

#[test]
fn more_threads_than_cpus_share_them_and_as_published_the_others_get_no_slot() {
    check(expect![[r#"
        llcs=2
        job a curve=30
        job b curve=20
        job c curve=10
        0ms due a b c
        > di
        0ms a on 0; b on 1; c on 0 because fewest-threads
        > di[reading=paper]
        0ms a on 0; b on 1 because fewest-threads
    "#]]);
}

#[test]
fn a_job_counts_as_its_threads_and_gets_a_cpu_for_each() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=4
        job wide threads=4 curve=20
        job a curve=30
        job huge threads=99 curve=1
        0ms due wide a
        1s due huge
        > di
        0ms a on 0; wide on 1-2,4-5 because fewest-threads
        1s huge on 0-7 because fewest-threads
    "#]]);
}

#[test]
fn a_job_gets_slots_only_within_its_affinity() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        job tied cpus=2 curve=1
        job a curve=30
        job b curve=20
        job nowhere cpus=9 curve=5
        0ms due tied a b nowhere
        1s rates tied=1 a=30 b=20; poll
        > di
        0ms a on 0; b on 3; tied on 2 because fewest-threads
    "#]]);
}

#[test]
fn cores_are_filled_before_their_siblings() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2 smt=2
        job a curve=50
        job b curve=40
        job c curve=30
        job d curve=20
        job e curve=10
        0ms due a b c d e
        > di
        0ms a on 0; b on 4; c on 2; d on 6; e on 1 because fewest-threads
    "#]]);
}

#[test]
fn an_unmanaged_job_keeps_its_slots() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        job a curve=30
        job b curve=20
        job c curve=10
        0ms due a b
        500ms unmanaged a on 2
        1s rates a=30 b=20; poll
        1500ms due c
        > di
        0ms a on 0; b on 2 because fewest-threads
        1500ms c on 0 because fewest-threads
    "#]]);
}

#[test]
fn a_job_that_starts_between_two_intervals_causes_no_other_migration() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        job a curve=10
        job b curve=5
        job new curve=30
        0ms due a b
        500ms due new
        1s rates a=10 b=5 new=30; poll
        >> di
        0ms a on 0 because llc 0 had the fewest threads when the job was placed, with rank 1 of 2 by misses per 1000 instructions (10, from its profile); cpu 0 had the fewest there
        0ms b on 2 because llc 1 had the fewest threads when the job was placed, with rank 2 of 2 by misses per 1000 instructions (5, from its profile); cpu 2 had the fewest there
        500ms new on 1 because llc 0 had the fewest threads when the job was placed, with rank 1 of 1 by misses per 1000 instructions (30, from its profile); cpu 1 had the fewest there
        1s a on 2 because the job has rank 2 of 3 by misses per 1000 instructions (10, from its profile), and jobs are assigned to 2 caches in turn, highest first: it gets cpu 2 on llc 1
        1s b on 0 because the job has rank 3 of 3 by misses per 1000 instructions (5, from its profile), and jobs are assigned to 2 caches in turn, highest first: it gets cpu 0 on llc 0
    "#]]);
}

#[test]
fn a_job_whose_cpu_goes_offline_is_placed_like_a_new_job() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        job a curve=30
        job b curve=20
        0ms due a b
        500ms usable 1-3
        >> di
        0ms a on 0 because llc 0 had the fewest threads when the job was placed, with rank 1 of 2 by misses per 1000 instructions (30, from its profile); cpu 0 had the fewest there
        0ms b on 2 because llc 1 had the fewest threads when the job was placed, with rank 2 of 2 by misses per 1000 instructions (20, from its profile); cpu 2 had the fewest there
        500ms a on 1 because llc 0 had the fewest threads when the job was placed, with rank 1 of 1 by misses per 1000 instructions (30, from its profile); cpu 1 had the fewest there; some of its CPUs (0) became unusable
    "#]]);
}

#[test]
fn without_two_caches_nodes_and_else_cores_count_as_caches() {
    check(expect![[r#"
        nodes=2 cores=2 no-llcs
        job a curve=30
        job b curve=20
        job c curve=10
        0ms due a b c
        > di
        0ms a on 0; b on 2; c on 1 because fewest-threads
    "#]]);
    check(expect![[r#"
        nodes=1 cores=2 smt=2
        job a curve=30
        job b curve=20
        job c curve=10
        0ms due a b c
        > di
        0ms a on 0; b on 2; c on 1 because fewest-threads
    "#]]);
    check(expect![[r#"
        nodes=2 llcs=2
        job a curve=30
        job b curve=20
        job c curve=10
        0ms due a b c
        > di[domains=node]
        0ms a on 0; b on 2; c on 1 because fewest-threads
    "#]]);
}

#[test]
fn with_a_single_cpu_no_job_is_placed() {
    check(expect![[r#"
        nodes=1
        0ms due a b
        1s rates a=1 b=9; poll
        > dio
        0ms note: nothing-to-place
    "#]]);
}

#[test]
fn without_counted_misses_the_run_ends_after_four_intervals() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        0ms due a b
        1s rates a=- b=-; poll
        2s poll
        3s poll
        4s poll
        >> dio
        0ms a on 0 because llc 0 had the fewest threads when the job was placed, with rank 1 of 2 by misses per 1000 instructions (2, assumed, since it is unknown); cpu 0 had the fewest there
        0ms b on 2 because llc 1 had the fewest threads when the job was placed, with rank 2 of 2 by misses per 1000 instructions (2, assumed, since it is unknown); cpu 2 had the fewest there
        4s abort because cache misses and instructions of tasks were neither counted nor declared for 4 intervals in a row: `evenkeel machine` lists the readable counters
        > di
        0ms note: no-miss-curve
        0ms a on 0; b on 2 because fewest-threads
    "#]]);
}

#[test]
fn pages_follow_to_another_node_with_di_migrate_and_stay_with_dio() {
    check(expect![[r#"
        nodes=2 cores=2
        0ms due a b c d
        500ms memory a 0=64
        1s rates a=1 b=20 c=1 d=1; poll
        2s rates a=1 b=20 c=1 d=1; poll
        > dio
        0ms a on 0; b on 2; c on 1; d on 3 because fewest-threads
        1s b on 0; a on 2 because assigned-by-misses
        >> di-migrate
        0ms a on 0 because llc 0 had the fewest threads when the job was placed, with rank 1 of 4 by misses per 1000 instructions (2, assumed, since it is unknown); cpu 0 had the fewest there
        0ms b on 2 because llc 1 had the fewest threads when the job was placed, with rank 2 of 4 by misses per 1000 instructions (2, assumed, since it is unknown); cpu 2 had the fewest there
        0ms c on 1 because llc 0 had the fewest threads when the job was placed, with rank 3 of 4 by misses per 1000 instructions (2, assumed, since it is unknown); cpu 1 had the fewest there
        0ms d on 3 because llc 1 had the fewest threads when the job was placed, with rank 4 of 4 by misses per 1000 instructions (2, assumed, since it is unknown); cpu 3 had the fewest there
        1s b on 0 because the job has rank 1 of 4 by misses per 1000 instructions (20, as counted), and jobs are assigned to 2 caches in turn, highest first: it gets cpu 0 on llc 0 (tier counters)
        1s b pages from node1 to node0 because the job migrates from node 1 to node 0, and its own pages with it
        1s a on 2 because the job has rank 2 of 4 by misses per 1000 instructions (1, as counted), and jobs are assigned to 2 caches in turn, highest first: it gets cpu 2 on llc 1 (tier counters)
        1s a pages from node0 to node1 because the job migrates from node 0 to node 1, and its own pages (64.0 MiB) with it
    "#]]);
}

#[test]
fn pages_of_a_released_job_follow_from_the_node_that_holds_them() {
    // The kernel migrated the released job to another node, which is no migration of the policy.
    check(expect![[r#"
        nodes=2 cores=2
        0ms due a b
        500ms memory a 1=64; memory b 1=64
        1s rates a=20@50 b=1; poll
        2s rates a=20 b=1; poll
        > di-migrate
        0ms a on 0; b on 2 because fewest-threads
        1s a released because not-busy
        2s a on 0 because assigned-by-misses
        2s a pages from node1 to node0 because memory-moves-with-job
    "#]]);
}

#[test]
fn pages_stay_when_a_job_migrates_between_caches_of_one_node() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        0ms due a b
        1s rates a=1 b=20; poll
        > di-migrate
        0ms a on 0; b on 2 because fewest-threads
        1s b on 0; a on 2 because assigned-by-misses
    "#]]);
}

#[test]
fn a_page_move_is_limited_to_the_free_memory_of_the_target() {
    check(expect![[r#"
        nodes=2 cores=2
        free 0=512 1=16
        0ms due a b
        500ms memory a 0=64 1=1; memory b 1=64
        1s rates a=1 b=20; poll
        > di-migrate
        0ms a on 0; b on 2 because fewest-threads
        1s b on 0 because assigned-by-misses
        1s b pages from node1 to node0 because memory-moves-with-job
        1s a on 2 because assigned-by-misses
        1s a pages from node0 to node1, at most 16.0 MiB because memory-moves-with-job
    "#]]);
}

#[test]
fn a_restarted_job_has_no_counted_rate() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        0ms due a b
        1s rates a=1 b=20; poll
        1500ms ended b
        1600ms due b
        >> dio
        0ms a on 0 because llc 0 had the fewest threads when the job was placed, with rank 1 of 2 by misses per 1000 instructions (2, assumed, since it is unknown); cpu 0 had the fewest there
        0ms b on 2 because llc 1 had the fewest threads when the job was placed, with rank 2 of 2 by misses per 1000 instructions (2, assumed, since it is unknown); cpu 2 had the fewest there
        1s b on 0 because the job has rank 1 of 2 by misses per 1000 instructions (20, as counted), and jobs are assigned to 2 caches in turn, highest first: it gets cpu 0 on llc 0 (tier counters)
        1s a on 2 because the job has rank 2 of 2 by misses per 1000 instructions (1, as counted), and jobs are assigned to 2 caches in turn, highest first: it gets cpu 2 on llc 1 (tier counters)
        1600ms b on 0 because llc 0 had the fewest threads when the job was placed, with rank 1 of 1 by misses per 1000 instructions (2, assumed, since it is unknown); cpu 0 had the fewest there
    "#]]);
}
