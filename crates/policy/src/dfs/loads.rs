//! Loads and numbers of jobs of each domain.
//!
//! ```text
//!   ClassLoads      measured: mean load of a job of each class, largest load of one domain
//!   ExpectedLoads   load used = load measured
//!                             - load of a job on CPUs that became unusable since        (placed again)
//!                             + mean load of the class of each job started since        (started, placed again)
//!   JobDistribution jobs per domain and CPU: the `pid_set` of the published scheduler
//! ```
//!
//! Measurements are discarded if the level of the domains or the signal tier changes; another tier has another unit.
//! Expected changes are discarded if the domains change. Jobs are counted in each snapshot, so that the counts always
//! agree with the state of the engine.

use base::{CpuSet, JobId};
use program::Class;
use sched::{JobState, JobView, SignalTier, Snapshot};

use super::classes::Classes;
use crate::placement::{JobsPerCpu, spans_domains};

/// Measured loads. Only jobs that ran for a whole interval are measured.
#[derive(Debug, Default)]
pub(super) struct ClassLoads {
    tier: SignalTier,
    /// The largest load of one domain in an interval.
    pub peak: u64,
    by_class: [MeanLoad; Class::MAX as usize + 1],
}

/// A mean of integers.
#[derive(Clone, Copy, Debug, Default)]
struct MeanLoad {
    sum: u128,
    n: u64,
}

impl ClassLoads {
    /// Adds the last interval.
    pub fn update(&mut self, snapshot: &Snapshot<'_>, classes: &Classes) {
        if self.tier != snapshot.loads.tier {
            *self = ClassLoads { tier: snapshot.loads.tier, ..ClassLoads::default() };
        }
        self.peak = snapshot.loads.loads.iter().copied().fold(self.peak, u64::max);
        let interval_start = snapshot.turn.at.saturating_sub(snapshot.interval);
        for job in snapshot.jobs.iter().filter(|job| job.state == JobState::Running) {
            if job.started.is_some_and(|started| started <= interval_start) {
                let mean = &mut self.by_class[usize::from(classes.class(job).number())];
                mean.sum += u128::from(job.load);
                mean.n += snapshot.n_intervals.max(1); // The load was 0 in the omitted intervals.
            }
        }
    }

    /// Returns the mean load of a job of a class per interval; 0 if no job of the class was measured.
    pub fn mean(&self, class: Class) -> u64 {
        let MeanLoad { sum, n } = self.by_class[usize::from(class.number())];
        let mean = sum.checked_div(u128::from(n)).unwrap_or(0);
        u64::try_from(mean).unwrap_or(u64::MAX)
    }
}

/// Changes of the measured loads since the last poll. Domains are identified by index.
#[derive(Debug, Default)]
pub(super) struct ExpectedLoads {
    in_domain: Vec<LoadChange>,
    starts: Vec<StartedLoad>,
}

/// Amounts to add to and subtract from the load of a domain.
#[derive(Clone, Copy, Debug, Default)]
struct LoadChange {
    added: u64,
    subtracted: u64,
}

/// The load that a started job adds to a domain.
#[derive(Clone, Copy, Debug)]
struct StartedLoad {
    job: JobId,
    idx: usize,
    load: u64,
}

impl ExpectedLoads {
    /// Discards all changes: loads were measured, or the domains changed.
    pub fn reset(&mut self, n_domains: usize) {
        self.in_domain.clear();
        self.in_domain.resize(n_domains, LoadChange::default());
        self.starts.clear();
    }

    /// Adds the load of a job that starts on a domain.
    pub fn add(&mut self, job: JobId, idx: usize, load: u64) {
        if load != 0 {
            self.starts.push(StartedLoad { job, idx, load });
            self.in_domain[idx].added = self.in_domain[idx].added.saturating_add(load);
        }
    }

    /// Subtracts the load of a job that left a domain.
    pub fn subtract(&mut self, idx: usize, load: u64) {
        self.in_domain[idx].subtracted = self.in_domain[idx].subtracted.saturating_add(load);
    }

    /// Removes jobs that failed to start, ended, or left the domain on which they started.
    pub fn remove_missing(&mut self, snapshot: &Snapshot<'_>) {
        let in_domain = &mut self.in_domain;
        self.starts.retain(|&StartedLoad { job, idx, load }| {
            let domain_cpus = &snapshot.domains.get(idx).cpus;
            let is_there = snapshot.job(job).is_some_and(|job| {
                let is_placed = job.placed.is_some_and(|cpus| cpus.intersects(domain_cpus));
                job.state == JobState::Running && is_placed
            });
            if !is_there {
                in_domain[idx].added = in_domain[idx].added.saturating_sub(load);
            }
            is_there
        });
    }

    /// Returns the measured load of a domain with the expected changes.
    pub fn load(&self, idx: usize, measured: u64) -> u64 {
        let change = self.in_domain.get(idx).copied().unwrap_or_default();
        measured.saturating_sub(change.subtracted).saturating_add(change.added)
    }

    /// Returns the sum of all added loads.
    pub fn total(&self) -> u64 {
        self.in_domain.iter().fold(0, |sum, change| sum.saturating_add(change.added))
    }
}

/// Jobs per CPU and per domain.
#[derive(Debug, Default)]
pub(super) struct JobDistribution {
    pub per_cpu: JobsPerCpu,
    pub in_domain: Vec<DomainJobs>,
}

/// The managed jobs in one domain. An unmanaged job is counted only on its CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DomainJobs {
    pub n_jobs: u64,
    pub class_sum: u64,
    /// Number of jobs that may migrate.
    pub n_movable: u64,
}

impl JobDistribution {
    pub fn count(&mut self, snapshot: &Snapshot<'_>, classes: &Classes) {
        self.per_cpu.count(snapshot.jobs);
        self.in_domain.clear();
        self.in_domain.resize(snapshot.domains.len(), DomainJobs::default());
        let is_managed = |job: &&JobView<'_>| job.state == JobState::Running && job.movable;
        for job in snapshot.jobs.iter().filter(is_managed) {
            if let Some(jobs) = job.domain.and_then(|idx| self.in_domain.get_mut(idx)) {
                jobs.n_jobs += 1;
                jobs.class_sum += u64::from(classes.class(job).number());
                jobs.n_movable += u64::from(!spans_domains(snapshot, job));
            }
        }
    }

    /// Adds a job on these CPUs of a domain.
    pub fn add(&mut self, class: Class, idx: usize, cpus: &CpuSet) {
        self.per_cpu.add(cpus);
        let jobs = &mut self.in_domain[idx];
        jobs.n_jobs += 1;
        jobs.class_sum += u64::from(class.number());
        jobs.n_movable += 1;
    }

    /// Removes a job.
    pub fn remove(&mut self, job: &JobView<'_>, class: Class) {
        if let Some(cpus) = job.placed {
            self.per_cpu.remove(cpus);
        }
        let Some(jobs) = job.domain.and_then(|idx| self.in_domain.get_mut(idx)) else { return };
        jobs.n_jobs = jobs.n_jobs.saturating_sub(1);
        jobs.class_sum = jobs.class_sum.saturating_sub(u64::from(class.number()));
        jobs.n_movable = jobs.n_movable.saturating_sub(1);
    }
}
