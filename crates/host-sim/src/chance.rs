//! What chance changes from run to run: causes, never results.
//!
//! | key | what differs | default | source |
//! | --- | --- | --- | --- |
//! | `start` | when a job really begins, up to so much late | 10ms | measured: the first job of a run is up after 7.1 ms (6.1 to 19.5), `xtask bench start` |
//! | `placement` | the CPU that jobs are started from | on | measured that it differs: `xtask bench kernel` tells where first jobs were seen |
//! | `idle` | which of several idle CPUs alike the kernel takes | on | as `placement`: it hangs on which fell idle last |
//! | `length` | how long a stretch of a program is, as a part of it | 0.005 | measured: `xtask bench chance` |
//! | `sleep` | how long a sleep is, as a part of it | 0.1 | between what the same measures of timers and of a disk |
//! | `counters` | what counters show, as a part of it | 0.01 | published: Weaver and McKee, IISWC 2008: runs differ by up to 1.07 % |
//! | `pages` | the part of each node that something else holds at first, up to so much | off | measured: 2 to 26 % of a guest's nodes of 1 GiB, `xtask bench kernel` |
//!
//! What a job draws hangs on the seed, its number and its thread alone: under another policy it draws the
//! same, so that runs can be compared seed by seed. A key set to `off` (or 0) changes nothing any more.

use base::{Nanos, Rng};

/// How much of each cause there is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chance {
    /// See the table of the module.
    pub start: Nanos,
    /// As above.
    pub placement: bool,
    /// As above.
    pub idle: bool,
    /// As above.
    pub length: f64,
    /// As above.
    pub sleep: f64,
    /// As above.
    pub counters: f64,
    /// As above.
    pub pages: f64,
}

/// The names of the keys.
pub const KEYS: &[&str] = &["start", "placement", "idle", "length", "sleep", "counters", "pages"];

impl Default for Chance {
    fn default() -> Self {
        Chance {
            start: Nanos::from_millis(10),
            placement: true,
            idle: true,
            length: 0.005,
            sleep: 0.1,
            counters: 0.01,
            pages: 0.0,
        }
    }
}

/// Why a text names no chance.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChanceError {
    /// No equals sign, or no such key.
    #[error("{0:?} is no cause of chance: write off, or KEY=VALUE with one of {keys}", keys = KEYS.join(", "))]
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

impl Chance {
    /// Nothing is left to chance.
    pub const OFF: Chance = Chance {
        start: Nanos::ZERO,
        placement: false,
        idle: false,
        length: 0.0,
        sleep: 0.0,
        counters: 0.0,
        pages: 0.0,
    };

    /// The usual, changed by `off` or by keys between commas.
    pub fn parse(text: &str) -> Result<Self, ChanceError> {
        let mut chance = Chance::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                None if part == "off" => chance = Chance::OFF,
                None if part == "on" => chance = Chance::default(),
                None => return Err(ChanceError::Key(part.to_owned())),
                Some((key, value)) => chance.set(key.trim(), value.trim())?,
            }
        }
        Ok(chance)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), ChanceError> {
        let refuse =
            |takes| ChanceError::Value { key: key.to_owned(), found: value.to_owned(), takes };
        let switch = || match value {
            "on" => Ok(true),
            "off" => Ok(false),
            _ => Err(refuse("on or off")),
        };
        let part = || match value {
            "off" => Ok(0.0),
            _ => value
                .parse()
                .ok()
                .filter(|part| (0.0..=0.5).contains(part))
                .ok_or_else(|| refuse("off, or a part from 0 to 0.5")),
        };
        match key {
            "start" if value == "off" => self.start = Nanos::ZERO,
            "start" => {
                let time = value.parse().ok().filter(|time| *time <= Nanos::from_secs(60));
                self.start = time.ok_or_else(|| refuse("off, or a time up to 60s"))?;
            }
            "placement" => self.placement = switch()?,
            "idle" => self.idle = switch()?,
            "length" => self.length = part()?,
            "sleep" => self.sleep = part()?,
            "counters" => self.counters = part()?,
            "pages" => self.pages = part()?,
            _ => return Err(ChanceError::Key(format!("{key}={value}"))),
        }
        Ok(())
    }

    /// The causes that belong to a seed.
    pub fn causes(self, seed: u64) -> Causes {
        Causes { chance: self, seed, sleeps: stream(seed, 3), counters: stream(seed, 4) }
    }
}

