//! A wrapper of a policy for a watch without `--act`: no request is carried out, so nothing can be measured. Requests are
//! reported at most once a minute for each job and kind of action.

use std::collections::BTreeMap;

use base::{JobId, Nanos};
use sched::{ActionKind, Plan, Policy, ReasonCode, Request, Snapshot};

use super::load_notes::LoadNotes;
use super::{REASONS, phase};

/// Minimum time between two reports of requests for one job and kind of action.
const REPORT_EVERY: Nanos = Nanos::from_secs(60);

/// The wrapper.
pub(crate) struct ReportedOnly {
    policy: Box<dyn Policy>,
    load_notes: LoadNotes,
    /// Time of the last report, by job and kind of action.
    reported_at: BTreeMap<(JobId, ActionKind), Nanos>,
}

impl ReportedOnly {
    pub(crate) fn new(policy: Box<dyn Policy>) -> Self {
        let (load_notes, reported_at) = Default::default();
        ReportedOnly { policy, load_notes, reported_at }
    }

    fn is_due(&mut self, snapshot: &Snapshot<'_>, request: &Request) -> bool {
        let Some((job, kind)) = phase::subject(snapshot, request) else { return false };
        let key = (job.job.id, kind); // This key does not change when the job starts.
        let now = snapshot.turn.at;
        let is_due = self.reported_at.get(&key).is_none_or(|&at| at + REPORT_EVERY <= now);
        if is_due {
            self.reported_at.insert(key, now);
        }
        is_due
    }
}

impl Policy for ReportedOnly {
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        let mut inner = Plan::default();
        self.policy.decide(snapshot, &mut inner);
        self.load_notes.pass(snapshot, inner.notes, plan);
        plan.abort = inner.abort;
        self.reported_at.retain(|(job, _), _| snapshot.job(*job).is_some());
        plan.requests = inner.requests;
        plan.requests.retain(|request| self.is_due(snapshot, request));
    }

    sched::forward_policy!(policy: name, interval, domains, load_source);

    fn reasons(&self) -> Vec<ReasonCode> {
        [self.policy.reasons(), REASONS.to_vec()].concat()
    }
}
