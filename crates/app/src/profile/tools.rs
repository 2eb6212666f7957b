//! The three runs of the cache model: alone, counted, traced.
//!
//! ```text
//!   alone     as it is                          CPU time, wall time, exit status
//!   counted   valgrind's cachegrind, no cache   instructions, all of them   some 20 times slower
//!   traced    valgrind's lackey                 every reference             thousands of times slower
//! ```
//!
//! Each ends when the program does. The first two share part of the time that the user allows; what
//! they leave is the tracer's, which ends when its windows are full.

use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use trace::{Meter, Parser, Plan, Sampling};

use super::child::{self, LogPipe, Run, What, Why};
use super::target::Target;
use crate::asked::Asked;

/// The tracer that Debian packages.
#[derive(Clone, Debug)]
pub(super) struct Valgrind(PathBuf);

impl Valgrind {
    /// Looks for it in `PATH`.
    pub(super) fn find() -> anyhow::Result<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = host_live::find_program("valgrind".as_ref(), "/".as_ref(), &path);
        found.map(Valgrind).map_err(|_| {
            anyhow!("the cache model needs valgrind, which is not in PATH: apt install valgrind")
        })
    }

    /// The program under one of its tools, which writes to this descriptor.
    fn what<'a>(&self, target: &'a Target, tool: &[&str], log: &'a OwnedFd) -> What<'a> {
        // What the user has set for his own use of it must not change ours.
        let common = ["--command-line-only=yes", "--vgdb=no", "--trace-children=yes"];
        let log_fd = format!("--log-fd={}", log.as_raw_fd());
        let words = common.iter().chain(tool).map(OsString::from);
        let mut args = vec![OsString::from("valgrind")];
        args.extend(words);
        args.push(log_fd.into());
        args.push(target.path.clone().into_os_string());
        args.extend(target.args.iter().cloned());
        What { program: self.0.clone(), args, input: target.input.as_deref(), inherits: Some(log) }
    }
}

/// Runs the program as it is.
pub(super) fn alone(target: &Target, until: Instant, stop: &mut Asked) -> anyhow::Result<Run> {
    let name = OsString::from(&target.called);
    let args = std::iter::once(name).chain(target.args.iter().cloned()).collect();
    let input = target.input.as_deref();
    let what = What { program: target.path.clone(), args, input, inherits: None };
    child::run(&what, until, stop, None)
}

/// Counts the instructions of all its processes; `None` if it did not end in time, or said nothing.
pub(super) fn count(
    valgrind: &Valgrind,
    target: &Target,
    until: Instant,
    stop: &mut Asked,
) -> anyhow::Result<Option<Counted>> {
    const TOOL: [&str; 3] =
        ["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"];
    let mut tally = Tally::default();
    let pipe = LogPipe::new()?;
    let run = {
        let mut take = |piece: &[u8]| {
            tally.take(piece);
            false
        };
        under(valgrind, target, &TOOL, pipe, &mut take, until, stop)?
    };
    Ok(tally.counted().filter(|_| run.why == Why::Ended))
}

/// Instructions of all processes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counted {
    pub n: u64,
    /// Programs that were begun and told nothing: another took their place, or they were killed.
    pub n_silent: u64,
}

/// Sums up what processes tell, line by line as it comes: `==7== Command: ls` at their beginning and
/// `==7== I   refs:      91,534,683` at their end.
#[derive(Debug, Default)]
struct Tally {
    line: Vec<u8>,
    n_begun: u64,
    n_told: u64,
    sum: u64,
}

/// No line that counts is longer.
const LINE_MAX: usize = 4096;

impl Tally {
    fn take(&mut self, piece: &[u8]) {
        for part in piece.split_inclusive(|&byte| byte == b'\n') {
            let room = LINE_MAX.saturating_sub(self.line.len());
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            if part.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let Some((_, told)) = line.strip_prefix("==").and_then(|rest| rest.split_once("== "))
        else {
            return;
        };
        let number = || {
            let (_, number) = told.strip_prefix("I ")?.split_once("refs:")?;
            number.trim().replace(',', "").parse::<u64>().ok()
        };
        self.n_begun += u64::from(told.starts_with("Command: "));
        if let Some(number) = number() {
            self.n_told += 1;
            self.sum = self.sum.saturating_add(number);
        }
    }

    fn counted(mut self) -> Option<Counted> {
        self.end_line();
        let n_silent = self.n_begun.saturating_sub(self.n_told);
        (self.n_told != 0).then_some(Counted { n: self.sum, n_silent })
    }
}

/// What was traced.
pub(super) struct Traced {
    /// The windows.
    pub meter: Meter,
    /// What valgrind said, and how many programs it saw.
    pub parser: Parser,
    /// How the run was left.
    pub run: Run,
}

/// What the tracer is to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub plan: Plan,
    pub sampling: Sampling,
    /// Instructions of the whole run, if they were counted.
    pub n_instructions: Option<u64>,
    pub until: Instant,
}

