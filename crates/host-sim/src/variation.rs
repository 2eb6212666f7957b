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
//! Every random number is a function of the seed, the purpose, and the event that it is for:
//!
//! ```text
//!   seed ─ purpose ─ name of the job ─ run ─ thread ─ number of the event
//!                    └────────── RandomKey ────────┘  phase, n-th sleep, n-th CPU selection, n-th sample
//! ```
//!
//! No number depends on the order in which tasks draw, so an additional job changes no number of the other jobs, and
//! runs of several policies with equal seeds can be compared. A job is identified by its name and not by its number,
//! because a job that is inserted before others changes their numbers. The value `off` (or 0) disables the variation
//! of a key.

use std::collections::BTreeMap;

use base::{KeyValue, KeyValueError, Nanos, Rng, key_values};
use program::Job;

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

    /// Returns the random numbers of a seed.
    pub fn streams(self, seed: u64) -> VariationStreams {
        VariationStreams { variation: self, seed }
    }
}

/// Random numbers of one run.
#[derive(Clone, Copy, Debug)]
pub struct VariationStreams {
    variation: Variation,
    seed: u64,
}

/// The owner of random numbers: a run of a job, a thread of it, or a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RandomKey(u64);

impl RandomKey {
    /// Returns the key of a job with this name.
    pub fn of_job(name: &str) -> Self {
        RandomKey(name.bytes().fold(name.len() as u64, |key, byte| mix(key, u64::from(byte))))
    }

    /// Returns the key of each job. Files have unique names; of jobs with equal names each occurrence has its own key.
    pub(crate) fn of_jobs(jobs: &[Job]) -> Vec<Self> {
        let mut n_of_name: BTreeMap<&str, u64> = BTreeMap::new();
        let mut keys = Vec::with_capacity(jobs.len());
        for job in jobs {
            let n = n_of_name.entry(&job.name).or_default();
            let first = RandomKey::of_job(&job.name);
            keys.push(if *n == 0 { first } else { first.part(*n) });
            *n += 1;
        }
        keys
    }

    /// Returns the key of a part of this owner: a run of a job, or a thread of a run.
    #[must_use]
    pub fn part(self, number: u64) -> Self {
        RandomKey(mix(self.0, number.wrapping_add(1)))
    }

    /// Returns the key of this purpose for an owner.
    pub(crate) fn of(self, owner: RandomKey) -> Self {
        self.part(owner.0)
    }

    /// Returns the random stream of the key.
    pub(crate) fn rng(self) -> Rng {
        Rng::new(self.0)
    }
}

/// Purposes of random numbers.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    Placement = 1,
    IdleChoice,
    Sleep,
    Counters,
    StartDelay,
    Length,
    UsedShare,
    Declared,
}

