//! Lists of what was done, refused and said. The last ones win where there are very many.

use std::collections::VecDeque;

use base::{CpuSet, JobId, Nanos};
use sched::{Action, Reason, RejectCause, Target};

use super::track::Wish;
use crate::eras::Era;
use crate::model::{MoveWord, NoteWord, RefusedBy};

/// More moves than anybody reads; at 4 a second they reach back 17 minutes.
const N_MOVES_MAX: usize = 4096;
/// The same refusal again and again is one entry, so these are different ones.
const N_REFUSALS_MAX: usize = 1024;
/// How far back the same is looked for.
const N_LOOK_BACK: usize = 32;

/// The lists, and how many entries there were in all.
#[derive(Debug, Default)]
pub(crate) struct Acts {
    pub moves: VecDeque<Move>,
    pub refusals: VecDeque<Refused>,
    pub notes: Vec<Note>,
    pub n_wishes: u64,
    pub n_refusals: u64,
}

/// Something that was done to a running job, or would have been.
#[derive(Debug)]
pub(crate) struct Move {
    pub at: Nanos,
    pub last_at: Nanos,
    pub n: u64,
    pub job: JobId,
    pub what: MoveWord,
    pub from: Option<CpuSet>,
    /// `None`: released.
    pub to: Option<CpuSet>,
    pub n_tasks: u32,
    pub wish: Option<Wish>,
    pub era: Era,
}

#[derive(Debug)]
pub(crate) struct Refused {
    pub at: Nanos,
    pub last_at: Nanos,
    pub n: u64,
    pub target: Target,
    pub what: Wanted,
    pub by: RefusedBy,
    pub why: RejectCause,
    pub detail: String,
    pub era: Era,
}

/// What was wanted, a start among it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Wanted {
    Start,
    Do(Action),
}

#[derive(Debug)]
pub(crate) struct Note {
    pub at: Nanos,
    pub kind: NoteWord,
    pub reason: Option<Reason>,
    pub text: String,
}

impl Acts {
    pub fn moved(&mut self, moved: Move) {
        push_bounded(&mut self.moves, moved, N_MOVES_MAX);
    }

    /// A policy whose wish is not carried out has it again in the next turn: that is one entry.
    pub fn wished(&mut self, wished: Move) {
        self.n_wishes += 1;
        let again = self.moves.iter_mut().rev().take(N_LOOK_BACK).find(|known| {
            (known.job, known.what, &known.from, &known.to)
                == (wished.job, wished.what, &wished.from, &wished.to)
        });
        match again {
            Some(known) => (known.last_at, known.n) = (wished.at, known.n + 1),
            None => self.moved(wished),
        }
    }

    pub fn refused(&mut self, refused: Refused) {
        self.n_refusals += 1;
        let again = self.refusals.iter_mut().rev().take(N_LOOK_BACK).find(|known| {
            (known.target, known.by, known.why) == (refused.target, refused.by, refused.why)
                && known.what == refused.what
                && known.detail == refused.detail
        });
        match again {
            Some(known) => (known.last_at, known.n) = (refused.at, known.n + 1),
            None => push_bounded(&mut self.refusals, refused, N_REFUSALS_MAX),
        }
    }

    pub fn say(&mut self, at: Nanos, kind: NoteWord, text: String) {
        self.notes.push(Note { at, kind, reason: None, text });
    }

    pub fn say_reason(&mut self, at: Nanos, kind: NoteWord, reason: &Reason) {
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
