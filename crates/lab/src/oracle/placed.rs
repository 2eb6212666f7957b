//! A placement for a whole run: every job goes to its place when it starts, and stays there.

use base::{CpuId, CpuSet, Nanos};
use sched::{Action, JobState, Plan, Policy, Reason, ReasonCode, Snapshot};

use super::NAME;

/// Puts each job where it was told.
#[derive(Debug)]
pub(super) struct Placed {
    /// The CPUs of each job, by number; `None`: the kernel decides.
    pub cpus: Vec<Option<CpuSet>>,
    /// Told with every placement.
    pub why: Option<Reason>,
}

impl Policy for Placed {
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        plan.quiescent = true;
        for job in seen.jobs.iter().filter(|job| job.state == JobState::Due && job.movable) {
            let Some(Some(wish)) = self.cpus.get(job.job.id.index()) else { continue };
            let cpus: CpuSet =
                job.allowed.iter().filter(|cpu: &CpuId| wish.contains(*cpu)).collect();
            if let (false, Some(why)) = (cpus.is_empty(), &self.why) {
                plan.request(job.job.id, Action::Place(cpus), why.clone());
            }
        }
    }

    fn name(&self) -> &str {
        NAME
    }

    fn reasons(&self) -> Vec<ReasonCode> {
        super::REASONS.to_vec()
    }

    fn interval(&self) -> Option<Nanos> {
        None
    }
}

/// A policy that the oracle chose, under the oracle's name.
pub(super) struct Chosen {
    pub inner: Box<dyn Policy>,
    /// Said once.
    pub why: Option<Reason>,
}

impl Policy for Chosen {
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        self.inner.decide(seen, plan);
        self.why.take().into_iter().for_each(|why| plan.note(why));
    }

    fn name(&self) -> &str {
        NAME
    }

    fn reasons(&self) -> Vec<ReasonCode> {
        [self.inner.reasons(), super::REASONS.to_vec()].concat()
    }

    fn interval(&self) -> Option<Nanos> {
        self.inner.interval()
    }

    fn wake(&self) -> sched::Wake {
        self.inner.wake()
    }

    fn domains(&self) -> topology::DomainChoice {
        self.inner.domains()
    }

    fn load_source(&self) -> sched::LoadSource {
        self.inner.load_source()
    }
}
