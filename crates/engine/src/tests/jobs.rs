//! State of jobs, and its changes by events and outcomes.

use expect_test::expect;

use crate::MoveLimits;
use crate::testing::{check, play};

#[test]
fn the_snapshot_has_due_and_running_jobs_and_no_ended_ones() {
    check(expect![[r#"
        nodes=2
        job a b
        show jobs
        0ms due b; request b on 1
        5ms due a
        10ms ended b
        20ms ended a
        >
        0ms b due tasks 0 cpu 0 load 0 wait -
        0ms approve b on 1
        5ms a due tasks 0 cpu 0 load 0 wait -
        5ms b running on 1 in node 1 since 0 tasks 0 cpu 0 load 0 wait -
        10ms b absent
        10ms a running since 5 tasks 0 cpu 0 load 0 wait -
        20ms a absent
    "#]]);
}

#[test]
fn a_job_that_restarts_has_no_state_of_its_earlier_run() {
    check(expect![[r#"
        nodes=2
        job a class=1
        show jobs
        0ms due a; request a on 1
        10ms unmanaged a; task a/1 cpu=3
        250ms poll; task a/1 cpu=30
        260ms ended a; due a; request a on 0
        270ms
        >
        0ms a due tasks 0 cpu 0 load 0 wait -
        0ms approve a on 1
        10ms a running on 1 in node 1 unmanaged since 0 tasks 1 cpu 0 load 0 wait -
        250ms a running on 1 in node 1 unmanaged since 0 tasks 1 cpu 30 load 30 wait -
        260ms a due tasks 0 cpu 0 load 0 wait -
        260ms approve a on 0
        270ms a running on 0 in node 0 since 260 tasks 0 cpu 0 load 0 wait -
    "#]]);
}

#[test]
fn an_attached_job_is_running_and_can_be_placed_until_it_is_detached() {
    check(expect![[r#"
        nodes=2
        job a
        unattached b class=1
        show jobs
        0ms
        250ms poll; attached b; task b/1 cpu=250 on=0
        500ms poll; task b/1 cpu=500 on=0; request b on 1
        750ms poll; task b/1 cpu=750 on=1
        800ms detached b; request b on 0
        900ms
        >
        250ms b running in node 0 since 250 tasks 1 cpu 0 load 0 wait -
        500ms b running in node 0 since 250 tasks 1 cpu 250 load 250 wait -
        500ms approve b on 1
        750ms b running on 1 in node 1 since 250 tasks 1 cpu 250 load 250 wait -
        800ms b absent
        800ms reject b on 0: exited, job 1 is not running
    "#]]);
}

#[test]
fn an_attached_job_may_reuse_the_id_of_a_detached_one_but_no_used_or_too_large_id() {
    check(expect![[r#"
        nodes=2
        unattached b
        unattached c class=2
        unattached d
        show jobs
        0ms attached d
        10ms attached b; detached b; request b on 1
        20ms attached c as b
        30ms attached d as b
        >
        10ms reject b on 1: exited, job 0 is not running
        20ms c running since 20 tasks 0 cpu 0 load 0 wait -
    "#]]);
}

#[test]
fn a_job_that_could_not_be_started_has_ended() {
    check(expect![[r#"
        nodes=2
        job a
        show jobs
        deny a StartFailed
        0ms due a; request a on 1
        10ms request a on 0
        >
        0ms a due tasks 0 cpu 0 load 0 wait -
        0ms approve a on 1
        10ms a absent
        10ms reject a on 0: exited, job 0 is not running
    "#]]);
}

#[test]
fn the_affinity_of_a_job_follows_from_outcomes_and_not_from_requests() {
    check(expect![[r#"
        nodes=2
        job a b
        show jobs
        0ms due a b; request a on 0; request b on 0
        deny a Exited
        deny b CpusUnusable
        10ms request a on 1; request b on 1
        20ms
        >
        0ms a due tasks 0 cpu 0 load 0 wait -
        0ms b due tasks 0 cpu 0 load 0 wait -
        0ms approve a on 0; b on 0
        10ms a running on 0 in node 0 since 0 tasks 0 cpu 0 load 0 wait -
        10ms b running on 0 in node 0 since 0 tasks 0 cpu 0 load 0 wait -
        10ms approve a on 1; b on 1
    "#]]);
}

#[test]
fn an_action_that_the_kernel_does_not_permit_is_not_repeated() {
    check(expect![[r#"
        nodes=2
        job a b
        show jobs
        0ms due a b
        10ms task b/1 cpu=1; task b/2 cpu=1
        deny a NotPermitted
        deny b/1 NotPermitted
        20ms request a on 1; request b/1 on 1; request b/2 on 1
        30ms request a on 1; request b/1 on 0; request b/2 on 0
        >
        0ms a due tasks 0 cpu 0 load 0 wait -
        0ms b due tasks 0 cpu 0 load 0 wait -
        10ms a running since 0 tasks 0 cpu 0 load 0 wait -
        10ms b running since 0 tasks 2 cpu 0 load 0 wait -
        20ms approve a on 1; b/1 on 1; b/2 on 1
        30ms a running unmanaged since 0 tasks 0 cpu 0 load 0 wait -
        30ms approve b/2 on 0
        30ms reject a on 1: unmanaged, evenkeel no longer manages a
        30ms reject b/1 on 0: unmanaged, evenkeel no longer manages b
    "#]]);
}

#[test]
fn a_job_with_an_affinity_set_by_another_program_counts_for_that_domain() {
    check(expect![[r#"
        nodes=2 cores=2
        job a b c class=1
        show jobs loads
        0ms due a b c; request a on 0; request b on 1; request c on 1
        250ms poll; task a/1 cpu=100; task a/2 cpu=10 on=1; task b/1 cpu=50 on=1; task c/1 cpu=5 on=1
        500ms poll; unmanaged a on 3; unmanaged b on 0-3; unmanaged c; task a/1 cpu=200; task a/2 cpu=20 on=1; task b/1 cpu=100 on=2; task c/1 cpu=9 on=1
        >
        0ms a due tasks 0 cpu 0 load 0 wait -
        0ms b due tasks 0 cpu 0 load 0 wait -
        0ms c due tasks 0 cpu 0 load 0 wait -
        0ms approve a on 0; b on 1; c on 1
        250ms a running on 0 in node 0 since 0 tasks 2 cpu 110 load 110 wait -
        250ms b running on 1 in node 0 since 0 tasks 1 cpu 50 load 50 wait -
        250ms c running on 1 in node 0 since 0 tasks 1 cpu 5 load 5 wait -
        250ms declared [165, 0] cpu [165, 0]
        500ms a running on 3 in node 1 unmanaged since 0 tasks 2 cpu 110 load 110 wait -
        500ms b running on 0-3 in node 1 unmanaged since 0 tasks 1 cpu 50 load 50 wait -
        500ms c running on 1 in node 0 unmanaged since 0 tasks 1 cpu 4 load 4 wait -
        500ms declared [14, 150] cpu [14, 150]
    "#]]);
}

#[test]
fn a_job_whose_affinity_another_program_changed_has_no_domain_until_it_is_known() {
    check(expect![[r#"
        nodes=2
        job a
        show jobs
        0ms due a; request a on 0
        deny a Unmanaged
        10ms request a on 1
        20ms unmanaged a on 1
        >
        0ms a due tasks 0 cpu 0 load 0 wait -
        0ms approve a on 0
        10ms a running on 0 in node 0 since 0 tasks 0 cpu 0 load 0 wait -
        10ms approve a on 1
        20ms a running on 1 in node 1 unmanaged since 0 tasks 0 cpu 0 load 0 wait -
    "#]]);
}

#[test]
fn jobs_and_domains_follow_cpus_that_go_offline_and_online() {
    check(expect![[r#"
        nodes=2 cores=2
        job a cpus=2
        job b
        show jobs loads
        0ms due a b; request a on 2; request b on 2-3; node 0 ops=0; node 1 ops=0
        250ms poll; node 0 ops=50; node 1 ops=70
        300ms usable 0-1,3
        500ms poll; node 0 ops=50; node 1 ops=71
        550ms usable 2
        600ms usable 0-3
        750ms poll; node 0 ops=60; node 1 ops=90
        >
        0ms a due of 2 tasks 0 cpu 0 load 0 wait -
        0ms b due tasks 0 cpu 0 load 0 wait -
        0ms approve a on 2; b on 2-3
        250ms a running of 2 on 2 in node 1 since 0 tasks 0 cpu 0 load 0 wait -
        250ms b running on 2-3 in node 1 since 0 tasks 0 cpu 0 load 0 wait -
        250ms bandwidth [50, 70] cpu [0, 0]
        300ms a running of  on 2 since 0 tasks 0 cpu 0 load 0 wait -
        500ms bandwidth [0, 1] cpu [0, 0]
        550ms a running on 2 in core 2 since 0 tasks 0 cpu 0 load 0 wait -
        550ms b running on 2-3 in core 2 since 0 tasks 0 cpu 0 load 0 wait -
        600ms a running of 2 on 2 in node 1 since 0 tasks 0 cpu 0 load 0 wait -
        600ms b running on 2-3 in node 1 since 0 tasks 0 cpu 0 load 0 wait -
        750ms bandwidth [10, 19] cpu [0, 0]
    "#]]);
}

#[test]
fn a_domain_of_another_level_does_not_inherit_the_load_of_its_number() {
    check(expect![[r#"
        nodes=2 llcs=2 cores=2
        job a b class=1
        show domains
        0ms due a b; request a on 0; request b on 4
        250ms poll; task a/1 cpu=100; task b/1 cpu=50
        260ms usable 0-5
        270ms usable 0-3
        280ms usable 0-7
        >
        0ms declared node 0 0, node 1 0
        0ms approve a on 0; b on 4
        250ms declared node 0 100, node 1 50
        270ms declared llc 0 0, llc 1 0
        280ms declared node 0 0, node 1 0
    "#]]);
}

#[test]
fn after_a_change_of_level_counters_of_tasks_are_expected_again() {
    check(expect![[r#"
        nodes=2 llcs=2 cores=2
        job a class=1
        show domains
        0ms due a; request a on 0
        250ms poll; task a/1 cpu=100 misses=70
        260ms usable 0-3
        500ms poll; task a/1 cpu=200 misses=90
        510ms ended a
        750ms poll
        1000ms poll
        1010ms usable 0-7
        >
        0ms declared node 0 0, node 1 0
        0ms approve a on 0
        250ms counters node 0 70, node 1 0
        260ms counters llc 0 0, llc 1 0
        500ms counters llc 0 20, llc 1 0
        750ms counters llc 0 0, llc 1 0
        1010ms counters node 0 0, node 1 0
    "#]]);
    check(expect![[r#"
        nodes=2 llcs=2 cores=2
        job a class=1
        show domains
        0ms due a; request a on 0; node 0 ops=0; node 1 ops=0
        250ms poll; node 0 ops=9; node 1 ops=2; task a/1 cpu=100 misses=70
        260ms usable 0-3
        500ms poll; task a/1 cpu=200 misses=90
        >
        0ms bandwidth node 0 0, node 1 0
        0ms approve a on 0
        250ms bandwidth node 0 9, node 1 2
        260ms counters llc 0 0, llc 1 0
        500ms counters llc 0 20, llc 1 0
    "#]]);
}

#[test]
fn a_note_is_forwarded_once_and_an_abort_is_final() {
    check(expect![[r#"
        nodes=2
        job a
        0ms due a; note nothing-to-place; note no-class
        10ms note no-class
        20ms abort
        30ms request a on 0; note loads-declared; abort
        >
        0ms note nothing-to-place
        0ms note no-class
        20ms abort
    "#]]);
}

#[test]
fn events_of_unknown_jobs_tasks_and_nodes_are_ignored() {
    check(expect![[r#"
        nodes=2
        job a
        show jobs
        0ms due zzz; ended zzz; unmanaged zzz; ended a; node 17 ops=3; exited zzz/3; usable 5000
        250ms poll; request a on 0
        >
        250ms reject a on 0: exited, job 0 is not running
    "#]]);
}

#[test]
fn equal_samples_give_equal_steps() {
    let script = "
        job a class=4
        job b class=5
        show jobs tasks loads nodes interval
        0ms due b a; request b on 1; request a on 0
        100ms task b/2 cpu=3; task a/1 cpu=4 misses=3; task b/1 cpu=5
        250ms poll; task b/1 cpu=30; exited b/2; note no-class
        300ms ended b; due b; request b on 0; note no-class
        500ms poll; task a/1 cpu=200 misses=900; usable 1
    ";
    let play = || play("nodes=2", script, MoveLimits::default());
    assert_eq!(play(), play());
}
