//! Draws a cell buffer on a terminal, in place.
//!
//! A frame is one write: the cursor moves up to the previous frame, the lines are written, and the remaining lines are
//! erased. Line wrapping is off during the write. The view sends no query to the terminal, because a terminal that does
//! not answer would block the run. No terminal mode remains set after a frame, and the cursor is always visible.

use std::io::{self, Write};

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

use crate::print::terminal;

const NO_WRAP: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";
/// Escape sequence that erases a line. The line is erased before it is written: after a full line the cursor is still
/// in the last column.
const ERASE_LINE: &str = "\x1b[2K";
const ERASE_BELOW: &str = "\x1b[J";
const PLAIN: &str = "\x1b[0m";

/// Draws frames in place on standard error.
#[derive(Debug)]
pub struct Painter {
    n_lines: u16,
    coloured: bool,
}

/// Returns the columns and lines of the terminal at standard error; 80 × 24 if unknown.
pub fn terminal_size() -> (u16, u16) {
    let size = rustix::termios::tcgetwinsize(terminal());
    let nonzero = size.ok().filter(|size| size.ws_col != 0 && size.ws_row != 0);
    nonzero.map_or((80, 24), |size| (size.ws_col, size.ws_row))
}

impl Painter {
    pub fn new() -> Self {
        let coloured = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Painter { n_lines: 0, coloured }
    }

    /// Draws a frame over the previous one.
    pub fn draw(&mut self, frame: &Buffer) -> io::Result<()> {
        let text = self.up() + NO_WRAP + &self.text(frame) + ERASE_BELOW + WRAP;
        self.n_lines = frame.area.height;
        terminal().write_all(text.as_bytes())
    }

    /// Erases the previous frame.
    pub fn clear(&mut self) -> io::Result<()> {
        if self.n_lines == 0 {
            return Ok(());
        }
        let text = self.up() + ERASE_BELOW;
        self.n_lines = 0;
        terminal().write_all(text.as_bytes())
    }

    fn up(&self) -> String {
        match self.n_lines {
            0 => "\r".to_owned(),
            n => format!("\r\x1b[{n}A"),
        }
    }

    fn text(&self, frame: &Buffer) -> String {
        let width = usize::from(frame.area.width.max(1));
        frame
            .content()
            .chunks(width)
            .map(|cells| ERASE_LINE.to_owned() + &self.line(cells) + "\r\n")
            .collect()
    }

    fn line(&self, cells: &[Cell]) -> String {
        let n = cells.iter().rposition(|cell| cell.symbol() != " ").map_or(0, |last| last + 1);
        let mut text = String::new();
        let mut style = String::new();
        for cell in &cells[..n] {
            let style_codes = if self.coloured { codes(cell) } else { String::new() };
            if style_codes != style {
                text.push_str(PLAIN);
                text.push_str(&style_codes);
                style = style_codes;
            }
            // A frame contains names of processes. The width of a cell does not count invisible characters.
            text.extend(cell.symbol().chars().filter(|&c| base::is_printable(c)));
        }
        if !style.is_empty() {
            text.push_str(PLAIN);
        }
        text
    }
}

/// Returns the escape sequence of the style of a cell; empty for a plain cell. Only the styles of the view are
/// supported.
fn codes(cell: &Cell) -> String {
    let mut codes: Vec<&str> = Vec::new();
    if cell.modifier.contains(Modifier::BOLD) {
        codes.push("1");
    }
    if cell.modifier.contains(Modifier::DIM) {
        codes.push("2");
    }
    codes.extend(match cell.fg {
        Color::Red => Some("31"),
        Color::Green => Some("32"),
        Color::Yellow => Some("33"),
        Color::Blue => Some("34"),
        Color::Cyan => Some("36"),
        _ => None,
    });
    if codes.is_empty() { String::new() } else { format!("\x1b[{}m", codes.join(";")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    fn frame() -> Buffer {
        let mut frame = Buffer::empty(Rect::new(0, 0, 8, 2));
        frame.set_string(0, 0, "ab", Style::new().fg(Color::Red));
        frame.set_string(2, 0, " c", Style::new());
        frame
    }

    #[test]
    fn a_frame_has_no_trailing_spaces() {
        let painter = Painter { n_lines: 0, coloured: true };
        let text = painter.text(&frame());
        assert_eq!(text, "\x1b[2K\x1b[0m\x1b[31mab\x1b[0m c\r\n\x1b[2K\r\n");
    }

    #[test]
    fn without_colour_there_are_no_styles() {
        let painter = Painter { n_lines: 0, coloured: false };
        assert_eq!(painter.text(&frame()), "\x1b[2Kab c\r\n\x1b[2K\r\n");
    }

    #[test]
    fn the_next_frame_starts_at_the_previous_one() {
        assert_eq!(Painter { n_lines: 7, coloured: false }.up(), "\r\x1b[7A");
        assert_eq!(Painter { n_lines: 0, coloured: false }.up(), "\r");
    }
}
