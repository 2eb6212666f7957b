//! Tests of CPU selection and load balancing on small machines.

use topology::Machine;

use super::*;

/// Returns a kernel with empty run queues on a synthetic machine.
fn booted(version: KernelVersion, machine: &str) -> KernelModel {
    let hardware = Hardware::new(&Machine::synthetic(machine).expect("a machine"));
    KernelModel::new(version, Arc::new(hardware))
}

/// Returns the CPUs of `n_tasks` tasks that are forked one after the other on CPU 0.
fn forked(version: KernelVersion, machine: &str, n_tasks: usize) -> Vec<usize> {
    let mut kernel = booted(version, machine);
    let one = |_| {
        let cpu = kernel.fork(0, None, &mut None).expect("a CPU");
        kernel.add_task(cpu);
        cpu
    };
    (0..n_tasks).map(one).collect()
}

/// Returns the nodes of the forked tasks, with `cores` CPUs per node.
fn nodes_of(cores: usize, n_tasks: usize) -> Vec<usize> {
    let cpus = forked(KernelVersion::V6_18, &format!("nodes=2 cores={cores}"), n_tasks);
    cpus.iter().map(|cpu| cpu / cores).collect()
}

#[test]
fn new_tasks_fill_an_eighth_of_the_node_before_they_leave_it() {
    // With more than one busy CPU of eight, the less busy node is selected; at equal load, the local node.
    assert_eq!(nodes_of(8, 6), [0, 1, 0, 1, 0, 1]);
    // Four of 32 CPUs may be busy, but the fourth task would exceed the tolerated imbalance.
    assert_eq!(nodes_of(32, 6), [0, 0, 0, 1, 0, 1]);
}

#[test]
fn a_difference_of_two_idle_cpus_between_nodes_is_tolerated_on_a_mostly_idle_node() {
    let mut kernel = booted(KernelVersion::V6_18, "nodes=2 cores=32");
    let takes = |_: usize, _: usize, _: bool| true;
    let balance = |kernel: &mut KernelModel| (0..9).find_map(|_| kernel.balance(&takes));
    [0, 1].into_iter().for_each(|cpu| kernel.add_task(cpu));
    assert_eq!(balance(&mut kernel), None, "the imbalance of two tasks is tolerated");
    [2, 3].into_iter().for_each(|cpu| kernel.add_task(cpu));
    let pull = balance(&mut kernel).expect("four are too many");
    assert_eq!((pull.from / 32, pull.to / 32, pull.running_too), (0, 1, true));
}

#[test]
fn a_task_is_moved_when_its_load_has_been_halved_after_enough_failed_attempts() {
    let mut kernel = booted(KernelVersion::V6_18, "cores=2");
    [0, 0, 1].into_iter().for_each(|cpu| kernel.add_task(cpu));
    let attempts = |version: KernelVersion| {
        let mut kernel = KernelModel { version, ..kernel.clone() };
        (0..9).position(|_| kernel.balance_busy((0, 1), &|_, _| true).is_some())
    };
    // The load is 1024, and half of it may be moved, so one attempt fails.
    assert_eq!(attempts(KernelVersion::V6_18), Some(1));
    assert_eq!(attempts(KernelVersion::V4_2), Some(0));
    assert_eq!(kernel.balance_busy((0, 0), &|_, _| true), None, "its load is above the average");
}

#[test]
fn old_kernels_spread_new_tasks_over_nodes_from_the_first_task() {
    for version in [KernelVersion::V4_2, KernelVersion::V2_6_27] {
        let nodes: Vec<usize> =
            forked(version, "nodes=2 cores=8", 4).iter().map(|cpu| cpu / 8).collect();
        // If both nodes are idle, the remote node is selected without a difference in load.
        assert_eq!(nodes, [1, 0, 0, 1], "{version:?}");
    }
}

#[test]
fn an_idle_core_comes_before_an_idle_sibling() {
    assert_eq!(forked(KernelVersion::V6_18, "cores=2 smt=2", 4), [0, 2, 1, 3]);
}

#[test]
fn a_task_wakes_up_on_its_previous_cpu_or_in_its_llc_domain() {
    let mut kernel = booted(KernelVersion::V6_18, "nodes=2 cores=2");
    assert_eq!(kernel.wake(2, None, &mut None), Some(2));
    kernel.add_task(2);
    assert_eq!(kernel.wake(2, None, &mut None), Some(3), "the other CPU of its LLC domain");
    kernel.add_task(3);
    assert_eq!(kernel.wake(2, None, &mut None), Some(2), "other LLC domains are not considered");
    kernel.version = KernelVersion::V2_6_27;
    kernel.remove_task(3);
    assert_eq!(kernel.wake(2, None, &mut None), Some(2));
}

#[test]
fn without_waiting_tasks_no_task_is_pulled_and_a_waiting_task_is_pulled() {
    let mut kernel = booted(KernelVersion::V6_18, "nodes=2 cores=2");
    let takes = |_: usize, _: usize, _: bool| true;
    [0, 1, 2].into_iter().for_each(|cpu| kernel.add_task(cpu));
    assert_eq!(kernel.balance(&takes), None);
    [0, 0].into_iter().for_each(|cpu| kernel.add_task(cpu));
    let pull = kernel.balance(&takes).expect("a task waits");
    assert_eq!((pull.from, pull.to, pull.running_too), (0, 3, false));
    assert_eq!(kernel.pull_idle(3, &|_| true).map(|pull| pull.from), Some(0));
    assert_eq!(kernel.pull_idle(3, &|_| false), None, "no task may run there");
}

/// Returns the CPU on node 1 that NUMA balancing selects for a task on CPU 0, with these running tasks.
fn numa_cpu_for(version: KernelVersion, running: &[usize]) -> Option<usize> {
    let mut kernel = booted(version, "nodes=2 cores=4");
    running.iter().for_each(|&cpu| kernel.add_task(cpu));
    kernel.numa_cpu((0, 1), None)
}

#[test]
fn a_task_migrates_to_its_memory_if_the_imbalance_does_not_grow() {
    let selected = |running: &[usize]| numa_cpu_for(KernelVersion::V6_18, running);
    assert_eq!(selected(&[0]), Some(4), "node 1 is idle");
    assert_eq!(selected(&[0, 1]), Some(4), "each node would have one task");
    assert_eq!(selected(&[0, 1, 4]), None, "node 1 would have two tasks, node 0 one");
    assert_eq!(selected(&[0, 4, 5]), None, "node 1 would have three tasks, node 0 none");
    assert_eq!(
        selected(&[0, 0, 1, 2, 3, 4, 5, 6, 7]),
        Some(4),
        "five and four tasks become four and five"
    );
    assert_eq!(
        selected(&[0, 1, 2, 3, 4, 5, 6, 7]),
        None,
        "four and four tasks would become three and five"
    );
    assert_eq!(numa_cpu_for(KernelVersion::V4_2, &[0, 4, 5]), None);
}
