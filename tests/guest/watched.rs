//! Attached processes while CPUs go offline and cgroups change.

use std::fs;
use std::process::Command;

use base::{CpuId, CpuSet, Nanos};
use host_live::ExclusionReason;
use rustix::process::Signal;
use tests::evenkeel::{EvenkeelWatch, MIGRATES_ONLY_JOB};
use tests::process::{Process, all_cpus, until};
use tests::watch_run::{WatchRun, place_on_last_cpu, policy};

use crate::nodes::KernelSetting;
use crate::{Promise, cgroup};

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

const INTERVAL: Nanos = Nanos::from_millis(250);

/// Starts a watch with a policy that places all processes on the last CPU.
fn watch(processes: &[&Process]) -> WatchRun {
    let pids: Vec<u32> = processes.iter().map(|process| process.pid()).collect();
    WatchRun::with(policy(INTERVAL, place_on_last_cpu), &pids, |options| options.use_events = true)
}

fn set(text: &str) -> CpuSet {
    text.parse().expect("a list")
}

/// Returns the last CPU that is not isolated.
fn last() -> CpuSet {
    all_cpus().last().into_iter().collect()
}

fn offline() {
    if last() != set("7") {
        println!("not run: CPU 7 is isolated");
        return;
    }
    let (busy, all) = (Process::busy(), all_cpus());
    let mut run = watch(&[&busy]);
    run.until("the placement", |_| busy.mask() == set("7"));
    let setting = KernelSetting::offline(7);
    run.until("another placement", |_| busy.mask() == set("6"));
    drop(setting);
    run.until("the first placement again", |_| busy.mask() == set("7"));
    // The watch ends while the CPU is offline.
    let setting = KernelSetting::offline(7);
    run.until("another placement", |_| busy.mask() == set("6"));
    run.end();
    drop(setting);
    until("all CPUs", || busy.mask() == all);
}

fn moved() {
    let (busy, all) = (Process::busy(), all_cpus());
    let cgroup = cgroup("evenkeel-moved");
    cgroup.write("cpuset.cpus", "0-1");
    let mut run = watch(&[&busy]);
    run.until("the placement", |_| busy.mask() == last());
    cgroup.add(busy.pid());
    run.until("detection of the cpuset", |run| {
        run.host.status().borrow().managed.iter().any(|managed| managed.is_unmanaged)
    });
    assert_eq!(busy.mask(), set("0-1"));
    run.end();
    assert_eq!(busy.mask(), set("0-1"));
    cgroup.remove(busy.pid());
    assert_eq!(busy.mask(), all, "no restriction of evenkeel remains");
}

fn unit() {
    let (inside, outside, all) = (Process::busy(), Process::busy(), all_cpus());
    let cgroup = cgroup("system.slice/evenkeel-test.service");
    cgroup.add(inside.pid());
    let args = ["--unit", "evenkeel-test", "--act", "--class", "*=8", "--quiet"];
    let mut watch = EvenkeelWatch::new(&[&args[..], &["--policy", MIGRATES_ONLY_JOB]].concat());
    until("its placement", || inside.mask().len() == 1);
    assert_eq!(outside.mask(), all);
    let (stderr, code) = watch.end();
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!((inside.mask(), outside.mask()), (all.clone(), all));
}

/// The kernel's list of CPUs isolated at boot. If the list is empty, a bind mount replaces it by CPU 7 during the
/// lifetime of this value: the test checks how evenkeel uses the list, and not the kernel.
struct IsolatedAtBoot {
    _dir: tempfile::TempDir,
    is_covered: bool,
}

const ISOLATED: &str = "/sys/devices/system/cpu/isolated";

impl IsolatedAtBoot {
    fn some() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let is_covered = fs::read_to_string(ISOLATED).expect(ISOLATED).trim().is_empty();
        if is_covered {
            let file = dir.path().join("isolated");
            fs::write(&file, "7\n").expect("own file");
            mount(&["--bind", &file.to_string_lossy(), ISOLATED]);
        }
        IsolatedAtBoot { _dir: dir, is_covered }
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
    let status = Command::new("mount").args(args).status().expect("mount is installed");
    assert!(status.success(), "mount {args:?}: {status}");
}

/// Waits until one process is placed and the other process is excluded because of its own affinity.
fn until_one_is_placed(run: &mut WatchRun, busy: &Process, alone: &Process) {
    run.until("the placement of one process and the exclusion of the other", |run| {
        let status = run.host.status().borrow().clone();
        let excluded = status.excluded.get(&ExclusionReason::OwnAffinity);
        busy.mask().len() == 1
            && excluded.is_some_and(|excluded| {
                excluded.examples.iter().any(|(pid, _)| *pid == alone.pid())
            })
    });
}

