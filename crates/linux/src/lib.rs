//! Reads and writes Linux, and nothing else: no decision is made here.
//!
//! ```text
//!   read    topology   /sys and /proc as a machine          signals   which counters can be read
//!           perf       counters of tasks and CPUs           uncore    memory controllers, per node
//!           resctrl    traffic of caches and groups         pressure  waiting of the whole system
//!           schedstat  times of CPUs                        collectors one sample of all of these
//!           source     the seam: kernel or recording        stream    recordings of what the kernel said
//!           procfs     processes and threads                system    boot, namespace, limits
//!           environ    environments, and who has none yet
//!           glance     thousands of processes, each seldom and shortly
//!           connector  births and ends as the kernel tells them
//!           cpuset     what a cpuset gives a thread
//!           numa_maps  kinds of memory by node              memory    looks at it in bounded time
//!   write   affinity   CPUs of a thread                     mempolicy memory of a child
//!           pages      memory from node to node
//!           cgroup     groups for jobs whose memory is bound
//!           start      programs, bound before they begin    reap      how they ended
//!   undo    what we changed, written down before            fault     kills on purpose, for tests
//! ```
//!
//! Parsing takes text and returns values; opening files is another function, below a root that is a
//! parameter. This is the one room with `unsafe` in it, each block with the reason why it is sound.

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
pub mod fork_latency;
pub mod inherited_children;
#[cfg(test)]
mod isolated_test;
pub mod memory;
pub mod mempolicy;
pub mod metric_sources;
pub mod move_pages;
pub mod numa_maps;
pub mod pagemap;
pub mod pages;
pub mod perf;
pub mod pmu;
pub mod pressure;
pub mod proc_folder;
pub mod proc_stat;
pub mod procfs;
pub mod resctrl;
pub mod schedstat;
pub mod source;
pub mod spawn;
pub mod state_file;
pub mod stop_signals;
pub mod stream;
pub mod system;
pub mod tasks;
pub mod topology;
pub mod uncore;
pub mod undo;
