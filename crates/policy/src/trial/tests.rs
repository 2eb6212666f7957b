//! Trials: migrations that help, that harm, and without effect.

use expect_test::expect;

use crate::testing::check;

#[test]
fn migrations_start_after_a_measurement_and_stay_when_they_help() {
    check(expect![[r#"
        nodes=2 llcs=1 cores=2
        job a class=5
        job b class=4
        job c class=3
        job d class=2
        0ms due a b c d
        250ms..3000ms/250ms poll 900 10
        3250ms..6500ms/250ms poll 460 450
        > dfs[cooldown=4], with trials
        0ms a on 0 because lowest-number
        0ms b on 2 because fewest-jobs
        0ms c on 3 because smallest-classes
        0ms d on 1 because fewest-jobs
        2250ms a on 2 because load-uneven
        5500ms note: judged-better
    "#]]);
}

#[test]
fn harmful_migrations_are_undone_and_no_job_migrates_for_a_minute() {
    check(expect![[r#"
        nodes=2 llcs=1 cores=2
        job a class=5
        job b class=4
        job c class=3
        job d class=2
        0ms due a b c d
        250ms..2500ms/250ms poll 900 300
        2750ms..68000ms/250ms poll 1000 10
        > dfs[cooldown=4], with trials
        0ms a on 0 because lowest-number
        0ms b on 2 because fewest-jobs
        0ms c on 3 because smallest-classes
        0ms d on 1 because fewest-jobs
        2250ms a on 2 because load-uneven
        5500ms note: judged-worse
        5500ms a released; b released; c released; d released because judged-worse
        65500ms note: tries-again
    "#]]);
}

#[test]
fn a_trial_is_not_judged_while_a_page_move_is_active() {
    check(expect![[r#"
        nodes=2 llcs=1 cores=2
        job a class=5
        job b class=4
        job c class=3
        job d class=2
        0ms due a b c d
        250ms..3000ms/250ms poll 900 10
        3250ms poll 900 10; moving a to=1
        3500ms..13250ms/250ms poll 1000 10
        13500ms poll 460 450; moved a to=1 mib=64 in=32ms
        13750ms..16000ms/250ms poll 460 450
        > dfs[cooldown=4], with trials
        0ms a on 0 because lowest-number
        0ms b on 2 because fewest-jobs
        0ms c on 3 because smallest-classes
        0ms d on 1 because fewest-jobs
        2250ms a on 2 because load-uneven
        15750ms note: judged-better
    "#]]);
}

#[test]
fn after_three_trials_without_effect_all_jobs_are_released() {
    check(expect![[r#"
        nodes=2 llcs=1 cores=2
        job a class=5
        job b class=4
        job c class=3
        job d class=2
        0ms due a b c d
        250ms..3000ms/250ms poll 900 10
        3250ms..6250ms/250ms poll 10 900
        6500ms..9500ms/250ms poll 900 10
        9750ms..12750ms/250ms poll 10 900
        13000ms..16000ms/250ms poll 900 10
        > dfs[cooldown=4], with trials
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
        12000ms a released; b released; c released; d released because judged-no-better
    "#]]);
}

#[test]
fn without_permission_to_act_each_migration_is_reported_once_per_minute() {
    check(expect![[r#"
        nodes=2 llcs=1 cores=2
        job a class=5
        job b class=4
        job c class=3
        job d class=2
        0ms due a b c d
        250ms..62500ms/250ms poll 900 10
        > dfs[cooldown=4], with trials that change nothing
        0ms a on 0 because lowest-number
        0ms b on 2 because fewest-jobs
        0ms c on 3 because smallest-classes
        0ms d on 1 because fewest-jobs
        60250ms a on 2 because load-uneven
    "#]]);
}

#[test]
fn without_permission_to_act_page_moves_are_reported_too() {
    check(expect![[r#"
        nodes=2 llcs=1 cores=2
        job a class=5
        job b class=4
        0ms due a
        1ms poll 0 900
        2ms due b
        free 0=512 1=512
        61000ms memory a 0=64; poll 900 100
        61250ms poll 900 100
        > dfs[memory=follow], with trials that change nothing
        0ms a on 0 because lowest-number
        2ms b on 1 because least-load
        61000ms a on 2 because load-uneven
        61000ms a pages from anywhere to node1 because memory-follows
    "#]]);
}

#[test]
fn jobs_that_start_and_end_during_a_trial_are_excluded_from_the_comparison() {
    check(expect![[r#"
        nodes=2 llcs=1 cores=2
        job a class=5
        job b class=4
        job c class=3
        job d class=2
        job e class=0
        0ms due a b c d
        250ms due e; waits a=100ms/100ms b=100ms/100ms e=90ms/10ms; poll 900 10
        500ms poll 900 10
        750ms ended e; poll 900 10
        1000ms poll 900 10
        1250ms due e; poll 900 10
        1500ms poll 900 10
        1750ms ended e; poll 900 10
        2000ms poll 900 10
        2250ms due e; poll 900 10
        2500ms poll 900 10
        2750ms ended e; poll 900 10
        3000ms poll 900 10
        3250ms due e; waits a=5ms/100ms b=5ms/100ms e=90ms/10ms; poll 460 450
        3500ms poll 460 450
        3750ms ended e; poll 460 450
        4000ms poll 460 450
        4250ms due e; poll 460 450
        4500ms poll 460 450
        4750ms ended e; poll 460 450
        5000ms poll 460 450
        5250ms due e; poll 460 450
        5500ms poll 460 450
        5750ms ended e; poll 460 450
        6000ms poll 460 450
        >> dfs[cooldown=4], with trials
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
    "#]]);
}

#[test]
fn a_trial_whose_migrated_jobs_have_ended_counts_as_without_effect() {
    check(expect![[r#"
        nodes=2 llcs=1 cores=2
        job a class=5
        job b class=4
        job c class=3
        job d class=2
        0ms due a b c d
        250ms..3000ms/250ms poll 900 10
        3100ms ended a
        3250ms..5500ms/250ms poll 10 10
        6000ms due a
        6250ms..9000ms/250ms poll 900 10
        9100ms ended a
        9250ms..11500ms/250ms poll 10 10
        12000ms due a
        12250ms..15000ms/250ms poll 900 10
        15100ms ended a
        15250ms..17500ms/250ms poll 10 10
        18000ms due a
        18250ms..21000ms/250ms poll 900 10
        21100ms ended a
        21250ms..23500ms/250ms poll 10 10
        >> dfs[cooldown=4], with trials
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
        15250ms b released; c released; d released because 3 trials in a row had no measurable effect: all jobs are released and none migrates for 60.000 s
        18000ms a on 0 because node 0 had the fewest jobs (1) of the domains with the lowest load (10 of 20 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
    "#]]);
}

#[test]
fn a_job_with_the_id_of_a_migrated_job_is_not_compared_with_it() {
    check(expect![[r#"
        nodes=2 llcs=1 cores=2
        job a class=5
        job b class=4
        job c class=3
        job d class=2
        0ms due a b c d
        250ms..2250ms/250ms poll 900 10
        2500ms ended a; due a; poll 900 10
        2750ms..3250ms/250ms poll 460 450
        > dfs[cooldown=4], with trials
        0ms a on 0 because lowest-number
        0ms b on 2 because fewest-jobs
        0ms c on 3 because smallest-classes
        0ms d on 1 because fewest-jobs
        2250ms a on 2 because load-uneven
        2500ms a on 2 because least-load
        2750ms note: not-judged
    "#]]);
}

#[test]
fn missing_loads_are_reported_only_with_jobs_present_and_worded_for_watching() {
    check(expect![[r#"
        nodes=2 llcs=1 cores=2
        job a b
        tier none
        250ms..1000ms/250ms poll
        1250ms due a b
        1500ms..3250ms/250ms poll
        > dfs, with trials
        1250ms note: no-class
        1250ms a on 0 because lowest-number
        1250ms b on 2 because fewest-jobs
        2000ms note: nothing-is-moved
    "#]]);
}

#[test]
fn page_moves_after_a_migration_belong_to_its_trial() {
    // The pages of a are sampled only after migrations are no longer let through.
    check(expect![[r#"
        nodes=2 llcs=1 cores=2
        job a class=5
        job b class=4
        job c class=3
        job d class=2
        free 0=512 1=512
        0ms due a b c d
        250ms..4000ms/250ms poll 900 300
        4250ms memory a 0=64; poll 900 300
        4500ms..5250ms/250ms moving a to=1; poll 900 300
        5500ms moved a to=1 mib=64 in=32ms; memory a 1=64; poll 600 600
        5750ms..8500ms/250ms poll 600 600
        > dfs[cooldown=4,memory=follow], with trials
        0ms a on 0 because lowest-number
        0ms b on 2 because fewest-jobs
        0ms c on 3 because smallest-classes
        0ms d on 1 because fewest-jobs
        2250ms a on 2 because load-uneven
        4250ms a pages from anywhere to node1 because memory-follows
        7500ms note: judged-better
    "#]]);
}
