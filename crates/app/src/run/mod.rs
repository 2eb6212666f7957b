//! `evenkeel run`: a file of real programs under a placement policy, live.
//!
//! ```text
//!   read and check everything ─► output folder ─► host (puts back what a killed evenkeel left)
//!      ─► host + engine + sinks (journal, report, progress) ─► reports ─► table
//! ```
//!
//! Whatever can be wrong with the command is found before anything is started.

mod folder;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use base::{Bytes, Nanos};
use engine::{Engine, Sink};
use host_live::{LiveHost, LiveOptions};
use journal::{Header, HowEnded, JournalWriter, Limits, PolicyUsed, RunEnd};
use program::Workload;
use report::{Report, ReportBuilder};
use topology::Machine;

use crate::exit::{Done, OrWrong, Stop};
use crate::view::{Mode, View};
use folder::Folder;

/// Run a workload of real programs under a placement policy
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The workload: a .toml file, or the classic form (a job a line)
    #[arg(value_name = "WORKLOAD")]
    workload: PathBuf,
    /// The policy that decides, with parameters in brackets: `dfs[cooldown=4]`
    #[arg(long, short, value_name = "NAME[key=value,…]", default_value = "dfs")]
    policy: String,
    /// Where the programs run
    #[arg(long, value_enum, default_value_t = HostKind::Live)]
    host: HostKind,
    /// Seed of everything random; the same seed gives the same decisions on the same samples
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Folder for the journal, the reports and the jobs' output [default: evenkeel-runs/NAME-1]
    #[arg(long, short, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Stop everything as soon as one job fails
    #[arg(long)]
    fail_fast: bool,
    /// Between TERM and KILL for jobs that are told to end
    #[arg(long, value_name = "TIME", default_value = "5s")]
    grace: Nanos,
    /// Stop everything after so long
    #[arg(long, value_name = "TIME")]
    time_limit: Option<Nanos>,
    /// End the jobs together with evenkeel, even if it is killed outright
    #[arg(long)]
    die_with_me: bool,
    /// No progress, and no table at the end
    #[arg(long, short)]
    quiet: bool,
    /// Print the report as JSON instead of the table
    #[arg(long)]
    json: bool,
    /// Largest size of one part of the journal; older parts beyond sixteen are dropped
    #[arg(long, value_name = "SIZE", default_value = "64M")]
    journal_part: Bytes,
}

/// Where programs can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum HostKind {
    /// On this machine, now
    Live,
}

/// Runs a workload and reports.
pub fn main(args: &Args) -> Done {
    let HostKind::Live = args.host;
    let plan = Checked::new(args)?;
    let folder = Folder::make(args.out.as_deref(), &plan.workload.name).or_wrong()?;
    let (report, ended) = live(args, plan, &folder)?;
    fs::write(folder.file("report.json"), report.to_json()? + "\n")
        .with_context(|| format!("cannot write {}", folder.file("report.json").display()))?;
    fs::write(folder.file("report.html"), report.to_html())
        .with_context(|| format!("cannot write {}", folder.file("report.html").display()))?;
    show(args, &report, &folder)?;
    ended
}

/// What the command names, read and found to be sound. Nothing has been changed or started yet.
struct Checked {
    workload: Workload,
    machine: Machine,
    policy: Box<dyn sched::Policy>,
}

impl Checked {
    fn new(args: &Args) -> Result<Self, Stop> {
        let bytes = fs::read(&args.workload)
            .with_context(|| format!("cannot read the workload {}", args.workload.display()))
            .or_wrong()?;
        let workload = program::parse_bytes(&bytes, &args.workload).or_wrong()?;
        check_loads(&workload).or_wrong()?;
        let policy = policy::build(&args.policy, args.seed).or_wrong()?;
        let machine = linux::topology::read(Path::new("/"))?;
        host_live::preflight(&workload, &machine).or_wrong()?;
        Ok(Checked { workload, machine, policy })
    }
}

/// The arguments of built-in programs are known to be wrong before any of them starts.
fn check_loads(workload: &Workload) -> anyhow::Result<()> {
    for job in &workload.jobs {
        if let program::Command::Load(args) = &job.command {
            let checked = crate::load::check(args).map_err(anyhow::Error::msg);
            checked.with_context(|| format!("{}: job {:?}", job.origin, job.name))?;
        }
    }
    Ok(())
}

