//! `evenkeel run`: a file of programs under a placement policy, live or simulated.
//!
//! ```text
//!   read and check everything ─► output folder ─► host (puts back what a killed evenkeel left)
//!      ─► host + engine + sinks (journal, report, progress) ─► reports ─► table
//! ```
//!
//! Whatever can be wrong with the command is found before anything is started.

mod folder;
mod live;
mod memory;
mod sim;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use base::{Bytes, Nanos};
use linux::cgroup::{CgroupMode, Version};
use program::Workload;
use report::Report;
use topology::Machine;

use crate::command_result::{CommandError, CommandResult, OrUsageError};
use crate::report::write_files;
use crate::signals::SignalArgs;
use crate::{input, profiles};
pub(crate) use folder::Folder;
pub(crate) use live::{How, Ran, own_use, run as run_live};

pub use memory::{MemoryArgs, limits_of};
pub use sim::{Readable, SimArgs, check_declared};

/// Between TERM and KILL, unless somebody says otherwise.
pub(crate) const GRACE: Nanos = Nanos::from_secs(5);

/// Run a workload under a placement policy, here or on a simulated machine
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The workload: a .toml file, or the classic form (a job a line)
    #[arg(value_name = "WORKLOAD")]
    workload: PathBuf,
    /// The policy that decides, with parameters in brackets: `dfs[cooldown=4]`; with --host sim also
    /// `oracle`
    #[arg(long, short, value_name = "NAME[key=value,…]", default_value = "dfs")]
    policy: String,
    /// Where the programs run
    #[arg(long, value_enum, default_value_t = HostKind::Live)]
    host: HostKind,
    /// Seed of everything random; the same seed gives the same decisions on the same samples
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = input::seed, allow_hyphen_values = true)]
    seed: u64,
    /// Folder for the journal, the reports and the jobs' output [default: evenkeel-runs/NAME-1]
    #[arg(long, short, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Folder to look for profiles in, before all others; may be given several times
    #[arg(long, value_name = "DIR")]
    profiles: Vec<PathBuf>,
    /// Stop everything as soon as one job fails
    #[arg(long)]
    fail_fast: bool,
    /// Between TERM and KILL for jobs that are told to end [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = input::time, allow_hyphen_values = true)]
    grace: Option<Nanos>,
    /// Stop everything after so long
    #[arg(long, value_name = "TIME", value_parser = input::some_time, allow_hyphen_values = true)]
    time_limit: Option<Nanos>,
    /// End the jobs together with evenkeel, even if it is killed outright
    #[arg(long)]
    die_with_me: bool,
    #[command(flatten)]
    memory: MemoryArgs,
    #[command(flatten)]
    signals: SignalArgs,
    #[command(flatten)]
    sim: SimArgs,
    /// What is counted: auto (the processor's counters of each task where there are some, and the
    /// kernel's own events), all (the kernel's own events of each task everywhere), off
    #[arg(long, value_enum, default_value_t = CountersArg::Auto)]
    counters: CountersArg,
    /// Groups (cgroups) for jobs whose memory is bound to nodes, so that all that they start stays there
    /// too (auto: v2, else v1, else none, where several nodes have memory)
    #[arg(long, value_enum, default_value_t = GroupsArg::Auto)]
    groups: GroupsArg,
    /// No progress, and no table at the end
    #[arg(long, short)]
    quiet: bool,
    /// Print the report as JSON instead of the table
    #[arg(long)]
    json: bool,
    /// Largest size of one part of the journal; older parts beyond sixteen are dropped
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = input::part, allow_hyphen_values = true)]
    journal_part: Bytes,
}

impl Args {
    /// The first of the options that a simulated run has no use for, if one was written.
    fn given_for_live(&self) -> Option<&'static str> {
        let given = [
            ("--grace", self.grace.is_some()),
            ("--die-with-me", self.die_with_me),
            ("--counters", self.counters != CountersArg::Auto),
            ("--groups", self.groups != GroupsArg::Auto),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }
}

/// Where programs can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum HostKind {
    /// On this machine, now
    Live,
    /// On a simulated machine; programs are what their profiles say
    Sim,
}

/// What is counted of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum CountersArg {
    /// What the processor counts, with the kernel's own events; where it counts nothing those of
    /// whole jobs
    Auto,
    /// The kernel's own events of every task, on every machine
    All,
    /// Nothing
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

