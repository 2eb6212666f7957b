//! The report of a run: each field is described once; text, JSON and HTML use the same description.
//!
//! ```text
//!   turns (live, or from a journal) ─► ReportBuilder ─► Report ─► to_text · to_json · to_html
//!                                       bounded          │
//!                                       memory           └─ descriptions of fields ─► docs, schema, column headers
//! ```
//!
//! A value that was not measured is absent (`null` in JSON, `-` in tables), never zero. This crate reads
//! no clock and no file.

mod build;
pub mod calibration;
mod chart;
pub mod comparison;
mod describe;
pub mod docs;
mod domain_names;
pub mod explain;
pub mod format;
mod html;
mod model;
mod page;
pub mod phrases;
pub mod profile;
pub mod status;
pub mod study;
pub mod table;
mod text;
pub mod tuning;

pub use build::{ReportBuilder, from_journal};
pub use describe::{Described, FieldDescription, FieldUnit, JsonType};
pub use domain_names::{DomainNames, cpu_phrase};
pub use model::*;

/// Version of `report.json`. The version increases if a field is renamed, removed or changes its meaning.
pub const FORMAT: u32 = 3;
