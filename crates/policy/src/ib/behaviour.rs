//! Behaviour of a job or thread: its LLC misses, from its profile and from its counters.
//!
//! ```text
//!   global       whole run, from the profile, else the mean of the counted intervals
//!   local        last intervals, counted
//!   integrated   alpha × global + (1 - alpha) × local
//! ```
//!
//! Values are millionths, at most a million.

use sched::{JobView, Snapshot};

use super::IntegratedBehaviour;
use super::declaration::{Metric, StartValue};
use crate::core_kinds::KindJob;
use crate::core_kinds::speed::{self, cache_share};
use crate::declaration::MILLION;

/// Misses per 1000 instructions that count as behaviour 1. Chosen: the largest of the measured programs are near 30.
const MPKI_FULL: u64 = 30;
/// Accesses in an interval below which the miss ratio counts as 0. Chosen.
const ACCESSES_MIN: u64 = 1000;

impl IntegratedBehaviour {
    /// Returns the integrated behaviour of a job or thread that starts.
    pub(super) fn start_value(&self, profiled: Option<u64>) -> u64 {
        match self.config.unknown_start {
            StartValue::Global => profiled.unwrap_or(0),
            StartValue::ZeroLocal => profiled.unwrap_or(0) * self.config.alpha.0 / MILLION,
        }
    }

    /// Returns the behaviour of a job over its whole run, from its profile: with the cache share of the fastest kind.
    pub(super) fn profiled(&self, snapshot: &Snapshot<'_>, job: &JobView<'_>) -> Option<u64> {
        let profile = job.job.found.as_deref()?;
        let cache = cache_share(snapshot, &self.kinds, 0);
        let value = match self.config.metric {
            Metric::Mpki => {
                profile.average(|phase| phase.curve.misses_at(cache))? / MPKI_FULL as f64
            }
            Metric::MissRatio => profile.llc_miss_ratio(cache)?,
        };
        Some((value.min(1.0) * MILLION as f64).round() as u64)
    }

    /// Returns the behaviour of a job or thread in the last interval; `None` if it was not counted or did not run.
    pub(super) fn behaviour(&self, snapshot: &Snapshot<'_>, job: &KindJob<'_>) -> Option<u64> {
        let counts = speed::counts(job.tasks(snapshot))?;
        let ratio = |parts: u64, whole: u64| {
            let value = u128::from(parts) * u128::from(MILLION) / u128::from(whole.max(1));
            u64::try_from(value).unwrap_or(u64::MAX).min(MILLION)
        };
        match self.config.metric {
            Metric::Mpki => {
                let instructions = counts.instructions?.saturating_mul(MPKI_FULL);
                Some(ratio(counts.misses.saturating_mul(1000), instructions))
            }
            Metric::MissRatio => Some(match counts.accesses? {
                few if few < ACCESSES_MIN => 0,
                accesses => ratio(counts.misses, accesses),
            }),
        }
    }
}

/// Returns the weighted mean of global and local behaviour; the local behaviour if the global behaviour is unknown.
pub(super) fn integrated(alpha: u64, global: Option<u64>, local: u64) -> u64 {
    global.map_or(local, |global| (alpha * global + (MILLION - alpha) * local) / MILLION)
}
