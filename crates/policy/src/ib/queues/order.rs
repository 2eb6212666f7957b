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

/// The members of a kind, by behaviour. Of equal members, the one that arrived first is the first in both directions.
#[derive(Clone, Debug, Default)]
pub(super) struct KindOrder {
    /// For each of [`By::ALL`].
    keys: [BTreeSet<Key>; 2],
    /// The number of members that may use all CPUs of their kinds, by their number of tasks.
    n_of_size: BTreeMap<u64, u64>,
    n_restricted: u64,
    /// The number of members with a counted phase.
    n_counted: usize,
}

impl KindOrder {
    pub fn of(members: &[&Member]) -> Self {
        let keys = By::ALL.map(|by| members.iter().map(|member| key(by, member)).collect());
        let mut order = KindOrder { keys, ..KindOrder::default() };
        members.iter().for_each(|member| *order.count(member) += 1);
        order.n_counted = members.iter().filter(|member| member.is_counted).count();
        order
    }

    pub fn insert(&mut self, member: &Member) {
        By::ALL.iter().for_each(|&by| _ = self.keys[by as usize].insert(key(by, member)));
        *self.count(member) += 1;
        self.n_counted += usize::from(member.is_counted);
    }

    pub fn remove(&mut self, member: &Member) {
        By::ALL.iter().for_each(|&by| _ = self.keys[by as usize].remove(&key(by, member)));
        *self.count(member) -= 1;
        self.n_counted -= usize::from(member.is_counted);
    }

    fn count(&mut self, member: &Member) -> &mut u64 {
        match member.restricted.is_empty() {
            true => self.n_of_size.entry(member.n_tasks).or_default(),
            false => &mut self.n_restricted,
        }
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.keys[0].len()
    }

    /// Returns whether all members have a counted phase, and whether one has.
    pub fn counted(&self) -> (bool, bool) {
        (self.n_counted == self.len(), self.n_counted != 0)
    }

    /// Returns whether a member may use some CPUs of a kind only.
    pub fn has_restricted(&self) -> bool {
        self.n_restricted != 0
    }

    /// Returns the numbers of tasks of the other members, if their tasks count.
    pub fn sizes(&self) -> impl Iterator<Item = u64> {
        self.n_of_size.iter().filter(|(size, n)| **size * **n != 0).map(|(size, _)| *size)
    }

    /// Returns the members from the lowest behaviour on.
    fn ascending(&self, by: By) -> impl Iterator<Item = Unit> {
        self.keys[by as usize].iter().map(|(.., unit)| *unit)
    }

    /// Returns the members from the highest behaviour on; of equal ones, those that arrived first are first.
    fn descending(&self, by: By) -> impl Iterator<Item = Unit> {
        let keys = &self.keys[by as usize];
        let below = |value: &u64| Some(keys.range(..(*value, 0, Unit::FIRST)).next_back()?.0);
        let behaviours = std::iter::successors(keys.last().map(|key| key.0), below);
        let of_behaviour = |value| {
            let from = keys.range((value, 0, Unit::FIRST)..);
            from.take_while(move |key| key.0 == value)
        };
        behaviours.flat_map(of_behaviour).map(|(.., unit)| *unit)
    }

    /// Returns the members whose behaviour differs from a value by less than [`SIMILAR`], ascending.
    fn similar(&self, by: By, value: u64) -> impl Iterator<Item = Unit> {
        let from = (value + 1).saturating_sub(SIMILAR);
        let from = self.keys[by as usize].range((from, 0, Unit::FIRST)..);
        let near = from.take_while(move |key| key.0 < value.saturating_add(SIMILAR));
        near.map(|(.., unit)| *unit)
    }
}

fn key(by: By, member: &Member) -> Key {
    (by.value(member), member.arrived, member.unit)
}

impl Queues {
    /// Returns the job with the highest behaviour of a kind, of those that meet a condition. Of threads with about the
    /// same behaviour, the one with the least remaining work.
    pub(super) fn highest(
        &self,
        (kind, by): (usize, By),
        may: impl Fn(&Member) -> bool,
    ) -> Option<&Member> {
        let mut members = self.members_of(self.orders[kind].descending(by));
        let head = members.find(|member| may(member))?;
        let similar = self.similar((kind, by), head).filter(|member| may(member));
        let order = |m: &&Member| (m.remaining, Reverse(by.value(m)), m.arrived, m.unit);
        similar.min_by_key(order).or(Some(head))
    }

    /// As [`Queues::highest`], with the lowest behaviour and the most remaining work.
    pub(super) fn lowest(
        &self,
        (kind, by): (usize, By),
        may: impl Fn(&Member) -> bool,
    ) -> Option<&Member> {
        let mut members = self.members_of(self.orders[kind].ascending(by));
        let head = members.find(|member| may(member))?;
        let similar = self.similar((kind, by), head).filter(|member| may(member));
        let order = |m: &&Member| (Reverse(m.remaining), by.value(m), m.arrived, m.unit);
        similar.min_by_key(order).or(Some(head))
    }

    /// Returns the threads of a kind whose remaining work decides between them and the head of the queue; none if the
    /// remaining work of the head is unknown.
    fn similar(&self, (kind, by): (usize, By), head: &Member) -> impl Iterator<Item = &Member> {
        let value = by.value(head);
        let near = head.remaining.map(|_| self.orders[kind].similar(by, value));
        self.members_of(near.into_iter().flatten()).filter(|member| member.remaining.is_some())
    }

    fn members_of(&self, units: impl Iterator<Item = Unit>) -> impl Iterator<Item = &Member> {
        units.filter_map(|unit| self.members.get(unit)).map(|(_, member)| member)
    }
}
