//! Attached processes whose memory is on another node than the target of the policy.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::process::Stdio;
use std::rc::Rc;

use base::{CpuId, Nanos, NodeId};
use host_live::ExclusionReason;
use program::MemoryPolicy;
use rustix::process::Signal;
use sched::{Action, Outcome, OutcomeResult, Plan, RejectCause, Snapshot};
use tests::evenkeel::EvenkeelWatch;
use tests::process::{Process, all_cpus, is_running, mask, until, until_or};
use tests::watch_run::{WatchRun, policy, reason};

use crate::nodes::{self, KernelSetting};
use crate::{Promise, cgroup};

pub const ALL: &[Promise] = &[
    ("watching::memory_moves_to_the_requested_node_and_the_mask_is_restored", scripted),
    ("watching::a_process_with_a_memory_policy_of_its_own_keeps_its_memory", own_policy),
    ("watching::a_process_in_a_cpuset_is_excluded_and_its_memory_stays", own_nodes),
    ("watching::memory_follows_and_sigterm_restores_the_mask", ended),
    ("watching::memory_follows_and_restore_after_sigkill_restores_the_mask", killed),
    ("watching::without_act_nothing_is_changed", only_watched),
];

const HOG_KIB: u64 = 64 * 1024;
const INTERVAL: Nanos = Nanos::from_millis(250);

/// A hog that evenkeel did not start. Its memory is on node 0, and no program has set its affinity.
struct Hog(Process);

impl Hog {
    fn new() -> Self {
        let load = ["load", "hog", "--size", "64M", "--for", "300s", "--no-self-check"];
        // The child inherits the mask of this thread, so that the first touch is on node 0.
        let all = all_cpus();
        linux::affinity::set(0, &nodes::cpus(0)).expect("root privileges");
        let mut command = tests::tool::command(&load);
        command.stdout(Stdio::null());
        let process = Process::spawn(&mut command);
        linux::affinity::set(0, &all).expect("root privileges");
        let hog = Hog(process);
        let memory = nodes::wait_for_anonymous(hog.pid(), HOG_KIB);
        nodes::check_share(&memory, 0, 980);
        for tid in linux::procfs::threads("/".as_ref(), hog.pid()).expect("the process exists") {
            linux::affinity::set(tid, &all).expect("root privileges");
        }
        hog
    }

    fn pid(&self) -> u32 {
        self.0.pid()
    }

    fn permille_on_0(&self) -> u64 {
        nodes::permille_on(&nodes::anonymous_kib(self.pid()), 0)
    }

    fn runs_on_0(&self) -> bool {
        let stat = linux::procfs::stat("/".as_ref(), self.pid()).expect("the process exists");
        nodes::cpus(0).contains(CpuId(stat.last_cpu))
    }
}

/// Places each job and its memory on node 2 after the memory was sampled.
fn to_node_2(hog: &Hog) -> WatchRun {
    let mut requested = BTreeSet::new();
    let decide = move |snapshot: &Snapshot<'_>, plan: &mut Plan| {
        for job in snapshot.jobs.iter().filter(|job| job.movable && job.memory.is_some()) {
            if requested.insert(job.job.id) {
                plan.request(job.job.id, Action::Place(nodes::cpus(2)), reason());
                plan.request(job.job.id, memory_to_2(), reason());
            }
        }
    };
    WatchRun::with(policy(INTERVAL, decide), &[hog.pid()], |options| options.use_events = true)
}

fn memory_to_2() -> Action {
    Action::MovePages { from: None, to: NodeId(2), limit: Action::NO_LIMIT }
}

fn scripted() {
    let _no_balancing = KernelSetting::no_balancing();
    let (hog, all) = (Hog::new(), all_cpus());
    let mut run = to_node_2(&hog);
    run.until("the end of the move", |run| !run.moved.is_empty());
    let moved = run.moved[0].clone();
    assert!(HOG_KIB * 980 / 1000 <= moved.moved.0 / 1024, "{moved:?}");
    let memory = nodes::anonymous_kib(hog.pid());
    nodes::check_share(&memory, 2, 980);
    assert_eq!(mask(hog.pid()), Some(nodes::cpus(2)));
    run.end();
    assert_eq!(mask(hog.pid()), Some(all));
    assert!(is_running(hog.pid()), "the process continues");
}

fn own_policy() {
    let _no_balancing = KernelSetting::no_balancing();
    let (policy, all) = (MemoryPolicy::Bind([NodeId(0)].into_iter().collect()), all_cpus());
    // The hog inherits the memory policy of the thread that starts the hog, as with numactl.
    let hog = std::thread::spawn(move || {
        linux::mempolicy::Prepared::new(&policy).apply().expect("node 0");
        Hog::new()
    });
    let hog = hog.join().expect("the program starts");
    let mut run = to_node_2(&hog);
    let is_move =
        |outcome: &&Outcome| matches!(outcome.action, Some(sched::Action::MovePages { .. }));
    run.until("the outcome of the request", |run| run.outcomes.iter().any(|o| is_move(&o)));
    let outcome = run.outcomes.iter().find(is_move).expect("an outcome");
    assert!(
        matches!(&outcome.result, OutcomeResult::Rejected { cause: RejectCause::Unmanaged, detail }
            if detail.contains("own memory policy")),
        "{outcome:?}"
    );
    let status = run.host.status().borrow().clone();
    let excluded = status.excluded.get(&ExclusionReason::OwnMemoryPolicy).expect("an entry");
    assert_eq!(excluded.examples, [(hog.pid(), "evenkeel".to_owned())]);
    assert_eq!(mask(hog.pid()), Some(nodes::cpus(2)), "its threads are placed");
    run.end();
    assert!(980 <= hog.permille_on_0());
    assert_eq!(mask(hog.pid()), Some(all));
}

