//! Actions, results and commands as phrases of a sentence.

use std::ffi::OsStr;

use base::{Bytes, CpuSet, NodeId, NodeSet, counted_noun, shell};
use program::{Command, MemoryPolicy};
use sched::{
    Action, CompletedPageMigration, DetachCause, ExitStatus, JobExit, PageMigrationEnd, SignalTier,
    StopCause, UnmanagedCause, signal_name,
};

use crate::domain_names::cpu_phrase;
use crate::format::{bytes, seconds};

/// Returns the source of the loads, as a sentence.
pub fn tier_phrase(tier: SignalTier) -> &'static str {
    match tier {
        SignalTier::Counters => "loads are last-level cache misses, counted per task",
        SignalTier::Bandwidth => "loads are memory controller operations, counted per domain",
        SignalTier::Declared => {
            "no memory counter is readable: loads are estimated as declared class times CPU time \
             of each job"
        }
        SignalTier::None => "no signal of memory traffic is available: loads are unknown",
    }
}

/// Returns the reason why evenkeel no longer places a job, as a phrase.
pub fn unmanaged_phrase(cause: &UnmanagedCause) -> String {
    match cause {
        UnmanagedCause::AffinityChanged(cpus) => {
            format!("bound to {}, not by evenkeel", cpu_phrase(cpus))
        }
        UnmanagedCause::NotPermitted => {
            "the kernel does not permit evenkeel to set its affinity".to_owned()
        }
    }
}

/// Returns the reason why an attached job is no longer managed, as a phrase. `was_placed`: evenkeel had set its
/// affinity.
pub fn detached_phrase(cause: DetachCause, was_placed: bool) -> String {
    let phrase = match cause {
        DetachCause::Ended => return "ended".to_owned(),
        DetachCause::Idle => "detached after a long idle time",
        DetachCause::WatchStopped => "detached at the end of the watch",
        DetachCause::Excluded => "detached by exclusion",
    };
    format!("{phrase}{}", if was_placed { "; its affinity was restored" } else { "" })
}

/// Returns a requested action as a phrase: `place on core 1`.
pub fn action_phrase(action: &Action, place: impl Fn(&CpuSet) -> String) -> String {
    match action {
        Action::Place(cpus) => format!("place on {}", place(cpus)),
        Action::MemoryPolicy(policy) => memory_policy_phrase(policy),
        Action::Release => "release".to_owned(),
        Action::MovePages { from, to, limit } => {
            format!("migrate {}", page_migration_phrase((*from, *to, *limit)))
        }
    }
}

/// Returns a memory policy as a phrase: `bind memory to node 1`.
pub fn memory_policy_phrase(policy: &MemoryPolicy) -> String {
    match policy {
        MemoryPolicy::Bind(nodes) => format!("bind memory to {}", node_phrase(nodes)),
        MemoryPolicy::Preferred(nodes) => format!("prefer memory of {}", node_phrase(nodes)),
        MemoryPolicy::Interleave(nodes) => format!("interleave memory over {}", node_phrase(nodes)),
        MemoryPolicy::WeightedInterleave(nodes) => {
            format!("interleave memory over {} by weight", node_phrase(nodes))
        }
    }
}

/// Returns a page migration as a phrase: `its pages from node 0 to node 2, at most 64.0 MiB`.
pub fn page_migration_phrase((from, to, limit): (Option<NodeId>, NodeId, Bytes)) -> String {
    let from = from.map_or(String::new(), |from| format!(" from node {}", from.0));
    let limit = match limit {
        Action::NO_LIMIT => String::new(),
        limit => format!(", at most {limit}"),
    };
    format!("its pages{from} to node {}{limit}", to.0)
}

/// Returns the result of a page migration: `60.0 MiB of 64.0 MiB of its pages migrated to node 2 in 0.200 s`, with the
/// reasons for the pages that did not migrate.
pub fn completed_page_migration_phrase(moved: &CompletedPageMigration) -> String {
    let from = moved.from.map_or(String::new(), |from| format!(" from node {}", from.0));
    let (to, duration) = (moved.to.0, seconds(moved.duration.0));
    let mut text = format!(
        "{} of {} of its pages migrated{from} to node {to} in {duration} s",
        moved.moved, moved.requested
    );
    let not_migrated = moved.failed.named().into_iter().filter(|(_, bytes)| *bytes != Bytes::ZERO);
    let mut not_migrated: Vec<String> = not_migrated
        .map(|(name, bytes)| format!("{bytes} {}", failed_pages_phrase(name)))
        .collect();
    if moved.not_attempted != Bytes::ZERO {
        not_migrated.push(format!("{} not attempted", moved.not_attempted));
    }
    if !not_migrated.is_empty() {
        text += &format!("; not migrated: {}", not_migrated.join(", "));
    }
    text += page_migration_end_phrase(moved.stopped_by);
    if !moved.detail.is_empty() {
        text += &format!(": {}", moved.detail);
    }
    text
}

fn failed_pages_phrase(name: &str) -> &str {
    match name {
        "busy" => "busy",
        "no-memory" => "without free memory on the target",
        "not-present" => "no longer present",
        "not-permitted" => "not permitted",
        "elsewhere" => "on another node afterwards",
        "exited" => "of an exited process",
        _ => "rejected by the kernel",
    }
}

