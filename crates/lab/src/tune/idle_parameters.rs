//! Settings without the values of parameters that have no effect.
//!
//! A trial has a value of every searched parameter. In the best trial, the values of parameters that change nothing are
//! random draws, and are replaced by the defaults: one parameter after the other, while the result stays the same.

use policy::{Params, PolicyError};

use super::space::{Coordinate, Point, SearchSpace};

impl SearchSpace {
    /// Returns a valid combination with the default of one parameter; `None` if the parameter has its default, or no effect
    /// with the other values.
    pub(super) fn with_default(&self, point: &Point, idx: usize) -> Option<Point> {
        // The reading changes the defaults.
        if self.dimensions.iter().any(|it| it.param.name == "reading") {
            return None;
        }
        let mut coordinates = point.coordinates.clone();
        let is_changed = |idx: usize, coordinates: &[Option<Coordinate>]| {
            let dimension = &self.dimensions[idx];
            coordinates[idx].is_some_and(|at| dimension.text(at) != dimension.default)
        };
        if !is_changed(idx, &coordinates) {
            return None;
        }
        coordinates[idx] = self.dimensions[idx].default_coordinate();
        loop {
            let used = (0..coordinates.len())
                .filter(|other| *other != idx && is_changed(*other, &coordinates));
            let pair = |other: usize| {
                let dimension = &self.dimensions[other];
                coordinates[other]
                    .map(|at| format!("{}={}", dimension.param.name, dimension.text(at)))
            };
            let spec = self.with_params(&used.filter_map(pair).collect::<Vec<_>>());
            match Params::parse(self.info, &spec) {
                Ok(_) => return Some(Point { spec, coordinates }),
                // It had an effect only with the other value.
                Err(PolicyError::NoEffect { key, .. }) => {
                    let other = self.dimensions.iter().position(|it| it.param.name == key)?;
                    coordinates[other] = None;
                }
                Err(_) => return None,
            }
        }
    }
}
