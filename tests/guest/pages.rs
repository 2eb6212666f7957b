//! Memory that is moved while a program runs, counted by other code than evenkeel's own.

use std::fs;
use std::path::Path;

use base::{Bytes, NodeId};
use linux::pages::{MoveRequest, MoveStop, MoveTotals, Mover, ProcessMemory};
use sched::{Action, CompletedPageMove, OutcomeResult, PageMoveEnd};

use crate::Promise;
use crate::nodes::{self, Knob};
use crate::play::Play;

pub const ALL: &[Promise] = &[
    ("pages::the_memory_of_a_running_job_arrives_on_the_node_that_was_asked_for", all_of_it),
    ("pages::a_small_process_goes_whole_in_one_call", whole),
    ("pages::a_limit_moves_a_part_and_says_so", a_part),
    ("pages::huge_pages_move_whole_and_stay_huge", huge),
    ("pages::a_node_that_fills_up_ends_a_move_and_nothing_is_lost", full),
    ("pages::a_target_without_room_is_refused_beforehand", refused_beforehand),
    ("pages::a_job_that_ends_during_a_move_ends_the_move", ends_midway),
    ("pages::weighted_interleaving_follows_the_weights_of_the_system", weighted),
];

const HOG: &str = "hog --size 64M --for 300s --no-self-check";
const HOG_KIB: u64 = 64 * 1024;
const BALANCING: &str = "/proc/sys/kernel/numa_balancing";
const HUGE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// A hog of 64 MiB whose memory lies on node 0.
fn hog_on_0(load: &str, kib: u64) -> (Play, u32) {
    let text = format!("[[job]]\nname = \"hog\"\nload = \"{load}\"\n");
    let mut play = Play::with(&text, |options| options.tool = Some(crate::tool::path().to_owned()));
    play.wish("hog", Action::Place(nodes::cpus(0)));
    let pid = play.begin("hog");
    let memory = nodes::anonymous_from(pid, kib);
    assert!(980 <= nodes::permille_on(&memory, 0), "{memory:?}");
    look_at(&mut play, kib);
    (play, pid)
}

/// Until all of a job's memory was looked at: what was seen before the program took it would say that
/// there is nothing to move.
pub fn look_at(play: &mut Play, kib: u64) {
    play.until("a look at all of it", |play| {
        let seen = play.story.iter().rev().flat_map(|scene| &scene.sample.memory);
        let own = |seen: &sched::ProcessMemory| -> u64 {
            seen.nodes.iter().map(|lies| lies.own().0).sum()
        };
        seen.take(1).any(|seen| kib * 980 / 1000 <= own(seen) / 1024)
    });
}

fn to_2(limit: Bytes) -> Action {
    Action::MovePages { from: None, to: NodeId(2), limit }
}

fn ended(play: &mut Play) -> CompletedPageMove {
    let told = |play: &Play| {
        play.story.iter().find_map(|scene| scene.sample.page_moves_completed.first().cloned())
    };
    play.until("the end of the move", |play| told(play).is_some());
    let ended = told(play).expect("it was told");
    let sum = ended.moved.0 + ended.failed.total().0 + ended.not_attempted.0;
    assert_eq!(ended.requested.0, sum, "{ended:?}");
    println!("{ended:?}");
    ended
}

fn stop(mut play: Play) {
    play.host_stop();
    play.finish();
}

fn all_of_it() {
    let _still = Knob::set(BALANCING, "0");
    let (mut play, pid) = hog_on_0(HOG, HOG_KIB);
    play.wish("hog", to_2(Action::NO_LIMIT));
    let ended = ended(&mut play);
    assert_eq!(ended.stopped_by, PageMoveEnd::Done, "{ended:?}");
    assert!(HOG_KIB * 980 / 1000 <= ended.moved.0 / 1024, "{ended:?}");
    let memory = nodes::anonymous_kib(pid);
    assert!(980 <= nodes::permille_on(&memory, 2), "{memory:?}");
    let begun = play.story.iter().flat_map(|scene| &scene.outcomes);
    let begun = begun.filter(|outcome| matches!(outcome.action, Some(Action::MovePages { .. })));
    assert_eq!(
        begun.map(|outcome| outcome.result.clone()).collect::<Vec<_>>(),
        [OutcomeResult::InProgress]
    );
    let seen = play.story.iter().rev().find_map(|scene| scene.sample.memory.first().cloned());
    let seen = seen.expect("memory was looked at after the move");
    let on_2 = seen.nodes.iter().find(|lies| lies.node == NodeId(2)).expect("node 2");
    assert!(HOG_KIB * 980 / 1000 <= on_2.own().0 / 1024, "{seen:?}");
    stop(play);
}

