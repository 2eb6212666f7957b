//! The signals that a policy requires, and the behaviour of the policy without these signals.
//!
//! ```text
//!   counted     on the machine, of every task                   run, watch
//!   declared    by the class of a job or by its profile         for values that are not counted
//! ```
//!
//! Every declaration lists its signals. [`missing`] checks a job that has only declared values, and returns
//! the first signal that neither its class nor its profile provides.

use program::{Job, Profile};
use sched::{CounterEvent, SignalTier, Snapshot};

use super::parameters::{Params, PolicyError, split};
use super::{ParamSetting, PolicyInfo};
use crate::find;

/// A signal that a policy requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequiredSignal {
    /// The signal.
    pub signal: Signal,
    /// The behaviour of the policy without the signal.
    pub if_missing: IfMissing,
}

/// Signals that decisions are based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Memory traffic of each domain: counted, or derived from the classes of jobs.
    Loads,
    /// Miss-ratio curve of a program, from its profile.
    MissCurve,
    /// Instructions of each task.
    Instructions,
    /// LLC misses of each task.
    LlcMisses,
    /// LLC accesses of each task.
    LlcReferences,
}

/// The behaviour of a policy without a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfMissing {
    /// The policy ends the run.
    EndsRun,
    /// The policy continues with this behaviour.
    Degrades(&'static str),
}

/// A signal that neither the class nor the profile of a job provides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingSignal {
    /// The behaviour of the policy without the signal.
    pub if_missing: IfMissing,
    /// The policy, the signal and the program, in a sentence.
    pub text: String,
}

impl Signal {
    /// Returns three texts: the name, the measured value, and the declared values that provide the signal.
    fn texts(self) -> [&'static str; 3] {
        match self {
            Signal::Loads => [
                "loads",
                "the memory traffic of each domain, or the class of each program",
                "the class (or misses over cache sizes, and speed)",
            ],
            Signal::MissCurve => [
                "miss-curve",
                "the misses per 1000 instructions over cache sizes of each program (its profile)",
                "the misses per 1000 instructions over cache sizes",
            ],
            Signal::Instructions => [
                "instructions",
                "the instructions of each task",
                "the instructions per second of CPU time",
            ],
            Signal::LlcMisses => [
                "llc-misses",
                "the last-level cache misses of each task",
                "the misses per 1000 instructions over cache sizes and the speed",
            ],
            Signal::LlcReferences => [
                "llc-references",
                "the last-level cache accesses of each task",
                "the cache accesses per 1000 instructions and the speed",
            ],
        }
    }

    /// Returns the tier of the signal in the last interval.
    fn tier(self, snapshot: &Snapshot<'_>) -> SignalTier {
        match self {
            Signal::Loads => snapshot.loads.tier,
            Signal::MissCurve => {
                let is_declared = snapshot.jobs.iter().any(|job| self.is_declared(job.job));
                if is_declared { SignalTier::Declared } else { SignalTier::None }
            }
            Signal::Instructions => snapshot.tiers.get(CounterEvent::Instructions),
            Signal::LlcMisses => snapshot.tiers.get(CounterEvent::LlcMisses),
            Signal::LlcReferences => snapshot.tiers.get(CounterEvent::LlcReferences),
        }
    }

    /// Returns whether the signal was counted or declared in the last interval.
    pub(crate) fn has_value(self, snapshot: &Snapshot<'_>) -> bool {
        self.tier(snapshot) != SignalTier::None
    }

    /// Returns whether counters provided the signal in the last interval.
    pub(crate) fn is_counted(self, snapshot: &Snapshot<'_>) -> bool {
        matches!(self.tier(snapshot), SignalTier::Counters | SignalTier::Bandwidth)
    }

    /// Returns the name in tables and JSON.
    pub fn name(self) -> &'static str {
        self.texts()[0]
    }

    /// Returns a description of the measured value.
    pub fn help(self) -> &'static str {
        self.texts()[1]
    }

    /// Returns whether a job declares the signal. A declared value of a task is a rate times CPU time, so the speed of
    /// the program is required too.
    fn is_declared(self, job: &Job) -> bool {
        let has = |value: fn(&Profile) -> bool| job.found.as_deref().is_some_and(value);
        match self {
            Signal::Loads => job.class.is_some() || has(|p| has_curve(p) && has_speed(p)),
            Signal::MissCurve => has(has_curve),
            Signal::Instructions => has(has_speed),
            Signal::LlcMisses => has(|p| has_curve(p) && has_speed(p)),
            Signal::LlcReferences => has(|p| {
                p.average(|phase| Some(phase.llc_accesses?.value())).is_some() && has_speed(p)
            }),
        }
    }
}

impl IfMissing {
    /// Returns the behaviour in words.
    pub fn text(self) -> &'static str {
        match self {
            IfMissing::EndsRun => "the run ends",
            IfMissing::Degrades(behaviour) => behaviour,
        }
    }
}

/// Returns the signals that a policy requires with these parameters.
pub(super) fn required(info: &PolicyInfo, params: &Params<'_>) -> Vec<RequiredSignal> {
    let applies = |only_with: Option<ParamSetting>| {
        only_with.is_none_or(|setting| params.text(setting.param) == setting.value)
    };
    let required = info.required_signals().filter(|(only_with, _)| applies(*only_with));
    required.map(|(_, signal)| signal).collect()
}

/// Returns the first signal that a policy requires and a job does not declare. Signals that end the run are checked
/// first. `None`: declared values suffice.
///
/// # Errors
/// The text names no policy, or has parameters that the policy does not accept.
pub fn missing(spec: &str, job: &Job) -> Result<Option<MissingSignal>, PolicyError> {
    let info = find(split(spec)?.0)?;
    let signals = required(info, &Params::parse(info, spec)?);
    let undeclared = || signals.iter().filter(|required| !required.signal.is_declared(job));
    let ends = undeclared().find(|required| required.if_missing == IfMissing::EndsRun);
    let Some(required) = ends.or_else(|| undeclared().next()) else { return Ok(None) };
    let (program, has) = match (&job.found, &job.profile) {
        (Some(profile), _) => (profile.name.as_str(), "its profile has none"),
        (None, Some(named)) => (named.as_str(), "it has no profile"),
        (None, None) => (job.name.as_str(), "it has no profile"),
    };
    let values = required.signal.texts()[2];
    let text = format!("policy {} needs {values} of program {program}; {has}", info.name);
    Ok(Some(MissingSignal { if_missing: required.if_missing, text }))
}

fn has_curve(profile: &Profile) -> bool {
    !profile.phases.is_empty() && profile.phases.iter().all(|p| !p.curve.points().is_empty())
}

fn has_speed(profile: &Profile) -> bool {
    let cpi = profile.average(|phase| Some(phase.cycles_per_instruction?.value()));
    profile.frequency().is_some() && cpi.is_some_and(|cpi| 0.0 < cpi)
}
