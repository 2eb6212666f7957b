//! The class of a job: turtle, devil or super-devil, by its misses per instruction, with hysteresis.
//!
//! ```text
//!   misses per 1000      limits=released       limits=article
//!     turtle             below  1.5            below   2
//!     devil               1.5 … 50.5             2 … 100
//!     super-devil        from 50.5              above 100
//! ```
//!
//! The released code rounds rates to whole misses per 1000 instructions first, and then compares with 1.5 and 50:
//! rounding shifts the limits [confirmed: Clavis]. The limits of the article are not verified [from memory,
//! unconfirmed].
//!
//! A job changes to a class if 7 of its last 10 intervals are in it; with fewer intervals, if 70 % of these are.
//! Before the first class it counts as a devil, the conservative assumption for a job that starts.

use crate::declaration::names;
use crate::memory_intensity::rates::{N_SAMPLES, Rate, Ring};

/// Contention that a thread causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    Turtle,
    Devil,
    SuperDevil,
}

names! {
    /// Limits of the classes.
    pub(super) enum Limits {
        /// Those of the released code.
        Released = "released",
        /// Those of the article.
        Article = "article",
    }
}

/// Conditions for a class change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hysteresis {
    /// Minimum number of ten intervals in the class.
    pub hits: u64,
    /// Minimum distance of the mean from the mean at the last class change.
    pub min_delta: Rate,
}

/// `DEVIL_HORIZON` [confirmed: Clavis].
const DEVIL_HORIZON: Rate = Rate::per_10_000(15);
/// `SUPER_DEVIL_HORIZON` [confirmed: Clavis].
const SUPER_DEVIL_HORIZON: Rate = Rate::per_10_000(500);
/// The limits of the article [from memory, unconfirmed].
const DEVIL_ARTICLE: Rate = Rate::per_10_000(20);
const SUPER_DEVIL_ARTICLE: Rate = Rate::per_10_000(1000);

impl Class {
    pub const ALL: [Class; 3] = [Class::SuperDevil, Class::Devil, Class::Turtle];

    pub fn name(self) -> &'static str {
        match self {
            Class::Turtle => "turtle",
            Class::Devil => "devil",
            Class::SuperDevil => "super-devil",
        }
    }
}

impl Limits {
    /// The class of a rate.
    pub fn class(self, rate: Rate) -> Class {
        let (is_turtle, is_devil) = match self {
            Limits::Released => {
                (rate.rounded() <= DEVIL_HORIZON, rate.rounded() <= SUPER_DEVIL_HORIZON)
            }
            Limits::Article => (rate < DEVIL_ARTICLE, rate <= SUPER_DEVIL_ARTICLE),
        };
        match (is_turtle, is_devil) {
            (true, _) => Class::Turtle,
            (false, true) => Class::Devil,
            (false, false) => Class::SuperDevil,
        }
    }

    /// Both limits as text.
    pub fn words(self) -> &'static str {
        match self {
            Limits::Released => "limits 1.5 and 50.5",
            Limits::Article => "limits 2 and 100",
        }
    }
}

/// Recent rates of a job, and its class.
#[derive(Clone, Debug, Default)]
pub(super) struct ClassHistory {
    ring: Ring,
    class: Option<Class>,
    /// The mean at the last class change.
    mean: Rate,
}

impl ClassHistory {
    /// The class; a devil if unknown.
    pub fn class(&self) -> Class {
        self.class.unwrap_or(Class::Devil)
    }

    /// Whether the class is known.
    pub fn is_known(&self) -> bool {
        self.class.is_some()
    }

    /// Basis of the class, as text.
    pub fn basis(&self, limits: Limits) -> String {
        match (self.class, self.ring.mean()) {
            (Some(_), Some(mean)) => {
                let (n, limits) = (self.ring.iter().count(), limits.words());
                format!("{mean} misses per 1000 instructions, intervals {n}, {limits}")
            }
            _ => "assumed until its class is known".to_owned(),
        }
    }

    /// Adds an interval.
    pub fn add(&mut self, sample: Rate, limits: Limits, hysteresis: Hysteresis) {
        self.ring.push(sample);
        let mean = self.ring.mean().unwrap_or_default();
        let n = self.ring.iter().count() as u64;
        let hits = |class: Class| {
            self.ring.iter().filter(|&sample| limits.class(sample) == class).count() as u64
        };
        let best = Class::ALL.into_iter().max_by_key(|&class| (hits(class), class));
        let Some(best) = best.filter(|&best| Some(best) != self.class) else { return };
        let has_hits = hysteresis.hits * n <= hits(best) * N_SAMPLES as u64;
        let step = Rate(mean.0.abs_diff(self.mean.0));
        if has_hits && (self.class.is_none() || hysteresis.min_delta <= step) {
            (self.class, self.mean) = (Some(best), mean);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYSTERESIS: Hysteresis = Hysteresis { hits: 7, min_delta: Rate(0) };

    /// The class after each interval, as its first letter, of misses per 1000 instructions.
    fn classes(limits: Limits, hysteresis: Hysteresis, samples: &[f64]) -> String {
        let mut history = ClassHistory::default();
        let after = samples.iter().map(|sample| {
            history.add(Rate((sample * 1000.0) as u64), limits, hysteresis);
            history.class.map_or('-', |_| history.class().name().chars().next().expect("a name"))
        });
        after.collect()
    }

    #[test]
    fn rounding_shifts_the_released_limits() {
        let class = |per_million| Limits::Released.class(Rate(per_million));
        assert_eq!((class(1_499), class(1_500)), (Class::Turtle, Class::Devil));
        assert_eq!((class(50_499), class(50_500)), (Class::Devil, Class::SuperDevil));
    }

    #[test]
    fn the_limits_of_the_article_are_2_and_100() {
        let class = |per_million| Limits::Article.class(Rate(per_million));
        assert_eq!((class(1_999), class(2_000)), (Class::Turtle, Class::Devil));
        assert_eq!((class(100_000), class(100_001)), (Class::Devil, Class::SuperDevil));
    }

    #[test]
    fn seven_of_the_last_ten_intervals_change_the_class() {
        let samples = [[1.0; 10], [9.0; 10]].concat();
        let classes = classes(Limits::Released, HYSTERESIS, &samples);
        assert_eq!(classes, "ttttttttttttttttdddd", "the seventh devil of ten");
    }

    #[test]
    fn a_job_with_fewer_intervals_needs_seventy_percent_of_them() {
        assert_eq!(classes(Limits::Released, HYSTERESIS, &[1.0, 9.0, 9.0, 9.0]), "tttd");
        assert_eq!(
            classes(Limits::Released, HYSTERESIS, &[9.0, 1.0, 9.0, 1.0, 1.0, 1.0]),
            "dddddd"
        );
    }

    #[test]
    fn a_job_with_alternating_rates_keeps_its_class() {
        let samples: Vec<f64> = (0..30).map(|n| if n % 2 == 0 { 1.0 } else { 9.0 }).collect();
        assert_eq!(classes(Limits::Released, HYSTERESIS, &samples), "t".repeat(30));
    }

    #[test]
    fn a_mean_that_changes_less_than_the_minimum_changes_no_class() {
        let hysteresis = Hysteresis { min_delta: Rate(3_000), ..HYSTERESIS };
        let samples = [[1.0; 10], [2.0; 10]].concat();
        assert_eq!(classes(Limits::Released, hysteresis, &samples), "t".repeat(20));
        assert!(classes(Limits::Released, HYSTERESIS, &samples).ends_with('d'));
    }
}
