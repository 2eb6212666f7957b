//! A run from its first turn to its last: host, engine, and the four that listen.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use base::{Bytes, Nanos};
use engine::{Engine, Sink};
use host_live::{CounterMode, LiveHost, LiveOptions};
use journal::{Header, JournalWriter, Limits, PolicyUsed, RunEnd, RunStatus};
use linux::cgroup::CgroupMode;
use program::Workload;
use report::{Report, ReportBuilder};
use sched::Policy;
use topology::Machine;

use super::{Args, Checked, Folder, GRACE, MemoryArgs};
use crate::command_result::{CommandError, CommandResult, OrUsageError};
use crate::signals::SignalArgs;
use crate::state::RunState;
use crate::view::{Mode, View};

/// What a run left: its report in any case, and how the command is to end.
pub(crate) struct Ran {
    pub report: Report,
    pub ended: CommandResult,
}

/// How a run is done, whichever command asked for it.
pub(crate) struct How<'a> {
    /// The policy as it was asked for.
    pub policy: &'a str,
    pub seed: u64,
    pub quiet: bool,
    pub journal_part: Bytes,
    pub grace: Nanos,
    pub fail_fast: bool,
    pub die_with_me: bool,
    pub time_limit: Option<Nanos>,
    pub memory: &'a MemoryArgs,
    pub signals: &'a SignalArgs,
    pub counters: CounterMode,
    pub groups: CgroupMode,
}

impl<'a> From<&'a Args> for How<'a> {
    fn from(args: &'a Args) -> Self {
        How {
            policy: &args.policy,
            seed: args.seed,
            quiet: args.quiet,
            journal_part: args.journal_part,
            grace: args.grace.unwrap_or(GRACE),
            fail_fast: args.fail_fast,
            die_with_me: args.die_with_me,
            time_limit: args.time_limit,
            memory: &args.memory,
            signals: &args.signals,
            counters: args.counters.into(),
            groups: args.groups.into(),
        }
    }
}

/// Starts the jobs and stays with them until all are over; others may listen.
///
/// # Errors
/// Nothing was started: the host is not ready, or the journal cannot be begun.
pub(crate) fn run(
    how: &How<'_>,
    checked: Checked,
    folder: &Folder,
    listener: Option<&mut dyn Sink>,
) -> Result<Ran, CommandError> {
    let mut parts = Parts::new(how, checked, folder)?;
    let error = parts.go(listener);
    Ok(parts.conclude(error))
}

/// Those who take part.
struct Parts {
    host: LiveHost,
    engine: Engine,
    journal: JournalWriter,
    report: ReportBuilder,
    view: View,
    state: RunState,
    /// What getting ready took: the clock of the run begins with the host.
    cpu_before: Option<Nanos>,
}

impl Parts {
    fn new(args: &How<'_>, checked: Checked, folder: &Folder) -> Result<Self, CommandError> {
        let Checked { workload, machine, policy, signals } = checked;
        let mut header = header(args, &workload, machine, policy.name());
        let options = options(args, &*policy, folder);
        let host = LiveHost::new(workload, &header.machine, options)?;
        let (cpu_before, _) = own_use();
        header.run_id = host.run_id().to_owned();
        header.options.insert("groups".to_owned(), host.groups());
        if host.needs_groups() && !args.quiet {
            eprintln!("evenkeel: groups keep the memory of bound jobs: {}", host.groups());
        }
        let limits = Limits { part: args.journal_part, ..Limits::default() };
        let path = folder.file("journal.jsonl");
        let journal = JournalWriter::create(&path, &header, limits)
            .inspect_err(|_| folder.forget())
            .with_context(|| format!("cannot write {}", path.display()))
            .or_usage_error()?;
        let mode = Mode::fitting(args.quiet);
        Ok(Parts {
            host,
            cpu_before,
            journal,
            report: ReportBuilder::new(&header),
            view: View::new(mode, &header),
            state: RunState::new(&header, &path),
            engine: Engine::new(header.machine, header.jobs, policy)
                .with_move_limits(args.memory.limits())
                .with_signals(signals),
        })
    }

