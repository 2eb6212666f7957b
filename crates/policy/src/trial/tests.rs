//! Moves that help, that harm, and that are for nothing.

use expect_test::{Expect, expect};

use crate::testing::{Tell, World};

/// Two jobs for each of two domains.
const FOUR: &str = "job a class=5\njob b class=4\njob c class=3\njob d class=2\n";

/// Stretches of polls, each `N loads`, one poll a quarter of a second; before them two jobs on each
/// of two domains. Tells what was done and said.
fn check(acts: bool, stretches: &[(u32, &str)], expected: Expect) {
    let mut script = FOUR.to_owned();
    script.push_str("0ms due a b c d\n");
    let mut at = 0;
    for &(n, loads) in stretches {
        for _ in 0..n {
            at += 250;
            script.push_str(&format!("{at}ms poll {loads}\n"));
        }
    }
    let world = World::new("nodes=2 llcs=1 cores=2", "dfs[cooldown=4]", Tell::Codes);
    expected.assert_eq(&world.with_trials(acts).play(&script));
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
    .assert_eq(&world.with_trials(false).play(script));
}

/// Polls a quarter of a second apart from `from` on, each with what `of` tells of it.
fn polls(from: u64, n: u64, of: impl Fn(u64) -> String) -> String {
    (0..n).map(|idx| format!("{}ms {}\n", from + 250 * idx, of(idx))).collect()
}

