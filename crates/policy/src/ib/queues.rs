//! Queues of tasks by core kind, and the rescheduling algorithm.
//!
//! ```text
//!   fast    .05  .10  .30              slow    .40  .60  .90      integrated behaviour, ascending
//!                     highest                  lowest
//!
//!   t = .20   below the highest        → fast; while fast has too many tasks per core, its highest → slow
//!   t = .70   above the lowest         → slow; while fast has too few, the lowest of slow → fast
//!   t = .35   between both             → the kind with fewer tasks per core
//! ```
//!
//! With more than two kinds the algorithm is applied to neighbouring kinds, from the fastest on: a task above the lowest of
//! the slower kind continues with the next pair. Numbers of tasks are compared as products, without rounding.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use base::{JobId, TaskId};
use sched::Target;

use super::declaration::Balance;
use crate::core_kinds::KindJob;
use crate::declaration::MILLION;

/// Difference of integrated behaviour below which the remaining work decides. Chosen.
pub(super) const SIMILAR: u64 = MILLION / 20;

/// A whole job, or one thread of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Unit {
    pub job: JobId,
    /// `None`: the whole job.
    pub thread: Option<TaskId>,
}

impl Unit {
    /// The first unit in the order.
    const FIRST: Unit = Unit { job: JobId(0), thread: None };

    /// Returns the word for the unit in a sentence.
    pub fn noun(self) -> &'static str {
        if self.thread.is_some() { "thread" } else { "job" }
    }
}

impl From<JobId> for Unit {
    fn from(job: JobId) -> Self {
        Unit { job, thread: None }
    }
}

impl From<Unit> for Target {
    fn from(unit: Unit) -> Self {
        unit.thread.map_or(Target::Job(unit.job), Target::Task)
    }
}

impl From<&KindJob<'_>> for Unit {
    fn from(job: &KindJob<'_>) -> Self {
        let thread = match job.target {
            Target::Job(_) => None,
            Target::Task(task) => Some(task),
        };
        Unit { job: job.view.job.id, thread }
    }
}

/// A job or thread in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub unit: Unit,
    /// Integrated behaviour in millionths.
    pub ib: u64,
    /// Order of arrival. Of equal jobs, the earlier one is nearer to the head.
    pub arrived: u64,
    /// Number of tasks that count: 0 if the job sleeps.
    pub n_tasks: u64,
    /// Kinds on which the job may run.
    pub possible: Vec<usize>,
    /// Remaining work of a thread, with `lrt` only.
    pub remaining: Option<u64>,
}

impl Member {
    /// Returns whether a migration of the job to a kind changes the number of its tasks.
    fn may_move_to(&self, kind: usize) -> bool {
        self.n_tasks != 0 && self.possible.contains(&kind)
    }
}

/// Jobs by kind, fastest first.
#[derive(Clone, Debug)]
pub(super) struct Queues {
    /// Kind and entry of each job or thread.
    members: BTreeMap<Unit, (usize, Member)>,
    /// The order of each kind. Empty until a decision needs it, because most turns need none.
    orders: Vec<KindOrder>,
    n_tasks: Vec<u64>,
    n_cores: Vec<u64>,
    beta: u64,
    balance: Balance,
    margin: u64,
}

/// Integrated behaviour, arrival and unit: the order of a queue.
type Key = (u64, u64, Unit);

/// The members of a kind, by integrated behaviour. Of equal members, the one that arrived first is the first in both
/// directions.
#[derive(Clone, Debug, Default)]
struct KindOrder {
    ascending: BTreeSet<Key>,
    descending: BTreeSet<(Reverse<u64>, u64, Unit)>,
}

impl KindOrder {
    fn of(members: &[&Member]) -> Self {
        KindOrder {
            ascending: members.iter().map(|m| (m.ib, m.arrived, m.unit)).collect(),
            descending: members.iter().map(|m| (Reverse(m.ib), m.arrived, m.unit)).collect(),
        }
    }
}

/// Rule by which a job got its kind, with the compared value and its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Below {
        bound: u64,
        beside: usize,
    },
    Above {
        bound: u64,
        beside: usize,
    },
    /// Between the kind `fast` and the next slower kind.
    Between {
        fast: usize,
    },
    IdleCore {
        fast: usize,
    },
    OnlyKind,
}

