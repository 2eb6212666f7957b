//! Workloads from commands on the command line, without a file.
//!
//! ```text
//!   -- sort -n words.txt    ─► [sort, -n, words.txt] ─┐
//!                                                     ├─► one job per command and copy ─► Workload
//!   --job 'sort "my words"' ─► [sort, my words]      ─┘
//! ```
//!
//! No shell interprets a command: `|`, `>` and `*` are ordinary characters. A command line for a shell is
//! `sh -c 'sort words.txt | uniq'`.

use std::path::Path;

use base::Nanos;
use base::toml_reader::SourceText;

use crate::assemble::{self, FileHeader, WorkloadLine, derived_name};
use crate::error::WorkloadFault;
use crate::{Command, FilePosition, Job, Workload, WorkloadError};

/// The name of the command line in positions, in place of the path of a file.
const ORIGIN: &str = "command line";

/// A valid command, which is printed in the error for a command line without a command.
const EXAMPLE: &str = "sort words.txt";

/// A text that cannot be split into a program and its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum SplitError {
    #[error("the command is empty; write the program and its arguments")]
    Empty,
    #[error("a quotation mark is not closed, or the text ends in a backslash; close or remove it")]
    Open,
}

/// Splits a text into words as a POSIX shell does: at spaces outside quotation marks. A word that begins with `#`
/// starts a comment. Nothing is expanded.
pub fn split_command(text: &str) -> Result<Vec<String>, SplitError> {
    match shlex::split(text) {
        None => Err(SplitError::Open),
        Some(words) if words.first().is_none_or(|program| program.trim().is_empty()) => {
            Err(SplitError::Empty)
        }
        Some(words) => Ok(words),
    }
}

/// Builds a workload that starts all commands at time 0 in the current directory. The name of the workload is the name
/// of the first program.
///
/// Each command is a program and its arguments. `defaults` has the values of all jobs. With `copies`, each command has
/// this number of jobs, and `{copy}` in the arguments is replaced by the number of the copy.
pub fn from_commands(
    commands: Vec<Vec<String>>,
    defaults: &Job,
    copies: Option<u32>,
) -> Result<Workload, WorkloadError> {
    let text = SourceText::new("", Path::new(ORIGIN));
    let lines = commands.into_iter().zip(1..).map(|(words, number)| {
        let mut words = words.into_iter();
        let program = words.next().filter(|program| !program.trim().is_empty());
        let program =
            program.ok_or_else(|| text.error_at(0, WorkloadFault::EmptyCommand("command")))?;
        let command = Command::Program { program: program.into(), args: words.collect() };
        let origin = FilePosition { file: ORIGIN.into(), line: number };
        let job = Job { command, origin, ..defaults.clone() };
        let [offset, name_offset, output_offset] = [0; 3];
        Ok(WorkloadLine {
            name: None,
            copies,
            every: Nanos::ZERO,
            job,
            offset,
            name_offset,
            output_offset,
        })
    });
    let lines: Vec<WorkloadLine> = lines.collect::<Result<_, WorkloadError>>()?;
    let name = lines.first().map(|line| derived_name(&line.job.command));
    assemble::workload(&text, FileHeader { name, read_only: Vec::new(), example: EXAMPLE }, lines)
}

#[cfg(test)]
mod tests {
    use base::JobId;

    use super::*;

    fn defaults() -> Job {
        Job::new(JobId(0), "", Command::Shell(String::new()))
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn a_command_is_split_like_in_a_shell_and_nothing_is_expanded() {
        let split = |text: &str| split_command(text);
        assert_eq!(
            split("sort -n  'my words' \"a b\""),
            Ok(words(&["sort", "-n", "my words", "a b"]))
        );
        assert_eq!(
            split("ls *.c | wc > $HOME"),
            Ok(words(&["ls", "*.c", "|", "wc", ">", "$HOME"]))
        );
        assert_eq!(split(r"a\ b c"), Ok(words(&["a b", "c"])));
        for empty in ["", "  ", "# comment", "''", "' ' x"] {
            assert_eq!(split(empty), Err(SplitError::Empty), "{empty:?}");
        }
        for open in ["'a", "a \"b", "a\\"] {
            assert_eq!(split(open), Err(SplitError::Open), "{open:?}");
        }
    }

    #[test]
    fn each_command_and_copy_is_a_job_with_a_name_of_its_own() {
        let commands = vec![words(&["/bin/sort", "part-{copy}"]), words(&["sort"])];
        let workload = from_commands(commands, &defaults(), Some(2)).expect("it is valid");
        let names: Vec<&str> = workload.jobs.iter().map(|job| &*job.name).collect();
        assert_eq!((&*workload.name, names), ("sort", vec!["sort", "sort.2", "sort.3", "sort.4"]));
        let Command::Program { args, .. } = &workload.jobs[1].command else { panic!("a program") };
        assert_eq!(args, &["part-2"]);
        assert_eq!(workload.jobs[3].origin.to_string(), "command line:2");
        assert_eq!(workload.dir, Path::new(""));
    }

    #[test]
    fn without_copies_a_placeholder_is_an_ordinary_argument() {
        let workload = from_commands(vec![words(&["echo", "{copy}"])], &defaults(), None);
        let workload = workload.expect("it is valid");
        let Command::Program { args, .. } = &workload.jobs[0].command else { panic!("a program") };
        assert_eq!(args, &["{copy}"]);
    }

    #[test]
    fn an_empty_program_and_too_many_copies_are_rejected() {
        let error = |commands, copies| {
            from_commands(commands, &defaults(), Some(copies)).expect_err("invalid").to_string()
        };
        assert_eq!(
            error(vec![words(&[""])], 1),
            "command line:1:1: \"command\" is empty; write the program and its arguments"
        );
        let two = vec![words(&["a"]), words(&["b"])];
        assert!(error(two, 60_000).starts_with("command line:1:1: more than 100000 jobs"));
    }
}
