//! What comes through the guard, and what does not.

use expect_test::expect;

use super::check;

#[test]
fn a_wish_is_narrowed_to_what_can_be_used_and_what_the_job_may_use() {
    check(
        "nodes=2 cores=4",
        "
        job a cpus=0-2,5
        job b nodes=1
        job c
        0ms due a b c; usable 1-6; wish a on 0-7; wish b on 3-4; wish c on 1-6; wish c memory 0,7
        ",
        expect![[r#"
            0ms do a on 1-2,5 (narrowed)
            0ms do b on 4 (narrowed)
            0ms do c on 1-6
            0ms do c memory Bind({0}) (narrowed)
        "#]],
    );
}

#[test]
fn cpus_that_cannot_be_used_are_refused() {
    check(
        "nodes=2",
        "
        job a
        0ms due a; usable 0; wish a on 1; wish a on 77
        ",
        expect![[r#"
            0ms not a on 1: cpus-unusable, none of the CPUs 1 is usable
            0ms not a on 77: cpus-unusable, none of the CPUs 77 is usable
        "#]],
    );
}

#[test]
fn cpus_outside_the_job_are_refused() {
    check(
        "nodes=2",
        "job a cpus=0\n0ms due a; wish a on 1",
        expect![[r#"
            0ms not a on 1: outside-allowed, a is allowed on the CPUs 0 only, not 1
        "#]],
    );
}

#[test]
fn who_does_not_run_cannot_be_placed() {
    check(
        "nodes=2",
        "
        job a
        job b
        0ms due a; wish b on 1; wish c on 1; wish a/1 on 0
        10ms nothing; task a/1 cpu=1; wish a/1 on 0
        20ms nothing; gone a/1; wish a/1 on 1
        30ms nothing; ended a; wish a on 1
        ",
        expect![[r#"
            0ms not b on 1: exited, job 1 is not running
            0ms not job99 on 1: exited, job 99 is not running
            0ms not a/1 on 0: exited, task1 is not running
            10ms do a/1 on 0
            20ms not a/1 on 1: exited, task1 is not running
            30ms not a on 1: exited, job 0 is not running
        "#]],
    );
}

#[test]
fn who_is_not_ours_cannot_be_placed() {
    check(
        "nodes=2",
        "
        job a
        show jobs
        0ms due a; wish a on 0
        10ms nothing; hands-off a; task a/1 cpu=1; wish a on 1; wish a released; wish a/1 on 1
        ",
        expect![[r#"
            0ms a due tasks 0 cpu 0 load 0 wait -
            0ms do a on 0
            10ms a running on 0 in node 0 hands off since 0 tasks 1 cpu 0 load 0 wait -
            10ms not a on 1: unmanaged, evenkeel no longer manages a
            10ms not a released: unmanaged, evenkeel no longer manages a
            10ms not a/1 on 1: unmanaged, evenkeel no longer manages a
        "#]],
    );
}

#[test]
fn of_two_wishes_of_one_kind_the_first_that_is_possible_holds() {
    check(
        "nodes=2",
        "
        job a
        job b
        0ms due a b; wish a on 0; wish a on 1; wish a memory 0; wish a memory 1; wish b on 9; wish b on 1
        10ms nothing; wish a on 1; wish a released
        ",
        expect![[r#"
            0ms do a on 0
            0ms do a memory Bind({0})
            0ms do b on 1
            0ms not a on 1: duplicate, an earlier request of this turn has the same target
            0ms not a memory Bind({1}): duplicate, an earlier request of this turn has the same target
            0ms not b on 9: cpus-unusable, none of the CPUs 9 is usable
            10ms do a on 1
            10ms not a released: duplicate, an earlier request of this turn has the same target
        "#]],
    );
}

#[test]
fn what_is_that_way_already_is_not_done_again() {
    check(
        "nodes=2",
        "
        job a
        0ms due a; wish a on 0
        10ms nothing; wish a on 0; task a/1 cpu=1
        20ms nothing; wish a released
        30ms nothing; wish a released
        40ms nothing; wish a/1 on 1
        50ms nothing; wish a/1 on 1
        60ms nothing; wish a/1 released; wish a on 0
        70ms nothing; wish a/1 released
        ",
        expect![[r#"
            0ms do a on 0
            10ms not a on 0: unchanged, its affinity is 0 already
            20ms do a released
            30ms not a released: unchanged, evenkeel did not place a
            40ms do a/1 on 1
            50ms not a/1 on 1: unchanged, its affinity is 1 already
            60ms do a/1 released
            60ms do a on 0
            70ms not a/1 released: unchanged, evenkeel did not place a
        "#]],
    );
}

#[test]
fn memory_is_chosen_before_the_start_or_never() {
    check(
        "nodes=2",
        "
        job a
        job tied nodes=0
        job own memory=1
        0ms due a tied own; wish a memory 0-1; wish tied prefer 0-1; wish own memory 0; wish tied memory 1
        10ms nothing; task a/1 cpu=1; wish a memory 0; wish a/1 memory 0
        20ms ended tied; due tied; wish tied memory 1
        30ms ended tied; due tied; wish tied memory 7
        ",
        expect![[r#"
            0ms do a memory Bind({0-1})
            0ms do tied memory Preferred({0}) (narrowed)
            0ms not own memory Bind({0}): unmanaged, the workload sets the memory policy of own
            0ms not tied memory Bind({1}): outside-allowed, the workload does not allow tied on the nodes 1
            10ms not a memory Bind({0}): already-started, a is running: its memory policy is set at the start
            10ms not a/1 memory Bind({0}): already-started, a is running: its memory policy is set at the start
            20ms not tied memory Bind({1}): outside-allowed, the workload does not allow tied on the nodes 1
            30ms not tied memory Bind({7}): nodes-unusable, none of the nodes 7 has usable memory
        "#]],
    );
}

#[test]
fn memory_comes_from_nodes_that_have_some() {
    check(
        "nodes=2 mem=0",
        "
        job a
        0ms due a; wish a memory 0-1
        ",
        expect![[r#"
            0ms not a memory Bind({0-1}): nodes-unusable, none of the nodes 0-1 has usable memory
        "#]],
    );
}
