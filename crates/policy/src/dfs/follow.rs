//! Memory goes after the program that was moved (`memory=follow`).
//!
//! ```text
//!   at the move, and every `cooldown` polls after it while the job is where it was moved to:
//!     too little of its memory there already?      less than 90 %
//!     room enough?                                 free on the node > 1.2 × its memory
//!     then ask for the rest of it
//! ```
//!
//! Both limits are those of spec 1.10. How often a move is tried again in vain, how much may be moved in a
//! second and how often memory may go to and fro is the guard's to say, whoever asks.
//!
//! Only where places are nodes. A job of which it is not known yet where its memory lies is asked about
//! again at the next poll: it is looked at every few seconds only. As long as memory is on its way no
//! further job is moved for the sake of loads, which are still charged to where that memory was.

use base::{Bytes, NodeId};
use sched::{Action, JobMemory, JobState, JobView, Plan, Reason, ReasonCode, Snapshot};
use topology::Level;

use super::Dfs;
use super::config::Memory;

/// Where a job's memory is to go after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct After {
    /// Where the job was moved to.
    to: NodeId,
    /// The poll at which a move of its memory was last asked for.
    asked_at: Option<u64>,
}

/// A job's memory is where it belongs when at least so much of it is there.
const THERE_PERMILLE: u64 = 900;
/// So much of what a job holds must be free where it goes.
const FREE_PERMILLE: u128 = 1200;

impl Dfs {
    /// A job was moved to a domain: its memory is to follow.
    pub(super) fn follow(&mut self, seen: &Snapshot<'_>, job: &JobView<'_>, idx: usize) {
        if self.config.memory == Memory::Follow && seen.domains.level() == Level::Node {
            let to = NodeId(seen.domains.get(idx).number);
            *self.following.of(job.job.id) = Some(After { to, asked_at: None });
        }
    }

    /// Asks for the memory of every job that was moved and has too little of it where it is.
    pub(super) fn move_memory(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        if self.config.memory == Memory::Stay || seen.domains.level() != Level::Node {
            return;
        }
        for job in seen.jobs.iter().filter(|job| job.state == JobState::Running) {
            let Some(after) = self.following.get(job.job.id).copied().flatten() else { continue };
            if self.is_due(seen, job, after)
                && let Some(wish) = wish(seen, job, after.to)
            {
                plan.request(job.job.id, wish.action(), wish.reason());
                let asked_at = Some(self.n_polls);
                *self.following.of(job.job.id) = Some(After { asked_at, ..after });
            }
        }
    }

    /// Whether memory that goes after a job is on its way, or was not asked for yet. Until it is there
    /// the loads are those of where it was, and another move would mend what is mended already.
    pub(super) fn memory_is_coming(&self, seen: &Snapshot<'_>) -> bool {
        let mut running = seen.jobs.iter().filter(|job| job.state == JobState::Running);
        running.any(|job| {
            let followed = self.following.get(job.job.id).copied().flatten();
            followed.is_some_and(|after| {
                job.active_page_move.is_some() || self.is_yet_to_ask(seen, job, after)
            })
        })
    }

    /// Whether a job's memory is wanted where the job was moved to, and was not asked for yet. Who is not
    /// ours to move any more is never asked for.
    fn is_yet_to_ask(&self, seen: &Snapshot<'_>, job: &JobView<'_>, after: After) -> bool {
        job.movable
            && after.asked_at.is_none()
            && self.is_there(seen, job, after)
            && wish(seen, job, after.to).is_some()
    }

    /// Whether a job is where its memory is to follow it. It may have been given back since, or was
    /// never let go.
    fn is_there(&self, seen: &Snapshot<'_>, job: &JobView<'_>, after: After) -> bool {
        let goes_now = self.moved_at.get(job.job.id).copied().flatten() == Some(self.n_polls);
        let is_to = |idx: usize| seen.domains.get(idx).number == after.to.0;
        goes_now || job.placed.is_some() && job.domain.is_some_and(is_to)
    }

    fn is_due(&self, seen: &Snapshot<'_>, job: &JobView<'_>, after: After) -> bool {
        let rests = after.asked_at.is_some_and(|poll| self.n_polls - poll < self.config.cooldown);
        job.movable && job.active_page_move.is_none() && !rests && self.is_there(seen, job, after)
    }
}

/// A move that is worth asking for.
struct Wish {
    to: NodeId,
    there_permille: u64,
    size: Bytes,
    rest: Bytes,
    free: Bytes,
}

/// What is to be asked for a job that belongs on a node; `None` when it has its memory there, when there
/// is no room, and as long as neither is known.
fn wish(seen: &Snapshot<'_>, job: &JobView<'_>, to: NodeId) -> Option<Wish> {
    let memory = job.memory?;
    let node = seen.nodes.iter().find(|node| node.node == to)?;
    let free = node.memory_free?;
    let (size, rest) = (memory.total(), memory.own_to_move(None, to));
    let there_permille = permille_on(memory, to);
    let has_room = u128::from(size.0) * FREE_PERMILLE < u128::from(free.0) * 1000;
    let is_wanted = there_permille < THERE_PERMILLE && rest != Bytes::ZERO;
    (is_wanted && has_room).then_some(Wish { to, there_permille, size, rest, free })
}

/// How much of a job's memory lies on a node, in thousandths; all of it when it has none.
pub(super) fn permille_on(memory: &JobMemory, node: NodeId) -> u64 {
    let total = u128::from(memory.total().0);
    let there = u128::from(memory.on(node).total().0) * 1000;
    there.checked_div(total).map_or(1000, |share| u64::try_from(share).unwrap_or(1000))
}

impl Wish {
    fn action(&self) -> Action {
        Action::MovePages { from: None, to: self.to, limit: Action::NO_LIMIT }
    }

    fn reason(&self) -> Reason {
        let percent = format!("{}.{}", self.there_permille / 10, self.there_permille % 10);
        Reason::new(ReasonCode::MemoryFollows)
            .with("to", format!("node {}", self.to.0))
            .with("there", percent)
            .with("size", self.size.to_string())
            .with("rest", self.rest.to_string())
            .with("free", self.free.to_string())
    }
}
