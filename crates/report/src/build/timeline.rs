//! Where a job was: stretches of time, of which only changes are kept.
//!
//! A job that nobody binds may be seen on another CPU every quarter of a second. So each timeline has
//! room for so many stretches; when it is full, neighbours are put together two by two (their CPUs
//! are both told) and only every second change is looked at from then on, and so forth.

use std::collections::BTreeMap;

use base::{CpuSet, Nanos};

/// Sets that stand in many stretches are kept once.
#[derive(Debug, Default)]
pub(crate) struct Sets {
    list: Vec<CpuSet>,
    idx_of: BTreeMap<CpuSet, u32>,
}

/// Where a job was, over time.
#[derive(Debug)]
pub(crate) struct Timeline {
    stretches: Vec<Piece>,
    /// The last one goes on.
    open: bool,
    /// When it was started, the last time.
    began: Nanos,
    capacity: usize,
    /// A change that is not ours is taken in once so much time has gone by since the last.
    pause: Nanos,
    pub all: CpuSet,
}

/// A stretch; 24 bytes, since there may be very many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub from: Nanos,
    pub to: Nanos,
    /// Index into the sets; `UNKNOWN` if not known.
    cpus: u32,
    pub bound: bool,
}

const UNKNOWN: u32 = u32::MAX;

impl Sets {
    pub fn idx(&mut self, cpus: &CpuSet) -> u32 {
        if let Some(&idx) = self.idx_of.get(cpus) {
            return idx;
        }
        let idx = self.list.len() as u32;
        self.list.push(cpus.clone());
        self.idx_of.insert(cpus.clone(), idx);
        idx
    }

    pub fn get(&self, piece: &Piece) -> Option<&CpuSet> {
        self.list.get(piece.cpus as usize)
    }
}

impl Timeline {
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.max(8);
        let (stretches, all) = (Vec::new(), CpuSet::new());
        let (began, pause) = (Nanos::ZERO, Nanos::ZERO);
        Timeline { stretches, open: false, began, capacity, pause, all }
    }

    /// From here on it is there; `bound` if we put it there.
    pub fn be(&mut self, sets: &mut Sets, at: Nanos, cpus: Option<&CpuSet>, bound: bool) {
        if let Some(cpus) = cpus {
            self.all = self.all.or(cpus);
        }
        let idx = cpus.map_or(UNKNOWN, |cpus| sets.idx(cpus));
        if let Some(last) = self.stretches.last_mut().filter(|_| self.open) {
            last.to = last.to.max(at);
            if last.cpus == idx && last.bound == bound {
                return;
            }
            if last.from == at && self.began == at {
                (last.cpus, last.bound) = (idx, bound); // Bound in the instant of its start.
                return;
            }
            if last.cpus == UNKNOWN && last.bound == bound {
                last.cpus = idx; // It has not been seen before: it was there all the time.
                return;
            }
            if !bound && !last.bound && at.saturating_sub(last.from) < self.pause {
                last.cpus = sets.both(last.cpus, idx);
                return;
            }
        }
        if !self.open {
            self.began = at;
        }
        if self.stretches.len() == self.capacity {
            self.coarsen(sets);
        }
        self.stretches.push(Piece { from: at, to: at, cpus: idx, bound });
        self.open = true;
    }

    /// It ended.
    pub fn end(&mut self, at: Nanos) {
        if let Some(last) = self.stretches.last_mut().filter(|_| self.open) {
            last.to = last.to.max(at);
        }
        self.open = false;
    }

    /// Whether it runs.
    pub fn is_open(&self) -> bool {
        self.open
    }

    pub fn pieces(&self) -> &[Piece] {
        &self.stretches
    }

    /// Puts neighbours together until half of the room is free, or all that may be was.
    fn coarsen(&mut self, sets: &mut Sets) {
        let span = self.stretches.last().map_or(Nanos::ZERO, |last| last.to);
        self.pause = Nanos(self.pause.0.max(span.0 / self.capacity as u64).max(1) * 2);
        let mut kept: Vec<Piece> = Vec::with_capacity(self.capacity);
        for piece in self.stretches.drain(..) {
            match kept.last_mut() {
                Some(last) if last.to == piece.from && last.gives_way_to(&piece, self.pause) => {
                    last.cpus = sets.both(last.cpus, piece.cpus);
                    last.to = piece.to;
                }
                _ => kept.push(piece),
            }
        }
        if self.capacity <= kept.len() {
            kept.drain(..self.capacity / 2); // Nothing but real moves and restarts: keep the later ones.
        }
        self.stretches = kept;
    }
}

