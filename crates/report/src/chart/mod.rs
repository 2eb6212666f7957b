//! Charts of all pages: tables with drawings, charts with two axes, and heat maps.
//!
//! ```text
//!   Axis     title with unit, scale, ticks            rows    a table with a drawing per row
//!   Marks    lines, bars, circles, areas, texts       plot    a chart with two axes
//!                                                     heat    a table of coloured cells
//! ```
//!
//! An axis cannot be created without a title. Charts have the width of the page; texts have one size on every screen.
//! The styles are in [`CSS`]. Each colour is accompanied by a shape, a value or a word.

mod axis;
mod heat;
mod plot;
mod rows;
mod svg;

pub(crate) use axis::Axis;
pub(crate) use heat::{heat, heat_table, panels};
pub(crate) use plot::Plot;
pub(crate) use rows::{ChartRow, RowChart};
pub(crate) use svg::{Marks, Shape};

/// Styles of charts, heat maps and panels, in addition to the styles of all pages.
pub(crate) const CSS: &str = include_str!("chart.css");

/// Number of colours of series.
pub(crate) const N_COLOURS: usize = 8;
