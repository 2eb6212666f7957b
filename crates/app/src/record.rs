//! `evenkeel record`: what the kernel says of a machine and some processes, byte by byte.
//!
//! The stream that comes of it is read by `evenkeel replay` through the same readers and the same
//! engine as a live run: it shows what evenkeel would see on that machine.

mod started;

use std::fs::File;
use std::io::{BufWriter, ErrorKind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use base::{JobId, Nanos};
use linux::collectors::StreamCollectors;
use linux::source::{Live, Source};
use linux::stream::{Header, JobLine, Tee, VERSION};
use topology::Machine;

use crate::command_result::{CommandError, CommandResult, OrUsageError};
use crate::input;
use linux::stop_signals::StopSignals;
use started::Started;

/// Record what the kernel says of the machine and of processes, for `evenkeel replay`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A process to follow, with its threads; may be given several times
    #[arg(long, value_name = "PID", value_parser = input::pid, allow_hyphen_values = true)]
    pid: Vec<u32>,
    /// How long [default: until the program ends; of --pid alone 10s]
    #[arg(long = "for", value_name = "TIME", value_parser = input::nonzero_time, allow_hyphen_values = true)]
    length: Option<Nanos>,
    /// How far apart the looks are
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = input::nonzero_time, allow_hyphen_values = true)]
    interval: Nanos,
    /// The stream; it must not be there yet
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// A program to start and follow
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

/// Records until the time is over or nobody is left.
pub fn main(args: &Args) -> CommandResult {
    check(args)?;
    let machine = linux::topology::read("/".as_ref())?;
    let refused = || format!("cannot write {}", args.output.display());
    let file = match File::create_new(&args.output) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let text = format!("{} already exists; use a new file", args.output.display());
            return Err(CommandError::Usage(anyhow!(text)));
        }
        made => made.with_context(refused).or_usage_error()?,
    };
    // Read before anything is started: whoever is told to end has to end that first.
    let mut signals = StopSignals::block()?;
    let mut child = start(args).inspect_err(|_| drop(std::fs::remove_file(&args.output)))?;
    let mut to = BufWriter::new(file);
    let recorded = record(args, &machine, (child.as_mut(), &mut signals), &mut to);
    let recorded = recorded.with_context(refused);
    drop(child); // With all that it started.
    let n_turns = recorded?;
    let turns = base::counted_noun(n_turns, "turn");
    println!("{turns} in {}: evenkeel replay shows them", args.output.display());
    Ok(())
}

fn check(args: &Args) -> Result<(), CommandError> {
    if args.pid.is_empty() && args.command.is_empty() {
        let text = "nobody to follow: give --pid P, or a program after --";
        return Err(CommandError::Usage(anyhow!(text)));
    }
    for pid in &args.pid {
        let there = linux::procfs::stat("/".as_ref(), *pid);
        there.with_context(|| format!("--pid {pid}: there is no such process")).or_usage_error()?;
    }
    Ok(())
}

fn start(args: &Args) -> Result<Option<Started>, CommandError> {
    if args.command.is_empty() {
        return Ok(None);
    }
    Ok(Some(Started::start(&args.command).or_usage_error()?))
}

/// Of processes that nobody ends, where it is not said how long.
const OF_OTHERS: Duration = Duration::from_secs(10);
/// Between two looks at whether the program has ended.
const NAP: Duration = Duration::from_millis(50);

fn record(
    args: &Args,
    machine: &Machine,
    (mut child, signals): (Option<&mut Started>, &mut StopSignals),
    to: &mut BufWriter<File>,
) -> std::io::Result<u64> {
    let pids = args.pid.iter().copied().chain(child.as_ref().map(|child| child.pid));
    let processes: Vec<(u32, JobId)> = pids.zip((0..).map(JobId)).collect();
    let header = Header {
        evenkeel_stream: VERSION,
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        machine: topology::file::to_toml(machine),
        interval_ns: args.interval.0,
        jobs: processes.iter().map(|(pid, job)| job_line(*pid, *job)).collect(),
    };
    let mut live = Live::new("/".as_ref());
    let mut tee = Tee::new(&header, &mut live, to)?;
    let began = Instant::now();
    let mut listener = StreamCollectors::open(&mut tee, machine, processes);
    let length = match (args.length, &child) {
        (Some(length), _) => Some(Duration::from_nanos(length.0)),
        (None, Some(_)) => None,
        (None, None) => Some(OF_OTHERS),
    };
    let mut n_turns = 0;
    loop {
        let at = began.elapsed();
        tee.turn(n_turns, u64::try_from(at.as_nanos()).unwrap_or(u64::MAX))?;
        let is_anybody_left = listener.sample(&mut tee, n_turns == 0).is_some();
        n_turns += 1;
        let next = began + Duration::from_nanos(args.interval.0).saturating_mul(n_turns as u32);
        let next = length.map_or(next, |length| next.min(began + length));
        let is_over = length.is_some_and(|length| length <= at);
        if !is_anybody_left || is_over || !wait(next, child.as_deref_mut(), length, signals) {
            break;
        }
    }
    listener.close(&mut tee as &mut dyn Source);
    tee.finish()?;
    Ok(n_turns)
}

/// Waits for the next look; false when there is none, since somebody wants us to end or the program that
/// tells how long has ended.
fn wait(
    next: Instant,
    mut child: Option<&mut Started>,
    length: Option<Duration>,
    signals: &mut StopSignals,
) -> bool {
    loop {
        let has_ended = child.as_mut().is_some_and(|child| child.has_ended());
        if signals.received() || has_ended && length.is_none() {
            return false;
        }
        let left = next.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(NAP));
    }
}

/// A process by the name of its program.
fn job_line(pid: u32, job: JobId) -> JobLine {
    let stat = linux::procfs::stat("/".as_ref(), pid);
    let name =
        stat.map_or_else(|_| format!("job-{}", job.0), |stat| format!("{}-{pid}", stat.comm));
    JobLine { pid, name }
}
