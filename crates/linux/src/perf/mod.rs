//! Counters of tasks and CPUs: perf_event_open(2).
//!
//! ```text
//!   attr         ──► perf_event_open ──► group of counters                     unsafe
//!   overflow     ◄── a counter with a ring buffer, readable after N events     unsafe
//!   group_read   ◄── bytes of one read() of a group                            pure
//! ```
//!
//! The events of each processor are in [`crate::pmu`]. A counter can also signal an overflow
//! ([`OverflowCounters`]) or record addresses ([`crate::address_sampling`]).
//!
//! A task has a few groups, each read with one system call: one group of software events, which every machine has, and
//! one or several groups of hardware events. The kernel schedules a group as a whole. If the groups need more counters
//! than the core has, the kernel multiplexes the groups. Each value is returned with time enabled and time running;
//! `engine::derive` scales it.

mod attr;
mod group;
mod group_read;
mod open_error;
mod overflow;
mod ring;

pub use attr::{Attr, CounterTarget, Flags, open};
pub(crate) use attr::{disable, open_addresses};
pub use group::{
    CounterGroup, GROUP_BUFFER, GroupBuffer, GroupSpec, PmuGroups, add_group, named, software,
    software_event,
};
pub use group_read::{RawGroup, ValuesError, read_group};
pub use open_error::{CounterScope, TASK_EXITED, explain_open_error, user_mode_only};
pub use overflow::OverflowCounters;
pub(crate) use ring::RingBuffer;
