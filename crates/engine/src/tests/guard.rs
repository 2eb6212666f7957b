//! Approved, narrowed and rejected requests.

use expect_test::expect;

use crate::testing::check;

#[test]
fn a_request_is_narrowed_to_usable_cpus_that_the_job_allows() {
    check(expect![[r#"
        nodes=2 cores=4
        job a cpus=0-2,5
        job b nodes=1
        job c
        0ms due a b c; usable 1-6; request a on 0-7; request b on 3-4; request c on 1-6; request c memory bind 0,7
        >
        0ms approve a on 1-2,5 (narrowed); b on 4 (narrowed); c on 1-6; c memory bind 0 (narrowed)
    "#]]);
}

#[test]
fn unusable_cpus_are_rejected() {
    check(expect![[r#"
        nodes=2
        job a
        0ms due a; usable 0; request a on 1; request a on 77
        >
        0ms reject a on 1: cpus-unusable, none of the CPUs 1 is usable
        0ms reject a on 77: cpus-unusable, none of the CPUs 77 is usable
    "#]]);
}

#[test]
fn cpus_that_the_job_does_not_allow_are_rejected() {
    check(expect![[r#"
        nodes=2
        job a cpus=0
        0ms due a; request a on 1
        >
        0ms reject a on 1: outside-allowed, a is allowed on the CPUs 0 only, not 1
    "#]]);
}

#[test]
fn a_target_that_is_not_running_cannot_be_placed() {
    check(expect![[r#"
        nodes=2
        job a b
        0ms due a; request b on 1; request c on 1; request a/1 on 0
        10ms task a/1 cpu=1; request a/1 on 0
        20ms exited a/1; request a/1 on 1
        30ms ended a; request a on 1
        >
        0ms reject b on 1: exited, job 1 is not running
        0ms reject job99 on 1: exited, job 99 is not running
        0ms reject a/1 on 0: exited, task1 is not running
        10ms approve a/1 on 0
        20ms reject a/1 on 1: exited, task1 is not running
        30ms reject a on 1: exited, job 0 is not running
    "#]]);
}

#[test]
fn an_unmanaged_target_cannot_be_placed() {
    check(expect![[r#"
        nodes=2
        job a
        show jobs
        0ms due a; request a on 0
        10ms unmanaged a; task a/1 cpu=1; request a on 1; request a released; request a/1 on 1
        >
        0ms a due tasks 0 cpu 0 load 0 wait -
        0ms approve a on 0
        10ms a running on 0 in node 0 unmanaged since 0 tasks 1 cpu 0 load 0 wait -
        10ms reject a on 1: unmanaged, evenkeel no longer manages a
        10ms reject a released: unmanaged, evenkeel no longer manages a
        10ms reject a/1 on 1: unmanaged, evenkeel no longer manages a
    "#]]);
}

#[test]
fn of_two_requests_of_one_kind_the_first_possible_one_is_approved() {
    check(expect![[r#"
        nodes=2
        job a b
        0ms due a b; request a on 0; request a on 1; request a memory bind 0; request a memory bind 1; request b on 9; request b on 1
        10ms request a on 1; request a released
        >
        0ms approve a on 0; a memory bind 0; b on 1
        0ms reject a on 1: duplicate, an earlier request of this turn has the same target
        0ms reject a memory bind 1: duplicate, an earlier request of this turn has the same target
        0ms reject b on 9: cpus-unusable, none of the CPUs 9 is usable
        10ms approve a on 1
        10ms reject a released: duplicate, an earlier request of this turn has the same target
    "#]]);
}

#[test]
fn a_request_that_changes_nothing_is_rejected() {
    check(expect![[r#"
        nodes=2
        job a
        0ms due a; request a on 0
        10ms request a on 0; task a/1 cpu=1
        20ms request a released
        30ms request a released
        40ms request a/1 on 1
        50ms request a/1 on 1
        60ms request a/1 released; request a on 0
        70ms request a/1 released
        >
        0ms approve a on 0
        10ms reject a on 0: unchanged, its affinity is 0 already
        20ms approve a released
        30ms reject a released: unchanged, evenkeel did not place a
        40ms approve a/1 on 1
        50ms reject a/1 on 1: unchanged, its affinity is 1 already
        60ms approve a/1 released; a on 0
        70ms reject a/1 released: unchanged, evenkeel did not place a
    "#]]);
}

#[test]
fn a_memory_policy_can_only_be_set_before_the_start() {
    check(expect![[r#"
        nodes=2
        job a
        job tied nodes=0
        job own memory=1
        0ms due a tied own; request a memory bind 0-1; request tied memory prefer 0-1; request own memory bind 0; request tied memory bind 1
        10ms task a/1 cpu=1; request a memory bind 0; request a/1 memory bind 0
        20ms ended tied; due tied; request tied memory bind 1
        30ms ended tied; due tied; request tied memory bind 7
        >
        0ms approve a memory bind 0-1; tied memory prefer 0 (narrowed)
        0ms reject own memory bind 0: unmanaged, the workload sets the memory policy of own
        0ms reject tied memory bind 1: outside-allowed, the workload does not allow tied on the nodes 1
        10ms reject a memory bind 0: already-started, a is running: its memory policy is set at the start
        10ms reject a/1 memory bind 0: already-started, a is running: its memory policy is set at the start
        20ms reject tied memory bind 1: outside-allowed, the workload does not allow tied on the nodes 1
        30ms reject tied memory bind 7: nodes-unusable, none of the nodes 7 has usable memory
    "#]]);
}

#[test]
fn a_memory_policy_needs_a_node_with_memory() {
    check(expect![[r#"
        nodes=2 mem=0
        job a
        0ms due a; request a memory bind 0-1
        >
        0ms reject a memory bind 0-1: nodes-unusable, none of the nodes 0-1 has usable memory
    "#]]);
}
