//! `evenkeel compare`: policies × workloads × seeds, and what may be said of them.
//!
//! ```text
//!   read and check everything ─► folder (new, or the same comparison's) ─► the runs that are left
//!      ─► reports of single runs ─► compare.json · compare.html · runs.csv · summary.csv ─► tables
//! ```
//!
//! Whatever can be wrong with the command is found before anything runs.

mod files;
mod live;
mod parquet;
mod progress;
mod sim;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use base::Nanos;
use lab::compare::{About, Identity, Plan, Store, columns, seeds, summarize};
use program::{Job, Workload};
use report::comparison::Comparison;
use topology::Machine;

use crate::command_result::{CommandError, CommandResult, OrUsageError};
use crate::run::{MemoryArgs, SimArgs};
use crate::signals::SignalArgs;
use crate::{input, profiles};

/// Compare policies on workloads, each on the same seeds, and say which is better
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The workloads: .toml files, or the classic form (a job a line)
    #[arg(value_name = "WORKLOAD", required = true)]
    workloads: Vec<PathBuf>,
    /// The policies, between commas outside brackets: `linux,dfs[cooldown=4,domains=llc]`; may be given
    /// several times. What follows an @ changes the machine below the policy: `linux@interleave`,
    /// first-touch, numa-balancing, no-numa-balancing, several of them with + between. With --host sim also
    /// `oracle`, the best that can be found for each run
    #[arg(long, short, alias = "policy", value_name = "LIST", default_value = "linux,dfs")]
    policies: Vec<String>,
    /// The policy that the others are compared with [default: linux if it is among them, else the first]
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,
    /// How many seeds, or which: 20, 1-20, 3,7,11
    #[arg(long, value_name = "N|LIST", default_value = "10", allow_hyphen_values = true)]
    seeds: String,
    /// Where the programs run
    #[arg(long, value_enum, default_value_t = HostKind::Sim)]
    host: HostKind,
    /// Runs at a time, with --host sim [default: one for each CPU]
    #[arg(long, short, value_name = "N", value_parser = input::whole::<u16>(1..=1024), allow_hyphen_values = true)]
    jobs: Option<u16>,
    /// Folder for the runs and the reports; the same command with the same folder goes on where it
    /// stopped [default: evenkeel-comparisons/NAME-1]
    #[arg(long, short, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Folder to look for profiles in, before all others; may be given several times
    #[arg(long, value_name = "DIR")]
    profiles: Vec<PathBuf>,
    /// Stop a run after so long; it is left out of all figures then
    #[arg(long, value_name = "TIME", value_parser = input::nonzero_time, allow_hyphen_values = true)]
    time_limit: Option<Nanos>,
    #[command(flatten)]
    memory: MemoryArgs,
    #[command(flatten)]
    signals: SignalArgs,
    #[command(flatten)]
    sim: SimArgs,
    /// Which single runs get a report of their own with their timeline: that of the median seed of
    /// each policy on each workload, all, or none; live every run has one
    #[arg(long, value_enum, default_value_t = Timelines::Median)]
    timelines: Timelines,
    /// With --host live: run every job alone first, so that slow-downs are known
    #[arg(long)]
    solo: bool,
    /// Write every job of every run as a table here too, as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// The same as a Parquet file, where evenkeel was built with the feature parquet
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
    /// No progress, and no tables at the end
    #[arg(long, short)]
    quiet: bool,
    /// Print the comparison as JSON instead of the tables
    #[arg(long)]
    json: bool,
}

/// Where programs can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum HostKind {
    /// On a simulated machine; programs are what their profiles say
    Sim,
    /// On this machine, now, one run after another in turn
    Live,
}

/// Which runs get reports of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Timelines {
    /// The median seed of each policy on each workload
    Median,
    /// All of them
    All,
    /// None
    None,
}

/// What the command names, read.
struct Named {
    plan: Plan,
    workloads: Vec<Workload>,
    /// What is worth saying of it, once nothing is wrong.
    said: Vec<String>,
}

/// Everything that the command names, found to be sound.
struct Checked {
    plan: Plan,
    machine: Machine,
    workloads: Vec<Workload>,
    said: Vec<String>,
    /// What figures stand on beside the plan, for people and for [`Identity`].
    options: BTreeMap<String, String>,
}