/// A migration for balance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Balanced {
    pub unit: Unit,
    pub ib: u64,
    pub to: usize,
    /// The job migrates to a slower kind.
    pub is_down: bool,
    /// The faster kind had an idle core.
    pub to_idle_core: bool,
    /// Remaining work of a thread, if it decides between similar threads.
    pub remaining: Option<u64>,
    /// Numbers of tasks by kind, before and after.
    pub before: Vec<u64>,
    pub after: Vec<u64>,
}

impl Queues {
    pub fn new(n_cores: Vec<u64>, (beta, margin): (u64, u64), balance: Balance) -> Self {
        let (members, orders, n_tasks) = (BTreeMap::new(), Vec::new(), vec![0; n_cores.len()]);
        Queues { members, orders, n_tasks, n_cores, beta, balance, margin }
    }

    pub fn insert(&mut self, kind: usize, member: Member) {
        self.n_tasks[kind] += member.n_tasks;
        if let Some(order) = self.orders.get_mut(kind) {
            order.ascending.insert((member.ib, member.arrived, member.unit));
            order.descending.insert((Reverse(member.ib), member.arrived, member.unit));
        }
        self.members.insert(member.unit, (kind, member));
    }

    /// Removes a job or thread. Returns its kind and entry.
    pub fn remove(&mut self, unit: Unit) -> Option<(usize, Member)> {
        let (kind, member) = self.members.remove(&unit)?;
        self.n_tasks[kind] -= member.n_tasks;
        if let Some(order) = self.orders.get_mut(kind) {
            order.ascending.remove(&(member.ib, member.arrived, unit));
            order.descending.remove(&(Reverse(member.ib), member.arrived, unit));
        }
        Some((kind, member))
    }

    /// Sorts the members of each kind, if they are not sorted.
    fn sort(&mut self) {
        if self.orders.is_empty() {
            let mut of_kinds = vec![Vec::new(); self.n_cores.len()];
            self.members.values().for_each(|(kind, member)| of_kinds[*kind].push(member));
            self.orders = of_kinds.iter().map(|members| KindOrder::of(members)).collect();
        }
    }

    /// Returns the number of tasks of each kind.
    pub fn n_tasks(&self) -> Vec<u64> {
        self.n_tasks.clone()
    }

    fn n_in(&self, kind: usize) -> u64 {
        self.n_tasks[kind]
    }

    /// Returns the kind of a job or thread.
    pub fn kind_of(&self, unit: Unit) -> Option<usize> {
        self.members.get(&unit).map(|(kind, _)| *kind)
    }

    /// Returns the job with the highest integrated behaviour of a kind, of those that meet a condition. Of threads with
    /// about the same behaviour, the one with the least remaining work.
    fn highest(&self, kind: usize, may: impl Fn(&Member) -> bool) -> Option<&Member> {
        let mut in_order =
            self.orders[kind].descending.iter().map(|(.., unit)| &self.members[unit].1);
        let head = in_order.find(|m| may(m))?;
        let similar = self.similar(kind, head).filter(|m| may(m));
        similar.min_by_key(|m| (m.remaining, Reverse(m.ib), m.arrived, m.unit)).or(Some(head))
    }

    /// As [`Queues::highest`], with the lowest integrated behaviour and the most remaining work.
    fn lowest(&self, kind: usize, may: impl Fn(&Member) -> bool) -> Option<&Member> {
        let mut in_order =
            self.orders[kind].ascending.iter().map(|(.., unit)| &self.members[unit].1);
        let head = in_order.find(|m| may(m))?;
        let similar = self.similar(kind, head).filter(|m| may(m));
        similar.min_by_key(|m| (Reverse(m.remaining), m.ib, m.arrived, m.unit)).or(Some(head))
    }

    /// Returns the threads of a kind whose remaining work decides between them and the head of the queue; empty if the
    /// remaining work of the head is unknown.
    fn similar(&self, kind: usize, head: &Member) -> impl Iterator<Item = &Member> {
        let (ib, from) = (head.ib, (head.ib.saturating_sub(SIMILAR), 0, Unit::FIRST));
        let near = head.remaining.map(|_| self.orders[kind].ascending.range(from..));
        let near = near.into_iter().flatten().map(|(.., unit)| &self.members[unit].1);
        let near = near.take_while(move |m| m.ib < ib.saturating_add(SIMILAR));
        near.filter(move |m| m.remaining.is_some() && m.ib.abs_diff(ib) < SIMILAR)
    }

