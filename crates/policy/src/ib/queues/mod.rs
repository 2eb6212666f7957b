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
//! With more than two kinds, a task is compared with neighbouring kinds, from the fastest on: a task above the lowest
//! of the slower kind continues with the next pair. The pairs of a task are those of the kinds on which it may run.
//! Migrations for balance are between every pair of kinds; as printed, between neighbouring kinds.
//!
//! Two tasks with a counted phase are compared by their integrated behaviours, all others by their start values ([`By`]):
//! a counted value and one of a profile differ also for equal programs. As printed, by their integrated behaviours. Between
//! kinds whose capacities differ by at most 5 %, a task stays.
//!
//! As printed, the load of a kind is its tasks per core. The default balances predicted times instead: a task migrates
//! if this lowers the sum of the logarithms of all times, and so their geometric mean. The time of a task is
//!
//! ```text
//!   time alone on the kind × tasks on its CPU × slowdown by busy SMT siblings
//! ```
//!
//! The memory time of tasks that wait for a saturated memory controller ([`Member::waiting`]) is proportional to the
//! misses of all tasks that run at one time: if one shares its CPU, the others get its bandwidth.

mod balance;
mod loads;
mod member;
mod order;
mod restricted;
#[cfg(test)]
mod tests;
mod unit;

use std::collections::BTreeSet;
use std::sync::Arc;

use super::declaration::{Balance, Config, Load, StartValue};
use crate::core_kinds::{CoreKind, KindSet};
use crate::declaration::MILLION;
pub(super) use balance::{Balanced, Gain};
use balance::{GAIN_MIN, RESTRICTED_MAX};
use loads::{Change, KindLoad};
pub(super) use member::Member;
use member::{Pair, Step};
pub(super) use order::By;
use order::{Group, KindOrder};
pub(super) use unit::{Unit, Units};

/// Difference of integrated behaviour below which the remaining work decides. Chosen.
pub(super) const SIMILAR: u64 = MILLION / 20;

/// Jobs by kind, fastest first.
#[derive(Clone, Debug)]
pub(super) struct Queues {
    /// Kind and entry of each job or thread.
    members: Units<(usize, Member)>,
    /// The order of each kind. Empty until a decision needs it, because most turns need none.
    orders: Vec<KindOrder>,
    /// The pairs of kinds between which members may migrate for balance; empty as `orders`.
    pairs: BTreeSet<Pair>,
    loads: Vec<KindLoad>,
    kinds: Arc<[CoreKind]>,
    config: Config,
}

/// Rule by which a job got its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Below(Bound),
    Above(Bound),
    /// Between the kind `fast` and the next slower kind.
    Between {
        fast: usize,
        by: Between,
    },
    /// The behaviour requires another kind, which has about the same speed.
    NearlyEqual(Bound),
    OnlyKind,
}

/// The member with which a job was compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    /// Its behaviour in millionths.
    pub value: u64,
    pub by: By,
    pub kind: usize,
    /// Its remaining work decided between similar threads.
    pub is_of_similar: bool,
}

impl Bound {
    fn of(head: &Member, (kind, by): (usize, By)) -> Self {
        Bound { value: by.value(head), by, kind, is_of_similar: head.remaining.is_some() }
    }
}

/// What selects one of two kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Between {
    LowerLoad,
    /// The gain on the other kind is too small.
    Stays,
    /// The faster kind has an idle core.
    IdleFast,
    /// Only slower kinds have an idle core.
    IdleSlow,
    /// A job with a higher behaviour leaves the kind for an idle core of a slower kind.
    Left,
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

/// Migrations that can be undone.
pub(super) struct Proposed {
    /// The moved units with their previous kinds.
    moved: Vec<(Unit, usize)>,
    /// Migrations for balance after them.
    pub balanced: Vec<Balanced>,
}

impl Queues {
    pub fn new(
        kinds: Arc<[CoreKind]>,
        config: Config,
        members: impl Iterator<Item = (usize, Member)>,
    ) -> Self {
        let mut queues = Queues {
            members: Units::default(),
            orders: Vec::new(),
            pairs: BTreeSet::new(),
            loads: (0..kinds.len()).map(KindLoad::none).collect(),
            kinds,
            config,
        };
        members.for_each(|(kind, member)| queues.insert(kind, member));
        queues
    }