fn own_nodes() {
    let _no_balancing = KernelSetting::no_balancing();
    let (hog, inside) = (Hog::new(), Hog::new());
    let cgroup = cgroup("evenkeel-nodes");
    cgroup.write("cpuset.mems", "0-1");
    cgroup.add(inside.pid());
    let is_enabled = Rc::new(Cell::new(false));
    let pids = [hog.pid(), inside.pid()];
    let requests_moves = Rc::clone(&is_enabled);
    let decide = move |snapshot: &Snapshot<'_>, plan: &mut Plan| {
        for job in snapshot.jobs.iter().filter(|_| requests_moves.get()) {
            plan.request(job.job.id, memory_to_2(), reason());
        }
    };
    let mut run = WatchRun::with(policy(INTERVAL, decide), &pids, |_| ());
    run.until("one managed and one excluded process", |run| {
        let is_managed = run.status().managed.iter().any(|managed| managed.pid == hog.pid());
        is_managed && run.excludes(ExclusionReason::OwnAffinity, inside.pid())
    });
    // A managed process moves to a cpuset: the host rejects the request before any system call.
    cgroup.add(hog.pid());
    is_enabled.set(true);
    run.until("the outcome of the request", |run| !run.outcomes.is_empty());
    let outcome = &run.outcomes[0];
    assert!(
        matches!(&outcome.result, OutcomeResult::Rejected { cause: RejectCause::OutsideAllowed, detail }
            if detail.contains("to nodes 0-1")),
        "{outcome:?}"
    );
    run.until("exclusion of the managed process", |run| {
        run.excludes(ExclusionReason::OwnAffinity, hog.pid())
    });
    run.end();
    assert!(980 <= hog.permille_on_0() && 980 <= inside.permille_on_0());
}

/// Starts `evenkeel watch` for a hog.
fn watch(hog: &Hog, args: &[&str]) -> EvenkeelWatch {
    // The only job loads one node, and `only_job=move` migrates the job.
    let policy = "dfs[interval=250ms,domains=node,only_job=move,memory=follow]";
    let pid = hog.pid().to_string();
    let selection = ["--pid", &pid, "--class", "*=8", "--policy", policy, "--quiet"];
    EvenkeelWatch::new(&[&selection[..], args].concat())
}

/// Starts a hog and watches it until less than 2 % of its memory is on node 0.
///
/// The policy migrates a job from the node that has the load of the job. If the kernel has moved the hog off node 0
/// before, no job runs on the node with the load, and no job migrates. In this case another hog is started.
fn watch_until_memory_follows() -> (Hog, EvenkeelWatch) {
    for _ in 0..20 {
        let hog = Hog::new();
        let mut watch = watch(&hog, &["--act"]);
        let (placed, mut left) = (|| mask(hog.pid()) != Some(all_cpus()), false);
        until_or(
            "the placement",
            || {
                left = !placed() && !hog.runs_on_0();
                left || placed()
            },
            || watch.explain(),
        );
        if !left {
            until_or("the page migration", || hog.permille_on_0() <= 20, || watch.explain());
            return (hog, watch);
        }
        println!(
            "the kernel moved the hog off node 0 before its placement: another one is started"
        );
        watch.end();
    }
    panic!("the kernel moved 20 hogs off node 0 before their placement");
}

fn ended() {
    let _no_balancing = KernelSetting::no_balancing();
    let (hog, mut watch) = watch_until_memory_follows();
    watch.end();
    assert_eq!(mask(hog.pid()), Some(all_cpus()));
    assert!(is_running(hog.pid()), "the process continues");
    assert!(hog.permille_on_0() <= 20, "memory stays on its node");
    let explained = watch.explain().split_whitespace().collect::<Vec<_>>().join(" ");
    for text in ["migration of its pages to node", "of its pages migrated to node"] {
        assert!(explained.contains(text), "{text}: {explained}");
    }
}

fn killed() {
    let _no_balancing = KernelSetting::no_balancing();
    let (hog, mut watch) = watch_until_memory_follows();
    watch.process.signal(Signal::KILL);
    watch.wait();
    assert_eq!(watch.run(&["restore"]).status.code(), Some(0));
    assert_eq!(mask(hog.pid()), Some(all_cpus()));
    assert!(is_running(hog.pid()), "the process continues");
}

fn only_watched() {
    let _no_balancing = KernelSetting::no_balancing();
    let (hog, all) = (Hog::new(), all_cpus());
    let mut watch = watch(&hog, &[]);
    until("a request that is not carried out", || watch.dir.text("w.jsonl").contains("dry-run"));
    assert_eq!(mask(hog.pid()), Some(all.clone()));
    watch.end();
    assert!(980 <= hog.permille_on_0());
    assert_eq!(mask(hog.pid()), Some(all));
}
