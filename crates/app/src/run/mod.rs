//! `evenkeel run`: a workload under a placement policy, live or simulated.
//!
//! ```text
//!   read and check everything ─► output directory ─► host (restores changes of killed runs)
//!      ─► host + engine + sinks (journal, report, progress) ─► reports ─► table
//! ```
//!
//! All usage errors are reported before any job starts.

mod command_args;
mod live;
mod memory_options;
mod sim;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use base::{Bytes, Nanos, shell};
use lab::compare::Column;
use linux::cgroup::{CgroupMode, HierarchyVersion};
use program::Workload;
use report::{JobStateName, Report};
use topology::Machine;

use crate::command_result::{CommandError, CommandResult, OrUsageError};
use crate::core_kinds::CoreKindsArg;
use crate::help::{LIMITS, MEASUREMENT, MEMORY, OUTPUT, POLICY};
use crate::output::JOURNAL;
pub(crate) use crate::output::{ForeignArg, RunDir};
use crate::report::write_files;
use crate::tier_override::SignalArgs;
use crate::view::ViewArgs;
use crate::{input, profiles, program_start};
pub(crate) use live::{RunOptions, RunResult, run as run_live};

use command_args::WorkloadArgs;
pub(crate) use command_args::{CommandText, from_file as workload_from_file};
pub use memory_options::{MemoryArgs, limits_of};
pub use sim::{SimArgs, SimSignals, check_declared, check_polls};

/// Default time between SIGTERM and SIGKILL.
pub(crate) const GRACE: Nanos = Nanos::from_secs(5);

/// Run a workload under a placement policy, live or simulated
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    workload: WorkloadArgs,
    /// Use this policy, with parameters in brackets: `dfs[cooldown=4]`; with --host sim also `oracle`
    #[arg(long, short, value_name = "NAME[key=value,…]", default_value = "auto", help_heading = POLICY)]
    policy: String,
    /// Run the programs on this host
    #[arg(long, value_enum, default_value_t = HostArg::Live)]
    host: HostArg,
    /// Set the random seed; the same seed gives the same decisions for the same samples
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = input::seed, allow_hyphen_values = true, help_heading = POLICY)]
    seed: u64,
    /// Write the journal, reports and job output to this directory [default: evenkeel-runs/NAME-N, N is the first free
    /// number; with a single command and without --json no file is written]
    #[arg(long, short, value_name = "DIR", help_heading = OUTPUT)]
    out: Option<PathBuf>,
    #[command(flatten, next_help_heading = OUTPUT)]
    foreign: ForeignArg,
    /// Search this directory for profiles before all others; may be repeated
    #[arg(long, value_name = "DIR", help_heading = POLICY)]
    profiles: Vec<PathBuf>,
    /// Stop all jobs when one fails
    #[arg(long, help_heading = LIMITS)]
    fail_fast: bool,
    /// Set the time between SIGTERM and SIGKILL for jobs that are stopped [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = input::time, allow_hyphen_values = true, help_heading = LIMITS)]
    grace: Option<Nanos>,
    /// Stop all jobs after this time (default: no limit)
    #[arg(long, value_name = "TIME", value_parser = input::nonzero_time, allow_hyphen_values = true, help_heading = LIMITS)]
    time_limit: Option<Nanos>,
    /// Kill the jobs when evenkeel exits, also if it is killed by SIGKILL
    #[arg(long, help_heading = LIMITS)]
    kill_on_exit: bool,
    #[command(flatten, next_help_heading = MEMORY)]
    memory: MemoryArgs,
    #[command(flatten, next_help_heading = POLICY)]
    signals: SignalArgs,
    #[command(flatten, next_help_heading = POLICY)]
    core_kinds: CoreKindsArg,
    #[command(flatten, next_help_heading = OUTPUT)]
    view: ViewArgs,
    #[command(flatten)]
    sim: SimArgs,
    /// Select the counters. auto: hardware events of each task; software events of each task, or of each job if
    /// hardware events are unavailable. all: hardware events if available, and software events of each task. off: none
    #[arg(long, value_enum, default_value_t = CountersArg::Auto, help_heading = MEASUREMENT)]
    counters: CountersArg,
    /// Select the cgroup version for jobs with bound memory; the cgroup also applies to their children (auto: v2, else
    /// v1, else none, on machines with several memory nodes)
    #[arg(long, value_enum, default_value_t = CgroupsArg::Auto, help_heading = MEMORY)]
    cgroups: CgroupsArg,
    /// Print neither progress nor the final table; errors are still printed
    #[arg(long, short, help_heading = OUTPUT)]
    quiet: bool,
    /// Print the report as JSON instead of the table. The standard output of a single command goes to the directory
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
    /// Limit the size of a journal part; parts beyond the last sixteen are deleted [default: 64M, with --host sim 4M]
    #[arg(long, value_name = "SIZE", value_parser = input::journal_part_size, allow_hyphen_values = true, help_heading = OUTPUT)]
    journal_part: Option<Bytes>,
}

