//! The life of every job, turn by turn: where it is, what was done to it, and by which wish.
//!
//! ```text
//!   TurnRecord ─► Lives ─► Happened: ended, left alone, started, moved, …     each with the wish
//!                   │                                                         that it came from
//!                   └────► JobSoFar: what each job has come to
//! ```
//!
//! Explain, the report, the progress view and the parts of a journal all follow jobs through this, so
//! that they cannot tell different stories. A wish belongs to what was done to the same target
//! and of the same kind in its turn, whether or not all of it was possible: the guard may have
//! narrowed it.
//!
//! In a replay the outcomes are those of the recorded run and the wishes those of the policy that
//! decided again. There a wish is what would have been done, beside what was; one beside which
//! nothing was done is told by itself.

use std::collections::BTreeMap;

use base::{Bytes, CpuSet, JobId, Nanos};
use engine::TurnRecord;
use sched::{
    Action, ActionKind, ActivePageMove, CompletedPageMove, JobEvent, JobExit, Outcome,
    OutcomeResult, Reason, RejectCause, Request, Target, UnmanagedCause,
};

use crate::Header;
use crate::happened::{JobRecord, What, Wishes};

/// All jobs of a run, by number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobHistory {
    jobs: Vec<JobSoFar>,
    n_running: u64,
    is_replay: bool,
}

/// What a job has come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobSoFar {
    /// Where it is in its life.
    pub state: LifeState,
    /// When it was started, the last time.
    pub started: Option<Nanos>,
    /// When it ended and how, the last time.
    pub ended: Option<(Nanos, JobExit)>,
    /// How often it was started.
    pub n_starts: u32,
    /// How often it was placed anew while it ran.
    pub n_moves: u32,
    /// Where it was put, by us or by who took it out of our hands, while that holds.
    pub placed: Option<CpuSet>,
    /// Why we put it there.
    pub reason: Option<Reason>,
    /// Why it is left alone.
    pub hands_off: Option<UnmanagedCause>,
    /// Why it could not be started.
    pub cannot_start: Option<(RejectCause, String)>,
    /// The move of its memory that is under way.
    pub moving: Option<ActivePageMove>,
    /// How the last move of its memory ended, and when.
    pub moved: Option<(Nanos, CompletedPageMove)>,
    /// What moves of its memory came to, in all of its lives.
    pub pages: PagesSoFar,
}

/// What the moves of a job's memory that ended came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PagesSoFar {
    /// How many there were.
    pub n_moves: u32,
    /// What was found to be moved.
    pub requested: Bytes,
    /// What of that was found on the target afterwards.
    pub moved: Bytes,
}

/// Where a job is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LifeState {
    /// Its time has not come.
    #[default]
    Waiting,
    /// It runs.
    Running,
    /// It is over.
    Ended,
    /// It could not be started.
    NotStarted,
    /// Somebody else started it, and it is watched no longer.
    Left,
}

impl JobHistory {
    /// Before the first turn.
    pub fn new(header: &Header) -> Self {
        let jobs = vec![JobSoFar::default(); header.jobs.len()];
        JobHistory { jobs, n_running: 0, is_replay: header.replay_of.is_some() }
    }

    /// What jobs had come to before the first turn that is left.
    pub(crate) fn resume(mut jobs: Vec<JobSoFar>, header: &Header) -> Self {
        jobs.resize(header.jobs.len(), JobSoFar::default());
        let is_replay = header.replay_of.is_some();
        let is_running = |job: &&JobSoFar| job.state == LifeState::Running;
        let n_running = jobs.iter().filter(is_running).count() as u64;
        JobHistory { jobs, n_running, is_replay }
    }

    /// Every job, by number.
    pub fn jobs(&self) -> &[JobSoFar] {
        &self.jobs
    }

    /// Where one job stands.
    pub fn job(&self, id: JobId) -> Option<&JobSoFar> {
        self.jobs.get(id.index())
    }

    /// How many jobs run.
    pub fn n_running(&self) -> u64 {
        self.n_running
    }

    /// Whether what was decided was never carried out.
    pub fn is_replay(&self) -> bool {
        self.is_replay
    }

