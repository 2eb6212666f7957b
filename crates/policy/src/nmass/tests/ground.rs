//! Places, mishaps and what is said about the ground.

use expect_test::expect;

use super::{check, check_story};

#[test]
fn with_a_single_cpu_nothing_is_placed() {
    check(
        "nodes=1",
        "nmass",
        "job a\n0ms due a\n1s poll 0",
        expect![[r#"
        0ms note: nothing-to-place
    "#]],
    );
}

#[test]
fn on_one_node_caches_take_the_place_of_processors_and_everybody_is_at_home_in_all() {
    check_story(
        "nodes=1 llcs=2 cores=2",
        "nmass",
        "
        job a mpki=20
        job b mpki=1
        job c mpki=20
        0ms due a b c
        1s memory a 0=64; memory b 0=64; memory c 0=64; poll 0 0
        ",
        expect![[r#"
            0ms note: only one node with memory can be used: jobs are placed on llc domains, and where memory lies gains nothing
            0ms a on 2 because llc 0 was pressed by 40.000 misses per 1000 instructions and llc 1 by 1.000, more than 2.000 apart; of those on llc 0 whose going lowers the larger of them it suffers least from being away (penalty 1.000, no home to be away from; at home everywhere, as it has no memory yet; up to 1.390 is accepted for that difference): once its 20.000 have gone there, 20.000 and 21.000 are left; cpu 2 had the fewest programs on llc 1 (tier none)
            0ms b on 3 because it is at home everywhere, as it has no memory yet, and llc 1 was least loaded (0 of 2 places taken); cpu 3 had the fewest programs there
            0ms c on 0 because it is at home everywhere, as it has no memory yet, and llc 0 was least loaded (1 of 2 places taken); cpu 0 had the fewest programs there
        "#]],
    );
}

#[test]
fn on_cores_nobody_who_runs_makes_room_for_one_that_starts_while_others_are_idle() {
    check(
        "nodes=1 cores=4",
        "maximum-local",
        "
        job a
        job b
        job c
        0ms due c
        100ms due b
        1s memory b 0=64; memory c 0=64; poll 0 0 0 0
        1500ms due a
        2s memory a 0=64; poll 0 0 0 0
        ",
        expect![[r#"
            0ms note: memory-gains-nothing
            0ms c on 0 because no-home
            100ms b on 1 because no-home
            1500ms a on 2 because no-home
        "#]],
    );
}

#[test]
fn by_caches_of_several_nodes_a_program_stays_in_the_cache_where_it_is_at_home() {
    check(
        "nodes=2 llcs=2 cores=2",
        "maximum-local[domains=llc]",
        "
        job a memory=1
        job b memory=1
        0ms due a b
        1s memory a 1=64; memory b 1=64; poll 0 0 0 0
        2s memory b 0=64; poll 0 0 0 0
        3s poll 0 0 0 0
        ",
        expect![[r#"
            0ms a on 4 because home-free
            0ms b on 6 because home-free
            2s b on 0 because home-free
        "#]],
    );
}

#[test]
fn a_program_stays_within_the_cpus_that_it_may_use() {
    check(
        "nodes=2 cores=2",
        "nmass",
        "
        job a cpus=1 memory=1 mpki=30
        job b memory=0 mpki=30
        job lost cpus=9
        0ms due a b lost
        1s poll 0 0
        ",
        expect![[r#"
            0ms a on 1 because home-full
            0ms b on 2 because pressure-uneven
        "#]],
    );
}

#[test]
fn a_program_whose_cpu_goes_away_is_placed_anew_and_comes_home_again() {
    check_story(
        "nodes=2 cores=2",
        "maximum-local",
        "
        job a memory=1
        job b memory=1
        0ms due a b
        100ms usable 0-2
        200ms usable 0-1
        300ms usable 0-3
        ",
        expect![[r#"
            0ms a on 2 because it is at home on node 1, from where its memory is to come, and node 1 had 2 of 2 places free when its turn came, with a penalty of 1.000 for being away (nothing is known of it); cpu 2 had the fewest programs there
            0ms b on 3 because it is at home on node 1, from where its memory is to come, and node 1 had 1 of 2 places free when its turn came, with a penalty of 1.000 for being away (nothing is known of it); cpu 3 had the fewest programs there
            100ms b on 0 because not all of the CPUs that it was on (3) can be used any more: it is at home on node 1, from where its memory is to come, where no place was free when its turn came, with a penalty of 1.000 for being away (nothing is known of it); of the others node 0 was least loaded (0 of 2 places taken), and cpu 0 had the fewest programs there
            200ms note: other CPUs can be used than before: jobs are placed on core domains from here on
            200ms a on 1 because not all of the CPUs that it was on (2) can be used any more: it is at home on node 1, from where its memory is to come, where no place was free when its turn came, with a penalty of 1.000 for being away (nothing is known of it); of the others core 1 was least loaded (0 of 1 places taken), and cpu 1 had the fewest programs there
            300ms note: other CPUs can be used than before: jobs are placed on node domains from here on
            300ms a on 2 because it is at home on node 1, from where its memory is to come, and node 1 had 2 of 2 places free when its turn came, with a penalty of 1.000 for being away (nothing is known of it); cpu 2 had the fewest programs there
            300ms b on 3 because it is at home on node 1, from where its memory is to come, and node 1 had 1 of 2 places free when its turn came, with a penalty of 1.000 for being away (nothing is known of it); cpu 3 had the fewest programs there
        "#]],
    );
}

#[test]
fn threads_beyond_a_cache_take_cpus_of_the_node_and_stay() {
    check(
        "nodes=1 llcs=2 cores=2",
        "nmass",
        "
        job wide threads=3
        job a
        0ms due wide a
        1s poll 0 0
        2s poll 0 0
        ",
        expect![[r#"
            0ms note: memory-gains-nothing
            0ms wide on 0-2 because no-home
            0ms a on 3 because no-home
        "#]],
    );
}

#[test]
fn who_is_not_ours_to_place_takes_up_room() {
    check(
        "nodes=2 cores=1",
        "maximum-local",
        "
        job alien
        job a memory=0
        0ms due alien
        1ms hands-off alien on 0
        2ms due a
        ",
        expect![[r#"
            0ms alien on 0 because no-home
            2ms a on 1 because home-full
        "#]],
    );
}

#[test]
fn programs_that_share_a_core_are_drawn_apart_when_another_falls_idle() {
    check_story(
        "nodes=2 cores=2",
        "maximum-local",
        "
        job a memory=0
        job b memory=0
        job c memory=0
        job d memory=1
        job e memory=1
        0ms due a b c d e
        1s ended d
        2s ended b
        ",
        expect![[r#"
            0ms a on 0 because it is at home on node 0, from where its memory is to come, and node 0 had 4 of 4 places free when its turn came, with a penalty of 1.000 for being away (nothing is known of it); cpu 0 had the fewest programs there
            0ms b on 1 because it is at home on node 0, from where its memory is to come, and node 0 had 3 of 4 places free when its turn came, with a penalty of 1.000 for being away (nothing is known of it); cpu 1 had the fewest programs there
            0ms c on 0 because it is at home on node 0, from where its memory is to come, and node 0 had 2 of 4 places free when its turn came, with a penalty of 1.000 for being away (nothing is known of it); cpu 0 had the fewest programs there
            0ms d on 2 because it is at home on node 1, from where its memory is to come, and node 1 had 4 of 4 places free when its turn came, with a penalty of 1.000 for being away (nothing is known of it); cpu 2 had the fewest programs there
            0ms e on 3 because it is at home on node 1, from where its memory is to come, and node 1 had 3 of 4 places free when its turn came, with a penalty of 1.000 for being away (nothing is known of it); cpu 3 had the fewest programs there
            1s c on 2 because it is at home on node 0, from where its memory is to come, where no place was free when its turn came, with a penalty of 1.000 for being away (nothing is known of it); of the others node 1 was least loaded (0 of 2 places taken), and cpu 2 had the fewest programs there
            2s c on 1 because it is at home on node 0, from where its memory is to come, and node 0 had 1 of 2 places free when its turn came, with a penalty of 1.000 for being away (nothing is known of it); cpu 1 had the fewest programs there
        "#]],
    );
}

#[test]
fn a_restarted_program_begins_anew() {
    check(
        "nodes=2 cores=2",
        "maximum-local",
        "
        job a
        job b
        0ms due b
        1ms due a
        1s memory a 0=64; poll 0 0
        2s ended a b
        2100ms memory a; due a
        ",
        expect![[r#"
            0ms b on 0 because no-home
            1ms a on 1 because no-home
            2100ms a on 0 because no-home
        "#]],
    );
}
