//! What the policy of animals can be told.

use super::classes::Limits;
use crate::common::whole;
use crate::intensity::params::{
    BUSY_PARAM, Common, DOMAINS_PARAM, FAILURES_PARAM, INTERVAL_PARAM, READING_PARAM, reading,
};
use crate::intensity::rates::Rate;
use crate::spec::Given;
use crate::{Need, Needed, Origin, ParamInfo, PolicyError, PolicyInfo, Without};

/// Everything that it can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Config {
    pub common: Common,
    pub limits: Limits,
    /// Pairs drawn in an interval.
    pub pairs: u64,
}

impl Config {
    pub fn read(given: &Given<'_>) -> Result<Self, PolicyError> {
        let rate = |key, default| {
            given.get(key, default, |text| whole(text, 1, 10_000)).map(Rate::per_10_000)
        };
        Ok(Config {
            common: Common::read(given, reading(given)?)?,
            limits: Limits {
                devil: rate("devil", 15)?,
                strong: rate("strong", 100)?,
                quiet: rate("quiet", 20)?,
                rabbit: rate("rabbit", 80)?,
            },
            pairs: given.get("pairs", 1, |text| whole(text, 0, 1000))?,
        })
    }
}

const PER_10_000: &str = "events per 10000 instructions, from 1 to 10000";

const fn limit(
    name: &'static str,
    default: &'static str,
    meaning: &'static str,
    origin: Origin,
) -> ParamInfo {
    ParamInfo { name, takes: PER_10_000, default, default_paper: None, meaning, origin }
}

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "animal",
    does: "Starts programs on the cache where they get on best with the others, and swaps a pair now and \
           then that would get on better.",
    source: "the predecessor of DINO in the scheduler Clavis 6.5.5; its classes and penalties",
    needs: &[
        Need { figure: Needed::Instructions, without: Without::Refuses },
        Need { figure: Needed::LlcMisses, without: Without::Refuses },
        Need {
            figure: Needed::LlcReferences,
            without: Without::DoesLess("who misses little counts as a sheep"),
        },
    ],
    params: &[
        READING_PARAM,
        DOMAINS_PARAM,
        INTERVAL_PARAM,
        limit("devil", "15", "misses above which a thread is a devil", Origin::Published),
        limit(
            "strong",
            "100",
            "misses above which a thread is a strong devil (guessed)",
            Origin::OurChoice,
        ),
        limit(
            "quiet",
            "20",
            "who is no devil and has fewer cache accesses is a turtle (guessed)",
            Origin::OurChoice,
        ),
        limit(
            "rabbit",
            "80",
            "who is no devil and has more cache accesses is a rabbit, one between a sheep (guessed)",
            Origin::OurChoice,
        ),
        ParamInfo {
            name: "pairs",
            takes: "a whole number up to 1000",
            default: "1",
            default_paper: None,
            meaning: "so many pairs of threads are drawn by lot in each interval, and swapped if that \
                      makes the sum of their penalties smaller",
            origin: Origin::OurChoice,
        },
        BUSY_PARAM,
        FAILURES_PARAM,
    ],
};
