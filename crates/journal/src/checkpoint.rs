//! State of a run at the end of a part of its journal, written as the second line of the next part.
//!
//! A part must be readable after the earlier parts were removed. A part therefore begins with the progress of every job
//! and the last values of every task; the following samples contain only changes.

use std::collections::{BTreeMap, BTreeSet};

use base::{CpuId, CpuSet, JobId, LlcId, Nanos, NodeId, TaskId};
use engine::{LoadBasis, TurnRecord};
use sched::{
    CpuTimes, LlcSample, MonGroupSample, NodeSample, NumaSettings, Pressure, ProcessMemory, Reason,
    Sample, Target, TaskSample, Tiers,
};

use crate::{Header, JobChange, JobHistory};

/// State of a run after a turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checkpoint {
    /// Number of the last turn that is included.
    pub turn: u64,
    /// Time of the last turn that is included.
    pub at: Nanos,
    /// Progress of every job.
    pub jobs: JobHistory,
    /// Notes of the policy and the engine.
    pub notes: Vec<Reason>,
    /// Level and signal tier of the loads.
    pub load_basis: Option<LoadBasis>,
    /// Signal tier of each value.
    pub signals: Option<Tiers>,
    /// Messages about functions of the host that are no longer available.
    pub degraded: Vec<String>,
    /// Notes of the host.
    pub host_notes: Vec<String>,
    tasks: BTreeMap<TaskId, TaskSample>,
    nodes: BTreeMap<NodeId, NodeSample>,
    llcs: BTreeMap<LlcId, LlcSample>,
    mon_groups: BTreeMap<(JobId, LlcId), MonGroupSample>,
    cpus: BTreeMap<CpuId, CpuTimes>,
    pressure: Option<Pressure>,
    memory: BTreeMap<TaskId, ProcessMemory>,
    usable_cpus: Option<CpuSet>,
    numa_settings: Option<NumaSettings>,
}

impl Checkpoint {
    /// Creates the state before the first turn.
    pub fn new(header: &Header) -> Self {
        Checkpoint { jobs: JobHistory::new(header), ..Checkpoint::default() }
    }

    /// Adds a turn.
    pub fn observe(&mut self, record: &TurnRecord<'_>) {
        (self.turn, self.at) = (record.turn.number, record.turn.at);
        for job in self.jobs.apply_events(record) {
            if let (Target::Job(id), JobChange::Ended(_) | JobChange::Detached { .. }) =
                (job.target, job.change)
            {
                self.remove_tasks_of(id);
            }
        }
        self.observe_sample(record.sample);
        self.load_basis = record.current_load_basis().or(self.load_basis);
        self.signals = record.signals.or(self.signals);
        self.notes.extend(record.plan.notes.iter().cloned());
        self.jobs.apply_outcomes(record);
    }

    /// Returns the last values of all tasks and system signals, as one complete sample.
    pub fn sample(&self) -> Sample {
        Sample {
            jobs: Vec::new(),
            tasks: self.tasks.values().cloned().collect(),
            exited: Vec::new(),
            nodes: self.nodes.values().cloned().collect(),
            llcs: self.llcs.values().cloned().collect(),
            mon_groups: self.mon_groups.values().cloned().collect(),
            cpus: self.cpus.values().copied().collect(),
            pressure: self.pressure,
            usable_cpus: self.usable_cpus.clone(),
            numa_settings: self.numa_settings,
            degraded: self.degraded.clone(),
            host_notes: self.host_notes.clone(),
            memory: self.memory.values().cloned().collect(),
            page_migrations_completed: Vec::new(),
        }
    }

    /// Adds the values of a sample, complete or incremental.
    pub(crate) fn observe_sample(&mut self, sample: &Sample) {
        self.tasks.extend(sample.tasks.iter().map(|task| (task.task, task.clone())));
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
        let mon_groups =
            sample.mon_groups.iter().map(|group| ((group.job, group.llc), group.clone()));
        self.mon_groups.extend(mon_groups);
        self.cpus.extend(sample.cpus.iter().map(|&cpu| (cpu.cpu, cpu)));
        self.pressure = sample.pressure.or(self.pressure);
        self.usable_cpus = sample.usable_cpus.clone().or_else(|| self.usable_cpus.take());
        self.numa_settings = sample.numa_settings.or(self.numa_settings);
        self.degraded.extend(sample.degraded.iter().cloned());
        self.host_notes.extend(sample.host_notes.iter().cloned());
    }

    /// Removes the tasks, monitoring groups and memory of an ended or detached job, because a host
    /// need not report the exit of each task.
    fn remove_tasks_of(&mut self, id: JobId) {
        let exited: BTreeSet<TaskId> =
            self.tasks.values().filter(|task| task.job == id).map(|task| task.task).collect();
        self.tasks.retain(|task, _| !exited.contains(task));
        self.mon_groups.retain(|(job, _), _| *job != id);
        self.memory.retain(|_, memory| memory.job != id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(tid: u32, job: u32, cpu_ns: u64) -> TaskSample {
        TaskSample {
            cpu_time: Nanos(cpu_ns),
            ..TaskSample::new(TaskId { tid, start_time_ticks: 1 }, JobId(job))
        }
    }

    fn cpu_times(checkpoint: &Checkpoint) -> Vec<(u32, u64)> {
        checkpoint.sample().tasks.iter().map(|task| (task.task.tid, task.cpu_time.0)).collect()
    }

    #[test]
    fn the_last_values_of_running_tasks_are_kept_and_the_values_of_exited_tasks_are_removed() {
        let mut checkpoint = Checkpoint::default();
        let tasks = vec![task(1, 0, 5), task(2, 0, 5), task(3, 1, 5), task(4, 1, 5)];
        checkpoint.observe_sample(&Sample { tasks, ..Sample::default() });
        checkpoint.observe_sample(&Sample {
            tasks: vec![task(1, 0, 9)],
            exited: vec![TaskId { tid: 2, start_time_ticks: 1 }],
            ..Sample::default()
        });
        assert_eq!(cpu_times(&checkpoint), [(1, 9), (3, 5), (4, 5)]);
        checkpoint.remove_tasks_of(JobId(1));
        assert_eq!(cpu_times(&checkpoint), [(1, 9)], "the end of a job removes its tasks");
    }
}
