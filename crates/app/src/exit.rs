//! How a command ends: 0 done, 1 the work failed, 2 the command was wrong. An error is one line.

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

/// Why a command did not do its work.
#[derive(Debug)]
pub enum Stop {
    /// The command, or a file that it names, is wrong: nothing was started. Exit status 2.
    Wrong(anyhow::Error),
    /// The work failed. Exit status 1.
    Failed(anyhow::Error),
    /// The work failed and everything about it has been printed. Exit status 1.
    Said,
}

/// What a command returns.
pub type Done = Result<(), Stop>;

/// Marks errors as the caller's mistake.
pub trait OrWrong<T> {
    /// Exit status 2 if this failed.
    fn or_wrong(self) -> Result<T, Stop>;
}

impl<T, E: Into<anyhow::Error>> OrWrong<T> for Result<T, E> {
    fn or_wrong(self) -> Result<T, Stop> {
        self.map_err(|error| Stop::Wrong(error.into()))
    }
}

impl<E: Into<anyhow::Error>> From<E> for Stop {
    fn from(error: E) -> Self {
        Stop::Failed(error.into())
    }
}

/// The exit status that belongs to a result; prints the error.
pub fn from_result(done: Done) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop::Said) => ExitCode::from(1),
        Err(Stop::Failed(error)) => {
            if is_broken_pipe(&error) {
                return ExitCode::SUCCESS; // The reader (head, less) has seen enough.
            }
            say(format_args!("{error:#}"));
            ExitCode::from(1)
        }
        Err(Stop::Wrong(error)) => {
            say(format_args!("{error:#}"));
            ExitCode::from(2)
        }
    }
}

/// Help and version go to standard output with status 0; mistakes are one line with status 2.
pub fn from_clap(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.render().to_string();
    let mistake = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
    } else {
        let details: Vec<&str> = text.lines().skip(1).map(str::trim).filter(|l| worth(l)).collect();
        let end =
            if details.is_empty() { String::new() } else { format!(" ({})", details.join("; ")) };
        say(format_args!("{mistake}{end}; see evenkeel --help"));
    }
    ExitCode::from(2)
}

fn worth(line: &str) -> bool {
    ["tip:", "[possible values", "<", "--"].iter().any(|start| line.starts_with(start))
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}

/// A line on standard error.
pub fn say(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "evenkeel: {}", one_line(&text.to_string()));
}

/// A text on one line that does nothing to a terminal: names of files and keys in it come from others.
fn one_line(text: &str) -> String {
    let mut line = String::new();
    for c in text.chars() {
        match c {
            '\n' => line.push(' '),
            c if is_plain(c) => line.push(c),
            c => line.extend(c.escape_unicode()),
        }
    }
    line
}

/// Neither a control character nor one that turns, hides or joins others.
fn is_plain(c: char) -> bool {
    let hides = matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    );
    !c.is_control() && !hides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_does_nothing_to_a_terminal() {
        assert_eq!(one_line("a\nb"), "a b");
        assert_eq!(one_line("\u{1b}[31mred\r\t\u{9b}"), "\\u{1b}[31mred\\u{d}\\u{9}\\u{9b}");
        assert_eq!(one_line("abc\u{202e}cba"), "abc\\u{202e}cba");
        assert_eq!(one_line("Größe \"…\" 測"), "Größe \"…\" 測");
    }
}
