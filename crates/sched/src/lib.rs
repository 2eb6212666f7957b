//! The types that hosts, the engine and policies exchange.
//!
//! ```text
//!   host: Turn, Sample (raw) ─► engine: rates ─► Snapshot ─► Policy ─► Plan ─► engine: guard
//!   host ◄── approved plan ; host ─► Outcome of each action
//! ```
//!
//! Hosts and policies do not depend on each other; both depend on this crate.

/// Declares an enum whose values have names in journals and tables, with `ALL` and `name()`.
macro_rules! named_enum {
    ($(#[$meta:meta])* $enum:ident { $($(#[$doc:meta])* $variant:ident $name:literal,)* }) => {
        $(#[$meta])*
        pub enum $enum {
            $($(#[$doc])* $variant,)*
        }

        impl $enum {
            /// All values, in the order of their declaration.
            pub const ALL: [$enum; { [$($enum::$variant),*].len() }] = [$($enum::$variant),*];

            /// The name in options, journals and tables.
            pub fn name(self) -> &'static str {
                match self { $($enum::$variant => $name,)* }
            }
        }
    };
}

mod counters;
mod memory;
mod outcome;
mod plan;
mod reason;
mod sample;
mod snapshot;
mod system_metrics;
mod tiers;

pub use counters::{
    CounterDeltas, CounterEvent, Counters, EventKind, EventSet, Measured, RawCounter,
};
pub use memory::{
    ActivePageMigration, CompletedPageMigration, FailedPages, JobMemory, NodeMemory,
    PageMigrationEnd, ProcessMemory,
};
pub use outcome::{CauseAndDetail, Outcome, OutcomeResult, RejectCause, Rejection};
pub use plan::{Action, ActionKind, Plan, Request, Target};
pub use reason::{Reason, ReasonCode, ReasonValue};
pub use sample::{
    Cause, DetachCause, ExitStatus, JobEvent, JobExit, NodeSample, NumaSettings, Sample,
    TaskSample, Turn, UnmanagedCause,
};
pub use snapshot::{DomainLoads, JobState, JobView, NodeView, PerJob, Snapshot, TaskView};
pub use system_metrics::{
    CpuTimes, LlcSample, LlcView, MonGroupSample, MonGroupView, Pressure, StallTimes, Traffic,
    TrafficDelta,
};
pub use tiers::{LoadPreference, SignalTier, TierOverride, TierOverrideError, Tiers};

/// A scheduling policy: decides from a snapshot on which CPUs tasks run and on which nodes their memory is.
///
/// A policy may keep state between turns. It reads no clock and no file, and its only random source is the
/// seed that it was built with: the same snapshots in the same order give the same plans.
pub trait Policy {
    /// Adds requests and notes to `plan`, which is empty. The engine calls it once per turn.
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan);

    /// The name in `--policy` and in every record.
    fn name(&self) -> &str;

    /// Codes of all reasons that the policy can give. The header of a journal stores their templates.
    fn reasons(&self) -> Vec<ReasonCode> {
        Vec::new()
    }

    /// Time between two interval turns; `None`: the policy decides only when jobs or CPUs change.
    fn interval(&self) -> Option<base::Nanos>;

    /// Whether every interval causes a turn, or only an interval in which a counter overflowed.
    fn wake(&self) -> Wake {
        Wake::Poll
    }

    /// Level of the domains that the snapshot holds: nodes, LLC domains or cores.
    fn domains(&self) -> topology::DomainChoice {
        topology::DomainChoice::Auto
    }

    /// Source of the loads of these domains.
    fn load_source(&self) -> LoadSource {
        LoadSource::Best
    }
}

/// Source of the loads of domains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadSource {
    /// The best available source.
    #[default]
    Best,
    /// Counters of the domain: its memory controller or resctrl (tier `bandwidth`). If they cannot be
    /// read, [`DomainLoads::readable`] is false.
    Domains,
    /// Sum over the tasks of the domain, of their counters or else of declared rates.
    Tasks,
}

/// The intervals of a policy that cause a turn.
///
/// ```text
///   poll       |    |    |    |    |    |      every interval
///   overflow   |    ·    ·    |    ·    |      only an interval in which a counter overflowed
/// ```
///
/// The intervals are the same in both modes, so that loads always cover one interval. Turns with another
/// cause (a due job, an exit, a change of CPUs) do not depend on the mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wake {
    /// Every interval.
    #[default]
    Poll,
    /// Only an interval in which a counter overflowed. A host that cannot sample the event reports that and
    /// polls. A host that can sample it also adds a turn after several intervals without an overflow, to
    /// detect other changes.
    Overflow {
        /// The sampled event.
        event: CounterEvent,
        /// Sampling period in events, per CPU or per task.
        every: u64,
    },
}
