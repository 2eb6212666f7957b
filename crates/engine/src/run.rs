//! The loop over a host, an engine and those who listen.
//!
//! ```text
//!   wait ─► sample ─► step ─► apply ─► settle ─► every sink
//!    ▲                                               │
//!    └───────────────────────────────────────────────┘   until wait says that everything is over
//! ```
//!
//! When the policy gives up or a sink fails, the host is told to stop and the loop goes on to the
//! end, so that programs end properly and everything is put back; then the first error is returned.

use std::io;

use base::Nanos;
use sched::{Reason, Tiers, Turn};

use crate::{Engine, Host, LoadBasis, Sink, Step, TurnRecord};

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Finish {
    /// How many turns there were.
    pub n_turns: u64,
    /// When the last of them was.
    pub at: Nanos,
}

/// Why a run ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum RunError<E> {
    /// The host as a whole failed.
    #[error("{0}")]
    Host(E),
    /// The policy could not go on; every program was ended.
    #[error("the policy gave up: {0}")]
    Aborted(Reason),
    /// A journal or report could not be written; every program was ended.
    #[error("the run could not be recorded")]
    Sink(#[source] io::Error),
}

/// Runs until the host says that everything is over.
///
/// Every sink is told of every turn, in order. One that fails is not told of later turns.
pub fn run<H: Host>(
    host: &mut H,
    engine: &mut Engine,
    sinks: &mut [&mut dyn Sink],
) -> Result<Finish, RunError<H::Error>> {
    let mut finish = Finish::default();
    let mut news = LoadBasisChanges::default();
    let mut trouble = FirstError { failed: vec![false; sinks.len()], first: None };
    while let Some(turn) = host.wait().map_err(RunError::Host)? {
        let was_well = trouble.first.is_none();
        one_turn(host, engine, sinks, &turn, (&mut news, &mut trouble))?;
        finish = Finish { n_turns: finish.n_turns + 1, at: turn.at };
        if was_well && trouble.first.is_some() {
            host.stop();
        }
    }
    trouble.first.map_or(Ok(finish), Err)
}

/// Knows what sinks were told of what loads stand on.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadBasisChanges {
    told: Option<LoadBasis>,
    signals: Tiers,
}

impl LoadBasisChanges {
    /// What is new of it after this step. Loads tell it themselves.
    pub fn after(&mut self, engine: &Engine, step: &Step) -> Option<LoadBasis> {
        let now = engine.load_basis();
        let is_new = self.told.replace(now) != Some(now);
        (is_new && step.loads.is_none()).then_some(now)
    }

    /// What is new of the signals that figures stand on. That they stand on nothing is not, at first.
    pub fn signals(&mut self, engine: &Engine) -> Option<Tiers> {
        let now = *engine.tiers();
        (std::mem::replace(&mut self.signals, now) != now).then_some(now)
    }
}

/// What went wrong so far.
struct FirstError<E> {
    failed: Vec<bool>,
    first: Option<RunError<E>>,
}

fn one_turn<H: Host>(
    host: &mut H,
    engine: &mut Engine,
    sinks: &mut [&mut dyn Sink],
    turn: &Turn,
    (news, trouble): (&mut LoadBasisChanges, &mut FirstError<H::Error>),
) -> Result<(), RunError<H::Error>> {
    let sample = host.sample(turn).map_err(RunError::Host)?;
    let step = engine.step(turn, &sample);
    let outcomes = host.apply(&step.approved);
    engine.record_outcomes(&outcomes);
    if let Some(reason) = &step.plan.abort {
        trouble.first.get_or_insert(RunError::Aborted(reason.clone()));
    }
    let record = TurnRecord {
        turn,
        sample: &sample,
        loads: step.loads.as_ref(),
        load_basis: news.after(engine, &step),
        signals: news.signals(engine),
        plan: &step.plan,
        rejected: &step.rejected,
        outcomes: &outcomes,
    };
    for (sink, failed) in sinks.iter_mut().zip(&mut trouble.failed).filter(|(_, failed)| !**failed)
    {
        if let Err(error) = sink.record(&record) {
            *failed = true;
            trouble.first.get_or_insert(RunError::Sink(error));
        }
    }
    Ok(())
}
