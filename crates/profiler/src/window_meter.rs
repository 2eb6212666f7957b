//! Counts references in windows.
//!
//! A reference uses every line that contains one of its bytes. Consecutive instructions in one line are one use of the
//! line, because a CPU fetches the line once. A load and a store by one instruction are one use that writes.

use crate::access_pattern::AccessPattern;
use crate::lackey_trace::{Reference, ReferenceKind};
use crate::sampler::{LineSampler, ReuseTally, Sampling};
use crate::windows::{Window, WindowPlan};
use base::LINE_BYTES;

/// Maximum number of lines per window in the chart.
const N_LINES_SHOWN: usize = 300;

/// Counter of the references in windows.
#[derive(Clone, Debug)]
pub struct WindowMeter {
    plan: WindowPlan,
    sampler: LineSampler,
    fetched: u64,
    /// Number of references at which the current window or gap ends.
    ends_at: u64,
    is_counting: bool,
    n_references: u64,
    n_instructions: u64,
    n_data: u64,
    begin: WindowStart,
    windows: Vec<Window>,
    access_pattern: AccessPattern,
}

/// Counts at the start of the current window.
#[derive(Clone, Debug, Default)]
struct WindowStart {
    tally: ReuseTally,
    n_references: u64,
    n_instructions: u64,
    n_data: u64,
}

impl WindowMeter {
    /// Creates a meter without references.
    pub fn new(plan: WindowPlan, sampling: Sampling) -> Self {
        let mut meter = WindowMeter {
            plan,
            sampler: LineSampler::new(sampling),
            fetched: u64::MAX,
            ends_at: plan.skip,
            is_counting: false,
            n_references: 0,
            n_instructions: 0,
            n_data: 0,
            begin: WindowStart::default(),
            windows: Vec::new(),
            access_pattern: AccessPattern::default(),
        };
        meter.update_window();
        meter
    }

    /// Counts the next reference. Ignores references after the last window.
    pub fn take(&mut self, reference: Reference) {
        if self.is_done() {
            return;
        }
        self.n_references += 1;
        let first = reference.address / LINE_BYTES;
        let last = reference.address.saturating_add(u64::from(reference.size) - 1) / LINE_BYTES;
        if reference.kind == ReferenceKind::Fetch {
            self.n_instructions += 1;
            self.access_pattern.fetch(reference.address);
            if self.fetched != first || first != last {
                self.touch(first, last, false);
            }
            self.fetched = last;
        } else {
            self.n_data += 1;
            let writes = reference.kind != ReferenceKind::Load;
            self.access_pattern.data(first, writes);
            self.touch(first, last, writes);
        }
        self.update_window();
    }

    /// Whether all windows are complete.
    pub fn is_done(&self) -> bool {
        self.windows.len() >= self.plan.n_windows as usize
    }

    /// Returns the completed windows.
    pub fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// Returns the number of counted references.
    pub fn n_references(&self) -> u64 {
        self.n_references
    }

    /// Returns the number of counted instructions.
    pub fn n_instructions(&self) -> u64 {
        self.n_instructions
    }

    /// Returns the current share of sampled lines.
    pub fn rate(&self) -> f64 {
        self.sampler.rate()
    }

    /// Returns the plan with its current gap.
    pub fn plan(&self) -> WindowPlan {
        self.plan
    }

    /// Sets the gap between further windows, after a better estimate of the length of the run.
    pub fn set_gap(&mut self, gap: u64) {
        if !self.is_counting && !self.windows.is_empty() {
            self.ends_at = (self.ends_at - self.plan.gap).saturating_add(gap);
        }
        self.plan.gap = gap;
    }

    /// Ends the trace. An incomplete last window counts if it is at least half full or the only window.
    pub fn finish(&mut self) {
        let n_in_window = self.n_references - self.begin.n_references;
        let is_counted = self.plan.window / 2 <= n_in_window || self.windows.is_empty();
        if self.is_counting && 0 < n_in_window && is_counted {
            self.end_window();
        }
        self.is_counting = false;
    }

    /// Returns the data for the charts.
    pub fn access_pattern(&self) -> &AccessPattern {
        &self.access_pattern
    }

    fn touch(&mut self, first: u64, last: u64, writes: bool) {
        // The largest references save registers and touch a few thousand bytes; longer sizes are invalid.
        for line in first..=last.min(first + 64) {
            self.sampler.touch(line, writes);
        }
    }

