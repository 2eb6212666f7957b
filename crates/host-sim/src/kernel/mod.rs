//! A model of the kernel's scheduler: CPU selection and load balancing of tasks that the policy does not place.
//!
//! ```text
//!   fork, exec    selects the idlest group of each scheduling domain, then its idlest CPU
//!   wake-up       selects the previous CPU if it is idle, else an idle CPU of the same LLC domain
//!   newly idle    pulls a waiting task from the busiest CPU, nearest domain first
//!   periodic      all domains balance the number of runnable tasks at one interval
//!   busy CPUs     balance too, so that different tasks share a CPU over time
//!   NUMA          (cpu_selection.rs, fluid/numa.rs) pages migrate to tasks, and tasks to pages
//! ```
//!
//! Three kernel versions are modelled, with these differences:
//!
//! | | `linux-6.18` | `linux-4.2` | `linux-2.6.27` |
//! | --- | --- | --- | --- |
//! | fork between nodes | local node while at most an eighth of its CPUs is busy; a difference of two idle CPUs is tolerated | local node if its load is less than 12 % above the lowest load; else the node with the lowest load | as `linux-4.2` |
//! | fork within an LLC domain | the core with the most idle siblings | the core with the lowest load | as `linux-4.2` |
//! | wake-up | the previous CPU if idle; else an idle core of the LLC domain, else an idle sibling of the previous CPU, else any idle CPU | as `linux-6.18`, but not any idle CPU | the previous CPU if idle; else an idle sibling unless a task waits |
//! | cores of an LLC domain | an idle core takes a task, also a running one, from a core with two | as `linux-6.18` | as `linux-6.18` |
//! | CPUs of unlike capacity | asymmetric packing or capacity ([`unlike_cpus`]) | all CPUs are equal | as `linux-4.2` |
//! | balanced value | idle CPUs, with a tolerated imbalance between nodes | number of tasks | number of tasks |
//! | NUMA balancing | yes | yes | no |
//! | NUMA balancing: load balancing between nodes | pulls from CPUs with tasks without a preferred node, then with displaced tasks ([`Locality`]); until three attempts have failed, other tasks stay | the same, but no task stays | |
//!
//! The rules are those of `kernel/sched/fair.c` in these versions (`find_idlest_group`, `select_idle_sibling`,
//! `find_busiest_group`, `sibling_imbalance`, `calculate_imbalance`, `adjust_numa_imbalance`). Out of scope: load tracking over time (all
//! tasks have equal loads), deadline and real-time tasks.

mod busy_balance;
mod cpu_selection;
mod load_balance;
mod slices;
#[cfg(test)]
mod tests;
mod unlike_cpus;

use std::str::FromStr;
use std::sync::Arc;

use base::Rng;

use crate::hardware::{Hardware, HardwareCpu};

pub(crate) use slices::TICK_NS;
use unlike_cpus::UnlikeCpus;

/// The modelled kernel version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum KernelVersion {
    /// Linux 6.18 (fair class with group types and tolerated NUMA imbalance).
    #[default]
    V6_18,
    /// Linux 4.2.
    V4_2,
    /// Linux 2.6.27.
    V2_6_27,
}

impl KernelVersion {
    /// All versions, newest first.
    pub const ALL: [KernelVersion; 3] =
        [KernelVersion::V6_18, KernelVersion::V4_2, KernelVersion::V2_6_27];

    /// Returns the name of the version.
    pub fn name(self) -> &'static str {
        match self {
            KernelVersion::V6_18 => "linux-6.18",
            KernelVersion::V4_2 => "linux-4.2",
            KernelVersion::V2_6_27 => "linux-2.6.27",
        }
    }

    /// Returns whether the version has automatic NUMA balancing (since Linux 3.13).
    pub fn can_balance_numa(self) -> bool {
        self != KernelVersion::V2_6_27
    }
}

/// Parses the name of a version: `linux-6.18` or `6.18`. Options, variants of policies and machine files use it.
impl FromStr for KernelVersion {
    type Err = UnknownKernel;

    fn from_str(name: &str) -> Result<Self, UnknownKernel> {
        let number = name.strip_prefix("linux-").unwrap_or(name);
        let is_named =
            |version: &KernelVersion| version.name().strip_prefix("linux-") == Some(number);
        KernelVersion::ALL.into_iter().find(is_named).ok_or_else(|| UnknownKernel(name.to_owned()))
    }
}

/// An error for the name of a kernel that has no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no model of the kernel {0:?}: write one of {names}; linux- can be omitted", names = names())]
pub struct UnknownKernel(String);

