//! Behaviour monitor: detects the start of a stable phase of a job.
//!
//! ```text
//!   miss ratio   .40 .40 .40 .60 .60 .60 .60
//!   local                .40 .47 .53 .60 .60      mean of the last three intervals (equation 12)
//!   change             first +17% +14% +13%  0%
//!   mode         steady ─────► changed ───────► stable: reschedule
//!                       > 12 % (equation 13)    < 5 % (equation 14)
//! ```
//!
//! Because the local behaviour is a mean, a step of the measured values changes it in each of three intervals. The
//! published single check in the second interval after the change is therefore too early for every step that is
//! detected at once. `check=repeated` continues until the phase is stable.
//!
//! Values are millionths. Relative changes are compared as sums of the window, without rounding.

use std::collections::VecDeque;

use super::declaration::{Check, Config};
use crate::core_kinds::{RATIO_MIN, compare_change};

/// Intervals after a change in which the phase is checked for the first time (published).
const CHECK_AFTER: u64 = 2;
/// Intervals after which a phase that does not become stable is handled as one. Chosen.
pub(super) const UNSTABLE_AFTER: u64 = 25;
/// Number of intervals whose mean is the local behaviour of such a phase. Chosen.
const UNSTABLE_WINDOW: usize = 10;
/// Recorded intervals after which the mean of all intervals counts as global behaviour. Chosen.
const GLOBAL_AFTER: u64 = 20;

/// State of the monitor of one job.
#[derive(Clone, Debug, Default)]
pub(super) struct Monitor {
    /// The last recorded intervals, oldest first.
    recent: VecDeque<u64>,
    /// Sum of the window before the last interval.
    previous: Option<u64>,
    mode: Mode,
    /// The next interval is a warm-up and is not recorded.
    skips_next: bool,
    /// Sum and number of all recorded intervals.
    total: (u64, u64),
    /// Number of the recorded interval in which the last change was seen.
    began: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Steady,
    /// Intervals since the change, and the sum of the window before the change.
    Changed { since: u64, before: Option<u64> },
}

/// Result of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No decision.
    Continues,
    /// A phase may begin. The fields are the local behaviour before, unless it is the first phase, and now.
    Changed(Option<u64>, u64),
    /// The phase is filtered: the local behaviour, which is the field, returned to its value before the phase.
    TooShort(u64),
    /// As printed, a phase that is not stable in the second interval is filtered. The field is its local behaviour.
    Unchecked(u64),
    /// A new phase is stable; the field is its local behaviour.
    Stable(u64),
    /// The behaviour did not become stable; the field is the mean of the last ten intervals.
    Unstable(u64),
}

impl Monitor {
    /// Does not record the next interval, because caches are cold after a start or a migration.
    pub fn skip_next(&mut self) {
        self.skips_next = true;
    }

    /// Returns the mean of all recorded intervals, if there are enough.
    pub fn global(&self) -> Option<u64> {
        let (sum, n) = self.total;
        (GLOBAL_AFTER <= n).then(|| sum / n)
    }

    /// Returns the number of recorded intervals, and the number of the one in which the last change was seen.
    pub fn intervals(&self) -> (u64, u64) {
        (self.total.1, self.began)
    }

    fn begin(&mut self, before: Option<u64>, sum: u64, config: &Config) -> Phase {
        self.mode = Mode::Changed { since: 0, before };
        self.began = self.total.1;
        Phase::Changed(before.map(|sum| sum / config.window), sum / config.window)
    }

    /// Adds the behaviour of an interval.
    pub fn record(&mut self, value: u64, config: &Config) -> Phase {
        if std::mem::take(&mut self.skips_next) {
            return Phase::Continues;
        }
        let Some(sum) = self.push(value, config.window as usize) else { return Phase::Continues };
        let Some(previous) = self.previous.replace(sum) else {
            return match config.first_window_is_change {
                true => self.begin(None, sum, config),
                false => Phase::Continues,
            };
        };
        // Both comparisons are strict, as printed: a change of exactly the limit neither begins a phase nor is stable.
        let change = |from, limit| compare_change((from, sum), RATIO_MIN * config.window, limit);
        let Mode::Changed { since, before } = self.mode else {
            return match change(previous, config.change).is_gt() {
                true => self.begin(Some(previous), sum, config),
                false => Phase::Continues,
            };
        };
        let since = since + 1;
        let is_within = |from| change(from, config.stable).is_lt();
        let (is_stable, returned) = (is_within(previous), before.is_some_and(is_within));
        let local = sum / config.window;
        let phase = match config.check {
            Check::Once if since < CHECK_AFTER => Phase::Continues,
            Check::Once if is_stable => Phase::Stable(local),
            Check::Once => Phase::Unchecked(local),
            Check::Repeated if returned => Phase::TooShort(local),
            Check::Repeated if CHECK_AFTER <= since && is_stable => Phase::Stable(local),
            Check::Repeated if UNSTABLE_AFTER <= since => Phase::Unstable(self.mean_of_last()),
            Check::Repeated => Phase::Continues,
        };
        self.mode = match phase {
            Phase::Continues => Mode::Changed { since, before },
            _ => Mode::Steady,
        };
        phase
    }

