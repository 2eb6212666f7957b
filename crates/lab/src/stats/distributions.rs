//! The normal distribution and Student's t-distribution for whole degrees of freedom, with their quantiles.
//!
//! The functions are implemented here, because a crate of distributions has about thirty dependencies. The error
//! function is from `libm`; the t-distribution has a closed form for whole degrees of freedom (Abramowitz and Stegun,
//! Handbook of Mathematical Functions, 1964, 26.7.3 and 26.7.4).

use std::f64::consts::{FRAC_2_PI, SQRT_2};

/// Returns the cumulative distribution function of the standard normal distribution.
pub fn normal(z: f64) -> f64 {
    0.5 * libm::erfc(-z / SQRT_2)
}

/// Returns the quantile of the standard normal distribution.
pub fn normal_quantile(fraction: f64) -> f64 {
    inverse(normal, fraction)
}

/// Returns the cumulative distribution function of Student's t-distribution; at least 1 degree of freedom.
pub fn student(t: f64, degrees: usize) -> f64 {
    let angle = libm::atan2(t, libm::sqrt(degrees as f64));
    let (sin, cos) = (libm::sin(angle), libm::cos(angle));
    // Probability between -t and t: a series in cos² with the factors of (2k)!! and (2k+1)!!.
    let is_odd = degrees % 2 == 1;
    let (mut term, mut sum) = if is_odd { (cos, 0.0) } else { (1.0, 0.0) };
    let n_terms = degrees / 2;
    for k in 0..n_terms {
        sum += term;
        let step = (2 * k + 1) as f64;
        let factor = if is_odd { (step + 1.0) / (step + 2.0) } else { step / (step + 1.0) };
        term *= factor * cos * cos;
    }
    let between = if is_odd { FRAC_2_PI * (angle + sin * sum) } else { sin * sum };
    0.5 + between / 2.0
}

/// Returns the quantile of Student's t-distribution.
pub fn student_quantile(fraction: f64, degrees: usize) -> f64 {
    inverse(|t| student(t, degrees), fraction)
}

/// Returns the argument at which an increasing function equals `fraction`, by bisection.
fn inverse(of: impl Fn(f64) -> f64, fraction: f64) -> f64 {
    /// Bound of the search: the t-distribution with one degree of freedom reaches 0.9999 at 3183.
    const LIMIT: f64 = 1e4;
    /// Number of bisections from a width of 2e4 to the last bit of a small number.
    const N_STEPS: usize = 70;
    let (mut low, mut high) = (-LIMIT, LIMIT);
    for _ in 0..N_STEPS {
        let middle = (low + high) / 2.0;
        if of(middle) < fraction {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_distributions_equal_published_tables() {
        let close = |value: f64, expected: f64| (value - expected).abs() < 1e-6;
        assert!(close(normal(0.0), 0.5) && close(normal(1.959_964), 0.975));
        assert!(close(normal_quantile(0.975), 1.959_963_985));
        assert!(close(normal_quantile(0.01), -2.326_347_874));
        // Two-sided 5 %.
        for (degrees, t) in
            [(1, 12.706_205), (2, 4.302_653), (3, 3.182_446), (9, 2.262_157), (30, 2.042_272)]
        {
            assert!(close(student_quantile(0.975, degrees), t), "{degrees}");
        }
        assert!((student_quantile(0.975, 2000) - 1.961_151).abs() < 1e-4);
    }
}
