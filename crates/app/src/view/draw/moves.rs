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

/// Draws the events that fit, one line each.
pub fn draw_events(events: &[&ProgressEvent], area: Rect, buffer: &mut Buffer) {
    let n_omitted = events.len().saturating_sub(usize::from(area.height));
    for (row, event) in area.rows().zip(&events[n_omitted..]) {
        line(event).render(row, buffer);
    }
}

/// Returns an event as a line.
pub fn line(event: &ProgressEvent) -> Line<'_> {
    let style = if event.is_bad { red() } else { Style::new() };
    let job = if event.job.is_empty() { String::new() } else { format!("{}  ", event.job) };
    Line::from(vec![
        Span::styled(format!("{:>8} s  ", seconds(event.at.0)), dim()),
        Span::styled(format!("{:<9}  ", event.kind), style.patch(bold())),
        Span::styled(job, style),
        Span::styled(event.text.as_str(), if event.is_bad { style } else { dim() }),
    ])
}
