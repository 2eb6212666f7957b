//! `evenkeel`: the command line. It puts a policy, a host and sinks together and prints; it decides nothing.

mod calibrate;
mod command_result;
mod compare;
mod explain;
mod generate;
mod input;
mod load;
mod machine;
mod policies;
mod predict;
mod profile;
mod profiles;
mod record;
mod recorded;
mod replay;
mod report;
mod reproduce;
mod restore;
mod run;
mod signals;
mod state;
mod status;
mod view;
mod watch;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use command_result::OrUsageError;

/// Decides where programs run, and where their memory lies, on machines whose cores share caches,
/// memory controllers and links.
#[derive(Debug, Parser)]
#[command(name = "evenkeel", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the machine as evenkeel sees it, and which signals it can read
    Machine(machine::Args),
    /// Run a workload of real programs under a placement policy
    Run(run::Args),
    /// Compare policies on workloads, each on the same seeds, and say which is better
    Compare(compare::Args),
    /// Look after programs that already run; says what it would do until told to act
    Watch(watch::Args),
    /// Show who is looked after, what was changed and who is left alone
    Status(status::Args),
    /// List the policies with their parameters, defaults and sources
    Policies(policies::Args),
    /// Find the limits of the policy divided for a machine, from programs that ran alone
    Calibrate(calibrate::Args),
    /// Predict how much slower programs get side by side, and how best to split them
    Predict(predict::Args),
    /// Measure a program alone and write its profile
    Profile(profile::Args),
    /// Make a random workload from a list of programs and a seed
    Generate(generate::Args),
    /// Be one of the built-in synthetic programs
    Load(load::Args),
    /// Tell from a journal why jobs ran where they did
    Explain(explain::Args),
    /// Record what the kernel says of the machine and of processes, for replay
    Record(record::Args),
    /// Run a policy again over a journal or a stream: what would have been decided
    Replay(replay::Args),
    /// Make the report of a journal again
    Report(report::Args),
    /// Show what papers published beside what comes out here, with a verdict for each claim
    Reproduce(reproduce::Args),
    /// Put back what a killed evenkeel left changed
    Restore(restore::Args),
    /// Be the keeper of a run with --die-with-me: started by evenkeel itself
    #[command(name = host_live::KEEPER_ARGUMENT, hide = true)]
    KeepJobs {
        /// The name of the run
        run: String,
    },
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return command_result::from_clap(&error),
    };
    let done = match cli.command {
        Command::Machine(args) => machine::main(&args),
        Command::Run(args) => check_state().and_then(|()| run::main(&args)),
        Command::Compare(args) => check_state().and_then(|()| compare::main(&args)),
        Command::Watch(args) => check_state().and_then(|()| watch::main(&args)),
        Command::Status(args) => check_state().and_then(|()| status::main(&args)),
        Command::Policies(args) => policies::main(&args),
        Command::Calibrate(args) => calibrate::main(&args),
        Command::Predict(args) => predict::main(&args),
        Command::Profile(args) => profile::main(&args),
        Command::Generate(args) => generate::main(&args),
        Command::Load(args) => load::main(&args),
        Command::Explain(args) => explain::main(&args),
        Command::Record(args) => record::main(&args),
        Command::Replay(args) => replay::main(&args),
        Command::Report(args) => report::main(&args),
        Command::Reproduce(args) => reproduce::main(&args),
        Command::Restore(args) => check_state().and_then(|()| restore::main(&args)),
        Command::KeepJobs { run } => {
            host_live::keep(&run, std::io::stdin().lock());
            Ok(())
        }
    };
    command_result::from_result(done)
}

/// Where undo records lie must not depend on the folder that a command is called in.
fn check_state() -> command_result::CommandResult {
    linux::undo::check_variable().or_usage_error()?;
    Ok(())
}
