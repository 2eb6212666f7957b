//! `evenkeel compare`: policies × workloads × seeds, or commands × seeds, with verdicts.
//!
//! ```text
//!   read and check all inputs ─► directory (new, or of the same comparison) ─► the remaining runs
//!      ─► reports of single runs ─► compare.json · compare.html · runs.csv · summary.csv ─► tables
//! ```
//!
//! All usage errors are reported before the first run.

mod commands;
mod files;
mod live;
mod parquet;
mod progress;
mod sim;

pub use progress::Progress;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use ::files::OutputDir;
use anyhow::Context;
use base::Nanos;
use lab::compare::{
    ComparePlan, Identity, RunKey, RunStore, RunStoreError, SoloTimes, SummaryContext, columns,
    seeds, summarize,
};
use program::{Job, Workload};
use report::comparison::Comparison;
use topology::Machine;

use crate::command_result::{CommandError, CommandResult, OrUsageError};
use crate::core_kinds::CoreKindsArg;
use crate::help::{MEASUREMENT, MEMORY, OUTPUT, POLICY};
use crate::output::ForeignArg;
use crate::run::{CommandText, HostArg, MemoryArgs, SimArgs, workload_from_file};
use crate::tier_override::SignalArgs;
use crate::{input, output, profiles};

/// Compare policies on workloads with the same seeds, with confidence intervals
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run these workloads: .toml files, or the classic format (one job per line)
    #[arg(value_name = "WORKLOAD", conflicts_with = "commands")]
    workloads: Vec<PathBuf>,
    /// Run these commands on this machine, each in one argument: -- 'sort a.txt' 'sort -u a.txt'. Several commands are
    /// compared with the first one. Each text is split into words at spaces outside quotation marks; no shell
    /// interprets it
    #[arg(last = true, value_name = "CMD", value_parser = CommandText::parse)]
    commands: Vec<CommandText>,
    /// Compare these policies, separated by commas: `linux,dfs[cooldown=4,domains=llc]`; may be repeated. @ adds
    /// settings of the machine, separated by +: `linux@interleave`, first-touch, numa-balancing, no-numa-balancing,
    /// kernel=6.18 (or 4.2, 2.6.27). With --host sim also `oracle`, the best result of a search for each run [default:
    /// linux,auto; for several commands linux]
    #[arg(long, short, alias = "policy", value_name = "LIST", help_heading = POLICY)]
    policies: Vec<String>,
    /// Compare the other policies or commands with this one [default: linux if it is one of them, otherwise the first]
    #[arg(long, value_name = "NAME", help_heading = POLICY)]
    baseline: Option<String>,
    /// Set the number of seeds, which is the number of runs of each policy or command, or list the seeds: 20, 1-20,
    /// 3,7,11
    #[arg(
        long,
        visible_alias = "runs",
        value_name = "N|LIST",
        default_value = "10",
        allow_hyphen_values = true, help_heading = MEASUREMENT)]
    seeds: String,
    /// Draw the values of the shipped profiles from their ranges this number of times, and spread the seeds over the
    /// draws: intervals and tests then contain the uncertainty of the profiles. A draw is one observation, the same for
    /// all policies (with --host sim) [default: the middle of each range]
    #[arg(long, value_name = "N", value_parser = input::integer::<u32>(2..=10_000), help_heading = MEASUREMENT)]
    draw_profiles: Option<u32>,
    /// Run each policy or command this number of times before the measured runs, for example to fill the page cache
    /// (with --host live) [default: 0]
    #[arg(long, value_name = "N", value_parser = input::integer::<u32>(0..=1000), help_heading = MEASUREMENT)]
    warmup: Option<u32>,
    /// Run the programs on this host [default: sim; for commands live]
    #[arg(long, value_enum)]
    host: Option<HostArg>,
    /// Set the number of parallel runs, with --host sim [default: one for each CPU]
    #[arg(long, short, value_name = "N", value_parser = input::integer::<u16>(1..=1024), allow_hyphen_values = true, help_heading = MEASUREMENT)]
    jobs: Option<u16>,
    /// Write the runs and the reports to this directory; the same command with the same directory resumes an
    /// interrupted comparison [default: evenkeel-comparisons/NAME-N, N is the first free number]
    #[arg(long, short, value_name = "DIR", help_heading = OUTPUT)]
    out: Option<PathBuf>,
    #[command(flatten, next_help_heading = OUTPUT)]
    foreign: ForeignArg,
    /// Search this directory for profiles before all others; may be repeated
    #[arg(long, value_name = "DIR", help_heading = POLICY)]
    profiles: Vec<PathBuf>,
    /// Stop a run after this time; a stopped run is ranked as slowest and has no makespan
    #[arg(long, value_name = "TIME", value_parser = input::nonzero_time, allow_hyphen_values = true, help_heading = MEASUREMENT)]
    time_limit: Option<Nanos>,
    #[command(flatten, next_help_heading = MEMORY)]
    memory: MemoryArgs,
    #[command(flatten, next_help_heading = POLICY)]
    signals: SignalArgs,
    #[command(flatten, next_help_heading = POLICY)]
    core_kinds: CoreKindsArg,
    #[command(flatten)]
    sim: SimArgs,
    /// Write a report with a timeline for these runs; with --host live every run has one
    #[arg(long, value_enum, default_value_t = Timelines::Median, help_heading = OUTPUT)]
    timelines: Timelines,
    /// Run every job alone first, to report slowdowns (with --host live)
    #[arg(long, help_heading = MEASUREMENT)]
    solo: bool,
    /// Write the standard output of the commands to files below the directory, which takes time (default: discard it)
    #[arg(long, requires = "commands", help_heading = OUTPUT)]
    keep_output: bool,
    /// Also write a row for every job of every run to this CSV file; - is standard output, in place of the tables
    #[arg(long, visible_alias = "export-csv", value_name = "FILE", help_heading = OUTPUT)]
    csv: Option<PathBuf>,
    /// Also write the table of the summary to this Markdown file; - is standard output, in place of the tables
    #[arg(long, visible_alias = "export-markdown", value_name = "FILE", help_heading = OUTPUT)]
    markdown: Option<PathBuf>,
    /// Also write the same rows to this Parquet file; needs the build feature parquet
    #[arg(long, value_name = "FILE", hide = cfg!(not(feature = "parquet")), help_heading = OUTPUT)]
    parquet: Option<PathBuf>,
    /// Print no progress and no tables
    #[arg(long, short, help_heading = OUTPUT)]
    quiet: bool,
    /// Print the comparison as JSON instead of the tables
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
}