    /// Takes in what happened to jobs before anything was decided.
    pub fn events<'a>(&mut self, record: &TurnRecord<'a>) -> Vec<JobRecord<'a>> {
        let at = record.turn.at;
        let mut told: Vec<_> = record
            .sample
            .page_moves_completed
            .iter()
            .filter_map(|moved| self.moved(at, moved))
            .collect();
        told.extend(record.sample.jobs.iter().filter_map(|event| self.event(at, event)));
        told
    }

    fn moved<'a>(&mut self, at: Nanos, moved: &'a CompletedPageMove) -> Option<JobRecord<'a>> {
        let job = self.jobs.get_mut(moved.job.index())?;
        job.moving = None;
        job.pages.n_moves = job.pages.n_moves.saturating_add(1);
        job.pages.requested = job.pages.requested.saturating_add(moved.requested);
        job.pages.moved = job.pages.moved.saturating_add(moved.moved);
        job.moved = Some((at, moved.clone()));
        Some(JobRecord {
            target: Target::Job(moved.job),
            what: What::PagesMoved(moved),
            wish: None,
        })
    }

    /// Takes in what was done to jobs: first all starts, since where a job is bound is part of that.
    pub fn deeds<'a>(&mut self, record: &TurnRecord<'a>) -> Vec<JobRecord<'a>> {
        let only_wishes = self.is_replay && !record.plan.requests.is_empty();
        if record.outcomes.is_empty() && !only_wishes {
            return Vec::new();
        }
        let mut wishes = Wishes::new(record.plan, record.rejected);
        let (mut told, begun) = self.starts(record, &mut wishes);
        for outcome in record.outcomes {
            told.extend(self.deed(record.turn.at, outcome, &begun, &mut wishes));
        }
        if self.is_replay {
            told.extend(wishes.left_over().map(|wish| self.only_wished(wish)));
        }
        told
    }

    fn event<'a>(&mut self, at: Nanos, event: &'a JobEvent) -> Option<JobRecord<'a>> {
        let (id, what) = match event {
            JobEvent::Due(_) => return None,
            JobEvent::Ended(id, end) => (*id, What::Ended(end)),
            JobEvent::Unmanaged(id, why) => (*id, What::HandsOff(why)),
            JobEvent::Attached(job) => {
                self.appear(job.id, at)?;
                (job.id, What::Appeared(job))
            }
            JobEvent::Detached(id, why, counted) => (*id, What::Left(*why, counted)),
        };
        let job = self.jobs.get_mut(id.index())?;
        match event {
            JobEvent::Due(_) | JobEvent::Attached(_) => {}
            JobEvent::Detached(..) => {
                self.n_running -= u64::from(job.state == LifeState::Running);
                (job.state, job.placed) = (LifeState::Left, None);
            }
            JobEvent::Ended(_, end) => {
                self.n_running -= u64::from(job.state == LifeState::Running);
                (job.state, job.placed) = (LifeState::Ended, None);
                job.moving = None;
                job.ended = Some((at, JobExit::clone(end)));
            }
            JobEvent::Unmanaged(_, why) => {
                job.hands_off = Some(why.clone());
                if let UnmanagedCause::AffinityChanged(cpus) = why {
                    (job.placed, job.reason) = (Some(cpus.clone()), None);
                }
            }
        }
        Some(JobRecord { target: Target::Job(id), what, wish: None })
    }

    /// A job that ran already takes the next number, or that of one that is gone.
    fn appear(&mut self, id: JobId, at: Nanos) -> Option<()> {
        let life = JobSoFar {
            state: LifeState::Running,
            started: Some(at),
            n_starts: 1,
            ..JobSoFar::default()
        };
        let n_known = self.jobs.len();
        match self.jobs.get_mut(id.index()) {
            Some(job) => {
                self.n_running -= u64::from(job.state == LifeState::Running);
                *job = life;
            }
            None if id.index() == n_known => self.jobs.push(life),
            None => return None,
        }
        self.n_running += 1;
        Some(())
    }

    /// The starts of a turn, and who was started.
    fn starts<'a>(
        &mut self,
        record: &TurnRecord<'a>,
        wishes: &mut Wishes<'a>,
    ) -> (Vec<JobRecord<'a>>, Vec<JobId>) {
        let mut begun: Vec<JobId> = Vec::new();
        let mut told = Vec::new();
        for outcome in record.outcomes.iter().filter(|outcome| outcome.action.is_none()) {
            let Target::Job(id) = outcome.target else { continue };
            let Some(job) = self.jobs.get_mut(id.index()) else { continue };
            let wish = wishes.of(outcome.target, ActionKind::Cpus);
            self.n_running -= u64::from(job.state == LifeState::Running);
            let what = job.begin(&outcome.result, record.turn.at);
            if job.state == LifeState::Running {
                self.n_running += 1;
                begun.push(id);
            }
            told.push(JobRecord { target: outcome.target, what, wish });
        }
        begun.sort_unstable();
        self.bind(record.outcomes, &begun, &mut told);
        (told, begun)
    }

    /// Tells the starts where they were bound.
    fn bind<'a>(&mut self, outcomes: &'a [Outcome], begun: &[JobId], told: &mut [JobRecord<'a>]) {
        let mut bound: BTreeMap<Target, &CpuSet> = BTreeMap::new();
        for outcome in outcomes {
            let (Target::Job(id), Some(Action::Place(cpus))) = (outcome.target, &outcome.action)
            else {
                continue;
            };
            let is_done = matches!(outcome.result, OutcomeResult::Done { .. });
            if is_done && begun.binary_search(&id).is_ok() {
                bound.insert(outcome.target, cpus);
            }
        }
        for one in told {
            let (Target::Job(id), What::Started(cpus)) = (one.target, &mut one.what) else {
                continue;
            };
            *cpus = bound.get(&one.target).copied();
            if let Some((job, cpus)) = self.jobs.get_mut(id.index()).zip(*cpus) {
                let reason =
                    one.wish.filter(|_| !self.is_replay).map(|wish| Reason::clone(&wish.reason));
                (job.placed, job.reason) = (Some(cpus.clone()), reason);
            }
        }
    }

    fn deed<'a>(
        &mut self,
        at: Nanos,
        outcome: &'a Outcome,
        begun: &[JobId],
        wishes: &mut Wishes<'a>,
    ) -> Option<JobRecord<'a>> {
        let action = outcome.action.as_ref()?;
        let (target, wish) = (outcome.target, wishes.of(outcome.target, action.kind()));
        let what = match (&outcome.result, target) {
            (OutcomeResult::Rejected { cause: why, detail }, _) => {
                What::Refused(action, *why, detail)
            }
            (OutcomeResult::Done { n }, Target::Job(id)) => {
                let reason = wish.filter(|_| !self.is_replay).map(|wish| &*wish.reason);
                let job = self.jobs.get_mut(id.index())?;
                job.done(action, *n, reason, begun.binary_search(&id).is_ok())?
            }
            (OutcomeResult::InProgress, Target::Job(id)) => {
                let job = self.jobs.get_mut(id.index())?;
                job.moving = job.under_way(outcome, at).or(job.moving);
                What::PagesBegun(action)
            }
            (OutcomeResult::Done { .. } | OutcomeResult::InProgress, Target::Task(_)) => {
                return None;
            }
        };
        Some(JobRecord { target, what, wish })
    }

    fn only_wished<'a>(&self, wish: &'a Request) -> JobRecord<'a> {
        let from = match wish.target {
            Target::Job(id) => self.job(id).and_then(|job| job.placed.clone()),
            Target::Task(_) => None,
        };
        JobRecord { target: wish.target, what: What::OnlyWished(from), wish: Some(wish) }
    }
}

