//! Where tasks go that nobody placed: small machines, one task after the other.

use topology::Machine;

use super::*;

/// The CPUs that so many tasks get, born one after the other on CPU 0.
fn born(version: Version, machine: &str, n_tasks: usize) -> Vec<usize> {
    let machine = Machine::synthetic(machine).expect("a machine");
    let hardware = Hardware::new(&machine);
    let mut kernel = Kernel::new(version, &hardware, None);
    let mut load = Load::new(&hardware);
    let one = |_| {
        let cpu = kernel.fork(&hardware, &load, 0, None).expect("a CPU");
        load.add(&hardware, cpu);
        cpu
    };
    (0..n_tasks).map(one).collect()
}

/// The nodes, on a machine of so many CPUs a node.
fn nodes_of(cores: usize, n_tasks: usize) -> Vec<usize> {
    let born = born(Version::V6_18, &format!("nodes=2 cores={cores}"), n_tasks);
    born.iter().map(|cpu| cpu / cores).collect()
}

#[test]
fn new_tasks_fill_an_eighth_of_the_node_before_they_leave_it() {
    // One of eight CPUs stays, then the emptier node is taken, the own one of equals.
    assert_eq!(nodes_of(8, 6), [0, 1, 0, 1, 0, 1]);
    // Of 32 CPUs four would have room, but with the fourth the difference is too large to be tolerated.
    assert_eq!(nodes_of(32, 6), [0, 0, 0, 1, 0, 1]);
}

#[test]
fn between_nodes_two_idle_cpus_more_are_no_imbalance_while_there_is_room() {
    let machine = Machine::synthetic("nodes=2 cores=32").expect("a machine");
    let hardware = Hardware::new(&machine);
    let mut kernel = Kernel::new(Version::V6_18, &hardware, None);
    let mut load = Load::new(&hardware);
    let takes = |_: usize, _: usize, _: bool| true;
    let mut looks = |load: &Load| (0..9).find_map(|_| kernel.even_out(&hardware, load, &takes));
    [0, 1].into_iter().for_each(|cpu| load.add(&hardware, cpu));
    assert_eq!(looks(&load), None, "two on one node stay there");
    [2, 3].into_iter().for_each(|cpu| load.add(&hardware, cpu));
    let pull = looks(&load).expect("four are too many");
    assert_eq!((pull.from / 32, pull.to / 32, pull.running_too), (0, 1, true));
}

#[test]
fn a_whole_task_goes_when_so_many_looks_were_in_vain_that_it_weighs_little_enough() {
    let machine = Machine::synthetic("cores=2").expect("a machine");
    let hardware = Hardware::new(&machine);
    let mut load = Load::new(&hardware);
    [0, 0, 1].into_iter().for_each(|cpu| load.add(&hardware, cpu));
    let looks = |version: Version| {
        let mut kernel = Kernel::new(version, &hardware, None);
        (0..9).position(|_| kernel.carry_round(&load, (0, 1), &|_, _| true).is_some())
    };
    // 1024 of load, and half of it may go: after one look in vain.
    assert_eq!(looks(Version::V6_18), Some(1));
    assert_eq!(looks(Version::V4_2), Some(0));
    let mut kernel = Kernel::new(Version::V6_18, &hardware, None);
    assert_eq!(kernel.carry_round(&load, (0, 0), &|_, _| true), None, "it has more than average");
}

#[test]
fn old_kernels_spread_new_tasks_over_nodes_at_once() {
    for version in [Version::V4_2, Version::V2_6_27] {
        let nodes: Vec<usize> =
            born(version, "nodes=2 cores=8", 4).iter().map(|cpu| cpu / 8).collect();
        // With nothing running the other node is as good as the own, and is taken all the same.
        assert_eq!(nodes, [1, 0, 0, 1], "{version:?}");
    }
}

#[test]
fn an_idle_core_comes_before_an_idle_sibling() {
    assert_eq!(born(Version::V6_18, "cores=2 smt=2", 4), [0, 2, 1, 3]);
}

#[test]
fn who_wakes_up_goes_where_it_was_or_near_it() {
    let machine = Machine::synthetic("nodes=2 cores=2").expect("a machine");
    let hardware = Hardware::new(&machine);
    let mut kernel = Kernel::new(Version::V6_18, &hardware, None);
    let mut load = Load::new(&hardware);
    let wakes = |kernel: &mut Kernel, load: &Load| kernel.wake(&hardware, load, 2, None);
    assert_eq!(wakes(&mut kernel, &load), Some(2));
    load.add(&hardware, 2);
    assert_eq!(wakes(&mut kernel, &load), Some(3), "the other CPU of its cache");
    load.add(&hardware, 3);
    assert_eq!(wakes(&mut kernel, &load), Some(2), "no other cache is looked at");
    kernel.version = Version::V2_6_27;
    load.remove(&hardware, 3);
    assert_eq!(wakes(&mut kernel, &load), Some(2));
}

#[test]
fn what_is_even_is_left_alone_and_what_waits_is_pulled() {
    let machine = Machine::synthetic("nodes=2 cores=2").expect("a machine");
    let hardware = Hardware::new(&machine);
    let mut kernel = Kernel::new(Version::V6_18, &hardware, None);
    let mut load = Load::new(&hardware);
    let takes = |_: usize, _: usize, _: bool| true;
    [0, 1, 2].into_iter().for_each(|cpu| load.add(&hardware, cpu));
    assert_eq!(kernel.even_out(&hardware, &load, &takes), None);
    [0, 0].into_iter().for_each(|cpu| load.add(&hardware, cpu));
    let pull = kernel.even_out(&hardware, &load, &takes).expect("one waits");
    assert_eq!((pull.from, pull.to, pull.running_too), (0, 3, false));
    assert_eq!(kernel.pull_idle(&hardware, &load, 3, &|_| true).map(|pull| pull.from), Some(0));
    assert_eq!(kernel.pull_idle(&hardware, &load, 3, &|_| false), None, "none that may go there");
}

/// The CPU of the node of CPU 4 that a task on CPU 0 gets for its memory's sake, where these tasks run.
fn brought(version: Version, running: &[usize]) -> Option<usize> {
    let machine = Machine::synthetic("nodes=2 cores=4").expect("a machine");
    let hardware = Hardware::new(&machine);
    let kernel = Kernel::new(version, &hardware, None);
    let mut load = Load::new(&hardware);
    running.iter().for_each(|&cpu| load.add(&hardware, cpu));
    kernel.numa_cpu(&hardware, &load, (0, 1), None)
}

#[test]
fn a_task_is_brought_to_its_memory_where_the_nodes_stay_as_even() {
    assert_eq!(brought(Version::V6_18, &[0]), Some(4), "an idle node");
    assert_eq!(brought(Version::V6_18, &[0, 1]), Some(4), "one here, one there");
    assert_eq!(brought(Version::V6_18, &[0, 1, 4]), None, "two there and one here");
    assert_eq!(
        brought(Version::V6_18, &[0, 4, 5]),
        None,
        "there would be three there and none here"
    );
    assert_eq!(
        brought(Version::V6_18, &[0, 0, 1, 2, 3, 4, 5, 6, 7]),
        Some(4),
        "five and four, four and five"
    );
    assert_eq!(
        brought(Version::V6_18, &[0, 1, 2, 3, 4, 5, 6, 7]),
        None,
        "three and five are worse"
    );
    assert_eq!(brought(Version::V4_2, &[0, 4, 5]), None);
}
