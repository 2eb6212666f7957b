//! Declaration of the animal policy: parameters, reasons and source.

use base::Rng;
use sched::reasons;

use super::Animals;
use super::classes::Limits;
use crate::declaration::{Param, READING, Values};
use crate::memory_intensity::parameters::{
    self as common, BUSY, Common, DOMAINS, FAILURES, INTERVAL, MISSES_PER_INSTRUCTION,
};
use crate::memory_intensity::rates::Rate;
use crate::{IfMissing, Params, PolicyInfo, RequiredSignal, Signal, notes};

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "animal",
    summary: "Starts each job on the cache where its class has the lowest penalty beside the others, and swaps \
              random pairs of threads if that lowers the sum of penalties.",
    source: "the predecessor of DINO in the scheduler Clavis 6.5.5 of S. Zhuravlev and S. Blagodurov: its \
             animal classes and penalties",
    signals: &[
        MISSES_PER_INSTRUCTION[0],
        MISSES_PER_INSTRUCTION[1],
        RequiredSignal {
            signal: Signal::LlcReferences,
            if_missing: IfMissing::Degrades("a job with few misses counts as a sheep"),
        },
    ],
    params: &[
        READING,
        DOMAINS,
        INTERVAL,
        limit("devil", "15", "misses above which a thread is a devil").published(),
        limit("strong", "100", "misses above which a thread is a strong devil (guessed)"),
        limit(
            "quiet",
            "20",
            "LLC accesses below which a thread that is no devil is a turtle (guessed)",
        ),
        limit(
            "rabbit",
            "80",
            "LLC accesses above which a thread that is no devil is a rabbit; between both limits it is a \
             sheep (guessed)",
        ),
        Param::new(
            "pairs",
            Values::whole("", 0, 1000),
            "1",
            "number of random pairs of threads per interval that are swapped if that lowers the sum of their \
             penalties",
        ),
        BUSY,
        FAILURES,
    ],
    reasons: &[notes::REASONS, common::REASONS, REASONS],
    build: Some(|params, seed| Ok(Box::new(Animals::new(Config::new(params), Rng::new(seed))))),
};

const fn limit(name: &'static str, default: &'static str, help: &'static str) -> Param {
    Param::new(name, Values::whole("events per 10000 instructions", 1, 10_000), default, help)
}

reasons! {
    /// A job gets its first slots.
    ANIMAL_PLACED = "animal-placed":
        "the job is a {animal} ({basis}); of the caches with the fewest threads ({n_there}) {domain} had the lowest penalty for it ({penalty} for all of its threads): it gets {cpus}[; some of its CPUs ({lost}) became unusable]";
    /// Two threads swap their CPUs.
    ANIMALS_SWAPPED = "animals-swapped":
        "the job is a {animal} ({basis}) on {from}, and {other} is a {other_animal} on {to}: swapping them changes the sum of penalties from {before} to {after}; it gets {cpus}";
}

/// Configuration of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Config {
    pub common: Common,
    pub limits: Limits,
    /// Random pairs per interval.
    pub pairs: u64,
    pub failures: u64,
}

impl Config {
    pub fn new(params: &Params<'_>) -> Self {
        let rate = |key| Rate::per_10_000(params.whole(key));
        Config {
            common: Common::new(params),
            limits: Limits {
                devil: rate("devil"),
                strong: rate("strong"),
                quiet: rate("quiet"),
                rabbit: rate("rabbit"),
            },
            pairs: params.whole("pairs"),
            failures: params.whole("failures"),
        }
    }
}