fn live(args: &Args, checked: Checked, folder: &Folder) -> Result<(Report, Done), Stop> {
    let Checked { workload, machine, policy } = checked;
    let (name, jobs, begin_folder) =
        (workload.name.clone(), workload.jobs.clone(), workload.folder.clone());
    let options = LiveOptions {
        interval: policy.interval(),
        grace: args.grace,
        fail_fast: args.fail_fast,
        die_with_me: args.die_with_me,
        output_dir: folder.file("jobs"),
        time_limit: args.time_limit,
        ..LiveOptions::default()
    };
    let used = PolicyUsed { name: policy.name().to_owned(), spec: args.policy.clone() };
    let mut host = LiveHost::new(workload, &machine, options)?;
    let header = Header {
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        run_id: host.run_id().to_owned(),
        started_unix_s: unix_seconds(),
        host: "live".to_owned(),
        policy: used,
        seed: args.seed,
        machine: machine.clone(),
        workload: name,
        folder: begin_folder,
        jobs: jobs.clone(),
        options: options_told(args),
        replay_of: None,
    };
    let mut view = View::new(Mode::fitting(args.quiet), &machine, &jobs, &args.policy);
    let mut engine = Engine::new(machine, jobs, policy);
    let limits = Limits { part: args.journal_part, ..Limits::default() };
    let mut journal = JournalWriter::create(&folder.file("journal.jsonl"), &header, limits)
        .context("cannot write the journal")?;
    let mut report = ReportBuilder::new(&header);

    let sinks: &mut [&mut dyn Sink] = &mut [&mut journal, &mut report, &mut view];
    let result = engine::run(&mut host, &mut engine, sinks);
    view.finish();

    let error = result.err().map(|error| format!("{:#}", anyhow::Error::from(error)));
    let how = match (&error, host.was_stopped()) {
        (Some(_), _) => HowEnded::Failed,
        (None, true) => HowEnded::Interrupted,
        (None, false) => HowEnded::Finished,
    };
    let (own_cpu, own_max_resident) = own_use();
    let wall = host.now();
    let end = RunEnd { how, error: error.clone(), wall, own_cpu, own_max_resident };
    journal.finish(&end).context("cannot finish the journal")?;
    let report = report.finish(Some(&end));
    let done = match error {
        Some(error) => Err(Stop::Failed(anyhow::anyhow!(error))),
        None if how == HowEnded::Interrupted || !report.all_well() => Err(Stop::Said),
        None => Ok(()),
    };
    Ok((report, done))
}

fn show(args: &Args, report: &Report, folder: &Folder) -> anyhow::Result<()> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", report.to_json()?)?;
    } else if !args.quiet {
        write!(out, "{}", report.to_text(80))?;
        writeln!(out)?;
        writeln!(out, "report:   {}", folder.file("report.html").display())?;
        writeln!(out, "journal:  {}", folder.file("journal.jsonl").display())?;
    }
    Ok(())
}

/// Flags that a reader of the journal may want to know.
fn options_told(args: &Args) -> BTreeMap<String, String> {
    let mut told = BTreeMap::from([("grace".to_owned(), args.grace.to_string())]);
    if let Some(limit) = args.time_limit {
        told.insert("time-limit".to_owned(), limit.to_string());
    }
    for (name, on) in [("fail-fast", args.fail_fast), ("die-with-me", args.die_with_me)] {
        if on {
            told.insert(name.to_owned(), "yes".to_owned());
        }
    }
    told
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// CPU time and largest resident memory of evenkeel itself, its jobs not counted.
fn own_use() -> (Option<Nanos>, Option<Bytes>) {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeValLike;
    let Ok(used) = getrusage(UsageWho::RUSAGE_SELF) else { return (None, None) };
    let cpu_us = used.user_time().num_microseconds() + used.system_time().num_microseconds();
    let cpu = u64::try_from(cpu_us).ok().map(|us| Nanos(us * 1000));
    (cpu, u64::try_from(used.max_rss()).ok().map(Bytes::from_kib))
}
