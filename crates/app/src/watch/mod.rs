//! `evenkeel watch`: manages processes that already run.
//!
//! ```text
//!   selection ─► machine, policy with trials ─► host (with --act, restores changes of killed runs)
//!      ─► host + engine + sinks (journal, progress, state file) ─► restore everything
//! ```
//!
//! All usage errors are reported before any setting is changed.

mod config;
mod reload;
mod select;
mod started_program;
mod state;
mod totals;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use base::Nanos;
use engine::{Engine, Sink};
use host_live::{AttachHost, AttachOptions};
use journal::{Header, JournalLimits, PolicyUsed, RunEnd};
use program::Class;
use sched::{HostKind, Policy, StopCause};
use sd_notify::NotifyState;
use topology::Machine;

use crate::command_result::{CommandError, CommandResult, OrUsageError};
use crate::core_kinds::CoreKindsArg;
use crate::help::{LIMITS, MEASUREMENT, MEMORY, OUTPUT, POLICY};
use crate::input;
use crate::journal_file::JournalFile;
use crate::output::{cannot_write, check_absent, create_journal_file};
use crate::print::{line, note};
use crate::recorded_run;
use crate::restore::{
    print_progress, print_remaining, print_restored, print_unusual_signal,
    print_with_unknown_parent,
};
use crate::run::{CountersArg, MemoryArgs};
use crate::signatures::RunningPrograms;
use crate::tier_override::{SignalArgs, check_readable};
use crate::view::{Screen, View, ViewArgs};
use config::WatchConfig;
use reload::{Reload, by_config, selected};
use select::{SelectedProcesses, SelectionArgs};
use state::StateSink;
use totals::WatchTotals;

/// Manage processes that already run (default: only report actions; --act performs them)
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Start this program, manage it and its descendants, and end with it and its exit status
    #[arg(last = true, value_name = "CMD", conflicts_with_all = ["pid", "user", "all_users", "command", "comm", "cgroup", "unit", "all", "config", "check_config"])]
    program: Vec<OsString>,
    #[command(flatten, next_help_heading = SELECTION)]
    selection: SelectionArgs,
    /// Set the memory class, 0 to 15, of programs by name (comm); the first matching pattern applies. The policy auto
    /// does not use classes
    #[arg(long, value_name = "PATTERN=CLASS", value_parser = class_rule, help_heading = POLICY)]
    class: Vec<(String, Class)>,
    #[command(flatten, next_help_heading = POLICY)]
    signals: SignalArgs,
    #[command(flatten, next_help_heading = POLICY)]
    core_kinds: CoreKindsArg,
    #[command(flatten, next_help_heading = MEMORY)]
    memory: MemoryArgs,
    /// Select the counters of managed tasks. auto: hardware and software events of each task; without hardware events,
    /// software events at the release or the end of a task. all: hardware events if available, and software events in
    /// each sample. off: none
    #[arg(long, value_enum, default_value_t = CountersArg::Auto, help_heading = MEASUREMENT)]
    counters: CountersArg,
    /// Perform the actions (default: only report them)
    #[arg(long, conflicts_with = "dry_run", help_heading = ACTIONS)]
    act: bool,
    /// Report actions without performing them; the default
    #[arg(long, help_heading = ACTIONS)]
    dry_run: bool,
    /// Use this policy, with parameters in brackets; its interval is the sampling interval of busy processes
    #[arg(long, short, value_name = "NAME[key=value,…]", default_value = "auto", help_heading = POLICY)]
    policy: String,
    /// Set the random seed
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = input::seed, allow_hyphen_values = true, help_heading = POLICY)]
    seed: u64,
    /// Stop after this time (default: no limit)
    #[arg(long = "for", value_name = "TIME", value_parser = input::nonzero_time, allow_hyphen_values = true, help_heading = LIMITS)]
    time_limit: Option<Nanos>,
    /// Detach a process that has been nearly idle for this time, and restore its affinity
    #[arg(long, value_name = "TIME", default_value = "5min", value_parser = input::nonzero_time, allow_hyphen_values = true, help_heading = LIMITS)]
    idle_after: Nanos,
    /// Write a journal to this file (default: no journal)
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    journal: Option<PathBuf>,
    /// Print no progress
    #[arg(long, short, help_heading = OUTPUT)]
    quiet: bool,
    #[command(flatten, next_help_heading = OUTPUT)]
    view: ViewArgs,
    /// Read options from this file; an option of the command line replaces the same key. SIGHUP reads the file again
    #[arg(long, value_name = "FILE", help_heading = CONFIGURATION)]
    config: Option<PathBuf>,
    /// Check a configuration file and end [default: the file of --config, or /etc/evenkeel/watch.toml]
    #[arg(long, value_name = "FILE", num_args = 0..=1, help_heading = CONFIGURATION)]
    check_config: Option<Option<PathBuf>>,
}

