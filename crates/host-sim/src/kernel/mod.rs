//! The kernel of the simulated machine: where it puts tasks that nobody placed.
//!
//! ```text
//!   fork, exec    down the scheduling domains to the idlest group, then to its idlest CPU
//!   wake-up       the CPU of before if it is idle, else an idle one that shares its cache
//!   fell idle     pulls a waiting task from the busiest CPU, the nearest domain first
//!   periodic      each domain in its own time evens out the number of running tasks
//!   shared CPUs   tasks are carried round, so that not always the same ones share
//!   NUMA          (balance::numa) pages follow tasks, tasks follow pages
//! ```
//!
//! Three generations are told apart by what they did differently:
//!
//! | | `linux-6.18` | `linux-4.2` | `linux-2.6.27` |
//! | --- | --- | --- | --- |
//! | fork between nodes | stays while an eighth of the node has room, and two idle CPUs more are no difference | least load, ties elsewhere | as 4.2 |
//! | wake-up | idle core, then idle sibling in the cache | idle sibling in the cache | the CPU of before |
//! | evens out | idle CPUs, allowing a small imbalance between nodes | load by number | load by number |
//! | NUMA balancing | can | can | cannot |
//!
//! Rules as in the kernel's `kernel/sched/fair.c` of those versions (`find_idlest_group`,
//! `select_idle_sibling`, `find_busiest_group`, `calculate_imbalance`, `adjust_numa_imbalance`).
//! Everything runs at one weight of load per task; what a task's load was in the past is left out, and so
//! are deadline and real-time tasks.

mod balance;
mod round;
mod select;
#[cfg(test)]
mod tests;

use base::Rng;

use crate::hardware::Hardware;

pub use balance::Pull;

/// Which kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Linux 6.18 (fair class with group types and NUMA imbalance).
    #[default]
    V6_18,
    /// Linux 4.2.
    V4_2,
    /// Linux 2.6.27.
    V2_6_27,
}

impl Version {
    /// All, the newest first.
    pub const ALL: [Version; 3] = [Version::V6_18, Version::V4_2, Version::V2_6_27];

    /// The name in machine files.
    pub fn name(self) -> &'static str {
        match self {
            Version::V6_18 => "linux-6.18",
            Version::V4_2 => "linux-4.2",
            Version::V2_6_27 => "linux-2.6.27",
        }
    }

    /// The kernel of that name.
    pub fn of_name(name: &str) -> Option<Version> {
        Version::ALL.into_iter().find(|version| version.name() == name)
    }

    /// Whether it can balance between nodes by where memory is (since Linux 3.13).
    pub fn can_balance_numa(self) -> bool {
        self != Version::V2_6_27
    }
}

/// How many tasks run or want to run on each CPU, and in each domain above.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// By CPU.
    pub running: Vec<u32>,
    cores_busy: Vec<u32>,
    caches: Vec<Sum>,
    nodes: Vec<Sum>,
}

/// A domain's tasks and idle CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    running: u32,
    idle: u32,
    cpus: u32,
}

impl Load {
    /// Nothing runs.
    pub fn new(hardware: &Hardware) -> Self {
        let sum = |cpus: usize| Sum { running: 0, idle: cpus as u32, cpus: cpus as u32 };
        Load {
            running: vec![0; hardware.cpus.len()],
            cores_busy: vec![0; hardware.cores.len()],
            caches: hardware.caches.iter().map(|cache| sum(cache.cpus.len())).collect(),
            nodes: hardware.nodes.iter().map(|node| sum(node.cpus.len())).collect(),
        }
    }

    /// One task more on a CPU.
    pub fn add(&mut self, hardware: &Hardware, cpu: usize) {
        self.running[cpu] += 1;
        let its = &hardware.cpus[cpu];
        let fell_busy = u32::from(self.running[cpu] == 1);
        self.cores_busy[its.core] += fell_busy;
        for sum in [&mut self.caches[its.cache], &mut self.nodes[its.node]] {
            sum.running += 1;
            sum.idle -= fell_busy;
        }
    }

    /// One task less on a CPU.
    pub fn remove(&mut self, hardware: &Hardware, cpu: usize) {
        self.running[cpu] -= 1;
        let its = &hardware.cpus[cpu];
        let fell_idle = u32::from(self.running[cpu] == 0);
        self.cores_busy[its.core] -= fell_idle;
        for sum in [&mut self.caches[its.cache], &mut self.nodes[its.node]] {
            sum.running -= 1;
            sum.idle += fell_idle;
        }
    }

    /// A CPU on which nothing runs goes away, or comes back.
    pub fn set_online(&mut self, hardware: &Hardware, cpu: usize, online: bool) {
        let its = &hardware.cpus[cpu];
        for sum in [&mut self.caches[its.cache], &mut self.nodes[its.node]] {
            let change = |n: &mut u32| if online { *n += 1 } else { *n -= 1 };
            change(&mut sum.idle);
            change(&mut sum.cpus);
        }
    }

    /// Whether nothing runs on any CPU of a core.
    fn is_core_idle(&self, core: usize) -> bool {
        self.cores_busy[core] == 0
    }
}

/// CPUs by place that somebody may use; `None`: all that are online.
pub type Allowed<'a> = Option<&'a [bool]>;

/// The kernel's habits and what it remembers.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Which.
    pub version: Version,
    /// CPUs that are online, by place.
    pub online: Vec<bool>,
    /// Which of several CPUs that are alike is taken: in a real machine that hangs on which of them fell
    /// idle last. `None`: the lowest.
    chance: Option<Rng>,
    /// How often an even-out of each domain found only tasks that run.
    failed: Vec<u32>,
    /// How often any of these changed.
    n_failed_changes: u64,
    domains: Vec<round::Domain>,
    domains_of_cpu: Vec<Vec<usize>>,
    /// Room for the CPUs among which one is chosen.
    open: Vec<usize>,
}

impl Kernel {
    /// A kernel that has just started.
    pub fn new(version: Version, hardware: &Hardware, chance: Option<Rng>) -> Self {
        let domains = round::domains(hardware);
        Kernel {
            version,
            online: vec![true; hardware.cpus.len()],
            chance,
            failed: vec![0; hardware.cpus.len()],
            n_failed_changes: 0,
            domains_of_cpu: round::by_cpu(&domains, hardware.cpus.len()),
            domains,
            open: Vec::new(),
        }
    }

    fn may(&self, allowed: Allowed<'_>, cpu: usize) -> bool {
        self.online[cpu] && allowed.is_none_or(|allowed| allowed[cpu])
    }

    /// One of those for which `key` is least: any of them, by chance, or the first.
    fn least<K: Ord>(
        &mut self,
        among: impl Iterator<Item = usize> + Clone,
        key: impl Fn(usize) -> K,
    ) -> Option<usize> {
        let best = among.clone().map(&key).min()?;
        let mut alike = among.filter(|&it| key(it) == best);
        match &mut self.chance {
            None => alike.next(),
            Some(rng) => {
                let alike: Vec<usize> = alike.collect();
                Some(alike[rng.below(alike.len() as u64) as usize])
            }
        }
    }
}
