//! Attached processes while CPUs go offline and cgroups change.

use std::fs;
use std::process::{Child, Command, Stdio};

use base::{CpuId, CpuSet, Nanos};
use host_live::ExclusionReason;
use rustix::process::Signal;

use crate::Promise;
use crate::cgroups::{TestCgroup, move_to_root};
use crate::live_run::{World, mask, signal};
use crate::nodes::{self, KernelSetting};
use crate::watch_run::{WatchRun, place_on_last_cpu, policy};

pub const ALL: &[Promise] = &[
    ("watched::a_process_on_an_offline_cpu_is_placed_again_and_restored_at_the_end", offline),
    (
        "watched::a_process_moved_to_another_cpuset_is_released_and_has_its_former_mask_outside",
        moved,
    ),
    ("watched::a_unit_is_found_in_the_unified_hierarchy_and_restored", unit),
    ("watched::a_watch_with_a_restricted_mask_places_within_it", bound),
    ("watched::cpus_isolated_during_the_watch_are_not_used", isolated_meanwhile),
    ("watched::isolated_cpus_are_not_used_and_processes_bound_to_them_are_excluded", isolated),
    (
        "watched::cpus_of_an_isolated_partition_are_not_used_and_its_processes_are_excluded",
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
        Burner(command.spawn().expect("the program starts"))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn mask(&self) -> CpuSet {
        mask(self.pid()).expect("the process exists")
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Watches processes with a policy that places them on the last CPU.
fn watch(burners: &[&Burner]) -> WatchRun {
    let pids: Vec<u32> = burners.iter().map(|burner| burner.pid()).collect();
    WatchRun::with(policy(INTERVAL, place_on_last_cpu), &pids, |options| options.use_events = true)
}

fn set(text: &str) -> CpuSet {
    text.parse().expect("a list")
}

fn all_cpus() -> CpuSet {
    linux::affinity::get(0).expect("own mask")
}

/// The last CPU that is not isolated.
fn last() -> CpuSet {
    all_cpus().last().into_iter().collect()
}

fn offline() {
    if last() != set("7") {
        println!("not run: CPU 7 is isolated");
        return;
    }
    let (burner, all) = (Burner::new(), all_cpus());
    let mut run = watch(&[&burner]);
    run.until("the placement", |_| burner.mask() == set("7"));
    let setting = KernelSetting::set(CPU7, "0");
    run.until("another placement", |_| burner.mask() == set("6"));
    drop(setting);
    run.until("the first placement again", |_| burner.mask() == set("7"));
    // The watch ends while the CPU is offline.
    let setting = KernelSetting::set(CPU7, "0");
    run.until("another placement", |_| burner.mask() == set("6"));
    run.end();
    drop(setting);
    nodes::until("all CPUs", || burner.mask() == all);
}

fn moved() {
    let (burner, all) = (Burner::new(), all_cpus());
    let cgroup = TestCgroup::new("evenkeel-moved");
    cgroup.write("cpuset.cpus", "0-1");
    let mut run = watch(&[&burner]);
    run.until("the placement", |_| burner.mask() == last());
    cgroup.add(burner.pid());
    run.until("detection of the cpuset", |run| {
        run.host.status().borrow().managed.iter().any(|managed| managed.is_unmanaged)
    });
    assert_eq!(burner.mask(), set("0-1"));
    run.end();
    assert_eq!(burner.mask(), set("0-1"));
    move_to_root(burner.pid());
    assert_eq!(burner.mask(), all, "no restriction of evenkeel remains");
}

fn unit() {
    let (inside, outside, all) = (Burner::new(), Burner::new(), all_cpus());
    let cgroup = TestCgroup::new("system.slice/evenkeel-test.service");
    cgroup.add(inside.pid());
    let world = World::new();
    let policy = "dfs[interval=250ms,domains=core,only_job=move,cooldown=0]";
    let args = ["watch", "--unit", "evenkeel-test", "--act", "--class", "*=8", "--quiet"];
    let mut command = crate::tool::command(&args);
    command.args(["--policy", policy]).env(linux::undo::STATE_VARIABLE, world.path("state"));
    let mut watch = command.spawn().expect("the program starts");
    nodes::until("its placement", || inside.mask().len() == 1);
    assert_eq!(outside.mask(), all);
    signal(watch.id(), Signal::TERM);
    assert!(watch.wait().expect("own child").success());
    assert_eq!((inside.mask(), outside.mask()), (all.clone(), all));
}

/// The kernel's list of CPUs isolated at boot. If the list is empty, a bind mount replaces it by CPU 7 during the
/// lifetime of this value: the test covers evenkeel's use of the list, not the kernel.
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
            fs::write(&file, "7\n").expect("own file");
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

fn mount(args: &[&str]) {
    let done = Command::new("mount").args(args).status().expect("mount is installed");
    assert!(done.success(), "mount {args:?}: {done}");
}

/// Waits until one process is placed and the other is excluded for its own affinity.
fn until_one_is_placed(run: &mut WatchRun, burner: &Burner, alone: &Burner) {
    run.until("the placement of one process and the exclusion of the other", |run| {
        let status = run.host.status().borrow().clone();
        let excluded = status.excluded.get(&ExclusionReason::OwnAffinity);
        burner.mask().len() == 1
            && excluded.is_some_and(|excluded| {
                excluded.examples.iter().any(|(pid, _)| *pid == alone.pid())
            })
    });
}

fn isolated() {
    let _list = IsolatedAtBoot::some();
    let isolated = linux::system::isolated_cpus("/".as_ref()).expect("lists");
    let own = all_cpus();
    // `taskset` and a new cpuset can contain isolated CPUs. The ordinary mask is that of process 1.
    let bind_init_and_self = |cpus: &CpuSet| {
        for pid in [0, 1] {
            linux::affinity::set(pid, cpus).expect("root privileges");
        }
    };
    bind_init_and_self(&own.or(&isolated));
    let (burner, bound) = (Burner::new(), Burner::new());
    let before = burner.mask();
    linux::affinity::set(bound.pid(), &isolated).expect("root privileges");
    let mut run = watch(&[&burner, &bound]);
    until_one_is_placed(&mut run, &burner, &bound);
    assert!(!burner.mask().iter().any(|cpu: CpuId| isolated.contains(cpu)), "{}", burner.mask());
    run.end();
    assert_eq!((burner.mask(), bound.mask()), (before, isolated));
    bind_init_and_self(&own);
}

fn partition() {
    let all = all_cpus();
    let (burner, inside) = (Burner::new(), Burner::new());
    let cgroup = TestCgroup::new("evenkeel-isolated");
    let kept = last();
    cgroup.write("cpuset.cpus", &kept.to_string());
    cgroup.write("cpuset.cpus.partition", "isolated");
    cgroup.add(inside.pid());
    assert_eq!(linux::system::isolated_cpus("/".as_ref()).expect("lists"), kept);
    let mut run = watch(&[&burner, &inside]);
    until_one_is_placed(&mut run, &burner, &inside);
    assert_eq!((burner.mask(), inside.mask()), (last(), kept.clone()));
    assert_ne!(last(), kept, "the partition owns the CPU exclusively");
    run.end();
    assert_eq!((burner.mask(), inside.mask()), (all.minus(&kept), kept));
    drop(cgroup);
    // The restored mask contains the CPU again.
    assert_eq!(all_cpus(), all);
}

fn bound() {
    let (burner, late, all) = (Burner::new(), Burner::new(), all_cpus());
    signal(late.pid(), Signal::STOP);
    linux::affinity::set(0, &set("0-3")).expect("root privileges");
    let mut run = watch(&[&burner, &late]);
    run.until("the placement", |_| burner.mask() == set("3"));
    let n_notes =
        |run: &WatchRun, text: &str| run.degraded.iter().filter(|note| note.contains(text)).count();
    assert_eq!(n_notes(&run, "programs are placed on 0-3 of the CPUs"), 1);
    // The mask of other processes loses an offline CPU, which is no mask of their own.
    let setting = KernelSetting::set(CPU6, "0");
    signal(late.pid(), Signal::CONT);
    run.until("the other placement", |_| late.mask() == set("3"));
    drop(setting);
    // A mask with CPUs outside of evenkeel's mask was set by another program.
    linux::affinity::set(burner.pid(), &set("3-4")).expect("root privileges");
    for _ in 0..5 {
        assert!(run.turn());
    }
    run.end();
    linux::affinity::set(0, &all).expect("root privileges");
    assert_eq!(burner.mask(), set("3-4"), "a mask of another program stays");
    assert_eq!(late.mask(), all);
}

fn isolated_meanwhile() {
    let cgroup = TestCgroup::new("evenkeel-apart");
    cgroup.write("cpuset.cpus", "5");
    if fs::write(cgroup.0.join("cpuset.cpus.partition"), "isolated").is_err() {
        println!("not run: this kernel isolates no partitions");
        return;
    }
    cgroup.write("cpuset.cpus.partition", "member");
    let (burner, all) = (Burner::new(), all_cpus());
    // The policy places on the last usable CPU, which is then isolated.
    let below: CpuSet = all.iter().filter(|cpu| cpu.0 <= 5).collect();
    linux::affinity::set(0, &below).expect("root privileges");
    let mut run = watch(&[&burner]);
    run.until("the placement", |_| burner.mask() == set("5"));
    cgroup.write("cpuset.cpus.partition", "isolated");
    run.until("another placement", |_| burner.mask() == set("4"));
    cgroup.write("cpuset.cpus.partition", "member");
    run.until("the first placement again", |_| burner.mask() == set("5"));
    run.end();
    linux::affinity::set(0, &all).expect("root privileges");
    assert_eq!(burner.mask(), all);
}
