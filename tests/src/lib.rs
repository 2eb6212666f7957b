//! Shared parts of the end-to-end tests.
//!
//! ```text
//!   promises/   tests on any machine             guest/   tests on four NUMA nodes, in a guest
//!        └──────────────────────┬────────────────────┘
//!   tool          the evenkeel executable, built if it is missing or outdated
//!   evenkeel      `evenkeel run` and `evenkeel watch` as processes
//!   live_run      a run in this process, turn by turn          (LaunchHost)
//!   watch_run     a watch in this process, turn by turn        (AttachHost)
//!   parsers       every parser of a file format, as a function of bytes
//!   isolated      a test in namespaces of its own
//!   dir, process, cgroup          resources that are removed when they are dropped
//!   transcript    rejected commands and their error lines, as data files
//! ```
#![allow(missing_docs, reason = "the names of these helpers and of the tests describe them")]

pub mod cgroup;
pub mod dir;
pub mod evenkeel;
pub mod isolated;
pub mod live_run;
pub mod parsers;
pub mod process;
pub mod tool;
pub mod transcript;
pub mod watch_run;
