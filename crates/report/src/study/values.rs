//! The values in the text of a cell.

use super::{StudyCell, StudyValue};

/// Units that may follow a number.
const UNITS: [&str; 4] = ["%", "points", "s", "count"];

impl StudyValue {
    /// Creates a value without a confidence interval.
    pub fn of(value: f64, unit: &str) -> Self {
        StudyValue { value: Some(value), low: None, high: None, n_of: None, unit: unit.to_owned() }
    }

    /// Returns a mean with both ends of its confidence interval.
    pub fn mean(value: f64, ci95: Option<[f64; 2]>, unit: &str) -> Self {
        let [low, high] = [0, 1].map(|end| ci95.map(|ends| ends[end]));
        StudyValue { low, high, ..StudyValue::of(value, unit) }
    }

    /// Returns a count of a part and the total.
    pub fn count(n: usize, of: usize) -> Self {
        StudyValue { n_of: Some(of as u64), ..StudyValue::of(n as f64, "count") }
    }

    /// Returns both ends of the interval; for a value without an interval, the value twice.
    pub(super) fn ends(&self) -> [f64; 2] {
        [self.low, self.high].map(|end| end.or(self.value).unwrap_or(0.0))
    }

    /// Returns the value, or the middle of a range.
    pub(super) fn middle(&self) -> f64 {
        self.value.unwrap_or_else(|| self.ends().iter().sum::<f64>() / 2.0)
    }
}

impl StudyCell {
    /// Creates a text with the values in it.
    pub fn new(text: String, values: Vec<StudyValue>) -> Self {
        StudyCell { text, values }
    }

    /// Sets the unit of the values without a unit.
    #[must_use]
    pub fn in_unit(mut self, unit: &str) -> Self {
        let without = self.values.iter_mut().filter(|value| value.unit.is_empty());
        without.for_each(|value| unit.clone_into(&mut value.unit));
        self
    }
}

/// A text that is one value, or values separated by spaces, has these values. Other texts have none.
impl From<String> for StudyCell {
    fn from(text: String) -> Self {
        let separate = || text.split(' ').map(parse).collect::<Option<Vec<StudyValue>>>();
        let values = parse(&text).map(|one| vec![one]).or_else(separate).unwrap_or_default();
        StudyCell { text, values }
    }
}

impl From<&str> for StudyCell {
    fn from(text: &str) -> Self {
        StudyCell::from(text.to_owned())
    }
}

/// Parses a single value: `+1.2±0.3 %`, `-0.8 to +4.5`, `3 of 5`.
fn parse(text: &str) -> Option<StudyValue> {
    if let Some((n, of)) = text.split_once(" of ") {
        return Some(StudyValue::count(n.parse().ok()?, of.parse().ok()?));
    }
    let follows = |unit: &&&str| text.strip_suffix(**unit).is_some_and(|rest| !rest.is_empty());
    let unit = UNITS.iter().find(follows).copied().unwrap_or("");
    let bare = text.strip_suffix(unit)?.trim_end();
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    if let Some((low, high)) = bare.split_once(" to ") {
        let ends = [number(low)?, number(high)?];
        return Some(StudyValue { value: None, ..StudyValue::mean(0.0, Some(ends), unit) });
    }
    let Some((mean, half)) = bare.split_once('±') else {
        return Some(StudyValue::of(number(bare)?, unit));
    };
    let (mean, half) = (number(mean)?, number(half)?);
    Some(StudyValue::mean(mean, Some([mean - half, mean + half]), unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_values_alone_has_these_values_and_other_texts_have_none() {
        let values = |text: &str| StudyCell::from(text).values;
        assert_eq!(values("+1.25 %"), [StudyValue::of(1.25, "%")]);
        assert_eq!(values("42%"), [StudyValue::of(42.0, "%")]);
        assert_eq!(values("52.1 s"), [StudyValue::of(52.1, "s")]);
        assert_eq!(values("3 of 5"), [StudyValue::count(3, 5)]);
        assert_eq!(values("+2.0±0.5"), [StudyValue::mean(2.0, Some([1.5, 2.5]), "")]);
        let range = StudyValue { value: None, ..StudyValue::mean(0.0, Some([-0.8, 4.5]), "") };
        assert_eq!((range.ends(), range.middle()), ([-0.8, 4.5], 1.85));
        assert_eq!(values("-0.8 to +4.5"), [range]);
        assert_eq!(values("+0.5 -0.5").len(), 2);
        for words in
            ["–", "isolates", "", "%", "s", "NaN", "inf", "3 of five", "4 as touched", "1 to"]
        {
            assert_eq!(values(words), [], "{words:?}");
        }
    }

    #[test]
    fn values_without_a_unit_get_the_unit_of_the_column() {
        let units = |text: &str| StudyCell::from(text).in_unit("%").values[0].unit.clone();
        assert_eq!([units("+1.2±0.3"), units("52.1 s")], ["%", "s"]);
    }
}