/// Selection of the runs that get a report with a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Timelines {
    /// The run with the median makespan of each policy on each workload
    Median,
    /// All runs
    All,
    /// No run
    None,
}

impl Args {
    fn host(&self) -> HostArg {
        let default = match self.commands.is_empty() {
            true => HostArg::Sim,
            false => HostArg::Live,
        };
        self.host.unwrap_or(default)
    }

    /// Returns the options that use standard output in place of the tables.
    fn stdout_options(&self) -> Vec<&'static str> {
        let is_stdout = |file: &Option<PathBuf>| file.as_deref().is_some_and(output::is_stdout);
        let options = [
            ("--json", self.json),
            ("--csv -", is_stdout(&self.csv)),
            ("--markdown -", is_stdout(&self.markdown)),
        ];
        options.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
    }

    /// Returns the first option on the command line that applies to live runs only.
    fn live_only_option(&self) -> Option<&'static str> {
        let options = [
            ("--solo", self.solo),
            ("--warmup", self.warmup.is_some()),
            ("--keep-output", self.keep_output),
            ("--core-kinds", self.core_kinds.is_given()),
        ];
        let is_several = [("a comparison of several commands", 1 < self.commands.len())];
        options.into_iter().chain(is_several).find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }
}

/// Plan and workloads of the command.
struct Inputs {
    plan: ComparePlan,
    /// The workloads of the plan; in a comparison of commands the workload of each command.
    workloads: Vec<Workload>,
    /// Notes to print after all checks have passed.
    notes: Vec<String>,
}