/// Mixes two numbers into one (the finalizer of SplitMix64).
fn mix(one: u64, other: u64) -> u64 {
    let mut mixed = one ^ other.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl VariationStreams {
    /// Returns the random stream of one event.
    fn stream(&self, purpose: Purpose, key: RandomKey, event: u64) -> Rng {
        RandomKey::default().part(self.seed).part(purpose as u64).of(key).part(event).rng()
    }

    /// Returns the CPU on which a job is forked; `None` if this CPU does not vary.
    pub(crate) fn parent_cpu(&self, key: RandomKey, n_cpus: usize) -> Option<usize> {
        let random = || self.stream(Purpose::Placement, key, 0).below(n_cpus as u64) as usize;
        self.variation.placement.then(random)
    }

    /// Returns the random stream for the n-th choice among equally good idle CPUs for a task; `None` if the choice does
    /// not vary.
    pub(crate) fn idle_choice(&self, key: RandomKey, nth: u64) -> Option<Rng> {
        self.variation.idle.then(|| self.stream(Purpose::IdleChoice, key, nth))
    }

    /// Returns the start delay of a run of a job.
    pub(crate) fn start_delay(&self, key: RandomKey) -> Nanos {
        if self.variation.start == Nanos::ZERO {
            return Nanos::ZERO;
        }
        let mut rng = self.stream(Purpose::StartDelay, key, 0);
        Nanos(rng.below(self.variation.start.0 + 1))
    }

    /// Returns the instructions of a thread in a phase, or in a part of it, at the random length of the phase. `mean` is
    /// the number in the profile.
    pub(crate) fn instructions(&self, key: RandomKey, phase: usize, mean: f64) -> f64 {
        let stream = || self.stream(Purpose::Length, key, phase as u64);
        (mean * RandomFactors::new(self.variation.length, stream).next()).max(1.0)
    }

    /// Returns the duration of the n-th sleep of a thread.
    pub(crate) fn sleep(&self, key: RandomKey, nth: u64, ns: u64) -> u64 {
        let stream = || self.stream(Purpose::Sleep, key, nth);
        match RandomFactors::new(self.variation.sleep, stream) {
            RandomFactors(None) => ns,
            mut factors => (ns as f64 * factors.next()) as u64,
        }
    }

    /// Returns the share of a node's memory that is in use at the start of the run.
    pub(crate) fn used_share(&self, node: usize) -> f64 {
        if self.variation.pages == 0.0 {
            return 0.0;
        }
        self.variation.pages * self.stream(Purpose::UsedShare, RandomKey(node as u64), 0).unit()
    }

    /// Returns the random stream of the n-th declared value of a job. It does not depend on the variation.
    pub(crate) fn declared(&self, key: RandomKey, nth: u64) -> Rng {
        self.stream(Purpose::Declared, key, nth)
    }

    /// Returns the noise of the counters in the n-th sample of a thread or node.
    pub(crate) fn counter_noise(&self, key: RandomKey, nth: u64) -> RandomFactors {
        let stream = || self.stream(Purpose::Counters, key, nth);
        RandomFactors::new(self.variation.counters, stream)
    }
}

/// Random factors with the mean 1, with their standard deviation; without a stream the factors are 1.
pub(crate) struct RandomFactors(Option<(f64, Rng)>);

impl RandomFactors {
    fn new(part: f64, stream: impl FnOnce() -> Rng) -> Self {
        RandomFactors((part != 0.0).then(|| (part, stream())))
    }

    /// Returns the next factor.
    pub fn next(&mut self) -> f64 {
        self.0.as_mut().map_or(1.0, |(part, rng)| random_factor(rng, *part))
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
    fn the_values_of_a_job_depend_on_the_seed_and_its_name_only() {
        let numbers = |seed: u64, name: &str| {
            let (streams, key) = (Variation::default().streams(seed), RandomKey::of_job(name));
            (
                streams.start_delay(key),
                streams.sleep(key, 0, 1_000_000),
                streams.parent_cpu(key, 1 << 20),
            )
        };
        assert_eq!(numbers(7, "a"), numbers(7, "a"));
        assert_ne!(numbers(7, "a"), numbers(7, "b"));
        assert_ne!(numbers(7, "a"), numbers(8, "a"));
    }

    #[test]
    fn jobs_of_equal_name_have_their_own_numbers() {
        let command = || program::Command::Shell(String::new());
        let job = |(id, name): (u32, &&str)| Job::new(base::JobId(id), *name, command());
        let keys = |names: &[&str]| -> Vec<RandomKey> {
            RandomKey::of_jobs(&(0..).zip(names).map(job).collect::<Vec<_>>())
        };
        let found = keys(&["a", "b", "a", "a"]);
        assert_eq!(found[..2], [RandomKey::of_job("a"), RandomKey::of_job("b")]);
        let distinct: std::collections::BTreeSet<&RandomKey> = found.iter().collect();
        assert_eq!(distinct.len(), 4);
        assert_eq!(keys(&["c", "a", "a"])[1..], [found[0], found[2]]);
    }

    /// 10,000 sleeps: every thread, every run and every sleep has its own number.
    #[test]
    fn neighbouring_keys_have_unlike_numbers() {
        let streams = Variation::default().streams(1);
        let jobs = ["a", "b", "a.2", "aa", ""].map(RandomKey::of_job);
        let keys = jobs.iter().flat_map(|job| (0..4).map(|run| job.part(run)));
        let threads = keys.flat_map(|run| (0..5).map(move |thread| run.part(thread)));
        let sleeps = threads.flat_map(|key| (0..100).map(move |nth| (key, nth)));
        let drawn: Vec<u64> =
            sleeps.map(|(key, nth)| streams.sleep(key, nth, 1_000_000_000_000)).collect();
        let distinct: std::collections::BTreeSet<&u64> = drawn.iter().collect();
        assert_eq!(distinct.len(), 10_000);
        let mean = drawn.iter().sum::<u64>() as f64 / 1e16;
        assert!((mean - 1.0).abs() < 0.004, "four standard errors of the mean 1: {mean}");
    }
}
