//! Types that every crate uses: ids, times, sizes, sets of CPUs and nodes, random numbers, and the reader of
//! TOML files.
//!
//! The crate reads no files and no clocks, and uses no random numbers other than those of a seed.

mod cpuset;
mod ids;
pub mod json;
mod key_values;
mod printable;
mod rng;
pub mod shell;
mod stop_flag;
pub mod suggest;
pub mod toml_reader;
mod transcript;
mod units;

pub use cpuset::{CpuSet, IdSet, NodeSet, ParseSetError};
pub use ids::{CoreId, CpuId, JobId, LlcId, NodeId, SetId, TaskId};
pub use key_values::{KeyValue, KeyValueError, key_values};
pub use printable::{cut, excerpt, is_printable, printable, printable_lines};
pub use rng::Rng;
pub use stop_flag::StopFlag;
pub use suggest::{counted_noun, noun};
pub use transcript::transcript;
pub use units::{
    Bytes, LINE_BYTES, Nanos, ParseUnitError, SIZE_EXAMPLE, TIME_EXAMPLE, exact_nanos, gb_per_s,
};
