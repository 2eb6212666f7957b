//! Standard output and standard error of every command.
//!
//! Names of processes, jobs and files are untrusted. Both streams therefore escape control characters and invisible
//! format characters in text and in JSON. `clippy.toml` forbids all other ways to print. A line end in a name must be
//! escaped before lines are joined; see [`base::printable`].
//!
//! If standard error is a stream of journald, each line begins with its priority, `<4>`, as sd-daemon(3) specifies.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Priority of a line in syslog and journald.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// The command failed.
    Error = 3,
    /// The command continues, and an operation failed or was rejected.
    Warning = 4,
    /// A fact that may require an action of the user.
    Notice = 5,
    /// Progress.
    Info = 6,
}

/// A writer that escapes all control characters except line ends. Each write must be complete UTF-8 text, as `write!`
/// produces it.
pub struct Escaped<W>(W);

impl<W: Write> Write for Escaped<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let written = match text.chars().all(|c| c == '\n' || base::is_printable(c)) {
            true => self.0.write_all(bytes),
            false => self.0.write_all(base::printable_lines(&text).as_bytes()),
        };
        written.map_err(output_error).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(output_error)
    }
}

/// Returns the error with the name of the file that it concerns, and with the same kind.
pub fn output_error(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("the output cannot be written: {error}"))
}

/// Standard output. A write fails if it was closed.
pub struct Stdout(io::StdoutLock<'static>);

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        check_stdout()?;
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Checks that standard output was not closed when evenkeel started.
pub fn check_stdout() -> io::Result<()> {
    match linux::system::is_stdout_closed() {
        true => Err(rustix::io::Errno::BADF.into()),
        false => Ok(()),
    }
}

/// Locks standard output.
#[allow(clippy::disallowed_methods, reason = "the only standard output")]
pub fn stdout() -> Escaped<Stdout> {
    Escaped(Stdout(io::stdout().lock()))
}

/// Locks standard error.
pub fn stderr() -> Escaped<io::StderrLock<'static>> {
    Escaped(terminal())
}

/// Locks standard error for control sequences of evenkeel. The caller must escape untrusted text first.
#[allow(clippy::disallowed_methods, reason = "the only standard error")]
pub fn terminal() -> io::StderrLock<'static> {
    io::stderr().lock()
}

/// Returns the descriptor of standard output, to determine its type.
#[allow(clippy::disallowed_methods, reason = "nothing is written")]
pub fn stdout_fd() -> impl AsFd {
    io::stdout()
}

/// Lines that are held while a full-screen view uses the terminal; `None`: lines are printed.
static HELD: Mutex<Option<String>> = Mutex::new(None);

/// Holds all lines until [`release_lines`].
pub fn hold_lines() {
    held().get_or_insert_default();
}

/// Prints the held lines.
pub fn release_lines() {
    let text = held().take().unwrap_or_default();
    // A closed standard error does not fail the command.
    let _ = stderr().write_all(text.as_bytes());
}

fn held() -> MutexGuard<'static, Option<String>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prints one line to standard error, after `evenkeel: `. A line end in the text becomes a space.
pub fn note(text: impl std::fmt::Display) {
    line(Priority::Notice, text);
}

/// Prints a line as [`note`] does: the command continues, and an operation failed.
pub fn warning(text: impl std::fmt::Display) {
    line(Priority::Warning, text);
}

/// Prints a line as [`note`] does: the command failed.
pub fn error(text: impl std::fmt::Display) {
    line(Priority::Error, text);
}

/// Prints a line of a priority as [`note`] does.
pub fn line(priority: Priority, text: impl std::fmt::Display) {
    let name = if is_journal() { "" } else { "evenkeel: " };
    lines(priority, &format!("{name}{}\n", text.to_string().replace('\n', " ")));
}

/// Prints complete lines of one priority to standard error.
pub fn lines(priority: Priority, text: &str) {
    let text = if is_journal() { with_priority(priority, text) } else { text.to_owned() };
    match &mut *held() {
        Some(held) => held.push_str(&text),
        // A closed standard error does not fail the command.
        None => drop(stderr().write_all(text.as_bytes())),
    }
}

fn with_priority(priority: Priority, text: &str) -> String {
    text.lines().map(|line| format!("<{}>{line}\n", priority as u8)).collect()
}

/// Returns whether standard error is a stream of journald, which stores the time and the name of the program itself.
/// The service manager writes the device and the inode of the stream to `JOURNAL_STREAM`.
pub fn is_journal() -> bool {
    static IS_JOURNAL: OnceLock<bool> = OnceLock::new();
    *IS_JOURNAL.get_or_init(|| {
        let stream = std::env::var("JOURNAL_STREAM").ok();
        let stderr = std::fs::metadata("/proc/self/fd/2").ok();
        stream
            .zip(stderr)
            .is_some_and(|(stream, file)| stream == format!("{}:{}", file.dev(), file.ino()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_for_the_journal_has_its_priority() {
        assert_eq!(with_priority(Priority::Warning, "a\n"), "<4>a\n");
        assert_eq!(with_priority(Priority::Info, "a\nb\n"), "<6>a\n<6>b\n");
    }

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
