//! Application of plans to the simulated machine.

use std::sync::Arc;

use base::{Bytes, CpuSet, JobId, Nanos, NodeSet};
use engine::Approved;
use program::{Ending, Job, MemoryPolicy};
use sched::{
    Action, CompletedPageMigration, FailedPages, Outcome, OutcomeResult, RejectCause, Target,
};

use super::{ScheduledAction, SimHost, SimJobRun, SimJobState, stopped_by};
use crate::build_scripts::may_use;
use crate::faults::FaultKind;
use crate::frame::{JobPageMigration, JobStart, MemoryPlacement};

impl SimHost {
    /// Starts every due job with its placement in the plan.
    pub(super) fn start_due(&mut self, plan: &Approved, outcomes: &mut Vec<Outcome>) -> Vec<JobId> {
        let due = std::mem::take(&mut self.due);
        for &job in &due {
            self.start(job, plan, outcomes);
        }
        due
    }

    fn start(&mut self, id: JobId, plan: &Approved, outcomes: &mut Vec<Outcome>) {
        let (mut cpus, mut memory) = (None, None);
        for action in plan.for_job(id) {
            match action {
                Action::Place(assigned) => cpus = Some(assigned.clone()),
                Action::MemoryPolicy(policy) => memory = Some(policy.clone()),
                Action::Release | Action::MovePages { .. } => {}
            }
        }
        let job = &self.slots[id.index()].job;
        let own = self.own_cpus(job);
        let allowed = cpus.as_ref().map(|cpus| self.mask(cpus)).or(own);
        let rule = self.memory_rule(job, memory.as_ref());
        let slot = &self.slots[id.index()];
        let (script, random_key) = (slot.script.clone(), slot.random_key());
        let start =
            JobStart { allowed, memory: rule, random_key, ..JobStart::new(id.index(), script) };
        let pid = self.machine.start(start);
        let now = self.machine.now();
        let slot = &mut self.slots[id.index()];
        slot.n_runs += 1;
        slot.state = SimJobState::Running(SimJobRun { pid, started: now });
        if let Ending::After(time) = slot.job.ending {
            let at = (Nanos(now) + time).0;
            self.agenda.insert((at, id, ScheduledAction::Stop(slot.n_runs)));
        }
        let target = Target::Job(id);
        let done = |action, n| Outcome { target, action, result: OutcomeResult::Done { n } };
        outcomes.push(done(None, pid));
        outcomes.extend(cpus.map(|cpus| done(Some(Action::Place(cpus)), 1)));
        outcomes.extend(memory.map(|policy| done(Some(Action::MemoryPolicy(policy)), 1)));
    }

    /// Returns the CPUs that the keys `cpus` and `nodes` of a job allow; `None`: all CPUs.
    fn own_cpus(&self, job: &Job) -> Option<Arc<Vec<bool>>> {
        let is_limited = job.cpus.is_some() || job.nodes.is_some();
        is_limited.then(|| Arc::new(may_use(job, &self.hardware)))
    }

    fn mask(&self, cpus: &CpuSet) -> Arc<Vec<bool>> {
        Arc::new(self.hardware.cpus.iter().map(|cpu| cpus.contains(cpu.id)).collect())
    }

    fn node_indexes(&self, nodes: &NodeSet) -> Vec<usize> {
        nodes.iter().filter_map(|node| self.hardware.node_index(node)).collect()
    }

    fn memory_rule(&self, job: &Job, planned: Option<&MemoryPolicy>) -> MemoryPlacement {
        let all: Vec<usize> = (0..self.hardware.nodes.len()).collect();
        match job.memory.as_ref().or(planned) {
            Some(MemoryPolicy::Bind(nodes)) => MemoryPlacement::Bind(self.node_indexes(nodes)),
            Some(MemoryPolicy::Preferred(nodes)) => {
                MemoryPlacement::Preferred(self.node_indexes(nodes))
            }
            Some(MemoryPolicy::Interleave(nodes) | MemoryPolicy::WeightedInterleave(nodes)) => {
                MemoryPlacement::Interleave(self.node_indexes(nodes))
            }
            None => match &job.nodes {
                Some(nodes) => MemoryPlacement::Bind(self.node_indexes(nodes)),
                None if self.options.interleave => MemoryPlacement::Interleave(all),
                None => MemoryPlacement::FirstTouch,
            },
        }
    }

