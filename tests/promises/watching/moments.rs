//! What programs do while they are watched: threads and children come and go, programs are exchanged,
//! somebody moves or binds them. Whatever happens, what was ours is put back, and nothing else.

use std::cell::Cell;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::{CpuSet, Nanos, NodeId};
use linux::{affinity, procfs};
use program::MemoryPolicy;
use rustix::process::{Pid, Signal};
use sched::{Action, JobEvent, Plan, Policy, Reason, ReasonCode, Snapshot, UnmanagedCause};

use super::{
    BURN, ExclusionReason, INTERVAL, LastCpu, PATIENCE, Program, Watching, mask, two_cpus, watch,
};

/// Tells the program below what to do.
const PART: &str = "EVENKEEL_TEST_PART";

/// A program of the test that is this test program, playing a part.
fn part(name: &str) -> Program {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "watching::moments::play_a_part", "--ignored", "--test-threads=1"]);
    Program::new(command.env(PART, name))
}

/// A program in a process group of its own, which is ended as a whole.
struct Crowd(Program);

impl Crowd {
    fn shell(script: &str) -> Self {
        Crowd(Program::new(Command::new("sh").args(["-c", script]).process_group(0)))
    }

    /// Everybody in the group.
    fn members(&self) -> Vec<u32> {
        let group = self.0.pid();
        let all = procfs::processes("/".as_ref()).expect("a list");
        let its = |&pid: &u32| {
            let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let after = text.rsplit_once(')').map_or("", |(_, rest)| rest);
            after.split_ascii_whitespace().nth(2) == Some(&group.to_string())
        };
        all.into_iter().filter(its).collect()
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        let group = Pid::from_raw(self.0.pid().cast_signed()).expect("a number");
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
}

fn masks_of_threads(pid: u32) -> Vec<CpuSet> {
    let tids = procfs::threads("/".as_ref(), pid).expect("it lives");
    tids.into_iter().filter_map(|tid| affinity::get(tid).ok()).collect()
}

/// Plays a part for a test.
#[test]
#[ignore = "a program that other tests start; does nothing by itself"]
fn play_a_part() {
    let burn = |time: Duration| {
        let begun = std::time::Instant::now();
        while begun.elapsed() < time {
            std::hint::spin_loop();
        }
    };
    let short = Duration::from_millis(30);
    match std::env::var(PART).as_deref() {
        // Two threads that stay, and others that live for a moment.
        Ok("threads") => {
            let stays = || std::thread::spawn(move || burn(PATIENCE));
            let _stay = [stays(), stays()];
            let begun = std::time::Instant::now();
            while begun.elapsed() < PATIENCE {
                let brief: Vec<_> =
                    (0..3).map(|_| std::thread::spawn(move || burn(short))).collect();
                brief.into_iter().for_each(|thread| thread.join().expect("it ends"));
            }
        }
        // One thread of several has an affinity of its own.
        Ok("bound-thread") => {
            let bound = std::thread::spawn(|| {
                let one: CpuSet = affinity::get(0).expect("own").first().into_iter().collect();
                affinity::set(0, &one).expect("own");
                std::thread::sleep(PATIENCE);
            });
            burn(PATIENCE);
            bound.join().expect("it ends");
        }
        // One thread of several says itself where its memory is to come from.
        Ok("policy-thread") => {
            let policy = MemoryPolicy::Bind([NodeId(0)].into_iter().collect());
            let prepared = linux::mempolicy::Prepared::new(&policy);
            let told = std::thread::spawn(move || {
                prepared.apply().expect("node 0");
                std::thread::sleep(PATIENCE);
            });
            burn(PATIENCE);
            told.join().expect("it ends");
        }
        _ => {}
    }
}

#[test]
fn the_memory_of_a_process_is_left_alone_of_which_any_thread_has_a_policy() {
    let here = linux::topology::read("/".as_ref()).expect("this machine");
    let has_node_0 = here.nodes().iter().any(|node| node.id == NodeId(0));
    if !has_node_0 || !std::path::Path::new("/proc/self/numa_maps").exists() {
        println!("not run: memory policies cannot be seen here");
        return;
    }
    let program = part("policy-thread");
    let mut watching = watch(&[&program], |options| {
        options.act = false;
        options.memory.sampling = host_live::MemorySampling::On;
    });
    watching.until("that it is told", |watching| {
        watching.left_alone(ExclusionReason::OwnMemoryPolicy, program.pid())
    });
    watching.end();
}

#[test]
fn threads_that_come_and_go_are_placed_and_put_back_with_the_others() {
    let Some((all, last)) = two_cpus() else { return };
    let program = part("threads");
    let mut watching = watch(&[&program], |_| ());
    let placed = || {
        let masks = masks_of_threads(program.pid());
        4 <= masks.len() && masks.iter().all(|mask| *mask == last)
    };
    watching.until("the placement of every thread", |_| placed());
    for _ in 0..10 {
        assert!(watching.turn());
    }
    watching.until("the placement of new threads", |_| placed());
    watching.end();
    for _ in 0..20 {
        for mask in masks_of_threads(program.pid()) {
            assert_eq!(mask, all);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Makes the second thread of a program a real-time one in the very turn in which its job is placed.
struct LateRealTime {
    within: LastCpu,
    pid: u32,
    tid: std::rc::Rc<std::cell::Cell<Option<u32>>>,
}

impl sched::Policy for LateRealTime {
    fn decide(&mut self, seen: &sched::Snapshot<'_>, plan: &mut sched::Plan) {
        if !seen.jobs.is_empty() && self.tid.get().is_none() {
            let tids = procfs::threads("/".as_ref(), self.pid).expect("it lives");
            let tid = *tids.get(1).expect("it has several");
            let made = Command::new("chrt").args(["-r", "-p", "1", &tid.to_string()]).status();
            self.tid.set(made.is_ok_and(|status| status.success()).then_some(tid).or(Some(0)));
        }
        self.within.decide(seen, plan);
    }

    fn name(&self) -> &str {
        "late-real-time"
    }

    fn interval(&self) -> Option<base::Nanos> {
        self.within.interval()
    }
}

#[test]
fn a_thread_that_becomes_real_time_before_it_is_bound_is_left_alone() {
    let Some((all, last)) = two_cpus() else { return };
    let program = part("threads");
    let tid = std::rc::Rc::default();
    let policy = LateRealTime {
        within: LastCpu(INTERVAL),
        pid: program.pid(),
        tid: std::rc::Rc::clone(&tid),
    };
    let mut watching = Watching::with(Box::new(policy), &[program.pid()], |_| {});
    watching.until("the placement", |_| mask(program.pid()) == last);
    let Some(tid) = tid.get().filter(|tid| *tid != 0) else {
        return println!("not run: chrt may not make a thread a real-time one here");
    };
    assert_eq!(affinity::get(tid).expect("it lives"), all);
    watching.end();
    assert_eq!(mask(program.pid()), all);
}

#[test]
fn of_a_process_whose_thread_was_bound_by_itself_no_thread_is_touched() {
    let Some((all, _)) = two_cpus() else { return };
    let program = part("bound-thread");
    let mut watching = watch(&[&program], |_| ());
    watching.until("that it is told", |watching| {
        watching.left_alone(ExclusionReason::OwnAffinity, program.pid())
    });
    watching.end();
    let masks = masks_of_threads(program.pid());
    assert_eq!(masks.iter().filter(|mask| mask.len() == 1).count(), 1, "{masks:?}");
    assert_eq!(mask(program.pid()), all);
}

#[test]
fn what_somebody_binds_of_a_placed_process_stays_and_the_rest_is_put_back() {
    let Some((all, last)) = two_cpus() else { return };
    let first: CpuSet = all.first().into_iter().collect();
    let program = part("threads");
    let pid = program.pid();
    let mut watching = watch(&[&program], |_| ());
    watching.until("the placement", |_| masks_of_threads(pid).iter().all(|mask| *mask == last));
    // A thread that stays: the oldest but the first two, which are the program and its test.
    let tids = procfs::threads("/".as_ref(), pid).expect("it lives");
    let bound = tids[2];
    affinity::set(bound, &first).expect("ours");
    for _ in 0..10 {
        assert!(watching.turn());
    }
    assert_eq!(affinity::get(bound).expect("it stays"), first, "nobody fights for it");
    watching.end();
    assert_eq!(affinity::get(bound).expect("it stays"), first);
    assert_eq!(mask(pid), all);
    assert_eq!(affinity::get(tids[3]).expect("it stays"), all);
}

#[test]
fn children_that_are_born_up_to_the_last_moment_are_put_back() {
    let Some((all, last)) = two_cpus() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let go = folder.path().join("go");
    let script = format!(
        "while [ ! -e {} ]; do :; done; i=0; while [ $i -lt 400 ]; do sleep 600 & i=$((i+1)); j=0; \
         while [ $j -lt 3000 ]; do j=$((j+1)); done; done; {BURN}",
        go.display()
    );
    for use_events in [false, true] {
        let _ = std::fs::remove_file(&go);
        let crowd = Crowd::shell(&script);
        let mut watching = watch(&[&crowd.0], |options| options.use_events = use_events);
        watching.until("the placement", |_| mask(crowd.0.pid()) == last);
        std::fs::write(&go, "").expect("ours");
        watching.until("children", |_| 10 < crowd.members().len());
        std::thread::sleep(Duration::from_millis(50)); // For children that nobody has seen.
        watching.end();
        drop(watching);
        let _ = rustix::process::kill_process(
            Pid::from_raw(crowd.0.pid().cast_signed()).expect("a number"),
            Signal::STOP,
        );
        let left: Vec<u32> = crowd
            .members()
            .into_iter()
            .filter(|&pid| affinity::get(pid).is_ok_and(|mask| mask != all))
            .collect();
        assert_eq!(
            left,
            Vec::<u32>::new(),
            "of {} with events: {use_events}",
            crowd.members().len()
        );
    }
}

#[test]
fn a_child_whose_parent_dies_at_once_is_put_back_where_the_kernel_tells_of_births() {
    let Some((all, last)) = two_cpus() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let go = folder.path().join("go");
    let script = format!("while [ ! -e {} ]; do :; done; sleep 600 & exit 0", go.display());
    let crowd = Crowd::shell(&script);
    let mut watching = watch(&[&crowd.0], |options| options.use_events = true);
    watching.until("the placement", |_| mask(crowd.0.pid()) == last);
    if watching.board().discovery != "events" {
        println!("not run: the kernel does not tell of births here");
        return;
    }
    std::fs::write(&go, "").expect("ours");
    watching.until("the end", |watching| watching.left(sched::DetachCause::Ended));
    watching.end();
    for pid in crowd.members().into_iter().filter(|&pid| pid != crowd.0.pid()) {
        assert_eq!(mask(pid), all);
    }
}

/// What a child that was being born has: the mask of its parent from before, in the first look after.
#[test]
fn a_child_that_shows_a_mask_of_ours_right_after_its_parent_was_released_is_given_back_too() {
    let Some((all, last)) = two_cpus() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let go = folder.path().join("go");
    let script = format!("while [ ! -e {} ]; do :; done; sleep 600 & exec sleep 600", go.display());
    let crowd = Crowd::shell(&script);
    let other = Program::shell(BURN); // With nobody to look after turns are rare.
    let mut watching = watch(&[&crowd.0, &other], |options| {
        options.idle_after = INTERVAL;
        options.use_events = false;
    });
    watching.until("the placement", |_| mask(crowd.0.pid()) == last);
    std::fs::write(&go, "").expect("ours");
    let child = || crowd.members().into_iter().find(|&pid| pid != crowd.0.pid());
    watching.until("a child", |_| child().is_some());
    let sleeps =
        || procfs::stat("/".as_ref(), crowd.0.pid()).is_ok_and(|stat| stat.comm_text() == "sleep");
    watching.until("the release", |_| sleeps() && mask(crowd.0.pid()) == all);
    let child = child().expect("it sleeps");
    affinity::set(child, &last).expect("ours");
    watching.until("the release of the child", |_| mask(child) == all);
    watching.end();
}

/// Puts every job on the last CPU until it is told to give all back.
struct UntilTold(Rc<Cell<bool>>);

impl Policy for UntilTold {
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        if !self.0.get() {
            return LastCpu(INTERVAL).decide(seen, plan);
        }
        for job in seen.jobs.iter().filter(|job| job.placed.is_some()) {
            plan.request(
                job.job.id,
                Action::Release,
                Reason::new(ReasonCode::new("next-in-turn", "a test")),
            );
        }
    }

    fn name(&self) -> &str {
        "until-told"
    }

    fn interval(&self) -> Option<Nanos> {
        Some(INTERVAL)
    }
}

#[test]
fn the_same_holds_for_a_job_that_stays_one_after_its_release() {
    let Some((all, last)) = two_cpus() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let go = folder.path().join("go");
    let script = format!("while [ ! -e {} ]; do :; done; sleep 600 & {BURN}", go.display());
    let crowd = Crowd::shell(&script);
    let is_told = Rc::new(Cell::new(false));
    let policy = Box::new(UntilTold(Rc::clone(&is_told)));
    let mut watching = Watching::with(policy, &[crowd.0.pid()], |_| {});
    watching.until("the placement", |_| mask(crowd.0.pid()) == last);
    std::fs::write(&go, "").expect("ours");
    let child = || crowd.members().into_iter().find(|&pid| pid != crowd.0.pid());
    watching.until("a child", |_| child().is_some());
    is_told.set(true);
    watching.until("the release", |_| mask(crowd.0.pid()) == all);
    let child = child().expect("it sleeps");
    affinity::set(child, &last).expect("ours");
    watching.until("the release of the child", |_| mask(child) == all);
    watching.end();
}

#[test]
fn a_job_released_in_the_middle_leaves_no_child_behind() {
    let Some((all, last)) = two_cpus() else { return };
    let script = "i=0; while [ $i -lt 60 ]; do sleep 600 & i=$((i+1)); j=0; \
                  while [ $j -lt 3000 ]; do j=$((j+1)); done; done; exec sleep 600";
    let crowd = Crowd::shell(script);
    let mut watching = watch(&[&crowd.0], |options| {
        options.idle_after = INTERVAL;
        options.use_events = false;
    });
    watching.until("the placement", |_| mask(crowd.0.pid()) == last);
    watching.until("that it sleeps", |watching| watching.left(sched::DetachCause::Idle));
    // On a busy machine it may have waited for a CPU only, and is a job again, until it sleeps for good.
    let is_over =
        || procfs::stat("/".as_ref(), crowd.0.pid()).is_ok_and(|stat| stat.comm_text() == "sleep");
    watching.until("the end of its work", |_| is_over());
    let is_ours = |&pid: &u32| affinity::get(pid).is_ok_and(|mask| mask != all);
    watching.until("that nobody has anything of ours left", |watching| {
        watching.board().managed.is_empty() && !crowd.members().iter().any(is_ours)
    });
    assert_eq!(crowd.members().len(), 61);
    watching.end();
}

/// A cpuset of its own hierarchy with one CPU; `None` where there is none to be had.
struct Cpuset(std::path::PathBuf);

impl Cpuset {
    fn new(cpus: &CpuSet) -> Option<Self> {
        static IS_TAKEN: AtomicBool = AtomicBool::new(false);
        assert!(!IS_TAKEN.swap(true, Ordering::SeqCst), "one test uses it");
        let top = std::path::Path::new("/sys/fs/cgroup/cpuset");
        let folder = top.join(format!("evenkeel-test-{}", std::process::id()));
        if let Err(error) = std::fs::create_dir(&folder) {
            println!("not run: cannot make a cpuset: {error}");
            return None;
        }
        let cpuset = Cpuset(folder);
        let mems = std::fs::read_to_string(top.join("cpuset.mems")).expect("it is there");
        cpuset.write("cpuset.mems", mems.trim());
        cpuset.write("cpuset.cpus", &cpus.to_string());
        Some(cpuset)
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.0.join(file), text).unwrap_or_else(|error| panic!("{file}: {error}"));
    }

    fn take(&self, pid: u32) {
        self.write("cgroup.procs", &pid.to_string());
    }

    fn let_go(&self, pid: u32) {
        let top = self.0.parent().expect("the top").join("cgroup.procs");
        std::fs::write(top, pid.to_string()).expect("it lives");
    }
}

impl Drop for Cpuset {
    fn drop(&mut self) {
        let inside = std::fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        inside.lines().for_each(|pid| self.let_go(pid.parse().expect("a number")));
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn who_is_moved_to_another_cpuset_is_not_fought_for_and_has_all_again_when_it_comes_back() {
    let Some((all, last)) = two_cpus() else { return };
    let first: CpuSet = all.first().into_iter().collect();
    let Some(cpuset) = Cpuset::new(&first) else { return };
    let busy = Program::shell(BURN);
    let mut watching = watch(&[&busy], |_| ());
    watching.until("the placement", |_| mask(busy.pid()) == last);
    cpuset.take(busy.pid());
    watching.until("that it is noticed", |watching| {
        let is_it = |event: &JobEvent| {
            matches!(event, JobEvent::Unmanaged(_, UnmanagedCause::AffinityChanged(mask)) if *mask == first)
        };
        watching.events.iter().any(is_it)
    });
    assert_eq!(mask(busy.pid()), first);
    watching.end();
    assert_eq!(mask(busy.pid()), first);
    cpuset.let_go(busy.pid());
    assert_eq!(mask(busy.pid()), all, "nothing of ours is hidden in what it may use");
    // Put back inside a cpuset: it has all that the cpuset gives, and all when that grows.
    let mut watching = watch(&[&busy], |_| ());
    watching.until("the placement", |_| mask(busy.pid()) == last);
    cpuset.write("cpuset.cpus", &last.to_string());
    cpuset.take(busy.pid());
    for _ in 0..5 {
        assert!(watching.turn());
    }
    watching.end();
    assert_eq!(mask(busy.pid()), last);
    cpuset.write("cpuset.cpus", &all.to_string());
    assert_eq!(mask(busy.pid()), all);
    cpuset.let_go(busy.pid());
}
