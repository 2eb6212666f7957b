//! Samples of threads. The interval between the samples of a thread depends on its activity.

use std::sync::Arc;

use crate::proc_stat::{ProcStat, parse_stat};
use crate::procfs::{self, Schedstat};
use crate::source::Source;
use base::{CpuId, CpuSet, JobId, Nanos};
use sched::{Counters, TaskSample};

use super::{SampledTasks, TaskFiles, TaskReader, TaskTotals, Thread, TrackedProcess};

/// Number of idle samples after which the interval of a thread increases.
const IDLE_SAMPLES: u32 = 3;
/// Interval between reads of migrations, in samples in which the thread had run. The kernel needs about 20 µs for this
/// file.
const MIGRATIONS_PERIOD: u32 = 8;
/// Interval between verifications of the affinity, in samples in which the thread had run.
const MASKS_PERIOD: u32 = 4;
/// Two ticks of a kernel with 100 ticks per second: a running thread has used CPU time in this time.
const TICKS: Nanos = Nanos::from_millis(20);
/// After this number of samples, only every second sample searches a process with one thread and no children for new
/// threads and children; after four times this number, only every fourth sample.
const SINGLE_THREAD_SAMPLES: u32 = 4;

/// Time of a sample.
#[derive(Clone, Copy, Debug)]
pub struct SampleTime {
    /// Time since the start of the run.
    pub at: Nanos,
    /// Interval between two samples.
    pub interval: Nanos,
    /// Longest time between two samples of a sleeping thread.
    pub idle_interval_max: Nanos,
}

impl SampleTime {
    /// Returns whether a task is sampled in this turn. A timer may expire early by half an
    /// interval.
    fn is_due(&self, sample_at: Nanos) -> bool {
        sample_at <= self.at + Nanos(self.interval.0 / 2)
    }

    /// Returns the time of the next sample of a thread: after one interval, or, if the thread was idle, after 2, 4, 8,
    /// … intervals up to `idle_interval_max`. The time is a multiple of this period, so that sleeping threads are
    /// sampled in the same turns and other turns can be skipped.
    fn next(&self, n_samples_idle: u32) -> Nanos {
        let n_intervals = match n_samples_idle.checked_sub(IDLE_SAMPLES) {
            None => return self.at + self.interval,
            Some(n_more) => 2u64 << n_more.min(20),
        };
        let period = Nanos(self.interval.0.saturating_mul(n_intervals));
        let period = period.min(self.idle_interval_max.max(self.interval)).0.max(1);
        Nanos((self.at.0 / period + 1).saturating_mul(period))
    }

    /// Returns the time of the previous sample if it is more than one interval ago.
    fn previous(&self, sampled_at: Option<Nanos>) -> Option<Nanos> {
        let usual = Nanos(self.interval.0 + self.interval.0 / 2);
        sampled_at.filter(|&before| usual < self.at.saturating_sub(before))
    }
}

impl<S: Source> TaskReader<S> {
    /// Samples every thread that is due. `mask` returns the affinity that new processes of a job inherit.
    pub fn sample(
        &mut self,
        time: SampleTime,
        mask: impl Fn(JobId) -> Arc<CpuSet>,
        sampled: &mut SampledTasks,
    ) {
        self.sample_due(time, false, sampled);
        for (job, pid) in std::mem::take(&mut sampled.active) {
            if self.follows_children {
                self.credit_unseen((job, pid), sampled);
            }
            self.find_new((job, pid), &mask(job), sampled);
        }
    }

    /// Samples every thread of every process for a recording, including idle and new threads. `at` must be larger than
    /// in the previous call. Waits that have not ended are not reported.
    pub fn sample_all(&mut self, at: Nanos, sampled: &mut SampledTasks) {
        let time = SampleTime { at, interval: Nanos(1), idle_interval_max: Nanos::ZERO };
        self.sample_due(time, true, sampled);
        let processes: Vec<(JobId, u32)> = self.processes.keys().copied().collect();
        for (job, pid) in processes {
            // The start time has identified each known thread.
            self.add_threads(job, pid, &Arc::default(), |_, _| true);
        }
        self.sample_due(time, true, sampled);
    }

    fn sample_due(&mut self, time: SampleTime, with_idle: bool, sampled: &mut SampledTasks) {
        let mut empty: Vec<u32> = Vec::new();
        self.next_sample = None;
        for (&(job, pid), process) in &mut self.processes {
            if time.is_due(process.sample_at) {
                process.sample((job, pid), time, with_idle, &mut self.files, sampled);
            }
            if process.threads.is_empty() {
                empty.push(pid);
            }
            let next = self.next_sample.map_or(process.sample_at, |at| at.min(process.sample_at));
            self.next_sample = Some(next);
        }
        self.remove_exited(empty);
        self.retire_counters(sampled);
    }

