//! Drawing of the full-screen view into a cell buffer: a pure function of the state and of the size.
//!
//! ```text
//!   header      policy, time, counts of jobs
//!   load        one bar per domain
//!   jobs        a page of the table
//!   last moves  with their reasons
//!   keys        one line
//! ```
//!
//! A smaller terminal shows the header and the last events, as without a full-screen view.

mod header;
mod jobs;
mod loads;
mod moves;
mod overlay;

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Widget};

use super::state::ViewState;

/// Smallest size of the complete view, in columns and lines.
pub const SIZE_MIN: (u16, u16) = (60, 16);

/// Draws a frame. Every cell of the buffer is printable.
pub fn draw(state: &ViewState, buffer: &mut Buffer) {
    let area = buffer.area;
    if area.width < SIZE_MIN.0 || area.height < SIZE_MIN.1 {
        draw_small(state, area, buffer);
    } else {
        draw_complete(state, area, buffer);
    }
    overlay::draw(state, area, buffer);
    escape_cells(buffer);
}

fn draw_complete(state: &ViewState, area: Rect, buffer: &mut Buffer) {
    let n_moves = (area.height / 5).clamp(3, 12);
    let n_loads = loads::n_lines(state, area);
    let [header, loads, jobs, moves, keys] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(n_loads + 1),
        Constraint::Fill(1),
        Constraint::Length(n_moves + 1),
        Constraint::Length(1),
    ])
    .areas(area);
    header::draw(state, header, buffer);
    loads::draw(state, loads, buffer);
    jobs::draw(state, jobs, buffer);
    moves::draw(state, moves, buffer);
    header::draw_keys(state, keys, buffer);
}

fn draw_small(state: &ViewState, area: Rect, buffer: &mut Buffer) {
    let [header, events] = Layout::vertical([Constraint::Max(2), Constraint::Fill(1)]).areas(area);
    header::draw(state, header, buffer);
    moves::draw_events(&state.events(None), events, buffer);
}

/// Draws the title of a section and returns the area below it.
fn section(mut title: Line<'_>, mut right: Line<'_>, area: Rect, buffer: &mut Buffer) -> Rect {
    title.push_span(" ");
    if right.width() != 0 {
        right.spans.insert(0, " ".into());
    }
    let block = Block::new()
        .borders(Borders::TOP)
        .border_style(dim())
        .title_top(title)
        .title_top(right.right_aligned());
    let inner = block.inner(area);
    block.render(area, buffer);
    inner
}

/// Replaces characters that are not printable. All names are escaped before; this is the check at the border.
fn escape_cells(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        if !cell.symbol().chars().all(base::is_printable) {
            cell.set_symbol("?");
        }
    }
}

/// Draws a bar with a resolution of 1/8 cell, padded to its width.
fn bar(share: f64, width: u16) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * f64::from(width) * 8.0).round() as usize;
    let bar = "█".repeat(eighths / 8) + EIGHTHS[eighths % 8];
    let padding = usize::from(width).saturating_sub(bar.chars().count());
    bar + &" ".repeat(padding)
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn red() -> Style {
    Style::new().fg(Color::Red)
}
