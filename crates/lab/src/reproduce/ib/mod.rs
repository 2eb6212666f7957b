//! Experiments on asymmetric cores that are functions: every static split of a set over the core kinds, and the search
//! for alpha and beta. The other experiments are data, in `workloads/papers/ib/experiments.toml`.
//!
//! ```text
//!   a set, two copies of each program ─► first completion of each task ─► mean of the copies
//!                                     ─► geometric mean over the programs: the time of the set
//! ```

mod parameters;
mod set_bound;
mod splits;

use super::{Code, ReproduceError, Testbed};

/// Functions by name of the experiment.
pub(super) const CODE: &[Code] =
    &[("best-split", splits::best_splits), ("figs-8-to-10", parameters::search)];

/// Variation of the machines: programs execute a tenth of their instructions, so a study takes minutes.
const SCALED: &str = "scale=0.1";

/// A platform of the paper.
#[derive(Debug)]
pub struct Platform {
    /// Name of the shipped machine.
    pub machine: &'static str,
    /// Name in the output.
    pub name: &'static str,
    /// Published weight of the global behaviour.
    pub alpha: f64,
    beta: f64,
}

/// The platforms.
pub const PLATFORMS: [Platform; 3] = [
    Platform { machine: "opteron-2384-uma", name: "UMA", alpha: 0.3, beta: 0.0 },
    Platform { machine: "opteron-2384-numa1", name: "NUMA1", alpha: 0.8, beta: 0.3 },
    Platform { machine: "opteron-2384-numa2", name: "NUMA2", alpha: 0.6, beta: 0.3 },
];

impl Platform {
    /// Returns the published alpha and beta as parameters of `ib`.
    pub fn params(&self) -> String {
        let Platform { alpha, beta, .. } = self;
        format!("alpha={alpha},beta={beta}")
    }

    /// Returns the testbed of the platform with further variations.
    ///
    /// # Errors
    /// The testbed cannot be built.
    pub fn testbed(&self, variations: &str) -> Result<Testbed, ReproduceError> {
        Testbed::parse(&format!("{} {SCALED}{variations}", self.machine))
    }
}

/// The sets of the paper; the last has no diversity.
pub const SETS: [&str; 7] = ["hd1", "hd2", "hd3", "ld1", "ld2", "ld3", "nd"];
/// The sets with a difference between the programs.
const DIVERSE: usize = 6;
/// The kernel of the platforms, 2.6.27, which ignores core kinds.
const BASELINE: &str = "linux";
