//! Programs that somebody else started, with their memory on another node than where they are put.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;

use base::{CpuSet, JobId, Nanos, NodeId};
use host_live::ExclusionReason;
use program::MemoryPolicy;
use rustix::process::Signal;
use sched::{
    Action, Outcome, OutcomeResult, Plan, Policy, Reason, ReasonCode, RejectCause, Snapshot,
};

use crate::Promise;
use crate::nodes::{self, Knob};
use crate::play::{World, lives, mask, signal};
use crate::turns::Watching;
use crate::watched::Group;

pub const ALL: &[Promise] = &[
    ("watching::memory_goes_where_a_policy_wants_it_and_the_mask_is_given_back", scripted),
    ("watching::a_process_with_a_memory_policy_of_its_own_keeps_its_memory", own_policy),
    (
        "watching::who_has_nodes_of_its_own_is_left_alone_and_its_memory_is_not_moved_elsewhere",
        own_nodes,
    ),
    ("watching::memory_follows_and_a_signal_ends_it_with_the_mask_given_back", ended),
    ("watching::memory_follows_and_after_a_kill_restore_gives_the_mask_back", killed),
    ("watching::without_act_nothing_is_changed", only_watched),
];

const BALANCING: &str = "/proc/sys/kernel/numa_balancing";
const HOG_KIB: u64 = 64 * 1024;
const INTERVAL: Nanos = Nanos::from_millis(250);

/// A hog that somebody started: its memory lies on node 0, and nobody has bound it.
struct Hog(Child);

impl Hog {
    fn new() -> Self {
        let load = ["load", "hog", "--size", "64M", "--for", "300s", "--no-self-check"];
        // Whoever starts it binds itself while it does, so that memory is touched on node 0.
        let all = linux::affinity::get(0).expect("own mask");
        linux::affinity::set(0, &nodes::cpus(0)).expect("we are root");
        let mut command = crate::tool::command(&load);
        command.stdout(Stdio::null());
        let child = command.spawn().expect("it starts");
        linux::affinity::set(0, &all).expect("we are root");
        let hog = Hog(child);
        let memory = nodes::anonymous_from(hog.pid(), HOG_KIB);
        assert!(980 <= nodes::permille_on(&memory, 0), "{memory:?}");
        for tid in linux::procfs::threads("/".as_ref(), hog.pid()).expect("it lives") {
            linux::affinity::set(tid, &all).expect("we are root");
        }
        hog
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn permille_on_0(&self) -> u64 {
        nodes::permille_on(&nodes::anonymous_kib(self.pid()), 0)
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn all_cpus() -> CpuSet {
    linux::affinity::get(0).expect("own mask")
}

/// Puts every job on node 2, and its memory too once it is known where that lies.
#[derive(Default)]
struct ToNode2(BTreeSet<JobId>);

impl Policy for ToNode2 {
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        for job in seen.jobs.iter().filter(|job| job.movable && job.memory.is_some()) {
            if self.0.insert(job.job.id) {
                let (from, to, limit) = (None, NodeId(2), Action::NO_LIMIT);
                let reason = || Reason::new(ReasonCode::new("next-in-turn", "a test"));
                plan.request(job.job.id, Action::Place(nodes::cpus(2)), reason());
                plan.request(job.job.id, Action::MovePages { from, to, limit }, reason());
            }
        }
    }

    fn name(&self) -> &str {
        "to-node-2"
    }

    fn interval(&self) -> Option<Nanos> {
        Some(INTERVAL)
    }
}

fn to_node_2(hog: &Hog) -> Watching {
    let policy = Box::new(ToNode2::default());
    Watching::with(policy, &[hog.pid()], |options| options.use_events = true)
}

fn scripted() {
    let _still = Knob::set(BALANCING, "0");
    let (hog, all) = (Hog::new(), all_cpus());
    let mut watching = to_node_2(&hog);
    watching.until("the end of the move", |watching| !watching.moved.is_empty());
    let moved = watching.moved[0].clone();
    assert!(HOG_KIB * 980 / 1000 <= moved.moved.0 / 1024, "{moved:?}");
    let memory = nodes::anonymous_kib(hog.pid());
    assert!(980 <= nodes::permille_on(&memory, 2), "{memory:?}");
    assert_eq!(mask(hog.pid()), Some(nodes::cpus(2)));
    watching.end();
    assert_eq!(mask(hog.pid()), Some(all));
    assert!(lives(hog.pid()), "it goes on");
}

fn own_policy() {
    let _still = Knob::set(BALANCING, "0");
    let (policy, all) = (MemoryPolicy::Bind([NodeId(0)].into_iter().collect()), all_cpus());
    // It is inherited from the thread that starts it, as from numactl.
    let hog = std::thread::spawn(move || {
        linux::mempolicy::Prepared::new(&policy).apply().expect("node 0");
        Hog::new()
    });
    let hog = hog.join().expect("it starts");
    let mut watching = to_node_2(&hog);
    let is_move =
        |outcome: &&Outcome| matches!(outcome.action, Some(sched::Action::MovePages { .. }));
    watching.until("the wish", |watching| watching.outcomes.iter().any(|o| is_move(&o)));
    let outcome = watching.outcomes.iter().find(is_move).expect("it was there");
    assert!(
        matches!(&outcome.result, OutcomeResult::Rejected { cause: RejectCause::Unmanaged, detail }
            if detail.contains("memory policy of its own")),
        "{outcome:?}"
    );
    let board = watching.host.status().borrow().clone();
    let alone = board.excluded.get(&ExclusionReason::OwnMemoryPolicy).expect("it is told");
    assert_eq!(alone.examples, [(hog.pid(), "evenkeel".to_owned())]);
    assert_eq!(mask(hog.pid()), Some(nodes::cpus(2)), "its threads are placed like any");
    watching.end();
    assert!(980 <= hog.permille_on_0());
    assert_eq!(mask(hog.pid()), Some(all));
}

/// Wishes memory on node 2 in every turn, once it may.
struct Insists(Rc<Cell<bool>>);

impl Policy for Insists {
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        for job in seen.jobs.iter().filter(|_| self.0.get()) {
            let (from, to, limit) = (None, NodeId(2), Action::NO_LIMIT);
            let action = Action::MovePages { from, to, limit };
            plan.request(
                job.job.id,
                action,
                Reason::new(ReasonCode::new("next-in-turn", "a test")),
            );
        }
    }

    fn name(&self) -> &str {
        "insists"
    }

    fn interval(&self) -> Option<Nanos> {
        Some(INTERVAL)
    }
}

fn own_nodes() {
    let _still = Knob::set(BALANCING, "0");
    let (hog, inside) = (Hog::new(), Hog::new());
    let group = Group::new("evenkeel-nodes");
    fs::write(group.0.join("cpuset.mems"), "0-1").expect("ours");
    group.take(inside.pid());
    let wishes = Rc::new(Cell::new(false));
    let pids = [hog.pid(), inside.pid()];
    let mut watching = Watching::with(Box::new(Insists(Rc::clone(&wishes))), &pids, |_| ());
    watching.until("that one is looked after and the other left alone", |watching| {
        let is_it = watching.board().managed.iter().any(|managed| managed.pid == hog.pid());
        is_it && watching.left_alone(ExclusionReason::OwnAffinity, inside.pid())
    });
    // One that comes to a cpuset while it is looked after: it is refused before anything is tried.
    group.take(hog.pid());
    wishes.set(true);
    watching.until("the wish", |watching| !watching.outcomes.is_empty());
    let outcome = &watching.outcomes[0];
    assert!(
        matches!(&outcome.result, OutcomeResult::Rejected { cause: RejectCause::OutsideAllowed, detail }
            if detail.contains("to nodes 0-1")),
        "{outcome:?}"
    );
    watching.until("that it is left alone too", |watching| {
        watching.left_alone(ExclusionReason::OwnAffinity, hog.pid())
    });
    watching.end();
    assert!(980 <= hog.permille_on_0() && 980 <= inside.permille_on_0());
}

/// The program, watching a hog.
struct Watch {
    child: Child,
    world: World,
}

impl Watch {
    fn new(hog: &Hog, args: &[&str]) -> Self {
        let world = World::new();
        // One program with a class loads one node and no other, and this reading moves it then.
        let policy = "dfs[interval=250ms,domains=node,only_job=move,memory=follow]";
        let (pid, journal) = (hog.pid().to_string(), world.path("w.jsonl"));
        let mut command = crate::tool::command(&["watch", "--pid", &pid, "--class", "*=8"]);
        command.args(["--policy", policy, "--quiet", "--journal"]).arg(journal).args(args);
        command.env(linux::undo::STATE_VARIABLE, world.path("state"));
        Watch { child: command.spawn().expect("it starts"), world }
    }

