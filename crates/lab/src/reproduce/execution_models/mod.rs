//! Fork-join and pipeline programs under `ib`: how an execution model changes the behaviour of a program, and what the
//! per-thread placement (`tlp`, `lrt`, `cosched`) gains.
//!
//! ```text
//!   the same work:  one thread        ████████████████
//!                   fork-join         ██ ███ ██ ███        serial part, then n threads
//!                   pipeline          ████████ / ·████████ one thread per stage
//! ```
//!
//! Two programs run at once, one computing and one with many misses. The experiments are functions, because their
//! workloads are built from the models.

mod behaviour;
mod models;
mod times;

use super::Code;

/// Functions by name of the experiment.
pub(super) const CODE: &[Code] = &[
    ("behaviour", behaviour::behaviour),
    ("fork-join", times::fork_join),
    ("unlike-threads", times::unlike_threads),
    ("pipeline", times::pipeline),
    ("sets", times::sets),
];
