//! Reads the machine from `/sys` and `/proc`, or from a directory with a recording of both.
//!
//! ```text
//!   cpu/online, cpu/cpuN         present and online CPUs                     cpus
//!   cpu/cpuN/topology            SMT siblings: cores                         cpus
//!   cpu/cpuN/cache/indexM        CPUs that share the last level: LLC domains caches
//!   cpu_capacity, cpufreq, …     core kinds                                  kinds
//!   node/nodeN                   memory, CPUs, distances                     nodes
//!   cgroup or cpuset, affinity   CPUs and nodes that this process may use    allowed
//! ```
//!
//! Firmware may report contradictory data, and recordings may be incomplete. [`Machine::new`] would reject
//! contradictory data. This module corrects such data by fixed rules (the data of the lower CPU or node number take
//! precedence), with one warning for each correction. Missing data stay missing, with two exceptions: a CPU without
//! known siblings is a separate core, and a kernel without NUMA has one node, 0, with all memory and all CPUs.

mod allowed;
mod caches;
mod cpuinfo;
mod cpus;
pub mod files;
mod kinds;
mod nodes;
#[cfg(test)]
mod tests;
mod tree;

use std::path::{Path, PathBuf};

use ::topology::{Cpu, Machine, MachineError, MachineParts, System};

use self::cpuinfo::CpuInfo;
use self::tree::Tree;
use crate::fault;

/// Error while a machine is read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum TopologyError {
    #[error("{0} is not a directory; name a directory that contains sys and proc of a machine")]
    NoDir(PathBuf),
    #[error("cannot read the machine below {root}")]
    Unreadable { root: PathBuf, source: std::io::Error },
    #[error(
        "{0} has neither sys/devices/system/cpu nor proc/cpuinfo; \
         name a directory that contains sys and proc of a machine"
    )]
    NoMachine(PathBuf),
    #[error("{root}")]
    Contradiction { root: PathBuf, source: MachineError },
}
/// Reads the machine below a root; `/` is this machine.
pub fn read(root: &Path) -> Result<Machine, TopologyError> {
    match fault::retry("stat", || std::fs::metadata(root)) {
        Ok(meta) if meta.is_dir() => {}
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            return Err(TopologyError::Unreadable { root: root.to_owned(), source });
        }
        _ => return Err(TopologyError::NoDir(root.to_owned())),
    }
    let tree = Tree::new(root)
        .map_err(|source| TopologyError::Unreadable { root: root.to_owned(), source })?;
    let info = CpuInfo::read(&tree);
    if !tree.has("sys/devices/system/cpu") && info.cpus.is_empty() {
        return Err(TopologyError::NoMachine(root.to_owned()));
    }
    let contradiction = |source| TopologyError::Contradiction { root: root.to_owned(), source };
    Machine::new(parts(&tree, &info)).map_err(contradiction)
}

fn parts(tree: &Tree, info: &CpuInfo) -> MachineParts {
    let mut warnings = Vec::new();
    let cpus = cpus::read(tree, info, &mut warnings);
    let siblings = cpus::siblings(tree, info, &cpus.online, &mut warnings);
    let nodes = nodes::read(tree, &cpus.online, &mut warnings);
    let siblings = cpus::within_nodes(siblings, &nodes.list, &mut warnings);
    let (allowed, nodes_allowed) = allowed::read(tree, &cpus.online, &nodes.list);
    let llcs = caches::read(tree, &siblings, &nodes.list, &cpus.online, &mut warnings);
    let kinds = kinds::read(tree, &cpus.online, &siblings, &mut warnings);
    let listed = cpus.present.iter().map(|id| Cpu {
        id,
        online: cpus.online.contains(id),
        allowed: allowed.contains(id),
        ..Cpu::default()
    });
    MachineParts {
        name: info.model.clone().unwrap_or_else(|| "unnamed machine".to_owned()),
        cpus: listed.collect(),
        cores: cpus::number(&siblings, &kinds),
        core_kinds_source: kinds.source,
        nodes: nodes.list,
        llcs,
        nodes_allowed,
        perf_attributes: nodes.perf_attributes,
        system: System::default(),
        warnings,
    }
}
