//! The totals of every task and what they grew by in the last interval.

use std::collections::BTreeMap;

use base::{CpuId, JobId, Nanos, TaskId};
use sched::{CounterDeltas, Counters, Measured, TaskSample, TaskView};
use topology::Domains;

use crate::jobs::Jobs;

/// All tasks of the jobs that run, by job and then by id.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    rows: Vec<Row>,
    /// The same rows as a policy sees them; made again when a row has changed.
    seen: Vec<TaskView>,
    seen_is_old: bool,
    job_of: BTreeMap<TaskId, JobId>,
    ended: Vec<TaskGrowth>,
}

/// A task and its totals.
#[derive(Clone, Debug)]
struct Row {
    seen: TaskView,
    now: Totals,
    /// When the interval began; of counters that could not be read then, as they were last read.
    base: Totals,
    /// Whether its misses were not counted in the interval before either.
    misses_were_lost: bool,
}

/// Totals since birth.
#[derive(Clone, Copy, Debug)]
struct Totals {
    cpu_time: Nanos,
    wait: Measured,
    counters: Counters,
    /// Of a newborn nothing was read; everything was zero at its birth.
    is_birth: bool,
}

/// What a task did since the last interval turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskGrowth {
    pub job: JobId,
    /// Where it ran last; of one that ended, a CPU of the place that it counts for.
    pub cpu: Option<CpuId>,
    pub cpu_time: Nanos,
    pub wait: Option<Nanos>,
    pub misses: Misses,
    /// Whether it has run since its birth.
    pub has_run: bool,
}

/// Growth of the cache miss counter of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misses {
    /// So many.
    Grew(u64),
    /// There was no counter at the beginning of the interval either.
    NeverRead,
    /// The counter could be read when the interval began, and cannot any more.
    Lost,
}

/// A task is born with nothing used: what it did before it was first seen counts.
const BIRTH: Totals = Totals {
    cpu_time: Nanos::ZERO,
    wait: Measured::Exact(0),
    counters: Counters::NONE,
    is_birth: true,
};

impl Totals {
    fn of(sample: &TaskSample) -> Self {
        let TaskSample { cpu_time, wait, counters, .. } = *sample;
        Totals { cpu_time, wait, counters, is_birth: false }
    }
}

impl Row {
    fn key(&self) -> (JobId, TaskId) {
        (self.seen.job, self.seen.task)
    }

    fn born(sample: &TaskSample) -> Self {
        let TaskSample { task, process, job, last_cpu, .. } = *sample;
        let (cpu_time, wait, counted) = (Nanos::ZERO, None, CounterDeltas::default());
        let seen = TaskView { task, process, job, cpu_time, wait, last_cpu, counters: counted };
        Row { seen, now: Totals::of(sample), base: BIRTH, misses_were_lost: false }
    }

    fn cpu_time(&self) -> Nanos {
        self.now.cpu_time.saturating_sub(self.base.cpu_time)
    }

    fn growth(&self) -> TaskGrowth {
        TaskGrowth {
            job: self.seen.job,
            cpu: self.seen.last_cpu,
            cpu_time: self.cpu_time(),
            wait: grown(self.now.wait, self.base.wait).map(Nanos),
            misses: self.misses(),
            has_run: self.now.cpu_time != Nanos::ZERO,
        }
    }

    fn misses(&self) -> Misses {
        let counted = self.counted();
        match counted.misses() {
            Some(grown) => Misses::Grew(grown),
            None if counted.has_missed_misses() && !self.misses_were_lost => Misses::Lost,
            None => Misses::NeverRead,
        }
    }

    /// What was counted since the interval began. At its birth a task had nothing of anything.
    fn counted(&self) -> CounterDeltas {
        match self.base.is_birth {
            true => CounterDeltas::since_birth(&self.now.counters, &self.base.counters),
            false => CounterDeltas::between(&self.now.counters, &self.base.counters),
        }
    }

