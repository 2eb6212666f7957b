//! Decisions of `dino`.

use expect_test::expect;

use crate::testing::{check, check_after, plans};

/// Four jobs that start together.
const FOUR: &str = "0ms due a b c d";

#[test]
fn jobs_start_as_devils() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        0ms due a b c d
        >> dino
        0ms a on 0 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpu 0 on llc 0
        0ms b on 1 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpu 1 on llc 0
        0ms c on 2 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpu 2 on llc 1
        0ms d on 3 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpu 3 on llc 1
        > dino
        0ms a on 0; b on 1; c on 2; d on 3 because dealt-by-class
        > dino[reading=paper]
        0ms a on 0; b on 1; c on 2; d on 3 because dealt-by-class
        > dino[limits=article]
        0ms a on 0; b on 1; c on 2; d on 3 because dealt-by-class
        > dino[limits=released]
        0ms a on 0; b on 1; c on 2; d on 3 because dealt-by-class
        > dino[limits=article,reading=paper]
        0ms a on 0; b on 1; c on 2; d on 3 because dealt-by-class
    "#]]);
    check(expect![[r#"
        nodes=2 cores=2
        0ms due a b c d
        > dino
        0ms a on 0; b on 1; c on 2; d on 3 because dealt-by-class
        > dino[memory=none]
        0ms a on 0; b on 1; c on 2; d on 3 because dealt-by-class
        >> dino[memory=partial]
        0ms note: memory=partial requires the addresses of memory accesses, which are not sampled: all pages migrate, as with memory=whole
        0ms a on 0 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpu 0 on llc 0
        0ms b on 1 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpu 1 on llc 0
        0ms c on 2 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpu 2 on llc 1
        0ms d on 3 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpu 3 on llc 1
    "#]]);
    check(expect![[r#"
        llcs=2
        0ms due a b c d
        > dino
        0ms a on 0; b on 0; c on 1; d on 1 because dealt-by-class
    "#]]);
}

#[test]
fn classes_are_distributed_back_and_forth_and_matching_jobs_stay() {
    check_after(
        FOUR,
        expect![[r#"
        nodes=1 llcs=2 cores=2
        1s rates a=60 b=9 c=1 d=1; poll
        2s poll
        >> dino
        1s b on 3 because the job is a devil (9.000 misses per 1000 instructions, intervals 1, limits 1.5 and 50.5); threads are distributed over 2 caches class by class (super-devils 1, devils 1, turtles 2): it gets cpu 3 on llc 1 (tier counters)
        1s d on 1 because the job is a turtle (1.000 misses per 1000 instructions, intervals 1, limits 1.5 and 50.5); threads are distributed over 2 caches class by class (super-devils 1, devils 1, turtles 2): it gets cpu 1 on llc 0 (tier counters)
    "#]],
    );
}

#[test]
fn as_published_a_thread_stays_only_on_the_core_that_the_map_gives_its_class() {
    check_after(
        FOUR,
        expect![[r#"
        nodes=1 llcs=2 cores=2
        1s rates a=1 b=9 c=1 d=9; poll
        2s poll
        > dino
        > dino[reading=paper]
        1s a on 1; b on 0; c on 3; d on 2 because dealt-by-class
    "#]],
    );
}

#[test]
fn the_order_of_rates_within_a_class_has_no_effect() {
    check_after(
        FOUR,
        expect![[r#"
        nodes=1 llcs=2 cores=2
        1s rates a=9 b=20 c=30 d=40; poll
        2s rates a=40 b=30 c=20 d=9; poll
        > dino
    "#]],
    );
}

#[test]
fn if_all_jobs_are_turtles_nothing_is_requested() {
    check_after(
        FOUR,
        expect![[r#"
        nodes=1 llcs=2 cores=2
        1s rates a=1 b=1 c=1@10 d=1; poll
        2s poll
        > dino
    "#]],
    );
}

#[test]
fn a_single_thread_does_not_migrate() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        0ms due a b c
        1s rates a=9 b=9 c=9; poll
        1500ms ended a b
        2s poll
        > dino
        0ms a on 0; b on 2; c on 3 because dealt-by-class
    "#]]);
}

#[test]
fn a_change_of_the_numbers_of_classes_can_move_a_thread() {
    check_after(
        FOUR,
        expect![[r#"
        nodes=1 llcs=2 cores=2
        1s rates a=9 b=1 c=9 d=1; poll
        1500ms ended c d
        2s rates a=9 b=9; poll
        3s poll
        4s poll
        >> dino
        2s b on 2 because the job is a turtle (5.000 misses per 1000 instructions, intervals 2, limits 1.5 and 50.5); threads are distributed over 2 caches class by class (super-devils 0, devils 1, turtles 1): it gets cpu 2 on llc 1 (tier counters)
    "#]],
    );
}

#[test]
fn the_limits_of_the_article_do_not_depend_on_the_reading() {
    check_after(
        FOUR,
        expect![[r#"
        nodes=1 llcs=2 cores=2
        1s rates a=1.8 b=1.8 c=1.8 d=9; poll
        > dino[limits=released]
        > dino[limits=article]
        1s b on 3; d on 1 because dealt-by-class
        > dino[limits=article,reading=paper]
        1s a on 1; b on 2; c on 3; d on 0 because dealt-by-class
    "#]],
    );
}

#[test]
fn a_job_that_changes_its_class_migrates_after_seven_of_ten_intervals() {
    check_after(
        FOUR,
        expect![[r#"
        nodes=1 llcs=2 cores=2
        1s rates a=9 b=1 c=9 d=1; poll
        2s rates a=9 b=9 c=1 d=1; poll
        3s poll
        4s poll
        5s poll
        > dino
        4s b on 3; d on 1 because dealt-by-class
    "#]],
    );
}

#[test]
fn more_threads_than_cpus_are_assigned_in_a_further_layer() {
    check_after(
        FOUR,
        expect![[r#"
        llcs=2
        1s rates a=9 b=9 c=9 d=1; poll
        2s poll
        > dino
        1s b on 1; d on 0 because dealt-by-class
    "#]],
    );
}

#[test]
fn a_job_counts_as_its_threads() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=4
        job wide threads=3
        job a
        job b threads=99
        0ms due wide a
        1s rates wide=9 a=1; poll
        1500ms due b
        >> dino
        0ms wide on 0-1,4 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpus 0-1,4 on llc 0, llc 1
        0ms a on 5 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 4, turtles 0): it gets cpu 5 on llc 1
        1s wide on 0,4-5 because the job is a devil (9.000 misses per 1000 instructions, intervals 1, limits 1.5 and 50.5); threads are distributed over 2 caches class by class (super-devils 0, devils 3, turtles 1): it gets cpus 0,4-5 on llc 0, llc 1 (tier counters)
        1s a on 1 because the job is a turtle (1.000 misses per 1000 instructions, intervals 1, limits 1.5 and 50.5); threads are distributed over 2 caches class by class (super-devils 0, devils 3, turtles 1): it gets cpu 1 on llc 0 (tier counters)
        1500ms b on 0-7 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 11, turtles 1): it gets cpus 0-7 on llc 0, llc 1
    "#]]);
}

#[test]
fn a_job_gets_slots_only_within_its_affinity() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        job tied cpus=3
        job a b
        job nowhere cpus=9
        0ms due a b tied nowhere
        1s rates tied=1 a=9 b=9; poll
        2s poll
        > dino
        0ms tied on 3; a on 0; b on 2 because dealt-by-class
    "#]]);
}

#[test]
fn an_unmanaged_job_keeps_its_slots() {
    check_after(
        FOUR,
        expect![[r#"
        nodes=1 llcs=2 cores=2
        500ms unmanaged a on 3
        1s rates a=9 b=9 c=1 d=1; poll
        2s poll
        > dino
        1s d on 0 because dealt-by-class
    "#]],
    );
}

#[test]
fn a_job_with_little_cpu_time_is_released() {
    check_after(
        FOUR,
        expect![[r#"
        nodes=1 llcs=2 cores=2
        1s rates a=9 b=9 c=9 d=9; poll
        2s rates b=9@50; poll
        3s rates b=9; poll
        > dino
        2s b released because not-busy
        3s b on 1 because dealt-by-class
    "#]],
    );
}

#[test]
fn a_job_that_starts_between_two_intervals_causes_no_other_migration() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        0ms due a b
        1s rates a=1 b=9; poll
        1500ms due c
        >> dino
        0ms a on 0 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 2, turtles 0): it gets cpu 0 on llc 0
        0ms b on 2 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 2, turtles 0): it gets cpu 2 on llc 1
        1s a on 2 because the job is a turtle (1.000 misses per 1000 instructions, intervals 1, limits 1.5 and 50.5); threads are distributed over 2 caches class by class (super-devils 0, devils 1, turtles 1): it gets cpu 2 on llc 1 (tier counters)
        1s b on 0 because the job is a devil (9.000 misses per 1000 instructions, intervals 1, limits 1.5 and 50.5); threads are distributed over 2 caches class by class (super-devils 0, devils 1, turtles 1): it gets cpu 0 on llc 0 (tier counters)
        1500ms c on 3 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 2, turtles 1): it gets cpu 3 on llc 1
    "#]]);
}

#[test]
fn a_job_whose_cpu_goes_offline_is_placed_in_the_same_turn() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        0ms due a b
        1s rates a=1 b=1; poll
        1500ms usable 1-3
        >> dino
        0ms a on 0 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 2, turtles 0): it gets cpu 0 on llc 0
        0ms b on 2 because the job is a devil (assumed until its class is known); threads are distributed over 2 caches class by class (super-devils 0, devils 2, turtles 0): it gets cpu 2 on llc 1
        1500ms a on 1 because the job is a turtle (1.000 misses per 1000 instructions, intervals 1, limits 1.5 and 50.5); threads are distributed over 2 caches class by class (super-devils 0, devils 0, turtles 2): it gets cpu 1 on llc 0; some of its CPUs (0) became unusable (tier counters)
    "#]]);
}

#[test]
fn pages_follow_to_another_node_and_stay_with_none() {
    check_after(
        FOUR,
        expect![[r#"
        nodes=2 cores=2
        500ms memory a 0=64; memory b 0=32 1=32
        1s rates a=9 b=9 c=1 d=1; poll
        >> dino
        1s b on 3 because the job is a devil (9.000 misses per 1000 instructions, intervals 1, limits 1.5 and 50.5); threads are distributed over 2 caches class by class (super-devils 0, devils 2, turtles 2): it gets cpu 3 on llc 1 (tier counters)
        1s b pages from node0 to node1 because the job migrates from node 0 to node 1, and its own pages (32.0 MiB) with it
        1s d on 1 because the job is a turtle (1.000 misses per 1000 instructions, intervals 1, limits 1.5 and 50.5); threads are distributed over 2 caches class by class (super-devils 0, devils 2, turtles 2): it gets cpu 1 on llc 0 (tier counters)
        1s d pages from node1 to node0 because the job migrates from node 1 to node 0, and its own pages with it
        > dino[memory=none]
        1s b on 3; d on 1 because dealt-by-class
    "#]],
    );
}

#[test]
fn remaining_pages_of_a_devil_are_requested_at_most_five_more_times() {
    check_after(
        FOUR,
        expect![[r#"
            nodes=2 cores=2
            500ms memory b 0=64
            1s rates a=9 b=9 c=1 d=1; poll
            1100ms moved b to=1 mib=40 in=1ms
            2s poll
            2500ms memory b 0=24 1=40
            3s..8s/1s memory b 0=24 1=40; poll
            >> dino
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
fn remaining_pages_stay_for_a_turtle_and_up_to_a_tenth_for_a_devil() {
    check_after(
        FOUR,
        expect![[r#"
        nodes=2 cores=2
        500ms memory a 0=64; memory b 0=64
        1s rates a=9 b=9 c=1 d=1; poll
        2500ms memory b 0=6 1=60
        3s poll
        > dino
        1s b on 3 because dealt-by-class
        1s b pages from node0 to node1 because memory-moves-with-job
        1s d on 1 because dealt-by-class
        1s d pages from node1 to node0 because memory-moves-with-job
    "#]],
    );
    check_after(
        FOUR,
        expect![[r#"
        nodes=2 cores=2
        500ms memory a 0=64; memory b 0=64
        1s rates a=9 b=1 c=9 d=1; poll
        2500ms memory b 0=24 1=40
        3s poll
        > dino
    "#]],
    );
}

#[test]
fn memory_of_a_job_on_several_nodes_stays() {
    check(expect![[r#"
        nodes=2 cores=2
        job wide threads=2
        job a b
        0ms due wide a b
        500ms memory wide 0=64
        1s rates wide=9 a=60 b=60; poll
        > dino[reading=paper]
        0ms wide on 0-1; a on 2; b on 3 because dealt-by-class
        1s wide on 1,3; a on 0 because dealt-by-class
        1s a pages from node1 to node0 because memory-moves-with-job
        1s b on 2 because dealt-by-class
    "#]]);
}

#[test]
fn a_page_move_is_limited_to_the_free_memory_of_the_target() {
    check_after(
        FOUR,
        expect![[r#"
        nodes=2 cores=2
        free 0=512 1=16
        500ms memory b 0=64
        1s rates a=9 b=9 c=1 d=1; poll
        > dino
        1s b on 3 because dealt-by-class
        1s b pages from node0 to node1, at most 16.0 MiB because memory-moves-with-job
        1s d on 1 because dealt-by-class
        1s d pages from node1 to node0, at most 512.0 MiB because memory-moves-with-job
    "#]],
    );
    check_after(
        FOUR,
        expect![[r#"
        nodes=2 cores=2
        free 0=512 1=0
        500ms memory b 0=64
        1s rates a=9 b=9 c=1 d=1; poll
        > dino
        1s b on 3; d on 1 because dealt-by-class
        1s d pages from node1 to node0, at most 512.0 MiB because memory-moves-with-job
    "#]],
    );
}

#[test]
fn memory_partial_moves_all_pages_and_is_reported_once() {
    check_after(
        FOUR,
        expect![[r#"
        nodes=2 cores=2
        1s rates a=9 b=9 c=1 d=1; poll
        >> dino[memory=partial]
        1s b on 3 because the job is a devil (9.000 misses per 1000 instructions, intervals 1, limits 1.5 and 50.5); threads are distributed over 2 caches class by class (super-devils 0, devils 2, turtles 2): it gets cpu 3 on llc 1 (tier counters)
        1s b pages from node0 to node1 because the job migrates from node 0 to node 1, and its own pages with it
        1s d on 1 because the job is a turtle (1.000 misses per 1000 instructions, intervals 1, limits 1.5 and 50.5); threads are distributed over 2 caches class by class (super-devils 0, devils 2, turtles 2): it gets cpu 1 on llc 0 (tier counters)
        1s d pages from node1 to node0 because the job migrates from node 1 to node 0, and its own pages with it
    "#]],
    );
}

#[test]
fn with_a_single_cpu_no_job_is_placed() {
    check(expect![[r#"
        nodes=1
        0ms due a b c d
        1s rates a=9 b=9 c=1 d=1; poll
        > dino
        0ms note: nothing-to-place
    "#]]);
}

#[test]
fn without_counted_misses_the_run_ends_after_four_intervals() {
    check_after(
        FOUR,
        expect![[r#"
        nodes=1 llcs=2 cores=2
        1s rates a=- b=- c=- d=-; poll
        2s..4s/1s poll
        > dino
        4s abort because rates-unreadable
    "#]],
    );
}

#[test]
fn dino_moves_memory_far_less_often_than_di_migrate() {
    let mut script = format!("{FOUR}\n");
    for second in 1..=60 {
        // Two devils whose order changes now and then, among turtles.
        let (a, b) = if second / 15 % 2 == 0 { (40, 5) } else { (5, 40) };
        script.push_str(&format!("{second}s rates a={a} b=1 c={b} d=1; poll\n"));
    }
    let n_moves = |policy| plans("nodes=2 cores=2", policy, &script).matches("pages").count();
    assert_eq!((n_moves("di-migrate"), n_moves("dino")), (8, 0));
}
