//! The report of a single simulated run.
//!
//! A run depends only on its policy, workload and seed, so that its timeline is not stored: the run is repeated with a
//! report builder as a sink.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base::{Nanos, StopFlag};
use journal::{Header, PolicyUsed, RunEnd, RunStatus};
use report::{Report, ReportBuilder};

use crate::oracle;

use super::simulate::SimRunError;
use super::{ComparePlan, Completion, RunKey, RunMetrics, SimBench};
use crate::compare::summary::median_seed_of;

/// Numbers of the finished runs with the median makespan of each policy on each workload.
pub fn median_runs(plan: &ComparePlan, done: &BTreeMap<usize, RunMetrics>) -> Vec<usize> {
    let number = |key: RunKey| {
        (key.seed * plan.workloads.len() + key.workload) * plan.columns.len() + key.column
    };
    let cells = (0..plan.workloads.len())
        .flat_map(|workload| (0..plan.columns.len()).map(move |column| (workload, column)));
    let median = |(workload, column)| {
        let seed = median_seed_of(plan, done, column, workload)?;
        Some(number(RunKey { seed, workload, column }))
    };
    let mut numbers: Vec<usize> = cells.filter_map(median).collect();
    numbers.sort_unstable();
    numbers
}

impl SimBench {
    /// The report of one run; `None` if `stop` was raised.
    ///
    /// # Errors
    /// As [`SimBench::run`].
    pub fn report(
        &self,
        plan: &ComparePlan,
        number: usize,
        stop: &StopFlag,
    ) -> Result<Option<Report>, SimRunError> {
        let key = plan.key(number);
        let (column, seed) = (&plan.columns[key.column], plan.seeds[key.seed]);
        let header = self.header(plan, key)?;
        let mut builder = ReportBuilder::new(&header);
        let run = self.run((column, key.workload, seed), stop, Some(&mut builder))?;
        let Some(metrics) = run else { return Ok(None) };
        let end = RunEnd {
            status: match metrics.status {
                Completion::Finished => RunStatus::Finished,
                Completion::Stopped => RunStatus::Interrupted,
                Completion::Failed => RunStatus::Failed,
            },
            error: metrics.error.clone(),
            wall: metrics.makespan,
            own_cpu: None,
            own_max_resident: None,
        };
        let mut report = builder.finish(Some(&end));
        let ready = &self.workloads()[key.workload];
        for (idx, row) in report.jobs.iter_mut().enumerate() {
            let took = ready.jobs().get(idx).and_then(|job| metrics.time_of(idx, job));
            let alone = ready.alone().get(idx).copied().flatten();
            let seconds = Nanos::as_secs_f64;
            row.slowdown = took.zip(alone).map(|(took, alone)| seconds(took) / seconds(alone));
        }
        Ok(Some(report))
    }

    fn header(&self, plan: &ComparePlan, key: RunKey) -> Result<Header, SimRunError> {
        let (column, seed) = (&plan.columns[key.column], plan.seeds[key.seed]);
        let workload = plan.workloads[key.workload].clone();
        Ok(Header {
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            run_id: format!("sim-{workload}-{seed}"),
            // A simulated run does not depend on the clock.
            started_unix_s: 0,
            host: "sim".to_owned(),
            policy: match oracle::is_named(&column.spec) {
                true => PolicyUsed {
                    name: oracle::NAME.to_owned(),
                    spec: column.text.clone(),
                    reasons: Vec::new(),
                },
                false => PolicyUsed::new(&*policy::build(&column.spec, seed)?, &column.text),
            },
            seed,
            machine: self.setting().machine.clone(),
            jobs: self.workloads()[key.workload].jobs().to_vec(),
            workload,
            folder: PathBuf::new(),
            options: BTreeMap::new(),
            replay_of: None,
        })
    }
}
