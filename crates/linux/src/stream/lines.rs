//! Lines of a stream.

use serde::{Deserialize, Serialize};

use crate::perf::{Attr, CounterTarget, Flags, GroupSpec};

/// Version of the format.
pub const VERSION: u32 = 1;

/// The first line of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamHeader {
    /// Version of the format. The key `evenkeel_stream` identifies a stream.
    pub evenkeel_stream: u32,
    /// Name and version of the program that wrote the stream.
    pub tool: String,
    /// The machine, as a machine file.
    pub machine: String,
    /// Interval of the turns.
    pub interval_ns: u64,
    /// The recorded processes.
    pub jobs: Vec<RecordedJob>,
}

/// A recorded process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedJob {
    /// PID.
    pub pid: u32,
    /// Name of the job.
    pub name: String,
}

/// A line after the header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum StreamLine {
    /// Start of a turn.
    Turn {
        /// Number of the turn, from 0.
        turn: u64,
        /// Time since the start of the recording, in nanoseconds.
        at_ns: u64,
    },
    /// A directory was listed.
    List {
        /// The directory.
        list: String,
        /// Names in the directory.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        names: Option<Vec<String>>,
        /// The error, instead of names.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        errno: Option<i32>,
    },
    /// A file was read.
    File {
        /// The path.
        file: String,
        /// Content of the file, if it is UTF-8.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        text: Option<String>,
        /// Content of the file in hexadecimal digits, if it is not UTF-8.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        hex: Option<String>,
        /// The error, instead of content.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        errno: Option<i32>,
    },
    /// A group of counters was opened.
    Open {
        /// Number of the group.
        open: u32,
        /// The counted task; absent if a CPU is counted.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        task: Option<u32>,
        /// The counted CPU; absent if a task is counted.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        cpu: Option<u32>,
        /// The events, the leader first.
        events: Vec<EventLine>,
        /// The error of a failed call.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        errno: Option<i32>,
    },
    /// A group was read.
    Group {
        /// Number of the group.
        group: u32,
        /// The bytes of the read.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        hex: Option<String>,
        /// The error, instead of bytes.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        errno: Option<i32>,
    },
}

/// A counter of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventLine {
    /// Name of the event.
    pub name: String,
    /// Type of the PMU.
    #[serde(rename = "type")]
    pub kind: u32,
    /// Config words.
    pub config: [u64; 3],
    /// Whether future children are counted too.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub inherit: bool,
    /// Whether only user mode is counted.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub user_only: bool,
    /// Id of the counter in the reads of the group; 0 if the group failed to open.
    #[serde(default)]
    pub number: u64,
}

impl StreamLine {
    /// Returns the line of a group that was opened or failed to open.
    pub fn opened(spec: &GroupSpec, nr: u32, ids: &[u64], errno: Option<i32>) -> Self {
        let number = |idx: usize| ids.get(idx).copied().unwrap_or(0);
        let event = |(idx, (name, attr)): (usize, &(String, Attr))| EventLine {
            name: name.clone(),
            kind: attr.kind,
            config: attr.config,
            inherit: attr.flags.inherit,
            user_only: attr.flags.user_only,
            number: number(idx),
        };
        let (task, cpu) = match spec.target {
            CounterTarget::Task(tid) => (Some(tid), None),
            CounterTarget::Cpu(cpu) => (None, Some(cpu)),
        };
        let events = spec.events.iter().enumerate().map(event).collect();
        StreamLine::Open { open: nr, task, cpu, events, errno }
    }
}

impl EventLine {
    /// Returns the attribute of the counter.
    pub fn attr(&self) -> Attr {
        let flags = Flags { inherit: self.inherit, user_only: self.user_only, disabled: false };
        Attr { kind: self.kind, config: self.config, flags }
    }
}

/// Converts bytes to hexadecimal digits.
pub(super) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Converts hexadecimal digits to bytes.
pub(super) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8]| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8);
    digits.len().is_multiple_of(2).then(|| digits.chunks(2).map(byte).collect()).flatten()
}
