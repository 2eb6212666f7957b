//! Whether memory may be moved, and how much of it.

use base::{Bytes, Nanos, NodeId};
use program::Job;
use sched::{Action, JobState, NodeView, RejectCause};

use super::{Guard, Refused};
use crate::jobs::JobEntry;
use crate::moves::{ActiveMoves, MoveLimits};

/// Nothing smaller is worth a move: a page of the ordinary size on most machines.
const LEAST: Bytes = Bytes::from_kib(4);

/// What the guard knows of memory.
#[derive(Clone, Copy)]
pub(crate) struct MemoryView<'a> {
    pub limits: &'a MoveLimits,
    pub nodes: &'a [NodeView],
    pub now: Nanos,
}

/// From where, where to, at most how much.
type Pages = (Option<NodeId>, NodeId, Bytes);

impl Guard<'_> {
    /// What of a move of memory comes through; `under_way` is told of it.
    pub(super) fn move_pages(
        &self,
        (job, entry): (&Job, &JobEntry),
        (from, to, limit): Pages,
        under_way: &ActiveMoves,
    ) -> Result<Action, Refused> {
        self.check_target(job, from, to)?;
        check_state(job, entry, to)?;
        entry.moves.check_bouncing(to, self.memory.limits)?;
        let known = entry.memory.as_ref().map(|memory| memory.own_to_move(from, to));
        if known.is_some_and(|known| known < LEAST) {
            let whence = from.map_or("elsewhere".to_owned(), |from| format!("on {from}"));
            let detail = format!("nothing of its own memory lies {whence}, as far as is known");
            return Err((RejectCause::Unchanged, detail));
        }
        let limit = self.within_budget((job, entry), (known, limit), under_way)?;
        self.check_room((known, to, limit), under_way)?;
        Ok(Action::MovePages { from, to, limit })
    }

    fn check_target(&self, job: &Job, from: Option<NodeId>, to: NodeId) -> Result<(), Refused> {
        if !self.machine.nodes_with_memory().contains(to) {
            return Err((
                RejectCause::NodesUnusable,
                format!("{to} has no memory that may be used"),
            ));
        }
        if let Some(own) = job.nodes.as_ref().filter(|own| !own.contains(to)) {
            let detail = format!("the workload keeps {} on the nodes {own}", job.name);
            return Err((RejectCause::OutsideAllowed, detail));
        }
        if job.memory.is_some() {
            let detail = format!("the workload says where the memory of {} comes from", job.name);
            return Err((RejectCause::Unmanaged, detail));
        }
        match from == Some(to) {
            true => Err((RejectCause::Unchanged, format!("what lies on {to} lies there already"))),
            false => Ok(()),
        }
    }

    /// The limit that budgets leave.
    fn within_budget(
        &self,
        (job, entry): (&Job, &JobEntry),
        (known, limit): (Option<Bytes>, Bytes),
        under_way: &ActiveMoves,
    ) -> Result<Bytes, Refused> {
        let limits = self.memory.limits;
        let (own, line) = (entry.moves.budget(self.memory.now, limits), under_way.room(limits));
        if own < LEAST {
            let most = limits.per_process_minute;
            let detail = format!("{most} of {} were moved in this minute, which is all", job.name);
            return Err((RejectCause::OverBudget, detail));
        }
        if line < LEAST {
            let detail = format!(
                "moves under way take {} at {} a second already",
                limits.backlog, limits.per_second
            );
            return Err((RejectCause::OverBudget, detail));
        }
        let left = own.min(line);
        let amount = known.unwrap_or(limit).min(limit);
        Ok(if left < amount { left } else { limit })
    }

    /// A target that cannot hold what is to be moved is refused as a whole: a policy that would
    /// rather have a part asks for a part.
    fn check_room(
        &self,
        (known, to, limit): (Option<Bytes>, NodeId, Bytes),
        under_way: &ActiveMoves,
    ) -> Result<(), Refused> {
        let seen = self.memory.nodes.iter().find(|seen| seen.node == to);
        let Some((seen, free)) = seen.and_then(|seen| Some((seen, seen.memory_free?))) else {
            return Ok(()); // Not known here: the host looks before it begins.
        };
        let usable = self.memory.limits.usable(free, seen.memory_reclaimable, seen.memory_total);
        let room = usable.saturating_sub(under_way.to(to));
        // What is not known is not less than a page.
        let wanted = known.unwrap_or(if limit == Action::NO_LIMIT { LEAST } else { limit });
        let wanted = wanted.min(limit);
        if wanted <= room {
            return Ok(());
        }
        let detail = format!("{to} has room for {room}, and {wanted} are to be moved");
        Err((RejectCause::TargetFull, detail))
    }
}

fn check_state(job: &Job, entry: &JobEntry, to: NodeId) -> Result<(), Refused> {
    if entry.state != Some(JobState::Running) {
        let detail = format!("{} starts with this turn and has no memory yet", job.name);
        return Err((RejectCause::Unsupported, detail));
    }
    if let Some(moving) = &entry.moves.moving {
        let detail = format!("a move of its memory to {} is under way, {to} can wait", moving.to);
        return Err((RejectCause::MoveInProgress, detail));
    }
    Ok(())
}
