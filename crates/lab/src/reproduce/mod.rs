//! What the papers published, beside what comes out here.
//!
//! ```text
//!   Study ── a paper
//!     └─ Experiment ── name · what the source says · the limit of the verdict · how ours is reckoned
//!           │ run, on a Rig (machines × policies × workloads × seeds, each run once)
//!           ▼
//!        Found ── tables · claims with a verdict each, for both readings · why
//!           └─► text · JSON (report::study) · a page
//! ```
//!
//! Experiments are values in one list; the tables, the JSON and the list of what there is come from it. Limits
//! are those of the specification and were fixed before the first run; nothing is tuned to meet them, and
//! "does not reproduce" is a result like any other. What hangs on figures of programs that nobody measured is
//! drawn many times, and the share of draws in which it holds is told instead.

mod contention;
mod defaults;
mod dfs;
mod divided;
mod found;
mod gain;
mod given;
mod json;
mod page;
mod rig;
mod text;
mod world;

#[cfg(test)]
mod tests;

pub use found::{Claim, Found, Reading, Table, Told, Verdict};
pub use gain::Gain;
pub use page::html;
pub use report::study::{Drawing, StudyCell, StudyFigure};
pub use rig::{Played, Rig};
pub use text::{list, text};
pub use world::World;

use crate::compare::SimRunError;
use crate::shipped::NotShipped;

/// A paper with what is reproduced of it.
#[derive(Clone, Copy, Debug)]
pub struct Study {
    /// Its name on the command line.
    pub name: &'static str,
    /// The paper, in words.
    pub source: &'static str,
    /// What is reproduced, in the order in which it is told.
    pub experiments: &'static [Experiment],
}

/// One thing that a paper shows or asks, as a value.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is about.
    pub title: &'static str,
    /// What the source says.
    pub says: &'static str,
    /// When the verdict is that it reproduces; where the limits come from.
    pub limit: &'static str,
    /// How ours is reckoned.
    pub how: &'static str,
    /// The machines that it is done on, before anything of them is changed.
    pub machines: &'static [&'static str],
    /// Does it.
    pub run: fn(&Rig<'_>) -> Result<Found, ReproduceError>,
}

/// All studies.
pub const STUDIES: &[Study] = &[dfs::STUDY, divided::STUDY, contention::STUDY];

/// Why an experiment could not be done.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// Something that it needs does not ship.
    #[error(transparent)]
    NotShipped(#[from] NotShipped),
    /// A policy of it is none.
    #[error(transparent)]
    Column(#[from] crate::compare::ColumnError),
    /// Its machine or its jobs cannot be simulated.
    #[error(transparent)]
    Sim(#[from] host_sim::SimError),
    /// A run could not begin.
    #[error(transparent)]
    Run(#[from] SimRunError),
    /// A run that is counted while it goes on did not end well.
    #[error("{run} did not end well: {why}")]
    Failed {
        /// Which.
        run: String,
        /// What went wrong.
        why: String,
    },
    /// Somebody stopped it.
    #[error("stopped: what had not finished is left out")]
    Stopped,
}

/// A whole study as it is told.
#[derive(Clone, Debug)]
pub struct Account {
    /// The study's name.
    pub study: String,
    /// The paper, in words.
    pub source: String,
    /// The experiments that were asked for; empty: all.
    pub only: Vec<String>,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// How many draws from the ranges of the profiles.
    pub draws: u64,
    /// What was done, in order.
    pub experiments: Vec<Told>,
    /// What was asked for and not done, since somebody stopped it; in order.
    pub left_out: Vec<String>,
}

impl Study {
    /// By its name.
    pub fn find(name: &str) -> Option<&'static Study> {
        STUDIES.iter().find(|study| study.name == name)
    }

    /// Does these experiments of it; `before` is told of each that begins. Once somebody stops it, what is done
    /// is told, and which are not.
    ///
    /// # Errors
    /// The first that could not be done.
    pub fn run(
        &self,
        wanted: &[&Experiment],
        rig: &Rig<'_>,
        mut before: impl FnMut(&Experiment),
    ) -> Result<Account, ReproduceError> {
        let (mut experiments, mut left_out) = (Vec::new(), Vec::new());
        for (place, experiment) in wanted.iter().enumerate() {
            before(experiment);
            match (experiment.run)(rig) {
                Ok(found) => experiments.push(Told::new(experiment, found)),
                Err(ReproduceError::Stopped) => {
                    left_out.extend(wanted[place..].iter().map(|one| one.name.to_owned()));
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Account {
            study: self.name.to_owned(),
            source: self.source.to_owned(),
            only: self.only(wanted),
            seeds: rig.seeds().to_vec(),
            draws: rig.draws(),
            experiments,
            left_out,
        })
    }

    /// What `--only` has to name for these; nothing where they are all.
    fn only(&self, wanted: &[&Experiment]) -> Vec<String> {
        match wanted.len() == self.experiments.len() {
            true => Vec::new(),
            false => wanted.iter().map(|one| one.name.to_owned()).collect(),
        }
    }
}

impl Account {
    /// The command that tells the same again.
    pub fn command(&self) -> String {
        let only = match self.only.as_slice() {
            [] => String::new(),
            only => format!(" --only {}", only.join(",")),
        };
        let (study, seeds, draws) = (&self.study, self.seeds_word(), self.draws);
        format!("evenkeel reproduce {study}{only} --seeds {seeds} --draws {draws}")
    }

    /// As `--seeds` takes them: those from 1 on by their number, others one by one. A single seed that is not 1
    /// is a range, since a number alone counts.
    fn seeds_word(&self) -> String {
        match self.seeds.as_slice() {
            seeds if seeds.iter().copied().eq(1..=seeds.len() as u64) => seeds.len().to_string(),
            [only] => format!("{only}-{only}"),
            seeds => seeds.iter().map(u64::to_string).collect::<Vec<String>>().join(","),
        }
    }

    /// The machines of all experiments that were done, each once, in order.
    pub fn machines(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for machine in self.experiments.iter().flat_map(|told| &told.machines) {
            if !all.contains(machine) {
                all.push(machine.clone());
            }
        }
        all
    }
}
