//! Moves of memory: what one job's came to, and how much more of them may be.
//!
//! Moving memory costs both nodes bandwidth and holds up whoever touches the pages, and none of it can
//! be taken back. So the guard knows four limits beside those of every wish:
//!
//! | limit | counted | default |
//! |---|---|---|
//! | pace | bytes a second of all moves together; as many seconds of it as `backlog` may wait in line | 1 GiB, 30 s |
//! | per process | bytes a minute of one job's moves (its processes share it) | 16 GiB |
//! | to and fro | moves of a job's memory back to a node where it was before | 5 in its life |
//! | again | moves to the same node again because the last did not take all along | 5 in a row |
//!
//! ```text
//!   node 0 ──1──► node 2 ──2──► node 0 ──3──► node 2      moves 2 and 3 are to and fro
//!   node 0 ──1──► node 2 ──2──► node 2                    move 2 is "again"
//! ```
//!
//! Both fives are DINO's (`BOUNCING_LIMIT`, Blagodurov et al., USENIX ATC 2011, as released): it tries
//! a move again five times at most. That memory is carried to and fro five times at most is our own
//! reading of the same wish. A move that ended at its limit was meant to be a part, so going on
//! with it is neither.

use std::collections::VecDeque;

use base::{Bytes, Nanos, NodeId, NodeSet};
use sched::{ActivePageMove, CompletedPageMove, PageMoveEnd, RejectCause};

/// How long the budget of one job stands for.
const MINUTE: Nanos = Nanos::from_secs(60);

/// How much memory may be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveLimits {
    /// The pace of all moves together, bytes a second: the host keeps it.
    pub per_second: Bytes,
    /// No move is begun that would have to wait longer than this for the pace.
    pub backlog: Nanos,
    /// What moves of one job may come to, bytes a minute.
    pub per_process_minute: Bytes,
    /// How often in its life a job's memory may be moved back to a node where it was before.
    pub n_bounces: u32,
    /// How often in a row a move to the same node may be tried again.
    pub n_again: u32,
    /// The part of a node's memory that moves leave free, in thousandths: about where the kernel
    /// begins to reclaim in the background (its high watermark; guessed, not swept).
    pub reserve_permille: u16,
}

impl Default for MoveLimits {
    fn default() -> Self {
        MoveLimits {
            per_second: Bytes::from_mib(1024),
            backlog: Nanos::from_secs(30),
            per_process_minute: Bytes::from_mib(16 * 1024),
            n_bounces: 5,
            n_again: 5,
            reserve_permille: 20,
        }
    }
}

impl MoveLimits {
    /// What may wait in line.
    fn in_line(&self) -> Bytes {
        let most = u128::from(self.per_second.0) * u128::from(self.backlog.0) / 1_000_000_000;
        Bytes(u64::try_from(most).unwrap_or(u64::MAX))
    }

    /// What of a node's free memory moves may fill.
    pub fn usable(&self, free: Bytes, reclaimable: Option<Bytes>, total: Option<Bytes>) -> Bytes {
        let total = u128::from(total.unwrap_or_default().0);
        let reserve = total * u128::from(self.reserve_permille) / 1000;
        let reserve = Bytes(u64::try_from(reserve).unwrap_or(u64::MAX));
        free.saturating_add(reclaimable.unwrap_or_default()).saturating_sub(reserve)
    }
}

/// The moves of one job.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobMoves {
    /// The one that is under way.
    pub moving: Option<ActivePageMove>,
    /// How much that one is to carry, as far as it was known when it was begun.
    pub amount: Bytes,
    /// The last that ended, and when that was told.
    pub moved: Option<(Nanos, CompletedPageMove)>,
    /// When moves were begun in the last minute, and what each carried.
    carried: VecDeque<(Nanos, Bytes)>,
    last_to: Option<NodeId>,
    /// Where its memory was before.
    been: NodeSet,
    n_bounces: u32,
    n_again: u32,
}

impl JobMoves {
    /// A move was begun; `home` is where most of the memory lay then.
    pub fn begun(&mut self, moving: ActivePageMove, amount: Bytes, home: Option<NodeId>) {
        if self.last_to == Some(moving.to) {
            self.n_again += u32::from(!self.goes_on());
        } else {
            self.n_bounces += u32::from(self.been.contains(moving.to));
            self.n_again = 0;
        }
        for node in [moving.from.or(home), Some(moving.to)].into_iter().flatten() {
            self.been.insert(node);
        }
        self.last_to = Some(moving.to);
        self.carried.push_back((moving.since, amount));
        (self.moving, self.amount) = (Some(moving), amount);
    }

    /// It ended. What it really tried to carry is what counts.
    pub fn ended(&mut self, at: Nanos, moved: &CompletedPageMove) {
        if let Some((moving, last)) = self.moving.take().zip(self.carried.back_mut()) {
            *last = (moving.since, moved.requested.saturating_sub(moved.not_attempted));
        }
        self.amount = Bytes::ZERO;
        self.moved = Some((at, moved.clone()));
    }

    /// Whether the last move was meant to be a part.
    fn goes_on(&self) -> bool {
        self.moved.as_ref().is_some_and(|(_, moved)| moved.stopped_by == PageMoveEnd::Limit)
    }

    /// Refuses one that goes to and fro too often, or to the same node again too often.
    pub fn check_bouncing(
        &self,
        to: NodeId,
        limits: &MoveLimits,
    ) -> Result<(), (RejectCause, String)> {
        let is_again = self.last_to == Some(to);
        if is_again && !self.goes_on() && limits.n_again <= self.n_again {
            let detail =
                format!("its memory was moved to {to} {} times in a row", self.n_again + 1);
            return Err((RejectCause::PingPong, detail));
        }
        if !is_again && self.been.contains(to) && limits.n_bounces <= self.n_bounces {
            let detail = format!(
                "its memory came back to a node where it was before {} times already",
                self.n_bounces
            );
            return Err((RejectCause::PingPong, detail));
        }
        Ok(())
    }

    /// What is left of its minute.
    pub fn budget(&self, now: Nanos, limits: &MoveLimits) -> Bytes {
        let lately = self.carried.iter().filter(|(at, _)| now < at.saturating_add(MINUTE));
        let spent = lately.fold(Bytes::ZERO, |sum, (_, bytes)| sum.saturating_add(*bytes));
        limits.per_process_minute.saturating_sub(spent)
    }

    /// Forgets what is older than a minute.
    pub fn forget_old(&mut self, now: Nanos) {
        while self.carried.front().is_some_and(|(at, _)| at.saturating_add(MINUTE) <= now) {
            self.carried.pop_front();
        }
    }
}

/// What is under way already, of all jobs and of this turn's wishes.
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

    /// What is on its way to a node.
    pub fn to(&self, node: NodeId) -> Bytes {
        let found = self.by_target.iter().find(|(known, _)| *known == node);
        found.map_or(Bytes::ZERO, |(_, sum)| *sum)
    }

    /// What may still get in line. A move that finds the line empty may always, however long it
    /// takes: it would never be shorter.
    pub fn room(&self, limits: &MoveLimits) -> Bytes {
        if self.all == Bytes::ZERO {
            return Bytes(u64::MAX);
        }
        limits.in_line().saturating_sub(self.all)
    }
}
