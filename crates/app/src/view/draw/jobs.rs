//! The job table: the page that contains the selected job.

use base::Nanos;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Margin, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{
    Cell, Row, Scrollbar, ScrollbarOrientation, ScrollbarState, StatefulWidget, Table, Widget,
};
use report::format::{fixed, or_absent};

use super::header::style;
use super::{bold, dim, section};
use crate::view::jobs::RowState;
use crate::view::state::{JobRow, ViewState};
use crate::view::time_left::TimeLeft;

/// Width from which the table has the columns for moves and reasons.
const WIDE: u16 = 110;
/// Width of the progress bar of a job.
const BAR_WIDTH: usize = 8;

pub fn draw(state: &ViewState, area: Rect, buffer: &mut Buffer) {
    let order = state.order();
    let n_rows = usize::from(area.height.saturating_sub(2)).max(1);
    let selected = state.controls.selected;
    let at = selected.and_then(|job| order.iter().position(|one| *one == job));
    let first = at.unwrap_or(0) / n_rows * n_rows;
    let page = &order[first..(first + n_rows).min(order.len())];
    let title = format!(" by {}", state.controls.sort.name());
    let title = Line::from(vec![Span::styled(state.noun(), bold()), Span::styled(title, dim())]);
    let inner = section(title, page_text(first, page.len(), order.len()), area, buffer);
    let rows: Vec<JobRow<'_>> = page.iter().filter_map(|&job| state.row(job)).collect();
    // The last column is for the scroll bar.
    let table = Rect { width: inner.width.saturating_sub(1), ..inner };
    draw_table(&rows, state, table, buffer);
    if page.len() < order.len() {
        let mut scroll = ScrollbarState::new(order.len()).position(first + page.len() / 2);
        Scrollbar::new(ScrollbarOrientation::VerticalRight)
            .begin_symbol(None)
            .end_symbol(None)
            .style(dim())
            .render(inner.inner(Margin { horizontal: 0, vertical: 1 }), buffer, &mut scroll);
    }
}

fn draw_table(rows: &[JobRow<'_>], state: &ViewState, area: Rect, buffer: &mut Buffer) {
    let is_wide = WIDE <= area.width;
    let row = |row: &JobRow<'_>| {
        let is_selected = Some(row.id) == state.controls.selected;
        let cells = table_row(row, state.at, is_wide);
        if is_selected { cells.style(Style::new().add_modifier(Modifier::REVERSED)) } else { cells }
    };
    let table = Table::new(rows.iter().map(row), widths(is_wide)).header(header(is_wide));
    Widget::render(table, area, buffer);
    if !is_wide {
        draw_failures(rows, area, buffer);
    }
}

/// Draws the cause of each failed job over the columns from the domain on, which have no values for it.
fn draw_failures(rows: &[JobRow<'_>], area: Rect, buffer: &mut Buffer) {
    let columns = Layout::horizontal(widths(false)).spacing(1).split(area);
    let x = columns[2].x;
    for (line, row) in area.rows().skip(1).zip(rows) {
        if row.state == RowState::Failed {
            let width = area.right().saturating_sub(x);
            let cause = Rect { x, width, ..line };
            buffer.set_stringn(x, cause.y, " ".repeat(width.into()), width.into(), Style::new());
            Line::raw(detail(row)).render(cause, buffer);
        }
    }
}

fn page_text(first: usize, n: usize, all: usize) -> Line<'static> {
    match all {
        0 => Line::default(),
        _ => Line::styled(format!("{}-{} of {all}", first + 1, first + n), dim()),
    }
}

fn widths(is_wide: bool) -> Vec<Constraint> {
    let mut widths = vec![
        Constraint::Fill(2),
        Constraint::Length(7),
        Constraint::Length(15),
        Constraint::Length(5),
        Constraint::Length(9),
        Constraint::Length(10),
        Constraint::Length(BAR_WIDTH as u16 + 6),
    ];
    if is_wide {
        widths.extend([Constraint::Length(5), Constraint::Fill(6)]);
    }
    widths
}