/// Inputs that have passed all checks.
struct CheckedComparison {
    plan: ComparePlan,
    machine: Machine,
    /// As in [`Inputs`].
    workloads: Vec<Workload>,
    notes: Vec<String>,
    /// Other options that affect the metrics, for the report and for [`Identity`].
    options: BTreeMap<String, String>,
}

impl CheckedComparison {
    /// Returns the jobs of each workload of the plan. The workloads of commands have jobs of the same name.
    fn jobs(&self) -> Vec<Vec<Job>> {
        let workloads = self.workloads.iter().take(self.plan.workloads.len());
        workloads.map(|workload| workload.jobs.clone()).collect()
    }
}

/// Results in addition to the metrics of the runs.
struct RunOutputs {
    /// Run times of jobs alone; empty if not measured.
    alone: SoloTimes,
    /// Paths of the reports of single runs.
    timelines: BTreeMap<RunKey, String>,
    /// As in [`SummaryContext`].
    outputs: BTreeMap<RunKey, String>,
    is_interrupted: bool,
    /// First error of a report of a single run that could not be written.
    error: Option<anyhow::Error>,
}

/// Runs the comparison and prints the report.
pub fn main(args: &Args) -> CommandResult {
    if args.parquet.is_some() {
        parquet::check().or_usage_error()?;
    }
    if let [first, second, ..] = *args.stdout_options() {
        return Err(CommandError::Usage(anyhow::anyhow!(
            "{first} and {second} both use standard output: write one of them to a file"
        )));
    }
    let texts = [&args.csv, &args.markdown].into_iter().flatten();
    let texts = texts.filter(|file| !output::is_stdout(file));
    for file in texts.chain(&args.parquet) {
        files::check_place(file).or_usage_error()?;
    }
    let inputs = plan(args)?;
    match (args.host(), args.live_only_option()) {
        (HostArg::Sim, Some(option)) => Err(CommandError::Usage(anyhow::anyhow!(
            "{option} works only with --host live, which runs the programs on this machine"
        ))),
        (HostArg::Sim, None) => sim::main(args, inputs),
        (HostArg::Live, _) => live::main(args, inputs),
    }
}

/// Reports that the file of finished runs cannot be written. The comparison continues with the values in memory.
fn report_unsaved(saved: Result<(), RunStoreError>) {
    if let Err(error) = saved.map_err(anyhow::Error::from) {
        crate::print::warning(format_args!(
            "{error:#}; the comparison continues, but cannot be resumed"
        ));
    }
}

fn warn_interrupted(args: &Args, dir: &OutputDir) {
    if !args.quiet {
        let dir = dir.path().display();
        crate::print::note(format_args!(
            "interrupted; finished runs are kept; the same command with --out {dir} resumes"
        ));
    }
}

