//! Functions of some experiments on divided scheduling. The other experiments are data, in
//! `workloads/papers/divided/experiments.toml`.
//!
//! ```text
//!   alone ─► counters ─► detected groups          pairs ─► slowdowns ─► groups by effect
//! ```

mod alone;
mod pairs;
mod programs;
mod splits;
mod sweep;

pub(super) use programs::thresholds;

use super::Code;

/// Functions by name of the experiment.
pub(super) const CODE: &[Code] = &[
    ("fig-1", pairs::pairs),
    ("figs-2-to-5", alone::counters),
    ("fig-6", alone::reuse),
    ("hit-ratio", pairs::hit_ratios),
    ("splits", splits::splits),
    ("sweep", sweep::sweep),
];

/// Mixes with two or more programs of Group 1 and of Group 2.
const CONTENDED: [&str; 10] = [
    "basic01", "basic02", "basic03", "basic04", "basic05", "basic07", "basic10", "basic11",
    "basic12", "basic14",
];
