//! The line types of the file: field names and encodings.
//!
//! CPU and node sets are Linux list text. Times are whole nanoseconds (`_ns`), sizes whole bytes (`_bytes`). A field
//! with its default value (absent, false, empty, zero) is omitted. A zero of an optional field is written, because it
//! differs from an absent value.

mod checkpoint;
mod fields;
mod header;
mod memory;
mod plan;
mod sample;
mod turn;

pub(crate) use checkpoint::CheckpointLine;
pub(crate) use fields::Encoded;
pub(crate) use header::{EndLine, HeaderLine, PartNumber};
pub(crate) use turn::TurnLine;
