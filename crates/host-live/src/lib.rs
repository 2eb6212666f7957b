//! Live hosts: jobs run on this machine, and system calls apply the plans.
//!
//! ```text
//!   launch    starts the jobs of a workload, and terminates remaining processes
//!   attach    manages processes that evenkeel did not start
//!   session   shared by both: wake-ups, tasks, undo record, affinity, memory, collectors
//! ```
//!
//! [`LaunchHost`] and [`AttachHost`] implement [`engine::Host`]. Both hosts restore all settings that they changed. If
//! evenkeel is killed, the undo record contains the old value of each changed setting.

mod attach;
mod errors;
mod launch;
mod process_signals;
mod session;

pub use attach::{
    AttachError, AttachHost, AttachOptions, Criteria, ExcludedProcesses, ExclusionReason,
    ManagedProcess, ProgramSignature, SearchFn, Selection, WatchStatus,
};
pub use errors::LiveError;
pub use launch::{
    LaunchHost, LaunchOptions, PreflightError, ProgramError, SUPERVISOR_ARGUMENT, StandardInput,
    StandardStreams, check_cgroups, find_program, find_runnable, preflight, supervise,
};
pub use linux::tasks::CounterMode;
pub use process_signals::{SignalResult, send as send_signal};
pub use session::memory::{MemoryOptions, MemorySampling};
pub use session::{Console, block_signals};
