//! Reproducible random numbers: a seed gives the same numbers on every machine and in every version.

use std::convert::Infallible;

use rand::{Rng as _, SeedableRng, TryRng};
use rand_pcg::Pcg64Mcg;

/// A seeded generator with a fixed algorithm (PCG): the default generator of a library may change.
#[derive(Clone, Debug)]
pub struct Rng(Pcg64Mcg);

impl Rng {
    /// Creates a generator from a seed.
    pub fn new(seed: u64) -> Self {
        Rng(Pcg64Mcg::seed_from_u64(seed))
    }

    /// Returns a number that is uniform over all 64-bit numbers.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number that is uniform over `0..bound`, without bias. Panics if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound != 0, "bound is 0");
        // Numbers below `reject` would make small results more likely, so they are drawn again.
        let reject = bound.wrapping_neg() % bound;
        loop {
            let drawn = self.next_u64();
            if reject <= drawn {
                return drawn % bound;
            }
        }
    }

    /// Returns a number that is uniform over `0.0..1.0`, with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns the index of a weight, drawn with a probability proportional to the weight. Returns `None` if all
    /// weights are zero or there is no weight.
    pub fn weighted(&mut self, weights: &[u64]) -> Option<usize> {
        let total: u64 = weights.iter().sum();
        if total == 0 {
            return None;
        }
        let mut remaining = self.below(total);
        weights.iter().position(|&weight| {
            let is_drawn = remaining < weight;
            remaining = remaining.saturating_sub(weight);
            is_drawn
        })
    }
}

/// For crates that draw from a generator of the crate `rand`.
impl TryRng for Rng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.0.try_next_u32()
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.0.try_next_u64()
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.0.try_fill_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_in_every_version() {
        let mut rng = Rng::new(1);
        let drawn: Vec<u64> = (0..3).map(|_| rng.below(1000)).collect();
        // Workloads in the repository were generated from these streams, so the values must never change.
        assert_eq!(drawn, [939, 799, 792]);
    }

    #[test]
    fn weight_zero_is_never_drawn() {
        let mut rng = Rng::new(7);
        for _ in 0..100 {
            assert_ne!(rng.weighted(&[3, 0, 1]), Some(1));
        }
        assert_eq!(rng.weighted(&[0, 0]), None);
        assert_eq!(rng.weighted(&[]), None);
    }
}
