//! Result of a command and its exit status: 0 success, 1 the work failed, 2 usage error. An error is one line.

use std::process::ExitCode;

use super::print::note;

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
            note(format_args!("{error:#}"));
            ExitCode::from(1)
        }
        Err(CommandError::Usage(error)) => {
            note(format_args!("{error:#}"));
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
        note(format_args!("{message}{details}; see evenkeel --help"));
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
