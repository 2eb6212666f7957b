//! What a journal says once: before the first turn, and after the last.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base::{Bytes, Nanos};
use program::Job;
use sched::{JobEvent, Sample};
use topology::Machine;

/// Everything about a run that is known before its first turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The version of evenkeel that wrote it.
    pub tool: String,
    /// What the run is called; no two runs on a machine share it.
    pub run_id: String,
    /// The wall clock at the start, in seconds since 1970 (UTC). The only wall time in a journal.
    pub started_unix_s: u64,
    /// What kind of host: `live`.
    pub host: String,
    /// Who decided.
    pub policy: PolicyUsed,
    /// The seed of everything random.
    pub seed: u64,
    /// The machine as it was at the start.
    pub machine: Machine,
    /// The name of the workload.
    pub workload: String,
    /// The folder where the workload's relative paths begin.
    pub folder: PathBuf,
    /// The jobs, by number. Their environment is left out of the file: it may hold secrets.
    pub jobs: Vec<Job>,
    /// Options of the run that a reader may want to know, by flag name.
    pub options: BTreeMap<String, String>,
    /// The recorded run whose samples these are, if this is a replay: open loop, the plans in here
    /// were never carried out.
    pub replay_of: Option<String>,
}

impl Header {
    /// Takes in jobs that appeared: whoever begins to read after them must know them too.
    pub fn take_in(&mut self, sample: &Sample) {
        for event in &sample.jobs {
            let JobEvent::Attached(job) = event else { continue };
            let n_known = self.jobs.len();
            match self.jobs.get_mut(job.id.index()) {
                Some(known) => known.clone_from(job),
                None if job.id.index() == n_known => self.jobs.push((**job).clone()),
                None => {} // A number that no host gives.
            }
        }
    }
}

/// The policy of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyUsed {
    /// Its name.
    pub name: String,
    /// As it was asked for: `dfs[cooldown=4]`.
    pub spec: String,
}

/// How and when a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// How.
    pub how: HowEnded,
    /// What went wrong, if it failed.
    pub error: Option<String>,
    /// From the start of the run.
    pub wall: Nanos,
    /// CPU time that evenkeel itself used, user and system. Absent in a replay.
    pub own_cpu: Option<Nanos>,
    /// The largest resident memory of evenkeel itself. Absent in a replay.
    pub own_max_resident: Option<Bytes>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HowEnded {
    /// All jobs are over.
    Finished,
    /// A signal, the time limit or a failed job stopped it.
    Interrupted,
    /// evenkeel itself could not go on.
    Failed,
}

impl HowEnded {
    /// All.
    pub const ALL: [HowEnded; 3] = [HowEnded::Finished, HowEnded::Interrupted, HowEnded::Failed];

    /// The name in journals and reports.
    pub fn name(self) -> &'static str {
        match self {
            HowEnded::Finished => "finished",
            HowEnded::Interrupted => "interrupted",
            HowEnded::Failed => "failed",
        }
    }
}
