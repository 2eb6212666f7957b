//! The live hosts: jobs run on this machine, and plans are carried out by system calls.
//!
//! ```text
//!   launch    starts the jobs of a workload, and terminates leftover processes
//!   attach    manages processes that evenkeel did not start
//!   session   shared by both: wake-ups, tasks, undo record, affinity, memory, collectors
//! ```
//!
//! [`LaunchHost`] and [`AttachHost`] implement [`engine::Host`]. Both restore all settings that they changed. The undo
//! record makes this possible even after a kill.

mod attach;
mod errors;
mod launch;
mod process_signals;
mod session;

pub use attach::{
    AttachError, AttachHost, AttachOptions, Criteria, ExcludedProcesses, ExclusionReason,
    ManagedProcess, Selection, WatchStatus,
};
pub use errors::LiveError;
pub use launch::{
    LaunchHost, LaunchOptions, PreflightError, SUPERVISOR_ARGUMENT, check_cgroups, check_runnable,
    find_program, preflight, supervise,
};
pub use linux::tasks::CounterMode;
pub use process_signals::{SignalResult, send as send_signal};
pub use session::memory::{MemoryOptions, MemorySampling};
