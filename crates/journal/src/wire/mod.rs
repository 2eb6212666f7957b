//! The lines as they stand in the file: this room's own types, with the fields' names in the file.
//!
//! Sets of CPUs are the kernel's list text, times whole nanoseconds (`_ns`), sizes whole bytes
//! (`_bytes`). What is absent, false or empty is left out: absent is never zero.

mod around;
mod basic;
mod job;
mod lines;
mod memory;
mod plan;
mod sample;
mod so_far;
mod turn;

pub(crate) use lines::{EndLine, HeaderLine, Place};
pub(crate) use so_far::SoFarLine;
pub(crate) use turn::{TurnLine, TurnOut};

/// For `skip_serializing_if`.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
