//! The report of a single run, made by running it again.
//!
//! A run hangs on nothing but its policy, workload and seed, so its timeline need not be kept: the run is
//! done once more, with a report that listens.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base::{Nanos, StopFlag};
use journal::{Header, PolicyUsed, RunEnd, RunStatus};
use report::{Report, ReportBuilder};

use crate::oracle;

use super::simulate::SimRunError;
use super::{Ended, Figures, Key, Plan, SimBench};
use crate::compare::summary::median_seed_of;

/// The run with the median seed of each policy on each workload, of those that are done; by number.
pub fn median_runs(plan: &Plan, done: &BTreeMap<usize, Figures>) -> Vec<usize> {
    let number = |key: Key| {
        (key.seed * plan.workloads.len() + key.workload) * plan.columns.len() + key.column
    };
    let cells = (0..plan.workloads.len())
        .flat_map(|workload| (0..plan.columns.len()).map(move |column| (workload, column)));
    let median = |(workload, column)| {
        let seed = median_seed_of(plan, done, column, workload)?;
        Some(number(Key { seed, workload, column }))
    };
    let mut numbers: Vec<usize> = cells.filter_map(median).collect();
    numbers.sort_unstable();
    numbers
}

impl SimBench {
    /// The report of one run; `None` when `stop` was set meanwhile.
    ///
    /// # Errors
    /// As of the run itself.
    pub fn report(
        &self,
        plan: &Plan,
        number: usize,
        stop: &StopFlag,
    ) -> Result<Option<Report>, SimRunError> {
        let key = plan.key(number);
        let (column, seed) = (&plan.columns[key.column], plan.seeds[key.seed]);
        let header = self.header(plan, key)?;
        let mut builder = ReportBuilder::new(&header);
        let run = self.run((column, key.workload, seed), stop, Some(&mut builder))?;
        let Some(figures) = run else { return Ok(None) };
        let end = RunEnd {
            status: match figures.ended {
                Ended::Finished => RunStatus::Finished,
                Ended::Stopped => RunStatus::Interrupted,
                Ended::Failed => RunStatus::Failed,
            },
            error: figures.error.clone(),
            wall: figures.whole,
            own_cpu: None,
            own_max_resident: None,
        };
        let mut report = builder.finish(Some(&end));
        let ready = &self.workloads()[key.workload];
        for (idx, row) in report.jobs.iter_mut().enumerate() {
            let took = ready.jobs().get(idx).and_then(|job| figures.time_of(idx, job));
            let alone = ready.alone().get(idx).copied().flatten();
            let seconds = Nanos::as_secs_f64;
            row.slowdown = took.zip(alone).map(|(took, alone)| seconds(took) / seconds(alone));
        }
        Ok(Some(report))
    }

    fn header(&self, plan: &Plan, key: Key) -> Result<Header, SimRunError> {
        let (column, seed) = (&plan.columns[key.column], plan.seeds[key.seed]);
        let workload = plan.workloads[key.workload].clone();
        Ok(Header {
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            run_id: format!("sim-{workload}-{seed}"),
            // Nothing of a simulated run hangs on the clock.
            started_unix_s: 0,
            host: "sim".to_owned(),
            policy: PolicyUsed {
                name: match oracle::is_named(&column.spec) {
                    true => oracle::NAME.to_owned(),
                    false => policy::build(&column.spec, seed)?.name().to_owned(),
                },
                spec: column.text.clone(),
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
