//! Which process goes to which processor: the three steps, on counts of places.
//!
//! Nothing here is remembered from turn to turn: the whole map is made anew each time from homes,
//! penalties and misses, which are averages, and where they are alike everybody stays.
//!
//! ```text
//!   refine:  H = most pressure, L = least, D = press[H] - press[L]        ties: number
//!            of those on H, the lowest penalty first                      ties: already on L, number
//!              L has room             ─► it goes
//!              else the one on L that misses least, if it misses less and may go to H ─► they swap
//!            if the larger of both pressures shrinks; else the next; nobody: done
//! ```
//!
//! Each step makes the larger of two pressures smaller, so the steps come to an end.

use std::cmp::Reverse;

use sched::Snapshot;
use topology::Level;

use super::config::{Config, Refine};
use super::shown::{Home, Penalty};
use crate::places::{Company, Guest, Rooms};

/// A job and what is known of it.
#[derive(Clone, Debug)]
pub(super) struct Process<'s> {
    pub guest: Guest<'s>,
    pub home: Home,
    pub penalty: Penalty,
    /// Thousandths of a miss per 1000 instructions; `None` when nobody knows.
    pub mpki: Option<u64>,
}

/// Where a process goes, and which step said so last.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    pub to: usize,
    pub why: Why,
}

/// What decided.
#[derive(Clone, Debug)]
pub(super) enum Why {
    /// Its home had room, so many places of so many.
    Home { free: u32, places: u32 },
    /// Its home had none; the least loaded other processor had so many of so many taken.
    HomeFull { taken: u32, places: u32 },
    /// It is at home everywhere, and so where it is.
    Stays,
    /// The same of one that is nowhere yet.
    NoHome { taken: u32, places: u32 },
    /// No processor had room.
    Full { taken: u32, places: u32 },
    /// The third step.
    Pressure(Relief),
}

/// A move of the third step; processes by their index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Relief {
    pub from: usize,
    pub to: usize,
    /// Who goes.
    pub who: usize,
    /// Who comes instead, when there is no free place.
    pub partner: Option<usize>,
    /// Pressures before it.
    pub press: Ends,
    /// The largest penalty that the difference justifies, in thousandths.
    pub penalty_max: u64,
}

/// Pressures of the busiest and the least pressed processor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub high: u64,
    pub low: u64,
}

