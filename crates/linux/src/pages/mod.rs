//! Memory that moves from node to node: found, asked for a batch at a time, and counted afterwards.
//!
//! ```text
//!   order    hot first ─► ranges of addresses
//!   mover    a batch: which pages lie where? ─► room on the target? ─► ask ─► where do they lie now?
//!   batch    how many fit into 20 ms          call    the system calls
//!   present  which stretches have pages at all
//!   process  a real process, known by number, birth and its memory's own descriptor
//! ```
//!
//! What the kernel answers is not believed: a page counts as moved when it is found on the target
//! afterwards. So for every move `requested` = `moved` + what was refused + `left`.
//!
//! Only a process's own anonymous memory is moved. What it shares and pages of files stay, since others
//! may use them from elsewhere. A huge page is asked for once, by its first address, and moves whole.

pub mod batch;
pub mod call;
#[cfg(all(test, debug_assertions))]
mod faults;
pub mod mover;
pub mod order;
pub mod present;
pub mod process;

pub use batch::Batch;
pub use mover::{FailedPageCounts, Memory, MoveRequest, MoveStop, MoveTotals, Mover};
pub use order::{Range, hot_first};
pub use process::Process;
