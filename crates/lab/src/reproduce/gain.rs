//! What a policy gains: the part of the default's time that it saves, seed by seed.
//!
//! The DFS paper tells an improvement "over the default scheduler", which is read so; the paper on divided
//! scheduling tells speeds, and its gain is reckoned where it is needed. At 5 % the two differ by a quarter of
//! a point.

use crate::stats::{Interval, interval, mean};

/// A mean gain with how sure it is; 0.01 is one part in a hundred.
#[derive(Clone, Debug, PartialEq)]
pub struct Gain {
    /// Of each pair.
    pub each: Vec<f64>,
    /// Their mean.
    pub mean: f64,
    /// Where the true mean lies in 95 of 100 cases; none of fewer than two pairs.
    pub interval: Option<Interval>,
}

impl Gain {
    /// Of times in pairs: the default's, and the policy's.
    pub fn of(pairs: &[(f64, f64)]) -> Self {
        let saved = |(default, here): &(f64, f64)| 1.0 - here / default;
        Gain::of_each(pairs.iter().map(saved).collect())
    }

    /// Of gains.
    pub fn of_each(each: Vec<f64>) -> Self {
        let part =
            |places: &[usize]| mean(&places.iter().map(|place| each[*place]).collect::<Vec<f64>>());
        let interval = interval(each.len(), part);
        Gain { mean: mean(&each), interval, each }
    }

    /// In points, with half the width of its interval: `+1.2±0.3`.
    pub fn shown(&self) -> String {
        match self.interval {
            Some(within) => {
                format!("{:+.1}±{:.1}", self.mean * 100.0, (within.high - within.low) * 50.0)
            }
            None if self.each.is_empty() => "–".to_owned(),
            None => format!("{:+.1}", self.mean * 100.0),
        }
    }

    /// Whether its interval leaves out 0.
    pub fn is_sure(&self) -> bool {
        self.interval.is_some_and(|within| !within.contains(0.0))
    }

    /// Whether it lies between two limits in points, both included.
    pub fn is_within(&self, low: f64, high: f64) -> bool {
        !self.each.is_empty() && (low..=high).contains(&(self.mean * 100.0))
    }
}
