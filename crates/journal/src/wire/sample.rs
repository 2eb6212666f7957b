//! The raw sample of a turn.

use base::{CpuId, JobId, Nanos};
use sched::{
    Counters, DetachCause, ExitStatus, JobEvent, JobExit, NodeSample, NumaSettings, Sample,
    TaskSample, UnmanagedCause,
};
use serde::{Deserialize, Serialize};

use super::fields::{Encoded, ReadingField, TaskField, fields_of, set, task_in, task_out};
use super::is_default;
use super::job::JobField;
use super::memory::{CompletedPageMoveLine, ProcessMemoryLine};
use super::system_signals::{CountersField, CpuLine, LlcLine, MonGroupLine, PressureField};
use crate::LineError;

/// The changes since the last turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SampleLine {
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub jobs: Vec<JobEventLine>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub tasks: Vec<TaskLine>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub exited: Vec<TaskField>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub nodes: Vec<NodeLine>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub llcs: Vec<LlcLine>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub mon_groups: Vec<MonGroupLine>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub cpus: Vec<CpuLine>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pressure: Option<PressureField>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub usable_cpus: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub numa_settings: Option<NumaSettingsField>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub degraded: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub memory: Vec<ProcessMemoryLine>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub page_moves_completed: Vec<CompletedPageMoveLine>,
}

/// `{"due":3}`, `{"ended":3, …}`, `{"unmanaged":3, …}`, `{"attached":{…}}` or `{"detached":3, …}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum JobEventLine {
    Due {
        due: u32,
    },
    Attached {
        attached: Box<JobField>,
    },
    Detached {
        detached: u32,
        cause: String,
        #[serde(skip_serializing_if = "CountersField::is_empty", default)]
        counters: Box<CountersField>,
    },
    Ended {
        ended: u32,
        #[serde(flatten)]
        exit: Box<JobExitField>,
    },
    Unmanaged {
        unmanaged: u32,
        #[serde(flatten)]
        cause: UnmanagedField,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum UnmanagedField {
    AffinityChanged(String),
    NotPermitted {},
}

fields_of! {
    JobExitField for JobExit {
        #[serde(flatten)]
        status: ExitStatusField = status,
        #[serde(skip_serializing_if = "is_default", default)]
        stopped_by_host: bool = stopped_by_host,
        #[serde(skip_serializing_if = "is_default", default)]
        restarts: bool = restarts,
        wall_ns: u64 = wall,
        user_ns: u64 = user,
        system_ns: u64 = system,
        max_resident_bytes: u64 = max_resident,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        wait_ns: Option<u64> = wait,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        n_migrations: Option<u64> = n_migrations,
        #[serde(skip_serializing_if = "CountersField::is_empty", default)]
        counters: CountersField = counters,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        traffic_bytes: Option<u64> = traffic,
        #[serde(skip_serializing_if = "is_default", default)]
        n_orphans: u32 = n_orphans,
    }
}

/// `"exit": 0` or `"signal": 9`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ExitStatusField {
    Exit(i32),
    Signal(i32),
}

/// Cumulative values of a task since its start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TaskLine {
    pub tid: u32,
    pub start_time_ticks: u64,
    pub pid: u32,
    pub job: u32,
    pub cpu_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub previous_sample_at_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub wait_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_cpu: Option<u32>,
    #[serde(skip_serializing_if = "CountersField::is_empty", default)]
    pub counters: CountersField,
    #[serde(skip_serializing_if = "is_default", default)]
    pub includes_children: bool,
}

fields_of! {
    NodeLine for NodeSample {
        node: u32 = node,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        free_bytes: Option<u64> = memory_free,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        reclaimable_bytes: Option<u64> = memory_reclaimable,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        controller_ops: Option<ReadingField> = controller_ops,
        #[serde(skip_serializing_if = "is_default", default)]
        counter_bits: u8 = counter_bits,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        read_bytes: Option<ReadingField> = read_bytes,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        written_bytes: Option<ReadingField> = written_bytes,
    }
}

fields_of! {
    NumaSettingsField for NumaSettings {
        numa_balancing: bool = numa_balancing,
        interleaves: bool = interleaves,
    }
}

impl From<&Sample> for SampleLine {
    fn from(sample: &Sample) -> Self {
        let page_moves = sample.page_moves_completed.iter();
        SampleLine {
            jobs: sample.jobs.iter().map(JobEventLine::from).collect(),
            tasks: sample.tasks.iter().map(TaskLine::from).collect(),
            exited: sample.exited.iter().copied().map(task_out).collect(),
            nodes: sample.nodes.iter().map(Encoded::encode).collect(),
            llcs: sample.llcs.iter().map(Encoded::encode).collect(),
            mon_groups: sample.mon_groups.iter().map(Encoded::encode).collect(),
            cpus: sample.cpus.iter().map(Encoded::encode).collect(),
            pressure: sample.pressure.encode(),
            usable_cpus: sample.usable_cpus.as_ref().map(ToString::to_string),
            numa_settings: sample.numa_settings.encode(),
            degraded: sample.degraded.clone(),
            memory: sample.memory.iter().map(ProcessMemoryLine::from).collect(),
            page_moves_completed: page_moves.map(CompletedPageMoveLine::from).collect(),
        }
    }
}

