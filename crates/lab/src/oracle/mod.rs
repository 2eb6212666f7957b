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

use policy::{Origin, ParamInfo, PolicyError, PolicyInfo};

use crate::compare::Column;

pub(crate) use search::best;
pub use search::{Best, Way};

/// Its name in `--policy`.
pub const NAME: &str = "oracle";

/// So many placements are simulated for one answer, when nothing else is said: all those of eight programs on two
/// caches alike, and some seconds for a workload of ten minutes.
const N_RUNS: usize = 128;
/// More than anybody waits for.
const N_RUNS_MAX: usize = 1_000_000;

/// What `evenkeel policies` tells of it.
pub const INFO: PolicyInfo = PolicyInfo {
    name: NAME,
    does: "Knows what will happen and does the best that was found in many runs beforehand: for simulated runs \
           alone (--host sim, compare), to tell how much there was to gain.",
    source: "ours; all placements where those are few enough, else a search, with a bound beside it",
    needs: &[],
    params: &[ParamInfo {
        name: "runs",
        takes: "a whole number from 1 to 1000000",
        default: "128",
        default_paper: None,
        meaning: "so many placements of whole runs are simulated at most for one answer",
        origin: Origin::OurChoice,
    }],
};

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
        "oracle has one parameter: write oracle, or oracle[runs={N_RUNS}] with a number from 1 to {N_RUNS_MAX}"
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
    let inside = match &spec[NAME.len()..] {
        "" => "",
        rest => {
            let inside = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            inside.ok_or(OracleError::Parameter)?
        }
    };
    if inside.is_empty() {
        return Ok(Some(Effort { n_runs: N_RUNS }));
    }
    let number = inside.strip_prefix("runs=").and_then(|text| text.parse().ok());
    let number = number.filter(|n| (1..=N_RUNS_MAX).contains(n)).ok_or(OracleError::Parameter)?;
    Ok(Some(Effort { n_runs: number }))
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
