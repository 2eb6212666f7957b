//! What a job is: a turtle, a devil or a super-devil, by its misses per instruction, with hysteresis.
//!
//! ```text
//!   misses per 1000      limits=released       limits=article
//!     turtle             below  1.5            below   2
//!     devil               1.5 … 50.5             2 … 100
//!     super-devil        from 50.5              above 100
//! ```
//!
//! The released code rounds rates to whole misses per 1000 instructions first, and then takes up to 1.5 for
//! a turtle and up to 50 for a devil: so its limits act where rounding puts them [confirmed: Clavis]. Those of
//! the article are remembered, not checked [from memory, unconfirmed].
//!
//! A job takes a new class when 7 of its last 10 intervals lay in it; one with fewer intervals behind it
//! when 70 % of those did. Before that it counts as a devil, the careful guess for a job that starts.

use crate::intensity::rates::{N_SAMPLES, Rate, Ring};

/// How much harm a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    Turtle,
    Devil,
    SuperDevil,
}

/// Which limits classes have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limits {
    Released,
    Article,
}

/// What makes a new class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hysteresis {
    /// Of ten intervals so many must lie in it.
    pub hits: u64,
    /// And their mean must differ so much from what it was when the class was taken.
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

    /// Both limits in words.
    pub fn words(self) -> &'static str {
        match self {
            Limits::Released => "limits 1.5 and 50.5",
            Limits::Article => "limits 2 and 100",
        }
    }
}

/// What one job has shown.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    ring: Ring,
    class: Option<Class>,
    /// The mean when the class was taken.
    mean: Rate,
}

impl Shown {
    /// What it counts as.
    pub fn class(&self) -> Class {
        self.class.unwrap_or(Class::Devil)
    }

    /// Whether that is what it has shown.
    pub fn is_known(&self) -> bool {
        self.class.is_some()
    }

    /// What that stands on, in words.
    pub fn basis(&self, limits: Limits) -> String {
        match (self.class, self.ring.mean()) {
            (Some(_), Some(mean)) => {
                let (n, limits) = (self.ring.iter().count(), limits.words());
                format!("{mean} misses per 1000 instructions, intervals {n}, {limits}")
            }
            _ => "until it has shown what it is".to_owned(),
        }
    }

    /// Takes an interval in.
    pub fn learn(&mut self, sample: Rate, limits: Limits, hysteresis: Hysteresis) {
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
        let mut shown = Shown::default();
        let after = samples.iter().map(|sample| {
            shown.learn(Rate((sample * 1000.0) as u64), limits, hysteresis);
            shown.class.map_or('-', |_| shown.class().name().chars().next().expect("a name"))
        });
        after.collect()
    }

    #[test]
    fn the_released_limits_act_where_rounding_puts_them() {
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
    fn seven_of_the_last_ten_intervals_make_a_class() {
        let samples = [[1.0; 10], [9.0; 10]].concat();
        let classes = classes(Limits::Released, HYSTERESIS, &samples);
        assert_eq!(classes, "ttttttttttttttttdddd", "the seventh devil of ten");
    }

    #[test]
    fn who_is_younger_needs_seventy_percent_of_what_it_has() {
        assert_eq!(classes(Limits::Released, HYSTERESIS, &[1.0, 9.0, 9.0, 9.0]), "tttd");
        assert_eq!(
            classes(Limits::Released, HYSTERESIS, &[9.0, 1.0, 9.0, 1.0, 1.0, 1.0]),
            "dddddd"
        );
    }

    #[test]
    fn one_that_wavers_keeps_its_class() {
        let samples: Vec<f64> = (0..30).map(|n| if n % 2 == 0 { 1.0 } else { 9.0 }).collect();
        assert_eq!(classes(Limits::Released, HYSTERESIS, &samples), "t".repeat(30));
    }

    #[test]
    fn with_a_least_step_a_mean_that_hardly_moves_makes_no_class() {
        let hysteresis = Hysteresis { min_delta: Rate(3_000), ..HYSTERESIS };
        let samples = [[1.0; 10], [2.0; 10]].concat();
        assert_eq!(classes(Limits::Released, hysteresis, &samples), "t".repeat(20));
        assert!(classes(Limits::Released, HYSTERESIS, &samples).ends_with('d'));
    }
}
