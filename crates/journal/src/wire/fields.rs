//! Fields of several lines: ids, sets, counter values, targets and memory policies.

use base::{Bytes, CpuId, IdSet, JobId, LlcId, Nanos, NodeId, NodeSet, SetId, TaskId};
use program::MemoryPolicy;
use sched::{CounterReading, SignalTier, Target};
use serde::{Deserialize, Serialize};

use crate::LineError;

/// A value and its encoding in a line.
pub(crate) trait Encoded<F> {
    fn encode(&self) -> F;
    fn decode(field: F) -> Self;
}

macro_rules! newtype_fields {
    ($($kind:ident: $field:ty),*) => {
        $(impl Encoded<$field> for $kind {
            fn encode(&self) -> $field {
                self.0
            }
            fn decode(field: $field) -> Self {
                $kind(field)
            }
        })*
    };
}

macro_rules! plain_fields {
    ($($kind:ty),*) => {
        $(impl Encoded<$kind> for $kind {
            fn encode(&self) -> $kind {
                *self
            }
            fn decode(field: $kind) -> Self {
                field
            }
        })*
    };
}

newtype_fields! { Bytes: u64, Nanos: u64, CpuId: u32, JobId: u32, LlcId: u32, NodeId: u32 }
plain_fields! { bool, u8, u32, u64 }

impl<F, T: Encoded<F>> Encoded<Option<F>> for Option<T> {
    fn encode(&self) -> Option<F> {
        self.as_ref().map(T::encode)
    }
    fn decode(field: Option<F>) -> Self {
        field.map(T::decode)
    }
}

/// Defines the fields of a line that correspond to those of a type, and the conversions. One row per field has
/// its name and type in the line, and its name in the type.
macro_rules! fields_of {
    ($(#[$meta:meta])* $Line:ident for $Type:ty {
        $($(#[$attribute:meta])* $name:ident: $kind:ty = $field:ident,)*
    }) => {
        #[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        $(#[$meta])*
        pub(crate) struct $Line {
            $($(#[$attribute])* pub $name: $kind,)*
        }

        impl crate::wire::fields::Encoded<$Line> for $Type {
            fn encode(&self) -> $Line {
                $Line { $($name: crate::wire::fields::Encoded::encode(&self.$field),)* }
            }
            fn decode(line: $Line) -> Self {
                Self { $($field: crate::wire::fields::Encoded::decode(line.$name),)* }
            }
        }
    };
}
pub(crate) use fields_of;

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

impl Encoded<ReadingField> for CounterReading {
    fn encode(&self) -> ReadingField {
        let CounterReading { value, enabled_ns, running_ns } = *self;
        match (enabled_ns, running_ns) {
            (0, 0) => ReadingField::Untimed(value),
            (enabled_ns, running_ns) if enabled_ns == running_ns => {
                ReadingField::AlwaysRunning(value, enabled_ns)
            }
            (enabled_ns, running_ns) => ReadingField::Multiplexed(value, enabled_ns, running_ns),
        }
    }

    fn decode(field: ReadingField) -> Self {
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
