//! Keys: from bytes of the terminal to changes of the view.
//!
//! The terminal sends characters, and escape sequences for other keys (`ESC [ A` for the cursor key up). The reader of
//! crossterm is not used: it installs a signal handler and its own event loop. Ctrl-C and Ctrl-Z are not keys here:
//! the terminal converts them to SIGINT and SIGTSTP.

use base::JobId;

use super::jobs::Sort;

/// A key of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Char(u8),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Escape,
}

/// Control character of Ctrl-L.
const CTRL_L: u8 = 0x0c;
/// Number of rows that PageUp and PageDown skip.
const PAGE: isize = 10;

/// Decodes the bytes of one read. Unknown sequences are skipped.
pub fn decode(bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    let mut rest = bytes;
    while let Some((&first, after)) = rest.split_first() {
        let (key, n) = match (first, after) {
            (0x1b, [b'[' | b'O', sequence @ ..]) => {
                let n = sequence
                    .iter()
                    .take_while(|byte| !byte.is_ascii_alphabetic() && **byte != b'~');
                let n = n.count();
                (escape_sequence(sequence.get(..=n).unwrap_or_default()), 2 + n + 1)
            }
            (0x1b, _) => (Some(Key::Escape), 1),
            (byte, _) => (Some(Key::Char(byte)), 1),
        };
        keys.extend(key);
        rest = rest.get(n..).unwrap_or_default();
    }
    keys
}

fn escape_sequence(sequence: &[u8]) -> Option<Key> {
    Some(match sequence {
        b"A" => Key::Up,
        b"B" => Key::Down,
        b"H" | b"1~" | b"7~" => Key::Home,
        b"F" | b"4~" | b"8~" => Key::End,
        b"5~" => Key::PageUp,
        b"6~" => Key::PageDown,
        b"Z" => Key::Up, // Shift-Tab
        _ => return None,
    })
}

/// Selection, sort order and open window of the view.
#[derive(Clone, Debug, Default)]
pub struct Controls {
    pub selected: Option<JobId>,
    pub sort: Sort,
    pub is_paused: bool,
    pub overlay: Option<Overlay>,
}

/// A window over the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlay {
    Help,
    /// The history of the selected job.
    Explain,
    /// The question whether the run should end.
    ConfirmEnd,
}

/// Effect of a key beyond the controls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    None,
    /// The complete screen is drawn again, for example after another program wrote to the terminal.
    Repaint,
    /// The run ends as after SIGINT.
    EndRun,
}

impl Controls {
    /// Applies a key. `order` contains the jobs in the order of the table.
    pub fn press(&mut self, key: Key, order: &[JobId]) -> Effect {
        if self.overlay == Some(Overlay::ConfirmEnd) {
            self.overlay = None;
            let is_confirmed = matches!(key, Key::Char(b'q' | b'y'));
            return if is_confirmed { Effect::EndRun } else { Effect::None };
        }
        match key {
            Key::Char(b'q') => self.overlay = Some(Overlay::ConfirmEnd),
            Key::Char(b'?' | b'h') => self.toggle(Overlay::Help),
            Key::Char(b'\r' | b'\n' | b'e') => {
                self.selected = self.selected.or(order.first().copied());
                self.toggle(Overlay::Explain);
            }
            Key::Escape if self.overlay.is_none() => self.selected = None,
            Key::Escape => self.overlay = None,
            Key::Char(b's') => self.sort = self.sort.next(),
            Key::Char(b'p') => self.is_paused = !self.is_paused,
            Key::Up | Key::Char(b'k') => self.select(-1, order),
            Key::Down | Key::Char(b'j' | b'\t') => self.select(1, order),
            Key::PageUp => self.select(-PAGE, order),
            Key::PageDown => self.select(PAGE, order),
            Key::Home | Key::Char(b'g') => self.selected = order.first().copied(),
            Key::End | Key::Char(b'G') => self.selected = order.last().copied(),
            Key::Char(CTRL_L) => return Effect::Repaint,
            Key::Char(_) => {}
        }
        Effect::None
    }

    fn toggle(&mut self, overlay: Overlay) {
        self.overlay = if self.overlay == Some(overlay) { None } else { Some(overlay) };
    }

    fn select(&mut self, by: isize, order: &[JobId]) {
        let Some(last) = order.len().checked_sub(1) else { return };
        let at = self.selected.and_then(|selected| order.iter().position(|job| *job == selected));
        let to = at.map_or(0, |at| at.saturating_add_signed(by).min(last));
        self.selected = Some(order[to]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_are_keys_and_unknown_ones_are_skipped() {
        let keys = decode(b"s\x1b[A\x1bOB\x1b[5~\x1b[1;5C\x1b[200~q\x1b");
        let expected = [Key::Char(b's'), Key::Up, Key::Down, Key::PageUp, Key::Char(b'q')];
        assert_eq!(keys[..5], expected);
        assert_eq!(keys[5..], [Key::Escape]);
    }

    #[test]
    fn no_input_panics() {
        for one in 0..=255 {
            for other in 0..=255 {
                decode(&[0x1b, one, other]);
                decode(&[one, 0x1b, b'[', other]);
            }
        }
    }

    fn press(keys: &[u8], n_jobs: u32) -> (Controls, Effect) {
        let order: Vec<JobId> = (0..n_jobs).map(JobId).collect();
        let mut controls = Controls::default();
        let mut effect = Effect::None;
        for key in decode(keys) {
            effect = controls.press(key, &order);
        }
        (controls, effect)
    }

    #[test]
    fn the_run_ends_only_after_a_confirmation() {
        assert_eq!(press(b"q", 1).1, Effect::None);
        assert_eq!(press(b"qq", 1).1, Effect::EndRun);
        let (controls, effect) = press(b"qs", 1);
        assert_eq!((controls.overlay, controls.sort, effect), (None, Sort::State, Effect::None));
    }

    #[test]
    fn the_selection_stays_within_the_jobs() {
        assert_eq!(press(b"\x1b[A", 3).0.selected, Some(JobId(0)));
        assert_eq!(press(b"jjjjj", 3).0.selected, Some(JobId(2)));
        assert_eq!(press(b"G\x1b[5~", 30).0.selected, Some(JobId(19)));
        assert_eq!(press(b"j\t\x1b[6~eG", 0).0.selected, None);
    }
}