    /// Starts and ends windows at the current reference.
    fn update_window(&mut self) {
        while self.ends_at <= self.n_references && !self.is_done() {
            if self.is_counting {
                self.end_window();
                self.is_counting = false;
                self.ends_at = self.ends_at.saturating_add(self.plan.gap);
            } else {
                self.begin_window();
                self.is_counting = true;
                self.ends_at = self.ends_at.saturating_add(self.plan.window.max(1));
            }
        }
    }

    fn begin_window(&mut self) {
        self.sampler.next_window();
        self.access_pattern.begin_window();
        self.begin = WindowStart {
            tally: self.sampler.tally_now(),
            n_references: self.n_references,
            n_instructions: self.n_instructions,
            n_data: self.n_data,
        };
    }

    fn end_window(&mut self) {
        let mut window = Window::between(&self.begin.tally, &self.sampler.tally_now());
        window.n_instructions = self.n_instructions - self.begin.n_instructions;
        window.n_references = self.n_references - self.begin.n_references;
        window.n_data = self.n_data - self.begin.n_data;
        window.rate = self.sampler.rate();
        window.lines = self.sampler.lines_in_window(N_LINES_SHOWN);
        self.windows.push(window);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetch(address: u64) -> Reference {
        Reference { kind: ReferenceKind::Fetch, address, size: 4 }
    }

    fn load(address: u64) -> Reference {
        Reference { kind: ReferenceKind::Load, address, size: 8 }
    }

    fn meter(skip: u64, window: u64, n_windows: u32, gap: u64) -> WindowMeter {
        WindowMeter::new(WindowPlan { skip, window, n_windows, gap }, Sampling::FixedRate(0))
    }

    #[test]
    fn windows_start_after_the_skip_and_are_separated_by_gaps() {
        let mut meter = meter(10, 5, 2, 3);
        for nr in 0..100 {
            meter.take(load(nr * 64));
        }
        assert_eq!(
            meter.n_references(),
            10 + 5 + 3 + 5,
            "references after the last window are ignored"
        );
        assert!(meter.is_done());
        assert!(
            meter
                .windows()
                .iter()
                .all(|window| window.n_references == 5 && window.n_first_uses == 5.0)
        );
    }

    #[test]
    fn the_gap_can_be_set_during_the_run() {
        let mut meter = meter(0, 5, 2, 0);
        (0..5).for_each(|nr| meter.take(load(nr * 64)));
        meter.set_gap(4);
        (0..20).for_each(|nr| meter.take(load(nr * 64)));
        assert_eq!(meter.windows().len(), 2);
        // The second window had already started; the new gap applies after the second window.
        assert_eq!(meter.n_references(), 10);
    }

    #[test]
    fn reuse_of_a_line_from_before_the_skip_is_not_a_first_use() {
        let mut meter = meter(100, 100, 1, 0);
        for nr in 0..200 {
            meter.take(load(nr % 100 * 64));
        }
        assert_eq!((meter.windows()[0].n_first_uses, meter.windows()[0].n_lines), (0.0, 100.0));
        assert_eq!(meter.windows()[0].n_reused, 0.0, "each line is used once in the window");
    }

    #[test]
    fn instructions_in_one_line_are_one_use_and_an_instruction_in_two_lines_is_two_uses() {
        let mut meter = meter(0, 4, 1, 0);
        [fetch(0), fetch(4), fetch(62), load(1000)]
            .into_iter()
            .for_each(|reference| meter.take(reference));
        let window = &meter.windows()[0];
        assert_eq!((window.n_instructions, window.n_data), (3, 1));
        // The used lines are 0, 0, 1 and 15. The second use of line 0 is at distance 0.
        assert_eq!((window.octaves[0], window.n_first_uses), (1, 3.0));
    }

    #[test]
    fn a_short_run_has_one_window_and_an_empty_run_has_none() {
        let mut short = meter(0, 1000, 20, 0);
        short.take(load(0));
        short.finish();
        assert_eq!(short.windows().len(), 1);
        let mut none = meter(0, 1000, 20, 0);
        none.finish();
        assert!(none.windows().is_empty());
    }

    #[test]
    fn oversized_references_are_truncated_and_the_last_address_is_valid() {
        let mut meter = meter(0, 10, 1, 0);
        meter.take(Reference { kind: ReferenceKind::Store, address: u64::MAX, size: 999_999 });
        meter.take(Reference { kind: ReferenceKind::Load, address: 0, size: 999_999 });
        meter.finish();
        assert!(meter.windows()[0].n_lines < 70.0);
    }
}
