//! A comparison as data tables for other programs: one row per job of every run, and one row per policy and
//! workload.
//!
//! The columns have the names of the fields in `compare.json`, with the unit last. Columns of a job start with
//! `job`. An absent value is an empty field.

use serde::Serialize;
use serde_json::Value;

use super::{Comparison, RunJobRow, RunRow, SummaryRow};
use crate::describe::{FieldDescription, JsonType};

/// A table with named columns.
#[derive(Clone, Debug, PartialEq)]
pub struct DataTable {
    /// Names of the columns.
    pub names: Vec<String>,
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

impl DataValue {
    /// Converts a field of a record in JSON to a value.
    fn of_json(value: &Value) -> Self {
        match value {
            Value::String(text) => DataValue::Text(text.clone()),
            Value::Bool(flag) => DataValue::Text(flag.to_string()),
            Value::Number(number) => match (number.as_u64(), number.as_f64()) {
                (Some(whole), _) => DataValue::Whole(whole),
                (None, Some(number)) => DataValue::Number(number),
                (None, None) => DataValue::Absent,
            },
            _ => DataValue::Absent,
        }
    }
}

/// Returns the columns for the fields of a record that are one value or an interval: the names of the columns, and the
/// JSON pointers of the values.
fn columns(fields: &[FieldDescription]) -> Vec<(String, String)> {
    /// Fields that only the page of the comparison uses. The fields `policy` and `command` identify a column.
    const EXCLUDED: [&str; 5] = ["column", "error", "report", "median_seed", "timeline"];
    let of_field = |field: &FieldDescription| {
        let mut shape = (field.shape)();
        if let JsonType::Maybe(inner) = shape {
            shape = *inner;
        }
        let name = field.name;
        match shape {
            JsonType::Record(..) => Vec::new(),
            JsonType::List(inner) if matches!(*inner, JsonType::Number) => {
                let end = |(idx, end)| (name.replace("ci95", end), format!("/{name}/{idx}"));
                [(0, "ci95_low"), (1, "ci95_high")].map(end).to_vec()
            }
            JsonType::List(_) => Vec::new(),
            _ => vec![(name.to_owned(), format!("/{name}"))],
        }
    };
    let fields = fields.iter().filter(|field| !EXCLUDED.contains(&field.name));
    fields.flat_map(of_field).collect()
}

fn values(record: &impl Serialize, columns: &[(String, String)]) -> Vec<DataValue> {
    let json = serde_json::to_value(record);
    let json = json.expect("numbers, strings and lists always have a JSON form");
    let value = |at: &str| json.pointer(at).map_or(DataValue::Absent, DataValue::of_json);
    columns.iter().map(|(_, at)| value(at)).collect()
}

fn names(columns: Vec<(String, String)>) -> impl Iterator<Item = String> {
    columns.into_iter().map(|(name, _)| name)
}

impl Comparison {
    /// Returns one row per job of every run, with the values of the run.
    pub fn job_table(&self) -> DataTable {
        let (of_run, of_job) = (columns(RunRow::FIELDS), columns(RunJobRow::FIELDS));
        let rows = self.runs.iter().flat_map(|run| {
            let run_values = values(run, &of_run);
            let row = |job: &RunJobRow| [run_values.clone(), values(job, &of_job)].concat();
            run.jobs.iter().map(row).collect::<Vec<_>>()
        });
        let rows = rows.collect();
        let job_names = names(of_job).map(|name| match name.as_str() {
            "name" => "job".to_owned(),
            _ => format!("job_{name}"),
        });
        DataTable { names: names(of_run).chain(job_names).collect(), rows }
    }

    /// Returns one row per policy and workload.
    pub fn summary_table(&self) -> DataTable {
        let columns = columns(SummaryRow::FIELDS);
        let rows = self.summary.iter().map(|row| values(row, &columns)).collect();
        DataTable { names: names(columns).collect(), rows }
    }
}

impl DataTable {
    /// Returns the table as CSV (RFC 4180, with line feeds). The first line has the names of the columns. A text that a
    /// spreadsheet would evaluate as a formula begins with an apostrophe.
    pub fn to_csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let field = |value: &DataValue| match value {
            DataValue::Text(text) => without_formula(text),
            DataValue::Whole(number) => number.to_string(),
            DataValue::Number(number) => number.to_string(),
            DataValue::Absent => String::new(),
        };
        let lines = self.rows.iter().map(|row| row.iter().map(field).collect::<Vec<_>>());
        for line in std::iter::once(self.names.clone()).chain(lines) {
            writer
                .write_record(&line)
                .expect("writing to memory succeeds, and rows have one length");
        }
        let bytes = writer.into_inner().expect("writing to memory succeeds");
        String::from_utf8(bytes).expect("all fields are UTF-8")
    }
}

/// Returns a text that no spreadsheet evaluates. Names are untrusted, and a spreadsheet evaluates a cell that begins
/// with one of these characters (OWASP, CSV Injection). After an apostrophe, the cell is text.
fn without_formula(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if is_formula { format!("'{text}") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> DataValue {
        DataValue::Text(text.to_owned())
    }

    #[test]
    fn names_that_begin_like_a_formula_are_text_and_numbers_stay() {
        let names = ["=cmd()", "+1", "-x", "@a", "\tx", "a=b"].map(text);
        let table = DataTable {
            names: vec!["job".to_owned(), "n".to_owned()],
            rows: names.map(|name| vec![name, DataValue::Number(-1.5)]).to_vec(),
        };
        let csv = table.to_csv();
        assert_eq!(csv, "job,n\n'=cmd(),-1.5\n'+1,-1.5\n'-x,-1.5\n'@a,-1.5\n'\tx,-1.5\na=b,-1.5\n");
    }

    #[test]
    fn absent_values_are_empty_and_names_with_commas_are_quoted() {
        let table = DataTable {
            names: ["policy", "slowdown", "seed"].map(str::to_owned).to_vec(),
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
