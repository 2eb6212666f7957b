//! Tests of NUMA balancing.

use std::sync::Arc;

use super::tests::{bind, machine, mask_of, script, start};
use super::*;
use crate::frame::{JobStart, MemoryPlacement};
use crate::kernel::KernelVersion;
use crate::script::Script;

/// Returns two nodes of two CPUs with NUMA balancing, and a long-running program of 64 MiB that started on CPU 0.
fn balanced(memory: MemoryPlacement) -> Fluid {
    let mut fluid = machine("nodes=2 cores=2 mem=256M");
    fluid.settings.numa_balancing = true;
    let script = script(&fluid, 1e12, 0.0, 64);
    let allowed = Some(mask_of(&fluid, &[0]));
    fluid.start(JobStart { allowed, memory, ..JobStart::new(0, script) });
    fluid
}

/// Returns the seconds until most memory of the job is on node 1, and the node of the task at that time.
fn migrates(fluid: &mut Fluid) -> (f64, usize) {
    let begin = fluid.now();
    for _ in 0..400 {
        fluid.advance(fluid.now() + 100_000_000);
        fluid.check_pages().expect("all memory is accounted for");
        if fluid.memory_of(0)[0] < fluid.memory_of(0)[1] {
            break;
        }
    }
    let cpu = fluid.tasks_of(0).next().expect("it runs").cpu;
    ((fluid.now() - begin) as f64 / 1e9, fluid.hardware().cpus[cpu].node)
}

/// Returns the seconds until the memory of a job is on its new node, after the job was bound to it at `at_s`.
fn follows_after(kernel: KernelVersion, at_s: u64) -> f64 {
    let mut fluid = balanced(MemoryPlacement::FirstTouch);
    fluid.settings.kernel = kernel;
    fluid.advance(at_s * 1_000_000_000);
    bind(&mut fluid, 0, 2);
    let (seconds, node) = migrates(&mut fluid);
    assert_eq!(node, 1);
    seconds
}

#[test]
fn memory_of_a_young_job_follows_in_the_next_scan_and_memory_of_an_old_job_after_two_scans() {
    let after = |at_s| follows_after(KernelVersion::V4_2, at_s);
    // The first scan is at 2 s of CPU time, and the period doubles at the first fault. Without faults on another node,
    // the period increases by three tenths: scans are at 2, 4, 6.6, 10, 14.4, 20.1 and 27.5 s. The cost of each scan
    // delays the next scan slightly.
    assert!((0.9..1.3).contains(&after(1)), "{}", after(1));
    let old_s = after(11);
    assert!((9.0..9.7).contains(&old_s), "recorded at 14.4 s, migrated at 20.1 s: {old_s}");
}

#[test]
fn linux_6_18_scans_the_memory_of_an_old_job_once_per_eleven_scans() {
    let after = |at_s| follows_after(KernelVersion::V6_18, at_s);
    // The first two passes scan all mappings at 2 s and at 4 s, and the third begins with the memory at 6.6 s.
    assert!((0.9..1.3).contains(&after(1)), "{}", after(1));
    assert!((1.4..1.9).contains(&after(5)), "{}", after(5));
    // After that, each scan covers one unused mapping: at 9.2 and 11.8 s, then each second, because the task left its
    // node, until the fourth pass.
    assert!((9.5..11.5).contains(&after(12)), "{}", after(12));
}

/// Time at which a job has completed more than four passes.
const OLD_NS: u64 = 180_000_000_000;

#[test]
fn an_old_job_migrates_back_to_its_memory() {
    let mut fluid = balanced(MemoryPlacement::FirstTouch);
    fluid.advance(OLD_NS);
    bind(&mut fluid, 0, 2);
    fluid.advance(OLD_NS + 100_000_000);
    fluid.bind(0, None);
    fluid.advance(OLD_NS + 25_000_000_000);
    let cpu = fluid.tasks_of(0).next().expect("it runs").cpu;
    assert_eq!(fluid.hardware().cpus[cpu].node, 0);
    assert_eq!(fluid.counts.pages_moved_bytes, 0);
}

#[test]
fn two_old_jobs_are_swapped_if_no_cpu_is_idle() {
    let mut fluid = balanced(MemoryPlacement::FirstTouch);
    let work = script(&fluid, 1e12, 0.0, 64);
    (1..4).for_each(|job| start(&mut fluid, job, &work, Some(job)));
    fluid.advance(OLD_NS);
    // Job 0 runs on the node of job 2's memory and job 2 on the node of job 0's memory. All CPUs are busy.
    [(0, 2), (2, 0)].into_iter().for_each(|(job, cpu)| bind(&mut fluid, job, cpu));
    for job in 0..4 {
        fluid.bind(job, None);
    }
    fluid.advance(OLD_NS + 25_000_000_000);
    let node_of = |job| fluid.hardware().cpus[fluid.tasks_of(job).next().expect("runs").cpu].node;
    assert_eq!([0, 1, 2, 3].map(node_of), [0, 0, 1, 1]);
    assert_eq!(fluid.counts.pages_moved_bytes, 0);
}

