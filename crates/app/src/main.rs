//! `evenkeel`: the command line. The program combines a policy, a host and sinks, and prints results. Placement
//! decisions are made by policies only.

mod calibrate;
mod command_result;
mod compare;
mod completions;
mod core_kinds;
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
mod recorded_run;
mod repeat;
mod replay;
mod report;
mod reproduce;
mod restore;
mod run;
mod signatures;
mod state;
mod status;
mod stored_report;
mod tier_override;
mod tune;
mod view;
mod watch;

use std::process::ExitCode;

use clap::{FromArgMatches, Parser, Subcommand};
use command_result::OrUsageError;

/// Place programs and their memory on machines whose cores share caches, memory controllers and links
#[derive(Debug, Parser)]
#[command(name = "evenkeel", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: CliCommand,
}

/// The help line of a command is the comment of its arguments.
#[derive(Debug, Subcommand)]
enum CliCommand {
    Machine(machine::Args),
    Run(run::Args),
    Compare(compare::Args),
    Tune(tune::Args),
    Watch(watch::Args),
    Status(status::Args),
    Policies(policies::Args),
    Calibrate(calibrate::Args),
    Predict(predict::Args),
    Profile(profile::Args),
    Generate(generate::Args),
    Load(load::Args),
    Explain(explain::Args),
    Record(record::Args),
    Replay(replay::Args),
    Report(report::Args),
    Reproduce(reproduce::Args),
    Restore(restore::Args),
    Completions(completions::Args),
    #[command(hide = true)]
    ManPages(manual::Args),
    /// Supervise a run with --kill-on-exit; started by evenkeel itself
    #[command(name = host_live::SUPERVISOR_ARGUMENT, hide = true)]
    SuperviseJobs {
        /// Name of the run
        run: String,
    },
}

/// Checks the stack size before it is used. The kernel kills a process that needs more.
fn main() -> ExitCode {
    if let Err(error) = linux::system::check_stack() {
        return command_result::from_result(Err(command_result::CommandError::Usage(error.into())));
    }
    run_command()
}

// A function of its own: the check must not need the stack of the commands.
#[inline(never)]
fn run_command() -> ExitCode {
    linux::system::ignore_file_size_signal();
    let parsed = help::cli().try_get_matches();
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            return command_result::from_clap(&error, &help::cli(), input::names_program);
        }
    };
    let result = match cli.command {
        CliCommand::Machine(args) => machine::main(&args),
        CliCommand::Run(args) => check_state().and_then(|()| run::main(&args)),
        CliCommand::Compare(args) => check_state().and_then(|()| compare::main(&args)),
        CliCommand::Tune(args) => tune::main(&args),
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
        CliCommand::Completions(args) => completions::main(&args, &help::cli()),
        CliCommand::ManPages(args) => manual::main(&args, help::cli()),
        CliCommand::SuperviseJobs { run } => {
            host_live::supervise(&run, std::io::stdin().lock());
            Ok(())
        }
    };
    command_result::from_result(result)
}

/// Checks that `/proc` shows the processes that a command reads and changes, before anything is started.
fn check_proc() -> command_result::CommandResult {
    linux::system::check_proc("/".as_ref()).or_usage_error()
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
