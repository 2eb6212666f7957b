//! The workload of `evenkeel run`: a file, or commands on the command line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use base::{JobId, shell};
use lab::shipped::ShippedKind;
use program::{Class, Command, Job, Workload};

use crate::command_result::{CommandError, OrUsageError};
use crate::input;

/// A workload file, or commands on the command line.
#[derive(Clone, Debug, clap::Args)]
pub struct WorkloadArgs {
    /// Run this workload: a .toml file, a file in the classic format (one job per line), or a shipped workload such as
    /// synthetic
    #[arg(value_name = "WORKLOAD", conflicts_with_all = ["command", "job"])]
    workload: Option<PathBuf>,
    /// Run this command without a workload file. It uses the standard streams of evenkeel (with --json not standard
    /// output), and evenkeel exits with its exit status
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
    /// Run this command as a job; may be repeated. The text is split into words at spaces outside quotation marks; no
    /// shell interprets it
    #[arg(long, value_name = "CMD", value_parser = CommandText::parse, help_heading = JOBS)]
    job: Vec<CommandText>,
    /// Run this number of copies of each command; {copy} in an argument is the number of the copy [default: 1]
    #[arg(long, value_name = "N", value_parser = input::integer::<u32>(1..=100_000), conflicts_with = "workload", help_heading = JOBS)]
    copies: Option<u32>,
    /// Set the memory class of the commands, 0 to 15 (default: of their profiles)
    #[arg(long, value_name = "CLASS", value_parser = class, conflicts_with = "workload", help_heading = JOBS)]
    class: Option<Class>,
    /// Set the number of busy threads of each command, for which a policy assigns CPUs [default: 1]
    #[arg(long, value_name = "N", value_parser = input::integer::<u32>(1..=program::N_THREADS_MAX), conflicts_with = "workload", help_heading = JOBS)]
    threads: Option<u32>,
}

/// Heading of the options of commands.
const JOBS: &str = "Jobs without a workload file";

/// A command in one argument.
#[derive(Clone, Debug)]
pub struct CommandText {
    /// The argument, without surrounding spaces.
    pub text: String,
    /// The program and its arguments.
    pub words: Vec<String>,
}

impl CommandText {
    pub fn parse(text: &str) -> Result<Self, String> {
        let words = program::split_command(text).map_err(|error| error.to_string())?;
        input::check_program(&words).map_err(|error| error.to_string())?;
        Ok(CommandText { text: text.trim().to_owned(), words })
    }

    /// Returns a note if an argument has the form of an operator of a shell.
    pub fn operator_note(&self) -> Option<String> {
        let is_operator = |word: &&String| {
            let word = word.trim_start_matches(|c: char| c.is_ascii_digit());
            ["|", "||", "&", "&&", ";"].contains(&word) || word.starts_with(['>', '<'])
        };
        let operator = self.words.iter().skip(1).find(is_operator)?;
        let program = shell::quote(&self.words[0]);
        let script = shell::quote(&self.text);
        Some(format!(
            "{operator} is an argument of {program}, because no shell interprets the command; to use a shell, \
             write: sh -c {script}"
        ))
    }
}

fn class(text: &str) -> Result<Class, String> {
    let number = input::integer(0..=Class::MAX)(text)?;
    Class::new(number).ok_or_else(|| "write an integer from 0 to 15".to_owned())
}

impl WorkloadArgs {
    /// Reads the workload file, or builds the workload of the commands.
    pub fn workload(&self) -> Result<Workload, CommandError> {
        match &self.workload {
            Some(path) => from_file(path).or_usage_error(),
            None => self.command_workload().or_usage_error(),
        }
    }

    /// Returns whether the only job is the command after `--`.
    pub fn is_one_command(&self) -> bool {
        !self.command.is_empty() && self.job.is_empty() && self.copies.unwrap_or(1) == 1
    }

    fn command_workload(&self) -> anyhow::Result<Workload> {
        input::check_program(&self.command)?;
        self.job.iter().filter_map(CommandText::operator_note).for_each(crate::print::note);
        let jobs = self.job.iter().map(|job| job.words.clone());
        let last = (!self.command.is_empty()).then(|| text(&self.command)).transpose()?;
        let commands: Vec<Vec<String>> = jobs.chain(last).collect();
        if commands.is_empty() {
            return Err(anyhow!(
                "there is no workload: name a file, or write a command after --, as in \
                 evenkeel run -- sort words.txt; see evenkeel run --help"
            ));
        }
        let job = Job::new(JobId(0), "", Command::Shell(String::new()));
        let defaults = Job { class: self.class, threads: self.threads.unwrap_or(1), ..job };
        Ok(program::from_commands(commands, &defaults, self.copies)?)
    }
}

/// Returns the words of a command as text, which a journal and a report contain.
fn text(command: &[OsString]) -> anyhow::Result<Vec<String>> {
    let text = |word: &OsString| {
        word.clone().into_string().map_err(|word| {
            anyhow!(
                "the argument {} is not UTF-8 text, and a report contains only text: use a pattern in sh -c, or \
                 evenkeel watch -- CMD, which accepts all bytes",
                shell::quote(word)
            )
        })
    };
    command.iter().map(text).collect()
}

/// Reads a workload file.
pub fn from_file(path: &Path) -> anyhow::Result<Workload> {
    let bytes = input::bytes_or_shipped(ShippedKind::Workload, "workload", path);
    let bytes =
        bytes.map_err(|error| match path.to_str().filter(|text| input::names_program(text)) {
            Some(text) => {
                let text = shell::quote(text);
                anyhow!("there is no workload {text}; to run this command, write -- before it")
            }
            None => error,
        })?;
    let is_shipped = !path.exists() && path.extension().is_none();
    let path = if is_shipped { &path.with_extension("toml") } else { path };
    Ok(program::parse_bytes(&bytes, path)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_of_a_shell_have_a_note_that_names_the_shell() {
        let note = |text: &str| CommandText::parse(text).expect("a command").operator_note();
        for text in ["sort a | uniq", "sort a >b", "sort a 2> b", "true && false", "a &"] {
            assert!(note(text).is_some(), "{text}");
        }
        for text in ["sort a", "sh -c 'sort a | uniq'", "awk '$1 > 2' a", "find . -name 'a;b'"] {
            assert_eq!(note(text), None, "{text}");
        }
        let note = note("sort a | uniq").expect("a note");
        assert!(note.ends_with("write: sh -c 'sort a | uniq'"), "{note}");
    }

    #[test]
    fn an_option_after_the_dashes_is_no_program() {
        let error = CommandText::parse("--runs 3").expect_err("an option");
        assert!(error.contains("options must precede --"), "{error}");
    }

    #[test]
    fn a_command_line_in_one_word_is_no_program() {
        let error =
            |word: &str| input::check_program(&[word.to_owned()]).map_err(|e| e.to_string());
        let text = error("sort a | uniq").expect_err("no such program");
        assert!(
            text.starts_with("'sort a | uniq' is one word") && text.contains("sh -c"),
            "{text}"
        );
        assert_eq!(error("sort"), Ok(()));
    }
}
