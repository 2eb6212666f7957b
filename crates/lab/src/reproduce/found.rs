//! What an experiment found: tables, and claims with a verdict each.

use report::study::{Drawing, ReadingWord, StudyCell, StudyColumn, StudyFigure, StudyVerdict};

use super::Experiment;

/// Which rules ran: as printed, or as we mend them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

    /// The same for programs.
    pub fn told(self) -> ReadingWord {
        match self {
            Reading::Paper => ReadingWord::Paper,
            Reading::Ours => ReadingWord::Ours,
            Reading::Either => ReadingWord::Either,
        }
    }
}

/// What is said of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

    /// The same for programs.
    pub fn told(self) -> StudyVerdict {
        match self {
            Verdict::Reproduces => StudyVerdict::Reproduces,
            Verdict::DoesNotReproduce => StudyVerdict::DoesNotReproduce,
            Verdict::DependsOnTheProfile => StudyVerdict::DependsOnTheProfile,
            Verdict::NotJudged => StudyVerdict::NotJudged,
        }
    }
}

/// Something that the source says, and whether it comes out.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// What is claimed, with its limit.
    pub claim: String,
    /// Under which rules it was looked at.
    pub reading: Reading,
    /// What came out, in words.
    pub found: String,
    /// The figures in it that the verdict rests on.
    pub figures: Vec<StudyFigure>,
    /// What follows.
    pub verdict: Verdict,
}

impl Claim {
    /// A claim with its verdict. Words that are figures alone are told as figures, too.
    pub fn new(
        claim: &str,
        reading: Reading,
        found: impl Into<StudyCell>,
        verdict: Verdict,
    ) -> Self {
        let StudyCell { text, figures } = found.into().in_unit(PLAIN);
        Claim { claim: claim.to_owned(), reading, found: text, figures, verdict }
    }

    /// One that holds or not; nothing can be said of it where too little is known (`None`).
    pub fn judged(
        claim: &str,
        reading: Reading,
        found: impl Into<StudyCell>,
        holds: Option<bool>,
    ) -> Self {
        Claim::new(claim, reading, found, holds.map_or(Verdict::NotJudged, Verdict::of))
    }

    /// One that holds in so many draws.
    pub fn drawn(claim: &str, reading: Reading, held: usize, draws: usize) -> Self {
        let found = StudyCell::new(
            format!("in {held} of {draws} draws"),
            vec![StudyFigure::count(held, draws)],
        );
        Claim::new(claim, reading, found, Verdict::of_draws(held, draws))
    }

    /// The same resting on these figures, where its words tell more than them.
    #[must_use]
    pub fn on(self, figures: impl IntoIterator<Item = StudyFigure>) -> Self {
        Claim { figures: figures.into_iter().collect(), ..self }
    }
}

/// The unit of a plain number: a ratio, a rank correlation, a group.
const PLAIN: &str = "1";

/// Figures in rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// What it shows, with the unit.
    pub title: String,
    /// Its columns.
    pub columns: Vec<StudyColumn>,
    /// A row each; as many cells as columns.
    pub rows: Vec<Vec<StudyCell>>,
    /// How the page draws it; the drawing shows the cells and nothing else.
    pub drawing: Drawing,
}

impl Table {
    /// An empty one of plain numbers.
    pub fn new(title: &str, heads: &[&str]) -> Self {
        let column = |head: &&str| StudyColumn {
            head: (*head).to_owned(),
            unit: PLAIN.to_owned(),
            is_published: false,
        };
        let columns = heads.iter().map(column).collect();
        Table { title: title.to_owned(), columns, rows: Vec::new(), drawing: Drawing::None }
    }

    /// The same with the units of the columns behind the first; the last holds for all that follow.
    #[must_use]
    pub fn units(mut self, units: &[&str]) -> Self {
        let last = units.last().copied().unwrap_or(PLAIN);
        let units = units.iter().copied().chain(std::iter::repeat(last));
        let columns = self.columns.iter_mut().skip(1);
        columns.zip(units).for_each(|(column, unit)| unit.clone_into(&mut column.unit));
        self
    }

    /// The same where figures under these heads are the paper's.
    #[must_use]
    pub fn published(mut self, heads: &[&str]) -> Self {
        let theirs = self.columns.iter_mut().filter(|column| heads.contains(&&*column.head));
        theirs.for_each(|column| column.is_published = true);
        self
    }

    /// The same, drawn on the page.
    #[must_use]
    pub fn drawn(self, drawing: Drawing) -> Self {
        Table { drawing, ..self }
    }

    /// One more row.
    pub fn row<C: Into<StudyCell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let units = self.columns.iter().map(|column| column.unit.as_str());
        let cells = cells.into_iter().zip(units.chain(std::iter::repeat(PLAIN)));
        self.rows.push(cells.map(|(cell, unit)| cell.into().in_unit(unit)).collect());
    }
}

/// What an experiment found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Figures.
    pub tables: Vec<Table>,
    /// Verdicts.
    pub claims: Vec<Claim>,
    /// Why it is so, and what is to be known beside it; a sentence each.
    pub why: Vec<String>,
}

/// An experiment as it is told, with what it found.
#[derive(Clone, Debug)]
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
    /// The machines that it is done on.
    pub machines: Vec<String>,
    /// What came out.
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
            machines: experiment.machines.iter().map(|name| (*name).to_owned()).collect(),
            found,
        }
    }
}
