//! Schedule of memory samples. Memory whose nodes do not change is sampled less often and in less detail.
//!
//! ```text
//!   full sample ── changed? ── yes ─► full sample after 2 s
//!        ▲            │ no
//!        │            ▼
//!        │      check after 4, 8, 16 s … and at least every 30 s
//!        │            │
//!        └── yes ── changed? ── no ─► not reported: the last full sample is still valid
//! ```
//!
//! The cost of a full sample grows with the number of pages, and the nodes of most pages rarely change. A check
//! therefore reads only some pages of a large process, and all pages of a small process. If a check shows a change, a
//! full sample follows. After eight checks a full sample is taken in any case, because a check does not read the memory
//! policy. After a placement or a page migration the schedule starts again. Changes of less than a sixteenth of the
//! memory are smaller than the error of a sample and are ignored.

use std::collections::{BTreeMap, BTreeSet};

use base::{JobId, Nanos, NodeId, TaskId};
use linux::numa_maps::NodePages;

use super::{JobProcess, ProcessPages};

/// Time until changed memory is sampled again, if the CPU share of sampling permits it.
pub(super) const SAMPLE_EVERY: Nanos = Nanos::from_secs(2);
/// Maximum time between two samples.
const SAMPLE_EVERY_MAX: Nanos = Nanos::from_secs(30);
/// Memory counts as changed if more than the resident size divided by this number was added to nodes or
/// removed from nodes.
const CHANGED_PART: u64 = 16;
/// Maximum number of checks between two full samples. At the maximum interval, eight checks take about four minutes.
const N_CHECKS_MAX: u32 = 8;

/// Number of pages that a sample reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SampleDepth {
    /// As many pages as the time limit of a full sample allows.
    Full,
    /// As many pages as are required to detect a change.
    Check,
}

/// Time and depth of the next sample of each process.
#[derive(Debug)]
pub(super) struct SampleSchedule {
    /// Time until changed memory is sampled again.
    every: Nanos,
    processes: BTreeMap<TaskId, ProcessSchedule>,
}

#[derive(Debug)]
struct ProcessSchedule {
    job: JobId,
    /// The last full sample with a change.
    last: Footprint,
    /// The last check that showed a change. `None` if checks and full samples agree.
    checked: Option<ChangedCheck>,
    /// Whether the last check showed a change.
    is_suspect: bool,
    n_checks: u32,
    /// Whether two samples in a row showed no change.
    is_stable: bool,
    every: Nanos,
    sample_at: Nanos,
}

/// A check that differed from the previous full sample.
#[derive(Debug)]
struct ChangedCheck {
    footprint: Footprint,
    /// Whether the next full sample showed no change and the next check had the same result. In this case checks are
    /// biased, and the process did not change.
    is_confirmed: bool,
}

/// Memory of a process for comparison, in bytes.
#[derive(Clone, Debug, Default)]
struct Footprint {
    /// Private and shared memory of each node.
    nodes: BTreeMap<NodeId, [u64; 2]>,
    /// Page cache of each node. `None` for a partial sample, which does not contain the page cache.
    files: Option<BTreeMap<NodeId, u64>>,
    resident: u64,
}

impl SampleSchedule {
    /// Creates an empty schedule. A process is sampled at most once per interval.
    pub(super) fn new(interval: Nanos) -> Self {
        SampleSchedule { every: SAMPLE_EVERY.max(interval), processes: BTreeMap::new() }
    }

    /// Returns the running processes with a due sample. Removes processes that do not run.
    pub(super) fn take_due(
        &mut self,
        running: Vec<JobProcess>,
        at: Nanos,
    ) -> Vec<(JobProcess, SampleDepth)> {
        let mut known = std::mem::take(&mut self.processes);
        let mut due = Vec::new();
        for (job, process) in running {
            let schedule = known.remove(&process).filter(|schedule| schedule.job == job);
            if schedule.as_ref().is_none_or(|schedule| schedule.sample_at <= at) {
                let depth = schedule.as_ref().map_or(SampleDepth::Full, ProcessSchedule::depth);
                due.push(((job, process), depth));
            }
            self.processes.extend(schedule.map(|schedule| (process, schedule)));
        }
        due
    }

