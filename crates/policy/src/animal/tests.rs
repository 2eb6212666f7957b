//! Decisions of `animal`.

use expect_test::expect;

use crate::testing::{check, plans};

#[test]
fn a_new_thread_starts_on_the_cache_with_the_fewest_threads() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        0ms due a b
        1s due c
        >> animal
        0ms a on 0 because the job is a devil (assumed until its class is known); of the caches with the fewest threads (0) llc 0 had the lowest penalty for it (0 for all of its threads): it gets cpu 0
        0ms b on 2 because the job is a devil (assumed until its class is known); of the caches with the fewest threads (0) llc 1 had the lowest penalty for it (0 for all of its threads): it gets cpu 2
        1s c on 1 because the job is a devil (assumed until its class is known); of the caches with the fewest threads (1) llc 0 had the lowest penalty for it (8 for all of its threads): it gets cpu 1
    "#]]);
}

#[test]
fn of_caches_with_equally_few_threads_the_one_with_the_lowest_penalty_is_selected() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        0ms due loud quiet
        1s rates loud=20/30 quiet=0.1/1; poll
        1500ms due new
        >> animal
        0ms loud on 0 because the job is a devil (assumed until its class is known); of the caches with the fewest threads (0) llc 0 had the lowest penalty for it (0 for all of its threads): it gets cpu 0
        0ms quiet on 2 because the job is a devil (assumed until its class is known); of the caches with the fewest threads (0) llc 1 had the lowest penalty for it (0 for all of its threads): it gets cpu 2
        1500ms new on 3 because the job is a devil (assumed until its class is known); of the caches with the fewest threads (1) llc 1 had the lowest penalty for it (1 for all of its threads): it gets cpu 3
    "#]]);
}

#[test]
fn a_pair_is_swapped_when_that_lowers_its_penalties() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        0ms due devil turtle rabbit sheep
        1s rates devil=20/30 turtle=0.1/1 rabbit=0.5/20 sheep=0.5/5; poll
        2s poll
        >> animal[pairs=20]
        0ms devil on 0 because the job is a devil (assumed until its class is known); of the caches with the fewest threads (0) llc 0 had the lowest penalty for it (0 for all of its threads): it gets cpu 0
        0ms turtle on 2 because the job is a devil (assumed until its class is known); of the caches with the fewest threads (0) llc 1 had the lowest penalty for it (0 for all of its threads): it gets cpu 2
        0ms rabbit on 1 because the job is a devil (assumed until its class is known); of the caches with the fewest threads (1) llc 0 had the lowest penalty for it (8 for all of its threads): it gets cpu 1
        0ms sheep on 3 because the job is a devil (assumed until its class is known); of the caches with the fewest threads (1) llc 1 had the lowest penalty for it (8 for all of its threads): it gets cpu 3
        1s sheep on 1 because the job is a sheep (0.500 misses and 5.000 accesses per 1000 instructions) on llc 1, and rabbit is a rabbit on llc 0: swapping them changes the sum of penalties from 17 to 11; it gets cpu 1 (tier counters)
        1s rabbit on 3 because the job is a rabbit (0.500 misses and 20.000 accesses per 1000 instructions) on llc 0, and sheep is a sheep on llc 1: swapping them changes the sum of penalties from 17 to 11; it gets cpu 3 (tier counters)
        2s turtle on 1 because the job is a turtle (0.100 misses and 1.000 accesses per 1000 instructions) on llc 1, and sheep is a sheep on llc 0: swapping them changes the sum of penalties from 11 to 6; it gets cpu 1 (tier counters)
        2s sheep on 2 because the job is a sheep (0.500 misses and 5.000 accesses per 1000 instructions) on llc 0, and turtle is a turtle on llc 1: swapping them changes the sum of penalties from 11 to 6; it gets cpu 2 (tier counters)
    "#]]);
}

#[test]
fn a_pair_without_lower_penalties_is_not_swapped() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        0ms due a b c d
        1s rates a=20/30 b=20/30 c=20/30 d=20/30; poll
        2s poll
        > animal[pairs=50]
        0ms a on 0; b on 2; c on 1; d on 3 because animal-placed
    "#]]);
}

#[test]
fn without_counted_accesses_a_job_with_few_misses_is_a_sheep() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        0ms due a
        1s rates a=0.1; poll
        1500ms ended a
        1600ms due b
        2s rates b=0.1; poll
        2500ms usable 1-3
        >> animal
        0ms a on 0 because the job is a devil (assumed until its class is known); of the caches with the fewest threads (0) llc 0 had the lowest penalty for it (0 for all of its threads): it gets cpu 0
        1600ms b on 0 because the job is a devil (assumed until its class is known); of the caches with the fewest threads (0) llc 0 had the lowest penalty for it (0 for all of its threads): it gets cpu 0
        2500ms b on 1 because the job is a sheep (0.100 misses per 1000 instructions, accesses not counted); of the caches with the fewest threads (0) llc 0 had the lowest penalty for it (0 for all of its threads): it gets cpu 1; some of its CPUs (0) became unusable (tier counters)
    "#]]);
}

#[test]
fn a_job_with_little_cpu_time_is_released_and_placed_again_later() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        0ms due a b
        1s rates a=20 b=20@50; poll
        2s rates a=20 b=20; poll
        > animal
        0ms a on 0; b on 2 because animal-placed
        1s b released because not-busy
        2s b on 2 because animal-placed
    "#]]);
}

#[test]
fn a_job_gets_a_slot_for_each_thread_within_its_affinity() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=4
        job wide threads=3
        job tied cpus=1
        job nowhere cpus=99
        0ms due wide tied nowhere
        > animal
        0ms tied on 1; wide on 0,4-5 because animal-placed
    "#]]);
}

#[test]
fn a_job_that_may_not_use_the_other_cpu_is_not_swapped() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        job devil rabbit cpus=0-1
        job turtle sheep
        0ms due devil rabbit turtle sheep
        500ms unmanaged turtle; unmanaged sheep
        1s rates devil=20/30 turtle=0.1/1 rabbit=0.5/20 sheep=0.5/5; poll
        > animal[pairs=50]
        0ms devil on 0; rabbit on 1; turtle on 2; sheep on 3 because animal-placed
    "#]]);
}

#[test]
fn more_threads_than_cpus_share_them() {
    check(expect![[r#"
        llcs=2
        0ms due a b c
        > animal
        0ms a on 0; b on 1; c on 0 because animal-placed
    "#]]);
}

#[test]
fn the_same_seed_draws_the_same_pairs() {
    let script = "
        0ms due a b c d e f
        1s rates a=20 b=0.1/1 c=5 d=0.5/20 e=0.5/5 f=30; poll
        2s..19s/1s poll
    ";
    let play = || plans("nodes=2 llcs=2 cores=2", "animal", script);
    assert_eq!(play(), play());
}

#[test]
fn without_counted_misses_the_run_ends_and_with_one_cpu_no_job_is_placed() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        0ms due a b
        1s rates a=- b=-; poll
        2s poll
        3s poll
        4s poll
        > animal
        0ms a on 0; b on 2 because animal-placed
        4s abort because rates-unreadable
    "#]]);
    check(expect![[r#"
        nodes=1
        0ms due a
        > animal
        0ms note: nothing-to-place
    "#]]);
}
