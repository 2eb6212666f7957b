//! Published results beside the results of this simulator.
//!
//! ```text
//!   workloads/papers/*/experiments.toml ─► Study ─► Experiment ─► runs (RunPool on Testbeds)
//!                                                                   │
//!       text · JSON · HTML page  ◄── StudyRun ◄── Finding ◄─────────┘
//!                                                 tables · claims with verdicts · notes
//! ```
//!
//! An experiment is data: testbeds, policies, workloads, tables and claims ([`definition`]). A function is used
//! where a result is not a comparison of runs; the file states why. Limits of verdicts were fixed before the first
//! run. Where the published rules of a policy contain errors, both readings run: `paper`, as printed, and `ours`, as
//! corrected. Program values that are ranges are drawn `--draws` times, and the verdict depends on the share of draws
//! in which a claim is true.

mod contention;
mod definition;
mod dfs;
mod divided;
mod evaluate;
mod experiment;
mod finding;
mod gain;
mod output;
mod program_sets;
mod published_groups;
mod run_pool;
mod testbed;
#[cfg(test)]
mod tests;

use base::Nanos;

pub use experiment::{Experiment, STUDIES, Study, StudyRun};
pub use finding::{Finding, Table};
pub use gain::Gain;
pub use output::{list, text};
pub use run_pool::{RunPool, RunResults};
pub use testbed::Testbed;

use crate::compare::SimRunError;
use crate::shipped::NotShipped;

/// Why an experiment failed.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// A machine, workload or profile does not ship.
    #[error(transparent)]
    NotShipped(#[from] NotShipped),
    /// A policy does not exist.
    #[error(transparent)]
    Column(#[from] crate::compare::ColumnError),
    /// A machine or job cannot be simulated.
    #[error(transparent)]
    Sim(#[from] host_sim::SimError),
    /// A run could not start.
    #[error(transparent)]
    Run(#[from] SimRunError),
    /// A run that is observed while it runs did not finish.
    #[error("{run} failed: {cause}")]
    Failed {
        /// Policy, workload and seed.
        run: String,
        /// The error of the run.
        cause: String,
    },
    /// The user stopped the study.
    #[error("stopped: unfinished experiments are left out")]
    Stopped,
}

/// The part of an experiment that is a function, with the name of the experiment.
type Code = (&'static str, fn(&RunPool<'_>) -> Result<Finding, ReproduceError>);

/// Interval between two decisions of a policy.
fn interval_of(policy: &str) -> Nanos {
    let built = policy::build(policy, 0).expect("shipped policies need no parameters");
    built.interval().expect("a periodic policy")
}
