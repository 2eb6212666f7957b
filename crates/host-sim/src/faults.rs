//! What goes wrong in a simulated run, by seed.
//!
//! | key | what happens | value |
//! | --- | --- | --- |
//! | `lost` | an interval's figures of tasks are not told | part of the intervals |
//! | `starved` | a task's counters did not run in an interval: they are absent | part of the tasks and intervals |
//! | `refused` | a wish to place a job is refused, as by a kernel that says no | part of the wishes |
//! | `busy` | pages that are to be moved are in use and stay | part of the pages |
//! | `noisy` | programs that nobody manages come and go, one at a time each, hungry for memory | how many |
//! | `unplugged` | a CPU goes offline, and comes back after some seconds | once in so much time, on average |

use base::{Nanos, Rng};

/// How much of each fault there is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// See the table of the module.
    pub lost: f64,
    /// As above.
    pub starved: f64,
    /// As above.
    pub refused: f64,
    /// As above.
    pub busy: f64,
    /// As above.
    pub noisy: u32,
    /// As above; zero: never.
    pub unplugged: Nanos,
}

/// The names of the keys.
pub const KEYS: &[&str] = &["lost", "starved", "refused", "busy", "noisy", "unplugged"];

/// Neighbours at the most.
const NOISY_MAX: u32 = 64;

/// Why a text names no faults.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// No such key.
    #[error("{0:?} is no fault: write KEY=VALUE with one of {keys}", keys = KEYS.join(", "))]
    Key(String),
    /// A value that the key does not take.
    #[error("{key} cannot be {found:?}: write {takes}")]
    Value {
        /// The key.
        key: String,
        /// What was written.
        found: String,
        /// What is possible.
        takes: &'static str,
    },
}

impl Faults {
    /// Faults between commas: `lost=0.1,unplugged=20s`.
    ///
    /// # Errors
    /// A key that there is not, or a value that it does not take.
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
        let refuse =
            |takes| FaultError::Value { key: key.to_owned(), found: value.to_owned(), takes };
        let part = || {
            let part = value.parse().ok().filter(|part| (0.0..=1.0).contains(part));
            part.ok_or_else(|| refuse("a part from 0 to 1"))
        };
        match key {
            "lost" => self.lost = part()?,
            "starved" => self.starved = part()?,
            "refused" => self.refused = part()?,
            "busy" => self.busy = part()?,
            "noisy" => {
                let n = value.parse().ok().filter(|n| *n <= NOISY_MAX);
                self.noisy = n.ok_or_else(|| refuse("a whole number up to 64"))?;
            }
            "unplugged" => {
                let time = value.parse().ok().filter(|time| Nanos::from_millis(100) <= *time);
                self.unplugged = time.ok_or_else(|| refuse("a time of 100ms or more"))?;
            }
            _ => return Err(FaultError::Key(format!("{key}={value}"))),
        }
        Ok(())
    }

    /// Whether nothing goes wrong.
    pub fn is_none(&self) -> bool {
        *self == Faults::default()
    }
}

/// A sort of fault, each with chance of its own: how often one is drawn for changes nothing of the others, so
/// that two policies that look differently often meet the same neighbours and lose the same CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    Lost,
    Starved,
    Refused,
    Unplugged,
    /// That neighbour.
    Noisy(u32),
}

/// Draws faults.
#[derive(Clone, Debug)]
pub(crate) struct Luck {
    pub faults: Faults,
    seed: u64,
    /// By [`Luck::place`], as far as they were asked.
    rngs: Vec<Rng>,
}

/// Nothing that chance draws from uses this.
const SALT: u64 = 0x6661_756c_7473;

impl Luck {
    pub fn new(faults: Faults, seed: u64) -> Self {
        Luck { faults, seed: seed ^ SALT, rngs: Vec::new() }
    }

    /// Whether something with this probability happens. What never happens draws nothing.
    pub fn strikes(&mut self, sort: Sort, part: f64) -> bool {
        0.0 < part && self.rng(sort).unit() < part
    }

    /// A time around so many nanoseconds: from half to one and a half of it.
    pub fn around(&mut self, sort: Sort, ns: u64) -> u64 {
        ns / 2 + self.rng(sort).below(ns.max(1))
    }

    /// One of so many.
    pub fn one_of(&mut self, sort: Sort, n: usize) -> usize {
        self.rng(sort).below(n.max(1) as u64) as usize
    }

    fn rng(&mut self, sort: Sort) -> &mut Rng {
        let place = Luck::place(sort);
        while self.rngs.len() <= place {
            let nth = self.rngs.len() as u64 + 1;
            self.rngs.push(Rng::new(self.seed ^ nth.wrapping_mul(SPREAD)));
        }
        &mut self.rngs[place]
    }

    fn place(sort: Sort) -> usize {
        match sort {
            Sort::Lost => 0,
            Sort::Starved => 1,
            Sort::Refused => 2,
            Sort::Unplugged => 3,
            Sort::Noisy(nth) => 4 + nth as usize,
        }
    }
}

/// Takes seeds of neighbouring numbers far apart: 2^64 by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_often_one_sort_is_drawn_changes_nothing_of_another() {
        let draw = |n_lost: usize| {
            let mut luck = Luck::new(Faults::default(), 7);
            for _ in 0..n_lost {
                luck.strikes(Sort::Lost, 0.5);
            }
            let sorts = [Sort::Unplugged, Sort::Noisy(0), Sort::Noisy(1), Sort::Refused];
            sorts.map(|sort| luck.around(sort, 1_000_000))
        };
        assert_eq!(draw(0), draw(100));
        let times = std::collections::BTreeSet::from(draw(0));
        assert_eq!(times.len(), 4, "each has chance of its own");
    }

    #[test]
    fn faults_are_read_and_what_is_none_is_refused() {
        let some = Faults::parse("lost=0.5, noisy=2,unplugged=3s").expect("sound");
        let expected =
            Faults { lost: 0.5, noisy: 2, unplugged: Nanos::from_secs(3), ..Faults::default() };
        assert_eq!(some, expected);
        let said = |text| Faults::parse(text).expect_err("it is wrong").to_string();
        assert_eq!(said("lost=2"), "lost cannot be \"2\": write a part from 0 to 1");
        assert_eq!(
            said("fire=1"),
            "\"fire=1\" is no fault: write KEY=VALUE with one of lost, starved, refused, busy, noisy, unplugged"
        );
    }
}
