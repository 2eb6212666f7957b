//! The oracle: the best that is known of what a policy could have done with one run.
//!
//! ```text
//!   a run (machine, workload, seed)
//!     ├─ every policy that ships, as it comes ───────┐
//!     ├─ the best placement of each moment ──────────┤ each simulated to the end, under the same chance
//!     └─ placements for the whole run: ──────────────┤
//!          all of them, where those are few enough;  │
//!          else moves and swaps from the best start  │
//!                                                    ▼
//!                            the one that ends first, and how far above a bound that is
//! ```
//!
//! It knows what the simulated machine will do, chance included, which no counter tells. So it is none of the
//! policies that any host can have, and is built here, for simulated runs alone. What it tells is how much
//! there was to gain: no policy that ships ends before it, as it comes, and no placement at all before the bound.

mod placed;
mod search;

use policy::{Param, Params, PolicyError, PolicyInfo, Values};
use sched::reasons;

use crate::compare::Column;

pub(crate) use search::best;
pub use search::{Best, Way};

/// Its name in `--policy`.
pub const NAME: &str = "oracle";

/// More runs would take days.
const N_RUNS_MAX: usize = 1_000_000;

/// Its declaration for `evenkeel policies`.
pub const INFO: PolicyInfo = PolicyInfo {
    name: NAME,
    summary: "Does the best that was found in many simulated runs of the same workload: an upper bound for the other \
              policies, only for simulated runs (--host sim, compare).",
    source: "our choice: all placements if these are few enough, else a search, with a lower bound of the makespan",
    signals: &[],
    params: &[Param::new(
        "runs",
        Values::whole("", 1, N_RUNS_MAX as u64),
        "128", // All placements of eight programs on two equal caches.
        "maximum number of simulated placements of whole runs",
    )],
    reasons: &[REASONS],
    build: None,
};

reasons! {
    /// The best of all simulated runs.
    ORACLE_CHOSE = "oracle-chose":
        "the oracle simulated this run {n_runs} times before it began (every policy with its defaults, and {how} of jobs for the whole run): {way} had the shortest makespan, {ended}[, {above} above the lower bound of all placements]";
}

/// How hard to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// So many placements of whole runs are tried at most.
    pub n_runs: usize,
}

/// Why a text that begins with the oracle's name means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OracleError {
    /// Another policy, and no such.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A parameter that it has not.
    #[error(
        "oracle has one parameter: write oracle, or oracle[runs=128] with a number from 1 to {N_RUNS_MAX}"
    )]
    Parameter,
    /// A host that cannot have it.
    #[error("the oracle knows what only a simulator can know: write --host sim, or name a policy")]
    Live,
}

/// Whether a text names the oracle.
pub fn is_named(spec: &str) -> bool {
    let rest = spec.trim().strip_prefix(NAME).map(str::trim_start);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('['))
}

/// Whether a column of a comparison is the oracle's.
pub fn is_column(column: &Column) -> bool {
    is_named(&column.spec)
}

/// How hard a text that names the oracle wants it to search; `None` for a text that names something else.
///
/// # Errors
/// A parameter that it has not.
pub fn effort(spec: &str) -> Result<Option<Effort>, OracleError> {
    let spec: String = spec.chars().filter(|c| !c.is_whitespace()).collect();
    if !is_named(&spec) {
        return Ok(None);
    }
    let params = Params::parse(&INFO, &spec).map_err(|_| OracleError::Parameter)?;
    Ok(Some(Effort { n_runs: params.whole("runs") as usize }))
}

/// An error that lists the policies, with the oracle among them.
pub fn beside(error: PolicyError) -> PolicyError {
    error.beside(NAME, "simulated runs alone")
}

/// Whether a text names a policy that a simulated run can have.
///
/// # Errors
/// It names none.
pub fn check(spec: &str) -> Result<(), OracleError> {
    match effort(spec)? {
        Some(_) => Ok(()),
        None => {
            let built = policy::build(spec, 0).map(|_| ());
            Ok(built.map_err(beside)?)
        }
    }
}

#[cfg(test)]
mod tests;
