//! Rooms with places in them, which is what policies count in that map programs to domains.
//!
//! ```text
//!   node 0   [a][b][ ][ ]      a core is a place, and a job needs one for each of its threads
//!   node 1   [c][c][c][d]      with more threads than cores in all, each core is as many places
//!                              as that takes, one layer over the other
//! ```
//!
//! First who goes into which room, by counting places ([`Rooms`]); then who sits where in it
//! ([`seat`]). A job that stays in its room keeps its CPUs unless it shares a core there while another
//! core is idle. Cores with the fewest programs come first, of their siblings the emptiest, then the
//! lowest number. One with more threads than its room has places takes the whole room and, where rooms
//! are caches or cores, further CPUs of the node, and stays there: no other room would hold it better.
//!
//! Jobs that are not ours to place take up their places and stay where they are.

use std::cmp::Ordering;

use base::{CoreId, CpuId, CpuSet};
use sched::{JobState, JobView, Snapshot};
use topology::{Level, Machine};

use crate::common;

/// A job that is ours to place in a room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guest<'s> {
    pub job: &'s JobView<'s>,
    /// How many places it wants.
    pub threads: u32,
    /// The room that it is in; `None` when it is due, when its CPUs went away, and when it is not known.
    pub now: Option<usize>,
    /// Whether it was put there, by CPUs that are still there.
    pub is_bound: bool,
}

/// All jobs of a turn.
#[derive(Debug, Default)]
pub(crate) struct Company<'s> {
    /// Those that are ours to place, by id.
    pub guests: Vec<Guest<'s>>,
    /// Those that stay where they are.
    pub fixed: Vec<&'s JobView<'s>>,
}

/// How full each domain is.
#[derive(Clone, Debug)]
pub(crate) struct Rooms {
    list: Vec<Room>,
    layers: u32,
}

#[derive(Clone, Copy, Debug)]
struct Room {
    places: u32,
    taken: u32,
}

impl<'s> Company<'s> {
    /// Who is to be placed, and who stays. A job that may use none of the CPUs that there are is
    /// neither.
    pub fn of(seen: &'s Snapshot<'_>) -> Self {
        let mut company = Company::default();
        for job in seen.jobs {
            let stays = !job.movable || common::is_stretched(seen, job);
            let has_room = seen.domains.iter().any(|(_, d)| d.cpus.intersects(job.allowed));
            let is_lost = common::has_lost_its_place(job, seen.usable_cpus);
            if job.state == JobState::Running && stays && !is_lost {
                company.fixed.push(job);
            } else if job.movable && has_room {
                company.guests.push(guest(job, is_lost));
            }
        }
        company
    }

    fn n_threads(&self, domains: &topology::Domains) -> u32 {
        let of_guests: u32 = self.guests.iter().map(|guest| guest.threads).sum();
        let in_rooms = |cpu: &CpuId| domains.of_cpu(*cpu).is_some();
        let placed = self.fixed.iter().filter_map(|job| job.placed);
        let of_fixed: usize = placed.map(|cpus| cpus.iter().filter(in_rooms).count()).sum();
        of_guests.saturating_add(u32::try_from(of_fixed).unwrap_or(u32::MAX))
    }
}

fn guest<'s>(job: &'s JobView<'s>, is_lost: bool) -> Guest<'s> {
    let now = job.domain.filter(|_| job.state == JobState::Running && !is_lost);
    let is_bound = now.is_some() && job.placed.is_some();
    Guest { job, threads: job.job.threads.max(1), now, is_bound }
}

impl Guest<'_> {
    /// Whether a guest has these CPUs already.
    pub fn keeps(&self, cpus: &CpuSet) -> bool {
        self.is_bound && self.job.placed.is_some_and(|placed| placed == cpus)
    }

    /// The CPUs that it had and that cannot be used any more.
    pub fn gone(&self) -> Option<&CpuSet> {
        let is_lost = self.job.state == JobState::Running && self.now.is_none();
        self.job.placed.filter(|_| is_lost)
    }
}

impl Rooms {
    /// Rooms in which only those sit that stay.
    pub fn of(seen: &Snapshot<'_>, company: &Company<'_>) -> Self {
        let cores: Vec<u32> =
            seen.domains.iter().map(|(_, d)| n_cores(seen.machine, &d.cpus)).collect();
        let n_cores = cores.iter().sum::<u32>().max(1);
        let layers = company.n_threads(seen.domains).div_ceil(n_cores).max(1);
        let room = |cores: u32| Room { places: cores.saturating_mul(layers), taken: 0 };
        let mut rooms = Rooms { list: cores.into_iter().map(room).collect(), layers };
        for cpus in company.fixed.iter().filter_map(|job| job.placed) {
            for idx in cpus.iter().filter_map(|cpu| seen.domains.of_cpu(cpu)) {
                rooms.list[idx].taken += 1;
            }
        }
        rooms
    }

    /// How many places a room has.
    pub fn places(&self, idx: usize) -> u32 {
        self.list[idx].places
    }

