//! The tasks of a core kind, and their predicted times.

use super::member::Member;
use super::restricted::{Occupied, RestrictedTasks};
use crate::core_kinds::CoreKind;
use crate::declaration::MILLION;

/// The tasks of a kind that count.
#[derive(Clone, Debug)]
pub(super) struct KindLoad {
    /// Index of the kind.
    kind: usize,
    n_tasks: u64,
    /// Sum of [`Member::waiting`] of the tasks.
    waiting: u64,
    restricted: RestrictedTasks,
}

/// A job for which a load is predicted.
#[derive(Clone, Copy)]
pub(super) enum Change<'m> {
    None,
    With(&'m Member),
    Without(&'m Member),
}

impl KindLoad {
    pub fn none(kind: usize) -> Self {
        KindLoad { kind, n_tasks: 0, waiting: 0, restricted: RestrictedTasks::default() }
    }

    pub fn add(&mut self, kind: &CoreKind, member: &Member) {
        (self.n_tasks, self.waiting) = self.sums(Change::With(member));
        if let Some(cpus) = member.restricted_to(self.kind) {
            self.restricted.add(kind, cpus, member.n_tasks);
        }
    }

    pub fn subtract(&mut self, member: &Member) {
        (self.n_tasks, self.waiting) = self.sums(Change::Without(member));
        if let Some(cpus) = member.restricted_to(self.kind) {
            self.restricted.subtract(cpus, member.n_tasks);
        }
    }

    pub fn n_tasks(&self) -> u64 {
        self.n_tasks
    }

    /// Returns the number of busy cores, if each task occupies one: more than the kind has if tasks share cores.
    pub fn n_busy(&self, kind: &CoreKind, change: Change<'_>) -> u64 {
        let occupied = self.occupied(kind, change);
        self.sums(change).0 - occupied.n_tasks + occupied.n_cores
    }

    /// Returns whether a job of another kind would have an idle core for each of its tasks. The jobs that may use all
    /// CPUs of the kind leave the CPUs of the others.
    pub fn fits(&self, kind: &CoreKind, member: &Member) -> bool {
        let n_busy = self.n_busy(kind, Change::With(member));
        n_busy == self.n_busy(kind, Change::None) + member.n_tasks && n_busy <= kind.n_cores()
    }

    /// Returns the sum of the logarithms of the predicted times of the tasks, relative to their times alone on the
    /// kind.
    pub fn log_slowdown(&self, kind: &CoreKind, change: Change<'_>) -> f64 {
        let Occupied { n_tasks, n_cpus, log_shared, .. } = self.occupied(kind, change);
        kind.log_slowdown(self.sums(change).0 - n_tasks + n_cpus) + log_shared
    }

    /// Returns the geometric mean of the predicted times of the tasks, relative to their times alone on the kind.
    pub fn mean_slowdown(&self, kind: &CoreKind) -> f64 {
        libm::exp(self.log_slowdown(kind, Change::None) / self.n_tasks.max(1) as f64)
    }

    /// Returns the number of tasks that wait for a saturated memory controller while they run alone, and their number
    /// at one time: a task that shares its CPU, or is slowed down by a sibling, waits less.
    pub fn waiting(&self, kind: &CoreKind, change: Change<'_>) -> (f64, f64) {
        let (n_tasks, waiting) = self.sums(change);
        if waiting == 0 {
            return (0.0, 0.0);
        }
        let waiting = waiting as f64 / MILLION as f64;
        let log_mean = self.log_slowdown(kind, change) / n_tasks as f64;
        (waiting, waiting / libm::exp(log_mean))
    }

    /// Returns the number of tasks and the sum of [`Member::waiting`].
    fn sums(&self, change: Change<'_>) -> (u64, u64) {
        let waiting = |member: &Member| member.waiting * member.n_tasks;
        match change {
            Change::None => (self.n_tasks, self.waiting),
            Change::With(member) => (self.n_tasks + member.n_tasks, self.waiting + waiting(member)),
            Change::Without(member) => {
                (self.n_tasks - member.n_tasks, self.waiting - waiting(member))
            }
        }
    }

    fn occupied(&self, kind: &CoreKind, change: Change<'_>) -> Occupied {
        let (member, sign) = match change {
            Change::None => (None, 0),
            Change::With(member) => (Some(member), 1),
            Change::Without(member) => (Some(member), -1),
        };
        let restricted = member.and_then(|member| {
            Some((member.restricted_to(self.kind)?, sign * member.n_tasks.cast_signed()))
        });
        self.restricted.occupied(kind, restricted)
    }
}
