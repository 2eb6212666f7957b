//! Memory policies and page migrations.

use expect_test::expect;

use crate::testing::check;

#[test]
fn with_h0_memory_is_allocated_at_home_unless_the_workload_declares_a_policy() {
    check(expect![[r#"
        nodes=2 cores=2
        job a
        job b memory=0-1
        0ms due a b
        >> home-cluster
        0ms a on 0 because its home is node 0, the cluster with the most free CPUs, 2 of 2; it gets cpu 0
        0ms a memory prefer 0 because its home is node 0, so pages are allocated there while memory is free
        0ms b on 2 because its home is node 1, the cluster with the most free CPUs, 2 of 2; it gets cpu 2
    "#]]);
}

/// `a` loses its CPU, finds none at home, and is outside its home from then on.
#[test]
fn with_h0_and_h2_pages_follow_a_home_that_moves_and_with_h1_they_stay() {
    check(expect![[r#"
        nodes=2 cores=2
        0ms due a b c
        100ms usable 1-3
        250ms memory a 0=64 1=8; poll
        1250ms poll
        1500ms poll
        >> home-cluster
        0ms a on 0 because its home is node 0, the cluster with the most free CPUs, 2 of 2; it gets cpu 0
        0ms a memory prefer 0 because its home is node 0, so pages are allocated there while memory is free
        0ms b on 2 because its home is node 1, the cluster with the most free CPUs, 2 of 2; it gets cpu 2
        0ms b memory prefer 1 because its home is node 1, so pages are allocated there while memory is free
        0ms c on 1 because its home is node 0, the cluster with the most free CPUs, 1 of 2; it gets cpu 1
        0ms c memory prefer 0 because its home is node 0, so pages are allocated there while memory is free
        100ms a on 3 because some of the job's CPUs (0) became unusable: its home is node 0, unchanged; it gets cpu 3, 1 of them outside home
        1250ms note: the home of a is node 1 from now on: 1 of its 1 CPUs were outside node 0 for 1.000 s
        1250ms a pages from anywhere to node1 because 64.0 MiB of its own 72.0 MiB are outside node 1, and that became its home
        > home-cluster[pages=h1]
        0ms a on 0; b on 2; c on 1 because at-home
        100ms a on 3 because at-home
        1250ms note: home-moved
    "#]]);
}

#[test]
fn with_h2_pages_migrate_home_when_a_job_has_migrated_to_other_clusters() {
    check(expect![[r#"
        nodes=2 cores=2
        0ms due a b c
        100ms usable 1-3
        250ms memory a 0=64 1=8; poll
        1250ms poll
        1500ms poll
        2s moving a to=1; poll
        2250ms moved a to=1 mib=64 in=32ms; memory a 1=72; poll
        3s poll
        >> home-cluster[pages=h2]
        0ms a on 0 because its home is node 0, the cluster with the most free CPUs, 2 of 2; it gets cpu 0
        0ms b on 2 because its home is node 1, the cluster with the most free CPUs, 2 of 2; it gets cpu 2
        0ms c on 1 because its home is node 0, the cluster with the most free CPUs, 1 of 2; it gets cpu 1
        100ms a on 3 because some of the job's CPUs (0) became unusable: its home is node 0, unchanged; it gets cpu 3, 1 of them outside home
        250ms a pages from anywhere to node0 because 8.0 MiB of its own 72.0 MiB are outside node 0, and the job migrated to other clusters
        1250ms note: the home of a is node 1 from now on: 1 of its 1 CPUs were outside node 0 for 1.000 s
        1250ms a pages from anywhere to node1 because 64.0 MiB of its own 72.0 MiB are outside node 1, and that became its home
    "#]]);
}

#[test]
fn pages_that_do_not_migrate_are_requested_five_times() {
    check(expect![[r#"
        nodes=2 cores=2
        0ms due a b c
        100ms usable 1-3
        250ms memory a 0=64 1=8; poll
        1250ms poll
        1500ms poll
        2s..19s/1s poll
        > home-cluster[t_rehome=60min,pages=h2]
        0ms a on 0; b on 2; c on 1 because at-home
        100ms a on 3 because at-home
        250ms a pages from anywhere to node0 because pages-go-home
        > home-cluster
        0ms a on 0 because at-home
        0ms a memory prefer 0 because memory-at-home
        0ms b on 2 because at-home
        0ms b memory prefer 1 because memory-at-home
        0ms c on 1 because at-home
        0ms c memory prefer 0 because memory-at-home
        100ms a on 3 because at-home
        1250ms note: home-moved
        1250ms a pages from anywhere to node1 because pages-go-home
        3s a pages from anywhere to node1 because pages-go-home
        4s a pages from anywhere to node1 because pages-go-home
        5s a pages from anywhere to node1 because pages-go-home
        6s a pages from anywhere to node1 because pages-go-home
    "#]]);
}

#[test]
fn a_memory_policy_of_the_workload_file_is_not_changed() {
    check(expect![[r#"
        nodes=2 cores=2
        job a memory=0-1
        job b c
        0ms due a b c
        100ms usable 1-3
        250ms memory a 0=64 1=8; poll
        1250ms poll
        1500ms poll
        > home-cluster
        0ms a on 0; b on 2 because at-home
        0ms b memory prefer 1 because memory-at-home
        0ms c on 1 because at-home
        0ms c memory prefer 0 because memory-at-home
        100ms a on 3 because at-home
        1250ms note: home-moved
    "#]]);
}

#[test]
fn memory_is_not_bound_where_clusters_are_caches_which_is_reported() {
    check(expect![[r#"
        nodes=2 llcs=2 cores=1
        0ms due a
        > home-cluster[domains=llc]
        0ms note: memory-not-bound
        0ms a on 0 because at-home
    "#]]);
    check(expect![[r#"
        nodes=1 llcs=2 cores=1
        0ms due a
        > home-cluster
        0ms note: memory-gains-nothing
        0ms a on 0 because at-home
    "#]]);
    check(expect![[r#"
        nodes=2 llcs=2 cores=1
        0ms due a
        > home-cluster[domains=llc,pages=h1]
        0ms a on 0 because at-home
    "#]]);
}
