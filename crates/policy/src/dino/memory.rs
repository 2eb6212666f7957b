//! Memory follows a thread that comes to another node, and devils' memory is called again.
//!
//! ```text
//!   placed on another node     move all of its own memory from the old node to the new one
//!   later, a devil             another node holds more than 10 % of what this one holds:
//!                              once more from there, five times at the most
//! ```
//!
//! Devils alone, since who hardly misses hardly notices where its memory is [confirmed: Clavis]. A try waits for
//! a look at the memory that is newer than the last move: figures of before would call for what has come.

use base::{Nanos, NodeId};
use sched::{Action, JobState, JobView, Plan, Reason, ReasonCode, Snapshot};

use super::Dino;
use super::classes::Class;
use super::params::Memory;
use crate::intensity::memory::{self, PAGE, Way};

/// Tries after a move [confirmed: Clavis, `BOUNCING_LIMIT`].
const N_AGAIN: u64 = 5;
/// What another node may hold of what this one holds, in percent [confirmed: Clavis].
const ELSEWHERE_PERCENT: u128 = 10;

/// A job that came to another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moved {
    to: NodeId,
    n_again: u64,
    asked_at: Nanos,
}

impl Dino {
    /// A job is placed on these CPUs: its memory goes along if they are on another node.
    pub(super) fn take_along(
        &mut self,
        seen: &Snapshot<'_>,
        job: &JobView<'_>,
        cpus: &base::CpuSet,
        plan: &mut Plan,
    ) {
        if self.config.memory == Memory::None {
            return;
        }
        let Some(way) = memory::way(seen, job, cpus) else { return };
        let asked_at = seen.turn.at;
        *self.moved.of(job.job.id) = Some(Moved { to: way.to, n_again: 0, asked_at });
        if let Some(action) = memory::pages(seen, job, way) {
            plan.request(job.job.id, action, memory::reason(way, job));
        }
    }

    /// Calls again for what the last move left behind.
    pub(super) fn call_again(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        if self.config.memory == Memory::None {
            return;
        }
        for job in seen.jobs.iter().filter(|job| job.state == JobState::Running && job.movable) {
            let Some(moved) = self.moved.get(job.job.id).copied().flatten() else { continue };
            let is_asked = plan.requests.iter().any(|ask| ask.target == job.job.id.into());
            if is_asked || N_AGAIN <= moved.n_again || self.class(job) == Class::Turtle {
                continue;
            }
            if let Some((action, reason)) = rest(seen, job, moved) {
                plan.request(job.job.id, action, reason);
                let asked_at = seen.turn.at;
                let n_again = moved.n_again + 1;
                *self.moved.of(job.job.id) = Some(Moved { n_again, asked_at, ..moved });
            }
        }
    }
}

/// The move of what is still on another node, if that is too much.
fn rest(seen: &Snapshot<'_>, job: &JobView<'_>, moved: Moved) -> Option<(Action, Reason)> {
    let is_there = job.placed.and_then(|cpus| memory::node_of(seen, cpus)) == Some(moved.to);
    let known = job.memory.filter(|_| is_there && job.active_page_move.is_none())?;
    let told_at = job.last_page_move.map_or(Nanos::ZERO, |(at, _)| at);
    if known.at <= moved.asked_at || known.at < told_at {
        return None;
    }
    let others = known.nodes.iter().filter(|node| node.node != moved.to);
    let most = others.max_by_key(|node| (node.own(), std::cmp::Reverse(node.node)))?;
    let (there, here) = (most.own(), known.on(moved.to).own());
    let is_much = u128::from(here.0) * ELSEWHERE_PERCENT < u128::from(there.0) * 100;
    if !is_much || there < PAGE {
        return None;
    }
    let action = memory::pages(seen, job, Way { from: Some(most.node), to: moved.to })?;
    let reason = Reason::new(ReasonCode::MemoryCalledAgain)
        .with("from", format!("node {}", most.node.0))
        .with("to", format!("node {}", moved.to.0))
        .with("there", there.to_string())
        .with("here", here.to_string())
        .with("percent", ELSEWHERE_PERCENT as u64)
        .with("n_again", moved.n_again + 1)
        .with("n_max", N_AGAIN);
    Some((action, reason))
}