    pub fn insert(&mut self, kind: usize, member: Member) {
        self.loads[kind].add(&self.kinds[kind], &member);
        if let Some(order) = self.orders.get_mut(kind) {
            order.insert(&member);
            let pairs = self.pairs_of(member.possible);
            self.pairs.extend(pairs);
        }
        self.members.insert(member.unit, (kind, member));
    }

    /// Removes a job or thread. Returns its kind and entry.
    pub fn remove(&mut self, unit: Unit) -> Option<(usize, Member)> {
        let (kind, member) = self.members.remove(unit)?;
        self.loads[kind].subtract(&member);
        if let Some(order) = self.orders.get_mut(kind) {
            order.remove(&member);
        }
        Some((kind, member))
    }

    /// Moves a job or thread to a kind. Returns its previous kind.
    fn move_to(&mut self, unit: Unit, kind: usize) -> Option<usize> {
        let (was, member) = self.remove(unit)?;
        self.insert(kind, member);
        Some(was)
    }

    /// Moves units to kinds, and others for balance.
    pub fn propose(&mut self, units: &[(Unit, usize)]) -> Proposed {
        let moves = units.iter().filter(|(unit, kind)| self.kind_of(*unit) != Some(*kind));
        let moves: Vec<_> = moves.copied().collect();
        let moved = |(unit, kind)| Some((unit, self.move_to(unit, kind)?));
        let moved = moves.into_iter().filter_map(moved).collect();
        Proposed { moved, balanced: self.rebalance() }
    }

    /// Undoes the migrations of a proposal, the last one first.
    pub fn undo(&mut self, proposed: Proposed) {
        let balanced = proposed.balanced.iter().map(|moved| (moved.unit, moved.step.from));
        let moves: Vec<_> = proposed.moved.into_iter().chain(balanced).collect();
        moves.into_iter().rev().for_each(|(unit, kind)| _ = self.move_to(unit, kind));
    }

    /// Sorts the members of each kind, if they are not sorted.
    fn sort(&mut self) {
        if self.orders.is_empty() {
            let mut of_kinds = vec![Vec::new(); self.kinds.len()];
            self.members.values().for_each(|(kind, member)| of_kinds[*kind].push(member));
            self.orders = of_kinds.iter().map(|members| KindOrder::of(members)).collect();
            self.pairs = self.member_pairs();
        }
    }

    fn member_pairs(&self) -> BTreeSet<Pair> {
        let sets = self.members.values().map(|(_, member)| member.possible);
        let different: BTreeSet<KindSet> = sets.collect();
        different.into_iter().flat_map(|set| self.pairs_of(set)).collect()
    }

    /// Returns the kinds of a set between which a job may migrate for balance. As printed, they are neighbours. With
    /// three kinds, of which the second is full, the first would then stay idle while tasks share the third.
    fn pairs_of(&self, kinds: KindSet) -> impl Iterator<Item = Pair> + use<> {
        let n_slower = if self.is_improving() { usize::MAX } else { 1 };
        let fast = kinds.iter().enumerate();
        fast.flat_map(move |(idx, fast)| {
            kinds.iter().skip(idx + 1).take(n_slower).map(move |slow| Pair { fast, slow })
        })
    }

    /// Returns whether a job may migrate for balance between two kinds, and its tasks count.
    fn may_change(&self, member: &Member, pair: Pair) -> bool {
        let kinds = member.possible;
        let has_both = kinds.contains(pair.fast) && kinds.contains(pair.slow);
        let counts = has_both && member.n_tasks != 0 && !member.is_fixed;
        counts && (self.is_improving() || self.pairs_of(kinds).any(|of_job| of_job == pair))
    }

    /// Returns the number of tasks of each kind.
    pub fn n_tasks(&self) -> Vec<u64> {
        self.loads.iter().map(KindLoad::n_tasks).collect()
    }

    /// Returns the number of tasks of a kind.
    pub fn n_in(&self, kind: usize) -> u64 {
        self.loads[kind].n_tasks()
    }

