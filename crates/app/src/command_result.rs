//! Result of a command and its exit status: 0 success, 1 the work failed, 2 usage error. An error is one line. A command
//! that runs one program exits with the status of the program, and with 126 or 127 if the program cannot be started.

use std::error::Error as _;
use std::process::ExitCode;

use base::suggest::{did_you_mean, question};
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::print;

/// Cause of a failed command.
#[derive(Debug)]
pub enum CommandError {
    /// The command line, or a file that the command line names, is invalid. Nothing was started. Exit status 2.
    Usage(anyhow::Error),
    /// The work failed. Exit status 1.
    Failed(anyhow::Error),
    /// The work failed and the error is already printed. Exit status 1.
    Reported,
    /// The only program of the command has this exit status.
    Exited(u8),
    /// The only program of the command cannot be started. Exit status as of env(1): 127 if it does not exist, else 126.
    NotStarted { is_found: bool, error: anyhow::Error },
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
        Err(CommandError::Exited(status)) => ExitCode::from(status),
        Err(CommandError::Failed(error)) => {
            if is_broken_pipe(&error) {
                return ExitCode::SUCCESS; // The reader (head, less) closed the pipe.
            }
            print::error(format_args!("{error:#}"));
            ExitCode::from(1)
        }
        Err(CommandError::Usage(error)) => {
            print::error(format_args!("{error:#}"));
            ExitCode::from(2)
        }
        Err(CommandError::NotStarted { is_found, error }) => {
            print::error(format_args!("{error:#}"));
            ExitCode::from(if is_found { 126 } else { 127 })
        }
    }
}

/// Prints help and version to standard output (status 0), and usage errors as one line (status 2). `names_program` is
/// whether a word is the name of a program.
pub fn from_clap(
    error: &clap::Error,
    cli: &clap::Command,
    names_program: fn(&str) -> bool,
) -> ExitCode {
    if !error.use_stderr() {
        let printed = print::check_stdout().and_then(|()| error.print());
        return from_result(printed.map_err(|error| print::output_error(error).into()));
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
    } else {
        let args = std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned());
        let args: Vec<String> = args.collect();
        let (command, path) = subcommand(cli, &args);
        let line = usage_line(error, command);
        let hint = match command.get_name() {
            _ if !is_program_without_dashes(error, command, &args, names_program) => "",
            "compare" => ": write -- before the commands, each of them in quotation marks",
            _ => ": write -- before a program and its arguments",
        };
        print::error(format_args!("{line}{hint}; see {path} --help"));
    }
    ExitCode::from(2)
}

/// Returns the message of a usage error of a command on one line, with the closest known name or other details.
pub fn usage_line(error: &clap::Error, command: &clap::Command) -> String {
    let text = error.render().to_string();
    let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
    let message = message.trim_end_matches(':');
    if error.kind() == ErrorKind::InvalidUtf8 {
        let mut args = std::env::args_os().skip(1);
        let invalid = args.find(|arg| arg.to_str().is_none()).unwrap_or_default();
        return format!(
            "the argument {} is not UTF-8 text: write a command with other bytes into a script",
            base::shell::quote(invalid)
        );
    }
    let found = |kind| match error.get(kind) {
        Some(ContextValue::String(found)) => Some(found.as_str()),
        _ => None,
    };
    let invalid = found(ContextKind::InvalidValue).zip(found(ContextKind::InvalidArg));
    if let (ErrorKind::ValueValidation, Some((value, arg)), Some(cause)) =
        (error.kind(), invalid, error.source())
    {
        // The text of clap contains the whole value, without its terminal escapes.
        return format!("invalid value '{}' for '{arg}': {cause}", base::excerpt(value));
    }
    if let Some(ContextValue::Strings(names)) = error.get(ContextKind::ValidValue) {
        let invalid = found(ContextKind::InvalidValue).filter(|found| !found.is_empty());
        return match invalid {
            Some(found) => {
                format!("{message}: {}", did_you_mean(found, names.iter().map(String::as_str)))
            }
            None if names.is_empty() => message.to_owned(), // The value is free text.
            None => format!("{message}: known are {}", names.join(", ")),
        };
    }
    if let Some(found) = found(ContextKind::InvalidSubcommand) {
        let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
        let names: Vec<&str> = shown.map(clap::Command::get_name).collect();
        return format!("{message}: {}", did_you_mean(found, names));
    }
    if let Some(near) = found(ContextKind::SuggestedArg).and_then(|near| question(&[near])) {
        return format!("{message}: {near}");
    }
    if error.kind() == ErrorKind::UnknownArgument && takes_program(command) {
        return message.to_owned(); // The other hints concern a value that begins with a dash.
    }
    let is_detail = |line: &&str| ["tip:", "<", "--"].iter().any(|start| line.starts_with(start));
    let details = text.lines().skip(1).map(str::trim).filter(is_detail);
    let details: Vec<&str> = details.map(|line| line.trim_start_matches("tip: ")).collect();
    match details.is_empty() {
        true => message.to_owned(),
        false => format!("{message}: {}", details.join("; ")),
    }
}

/// Returns whether an unknown argument belongs to a program without a preceding `--`: the argument is no option, or it
/// follows the name of a program.
fn is_program_without_dashes(
    error: &clap::Error,
    command: &clap::Command,
    args: &[String],
    names_program: fn(&str) -> bool,
) -> bool {
    let unknown = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(unknown)) if error.kind() == ErrorKind::UnknownArgument => {
            unknown
        }
        _ => return false,
    };
    let has_suggestion = error.get(ContextKind::SuggestedArg).is_some();
    if has_suggestion || !takes_program(command) || args.iter().any(|arg| arg == "--") {
        return false;
    }
    let before = args.iter().take_while(|arg| !arg.starts_with(unknown)).last();
    let is_program = |word: &&String| *word != command.get_name() && names_program(word);
    !unknown.starts_with('-') || before.filter(is_program).is_some()
}

/// Returns whether a program and its arguments can follow `--`.
fn takes_program(command: &clap::Command) -> bool {
    command.get_positionals().any(clap::Arg::is_last_set)
}

/// Returns the subcommand that the arguments select, and its command line.
fn subcommand<'a>(cli: &'a clap::Command, args: &[String]) -> (&'a clap::Command, String) {
    let (mut command, mut path) = (cli, cli.get_name().to_owned());
    for arg in args.iter().filter(|arg| *arg != "help") {
        let Some(found) = command.find_subcommand(arg) else { break };
        command = found;
        path = format!("{path} {arg}");
    }
    (command, path)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}