    fn retire_counters(&mut self, sampled: &mut SampledTasks) {
        self.counters.is_occupied |= sampled.is_occupied;
        for (job, task, counters) in std::mem::take(&mut sampled.retired) {
            self.counters.retire(&mut self.files.source, (job, task), counters);
        }
    }

    /// Returns the time at which the next process is due; `None` without processes.
    pub fn next_sample_at(&self) -> Option<Nanos> {
        self.next_sample
    }

    /// Adds new threads and children of a process that has run.
    fn find_new(
        &mut self,
        (job, pid): (JobId, u32),
        mask: &Arc<CpuSet>,
        sampled: &mut SampledTasks,
    ) {
        let Some(process) = self.processes.get_mut(&(job, pid)) else { return };
        if !process.is_checked_for_new() {
            return;
        }
        let has_other_threads = process.has_other_threads(pid, &mut self.files);
        let grew = has_other_threads && !self.list_threads(job, pid, mask).is_empty();
        let ran = |thread: &Thread| thread.n_samples_idle == 0;
        if self.find_children(job, pid, mask, ran) || grew {
            sampled.changed_jobs.insert(job);
        }
    }

    /// Takes the last sample of all threads of a job before they exit. Returns the totals of the job.
    pub fn final_sample(
        &mut self,
        job: JobId,
        at: Nanos,
        sampled: &mut SampledTasks,
    ) -> (TaskTotals, Counters) {
        let time = SampleTime { at, interval: Nanos(1), idle_interval_max: Nanos::ZERO };
        let mut totals = self.past.remove(&job).unwrap_or_default();
        for (&(_, pid), process) in self.processes.range_mut((job, 0)..=(job, u32::MAX)) {
            process.sample_at = Nanos::ZERO;
            process.threads.iter_mut().for_each(|thread| thread.sample_at = Nanos::ZERO);
            process.sample((job, pid), time, false, &mut self.files, sampled);
            let threads = process.threads.iter_mut();
            threads.for_each(|thread| thread.read_migrations(pid, &mut self.files));
            totals.add(process.totals());
        }
        self.sample_main_thread(job, sampled);
        self.retire_counters(sampled);
        let counters = self.inherited_counters_of(job);
        self.counters.remove_job(job);
        (totals, counters)
    }
}

impl TrackedProcess {
    fn sample(
        &mut self,
        (job, pid): (JobId, u32),
        time: SampleTime,
        with_idle: bool,
        files: &mut TaskFiles<impl Source>,
        sampled: &mut SampledTasks,
    ) {
        let n_before = (sampled.tasks.len(), sampled.exited.len());
        let (past, unseen) = (&mut self.past, self.unseen.credited());
        self.threads.retain_mut(|thread| {
            if !time.is_due(thread.sample_at) {
                return true;
            }
            let Some(times) = thread.read_times(pid, files) else {
                if thread.may_be_running(pid, files) {
                    return true; // The read failed temporarily.
                }
                sampled.exited.push(thread.id);
                let counters = thread.counters.take();
                sampled.retired.extend(counters.map(|counters| (job, thread.id, counters)));
                past.add(thread.totals());
                return false;
            };
            let sampled_at = thread.sampled_at;
            let previous_sample_at = time.previous(sampled_at);
            let ran = thread.record(times, time);
            if ran || with_idle || thread.waits(pid, (sampled_at, time), files) {
                // Migrations are needed only for totals, and recordings contain no totals.
                thread.read_cpu(pid, ran && !with_idle, files);
                sampled.is_occupied |= thread.read_counters(&mut files.source);
                let sample = thread.sample(job, pid, unseen);
                sampled.tasks.push(TaskSample { previous_sample_at, ..sample });
                if ran && thread.n_samples_ran % MASKS_PERIOD == 1 {
                    sampled.masks_to_verify.push((job, thread.id));
                }
            }
            true
        });
        let next = self.threads.iter().map(|thread| thread.sample_at).min();
        self.sample_at = next.unwrap_or_default();
        if n_before != (sampled.tasks.len(), sampled.exited.len()) {
            sampled.active.push((job, pid));
        }
    }

    /// Returns whether this sample searches for new threads and children. A later search is harmless: new threads and
    /// children inherit the right affinity, and their CPU time is counted from their start.
    fn is_checked_for_new(&self) -> bool {
        let is_single_thread = self.threads.len() == 1 && !self.unseen.has_had_children();
        let n_samples = self.threads.first().map_or(0, |thread| thread.n_samples_ran);
        let period = match n_samples / SINGLE_THREAD_SAMPLES {
            0 => 1,
            1..4 => 2,
            _ => 4,
        };
        !is_single_thread || n_samples.is_multiple_of(period)
    }