    /// Returns the geometric mean of the predicted times of the tasks of a kind, relative to their times alone on it.
    pub fn mean_slowdown(&self, kind: usize) -> f64 {
        self.loads[kind].mean_slowdown(&self.kinds[kind])
    }

    /// Returns the number of cores of a kind that a job or thread in the queues may use.
    pub fn n_cores_for(&self, unit: Unit, kind: usize) -> u64 {
        let member = self.members.get(unit).map(|(_, member)| member);
        let of_kind = &self.kinds[kind];
        let restricted = member.and_then(|member| member.restricted_to(kind));
        restricted.map_or(of_kind.n_cores(), |cpus| of_kind.n_cores_of(cpus))
    }

    fn n_busy(&self, kind: usize) -> u64 {
        self.loads[kind].n_busy(&self.kinds[kind], Change::None)
    }

    /// Excludes units from migrations for balance.
    pub fn fix(&mut self, units: impl Iterator<Item = Unit>) {
        for unit in units {
            if let Some((_, member)) = self.members.get_mut(unit) {
                member.is_fixed = true;
            }
        }
    }

    /// Returns the kind of a job or thread.
    pub fn kind_of(&self, unit: Unit) -> Option<usize> {
        self.members.get(unit).map(|(kind, _)| *kind)
    }

    /// Inserts a job that is in no queue. `was` is its previous kind.
    pub fn reschedule(&mut self, member: Member, was: Option<usize>) -> Rescheduled {
        self.sort();
        let (kind, rule) = self.select(&member, was);
        let (arrived, possible) = (member.unit, member.possible);
        self.insert(kind, member);
        let (after, mut moves) = (self.n_tasks(), Vec::new());
        // A job between two kinds is on the kind with the lower load already: only the other pairs are balanced.
        let compared = match rule {
            Rule::Between { fast, .. } => {
                next_slower(possible, fast).map(|slow| Pair { fast, slow })
            }
            Rule::Below(_) | Rule::Above(_) | Rule::NearlyEqual(_) | Rule::OnlyKind => None,
        };
        let mut pairs = self.pairs.clone();
        pairs.retain(|pair| Some(*pair) != compared);
        let slower = pairs.iter().filter(|pair| kind <= pair.fast).map(|pair| pair.down());
        let faster = pairs.iter().rev().filter(|pair| pair.slow <= kind).map(|pair| pair.up());
        slower.chain(faster).for_each(|step| self.balance(step, Some(arrived), &mut moves));
        Rescheduled { kind, rule, after, moves }
    }

    /// Migrates jobs for balance after jobs ended or CPUs changed.
    pub fn rebalance(&mut self) -> Vec<Balanced> {
        let mut moves = Vec::new();
        if self.is_improving() {
            self.sort();
            let pairs = self.pairs.clone();
            let steps = || pairs.iter().map(|p| p.up()).chain(pairs.iter().map(|p| p.down()));
            // A migration can leave a core to a job of a third kind.
            for _ in 1..self.kinds.len() {
                let n_before = moves.len();
                steps().for_each(|step| self.balance(step, None, &mut moves));
                if moves.len() == n_before {
                    break;
                }
            }
        }
        moves
    }

    /// Returns whether a job migrates for balance only if that is an improvement.
    fn is_improving(&self) -> bool {
        self.config.balance == Balance::Improving
    }

    fn select(&self, member: &Member, was: Option<usize>) -> (usize, Rule) {
        let only = member.possible.iter().next().unwrap_or(0);
        let mut selected = (only, Rule::OnlyKind);
        let neighbours = member.possible.iter().zip(member.possible.iter().skip(1));
        for (fast, slow) in neighbours {
            // A job that would change its kind needs a margin.
            let up = if was.is_some_and(|was| fast < was) { self.config.margin.0 } else { 0 };
            let down = if was.is_some_and(|was| was <= fast) { self.config.margin.0 } else { 0 };
            let is_below = |bound: &Bound| bound.by.value(member).saturating_add(up) < bound.value;
            let is_above =
                |bound: &Bound| bound.value.saturating_add(down) < bound.by.value(member);
            let highest = self.bounds(member, |of| self.highest(fast, of, |_| true), fast);
            if let Some(bound) = highest.into_iter().flatten().find(is_below) {
                return self.for_behaviour(was, (fast, Rule::Below(bound)), bound);
            }
            let lowest = self.bounds(member, |of| self.lowest(slow, of, |_| true), slow);
            match lowest.into_iter().flatten().find(is_above) {
                Some(bound) => {
                    selected = self.for_behaviour(was, (slow, Rule::Above(bound)), bound);
                }
                None => {
                    let between = self.between(Pair { fast, slow }, member, was);
                    return match selected.1 {
                        Rule::NearlyEqual(bound) => self.for_behaviour(was, between, bound),
                        _ => between,
                    };
                }
            }
        }
        selected
    }

