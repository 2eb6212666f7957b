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
mod auto;
mod core_kinds;
mod declaration;
mod dfs;
mod di;
mod dino;
mod divided;
mod ff;
mod hass;
mod home_cluster;
mod ib;
#[cfg(test)]
mod invariants;
mod linux;
mod memory_intensity;
mod nmass;
mod notes;
mod placement;
mod random;
mod sample_run;
mod slots;
mod spread;
#[cfg(test)]
mod testing;
mod trial;

use sched::{Policy, ReasonCode};

pub use declaration::{
    BuildRules, DefaultSource, INTERVAL, IfMissing, MissingSignal, Param, ParamSetting, ParamValue,
    Params, PolicyError, PolicyInfo, RequiredSignal, Requirement, Rules, Signal, Values, missing,
};
use declaration::{split, unknown_policy};
pub use divided::{NoThreshold, Threshold, calibrate};
pub use trial::{JUDGED_BETTER, JUDGED_NO_BETTER, JUDGED_WORSE, TRIES_AGAIN};
use trial::{ReportedOnly, TrialGoal, Trials};

/// Returns all policies, in the order of the documentation.
pub fn registry() -> &'static [&'static PolicyInfo] {
    &[
        &auto::INFO,
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
        &ib::INFO,
        &hass::HASS_S,
        &hass::HASS_D,
        &sample_run::INFO,
        &ff::INFO,
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

/// Builds a policy for attached processes, which evenkeel did not start: its migrations are tried a few at a time,
/// measured, and reverted if they do not improve performance. Without `acts` no request is carried out, and requests
/// are reported at most once a minute for each job and kind of action.
///
/// # Errors
/// As [`build`].
pub fn build_attached(spec: &str, seed: u64, acts: bool) -> Result<Box<dyn Policy>, PolicyError> {
    let info = find(split(spec)?.0)?;
    match info.name == auto::INFO.name {
        // This policy is a selection of a policy in trials.
        true => info.build_with(spec, |params| Box::new(auto::Auto::new(params, seed, acts))),
        false => {
            let policy = info.build(spec, seed)?;
            Ok(match acts {
                true => Box::new(Trials::new(policy, TrialGoal::AnyMetric)),
                false => Box::new(ReportedOnly::new(policy)),
            })
        }
    }
}

/// Returns the declaration of a policy, by its name.
///
/// # Errors
/// The policy does not exist.
pub fn find(name: &str) -> Result<&'static PolicyInfo, PolicyError> {
    registry().iter().find(|info| info.name == name).copied().ok_or_else(|| unknown_policy(name))
}

/// Returns whether a note is the reason why a policy makes no request on this machine.
pub fn has_nothing_to_decide(note: &ReasonCode) -> bool {
    [
        notes::NOTHING_TO_PLACE,
        notes::NO_DOMAINS,
        core_kinds::ONE_CORE_KIND,
        auto::ONE_DOMAIN,
        auto::NO_GAIN_EXPECTED,
    ]
    .contains(note)
}

#[cfg(test)]
mod tests;
