//! Actions, ends and commands in words.

use base::{Bytes, CpuSet, NodeId, NodeSet};
use program::{Command, MemoryPolicy};
use sched::{
    Action, CompletedPageMove, DetachCause, ExitStatus, JobExit, Measured, PageMoveEnd, SignalTier,
    UnmanagedCause,
};

use crate::places::cpu_words;
use crate::units::{bytes, seconds};

/// A signal tier in a sentence.
pub fn tier_words(tier: SignalTier) -> &'static str {
    match tier {
        SignalTier::Counters => {
            "loads are last-level cache misses, counted per task by the processor"
        }
        SignalTier::Bandwidth => {
            "loads are operations of the memory controllers, counted per domain"
        }
        SignalTier::Declared => {
            "no memory counter can be read here: loads are estimated from each job's declared \
             class times the CPU time that it used"
        }
        SignalTier::None => "nothing tells of memory traffic here: loads are unknown",
    }
}

/// What one operation of a load is.
pub fn load_unit(tier: SignalTier) -> &'static str {
    match tier {
        SignalTier::Counters => "last-level cache misses",
        SignalTier::Bandwidth => "memory controller operations",
        SignalTier::Declared => "declared memory operations",
        SignalTier::None => "nothing that could be told",
    }
}

/// Why a job was left alone, in words.
pub fn hands_off_words(why: &UnmanagedCause) -> String {
    match why {
        UnmanagedCause::AffinityChanged(cpus) => {
            format!("somebody else bound it to {}", cpu_words(cpus))
        }
        UnmanagedCause::NotPermitted => {
            "the kernel does not permit evenkeel to place it".to_owned()
        }
    }
}

/// Why a job that appeared is watched no longer, in words.
pub fn leaving_words(why: DetachCause) -> &'static str {
    match why {
        DetachCause::Ended => "ended",
        DetachCause::Idle => "slept so long that it is watched no longer; it has what it had",
        DetachCause::WatchStopped => "watching ends; it has what it had",
        DetachCause::Excluded => "left alone from here on; what was ours is put back",
    }
}

/// What was wanted, in words: `place on core 1`.
pub fn action_words(action: &Action, place: impl Fn(&CpuSet) -> String) -> String {
    match action {
        Action::Place(cpus) => format!("place on {}", place(cpus)),
        Action::MemoryPolicy(policy) => memory_words(policy),
        Action::Release => "release".to_owned(),
        Action::MovePages { from, to, limit } => {
            format!("move {}", pages_words((*from, *to, *limit)))
        }
    }
}

/// A memory policy in words: `take memory from node 1 only`.
pub fn memory_words(policy: &MemoryPolicy) -> String {
    match policy {
        MemoryPolicy::Bind(nodes) => format!("take memory from {} only", node_words(nodes)),
        MemoryPolicy::Preferred(nodes) => format!("take memory from {} first", node_words(nodes)),
        MemoryPolicy::Interleave(nodes) => format!("spread memory over {}", node_words(nodes)),
        MemoryPolicy::WeightedInterleave(nodes) => {
            format!("spread memory over {} by their weights", node_words(nodes))
        }
    }
}

/// Which memory goes where: `its memory from node 0 to node 2, at most 64.0 MiB`.
pub fn pages_words((from, to, limit): (Option<NodeId>, NodeId, Bytes)) -> String {
    let from = from.map_or(String::new(), |from| format!(" from node {}", from.0));
    let most = match limit {
        Action::NO_LIMIT => String::new(),
        limit => format!(", at most {limit}"),
    };
    format!("its memory{from} to node {}{most}", to.0)
}

/// How a move of memory ended: `60.0 MiB of 64.0 MiB of its memory moved to node 2 in 0.2 s`, and
/// what became of the rest.
pub fn moved_words(moved: &CompletedPageMove) -> String {
    let from = moved.from.map_or(String::new(), |from| format!(" from node {}", from.0));
    let (to, took) = (moved.to.0, seconds(moved.duration.0));
    let mut text = format!(
        "{} of {} of its memory moved{from} to node {to} in {took} s",
        moved.moved, moved.requested
    );
    let rest = moved.failed.named().into_iter().filter(|(_, bytes)| *bytes != Bytes::ZERO);
    let mut rest: Vec<String> =
        rest.map(|(name, bytes)| format!("{bytes} {}", refused_words(name))).collect();
    if moved.not_attempted != Bytes::ZERO {
        rest.push(format!("{} not tried", moved.not_attempted));
    }
    if !rest.is_empty() {
        text += &format!("; not moved: {}", rest.join(", "));
    }
    text += stopped_words(moved.stopped_by);
    if !moved.detail.is_empty() {
        text += &format!(": {}", moved.detail);
    }
    text
}

