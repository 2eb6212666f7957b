//! What became of an action.

use base::CpuSet;
use program::MemoryPolicy;

use crate::{Ask, Target};

/// What a host did, or did not do, about one action or one due job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whom it was about.
    pub target: Target,
    /// What was to be done.
    pub deed: Deed,
    /// How it went.
    pub result: Result,
}

/// What was to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// A due job was started. Every due job has one such outcome.
    Start,
    /// It was bound to these CPUs.
    Place(CpuSet),
    /// Its memory policy was set before it began.
    MemoryPolicy(MemoryPolicy),
    /// It got back what it had.
    Release,
}

/// How it went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Result {
    /// As wished.
    Done {
        /// How many tasks it concerned. For a start, the process number.
        n: u32,
    },
    /// Not.
    Refused {
        /// What sort of refusal.
        why: Why,
        /// In words, with what the kernel said.
        detail: String,
    },
}

/// A wish that the guard did not let through.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The wish.
    pub ask: Ask,
    /// What sort of refusal.
    pub why: Why,
    /// In words.
    pub detail: String,
}

/// What sort of refusal, by the guard or by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// The target ended between sample and action: an everyday outcome.
    Ended,
    /// The kernel does not permit it.
    NotPermitted,
    /// None of the CPUs may be used (offline, or outside the cpuset).
    CpusUnusable,
    /// None of the nodes may be used.
    NodesUnusable,
    /// The CPUs or nodes lie outside what the job may use.
    OutsideJob,
    /// The target is not ours to place.
    HandsOff,
    /// Another wish of the same turn already concerned the target.
    Twice,
    /// It is that way already.
    Already,
    /// It can only be done before the job starts.
    TooLate,
    /// The program could not be started.
    CannotStart,
    /// The undo record could not be written, so nothing was changed.
    NoUndo,
}

impl Why {
    /// All.
    pub const ALL: &[Why] = &[
        Why::Ended,
        Why::NotPermitted,
        Why::CpusUnusable,
        Why::NodesUnusable,
        Why::OutsideJob,
        Why::HandsOff,
        Why::Twice,
        Why::Already,
        Why::TooLate,
        Why::CannotStart,
        Why::NoUndo,
    ];

    /// The name in journals.
    pub fn name(self) -> &'static str {
        match self {
            Why::Ended => "ended",
            Why::NotPermitted => "not-permitted",
            Why::CpusUnusable => "cpus-unusable",
            Why::NodesUnusable => "nodes-unusable",
            Why::OutsideJob => "outside-job",
            Why::HandsOff => "hands-off",
            Why::Twice => "twice",
            Why::Already => "already",
            Why::TooLate => "too-late",
            Why::CannotStart => "cannot-start",
            Why::NoUndo => "no-undo",
        }
    }
}