impl Args {
    /// Returns whether the only job uses the standard streams of evenkeel, except standard output with --json.
    fn passes_streams(&self) -> bool {
        self.host == HostArg::Live && self.workload.is_one_command()
    }

    /// Returns the first option on the command line that applies to live runs only.
    fn live_only_option(&self) -> Option<&'static str> {
        let options = [
            ("--grace", self.grace.is_some()),
            ("--kill-on-exit", self.kill_on_exit),
            ("--counters", self.counters != CountersArg::Auto),
            ("--core-kinds", self.core_kinds.is_given()),
            ("--cgroups", self.cgroups != CgroupsArg::Auto),
        ];
        options.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }
}

/// The host of a run or a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum HostArg {
    /// This machine
    Live,
    /// A simulated machine, with programs described by profiles
    Sim,
}

/// Counters of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum CountersArg {
    /// Hardware events if available, with software events as described above
    Auto,
    /// Hardware events if available, and software events of each task in each sample
    All,
    /// No counters
    Off,
}

impl From<CountersArg> for host_live::CounterMode {
    fn from(arg: CountersArg) -> Self {
        match arg {
            CountersArg::Auto => host_live::CounterMode::Auto,
            CountersArg::All => host_live::CounterMode::All,
            CountersArg::Off => host_live::CounterMode::Off,
        }
    }
}

/// Cgroup version for jobs with bound memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum CgroupsArg {
    Auto,
    V2,
    V1,
    None,
}

impl From<CgroupsArg> for CgroupMode {
    fn from(arg: CgroupsArg) -> Self {
        match arg {
            CgroupsArg::Auto => CgroupMode::Auto,
            CgroupsArg::V2 => CgroupMode::Only(HierarchyVersion::V2),
            CgroupsArg::V1 => CgroupMode::Only(HierarchyVersion::V1),
            CgroupsArg::None => CgroupMode::None,
        }
    }
}

pub fn main(args: &Args) -> CommandResult {
    Column::check_no_variant(&args.policy).or_usage_error()?;
    if args.host == HostArg::Sim {
        if let Some(option) = args.live_only_option() {
            return Err(CommandError::Usage(anyhow::anyhow!(
                "{option} applies to live runs only; remove it or use --host live"
            )));
        }
        let (run, dir) = sim::run(args)?;
        return publish(args, run, Some(&dir));
    }
    if let Some(option) = args.sim.first_simulation_option() {
        return Err(CommandError::Usage(anyhow::anyhow!(
            "{option} applies to simulated runs only; remove it or add --host sim"
        )));
    }
    crate::check_proc()?;
    let checked = LiveInput::new(args)?;
    let needs_dir = args.out.is_some() || args.json || !args.passes_streams();
    let make = || RunDir::make(args.out.as_deref(), &checked.workload.name, args.foreign);
    let dir = needs_dir.then(make).transpose().or_usage_error()?;
    let run = run_live(&RunOptions::from(args), checked, dir.as_ref(), None)?;
    publish(args, run, dir.as_ref())
}

/// Writes and prints the report, even after an error. A full disk does not prevent the printed report. The command
/// fails with the first error.
fn publish(args: &Args, run: RunResult, dir: Option<&RunDir>) -> CommandResult {
    let RunResult { mut report, result, has_journal } = run;
    if let Some(dir) = dir {
        crate::linux_run::add(&mut report, dir.dir.path(), dir.dir.path());
    }
    let written = dir.map_or(Ok(()), |dir| write_files(&report, &dir.dir));
    let shown = show(args, &report, dir, written.is_ok());
    let exited = exit_status(&report).filter(|_| args.passes_streams());
    if args.quiet && matches!(result, Err(CommandError::Reported)) {
        crate::print::note(failure_text(&report, dir));
    }
    match (result, exited) {
        (Err(CommandError::Reported), Some(status)) => return Err(CommandError::Exited(status)),
        (result, _) => result?,
    }
    written?;
    shown?;
    if has_journal { Ok(()) } else { Err(CommandError::Reported) }
}

