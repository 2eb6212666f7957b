//! The threads of some processes, with their counters, through a source.
//!
//! This is how a recording is taken and read. (A live run keeps descriptors of each thread open
//! instead, since it looks at thousands of them; parsers and groups are the same.)

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use base::{CpuId, JobId, Nanos, TaskId};
use sched::{CounterEvent, Counters, Sample, TaskSample};

use crate::perf::{Attr, CounterTarget, Flags, GroupSpec, PmuGroups, add_group};
use crate::procfs;
use crate::source::Source;

/// Some processes, a job each, and what is known of their threads.
#[derive(Debug)]
pub struct Tasks {
    processes: Vec<(u32, JobId)>,
    chosen: Vec<PmuGroups>,
    threads: BTreeMap<(u32, u32), Thread>,
    /// Why something did not open, said once each.
    said: BTreeSet<String>,
    /// When each process was born, to tell it from another with its number.
    born: BTreeMap<u32, u64>,
}

/// Groups that are open, with the numbers of their counters.
type Opened = Vec<(u32, Vec<(CounterEvent, u64)>)>;

#[derive(Debug)]
struct Thread {
    id: TaskId,
    job: JobId,
    groups: Opened,
    /// The last reading; of the first thread of a process with all that it started.
    counters: Counters,
    /// Whether one of its groups waits for counters that somebody else has.
    is_shut_out: bool,
}

impl Tasks {
    /// Follows these processes; `chosen` is what is counted of each thread.
    pub fn new(processes: Vec<(u32, JobId)>, chosen: Vec<PmuGroups>) -> Self {
        let (threads, said) = (BTreeMap::new(), BTreeSet::new());
        Tasks { processes, chosen, threads, said, born: BTreeMap::new() }
    }

    /// Reads every thread into a sample. Tells whether any process is left.
    pub fn look(&mut self, source: &mut dyn Source, sample: &mut Sample) -> bool {
        let mut any_left = false;
        for (pid, job) in self.processes.clone() {
            let mut tids = self.listed(source, pid);
            if self.is_another(source, pid) {
                tids.clear(); // Somebody else has its number by now.
            }
            any_left |= !tids.is_empty();
            self.forget_gone(source, pid, &tids, sample);
            for &tid in &tids {
                self.look_at(source, (pid, tid), job, sample);
            }
        }
        let shut_out = self.threads.values().any(|thread| thread.is_shut_out);
        if shut_out && self.said.insert("shut out".to_owned()) {
            sample.degraded.push(SHUT_OUT.to_owned());
        }
        any_left
    }

    fn listed(&self, source: &mut dyn Source, pid: u32) -> BTreeSet<u32> {
        let names = source.list(&format!("proc/{pid}/task")).unwrap_or_default();
        names.iter().filter_map(|name| name.parse().ok()).collect()
    }

    /// Whether a process has another birth than when it was first seen.
    fn is_another(&mut self, source: &mut dyn Source, pid: u32) -> bool {
        let stat = source.file(&format!("proc/{pid}/task/{pid}/stat")).ok();
        let Some(born_ticks) = stat.and_then(|text| Some(procfs::parse_stat(&text)?.born_ticks))
        else {
            return false;
        };
        *self.born.entry(pid).or_insert(born_ticks) != born_ticks
    }

    fn forget_gone(
        &mut self,
        source: &mut dyn Source,
        pid: u32,
        tids: &BTreeSet<u32>,
        sample: &mut Sample,
    ) {
        let known = self.threads.range((pid, 0)..=(pid, u32::MAX));
        let gone: Vec<u32> =
            known.map(|(&(_, tid), _)| tid).filter(|t| !tids.contains(t)).collect();
        for tid in gone {
            self.forget(source, (pid, tid), sample);
        }
    }

    fn forget(&mut self, source: &mut dyn Source, (pid, tid): (u32, u32), sample: &mut Sample) {
        let Some(thread) = self.threads.remove(&(pid, tid)) else { return };
        thread.groups.iter().for_each(|(nr, _)| source.close(*nr));
        sample.exited.push(thread.id);
    }

