//! The result of a study, each field with its label, unit and meaning.

use crate::describe::{names, record};

/// Version of the format of `evenkeel reproduce --json`.
pub const FORMAT: u32 = 2;

record! {
    /// The result of a study: published claims and values, and the reproduced values.
    StudyResult {
        format: u32, "Format", Plain, "Version of this format.";
        tool: String, "Version", Plain, "Version of evenkeel that ran the study.";
        command: String, "Command", Plain, "The command that prints the same result; the number of parallel runs does not change the result.";
        study: String, "Study", Plain, "Name of the study on the command line.";
        source: String, "Source", Plain, "The publication.";
        selected: Vec<String>, "Selected", Plain, "The selected experiments; empty: all of the study.";
        seeds: Vec<u64>, "Seeds", Plain, "All seeds. An experiment with other seeds has a note.";
        n_seeds_needed: u64, "Seeds needed", Count, "Minimum number of seeds for a verdict that depends on random numbers; with fewer seeds, such verdicts are preliminary.";
        n_draws: u64, "Draws", Count, "Number of draws from the ranges of uncertain profiles, for experiments that draw.";
        machines: Vec<String>, "Machines", Plain, "Names of the machines of all completed experiments; shipped machines are files in workloads/machines.";
        experiments: Vec<StudyExperiment>, "Experiments", Plain, "The completed experiments, in order.";
        not_run: Vec<String>, "Not run", Plain, "Selected experiments that were not run because the command was interrupted.";
    }
}

record! {
    /// An experiment: a claim or a question of the publication.
    StudyExperiment {
        name: String, "Name", Plain, "Name on the command line.";
        title: String, "Title", Plain, "Subject of the experiment.";
        source: String, "Source", Plain, "The claims of the publication.";
        limit: String, "Limit", Plain, "Condition for the verdict `reproduces`, and the origin of the limit.";
        method: String, "Method", Plain, "Computation of the values.";
        machines: Vec<String>, "Machines", Plain, "Names of the machines before variations; the name of a synthetic machine is its description.";
        tables: Vec<StudyTable>, "Tables", Plain, "The values.";
        claims: Vec<StudyClaim>, "Claims", Plain, "The claims, each with its verdict.";
        notes: Vec<String>, "Notes", Plain, "Causes, and restrictions on the values; a sentence each.";
    }
}

record! {
    /// A table of values.
    StudyTable {
        title: String, "Title", Plain, "Subject of the table.";
        columns: Vec<StudyColumn>, "Columns", Plain, "The columns; the first is the name of the row.";
        rows: Vec<Vec<StudyCell>>, "Rows", Plain, "The rows, with one cell per column.";
    }
}

record! {
    /// A column of a table.
    StudyColumn {
        head: String, "Header", Plain, "Column header.";
        unit: String, "Unit", Plain, "Unit of the values without a unit of their own; 1 for plain numbers.";
        is_published: bool, "Published", Plain, "Whether the values are from the publication.";
    }
}

record! {
    /// A cell of a table.
    StudyCell {
        text: String, "Text", Plain, "The cell as printed; a dash without a value.";
        values: Vec<StudyValue>, "Values", Plain, "The values in the text; empty for words or a dash.";
    }
}

record! {
    /// A value. A mean with a confidence interval is not rounded; other values are rounded as their text.
    StudyValue {
        value: Option<f64>, "Value", Plain, "The value, or the mean; absent for a range.";
        low: Option<f64>, "Low", Plain, "Lower end of the 95 % confidence interval, or of a range; absent without an interval or range.";
        high: Option<f64>, "High", Plain, "Upper end of the interval or range.";
        n_of: Option<u64>, "Of", Count, "Total number, if `value` is a number of this total, as in 4 of 10.";
        unit: String, "Unit", Plain, "Unit: %, points (of %), s, MB/s, million/s, GiB, 1/s, 1/min, 1/h, GiB/h, count, or 1 for a plain number.";
    }
}

record! {
    /// A claim of the publication with its verdict.
    StudyClaim {
        claim: String, "Claim", Plain, "The claim with its limit.";
        reading: RuleReading, "Reading", Plain, "The rules of the simulated policy.";
        result: String, "Result", Plain, "The result as text.";
        values: Vec<StudyValue>, "Values", Plain, "The values that the verdict is based on, if they are few; otherwise the tables contain them.";
        verdict: StudyVerdict, "Verdict", Plain, "The verdict.";
    }
}

names! {
    /// The rules of a simulated policy.
    RuleReading {
        Paper "paper" "As published, including errors.";
        Corrected "corrected" "As corrected.";
        Either "either" "The result does not depend on the rules.";
    }
}

names! {
    /// The verdict on a claim.
    StudyVerdict {
        Reproduces "reproduces" "The claim is true here.";
        DoesNotReproduce "does-not-reproduce" "The claim is false here.";
        DependsOnTheProfile "depends-on-the-profile" "The claim is true in some draws from the ranges of the profiles and false in others.";
        NotJudged "not-judged" "Too few runs finished, or the data are insufficient; the result has the reason.";
    }
}

impl StudyVerdict {
    /// Returns the word without hyphens.
    pub fn text(self) -> String {
        self.name().replace('-', " ")
    }

    /// Returns the sign of a verdict and its class in the styles.
    pub(super) fn mark(self) -> (&'static str, &'static str) {
        match self {
            StudyVerdict::Reproduces => ("✓", "better"),
            StudyVerdict::DoesNotReproduce => ("✕", "worse"),
            StudyVerdict::DependsOnTheProfile => ("~", "inconclusive"),
            StudyVerdict::NotJudged => ("–", "none"),
        }
    }
}

impl StudyResult {
    /// Returns the result as one JSON object, documented in `docs/report-fields.md` and `docs/reproduce.schema.json`,
    /// without a line feed at the end.
    ///
    /// # Errors
    /// No error is known: numbers, strings and lists always have a JSON form.
    pub fn to_json(&self) -> serde_json::Result<String> {
        base::json::to_indented(self)
    }
}
