//! The tables of the page. They are complete without scripts; scripts sort, filter and open rows.

use super::escape::escape;
use crate::describe::Field;
use crate::model::{JobRow, MoveRow, NoteRow, NoteWord, RefusalRow, Report, StateWord};
use crate::text::{about, state, times, why};
use crate::units::{bytes, count, seconds};

/// What stands in a cell.
struct Cell {
    /// What it is sorted by.
    key: Option<String>,
    /// Already escaped.
    html: String,
    class: &'static str,
}

impl Cell {
    fn text(text: &str) -> Self {
        Cell { key: None, html: escape(text), class: "" }
    }

    /// One of several that share a line where there is no room for columns.
    fn short(self) -> Self {
        let class = if self.class == "num" { "num short" } else { "short" };
        Cell { class, ..self }
    }

    /// A figure with its value, right-aligned; a dash for what is absent.
    fn figure(value: Option<u64>, show: fn(u64) -> String) -> Self {
        let html = value.map_or("–".to_owned(), |value| escape(&show(value)));
        Cell {
            key: Some(value.map_or(String::new(), |value| value.to_string())),
            html,
            class: "num",
        }
    }

    /// Marks a figure of which not all was seen.
    fn about(self, is_estimate: bool) -> Self {
        Cell { html: about(is_estimate) + &self.html, ..self }
    }

    fn to_html(&self) -> String {
        let class = if self.class.is_empty() {
            String::new()
        } else {
            format!(" class=\"{}\"", self.class)
        };
        let key =
            self.key.as_ref().map_or(String::new(), |key| format!(" data-v=\"{}\"", escape(key)));
        format!("<td{class}{key}>{}</td>", self.html)
    }
}

/// A column: the field that it shows, and how.
type Column<T> = (&'static str, &'static str, fn(&T) -> Cell);

/// The heads, from the table of fields, with their meanings as hints.
fn head<T>(fields: &[Field], columns: &[Column<T>], sortable: bool) -> String {
    let head = |(name, class, _): &Column<T>| {
        let field = fields.iter().find(|field| field.name == *name);
        let field = field.expect("every column is named after a field of the record");
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let label = escape(field.label);
        let label = if sortable { format!("<button>{label}</button>") } else { label };
        let unit = if field.unit == crate::Unit::Nanos { " In seconds." } else { "" };
        format!("<th scope=\"col\"{class} title=\"{}{unit}\">{label}</th>", escape(field.meaning))
    };
    let heads: String = columns.iter().map(head).collect();
    format!("<thead><tr>{heads}</tr></thead>")
}

/// All jobs.
pub(crate) fn jobs(report: &Report) -> String {
    let columns: [Column<JobRow>; 12] = [
        ("name", "", |_| Cell::text("")),
        ("state", "", state_cell),
        ("class", "num", |job| Cell::figure(job.class.map(u64::from), count)),
        ("started_ns", "num", |job| Cell::figure(job.started_ns, seconds)),
        ("wall_ns", "num", |job| Cell::figure(job.wall_ns, seconds)),
        ("user_ns", "num", |job| Cell::figure(job.user_ns, seconds)),
        ("system_ns", "num", |job| Cell::figure(job.system_ns, seconds)),
        ("wait_ns", "num", |job| Cell::figure(job.wait_ns, seconds).about(job.wait_is_estimate)),
        ("max_resident_bytes", "num", |job| Cell::figure(job.max_resident_bytes, bytes)),
        ("n_migrations", "num", |job| {
            Cell::figure(job.n_migrations, count).about(job.n_migrations_is_estimate)
        }),
        ("n_moves", "num", |job| Cell::figure(Some(job.n_moves), count)),
        ("ran_on", "", ran_on_cell),
    ];
    let rows: String = report
        .jobs
        .iter()
        .enumerate()
        .map(|(idx, job)| {
            let cells: String = columns[1..].iter().map(|(.., cell)| cell(job).to_html()).collect();
            let name = escape(&job.name);
            format!(
                "<tr><th scope=\"row\" data-v=\"{name}\"><button data-job=\"{idx}\" aria-expanded=\"false\">{name}</button></th>{cells}</tr>\n"
            )
        })
        .collect();
    let head = head(JobRow::FIELDS, &columns, true);
    format!(
        "<table class=\"data sortable\" id=\"jobs-table\">{head}<tbody>\n{rows}</tbody></table>"
    )
}

