//! Threads of some processes with their counters, through a source: for recordings and their replay.
//!
//! A live run uses [`crate::tasks`] instead, which keeps descriptors open, since it samples thousands of threads.
//! Parsers and counter groups are the same.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use base::{CpuId, JobId, Nanos, TaskId};
use sched::{CounterEvent, Counters, Sample, TaskSample};

use crate::perf::{Attr, CounterTarget, Flags, GroupSpec, PmuGroups, add_group};
use crate::proc_stat::parse_stat;
use crate::procfs;
use crate::source::Source;

/// Some processes, one job each, with their threads.
#[derive(Debug)]
pub struct StreamTasks {
    processes: Vec<(u32, JobId)>,
    events: Vec<PmuGroups>,
    threads: BTreeMap<(u32, u32), Thread>,
    /// Notes that were reported.
    reported: BTreeSet<String>,
    /// Start time of each process, to detect that its PID is reused.
    start_times: BTreeMap<u32, u64>,
}

/// Open groups with the ids of their counters.
type OpenGroups = Vec<(u32, Vec<(CounterEvent, u64)>)>;

#[derive(Debug)]
struct Thread {
    id: TaskId,
    job: JobId,
    groups: OpenGroups,
    /// The last values; of the first thread of a process including its descendants.
    counters: Counters,
    /// Whether one of its groups was enabled and never running.
    is_shut_out: bool,
}

impl StreamTasks {
    /// Samples these processes; `events` are counted of each thread.
    pub fn new(processes: Vec<(u32, JobId)>, events: Vec<PmuGroups>) -> Self {
        let (threads, reported) = (BTreeMap::new(), BTreeSet::new());
        StreamTasks { processes, events, threads, reported, start_times: BTreeMap::new() }
    }

    /// Adds every thread to a sample. Returns whether any process is left.
    pub fn sample(&mut self, source: &mut dyn Source, sample: &mut Sample) -> bool {
        let mut any_left = false;
        for (pid, job) in self.processes.clone() {
            let mut tids = self.listed(source, pid);
            if self.is_reused(source, pid) {
                tids.clear();
            }
            any_left |= !tids.is_empty();
            self.forget_exited(source, pid, &tids, sample);
            for &tid in &tids {
                self.sample_thread(source, (pid, tid), job, sample);
            }
        }
        let shut_out = self.threads.values().any(|thread| thread.is_shut_out);
        if shut_out && self.reported.insert("shut out".to_owned()) {
            sample.degraded.push(SHUT_OUT.to_owned());
        }
        any_left
    }

    fn listed(&self, source: &mut dyn Source, pid: u32) -> BTreeSet<u32> {
        let names = source.list(&format!("proc/{pid}/task")).unwrap_or_default();
        names.iter().filter_map(|name| name.parse().ok()).collect()
    }

    /// Whether the PID belongs to another process than in the first sample.
    fn is_reused(&mut self, source: &mut dyn Source, pid: u32) -> bool {
        let stat = source.file(&format!("proc/{pid}/task/{pid}/stat")).ok();
        let Some(stat) = stat.and_then(|text| parse_stat(&text)) else { return false };
        *self.start_times.entry(pid).or_insert(stat.start_time_ticks) != stat.start_time_ticks
    }

    fn forget_exited(
        &mut self,
        source: &mut dyn Source,
        pid: u32,
        tids: &BTreeSet<u32>,
        sample: &mut Sample,
    ) {
        let known = self.threads.range((pid, 0)..=(pid, u32::MAX));
        let exited: Vec<u32> =
            known.map(|(&(_, tid), _)| tid).filter(|t| !tids.contains(t)).collect();
        for tid in exited {
            self.forget(source, (pid, tid), sample);
        }
    }

    fn forget(&mut self, source: &mut dyn Source, (pid, tid): (u32, u32), sample: &mut Sample) {
        let Some(thread) = self.threads.remove(&(pid, tid)) else { return };
        thread.groups.iter().for_each(|(nr, _)| source.close(*nr));
        sample.exited.push(thread.id);
    }

    fn sample_thread(
        &mut self,
        source: &mut dyn Source,
        (pid, tid): (u32, u32),
        job: JobId,
        sample: &mut Sample,
    ) {
        let folder = format!("proc/{pid}/task/{tid}");
        let stat = source.file(&format!("{folder}/stat")).ok();
        let stat = stat.and_then(|text| parse_stat(&text));
        let times = source.file(&format!("{folder}/schedstat")).ok();
        let times = times.and_then(|text| procfs::parse_schedstat(&text));
        let (Some(stat), Some(times)) = (stat, times) else { return };
        let id = TaskId { tid, start_time_ticks: stat.start_time_ticks };
        if self.threads.get(&(pid, tid)).is_some_and(|known| known.id != id) {
            self.forget(source, (pid, tid), sample); // The TID is reused.
        }
        if self.threads.get(&(pid, tid)).is_none_or(|known| known.id != id) {
            let groups = self.open(source, (pid, tid), sample);
            let thread = Thread { id, job, groups, counters: Counters::NONE, is_shut_out: false };
            self.threads.insert((pid, tid), thread);
        }
        let Some(thread) = self.threads.get_mut(&(pid, tid)) else { return };
        thread.read(source);
        sample.tasks.push(TaskSample {
            task: id,
            process: pid,
            job: thread.job,
            cpu_time: Nanos(times.run_ns),
            previous_sample_at: None,
            wait: Some(Nanos(times.wait_ns)),
            last_cpu: Some(CpuId(stat.last_cpu)),
            counters: thread.counters,
            includes_children: tid == pid,
        });
    }

