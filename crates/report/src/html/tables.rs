//! The tables of a run's page. The tables are complete without scripts. Scripts sort, filter and expand rows.

use crate::format::{bytes, count, seconds};
use crate::model::{JobRow, JobStateName, MoveRow, NoteKind, NoteRow, RejectionRow, Report};
use crate::page::escape;
use crate::table::Align::{Left, Right};
use crate::table::{RecordColumn, ReportTable, TableCell};
use crate::text::{bound_kinds, moved_name, reason_of_move, repetitions, state};

pub(super) fn jobs(report: &Report) -> String {
    let columns: [RecordColumn<(usize, &JobRow)>; 12] = [
        ("name", Left, |(idx, job)| {
            let name = escape(&job.name);
            let button =
                format!("<button data-job=\"{idx}\" aria-expanded=\"false\">{name}</button>");
            TableCell::html(&job.name, button)
        }),
        ("state", Left, |(_, job)| state_cell(job)),
        ("class", Right, |(_, job)| TableCell::number(job.class.map(u64::from), count)),
        ("started_ns", Right, |(_, job)| TableCell::number(job.started_ns, seconds)),
        ("wall_ns", Right, |(_, job)| TableCell::number(job.wall_ns, seconds)),
        ("user_ns", Right, |(_, job)| TableCell::number(job.user_ns, seconds)),
        ("system_ns", Right, |(_, job)| TableCell::number(job.system_ns, seconds)),
        ("wait_ns", Right, |(_, job)| TableCell::number(job.wait_ns, seconds)),
        ("max_resident_bytes", Right, |(_, job)| TableCell::number(job.max_resident_bytes, bytes)),
        ("n_migrations", Right, |(_, job)| TableCell::number(job.n_migrations, count)),
        ("n_moves", Right, |(_, job)| TableCell::number(Some(job.n_moves), count)),
        ("cpus_used", Left, |(_, job)| cpus_cell(job)),
    ];
    let jobs: Vec<(usize, &JobRow)> = report.jobs.iter().enumerate().collect();
    let table = ReportTable::of_records(JobRow::FIELDS, &columns, &jobs).with_row_heads();
    table.to_html("jobs-table", "data sortable", "Jobs")
}

fn state_cell(job: &JobRow) -> TableCell {
    let class = match job.state {
        JobStateName::Done | JobStateName::Detached => "done",
        JobStateName::Failed | JobStateName::OomKilled | JobStateName::NotStarted => "failed",
        JobStateName::TimedOut => "timed-out",
        JobStateName::Stopped => "stopped",
        JobStateName::Running => "running",
        JobStateName::Waiting => "waiting",
    };
    let state = state(job);
    TableCell::html(&state, format!("<span class=\"state {class}\">{}</span>", escape(&state)))
}

fn cpus_cell(job: &JobRow) -> TableCell {
    let text = job.cpus_used.as_deref().unwrap_or("–");
    let unmanaged = job.unmanaged.as_ref().map(|_| "unmanaged".to_owned());
    let notes = bound_kinds(job).into_iter().chain(unmanaged);
    let note = |text: String| format!(" <span class=\"muted\">({})</span>", escape(&text));
    let key = job.cpus_used.as_deref().unwrap_or_default();
    TableCell::html(key, escape(text) + &notes.map(note).collect::<String>()).class("cpus")
}

/// Returns the table of all listed moves. Cells of the class `short` share a line on narrow screens.
pub(super) fn moves(report: &Report) -> String {
    const COLUMNS: [RecordColumn<MoveRow>; 4] = [
        ("at_ns", Right, |moved| time_cell(moved.at_ns)),
        ("name", Left, |moved| TableCell::from(moved_name(moved)).class("short")),
        ("kind", Left, from_to_cell),
        ("reason", Left, reason_cell),
    ];
    let table = ReportTable::of_records(MoveRow::FIELDS, &COLUMNS, &report.moves);
    table.to_html("moves-table", "data sortable stack", "Moves")
}

fn time_cell(at_ns: u64) -> TableCell {
    TableCell::number(Some(at_ns), |at| format!("{} s", seconds(at))).class("short")
}

fn from_to_cell(moved: &MoveRow) -> TableCell {
    let place = |label: &Option<String>| escape(label.as_deref().unwrap_or("unbound"));
    let (from, to) = (place(&moved.from), place(&moved.to));
    let html = format!("{from} <span class=\"arrow\">→</span> <b>{to}</b>");
    TableCell::html(&format!("{from} {to}"), html).class("nowrap what")
}

fn reason_cell(moved: &MoveRow) -> TableCell {
    let reason = reason_of_move(moved).map(|reason| sentence(&reason));
    let repeated = repetitions(moved).map(|times| format!("Requested {times}."));
    let text = reason.into_iter().chain(repeated).collect::<Vec<_>>().join(" ");
    TableCell::from(text).class("why")
}

/// Returns a text as a sentence, with a capital letter and a full stop.
pub(super) fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first: String = chars.next().map(|c| c.to_uppercase().collect()).unwrap_or_default();
    let stop = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{stop}", chars.as_str())
}

pub(super) fn rejections(report: &Report) -> String {
    const COLUMNS: [RecordColumn<RejectionRow>; 6] = [
        ("at_ns", Right, |row| time_cell(row.at_ns)),
        ("name", Left, |row| TableCell::from(&*row.name).class("short")),
        ("action", Left, |row| TableCell::from(sentence(&row.action))),
        ("by", Left, |row| TableCell::from(row.by.name()).class("short")),
        ("n", Right, |row| TableCell::number(Some(row.n), count)),
        ("detail", Left, |row| {
            let detail = if row.detail.is_empty() { &row.cause } else { &row.detail };
            TableCell::from(sentence(detail)).class("why")
        }),
    ];
    let table = ReportTable::of_records(RejectionRow::FIELDS, &COLUMNS, &report.rejections);
    table.to_html("rejections-table", "data sortable stack", "Rejections")
}

pub(super) fn notes(notes: &[NoteRow]) -> String {
    let row = |note: &NoteRow| {
        let tag = match note.kind {
            NoteKind::Note => String::new(),
            kind => format!("<span class=\"tag\">{}</span>", escape(kind.name())),
        };
        let at = seconds(note.at_ns);
        format!("<li><span>{at} s</span><span>{tag}{}</span></li>\n", escape(&sentence(&note.text)))
    };
    let rows: String = notes.iter().map(row).collect();
    format!("<ul class=\"notes\">\n{rows}</ul>")
}