    /// Returns whether the number of threads differs from the number of known threads.
    fn has_other_threads(&mut self, pid: u32, files: &mut TaskFiles<impl Source>) -> bool {
        if self.dir.is_none() {
            let path = format!("/proc/{pid}/task");
            self.dir = files.descriptors.keep(path.as_ref()).unwrap_or_default();
        }
        let counted = self.dir.as_ref().map(|dir| dir.count_threads());
        !matches!(counted, Some(Ok(n_threads)) if n_threads as usize == self.threads.len())
    }

    /// Returns the totals of the threads, including exited threads.
    pub(super) fn totals(&self) -> TaskTotals {
        let mut totals = self.past;
        self.threads.iter().for_each(|thread| totals.add(thread.totals()));
        totals.used_ns = totals.used_ns.saturating_add(self.unseen.credited().0);
        totals
    }
}

impl Thread {
    /// Reads the CPU times; `None` if the thread has exited.
    fn read_times(&mut self, pid: u32, files: &mut TaskFiles<impl Source>) -> Option<Schedstat> {
        self.keep_schedstat(pid, files);
        let mut buffer = [0; 96];
        if let Some(file) = &self.schedstat {
            return procfs::parse_schedstat(file.read(&mut buffer).ok()?);
        }
        // A path does not identify the thread: the TID may have been reused.
        let stat = files.stat(pid, self.id.tid).ok()?;
        if stat.start_time_ticks != self.id.start_time_ticks {
            return None;
        }
        self.last_cpu = Some(CpuId(stat.last_cpu));
        procfs::parse_schedstat(&files.read(pid, self.id.tid, "schedstat").ok()?)
    }

    /// Returns whether the thread may be running: it has not exited, or its state cannot be read.
    fn may_be_running(&self, pid: u32, files: &mut TaskFiles<impl Source>) -> bool {
        match files.stat(pid, self.id.tid) {
            Ok(stat) => stat.start_time_ticks == self.id.start_time_ticks && !stat.has_exited(),
            Err(error) => error.kind() != std::io::ErrorKind::NotFound,
        }
    }

    /// Records CPU times. Returns whether the thread has run since the last sample.
    fn record(&mut self, times: Schedstat, time: SampleTime) -> bool {
        let ran = self.times.is_none_or(|known| known.run_ns != times.run_ns);
        self.n_samples_idle = if ran { 0 } else { self.n_samples_idle.saturating_add(1) };
        self.n_samples_ran = self.n_samples_ran.wrapping_add(u32::from(ran));
        self.waiting_since = self.waiting_since.filter(|_| !ran);
        self.sampled_at = Some(time.at);
        self.sample_at = time.next(self.n_samples_idle);
        self.times = Some(times);
        ran
    }

    /// Returns whether a thread that has not run since the last sample waits for a CPU. The kernel adds a wait to
    /// `schedstat` at its end, so until then the time since the last sample in which the thread ran is reported as wait
    /// time: a thread that woke up later waited less. The state is read only in the first sample after the thread ran
    /// or waited, so that a sleeping thread costs one read.
    ///
    /// A running thread has the same state. It is not counted as waiting, because its CPU time has increased since the
    /// last sample, except within one tick, and on a `nohz_full` CPU, on which no policy places a task.
    fn waits(
        &mut self,
        pid: u32,
        (sampled_at, time): (Option<Nanos>, SampleTime),
        files: &mut TaskFiles<impl Source>,
    ) -> bool {
        let since = self.waiting_since.take().or(sampled_at).unwrap_or(time.at);
        let waited = time.at.saturating_sub(since);
        if self.n_samples_idle != 1 || waited < TICKS {
            return false;
        }
        let stat = self.read_stat(pid, 1 < self.n_samples_ran, files);
        if stat.is_none_or(|stat| stat.state != 'R') {
            return false;
        }
        let ended_ns = self.times.map_or(0, |times| times.wait_ns);
        self.waited_ns = self.waited_ns.max(ended_ns + waited.0);
        self.waiting_since = Some(since);
        self.n_samples_idle = 0;
        self.sample_at = time.next(0);
        true
    }

    /// Returns the reported wait time in nanoseconds.
    fn wait_ns(&self) -> u64 {
        self.times.map_or(0, |times| times.wait_ns).max(self.waited_ns)
    }

