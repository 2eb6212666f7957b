//! `evenkeel nodes`: the CPUs of each node of a machine file. An example of a subcommand.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use topology::file::parse_toml;

use super::command_result::{CommandResult, OrUsageError};

/// Print the CPUs of each node of a machine file
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Read this machine file (default: machine.toml)
    #[arg(long, value_name = "FILE", default_value = "machine.toml", hide_default_value = true)]
    machine: PathBuf,
}

pub fn main(args: &Args) -> CommandResult {
    print(args, &mut super::print::stdout())
}

/// Prints one line per node.
pub(super) fn print(args: &Args, out: &mut dyn Write) -> CommandResult {
    let path = args.machine.display().to_string();
    let text = std::fs::read_to_string(&args.machine)
        .with_context(|| format!("cannot read {path}"))
        .or_usage_error()?;
    let machine = parse_toml(&text, &path).or_usage_error()?;
    for node in machine.nodes() {
        writeln!(out, "node {} has the CPUs {}", node.id.0, node.cpus)?;
    }
    Ok(())
}
