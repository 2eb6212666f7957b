//! Changes of watched processes: threads and children start and exit, programs call exec, and other processes change
//! the affinity or cpuset of a watched process. In all tests the watch undoes its own changes and no other changes.

use std::cell::Cell;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use base::{CpuSet, NodeId};
use linux::{affinity, procfs};
use program::MemoryPolicy;
use rustix::process::Pid;
use sched::{Action, JobEvent, Plan, Snapshot, UnmanagedCause};
use tests::cgroup::TestCgroup;
use tests::process::{TIMEOUT, until};

use super::{
    BURN, Dir, ExclusionReason, INTERVAL, Process, Signal, WatchRun, machine, mask,
    place_on_last_cpu, policy, reason, two_cpus, watch,
};

/// Environment variable with the behaviour of the helper program.
const PART: &str = "EVENKEEL_TEST_PART";

/// Returns this executable as a helper program with this behaviour.
fn helper(name: &str) -> Process {
    let mut command = Command::new(std::env::current_exe().expect("this executable"));
    command.args([
        "--exact",
        "watching::process_changes::helper_program",
        "--ignored",
        "--test-threads=1",
    ]);
    Process::new(command.env(PART, name))
}

/// A program with its own process group, which is killed as a whole.
struct ProcessGroup(Process);

impl ProcessGroup {
    fn shell(script: &str) -> Self {
        ProcessGroup(Process::new(Command::new("sh").args(["-c", script]).process_group(0)))
    }

