//! Fault injection for simulated runs, by seed.
//!
//! | key | fault | value |
//! | --- | --- | --- |
//! | `samples-lost` | the task samples of an interval are lost | share of the intervals |
//! | `counters-absent` | a task's counters did not run in an interval | share of the tasks and intervals |
//! | `requests-rejected` | a placement request is rejected, as by the kernel | share of the requests |
//! | `pages-busy` | pages are busy and cannot be moved | share of the pages |
//! | `unmanaged-programs` | unmanaged memory-hungry programs start and end, one at a time each | number |
//! | `cpus-offline` | a CPU goes offline for some seconds | average time between two such faults |

use base::{KeyValue, KeyValueError, Nanos, Rng, key_values};

/// The amount of each fault; see the table of the module.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Share of intervals.
    pub samples_lost: f64,
    /// Share of tasks and intervals.
    pub counters_absent: f64,
    /// Share of requests.
    pub requests_rejected: f64,
    /// Share of pages.
    pub pages_busy: f64,
    /// Number of programs.
    pub unmanaged_programs: u32,
    /// Average time between two faults; zero for none.
    pub cpus_offline: Nanos,
}

/// The keys.
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
/// Minimum average time between two CPUs that go offline.
const OFFLINE_INTERVAL_MIN: Nanos = Nanos::from_millis(100);

impl Faults {
    /// `KEY=VALUE` pairs, separated by commas: `samples-lost=0.1,cpus-offline=20s`.
    ///
    /// # Errors
    /// An unknown key, or a value that it does not accept.
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

    /// Whether there are no faults.
    pub fn is_none(&self) -> bool {
        *self == Faults::default()
    }
}

/// A kind of fault. Each kind has its own random stream, so the number of draws of one kind does not affect the others.
/// Two policies with different sampling rates have the same unmanaged programs and lose the same CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    SamplesLost,
    CountersAbsent,
    RequestsRejected,
    CpusOffline,
    /// The neighbour with this index.
    Neighbour(u32),
}

/// Draws faults.
#[derive(Clone, Debug)]
pub(crate) struct FaultInjector {
    pub faults: Faults,
    seed: u64,
    /// Created on demand, by [`FaultInjector::stream_index`].
    rngs: Vec<Rng>,
}

/// Differs from the seeds of the other random streams.
const SALT: u64 = 0x6661_756c_7473;

impl FaultInjector {
    pub fn new(faults: Faults, seed: u64) -> Self {
        FaultInjector { faults, seed: seed ^ SALT, rngs: Vec::new() }
    }

    /// Whether a fault of this probability occurs. A probability of zero draws nothing.
    pub fn occurs(&mut self, kind: FaultKind, probability: f64) -> bool {
        0.0 < probability && self.rng(kind).unit() < probability
    }

    /// A time around `ns` nanoseconds, from half to one and a half.
    pub fn around(&mut self, kind: FaultKind, ns: u64) -> u64 {
        ns / 2 + self.rng(kind).below(ns.max(1))
    }

    /// An index below `n`.
    pub fn one_of(&mut self, kind: FaultKind, n: usize) -> usize {
        self.rng(kind).below(n.max(1) as u64) as usize
    }

    fn rng(&mut self, kind: FaultKind) -> &mut Rng {
        let stream = FaultInjector::stream_index(kind);
        while self.rngs.len() <= stream {
            let nth = self.rngs.len() as u64 + 1;
            self.rngs.push(Rng::new(self.seed ^ nth.wrapping_mul(SPREAD)));
        }
        &mut self.rngs[stream]
    }

    fn stream_index(kind: FaultKind) -> usize {
        match kind {
            FaultKind::SamplesLost => 0,
            FaultKind::CountersAbsent => 1,
            FaultKind::RequestsRejected => 2,
            FaultKind::CpusOffline => 3,
            FaultKind::Neighbour(nth) => 4 + nth as usize,
        }
    }
}

/// Spreads consecutive seeds: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

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
                FaultKind::Neighbour(0),
                FaultKind::Neighbour(1),
                FaultKind::RequestsRejected,
            ];
            kinds.map(|kind| fault_injector.around(kind, 1_000_000))
        };
        assert_eq!(draw(0), draw(100));
        let times = std::collections::BTreeSet::from(draw(0));
        assert_eq!(times.len(), 4, "every kind has its own stream");
    }

    #[test]
    fn faults_are_parsed_and_invalid_ones_are_rejected() {
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
