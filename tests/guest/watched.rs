//! Programs that somebody else started, while CPUs and cgroups change below them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use base::{CpuId, CpuSet, Nanos};
use host_live::ExclusionReason;
use rustix::process::Signal;

use crate::Promise;
use crate::nodes::{self, Knob};
use crate::play::{World, mask, signal};
use crate::turns::{LastCpu, Watching};

pub const ALL: &[Promise] = &[
    ("watched::who_was_on_a_cpu_that_went_offline_is_placed_again_and_has_all_at_the_end", offline),
    ("watched::who_is_moved_to_another_cpuset_is_not_fought_for_and_has_all_when_back", moved),
    ("watched::a_unit_is_found_in_the_one_hierarchy_and_put_back", unit),
    ("watched::bound_to_some_cpus_it_places_there_whatever_becomes_of_the_others", bound),
    ("watched::cpus_that_are_isolated_meanwhile_are_no_targets_any_more", isolated_meanwhile),
    ("watched::isolated_cpus_are_no_targets_and_who_is_bound_to_them_is_left_alone", isolated),
    (
        "watched::cpus_of_an_isolated_partition_are_no_targets_and_who_is_in_it_is_left_alone",
        partition,
    ),
];

const CPU6: &str = "/sys/devices/system/cpu/cpu6/online";
const CPU7: &str = "/sys/devices/system/cpu/cpu7/online";
const INTERVAL: Nanos = Nanos::from_millis(250);

/// A shell that burns CPU time.
struct Burner(Child);

impl Burner {
    fn new() -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]).stdout(Stdio::null());
        Burner(command.spawn().expect("it starts"))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn mask(&self) -> CpuSet {
        mask(self.pid()).expect("it lives")
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Watches them, and puts them on the last CPU.
fn watch(burners: &[&Burner]) -> Watching {
    let pids: Vec<u32> = burners.iter().map(|burner| burner.pid()).collect();
    Watching::with(Box::new(LastCpu(INTERVAL)), &pids, |options| options.use_events = true)
}

fn set(text: &str) -> CpuSet {
    text.parse().expect("a list")
}

fn all_cpus() -> CpuSet {
    linux::affinity::get(0).expect("own mask")
}

/// The last CPU that nothing keeps for somebody.
fn last() -> CpuSet {
    all_cpus().last().into_iter().collect()
}

fn offline() {
    if last() != set("7") {
        println!("not run: CPU 7 is isolated");
        return;
    }
    let (burner, all) = (Burner::new(), all_cpus());
    let mut watching = watch(&[&burner]);
    watching.until("the placement", |_| burner.mask() == set("7"));
    let knob = Knob::set(CPU7, "0");
    watching.until("another placement", |_| burner.mask() == set("6"));
    drop(knob);
    watching.until("the first one again", |_| burner.mask() == set("7"));
    // It ends with a CPU less than at the start, and that comes back later.
    let knob = Knob::set(CPU7, "0");
    watching.until("another placement", |_| burner.mask() == set("6"));
    watching.end();
    drop(knob);
    nodes::until("all CPUs", || burner.mask() == all);
}

/// A group of the unified hierarchy; removed at the end.
pub struct Group(pub PathBuf);

impl Group {
    pub fn new(path: &str) -> Self {
        let root = Path::new("/sys/fs/cgroup");
        fs::write(root.join("cgroup.subtree_control"), "+cpuset").expect("cgroup v2 in the guest");
        let folder = root.join(path);
        fs::create_dir_all(&folder).expect("a group of our own");
        Group(folder)
    }

    pub fn take(&self, pid: u32) {
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).expect("it lives");
    }
}

fn let_go(pid: u32) {
    fs::write("/sys/fs/cgroup/cgroup.procs", pid.to_string()).expect("it lives");
}

impl Drop for Group {
    fn drop(&mut self) {
        for pid in fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default().lines() {
            let _ = fs::write("/sys/fs/cgroup/cgroup.procs", pid);
        }
        let _ = fs::remove_dir(&self.0);
    }
}

