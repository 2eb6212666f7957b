//! Selection of the next settings: the tree-structured Parzen estimator (TPE) of the crate `tpe`, one optimizer for
//! each parameter.
//!
//! TPE divides the trials into the best tenth and the others, estimates the density of the values in both, and proposes
//! the candidate with the largest quotient of the densities (Bergstra et al., "Algorithms for Hyper-Parameter
//! Optimization", NIPS 2011). Each parameter is modelled on its own; `docs/decisions/0005-…` has the reasons.

use base::Rng;
use tpe::TpeOptimizer;

use super::space::{Coordinate, Dimension, Point, Scale, SearchSpace};

/// Largest number of draws for one valid combination that is new.
const N_DRAWS_MAX: usize = 200;

/// Draws settings, and learns from their results.
pub(super) struct Sampler<'a> {
    space: &'a SearchSpace,
    optimizers: Vec<DimensionOptimizer>,
    rng: Rng,
}

struct DimensionOptimizer {
    /// Selects between the word (0) and the range (1).
    kind: Option<TpeOptimizer>,
    value: TpeOptimizer,
}

impl<'a> Sampler<'a> {
    pub fn new(space: &'a SearchSpace, seed: u64) -> Self {
        let optimizers = space.dimensions.iter().map(DimensionOptimizer::new).collect();
        Sampler { space, optimizers, rng: Rng::new(seed) }
    }

    /// Returns a valid combination that is not yet known; `None` if no draw finds one. The first half of the draws is
    /// from the optimizer, unless `is_uniform`.
    pub fn draw(&mut self, is_uniform: bool, is_known: impl Fn(&str) -> bool) -> Option<Point> {
        (0..N_DRAWS_MAX).find_map(|n| {
            let is_uniform = is_uniform || N_DRAWS_MAX / 2 <= n;
            let coordinates = self.coordinates(is_uniform);
            self.space.point(&coordinates).filter(|point| !is_known(&point.spec))
        })
    }

    fn coordinates(&mut self, is_uniform: bool) -> Vec<Coordinate> {
        let Sampler { space, optimizers, rng } = self;
        let draw = |(dimension, optimizer): (&Dimension, &mut DimensionOptimizer)| match is_uniform
        {
            true => uniform(dimension, rng),
            false => optimizer.draw(dimension, rng),
        };
        space.dimensions.iter().zip(optimizers).map(draw).collect()
    }

    /// Adds the result of a trial; smaller is better, and infinity is a run that did not finish.
    pub fn add(&mut self, point: &Point, result: f64) {
        for (optimizer, at) in self.optimizers.iter_mut().zip(&point.coordinates) {
            optimizer.add(*at, result);
        }
    }
}

fn uniform(dimension: &Dimension, rng: &mut Rng) -> Coordinate {
    match &dimension.scale {
        _ if dimension.word.is_some() && rng.below(2) == 0 => Coordinate::Word,
        Scale::List(values) => Coordinate::Listed(rng.below(values.len() as u64) as usize),
        Scale::Range { .. } => Coordinate::At(rng.unit()),
    }
}

impl DimensionOptimizer {
    fn new(dimension: &Dimension) -> Self {
        let list = |n: usize| {
            let range = tpe::categorical_range(n).expect("a list has values");
            TpeOptimizer::new(tpe::histogram_estimator(), range)
        };
        let value = match &dimension.scale {
            Scale::List(values) => list(values.len()),
            Scale::Range { .. } => {
                let range = tpe::range(0.0, 1.0).expect("0 is below 1");
                TpeOptimizer::new(tpe::parzen_estimator(), range)
            }
        };
        DimensionOptimizer { kind: dimension.word.map(|_| list(2)), value }
    }

    fn draw(&mut self, dimension: &Dimension, rng: &mut Rng) -> Coordinate {
        const NO_ERROR: &str = "density estimators have no errors";
        if let Some(kind) = &mut self.kind
            && kind.ask(rng).expect(NO_ERROR) < 1.0
        {
            return Coordinate::Word;
        }
        let value = self.value.ask(rng).expect(NO_ERROR);
        match &dimension.scale {
            Scale::List(_) => Coordinate::Listed(value as usize),
            Scale::Range { .. } => Coordinate::At(value),
        }
    }

    /// A parameter that a trial did not use is NaN.
    fn add(&mut self, at: Option<Coordinate>, result: f64) {
        let (kind, value) = match at {
            None => (f64::NAN, f64::NAN),
            Some(Coordinate::Word) => (0.0, f64::NAN),
            Some(Coordinate::Listed(idx)) => (1.0, idx as f64),
            Some(Coordinate::At(position)) => (1.0, position),
        };
        const VALID: &str = "the optimizer or the space returned this value";
        if let Some(optimizer) = &mut self.kind {
            optimizer.tell(kind, result).expect(VALID);
        }
        self.value.tell(value, result).expect(VALID);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best_position(is_uniform: bool, seed: u64) -> f64 {
        let space = SearchSpace::new("dfs", &["interval".to_owned()]).expect("valid");
        let mut sampler = Sampler::new(&space, seed);
        let mut best = f64::INFINITY;
        for n in 0..40 {
            let point = sampler.draw(is_uniform || n < 10, |_| false).expect("valid");
            let Some(Coordinate::At(position)) = point.coordinates[0] else { panic!("a range") };
            let result = (position - 0.3).abs();
            best = best.min(result);
            sampler.add(&point, result);
        }
        best
    }

    #[test]
    fn the_optimizer_is_closer_to_the_optimum_than_uniform_draws() {
        let mean =
            |is_uniform| (0..20).map(|seed| best_position(is_uniform, seed)).sum::<f64>() / 20.0;
        let (guided, uniform) = (mean(false), mean(true));
        assert!(guided < 0.7 * uniform, "{guided} {uniform}");
        assert_eq!(best_position(false, 3), best_position(false, 3));
    }

    #[test]
    fn a_finite_space_is_exhausted() {
        let space = SearchSpace::new("dfs", &["bind".to_owned()]).expect("valid");
        let mut sampler = Sampler::new(&space, 1);
        let first = sampler.draw(true, |_| false).expect("two values");
        let second = sampler.draw(true, |spec| spec == first.spec).expect("the other value");
        assert!(
            sampler
                .draw(true, |spec| [&first.spec, &second.spec].contains(&&spec.to_owned()))
                .is_none()
        );
    }
}
