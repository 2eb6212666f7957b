//! Homes and CPUs.

use expect_test::expect;

use crate::testing::check;

#[test]
fn the_home_is_the_cluster_with_the_most_free_cpus() {
    check(expect![[r#"
        nodes=2 cores=3
        job a
        job b threads=2
        job c
        0ms due a
        1ms due b
        2ms due c
        >> home-cluster[pages=h1]
        0ms a on 0 because its home is node 0, the cluster with the most free CPUs, 3 of 3; it gets cpu 0
        1ms b on 3-4 because its home is node 1, the cluster with the most free CPUs, 3 of 3; it gets cpus 3-4
        2ms c on 1 because its home is node 0, the cluster with the most free CPUs, 2 of 3; it gets cpu 1
    "#]]);
}

#[test]
fn without_a_free_cpu_the_home_is_that_of_the_fewest_jobs() {
    check(expect![[r#"
        nodes=2 cores=1
        0ms due a b c d
        >> home-cluster[pages=h1]
        0ms a on 0 because its home is node 0, the cluster with the most free CPUs, 1 of 1; it gets cpu 0
        0ms b on 1 because its home is node 1, the cluster with the most free CPUs, 1 of 1; it gets cpu 1
        0ms c on 0 because its home is node 0, the home of the fewest jobs, 1, since no CPU was free; it gets cpu 0; 1 of its threads share CPUs
        0ms d on 1 because its home is node 1, the home of the fewest jobs, 1, since no CPU was free; it gets cpu 1; 1 of its threads share CPUs
    "#]]);
}

#[test]
fn cpus_outside_home_come_from_the_nearest_cluster_and_are_exchanged_for_free_cpus_at_home() {
    check(expect![[r#"
        nodes=2 cores=2
        job a
        job b threads=3
        0ms due a b
        10ms ended a
        250ms poll
        >> home-cluster[pages=h1]
        0ms a on 0 because its home is node 0, the cluster with the most free CPUs, 2 of 2; it gets cpu 0
        0ms b on 1-3 because its home is node 1, the cluster with the most free CPUs, 2 of 2; it gets cpus 1-3, 1 of them outside home
    "#]]);
    check(expect![[r#"
        nodes=2 cores=2
        job a b c memory=1
        0ms due a b c
        10ms ended a
        250ms poll
        >> home-cluster[pages=h1]
        0ms a on 2 because its home is node 1, its declared memory node; it gets cpu 2
        0ms b on 3 because its home is node 1, its declared memory node; it gets cpu 3
        0ms c on 0 because its home is node 1, its declared memory node; it gets cpu 0, 1 of them outside home
        10ms c on 2 because CPUs became free: the job gets cpu 2 (0 of its threads share, 0 CPUs outside node 1, its home) instead of cpu 0 (0 sharing, 1 outside)
    "#]]);
}

#[test]
fn with_processors_free_the_home_is_ignored() {
    check(expect![[r#"
        nodes=2 cores=3
        job a b c memory=1
        0ms due a b c
        10ms ended a
        250ms poll
        > home-cluster[pages=h1,processors=free]
        0ms a on 0; b on 3; c on 1 because at-home
    "#]]);
}

#[test]
fn free_cpus_are_assigned_to_the_jobs_that_share_most_cpus() {
    check(expect![[r#"
        nodes=2 cores=2
        job a b c d
        job e threads=2
        0ms due a b c d
        1ms due e
        10ms ended d
        20ms ended c
        >> home-cluster[pages=h1]
        0ms a on 0 because its home is node 0, the cluster with the most free CPUs, 2 of 2; it gets cpu 0
        0ms b on 2 because its home is node 1, the cluster with the most free CPUs, 2 of 2; it gets cpu 2
        0ms c on 1 because its home is node 0, the cluster with the most free CPUs, 1 of 2; it gets cpu 1
        0ms d on 3 because its home is node 1, the cluster with the most free CPUs, 1 of 2; it gets cpu 3
        1ms e on 0-1 because its home is node 0, the home of the fewest jobs, 2, since no CPU was free; it gets cpus 0-1; 2 of its threads share CPUs
        10ms e on 0,3 because CPUs became free: the job gets cpus 0,3 (1 of its threads share, 1 CPUs outside node 0, its home) instead of cpus 0-1 (2 sharing, 0 outside)
        20ms a on 1 because CPUs became free: the job gets cpu 1 (0 of its threads share, 0 CPUs outside node 0, its home) instead of cpu 0 (1 sharing, 0 outside)
    "#]]);
}

#[test]
fn a_cluster_outside_home_becomes_the_home_after_t_rehome() {
    check(expect![[r#"
        nodes=2 cores=2
        0ms due a b c
        100ms usable 1-3
        350ms poll
        1s poll
        1350ms poll
        1400ms ended c
        1500ms poll
        >> home-cluster[pages=h1]
        0ms a on 0 because its home is node 0, the cluster with the most free CPUs, 2 of 2; it gets cpu 0
        0ms b on 2 because its home is node 1, the cluster with the most free CPUs, 2 of 2; it gets cpu 2
        0ms c on 1 because its home is node 0, the cluster with the most free CPUs, 1 of 2; it gets cpu 1
        100ms a on 3 because some of the job's CPUs (0) became unusable: its home is node 0, unchanged; it gets cpu 3, 1 of them outside home
        1350ms note: the home of a is node 1 from now on: 1 of its 1 CPUs were outside node 0 for 1.000 s
    "#]]);
}

#[test]
fn a_job_that_returns_home_in_time_keeps_its_home() {
    check(expect![[r#"
        nodes=2 cores=2
        0ms due a b c
        100ms usable 1-3
        350ms poll
        1350ms ended c; poll
        > home-cluster[pages=h1]
        0ms a on 0; b on 2; c on 1 because at-home
        100ms a on 3 because at-home
        1350ms a on 1 because processors-free
    "#]]);
}

#[test]
fn a_home_declared_in_the_workload_file_is_permanent() {
    check(expect![[r#"
        nodes=2 cores=1
        job a b memory=1
        0ms due a b
        250ms poll
        1250ms poll
        1500ms ended a
        > home-cluster[pages=h1]
        0ms a on 1; b on 0 because at-home
        1500ms b on 1 because processors-free
    "#]]);
}

#[test]
fn with_half_of_its_cpus_outside_a_job_keeps_its_home() {
    check(expect![[r#"
        nodes=2 cores=2
        job a memory=0
        job b threads=2 memory=0
        0ms due a b
        250ms poll
        1500ms poll
        > home-cluster[pages=h1]
        0ms a on 0; b on 1-2 because at-home
    "#]]);
}

#[test]
fn with_a_single_cpu_no_job_is_placed() {
    check(expect![[r#"
        nodes=1
        0ms due a
        > home-cluster
        0ms note: nothing-to-place
    "#]]);
}

#[test]
fn on_one_node_caches_count_as_clusters() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        job a threads=2
        job b
        0ms due a b
        > home-cluster
        0ms note: memory-gains-nothing
        0ms a on 0-1; b on 2 because at-home
    "#]]);
}

#[test]
fn a_job_stays_within_its_affinity() {
    check(expect![[r#"
        nodes=2 cores=2
        job tied cpus=1-2 threads=3
        job lost cpus=9
        job a
        0ms due tied lost a
        > home-cluster[pages=h1]
        0ms tied on 1-2; a on 0 because at-home
    "#]]);
}

#[test]
fn a_job_whose_cpus_go_offline_keeps_its_home_while_the_home_has_usable_cpus() {
    check(expect![[r#"
        nodes=2 cores=2
        0ms due a b
        100ms usable 1-3
        200ms usable 2-3
        >> home-cluster[pages=h1]
        0ms a on 0 because its home is node 0, the cluster with the most free CPUs, 2 of 2; it gets cpu 0
        0ms b on 2 because its home is node 1, the cluster with the most free CPUs, 2 of 2; it gets cpu 2
        100ms a on 1 because some of the job's CPUs (0) became unusable: its home is node 0, unchanged; it gets cpu 1
        200ms note: the usable CPUs changed: jobs are placed on core domains from now on
        200ms a on 3 because some of the job's CPUs (1) became unusable: its home is core 3, the cluster with the most free CPUs, 1 of 1; it gets cpu 3
    "#]]);
    check(expect![[r#"
        nodes=3 cores=2
        0ms due a b
        200ms usable 2-5
        > home-cluster[pages=h1]
        0ms a on 0; b on 2 because at-home
        200ms a on 4 because at-home
    "#]]);
}

#[test]
fn an_unmanaged_job_takes_cpus() {
    check(expect![[r#"
        nodes=2 cores=1
        0ms due alien
        1ms unmanaged alien on 1
        2ms due a
        > home-cluster[pages=h1]
        0ms alien on 0 because at-home
        2ms a on 0 because at-home
    "#]]);
}

#[test]
fn more_threads_than_cpus_get_all_of_them() {
    check(expect![[r#"
        nodes=2 cores=2
        job wide threads=9
        0ms due wide
        250ms poll
        > home-cluster[pages=h1]
        0ms wide on 0-3 because at-home
    "#]]);
}

#[test]
fn h3_is_rejected_with_the_available_values() {
    let refused = crate::build("home-cluster[pages=h3]", 1).err().expect("refused").to_string();
    expect!["policy home-cluster: pages=h3 requires copies of read-only pages, which no host can make for a running program: write h0, h1 or h2"].assert_eq(&refused);
    for pages in ["h0", "h1", "h2"] {
        assert!(crate::build(&format!("home-cluster[pages={pages}]"), 1).is_ok());
    }
}

#[test]
fn a_job_wider_than_any_cluster_keeps_its_home() {
    check(expect![[r#"
        nodes=1 cores=4
        job wide threads=3
        0ms due wide
        1s poll
        2s poll
        3s poll
        > home-cluster
        0ms note: memory-gains-nothing
        0ms wide on 0-2 because at-home
    "#]]);
}
