//! Levels of domains, and notes about the machine and the source of loads.

use expect_test::expect;

use crate::testing::check;

#[test]
fn with_one_node_jobs_are_spread_over_caches_without_memory_placement() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        job a b class=3
        0ms due a b
        >> dfs
        0ms note: only one node with memory is usable: jobs are placed on llc domains, and memory placement has no effect
        0ms a on 0 because llc 0 has the lowest number of 2 domains with equal load, jobs and classes (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
        0ms b on 2 because llc 1 had the fewest jobs (0) of the domains with the lowest load (0 of 0 memory operations); cpu 2 had the fewest jobs there (tier bandwidth)
    "#]]);
}

#[test]
fn with_one_node_and_one_cache_jobs_are_balanced_over_cores() {
    check(expect![[r#"
        nodes=1 cores=2 smt=2
        job a b class=3
        job c class=5
        0ms due a b c
        tier declared
        250ms poll 200 10
        > dfs
        0ms note: memory-gains-nothing
        0ms a on 0 because lowest-number
        0ms b on 2 because fewest-jobs
        0ms c on 1 because lowest-number
        250ms note: loads-declared
        250ms c on 3 because load-uneven
    "#]]);
}

#[test]
fn with_a_single_cpu_no_job_is_placed() {
    check(expect![[r#"
        nodes=1
        job a class=3
        0ms due a
        250ms poll 200
        >> dfs
        0ms note: only one CPU is usable, so no job is placed
    "#]]);
}

#[test]
fn pages_that_cannot_follow_are_reported_once() {
    check(expect![[r#"
        nodes=1 cores=2
        job a class=3
        0ms due a
        10ms poll
        > dfs[memory=follow]
        0ms note: memory-gains-nothing
        0ms note: memory-cannot-follow
        0ms a on 0 because lowest-number
        > dfs
        0ms note: memory-gains-nothing
        0ms a on 0 because lowest-number
    "#]]);
    check(expect![[r#"
        nodes=2
        job a class=3
        0ms due a
        10ms poll
        > dfs[memory=follow]
        0ms a on 0 because lowest-number
    "#]]);
}

#[test]
fn no_job_is_placed_once_a_single_cpu_is_left() {
    check(expect![[r#"
        nodes=2
        job a b class=3
        0ms due a b
        10ms usable 0
        > dfs
        0ms a on 0 because lowest-number
        0ms b on 1 because fewest-jobs
        10ms note: nothing-to-place
    "#]]);
}

#[test]
fn a_given_level_is_used_even_if_a_coarser_one_exists() {
    check(expect![[r#"
        nodes=2 llcs=2 cores=2
        job a b c class=3
        0ms due a b c
        > dfs[domains=node]
        0ms a on 0 because lowest-number
        0ms b on 4 because fewest-jobs
        0ms c on 1 because lowest-number
        > dfs[domains=llc]
        0ms a on 0; b on 2; c on 4 because lowest-number
        > dfs[domains=core]
        0ms a on 0; b on 1; c on 2 because lowest-number
    "#]]);
}

#[test]
fn a_single_domain_is_never_overloaded() {
    check(expect![[r#"
        nodes=1 cores=2
        job a b class=3
        0ms due a b
        250ms poll 1000
        > dfs[domains=node]
        0ms note: memory-gains-nothing
        0ms a on 0; b on 1 because only-domain
        > dfs[domains=node,trigger=ratio,reading=paper]
        0ms note: memory-gains-nothing
        0ms a on 0; b on 1 because only-domain
    "#]]);
}

#[test]
fn jobs_without_a_class_are_reported_once_and_count_as_class_0() {
    check(expect![[r#"
        nodes=2 cores=2
        job a
        job b class=1
        job c
        0ms due a b
        1ms ended a
        2ms due a c
        250ms poll 900 10
        >> dfs[start=plain]
        0ms note: jobs without a class (a) count as class 0
        0ms a on 0 because node 0 has the lowest number of 2 domains with equal load (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
        0ms b on 1 because node 0 has the lowest number of 2 domains with equal load (load 0 of 0 memory operations); cpu 1 had the fewest jobs there (tier bandwidth)
        2ms a on 0; c on 0 because node 0 has the lowest number of 2 domains with equal load (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
        250ms b on 2 because node 0 had a load of 900 memory operations in the last interval and node 1 10: more than 4/3 times the mean (455); this job had the highest class (1, by rate) of the movable jobs on node 0; cpu 2 had the fewest jobs on node 1 (tier bandwidth)
    "#]]);
}

#[test]
fn a_note_on_jobs_without_a_class_names_the_first_eight() {
    check(expect![[r#"
        nodes=1
        0ms due j1 j2 j3 j4 j5 j6 j7 j8 j9 j10
        >> dfs
        0ms note: only one CPU is usable, so no job is placed
        0ms note: jobs without a class (j1, j2, j3, j4, j5, j6, j7, j8 and 2 more) count as class 0
    "#]]);
}

#[test]
fn the_source_of_loads_is_reported_unless_it_is_the_controllers() {
    check(expect![[r#"
        nodes=2
        job a class=1
        0ms due a
        tier bandwidth
        250ms poll 5 5
        > dfs
        0ms a on 0 because lowest-number
    "#]]);
    check(expect![[r#"
        nodes=2
        job a class=1
        0ms due a
        tier counters
        250ms poll 5 5
        > dfs
        0ms a on 0 because lowest-number
        250ms note: loads-are-misses
    "#]]);
    check(expect![[r#"
        nodes=2
        job a class=1
        0ms due a
        tier declared
        250ms poll 5 5
        > dfs
        0ms a on 0 because lowest-number
        250ms note: loads-declared
    "#]]);
    check(expect![[r#"
        nodes=2
        job a class=1
        0ms due a
        tier none
        250ms poll 5 5
        > dfs
        0ms a on 0 because lowest-number
        250ms note: loads-unknown
    "#]]);
}

#[test]
fn classes_of_whole_runs_used_as_rates_are_reported_as_approximate() {
    check(expect![[r#"
        nodes=2
        job a class=1
        0ms due a
        tier declared
        250ms poll 5 5
        > dfs[class_basis=total]
        0ms a on 0 because lowest-number
        250ms note: loads-declared
        250ms note: totals-as-rates
        > dfs[reading=paper]
        0ms a on 0 because lowest-number
        250ms note: loads-declared
        250ms note: totals-as-rates
        > dfs[reading=paper,class_basis=rate]
        0ms a on 0 because lowest-number
        250ms note: loads-declared
    "#]]);
}

#[test]
fn numa_balancing_and_interleaving_are_reported_on_machines_with_several_nodes() {
    check(expect![[r#"
        nodes=2
        job a class=1
        numa balancing interleaving
        0ms due a
        10ms ended a
        >> dfs
        0ms note: automatic NUMA balancing is enabled and may undo the placement; disable it with sysctl kernel.numa_balancing=0
        0ms note: this process interleaves its memory over nodes, and its jobs inherit that: placement near memory has no effect
        0ms a on 0 because node 0 has the lowest number of 2 domains with equal load, jobs and classes (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
    "#]]);
    check(expect![[r#"
        nodes=1 cores=2
        job a class=1
        numa balancing interleaving
        0ms due a
        10ms ended a
        > dfs
        0ms note: memory-gains-nothing
        0ms a on 0 because lowest-number
    "#]]);
}

#[test]
fn a_change_of_the_level_discards_expected_loads_and_class_loads() {
    // Nodes 0 and 1 become the caches 0 and 1 of node 0. Had what was expected of node 1 been taken
    // for cache 1, or what class 6 showed been kept, some load would only be expected.
    check(expect![[r#"
        nodes=2 llcs=2 cores=2
        job a b c class=6
        0ms due a
        250ms poll 700 0 with a=700
        500ms poll 700 0 with a=700
        510ms due b
        520ms usable 0-3
        530ms due c
        >> dfs
        0ms a on 0 because node 0 has the lowest number of 2 domains with equal load, jobs and classes (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
        510ms b on 4 because node 1 had the lowest load (0 of 700 memory operations in the last interval); cpu 4 had the fewest jobs there (tier bandwidth)
        520ms note: the usable CPUs changed: jobs are placed on llc domains from now on
        520ms b on 2 because some of the job's CPUs (4) became unusable, so it was placed like a new job: on llc 1 (the fewest jobs of equal loads) with a load of 0 of 0 memory operations; cpu 2 had the fewest jobs there (tier bandwidth)
        530ms c on 1 because llc 0 has the lowest number of 2 domains with equal load, jobs and classes (load 0 of 0 memory operations); cpu 1 had the fewest jobs there (tier bandwidth)
    "#]]);
}

#[test]
fn a_change_of_the_level_discards_the_peak_load() {
    // One percent of the 100 000 that a node has shown is more than these caches carry.
    check(expect![[r#"
        nodes=2 llcs=2 cores=2
        job a b class=6 cpus=0-3
        0ms due a b
        250ms poll 100000 100000
        260ms usable 0-3
        500ms poll 900 99
        > dfs
        0ms a on 0; b on 1 because only-domain
        260ms note: places-changed
        500ms a on 2 because load-uneven
    "#]]);
}

#[test]
fn other_domains_of_the_same_level_keep_class_loads() {
    check(expect![[r#"
        nodes=3 cores=2
        job a b c class=6
        0ms due a
        250ms poll 700 0 900 with a=700
        500ms poll 700 0 900 with a=700
        510ms usable 0-3
        520ms due b
        530ms due c
        >> dfs
        0ms a on 0 because node 0 has the lowest number of 3 domains with equal load, jobs and classes (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
        520ms b on 2 because node 1 had the lowest load (0 of 700 memory operations in the last interval); cpu 2 had the fewest jobs there (tier bandwidth)
        530ms c on 1 because node 0 has the lowest number of 2 domains with equal load, jobs and classes (load 700 of 1400 memory operations, of which 700 are expected of jobs started since); cpu 1 had the fewest jobs there (tier bandwidth)
    "#]]);
}

#[test]
fn a_level_without_domains_is_reported() {
    check(expect![[r#"
        nodes=1 cores=4 no-llcs
        job a class=3
        0ms due a
        250ms poll
        >> dfs[domains=llc]
        0ms note: the usable CPUs have no llc domain, so no job is placed
        >> spread[domains=llc]
        0ms note: the usable CPUs have no llc domain, so no job is placed
        250ms note: the usable CPUs have no llc domain, so no job is placed
    "#]]);
}

#[test]
fn a_change_of_the_domains_is_reported() {
    check(expect![[r#"
        nodes=2 llcs=2 cores=2
        job a class=3
        0ms due a
        10ms usable 0-3
        20ms usable 0-2
        30ms usable 0
        40ms usable 0-7
        >> dfs
        0ms a on 0 because node 0 has the lowest number of 2 domains with equal load, jobs and classes (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
        10ms note: the usable CPUs changed: jobs are placed on llc domains from now on
        30ms note: only one CPU is usable, so no job is placed
        40ms note: the usable CPUs changed: jobs are placed on node domains from now on
    "#]]);
}

#[test]
fn without_a_load_source_jobs_are_spread_or_as_published_start_on_the_lowest_number() {
    check(expect![[r#"
        nodes=2
        job a class=3
        tier none
        0ms due a
        250ms poll
        >> dfs
        0ms a on 0 because node 0 has the lowest number of 2 domains with equal load, jobs and classes (load 0 of 0 known memory operations); cpu 0 had the fewest jobs there (tier none)
        250ms note: no memory counter is readable and no job has a class: all loads count as 0, jobs are spread by domain number at start, and none migrates
        >> dfs[reading=paper]
        0ms a on 0 because node 0 has the lowest number of 2 domains with equal load (load 0 of 0 known memory operations); cpu 0 had the fewest jobs there (tier none)
        250ms note: no memory counter is readable and no job has a class: all loads count as 0, every job starts on the usable domain with the lowest number, and none migrates
    "#]]);
}
