//! Which figures a policy decides by, and what it does without them.
//!
//! ```text
//!   the machine counts      everything of this is there          run, watch
//!   somebody declared       what a job's class or profile tells  where nothing counts; replay, simulation
//! ```
//!
//! Every policy lists its needs beside its parameters. [`missing`] asks of a job for which only declared
//! figures exist whether its class and profile tell them, and says in words which one they do not.

use program::{Job, Profile};

use crate::spec::split;
use crate::{PolicyError, find};

/// A figure that a policy decides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Which.
    pub figure: Needed,
    /// What becomes of the policy without it.
    pub without: Without,
}

/// The figures that policies decide by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    /// How hard each place's memory is used: counted there, or from the classes of programs.
    Loads,
    /// Misses of a program over cache sizes, measured before.
    MissCurve,
    /// Instructions of each task.
    Instructions,
    /// Misses of each task in the last-level cache.
    LlcMisses,
    /// Accesses of each task to the last-level cache.
    LlcReferences,
}

/// What becomes of a policy that lacks a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Without {
    /// It ends the run.
    Refuses,
    /// It goes on, in this way.
    DoesLess(&'static str),
}

/// A figure that a job's class and profile do not tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// What the policy does without it.
    pub without: Without,
    /// Which policy lacks which figure of which program, in a sentence.
    pub words: String,
}

impl Needed {
    /// Its name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Needed::Loads => "loads",
            Needed::MissCurve => "miss-curve",
            Needed::Instructions => "instructions",
            Needed::LlcMisses => "llc-misses",
            Needed::LlcReferences => "llc-references",
        }
    }

    /// What it is, and of whom.
    pub fn words(self) -> &'static str {
        match self {
            Needed::Loads => "the memory traffic of each place, or the class of each program",
            Needed::MissCurve => {
                "the misses per 1000 instructions over cache sizes of each program (its profile)"
            }
            Needed::Instructions => "the instructions of each task",
            Needed::LlcMisses => "the last-level cache misses of each task",
            Needed::LlcReferences => "the last-level cache accesses of each task",
        }
    }

    /// What a job's class or profile would have to tell of its program.
    fn declared_as(self) -> &'static str {
        match self {
            Needed::Loads => "the class (or misses over cache sizes, and speed)",
            Needed::MissCurve => "the misses per 1000 instructions over cache sizes",
            Needed::Instructions => "the instructions per second of CPU time",
            Needed::LlcMisses => "the misses per 1000 instructions over cache sizes and the speed",
            Needed::LlcReferences => "the cache accesses per 1000 instructions and the speed",
        }
    }

    /// Whether a job declares it. Figures of tasks are a rate times CPU time, so they need to know how
    /// fast the program goes.
    fn is_declared(self, job: &Job) -> bool {
        let told = |figure: fn(&Profile) -> bool| job.found.as_deref().is_some_and(figure);
        match self {
            Needed::Loads => job.class.is_some() || told(|p| has_curve(p) && has_speed(p)),
            Needed::MissCurve => told(has_curve),
            Needed::Instructions => told(has_speed),
            Needed::LlcMisses => told(|p| has_curve(p) && has_speed(p)),
            Needed::LlcReferences => told(|p| {
                p.average(|phase| Some(phase.llc_accesses?.value())).is_some() && has_speed(p)
            }),
        }
    }
}

impl Without {
    /// What it does then, in words.
    pub fn words(self) -> &'static str {
        match self {
            Without::Refuses => "the run ends",
            Without::DoesLess(how) => how,
        }
    }
}

/// The first figure, those without which it refuses before the others, that the policy a text names
/// needs and a job neither declares nor has in its profile. `None`: declared figures are enough.
pub fn missing(spec: &str, job: &Job) -> Result<Option<Lack>, PolicyError> {
    let info = find(split(spec)?.0)?;
    let undeclared = || info.needs.iter().filter(|need| !need.figure.is_declared(job));
    let refuses = undeclared().find(|need| need.without == Without::Refuses);
    let Some(need) = refuses.or_else(|| undeclared().next()) else { return Ok(None) };
    let (program, has) = match (&job.found, &job.profile) {
        (Some(profile), _) => (profile.name.as_str(), "its profile has none"),
        (None, Some(named)) => (named.as_str(), "it has no profile"),
        (None, None) => (job.name.as_str(), "it has no profile"),
    };
    let figure = need.figure.declared_as();
    let words = format!("policy {} needs {figure} of program {program}; {has}", info.name);
    Ok(Some(Lack { without: need.without, words }))
}

fn has_curve(profile: &Profile) -> bool {
    !profile.phases.is_empty() && profile.phases.iter().all(|p| !p.curve.points().is_empty())
}

fn has_speed(profile: &Profile) -> bool {
    let cpi = profile.average(|phase| Some(phase.cycles_per_instruction?.value()));
    profile.frequency().is_some() && cpi.is_some_and(|cpi| 0.0 < cpi)
}
