//! The configuration file of a watch: each option of the command line as a key.
//!
//! ```text
//!   watch.toml  key = value ─► --key=value ┐
//!                                          ├─► clap ─► Args
//!   command line, without the file ────────┘   replaces the same key of the file
//! ```
//!
//! Options and keys have one definition, the fields of [`Args`]: a key is checked with the code of its option. Each
//! value is also checked alone, so that an error has the position of the value.

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use base::toml_reader::{
    SourceText, Spanned, TomlFault, TomlTable, TomlVersion, Value, decimal, wrong_type,
};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args as _, Command, FromArgMatches};

use super::Args;
use super::select::SelectionArgs;
use crate::command_result::usage_line;
use crate::help;

/// The file that `--check-config` checks without a value, and that the systemd unit uses.
pub(super) const DEFAULT_FILE: &str = "/etc/evenkeel/watch.toml";
const FILE_BYTES_MAX: u64 = 1 << 20;
const VERSION: TomlVersion = TomlVersion { key: "version", supported: 1, conversion: None };
/// Options without a key. `dry-run` is `act = false`.
const NOT_KEYS: [&str; 4] = ["config", "check-config", "dry-run", "help"];
/// A configuration, with the options of the command line.
#[derive(Debug)]
pub(super) struct WatchConfig {
    pub args: Args,
    /// Options that are not part of the selection.
    fixed: Vec<OsString>,
}

/// One key of the file as options of the command line.
struct ConfigKey {
    option: String,
    /// File, line and column of the value, and the key.
    place: String,
    values: Vec<OsString>,
}

impl WatchConfig {
    /// Reads a file and combines it with the command line of this process.
    pub(super) fn load(file: &Path) -> anyhow::Result<Self> {
        Self::combine(file, &std::env::args_os().collect::<Vec<_>>())
    }

    /// Reads a file alone, for `--check-config`.
    pub(super) fn of_file(file: &Path) -> anyhow::Result<Self> {
        Self::combine(file, &["evenkeel".into(), "watch".into()])
    }

    /// Returns whether the other configuration differs in more than the selection of processes and their classes.
    pub(super) fn needs_restart(&self, other: &WatchConfig) -> bool {
        self.fixed != other.fixed
    }

    fn combine(file: &Path, command_line: &[OsString]) -> anyhow::Result<Self> {
        let keys = read(file)?;
        let command = watch_command();
        let given = help::cli().try_get_matches_from(command_line)?;
        let given = given.subcommand_matches("watch").context("the command is not watch")?;
        let used = keys.iter().filter(|key| !is_replaced(&command, given, &key.option));
        let used: Vec<&ConfigKey> = used.collect();
        let of_file = used.iter().flat_map(|key| key.values.iter().cloned());
        let (start, rest) = command_line.split_at(command_line.len().min(2));
        let all: Vec<OsString> =
            start.iter().cloned().chain(of_file).chain(rest.iter().cloned()).collect();
        let matches = help::cli().try_get_matches_from(all);
        let matches =
            matches.map_err(|error| fault_of_file(file, &usage_line(&error, &command)))?;
        let matches = matches.subcommand_matches("watch").context("the command is not watch")?;
        let is_fixed = |key: &&&ConfigKey| !is_reloadable(&key.option);
        let fixed = used.iter().filter(is_fixed).flat_map(|key| key.values.clone()).collect();
        let mut args = Args::from_arg_matches(matches)?;
        let core_kinds = used.iter().find(|key| key.option == "core-kinds");
        args.core_kinds.set_place(core_kinds.map(|key| key.place.clone()));
        Ok(WatchConfig { args, fixed })
    }
}

fn fault_of_file(file: &Path, text: &str) -> anyhow::Error {
    anyhow::anyhow!("{}: {text}", file.display())
}

/// Returns whether a reload applies an option without a restart of the watch: the selection and the classes.
fn is_reloadable(option: &str) -> bool {
    let selection = SelectionArgs::augment_args(Command::new("selection"));
    option == "class" || argument(&selection, option).is_some()
}

fn watch_command() -> Command {
    let mut cli = help::cli();
    cli.build();
    cli.find_subcommand("watch").cloned().unwrap_or_else(|| Command::new("watch"))
}

/// Returns whether the command line has the option, or an option that conflicts with it.
fn is_replaced(command: &Command, given: &ArgMatches, option: &str) -> bool {
    let Some(arg) = argument(command, option) else { return false };
    let is_given =
        |arg: &Arg| given.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
    is_given(arg) || command.get_arg_conflicts_with(arg).into_iter().any(is_given)
}

fn argument<'c>(command: &'c Command, option: &str) -> Option<&'c Arg> {
    command.get_arguments().find(|arg| arg.get_long() == Some(option))
}

/// Returns the keys, in the order of the help text.
fn known_keys(command: &Command) -> Vec<String> {
    let options = command.get_arguments().filter_map(Arg::get_long);
    let keys = options.filter(|option| !NOT_KEYS.contains(option));
    keys.map(|option| option.replace('-', "_")).chain([VERSION.key.to_owned()]).collect()
}

