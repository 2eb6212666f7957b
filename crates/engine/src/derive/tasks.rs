//! Cumulative values of tasks, and their deltas in the last interval.

use std::collections::BTreeMap;
use std::ops::Range;

use base::{CpuId, JobId, Nanos, TaskId};
use sched::{CounterDeltas, Counters, Measured, TaskSample, TaskView};
use topology::Domains;

use super::counters::{InheritedCounters, deltas_between, deltas_since_start, interpolate};
use crate::jobs::Jobs;

/// All tasks of the running jobs, sorted by job and then by id.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    views: Vec<TaskView>,
    /// Totals of each task, in the order of `views`.
    rows: Vec<TaskRow>,
    /// Whether a task was added, was removed or ran on another CPU since the last call of `update_jobs`.
    jobs_are_stale: bool,
    job_of: BTreeMap<TaskId, JobId>,
    ended: Vec<TaskDelta>,
    /// CPU time in the samples since the last interval turn that tasks used before that turn.
    earlier_cpu_time: Nanos,
    /// Inherited counters of the main task, by job.
    inherited: BTreeMap<JobId, InheritedCounters>,
}

/// Totals of a task.
#[derive(Clone, Debug)]
struct TaskRow {
    now: Totals,
    /// Totals at the start of the interval. For a counter that could not be read at that time: its last sample.
    base: Totals,
    /// CPU time at the last interval turn, which precedes the start of the interval if turns were skipped.
    at_last_turn: CpuTotals,
    /// Whether the misses of the previous interval are absent because a counter could not be read.
    misses_were_lost: bool,
    /// Whether the counters include the descendants of the task.
    includes_children: bool,
    /// The last CPU at the start of the interval.
    cpu_before: Option<CpuId>,
    /// Share of the inherited delta that belongs to earlier intervals: numerator and denominator.
    earlier: Option<(u64, u64)>,
}

/// Totals since the task started.
#[derive(Clone, Copy, Debug)]
struct Totals {
    cpu: CpuTotals,
    wait: Option<Nanos>,
    counters: Counters,
    /// Whether the task started in this interval.
    is_start: bool,
}

/// CPU time of a task since its start, or in a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTotals {
    /// CPU time of the task and of its unseen children.
    pub all: Nanos,
    /// CPU time of its unseen children.
    pub unseen: Nanos,
}

impl CpuTotals {
    fn since(self, before: CpuTotals) -> CpuTotals {
        let all = self.all.saturating_sub(before.all);
        CpuTotals { all, unseen: self.unseen.saturating_sub(before.unseen).min(all) }
    }

    fn plus_share(self, delta: CpuTotals, share: impl Fn(u64) -> u64) -> CpuTotals {
        CpuTotals {
            all: self.all + Nanos(share(delta.all.0)),
            unseen: self.unseen + Nanos(share(delta.unseen.0)),
        }
    }
}

/// Delta of a task in the interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskDelta {
    pub job: JobId,
    /// The CPU that the task ran on last; for a task that exited, a CPU of the domain that it counts for.
    pub cpu: Option<CpuId>,
    /// The CPU that the task ran on last at the start of the interval.
    pub cpu_before: Option<CpuId>,
    /// Whether the task exited while its job was bound to the domain of `cpu`.
    pub was_bound: bool,
    pub cpu_time: Nanos,
    /// CPU time since the last interval turn, which is longer ago than the interval if turns were skipped.
    pub since_last_turn: CpuTotals,
    pub wait: Option<Nanos>,
    pub misses: Misses,
    /// Whether the task has run since its start.
    pub has_run: bool,
}

/// Delta of the cache misses of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misses {
    /// The number of misses.
    Counted(u64),
    /// The misses were not counted at the start of the interval.
    NeverRead,
    /// The misses were counted at the start of the interval, but not at its end.
    Lost,
}

/// Totals of a task at its start, so that events before the first sample count.
const START: Totals = Totals {
    cpu: CpuTotals { all: Nanos::ZERO, unseen: Nanos::ZERO },
    wait: Some(Nanos::ZERO),
    counters: Counters::NONE,
    is_start: true,
};

impl Totals {
    fn of(sample: &TaskSample) -> Self {
        let TaskSample { cpu_time: all, unseen_children: unseen, wait, counters, .. } = *sample;
        Totals { cpu: CpuTotals { all, unseen }, wait, counters, is_start: false }
    }
}

impl TaskRow {
    fn new(sample: &TaskSample) -> Self {
        TaskRow {
            now: Totals::of(sample),
            base: START,
            at_last_turn: CpuTotals::default(),
            misses_were_lost: false,
            includes_children: sample.includes_children,
            cpu_before: None,
            earlier: None,
        }
    }

