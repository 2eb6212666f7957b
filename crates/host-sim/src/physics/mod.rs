//! Speeds of programs that share caches and memory, computed from each program alone.
//!
//! ```text
//!   values of one program ── miss_curve.rs ─► misses at any cache size
//!   all programs of a cache ── cache_sharing.rs, replacement.rs, shared_data.rs ─► cache occupancy of each program
//!   all programs of a channel ── channel.rs ─► miss latency, and the resulting speed of each program
//!   programs of the SMT siblings ── smt.rs ─► speed of a program on a shared core
//!   one program at several cache sizes ── cpi_model.rs ─► its share of stall cycles
//!   one profile ── profile_model.rs ─► its share of stall cycles
//!   latency and peak bandwidth of a memory ── calibration.rs ─► its channel
//! ```
//!
//! Cycles per instruction = core cycles + exposed misses × loaded latency ÷ memory-level parallelism. All results
//! are rates that are valid until a program starts, ends or changes its phase.

mod cache_sharing;
mod calibration;
mod channel;
mod cpi_model;
mod miss_curve;
mod profile_counts;
mod profile_model;
mod replacement;
mod shared_data;
mod smt;

pub(crate) use cache_sharing::LINE;
pub use cache_sharing::{FillTable, Refill, StepLine, occupancies, residence_time};
pub use calibration::Calibration;
pub use channel::{Channel, ChannelDemand, ChannelLoad, Demand, LoadCurve, StreamEfficiency};
pub(crate) use cpi_model::PAGE_BYTES;
pub use cpi_model::{CoreSpeed, CpiModel, CpiParameters, CpiTerms, PrefetchTimeliness, TimeTerms};
pub use miss_curve::{EventsPer1000, MissCurve, MissCurveError, MissPoint};
pub use profile_model::{ProfileError, of_phase, of_profile};
pub use replacement::{occupancies_with, remaining_share, residence_if_alone};
pub use shared_data::{CacheEntries, SharedFills};
pub use smt::smt_share_beside;