/// Returns the names of all versions.
fn names() -> String {
    KernelVersion::ALL.map(KernelVersion::name).join(", ")
}

/// Runnable tasks of each CPU and of each domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunnableCounts {
    /// Number of runnable tasks on each CPU.
    pub n_runnable: Vec<u32>,
    cores: Vec<DomainCounts>,
    caches: Vec<DomainCounts>,
    nodes: Vec<DomainCounts>,
}

/// Runnable tasks and idle CPUs of a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct DomainCounts {
    n_runnable: u32,
    n_idle: u32,
    n_cpus: u32,
}

impl DomainCounts {
    fn n_busy(self) -> u32 {
        self.n_cpus - self.n_idle
    }

    /// Returns whether a task waits on any CPU.
    fn has_waiting(self) -> bool {
        self.n_busy() < self.n_runnable
    }
}

impl RunnableCounts {
    /// Returns the counts of empty run queues.
    fn new(hardware: &Hardware) -> Self {
        let sum =
            |cpus: usize| DomainCounts { n_runnable: 0, n_idle: cpus as u32, n_cpus: cpus as u32 };
        RunnableCounts {
            n_runnable: vec![0; hardware.cpus.len()],
            cores: hardware.cores.iter().map(|core| sum(core.len())).collect(),
            caches: hardware.caches.iter().map(|cache| sum(cache.cpus.len())).collect(),
            nodes: hardware.nodes.iter().map(|node| sum(node.cpus.len())).collect(),
        }
    }

    /// Returns whether no task runs on any CPU of a core.
    fn is_core_idle(&self, core: usize) -> bool {
        self.cores[core].n_busy() == 0
    }
}

/// A migration from one run queue to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskPull {
    /// The source CPU.
    pub from: usize,
    /// The target CPU.
    pub to: usize,
    /// Whether a running task may be moved if the queue has no waiting task.
    pub running_too: bool,
    /// Tasks that stay because of their memory.
    pub keeps: KeptTasks,
    /// Whether the first of the waiting tasks migrates, in order of arrival, instead of the last.
    pub is_first: bool,
}

/// Tasks that do not migrate to another node because of their memory (`migrate_degrades_locality`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeptTasks {
    /// No task.
    #[default]
    None,
    /// Tasks on their preferred node that share their CPU with tasks for which this is not the preferred node.
    Local,
    /// These, and tasks that have less memory on the new node.
    WithMemory,
}

/// Where the tasks of a CPU run, relative to their memory (`enum fbq_type`). The kernel prefers CPUs with tasks of the
/// first variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Locality {
    /// A task has no preferred node (`regular`).
    Unknown,
    /// A task runs on another node than its preferred node (`remote`).
    Displaced,
    /// All tasks run on their preferred nodes (`all`).
    Local,
}

/// The run queues, as load balancing sees them.
pub trait RunQueues {
    /// Returns the task that a pull migrates.
    fn movable(&self, pull: TaskPull) -> Option<usize>;

    /// Returns whether tasks have preferred nodes, which they do not without NUMA balancing.
    fn has_preferred_nodes(&self) -> bool;

    /// Returns the locality of the tasks of a CPU.
    fn locality(&self, cpu: usize) -> Locality;
}

/// An affinity mask by CPU index; `None`: all online CPUs.
pub type Allowed<'a> = Option<&'a [bool]>;

/// Random choice among equally good CPUs for one task; `None`: the first CPU, for a new task the first of the largest
/// capacity. On a real machine, the choice depends on which CPU became idle last.
pub type TieBreaker = Option<Rng>;

/// Model of the kernel's scheduler with its state.
#[derive(Clone, Debug)]
pub struct KernelModel {
    /// The modelled kernel version.
    pub version: KernelVersion,
    /// Whether each CPU is online, by index.
    pub online: Vec<bool>,
    n_offline: usize,
    /// Runnable tasks of the run queues.
    pub load: RunnableCounts,
    hardware: Arc<Hardware>,
    /// Number of consecutive failed balancing attempts of each node, LLC domain and core. Such an attempt finds only
    /// running tasks.
    failed: Vec<u32>,
    /// Number of consecutive attempts after which only its memory kept a waiting task from an idle CPU.
    n_kept: u32,
    /// Number of changes of `failed` and `n_kept`.
    n_failed_changes: u64,
    unlike: UnlikeCpus,
    /// Whether each node has CPUs of all capacities.
    has_all_capacities: Vec<bool>,
    all_cpus: Vec<usize>,
    sibling_domains: Arc<[load_balance::SiblingDomain]>,
    domains: Vec<busy_balance::BusyDomain>,
    domains_of_cpu: Vec<Vec<usize>>,
    /// Buffer of candidate CPUs, which is reused.
    open: Vec<usize>,
}

