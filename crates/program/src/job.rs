//! A workload and its jobs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use base::{CpuSet, JobId, Nanos, NodeSet};

use crate::{Profile, Sensitivity};

/// The jobs of one file, in start order; equal starts keep the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// What it is called: the name in the file, or the file's own.
    pub name: String,
    /// The folder of the file: relative paths in it begin here.
    pub folder: PathBuf,
    /// One for each copy of each line; `jobs[i].id` is `JobId(i)`.
    pub jobs: Vec<Job>,
    /// Files that nobody writes during the run, so that they may be copied per node (spec 4.8).
    pub read_only: Vec<PathBuf>,
}

/// One run of one line of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its number: the place in the start order.
    pub id: JobId,
    /// Unique in the workload: the line's name, with `.2`, `.3` … for further copies.
    pub name: String,
    /// What it runs.
    pub command: Command,
    /// When it starts, since the start of the run.
    pub start: Nanos,
    /// Its memory class as declared; absent counts as 0.
    pub class: Option<Class>,
    /// How much it suffers from others; absent counts as not at all.
    pub sensitivity: Option<Sensitivity>,
    /// The name of the profile that describes its program.
    pub profile: Option<String>,
    /// The profile that was found for it, by that name or by its program's.
    pub found: Option<Arc<Profile>>,
    /// Where it runs: absolute, or relative to the workload's folder. Absent: the workload's folder.
    pub dir: Option<PathBuf>,
    /// Variables added to evenkeel's own environment.
    pub env: BTreeMap<String, String>,
    /// What it reads as standard input; absent: nothing (`/dev/null`).
    pub input: Option<PathBuf>,
    /// Where its standard output goes; absent: a file beside the report.
    pub output: Option<PathBuf>,
    /// How many threads it keeps busy: it gets as many CPUs. At least 1.
    pub threads: u32,
    /// When it is over.
    pub ending: Ending,
    /// CPUs that it may use; absent: all that evenkeel may.
    pub cpus: Option<CpuSet>,
    /// Nodes that it may run on and take memory from; absent: all that evenkeel may.
    pub nodes: Option<NodeSet>,
    /// Where its memory comes from; absent: first touch, as the kernel does by default.
    pub memory: Option<MemoryPolicy>,
    /// Where it stands, for messages.
    pub origin: Origin,
}

/// What a job runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A program with its arguments; no shell looks at them. A name without a slash is looked up
    /// in `PATH`; a relative path begins at the workload's folder.
    Program {
        /// The program.
        program: PathBuf,
        /// Its arguments, without the program's own name.
        args: Vec<String>,
    },
    /// A line for `/bin/sh -c`, asked for by the key `shell`.
    Shell(String),
    /// One of the built-in synthetic programs (`evenkeel load …`): their arguments.
    Load(Vec<String>),
}

/// How hard a program uses memory, 0 to 15: class k stands for about 2^k - 1 memory controller
/// operations a millisecond (spec 1.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class(u8);

impl Class {
    /// The largest class.
    pub const MAX: u8 = 15;

    /// A class, or `None` above [`Class::MAX`].
    pub fn new(number: u8) -> Option<Self> {
        (number <= Self::MAX).then_some(Class(number))
    }

    /// The number, 0 to 15.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Memory controller operations per millisecond of CPU time that the class stands for: its
    /// lower limit, 2^k - 1 (spec 1.1).
    pub fn controller_ops_per_ms(self) -> u64 {
        (1 << self.0) - 1
    }
}

/// When a job is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// When its program exits.
    #[default]
    Exit,
    /// After so long it is told to end, if it has not by itself. That is no failure.
    After(Nanos),
    /// Started again whenever it exits, until every job that ends by itself has ended.
    RestartUntilOthersDone,
}

/// Where the memory of a job comes from (`set_mempolicy(2)`), set before its program begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryPolicy {
    /// From these nodes and no others (`MPOL_BIND`).
    Bind(NodeSet),
    /// From these nodes as long as they have some (`MPOL_PREFERRED_MANY`, or `MPOL_PREFERRED` for one).
    Preferred(NodeSet),
    /// Page by page in turn over these nodes (`MPOL_INTERLEAVE`).
    Interleave(NodeSet),
    /// In turn too, each node as often as the weight says that the system gives it
    /// (`MPOL_WEIGHTED_INTERLEAVE`, since Linux 6.9).
    WeightedInterleave(NodeSet),
}

impl MemoryPolicy {
    /// The nodes that it names.
    pub fn nodes(&self) -> &NodeSet {
        match self {
            MemoryPolicy::Bind(nodes)
            | MemoryPolicy::Preferred(nodes)
            | MemoryPolicy::Interleave(nodes)
            | MemoryPolicy::WeightedInterleave(nodes) => nodes,
        }
    }

    /// The same sort for other nodes.
    #[must_use]
    pub fn with_nodes(&self, nodes: NodeSet) -> MemoryPolicy {
        match self {
            MemoryPolicy::Bind(_) => MemoryPolicy::Bind(nodes),
            MemoryPolicy::Preferred(_) => MemoryPolicy::Preferred(nodes),
            MemoryPolicy::Interleave(_) => MemoryPolicy::Interleave(nodes),
            MemoryPolicy::WeightedInterleave(_) => MemoryPolicy::WeightedInterleave(nodes),
        }
    }
}

/// Where in which file something stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The file as the user named it.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_end_at_15_and_begin_at_0() {
        assert_eq!(Class::new(15).map(Class::number), Some(15));
        assert_eq!(Class::new(16), None);
        assert_eq!(Class::default(), Class::new(0).unwrap());
    }

    #[test]
    fn a_class_stands_for_the_least_traffic_that_gives_it() {
        // Read forwards (spec 1.1): class = floor(log2(1 + operations a millisecond)).
        let class_of = |ops: u64| (1 + ops).ilog2();
        for number in 0..=Class::MAX {
            let ops = Class::new(number).unwrap().controller_ops_per_ms();
            assert_eq!(class_of(ops), u32::from(number));
            assert!(ops == 0 || class_of(ops - 1) < u32::from(number));
        }
    }
}
