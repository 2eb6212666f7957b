//! Migrations for balance between two kinds.

use std::collections::BTreeSet;

use base::CpuSet;

use super::loads::{Change, KindLoad};
use super::member::{Member, Step};
use super::order::{By, Group, KindOrder};
use super::{Queues, Unit};
use crate::core_kinds::speed::relative_time;
use crate::declaration::MILLION;
use crate::ib::declaration::Load;

/// Sum of the relative gains of all tasks above which a job migrates for balance: 5 % of the time of one task. Chosen:
/// times are estimates.
pub(super) const GAIN_MIN: f64 = 0.05;

/// Different CPU sets of jobs that are tried in a balance of two kinds: each costs a search of the queue. Chosen.
pub(super) const RESTRICTED_MAX: usize = 16;

/// Reason of a migration for balance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ib) enum Gain {
    /// The kind had an idle core for each task of the job.
    IdleCores,
    /// The loads differed by more than beta permits.
    Load,
    /// The predicted times of all tasks shorten, in millionths of the time of one task.
    Times(u64),
}

/// A migration for balance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::ib) struct Balanced {
    pub unit: Unit,
    pub ib: u64,
    pub step: Step,
    pub gain: Gain,
    /// Remaining work of a thread, if it decides between similar threads.
    pub remaining: Option<u64>,
    /// Numbers of tasks by kind, before and after.
    pub before: Vec<u64>,
    pub after: Vec<u64>,
}

/// Jobs that may not migrate in a balance of two kinds. The next job with another number of tasks or other CPUs can.
#[derive(Default)]
struct Refused {
    sizes: BTreeSet<u64>,
    /// Numbers of tasks and CPUs of jobs that may use some CPUs only.
    restricted: Vec<(u64, Vec<(usize, CpuSet)>)>,
}

impl Refused {
    fn add(&mut self, member: &Member) {
        match member.restricted.is_empty() {
            true => _ = self.sizes.insert(member.n_tasks),
            false => self.restricted.push((member.n_tasks, member.restricted.clone())),
        }
    }

    fn has(&self, member: &Member) -> bool {
        if member.restricted.is_empty() {
            return self.sizes.contains(&member.n_tasks);
        }
        let is_equal = |(n_tasks, restricted): &(u64, Vec<(usize, CpuSet)>)| {
            *n_tasks == member.n_tasks && *restricted == member.restricted
        };
        self.tries_no_restricted() || self.restricted.iter().any(is_equal)
    }

    /// Returns whether no member of a kind may migrate, as far as this is known without a search.
    fn has_all_of(&self, order: &KindOrder) -> bool {
        let has_sizes = order.sizes().all(|size| self.sizes.contains(&size));
        has_sizes && (!order.has_restricted() || self.tries_no_restricted())
    }

    fn tries_no_restricted(&self) -> bool {
        RESTRICTED_MAX <= self.restricted.len()
    }
}

impl Queues {
    /// Migrates jobs while the loads of two kinds require it: the highest jobs to the slower kind, or the lowest jobs
    /// to the faster kind.
    pub(super) fn balance(&mut self, step: Step, arrived: Option<Unit>, moves: &mut Vec<Balanced>) {
        let Step { from, to } = step;
        let (mut refused, all) = (Refused::default(), (By::Integrated, Group::All));
        let mut n_left = self.orders[from].len();
        while n_left != 0 {
            if refused.has_all_of(&self.orders[from]) {
                return;
            }
            let may = |m: &Member| {
                // A job that was just placed by its behaviour stays, unless as printed.
                let stays = self.is_improving() && Some(m.unit) == arrived;
                self.may_change(m, step.pair()) && !stays && !refused.has(m)
            };
            let head = if step.is_down() {
                self.highest(from, all, may)
            } else {
                self.lowest(from, all, may)
            };
            let Some(head) = head else { return };
            let unit = head.unit;
            match self.gain(step, head) {
                Some(gain) => {
                    n_left -= 1;
                    let (ib, remaining, before) = (head.ib, head.remaining, self.n_tasks());
                    self.move_to(unit, to);
                    let after = self.n_tasks();
                    moves.push(Balanced { unit, ib, step, gain, remaining, before, after });
                }
                None => refused.add(head),
            }
        }
    }