    /// Inserts a job that is in no queue. `was` is its previous kind. Returns its kind with the rule, and the migrations of
    /// other jobs for balance.
    pub fn reschedule(
        &mut self,
        member: Member,
        was: Option<usize>,
    ) -> (usize, Rule, Vec<Balanced>) {
        self.sort();
        let (kind, rule) = self.select(&member, was);
        let arrived = member.unit;
        self.insert(kind, member);
        let mut moves = Vec::new();
        // A job between two kinds is on the kind with fewer tasks per core already: only the other pairs are balanced.
        let (down, up) = match rule {
            Rule::Between { fast } | Rule::IdleCore { fast } => {
                (kind.max(fast + 1), kind.min(fast))
            }
            Rule::Below { .. } | Rule::Above { .. } | Rule::OnlyKind => (kind, kind),
        };
        (down..self.last()).for_each(|fast| self.shed(fast, Some(arrived), &mut moves));
        (0..up).rev().for_each(|fast| self.fill(fast, Some(arrived), &mut moves));
        (kind, rule, moves)
    }

    /// Migrates jobs for balance after jobs ended or CPUs changed.
    pub fn rebalance(&mut self) -> Vec<Balanced> {
        let mut moves = Vec::new();
        if self.balance == Balance::Improving {
            self.sort();
            (0..self.last()).rev().for_each(|fast| self.fill(fast, None, &mut moves));
            (0..self.last()).for_each(|fast| self.shed(fast, None, &mut moves));
        }
        moves
    }

    fn last(&self) -> usize {
        self.n_cores.len() - 1
    }

    fn select(&self, member: &Member, was: Option<usize>) -> (usize, Rule) {
        if let [only] = member.possible[..] {
            return (only, Rule::OnlyKind);
        }
        let (kind, rule) = self.select_of_all(member, was);
        let distance = |&other: &usize| (other.abs_diff(kind), other);
        (member.possible.iter().copied().min_by_key(distance).unwrap_or(kind), rule)
    }

    fn select_of_all(&self, member: &Member, was: Option<usize>) -> (usize, Rule) {
        let mut above = None;
        for fast in 0..self.last() {
            let slow = fast + 1;
            // A job that would change its kind needs a margin.
            let up = if was.is_some_and(|was| fast < was) { self.margin } else { 0 };
            let down = if was.is_some_and(|was| was <= fast) { self.margin } else { 0 };
            if let Some(bound) = self.highest(fast, |_| true).map(|head| head.ib)
                && member.ib.saturating_add(up) < bound
            {
                return (fast, Rule::Below { bound, beside: fast });
            }
            match self.lowest(slow, |_| true).map(|head| head.ib) {
                Some(bound) if bound.saturating_add(down) < member.ib => {
                    above = Some(Rule::Above { bound, beside: slow });
                }
                _ => return self.between(fast, member.n_tasks),
            }
        }
        (self.last(), above.unwrap_or(Rule::Between { fast: self.last() - 1 }))
    }

    /// Selects between a kind and the next slower kind by the tasks per core on both sides: the kinds up to `fast`, and all
    /// slower kinds.
    fn between(&self, fast: usize, n_tasks: u64) -> (usize, Rule) {
        let has_idle = self.n_in(fast) + n_tasks <= self.n_cores[fast];
        if self.balance == Balance::Improving && has_idle {
            return (fast, Rule::IdleCore { fast });
        }
        let side = |kinds: std::ops::Range<usize>| {
            let n_tasks: u64 = kinds.clone().map(|kind| self.n_in(kind)).sum();
            (u128::from(n_tasks), u128::from(self.n_cores[kinds].iter().sum::<u64>()))
        };
        let ((on_fast, fast_cores), (on_slow, slow_cores)) =
            (side(0..fast + 1), side(fast + 1..self.n_cores.len()));
        let kind = if on_slow * fast_cores < on_fast * slow_cores { fast + 1 } else { fast };
        (kind, Rule::Between { fast })
    }

