//! Page migration of running programs, verified with numa_maps.

use std::fs;
use std::path::Path;

use base::{Bytes, NodeId};
use linux::pages::{
    LiveProcessMemory, PageMigrationRequest, PageMigrationStop, ProcessMigrationTotals,
    ProcessPageMigrator,
};
use sched::{Action, CompletedPageMigration, OutcomeResult, PageMigrationEnd};
use tests::live_run::LiveRun;
use tests::process::{signal, start_time_ticks, until, until_or};

use crate::Promise;
use crate::nodes::{self, KernelSetting, hog};

pub const ALL: &[Promise] = &[
    ("pages::the_memory_of_a_running_job_arrives_on_the_requested_node", all_of_it),
    ("pages::a_small_process_is_moved_by_one_call", whole),
    ("pages::a_limit_moves_a_part_and_is_reported", a_part),
    ("pages::huge_pages_move_whole_and_stay_huge", huge),
    ("pages::a_full_node_ends_a_move_and_every_page_is_accounted_for", full),
    ("pages::a_full_target_is_rejected_before_the_move", rejected_beforehand),
    ("pages::a_job_that_ends_during_a_move_ends_the_move", ends_midway),
    ("pages::weighted_interleaving_uses_the_weights_of_the_system", weighted),
];

const HOG_KIB: u64 = 64 * 1024;

/// Returns a hog with its memory on node 0.
fn hog_on_0(mib: u64) -> (LiveRun, u32) {
    on_0(mib, &hog("hog", &format!("{mib}M"), ""))
}

/// Starts the job `hog`, which allocates this memory, on node 0.
fn on_0(mib: u64, job: &str) -> (LiveRun, u32) {
    let kib = 1024 * mib;
    let mut run = LiveRun::with_tool(job);
    run.request("hog", Action::Place(nodes::cpus(0)));
    let pid = run.wait_until_started("hog");
    let memory = nodes::wait_for_anonymous(pid, kib);
    nodes::check_share(&memory, 0, 980);
    wait_for_memory_sample(&mut run, kib);
    (run, pid)
}

/// Waits for a sample of all memory of a job: an earlier sample contains no page to migrate.
pub fn wait_for_memory_sample(run: &mut LiveRun, kib: u64) {
    run.until("a sample of all memory", |run| {
        let samples = run.turns.iter().rev().flat_map(|turn| &turn.sample.memory);
        let private_bytes = |memory: &sched::ProcessMemory| -> u64 {
            memory.nodes.iter().map(|pages| pages.private_bytes().0).sum()
        };
        samples.take(1).any(|memory| kib * 980 / 1000 <= private_bytes(memory) / 1024)
    });
}

fn to_2(limit: Bytes) -> Action {
    Action::MovePages { from: None, to: NodeId(2), limit }
}

fn ended(run: &mut LiveRun) -> CompletedPageMigration {
    let completed = |run: &LiveRun| {
        run.turns.iter().find_map(|turn| turn.sample.page_migrations_completed.first().cloned())
    };
    run.until("the end of the move", |run| completed(run).is_some());
    let ended = completed(run).expect("a completed move");
    let sum = ended.moved.0 + ended.failed.total().0 + ended.not_attempted.0;
    assert_eq!(ended.requested.0, sum, "{ended:?}");
    println!("{ended:?}");
    ended
}

fn all_of_it() {
    let _no_balancing = KernelSetting::no_balancing();
    let (mut run, pid) = hog_on_0(64);
    run.request("hog", to_2(Action::NO_LIMIT));
    let ended = ended(&mut run);
    assert_eq!(ended.stopped_by, PageMigrationEnd::Done, "{ended:?}");
    assert!(HOG_KIB * 980 / 1000 <= ended.moved.0 / 1024, "{ended:?}");
    let memory = nodes::anonymous_kib(pid);
    nodes::check_share(&memory, 2, 980);
    let moves = run.turns.iter().flat_map(|turn| &turn.outcomes);
    let moves = moves.filter(|outcome| matches!(outcome.action, Some(Action::MovePages { .. })));
    assert_eq!(
        moves.map(|outcome| outcome.result.clone()).collect::<Vec<_>>(),
        [OutcomeResult::InProgress]
    );
    let memory = run.turns.iter().rev().find_map(|turn| turn.sample.memory.first().cloned());
    let memory = memory.expect("a memory sample after the move");
    let on_2 = memory.nodes.iter().find(|pages| pages.node == NodeId(2)).expect("node 2");
    assert!(HOG_KIB * 980 / 1000 <= on_2.private_bytes().0 / 1024, "{memory:?}");
    run.stop();
}

