//! The header with the counts of jobs, and the line of keys.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{LineGauge, Widget};
use report::format::fixed;
use sched::HostKind;

use super::{bold, dim};
use crate::view::jobs::RowState;
use crate::view::state::ViewState;

/// Maximum width of the progress bar of jobs.
const BAR_WIDTH: u16 = 40;

pub fn draw(state: &ViewState, area: Rect, buffer: &mut Buffer) {
    let [first, second] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(1)]).areas(area);
    let right = status(state);
    let [left_area, right_area] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(right.width() as u16)])
            .areas(first);
    let command = if state.host == HostKind::Watch { "evenkeel watch" } else { "evenkeel run" };
    Line::from(vec![
        Span::styled(command, bold()),
        Span::raw(format!("  {}", state.policy)),
        Span::styled(format!("  {}", state.workload), dim()),
    ])
    .render(left_area, buffer);
    right.render(right_area, buffer);
    draw_counts(state, second, buffer);
}

fn status(state: &ViewState) -> Line<'static> {
    let mark = match (state.is_stopping, state.controls.is_paused) {
        (true, _) => Span::styled(" stopping ", Style::new().fg(Color::Yellow)),
        (false, true) => Span::styled(" paused ", Style::new().add_modifier(Modifier::REVERSED)),
        (false, false) => Span::raw(""),
    };
    let clock = if state.host == HostKind::Sim { "simulated " } else { "" };
    Line::from(vec![mark, Span::raw(format!("  {clock}{} s", fixed(state.at.as_secs_f64(), 1)))])
}

fn draw_counts(state: &ViewState, area: Rect, buffer: &mut Buffer) {
    let counts = state.counts();
    let n = |state: RowState| counts.get(&state).copied().unwrap_or_default();
    let mut spans = vec![Span::raw(state.noun())];
    for shown in RowState::SHOWN {
        if n(shown) != 0 || shown == RowState::Running {
            spans.push(Span::styled(format!("  {} {}", n(shown), shown.name()), style(shown)));
        }
    }
    let text = Line::from(spans);
    let [text_area, _, bar_area] = Layout::horizontal([
        Constraint::Length(text.width() as u16),
        Constraint::Length(2),
        Constraint::Max(BAR_WIDTH),
    ])
    .areas(area);
    text.render(text_area, buffer);
    let over = n(RowState::Done) + n(RowState::Failed) + n(RowState::Stopped);
    let all = over + n(RowState::Running) + n(RowState::Waiting);
    if state.host != HostKind::Watch && 0 < all && 10 <= bar_area.width {
        LineGauge::default()
            .label(format!("{:>3} %", 100 * over / all))
            .ratio(over as f64 / all as f64)
            .filled_symbol("━")
            .unfilled_symbol("─")
            .unfilled_style(dim())
            .render(bar_area, buffer);
    }
}

/// Returns the style of a job state.
pub fn style(state: RowState) -> Style {
    match state {
        RowState::Failed => Style::new().fg(Color::Red),
        RowState::Running => Style::new().fg(Color::Cyan),
        RowState::Stopped => Style::new().fg(Color::Yellow),
        RowState::Done => Style::new().fg(Color::Green),
        RowState::Waiting | RowState::Detached => dim(),
    }
}

/// Draws the line of keys.
pub fn draw_keys(state: &ViewState, area: Rect, buffer: &mut Buffer) {
    let keys: &[(&str, &str)] = &[
        ("q", "end"),
        ("↑↓", "select"),
        ("Enter", "explain"),
        ("s", "sort"),
        ("p", if state.controls.is_paused { "continue" } else { "pause" }),
        ("?", "help"),
    ];
    let mut spans = Vec::new();
    for (key, meaning) in keys {
        spans.push(Span::styled(*key, bold()));
        spans.push(Span::styled(format!(" {meaning}   "), dim()));
    }
    Line::from(spans).render(area, buffer);
}
