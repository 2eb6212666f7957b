//! Counters of tasks and of whole CPUs: `perf_event_open`.
//!
//! ```text
//!   events/*.toml ──► family ──► what to count, in the vendor's words      data, no code
//!   /sys/…/format ──► format ──► config words of the attribute             pure
//!                     cut    ──► what is counted together                    pure
//!                     attr   ──► perf_event_open ──► group of counters     unsafe
//!                     overflow ◄── a ring of a counter that wakes us             unsafe
//!                     values ◄── bytes of one read() of the group          pure
//! ```
//!
//! A counter may also tell by itself that so much has happened ([`Overflows`]), instead of being read, or
//! which addresses a process works on ([`Heat`]).
//!
//! A task has a few groups, each read with one call: one of the kernel's own books (software
//! events, on every machine), and one or several of the processor's counters. A group is counted as a
//! whole or not at all; where there are more groups than registers the kernel lets them take turns,
//! and what was counted in an interval is scaled up by the times of that interval and says so
//! ([`sched::Measured::Scaled`], [`Meter`]). A group that had no turn in an interval is absent in it.

mod address_sampling;
mod attr;
mod format;
mod group;
mod group_read;
mod grouping;
mod overflow;
mod refusal;
mod ring;
mod uarch;

pub use address_sampling::AddressSampling;
pub use attr::{Attr, CounterTarget, Flags, open};
pub use format::{Format, FormatError, encode};
pub(crate) use group::{DEVICES, format_of};
pub use group::{
    EventChoice, Group, GroupSpec, PmuGroups, TaskGroups, add_group, choose, software,
    software_event,
};
pub use group_read::{GroupReading, ValuesError, read_group};
pub use overflow::OverflowCounters;
pub use refusal::{CounterScope, TASK_EXITED, explain_refusal, own_code_only};
pub use uarch::{CpuIdentity, Pmu, Uarch, UarchError, UarchEvent, identity, uarch_of, uarchs};
