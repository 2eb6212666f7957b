//! Derives rates and loads from cumulative counters.
//!
//! A host samples cumulative values: CPU time since the start of a task, controller operations since boot. A policy
//! needs deltas of the last interval, which is the time between two interval turns. Other turns (a job is due, a job
//! ended) may have new samples but do not change the rates.
//!
//! ```text
//!   interval turn        other turn        interval turn
//!        │ base             │ now               │ rates = now - base, until the next interval turn
//!        └──────────────────┴───────────────────┘ base = now
//! ```
//!
//! The counters of a task that starts in the interval begin at zero. The values of a task that exits in the interval
//! count for the domain of its last CPU. A value that is absent at the start or the end of the interval has no rate.
//!
//! Only the module `counters` scales multiplexed counters and subtracts the counters of children.

mod controllers;
mod counters;
mod cpu_attribution;
mod loads;
mod memory;
mod system;
mod tasks;
mod tiers;

pub(crate) use controllers::{ControllerDelta, Controllers};
pub use counters::{deltas_between, deltas_since_opened, deltas_since_start};
pub(crate) use loads::{LoadDomains, LoadMeter};
pub(crate) use memory::ProcessMemories;
pub(crate) use system::SystemSignals;
pub(crate) use tasks::Tasks;
pub(crate) use tiers::TierSelector;
