//! An axis: a title with the unit, a linear scale, and ticks.

/// An axis from its first to its last value. Positions are shares of its length, from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    /// Quantity and unit: `makespan (s)`.
    pub title: String,
    from: f64,
    to: f64,
    /// Value and label of each tick.
    pub ticks: Vec<(f64, String)>,
}

/// Number of intervals between the ticks of an axis.
const N_TICKS: usize = 5;

impl Axis {
    /// Creates an axis that covers all values with a margin, and the value `included`. Values that are not finite are
    /// ignored.
    pub fn covering(
        title: impl Into<String>,
        values: impl Iterator<Item = f64>,
        included: Option<f64>,
    ) -> Self {
        Axis::covering_at_least(title, values, included, 0.0)
    }

    /// Creates an axis as [`Axis::covering`], of at least the length `span_min`.
    pub fn covering_at_least(
        title: impl Into<String>,
        values: impl Iterator<Item = f64>,
        included: Option<f64>,
        span_min: f64,
    ) -> Self {
        let (from, to) = range(values.chain(included));
        let missing = (span_min - (to - from)).max(0.0) / 2.0;
        let (from, to) = (from - missing, to + missing);
        let margin = if from == to { (from.abs() / 10.0).max(0.05) } else { (to - from) * 0.04 };
        Axis::new(title, (from - margin, to + margin)).with_round_ticks()
    }

    /// Creates an axis from zero to the first tick that no value exceeds.
    pub fn from_zero(title: impl Into<String>, values: impl Iterator<Item = f64>) -> Self {
        let (_, highest) = range(values.chain([0.0]));
        let highest = if highest == 0.0 { 1.0 } else { highest };
        let step = round_step(highest / N_TICKS as f64);
        Axis::new(title, (0.0, step * (highest / step).ceil())).with_round_ticks()
    }

    /// Creates an axis from one value to another value, without ticks.
    pub fn new(title: impl Into<String>, (from, to): (f64, f64)) -> Self {
        Axis { title: title.into(), from, to, ticks: Vec::new() }
    }

    /// Sets the ticks.
    #[must_use]
    pub fn with_ticks(self, ticks: impl IntoIterator<Item = (f64, String)>) -> Self {
        Axis { ticks: ticks.into_iter().collect(), ..self }
    }

    fn with_round_ticks(self) -> Self {
        let step = round_step((self.to - self.from) / N_TICKS as f64);
        let digits = (-step.log10().floor()).clamp(0.0, 6.0) as usize;
        let first = (self.from / step - 1e-9).ceil() as i64;
        let last = (self.to / step + 1e-9).floor() as i64;
        // Rounding errors of huge values would give billions of ticks.
        let is_exact = last.saturating_sub(first) <= 100;
        let values = (first..=last).filter(|_| is_exact).map(|nr| nr as f64 * step);
        let ticks: Vec<_> = values.map(|value| (value, format!("{value:.digits$}"))).collect();
        self.with_ticks(ticks)
    }

    /// Returns the position of a value. Values outside the axis are drawn at its ends.
    pub fn share(&self, value: f64) -> f64 {
        ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0)
    }

    /// Returns the title with the labels of the first and the last tick, as text for screen readers.
    pub fn description(&self) -> String {
        match (self.ticks.first(), self.ticks.last()) {
            (Some((_, first)), Some((_, last))) => {
                format!("{}, from {first} to {last}", self.title)
            }
            _ => self.title.clone(),
        }
    }
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let finite = values.filter(|value| value.is_finite());
    let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if low <= high { (low, high) } else { (0.0, 1.0) }
}

/// Returns the smallest number that is at least `min` and is 1, 2 or 5 times a power of ten.
fn round_step(min: f64) -> f64 {
    let power = 10f64.powi(min.log10().floor() as i32);
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    steps.into_iter().find(|step| min <= *step).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| &**label).collect()
    }

    #[test]
    fn an_axis_covers_its_values_and_its_ticks_are_round() {
        let axis = Axis::covering("ratio", [0.83, 1.27].into_iter(), Some(1.0));
        assert_eq!(labels(&axis), ["0.9", "1.0", "1.1", "1.2"]);
        assert!(0.0 < axis.share(0.83) && axis.share(1.27) < 1.0);
        assert_eq!(axis.description(), "ratio, from 0.9 to 1.2");
    }

    #[test]
    fn an_axis_has_its_minimum_length_around_its_values() {
        let axis = Axis::covering_at_least("ratio", [1.0, 1.0002].into_iter(), Some(1.0), 0.01);
        assert_eq!(labels(&axis), ["0.995", "1.000", "1.005"]);
        let longer = Axis::covering_at_least("", [0.83, 1.27].into_iter(), Some(1.0), 0.01);
        assert_eq!(longer, Axis::covering("", [0.83, 1.27].into_iter(), Some(1.0)));
    }

    #[test]
    fn an_axis_from_zero_ends_at_the_first_tick_that_no_value_exceeds() {
        let check = |highest: f64, expected: &[&str]| {
            assert_eq!(labels(&Axis::from_zero("", [highest].into_iter())), expected);
        };
        check(28.3, &["0", "10", "20", "30"]);
        check(25.0, &["0", "5", "10", "15", "20", "25"]);
        check(9.9, &["0", "2", "4", "6", "8", "10"]);
        check(0.07, &["0.00", "0.02", "0.04", "0.06", "0.08"]);
        check(0.0, &["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        check(f64::NAN, &["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
    }

    #[test]
    fn axes_of_equal_no_or_huge_values_are_valid() {
        for values in [vec![], vec![1.0], vec![f64::NAN], vec![0.0, 0.0], vec![1e300, -1e300]] {
            let axis = Axis::covering("", values.into_iter(), None);
            assert!(axis.share(0.5).is_finite());
            assert!(axis.ticks.len() < 20);
        }
    }
}
