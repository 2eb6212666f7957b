//! Limits of page migrations, and the history of page migrations of each job.
//!
//! A page migration uses bandwidth of both nodes, delays tasks that access the pages, and cannot be undone.
//! Therefore the guard applies four limits in addition to the limit of the request:
//!
//! | limit | applies to | default |
//! |---|---|---|
//! | rate | bytes per second of all migrations together; active migrations may need at most `backlog` | 1 GiB, 30 s |
//! | budget | bytes per minute of one job | 16 GiB |
//! | return | migrations of a job's memory back to a previous node | 5 per job |
//! | repeat | repeated migrations to the same node after an incomplete migration | 5 consecutive |
//!
//! ```text
//!   node 0 ──1──► node 2 ──2──► node 0 ──3──► node 2      2 and 3 are returns
//!   node 0 ──1──► node 2 ──2──► node 2                    2 is a repeat
//! ```
//!
//! The repeat limit is from DINO. The released program (Blagodurov, Zhuravlev, Dashti, Fedorova, "A Case for
//! NUMA-aware Contention Management on Multicore Systems", USENIX ATC 2011) repeats a migration at most five times
//! (`BOUNCING_LIMIT`). The return limit has the same value (guessed). If a migration ends at the limit of its
//! request, the migration that continues it is neither a return nor a repeat.

use std::collections::VecDeque;

use base::{Bytes, Nanos, NodeId, NodeSet};
use sched::{ActivePageMigration, CompletedPageMigration, PageMigrationEnd, RejectCause};

/// Period of the budget of a job.
const MINUTE: Nanos = Nanos::from_secs(60);

/// Limits of page migrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageMigrationLimits {
    /// Bytes per second of all migrations together. The host enforces this limit.
    pub per_second: Bytes,
    /// Maximum time that active migrations together may need at `per_second`.
    pub backlog: Nanos,
    /// Bytes per minute of all migrations of one job.
    pub per_job_minute: Bytes,
    /// Maximum number of migrations of a job's memory back to a previous node.
    pub n_returns_max: u32,
    /// Maximum number of consecutive repeats of an incomplete migration to the same node.
    pub n_repeats_max: u32,
    /// Share of a node's memory that migrations leave free, in permille. Guessed: near the high watermark of the
    /// kernel, at which background reclaim stops.
    pub reserve_permille: u16,
}

impl Default for PageMigrationLimits {
    fn default() -> Self {
        PageMigrationLimits {
            per_second: Bytes::from_mib(1024),
            backlog: Nanos::from_secs(30),
            per_job_minute: Bytes::from_mib(16 * 1024),
            n_returns_max: 5,
            n_repeats_max: 5,
            reserve_permille: 20,
        }
    }
}

impl PageMigrationLimits {
    /// Returns the maximum number of bytes of all active migrations.
    fn max_active(&self) -> Bytes {
        let bytes = u128::from(self.per_second.0) * u128::from(self.backlog.0) / 1_000_000_000;
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// Returns the free and reclaimable memory of a node that migrations may use.
    pub fn usable(&self, free: Bytes, reclaimable: Option<Bytes>, total: Option<Bytes>) -> Bytes {
        let total = u128::from(total.unwrap_or_default().0);
        let reserve = total * u128::from(self.reserve_permille) / 1000;
        let reserve = Bytes(u64::try_from(reserve).unwrap_or(u64::MAX));
        free.saturating_add(reclaimable.unwrap_or_default()).saturating_sub(reserve)
    }
}

/// History of the page migrations of one job.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageMigrationHistory {
    pub active: Option<ActivePageMigration>,
    /// Bytes that the active migration is expected to move, computed at its start.
    pub amount: Bytes,
    /// The last completed migration, and the time of the sample that reported it.
    pub last: Option<(Nanos, CompletedPageMigration)>,
    /// Start time and bytes of each migration of the last minute.
    recent: VecDeque<(Nanos, Bytes)>,
    last_to: Option<NodeId>,
    /// Previous nodes of the memory.
    visited: NodeSet,
    n_returns: u32,
    n_repeats: u32,
}

impl PageMigrationHistory {
    /// Records the start of a migration. `home` is the home node of the job's memory at that time.
    pub fn start(&mut self, new: ActivePageMigration, amount: Bytes, home: Option<NodeId>) {
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

    /// Records the end of a migration. In the budget, the attempted bytes replace the expected bytes.
    pub fn complete(&mut self, at: Nanos, completed: &CompletedPageMigration) {
        if let Some((active, last)) = self.active.take().zip(self.recent.back_mut()) {
            *last = (active.since, completed.requested.saturating_sub(completed.not_attempted));
        }
        self.amount = Bytes::ZERO;
        self.last = Some((at, completed.clone()));
    }

    /// Returns whether the last migration ended at the limit of its request.
    fn continues_partial(&self) -> bool {
        self.last.as_ref().is_some_and(|(_, last)| last.stopped_by == PageMigrationEnd::Limit)
    }

    /// Checks the limits of returns and repeats for a migration to `to`.
    pub fn check_repeats(
        &self,
        to: NodeId,
        limits: &PageMigrationLimits,
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

    /// Returns the budget minus the bytes of the migrations that started in the last minute.
    pub fn budget(&self, now: Nanos, limits: &PageMigrationLimits) -> Bytes {
        let recent = self.recent.iter().filter(|(at, _)| now < at.saturating_add(MINUTE));
        let used = recent.fold(Bytes::ZERO, |sum, (_, bytes)| sum.saturating_add(*bytes));
        limits.per_job_minute.saturating_sub(used)
    }

    fn remove_old(&mut self, now: Nanos) {
        while self.recent.front().is_some_and(|(at, _)| at.saturating_add(MINUTE) <= now) {
            self.recent.pop_front();
        }
    }
}

/// Bytes of the active migrations of all jobs and of the migrations approved in this turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct ActivePageMigrations {
    all: Bytes,
    by_target: Vec<(NodeId, Bytes)>,
}

impl ActivePageMigrations {
    pub fn add(&mut self, to: NodeId, amount: Bytes) {
        self.all = self.all.saturating_add(amount);
        match self.by_target.iter_mut().find(|(node, _)| *node == to) {
            Some((_, sum)) => *sum = sum.saturating_add(amount),
            None => self.by_target.push((to, amount)),
        }
    }

    /// Returns the bytes of migrations to a node.
    pub fn bytes_to(&self, node: NodeId) -> Bytes {
        let found = self.by_target.iter().find(|(target, _)| *target == node);
        found.map_or(Bytes::ZERO, |(_, sum)| *sum)
    }

    /// Returns the bytes that may be added within the backlog. Without active migrations, the result is unlimited:
    /// otherwise a large migration would never start.
    pub fn remaining_backlog(&self, limits: &PageMigrationLimits) -> Bytes {
        if self.all == Bytes::ZERO {
            return Bytes(u64::MAX);
        }
        limits.max_active().saturating_sub(self.all)
    }
}