/// Returns the exit status of the only job of a run that was not stopped, as a shell returns it: 128 and the number of
/// the signal for a job that a signal ended, 126 for a program that could not be started.
fn exit_status(report: &Report) -> Option<u8> {
    let is_complete = report.run.stopped_by.is_none() && report.run.error.is_none();
    let job = report.jobs.first().filter(|_| is_complete)?;
    let status = match job.state {
        JobStateName::NotStarted => 126,
        _ => job.exit_status.or_else(|| job.signal.map(|signal| 128 + signal))?,
    };
    u8::try_from(status).ok()
}

/// Returns the line of a failed run with --quiet, which has printed neither progress nor a table.
fn failure_text(report: &Report, dir: Option<&RunDir>) -> String {
    let result = &report.run.result;
    match dir {
        Some(dir) => {
            format!("{result}; evenkeel report {} prints the details", shell::quote(dir.file("")))
        }
        None => format!("{result}; the report without --quiet has the details"),
    }
}

/// Validated input of a live run. The validation changes no setting and starts no job.
pub(crate) struct LiveInput {
    pub workload: Workload,
    pub machine: Machine,
    pub policy: Box<dyn sched::Policy>,
    pub signals: sched::TierOverride,
}

impl LiveInput {
    fn new(args: &Args) -> Result<Self, CommandError> {
        let mut workload = args.workload.workload()?;
        if args.passes_streams() {
            program_start::find(&args.workload.command)?;
        }
        let notes = profiles::attach(&mut workload, &args.profiles).or_usage_error()?;
        check_loads(&workload).or_usage_error()?;
        if lab::oracle::is_named(&args.policy) {
            return Err(CommandError::Usage(lab::oracle::OracleError::Live.into()));
        }
        let policy = policy::build(&args.policy, args.seed).or_usage_error()?;
        let machine = linux::topology::read(Path::new("/"))?;
        let machine = args.core_kinds.apply(machine).or_usage_error()?;
        check_startable(&workload, &machine, args.cgroups.into())?;
        let signals = args.signals.overrides().or_usage_error()?;
        crate::tier_override::check_readable(&signals, &*policy, &machine).or_usage_error()?;
        if !args.quiet {
            notes.iter().for_each(crate::print::note);
        }
        Ok(LiveInput { workload, machine, policy, signals })
    }
}

/// Checks that every job can be started on this machine.
pub(crate) fn check_startable(
    workload: &Workload,
    machine: &Machine,
    cgroups: CgroupMode,
) -> Result<(), CommandError> {
    if let Some(job) = workload.jobs.iter().find(|job| job.sections.is_some()) {
        return Err(CommandError::Usage(anyhow::anyhow!(
            "{}: job {:?}: \"section\" applies to simulated runs only, because a program synchronizes its threads itself; remove it or use --host sim",
            job.origin,
            job.name
        )));
    }
    let is_simulated = workload.jobs.iter().all(|job| job.profile.is_some());
    host_live::preflight(workload, machine)
        .map_err(|error| match is_simulated {
            true => anyhow::anyhow!("{error}; --host sim simulates the workload from its profiles"),
            false => error.into(),
        })
        .or_usage_error()?;
    let checked = host_live::check_cgroups(cgroups);
    checked.map_err(|cause| anyhow::anyhow!("--cgroups {cause}")).or_usage_error()
}

/// Checks the arguments of built-in programs before any job starts.
pub(crate) fn check_loads(workload: &Workload) -> anyhow::Result<()> {
    for job in &workload.jobs {
        if let program::Command::Load(args) = &job.command {
            let checked = crate::load::check(args).map_err(anyhow::Error::msg);
            checked.with_context(|| format!("{}: job {:?}", job.origin, job.name))?;
        }
    }
    Ok(())
}

/// Prints the report. Standard output of a command that uses the files of evenkeel contains only the output of the
/// command, so that its report goes to standard error.
fn show(
    args: &Args,
    report: &Report,
    dir: Option<&RunDir>,
    is_written: bool,
) -> anyhow::Result<()> {
    if args.json {
        writeln!(crate::print::stdout(), "{}", report.to_json()?)?;
    } else if !args.quiet {
        let text = report.to_text(80) + &dir.map_or(String::new(), |dir| paths(dir, is_written));
        match args.passes_streams() {
            true => crate::print::stderr().write_all(format!("\n{text}").as_bytes())?,
            false => crate::print::stdout().write_all(text.as_bytes())?,
        }
    }
    Ok(())
}

/// Returns the lines with the paths of the report and the journal.
fn paths(dir: &RunDir, is_written: bool) -> String {
    let page = format!("report:   {}\n", dir.file("report.html").display());
    let page = if is_written { page } else { String::new() };
    format!("\n{page}journal:  {}\n", dir.file(JOURNAL).display())
}