    /// Reads the last CPU of a thread and, in some samples, its migrations. The last CPU of a thread with one allowed
    /// CPU is not read. If another program changed the mask, the verification of masks detects the change.
    fn read_cpu(&mut self, pid: u32, with_migrations: bool, files: &mut TaskFiles<impl Source>) {
        if self.mask.len() == 1 && !self.is_foreign {
            self.last_cpu = self.mask.first();
            return;
        }
        if self.schedstat.is_some() {
            let stat = self.read_stat(pid, 1 < self.n_samples_ran, files);
            self.last_cpu = stat.map(|stat| CpuId(stat.last_cpu));
        } // Without `schedstat` the CPU was read together with the times.
        if with_migrations && self.n_samples_ran.is_multiple_of(MIGRATIONS_PERIOD) {
            self.read_migrations(pid, files);
        }
    }

    /// Reads the thread's `stat`. With `keep` the file stays open.
    pub(super) fn read_stat(
        &mut self,
        pid: u32,
        keep: bool,
        files: &mut TaskFiles<impl Source>,
    ) -> Option<ProcStat> {
        if self.stat.is_none() && keep {
            self.stat = self.keep(pid, "stat", files);
        }
        let mut buffer = [0; 1024];
        match &self.stat {
            Some(file) => parse_stat(file.read(&mut buffer).ok()?),
            None => files.stat(pid, self.id.tid).ok(),
        }
    }

    /// Reads the counters. Returns whether a group never ran.
    fn read_counters(&mut self, source: &mut impl Source) -> bool {
        self.counters.as_mut().is_some_and(|counters| counters.sample(source))
    }

    fn read_migrations(&mut self, pid: u32, files: &mut TaskFiles<impl Source>) {
        let text = files.read(pid, self.id.tid, "sched").ok();
        let n = text.and_then(|text| procfs::parse_migrations(&String::from_utf8_lossy(&text)));
        self.migrations = n.map(|n| (n, self.used())).or(self.migrations);
    }

    /// Returns the CPU time at the last sample, in nanoseconds.
    pub(super) fn used(&self) -> u64 {
        self.times.map_or(0, |times| times.run_ns)
    }

    fn totals(&self) -> TaskTotals {
        let (n_migrations, migrations_of_ns) = self.migrations.unwrap_or_default();
        TaskTotals {
            used_ns: self.used(),
            // Without the estimate of a wait that has not ended.
            wait_ns: self.times.map_or(0, |times| times.wait_ns),
            wait_of_ns: self.used(),
            n_migrations,
            migrations_of_ns,
        }
    }

    /// Returns the sample of a thread. `unseen` is the CPU time of children that were never sampled, which is added to
    /// the main thread of the process.
    pub(super) fn sample(&self, job: JobId, process: u32, unseen: Nanos) -> TaskSample {
        let times = self.times.unwrap_or_default();
        let unseen = if self.id.tid == process { unseen } else { Nanos::ZERO };
        TaskSample {
            task: self.id,
            process,
            job,
            cpu_time: Nanos(times.run_ns) + unseen,
            unseen_children: unseen,
            previous_sample_at: None,
            wait: Some(Nanos(self.wait_ns())),
            last_cpu: self.last_cpu,
            counters: self.counters.as_ref().map_or(Counters::NONE, |counters| counters.sampled()),
            includes_children: self
                .counters
                .as_ref()
                .is_some_and(|of_task| of_task.includes_children),
        }
    }
}

#[cfg(test)]
mod tests {
    use base::TaskId;

    use super::*;
    use crate::perf::{Flags, software};
    use crate::source::testing::FakeSource;
    use crate::tasks::{CounterMode, DescriptorBudget, TaskCounters};

    /// Replaces the threads of process 7. `threads` contains TID and start time of each new thread.
    fn set_threads(source: &mut FakeSource, threads: &[(u32, u64)]) {
        source.files.clear();
        for (tid, start) in threads {
            let stat = format!(
                "{tid} (a) R 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {start} 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0"
            );
            source.write(format!("proc/7/task/{tid}/stat"), stat);
            source.write(format!("proc/7/task/{tid}/schedstat"), "1000 0 1");
        }
    }