fn a_part() {
    let _still = Knob::set(BALANCING, "0");
    let _small = Knob::set(HUGE, "never");
    let (mut play, pid) = hog_on_0(HOG, HOG_KIB);
    play.wish("hog", to_2(Bytes::from_mib(20)));
    let ended = ended(&mut play);
    assert_eq!((ended.stopped_by, ended.moved), (PageMoveEnd::Limit, Bytes::from_mib(20)));
    let memory = nodes::anonymous_kib(pid);
    assert_eq!(memory.get(&2), Some(&(20 * 1024)), "{memory:?}");
    stop(play);
}

fn huge_kib(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("a rollup");
    let line = text.lines().find_map(|line| line.strip_prefix("AnonHugePages:"));
    line.and_then(|rest| rest.split_whitespace().next()).expect("a line").parse().expect("KiB")
}

fn huge() {
    let _still = Knob::set(BALANCING, "0");
    let _huge = Knob::set(HUGE, "always");
    let (mut play, pid) = hog_on_0(HOG, HOG_KIB);
    let before = huge_kib(pid);
    assert!(HOG_KIB / 2 <= before, "only {before} KiB in huge pages");
    play.wish("hog", to_2(Action::NO_LIMIT));
    let ended = ended(&mut play);
    assert!(HOG_KIB * 980 / 1000 <= ended.moved.0 / 1024, "{ended:?}");
    assert_eq!(huge_kib(pid), before, "huge pages are as many as before");
    let seen = play.story.iter().rev().find_map(|scene| scene.sample.memory.first().cloned());
    let seen = seen.expect("memory was looked at after the move");
    let on_2 = seen.nodes.iter().find(|lies| lies.node == NodeId(2)).expect("node 2");
    assert!(before * 980 / 1000 <= on_2.huge.0 / 1024, "{seen:?}");
    stop(play);
}

fn born(pid: u32) -> u64 {
    linux::procfs::stat(Path::new("/"), pid).expect("it lives").start_time_ticks
}

fn free_kib(node: u32) -> u64 {
    let text = fs::read_to_string(format!("/sys/devices/system/node/node{node}/meminfo"));
    let text = text.expect("a node");
    let line = text.lines().find(|line| line.contains("MemFree:")).expect("a line");
    line.split_whitespace().nth(3).expect("a number").parse().expect("KiB")
}

/// A program that takes all of node 3 but so much.
fn fill_3(but_mib: u64) -> (Play, u32) {
    let mib = free_kib(3) / 1024 - but_mib;
    let load = format!("hog --size {mib}M --for 300s --no-self-check");
    let text = format!("[[job]]\nname = \"full\"\nload = \"{load}\"\nmemory = \"bind:3\"\n");
    let mut play = Play::with(&text, |options| options.tool = Some(crate::tool::path().to_owned()));
    let pid = play.begin("full");
    nodes::anonymous_from(pid, mib * 1024);
    (play, pid)
}

fn moved_to_3(pid: u32, reserve_permille: u16) -> MoveTotals {
    let process = ProcessMemory::open(pid, born(pid), reserve_permille).expect("it lives");
    let wish = MoveRequest { from: Some(NodeId(0)), to: NodeId(3), limit: u64::MAX };
    let mut mover = Mover::new(process, wish, &[]).expect("its mappings");
    let tally = (0..100_000).find_map(|_| mover.step()).expect("it ends");
    println!("{tally:?}");
    assert_eq!(tally.requested, tally.moved + tally.failed.total() + tally.not_attempted);
    tally
}

