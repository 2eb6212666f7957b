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
    /// Sum of the misses per millisecond of the tasks, if each has a CPU.
    misses_per_ms: u64,
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
        KindLoad {
            kind,
            n_tasks: 0,
            waiting: 0,
            misses_per_ms: 0,
            restricted: RestrictedTasks::default(),
        }
    }

    pub fn add(&mut self, kind: &CoreKind, member: &Member) {
        (self.n_tasks, self.waiting, self.misses_per_ms) = self.sums(Change::With(member));
        if let Some(cpus) = member.restricted_to(self.kind) {
            self.restricted.add(kind, cpus, member.n_tasks);
        }
    }

    pub fn subtract(&mut self, member: &Member) {
        (self.n_tasks, self.waiting, self.misses_per_ms) = self.sums(Change::Without(member));
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
    /// kind. A busy sibling does not slow the wait for memory down.
    pub fn log_slowdown(&self, kind: &CoreKind, change: Change<'_>) -> f64 {
        let (n_tasks, waiting, _) = self.sums(change);
        let computing = 1.0 - waiting as f64 / MILLION as f64 / n_tasks.max(1) as f64;
        let (shared, beside) = self.logs(kind, change);
        shared + computing * beside
    }

    /// Returns the sums of the logarithms of the numbers of tasks per CPU, and of the slowdown by siblings.
    fn logs(&self, kind: &CoreKind, change: Change<'_>) -> (f64, f64) {
        let Occupied { n_tasks, n_cpus, log_shared, .. } = self.occupied(kind, change);
        let n_effective = self.sums(change).0 - n_tasks + n_cpus;
        (kind.log_shared(n_effective) + log_shared, kind.log_beside(n_effective))
    }

    /// Returns the geometric mean of the predicted times of the tasks, relative to their times alone on the kind, without
    /// the wait for saturated memory.
    pub fn mean_slowdown(&self, kind: &CoreKind) -> f64 {
        libm::exp(self.log_slowdown(kind, Change::None) / self.n_tasks.max(1) as f64)
    }

    /// Returns the number of tasks that wait for a saturated memory controller while they run, and the misses per
    /// millisecond of all tasks: a task that shares its CPU has fewer.
    pub fn waiting(&self, kind: &CoreKind, change: Change<'_>) -> (f64, f64) {
        let (n_tasks, waiting, misses_per_ms) = self.sums(change);
        if misses_per_ms == 0 {
            return (0.0, 0.0);
        }
        let log_mean = self.logs(kind, change).0 / n_tasks as f64;
        (waiting as f64 / MILLION as f64, misses_per_ms as f64 / libm::exp(log_mean))
    }

    /// Returns the number of tasks, and the sums of [`Member::waiting`] and of the misses per millisecond.
    fn sums(&self, change: Change<'_>) -> (u64, u64, u64) {
        let of = |member: &Member| {
            let n_tasks = member.n_tasks;
            (n_tasks, member.waiting * n_tasks, member.misses_per_ms * n_tasks)
        };
        let (n_tasks, waiting, misses) = (self.n_tasks, self.waiting, self.misses_per_ms);
        match change {
            Change::None => (n_tasks, waiting, misses),
            Change::With(member) => {
                let with = of(member);
                (n_tasks + with.0, waiting + with.1, misses + with.2)
            }
            Change::Without(member) => {
                let without = of(member);
                (n_tasks - without.0, waiting - without.1, misses - without.2)
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
