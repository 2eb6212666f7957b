//! A workload and its jobs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use base::{CpuSet, JobId, Nanos, NodeSet};

use crate::{Class, Profile, Section, Sections, Sensitivity};

/// The jobs of one file, in start order. Jobs with equal starts keep the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// The name in the file; if the file has no name, derived from the name of the file.
    pub name: String,
    /// The directory of the file. Relative paths are resolved against this directory.
    pub dir: PathBuf,
    /// One job for each copy of each line; `jobs[i].id` is `JobId(i)`.
    pub jobs: Vec<Job>,
    /// Files that are not written during the run and may be replicated per node.
    pub read_only: Vec<PathBuf>,
}

/// A job: one run of one copy of a line of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Index of the job in start order.
    pub id: JobId,
    /// Name of the job, unique in the workload: the name of the line; further copies have the suffix `.2`, `.3`, …
    pub name: String,
    /// The command to run.
    pub command: Command,
    /// Start time since the start of the run.
    pub start: Nanos,
    /// The declared memory class; absent: policies assume class 0.
    pub class: Option<Class>,
    /// Slowdown of the job next to other programs; absent: policies assume no slowdown.
    pub sensitivity: Option<Sensitivity>,
    /// The declared name of a profile.
    pub profile: Option<String>,
    /// The profile with the declared name, or the profile of the job's program.
    pub found: Option<Arc<Profile>>,
    /// The file with [`Job::found`]: a profile file, a program with a signature, or its side file. Absent for a shipped
    /// profile.
    pub found_in: Option<PathBuf>,
    /// Working directory, absolute or relative to the workload's directory. Default: the workload's directory.
    pub dir: Option<PathBuf>,
    /// Variables added to the environment of evenkeel.
    pub env: BTreeMap<String, String>,
    /// File for standard input; absent: `/dev/null`.
    pub input: Option<PathBuf>,
    /// File for standard output; absent: a file in the directory of the report.
    pub output: Option<PathBuf>,
    /// Number of busy threads of the job; a policy assigns the same number of CPUs. At least 1.
    pub threads: u32,
    /// How the threads wait for each other; absent: they do not. Only for simulated runs.
    pub sections: Option<Sections>,
    /// Condition on which the job ends.
    pub ending: Ending,
    /// CPUs that the job may use; absent: all CPUs that evenkeel may use.
    pub cpus: Option<CpuSet>,
    /// Nodes on which the job may run and allocate memory; absent: all nodes that evenkeel may use.
    pub nodes: Option<NodeSet>,
    /// Memory policy of the job; absent: first touch, the default of the kernel.
    pub memory: Option<MemoryPolicy>,
    /// Position of the job in the file, for errors.
    pub origin: FilePosition,
}

impl Job {
    /// Returns the largest number of threads that the job has at once: those of its sections, or its busy threads.
    pub fn n_threads_max(&self) -> u32 {
        let of_section = |section: &Section| section.n_threads(self.threads);
        let sections = self.sections.as_ref();
        sections.and_then(|own| own.sections.iter().map(of_section).max()).unwrap_or(self.threads)
    }

    /// Returns a job without declared values. It starts at time 0 and ends when its program exits.
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
            found_in: None,
            dir: None,
            env: BTreeMap::new(),
            input: None,
            output: None,
            threads: 1,
            sections: None,
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
    /// A program with arguments, executed without a shell. A name without a slash is searched in `PATH`. A relative
    /// path is resolved against the workload's directory.
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

impl Command {
    /// Returns whether the program is one of the programs of evenkeel (`evenkeel load …`). A shell line is not parsed.
    pub fn is_built_in(&self) -> bool {
        match self {
            Command::Load(_) => true,
            Command::Program { program, .. } => program.ends_with("evenkeel"),
            Command::Shell(_) => false,
        }
    }
}

/// Minimum time between two starts of a job that restarts. The limit bounds the fork rate of a program that fails
/// immediately. Simulated runs have the same limit, so that a job restarts as often as in a live run.
pub const RESTART_MIN: Nanos = Nanos::from_millis(100);

/// Condition on which a job ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// The job ends when its program exits.
    #[default]
    Exit,
    /// The job is terminated after this time if it is still running. This is not a failure.
    After(Nanos),
    /// The job is restarted after every exit until all jobs with other conditions have ended.
    RestartUntilOthersDone,
    /// The job is restarted after every exit until every job has ended once, except jobs that are restarted until the
    /// others are done. Its completion and its result are those of its first exit.
    RestartUntilAllDone,
}

impl Ending {
    /// Returns whether the job is started again after an exit while the run waits for other jobs.
    pub fn restarts(self) -> bool {
        matches!(self, Ending::RestartUntilOthersDone | Ending::RestartUntilAllDone)
    }

    /// Returns whether the job ends with the exit of its program: the first exit of a program that restarts until all
    /// are done.
    pub fn is_program_exit(self) -> bool {
        matches!(self, Ending::Exit | Ending::RestartUntilAllDone)
    }

    /// Returns whether an exit of the job is its result, if the job has or has not ended before: the first exit of a
    /// program that restarts until all are done, and otherwise the last exit.
    pub fn is_result(self, has_ended: bool) -> bool {
        self != Ending::RestartUntilAllDone || !has_ended
    }

    /// Returns whether the run lasts at least until the first exit of the job.
    pub fn is_awaited(self) -> bool {
        self != Ending::RestartUntilOthersDone
    }
}

/// Memory policy of a job (`set_mempolicy(2)`), set before the job's program is executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryPolicy {
    /// Pages are allocated only on these nodes (`MPOL_BIND`).
    Bind(NodeSet),
    /// Pages are allocated on these nodes while the nodes have free memory (`MPOL_PREFERRED_MANY`; for one node
    /// `MPOL_PREFERRED`).
    Preferred(NodeSet),
    /// Pages are interleaved over these nodes (`MPOL_INTERLEAVE`).
    Interleave(NodeSet),
    /// Pages are interleaved over these nodes by the weights of the system (`MPOL_WEIGHTED_INTERLEAVE`, since Linux
    /// 6.9).
    WeightedInterleave(NodeSet),
}

impl MemoryPolicy {
    /// Returns the nodes of the policy.
    pub fn nodes(&self) -> &NodeSet {
        match self {
            MemoryPolicy::Bind(nodes)
            | MemoryPolicy::Preferred(nodes)
            | MemoryPolicy::Interleave(nodes)
            | MemoryPolicy::WeightedInterleave(nodes) => nodes,
        }
    }

    /// Returns this policy with other nodes.
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

/// Position of a line in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilePosition {
    /// The path of the file as the user entered it.
    pub file: PathBuf,
    /// The number of the line, from 1.
    pub line: usize,
}

impl std::fmt::Display for FilePosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}