/// 4 MiB are four batches for a beginner, so a single call is the kernel's own for whole processes.
fn whole() {
    let _still = Knob::set(BALANCING, "0");
    let _small = Knob::set(HUGE, "never");
    let (play, pid) = hog_on_0("hog --size 4M --for 300s --no-self-check", 4 * 1024);
    let resident = linux::memory::resident(Path::new("/"), pid).expect("it lives");
    assert!(resident <= 16 << 20, "{resident} bytes are too much for one call");
    // The right to take along what others map is given up by a thread alone.
    let moved = std::thread::spawn(move || {
        linux::move_pages::drop_cap_sys_nice().expect("a right less");
        moved_to_3(pid, 0)
    });
    let tally = moved.join().expect("it was moved");
    assert_eq!((tally.n_calls, &tally.stop), (1, &MoveStop::Done), "{tally:?}");
    assert_eq!(tally.failed.total(), 0, "{tally:?}");
    let memory = nodes::anonymous_kib(pid);
    assert!(980 <= nodes::permille_on(&memory, 3), "{memory:?}");
    stop(play);
}

fn full() {
    let _still = Knob::set(BALANCING, "0");
    let _small = Knob::set(HUGE, "never");
    let (filler, _) = fill_3(64);
    let (play, pid) = hog_on_0("hog --size 200M --for 300s --no-self-check", 200 * 1024);
    let tally = moved_to_3(pid, 10);
    assert_eq!(tally.stop, MoveStop::Full, "{tally:?}");
    assert!(tally.moved < 100 << 20 && 0 < tally.not_attempted, "{tally:?}");
    // Pages that the kernel compacts right now on the full node are in nobody's numa_maps.
    nodes::until("all that moved, on node 3", || {
        nodes::anonymous_kib(pid).get(&3).copied().unwrap_or(0) == tally.moved / 1024
    });
    stop(play);
    stop(filler);
}

fn refused_beforehand() {
    let _still = Knob::set(BALANCING, "0");
    let (filler, _) = fill_3(40);
    let (mut play, pid) = hog_on_0("hog --size 200M --for 300s --no-self-check", 200 * 1024);
    let looked = |play: &Play| play.story.iter().any(|scene| !scene.sample.memory.is_empty());
    play.until("a look at memory", looked);
    let limit = Action::NO_LIMIT;
    play.wish("hog", Action::MovePages { from: None, to: NodeId(3), limit });
    play.until("the wish", |play| {
        play.refused.iter().any(|refusal| refusal.cause == sched::RejectCause::TargetFull)
    });
    let memory = nodes::anonymous_kib(pid);
    assert!(980 <= nodes::permille_on(&memory, 0), "{memory:?}");
    stop(play);
    stop(filler);
}

fn ends_midway() {
    let _still = Knob::set(BALANCING, "0");
    let (mut play, pid) = hog_on_0("hog --size 400M --for 300s --no-self-check", 400 * 1024);
    play.wish("hog", to_2(Action::NO_LIMIT));
    play.until("the beginning", |play| {
        play.story.iter().flat_map(|s| &s.outcomes).any(|o| o.result == OutcomeResult::InProgress)
    });
    nodes::until("some of it there", || nodes::anonymous_kib(pid).contains_key(&2));
    crate::play::signal(pid, rustix::process::Signal::KILL);
    let ended = ended(&mut play);
    assert_eq!(ended.stopped_by, PageMoveEnd::Exited, "{ended:?}");
    play.finish();
}

fn weighted() {
    let path = |node| format!("/sys/kernel/mm/mempolicy/weighted_interleave/node{node}");
    if !Path::new(&path(1)).exists() {
        println!("not run: this kernel has no weighted interleaving");
        return;
    }
    fs::write(path(1), "3").expect("a weight");
    fs::write(path(2), "1").expect("a weight");
    let text = "[[job]]\nname = \"hog\"\nload = \"hog --size 64M --for 300s --no-self-check\"\nmemory = \"weighted-interleave:1-2\"\n";
    let mut play = Play::with(text, |options| options.tool = Some(crate::tool::path().to_owned()));
    let pid = play.begin("hog");
    let memory = nodes::anonymous_from(pid, HOG_KIB);
    let share = nodes::permille_on(&memory, 1);
    assert!((720..=780).contains(&share), "{memory:?}");
    stop(play);
}