/// Heading of the options that select processes.
const SELECTION: &str = "Selection";
/// Heading of the options that permit changes.
const ACTIONS: &str = "Actions";
/// Heading of the options that name a configuration file.
const CONFIGURATION: &str = "Configuration";

/// Manages processes until a signal or the time limit.
pub fn main(args: &Args) -> CommandResult {
    if let Some(file) = &args.check_config {
        let file = file.as_ref().or(args.config.as_ref()).map(PathBuf::as_path);
        let file = file.unwrap_or(config::DEFAULT_FILE.as_ref());
        WatchConfig::of_file(file).and_then(|config| selected(&config)).or_usage_error()?;
        writeln!(crate::print::stdout(), "{}: the configuration is valid", file.display())?;
        return Ok(());
    }
    crate::check_proc()?;
    match &args.config {
        Some(file) => by_config(file),
        None if !args.program.is_empty() => started_program::watch(args),
        None => Watch::start(args, None)?.run().map(|_| ()),
    }
}

/// The end of a watch.
struct WatchEnd {
    /// The next configuration, if the watch must restart.
    next: Option<WatchConfig>,
    stopped_by: Option<StopCause>,
}

/// A started watch.
struct Watch {
    args: Args,
    reload: Option<Reload>,
    host: AttachHost,
    screen: Option<Screen>,
    engine: Engine,
    header: Header,
    journal: Option<JournalFile>,
}

/// Checks options that can be checked without a change. The selection may be empty.
fn check(args: &Args) -> anyhow::Result<()> {
    polling_policy(args)?;
    args.signals.overrides()?;
    select::select(args).map(|_| ())
}

impl Watch {
    fn start(args: &Args, reload: Option<Reload>) -> Result<Self, CommandError> {
        let policy = polling_policy(args).or_usage_error()?;
        let interval = policy.interval().unwrap_or(Nanos::from_secs(1));
        let selection = select::select(args).or_usage_error()?;
        let machine = linux::topology::read(Path::new("/"))?;
        let machine = args.core_kinds.apply(machine).or_usage_error()?;
        let signals = args.signals.overrides().or_usage_error()?;
        check_readable(&signals, &*policy, &machine).or_usage_error()?;
        let journal = journal_path(args);
        if let Some(path) = &journal {
            check_absent(path).or_usage_error()?;
        }
        let mut options = host_options(args, &selection, interval, &machine);
        options.reloads = reload.is_some();
        // The program after -- has the terminal.
        let screen = args.view.open_screen(args.quiet || !args.program.is_empty());
        let mut host = AttachHost::new(&machine, options).or_usage_error()?;
        let mut programs = RunningPrograms::new().context("cannot read /proc")?;
        host.search_signatures(Box::new(move |process| programs.signature(process)));
        print_restored(host.restored(), args.quiet);
        let policy_used = PolicyUsed::new(&*policy, &args.policy);
        let header = Header {
            run_id: host.run_id().to_owned(),
            seed: args.seed,
            workload: selection.text,
            options: journal_options(args),
            ..recorded_run::header(HostKind::Watch, policy_used, machine)
        };
        let engine = Engine::new(header.machine.clone(), header.jobs.clone(), policy)
            .with_page_migration_limits(args.memory.limits())
            .with_signals(signals);
        let journal = journal.map(|path| begin(&path, &header)).transpose()?;
        Ok(Watch { args: args.clone(), reload, host, screen, engine, header, journal })
    }

    /// Runs the watch to its end.
    fn run(mut self) -> Result<WatchEnd, CommandError> {
        let mut state = StateSink::new(&self.header, &self.args, self.host.status());
        let mut totals = WatchTotals::default();
        let screen = self.screen.take();
        if !self.args.act && !self.args.quiet && screen.is_none() {
            note("requests are only reported, nothing is changed; --act performs them");
        }
        let mut view = View::new(screen, self.args.quiet, &self.header, &BTreeMap::new());
        if let Some(console) = view.console() {
            self.host.add_console(console)?;
        }
        let mut next = None;
        notify(&[NotifyState::Ready]);
        let result = loop {
            let mut sinks: Vec<&mut dyn Sink> = vec![&mut view, &mut state, &mut totals];
            sinks.extend(self.journal.as_mut().map(|journal| journal as &mut dyn Sink));
            let result = engine::run(&mut self.host, &mut self.engine, &mut sinks);
            match &mut self.reload {
                Some(reload) if self.host.take_reload_request() => {
                    let (priority, text) = reload.apply(&mut self.host, &mut next);
                    line(priority, text);
                }
                _ => break result.map_err(anyhow::Error::from),
            }
        };
        view.finish();
        if next.is_none() {
            notify(&[NotifyState::Stopping]);
        }
        let stopped_by = self.host.stopped_by();
        match (self.finish(result, &totals), next) {
            // The watch continues without the journal that could not be written.
            (Err(CommandError::Reported), Some(next)) => {
                Ok(WatchEnd { next: Some(next), stopped_by })
            }
            (finished, next) => finished.map(|()| WatchEnd { next, stopped_by }),
        }
    }

