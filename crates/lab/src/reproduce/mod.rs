//! Published results and the results of this simulator.
//!
//! ```text
//!   workloads/papers/*/experiments.toml ─► Study ─► Experiment ─► runs (RunPool on Testbeds)
//!                                                                   │
//!       text · JSON · HTML page  ◄── StudyRun ◄── Finding ◄─────────┘
//!                                                 tables · claims with verdicts · notes
//! ```
//!
//! An experiment is data: testbeds, policies, workloads, tables and claims (`definition.rs`). An experiment that is not
//! a comparison of runs is a function; its file states the reason. Limits of verdicts were chosen before the first run.
//! If the published rules of a policy contain errors, both readings run: as published (`paper`) and as corrected.
//! Program values that are ranges are drawn `--draws` times, and the verdict depends on the share of draws in which a
//! claim is true.

mod ceiling;
mod contention;
mod definition;
mod dfs;
mod divided;
mod evaluate;
mod execution_models;
mod experiment;
mod finding;
mod gain;
mod ib;
mod measure_values;
mod observation;
mod output;
mod overhead;
mod phases;
mod program_sets;
mod published_groups;
mod remote_penalty;
mod run_pool;
mod testbed;
#[cfg(test)]
mod tests;

use base::Nanos;

pub use experiment::{Experiment, STUDIES, Study, StudyRun};
pub use ib::{PLATFORMS, Platform, SETS};
pub use output::{list, text};
pub use overhead::reads_counters;
pub use run_pool::RunPool;
pub use testbed::{DeclaredClassBasis, Testbed};

use crate::compare::SimRunError;
use crate::shipped::NotShipped;
use finding::{Finding, FindingTable};
use gain::Gain;

/// Error of an experiment.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum ReproduceError {
    #[error(transparent)]
    NotShipped(#[from] NotShipped),
    #[error(transparent)]
    Column(#[from] crate::compare::ColumnError),
    #[error(transparent)]
    Sim(#[from] host_sim::SimError),
    #[error(transparent)]
    Run(#[from] SimRunError),
    #[error("{run} failed: {cause}")]
    Failed { run: String, cause: String },
    #[error("stopped: unfinished experiments are omitted")]
    Stopped,
}

/// The part of an experiment that is a function, with the name of the experiment.
type Code = (&'static str, fn(&RunPool<'_>) -> Result<Finding, ReproduceError>);

/// Returns the interval between two decisions of a policy.
fn interval_of(policy: &str) -> Nanos {
    let built = policy::build(policy, 0).expect("shipped policies need no parameters");
    built.interval().expect("a periodic policy")
}
