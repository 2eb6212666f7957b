//! The journal of a run: append-only, one JSON object per line, sufficient for every later analysis.
//!
//! ```text
//!   line 1        {"journal":2,"run":"…","policy":{…},"machine":{…},"jobs":[…], …}
//!   line 2        {"turn":0,"at_ns":120,"causes":["jobs-due"],"sample":{…},"requests":[…],"outcomes":[…]}
//!   …             one line per turn
//!   last line     {"end":"finished","wall_ns":61500000000}
//! ```
//!
//! The line of a turn contains the raw sample (changes only), the causes of the turn, the requests of the policy with
//! their reasons, the rejections of the guard, and the outcomes of the other requests. `explain`, the report and
//! `replay` read only the journal. The wall-clock time is recorded once, in the header. All other times are nanoseconds
//! since the start of the run.
//!
//! The writer flushes a turn with an event immediately, in one write, so that the lines are complete if evenkeel is
//! killed. The reader accepts and reports a truncated last line. Turns without an event, in which no task ran and no
//! decision was made, are buffered for at most two seconds (at four turns per second). A journal that exceeds its size
//! limit continues in a new part. Each part can be read separately: see [`JournalLimits`].
//!
//! The line types are private (`wire`) and versioned. The public interface uses the types of `sched`.

mod checkpoint;
mod error;
mod header;
mod job_history;
mod job_record;
mod job_threads;
mod part_files;
mod read;
mod recorded_turn;
mod replay;
#[cfg(test)]
mod tests;
mod thread_bindings;
mod wire;
mod write;

pub use checkpoint::Checkpoint;
pub use error::{JournalError, LineError};
pub use header::{Header, PolicyUsed, RunEnd, RunStatus};
pub use job_history::{JobHistory, JobPhase, JobProgress, PageMigrationTotals};
pub use job_record::{JobChange, JobRecord};
pub use job_threads::JobThreads;
pub use part_files::existing_part;
pub use read::{Recording, read};
pub use recorded_turn::RecordedTurn;
pub use replay::{ReplayError, ReplaySummary, replay};
pub use write::{JournalLimits, JournalWriter};

/// Version of the journal format. The reader accepts only this version.
pub const FORMAT: u32 = 2;
