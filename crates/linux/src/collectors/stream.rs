//! Samples of a machine and some processes for recordings and their replay.

use base::JobId;
use sched::{NumaSettings, Sample};
use topology::Machine;

use super::{StreamTasks, SystemCollectors};
use crate::perf::{
    self, CounterScope, CounterTarget, Flags, GroupSpec, PmuGroups, named, software,
};
use crate::pmu::{CpuIdentity, EventChoice, choose, identity};
use crate::source::{Source, text};

/// Collectors of a recording.
#[derive(Debug)]
pub struct StreamCollectors {
    system: SystemCollectors,
    tasks: StreamTasks,
    notes: Vec<String>,
}

impl StreamCollectors {
    /// Opens the available sources. The first sample contains the notes about others.
    pub fn open(source: &mut dyn Source, machine: &Machine, processes: Vec<(u32, JobId)>) -> Self {
        let (system, mut notes) = SystemCollectors::open(source, machine);
        let events = task_events(source, &mut notes);
        StreamCollectors { system, tasks: StreamTasks::new(processes, events), notes }
    }

    /// Samples everything; `None` if no process is left.
    pub fn sample(&mut self, source: &mut dyn Source, is_first: bool) -> Option<Sample> {
        let mut sample = Sample { degraded: std::mem::take(&mut self.notes), ..Sample::default() };
        if is_first {
            let balancing = text(source, "proc/sys/kernel/numa_balancing");
            let numa_balancing = balancing.is_ok_and(|text| text != "0");
            sample.numa_settings = Some(NumaSettings { numa_balancing, interleaves: false });
        }
        self.system.sample_traffic(source, &mut sample);
        self.system.sample_pressure(source, &mut sample);
        self.system.free_memory(source, &mut sample);
        sample.nodes.sort_by_key(|node| node.node);
        let any_left = self.tasks.sample(source, &mut sample);
        sample.tasks.sort_by_key(|task| (task.job, task.task));
        any_left.then_some(sample)
    }

    /// Closes the counters.
    pub fn close(&mut self, source: &mut dyn Source) {
        self.system.close(source);
        self.tasks.close(source);
    }
}

/// The events to count of each task. Adds a note if tasks cannot be counted.
pub(super) fn task_events(source: &mut dyn Source, notes: &mut Vec<String>) -> Vec<PmuGroups> {
    match counting_rights(source) {
        Ok(flags) => {
            let identity = identity_of(source);
            let mut events = choose(source, &identity, flags).chosen;
            events.push(software(flags));
            events
        }
        Err(why) => {
            notes.push(format!("tasks are not counted: {why}"));
            Vec::new()
        }
    }
}

/// Value of `perf_event_paranoid`.
pub(super) fn paranoid(source: &mut dyn Source) -> Option<i32> {
    text(source, "proc/sys/kernel/perf_event_paranoid").ok()?.parse().ok()
}

/// Identity of the processor.
pub fn identity_of(source: &mut dyn Source) -> CpuIdentity {
    let cpuinfo = source.file("proc/cpuinfo").unwrap_or_default();
    let midr = text(source, "sys/devices/system/cpu/cpu0/regs/identification/midr_el1").ok();
    identity(&String::from_utf8_lossy(&cpuinfo), midr.as_deref())
}

/// How tasks may be counted: in kernel and user mode, or in user mode only. Tried with software events, which
/// every machine has.
///
/// # Errors
/// Neither is permitted: the cause and the remedy.
pub fn counting_rights(source: &mut dyn Source) -> Result<Flags, String> {
    let mut refused = None;
    for flags in [Flags::default(), Flags { user_only: true, ..Flags::default() }] {
        let events = named(&software(flags).groups.concat());
        match source.open(&GroupSpec { target: CounterTarget::Task(0), events }) {
            Ok(opened) => {
                source.close(opened.nr);
                return Ok(flags);
            }
            Err(error) => drop(refused.get_or_insert(error)),
        }
    }
    let refused = refused.expect("two attempts");
    Err(perf::explain_refusal(&refused, paranoid(source), CounterScope::Task))
}

/// The events of the processor, regardless of permissions.
pub fn choice(source: &mut dyn Source) -> EventChoice {
    let identity = identity_of(source);
    choose(source, &identity, Flags::default())
}