/// Reads the workloads and profiles, and builds the plan of runs.
fn plan(args: &Args) -> Result<Inputs, CommandError> {
    let default = if 1 < args.commands.len() { "linux" } else { "linux,auto" };
    let policies = args.policies.iter().map(String::as_str);
    let policies = if args.policies.is_empty() { vec![default] } else { policies.collect() };
    let columns = columns(policies).or_usage_error()?;
    if args.host() == HostArg::Live && columns.iter().any(lab::compare::Column::is_oracle) {
        return Err(CommandError::Usage(lab::oracle::OracleError::Live.into()));
    }
    let option = if args.commands.is_empty() { "--seeds" } else { "--runs" };
    let seeds = seeds(option, &args.seeds).or_usage_error()?;
    let mut workloads = workloads(args).or_usage_error()?;
    let mut notes = Vec::new();
    for workload in &mut workloads {
        notes.extend(profiles::attach(workload, &args.profiles).or_usage_error()?);
    }
    let (columns, names) = match args.commands.len() {
        0 | 1 => (columns, workloads.iter().map(|workload| workload.name.clone()).collect()),
        _ => (commands::columns(args, &columns).or_usage_error()?, vec![commands::NAME.to_owned()]),
    };
    let plan =
        ComparePlan::new(columns, args.baseline.as_deref(), names, seeds).or_usage_error()?;
    let plan = match args.draw_profiles {
        Some(n_draws) => plan.with_draws(n_draws as usize).or_usage_error()?,
        None => plan,
    };
    notes.sort();
    notes.dedup();
    Ok(Inputs { plan, workloads, notes })
}

/// Reads the workload files, or builds a workload for each command.
fn workloads(args: &Args) -> anyhow::Result<Vec<Workload>> {
    if args.workloads.is_empty() && args.commands.is_empty() {
        anyhow::bail!(
            "there is no workload: name files, or write commands after --, as in \
             evenkeel compare -- 'sort a.txt' 'sort -u a.txt'; see evenkeel compare --help"
        );
    }
    let files = args.workloads.iter().map(|path| workload_from_file(path));
    files.chain(commands::workloads(args)).collect()
}

/// Opens the directory, and reads its finished runs of this comparison.
fn open(args: &Args, checked: &CheckedComparison) -> Result<(OutputDir, RunStore), CommandError> {
    let dir =
        files::dir(args.out.as_deref(), &checked.plan.workloads, args.foreign).or_usage_error()?;
    let CheckedComparison { plan, machine, options, .. } = checked;
    let identity = Identity::new(plan, machine, &checked.jobs(), options.clone());
    let store = RunStore::open(&dir, &identity, plan).or_usage_error()?;
    if !args.quiet {
        checked.notes.iter().for_each(crate::print::note);
    }
    Ok((dir, store))
}

/// Writes the files and prints the tables.
fn publish(
    args: &Args,
    checked: &CheckedComparison,
    outputs: RunOutputs,
    (dir, store): (&OutputDir, &RunStore),
) -> CommandResult {
    let command = crate::repeat::command_line();
    let about = SummaryContext {
        command: command.as_deref(),
        host: match args.host() {
            HostArg::Sim => "sim",
            HostArg::Live => "live",
        },
        machine: &checked.machine,
        jobs: &checked.jobs(),
        alone: &outputs.alone,
        options: &checked.options,
        timelines: &outputs.timelines,
        outputs: &outputs.outputs,
    };
    let comparison = summarize(&checked.plan, &store.done, &about);
    let written = files::write(&comparison, dir, args);
    show(args, &comparison, dir, written.is_ok())?;
    written?;
    outputs.error.map_or(Ok(()), Err)?;
    let unfinished = comparison.unfinished_runs();
    if let Some(text) = unfinished.as_ref().filter(|_| args.quiet && !args.json) {
        let dir = dir.path().display();
        crate::print::note(format_args!("{text}; {dir} has the reasons"));
    }
    if outputs.is_interrupted || unfinished.is_some() {
        Err(CommandError::Reported)
    } else {
        Ok(())
    }
}

fn show(
    args: &Args,
    comparison: &Comparison,
    dir: &OutputDir,
    is_written: bool,
) -> anyhow::Result<()> {
    let mut out = crate::print::stdout();
    if args.json {
        writeln!(out, "{}", comparison.to_json().context("cannot write JSON")?)?;
    } else if !args.quiet && args.stdout_options().is_empty() {
        write!(out, "{}", comparison.to_text(80))?;
        if is_written {
            writeln!(out, "\nfiles:    {}", dir.path().display())?;
        }
    }
    Ok(())
}
