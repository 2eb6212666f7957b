//! The lines of a stream.

use serde::{Deserialize, Serialize};

use crate::perf::{Attr, CounterTarget, Flags, GroupSpec};

/// The version of the format.
pub const VERSION: u32 = 1;

/// The first line: what was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The version of the format; by this a stream is known.
    pub evenkeel_stream: u32,
    /// Who wrote it.
    pub tool: String,
    /// The machine, as a machine file.
    pub machine: String,
    /// How far apart turns were meant to be.
    pub interval_ns: u64,
    /// The processes that were followed.
    pub jobs: Vec<JobLine>,
}

/// A process that was followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobLine {
    /// Its number.
    pub pid: u32,
    /// What it is called.
    pub name: String,
}

/// A line after the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Line {
    /// A turn begins.
    Turn {
        /// Its number, from 0.
        turn: u64,
        /// When, since the start of the recording.
        at_ns: u64,
    },
    /// A folder was listed.
    List {
        /// Which.
        list: String,
        /// What is in it.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        names: Option<Vec<String>>,
        /// Or why it was refused.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        errno: Option<i32>,
    },
    /// A file was read.
    File {
        /// Which.
        file: String,
        /// What it held, if that is text.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        text: Option<String>,
        /// What it held, if not.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        hex: Option<String>,
        /// Or why it was refused.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        errno: Option<i32>,
    },
    /// A group of counters was opened.
    Open {
        /// What it is called from now on.
        open: u32,
        /// Of this task,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        task: Option<u32>,
        /// or of this CPU.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        cpu: Option<u32>,
        /// What is counted, the leader first.
        events: Vec<EventLine>,
        /// Why it was refused, if it was.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        errno: Option<i32>,
    },
    /// A group was read.
    Group {
        /// Which.
        group: u32,
        /// The bytes of the read.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        hex: Option<String>,
        /// Or why it was refused.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        errno: Option<i32>,
    },
}

/// A counter of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventLine {
    /// The event that it stands for, or another name.
    pub name: String,
    /// Number of its PMU.
    #[serde(rename = "type")]
    pub kind: u32,
    /// Which event.
    pub config: [u64; 3],
    /// Descendants count with it.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub inherit: bool,
    /// The kernel's part is left out.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub user_only: bool,
    /// By which a read names it; 0 where it was refused.
    #[serde(default)]
    pub number: u64,
}

impl Line {
    /// The line of a group that was opened or refused.
    pub fn opened(spec: &GroupSpec, nr: u32, numbers: &[u64], errno: Option<i32>) -> Self {
        let number = |idx: usize| numbers.get(idx).copied().unwrap_or(0);
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
        Line::Open { open: nr, task, cpu, events, errno }
    }
}

impl EventLine {
    /// What was asked for.
    pub fn attr(&self) -> Attr {
        let flags = Flags { inherit: self.inherit, user_only: self.user_only, disabled: false };
        Attr { kind: self.kind, config: self.config, flags }
    }
}

/// Bytes as digits.
pub(super) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Digits as bytes.
pub(super) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8]| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8);
    digits.len().is_multiple_of(2).then(|| digits.chunks(2).map(byte).collect()).flatten()
}
