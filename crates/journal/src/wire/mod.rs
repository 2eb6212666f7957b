//! The line types of the file: field names and encodings.
//!
//! CPU and node sets are Linux list text. Times are whole nanoseconds (`_ns`), sizes whole bytes
//! (`_bytes`). A field that is absent, false or empty is omitted: absent is never zero.

mod checkpoint;
mod fields;
mod header;
mod job;
mod memory;
mod plan;
mod sample;
mod system_signals;
mod turn;

pub(crate) use checkpoint::CheckpointLine;
pub(crate) use header::{EndLine, HeaderLine, PartNumber};
pub(crate) use turn::{TurnLine, TurnWriter};

/// For `skip_serializing_if`.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