impl JobSoFar {
    /// It was to be started. Nothing of an earlier run of it holds any more.
    fn begin<'a>(&mut self, result: &'a OutcomeResult, at: Nanos) -> What<'a> {
        (self.placed, self.reason, self.hands_off) = (None, None, None);
        (self.moving, self.moved) = (None, None);
        match result {
            OutcomeResult::Done { .. } => {
                (self.state, self.started) = (LifeState::Running, Some(at));
                self.n_starts += 1;
                What::Started(None)
            }
            OutcomeResult::Rejected { cause: why, detail } => {
                self.state = LifeState::NotStarted;
                self.cannot_start = Some((*why, detail.clone()));
                What::NotStarted(*why, detail)
            }
            OutcomeResult::InProgress => What::Started(None), // No host begins a start without an end.
        }
    }

    fn under_way(&self, outcome: &Outcome, since: Nanos) -> Option<ActivePageMove> {
        let Some(Action::MovePages { from, to, limit }) = outcome.action else { return None };
        Some(ActivePageMove { target: outcome.target, from, to, limit, since })
    }

    /// Something was done to it; `None` if that was a part of its start.
    fn done<'a>(
        &mut self,
        deed: &'a Action,
        n_tasks: u32,
        reason: Option<&Reason>,
        begins: bool,
    ) -> Option<What<'a>> {
        match deed {
            Action::MovePages { .. } => None,
            Action::MemoryPolicy(policy) => Some(What::Memory(policy)),
            Action::Place(_) if begins => None,
            Action::Place(to) => {
                let from = self.placed.replace(to.clone());
                self.reason = reason.cloned();
                if n_tasks == 0 {
                    return Some(What::Kept(to));
                }
                self.n_moves += 1;
                Some(What::Moved { from, to, n_tasks })
            }
            Action::Release => Some(What::Released { from: self.placed.take(), n_tasks }),
        }
    }
}