    /// Opens the groups of a thread; those of the first thread of a process are inherited.
    fn open(
        &mut self,
        source: &mut dyn Source,
        (pid, tid): (u32, u32),
        sample: &mut Sample,
    ) -> OpenGroups {
        let mut opened = Vec::new();
        for chosen in &self.events {
            for group in &chosen.groups {
                let Err(error) = open_group(source, tid, group, tid == pid, &mut opened) else {
                    continue;
                };
                let text = format!("{} does not count tasks: {error}", chosen.pmu);
                if self.reported.insert(text.clone()) {
                    sample.degraded.push(text);
                }
            }
        }
        opened
    }

    /// Closes the counters.
    pub fn close(&mut self, source: &mut dyn Source) {
        for thread in std::mem::take(&mut self.threads).into_values() {
            thread.groups.iter().for_each(|(nr, _)| source.close(*nr));
        }
    }
}

/// Opens a group. A group that is too large for the PMU is split in two, as in [`crate::perf::TaskGroups`].
fn open_group(
    source: &mut dyn Source,
    tid: u32,
    group: &[(CounterEvent, Attr)],
    inherit: bool,
    opened: &mut OpenGroups,
) -> io::Result<()> {
    let event = |(event, attr): &(CounterEvent, Attr)| {
        let flags = Flags { inherit, ..attr.flags };
        (event.name().to_owned(), Attr { flags, ..*attr })
    };
    let spec =
        GroupSpec { target: CounterTarget::Task(tid), events: group.iter().map(event).collect() };
    match source.open(&spec) {
        Ok(group_of) => {
            let events = group.iter().map(|(event, _)| *event);
            opened.push((group_of.nr, events.zip(group_of.ids).collect()));
            Ok(())
        }
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) && 1 < group.len() => {
            let (one, other) = group.split_at(group.len() / 2);
            let first = open_group(source, tid, one, inherit, opened);
            first.and(open_group(source, tid, other, inherit, opened))
        }
        Err(error) => Err(error),
    }
}

/// The note for a group that was enabled and never running.
pub const SHUT_OUT: &str = "another profiler occupies the hardware counters: the metrics that need them are \
    absent; stop the profiler, or free one counter with sysctl kernel.nmi_watchdog=0";

impl Thread {
    fn read(&mut self, source: &mut dyn Source) {
        let mut counters = Counters::NONE;
        for (nr, events) in &self.groups {
            if let Ok(bytes) = source.group(*nr) {
                let _ = add_group(&mut counters, &bytes, events);
            }
        }
        self.counters = counters.or(&self.counters);
        self.is_shut_out = self.counters.iter().any(|(_, reading)| reading.never_ran());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::software;
    use crate::source::Opened;

    /// A process with a second thread: start time of each.
    #[derive(Default)]
    struct FakeProc {
        start_times: BTreeMap<u32, u64>,
        open: BTreeSet<u32>,
        next: u32,
    }

    impl Source for FakeProc {
        fn list(&mut self, folder: &str) -> io::Result<Vec<String>> {
            assert_eq!(folder, "proc/7/task");
            Ok(self.start_times.keys().map(u32::to_string).collect())
        }

        fn file(&mut self, path: &str) -> io::Result<Vec<u8>> {
            let mut words = path.rsplit('/');
            let (name, tid) = (words.next(), words.next().and_then(|tid| tid.parse().ok()));
            let start = self.start_times.get(&tid.unwrap_or(0)).ok_or(io::ErrorKind::NotFound)?;
            let text = match name {
                Some("schedstat") => "1000 0 1".to_owned(),
                _ => format!(
                    "7 (a) R 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {start} 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0"
                ),
            };
            Ok(text.into_bytes())
        }

        fn open(&mut self, spec: &GroupSpec) -> io::Result<Opened> {
            self.next += 1;
            self.open.insert(self.next);
            Ok(Opened { nr: self.next, ids: (0..spec.events.len() as u64).collect() })
        }

        fn group(&mut self, _nr: u32) -> io::Result<Vec<u8>> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn close(&mut self, nr: u32) {
            assert!(self.open.remove(&nr));
        }
    }

    #[test]
    fn a_task_whose_number_is_reused_is_reported_as_exited_and_its_counters_are_closed() {
        let mut source = FakeProc { start_times: [(7, 70), (8, 80)].into(), ..FakeProc::default() };
        let mut tasks = StreamTasks::new(vec![(7, JobId(0))], vec![software(Flags::default())]);
        let mut sample = |source: &mut FakeProc| {
            let mut sample = Sample::default();
            let any_left = tasks.sample(source, &mut sample);
            (any_left, sample.tasks.len(), sample.exited, source.open.len())
        };
        let (any_left, n_tasks, exited, n_open) = sample(&mut source);
        assert!(any_left && n_tasks == 2 && exited.is_empty() && n_open != 0);
        source.start_times.insert(8, 81);
        let old = TaskId { tid: 8, start_time_ticks: 80 };
        assert_eq!(sample(&mut source), (true, 2, vec![old], n_open));
        // The PID itself is reused: nothing of the other process is sampled.
        source.start_times.insert(7, 71);
        let (any_left, n_tasks, exited, n_open) = sample(&mut source);
        assert_eq!((any_left, n_tasks, exited.len(), n_open), (false, 0, 2, 0));
    }
}
