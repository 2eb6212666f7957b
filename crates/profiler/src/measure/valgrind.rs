//! The three runs of the cache model: alone, counted, traced.
//!
//! ```text
//!   alone     unchanged                         CPU time, wall time, exit status
//!   counted   cachegrind without cache model    instructions of the whole run   about 20 times slower
//!   traced    lackey                            every memory reference          thousands of times slower
//! ```
//!
//! The first two runs end with the program or at their share of the time limit. The traced run gets the
//! remaining time and ends when its windows are complete.

use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use linux::stop_signals::StopSignals;

use super::MeasuredProgram;
use super::program_run::{self, ExecSpec, LogPipe, LogReader, ProgramRun, StopCause};
use crate::{LackeyParser, Sampling, WindowMeter, WindowPlan};

/// Path of the valgrind executable.
#[derive(Clone, Debug)]
pub struct Valgrind(PathBuf);

impl Valgrind {
    /// Uses the executable at `path`.
    pub fn new(path: PathBuf) -> Self {
        Valgrind(path)
    }

    /// Returns the command that runs a program under a tool with its log on a file descriptor.
    fn exec_spec<'a>(
        &self,
        target: &'a MeasuredProgram,
        tool: &[&str],
        log: &'a OwnedFd,
    ) -> ExecSpec<'a> {
        // The user's valgrind settings must not apply.
        let common = ["--command-line-only=yes", "--vgdb=no", "--trace-children=yes"];
        let log_fd = format!("--log-fd={}", log.as_raw_fd());
        let words = common.iter().chain(tool).map(OsString::from);
        let mut args = vec![OsString::from("valgrind")];
        args.extend(words);
        args.push(log_fd.into());
        args.push(target.path.clone().into_os_string());
        args.extend(target.args.iter().cloned());
        let input = target.input.as_deref();
        ExecSpec { program: self.0.clone(), args, input, inherited_fd: Some(log) }
    }
}

/// Runs the program unchanged.
///
/// # Errors
/// The program cannot be started.
pub fn run_alone(
    target: &MeasuredProgram,
    until: Instant,
    stop: &mut StopSignals,
) -> anyhow::Result<ProgramRun> {
    let name = OsString::from(&target.argv0);
    let args = std::iter::once(name).chain(target.args.iter().cloned()).collect();
    let input = target.input.as_deref();
    let spec = ExecSpec { program: target.path.clone(), args, input, inherited_fd: None };
    program_run::run(&spec, until, stop, None)
}

/// Counts the instructions of all processes of the program. Returns `None` if the program did not exit in time, or no
/// process reported a count.
///
/// # Errors
/// valgrind cannot be started.
pub fn count_instructions(
    valgrind: &Valgrind,
    target: &MeasuredProgram,
    until: Instant,
    stop: &mut StopSignals,
) -> anyhow::Result<Option<InstructionCount>> {
    const TOOL: [&str; 3] =
        ["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"];
    let mut tally = InstructionTally::default();
    let pipe = LogPipe::new()?;
    let run = {
        let mut take = |piece: &[u8]| {
            tally.take(piece);
            false
        };
        run_under(valgrind, target, &TOOL, pipe, &mut take, until, stop)?
    };
    Ok(tally.finish().filter(|_| run.stop_cause == StopCause::Exited))
}

/// Instructions of all processes of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstructionCount {
    /// Sum over all processes that reported a count.
    pub n: u64,
    /// Programs that started and reported no count: execve replaced them, or they were killed.
    pub n_unreported: u64,
}

/// Sum of the counts in a cachegrind log. A process writes `==7== Command: ls` at its start and
/// `==7== I   refs:      91,534,683` at its end.
#[derive(Debug, Default)]
struct InstructionTally {
    line: Vec<u8>,
    n_started: u64,
    n_reported: u64,
    sum: u64,
}

/// Maximum stored length of a line. Relevant lines are shorter.
const LINE_MAX: usize = 4096;