    /// How many of them are taken; more than there are when it is overfull.
    pub fn taken(&self, idx: usize) -> u32 {
        self.list[idx].taken
    }

    /// How many of them are not.
    pub fn free(&self, idx: usize) -> u32 {
        let Room { places, taken } = self.list[idx];
        places.saturating_sub(taken)
    }

    /// How many places a guest would take in a room; none where it may not be.
    pub fn need(&self, seen: &Snapshot<'_>, guest: &Guest<'_>, idx: usize) -> u32 {
        let cpus = &seen.domains.get(idx).cpus;
        // Nearly every job may use all of every room.
        if cpus.is_subset(guest.job.allowed) {
            return guest.threads.min(self.places(idx));
        }
        let possible = cpus.and(guest.job.allowed);
        guest.threads.min(n_cores(seen.machine, &possible).saturating_mul(self.layers))
    }

    /// Whether a guest may be in a room at all.
    pub fn may(seen: &Snapshot<'_>, guest: &Guest<'_>, idx: usize) -> bool {
        seen.domains.get(idx).cpus.intersects(guest.job.allowed)
    }

    /// Whether there is room for a guest.
    pub fn has_room(&self, seen: &Snapshot<'_>, guest: &Guest<'_>, idx: usize) -> bool {
        Rooms::may(seen, guest, idx) && self.need(seen, guest, idx) <= self.free(idx)
    }

    /// A guest comes into a room.
    pub fn enter(&mut self, seen: &Snapshot<'_>, guest: &Guest<'_>, idx: usize) {
        self.list[idx].taken += self.need(seen, guest, idx);
    }

    /// A guest leaves it.
    pub fn leave(&mut self, seen: &Snapshot<'_>, guest: &Guest<'_>, idx: usize) {
        let need = self.need(seen, guest, idx);
        self.list[idx].taken = self.list[idx].taken.saturating_sub(need);
    }

    /// Which of two rooms has the smaller part of its places taken.
    pub fn compare(&self, a: usize, b: usize) -> Ordering {
        let (a, b) = (self.list[a], self.list[b]);
        let of = |one: Room, other: Room| u64::from(one.taken) * u64::from(other.places);
        of(a, b).cmp(&of(b, a))
    }

    /// Of some rooms the one with the smallest part of its places taken; of equals the one that a
    /// guest is in, then the lowest number.
    pub fn emptiest(&self, guest: &Guest<'_>, among: impl Iterator<Item = usize>) -> Option<usize> {
        among.min_by(|&a, &b| {
            let is_elsewhere = |idx| guest.now != Some(idx);
            let by_load = self.compare(a, b);
            by_load.then(is_elsewhere(a).cmp(&is_elsewhere(b))).then(a.cmp(&b))
        })
    }
}

/// How many programs are on each CPU and on each core.
#[derive(Clone, Debug)]
pub(crate) struct Seats {
    core_of: Vec<Option<CoreId>>,
    on_cpu: Vec<u32>,
    on_core: Vec<u32>,
}

/// The CPUs of each guest in the room that it is mapped to.
pub(crate) fn seat(seen: &Snapshot<'_>, company: &Company<'_>, rooms: &[usize]) -> Vec<CpuSet> {
    let mut seats = Seats::new(seen.machine);
    company.fixed.iter().filter_map(|job| job.placed).for_each(|cpus| seats.sit(cpus));
    let limits = limits(seen, company, rooms);
    let mut chosen: Vec<CpuSet> = vec![CpuSet::new(); rooms.len()];
    let mut standing = Vec::new();
    for (at, guest) in company.guests.iter().enumerate() {
        match kept(seen, guest, rooms[at]).filter(|cpus| seats.fit(cpus, limits[rooms[at]])) {
            Some(cpus) => {
                seats.sit(&cpus);
                chosen[at] = cpus;
            }
            None => standing.push(at),
        }
    }
    // Who has the least choice chooses first.
    let n_possible = |at: usize| possible(seen, &company.guests[at], rooms[at]).len();
    standing.sort_by_cached_key(|&at| (n_possible(at), at));
    for at in standing {
        chosen[at] = seats.choose(seen, &company.guests[at], rooms[at]);
        seats.sit(&chosen[at]);
    }
    chosen
}

/// How many programs a core of each room has to bear.
fn limits(seen: &Snapshot<'_>, company: &Company<'_>, rooms: &[usize]) -> Vec<u32> {
    let mut full = Rooms::of(seen, company);
    for (guest, &idx) in company.guests.iter().zip(rooms) {
        full.enter(seen, guest, idx);
    }
    let cores = |idx: usize| (full.places(idx) / full.layers).max(1);
    (0..full.list.len()).map(|idx| full.taken(idx).div_ceil(cores(idx)).max(1)).collect()
}

fn possible(seen: &Snapshot<'_>, guest: &Guest<'_>, idx: usize) -> CpuSet {
    seen.domains.get(idx).cpus.and(guest.job.allowed)
}

