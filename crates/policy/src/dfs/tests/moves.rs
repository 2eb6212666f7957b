//! Migrations: trigger, victim and target.

use expect_test::expect;

use crate::testing::{check, check_after, plans};

/// Two nodes. Three jobs on node 0, of classes 2, 7 and 5, the first restricted to it, and one job restricted to
/// node 1.
pub(super) const THREE_AND_ONE: &str = "
    nodes=2 cores=2
    job mild class=2 nodes=0
    job wild class=7
    job wide class=5
    job other class=1 nodes=1
    0ms due mild
    1ms poll 0 100
    2ms due wild wide
    3ms due other
";

#[test]
fn the_jobs_of_these_cases_start_with_every_configuration_as_expected() {
    let started = "0ms mild on 0 because only-domain\n2ms wild on 1; wide on 0 because least-load\n\
                   3ms other on 2 because only-domain\n";
    let script = THREE_AND_ONE.replace("nodes=2 cores=2", "");
    for parameters in [
        "",
        "reading=paper",
        "trigger=ratio",
        "factor=4/3",
        "migrations_per_poll=3",
        "cooldown=2",
        "min_load=0.5%",
        "failures=3",
        "start=plain",
    ] {
        let policy = format!("dfs[{parameters}]");
        assert_eq!(plans("nodes=2 cores=2", &policy, &script), started, "{policy}");
    }
}