    /// Records a sample. Returns whether the sample is reported: only full samples are reported.
    pub(super) fn take(
        &mut self,
        (job, process): JobProcess,
        depth: SampleDepth,
        pages: &ProcessPages,
        at: Nanos,
    ) -> bool {
        let now = Footprint::from_pages(pages);
        let schedule = self.processes.remove(&process).filter(|schedule| schedule.job == job);
        let is_check = depth == SampleDepth::Check && pages.is_sampled;
        let schedule = match (is_check, schedule) {
            (true, Some(schedule)) => schedule.after_check(now, at),
            // The job was placed during the sample, so the sample may be outdated.
            (true, None) => return false,
            (false, Some(schedule)) if !has_changed(&schedule.last, &now) => {
                schedule.after_full(&now, at)
            }
            (false, _) => ProcessSchedule::new((job, self.every), now, at),
        };
        self.processes.insert(process, schedule);
        !is_check
    }

    /// Discards the last samples of a job. Call this function when the job was placed or its pages migrate.
    pub(super) fn restart(&mut self, job: JobId) {
        self.processes.retain(|_, schedule| schedule.job != job);
    }
}

impl ProcessSchedule {
    fn new((job, every): (JobId, Nanos), last: Footprint, at: Nanos) -> Self {
        ProcessSchedule {
            job,
            last,
            checked: None,
            is_suspect: false,
            n_checks: 0,
            is_stable: false,
            every,
            sample_at: at + every,
        }
    }

    fn depth(&self) -> SampleDepth {
        let is_check = self.is_stable && !self.is_suspect && self.n_checks < N_CHECKS_MAX;
        if is_check { SampleDepth::Check } else { SampleDepth::Full }
    }

    /// Handles a full sample that equals the previous one.
    fn after_full(mut self, now: &Footprint, at: Nanos) -> Self {
        (self.n_checks, self.is_suspect) = (0, false);
        // Every sample contains the exact size. If the sizes differ, the process changed between the samples.
        self.checked.take_if(|checked| has_resized(&checked.footprint, now));
        match &self.checked {
            Some(ChangedCheck { is_confirmed: false, .. }) => {
                ProcessSchedule { sample_at: at, ..self }
            }
            _ => self.unchanged(at),
        }
    }

    fn after_check(mut self, now: Footprint, at: Nanos) -> Self {
        self.n_checks += 1;
        let is_same = |checked: &&mut ChangedCheck| !has_changed(&checked.footprint, &now);
        if let Some(checked) = self.checked.as_mut().filter(is_same) {
            checked.is_confirmed = true;
            return self.unchanged(at);
        }
        if !self.checked.as_ref().is_some_and(|checked| checked.is_confirmed)
            && !has_changed(&self.last, &now)
        {
            self.checked = None;
            return self.unchanged(at);
        }
        // The next full sample shows whether the process changed or the check is biased.
        let checked = Some(ChangedCheck { footprint: now, is_confirmed: false });
        ProcessSchedule { checked, is_suspect: true, sample_at: at, ..self }
    }

    fn unchanged(self, at: Nanos) -> Self {
        let every = Nanos(self.every.0.saturating_mul(2)).min(SAMPLE_EVERY_MAX.max(self.every));
        ProcessSchedule { is_stable: true, every, sample_at: at + every, ..self }
    }
}

impl Footprint {
    fn from_pages(pages: &ProcessPages) -> Self {
        let parts = |on: &NodePages| [on.small.saturating_add(on.huge), on.shared];
        let files = || pages.nodes.iter().map(|(&node, on)| (node, on.file)).collect();
        Footprint {
            nodes: pages.nodes.iter().map(|(&node, on)| (node, parts(on))).collect(),
            files: (!pages.is_sampled).then(files),
            resident: pages.resident,
        }
    }
}