fn isolated() {
    let _list = IsolatedAtBoot::some();
    let isolated = linux::system::isolated_cpus("/".as_ref()).expect("lists");
    let ordinary_mask = all_cpus();
    // `taskset` and a new cpuset can contain isolated CPUs. The mask of process 1 is the ordinary mask.
    let bind_init_and_self = |cpus: &CpuSet| {
        for pid in [0, 1] {
            linux::affinity::set(pid, cpus).expect("root privileges");
        }
    };
    bind_init_and_self(&ordinary_mask.or(&isolated));
    let (busy, bound) = (Process::busy(), Process::busy());
    let before = busy.mask();
    linux::affinity::set(bound.pid(), &isolated).expect("root privileges");
    let mut run = watch(&[&busy, &bound]);
    until_one_is_placed(&mut run, &busy, &bound);
    assert!(!busy.mask().iter().any(|cpu: CpuId| isolated.contains(cpu)), "{}", busy.mask());
    run.end();
    assert_eq!((busy.mask(), bound.mask()), (before, isolated));
    bind_init_and_self(&ordinary_mask);
}

fn partition() {
    let all = all_cpus();
    let (busy, inside) = (Process::busy(), Process::busy());
    let cgroup = cgroup("evenkeel-isolated");
    let last_cpu = last();
    cgroup.write("cpuset.cpus", &last_cpu.to_string());
    cgroup.write("cpuset.cpus.partition", "isolated");
    cgroup.add(inside.pid());
    assert_eq!(linux::system::isolated_cpus("/".as_ref()).expect("lists"), last_cpu);
    let mut run = watch(&[&busy, &inside]);
    until_one_is_placed(&mut run, &busy, &inside);
    assert_eq!((busy.mask(), inside.mask()), (last(), last_cpu.clone()));
    assert_ne!(last(), last_cpu, "the partition owns the CPU exclusively");
    run.end();
    assert_eq!((busy.mask(), inside.mask()), (all.minus(&last_cpu), last_cpu));
    drop(cgroup);
    // The restored mask contains the CPU again.
    assert_eq!(all_cpus(), all);
}

fn bound() {
    let (busy, late, all) = (Process::busy(), Process::busy(), all_cpus());
    late.signal(Signal::STOP);
    linux::affinity::set(0, &set("0-3")).expect("root privileges");
    let mut run = watch(&[&busy, &late]);
    run.until("the placement", |_| busy.mask() == set("3"));
    let n_notes =
        |run: &WatchRun, text: &str| run.degraded.iter().filter(|note| note.contains(text)).count();
    assert_eq!(n_notes(&run, "programs are placed on 0-3 of the CPUs"), 1);
    // The masks of all other processes lose an offline CPU; such a mask is not an own affinity.
    let setting = KernelSetting::offline(6);
    late.signal(Signal::CONT);
    run.until("the other placement", |_| late.mask() == set("3"));
    drop(setting);
    // A mask with CPUs outside of evenkeel's mask was set by another program.
    linux::affinity::set(busy.pid(), &set("3-4")).expect("root privileges");
    for _ in 0..5 {
        assert!(run.turn());
    }
    run.end();
    linux::affinity::set(0, &all).expect("root privileges");
    assert_eq!(busy.mask(), set("3-4"), "a mask of another program stays");
    assert_eq!(late.mask(), all);
}

fn isolated_meanwhile() {
    let cgroup = cgroup("evenkeel-apart");
    cgroup.write("cpuset.cpus", "5");
    if fs::write(cgroup.dir.join("cpuset.cpus.partition"), "isolated").is_err() {
        println!("not run: this kernel isolates no partitions");
        return;
    }
    cgroup.write("cpuset.cpus.partition", "member");
    let (busy, all) = (Process::busy(), all_cpus());
    // The policy places the job on the last usable CPU, and this CPU is isolated afterwards.
    let below: CpuSet = all.iter().filter(|cpu| cpu.0 <= 5).collect();
    linux::affinity::set(0, &below).expect("root privileges");
    let mut run = watch(&[&busy]);
    run.until("the placement", |_| busy.mask() == set("5"));
    cgroup.write("cpuset.cpus.partition", "isolated");
    run.until("another placement", |_| busy.mask() == set("4"));
    cgroup.write("cpuset.cpus.partition", "member");
    run.until("the first placement again", |_| busy.mask() == set("5"));
    run.end();
    linux::affinity::set(0, &all).expect("root privileges");
    assert_eq!(busy.mask(), all);
}
