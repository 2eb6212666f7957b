//! All reads and writes of kernel interfaces. This crate makes no decision.
//!
//! ```text
//!   read    topology          the machine from /sys and /proc     signal_sources  availability of signals
//!           perf, pmu         counters of tasks and CPUs          uncore          memory controllers per node
//!           resctrl           traffic of LLC domains and groups   pressure        PSI of the system
//!           schedstat         run and wait time of CPUs           collectors      samples of all of these
//!           source            the kernel or a recording           stream          recordings
//!           tasks             processes and threads of jobs       address_sampling hot address ranges
//!           proc_stat, procfs, proc_dir, environ               files of processes
//!           connector         start and exit events               cpuset          effective CPUs
//!           numa_maps, memory memory of a process by node         pagemap         occupied address ranges
//!           system            boot, namespace, limits
//!   write   affinity, mempolicy, realtime  of a thread            pages, move_pages  page migration
//!           node_memory       memory for measurements
//!           cgroup            cgroups that bind memory            spawn, child_exit  start and exit of programs
//!           stop_signals      signals through a signalfd          state_file      state for `evenkeel status`
//!           foreground        the terminal of a program
//!   undo    record of changes, and restore                        fault           fault injection for tests
//! ```
//!
//! Parsers take text and return values; separate functions open files, below a root that is a parameter. This is the
//! only crate with `unsafe`; each block has a SAFETY comment.

#![allow(unsafe_code)]

pub mod address_sampling;
pub mod affinity;
pub mod cgroup;
pub mod child_exit;
pub mod collectors;
pub mod connector;
pub mod cpuset;
pub mod environ;
pub mod fault;
pub mod foreground;
pub mod fork_latency;
pub mod inherited_children;
pub mod memory;
pub mod mempolicy;
pub mod move_pages;
pub mod node_memory;
pub mod numa_maps;
pub mod pagemap;
pub mod pages;
pub mod perf;
pub mod pmu;
pub mod pressure;
pub mod privileges;
pub mod proc_dir;
pub mod proc_stat;
pub mod procfs;
pub mod realtime;
pub mod resctrl;
pub mod schedstat;
pub mod signal_sources;
pub mod source;
pub mod spawn;
pub mod state_file;
pub mod stop_signals;
pub mod stream;
pub mod system;
pub mod tasks;
#[cfg(test)]
mod test_support;
pub mod topology;
pub mod uncore;
pub mod undo;
