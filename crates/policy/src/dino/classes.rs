//! The class of a job: turtle, devil or super-devil, by its misses per instruction, with hysteresis.
//!
//! ```text
//!   misses per 1000      limits=released       limits=article
//!     turtle             below  1.5            below   2
//!     devil               1.5 … 50.5             2 … 100
//!     super-devil        from 50.5              above 100
//! ```
//!
//! Clavis 6.5.5 (`DEVIL_HORIZON`, `SUPER_DEVIL_HORIZON`) rounds rates to whole misses per 1000 instructions, and
//! compares the rounded rates with 1.5 and 50. Rounding shifts the limits. The limits of the article are quoted from
//! recollection and not confirmed.
//!
//! A job changes to a class if 7 of its last 10 intervals are in that class. With fewer than 10 intervals, 70 % of the
//! intervals must be in the class. A job without a class counts as a devil: this assumption is conservative for a job
//! that starts.

use sched::Reason;

use super::declaration::{ClassLimits, Config};
use crate::memory_intensity::rates::{N_SAMPLES, Rate, RecentRates};

/// Contention that a thread causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MissClass {
    Turtle,
    Devil,
    SuperDevil,
}

/// Limit between turtles and devils: `DEVIL_HORIZON` of Clavis 6.5.5.
const DEVIL_HORIZON: Rate = Rate::per_10_000(15);
/// Limit between devils and super-devils: `SUPER_DEVIL_HORIZON` of Clavis 6.5.5.
const SUPER_DEVIL_HORIZON: Rate = Rate::per_10_000(500);
/// The limits of the article, which are quoted from recollection and not confirmed.
const DEVIL_ARTICLE: Rate = Rate::per_10_000(20);
const SUPER_DEVIL_ARTICLE: Rate = Rate::per_10_000(1000);

impl MissClass {
    pub const ALL: [MissClass; 3] = [MissClass::SuperDevil, MissClass::Devil, MissClass::Turtle];

    pub fn name(self) -> &'static str {
        match self {
            MissClass::Turtle => "turtle",
            MissClass::Devil => "devil",
            MissClass::SuperDevil => "super-devil",
        }
    }
}

impl ClassLimits {
    /// Returns the class of a rate.
    pub fn class(self, rate: Rate) -> MissClass {
        let (is_turtle, is_devil) = match self {
            ClassLimits::Released => {
                (rate.rounded() <= DEVIL_HORIZON, rate.rounded() <= SUPER_DEVIL_HORIZON)
            }
            ClassLimits::Article => (rate < DEVIL_ARTICLE, rate <= SUPER_DEVIL_ARTICLE),
        };
        match (is_turtle, is_devil) {
            (true, _) => MissClass::Turtle,
            (false, true) => MissClass::Devil,
            (false, false) => MissClass::SuperDevil,
        }
    }

    /// Returns the word for the reasons.
    fn word(self) -> &'static str {
        match self {
            ClassLimits::Released => "released",
            ClassLimits::Article => "article",
        }
    }
}

/// Recent rates of a job, and its class.
#[derive(Clone, Debug, Default)]
pub(super) struct ClassHistory {
    ring: RecentRates,
    class: Option<MissClass>,
    /// The mean at the last class change.
    mean: Rate,
}

impl ClassHistory {
    /// Returns the class; devil if the class is unknown.
    pub fn class(&self) -> MissClass {
        self.class.unwrap_or(MissClass::Devil)
    }

    /// Returns whether the class is known.
    pub fn is_known(&self) -> bool {
        self.class.is_some()
    }

    /// Adds the rate that the class is based on.
    pub fn with_basis(&self, reason: Reason, limits: ClassLimits) -> Reason {
        match (self.class, self.ring.mean()) {
            (Some(_), Some(mean)) => reason
                .with("basis", "mean")
                .with("mpki", mean.to_string())
                .with("n_intervals", self.ring.iter().count() as u64)
                .with("limits", limits.word()),
            _ => reason.with("basis", "assumed"),
        }
    }

    /// Adds the rate of an interval.
    pub fn add(&mut self, sample: Rate, config: &Config) {
        let limits = config.limits;
        self.ring.push(sample);
        let mean = self.ring.mean().unwrap_or_default();
        let n = self.ring.iter().count() as u64;
        let hits = |class: MissClass| {
            self.ring.iter().filter(|&sample| limits.class(sample) == class).count() as u64
        };
        let best = MissClass::ALL.into_iter().max_by_key(|&class| (hits(class), class));
        let Some(best) = best.filter(|&best| Some(best) != self.class) else { return };
        let has_hits = config.hyst_hits * n <= hits(best) * N_SAMPLES as u64;
        // Rates are misses per million instructions.
        let is_step = config.hyst_min_delta_mpki * 1000 <= mean.0.abs_diff(self.mean.0);
        if has_hits && (self.class.is_none() || is_step) {
            (self.class, self.mean) = (Some(best), mean);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Params;

    /// Returns the class after each interval, as its first letter, of misses per 1000 instructions.
    fn classes(spec: &str, samples: &[f64]) -> String {
        let params = Params::parse(&super::super::INFO, spec).expect("parameters of DINO");
        let config = Config::new(&params);
        let mut history = ClassHistory::default();
        let after = samples.iter().map(|sample| {
            history.add(Rate((sample * 1000.0) as u64), &config);
            history.class.map_or('-', |_| history.class().name().chars().next().expect("a name"))
        });
        after.collect()
    }

    #[test]
    fn rounding_shifts_the_released_limits() {
        let class = |per_million| ClassLimits::Released.class(Rate(per_million));
        assert_eq!((class(1_499), class(1_500)), (MissClass::Turtle, MissClass::Devil));
        assert_eq!((class(50_499), class(50_500)), (MissClass::Devil, MissClass::SuperDevil));
    }

    #[test]
    fn the_limits_of_the_article_are_2_and_100() {
        let class = |per_million| ClassLimits::Article.class(Rate(per_million));
        assert_eq!((class(1_999), class(2_000)), (MissClass::Turtle, MissClass::Devil));
        assert_eq!((class(100_000), class(100_001)), (MissClass::Devil, MissClass::SuperDevil));
    }

    #[test]
    fn seven_of_the_last_ten_intervals_change_the_class() {
        let samples = [[1.0; 10], [9.0; 10]].concat();
        let classes = classes("dino", &samples);
        assert_eq!(classes, "ttttttttttttttttdddd", "the seventh devil of ten");
    }

    #[test]
    fn a_job_with_fewer_intervals_needs_seventy_percent_of_them() {
        assert_eq!(classes("dino", &[1.0, 9.0, 9.0, 9.0]), "tttd");
        assert_eq!(classes("dino", &[9.0, 1.0, 9.0, 1.0, 1.0, 1.0]), "dddddd");
    }

    #[test]
    fn a_job_with_alternating_rates_keeps_its_class() {
        let samples: Vec<f64> = (0..30).map(|n| if n % 2 == 0 { 1.0 } else { 9.0 }).collect();
        assert_eq!(classes("dino", &samples), "t".repeat(30));
    }

    #[test]
    fn a_mean_that_changes_less_than_the_minimum_changes_no_class() {
        let samples = [[1.0; 10], [2.0; 10]].concat();
        assert_eq!(classes("dino[hyst_min_delta_mpki=3]", &samples), "t".repeat(20));
        assert!(classes("dino", &samples).ends_with('d'));
    }
}
