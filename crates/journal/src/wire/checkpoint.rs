//! The second line of a part that continues another: the state of the run at the end of the part before.

use base::{Bytes, Nanos};
use sched::{ReasonCode, RejectCause};
use serde::{Deserialize, Serialize};

use super::fields::{Encoded, set};
use super::is_default;
use super::memory::{ActivePageMoveField, CompletedPageMoveLine};
use super::plan::{ReasonField, reject_cause};
use super::sample::{JobExitField, SampleLine, UnmanagedField};
use super::turn::{LoadBasisField, SignalTiersField};
use crate::{Checkpoint, Header, JobHistory, JobPhase, JobProgress, LineError, PageMoveTotals};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CheckpointLine {
    /// Number of the last turn that is included.
    pub checkpoint: u64,
    pub at_ns: u64,
    pub jobs: Vec<JobProgressField>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub notes: Vec<ReasonField>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub load_basis: Option<LoadBasisField>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub signal_tiers: Option<SignalTiersField>,
    pub sample: SampleLine,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct JobProgressField {
    pub phase: JobPhase,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ended_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub exit: Option<JobExitField>,
    #[serde(skip_serializing_if = "is_default", default)]
    pub n_starts: u32,
    #[serde(skip_serializing_if = "is_default", default)]
    pub n_moves: u32,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub placed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<ReasonField>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unmanaged: Option<UnmanagedField>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub start_failure: Option<StartFailureField>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub active_page_move: Option<ActivePageMoveField>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_page_move: Option<(u64, CompletedPageMoveLine)>,
    #[serde(skip_serializing_if = "is_default", default)]
    pub n_page_moves: u32,
    #[serde(skip_serializing_if = "is_default", default)]
    pub requested_bytes: u64,
    #[serde(skip_serializing_if = "is_default", default)]
    pub moved_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StartFailureField {
    pub cause: String,
    pub detail: String,
}

impl From<&Checkpoint> for CheckpointLine {
    fn from(checkpoint: &Checkpoint) -> Self {
        CheckpointLine {
            checkpoint: checkpoint.turn,
            at_ns: checkpoint.at.0,
            jobs: checkpoint.jobs.jobs().iter().map(JobProgressField::from).collect(),
            notes: checkpoint.notes.iter().map(ReasonField::from).collect(),
            load_basis: checkpoint.load_basis.map(LoadBasisField::from),
            signal_tiers: checkpoint.signals.as_ref().map(SignalTiersField::from),
            sample: (&checkpoint.sample()).into(),
        }
    }
}

impl CheckpointLine {
    pub(crate) fn checkpoint(self, header: &Header) -> Result<Checkpoint, LineError> {
        let codes = header.policy.reasons.as_slice();
        let jobs = self.jobs.into_iter().map(|job| job.job(codes)).collect::<Result<_, _>>()?;
        let mut checkpoint = Checkpoint::default();
        (checkpoint.turn, checkpoint.at) = (self.checkpoint, Nanos(self.at_ns));
        checkpoint.jobs = JobHistory::resume(jobs, header);
        checkpoint.notes =
            self.notes.into_iter().map(|note| note.reason(codes)).collect::<Result<_, _>>()?;
        checkpoint.load_basis = self.load_basis.map(LoadBasisField::load_basis).transpose()?;
        checkpoint.signals = self.signal_tiers.map(SignalTiersField::tiers).transpose()?;
        checkpoint.observe_sample(&self.sample.sample()?);
        Ok(checkpoint)
    }
}

impl From<&JobProgress> for JobProgressField {
    fn from(job: &JobProgress) -> Self {
        let start_failure = |(cause, detail): &(RejectCause, String)| StartFailureField {
            cause: cause.name().to_owned(),
            detail: detail.clone(),
        };
        JobProgressField {
            phase: job.phase,
            started_ns: job.started.map(|at| at.0),
            ended_ns: job.ended.as_ref().map(|(at, _)| at.0),
            exit: job.ended.as_ref().map(|(_, exit)| exit.encode()),
            n_starts: job.n_starts,
            n_moves: job.n_moves,
            placed: job.placed.as_ref().map(ToString::to_string),
            reason: job.reason.as_ref().map(ReasonField::from),
            unmanaged: job.unmanaged.as_ref().map(UnmanagedField::from),
            start_failure: job.start_failure.as_ref().map(start_failure),
            active_page_move: job.active_page_move.as_ref().map(ActivePageMoveField::from),
            last_page_move: job.last_page_move.as_ref().map(|(at, moved)| (at.0, moved.into())),
            n_page_moves: job.page_moves.n,
            requested_bytes: job.page_moves.requested.0,
            moved_bytes: job.page_moves.moved.0,
        }
    }
}

impl JobProgressField {
    fn job(self, codes: &[ReasonCode]) -> Result<JobProgress, LineError> {
        let start_failure =
            |field: StartFailureField| Ok((reject_cause(&field.cause)?, field.detail));
        let page_move = |(at, line): (u64, CompletedPageMoveLine)| {
            Ok::<_, LineError>((Nanos(at), line.completed()?))
        };
        Ok(JobProgress {
            phase: self.phase,
            started: self.started_ns.map(Nanos),
            ended: self
                .ended_ns
                .zip(self.exit)
                .map(|(at, exit)| (Nanos(at), Encoded::decode(exit))),
            n_starts: self.n_starts,
            n_moves: self.n_moves,
            placed: self.placed.map(|text| set("placed", &text)).transpose()?,
            reason: self.reason.map(|field| field.reason(codes)).transpose()?,
            unmanaged: self.unmanaged.map(UnmanagedField::cause).transpose()?,
            start_failure: self.start_failure.map(start_failure).transpose()?,
            active_page_move: self.active_page_move.map(Into::into),
            last_page_move: self.last_page_move.map(page_move).transpose()?,
            page_moves: PageMoveTotals {
                n: self.n_page_moves,
                requested: Bytes(self.requested_bytes),
                moved: Bytes(self.moved_bytes),
            },
        })
    }
}
