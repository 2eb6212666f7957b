//! The record of a run: append-only, one JSON object a line, and enough in it for everything later.
//!
//! ```text
//!   line 1        {"journal":1,"run":"…","policy":{…},"machine":{…},"jobs":[…], …}
//!   line 2        {"n":0,"at_ns":120,"causes":["jobs-due"],"sample":{…},"asks":[…],"outcomes":[…]}
//!   …             a line per turn
//!   last line     {"end":"finished","wall_ns":61500000000}
//! ```
//!
//! A turn's line holds the raw sample (what changed), its causes, what the policy wanted and why, what
//! was refused and what became of the rest. So `explain`, the report and `replay` need nothing else.
//! Wall-clock time stands once, in the header; everything after counts nanoseconds from there.
//!
//! A turn in which something happened is written at once, in one piece, so that a killed evenkeel
//! leaves whole lines (the reader forgives a torn last one and says so). Turns in which nothing ran
//! and nothing was decided wait for the next, two seconds at four turns a second. A journal that grows
//! too large is continued in a new part, which can be read alone: see [`Limits`].
//!
//! The types of the lines are this room's own (`wire`) and have a version; the rest of the house
//! sees only `sched`'s types.

mod error;
mod happened;
mod header;
mod lives;
mod parts;
mod read;
mod recorded;
mod replay;
mod so_far;
mod wire;
mod write;

pub use error::{JournalError, LineError};
pub use happened::{JobRecord, What};
pub use header::{Header, HowEnded, PolicyUsed, RunEnd};
pub use lives::{JobHistory, JobSoFar, LifeState, PagesSoFar};
pub use read::{Recording, read};
pub use recorded::RecordedTurn;
pub use replay::{ReplayError, Replayed, replay};
pub use so_far::SoFar;
pub use write::{JournalWriter, Limits};

/// The version of the format that this code writes. It reads this one and none newer.
pub const FORMAT: u32 = 1;
