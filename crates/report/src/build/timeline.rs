//! CPUs of a job over time: segments, one per change.
//!
//! Each sample of an unbound job, four times a second, may show another CPU. Therefore the number of segments is
//! limited. At the limit, adjacent segments are merged (with the union of their CPUs), and the minimum length of later
//! segments increases, at most to the length of the run. This repeats each time the limit is reached.

use std::collections::BTreeMap;

use base::{CpuSet, Nanos};

/// Interned CPU sets: many segments have equal CPUs.
#[derive(Debug, Default)]
pub(crate) struct CpuSets {
    list: Vec<CpuSet>,
    idx_of: BTreeMap<CpuSet, u32>,
}

/// The segments of one job.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    segments: Vec<Segment>,
    /// Whether the last segment has no end yet.
    open: bool,
    /// Time of the last start.
    started: Nanos,
    capacity: usize,
    /// Minimum length of a segment in which evenkeel did not bind the job. Shorter adjacent segments are merged.
    min_length: Nanos,
    pub all: CpuSet,
}

/// An interval with constant CPUs. Its size is 24 bytes, because a run may have very many segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub from: Nanos,
    pub to: Nanos,
    /// Index into the sets, or `UNKNOWN`.
    cpus: u32,
    pub bound: bool,
}

const UNKNOWN: u32 = u32::MAX;

impl CpuSets {
    pub fn idx(&mut self, cpus: &CpuSet) -> u32 {
        if let Some(&idx) = self.idx_of.get(cpus) {
            return idx;
        }
        let idx = self.list.len() as u32;
        self.list.push(cpus.clone());
        self.idx_of.insert(cpus.clone(), idx);
        idx
    }

    pub fn get(&self, segment: &Segment) -> Option<&CpuSet> {
        self.list.get(segment.cpus as usize)
    }
}

impl Timeline {
    pub fn new(capacity: usize) -> Self {
        Timeline { capacity: capacity.max(8), ..Timeline::default() }
    }

    /// Starts a segment at `at`, if the CPUs changed. `bound` is true if evenkeel bound the job to these CPUs.
    pub fn set_cpus(&mut self, sets: &mut CpuSets, at: Nanos, cpus: Option<&CpuSet>, bound: bool) {
        if let Some(cpus) = cpus {
            self.all = self.all.or(cpus);
        }
        let idx = cpus.map_or(UNKNOWN, |cpus| sets.idx(cpus));
        if let Some(last) = self.segments.last_mut().filter(|_| self.open) {
            last.to = last.to.max(at);
            if last.cpus == idx && last.bound == bound {
                return;
            }
            if last.from == at && self.started == at {
                (last.cpus, last.bound) = (idx, bound); // The job was bound when the segment started.
                return;
            }
            if last.cpus == UNKNOWN && last.bound == bound {
                last.cpus = idx; // The first sample also applies to the time before it.
                return;
            }
            if !bound && !last.bound && at.saturating_sub(last.from) < self.min_length {
                last.cpus = sets.union(last.cpus, idx);
                return;
            }
        }
        if !self.open {
            self.started = at;
        }
        if self.segments.len() == self.capacity {
            self.coarsen(sets);
        }
        self.segments.push(Segment { from: at, to: at, cpus: idx, bound });
        self.open = true;
    }

    pub fn end(&mut self, at: Nanos) {
        if let Some(last) = self.segments.last_mut().filter(|_| self.open) {
            last.to = last.to.max(at);
        }
        self.open = false;
    }

    /// Returns whether the job runs.
    pub fn is_open(&self) -> bool {
        self.open
    }

    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Merges adjacent segments in which evenkeel did not bind the job.
    fn coarsen(&mut self, sets: &mut CpuSets) {
        if self.segments.windows(2).any(|pair| pair[0].touches_unbound(&pair[1])) {
            let span = self.segments.last().map_or(Nanos::ZERO, |last| last.to);
            let longest = self.min_length.max(Nanos(span.0 / self.capacity as u64));
            self.min_length = Nanos(longest.0.saturating_mul(2)).min(span);
        }
        let mut kept: Vec<Segment> = Vec::with_capacity(self.capacity);
        for segment in self.segments.drain(..) {
            match kept.last_mut() {
                Some(last) if last.can_merge_with(&segment, self.min_length) => {
                    last.cpus = sets.union(last.cpus, segment.cpus);
                    last.to = segment.to;
                }
                _ => kept.push(segment),
            }
        }
        if self.capacity <= kept.len() {
            kept.drain(..self.capacity / 2); // If all segments are moves and restarts, the later segments are kept.
        }
        self.segments = kept;
    }
}

impl Segment {
    fn can_merge_with(&self, next: &Segment, min_length: Nanos) -> bool {
        self.touches_unbound(next) && next.to.saturating_sub(self.from) <= min_length
    }

    /// Returns whether evenkeel bound the job in neither segment, and no time is between them.
    fn touches_unbound(&self, next: &Segment) -> bool {
        !self.bound && !next.bound && self.to == next.from
    }
}

