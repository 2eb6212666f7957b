//! Reading the figures of threads, as seldom as can be.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::fault;
use crate::procfs::{self, Schedstat};
use base::{CpuId, CpuSet, JobId, Nanos, TaskId};
use sched::{Counters, TaskSample};

use super::counters::ThreadCounters;
use super::{DescriptorBudget, Process, TaskReader, TaskTotals, Thread};
use crate::procfs::may_live;

/// A thread that has not run for so many looks is looked at more seldom.
const QUIET_LOOKS: u32 = 3;
/// The moves of a thread between CPUs are read every so many looks that it ran in: that file costs
/// the kernel some 20 µs to write.
const MIGRATIONS_EVERY: u32 = 8;
/// Whether a thread still has the mask that we gave it is asked every so many looks that it ran in.
const MASKS_EVERY: u32 = 4;
/// A process that has had no child and no second thread in so many looks that it ran in is asked for
/// new ones only in every second look from then on, and after four times as many in every fourth.
const ALONE_LOOKS: u32 = 4;

/// When a look at the threads is.
#[derive(Clone, Copy, Debug)]
pub struct SampleTime {
    /// Time of the sample, since the start of the run.
    pub at: Nanos,
    /// The time between two looks.
    pub interval: Nanos,
    /// The longest that a sleeping thread is left alone.
    pub rest_max: Nanos,
}

/// What a look at the threads found.
#[derive(Debug, Default)]
pub struct SampledTasks {
    /// Threads that are new or that ran.
    pub tasks: Vec<TaskSample>,
    /// Threads that ended.
    pub exited: Vec<TaskId>,
    /// Jobs that may have new threads or processes.
    pub changed_jobs: BTreeSet<JobId>,
    /// Threads whose masks are to be compared with what we know of them.
    pub masks_to_verify: Vec<(JobId, TaskId)>,
    /// Counters of threads that exited.
    retired: Vec<(JobId, TaskId, Box<ThreadCounters>)>,
    /// Whether a group waits for counters that somebody else has.
    is_shut_out: bool,
    /// Processes that ran or lost a thread.
    stirred: Vec<(JobId, u32)>,
}

impl SampleTime {
    /// Whether what is to be looked at then is to be looked at now: a tick may come a little early.
    fn is_due(&self, look_at: Nanos) -> bool {
        look_at <= self.at + Nanos(self.interval.0 / 2)
    }

    /// When a thread is looked at again that was quiet so often: at every second, fourth, eighth
    /// interval, and so on up to the longest rest. Whole multiples of the rest, so that all who sleep
    /// are looked at in the same turns and the turns between can be left out.
    fn next(&self, n_looks_quiet: u32) -> Nanos {
        let n_intervals = match n_looks_quiet.checked_sub(QUIET_LOOKS) {
            None => return self.at + self.interval,
            Some(n_more) => 2u64 << n_more.min(20),
        };
        let rest = Nanos(self.interval.0.saturating_mul(n_intervals));
        let rest = rest.min(self.rest_max.max(self.interval)).0.max(1);
        Nanos((self.at.0 / rest + 1).saturating_mul(rest))
    }

    /// The look before, where it was not one interval ago.
    fn looked_before(&self, looked_at: Option<Nanos>) -> Option<Nanos> {
        let usual = Nanos(self.interval.0 + self.interval.0 / 2);
        looked_at.filter(|&before| usual < self.at.saturating_sub(before))
    }
}

impl TaskReader {
    /// Looks at every thread whose turn it is. `mask` gives what processes of a job have by birth.
    pub fn sample(
        &mut self,
        when: SampleTime,
        mask: impl Fn(JobId) -> Arc<CpuSet>,
        look: &mut SampledTasks,
    ) {
        let mut empty: Vec<u32> = Vec::new();
        self.look_at = None;
        for (&(job, pid), process) in &mut self.processes {
            if when.is_due(process.look_at) {
                process.read((job, pid), when, &mut self.descriptors, look);
            }
            if process.threads.is_empty() {
                empty.push(pid);
            }
            self.look_at = Some(self.look_at.map_or(process.look_at, |at| at.min(process.look_at)));
        }
        empty.into_iter().for_each(|pid| self.lose(pid));
        self.retire_counters(look);
        for (job, pid) in std::mem::take(&mut look.stirred) {
            if self.follows_children {
                self.credit_unseen((job, pid), look);
            }
            self.find_new((job, pid), &mask(job), look);
        }
    }

    fn retire_counters(&mut self, look: &mut SampledTasks) {
        self.counters.is_shut_out |= look.is_shut_out;
        for (job, task, counters) in std::mem::take(&mut look.retired) {
            self.counters.retire(job, task, counters);
        }
    }

    /// When somebody is to be looked at next; `None` when there is nobody.
    pub fn next_sample_at(&self) -> Option<Nanos> {
        self.look_at
    }

