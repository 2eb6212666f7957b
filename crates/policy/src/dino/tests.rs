//! Decisions of `dino`, text in, text out: [`crate::testing`] says how a world is written.

use expect_test::{Expect, expect};

use crate::testing::{plans, stories};

fn check(machine: &str, policy: &str, script: &str, expected: Expect) {
    expected.assert_eq(&plans(machine, policy, script));
}

fn check_story(machine: &str, policy: &str, script: &str, expected: Expect) {
    expected.assert_eq(&stories(machine, policy, script));
}

const TWO_CACHES: &str = "nodes=1 llcs=2 cores=2";
const TWO_NODES: &str = "nodes=2 cores=2";

const FOUR: &str = "
    job a
    job b
    job c
    job d
    0ms due a b c d
";

/// Four jobs at their start, and then what follows.
fn four(more: &str) -> String {
    format!("{FOUR}{more}")
}

#[test]
fn classes_are_laid_out_to_and_fro_and_who_can_stay_stays() {
    check_story(
        TWO_CACHES,
        "dino",
        &four("1s rates a=60 b=9 c=1 d=1; poll\n2s poll"),
        expect![[r#"
            0ms a on 0 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpu 0 on llc 0
            0ms b on 1 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpu 1 on llc 0
            0ms c on 2 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpu 2 on llc 1
            0ms d on 3 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpu 3 on llc 1
            1s b on 3 because the job is a devil (9.000 misses per 1000 instructions, intervals 1, limits 1.5 and 50.5); threads are distributed over 2 caches class by class (super-devils 1, devils 1, turtles 2): it gets cpu 3 on llc 1 (tier counters)
            1s d on 1 because the job is a turtle (1.000 misses per 1000 instructions, intervals 1, limits 1.5 and 50.5); threads are distributed over 2 caches class by class (super-devils 1, devils 1, turtles 2): it gets cpu 1 on llc 0 (tier counters)
        "#]],
    );
}

#[test]
fn as_printed_a_thread_stays_only_on_the_core_that_the_map_gives_its_class() {
    let script = four("1s rates a=1 b=9 c=1 d=9; poll\n2s poll");
    check(
        TWO_CACHES,
        "dino",
        &script,
        expect![[r#"
        0ms a on 0 because dealt-by-class
        0ms b on 1 because dealt-by-class
        0ms c on 2 because dealt-by-class
        0ms d on 3 because dealt-by-class
    "#]],
    );
    check(
        TWO_CACHES,
        "dino[reading=paper]",
        &script,
        expect![[r#"
        0ms a on 0 because dealt-by-class
        0ms b on 1 because dealt-by-class
        0ms c on 2 because dealt-by-class
        0ms d on 3 because dealt-by-class
        1s a on 1 because dealt-by-class
        1s b on 0 because dealt-by-class
        1s c on 3 because dealt-by-class
        1s d on 2 because dealt-by-class
    "#]],
    );
}

#[test]
fn the_order_of_exact_rates_plays_no_role() {
    check(
        TWO_CACHES,
        "dino",
        &four("1s rates a=9 b=20 c=30 d=40; poll\n2s rates a=40 b=30 c=20 d=9; poll"),
        expect![[r#"
            0ms a on 0 because dealt-by-class
            0ms b on 1 because dealt-by-class
            0ms c on 2 because dealt-by-class
            0ms d on 3 because dealt-by-class
        "#]],
    );
}

#[test]
fn where_all_are_turtles_nothing_is_done_at_all() {
    check(
        TWO_CACHES,
        "dino",
        &four("1s rates a=1 b=1 c=1@10 d=1; poll\n2s poll"),
        expect![[r#"
        0ms a on 0 because dealt-by-class
        0ms b on 1 because dealt-by-class
        0ms c on 2 because dealt-by-class
        0ms d on 3 because dealt-by-class
    "#]],
    );
}

#[test]
fn one_thread_alone_is_left_where_it_is() {
    check(
        TWO_CACHES,
        "dino",
        "job a\njob b\njob c\n0ms due a b c\n1s rates a=9 b=9 c=9; poll\n1500ms ended a b\n2s poll",
        expect![[r#"
            0ms a on 0 because dealt-by-class
            0ms b on 2 because dealt-by-class
            0ms c on 3 because dealt-by-class
        "#]],
    );
}

#[test]
fn a_change_of_the_numbers_of_classes_can_move_a_thread() {
    check_story(
        TWO_CACHES,
        "dino",
        &four(
            "1s rates a=9 b=1 c=9 d=1; poll\n1500ms ended c d\n2s rates a=9 b=9; poll\n3s poll\n4s poll",
        ),
        expect![[r#"
            0ms a on 0 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpu 0 on llc 0
            0ms b on 1 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpu 1 on llc 0
            0ms c on 2 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpu 2 on llc 1
            0ms d on 3 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpu 3 on llc 1
            2s b on 2 because the job is a turtle (5.000 misses per 1000 instructions, intervals 2, limits 1.5 and 50.5); threads are distributed over 2 caches class by class (super-devils 0, devils 1, turtles 1): it gets cpu 2 on llc 1 (tier counters)
        "#]],
    );
}

#[test]
fn the_limits_of_the_article_are_chosen_apart_from_the_reading() {
    let script = &four("1s rates a=1.8 b=1.8 c=1.8 d=9; poll");
    check(
        TWO_CACHES,
        "dino[limits=released]",
        script,
        expect![[r#"
        0ms a on 0 because dealt-by-class
        0ms b on 1 because dealt-by-class
        0ms c on 2 because dealt-by-class
        0ms d on 3 because dealt-by-class
    "#]],
    );
    check(
        TWO_CACHES,
        "dino[limits=article]",
        script,
        expect![[r#"
        0ms a on 0 because dealt-by-class
        0ms b on 1 because dealt-by-class
        0ms c on 2 because dealt-by-class
        0ms d on 3 because dealt-by-class
        1s b on 3 because dealt-by-class
        1s d on 1 because dealt-by-class
    "#]],
    );
    check(
        TWO_CACHES,
        "dino[limits=article,reading=paper]",
        script,
        expect![[r#"
        0ms a on 0 because dealt-by-class
        0ms b on 1 because dealt-by-class
        0ms c on 2 because dealt-by-class
        0ms d on 3 because dealt-by-class
        1s a on 1 because dealt-by-class
        1s b on 2 because dealt-by-class
        1s c on 3 because dealt-by-class
        1s d on 0 because dealt-by-class
    "#]],
    );
}

#[test]
fn whoever_changes_class_moves_after_seven_of_ten_intervals() {
    check(
        TWO_CACHES,
        "dino",
        &four(
            "1s rates a=9 b=1 c=9 d=1; poll
             2s rates a=9 b=9 c=1 d=1; poll
             3s poll
             4s poll
             5s poll",
        ),
        expect![[r#"
            0ms a on 0 because dealt-by-class
            0ms b on 1 because dealt-by-class
            0ms c on 2 because dealt-by-class
            0ms d on 3 because dealt-by-class
            4s b on 3 because dealt-by-class
            4s d on 1 because dealt-by-class
        "#]],
    );
}

#[test]
fn more_threads_than_cpus_are_laid_out_in_a_further_layer() {
    check(
        "llcs=2",
        "dino",
        &four("1s rates a=9 b=9 c=9 d=1; poll\n2s poll"),
        expect![[r#"
            0ms a on 0 because dealt-by-class
            0ms b on 0 because dealt-by-class
            0ms c on 1 because dealt-by-class
            0ms d on 1 because dealt-by-class
            1s b on 1 because dealt-by-class
            1s d on 0 because dealt-by-class
        "#]],
    );
}

#[test]
fn a_job_counts_as_its_threads() {
    check_story(
        "nodes=1 llcs=2 cores=4",
        "dino",
        "
        job wide threads=3
        job a
        job b threads=99
        0ms due wide a
        1s rates wide=9 a=1; poll
        1500ms due b
        ",
        expect![[r#"
            0ms wide on 0-1,4 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpus 0-1,4 on llc 0, llc 1
            0ms a on 5 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpu 5 on llc 1
            1s wide on 0,4-5 because the job is a devil (9.000 misses per 1000 instructions, intervals 1, limits 1.5 and 50.5); threads are distributed over 2 caches class by class (super-devils 0, devils 3, turtles 1): it gets cpus 0,4-5 on llc 0, llc 1 (tier counters)
            1s a on 1 because the job is a turtle (1.000 misses per 1000 instructions, intervals 1, limits 1.5 and 50.5); threads are distributed over 2 caches class by class (super-devils 0, devils 3, turtles 1): it gets cpu 1 on llc 0 (tier counters)
            1500ms b on 0-7 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 11, turtles 1): it gets cpus 0-7 on llc 0, llc 1
        "#]],
    );
}

#[test]
fn a_job_gets_a_seat_only_where_it_may_run() {
    check(
        TWO_CACHES,
        "dino",
        "
        job tied cpus=3
        job a
        job b
        job nowhere cpus=9
        0ms due a b tied nowhere
        1s rates tied=1 a=9 b=9; poll
        2s poll
        ",
        expect![[r#"
            0ms tied on 3 because dealt-by-class
            0ms a on 0 because dealt-by-class
            0ms b on 2 because dealt-by-class
        "#]],
    );
}

#[test]
fn who_is_not_ours_keeps_its_seats_and_others_go_around_it() {
    check(
        TWO_CACHES,
        "dino",
        &four("500ms hands-off a on 3\n1s rates a=9 b=9 c=1 d=1; poll\n2s poll"),
        expect![[r#"
            0ms a on 0 because dealt-by-class
            0ms b on 1 because dealt-by-class
            0ms c on 2 because dealt-by-class
            0ms d on 3 because dealt-by-class
            1s d on 0 because dealt-by-class
        "#]],
    );
}

#[test]
fn who_uses_too_little_of_its_cpus_is_left_to_the_kernel() {
    check(
        TWO_CACHES,
        "dino",
        &four("1s rates a=9 b=9 c=9 d=9; poll\n2s rates b=9@50; poll\n3s rates b=9; poll"),
        expect![[r#"
            0ms a on 0 because dealt-by-class
            0ms b on 1 because dealt-by-class
            0ms c on 2 because dealt-by-class
            0ms d on 3 because dealt-by-class
            2s b released because not-busy
            3s b on 1 because dealt-by-class
        "#]],
    );
}

#[test]
fn a_job_that_starts_between_two_intervals_moves_nobody_else() {
    check_story(
        TWO_CACHES,
        "dino",
        "
        job a
        job b
        job c
        0ms due a b
        1s rates a=1 b=9; poll
        1500ms due c
        ",
        expect![[r#"
            0ms a on 0 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 2, turtles 0): it gets cpu 0 on llc 0
            0ms b on 2 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 2, turtles 0): it gets cpu 2 on llc 1
            1s a on 2 because the job is a turtle (1.000 misses per 1000 instructions, intervals 1, limits 1.5 and 50.5); threads are distributed over 2 caches class by class (super-devils 0, devils 1, turtles 1): it gets cpu 2 on llc 1 (tier counters)
            1s b on 0 because the job is a devil (9.000 misses per 1000 instructions, intervals 1, limits 1.5 and 50.5); threads are distributed over 2 caches class by class (super-devils 0, devils 1, turtles 1): it gets cpu 0 on llc 0 (tier counters)
            1500ms c on 3 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 2, turtles 1): it gets cpu 3 on llc 1
        "#]],
    );
}

#[test]
fn a_job_whose_cpu_went_offline_is_placed_at_once() {
    check_story(
        TWO_CACHES,
        "dino",
        "
        job a
        job b
        0ms due a b
        1s rates a=1 b=1; poll
        1500ms usable 1-3
        ",
        expect![[r#"
            0ms a on 0 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 2, turtles 0): it gets cpu 0 on llc 0
            0ms b on 2 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 2, turtles 0): it gets cpu 2 on llc 1
            1500ms a on 1 because the job is a turtle (1.000 misses per 1000 instructions, intervals 1, limits 1.5 and 50.5); threads are distributed over 2 caches class by class (super-devils 0, devils 0, turtles 2): it gets cpu 1 on llc 0; some of its CPUs (0) became unusable (tier counters)
        "#]],
    );
}

#[test]
fn memory_goes_along_to_another_node_and_with_none_it_stays() {
    let script = four(
        "500ms memory a 0=64; memory b 0=32 1=32
         1s rates a=9 b=9 c=1 d=1; poll",
    );
    check_story(
        TWO_NODES,
        "dino",
        &script,
        expect![[r#"
            0ms a on 0 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpu 0 on llc 0
            0ms b on 1 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpu 1 on llc 0
            0ms c on 2 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpu 2 on llc 1
            0ms d on 3 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpu 3 on llc 1
            1s b on 3 because the job is a devil (9.000 misses per 1000 instructions, intervals 1, limits 1.5 and 50.5); threads are distributed over 2 caches class by class (super-devils 0, devils 2, turtles 2): it gets cpu 3 on llc 1 (tier counters)
            1s b pages from node0 to node1 because the job migrates from node 0 to node 1, and its own pages (32.0 MiB) with it
            1s d on 1 because the job is a turtle (1.000 misses per 1000 instructions, intervals 1, limits 1.5 and 50.5); threads are distributed over 2 caches class by class (super-devils 0, devils 2, turtles 2): it gets cpu 1 on llc 0 (tier counters)
            1s d pages from node1 to node0 because the job migrates from node 1 to node 0, and its own pages with it
        "#]],
    );
    check(
        TWO_NODES,
        "dino[memory=none]",
        &script,
        expect![[r#"
        0ms a on 0 because dealt-by-class
        0ms b on 1 because dealt-by-class
        0ms c on 2 because dealt-by-class
        0ms d on 3 because dealt-by-class
        1s b on 3 because dealt-by-class
        1s d on 1 because dealt-by-class
    "#]],
    );
}

#[test]
fn what_a_devil_left_behind_is_called_again_five_times_at_most() {
    let script = four(
        "500ms memory b 0=64
         1s rates a=9 b=9 c=1 d=1; poll
         1100ms moved b to=1 mib=40 in=1ms
         2s poll
         2500ms memory b 0=24 1=40
         3s poll
         3500ms memory b 0=24 1=40
         4s poll
         4500ms memory b 0=24 1=40
         5s poll
         5500ms memory b 0=24 1=40
         6s poll
         6500ms memory b 0=24 1=40
         7s poll
         7500ms memory b 0=24 1=40
         8s poll",
    );
    check_story(
        TWO_NODES,
        "dino",
        &script,
        expect![[r#"
            0ms a on 0 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpu 0 on llc 0
            0ms b on 1 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpu 1 on llc 0
            0ms c on 2 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpu 2 on llc 1
            0ms d on 3 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpu 3 on llc 1
            1s b on 3 because the job is a devil (9.000 misses per 1000 instructions, intervals 1, limits 1.5 and 50.5); threads are distributed over 2 caches class by class (super-devils 0, devils 2, turtles 2): it gets cpu 3 on llc 1 (tier counters)
            1s b pages from node0 to node1 because the job migrates from node 0 to node 1, and its own pages (64.0 MiB) with it
            1s d on 1 because the job is a turtle (1.000 misses per 1000 instructions, intervals 1, limits 1.5 and 50.5); threads are distributed over 2 caches class by class (super-devils 0, devils 2, turtles 2): it gets cpu 1 on llc 0 (tier counters)
            1s d pages from node1 to node0 because the job migrates from node 1 to node 0, and its own pages with it
            3s b pages from node0 to node1 because node 0 still holds 24.0 MiB of the job's own pages, more than 10 % of the 40.0 MiB on node 1, its node: attempt 1 of 5
            4s b pages from node0 to node1 because node 0 still holds 24.0 MiB of the job's own pages, more than 10 % of the 40.0 MiB on node 1, its node: attempt 2 of 5
            5s b pages from node0 to node1 because node 0 still holds 24.0 MiB of the job's own pages, more than 10 % of the 40.0 MiB on node 1, its node: attempt 3 of 5
            6s b pages from node0 to node1 because node 0 still holds 24.0 MiB of the job's own pages, more than 10 % of the 40.0 MiB on node 1, its node: attempt 4 of 5
            7s b pages from node0 to node1 because node 0 still holds 24.0 MiB of the job's own pages, more than 10 % of the 40.0 MiB on node 1, its node: attempt 5 of 5
        "#]],
    );
}

#[test]
fn what_a_turtle_left_behind_stays_and_so_does_a_tenth_of_a_devils() {
    let script = |memory: &str, rates: &str| {
        four(&format!(
            "500ms memory a 0=64; memory b 0=64
             1s rates {rates}; poll
             2500ms {memory}
             3s poll"
        ))
    };
    let devil = script("memory b 0=6 1=60", "a=9 b=9 c=1 d=1");
    check(
        TWO_NODES,
        "dino",
        &devil,
        expect![[r#"
        0ms a on 0 because dealt-by-class
        0ms b on 1 because dealt-by-class
        0ms c on 2 because dealt-by-class
        0ms d on 3 because dealt-by-class
        1s b on 3 because dealt-by-class
        1s b pages from node0 to node1 because memory-goes-along
        1s d on 1 because dealt-by-class
        1s d pages from node1 to node0 because memory-goes-along
    "#]],
    );
    let turtle = script("memory b 0=24 1=40", "a=9 b=1 c=9 d=1");
    check(
        TWO_NODES,
        "dino",
        &turtle,
        expect![[r#"
        0ms a on 0 because dealt-by-class
        0ms b on 1 because dealt-by-class
        0ms c on 2 because dealt-by-class
        0ms d on 3 because dealt-by-class
    "#]],
    );
}

#[test]
fn memory_of_a_job_on_several_nodes_stays() {
    check(
        TWO_NODES,
        "dino[reading=paper]",
        "
        job wide threads=2
        job a
        job b
        0ms due wide a b
        500ms memory wide 0=64
        1s rates wide=9 a=60 b=60; poll
        ",
        expect![[r#"
            0ms wide on 0-1 because dealt-by-class
            0ms a on 2 because dealt-by-class
            0ms b on 3 because dealt-by-class
            1s wide on 1,3 because dealt-by-class
            1s a on 0 because dealt-by-class
            1s a pages from node1 to node0 because memory-goes-along
            1s b on 2 because dealt-by-class
        "#]],
    );
}

#[test]
fn where_the_target_is_too_full_what_fits_is_moved_and_the_thread_goes() {
    check(
        TWO_NODES,
        "dino",
        &format!(
            "free 0=512 1=16\n{}",
            four("500ms memory b 0=64\n1s rates a=9 b=9 c=1 d=1; poll")
        ),
        expect![[r#"
            0ms a on 0 because dealt-by-class
            0ms b on 1 because dealt-by-class
            0ms c on 2 because dealt-by-class
            0ms d on 3 because dealt-by-class
            1s b on 3 because dealt-by-class
            1s b pages from node0 to node1, at most 16.0 MiB because memory-goes-along
            1s d on 1 because dealt-by-class
            1s d pages from node1 to node0, at most 512.0 MiB because memory-goes-along
        "#]],
    );
    check(
        TWO_NODES,
        "dino",
        &format!("free 0=512 1=0\n{}", four("500ms memory b 0=64\n1s rates a=9 b=9 c=1 d=1; poll")),
        expect![[r#"
            0ms a on 0 because dealt-by-class
            0ms b on 1 because dealt-by-class
            0ms c on 2 because dealt-by-class
            0ms d on 3 because dealt-by-class
            1s b on 3 because dealt-by-class
            1s d on 1 because dealt-by-class
            1s d pages from node1 to node0, at most 512.0 MiB because memory-goes-along
        "#]],
    );
}

#[test]
fn partial_memory_is_moved_whole_and_that_is_said_once() {
    let script = four("1s rates a=9 b=9 c=1 d=1; poll");
    check_story(
        TWO_NODES,
        "dino[memory=partial]",
        &script,
        expect![[r#"
            0ms note: memory=partial requires the addresses of memory accesses, which are not sampled: all pages migrate, as with memory=whole
            0ms a on 0 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpu 0 on llc 0
            0ms b on 1 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpu 1 on llc 0
            0ms c on 2 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpu 2 on llc 1
            0ms d on 3 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpu 3 on llc 1
            1s b on 3 because the job is a devil (9.000 misses per 1000 instructions, intervals 1, limits 1.5 and 50.5); threads are distributed over 2 caches class by class (super-devils 0, devils 2, turtles 2): it gets cpu 3 on llc 1 (tier counters)
            1s b pages from node0 to node1 because the job migrates from node 0 to node 1, and its own pages with it
            1s d on 1 because the job is a turtle (1.000 misses per 1000 instructions, intervals 1, limits 1.5 and 50.5); threads are distributed over 2 caches class by class (super-devils 0, devils 2, turtles 2): it gets cpu 1 on llc 0 (tier counters)
            1s d pages from node1 to node0 because the job migrates from node 1 to node 0, and its own pages with it
        "#]],
    );
}

#[test]
fn with_a_single_cpu_nothing_is_placed() {
    check(
        "nodes=1",
        "dino",
        &four("1s rates a=9 b=9 c=1 d=1; poll"),
        expect![[r#"
        0ms note: nothing-to-place
    "#]],
    );
}

#[test]
fn without_any_count_of_misses_the_run_ends_after_four_intervals() {
    let script = four("1s rates a=- b=- c=- d=-; poll\n2s poll\n3s poll\n4s poll");
    check(
        TWO_CACHES,
        "dino",
        &script,
        expect![[r#"
        0ms a on 0 because dealt-by-class
        0ms b on 1 because dealt-by-class
        0ms c on 2 because dealt-by-class
        0ms d on 3 because dealt-by-class
        4s gives up because rates-unreadable
    "#]],
    );
}

#[test]
fn dino_moves_memory_far_less_often_than_di_migrate() {
    let mut script = four("");
    for second in 1..=60 {
        // Two devils whose order changes now and then, among turtles.
        let (a, b) = if second / 15 % 2 == 0 { (40, 5) } else { (5, 40) };
        script.push_str(&format!("{second}s rates a={a} b=1 c={b} d=1; poll\n"));
    }
    let n_moves = |policy| plans(TWO_NODES, policy, &script).matches("pages").count();
    assert_eq!((n_moves("di-migrate"), n_moves("dino")), (8, 0));
}
