//! The raw sample of a turn: jobs, tasks, counters by event name, and signals of the system.

use std::fmt;

use base::{CpuId, JobId, Nanos};
use sched::{
    CounterEvent, Counters, CpuTimes, ExitStatus, JobEvent, JobExit, LlcSample, MonGroupSample,
    NodeSample, NumaSettings, Pressure, ReasonCode, Sample, StallTimes, TaskSample, Traffic,
    UnmanagedCause,
};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::fields::{
    Encoded, Name, RawCounterField, TaskField, is_default, line_enums, line_types,
};
use super::header::JobField;
use super::memory::{CompletedPageMigrationLine, ProcessMemoryLine};
use crate::LineError;

line_types! {
    /// The changes since the last turn.
    #[derive(Default)]
    SampleLine for Sample {
        jobs?: Vec<JobEventLine> = jobs,
        tasks?: Vec<TaskLine> = tasks,
        exited?: Vec<TaskField> = exited,
        nodes?: Vec<NodeLine> = nodes,
        llcs?: Vec<LlcLine> = llcs,
        mon_groups?: Vec<MonGroupLine> = mon_groups,
        cpus?: Vec<CpuLine> = cpus,
        pressure?: Option<PressureField> = pressure,
        usable_cpus?: Option<String> = usable_cpus,
        numa_settings?: Option<NumaSettingsField> = numa_settings,
        degraded?: Vec<String> = degraded,
        host_notes?: Vec<String> = host_notes,
        memory?: Vec<ProcessMemoryLine> = memory,
        page_migrations_completed?: Vec<CompletedPageMigrationLine> = page_migrations_completed,
    }

    JobExitField for JobExit {
        flatten status: ExitStatusField = status,
        stopped_by_host?: bool = stopped_by_host,
        oom_killed?: bool = oom_killed,
        restarts?: bool = restarts,
        wall_ns: u64 = wall,
        user_ns: u64 = user,
        system_ns: u64 = system,
        max_resident_bytes: u64 = max_resident,
        wait_ns?: Option<u64> = wait,
        n_migrations?: Option<u64> = n_migrations,
        counters?: CountersField = counters,
        traffic_bytes?: Option<u64> = traffic,
        blocked_ns?: Option<u64> = blocked,
        n_remaining?: u32 = n_remaining,
    }

    NodeLine for NodeSample {
        node: u32 = node,
        free_bytes?: Option<u64> = memory_free,
        reclaimable_bytes?: Option<u64> = memory_reclaimable,
        controller_ops?: Option<RawCounterField> = controller_ops,
        counter_bits?: u8 = counter_bits,
        read_bytes?: Option<RawCounterField> = read_bytes,
        written_bytes?: Option<RawCounterField> = written_bytes,
    }

    NumaSettingsField for NumaSettings {
        numa_balancing: bool = numa_balancing,
        interleaves: bool = interleaves,
    }

    LlcLine for LlcSample {
        llc: u32 = llc,
        flatten traffic: TrafficField = traffic,
    }

    MonGroupLine for MonGroupSample {
        job: u32 = job,
        llc: u32 = llc,
        flatten traffic: TrafficField = traffic,
    }

    TrafficField for Traffic {
        total_bytes?: Option<RawCounterField> = total_bytes,
        local_bytes?: Option<RawCounterField> = local_bytes,
        occupancy_bytes?: Option<u64> = occupancy,
    }

    CpuLine for CpuTimes {
        cpu: u32 = cpu,
        run_ns: u64 = run,
        wait_ns: u64 = wait,
    }

    PressureField for Pressure {
        cpu?: StallField = cpu,
        memory?: StallField = memory,
        io?: StallField = io,
    }

    #[derive(Default)]
    StallField for StallTimes {
        some_ns?: Option<u64> = some,
        full_ns?: Option<u64> = full,
    }
}

line_enums! {
    UnmanagedField for UnmanagedCause {
        AffinityChanged(String) = AffinityChanged,
        |
        NotPermitted {} = NotPermitted,
    }

    /// `"exit": 0` or `"signal": 9`.
    ExitStatusField for ExitStatus { Exit(i32) = Exited, Signal(i32) = Signaled, | }
}

/// `{"due":3}`, `{"ended":3, …}`, `{"unmanaged":3, …}`, `{"attached":{…}}` or `{"detached":3, …}`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
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
        cause: Name,
        #[serde(skip_serializing_if = "is_default", default)]
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

/// Cumulative values of a task since its start.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TaskLine {
    pub tid: u32,
    pub start_time_ticks: u64,
    pub pid: u32,
    pub job: u32,
    pub cpu_ns: u64,
    #[serde(skip_serializing_if = "is_default", default)]
    pub unseen_children_ns: u64,
    #[serde(skip_serializing_if = "is_default", default)]
    pub previous_sample_at_ns: Option<u64>,
    #[serde(skip_serializing_if = "is_default", default)]
    pub wait_ns: Option<u64>,
    #[serde(skip_serializing_if = "is_default", default)]
    pub last_cpu: Option<u32>,
    #[serde(skip_serializing_if = "is_default", default)]
    pub counters: CountersField,
    #[serde(skip_serializing_if = "is_default", default)]
    pub includes_children: bool,
}

