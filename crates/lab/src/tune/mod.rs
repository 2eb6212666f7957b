//! Search for better parameters of a policy in the simulator.
//!
//! ```text
//!   declaration of the policy ─► SearchSpace ─► Sampler ─► settings ─► training runs ─► ratio to the defaults ─┐
//!                                                  ▲                                                           │
//!                                                  └──────────── in batches of a fixed size ◄──────────────────┘
//!   best settings of the training runs ─► held-out runs ─► gain with its interval ─► settings, or the defaults
//! ```
//!
//! The search minimizes the geometric mean, over the training workloads, of the mean makespan divided by the mean
//! makespan of the defaults. Training runs overestimate the gain of the best of many trials (selection bias), so the
//! gain is measured on other seeds, and with several workloads on other workloads. The search never reads these runs.
//! Settings replace the defaults only if the held-out runs have the verdict *better*, with the rules of a comparison.
//!
//! The result depends on the plan only: a batch has the same size for every number of threads.

mod held_out;
mod idle_parameters;
mod sampler;
mod search;
mod sensitivity;
mod space;

pub use held_out::is_held_out;
pub use search::{TuneError, TunePlan, tune};
pub use space::{SearchSpace, SpaceError};