#[test]
fn the_highest_class_migrates_from_the_busiest_node_to_the_one_with_the_lowest_load() {
    check_after(
        THREE_AND_ONE,
        expect![[r#"
        250ms poll 900 100
        > dfs
        250ms wild on 3 because load-uneven
    "#]],
    );
}

#[test]
fn the_reason_of_a_migration_contains_loads_limit_and_class() {
    check_after(
        THREE_AND_ONE,
        expect![[r#"
        250ms poll 900 100
        >> dfs
        250ms wild on 3 because node 0 had a load of 900 memory operations in the last interval and node 1 100: more than 4/3 times the mean (500); this job had the highest class (7, by rate) of the movable jobs on node 0; cpu 3 had the fewest jobs on node 1 (tier bandwidth)
    "#]],
    );
}

#[test]
fn without_load_no_job_migrates() {
    check_after(
        THREE_AND_ONE,
        expect![[r#"
        250ms poll
        > dfs
        > dfs[reading=paper]
    "#]],
    );
}

#[test]
fn equal_loads_cause_no_migration() {
    check_after(
        THREE_AND_ONE,
        expect![[r#"
        250ms poll 500 500
        > dfs
        > dfs[trigger=ratio]
        > dfs[factor=1]
        > dfs[reading=paper]
    "#]],
    );
}

#[test]
fn the_limit_of_two_nodes_is_four_thirds_of_the_mean_and_must_be_exceeded() {
    // With 1000 and 500 the mean is 750 and the limit 1000.
    check_after(
        THREE_AND_ONE,
        expect![[r#"
        250ms poll 1000 500
        > dfs
    "#]],
    );
    check_after(
        THREE_AND_ONE,
        expect![[r#"
        250ms poll 1001 500
        > dfs
        250ms wild on 3 because load-uneven
    "#]],
    );
}

#[test]
fn the_limit_grows_with_the_number_of_nodes() {
    // Four nodes: 8/5 of the mean. 400 of 1000 is 1.6 times the mean, 401 is more.
    const START: &str = "
        nodes=4
        job a class=3
        job b class=4
        job c class=3 nodes=0
        0ms due a
        1ms poll 0 9 9 9
        2ms due b c
    ";
    check_after(
        START,
        expect![[r#"
        250ms poll 400 200 200 200
        500ms poll 401 200 200 199
        > dfs
        500ms b on 3 because load-uneven
    "#]],
    );
}

#[test]
fn a_factor_is_accepted_as_a_decimal_or_a_fraction() {
    check_after(
        THREE_AND_ONE,
        expect![[r#"
        250ms poll 1001 500
        > dfs[factor=1.5]
        > dfs[factor=4/3]
        250ms wild on 3 because load-uneven
        > dfs[factor=1.333333]
        250ms wild on 3 because load-uneven
    "#]],
    );
}

#[test]
fn a_load_never_exceeds_twice_the_mean_of_two_nodes() {
    check_after(
        THREE_AND_ONE,
        expect![[r#"
        250ms poll 1000 0
        > dfs[factor=2]
    "#]],
    );
}

#[test]
fn with_trigger_ratio_twice_the_smallest_load_suffices() {
    check_after(
        THREE_AND_ONE,
        expect![[r#"
        250ms poll 999 500
        > dfs[trigger=ratio]
    "#]],
    );
    check_after(
        THREE_AND_ONE,
        expect![[r#"
        250ms poll 1000 500
        >> dfs[trigger=ratio]
        250ms wild on 3 because node 0 had a load of 1000 memory operations in the last interval and node 1 500: a ratio of at least 2 (mean 750); this job had the highest class (7, by rate) of the movable jobs on node 0; cpu 3 had the fewest jobs on node 1 (tier bandwidth)
    "#]],
    );
}

#[test]
fn of_equal_classes_the_one_that_started_last_migrates() {
    check(expect![[r#"
        nodes=2 cores=2
        job first class=4 nodes=0
        job last middle class=4
        0ms due first
        1ms poll 0 100
        2ms due middle
        3ms due last
        250ms poll 900 100
        > dfs
        0ms first on 0 because only-domain
        2ms middle on 1 because least-load
        3ms last on 0 because least-load
        250ms last on 2 because load-uneven
    "#]]);
}

#[test]
fn of_equal_classes_started_together_the_lowest_number_migrates() {
    check(expect![[r#"
        nodes=2 cores=2
        job older one two class=4
        0ms due older
        1ms due one two
        250ms poll 900 100
        500ms poll 900 100
        750ms poll 900 100
        > dfs[start=plain]
        0ms older on 0 because lowest-number
        1ms one on 1; two on 0 because lowest-number
        250ms one on 2 because load-uneven
        500ms two on 3 because load-uneven
    "#]]);
}

#[test]
fn of_equal_loads_the_lowest_numbers_are_source_and_target() {
    check(expect![[r#"
        nodes=4 cores=2
        job a b c d e f class=3
        0ms due a b c d e f
        250ms poll 900 10 900 10
        > dfs
        0ms a on 0; b on 2; c on 4 because lowest-number
        0ms d on 6 because fewest-jobs
        0ms e on 1; f on 3 because lowest-number
        250ms a on 2 because load-uneven
    "#]]);
}

#[test]
fn with_several_overloaded_nodes_one_job_migrates_per_poll() {
    check(expect![[r#"
        nodes=4 cores=2
        job a b c d e f g h class=3
        0ms due a b c d e f g h
        250ms poll 900 10 800 10
        500ms poll 10 10 800 10
        > dfs
        0ms a on 0; b on 2; c on 4 because lowest-number
        0ms d on 6 because fewest-jobs
        0ms e on 1; f on 3; g on 5 because lowest-number
        0ms h on 7 because fewest-jobs
        250ms a on 2 because load-uneven
        500ms c on 0 because load-uneven
    "#]]);
}

#[test]
fn several_migrations_in_a_poll_count_the_earlier_ones_as_done() {
    check_after(
        THREE_AND_ONE,
        expect![[r#"
        250ms poll 1200 0 with wild=300 wide=300 mild=300
        >> dfs[migrations_per_poll=3]
        250ms wild on 3 because node 0 had a load of 1200 memory operations in the last interval and node 1 0: more than 4/3 times the mean (600); this job had the highest class (7, by rate) of the movable jobs on node 0; cpu 3 had the fewest jobs on node 1 (tier bandwidth)
        250ms wide on 2 because node 0 had a load of 900 memory operations in the last interval and node 1 300: more than 4/3 times the mean (600); this job had the highest class (5, by rate) of the movable jobs on node 0; cpu 2 had the fewest jobs on node 1 (tier bandwidth)
    "#]],
    );
}

#[test]
fn a_job_that_migrated_has_a_cool_down_of_eight_polls() {
    // `other` is restricted to node 1, so no job migrates until the cool-down of `wild` is over.
    check_after(
        THREE_AND_ONE,
        expect![[r#"
        250ms poll 900 100
        500ms poll 100 900
        750ms poll 100 900
        1000ms poll 100 900
        1250ms poll 100 900
        1500ms poll 100 900
        1750ms poll 100 900
        2000ms poll 100 900
        2250ms poll 100 900
        2500ms poll 900 100
        > dfs
        250ms wild on 3 because load-uneven
        2250ms wild on 1 because load-uneven
        2500ms wide on 3 because load-uneven
        > dfs[cooldown=2]
        250ms wild on 3 because load-uneven
        750ms wild on 1 because load-uneven
        2500ms wild on 3 because load-uneven
    "#]],
    );
}

#[test]
fn as_published_a_job_may_migrate_in_every_poll() {
    check_after(
        THREE_AND_ONE,
        expect![[r#"
        250ms poll 900 100
        500ms poll 100 900
        750ms poll 900 100
        > dfs[reading=paper]
        250ms wild on 3 because load-uneven
        500ms wild on 1 because load-uneven
        750ms wild on 3 because load-uneven
        > dfs[reading=paper,cooldown=8]
        250ms wild on 3 because load-uneven
        750ms wide on 2 because load-uneven
    "#]],
    );
}

#[test]
fn during_the_cool_down_of_the_highest_class_the_next_one_migrates() {
    check_after(
        THREE_AND_ONE,
        expect![[r#"
        250ms poll 900 100
        500ms poll 900 100
        750ms poll 100 900
        > dfs[cooldown=100]
        250ms wild on 3 because load-uneven
        500ms wide on 2 because load-uneven
    "#]],
    );
}

#[test]
fn a_restarted_job_has_no_cool_down() {
    check_after(
        THREE_AND_ONE,
        expect![[r#"
        250ms poll 900 100
        260ms ended wild
        270ms due wild
        500ms poll 100 900
        > dfs[cooldown=100]
        250ms wild on 3 because load-uneven
        270ms wild on 3 because least-load
        500ms wild on 1 because load-uneven
    "#]],
    );
}

#[test]
fn the_only_job_on_the_busiest_node_stays() {
    check(expect![[r#"
        nodes=2 cores=2
        job a class=9
        job b class=1 nodes=1
        0ms due a b
        250ms poll 900 10
        > dfs
        0ms a on 0 because lowest-number
        0ms b on 2 because only-domain
        > dfs[reading=paper]
        0ms a on 0 because lowest-number
        0ms b on 2 because only-domain
        250ms a on 3 because load-uneven
        > dfs[only_job=move]
        0ms a on 0 because lowest-number
        0ms b on 2 because only-domain
        250ms a on 3 because load-uneven
        > dfs[reading=paper,only_job=stay]
        0ms a on 0 because lowest-number
        0ms b on 2 because only-domain
    "#]]);
}

#[test]
fn a_total_load_below_the_minimum_causes_no_migration() {
    // The peak is 100 000, reached once on both nodes, so a total below 1000 is too little.
    check_after(
        THREE_AND_ONE,
        expect![[r#"
        250ms poll 100000 100000
        500ms poll 900 99
        > dfs
        > dfs[min_load=auto]
        > dfs[min_load=0]
        500ms wild on 3 because load-uneven
        > dfs[reading=paper]
        500ms wild on 3 because load-uneven
    "#]],
    );
    check_after(
        THREE_AND_ONE,
        expect![[r#"
        250ms poll 100000 100000
        500ms poll 900 100
        > dfs
        500ms wild on 3 because load-uneven
        > dfs[min_load=1001]
    "#]],
    );
    check_after(
        THREE_AND_ONE,
        expect![[r#"
        250ms poll 100000 100000
        500ms poll 450 49
        750ms poll 450 50
        > dfs[min_load=0.5%]
        750ms wild on 3 because load-uneven
    "#]],
    );
}

#[test]
fn a_job_that_may_not_use_the_target_does_not_migrate() {
    check(expect![[r#"
        nodes=2 cores=2
        job tied class=9 nodes=0
        job free class=2
        job other class=3 nodes=0
        0ms due tied
        1ms poll 0 100
        2ms due free other
        250ms poll 900 10
        > dfs
        0ms tied on 0 because only-domain
        2ms free on 1 because least-load
        2ms other on 0 because only-domain
        250ms free on 2 because load-uneven
    "#]]);
}

#[test]
fn an_unmanaged_job_does_not_migrate() {
    check_after(
        THREE_AND_ONE,
        expect![[r#"
        240ms unmanaged wild
        250ms poll 900 100
        > dfs
        250ms wide on 3 because load-uneven
    "#]],
    );
}

#[test]
fn a_rejected_migration_has_the_cool_down_of_a_completed_one() {
    check_after(
        THREE_AND_ONE,
        expect![[r#"
        deny wild
        250ms poll 900 100
        500ms poll 900 100
        > dfs
        250ms wild on 3 because load-uneven
        500ms wide on 3 because load-uneven
    "#]],
    );
}

#[test]
fn no_job_on_the_busiest_node_means_no_migration() {
    check(expect![[r#"
        nodes=2 cores=2
        job a class=3 nodes=1
        0ms due a
        250ms poll 900 10
        > dfs[reading=paper]
        0ms a on 2 because only-domain
    "#]]);
}

#[test]
fn a_migrating_job_gets_the_cpu_with_the_fewest_jobs() {
    check(expect![[r#"
        nodes=2 cores=2
        job x class=1 cpus=2
        job mild class=2
        job wild class=7
        0ms due x
        1ms poll 0 100
        2ms due mild wild
        250ms poll 900 100
        > dfs[start=plain]
        0ms x on 2 because only-domain
        2ms mild on 0; wild on 1 because least-load
        250ms wild on 3 because load-uneven
    "#]]);
}

#[test]
fn unreadable_counters_skip_a_poll_and_four_in_a_row_end_the_run() {
    check_after(
        THREE_AND_ONE,
        expect![[r#"
        250ms poll unreadable
        500ms poll unreadable
        750ms poll unreadable
        1000ms poll 500 500
        1250ms poll unreadable
        1500ms poll unreadable
        1750ms poll unreadable
        2000ms poll unreadable
        >> dfs[start=plain]
        2000ms abort because the memory controller counters were unreadable 4 times in a row
        > dfs[reading=paper]
        2000ms abort because counters-unreadable
        > dfs[failures=3]
        750ms abort because counters-unreadable
        1750ms abort because counters-unreadable
        2000ms abort because counters-unreadable
    "#]],
    );
}

#[test]
fn a_job_moved_and_one_started_in_the_same_turn_do_not_share_a_cpu() {
    check_after(
        THREE_AND_ONE,
        expect![[r#"
        250ms poll 900 100; due late
        > dfs[start=plain]
        250ms note: no-class
        250ms wild on 3 because load-uneven
        250ms late on 2 because least-load
    "#]],
    );
}

#[test]
fn a_job_that_moves_because_of_loads_is_not_placed_again_because_of_a_lost_cpu() {
    check(expect![[r#"
        nodes=2 cores=3
        job pair class=7 threads=2
        job mild class=2 nodes=0
        0ms due pair mild
        250ms poll 900 10; usable 0,2-5
        > dfs
        0ms pair on 0-1 because lowest-number
        0ms mild on 2 because only-domain
        250ms pair on 3-4 because load-uneven
    "#]]);
}

#[test]
fn a_job_that_spans_domains_does_not_migrate() {
    check(expect![[r#"
        nodes=1 llcs=1 cores=2
        job wide class=9 threads=2
        job a b c class=2
        0ms due wide a b c
        250ms poll 10 900
        > dfs
        0ms note: memory-gains-nothing
        0ms wide on 0-1 because lowest-number
        0ms a on 1 because fewest-jobs
        0ms b on 1 because smallest-classes
        0ms c on 0 because fewest-jobs
        250ms a on 0 because load-uneven
    "#]]);
}

#[test]
fn of_two_jobs_the_second_is_the_only_one_after_the_first_migration_and_stays() {
    check(expect![[r#"
        nodes=2 cores=2
        job a class=5
        job b class=4
        0ms due a b
        250ms poll 1200 0 with a=300 b=900
        > dfs[start=plain,migrations_per_poll=2]
        0ms a on 0; b on 1 because lowest-number
        250ms a on 2 because load-uneven
    "#]]);
}

#[test]
fn a_job_beside_one_that_spans_domains_counts_as_the_only_job() {
    check(expect![[r#"
        nodes=1 llcs=1 cores=2
        job wide class=9 threads=2
        job a class=2
        0ms due wide a
        250ms poll 10 900
        > dfs
        0ms note: memory-gains-nothing
        0ms wide on 0-1 because lowest-number
        0ms a on 1 because fewest-jobs
    "#]]);
}

#[test]
fn a_change_of_the_signal_tier_discards_the_peak_load() {
    // One percent of the 100 000 that controllers counted is more than the misses are.
    check_after(
        THREE_AND_ONE,
        expect![[r#"
        250ms poll 100000 100000
        tier counters
        500ms poll 900 99
        > dfs
        500ms note: loads-are-misses
        500ms wild on 3 because load-uneven
    "#]],
    );
}