    /// Computes the delta since the start of the interval.
    fn derive(&self, view: &mut TaskView) {
        view.cpu_time = self.now.cpu.since(self.base.cpu).all;
        view.wait = time_delta(self.now.wait, self.base.wait);
        view.counters = match self.base.is_start {
            true => deltas_since_start(&self.now.counters, &self.base.counters),
            false => deltas_between(&self.now.counters, &self.base.counters),
        };
    }

    /// Subtracts the deltas of the other tasks of the job from the delta of the inherited counters.
    fn subtract_sampled_tasks(&mut self, view: &mut TaskView, inherited: &mut InheritedCounters) {
        let mut own = inherited.subtract_sampled_tasks(&view.counters);
        if let Some((part, whole)) = self.earlier.take() {
            for (event, delta) in own.clone().iter() {
                own.set(event, Measured::Exact(delta - share(delta, part, whole)));
            }
        }
        view.counters = own;
    }

    fn delta(&self, view: &TaskView) -> TaskDelta {
        let TaskView { job, last_cpu: cpu, cpu_time, wait, ref counters, .. } = *view;
        let misses = match counters.misses() {
            Some(delta) => Misses::Counted(delta),
            None if counters.has_uncounted_misses() && !self.misses_were_lost => Misses::Lost,
            None => Misses::NeverRead,
        };
        TaskDelta {
            job,
            cpu,
            cpu_before: self.cpu_before,
            was_bound: false,
            cpu_time,
            since_last_turn: self.now.cpu.since(self.at_last_turn),
            wait,
            misses,
            has_run: self.now.cpu.all != Nanos::ZERO,
        }
    }

    /// Removes the part of the delta that belongs to earlier intervals. If the previous sample of the task (at
    /// `before`) is older than the interval, the rate of the task between both samples is assumed to be constant.
    /// Returns the CPU time before the last interval turn (at `last`).
    fn subtract_earlier_intervals(
        &mut self,
        before: Nanos,
        (last, begin, now): (Nanos, Nanos, Nanos),
    ) -> Nanos {
        if begin <= before || now <= begin {
            return Nanos::ZERO;
        }
        let whole = now.0 - before.0;
        let since = self.now.cpu.since(self.at_last_turn);
        let before_last = last.saturating_sub(before).0;
        let until = |part| self.at_last_turn.plus_share(since, |delta| share(delta, part, whole));
        let (at_last_turn, part) = (until(before_last), begin.0 - before.0);
        let cpu = self.base.cpu;
        self.base.cpu = cpu.plus_share(self.now.cpu.since(cpu), |delta| share(delta, part, whole));
        let earlier = at_last_turn.since(std::mem::replace(&mut self.at_last_turn, at_last_turn));
        let share = |delta: u64| share(delta, part, whole);
        let waited = time_delta(self.now.wait, self.base.wait).map(|wait| Nanos(share(wait.0)));
        self.base.wait = self.base.wait.map(|base| base + waited.unwrap_or_default());
        if self.includes_children {
            self.earlier = Some((part, whole)); // `subtract_sampled_tasks` applies this part.
            return earlier.all;
        }
        for (event, now) in self.now.counters.iter() {
            let zero = || self.base.is_start.then(Default::default);
            if let Some(base) = self.base.counters.get(event).or_else(zero) {
                self.base.counters.set(event, interpolate(base, now, share));
            }
        }
        earlier.all
    }

    /// Starts the next interval. A counter that could not be read keeps its last sample as base.
    fn end_interval(&mut self, view: &TaskView) {
        self.misses_were_lost = view.counters.has_uncounted_misses();
        self.cpu_before = view.last_cpu;
        let Totals { cpu, wait, ref counters, is_start } = self.now;
        self.base.counters.update(counters);
        (self.base.cpu, self.at_last_turn) = (cpu, cpu);
        (self.base.wait, self.base.is_start) = (wait, is_start);
    }
}

/// Returns `part` of `whole` of a delta.
fn share(delta: u64, part: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(delta) * u128::from(part) / u128::from(whole)).unwrap_or(delta)
}

/// Returns the delta of a total that does not wrap.
fn time_delta(now: Option<Nanos>, base: Option<Nanos>) -> Option<Nanos> {
    Some(now?.saturating_sub(base?))
}

impl Tasks {
    /// Stores new samples. `last` is the time of the last interval turn, `begin` the start of the current interval.
    /// If the samples are in the order of the table, no search is needed.
    pub fn update(
        &mut self,
        samples: &[TaskSample],
        (last, begin, now): (Nanos, Nanos, Nanos),
        is_running: impl Fn(JobId) -> bool,
    ) {
        let (mut at, n_known) = (0, self.views.len());
        for sample in samples {
            match find(&self.views[..n_known], at, (sample.job, sample.task)) {
                Some(idx) => {
                    at = idx + 1;
                    let (view, row) = (&mut self.views[idx], &mut self.rows[idx]);
                    row.now = Totals::of(sample);
                    if let Some(before) = sample.previous_sample_at {
                        self.earlier_cpu_time +=
                            row.subtract_earlier_intervals(before, (last, begin, now));
                    }
                    self.jobs_are_stale |= sample.last_cpu != view.last_cpu;
                    view.last_cpu = sample.last_cpu.or(view.last_cpu);
                }
                None if is_running(sample.job) => self.add(sample, (last, begin, now)),
                None => {} // The job ended between two samples of this task.
            }
        }
        if n_known < self.views.len() {
            self.sort();
            self.jobs_are_stale = true;
        }
    }

