//! Queues of tasks by core kind, and the rescheduling algorithm.
//!
//! ```text
//!   fast    .05  .10  .30              slow    .40  .60  .90      integrated behaviour, ascending
//!                     highest                  lowest
//!
//!   t = .20   below the highest        → fast; while the load of fast is too high, its highest → slow
//!   t = .70   above the lowest         → slow; while the load of fast is too low, the lowest of slow → fast
//!   t = .35   between both             → the kind with the lower load
//! ```
//!
//! With more than two kinds the algorithm is applied to neighbouring kinds, from the fastest on: a task above the lowest of
//! the slower kind continues with the next pair.
//!
//! As printed, the load of a kind is its tasks per core. The default balances predicted times instead: a task migrates if
//! this lowers the sum of the logarithms of all times, which is the geometric mean. The time of a task is
//!
//! ```text
//!   time alone on the kind × tasks on its CPU × slowdown by busy SMT siblings
//! ```
//!
//! A task that waits for a saturated memory controller loses little if it shares its CPU, because another task then gets
//! its bandwidth: the second and third factor count for its core time only ([`Member::weight`]).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use base::{JobId, TaskId};
use sched::Target;

use super::declaration::{Balance, Config, Load};
use crate::core_kinds::{CoreKind, KindJob};
use crate::declaration::MILLION;

/// Difference of integrated behaviour below which the remaining work decides. Chosen.
pub(super) const SIMILAR: u64 = MILLION / 20;

/// Sum of the relative gains of all tasks above which a job migrates for balance: 5 % of the time of one task. Chosen: times
/// are estimates.
const GAIN_MIN: f64 = 0.05;

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
#[derive(Clone, Debug)]
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
    /// Relative time of the same work on each kind; above 0.
    pub times: Vec<f64>,
    /// How far its time depends on its share of a CPU, 0 to 1: a task that waits for a saturated memory controller does
    /// not need more CPU time.
    pub weight: f64,
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
    /// Sum of the weights of the tasks of each kind.
    weights: Vec<f64>,
    kinds: Vec<CoreKind>,
    config: Config,
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

