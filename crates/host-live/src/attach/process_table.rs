//! All known processes, each with the time of its next sample.
//!
//! ```text
//!   used CPU time      sampled again after one interval
//!   idle               after two, four, eight … intervals, but at least every 30 seconds
//!   used a few ticks   the exponent is halved: for example after four intervals in place of sixteen
//! ```
//!
//! N idle processes therefore cost N/30 samples per second, and a process that becomes busy is detected within 30
//! seconds. Kernel threads are sampled every ten minutes. A different start time shows that the PID was reused. The
//! caller reads the files.

use std::collections::{BTreeMap, BTreeSet};

use base::{JobId, Nanos};
use linux::proc_stat::{Comm, ProcStat};

use super::status::ExclusionReason;

/// Maximum time between two samples of a process.
pub(super) const SAMPLE_EVERY_MAX: Nanos = Nanos::from_secs(30);
/// Time between two samples of a kernel thread, which only detect the exit of the thread.
const KERNEL_EVERY: Nanos = Nanos::from_secs(600);
/// A process is busy if it uses at least this share of a CPU between two samples, in permille.
pub(super) const BUSY_PERMILLE: u64 = 10;
/// A busy process also uses at least this number of ticks: one tick may be a rounding error of the accounting.
const BUSY_TICKS: u64 = 2;
/// Maximum exponent `n` of the time between two samples, interval × 2^n.
const N_IDLE_MAX: u8 = 32;

/// State of a process in the watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessState {
    /// The process is not selected.
    NotSelected,
    /// The process is selected and excluded.
    Excluded(ExclusionReason),
    /// The process becomes a job when it is busy.
    Eligible,
    /// The process is a job. The session samples its threads.
    Job(JobId),
}

/// A known process.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownProcess {
    pub start_time_ticks: u64,
    pub comm: Comm,
    pub state: ProcessState,
    /// Whether the process is selected by PID, or is a descendant of such a process.
    pub is_selected_by_pid: bool,
    cpu_ticks: u64,
    sampled_at: Nanos,
    sample_at: Nanos,
    n_idle: u8,
}

impl KnownProcess {
    pub(super) fn job(&self) -> Option<JobId> {
        match self.state {
            ProcessState::Job(job) => Some(job),
            _ => None,
        }
    }
}

/// Result of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    Idle,
    /// CPU usage in permille of a CPU.
    Busy(u64),
    /// The process executed another program, or the PID was reused.
    Replaced,
}

/// All known processes.
#[derive(Debug)]
pub(super) struct ProcessTable {
    processes: BTreeMap<u32, KnownProcess>,
    due: BTreeSet<(Nanos, u32)>,
    n_selected_by_pid: usize,
    /// Time between two samples of a job.
    job_every: Nanos,
    busy_permille: u64,
    interval: Nanos,
    /// Unit of CPU time in `/proc/PID/stat`.
    tick: Nanos,
}

impl ProcessTable {
    /// Creates an empty table. A process is sampled at most once per interval.
    pub(super) fn new(interval: Nanos, tick: Nanos) -> Self {
        ProcessTable {
            processes: BTreeMap::new(),
            due: BTreeSet::new(),
            n_selected_by_pid: 0,
            job_every: SAMPLE_EVERY_MAX,
            busy_permille: BUSY_PERMILLE,
            interval,
            tick,
        }
    }

    /// Sets the minimum CPU usage of a busy process. With 0 every process is busy.
    pub(super) fn with_busy(mut self, permille: u64) -> Self {
        self.busy_permille = permille;
        self
    }

    /// Sets the time in which an idle job must be detected.
    pub(super) fn with_job_period(mut self, period: Nanos) -> Self {
        self.job_every = period.clamp(self.interval.min(SAMPLE_EVERY_MAX), SAMPLE_EVERY_MAX);
        self
    }

    fn every_max(&self, state: ProcessState) -> Nanos {
        match state {
            ProcessState::Job(_) => self.job_every,
            ProcessState::Excluded(ExclusionReason::KernelThread) => KERNEL_EVERY,
            _ => SAMPLE_EVERY_MAX,
        }
    }

    pub(super) fn get(&self, pid: u32) -> Option<&KnownProcess> {
        self.processes.get(&pid)
    }

