//! Page moves: validation, limits and their state in the snapshot.

use base::{Bytes, Nanos};
use expect_test::expect;

use crate::MoveLimits;
use crate::testing::{check, check_with};

#[test]
fn a_page_move_is_active_until_a_sample_reports_its_end() {
    check(expect![[r#"
        nodes=2
        show memory
        job a
        0ms due a
        10ms task a/1 cpu=1; memory a/1 0=64 1=8; memory a/2 0=1
        20ms request a pages any 1
        30ms request a pages 1 0
        40ms moved a to=1 mib=65; memory a/1 1=72; exited a/2
        50ms ended a
        60ms moved a to=1 mib=1
        >
        0ms a memory
        10ms a memory node0=65.0 MiB node1=8.0 MiB, home node0
        20ms approve a pages from anywhere to node1
        30ms a memory node0=65.0 MiB node1=8.0 MiB, home node0, moving to node1 since 20.0 ms
        30ms reject a pages from node1 to node0: move-in-progress, a page move of a to node1 is active
        40ms a memory node1=72.0 MiB, home node1, 65.0 MiB of 65.0 MiB moved to node1 by 40.0 ms (done)
        50ms a absent
    "#]]);
}

#[test]
fn a_page_move_needs_private_memory_on_its_source_nodes() {
    check(expect![[r#"
        nodes=2
        job a
        0ms due a; request a pages any 1
        10ms task a/1 cpu=1; memory a/1 1=64; request a pages any 1; request a/1 pages 0 1
        20ms request a pages 1 1; request a pages any 7
        30ms unmanaged a; request a pages 1 0
        >
        0ms reject a pages from anywhere to node1: unsupported, a starts with this turn and has no memory yet
        10ms reject a pages from anywhere to node1: unchanged, no private memory of a is known on other nodes
        10ms reject a/1 pages from node0 to node1: unchanged, no private memory of a is known on node0
        20ms reject a pages from node1 to node1: unchanged, source and target are both node1
        20ms reject a pages from anywhere to node7: nodes-unusable, node7 has no usable memory
        30ms reject a pages from node1 to node0: unmanaged, evenkeel no longer manages a
    "#]]);
}

#[test]
fn a_page_move_must_respect_the_nodes_and_memory_policy_of_the_workload() {
    check(expect![[r#"
        nodes=2
        job tied nodes=0
        job own memory=1
        0ms due tied own
        10ms task tied/1 cpu=1; task own/1 cpu=1; request tied pages 0 1; request own pages 1 0
        >
        10ms reject tied pages from node0 to node1: outside-allowed, the workload restricts tied to the nodes 0
        10ms reject own pages from node1 to node0: unmanaged, the workload sets the memory policy of own
    "#]]);
}

#[test]
fn a_node_without_memory_is_no_target_of_a_page_move() {
    check(expect![[r#"
        nodes=2 mem=0
        job a
        0ms due a
        10ms request a pages any 1
        >
        10ms reject a pages from anywhere to node1: nodes-unusable, node1 has no usable memory
    "#]]);
}

/// A node has 16 GiB; 2 % of it, 327.7 MiB, stay free.
#[test]
fn a_target_with_too_little_free_memory_is_rejected_and_reclaimable_memory_counts_as_free() {
    check(expect![[r#"
        nodes=2 mem=16G
        job a b
        0ms due a b; node 1 free-mib=1000
        10ms memory a/1 0=700; memory b/1 0=600; request a pages any 1
        20ms request a pages any 1 600; request b pages any 1 80
        30ms moved a to=1 mib=600 by=limit; node 1 free-mib=400; request b pages any 1
        40ms node 1 free-mib=400 reclaimable-mib=600; request b pages any 1
        >
        10ms reject a pages from anywhere to node1: target-full, node1 has 672.3 MiB available, the page move needs 700.0 MiB
        20ms approve a pages from anywhere to node1, at most 600.0 MiB
        20ms reject b pages from anywhere to node1, at most 80.0 MiB: target-full, node1 has 72.3 MiB available, the page move needs 80.0 MiB
        30ms reject b pages from anywhere to node1: target-full, node1 has 72.3 MiB available, the page move needs 600.0 MiB
        40ms approve b pages from anywhere to node1
    "#]]);
}

#[test]
fn memory_of_active_moves_counts_as_used_on_the_target() {
    check(expect![[r#"
        nodes=2 mem=16G
        job a b
        0ms due a b; node 1 free-mib=1000
        10ms memory a/1 0=600; memory b/1 0=600; request a pages any 1; request b pages any 1
        20ms request b pages any 1
        30ms ended a; request b pages any 1
        >
        10ms approve a pages from anywhere to node1
        10ms reject b pages from anywhere to node1: target-full, node1 has 72.3 MiB available, the page move needs 600.0 MiB
        20ms reject b pages from anywhere to node1: target-full, node1 has 72.3 MiB available, the page move needs 600.0 MiB
        30ms approve b pages from anywhere to node1
    "#]]);
}

#[test]
fn pages_migrate_back_and_forth_five_times_at_most() {
    check(expect![[r#"
        nodes=3
        job a
        0ms due a
        10ms memory a/1 0=64; request a pages 0 1
        20ms moved a to=1 mib=64; memory a/1 1=64; request a pages 1 0
        30ms moved a to=0 mib=64; memory a/1 0=64; request a pages 0 1
        40ms moved a to=1 mib=64; memory a/1 1=64; request a pages 1 0
        50ms moved a to=0 mib=64; memory a/1 0=64; request a pages 0 1
        60ms moved a to=1 mib=64; memory a/1 1=64; request a pages 1 0
        70ms moved a to=0 mib=64; memory a/1 0=64; request a pages 0 1; request a pages 0 2
        80ms ended a; due a
        90ms memory a/1 0=64; request a pages 0 1
        >
        10ms approve a pages from node0 to node1
        20ms approve a pages from node1 to node0
        30ms approve a pages from node0 to node1
        40ms approve a pages from node1 to node0
        50ms approve a pages from node0 to node1
        60ms approve a pages from node1 to node0
        70ms approve a pages from node0 to node2
        70ms reject a pages from node0 to node1: ping-pong, its memory returned to a previous node 5 times
        90ms approve a pages from node0 to node1
    "#]]);
}

#[test]
fn an_incomplete_page_move_is_retried_five_times_and_continuing_after_a_limit_is_no_retry() {
    check(expect![[r#"
        nodes=2
        job a
        0ms due a
        10ms memory a/1 0=64; request a pages 0 1
        20ms..50ms/10ms moved a to=1 mib=1; request a pages 0 1
        60ms moved a to=1 mib=1 by=limit; request a pages 0 1
        70ms..80ms/10ms moved a to=1 mib=1; request a pages 0 1
        90ms moved a to=1 mib=1 by=limit; request a pages 0 1
        >
        10ms approve a pages from node0 to node1
        20ms approve a pages from node0 to node1
        30ms approve a pages from node0 to node1
        40ms approve a pages from node0 to node1
        50ms approve a pages from node0 to node1
        60ms approve a pages from node0 to node1
        70ms approve a pages from node0 to node1
        80ms reject a pages from node0 to node1: ping-pong, its memory was moved to node1 6 times in a row
        90ms approve a pages from node0 to node1
    "#]]);
}

#[test]
fn page_moves_have_a_budget_per_job_and_minute_and_a_common_backlog() {
    let limits = MoveLimits {
        per_second: Bytes::from_mib(10),
        backlog: Nanos::from_secs(10),
        per_process_minute: Bytes::from_mib(150),
        ..MoveLimits::default()
    };
    check_with(
        limits,
        expect![[r#"
            nodes=2
            job a b c
            0s due a b c
            1s memory a/1 0=60; memory b/1 0=70; memory c/1 0=9; request a pages any 1; request b pages any 1; request c pages any 1
            2s moved a to=1 mib=60; moved b to=1 mib=40 by=limit; memory a/1 0=200 1=60; request a pages any 1
            3s moved a to=1 mib=80 left=10; request a pages any 1
            4s moved a to=1 mib=10 by=limit; request a pages any 1
            70s request a pages any 1 20
            >
            1s approve a pages from anywhere to node1; b pages from anywhere to node1, at most 40.0 MiB (narrowed)
            1s reject c pages from anywhere to node1: over-budget, active page moves need 10.000 s at 10.0 MiB per second
            2s approve a pages from anywhere to node1, at most 90.0 MiB (narrowed)
            3s approve a pages from anywhere to node1, at most 10.0 MiB (narrowed)
            4s reject a pages from anywhere to node1: over-budget, a has used its budget of 150.0 MiB per minute
            70s approve a pages from anywhere to node1, at most 20.0 MiB
        "#]],
    );
}

#[test]
fn a_job_whose_pages_must_stay_is_still_placed_and_released() {
    check(expect![[r#"
        nodes=2 cores=2
        job a
        0ms due a; request a on 0
        10ms task a/1 cpu=1; memory a/1 0=64
        deny a Unmanaged
        20ms request a pages any 1
        allow a
        30ms request a on 2
        40ms request a released
        >
        0ms approve a on 0
        20ms approve a pages from anywhere to node1
        30ms approve a on 2
        40ms approve a released
    "#]]);
    check(expect![[r#"
        nodes=2 cores=2
        job a
        0ms due a; request a on 0
        10ms task a/1 cpu=1; memory a/1 0=64
        deny a NotPermitted
        20ms request a pages any 1
        allow a
        30ms request a on 2
        40ms request a released
        >
        0ms approve a on 0
        20ms approve a pages from anywhere to node1
        30ms approve a on 2
        40ms approve a released
    "#]]);
}