fn refused_words(name: &str) -> &str {
    match name {
        "busy" => "in use at that moment",
        "no-memory" => "no memory left for it",
        "not-there" => "not there any more",
        "not-permitted" => "not permitted",
        "elsewhere" => "found elsewhere afterwards",
        "gone" => "its process gone",
        _ => "refused by the kernel",
    }
}

fn stopped_words(stopped_by: PageMoveEnd) -> &'static str {
    match stopped_by {
        PageMoveEnd::Done => "",
        PageMoveEnd::Limit => "; more than the limit was not asked for",
        PageMoveEnd::Budget => "; stopped, since it took too long",
        PageMoveEnd::Full => "; stopped, since the node filled up",
        PageMoveEnd::Exited => "; stopped, since it ended",
        PageMoveEnd::Stopped => "; stopped with the run",
        PageMoveEnd::Error => "; stopped by the kernel",
    }
}

fn node_words(nodes: &NodeSet) -> String {
    if nodes.len() == 1 { format!("node {nodes}") } else { format!("nodes {nodes}") }
}

/// How a program ended and when, in words: `ended well, 1.033 s after its start`.
pub fn end_words(end: &JobExit) -> String {
    let how = match end.status {
        ExitStatus::Exited(0) => "ended well".to_owned(),
        ExitStatus::Exited(status) => format!("failed with status {status}"),
        ExitStatus::Signaled(signal) => format!("ended by signal {signal}"),
    };
    let how = if end.stopped_by_host { format!("was ended by evenkeel ({how})") } else { how };
    let again = if end.restarts && !end.stopped_by_host { ", and starts again" } else { "" };
    format!("{how}, {} s after its start{again}", seconds(end.wall.0))
}

/// What a program used, in words. What was not measured is not mentioned; of an estimate it is said
/// that it is one.
pub fn usage_words(end: &JobExit) -> String {
    let about = |figure| if matches!(figure, Measured::Scaled { .. }) { "about " } else { "" };
    let mut words = vec![format!(
        "{} s of CPU time ({} user, {} system)",
        seconds(end.user.saturating_add(end.system).0),
        seconds(end.user.0),
        seconds(end.system.0)
    )];
    if let Some(wait) = end.wait.value() {
        let about = about(end.wait);
        words.push(format!("{about}{} s ready but waiting for a CPU", seconds(wait)));
    }
    if let Some(n) = end.n_migrations.value() {
        let about = about(end.n_migrations);
        words.push(format!("{about}{n} {}", if n == 1 { "migration" } else { "migrations" }));
    }
    words.push(format!("{} of memory at most", bytes(end.max_resident.0)));
    if end.n_orphans != 0 {
        words.push(format!("{} processes left behind, ended by evenkeel", end.n_orphans));
    }
    words.join(", ")
}

/// What a job runs, as one line of text.
pub fn command_line(command: &Command) -> String {
    match command {
        Command::Program { program, args } => {
            let program = program.to_string_lossy().into_owned();
            let words: Vec<String> =
                std::iter::once(program).chain(args.iter().cloned()).map(quoted).collect();
            words.join(" ")
        }
        Command::Shell(line) => line.clone(),
        Command::Load(args) => {
            let words: Vec<String> = args.iter().cloned().map(quoted).collect();
            format!("evenkeel load {}", words.join(" "))
        }
    }
}

fn quoted(word: String) -> String {
    let odd = |c: char| c.is_whitespace() || "'\"$`\\*?;&|<>()".contains(c);
    let plain = !word.is_empty() && !word.chars().any(odd);
    if plain { word } else { format!("'{}'", word.replace('\'', r"'\''")) }
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
    fn how_a_move_of_memory_ended_is_a_sentence() {
        let mib = Bytes::from_mib;
        let mut moved = CompletedPageMove {
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
            stopped_by: PageMoveEnd::Done,
            detail: String::new(),
        };
        assert_eq!(
            moved_words(&moved),
            "64.0 MiB of 64.0 MiB of its memory moved from node 0 to node 2 in 0.250 s"
        );
        moved.from = None;
        (moved.moved, moved.not_attempted, moved.failed.busy) = (mib(40), mib(20), mib(4));
        (moved.stopped_by, moved.detail) = (PageMoveEnd::Error, "no: do this".to_owned());
        assert_eq!(
            moved_words(&moved),
            "40.0 MiB of 64.0 MiB of its memory moved to node 2 in 0.250 s; not moved: \
             4.0 MiB in use at that moment, 20.0 MiB not tried; stopped by the kernel: no: do this"
        );
    }
}