/// Causes of one run.
#[derive(Clone, Debug)]
pub struct Causes {
    chance: Chance,
    seed: u64,
    sleeps: Rng,
    counters: Rng,
}

/// A source of numbers of its own for each use, so that one draw more of one changes no other.
fn stream(seed: u64, of: u64) -> Rng {
    Rng::new(mix(seed, of))
}

/// Two numbers as one, all bits of both in all bits of it (the finalizer of SplitMix64).
fn mix(one: u64, other: u64) -> u64 {
    let mut mixed = one ^ other.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Causes {
    /// Draws the CPU that jobs are started from.
    pub(crate) fn first_placement(&self) -> Option<Rng> {
        self.chance.placement.then(|| stream(self.seed, 1))
    }

    /// Draws among idle CPUs alike.
    pub(crate) fn idle_choice(&self) -> Option<Rng> {
        self.chance.idle.then(|| stream(self.seed, 2))
    }

    /// How late a job begins, the so many-th time.
    pub(crate) fn late(&self, job: usize, run: u32) -> Nanos {
        if self.chance.start == Nanos::ZERO {
            return Nanos::ZERO;
        }
        let mut rng = stream(mix(self.seed, 5), mix(job as u64, u64::from(run)));
        Nanos(rng.below(self.chance.start.0 + 1))
    }

    /// How long a stretch of a thread is, as a part of what its profile says.
    pub(crate) fn length(&self, job: usize, thread: usize, act: usize) -> f64 {
        if self.chance.length == 0.0 {
            return 1.0;
        }
        let of = mix(mix(job as u64, thread as u64), act as u64);
        around(&mut stream(mix(self.seed, 6), of), self.chance.length)
    }

    /// How long a sleep is.
    pub(crate) fn sleep(&mut self, ns: u64) -> u64 {
        if self.chance.sleep == 0.0 {
            return ns;
        }
        (ns as f64 * around(&mut self.sleeps, self.chance.sleep)) as u64
    }

    /// The part of a node's memory that something else holds when the run begins.
    pub(crate) fn held(&self, node: usize) -> f64 {
        if self.chance.pages == 0.0 {
            return 0.0;
        }
        self.chance.pages * stream(mix(self.seed, 7), node as u64).unit()
    }

    /// What a counter shows instead of what it grew by.
    pub(crate) fn counted(&mut self, grown: f64) -> f64 {
        if self.chance.counters == 0.0 {
            return grown;
        }
        grown * around(&mut self.counters, self.chance.counters)
    }
}

/// A factor near 1, evenly spread so that its standard deviation is `part`.
fn around(rng: &mut Rng, part: f64) -> f64 {
    /// Half the width of an even spread with a standard deviation of 1.
    const HALF_WIDTH: f64 = 1.732_050_807_568_877_2;
    (1.0 + part * HALF_WIDTH * (2.0 * rng.unit() - 1.0)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_change_the_usual_and_off_leaves_nothing_to_chance() {
        assert_eq!(Chance::parse("off"), Ok(Chance::OFF));
        assert_eq!(Chance::parse(""), Ok(Chance::default()));
        let some = Chance::parse("off,start=5ms,idle=on").expect("sound");
        assert_eq!(some, Chance { start: Nanos::from_millis(5), idle: true, ..Chance::OFF });
    }

    #[test]
    fn what_is_no_cause_is_refused_with_what_would_be() {
        let said = |text| Chance::parse(text).expect_err("it is wrong").to_string();
        assert_eq!(
            said("luck=1"),
            "\"luck=1\" is no cause of chance: write off, or KEY=VALUE with one of start, placement, idle, length, sleep, counters, pages"
        );
        assert_eq!(said("length=2"), "length cannot be \"2\": write off, or a part from 0 to 0.5");
        assert_eq!(said("idle=1"), "idle cannot be \"1\": write on or off");
    }

    #[test]
    fn what_a_job_draws_hangs_on_the_seed_and_its_number_alone() {
        let one = Chance::default().causes(7);
        let mut other = Chance::default().causes(7);
        other.sleep(1000);
        assert_eq!(one.late(3, 0), other.late(3, 0));
        assert_eq!(one.length(3, 0, 1), other.length(3, 0, 1));
        assert_ne!(one.late(3, 0), one.late(4, 0));
        assert_ne!(one.late(3, 0), Chance::default().causes(8).late(3, 0));
    }
}
