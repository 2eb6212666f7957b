//! Times of jobs alone on the idle machine.
//!
//! A job is measured alone under the settings of the machine with which it runs together: kernel, NUMA balancing and
//! interleaving of its column. Otherwise a setting that changes the time of a program alone would count as contention.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{JobId, Nanos};
use engine::Engine;
use host_sim::faults::Faults;
use host_sim::script::Script;
use host_sim::variation::Variation;
use host_sim::{SimError, SimOptions};
use program::Job;

use super::{PreparedWorkload, SimBench};
use crate::compare::{Completion, MachineVariant, MetricsRecorder};

impl SimBench {
    /// Runs each job alone with the settings of these variants.
    ///
    /// # Errors
    /// The kernel does not exist, or does not support a setting.
    pub fn with_solo_runs(
        mut self,
        variants: impl IntoIterator<Item = MachineVariant>,
    ) -> Result<Self, SimError> {
        let variants: BTreeSet<_> = variants.into_iter().map(|own| self.complete(own)).collect();
        let mut draws = std::mem::take(&mut self.draws);
        for ready in draws.iter_mut().flatten() {
            for &variant in &variants {
                let times = self.solo_times(ready, variant)?;
                ready.alone.insert(variant, times);
            }
        }
        Ok(SimBench { draws, ..self })
    }

    /// Runs each job alone without random variation and faults, placed by the kernel. Equal jobs run once. On a machine
    /// with several core kinds the time of a job with sections depends on the kind of each of its threads, so that it has
    /// no time alone unless its CPUs are restricted.
    fn solo_times(
        &self,
        ready: &PreparedWorkload,
        variant: MachineVariant,
    ) -> Result<Vec<Option<Nanos>>, SimError> {
        let mut known: BTreeMap<(usize, String), Option<Nanos>> = BTreeMap::new();
        let mut times = vec![None; ready.jobs.len()];
        for (idx, (job, script)) in ready.jobs.iter().zip(&ready.scripts).enumerate() {
            let is_ambiguous = job.sections.is_some()
                && job.cpus.is_none()
                && 1 < self.setting.machine.core_kinds().len();
            if !job.ending.is_program_exit() || is_ambiguous {
                continue;
            }
            let rules = format!("{:?} {:?} {:?}", job.cpus, job.nodes, job.memory);
            let key = (Arc::as_ptr(script) as usize, rules);
            times[idx] = match known.get(&key) {
                Some(time) => *time,
                None => {
                    let time = self.solo_time(job, script, variant)?;
                    *known.entry(key).or_insert(time)
                }
            };
        }
        Ok(times)
    }

    fn solo_time(
        &self,
        job: &Job,
        script: &Arc<Script>,
        variant: MachineVariant,
    ) -> Result<Option<Nanos>, SimError> {
        let only = Job { id: JobId(0), start: Nanos::ZERO, ..job.clone() };
        let options = SimOptions {
            interval: None,
            variation: Variation::OFF,
            faults: Faults::default(),
            time_limit: None,
            ..self.options_of(variant)
        };
        let jobs = [only];
        let mut host = self.host(&jobs, std::slice::from_ref(script), options)?;
        // The empty plan: the kernel alone places the job.
        let Ok(policy) = policy::build("linux", 0) else { return Ok(None) };
        let mut engine = Engine::new(self.setting.machine.clone(), jobs.to_vec(), policy);
        let mut recorder = MetricsRecorder::new(&jobs);
        let ended = engine::run(&mut host, &mut engine, &mut [&mut recorder]);
        let metrics = recorder.into_metrics();
        let well = ended.is_ok() && metrics.status == Completion::Finished;
        Ok(metrics.time_of(0, &jobs[0]).filter(|time| well && *time != Nanos::ZERO))
    }
}
