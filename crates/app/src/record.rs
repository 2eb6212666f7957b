//! `evenkeel record`: records the unchanged bytes of kernel data about a machine and some processes.
//!
//! `evenkeel replay` reads the stream with the same readers and the same engine as a live run, and prints the values
//! that evenkeel derives on that machine.

mod recorded_program;

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use base::{JobId, Nanos};
use linux::collectors::StreamCollectors;
use linux::source::Live;
use linux::stream::{RecordedJob, StreamHeader, Tee, VERSION};
use topology::Machine;

use crate::command_result::{CommandError, CommandResult, OrUsageError};
use crate::input;
use crate::output::{cannot_write, create_new};
use linux::stop_signals::StopSignals;
use recorded_program::RecordedProgram;

/// Record kernel data about the machine and processes, for replay
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Record this process with its threads; may be repeated
    #[arg(long, value_name = "PID", value_parser = input::pid, allow_hyphen_values = true)]
    pid: Vec<u32>,
    /// Stop after this time [default: when the program exits; 10s if only --pid is given]
    #[arg(long = "for", value_name = "TIME", value_parser = input::nonzero_time, allow_hyphen_values = true)]
    length: Option<Nanos>,
    /// Set the sampling interval
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = input::nonzero_time, allow_hyphen_values = true)]
    interval: Nanos,
    /// Write the stream to this file, which must not exist
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Start and record this program
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Records until the time limit or until all processes have exited.
pub fn main(args: &Args) -> CommandResult {
    crate::check_proc()?;
    check(args)?;
    let machine = linux::topology::read("/".as_ref())?;
    let file = create_new(&args.output)?;
    // The signals are blocked before the program starts, so that a stop signal ends the program before evenkeel.
    let mut signals = StopSignals::block()?;
    let mut child = start(args).inspect_err(|_| drop(file.dir.remove(&file.name)))?;
    let mut to = BufWriter::new(file.file);
    let recorded = record(args, &machine, (child.as_mut(), &mut signals), &mut to);
    let recorded = recorded.with_context(|| cannot_write(&args.output));
    drop(child); // Drop ends the program and its descendants.
    let n_turns = recorded?;
    let turns = base::counted_noun(n_turns, "turn");
    let path = args.output.display();
    writeln!(crate::print::stdout(), "{turns} in {path}; evenkeel replay prints them")?;
    Ok(())
}

fn check(args: &Args) -> Result<(), CommandError> {
    if args.pid.is_empty() && args.command.is_empty() {
        let text = "no process to record; use --pid PID, or a program after --";
        return Err(CommandError::Usage(anyhow!(text)));
    }
    for pid in &args.pid {
        let stat = linux::procfs::stat("/".as_ref(), *pid);
        let problem = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::NotFound => anyhow!("there is no process {pid}"),
            _ => anyhow!(error).context(format!("cannot read process {pid}")),
        };
        stat.map_err(problem).or_usage_error()?;
    }
    Ok(())
}

fn start(args: &Args) -> Result<Option<RecordedProgram>, CommandError> {
    if args.command.is_empty() {
        return Ok(None);
    }
    Ok(Some(RecordedProgram::start(&args.command)?))
}

/// Default duration for processes that evenkeel did not start.
const DURATION_WITHOUT_PROGRAM: Duration = Duration::from_secs(10);
/// Poll interval for the exit of the program.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

fn record(
    args: &Args,
    machine: &Machine,
    (mut child, signals): (Option<&mut RecordedProgram>, &mut StopSignals),
    to: &mut BufWriter<File>,
) -> std::io::Result<u64> {
    let pids = args.pid.iter().copied().chain(child.as_ref().map(|child| child.pid));
    let processes: Vec<(u32, JobId)> = pids.zip((0..).map(JobId)).collect();
    let header = StreamHeader {
        evenkeel_stream: VERSION,
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        machine: topology::file::to_toml(machine),
        interval_ns: args.interval.0,
        jobs: processes.iter().map(|(pid, job)| job_line(*pid, *job)).collect(),
    };
    let mut live = Live::default();
    let tee = Tee::new(&header, &mut live, to)?;
    let start = Instant::now();
    let mut collectors = StreamCollectors::open(tee, machine, processes);
    let length = match (args.length, &child) {
        (Some(length), _) => Some(Duration::from_nanos(length.0)),
        (None, Some(_)) => None,
        (None, None) => Some(DURATION_WITHOUT_PROGRAM),
    };
    let mut n_turns = 0;
    loop {
        let at = start.elapsed();
        collectors.source().turn(n_turns, u64::try_from(at.as_nanos()).unwrap_or(u64::MAX))?;
        collectors.sample();
        n_turns += 1;
        let next = start + Duration::from_nanos(args.interval.0).saturating_mul(n_turns as u32);
        let next = length.map_or(next, |length| next.min(start + length));
        let is_over = length.is_some_and(|length| length <= at);
        if !collectors.has_processes()
            || is_over
            || !wait(next, child.as_deref_mut(), length, signals)
        {
            break;
        }
    }
    collectors.source().finish()?;
    Ok(n_turns)
}

/// Waits for the next sample. Returns false after a stop signal, or, without --for, when the recorded program has
/// exited.
fn wait(
    next: Instant,
    mut child: Option<&mut RecordedProgram>,
    length: Option<Duration>,
    signals: &mut StopSignals,
) -> bool {
    loop {
        let has_exited = child.as_mut().is_some_and(|child| child.has_exited());
        if signals.received() || has_exited && length.is_none() {
            return false;
        }
        let remaining = next.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            return true;
        }
        std::thread::sleep(remaining.min(POLL_INTERVAL));
    }
}

/// Returns the job line of a process, which is named after its program.
fn job_line(pid: u32, job: JobId) -> RecordedJob {
    let stat = linux::procfs::stat("/".as_ref(), pid);
    let name = stat
        .map_or_else(|_| format!("job-{}", job.0), |stat| format!("{}-{pid}", stat.comm_text()));
    RecordedJob { pid, name }
}
