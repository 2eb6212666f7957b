//! Median and spread, and what may be said of two things that were run in turn.
//!
//! If nothing distinguished the two, each round's ratio would lie above or below 1 like a coin falls. All of
//! n rounds fall on the same side by chance in 2 of 2ⁿ benchmarks: the sign test. It asks for nothing but
//! that, not even that the noise is of the same size in each round.

use std::fmt;

/// The middle of some figures, with the lowest and the highest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Half lie below.
    pub median: f64,
    /// The lowest.
    pub low: f64,
    /// The highest.
    pub high: f64,
}

impl Spread {
    /// Of at least one figure.
    pub fn of(mut figures: Vec<f64>) -> Self {
        assert!(!figures.is_empty(), "the spread of nothing");
        figures.sort_by(f64::total_cmp);
        let (low, high) = (figures[0], figures[figures.len() - 1]);
        let middle = figures.len() / 2;
        let median = match figures.len() % 2 {
            1 => figures[middle],
            _ => (figures[middle - 1] + figures[middle]) / 2.0,
        };
        Spread { median, low, high }
    }
}

impl fmt::Display for Spread {
    /// `0.012 (0.010 to 0.019)`, with the precision asked for.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(3);
        write!(f, "{:.digits$} ({:.digits$} to {:.digits$})", self.median, self.low, self.high)
    }
}

/// What the ratios of the rounds of two things run in turn allow to be said.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// Rounds fall on both sides of 1.
    WithinNoise,
    /// All fall on one side, but so few may do that by chance.
    TooFew {
        /// How many there are.
        n_rounds: usize,
    },
    /// All fall on one side, of more rounds than that happens to by chance.
    Differs {
        /// The middle ratio.
        median: f64,
        /// How many rounds show it.
        n_rounds: usize,
    },
}

/// From so many rounds on all fall on one side by chance in less than one benchmark of 20.
const ROUNDS_TO_TELL: usize = 6;

impl Verdict {
    /// Of the ratio of each round, at least one.
    pub fn of(ratios: &[f64]) -> Self {
        let spread = Spread::of(ratios.to_vec());
        let n_rounds = ratios.len();
        let is_one_sided = 1.0 < spread.low || spread.high < 1.0;
        match (is_one_sided, n_rounds < ROUNDS_TO_TELL) {
            (false, _) => Verdict::WithinNoise,
            (true, true) => Verdict::TooFew { n_rounds },
            (true, false) => Verdict::Differs { median: spread.median, n_rounds },
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::WithinNoise => {
                write!(
                    f,
                    "within the noise: rounds on both sides of 1; smaller differences stay unseen"
                )
            }
            Verdict::TooFew { n_rounds } => write!(
                f,
                "no finding: all of {n_rounds} on one side of 1, which chance does too; take {ROUNDS_TO_TELL} rounds"
            ),
            Verdict::Differs { median, n_rounds } => {
                let percent = 100.0 * (median - 1.0);
                write!(
                    f,
                    "differs: {percent:+.1} % in the middle, the same way in all of {n_rounds} rounds"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_two_in_the_middle() {
        let spread = Spread::of(vec![4.0, 1.0, 2.0, 3.0]);
        assert_eq!((spread.median, spread.low, spread.high), (2.5, 1.0, 4.0));
        assert_eq!(format!("{spread:.1}"), "2.5 (1.0 to 4.0)");
    }

    #[test]
    fn a_difference_is_claimed_only_where_every_one_of_enough_rounds_shows_it() {
        assert_eq!(Verdict::of(&[0.9, 0.8, 0.9, 0.7, 0.9, 1.1]), Verdict::WithinNoise);
        assert_eq!(Verdict::of(&[1.1; 5]), Verdict::TooFew { n_rounds: 5 });
        assert_eq!(Verdict::of(&[0.9; 6]), Verdict::Differs { median: 0.9, n_rounds: 6 });
        assert_eq!(Verdict::of(&[1.0; 6]), Verdict::WithinNoise);
    }
}
