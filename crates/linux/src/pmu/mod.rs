//! Events of processors: the PMU and the event that count a [`sched::CounterEvent`].
//!
//! ```text
//!   events/*.toml ──► uarch    ──► terms of each event, from the vendor's documentation     data
//!   /sys/…/format ──► format   ──► config words of the attribute                            pure
//!                     grouping ──► events that are counted together                         pure
//!                     choice   ──► the groups that are opened for each task on this machine
//! ```

mod choice;
mod format;
mod grouping;
mod uarch;

pub(crate) use choice::{DEVICES, format_of};
pub use choice::{EventChoice, choose};
pub use format::{Format, FormatError, encode};
pub use uarch::{CpuIdentity, Pmu, Uarch, UarchError, UarchEvent, identity, uarch_of, uarchs};
