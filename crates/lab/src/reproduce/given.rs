//! Policies as columns, and divided scheduling with the groups told instead of found.
//!
//! ```text
//!   "linux"                        a column as anywhere
//!   "given-groups divided[…]"      the same policy, but what it is shown of each program is replaced:
//!                                    the paper's Group 1   full queues: many
//!                                    the paper's Group 2   full queues: none, references: many
//!                                    all others            neither
//! ```
//!
//! So who finds the groups is taken out of the question, and all that follows from groups (who goes where, when
//! it changes, the guard) stays the policy's own.

use base::{Nanos, StopFlag};
use engine::Sink;
use program::Job;
use sched::{CounterEvent, LoadSource, Plan, Policy, Snapshot, TaskView, Wake};
use topology::DomainChoice;

use super::divided::published_group;
use crate::compare::{Column, ColumnError, Figures, SimBench, SimRunError};

/// What stands before a policy that is told the groups.
pub(super) const GIVEN: &str = "given-groups ";

/// Events in a second that are many: so many that no limit between 1 and 10^12 is above it.
const MANY_PER_S: u64 = 2_000_000_000_000;

/// A column, and whether groups are told to it.
#[derive(Clone, Debug)]
pub(super) struct Given {
    column: Column,
    is_told: bool,
}

impl Given {
    /// # Errors
    /// There is no such policy.
    pub fn parse(text: &str) -> Result<Self, ColumnError> {
        match text.strip_prefix(GIVEN) {
            Some(text) => Ok(Given { column: Column::parse(text)?, is_told: true }),
            None => Ok(Given { column: Column::parse(text)?, is_told: false }),
        }
    }

    /// A run of it.
    ///
    /// # Errors
    /// As [`SimBench::run`].
    pub fn run(
        &self,
        bench: &SimBench,
        (workload, seed): (usize, u64),
        stop: &StopFlag,
        listener: Option<&mut dyn Sink>,
    ) -> Result<Option<Figures>, SimRunError> {
        let of = (&self.column, workload, seed);
        if !self.is_told {
            return bench.run(of, stop, listener);
        }
        let inner = policy::build(&self.column.spec, seed)?;
        bench.run_policy(Box::new(Told { inner }), of, stop, listener)
    }
}

/// A policy that is shown what the paper's groups would show.
struct Told {
    inner: Box<dyn Policy>,
}

impl Policy for Told {
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        let job_of = |task: &TaskView| {
            seen.jobs.iter().find(|job| job.job.id == task.job).map(|job| job.job)
        };
        let tasks: Vec<TaskView> =
            seen.tasks.iter().map(|task| shown(task, job_of(task))).collect();
        self.inner.decide(&Snapshot { tasks: &tasks, ..*seen }, plan);
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn interval(&self) -> Option<Nanos> {
        self.inner.interval()
    }

    fn wake(&self) -> Wake {
        self.inner.wake()
    }

    fn domains(&self) -> DomainChoice {
        self.inner.domains()
    }

    fn load_source(&self) -> LoadSource {
        self.inner.load_source()
    }
}

/// A task with the two counts that its program's group would have.
fn shown(task: &TaskView, job: Option<&Job>) -> TaskView {
    let many = task.cpu_time.as_secs_f64() * MANY_PER_S as f64;
    let (full, references) = match job.map_or(3, published_group) {
        1 => (many as u64, 0),
        2 => (0, many as u64),
        _ => (0, 0),
    };
    let counted = task.counters.with(CounterEvent::QueueFull, full);
    TaskView { counters: counted.with(CounterEvent::LlcReferences, references), ..*task }
}