impl SampleLine {
    pub(crate) fn sample(self) -> Result<Sample, LineError> {
        let page_moves = self.page_moves_completed.into_iter();
        Ok(Sample {
            jobs: self.jobs.into_iter().map(JobEventLine::event).collect::<Result<_, _>>()?,
            tasks: self.tasks.into_iter().map(Into::into).collect(),
            exited: self.exited.into_iter().map(task_in).collect(),
            nodes: self.nodes.into_iter().map(Encoded::decode).collect(),
            llcs: self.llcs.into_iter().map(Encoded::decode).collect(),
            mon_groups: self.mon_groups.into_iter().map(Encoded::decode).collect(),
            cpus: self.cpus.into_iter().map(Encoded::decode).collect(),
            pressure: Encoded::decode(self.pressure),
            usable_cpus: self.usable_cpus.map(|text| set("usable_cpus", &text)).transpose()?,
            numa_settings: Encoded::decode(self.numa_settings),
            degraded: self.degraded,
            memory: self.memory.into_iter().map(Into::into).collect(),
            page_moves_completed: page_moves
                .map(CompletedPageMoveLine::completed)
                .collect::<Result<_, _>>()?,
        })
    }
}

impl From<&JobEvent> for JobEventLine {
    fn from(event: &JobEvent) -> Self {
        match event {
            JobEvent::Due(job) => JobEventLine::Due { due: job.0 },
            JobEvent::Ended(job, exit) => {
                JobEventLine::Ended { ended: job.0, exit: Box::new(exit.encode()) }
            }
            JobEvent::Unmanaged(job, cause) => {
                JobEventLine::Unmanaged { unmanaged: job.0, cause: cause.into() }
            }
            JobEvent::Attached(job) => {
                JobEventLine::Attached { attached: Box::new(job.as_ref().into()) }
            }
            JobEvent::Detached(job, cause, counters) => JobEventLine::Detached {
                detached: job.0,
                cause: cause.name().to_owned(),
                counters: Box::new(CountersField(**counters)),
            },
        }
    }
}

impl JobEventLine {
    fn event(self) -> Result<JobEvent, LineError> {
        Ok(match self {
            JobEventLine::Due { due } => JobEvent::Due(JobId(due)),
            JobEventLine::Ended { ended, exit } => {
                JobEvent::Ended(JobId(ended), Box::new(Encoded::decode(*exit)))
            }
            JobEventLine::Unmanaged { unmanaged, cause } => {
                JobEvent::Unmanaged(JobId(unmanaged), cause.cause()?)
            }
            JobEventLine::Attached { attached } => JobEvent::Attached(Box::new(attached.job()?)),
            JobEventLine::Detached { detached, cause, counters } => {
                JobEvent::Detached(JobId(detached), detach_cause(&cause)?, Box::new(counters.0))
            }
        })
    }
}

impl From<&UnmanagedCause> for UnmanagedField {
    fn from(cause: &UnmanagedCause) -> Self {
        match cause {
            UnmanagedCause::AffinityChanged(cpus) => {
                UnmanagedField::AffinityChanged(cpus.to_string())
            }
            UnmanagedCause::NotPermitted => UnmanagedField::NotPermitted {},
        }
    }
}

impl UnmanagedField {
    pub(crate) fn cause(self) -> Result<UnmanagedCause, LineError> {
        Ok(match self {
            UnmanagedField::AffinityChanged(cpus) => {
                UnmanagedCause::AffinityChanged(set("affinity-changed", &cpus)?)
            }
            UnmanagedField::NotPermitted {} => UnmanagedCause::NotPermitted,
        })
    }
}

fn detach_cause(name: &str) -> Result<DetachCause, LineError> {
    let known = DetachCause::ALL.iter().copied().find(|cause| cause.name() == name);
    known
        .ok_or_else(|| LineError::value("cause", format!("{name:?}"), "a known cause of detaching"))
}

impl Encoded<ExitStatusField> for ExitStatus {
    fn encode(&self) -> ExitStatusField {
        match *self {
            ExitStatus::Exited(code) => ExitStatusField::Exit(code),
            ExitStatus::Signaled(signal) => ExitStatusField::Signal(signal),
        }
    }

    fn decode(field: ExitStatusField) -> Self {
        match field {
            ExitStatusField::Exit(code) => ExitStatus::Exited(code),
            ExitStatusField::Signal(signal) => ExitStatus::Signaled(signal),
        }
    }
}

impl Encoded<CountersField> for Counters {
    fn encode(&self) -> CountersField {
        CountersField(*self)
    }

    fn decode(field: CountersField) -> Self {
        field.0
    }
}

impl From<&TaskSample> for TaskLine {
    fn from(task: &TaskSample) -> Self {
        TaskLine {
            tid: task.task.tid,
            start_time_ticks: task.task.start_time_ticks,
            pid: task.process,
            job: task.job.0,
            cpu_ns: task.cpu_time.0,
            previous_sample_at_ns: task.previous_sample_at.map(|at| at.0),
            wait_ns: task.wait.map(|wait| wait.0),
            last_cpu: task.last_cpu.map(|cpu| cpu.0),
            counters: CountersField(task.counters),
            includes_children: task.includes_children,
        }
    }
}

impl From<TaskLine> for TaskSample {
    fn from(line: TaskLine) -> Self {
        TaskSample {
            task: task_in((line.tid, line.start_time_ticks)),
            process: line.pid,
            job: JobId(line.job),
            cpu_time: Nanos(line.cpu_ns),
            previous_sample_at: line.previous_sample_at_ns.map(Nanos),
            wait: line.wait_ns.map(Nanos),
            last_cpu: line.last_cpu.map(CpuId),
            counters: line.counters.0,
            includes_children: line.includes_children,
        }
    }
}
