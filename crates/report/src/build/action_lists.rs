//! Bounded lists of moves, rejections and notes. A full list contains the last entries.

use std::collections::VecDeque;

use base::{CpuSet, JobId, Nanos, TaskId};
use sched::{Action, Reason, RejectCause, Target};

use super::job_track::PlacementRequest;
use crate::domain_names::Epoch;
use crate::model::{MoveKind, NoteKind, RejectedBy};

/// Maximum number of listed moves: 17 minutes at four moves per second.
const N_MOVES_MAX: usize = 4096;
/// Maximum number of listed rejections. Repeated rejections are one entry.
const N_REJECTIONS_MAX: usize = 1024;
/// Number of last entries that are searched for a repetition.
const N_SEARCHED: usize = 32;

#[derive(Debug, Default)]
pub(crate) struct ActionLists {
    pub moves: VecDeque<ListedMove>,
    pub rejections: VecDeque<RejectedAction>,
    pub notes: Vec<Note>,
    pub n_would_move: u64,
    pub n_rejections: u64,
}

/// A placement change of a running job or thread, or in a replay a request for one.
#[derive(Debug)]
pub(crate) struct ListedMove {
    pub at: Nanos,
    pub last_at: Nanos,
    pub n: u64,
    pub job: JobId,
    /// The moved thread; `None`: the whole job.
    pub thread: Option<TaskId>,
    pub kind: MoveKind,
    pub from: Option<CpuSet>,
    /// New CPUs; `None`: it was released.
    pub to: Option<CpuSet>,
    pub n_tasks: u32,
    pub request: Option<PlacementRequest>,
    pub epoch: Epoch,
}

#[derive(Debug)]
pub(crate) struct RejectedAction {
    pub at: Nanos,
    pub last_at: Nanos,
    pub n: u64,
    pub target: Target,
    /// Rejected action; `None`: the start of a due job.
    pub action: Option<Action>,
    pub by: RejectedBy,
    pub cause: RejectCause,
    pub detail: String,
    pub epoch: Epoch,
}

#[derive(Debug)]
pub(crate) struct Note {
    pub at: Nanos,
    pub kind: NoteKind,
    pub reason: Option<Reason>,
    pub text: String,
}

impl ActionLists {
    pub fn add_move(&mut self, moved: ListedMove) {
        push_bounded(&mut self.moves, moved, N_MOVES_MAX);
    }

    /// Adds a request that is not carried out. The policy repeats such a request in every turn. Consecutive repetitions
    /// are one entry.
    pub fn add_would_move(&mut self, moved: ListedMove) {
        self.n_would_move += 1;
        let repeated = self.moves.iter_mut().rev().take(N_SEARCHED).find(|known| {
            (known.job, known.thread, known.kind, &known.from, &known.to)
                == (moved.job, moved.thread, moved.kind, &moved.from, &moved.to)
        });
        match repeated {
            Some(known) => (known.last_at, known.n) = (moved.at, known.n + 1),
            None => self.add_move(moved),
        }
    }

    pub fn add_rejection(&mut self, rejected: RejectedAction) {
        self.n_rejections += 1;
        let repeated = self.rejections.iter_mut().rev().take(N_SEARCHED).find(|known| {
            (known.target, known.by, known.cause) == (rejected.target, rejected.by, rejected.cause)
                && known.action == rejected.action
                && known.detail == rejected.detail
        });
        match repeated {
            Some(known) => (known.last_at, known.n) = (rejected.at, known.n + 1),
            None => push_bounded(&mut self.rejections, rejected, N_REJECTIONS_MAX),
        }
    }

    pub fn add_text(&mut self, at: Nanos, kind: NoteKind, text: String) {
        self.notes.push(Note { at, kind, reason: None, text });
    }

    pub fn add_reason(&mut self, at: Nanos, kind: NoteKind, reason: &Reason) {
        let (text, reason) = (reason.to_string(), Some(reason.clone()));
        self.notes.push(Note { at, kind, reason, text });
    }
}

fn push_bounded<T>(list: &mut VecDeque<T>, entry: T, limit: usize) {
    if list.len() == limit {
        list.pop_front();
    }
    list.push_back(entry);
}
