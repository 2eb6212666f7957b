//! Tests of CPU selection and load balancing on small machines.

use topology::Machine;

use super::*;

/// Returns a kernel with empty run queues on a synthetic machine.
fn booted(version: KernelVersion, machine: &str) -> KernelModel {
    let hardware = Hardware::new(&Machine::synthetic(machine).expect("a machine"));
    KernelModel::new(version, Arc::new(hardware))
}

impl<F: Fn(TaskPull) -> bool> RunQueues for F {
    fn movable(&self, pull: TaskPull) -> Option<usize> {
        self(pull).then_some(pull.from)
    }

    fn has_preferred_nodes(&self) -> bool {
        false
    }

    fn locality(&self, _: usize) -> Locality {
        Locality::Unknown
    }
}

/// Each CPU has one movable task, whose index is the number of the CPU. CPUs with even numbers are local, the others have
/// this locality.
struct Queues(Locality);

impl RunQueues for Queues {
    fn movable(&self, pull: TaskPull) -> Option<usize> {
        (pull.keeps == KeptTasks::None || self.0 != Locality::Displaced).then_some(pull.from)
    }

    fn has_preferred_nodes(&self) -> bool {
        true
    }

    fn locality(&self, cpu: usize) -> Locality {
        if cpu.is_multiple_of(2) { Locality::Local } else { self.0 }
    }
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
    let takes = |_: TaskPull| true;
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
        (0..9).position(|_| {
            kernel.balance_busy((0, 1), &kernel.busy_groups(0), &Queues(Locality::Local)).is_some()
        })
    };
    // The load is 1024, and half of it may be moved, so one attempt fails.
    assert_eq!(attempts(KernelVersion::V6_18), Some(1));
    assert_eq!(attempts(KernelVersion::V4_2), Some(0));
    assert_eq!(
        kernel.balance_busy((0, 0), &kernel.busy_groups(0), &Queues(Locality::Local)),
        None,
        "its load is above the average"
    );
}

/// Eleven tasks on eight CPUs of four nodes: one node has two tasks, the others have three.
#[test]
fn a_busy_node_pulls_from_the_next_of_equally_busy_nodes() {
    for version in KernelVersion::ALL {
        let from = [0, 1, 2, 3].map(|light: usize| {
            let mut kernel = booted(version, "nodes=4 cores=2");
            (0..8).for_each(|cpu| kernel.add_task(cpu));
            (0..4).filter(|&node| node != light).for_each(|node| kernel.add_task(2 * node));
            let machine = kernel.n_domains() - 1;
            let attempt = |_| {
                let groups = kernel.busy_groups(machine);
                kernel.balance_busy((machine, light), &groups, &Queues(Locality::Local))
            };
            (0..12).find_map(attempt).map(|pull| pull.from / 2)
        });
        assert_eq!(from, [Some(1), Some(2), Some(3), Some(0)], "{version:?}");
    }
}

#[test]
fn no_task_of_an_offline_cpu_is_pulled_to_a_busy_cpu() {
    let mut kernel = booted(KernelVersion::V6_18, "llcs=2 cores=2");
    [0, 1, 2, 2, 3, 3, 3].into_iter().for_each(|cpu| kernel.add_task(cpu));
    let node = kernel.n_domains() - 1;
    let source = |kernel: &mut KernelModel| {
        let attempt = |_| {
            let groups = kernel.busy_groups(node);
            kernel.balance_busy((node, 0), &groups, &Queues(Locality::Local))
        };
        (0..12).find_map(attempt).map(|pull| pull.from)
    };
    assert_eq!(source(&mut kernel), Some(3));
    kernel.set_online(3, false);
    assert_eq!(source(&mut kernel), Some(2));
}

