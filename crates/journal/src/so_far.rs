//! What a run has come to at some turn: what a new part of a journal begins with.
//!
//! A part must make sense alone once those before it are gone. So it says where every job stands, and
//! repeats the last figures of every task, of which later turns tell only what changed.

use std::collections::{BTreeMap, BTreeSet};

use base::{CpuId, CpuSet, JobId, LlcId, Nanos, NodeId, TaskId};
use engine::{LoadBasis, TurnRecord};
use sched::{
    CpuTimes, LlcSample, MonGroupSample, NodeSample, NumaSettings, Pressure, ProcessMemory, Reason,
    Sample, Target, TaskSample, Tiers,
};

use crate::{Header, JobHistory, What};

/// What a run has come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SoFar {
    /// The last turn that is in it.
    pub number: u64,
    /// When that was.
    pub at: Nanos,
    /// Every job.
    pub lives: JobHistory,
    /// What people were told.
    pub notes: Vec<Reason>,
    /// What loads stood on.
    pub footing: Option<LoadBasis>,
    /// What figures stood on.
    pub signals: Option<Tiers>,
    /// What the host could no longer do, in words.
    pub degraded: Vec<String>,
    tasks: BTreeMap<TaskId, TaskSample>,
    nodes: BTreeMap<NodeId, NodeSample>,
    llcs: BTreeMap<LlcId, LlcSample>,
    groups: BTreeMap<(JobId, LlcId), MonGroupSample>,
    cpus: BTreeMap<CpuId, CpuTimes>,
    pressure: Option<Pressure>,
    memory: BTreeMap<TaskId, ProcessMemory>,
    usable: Option<CpuSet>,
    memory_rules: Option<NumaSettings>,
}

impl SoFar {
    /// Before the first turn.
    pub fn new(header: &Header) -> Self {
        SoFar { lives: JobHistory::new(header), ..SoFar::default() }
    }

    /// Takes a turn in.
    pub fn observe(&mut self, record: &TurnRecord<'_>) {
        (self.number, self.at) = (record.turn.number, record.turn.at);
        for happened in self.lives.events(record) {
            if let (Target::Job(id), What::Ended(_) | What::Left(..)) =
                (happened.target, happened.what)
            {
                self.forget_tasks(id);
            }
        }
        self.observe_sample(record.sample);
        self.footing = record.current_load_basis().or(self.footing);
        self.signals = record.signals.or(self.signals);
        self.notes.extend(record.plan.notes.iter().cloned());
        self.lives.deeds(record);
    }

    /// The last figures of everything, as one sample that is new from top to bottom. Jobs are
    /// not in it.
    pub fn sample(&self) -> Sample {
        Sample {
            jobs: Vec::new(),
            tasks: self.tasks.values().cloned().collect(),
            exited: Vec::new(),
            nodes: self.nodes.values().cloned().collect(),
            llcs: self.llcs.values().cloned().collect(),
            mon_groups: self.groups.values().cloned().collect(),
            cpus: self.cpus.values().copied().collect(),
            pressure: self.pressure,
            usable_cpus: self.usable.clone(),
            numa_settings: self.memory_rules,
            degraded: self.degraded.clone(),
            memory: self.memory.values().cloned().collect(),
            page_moves_completed: Vec::new(),
        }
    }

    /// Takes the figures of a sample in, whole or of changes.
    pub(crate) fn observe_sample(&mut self, sample: &Sample) {
        let tasks = sample.tasks.iter().map(|task| (task.task, task.clone()));
        self.tasks.extend(tasks);
        for task in &sample.exited {
            self.tasks.remove(task);
            self.memory.remove(task);
        }
        for memory in &sample.memory {
            match memory.nodes.is_empty() {
                true => self.memory.remove(&memory.process),
                false => self.memory.insert(memory.process, memory.clone()),
            };
        }
        self.nodes.extend(sample.nodes.iter().map(|node| (node.node, node.clone())));
        self.llcs.extend(sample.llcs.iter().map(|llc| (llc.llc, llc.clone())));
        let of_groups =
            sample.mon_groups.iter().map(|group| ((group.job, group.llc), group.clone()));
        self.groups.extend(of_groups);
        self.cpus.extend(sample.cpus.iter().map(|&cpu| (cpu.cpu, cpu)));
        self.pressure = sample.pressure.or(self.pressure);
        self.usable = sample.usable_cpus.clone().or_else(|| self.usable.take());
        self.memory_rules = sample.numa_settings.or(self.memory_rules);
        self.degraded.extend(sample.degraded.iter().cloned());
    }

    /// A host may leave it to the end of a job to say that its tasks are gone.
    fn forget_tasks(&mut self, id: JobId) {
        let gone: BTreeSet<TaskId> =
            self.tasks.values().filter(|task| task.job == id).map(|task| task.task).collect();
        self.tasks.retain(|task, _| !gone.contains(task));
        self.groups.retain(|(job, _), _| *job != id);
        self.memory.retain(|_, memory| memory.job != id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::{Counters, Measured};

    fn task(tid: u32, job: u32, cpu_ns: u64) -> TaskSample {
        TaskSample {
            task: TaskId { tid, start_time_ticks: 1 },
            process: tid,
            job: JobId(job),
            cpu_time: Nanos(cpu_ns),
            previous_sample_at: None,
            wait: Measured::Absent,
            last_cpu: None,
            counters: Counters::NONE,
        }
    }

    fn told(so_far: &SoFar) -> Vec<(u32, u64)> {
        so_far.sample().tasks.iter().map(|task| (task.task.tid, task.cpu_time.0)).collect()
    }

    #[test]
    fn the_last_figures_of_every_living_task_are_kept_and_no_others() {
        let mut so_far = SoFar::default();
        let tasks = vec![task(1, 0, 5), task(2, 0, 5), task(3, 1, 5), task(4, 1, 5)];
        so_far.observe_sample(&Sample { tasks, ..Sample::default() });
        let gone = vec![TaskId { tid: 2, start_time_ticks: 1 }];
        so_far.observe_sample(&Sample {
            tasks: vec![task(1, 0, 9)],
            exited: gone,
            ..Sample::default()
        });
        assert_eq!(told(&so_far), [(1, 9), (3, 5), (4, 5)]);
        so_far.forget_tasks(JobId(1));
        assert_eq!(told(&so_far), [(1, 9)], "a job that ended takes its tasks with it");
    }
}
