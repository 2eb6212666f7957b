//! What was counted of jobs: a line a job.

use super::{Align, Table, about};
use crate::model::{JobRow, Report};
use crate::units::{ABSENT, bytes, count};

/// So many jobs are shown all.
const N_ALL: usize = 20;
/// Jobs shown of more; the page and the JSON have all of them.
const N_SHOWN: usize = 5;

/// A column: its head and the cell of a job, `None` where nothing was counted.
type Column = (&'static str, fn(&JobRow) -> Option<String>);

/// Columns that no job has anything for are left out.
const COLUMNS: [Column; 6] = [
    ("faults", |job| of(job, "page-faults")),
    ("switches", |job| of(job, "context-switches")),
    ("migrations", |job| job.n_migrations.map(|n| about(job.n_migrations_is_estimate) + &count(n))),
    ("instr/cycle", |job| job.instructions_per_cycle.map(|n| format!("{n:.2}"))),
    ("misses/kinstr", |job| job.misses_per_kilo_instruction.map(|n| format!("{n:.2}"))),
    ("traffic", |job| job.traffic_bytes.map(bytes)),
];

pub(super) fn counted(report: &Report, width: usize) -> String {
    table(&report.jobs.iter().collect::<Vec<_>>(), width)
}

fn table(jobs: &[&JobRow], width: usize) -> String {
    let jobs: Vec<&JobRow> = jobs.iter().copied().filter(|job| !job.counted.is_empty()).collect();
    if jobs.is_empty() {
        return String::new();
    }
    let n_shown = if jobs.len() <= N_ALL { jobs.len() } else { N_SHOWN };
    let shown = &jobs[..n_shown];
    let is_told = |(_, cell): &Column| shown.iter().any(|job| cell(job).is_some());
    let columns: Vec<Column> = COLUMNS.into_iter().filter(is_told).collect();
    let mut heads = vec![("counted", Align::Left)];
    heads.extend(columns.iter().map(|(head, _)| (*head, Align::Right)));
    let mut table = Table::new(&heads);
    for job in shown {
        let cells = columns.iter().map(|(_, cell)| cell(job).unwrap_or(ABSENT.to_owned()));
        table.row(std::iter::once(job.name.clone()).chain(cells).collect());
    }
    let mut text = table.to_text(width);
    if n_shown < jobs.len() {
        text.push_str(&format!("… and {} more\n", jobs.len() - n_shown));
    }
    text
}

fn of(job: &JobRow, what: &str) -> Option<String> {
    let row = job.counted.iter().find(|row| row.what == what)?;
    Some(about(row.ran_permille.is_some()) + &count(row.n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CountedRow;

    #[test]
    fn only_what_was_counted_of_some_job_has_a_column_and_estimates_say_so() {
        let row = |what: &str, n, ran_permille| CountedRow {
            what: what.to_owned(),
            n,
            unit: String::new(),
            ran_permille,
        };
        let job =
            |name: &str, counted| JobRow { name: name.to_owned(), counted, ..JobRow::default() };
        let mut jobs = [
            job("a", vec![row("page-faults", 12_345, None), row("context-switches", 7, Some(400))]),
            job("b", vec![row("page-faults", 1, None)]),
            job("uncounted", Vec::new()),
        ];
        expect_test::expect![[r#"
            counted  faults  switches
            a        12 345        ~7
            b             1         -
        "#]]
        .assert_eq(&table(&jobs.iter().collect::<Vec<_>>(), 80));
        jobs[1].instructions_per_cycle = Some(0.5);
        jobs[1].traffic_bytes = Some(3 << 20);
        expect_test::expect![[r#"
            counted  faults  switches  instr/cycle  traffic
            a        12 345        ~7            -        -
            b             1         -         0.50  3.0 MiB
        "#]]
        .assert_eq(&table(&jobs.iter().collect::<Vec<_>>(), 80));
    }
}
