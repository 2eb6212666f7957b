//! `evenkeel`: the command line. The program combines a policy, a host and sinks, and prints results. Placement
//! decisions are made by policies only.

mod calibrate;
mod command_result;
mod compare;
mod completions;
mod explain;
mod generate;
mod help;
mod input;
mod journal_file;
mod linux_run;
mod load;
mod machine;
mod manual;
mod output;
mod policies;
mod predict;
mod print;
mod profile;
mod profiles;
mod program_start;
mod record;
mod repeat;
mod replay;
mod report;
mod reproduce;
mod restore;
mod run;
mod state;
mod status;
mod stored_report;
mod tier_override;
mod view;
mod watch;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use command_result::OrUsageError;
use help::examples_of;

/// Place programs and their memory on machines whose cores share caches, memory controllers and links
#[derive(Debug, Parser)]
#[command(name = "evenkeel", version, max_term_width = 100, after_help = examples_of!("README"))]
struct Cli {
    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Print the topology of this machine and the signals that evenkeel can read on it
    #[command(after_help = examples_of!("machine"))]
    Machine(machine::Args),
    /// Run a workload under a placement policy, live or simulated
    #[command(after_help = examples_of!("run"))]
    Run(run::Args),
    /// Compare policies on workloads with the same seeds, with confidence intervals
    #[command(after_help = examples_of!("compare"))]
    Compare(compare::Args),
    /// Manage processes that already run (default: only report actions; --act performs them)
    #[command(after_help = examples_of!("watch"))]
    Watch(watch::Args),
    /// Print managed processes, changed settings and the reasons for unmanaged processes
    #[command(after_help = examples_of!("status"))]
    Status(status::Args),
    /// List policies with their parameters, defaults and sources
    #[command(after_help = examples_of!("policies"))]
    Policies(policies::Args),
    /// Compute thresholds for the policy `divided` from runs of single programs on one machine
    #[command(after_help = examples_of!("calibrate"))]
    Calibrate(calibrate::Args),
    /// Predict slowdowns of programs that run together, and the best assignment to domains
    #[command(after_help = examples_of!("predict"))]
    Predict(predict::Args),
    /// Measure a program alone and write its profile
    #[command(after_help = examples_of!("profile"))]
    Profile(profile::Args),
    /// Generate a random workload from a program list and a seed
    #[command(after_help = examples_of!("generate"))]
    Generate(generate::Args),
    /// Run a built-in synthetic program
    #[command(after_help = examples_of!("load"))]
    Load(load::Args),
    /// Print the reasons for the placement of jobs, from a journal
    #[command(after_help = examples_of!("explain"))]
    Explain(explain::Args),
    /// Record kernel data about the machine and processes, for replay
    #[command(after_help = examples_of!("record"))]
    Record(record::Args),
    /// Replay a journal or a stream with a policy and print the decisions
    #[command(after_help = examples_of!("replay"))]
    Replay(replay::Args),
    /// Print the report of a run from its journal
    #[command(after_help = examples_of!("report"))]
    Report(report::Args),
    /// Compare published results with simulated ones, with a verdict for each claim
    #[command(after_help = examples_of!("reproduce"))]
    Reproduce(reproduce::Args),
    /// Restore the settings that an evenkeel process changed before it was killed
    #[command(after_help = examples_of!("restore"))]
    Restore(restore::Args),
    /// Print the completion script of a shell
    #[command(after_help = examples_of!("completions"))]
    Completions(completions::Args),
    /// Write the manual pages; used by make install
    #[command(hide = true)]
    ManPages(manual::Args),
    /// Supervise a run with --kill-on-exit; started by evenkeel itself
    #[command(name = host_live::SUPERVISOR_ARGUMENT, hide = true)]
    SuperviseJobs {
        /// Name of the run
        run: String,
    },
}

fn main() -> ExitCode {
    linux::system::ignore_file_size_signal();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return command_result::from_clap(&error, &Cli::command()),
    };
    let result = match cli.command {
        CliCommand::Machine(args) => machine::main(&args),
        CliCommand::Run(args) => check_state().and_then(|()| run::main(&args)),
        CliCommand::Compare(args) => check_state().and_then(|()| compare::main(&args)),
        CliCommand::Watch(args) => check_state().and_then(|()| watch::main(&args)),
        CliCommand::Status(args) => check_state().and_then(|()| status::main(&args)),
        CliCommand::Policies(args) => policies::main(&args),
        CliCommand::Calibrate(args) => calibrate::main(&args),
        CliCommand::Predict(args) => predict::main(&args),
        CliCommand::Profile(args) => profile::main(&args),
        CliCommand::Generate(args) => generate::main(&args),
        CliCommand::Load(args) => load::main(&args),
        CliCommand::Explain(args) => explain::main(&args),
        CliCommand::Record(args) => record::main(&args),
        CliCommand::Replay(args) => replay::main(&args),
        CliCommand::Report(args) => report::main(&args),
        CliCommand::Reproduce(args) => reproduce::main(&args),
        CliCommand::Restore(args) => check_state().and_then(|()| restore::main(&args)),
        CliCommand::Completions(args) => completions::main(&args, &Cli::command()),
        CliCommand::ManPages(args) => manual::main(&args, Cli::command()),
        CliCommand::SuperviseJobs { run } => {
            host_live::supervise(&run, std::io::stdin().lock());
            Ok(())
        }
    };
    command_result::from_result(result)
}

/// Checks `EVENKEEL_STATE_DIR`. The path must be absolute, because undo records must not depend on the current
/// directory. Prints a note if another user has created the fallback directory.
fn check_state() -> command_result::CommandResult {
    linux::undo::check_variable().or_usage_error()?;
    if let Some(dir) = linux::undo::planted_dir() {
        print::note(format_args!("ignoring {}, which belongs to another user", dir.display()));
    }
    Ok(())
}
