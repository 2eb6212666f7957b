//! Options of a watch, and the errors of its start.

use std::io;
use std::path::PathBuf;

use base::Nanos;
use linux::tasks::CounterMode;
use linux::undo::RestoreProgress;
use program::Class;
use topology::Machine;

use super::process_table::BUSY_PERMILLE;
use super::selection::Selection;
use crate::LiveError;
use crate::session::memory::MemoryOptions;

/// Options of a watch.
#[derive(Clone, Debug)]
pub struct AttachOptions {
    /// The processes to manage.
    pub selection: Selection,
    /// Directories of the selected cgroups in the file system.
    pub cgroup_dirs: Vec<PathBuf>,
    /// Classes of programs by name patterns. The first matching pattern applies.
    pub classes: Vec<(String, Class)>,
    /// Whether plans are carried out. Otherwise each action is rejected as a dry run.
    pub act: bool,
    /// Period of interval turns.
    pub interval: Nanos,
    /// Time after which the watch ends.
    pub time_limit: Option<Nanos>,
    /// Time after which an idle job is detached.
    pub idle_after: Nanos,
    /// Minimum CPU usage, in permille of a CPU, of a process that becomes a job. With 0 every process becomes a job.
    pub busy_permille: u64,
    /// Whether signals that terminate a process are blocked and end the watch.
    pub takes_signals: bool,
    /// Whether SIGHUP requests a new configuration instead of the end ([`super::AttachHost::take_reload_request`]).
    pub reloads: bool,
    /// Directories for undo records; `None`: the default directories ([`linux::undo::dirs`]).
    pub undo_dirs: Option<Vec<PathBuf>>,
    /// Receives the progress of a long restore of killed runs at the start.
    pub on_restore_progress: fn(&RestoreProgress),
    /// Options of page migration and of memory samples.
    pub memory: MemoryOptions,
    /// Mode of the counters of tasks.
    pub counters: CounterMode,
    /// The machine with the controllers, caches, pressure files and CPUs to read. With `None` these are not read, and
    /// tasks have no counters.
    pub machine: Option<Machine>,
    /// Whether the process events of the kernel (proc connector) are used if they are permitted.
    pub use_events: bool,
}

impl Default for AttachOptions {
    fn default() -> Self {
        AttachOptions {
            selection: Selection::default(),
            cgroup_dirs: Vec::new(),
            classes: Vec::new(),
            act: false,
            interval: Nanos::from_secs(1),
            time_limit: None,
            idle_after: Nanos::from_secs(300),
            busy_permille: BUSY_PERMILLE,
            takes_signals: true,
            reloads: false,
            undo_dirs: None,
            on_restore_progress: |_| (),
            memory: MemoryOptions::default(),
            counters: CounterMode::Auto,
            machine: None,
            use_events: true,
        }
    }
}

/// Reason why a watch cannot start or continue.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum AttachError {
    #[error(
        "no process is selected: use --pid, --user, --command, --comm, --cgroup, --unit or --all, or write a command after --"
    )]
    NothingSelected,
    #[error("there is no process {pid}")]
    NoProcess { pid: u32 },
    #[error("cannot apply changes without an undo record: {0}")]
    NoUndo(String),
    #[error(transparent)]
    Live(#[from] LiveError),
    #[error("cannot read /proc")]
    Proc(#[source] io::Error),
}
