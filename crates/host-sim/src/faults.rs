//! Fault injection for simulated runs, by seed.
//!
//! | key | fault | value |
//! | --- | --- | --- |
//! | `lost` | the task samples of an interval are lost | share of the intervals |
//! | `starved` | a task's counters did not run in an interval: they are absent | share of the tasks and intervals |
//! | `refused` | a placement request is rejected, as by the kernel | share of the requests |
//! | `busy` | pages are busy and cannot be moved | share of the pages |
//! | `noisy` | unmanaged memory-hungry programs start and end, one at a time each | number |
//! | `unplugged` | a CPU goes offline for some seconds | average time between two such faults |

use base::{Nanos, Rng};

/// The amount of each fault; see the table of the module.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Share of intervals.
    pub lost: f64,
    /// Share of tasks and intervals.
    pub starved: f64,
    /// Share of requests.
    pub refused: f64,
    /// Share of pages.
    pub busy: f64,
    /// Number of neighbours.
    pub noisy: u32,
    /// Average time between two faults; zero for none.
    pub unplugged: Nanos,
}

/// The keys.
pub const KEYS: &[&str] = &["lost", "starved", "refused", "busy", "noisy", "unplugged"];

/// Most neighbours.
const NOISY_MAX: u32 = 64;

/// The error of a text that is not a list of faults.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// An unknown key.
    #[error("{0:?} is not a fault: write KEY=VALUE with one of {keys}", keys = KEYS.join(", "))]
    Key(String),
    /// A value that the key does not accept.
    #[error("{key} cannot be {found:?}: write {takes}")]
    Value {
        /// The key.
        key: String,
        /// As written.
        found: String,
        /// Accepted values.
        takes: &'static str,
    },
}

impl Faults {
    /// `KEY=VALUE` pairs, separated by commas: `lost=0.1,unplugged=20s`.
    ///
    /// # Errors
    /// An unknown key, or a value that it does not accept.
    pub fn parse(text: &str) -> Result<Self, FaultError> {
        let mut faults = Faults::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) =
                part.split_once('=').ok_or_else(|| FaultError::Key(part.to_owned()))?;
            faults.set(key.trim(), value.trim())?;
        }
        Ok(faults)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), FaultError> {
        let reject =
            |takes| FaultError::Value { key: key.to_owned(), found: value.to_owned(), takes };
        let share = || {
            let share = value.parse().ok().filter(|share| (0.0..=1.0).contains(share));
            share.ok_or_else(|| reject("a share from 0 to 1"))
        };
        match key {
            "lost" => self.lost = share()?,
            "starved" => self.starved = share()?,
            "refused" => self.refused = share()?,
            "busy" => self.busy = share()?,
            "noisy" => {
                let n = value.parse().ok().filter(|n| *n <= NOISY_MAX);
                self.noisy = n.ok_or_else(|| reject("an integer up to 64"))?;
            }
            "unplugged" => {
                let time = value.parse().ok().filter(|time| Nanos::from_millis(100) <= *time);
                self.unplugged = time.ok_or_else(|| reject("a time of 100ms or more"))?;
            }
            _ => return Err(FaultError::Key(format!("{key}={value}"))),
        }
        Ok(())
    }

    /// Whether there are no faults.
    pub fn is_none(&self) -> bool {
        *self == Faults::default()
    }
}

/// A kind of fault. Each kind has its own random stream, so the number of draws of one kind does not affect the others.
/// Two policies with different sampling rates have the same neighbours and lose the same CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    Lost,
    Starved,
    Refused,
    Unplugged,
    /// The neighbour with this index.
    Noisy(u32),
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
    pub fn occurs(&mut self, sort: FaultKind, part: f64) -> bool {
        0.0 < part && self.rng(sort).unit() < part
    }

    /// A time around `ns` nanoseconds, from half to one and a half.
    pub fn around(&mut self, sort: FaultKind, ns: u64) -> u64 {
        ns / 2 + self.rng(sort).below(ns.max(1))
    }

    /// An index below `n`.
    pub fn one_of(&mut self, sort: FaultKind, n: usize) -> usize {
        self.rng(sort).below(n.max(1) as u64) as usize
    }

    fn rng(&mut self, sort: FaultKind) -> &mut Rng {
        let place = FaultInjector::stream_index(sort);
        while self.rngs.len() <= place {
            let nth = self.rngs.len() as u64 + 1;
            self.rngs.push(Rng::new(self.seed ^ nth.wrapping_mul(SPREAD)));
        }
        &mut self.rngs[place]
    }

    fn stream_index(sort: FaultKind) -> usize {
        match sort {
            FaultKind::Lost => 0,
            FaultKind::Starved => 1,
            FaultKind::Refused => 2,
            FaultKind::Unplugged => 3,
            FaultKind::Noisy(nth) => 4 + nth as usize,
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
                fault_injector.occurs(FaultKind::Lost, 0.5);
            }
            let sorts = [
                FaultKind::Unplugged,
                FaultKind::Noisy(0),
                FaultKind::Noisy(1),
                FaultKind::Refused,
            ];
            sorts.map(|sort| fault_injector.around(sort, 1_000_000))
        };
        assert_eq!(draw(0), draw(100));
        let times = std::collections::BTreeSet::from(draw(0));
        assert_eq!(times.len(), 4, "every kind has its own stream");
    }

    #[test]
    fn faults_are_parsed_and_invalid_ones_are_rejected() {
        let some = Faults::parse("lost=0.5, noisy=2,unplugged=3s").expect("valid");
        let expected =
            Faults { lost: 0.5, noisy: 2, unplugged: Nanos::from_secs(3), ..Faults::default() };
        assert_eq!(some, expected);
        let error = |text| Faults::parse(text).expect_err("the text is invalid").to_string();
        assert_eq!(error("lost=2"), "lost cannot be \"2\": write a share from 0 to 1");
        assert_eq!(
            error("fire=1"),
            "\"fire=1\" is not a fault: write KEY=VALUE with one of lost, starved, refused, busy, noisy, unplugged"
        );
    }
}
