//! Thresholds from measured programs.
//!
//! Programs that are known to differ run one after the other, and each provides one value of an event. The threshold is
//! in the widest gap between two values. The width of a gap is a ratio, because rates differ by orders of magnitude:
//!
//! ```text
//!   values    2    3    5 │ 4000    9000        ratios 1.5  1.7  800  2.3
//!                         └ threshold = √(5 × 4000) = 141
//! ```
//!
//! The published text selects thresholds in measured gaps, and prints neither the thresholds nor the rule. The rule is
//! evenkeel's choice. A rate of less than one event per second counts as one: the ratio to 0 would be infinite.

/// A threshold between two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// The threshold.
    pub value: u64,
    /// The largest value below the threshold.
    pub below: u64,
    /// The smallest value above the threshold.
    pub above: u64,
}

/// Error: the values have no threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum NoThreshold {
    #[error("no threshold from {}: measure at least two programs", base::counted_noun(*n, "value"))]
    TooFew { n: usize },
    #[error(
        "no threshold between {n} equal values of {value}: measure programs that differ, \
         and check that the event is counted"
    )]
    AllEqual { n: usize, value: u64 },
}

/// Returns the geometric mean of the two adjacent values with the largest ratio; ties: the lowest pair.
///
/// Values are events per second of CPU time, one for each program, in any order.
pub fn calibrate(values: &[u64]) -> Result<Threshold, NoThreshold> {
    let n = values.len();
    if n < 2 {
        return Err(NoThreshold::TooFew { n });
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let pairs = sorted.windows(2).map(|pair| (pair[0], pair[1]));
    let widest = pairs.fold(None, |best: Option<(u64, u64)>, pair| match best {
        Some(best) if !is_wider(pair, best) => Some(best),
        _ => Some(pair),
    });
    match widest {
        Some((below, above)) if at_least_one(below) < at_least_one(above) => {
            let product = u128::from(at_least_one(below)) * u128::from(at_least_one(above));
            // The root of a product of two u64 is a u64.
            let value = u64::try_from(product.isqrt()).unwrap_or(u64::MAX);
            Ok(Threshold { value, below, above })
        }
        _ => Err(NoThreshold::AllEqual { n, value: sorted[0] }),
    }
}

fn at_least_one(value: u64) -> u64 {
    value.max(1)
}

/// Returns whether the ratio of a pair is larger than the ratio of another pair, computed with integers.
fn is_wider(this: (u64, u64), other: (u64, u64)) -> bool {
    let [a, b, c, d] = [this.0, this.1, other.0, other.1].map(|v| u128::from(at_least_one(v)));
    d * a < b * c
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn check(values: &[u64], expected: Expect) {
        expected.assert_eq(&match calibrate(values) {
            Ok(Threshold { value, below, above }) => format!("{below} | {value} | {above}"),
            Err(error) => error.to_string(),
        });
    }

    #[test]
    fn the_threshold_is_the_geometric_mean_of_the_widest_gap() {
        check(&[9000, 2, 5, 4000, 3], expect!["5 | 141 | 4000"]);
        check(&[100, 400], expect!["100 | 200 | 400"]);
    }

    #[test]
    fn of_equal_ratios_the_lowest_pair_gives_the_threshold() {
        check(&[1, 10, 100], expect!["1 | 3 | 10"]);
    }

    #[test]
    fn a_rate_of_zero_counts_as_one() {
        check(&[0, 0, 5, 100_000], expect!["5 | 707 | 100000"]);
        check(&[0, 1_000_000], expect!["0 | 1000 | 1000000"]);
    }

    #[test]
    fn values_without_a_gap_give_an_error_with_a_remedy() {
        check(&[], expect!["no threshold from 0 values: measure at least two programs"]);
        check(&[7], expect!["no threshold from 1 value: measure at least two programs"]);
        check(
            &[7, 7, 7],
            expect![
                "no threshold between 3 equal values of 7: measure programs that differ, and check that the event is counted"
            ],
        );
        check(
            &[0, 1, 0],
            expect![
                "no threshold between 3 equal values of 0: measure programs that differ, and check that the event is counted"
            ],
        );
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        check(
            &[u64::MAX, u64::MAX - 1],
            expect!["18446744073709551614 | 18446744073709551614 | 18446744073709551615"],
        );
        check(&[0, u64::MAX], expect!["0 | 4294967295 | 18446744073709551615"]);
    }

    proptest! {
        #[test]
        fn a_threshold_divides_the_values_in_any_order(mut values in proptest::collection::vec(0u64..1 << 40, 0..20)) {
            let found = calibrate(&values);
            if let Ok(Threshold { value, below, above }) = found {
                let few = values.iter().filter(|&&v| v <= value).max();
                let many = values.iter().filter(|&&v| value < v).min();
                prop_assert_eq!((few, many), (Some(&below), Some(&above)));
            }
            values.reverse();
            prop_assert_eq!(calibrate(&values), found);
        }
    }
}