fn moved() {
    let (burner, all) = (Burner::new(), all_cpus());
    let group = Group::new("evenkeel-moved");
    fs::write(group.0.join("cpuset.cpus"), "0-1").expect("ours");
    let mut watching = watch(&[&burner]);
    watching.until("the placement", |_| burner.mask() == last());
    group.take(burner.pid());
    watching.until("that it is noticed", |watching| {
        watching.host.status().borrow().managed.iter().any(|managed| managed.is_unmanaged)
    });
    assert_eq!(burner.mask(), set("0-1"));
    watching.end();
    assert_eq!(burner.mask(), set("0-1"));
    let_go(burner.pid());
    assert_eq!(burner.mask(), all, "nothing of ours is hidden in what it may use");
}

fn unit() {
    let (inside, outside, all) = (Burner::new(), Burner::new(), all_cpus());
    let group = Group::new("system.slice/evenkeel-test.service");
    group.take(inside.pid());
    let world = World::new();
    let policy = "dfs[interval=250ms,domains=core,only_job=move,cooldown=0]";
    let args = ["watch", "--unit", "evenkeel-test", "--act", "--class", "*=8", "--quiet"];
    let mut command = crate::tool::command(&args);
    command.args(["--policy", policy]).env(linux::undo::STATE_VARIABLE, world.path("state"));
    let mut watch = command.spawn().expect("it starts");
    nodes::until("its placement", || inside.mask().len() == 1);
    assert_eq!(outside.mask(), all);
    signal(watch.id(), Signal::TERM);
    assert!(watch.wait().expect("ours").success());
    assert_eq!((inside.mask(), outside.mask()), (all.clone(), all));
}

/// The kernel's list of CPUs isolated at boot. Where no CPU is, a file of ours lies over it that says so of
/// CPU 7, as long as this value lives: what evenkeel makes of the list is tried here, not the kernel.
struct IsolatedAtBoot {
    _folder: tempfile::TempDir,
    is_covered: bool,
}

const ISOLATED: &str = "/sys/devices/system/cpu/isolated";

impl IsolatedAtBoot {
    fn some() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let is_covered = fs::read_to_string(ISOLATED).expect(ISOLATED).trim().is_empty();
        if is_covered {
            let file = folder.path().join("isolated");
            fs::write(&file, "7\n").expect("ours");
            mount(&["--bind", &file.to_string_lossy(), ISOLATED]);
        }
        IsolatedAtBoot { _folder: folder, is_covered }
    }
}

impl Drop for IsolatedAtBoot {
    fn drop(&mut self) {
        if self.is_covered {
            let _ = Command::new("umount").arg(ISOLATED).status();
        }
    }
}

fn mount(words: &[&str]) {
    let done = Command::new("mount").args(words).status().expect("mount can be run");
    assert!(done.success(), "mount {words:?}: {done}");
}

/// Waits until one is placed by the policy and the other is left alone, for this reason.
fn until_one_is_placed(watching: &mut Watching, burner: &Burner, alone: &Burner) {
    watching.until("the placement of one, and that the other is left alone", |watching| {
        let board = watching.host.status().borrow().clone();
        let left = board.excluded.get(&ExclusionReason::OwnAffinity);
        burner.mask().len() == 1
            && left.is_some_and(|left| left.examples.iter().any(|(pid, _)| *pid == alone.pid()))
    });
}

fn isolated() {
    let _list = IsolatedAtBoot::some();
    let isolated = linux::system::isolated_cpus("/".as_ref()).expect("lists");
    let own = all_cpus();
    // As after `taskset`, or in a cpuset made anew: both give isolated CPUs back. The first process is
    // who tells what is ordinary.
    let bind_us = |cpus: &CpuSet| {
        for pid in [0, 1] {
            linux::affinity::set(pid, cpus).expect("we are root");
        }
    };
    bind_us(&own.or(&isolated));
    let (burner, bound) = (Burner::new(), Burner::new());
    let before = burner.mask();
    linux::affinity::set(bound.pid(), &isolated).expect("we are root");
    let mut watching = watch(&[&burner, &bound]);
    until_one_is_placed(&mut watching, &burner, &bound);
    assert!(!burner.mask().iter().any(|cpu: CpuId| isolated.contains(cpu)), "{}", burner.mask());
    watching.end();
    assert_eq!((burner.mask(), bound.mask()), (before, isolated));
    bind_us(&own);
}