    /// Takes in what a process that ran may have started.
    fn find_new(&mut self, (job, pid): (JobId, u32), mask: &Arc<CpuSet>, look: &mut SampledTasks) {
        let Some(process) = self.processes.get_mut(&(job, pid)) else { return };
        if !process.is_asked_for_new() {
            return;
        }
        let has_other_threads = process.has_other_threads(pid, &mut self.descriptors);
        let grew = has_other_threads && !self.list_threads(job, pid, mask).is_empty();
        let ran = |thread: &Thread| thread.n_looks_quiet == 0;
        if self.look_for_children(job, pid, mask, ran) || grew {
            look.changed_jobs.insert(job);
        }
    }

    /// Reads all threads of a job once more, before they end, and tells what the job came to.
    pub fn final_sample(
        &mut self,
        job: JobId,
        at: Nanos,
        look: &mut SampledTasks,
    ) -> (TaskTotals, Counters) {
        let when = SampleTime { at, interval: Nanos(1), rest_max: Nanos::ZERO };
        let mut totals = self.past.remove(&job).unwrap_or_default();
        for (&(_, pid), process) in self.processes.range_mut((job, 0)..=(job, u32::MAX)) {
            process.look_at = Nanos::ZERO;
            process.threads.iter_mut().for_each(|thread| thread.look_at = Nanos::ZERO);
            process.read((job, pid), when, &mut self.descriptors, look);
            process.threads.iter_mut().for_each(Thread::read_migrations);
            totals.add(process.totals());
        }
        self.sample_first_thread(job, look);
        self.retire_counters(look);
        let counters = self.inherited_counters_of(job);
        self.counters.forget(job);
        (totals, counters)
    }
}

impl Process {
    fn read(
        &mut self,
        (job, pid): (JobId, u32),
        when: SampleTime,
        descriptors: &mut DescriptorBudget,
        look: &mut SampledTasks,
    ) {
        let (n_tasks, n_gone) = (look.tasks.len(), look.exited.len());
        let (past, unseen) = (&mut self.past, self.unseen.credited());
        self.threads.retain_mut(|thread| {
            if !when.is_due(thread.look_at) {
                return true;
            }
            let Some(figures) = thread.read(pid, descriptors) else {
                if may_live(thread.id) {
                    return true; // It could not be read this time.
                }
                look.exited.push(thread.id);
                let counters = thread.counters.take();
                look.retired.extend(counters.map(|counters| (job, thread.id, counters)));
                past.add(thread.totals());
                return false;
            };
            let looked_before = when.looked_before(thread.looked_at);
            if thread.take(figures, when) {
                thread.look_closer(pid, descriptors);
                look.is_shut_out |= thread.count();
                look.tasks.push(TaskSample {
                    previous_sample_at: looked_before,
                    ..thread.sample(job, pid, unseen)
                });
                if thread.n_looks_ran % MASKS_EVERY == 1 {
                    look.masks_to_verify.push((job, thread.id));
                }
            }
            true
        });
        self.look_at = self.threads.iter().map(|thread| thread.look_at).min().unwrap_or_default();
        if look.tasks.len() != n_tasks || look.exited.len() != n_gone {
            look.stirred.push((job, pid));
        }
    }

    /// Whether to look for new threads and children in this look. Both are born with the mask that
    /// they should have, and what they use in the meantime counts when they are found.
    fn is_asked_for_new(&self) -> bool {
        let is_alone = self.threads.len() == 1 && !self.unseen.has_had_children();
        let n_looks = self.threads.first().map_or(0, |thread| thread.n_looks_ran);
        let every = match n_looks / ALONE_LOOKS {
            0 => 1,
            1..4 => 2,
            _ => 4,
        };
        !is_alone || n_looks.is_multiple_of(every)
    }

    /// Whether the process has more or fewer threads than are known.
    fn has_other_threads(&mut self, pid: u32, descriptors: &mut DescriptorBudget) -> bool {
        if self.folder.is_none() {
            let path = format!("/proc/{pid}/task");
            self.folder = descriptors.keep(path.as_ref()).unwrap_or_default();
        }
        let counted = self.folder.as_ref().map(|folder| folder.count_threads());
        !matches!(counted, Some(Ok(n_threads)) if n_threads as usize == self.threads.len())
    }

    /// What its threads came to, those that ended too.
    pub(super) fn totals(&self) -> TaskTotals {
        let mut totals = self.past;
        self.threads.iter().for_each(|thread| totals.add(thread.totals()));
        totals.used_ns = totals.used_ns.saturating_add(self.unseen.credited().0);
        totals
    }
}

impl Thread {
    /// The figures of now; `None` when the thread is gone.
    fn read(&mut self, pid: u32, descriptors: &mut DescriptorBudget) -> Option<Schedstat> {
        self.keep_schedstat(pid, descriptors);
        let mut buffer = [0; 96];
        if let Some(file) = &self.schedstat {
            return procfs::parse_schedstat(file.read(&mut buffer).ok()?);
        }
        let text = fault::retry("read", || std::fs::read(self.path(pid, "schedstat"))).ok()?;
        let figures = procfs::parse_schedstat(&text)?;
        // Figures never go back: if they do, this is another thread with the same number.
        let is_same = self.figures.is_none_or(|known| known.run_ns <= figures.run_ns);
        is_same.then_some(figures)
    }

