//! All placement policies, and the registry that builds a policy from a line of text.
//!
//! ```text
//!   "dfs[cooldown=4]" + seed ─► build ─► Box<dyn Policy> ─► decide(snapshot) ─► plan
//! ```
//!
//! Every policy is a module with one declaration, its [`PolicyInfo`]. Parsing, defaults, `evenkeel policies`
//! and the reasons in journals are derived from the declaration. The decisions of a policy are its [`Rules`]: they
//! read a [`sched::Snapshot`], write a [`sched::Plan`], and do not depend on a host.
//!
//! To add a policy, add a module with a declaration and an `impl Rules`, and one line in [`registry`].

mod animal;
mod declaration;
mod dfs;
mod di;
mod dino;
mod divided;
mod home_cluster;
#[cfg(test)]
mod invariants;
mod linux;
mod memory_intensity;
mod nmass;
mod notes;
mod placement;
mod random;
mod slots;
mod spread;
#[cfg(test)]
mod testing;
mod trial;

use sched::Policy;

pub use declaration::{
    BuildRules, DefaultSource, INTERVAL, IfMissing, MissingSignal, Param, ParamValue, Params,
    PolicyError, PolicyInfo, RequiredSignal, Requirement, Rules, Signal, Values, missing,
};
use declaration::{split, unknown_policy};
pub use divided::{NoThreshold, Threshold, calibrate};
pub use trial::{JUDGED_BETTER, JUDGED_NO_BETTER, JUDGED_WORSE, TRIES_AGAIN, with_trials};

/// Returns all policies, in the order of the documentation.
pub fn registry() -> &'static [&'static PolicyInfo] {
    &[
        &linux::INFO,
        &spread::INFO,
        &random::INFO,
        &dfs::INFO,
        &di::DI,
        &di::DIO,
        &di::DI_MIGRATE,
        &dino::INFO,
        &animal::INFO,
        &nmass::MAXIMUM_LOCAL,
        &nmass::INFO,
        &home_cluster::INFO,
        &divided::INFO,
    ]
}

/// Builds the policy that a text such as `dfs[cooldown=4]` names.
///
/// The seed is for policies that draw random numbers; the same text and seed give the same policy.
///
/// # Errors
/// The policy or a parameter does not exist, a value is out of range, or values exclude each other.
pub fn build(spec: &str, seed: u64) -> Result<Box<dyn Policy>, PolicyError> {
    find(split(spec)?.0)?.build(spec, seed)
}

/// Returns the declaration of a policy, by its name.
///
/// # Errors
/// The policy does not exist.
pub fn find(name: &str) -> Result<&'static PolicyInfo, PolicyError> {
    registry().iter().find(|info| info.name == name).copied().ok_or_else(|| unknown_policy(name))
}

#[cfg(test)]
mod tests;
