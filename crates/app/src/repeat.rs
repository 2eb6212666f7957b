//! The command that repeats the result of this command, for reports.
//!
//! The command has the options of the command line in the order of the help, and the policy and the seeds also if they
//! are defaults, which may change between versions. Options of the output (`--out`, `--quiet`, `--json`) are omitted.
//! The command begins with `cd DIR &&` if its result depends on the current directory: it names a program, or a file by
//! a relative path.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use base::shell;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

/// Options that do not change the result. `jobs` is the number of parallel runs.
const OMITTED: [&str; 11] = [
    "out",
    "html",
    "journal",
    "force_foreign_output",
    "lines",
    "quiet",
    "json",
    "csv",
    "markdown",
    "parquet",
    "jobs",
];
/// Options that are printed with their default values.
const WITH_DEFAULT: [&str; 4] = ["policy", "policies", "seed", "seeds"];

/// Returns the command that repeats the result of this process, quoted for a shell.
pub fn command_line() -> Option<String> {
    let Repeated { words, needs_dir } = normalized(crate::help::cli(), std::env::args_os())?;
    let command = shell::join(words);
    let dir = std::env::current_dir().ok().filter(|_| needs_dir);
    Some(dir.map_or(String::new(), |dir| format!("cd {} && ", shell::quote(dir))) + &command)
}

/// A normalized command line.
struct Repeated {
    words: Vec<OsString>,
    /// Whether the result depends on the current directory.
    needs_dir: bool,
}

/// Returns the normalized command line; `None` if it is invalid.
fn normalized(cli: Command, args: impl IntoIterator<Item = OsString>) -> Option<Repeated> {
    let mut words = vec![OsString::from(cli.get_name())];
    let matches = cli.clone().try_get_matches_from(args).ok()?;
    let (mut command, mut matches) = (&cli, &matches);
    while let Some((name, below)) = matches.subcommand() {
        (command, matches) = (command.find_subcommand(name)?, below);
        words.push(name.into());
    }
    let is_repeated = |arg: &&Arg| is_repeated(arg, matches);
    let (positional, options): (Vec<&Arg>, Vec<&Arg>) =
        command.get_arguments().filter(is_repeated).partition(|arg| arg.is_positional());
    let needs_dir = options.iter().chain(&positional).any(|arg| needs_dir(arg, matches));
    let runs_program = positional.iter().any(|arg| is_program(arg));
    for arg in options {
        // Commands have no seeds: `compare` calls the same option --runs.
        let name = match arg.get_long() {
            Some("seeds") if runs_program => Some("runs"),
            name => name,
        };
        name.into_iter().for_each(|name| add_option(&mut words, name, arg, matches));
    }
    positional.into_iter().for_each(|arg| add_positional(&mut words, arg, matches));
    Some(Repeated { words, needs_dir })
}

/// Returns whether an argument is a program, or the relative path of a file.
fn needs_dir(arg: &Arg, matches: &ArgMatches) -> bool {
    let is_program = is_program(arg) || arg.get_id() == "job";
    let is_file = |value: &OsStr| Path::new(value).is_relative() && Path::new(value).exists();
    is_program || values(arg, matches).any(is_file)
}

fn is_program(arg: &Arg) -> bool {
    arg.is_last_set() || arg.is_trailing_var_arg_set()
}

fn is_repeated(arg: &Arg, matches: &ArgMatches) -> bool {
    let id = arg.get_id().as_str();
    match matches.value_source(id) {
        _ if OMITTED.contains(&id) && !arg.is_positional() => false,
        Some(ValueSource::DefaultValue) => WITH_DEFAULT.contains(&id),
        source => source.is_some(),
    }
}

fn values<'a>(arg: &Arg, matches: &'a ArgMatches) -> impl Iterator<Item = &'a OsStr> {
    matches.get_raw(arg.get_id().as_str()).into_iter().flatten()
}

fn add_option(words: &mut Vec<OsString>, name: &str, arg: &Arg, matches: &ArgMatches) {
    let option = OsString::from(format!("--{name}"));
    if !matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) {
        return words.push(option);
    }
    for value in values(arg, matches) {
        match value.as_encoded_bytes().starts_with(b"-") {
            false => words.extend([option.clone(), value.to_owned()]),
            true => {
                let mut both = option.clone();
                both.push("=");
                both.push(value);
                words.push(both);
            }
        }
    }
}

fn add_positional(words: &mut Vec<OsString>, arg: &Arg, matches: &ArgMatches) {
    let is_after_dashes = is_program(arg)
        || values(arg, matches).any(|value| value.as_encoded_bytes().starts_with(b"-"));
    if is_after_dashes {
        words.push("--".into());
    }
    words.extend(values(arg, matches).map(OsStr::to_owned));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(args: &[&str]) -> Option<String> {
        let repeated = normalized(crate::help::cli(), args.iter().map(OsString::from));
        Some(shell::join(repeated?.words))
    }

    #[test]
    fn the_command_has_all_options_of_the_run_and_none_of_the_output() {
        let args =
            ["./evenkeel", "run", "my w.toml", "-q", "--lines", "--out", "o", "-p", "dfs[x=1]"];
        assert_eq!(
            of(&args).as_deref(),
            Some("evenkeel run --policy 'dfs[x=1]' --seed 0 'my w.toml'")
        );
        let args =
            ["evenkeel", "run", "--host=sim", "--seed", "7", "w", "-p", "linux", "--fail-fast"];
        assert_eq!(
            of(&args).as_deref(),
            Some("evenkeel run --policy linux --host sim --seed 7 --fail-fast w")
        );
    }

    #[test]
    fn a_comparison_of_commands_has_runs_and_no_seeds() {
        let of_seeds = "evenkeel compare --seeds 3 wl1";
        assert_eq!(of(&["evenkeel", "compare", "wl1", "--runs", "3"]).as_deref(), Some(of_seeds));
        let of_runs = "evenkeel compare --runs 10 -- true false";
        assert_eq!(of(&["evenkeel", "compare", "--", "true", "false"]).as_deref(), Some(of_runs));
    }

    #[test]
    fn only_programs_and_relative_files_depend_on_the_directory() {
        let needs_dir = |args: &[&str]| {
            let args = ["evenkeel"].iter().chain(args).map(OsString::from);
            normalized(crate::help::cli(), args).map(|repeated| repeated.needs_dir)
        };
        assert_eq!(needs_dir(&["run", "--", "true"]), Some(true));
        assert_eq!(needs_dir(&["run", "--job", "true"]), Some(true));
        assert_eq!(needs_dir(&["run", "Cargo.toml"]), Some(true)); // A file of this crate.
        let machine = ["run", "/w", "--host", "sim", "--machine", "xeon-2x4", "--out", "src"];
        assert_eq!(needs_dir(&machine), Some(false));
        assert_eq!(needs_dir(&["no-such-command"]), None);
    }
}
