//! How watching is to be done, and what can go wrong with it as a whole.

use std::io;
use std::path::PathBuf;

use base::Nanos;
use program::Class;
use topology::Machine;

use super::census::BUSY_PERMILLE;
use super::choice::Choice;
use crate::memory::MemoryOptions;
use crate::{CounterMode, LiveError};

/// How watching is to be done.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// Whom to look after.
    pub choice: Choice,
    /// The folders of the chosen cgroups, in the file system.
    pub cgroup_folders: Vec<PathBuf>,
    /// Classes of programs by patterns of their names; the first that fits holds.
    pub classes: Vec<(String, Class)>,
    /// Change something. Otherwise it is only said what would be done.
    pub act: bool,
    /// How often busy processes are looked at.
    pub interval: Nanos,
    /// Ends by itself after so long.
    pub time_limit: Option<Nanos>,
    /// A process that has used less than a hundredth of a CPU for so long gets back what it had.
    pub idle_after: Nanos,
    /// Who uses so many thousandths of a CPU is busy and becomes a job; with 0 everybody does.
    pub busy_permille: u64,
    /// Take over the signals that end programs, and end in an orderly way instead.
    pub takes_signals: bool,
    /// Where undo records go; `None`: where they belong ([`linux::undo::folders`]).
    pub undo_folders: Option<Vec<PathBuf>>,
    /// How memory is moved and looked at.
    pub memory: MemoryOptions,
    /// What is counted of the tasks of jobs.
    pub counters: CounterMode,
    /// The machine whose controllers, caches, pressure and CPUs are measured; `None`: nothing around
    /// the tasks is, and nothing is counted of them.
    pub machine: Option<Machine>,
    /// Listen to the kernel's own events of processes where it tells them.
    pub may_hear: bool,
}

impl Default for WatchOptions {
    fn default() -> Self {
        WatchOptions {
            choice: Choice::default(),
            cgroup_folders: Vec::new(),
            classes: Vec::new(),
            act: false,
            interval: Nanos::from_secs(1),
            time_limit: None,
            idle_after: Nanos::from_secs(300),
            busy_permille: BUSY_PERMILLE,
            takes_signals: true,
            undo_folders: None,
            memory: MemoryOptions::default(),
            counters: CounterMode::Auto,
            machine: None,
            may_hear: true,
        }
    }
}

/// Why watching cannot begin, or go on.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// Nobody was chosen.
    #[error(
        "nobody is chosen: name some with --pid, --user, --command, --cgroup or --unit, or --all"
    )]
    NobodyChosen,
    /// A process that was named is not there.
    #[error("there is no process {pid}")]
    NoProcess {
        /// Its number.
        pid: u32,
    },
    /// What is needed for changing things safely is not there.
    #[error("cannot act, because it could not be undone: {0}")]
    NoUndo(String),
    /// What the loop stands on cannot be had.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// Processes cannot be listed.
    #[error("cannot read /proc")]
    Proc(#[source] io::Error),
}
