//! Moves that help, that harm, and that are for nothing.

use expect_test::{Expect, expect};

use crate::testing::{Tell, World};

/// Stretches of polls, each `N loads`, one poll a quarter of a second; before them two jobs on each
/// of two domains. Tells what was done and said.
fn check(acts: bool, stretches: &[(u32, &str)], expected: Expect) {
    let mut script = "job a class=5\njob b class=4\njob c class=3\njob d class=2\n".to_owned();
    script.push_str("0ms due a b c d\n");
    let mut at = 0;
    for &(n, loads) in stretches {
        for _ in 0..n {
            at += 250;
            script.push_str(&format!("{at}ms poll {loads}\n"));
        }
    }
    let world = World::new("nodes=2 llcs=1 cores=2", "dfs[cooldown=4]", Tell::Codes);
    expected.assert_eq(&world.carefully(acts).play(&script));
}

#[test]
fn nothing_is_moved_before_it_was_measured_and_what_helps_is_kept() {
    check(
        true,
        &[(12, "900 10"), (14, "460 450")],
        expect![[r#"
        0ms a on 0 because lowest-number
        0ms b on 2 because fewest-jobs
        0ms c on 3 because smallest-classes
        0ms d on 1 because fewest-jobs
        2250ms a on 2 because load-uneven
        5500ms note: judged-better
    "#]],
    );
}

#[test]
fn what_does_harm_is_put_back_and_nothing_is_moved_for_a_minute() {
    check(
        true,
        &[(10, "900 300"), (250, "1000 10"), (12, "1000 10")],
        expect![[r#"
        0ms a on 0 because lowest-number
        0ms b on 2 because fewest-jobs
        0ms c on 3 because smallest-classes
        0ms d on 1 because fewest-jobs
        2250ms a on 2 because load-uneven
        5500ms note: judged-worse
        5500ms a released because judged-worse
        5500ms b released because judged-worse
        5500ms c released because judged-worse
        5500ms d released because judged-worse
        65500ms note: tries-again
    "#]],
    );
}

#[test]
fn while_memory_is_on_its_way_nothing_is_judged() {
    check(
        true,
        &[
            (12, "900 10"),
            (1, "900 10; moving a to=1"),
            (40, "1000 10"),
            (1, "460 450; moved a to=1 mib=64 in=32ms"),
            (10, "460 450"),
        ],
        expect![[r#"
            0ms a on 0 because lowest-number
            0ms b on 2 because fewest-jobs
            0ms c on 3 because smallest-classes
            0ms d on 1 because fewest-jobs
            2250ms a on 2 because load-uneven
            15750ms note: judged-better
        "#]],
    );
}

#[test]
fn what_is_for_nothing_three_times_is_put_back() {
    let (one, other) = ("900 10", "10 900");
    check(
        true,
        &[(12, one), (13, other), (13, one), (13, other), (13, one)],
        expect![[r#"
            0ms a on 0 because lowest-number
            0ms b on 2 because fewest-jobs
            0ms c on 3 because smallest-classes
            0ms d on 1 because fewest-jobs
            2250ms a on 2 because load-uneven
            5500ms b on 0 because load-uneven
            5750ms c on 0 because load-uneven
            8750ms c on 3 because load-uneven
            9000ms d on 2 because load-uneven
            12000ms note: judged-no-better
            12000ms a released because judged-no-better
            12000ms b released because judged-no-better
            12000ms c released because judged-no-better
            12000ms d released because judged-no-better
        "#]],
    );
}

#[test]
fn where_nothing_may_be_changed_each_wish_is_said_once_a_minute() {
    check(
        false,
        &[(250, "900 10")],
        expect![[r#"
        0ms a on 0 because lowest-number
        0ms b on 2 because fewest-jobs
        0ms c on 3 because smallest-classes
        0ms d on 1 because fewest-jobs
        60250ms a on 2 because load-uneven
    "#]],
    );
}

#[test]
fn where_nothing_may_be_changed_it_is_said_too_where_memory_would_go() {
    let script = "job a class=5\njob b class=4\n0ms due a\n1ms poll 0 900\n2ms due b\n\
                  free 0=512 1=512\n61000ms memory a 0=64; poll 900 100\n61250ms poll 900 100\n";
    let world = World::new("nodes=2 llcs=1 cores=2", "dfs[memory=follow]", Tell::Codes);
    expect![[r#"
        0ms a on 0 because lowest-number
        2ms b on 1 because least-load
        61000ms a on 2 because load-uneven
        61000ms a pages from anywhere to node1 because memory-follows
    "#]]
    .assert_eq(&world.carefully(false).play(script));
}
