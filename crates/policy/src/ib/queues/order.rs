//! The order of the members of a core kind.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::member::Member;
use super::unit::Unit;
use super::{Queues, SIMILAR};

/// Behaviour, arrival and unit.
type Key = (u64, u64, Unit);

/// A behaviour of members that they are compared by. Without a counted phase, the integrated behaviour is the start value
/// only. It can differ from that of an equal program with a counted phase, because the profile assumes an equal share of
/// the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ib) enum By {
    Integrated,
    Start,
}

impl By {
    const ALL: [By; 2] = [By::Integrated, By::Start];

    pub fn value(self, member: &Member) -> u64 {
        match self {
            By::Integrated => member.ib,
            By::Start => member.start,
        }
    }
}

/// Members with and without a counted phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Counted,
    Uncounted,
    All,
}

impl Group {
    fn has(self, is_counted: bool) -> bool {
        match self {
            Group::Counted => is_counted,
            Group::Uncounted => !is_counted,
            Group::All => true,
        }
    }
}

/// The members of a kind, by behaviour. Of equal members, the one that arrived first is the first in both directions.
#[derive(Clone, Debug, Default)]
pub(super) struct KindOrder {
    /// For each of [`By::ALL`], without and with a counted phase: a search of thousands of members for one of few would
    /// be slow.
    keys: [[BTreeSet<Key>; 2]; 2],
    /// The number of members that may use all CPUs of their kinds, by their number of tasks.
    n_of_size: BTreeMap<u64, u64>,
    n_restricted: u64,
}

impl KindOrder {
    pub fn of(members: &[&Member]) -> Self {
        let mut order = KindOrder::default();
        members.iter().for_each(|member| order.insert(member));
        order
    }

    pub fn insert(&mut self, member: &Member) {
        let is_counted = usize::from(member.is_counted);
        By::ALL
            .iter()
            .for_each(|&by| _ = self.keys[by as usize][is_counted].insert(key(by, member)));
        *self.count(member) += 1;
    }

    pub fn remove(&mut self, member: &Member) {
        let is_counted = usize::from(member.is_counted);
        By::ALL
            .iter()
            .for_each(|&by| _ = self.keys[by as usize][is_counted].remove(&key(by, member)));
        *self.count(member) -= 1;
    }

    fn count(&mut self, member: &Member) -> &mut u64 {
        match member.restricted.is_empty() {
            true => self.n_of_size.entry(member.n_tasks).or_default(),
            false => &mut self.n_restricted,
        }
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.keys[0].iter().map(BTreeSet::len).sum()
    }

    /// Returns the sets of a group.
    fn sets(&self, (by, group): (By, Group)) -> impl Iterator<Item = &BTreeSet<Key>> {
        let sets = [false, true].into_iter().zip(&self.keys[by as usize]);
        sets.filter(move |(is_counted, _)| group.has(*is_counted)).map(|(_, set)| set)
    }

    /// Returns whether a member may use some CPUs of a kind only.
    pub fn has_restricted(&self) -> bool {
        self.n_restricted != 0
    }

    /// Returns the numbers of tasks of the other members, if their tasks count.
    pub fn sizes(&self) -> impl Iterator<Item = u64> {
        self.n_of_size.iter().filter(|(size, n)| **size * **n != 0).map(|(size, _)| *size)
    }

    /// Returns the members whose behaviour differs from a value by less than [`SIMILAR`].
    fn similar(&self, of: (By, Group), value: u64) -> impl Iterator<Item = Unit> {
        let from = (value + 1).saturating_sub(SIMILAR);
        let sets = self.sets(of).map(move |set| set.range((from, 0, Unit::FIRST)..));
        let near = move |key: &&Key| key.0 < value.saturating_add(SIMILAR);
        sets.flat_map(move |set| set.take_while(near)).map(|(.., unit)| *unit)
    }
}

/// Returns the members of a set from the highest behaviour on; of equal ones, those that arrived first are first.
fn descending(keys: &BTreeSet<Key>) -> impl Iterator<Item = Unit> {
    let below = |value: &u64| Some(keys.range(..(*value, 0, Unit::FIRST)).next_back()?.0);
    let behaviours = std::iter::successors(keys.last().map(|key| key.0), below);
    let of_behaviour = |value| {
        let from = keys.range((value, 0, Unit::FIRST)..);
        from.take_while(move |key| key.0 == value)
    };
    behaviours.flat_map(of_behaviour).map(|(.., unit)| *unit)
}

fn key(by: By, member: &Member) -> Key {
    (by.value(member), member.arrived, member.unit)
}

impl Queues {
    /// Returns the job with the highest behaviour of a group of a kind, of those that meet a condition. Of threads with
    /// about the same behaviour, the one with the least remaining work.
    pub(super) fn highest(
        &self,
        kind: usize,
        of: (By, Group),
        may: impl Fn(&Member) -> bool,
    ) -> Option<&Member> {
        let first = |set| self.members_of(descending(set)).find(|member| may(member));
        let heads = self.orders[kind].sets(of).filter_map(first);
        let head = heads.min_by_key(|m| (Reverse(of.0.value(m)), m.arrived, m.unit))?;
        let similar = self.similar(kind, of, head).filter(|member| may(member));
        let order = |m: &&Member| (m.remaining, Reverse(of.0.value(m)), m.arrived, m.unit);
        similar.min_by_key(order).or(Some(head))
    }

    /// As [`Queues::highest`], with the lowest behaviour and the most remaining work.
    pub(super) fn lowest(
        &self,
        kind: usize,
        of: (By, Group),
        may: impl Fn(&Member) -> bool,
    ) -> Option<&Member> {
        let ascending = |set: &BTreeSet<Key>| {
            let mut members = self.members_of(set.iter().map(|(.., unit)| *unit));
            members.find(|member| may(member))
        };
        let heads = self.orders[kind].sets(of).filter_map(ascending);
        let head = heads.min_by_key(|m| (of.0.value(m), m.arrived, m.unit))?;
        let similar = self.similar(kind, of, head).filter(|member| may(member));
        let order = |m: &&Member| (Reverse(m.remaining), of.0.value(m), m.arrived, m.unit);
        similar.min_by_key(order).or(Some(head))
    }

    /// Returns the threads of a kind whose remaining work decides between them and the head of the queue; none if the
    /// remaining work of the head is unknown.
    fn similar(
        &self,
        kind: usize,
        of: (By, Group),
        head: &Member,
    ) -> impl Iterator<Item = &Member> {
        let value = of.0.value(head);
        let near = head.remaining.map(|_| self.orders[kind].similar(of, value));
        self.members_of(near.into_iter().flatten()).filter(|member| member.remaining.is_some())
    }

    fn members_of(&self, units: impl Iterator<Item = Unit>) -> impl Iterator<Item = &Member> {
        units.filter_map(|unit| self.members.get(unit)).map(|(_, member)| member)
    }
}
