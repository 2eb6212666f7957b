//! Declaration of the animal policy: parameters, reasons and source.

use base::Rng;
use sched::reasons;

use super::Animals;
use crate::declaration::{Values, params};
use crate::memory_intensity::parameters::{
    self as common, COMMON_PARAMS, FAILURES, FIRST_PARAMS, MISSES_PER_INSTRUCTION,
};
use crate::memory_intensity::rates::Rate;
use crate::{IfMissing, PolicyInfo, RequiredSignal, Signal, notes};

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "animal",
    summary: "Starts each job on the cache where its class has the lowest penalty, and swaps \
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
    params: &[FIRST_PARAMS, PARAMS, COMMON_PARAMS, &[FAILURES]],
    reasons: &[notes::REASONS, common::REASONS, REASONS],
    work_conserving: false,
    needs_core_kinds: false,
    rules: Some(|params, seed| Box::new(Animals::new(params, Rng::new(seed)))),
};

params! {
    /// Configuration of the policy.
    pub(super) struct Config from PARAMS {
        devil: Rate = "15", "misses above which a thread is a devil".published().below("strong");
        strong: Rate = "100", "misses above which a thread is a strong devil (guessed)";
        quiet: Rate = "20", "LLC accesses below which a thread that is not a devil is a turtle (guessed)"
            .below("rabbit");
        rabbit: Rate = "80", "LLC accesses above which a thread that is not a devil is a rabbit; between both limits \
            the thread is a sheep (guessed)";
        pairs: u64 [Values::integer("", 0, 1000)] = "1", "number of random pairs of threads per interval that are \
            swapped if that lowers the sum of their penalties";
    }
}

/// The rates that a class is based on.
macro_rules! basis {
    () => {
        concat!(
            "[basis=assumed: assumed until its class is known]",
            "[basis=misses: {misses} misses per 1000 instructions, accesses not counted]",
            "[basis=accesses: {misses} misses and {accesses} accesses per 1000 instructions]",
        )
    };
}

reasons! {
    /// A job gets its first slots.
    ANIMAL_PLACED = "animal-placed":
        concat!("the job is a {animal} (", basis!(), "); of the caches with the fewest threads ({n_threads}) {domain} had the lowest penalty for it ({penalty} for all of its threads): it gets {cpus}[; some of its CPUs ({lost}) became unusable]");
    /// Two threads swap their CPUs.
    ANIMALS_SWAPPED = "animals-swapped":
        concat!("the job is a {animal} (", basis!(), ") on {from}, and {other} is a {other_animal} on {to}: swapping them changes the sum of penalties from {before} to {after}; it gets {cpus}");
}