    /// What it did before this interval began, between two looks that lie further apart, is not this
    /// interval's: it is taken to have gone on evenly, and that part of it is set aside.
    fn set_aside(&mut self, before: Nanos, begin: Nanos, now: Nanos) {
        if begin <= before || now <= begin {
            return;
        }
        let (part, whole) = (u128::from(begin.0 - before.0), u128::from(now.0 - before.0));
        let share = |grown: u64| u64::try_from(u128::from(grown) * part / whole).unwrap_or(grown);
        let move_on = |base: Measured, now: Measured| match (grown(now, base), base.value()) {
            (Some(grown), Some(value)) => Measured::Exact(value + share(grown)),
            _ => base,
        };
        let mut counters = self.base.counters;
        for (event, now) in self.now.counters.iter() {
            let base = self.base.counters.get(event);
            let base = if self.base.is_birth { base.or_zero() } else { base };
            counters.set(event, move_on(base, now));
        }
        self.base = Totals {
            cpu_time: self.base.cpu_time + Nanos(share(self.cpu_time().0)),
            wait: move_on(self.base.wait, self.now.wait),
            counters,
            is_birth: self.base.is_birth,
        };
    }

    /// Ends the interval: the growth is what policies see until the next one ends.
    fn turn_over(&mut self) {
        self.seen.cpu_time = self.cpu_time();
        self.seen.wait = grown(self.now.wait, self.base.wait).map(Nanos);
        self.seen.counters = self.counted();
        self.misses_were_lost = self.seen.counters.has_missed_misses();
        // A counter that did not run in this interval may run in the next: what it grows by then is
        // what it has grown by since it was last read, as whoever reads it leaves out what it missed.
        let counters = self.now.counters.or(&self.base.counters);
        self.base = Totals { counters, ..self.now };
    }
}

/// Growth of a total that never wraps. A scaled total is an estimate, and may come out a little
/// smaller than the one before: that is no growth, not an enormous one.
fn grown(now: Measured, base: Measured) -> Option<u64> {
    Some(now.value()?.saturating_sub(base.value()?))
}

impl Tasks {
    /// Takes new totals in, read at an instant in the interval that began at `begin`; the
    /// interval turn before was at `last`. Samples that
    /// come in the order of the table are found at once.
    pub fn take(
        &mut self,
        samples: &[TaskSample],
        (last, begin, now): (Nanos, Nanos, Nanos),
        is_running: impl Fn(JobId) -> bool,
    ) {
        let mut at = 0;
        let n_known = self.rows.len();
        for sample in samples {
            let key = (sample.job, sample.task);
            match find(&self.rows[..n_known], at, key) {
                Some(row) => {
                    at = row + 1;
                    self.rows[row].now = Totals::of(sample);
                    if let Some(before) = sample.previous_sample_at {
                        self.rows[row].set_aside(before, begin, now);
                    }
                    self.seen_is_old |= sample.last_cpu != self.rows[row].seen.last_cpu;
                    self.rows[row].seen.last_cpu = sample.last_cpu.or(self.rows[row].seen.last_cpu);
                }
                None if is_running(sample.job) => self.add(sample, (last, begin, now)),
                None => {} // Its job is over: a straggler between two samples.
            }
        }
        if n_known < self.rows.len() {
            self.rows.sort_unstable_by_key(Row::key);
            self.seen_is_old = true;
        }
    }

    /// Appends a newborn; the caller sorts. One that stands twice in a sample is taken once.
    fn add(&mut self, sample: &TaskSample, (last, begin, now): (Nanos, Nanos, Nanos)) {
        if self.job_of.insert(sample.task, sample.job).is_none() {
            let mut row = Row::born(sample);
            row.set_aside(last, begin, now); // Only when the turn comes late.
            self.rows.push(row);
        }
    }

    /// What the tasks of jobs that have just appeared did before is nobody's business.
    pub fn begin_here(&mut self, appeared: &[JobId]) {
        for job in appeared {
            let from = self.rows.partition_point(|row| row.seen.job < *job);
            let to = self.rows.partition_point(|row| row.seen.job <= *job);
            self.rows[from..to].iter_mut().for_each(|row| row.base = row.now);
        }
    }

    /// Forgets tasks that ended, but not what they did in this interval. `place_of` tells a CPU of
    /// the place where tasks of a job are; `None` when they may be on several.
    pub fn remove(&mut self, gone: &[TaskId], place_of: impl Fn(JobId) -> Option<CpuId>) {
        let mut doomed: Vec<usize> = gone.iter().filter_map(|&task| self.row_of(task)).collect();
        doomed.sort_unstable();
        doomed.dedup();
        self.remove_rows(&doomed, place_of);
    }