    /// Goes through all turns; returns what ended the run before its time.
    fn go(&mut self, listener: Option<&mut dyn Sink>) -> Option<anyhow::Error> {
        let Parts { host, engine, journal, report, view, state, .. } = self;
        let result = match listener {
            None => engine::run(host, engine, &mut [journal, report, view, state]),
            Some(other) => engine::run(host, engine, &mut [journal, report, view, state, other]),
        };
        self.view.finish();
        result.err().map(anyhow::Error::from)
    }

    /// The report comes first: a journal that cannot be written on is an error, and no reason to
    /// lose it.
    fn conclude(mut self, error: Option<anyhow::Error>) -> Ran {
        let end = self.end(error.as_ref());
        crate::restore::tell_kept(self.host.is_record_kept());
        let report = self.report.finish(Some(&end));
        let finished = self.journal.finish(&end).context("cannot finish the journal");
        let ended = match error.or(finished.err()) {
            Some(error) => Err(CommandError::Failed(error)),
            None if end.status == RunStatus::Interrupted || !report.all_well() => {
                Err(CommandError::Reported)
            }
            None => Ok(()),
        };
        Ran { report, ended }
    }

    fn end(&mut self, error: Option<&anyhow::Error>) -> RunEnd {
        let how = match (error, self.host.was_stopped()) {
            (Some(_), _) => RunStatus::Failed,
            (None, true) => RunStatus::Interrupted,
            (None, false) => RunStatus::Finished,
        };
        let error = error.map(|error| format!("{error:#}"));
        let (cpu, own_max_resident) = own_use();
        let own_cpu = cpu.map(|cpu| cpu.saturating_sub(self.cpu_before.unwrap_or_default()));
        RunEnd { status: how, error, wall: self.host.now(), own_cpu, own_max_resident }
    }
}

/// All but the name of the run, which comes from the host.
fn header(args: &How<'_>, workload: &Workload, machine: Machine, policy: &str) -> Header {
    Header {
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        run_id: String::new(),
        started_unix_s: unix_seconds(),
        host: "live".to_owned(),
        policy: PolicyUsed { name: policy.to_owned(), spec: args.policy.to_owned() },
        seed: args.seed,
        machine,
        workload: workload.name.clone(),
        folder: workload.folder.clone(),
        jobs: workload.jobs.clone(),
        options: options_told(args),
        replay_of: None,
    }
}

fn options(args: &How<'_>, policy: &dyn Policy, folder: &Folder) -> LiveOptions {
    LiveOptions {
        interval: policy.interval(),
        wake: policy.wake(),
        grace: args.grace,
        fail_fast: args.fail_fast,
        die_with_me: args.die_with_me,
        output_dir: folder.file("jobs"),
        time_limit: args.time_limit,
        memory: args.memory.options(),
        counters: args.counters,
        groups: args.groups,
        ..LiveOptions::default()
    }
}

/// Flags that a reader of the journal may want to know.
fn options_told(args: &How<'_>) -> BTreeMap<String, String> {
    let mut told = BTreeMap::from([("grace".to_owned(), args.grace.to_string())]);
    if let Some(limit) = args.time_limit {
        told.insert("time-limit".to_owned(), limit.to_string());
    }
    for (name, on) in [("fail-fast", args.fail_fast), ("die-with-me", args.die_with_me)] {
        if on {
            told.insert(name.to_owned(), "yes".to_owned());
        }
    }
    told.extend(args.memory.told());
    args.signals.tell(&mut told);
    told
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// CPU time and largest resident memory of evenkeel itself, its jobs not counted.
pub(crate) fn own_use() -> (Option<Nanos>, Option<Bytes>) {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeValLike;
    let Ok(used) = getrusage(UsageWho::RUSAGE_SELF) else { return (None, None) };
    let cpu_us = used.user_time().num_microseconds() + used.system_time().num_microseconds();
    let cpu = u64::try_from(cpu_us).ok().map(|us| Nanos(us * 1000));
    (cpu, u64::try_from(used.max_rss()).ok().map(Bytes::from_kib))
}
