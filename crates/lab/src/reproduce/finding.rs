//! Result of an experiment: tables, claims with a verdict each, and notes.

use report::format::{fixed, or_absent, signed};
use report::study::{
    ChartKind, RuleReading, StudyCell, StudyClaim, StudyColumn, StudyTable, StudyValue,
    StudyVerdict,
};

use crate::shipped::ProfileSet;
use crate::stats::pairs_needed;

/// Both readings of a policy whose published rules contain errors: as printed, and as corrected.
pub(super) const BOTH_READINGS: [RuleReading; 2] = [RuleReading::Paper, RuleReading::Corrected];

/// The unit of a plain number: a ratio, a rank correlation, a group.
const PLAIN: &str = "1";

/// A table with its chart on the HTML page.
#[derive(Clone, Debug, PartialEq)]
pub struct FindingTable {
    /// Title, columns and rows.
    pub data: StudyTable,
    /// The chart above the table on the page, which plots the cells of the table.
    pub chart: ChartKind,
}

impl FindingTable {
    /// Creates an empty table of plain numbers.
    pub fn new(title: &str, heads: &[&str]) -> Self {
        let column = |head: &&str| StudyColumn {
            head: (*head).to_owned(),
            unit: PLAIN.to_owned(),
            is_published: false,
        };
        let columns = heads.iter().map(column).collect();
        let data = StudyTable { title: title.to_owned(), columns, rows: Vec::new() };
        FindingTable { data, chart: ChartKind::None }
    }

    /// Sets the units of all columns but the first. The last unit applies to all columns that follow.
    #[must_use]
    pub fn units(mut self, units: &[&str]) -> Self {
        let last = units.last().copied().unwrap_or(PLAIN);
        let units = units.iter().copied().chain(std::iter::repeat(last));
        let columns = self.data.columns.iter_mut().skip(1);
        columns.zip(units).for_each(|(column, unit)| unit.clone_into(&mut column.unit));
        self
    }

    /// Marks the columns with these headers as published values.
    #[must_use]
    pub fn published(mut self, heads: &[&str]) -> Self {
        let published =
            self.data.columns.iter_mut().filter(|column| heads.contains(&&*column.head));
        published.for_each(|column| column.is_published = true);
        self
    }

    /// Sets the chart.
    #[must_use]
    pub fn drawn(self, chart: ChartKind) -> Self {
        FindingTable { chart, ..self }
    }

    /// Appends a row.
    pub fn row<C: Into<StudyCell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let units = self.data.columns.iter().map(|column| column.unit.as_str());
        let cells = cells.into_iter().zip(units.chain(std::iter::repeat(PLAIN)));
        self.data.rows.push(cells.map(|(cell, unit)| cell.into().in_unit(unit)).collect());
    }
}

/// Result of an experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Finding {
    /// The values.
    pub tables: Vec<FindingTable>,
    /// The verdicts.
    pub claims: Vec<StudyClaim>,
    /// Causes, and restrictions on the interpretation of the values; a sentence each.
    pub notes: Vec<String>,
}

impl Finding {
    /// Appends the parts of another result.
    pub fn extend(&mut self, other: Finding) {
        self.tables.extend(other.tables);
        self.claims.extend(other.claims);
        self.notes.extend(other.notes);
    }

    /// Adds the set of profiles to every text of a result.
    pub(super) fn of_profiles(mut self, set: ProfileSet) -> Self {
        let titles = self.tables.iter_mut().map(|table| &mut table.data.title);
        let claims = self.claims.iter_mut().map(|claim| &mut claim.claim);
        for text in titles.chain(claims).chain(&mut self.notes) {
            text.insert_str(0, &format!("profiles={}: ", set.name()));
        }
        self
    }
}

/// Returns a claim with its verdict. A text that consists of numbers alone also becomes the claim's values.
pub(super) fn claim(
    text: &str,
    reading: RuleReading,
    found: impl Into<StudyCell>,
    verdict: StudyVerdict,
) -> StudyClaim {
    let StudyCell { text: result, values } = found.into().in_unit(PLAIN);
    StudyClaim { claim: text.to_owned(), reading, result, values, verdict }
}

/// Returns a claim that is true, false, or unknown (`None`: not judged).
pub(super) fn judged_claim(
    text: &str,
    reading: RuleReading,
    found: impl Into<StudyCell>,
    is_true: Option<bool>,
) -> StudyClaim {
    let verdict = match is_true {
        Some(true) => StudyVerdict::Reproduces,
        Some(false) => StudyVerdict::DoesNotReproduce,
        None => StudyVerdict::NotJudged,
    };
    claim(text, reading, found, verdict)
}

/// Returns a claim that was not judged, with the reason.
pub(super) fn unjudged_claim(text: &str, reading: RuleReading, reason: &str) -> StudyClaim {
    claim(text, reading, reason, StudyVerdict::NotJudged)
}

/// Returns a claim that is true in `n_true` of `n_draws` draws.
pub(super) fn drawn(text: &str, reading: RuleReading, n_true: usize, n_draws: usize) -> StudyClaim {
    let found = format!("in {n_true} of {n_draws} draws");
    let found = StudyCell::new(found, vec![StudyValue::count(n_true, n_draws)]);
    claim(text, reading, found, verdict_of_draws(n_true, n_draws))
}

/// Returns the claim with these values instead of the values in its text.
pub(super) fn with_values(
    claim: StudyClaim,
    values: impl IntoIterator<Item = StudyValue>,
) -> StudyClaim {
    StudyClaim { values: values.into_iter().collect(), ..claim }
}

/// Smallest number of draws with a verdict: with fewer draws 95 % of them are all of them.
const N_DRAWS_MIN: usize = 20;

/// Returns the note about verdicts from few seeds: a comparison of so few pairs has no verdict either.
pub(super) fn seeds_note(n_seeds: usize) -> Option<String> {
    let needed = pairs_needed(1);
    (n_seeds < needed).then(|| {
        let seeds = base::counted_noun(n_seeds, "seed");
        format!(
            "Verdicts that depend on random numbers are preliminary: {seeds}, {needed} are needed."
        )
    })
}

/// Returns the verdict of a claim over draws: it reproduces if it is true in at least 95 % of the draws, and does not
/// reproduce if it is true in at most 5 %. Fewer than [`N_DRAWS_MIN`] draws have no verdict. The limits are evenkeel's
/// choice, made before the first run.
pub(super) fn verdict_of_draws(n_true: usize, n_draws: usize) -> StudyVerdict {
    match n_draws {
        0..N_DRAWS_MIN => StudyVerdict::NotJudged,
        _ if n_draws * 95 <= n_true * 100 => StudyVerdict::Reproduces,
        _ if n_true * 100 <= n_draws * 5 => StudyVerdict::DoesNotReproduce,
        _ => StudyVerdict::DependsOnTheProfile,
    }
}

/// Returns a fraction as a value in percent.
pub(super) fn in_percent(fraction: Option<f64>) -> Option<StudyValue> {
    fraction.map(|fraction| StudyValue::of(fraction * 100.0, "%"))
}

/// Returns a number with `digits` decimals; a dash if it is unknown.
pub(super) fn number(value: Option<f64>, digits: usize) -> String {
    or_absent(value, |value| fixed(value, digits))
}

/// Returns a fraction in percent with its sign; a dash if it is unknown.
pub(super) fn percent(fraction: Option<f64>) -> String {
    or_absent(fraction, |fraction| signed(fraction * 100.0, 1))
}