    /// Appends a new task; the caller sorts the table. A second sample of the same new task is ignored.
    fn add(&mut self, sample: &TaskSample, (last, begin, now): (Nanos, Nanos, Nanos)) {
        if self.job_of.insert(sample.task, sample.job).is_none() {
            let mut row = TaskRow::new(sample);
            // The whole delta counts, unless the turn is late.
            self.earlier_cpu_time += row.subtract_earlier_intervals(last, (last, begin, now));
            if sample.includes_children {
                self.inherited.entry(sample.job).or_default();
            }
            let TaskSample { task, process, job, last_cpu, .. } = *sample;
            let (cpu_time, wait, counters) = (Nanos::ZERO, None, CounterDeltas::default());
            self.views.push(TaskView { task, process, job, cpu_time, wait, last_cpu, counters });
            self.rows.push(row);
        }
    }

    fn sort(&mut self) {
        if !self.views.is_sorted_by_key(key) {
            let (views, rows) = (self.views.drain(..), self.rows.drain(..));
            let mut both: Vec<(TaskView, TaskRow)> = views.zip(rows).collect();
            both.sort_unstable_by_key(|(view, _)| key(view));
            (self.views, self.rows) = both.into_iter().unzip();
        }
    }

    fn rows_of(&self, job: JobId) -> Range<usize> {
        let from = self.views.partition_point(|view| view.job < job);
        from..self.views.partition_point(|view| view.job <= job)
    }

    /// Starts counting for the tasks of jobs that were attached in this turn.
    pub fn start_counting(&mut self, attached: &[JobId]) {
        for job in attached {
            let rows = self.rows_of(*job);
            self.rows[rows].iter_mut().for_each(|row| {
                row.base = row.now;
                row.at_last_turn = row.now.cpu;
            });
        }
    }

    /// Removes tasks that exited. Their deltas in this interval count for the domain of the CPU that `cpu_of` returns
    /// for the job. If it returns no CPU, they count for the domain of the task's last CPU.
    pub fn remove(&mut self, exited: &[TaskId], cpu_of: impl Fn(JobId) -> Option<CpuId>) {
        let mut removed: Vec<usize> = exited.iter().filter_map(|&task| self.row_of(task)).collect();
        removed.sort_unstable();
        removed.dedup();
        self.remove_rows(&removed, cpu_of);
    }

    /// Removes all tasks of a job. Their deltas count as in [`Tasks::remove`].
    pub fn remove_job(&mut self, job: JobId, cpu_of: impl Fn(JobId) -> Option<CpuId>) {
        let removed: Vec<usize> = self.rows_of(job).collect();
        self.remove_rows(&removed, cpu_of);
    }

    fn remove_rows(&mut self, removed: &[usize], cpu_of: impl Fn(JobId) -> Option<CpuId>) {
        let Some(&first) = removed.first() else { return };
        self.derive_rows(removed);
        for &idx in removed {
            let view = &self.views[idx];
            self.job_of.remove(&view.task);
            let delta = self.rows[idx].delta(view);
            let home = cpu_of(delta.job);
            let (cpu, was_bound) = (home.or(delta.cpu), home.is_some());
            self.ended.push(TaskDelta { cpu, was_bound, ..delta });
        }
        let (mut kept, mut next) = (first, 0);
        for idx in first..self.views.len() {
            if removed.get(next) == Some(&idx) {
                next += 1;
            } else {
                self.views.swap(kept, idx);
                self.rows.swap(kept, idx);
                kept += 1;
            }
        }
        self.views.truncate(kept);
        self.rows.truncate(kept);
        self.jobs_are_stale = true;
    }

    /// Computes the deltas of rows before they are removed.
    fn derive_rows(&mut self, removed: &[usize]) {
        for &idx in removed {
            let (view, row) = (&mut self.views[idx], &self.rows[idx]);
            row.derive(view);
            if !row.includes_children
                && let Some(inherited) = self.inherited.get_mut(&view.job)
            {
                inherited.add_other(&view.counters);
            }
        }
        for &idx in removed {
            let job = self.views[idx].job;
            let includes_children = self.rows[idx].includes_children;
            let inherited = includes_children.then(|| self.inherited.remove(&job)).flatten();
            let Some(mut inherited) = inherited else { continue };
            for other in self.rows_of(job).filter(|row| removed.binary_search(row).is_err()) {
                self.rows[other].derive(&mut self.views[other]);
                inherited.add_other(&self.views[other].counters);
            }
            self.rows[idx].subtract_sampled_tasks(&mut self.views[idx], &mut inherited);
        }
    }

