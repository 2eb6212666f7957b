//! The processes that are jobs of a watch.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use base::{JobId, Nanos};
use linux::tasks::KeptFile;
use program::profile::ProfileFile;
use program::{Class, Command, FilePosition, Job};

use super::selection::name_matches;
use super::status::ManagedProcess;
use crate::session::{AffinityState, JobAffinities};

/// Number of jobs after which ids are reused.
const JOB_IDS_BEFORE_REUSE: u32 = 1024;

/// A process that is a job.
pub(super) struct AttachedJob {
    pub affinity: AffinityState,
    pub start_time_ticks: u64,
    /// Process group at the attachment.
    pub group: u32,
    /// Name of the program at the attachment.
    pub comm: String,
    pub since: Nanos,
    /// Time of the last sample in which the process was busy.
    pub busy_at: Nanos,
    /// Time of the first placement, in clock ticks since boot. Children that started earlier have no assigned mask.
    pub placed_ticks: Option<u64>,
    /// Descriptor that wakes the loop when the process exits. `None` if no descriptor was free.
    pub pidfd: Option<KeptFile>,
}

/// All jobs of a watch.
#[derive(Default)]
pub(super) struct AttachedJobs {
    pub jobs: BTreeMap<JobId, AttachedJob>,
    next: u32,
    /// Ids of detached jobs, which can be reused.
    free: VecDeque<JobId>,
    /// Detached jobs that are not yet reported to the engine.
    detached: Vec<JobId>,
}

impl AttachedJobs {
    pub(super) fn new_id(&mut self) -> JobId {
        if self.next < JOB_IDS_BEFORE_REUSE || self.free.is_empty() {
            self.next += 1;
            return JobId(self.next - 1);
        }
        self.free.pop_front().unwrap_or(JobId(self.next))
    }

    /// Makes an unused id available for reuse.
    pub(super) fn return_id(&mut self, job: JobId) {
        self.free.push_back(job);
    }

    pub(super) fn get(&self, job: JobId) -> Option<&AttachedJob> {
        self.jobs.get(&job)
    }

    pub(super) fn remove(&mut self, job: JobId) -> Option<AttachedJob> {
        let removed = self.jobs.remove(&job)?;
        self.detached.push(job);
        Some(removed)
    }

    /// Makes the ids of detached jobs available for reuse. Call this function after the jobs were reported to the
    /// engine.
    pub(super) fn reuse_ids(&mut self) {
        self.free.extend(self.detached.drain(..));
    }

    pub(super) fn ids(&self) -> Vec<JobId> {
        self.jobs.keys().copied().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }
}

impl JobAffinities for AttachedJobs {
    fn affinity(&self, job: JobId) -> Option<&AffinityState> {
        self.jobs.get(&job).map(|attached| &attached.affinity)
    }

    fn affinity_mut(&mut self, job: JobId) -> Option<&mut AffinityState> {
        self.jobs.get_mut(&job).map(|attached| &mut attached.affinity)
    }
}

impl AttachedJob {
    pub(super) fn status(&self) -> ManagedProcess {
        let AffinityState { job, name, pid, base, placed, is_unmanaged, .. } = &self.affinity;
        ManagedProcess {
            job: *job,
            name: name.clone(),
            pid: *pid,
            start_time_ticks: self.start_time_ticks,
            since: self.since,
            before: (**base).clone(),
            placed: placed.as_deref().cloned(),
            is_unmanaged: *is_unmanaged,
        }
    }
}

/// Returns the class of a name: the first matching pattern applies.
pub(super) fn class_of(classes: &[(String, Class)], comm: &str) -> Option<Class> {
    let class = classes.iter().find(|(pattern, _)| name_matches(pattern, comm));
    class.map(|(_, class)| *class)
}

/// Uncertainty of a CPU usage in permille of a CPU: CPU time has a resolution of a clock tick, 10 ms, at each end of an
/// interval of 100 ms.
const PERMILLE_UNCERTAIN: u64 = 200;

/// Returns the number of CPUs that a process needs: at most one for each of its threads. `permille` is its CPU usage in
/// permille of a CPU.
fn n_cpus_needed(permille: u64, n_threads: u32) -> u32 {
    let n_busy = permille.saturating_sub(PERMILLE_UNCERTAIN).div_ceil(1000);
    u32::try_from(n_busy).unwrap_or(u32::MAX).min(n_threads).max(1)
}

/// Builds the job of a process for the engine. `permille` is the CPU usage of the process in permille of one CPU, and
/// `signed` the profile in the signature of its program. A declared class takes precedence over the class of the profile.
pub(super) fn describe(
    state: &AffinityState,
    comm: &str,
    (permille, n_threads): (u64, u32),
    classes: &[(String, Class)],
    signed: Option<ProfileFile>,
) -> Job {
    let (found, found_in) = signed.map(|file| (Arc::new(file.profile), file.path)).unzip();
    let signed_class = found.as_ref().and_then(|profile| profile.class);
    Job {
        class: class_of(classes, comm).or(signed_class.map(|(class, _)| class)),
        found,
        found_in,
        threads: n_cpus_needed(permille, n_threads),
        origin: FilePosition { file: format!("/proc/{}", state.pid).into(), line: 0 },
        ..Job::new(
            state.job,
            state.name.clone(),
            Command::Program { program: comm.into(), args: Vec::new() },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_needs_no_more_cpus_than_it_has_threads_and_the_error_of_a_tick_adds_none() {
        let needed = [(0, 1), (1100, 1), (1100, 4), (1300, 4), (3950, 4), (4100, 8), (9000, 4)]
            .map(|(permille, n_threads)| n_cpus_needed(permille, n_threads));
        assert_eq!(needed, [1, 1, 1, 2, 4, 4, 4]);
    }
}
