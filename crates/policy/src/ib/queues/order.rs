//! The order of the members of a core kind.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::member::Member;
use super::unit::Unit;
use super::{Queues, SIMILAR};

/// Integrated behaviour, arrival and unit.
type Key = (u64, u64, Unit);

/// The members of a kind, by integrated behaviour. Of equal members, the one that arrived first is the first in both
/// directions.
#[derive(Clone, Debug, Default)]
pub(super) struct KindOrder {
    keys: BTreeSet<Key>,
    /// The number of members that may use all CPUs of their kinds, by their number of tasks.
    n_of_size: BTreeMap<u64, u64>,
    n_restricted: u64,
}

impl KindOrder {
    pub fn of(members: &[&Member]) -> Self {
        let keys = members.iter().map(|member| key(member)).collect();
        let mut order = KindOrder { keys, ..KindOrder::default() };
        members.iter().for_each(|member| *order.count(member) += 1);
        order
    }

    pub fn insert(&mut self, member: &Member) {
        self.keys.insert(key(member));
        *self.count(member) += 1;
    }

    pub fn remove(&mut self, member: &Member) {
        self.keys.remove(&key(member));
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
        self.keys.len()
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
    fn ascending(&self) -> impl Iterator<Item = Unit> {
        self.keys.iter().map(|(.., unit)| *unit)
    }

    /// Returns the members from the highest behaviour on; of equal ones, those that arrived first are first.
    fn descending(&self) -> impl Iterator<Item = Unit> {
        let below = |ib: &u64| Some(self.keys.range(..(*ib, 0, Unit::FIRST)).next_back()?.0);
        let behaviours = std::iter::successors(self.keys.last().map(|key| key.0), below);
        let of_behaviour = |ib| {
            let from = self.keys.range((ib, 0, Unit::FIRST)..);
            from.take_while(move |key| key.0 == ib)
        };
        behaviours.flat_map(of_behaviour).map(|(.., unit)| *unit)
    }

    /// Returns the members whose behaviour differs from a value by less than [`SIMILAR`], ascending.
    fn similar(&self, ib: u64) -> impl Iterator<Item = Unit> {
        let from = self.keys.range(((ib + 1).saturating_sub(SIMILAR), 0, Unit::FIRST)..);
        let near = from.take_while(move |key| key.0 < ib.saturating_add(SIMILAR));
        near.map(|(.., unit)| *unit)
    }
}

fn key(member: &Member) -> Key {
    (member.ib, member.arrived, member.unit)
}

impl Queues {
    /// Returns the job with the highest integrated behaviour of a kind, of those that meet a condition. Of threads with
    /// about the same behaviour, the one with the least remaining work.
    pub(super) fn highest(&self, kind: usize, may: impl Fn(&Member) -> bool) -> Option<&Member> {
        let head = self.members_of(self.orders[kind].descending()).find(|member| may(member))?;
        let similar = self.similar(kind, head).filter(|member| may(member));
        let order = |m: &&Member| (m.remaining, Reverse(m.ib), m.arrived, m.unit);
        similar.min_by_key(order).or(Some(head))
    }

    /// As [`Queues::highest`], with the lowest integrated behaviour and the most remaining work.
    pub(super) fn lowest(&self, kind: usize, may: impl Fn(&Member) -> bool) -> Option<&Member> {
        let head = self.members_of(self.orders[kind].ascending()).find(|member| may(member))?;
        let similar = self.similar(kind, head).filter(|member| may(member));
        let order = |m: &&Member| (Reverse(m.remaining), m.ib, m.arrived, m.unit);
        similar.min_by_key(order).or(Some(head))
    }

    /// Returns the threads of a kind whose remaining work decides between them and the head of the queue; none if the
    /// remaining work of the head is unknown.
    fn similar(&self, kind: usize, head: &Member) -> impl Iterator<Item = &Member> {
        let near = head.remaining.map(|_| self.orders[kind].similar(head.ib));
        self.members_of(near.into_iter().flatten()).filter(|member| member.remaining.is_some())
    }

    fn members_of(&self, units: impl Iterator<Item = Unit>) -> impl Iterator<Item = &Member> {
        units.filter_map(|unit| self.members.get(unit)).map(|(_, member)| member)
    }
}