    /// The same for whatever is left of a job.
    pub fn remove_job(&mut self, job: JobId, place_of: impl Fn(JobId) -> Option<CpuId>) {
        let from = self.rows.partition_point(|row| row.seen.job < job);
        let to = self.rows.partition_point(|row| row.seen.job <= job);
        let doomed: Vec<usize> = (from..to).collect();
        self.remove_rows(&doomed, place_of);
    }

    fn remove_rows(&mut self, doomed: &[usize], place_of: impl Fn(JobId) -> Option<CpuId>) {
        for &row in doomed {
            let row = &self.rows[row];
            self.job_of.remove(&row.seen.task);
            let growth = row.growth();
            self.ended.push(TaskGrowth { cpu: place_of(growth.job).or(growth.cpu), ..growth });
        }
        let Some(&first) = doomed.first() else { return };
        let (mut kept, mut next) = (first, 0);
        for idx in first..self.rows.len() {
            if doomed.get(next) == Some(&idx) {
                next += 1;
            } else {
                self.rows.swap(kept, idx);
                kept += 1;
            }
        }
        self.rows.truncate(kept);
        self.seen_is_old = true;
    }

    fn row_of(&self, task: TaskId) -> Option<usize> {
        let job = *self.job_of.get(&task)?;
        self.rows.binary_search_by_key(&(job, task), Row::key).ok()
    }

    /// Whether it is known and lives.
    pub fn job_of(&self, task: TaskId) -> Option<JobId> {
        self.job_of.get(&task).copied()
    }

    /// What every task did since the last interval turn.
    pub fn growth(&self) -> impl Iterator<Item = TaskGrowth> + '_ {
        self.rows.iter().map(Row::growth)
    }

    /// What the tasks that ended did since the last interval turn.
    pub fn ended(&self) -> &[TaskGrowth] {
        &self.ended
    }

    /// Ends the interval.
    pub fn turn_over(&mut self) {
        self.rows.iter_mut().for_each(Row::turn_over);
        self.ended.clear();
        self.seen_is_old = true;
    }

    /// What policies see of each task, and whether it has run since its birth.
    pub fn rows_mut(&mut self) -> Vec<(&mut TaskView, bool)> {
        fn of(row: &mut Row) -> (&mut TaskView, bool) {
            (&mut row.seen, row.base.cpu_time != Nanos::ZERO)
        }
        self.rows.iter_mut().map(of).collect()
    }

    /// As a policy sees them, once [`Tasks::refresh`] has been called.
    pub fn seen(&self) -> &[TaskView] {
        &self.seen
    }

    /// Brings [`Tasks::seen`] up to date, and what jobs know of the number and place of their tasks.
    pub fn refresh(&mut self, jobs: &mut Jobs, domains: &Domains) {
        if !std::mem::take(&mut self.seen_is_old) {
            return;
        }
        self.seen.clear();
        self.seen.extend(self.rows.iter().map(|row| row.seen));
        for at in 0..jobs.live_idxs().len() {
            let idx = jobs.live_idxs()[at];
            jobs.entry_mut(idx).n_tasks = 0;
        }
        for of_job in self.seen.chunk_by(|a, b| a.job == b.job) {
            let Some(idx) = jobs.idx(of_job[0].job) else { continue };
            let entry = jobs.entry_mut(idx);
            entry.n_tasks = of_job.len() as u32;
            entry.domain = entry.home.or_else(|| majority(of_job, domains));
        }
    }
}

/// The domain in which more than half of some tasks ran last.
fn majority(tasks: &[TaskView], domains: &Domains) -> Option<usize> {
    let domain_of = |task: &TaskView| task.last_cpu.and_then(|cpu| domains.of_cpu(cpu));
    // Pair off tasks in different domains; only a domain that holds the majority can be left over.
    let (mut left_over, mut surplus) = (None, 0usize);
    for domain in tasks.iter().map(domain_of) {
        match (surplus, domain == left_over) {
            (0, _) => (left_over, surplus) = (domain, 1),
            (_, true) => surplus += 1,
            (_, false) => surplus -= 1,
        }
    }
    let n_there = tasks.iter().filter(|task| domain_of(task) == left_over).count();
    left_over.filter(|_| tasks.len() < 2 * n_there)
}

/// The row with this key; looks at `guess` first.
fn find(rows: &[Row], guess: usize, key: (JobId, TaskId)) -> Option<usize> {
    if rows.get(guess).is_some_and(|row| row.key() == key) {
        return Some(guess);
    }
    rows.binary_search_by_key(&key, Row::key).ok()
}
