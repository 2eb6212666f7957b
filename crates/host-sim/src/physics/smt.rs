//! Speed of a program beside busy SMT siblings.
//!
//! The siblings of a core share its execution units. A sibling that stalls on memory leaves them to the others:
//!
//! ```text
//!   time = time with idle siblings × (1 + slowdown beside siblings that never stall × mean core use of the siblings)
//! ```
//!
//! A core use of 1 gives the common factor of all programs (`smt_throughput` in the machine file). The rate of core
//! cycles of a core never exceeds this factor (a test), and no program is slower than with the common factor. That pairs
//! with a program that stalls on memory lose less is published (S. Eyerman, L. Eeckhout, "Probabilistic Job Symbiosis
//! Modeling for SMT Processor Scheduling", ASPLOS 2010); the linear form is assumed.

/// Returns the speed of a program relative to its speed with idle siblings. `core_use` is the mean share of time in which
/// the programs of the busy siblings use the core, and `share` is the result for programs that never stall.
pub fn smt_share_beside(core_use: f64, share: f64) -> f64 {
    1.0 / (1.0 + (1.0 / share - 1.0) * core_use.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn siblings_that_never_stall_have_the_common_share_and_idle_ones_take_nothing() {
        assert_eq!(smt_share_beside(0.0, 0.62), 1.0);
        assert!((smt_share_beside(1.0, 0.62) - 0.62).abs() < 1e-12);
        assert!(smt_share_beside(0.8, 0.62) < smt_share_beside(0.3, 0.62));
    }

    proptest! {
        #[test]
        fn the_rate_of_core_cycles_is_within_the_throughput_of_the_core(
            uses in proptest::collection::vec(0.0..=1.0f64, 2..9),
            above_one in 0.0..=1.0f64,
        ) {
            let n = uses.len() as f64;
            let throughput = 1.0 + above_one * (n - 1.0);
            let rate = |own: &f64| {
                let others = (uses.iter().sum::<f64>() - own) / (n - 1.0);
                own * smt_share_beside(others, throughput / n)
            };
            let sum = uses.iter().map(rate).sum::<f64>();
            prop_assert!(sum <= throughput * (1.0 + 1e-9), "{sum} {throughput}");
        }
    }
}
