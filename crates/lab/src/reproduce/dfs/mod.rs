//! Functions of some experiments on DFS. The other experiments are data, in `workloads/papers/dfs/experiments.toml`.

mod load_signal;
mod upper_bound;

use super::{Code, ReproduceError, Testbed};

/// Functions by name of the experiment.
pub(super) const CODE: &[Code] =
    &[("upper-bound", upper_bound::upper_bound), ("load-signal", load_signal::load_signal)];

const ALL: [&str; 10] = ["wl1", "wl2", "wl3", "wl4", "wl5", "wl6", "wl7", "wl8", "wl9", "wl10"];

/// Returns the chip with one node for each controller and 16 GiB per node, with which no run of these workloads runs
/// out of memory.
fn first_touch() -> Result<Testbed, ReproduceError> {
    Testbed::parse("tilepro64 memory=16")
}

/// Returns the chip as delivered, with memory interleaved over the controllers, and the same amount of memory.
fn interleaved() -> Result<Testbed, ReproduceError> {
    Testbed::parse("tilepro64-interleaved memory=16")
}
