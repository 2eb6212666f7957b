//! The last events, newest last.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;
use report::format::seconds;

use super::{bold, dim, red, section};
use crate::view::progress_events::ProgressEvent;
use crate::view::state::ViewState;

pub fn draw(state: &ViewState, area: Rect, buffer: &mut Buffer) {
    let (title, events) = state.last_moves();
    let inner = section(Line::styled(title, bold()), Line::default(), area, buffer);
    let events: Vec<&ProgressEvent> = events.iter().collect();
    draw_events(&events, inner, buffer);
}

/// Draws the last events that fit: one line each, and notes completely.
pub fn draw_events(events: &[&ProgressEvent], area: Rect, buffer: &mut Buffer) {
    let height = usize::from(area.height);
    let last = &events[events.len().saturating_sub(height)..];
    let lines: Vec<Line<'_>> =
        last.iter().flat_map(|event| folded(event, usize::from(area.width))).collect();
    let n_omitted = lines.len().saturating_sub(height);
    for (row, line) in area.rows().zip(&lines[n_omitted..]) {
        line.render(row, buffer);
    }
}

/// Returns an event as one line, or a note as lines of at most `width` columns.
fn folded(event: &ProgressEvent, width: usize) -> Vec<Line<'_>> {
    if event.kind != "note" {
        return vec![line(event)];
    }
    let text = report::table::fold(&event.text, width.saturating_sub(HEAD), "", 0);
    let head = [event_time(event), event_kind(event)];
    let indent = || vec![Span::raw(" ".repeat(HEAD))];
    let heads = std::iter::once(head.to_vec()).chain(std::iter::repeat_with(indent));
    let lines = heads.zip(text.lines()).map(|(mut spans, text)| {
        spans.push(Span::styled(text.to_owned(), dim()));
        Line::from(spans)
    });
    lines.collect()
}

/// Width of the time and the kind of an event.
const HEAD: usize = 23;

fn event_time(event: &ProgressEvent) -> Span<'static> {
    Span::styled(format!("{:>8} s  ", seconds(event.at.0)), dim())
}

fn event_kind(event: &ProgressEvent) -> Span<'static> {
    let style = if event.is_bad { red() } else { Style::new() };
    Span::styled(format!("{:<9}  ", event.kind), style.patch(bold()))
}

/// Returns an event as a line.
pub fn line(event: &ProgressEvent) -> Line<'_> {
    let style = if event.is_bad { red() } else { Style::new() };
    let job = if event.job.is_empty() { String::new() } else { format!("{}  ", event.job) };
    Line::from(vec![
        event_time(event),
        event_kind(event),
        Span::styled(job, style),
        Span::styled(event.text.as_str(), if event.is_bad { style } else { dim() }),
    ])
}
