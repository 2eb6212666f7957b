//! Levels of places, and what is said about the ground that decisions stand on.

use expect_test::expect;

use super::{check, check_story};

#[test]
fn with_one_node_jobs_are_spread_over_caches_and_memory_gains_nothing() {
    check_story(
        "nodes=1 llcs=2 cores=2",
        "dfs",
        "
        job a class=3
        job b class=3
        0ms due a b
        ",
        expect![[r#"
            0ms note: only one node with memory is usable: jobs are placed on llc domains, and memory placement has no effect
            0ms a on 0 because llc 0 has the lowest number of 2 domains with equal load, jobs and classes (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
            0ms b on 2 because llc 1 had the fewest jobs (0) of the domains with the lowest load (0 of 0 memory operations); cpu 2 had the fewest jobs there (tier bandwidth)
        "#]],
    );
}

#[test]
fn with_one_node_and_one_cache_jobs_are_spread_over_cores_and_evened_out() {
    check(
        "nodes=1 cores=2 smt=2",
        "dfs",
        "
        job a class=3
        job b class=3
        job c class=5
        0ms due a b c
        tier declared
        250ms poll 200 10
        ",
        expect![[r#"
            0ms note: memory-gains-nothing
            0ms a on 0 because lowest-number
            0ms b on 2 because fewest-jobs
            0ms c on 1 because lowest-number
            250ms note: loads-declared
            250ms c on 3 because load-uneven
        "#]],
    );
}

#[test]
fn with_a_single_cpu_nothing_is_placed() {
    check_story(
        "nodes=1",
        "dfs",
        "
        job a class=3
        0ms due a
        250ms poll 200
        ",
        expect![[r#"
            0ms note: only one CPU is usable, so no job is placed
        "#]],
    );
}

#[test]
fn memory_that_is_to_follow_and_cannot_is_said_once() {
    let script = "
        job a class=3
        0ms due a
        10ms poll
    ";
    let said = |machine, policy| crate::testing::plans(machine, policy, script);
    let n_said = |text: String| text.matches("memory-cannot-follow").count();
    assert_eq!(n_said(said("nodes=1 cores=2", "dfs[memory=follow]")), 1);
    assert_eq!(n_said(said("nodes=1 cores=2", "dfs")), 0);
    assert_eq!(n_said(said("nodes=2", "dfs[memory=follow]")), 0);
}

#[test]
fn with_a_single_cpu_left_nothing_is_placed_any_more() {
    check(
        "nodes=2",
        "dfs",
        "
        job a class=3
        job b class=3
        0ms due a b
        10ms usable 0
        ",
        expect![[r#"
            0ms a on 0 because lowest-number
            0ms b on 1 because fewest-jobs
            10ms note: nothing-to-place
        "#]],
    );
}

#[test]
fn a_level_of_ones_own_holds_although_another_is_coarser() {
    for (domains, expected) in [
        (
            "node",
            expect![[r#"
            0ms a on 0 because lowest-number
            0ms b on 4 because fewest-jobs
            0ms c on 1 because lowest-number
        "#]],
        ),
        (
            "llc",
            expect![[r#"
            0ms a on 0 because lowest-number
            0ms b on 2 because lowest-number
            0ms c on 4 because lowest-number
        "#]],
        ),
        (
            "core",
            expect![[r#"
            0ms a on 0 because lowest-number
            0ms b on 1 because lowest-number
            0ms c on 2 because lowest-number
        "#]],
        ),
    ] {
        check(
            "nodes=2 llcs=2 cores=2",
            &format!("dfs[domains={domains}]"),
            "
            job a class=3
            job b class=3
            job c class=3
            0ms due a b c
            ",
            expected,
        );
    }
}

#[test]
fn one_domain_alone_is_never_uneven() {
    let script = "
        job a class=3
        job b class=3
        0ms due a b
        250ms poll 1000
    ";
    check(
        "nodes=1 cores=2",
        "dfs[domains=node]",
        script,
        expect![[r#"
        0ms note: memory-gains-nothing
        0ms a on 0 because only-domain
        0ms b on 1 because only-domain
    "#]],
    );
    let eager = "dfs[domains=node,trigger=ratio,reading=paper]";
    check(
        "nodes=1 cores=2",
        eager,
        script,
        expect![[r#"
        0ms note: memory-gains-nothing
        0ms a on 0 because only-domain
        0ms b on 1 because only-domain
    "#]],
    );
}

#[test]
fn jobs_without_a_class_are_told_of_once_and_count_as_class_0() {
    check_story(
        "nodes=2 cores=2",
        "dfs[start=plain]",
        "
        job a
        job b class=1
        job c
        0ms due a b
        1ms ended a
        2ms due a c
        250ms poll 900 10
        ",
        expect![[r#"
            0ms note: jobs without a class (a) count as class 0
            0ms a on 0 because node 0 has the lowest number of 2 domains with equal load (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
            0ms b on 1 because node 0 has the lowest number of 2 domains with equal load (load 0 of 0 memory operations); cpu 1 had the fewest jobs there (tier bandwidth)
            2ms a on 0 because node 0 has the lowest number of 2 domains with equal load (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
            2ms c on 0 because node 0 has the lowest number of 2 domains with equal load (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
            250ms b on 2 because node 0 had a load of 900 memory operations in the last interval and node 1 10: more than 4/3 times the mean (455); this job had the highest class (1, by rate) of the movable jobs on node 0; cpu 2 had the fewest jobs on node 1 (tier bandwidth)
        "#]],
    );
}

#[test]
fn of_many_jobs_without_a_class_the_first_are_named() {
    let names: Vec<String> = (1..=10).map(|number| format!("j{number}")).collect();
    let declared: String = names.iter().map(|name| format!("job {name}\n")).collect();
    check_story(
        "nodes=1",
        "dfs",
        &format!("{declared}0ms due {}", names.join(" ")),
        expect![[r#"
            0ms note: only one CPU is usable, so no job is placed
            0ms note: jobs without a class (j1, j2, j3, j4, j5, j6, j7, j8 and 2 more) count as class 0
        "#]],
    );
}

#[test]
fn what_loads_stand_on_is_told_when_it_is_not_the_controllers() {
    let script = |tier: &str| format!("job a class=1\n0ms due a\ntier {tier}\n250ms poll 5 5");
    for (tier, expected) in [
        (
            "bandwidth",
            expect![[r#"
            0ms a on 0 because lowest-number
        "#]],
        ),
        (
            "counters",
            expect![[r#"
            0ms a on 0 because lowest-number
            250ms note: loads-are-misses
        "#]],
        ),
        (
            "declared",
            expect![[r#"
            0ms a on 0 because lowest-number
            250ms note: loads-declared
        "#]],
        ),
        (
            "none",
            expect![[r#"
            0ms a on 0 because lowest-number
            250ms note: loads-unknown
        "#]],
        ),
    ] {
        check("nodes=2", "dfs", &script(tier), expected);
    }
}

#[test]
fn classes_from_whole_runs_are_told_to_be_rough_rates() {
    let script = "job a class=1\n0ms due a\ntier declared\n250ms poll 5 5";
    check(
        "nodes=2",
        "dfs[class_basis=total]",
        script,
        expect![[r#"
        0ms a on 0 because lowest-number
        250ms note: loads-declared
        250ms note: totals-as-rates
    "#]],
    );
    check(
        "nodes=2",
        "dfs[reading=paper]",
        script,
        expect![[r#"
        0ms a on 0 because lowest-number
        250ms note: loads-declared
        250ms note: totals-as-rates
    "#]],
    );
    check(
        "nodes=2",
        "dfs[reading=paper,class_basis=rate]",
        script,
        expect![[r#"
        0ms a on 0 because lowest-number
        250ms note: loads-declared
    "#]],
    );
}

#[test]
fn a_kernel_that_moves_memory_by_itself_is_told_of_where_there_are_nodes() {
    let script = "job a class=1\nrules numa-balancing interleaves\n0ms due a\n10ms ended a";
    check_story(
        "nodes=2",
        "dfs",
        script,
        expect![[r#"
            0ms note: automatic NUMA balancing is enabled and may undo the placement; disable it with sysctl kernel.numa_balancing=0
            0ms note: this process interleaves its memory over nodes, and its jobs inherit that: placement near memory has no effect
            0ms a on 0 because node 0 has the lowest number of 2 domains with equal load, jobs and classes (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
        "#]],
    );
    check(
        "nodes=1 cores=2",
        "dfs",
        script,
        expect![[r#"
        0ms note: memory-gains-nothing
        0ms a on 0 because lowest-number
    "#]],
    );
}

#[test]
fn at_another_level_nothing_is_expected_and_everything_is_learnt_anew() {
    // Nodes 0 and 1 become the caches 0 and 1 of node 0. Had what was expected of node 1 been taken
    // for cache 1, or what class 6 showed been kept, some load would only be expected.
    check_story(
        "nodes=2 llcs=2 cores=2",
        "dfs",
        "
        job a class=6
        job b class=6
        job c class=6
        0ms due a
        250ms poll 700 0 with a=700
        500ms poll 700 0 with a=700
        510ms due b
        520ms usable 0-3
        530ms due c
        ",
        expect![[r#"
            0ms a on 0 because node 0 has the lowest number of 2 domains with equal load, jobs and classes (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
            510ms b on 4 because node 1 had the lowest load (0 of 700 memory operations in the last interval); cpu 4 had the fewest jobs there (tier bandwidth)
            520ms note: the usable CPUs changed: jobs are placed on llc domains from now on
            520ms b on 2 because some of the job's CPUs (4) became unusable, so it was placed like a new job: on llc 1 (the fewest jobs of equal loads) with a load of 0 of 0 memory operations; cpu 2 had the fewest jobs there (tier bandwidth)
            530ms c on 1 because llc 0 has the lowest number of 2 domains with equal load, jobs and classes (load 0 of 0 memory operations); cpu 1 had the fewest jobs there (tier bandwidth)
        "#]],
    );
}

#[test]
fn at_another_level_the_largest_load_is_another() {
    // One percent of the 100 000 that a node has shown is more than these caches carry.
    check(
        "nodes=2 llcs=2 cores=2",
        "dfs",
        "
        job a class=6 cpus=0-3
        job b class=6 cpus=0-3
        0ms due a b
        250ms poll 100000 100000
        260ms usable 0-3
        500ms poll 900 99
        ",
        expect![[r#"
            0ms a on 0 because only-domain
            0ms b on 1 because only-domain
            260ms note: places-changed
            500ms a on 2 because load-uneven
        "#]],
    );
}

#[test]
fn places_that_are_others_of_the_same_level_keep_what_was_learnt() {
    check_story(
        "nodes=3 cores=2",
        "dfs",
        "
        job a class=6
        job b class=6
        job c class=6
        0ms due a
        250ms poll 700 0 900 with a=700
        500ms poll 700 0 900 with a=700
        510ms usable 0-3
        520ms due b
        530ms due c
        ",
        expect![[r#"
            0ms a on 0 because node 0 has the lowest number of 3 domains with equal load, jobs and classes (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
            520ms b on 2 because node 1 had the lowest load (0 of 700 memory operations in the last interval); cpu 2 had the fewest jobs there (tier bandwidth)
            530ms c on 1 because node 0 has the lowest number of 2 domains with equal load, jobs and classes (load 700 of 1400 memory operations, of which 700 are expected of jobs started since); cpu 1 had the fewest jobs there (tier bandwidth)
        "#]],
    );
}

#[test]
fn a_level_of_which_the_machine_tells_nothing_is_told() {
    let script = "
        job a class=3
        0ms due a
        250ms poll
    ";
    let no_caches = "nodes=1 cores=4 no-llcs";
    check_story(
        no_caches,
        "dfs[domains=llc]",
        script,
        expect![[r#"
            0ms note: the usable CPUs have no llc domain, so no job is placed
        "#]],
    );
    check_story(
        no_caches,
        "spread[domains=llc]",
        script,
        expect![[r#"
            0ms note: the usable CPUs have no llc domain, so no job is placed
            250ms note: the usable CPUs have no llc domain, so no job is placed
        "#]],
    );
}

#[test]
fn when_the_places_become_others_it_is_told() {
    check_story(
        "nodes=2 llcs=2 cores=2",
        "dfs",
        "
        job a class=3
        0ms due a
        10ms usable 0-3
        20ms usable 0-2
        30ms usable 0
        40ms usable 0-7
        ",
        expect![[r#"
            0ms a on 0 because node 0 has the lowest number of 2 domains with equal load, jobs and classes (load 0 of 0 memory operations); cpu 0 had the fewest jobs there (tier bandwidth)
            10ms note: the usable CPUs changed: jobs are placed on llc domains from now on
            30ms note: only one CPU is usable, so no job is placed
            40ms note: the usable CPUs changed: jobs are placed on node domains from now on
        "#]],
    );
}

#[test]
fn loads_that_nothing_tells_of_leave_the_number_as_printed() {
    let script = "
        job a class=3
        tier none
        0ms due a
        250ms poll 0 0
    ";
    check_story(
        "nodes=2",
        "dfs",
        script,
        expect![[r#"
            0ms a on 0 because node 0 has the lowest number of 2 domains with equal load, jobs and classes (load 0 of 0 known memory operations); cpu 0 had the fewest jobs there (tier none)
            250ms note: no memory counter is readable and no job has a class: all loads count as 0, jobs are spread by domain number at start, and none migrates
        "#]],
    );
    check_story(
        "nodes=2",
        "dfs[reading=paper]",
        script,
        expect![[r#"
            0ms a on 0 because node 0 has the lowest number of 2 domains with equal load (load 0 of 0 known memory operations); cpu 0 had the fewest jobs there (tier none)
            250ms note: no memory counter is readable and no job has a class: all loads count as 0, every job starts on the usable domain with the lowest number, and none migrates
        "#]],
    );
}
