//! What a cell of a table says, as figures.

/// A cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cell {
    /// `+1.2±0.3`, or `5.2` alone.
    Mean {
        /// The middle.
        mean: f64,
        /// Half of its interval.
        half: f64,
    },
    /// `-0.8 to +4.5`.
    Range {
        /// The lower end.
        low: f64,
        /// The upper.
        high: f64,
    },
}

/// None of words, and of a dash. A unit behind a blank, and a percent sign, are left out.
pub(super) fn cell(text: &str) -> Option<Cell> {
    let figure = |text: &str| {
        let text = text.trim().trim_end_matches('%');
        text.split(' ').next()?.parse::<f64>().ok().filter(|figure| figure.is_finite())
    };
    if let Some((low, high)) = text.split_once(" to ") {
        return Some(Cell::Range { low: figure(low)?, high: figure(high)? });
    }
    let (mean, half) = text.split_once('±').unwrap_or((text, "0"));
    Some(Cell::Mean { mean: figure(mean)?, half: figure(half)? })
}

impl Cell {
    /// Both ends.
    pub fn ends(self) -> [f64; 2] {
        match self {
            Cell::Mean { mean, half } => [mean - half, mean + half],
            Cell::Range { low, high } => [low, high],
        }
    }

    /// The middle.
    pub fn middle(self) -> f64 {
        match self {
            Cell::Mean { mean, .. } => mean,
            Cell::Range { low, high } => (low + high) / 2.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_a_mean_a_range_or_words() {
        assert_eq!(cell("+1.2±0.3"), Some(Cell::Mean { mean: 1.2, half: 0.3 }));
        assert_eq!(cell("-0.8 to +4.5"), Some(Cell::Range { low: -0.8, high: 4.5 }));
        assert_eq!(cell("42%"), Some(Cell::Mean { mean: 42.0, half: 0.0 }));
        assert_eq!(cell("52.1 s"), Some(Cell::Mean { mean: 52.1, half: 0.0 }));
        assert_eq!([cell("–"), cell("isolation"), cell(""), cell("NaN")], [None; 4]);
    }
}
