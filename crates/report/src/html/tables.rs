//! The tables of the page. They are complete without scripts, which sort, filter and expand rows.

use super::escape::escape;
use crate::describe::Field;
use crate::format::{bytes, count, seconds};
use crate::model::{JobRow, JobStateWord, MoveRow, NoteRow, NoteWord, RejectionRow, Report};
use crate::text::{reason_of_move, repetitions, state};

/// A cell of a table.
struct Cell {
    /// Sort key.
    key: Option<String>,
    /// Escaped content.
    html: String,
    class: &'static str,
}

impl Cell {
    fn text(text: &str) -> Self {
        Cell { key: None, html: escape(text), class: "" }
    }

    /// A cell that shares a line with others on narrow screens.
    fn short(self) -> Self {
        let class = if self.class == "num" { "num short" } else { "short" };
        Cell { class, ..self }
    }

    /// A right-aligned number; a dash if absent.
    fn number(value: Option<u64>, format: fn(u64) -> String) -> Self {
        let html = value.map_or("–".to_owned(), |value| escape(&format(value)));
        Cell {
            key: Some(value.map_or(String::new(), |value| value.to_string())),
            html,
            class: "num",
        }
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

/// A column: its field, its class and its cell.
type Column<T> = (&'static str, &'static str, fn(&T) -> Cell);

/// The head of a table: labels of the fields, with their meanings as tooltips.
fn head<T>(fields: &[Field], columns: &[Column<T>], sortable: bool) -> String {
    let head = |(name, class, _): &Column<T>| {
        let field = fields.iter().find(|field| field.name == *name);
        let field = field.expect("every column has the name of a field of the record");
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
        ("class", "num", |job| Cell::number(job.class.map(u64::from), count)),
        ("started_ns", "num", |job| Cell::number(job.started_ns, seconds)),
        ("wall_ns", "num", |job| Cell::number(job.wall_ns, seconds)),
        ("user_ns", "num", |job| Cell::number(job.user_ns, seconds)),
        ("system_ns", "num", |job| Cell::number(job.system_ns, seconds)),
        ("wait_ns", "num", |job| Cell::number(job.wait_ns, seconds)),
        ("max_resident_bytes", "num", |job| Cell::number(job.max_resident_bytes, bytes)),
        ("n_migrations", "num", |job| Cell::number(job.n_migrations, count)),
        ("n_moves", "num", |job| Cell::number(Some(job.n_moves), count)),
        ("cpus_used", "", cpus_cell),
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
        JobStateWord::Done => "done",
        JobStateWord::Failed => "failed",
        JobStateWord::NotStarted => "not-started",
        JobStateWord::Stopped => "stopped",
        JobStateWord::Running => "running",
        JobStateWord::Waiting => "waiting",
        JobStateWord::Detached => "done",
    };
    let html = format!("<span class=\"state {class}\">{}</span>", escape(&state(job)));
    Cell { key: Some(state(job)), html, class: "" }
}

fn cpus_cell(job: &JobRow) -> Cell {
    let text = job.cpus_used.as_deref().unwrap_or("–");
    let key = job.cpus_used.clone().unwrap_or_default();
    let unmanaged =
        if job.unmanaged.is_some() { " <span class=\"muted\">(unmanaged)</span>" } else { "" };
    Cell { key: Some(key), html: escape(text) + unmanaged, class: "cpus" }
}

/// All listed moves.
pub(crate) fn moves(report: &Report) -> String {
    let columns: [Column<MoveRow>; 4] = [
        ("at_ns", "num", |moved| {
            Cell::number(Some(moved.at_ns), |at| format!("{} s", seconds(at))).short()
        }),
        ("name", "", |moved| Cell::text(&moved.name).short()),
        ("kind", "", from_to_cell),
        ("reason", "", reason_cell),
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
    let place = |label: &Option<String>| escape(label.as_deref().unwrap_or("unbound"));
    let (from, to) = (place(&moved.from), place(&moved.to));
    Cell {
        key: None,
        html: format!("{from} <span class=\"arrow\">→</span> <b>{to}</b>"),
        class: "nowrap what",
    }
}

fn reason_cell(moved: &MoveRow) -> Cell {
    let reason = reason_of_move(moved).map(|reason| sentence(&reason));
    let repeated = repetitions(moved).map(|times| format!("Requested {times}."));
    let sentence = reason.into_iter().chain(repeated).collect::<Vec<_>>().join(" ");
    Cell { key: None, html: escape(&sentence), class: "why" }
}

/// With a capital and a full stop.
pub(crate) fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first: String = chars.next().map(|c| c.to_uppercase().collect()).unwrap_or_default();
    let stop = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{stop}", chars.as_str())
}

/// All listed rejections.
pub(crate) fn rejections(report: &Report) -> String {
    let columns: [Column<RejectionRow>; 6] = [
        ("at_ns", "num", |row| {
            Cell::number(Some(row.at_ns), |at| format!("{} s", seconds(at))).short()
        }),
        ("name", "", |row| Cell::text(&row.name).short()),
        ("action", "", |row| Cell::text(&sentence(&row.action))),
        ("by", "", |row| Cell::text(row.by.word()).short()),
        ("n", "num", |row| Cell::number(Some(row.n), count)),
        ("detail", "", |row| {
            let detail = if row.detail.is_empty() { &row.cause } else { &row.detail };
            Cell { key: None, html: escape(&sentence(detail)), class: "why" }
        }),
    ];
    let row = |rejected: &RejectionRow| {
        let cells: String = columns.iter().map(|(.., cell)| cell(rejected).to_html()).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let rows: String = report.rejections.iter().map(row).collect();
    let head = head(RejectionRow::FIELDS, &columns, true);
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
