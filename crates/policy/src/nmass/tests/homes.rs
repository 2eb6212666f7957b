//! Steps 1 and 2: jobs run on the node of their memory.

use expect_test::expect;

use crate::testing::check;

#[test]
fn jobs_without_pages_start_on_the_emptiest_node_which_becomes_their_home() {
    check(expect![[r#"
        nodes=2 cores=2
        0ms due a b
        1s poll
        1500ms ended a
        2s due c
        >> maximum-local
        0ms a on 0 because its home is any node (it has no pages yet); node 0 was the least occupied (0 of 2 slots); cpu 0 had the fewest jobs there
        0ms b on 2 because its home is any node (it has no pages yet); node 1 was the least occupied (0 of 2 slots); cpu 2 had the fewest jobs there
        2s c on 0 because its home is any node (it has no pages yet); node 0 was the least occupied (0 of 2 slots); cpu 0 had the fewest jobs there
    "#]]);
}

#[test]
fn a_job_migrates_to_the_node_that_holds_most_of_its_memory() {
    check(expect![[r#"
        nodes=2 cores=2
        0ms due a
        1s memory a 0=64 1=400; poll
        2s poll
        >> maximum-local
        0ms a on 0 because its home is any node (it has no pages yet); node 0 was the least occupied (0 of 2 slots); cpu 0 had the fewest jobs there
        1s a on 2 because its home is node 1 (which holds 400.0 MiB of its 464.0 MiB), node 1 had 2 of 2 slots free when the job was placed, and its remote penalty is 1.000 (unknown); cpu 2 had the fewest jobs there
    "#]]);
}

#[test]
fn on_a_full_home_node_jobs_with_the_highest_remote_penalty_stay() {
    check(expect![[r#"
        nodes=2 cores=2
        job a sens=remote:100
        job b sens=remote:400
        job c sens=remote:300
        0ms due a b c
        1s memory a 0=64; memory b 0=64; memory c 0=64; poll
        2s poll
        >> maximum-local
        0ms a on 0 because its home is any node (it has no pages yet); node 0 was the least occupied (0 of 2 slots); cpu 0 had the fewest jobs there
        0ms b on 2 because its home is any node (it has no pages yet); node 1 was the least occupied (0 of 2 slots); cpu 2 had the fewest jobs there
        0ms c on 1 because its home is any node (it has no pages yet); node 0 was the least occupied (1 of 2 slots); cpu 1 had the fewest jobs there
        1s a on 2 because its home is node 0 (which holds 64.0 MiB of its 64.0 MiB), which had no free slot when the job was placed (remote penalty 1.100, as declared); node 1 was the least occupied of the others (0 of 2 slots); cpu 2 had the fewest jobs there
        1s b on 0 because its home is node 0 (which holds 64.0 MiB of its 64.0 MiB), node 0 had 2 of 2 slots free when the job was placed, and its remote penalty is 1.400 (as declared); cpu 0 had the fewest jobs there
    "#]]);
}

#[test]
fn a_declared_memory_node_is_the_home_from_the_start() {
    check(expect![[r#"
        nodes=2 cores=2
        job a b c memory=1
        job d memory=0-1
        0ms due a b c d
        > maximum-local
        0ms a on 2; b on 3 because home-free
        0ms c on 0 because home-full
        0ms d on 1 because no-home
    "#]]);
}

#[test]
fn a_job_whose_pages_are_spread_evenly_has_no_home() {
    check(expect![[r#"
        nodes=2 cores=2
        job a sens=remote:900
        0ms due a
        1s memory a 0=55 1=60; poll
        2s memory a 0=10 1=60; poll
        >> maximum-local
        0ms a on 0 because its home is any node (it has no pages yet); node 0 was the least occupied (0 of 2 slots); cpu 0 had the fewest jobs there
        2s a on 2 because its home is node 1 (which holds 60.0 MiB of its 70.0 MiB), node 1 had 2 of 2 slots free when the job was placed, and its remote penalty is 1.900 (as declared); cpu 2 had the fewest jobs there
    "#]]);
    check(expect![[r#"
        nodes=2 cores=2
        0ms due a
        1s memory a 0=55 1=60; poll
        > maximum-local[even=1]
        0ms a on 0 because no-home
        1s a on 2 because home-free
    "#]]);
}

#[test]
fn the_remote_penalty_is_counted_once_both_sides_were_sampled() {
    // Away it takes 3 cycles an instruction, at home 2: a penalty of 1.5, which beats the declared 1.4.
    check(expect![[r#"
        nodes=2 cores=1
        job a
        job b sens=remote:400
        0ms due a b
        1s memory a 0=64; memory b 0=64; poll
        2s counts b in=1s cycles=2000000000 instructions=1000000000; poll
        3s counts a in=1s cycles=3000000000 instructions=1000000000; poll
        4s ended b
        5s counts a in=1s cycles=2000000000 instructions=1000000000; poll
        6s poll
        7s due b
        8s memory b 0=64; poll
        >> maximum-local
        0ms a on 0 because its home is any node (it has no pages yet); node 0 was the least occupied (0 of 1 slots); cpu 0 had the fewest jobs there
        0ms b on 1 because its home is any node (it has no pages yet); node 1 was the least occupied (0 of 1 slots); cpu 1 had the fewest jobs there
        1s a on 1 because its home is node 0 (which holds 64.0 MiB of its 64.0 MiB), which had no free slot when the job was placed (remote penalty 1.000, unknown); node 1 was the least occupied of the others (0 of 1 slots); cpu 1 had the fewest jobs there
        1s b on 0 because its home is node 0 (which holds 64.0 MiB of its 64.0 MiB), node 0 had 1 of 1 slots free when the job was placed, and its remote penalty is 1.400 (as declared); cpu 0 had the fewest jobs there
        4s a on 0 because its home is node 0 (which holds 64.0 MiB of its 64.0 MiB), node 0 had 1 of 1 slots free when the job was placed, and its remote penalty is 1.000 (unknown); cpu 0 had the fewest jobs there
        7s b on 1 because its home is node 0 (which holds 64.0 MiB of its 64.0 MiB), which had no free slot when the job was placed (remote penalty 1.400, as declared); node 1 was the least occupied of the others (0 of 1 slots); cpu 1 had the fewest jobs there
    "#]]);
}

#[test]
fn with_more_jobs_than_cores_each_core_has_several_slots() {
    check(expect![[r#"
        nodes=2 cores=2
        job a b c d e memory=0
        0ms due a b c d e
        > maximum-local
        0ms a on 0; b on 1; c on 0; d on 1 because home-free
        0ms e on 2 because home-full
    "#]]);
}

#[test]
fn smt_siblings_share_a_core_only_when_every_core_is_taken() {
    check(expect![[r#"
        nodes=2 cores=2 smt=2
        job a b c d e memory=0
        0ms due a b
        1ms due c
        2ms due d
        3ms due e
        > maximum-local
        0ms a on 0; b on 2 because home-free
        1ms c on 4 because home-full
        2ms d on 6 because home-full
        3ms c on 1; d on 3 because home-free
        3ms e on 4 because home-full
    "#]]);
}

#[test]
fn each_thread_takes_a_slot_and_a_job_wider_than_a_node_takes_a_whole_node() {
    check(expect![[r#"
        nodes=2 cores=4
        job two threads=2 memory=0
        job three threads=3 memory=0
        job wide threads=9
        0ms due two three
        1s poll
        2s ended two three
        3s due wide
        > maximum-local
        0ms two on 0-1 because home-free
        0ms three on 4-6 because home-full
        3s wide on 0-3 because no-home
    "#]]);
}
