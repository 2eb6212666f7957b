//! Limits of page moves, and the history of moves of each job.
//!
//! A page move uses bandwidth of both nodes, delays tasks that access the pages, and cannot be undone.
//! Therefore the guard applies four limits in addition to the limit of the request:
//!
//! | limit | applies to | default |
//! |---|---|---|
//! | rate | bytes per second of all moves together; active moves may need at most `backlog` | 1 GiB, 30 s |
//! | budget | bytes per minute of one job | 16 GiB |
//! | return | moves of a job's memory to a node where it was before | 5 per job |
//! | repeat | moves to the same node after an incomplete move | 5 in a row |
//!
//! ```text
//!   node 0 ──1──► node 2 ──2──► node 0 ──3──► node 2      moves 2 and 3 return
//!   node 0 ──1──► node 2 ──2──► node 2                    move 2 repeats
//! ```
//!
//! The repeat limit is DINO's (`BOUNCING_LIMIT` in the released program of Blagodurov, Zhuravlev, Dashti,
//! Fedorova, "A Case for NUMA-aware Contention Management on Multicore Systems", USENIX ATC 2011), which
//! repeats a move at most five times. The return limit uses the same number (guessed). Continuing a
//! move that ended at the limit of its request counts neither as a return nor as a repeat.

use std::collections::VecDeque;

use base::{Bytes, Nanos, NodeId, NodeSet};
use sched::{ActivePageMove, CompletedPageMove, PageMoveEnd, RejectCause};

/// Period of the budget of a job.
const MINUTE: Nanos = Nanos::from_secs(60);

/// Limits of page moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveLimits {
    /// Bytes per second of all moves together. Enforced by the host.
    pub per_second: Bytes,
    /// Maximum time that active moves together may need at `per_second`.
    pub backlog: Nanos,
    /// Bytes per minute of all moves of one job.
    pub per_process_minute: Bytes,
    /// Maximum number of moves of a job's memory to a node where it was before.
    pub n_returns_max: u32,
    /// Maximum number of consecutive repeats of an incomplete move to the same node.
    pub n_repeats_max: u32,
    /// Share of a node's memory that moves leave free, in permille. Guessed: near the high watermark of the
    /// kernel, at which background reclaim stops.
    pub reserve_permille: u16,
}

impl Default for MoveLimits {
    fn default() -> Self {
        MoveLimits {
            per_second: Bytes::from_mib(1024),
            backlog: Nanos::from_secs(30),
            per_process_minute: Bytes::from_mib(16 * 1024),
            n_returns_max: 5,
            n_repeats_max: 5,
            reserve_permille: 20,
        }
    }
}

impl MoveLimits {
    /// Maximum sum of active moves.
    fn max_active(&self) -> Bytes {
        let bytes = u128::from(self.per_second.0) * u128::from(self.backlog.0) / 1_000_000_000;
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// Free and reclaimable memory of a node that moves may use.
    pub fn usable(&self, free: Bytes, reclaimable: Option<Bytes>, total: Option<Bytes>) -> Bytes {
        let total = u128::from(total.unwrap_or_default().0);
        let reserve = total * u128::from(self.reserve_permille) / 1000;
        let reserve = Bytes(u64::try_from(reserve).unwrap_or(u64::MAX));
        free.saturating_add(reclaimable.unwrap_or_default()).saturating_sub(reserve)
    }
}

/// History of the page moves of one job.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobMoves {
    pub active: Option<ActivePageMove>,
    /// Bytes that the active move is expected to move, as known at its start.
    pub amount: Bytes,
    /// The last completed move, and the time of the sample that reported it.
    pub last: Option<(Nanos, CompletedPageMove)>,
    /// Start and amount of the moves of the last minute.
    recent: VecDeque<(Nanos, Bytes)>,
    last_to: Option<NodeId>,
    /// Nodes that held the memory before.
    visited: NodeSet,
    n_returns: u32,
    n_repeats: u32,
}

