//! A comparison as tables for other programs: one with a row for every job of every run, one with a row for
//! every policy on every workload.
//!
//! The columns have the names of the fields in `compare.json`, units last; those of a job begin with `job`.
//! What is absent is an empty field.

use super::{Comparison, RunJobRow, RunRow, SummaryRow};

/// A table whose columns have names.
#[derive(Clone, Debug, PartialEq)]
pub struct DataTable {
    /// The columns.
    pub names: Vec<&'static str>,
    /// As many values a row as there are columns.
    pub rows: Vec<Vec<Value>>,
}

/// What stands in a field. All fields of a column are of one kind, or absent.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Words.
    Text(String),
    /// A whole number.
    Whole(u64),
    /// A number.
    Number(f64),
    /// Nothing is known.
    Absent,
}

impl From<Option<f64>> for Value {
    fn from(number: Option<f64>) -> Self {
        number.map_or(Value::Absent, Value::Number)
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// The columns of a run and of a job of it.
type Of<T> = (&'static str, fn(&T) -> Value);

const RUN: [Of<RunRow>; 10] = [
    ("policy", |run| text(&run.policy)),
    ("workload", |run| text(&run.workload)),
    ("seed", |run| Value::Whole(run.seed)),
    ("ended", |run| text(run.ended.word())),
    ("whole_s", |run| Value::Number(run.whole_s)),
    ("slowdown", |run| run.slowdown.into()),
    ("unfairness", |run| run.unfairness.into()),
    ("n_migrations", |run| Value::Whole(run.n_migrations)),
    ("n_moves", |run| Value::Whole(run.n_moves)),
    ("pages_moved_bytes", |run| Value::Whole(run.pages_moved_bytes)),
];

const JOB: [Of<RunJobRow>; 4] = [
    ("job", |job| text(&job.name)),
    ("job_start_s", |job| job.start_s.into()),
    ("job_end_s", |job| job.end_s.into()),
    ("job_slowdown", |job| job.slowdown.into()),
];

const SUMMARY: [Of<SummaryRow>; 24] = [
    ("policy", |row| text(&row.policy)),
    ("workload", |row| text(&row.workload)),
    ("n_runs", |row| Value::Whole(row.n_runs)),
    ("n_left_out", |row| Value::Whole(row.n_left_out)),
    ("mean_s", |row| row.mean_s.into()),
    ("median_s", |row| row.median_s.into()),
    ("ci95_low_s", |row| end(row.ci95_s.as_deref(), 0)),
    ("ci95_high_s", |row| end(row.ci95_s.as_deref(), 1)),
    ("least_s", |row| row.least_s.into()),
    ("most_s", |row| row.most_s.into()),
    ("spread", |row| row.spread.into()),
    ("ratio_to_baseline", |row| row.ratio_to_baseline.into()),
    ("ratio_ci95_low", |row| end(row.ratio_ci95.as_deref(), 0)),
    ("ratio_ci95_high", |row| end(row.ratio_ci95.as_deref(), 1)),
    ("n_pairs", |row| Value::Whole(row.n_pairs)),
    ("p", |row| row.p.into()),
    ("p_holm", |row| row.p_holm.into()),
    ("verdict", |row| row.verdict.map_or(Value::Absent, |word| text(word.word()))),
    ("oracle_gap", |row| row.oracle_gap.into()),
    ("slowdown", |row| row.slowdown.into()),
    ("unfairness", |row| row.unfairness.into()),
    ("n_migrations", |row| row.n_migrations.into()),
    ("n_moves", |row| row.n_moves.into()),
    ("pages_moved_bytes", |row| row.pages_moved_bytes.into()),
];

fn end(ends: Option<&[f64]>, which: usize) -> Value {
    ends.and_then(|ends| ends.get(which).copied()).into()
}

impl Comparison {
    /// A row for every job of every run, with the figures of the run beside it.
    pub fn job_table(&self) -> DataTable {
        let names = RUN.iter().map(|(name, _)| *name).chain(JOB.iter().map(|(name, _)| *name));
        let rows = self.runs.iter().flat_map(|run| {
            run.jobs.iter().map(move |job| {
                let of_run = RUN.iter().map(|(_, of)| of(run));
                of_run.chain(JOB.iter().map(|(_, of)| of(job))).collect()
            })
        });
        DataTable { names: names.collect(), rows: rows.collect() }
    }

    /// A row for every policy on every workload.
    pub fn summary_table(&self) -> DataTable {
        let row = |row: &SummaryRow| SUMMARY.iter().map(|(_, of)| of(row)).collect();
        DataTable {
            names: SUMMARY.iter().map(|(name, _)| *name).collect(),
            rows: self.summary.iter().map(row).collect(),
        }
    }
}

impl DataTable {
    /// As CSV (RFC 4180, line feeds), its first line the names.
    pub fn to_csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let shown = |value: &Value| match value {
            Value::Text(text) => text.clone(),
            Value::Whole(number) => number.to_string(),
            Value::Number(number) => number.to_string(),
            Value::Absent => String::new(),
        };
        let lines = self.rows.iter().map(|row| row.iter().map(shown).collect::<Vec<_>>());
        let heads = self.names.iter().map(|name| (*name).to_owned()).collect();
        for line in std::iter::once(heads).chain(lines) {
            writer.write_record(&line).expect("memory takes everything, and rows have one length");
        }
        let bytes = writer.into_inner().expect("memory takes everything");
        String::from_utf8(bytes).expect("what was text is text")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_absent_is_empty_and_names_with_commas_are_quoted() {
        let table = DataTable {
            names: vec!["policy", "slowdown", "seed"],
            rows: vec![
                vec![text("dfs[a=1,b=2]"), Value::Absent, Value::Whole(3)],
                vec![text("say \"x\"\n"), Value::Number(1.25), Value::Whole(4)],
            ],
        };
        expect_test::expect![[r#"
            policy,slowdown,seed
            "dfs[a=1,b=2]",,3
            "say ""x""
            ",1.25,4
        "#]]
        .assert_eq(&table.to_csv());
    }
}
