//! CPUs of a job over time: segments, one per change.
//!
//! ```text
//!   bound   -  -  -  -  0-3        0-3  0-3  5      CPUs to which evenkeel bound the job
//!   cpus    2  7  2  1  (not yet   0    2    5      CPUs that it was sampled on
//!                        sampled)
//! ```
//!
//! Each sample of a job that is not bound to one CPU, four times a second, may show another CPU. Therefore the number of
//! segments is limited. At the limit, adjacent segments with the same binding are merged (with the union of their CPUs),
//! and the minimum length of later segments increases, at most to the length of the run. This repeats each time the limit
//! is reached.

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
    capacity: usize,
    /// Minimum length of a segment. Shorter adjacent segments with the same binding are merged.
    min_length: Nanos,
    pub all: CpuSet,
}

/// An interval with constant CPUs. Its size is 24 bytes, because a run may have very many segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub from: Nanos,
    pub to: Nanos,
    /// CPUs that the job was sampled on: index into the sets, or `NONE`.
    cpus: u32,
    /// CPUs to which evenkeel bound the job: index into the sets, or `NONE`.
    bound: u32,
}

const NONE: u32 = u32::MAX;

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

    /// Returns the CPUs that the job was sampled on, or those that it was bound to if it was not sampled.
    pub fn cpus(&self, segment: &Segment) -> Option<&CpuSet> {
        self.list.get(segment.cpus as usize).or_else(|| self.bound(segment))
    }

    /// Returns the CPUs to which evenkeel bound the job.
    pub fn bound(&self, segment: &Segment) -> Option<&CpuSet> {
        self.list.get(segment.bound as usize)
    }
}

impl Timeline {
    pub fn new(capacity: usize) -> Self {
        Timeline { capacity: capacity.max(8), ..Timeline::default() }
    }

