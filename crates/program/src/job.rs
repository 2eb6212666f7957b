//! A workload and its jobs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use base::{CpuSet, JobId, Nanos, NodeSet};

use crate::{Class, Profile, Sensitivity};

/// The jobs of one file, in start order; equal starts keep the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// The name in the file, or the name of the file.
    pub name: String,
    /// The directory of the file; relative paths are resolved against it.
    pub dir: PathBuf,
    /// One job for each copy of each line; `jobs[i].id` is `JobId(i)`.
    pub jobs: Vec<Job>,
    /// Files that are not written during the run and may be replicated per node.
    pub read_only: Vec<PathBuf>,
}

/// One run of one line of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The position in start order.
    pub id: JobId,
    /// Unique in the workload: the name of the line, with `.2`, `.3`, … for further copies.
    pub name: String,
    /// The command to run.
    pub command: Command,
    /// Start time since the start of the run.
    pub start: Nanos,
    /// The declared memory class; absent counts as 0.
    pub class: Option<Class>,
    /// Slowdown of the job next to other programs; absent counts as none.
    pub sensitivity: Option<Sensitivity>,
    /// The name of its profile.
    pub profile: Option<String>,
    /// The profile found by that name, or by the name of its program.
    pub found: Option<Arc<Profile>>,
    /// Working directory, absolute or relative to the workload's directory. Default: the workload's directory.
    pub dir: Option<PathBuf>,
    /// Variables added to the environment of evenkeel.
    pub env: BTreeMap<String, String>,
    /// File for standard input; absent: `/dev/null`.
    pub input: Option<PathBuf>,
    /// File for standard output; absent: a file in the directory of the report.
    pub output: Option<PathBuf>,
    /// Number of busy threads of the job; a policy assigns as many CPUs. At least 1.
    pub threads: u32,
    /// When the job ends.
    pub ending: Ending,
    /// CPUs that the job may use; absent: all that evenkeel may use.
    pub cpus: Option<CpuSet>,
    /// Nodes that the job may run and allocate memory on; absent: all that evenkeel may use.
    pub nodes: Option<NodeSet>,
    /// Memory policy of the job; absent: first touch, the default of the kernel.
    pub memory: Option<MemoryPolicy>,
    /// Position of the job in the file, for errors.
    pub origin: FilePosition,
}

impl Job {
    /// A job without declared values. It starts immediately and ends when its program exits.
    pub fn new(id: JobId, name: impl Into<String>, command: Command) -> Self {
        Job {
            id,
            name: name.into(),
            command,
            start: Nanos::ZERO,
            class: None,
            sensitivity: None,
            profile: None,
            found: None,
            dir: None,
            env: BTreeMap::new(),
            input: None,
            output: None,
            threads: 1,
            ending: Ending::Exit,
            cpus: None,
            nodes: None,
            memory: None,
            origin: FilePosition::default(),
        }
    }
}

/// The command of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A program with arguments, without a shell. A name without a slash is looked up in `PATH`; a relative path
    /// is resolved against the workload's directory.
    Program {
        /// The program.
        program: PathBuf,
        /// Arguments, without the name of the program.
        args: Vec<String>,
    },
    /// A line for `/bin/sh -c` (key `shell`).
    Shell(String),
    /// The arguments of a built-in synthetic program (`evenkeel load …`).
    Load(Vec<String>),
}

/// When a job ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// When its program exits.
    #[default]
    Exit,
    /// After this time it is terminated, if it is still running. This is not a failure.
    After(Nanos),
    /// The job is restarted on every exit, until all jobs with another ending have ended.
    RestartUntilOthersDone,
}

/// The memory policy of a job (`set_mempolicy(2)`), set before its program is executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryPolicy {
    /// Only these nodes (`MPOL_BIND`).
    Bind(NodeSet),
    /// The nodes while they have free memory (`MPOL_PREFERRED_MANY`, or `MPOL_PREFERRED` for one).
    Preferred(NodeSet),
    /// Page by page over these nodes (`MPOL_INTERLEAVE`).
    Interleave(NodeSet),
    /// Page by page over these nodes, by the weights of the system (`MPOL_WEIGHTED_INTERLEAVE`, since Linux 6.9).
    WeightedInterleave(NodeSet),
}

impl MemoryPolicy {
    /// Nodes of the policy.
    pub fn nodes(&self) -> &NodeSet {
        match self {
            MemoryPolicy::Bind(nodes)
            | MemoryPolicy::Preferred(nodes)
            | MemoryPolicy::Interleave(nodes)
            | MemoryPolicy::WeightedInterleave(nodes) => nodes,
        }
    }

    /// This policy with other nodes.
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

/// A line of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilePosition {
    /// The file as the user named it.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
}

impl std::fmt::Display for FilePosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}
