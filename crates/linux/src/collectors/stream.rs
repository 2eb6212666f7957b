//! A whole look at a machine and some processes: what a recording is of, and what is read from one.

use base::JobId;
use sched::{NumaSettings, Sample};
use topology::Machine;

use super::{SystemCollectors, Tasks};
use crate::perf::{
    self, CounterTarget, CpuIdentity, EventChoice, Flags, GroupSpec, choose, identity, software,
};
use crate::source::{Source, text};

/// Everything that is listened to.
#[derive(Debug)]
pub struct StreamCollectors {
    around: SystemCollectors,
    tasks: Tasks,
    said: Vec<String>,
}

impl StreamCollectors {
    /// Opens everything that is there. What cannot be had is told with the first sample.
    pub fn open(source: &mut dyn Source, machine: &Machine, processes: Vec<(u32, JobId)>) -> Self {
        let (around, mut said) = SystemCollectors::open(source, machine);
        let mut chosen = Vec::new();
        match counting_rights(source) {
            Ok(flags) => {
                let identity = identity_of(source);
                chosen = choose(source, &identity, flags).chosen;
                chosen.push(software(flags));
            }
            Err(why) => said.push(format!("tasks are not counted: {why}")),
        }
        StreamCollectors { around, tasks: Tasks::new(processes, chosen), said }
    }

    /// Looks at everything; `None` when no process is left.
    pub fn sample(&mut self, source: &mut dyn Source, is_first: bool) -> Option<Sample> {
        let mut sample = Sample { degraded: std::mem::take(&mut self.said), ..Sample::default() };
        if is_first {
            let balancing = text(source, "proc/sys/kernel/numa_balancing");
            let numa_balancing = balancing.is_ok_and(|text| text != "0");
            sample.numa_settings = Some(NumaSettings { numa_balancing, interleaves: false });
        }
        self.around.sample_traffic(source, &mut sample);
        self.around.sample_pressure(source, &mut sample);
        self.around.free_memory(source, &mut sample);
        sample.nodes.sort_by_key(|node| node.node);
        let any_left = self.tasks.look(source, &mut sample);
        sample.tasks.sort_by_key(|task| (task.job, task.task));
        any_left.then_some(sample)
    }

    /// Closes everything.
    pub fn close(&mut self, source: &mut dyn Source) {
        self.around.close(source);
        self.tasks.close(source);
    }
}

/// Who the processor is.
pub fn identity_of(source: &mut dyn Source) -> CpuIdentity {
    let cpuinfo = source.file("proc/cpuinfo").unwrap_or_default();
    let midr = text(source, "sys/devices/system/cpu/cpu0/regs/identification/midr_el1").ok();
    identity(&String::from_utf8_lossy(&cpuinfo), midr.as_deref())
}

/// How tasks may be counted: as a whole, or only in their own code. Found out with the kernel's own
/// books, which every machine has.
///
/// # Errors
/// Neither, for this reason.
pub fn counting_rights(source: &mut dyn Source) -> Result<Flags, String> {
    let mut refused = None;
    for flags in [Flags::default(), Flags { user_only: true, ..Flags::default() }] {
        let named =
            |(event, attr): &(sched::CounterEvent, perf::Attr)| (event.name().to_owned(), *attr);
        let events = software(flags).groups.concat().iter().map(named).collect();
        match source.open(&GroupSpec { target: CounterTarget::Task(0), events }) {
            Ok(opened) => {
                source.close(opened.nr);
                return Ok(flags);
            }
            Err(error) => drop(refused.get_or_insert(error)),
        }
    }
    let refused = refused.expect("it was tried");
    let paranoid = text(source, "proc/sys/kernel/perf_event_paranoid");
    let paranoid = paranoid.ok().and_then(|text| text.parse().ok());
    Err(perf::explain_refusal(&refused, paranoid, perf::CounterScope::Task))
}

/// What the processor of a source counts of a task, whoever may see it.
pub fn choice(source: &mut dyn Source) -> EventChoice {
    let identity = identity_of(source);
    choose(source, &identity, Flags::default())
}