    /// Returns the reason for a migration of a job; `None` if it may not migrate.
    pub(super) fn gain(&self, step: Step, member: &Member) -> Option<Gain> {
        let Step { from, to } = step;
        if self.is_improving() {
            let n_busy = |kind: usize, change| {
                let of_kind = &self.kinds[kind];
                self.loads[kind].n_busy(of_kind, change).min(of_kind.n_cores())
            };
            let n_left = n_busy(from, Change::None) - n_busy(from, Change::Without(member));
            let n_used = n_busy(to, Change::With(member)) - n_busy(to, Change::None);
            // The busy cores of the faster kind must not become fewer, and, with times, not those of both kinds.
            let leaves_idle = if step.is_down() { n_left != 0 } else { n_used < n_left };
            match (step.is_down(), self.fits(to, member)) {
                (true, _) if leaves_idle => return None,
                (true, true) if !member.is_held => return Some(Gain::IdleCores),
                (false, true) => {
                    let gains =
                        self.config.load == Load::Tasks || GAIN_MIN < self.time_gain(step, member);
                    return gains.then_some(Gain::IdleCores);
                }
                (false, false) if leaves_idle && self.config.load == Load::Time => return None,
                (_, false) | (true, true) => {}
            }
        }
        self.gain_of_load(step, member)
    }

    /// Returns the reason for the migration of a job by the loads of two kinds: the predicted gain exceeds the smallest
    /// gain; with `load=tasks`, the loads differ by more than beta permits, and the migration lowers the difference. As
    /// printed (`balance=always`), the last condition is absent.
    fn gain_of_load(&self, step: Step, member: &Member) -> Option<Gain> {
        if self.config.load == Load::Time {
            let gain = self.time_gain(step, member);
            let millionths = (gain * MILLION as f64).round() as u64;
            return (self.gain_min() < gain).then_some(Gain::Times(millionths));
        }
        let Step { from, to } = step;
        let loads = |(on_from, on_to): (u64, u64)| {
            let load = |n, kind: usize| u128::from(n) * u128::from(self.kinds[kind].n_cores());
            (load(on_from, to), load(on_to, from))
        };
        let (n_from, n_to, n) = (self.n_in(from), self.n_in(to), member.n_tasks);
        let (on_from, on_to) = loads((n_from, n_to));
        let (from_after, to_after) = loads((n_from - n, n_to + n));
        let (all, permitted) = (u128::from(MILLION), u128::from(MILLION - self.config.beta.0));
        let lowers = from_after.abs_diff(to_after) < on_from.abs_diff(on_to);
        let differ = on_to * all < on_from * permitted;
        (differ && (!self.is_improving() || lowers)).then_some(Gain::Load)
    }

    /// Returns by how much a migration shortens the times of all tasks, in times of one task.
    fn time_gain(&self, Step { from, to }: Step, member: &Member) -> f64 {
        self.log_times([(from, Change::None), (to, Change::None)], (member, from))
            - self.log_times(
                [(from, Change::Without(member)), (to, Change::With(member))],
                (member, to),
            )
    }

    /// Returns the smallest gain of a migration for balance, in times of one task.
    pub(super) fn gain_min(&self) -> f64 {
        GAIN_MIN.max(self.config.beta.0 as f64 / MILLION as f64)
    }

    /// Returns the sum of the logarithms of the predicted times of all tasks of two kinds, and of the waits of all kinds,
    /// with a job on the kind `on`;
    /// without the times of the other tasks alone, which are the same for each kind of the job. The geometric mean of
    /// the times is the shortest where the sum is the smallest.
    pub(super) fn log_times(
        &self,
        loads: [(usize, Change<'_>); 2],
        (member, on): (&Member, usize),
    ) -> f64 {
        let of_load = |(kind, change): (usize, Change<'_>)| {
            self.loads[kind].log_slowdown(&self.kinds[kind], change)
        };
        let [one, other] = loads.map(of_load);
        let time = relative_time(&self.kinds[0], &self.kinds[on], member.memory_share);
        one + other + self.log_waiting(loads) + member.n_tasks as f64 * libm::log(time)
    }

    /// Returns the sum of the logarithms of the times that tasks wait for saturated memory controllers. They are
    /// proportional to the misses of all running tasks: an approximation, as if all tasks used one controller.
    fn log_waiting(&self, loads: [(usize, Change<'_>); 2]) -> f64 {
        let change = |kind| loads.iter().find(|(of, _)| *of == kind).map(|(_, change)| *change);
        let of_kind = |(kind, load): (usize, &KindLoad)| {
            load.waiting(&self.kinds[kind], change(kind).unwrap_or(Change::None))
        };
        let of_kinds = self.loads.iter().enumerate().map(of_kind);
        let (waiting, misses) = of_kinds.fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        if waiting == 0.0 { 0.0 } else { waiting * libm::log(misses) }
    }
}