    /// Applies the requests for running jobs.
    pub(super) fn change_running(
        &mut self,
        plan: &Approved,
        started: &[JobId],
        outcomes: &mut Vec<Outcome>,
    ) {
        for request in plan.requests() {
            if matches!(request.target, Target::Job(job) if started.contains(&job)) {
                continue;
            }
            let result = self.apply_action(request.target, &request.action);
            let action = Some(request.action.clone());
            outcomes.push(Outcome { target: request.target, action, result });
        }
    }

    fn apply_action(&mut self, target: Target, action: &Action) -> OutcomeResult {
        let reject =
            |cause, detail: &str| OutcomeResult::Rejected { cause, detail: detail.to_owned() };
        let Some(idx) = self.job_of(target) else {
            return reject(RejectCause::Exited, "the job has ended");
        };
        let allowed = match action {
            Action::Place(cpus) => Some(self.mask(cpus)),
            Action::Release => self.own_cpus(&self.slots[idx].job),
            Action::MemoryPolicy(_) => {
                return reject(RejectCause::AlreadyStarted, "the job is running");
            }
            Action::MovePages { from, to, limit } => {
                let index = |node| self.hardware.node_index(node);
                let Some(to) = index(*to) else {
                    return reject(RejectCause::NodesUnusable, "the node does not exist");
                };
                let from = from.and_then(index);
                let busy_permille = (1000.0 * self.fault_injector.faults.pages_busy) as u64;
                let limit = limit.0;
                let page_migration = JobPageMigration {
                    job: idx,
                    from,
                    to,
                    limit,
                    busy_permille,
                    ..JobPageMigration::default()
                };
                self.machine.move_pages(page_migration);
                return OutcomeResult::InProgress;
            }
        };
        let kind = FaultKind::RequestsRejected(self.slots[idx].key);
        if self.fault_injector.occurs(kind, self.fault_injector.faults.requests_rejected) {
            return reject(RejectCause::Unsupported, "injected fault of this run");
        }
        let n = match target {
            Target::Job(_) => self.machine.bind(idx, allowed),
            Target::Task(task) => self.machine.bind_tid(task.tid, allowed),
        };
        OutcomeResult::Done { n }
    }

    fn job_of(&self, target: Target) -> Option<usize> {
        match target {
            Target::Job(job) => {
                let slot = self.slots.get(job.index())?;
                matches!(slot.state, SimJobState::Running(_)).then_some(job.index())
            }
            Target::Task(task) => (0..self.slots.len())
                .find(|&idx| self.machine.threads_of(idx).any(|thread| thread.tid == task.tid)),
        }
    }

    /// Reports the end of a page migration.
    pub(super) fn page_migration_ended(&mut self, done: &JobPageMigration) {
        let nodes = &self.hardware.nodes;
        let job = self.slots[done.job].job.id;
        let Some(to) = nodes[done.to].id else { return };
        let failed = FailedPages {
            no_memory: Bytes(done.no_memory),
            busy: Bytes(done.busy),
            ..FailedPages::default()
        };
        self.pending.page_migrations_completed.push(CompletedPageMigration {
            target: Target::Job(job),
            job,
            from: done.from.and_then(|from| nodes[from].id),
            to,
            limit: Bytes(done.limit),
            requested: Bytes(done.requested),
            moved: Bytes(done.moved),
            failed,
            not_attempted: Bytes::ZERO,
            duration: Nanos(self.machine.now() - done.started),
            in_kernel: Nanos(done.in_kernel),
            stopped_by: stopped_by(done),
            detail: String::new(),
        });
        self.turn_causes.insert(sched::Cause::PageMigrationCompleted);
    }
}
