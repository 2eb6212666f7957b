//! Replay: running a policy over the samples of a journal.
//!
//! ```text
//!   journal ─► Turn, Sample ─► Engine::step ─► plan ─► compared, and written to a new journal
//!              Outcomes      ─► Engine::record_outcomes
//! ```
//!
//! A replay is open-loop. Samples and outcomes are those of the recorded run; the plans of the policy are not carried
//! out. Each turn therefore shows the plan of the policy for the recorded snapshot. The simulator predicts a run with
//! another policy.
//!
//! An unchanged version of a policy makes the same plans, byte for byte.

use engine::{Engine, LoadBasisChanges, Sink, TurnRecord};
use sched::{
    Action, Cause, HostKind, JobEvent, Outcome, OutcomeResult, Plan, Request, Sample, Target, Turn,
};

use crate::{
    Checkpoint, Header, JobPhase, JobProgress, JournalError, PolicyUsed, RecordedTurn, Recording,
};

/// Comparison of the replayed plans with the recorded plans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplaySummary {
    /// Number of turns in the recording.
    pub n_turns: u64,
    /// Number of turns with the same requests and rejections as in the recording. Reasons are not
    /// compared.
    pub n_same: u64,
    /// Number of turns counted in `n_same` with other reasons or notes than in the recording.
    pub n_other_reasons: u64,
    /// Number of the first turn with other requests or rejections than in the recording.
    pub first_difference: Option<u64>,
    /// Whether the first parts of the recording are missing. The policy then starts without its history.
    pub lacks_first_parts: bool,
}

/// Error that stops a replay.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] JournalError),
    /// The new journal cannot be written.
    #[error("cannot write the new journal")]
    Sink(#[from] std::io::Error),
}

impl Header {
    /// Returns the header for the journal of a replay of this run.
    #[must_use]
    pub fn replayed(&self, tool: &str, policy: PolicyUsed, seed: u64) -> Header {
        Header {
            tool: tool.to_owned(),
            run_id: format!("replay of {}", self.run_id),
            host: HostKind::Replay,
            policy,
            seed,
            replay_of: Some(self.run_id.clone()),
            command: None,
            ..self.clone()
        }
    }
}

/// Replays a recording in an engine with the same machine and jobs. Passes the turns with the new plans to the sinks.
///
/// # Errors
/// The recording cannot be read, or a sink fails.
pub fn replay(
    recording: &mut Recording,
    engine: &mut Engine,
    sinks: &mut [&mut dyn Sink],
) -> Result<ReplaySummary, ReplayError> {
    let mut summary = ReplaySummary::default();
    if let Some(checkpoint) = recording.checkpoint() {
        resume(checkpoint, engine);
        summary.lacks_first_parts = true;
    }
    let mut changes = LoadBasisChanges::default();
    for recorded in recording {
        let recorded = recorded?;
        let step = engine.step(&recorded.turn, &recorded.sample);
        engine.record_outcomes(&recorded.outcomes);
        summary.count(&recorded, &step);
        let record = TurnRecord {
            tasks: engine.tasks(),
            loads: step.loads.as_ref(),
            load_basis: changes.changed_basis(engine, &step),
            signals: changes.changed_tiers(engine),
            plan: &step.plan,
            rejected: &step.rejected,
            ..recorded.record()
        };
        sinks.iter_mut().try_for_each(|sink| sink.record(&record))?;
    }
    Ok(summary)
}

impl ReplaySummary {
    fn count(&mut self, recorded: &RecordedTurn, step: &engine::Step) {
        let same = is_same(&recorded.plan, &step.plan)
            && recorded.rejected.len() == step.rejected.len()
            && recorded.rejected.iter().zip(&step.rejected).all(|(one, other)| {
                one.cause == other.cause && is_same_request(&one.request, &other.request)
            });
        let is_identical = recorded.plan.requests == step.plan.requests
            && recorded.plan.notes == step.plan.notes
            && recorded.plan.observations == step.plan.observations
            && recorded.plan.abort == step.plan.abort
            && recorded.rejected == step.rejected;
        self.n_turns += 1;
        self.n_same += u64::from(same);
        self.n_other_reasons += u64::from(same && !is_identical);
        if !same {
            self.first_difference.get_or_insert(recorded.turn.number);
        }
    }
}

/// Returns whether two plans have the same requests, and both abort or neither aborts. Reasons are ignored.
fn is_same(one: &Plan, other: &Plan) -> bool {
    one.abort.is_some() == other.abort.is_some()
        && one.requests.len() == other.requests.len()
        && one.requests.iter().zip(&other.requests).all(|(one, other)| is_same_request(one, other))
}

fn is_same_request(one: &Request, other: &Request) -> bool {
    (one.target, &one.action) == (other.target, &other.action)
}

/// Sets an engine to the state of a checkpoint: running jobs are started and placed. The history of the
/// policy is lost with the missing parts.
fn resume(checkpoint: &Checkpoint, engine: &mut Engine) {
    let running = || {
        let jobs = (0u32..).map(base::JobId).zip(checkpoint.jobs.jobs());
        jobs.filter(|(_, job)| job.phase == JobPhase::Running)
    };
    let causes = vec![Cause::JobsDue];
    let turn = Turn { number: checkpoint.turn, at: checkpoint.at, causes };
    let sample = checkpoint.sample();
    let first = Sample {
        jobs: running().map(|(id, _)| JobEvent::Due(id)).collect(),
        usable_cpus: sample.usable_cpus.clone(),
        numa_settings: sample.numa_settings,
        ..Sample::default()
    };
    engine.step(&turn, &first);
    engine.record_outcomes(&running().flat_map(|(id, job)| started(id, job)).collect::<Vec<_>>());
    let unmanaged = running()
        .filter_map(|(id, job)| Some(JobEvent::Unmanaged(id, job.unmanaged.clone()?)))
        .collect();
    let second = Sample { jobs: unmanaged, ..sample };
    engine.step(&Turn { causes: vec![Cause::Interval], ..turn }, &second);
    engine.record_outcomes(&[]);
}

fn started(id: base::JobId, job: &JobProgress) -> Vec<Outcome> {
    let done =
        |action| Outcome { target: Target::Job(id), action, result: OutcomeResult::Done { n: 1 } };
    let place = job.placed.as_ref().map(|cpus| done(Some(Action::Place(cpus.clone()))));
    let page_migration = job.active_page_migration.map(|active| Outcome {
        target: active.target,
        action: Some(Action::MovePages { from: active.from, to: active.to, limit: active.limit }),
        result: OutcomeResult::InProgress,
    });
    std::iter::once(done(None)).chain(place).chain(page_migration).collect()
}
