//! The report of a comparison (policies × workloads × seeds) as text, JSON, Markdown, data tables and HTML.
//!
//! ```text
//!   lab: runs ─► statistics with intervals and verdicts ─► Comparison ─► to_text · to_json · to_markdown · to_csv · to_html
//! ```
//!
//! This module computes only chart coordinates. A value that was not measured is absent, never zero.

mod answer;
mod charts;
mod data_table;
mod html;
mod markdown;
mod model;
mod ratio;
mod text;

pub use data_table::{DataTable, DataValue};
pub use model::*;
pub use ratio::unfinished_phrase;

/// Version of `compare.json`. The version increases if a field is renamed, removed or changes its meaning.
pub const FORMAT: u32 = 3;