impl Checked {
    fn jobs(&self) -> Vec<Vec<Job>> {
        self.workloads.iter().map(|workload| workload.jobs.clone()).collect()
    }
}

/// What the runs came to.
struct Ran {
    /// How long each job takes alone, by workload; empty where nobody measured it.
    alone: Vec<Vec<Option<Nanos>>>,
    /// Reports of single runs, by number.
    timelines: BTreeMap<usize, String>,
    is_interrupted: bool,
}

/// Compares and reports.
pub fn main(args: &Args) -> CommandResult {
    if args.parquet.is_some() {
        parquet::check().or_usage_error()?;
    }
    for file in [&args.csv, &args.parquet].into_iter().flatten() {
        files::check_place(file).or_usage_error()?;
    }
    let named = plan(args)?;
    match args.host {
        HostKind::Sim if args.solo => Err(CommandError::Usage(anyhow::anyhow!(
            "--solo is for real programs: simulated jobs run alone anyway; leave it out"
        ))),
        HostKind::Sim => sim::main(args, named),
        HostKind::Live => live::main(args, named),
    }
}

fn tell_interrupted(args: &Args, folder: &Path) {
    if !args.quiet {
        let folder = folder.display();
        eprintln!(
            "evenkeel: interrupted; what is done is kept, and the same command with --out {folder} goes on"
        );
    }
}

/// What is compared, and the workloads with their profiles.
fn plan(args: &Args) -> Result<Named, CommandError> {
    let columns = columns(args.policies.iter().map(String::as_str)).or_usage_error()?;
    if args.host == HostKind::Live && columns.iter().any(lab::oracle::is_column) {
        return Err(CommandError::Usage(lab::oracle::OracleError::Live.into()));
    }
    let seeds = seeds(&args.seeds).or_usage_error()?;
    let mut workloads = Vec::with_capacity(args.workloads.len());
    let mut said = Vec::new();
    for path in &args.workloads {
        let bytes = input::bytes("workload", path).or_usage_error()?;
        let mut workload = program::parse_bytes(&bytes, path).or_usage_error()?;
        said.extend(profiles::attach(&mut workload, &args.profiles).or_usage_error()?);
        workloads.push(workload);
    }
    let names = workloads.iter().map(|workload| workload.name.clone()).collect();
    let plan = Plan::new(columns, args.baseline.as_deref(), names, seeds).or_usage_error()?;
    said.sort();
    said.dedup();
    Ok(Named { plan, workloads, said })
}

/// The folder, and what it holds of this comparison.
fn open(args: &Args, checked: &Checked) -> Result<(PathBuf, Store), CommandError> {
    let folder = files::folder(args.out.as_deref(), &checked.plan.workloads).or_usage_error()?;
    let Checked { plan, machine, options, .. } = checked;
    let identity = Identity::new(plan, machine, &checked.jobs(), options.clone());
    let store = Store::open(&folder, &identity, plan).or_usage_error()?;
    if !args.quiet {
        checked.said.iter().for_each(|text| eprintln!("evenkeel: {text}"));
    }
    Ok((folder, store))
}

/// Writes and prints what there is.
fn publish(
    args: &Args,
    checked: &Checked,
    ran: &Ran,
    (folder, store): (&Path, &Store),
) -> CommandResult {
    let about = About {
        host: match args.host {
            HostKind::Sim => "sim",
            HostKind::Live => "live",
        },
        machine: &checked.machine,
        jobs: &checked.jobs(),
        alone: &ran.alone,
        options: &checked.options,
        timelines: &ran.timelines,
    };
    let told = summarize(&checked.plan, &store.done, &about);
    let written = files::write(&told, folder, (args.csv.as_deref(), args.parquet.as_deref()));
    show(args, &told, folder, written.is_ok())?;
    written?;
    let all_well =
        told.runs.iter().all(|run| run.ended == report::comparison::RunEndWord::Finished);
    if ran.is_interrupted || !all_well { Err(CommandError::Reported) } else { Ok(()) }
}

fn show(args: &Args, told: &Comparison, folder: &Path, is_written: bool) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", told.to_json().context("cannot write JSON")?)?;
    } else if !args.quiet {
        write!(out, "{}", told.to_text(80))?;
        if is_written {
            writeln!(out, "\nfiles:    {}", folder.display())?;
        }
    }
    Ok(())
}
