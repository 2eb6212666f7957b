//! Functions of the experiments on DFS; the others are data, in `workloads/papers/dfs/experiments.toml`.

mod ceiling;
mod load_signal;

use super::{Code, ReproduceError, Testbed};

/// By experiment.
pub(super) const CODE: &[Code] =
    &[("upper-bound", ceiling::ceiling), ("load-signal", load_signal::load_signal)];

const ALL: [&str; 10] = ["wl1", "wl2", "wl3", "wl4", "wl5", "wl6", "wl7", "wl8", "wl9", "wl10"];

/// The chip with one node for each controller and 16 GiB per node, where no run of these workloads runs out of memory.
fn by_node() -> Result<Testbed, ReproduceError> {
    Testbed::parse("tilepro64 memory=16")
}

/// The chip as delivered, with memory striped over the controllers, and as much memory.
fn striped() -> Result<Testbed, ReproduceError> {
    Testbed::parse("tilepro64-interleaved memory=16")
}
