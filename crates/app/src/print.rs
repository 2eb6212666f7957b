//! Standard output and standard error of every command.
//!
//! Names of processes, jobs and files are untrusted. Both streams therefore escape control and invisible format characters
//! in text and in JSON, so that no command can forget it. `clippy.toml` forbids other ways to print. A line end in a name
//! has to be escaped before the lines are joined: see [`base::printable`].

use std::io::{self, Write};

/// Escapes everything except line ends. Each write must be whole UTF-8 text, which `write!` of a text is.
pub struct Escaped<W>(W);

impl<W: Write> Write for Escaped<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        match text.chars().all(|c| c == '\n' || base::is_printable(c)) {
            true => self.0.write_all(bytes)?,
            false => self.0.write_all(base::printable_lines(&text).as_bytes())?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Locked standard output.
#[allow(clippy::disallowed_methods, reason = "the only standard output")]
pub fn stdout() -> Escaped<io::StdoutLock<'static>> {
    Escaped(io::stdout().lock())
}

/// Locked standard error.
pub fn stderr() -> Escaped<io::StderrLock<'static>> {
    Escaped(terminal())
}

/// Locked standard error for control sequences of evenkeel. Text of others must be escaped before.
#[allow(clippy::disallowed_methods, reason = "the only standard error")]
pub fn terminal() -> io::StderrLock<'static> {
    io::stderr().lock()
}

/// Prints one line to standard error, with `evenkeel: ` before it. A line end in it becomes a space.
pub fn note(text: impl std::fmt::Display) {
    // A closed standard error is not a failure.
    let _ = writeln!(stderr(), "evenkeel: {}", text.to_string().replace('\n', " "));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_format_characters_of_text_and_json_are_escaped() {
        let mut printed = Escaped(Vec::new());
        let json = serde_json::json!({ "program": "\u{7f}\u{9b}31m\u{202e}\u{e0041}\n" });
        write!(printed, "\u{1b}]0;title\u{7}\n{json}\n").expect("memory");
        let text = String::from_utf8(printed.0).expect("text");
        let (line, escaped) = text.trim_end().split_once('\n').expect("two lines");
        assert_eq!(line, "\\u001b]0;title\\u0007");
        assert!(escaped.contains("\\u007f\\u009b31m\\u202e\\udb40\\udc41\\n"), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(escaped).expect("JSON"), json);
    }
}
