//! From references to windows.
//!
//! A reference touches the line, or the lines, that its bytes lie in. Instructions that follow each other
//! in one line are one use of it: a processor fetches the line once. What a load and a store of one
//! instruction do to a line is one use that changes it.

use crate::lackey::{Kind, Reference};
use crate::sampler::{Sampler, Sampling, Tally};
use crate::sizes::LINE_BYTES;
use crate::view::View;
use crate::windows::{Plan, Window};

/// Lines of a window that are kept for the picture.
const N_LINES_SHOWN: usize = 300;

/// Takes references and gives windows.
#[derive(Clone, Debug)]
pub struct Meter {
    plan: Plan,
    sampler: Sampler,
    fetched: u64,
    /// Where the present stretch, counted or not, ends.
    ends_at: u64,
    is_counting: bool,
    n_references: u64,
    n_instructions: u64,
    n_data: u64,
    begin: Begin,
    windows: Vec<Window>,
    view: View,
}

/// The counts at the begin of the present window.
#[derive(Clone, Debug, Default)]
struct Begin {
    tally: Tally,
    n_references: u64,
    n_instructions: u64,
    n_data: u64,
}

impl Meter {
    /// Nothing was seen yet.
    pub fn new(plan: Plan, sampling: Sampling) -> Self {
        let mut meter = Meter {
            plan,
            sampler: Sampler::new(sampling),
            fetched: u64::MAX,
            ends_at: plan.skip,
            is_counting: false,
            n_references: 0,
            n_instructions: 0,
            n_data: 0,
            begin: Begin::default(),
            windows: Vec::new(),
            view: View::default(),
        };
        meter.turn();
        meter
    }

    /// Takes the next reference; nothing happens after the last window.
    pub fn take(&mut self, reference: Reference) {
        if self.is_done() {
            return;
        }
        self.n_references += 1;
        let first = reference.address / LINE_BYTES;
        let last = reference.address.saturating_add(u64::from(reference.size) - 1) / LINE_BYTES;
        if reference.kind == Kind::Fetch {
            self.n_instructions += 1;
            self.view.fetch(reference.address);
            if self.fetched != first || first != last {
                self.touch(first, last, false);
            }
            self.fetched = last;
        } else {
            self.n_data += 1;
            let writes = reference.kind != Kind::Load;
            self.view.data(first, writes);
            self.touch(first, last, writes);
        }
        self.turn();
    }

    /// Whether all windows are full.
    pub fn is_done(&self) -> bool {
        self.windows.len() >= self.plan.n_windows as usize
    }

    /// Full windows.
    pub fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// References that were taken.
    pub fn n_references(&self) -> u64 {
        self.n_references
    }

    /// Instructions that were taken.
    pub fn n_instructions(&self) -> u64 {
        self.n_instructions
    }

    /// The share of lines that is looked at now.
    pub fn rate(&self) -> f64 {
        self.sampler.rate()
    }

    /// The plan as it is now.
    pub fn plan(&self) -> Plan {
        self.plan
    }

    /// Chooses another gap for what comes: how long the program runs is known better by now.
    pub fn set_gap(&mut self, gap: u64) {
        if !self.is_counting && !self.windows.is_empty() {
            self.ends_at = (self.ends_at - self.plan.gap).saturating_add(gap);
        }
        self.plan.gap = gap;
    }

    /// The trace is over. A last window that is at least half full counts too, and so does any if it is
    /// the only one.
    pub fn finish(&mut self) {
        let n_in_it = self.n_references - self.begin.n_references;
        let is_worth = self.plan.window / 2 <= n_in_it || self.windows.is_empty();
        if self.is_counting && 0 < n_in_it && is_worth {
            self.end_window();
        }
        self.is_counting = false;
    }

    /// What pictures are made of.
    pub fn view(&self) -> &View {
        &self.view
    }

    fn touch(&mut self, first: u64, last: u64, writes: bool) {
        // The largest reference saves the registers: some thousand bytes. More is no reference.
        for line in first..=last.min(first + 64) {
            self.sampler.touch(line, writes);
        }
    }

    /// Begins and ends windows where it is time to.
    fn turn(&mut self) {
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
        self.view.begin_window();
        self.begin = Begin {
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
        Reference { kind: Kind::Fetch, address, size: 4 }
    }

    fn load(address: u64) -> Reference {
        Reference { kind: Kind::Load, address, size: 8 }
    }

    fn meter(skip: u64, window: u64, n_windows: u32, gap: u64) -> Meter {
        Meter::new(Plan { skip, window, n_windows, gap }, Sampling::FixedRate(0))
    }

    #[test]
    fn windows_begin_after_the_skip_and_have_gaps_between() {
        let mut meter = meter(10, 5, 2, 3);
        for nr in 0..100 {
            meter.take(load(nr * 64));
        }
        assert_eq!(meter.n_references(), 10 + 5 + 3 + 5, "nothing is taken after the last");
        assert!(meter.is_done());
        assert!(
            meter.windows().iter().all(|window| window.n_references == 5 && window.n_new == 5.0)
        );
    }

    #[test]
    fn a_gap_can_be_chosen_later() {
        let mut meter = meter(0, 5, 2, 0);
        (0..5).for_each(|nr| meter.take(load(nr * 64)));
        meter.set_gap(4);
        (0..20).for_each(|nr| meter.take(load(nr * 64)));
        assert_eq!(meter.windows().len(), 2);
        // The second window had begun at once: the gap holds from then on.
        assert_eq!(meter.n_references(), 10);
    }

    #[test]
    fn what_is_used_again_after_the_skip_is_no_first_use() {
        let mut meter = meter(100, 100, 1, 0);
        for nr in 0..200 {
            meter.take(load(nr % 100 * 64));
        }
        assert_eq!((meter.windows()[0].n_new, meter.windows()[0].n_lines), (0.0, 100.0));
        assert_eq!(meter.windows()[0].n_again, 0.0, "once each in the window");
    }

    #[test]
    fn instructions_in_one_line_are_one_use_and_straddlers_two() {
        let mut meter = meter(0, 4, 1, 0);
        [fetch(0), fetch(4), fetch(62), load(1000)].into_iter().for_each(|seen| meter.take(seen));
        let window = &meter.windows()[0];
        assert_eq!((window.n_instructions, window.n_data), (3, 1));
        // Line 0 twice, line 1, line 15: the second use of line 0 was at distance 0.
        assert_eq!((window.octaves[0], window.n_new), (1, 3.0));
    }

    #[test]
    fn a_short_run_has_one_window_and_an_empty_one_none() {
        let mut one = meter(0, 1000, 20, 0);
        one.take(load(0));
        one.finish();
        assert_eq!(one.windows().len(), 1);
        let mut none = meter(0, 1000, 20, 0);
        none.finish();
        assert!(none.windows().is_empty());
    }

    #[test]
    fn a_size_beyond_reason_ends_and_the_last_address_is_fine() {
        let mut meter = meter(0, 10, 1, 0);
        meter.take(Reference { kind: Kind::Store, address: u64::MAX, size: 999_999 });
        meter.take(Reference { kind: Kind::Load, address: 0, size: 999_999 });
        meter.finish();
        assert!(meter.windows()[0].n_lines < 70.0);
    }
}
