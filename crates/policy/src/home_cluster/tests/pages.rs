//! Where pages lie.

use expect_test::expect;

use super::{check, check_story};

#[test]
fn with_h0_memory_comes_from_home_unless_the_workload_says_otherwise() {
    check_story(
        "nodes=2 cores=2",
        "home-cluster",
        "
        job a
        job b memory=0-1
        0ms due a b
        ",
        expect![[r#"
            0ms a on 0 because its home is node 0, the cluster with the most free CPUs, 2 of 2; it gets cpu 0
            0ms a memory Preferred({0}) because its home is node 0, so pages are allocated there while memory is free
            0ms b on 2 because its home is node 1, the cluster with the most free CPUs, 2 of 2; it gets cpu 2
        "#]],
    );
}

/// `a` loses its processor, finds none at home, and is outside from then on.
const OUTSIDE: &str = "
    job a
    job b
    job c
    0ms due a b c
    100ms usable 1-3
    250ms memory a 0=64 1=8; poll 0 0
    1250ms poll 0 0
    1500ms poll 0 0
";

#[test]
fn with_h0_and_h2_pages_follow_a_home_that_moves_and_with_h1_they_stay() {
    check_story(
        "nodes=2 cores=2",
        "home-cluster",
        OUTSIDE,
        expect![[r#"
            0ms a on 0 because its home is node 0, the cluster with the most free CPUs, 2 of 2; it gets cpu 0
            0ms a memory Preferred({0}) because its home is node 0, so pages are allocated there while memory is free
            0ms b on 2 because its home is node 1, the cluster with the most free CPUs, 2 of 2; it gets cpu 2
            0ms b memory Preferred({1}) because its home is node 1, so pages are allocated there while memory is free
            0ms c on 1 because its home is node 0, the cluster with the most free CPUs, 1 of 2; it gets cpu 1
            0ms c memory Preferred({0}) because its home is node 0, so pages are allocated there while memory is free
            100ms a on 3 because some of the job's CPUs (0) became unusable: its home is node 0, unchanged; it gets cpu 3, 1 of them outside home
            1250ms note: the home of a is node 1 from now on: 1 of its 1 CPUs were outside node 0 for 1.000 s
            1250ms a pages from anywhere to node1 because 64.0 MiB of its own 72.0 MiB are outside node 1, and that became its home
        "#]],
    );
    check(
        "nodes=2 cores=2",
        "home-cluster[pages=h1]",
        OUTSIDE,
        expect![[r#"
        0ms a on 0 because at-home
        0ms b on 2 because at-home
        0ms c on 1 because at-home
        100ms a on 3 because at-home
        1250ms note: home-moved
    "#]],
    );
}

#[test]
fn with_h2_pages_go_home_when_a_program_has_come_to_other_clusters() {
    let comes_home = "
        2s moving a to=1; poll 0 0
        2250ms moved a to=1 mib=64 in=32ms; memory a 1=72; poll 0 0
        3s poll 0 0
    ";
    let script = format!("{OUTSIDE}{comes_home}");
    check_story(
        "nodes=2 cores=2",
        "home-cluster[pages=h2]",
        &script,
        expect![[r#"
            0ms a on 0 because its home is node 0, the cluster with the most free CPUs, 2 of 2; it gets cpu 0
            0ms b on 2 because its home is node 1, the cluster with the most free CPUs, 2 of 2; it gets cpu 2
            0ms c on 1 because its home is node 0, the cluster with the most free CPUs, 1 of 2; it gets cpu 1
            100ms a on 3 because some of the job's CPUs (0) became unusable: its home is node 0, unchanged; it gets cpu 3, 1 of them outside home
            250ms a pages from anywhere to node0 because 8.0 MiB of its own 72.0 MiB are outside node 0, and the job migrated to other clusters
            1250ms note: the home of a is node 1 from now on: 1 of its 1 CPUs were outside node 0 for 1.000 s
            1250ms a pages from anywhere to node1 because 64.0 MiB of its own 72.0 MiB are outside node 1, and that became its home
        "#]],
    );
}

#[test]
fn pages_that_cannot_be_moved_are_asked_for_five_times() {
    let polls: String = (2..20).map(|second| format!("{second}s poll 0 0\n")).collect();
    let script = format!("{OUTSIDE}{polls}");
    check(
        "nodes=2 cores=2",
        "home-cluster[t_rehome=60min,pages=h2]",
        &script,
        expect![[r#"
        0ms a on 0 because at-home
        0ms b on 2 because at-home
        0ms c on 1 because at-home
        100ms a on 3 because at-home
        250ms a pages from anywhere to node0 because pages-go-home
    "#]],
    );
    check(
        "nodes=2 cores=2",
        "home-cluster",
        &script,
        expect![[r#"
        0ms a on 0 because at-home
        0ms a memory Preferred({0}) because memory-at-home
        0ms b on 2 because at-home
        0ms b memory Preferred({1}) because memory-at-home
        0ms c on 1 because at-home
        0ms c memory Preferred({0}) because memory-at-home
        100ms a on 3 because at-home
        1250ms note: home-moved
        1250ms a pages from anywhere to node1 because pages-go-home
        3s a pages from anywhere to node1 because pages-go-home
        4s a pages from anywhere to node1 because pages-go-home
        5s a pages from anywhere to node1 because pages-go-home
        6s a pages from anywhere to node1 because pages-go-home
    "#]],
    );
}

#[test]
fn memory_of_which_the_workload_file_says_where_it_comes_from_is_left_alone() {
    let script = OUTSIDE.replace("job a", "job a memory=0-1");
    check(
        "nodes=2 cores=2",
        "home-cluster",
        &script,
        expect![[r#"
        0ms a on 0 because at-home
        0ms b on 2 because at-home
        0ms b memory Preferred({1}) because memory-at-home
        0ms c on 1 because at-home
        0ms c memory Preferred({0}) because memory-at-home
        100ms a on 3 because at-home
        1250ms note: home-moved
    "#]],
    );
}

#[test]
fn where_clusters_are_caches_memory_is_left_alone_and_that_is_said() {
    let script = "job a\n0ms due a";
    check(
        "nodes=2 llcs=2 cores=1",
        "home-cluster[domains=llc]",
        script,
        expect![[r#"
        0ms note: memory-not-bound
        0ms a on 0 because at-home
    "#]],
    );
    check(
        "nodes=1 llcs=2 cores=1",
        "home-cluster",
        script,
        expect![[r#"
        0ms note: memory-gains-nothing
        0ms a on 0 because at-home
    "#]],
    );
    check(
        "nodes=2 llcs=2 cores=1",
        "home-cluster[domains=llc,pages=h1]",
        script,
        expect![[r#"
        0ms a on 0 because at-home
    "#]],
    );
}
