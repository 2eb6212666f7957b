//! The line types of the file: field names and encodings.
//!
//! CPU and node sets are Linux list text. Times are whole nanoseconds (`_ns`), sizes whole bytes
//! (`_bytes`). A field that is absent, false or empty is omitted: absent is never zero.

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