    /// Returns the kind for the behaviour of a job. Between kinds of nearly equal speed, a job that migrates and another
    /// one in exchange gain less than their difference: it stays.
    fn for_behaviour(
        &self,
        was: Option<usize>,
        (to, rule): (usize, Rule),
        bound: Bound,
    ) -> (usize, Rule) {
        let capacity = |kind: usize| f64::from(self.kinds[kind].capacity);
        let is_nearly_equal = |was: usize| {
            let differ = libm::log(capacity(was) / capacity(to)).abs();
            self.config.load == Load::Time && was != to && differ <= GAIN_MIN
        };
        match was.filter(|was| is_nearly_equal(*was)) {
            Some(was) => (was, Rule::NearlyEqual(bound)),
            None => (to, rule),
        }
    }

    /// Returns the members of a kind with which a job is compared: a job with a counted phase with others that have one
    /// by their integrated behaviours, all others by their start values. As printed, the integrated behaviours of all
    /// are compared.
    fn bounds<'q>(
        &'q self,
        member: &Member,
        end: impl Fn((By, Group)) -> Option<&'q Member>,
        kind: usize,
    ) -> [Option<Bound>; 2] {
        let of = |of: (By, Group)| end(of).map(|head| Bound::of(head, (kind, of.0)));
        match (self.compares_as_printed(), member.is_counted) {
            (true, _) => [of((By::Integrated, Group::All)), None],
            (false, true) => {
                [of((By::Integrated, Group::Counted)), of((By::Start, Group::Uncounted))]
            }
            (false, false) => [of((By::Start, Group::All)), None],
        }
    }

    fn compared_by(&self, one: &Member, other: &Member) -> By {
        match self.compares_as_printed() || one.is_counted && other.is_counted {
            true => By::Integrated,
            false => By::Start,
        }
    }

    fn compares_as_printed(&self) -> bool {
        self.config.unknown_start == StartValue::ZeroLocal
    }

    /// Selects between two kinds by their idle cores, then by their loads with the task. A job on one of them changes
    /// it only for the gain of a migration for balance.
    fn between(&self, pair: Pair, member: &Member, was: Option<usize>) -> (usize, Rule) {
        let Pair { fast, slow } = pair;
        let selected = |kind, by| (kind, Rule::Between { fast, by });
        // The gain of the slower kind.
        let gain = match self.config.load {
            Load::Time => {
                let (with, without) = (Change::With(member), Change::None);
                self.log_times([(fast, with), (slow, without)], (member, fast))
                    - self.log_times([(fast, without), (slow, with)], (member, slow))
            }
            Load::Tasks => 0.0,
        };
        if self.is_improving() && self.fits(fast, member) {
            let stays = was == Some(slow) && self.config.load == Load::Time && -GAIN_MIN <= gain;
            return match stays {
                true => selected(slow, Between::Stays),
                false => selected(fast, Between::IdleFast),
            };
        }
        let mut slower = member.possible.iter().filter(|kind| fast < *kind);
        let is_held = member.is_held && was.is_some_and(|was| was <= fast);
        let idle = slower.find(|kind| !is_held && self.fits(*kind, member));
        if let Some(idle) = idle.filter(|_| self.is_improving()) {
            // If a job on the kind `slow` has a higher behaviour, it migrates to the idle core, and this job gets its
            // core.
            let leaves = |other: &Member| {
                let by = self.compared_by(member, other);
                let may = self.may_change(other, Pair { fast: slow, slow: idle });
                may && !other.is_held
                    && other.n_tasks == member.n_tasks
                    && by.value(member) < by.value(other)
            };
            let mut others = self.members.values().filter(|(kind, _)| *kind == slow);
            let is_left = slow != idle && others.any(|(_, other)| leaves(other));
            return match is_left {
                true => selected(slow, Between::Left),
                false => selected(idle, Between::IdleSlow),
            };
        }
        let lower = match self.config.load {
            Load::Time if 0.0 < gain => slow,
            Load::Time => fast,
            Load::Tasks => self.fewer_per_core(pair),
        };
        match was.filter(|was| [fast, slow].contains(was) && *was != lower) {
            Some(was) if self.config.load == Load::Time && gain.abs() <= self.gain_min() => {
                selected(was, Between::Stays)
            }
            _ => selected(lower, Between::LowerLoad),
        }
    }

    /// Returns the kind with fewer tasks per core, of the kinds up to `fast` and all kinds from `slow` on.
    fn fewer_per_core(&self, Pair { fast, slow }: Pair) -> usize {
        let side = |kinds: std::ops::Range<usize>| {
            let n_tasks: u64 = kinds.clone().map(|kind| self.n_in(kind)).sum();
            let n_cores: u64 = self.kinds[kinds].iter().map(|kind| kind.n_cores()).sum();
            (u128::from(n_tasks), u128::from(n_cores))
        };
        let ((on_fast, fast_cores), (on_slow, slow_cores)) =
            (side(0..fast + 1), side(slow..self.kinds.len()));
        if on_slow * fast_cores < on_fast * slow_cores { slow } else { fast }
    }

    /// Returns whether a kind has an idle core for each task of a job on another kind.
    fn fits(&self, kind: usize, member: &Member) -> bool {
        self.loads[kind].fits(&self.kinds[kind], member)
    }

    /// Returns whether tasks of a kind share cores.
    fn is_shared(&self, kind: usize) -> bool {
        self.n_busy(kind).min(self.kinds[kind].n_cores()) < self.n_in(kind)
    }

    /// Returns whether a kind has an idle core while a job of another kind may migrate to it.
    pub fn leaves_core_idle(&self) -> bool {
        let has_idle = |kind: usize| self.n_busy(kind) < self.kinds[kind].n_cores();
        if !(0..self.kinds.len()).any(has_idle) {
            return false;
        }
        self.member_pairs().into_iter().any(|pair| {
            has_idle(pair.fast) && self.has_candidate(pair.up())
                || has_idle(pair.slow)
                    && self.is_shared(pair.fast)
                    && self.has_candidate(pair.down())
        })
    }

    /// Returns whether a job may migrate. Of jobs with equal CPU sets and numbers of tasks, only those with the smallest
    /// and the largest memory share are tried: a prediction for a restricted job is expensive.
    fn has_candidate(&self, step: Step) -> bool {
        let on_kind = self.members.values().filter(|(kind, _)| *kind == step.from);
        let may = on_kind.map(|(_, member)| member).filter(|m| self.may_change(m, step.pair()));
        let mut restricted: Vec<[&Member; 2]> = Vec::new();
        for member in may {
            if member.restricted.is_empty() {
                if self.gain(step, member).is_some() {
                    return true;
                }
                continue;
            }
            let is_equal = |of: &&mut [&Member; 2]| {
                of[0].n_tasks == member.n_tasks && of[0].restricted == member.restricted
            };
            let has_space = restricted.len() < RESTRICTED_MAX;
            match restricted.iter_mut().find(is_equal) {
                Some(of) if member.memory_share < of[0].memory_share => of[0] = member,
                Some(of) if of[1].memory_share < member.memory_share => of[1] = member,
                Some(_) => {}
                None if has_space => restricted.push([member; 2]),
                None => {}
            }
        }
        restricted.as_flattened().iter().any(|member| self.gain(step, member).is_some())
    }
}

/// Returns the kind after another one in a set, by decreasing capacity.
fn next_slower(kinds: KindSet, fast: usize) -> Option<usize> {
    kinds.iter().find(|kind| fast < *kind)
}