/// Returns how many groups a group is after another in their ring. Of equally busy groups, the kernel pulls from the first
/// after its own: the ring of a CPU begins with its own group (`for_each_cpu_wrap` in kernel/sched/topology.c).
fn ring_distance(own: usize, other: usize, n_groups: usize) -> usize {
    (other + n_groups - own) % n_groups
}

impl KernelModel {
    /// Returns the state of a kernel after boot.
    pub fn new(version: KernelVersion, hardware: Arc<Hardware>) -> Self {
        let domains = busy_balance::domains(&hardware);
        let n_groups = hardware.nodes.len() + hardware.caches.len() + hardware.cores.len();
        KernelModel {
            version,
            online: vec![true; hardware.cpus.len()],
            n_offline: 0,
            load: RunnableCounts::new(&hardware),
            failed: vec![0; n_groups],
            unlike: UnlikeCpus::new(version, &hardware),
            has_all_capacities: unlike_cpus::nodes_with_all_capacities(&hardware),
            all_cpus: (0..hardware.cpus.len()).collect(),
            sibling_domains: load_balance::sibling_domains(&hardware).into(),
            n_kept: 0,
            n_failed_changes: 0,
            domains_of_cpu: busy_balance::domains_by_cpu(&domains, hardware.cpus.len()),
            domains,
            open: Vec::new(),
            hardware,
        }
    }

    /// Adds a task to the run queue of a CPU.
    pub fn add_task(&mut self, cpu: usize) {
        self.load.n_runnable[cpu] += 1;
        let became_busy = u32::from(self.load.n_runnable[cpu] == 1);
        for sum in self.sums_of(cpu) {
            sum.n_runnable += 1;
            sum.n_idle -= became_busy;
        }
    }

    /// Removes a task from the run queue of a CPU.
    pub fn remove_task(&mut self, cpu: usize) {
        self.load.n_runnable[cpu] -= 1;
        let became_idle = u32::from(self.load.n_runnable[cpu] == 0);
        for sum in self.sums_of(cpu) {
            sum.n_runnable -= 1;
            sum.n_idle += became_idle;
        }
    }

    /// Takes an online CPU offline, or the reverse. The CPU stays in the sums until [`KernelModel::count_cpu`].
    pub fn set_online(&mut self, cpu: usize, online: bool) {
        self.online[cpu] = online;
        match online {
            true => self.n_offline -= 1,
            false => self.n_offline += 1,
        }
    }

    /// Adds a CPU without tasks to the sums of online CPUs, or removes it.
    pub fn count_cpu(&mut self, cpu: usize, online: bool) {
        for sum in self.sums_of(cpu) {
            let change = |n: &mut u32| if online { *n += 1 } else { *n -= 1 };
            change(&mut sum.n_idle);
            change(&mut sum.n_cpus);
        }
    }

    /// Returns the sums of the core, of the cache and of the node of a CPU.
    fn sums_of(&mut self, cpu: usize) -> [&mut DomainCounts; 3] {
        let HardwareCpu { core, cache, node, .. } = self.hardware.cpus[cpu];
        [&mut self.load.cores[core], &mut self.load.caches[cache], &mut self.load.nodes[node]]
    }

    /// Returns whether no task runs on any sibling of a CPU.
    fn is_core_idle(&self, cpu: usize) -> bool {
        self.load.is_core_idle(self.hardware.cpus[cpu].core)
    }

    fn may_run(&self, allowed: Allowed<'_>, cpu: usize) -> bool {
        self.online[cpu] && allowed.is_none_or(|allowed| allowed[cpu])
    }
}

/// Returns a candidate with the smallest key: a random candidate if there is a tie breaker, else the first.
fn least<K: Ord>(
    tie_breaker: &mut TieBreaker,
    among: impl Iterator<Item = usize> + Clone,
    key: impl Fn(usize) -> K,
) -> Option<usize> {
    let best = among.clone().map(&key).min()?;
    let mut candidates = among.filter(|&candidate| key(candidate) == best);
    match tie_breaker {
        None => candidates.next(),
        Some(rng) => {
            let candidates: Vec<usize> = candidates.collect();
            Some(candidates[rng.below(candidates.len() as u64) as usize])
        }
    }
}
