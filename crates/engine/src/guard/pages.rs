//! Checks of page migrations: nodes, state, budgets, free memory.

use base::{Bytes, Nanos, NodeId};
use program::Job;
use sched::{Action, CauseAndDetail, JobState, NodeView, RejectCause};

use super::{Guard, memory_is_declared, unchanged};
use crate::jobs::JobEntry;
use crate::page_migrations::{ActivePageMigrations, PageMigrationLimits};

/// Minimum size of a migration: the base page size of most machines.
const BYTES_MIN: Bytes = Bytes::from_kib(4);

/// State of memory against which page migrations are checked.
#[derive(Clone, Copy)]
pub(crate) struct MemoryView<'a> {
    pub limits: &'a PageMigrationLimits,
    pub nodes: &'a [NodeView],
    pub now: Nanos,
}

impl Guard<'_> {
    /// Returns the approved page migration, with a limit within the budgets. `active` contains the active migrations
    /// and the migrations approved in this turn.
    pub(super) fn move_pages(
        &self,
        (job, entry): (&Job, &JobEntry),
        (from, to, limit): (Option<NodeId>, NodeId, Bytes),
        active: &ActivePageMigrations,
    ) -> Result<Action, CauseAndDetail> {
        self.check_target(job, from, to)?;
        if entry.state != Some(JobState::Running) {
            let detail = format!("{} starts with this turn and has no memory yet", job.name);
            return Err((RejectCause::Unsupported, detail));
        }
        if let Some(active) = &entry.page_migrations.active {
            let detail = format!("a page migration of {} to {} is active", job.name, active.to);
            return Err((RejectCause::MigrationInProgress, detail));
        }
        entry.page_migrations.check_repeats(to, self.memory.limits)?;
        let known = entry.memory.as_ref().map(|memory| memory.private_bytes_to_move(from, to));
        if known.is_some_and(|known| known < BYTES_MIN) {
            let from = from.map_or("on other nodes".to_owned(), |from| format!("on {from}"));
            let detail =
                format!("{} has no private memory {from}, as far as it was sampled", job.name);
            return Err(unchanged(detail));
        }
        let limit = self.within_budget((job, entry), (known, limit), active)?;
        self.check_free_memory((known, to, limit), active)?;
        Ok(Action::MovePages { from, to, limit })
    }

    fn check_target(
        &self,
        job: &Job,
        from: Option<NodeId>,
        to: NodeId,
    ) -> Result<(), CauseAndDetail> {
        if !self.machine.nodes_with_memory().contains(to) {
            return Err((RejectCause::NodesUnusable, format!("{to} has no usable memory")));
        }
        if let Some(own) = job.nodes.as_ref().filter(|own| !own.contains(to)) {
            let detail = format!("the workload restricts {} to the nodes {own}", job.name);
            return Err((RejectCause::OutsideAllowed, detail));
        }
        if job.memory.is_some() {
            return Err(memory_is_declared(job));
        }
        match from == Some(to) {
            true => Err(unchanged(format!("source and target are both {to}"))),
            false => Ok(()),
        }
    }

    /// Returns the limit of the request, reduced to the remaining budgets.
    fn within_budget(
        &self,
        (job, entry): (&Job, &JobEntry),
        (known, limit): (Option<Bytes>, Bytes),
        active: &ActivePageMigrations,
    ) -> Result<Bytes, CauseAndDetail> {
        let limits = self.memory.limits;
        let of_job = entry.page_migrations.budget(self.memory.now, limits);
        let of_all = active.remaining_backlog(limits);
        if of_job < BYTES_MIN {
            let PageMigrationLimits { per_job_minute: max, .. } = limits;
            let detail = format!("{} has used its budget of {max} per minute", job.name);
            return Err((RejectCause::OverBudget, detail));
        }
        if of_all < BYTES_MIN {
            let PageMigrationLimits { backlog, per_second, .. } = limits;
            let detail =
                format!("active page migrations need {backlog} at {per_second} per second");
            return Err((RejectCause::OverBudget, detail));
        }
        let budget = of_job.min(of_all);
        let amount = known.unwrap_or(limit).min(limit);
        Ok(if budget < amount { budget } else { limit })
    }

    /// Rejects a request if the target node has too little free memory. The request is not narrowed, because a policy
    /// can request a part of the memory instead.
    fn check_free_memory(
        &self,
        (known, to, limit): (Option<Bytes>, NodeId, Bytes),
        active: &ActivePageMigrations,
    ) -> Result<(), CauseAndDetail> {
        let node = self.memory.nodes.iter().find(|node| node.node == to);
        let Some((node, free)) = node.and_then(|node| Some((node, node.memory_free?))) else {
            return Ok(()); // The free memory is unknown; the host checks it before the migration.
        };
        let usable = self.memory.limits.usable(free, node.memory_reclaimable, node.memory_total);
        let available = usable.saturating_sub(active.bytes_to(to));
        // If the amount is unknown, it is at least one page.
        let needed = known.unwrap_or(if limit == Action::NO_LIMIT { BYTES_MIN } else { limit });
        let needed = needed.min(limit);
        if needed <= available {
            return Ok(());
        }
        let detail = format!("{to} has {available} available, the page migration needs {needed}");
        Err((RejectCause::TargetFull, detail))
    }
}
