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

use super::published_groups::plain_name;
use super::{Code, ReproduceError, Testbed};

/// Functions by name of the experiment.
pub(super) const CODE: &[Code] =
    &[("best-split", splits::best_splits), ("figs-8-to-10", parameters::search)];

/// Variation of the machines: programs of a tenth of their length, so that a study takes minutes.
const SCALED: &str = "scale=0.1";

/// A platform of the paper: machine, name in the output, published alpha and beta.
struct Platform {
    machine: &'static str,
    name: &'static str,
    published: (&'static str, &'static str),
}

const PLATFORMS: [Platform; 3] = [
    Platform { machine: "opteron-2384-uma", name: "UMA", published: ("0.3", "0") },
    Platform { machine: "opteron-2384-numa1", name: "NUMA1", published: ("0.8", "0.3") },
    Platform { machine: "opteron-2384-numa2", name: "NUMA2", published: ("0.6", "0.3") },
];

impl Platform {
    /// Returns the testbed of the platform with further variations.
    fn testbed(&self, variations: &str) -> Result<Testbed, ReproduceError> {
        Testbed::parse(&format!("{} {SCALED}{variations}", self.machine))
    }
}

/// The sets of the paper; the last has no diversity.
const SETS: [&str; 7] = ["hd1", "hd2", "hd3", "ld1", "ld2", "ld3", "nd"];
/// The sets with a difference between the programs.
const DIVERSE: usize = 6;
/// The kernel of the platforms, 2.6.27, which ignores core kinds.
const BASELINE: &str = "linux";

/// Returns the indexes of the jobs of each program of a shipped workload, or of the program with this name.
pub(super) fn copies(
    testbed: &Testbed,
    workload: &str,
    program: Option<&str>,
) -> Result<Vec<Vec<usize>>, ReproduceError> {
    let mut all: Vec<(String, Vec<usize>)> = Vec::new();
    for (idx, job) in testbed.shipped_jobs(workload)?.iter().enumerate() {
        let name = plain_name(job);
        match all.iter_mut().find(|(known, _)| known == name) {
            Some((_, jobs)) => jobs.push(idx),
            None => all.push((name.to_owned(), vec![idx])),
        }
    }
    let is_selected = |name: &str| program.is_none_or(|program| program == name);
    Ok(all.into_iter().filter(|(name, _)| is_selected(name)).map(|(_, jobs)| jobs).collect())
}

/// Returns whether the decisions of a policy are based on counters of tasks.
pub(super) fn reads_counters(policy: &str) -> bool {
    let name = policy.split(['[', '@']).next().unwrap_or_default();
    let counted =
        [policy::Signal::Instructions, policy::Signal::LlcMisses, policy::Signal::LlcReferences];
    policy::find(name)
        .is_ok_and(|info| info.signals.iter().any(|one| counted.contains(&one.signal)))
}