    /// Adds an interval. Returns the sum of the window, if it is full.
    fn push(&mut self, value: u64, window: usize) -> Option<u64> {
        self.total = (self.total.0.saturating_add(value), self.total.1 + 1);
        self.recent.push_back(value);
        if window.max(UNSTABLE_WINDOW) < self.recent.len() {
            self.recent.pop_front();
        }
        let sum = || self.recent.iter().rev().take(window).sum();
        (window <= self.recent.len()).then(sum)
    }

    fn mean_of_last(&self) -> u64 {
        let n = self.recent.len().min(UNSTABLE_WINDOW);
        self.recent.iter().rev().take(n).sum::<u64>() / n as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Params;
    use crate::declaration::MILLION;

    /// Returns the intervals, from 1 after the first three, in which a monitor reschedules.
    fn reschedules(spec: &str, values: &[f64]) -> Vec<(usize, String)> {
        let params = Params::parse(&super::super::INFO, spec).expect("accepted");
        let config = Config::new(&params);
        let mut monitor = Monitor::default();
        let mut found = Vec::new();
        for (idx, value) in values.iter().enumerate() {
            let phase = monitor.record((value * MILLION as f64).round() as u64, &config);
            if matches!(phase, Phase::Stable(_) | Phase::Unstable(_)) {
                found.push((idx + 1 - 3, format!("{phase:?}")));
            }
        }
        found
    }

    fn step(to: f64) -> Vec<f64> {
        [vec![0.4; 3], vec![to; 12]].concat()
    }

    /// The vectors of the specification: a step from 0.40, the interval of detection, and the further interval of the
    /// reschedule.
    #[test]
    fn a_step_is_detected_and_rescheduled_as_derived_from_the_equations() {
        for (to, paper, corrected) in [
            (0.52, None, None),
            (0.60, None, Some(4)),
            (0.20, None, Some(4)),
            (0.26, Some(4), Some(4)),
            (0.28, Some(5), Some(5)),
            (0.29, None, None),
        ] {
            let at = |spec: &str| {
                reschedules(spec, &step(to))
                    .into_iter()
                    .map(|(interval, _)| interval)
                    .collect::<Vec<_>>()
            };
            assert_eq!(at("ib[reading=paper]"), Vec::from_iter(paper), "paper, {to}");
            let spec = "ib[first_window_is_change=no]";
            assert_eq!(at(spec), Vec::from_iter(corrected), "corrected, {to}");
        }
    }

    #[test]
    fn the_first_window_is_a_change_in_the_corrected_reading_only() {
        let steady = [0.4; 8];
        assert_eq!(reschedules("ib", &steady), [(2, "Stable(400000)".to_owned())]);
        assert_eq!(reschedules("ib[reading=paper]", &steady), []);
    }

    #[test]
    fn a_behaviour_that_never_becomes_stable_is_rescheduled_after_25_intervals_with_the_mean_of_ten()
     {
        // Every window differs from the last one by more than 5 %, and from the first one.
        let rising: Vec<f64> = (0..40).map(|n| 0.01 * 1.08f64.powi(n)).collect();
        let found = reschedules("ib[first_window_is_change=no,change=7%]", &rising);
        let (at, phase) = &found[0];
        assert_eq!(*at, 26, "one interval of detection and 25 further intervals");
        assert!(phase.starts_with("Unstable("), "{phase}");
        assert_eq!(reschedules("ib[reading=paper,change=7%]", &rising), [], "checked once");
    }

    #[test]
    fn a_change_from_zero_is_relative_to_a_hundredth() {
        let from_zero = |to: f64| [vec![0.0; 3], vec![to; 8]].concat();
        let spec = "ib[first_window_is_change=no]";
        assert_eq!(reschedules(spec, &from_zero(0.003)), [], "a change by 10 % of 0.01");
        assert_eq!(reschedules(spec, &from_zero(0.3)), [(4, "Stable(300000)".to_owned())]);
    }

    #[test]
    fn a_change_that_returns_is_too_short() {
        let mut values = vec![0.4; 3];
        values.extend([0.6, 0.4, 0.2, 0.4, 0.4, 0.4, 0.4]);
        assert_eq!(reschedules("ib[first_window_is_change=no]", &values), []);
    }

    #[test]
    fn the_interval_after_a_migration_is_not_recorded() {
        let params = Params::parse(&super::super::INFO, "ib").expect("accepted");
        let config = Config::new(&params);
        let mut monitor = Monitor::default();
        monitor.skip_next();
        (0..30).for_each(|_| {
            monitor.record(500_000, &config);
        });
        assert_eq!((monitor.total, monitor.global()), ((29 * 500_000, 29), Some(500_000)));
    }
}
