//! The command that repeats the result of this command, for reports.
//!
//! The command has the options of the command line in the order of the help, and the policy and the seeds also if they
//! are defaults, which may change between versions. Options of the output (`--out`, `--quiet`, `--json`) are omitted.
//! A relative path is relative to the directory in which the command ran.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory};

use crate::print::shell_word;

/// Options that do not change the result. `jobs` is the number of parallel runs.
const OMITTED: [&str; 8] =
    ["out", "force_foreign_output", "lines", "quiet", "json", "csv", "markdown", "jobs"];
/// Options that are printed with their default values.
const WITH_DEFAULT: [&str; 4] = ["policy", "policies", "seed", "seeds"];

/// Returns the command that repeats the result of this process, quoted for a shell.
pub fn command_line() -> Option<String> {
    normalized(crate::Cli::command(), std::env::args_os())
}

/// Returns the normalized command line; `None` if it is invalid.
fn normalized(cli: Command, args: impl IntoIterator<Item = OsString>) -> Option<String> {
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
    options.into_iter().for_each(|arg| add_option(&mut words, arg, matches));
    positional.into_iter().for_each(|arg| add_positional(&mut words, arg, matches));
    let words: Vec<String> = words.iter().map(|word| shell_word(Path::new(word))).collect();
    Some(words.join(" "))
}

fn is_repeated(arg: &Arg, matches: &ArgMatches) -> bool {
    let id = arg.get_id().as_str();
    match matches.value_source(id) {
        _ if OMITTED.contains(&id) => false,
        Some(ValueSource::DefaultValue) => WITH_DEFAULT.contains(&id),
        source => source.is_some(),
    }
}

fn values<'a>(arg: &Arg, matches: &'a ArgMatches) -> impl Iterator<Item = &'a OsStr> {
    matches.get_raw(arg.get_id().as_str()).into_iter().flatten()
}

fn add_option(words: &mut Vec<OsString>, arg: &Arg, matches: &ArgMatches) {
    let Some(name) = arg.get_long() else { return };
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
    let is_after_dashes = arg.is_last_set()
        || arg.is_trailing_var_arg_set()
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
        normalized(crate::Cli::command(), args.iter().map(OsString::from))
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
    fn the_normalized_command_of_a_normalized_command_is_the_same() {
        for args in [
            &["evenkeel", "compare", "w", "v", "--policies", "linux,dfs", "-o", "d"][..],
            &["evenkeel", "predict", "--machine", "m", "--programs", "a,b", "--", "-x", "y"],
            &["evenkeel", "profile", "--", "sleep", "-x", "it's"],
        ] {
            let Some(once) = of(args) else { continue };
            let words: Vec<String> = once.split(' ').map(|word| word.replace('\'', "")).collect();
            let again = of(&words.iter().map(String::as_str).collect::<Vec<_>>());
            assert!(again.is_some(), "{once}");
        }
        assert_eq!(of(&["evenkeel", "no-such-command"]), None);
    }
}
