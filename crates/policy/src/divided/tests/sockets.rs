//! Assignment of sockets to groups.

use expect_test::expect;

use super::SIX;
use crate::testing::{check, check_after};

#[test]
fn without_group_2_group_1_is_spread_and_the_others_fill_free_slots() {
    check(expect![[r#"
        nodes=2 cores=4
        job a queue-full=900/s llc-references=5/s
        job b queue-full=800/s llc-references=5/s
        job c queue-full=0/s llc-references=5/s
        job d queue-full=700/s llc-references=5/s
        job e queue-full=0/s llc-references=5/s
        job f queue-full=600/s llc-references=5/s
        0ms due a b c d e f
        10s..20s/10s poll
        >> divided[repeat=1,guard=off,th_sq=100,th_ref=100]
        0ms a on 0 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 0 with the fewest jobs
        0ms b on 4 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 1, the socket with the most free slots for it, on cpu 4 with the fewest jobs
        0ms c on 1 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 1 with the fewest jobs
        0ms d on 5 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 1, the socket with the most free slots for it, on cpu 5 with the fewest jobs
        0ms e on 2 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 2 with the fewest jobs
        0ms f on 6 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 1, the socket with the most free slots for it, on cpu 6 with the fewest jobs
        10s b on 3 because the job is in Group 1, which causes contention (800 cycles with a full request queue and 5 references to the last-level cache per second of CPU time; thresholds 100 and 100); there is no Group 2, with 4, 0 and 2 threads of Groups 1, 2 and 3: its group is spread evenly, this job on node 0, on cpu 3 with the fewest jobs (tier counters)
    "#]]);
}

#[test]
fn without_group_3_sockets_are_divided_between_the_other_two() {
    check(expect![[r#"
        nodes=2 cores=4
        job a queue-full=900/s llc-references=5/s
        job b queue-full=1/s llc-references=900/s
        job c queue-full=800/s llc-references=5/s
        job d queue-full=1/s llc-references=900/s
        0ms due a b c d
        10s..20s/10s poll
        > divided[repeat=1,guard=off,th_sq=100,th_ref=100]
        0ms a on 0; b on 4; c on 1; d on 5 because group-placed
    "#]]);
}

#[test]
fn group_3_runs_beside_group_2_and_beside_group_1_only_without_free_slots() {
    check(expect![[r#"
        nodes=2 cores=3
        job hurts queue-full=900/s llc-references=5/s
        job hurt queue-full=1/s llc-references=900/s
        job x queue-full=1/s llc-references=1/s
        job y queue-full=1/s llc-references=1/s
        job z queue-full=1/s llc-references=1/s
        0ms due hurts hurt x y z
        10s..20s/10s poll
        > divided[repeat=1,guard=off,th_sq=100,th_ref=100]
        0ms hurts on 0; hurt on 3; x on 1; y on 4; z on 2 because group-placed
        10s x on 5 because group-sheltered
    "#]]);
}

#[test]
fn group_1_gets_as_many_sockets_as_it_needs_but_never_all() {
    check(expect![[r#"
        nodes=3 cores=2
        job a queue-full=900/s llc-references=5/s
        job b queue-full=800/s llc-references=5/s
        job c queue-full=700/s llc-references=5/s
        job hurt queue-full=1/s llc-references=900/s
        0ms due a b c hurt
        10s..20s/10s poll
        > divided[repeat=1,guard=off,th_sq=100,th_ref=100]
        0ms a on 0; b on 2; c on 4; hurt on 1 because group-placed
        10s c on 1 because group-apart
        10s hurt on 4 because group-sheltered
    "#]]);
    check(expect![[r#"
        nodes=2 cores=2
        job a queue-full=900/s llc-references=5/s
        job b queue-full=800/s llc-references=5/s
        job c queue-full=700/s llc-references=5/s
        job hurt queue-full=1/s llc-references=900/s
        0ms due a b c hurt
        10s..20s/10s poll
        > divided[repeat=1,guard=off,th_sq=100,th_ref=100]
        0ms a on 0; b on 2; c on 1; hurt on 3 because group-placed
    "#]]);
}

#[test]
fn surplus_threads_of_group_1_run_beside_the_fewest_of_group_2() {
    check(expect![[r#"
        nodes=3 cores=2
        job a queue-full=900/s llc-references=5/s
        job b queue-full=800/s llc-references=5/s
        job c queue-full=700/s llc-references=5/s
        job d queue-full=600/s llc-references=5/s
        job e queue-full=500/s llc-references=5/s
        job hurt queue-full=1/s llc-references=900/s
        0ms due a b c d e hurt
        10s poll
        >> divided[keep=no,repeat=1,guard=off,th_sq=100,th_ref=100]
        0ms a on 0 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 0 with the fewest jobs
        0ms b on 2 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 1, the socket with the most free slots for it, on cpu 2 with the fewest jobs
        0ms c on 4 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 2, the socket with the most free slots for it, on cpu 4 with the fewest jobs
        0ms d on 1 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 1 with the fewest jobs
        0ms e on 3 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 1, the socket with the most free slots for it, on cpu 3 with the fewest jobs
        0ms hurt on 5 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 2, the socket with the most free slots for it, on cpu 5 with the fewest jobs
        10s c on 1 because the job is in Group 1, which causes contention (700 cycles with a full request queue and 5 references to the last-level cache per second of CPU time; thresholds 100 and 100); Group 1 is assigned to cpus 0-3, the others to cpus 4-5, with 5, 1 and 0 threads of Groups 1, 2 and 3: it is placed on node 0, on cpu 1 with the fewest jobs (tier counters)
        10s d on 3 because the job is in Group 1, which causes contention (600 cycles with a full request queue and 5 references to the last-level cache per second of CPU time; thresholds 100 and 100); Group 1 is assigned to cpus 0-3, the others to cpus 4-5, with 5, 1 and 0 threads of Groups 1, 2 and 3: it is placed on node 1, on cpu 3 with the fewest jobs (tier counters)
        10s e on 4 because the job is in Group 1, which causes contention (500 cycles with a full request queue and 5 references to the last-level cache per second of CPU time; thresholds 100 and 100); Group 1 is assigned to cpus 0-3, the others to cpus 4-5, with 5, 1 and 0 threads of Groups 1, 2 and 3, but the sockets of its group are full: it is placed on node 2, on cpu 4 with the fewest jobs (tier counters)
    "#]]);
}

#[test]
fn surplus_threads_of_group_2_run_beside_the_least_contention_of_group_1() {
    check(expect![[r#"
        nodes=3 cores=3
        job a queue-full=900/s llc-references=5/s
        job b queue-full=800/s llc-references=5/s
        job c queue-full=300/s llc-references=5/s
        job d queue-full=700/s llc-references=5/s
        job e queue-full=1/s llc-references=900/s
        job f queue-full=1/s llc-references=900/s
        job g queue-full=1/s llc-references=900/s
        job h queue-full=1/s llc-references=900/s
        0ms due a b c d e f g h
        10s poll
        > divided[keep=no,repeat=1,guard=off,th_sq=100,th_ref=100]
        0ms a on 0; b on 3; c on 6; d on 1; e on 4; f on 7; g on 2; h on 5 because group-placed
        10s c on 1; d on 4 because group-apart
        10s e on 6; g on 8 because group-sheltered
        10s h on 2 because group-overflow
    "#]]);
}

#[test]
fn group_1_is_concentrated_only_above_the_minimum_of_contention() {
    // Spread over two sockets, Group 1 has 800 cycles with full queues on each.
    check(expect![[r#"
        nodes=2 cores=4
        job lbm queue-full=900/s llc-references=8/s
        job x queue-full=1/s llc-references=1/s
        job libquantum queue-full=700/s llc-references=9/s
        job y queue-full=1/s llc-references=1/s
        job hurt queue-full=1/s llc-references=900/s
        0ms due lbm x libquantum y hurt
        10s poll
        >> divided[repeat=1,guard=8,th_sq=100,th_ref=300]
        0ms lbm on 0 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 0 with the fewest jobs
        0ms x on 4 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 1, the socket with the most free slots for it, on cpu 4 with the fewest jobs
        0ms libquantum on 1 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 1 with the fewest jobs
        0ms y on 5 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 1, the socket with the most free slots for it, on cpu 5 with the fewest jobs
        0ms hurt on 2 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 2 with the fewest jobs
        10s lbm on 6 because the job is in Group 1, which causes contention (900 cycles with a full request queue and 8 references to the last-level cache per second of CPU time; thresholds 100 and 300); Group 1 causes too little contention to be concentrated, with 2, 1 and 2 threads of Groups 1, 2 and 3; spread over all sockets, Group 1 would have 800 cycles with full queues on each, and the minimum is 800: its group is spread evenly, this job on node 1, on cpu 6 with the fewest jobs (tier counters)
        > divided[repeat=1,guard=7.99,th_sq=100,th_ref=300]
        0ms lbm on 0; x on 4; libquantum on 1; y on 5; hurt on 2 because group-placed
        10s hurt on 6 because group-sheltered
    "#]]);
}

#[test]
fn group_1_is_spread_in_the_period_after_group_2_has_ended() {
    check_after(
        SIX,
        expect![[r#"
        nodes=2 cores=4
        10s poll
        15s ended sphinx omnetpp
        20s poll
        > divided[repeat=1,guard=off,th_sq=100,th_ref=100]
        10s gromacs on 5 because group-sheltered
        10s libquantum on 1 because group-apart
        10s omnetpp on 7 because group-sheltered
        20s lbm on 4 because group-spread
    "#]],
    );
}

#[test]
fn a_job_stays_where_its_socket_fits_and_the_paper_fills_in_turn() {
    check(expect![[r#"
        nodes=3 cores=2
        job a queue-full=900/s llc-references=5/s
        job h queue-full=1/s llc-references=900/s
        job i queue-full=1/s llc-references=900/s
        job b queue-full=900/s llc-references=5/s
        job c queue-full=800/s llc-references=5/s
        0ms due a h i b c
        10s..20s/10s poll
        > divided[repeat=1,guard=off,th_sq=100,th_ref=100]
        0ms a on 0; h on 2; i on 4; b on 1; c on 3 because group-placed
        10s h on 5 because group-sheltered
        > divided[keep=no,repeat=1,guard=off,th_sq=100,th_ref=100]
        0ms a on 0; h on 2; i on 4; b on 1; c on 3 because group-placed
        10s h on 5 because group-sheltered
        10s b on 2; c on 1 because group-apart
        > divided[reading=paper,th_sq=100,th_ref=100]
        0ms a on 0; h on 2; i on 4; b on 1; c on 3 because group-placed
        10s h on 5 because group-sheltered
        10s b on 2; c on 1 because group-apart
    "#]]);
}

#[test]
fn between_two_periods_a_new_job_gets_the_emptiest_socket_and_a_displaced_job_a_socket_of_its_group()
 {
    check(expect![[r#"
        nodes=2 cores=4
        job new
        job a queue-full=900/s llc-references=5/s
        job b c queue-full=1/s llc-references=900/s
        0ms due a b c
        10s poll
        11s due new
        12s usable 1-7
        >> divided[repeat=1,guard=off,th_sq=100,th_ref=100]
        0ms a on 0 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 0 with the fewest jobs
        0ms b on 4 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 1, the socket with the most free slots for it, on cpu 4 with the fewest jobs
        0ms c on 1 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 1 with the fewest jobs
        10s c on 5 because the job is in Group 2, which contention slows down (1 cycles with a full request queue and 900 references to the last-level cache per second of CPU time; thresholds 100 and 100); Group 1 is assigned to cpus 0-3, the others to cpus 4-7, with 1, 2 and 0 threads of Groups 1, 2 and 3: it is placed apart from Group 1 on node 1, on cpu 5 with the fewest jobs (tier counters)
        11s new on 1 because the group of the job is not known yet; Group 1 is assigned to cpus 0-3, the others to cpus 4-7, with 1, 2 and 0 threads of Groups 1, 2 and 3: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 1 with the fewest jobs
        12s a on 2 because some of the job's CPUs (0) became unusable: the job is in Group 1, which causes contention (900 cycles with a full request queue and 5 references to the last-level cache per second of CPU time; thresholds 100 and 100); Group 1 is assigned to cpus 1-3, the others to cpus 4-7, with 1, 2 and 0 threads of Groups 1, 2 and 3: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 2 with the fewest jobs (tier counters)
    "#]]);
}

#[test]
fn a_job_outside_the_sockets_of_its_group_stays_within_its_own_cpus() {
    check(expect![[r#"
        nodes=2 cores=4
        job lbm cpus=5 queue-full=900/s llc-references=800/s
        job sphinx queue-full=10/s llc-references=500/s
        job gromacs queue-full=5/s llc-references=20/s
        job libquantum queue-full=700/s llc-references=900/s
        job omnetpp queue-full=8/s llc-references=600/s
        job canneal queue-full=6/s llc-references=100/s
        0ms due lbm sphinx gromacs libquantum omnetpp canneal
        10s..20s/10s poll
        > divided[repeat=1,guard=off,th_sq=100,th_ref=100]
        0ms lbm on 5; sphinx on 0; gromacs on 1; libquantum on 4; omnetpp on 2; canneal on 6 because group-placed
        10s sphinx on 4 because group-sheltered
        10s libquantum on 0 because group-apart
        10s omnetpp on 7 because group-sheltered
    "#]]);
}

#[test]
fn an_unmanaged_job_takes_slots_and_is_in_no_group() {
    check(expect![[r#"
        nodes=2 cores=1
        job alien a queue-full=900/s llc-references=5/s
        job b queue-full=1/s llc-references=900/s
        0ms due alien a b
        1s unmanaged alien on 0
        10s..20s/10s poll
        > divided[repeat=1,guard=off,th_sq=100,th_ref=100]
        0ms alien on 0; a on 1; b on 0 because group-placed
        10s a on 0 because group-apart
        10s b on 1 because group-sheltered
    "#]]);
}

#[test]
fn each_thread_takes_a_slot() {
    check(expect![[r#"
        nodes=3 cores=4
        job lbm threads=4 queue-full=900/s llc-references=800/s
        job sphinx queue-full=10/s llc-references=500/s
        job gromacs queue-full=5/s llc-references=20/s
        job libquantum queue-full=700/s llc-references=900/s
        job omnetpp queue-full=8/s llc-references=600/s
        job canneal queue-full=6/s llc-references=100/s
        0ms due lbm sphinx gromacs libquantum omnetpp canneal
        10s..20s/10s poll
        > divided[repeat=1,guard=off,th_sq=100,th_ref=100]
        0ms lbm on 0-3; sphinx on 4; gromacs on 8; libquantum on 5; omnetpp on 9; canneal on 6 because group-placed
        10s sphinx on 10; canneal on 11 because group-sheltered
    "#]]);
}

#[test]
fn with_more_threads_than_cores_each_core_has_several_slots() {
    check(expect![[r#"
        nodes=2 cores=3
        job a1 a2 a3 a4 a5 a6 queue-full=900/s llc-references=5/s
        job b1 b2 b3 b4 b5 b6 queue-full=1/s llc-references=900/s
        0ms due a1 a2 a3 a4 a5 a6 b1 b2 b3 b4 b5 b6
        10s poll
        > divided[repeat=1,guard=off,th_sq=100,th_ref=100]
        0ms a1 on 0; a2 on 3; a3 on 1; a4 on 4; a5 on 2; a6 on 5; b1 on 0; b2 on 3; b3 on 1; b4 on 4; b5 on 2; b6 on 5 because group-placed
        10s a2 on 0; a4 on 1; a6 on 2 because group-apart
        10s b1 on 3; b3 on 4; b5 on 5 because group-sheltered
    "#]]);
}

#[test]
fn on_one_node_caches_and_then_cores_count_as_sockets() {
    check(expect![[r#"
        nodes=1 llcs=2 cores=2
        job a queue-full=900/s llc-references=5/s
        job b queue-full=1/s llc-references=900/s
        job c queue-full=1/s llc-references=1/s
        0ms due a b c
        10s..20s/10s poll
        > divided[repeat=1,guard=off,th_sq=100,th_ref=100]
        0ms a on 0; b on 2; c on 1 because group-placed
        10s c on 3 because group-sheltered
    "#]]);
    check(expect![[r#"
        nodes=1 cores=4
        job a queue-full=900/s llc-references=5/s
        job b queue-full=1/s llc-references=900/s
        job c queue-full=1/s llc-references=1/s
        0ms due a b c
        10s..20s/10s poll
        > divided[repeat=1,guard=off,th_sq=100,th_ref=100]
        0ms a on 0; b on 1; c on 2 because group-placed
    "#]]);
}

#[test]
fn with_one_socket_or_one_cpu_no_group_is_separated() {
    check(expect![[r#"
        nodes=1 cores=4
        job a queue-full=900/s llc-references=5/s
        job b queue-full=1/s llc-references=900/s
        0ms due a b
        10s..20s/10s poll
        > divided[domains=node,repeat=1,guard=off,th_sq=100,th_ref=100]
        0ms a on 0; b on 1 because group-placed
    "#]]);
    check(expect![[r#"
        nodes=1
        job a queue-full=900/s llc-references=5/s
        job b queue-full=1/s llc-references=900/s
        0ms due a b
        10s..20s/10s poll
        > divided[repeat=1,guard=off,th_sq=100,th_ref=100]
        0ms note: nothing-to-place
    "#]]);
}

#[test]
fn a_map_that_fits_is_never_changed() {
    check_after(
        SIX,
        expect![[r#"
        nodes=2 cores=4
        10s..300s/10s poll
        > divided
        20s gromacs on 5 because group-sheltered
        20s libquantum on 1 because group-apart
        20s omnetpp on 7 because group-sheltered
        > divided[reading=paper]
        10s gromacs on 5 because group-sheltered
        10s libquantum on 1 because group-apart
        10s omnetpp on 7 because group-sheltered
    "#]],
    );
}
