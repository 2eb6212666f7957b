//! The machine that evenkeel runs on: starts real programs, follows and watches them, moves them, and
//! puts back what it changed.
//!
//! ```text
//!   host      one turn after another: what woke us, what became of jobs
//!     ├ wakes     epoll over a timer, process descriptors and signals: the only place that waits
//!     ├ agenda    what is to happen when
//!     ├ command   a line of a workload as a program to start
//!     ├ overflow  counters that bring interval turns about, where the policy waits for them
//!     ├ cgroups   groups of jobs whose memory is bound
//!     ├ begin     jobs that are due, bound before they begin
//!     ├ place     what a plan says about running jobs
//!     ├ hold      binding them, with the undo record first
//!     ├ ending    what is ended how, and what it used
//!     ├ orphans   processes whose parent is gone, and whose they are
//!     ├ leftovers what outlives its job
//!     ├ stopped   jobs that wait for the terminal
//!     ├ memory    moved and looked at by a helper thread
//!     ├ nodes     how much of it each node has left
//!     └ signals   to exactly those who are meant
//!   watch     the other host: looks after programs that somebody else started
//!   preflight what can be known to fail before anything is started
//!   keeper    ends the jobs when evenkeel itself is killed, if the user wants that
//! ```
//!
//! One thread does everything else and never waits for anything but the next event.

mod agenda;
mod begin;
mod cgroups;
mod command;
mod ending;
mod groups;
mod hold;
mod host;
mod keeper;
mod leftovers;
mod look;
mod masks;
mod memory;
mod nodes;
mod options;
mod orphans;
mod overflow;
mod place;
mod preflight;
mod setup;
mod signals;
mod stopped;
mod tell;
mod turns;
mod wakes;
mod watch;

pub use cgroups::check_groups;
pub use command::find_program;
pub use host::LiveHost;
pub use keeper::{KEEPER_ARGUMENT, keep};
pub use linux::tasks::CounterMode;
pub use memory::{MemoryLooks, MemoryOptions};
pub use options::{LiveError, LiveOptions};
pub use preflight::{PreflightError, check_runnable, preflight};
pub use signals::{Sent, send as send_signal};
pub use watch::{
    Alone, Board, Choice, LeftAlone, Managed, Marks, WatchError, WatchHost, WatchOptions,
};
