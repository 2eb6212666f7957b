//! Where programs start.

use expect_test::expect;

use crate::testing::check;

#[test]
fn a_job_starts_on_the_node_with_the_lowest_load() {
    check(expect![[r#"
        nodes=2 cores=2
        job a class=1
        250ms poll 500 20
        300ms due a
        > dfs
        300ms a on 2 because least-load
    "#]]);
}

#[test]
fn jobs_that_start_together_without_known_loads_are_spread_by_number() {
    check(expect![[r#"
        nodes=4 cores=2
        job a b c d e class=3
        0ms due a b c d e
        > dfs
        0ms a on 0; b on 2; c on 4 because lowest-number
        0ms d on 6 because fewest-jobs
        0ms e on 1 because lowest-number
    "#]]);
}

#[test]
fn of_equal_loads_and_numbers_of_jobs_the_smaller_sum_of_classes_decides() {
    check(expect![[r#"
        nodes=2 cores=2
        job heavy class=9
        job light class=2
        job next class=5
        0ms due heavy light
        10ms due next
        > dfs
        0ms heavy on 0 because lowest-number
        0ms light on 2 because fewest-jobs
        10ms next on 3 because smallest-classes
    "#]]);
}

#[test]
fn a_starting_job_is_expected_to_add_the_mean_load_of_its_class() {
    // b and c would both go to node 1: its load stays 100 until the next poll.
    check(expect![[r#"
        nodes=2 cores=2
        job a b c d class=6
        0ms due a
        250ms poll 700 0 with a=700
        500ms poll 700 100 with a=700
        510ms due b
        520ms due c
        530ms due d
        > dfs[min_load=1000000]
        0ms a on 0 because lowest-number
        510ms b on 2 because least-load
        520ms c on 1 because least-expected-load
        530ms d on 3 because least-expected-load
    "#]]);
}

#[test]
fn expected_loads_are_discarded_at_the_next_poll() {
    check(expect![[r#"
        nodes=2 cores=2
        job a b c class=6
        0ms due a
        250ms poll 700 0 with a=700
        500ms poll 700 0 with a=700
        510ms due b
        750ms poll 700 10 with a=700 b=10; due c
        > dfs[min_load=1000000]
        0ms a on 0 because lowest-number
        510ms b on 2 because least-load
        750ms c on 3 because least-load
    "#]]);
}

#[test]
fn expected_loads_are_kept_while_loads_are_unreadable() {
    check(expect![[r#"
        nodes=2 cores=2
        job a b c class=6
        0ms due a
        250ms poll 700 0 with a=700
        500ms poll 100 0 with a=100
        510ms due b
        750ms poll unreadable; due c
        > dfs[min_load=1000000]
        0ms a on 0 because lowest-number
        510ms b on 2 because least-load
        750ms c on 1 because least-expected-load
    "#]]);
}

#[test]
fn a_job_started_within_an_interval_does_not_change_the_load_of_its_class() {
    // Had the 10 of a's first, partial interval counted, c would be expected to show 355, not 700.
    check(expect![[r#"
        nodes=2 cores=2
        job a b c class=6
        240ms due a
        250ms poll 10 0 with a=10
        500ms poll 700 0 with a=700
        510ms due b
        520ms due c
        >> dfs[min_load=1000000]
        240ms a on 0 because node 0 has the lowest number of 2 domains with equal load, jobs and classes (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
        510ms b on 2 because node 1 had the lowest load (0 of 700 memory operations in the last interval); cpu 2 had the fewest jobs there (tier bandwidth)
        520ms c on 1 because node 0 has the lowest number of 2 domains with equal load, jobs and classes (load 700 of 1400 memory operations, of which 700 are expected of jobs started since); cpu 1 had the fewest jobs there (tier bandwidth)
    "#]]);
}

#[test]
fn a_change_of_the_signal_tier_discards_class_loads() {
    check(expect![[r#"
        nodes=2 cores=2
        job a b c class=6
        0ms due a
        250ms poll 700 0 with a=700
        500ms poll 700 0 with a=700
        tier declared
        750ms poll 9 0 with a=9
        760ms due b
        770ms due c
        >> dfs[min_load=1000000]
        0ms a on 0 because node 0 has the lowest number of 2 domains with equal load, jobs and classes (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
        750ms note: memory counters are not readable: the load of a domain is the sum of declared class times CPU time over its tasks
        760ms b on 2 because node 1 had the lowest load (0 of 9 declared memory operations in the last interval); cpu 2 had the fewest jobs there (tier declared)
        770ms c on 1 because node 0 has the lowest number of 2 domains with equal load, jobs and classes (load 9 of 18 declared memory operations, of which 9 are expected of jobs started since); cpu 1 had the fewest jobs there (tier declared)
    "#]]);
}

#[test]
fn within_a_node_the_cpu_with_the_fewest_jobs_is_selected() {
    check(expect![[r#"
        nodes=2 cores=3
        job a b c d class=1
        0ms due a b c
        10ms due d
        20ms ended b
        30ms due b
        > dfs[start=plain]
        0ms a on 0; b on 1; c on 2 because lowest-number
        10ms d on 0 because lowest-number
        30ms b on 1 because lowest-number
    "#]]);
}

#[test]
fn a_job_with_threads_gets_as_many_cpus_and_all_of_a_smaller_domain() {
    check(expect![[r#"
        nodes=2 cores=4
        job a class=1
        job two class=1 threads=2
        job many class=1 threads=9
        0ms due a two many
        > dfs[start=plain]
        0ms a on 0; two on 1-2; many on 0-3 because lowest-number
    "#]]);
}

#[test]
fn a_job_with_more_threads_than_its_core_has_cpus_gets_further_cores_of_the_node() {
    check(expect![[r#"
        nodes=1 llcs=1 cores=4
        job a class=1
        job four class=1 threads=4
        job two class=1 threads=2
        0ms due a two four
        > dfs
        0ms note: memory-gains-nothing
        0ms a on 0; four on 0-3; two on 1-2 because lowest-number
    "#]]);
}

#[test]
fn with_bind_domain_a_job_is_bound_to_all_cpus_of_its_domain() {
    check(expect![[r#"
        nodes=2 cores=4
        job a b class=1
        job c class=1 cpus=1-2
        0ms due a b c
        > dfs[bind=domain]
        0ms a on 0-3 because lowest-number
        0ms b on 4-7 because fewest-jobs
        0ms c on 1-2 because only-domain
    "#]]);
}

#[test]
fn a_job_starts_only_where_it_may_run() {
    check(expect![[r#"
        nodes=2 cores=2
        job tied class=1 cpus=1,3
        job nodal class=1 nodes=0
        job free class=1
        250ms poll 900 10
        300ms due tied nodal free
        > dfs
        300ms tied on 3 because least-load
        300ms nodal on 0 because only-domain
        300ms free on 2 because least-load
    "#]]);
}

#[test]
fn a_job_without_usable_cpus_is_not_placed() {
    check(expect![[r#"
        nodes=2 cores=2
        job a class=1 cpus=3
        10ms usable 0-2
        20ms due a
        > dfs
    "#]]);
}

#[test]
fn as_published_all_jobs_started_between_two_polls_start_on_one_node() {
    check(expect![[r#"
        nodes=2 cores=2
        job a b c class=3
        0ms due a b c
        250ms poll 30 20
        260ms due a b
        > dfs[reading=paper]
        0ms a on 0; b on 1; c on 0 because lowest-number
        260ms a on 2; b on 3 because least-load
    "#]]);
}

#[test]
fn the_reason_of_a_start_contains_the_deciding_criterion() {
    check(expect![[r#"
        nodes=2 cores=2
        job a b class=3
        job c class=4
        job d class=1
        job e class=1 nodes=1
        0ms due a
        10ms due b
        20ms due c
        30ms due d
        250ms poll 10 5 with a=5 b=5 c=5
        500ms poll 10 5 with a=5 b=5 c=5
        510ms due d
        520ms due e
        >> dfs
        0ms a on 0 because node 0 has the lowest number of 2 domains with equal load, jobs and classes (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
        10ms b on 2 because node 1 had the fewest jobs (0) of the domains with the lowest load (0 of 0 memory operations); cpu 2 had the fewest jobs there (tier bandwidth)
        20ms c on 1 because node 0 has the lowest number of 2 domains with equal load, jobs and classes (load 0 of 0 memory operations); cpu 1 had the fewest jobs there (tier bandwidth)
        30ms d on 3 because node 1 had the fewest jobs (1) of the domains with the lowest load (0 of 0 memory operations); cpu 3 had the fewest jobs there (tier bandwidth)
        510ms d on 3 because node 1 had the lowest load (5 of 15 memory operations in the last interval); cpu 3 had the fewest jobs there (tier bandwidth)
        520ms e on 2 because node 1 is the only domain that the job may use (load 5 of 15 memory operations); cpu 2 had the fewest jobs there (tier bandwidth)
    "#]]);
}

#[test]
fn as_published_a_start_compares_loads_only() {
    check(expect![[r#"
        nodes=2 cores=2
        job a class=3
        0ms due a
        >> dfs[reading=paper]
        0ms a on 0 because node 0 has the lowest number of 2 domains with equal load (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
    "#]]);
}

#[test]
fn a_job_whose_cpu_goes_offline_is_placed_like_a_new_job() {
    check(expect![[r#"
        nodes=2 cores=2
        job a b class=3
        0ms due a b
        250ms poll 10 50
        300ms usable 0-1,3
        >> dfs
        0ms a on 0 because node 0 has the lowest number of 2 domains with equal load, jobs and classes (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
        0ms b on 2 because node 1 had the fewest jobs (0) of the domains with the lowest load (0 of 0 memory operations); cpu 2 had the fewest jobs there (tier bandwidth)
        300ms b on 1 because some of the job's CPUs (2) became unusable, so it was placed like a new job: on node 0 (the lowest load) with a load of 10 of 60 memory operations; cpu 1 had the fewest jobs there (tier bandwidth)
    "#]]);
}

#[test]
fn a_job_that_keeps_a_cpu_for_each_thread_stays_when_another_goes_offline() {
    check(expect![[r#"
        nodes=2 cores=4
        job a class=3 threads=2
        0ms due a
        300ms usable 1-7
        400ms usable 3-7
        > dfs[bind=domain]
        0ms a on 0-3 because lowest-number
        400ms a on 4-7 because cpus-unusable
    "#]]);
}

#[test]
fn every_job_leaves_a_node_that_goes_offline() {
    check(expect![[r#"
        nodes=3 cores=2
        job a b c class=3
        job d class=3 nodes=0
        0ms due a b c d
        300ms usable 2-5
        > dfs
        0ms a on 0; b on 2 because lowest-number
        0ms c on 4 because fewest-jobs
        0ms d on 1 because only-domain
        300ms a on 3 because cpus-unusable
    "#]]);
}

#[test]
fn an_unmanaged_job_is_not_placed_again() {
    check(expect![[r#"
        nodes=2 cores=2
        job a class=3
        0ms due a
        10ms unmanaged a
        300ms usable 1-3
        > dfs
        0ms a on 0 because lowest-number
    "#]]);
}

#[test]
fn an_unmanaged_job_counts_for_its_cpu_but_not_for_its_domain() {
    // Neither a nor b counts for a node, so c finds both nodes empty; but both are on CPU 2, so d
    // goes to the other CPU of node 1.
    check(expect![[r#"
        nodes=2 cores=2
        job a b class=9
        job c d class=1
        0ms due a b
        10ms unmanaged a on 2; unmanaged b
        20ms due c
        30ms due d
        > dfs
        0ms a on 0 because lowest-number
        0ms b on 2 because fewest-jobs
        20ms c on 0 because lowest-number
        30ms d on 3 because fewest-jobs
    "#]]);
}

#[test]
fn the_expected_load_of_a_job_that_did_not_start_is_removed() {
    // b could not be started, c could but is over, d is not where it was to be: of e's class nothing
    // is expected on node 1.
    check(expect![[r#"
        nodes=2 cores=2
        job a b c d e class=6
        0ms due a
        250ms poll 700 0 with a=700
        500ms poll 700 0 with a=700
        510ms due b
        511ms ended b
        520ms due c
        530ms ended c
        deny d
        540ms due d
        550ms due e
        >> dfs[min_load=1000000]
        0ms a on 0 because node 0 has the lowest number of 2 domains with equal load, jobs and classes (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
        510ms b on 2 because node 1 had the lowest load (0 of 700 memory operations in the last interval); cpu 2 had the fewest jobs there (tier bandwidth)
        520ms c on 2 because node 1 had the lowest load (0 of 700 memory operations in the last interval); cpu 2 had the fewest jobs there (tier bandwidth)
        540ms d on 2 because node 1 had the lowest load (0 of 700 memory operations in the last interval); cpu 2 had the fewest jobs there (tier bandwidth)
        550ms e on 2 because node 1 had the lowest load (0 of 700 memory operations in the last interval); cpu 2 had the fewest jobs there (tier bandwidth)
    "#]]);
}

#[test]
fn a_job_placed_again_transfers_its_load_and_has_no_cool_down() {
    // 690 of the 700 of node 1 are b's, so without them node 1 has 10 and node 0 has 5. As c starts it
    // finds those 10, and 695 expected of b on node 0. At the next poll b may move at once, although
    // it was moved before.
    check(expect![[r#"
        nodes=2 cores=2
        job a class=2 nodes=0
        job b class=6
        job c class=6 nodes=1
        job d class=2 nodes=1
        0ms due d
        1ms poll 0 1
        2ms due a b
        250ms poll 700 1 with b=700
        500ms poll 5 700 with b=690
        510ms usable 0-2
        520ms due c
        750ms poll 900 1 with b=700
        >> dfs[cooldown=100]
        0ms d on 2 because node 1 is the only domain that the job may use (load 0 of 0 memory operations); cpu 2 had the fewest jobs there (tier bandwidth)
        2ms a on 0 because node 0 is the only domain that the job may use (load 0 of 1 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
        2ms b on 1 because node 0 had the lowest load (0 of 1 memory operations in the last interval); cpu 1 had the fewest jobs there (tier bandwidth)
        250ms b on 3 because node 0 had a load of 700 memory operations in the last interval and node 1 1: more than 4/3 times the mean (350); this job had the highest class (6, by rate) of the movable jobs on node 0; cpu 3 had the fewest jobs on node 1 (tier bandwidth)
        510ms b on 1 because some of the job's CPUs (3) became unusable, so it was placed like a new job: on node 0 (the lowest load) with a load of 5 of 15 memory operations; cpu 1 had the fewest jobs there (tier bandwidth)
        520ms c on 2 because node 1 is the only domain that the job may use (load 10 of 705 memory operations, of which 690 are expected of jobs started since); cpu 2 had the fewest jobs there (tier bandwidth)
        750ms b on 2 because node 0 had a load of 900 memory operations in the last interval and node 1 1: more than 4/3 times the mean (450); this job had the highest class (6, by rate) of the movable jobs on node 0; cpu 2 had the fewest jobs on node 1 (tier bandwidth)
    "#]]);
}
