//! The counters engine: the program runs once, and the processor counts.
//!
//! ```text
//!   sh stops itself ─► counters are opened on it, for its children too ─► it goes on and becomes the program
//!                      every 100 ms they are read                      ─► phases (trace::counted)
//! ```
//!
//! So not one instruction of the program is missed, and some thousand of the shell's are counted with it.

use std::ffi::OsString;
use std::path::Path;
use std::time::Instant;

use anyhow::bail;
use base::Nanos;
use linux::collectors;
use linux::perf::{self, CounterScope, Meter, PmuGroups, TaskGroups};
use linux::source::Live;
use sched::{CounterEvent, Counters};
use trace::counted::Reading;

use super::child::{self, Run, Watch, What, Why};
use super::target::Target;
use crate::asked::Asked;

/// What this processor can count of a task.
///
/// # Errors
/// It counts no instructions of tasks, for this reason.
pub(super) fn choose() -> Result<Vec<PmuGroups>, String> {
    let mut source = Live::new(Path::new("/"));
    let flags = collectors::counting_rights(&mut source)?;
    let identity = collectors::identity_of(&mut source);
    let choice = perf::choose(&mut source, &identity, flags);
    let (groups, refused) = TaskGroups::open(0, &choice.chosen, false);
    // Something must run for a counter to have had a turn.
    std::hint::black_box((0..100_000u64).fold(0, |sum, nr| sum ^ std::hint::black_box(nr)));
    if groups.read().counters().get(CounterEvent::Instructions).value().is_some() {
        let software = perf::software(flags);
        return Ok(choice.chosen.into_iter().chain([software]).collect());
    }
    let told = choice.absent.get(&CounterEvent::Instructions).cloned();
    let refused = refused.map(|error| perf::explain_refusal(&error, None, CounterScope::Task));
    Err(refused.or(told).unwrap_or_else(|| "instructions are not counted".to_owned()))
}

/// Runs the program and reads its counters until it ends, or its time is up.
pub(super) fn run(
    target: &Target,
    chosen: Vec<PmuGroups>,
    until: Instant,
    stop: &mut Asked,
) -> anyhow::Result<(Vec<Reading>, Run)> {
    let words = ["sh", "-c", "kill -STOP $$; exec \"$@\"", "sh"].map(OsString::from);
    let path = target.path.clone().into_os_string();
    let args = words.into_iter().chain([path]).chain(target.args.iter().cloned()).collect();
    let input = target.input.as_deref();
    let what = What { program: "/bin/sh".into(), args, input, inherits: None };
    let mut counting = Counting { chosen, ..Counting::default() };
    let run = child::run_watched(&what, until, stop, &mut counting)?;
    if run.why == Why::Stopped && counting.readings.len() < 2 {
        bail!("stopped before anything was counted");
    }
    Ok((counting.readings, run))
}

/// Counters of a program while it runs.
#[derive(Default)]
struct Counting {
    chosen: Vec<PmuGroups>,
    groups: TaskGroups,
    meter: Meter,
    readings: Vec<Reading>,
}

impl Watch for Counting {
    fn begin(&mut self, pid: u32) -> anyhow::Result<()> {
        let (groups, refused) = TaskGroups::open(pid, &self.chosen, true);
        self.groups = groups;
        match refused.filter(|_| self.groups.is_empty()) {
            Some(error) => {
                bail!(
                    "counters cannot be opened: {}",
                    perf::explain_refusal(&error, None, CounterScope::Task)
                )
            }
            None => {
                self.look();
                Ok(())
            }
        }
    }

    fn look(&mut self) {
        let sum = self.groups.read();
        // Groups take turns: an interval lasts until each has had one.
        if !self.meter.would_miss(&sum) {
            self.meter.take(&sum);
            self.readings.push(reading(&self.meter.now()));
        }
    }
}

fn reading(counters: &Counters) -> Reading {
    let value = |event| counters.get(event).value();
    let count = |event| value(event).map(|n| n as f64);
    Reading {
        cpu_time: Nanos(value(CounterEvent::TaskClock).unwrap_or(0)),
        cycles: count(CounterEvent::Cycles),
        instructions: count(CounterEvent::Instructions),
        llc_references: count(CounterEvent::LlcReferences),
        llc_misses: count(CounterEvent::LlcMisses),
        memory_stalls: count(CounterEvent::MemoryStalls),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_a_program_and_its_children_do_is_counted_from_its_first_instruction() {
        let mut source = Live::new(Path::new("/"));
        let Ok(flags) = collectors::counting_rights(&mut source) else {
            println!("not run: perf_event_open is not permitted here");
            return;
        };
        // The kernel's own books stand for the processor's: they are on every machine.
        let script = "(i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done); exit 4";
        let words: Vec<OsString> = ["sh", "-c", script].map(OsString::from).into();
        let target = Target::find(&words, None, None).expect("a shell is there");
        let until = Instant::now() + Duration::from_secs(120);
        let mut stop = Asked::watch().expect("signals can be read");
        let chosen = vec![perf::software(flags)];
        let (readings, run) = super::run(&target, chosen, until, &mut stop).expect("it runs");
        assert_eq!(run.reaped.status, linux::child_exit::ChildStatus::Exited(4));
        assert!(2 <= readings.len());
        assert!(readings.windows(2).all(|pair| pair[0].cpu_time <= pair[1].cpu_time));
        let used = run.reaped.user + run.reaped.system;
        let counted = readings[readings.len() - 1].cpu_time;
        assert!(used.0 / 2 < counted.0, "{counted} of {used}");
        assert_eq!(readings[0].instructions, None, "what does not count is absent");
    }
}
