//! Rates and loads from cumulative counters.

use expect_test::expect;

use crate::testing::check;

#[test]
fn a_rate_is_the_difference_of_two_interval_turns() {
    check(expect![[r#"
        nodes=2
        job a class=3
        show jobs tasks interval
        0ms due a
        100ms task a/1 cpu=60 wait=5
        250ms poll; task a/1 cpu=200 wait=9
        300ms task a/1 cpu=240 wait=20
        500ms poll; task a/1 cpu=230 wait=30
        750ms poll
        >
        0ms a due tasks 0 cpu 0 load 0 wait -
        0ms interval 0 s
        100ms a running since 0 tasks 1 cpu 0 load 0 wait -
        100ms a/1 cpu 0 wait None misses None
        250ms a running since 0 tasks 1 cpu 200 load 1400 wait 9
        250ms a/1 cpu 200 wait Some(9) misses Some(1400)
        250ms interval 250.0 ms
        500ms a running since 0 tasks 1 cpu 30 load 210 wait 21
        500ms a/1 cpu 30 wait Some(21) misses Some(210)
        750ms a running since 0 tasks 1 cpu 0 load 0 wait 0
        750ms a/1 cpu 0 wait Some(0) misses Some(0)
    "#]]);
}

#[test]
fn a_task_that_starts_within_an_interval_counts_from_its_start() {
    check(expect![[r#"
        nodes=2
        job a class=1
        show tasks loads
        0ms due a; request a on 0
        250ms poll; task a/1 cpu=100 misses=7
        500ms poll; task a/1 cpu=100 misses=7; task a/2 cpu=40 misses=9
        >
        0ms approve a on 0
        250ms a/1 cpu 100 wait None misses Some(7)
        250ms counters [7, 0] cpu [100, 0]
        500ms a/1 cpu 0 wait None misses Some(0)
        500ms a/2 cpu 40 wait None misses Some(9)
        500ms counters [9, 0] cpu [40, 0]
    "#]]);
}

#[test]
fn of_the_growth_of_a_task_that_slept_only_the_share_of_the_last_interval_counts() {
    // The previous sample is of 250 ms: three of the four intervals since then have ended.
    check(expect![[r#"
        nodes=2
        job a class=1
        show tasks loads
        0ms due a; request a on 0
        250ms poll; task a/1 cpu=100 wait=40 misses=7
        500ms poll
        750ms poll
        1000ms poll
        1250ms poll; task a/1 cpu=900 wait=80 misses=47 before=250ms
        1500ms poll; task a/1 cpu=1150 wait=80 misses=57
        >
        0ms approve a on 0
        250ms a/1 cpu 100 wait Some(40) misses Some(7)
        250ms counters [7, 0] cpu [100, 0]
        500ms a/1 cpu 0 wait Some(0) misses Some(0)
        500ms counters [0, 0] cpu [0, 0]
        1250ms a/1 cpu 200 wait Some(10) misses Some(10)
        1250ms counters [10, 0] cpu [200, 0]
        1500ms a/1 cpu 250 wait Some(0) misses Some(10)
        1500ms counters [10, 0] cpu [250, 0]
    "#]]);
}

#[test]
fn after_skipped_turns_only_the_last_interval_counts() {
    check(expect![[r#"
        nodes=2
        job a class=1
        show tasks loads interval
        interval 250ms
        0ms due a; request a on 0
        250ms poll; task a/1 cpu=100
        1250ms poll; task a/1 cpu=500 before=250ms
        1750ms poll; task a/1 cpu=700 before=1250ms
        >
        0ms interval 0 s
        0ms approve a on 0
        250ms a/1 cpu 100 wait None misses Some(100)
        250ms interval 250.0 ms
        250ms declared [100, 0] cpu [100, 0]
    "#]]);
}

#[test]
fn a_new_task_counts_for_one_interval_if_the_first_turn_is_late() {
    check(expect![[r#"
        nodes=2
        job a class=1
        show tasks loads
        interval 250ms
        0ms due a; request a on 0
        1000ms poll; task a/1 cpu=800
        1250ms poll; task a/1 cpu=900
        >
        0ms approve a on 0
        1000ms a/1 cpu 200 wait None misses Some(200)
        1000ms declared [200, 0] cpu [200, 0]
        1250ms a/1 cpu 100 wait None misses Some(100)
        1250ms declared [100, 0] cpu [100, 0]
    "#]]);
}

#[test]
fn a_task_that_exits_within_an_interval_counts_for_its_domain() {
    check(expect![[r#"
        nodes=2
        job a b class=1
        show jobs loads
        0ms due a b; request a on 0; request b on 1
        250ms poll; task a/1 cpu=100; task b/1 cpu=50
        300ms task a/1 cpu=130; exited a/1; task a/2 cpu=5
        400ms task b/1 cpu=80; ended b
        500ms poll; task a/2 cpu=9
        750ms poll; task a/2 cpu=9
        >
        0ms a due tasks 0 cpu 0 load 0 wait -
        0ms b due tasks 0 cpu 0 load 0 wait -
        0ms approve a on 0; b on 1
        250ms a running on 0 in node 0 since 0 tasks 1 cpu 100 load 100 wait -
        250ms b running on 1 in node 1 since 0 tasks 1 cpu 50 load 50 wait -
        250ms declared [100, 50] cpu [100, 50]
        400ms b absent
        500ms a running on 0 in node 0 since 0 tasks 1 cpu 39 load 39 wait -
        500ms declared [39, 30] cpu [39, 30]
        750ms a running on 0 in node 0 since 0 tasks 1 cpu 0 load 0 wait -
        750ms declared [0, 0] cpu [0, 0]
    "#]]);
}

#[test]
fn an_exited_task_counts_for_its_domain_after_the_domains_changed() {
    check(expect![[r#"
        nodes=3
        job a class=1
        show loads
        0ms due a; request a on 2
        100ms task a/1 cpu=100
        200ms exited a/1
        210ms usable 1-2
        250ms poll
        >
        0ms approve a on 2
        250ms declared [0, 100] cpu [0, 100]
    "#]]);
}

#[test]
fn a_rate_needs_a_value_at_both_ends_of_the_interval() {
    check(expect![[r#"
        nodes=2
        job a class=1
        show tasks jobs
        0ms due a; request a on 0
        250ms poll; task a/1 cpu=10 wait=1; task a/2 cpu=10
        500ms poll; task a/1 cpu=20 wait=4; task a/2 cpu=20 wait=9
        750ms poll; task a/1 cpu=30 wait=5; task a/2 cpu=30 wait=10
        >
        0ms a due tasks 0 cpu 0 load 0 wait -
        0ms approve a on 0
        250ms a running on 0 in node 0 since 0 tasks 2 cpu 20 load 20 wait -
        250ms a/1 cpu 10 wait Some(1) misses Some(10)
        250ms a/2 cpu 10 wait None misses Some(10)
        500ms a/1 cpu 10 wait Some(3) misses Some(10)
        750ms a running on 0 in node 0 since 0 tasks 2 cpu 20 load 20 wait 2
        750ms a/1 cpu 10 wait Some(1) misses Some(10)
        750ms a/2 cpu 10 wait Some(1) misses Some(10)
    "#]]);
}

#[test]
fn a_value_that_decreases_has_not_grown() {
    check(expect![[r#"
        nodes=2
        job a class=1
        show tasks loads
        0ms due a; request a on 0
        250ms poll; task a/1 cpu=10 wait=5 misses=1000
        500ms poll; task a/1 cpu=20 wait=4 misses=990
        >
        0ms approve a on 0
        250ms a/1 cpu 10 wait Some(5) misses Some(1000)
        250ms counters [1000, 0] cpu [10, 0]
        500ms a/1 cpu 10 wait Some(0) misses Some(0)
        500ms counters [0, 0] cpu [10, 0]
    "#]]);
}

#[test]
fn controllers_count_from_the_first_sample_and_wrap_at_their_width() {
    check(expect![[r#"
        nodes=2
        job a class=1
        show loads nodes
        0ms due a; node 0 ops=250 bits=8 free=9; node 1 ops=1000000
        250ms poll; node 0 ops=4 bits=8; node 1 ops=1000500 free=7
        500ms poll; node 0 ops=5 bits=8
        >
        0ms node0 ops None free Some(9)
        0ms node1 ops None free Some(8589934592)
        250ms node0 ops Some(10) free Some(9)
        250ms node1 ops Some(500) free Some(7)
        250ms bandwidth [10, 500] cpu [0, 0]
        500ms node0 ops Some(1) free Some(9)
        500ms node1 ops Some(0) free Some(7)
        500ms bandwidth [1, 0] cpu [0, 0]
    "#]]);
}

#[test]
fn an_unreadable_controller_keeps_the_loads_and_its_later_growth_is_scaled_to_one_interval() {
    check(expect![[r#"
        nodes=2
        job a
        show loads
        0ms due a; node 0 ops=0; node 1 ops=0
        250ms poll; node 0 ops=100; node 1 ops=10
        500ms poll; node 0 ops=?; node 1 ops=20
        750ms poll; node 0 ops=?; node 1 ops=30
        1000ms poll; node 0 ops=400; node 1 ops=40
        1250ms poll; node 0 ops=500; node 1 ops=50
        >
        250ms bandwidth [100, 10] cpu [0, 0]
        500ms bandwidth [100, 10] cpu [0, 0] (not readable)
        1000ms bandwidth [100, 10] cpu [0, 0]
    "#]]);
}

#[test]
fn the_tier_bandwidth_needs_a_counter_on_every_node() {
    check(expect![[r#"
        nodes=2
        job a
        show loads
        0ms due a; node 0 ops=0
        250ms poll; node 0 ops=100
        >
        250ms none [0, 0] cpu [0, 0]
    "#]]);
}

#[test]
fn memory_controllers_give_no_loads_of_llc_domains() {
    check(expect![[r#"
        nodes=2 llcs=2
        domains llc
        job a class=1
        show loads nodes
        0ms due a; request a on 3; node 0 ops=0; node 1 ops=0
        250ms poll; node 0 ops=100; node 1 ops=10; task a/1 cpu=20
        >
        0ms node0 ops None free Some(8589934592)
        0ms node1 ops None free Some(8589934592)
        0ms approve a on 3
        250ms node0 ops Some(100) free Some(8589934592)
        250ms node1 ops Some(10) free Some(8589934592)
        250ms declared [0, 0, 0, 20] cpu [0, 0, 0, 20]
    "#]]);
}

#[test]
fn the_load_of_a_controller_is_distributed_by_misses_else_declared_traffic_else_cpu_time() {
    check(expect![[r#"
        nodes=2
        job a class=2
        job b class=1
        job c d
        show jobs loads
        0ms due a b c d; request a on 0; request b on 0; request c on 1; request d on 1; node 0 ops=0; node 1 ops=0
        250ms poll; node 0 ops=700; node 1 ops=400; task a/1 cpu=100; task b/1 cpu=50; task c/1 cpu=30; task d/1 cpu=10
        500ms poll; node 0 ops=1400; node 1 ops=800
        750ms poll; node 0 ops=2400; node 1 ops=800; task a/1 cpu=100; task b/1 cpu=60
        >
        0ms a due tasks 0 cpu 0 load 0 wait -
        0ms b due tasks 0 cpu 0 load 0 wait -
        0ms c due tasks 0 cpu 0 load 0 wait -
        0ms d due tasks 0 cpu 0 load 0 wait -
        0ms approve a on 0; b on 0; c on 1; d on 1
        250ms a running on 0 in node 0 since 0 tasks 1 cpu 100 load 600 wait -
        250ms b running on 0 in node 0 since 0 tasks 1 cpu 50 load 100 wait -
        250ms c running on 1 in node 1 since 0 tasks 1 cpu 30 load 300 wait -
        250ms d running on 1 in node 1 since 0 tasks 1 cpu 10 load 100 wait -
        250ms bandwidth [700, 400] cpu [150, 40]
        500ms a running on 0 in node 0 since 0 tasks 1 cpu 0 load 0 wait -
        500ms b running on 0 in node 0 since 0 tasks 1 cpu 0 load 0 wait -
        500ms c running on 1 in node 1 since 0 tasks 1 cpu 0 load 0 wait -
        500ms d running on 1 in node 1 since 0 tasks 1 cpu 0 load 0 wait -
        500ms bandwidth [700, 400] cpu [0, 0]
        750ms b running on 0 in node 0 since 0 tasks 1 cpu 10 load 1000 wait -
        750ms bandwidth [1000, 0] cpu [10, 0]
    "#]]);
    check(expect![[r#"
        nodes=2
        job a class=2
        job b class=9
        show jobs
        0ms due a b; request a on 0; request b on 0; node 0 ops=0; node 1 ops=0
        250ms poll; node 0 ops=700; task a/1 cpu=1 misses=60; task b/1 cpu=200 misses=10
        >
        0ms a due tasks 0 cpu 0 load 0 wait -
        0ms b due tasks 0 cpu 0 load 0 wait -
        0ms approve a on 0; b on 0
        250ms a running on 0 in node 0 since 0 tasks 1 cpu 1 load 600 wait -
        250ms b running on 0 in node 0 since 0 tasks 1 cpu 200 load 100 wait -
    "#]]);
}

#[test]
fn if_all_tasks_that_ran_have_counters_loads_are_misses() {
    check(expect![[r#"
        nodes=2
        job a class=9
        job b class=1
        show jobs loads
        0ms due a b; request a on 0; request b on 1
        250ms poll; task a/1 cpu=10 misses=300; task b/1 cpu=10 misses=20; task b/2 cpu=0
        500ms poll
        750ms poll; task a/1 cpu=20 misses=400; task b/1 cpu=20
        1000ms poll; task a/1 cpu=30 misses=500; task b/1 cpu=30
        1250ms poll; task a/1 cpu=40 misses=600; task b/1 cpu=30
        >
        0ms a due tasks 0 cpu 0 load 0 wait -
        0ms b due tasks 0 cpu 0 load 0 wait -
        0ms approve a on 0; b on 1
        250ms a running on 0 in node 0 since 0 tasks 1 cpu 10 load 300 wait -
        250ms b running on 1 in node 1 since 0 tasks 2 cpu 10 load 20 wait -
        250ms counters [300, 20] cpu [10, 10]
        500ms a running on 0 in node 0 since 0 tasks 1 cpu 0 load 0 wait -
        500ms b running on 1 in node 1 since 0 tasks 2 cpu 0 load 0 wait -
        500ms counters [0, 0] cpu [0, 0]
        750ms a running on 0 in node 0 since 0 tasks 1 cpu 10 load 100 wait -
        750ms b running on 1 in node 1 since 0 tasks 2 cpu 10 load 0 wait -
        750ms counters [0, 0] cpu [10, 10] (not readable)
        1000ms a running on 0 in node 0 since 0 tasks 1 cpu 10 load 5110 wait -
        1000ms b running on 1 in node 1 since 0 tasks 2 cpu 10 load 10 wait -
        1000ms declared [5110, 10] cpu [10, 10]
        1250ms b running on 1 in node 1 since 0 tasks 2 cpu 0 load 0 wait -
        1250ms declared [5110, 0] cpu [10, 0]
    "#]]);
}

#[test]
fn an_interval_without_a_counter_value_does_not_affect_the_next_one() {
    check(expect![[r#"
        nodes=2 llcs=1 cores=2
        job a
        show loads tasks
        0ms due a; request a on 0
        250ms poll; task a/1 cpu=10 misses=300
        500ms poll; task a/1 cpu=20 misses=400
        750ms poll; task a/1 cpu=30
        1000ms poll; task a/1 cpu=40 misses=450
        1250ms poll; task a/1 cpu=50 misses=500
        >
        0ms approve a on 0
        250ms a/1 cpu 10 wait None misses Some(300)
        250ms counters [300, 0] cpu [10, 0]
        500ms a/1 cpu 10 wait None misses Some(100)
        500ms counters [100, 0] cpu [10, 0]
        750ms a/1 cpu 10 wait None misses None
        750ms counters [100, 0] cpu [10, 0] (not readable)
        1000ms a/1 cpu 10 wait None misses Some(50)
        1000ms counters [50, 0] cpu [10, 0]
    "#]]);
}

#[test]
fn the_loads_of_many_short_tasks_are_not_rounded_to_zero() {
    // Class 1 declares one operation per millisecond: the load of each task of a alone rounds to zero.
    check(expect![[r#"
        nodes=2
        job a b class=1
        show jobs loads
        0ms due a b; request a on 0; request b on 1
        250ms poll; task a/1 cpu=0.4; task a/2 cpu=0.4; task a/3 cpu=0.4; task b/1 cpu=1.2
        >
        0ms a due tasks 0 cpu 0 load 0 wait -
        0ms b due tasks 0 cpu 0 load 0 wait -
        0ms approve a on 0; b on 1
        250ms a running on 0 in node 0 since 0 tasks 3 cpu 1 load 1 wait -
        250ms b running on 1 in node 1 since 0 tasks 1 cpu 1 load 1 wait -
        250ms declared [1, 1] cpu [1, 1]
    "#]]);
}

#[test]
fn the_remainder_of_a_load_is_not_added_to_another_job() {
    // 0.6 operations of a and 0.6 of b: the sum is a whole operation, each alone is not.
    check(expect![[r#"
        nodes=2
        job a b class=1
        show jobs loads
        0ms due a b; request a on 0; request b on 0
        250ms poll; task a/1 cpu=0.6; task b/1 cpu=0.6
        >
        0ms a due tasks 0 cpu 0 load 0 wait -
        0ms b due tasks 0 cpu 0 load 0 wait -
        0ms approve a on 0; b on 0
        250ms a running on 0 in node 0 since 0 tasks 1 cpu 0 load 0 wait -
        250ms b running on 0 in node 0 since 0 tasks 1 cpu 0 load 0 wait -
        250ms declared [1, 0] cpu [1, 0]
    "#]]);
}

#[test]
fn the_wait_time_of_a_job_includes_exited_tasks() {
    check(expect![[r#"
        nodes=2
        job a b
        show jobs
        0ms due a b
        250ms poll; task a/1 cpu=10 wait=5; task a/2 cpu=10 wait=7; task b/1 cpu=1 wait=1; task b/2 cpu=1 wait=1
        400ms task a/2 cpu=20 wait=17; exited a/2; task b/2 cpu=2; exited b/2
        500ms poll; task a/1 cpu=20 wait=6
        750ms poll
        >
        0ms a due tasks 0 cpu 0 load 0 wait -
        0ms b due tasks 0 cpu 0 load 0 wait -
        250ms a running since 0 tasks 2 cpu 20 load 0 wait 12
        250ms b running since 0 tasks 2 cpu 2 load 0 wait 2
        400ms a running since 0 tasks 1 cpu 20 load 0 wait 12
        400ms b running since 0 tasks 1 cpu 2 load 0 wait 2
        500ms a running since 0 tasks 1 cpu 20 load 0 wait 11
        500ms b running since 0 tasks 1 cpu 1 load 0 wait -
        750ms a running since 0 tasks 1 cpu 0 load 0 wait 0
        750ms b running since 0 tasks 1 cpu 0 load 0 wait 0
    "#]]);
}

#[test]
fn without_counters_and_classes_the_tier_of_loads_is_none() {
    check(expect![[r#"
        nodes=2
        job a
        show jobs loads
        0ms due a; request a on 0
        250ms poll; task a/1 cpu=200
        >
        0ms a due tasks 0 cpu 0 load 0 wait -
        0ms approve a on 0
        250ms a running on 0 in node 0 since 0 tasks 1 cpu 200 load 0 wait -
        250ms none [0, 0] cpu [200, 0]
    "#]]);
}

#[test]
fn the_domain_of_an_unplaced_job_is_that_of_most_tasks_and_loads_count_where_each_task_ran() {
    check(expect![[r#"
        nodes=2 cores=2
        job a b class=1
        show jobs loads
        0ms due a b
        250ms poll; task a/1 cpu=10 on=0; task a/2 cpu=20 on=3; task a/3 cpu=30 on=2; task b/1 cpu=5; task b/2 cpu=7 on=0
        500ms poll; task a/2 cpu=30 on=1
        >
        0ms a due tasks 0 cpu 0 load 0 wait -
        0ms b due tasks 0 cpu 0 load 0 wait -
        250ms a running in node 1 since 0 tasks 3 cpu 60 load 60 wait -
        250ms b running since 0 tasks 2 cpu 12 load 12 wait -
        250ms declared [17, 50] cpu [17, 50]
        500ms a running in node 0 since 0 tasks 3 cpu 10 load 10 wait -
        500ms b running since 0 tasks 2 cpu 0 load 0 wait -
        500ms declared [10, 0] cpu [10, 0]
    "#]]);
}

#[test]
fn a_job_placed_on_two_nodes_has_no_domain() {
    check(expect![[r#"
        nodes=2 cores=2
        job a class=1
        show jobs loads
        0ms due a; request a on 0-3
        250ms poll; task a/1 cpu=10 on=0; task a/2 cpu=20 on=3
        >
        0ms a due tasks 0 cpu 0 load 0 wait -
        0ms approve a on 0-3
        250ms a running on 0-3 since 0 tasks 2 cpu 30 load 30 wait -
        250ms declared [10, 20] cpu [10, 20]
    "#]]);
}

#[test]
fn a_task_of_a_job_that_is_not_running_is_ignored() {
    check(expect![[r#"
        nodes=2
        job a b class=1
        show tasks loads
        0ms due a; request a on 0
        10ms ended a
        250ms poll; task a/1 cpu=100; task b/1 cpu=100; exited b/1; exited a/9
        >
        0ms approve a on 0
        250ms declared [0, 0] cpu [0, 0]
    "#]]);
}

#[test]
fn tasks_are_sorted_by_job_and_id_whatever_the_order_of_samples() {
    check(expect![[r#"
        nodes=2
        job a b class=1
        show tasks
        0ms due a b
        100ms task b/2 cpu=1; task a/2 cpu=2; task b/1 cpu=3; task a/1 cpu=4; task a/1 cpu=4
        200ms exited a/2; task b/3 cpu=5
        250ms poll; task b/1 cpu=13; task a/1 cpu=14; task b/3 cpu=15; task b/2 cpu=16
        >
        100ms a/1 cpu 0 wait None misses None
        100ms a/2 cpu 0 wait None misses None
        100ms b/1 cpu 0 wait None misses None
        100ms b/2 cpu 0 wait None misses None
        200ms a/2 absent
        200ms b/3 cpu 0 wait None misses None
        250ms a/1 cpu 14 wait None misses Some(14)
        250ms b/1 cpu 13 wait None misses Some(13)
        250ms b/2 cpu 16 wait None misses Some(16)
        250ms b/3 cpu 15 wait None misses Some(15)
    "#]]);
}

#[test]
fn a_multiplexed_counter_is_scaled_by_the_times_of_its_own_interval() {
    check(expect![[r#"
        nodes=2
        job a
        show tasks
        0ms due a
        250ms poll; task a/1 cpu=100 misses=100/100/100
        500ms poll; task a/1 cpu=200 misses=130/200/150
        750ms poll; task a/1 cpu=300 misses=130/300/150
        1000ms poll; task a/1 cpu=400 misses=140/400/250
        >
        250ms a/1 cpu 100 wait None misses Some(100)
        500ms a/1 cpu 100 wait None misses Some(60)
        750ms a/1 cpu 100 wait None misses None
        1000ms a/1 cpu 100 wait None misses Some(10)
    "#]]);
}

#[test]
fn the_counters_of_children_are_subtracted_from_inherited_ones() {
    check(expect![[r#"
        nodes=2
        job a
        show tasks
        0ms due a
        250ms poll; task a/1 cpu=100 misses=100 children; task a/2 cpu=40 misses=30
        500ms poll; task a/1 cpu=200 misses=150 children; task a/2 cpu=80 misses=90
        750ms poll; task a/1 cpu=300 misses=200 children; exited a/2
        1000ms poll; task a/1 cpu=400 misses=210 children; task a/3 cpu=10 misses=10
        >
        250ms a/1 cpu 100 wait None misses Some(70)
        250ms a/2 cpu 40 wait None misses Some(30)
        500ms a/1 cpu 100 wait None misses Some(0)
        500ms a/2 cpu 40 wait None misses Some(60)
        750ms a/2 absent
        750ms a/1 cpu 100 wait None misses Some(40)
        1000ms a/1 cpu 100 wait None misses Some(0)
        1000ms a/3 cpu 10 wait None misses Some(10)
    "#]]);
}
