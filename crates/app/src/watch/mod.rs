//! `evenkeel watch`: looks after programs that already run.
//!
//! ```text
//!   whom? ─► machine, policy with a judge ─► host (puts back what a killed evenkeel left, if it may act)
//!      ─► host + engine + sinks (journal, progress, state file) ─► everything put back
//! ```
//!
//! Whatever can be wrong with the command is found before anything is changed.

mod choose;
mod state;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use base::Nanos;
use engine::{Engine, Sink};
use host_live::{WatchHost, WatchOptions};
use journal::{Header, JournalWriter, Limits, PolicyUsed, RunEnd, RunStatus};
use program::Class;
use sched::Wake;

use crate::command_result::{CommandError, CommandResult, OrUsageError};
use crate::input;
use crate::restore::tell_kept;
use crate::run::{CountersArg, MemoryArgs};
use crate::signals::{SignalArgs, check_readable};
use crate::status::unix_seconds;
use crate::view::{Mode, View};
use state::StateSink;

/// Look after programs that already run; says what it would do until told to act
#[derive(Debug, clap::Args)]
pub struct Args {
    /// This process and what it starts; may be given several times, and all ways of choosing add up
    #[arg(long, value_name = "PID", value_parser = input::pid, allow_hyphen_values = true)]
    pid: Vec<u32>,
    /// Processes of this user, by name or number
    #[arg(long, value_name = "USER")]
    user: Vec<String>,
    /// Processes whose name (its first 15 bytes) fits a pattern with * and ?
    #[arg(long, value_name = "PATTERN")]
    command: Vec<String>,
    /// Processes in this cgroup and below it: /user.slice, or its folder
    #[arg(long, value_name = "PATH")]
    cgroup: Vec<PathBuf>,
    /// Processes of this systemd unit: cron.service
    #[arg(long, value_name = "NAME")]
    unit: Vec<String>,
    /// All processes
    #[arg(long)]
    all: bool,
    /// Never processes of this name, whatever else is chosen
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Never processes of this user
    #[arg(long, value_name = "USER")]
    exclude_user: Vec<String>,
    /// Never processes in this cgroup or below it
    #[arg(long, value_name = "PATH")]
    exclude_cgroup: Vec<PathBuf>,
    /// Memory class of programs by name, 0 to 15; the first that fits holds
    #[arg(long, value_name = "PATTERN=CLASS", value_parser = class_rule)]
    class: Vec<(String, Class)>,
    #[command(flatten)]
    signals: SignalArgs,
    #[command(flatten)]
    memory: MemoryArgs,
    /// What is counted of tasks that are looked after: auto (what the processor counts where it counts
    /// anything, and the kernel's own events at the end), all (the kernel's own in every look), off
    #[arg(long, value_enum, default_value_t = CountersArg::Auto)]
    counters: CountersArg,
    /// Change something; otherwise it is only said what would be done
    #[arg(long, conflicts_with = "dry")]
    act: bool,
    /// Change nothing: the default
    #[arg(long)]
    dry: bool,
    /// The policy that decides, with parameters in brackets; its interval is how often busy
    /// processes are looked at
    #[arg(long, short, value_name = "NAME[key=value,…]", default_value = "dfs[interval=1s]")]
    policy: String,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = input::seed, allow_hyphen_values = true)]
    seed: u64,
    /// End after so long
    #[arg(long = "for", value_name = "TIME", value_parser = input::some_time, allow_hyphen_values = true)]
    time_limit: Option<Nanos>,
    /// A process that hardly uses the CPU for so long gets back what it had
    #[arg(long, value_name = "TIME", default_value = "5min", value_parser = input::some_time, allow_hyphen_values = true)]
    idle_after: Nanos,
    /// Keep a journal in this file
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// No progress
    #[arg(long, short)]
    quiet: bool,
}