    fn finish(
        mut self,
        result: anyhow::Result<engine::RunSummary>,
        totals: &WatchTotals,
    ) -> CommandResult {
        let stopped_by = self.host.stopped_by();
        let (own_cpu, own_max_resident) = recorded_run::own_use();
        let end = recorded_run::end(result.as_ref().err(), stopped_by, self.host.now());
        let end = RunEnd { own_cpu, own_max_resident, ..end };
        print_unusual_signal(self.host.unusual_stop_signal());
        let now = self.host.now();
        let remaining = self.host.remaining();
        print_remaining(remaining);
        let unknown = self.host.with_unknown_parent();
        print_with_unknown_parent(unknown);
        if !self.args.quiet {
            let is_restored = remaining.is_none() && unknown.is_empty();
            note(totals.line(now, self.args.act, is_restored));
        }
        drop(self.host); // Drop restores all settings before the command ends.
        let has_journal = self.journal.as_mut().is_none_or(|journal| journal.finish(&end));
        // A stop signal is the normal end of a watch.
        result.map_err(CommandError::Failed)?;
        if has_journal { Ok(()) } else { Err(CommandError::Reported) }
    }
}

/// Reports the state to systemd, if systemd started this process.
fn notify(state: &[NotifyState<'_>]) {
    // Without NOTIFY_SOCKET this does nothing. An error does not affect the watch.
    let _ = sd_notify::notify(state);
}

/// Returns the path of the journal. A watch with a configuration starts again with the same path, so it takes the first
/// free number: `watch.jsonl`, `watch-2.jsonl`, ….
fn journal_path(args: &Args) -> Option<PathBuf> {
    let path = input::journal_path(args.journal.as_deref()?);
    if args.config.is_none() || !path.exists() {
        return Some(path);
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let extension = path.extension().map(|it| format!(".{}", it.to_string_lossy()));
    let extension = extension.unwrap_or_default();
    let numbered = |n: u32| path.with_file_name(format!("{stem}-{n}{extension}"));
    (2..).map(numbered).find(|path| !path.exists())
}

fn polling_policy(args: &Args) -> anyhow::Result<Box<dyn Policy>> {
    let policy = policy::build(&args.policy, args.seed)?;
    crate::run::check_polls("watch", &*policy, &args.policy)?;
    Ok(policy::build_attached(&args.policy, args.seed, args.act)?)
}

fn host_options(
    args: &Args,
    selection: &SelectedProcesses,
    interval: Nanos,
    machine: &Machine,
) -> AttachOptions {
    AttachOptions {
        selection: selection.selection.clone(),
        cgroup_dirs: selection.dirs.clone(),
        classes: args.class.clone(),
        act: args.act,
        interval,
        time_limit: args.time_limit,
        counters: args.counters.into(),
        machine: Some(machine.clone()),
        idle_after: args.idle_after,
        memory: args.memory.options(),
        on_restore_progress: print_progress,
        ..AttachOptions::default()
    }
}

fn begin(path: &Path, header: &Header) -> Result<JournalFile, CommandError> {
    JournalFile::create(create_journal_file(path)?, header, JournalLimits::default())
        .with_context(|| cannot_write(path))
        .or_usage_error()
}

fn journal_options(args: &Args) -> BTreeMap<String, String> {
    let mut options = BTreeMap::new();
    args.signals.add_to_options(&mut options);
    options.extend(args.memory.journal_options());
    options.insert("act".to_owned(), if args.act { "yes" } else { "no" }.to_owned());
    if let Some(limit) = args.time_limit {
        options.insert("for".to_owned(), limit.to_string());
    }
    options
}

/// Parses a class rule such as `sort*=7`.
fn class_rule(text: &str) -> Result<(String, Class), String> {
    let (pattern, number) = text.rsplit_once('=').ok_or("write PATTERN=CLASS")?;
    let class = number.parse::<u8>().ok().and_then(Class::new);
    let class = class.ok_or_else(|| format!("{number:?} is not a class from 0 to 15"))?;
    match pattern.is_empty() {
        true => Err("the pattern before = is empty".to_owned()),
        false => Ok((pattern.to_owned(), class)),
    }
}