#[test]
fn a_job_with_a_memory_policy_is_not_balanced() {
    for memory in [MemoryPlacement::Preferred(vec![0]), MemoryPlacement::Interleave(vec![0, 1])] {
        let mut fluid = balanced(memory);
        fluid.advance(500_000_000);
        bind(&mut fluid, 0, 2);
        fluid.advance(60_000_000_000);
        assert_eq!(fluid.counts.pages_moved_bytes, 0);
    }
}

/// Eleven programs on eight CPUs: without regard to memory, every program migrates between all nodes.
#[test]
fn most_rotating_tasks_stay_on_the_node_of_their_memory() {
    let mut fluid = machine("nodes=4 cores=2 mem=1G");
    fluid.settings.numa_balancing = true;
    let work = script(&fluid, 1e12, 0.0, 64);
    (0..11).for_each(|job| start(&mut fluid, job, &work, None));
    let (mut n_local, mut n_all) = (0, 0);
    for second in 4..60 {
        fluid.advance(second * 1_000_000_000);
        for job in 0..11 {
            let cpu = fluid.tasks_of(job).next().expect("it runs").cpu;
            n_local += usize::from(
                fluid.pages.home(job, &fluid.hardware) == Some(fluid.hardware.cpus[cpu].node),
            );
            n_all += 1;
        }
    }
    assert!(3 * n_all < 4 * n_local, "{n_local} of {n_all}");
    assert!(n_local < n_all, "some tasks migrate");
}

#[test]
fn threads_of_a_job_migrate_as_rarely_as_other_rotating_tasks() {
    let mut fluid = machine("nodes=4 cores=2 mem=1G");
    fluid.settings.numa_balancing = true;
    let work = script(&fluid, 1e12, 0.0, 64);
    let threads = Arc::new(Script { n_threads: 3, ..(*work).clone() });
    start(&mut fluid, 0, &threads, None);
    (1..9).for_each(|job| start(&mut fluid, job, &work, None));
    let nodes = |fluid: &Fluid| -> Vec<usize> {
        let tasks = (0..9).flat_map(|job| fluid.tasks_of(job));
        tasks.map(|task| fluid.hardware.cpus[task.cpu].node).collect()
    };
    fluid.advance(20_000_000_000);
    let (mut before, mut n_changes) = (nodes(&fluid), [0; 11]);
    for tenth in 201..800 {
        fluid.advance(tenth * 100_000_000);
        let now = nodes(&fluid);
        for (n, (a, b)) in n_changes.iter_mut().zip(before.iter().zip(&now)) {
            *n += u32::from(a != b);
        }
        before = now;
    }
    let [threads, others] = [&n_changes[..3], &n_changes[3..]].map(|n| n.iter().sum::<u32>());
    assert!(0 < others && threads * 8 < 2 * 3 * others, "{n_changes:?}");
}

/// A job with a memory policy has no preferred node, so its CPU comes first. It is bound.
#[test]
fn a_bound_task_without_a_preferred_node_keeps_no_task_of_its_node_from_an_idle_cpu() {
    for kernel in [KernelVersion::V6_18, KernelVersion::V4_2] {
        for with in [2, 3] {
            let mut fluid = machine("nodes=2 cores=2 mem=1G");
            (fluid.settings.numa_balancing, fluid.settings.kernel) = (true, kernel);
            let work = script(&fluid, 1e12, 0.0, 64);
            (0..2).for_each(|job| start(&mut fluid, job, &work, Some(2)));
            let memory = MemoryPlacement::Preferred(vec![1]);
            let allowed = Some(mask_of(&fluid, &[with]));
            fluid.start(JobStart { allowed, memory, ..JobStart::new(2, work.clone()) });
            start(&mut fluid, 3, &work, Some(0));
            fluid.advance(5_000_000_000);
            // Job 1 may leave for CPU 1, which is idle. Job 3 and the others stay.
            let wider = mask_of(&fluid, &[1, 2]);
            fluid.bind(1, Some(wider));
            fluid.advance(7_000_000_000);
            assert_eq!(fluid.tasks_of(1).next().expect("it runs").cpu, 1, "{kernel:?} {with}");
            fluid.check_invariants().expect("no task waits");
        }
    }
}

#[test]
fn the_home_of_memory_on_a_node_without_cpus_is_the_nearest_node_with_cpus() {
    let mut fluid = balanced(MemoryPlacement::FirstTouch);
    fluid.advance(1_000_000_000);
    assert_eq!(fluid.pages.home(0, &fluid.hardware), Some(0));
    let mut hardware = (*fluid.hardware).clone();
    hardware.nodes[0].cpus.clear();
    assert_eq!(fluid.pages.home(0, &hardware), Some(1));
}
