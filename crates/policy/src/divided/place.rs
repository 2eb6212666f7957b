//! Which group goes to which sockets.
//!
//! ```text
//!   n1, n2, n3 threads of each group, K sockets
//!   n1 > 0, n2 > 0      A = the first sockets that hold n1, at least one and never all; B = the others
//!                         1 ─► A     2 ─► B     3 ─► B, then A               (cases 1 and 3)
//!                         2 that find no room ─► A, beside the 1 with the least full queues
//!                         1 that find no room ─► the socket of B with the fewest 2
//!   n1 > 0, n2 = 0      1 evenly over all, 3 where there is room             (case 2)
//!   n1 = 0              all evenly over all
//! ```
//!
//! Isolation pays only where there is something to isolate from: with `guard` and a threshold, cases 1 and
//! 3 need that the full queues of Group 1, spread over all sockets, come to more than `guard × th_sq` on
//! each. If not, Group 1 is spread evenly, Group 2 goes where fewest of it are, and Group 3 fills the rest.
//!
//! With `keep` a job stays where it is as long as that fits; spreading then moves only whom it must to make
//! it more even. Jobs of which nothing is known yet stay where they are.

use base::CpuSet;
use sched::Snapshot;

use super::classes::{Group, Told};
use super::config::Config;
use crate::places::{Company, Guest, Rooms};

/// A job and what is known of it.
#[derive(Clone, Debug)]
pub(super) struct Member<'s> {
    pub guest: Guest<'s>,
    /// `None` until it has shown what it does.
    pub group: Option<Group>,
    pub told: Told,
}

/// Where a job goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub to: usize,
    pub why: Why,
}

/// As what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// On the side of its group.
    Side,
    /// Spread evenly with its like.
    Even,
    /// Where there was room.
    Fills,
    /// Its side was full.
    Overflow,
    /// It came between two periods.
    Comes,
    /// It is there, and nothing is to be said of it yet.
    Stays,
}

/// What the sockets are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Roles {
    pub case: Case,
    /// Threads of each group, and of those of which nothing is known.
    pub n: [u64; 4],
    /// The full queues of Group 1 on each socket if it were spread, and what they would have to
    /// exceed.
    pub guard: Option<(u64, u64)>,
}

/// How they are parted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    /// So many sockets for Group 1, the others for the rest.
    Apart { k1: usize },
    /// There is nobody to be kept from Group 1.
    NobodyHurt,
    /// Group 1 does too little.
    TooLittle,
    /// There is no Group 1.
    NobodyHurts,
    /// There is only one socket.
    OneSocket,
}

/// The sockets while they fill up.
pub(super) struct Board<'a, 's> {
    config: &'a Config,
    seen: &'a Snapshot<'a>,
    members: &'a [Member<'s>],
    rooms: Rooms,
    spots: Vec<Option<Spot>>,
}

