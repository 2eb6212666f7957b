//! `evenkeel completions`: prints the completion script of a shell, generated from the command definitions.
//!
//! Names of policies and of shipped machines are completed as values of the options that take them.

use std::io::Write;

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command};
use clap_complete::Shell;

use crate::command_result::CommandResult;

/// Print the completion script of a shell
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Shell
    #[arg(value_enum)]
    shell: Shell,
}

pub fn main(args: &Args, cli: &Command) -> CommandResult {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut completed(cli), "evenkeel", &mut script);
    crate::print::stdout().write_all(&script)?;
    Ok(())
}

/// Returns the definitions without hidden commands, and with the names that options accept.
fn completed(cli: &Command) -> Command {
    let visible = cli.get_subcommands().filter(|command| !command.is_hide_set());
    let visible = visible.map(|command| command.clone().mut_args(|arg| with_names(command, arg)));
    Command::new("evenkeel").version(env!("CARGO_PKG_VERSION")).subcommands(visible)
}

fn with_names(command: &Command, arg: Arg) -> Arg {
    let names: Vec<&str> = match (command.get_name(), arg.get_id().as_str()) {
        (_, "policy" | "policies" | "baseline") | ("policies", "name") => {
            policy::registry().iter().map(|info| info.name).collect()
        }
        (_, "machine") | ("machine", "file") => lab::shipped::machines().collect(),
        _ => return arg,
    };
    arg.value_parser(PossibleValuesParser::new(names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_complete_names_and_no_hidden_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            let mut command = completed(&crate::help::cli());
            clap_complete::generate(shell, &mut command, "evenkeel", &mut script);
            let script = String::from_utf8(script).expect("text");
            for name in ["home-cluster", "xeon-2x4", "calibrate"] {
                assert!(script.contains(name), "{shell}: {name}");
            }
            for hidden in ["man-pages", host_live::SUPERVISOR_ARGUMENT] {
                assert!(!script.contains(hidden), "{shell}: {hidden}");
            }
        }
    }
}
