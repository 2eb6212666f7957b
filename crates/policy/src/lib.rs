//! Every policy, one file each, and the registry that builds any of them from a line of text.
//!
//! ```text
//!   "dfs[cooldown=4]" + seed ─► build ─► Box<dyn Policy> ─► decide(snapshot) ─► plan
//! ```
//!
//! A policy sees a [`sched::Snapshot`] and writes a [`sched::Plan`]; it never learns which host
//! it decides for. What it can be told is listed in its [`PolicyInfo`], with where it comes from.

#[cfg(test)]
mod always;
mod animal;
mod careful;
mod common;
mod dfs;
mod di;
mod dino;
mod divided;
mod ground;
mod home_cluster;
mod intensity;
mod linux;
mod needs;
mod nmass;
mod places;
mod random;
mod spec;
mod spread;
#[cfg(test)]
mod testing;

use sched::Policy;

pub use divided::{NoThreshold, Threshold, calibrate};
pub use needs::{Lack, Need, Needed, Without, missing};
pub use spec::PolicyError;
use spec::{Given, split, unknown_policy};

/// What people should know about a policy.
#[derive(Debug)]
pub struct PolicyInfo {
    /// Its name in `--policy`.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub does: &'static str,
    /// Where it was published, with the section.
    pub source: &'static str,
    /// Which figures it decides by.
    pub needs: &'static [Need],
    /// What it can be told.
    pub params: &'static [ParamInfo],
}

/// One parameter of a policy.
#[derive(Debug)]
pub struct ParamInfo {
    /// Its name in the brackets.
    pub name: &'static str,
    /// Which values are possible, in words.
    pub takes: &'static str,
    /// Its value when nothing is written.
    pub default: &'static str,
    /// The same with `reading=paper`, where that differs.
    pub default_paper: Option<&'static str>,
    /// What it means.
    pub meaning: &'static str,
    /// Whether the published description gives it, or we chose it.
    pub origin: Origin,
}

/// Who says what a parameter should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The source gives the value.
    Published,
    /// The source leaves it open.
    OurChoice,
}

impl Origin {
    /// The word in tables.
    pub fn name(self) -> &'static str {
        match self {
            Origin::Published => "published",
            Origin::OurChoice => "our choice",
        }
    }
}

impl PolicyInfo {
    /// What a parameter can be, in words; empty for a parameter that it does not have.
    fn takes(&self, key: &str) -> &'static str {
        self.params.iter().find(|param| param.name == key).map_or("", |param| param.takes)
    }
}

/// Makes a policy from the parameters that were written and a seed.
type Build = fn(&Given<'_>, u64) -> Result<Box<dyn Policy>, PolicyError>;

static INFOS: [PolicyInfo; 13] = [
    linux::INFO,
    spread::INFO,
    random::INFO,
    dfs::INFO,
    di::DI,
    di::DIO,
    di::DI_MIGRATE,
    dino::INFO,
    animal::INFO,
    nmass::MAXIMUM_LOCAL,
    nmass::INFO,
    home_cluster::INFO,
    divided::INFO,
];

/// In the order of [`INFOS`].
const BUILDS: [Build; 13] = [
    linux::build,
    spread::build,
    random::build,
    dfs::build,
    di::build_di,
    di::build_dio,
    di::build_di_migrate,
    dino::build,
    animal::build,
    nmass::build_maximum_local,
    nmass::build,
    home_cluster::build,
    divided::build,
];

/// Every policy that can be built.
pub fn registry() -> &'static [PolicyInfo] {
    &INFOS
}

/// The policy that a text such as `dfs[cooldown=4]` names.
///
/// The seed is for policies that draw lots; the same text and seed give the same policy.
pub fn build(spec: &str, seed: u64) -> Result<Box<dyn Policy>, PolicyError> {
    let (name, pairs) = split(spec)?;
    let known = INFOS.iter().zip(BUILDS).find(|(info, _)| info.name == name);
    let (info, build) = known.ok_or_else(|| unknown_policy(name))?;
    build(&Given::new(info, pairs)?, seed)
}

/// The same policy with a judge around it, for programs that somebody else started: it lets moves
/// through a few at a time, measures whether they help, and puts everything back and rests when they
/// do not. Without `acts` nothing will be moved, and wishes are only said now and then.
pub fn careful(policy: Box<dyn Policy>, acts: bool) -> Box<dyn Policy> {
    Box::new(careful::Careful::new(policy, acts))
}

/// The description of one policy, by its name.
pub fn find(name: &str) -> Result<&'static PolicyInfo, PolicyError> {
    INFOS.iter().find(|info| info.name == name).ok_or_else(|| unknown_policy(name))
}

#[cfg(test)]
mod tests;
