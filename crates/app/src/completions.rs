//! `evenkeel completions`: prints the completion script of a shell, generated from the command definitions.

use std::io::Write;

use clap_complete::Shell;

use crate::command_result::CommandResult;

/// Print the completion script of a shell
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Shell
    #[arg(value_enum)]
    shell: Shell,
}

pub fn main(args: &Args, mut cli: clap::Command) -> CommandResult {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli, "evenkeel", &mut script);
    crate::print::stdout().write_all(&script)?;
    Ok(())
}
