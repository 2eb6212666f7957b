//! The parts of a journal that are written once: the header and the end of the run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base::{Bytes, Nanos};
use program::Job;
use sched::{HostKind, JobEvent, Policy, ReasonCode, Sample, StopCause};
use topology::Machine;

/// Properties of a run before its first turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Version of the evenkeel that wrote the journal.
    pub tool: String,
    /// Id of the run, unique on a machine.
    pub run_id: String,
    /// Wall clock at the start, in seconds since 1970 (UTC). A journal contains no other wall-clock time.
    pub started_unix_s: u64,
    /// Kind of the host.
    pub host: HostKind,
    /// Policy of the run.
    pub policy: PolicyUsed,
    /// Seed of all random choices.
    pub seed: u64,
    /// The machine at the start.
    pub machine: Machine,
    /// Name of the workload.
    pub workload: String,
    /// Base directory of the workload's relative paths.
    pub dir: PathBuf,
    /// Jobs by number. The journal does not contain the environment of jobs, which may contain secrets.
    pub jobs: Vec<Job>,
    /// Options of the run, by flag name.
    pub options: BTreeMap<String, String>,
    /// Id of the replayed run. A replay is open-loop: no plan in its journal was carried out.
    pub replay_of: Option<String>,
    /// The command that repeats the run, quoted for a shell, without options of the output.
    pub command: Option<String>,
}

impl Header {
    /// Adds the jobs that a sample attaches, so that the header of a new part contains these jobs.
    pub fn add_attached_jobs(&mut self, sample: &Sample) {
        for event in &sample.jobs {
            let JobEvent::Attached(job) = event else { continue };
            let n_jobs = self.jobs.len();
            match self.jobs.get_mut(job.id.index()) {
                Some(slot) => slot.clone_from(job),
                None if job.id.index() == n_jobs => self.jobs.push((**job).clone()),
                None => {} // Other numbers do not occur: hosts assign consecutive numbers.
            }
        }
    }
}

/// The policy of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyUsed {
    /// Name of the policy.
    pub name: String,
    /// Name and parameters as on the command line: `dfs[cooldown=4]`.
    pub spec: String,
    /// Reasons of the policy with their sentence templates. Every reason of a turn must be in this list.
    pub reasons: Vec<ReasonCode>,
}

impl PolicyUsed {
    /// Describes a policy that was built from the text `spec`.
    pub fn new(policy: &dyn Policy, spec: &str) -> Self {
        let (name, spec) = (policy.name().to_owned(), spec.to_owned());
        PolicyUsed { name, spec, reasons: policy.reasons() }
    }
}

/// End of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// Status of the run at its end.
    pub status: RunStatus,
    /// Why the run stopped before all jobs had ended.
    pub stopped_by: Option<StopCause>,
    /// The error of evenkeel itself.
    pub error: Option<String>,
    /// Duration of the run.
    pub wall: Nanos,
    /// CPU time of evenkeel itself, user and system. The field is absent in a replay.
    pub own_cpu: Option<Nanos>,
    /// Maximum resident set of evenkeel itself. The field is absent in a replay.
    pub own_max_resident: Option<Bytes>,
}

/// Status of a run at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunStatus {
    /// All jobs ended, and no job failed.
    Finished,
    /// A signal, the time limit or a failed job stopped the run.
    Interrupted,
    /// A job failed, or evenkeel itself failed, with an error.
    Failed,
}

impl RunStatus {
    /// All values.
    pub const ALL: [RunStatus; 3] =
        [RunStatus::Finished, RunStatus::Interrupted, RunStatus::Failed];

    /// Returns the name in journals and reports.
    pub fn name(self) -> &'static str {
        match self {
            RunStatus::Finished => "finished",
            RunStatus::Interrupted => "interrupted",
            RunStatus::Failed => "failed",
        }
    }
}