impl InstructionTally {
    fn take(&mut self, piece: &[u8]) {
        for part in piece.split_inclusive(|&byte| byte == b'\n') {
            let free = LINE_MAX.saturating_sub(self.line.len());
            self.line.extend_from_slice(&part[..part.len().min(free)]);
            if part.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let Some((_, message)) = line.strip_prefix("==").and_then(|rest| rest.split_once("== "))
        else {
            return;
        };
        let number = || {
            let (_, number) = message.strip_prefix("I ")?.split_once("refs:")?;
            number.trim().replace(',', "").parse::<u64>().ok()
        };
        self.n_started += u64::from(message.starts_with("Command: "));
        if let Some(number) = number() {
            self.n_reported += 1;
            self.sum = self.sum.saturating_add(number);
        }
    }

    fn finish(mut self) -> Option<InstructionCount> {
        self.end_line();
        let n_unreported = self.n_started.saturating_sub(self.n_reported);
        (self.n_reported != 0).then_some(InstructionCount { n: self.sum, n_unreported })
    }
}

/// Result of a traced run.
pub struct TracedRun {
    /// Completed windows.
    pub meter: WindowMeter,
    /// Messages of valgrind and the number of traced programs.
    pub parser: LackeyParser,
    /// Result of the run.
    pub run: ProgramRun,
}

/// Options of a traced run.
#[derive(Clone, Copy, Debug)]
pub struct TraceOptions {
    /// Windows to trace.
    pub plan: WindowPlan,
    /// Method of line sampling.
    pub sampling: Sampling,
    /// Instructions of the whole run, if they were counted.
    pub n_instructions: Option<u64>,
    /// Time limit of the run.
    pub until: Instant,
}

/// Traces the memory references of the program.
///
/// # Errors
/// valgrind cannot be started or reports no reference.
pub fn trace(
    valgrind: &Valgrind,
    target: &MeasuredProgram,
    options: &TraceOptions,
    stop: &mut StopSignals,
) -> anyhow::Result<TracedRun> {
    const TOOL: [&str; 4] =
        ["--tool=lackey", "--basic-counts=no", "--trace-mem=yes", "--run-libc-freeres=no"];
    let mut meter = WindowMeter::new(options.plan, options.sampling);
    let mut parser = LackeyParser::default();
    let pipe = LogPipe::new()?;
    let begin = Instant::now();
    let run = {
        let mut take = |piece: &[u8]| {
            parser.feed(piece, |reference| meter.take(reference));
            spread_windows(&mut meter, options, begin.elapsed());
            meter.is_done()
        };
        run_under(valgrind, target, &TOOL, pipe, &mut take, options.until, stop)?
    };
    meter.finish();
    if meter.n_references() == 0 && run.stop_cause != StopCause::Interrupted {
        return Err(no_references(&run, &parser));
    }
    Ok(TracedRun { meter, parser, run })
}

/// Sets the gap between windows so that all windows fit into the run. The length of the run is estimated from its
/// instruction count. The estimate is limited to the number of references that the tracer can process in the remaining
/// time.
fn spread_windows(meter: &mut WindowMeter, options: &TraceOptions, spent: Duration) {
    /// Minimum number of references before the speed of the tracer is estimated.
    const N_REFERENCES_MIN: u64 = 2_000_000;
    let n = meter.n_references();
    if n < N_REFERENCES_MIN {
        return;
    }
    let remaining_secs = options.until.saturating_duration_since(Instant::now()).as_secs_f64();
    // Keeps 10 % in reserve, because the speed changes with the program phase.
    let reached = n as f64 * (1.0 + 0.9 * remaining_secs / spent.as_secs_f64().max(1e-3));
    let per_instruction = n as f64 / (meter.n_instructions() as f64).max(1.0);
    let whole = options.n_instructions.map_or(0.0, |count| count as f64 * per_instruction);
    meter.set_gap(meter.plan().gap_over(reached.min(whole) as u64));
}

fn run_under(
    valgrind: &Valgrind,
    target: &MeasuredProgram,
    tool: &[&str],
    pipe: LogPipe,
    take: LogReader<'_>,
    until: Instant,
    stop: &mut StopSignals,
) -> anyhow::Result<ProgramRun> {
    let writer = pipe.writer()?;
    let spec = valgrind.exec_spec(target, tool, &writer);
    program_run::run(&spec, until, stop, Some((pipe, take)))
}

/// Returns the error of a traced run without references.
fn no_references(run: &ProgramRun, parser: &LackeyParser) -> anyhow::Error {
    let message = match (run.last_stderr_line.as_str(), parser.messages().last()) {
        ("", Some(message)) => message.clone(),
        ("", None) => format!("{:?}", run.reaped.status),
        (line, _) => line.to_owned(),
    };
    anyhow!("valgrind traced no memory reference; its last message: {message}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(log: &str, piece: usize) -> Option<(u64, u64)> {
        let mut tally = InstructionTally::default();
        log.as_bytes().chunks(piece).for_each(|piece| tally.take(piece));
        tally.finish().map(|count| (count.n, count.n_unreported))
    }

    #[test]
    fn counts_of_all_processes_are_summed_for_any_chunk_size() {
        let log = "==7== Command: sh\n==8== I   refs:      1,000\n==7== \n==7== I   refs:      91,534,683";
        for piece in [1, 7, 1000] {
            assert_eq!(count(log, piece), Some((91_535_683, 0)));
        }
        assert_eq!(count("==7== Command: sh\n", 1000), None);
    }

    #[test]
    fn long_lines_and_long_logs_are_summed() {
        let one = "==7== Command: cc1\n==7== I   refs:      1,000\n";
        let log = format!("{}\n{}", "x".repeat(10_000), one.repeat(100_000));
        assert_eq!(count(&log, 65_536), Some((100_000_000, 0)));
    }

    #[test]
    fn processes_without_a_count_are_counted() {
        let log = "==7== Command: sh\n==7== Command: cc\n==7== I   refs:      1,000\n";
        assert_eq!(count(log, 1000), Some((1000, 1)));
    }
}