fn partition() {
    let all = all_cpus();
    let (burner, inside) = (Burner::new(), Burner::new());
    let group = Group::new("evenkeel-isolated");
    let kept = last();
    fs::write(group.0.join("cpuset.cpus"), kept.to_string()).expect("ours");
    fs::write(group.0.join("cpuset.cpus.partition"), "isolated").expect("a kernel since 6.1");
    group.take(inside.pid());
    assert_eq!(linux::system::isolated_cpus("/".as_ref()).expect("lists"), kept);
    let mut watching = watch(&[&burner, &inside]);
    until_one_is_placed(&mut watching, &burner, &inside);
    assert_eq!((burner.mask(), inside.mask()), (last(), kept.clone()));
    assert_ne!(last(), kept, "the kernel has taken it from everybody else");
    watching.end();
    assert_eq!((burner.mask(), inside.mask()), (all.minus(&kept), kept));
    drop(group);
    // What was put back is the list that it had then.
    assert_eq!(all_cpus(), all);
}

fn bound() {
    let (burner, late, all) = (Burner::new(), Burner::new(), all_cpus());
    signal(late.pid(), Signal::STOP);
    linux::affinity::set(0, &set("0-3")).expect("we are root");
    let mut watching = watch(&[&burner, &late]);
    watching.until("the placement", |_| burner.mask() == set("3"));
    let said = |watching: &Watching, text: &str| {
        watching.degraded.iter().filter(|said| said.contains(text)).count()
    };
    assert_eq!(said(&watching, "programs are placed on 0-3 of the CPUs"), 1);
    // Others have other CPUs than before, we do not: they are ordinary all the same.
    let knob = Knob::set(CPU6, "0");
    signal(late.pid(), Signal::CONT);
    watching.until("the other placement", |_| late.mask() == set("3"));
    drop(knob);
    // What somebody else wants is told apart by CPUs that we may not use.
    linux::affinity::set(burner.pid(), &set("3-4")).expect("we are root");
    for _ in 0..5 {
        assert!(watching.turn());
    }
    watching.end();
    linux::affinity::set(0, &all).expect("we are root");
    assert_eq!(burner.mask(), set("3-4"), "it is not ours");
    assert_eq!(late.mask(), all);
}

fn isolated_meanwhile() {
    let group = Group::new("evenkeel-apart");
    fs::write(group.0.join("cpuset.cpus"), "5").expect("ours");
    if fs::write(group.0.join("cpuset.cpus.partition"), "isolated").is_err() {
        println!("not run: this kernel isolates no partitions");
        return;
    }
    fs::write(group.0.join("cpuset.cpus.partition"), "member").expect("ours");
    let (burner, all) = (Burner::new(), all_cpus());
    // Whoever is placed by this is on the last CPU: it is the one to be isolated.
    let below: CpuSet = all.iter().filter(|cpu| cpu.0 <= 5).collect();
    linux::affinity::set(0, &below).expect("we are root");
    let mut watching = watch(&[&burner]);
    watching.until("the placement", |_| burner.mask() == set("5"));
    fs::write(group.0.join("cpuset.cpus.partition"), "isolated").expect("it could before");
    watching.until("another placement", |_| burner.mask() == set("4"));
    fs::write(group.0.join("cpuset.cpus.partition"), "member").expect("ours");
    watching.until("that all can be used again", |_| burner.mask() == set("5"));
    watching.end();
    linux::affinity::set(0, &all).expect("we are root");
    assert_eq!(burner.mask(), all);
}
