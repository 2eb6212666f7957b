//! Fault injection in simulated runs. The faults are drawn at random, from a seed.
//!
//! | key | fault | value |
//! | --- | --- | --- |
//! | `samples-lost` | the task samples of an interval are lost | share of the intervals |
//! | `counters-absent` | a task's counters did not run in an interval | share of the tasks and intervals |
//! | `requests-rejected` | a placement request is rejected, as if by the kernel | share of the requests |
//! | `pages-busy` | pages are busy and cannot be moved | share of the pages |
//! | `unmanaged-programs` | each unmanaged memory-hungry program starts and ends repeatedly | number |
//! | `cpus-offline` | a CPU goes offline for some seconds | average time between two such faults |

use std::collections::BTreeMap;

use base::{KeyValue, KeyValueError, Nanos, Rng, key_values};

use crate::variation::RandomKey;

/// Probability or number of each fault. The table of the module describes the values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Share of the intervals, 0 to 1.
    pub samples_lost: f64,
    /// Share of the tasks and intervals, 0 to 1.
    pub counters_absent: f64,
    /// Share of the requests, 0 to 1.
    pub requests_rejected: f64,
    /// Share of the pages, 0 to 1.
    pub pages_busy: f64,
    /// Number of programs.
    pub unmanaged_programs: u32,
    /// Average time between two faults; zero: no faults.
    pub cpus_offline: Nanos,
}

/// Keys of all faults.
pub const KEYS: &[&str] = &[
    "samples-lost",
    "counters-absent",
    "requests-rejected",
    "pages-busy",
    "unmanaged-programs",
    "cpus-offline",
];

/// Maximum number of unmanaged programs.
const UNMANAGED_PROGRAMS_MAX: u32 = 64;
/// Minimum average time between two faults of `cpus-offline`.
const OFFLINE_INTERVAL_MIN: Nanos = Nanos::from_millis(100);

impl Faults {
    /// Parses `KEY=VALUE` pairs, separated by commas: `samples-lost=0.1,cpus-offline=20s`.
    ///
    /// # Errors
    /// Returns an error for an unknown key, or for a value that the key does not accept.
    pub fn parse(text: &str) -> Result<Self, KeyValueError> {
        let mut faults = Faults::default();
        let share = |pair: &KeyValue<'_>| {
            pair.parse("a share from 0 to 1", |share| (0.0..=1.0).contains(share))
        };
        for pair in key_values(text) {
            match pair.key {
                "samples-lost" => faults.samples_lost = share(&pair)?,
                "counters-absent" => faults.counters_absent = share(&pair)?,
                "requests-rejected" => faults.requests_rejected = share(&pair)?,
                "pages-busy" => faults.pages_busy = share(&pair)?,
                "unmanaged-programs" => {
                    let accepted = "an integer up to 64";
                    faults.unmanaged_programs =
                        pair.parse(accepted, |n| *n <= UNMANAGED_PROGRAMS_MAX)?;
                }
                "cpus-offline" => {
                    let accepted = "a time of 100ms or more";
                    faults.cpus_offline =
                        pair.parse(accepted, |time| OFFLINE_INTERVAL_MIN <= *time)?;
                }
                _ => return Err(pair.unknown("a fault", "", KEYS)),
            }
        }
        Ok(faults)
    }

    /// Returns whether no fault is enabled.
    pub fn is_none(&self) -> bool {
        *self == Faults::default()
    }
}

/// A kind of fault, with its owner if it concerns one job. Each has a separate random stream, so that the number of
/// draws of one does not affect the others. Therefore policies with different sampling rates have the same unmanaged
/// programs and the same offline CPUs, and an additional job does not change the faults of the other jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FaultKind {
    SamplesLost,
    /// Faults of this thread.
    CountersAbsent(RandomKey),
    /// Faults of this job.
    RequestsRejected(RandomKey),
    CpusOffline,
    /// Faults of the unmanaged program with this index.
    UnmanagedProgram(u32),
}

/// Draws faults.
#[derive(Clone, Debug)]
pub(crate) struct FaultInjector {
    pub faults: Faults,
    seed: u64,
    /// Random stream of each kind, created by [`FaultInjector::rng`] when it is first used.
    rngs: BTreeMap<FaultKind, Rng>,
}

/// Value that is XORed with the seed, so that the faults differ from all other random streams.
const SALT: u64 = 0x6661_756c_7473;

impl FaultInjector {
    pub fn new(faults: Faults, seed: u64) -> Self {
        FaultInjector { faults, seed: seed ^ SALT, rngs: BTreeMap::new() }
    }

    /// Returns whether a fault of this probability occurs. A probability of zero draws no random number.
    pub fn occurs(&mut self, kind: FaultKind, probability: f64) -> bool {
        0.0 < probability && self.rng(kind).unit() < probability
    }

    /// Returns a random time from half to one and a half of `ns` nanoseconds.
    pub fn random_ns(&mut self, kind: FaultKind, ns: u64) -> u64 {
        ns / 2 + self.rng(kind).below(ns.max(1))
    }

    /// Returns a random index below `n`.
    pub fn random_index(&mut self, kind: FaultKind, n: usize) -> usize {
        self.rng(kind).below(n.max(1) as u64) as usize
    }

    fn rng(&mut self, kind: FaultKind) -> &mut Rng {
        let seed = RandomKey::default().part(self.seed);
        let owner = match kind {
            FaultKind::SamplesLost => seed.part(0),
            FaultKind::CountersAbsent(thread) => seed.part(1).of(thread),
            FaultKind::RequestsRejected(job) => seed.part(2).of(job),
            FaultKind::CpusOffline => seed.part(3),
            FaultKind::UnmanagedProgram(nth) => seed.part(4).part(u64::from(nth)),
        };
        self.rngs.entry(kind).or_insert_with(|| owner.rng())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_draws_of_one_kind_does_not_affect_the_others() {
        let draw = |n_lost: usize| {
            let mut fault_injector = FaultInjector::new(Faults::default(), 7);
            for _ in 0..n_lost {
                fault_injector.occurs(FaultKind::SamplesLost, 0.5);
            }
            let kinds = [
                FaultKind::CpusOffline,
                FaultKind::UnmanagedProgram(0),
                FaultKind::UnmanagedProgram(1),
                FaultKind::RequestsRejected(RandomKey::of_job("a")),
                FaultKind::RequestsRejected(RandomKey::of_job("b")),
                FaultKind::CountersAbsent(RandomKey::of_job("a")),
            ];
            kinds.map(|kind| fault_injector.random_ns(kind, 1_000_000))
        };
        assert_eq!(draw(0), draw(100));
        let times = std::collections::BTreeSet::from(draw(0));
        assert_eq!(times.len(), 6, "every kind has its own stream");
    }

    #[test]
    fn faults_are_parsed_and_invalid_faults_are_rejected() {
        let some =
            Faults::parse("samples-lost=0.5, unmanaged-programs=2,cpus-offline=3s").expect("valid");
        let expected = Faults {
            samples_lost: 0.5,
            unmanaged_programs: 2,
            cpus_offline: Nanos::from_secs(3),
            ..Faults::default()
        };
        assert_eq!(some, expected);
        let error = |text: &str| Faults::parse(text).expect_err("the text is invalid").to_string();
        assert_eq!(
            error("samples-lost=2"),
            "samples-lost cannot be \"2\": write a share from 0 to 1"
        );
        assert_eq!(
            error("fire=1"),
            "\"fire=1\" is not a fault: write KEY=VALUE with one of samples-lost, counters-absent, requests-rejected, pages-busy, unmanaged-programs, cpus-offline"
        );
    }
}
