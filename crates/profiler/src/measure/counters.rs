//! Measurement with hardware counters: the program runs once.
//!
//! ```text
//!   sh stops itself ─► counters are opened on it and inherited by its children ─► SIGCONT, execve of the program
//!                      the counters are read every 100 ms                     ─► phases (counter_phases)
//! ```
//!
//! The counters cover every instruction of the program, plus a few thousand of the shell.

use std::ffi::OsString;
use std::time::Instant;

use anyhow::bail;
use linux::collectors;
use linux::perf::{self, CounterScope, PmuGroups};
use linux::source::Live;
use linux::stop_signals::StopSignals;
use linux::tasks::TaskGroups;
use sched::{CounterDeltas, CounterEvent, Counters};

use super::MeasuredProgram;
use super::program_run::{self, ExecSpec, Observer, ProgramRun, StopCause};

/// Selects the task counters that this CPU supports.
///
/// # Errors
/// The reason why instructions of tasks cannot be counted.
pub fn choose() -> Result<Vec<PmuGroups>, String> {
    let mut source = Live::default();
    let flags = collectors::counting_rights(&mut source)?;
    let identity = collectors::identity_of(&mut source);
    let choice = linux::pmu::choose(&mut source, &identity, flags);
    let (groups, open_error) = TaskGroups::open(&mut source, 0, &choice.chosen, false);
    // A counter only runs while the task runs, so the task executes a loop.
    std::hint::black_box((0..100_000u64).fold(0, |sum, nr| sum ^ std::hint::black_box(nr)));
    if groups
        .read(&mut source)
        .get(CounterEvent::Instructions)
        .is_some_and(|read| !read.never_ran())
    {
        let software = perf::software(flags);
        return Ok(choice.chosen.into_iter().chain([software]).collect());
    }
    let absent = choice.absent.get(&CounterEvent::Instructions).cloned();
    let open_error =
        open_error.map(|error| perf::explain_open_error(&error, None, CounterScope::Task));
    Err(open_error.or(absent).unwrap_or_else(|| "instructions are not counted".to_owned()))
}

/// Runs the program and samples its counters until it exits or the time limit is reached. Returns the deltas of each
/// interval.
///
/// # Errors
/// The program or its counters cannot be started.
pub fn run(
    target: &MeasuredProgram,
    chosen: Vec<PmuGroups>,
    until: Instant,
    stop: &mut StopSignals,
) -> anyhow::Result<(Vec<CounterDeltas>, ProgramRun)> {
    let words = ["sh", "-c", "kill -STOP $$; exec \"$@\"", "sh"].map(OsString::from);
    let path = target.path.clone().into_os_string();
    let args = words.into_iter().chain([path]).chain(target.args.iter().cloned()).collect();
    let input = target.input.as_deref();
    let spec = ExecSpec { program: "/bin/sh".into(), args, input, inherited_fd: None };
    let mut sampler = CounterSampler { chosen, ..CounterSampler::default() };
    let run = program_run::run_observed(&spec, until, stop, &mut sampler)?;
    if run.stop_cause == StopCause::Interrupted && sampler.intervals.is_empty() {
        bail!("stopped before anything was counted");
    }
    Ok((sampler.intervals, run))
}

/// Observer that samples the counters of a running program.
#[derive(Default)]
struct CounterSampler {
    chosen: Vec<PmuGroups>,
    source: Live,
    groups: TaskGroups,
    last: Counters,
    intervals: Vec<CounterDeltas>,
}

impl Observer for CounterSampler {
    fn start(&mut self, pid: u32) -> anyhow::Result<()> {
        let (groups, open_error) = TaskGroups::open(&mut self.source, pid, &self.chosen, true);
        self.groups = groups;
        match open_error.filter(|_| self.groups.is_empty()) {
            Some(error) => {
                bail!(
                    "counters cannot be opened: {}",
                    perf::explain_open_error(&error, None, CounterScope::Task)
                )
            }
            None => {
                self.last = self.groups.read(&mut self.source);
                Ok(())
            }
        }
    }

    fn sample(&mut self) {
        let mut now = self.last;
        now.update(&self.groups.read(&mut self.source));
        // Event groups are multiplexed: an interval ends when each group has been scheduled.
        if !engine::deltas_between(&now, &self.last).uncounted().is_empty() {
            return;
        }
        self.intervals.push(engine::deltas_since_start(&now, &self.last));
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn counters_include_children_and_start_with_the_first_instruction() {
        let mut source = Live::default();
        let Ok(flags) = collectors::counting_rights(&mut source) else {
            println!("skipped: perf_event_open is not permitted");
            return;
        };
        // The test uses software events, which every machine has.
        let script = "(i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done); exit 4";
        let target = MeasuredProgram {
            argv0: "sh".into(),
            path: "/bin/sh".into(),
            args: ["-c", script].map(OsString::from).into(),
            input: None,
            name: "sh".into(),
            build_id: None,
        };
        let until = Instant::now() + Duration::from_secs(120);
        let mut stop = StopSignals::block().expect("signals are blocked");
        let chosen = vec![perf::software(flags)];
        let (intervals, run) = super::run(&target, chosen, until, &mut stop).expect("it starts");
        assert_eq!(run.reaped.status, linux::child_exit::ChildStatus::Exited(4));
        let used = run.reaped.user + run.reaped.system;
        assert_ne!(intervals, []);
        let counted = crate::counter_phases::cpu_time(&intervals);
        assert!((used.0 / 2..=used.0 * 3 / 2).contains(&counted.0), "{counted} of {used}");
        assert_eq!(
            intervals[0].get(CounterEvent::Instructions),
            None,
            "an event that was not opened is absent"
        );
    }
}