    /// Returns the process with this PID if it has the start time of the sample.
    pub(super) fn get_same(&self, pid: u32, stat: &ProcStat) -> Option<&KnownProcess> {
        self.get(pid).filter(|known| known.start_time_ticks == stat.start_time_ticks)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (u32, &KnownProcess)> {
        self.processes.iter().map(|(&pid, known)| (pid, known))
    }

    pub(super) fn pids(&self) -> Vec<u32> {
        self.processes.keys().copied().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.processes.len()
    }

    /// Returns the number of processes that are selected by PID, including their descendants.
    pub(super) fn n_selected_by_pid(&self) -> usize {
        self.n_selected_by_pid
    }

    /// Adds a process, or replaces the process with this PID.
    pub(super) fn insert(
        &mut self,
        pid: u32,
        stat: &ProcStat,
        (state, is_selected_by_pid): (ProcessState, bool),
        now: Nanos,
    ) {
        self.remove(pid);
        let sample_at = match state {
            ProcessState::Eligible => now + self.interval,
            // Other processes are sampled only to detect exit and exec; their samples are spread over time.
            _ => {
                let every = self.every_max(state).0;
                now + Nanos(every / 2 + every / 128 * u64::from(pid % 64))
            }
        };
        let known = KnownProcess {
            start_time_ticks: stat.start_time_ticks,
            comm: stat.comm,
            state,
            is_selected_by_pid,
            cpu_ticks: stat.cpu_ticks,
            sampled_at: now,
            sample_at,
            n_idle: 0,
        };
        self.processes.insert(pid, known);
        self.due.insert((sample_at, pid));
        self.n_selected_by_pid += usize::from(is_selected_by_pid);
    }

    pub(super) fn remove(&mut self, pid: u32) -> Option<KnownProcess> {
        let known = self.processes.remove(&pid)?;
        self.due.remove(&(known.sample_at, pid));
        self.n_selected_by_pid -= usize::from(known.is_selected_by_pid);
        Some(known)
    }

    /// Forgets which processes are selected by PID. The caller inspects all processes again.
    pub(super) fn forget_selected_by_pid(&mut self) {
        self.processes.values_mut().for_each(|known| known.is_selected_by_pid = false);
        self.n_selected_by_pid = 0;
    }

    pub(super) fn take_due(&mut self, now: Nanos) -> Option<u32> {
        let &(at, pid) = self.due.first().filter(|(at, _)| *at <= now)?;
        self.due.remove(&(at, pid));
        Some(pid)
    }

    /// Records a sample of a process, and schedules the next sample.
    pub(super) fn sample(&mut self, pid: u32, stat: &ProcStat, now: Nanos) -> Activity {
        let (tick, interval) = (self.tick, self.interval);
        let every_max = self.get(pid).map_or(SAMPLE_EVERY_MAX, |it| self.every_max(it.state));
        let busy_ticks = if self.busy_permille == 0 { 0 } else { BUSY_TICKS };
        let Some(known) = self.processes.get_mut(&pid) else { return Activity::Replaced };
        if known.start_time_ticks != stat.start_time_ticks || known.comm != stat.comm {
            return Activity::Replaced;
        }
        let used = stat.cpu_ticks.saturating_sub(known.cpu_ticks);
        let elapsed = now.saturating_sub(known.sampled_at).0.max(1);
        let permille = used.saturating_mul(tick.0).saturating_mul(1000) / elapsed;
        (known.cpu_ticks, known.sampled_at) = (stat.cpu_ticks, now);
        let is_busy = self.busy_permille <= permille && busy_ticks <= used;
        known.n_idle = match (is_busy, used) {
            (true, _) => 0,
            (false, 0) => known.n_idle.saturating_add(1).min(N_IDLE_MAX),
            (false, _) => known.n_idle / 2,
        };
        let every = match known.state {
            ProcessState::Eligible => backoff(interval, known.n_idle),
            _ => every_max,
        };
        self.schedule(pid, now + every.max(interval));
        if is_busy { Activity::Busy(permille) } else { Activity::Idle }
    }

    /// Schedules the next sample of a process that could not be read. The delay increases with each failure.
    pub(super) fn schedule_retry(&mut self, pid: u32, now: Nanos) {
        let interval = self.interval;
        let Some(known) = self.processes.get_mut(&pid) else { return };
        known.n_idle = known.n_idle.saturating_add(1).min(N_IDLE_MAX);
        let every = backoff(interval, known.n_idle).max(interval);
        self.schedule(pid, now + every);
    }

    pub(super) fn set_state(&mut self, pid: u32, state: ProcessState, now: Nanos) {
        let is_eligible = state == ProcessState::Eligible;
        let every = if is_eligible { self.interval } else { self.every_max(state) };
        if let Some(known) = self.processes.get_mut(&pid) {
            known.state = state;
            self.schedule(pid, now + every);
        }
    }

    fn schedule(&mut self, pid: u32, at: Nanos) {
        if let Some(known) = self.processes.get_mut(&pid) {
            self.due.remove(&(known.sample_at, pid));
            known.sample_at = at;
            self.due.insert((at, pid));
        }
    }
}

/// Returns the time until the next sample after this number of idle samples.
fn backoff(interval: Nanos, n_idle: u8) -> Nanos {
    Nanos(interval.0.saturating_mul(1 << n_idle)).min(SAMPLE_EVERY_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(start_time_ticks: u64, cpu_ticks: u64) -> ProcStat {
        let comm = *b"a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
        ProcStat { comm, state: 'S', cpu_ticks, start_time_ticks, ..ProcStat::default() }
    }

    fn table() -> ProcessTable {
        let mut table = ProcessTable::new(Nanos::from_secs(1), Nanos::from_millis(10));
        table.insert(7, &stat(1, 100), (ProcessState::Eligible, false), Nanos::ZERO);
        table
    }

    /// Samples process 7 whenever it is due, with these CPU times. Returns the times of the samples in
    /// seconds.
    fn samples(table: &mut ProcessTable, ticks: &[u64]) -> Vec<u64> {
        let mut at = Vec::new();
        for &cpu_ticks in ticks {
            let now = table.due.first().expect("a process").0;
            assert_eq!(table.take_due(now), Some(7));
            table.sample(7, &stat(1, cpu_ticks), now);
            at.push(now.0 / 1_000_000_000);
        }
        at
    }

    #[test]
    fn an_idle_process_is_sampled_less_often_but_at_least_every_30_s() {
        let at = samples(&mut table(), &[100; 9]);
        assert_eq!(at, [1, 3, 7, 15, 31, 61, 91, 121, 151]);
    }

    #[test]
    fn a_process_that_uses_cpu_time_is_sampled_sooner() {
        let at = samples(&mut table(), &[100, 100, 100, 100, 101, 101, 200, 300]);
        assert_eq!(at, [1, 3, 7, 15, 31, 35, 43, 44]);
    }

    #[test]
    fn a_process_is_busy_with_one_percent_of_a_cpu_and_more_than_one_tick() {
        let activity =
            |cpu_ticks, secs| table().sample(7, &stat(1, cpu_ticks), Nanos::from_secs(secs));
        assert_eq!(activity(101, 1), Activity::Idle, "one tick may be a rounding error");
        assert_eq!(activity(102, 1), Activity::Busy(20));
        assert_eq!(activity(105, 10), Activity::Idle);
        assert_eq!(activity(200, 1), Activity::Busy(1000));
    }

    #[test]
    fn a_kernel_thread_is_sampled_every_ten_minutes() {
        let mut table = table();
        let state = ProcessState::Excluded(ExclusionReason::KernelThread);
        table.insert(7, &stat(1, 100), (state, false), Nanos::ZERO);
        assert_eq!(samples(&mut table, &[100, 200, 300]), [332, 932, 1532]);
    }

    #[test]
    fn processes_selected_by_pid_are_counted() {
        let mut table = table();
        assert_eq!(table.n_selected_by_pid(), 0);
        for is_selected_by_pid in [true, true, false, true] {
            table.insert(
                7,
                &stat(1, 100),
                (ProcessState::Eligible, is_selected_by_pid),
                Nanos::ZERO,
            );
            assert_eq!(table.n_selected_by_pid(), usize::from(is_selected_by_pid));
        }
        table.insert(8, &stat(2, 100), (ProcessState::NotSelected, true), Nanos::ZERO);
        table.remove(7);
        table.remove(7);
        assert_eq!(table.n_selected_by_pid(), 1);
    }

    #[test]
    fn a_reused_pid_is_another_process() {
        let mut table = table();
        assert_eq!(table.sample(7, &stat(2, 100), Nanos::from_secs(1)), Activity::Replaced);
        assert_eq!(table.sample(8, &stat(2, 100), Nanos::from_secs(1)), Activity::Replaced);
        table.insert(7, &stat(2, 500), (ProcessState::Eligible, false), Nanos::from_secs(1));
        assert_eq!(table.len(), 1);
        let activity = table.sample(7, &stat(2, 500), Nanos::from_secs(2));
        assert_eq!(activity, Activity::Idle, "CPU time of the earlier process does not count");
    }
}
