//! The report of a run: every field described once, then text, JSON and HTML from the same values.
//!
//! ```text
//!   turns (live, or out of a journal) ─► ReportBuilder ─► Report ─► to_text · to_json · to_html
//!                                         bounded          │
//!                                         memory           └─ the table of fields ─► docs, schema, column heads
//! ```
//!
//! What was not measured is absent (`null` in JSON, `-` in tables), never zero. Nothing here reads a
//! clock or a file.

mod build;
pub mod calibration;
pub mod comparison;
mod describe;
mod eras;

pub mod docs;
pub mod explain;
mod from_journal;
mod html;
mod json;
mod model;
mod places;
pub mod profile;
pub mod status;
pub mod study;
mod text;
pub mod units;
pub mod words;

pub use build::ReportBuilder;
pub use describe::{Described, Field, Shape, Unit};
pub use from_journal::from_journal;
pub use model::*;
pub use places::{PlaceNames, cpu_words};

/// The version of `report.json`. It grows when a field changes its meaning or goes.
pub const FORMAT: u32 = 1;
