//! Result of a command and its exit status: 0 success, 1 the work failed, 2 usage error. An error is one line.

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

/// Cause of a failed command.
#[derive(Debug)]
pub enum CommandError {
    /// The command line, or a file it names, is invalid. Nothing was started. Exit status 2.
    Usage(anyhow::Error),
    /// The work failed. Exit status 1.
    Failed(anyhow::Error),
    /// The work failed and its error is already printed. Exit status 1.
    Reported,
}

pub type CommandResult = Result<(), CommandError>;

pub trait OrUsageError<T> {
    /// Maps an error to [`CommandError::Usage`]: exit status 2.
    fn or_usage_error(self) -> Result<T, CommandError>;
}

impl<T, E: Into<anyhow::Error>> OrUsageError<T> for Result<T, E> {
    fn or_usage_error(self) -> Result<T, CommandError> {
        self.map_err(|error| CommandError::Usage(error.into()))
    }
}

impl<E: Into<anyhow::Error>> From<E> for CommandError {
    fn from(error: E) -> Self {
        CommandError::Failed(error.into())
    }
}

/// Prints the error of a result and returns the exit status.
pub fn from_result(result: CommandResult) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(CommandError::Reported) => ExitCode::from(1),
        Err(CommandError::Failed(error)) => {
            if is_broken_pipe(&error) {
                return ExitCode::SUCCESS; // The reader (head, less) closed the pipe.
            }
            print_error(format_args!("{error:#}"));
            ExitCode::from(1)
        }
        Err(CommandError::Usage(error)) => {
            print_error(format_args!("{error:#}"));
            ExitCode::from(2)
        }
    }
}

/// Prints help and version to standard output (status 0), and usage errors as one line (status 2).
pub fn from_clap(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.render().to_string();
    let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
    } else {
        let details: Vec<&str> =
            text.lines().skip(1).map(str::trim).filter(|l| is_detail(l)).collect();
        let details =
            if details.is_empty() { String::new() } else { format!(" ({})", details.join("; ")) };
        print_error(format_args!("{message}{details}; see evenkeel --help"));
    }
    ExitCode::from(2)
}

/// Whether a line of a clap error carries information that the one-line error keeps.
fn is_detail(line: &str) -> bool {
    ["tip:", "[possible values", "<", "--"].iter().any(|start| line.starts_with(start))
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Prints one line to standard error.
pub fn print_error(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "evenkeel: {}", one_line(&text.to_string()));
}

/// Joins a text to one line and escapes characters that affect a terminal. File names and keys in the text
/// are untrusted input.
fn one_line(text: &str) -> String {
    let mut line = String::new();
    for c in text.chars() {
        match c {
            '\n' => line.push(' '),
            c if is_printable(c) => line.push(c),
            c => line.extend(c.escape_unicode()),
        }
    }
    line
}

/// Whether `c` is neither a control character nor a bidirectional, zero-width or other invisible format character.
fn is_printable(c: char) -> bool {
    let is_invisible = matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    );
    !c.is_control() && !is_invisible
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_format_characters_of_an_error_are_escaped() {
        assert_eq!(one_line("a\nb"), "a b");
        assert_eq!(one_line("\u{1b}[31mred\r\t\u{9b}"), "\\u{1b}[31mred\\u{d}\\u{9}\\u{9b}");
        assert_eq!(one_line("abc\u{202e}cba"), "abc\\u{202e}cba");
        assert_eq!(one_line("Größe \"…\" 測"), "Größe \"…\" 測");
    }
}
