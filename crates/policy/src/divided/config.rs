//! What divided scheduling can be told, and what the two readings of the published text imply.

use base::Nanos;
use topology::DomainChoice;

use super::params::INFO;
use crate::PolicyError;
use crate::common::{self, MILLION, decimal, whole};
use crate::spec::Given;

/// Everything that it can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Config {
    pub domains: DomainChoice,
    pub interval: Nanos,
    pub version: Version,
    /// What counts as many full queues, for the guard too.
    pub th_sq: Option<u64>,
    /// Who has less than so many millionths of the largest rate so far is never Group 1.
    pub floor: u64,
    /// Periods that have to agree on a group.
    pub repeat: u64,
    /// Isolation needs so many thousandths of `th_sq` on each socket; `None`: nobody asks.
    pub guard_permille: Option<u64>,
    /// Whether jobs stay on a socket that fits their role.
    pub keep: bool,
    /// Without full queues: Group 1 moves more than so many megabytes in a second …
    pub bandwidth: u64,
    /// … and this exceeds so many millionths: prefetches to demands, or misses per 1000 instructions.
    pub ratio: u64,
}

/// What tells groups apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// A third of all threads each.
    Rank,
    /// Limits; the one of full queues stands in [`Config::th_sq`].
    Threshold { th_sq: u64, th_ref: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Auto,
    Rank,
    Threshold,
}

/// The published period.
const PERIOD: Nanos = Nanos::from_secs(10);

impl Config {
    pub fn read(given: &Given<'_>) -> Result<Self, PolicyError> {
        let is_paper = given.choice("reading", false, &[("ours", false), ("paper", true)])?;
        let implied = if is_paper { Config::paper() } else { Config::ours() };
        let th_sq = given.get("th_sq", None, threshold)?;
        Ok(Config {
            domains: given.get("domains", implied.domains, common::domains)?,
            interval: given.get("interval", implied.interval, common::interval)?,
            version: version(given, th_sq)?,
            th_sq,
            floor: given.get("floor", implied.floor, floor)?,
            repeat: given.get("repeat", implied.repeat, |text| whole(text, 1, 1000))?,
            guard_permille: given.get("guard", implied.guard_permille, guard)?,
            keep: given.choice("keep", implied.keep, &[("yes", true), ("no", false)])?,
            bandwidth: given.get("bandwidth", implied.bandwidth, |text| whole(text, 0, MILLION))?,
            ratio: given.get("ratio", implied.ratio, decimal)?,
        })
    }

    /// As we mend it.
    fn ours() -> Self {
        Config {
            domains: DomainChoice::Auto,
            interval: PERIOD,
            version: Version::Rank,
            th_sq: None,
            floor: MILLION / 20,
            repeat: 2,
            guard_permille: Some(2000),
            keep: true,
            bandwidth: 2000,
            ratio: 10 * MILLION,
        }
    }

    /// As printed. Where nothing is printed ours holds.
    fn paper() -> Self {
        Config { floor: 0, repeat: 1, guard_permille: None, keep: false, ..Config::ours() }
    }
}

/// Limits once both are given, until then ranks.
fn version(given: &Given<'_>, th_sq: Option<u64>) -> Result<Version, PolicyError> {
    let names = [("auto", Wish::Auto), ("rank", Wish::Rank), ("threshold", Wish::Threshold)];
    let wish = given.choice("version", Wish::Auto, &names)?;
    let th_ref = given.get("th_ref", None, threshold)?;
    if wish == Wish::Rank {
        given.forbid("th_ref", "version=rank")?;
    }
    let needs = |written, missing| PolicyError::Needs { policy: INFO.name, written, missing };
    match (wish, th_sq, th_ref) {
        (Wish::Auto | Wish::Threshold, Some(th_sq), Some(th_ref)) => {
            Ok(Version::Threshold { th_sq, th_ref })
        }
        (Wish::Threshold, _, _) => Err(needs("version=threshold", "th_sq and th_ref")),
        (Wish::Auto, None, Some(_)) => Err(needs("th_ref", "th_sq")),
        (Wish::Auto | Wish::Rank, _, _) => Ok(Version::Rank),
    }
}

/// `none`, or events in a second of CPU time.
fn threshold(text: &str) -> Option<Option<u64>> {
    match text {
        "none" => Some(None),
        text => whole(text, 0, 1_000_000_000_000).map(Some),
    }
}

/// A share such as `5%`, in millionths.
fn floor(text: &str) -> Option<u64> {
    let percent = decimal(text.strip_suffix('%')?)?;
    (percent <= 100 * MILLION && percent % 100 == 0).then_some(percent / 100)
}

/// `off`, or a factor up to 1000 such as `2`.
fn guard(text: &str) -> Option<Option<u64>> {
    if text == "off" {
        return Some(None);
    }
    let permille = decimal(text)? / 1000;
    (permille <= MILLION).then_some(Some(permille))
}
