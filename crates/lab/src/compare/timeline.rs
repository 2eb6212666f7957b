//! The report of a single simulated run.
//!
//! A run depends only on its policy, workload and seed, so its timeline is not stored. The run is repeated with a
//! report builder as a sink.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base::{Nanos, StopFlag};
use journal::{Header, PolicyUsed, RunEnd, RunStatus};
use report::{Report, ReportBuilder};
use sched::StopCause;

use crate::oracle;

use super::simulate::SimRunError;
use super::{Column, ComparePlan, Completion, RunKey, SimBench};

impl SimBench {
    /// Returns the report of one run; `None` if `stop` was raised.
    ///
    /// # Errors
    /// As [`SimBench::run`].
    pub fn report(
        &self,
        plan: &ComparePlan,
        key: &RunKey,
        stop: &StopFlag,
    ) -> Result<Option<Report>, SimRunError> {
        let run = plan.parts(key);
        let header = self.header(run, &key.workload)?;
        let mut builder = ReportBuilder::new(&header);
        let (column, workload, seed) = run;
        let alone = self.alone(column.variant, workload, seed);
        let run = self.run(run, stop, Some(&mut builder))?;
        let Some(metrics) = run else { return Ok(None) };
        let end = RunEnd {
            status: match metrics.status {
                Completion::Finished => RunStatus::Finished,
                Completion::Stopped => RunStatus::Interrupted,
                Completion::Failed => RunStatus::Failed,
            },
            stopped_by: (metrics.status == Completion::Stopped).then_some(StopCause::TimeLimit),
            // The error of a failed job is not an error of evenkeel.
            error: metrics.error.clone().filter(|_| !builder.has_failed_jobs()),
            wall: metrics.last_end,
            own_cpu: None,
            own_max_resident: None,
        };
        let mut report = builder.finish(Some(&end));
        let ready = &self.workloads()[workload];
        for (idx, row) in report.jobs.iter_mut().enumerate() {
            let took = ready.jobs().get(idx).and_then(|job| metrics.time_of(idx, job));
            let alone = alone.get(idx).copied().flatten();
            let seconds = Nanos::as_secs_f64;
            row.slowdown = took.zip(alone).map(|(took, alone)| seconds(took) / seconds(alone));
        }
        Ok(Some(report))
    }

    fn header(
        &self,
        (column, workload, seed): (&Column, usize, u64),
        name: &str,
    ) -> Result<Header, SimRunError> {
        Ok(Header {
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            run_id: format!("sim-{name}-{seed}"),
            // A simulated run does not depend on the clock.
            started_unix_s: 0,
            host: sched::HostKind::Sim,
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
            jobs: self.workloads()[workload].jobs().to_vec(),
            workload: name.to_owned(),
            dir: PathBuf::new(),
            options: BTreeMap::new(),
            replay_of: None,
            command: None,
        })
    }
}