/// Which groups jobs have whose memory is bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum GroupsArg {
    Auto,
    V2,
    V1,
    None,
}

impl From<GroupsArg> for CgroupMode {
    fn from(arg: GroupsArg) -> Self {
        match arg {
            GroupsArg::Auto => CgroupMode::Auto,
            GroupsArg::V2 => CgroupMode::Only(Version::V2),
            GroupsArg::V1 => CgroupMode::Only(Version::V1),
            GroupsArg::None => CgroupMode::None,
        }
    }
}

/// Runs a workload and reports.
pub fn main(args: &Args) -> CommandResult {
    if args.host == HostKind::Sim {
        if let Some(option) = args.given_for_live() {
            let said = anyhow::anyhow!(
                "{option} is for programs that really run: leave it out with --host sim"
            );
            return Err(CommandError::Usage(said));
        }
        let (ran, folder) = sim::run(args)?;
        return publish(args, ran, &folder);
    }
    if let Some(option) = args.sim.given() {
        let said = anyhow::anyhow!(
            "{option} describes a simulated machine: write --host sim too, or leave it out"
        );
        return Err(CommandError::Usage(said));
    }
    let checked = Checked::new(args)?;
    let folder = Folder::make(args.out.as_deref(), &checked.workload.name).or_usage_error()?;
    publish(args, run_live(&How::from(args), checked, &folder, None)?, &folder)
}

/// Writes and prints the report, whatever went wrong before: a disk that is full is no reason to
/// keep what is known to oneself. The first thing that went wrong is what the command ends with.
fn publish(args: &Args, ran: Ran, folder: &Folder) -> CommandResult {
    let Ran { report, ended } = ran;
    let written = write_files(&report, &folder.file(""));
    let shown = show(args, &report, folder, written.is_ok());
    ended?;
    written?;
    Ok(shown?)
}

/// What a live run needs, read and found to be sound. Nothing has been changed or started yet.
pub(crate) struct Checked {
    pub workload: Workload,
    pub machine: Machine,
    pub policy: Box<dyn sched::Policy>,
    pub signals: sched::TierOverride,
}

impl Checked {
    fn new(args: &Args) -> Result<Self, CommandError> {
        let bytes = input::bytes("workload", &args.workload).or_usage_error()?;
        let mut workload = program::parse_bytes(&bytes, &args.workload).or_usage_error()?;
        let said = profiles::attach(&mut workload, &args.profiles).or_usage_error()?;
        check_loads(&workload).or_usage_error()?;
        if lab::oracle::is_named(&args.policy) {
            return Err(CommandError::Usage(lab::oracle::OracleError::Live.into()));
        }
        let policy = policy::build(&args.policy, args.seed).or_usage_error()?;
        let machine = linux::topology::read(Path::new("/"))?;
        check_here(&workload, &machine, args.groups.into())?;
        let signals = args.signals.wish().or_usage_error()?;
        crate::signals::check_readable(&signals, &*policy, &machine).or_usage_error()?;
        if !args.quiet {
            said.iter().for_each(|text| eprintln!("evenkeel: {text}"));
        }
        Ok(Checked { workload, machine, policy, signals })
    }
}

/// Whether every job can be started here.
pub(crate) fn check_here(
    workload: &Workload,
    machine: &Machine,
    groups: CgroupMode,
) -> Result<(), CommandError> {
    host_live::preflight(workload, machine).or_usage_error()?;
    let checked = host_live::check_groups(groups);
    checked.map_err(|why| anyhow::anyhow!("--groups {why}")).or_usage_error()
}

/// The arguments of built-in programs are known to be wrong before any of them starts.
pub(crate) fn check_loads(workload: &Workload) -> anyhow::Result<()> {
    for job in &workload.jobs {
        if let program::Command::Load(args) = &job.command {
            let checked = crate::load::check(args).map_err(anyhow::Error::msg);
            checked.with_context(|| format!("{}: job {:?}", job.origin, job.name))?;
        }
    }
    Ok(())
}

fn show(args: &Args, report: &Report, folder: &Folder, is_written: bool) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", report.to_json()?)?;
    } else if !args.quiet {
        write!(out, "{}", report.to_text(80))?;
        writeln!(out)?;
        if is_written {
            writeln!(out, "report:   {}", folder.file("report.html").display())?;
        }
        writeln!(out, "journal:  {}", folder.file("journal.jsonl").display())?;
    }
    Ok(())
}
