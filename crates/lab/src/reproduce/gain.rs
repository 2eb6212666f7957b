//! What a policy gains: the part of the default's time that it saves, seed by seed.
//!
//! ```text
//!   seed      1      2      3      4
//!   default  52 s   51 s   failed 53 s
//!   here     51 s   failed 50 s   52 s      ─► gains of seeds 1 and 4; whatever is compared with them
//!                                              is compared on seeds 1 and 4
//! ```
//!
//! The DFS paper tells an improvement "over the default scheduler", which is read so; the paper on divided
//! scheduling tells speeds, and its gain is reckoned where it is needed. At 5 % the two differ by a quarter of
//! a point.

use report::study::{StudyCell, StudyFigure};

use crate::stats::{Interval, interval, mean};

/// A mean gain with how sure it is; 0.01 is one part in a hundred.
#[derive(Clone, Debug, PartialEq)]
pub struct Gain {
    /// Of each pair.
    pub each: Vec<f64>,
    /// The seed of each pair.
    pub seeds: Vec<u64>,
    /// Their mean; 0 where there is no pair, which [`Gain::is_empty`] tells.
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

    /// Of gains whose seeds are their places, from 1.
    pub fn of_each(each: Vec<f64>) -> Self {
        Gain::by_seed((1..).zip(each).collect())
    }

    /// Of gains with their seeds, in order of the seeds.
    pub fn by_seed(of: Vec<(u64, f64)>) -> Self {
        let (seeds, each): (Vec<u64>, Vec<f64>) = of.into_iter().unzip();
        let part =
            |places: &[usize]| mean(&places.iter().map(|place| each[*place]).collect::<Vec<f64>>());
        let interval = interval(each.len(), part);
        Gain { mean: mean(&each), interval, each, seeds }
    }

    /// The mean of several gains on the seeds that all of them have.
    pub fn over(all: &[Gain]) -> Self {
        let Some((first, others)) = all.split_first() else { return Gain::by_seed(Vec::new()) };
        let of = |seed: u64| -> Option<f64> {
            let each: Option<Vec<f64>> =
                std::iter::once(first).chain(others).map(|gain| gain.at(seed)).collect();
            each.map(|each| mean(&each))
        };
        let seeds = first.seeds.iter();
        Gain::by_seed(seeds.filter_map(|seed| Some((*seed, of(*seed)?))).collect())
    }

    /// How much larger it is than another, on the seeds that both have.
    pub fn beside(&self, before: &Gain) -> Self {
        let pairs = self.seeds.iter().zip(&self.each);
        let more = pairs.filter_map(|(seed, gain)| Some((*seed, gain - before.at(*seed)?)));
        Gain::by_seed(more.collect())
    }

    /// That of a seed.
    pub fn at(&self, seed: u64) -> Option<f64> {
        let place = self.seeds.iter().position(|one| *one == seed)?;
        Some(self.each[place])
    }

    /// Whether there is no pair, so that nothing can be said of it.
    pub fn is_empty(&self) -> bool {
        self.each.is_empty()
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

    /// The same with its figure as it is, in points.
    pub fn cell(&self) -> StudyCell {
        StudyCell::new(self.shown(), self.figure("").into_iter().collect())
    }

    /// The same with a unit behind it.
    pub fn found(&self, unit: &str) -> StudyCell {
        let figure = self.figure(unit).into_iter().collect();
        StudyCell::new(format!("{} {unit}", self.shown()), figure)
    }

    /// Its mean and its interval in points; none where there is no pair.
    pub fn figure(&self, unit: &str) -> Option<StudyFigure> {
        let within = self.interval.map(|within| [within.low * 100.0, within.high * 100.0]);
        (!self.is_empty()).then(|| StudyFigure::mean(self.mean * 100.0, within, unit))
    }

    /// Its mean in points with two digits; a dash where there is none.
    pub fn percent(&self) -> String {
        if self.is_empty() { "–".to_owned() } else { format!("{:+.2}", self.mean * 100.0) }
    }

    /// Whether its interval leaves out 0.
    pub fn is_sure(&self) -> bool {
        self.interval.is_some_and(|within| !within.contains(0.0))
    }

    /// Whether it is surely above 0; unknown of fewer than two pairs.
    pub fn is_surely_above(&self) -> Option<bool> {
        self.interval.map(|within| 0.0 < within.low)
    }

    /// Whether it lies between two limits in points, both included.
    pub fn is_within(&self, low: f64, high: f64) -> bool {
        !self.each.is_empty() && (low..=high).contains(&(self.mean * 100.0))
    }
}
