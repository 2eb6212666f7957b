//! Which processes' memory is looked at: that which stays where it is, ever more seldom.
//!
//! ```text
//!   looked at ── other than before? ─► again after 2 s
//!                      │ no
//!                      ▼
//!             after 4, 8, 16 s … and at least every 30 s
//! ```
//!
//! A look costs what a process has pages, whether anything of it changed or not, and most programs have
//! their memory where it is for as long as they run. Who is placed or whose memory moves is looked at
//! anew. Other is what differs by a sixteenth of it all: sampled figures are no closer.

use std::collections::BTreeMap;

use base::{JobId, Nanos, NodeId, TaskId};
use linux::numa_maps::{ByNode, Lies};

use super::Whose;

/// How soon memory that was another is looked at again, where the share of CPU time that looks may take
/// allows that.
pub(super) const LOOK_EVERY: Nanos = Nanos::from_secs(2);
/// However long it stays where it is.
const LOOK_EVERY_MAX: Nanos = Nanos::from_secs(30);
/// The part of a process's memory that makes it another.
const OTHER: u64 = 16;

/// When each process is looked at next.
#[derive(Debug, Default)]
pub(super) struct Looks(BTreeMap<TaskId, Rest>);

#[derive(Debug)]
struct Rest {
    job: JobId,
    /// What it had where when that was last another.
    had: BTreeMap<NodeId, u64>,
    every: Nanos,
    look_at: Nanos,
}

impl Looks {
    /// Those whose turn it is. Who is not among `whose` is forgotten.
    pub(super) fn due(&mut self, whose: Vec<Whose>, at: Nanos) -> Vec<Whose> {
        let mut known = std::mem::take(&mut self.0);
        let mut due = Vec::new();
        for (job, process) in whose {
            match known.remove(&process).filter(|rest| rest.job == job) {
                Some(rest) if at < rest.look_at => {
                    self.0.insert(process, rest);
                }
                rest => {
                    self.0.extend(rest.map(|rest| (process, rest)));
                    due.push((job, process));
                }
            }
        }
        due
    }

    /// What a look found.
    pub(super) fn found(&mut self, (job, process): Whose, nodes: &ByNode, at: Nanos) {
        let has: BTreeMap<NodeId, u64> =
            nodes.iter().map(|(&node, lies)| (node, whole(lies))).collect();
        let quiet = self.0.remove(&process).filter(|rest| !is_other(&rest.had, &has));
        let rest = match quiet {
            Some(Rest { had, every, .. }) => {
                let every = Nanos(every.0.saturating_mul(2)).min(LOOK_EVERY_MAX);
                Rest { job, had, every, look_at: at + every }
            }
            None => Rest { job, had: has, every: LOOK_EVERY, look_at: at + LOOK_EVERY },
        };
        self.0.insert(process, rest);
    }

    /// A job was placed, or its memory moves: where that lies is soon another.
    pub(super) fn anew(&mut self, job: JobId) {
        self.0.retain(|_, rest| rest.job != job);
    }
}

fn whole(lies: &Lies) -> u64 {
    [lies.small, lies.huge, lies.file, lies.shared].into_iter().fold(0, u64::saturating_add)
}

fn is_other(had: &BTreeMap<NodeId, u64>, has: &BTreeMap<NodeId, u64>) -> bool {
    let on = |all: &BTreeMap<NodeId, u64>, node: &NodeId| all.get(node).copied().unwrap_or(0);
    let nodes = had.keys().chain(has.keys().filter(|node| !had.contains_key(node)));
    let differs =
        nodes.fold(0u64, |sum, node| sum.saturating_add(on(had, node).abs_diff(on(has, node))));
    let all = has.values().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
    all / OTHER < differs
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOSE: Whose = (JobId(1), TaskId { tid: 7, born_ticks: 70 });

    fn mib(node_0: u64, node_1: u64) -> ByNode {
        let lies = |mib: u64| Lies { small: mib << 20, ..Lies::default() };
        [(NodeId(0), lies(node_0)), (NodeId(1), lies(node_1))].into()
    }

    /// Looks every second at memory that `at` tells; the seconds in which it was.
    fn seconds(n: u64, lies: impl Fn(u64) -> ByNode) -> Vec<u64> {
        let mut looks = Looks::default();
        (0..n)
            .filter(|&second| {
                let at = Nanos::from_secs(second);
                let due = looks.due(vec![WHOSE], at);
                due.iter().for_each(|&whose| looks.found(whose, &lies(second), at));
                !due.is_empty()
            })
            .collect()
    }

    #[test]
    fn memory_that_stays_is_looked_at_ever_more_seldom_but_at_least_every_30_s() {
        assert_eq!(seconds(130, |_| mib(64, 64)), [0, 2, 6, 14, 30, 60, 90, 120]);
    }

    #[test]
    fn memory_that_is_another_is_looked_at_soon_again() {
        let grown = |second| mib(64 + if second < 14 { 0 } else { 64 }, 64);
        assert_eq!(seconds(25, grown), [0, 2, 6, 14, 16, 20]);
        let creeps = |second| mib(64 + second, 64);
        assert!(seconds(130, creeps).windows(2).all(|two| two[1] - two[0] <= 16));
    }

    #[test]
    fn who_is_placed_is_looked_at_at_once_and_who_is_gone_is_forgotten() {
        let mut looks = Looks::default();
        let at = Nanos::from_secs(10);
        looks.found(WHOSE, &mib(1, 0), at);
        assert!(looks.due(vec![WHOSE], at).is_empty());
        looks.anew(JobId(2));
        assert!(looks.due(vec![WHOSE], at).is_empty());
        looks.anew(JobId(1));
        assert_eq!(looks.due(vec![WHOSE], at), [WHOSE]);
        looks.found(WHOSE, &mib(1, 0), at);
        assert!(looks.due(vec![], at).is_empty() && looks.0.is_empty());
    }
}
