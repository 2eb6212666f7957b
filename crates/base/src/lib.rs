//! The words that every room uses: numbers of things, sizes, times, sets and chance.
//!
//! Nothing here reads a file, a clock or a source of chance of its own.

mod cpuset;
mod flag;
mod ids;
mod rng;
mod units;
mod words;

pub use cpuset::{CpuSet, IdSet, NodeSet, ParseSetError};
pub use flag::StopFlag;
pub use ids::{CoreId, CpuId, JobId, LlcId, NodeId, SetId, TaskId};
pub use rng::Rng;
pub use units::{Bytes, Nanos, ParseUnitError, TIME_EXAMPLE, exact_nanos};
pub use words::counted_noun;
