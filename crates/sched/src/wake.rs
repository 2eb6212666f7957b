//! Which intervals of a policy cause a turn.
//!
//! ```text
//!   poll       |    |    |    |    |    |      every interval
//!   overflow   |    ·    ·    |    ·    |      only an interval in which a counter overflowed
//! ```
//!
//! The intervals are the same in both modes, so that loads always cover one interval. Turns with another
//! cause (a due job, an exit, a change of CPUs) do not depend on the mode.

use crate::CounterEvent;

/// Which intervals of a policy cause a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wake {
    /// Every interval.
    #[default]
    Poll,
    /// Only an interval in which a counter overflowed. A host that cannot sample the event reports that and
    /// polls. A host that can sample it also adds a turn after several intervals without an overflow, to
    /// detect other changes.
    Overflow {
        /// The sampled event.
        event: CounterEvent,
        /// Sampling period in events, per CPU or per task.
        every: u64,
    },
}
