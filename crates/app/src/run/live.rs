//! A live run: host, engine and sinks.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use anyhow::Context;
use base::{Bytes, Nanos};
use engine::{Engine, Sink};
use host_live::{CounterMode, LaunchHost, LaunchOptions, StandardInput, StandardStreams};
use journal::{Header, JournalLimits, PolicyUsed, RunEnd, RunStatus};
use linux::cgroup::CgroupMode;
use linux::foreground::ForegroundTerminal;
use program::Workload;
use report::{Report, ReportBuilder, RunStatusName};
use sched::{HostKind, Policy};
use topology::Machine;

use super::{Args, GRACE, LiveInput, MemoryArgs, RunDir};
use crate::command_result::{CommandError, CommandResult, OrUsageError};
use crate::journal_file::JournalFile;
use crate::output::{JOURNAL, cannot_write};
use crate::program_start;
use crate::recorded_run::{self, own_use};
use crate::restore::{print_progress, print_remaining, print_restored, print_unusual_signal};
use crate::state::RunState;
use crate::tier_override::SignalArgs;
use crate::view::{Screen, View, ViewArgs, last_wall_times};

/// Result of a run: the report, which exists even after an error, and the result of the command.
pub(crate) struct RunResult {
    pub report: Report,
    pub result: CommandResult,
    /// Whether the journal, if any, is complete. If not, the error is already printed.
    pub has_journal: bool,
}

impl RunResult {
    /// Finishes the report and the journal.
    pub(super) fn new(
        mut report: ReportBuilder,
        journal: Option<JournalFile>,
        mut end: RunEnd,
        error: Option<anyhow::Error>,
    ) -> Self {
        let n_parts_removed = journal.as_ref().map_or(0, JournalFile::n_parts_removed);
        report.set_journal_parts_missing(n_parts_removed);
        let report = report.finish(Some(&end));
        if report.run.status == Some(RunStatusName::Failed) {
            end.status = RunStatus::Failed;
        }
        let has_journal = journal.is_none_or(|mut journal| journal.finish(&end));
        let result = match error {
            Some(error) => Err(CommandError::Failed(error)),
            None if !report.all_well() => Err(CommandError::Reported),
            None => Ok(()),
        };
        RunResult { report, result, has_journal }
    }
}

/// Creates the journal of a run. Removes the directory on failure.
pub(super) fn create_journal(
    dir: &RunDir,
    header: &Header,
    part: Bytes,
) -> Result<JournalFile, CommandError> {
    let path = dir.file(JOURNAL);
    let limits = JournalLimits { part, ..JournalLimits::default() };
    dir.journal()
        .and_then(|file| JournalFile::create(file, header, limits))
        .inspect_err(|_| dir.remove_unused())
        .with_context(|| cannot_write(&path))
        .or_usage_error()
}

/// Default size of a journal part of a live run.
const LIVE_JOURNAL_PART: Bytes = Bytes::from_mib(64);

/// Options of a run, for all commands that run workloads.
pub(crate) struct RunOptions<'a> {
    /// Policy specification, as on the command line.
    pub policy: &'a str,
    pub seed: u64,
    pub quiet: bool,
    pub journal_part: Bytes,
    pub grace: Nanos,
    pub fail_fast: bool,
    pub kill_on_exit: bool,
    pub time_limit: Option<Nanos>,
    pub memory: &'a MemoryArgs,
    pub signals: &'a SignalArgs,
    pub view: ViewArgs,
    pub counters: CounterMode,
    pub cgroups: CgroupMode,
    /// Whether jobs use the standard streams of evenkeel. There is then no progress output between the lines of the jobs.
    pub passes_streams: bool,
    /// Whether standard output of evenkeel has the report as JSON, and no output of a job.
    pub json: bool,
}

impl<'a> From<&'a Args> for RunOptions<'a> {
    fn from(args: &'a Args) -> Self {
        RunOptions {
            policy: &args.policy,
            seed: args.seed,
            quiet: args.quiet,
            journal_part: args.journal_part.unwrap_or(LIVE_JOURNAL_PART),
            grace: args.grace.unwrap_or(GRACE),
            fail_fast: args.fail_fast,
            kill_on_exit: args.kill_on_exit,
            time_limit: args.time_limit,
            memory: &args.memory,
            signals: &args.signals,
            view: args.view,
            counters: args.counters.into(),
            cgroups: args.cgroups.into(),
            passes_streams: args.passes_streams(),
            json: args.json,
        }
    }
}

/// Runs all jobs. `listener` is an additional sink. Without a directory the run has no journal.
///
/// The host is not ready, or the journal cannot be created. In both cases no job was started.
pub(crate) fn run(
    options: &RunOptions<'_>,
    checked: LiveInput,
    dir: Option<&RunDir>,
    listener: Option<&mut dyn Sink>,
) -> Result<RunResult, CommandError> {
    let mut parts = LiveRun::new(options, checked, dir)?;
    let error = parts.run(listener);
    Ok(parts.conclude(error))
}

/// Host, engine and sinks of a run.
struct LiveRun {
    host: LaunchHost,
    engine: Engine,
    journal: Option<JournalFile>,
    report: ReportBuilder,
    view: View,
    state: RunState,
    /// CPU time that evenkeel used before the start of the run.
    cpu_before: Option<Nanos>,
}