    fn end_by(&mut self, by: Signal) {
        signal(self.child.id(), by);
        self.child.wait().expect("ours");
    }

    fn restore(&self) {
        let mut command = crate::tool::command(&["restore"]);
        let output = command.env(linux::undo::STATE_VARIABLE, self.world.path("state")).output();
        assert_eq!(output.expect("it runs").status.code(), Some(0));
    }

    fn explain(&self) -> String {
        let journal = self.world.path("w.jsonl");
        let output = Command::new(crate::tool::path()).arg("explain").arg(journal).output();
        crate::tool::text(&output.expect("it runs").stdout)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Watches until the memory is gone from node 0.
fn followed(hog: &Hog) -> Watch {
    let watch = Watch::new(hog, &["--act"]);
    nodes::until_or("its memory follows it", || hog.permille_on_0() <= 20, || watch.explain());
    nodes::until("it is placed", || mask(hog.pid()) != Some(all_cpus()));
    watch
}

fn ended() {
    let _still = Knob::set(BALANCING, "0");
    let (hog, all) = (Hog::new(), all_cpus());
    let mut watch = followed(&hog);
    watch.end_by(Signal::TERM);
    assert_eq!(mask(hog.pid()), Some(all));
    assert!(lives(hog.pid()), "it goes on");
    assert!(hog.permille_on_0() <= 20, "memory is not put back");
    let told = watch.explain().split_whitespace().collect::<Vec<_>>().join(" ");
    for words in ["migration of its pages to node", "of its pages migrated to node"] {
        assert!(told.contains(words), "{words}: {told}");
    }
}

fn killed() {
    let _still = Knob::set(BALANCING, "0");
    let (hog, all) = (Hog::new(), all_cpus());
    let mut watch = followed(&hog);
    watch.end_by(Signal::KILL);
    watch.restore();
    assert_eq!(mask(hog.pid()), Some(all));
    assert!(lives(hog.pid()), "it goes on");
}

fn only_watched() {
    let _still = Knob::set(BALANCING, "0");
    let (hog, all) = (Hog::new(), all_cpus());
    let mut watch = Watch::new(&hog, &[]);
    nodes::until("a wish that is only said", || {
        let text = std::fs::read_to_string(watch.world.path("w.jsonl")).unwrap_or_default();
        text.contains("dry-run")
    });
    assert_eq!(mask(hog.pid()), Some(all.clone()));
    watch.end_by(Signal::TERM);
    assert!(980 <= hog.permille_on_0());
    assert_eq!(mask(hog.pid()), Some(all));
}
