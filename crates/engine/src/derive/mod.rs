//! Derives rates and loads from cumulative counters.
//!
//! A host samples cumulative values: CPU time since the start of a task, controller operations since boot. A
//! policy needs their deltas in the last interval, between two interval turns. A turn in between (a job is due,
//! a job ended) may have new samples and does not change the rates.
//!
//! ```text
//!   interval turn        other turn        interval turn
//!        │ base             │ now               │ rates = now - base, until the next interval turn
//!        └──────────────────┴───────────────────┘ base = now
//! ```
//!
//! A task that starts within the interval counts from zero. A task that exits within it counts for the domain
//! that it ran in. A value that is absent at the start or the end has no rate.
//!
//! `counters` scales multiplexed counters and subtracts the counters of children, and no other code does.

mod controllers;
mod counters;
mod loads;
mod memory;
mod system;
mod tasks;
mod tiers;

pub(crate) use controllers::{ControllerDelta, Controllers};
pub use counters::{deltas_between, deltas_since_opened, deltas_since_start};
pub(crate) use loads::{LoadDomains, LoadMeter};
pub(crate) use memory::ProcessMemories;
pub(crate) use system::SystemMetrics;
pub(crate) use tasks::Tasks;
pub(crate) use tiers::TierSelector;