/// Node 0 has two tasks, node 1 has three or four.
#[test]
fn nodes_pull_from_cpus_with_displaced_tasks() {
    let attempts = |version: KernelVersion, locality: Locality, n_on_last: usize| {
        let mut kernel = booted(version, "nodes=2 cores=2");
        [0, 1, 2, 2, 3].into_iter().for_each(|cpu| kernel.add_task(cpu));
        (1..n_on_last).for_each(|_| kernel.add_task(3));
        let machine = kernel.n_domains() - 1;
        let attempt = |_| {
            let groups = kernel.busy_groups(machine);
            kernel.balance_busy((machine, 0), &groups, &Queues(locality))
        };
        let mut tasks = (0..12).map(attempt).enumerate();
        tasks.find_map(|(n_failed, pull)| pull.map(|pull| (n_failed, pull.from)))
    };
    let (v6_18, v4_2) = (KernelVersion::V6_18, KernelVersion::V4_2);
    assert_eq!(attempts(v6_18, Locality::Local, 2), Some((0, 2)), "the lower of two equal CPUs");
    assert_eq!(attempts(v6_18, Locality::Unknown, 2), Some((0, 3)), "a task without known memory");
    // The tasks beside the displaced task are on the node of their memory: they migrate after three failed attempts.
    assert_eq!(attempts(v6_18, Locality::Displaced, 2), Some((3, 3)));
    assert_eq!(attempts(v6_18, Locality::Displaced, 1), None, "the displaced task has its own CPU");
    assert_eq!(attempts(v4_2, Locality::Displaced, 2), Some((0, 3)), "without failed attempts");
}

/// Node 0 is idle, and the CPUs of node 1 have two tasks each.
#[test]
fn idle_nodes_pull_from_cpus_with_displaced_tasks_too() {
    let pulled = |version: KernelVersion, locality: Locality| {
        let mut kernel = booted(version, "nodes=2 cores=2");
        [2, 2, 3, 3].into_iter().for_each(|cpu| kernel.add_task(cpu));
        let queues = Queues(locality);
        let at_once = kernel.pull_idle(0, &queues);
        let later = (0..9).find_map(|_| kernel.balance(&queues));
        [at_once, later].map(|pull| pull.map(|pull| pull.from))
    };
    let (v6_18, v4_2) = (KernelVersion::V6_18, KernelVersion::V4_2);
    assert_eq!(pulled(v6_18, Locality::Local), [Some(2), Some(2)]);
    assert_eq!(pulled(v6_18, Locality::Unknown), [Some(3), Some(3)]);
    assert_eq!(pulled(v6_18, Locality::Displaced), [None, Some(3)], "only local tasks wait");
    assert_eq!(pulled(v4_2, Locality::Displaced), [Some(3), Some(3)]);
}

