//! The ceiling of a gain: no placement of tasks and memory gains more.
//!
//! ```text
//!   baseline  ├───────────────────────────┤
//!   bound     ├──────────────────┤          lower bound of the oracle
//!                                ├ ceiling ┤
//! ```
//!
//! A claim with a published gain above the ceiling cannot be judged on this input. The best run that the oracle finds is
//! not used as a bound, unless the oracle simulates every placement: a better one may exist.

use base::Nanos;

use super::testbed::DeclaredClassBasis;
use super::{ReproduceError, Testbed};
use crate::compare::{RunMetrics, SimBench};
use crate::stats::mean;

/// Lower bounds of the times of a workload, for any placement of tasks and memory.
#[derive(Clone, Debug)]
pub(super) struct LeastTimes {
    /// The makespan in seconds.
    pub makespan_s: f64,
    /// The time of each job in seconds.
    jobs_s: Vec<f64>,
}

impl LeastTimes {
    /// Returns the fraction of a run's makespan that exceeds the bound.
    pub fn time_saved(&self, run: &RunMetrics) -> f64 {
        1.0 - self.makespan_s / run.last_end.as_secs_f64()
    }

    /// Returns the mean over the jobs of: time in a run / shortest time - 1; `None` if a job did not exit.
    pub fn speedup(&self, run: &RunMetrics) -> Option<f64> {
        let each = self.jobs_s.iter().enumerate();
        let each = each.map(|(job, shortest)| Some(run.job_s(job)? / shortest - 1.0));
        Some(mean(&each.collect::<Option<Vec<f64>>>()?))
    }
}

impl Testbed {
    /// Returns lower bounds of the times of a workload, for any placement of tasks and memory: [`SimBench::bound`].
    pub(super) fn least_times(&self, workload: &str) -> Result<LeastTimes, ReproduceError> {
        let jobs = self.jobs(workload, DeclaredClassBasis::Rate)?;
        let bench = SimBench::without_solo_runs(self.setting(), vec![jobs])?;
        let jobs_s = bench.shortest(0).into_iter().map(Nanos::as_secs_f64).collect();
        Ok(LeastTimes { makespan_s: bench.bound(0).as_secs_f64(), jobs_s })
    }
}
