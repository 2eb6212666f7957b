//! How a live run is to be done, and what can go wrong with it as a whole.

use std::io;
use std::path::PathBuf;

use base::Nanos;
use linux::tasks::CounterMode;

use crate::memory::MemoryOptions;

/// How a live run is to be done. What is left out of an expression with `..LiveOptions::default()`
/// has the values that a user gets who says nothing.
#[derive(Clone, Debug)]
pub struct LiveOptions {
    /// How often there is a turn when nothing else happens; `None`: only when something happens.
    pub interval: Option<Nanos>,
    /// What brings those turns about. What cannot be counted is polled instead, and said.
    pub wake: sched::Wake,
    /// How long a job has to end after it was told to, before it is killed.
    pub grace: Nanos,
    /// A job that fails stops the run.
    pub fail_fast: bool,
    /// Jobs end with evenkeel even when evenkeel is killed. Otherwise they live on.
    pub die_with_me: bool,
    /// Where the output of jobs goes, as `NAME.out` and `NAME.err`. Made if it is not there.
    pub output_dir: PathBuf,
    /// The run is stopped after so long.
    pub time_limit: Option<Nanos>,
    /// The evenkeel program, for built-in loads and the keeper; `None`: the program that this is.
    pub tool: Option<PathBuf>,
    /// Take over the signals that end programs and stop the run in an orderly way instead. They are
    /// blocked in the calling thread and in threads that it starts later, not in earlier ones.
    pub takes_signals: bool,
    /// The calling thread goes before the jobs (a nice value of its own), where the kernel permits it.
    /// Jobs keep the nice value that the thread came with, and the thread gets it back at the end.
    pub takes_priority: bool,
    /// This process has no other children than its jobs, so unknown ones that ended are orphans of
    /// jobs and are waited for.
    pub is_sole_parent: bool,
    /// What is counted of tasks.
    pub counters: CounterMode,
    /// Where undo records go; `None`: where they belong ([`linux::undo::folders`]).
    pub undo_folders: Option<Vec<PathBuf>>,
    /// Which groups jobs have whose memory is bound.
    pub groups: linux::cgroup::CgroupMode,
    /// Where the file systems of resctrl and of groups hang: `/` but for tests.
    pub resctrl_root: PathBuf,
    /// How memory is moved and looked at.
    pub memory: MemoryOptions,
}

impl Default for LiveOptions {
    fn default() -> Self {
        LiveOptions {
            interval: Some(Nanos::from_millis(250)),
            wake: sched::Wake::Poll,
            grace: Nanos::from_secs(5),
            fail_fast: false,
            die_with_me: false,
            output_dir: PathBuf::from("."),
            time_limit: None,
            tool: None,
            takes_signals: true,
            takes_priority: true,
            is_sole_parent: true,
            counters: CounterMode::Auto,
            undo_folders: None,
            groups: linux::cgroup::CgroupMode::Auto,
            resctrl_root: PathBuf::from("/"),
            memory: MemoryOptions::default(),
        }
    }
}

/// What goes wrong with a live run as a whole. What goes wrong with one job is an outcome of that job.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The kernel refused one of the descriptors that the loop stands on.
    #[error("cannot wait for events ({what})")]
    Events {
        /// Which.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The folder for the output of jobs cannot be made.
    #[error("cannot make the folder {path} for the output of jobs")]
    OutputDir {
        /// The folder.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The keeper that `--die-with-me` needs does not start.
    #[error("cannot start the keeper that ends the jobs when evenkeel is killed")]
    Keeper(#[source] io::Error),
    /// What this process may use cannot be read.
    #[error("cannot read which CPUs this process may use")]
    OwnCpus(#[source] io::Error),
}
