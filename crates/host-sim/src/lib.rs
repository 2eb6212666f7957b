//! The simulated host: a machine, its kernel and its programs as a model.
//!
//! ```text
//!   machine file ─► hardware.rs ─────────────┐            ┌─ kernel/   CPU selection and load balancing
//!   profiles ──► build_scripts.rs ─► script.rs ─► fluid/ ◄┴─ physics/  speeds under contention
//!                                                   ▲
//!                                                   ├───── quantum/  one running task per CPU, slices, queues
//!   engine ◄── turns, samples ── host.rs ─ frame/ ──┘      plans applied, through the interface of frame/
//! ```
//!
//! [`SimHost`] implements the same host interface as the live host, for the same engine and policies. Only `lab` and
//! `app` use the physics and [`predict`]. A policy must not use them, because its predictions would then be validated
//! against the model that they come from.

pub mod build_scripts;
pub mod calibrate;
pub mod copy_scaling;
pub mod csv_table;
pub mod declared;
pub mod faults;
#[cfg(test)]
mod fifo;
pub mod fluid;
pub mod frame;
pub mod hardware;
mod host;
mod inert_keys;
pub mod kernel;
pub mod physics;
pub mod predict;
mod quantum;
pub mod script;
mod thread_plan;
pub mod variation;

pub use frame::InvariantViolation;
pub use host::{
    Capabilities, CpuObservation, ObservedThread, SharedProgress, SimError, SimHost, SimOptions,
    assumed, check_machine,
};
