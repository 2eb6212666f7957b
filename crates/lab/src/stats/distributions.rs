//! Two distribution functions and their inverses: the normal one, and Student's for whole degrees of
//! freedom.
//!
//! A crate for distributions would bring three dozen others for these few lines; the error function comes
//! from `libm`, and Student's has a closed form where the degrees are whole (Abramowitz and Stegun 26.7.3
//! and 26.7.4).

use std::f64::consts::{FRAC_2_PI, SQRT_2};

/// The part of a normal distribution below `z`.
pub fn normal(z: f64) -> f64 {
    0.5 * libm::erfc(-z / SQRT_2)
}

/// The place below which `part` of a normal distribution lies.
pub fn normal_quantile(part: f64) -> f64 {
    inverse(normal, part)
}

/// The part of Student's distribution below `t`, with so many degrees of freedom (1 or more).
pub fn student(t: f64, degrees: usize) -> f64 {
    let angle = libm::atan2(t, libm::sqrt(degrees as f64));
    let (sin, cos) = (libm::sin(angle), libm::cos(angle));
    // The part between -t and t: a series in cos² whose factors are those of (2k)!! and (2k+1)!!.
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

/// The place below which `part` of Student's distribution lies.
pub fn student_quantile(part: f64, degrees: usize) -> f64 {
    inverse(|t| student(t, degrees), part)
}

/// Where a rising function reaches `part`, by halving: slow, exact and without a table.
fn inverse(of: impl Fn(f64) -> f64, part: f64) -> f64 {
    /// Beyond it no part of 1 is left that matters: Student's with one degree reaches 0.9999 at 3183.
    const FARTHEST: f64 = 1e4;
    /// From 2e4 down to the last bit of a small number.
    const N_HALVINGS: usize = 70;
    let (mut low, mut high) = (-FARTHEST, FARTHEST);
    for _ in 0..N_HALVINGS {
        let middle = (low + high) / 2.0;
        if of(middle) < part {
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

    fn close(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 1e-6
    }

    #[test]
    fn the_normal_distribution_is_that_of_the_tables() {
        assert!(close(normal(0.0), 0.5) && close(normal(1.959_964), 0.975));
        assert!(close(normal_quantile(0.975), 1.959_963_985));
        assert!(close(normal_quantile(0.01), -2.326_347_874));
    }

    #[test]
    fn students_distribution_is_that_of_the_tables() {
        // Two-sided 5 %, from the usual table.
        for (degrees, t) in
            [(1, 12.706_205), (2, 4.302_653), (3, 3.182_446), (9, 2.262_157), (30, 2.042_272)]
        {
            assert!(close(student_quantile(0.975, degrees), t), "{degrees}");
        }
        assert!((student_quantile(0.975, 2000) - 1.961_151).abs() < 1e-4);
    }
}
