//! Simulator data inside the program: machines, profiles of the papers' programs, and their workloads.
//!
//! ```text
//!   workloads/data/benchmarks.csv ─┐
//!   workloads/data/profiles.csv ───┼─ tables ─► program_values ─► build_profile ─► Profile
//!   workloads/data/traced/*.toml ──┘                 ▲ joint_draw: the middle of the ranges, or a seed
//!   workloads/machines/*.toml ─► Machine       workloads/papers/** ─► Workload
//! ```
//!
//! No file is read at run time. No value is fitted to a published result. A value that was not measured is a range with
//! its reason. Many draws from the ranges show whether a result depends on unmeasured values.

mod alone;
mod build_profile;
mod files;
mod joint_draw;
mod program_values;
mod tables;

#[cfg(test)]
mod tests;

use base::Bytes;
use program::Profile;

pub use alone::{SoloRates, alone, class_on};
use build_profile::build_profile;
pub use files::{ShippedKind, machine, machines, text, workload, workloads};
use joint_draw::drawn;
pub use program_values::{DrawPosition, ProfileDraw};
use program_values::{HOG, full_name};
pub use tables::{ProfileSet, Range, ranges};

/// Error: no shipped object has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no shipped {kind} {name:?}; {hint}")]
pub struct NotShipped {
    kind: &'static str,
    name: String,
    hint: String,
}

impl NotShipped {
    fn new(kind: &'static str, name: &str, known: impl IntoIterator<Item = String>) -> Self {
        let known: Vec<String> = known.into_iter().collect();
        let hint = base::suggest::question(&similar(name, &known))
            .unwrap_or_else(|| format!("there are {}", known.join(", ")));
        NotShipped { kind, name: name.to_owned(), hint }
    }

    /// Creates the error for a profile. The error names a command, because a list of all profiles is too long for one
    /// line.
    fn profile(name: &str) -> Self {
        let known = profiles();
        let program = name.split('@').next().unwrap_or(name);
        let list = format!("evenkeel profile --list prints the {} shipped profiles", known.len());
        let question = base::suggest::question(&similar(program, &known));
        let hint = question.into_iter().chain([list]).collect::<Vec<_>>().join(" ");
        NotShipped { kind: "profile", name: name.to_owned(), hint }
    }
}

/// Returns up to three similar names, the closest first. The number of a SPEC program may be omitted.
fn similar<'a>(name: &str, known: &'a [String]) -> Vec<&'a String> {
    let bare = |known: &'a String| known.split_once('.').map_or(known.as_str(), |(_, bare)| bare);
    let names = known.iter().flat_map(|known| [known.as_str(), bare(known)]);
    let mut found: Vec<&String> = Vec::new();
    for near in base::suggest::similar(name, names) {
        let full = known.iter().find(|known| *known == near || bare(known) == near);
        found.extend(full.filter(|full| !found.contains(full)));
    }
    found.truncate(3);
    found
}

/// Returns the names of the programs with a profile, sorted.
pub fn profiles() -> Vec<String> {
    program_values::programs()
}

/// Returns the profile of a program, with every value in the middle of its range.
///
/// The number of a SPEC program may be omitted (`lbm` is `470.lbm`). `@` and a factor after the name change the length:
/// `470.lbm@0.1` executes a tenth of the instructions.
///
/// # Errors
/// There is no program of this name, or the factor is invalid.
pub fn profile(name: &str) -> Result<Profile, NotShipped> {
    profile_drawn(name, ProfileDraw::MIDDLE)
}

/// Returns the profile of a program with the values of a draw. Equal draws give equal values in any order of the calls.
///
/// # Errors
/// As [`profile`].
pub fn profile_drawn(name: &str, draw: ProfileDraw) -> Result<Profile, NotShipped> {
    let unknown = || NotShipped::profile(name);
    let (program, factor) = match name.split_once('@') {
        Some((program, factor)) => {
            let wrong = || NotShipped { hint: FACTORS.to_owned(), ..unknown() };
            (program, length(factor).ok_or_else(wrong)?)
        }
        None => (name, 1.0),
    };
    let program = full_name(program).ok_or_else(unknown)?;
    Ok(build_profile(name, &drawn(&program, draw), draw, factor))
}

const FACTORS: &str = "the text after @ must be a factor from 1e-9 to 1e6, as in 470.lbm@0.1";

/// Parses a length factor, which must be in the range in which no time overflows.
fn length(text: &str) -> Option<f64> {
    text.parse().ok().filter(|factor| (1e-9..=1e6).contains(factor))
}

/// Returns the profile of the hog for a machine with a last-level cache of this size: its buffer is four times as
/// large, and at least 64 MiB. The shipped profile `memory-hog` has 64 MiB.
pub fn hog(cache: Bytes, draw: ProfileDraw) -> Profile {
    let buffer = Bytes(cache.0.saturating_mul(4)).max(Bytes(64 << 20));
    let mut values = drawn(HOG, draw);
    values.footprint = buffer.0 as f64;
    build_profile(HOG, &values, draw, 1.0)
}
