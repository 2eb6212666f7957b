//! Run-to-run variation of the simulated machine, drawn from a seed. Causes vary; results are never changed directly.
//!
//! | key | varied value | default | source |
//! | --- | --- | --- | --- |
//! | `start` | the delay of a job's start, from 0 to this time | 10ms | measured: the first job of a run runs after 7.1 ms (6.1 to 19.5), `xtask bench start` |
//! | `placement` | the CPU on which jobs are forked | on | measured: `xtask bench kernel` prints the CPUs of first jobs |
//! | `idle` | the choice among equally good idle CPUs | on | as `placement`; on a real machine, the choice depends on which CPU became idle last |
//! | `length` | relative length of a program's phase | 0.005 | measured: `xtask bench variation` |
//! | `sleep` | relative duration of a sleep | 0.1 | between the values that `xtask bench variation` measures for timers and for a disk |
//! | `counters` | relative increments of counters | 0.01 | V. M. Weaver, S. A. McKee, "Can Hardware Performance Counters Be Trusted?", IISWC 2008: runs differ by up to 1.07 % |
//! | `pages` | the share of each node that is in use at the start, from 0 to this share | off | measured: 2 to 26 % of the nodes of 1 GiB of a guest, `xtask bench kernel` |
//!
//! The start delay and the lengths of a job depend only on the seed and on the numbers of the job, thread and phase,
//! not on the policy, so that runs of several policies with equal seeds can be compared. Sleeps, counter noise and
//! choices of CPUs are drawn in the order of their use. The value `off` (or 0) disables the variation of a key.

use base::{KeyValue, KeyValueError, Nanos, Rng, key_values};

/// Amount of each variation. The table of the module describes the values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variation {
    /// Largest start delay.
    pub start: Nanos,
    /// Whether the CPU of the first fork varies.
    pub placement: bool,
    /// Whether the choice among idle CPUs varies.
    pub idle: bool,
    /// Relative standard deviation of phase lengths.
    pub length: f64,
    /// Relative standard deviation of sleeps.
    pub sleep: f64,
    /// Relative standard deviation of counter increments.
    pub counters: f64,
    /// Largest share of a node that is in use at the start.
    pub pages: f64,
}

/// Maximum accepted start delay.
const START_MAX: Nanos = Nanos::from_secs(60);
/// Keys of all variations.
pub const KEYS: &[&str] = &["start", "placement", "idle", "length", "sleep", "counters", "pages"];