    /// Returns the PIDs of the group.
    fn members(&self) -> Vec<u32> {
        let all = procfs::processes("/".as_ref()).expect("a list");
        let is_member = |&pid: &u32| {
            procfs::stat("/".as_ref(), pid).is_ok_and(|stat| stat.group == self.0.pid())
        };
        all.into_iter().filter(is_member).collect()
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let group = Pid::from_raw(self.0.pid().cast_signed()).expect("a number");
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
}

fn masks_of_threads(pid: u32) -> Vec<CpuSet> {
    let tids = procfs::threads("/".as_ref(), pid).expect("it is running");
    tids.into_iter().filter_map(|tid| affinity::get(tid).ok()).collect()
}

/// Runs the helper program.
#[test]
#[ignore = "a program that other tests start; does nothing alone"]
fn helper_program() {
    let burn = |time: Duration| {
        let begun = std::time::Instant::now();
        while begun.elapsed() < time {
            std::hint::spin_loop();
        }
    };
    let short = Duration::from_millis(30);
    match std::env::var(PART).as_deref() {
        // The program has two long-lived threads, and short-lived threads.
        Ok("threads") => {
            let stays = || std::thread::spawn(move || burn(TIMEOUT));
            let _stay = [stays(), stays()];
            let begun = std::time::Instant::now();
            while begun.elapsed() < TIMEOUT {
                let brief: Vec<_> =
                    (0..3).map(|_| std::thread::spawn(move || burn(short))).collect();
                brief.into_iter().for_each(|thread| thread.join().expect("it ends"));
            }
        }
        // One of several threads has its own affinity.
        Ok("bound-thread") => {
            let bound = std::thread::spawn(|| {
                let first_cpu: CpuSet =
                    affinity::get(0).expect("own").first().into_iter().collect();
                affinity::set(0, &first_cpu).expect("own");
                std::thread::sleep(TIMEOUT);
            });
            burn(TIMEOUT);
            bound.join().expect("it ends");
        }
        // One of several threads has its own memory policy.
        Ok("policy-thread") => {
            let policy = MemoryPolicy::Bind([NodeId(0)].into_iter().collect());
            let prepared = linux::mempolicy::Prepared::new(&policy);
            let bound = std::thread::spawn(move || {
                prepared.apply().expect("node 0");
                std::thread::sleep(TIMEOUT);
            });
            burn(TIMEOUT);
            bound.join().expect("it ends");
        }
        _ => {}
    }
}

#[test]
fn pages_of_a_process_with_a_memory_policy_in_any_thread_are_not_migrated() {
    let has_node_0 = machine().nodes().iter().any(|node| node.id == NodeId(0));
    if !has_node_0 || !std::path::Path::new("/proc/self/numa_maps").exists() {
        println!("skipped: memory policies are not visible");
        return;
    }
    let program = helper("policy-thread");
    let mut run = watch(&[&program], |options| {
        options.act = false;
        options.memory.sampling = host_live::MemorySampling::On;
    });
    run.until("the exclusion", |run| run.excludes(ExclusionReason::OwnMemoryPolicy, program.pid()));
    run.end();
}

#[test]
fn new_threads_are_placed_and_restored_with_their_process() {
    let Some((all, last)) = two_cpus() else { return };
    let program = helper("threads");
    let mut run = watch(&[&program], |_| ());
    let placed = || {
        let masks = masks_of_threads(program.pid());
        4 <= masks.len() && masks.iter().all(|mask| *mask == last)
    };
    run.until("the placement of every thread", |_| placed());
    run.run_turns(10);
    run.until("the placement of new threads", |_| placed());
    run.end();
    for _ in 0..20 {
        for mask in masks_of_threads(program.pid()) {
            assert_eq!(mask, all);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_thread_that_becomes_real_time_between_decision_and_action_is_not_placed() {
    let Some((all, last)) = two_cpus() else { return };
    let program = helper("threads");
    let (pid, real_time) = (program.pid(), Rc::new(Cell::new(None)));
    let tid = Rc::clone(&real_time);
    // In the turn of the placement, the second thread gets a real-time scheduling class.
    let decide = move |snapshot: &Snapshot<'_>, plan: &mut Plan| {
        if !snapshot.jobs.is_empty() && tid.get().is_none() {
            let tids = procfs::threads("/".as_ref(), pid).expect("it is running");
            let second = *tids.get(1).expect("it has several");
            let chrt = Command::new("chrt").args(["-r", "-p", "1", &second.to_string()]).status();
            tid.set(Some(if chrt.is_ok_and(|status| status.success()) { second } else { 0 }));
        }
        place_on_last_cpu(snapshot, plan);
    };
    let mut run = WatchRun::with(policy(INTERVAL, decide), &[pid], |_| {});
    run.until("the placement", |_| mask(pid) == last);
    let Some(tid) = real_time.get().filter(|tid| *tid != 0) else {
        return println!("skipped: real-time scheduling is not permitted");
    };
    assert_eq!(affinity::get(tid).expect("it is running"), all);
    run.end();
    assert_eq!(mask(pid), all);
}

#[test]
fn a_process_with_a_thread_that_bound_itself_is_not_managed() {
    let Some((all, _)) = two_cpus() else { return };
    let program = helper("bound-thread");
    let mut run = watch(&[&program], |_| ());
    run.until("the exclusion", |run| run.excludes(ExclusionReason::OwnAffinity, program.pid()));
    run.end();
    let masks = masks_of_threads(program.pid());
    assert_eq!(masks.iter().filter(|mask| mask.len() == 1).count(), 1, "{masks:?}");
    assert_eq!(program.mask(), all);
}

#[test]
fn a_thread_bound_by_another_process_keeps_its_affinity_and_the_others_are_restored() {
    let Some((all, last)) = two_cpus() else { return };
    let first: CpuSet = all.first().into_iter().collect();
    let program = helper("threads");
    let pid = program.pid();
    let mut run = watch(&[&program], |_| ());
    run.until("the placement", |_| masks_of_threads(pid).iter().all(|mask| *mask == last));
    // The first two threads are the main thread and the thread of the test; the third thread is long-lived.
    let tids = procfs::threads("/".as_ref(), pid).expect("it is running");
    let bound = tids[2];
    affinity::set(bound, &first).expect("permitted");
    run.run_turns(10);
    assert_eq!(affinity::get(bound).expect("it is running"), first, "it is not placed again");
    run.end();
    assert_eq!(affinity::get(bound).expect("it is running"), first);
    assert_eq!(mask(pid), all);
    assert_eq!(affinity::get(tids[3]).expect("it is running"), all);
}

#[test]
fn the_affinity_of_children_started_during_the_end_is_restored() {
    let Some((all, last)) = two_cpus() else { return };
    let dir = Dir::new();
    let script = format!(
        "while [ ! -e {} ]; do :; done; i=0; while [ $i -lt 400 ]; do sleep 600 & i=$((i+1)); j=0; \
         while [ $j -lt 3000 ]; do j=$((j+1)); done; done; {BURN}",
        dir.arg("go")
    );
    for use_events in [false, true] {
        let _ = std::fs::remove_file(dir.path("go"));
        let group = ProcessGroup::shell(&script);
        let mut run = watch(&[&group.0], |options| options.use_events = use_events);
        run.until("the placement", |_| group.0.mask() == last);
        dir.write("go", "");
        run.until("children", |_| 10 < group.members().len());
        std::thread::sleep(Duration::from_millis(50)); // Some children are not sampled.
        run.end();
        drop(run);
        group.0.signal(Signal::STOP);
        let changed: Vec<u32> = group
            .members()
            .into_iter()
            .filter(|&pid| affinity::get(pid).is_ok_and(|mask| mask != all))
            .collect();
        assert_eq!(
            changed,
            Vec::<u32>::new(),
            "of {} with events: {use_events}",
            group.members().len()
        );
    }
}

#[test]
fn with_process_events_the_affinity_of_a_child_whose_parent_exits_is_restored() {
    let Some((all, last)) = two_cpus() else { return };
    let dir = Dir::new();
    let script = format!("while [ ! -e {} ]; do :; done; sleep 600 & exit 0", dir.arg("go"));
    let group = ProcessGroup::shell(&script);
    let mut run = watch(&[&group.0], |options| options.use_events = true);
    run.until("the placement", |_| group.0.mask() == last);
    if run.status().discovery != "events" {
        println!("skipped: process events are unavailable");
        return;
    }
    dir.write("go", "");
    run.until("the end", |run| run.detached(sched::DetachCause::Ended));
    run.end();
    for pid in group.members().into_iter().filter(|&pid| pid != group.0.pid()) {
        assert_eq!(mask(pid), all);
    }
}

/// Without process events, a child whose parent exits before the next sample is not known as a descendant. It may have
/// its mask from another program, so it is named and not changed.
#[test]
fn without_process_events_a_child_whose_parent_exits_is_restored_or_named() {
    let Some((all, last)) = two_cpus() else { return };
    let dir = Dir::new();
    let script = format!(
        "while [ ! -e {} ]; do :; done; (sleep 600 & echo $! > {}); {BURN}",
        dir.arg("go"),
        dir.arg("child")
    );
    let group = ProcessGroup::shell(&script);
    let mut run = watch(&[&group.0], |options| options.use_events = false);
    run.until("the placement", |_| group.0.mask() == last);
    dir.write("go", "");
    until("the child", || dir.text("child").ends_with('\n'));
    let child: u32 = dir.text("child").trim().parse().expect("a PID");
    until("the exit of its parent", || {
        linux::procfs::stat("/".as_ref(), child).is_ok_and(|stat| stat.parent != group.0.pid())
    });
    run.end();
    let named: Vec<u32> =
        run.host.with_unknown_parent().iter().map(|entry| entry.process).collect();
    match mask(child) == all {
        true => assert_eq!(named, [0; 0]),
        false => assert_eq!((mask(child), named), (last, vec![child])),
    }
    assert_eq!(mask(group.0.pid()), all);
}

/// A child inherits the mask that its parent has at the fork: the assigned mask, even if the parent is released before
/// the watch samples the child for the first time.
#[test]
fn a_child_with_the_placement_of_its_released_parent_is_released_too() {
    let Some((all, last)) = two_cpus() else { return };
    let dir = Dir::new();
    let script =
        format!("while [ ! -e {} ]; do :; done; sleep 600 & exec sleep 600", dir.arg("go"));
    let group = ProcessGroup::shell(&script);
    let other = Process::busy(); // Turns are rare without a managed process.
    let mut run = watch(&[&group.0, &other], |options| {
        options.idle_after = INTERVAL;
        options.use_events = false;
    });
    run.until("the placement", |_| group.0.mask() == last);
    dir.write("go", "");
    let child = || group.members().into_iter().find(|&pid| pid != group.0.pid());
    run.until("a child", |_| child().is_some());
    let sleeps =
        || procfs::stat("/".as_ref(), group.0.pid()).is_ok_and(|stat| stat.comm_text() == "sleep");
    run.until("the release", |_| sleeps() && group.0.mask() == all);
    let child = child().expect("it sleeps");
    affinity::set(child, &last).expect("permitted");
    run.until("the release of the child", |_| mask(child) == all);
    run.end();
}

#[test]
fn children_forked_during_a_release_are_restored_if_the_job_remains_managed() {
    let Some((all, last)) = two_cpus() else { return };
    let dir = Dir::new();
    let script = format!("while [ ! -e {} ]; do :; done; sleep 600 & {BURN}", dir.arg("go"));
    let group = ProcessGroup::shell(&script);
    let releases = Rc::new(Cell::new(false));
    let releases_now = Rc::clone(&releases);
    let decide = move |snapshot: &Snapshot<'_>, plan: &mut Plan| {
        if !releases_now.get() {
            return place_on_last_cpu(snapshot, plan);
        }
        for job in snapshot.jobs.iter().filter(|job| job.placed.is_some()) {
            plan.request(job.job.id, Action::Release, reason());
        }
    };
    let mut run = WatchRun::with(policy(INTERVAL, decide), &[group.0.pid()], |_| {});
    run.until("the placement", |_| group.0.mask() == last);
    dir.write("go", "");
    let child = || group.members().into_iter().find(|&pid| pid != group.0.pid());
    run.until("a child", |_| child().is_some());
    releases.set(true);
    run.until("the release", |_| group.0.mask() == all);
    let child = child().expect("it sleeps");
    affinity::set(child, &last).expect("permitted");
    run.until("the release of the child", |_| mask(child) == all);
    run.end();
}

#[test]
fn all_children_of_a_job_that_becomes_idle_are_released() {
    let Some((all, last)) = two_cpus() else { return };
    let script = "i=0; while [ $i -lt 60 ]; do sleep 600 & i=$((i+1)); j=0; \
                  while [ $j -lt 3000 ]; do j=$((j+1)); done; done; exec sleep 600";
    let group = ProcessGroup::shell(script);
    let mut run = watch(&[&group.0], |options| {
        options.idle_after = INTERVAL;
        options.use_events = false;
    });
    run.until("the placement", |_| group.0.mask() == last);
    run.until("that it sleeps", |run| run.detached(sched::DetachCause::Idle));
    // On a busy machine the process may be runnable and waiting. The watch then manages the process again until the
    // process sleeps.
    let has_finished =
        || procfs::stat("/".as_ref(), group.0.pid()).is_ok_and(|stat| stat.comm_text() == "sleep");
    run.until("the end of its work", |_| has_finished());
    let is_placed = |&pid: &u32| affinity::get(pid).is_ok_and(|mask| mask != all);
    run.until("the release of all processes", |run| {
        run.status().managed.is_empty() && !group.members().iter().any(is_placed)
    });
    assert_eq!(group.members().len(), 61);
    run.end();
}

/// Creates a cpuset of cgroup v1 with all nodes. Returns `None` without permission.
fn cpuset(cpus: &CpuSet) -> Option<TestCgroup> {
    let root = "/sys/fs/cgroup/cpuset";
    if !std::path::Path::new(root).is_dir() {
        println!("skipped: no cpusets of cgroup v1");
        return None;
    }
    let cpuset = TestCgroup::new(root, &format!("evenkeel-test-{}", std::process::id()))?;
    let mems = std::fs::read_to_string(format!("{root}/cpuset.mems")).expect("the file exists");
    cpuset.write("cpuset.mems", mems.trim());
    cpuset.write("cpuset.cpus", &cpus.to_string());
    Some(cpuset)
}

#[test]
fn a_process_moved_to_another_cpuset_is_not_placed_again_and_regains_all_cpus_on_its_return() {
    let Some((all, last)) = two_cpus() else { return };
    let first: CpuSet = all.first().into_iter().collect();
    let Some(cpuset) = cpuset(&first) else { return };
    let busy = Process::busy();
    let mut run = watch(&[&busy], |_| ());
    run.until("the placement", |_| busy.mask() == last);
    cpuset.add(busy.pid());
    run.until("the event", |run| {
        let is_change = |event: &JobEvent| {
            matches!(event, JobEvent::Unmanaged(_, UnmanagedCause::AffinityChanged(mask)) if *mask == first)
        };
        run.events.iter().any(is_change)
    });
    assert_eq!(busy.mask(), first);
    run.end();
    assert_eq!(busy.mask(), first);
    cpuset.remove(busy.pid());
    assert_eq!(busy.mask(), all, "its own affinity is not restricted");
    // A process that is restored inside a cpuset has all CPUs of the cpuset, also if CPUs are added later.
    let mut run = watch(&[&busy], |_| ());
    run.until("the placement", |_| busy.mask() == last);
    cpuset.write("cpuset.cpus", &last.to_string());
    cpuset.add(busy.pid());
    run.run_turns(5);
    run.end();
    assert_eq!(busy.mask(), last);
    cpuset.write("cpuset.cpus", &all.to_string());
    assert_eq!(busy.mask(), all);
    cpuset.remove(busy.pid());
}