impl<'a, 's> Board<'a, 's> {
    pub fn new(
        config: &'a Config,
        seen: &'a Snapshot<'a>,
        company: &Company<'_>,
        members: &'a [Member<'s>],
    ) -> Self {
        let rooms = Rooms::of(seen, company);
        Board { config, seen, members, rooms, spots: vec![None; members.len()] }
    }

    /// Where everybody goes; all have a spot once the board was filled.
    pub fn spots(&self) -> Vec<Spot> {
        self.spots.iter().copied().flatten().collect()
    }

    /// Parts the sockets anew.
    pub fn divide(&mut self) -> Roles {
        let roles = self.roles();
        let all: Vec<usize> = (0..self.seen.domains.len()).collect();
        let [one, two, three, unknown] = self.by_group();
        match roles.case {
            Case::Apart { k1 } => {
                let (a, b) = all.split_at(k1);
                self.part(a, b, &one, &two);
                self.stay(&unknown);
                let left = self.fill(&three, b, Why::Side);
                self.fill_up(left, a);
            }
            Case::NobodyHurt => {
                self.spread(&one, &all);
                self.stay(&unknown);
                self.fill_up(three, &all);
            }
            Case::TooLittle => {
                self.spread(&one, &all);
                self.beside_fewest(&two, &one);
                self.stay(&unknown);
                self.fill_up(three, &all);
            }
            Case::NobodyHurts | Case::OneSocket => {
                let mut everybody = [one, two, three, unknown].concat();
                everybody.sort_unstable();
                self.spread(&everybody, &all);
            }
        }
        self.let_in(Some(&roles));
        roles
    }

    /// Places those that have no spot: whoever is somewhere stays there, who comes goes where there is most
    /// room among the sockets for its group.
    pub fn let_in(&mut self, roles: Option<&Roles>) {
        let left = |board: &Self| {
            (0..board.members.len()).filter(|&at| board.spots[at].is_none()).collect()
        };
        let left: Vec<usize> = left(self);
        let (stay, come): (Vec<usize>, Vec<usize>) =
            left.into_iter().partition(|&at| self.members[at].guest.now.is_some());
        for at in stay {
            if let Some(now) = self.members[at].guest.now {
                self.put(at, now, Why::Stays);
            }
        }
        for at in come {
            let n_rooms = self.seen.domains.len();
            let side = match (roles.map(|roles| roles.case), self.members[at].group) {
                (Some(Case::Apart { k1 }), Some(Group::One)) => 0..k1,
                (Some(Case::Apart { k1 }), Some(_)) => k1..n_rooms,
                _ => 0..n_rooms,
            };
            let guest = &self.members[at].guest;
            let with_room = |idx: &usize| self.rooms.has_room(self.seen, guest, *idx);
            let may = |idx: &usize| Rooms::may(self.seen, guest, *idx);
            let on_side = self.rooms.emptiest(guest, side.filter(with_room));
            let anywhere = || self.rooms.emptiest(guest, (0..n_rooms).filter(with_room));
            let crowded = || self.rooms.emptiest(guest, (0..n_rooms).filter(may));
            if let Some(to) = on_side.or_else(anywhere).or_else(crowded) {
                self.put(at, to, Why::Comes);
            }
        }
    }

    fn roles(&self) -> Roles {
        let n = self.by_group().map(|group| group.iter().map(|&at| self.threads(at)).sum());
        let n_rooms = self.seen.domains.len();
        let guard = self.guard(n_rooms);
        let case = match n {
            _ if n_rooms < 2 => Case::OneSocket,
            [0, ..] => Case::NobodyHurts,
            [_, 0, ..] => Case::NobodyHurt,
            _ if guard.is_some_and(|(each, least)| each <= least) => Case::TooLittle,
            [n1, ..] => Case::Apart { k1: self.k1(n1) },
        };
        Roles { case, n, guard }
    }

    /// How many sockets Group 1 needs.
    fn k1(&self, n1: u64) -> usize {
        let n_rooms = self.seen.domains.len();
        let mut held = 0;
        let enough = (0..n_rooms).position(|idx| {
            held += u64::from(self.rooms.places(idx));
            n1 <= held
        });
        enough.map_or(n_rooms, |idx| idx + 1).clamp(1, n_rooms - 1)
    }

    fn guard(&self, n_rooms: usize) -> Option<(u64, u64)> {
        let (factor, th_sq) = (self.config.guard_permille?, self.config.th_sq?);
        let ones = self.members.iter().filter(|member| member.group == Some(Group::One));
        let sum = ones.map(|member| u128::from(member.told.sq)).sum::<u128>();
        let least = u128::from(th_sq) * u128::from(factor) / 1000;
        let whole = |value: u128| u64::try_from(value).unwrap_or(u64::MAX);
        Some((whole(sum / n_rooms.max(1) as u128), whole(least)))
    }

    /// Members of Groups 1, 2 and 3, and those of none yet.
    fn by_group(&self) -> [Vec<usize>; 4] {
        let of = |group: Option<Group>| {
            (0..self.members.len()).filter(|&at| self.members[at].group == group).collect()
        };
        [Some(Group::One), Some(Group::Two), Some(Group::Three), None].map(of)
    }

    fn threads(&self, at: usize) -> u64 {
        u64::from(self.members[at].guest.threads)
    }

    fn put(&mut self, at: usize, to: usize, why: Why) {
        self.rooms.enter(self.seen, &self.members[at].guest, to);
        self.spots[at] = Some(Spot { to, why });
    }

    /// Threads of some members in each socket.
    fn n_there(&self, members: &[usize]) -> Vec<u64> {
        let mut n = vec![0; self.seen.domains.len()];
        for &at in members {
            self.spots[at].into_iter().for_each(|spot| n[spot.to] += self.threads(at));
        }
        n
    }

    /// Group 1 to A, Group 2 to B, and whoever finds no room to the other side.
    fn part(&mut self, a: &[usize], b: &[usize], one: &[usize], two: &[usize]) {
        let ones_left = self.fill(one, a, Why::Side);
        let twos_left = self.fill(two, b, Why::Side);
        for at in twos_left {
            let least_loud = |&idx: &usize| {
                let there = one.iter().filter(|&&at| self.spots[at].is_some_and(|s| s.to == idx));
                (there.map(|&at| self.members[at].told.sq).min(), idx)
            };
            if let Some(to) = self.with_room(at, a).min_by_key(least_loud) {
                self.put(at, to, Why::Overflow);
            }
        }
        let n_two = self.n_there(two);
        for at in ones_left {
            let n_two = |&idx: &usize| (n_two[idx], idx);
            if let Some(to) = self.with_room(at, b).min_by_key(n_two) {
                self.put(at, to, Why::Overflow);
            }
        }
    }

    fn with_room<'b>(&'b self, at: usize, among: &'b [usize]) -> impl Iterator<Item = usize> + 'b {
        let guest = &self.members[at].guest;
        among.iter().copied().filter(move |&idx| self.rooms.has_room(self.seen, guest, idx))
    }

    /// Those that may stay, and who they are not.
    fn keep(&mut self, members: &[usize], among: &[usize], why: Why) -> Vec<usize> {
        let mut others = Vec::new();
        for &at in members {
            let now =
                self.members[at].guest.now.filter(|now| self.config.keep && among.contains(now));
            match now.filter(|&now| self.rooms.has_room(self.seen, &self.members[at].guest, now)) {
                Some(now) => self.put(at, now, why),
                None => others.push(at),
            }
        }
        others
    }

    /// Those of which nothing is known stay where they are, if there is room.
    fn stay(&mut self, members: &[usize]) {
        for &at in members {
            let guest = &self.members[at].guest;
            let room = |&now: &usize| self.rooms.has_room(self.seen, guest, now);
            if let Some(now) = guest.now.filter(room) {
                self.put(at, now, Why::Stays);
            }
        }
    }

    /// Fills some sockets in turn: the one with the fewest of the same members next. Tells who found no
    /// room.
    fn fill(&mut self, members: &[usize], among: &[usize], why: Why) -> Vec<usize> {
        let mut left = Vec::new();
        let others = self.keep(members, among, why);
        let mut n = self.n_there(members);
        for at in others {
            let key = |&a: &usize, &b: &usize| {
                n[a].cmp(&n[b]).then(self.rooms.compare(a, b)).then(a.cmp(&b))
            };
            match self.with_room(at, among).min_by(key) {
                Some(to) => {
                    self.put(at, to, why);
                    n[to] += self.threads(at);
                }
                None => left.push(at),
            }
        }
        left
    }

    /// The same of those that go wherever most room is; who finds none is let in last.
    fn fill_up(&mut self, members: Vec<usize>, among: &[usize]) {
        for at in self.keep(&members, among, Why::Fills) {
            let guest = &self.members[at].guest;
            if let Some(to) = self.rooms.emptiest(guest, self.with_room(at, among)) {
                self.put(at, to, Why::Fills);
            }
        }
    }

    /// Group 2 where the fewest of Group 1 are, while Group 1 is everywhere.
    fn beside_fewest(&mut self, two: &[usize], one: &[usize]) {
        let n_one = self.n_there(one);
        for &at in two {
            let is_elsewhere =
                |idx: usize| self.config.keep && self.members[at].guest.now != Some(idx);
            let key = |&a: &usize, &b: &usize| {
                let by_one = n_one[a].cmp(&n_one[b]);
                let by_stay = is_elsewhere(a).cmp(&is_elsewhere(b));
                by_one.then(by_stay).then(self.rooms.compare(a, b)).then(a.cmp(&b))
            };
            let all: Vec<usize> = (0..self.seen.domains.len()).collect();
            let to = self.with_room(at, &all).min_by(key);
            if let Some(to) = to {
                self.put(at, to, Why::Fills);
            }
        }
    }

    /// Evenly over some sockets.
    fn spread(&mut self, members: &[usize], among: &[usize]) {
        self.fill(members, among, Why::Even);
        while self.config.keep
            && let Some((at, to)) = self.more_even(members, among)
        {
            if let Some(spot) = self.spots[at].take() {
                self.rooms.leave(self.seen, &self.members[at].guest, spot.to);
            }
            self.put(at, to, Why::Even);
        }
    }

    /// Who makes the fullest socket and another one more even by going there, if anybody does. The larger
    /// of both counts shrinks, so this comes to an end.
    fn more_even(&self, members: &[usize], among: &[usize]) -> Option<(usize, usize)> {
        let n = self.n_there(members);
        let n = |idx: usize| n[idx];
        let fullest = among.iter().copied().rev().max_by_key(|&idx| n(idx))?;
        let mut others: Vec<usize> = among.iter().copied().filter(|&idx| idx != fullest).collect();
        others.sort_by_key(|&idx| (n(idx), idx));
        let there = |at: &&usize| self.spots[**at].is_some_and(|spot| spot.to == fullest);
        others.into_iter().find_map(|to| {
            let better = |at: &&usize| n(to) + self.threads(**at) < n(fullest);
            let fits = |at: &&usize| self.rooms.has_room(self.seen, &self.members[**at].guest, to);
            let mut all = members.iter().filter(there).filter(better).filter(fits);
            all.next().map(|&at| (at, to))
        })
    }
}

impl Roles {
    /// The sockets of Group 1, and those of the others; `None` when they are not parted.
    pub fn sides(&self, seen: &Snapshot<'_>) -> Option<(CpuSet, CpuSet)> {
        let Case::Apart { k1 } = self.case else { return None };
        let cpus = |from: usize, to: usize| {
            (from..to).fold(CpuSet::new(), |all, idx| all.or(&seen.domains.get(idx).cpus))
        };
        Some((cpus(0, k1), cpus(k1, seen.domains.len())))
    }
}
