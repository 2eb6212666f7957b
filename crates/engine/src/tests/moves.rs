//! Moves of memory: what comes through, what is counted, and what is told of them.

use base::{Bytes, Nanos};
use expect_test::expect;

use super::check;
use crate::MoveLimits;
use crate::testing::play_with;

#[test]
fn a_move_is_under_way_until_it_is_told_that_it_ended() {
    check(
        "nodes=2",
        "
        show memory
        job a
        0ms due a
        10ms nothing; task a/1 cpu=1; memory a/1 0=64 1=8; memory a/2 0=1
        20ms nothing; wish a pages any 1
        30ms nothing; wish a pages 1 0
        40ms nothing; moved a to=1 mib=65; memory a/1 1=72; gone a/2
        50ms ended a
        60ms nothing; moved a to=1 mib=1
        ",
        expect![[r#"
            0ms a lies
            10ms a lies node0=65.0 MiB node1=8.0 MiB, home node0
            20ms a lies node0=65.0 MiB node1=8.0 MiB, home node0
            20ms do a pages from anywhere to node1
            30ms a lies node0=65.0 MiB node1=8.0 MiB, home node0, moving to node1 since 20.0 ms
            30ms not a pages from node1 to node0: move-in-progress, a page move of a to node1 is active
            40ms a lies node1=72.0 MiB, home node1, 65.0 MiB of 65.0 MiB moved to node1 by 40.0 ms (done)
        "#]],
    );
}

#[test]
fn what_lies_there_already_and_what_is_not_there_yet_is_not_moved() {
    check(
        "nodes=2",
        "
        job a
        0ms due a; wish a pages any 1
        10ms nothing; task a/1 cpu=1; memory a/1 1=64; wish a pages any 1; wish a/1 pages 0 1
        20ms nothing; wish a pages 1 1; wish a pages any 7
        30ms hands-off a; wish a pages 1 0
        ",
        expect![[r#"
            0ms not a pages from anywhere to node1: unsupported, a starts with this turn and has no memory yet
            10ms not a pages from anywhere to node1: unchanged, no private memory of a is known on other nodes
            10ms not a/1 pages from node0 to node1: unchanged, no private memory of a is known on node0
            20ms not a pages from node1 to node1: unchanged, source and target are both node1
            20ms not a pages from anywhere to node7: nodes-unusable, node7 has no usable memory
            30ms not a pages from node1 to node0: unmanaged, evenkeel no longer manages a
        "#]],
    );
}

#[test]
fn a_move_keeps_to_the_nodes_and_the_memory_that_the_workload_names() {
    check(
        "nodes=2",
        "
        job tied nodes=0
        job own memory=1
        0ms due tied own
        10ms nothing; task tied/1 cpu=1; task own/1 cpu=1; wish tied pages 0 1; wish own pages 1 0
        ",
        expect![[r#"
            10ms not tied pages from node0 to node1: outside-allowed, the workload restricts tied to the nodes 0
            10ms not own pages from node1 to node0: unmanaged, the workload sets the memory policy of own
        "#]],
    );
}

#[test]
fn a_node_without_memory_is_never_a_target() {
    check(
        "nodes=2 mem=0",
        "
        job a
        0ms due a
        10ms nothing; wish a pages any 1
        ",
        expect![[r#"
            10ms not a pages from anywhere to node1: nodes-unusable, node1 has no usable memory
        "#]],
    );
}

/// A node has 16 GiB, of which 2 % stay free: 327.7 MiB.
#[test]
fn a_target_that_cannot_hold_it_is_refused_and_what_can_be_reclaimed_counts_as_free() {
    check(
        "nodes=2 mem=16G",
        "
        job a
        job b
        0ms due a b; node 1 free-mib=1000
        10ms nothing; memory a/1 0=700; memory b/1 0=600; wish a pages any 1
        20ms nothing; wish a pages any 1 600; wish b pages any 1 80
        30ms nothing; moved a to=1 mib=600 by=limit; node 1 free-mib=400; wish b pages any 1
        40ms nothing; node 1 free-mib=400 reclaimable-mib=600; wish b pages any 1
        ",
        expect![[r#"
            10ms not a pages from anywhere to node1: target-full, node1 has 672.3 MiB available, the page move needs 700.0 MiB
            20ms do a pages from anywhere to node1, at most 600.0 MiB
            20ms not b pages from anywhere to node1, at most 80.0 MiB: target-full, node1 has 72.3 MiB available, the page move needs 80.0 MiB
            30ms not b pages from anywhere to node1: target-full, node1 has 72.3 MiB available, the page move needs 600.0 MiB
            40ms do b pages from anywhere to node1
        "#]],
    );
}

#[test]
fn what_is_under_way_to_a_node_counts_as_there() {
    check(
        "nodes=2 mem=16G",
        "
        job a
        job b
        0ms due a b; node 1 free-mib=1000
        10ms nothing; memory a/1 0=600; memory b/1 0=600; wish a pages any 1; wish b pages any 1
        20ms nothing; wish b pages any 1
        30ms nothing; ended a; wish b pages any 1
        ",
        expect![[r#"
            10ms do a pages from anywhere to node1
            10ms not b pages from anywhere to node1: target-full, node1 has 72.3 MiB available, the page move needs 600.0 MiB
            20ms not b pages from anywhere to node1: target-full, node1 has 72.3 MiB available, the page move needs 600.0 MiB
            30ms do b pages from anywhere to node1
        "#]],
    );
}

#[test]
fn memory_goes_to_and_fro_five_times_and_no_more() {
    let there_and_back = "
        10ms nothing; memory a/1 0=64; wish a pages 0 1
        20ms nothing; moved a to=1 mib=64; memory a/1 1=64; wish a pages 1 0
        30ms nothing; moved a to=0 mib=64; memory a/1 0=64; wish a pages 0 1
        40ms nothing; moved a to=1 mib=64; memory a/1 1=64; wish a pages 1 0
        50ms nothing; moved a to=0 mib=64; memory a/1 0=64; wish a pages 0 1
        60ms nothing; moved a to=1 mib=64; memory a/1 1=64; wish a pages 1 0
        70ms nothing; moved a to=0 mib=64; memory a/1 0=64; wish a pages 0 1; wish a pages 0 2
        80ms ended a; due a
        90ms nothing; memory a/1 0=64; wish a pages 0 1
        ";
    check(
        "nodes=3",
        &format!("job a\n0ms due a\n{there_and_back}"),
        expect![[r#"
            10ms do a pages from node0 to node1
            20ms do a pages from node1 to node0
            30ms do a pages from node0 to node1
            40ms do a pages from node1 to node0
            50ms do a pages from node0 to node1
            60ms do a pages from node1 to node0
            70ms do a pages from node0 to node2
            70ms not a pages from node0 to node1: ping-pong, its memory returned to a previous node 5 times
            90ms do a pages from node0 to node1
        "#]],
    );
}

#[test]
fn a_move_that_left_something_is_tried_again_five_times_and_going_on_at_a_limit_is_no_try() {
    let again = "
        10ms nothing; memory a/1 0=64; wish a pages 0 1
        20ms nothing; moved a to=1 mib=1; wish a pages 0 1
        30ms nothing; moved a to=1 mib=1; wish a pages 0 1
        40ms nothing; moved a to=1 mib=1; wish a pages 0 1
        50ms nothing; moved a to=1 mib=1; wish a pages 0 1
        60ms nothing; moved a to=1 mib=1 by=limit; wish a pages 0 1
        70ms nothing; moved a to=1 mib=1; wish a pages 0 1
        80ms nothing; moved a to=1 mib=1; wish a pages 0 1
        90ms nothing; moved a to=1 mib=1 by=limit; wish a pages 0 1
        ";
    check(
        "nodes=2",
        &format!("job a\n0ms due a\n{again}"),
        expect![[r#"
            10ms do a pages from node0 to node1
            20ms do a pages from node0 to node1
            30ms do a pages from node0 to node1
            40ms do a pages from node0 to node1
            50ms do a pages from node0 to node1
            60ms do a pages from node0 to node1
            70ms do a pages from node0 to node1
            80ms not a pages from node0 to node1: ping-pong, its memory was moved to node1 6 times in a row
            90ms do a pages from node0 to node1
        "#]],
    );
}

#[test]
fn a_job_has_a_budget_for_a_minute_and_all_together_may_wait_so_long() {
    let limits = MoveLimits {
        per_second: Bytes::from_mib(10),
        backlog: Nanos::from_secs(10),
        per_process_minute: Bytes::from_mib(150),
        ..MoveLimits::default()
    };
    let script = "
        job a
        job b
        job c
        0s due a b c
        1s nothing; memory a/1 0=60; memory b/1 0=70; memory c/1 0=9; wish a pages any 1; wish b pages any 1; wish c pages any 1
        2s nothing; moved a to=1 mib=60; moved b to=1 mib=40 by=limit; memory a/1 0=200 1=60; wish a pages any 1
        3s nothing; moved a to=1 mib=80 left=10; wish a pages any 1
        4s nothing; moved a to=1 mib=10 by=limit; wish a pages any 1
        70s nothing; wish a pages any 1 20
        ";
    let told = play_with("nodes=2", script, limits);
    expect![[r#"
        1s do a pages from anywhere to node1
        1s do b pages from anywhere to node1, at most 40.0 MiB (narrowed)
        1s not c pages from anywhere to node1: over-budget, active page moves need 10.000 s at 10.0 MiB per second
        2s do a pages from anywhere to node1, at most 90.0 MiB (narrowed)
        3s do a pages from anywhere to node1, at most 10.0 MiB (narrowed)
        4s not a pages from anywhere to node1: over-budget, a has used its budget of 150.0 MiB per minute
        70s do a pages from anywhere to node1, at most 20.0 MiB
    "#]].assert_eq(&told);
}

#[test]
fn a_job_whose_memory_has_to_stay_is_placed_and_given_back_like_any() {
    for why in ["unmanaged", "not-permitted"] {
        let told = crate::testing::play(
            "nodes=2 cores=2",
            &format!(
                "
                job a
                0ms due a; wish a on 0
                10ms nothing; task a/1 cpu=1; memory a/1 0=64
                deny a {why}
                20ms nothing; wish a pages any 1
                allow a
                30ms nothing; wish a on 2
                40ms nothing; wish a released
                "
            ),
        );
        let last: Vec<&str> = told.lines().skip(1).collect();
        assert_eq!(
            last,
            ["20ms do a pages from anywhere to node1", "30ms do a on 2", "40ms do a released"],
            "{why}"
        );
    }
}
