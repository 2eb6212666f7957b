//! The second line of a part that continues another: what the run had come to.

use base::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use super::basic::set;
use super::is_default;
use super::memory::{MovedLine, UnderWayField};
use super::plan::{ReasonLine, why};
use super::sample::{EndField, HandsOffField, SampleLine};
use super::turn::{FootingField, SignalsField};
use crate::{Header, JobHistory, JobSoFar, LifeState, LineError, PagesSoFar, SoFar};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SoFarLine {
    /// The last turn that is in it.
    pub so_far: u64,
    pub at_ns: u64,
    pub jobs: Vec<JobSoFarField>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub notes: Vec<ReasonLine>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub footing: Option<FootingField>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub signals: Option<SignalsField>,
    pub sample: SampleLine,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct JobSoFarField {
    pub state: StateField,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ended_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub end: Option<EndField>,
    #[serde(skip_serializing_if = "is_default", default)]
    pub starts: u32,
    #[serde(skip_serializing_if = "is_default", default)]
    pub moves: u32,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub placed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<ReasonLine>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hands_off: Option<HandsOffField>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cannot_start: Option<(String, String)>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub moving: Option<UnderWayField>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub moved: Option<(u64, MovedLine)>,
    #[serde(skip_serializing_if = "is_default", default)]
    pub page_moves: u32,
    #[serde(skip_serializing_if = "is_default", default)]
    pub requested_bytes: u64,
    #[serde(skip_serializing_if = "is_default", default)]
    pub moved_bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StateField {
    #[default]
    Waiting,
    Running,
    Ended,
    NotStarted,
    Left,
}

impl From<&SoFar> for SoFarLine {
    fn from(so_far: &SoFar) -> Self {
        SoFarLine {
            so_far: so_far.number,
            at_ns: so_far.at.0,
            jobs: so_far.lives.jobs().iter().map(JobSoFarField::from).collect(),
            notes: so_far.notes.iter().map(ReasonLine::from).collect(),
            footing: so_far.footing.map(FootingField::from),
            signals: so_far.signals.as_ref().map(SignalsField::from),
            sample: (&so_far.sample()).into(),
        }
    }
}

impl SoFarLine {
    pub(crate) fn so_far(self, header: &Header) -> Result<SoFar, LineError> {
        let jobs = self.jobs.into_iter().map(JobSoFarField::job).collect::<Result<_, _>>()?;
        let notes = self.notes.into_iter().map(ReasonLine::reason).collect::<Result<_, _>>()?;
        let mut so_far = SoFar::default();
        (so_far.number, so_far.at) = (self.so_far, Nanos(self.at_ns));
        (so_far.lives, so_far.notes) = (JobHistory::resume(jobs, header), notes);
        so_far.footing = self.footing.map(FootingField::footing).transpose()?;
        so_far.signals = self.signals.map(SignalsField::tiers).transpose()?;
        so_far.observe_sample(&self.sample.sample()?);
        Ok(so_far)
    }
}

impl From<&JobSoFar> for JobSoFarField {
    fn from(job: &JobSoFar) -> Self {
        JobSoFarField {
            state: job.state.into(),
            started_ns: job.started.map(|at| at.0),
            ended_ns: job.ended.as_ref().map(|(at, _)| at.0),
            end: job.ended.as_ref().map(|(_, end)| end.into()),
            starts: job.n_starts,
            moves: job.n_moves,
            placed: job.placed.as_ref().map(ToString::to_string),
            reason: job.reason.as_ref().map(ReasonLine::from),
            hands_off: job.hands_off.as_ref().map(HandsOffField::from),
            cannot_start: job.cannot_start.clone().map(|(why, text)| (why.name().to_owned(), text)),
            moving: job.moving.as_ref().map(UnderWayField::from),
            moved: job.moved.as_ref().map(|(at, moved)| (at.0, moved.into())),
            page_moves: job.pages.n_moves,
            requested_bytes: job.pages.requested.0,
            moved_bytes: job.pages.moved.0,
        }
    }
}

impl JobSoFarField {
    fn job(self) -> Result<JobSoFar, LineError> {
        let cannot_start = self.cannot_start.map(|(name, text)| Ok((why(&name)?, text)));
        let moved = self.moved.map(|(at, line)| Ok((Nanos(at), line.ended()?)));
        Ok(JobSoFar {
            state: self.state.into(),
            started: self.started_ns.map(Nanos),
            ended: self.ended_ns.zip(self.end).map(|(at, end)| (Nanos(at), end.into())),
            n_starts: self.starts,
            n_moves: self.moves,
            placed: self.placed.map(|text| set("placed", &text)).transpose()?,
            reason: self.reason.map(ReasonLine::reason).transpose()?,
            hands_off: self.hands_off.map(HandsOffField::why).transpose()?,
            cannot_start: cannot_start.transpose()?,
            moving: self.moving.map(Into::into),
            moved: moved.transpose()?,
            pages: PagesSoFar {
                n_moves: self.page_moves,
                requested: Bytes(self.requested_bytes),
                moved: Bytes(self.moved_bytes),
            },
        })
    }
}

impl From<LifeState> for StateField {
    fn from(state: LifeState) -> Self {
        match state {
            LifeState::Waiting => StateField::Waiting,
            LifeState::Running => StateField::Running,
            LifeState::Ended => StateField::Ended,
            LifeState::NotStarted => StateField::NotStarted,
            LifeState::Left => StateField::Left,
        }
    }
}

impl From<StateField> for LifeState {
    fn from(field: StateField) -> Self {
        match field {
            StateField::Waiting => LifeState::Waiting,
            StateField::Running => LifeState::Running,
            StateField::Ended => LifeState::Ended,
            StateField::NotStarted => LifeState::NotStarted,
            StateField::Left => LifeState::Left,
        }
    }
}
