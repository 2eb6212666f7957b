//! A program with phases: compute, hog and sleep in sequence. The hog phase has the self-check of `load hog`.

use std::str::FromStr;
use std::time::{Duration, Instant};

use base::{Bytes, Nanos};

use super::LoadReport;
use super::budget::{Budget, CompletedWork, WorkerTask, cpu_time};
use super::compute::Arithmetic;
use super::hog::{self, Hog};
use super::memory::{self, Buffer, BufferOptions};
use crate::command_result::{CommandResult, OrUsageError};
use crate::input;

/// Options of `load phases`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run these phases: compute:TIME and hog:TIME of CPU time, sleep:TIME of wall time
    #[arg(value_name = "PHASE", required = true)]
    phases: Vec<LoadPhase>,
    /// Repeat all phases this many times
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = input::integer::<u32>(1..=u32::MAX), allow_hyphen_values = true)]
    rounds: u32,
    /// Set the buffer size of the hog (default: as for load hog)
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,
    #[command(flatten)]
    options: BufferOptions,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoadPhase {
    Compute(Nanos),
    Hog(Nanos),
    Sleep(Nanos),
}

impl FromStr for LoadPhase {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let usage = || "write compute:TIME, hog:TIME or sleep:TIME".to_owned();
        let (kind, time) = text.split_once(':').ok_or_else(usage)?;
        let time = crate::input::time(time)?;
        match kind {
            "compute" => Ok(LoadPhase::Compute(time)),
            "hog" => Ok(LoadPhase::Hog(time)),
            "sleep" => Ok(LoadPhase::Sleep(time)),
            _ => Err(usage()),
        }
    }
}

impl Args {
    /// Returns the buffer if a phase needs a buffer. An explicit size is checked even if no phase needs a buffer.
    fn buffer(&self) -> anyhow::Result<Option<Buffer>> {
        let hogs = self.phases.iter().any(|phase| matches!(phase, LoadPhase::Hog(_)));
        let needed = hogs || self.size.is_some();
        let buffer = needed.then(|| self.options.buffer(self.size, 1)).transpose()?;
        Ok(buffer.filter(|_| hogs))
    }
}

/// Checks the arguments without running the program.
pub(crate) fn check(args: &Args) -> anyhow::Result<()> {
    match args.buffer()? {
        Some(buffer) => hog::check_buffer(&args.options, &buffer),
        None => Ok(()),
    }
}

pub(crate) fn main(args: &Args) -> CommandResult {
    let buffer = args.buffer().or_usage_error()?;
    let mut report = LoadReport::new("phases", args.json);
    report.add("copies", args.options.copies);
    if let Some(buffer @ Buffer { size, llc, .. }) = buffer {
        let llc_text = memory::cache_text(llc);
        report.print(&format!(
            "buffer {size}, last-level cache {llc_text}, copies {}",
            args.options.copies
        ))?;
        report.add("buffer_bytes", size.0);
        report.add("llc_bytes", llc.map(|size| size.0));
        hog::run_self_check(&args.options, &buffer, &mut report)?;
    }
    let mut hog = buffer.map(|buffer| Hog::new(buffer.size, 1, false));
    let mut arithmetic = Arithmetic::new(0);
    let begin = (Instant::now(), cpu_time());
    let mut ops = 0;
    for phase in (0..args.rounds).flat_map(|_| &args.phases) {
        ops += match (phase, &mut hog) {
            (LoadPhase::Hog(time), Some(hog)) => spend(*time, hog),
            (LoadPhase::Compute(time), _) => spend(*time, &mut arithmetic),
            (LoadPhase::Sleep(time), _) | (LoadPhase::Hog(time), None) => {
                std::thread::sleep((*time).into());
                0
            }
        };
    }
    let cpu = cpu_time().saturating_sub(begin.1);
    report.end(&CompletedWork { ops, cpu, wall: begin.0.elapsed() }, "operations")?;
    Ok(())
}

/// Works for this CPU time. Returns the number of operations.
fn spend<P: WorkerTask>(time: Nanos, part: &mut P) -> u64 {
    let budget = Budget::of_cpu(Duration::from(time));
    budget.spend(0, P::BATCH_OPS, |ops| part.work(ops)).ops
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_has_a_kind_and_a_time() {
        assert_eq!("hog:250ms".parse(), Ok(LoadPhase::Hog(Nanos::from_millis(250))));
        for text in ["", "hog", "hog:", "hog:-1", "swim:1s"] {
            assert!(text.parse::<LoadPhase>().is_err(), "{text}");
        }
    }
}