impl CpuSets {
    fn union(&mut self, a: u32, b: u32) -> u32 {
        match (self.list.get(a as usize), self.list.get(b as usize)) {
            (Some(one), Some(other)) => {
                let union = one.or(other);
                self.idx(&union)
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

    fn text(timeline: &Timeline, sets: &CpuSets) -> String {
        let text = |segment: &Segment| {
            let cpus = sets.get(segment).map_or("?".to_owned(), ToString::to_string);
            let bound = if segment.bound { "!" } else { "" };
            format!("{}-{}:{cpus}{bound}", segment.from.0, segment.to.0)
        };
        timeline.segments().iter().map(text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn only_a_change_starts_a_segment() {
        let (mut sets, mut timeline) = (CpuSets::default(), Timeline::new(8));
        for (at, on) in [(0, 0), (10, 0), (20, 1), (30, 1)] {
            timeline.set_cpus(&mut sets, Nanos(at), Some(&cpu(on)), false);
        }
        timeline.set_cpus(&mut sets, Nanos(35), Some(&cpu(1)), true);
        timeline.end(Nanos(40));
        assert_eq!(text(&timeline, &sets), "0-20:0 20-35:1 35-40:1!");
    }

    #[test]
    fn a_job_bound_at_its_start_has_no_segment_before() {
        let (mut sets, mut timeline) = (CpuSets::default(), Timeline::new(8));
        timeline.set_cpus(&mut sets, Nanos(5), None, false);
        timeline.set_cpus(&mut sets, Nanos(5), Some(&cpu(2)), true);
        timeline.end(Nanos(9));
        timeline.set_cpus(&mut sets, Nanos(9), Some(&cpu(3)), true);
        timeline.end(Nanos(12));
        assert_eq!(text(&timeline, &sets), "5-9:2! 9-12:3!");
    }

    #[test]
    fn the_first_sample_of_a_job_applies_to_the_time_before_the_sample() {
        let (mut sets, mut timeline) = (CpuSets::default(), Timeline::new(8));
        timeline.set_cpus(&mut sets, Nanos(5), None, false);
        timeline.set_cpus(&mut sets, Nanos(20), Some(&cpu(3)), false);
        timeline.end(Nanos(30));
        assert_eq!(text(&timeline, &sets), "5-30:3");
    }

    #[test]
    fn a_job_that_migrates_often_keeps_its_span_and_cpus_in_bounded_memory() {
        let (mut sets, mut timeline) = (CpuSets::default(), Timeline::new(16));
        for turn in 0..10_000u64 {
            timeline.set_cpus(&mut sets, Nanos(turn * 250), Some(&cpu((turn % 4) as u32)), false);
        }
        timeline.end(Nanos(2_500_000));
        assert!(timeline.segments().len() <= 16);
        assert_eq!(timeline.segments()[0].from, Nanos::ZERO);
        assert_eq!(timeline.segments().last().map(|segment| segment.to), Some(Nanos(2_500_000)));
        assert_eq!(timeline.all.to_string(), "0-3");
        let gapless = timeline.segments().windows(2).all(|pair| pair[0].to == pair[1].from);
        assert!(gapless, "{}", text(&timeline, &sets));
    }

    #[test]
    fn moves_by_evenkeel_are_kept_first() {
        let (mut sets, mut timeline) = (CpuSets::default(), Timeline::new(16));
        for turn in 0..1000u64 {
            let bound = turn % 100 == 0;
            timeline.set_cpus(&mut sets, Nanos(turn * 250), Some(&cpu((turn % 4) as u32)), bound);
        }
        let n_bound = timeline.segments().iter().filter(|segment| segment.bound).count();
        assert!(4 <= n_bound, "{}", text(&timeline, &sets));
    }

    #[test]
    fn restarts_of_a_bound_job_do_not_coarsen_later_segments() {
        let (mut sets, mut timeline) = (CpuSets::default(), Timeline::new(8));
        for start in 0..1000 {
            timeline.set_cpus(&mut sets, Nanos(start * 10), Some(&cpu(0)), true);
            timeline.end(Nanos(start * 10 + 9));
        }
        for (at, on) in [(20_000, 1), (21_000, 2), (22_000, 3)] {
            timeline.set_cpus(&mut sets, Nanos(at), Some(&cpu(on)), false);
        }
        timeline.end(Nanos(23_000));
        let text = text(&timeline, &sets);
        assert!(text.ends_with(" 20000-21000:1 21000-22000:2 22000-23000:3"), "{text}");
    }

    #[test]
    fn segments_are_never_coarser_than_the_run() {
        let (mut sets, mut timeline) = (CpuSets::default(), Timeline::new(8));
        for start in 0..1000 {
            timeline.set_cpus(&mut sets, Nanos(start * 10), Some(&cpu(0)), false);
            timeline.end(Nanos(start * 10 + 10));
        }
        assert_eq!(timeline.segments().last().map(|last| last.to), Some(Nanos(10_000)));
        assert!(timeline.min_length <= Nanos(10_000), "{}", timeline.min_length);
    }
}
