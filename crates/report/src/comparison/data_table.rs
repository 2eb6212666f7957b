//! A comparison as data tables for other programs: one row per job of every run, and one row per policy and
//! workload.
//!
//! The columns have the names of the fields in `compare.json`, with the unit last. Columns of a job start with
//! `job`. An absent value is an empty field.

use super::{Comparison, RunJobRow, RunRow, SummaryRow};

/// A table with named columns.
#[derive(Clone, Debug, PartialEq)]
pub struct DataTable {
    /// Names of the columns.
    pub names: Vec<&'static str>,
    /// The rows, with one value per column.
    pub rows: Vec<Vec<DataValue>>,
}

/// A value. All values of a column have the same type, or are absent.
#[derive(Clone, Debug, PartialEq)]
pub enum DataValue {
    /// Text.
    Text(String),
    /// A non-negative integer.
    Whole(u64),
    /// A floating-point number.
    Number(f64),
    /// No value.
    Absent,
}

impl From<Option<f64>> for DataValue {
    fn from(number: Option<f64>) -> Self {
        number.map_or(DataValue::Absent, DataValue::Number)
    }
}

fn text(text: &str) -> DataValue {
    DataValue::Text(text.to_owned())
}

/// A column: its name and its value.
type DataColumn<T> = (&'static str, fn(&T) -> DataValue);

const RUN: [DataColumn<RunRow>; 10] = [
    ("policy", |run| text(&run.policy)),
    ("workload", |run| text(&run.workload)),
    ("seed", |run| DataValue::Whole(run.seed)),
    ("status", |run| text(run.status.name())),
    ("makespan_s", |run| DataValue::Number(run.makespan_s)),
    ("slowdown", |run| run.slowdown.into()),
    ("unfairness", |run| run.unfairness.into()),
    ("n_migrations", |run| DataValue::Whole(run.n_migrations)),
    ("n_moves", |run| DataValue::Whole(run.n_moves)),
    ("pages_moved_bytes", |run| DataValue::Whole(run.pages_moved_bytes)),
];

const JOB: [DataColumn<RunJobRow>; 4] = [
    ("job", |job| text(&job.name)),
    ("job_start_s", |job| job.start_s.into()),
    ("job_end_s", |job| job.end_s.into()),
    ("job_slowdown", |job| job.slowdown.into()),
];

const SUMMARY: [DataColumn<SummaryRow>; 24] = [
    ("policy", |row| text(&row.policy)),
    ("workload", |row| text(&row.workload)),
    ("n_runs", |row| DataValue::Whole(row.n_runs)),
    ("n_excluded", |row| DataValue::Whole(row.n_excluded)),
    ("mean_s", |row| row.mean_s.into()),
    ("median_s", |row| row.median_s.into()),
    ("ci95_low_s", |row| end(row.ci95_s.as_deref(), 0)),
    ("ci95_high_s", |row| end(row.ci95_s.as_deref(), 1)),
    ("min_s", |row| row.min_s.into()),
    ("max_s", |row| row.max_s.into()),
    ("variation", |row| row.variation.into()),
    ("ratio_to_baseline", |row| row.ratio_to_baseline.into()),
    ("ratio_ci95_low", |row| end(row.ratio_ci95.as_deref(), 0)),
    ("ratio_ci95_high", |row| end(row.ratio_ci95.as_deref(), 1)),
    ("n_pairs", |row| DataValue::Whole(row.n_pairs)),
    ("p", |row| row.p.into()),
    ("p_holm", |row| row.p_holm.into()),
    ("verdict", |row| row.verdict.map_or(DataValue::Absent, |word| text(word.name()))),
    ("oracle_gap", |row| row.oracle_gap.into()),
    ("slowdown", |row| row.slowdown.into()),
    ("unfairness", |row| row.unfairness.into()),
    ("n_migrations", |row| row.n_migrations.into()),
    ("n_moves", |row| row.n_moves.into()),
    ("pages_moved_bytes", |row| row.pages_moved_bytes.into()),
];

fn end(ends: Option<&[f64]>, which: usize) -> DataValue {
    ends.and_then(|ends| ends.get(which).copied()).into()
}

impl Comparison {
    /// One row per job of every run, with the values of the run.
    pub fn job_table(&self) -> DataTable {
        let names = RUN.iter().map(|(name, _)| *name).chain(JOB.iter().map(|(name, _)| *name));
        let rows = self.runs.iter().flat_map(|run| {
            run.jobs.iter().map(move |job| {
                let run_values = RUN.iter().map(|(_, of)| of(run));
                run_values.chain(JOB.iter().map(|(_, of)| of(job))).collect()
            })
        });
        DataTable { names: names.collect(), rows: rows.collect() }
    }

    /// One row per policy and workload.
    pub fn summary_table(&self) -> DataTable {
        let row = |row: &SummaryRow| SUMMARY.iter().map(|(_, of)| of(row)).collect();
        DataTable {
            names: SUMMARY.iter().map(|(name, _)| *name).collect(),
            rows: self.summary.iter().map(row).collect(),
        }
    }
}

impl DataTable {
    /// CSV (RFC 4180, with line feeds). The first line has the names of the columns.
    pub fn to_csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let field = |value: &DataValue| match value {
            DataValue::Text(text) => text.clone(),
            DataValue::Whole(number) => number.to_string(),
            DataValue::Number(number) => number.to_string(),
            DataValue::Absent => String::new(),
        };
        let lines = self.rows.iter().map(|row| row.iter().map(field).collect::<Vec<_>>());
        let heads = self.names.iter().map(|name| (*name).to_owned()).collect();
        for line in std::iter::once(heads).chain(lines) {
            writer
                .write_record(&line)
                .expect("writing to memory succeeds, and rows have one length");
        }
        let bytes = writer.into_inner().expect("writing to memory succeeds");
        String::from_utf8(bytes).expect("all fields are UTF-8")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_values_are_empty_and_names_with_commas_are_quoted() {
        let table = DataTable {
            names: vec!["policy", "slowdown", "seed"],
            rows: vec![
                vec![text("dfs[a=1,b=2]"), DataValue::Absent, DataValue::Whole(3)],
                vec![text("a \"x\"\n"), DataValue::Number(1.25), DataValue::Whole(4)],
            ],
        };
        expect_test::expect![[r#"
            policy,slowdown,seed
            "dfs[a=1,b=2]",,3
            "a ""x""
            ",1.25,4
        "#]]
        .assert_eq(&table.to_csv());
    }
}
