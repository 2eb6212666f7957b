//! The machine as Linux describes it below `/sys` and `/proc`, or below any folder that holds a
//! recording of them.
//!
//! ```text
//!   cpu/online, cpu/cpuN         which CPUs there are                        cpus
//!   cpu/cpuN/topology            SMT siblings: cores                         cores
//!   cpu/cpuN/cache/indexM        who shares the last level: LLC domains      caches
//!   cpu_capacity, cpufreq, …     fast and slow cores                         kinds
//!   node/nodeN                   memory, CPUs, distances                     nodes
//!   cgroup or cpuset, affinity   what this process may use                   allowed
//! ```
//!
//! Firmware errs and recordings have gaps. A machine that contradicts itself would be refused by
//! [`Machine::new`]; here it is mended instead, always in the same way (what the lower number says
//! holds), and each mend is a warning that people see. What the kernel does not tell is not made up,
//! with two exceptions: a CPU without known siblings is a core of its own, and a kernel without NUMA has
//! one node, 0, with all memory and all CPUs.

mod allowed;
mod caches;
mod cores;
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

/// Why no machine could be read.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// The folder is not there, or no folder.
    #[error("{0} is no folder; name one that holds the sys and proc of a machine")]
    NoFolder(PathBuf),
    /// The folder may not be looked into, or there are no descriptors left to do it with.
    #[error("cannot read the machine below {root}")]
    Unreadable {
        /// The folder.
        root: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// Neither place that names CPUs is there.
    #[error(
        "{0} has neither sys/devices/system/cpu nor proc/cpuinfo; \
         name the folder that holds a machine's sys and proc"
    )]
    NoMachine(PathBuf),
    /// There is something, but no machine can be made of it.
    #[error("{root}")]
    Contradiction {
        /// The folder.
        root: PathBuf,
        /// What is wrong.
        source: MachineError,
    },
}

/// Reads the machine below a root folder; `/` is this one.
pub fn read(root: &Path) -> Result<Machine, TopologyError> {
    match fault::retry("stat", || std::fs::metadata(root)) {
        Ok(meta) if meta.is_dir() => {}
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            return Err(TopologyError::Unreadable { root: root.to_owned(), source });
        }
        _ => return Err(TopologyError::NoFolder(root.to_owned())),
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
    let siblings = cores::siblings(tree, info, &cpus.online, &mut warnings);
    let nodes = nodes::read(tree, &cpus.online, &mut warnings);
    let siblings = cores::within_nodes(siblings, &nodes.list, &mut warnings);
    let (allowed, nodes_allowed) = allowed::read(tree, &cpus.online, &nodes.list);
    let llcs = caches::read(tree, &siblings, &nodes.list, &cpus.online, &mut warnings);
    let kinds = kinds::read(tree, &cpus.online);
    let listed = cpus.present.iter().map(|id| Cpu {
        id,
        online: cpus.online.contains(id),
        allowed: allowed.contains(id),
        ..Cpu::default()
    });
    MachineParts {
        name: info.model.clone().unwrap_or_else(|| "unnamed machine".to_owned()),
        cpus: listed.collect(),
        cores: cores::number(&siblings, &kinds),
        nodes: nodes.list,
        llcs,
        nodes_allowed,
        perf_attributes: nodes.perf_attributes,
        system: System::default(),
        warnings,
    }
}
