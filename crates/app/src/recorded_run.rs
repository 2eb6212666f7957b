//! The header and the end of the journal of a run or a watch: the values that do not depend on the command.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base::{Bytes, Nanos};
use journal::{Header, PolicyUsed, RunEnd, RunStatus};
use sched::{HostKind, StopCause};
use topology::Machine;

use crate::status::unix_seconds;

/// Returns a header without the id, the jobs and the options of a run.
pub fn header(host: HostKind, policy: PolicyUsed, machine: Machine) -> Header {
    Header {
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        run_id: String::new(),
        started_unix_s: unix_seconds(),
        host,
        policy,
        seed: 0,
        machine,
        workload: String::new(),
        dir: PathBuf::new(),
        jobs: Vec::new(),
        options: BTreeMap::new(),
        replay_of: None,
        command: crate::repeat::command_line(),
    }
}

/// Returns the end of a run, without the resources that evenkeel used.
pub fn end(error: Option<&anyhow::Error>, stopped_by: Option<StopCause>, wall: Nanos) -> RunEnd {
    let status = match (error, stopped_by) {
        (Some(_), _) => RunStatus::Failed,
        (None, Some(_)) => RunStatus::Interrupted,
        (None, None) => RunStatus::Finished,
    };
    let error = error.map(|error| format!("{error:#}"));
    RunEnd { status, stopped_by, error, wall, own_cpu: None, own_max_resident: None }
}

/// Returns the CPU time and peak resident memory of evenkeel without its jobs.
pub fn own_use() -> (Option<Nanos>, Option<Bytes>) {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeValLike;
    let Ok(used) = getrusage(UsageWho::RUSAGE_SELF) else { return (None, None) };
    let cpu_us = used.user_time().num_microseconds() + used.system_time().num_microseconds();
    let cpu = u64::try_from(cpu_us).ok().map(|us| Nanos(us * 1000));
    (cpu, u64::try_from(used.max_rss()).ok().map(Bytes::from_kib))
}
