//! Median and spread.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_two_in_the_middle() {
        let spread = Spread::of(vec![4.0, 1.0, 2.0, 3.0]);
        assert_eq!((spread.median, spread.low, spread.high), (2.5, 1.0, 4.0));
        assert_eq!(format!("{spread:.1}"), "2.5 (1.0 to 4.0)");
    }
}
