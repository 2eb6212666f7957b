//! The report of a comparison: policies × workloads × seeds, told as text, JSON, table files and a page.
//!
//! ```text
//!   lab: runs ─► figures with intervals and verdicts ─► Comparison ─► to_text · to_json · to_csv · to_html
//! ```
//!
//! Nothing is reckoned here but what a chart needs to be drawn. What was not measured is absent, never zero.

pub(crate) mod html;
mod model;
mod table;
mod text;

pub use model::*;
pub use table::{DataTable, Value};

/// The version of `compare.json`. It grows when a field changes its meaning or goes.
pub const FORMAT: u32 = 1;

impl Comparison {
    /// One object on one line, documented in `docs/report-fields.md` and `docs/compare.schema.json`; no line end
    /// after it. Thousands of runs with their jobs would be five times as large in lines for people.
    ///
    /// # Errors
    /// None that we know of: numbers, texts and lists always have a JSON form.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }
}