/// The kind of a job that was rescheduled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rescheduled {
    pub kind: usize,
    pub rule: Rule,
    /// Numbers of tasks by kind with the job, before the migrations of other jobs.
    pub after: Vec<u64>,
    /// Migrations of other jobs for balance.
    pub moves: Vec<Balanced>,
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
    pub fn new(kinds: Vec<CoreKind>, config: Config) -> Self {
        let (members, orders, n_tasks) = (BTreeMap::new(), Vec::new(), vec![0; kinds.len()]);
        let weights = vec![0.0; kinds.len()];
        Queues { members, orders, n_tasks, weights, kinds, config }
    }

    pub fn insert(&mut self, kind: usize, member: Member) {
        self.n_tasks[kind] += member.n_tasks;
        self.weights[kind] += member.weight * member.n_tasks as f64;
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
        self.weights[kind] -= member.weight * member.n_tasks as f64;
        if let Some(order) = self.orders.get_mut(kind) {
            order.ascending.remove(&(member.ib, member.arrived, unit));
            order.descending.remove(&(Reverse(member.ib), member.arrived, unit));
        }
        Some((kind, member))
    }

    /// Sorts the members of each kind, if they are not sorted.
    fn sort(&mut self) {
        if self.orders.is_empty() {
            let mut of_kinds = vec![Vec::new(); self.kinds.len()];
            self.members.values().for_each(|(kind, member)| of_kinds[*kind].push(member));
            self.orders = of_kinds.iter().map(|members| KindOrder::of(members)).collect();
        }
    }

    /// Returns the number of tasks of each kind.
    pub fn n_tasks(&self) -> Vec<u64> {
        self.n_tasks.clone()
    }

    /// Returns the number of tasks of a kind.
    pub fn n_in(&self, kind: usize) -> u64 {
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

    /// Inserts a job that is in no queue. `was` is its previous kind.
    pub fn reschedule(&mut self, member: Member, was: Option<usize>) -> Rescheduled {
        self.sort();
        let (kind, rule) = self.select(&member, was);
        let arrived = member.unit;
        self.insert(kind, member);
        let (after, mut moves) = (self.n_tasks(), Vec::new());
        // A job between two kinds is on the kind with the lower load already: only the other pairs are balanced.
        let (down, up) = match rule {
            Rule::Between { fast } | Rule::IdleCore { fast } => {
                (kind.max(fast + 1), kind.min(fast))
            }
            Rule::Below { .. } | Rule::Above { .. } | Rule::OnlyKind => (kind, kind),
        };
        (down..self.last()).for_each(|fast| self.shed(fast, Some(arrived), &mut moves));
        (0..up).rev().for_each(|fast| self.fill(fast, Some(arrived), &mut moves));
        Rescheduled { kind, rule, after, moves }
    }

    /// Migrates jobs for balance after jobs ended or CPUs changed.
    pub fn rebalance(&mut self) -> Vec<Balanced> {
        let mut moves = Vec::new();
        if self.config.balance == Balance::Improving {
            self.sort();
            (0..self.last()).rev().for_each(|fast| self.fill(fast, None, &mut moves));
            (0..self.last()).for_each(|fast| self.shed(fast, None, &mut moves));
        }
        moves
    }

    fn last(&self) -> usize {
        self.kinds.len() - 1
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
            let up = if was.is_some_and(|was| fast < was) { self.config.margin.0 } else { 0 };
            let down = if was.is_some_and(|was| was <= fast) { self.config.margin.0 } else { 0 };
            if let Some(bound) = self.highest(fast, |_| true).map(|head| head.ib)
                && member.ib.saturating_add(up) < bound
            {
                return (fast, Rule::Below { bound, beside: fast });
            }
            match self.lowest(slow, |_| true).map(|head| head.ib) {
                Some(bound) if bound.saturating_add(down) < member.ib => {
                    above = Some(Rule::Above { bound, beside: slow });
                }
                _ => return self.between(fast, member),
            }
        }
        (self.last(), above.unwrap_or(Rule::Between { fast: self.last() - 1 }))
    }

    /// Selects between a kind and the next slower kind by their loads with the task.
    fn between(&self, fast: usize, member: &Member) -> (usize, Rule) {
        let improving = self.config.balance == Balance::Improving;
        if improving && self.fits(fast, member.n_tasks) {
            return (fast, Rule::IdleCore { fast });
        }
        let kind = match self.config.load {
            Load::Time => {
                let (f, s, n) = (self.n_in(fast), self.n_in(fast + 1), member.n_tasks);
                let on_fast = self.log_times(fast, (f + n, s), (member, fast));
                let on_slow = self.log_times(fast, (f, s + n), (member, fast + 1));
                let mut slower = fast + 1..self.kinds.len();
                let is_idle = improving && slower.any(|kind| self.fits(kind, n));
                if is_idle || on_slow < on_fast { fast + 1 } else { fast }
            }
            Load::Tasks => self.fewer_per_core(fast),
        };
        (kind, Rule::Between { fast })
    }

    /// Returns the kind with fewer tasks per core, of the kinds up to `fast` and all slower kinds.
    fn fewer_per_core(&self, fast: usize) -> usize {
        let side = |kinds: std::ops::Range<usize>| {
            let n_tasks: u64 = kinds.clone().map(|kind| self.n_in(kind)).sum();
            let n_cores: u64 = self.kinds[kinds].iter().map(|kind| kind.n_cores).sum();
            (u128::from(n_tasks), u128::from(n_cores))
        };
        let ((on_fast, fast_cores), (on_slow, slow_cores)) =
            (side(0..fast + 1), side(fast + 1..self.kinds.len()));
        if on_slow * fast_cores < on_fast * slow_cores { fast + 1 } else { fast }
    }

    /// Returns whether a kind has an idle core for each of some tasks.
    fn fits(&self, kind: usize, n_tasks: u64) -> bool {
        self.n_in(kind) + n_tasks <= self.kinds[kind].n_cores
    }

    /// Returns whether a kind has an idle core while another kind has more tasks than cores, or a slower kind has a task
    /// that may run on the idle core.
    pub fn leaves_core_idle(&self) -> bool {
        let has_idle = |kind: usize| self.n_in(kind) < self.kinds[kind].n_cores;
        let may_move = |from: usize, to: usize| {
            self.members.values().any(|(kind, member)| *kind == from && member.may_move_to(to))
        };
        (0..self.last()).any(|fast| {
            let slow = fast + 1;
            has_idle(fast) && may_move(slow, fast)
                || has_idle(slow) && self.kinds[fast].n_cores < self.n_in(fast)
        })
    }

    /// Migrates the highest jobs of a kind to the next slower kind while the load of the kind is too high.
    fn shed(&mut self, fast: usize, arrived: Option<Unit>, moves: &mut Vec<Balanced>) {
        let slow = fast + 1;
        let improving = self.config.balance == Balance::Improving;
        for _ in 0..self.orders[fast].ascending.len() {
            let Some(head) = self.highest(fast, |m| m.may_move_to(slow)) else { return };
            let is_overloaded = self.kinds[fast].n_cores < self.n_in(fast);
            let to_idle = improving && is_overloaded && self.fits(slow, head.n_tasks);
            let may_leave = !improving || (Some(head.unit) != arrived && is_overloaded);
            if !may_leave || !to_idle && !self.lowers_load(fast, head, true) {
                return;
            }
            let unit = head.unit;
            self.migrate(unit, slow, false, moves);
        }
    }

    /// Migrates the lowest jobs of the next slower kind to a kind while the load of the kind is too low.
    fn fill(&mut self, fast: usize, arrived: Option<Unit>, moves: &mut Vec<Balanced>) {
        let slow = fast + 1;
        let improving = self.config.balance == Balance::Improving;
        for _ in 0..self.orders[slow].ascending.len() {
            let Some(head) = self.lowest(slow, |m| m.may_move_to(fast)) else { return };
            let fits_idle = improving && self.fits(fast, head.n_tasks);
            let may_leave = !improving || Some(head.unit) != arrived;
            if !may_leave || !fits_idle && !self.lowers_load(fast, head, false) {
                return;
            }
            let unit = head.unit;
            self.migrate(unit, fast, fits_idle, moves);
        }
    }

    /// Returns whether the load of a kind and that of the next slower kind differ by more than beta permits, and whether
    /// migrating a job down or up lowers their difference. As printed (`balance=always`), the second condition is absent.
    fn lowers_load(&self, fast: usize, member: &Member, is_down: bool) -> bool {
        let (slow, n) = (fast + 1, member.n_tasks);
        let before = (self.n_in(fast), self.n_in(slow));
        let after = match is_down {
            true => (before.0 - n, before.1 + n),
            false => (before.0 + n, before.1 - n),
        };
        let improving = self.config.balance == Balance::Improving;
        match self.config.load {
            Load::Time => {
                let (from, to) = if is_down { (fast, slow) } else { (slow, fast) };
                let leaves_idle = !is_down && after.1 < self.kinds[slow].n_cores;
                let gain = self.log_times(fast, before, (member, from))
                    - self.log_times(fast, after, (member, to));
                let beta = self.config.beta.0 as f64 / MILLION as f64;
                !(improving && leaves_idle) && GAIN_MIN.max(beta) < gain
            }
            Load::Tasks => {
                let loads = |(on_fast, on_slow): (u64, u64)| {
                    let load =
                        |n, kind: usize| u128::from(n) * u128::from(self.kinds[kind].n_cores);
                    (load(on_fast, slow), load(on_slow, fast))
                };
                let ((on_fast, on_slow), (fast_after, slow_after)) = (loads(before), loads(after));
                let (of, than) = if is_down { (on_slow, on_fast) } else { (on_fast, on_slow) };
                let (all, permitted) =
                    (u128::from(MILLION), u128::from(MILLION - self.config.beta.0));
                of * all < than * permitted
                    && (!improving || fast_after.abs_diff(slow_after) < on_fast.abs_diff(on_slow))
            }
        }
    }

    /// Returns the sum of the logarithms of the predicted times of all tasks on two neighbouring kinds, with a job on the
    /// kind `on`; without the times of the other tasks alone, which are the same for each kind of the job. The geometric
    /// mean of the times is the shortest where the sum is the smallest.
    fn log_times(
        &self,
        fast: usize,
        (on_fast, on_slow): (u64, u64),
        (member, on): (&Member, usize),
    ) -> f64 {
        let own = member.weight * member.n_tasks as f64;
        let was_on = self.kind_of(member.unit);
        let beside = |kind: usize, n: u64| {
            let was = if was_on == Some(kind) { own } else { 0.0 };
            let is = if on == kind { own } else { 0.0 };
            let mean_weight = (self.weights[kind] - was + is) / n.max(1) as f64;
            mean_weight * self.kinds[kind].log_slowdown(n)
        };
        let alone = member.n_tasks as f64 * libm::log(member.times[on]);
        beside(fast, on_fast) + beside(fast + 1, on_slow) + alone
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Params;

    /// Returns the numbers of tasks after tasks of one behaviour started one after the other.
    fn started(kinds: &[CoreKind], n_tasks: u32, (times, weight): (&[f64], f64)) -> Vec<u64> {
        let params = Params::parse(&super::super::INFO, "ib").expect("accepted");
        let mut queues = Queues::new(kinds.to_vec(), Config::new(&params));
        for job in 0..n_tasks {
            queues.reschedule(member(job, 0, (times, weight)), None);
        }
        queues.n_tasks()
    }

    fn member(job: u32, ib: u64, (times, weight): (&[f64], f64)) -> Member {
        let possible = (0..times.len()).collect();
        Member {
            unit: JobId(job).into(),
            ib,
            arrived: job.into(),
            n_tasks: 1,
            possible,
            times: times.to_vec(),
            weight,
            remaining: None,
        }
    }

    #[test]
    fn a_much_slower_kind_gets_fewer_tasks() {
        let kinds = [CoreKind::test(1024, "0-3", 4, 1000), CoreKind::test(256, "4-7", 4, 1000)];
        // Equal times: two tasks per core. Four times slower: one on each slow core, the others on the fast ones.
        assert_eq!(started(&kinds, 16, (&[1.0, 1.0], 1.0)), [8, 8]);
        assert_eq!(started(&kinds, 16, (&[1.0, 4.0], 1.0)), [12, 4]);
        // No core is idle, even if its kind is slower than a shared fast core.
        assert_eq!(started(&kinds, 8, (&[1.0, 9.0], 1.0)), [4, 4]);
    }

    #[test]
    fn a_migration_for_balance_gains_more_than_beta() {
        let kinds = [CoreKind::test(1024, "0-1", 2, 1000), CoreKind::test(758, "2-3", 2, 1000)];
        // Five and three tasks: the last migration gains 0.37 of the time of one task.
        for (spec, expected) in [("ib[beta=0.3]", [4, 4]), ("ib[beta=0.4]", [5, 3])] {
            let params = Params::parse(&super::super::INFO, spec).expect("accepted");
            let mut queues = Queues::new(kinds.to_vec(), Config::new(&params));
            (0..5).for_each(|job| queues.insert(0, member(job, 0, (&[1.0, 1.16], 1.0))));
            (5..8).for_each(|job| queues.insert(1, member(job, MILLION, (&[1.0, 1.16], 1.0))));
            queues.rebalance();
            assert_eq!(queues.n_tasks(), expected, "{spec}");
        }
    }

    #[test]
    fn busy_siblings_count_as_slower_cpus() {
        let kinds = [CoreKind::test(1024, "0-3", 2, 1250), CoreKind::test(640, "4-7", 4, 1000)];
        assert_eq!(started(&kinds, 6, (&[1.0, 1.6], 1.0)), [2, 4]);
        // Beside a sibling the fast CPU is as slow as the slow CPU, so that each CPU gets as many tasks.
        assert_eq!(started(&kinds, 16, (&[1.0, 1.6], 1.0)), [8, 8]);
    }

    #[test]
    fn tasks_that_wait_for_a_saturated_memory_share_their_cpus_instead_of_computing_tasks() {
        let kinds = [CoreKind::test(1024, "0-3", 4, 1000), CoreKind::test(1024, "4-7", 4, 1000)];
        let with_weight_of_memory = |weight: f64| {
            let params = Params::parse(&super::super::INFO, "ib").expect("accepted");
            let mut queues = Queues::new(kinds.to_vec(), Config::new(&params));
            for job in 0..8 {
                queues.reschedule(member(job, 0, (&[1.0, 1.0], 1.0)), None);
                queues.reschedule(member(job + 8, MILLION, (&[1.0, 1.0], weight)), None);
            }
            queues.n_tasks()
        };
        assert_eq!(with_weight_of_memory(1.0), [8, 8]);
        let [computing, waiting] = with_weight_of_memory(0.1)[..] else { panic!("two kinds") };
        assert!(computing < waiting, "{computing} {waiting}");
    }
}