/// All three steps; pressure is what those press who stay where they are.
pub(super) fn map(
    config: &Config,
    seen: &Snapshot<'_>,
    company: &Company<'_>,
    processes: &[Process<'_>],
    pressure: Vec<u64>,
) -> Vec<Spot> {
    let mut map = Map {
        seen,
        processes,
        rooms: Rooms::of(seen, company),
        spots: vec![None; processes.len()],
        pressure,
    };
    for at in by_penalty(processes) {
        if let Some(spot) = map.nearest(at) {
            map.put(at, spot);
        }
    }
    if let Some(refine) = &config.refine {
        map.refine(refine);
    }
    // Every guest may be in some room, so every one has a spot.
    map.spots.into_iter().flatten().collect()
}

/// Indices, the highest penalty first.
fn by_penalty(processes: &[Process<'_>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..processes.len()).collect();
    order.sort_by_key(|&at| (Reverse(processes[at].penalty.permille), at));
    order
}

struct Map<'a, 's> {
    seen: &'a Snapshot<'a>,
    processes: &'a [Process<'s>],
    rooms: Rooms,
    spots: Vec<Option<Spot>>,
    pressure: Vec<u64>,
}

impl Map<'_, '_> {
    fn put(&mut self, at: usize, spot: Spot) {
        let process = &self.processes[at];
        self.rooms.enter(self.seen, &process.guest, spot.to);
        self.pressure[spot.to] = self.pressure[spot.to].saturating_add(process.presses());
        self.spots[at] = Some(spot);
    }

    fn take(&mut self, at: usize) {
        let process = &self.processes[at];
        let Some(spot) = self.spots[at].take() else { return };
        self.rooms.leave(self.seen, &process.guest, spot.to);
        self.pressure[spot.to] = self.pressure[spot.to].saturating_sub(process.presses());
    }

    /// The second step for one process.
    fn nearest(&self, at: usize) -> Option<Spot> {
        let Process { guest, home, .. } = &self.processes[at];
        let all = || 0..self.seen.domains.len();
        let is_home = |idx: &usize| {
            home.node.is_some_and(|node| self.seen.domains.get(*idx).node == Some(node))
        };
        let has_room = |idx: &usize| self.rooms.has_room(self.seen, guest, *idx);
        let may = |idx: &usize| Rooms::may(self.seen, guest, *idx);
        // Of several caches at home it stays in the one where it is.
        let stays = guest.now.filter(|idx| is_home(idx) && has_room(idx));
        let at_home = || self.emptiest(guest, all().filter(is_home).filter(has_room));
        if let Some(to) = stays.or_else(at_home) {
            let (free, places) = (self.rooms.free(to), self.rooms.places(to));
            return Some(Spot { to, why: Why::Home { free, places } });
        }
        // Who is at home everywhere is at home where it is.
        if let Some(to) = guest.now.filter(|idx| home.node.is_none() && has_room(idx)) {
            return Some(Spot { to, why: Why::Stays });
        }
        let with_room = self.emptiest(guest, all().filter(has_room));
        let to = with_room.or_else(|| self.rooms.emptiest(guest, all().filter(may)))?;
        let (taken, places) = (self.rooms.taken(to), self.rooms.places(to));
        let why = match (with_room, home.node) {
            (None, _) => Why::Full { taken, places },
            (Some(_), None) => Why::NoHome { taken, places },
            (Some(_), Some(_)) => Why::HomeFull { taken, places },
        };
        Some(Spot { to, why })
    }

    /// The emptiest of some places. Where these are caches or cores, many are alike: of those that are equally
    /// empty one is taken in which the fewest run who have not been mapped yet, so that nobody has to make
    /// room although others are idle.
    fn emptiest(&self, guest: &Guest<'_>, among: impl Iterator<Item = usize>) -> Option<usize> {
        if self.seen.domains.level() == Level::Node {
            return self.rooms.emptiest(guest, among);
        }
        let among: Vec<usize> = among.collect();
        let least = among.iter().copied().min_by(|&a, &b| self.rooms.compare(a, b))?;
        let alike = among.into_iter().filter(|&idx| self.rooms.compare(idx, least).is_eq());
        alike.min_by_key(|&idx| (self.n_waiting(guest, idx), guest.now != Some(idx), idx))
    }

    /// How many others run in a place and have not been mapped yet.
    fn n_waiting(&self, guest: &Guest<'_>, idx: usize) -> usize {
        let is_there = |(at, spot): &(usize, &Option<Spot>)| {
            let other = &self.processes[*at].guest;
            spot.is_none() && other.now == Some(idx) && other.job.job.id != guest.job.job.id
        };
        self.spots.iter().enumerate().filter(is_there).count()
    }

    /// The third step.
    fn refine(&mut self, refine: &Refine) {
        while let Some(relief) = self.next_relief(refine) {
            self.take(relief.who);
            relief.partner.into_iter().for_each(|other| self.take(other));
            self.put(relief.who, Spot { to: relief.to, why: Why::Pressure(relief) });
            if let Some(other) = relief.partner {
                self.put(other, Spot { to: relief.from, why: Why::Pressure(relief) });
            }
        }
    }

    /// What relieves the processor with the most pressure, if anything does.
    fn next_relief(&self, refine: &Refine) -> Option<Relief> {
        let n = self.pressure.len();
        let from = (0..n).rev().max_by_key(|&idx| self.pressure[idx])?;
        let to = (0..n).min_by_key(|&idx| self.pressure[idx])?;
        let press = Ends { high: self.pressure[from], low: self.pressure[to] };
        let difference = press.high - press.low;
        if difference <= refine.d_min_milli {
            return None;
        }
        let penalty_max = refine.penalty_max(difference);
        let may_go = |at: usize, to: usize| {
            let Process { guest, home, penalty, .. } = &self.processes[at];
            let is_home = home.node.is_none() || self.seen.domains.get(to).node == home.node;
            Rooms::may(self.seen, guest, to) && (is_home || penalty.permille <= penalty_max)
        };
        let mut candidates: Vec<usize> = self.on(from).filter(|&at| may_go(at, to)).collect();
        candidates.sort_by_key(|&at| {
            let Process { guest, penalty, .. } = &self.processes[at];
            (penalty.permille, guest.now != Some(to), at)
        });
        candidates.into_iter().find_map(|who| {
            let has_room = self.rooms.has_room(self.seen, &self.processes[who].guest, to);
            let partner = match (has_room, refine.swap) {
                (true, _) => None,
                (false, false) => return None,
                (false, true) => Some(self.partner(who, from, to, may_go)?),
            };
            let relief = Relief { from, to, who, partner, press, penalty_max };
            let left = relief.left(self.processes);
            (left.high.max(left.low) < press.high).then_some(relief)
        })
    }

    /// Who on `to` changes places with one on `from`: of those that miss less than it and may go, the one
    /// that misses least.
    fn partner(
        &self,
        who: usize,
        from: usize,
        to: usize,
        may_go: impl Fn(usize, usize) -> bool,
    ) -> Option<usize> {
        let guest = &self.processes[who].guest;
        let fits = |other: usize| {
            let theirs = &self.processes[other].guest;
            let need = |guest: &Guest<'_>, idx: usize| self.rooms.need(self.seen, guest, idx);
            need(guest, to) <= self.rooms.free(to) + need(theirs, to)
                && need(theirs, from) <= self.rooms.free(from) + need(guest, from)
        };
        let presses = |at: usize| self.processes[at].presses();
        let better = |other: &usize| presses(*other) < presses(who) && fits(*other);
        let partners = self.on(to).filter(better).filter(|&other| may_go(other, from));
        partners.min_by_key(|&other| (presses(other), other))
    }

    /// Who is mapped to a processor.
    fn on(&self, idx: usize) -> impl Iterator<Item = usize> + '_ {
        let is_there = move |spot: &Option<Spot>| spot.as_ref().is_some_and(|spot| spot.to == idx);
        self.spots.iter().enumerate().filter(move |(_, spot)| is_there(spot)).map(|(at, _)| at)
    }
}

impl Process<'_> {
    /// What it adds to a processor's pressure; nothing when nobody knows.
    fn presses(&self) -> u64 {
        self.mpki.unwrap_or(0).saturating_mul(u64::from(self.guest.threads))
    }
}

impl Refine {
    /// 1 + k × difference, in thousandths.
    fn penalty_max(&self, difference_milli: u64) -> u64 {
        let more = u128::from(difference_milli) * u128::from(self.k_millionths) / 1_000_000;
        u64::try_from(more).unwrap_or(u64::MAX).saturating_add(1000)
    }
}

impl Relief {
    /// Pressures after it.
    pub fn left(&self, processes: &[Process<'_>]) -> Ends {
        let goes = processes[self.who].presses();
        let comes = self.partner.map_or(0, |other| processes[other].presses());
        Ends {
            high: self.press.high.saturating_sub(goes).saturating_add(comes),
            low: self.press.low.saturating_sub(comes).saturating_add(goes),
        }
    }
}
