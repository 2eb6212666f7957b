//! What an experiment found: tables, and claims with a verdict each.

use report::study::Drawing;
use serde::Serialize;

use super::Experiment;

/// Which rules ran: as printed, or as we mend them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// As printed, faults included.
    Paper,
    /// As mended.
    Ours,
    /// Nothing of it hangs on the reading.
    Either,
}

impl Reading {
    /// The two that may differ.
    pub const BOTH: [Reading; 2] = [Reading::Paper, Reading::Ours];

    /// How it is written.
    pub fn word(self) -> &'static str {
        match self {
            Reading::Paper => "paper",
            Reading::Ours => "ours",
            Reading::Either => "either",
        }
    }
}

/// What is said of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It comes out here.
    Reproduces,
    /// It does not.
    DoesNotReproduce,
    /// In some draws from the ranges of the profiles it does, in others not.
    DependsOnTheProfile,
    /// It was not judged; `found` says why.
    NotJudged,
}

impl Verdict {
    /// From a yes or no.
    pub fn of(holds: bool) -> Self {
        if holds { Verdict::Reproduces } else { Verdict::DoesNotReproduce }
    }

    /// From the number of draws in which it holds (spec 8.3): 95 % or more holds, 5 % or less fails.
    pub fn of_draws(held: usize, draws: usize) -> Self {
        match draws {
            0 => Verdict::NotJudged,
            _ if draws * 95 <= held * 100 => Verdict::Reproduces,
            _ if held * 100 <= draws * 5 => Verdict::DoesNotReproduce,
            _ => Verdict::DependsOnTheProfile,
        }
    }

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Reproduces => "reproduces",
            Verdict::DoesNotReproduce => "does not reproduce",
            Verdict::DependsOnTheProfile => "depends on the profile",
            Verdict::NotJudged => "not judged",
        }
    }
}

/// Something that the source says, and whether it comes out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Claim {
    /// What is claimed, with its limit.
    pub claim: String,
    /// Under which rules it was looked at.
    pub reading: Reading,
    /// What came out.
    pub found: String,
    /// What follows.
    pub verdict: Verdict,
}

impl Claim {
    /// A claim that holds or does not.
    pub fn new(claim: &str, reading: Reading, found: String, holds: bool) -> Self {
        Claim { claim: claim.to_owned(), reading, found, verdict: Verdict::of(holds) }
    }

    /// One of which nothing can be said where too few runs ended well (`None`).
    pub fn judged(claim: &str, reading: Reading, found: String, holds: Option<bool>) -> Self {
        let verdict = holds.map_or(Verdict::NotJudged, Verdict::of);
        Claim { claim: claim.to_owned(), reading, found, verdict }
    }

    /// One that holds in so many draws.
    pub fn drawn(claim: &str, reading: Reading, held: usize, draws: usize) -> Self {
        let found = format!("in {held} of {draws} draws");
        let verdict = Verdict::of_draws(held, draws);
        Claim { claim: claim.to_owned(), reading, found, verdict }
    }
}

/// Figures in rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Table {
    /// What it shows, with the unit.
    pub title: String,
    /// Names of the columns.
    pub heads: Vec<String>,
    /// A row each; as many cells as heads.
    pub rows: Vec<Vec<String>>,
    /// How the page draws it; the drawing shows the cells and nothing else.
    pub drawing: Drawing,
}

impl Table {
    /// An empty one.
    pub fn new(title: &str, heads: &[&str]) -> Self {
        let heads = heads.iter().map(|head| (*head).to_owned()).collect();
        Table { title: title.to_owned(), heads, rows: Vec::new(), drawing: Drawing::None }
    }

    /// The same, drawn on the page.
    pub fn drawn(self, drawing: Drawing) -> Self {
        Table { drawing, ..self }
    }

    /// One more row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

/// What an experiment found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Found {
    /// Figures.
    pub tables: Vec<Table>,
    /// Verdicts.
    pub claims: Vec<Claim>,
    /// Why it is so, and what is to be known beside it; a sentence each.
    pub why: Vec<String>,
}

/// An experiment as it is told, with what it found.
#[derive(Clone, Debug, Serialize)]
pub struct Told {
    /// Its name.
    pub name: String,
    /// What it is about.
    pub title: String,
    /// What the source says.
    pub says: String,
    /// The limit of the verdict.
    pub limit: String,
    /// How ours is reckoned.
    pub how: String,
    /// What came out.
    #[serde(flatten)]
    pub found: Found,
}

impl Told {
    /// Puts them together.
    pub fn new(experiment: &Experiment, found: Found) -> Self {
        Told {
            name: experiment.name.to_owned(),
            title: experiment.title.to_owned(),
            says: experiment.says.to_owned(),
            limit: experiment.limit.to_owned(),
            how: experiment.how.to_owned(),
            found,
        }
    }
}