/// Traces the program's references.
pub(super) fn trace(
    valgrind: &Valgrind,
    target: &Target,
    wish: &Wish,
    stop: &mut Asked,
) -> anyhow::Result<Traced> {
    const TOOL: [&str; 4] =
        ["--tool=lackey", "--basic-counts=no", "--trace-mem=yes", "--run-libc-freeres=no"];
    let mut meter = Meter::new(wish.plan, wish.sampling);
    let mut parser = Parser::default();
    let pipe = LogPipe::new()?;
    let begin = Instant::now();
    let run = {
        let mut take = |piece: &[u8]| {
            parser.feed(piece, |reference| meter.take(reference));
            spread(&mut meter, wish, begin.elapsed());
            meter.is_done()
        };
        under(valgrind, target, &TOOL, pipe, &mut take, wish.until, stop)?
    };
    meter.finish();
    if meter.n_references() == 0 && run.why != Why::Stopped {
        return Err(silent(&run, &parser));
    }
    Ok(Traced { meter, parser, run })
}

/// Puts as much between the windows as leaves time for all of them: the run is as long as its counted
/// instructions say, or as what can be traced in the time that is left.
fn spread(meter: &mut Meter, wish: &Wish, spent: Duration) {
    /// Below this the speed is not known yet.
    const N_REFERENCES_MIN: u64 = 2_000_000;
    let n = meter.n_references();
    if n < N_REFERENCES_MIN {
        return;
    }
    let left = wish.until.saturating_duration_since(Instant::now()).as_secs_f64();
    // A tenth is kept back: the speed changes with the program.
    let reached = n as f64 * (1.0 + 0.9 * left / spent.as_secs_f64().max(1e-3));
    let per_instruction = n as f64 / (meter.n_instructions() as f64).max(1.0);
    let whole = wish.n_instructions.map_or(0.0, |count| count as f64 * per_instruction);
    meter.set_gap(meter.plan().gap_over(reached.min(whole) as u64));
}

fn under(
    valgrind: &Valgrind,
    target: &Target,
    tool: &[&str],
    pipe: LogPipe,
    take: child::Taker<'_>,
    until: Instant,
    stop: &mut Asked,
) -> anyhow::Result<Run> {
    let writer = pipe.writer()?;
    let what = valgrind.what(target, tool, &writer);
    child::run(&what, until, stop, Some((pipe, take)))
}

/// Why nothing was traced.
fn silent(run: &Run, parser: &Parser) -> anyhow::Error {
    let said = match (run.last_words.as_str(), parser.messages().last()) {
        ("", Some(message)) => message.clone(),
        ("", None) => format!("{:?}", run.reaped.status),
        (words, _) => words.to_owned(),
    };
    anyhow!("valgrind traced nothing; it said: {said}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(log: &str, piece: usize) -> Option<(u64, u64)> {
        let mut tally = Tally::default();
        log.as_bytes().chunks(piece).for_each(|piece| tally.take(piece));
        tally.counted().map(|counted| (counted.n, counted.n_silent))
    }

    #[test]
    fn instructions_of_all_processes_are_added_however_the_log_comes() {
        let log = "==7== Command: sh\n==8== I   refs:      1,000\n==7== \n==7== I   refs:      91,534,683";
        for piece in [1, 7, 1000] {
            assert_eq!(told(log, piece), Some((91_535_683, 0)));
        }
        assert_eq!(told("==7== Command: sh\n", 1000), None);
    }

    #[test]
    fn a_long_log_is_summed_to_its_end() {
        let one = "==7== Command: cc1\n==7== I   refs:      1,000\n";
        let log = format!("{}\n{}", "x".repeat(10_000), one.repeat(100_000));
        assert_eq!(told(&log, 65_536), Some((100_000_000, 0)));
    }

    #[test]
    fn who_told_nothing_is_counted() {
        let log = "==7== Command: sh\n==7== Command: cc\n==7== I   refs:      1,000\n";
        assert_eq!(told(log, 1000), Some((1000, 1)));
    }
}
