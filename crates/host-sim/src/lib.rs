//! The simulated machine.
//!
//! ```text
//!   machine file ─► hardware.rs ─┐                      ┌─ kernel/   where tasks go that nobody placed
//!   profiles ─► cast.rs ─► script.rs ─► fluid/: who runs where, how fast, until when ◄── physics/
//!                                         ▲
//!   engine ◄── turns, samples ── host.rs ─┘  plans carried out
//! ```
//!
//! [`SimHost`] is a host like any other: the same engine and the same policies decide for it. Physics and
//! [`predict`] are for `lab` and `app` alone: a policy that knew them would only confirm them.

pub mod calibrate;
pub mod cast;
pub mod chance;
pub mod check;
pub mod copies;
pub mod faults;
pub mod fluid;
pub mod hardware;
mod host;
pub mod kernel;
pub mod oracle;
pub mod physics;
pub mod predict;
pub mod script;
pub mod sheet;

pub use host::{Capabilities, SimError, SimHost, SimOptions, check_kernel};