impl JobMoves {
    /// Records the start of a move. `home` is the home node of the job's memory at that time.
    pub fn start(&mut self, new: ActivePageMove, amount: Bytes, home: Option<NodeId>) {
        self.remove_old(new.since);
        if self.last_to == Some(new.to) {
            self.n_repeats += u32::from(!self.continues_partial());
        } else {
            self.n_returns += u32::from(self.visited.contains(new.to));
            self.n_repeats = 0;
        }
        for node in [new.from.or(home), Some(new.to)].into_iter().flatten() {
            self.visited.insert(node);
        }
        self.last_to = Some(new.to);
        self.recent.push_back((new.since, amount));
        (self.active, self.amount) = (Some(new), amount);
    }

    /// Records the end of a move. Its amount is replaced by the attempted bytes.
    pub fn complete(&mut self, at: Nanos, completed: &CompletedPageMove) {
        if let Some((active, last)) = self.active.take().zip(self.recent.back_mut()) {
            *last = (active.since, completed.requested.saturating_sub(completed.not_attempted));
        }
        self.amount = Bytes::ZERO;
        self.last = Some((at, completed.clone()));
    }

    /// Whether the last move ended at the limit of its request.
    fn continues_partial(&self) -> bool {
        self.last.as_ref().is_some_and(|(_, last)| last.stopped_by == PageMoveEnd::Limit)
    }

    /// Checks the limits of returns and repeats for a move to `to`.
    pub fn check_repeats(
        &self,
        to: NodeId,
        limits: &MoveLimits,
    ) -> Result<(), (RejectCause, String)> {
        let is_repeat = self.last_to == Some(to);
        let detail = if is_repeat
            && !self.continues_partial()
            && limits.n_repeats_max <= self.n_repeats
        {
            format!("its memory was moved to {to} {} times in a row", self.n_repeats + 1)
        } else if !is_repeat && self.visited.contains(to) && limits.n_returns_max <= self.n_returns
        {
            format!("its memory returned to a previous node {} times", self.n_returns)
        } else {
            return Ok(());
        };
        Err((RejectCause::PingPong, detail))
    }

    /// Remaining budget of the current minute.
    pub fn budget(&self, now: Nanos, limits: &MoveLimits) -> Bytes {
        let recent = self.recent.iter().filter(|(at, _)| now < at.saturating_add(MINUTE));
        let used = recent.fold(Bytes::ZERO, |sum, (_, bytes)| sum.saturating_add(*bytes));
        limits.per_process_minute.saturating_sub(used)
    }

    fn remove_old(&mut self, now: Nanos) {
        while self.recent.front().is_some_and(|(at, _)| at.saturating_add(MINUTE) <= now) {
            self.recent.pop_front();
        }
    }
}

/// Bytes of the active moves of all jobs, and of moves approved in this turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct ActiveMoves {
    all: Bytes,
    by_target: Vec<(NodeId, Bytes)>,
}

impl ActiveMoves {
    pub fn add(&mut self, to: NodeId, amount: Bytes) {
        self.all = self.all.saturating_add(amount);
        match self.by_target.iter_mut().find(|(node, _)| *node == to) {
            Some((_, sum)) => *sum = sum.saturating_add(amount),
            None => self.by_target.push((to, amount)),
        }
    }

    /// Bytes of moves to a node.
    pub fn bytes_to(&self, node: NodeId) -> Bytes {
        let found = self.by_target.iter().find(|(target, _)| *target == node);
        found.map_or(Bytes::ZERO, |(_, sum)| *sum)
    }

    /// Bytes that may be added within the backlog. Unlimited if no move is active: a large move would
    /// otherwise never start.
    pub fn remaining_backlog(&self, limits: &MoveLimits) -> Bytes {
        if self.all == Bytes::ZERO {
            return Bytes(u64::MAX);
        }
        limits.max_active().saturating_sub(self.all)
    }
}