fn a_part() {
    let _no_balancing = KernelSetting::no_balancing();
    let _no_huge_pages = KernelSetting::no_huge_pages();
    let (mut run, pid) = hog_on_0(64);
    run.request("hog", to_2(Bytes::from_mib(20)));
    let ended = ended(&mut run);
    assert_eq!((ended.stopped_by, ended.moved), (PageMigrationEnd::Limit, Bytes::from_mib(20)));
    let memory = nodes::anonymous_kib(pid);
    assert_eq!(memory.get(&2), Some(&(20 * 1024)), "{memory:?}");
    run.stop();
}

fn huge_kib(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("a rollup");
    let line = text.lines().find_map(|line| line.strip_prefix("AnonHugePages:"));
    line.and_then(|rest| rest.split_whitespace().next()).expect("a line").parse().expect("KiB")
}

fn huge() {
    let _no_balancing = KernelSetting::no_balancing();
    let _huge = KernelSetting::set("/sys/kernel/mm/transparent_hugepage/enabled", "always");
    let (mut run, pid) = hog_on_0(64);
    let before = huge_kib(pid);
    assert!(HOG_KIB / 2 <= before, "only {before} KiB in huge pages");
    run.request("hog", to_2(Action::NO_LIMIT));
    let ended = ended(&mut run);
    assert!(HOG_KIB * 980 / 1000 <= ended.moved.0 / 1024, "{ended:?}");
    assert_eq!(huge_kib(pid), before, "the number of huge pages is unchanged");
    let memory = run.turns.iter().rev().find_map(|turn| turn.sample.memory.first().cloned());
    let memory = memory.expect("a memory sample after the move");
    let on_2 = memory.nodes.iter().find(|pages| pages.node == NodeId(2)).expect("node 2");
    assert!(before * 980 / 1000 <= on_2.huge.0 / 1024, "{memory:?}");
    run.stop();
}

/// Returns the sum of some values of the memory of a node.
fn meminfo_kib(node: u32, names: &[&str]) -> u64 {
    let text = fs::read_to_string(format!("/sys/devices/system/node/node{node}/meminfo"));
    let text = text.expect("a node");
    let value = |name: &&str| -> u64 {
        let line = text.lines().find(|line| line.contains(&format!(" {name}:"))).expect("a line");
        line.split_whitespace().nth(3).expect("a number").parse().expect("KiB")
    };
    names.iter().map(value).sum()
}

/// Starts a program that allocates all memory of node 3 except `free_mib`.
fn fill_3(free_mib: u64) -> (LiveRun, u32) {
    let mib = meminfo_kib(3, &["MemFree"]) / 1024 - free_mib;
    let text = hog("full", &format!("{mib}M"), "memory = \"bind:3\"");
    let mut run = LiveRun::with_tool(&text);
    let pid = run.wait_until_started("full");
    nodes::wait_for_anonymous(pid, mib * 1024);
    (run, pid)
}

fn moved_to_3(pid: u32, reserve_permille: u16) -> ProcessMigrationTotals {
    let process = LiveProcessMemory::open(pid, start_time_ticks(pid), reserve_permille)
        .expect("the process exists");
    let request = PageMigrationRequest { from: Some(NodeId(0)), to: NodeId(3), limit: u64::MAX };
    let mut migrator =
        ProcessPageMigrator::new(process, request, &[]).expect("mappings of the process");
    let totals = (0..100_000).find_map(|_| migrator.step()).expect("an end");
    println!("{totals:?}");
    assert_eq!(totals.requested, totals.moved + totals.failed.total() + totals.not_attempted);
    totals
}