    /// Starts a segment at `at`, if the CPUs changed. `cpus`: the CPUs that the job was sampled on, if known. `bound`: the
    /// CPUs to which evenkeel bound it.
    pub fn set_cpus(
        &mut self,
        sets: &mut CpuSets,
        at: Nanos,
        cpus: Option<&CpuSet>,
        bound: Option<&CpuSet>,
    ) {
        let cpus = cpus.or(bound.filter(|bound| bound.only().is_some()));
        for set in [cpus, bound].into_iter().flatten() {
            self.all = self.all.or(set);
        }
        let mut idx = |set: Option<&CpuSet>| set.map_or(NONE, |set| sets.idx(set));
        let (idx, bound) = (idx(cpus), idx(bound));
        if let Some(last) = self.segments.last_mut().filter(|_| self.open) {
            last.to = last.to.max(at);
            if last.bound == bound && (last.cpus == idx || idx == NONE) {
                return;
            }
            if last.from == at {
                (last.cpus, last.bound) = (idx, bound); // The job was bound when the segment started.
                return;
            }
            if last.cpus == NONE && last.bound == bound {
                last.cpus = idx; // The first sample also applies to the time before it.
                return;
            }
            if last.bound == bound && at.saturating_sub(last.from) < self.min_length {
                last.cpus = sets.union(last.cpus, idx);
                return;
            }
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

    /// Returns whether the job runs and was not sampled since its start or its last change of CPUs.
    pub fn lacks_sample(&self) -> bool {
        self.open && self.segments.last().is_some_and(|last| last.cpus == NONE)
    }

    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Merges adjacent segments with the same binding.
    fn coarsen(&mut self, sets: &mut CpuSets) {
        if self.segments.windows(2).any(|pair| pair[0].touches_same_binding(&pair[1])) {
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
        self.touches_same_binding(next) && next.to.saturating_sub(self.from) <= min_length
    }

    /// Returns whether the binding is the same in both segments, and no time is between them.
    fn touches_same_binding(&self, next: &Segment) -> bool {
        self.bound == next.bound && self.to == next.from
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
            let cpus = sets.cpus(segment).map_or("?".to_owned(), ToString::to_string);
            let bound = match sets.bound(segment) {
                None => String::new(),
                Some(bound) if bound.to_string() == cpus => "!".to_owned(),
                Some(bound) => format!("({bound})"),
            };
            format!("{}-{}:{cpus}{bound}", segment.from.0, segment.to.0)
        };
        timeline.segments().iter().map(text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn only_a_change_starts_a_segment() {
        let (mut sets, mut timeline) = (CpuSets::default(), Timeline::new(8));
        for (at, on) in [(0, 0), (10, 0), (20, 1), (30, 1)] {
            timeline.set_cpus(&mut sets, Nanos(at), Some(&cpu(on)), None);
        }
        timeline.set_cpus(&mut sets, Nanos(35), None, Some(&cpu(1)));
        timeline.end(Nanos(40));
        assert_eq!(text(&timeline, &sets), "0-20:0 20-35:1 35-40:1!");
    }

    #[test]
    fn a_job_bound_at_its_start_has_no_segment_before() {
        let (mut sets, mut timeline) = (CpuSets::default(), Timeline::new(8));
        timeline.set_cpus(&mut sets, Nanos(5), None, None);
        timeline.set_cpus(&mut sets, Nanos(5), None, Some(&cpu(2)));
        timeline.end(Nanos(9));
        timeline.set_cpus(&mut sets, Nanos(9), None, Some(&cpu(3)));
        timeline.end(Nanos(12));
        assert_eq!(text(&timeline, &sets), "5-9:2! 9-12:3!");
    }

    #[test]
    fn the_first_sample_of_a_job_applies_to_the_time_before_the_sample() {
        let (mut sets, mut timeline) = (CpuSets::default(), Timeline::new(8));
        timeline.set_cpus(&mut sets, Nanos(5), None, None);
        timeline.set_cpus(&mut sets, Nanos(20), Some(&cpu(3)), None);
        timeline.end(Nanos(30));
        assert_eq!(text(&timeline, &sets), "5-30:3");
    }

    #[test]
    fn a_segment_of_a_job_that_is_bound_to_several_cpus_has_its_sampled_cpu_and_the_set() {
        let (mut sets, mut timeline) = (CpuSets::default(), Timeline::new(8));
        let set: CpuSet = "0-1".parse().expect("a list");
        timeline.set_cpus(&mut sets, Nanos(0), None, Some(&set));
        for (at, on) in [(10, 0), (20, 1), (30, 1)] {
            timeline.set_cpus(&mut sets, Nanos(at), Some(&cpu(on)), Some(&set));
        }
        timeline.set_cpus(&mut sets, Nanos(40), None, Some(&cpu(1)));
        timeline.set_cpus(&mut sets, Nanos(50), None, Some(&set));
        timeline.end(Nanos(60));
        assert_eq!(text(&timeline, &sets), "0-20:0(0-1) 20-40:1(0-1) 40-50:1! 50-60:0-1!");
    }

    #[test]
    fn a_job_that_migrates_often_keeps_its_span_and_cpus_in_bounded_memory() {
        let (mut sets, mut timeline) = (CpuSets::default(), Timeline::new(16));
        for turn in 0..10_000u64 {
            timeline.set_cpus(&mut sets, Nanos(turn * 250), Some(&cpu((turn % 4) as u32)), None);
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
            let cpu = cpu((turn % 4) as u32);
            let bound = Some(&cpu).filter(|_| turn % 100 == 0);
            timeline.set_cpus(&mut sets, Nanos(turn * 250), Some(&cpu), bound);
        }
        let n_bound = timeline.segments().iter().filter(|segment| segment.bound != NONE).count();
        assert!(4 <= n_bound, "{}", text(&timeline, &sets));
    }

    #[test]
    fn restarts_of_a_bound_job_do_not_coarsen_later_segments() {
        let (mut sets, mut timeline) = (CpuSets::default(), Timeline::new(8));
        for start in 0..1000 {
            timeline.set_cpus(&mut sets, Nanos(start * 10), None, Some(&cpu(0)));
            timeline.end(Nanos(start * 10 + 9));
        }
        for (at, on) in [(20_000, 1), (21_000, 2), (22_000, 3)] {
            timeline.set_cpus(&mut sets, Nanos(at), Some(&cpu(on)), None);
        }
        timeline.end(Nanos(23_000));
        let text = text(&timeline, &sets);
        assert!(text.ends_with(" 20000-21000:1 21000-22000:2 22000-23000:3"), "{text}");
    }

    #[test]
    fn segments_are_never_coarser_than_the_run() {
        let (mut sets, mut timeline) = (CpuSets::default(), Timeline::new(8));
        for start in 0..1000 {
            timeline.set_cpus(&mut sets, Nanos(start * 10), Some(&cpu(0)), None);
            timeline.end(Nanos(start * 10 + 10));
        }
        assert_eq!(timeline.segments().last().map(|last| last.to), Some(Nanos(10_000)));
        assert!(timeline.min_length <= Nanos(10_000), "{}", timeline.min_length);
    }
}