/// The CPUs that a guest has in a room already, if they are enough for it.
fn kept(seen: &Snapshot<'_>, guest: &Guest<'_>, idx: usize) -> Option<CpuSet> {
    let is_there = guest.is_bound && guest.now == Some(idx);
    let cpus = guest.job.placed.filter(|_| is_there)?.and(seen.usable_cpus);
    let possible = possible(seen, guest, idx);
    let enough = possible.len().min(guest.threads as usize) <= cpus.len();
    (enough && cpus.is_subset(&possible)).then_some(cpus)
}

impl Seats {
    /// Nobody sits anywhere.
    pub fn new(machine: &Machine) -> Self {
        let n_cpus = machine.cpus().last().map_or(0, |cpu| cpu.id.index() + 1);
        let n_cores = machine.cores().last().map_or(0, |core| core.id.index() + 1);
        let mut core_of = vec![None; n_cpus];
        machine.cpus().iter().for_each(|cpu| core_of[cpu.id.index()] = cpu.core);
        Seats { core_of, on_cpu: vec![0; n_cpus], on_core: vec![0; n_cores] }
    }

    /// Whether nobody was put on a CPU.
    pub fn is_free(&self, cpu: CpuId) -> bool {
        self.on(cpu).1 == 0
    }

    /// A program comes to these CPUs.
    pub fn sit(&mut self, cpus: &CpuSet) {
        self.change(cpus, |n| *n += 1);
    }

    /// A program goes away from them.
    pub fn rise(&mut self, cpus: &CpuSet) {
        self.change(cpus, |n| *n = n.saturating_sub(1));
    }

    fn change(&mut self, cpus: &CpuSet, change: fn(&mut u32)) {
        for cpu in cpus.iter() {
            let core = self.core(cpu);
            self.on_cpu.get_mut(cpu.index()).map(change);
            core.and_then(|core| self.on_core.get_mut(core.index())).map(change);
        }
    }

    fn core(&self, cpu: CpuId) -> Option<CoreId> {
        self.core_of.get(cpu.index()).copied().flatten()
    }

    /// How many programs are on a CPU's core, and on it.
    pub fn on(&self, cpu: CpuId) -> (u32, u32) {
        let on_cpu = self.on_cpu.get(cpu.index()).copied().unwrap_or(0);
        let on_core = self.core(cpu).and_then(|core| self.on_core.get(core.index()).copied());
        (on_core.unwrap_or(on_cpu), on_cpu)
    }

    /// Whether no core of these would bear more programs than it has to.
    fn fit(&mut self, cpus: &CpuSet, limit: u32) -> bool {
        self.crowding(cpus).0 <= limit
    }

    /// CPUs in a room for a guest, those that it has unless others are emptier.
    fn choose(&mut self, seen: &Snapshot<'_>, guest: &Guest<'_>, idx: usize) -> CpuSet {
        let possible = possible(seen, guest, idx);
        let wanted = guest.threads as usize;
        let best = self.emptiest(&possible, wanted);
        if let Some(kept) = kept(seen, guest, idx)
            && self.crowding(&kept) <= self.crowding(&best)
        {
            return kept;
        }
        let n_missing = wanted.saturating_sub(possible.len());
        if n_missing == 0 || seen.domains.level() == Level::Node {
            return best;
        }
        best.or(&self.emptiest(&common::beside(seen, guest.job, &possible), n_missing))
    }

    /// How crowded some CPUs are if one more program comes to them: the crowd of the worst, then the
    /// sum of all.
    fn crowding(&mut self, cpus: &CpuSet) -> (u32, u32) {
        self.sit(cpus);
        let on = || cpus.iter().map(|cpu| self.on(cpu).0);
        let crowding = (on().max().unwrap_or(0), on().sum());
        self.rise(cpus);
        crowding
    }

    /// The `n` emptiest of some CPUs, one after the other: each that is taken crowds its core.
    pub fn emptiest(&self, cpus: &CpuSet, n: usize) -> CpuSet {
        if n <= 1 {
            let best = cpus.iter().min_by_key(|&cpu| (self.on(cpu), cpu));
            return best.filter(|_| n == 1).into_iter().collect();
        }
        let mut with = self.clone();
        let (mut left, mut taken) = (cpus.clone(), CpuSet::new());
        while taken.len() < n
            && let Some(best) = left.iter().min_by_key(|&cpu| (with.on(cpu), cpu))
        {
            left.remove(best);
            taken.insert(best);
            with.sit(&CpuSet::from_iter([best]));
        }
        taken
    }
}

/// How many cores some CPUs lie on; a CPU whose core is not told counts as one.
pub(crate) fn n_cores(machine: &Machine, cpus: &CpuSet) -> u32 {
    let is_first = |cpu: &CpuId| {
        let core = machine.cpu(*cpu).and_then(|cpu| machine.core(cpu.core?));
        core.is_none_or(|core| core.cpus.and(cpus).first() == Some(*cpu))
    };
    u32::try_from(cpus.iter().filter(is_first).count()).unwrap_or(u32::MAX)
}