impl LiveRun {
    fn new(
        args: &RunOptions<'_>,
        checked: LiveInput,
        dir: Option<&RunDir>,
    ) -> Result<Self, CommandError> {
        let LiveInput { workload, machine, policy, signals } = checked;
        let mut header = header(args, &workload, machine, &*policy);
        let mut options = options(args, &*policy, dir);
        let is_quiet = args.quiet || args.passes_streams;
        let screen = args.view.open_screen(is_quiet);
        let terminal = if args.passes_streams { ForegroundTerminal::open() } else { None };
        if terminal.is_some() {
            options.standard_streams.input = StandardInput::Foreground;
        }
        let mut host = LaunchHost::new(workload, &header.machine, options)?;
        if let Some(terminal) = terminal {
            host.add_console(program_start::console(&Rc::new(RefCell::new(terminal)))?)?;
        }
        print_restored(host.restored(), args.quiet);
        let (cpu_before, _) = own_use();
        header.run_id = host.run_id().to_owned();
        header.options.insert("cgroups".to_owned(), host.cgroup_description());
        if host.needs_cgroups() && !args.quiet {
            crate::print::note(format_args!(
                "cgroups for jobs with bound memory: {}",
                host.cgroup_description()
            ));
        }
        // The progress output prints these notes.
        if let Some(text) = host.not_placed_because().filter(|_| is_quiet) {
            crate::print::note(text);
        }
        let journal = dir.map(|dir| create_journal(dir, &header, args.journal_part)).transpose()?;
        let view = view((screen, is_quiet), &header, dir);
        if let Some(console) = view.console() {
            host.add_console(console)?;
        }
        Ok(LiveRun {
            host,
            cpu_before,
            journal,
            report: ReportBuilder::new(&header),
            view,
            state: RunState::new(&header, dir.map(|dir| dir.file(JOURNAL)).as_deref()),
            engine: Engine::new(header.machine, header.jobs, policy)
                .with_page_migration_limits(args.memory.limits())
                .with_signals(signals),
        })
    }

    /// Runs all turns. Returns the error that ended the run early.
    fn run(&mut self, listener: Option<&mut dyn Sink>) -> Option<anyhow::Error> {
        let LiveRun { host, engine, journal, report, view, state, .. } = self;
        let mut sinks: Vec<&mut dyn Sink> = vec![report, view, state];
        sinks.extend(journal.as_mut().map(|journal| journal as &mut dyn Sink));
        if let Some(listener) = listener {
            sinks.push(listener);
        }
        let result = engine::run(host, engine, &mut sinks);
        self.view.finish();
        result.err().map(anyhow::Error::from)
    }

    fn conclude(mut self, error: Option<anyhow::Error>) -> RunResult {
        let stopped_by = self.host.stopped_by();
        let (cpu, own_max_resident) = own_use();
        let own_cpu = cpu.map(|cpu| cpu.saturating_sub(self.cpu_before.unwrap_or_default()));
        let end = recorded_run::end(error.as_ref(), stopped_by, self.host.now());
        let end = RunEnd { own_cpu, own_max_resident, ..end };
        print_unusual_signal(self.host.unusual_stop_signal());
        print_remaining(self.host.remaining());
        RunResult::new(self.report, self.journal, end, error)
    }
}

fn view((screen, is_quiet): (Option<Screen>, bool), header: &Header, dir: Option<&RunDir>) -> View {
    let last_run = dir.filter(|_| screen.is_some());
    let last_run = last_run.map(|dir| last_wall_times(&dir.file(""), header));
    View::new(screen, is_quiet, header, &last_run.unwrap_or_default())
}

/// Returns the header except the run id, which the host sets.
fn header(
    args: &RunOptions<'_>,
    workload: &Workload,
    machine: Machine,
    policy: &dyn Policy,
) -> Header {
    Header {
        seed: args.seed,
        workload: workload.name.clone(),
        dir: workload.dir.clone(),
        jobs: workload.jobs.clone(),
        options: journal_options(args),
        ..recorded_run::header(HostKind::Live, PolicyUsed::new(policy, args.policy), machine)
    }
}

fn options(args: &RunOptions<'_>, policy: &dyn Policy, dir: Option<&RunDir>) -> LaunchOptions {
    let standard_streams = match dir.map(|dir| &dir.jobs) {
        Some(jobs) if !args.passes_streams => StandardStreams::in_dir(jobs),
        jobs => StandardStreams {
            output_dir: jobs.filter(|_| args.json).cloned(),
            ..StandardStreams::inherited()
        },
    };
    LaunchOptions {
        interval: policy.interval(),
        wake: policy.wake(),
        grace: args.grace,
        fail_fast: args.fail_fast,
        kill_on_exit: args.kill_on_exit,
        standard_streams,
        time_limit: args.time_limit,
        memory: args.memory.options(),
        counters: args.counters,
        cgroups: args.cgroups,
        on_restore_progress: print_progress,
        ..LaunchOptions::default()
    }
}

fn journal_options(args: &RunOptions<'_>) -> BTreeMap<String, String> {
    let mut options = BTreeMap::from([("grace".to_owned(), args.grace.to_string())]);
    if let Some(limit) = args.time_limit {
        options.insert("time-limit".to_owned(), limit.to_string());
    }
    for (name, on) in [("fail-fast", args.fail_fast), ("kill-on-exit", args.kill_on_exit)] {
        if on {
            options.insert(name.to_owned(), "yes".to_owned());
        }
    }
    options.extend(args.memory.journal_options());
    args.signals.add_to_options(&mut options);
    options
}