    fn look_at(
        &mut self,
        source: &mut dyn Source,
        (pid, tid): (u32, u32),
        job: JobId,
        sample: &mut Sample,
    ) {
        let folder = format!("proc/{pid}/task/{tid}");
        let stat = source.file(&format!("{folder}/stat")).ok();
        let stat = stat.and_then(|text| {
            Some((procfs::parse_stat(&text)?.born_ticks, procfs::parse_last_cpu(&text)))
        });
        let times = source.file(&format!("{folder}/schedstat")).ok();
        let times = times.and_then(|text| procfs::parse_schedstat(&text));
        let (Some((born_ticks, last_cpu)), Some(times)) = (stat, times) else { return };
        let id = TaskId { tid, start_time_ticks: born_ticks };
        if self.threads.get(&(pid, tid)).is_some_and(|known| known.id != id) {
            self.forget(source, (pid, tid), sample); // Its number was given again.
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
            last_cpu: last_cpu.map(CpuId),
            counters: thread.counters,
            includes_children: tid == pid,
        });
    }

    /// Opens the groups of a thread; the first of a process counts for what it starts too.
    fn open(
        &mut self,
        source: &mut dyn Source,
        (pid, tid): (u32, u32),
        sample: &mut Sample,
    ) -> Opened {
        let mut opened = Vec::new();
        for chosen in &self.chosen {
            for group in &chosen.groups {
                let Err(error) = open_group(source, tid, group, tid == pid, &mut opened) else {
                    continue;
                };
                let text = format!("{} does not count tasks: {error}", chosen.pmu);
                if self.said.insert(text.clone()) {
                    sample.degraded.push(text);
                }
            }
        }
        opened
    }

    /// Closes what is open.
    pub fn close(&mut self, source: &mut dyn Source) {
        for thread in std::mem::take(&mut self.threads).into_values() {
            thread.groups.iter().for_each(|(nr, _)| source.close(*nr));
        }
    }
}

/// Opens a group; one that is not to be had as a whole is cut in two, as [`crate::perf::TaskGroups`] does.
fn open_group(
    source: &mut dyn Source,
    tid: u32,
    group: &[(CounterEvent, Attr)],
    inherit: bool,
    opened: &mut Opened,
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
            opened.push((group_of.nr, events.zip(group_of.numbers).collect()));
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

/// What is said when a group could have counted and never did.
pub const SHUT_OUT: &str = "counters are held by somebody else (a profiler, beside the NMI watchdog): \
    what needs them is absent; end that, or free one more with sysctl kernel.nmi_watchdog=0";

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
    use crate::source::Opened as OpenedGroup;

    /// One process with a second thread, born when they are told to be.
    #[derive(Default)]
    struct Proc {
        born: BTreeMap<u32, u64>,
        open: BTreeSet<u32>,
        next: u32,
    }

    impl Source for Proc {
        fn list(&mut self, folder: &str) -> io::Result<Vec<String>> {
            assert_eq!(folder, "proc/7/task");
            Ok(self.born.keys().map(u32::to_string).collect())
        }

        fn file(&mut self, path: &str) -> io::Result<Vec<u8>> {
            let mut words = path.rsplit('/');
            let (name, tid) = (words.next(), words.next().and_then(|tid| tid.parse().ok()));
            let born = self.born.get(&tid.unwrap_or(0)).ok_or(io::ErrorKind::NotFound)?;
            let text = match name {
                Some("schedstat") => "1000 0 1".to_owned(),
                _ => format!(
                    "7 (a) R 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {born} 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0"
                ),
            };
            Ok(text.into_bytes())
        }

        fn open(&mut self, spec: &GroupSpec) -> io::Result<OpenedGroup> {
            self.next += 1;
            self.open.insert(self.next);
            Ok(OpenedGroup { nr: self.next, numbers: (0..spec.events.len() as u64).collect() })
        }

        fn group(&mut self, _nr: u32) -> io::Result<Vec<u8>> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn close(&mut self, nr: u32) {
            assert!(self.open.remove(&nr));
        }
    }

    #[test]
    fn a_number_that_was_given_again_is_told_to_be_gone_and_keeps_no_counter() {
        let mut source = Proc { born: [(7, 70), (8, 80)].into(), ..Proc::default() };
        let mut tasks = Tasks::new(vec![(7, JobId(0))], vec![software(Flags::default())]);
        let mut look = |source: &mut Proc| {
            let mut sample = Sample::default();
            let any_left = tasks.look(source, &mut sample);
            (any_left, sample.tasks.len(), sample.exited, source.open.len())
        };
        let (any_left, n_tasks, gone, n_open) = look(&mut source);
        assert!(any_left && n_tasks == 2 && gone.is_empty() && n_open != 0);
        source.born.insert(8, 81);
        let old = TaskId { tid: 8, start_time_ticks: 80 };
        assert_eq!(look(&mut source), (true, 2, vec![old], n_open));
        // The process itself is another: it is gone, and nothing of it is read any more.
        source.born.insert(7, 71);
        let (any_left, n_tasks, gone, n_open) = look(&mut source);
        assert_eq!((any_left, n_tasks, gone.len(), n_open), (false, 0, 2, 0));
    }
}