#[test]
fn jobs_that_come_and_go_leave_the_others_to_be_compared() {
    let mut script = format!("{FOUR}job e class=0\n0ms due a b c d\n");
    let churn = |idx: u64| match idx % 4 {
        0 => "due e; ",
        2 => "ended e; ",
        _ => "",
    };
    let waits = |ms: u64| format!("waits a={ms}ms/100ms b={ms}ms/100ms e=90ms/10ms; ");
    script += &polls(250, 12, |idx| format!("{}{}poll 900 10", churn(idx), waits(100)));
    script += &polls(3250, 12, |idx| format!("{}{}poll 460 450", churn(idx), waits(5)));
    let world = World::new("nodes=2 llcs=1 cores=2", "dfs[cooldown=4]", Tell::Sentences);
    expect![[r#"
        0ms a on 0 because node 0 has the lowest number of 2 domains with equal load, jobs and classes (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
        0ms b on 2 because node 1 had the fewest jobs (0) of the domains with the lowest load (0 of 0 memory operations); cpu 2 had the fewest jobs there (tier bandwidth)
        0ms c on 3 because node 1 had the smallest sum of classes (4) of the domains with the lowest load (0 of 0 memory operations) and the fewest jobs (1); cpu 3 had the fewest jobs there (tier bandwidth)
        0ms d on 1 because node 0 had the fewest jobs (1) of the domains with the lowest load (0 of 0 memory operations); cpu 1 had the fewest jobs there (tier bandwidth)
        250ms e on 3 because node 1 had the lowest load (10 of 910 memory operations in the last interval); cpu 3 had the fewest jobs there (tier bandwidth)
        1250ms e on 3 because node 1 had the lowest load (10 of 910 memory operations in the last interval); cpu 3 had the fewest jobs there (tier bandwidth)
        2250ms e on 3 because node 1 had the lowest load (10 of 910 memory operations in the last interval); cpu 3 had the fewest jobs there (tier bandwidth)
        2250ms a on 2 because node 0 had a load of 900 memory operations in the last interval and node 1 10: more than 4/3 times the mean (455); this job had the highest class (5, by rate) of the movable jobs on node 0; cpu 2 had the fewest jobs on node 1 (tier bandwidth)
        3250ms e on 3 because node 1 had the lowest load (450 of 910 memory operations in the last interval); cpu 3 had the fewest jobs there (tier bandwidth)
        4250ms e on 3 because node 1 had the lowest load (450 of 910 memory operations in the last interval); cpu 3 had the fewest jobs there (tier bandwidth)
        5250ms e on 3 because node 1 had the lowest load (450 of 910 memory operations in the last interval); cpu 3 had the fewest jobs there (tier bandwidth)
        5500ms note: the share of wait time changed from 0.500 to 0.048 after 1 migrations, more than noise (0.020), for the jobs present throughout (3 others ended, 3 started): the migrations help
    "#]].assert_eq(&world.with_trials(true).play(&script));
}

#[test]
fn moves_of_jobs_that_have_all_ended_are_not_judged_and_count_as_for_nothing() {
    let mut script = FOUR.to_owned();
    for round in 0..4 {
        let at = round * 6000;
        let due = if round == 0 { "a b c d" } else { "a" };
        script += &format!("{at}ms due {due}\n");
        script += &polls(at + 250, 12, |_| "poll 900 10".to_owned());
        script += &format!("{}ms ended a\n", at + 3100);
        script += &polls(at + 3250, 10, |_| "poll 10 10".to_owned());
    }
    let world = World::new("nodes=2 llcs=1 cores=2", "dfs[cooldown=4]", Tell::Sentences);
    expect![[r#"
        0ms a on 0 because node 0 has the lowest number of 2 domains with equal load, jobs and classes (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
        0ms b on 2 because node 1 had the fewest jobs (0) of the domains with the lowest load (0 of 0 memory operations); cpu 2 had the fewest jobs there (tier bandwidth)
        0ms c on 3 because node 1 had the smallest sum of classes (4) of the domains with the lowest load (0 of 0 memory operations) and the fewest jobs (1); cpu 3 had the fewest jobs there (tier bandwidth)
        0ms d on 1 because node 0 had the fewest jobs (1) of the domains with the lowest load (0 of 0 memory operations); cpu 1 had the fewest jobs there (tier bandwidth)
        2250ms a on 2 because node 0 had a load of 900 memory operations in the last interval and node 1 10: more than 4/3 times the mean (455); this job had the highest class (5, by rate) of the movable jobs on node 0; cpu 2 had the fewest jobs on node 1 (tier bandwidth)
        3250ms note: the effect of 1 migrations is unknown, since all migrated jobs ended or nothing was measured of the others: inconclusive, 1 of 3 times until all jobs are released
        6000ms a on 0 because node 0 had the fewest jobs (1) of the domains with the lowest load (10 of 20 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
        6250ms a on 2 because node 0 had a load of 900 memory operations in the last interval and node 1 10: more than 4/3 times the mean (455); this job had the highest class (5, by rate) of the movable jobs on node 0; cpu 2 had the fewest jobs on node 1 (tier bandwidth)
        9250ms note: the effect of 1 migrations is unknown, since all migrated jobs ended or nothing was measured of the others: inconclusive, 2 of 3 times until all jobs are released
        12000ms a on 0 because node 0 had the fewest jobs (1) of the domains with the lowest load (10 of 20 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
        12250ms a on 2 because node 0 had a load of 900 memory operations in the last interval and node 1 10: more than 4/3 times the mean (455); this job had the highest class (5, by rate) of the movable jobs on node 0; cpu 2 had the fewest jobs on node 1 (tier bandwidth)
        15250ms note: 3 trials in a row had no measurable effect: all jobs are released and none migrates for 60.000 s
        15250ms b released because 3 trials in a row had no measurable effect: all jobs are released and none migrates for 60.000 s
        15250ms c released because 3 trials in a row had no measurable effect: all jobs are released and none migrates for 60.000 s
        15250ms d released because 3 trials in a row had no measurable effect: all jobs are released and none migrates for 60.000 s
        18000ms a on 0 because node 0 had the fewest jobs (1) of the domains with the lowest load (10 of 20 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
    "#]].assert_eq(&world.with_trials(true).play(&script));
}

#[test]
fn who_has_the_number_of_one_that_was_moved_is_not_judged_in_its_place() {
    let mut script = format!("{FOUR}0ms due a b c d\n");
    script += &polls(250, 9, |_| "poll 900 10".to_owned());
    script += "2500ms ended a; due a; poll 900 10\n";
    script += &polls(2750, 3, |_| "poll 460 450".to_owned());
    let world = World::new("nodes=2 llcs=1 cores=2", "dfs[cooldown=4]", Tell::Codes);
    expect![[r#"
        0ms a on 0 because lowest-number
        0ms b on 2 because fewest-jobs
        0ms c on 3 because smallest-classes
        0ms d on 1 because fewest-jobs
        2250ms a on 2 because load-uneven
        2500ms a on 2 because least-load
        2750ms note: not-judged
    "#]]
    .assert_eq(&world.with_trials(true).play(&script));
}

#[test]
fn that_loads_stand_on_nothing_is_said_of_programs_that_are_there_in_words_for_watching() {
    let mut script = "job a\njob b\ntier none\n".to_owned();
    script += &polls(250, 4, |_| "poll 0 0".to_owned());
    script += "1250ms due a b\n";
    script += &polls(1500, 8, |_| "poll 0 0".to_owned());
    let world = World::new("nodes=2 llcs=1 cores=2", "dfs", Tell::Codes);
    expect![[r#"
        1250ms note: no-class
        1250ms a on 0 because lowest-number
        1250ms b on 2 because fewest-jobs
        2000ms note: nothing-is-moved
    "#]]
    .assert_eq(&world.with_trials(true).play(&script));
}

#[test]
fn memory_that_goes_after_a_job_is_part_of_the_same_trial() {
    // Where its memory lies is known only when moves are not let through any more.
    let mut script = format!("{FOUR}free 0=512 1=512\n0ms due a b c d\n");
    script += &polls(250, 16, |_| "poll 900 300".to_owned());
    script += &polls(4250, 1, |_| "memory a 0=64; poll 900 300".to_owned());
    script += &polls(4500, 4, |_| "moving a to=1; poll 900 300".to_owned());
    script += "5500ms moved a to=1 mib=64 in=32ms; memory a 1=64; poll 600 600\n";
    script += &polls(5750, 12, |_| "poll 600 600".to_owned());
    let policy = "dfs[cooldown=4,memory=follow]";
    let world = World::new("nodes=2 llcs=1 cores=2", policy, Tell::Codes);
    expect![[r#"
        0ms a on 0 because lowest-number
        0ms b on 2 because fewest-jobs
        0ms c on 3 because smallest-classes
        0ms d on 1 because fewest-jobs
        2250ms a on 2 because load-uneven
        4250ms a pages from anywhere to node1 because memory-follows
        7500ms note: judged-better
    "#]]
    .assert_eq(&world.with_trials(true).play(&script));
}
