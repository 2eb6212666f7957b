//! From cumulative figures to rates and loads.
//!
//! A host tells totals: CPU time since birth, controller operations since boot. A policy wants to
//! know what happened lately. *Lately* is the stretch between two interval turns; the turns between
//! them (a job due, a job ended) bring new totals now and then but leave the rates as they were.
//!
//! ```text
//!   interval turn        event turn        interval turn
//!        │ base             │ now               │ now - base = the rates shown from here on
//!        └──────────────────┴───────────────────┘ base = now
//! ```
//!
//! A task born in between starts from zero; one that ended in between still counts for the place
//! where it ran. A figure that was absent at either end has no rate.

mod controllers;
mod counters;
mod declared;
mod loads;
mod memory;
mod system;
mod tasks;
mod tiers;

pub(crate) use controllers::{ControllerGrowth, Controllers};
pub use counters::{deltas_between, deltas_since_opened, deltas_since_start};
pub(crate) use declared::Declared;
pub(crate) use loads::{LoadDomains, LoadMeter};
pub(crate) use memory::ProcessMemories;
pub(crate) use system::SystemMetrics;
pub(crate) use tasks::Tasks;
pub(crate) use tiers::TierSelector;