impl Piece {
    fn gives_way_to(&self, next: &Piece, pause: Nanos) -> bool {
        !self.bound && !next.bound && next.to.saturating_sub(self.from) <= pause
    }
}

impl Sets {
    fn both(&mut self, a: u32, b: u32) -> u32 {
        match (self.list.get(a as usize), self.list.get(b as usize)) {
            (Some(one), Some(other)) => {
                let both = one.or(other);
                self.idx(&both)
            }
            (Some(_), None) => a,
            (None, _) => b,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(number: u32) -> CpuSet {
        [base::CpuId(number)].into_iter().collect()
    }

    fn told(timeline: &Timeline, sets: &Sets) -> String {
        let tell = |piece: &Piece| {
            let cpus = sets.get(piece).map_or("?".to_owned(), ToString::to_string);
            let bound = if piece.bound { "!" } else { "" };
            format!("{}-{}:{cpus}{bound}", piece.from.0, piece.to.0)
        };
        timeline.pieces().iter().map(tell).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn only_changes_make_a_new_stretch() {
        let (mut sets, mut timeline) = (Sets::default(), Timeline::new(8));
        for (at, on) in [(0, 0), (10, 0), (20, 1), (30, 1)] {
            timeline.be(&mut sets, Nanos(at), Some(&cpu(on)), false);
        }
        timeline.be(&mut sets, Nanos(35), Some(&cpu(1)), true);
        timeline.end(Nanos(40));
        assert_eq!(told(&timeline, &sets), "0-20:0 20-35:1 35-40:1!");
    }

    #[test]
    fn a_job_that_is_bound_in_the_instant_of_its_start_was_never_anywhere_else() {
        let (mut sets, mut timeline) = (Sets::default(), Timeline::new(8));
        timeline.be(&mut sets, Nanos(5), None, false);
        timeline.be(&mut sets, Nanos(5), Some(&cpu(2)), true);
        timeline.end(Nanos(9));
        timeline.be(&mut sets, Nanos(9), Some(&cpu(3)), true);
        timeline.end(Nanos(12));
        assert_eq!(told(&timeline, &sets), "5-9:2! 9-12:3!");
    }

    #[test]
    fn a_job_that_is_first_seen_later_was_there_before() {
        let (mut sets, mut timeline) = (Sets::default(), Timeline::new(8));
        timeline.be(&mut sets, Nanos(5), None, false);
        timeline.be(&mut sets, Nanos(20), Some(&cpu(3)), false);
        timeline.end(Nanos(30));
        assert_eq!(told(&timeline, &sets), "5-30:3");
    }

    #[test]
    fn a_restless_job_keeps_its_span_and_its_cpus_in_bounded_room() {
        let (mut sets, mut timeline) = (Sets::default(), Timeline::new(16));
        for turn in 0..10_000u64 {
            timeline.be(&mut sets, Nanos(turn * 250), Some(&cpu((turn % 4) as u32)), false);
        }
        timeline.end(Nanos(2_500_000));
        assert!(timeline.pieces().len() <= 16);
        assert_eq!(timeline.pieces()[0].from, Nanos::ZERO);
        assert_eq!(timeline.pieces().last().map(|piece| piece.to), Some(Nanos(2_500_000)));
        assert_eq!(timeline.all.to_string(), "0-3");
        let gapless = timeline.pieces().windows(2).all(|pair| pair[0].to == pair[1].from);
        assert!(gapless, "{}", told(&timeline, &sets));
    }

    #[test]
    fn our_own_moves_are_kept_before_all_else() {
        let (mut sets, mut timeline) = (Sets::default(), Timeline::new(16));
        for turn in 0..1000u64 {
            let bound = turn % 100 == 0;
            timeline.be(&mut sets, Nanos(turn * 250), Some(&cpu((turn % 4) as u32)), bound);
        }
        let n_bound = timeline.pieces().iter().filter(|piece| piece.bound).count();
        assert!(4 <= n_bound, "{}", told(&timeline, &sets));
    }
}