fn state_cell(job: &JobRow) -> Cell {
    let class = match job.state {
        StateWord::Done => "done",
        StateWord::Failed => "failed",
        StateWord::NotStarted => "not-started",
        StateWord::Stopped => "stopped",
        StateWord::Running => "running",
        StateWord::Waiting => "waiting",
        StateWord::Left => "done",
    };
    let html = format!("<span class=\"state {class}\">{}</span>", escape(&state(job)));
    Cell { key: Some(state(job)), html, class: "" }
}

fn ran_on_cell(job: &JobRow) -> Cell {
    let text = job.ran_on.as_deref().unwrap_or("–");
    let key = job.ran_on.clone().unwrap_or_default();
    let left_alone =
        if job.hands_off.is_some() { " <span class=\"muted\">(left alone)</span>" } else { "" };
    Cell { key: Some(key), html: escape(text) + left_alone, class: "cpus" }
}

/// All moves that are listed.
pub(crate) fn moves(report: &Report) -> String {
    let columns: [Column<MoveRow>; 4] = [
        ("at_ns", "num", |moved| {
            Cell::figure(Some(moved.at_ns), |at| format!("{} s", seconds(at))).short()
        }),
        ("name", "", |moved| Cell::text(&moved.name).short()),
        ("what", "", from_to_cell),
        ("reason", "", why_cell),
    ];
    let row = |moved: &MoveRow| {
        let cells: String = columns.iter().map(|(.., cell)| cell(moved).to_html()).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let rows: String = report.moves.iter().map(row).collect();
    let head = head(MoveRow::FIELDS, &columns, true);
    format!(
        "<table class=\"data sortable stack\" id=\"moves-table\">{head}<tbody>\n{rows}</tbody></table>"
    )
}

fn from_to_cell(moved: &MoveRow) -> Cell {
    let place = |label: &Option<String>| escape(label.as_deref().unwrap_or("anywhere"));
    let (from, to) = (place(&moved.from), place(&moved.to));
    Cell {
        key: None,
        html: format!("{from} <span class=\"arrow\">→</span> <b>{to}</b>"),
        class: "nowrap what",
    }
}

fn why_cell(moved: &MoveRow) -> Cell {
    let why = why(moved).map(|why| sentence(&why));
    let times = times(moved).map(|times| format!("Wanted {times}."));
    let sentence = why.into_iter().chain(times).collect::<Vec<_>>().join(" ");
    Cell { key: None, html: escape(&sentence), class: "why" }
}

/// With a capital and a full stop.
pub(crate) fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first: String = chars.next().map(|c| c.to_uppercase().collect()).unwrap_or_default();
    let stop = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{stop}", chars.as_str())
}

/// All refusals that are listed.
pub(crate) fn refusals(report: &Report) -> String {
    let columns: [Column<RefusalRow>; 6] = [
        ("at_ns", "num", |row| {
            Cell::figure(Some(row.at_ns), |at| format!("{} s", seconds(at))).short()
        }),
        ("name", "", |row| Cell::text(&row.name).short()),
        ("what", "", |row| Cell::text(&sentence(&row.what))),
        ("by", "", |row| Cell::text(row.by.word()).short()),
        ("n", "num", |row| Cell::figure(Some(row.n), count)),
        ("detail", "", |row| {
            let why = if row.detail.is_empty() { &row.why } else { &row.detail };
            Cell { key: None, html: escape(&sentence(why)), class: "why" }
        }),
    ];
    let row = |refused: &RefusalRow| {
        let cells: String = columns.iter().map(|(.., cell)| cell(refused).to_html()).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let rows: String = report.refusals.iter().map(row).collect();
    let head = head(RefusalRow::FIELDS, &columns, true);
    format!("<table class=\"data sortable stack\">{head}<tbody>\n{rows}</tbody></table>")
}

/// Notes as a list.
pub(crate) fn notes(notes: &[NoteRow]) -> String {
    let row = |note: &NoteRow| {
        let tag = match note.kind {
            NoteWord::Note => String::new(),
            kind => format!("<span class=\"tag\">{}</span>", escape(kind.word())),
        };
        let at = seconds(note.at_ns);
        format!("<li><span>{at} s</span><span>{tag}{}</span></li>\n", escape(&sentence(&note.text)))
    };
    let rows: String = notes.iter().map(row).collect();
    format!("<ul class=\"notes\">\n{rows}</ul>")
}
