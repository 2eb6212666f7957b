//! Slices of tasks that share a CPU, and the time that is lost when they switch.
//!
//! | | `linux-6.18` | `linux-4.2` | `linux-2.6.27` |
//! | --- | --- | --- | --- |
//! | period of all tasks | | 6 ms × factor | 20 ms × factor, at most 200 ms |
//! | shortest slice | 0.7 ms × factor | 0.75 ms × factor | 4 ms × factor |
//! | factor | 1 + log2 of the CPUs, of at most 8 | as 6.18 | 1 + log2 of the CPUs |
//!
//! A slice is the period divided by the number of tasks (6.18: the shortest slice), at least the shortest slice. It ends
//! at the next timer interrupt. The constants are those of `kernel/sched/fair.c` (2.6.27: `kernel/sched_fair.c`). Assumed:
//! 250 timer interrupts per second, and equal weights.

use super::KernelVersion;

/// Nanoseconds between timer interrupts, for 250 interrupts per second.
pub(crate) const TICK_NS: f64 = 4e6;

impl KernelVersion {
    /// Returns the length of a slice in nanoseconds on a CPU with this number of runnable tasks.
    pub fn slice_ns(self, n_cpus: usize, n_runnable: usize) -> f64 {
        let factor = |cpus_max: usize| f64::from(1 + n_cpus.clamp(1, cpus_max).ilog2());
        let (period, shortest) = match self {
            KernelVersion::V6_18 => (0.0, 0.7e6 * factor(8)),
            KernelVersion::V4_2 => (6e6 * factor(8), 0.75e6 * factor(8)),
            KernelVersion::V2_6_27 => {
                let scaled = |ns: f64| (ns * factor(usize::MAX)).min(200e6);
                (scaled(20e6), scaled(4e6))
            }
        };
        let slice = (period / n_runnable.max(1) as f64).max(shortest);
        libm::ceil(slice / TICK_NS) * TICK_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_those_of_each_kernel_and_end_at_timer_interrupts() {
        let ms =
            |kernel: KernelVersion, n_cpus, n_runnable| kernel.slice_ns(n_cpus, n_runnable) / 1e6;
        assert_eq!([1, 2, 8, 64].map(|n| ms(KernelVersion::V6_18, n, 2)), [4.0; 4]);
        assert_eq!([2, 3, 8, 100].map(|n| ms(KernelVersion::V4_2, 8, n)), [12.0, 8.0, 4.0, 4.0]);
        assert_eq!([2, 4, 50].map(|n| ms(KernelVersion::V2_6_27, 8, n)), [40.0, 20.0, 16.0]);
        for kernel in KernelVersion::ALL {
            assert!((1..50).all(|n| ms(kernel, 8, n + 1) <= ms(kernel, 8, n)));
        }
    }
}
