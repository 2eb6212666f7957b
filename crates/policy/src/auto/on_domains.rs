//! A policy that places jobs on CPUs, applied to domains.
//!
//! Most policies bind a job to single CPUs, and place every running job that has no affinity. Behind this adapter:
//!
//! ```text
//!   a running job without affinity   counts as placed on the domain where its tasks run
//!   a placement on CPUs              becomes a placement on the domains of these CPUs
//! ```
//!
//! So a job stays where it runs unless the policy migrates it, and the kernel selects its CPUs within the domain. A job
//! that stays is bound too: the kernel would move it away from its memory when it balances the other jobs.

use std::sync::Arc;

use base::CpuSet;
use sched::{Action, JobState, JobView, Plan, Policy, Request, Snapshot, Target};

use crate::placement::cpus_label;

/// The adapter.
pub(super) struct OnDomains {
    policy: Box<dyn Policy>,
}

impl OnDomains {
    pub(super) fn new(policy: Box<dyn Policy>) -> Self {
        OnDomains { policy }
    }
}

impl Policy for OnDomains {
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        let homes: Vec<Option<CpuSet>> =
            snapshot.jobs.iter().map(|job| home(snapshot, job)).collect();
        let jobs = snapshot.jobs.iter().zip(&homes);
        let jobs: Vec<JobView<'_>> =
            jobs.map(|(job, home)| JobView { placed: home.as_ref(), ..*job }).collect();
        let seen = Snapshot { jobs: &jobs, ..*snapshot };
        self.policy.decide(&seen, plan);
        plan.requests.iter_mut().for_each(|request| widen(snapshot, request));
        plan.requests.retain(|request| changes_placement(snapshot, request));
    }

    sched::forward_policy!(policy: name, reasons, interval, domains, load_source);
}

/// Returns the affinity of a job, or the domain where its tasks run.
fn home(snapshot: &Snapshot<'_>, job: &JobView<'_>) -> Option<CpuSet> {
    if job.placed.is_some() {
        return job.placed.cloned();
    }
    let domain = snapshot.domains.get(job.domain.filter(|_| job.state == JobState::Running)?);
    Some(domain.cpus.and(job.allowed)).filter(|cpus| !cpus.is_empty())
}

/// Replaces the CPUs of a placement, also in its reason, by all CPUs of their domains that the job may use.
fn widen(snapshot: &Snapshot<'_>, request: &mut Request) {
    let Target::Job(id) = request.target else { return };
    let (Some(job), Action::Place(cpus)) = (snapshot.job(id), &mut request.action) else { return };
    let domains = snapshot.domains.iter().map(|(_, domain)| &domain.cpus);
    let touched = domains.filter(|domain| domain.intersects(cpus));
    let all = touched.fold(cpus.clone(), |all, domain| all.or(domain));
    *cpus = all.and(job.allowed);
    Arc::make_mut(&mut request.reason).replace("cpus", cpus_label(cpus));
}

/// Returns whether a request has an effect: its job has another placement, or an affinity that can be released.
fn changes_placement(snapshot: &Snapshot<'_>, request: &Request) -> bool {
    let Target::Job(id) = request.target else { return true };
    let placed = snapshot.job(id).and_then(|job| job.placed);
    match &request.action {
        Action::Place(cpus) => placed != Some(cpus),
        Action::Release => placed.is_some(),
        Action::MemoryPolicy(_) | Action::MovePages { .. } => true,
    }
}
