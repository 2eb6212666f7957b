//! Sources of values: the best available one, or the configured one.

use expect_test::expect;

use crate::testing::check;

#[test]
fn counters_have_precedence_over_declarations_unless_overridden() {
    check(expect![[r#"
        nodes=2 cores=1
        job a class=3
        job b class=1
        show tasks loads
        0ms due a b; request a on 0; request b on 1
        250ms poll; task a/1 cpu=0 misses=0 on=0; task b/1 cpu=0 misses=0 on=1
        500ms poll; task a/1 cpu=10 misses=500 on=0; task b/1 cpu=20 misses=90 on=1
        >
        0ms approve a on 0; b on 1
        250ms a/1 cpu 0 wait None misses Some(0)
        250ms b/1 cpu 0 wait None misses Some(0)
        250ms declared [0, 0] cpu [0, 0]
        500ms a/1 cpu 10 wait None misses Some(500)
        500ms b/1 cpu 20 wait None misses Some(90)
        500ms counters [500, 90] cpu [10, 20]
        > signals loads=declared
        0ms approve a on 0; b on 1
        250ms a/1 cpu 0 wait None misses Some(0)
        250ms b/1 cpu 0 wait None misses Some(0)
        250ms declared [0, 0] cpu [0, 0]
        500ms a/1 cpu 10 wait None misses Some(500)
        500ms b/1 cpu 20 wait None misses Some(90)
        500ms declared [70, 20] cpu [10, 20]
        > signals llc-misses=declared
        0ms approve a on 0; b on 1
        250ms a/1 cpu 0 wait None misses Some(0)
        250ms b/1 cpu 0 wait None misses Some(0)
        250ms declared [0, 0] cpu [0, 0]
        500ms a/1 cpu 10 wait None misses Some(70)
        500ms b/1 cpu 20 wait None misses Some(20)
        500ms counters [500, 90] cpu [10, 20]
        > signals llc-misses=none,loads=none
        0ms approve a on 0; b on 1
        250ms a/1 cpu 0 wait None misses None
        250ms b/1 cpu 0 wait None misses None
        250ms none [0, 0] cpu [0, 0]
        500ms a/1 cpu 10 wait None misses None
        500ms b/1 cpu 20 wait None misses None
        500ms none [0, 0] cpu [10, 20]
    "#]]);
}

#[test]
fn a_fixed_tier_that_is_unavailable_gives_no_values_or_is_not_readable() {
    check(expect![[r#"
        nodes=2 cores=1
        job a class=3
        show tasks loads
        0ms due a; request a on 0
        250ms poll; task a/1 cpu=10 on=0
        > signals loads=counters,llc-misses=counters
        0ms approve a on 0
        250ms a/1 cpu 10 wait None misses None
        250ms none [0, 0] cpu [10, 0]
        > signals loads=bandwidth,llc-misses=counters
        0ms approve a on 0
        250ms a/1 cpu 10 wait None misses None
        250ms none [0, 0] cpu [10, 0] (not readable)
    "#]]);
}

#[test]
fn the_load_of_an_llc_domain_is_the_traffic_of_its_cache() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=1
        job a class=3
        show loads
        0ms due a; request a on 0; llc 0 6400; llc 1 0
        250ms poll; task a/1 cpu=10 on=0; llc 0 12800; llc 1 64
        500ms poll; task a/1 cpu=20 on=0; llc 0 -; llc 1 128
        750ms poll; task a/1 cpu=30 on=0; llc 0 25600; llc 1 192
        >
        0ms approve a on 0
        250ms bandwidth [100, 1] cpu [10, 0]
        500ms bandwidth [100, 1] cpu [10, 0] (not readable)
    "#]]);
}

#[test]
fn misses_come_from_the_monitoring_group_if_tasks_have_no_counter() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=1
        job a class=3
        show tasks
        0ms due a; request a on 0; group a 0 0; group a 1 0
        250ms poll; task a/1 cpu=0 on=0; task a/2 cpu=0 on=0
        500ms poll; task a/1 cpu=10 on=0; task a/2 cpu=30 on=0; group a 0 6400; group a 1 25600
        >
        0ms approve a on 0
        250ms a/1 cpu 0 wait None misses Some(0)
        250ms a/2 cpu 0 wait None misses Some(0)
        500ms a/1 cpu 10 wait None misses Some(125)
        500ms a/2 cpu 30 wait None misses Some(375)
    "#]]);
}

#[test]
fn traffic_of_tasks_is_charged_to_the_nodes_of_their_pages() {
    check(expect![[r#"
        nodes=2 cores=1
        job a class=3
        show jobs loads
        0ms due a; request a on 0
        250ms poll; task a/1 cpu=100 on=0
        500ms poll; task a/1 cpu=200 on=0; memory a/1 0=16 1=48
        750ms poll; task a/1 cpu=300 on=0; memory a/1 1=64
        >
        0ms a due tasks 0 cpu 0 load 0 wait -
        0ms approve a on 0
        250ms a running on 0 in node 0 since 0 tasks 1 cpu 100 load 700 wait -
        250ms declared [700, 0] cpu [100, 0]
        500ms declared [175, 525] cpu [100, 0]
        750ms declared [0, 700] cpu [100, 0]
    "#]]);
}
