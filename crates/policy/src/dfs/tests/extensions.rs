//! Extensions: not in the published algorithm, each off by default.

use expect_test::expect;

use super::moves::THREE_AND_ONE;
use crate::testing::{check, check_after, plans};

#[test]
fn a_job_starts_on_the_domain_with_the_smallest_sum_of_slowdowns() {
    // `rough` slows `tender` down, and `tender` slows no job down. By loads alone the assignment would differ.
    check(expect![[r#"
        nodes=2 cores=2
        job rough class=9
        job tender class=2 sens=9:400
        job tough class=2
        0ms due rough
        1ms poll 10 90
        2ms due tender
        3ms due tough
        >> dfs[placement=sens]
        0ms rough on 0 because node 0 has the lowest number of 2 domains with equal slowdowns, load, jobs and classes (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
        2ms tender on 2 because the predicted sum of slowdowns was lowest on node 1 (this job adds 0.000 of a job's time; load 90 of 100 memory operations in the last interval); cpu 2 had the fewest jobs there (tier bandwidth)
        3ms tough on 1 because the predicted sum of slowdowns was lowest on node 0 (this job adds 0.000 of a job's time; load 10 of 100 memory operations in the last interval); cpu 1 had the fewest jobs there (tier bandwidth)
    "#]]);
}

#[test]
fn the_slowdown_of_other_jobs_by_a_new_job_counts_too() {
    check(expect![[r#"
        nodes=2 cores=2
        job tender class=2 sens=9:400
        job other class=2
        job rough class=9
        0ms due tender
        0ms due other
        1ms poll 0 90
        2ms due rough
        > dfs[placement=sens]
        0ms tender on 0 because lowest-number
        0ms other on 2 because least-slowdown
        2ms rough on 3 because least-slowdown
    "#]]);
}

#[test]
fn the_migration_that_lowers_the_sum_of_slowdowns_most_is_requested_whatever_the_target() {
    // Node 1 carries least, but the tender one would meet another aggressor there.
    check(expect![[r#"
        nodes=3 cores=2
        job rough class=9 nodes=0
        job tender class=2 sens=9:400,8:300 nodes=0
        job second class=8 nodes=1
        job third class=1 nodes=2
        0ms due rough tender second third
        250ms poll 900 10 20
        >> dfs[placement=sens]
        0ms rough on 0 because node 0 is the only domain that the job may use (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
        0ms tender on 1 because node 0 is the only domain that the job may use (load 0 of 0 memory operations); cpu 1 had the fewest jobs there (tier bandwidth)
        0ms second on 2 because node 1 is the only domain that the job may use (load 0 of 0 memory operations); cpu 2 had the fewest jobs there (tier bandwidth)
        0ms third on 4 because node 2 is the only domain that the job may use (load 0 of 0 memory operations); cpu 4 had the fewest jobs there (tier bandwidth)
    "#]]);
    check(expect![[r#"
        nodes=3 cores=2
        job rough class=9 nodes=0
        job tender class=2 sens=9:400,8:300
        job second class=8 nodes=1
        job third class=1 nodes=2
        0ms due tender
        1ms due rough second third
        250ms poll 900 10 20
        >> dfs[placement=sens]
        0ms tender on 0 because node 0 has the lowest number of 3 domains with equal slowdowns, load, jobs and classes (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
        1ms rough on 1 because node 0 is the only domain that the job may use (load 0 of 0 memory operations); cpu 1 had the fewest jobs there (tier bandwidth)
        1ms second on 2 because node 1 is the only domain that the job may use (load 0 of 0 memory operations); cpu 2 had the fewest jobs there (tier bandwidth)
        1ms third on 4 because node 2 is the only domain that the job may use (load 0 of 0 memory operations); cpu 4 had the fewest jobs there (tier bandwidth)
        250ms tender on 5 because node 0 had a load of 900 memory operations in the last interval, more than 3/2 times the mean (310); of the movable jobs on node 0, this one lowers the sum of predicted slowdowns most on node 2 (by 0.363 of a job's time); cpu 5 had the fewest jobs on node 2 (tier bandwidth)
    "#]]);
}

#[test]
fn no_job_migrates_when_no_migration_lowers_the_sum_of_slowdowns() {
    check(expect![[r#"
        nodes=2 cores=2
        job a b c class=9
        0ms due a b c
        250ms poll 900 10
        > dfs[placement=sens]
        0ms a on 0 because lowest-number
        0ms b on 2 because fewest-jobs
        0ms c on 1 because lowest-number
    "#]]);
}

#[test]
fn with_online_classes_counted_misses_replace_the_declared_class() {
    // Declared as class 1, it has 1000 misses per millisecond: class 9 after four polls that agree.
    check(expect![[r#"
        nodes=2 cores=2
        job liar class=1
        job honest class=7
        0ms due liar
        1ms poll 0 900
        2ms due honest
        250ms misses liar=250000/250ms honest=31750/250ms; poll 100 100
        500ms..1s/250ms poll 100 100
        1250ms poll 900 100
        >> dfs[classes=online]
        0ms liar on 0 because node 0 has the lowest number of 2 domains with equal load, jobs and classes (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
        2ms honest on 1 because node 0 had the lowest load (0 of 900 memory operations in the last interval); cpu 1 had the fewest jobs there (tier bandwidth)
        1250ms liar on 2 because node 0 had a load of 900 memory operations in the last interval and node 1 100: more than 4/3 times the mean (500); this job had the highest class (9, by counted cache misses) of the movable jobs on node 0; cpu 2 had the fewest jobs on node 1 (tier bandwidth)
        > dfs
        0ms liar on 0 because lowest-number
        2ms honest on 1 because least-load
        1250ms honest on 2 because load-uneven
    "#]]);
}

#[test]
fn with_both_signals_the_controllers_trigger_a_migration_and_misses_select_the_victim() {
    check(expect![[r#"
        nodes=2 cores=2
        job mild class=9
        job wild class=2
        0ms due mild
        1ms poll 0 900
        2ms due wild
        250ms misses mild=50/10ms wild=900/10ms; poll 900 100
        >> dfs[loads=both]
        0ms mild on 0 because node 0 has the lowest number of 2 domains with equal load, jobs and classes (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
        2ms wild on 1 because node 0 had the lowest load (0 of 900 memory operations in the last interval); cpu 1 had the fewest jobs there (tier bandwidth)
        250ms wild on 2 because node 0 had a load of 900 memory operations in the last interval, more than 4/3 times the mean (500); of the movable jobs on node 0, this one had the most cache misses (900); cpu 2 had the fewest jobs on node 1 (tier bandwidth)
    "#]]);
    // Where misses are not counted, the class selects the victim, as without the extension.
    check(expect![[r#"
        nodes=2 cores=2
        job mild class=9
        job wild class=2
        0ms due mild
        1ms poll 0 900
        2ms due wild
        250ms poll 900 100
        > dfs[loads=both]
        0ms mild on 0 because lowest-number
        2ms wild on 1 because least-load
        250ms mild on 2 because load-uneven
    "#]]);
}

/// Two jobs on node 0, of which the first is the victim.
const CROWDED: &str = "
    nodes=2 cores=2
    job wild class=9
    job mild class=2
    0ms due wild
    1ms poll 0 900
    2ms due mild
    free 0=512 1=512
";

#[test]
fn the_victim_starts_on_the_same_node_with_every_configuration() {
    check(expect![[r#"
        nodes=2 cores=2
        job wild class=9
        job mild class=2
        0ms due wild
        1ms poll 0 900
        2ms due mild
        >> dfs[memory=follow]
        0ms wild on 0 because node 0 has the lowest number of 2 domains with equal load, jobs and classes (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
        2ms mild on 1 because node 0 had the lowest load (0 of 900 memory operations in the last interval); cpu 1 had the fewest jobs there (tier bandwidth)
        > dfs
        0ms wild on 0 because lowest-number
        2ms mild on 1 because least-load
        > dfs[memory=follow,cooldown=3]
        0ms wild on 0 because lowest-number
        2ms mild on 1 because least-load
        > dfs[memory=follow,cooldown=3,only_job=move]
        0ms wild on 0 because lowest-number
        2ms mild on 1 because least-load
        > dfs[memory=follow,gain=1]
        0ms wild on 0 because lowest-number
        2ms mild on 1 because least-load
        > dfs[memory=follow,gain=1.5]
        0ms wild on 0 because lowest-number
        2ms mild on 1 because least-load
        > dfs[gain=1.5]
        0ms wild on 0 because lowest-number
        2ms mild on 1 because least-load
    "#]]);
}

#[test]
fn pages_follow_a_job_that_migrated() {
    check_after(
        CROWDED,
        expect![[r#"
        250ms memory wild 0=64 1=2; poll 900 100
        >> dfs[memory=follow]
        250ms wild on 2 because node 0 had a load of 900 memory operations in the last interval and node 1 100: more than 4/3 times the mean (500); this job had the highest class (9, by rate) of the movable jobs on node 0; cpu 2 had the fewest jobs on node 1 (tier bandwidth)
        250ms wild pages from anywhere to node1 because the job migrated to node 1, which holds 3.0 % of its memory (66.0 MiB); its other own pages (64.0 MiB) follow, and node 1 has 512.0 MiB free
    "#]],
    );
    check_after(
        CROWDED,
        expect![[r#"
        250ms memory wild 0=64; poll 900 100
        > dfs
        250ms wild on 2 because load-uneven
    "#]],
    );
}

#[test]
fn pages_stay_when_most_are_there_already_or_the_target_has_too_little_free_memory() {
    check_after(
        CROWDED,
        expect![[r#"
        250ms memory wild 0=6 1=94; poll 900 100
        > dfs[memory=follow]
        250ms wild on 2 because load-uneven
    "#]],
    );
    check_after(
        CROWDED,
        expect![[r#"
        250ms memory wild 0=427; poll 900 100
        > dfs[memory=follow]
        250ms wild on 2 because load-uneven
    "#]],
    );
    check_after(
        CROWDED,
        expect![[r#"
        250ms memory wild 0=426; poll 900 100
        > dfs[memory=follow]
        250ms wild on 2 because load-uneven
        250ms wild pages from anywhere to node1 because memory-follows
    "#]],
    );
}

#[test]
fn pages_follow_once_sampled_and_remaining_pages_are_requested_again() {
    check_after(
        CROWDED,
        expect![[r#"
        250ms poll 900 100
        500ms poll 500 500
        750ms memory wild 0=64; poll 500 500
        1000ms memory wild 0=32 1=32; poll 500 500
        2750ms..3000ms/250ms poll 500 500
        4000ms memory wild 0=2 1=62; poll 500 500
        6000ms poll 500 500
        > dfs[memory=follow,cooldown=3]
        250ms wild on 2 because load-uneven
        750ms wild pages from anywhere to node1 because memory-follows
        3000ms wild pages from anywhere to node1 because memory-follows
    "#]],
    );
}

#[test]
fn pending_pages_of_an_unmanaged_job_do_not_block_other_migrations() {
    check_after(
        CROWDED,
        expect![[r#"
        250ms poll 900 100
        300ms unmanaged wild on 2-3
        500ms memory wild 0=64; poll 900 100
        750ms..1000ms/250ms poll 900 100
        > dfs[memory=follow,cooldown=3,only_job=move]
        250ms wild on 2 because load-uneven
        500ms mild on 2 because load-uneven
    "#]],
    );
}

#[test]
fn pages_do_not_follow_a_job_that_is_not_on_the_target() {
    check_after(
        CROWDED,
        expect![[r#"
        250ms poll 900 100
        500ms memory mild 0=1; memory wild 0=64; poll 500 500
        > dfs[memory=follow]
        250ms wild on 2 because load-uneven
        500ms wild pages from anywhere to node1 because memory-follows
    "#]],
    );
    // Bound to node 0 by another process.
    check_after(
        CROWDED,
        expect![[r#"
        250ms poll 900 100
        500ms unmanaged wild on 0; memory wild 0=64; poll 500 500
        > dfs[memory=follow]
        250ms wild on 2 because load-uneven
    "#]],
    );
    // The host rejected the migration.
    check_after(
        CROWDED,
        expect![[r#"
        deny wild
        250ms poll 900 100
        500ms memory wild 0=64; poll 500 500
        > dfs[memory=follow]
        250ms wild on 2 because load-uneven
    "#]],
    );
}

#[test]
fn no_job_migrates_because_of_loads_while_a_page_move_is_active() {
    const START: &str = "
        nodes=2 cores=2
        job wild class=9 nodes=0-1
        job mild class=2 nodes=0-1
        job meek class=1 nodes=0-1
        0ms due wild
        1ms poll 0 900
        2ms due mild
        3ms due meek
        free 0=512 1=512
        250ms memory wild 0=64; memory mild 0=64; poll 900 100
        500ms moving wild to=1; poll 900 100
    ";
    let start =
        plans("nodes=2 cores=2", "dfs[memory=follow]", &START.replace("nodes=2 cores=2", ""));
    expect![[r#"
        0ms wild on 0 because lowest-number
        2ms mild on 1 because least-load
        3ms meek on 0 because least-load
        250ms wild on 2 because load-uneven
        250ms wild pages from anywhere to node1 because memory-follows
    "#]]
    .assert_eq(&start);
    check_after(
        START,
        expect![[r#"
        750ms..1s/250ms poll 900 100
        > dfs[memory=follow]
    "#]],
    );
    check_after(
        START,
        expect![[r#"
        750ms poll 900 100
        1s memory wild 1=64; moved wild to=1 mib=64 in=32ms; poll 900 100
        > dfs[memory=follow]
        1s mild on 3 because load-uneven
        1s mild pages from anywhere to node1 because memory-follows
    "#]],
    );
}

#[test]
fn a_migration_whose_cost_exceeds_its_gain_is_not_requested() {
    // Gain: 250 ms of run time with all of the load, a fifth of it: 50 ms. Cost: 16384 pages (64 MiB) of 2 µs.
    // Where pages stay, the only cost is refilling the caches.
    check_after(
        CROWDED,
        expect![[r#"
        250ms memory wild 0=64; poll 900 100 with wild=900
        >> dfs[memory=follow,gain=1]
        250ms wild on 2 because node 0 had a load of 900 memory operations in the last interval and node 1 100: more than 4/3 times the mean (500); this job had the highest class (9, by rate) of the movable jobs on node 0; cpu 2 had the fewest jobs on node 1; estimated gain 50.0 ms, cost 37.8 ms (tier bandwidth)
        250ms wild pages from anywhere to node1 because the job migrated to node 1, which holds 0.0 % of its memory (64.0 MiB); its other own pages (64.0 MiB) follow, and node 1 has 512.0 MiB free
        > dfs[memory=follow,gain=1.5]
        > dfs[gain=1.5]
        250ms wild on 2 because load-uneven
    "#]],
    );
}

#[test]
fn the_cost_of_a_page_is_learnt_from_completed_page_moves() {
    // 16384 pages took 655 ms: 40 µs per page instead of 2.
    check_after(
        CROWDED,
        expect![[r#"
        250ms memory wild 0=64; moved mild to=0 mib=64 in=655ms; poll 900 100 with wild=900
        > dfs[memory=follow,gain=1]
    "#]],
    );
}

#[test]
fn remote_memory_counts_as_a_slowdown_unless_pages_follow() {
    check(expect![[r#"
        nodes=2 cores=2
        job rough class=9 nodes=0
        job tender class=0 sens=9:400,remote:500
        0ms due tender
        1ms due rough
        250ms memory tender 0=64; poll 900 100
        > dfs[placement=sens]
        0ms tender on 0 because lowest-number
        1ms rough on 1 because only-domain
        > dfs[placement=sens,memory=follow]
        0ms tender on 0 because lowest-number
        1ms rough on 1 because only-domain
        250ms tender on 2 because load-relieved
    "#]]);
    check(expect![[r#"
        nodes=2 cores=2
        job rough class=9 nodes=0
        job tender class=0 sens=9:400,remote:300
        0ms due tender
        1ms due rough
        250ms memory tender 0=64; poll 900 100
        > dfs[placement=sens]
        0ms tender on 0 because lowest-number
        1ms rough on 1 because only-domain
        250ms tender on 2 because load-relieved
    "#]]);
}

#[test]
fn a_poll_woken_by_an_overflow_decides_like_any_other() {
    check_after(
        THREE_AND_ONE,
        expect![[r#"
        250ms..500ms/250ms poll 900 100
        2500ms poll 100 900
        > dfs
        250ms wild on 3 because load-uneven
        500ms wide on 2 because load-uneven
    "#]],
    );
    check_after(
        THREE_AND_ONE,
        expect![[r#"
        250ms..500ms/250ms poll 900 100; overflow
        2500ms poll 100 900
        > dfs[wake=overflow:llc-misses:1000000]
        250ms wild on 3 because load-uneven
        500ms wide on 2 because load-uneven
    "#]],
    );
}