fn header(is_wide: bool) -> Row<'static> {
    let mut names = vec!["job", "state", "domain", "CPUs", "elapsed", "left", "progress"];
    if is_wide {
        names.extend(["moves", " reason"]);
    }
    let cell = |(idx, name): (usize, &str)| {
        let line = Line::raw(name.to_owned());
        let is_number = matches!(idx, 3..=5 | 7);
        Cell::from(if is_number { line.right_aligned() } else { line })
    };
    Row::new(names.into_iter().enumerate().map(cell)).style(dim())
}

fn table_row(row: &JobRow<'_>, at: Nanos, is_wide: bool) -> Row<'static> {
    let is_running = row.state == RowState::Running;
    let busy = or_absent(is_running.then_some(row.cpus_busy), |busy| fixed(busy, 2));
    let mut cells = vec![
        Cell::from(base::printable(row.name)),
        Cell::from(Span::styled(row.state.name(), style(row.state))),
        Cell::from(row.domain.clone().unwrap_or_else(|| unplaced(is_running).to_owned())),
        right(busy),
        right(or_absent(row.elapsed, short_time)),
        right(time_text(row, at)),
        Cell::from(progress(row)),
    ];
    if is_wide {
        cells.push(right(row.progress.n_moves.to_string()));
        cells.push(Cell::from(format!(" {}", detail(row))));
    }
    Row::new(cells)
}

fn unplaced(is_running: bool) -> &'static str {
    if is_running { "unbound" } else { report::format::ABSENT }
}

fn right(text: String) -> Cell<'static> {
    Cell::from(Line::raw(text).right_aligned())
}

/// Returns the time left, or for a waiting job the time until its start.
fn time_text(row: &JobRow<'_>, at: Nanos) -> String {
    match row.state {
        RowState::Waiting if at < row.due => {
            format!("in {}", short_time(row.due.saturating_sub(at)))
        }
        _ => or_absent(row.time_left, |left| {
            format!("{}{}", if left.is_exact { "" } else { "~" }, short_time(left.left))
        }),
    }
}

fn progress(row: &JobRow<'_>) -> Line<'static> {
    let done = match (row.state, row.time_left) {
        (RowState::Done, _) => 1.0,
        (_, Some(TimeLeft { done, .. })) => done.clamp(0.0, 1.0),
        _ => return Line::raw(report::format::ABSENT),
    };
    let n_full = (done * BAR_WIDTH as f64) as usize;
    Line::from(vec![
        Span::raw("━".repeat(n_full)),
        Span::styled("─".repeat(BAR_WIDTH - n_full), dim()),
        Span::raw(format!("{:>4} %", (done * 100.0) as u32)),
    ])
}

/// Returns the cause of a failure, or the reason of the last placement.
pub fn detail(row: &JobRow<'_>) -> String {
    let progress = row.progress;
    let text = match (&progress.start_failure, &progress.ended, &progress.unmanaged) {
        (Some((cause, detail)), ..) if row.state == RowState::Failed => {
            let cause = if detail.is_empty() { cause.name() } else { detail };
            format!("start failed: {cause}")
        }
        (_, Some((_, exit)), _) if row.state != RowState::Running => {
            report::phrases::exit_phrase(exit)
        }
        (_, _, Some(cause)) => {
            format!("no longer placed: {}", report::phrases::unmanaged_phrase(cause))
        }
        _ => progress.reason.as_ref().map_or(String::new(), ToString::to_string),
    };
    base::printable(&text)
}

/// Formats a time in at most eight columns: `12.3 s`, `3:25 min`, `2:05 h`.
pub fn short_time(time: Nanos) -> String {
    let secs = time.0 / 1_000_000_000;
    match secs {
        0..=99 => format!("{} s", fixed(time.as_secs_f64(), 1)),
        100..=5999 => format!("{}:{:02} min", secs / 60, secs % 60),
        _ => format!("{}:{:02} h", secs / 3600, secs / 60 % 60),
    }
}