/// Returns whether more than a sixteenth of the memory was added to nodes or removed from nodes, or the size changed by
/// more than a sixteenth.
fn has_changed(before: &Footprint, now: &Footprint) -> bool {
    let (mut added, mut removed) = (0u64, 0u64);
    let mut compare = |before: u64, now: u64| {
        added = added.saturating_add(now.saturating_sub(before));
        removed = removed.saturating_add(before.saturating_sub(now));
    };
    for node in BTreeSet::from_iter(before.nodes.keys().chain(now.nodes.keys())) {
        let on = |all: &Footprint| all.nodes.get(node).copied().unwrap_or_default();
        on(before).into_iter().zip(on(now)).for_each(|(before, now)| compare(before, now));
    }
    if let (Some(before), Some(now)) = (&before.files, &now.files) {
        for node in BTreeSet::from_iter(before.keys().chain(now.keys())) {
            let on = |all: &BTreeMap<NodeId, u64>| all.get(node).copied().unwrap_or(0);
            compare(on(before), on(now));
        }
    }
    now.resident / CHANGED_PART < added.max(removed) || has_resized(before, now)
}

/// Returns whether the resident size changed by more than a sixteenth.
fn has_resized(before: &Footprint, now: &Footprint) -> bool {
    now.resident / CHANGED_PART < before.resident.abs_diff(now.resident)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROCESS: JobProcess = (JobId(1), TaskId { tid: 7, start_time_ticks: 70 });

    fn mib(node_0: u64, node_1: u64) -> ProcessPages {
        let small = |mib: u64| NodePages { small: mib << 20, ..NodePages::default() };
        ProcessPages {
            nodes: [(NodeId(0), small(node_0)), (NodeId(1), small(node_1))].into(),
            permille: 1000,
            resident: (node_0 + node_1) << 20,
            is_sampled: false,
            has_memory_policy: false,
        }
    }

    /// Returns the seconds in which a process is sampled, with `~` for a partial check. `pages` returns the memory of
    /// the process at a time. A check of a large process reads a part of its pages.
    fn samples(n: u64, is_large: bool, pages: impl Fn(u64) -> ProcessPages) -> String {
        samples_every(Nanos(1), n, is_large, pages)
    }

    fn samples_every(
        interval: Nanos,
        n: u64,
        is_large: bool,
        pages: impl Fn(u64) -> ProcessPages,
    ) -> String {
        let mut schedule = SampleSchedule::new(interval);
        let mut seconds = Vec::new();
        for second in 0..n {
            let at = Nanos::from_secs(second);
            for (process, depth) in schedule.take_due(vec![PROCESS], at) {
                let is_sampled = is_large && depth == SampleDepth::Check;
                let permille = if is_sampled { 50 } else { 1000 };
                let pages = ProcessPages { is_sampled, permille, ..pages(second) };
                assert_eq!(schedule.take(process, depth, &pages, at), !is_sampled);
                seconds.push(format!("{}{second}", if is_sampled { "~" } else { "" }));
            }
        }
        seconds.join(" ")
    }

    #[test]
    fn memory_that_does_not_change_is_sampled_less_often_but_at_least_every_30_s() {
        assert_eq!(samples(130, false, |_| mib(64, 64)), "0 2 6 14 30 60 90 120");
    }

    #[test]
    fn large_memory_that_does_not_change_has_a_full_sample_after_every_eight_checks() {
        let seconds = samples(310, true, |_| mib(640, 640));
        assert_eq!(seconds, "0 2 ~6 ~14 ~30 ~60 ~90 ~120 ~150 ~180 210 ~240 ~270 ~300");
    }

    #[test]
    fn two_full_samples_follow_a_check_that_shows_a_change() {
        let moves = |second| if second < 14 { mib(640, 0) } else { mib(320, 320) };
        assert_eq!(samples(50, true, moves), "0 2 ~6 ~14 15 17 ~21 ~29 ~45");
    }

    #[test]
    fn a_check_shows_a_grown_page_cache() {
        let pages = |second| {
            let mut pages = mib(640, 0);
            pages.resident += if second < 14 { 0 } else { 320 << 20 };
            pages.nodes.entry(NodeId(0)).or_default().file = pages.resident - (640 << 20);
            pages
        };
        assert_eq!(samples(40, true, pages), "0 2 ~6 ~14 15 17 ~21 ~29");
    }

    #[test]
    fn a_temporary_change_does_not_hide_a_permanent_change() {
        // Memory changes before the check at 6 s, and the change is undone before the full sample
        // at 7 s.
        let grows =
            |second| if second == 6 || 10 <= second { mib(1280, 640) } else { mib(640, 640) };
        assert_eq!(samples(40, true, grows), "0 2 ~6 7 ~15 16 18 ~22 ~30");
        let moves = |second| if second == 6 || 10 <= second { mib(0, 1280) } else { mib(640, 640) };
        assert_eq!(samples(40, true, moves), "0 2 ~6 7 ~8 ~16 17 19 ~23 ~31");
    }

    #[test]
    fn if_checks_always_differ_from_full_samples_checks_are_compared_with_checks() {
        let mut schedule = SampleSchedule::new(Nanos(1));
        let partial = |own| ProcessPages { is_sampled: true, permille: 50, ..mib(own, 1280 - own) };
        let mut seconds = Vec::new();
        for second in 0..80 {
            let at = Nanos::from_secs(second);
            for (process, depth) in schedule.take_due(vec![PROCESS], at) {
                let pages = match depth {
                    SampleDepth::Full => mib(640, 640),
                    SampleDepth::Check => partial(if second < 40 { 320 } else { 640 }),
                };
                schedule.take(process, depth, &pages, at);
                let sign = if depth == SampleDepth::Check { "~" } else { "" };
                seconds.push(format!("{sign}{second}"));
            }
        }
        assert_eq!(seconds.join(" "), "0 2 ~6 7 ~8 ~16 ~32 ~62 63 ~64");
    }

    #[test]
    fn memory_is_not_sampled_more_often_than_decisions_are_made() {
        let minute = Nanos::from_secs(60);
        assert_eq!(samples_every(minute, 250, false, |_| mib(64, 64)), "0 60 120 180 240");
        let seconds = samples_every(Nanos::from_secs(5), 80, false, |_| mib(64, 64));
        assert_eq!(seconds, "0 5 15 35 65");
    }

    #[test]
    fn memory_that_changes_is_sampled_again_soon() {
        let grows = |second| mib(64 + if second < 14 { 0 } else { 64 }, 64);
        assert_eq!(samples(25, false, grows), "0 2 6 14 16 20");
        let grows_slowly = |second| mib(64 + second, 64);
        let seconds = samples(130, false, grows_slowly);
        let seconds: Vec<u64> = seconds.split(' ').map(|it| it.parse().expect("second")).collect();
        assert!(seconds.windows(2).all(|two| two[1] - two[0] <= 16));
    }

    #[test]
    fn a_placed_job_is_sampled_immediately_and_an_exited_process_is_removed() {
        let mut schedule = SampleSchedule::new(Nanos(1));
        let at = Nanos::from_secs(10);
        let take =
            |schedule: &mut SampleSchedule, depth| schedule.take(PROCESS, depth, &mib(1, 0), at);
        assert!(take(&mut schedule, SampleDepth::Full));
        assert!(schedule.take_due(vec![PROCESS], at).is_empty());
        schedule.restart(JobId(2));
        assert!(schedule.take_due(vec![PROCESS], at).is_empty());
        schedule.restart(JobId(1));
        let partial = ProcessPages { is_sampled: true, ..mib(1, 0) };
        assert!(!schedule.take(PROCESS, SampleDepth::Check, &partial, at), "it is outdated");
        assert_eq!(schedule.take_due(vec![PROCESS], at), [(PROCESS, SampleDepth::Full)]);
        assert!(take(&mut schedule, SampleDepth::Full));
        assert!(schedule.take_due(vec![], at).is_empty() && schedule.processes.is_empty());
    }
}
