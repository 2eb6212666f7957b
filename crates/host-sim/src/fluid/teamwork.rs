//! State of threads that wait for each other, for [`super::waiting`].

use crate::thread_plan::PlanPosition;

/// Progress of the threads of a job with a plan.
#[derive(Clone, Debug, Default)]
pub(super) struct Teamwork {
    /// The current section.
    pub position: PlanPosition,
    /// Items that each stage of a pipeline has taken from its input and has passed to its output.
    pub taken: Vec<u32>,
    pub passed: Vec<u32>,
    /// First touch of each thread of the current section, in bytes.
    pub touch_bytes: f64,
    /// Footprint of the current section in bytes.
    pub footprint: f64,
    /// Whether an event for the threads is scheduled.
    pub is_due: bool,
}

/// State of a thread with respect to the other threads of its job.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TeamThread {
    /// Number of the thread in its job.
    pub thread: usize,
    pub step: ThreadStep,
    /// Number of items of the current section that the thread has passed on.
    pub items: u32,
    /// Instructions of the current part, and of all parts before it.
    pub part_instructions: f64,
    pub executed: f64,
    /// Start of the current block in nanoseconds; absent while the thread is not blocked.
    pub blocked_since: Option<u64>,
    /// Time of earlier blocks in nanoseconds.
    pub blocked_ns: u64,
}

/// Next step of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ThreadStep {
    /// The thread waits for its input.
    NeedsInput,
    /// The thread executes its part.
    #[default]
    Executing,
    /// The thread has executed its part, and waits for a slot in its output.
    HasOutput,
    /// The thread waits for the end of the section.
    Arrived,
}

impl TeamThread {
    pub fn new(thread: usize) -> Self {
        TeamThread { thread, ..TeamThread::default() }
    }

    /// Returns the executed instructions, if these are left of the current part.
    pub fn executed(&self, left: f64) -> f64 {
        self.executed + self.part_instructions - left
    }

    /// Returns the time in which the thread was blocked.
    pub fn blocked_ns(&self, now: u64) -> u64 {
        self.blocked_ns + self.blocked_since.map_or(0, |since| now - since)
    }
}
