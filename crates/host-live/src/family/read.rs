//! Reading the figures of threads, as seldom as can be.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{CpuId, CpuSet, JobId, Nanos, TaskId};
use linux::procfs::{self, Schedstat};
use sched::{Measured, TaskSample};

use super::{Descriptors, Family, Process, Thread, Totals};

/// A thread that has not run for so many looks is looked at more seldom.
const QUIET_LOOKS: u32 = 3;
/// The moves of a thread between CPUs are read every so many looks that it ran in: that file costs
/// the kernel some 20 µs to write.
const MIGRATIONS_EVERY: u32 = 8;

/// What a look at the threads found.
#[derive(Debug, Default)]
pub(crate) struct Look {
    /// Threads that are new or that ran.
    pub tasks: Vec<TaskSample>,
    /// Threads that ended.
    pub gone: Vec<TaskId>,
    /// Jobs that may have new threads or processes.
    pub stirred_jobs: BTreeSet<JobId>,
    /// What those that ended came to.
    lost: Vec<(JobId, Totals)>,
}

impl Family {
    /// Looks at every thread whose turn it is. `rest_max` is the longest that a sleeping thread is
    /// left alone, in turns; `mask` gives what processes of a job have by birth.
    pub(crate) fn look(
        &mut self,
        turn: u64,
        rest_max: u64,
        mask: impl Fn(JobId) -> Arc<CpuSet>,
        look: &mut Look,
    ) {
        let mut stirred: Vec<(JobId, u32, bool)> = Vec::new();
        let mut empty: Vec<u32> = Vec::new();
        for (&(job, pid), process) in &mut self.processes {
            let before = look.tasks.len();
            let n_gone = look.gone.len();
            process.read((job, pid), turn, rest_max, &mut self.descriptors, look);
            if process.threads.is_empty() {
                empty.push(pid);
            } else if look.tasks.len() != before || look.gone.len() != n_gone {
                stirred.push((job, pid, process.has_other_threads(pid, &mut self.descriptors)));
            }
        }
        for (job, pid, has_other_threads) in stirred {
            let mask = mask(job);
            let grew = has_other_threads && !self.list_threads(job, pid, &mask).is_empty();
            let ran = |thread: &Thread| thread.n_looks_quiet == 0;
            if self.look_for_children(job, pid, &mask, ran) || grew {
                look.stirred_jobs.insert(job);
            }
        }
        for pid in empty {
            self.forget(pid);
        }
        for (job, totals) in look.lost.drain(..) {
            self.past.entry(job).or_default().add(totals);
        }
    }

    /// Reads all threads of a job once more, before they end.
    pub(crate) fn last_look(&mut self, job: JobId, look: &mut Look) -> Totals {
        let mut totals = self.past.remove(&job).unwrap_or_default();
        for (&(_, pid), process) in self.processes.range_mut((job, 0)..=(job, u32::MAX)) {
            for thread in &mut process.threads {
                thread.look_at_turn = 0;
                thread.last_figures(pid);
                totals.add(thread.totals());
            }
            process.read((job, pid), u64::MAX, 1, &mut self.descriptors, look);
        }
        totals
    }
}

impl Process {
    fn read(
        &mut self,
        (job, pid): (JobId, u32),
        turn: u64,
        rest_max: u64,
        descriptors: &mut Descriptors,
        look: &mut Look,
    ) {
        self.threads.retain_mut(|thread| {
            if turn < thread.look_at_turn {
                return true;
            }
            match thread.read(pid, descriptors) {
                Some(figures) => {
                    if thread.take(figures, turn, rest_max) {
                        thread.look_closer(pid, descriptors);
                        look.tasks.push(thread.sample(job, pid));
                    }
                    true
                }
                None => {
                    look.gone.push(thread.id);
                    look.lost.push((job, thread.totals()));
                    false
                }
            }
        });
    }

    /// Whether the process has more or fewer threads than are known.
    fn has_other_threads(&mut self, pid: u32, descriptors: &mut Descriptors) -> bool {
        if self.folder.is_none() {
            let path = format!("/proc/{pid}/task");
            self.folder = descriptors.keep(path.as_ref()).unwrap_or_default();
        }
        let counted = self.folder.as_ref().map(|folder| folder.count_threads());
        !matches!(counted, Some(Ok(n_threads)) if n_threads as usize == self.threads.len())
    }
}

