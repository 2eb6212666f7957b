//! What runs: jobs, their programs and the files that list them.
//!
//! Text in, values out. Whether a program is there and can be run is asked by the host that runs it.

mod job;

pub use job::{Class, Command, Ending, Job, MemoryPolicy, Origin, Workload};