/// Looks after programs until somebody or the time ends it.
pub fn main(args: &Args) -> CommandResult {
    let policy = policy::build(&args.policy, args.seed).or_usage_error()?;
    if policy.wake() != Wake::Poll {
        return Err(anyhow!(
            "watch has a turn in every interval: leave wake= out of {:?}",
            args.policy
        ))
        .or_usage_error();
    }
    let interval = policy.interval().unwrap_or(Nanos::from_secs(1));
    let chosen = choose::choose(args).or_usage_error()?;
    let machine = linux::topology::read(Path::new("/"))?;
    let signals = args.signals.wish().or_usage_error()?;
    check_readable(&signals, &*policy, &machine).or_usage_error()?;
    let options = WatchOptions {
        choice: chosen.choice,
        cgroup_folders: chosen.folders,
        classes: args.class.clone(),
        act: args.act,
        interval,
        time_limit: args.time_limit,
        counters: args.counters.into(),
        machine: Some(machine.clone()),
        idle_after: args.idle_after,
        memory: args.memory.options(),
        ..WatchOptions::default()
    };
    args.signals.wish().or_usage_error()?;
    if let Some(path) = args.journal.as_deref().map(journal_path).filter(|path| path.exists()) {
        let there = anyhow::anyhow!("{} is there already: name another file", path.display());
        return Err(CommandError::Usage(there));
    }
    let host = WatchHost::new(&machine, options).or_usage_error()?;
    let text = crate::restore::to_text(host.restored(), false);
    if !host.restored().files.is_empty() && !args.quiet {
        eprint!("{text}");
    }
    let policy = policy::careful(policy, args.act);
    let name = policy.name().to_owned();
    let header = Header {
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        run_id: host.run_id().to_owned(),
        started_unix_s: unix_seconds(),
        host: "watch".to_owned(),
        policy: PolicyUsed { name, spec: args.policy.clone() },
        seed: args.seed,
        machine,
        workload: chosen.text,
        folder: PathBuf::new(),
        jobs: Vec::new(),
        options: options_told(args),
        replay_of: None,
    };
    let engine = Engine::new(header.machine.clone(), header.jobs.clone(), policy)
        .with_move_limits(args.memory.limits())
        .with_signals(signals);
    watch(args, host, engine, header)
}

fn watch(args: &Args, mut host: WatchHost, mut engine: Engine, header: Header) -> CommandResult {
    let mut journal = args.journal.as_deref().map(|path| begin(path, &header)).transpose()?;
    let mut state = StateSink::new(&header, args, host.board());
    // There is nothing to redraw: lines can be kept.
    let mode = if args.quiet { Mode::Quiet } else { Mode::Lines };
    let mut view = View::new(mode, &header);
    let mut sinks: Vec<&mut dyn Sink> = vec![&mut view, &mut state];
    sinks.extend(journal.as_mut().map(|journal| journal as &mut dyn Sink));
    let result = engine::run(&mut host, &mut engine, &mut sinks).map_err(anyhow::Error::from);
    let how = match (&result, host.was_stopped()) {
        (Err(_), _) => RunStatus::Failed,
        (Ok(_), true) => RunStatus::Interrupted,
        (Ok(_), false) => RunStatus::Finished,
    };
    let error = result.as_ref().err().map(|error| format!("{error:#}"));
    let (own_cpu, own_max_resident) = crate::run::own_use();
    let end = RunEnd { status: how, error, wall: host.now(), own_cpu, own_max_resident };
    tell_kept(host.is_record_kept());
    drop(host); // Everything is put back before anybody is told that it is over.
    if let Some(journal) = &mut journal {
        journal.finish(&end).context("cannot finish the journal")?;
    }
    // Who ends watching by a signal has what was wanted.
    result.map(|_| ()).map_err(CommandError::Failed)
}

fn begin(path: &Path, header: &Header) -> Result<JournalWriter, CommandError> {
    let path = journal_path(path);
    JournalWriter::create(&path, header, Limits::default())
        .with_context(|| format!("cannot write {}", path.display()))
        .or_usage_error()
}

fn journal_path(path: &Path) -> PathBuf {
    if path.is_dir() { path.join("journal.jsonl") } else { path.to_owned() }
}

fn options_told(args: &Args) -> BTreeMap<String, String> {
    let mut told = BTreeMap::new();
    args.signals.tell(&mut told);
    told.extend(args.memory.told());
    told.insert("act".to_owned(), if args.act { "yes" } else { "no" }.to_owned());
    if let Some(limit) = args.time_limit {
        told.insert("for".to_owned(), limit.to_string());
    }
    told
}

/// `sort*=7`.
fn class_rule(text: &str) -> Result<(String, Class), String> {
    let (pattern, number) = text.rsplit_once('=').ok_or("it must be PATTERN=CLASS")?;
    let class = number.parse::<u8>().ok().and_then(Class::new);
    let class = class.ok_or_else(|| format!("{number:?} is no class from 0 to 15"))?;
    match pattern.is_empty() {
        true => Err("a pattern of names must stand before the =".to_owned()),
        false => Ok((pattern.to_owned(), class)),
    }
}