impl Default for Variation {
    fn default() -> Self {
        Variation {
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

impl Variation {
    /// The value without variation.
    pub const OFF: Variation = Variation {
        start: Nanos::ZERO,
        placement: false,
        idle: false,
        length: 0.0,
        sleep: 0.0,
        counters: 0.0,
        pages: 0.0,
    };

    /// Parses changes of the default: `off`, `on` and `KEY=VALUE` pairs, separated by commas.
    ///
    /// # Errors
    /// Returns an error for an unknown key, or for a value that the key does not accept.
    pub fn parse(text: &str) -> Result<Self, KeyValueError> {
        let mut variation = Variation::default();
        let switch = |pair: &KeyValue<'_>| {
            let on_or_off = |word: &String| ["on", "off"].contains(&word.as_str());
            pair.parse("on or off", on_or_off).map(|word| word == "on")
        };
        let share = |pair: &KeyValue<'_>| match pair.value {
            "off" => Ok(0.0),
            _ => pair.parse("off, or a share from 0 to 0.5", |share| (0.0..=0.5).contains(share)),
        };
        for pair in key_values(text) {
            match pair.key {
                "off" if pair.text == "off" => variation = Variation::OFF,
                "on" if pair.text == "on" => variation = Variation::default(),
                "start" if pair.value == "off" => variation.start = Nanos::ZERO,
                "start" => {
                    let accepted = "off, or a time up to 60s";
                    variation.start = pair.parse(accepted, |time| *time <= START_MAX)?;
                }
                "placement" => variation.placement = switch(&pair)?,
                "idle" => variation.idle = switch(&pair)?,
                "length" => variation.length = share(&pair)?,
                "sleep" => variation.sleep = share(&pair)?,
                "counters" => variation.counters = share(&pair)?,
                "pages" => variation.pages = share(&pair)?,
                _ => return Err(pair.unknown("a variation", "off, or ", KEYS)),
            }
        }
        Ok(variation)
    }

    /// Returns the random streams of a seed.
    pub fn streams(self, seed: u64) -> VariationStreams {
        VariationStreams {
            variation: self,
            seed,
            sleeps: stream(seed, 3),
            counters: stream(seed, 4),
        }
    }
}

/// Random streams of one run.
#[derive(Clone, Debug)]
pub struct VariationStreams {
    variation: Variation,
    seed: u64,
    sleeps: Rng,
    counters: Rng,
}

/// Returns the random stream of one purpose. An additional draw from one stream does not change the others.
fn stream(seed: u64, purpose: u64) -> Rng {
    Rng::new(mix(seed, purpose))
}

/// Mixes two numbers into one (the finalizer of SplitMix64).
fn mix(one: u64, other: u64) -> u64 {
    let mut mixed = one ^ other.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl VariationStreams {
    /// Returns the random stream for the CPU on which jobs are forked; `None` if this CPU does not vary.
    pub(crate) fn first_placement(&self) -> Option<Rng> {
        self.variation.placement.then(|| stream(self.seed, 1))
    }

    /// Returns the random stream for the choice among equally good idle CPUs; `None` if the choice does not vary.
    pub(crate) fn idle_choice(&self) -> Option<Rng> {
        self.variation.idle.then(|| stream(self.seed, 2))
    }

    /// Returns the start delay of one run of a job.
    pub(crate) fn start_delay(&self, job: usize, run: u32) -> Nanos {
        if self.variation.start == Nanos::ZERO {
            return Nanos::ZERO;
        }
        let mut rng = stream(mix(self.seed, 5), mix(job as u64, u64::from(run)));
        Nanos(rng.below(self.variation.start.0 + 1))
    }

    /// Returns the length of a phase of a thread, relative to the profile.
    pub(crate) fn length(&self, job: usize, thread: usize, phase: usize) -> f64 {
        if self.variation.length == 0.0 {
            return 1.0;
        }
        let purpose = mix(mix(job as u64, thread as u64), phase as u64);
        random_factor(&mut stream(mix(self.seed, 6), purpose), self.variation.length)
    }

    /// Returns the duration of a sleep.
    pub(crate) fn sleep(&mut self, ns: u64) -> u64 {
        if self.variation.sleep == 0.0 {
            return ns;
        }
        (ns as f64 * random_factor(&mut self.sleeps, self.variation.sleep)) as u64
    }

    /// Returns the share of a node's memory that is in use at the start of the run.
    pub(crate) fn used_share(&self, node: usize) -> f64 {
        if self.variation.pages == 0.0 {
            return 0.0;
        }
        self.variation.pages * stream(mix(self.seed, 7), node as u64).unit()
    }

    /// Returns a counter increment with noise.
    pub(crate) fn with_noise(&mut self, grown: f64) -> f64 {
        if self.variation.counters == 0.0 {
            return grown;
        }
        grown * random_factor(&mut self.counters, self.variation.counters)
    }
}

/// Returns a random factor with the mean 1 and the standard deviation `part`, uniformly distributed.
fn random_factor(rng: &mut Rng, part: f64) -> f64 {
    /// Half the width of a uniform distribution with standard deviation 1.
    const HALF_WIDTH: f64 = 1.732_050_807_568_877_2;
    (1.0 + part * HALF_WIDTH * (2.0 * rng.unit() - 1.0)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_change_the_default_and_off_disables_all_variation() {
        assert_eq!(Variation::parse("off"), Ok(Variation::OFF));
        assert_eq!(Variation::parse(""), Ok(Variation::default()));
        let some = Variation::parse("off,start=5ms,idle=on").expect("valid");
        assert_eq!(some, Variation { start: Nanos::from_millis(5), idle: true, ..Variation::OFF });
    }

    #[test]
    fn the_error_for_an_unknown_key_lists_the_known_keys() {
        let error =
            |text: &str| Variation::parse(text).expect_err("the text is invalid").to_string();
        assert_eq!(
            error("luck=1"),
            "\"luck=1\" is not a variation: write off, or KEY=VALUE with one of start, placement, idle, length, sleep, counters, pages"
        );
        assert_eq!(
            error("length=2"),
            "length cannot be \"2\": write off, or a share from 0 to 0.5"
        );
        assert_eq!(error("idle=1"), "idle cannot be \"1\": write on or off");
    }

    #[test]
    fn the_values_of_a_job_depend_on_the_seed_and_its_number_only() {
        let one = Variation::default().streams(7);
        let mut other = Variation::default().streams(7);
        other.sleep(1000);
        assert_eq!(one.start_delay(3, 0), other.start_delay(3, 0));
        assert_eq!(one.length(3, 0, 1), other.length(3, 0, 1));
        assert_ne!(one.start_delay(3, 0), one.start_delay(4, 0));
        assert_ne!(one.start_delay(3, 0), Variation::default().streams(8).start_delay(3, 0));
    }
}
