//! The machine as a value: nodes, last-level caches, cores, SMT siblings, kinds and speeds.
//!
//! Nothing here reads a machine: `linux` does that and builds these values. Files of machines are
//! text in, value out.

mod domains;
pub mod draw;
mod figures;
pub mod file;
mod machine;
mod synthetic;

pub use domains::{Domain, DomainChoice, Domains, Level, ParseLevelError};
pub use figures::{Access, CacheFigures, Figure, Figures, KindFigures, Source};
pub use machine::{
    Core, Cpu, DISTANCE_LOCAL, Llc, Machine, MachineError, MachineParts, Node, System,
};
pub use synthetic::SyntheticError;
