//! The loop over host, engine and sinks.
//!
//! ```text
//!   wait ─► sample ─► step ─► apply ─► record_outcomes ─► every sink
//!    ▲                                                        │
//!    └────────────────────────────────────────────────────────┘   until wait returns `None`
//! ```
//!
//! If the policy aborts or a sink fails, the loop calls [`Host::stop`] and continues until the host ends the run, so
//! that jobs terminate and affinities are restored. The loop then returns the first error.

use std::io;

use base::Nanos;
use sched::{Reason, Tiers, Turn};

use crate::{Engine, Host, LoadBasis, Sink, Step, TurnRecord};

/// Summary of a completed run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunSummary {
    /// Number of turns.
    pub n_turns: u64,
    /// Time of the last turn.
    pub at: Nanos,
}

/// An error that ended a run.
#[derive(Debug, thiserror::Error)]
pub enum RunError<E> {
    /// The host failed.
    #[error("{0}")]
    Host(E),
    /// The policy aborted; all jobs were terminated.
    #[error("the policy aborted: {0}")]
    Aborted(Reason),
    /// A journal or report could not be written; all jobs were terminated.
    #[error("the run could not be recorded")]
    Sink(#[source] io::Error),
}

/// Runs all turns until the host ends the run.
///
/// Every sink records every turn, in order. A sink that failed is not called again.
pub fn run<H: Host>(
    host: &mut H,
    engine: &mut Engine,
    sinks: &mut [&mut dyn Sink],
) -> Result<RunSummary, RunError<H::Error>> {
    let mut summary = RunSummary::default();
    let mut changes = LoadBasisChanges::default();
    let mut errors = FirstError { failed: vec![false; sinks.len()], first: None };
    while let Some(turn) = host.wait().map_err(RunError::Host)? {
        let had_error = errors.first.is_some();
        one_turn(host, engine, sinks, &turn, (&mut changes, &mut errors))?;
        summary = RunSummary { n_turns: summary.n_turns + 1, at: turn.at };
        if !had_error && errors.first.is_some() {
            host.stop();
        }
    }
    errors.first.map_or(Ok(summary), Err)
}

/// Detects changes of the load basis and of signal tiers between turns.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadBasisChanges {
    reported: Option<LoadBasis>,
    signals: Tiers,
}

impl LoadBasisChanges {
    /// Returns level and source of the loads if they changed and the turn has no loads. Loads contain their level and
    /// source.
    pub fn changed_basis(&mut self, engine: &Engine, step: &Step) -> Option<LoadBasis> {
        let now = engine.load_basis();
        let is_new = self.reported.replace(now) != Some(now);
        (is_new && step.loads.is_none()).then_some(now)
    }

    /// Returns the tiers of all values if at least one changed. Initially, all tiers are `none`.
    pub fn changed_tiers(&mut self, engine: &Engine) -> Option<Tiers> {
        let now = *engine.tiers();
        (std::mem::replace(&mut self.signals, now) != now).then_some(now)
    }
}

struct FirstError<E> {
    /// Whether each sink has failed.
    failed: Vec<bool>,
    first: Option<RunError<E>>,
}

fn one_turn<H: Host>(
    host: &mut H,
    engine: &mut Engine,
    sinks: &mut [&mut dyn Sink],
    turn: &Turn,
    (changes, errors): (&mut LoadBasisChanges, &mut FirstError<H::Error>),
) -> Result<(), RunError<H::Error>> {
    let sample = host.sample(turn).map_err(RunError::Host)?;
    let step = engine.step(turn, &sample);
    let outcomes = host.apply(&step.approved);
    engine.record_outcomes(&outcomes);
    if let Some(reason) = &step.plan.abort {
        errors.first.get_or_insert(RunError::Aborted(reason.clone()));
    }
    let record = TurnRecord {
        turn,
        sample: &sample,
        tasks: engine.tasks(),
        loads: step.loads.as_ref(),
        load_basis: changes.changed_basis(engine, &step),
        signals: changes.changed_tiers(engine),
        plan: &step.plan,
        rejected: &step.rejected,
        outcomes: &outcomes,
    };
    for (sink, failed) in sinks.iter_mut().zip(&mut errors.failed).filter(|(_, failed)| !**failed) {
        if let Err(error) = sink.record(&record) {
            *failed = true;
            errors.first.get_or_insert(RunError::Sink(error));
        }
    }
    Ok(())
}