/// Reads and checks a file.
fn read(path: &Path) -> anyhow::Result<Vec<ConfigKey>> {
    let cannot_read = || format!("cannot read the configuration {}", path.display());
    let file = files::open_regular(path).with_context(cannot_read)?;
    if rustix::process::geteuid().is_root() {
        check_trust(path)?;
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).with_context(cannot_read)?;
    if FILE_BYTES_MAX < text.len() as u64 {
        bail!("the configuration {} is larger than 1 MiB", path.display());
    }
    parse(&text, path)
}

/// Rejects a file that another user can replace or write. The file and the directories above it must belong to root;
/// only root may write to them. Exception: other users may create files in a directory with the sticky bit.
fn check_trust(path: &Path) -> anyhow::Result<()> {
    let path = path.canonicalize().with_context(|| format!("cannot read {}", path.display()))?;
    for part in path.ancestors() {
        let metadata = std::fs::symlink_metadata(part)
            .with_context(|| format!("cannot read {}", part.display()))?;
        let is_sticky = metadata.is_dir() && metadata.mode() & 0o1000 != 0;
        let is_writable = metadata.mode() & 0o022 != 0 && !is_sticky;
        if metadata.uid() != 0 || is_writable {
            bail!(
                "the configuration {} is not safe for root: other users can write {}; use chown \
                 root and chmod go-w",
                path.display(),
                part.display()
            );
        }
    }
    Ok(())
}

fn parse(text: &str, path: &Path) -> anyhow::Result<Vec<ConfigKey>> {
    let source = SourceText::new(text, path);
    let document = source.parse::<TomlFault>(VERSION)?;
    let command = watch_command();
    let known = known_keys(&command);
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    TomlTable::new::<TomlFault>(&source, document.get_ref(), 0, "the configuration", &known, &[])?;
    let mut entries: Vec<_> = document.get_ref().iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let mut keys = Vec::new();
    for (key, value) in entries {
        let option = key.get_ref().replace('_', "-");
        let Some(arg) = argument(&command, &option) else { continue };
        let at = |fault| source.error_at(value.span().start, fault);
        let mut values = Vec::new();
        for (offset, value) in option_values(key.get_ref(), arg, value).map_err(at)? {
            check_value(key.get_ref(), &value)
                .map_err(|text| source.error_at(offset, TomlFault::Other(text)))?;
            values.push(value);
        }
        let place = source.error_at(value.span().start, key.get_ref()).to_string();
        keys.push(ConfigKey { option, place, values });
    }
    Ok(keys)
}

/// Returns the options of a key, each with the offset of its value.
fn option_values(
    key: &str,
    arg: &Arg,
    value: &Spanned<Value<'_>>,
) -> Result<Vec<(usize, OsString)>, TomlFault> {
    let long = arg.get_long().unwrap_or_default();
    let offset = value.span().start;
    let is_path = arg.get_value_parser().type_id() == std::any::TypeId::of::<PathBuf>();
    let option = |value: &Spanned<Value<'_>>, expected| {
        if let Value::Integer(_) = value.get_ref()
            && is_path
        {
            return Err(wrong_type(key, "a path in quotation marks", value.get_ref()));
        }
        let text = scalar(key, value.get_ref(), expected)?;
        Ok((value.span().start, OsString::from(format!("--{long}={text}"))))
    };
    match (arg.get_action(), value.get_ref()) {
        (ArgAction::SetTrue, Value::Boolean(true)) => {
            Ok(vec![(offset, format!("--{long}").into())])
        }
        (ArgAction::SetTrue, Value::Boolean(false)) => Ok(Vec::new()),
        (ArgAction::SetTrue, other) => Err(wrong_type(key, "true or false", other)),
        (ArgAction::Append, Value::Array(array)) => {
            array.iter().map(|value| option(value, "an array of strings")).collect()
        }
        (ArgAction::Append, other) => Err(wrong_type(key, "an array", other)),
        _ => Ok(vec![option(value, "a string or an integer")?]),
    }
}

fn scalar(key: &str, value: &Value<'_>, expected: &'static str) -> Result<String, TomlFault> {
    match value {
        Value::String(text) => Ok(text.to_string()),
        Value::Integer(number) => Ok(decimal(number)),
        other => Err(wrong_type(key, expected, other)),
    }
}

/// Checks one option alone. Returns the message of the error.
fn check_value(key: &str, option: &OsString) -> Result<(), String> {
    let matches = watch_command().no_binary_name(true).try_get_matches_from([option]);
    let matches = matches.map_err(|error| match std::error::Error::source(&error) {
        Some(source) => format!("{key}: {source}"),
        None => usage_line(&error, &watch_command()),
    })?;
    let args = Args::from_arg_matches(&matches).map_err(|error| error.to_string())?;
    super::check(&args).map_err(|error| format!("{key}: {error:#}"))
}
