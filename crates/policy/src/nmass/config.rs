//! What N-MASS and maximum-local can be told.

use base::Nanos;
use topology::DomainChoice;

use crate::PolicyError;
use crate::common::{self, MILLION, decimal, whole};
use crate::intensity::params::FAILURES;
use crate::spec::Given;

/// Everything that they can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Config {
    pub domains: DomainChoice,
    pub interval: Nanos,
    /// Intervals that averages go over.
    pub window: u64,
    /// Pages are spread evenly when no node holds more than so many thousandths of an equal part.
    pub even_permille: u64,
    /// A counted penalty holds until another differs by so many thousandths.
    pub step_permille: u64,
    /// The third step; maximum-local has none.
    pub refine: Option<Refine>,
}

/// What the third step can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refine {
    /// Pressures no further apart are left alone, in thousandths of a miss per 1000 instructions.
    pub d_min_milli: u64,
    /// How much penalty a miss per 1000 instructions of difference justifies, in millionths.
    pub k_millionths: u64,
    /// Whether two may change places when there is no free one.
    pub swap: bool,
    /// Intervals in a row without figures after which it gives up.
    pub failures: u64,
}

/// Once a second, as the spec has it.
const SECOND: Nanos = Nanos::from_secs(1);

impl Config {
    pub fn read(given: &Given<'_>) -> Result<Self, PolicyError> {
        let swap = given.choice("reading", true, &[("ours", true), ("paper", false)])?;
        let refine = Refine {
            d_min_milli: given.get("d_min", 2000, misses)?,
            k_millionths: given.get("k", MILLION / 100, decimal)?,
            swap: given.choice("swap", swap, &[("yes", true), ("no", false)])?,
            failures: given.get("failures", FAILURES, |text| whole(text, 1, MILLION))?,
        };
        Ok(Config { refine: Some(refine), ..Config::read_maximum_local(given)? })
    }

    pub fn read_maximum_local(given: &Given<'_>) -> Result<Self, PolicyError> {
        Ok(Config {
            domains: given.get("domains", DomainChoice::Auto, common::domains)?,
            interval: given.get("interval", SECOND, common::interval)?,
            window: given.get("window", 10, |text| whole(text, 1, 1000))?,
            even_permille: given.get("even", 1250, even)?,
            step_permille: given.get("np_step", 50, step)?,
            refine: None,
        })
    }
}

/// Misses per 1000 instructions, in thousandths.
fn misses(text: &str) -> Option<u64> {
    decimal(text).map(|millionths| millionths / 1000)
}

/// A factor from 1 to 1000, in thousandths.
fn even(text: &str) -> Option<u64> {
    let permille = decimal(text)? / 1000;
    (1000..=MILLION).contains(&permille).then_some(permille)
}

/// A step from 0.001 to 1, in thousandths.
fn step(text: &str) -> Option<u64> {
    let permille = decimal(text)? / 1000;
    (1..=1000).contains(&permille).then_some(permille)
}
