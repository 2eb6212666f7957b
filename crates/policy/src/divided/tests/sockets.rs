//! Which sockets are for whom.

use expect_test::expect;

use super::{SIX, check, check_story, periods};

/// Groups by limits, at once.
const AT_ONCE: &str = "divided[repeat=1,guard=off,th_sq=100,th_ref=100]";

/// The same with everybody placed anew in each period.
fn anew() -> String {
    AT_ONCE.replace("repeat", "keep=no,repeat")
}

#[test]
fn with_nobody_to_protect_group_1_is_spread_and_the_others_fill_up() {
    let jobs =
        [("a", 900, 5), ("b", 800, 5), ("c", 0, 5), ("d", 700, 5), ("e", 0, 5), ("f", 600, 5)];
    check_story(
        "nodes=2 cores=4",
        AT_ONCE,
        &periods(&jobs, 2),
        expect![[r#"
            0ms a on 0 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 0 with the fewest jobs
            0ms b on 4 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 1, the socket with the most free slots for it, on cpu 4 with the fewest jobs
            0ms c on 1 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 1 with the fewest jobs
            0ms d on 5 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 1, the socket with the most free slots for it, on cpu 5 with the fewest jobs
            0ms e on 2 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 2 with the fewest jobs
            0ms f on 6 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 1, the socket with the most free slots for it, on cpu 6 with the fewest jobs
            10s b on 3 because the job is in Group 1, which causes contention (800 cycles with a full request queue and 5 references to the last-level cache per second of CPU time; thresholds 100 and 100); there is no Group 2, with 4, 0 and 2 threads of Groups 1, 2 and 3: its group is spread evenly, this job on node 0, on cpu 3 with the fewest jobs (tier counters)
        "#]],
    );
}

#[test]
fn without_group_3_sockets_are_parted_between_the_other_two() {
    let jobs = [("a", 900, 5), ("b", 1, 900), ("c", 800, 5), ("d", 1, 900)];
    check(
        "nodes=2 cores=4",
        AT_ONCE,
        &periods(&jobs, 2),
        expect![[r#"
        0ms a on 0 because group-comes
        0ms b on 4 because group-comes
        0ms c on 1 because group-comes
        0ms d on 5 because group-comes
    "#]],
    );
}

#[test]
fn group_3_protects_group_2_and_goes_to_group_1_only_when_there_is_no_room() {
    let jobs = [("hurts", 900, 5), ("hurt", 1, 900), ("x", 1, 1), ("y", 1, 1), ("z", 1, 1)];
    check(
        "nodes=2 cores=3",
        AT_ONCE,
        &periods(&jobs, 2),
        expect![[r#"
        0ms hurts on 0 because group-comes
        0ms hurt on 3 because group-comes
        0ms x on 1 because group-comes
        0ms y on 4 because group-comes
        0ms z on 2 because group-comes
        10s x on 5 because group-sheltered
    "#]],
    );
}

#[test]
fn group_1_gets_as_many_sockets_as_hold_it_but_never_all() {
    let jobs = [("a", 900, 5), ("b", 800, 5), ("c", 700, 5), ("hurt", 1, 900)];
    check(
        "nodes=3 cores=2",
        AT_ONCE,
        &periods(&jobs, 2),
        expect![[r#"
        0ms a on 0 because group-comes
        0ms b on 2 because group-comes
        0ms c on 4 because group-comes
        0ms hurt on 1 because group-comes
        10s c on 1 because group-apart
        10s hurt on 4 because group-sheltered
    "#]],
    );
    check(
        "nodes=2 cores=2",
        AT_ONCE,
        &periods(&jobs, 2),
        expect![[r#"
        0ms a on 0 because group-comes
        0ms b on 2 because group-comes
        0ms c on 1 because group-comes
        0ms hurt on 3 because group-comes
    "#]],
    );
}

#[test]
fn what_group_1_has_too_much_goes_where_fewest_of_group_2_are() {
    let jobs = [
        ("a", 900, 5),
        ("b", 800, 5),
        ("c", 700, 5),
        ("d", 600, 5),
        ("e", 500, 5),
        ("hurt", 1, 900),
    ];
    check_story(
        "nodes=3 cores=2",
        &anew(),
        &periods(&jobs, 1),
        expect![[r#"
            0ms a on 0 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 0 with the fewest jobs
            0ms b on 2 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 1, the socket with the most free slots for it, on cpu 2 with the fewest jobs
            0ms c on 4 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 2, the socket with the most free slots for it, on cpu 4 with the fewest jobs
            0ms d on 1 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 1 with the fewest jobs
            0ms e on 3 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 1, the socket with the most free slots for it, on cpu 3 with the fewest jobs
            0ms hurt on 5 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 2, the socket with the most free slots for it, on cpu 5 with the fewest jobs
            10s c on 1 because the job is in Group 1, which causes contention (700 cycles with a full request queue and 5 references to the last-level cache per second of CPU time; thresholds 100 and 100); Group 1 is assigned to cpus 0-3, the others to cpus 4-5, with 5, 1 and 0 threads of Groups 1, 2 and 3: it is placed on node 0, on cpu 1 with the fewest jobs (tier counters)
            10s d on 3 because the job is in Group 1, which causes contention (600 cycles with a full request queue and 5 references to the last-level cache per second of CPU time; thresholds 100 and 100); Group 1 is assigned to cpus 0-3, the others to cpus 4-5, with 5, 1 and 0 threads of Groups 1, 2 and 3: it is placed on node 1, on cpu 3 with the fewest jobs (tier counters)
            10s e on 4 because the job is in Group 1, which causes contention (500 cycles with a full request queue and 5 references to the last-level cache per second of CPU time; thresholds 100 and 100); Group 1 is assigned to cpus 0-3, the others to cpus 4-5, with 5, 1 and 0 threads of Groups 1, 2 and 3, but the sockets of its group are full: it is placed on node 2, on cpu 4 with the fewest jobs (tier counters)
        "#]],
    );
}

#[test]
fn what_group_2_has_too_much_goes_beside_the_quietest_of_group_1() {
    let jobs = [
        ("a", 900, 5),
        ("b", 800, 5),
        ("c", 300, 5),
        ("d", 700, 5),
        ("e", 1, 900),
        ("f", 1, 900),
        ("g", 1, 900),
        ("h", 1, 900),
    ];
    check(
        "nodes=3 cores=3",
        &anew(),
        &periods(&jobs, 1),
        expect![[r#"
        0ms a on 0 because group-comes
        0ms b on 3 because group-comes
        0ms c on 6 because group-comes
        0ms d on 1 because group-comes
        0ms e on 4 because group-comes
        0ms f on 7 because group-comes
        0ms g on 2 because group-comes
        0ms h on 5 because group-comes
        10s c on 1 because group-apart
        10s d on 4 because group-apart
        10s e on 6 because group-sheltered
        10s g on 8 because group-sheltered
        10s h on 2 because group-overflow
    "#]],
    );
}

#[test]
fn isolation_needs_that_there_is_something_to_isolate_from() {
    // Spread over two sockets Group 1 comes to 800 on each.
    let with = |guard: &str| format!("divided[repeat=1,guard={guard},th_sq=100,th_ref=300]");
    let jobs =
        [("lbm", 900, 8), ("x", 1, 1), ("libquantum", 700, 9), ("y", 1, 1), ("hurt", 1, 900)];
    check_story(
        "nodes=2 cores=4",
        &with("8"),
        &periods(&jobs, 1),
        expect![[r#"
            0ms lbm on 0 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 0 with the fewest jobs
            0ms x on 4 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 1, the socket with the most free slots for it, on cpu 4 with the fewest jobs
            0ms libquantum on 1 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 1 with the fewest jobs
            0ms y on 5 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 1, the socket with the most free slots for it, on cpu 5 with the fewest jobs
            0ms hurt on 2 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 2 with the fewest jobs
            10s lbm on 6 because the job is in Group 1, which causes contention (900 cycles with a full request queue and 8 references to the last-level cache per second of CPU time; thresholds 100 and 300); Group 1 causes too little contention to be concentrated, with 2, 1 and 2 threads of Groups 1, 2 and 3; spread over all sockets, Group 1 would have 800 cycles with full queues on each, and the minimum is 800: its group is spread evenly, this job on node 1, on cpu 6 with the fewest jobs (tier counters)
        "#]],
    );
    check(
        "nodes=2 cores=4",
        &with("7.99"),
        &periods(&jobs, 1),
        expect![[r#"
        0ms lbm on 0 because group-comes
        0ms x on 4 because group-comes
        0ms libquantum on 1 because group-comes
        0ms y on 5 because group-comes
        0ms hurt on 2 because group-comes
        10s hurt on 6 because group-sheltered
    "#]],
    );
}

#[test]
fn when_group_2_is_done_group_1_spreads_at_the_next_period() {
    let script = periods(SIX, 1);
    let done = "
        15s ended sphinx omnetpp
        20s poll 0 0
    ";
    check(
        "nodes=2 cores=4",
        AT_ONCE,
        &format!("{script}{done}"),
        expect![[r#"
        0ms lbm on 0 because group-comes
        0ms sphinx on 4 because group-comes
        0ms gromacs on 1 because group-comes
        0ms libquantum on 5 because group-comes
        0ms omnetpp on 2 because group-comes
        0ms canneal on 6 because group-comes
        10s gromacs on 5 because group-sheltered
        10s libquantum on 1 because group-apart
        10s omnetpp on 7 because group-sheltered
        20s lbm on 4 because group-spread
    "#]],
    );
}

#[test]
fn a_job_stays_where_its_socket_fits_and_the_paper_fills_in_turn() {
    let jobs = [("a", 900, 5), ("h", 1, 900), ("i", 1, 900), ("b", 900, 5), ("c", 800, 5)];
    check(
        "nodes=3 cores=2",
        AT_ONCE,
        &periods(&jobs, 2),
        expect![[r#"
        0ms a on 0 because group-comes
        0ms h on 2 because group-comes
        0ms i on 4 because group-comes
        0ms b on 1 because group-comes
        0ms c on 3 because group-comes
        10s h on 5 because group-sheltered
    "#]],
    );
    check(
        "nodes=3 cores=2",
        &anew(),
        &periods(&jobs, 2),
        expect![[r#"
        0ms a on 0 because group-comes
        0ms h on 2 because group-comes
        0ms i on 4 because group-comes
        0ms b on 1 because group-comes
        0ms c on 3 because group-comes
        10s h on 5 because group-sheltered
        10s b on 2 because group-apart
        10s c on 1 because group-apart
    "#]],
    );
    let paper = "divided[reading=paper,th_sq=100,th_ref=100]";
    let play = |policy: &str| crate::testing::plans("nodes=3 cores=2", policy, &periods(&jobs, 2));
    assert_eq!(play(paper), play(&anew()));
}

#[test]
fn who_comes_between_two_periods_goes_where_most_room_is_and_who_lost_its_place_to_its_side() {
    let jobs = [("a", 900, 5), ("b", 1, 900), ("c", 1, 900)];
    let script = format!(
        "job new\n{}
        11s due new
        12s usable 1-7
        ",
        periods(&jobs, 1)
    );
    check_story(
        "nodes=2 cores=4",
        AT_ONCE,
        &script,
        expect![[r#"
            0ms a on 0 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 0 with the fewest jobs
            0ms b on 4 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 1, the socket with the most free slots for it, on cpu 4 with the fewest jobs
            0ms c on 1 because the group of the job is not known yet; sockets are not divided yet: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 1 with the fewest jobs
            10s c on 5 because the job is in Group 2, which suffers from contention (1 cycles with a full request queue and 900 references to the last-level cache per second of CPU time; thresholds 100 and 100); Group 1 is assigned to cpus 0-3, the others to cpus 4-7, with 1, 2 and 0 threads of Groups 1, 2 and 3: it is placed apart from Group 1 on node 1, on cpu 5 with the fewest jobs (tier counters)
            11s new on 1 because the group of the job is not known yet; Group 1 is assigned to cpus 0-3, the others to cpus 4-7, with 1, 2 and 0 threads of Groups 1, 2 and 3: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 1 with the fewest jobs
            12s a on 2 because some of the job's CPUs (0) became unusable: the job is in Group 1, which causes contention (900 cycles with a full request queue and 5 references to the last-level cache per second of CPU time; thresholds 100 and 100); Group 1 is assigned to cpus 1-3, the others to cpus 4-7, with 1, 2 and 0 threads of Groups 1, 2 and 3: until the next period it is placed on node 0, the socket with the most free slots for it, on cpu 2 with the fewest jobs (tier counters)
        "#]],
    );
}

#[test]
fn a_job_that_may_not_run_on_its_side_stays_within_what_it_may() {
    let script = periods(SIX, 2).replace("job lbm", "job lbm cpus=5");
    check(
        "nodes=2 cores=4",
        AT_ONCE,
        &script,
        expect![[r#"
        0ms lbm on 5 because group-comes
        0ms sphinx on 0 because group-comes
        0ms gromacs on 1 because group-comes
        0ms libquantum on 4 because group-comes
        0ms omnetpp on 2 because group-comes
        0ms canneal on 6 because group-comes
        10s sphinx on 4 because group-sheltered
        10s libquantum on 0 because group-apart
        10s omnetpp on 7 because group-sheltered
    "#]],
    );
}

#[test]
fn who_is_not_ours_to_place_takes_up_room_and_is_of_no_group() {
    let jobs = [("alien", 900, 5), ("a", 900, 5), ("b", 1, 900)];
    let script = periods(&jobs, 2).replace("10s counts", "1s hands-off alien on 0\n10s counts");
    check(
        "nodes=2 cores=1",
        AT_ONCE,
        &script,
        expect![[r#"
        0ms alien on 0 because group-comes
        0ms a on 1 because group-comes
        0ms b on 0 because group-comes
        10s a on 0 because group-apart
        10s b on 1 because group-sheltered
    "#]],
    );
}

#[test]
fn threads_take_a_place_each() {
    let script = periods(SIX, 2).replace("job lbm", "job lbm threads=4");
    check(
        "nodes=3 cores=4",
        AT_ONCE,
        &script,
        expect![[r#"
        0ms lbm on 0-3 because group-comes
        0ms sphinx on 4 because group-comes
        0ms gromacs on 8 because group-comes
        0ms libquantum on 5 because group-comes
        0ms omnetpp on 9 because group-comes
        0ms canneal on 6 because group-comes
        10s sphinx on 10 because group-sheltered
        10s canneal on 11 because group-sheltered
    "#]],
    );
}

#[test]
fn with_more_threads_than_cores_each_core_is_several_places() {
    let jobs: Vec<(String, u64, u64)> = (0..6)
        .map(|at| (format!("hurts{at}"), 900, 5))
        .chain((0..6).map(|at| (format!("hurt{at}"), 1, 900)))
        .collect();
    let jobs: Vec<(&str, u64, u64)> =
        jobs.iter().map(|(n, sq, refs)| (n.as_str(), *sq, *refs)).collect();
    check(
        "nodes=2 cores=3",
        AT_ONCE,
        &periods(&jobs, 1),
        expect![[r#"
        0ms hurts0 on 0 because group-comes
        0ms hurts1 on 3 because group-comes
        0ms hurts2 on 1 because group-comes
        0ms hurts3 on 4 because group-comes
        0ms hurts4 on 2 because group-comes
        0ms hurts5 on 5 because group-comes
        0ms hurt0 on 0 because group-comes
        0ms hurt1 on 3 because group-comes
        0ms hurt2 on 1 because group-comes
        0ms hurt3 on 4 because group-comes
        0ms hurt4 on 2 because group-comes
        0ms hurt5 on 5 because group-comes
        10s hurts1 on 0 because group-apart
        10s hurts3 on 1 because group-apart
        10s hurts5 on 2 because group-apart
        10s hurt0 on 3 because group-sheltered
        10s hurt2 on 4 because group-sheltered
        10s hurt4 on 5 because group-sheltered
    "#]],
    );
}

#[test]
fn on_one_node_caches_and_then_cores_stand_for_sockets() {
    let jobs = [("a", 900, 5), ("b", 1, 900), ("c", 1, 1)];
    check(
        "nodes=1 llcs=2 cores=2",
        AT_ONCE,
        &periods(&jobs, 2),
        expect![[r#"
        0ms a on 0 because group-comes
        0ms b on 2 because group-comes
        0ms c on 1 because group-comes
        10s c on 3 because group-sheltered
    "#]],
    );
    check(
        "nodes=1 cores=4",
        AT_ONCE,
        &periods(&jobs, 2),
        expect![[r#"
        0ms a on 0 because group-comes
        0ms b on 1 because group-comes
        0ms c on 2 because group-comes
    "#]],
    );
}

#[test]
fn with_one_socket_or_one_cpu_nobody_is_parted() {
    let jobs = [("a", 900, 5), ("b", 1, 900)];
    let node = AT_ONCE.replace("repeat", "domains=node,repeat");
    check(
        "nodes=1 cores=4",
        &node,
        &periods(&jobs, 2),
        expect![[r#"
        0ms a on 0 because group-comes
        0ms b on 1 because group-comes
    "#]],
    );
    check(
        "nodes=1",
        AT_ONCE,
        &periods(&jobs, 2),
        expect![[r#"
        0ms note: nothing-to-place
    "#]],
    );
}

#[test]
fn a_map_that_fits_is_kept_for_good() {
    check(
        "nodes=2 cores=4",
        "divided",
        &periods(SIX, 30),
        expect![[r#"
        0ms lbm on 0 because group-comes
        0ms sphinx on 4 because group-comes
        0ms gromacs on 1 because group-comes
        0ms libquantum on 5 because group-comes
        0ms omnetpp on 2 because group-comes
        0ms canneal on 6 because group-comes
        20s gromacs on 5 because group-sheltered
        20s libquantum on 1 because group-apart
        20s omnetpp on 7 because group-sheltered
    "#]],
    );
    check(
        "nodes=2 cores=4",
        "divided[reading=paper]",
        &periods(SIX, 30),
        expect![[r#"
        0ms lbm on 0 because group-comes
        0ms sphinx on 4 because group-comes
        0ms gromacs on 1 because group-comes
        0ms libquantum on 5 because group-comes
        0ms omnetpp on 2 because group-comes
        0ms canneal on 6 because group-comes
        10s gromacs on 5 because group-sheltered
        10s libquantum on 1 because group-apart
        10s omnetpp on 7 because group-sheltered
    "#]],
    );
}