fn page_migration_end_phrase(end: PageMigrationEnd) -> &'static str {
    match end {
        PageMigrationEnd::Done => "",
        PageMigrationEnd::Limit => "; stopped at the requested limit",
        PageMigrationEnd::TimeLimit => "; stopped at the time limit",
        PageMigrationEnd::Full => "; stopped because the target node is full",
        PageMigrationEnd::Exited => "; stopped because the job ended",
        PageMigrationEnd::Stopped => "; stopped with the run",
        PageMigrationEnd::Error => "; stopped by an error of the kernel",
    }
}

fn node_phrase(nodes: &NodeSet) -> String {
    if nodes.len() == 1 { format!("node {nodes}") } else { format!("nodes {nodes}") }
}

/// Returns the end of a job as a phrase: `exited with status 0 after 1.033 s`.
pub fn exit_phrase(exit: &JobExit) -> String {
    let status = match exit.status {
        _ if exit.oom_killed => "OOM-killed".to_owned(),
        ExitStatus::Exited(status) => format!("exited with status {status}"),
        ExitStatus::Signaled(signal) => format!("killed by {}", signal_name(signal)),
    };
    let wall = seconds(exit.wall.0);
    match (exit.stopped_by_host, exit.restarts) {
        (true, _) => format!("stopped by evenkeel after {wall} s ({status})"),
        (false, true) => format!("{status} after {wall} s; it restarts"),
        (false, false) => format!("{status} after {wall} s"),
    }
}

/// Returns the number of missing parts of a journal as a phrase.
pub fn parts_missing_phrase(n: u32) -> String {
    match n {
        1 => "the size limit (--journal-part) removed the first part of the journal".to_owned(),
        n => format!("the size limit (--journal-part) removed the first {n} parts of the journal"),
    }
}

/// Returns the resource usage of a program. Values that were not measured are omitted.
pub fn usage_phrase(exit: &JobExit) -> String {
    let mut phrases = vec![format!(
        "{} of CPU time ({} user, {} system)",
        exit.user.saturating_add(exit.system),
        exit.user,
        exit.system
    )];
    if let Some(wait) = exit.wait {
        phrases.push(format!("{wait} of wait time"));
    }
    if let Some(blocked) = exit.blocked {
        phrases.push(format!("{blocked} blocked by other threads of the job"));
    }
    if let Some(n) = exit.n_migrations {
        phrases.push(counted_noun(n, "migration"));
    }
    phrases.push(format!("maximum resident set {}", bytes(exit.max_resident.0)));
    match exit.n_remaining {
        0 => {}
        1 => phrases.push("1 remaining process after the end of the main process".to_owned()),
        n => phrases.push(format!("{n} remaining processes after the end of the main process")),
    }
    phrases.join(", ")
}

/// Returns the command of a job, as one line for a shell.
pub fn command_line(command: &Command) -> String {
    match command {
        Command::Program { program, args } => {
            let args = args.iter().map(OsStr::new);
            shell::join(std::iter::once(program.as_os_str()).chain(args))
        }
        Command::Shell(line) => line.clone(),
        Command::Load(args) => {
            shell::join(["evenkeel", "load"].into_iter().chain(args.iter().map(String::as_str)))
        }
    }
}

/// Returns the cause of an early end, after the word "stopped".
pub(crate) fn stop_cause(stopped_by: Option<StopCause>) -> &'static str {
    match stopped_by {
        Some(StopCause::Signal) => "by a signal",
        Some(StopCause::TimeLimit) => "at the time limit",
        Some(StopCause::FailedJob) => "because a job failed",
        Some(StopCause::Error) => "because of an error",
        Some(StopCause::Reload) => "for a new configuration",
        None => "early",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_can_be_pasted_into_a_shell() {
        let args = vec!["-o".to_owned(), "a b".to_owned(), "it's".to_owned(), String::new()];
        let command = Command::Program { program: "cc".into(), args };
        assert_eq!(command_line(&command), r"cc -o 'a b' 'it'\''s' ''");
    }

    #[test]
    fn the_result_of_a_page_migration_is_a_sentence() {
        let mib = Bytes::from_mib;
        let mut moved = CompletedPageMigration {
            target: sched::Target::Job(base::JobId(0)),
            job: base::JobId(0),
            from: Some(NodeId(0)),
            to: NodeId(2),
            limit: Action::NO_LIMIT,
            requested: mib(64),
            moved: mib(64),
            failed: sched::FailedPages::default(),
            not_attempted: Bytes::ZERO,
            duration: base::Nanos::from_millis(250),
            in_kernel: base::Nanos::from_millis(200),
            stopped_by: PageMigrationEnd::Done,
            detail: String::new(),
        };
        assert_eq!(
            completed_page_migration_phrase(&moved),
            "64.0 MiB of 64.0 MiB of its pages migrated from node 0 to node 2 in 0.250 s"
        );
        moved.from = None;
        (moved.moved, moved.not_attempted, moved.failed.busy) = (mib(40), mib(20), mib(4));
        (moved.stopped_by, moved.detail) = (PageMigrationEnd::Error, "no: do this".to_owned());
        assert_eq!(
            completed_page_migration_phrase(&moved),
            "40.0 MiB of 64.0 MiB of its pages migrated to node 2 in 0.250 s; not migrated: \
             4.0 MiB busy, 20.0 MiB not attempted; stopped by an error of the kernel: no: do this"
        );
    }
}
