//! The second line of a part that continues another part: the state of the run at the end of the previous part.

use base::Nanos;
use sched::{JobExit, ReasonCode, RejectCause};
use serde::{Deserialize, Serialize};

use super::fields::{Encoded, Name, TaskField, is_default, line_types};
use super::memory::{ActivePageMigrationField, CompletedPageMigrationLine};
use super::plan::ReasonField;
use super::sample::{JobExitField, SampleLine, UnmanagedField};
use super::turn::{LoadBasisField, SignalTiersField};
use crate::{
    Checkpoint, Header, JobHistory, JobPhase, JobProgress, LineError, PageMigrationTotals,
};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CheckpointLine {
    /// Number of the last turn that is included.
    pub checkpoint: u64,
    pub at_ns: u64,
    pub jobs: Vec<JobProgressField>,
    /// CPUs of the threads that are bound one by one.
    #[serde(skip_serializing_if = "is_default", default)]
    pub threads: Vec<(TaskField, String)>,
    #[serde(skip_serializing_if = "is_default", default)]
    pub notes: Vec<ReasonField>,
    #[serde(skip_serializing_if = "is_default", default)]
    pub load_basis: Option<LoadBasisField>,
    #[serde(skip_serializing_if = "is_default", default)]
    pub signal_tiers: Option<SignalTiersField>,
    pub sample: SampleLine,
}

line_types! {
    JobProgressField for JobProgress {
        phase: JobPhase = phase,
        started_ns?: Option<u64> = started,
        flatten ended: Option<JobEndField> = ended,
        n_starts?: u32 = n_starts,
        n_moves?: u32 = n_moves,
        placed?: Option<String> = placed,
        reason?: Option<ReasonField> = reason,
        unmanaged?: Option<UnmanagedField> = unmanaged,
        start_failure?: Option<StartFailureField> = start_failure,
        active_page_migration?: Option<ActivePageMigrationField> = active_page_migration,
        last_page_migration?: Option<(u64, CompletedPageMigrationLine)> = last_page_migration,
        flatten page_migrations: PageMigrationTotalsField = page_migrations,
    }

    PageMigrationTotalsField for PageMigrationTotals {
        n_page_migrations?: u32 = n,
        requested_bytes?: u64 = requested,
        moved_bytes?: u64 = moved,
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct JobEndField {
    pub ended_ns: u64,
    pub exit: JobExitField,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StartFailureField {
    pub cause: Name,
    pub detail: String,
}

impl From<&Checkpoint> for CheckpointLine {
    fn from(checkpoint: &Checkpoint) -> Self {
        CheckpointLine {
            checkpoint: checkpoint.turn,
            at_ns: checkpoint.at.0,
            jobs: checkpoint.jobs.jobs().iter().map(Encoded::encode).collect(),
            threads: checkpoint.jobs.bound_threads().encode(),
            notes: checkpoint.notes.encode(),
            load_basis: checkpoint.load_basis.encode(),
            signal_tiers: checkpoint.signals.encode(),
            sample: checkpoint.sample().encode(),
        }
    }
}

impl CheckpointLine {
    pub(crate) fn checkpoint(self, header: &Header) -> Result<Checkpoint, LineError> {
        let codes = header.policy.reasons.as_slice();
        let mut checkpoint = Checkpoint::default();
        checkpoint.turn = self.checkpoint;
        let at = Encoded::decode(self.at_ns, codes);
        checkpoint.at = at.map_err(|error: LineError| error.of_field("at_ns"))?;
        checkpoint.jobs = JobHistory::resume(Encoded::decode(self.jobs, codes)?, header);
        checkpoint.notes = Encoded::decode(self.notes, codes)?;
        checkpoint.load_basis = Encoded::decode(self.load_basis, codes)?;
        checkpoint.signals = Encoded::decode(self.signal_tiers, codes)?;
        let sample = Encoded::decode(self.sample, codes)?;
        let threads = Encoded::decode(self.threads, codes);
        let threads = threads.map_err(|error: LineError| error.of_field("threads"))?;
        checkpoint.jobs.resume_threads(&sample, threads);
        checkpoint.observe_sample(&sample);
        Ok(checkpoint)
    }
}

impl Encoded<JobEndField> for (Nanos, JobExit) {
    fn encode(&self) -> JobEndField {
        JobEndField { ended_ns: self.0.0, exit: self.1.encode() }
    }

    fn decode(field: JobEndField, codes: &[ReasonCode]) -> Result<Self, LineError> {
        let ended = Encoded::decode(field.ended_ns, codes);
        let ended = ended.map_err(|error: LineError| error.of_field("ended_ns"))?;
        Ok((ended, Encoded::decode(field.exit, codes)?))
    }
}

impl Encoded<StartFailureField> for (RejectCause, String) {
    fn encode(&self) -> StartFailureField {
        StartFailureField { cause: self.0.encode(), detail: self.1.clone() }
    }

    fn decode(field: StartFailureField, codes: &[ReasonCode]) -> Result<Self, LineError> {
        Ok((Encoded::decode(field.cause, codes)?, field.detail))
    }
}
