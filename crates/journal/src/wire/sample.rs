//! The raw sample of a turn.

use base::{Bytes, CpuId, JobId, Nanos, NodeId};
use sched::{
    CounterEvent, Counters, DetachCause, ExitStatus, JobEvent, JobExit, NodeSample, NumaSettings,
    Sample, TaskSample, UnmanagedCause,
};
use serde::{Deserialize, Serialize};

use super::around::{CountersField, CpuLine, GroupLine, LlcLine, PressureField};
use super::basic::{MeasuredField, TaskField, measured_in, measured_out, set, task_in, task_out};
use super::is_default;
use super::job::JobLine;
use super::memory::{MemoryLine, MovedLine};
use crate::LineError;

/// What changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SampleLine {
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub jobs: Vec<EventLine>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub tasks: Vec<TaskLine>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub gone: Vec<TaskField>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub nodes: Vec<NodeLine>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub llcs: Vec<LlcLine>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub groups: Vec<GroupLine>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub cpus: Vec<CpuLine>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pressure: Option<PressureField>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub usable: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub memory_rules: Option<RulesField>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub degraded: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub memory: Vec<MemoryLine>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub moved: Vec<MovedLine>,
}

/// `{"due":3}`, `{"ended":3, …}`, `{"hands_off":3, …}`, `{"appeared":{…}}` or `{"left":3, …}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum EventLine {
    Due {
        due: u32,
    },
    Appeared {
        appeared: Box<JobLine>,
    },
    Left {
        left: u32,
        because: String,
        #[serde(skip_serializing_if = "CountersField::is_empty", default)]
        counters: Box<CountersField>,
    },
    Ended {
        ended: u32,
        #[serde(flatten)]
        end: Box<EndField>,
    },
    HandsOff {
        hands_off: u32,
        #[serde(flatten)]
        why: HandsOffField,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum HandsOffField {
    AffinityChanged(String),
    NotPermitted {},
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EndField {
    #[serde(flatten)]
    pub status: StatusField,
    #[serde(skip_serializing_if = "is_default", default)]
    pub by_us: bool,
    #[serde(skip_serializing_if = "is_default", default)]
    pub again: bool,
    pub wall_ns: u64,
    pub user_ns: u64,
    pub system_ns: u64,
    pub max_resident_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub wait_ns: Option<MeasuredField>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub migrations: Option<MeasuredField>,
    #[serde(skip_serializing_if = "CountersField::is_empty", default)]
    pub counters: CountersField,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub traffic_bytes: Option<MeasuredField>,
    #[serde(skip_serializing_if = "is_default", default)]
    pub left_behind: u32,
}

/// `"exit": 0` or `"signal": 9`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StatusField {
    Exit(i32),
    Signal(i32),
}

/// A task's cumulative figures; `on` is the CPU that it ran on last.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TaskLine {
    pub tid: u32,
    pub born: u64,
    pub pid: u32,
    pub job: u32,
    pub cpu_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub before_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub wait_ns: Option<MeasuredField>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub on: Option<u32>,
    /// Journals of the first version have cache misses here and nothing else.
    #[serde(skip_serializing, default)]
    pub misses: Option<MeasuredField>,
    #[serde(skip_serializing_if = "CountersField::is_empty", default)]
    pub counters: CountersField,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct NodeLine {
    pub node: u32,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub free_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reclaimable_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ops: Option<MeasuredField>,
    #[serde(skip_serializing_if = "is_default", default)]
    pub bits: u8,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub read_bytes: Option<MeasuredField>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub written_bytes: Option<MeasuredField>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RulesField {
    pub numa_balancing: bool,
    pub interleaves: bool,
}

impl From<&Sample> for SampleLine {
    fn from(sample: &Sample) -> Self {
        let rules = |rules: NumaSettings| RulesField {
            numa_balancing: rules.numa_balancing,
            interleaves: rules.interleaves,
        };
        SampleLine {
            jobs: sample.jobs.iter().map(EventLine::from).collect(),
            tasks: sample.tasks.iter().map(TaskLine::from).collect(),
            gone: sample.exited.iter().copied().map(task_out).collect(),
            nodes: sample.nodes.iter().map(NodeLine::from).collect(),
            llcs: sample.llcs.iter().map(LlcLine::from).collect(),
            groups: sample.mon_groups.iter().map(GroupLine::from).collect(),
            cpus: sample.cpus.iter().map(CpuLine::from).collect(),
            pressure: sample.pressure.as_ref().map(PressureField::from),
            usable: sample.usable_cpus.as_ref().map(ToString::to_string),
            memory_rules: sample.numa_settings.map(rules),
            degraded: sample.degraded.clone(),
            memory: sample.memory.iter().map(MemoryLine::from).collect(),
            moved: sample.page_moves_completed.iter().map(MovedLine::from).collect(),
        }
    }
}

impl SampleLine {
    pub(crate) fn sample(self) -> Result<Sample, LineError> {
        let rules = |field: RulesField| NumaSettings {
            numa_balancing: field.numa_balancing,
            interleaves: field.interleaves,
        };
        Ok(Sample {
            jobs: self.jobs.into_iter().map(EventLine::event).collect::<Result<_, _>>()?,
            tasks: self.tasks.into_iter().map(TaskSample::from).collect(),
            exited: self.gone.into_iter().map(task_in).collect(),
            nodes: self.nodes.into_iter().map(NodeSample::from).collect(),
            llcs: self.llcs.into_iter().map(Into::into).collect(),
            mon_groups: self.groups.into_iter().map(Into::into).collect(),
            cpus: self.cpus.into_iter().map(Into::into).collect(),
            pressure: self.pressure.map(Into::into),
            usable_cpus: self.usable.map(|text| set("usable", &text)).transpose()?,
            numa_settings: self.memory_rules.map(rules),
            degraded: self.degraded,
            memory: self.memory.into_iter().map(Into::into).collect(),
            page_moves_completed: self
                .moved
                .into_iter()
                .map(MovedLine::ended)
                .collect::<Result<_, _>>()?,
        })
    }
}

impl From<&JobEvent> for EventLine {
    fn from(event: &JobEvent) -> Self {
        match event {
            JobEvent::Due(job) => EventLine::Due { due: job.0 },
            JobEvent::Ended(job, end) => {
                EventLine::Ended { ended: job.0, end: Box::new((&**end).into()) }
            }
            JobEvent::Unmanaged(job, why) => {
                EventLine::HandsOff { hands_off: job.0, why: why.into() }
            }
            JobEvent::Attached(job) => {
                EventLine::Appeared { appeared: Box::new(job.as_ref().into()) }
            }
            JobEvent::Detached(job, why, counted) => EventLine::Left {
                left: job.0,
                because: why.name().to_owned(),
                counters: Box::new(CountersField(**counted)),
            },
        }
    }
}

impl From<&UnmanagedCause> for HandsOffField {
    fn from(why: &UnmanagedCause) -> Self {
        match why {
            UnmanagedCause::AffinityChanged(cpus) => {
                HandsOffField::AffinityChanged(cpus.to_string())
            }
            UnmanagedCause::NotPermitted => HandsOffField::NotPermitted {},
        }
    }
}

impl HandsOffField {
    pub(crate) fn why(self) -> Result<UnmanagedCause, LineError> {
        Ok(match self {
            HandsOffField::AffinityChanged(cpus) => {
                UnmanagedCause::AffinityChanged(set("affinity-changed", &cpus)?)
            }
            HandsOffField::NotPermitted {} => UnmanagedCause::NotPermitted,
        })
    }
}

impl EventLine {
    fn event(self) -> Result<JobEvent, LineError> {
        Ok(match self {
            EventLine::Due { due } => JobEvent::Due(JobId(due)),
            EventLine::Ended { ended, end } => {
                JobEvent::Ended(JobId(ended), Box::new((*end).into()))
            }
            EventLine::HandsOff { hands_off, why } => {
                JobEvent::Unmanaged(JobId(hands_off), why.why()?)
            }
            EventLine::Appeared { appeared } => JobEvent::Attached(Box::new(appeared.job()?)),
            EventLine::Left { left, because, counters } => {
                JobEvent::Detached(JobId(left), leaving(&because)?, Box::new(counters.0))
            }
        })
    }
}

fn leaving(name: &str) -> Result<DetachCause, LineError> {
    let known = DetachCause::ALL.iter().copied().find(|why| why.name() == name);
    known.ok_or_else(|| LineError::value("because", format!("{name:?}"), "known way to leave"))
}

impl From<&JobExit> for EndField {
    fn from(end: &JobExit) -> Self {
        EndField {
            status: match end.status {
                ExitStatus::Exited(code) => StatusField::Exit(code),
                ExitStatus::Signaled(signal) => StatusField::Signal(signal),
            },
            by_us: end.stopped_by_host,
            again: end.restarts,
            wall_ns: end.wall.0,
            user_ns: end.user.0,
            system_ns: end.system.0,
            max_resident_bytes: end.max_resident.0,
            wait_ns: measured_out(end.wait),
            migrations: measured_out(end.n_migrations),
            counters: CountersField(end.counters),
            traffic_bytes: measured_out(end.traffic),
            left_behind: end.n_orphans,
        }
    }
}

impl From<EndField> for JobExit {
    fn from(field: EndField) -> Self {
        JobExit {
            status: match field.status {
                StatusField::Exit(code) => ExitStatus::Exited(code),
                StatusField::Signal(signal) => ExitStatus::Signaled(signal),
            },
            stopped_by_host: field.by_us,
            restarts: field.again,
            wall: Nanos(field.wall_ns),
            user: Nanos(field.user_ns),
            system: Nanos(field.system_ns),
            max_resident: Bytes(field.max_resident_bytes),
            wait: measured_in(field.wait_ns),
            n_migrations: measured_in(field.migrations),
            counters: field.counters.0,
            traffic: measured_in(field.traffic_bytes),
            n_orphans: field.left_behind,
        }
    }
}

impl From<&TaskSample> for TaskLine {
    fn from(task: &TaskSample) -> Self {
        TaskLine {
            tid: task.task.tid,
            born: task.task.start_time_ticks,
            pid: task.process,
            job: task.job.0,
            cpu_ns: task.cpu_time.0,
            before_ns: task.previous_sample_at.map(|at| at.0),
            wait_ns: measured_out(task.wait),
            on: task.last_cpu.map(|cpu| cpu.0),
            misses: None,
            counters: CountersField(task.counters),
        }
    }
}

impl From<TaskLine> for TaskSample {
    fn from(line: TaskLine) -> Self {
        TaskSample {
            task: task_in((line.tid, line.born)),
            process: line.pid,
            job: JobId(line.job),
            cpu_time: Nanos(line.cpu_ns),
            previous_sample_at: line.before_ns.map(Nanos),
            wait: measured_in(line.wait_ns),
            last_cpu: line.on.map(CpuId),
            counters: with_old_misses(line.counters.0, line.misses),
        }
    }
}

fn with_old_misses(counters: Counters, misses: Option<MeasuredField>) -> Counters {
    match misses {
        None => counters,
        Some(_) => counters.with(CounterEvent::LlcMisses, measured_in(misses)),
    }
}

impl From<&NodeSample> for NodeLine {
    fn from(node: &NodeSample) -> Self {
        NodeLine {
            node: node.node.0,
            free_bytes: node.memory_free.map(|bytes| bytes.0),
            reclaimable_bytes: node.memory_reclaimable.map(|bytes| bytes.0),
            ops: measured_out(node.controller_ops),
            bits: node.counter_bits,
            read_bytes: measured_out(node.read_bytes),
            written_bytes: measured_out(node.written_bytes),
        }
    }
}

impl From<NodeLine> for NodeSample {
    fn from(line: NodeLine) -> Self {
        NodeSample {
            node: NodeId(line.node),
            memory_free: line.free_bytes.map(Bytes),
            memory_reclaimable: line.reclaimable_bytes.map(Bytes),
            controller_ops: measured_in(line.ops),
            counter_bits: line.bits,
            read_bytes: measured_in(line.read_bytes),
            written_bytes: measured_in(line.written_bytes),
        }
    }
}
