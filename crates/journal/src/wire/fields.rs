//! Fields of several lines: sets, counter values, targets and memory policies.

use base::{IdSet, JobId, NodeSet, SetId, TaskId};
use program::MemoryPolicy;
use sched::{CounterReading, SignalTier, Target};
use serde::{Deserialize, Serialize};

use crate::LineError;

/// Parses Linux list text.
pub(crate) fn set<T: SetId>(field: &'static str, text: &str) -> Result<IdSet<T>, LineError> {
    text.parse().map_err(|_| LineError::value(field, format!("{text:?}"), "a list such as 0-3,8"))
}

/// A raw counter: `VALUE` without times, `[VALUE, NS]` if it was running all of the time enabled, or
/// `[VALUE, ENABLED_NS, RUNNING_NS]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum ReadingField {
    Untimed(u64),
    AlwaysRunning(u64, u64),
    Multiplexed(u64, u64, u64),
}

impl From<CounterReading> for ReadingField {
    fn from(reading: CounterReading) -> Self {
        let CounterReading { value, enabled_ns, running_ns } = reading;
        match (enabled_ns, running_ns) {
            (0, 0) => ReadingField::Untimed(value),
            (enabled_ns, running_ns) if enabled_ns == running_ns => {
                ReadingField::AlwaysRunning(value, enabled_ns)
            }
            (enabled_ns, running_ns) => ReadingField::Multiplexed(value, enabled_ns, running_ns),
        }
    }
}

impl From<ReadingField> for CounterReading {
    fn from(field: ReadingField) -> Self {
        let (value, enabled_ns, running_ns) = match field {
            ReadingField::Untimed(value) => (value, 0, 0),
            ReadingField::AlwaysRunning(value, ns) => (value, ns, ns),
            ReadingField::Multiplexed(value, enabled_ns, running_ns) => {
                (value, enabled_ns, running_ns)
            }
        };
        CounterReading { value, enabled_ns, running_ns }
    }
}

/// `[tid, start time in clock ticks since boot]`.
pub(crate) type TaskField = (u32, u64);

pub(crate) fn task_out(task: TaskId) -> TaskField {
    (task.tid, task.start_time_ticks)
}

pub(crate) fn task_in((tid, start_time_ticks): TaskField) -> TaskId {
    TaskId { tid, start_time_ticks }
}

/// `"job": 3` or `"task": [1234, 56789]`, flattened into a line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TargetField {
    Job(u32),
    Task(TaskField),
}

impl From<Target> for TargetField {
    fn from(target: Target) -> Self {
        match target {
            Target::Job(job) => TargetField::Job(job.0),
            Target::Task(task) => TargetField::Task(task_out(task)),
        }
    }
}

impl From<TargetField> for Target {
    fn from(field: TargetField) -> Self {
        match field {
            TargetField::Job(job) => Target::Job(JobId(job)),
            TargetField::Task(task) => Target::Task(task_in(task)),
        }
    }
}

/// `{"bind": "0-1"}`: a policy and its nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum MemoryPolicyField {
    Bind(String),
    Preferred(String),
    Interleave(String),
    WeightedInterleave(String),
}

impl From<&MemoryPolicy> for MemoryPolicyField {
    fn from(policy: &MemoryPolicy) -> Self {
        match policy {
            MemoryPolicy::Bind(nodes) => MemoryPolicyField::Bind(nodes.to_string()),
            MemoryPolicy::Preferred(nodes) => MemoryPolicyField::Preferred(nodes.to_string()),
            MemoryPolicy::Interleave(nodes) => MemoryPolicyField::Interleave(nodes.to_string()),
            MemoryPolicy::WeightedInterleave(nodes) => {
                MemoryPolicyField::WeightedInterleave(nodes.to_string())
            }
        }
    }
}

impl MemoryPolicyField {
    pub(crate) fn policy(&self) -> Result<MemoryPolicy, LineError> {
        let nodes = |text: &str| -> Result<NodeSet, LineError> { set("memory-policy", text) };
        Ok(match self {
            MemoryPolicyField::Bind(text) => MemoryPolicy::Bind(nodes(text)?),
            MemoryPolicyField::Preferred(text) => MemoryPolicy::Preferred(nodes(text)?),
            MemoryPolicyField::Interleave(text) => MemoryPolicy::Interleave(nodes(text)?),
            MemoryPolicyField::WeightedInterleave(text) => {
                MemoryPolicy::WeightedInterleave(nodes(text)?)
            }
        })
    }
}

/// Parses the name of a signal tier.
pub(crate) fn tier(name: &str) -> Result<SignalTier, LineError> {
    let known = SignalTier::ALL.into_iter().find(|tier| tier.to_string() == name);
    known.ok_or_else(|| LineError::value("tier", format!("{name:?}"), "a signal tier"))
}
