//! Placement domains: the nodes, LLC domains or cores on which a policy places tasks.
//!
//! `auto` selects the coarsest level with at least two usable domains. A laptop has one node and one LLC domain, so its
//! domains are cores. With a single CPU, no task is placed. Policies for shared caches prefer LLC domains.
//!
//! A node is a domain if it has usable CPUs and its memory size is not zero. Tasks cannot run on a node without CPUs,
//! and a node without memory has no memory controller to balance.

use std::fmt;
use std::str::FromStr;

use base::{CpuId, CpuSet, NodeId};

use crate::Machine;

/// The level of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A NUMA node.
    Node,
    /// The CPUs of one last-level cache.
    Llc,
    /// A physical core.
    Core,
}

/// Selection of the level on which tasks are placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DomainChoice {
    /// The coarsest level with at least two domains.
    #[default]
    Auto,
    /// LLC domains if there are at least two, otherwise the same as [`DomainChoice::Auto`]. Policies for shared caches
    /// use this selection for `auto`.
    Caches,
    /// This level, with any number of domains.
    At(Level),
}

/// Error for a text other than `auto`, `node`, `llc` and `core`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a placement domain; write auto, node, llc or core")]
pub struct ParseLevelError(String);

/// A node, an LLC domain or a core, with its usable CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// The number of the node, LLC domain or core.
    pub number: u32,
    /// Usable CPUs of the domain; never empty.
    pub cpus: CpuSet,
    /// Node of the domain; absent if its CPUs are on several nodes.
    pub node: Option<NodeId>,
}

/// All domains of one level, sorted by number. A domain is identified by its index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domains {
    level: Level,
    list: Vec<Domain>,
    /// The label of each domain, computed once, because every reason prints labels.
    labels: Vec<String>,
    idx_of_cpu: Vec<Option<u32>>,
}

impl Level {
    /// All levels, coarsest first.
    pub const ALL: [Level; 3] = [Level::Node, Level::Llc, Level::Core];
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Level::Node => "node",
            Level::Llc => "llc",
            Level::Core => "core",
        })
    }
}

impl fmt::Display for DomainChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DomainChoice::Auto => f.pad("auto"),
            DomainChoice::Caches => f.pad("caches"),
            DomainChoice::At(level) => level.fmt(f),
        }
    }
}

impl FromStr for Level {
    type Err = ParseLevelError;

    fn from_str(text: &str) -> Result<Self, ParseLevelError> {
        let named = Level::ALL.into_iter().find(|level| level.to_string() == text);
        named.ok_or_else(|| ParseLevelError(text.to_owned()))
    }
}

impl FromStr for DomainChoice {
    type Err = ParseLevelError;

    fn from_str(text: &str) -> Result<Self, ParseLevelError> {
        match text {
            "auto" => Ok(DomainChoice::Auto),
            level => level.parse().map(DomainChoice::At),
        }
    }
}

impl Domains {
    /// Computes the domains of a machine among the usable CPUs.
    pub fn select(machine: &Machine, choice: DomainChoice, usable: &CpuSet) -> Self {
        let domains_at = |level| Domains::at(machine, level, usable);
        match choice {
            DomainChoice::At(level) => domains_at(level),
            DomainChoice::Auto => {
                let mut coarse = [Level::Node, Level::Llc].into_iter().map(domains_at);
                coarse.find(|domains| 2 <= domains.len()).unwrap_or_else(|| domains_at(Level::Core))
            }
            DomainChoice::Caches => {
                let caches = Some(domains_at(Level::Llc)).filter(|domains| 2 <= domains.len());
                caches.unwrap_or_else(|| Domains::select(machine, DomainChoice::Auto, usable))
            }
        }
    }

    fn at(machine: &Machine, level: Level, usable: &CpuSet) -> Self {
        let all: Vec<Domain> = match level {
            Level::Node => {
                let with_memory =
                    machine.nodes().iter().filter(|n| n.memory != Some(base::Bytes::ZERO));
                with_memory.map(|n| domain(n.id.0, &n.cpus, Some(n.id), usable)).collect()
            }
            Level::Llc => {
                machine.llcs().iter().map(|l| domain(l.id.0, &l.cpus, l.node, usable)).collect()
            }
            Level::Core => machine
                .cores()
                .iter()
                .map(|c| {
                    let node = c.cpus.first().and_then(|cpu| machine.cpu(cpu)?.node);
                    domain(c.id.0, &c.cpus, node, usable)
                })
                .collect(),
        };
        Domains::new(level, all.into_iter().filter(|domain| !domain.cpus.is_empty()).collect())
    }

    fn new(level: Level, list: Vec<Domain>) -> Self {
        let n_cpus = list.iter().filter_map(|d| d.cpus.last()).map(|cpu| cpu.index() + 1).max();
        let mut idx_of_cpu = vec![None; n_cpus.unwrap_or(0)];
        for (idx, domain) in list.iter().enumerate() {
            for cpu in domain.cpus.iter() {
                idx_of_cpu[cpu.index()] = Some(idx as u32);
            }
        }
        let labels = list.iter().map(|domain| format!("{level} {}", domain.number)).collect();
        Domains { level, list, labels, idx_of_cpu }
    }

    /// Returns the level of the domains.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Returns the number of domains.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns whether there is no domain, so that no task can be placed.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns all domains with their indices, sorted by number.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Domain)> {
        self.list.iter().enumerate()
    }

    /// Returns a domain by index. Panics if the index is not less than [`Domains::len`].
    pub fn get(&self, idx: usize) -> &Domain {
        &self.list[idx]
    }

    /// Returns the index of the domain of a CPU.
    pub fn of_cpu(&self, cpu: CpuId) -> Option<usize> {
        self.idx_of_cpu.get(cpu.index()).copied().flatten().map(|idx| idx as usize)
    }

    /// Returns the index of the domain that contains all these CPUs; `None` if the CPUs are in several domains.
    pub fn of_set(&self, cpus: &CpuSet) -> Option<usize> {
        let idx = self.of_cpu(cpus.first()?)?;
        cpus.is_subset(&self.list[idx].cpus).then_some(idx)
    }

    /// Returns the label of a domain: `node 1`, `llc 3`, `core 7`.
    pub fn label(&self, idx: usize) -> String {
        self.labels[idx].clone()
    }
}

fn domain(number: u32, cpus: &CpuSet, node: Option<NodeId>, usable: &CpuSet) -> Domain {
    Domain { number, cpus: cpus.and(usable), node }
}

#[cfg(test)]
mod tests;
