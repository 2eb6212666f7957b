//! What a cell of a table says, as figures.

use super::{StudyCell, StudyFigure};

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

/// Units that may stand behind a figure.
const UNITS: [&str; 4] = ["%", "points", "s", "count"];

impl StudyFigure {
    /// A figure without an interval.
    pub fn of(value: f64, unit: &str) -> Self {
        StudyFigure { value: Some(value), low: None, high: None, n_of: None, unit: unit.to_owned() }
    }

    /// A mean with both ends of its interval.
    pub fn mean(value: f64, within: Option<[f64; 2]>, unit: &str) -> Self {
        let [low, high] = [0, 1].map(|end| within.map(|within| within[end]));
        StudyFigure { low, high, ..StudyFigure::of(value, unit) }
    }

    /// So many of some.
    pub fn count(n: usize, of: usize) -> Self {
        StudyFigure { n_of: Some(of as u64), ..StudyFigure::of(n as f64, "count") }
    }
}

impl StudyCell {
    /// Words with the figures in them.
    pub fn new(text: String, figures: Vec<StudyFigure>) -> Self {
        StudyCell { text, figures }
    }

    /// The same; figures that say no unit have this one.
    #[must_use]
    pub fn in_unit(mut self, unit: &str) -> Self {
        let without = self.figures.iter_mut().filter(|figure| figure.unit.is_empty());
        without.for_each(|figure| unit.clone_into(&mut figure.unit));
        self
    }
}

/// A text that is nothing but one figure, or figures between blanks, has them; whatever else it is are words.
impl From<String> for StudyCell {
    fn from(text: String) -> Self {
        let several = || text.split(' ').map(figure).collect::<Option<Vec<StudyFigure>>>();
        let figures = figure(&text).map(|one| vec![one]).or_else(several).unwrap_or_default();
        StudyCell { text, figures }
    }
}

impl From<&str> for StudyCell {
    fn from(text: &str) -> Self {
        StudyCell::from(text.to_owned())
    }
}

/// A text that is one figure and nothing else: `+1.2±0.3 %`, `-0.8 to +4.5`, `3 of 5`.
fn figure(text: &str) -> Option<StudyFigure> {
    if let Some((n, of)) = text.split_once(" of ") {
        return Some(StudyFigure::count(n.parse().ok()?, of.parse().ok()?));
    }
    let behind = |unit: &&&str| text.strip_suffix(**unit).is_some_and(|rest| !rest.is_empty());
    let unit = UNITS.iter().find(behind).copied().unwrap_or("");
    let bare = text.strip_suffix(unit)?.trim_end();
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    if let Some((low, high)) = bare.split_once(" to ") {
        let (low, high) = (number(low)?, number(high)?);
        let range = StudyFigure::mean(0.0, Some([low, high]), unit);
        return Some(StudyFigure { value: None, ..range });
    }
    match bare.split_once('±') {
        None => Some(StudyFigure::of(number(bare)?, unit)),
        Some((mean, half)) => {
            let (mean, half) = (number(mean)?, number(half)?);
            Some(StudyFigure::mean(mean, Some([mean - half, mean + half]), unit))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_figures_alone_has_them_and_words_have_none() {
        let one = |text: &str| StudyCell::from(text).figures;
        assert_eq!(one("+1.25 %"), [StudyFigure::of(1.25, "%")]);
        assert_eq!(one("42%"), [StudyFigure::of(42.0, "%")]);
        assert_eq!(one("52.1 s"), [StudyFigure::of(52.1, "s")]);
        assert_eq!(one("3 of 5"), [StudyFigure::count(3, 5)]);
        assert_eq!(one("+2.0±0.5"), [StudyFigure::mean(2.0, Some([1.5, 2.5]), "")]);
        let range = StudyFigure { value: None, ..StudyFigure::mean(0.0, Some([-0.8, 4.5]), "") };
        assert_eq!(one("-0.8 to +4.5"), [range]);
        assert_eq!(one("+0.5 -0.5").len(), 2);
        for words in
            ["–", "isolates", "", "%", "s", "NaN", "inf", "3 of five", "4 as touched", "1 to"]
        {
            assert_eq!(one(words), [], "{words:?}");
        }
    }

    #[test]
    fn a_unit_is_given_to_figures_that_say_none() {
        let units = |text: &str| StudyCell::from(text).in_unit("%").figures[0].unit.clone();
        assert_eq!([units("+1.2±0.3"), units("52.1 s")], ["%", "s"]);
    }

    #[test]
    fn a_cell_is_a_mean_a_range_or_words() {
        assert_eq!(cell("+1.2±0.3"), Some(Cell::Mean { mean: 1.2, half: 0.3 }));
        assert_eq!(cell("-0.8 to +4.5"), Some(Cell::Range { low: -0.8, high: 4.5 }));
        assert_eq!(cell("42%"), Some(Cell::Mean { mean: 42.0, half: 0.0 }));
        assert_eq!(cell("52.1 s"), Some(Cell::Mean { mean: 52.1, half: 0.0 }));
        assert_eq!([cell("–"), cell("isolation"), cell(""), cell("NaN")], [None; 4]);
    }
}
