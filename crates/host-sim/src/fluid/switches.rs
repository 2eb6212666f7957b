//! Time of context switches and of refilling private caches.
//!
//! Tasks that share a CPU run in slices. At the end of each slice the CPU switches, and the next task reads the lines of its
//! private caches again from the last-level cache:
//!
//! ```text
//!   ── slice of a ──┤switch, refill├── slice of b ──┤switch, refill├── …      speed × slice ÷ (slice + cost)
//! ```
//!
//! The fluid model has no single slices, so the cost is a lower speed of all tasks of the CPU. A migration costs the same
//! once. A task alone on its CPU does not switch. The refill of the last-level cache is part of
//! [`super::cache_contents`]. Assumed: a slice of another task replaces the private caches completely. Without contention,
//! nothing is charged.

use topology::ContextSwitch;

use super::Fluid;
use crate::hardware::HardwareCpu;
use crate::physics::LINE;

impl Fluid {
    /// Returns the speed of a task on a CPU relative to its speed without context switches.
    pub(super) fn switch_share(&self, idx: usize, cpu: usize) -> f64 {
        let n_runnable = self.cpus[cpu].tasks.len();
        if n_runnable < 2 || self.hardware.context_switch.is_none() {
            return 1.0;
        }
        let slice = self.settings.kernel.slice_ns(self.cpus.len(), n_runnable);
        slice / (slice + self.switch_ns(idx, cpu))
    }

    /// Charges the refill of the private caches to a task that has migrated.
    pub(super) fn charge_migration(&mut self, idx: usize) {
        if self.settings.contention && self.hardware.context_switch.is_some() {
            self.charge_kernel_time(idx, self.switch_ns(idx, self.tasks[idx].cpu));
        }
    }

    /// Returns the nanoseconds of a context switch to a task, with the refill of the private caches.
    fn switch_ns(&self, idx: usize, cpu: usize) -> f64 {
        let Some(ContextSwitch { ns, refill_bytes, .. }) = self.hardware.context_switch else {
            return 0.0;
        };
        let HardwareCpu { speed, .. } = self.hardware.cpus[cpu];
        let phase = self.phase_of(idx);
        let used = if phase.footprint == 0 { u64::MAX } else { phase.footprint };
        let lines = refill_bytes.min(used) as f64 / LINE;
        ns as f64 + lines * speed.hit_ns / phase.behaviour.overlap_on(&speed)
    }
}