#[test]
fn failed_attempts_for_local_tasks_count_until_no_task_waits() {
    let mut kernel = booted(KernelVersion::V6_18, "nodes=2 cores=2");
    let queues = Queues(Locality::Displaced);
    [2, 2, 3, 3].into_iter().for_each(|cpu| kernel.add_task(cpu));
    assert_eq!([(); 3].map(|()| kernel.balance(&queues)), [None; 3]);
    [2, 3].into_iter().for_each(|cpu| kernel.remove_task(cpu));
    assert_eq!(kernel.balance(&queues), None);
    [2, 3].into_iter().for_each(|cpu| kernel.add_task(cpu));
    let n_failed = (0..9).position(|_| kernel.balance(&queues).is_some());
    assert_eq!(n_failed, Some(3), "as for tasks that have not waited before");
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
fn new_tasks_are_spread_over_cores_with_four_siblings() {
    for version in KernelVersion::ALL {
        assert_eq!(forked(version, "cores=2 smt=4", 6), [0, 4, 1, 5, 2, 6], "{version:?}");
    }
}

#[test]
fn a_kernel_is_named_with_or_without_linux() {
    for version in KernelVersion::ALL {
        let short = version.name().strip_prefix("linux-").expect("the name of the kernel");
        assert_eq!([version.name(), short].map(str::parse), [Ok(version), Ok(version)]);
    }
    for unknown in ["", "linux", "linux-", "linux-linux-6.18", "linux-5.10", "6.18.0", "Linux-6.18"]
    {
        let error = unknown.parse::<KernelVersion>().expect_err("unknown").to_string();
        let expected = "write one of linux-6.18, linux-4.2, linux-2.6.27; linux- can be omitted";
        assert_eq!(error, format!("there is no model of the kernel {unknown:?}: {expected}"));
    }
}

/// Returns the CPU on which a task wakes up that was on CPU 0, with tasks on these CPUs.
fn woken(version: KernelVersion, busy: &[usize]) -> Option<usize> {
    let mut kernel = booted(version, "cores=3 smt=2");
    busy.iter().for_each(|&cpu| kernel.add_task(cpu));
    kernel.wake(0, None, &mut None)
}

#[test]
fn a_task_wakes_up_on_an_idle_core_before_an_idle_sibling() {
    let all = |busy: &[usize]| KernelVersion::ALL.map(|version| woken(version, busy));
    // In the order of the versions: 6.18, 4.2, 2.6.27.
    assert_eq!(all(&[2]), [Some(0); 3], "the previous CPU is idle");
    assert_eq!(all(&[0, 2]), [Some(4), Some(4), Some(1)], "core 2 is idle");
    assert_eq!(all(&[0, 2, 4]), [Some(1); 3], "no core is idle: the sibling");
    assert_eq!(all(&[0, 0, 2, 4]), [Some(1), Some(1), Some(0)]);
    assert_eq!(all(&[0, 1, 2, 4]), [Some(3), Some(0), Some(0)], "siblings of other cores");
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
    let takes = |_: TaskPull| true;
    [0, 1, 2].into_iter().for_each(|cpu| kernel.add_task(cpu));
    assert_eq!(kernel.balance(&takes), None);
    [0, 0].into_iter().for_each(|cpu| kernel.add_task(cpu));
    let pull = kernel.balance(&takes).expect("a task waits");
    assert_eq!((pull.from, pull.to, pull.running_too), (0, 3, false));
    assert_eq!(kernel.pull_idle(3, &|_: TaskPull| true).map(|pull| pull.from), Some(0));
    assert_eq!(kernel.pull_idle(3, &|_: TaskPull| false), None, "no task may run there");
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

/// Balances until an attempt moves no task several times in a row, and returns the number of tasks of each CPU.
fn settled(kernel: &mut KernelModel) -> Vec<u32> {
    let mut n_quiet = 0;
    for _ in 0..200 {
        match kernel.balance(&|_: TaskPull| true) {
            Some(pull) => {
                n_quiet = 0;
                kernel.remove_task(pull.from);
                kernel.add_task(pull.to);
            }
            None => n_quiet += 1,
        }
        if 6 < n_quiet {
            return kernel.load.n_runnable.clone();
        }
    }
    panic!("the balancing does not settle: {:?}", kernel.load.n_runnable);
}

/// Returns the number of tasks of each CPU after load balancing, with tasks on these CPUs at the start.
fn balanced(version: KernelVersion, machine: &str, busy: &[usize]) -> Vec<u32> {
    let mut kernel = booted(version, machine);
    busy.iter().for_each(|&cpu| kernel.add_task(cpu));
    settled(&mut kernel)
}

#[test]
fn a_running_task_leaves_a_core_with_two_busy_siblings_for_an_idle_core() {
    for version in KernelVersion::ALL {
        assert_eq!(balanced(version, "cores=2 smt=2", &[0, 1]), [0, 1, 1, 0], "{version:?}");
        let four = balanced(version, "cores=2 smt=4", &[0, 1, 2, 3]);
        assert_eq!(four, [0, 0, 1, 1, 1, 1, 0, 0], "{version:?}");
    }
}

#[test]
fn a_core_is_not_relieved_by_a_core_with_one_task_less() {
    for version in KernelVersion::ALL {
        assert_eq!(balanced(version, "cores=2 smt=2", &[0, 1, 2]), [1, 1, 1, 0], "{version:?}");
    }
}

#[test]
fn a_running_task_is_moved_to_an_idle_core_only_after_failed_attempts() {
    let mut kernel = booted(KernelVersion::V6_18, "cores=2 smt=2");
    [0, 1].into_iter().for_each(|cpu| kernel.add_task(cpu));
    let pulls: Vec<bool> = (0..4).map(|_| kernel.balance(&|_: TaskPull| true).is_some()).collect();
    assert_eq!(pulls, [false, false, false, true]);
}

#[test]
fn failed_attempts_of_an_llc_domain_do_not_depend_on_its_node() {
    // Node 0 is balanced with node 1, and LLC domain 0 of node 0 is idle.
    let tasks = [2, 3, 4, 6];
    let after = balanced(KernelVersion::V6_18, "nodes=2 llcs=2 cores=2", &tasks);
    let sums: Vec<u32> = after.chunks(2).map(|pair| pair.iter().sum()).collect();
    assert_eq!(sums, [1, 1, 1, 1]);
}

/// Returns the hardware of a machine whose CPUs have these capacities.
fn unlike(machine: &str, capacities: &[u32]) -> Hardware {
    let mut hardware = Hardware::new(&Machine::synthetic(machine).expect("a machine"));
    assert_eq!(hardware.cpus.len(), capacities.len());
    for (cpu, &capacity) in hardware.cpus.iter_mut().zip(capacities) {
        cpu.capacity = capacity;
    }
    hardware
}

/// Returns the number of tasks of each CPU of a machine with unlike CPUs, after load balancing.
fn unlike_balanced(
    version: KernelVersion,
    (machine, capacities): (&str, &[u32]),
    busy: &[usize],
) -> Vec<u32> {
    let mut kernel = KernelModel::new(version, Arc::new(unlike(machine, capacities)));
    busy.iter().for_each(|&cpu| kernel.add_task(cpu));
    settled(&mut kernel)
}

/// Four CPUs without SMT, two of them small.
const ARM: (&str, &[u32]) = ("cores=4", &[1024, 1024, 512, 512]);
/// Four cores with two siblings, two of them small.
const HYBRID: (&str, &[u32]) = ("cores=4 smt=2", &[1024, 1024, 1024, 1024, 600, 600, 600, 600]);

#[test]
fn a_running_task_leaves_a_small_cpu_for_an_idle_large_cpu() {
    let v6_18 = KernelVersion::V6_18;
    assert_eq!(unlike_balanced(v6_18, ARM, &[2]), [1, 0, 0, 0]);
    assert_eq!(unlike_balanced(v6_18, ARM, &[0, 2, 3]), [1, 1, 0, 1]);
    assert_eq!(unlike_balanced(v6_18, HYBRID, &[4, 6]), [1, 0, 1, 0, 0, 0, 0, 0]);
    // The small cores are used before the second siblings of the large cores.
    assert_eq!(unlike_balanced(v6_18, HYBRID, &[0, 1, 2, 3]), [0, 1, 0, 1, 1, 0, 1, 0]);
    // Capacities that differ by less than 5 % are equal, but priorities are not.
    assert_eq!(unlike_balanced(v6_18, ("cores=2", &[1024, 1000]), &[1]), [0, 1]);
    let preferred = ("cores=2 smt=2", &[1024, 1024, 1000, 1000][..]);
    assert_eq!(unlike_balanced(v6_18, preferred, &[2]), [1, 0, 0, 0]);
}

#[test]
fn old_kernels_treat_unlike_cpus_as_equal() {
    for version in [KernelVersion::V4_2, KernelVersion::V2_6_27] {
        assert_eq!(unlike_balanced(version, ARM, &[2]), [0, 0, 1, 0], "{version:?}");
        let hybrid = unlike_balanced(version, HYBRID, &[4, 6]);
        assert_eq!(hybrid, [0, 0, 0, 0, 1, 0, 1, 0], "{version:?}");
    }
}

#[test]
fn a_newly_idle_large_cpu_pulls_the_task_of_the_smallest_cpu() {
    let three = ("cores=3", &[1024, 700, 300][..]);
    let hardware = Arc::new(unlike(three.0, three.1));
    let mut kernel = KernelModel::new(KernelVersion::V6_18, hardware);
    [1, 2].into_iter().for_each(|cpu| kernel.add_task(cpu));
    assert_eq!(kernel.pull_to_larger(0, &|_: TaskPull| true).map(|pull| pull.from), Some(2));
    assert_eq!(
        kernel.pull_to_larger(0, &|pull: TaskPull| pull.from != 2).map(|pull| pull.from),
        Some(1)
    );
}

#[test]
fn a_task_wakes_up_on_the_largest_idle_cpu() {
    let hardware = Arc::new(unlike(ARM.0, ARM.1));
    let woken = |version: KernelVersion, busy: &[usize]| {
        let mut kernel = KernelModel::new(version, hardware.clone());
        busy.iter().for_each(|&cpu| kernel.add_task(cpu));
        kernel.wake(3, None, &mut None)
    };
    assert_eq!(woken(KernelVersion::V6_18, &[0]), Some(1));
    assert_eq!(woken(KernelVersion::V6_18, &[0, 1]), Some(3), "the previous CPU");
    assert_eq!(woken(KernelVersion::V4_2, &[0]), Some(3));
}

#[test]
fn busy_cpus_balance_in_proportion_to_their_capacity() {
    let load = |tasks: &[usize]| {
        let hardware = Arc::new(unlike("cores=2", &[1024, 512]));
        let mut kernel = KernelModel::new(KernelVersion::V6_18, hardware);
        tasks.iter().for_each(|&cpu| kernel.add_task(cpu));
        (0..9)
            .find_map(|_| {
                kernel.balance_busy((0, 0), &kernel.busy_groups(0), &Queues(Locality::Local))
            })
            .map(|pull| pull.from)
    };
    assert_eq!(load(&[0, 0, 1]), None, "two tasks on the large CPU, one on the small CPU");
    assert_eq!(load(&[0, 0, 1, 1]), Some(1));
}

#[test]
fn load_balancing_moves_no_running_task_to_a_smaller_cpu() {
    let v6_18 = KernelVersion::V6_18;
    let nodes = ("nodes=2 cores=3", &[1024, 1024, 1024, 500, 500, 500][..]);
    assert_eq!(unlike_balanced(v6_18, nodes, &[0, 1, 2]), [1, 1, 1, 0, 0, 0]);
    assert_eq!(unlike_balanced(v6_18, nodes, &[3, 4]), [1, 1, 0, 0, 0, 0], "across nodes");
    let caches = ("llcs=2 cores=2 smt=2", &[1024, 1024, 1024, 1024, 600, 600, 600, 600][..]);
    assert_eq!(unlike_balanced(v6_18, caches, &[0, 2]), [1, 0, 1, 0, 0, 0, 0, 0]);
}

#[test]
fn with_asymmetric_packing_an_idle_core_helps_a_core_with_two_tasks_at_once() {
    let hardware = Arc::new(unlike(HYBRID.0, HYBRID.1));
    let mut kernel = KernelModel::new(KernelVersion::V6_18, hardware);
    [0, 1, 2, 4].into_iter().for_each(|cpu| kernel.add_task(cpu));
    let pull = kernel.balance(&|_: TaskPull| true).expect("core 3 is idle");
    assert_eq!((pull.from, pull.to, pull.running_too), (0, 6, true));
}

#[test]
fn a_task_that_leaves_its_llc_domain_gets_an_idle_core() {
    let mut kernel = booted(KernelVersion::V6_18, "llcs=2 cores=2 smt=2");
    [0, 4, 5, 6, 7].into_iter().for_each(|cpu| kernel.add_task(cpu));
    let pull = (0..4).find_map(|_| kernel.balance(&|_: TaskPull| true)).expect("three tasks more");
    assert_eq!(pull.to, 2);
}

#[test]
fn groups_with_unlike_numbers_of_cores_are_compared_by_tasks_per_core() {
    let imbalance = |busy: (u32, u32), own: (u32, u32)| {
        let counts = |n_runnable| DomainCounts { n_runnable, ..DomainCounts::default() };
        load_balance::sibling_imbalance((counts(busy.0), busy.1), (counts(own.0), own.1))
    };
    assert_eq!(imbalance((8, 8), (2, 2)), 1, "a task per core: nothing is moved");
    assert_eq!(imbalance((8, 8), (0, 2)), 4);
    assert_eq!(imbalance((2, 8), (0, 2)), 2, "an empty group takes one of two tasks");
    assert_eq!(imbalance((3, 2), (1, 2)), 2);
}

#[test]
fn the_core_of_a_new_task_is_that_with_the_most_idle_siblings_or_the_lowest_load() {
    let forked = KernelVersion::ALL.map(|version| {
        let mut kernel = booted(version, "cores=2 smt=4");
        kernel.add_task(0);
        for cpu in 5..8 {
            kernel.set_online(cpu, false);
            kernel.count_cpu(cpu, false);
        }
        kernel.fork(0, None, &mut None)
    });
    assert_eq!(forked, [Some(1), Some(4), Some(4)]);
}
