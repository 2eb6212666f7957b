//! Windows over the view: help, the history of a job, and the question before the end of the run.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Flex, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Padding, Paragraph, Widget, Wrap};
use sched::HostKind;

use super::jobs::{detail, short_time};
use super::{bold, dim, moves};
use crate::view::jobs::RowState;
use crate::view::keys::Overlay;
use crate::view::state::{JobRow, ViewState};

/// Maximum width of a window, for readable lines.
const WIDTH_MAX: u16 = 100;
/// Number of events in the history of a job, newest first.
const N_EVENTS: usize = 20;

pub fn draw(state: &ViewState, area: Rect, buffer: &mut Buffer) {
    match state.controls.overlay {
        None => {}
        Some(Overlay::Help) => window("keys", help(state), area, buffer),
        Some(Overlay::ConfirmEnd) => window("end?", confirm(state), area, buffer),
        Some(Overlay::Explain) => match state.controls.selected.and_then(|job| state.row(job)) {
            Some(row) => window(&base::printable(row.name), explain(state, &row), area, buffer),
            None => window("jobs", vec![Line::raw("No job is selected.")], area, buffer),
        },
    }
}

fn window(title: &str, lines: Vec<Line<'_>>, area: Rect, buffer: &mut Buffer) {
    let width = area.width.saturating_sub(4).min(WIDTH_MAX);
    let paragraph = Paragraph::new(lines).wrap(Wrap { trim: false });
    let n_lines = wrapped_height(&paragraph, width.saturating_sub(4));
    let [column] = Layout::horizontal([Constraint::Length(width)]).flex(Flex::Center).areas(area);
    let height = (n_lines + 2).min(area.height);
    let [window] = Layout::vertical([Constraint::Length(height)]).flex(Flex::Center).areas(column);
    Clear.render(window, buffer);
    let block = Block::bordered()
        .padding(Padding::horizontal(1))
        .title_top(Line::styled(format!(" {title} "), bold()))
        .title_bottom(Line::styled(" Esc: close ", dim()).right_aligned());
    paragraph.block(block).render(window, buffer);
}

/// Returns the height of a paragraph of this width: the last line that is not empty in a buffer of sufficient height.
fn wrapped_height(paragraph: &Paragraph<'_>, width: u16) -> u16 {
    const HEIGHT_MAX: u16 = 100;
    let mut buffer = Buffer::empty(Rect::new(0, 0, width.max(1), HEIGHT_MAX));
    paragraph.render(buffer.area, &mut buffer);
    let last = buffer.content.iter().rposition(|cell| cell.symbol() != " ").unwrap_or(0);
    (last / usize::from(width.max(1))) as u16 + 1
}

fn help(state: &ViewState) -> Vec<Line<'static>> {
    let end = match state.host {
        HostKind::Watch => "end the watch and restore all settings",
        _ => "end the run: all jobs receive SIGTERM",
    };
    let keys = [
        ("q, then q or y", end),
        ("Ctrl-C", "the same without the question"),
        ("Ctrl-Z", "stop evenkeel (not the jobs) until fg"),
        ("up, down, Tab, PageUp, PageDown, Home, End", "select a job"),
        ("Enter or e", "explain the placement of the selected job"),
        ("s", "sort the jobs by the next column"),
        ("p", "pause the drawing; the run continues"),
        ("Ctrl-L", "draw the complete screen again"),
        ("Esc", "close the window, or clear the selection"),
    ];
    let line = |(key, meaning): (&'static str, &'static str)| {
        Line::from(vec![Span::styled(key, bold()), Span::raw(format!(": {meaning}"))])
    };
    let mut lines: Vec<Line<'_>> = keys.into_iter().map(line).collect();
    lines.push(Line::default());
    lines.push(Line::styled("~ before a time: estimated. - : unknown.", dim()));
    lines
}

fn confirm(state: &ViewState) -> Vec<Line<'static>> {
    let n_running = state.counts().get(&RowState::Running).copied().unwrap_or_default();
    let effect = match state.host {
        HostKind::Watch => "End the watch and restore all settings?".to_owned(),
        _ => format!("End the run and terminate {}?", base::counted_noun(n_running, "running job")),
    };
    vec![Line::raw(effect), Line::from("q or y: end.   Any other key: continue.")]
}

fn explain<'a>(state: &'a ViewState, row: &JobRow<'a>) -> Vec<Line<'a>> {
    let progress = row.progress;
    let mut lines = vec![field("state", state_text(row))];
    lines.push(field("domain", row.domain.clone().unwrap_or_else(|| "unbound".to_owned())));
    let detail = detail(row);
    if !detail.is_empty() {
        lines.push(field("reason", detail));
    }
    lines.push(field("moves", progress.n_moves.to_string()));
    if progress.page_migrations.n != 0 {
        let totals = progress.page_migrations;
        let text = format!("{}, {} of {} moved", totals.n, totals.moved, totals.requested);
        lines.push(field("page migrations", text));
    }
    if let Some(left) = row.time_left {
        let text = format!("{} ({})", short_time(left.left), left.source);
        lines.push(field("time left", text));
    }
    lines.push(Line::default());
    let name = base::printable(row.name);
    let events = state.events(Some(&name));
    lines.extend(events.into_iter().rev().take(N_EVENTS).map(moves::line));
    lines
}

fn field(name: &'static str, value: String) -> Line<'static> {
    Line::from(vec![Span::styled(format!("{name:<16}"), dim()), Span::raw(value)])
}

fn state_text(row: &JobRow<'_>) -> String {
    let elapsed = row.elapsed.map_or(String::new(), |time| format!(", {}", short_time(time)));
    format!("{}{elapsed}", row.state.name())
}