impl Thread {
    /// The figures of now; `None` when the thread is gone.
    fn read(&mut self, pid: u32, descriptors: &mut Descriptors) -> Option<Schedstat> {
        self.keep_schedstat(pid, descriptors);
        let mut buffer = [0; 96];
        if let Some(file) = &self.schedstat {
            return procfs::parse_schedstat(file.read(&mut buffer).ok()?);
        }
        let text = std::fs::read(self.path(pid, "schedstat")).ok()?;
        let figures = procfs::parse_schedstat(&text)?;
        // Figures never go back: if they do, this is another thread with the same number.
        let is_same = self.figures.is_none_or(|known| known.run_ns <= figures.run_ns);
        is_same.then_some(figures)
    }

    /// Takes figures in; tells whether they are new. Who sleeps is looked at every second, fourth and
    /// at last every eighth turn, or whatever two seconds are.
    fn take(&mut self, figures: Schedstat, turn: u64, rest_max: u64) -> bool {
        let ran = self.figures.is_none_or(|known| known.run_ns != figures.run_ns);
        self.n_looks_quiet = if ran { 0 } else { self.n_looks_quiet.saturating_add(1) };
        self.n_looks_ran = self.n_looks_ran.wrapping_add(u32::from(ran));
        let rest = match self.n_looks_quiet.checked_sub(QUIET_LOOKS) {
            None => 1,
            Some(n_more) => (2u64 << n_more.min(8)).clamp(1, rest_max.max(1)),
        };
        self.look_at_turn = turn.saturating_add(rest);
        self.figures = Some(figures);
        ran
    }

    /// The CPU of a thread that may choose, and its moves between CPUs now and then.
    fn look_closer(&mut self, pid: u32, descriptors: &mut Descriptors) {
        if self.mask.len() == 1 && !self.is_foreign {
            self.last_cpu = self.mask.first();
            return;
        }
        if self.stat.is_none() && 1 < self.n_looks_ran {
            self.stat = descriptors.keep(&self.path(pid, "stat")).unwrap_or_default();
        }
        let mut buffer = [0; 1024];
        self.last_cpu = match &self.stat {
            Some(file) => file.read(&mut buffer).ok().and_then(procfs::parse_last_cpu),
            None => std::fs::read(self.path(pid, "stat"))
                .ok()
                .and_then(|text| procfs::parse_last_cpu(&text)),
        }
        .map(CpuId);
        if self.n_looks_ran.is_multiple_of(MIGRATIONS_EVERY) {
            self.read_migrations();
        }
    }

    fn read_migrations(&mut self) {
        let counted = procfs::migrations(std::path::Path::new("/"), self.id.tid);
        self.n_migrations = counted.or(self.n_migrations);
    }

    /// Reads everything once more. The first thread of a process can still be read after its end, as
    /// long as nobody has waited for it.
    fn last_figures(&mut self, pid: u32) {
        self.read_migrations();
        let mut buffer = [0; 96];
        let last = match &self.schedstat {
            Some(file) => file.read(&mut buffer).ok().and_then(procfs::parse_schedstat),
            None => std::fs::read(self.path(pid, "schedstat"))
                .ok()
                .and_then(|text| procfs::parse_schedstat(&text)),
        };
        self.last = last.or(self.figures);
    }

    fn totals(&self) -> Totals {
        let last = self.last.or(self.figures);
        Totals { wait_ns: last.map(|figures| figures.wait_ns), n_migrations: self.n_migrations }
    }

    fn sample(&self, job: JobId, process: u32) -> TaskSample {
        let figures = self.figures.unwrap_or_default();
        TaskSample {
            task: self.id,
            process,
            job,
            cpu_time: Nanos(figures.run_ns),
            wait: Measured::Exact(figures.wait_ns),
            last_cpu: self.last_cpu,
            llc_misses: Measured::Absent,
        }
    }
}