    fn row_of(&self, task: TaskId) -> Option<usize> {
        let job = *self.job_of.get(&task)?;
        self.views.binary_search_by_key(&(job, task), key).ok()
    }

    /// Returns the job of a task that has not exited.
    pub fn job_of(&self, task: TaskId) -> Option<JobId> {
        self.job_of.get(&task).copied()
    }

    /// Ends the interval and starts the next one. Calls `visit` with the delta of every task, then with the deltas of
    /// exited tasks (second argument: true).
    pub fn end_interval(&mut self, mut visit: impl FnMut(&TaskDelta, bool)) {
        let mut begin = 0;
        while let Some(job) = self.views.get(begin).map(|view| view.job) {
            let n_tasks = self.views[begin..].iter().take_while(|view| view.job == job).count();
            let of_job = begin..begin + n_tasks;
            let (views, rows) = (&mut self.views[of_job.clone()], &mut self.rows[of_job]);
            rows.iter().zip(views.iter_mut()).for_each(|(row, view)| row.derive(view));
            if let Some(inherited) = self.inherited.get_mut(&job) {
                let (first, others): (Vec<_>, Vec<_>) = rows
                    .iter_mut()
                    .zip(views.iter_mut())
                    .partition(|(row, _)| row.includes_children);
                others.iter().for_each(|(_, view)| inherited.add_other(&view.counters));
                first
                    .into_iter()
                    .for_each(|(row, view)| row.subtract_sampled_tasks(view, inherited));
            }
            for (row, view) in rows.iter_mut().zip(views) {
                visit(&row.delta(view), false);
                row.end_interval(view);
            }
            begin += n_tasks;
        }
        self.ended.drain(..).for_each(|delta| visit(&delta, true));
        self.jobs_are_stale = true;
    }

    /// Returns the CPU time in the samples since the last interval turn that tasks used before that turn.
    pub fn take_earlier_cpu_time(&mut self) -> Nanos {
        std::mem::take(&mut self.earlier_cpu_time)
    }

    /// Returns the view of each task, and whether the task has run since its start.
    pub fn views_mut(&mut self) -> Vec<(&mut TaskView, bool)> {
        let has_run = |row: &TaskRow| row.now.cpu.all != Nanos::ZERO;
        self.views.iter_mut().zip(self.rows.iter().map(has_run)).collect()
    }

    /// Returns the views of all tasks.
    pub fn views(&self) -> &[TaskView] {
        &self.views
    }

    /// Updates the number of tasks and the domain of each job.
    pub fn update_jobs(&mut self, jobs: &mut Jobs, domains: &Domains) {
        if !std::mem::take(&mut self.jobs_are_stale) {
            return;
        }
        for at in 0..jobs.live_idxs().len() {
            let idx = jobs.live_idxs()[at];
            jobs.entry_mut(idx).n_tasks = 0;
        }
        for of_job in self.views.chunk_by(|a, b| a.job == b.job) {
            let Some(idx) = jobs.idx(of_job[0].job) else { continue };
            let entry = jobs.entry_mut(idx);
            entry.n_tasks = of_job.len() as u32;
            entry.domain = entry.home.or_else(|| majority(of_job, domains));
        }
    }
}

/// Returns the domain in which more than half of the tasks last ran.
fn majority(tasks: &[TaskView], domains: &Domains) -> Option<usize> {
    let domain_of = |task: &TaskView| task.last_cpu.and_then(|cpu| domains.of_cpu(cpu));
    // Boyer-Moore majority vote: tasks in different domains cancel each other.
    let (mut candidate, mut surplus) = (None, 0usize);
    for domain in tasks.iter().map(domain_of) {
        match (surplus, domain == candidate) {
            (0, _) => (candidate, surplus) = (domain, 1),
            (_, true) => surplus += 1,
            (_, false) => surplus -= 1,
        }
    }
    let n_votes = tasks.iter().filter(|task| domain_of(task) == candidate).count();
    candidate.filter(|_| tasks.len() < 2 * n_votes)
}

fn key(view: &TaskView) -> (JobId, TaskId) {
    (view.job, view.task)
}

/// Returns the index of the view with the key `target`. `guess` is the first index that is compared.
fn find(views: &[TaskView], guess: usize, target: (JobId, TaskId)) -> Option<usize> {
    if views.get(guess).is_some_and(|view| key(view) == target) {
        return Some(guess);
    }
    views.binary_search_by_key(&target, key).ok()
}
