//! What ships for the simulator: machines, profiles of the papers' programs, and the papers' workloads.
//!
//! ```text
//!   workloads/data/benchmarks.csv ─┐
//!   workloads/data/profiles.csv ───┼─ table, ranges ─► figures ─► formula ─► Profile
//!   workloads/data/traced/*.toml ──┘                     ▲ a draw from the ranges: the middle, or a seed
//!   workloads/machines/*.toml ─► Machine       workloads/papers/** ─► Workload
//! ```
//!
//! All of it is part of the program: nothing is read from disk. No figure was fitted to a published result; where
//! nobody measured a figure it is a range with its reason, and a result that hangs on where in its ranges
//! the truth lies shows so when it is drawn from them many times.

mod alone;
mod figures;
mod formula;
mod hog;
mod machines;
mod ranges;
mod table;
mod workloads;

#[cfg(test)]
mod tests;

use program::Profile;
use topology::Machine;

/// Why the reading of a table that is built in cannot fail: tests read every one of them.
const OURS: &str = "a table that ships is sound";

pub use alone::{Alone, alone, class_on};
pub use figures::Draw;
pub use hog::hog;
pub use ranges::{Range, ranges};
pub use workloads::{workload, workloads};

/// Nothing of that name ships.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no shipped {what} {name:?}; {hint}")]
pub struct NotShipped {
    what: &'static str,
    name: String,
    hint: String,
}

impl NotShipped {
    fn new(what: &'static str, name: &str, known: impl IntoIterator<Item = String>) -> Self {
        let known: Vec<String> = known.into_iter().collect();
        let hint = match meant(name, &known).as_slice() {
            [] => format!("there are {}", known.join(", ")),
            near => question(near),
        };
        NotShipped { what, name: name.to_owned(), hint }
    }

    /// There are too many profiles for one line.
    fn profile(name: &str) -> Self {
        let known = profiles();
        let program = name.split('@').next().unwrap_or(name);
        let list = format!("evenkeel profile --list tells the {} that ship", known.len());
        let hint = match meant(program, &known).as_slice() {
            [] => list,
            near => format!("{} {list}", question(near)),
        };
        NotShipped { what: "profile", name: name.to_owned(), hint }
    }
}

/// Up to three similar names, the closest first. The number of a SPEC program may be omitted.
fn meant<'a>(name: &str, known: &'a [String]) -> Vec<&'a String> {
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

fn question(near: &[&String]) -> String {
    let near: Vec<String> = near.iter().map(|near| format!("{near:?}")).collect();
    format!("did you mean {}?", near.join(" or "))
}

/// The names of the machines.
pub fn machines() -> impl Iterator<Item = &'static str> {
    machines::NAMED.iter().map(|(name, _)| *name)
}

/// A machine by its name, such as `tilepro64`.
///
/// # Errors
/// There is none of that name.
pub fn machine(name: &str) -> Result<Machine, NotShipped> {
    let unknown = || NotShipped::new("machine", name, machines().map(str::to_owned));
    machines::NAMED
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(name, text)| machines::read(name, text))
        .ok_or_else(unknown)
}

/// The names of the programs that have a profile, in order.
pub fn profiles() -> Vec<String> {
    figures::programs()
}

/// The profile of a program by its name, from the middle of every range.
///
/// The number of a SPEC program may be left out (`lbm` is `470.lbm`), and `@` with a factor behind the name
/// makes it that much longer or shorter: `470.lbm@0.1` makes a tenth of the instructions.
///
/// # Errors
/// There is no program of that name.
pub fn profile(name: &str) -> Result<Profile, NotShipped> {
    profile_drawn(name, Draw::Middle)
}

/// The same with every figure that is a range drawn as `draw` says. A program has the same figures in one
/// draw however often and in whatever order it is asked for.
///
/// # Errors
/// As [`profile`].
pub fn profile_drawn(name: &str, draw: Draw) -> Result<Profile, NotShipped> {
    let unknown = || NotShipped::profile(name);
    let (program, factor) = match name.split_once('@') {
        Some((program, factor)) => {
            let wrong = || NotShipped { hint: FACTORS.to_owned(), ..unknown() };
            (program, length(factor).ok_or_else(wrong)?)
        }
        None => (name, 1.0),
    };
    let program = figures::full_name(program).ok_or_else(unknown)?;
    Ok(formula::profile(name, &figures::drawn(&program, draw), draw, factor))
}

const FACTORS: &str = "what stands behind @ is a factor from 1e-9 to 1e6, as in 470.lbm@0.1";

/// A factor that makes sense: above 0, and so that no time overflows.
fn length(text: &str) -> Option<f64> {
    text.parse().ok().filter(|factor| (1e-9..=1e6).contains(factor))
}