/// Migrates 4 MiB. `move_pages` needs several calls for 4 MiB, because its first call has 256 pages. A migration by one
/// call is therefore a call of `migrate_pages` for the whole process. The job is a shell, because the evenkeel
/// executable alone can have 16 MiB of resident files, which is the limit for one call.
fn whole() {
    let _no_balancing = KernelSetting::no_balancing();
    let _no_huge_pages = KernelSetting::no_huge_pages();
    let job = "[[job]]\nname = \"hog\"\nshell = 'text=$(printf %4194304s); while :; do :; done'\n";
    let (mut run, pid) = on_0(4, job);
    let resident = linux::memory::resident(Path::new("/"), pid).expect("the process exists");
    assert!(resident <= 16 << 20, "{resident} bytes are too much for one call");
    // Only this thread drops CAP_SYS_NICE, the capability to migrate shared pages.
    let moved = std::thread::spawn(move || {
        linux::move_pages::drop_cap_sys_nice().expect("capability dropped");
        moved_to_3(pid, 0)
    });
    let totals = moved.join().expect("the thread ends");
    assert_eq!((totals.n_calls, &totals.stop), (1, &PageMigrationStop::Done), "{totals:?}");
    assert_eq!(totals.failed.total(), 0, "{totals:?}");
    let memory = nodes::anonymous_kib(pid);
    nodes::check_share(&memory, 3, 980);
    run.stop();
}

fn full() {
    let _no_balancing = KernelSetting::no_balancing();
    let _no_huge_pages = KernelSetting::no_huge_pages();
    let (mut filler, _) = fill_3(64);
    let (mut run, pid) = hog_on_0(200);
    // The kernel reclaims the page cache of a node for migrated pages.
    let reclaimable = ["MemFree", "Active(file)", "Inactive(file)", "SReclaimable"];
    let available_kib = meminfo_kib(3, &reclaimable);
    let totals = moved_to_3(pid, 10);
    assert_eq!(totals.stop, PageMigrationStop::Full, "{totals:?}");
    assert!(totals.moved / 1024 <= available_kib, "{available_kib} KiB: {totals:?}");
    assert_ne!(totals.not_attempted, 0, "{totals:?}");
    // numa_maps does not contain pages that the kernel compacts on the full node. If the kernel migrates a page while
    // its status is read, the node of the page is unknown.
    let accounted_kib = totals.moved / 1024..=(totals.moved + totals.failed.not_present) / 1024;
    let on_node_3_kib = || nodes::anonymous_kib(pid).get(&3).copied().unwrap_or(0);
    until_or(
        "all moved pages on node 3",
        || accounted_kib.contains(&on_node_3_kib()),
        || format!("{} of {accounted_kib:?} KiB", on_node_3_kib()),
    );
    run.stop();
    filler.stop();
}

fn rejected_beforehand() {
    let _no_balancing = KernelSetting::no_balancing();
    let (mut filler, _) = fill_3(40);
    let (mut run, pid) = hog_on_0(200);
    let is_sampled = |run: &LiveRun| run.turns.iter().any(|turn| !turn.sample.memory.is_empty());
    run.until("a memory sample", is_sampled);
    let limit = Action::NO_LIMIT;
    run.request("hog", Action::MovePages { from: None, to: NodeId(3), limit });
    run.until("the rejection", |run| {
        run.rejections.iter().any(|rejection| rejection.cause == sched::RejectCause::TargetFull)
    });
    let memory = nodes::anonymous_kib(pid);
    nodes::check_share(&memory, 0, 980);
    run.stop();
    filler.stop();
}

fn ends_midway() {
    let _no_balancing = KernelSetting::no_balancing();
    let (mut run, pid) = hog_on_0(400);
    run.request("hog", to_2(Action::NO_LIMIT));
    run.until("the start of the move", |run| {
        run.turns.iter().flat_map(|s| &s.outcomes).any(|o| o.result == OutcomeResult::InProgress)
    });
    until("the first pages on node 2", || nodes::anonymous_kib(pid).contains_key(&2));
    signal(pid, rustix::process::Signal::KILL);
    let ended = ended(&mut run);
    assert_eq!(ended.stopped_by, PageMigrationEnd::Exited, "{ended:?}");
    run.finish();
}

fn weighted() {
    let path = |node| format!("/sys/kernel/mm/mempolicy/weighted_interleave/node{node}");
    if !Path::new(&path(1)).exists() {
        println!("not run: this kernel has no weighted interleaving");
        return;
    }
    fs::write(path(1), "3").expect("a weight");
    fs::write(path(2), "1").expect("a weight");
    let mut run = LiveRun::with_tool(&hog("hog", "64M", "memory = \"weighted-interleave:1-2\""));
    let pid = run.wait_until_started("hog");
    let memory = nodes::wait_for_anonymous(pid, HOG_KIB);
    let share = nodes::permille_on(&memory, 1);
    assert!((720..=780).contains(&share), "{memory:?}");
    run.stop();
}