    /// Returns whether a kind has an idle core while another kind has more tasks than cores, or a slower kind has a task
    /// that may run on the idle core.
    pub fn leaves_core_idle(&self) -> bool {
        let has_idle = |kind: usize| self.n_in(kind) < self.n_cores[kind];
        let may_move = |from: usize, to: usize| {
            self.members.values().any(|(kind, member)| *kind == from && member.may_move_to(to))
        };
        (0..self.last()).any(|fast| {
            let slow = fast + 1;
            has_idle(fast) && may_move(slow, fast)
                || has_idle(slow) && self.n_cores[fast] < self.n_in(fast)
        })
    }

    /// Migrates the highest jobs of a kind to the next slower kind while the kind has too many tasks per core.
    fn shed(&mut self, fast: usize, arrived: Option<Unit>, moves: &mut Vec<Balanced>) {
        let slow = fast + 1;
        for _ in 0..self.orders[fast].ascending.len() {
            let (on_fast, on_slow) = self.loads(fast);
            if on_fast * u128::from(MILLION - self.beta) <= on_slow * u128::from(MILLION) {
                return;
            }
            let Some(head) = self.highest(fast, |m| m.may_move_to(slow)) else { return };
            if self.balance == Balance::Improving
                && (Some(head.unit) == arrived
                    || self.n_in(fast) <= self.n_cores[fast]
                    || !self.improves(fast, head.n_tasks, 0))
            {
                return;
            }
            let unit = head.unit;
            self.migrate(unit, slow, false, moves);
        }
    }

    /// Migrates the lowest jobs of the next slower kind to a kind while the kind has too few tasks per core.
    fn fill(&mut self, fast: usize, arrived: Option<Unit>, moves: &mut Vec<Balanced>) {
        let slow = fast + 1;
        for _ in 0..self.orders[slow].ascending.len() {
            let (on_fast, on_slow) = self.loads(fast);
            let is_idle =
                self.balance == Balance::Improving && self.n_in(fast) < self.n_cores[fast];
            let has_too_few =
                on_fast * u128::from(MILLION) < on_slow * u128::from(MILLION - self.beta);
            if !has_too_few && !is_idle {
                return;
            }
            let Some(head) = self.lowest(slow, |m| m.may_move_to(fast)) else { return };
            let fits_idle = is_idle && self.n_in(fast) + head.n_tasks <= self.n_cores[fast];
            if self.balance == Balance::Improving
                && (Some(head.unit) == arrived
                    || !fits_idle && !self.improves(fast, 0, head.n_tasks))
            {
                return;
            }
            let unit = head.unit;
            self.migrate(unit, fast, fits_idle, moves);
        }
    }

    /// Returns the tasks of a kind and of the next slower kind, each multiplied by the cores of the other: comparing both
    /// compares tasks per core.
    fn loads(&self, fast: usize) -> (u128, u128) {
        let slow = fast + 1;
        let load = |kind: usize, other: usize| {
            u128::from(self.n_in(kind)) * u128::from(self.n_cores[other])
        };
        (load(fast, slow), load(slow, fast))
    }

    /// Returns whether moving tasks down or up between a kind and the next slower kind lowers their imbalance.
    fn improves(&self, fast: usize, down: u64, up: u64) -> bool {
        let slow = fast + 1;
        let imbalance = |on_fast: u64, on_slow: u64| {
            let load = |n: u64, cores: u64| u128::from(n) * u128::from(cores);
            load(on_fast, self.n_cores[slow]).abs_diff(load(on_slow, self.n_cores[fast]))
        };
        let (on_fast, on_slow) = (self.n_in(fast), self.n_in(slow));
        imbalance(on_fast - down + up, on_slow + down - up) < imbalance(on_fast, on_slow)
    }

    fn migrate(&mut self, unit: Unit, to: usize, to_idle_core: bool, moves: &mut Vec<Balanced>) {
        let before = self.n_tasks();
        let Some((from, member)) = self.remove(unit) else { return };
        let (ib, remaining) = (member.ib, member.remaining);
        self.insert(to, member);
        let (after, is_down) = (self.n_tasks(), from < to);
        moves.push(Balanced { unit, ib, to, is_down, to_idle_core, remaining, before, after });
    }
}