    /// Takes figures in; tells whether they are new.
    fn take(&mut self, figures: Schedstat, when: SampleTime) -> bool {
        let ran = self.figures.is_none_or(|known| known.run_ns != figures.run_ns);
        self.n_looks_quiet = if ran { 0 } else { self.n_looks_quiet.saturating_add(1) };
        self.n_looks_ran = self.n_looks_ran.wrapping_add(u32::from(ran));
        self.looked_at = Some(when.at);
        self.look_at = when.next(self.n_looks_quiet);
        self.figures = Some(figures);
        ran
    }

    /// The CPU of a thread that may choose, and its moves between CPUs now and then. A thread that we
    /// bound to one CPU is there, unless somebody else moved it, which is noticed when its mask is
    /// looked at.
    fn look_closer(&mut self, pid: u32, descriptors: &mut DescriptorBudget) {
        if self.mask.len() == 1 && !self.is_foreign {
            self.last_cpu = self.mask.first();
            return;
        }
        let keep = 1 < self.n_looks_ran;
        let last_cpu = self.read_stat(pid, keep, descriptors, procfs::parse_last_cpu);
        self.last_cpu = last_cpu.map(CpuId);
        if self.n_looks_ran.is_multiple_of(MIGRATIONS_EVERY) {
            self.read_migrations();
        }
    }

    /// What a parser makes of the thread's `stat`. The file is kept open if it is read often.
    pub(super) fn read_stat<T>(
        &mut self,
        pid: u32,
        keep: bool,
        descriptors: &mut DescriptorBudget,
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> Option<T> {
        if self.stat.is_none() && keep {
            self.stat = descriptors.keep(&self.path(pid, "stat")).unwrap_or_default();
        }
        let mut buffer = [0; 1024];
        match &self.stat {
            Some(file) => parse(file.read(&mut buffer).ok()?),
            None => {
                let read = || std::fs::read(self.path(pid, "stat"));
                parse(&fault::retry("read", read).ok()?)
            }
        }
    }

    /// Reads its counters; tells whether somebody else holds them.
    fn count(&mut self) -> bool {
        self.counters.as_mut().is_some_and(|counters| counters.sample())
    }

    fn read_migrations(&mut self) {
        if let Some(n) = procfs::migrations(std::path::Path::new("/"), self.id.tid) {
            self.migrations = Some((n, self.used()));
        }
    }

    /// CPU time as it was last read, in nanoseconds.
    pub(super) fn used(&self) -> u64 {
        self.figures.map_or(0, |figures| figures.run_ns)
    }

    /// The first thread of a process can still be read after its end, as long as nobody has waited
    /// for it.
    fn totals(&self) -> TaskTotals {
        let (n_migrations, moves_of_ns) = self.migrations.unwrap_or_default();
        TaskTotals {
            used_ns: self.used(),
            wait_ns: self.figures.map_or(0, |figures| figures.wait_ns),
            wait_of_ns: self.used(),
            n_migrations,
            moves_of_ns,
        }
    }

    /// `unseen` is what children of its process used that nobody saw; the first thread answers for it.
    pub(super) fn sample(&self, job: JobId, process: u32, unseen: Nanos) -> TaskSample {
        let figures = self.figures.unwrap_or_default();
        let unseen = if self.id.tid == process { unseen } else { Nanos::ZERO };
        TaskSample {
            task: self.id,
            process,
            job,
            cpu_time: Nanos(figures.run_ns) + unseen,
            previous_sample_at: None,
            wait: Some(Nanos(figures.wait_ns)),
            last_cpu: self.last_cpu,
            counters: self.counters.as_ref().map_or(Counters::NONE, |counters| counters.sampled()),
            includes_children: self.counters.as_ref().is_some_and(|its| its.includes_children),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_ms(at: u64) -> SampleTime {
        let ms = Nanos::from_millis;
        SampleTime { at: ms(at), interval: ms(250), rest_max: Nanos::from_secs(2) }
    }

    #[test]
    fn who_sleeps_is_looked_at_ever_more_seldom_but_at_least_every_two_seconds() {
        let next = |at| -> Vec<u64> {
            (0..8).map(|n_quiet| at_ms(at).next(n_quiet).0 / 1_000_000).collect()
        };
        assert_eq!(next(4000), [4250, 4250, 4250, 4500, 5000, 6000, 6000, 6000]);
        // Whenever they fell asleep, they are looked at together.
        assert_eq!(next(4250), [4500, 4500, 4500, 4500, 5000, 6000, 6000, 6000]);
    }

    #[test]
    fn a_look_after_a_rest_says_since_when() {
        let before = |at| at_ms(1000).looked_before(Some(Nanos::from_millis(at)));
        assert_eq!((before(750), before(700)), (None, None));
        assert_eq!(before(500), Some(Nanos::from_millis(500)));
        assert_eq!(at_ms(1000).looked_before(None), None, "a newborn");
    }

    #[test]
    fn a_tick_that_comes_a_little_early_still_finds_who_is_due() {
        assert!(at_ms(999).is_due(Nanos::from_millis(1000)));
        assert!(!at_ms(750).is_due(Nanos::from_millis(1000)));
    }
}
