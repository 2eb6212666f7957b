//! The types that hosts, the engine and policies exchange.
//!
//! ```text
//!   host: Turn, Sample (raw) ─► engine: rates ─► Snapshot ─► Policy ─► Plan ─► engine: guard
//!   host ◄── approved plan ; host ─► Outcome of each action
//! ```
//!
//! Hosts and policies do not depend on each other; both depend on this crate.

/// Declares an enum with `ALL` and `name()`. Options, journals and tables use the names.
macro_rules! named_enum {
    ($(#[$meta:meta])* $enum:ident { $($(#[$doc:meta])* $variant:ident $name:literal,)* }) => {
        $(#[$meta])*
        pub enum $enum {
            $($(#[$doc])* $variant,)*
        }

        impl $enum {
            /// All values, in the order of their declaration.
            pub const ALL: [$enum; { [$($enum::$variant),*].len() }] = [$($enum::$variant),*];

            /// Returns the name in options, journals and tables.
            pub fn name(self) -> &'static str {
                match self { $($enum::$variant => $name,)* }
            }
        }
    };
}

mod counters;
mod job_exit;
mod memory;
mod outcome;
mod plan;
mod reason;
mod sample;
mod snapshot;
mod system_signals;
mod tiers;

pub use counters::{
    CounterDeltas, CounterEvent, Counters, EventKind, EventSet, Measured, RawCounter, value_delta,
};
pub use job_exit::{ExitStatus, JobEnd, JobExit, StopCause, signal_name};
pub use memory::{
    ActivePageMigration, CompletedPageMigration, FailedPages, JobMemory, NodeMemory,
    PageMigrationEnd, ProcessMemory,
};
pub use outcome::{CauseAndDetail, Outcome, OutcomeResult, RejectCause, Rejection};
pub use plan::{Action, ActionKind, Observation, Plan, Request, Target};
pub use reason::{Reason, ReasonCode, ReasonValue};
pub use sample::{
    Cause, DetachCause, HostKind, JobEvent, NodeSample, NumaSettings, Sample, TaskSample, Turn,
    UnmanagedCause,
};
pub use snapshot::{DomainLoads, JobState, JobView, NodeView, PerJob, Snapshot, TaskView};
pub use system_signals::{
    CpuTimes, LlcSample, LlcView, MonGroupSample, MonGroupView, Pressure, StallTimes, Traffic,
    TrafficDelta,
};
pub use tiers::{LoadPreference, SignalTier, TierOverride, TierOverrideError, Tiers};

/// A scheduling policy. It selects the CPUs of tasks and the nodes of their memory.
///
/// A policy may keep state between turns. It reads no clock and no file. Its only random source is its seed: the same
/// snapshots in the same order give the same plans.
pub trait Policy {
    /// Adds requests and notes to `plan`, which is empty. The engine calls this function once per turn.
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan);

    /// Returns the name of the policy in `--policy` and in journals.
    fn name(&self) -> &str;

    /// Returns the codes of all reasons of the policy. The header of a journal stores their templates.
    fn reasons(&self) -> Vec<ReasonCode> {
        Vec::new()
    }

    /// Returns the time between two interval turns. `None`: the policy decides only when jobs or CPUs change.
    fn interval(&self) -> Option<base::Nanos>;

    /// Returns which intervals cause a turn.
    fn wake(&self) -> Wake {
        Wake::Poll
    }

    /// Returns the level of the domains in the snapshot: nodes, LLC domains or cores.
    fn domains(&self) -> topology::DomainChoice {
        topology::DomainChoice::Auto
    }

    /// Returns the source of the loads of the domains.
    fn load_source(&self) -> LoadSource {
        LoadSource::Best
    }
}

/// Implements methods of [`Policy`] by those of the policy in a field: `forward_policy!(inner: name, interval)`. For a
/// policy that changes the snapshot or the plan of another policy.
#[macro_export]
macro_rules! forward_policy {
    ($inner:ident: $($method:ident),+) => { $($crate::forward_policy!(@$method $inner);)+ };
    (@name $inner:ident) => {
        fn name(&self) -> &str { self.$inner.name() }
    };
    (@reasons $inner:ident) => {
        fn reasons(&self) -> Vec<$crate::ReasonCode> { self.$inner.reasons() }
    };
    (@interval $inner:ident) => {
        fn interval(&self) -> Option<base::Nanos> { self.$inner.interval() }
    };
    (@wake $inner:ident) => {
        fn wake(&self) -> $crate::Wake { self.$inner.wake() }
    };
    (@domains $inner:ident) => {
        fn domains(&self) -> topology::DomainChoice { self.$inner.domains() }
    };
    (@load_source $inner:ident) => {
        fn load_source(&self) -> $crate::LoadSource { self.$inner.load_source() }
    };
}

/// Source of the loads of domains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadSource {
    /// The best available source.
    #[default]
    Best,
    /// Counters of the domain: memory controllers or resctrl (tier `bandwidth`). If they cannot be read,
    /// [`DomainLoads::readable`] is false.
    Domains,
    /// Sum over the tasks of the domain, from counters; if counters are not available, from declared rates.
    Tasks,
}

/// The intervals of a policy that cause a turn.
///
/// ```text
///   poll       |    |    |    |    |    |      every interval
///   overflow   |    ·    ·    |    ·    |      only an interval in which a counter overflowed
/// ```
///
/// The intervals are the same in both modes, so that loads always cover one interval. Turns with other causes (a due
/// job, an exit, a change of CPUs) do not depend on the mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wake {
    /// Every interval.
    #[default]
    Poll,
    /// Only an interval in which a counter overflowed. If the host cannot sample the event, it reports a message and
    /// polls. Otherwise the host also adds a turn after several intervals without an overflow, to detect other
    /// changes.
    Overflow {
        /// The sampled event.
        event: CounterEvent,
        /// Sampling period in events, per CPU or per task.
        every: u64,
    },
}
