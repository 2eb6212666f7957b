//! Commands that are compared with each other, or one command that runs under several policies.

use anyhow::Context;
use base::JobId;
use lab::compare::{Column, ColumnError, command_columns};
use program::{Command, Job, Workload};

use super::Args;
use crate::run::CommandText;

/// Name of the workload of several commands, and of the job of each of them.
pub(super) const NAME: &str = "command";

/// Returns a workload of one job for each command. Standard output is discarded, because the time to write it to a file
/// would count, except with --keep-output.
pub(super) fn workloads(args: &Args) -> impl Iterator<Item = anyhow::Result<Workload>> {
    let commands = &args.commands;
    commands.iter().filter_map(CommandText::operator_note).for_each(crate::print::note);
    let job = Job::new(JobId(0), "", Command::Shell(String::new()));
    let output = (!args.keep_output).then(|| "/dev/null".into());
    let defaults = Job { output, ..job };
    commands.iter().zip(1..).map(move |(command, number)| {
        let workload = program::from_commands(vec![command.words.clone()], &defaults, None);
        let mut workload = workload.with_context(|| format!("command {:?}", command.text))?;
        workload.jobs[0].origin.line = number;
        if 1 < commands.len() {
            // The jobs of all commands are one row of a table.
            NAME.clone_into(&mut workload.jobs[0].name);
        }
        Ok(workload)
    })
}

/// Returns the columns of the commands: the text of each command under each policy.
pub(super) fn columns(args: &Args, policies: &[Column]) -> Result<Vec<Column>, ColumnError> {
    let texts: Vec<String> = args.commands.iter().map(|command| command.text.clone()).collect();
    command_columns(&texts, policies)
}
