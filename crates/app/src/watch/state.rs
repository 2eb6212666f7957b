//! State of a watch for its state file ([`crate::state`]): managed and unmanaged processes with reasons.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use base::JobId;
use engine::TurnRecord;
use host_live::{ExclusionReason, ManagedProcess, WatchStatus};
use journal::Header;
use report::status::{CommandKind, ExcludedRow, ManagedRow, MeasuredBenefit};
use sched::{Action, JobEvent, OutcomeResult, Reason, RejectCause, Target};

use super::Args;
use crate::state::StateWriter;

/// Writes the state. A sink of the engine.
pub(super) struct StateSink {
    writer: StateWriter,
    status: Rc<RefCell<WatchStatus>>,
    reasons: BTreeMap<JobId, String>,
}

impl StateSink {
    pub(super) fn new(header: &Header, args: &Args, status: Rc<RefCell<WatchStatus>>) -> Self {
        let writer =
            StateWriter::new(header, CommandKind::Watch, args.act, args.journal.as_deref());
        StateSink { writer, status, reasons: BTreeMap::new() }
    }

    fn update(&mut self, record: &TurnRecord<'_>) {
        self.writer.update(record);
        for event in &record.sample.jobs {
            if let JobEvent::Detached(job, ..) = event {
                self.reasons.remove(job);
            }
        }
        self.update_reasons(record);
        record.plan.notes.iter().for_each(|note| self.record_verdict(note));
    }

    /// Replaces the reasons of the jobs whose placement changed, or would change with --act. Another rejected request
    /// changes no placement.
    fn update_reasons(&mut self, record: &TurnRecord<'_>) {
        for outcome in record.outcomes {
            let (Target::Job(job), Some(action)) = (outcome.target, &outcome.action) else {
                continue;
            };
            if let OutcomeResult::Rejected { cause, .. } = outcome.result
                && cause != RejectCause::DryRun
            {
                continue;
            }
            let of_outcome = |request: &&sched::Request| {
                request.target == outcome.target && request.action.kind() == action.kind()
            };
            match (action, record.plan.requests.iter().find(of_outcome)) {
                (Action::Place(_), Some(request)) => {
                    self.reasons.insert(job, request.reason.to_string());
                }
                (Action::Release, _) => drop(self.reasons.remove(&job)),
                _ => {}
            }
        }
    }

    fn record_verdict(&mut self, note: &Reason) {
        let has_code = |code: sched::ReasonCode| note.code == code;
        let benefit = if has_code(policy::JUDGED_BETTER) {
            MeasuredBenefit::Improved
        } else if has_code(policy::JUDGED_WORSE) || has_code(policy::JUDGED_NO_BETTER) {
            MeasuredBenefit::Reverted
        } else if has_code(policy::TRIES_AGAIN) {
            MeasuredBenefit::Retrying
        } else {
            return;
        };
        self.writer.state.benefit = benefit;
        self.writer.state.benefit_text = Some(note.to_string());
    }

    fn take_status(&mut self) {
        let status = self.status.borrow();
        self.writer.state.discovery.clone_from(&status.discovery);
        (self.writer.state.n_known, self.writer.state.n_idle) = (status.n_known, status.n_idle);
        self.writer.state.n_inherited = status.n_inherited;
        self.writer.state.target_cpus = Some(status.targets.to_string());
        self.writer.state.possible_cpus = Some(status.all_targets.to_string());
        let row = |managed: &ManagedProcess| managed_row(managed, self.reasons.get(&managed.job));
        self.writer.state.managed = status.managed.iter().map(row).collect();
        let row = |(reason, all): (&ExclusionReason, &host_live::ExcludedProcesses)| ExcludedRow {
            cause: reason.name().to_owned(),
            text: reason.to_string(),
            n: all.n,
            examples: all.examples.iter().map(|(pid, name)| format!("{name}.{pid}")).collect(),
        };
        self.writer.state.excluded = status.excluded.iter().map(row).collect();
    }
}

fn managed_row(managed: &ManagedProcess, reason: Option<&String>) -> ManagedRow {
    ManagedRow {
        name: managed.name.clone(),
        pid: managed.pid,
        start_time_ticks: managed.start_time_ticks,
        since_ns: managed.since.0,
        cpus_before: managed.before.to_string(),
        cpus_placed: managed.placed.as_ref().map(ToString::to_string),
        reason: reason.cloned(),
        is_unmanaged: managed.is_unmanaged,
    }
}

impl engine::Sink for StateSink {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        self.update(record);
        if self.writer.is_due(record.turn.at) {
            self.take_status();
            self.writer.write(record.turn.at);
        }
        Ok(())
    }
}
