//! What the published paper names as possible and does not do (spec 1.10), each switched on by itself.

use expect_test::expect;

use super::moves::three_and_one;
use super::{check, check_story};
use crate::testing::plans;

const TWO_NODES: &str = "nodes=2 cores=2";
const THREE_NODES: &str = "nodes=3 cores=2";

#[test]
fn a_program_starts_where_it_and_its_neighbours_suffer_least() {
    // The aggressor hurts the tender one, which hurts nobody; loads alone would part them otherwise.
    check_story(
        TWO_NODES,
        "dfs[placement=sens]",
        "
        job rough class=9
        job tender class=2 sens=9:400
        job tough class=2
        0ms due rough
        1ms poll 10 90
        2ms due tender
        3ms due tough
        ",
        expect![[r#"
            0ms rough on 0 because node 0 has the lowest number of 2 domains with equal slowdowns, load, jobs and classes (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
            2ms tender on 2 because the predicted sum of slowdowns was lowest on node 1 (this job adds 0.000 of a job's time; load 90 of 100 memory operations in the last interval); cpu 2 had the fewest jobs there (tier bandwidth)
            3ms tough on 1 because the predicted sum of slowdowns was lowest on node 0 (this job adds 0.000 of a job's time; load 10 of 100 memory operations in the last interval); cpu 1 had the fewest jobs there (tier bandwidth)
        "#]],
    );
}

#[test]
fn what_others_suffer_from_a_newcomer_counts_too() {
    check(
        TWO_NODES,
        "dfs[placement=sens]",
        "
        job tender class=2 sens=9:400
        job other class=2
        job rough class=9
        0ms due tender
        0ms due other
        1ms poll 0 90
        2ms due rough
        ",
        expect![[r#"
            0ms tender on 0 because lowest-number
            0ms other on 2 because least-slowdown
            2ms rough on 3 because least-slowdown
        "#]],
    );
}

#[test]
fn the_move_that_lowers_slow_downs_most_is_made_wherever_it_leads() {
    // Node 1 carries least, but the tender one would meet another aggressor there.
    check_story(
        THREE_NODES,
        "dfs[placement=sens]",
        "
        job rough class=9 nodes=0
        job tender class=2 sens=9:400,8:300 nodes=0
        job second class=8 nodes=1
        job third class=1 nodes=2
        0ms due rough tender second third
        250ms poll 900 10 20
        ",
        expect![[r#"
            0ms rough on 0 because node 0 is the only domain that the job may use (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
            0ms tender on 1 because node 0 is the only domain that the job may use (load 0 of 0 memory operations); cpu 1 had the fewest jobs there (tier bandwidth)
            0ms second on 2 because node 1 is the only domain that the job may use (load 0 of 0 memory operations); cpu 2 had the fewest jobs there (tier bandwidth)
            0ms third on 4 because node 2 is the only domain that the job may use (load 0 of 0 memory operations); cpu 4 had the fewest jobs there (tier bandwidth)
        "#]],
    );
    check_story(
        THREE_NODES,
        "dfs[placement=sens]",
        "
        job rough class=9 nodes=0
        job tender class=2 sens=9:400,8:300
        job second class=8 nodes=1
        job third class=1 nodes=2
        0ms due tender
        1ms due rough second third
        250ms poll 900 10 20
        ",
        expect![[r#"
            0ms tender on 0 because node 0 has the lowest number of 3 domains with equal slowdowns, load, jobs and classes (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
            1ms rough on 1 because node 0 is the only domain that the job may use (load 0 of 0 memory operations); cpu 1 had the fewest jobs there (tier bandwidth)
            1ms second on 2 because node 1 is the only domain that the job may use (load 0 of 0 memory operations); cpu 2 had the fewest jobs there (tier bandwidth)
            1ms third on 4 because node 2 is the only domain that the job may use (load 0 of 0 memory operations); cpu 4 had the fewest jobs there (tier bandwidth)
            250ms tender on 5 because node 0 had a load of 900 memory operations in the last interval, more than 3/2 times the mean (310); of the movable jobs on node 0, this one lowers the sum of predicted slowdowns most on node 2 (by 0.363 of a job's time); cpu 5 had the fewest jobs on node 2 (tier bandwidth)
        "#]],
    );
}

#[test]
fn nothing_moves_when_no_move_would_lower_slow_downs() {
    check(
        TWO_NODES,
        "dfs[placement=sens]",
        "
        job a class=9
        job b class=9
        job c class=9
        0ms due a b c
        250ms poll 900 10
        ",
        expect![[r#"
            0ms a on 0 because lowest-number
            0ms b on 2 because fewest-jobs
            0ms c on 1 because lowest-number
        "#]],
    );
}

#[test]
fn a_job_that_shows_another_class_than_declared_is_judged_by_what_it_shows() {
    // Declared harmless, it misses 1000 times a millisecond: class 9 after four polls that agree.
    let script = "
        job liar class=1 nodes=0
        job honest class=7 nodes=0
        0ms due liar honest
        250ms misses liar=250000/250ms honest=31750/250ms; poll 100 100
        500ms poll 100 100
        750ms poll 100 100
        1000ms poll 100 100
    ";
    let free = script.replace("liar class=1 nodes=0", "liar class=1");
    let free = free.replace("honest class=7 nodes=0", "honest class=7");
    let then = format!("{free} 1250ms poll 900 100");
    // Both begin on one node: the load that the first shows is told before the second starts.
    let together =
        then.replace("0ms due liar honest", "0ms due liar\n1ms poll 0 900\n2ms due honest");
    check_story(
        TWO_NODES,
        "dfs[classes=online]",
        &together,
        expect![[r#"
            0ms liar on 0 because node 0 has the lowest number of 2 domains with equal load, jobs and classes (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
            2ms honest on 1 because node 0 had the lowest load (0 of 900 memory operations in the last interval); cpu 1 had the fewest jobs there (tier bandwidth)
            1250ms liar on 2 because node 0 had a load of 900 memory operations in the last interval and node 1 100: more than 4/3 times the mean (500); this job had the highest class (9, by counted cache misses) of the movable jobs on node 0; cpu 2 had the fewest jobs on node 1 (tier bandwidth)
        "#]],
    );
    check(
        TWO_NODES,
        "dfs",
        &together,
        expect![[r#"
            0ms liar on 0 because lowest-number
            2ms honest on 1 because least-load
            1250ms honest on 2 because load-uneven
        "#]],
    );
}

#[test]
fn with_both_signals_controllers_say_that_somebody_goes_and_misses_say_who() {
    let script = "
        job mild class=9
        job wild class=2
        0ms due mild
        1ms poll 0 900
        2ms due wild
        250ms misses mild=50/10ms wild=900/10ms; poll 900 100
    ";
    check_story(
        TWO_NODES,
        "dfs[loads=both]",
        script,
        expect![[r#"
            0ms mild on 0 because node 0 has the lowest number of 2 domains with equal load, jobs and classes (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
            2ms wild on 1 because node 0 had the lowest load (0 of 900 memory operations in the last interval); cpu 1 had the fewest jobs there (tier bandwidth)
            250ms wild on 2 because node 0 had a load of 900 memory operations in the last interval, more than 4/3 times the mean (500); of the movable jobs on node 0, this one had the most cache misses (900); cpu 2 had the fewest jobs on node 1 (tier bandwidth)
        "#]],
    );
    // Where misses are not counted the class tells, as it does without the extension.
    let uncounted = script.replace("misses mild=50/10ms wild=900/10ms; ", "");
    check(
        TWO_NODES,
        "dfs[loads=both]",
        &uncounted,
        expect![[r#"
            0ms mild on 0 because lowest-number
            2ms wild on 1 because least-load
            250ms mild on 2 because load-uneven
        "#]],
    );
}

/// Two jobs on node 0 and one on node 1; the first of them is to leave.
const CROWDED: &str = "
    job wild class=9
    job mild class=2
    0ms due wild
    1ms poll 0 900
    2ms due mild
";

#[test]
fn memory_goes_after_the_job_that_was_moved() {
    check_story(
        TWO_NODES,
        "dfs[memory=follow]",
        &format!("{CROWDED} free 0=512 1=512\n 250ms memory wild 0=64 1=2; poll 900 100"),
        expect![[r#"
            0ms wild on 0 because node 0 has the lowest number of 2 domains with equal load, jobs and classes (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
            2ms mild on 1 because node 0 had the lowest load (0 of 900 memory operations in the last interval); cpu 1 had the fewest jobs there (tier bandwidth)
            250ms wild on 2 because node 0 had a load of 900 memory operations in the last interval and node 1 100: more than 4/3 times the mean (500); this job had the highest class (9, by rate) of the movable jobs on node 0; cpu 2 had the fewest jobs on node 1 (tier bandwidth)
            250ms wild pages from anywhere to node1 because the job migrated to node 1, which holds 3.0 % of its memory (66.0 MiB); its other own pages (64.0 MiB) follow, and node 1 has 512.0 MiB free
        "#]],
    );
    // Without the extension it stays.
    check(
        TWO_NODES,
        "dfs",
        &format!("{CROWDED} free 0=512 1=512\n 250ms memory wild 0=64; poll 900 100"),
        expect![[r#"
            0ms wild on 0 because lowest-number
            2ms mild on 1 because least-load
            250ms wild on 2 because load-uneven
        "#]],
    );
}

#[test]
fn memory_stays_when_it_is_there_already_or_when_there_is_no_room() {
    let plans = |told: &str| {
        let script = format!("{CROWDED} free 0=512 1=512\n 250ms {told}; poll 900 100");
        crate::testing::plans(TWO_NODES, "dfs[memory=follow]", &script)
    };
    let expected = expect![[r#"
        0ms wild on 0 because lowest-number
        2ms mild on 1 because least-load
        250ms wild on 2 because load-uneven
    "#]];
    expected.assert_eq(&plans("memory wild 0=6 1=94"));
    assert_eq!(plans("memory wild 0=6 1=94"), plans("memory wild 0=427"));
    assert_ne!(plans("memory wild 0=6 1=94"), plans("memory wild 0=426"));
}

#[test]
fn memory_that_is_not_known_yet_follows_when_it_is_and_what_is_left_is_asked_for_again() {
    let script = format!(
        "{CROWDED} free 0=512 1=512
        250ms poll 900 100
        500ms poll 500 500
        750ms memory wild 0=64; poll 500 500
        1000ms memory wild 0=32 1=32; poll 500 500
        2750ms poll 500 500
        3000ms poll 500 500
        4000ms memory wild 0=2 1=62; poll 500 500
        6000ms poll 500 500"
    );
    check(
        TWO_NODES,
        "dfs[memory=follow,cooldown=3]",
        &script,
        expect![[r#"
        0ms wild on 0 because lowest-number
        2ms mild on 1 because least-load
        250ms wild on 2 because load-uneven
        750ms wild pages from anywhere to node1 because memory-follows
        3000ms wild pages from anywhere to node1 because memory-follows
    "#]],
    );
}

#[test]
fn a_job_that_somebody_took_does_not_keep_others_from_being_moved() {
    let script = format!(
        "{CROWDED} free 0=512 1=512
        250ms poll 900 100
        300ms hands-off wild on 2-3
        500ms memory wild 0=64; poll 900 100
        750ms poll 900 100
        1000ms poll 900 100"
    );
    let policy = "dfs[memory=follow,cooldown=3,only_job=move]";
    check(
        TWO_NODES,
        policy,
        &script,
        expect![[r#"
        0ms wild on 0 because lowest-number
        2ms mild on 1 because least-load
        250ms wild on 2 because load-uneven
        500ms mild on 2 because load-uneven
    "#]],
    );
}

#[test]
fn memory_follows_nobody_who_is_elsewhere_again() {
    let asked = |told: &str| {
        let script = format!(
            "{CROWDED} free 0=512 1=512
            250ms poll 900 100
            500ms {told}; memory wild 0=64; poll 500 500"
        );
        plans(TWO_NODES, "dfs[memory=follow]", &script).contains("500ms wild pages")
    };
    assert!(asked("memory mild 0=1"));
    assert!(!asked("hands-off wild on 0"));
    // What keeps it here was refused: it never went.
    let denied = format!(
        "{CROWDED} free 0=512 1=512 \n deny wild
        250ms poll 900 100
        500ms memory wild 0=64; poll 500 500"
    );
    assert!(!plans(TWO_NODES, "dfs[memory=follow]", &denied).contains("pages"));
}

#[test]
fn while_memory_is_on_its_way_loads_move_nobody() {
    let crowded = "
        job wild class=9 nodes=0-1
        job mild class=2 nodes=0-1
        job meek class=1 nodes=0-1
        0ms due wild
        1ms poll 0 900
        2ms due mild
        3ms due meek
        free 0=512 1=512";
    let moves = |told: &str| {
        let script = format!(
            "{crowded}
            250ms memory wild 0=64; memory mild 0=64; poll 900 100
            500ms moving wild to=1; poll 900 100
            750ms poll 900 100
            1000ms {told}poll 900 100"
        );
        plans(TWO_NODES, "dfs[memory=follow]", &script)
    };
    let before = "0ms wild on 0 because lowest-number
2ms mild on 1 because least-load
3ms meek on 0 because least-load
250ms wild on 2 because load-uneven
250ms wild pages from anywhere to node1 because memory-follows
";
    assert_eq!(moves(""), before);
    let after = moves("memory wild 1=64; moved wild to=1 mib=64 in=32ms; ");
    assert!(after.starts_with(before) && after.contains("1000ms mild on 3"), "{after}");
}

#[test]
fn a_move_that_costs_more_than_it_gains_is_not_made() {
    // 250 ms lived, all of the load, a fifth of it gained: 50 ms. 64 MiB are 16384 pages of 2 µs.
    let told = "memory wild 0=64; poll 900 100 with wild=900";
    let script = format!("{CROWDED} free 0=512 1=512\n 250ms {told}");
    check_story(
        TWO_NODES,
        "dfs[memory=follow,gain=1]",
        &script,
        expect![[r#"
            0ms wild on 0 because node 0 has the lowest number of 2 domains with equal load, jobs and classes (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
            2ms mild on 1 because node 0 had the lowest load (0 of 900 memory operations in the last interval); cpu 1 had the fewest jobs there (tier bandwidth)
            250ms wild on 2 because node 0 had a load of 900 memory operations in the last interval and node 1 100: more than 4/3 times the mean (500); this job had the highest class (9, by rate) of the movable jobs on node 0; cpu 2 had the fewest jobs on node 1; estimated gain 50.0 ms, cost 37.8 ms (tier bandwidth)
            250ms wild pages from anywhere to node1 because the job migrated to node 1, which holds 0.0 % of its memory (64.0 MiB); its other own pages (64.0 MiB) follow, and node 1 has 512.0 MiB free
        "#]],
    );
    check(
        TWO_NODES,
        "dfs[memory=follow,gain=1.5]",
        &script,
        expect![[r#"
        0ms wild on 0 because lowest-number
        2ms mild on 1 because least-load
    "#]],
    );
    // Where memory stays only the caches are to be filled again.
    check(
        TWO_NODES,
        "dfs[gain=1.5]",
        &script,
        expect![[r#"
        0ms wild on 0 because lowest-number
        2ms mild on 1 because least-load
        250ms wild on 2 because load-uneven
    "#]],
    );
}

#[test]
fn what_a_page_costs_is_learnt_from_moves() {
    // 16384 pages took 655 ms: 40 µs a page instead of 2.
    let script = format!(
        "{CROWDED} free 0=512 1=512
        250ms memory wild 0=64; moved mild to=0 mib=64 in=655ms; poll 900 100 with wild=900"
    );
    check(
        TWO_NODES,
        "dfs[memory=follow,gain=1]",
        &script,
        expect![[r#"
        0ms wild on 0 because lowest-number
        2ms mild on 1 because least-load
    "#]],
    );
}

#[test]
fn remote_memory_is_a_slow_down_of_its_own() {
    // Company would part them, but all of the tender one's memory would be far.
    let script = |remote: u32| {
        format!(
            "
            job rough class=9 nodes=0
            job tender class=0 sens=9:400,remote:{remote}
            0ms due tender
            1ms due rough
            250ms memory tender 0=64; poll 900 100
            "
        )
    };
    check(
        TWO_NODES,
        "dfs[placement=sens]",
        &script(500),
        expect![[r#"
        0ms tender on 0 because lowest-number
        1ms rough on 1 because only-domain
    "#]],
    );
    check(
        TWO_NODES,
        "dfs[placement=sens]",
        &script(300),
        expect![[r#"
        0ms tender on 0 because lowest-number
        1ms rough on 1 because only-domain
        250ms tender on 2 because load-relieved
    "#]],
    );
    // Where memory follows nothing is remote for long.
    check(
        TWO_NODES,
        "dfs[placement=sens,memory=follow]",
        &script(500),
        expect![[r#"
        0ms tender on 0 because lowest-number
        1ms rough on 1 because only-domain
        250ms tender on 2 because load-relieved
    "#]],
    );
}

#[test]
fn a_poll_that_an_overflow_brought_about_decides_as_any_other() {
    let polls = "250ms poll 900 100\n 500ms poll 900 100\n 2500ms poll 100 900";
    let overflows =
        "250ms poll 900 100; overflow\n 500ms poll 900 100; overflow\n 2500ms poll 100 900";
    let polled = plans(TWO_NODES, "dfs", &three_and_one(polls));
    let woken = "dfs[wake=overflow:llc-misses:1000000]";
    assert_eq!(plans(TWO_NODES, woken, &three_and_one(overflows)), polled);
    assert!(polled.contains("load-uneven"), "{polled}");
}
