//! Functions of the experiments on divided scheduling; the others are data, in
//! `workloads/papers/divided/experiments.toml`.
//!
//! ```text
//!   alone ─► counters ─► detected groups          pairs ─► slowdowns ─► groups by effect
//! ```

mod alone;
mod completion;
mod multisets;
mod pairs;
mod programs;
mod splits;
mod steady;
mod sweep;

pub(super) use programs::thresholds;

use super::Code;

/// By experiment.
pub(super) const CODE: &[Code] = &[
    ("fig-1", pairs::pairs),
    ("figs-2-to-5", alone::counters),
    ("fig-6", alone::reuse),
    ("hit-ratio", pairs::hit_ratios),
    ("multisets", multisets::all),
    ("splits", splits::splits),
    ("completion", completion::completion),
    ("sweep", sweep::sweep),
    ("steady", steady::steady),
];

/// Mixes with two or more programs of Group 1 and of Group 2.
const CONTENDED: [&str; 10] = [
    "basic01", "basic02", "basic03", "basic04", "basic05", "basic07", "basic10", "basic11",
    "basic12", "basic14",
];

/// Both settings of NUMA balancing: in words, and as a variant of a policy.
const KERNELS: [(&str, &str); 2] =
    [("NUMA balancing on", "numa-balancing"), ("NUMA balancing off", "no-numa-balancing")];