/// `{"cycles": [7, 20], "llc-misses": [5, 20, 10]}`: raw counters by event.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CountersField(pub Counters);

impl Serialize for CountersField {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (event, raw) in self.0.iter() {
            map.serialize_entry(event.name(), &Encoded::<RawCounterField>::encode(&raw))?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for CountersField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(CountersByName)
    }
}

struct CountersByName;

impl<'de> Visitor<'de> for CountersByName {
    type Value = CountersField;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("counters by event name")
    }

    /// Reads counters by event name. Ignores unknown events.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<CountersField, A::Error> {
        let mut counters = Counters::NONE;
        while let Some((name, field)) = map.next_entry::<String, RawCounterField>()? {
            if let Some(event) = CounterEvent::of_name(&name) {
                counters.set(event, field.raw());
            }
        }
        Ok(CountersField(counters))
    }
}

impl Encoded<CountersField> for Counters {
    fn encode(&self) -> CountersField {
        CountersField(*self)
    }

    fn decode(field: CountersField, _: &[ReasonCode]) -> Result<Self, LineError> {
        Ok(field.0)
    }
}

impl Encoded<JobEventLine> for JobEvent {
    fn encode(&self) -> JobEventLine {
        match self {
            JobEvent::Due(job) => JobEventLine::Due { due: job.0 },
            JobEvent::Ended(job, exit) => {
                JobEventLine::Ended { ended: job.0, exit: Box::new(exit.as_ref().encode()) }
            }
            JobEvent::Unmanaged(job, cause) => {
                JobEventLine::Unmanaged { unmanaged: job.0, cause: cause.encode() }
            }
            JobEvent::Attached(job) => {
                JobEventLine::Attached { attached: Box::new(job.as_ref().encode()) }
            }
            JobEvent::Detached(job, cause, counters) => JobEventLine::Detached {
                detached: job.0,
                cause: cause.encode(),
                counters: Box::new(CountersField(**counters)),
            },
        }
    }

    fn decode(line: JobEventLine, codes: &[ReasonCode]) -> Result<Self, LineError> {
        Ok(match line {
            JobEventLine::Due { due } => JobEvent::Due(JobId(due)),
            JobEventLine::Ended { ended, exit } => {
                JobEvent::Ended(JobId(ended), Box::new(Encoded::decode(*exit, codes)?))
            }
            JobEventLine::Unmanaged { unmanaged, cause } => {
                JobEvent::Unmanaged(JobId(unmanaged), Encoded::decode(cause, codes)?)
            }
            JobEventLine::Attached { attached } => {
                JobEvent::Attached(Box::new(Encoded::decode(*attached, codes)?))
            }
            JobEventLine::Detached { detached, cause, counters } => {
                let cause = Encoded::decode(cause, codes);
                let cause = cause.map_err(|error: LineError| error.of_field("cause"))?;
                JobEvent::Detached(JobId(detached), cause, Box::new(counters.0))
            }
        })
    }
}

impl Encoded<TaskLine> for TaskSample {
    fn encode(&self) -> TaskLine {
        let (tid, start_time_ticks) = self.task.encode();
        TaskLine {
            tid,
            start_time_ticks,
            pid: self.process,
            job: self.job.0,
            cpu_ns: self.cpu_time.0,
            unseen_children_ns: self.unseen_children.0,
            previous_sample_at_ns: self.previous_sample_at.encode(),
            wait_ns: self.wait.encode(),
            last_cpu: self.last_cpu.encode(),
            counters: self.counters.encode(),
            includes_children: self.includes_children,
        }
    }

    fn decode(line: TaskLine, codes: &[ReasonCode]) -> Result<Self, LineError> {
        let time = |field, name| {
            Option::<Nanos>::decode(field, codes).map_err(|error| error.of_field(name))
        };
        Ok(TaskSample {
            task: Encoded::decode((line.tid, line.start_time_ticks), codes)?,
            process: line.pid,
            job: JobId(line.job),
            cpu_time: time(Some(line.cpu_ns), "cpu_ns")?.unwrap_or_default(),
            unseen_children: time(Some(line.unseen_children_ns), "unseen_children_ns")?
                .unwrap_or_default(),
            previous_sample_at: time(line.previous_sample_at_ns, "previous_sample_at_ns")?,
            wait: time(line.wait_ns, "wait_ns")?,
            last_cpu: line.last_cpu.map(CpuId),
            counters: line.counters.0,
            includes_children: line.includes_children,
        })
    }
}
