//! The hardware topology as a value: nodes, LLC domains, cores, SMT siblings, core kinds and capacities.
//!
//! The crate opens no file. `linux` reads `/sys` and builds these values; machine files are parsed from
//! text.

mod core_kinds;
mod declared_core_kinds;
mod domains;
pub mod draw;
pub mod file;
mod machine;
mod perf_attributes;
mod synthetic;

pub use core_kinds::{CoreKindSource, CoreKindsSource};
pub use declared_core_kinds::{CoreKindsError, DeclaredCoreKinds};
pub use domains::{Domain, DomainChoice, Domains, Level, ParseLevelError};
pub use machine::{
    CAPACITY_MAX, CORE_KINDS_MAX, Core, CoreKind, Cpu, DISTANCE_LOCAL, Llc, Machine, MachineError,
    MachineParts, Node, QuantumAttributes, QueueScope, System,
};
pub use perf_attributes::{
    AttributeSource, CacheAttributes, ClusterAttributes, ContextSwitch, CoreKindAttributes,
    LatencyCurve, LinkAttributes, MemoryAccess, OpenStreams, PerfAttributes, PhysicsAttributes,
    Replacement, SmtSharing, SourcedList, SourcedValue,
};
pub use synthetic::SyntheticError;
