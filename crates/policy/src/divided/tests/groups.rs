//! Groups of jobs.

use expect_test::expect;

use super::SIX;
use crate::testing::{check, check_after};

#[test]
fn a_job_without_a_group_is_placed_on_the_socket_with_the_most_free_slots() {
    check(expect![[r#"
        nodes=2 cores=4
        job lbm queue-full=900/s llc-references=800/s
        job sphinx queue-full=10/s llc-references=500/s
        job gromacs queue-full=5/s llc-references=20/s
        job libquantum queue-full=700/s llc-references=900/s
        job omnetpp queue-full=8/s llc-references=600/s
        job canneal queue-full=6/s llc-references=100/s
        0ms due lbm sphinx gromacs libquantum omnetpp canneal
        >> divided
        0ms lbm on 0 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 0 with the fewest jobs
        0ms sphinx on 4 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 1, the socket with the most free slots for it, on cpu 4 with the fewest jobs
        0ms gromacs on 1 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 1 with the fewest jobs
        0ms libquantum on 5 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 1, the socket with the most free slots for it, on cpu 5 with the fewest jobs
        0ms omnetpp on 2 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 2 with the fewest jobs
        0ms canneal on 6 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 1, the socket with the most free slots for it, on cpu 6 with the fewest jobs
        > divided[th_sq=100,th_ref=300]
        0ms lbm on 0; sphinx on 4; gromacs on 1; libquantum on 5; omnetpp on 2; canneal on 6 because group-placed
        > divided[reading=paper]
        0ms lbm on 0; sphinx on 4; gromacs on 1; libquantum on 5; omnetpp on 2; canneal on 6 because group-placed
        > divided[repeat=1,guard=off,th_sq=100,th_ref=100]
        0ms lbm on 0; sphinx on 4; gromacs on 1; libquantum on 5; omnetpp on 2; canneal on 6 because group-placed
    "#]]);
}

#[test]
fn the_third_with_most_full_queues_is_concentrated_apart_from_the_third_with_most_references() {
    check_after(
        SIX,
        expect![[r#"
        nodes=2 cores=4
        10s..30s/10s poll
        >> divided
        20s gromacs on 5 because the job is in Group 3, which hardly causes contention and is hardly slowed down by it (5 cycles with a full request queue and 20 references to the last-level cache per second of CPU time; ranked among 6 threads, 2 per group, at least 45 for Group 1); Group 1 is assigned to cpus 0-3, the others to cpus 4-7, with 2, 2 and 2 threads of Groups 1, 2 and 3: it is placed apart from Group 1 on node 1, on cpu 5 with the fewest jobs (tier counters)
        20s libquantum on 1 because the job is in Group 1, which causes contention (700 cycles with a full request queue and 900 references to the last-level cache per second of CPU time; ranked among 6 threads, 2 per group, at least 45 for Group 1); Group 1 is assigned to cpus 0-3, the others to cpus 4-7, with 2, 2 and 2 threads of Groups 1, 2 and 3: it is placed on node 0, on cpu 1 with the fewest jobs (tier counters)
        20s omnetpp on 7 because the job is in Group 2, which contention slows down (8 cycles with a full request queue and 600 references to the last-level cache per second of CPU time; ranked among 6 threads, 2 per group, at least 45 for Group 1); Group 1 is assigned to cpus 0-3, the others to cpus 4-7, with 2, 2 and 2 threads of Groups 1, 2 and 3: it is placed apart from Group 1 on node 1, on cpu 7 with the fewest jobs (tier counters)
    "#]],
    );
}

#[test]
fn thresholds_give_the_same_groups_and_full_queues_have_precedence() {
    check_after(
        SIX,
        expect![[r#"
        nodes=2 cores=4
        10s..30s/10s poll
        > divided[th_sq=100,th_ref=300]
        20s gromacs on 5 because group-sheltered
        20s libquantum on 1 because group-apart
        20s omnetpp on 7 because group-sheltered
    "#]],
    );
}

#[test]
fn as_published_groups_are_determined_again_in_every_period() {
    check_after(
        SIX,
        expect![[r#"
        nodes=2 cores=4
        10s..20s/10s poll
        > divided[reading=paper]
        10s gromacs on 5 because group-sheltered
        10s libquantum on 1 because group-apart
        10s omnetpp on 7 because group-sheltered
    "#]],
    );
}

#[test]
fn a_group_of_one_period_only_changes_nothing() {
    check_after(
        SIX,
        expect![[r#"
        nodes=2 cores=4
        10s..20s/10s poll
        30s counts lbm in=10s queue-full=0 llc-references=0; counts canneal in=10s queue-full=9000 llc-references=1000; poll
        40s counts lbm in=10s queue-full=9000 llc-references=8000; counts canneal in=10s queue-full=60 llc-references=1000; poll
        50s poll
        > divided
        20s gromacs on 5 because group-sheltered
        20s libquantum on 1 because group-apart
        20s omnetpp on 7 because group-sheltered
    "#]],
    );
}

#[test]
fn a_job_far_below_the_highest_value_so_far_is_not_in_group_1() {
    check(expect![[r#"
        nodes=2 cores=4
        job loud queue-full=100000/s llc-references=5/s
        job a queue-full=90/s llc-references=10/s
        job b queue-full=80/s llc-references=20/s
        0ms due loud a b
        10s..20s/10s poll
        25s ended loud
        26s due loud
        30s counts loud in=10s queue-full=10 llc-references=5; poll
        40s..50s/10s poll
        >> divided
        0ms loud on 0 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 0 with the fewest jobs
        0ms a on 4 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 1, the socket with the most free slots for it, on cpu 4 with the fewest jobs
        0ms b on 1 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 1 with the fewest jobs
        20s b on 5 because the job is in Group 2, which contention slows down (80 cycles with a full request queue and 20 references to the last-level cache per second of CPU time; ranked among 3 threads, 1 per group, at least 5000 for Group 1); Group 1 is assigned to cpus 0-3, the others to cpus 4-7, with 1, 1 and 1 threads of Groups 1, 2 and 3: it is placed apart from Group 1 on node 1, on cpu 5 with the fewest jobs (tier counters)
        26s loud on 0 because the group of the job is not known yet; Group 1 is assigned to cpus 0-3, the others to cpus 4-7, with 1, 1 and 1 threads of Groups 1, 2 and 3: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 0 with the fewest jobs
        > divided[min_share=0%]
        0ms loud on 0; a on 4; b on 1 because group-placed
        20s b on 5 because group-sheltered
        26s loud on 0 because group-placed
        40s loud on 4 because group-sheltered
        40s a on 0 because group-apart
    "#]]);
}

#[test]
fn without_any_full_queue_there_is_no_group_1() {
    check(expect![[r#"
        nodes=2 cores=4
        job a queue-full=0/s llc-references=5/s
        job b queue-full=0/s llc-references=10/s
        job c queue-full=0/s llc-references=20/s
        0ms due a b c
        10s..30s/10s poll
        >> divided
        0ms a on 0 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 0 with the fewest jobs
        0ms b on 4 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 1, the socket with the most free slots for it, on cpu 4 with the fewest jobs
        0ms c on 1 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 1 with the fewest jobs
    "#]]);
}

#[test]
fn two_jobs_are_too_few_for_groups_by_rank() {
    check(expect![[r#"
        nodes=2 cores=4
        job a queue-full=900/s llc-references=5/s
        job b queue-full=0/s llc-references=900/s
        0ms due a b
        10s..30s/10s poll
        > divided[reading=paper]
        0ms a on 0; b on 4 because group-placed
        > divided[reading=paper,th_sq=100,th_ref=100]
        0ms a on 0; b on 4 because group-placed
    "#]]);
}

#[test]
fn the_remainder_of_a_division_by_three_is_in_group_3() {
    check(expect![[r#"
        nodes=2 cores=4
        job a queue-full=900/s llc-references=5/s
        job b queue-full=800/s llc-references=5/s
        job c queue-full=700/s llc-references=5/s
        job d queue-full=1/s llc-references=900/s
        job e queue-full=1/s llc-references=800/s
        0ms due a b c d e
        10s poll
        >> divided[reading=paper]
        0ms a on 0 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 0 with the fewest jobs
        0ms b on 4 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 1, the socket with the most free slots for it, on cpu 4 with the fewest jobs
        0ms c on 1 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 1 with the fewest jobs
        0ms d on 5 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 1, the socket with the most free slots for it, on cpu 5 with the fewest jobs
        0ms e on 2 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 2 with the fewest jobs
        10s c on 6 because the job is in Group 3, which hardly causes contention and is hardly slowed down by it (700 cycles with a full request queue and 5 references to the last-level cache per second of CPU time; ranked among 5 threads, 1 per group, at least 0 for Group 1); Group 1 is assigned to cpus 0-3, the others to cpus 4-7, with 1, 1 and 3 threads of Groups 1, 2 and 3: it is placed apart from Group 1 on node 1, on cpu 6 with the fewest jobs (tier counters)
        10s e on 7 because the job is in Group 3, which hardly causes contention and is hardly slowed down by it (1 cycles with a full request queue and 800 references to the last-level cache per second of CPU time; ranked among 5 threads, 1 per group, at least 0 for Group 1); Group 1 is assigned to cpus 0-3, the others to cpus 4-7, with 1, 1 and 3 threads of Groups 1, 2 and 3: it is placed apart from Group 1 on node 1, on cpu 7 with the fewest jobs (tier counters)
    "#]]);
}

#[test]
fn a_job_has_the_group_of_most_of_its_threads_without_threads_that_hardly_ran() {
    check(expect![[r#"
        nodes=2 cores=8
        job hurt
        job many threads=3
        0ms due hurt many
        10s counts many.1 in=10s queue-full=9000 llc-references=0; counts many.2 in=10s queue-full=8000 llc-references=0; counts many.3 in=10s queue-full=0 llc-references=0; counts many.4 in=10ms queue-full=0 llc-references=0; counts hurt in=10s queue-full=0 llc-references=9000; poll
        >> divided[repeat=1,th_sq=100,th_ref=100]
        0ms hurt on 0 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 0 with the fewest jobs
        0ms many on 8-10 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 1, the socket with the most free slots for it, on cpus 8-10 with the fewest jobs
        10s hurt on 8 because the job is in Group 2, which contention slows down (0 cycles with a full request queue and 900 references to the last-level cache per second of CPU time; thresholds 100 and 100); Group 1 is assigned to cpus 0-7, the others to cpus 8-15, with 3, 1 and 0 threads of Groups 1, 2 and 3; spread over all sockets, Group 1 would have 850 cycles with full queues on each, more than the minimum of 200: it is placed apart from Group 1 on node 1, on cpu 8 with the fewest jobs (tier counters)
        10s many on 0-2 because the job is in Group 1, which causes contention, as 2 of 3 threads in the last period (1700 cycles with a full request queue and 0 references to the last-level cache per second of CPU time; thresholds 100 and 100); Group 1 is assigned to cpus 0-7, the others to cpus 8-15, with 3, 1 and 0 threads of Groups 1, 2 and 3; spread over all sockets, Group 1 would have 850 cycles with full queues on each, more than the minimum of 200: it is placed on node 0, on cpus 0-2 with the fewest jobs (tier counters)
    "#]]);
}

#[test]
fn without_counted_full_queues_bandwidth_and_misses_replace_them_which_is_reported() {
    // 64 bytes × 400 million misses in 10 s are 2560 MB a second.
    check(expect![[r#"
        nodes=2 cores=4
        0ms due lbm sphinx gromacs
        10s counts lbm in=10s instructions=20000000000 llc-misses=400000000 llc-references=500000000; counts sphinx in=10s instructions=20000000000 llc-misses=1000000 llc-references=400000000; counts gromacs in=10s instructions=20000000000 llc-misses=1000000 llc-references=2000000; poll
        20s poll
        >> divided[repeat=1]
        0ms lbm on 0 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 0 with the fewest jobs
        0ms sphinx on 4 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 1, the socket with the most free slots for it, on cpu 4 with the fewest jobs
        0ms gromacs on 1 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 1 with the fewest jobs
        10s note: approximate grouping: full request queues are not counted, so Group 1 is every thread with more than 2000 MB between cache and memory per second of CPU time and more than 10 prefetches per demand miss, or misses per 1000 instructions; some of these threads may be harmless
        10s gromacs on 5 because the job is in Group 3, which hardly causes contention and is hardly slowed down by it (6 MB of cache misses, up to 0.050 prefetches per miss or misses per 1000 instructions, and 200000 references to the last-level cache per second of CPU time; thresholds 2000 MB and 10, then ranked among 3 threads, 1 in Group 2); Group 1 is assigned to cpus 0-3, the others to cpus 4-7, with 1, 1 and 1 threads of Groups 1, 2 and 3: it is placed apart from Group 1 on node 1, on cpu 5 with the fewest jobs (tier counters)
    "#]]);
}

#[test]
fn prefetches_count_as_misses_where_they_are_counted_separately() {
    check(expect![[r#"
        nodes=2 cores=4
        0ms due lbm sphinx gromacs
        10s counts lbm in=10s llc-load-misses=30000000 llc-prefetch-misses=400000000 llc-references=500000000; counts sphinx in=10s llc-load-misses=1000000 llc-prefetch-misses=1000 llc-references=400000000; counts gromacs in=10s llc-load-misses=1000000 llc-prefetch-misses=1000 llc-references=2000000; poll
        > divided[repeat=1]
        0ms lbm on 0; sphinx on 4; gromacs on 1 because group-placed
        10s note: groups-approximate
        10s gromacs on 5 because group-sheltered
    "#]]);
}

#[test]
fn without_counted_events_jobs_are_spread_evenly_which_is_reported_once() {
    check(expect![[r#"
        nodes=2 cores=4
        0ms due a b
        10s misses a=700/10s; poll
        20s poll
        > divided
        0ms a on 0; b on 4 because group-placed
        10s note: groups-unknown
    "#]]);
}
