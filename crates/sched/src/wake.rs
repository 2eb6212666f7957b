//! What brings about a policy's turns when nothing else happens.
//!
//! ```text
//!   poll       |    |    |    |    |    |      a turn in every interval
//!   overflow   |    ·    ·    |    ·    |      only where a counter overflowed since the last one
//! ```
//!
//! Both keep to the same grid, so that loads of both stand for one interval. What is left out here:
//! jobs, ends and changes of CPUs have their turns at once in either way.

use crate::CounterEvent;

/// What brings about the turns that a policy's interval is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wake {
    /// The interval itself: a turn each time that it is over.
    #[default]
    Poll,
    /// A turn at the end of an interval in which a counter overflowed. Hosts that cannot count that
    /// say so and poll; those that can hold a turn now and then all the same, to see what else changed.
    Overflow {
        /// What is counted.
        event: CounterEvent,
        /// After so many of them, on one CPU or of one task.
        every: u64,
    },
}