    #[test]
    fn a_task_whose_tid_is_reused_is_reported_as_exited_and_its_counters_are_closed() {
        let counters = TaskCounters::of_run(vec![software(Flags::default())], CounterMode::All);
        let descriptors = DescriptorBudget::for_recording();
        let mut reader =
            TaskReader::new(FakeSource::default(), descriptors, counters, String::new());
        let task = |tid, start_time_ticks| TaskId { tid, start_time_ticks };
        let mut at = 0;
        let mut sample = |reader: &mut TaskReader<FakeSource>, threads: &[(u32, u64)]| {
            set_threads(&mut reader.files.source, threads);
            if at == 0 {
                reader.adopt(JobId(0), 7, &Arc::default());
            }
            let mut sampled = SampledTasks::default();
            reader.sample_all(Nanos(at), &mut sampled);
            at += 1;
            let n_counted = reader.threads_of(JobId(0)).filter(|(_, t)| t.counters.is_some());
            (sampled.tasks.len(), sampled.exited, n_counted.count())
        };
        assert_eq!(sample(&mut reader, &[(7, 70), (8, 80)]), (2, vec![], 2));
        assert_eq!(sample(&mut reader, &[(7, 70), (8, 81)]), (2, vec![task(8, 80)], 2));
        // The PID was reused: no thread of the new process is sampled.
        let both = vec![task(7, 70), task(8, 81)];
        assert_eq!(sample(&mut reader, &[(7, 71), (8, 82)]), (0, both, 0));
        assert_eq!(reader.all_processes().count(), 0);
    }

    #[test]
    fn a_task_that_waits_through_an_interval_is_sampled_and_one_that_sleeps_is_not() {
        let counters = TaskCounters::of_run(Vec::new(), CounterMode::All);
        let descriptors = DescriptorBudget::for_recording();
        let mut reader =
            TaskReader::new(FakeSource::default(), descriptors, counters, String::new());
        let mut sample = |at: u64, state: char, run_and_wait: &str| {
            let source = &mut reader.files.source;
            set_threads(source, &[(7, 70)]);
            let stat = source.files["proc/7/task/7/stat"].replace(") R ", &format!(") {state} "));
            source.write("proc/7/task/7/stat", stat);
            source.write("proc/7/task/7/schedstat", format!("{run_and_wait} 1"));
            if at == 250 {
                reader.adopt(JobId(0), 7, &Arc::default());
            }
            let mut sampled = SampledTasks::default();
            reader.sample(at_ms(at), |_| Arc::default(), &mut sampled);
            sampled.tasks.first().map(|task| task.wait.expect("a time").0 / 1_000_000)
        };
        assert_eq!(sample(250, 'R', "1000 5000000"), Some(5));
        assert_eq!(sample(500, 'R', "1000 5000000"), Some(255), "it waits");
        assert_eq!(sample(750, 'R', "1000 5000000"), Some(505), "it still waits");
        assert_eq!(sample(1000, 'R', "2000 600000000"), Some(600), "its wait has ended");
        assert_eq!(sample(1250, 'S', "2000 600000000"), None, "it sleeps");
        assert_eq!(sample(1500, 'R', "2000 600000000"), None, "a later state is not read");
        // A thread that woke up between two samples waited less: the reported time never decreases.
        assert_eq!(sample(1750, 'R', "3000 600000000"), Some(600));
        assert_eq!(sample(2000, 'R', "3000 600000000"), Some(850));
        assert_eq!(sample(2250, 'R', "4000 601000000"), Some(850));
        assert_eq!(sample(2500, 'R', "4000 601000000"), Some(851), "the excess is not added again");
    }

    fn at_ms(at: u64) -> SampleTime {
        let ms = Nanos::from_millis;
        SampleTime { at: ms(at), interval: ms(250), idle_interval_max: Nanos::from_secs(2) }
    }

    #[test]
    fn sleeping_threads_are_sampled_at_increasing_intervals_up_to_two_seconds() {
        let next = |at| -> Vec<u64> {
            (0..8).map(|n_idle| at_ms(at).next(n_idle).0 / 1_000_000).collect()
        };
        assert_eq!(next(4000), [4250, 4250, 4250, 4500, 5000, 6000, 6000, 6000]);
        // Threads that began to sleep at different times are sampled together.
        assert_eq!(next(4250), [4500, 4500, 4500, 4500, 5000, 6000, 6000, 6000]);
    }

    #[test]
    fn a_sample_after_a_longer_interval_contains_the_time_of_the_previous_sample() {
        let previous = |at| at_ms(1000).previous(Some(Nanos::from_millis(at)));
        assert_eq!((previous(750), previous(700)), (None, None));
        assert_eq!(previous(500), Some(Nanos::from_millis(500)));
        assert_eq!(at_ms(1000).previous(None), None, "a new thread");
    }

    #[test]
    fn a_task_is_due_if_the_timer_expires_slightly_early() {
        assert!(at_ms(999).is_due(Nanos::from_millis(1000)));
        assert!(!at_ms(750).is_due(Nanos::from_millis(1000)));
    }
}
