//! Running a policy again over a journal: what would have been decided.
//!
//! ```text
//!   journal ─► Turn, Sample ─► Engine::step ─► plan ─► compared, and written to a new journal
//!              Outcomes      ─► Engine::settle
//! ```
//!
//! The loop is open. What happened in the recorded run happens again whatever the policy says now:
//! its plan is not carried out, and the next sample is the one that was recorded. So each turn answers
//! "what would this policy have done at this moment", never "how would the run have gone". The closed
//! loop is the simulator.
//!
//! The same policy of the same version makes the same plans, and the same bytes each time.

use engine::{Engine, LoadBasisChanges, Sink, TurnRecord};
use sched::{Action, Cause, JobEvent, Outcome, OutcomeResult, Plan, Request, Sample, Target, Turn};

use crate::{
    Header, JobSoFar, JournalError, LifeState, PolicyUsed, RecordedTurn, Recording, SoFar,
};

/// What came of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Turns in the recording.
    pub n_turns: u64,
    /// Turns in which the policy wanted the same done to the same.
    pub n_same: u64,
    /// Turns among these in which it gave other reasons, or said something else.
    pub n_same_otherwise: u64,
    /// The number of the first turn in which it wanted something else.
    pub first_other: Option<u64>,
    /// The recording does not begin with the run, so that the policy began without its memory.
    pub began_late: bool,
}

/// Why a replay stopped.
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
    /// The header of a journal of a replay of this run, under another policy or the same.
    #[must_use]
    pub fn replayed(&self, tool: &str, policy: PolicyUsed, seed: u64) -> Header {
        Header {
            tool: tool.to_owned(),
            run_id: format!("replay of {}", self.run_id),
            host: "replay".to_owned(),
            policy,
            seed,
            replay_of: Some(self.run_id.clone()),
            ..self.clone()
        }
    }
}

/// Feeds a recording to an engine that knows its machine and its jobs, and tells the sinks.
///
/// # Errors
/// The recording cannot be read on, or a sink fails.
pub fn replay(
    recording: &mut Recording,
    engine: &mut Engine,
    sinks: &mut [&mut dyn Sink],
) -> Result<Replayed, ReplayError> {
    let mut replayed = Replayed::default();
    if let Some(so_far) = recording.so_far() {
        catch_up(so_far, engine);
        replayed.began_late = true;
    }
    let mut news = LoadBasisChanges::default();
    for recorded in recording {
        let recorded = recorded?;
        let step = engine.step(&recorded.turn, &recorded.sample);
        engine.record_outcomes(&recorded.outcomes);
        replayed.count(&recorded, &step);
        let record = TurnRecord {
            loads: step.loads.as_ref(),
            load_basis: news.after(engine, &step),
            signals: news.signals(engine),
            plan: &step.plan,
            rejected: &step.rejected,
            ..recorded.record()
        };
        sinks.iter_mut().try_for_each(|sink| sink.record(&record))?;
    }
    Ok(replayed)
}

impl Replayed {
    fn count(&mut self, recorded: &RecordedTurn, step: &engine::Step) {
        let same = is_same(&recorded.plan, &step.plan)
            && recorded.refused.len() == step.rejected.len()
            && recorded.refused.iter().zip(&step.rejected).all(|(one, other)| {
                one.cause == other.cause && is_same_ask(&one.request, &other.request)
            });
        let to_the_word = recorded.plan.requests == step.plan.requests
            && recorded.plan.notes == step.plan.notes
            && recorded.plan.abort == step.plan.abort
            && recorded.refused == step.rejected;
        self.n_turns += 1;
        self.n_same += u64::from(same);
        self.n_same_otherwise += u64::from(same && !to_the_word);
        if !same {
            self.first_other.get_or_insert(recorded.turn.number);
        }
    }
}

/// Whether two plans ask for the same to be done, for whatever reasons.
fn is_same(one: &Plan, other: &Plan) -> bool {
    one.abort.is_some() == other.abort.is_some()
        && one.requests.len() == other.requests.len()
        && one.requests.iter().zip(&other.requests).all(|(one, other)| is_same_ask(one, other))
}

fn is_same_ask(one: &Request, other: &Request) -> bool {
    (one.target, &one.action) == (other.target, &other.action)
}

/// Brings an engine to where the first part that is left begins: what runs is started and placed
/// as it was. What the policy would have remembered is lost with the parts.
fn catch_up(so_far: &SoFar, engine: &mut Engine) {
    let running = || {
        let jobs = (0u32..).map(base::JobId).zip(so_far.lives.jobs());
        jobs.filter(|(_, job)| job.state == LifeState::Running)
    };
    let causes = vec![Cause::JobsDue];
    let begin = Turn { number: so_far.number, at: so_far.at, causes };
    let due: Vec<JobEvent> = running().map(|(id, _)| JobEvent::Due(id)).collect();
    let sample = so_far.sample();
    let first = Sample {
        jobs: due,
        usable_cpus: sample.usable_cpus.clone(),
        numa_settings: sample.numa_settings,
        ..Sample::default()
    };
    engine.step(&begin, &first);
    engine.record_outcomes(&running().flat_map(|(id, job)| started(id, job)).collect::<Vec<_>>());
    let hands_off = running()
        .filter_map(|(id, job)| job.hands_off.clone().map(|why| JobEvent::Unmanaged(id, why)));
    let second = Sample { jobs: hands_off.collect(), ..sample };
    engine.step(&Turn { causes: vec![Cause::Interval], ..begin }, &second);
    engine.record_outcomes(&[]);
}

fn started(id: base::JobId, job: &JobSoFar) -> Vec<Outcome> {
    let done =
        |action| Outcome { target: Target::Job(id), action, result: OutcomeResult::Done { n: 1 } };
    let place = job.placed.as_ref().map(|cpus| done(Some(Action::Place(cpus.clone()))));
    let moving = job.moving.map(|moving| Outcome {
        target: moving.target,
        action: Some(Action::MovePages { from: moving.from, to: moving.to, limit: moving.limit }),
        result: OutcomeResult::InProgress,
    });
    std::iter::once(done(None)).chain(place).chain(moving).collect()
}
