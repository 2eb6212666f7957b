//! Samples of a machine and of selected processes, for recordings and replay.

use base::{JobId, Nanos};
use sched::{NumaSettings, Sample};
use topology::Machine;

use super::{CounterNotes, SystemCollectors};
use crate::perf::{
    self, CounterScope, CounterTarget, Flags, GroupSpec, PmuGroups, named, software,
};
use crate::pmu::{CpuIdentity, EventChoice, choose, identity};
use crate::source::{Source, text};
use crate::tasks::{CounterMode, DescriptorBudget, SampledTasks, TaskCounters, TaskReader};

/// Collectors of a recording.
#[derive(Debug)]
pub struct StreamCollectors<S> {
    system: SystemCollectors,
    tasks: TaskReader<S>,
    processes: Vec<(u32, JobId)>,
    notes: Vec<String>,
    counter_notes: CounterNotes,
    n_samples: u64,
}

impl<S: Source> StreamCollectors<S> {
    /// Opens the available sources. The first sample contains the notes about unreadable sources.
    pub fn open(mut source: S, machine: &Machine, processes: Vec<(u32, JobId)>) -> Self {
        let (system, mut notes) = SystemCollectors::open(&mut source, machine);
        let events = task_events(&mut source, &mut notes);
        let counters = TaskCounters::of_run(events, CounterMode::All);
        let descriptors = DescriptorBudget::for_recording();
        let mut tasks = TaskReader::new(source, descriptors, counters, String::new());
        tasks.follows_children = false;
        let counter_notes = CounterNotes::default();
        StreamCollectors { system, tasks, processes, notes, counter_notes, n_samples: 0 }
    }

    /// Returns the source of the samples.
    pub fn source(&mut self) -> &mut S {
        &mut self.tasks.files.source
    }

    /// Samples the machine and the processes. The last sample, after the last process has exited, contains the values
    /// of the machine too.
    pub fn sample(&mut self) -> Sample {
        let mut sample = Sample { degraded: std::mem::take(&mut self.notes), ..Sample::default() };
        let source = &mut self.tasks.files.source;
        if self.n_samples == 0 {
            let balancing = text(source, "proc/sys/kernel/numa_balancing");
            let numa_balancing = balancing.is_ok_and(|text| text != "0");
            sample.numa_settings = Some(NumaSettings { numa_balancing, interleaves: false });
        }
        self.system.sample_traffic(source, &mut sample);
        self.system.sample_pressure(source, &mut sample);
        self.system.free_memory(source, &mut sample);
        sample.nodes.sort_by_key(|node| node.node);
        self.sample_tasks(&mut sample);
        sample
    }

    /// Returns whether a process was running at the last sample.
    pub fn has_processes(&self) -> bool {
        self.tasks.all_processes().next().is_some()
    }

    fn sample_tasks(&mut self, sample: &mut Sample) {
        for (pid, job) in std::mem::take(&mut self.processes) {
            self.tasks.adopt(job, pid, &std::sync::Arc::default());
        }
        let mut sampled = SampledTasks::default();
        // The number of the sample is used as time, so every thread is sampled each time.
        self.tasks.sample_all(Nanos(self.n_samples), &mut sampled);
        self.n_samples += 1;
        (sample.tasks, sample.exited) = (sampled.tasks, sampled.exited);
        sample.tasks.sort_by_key(|task| (task.job, task.task));
        let notes = self.counter_notes.take(&mut self.tasks.files.source, &mut self.tasks.counters);
        sample.degraded.extend(notes);
    }
}

/// Returns the events to count for each task. Adds a note if tasks cannot be counted.
pub(super) fn task_events(source: &mut dyn Source, notes: &mut Vec<String>) -> Vec<PmuGroups> {
    match counting_rights(source) {
        Ok(flags) => {
            let identity = identity_of(source);
            let mut events = choose(source, &identity, flags).chosen;
            events.push(software(flags));
            events
        }
        Err(cause) => {
            notes.push(format!("tasks are not counted: {cause}"));
            Vec::new()
        }
    }
}

/// Reads the value of `perf_event_paranoid`.
pub(crate) fn paranoid(source: &mut dyn Source) -> Option<i32> {
    text(source, "proc/sys/kernel/perf_event_paranoid").ok()?.parse().ok()
}

/// Reads the identity of the processor.
pub fn identity_of(source: &mut dyn Source) -> CpuIdentity {
    let cpuinfo = source.file("proc/cpuinfo").unwrap_or_default();
    let midr = text(source, "sys/devices/system/cpu/cpu0/regs/identification/midr_el1").ok();
    identity(&String::from_utf8_lossy(&cpuinfo), midr.as_deref())
}

/// Opens software events, which every machine has, to test the permissions: kernel and user mode, or user mode only.
///
/// # Errors
/// Neither mode is permitted. The text contains cause and remedy.
pub fn counting_rights(source: &mut dyn Source) -> Result<Flags, String> {
    let mut rejected = None;
    for flags in [Flags::default(), Flags { user_only: true, ..Flags::default() }] {
        let events = named(&software(flags).groups.concat());
        match source.open(&GroupSpec { target: CounterTarget::Task(0), events }) {
            Ok(_) => return Ok(flags),
            Err(error) => drop(rejected.get_or_insert(error)),
        }
    }
    let rejected = rejected.expect("two attempts");
    Err(perf::explain_open_error(&rejected, paranoid(source), CounterScope::Task))
}

/// Chooses the events of the processor, regardless of permissions.
pub fn choice(source: &mut dyn Source) -> EventChoice {
    let identity = identity_of(source);
    choose(source, &identity, Flags::default())
}
