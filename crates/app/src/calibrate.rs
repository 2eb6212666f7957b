//! `evenkeel calibrate`: the thresholds of the policy `divided` for a machine, from programs that ran alone on the
//! machine.
//!
//! ```text
//!   journals of runs, each program alone ─► exit records ─► events per second of CPU time, per program
//!      queue-full  ─► widest gap ─► th_sq
//!      references  ─► widest gap ─► th_ref
//! ```
//!
//! In the paper on divided scheduling (Park and Kim), both thresholds are chosen from measured gaps, and neither value
//! is printed. A run that is listed twice counts once. The order of the runs has no effect.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use base::JobId;
use policy::{Threshold, calibrate};
use report::calibration::{CalibratedProgram, Calibration, FORMAT};
use report::table::Align::{Left, Right};
use report::table::{ReportTable, fold_command};
use sched::{CounterEvent, JobEvent, JobExit, OutcomeResult, Target};

use crate::command_result::{CommandError, CommandResult, OrUsageError};
use crate::input;

/// Compute thresholds for the policy `divided` from runs of single programs on one machine
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Read these journals, or the journals in these directories: runs on one machine in which each program ran alone.
    /// The programs must include one with many and one with few queue-full cycles, and one with many and one with few
    /// LLC references
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// Print JSON: the thresholds, the adjacent values, and each program (page Report fields of the
    /// documentation)
    #[arg(long)]
    json: bool,
}

/// Width of the table.
const WIDTH: usize = 80;

/// The event rates of the programs of a run, per second of CPU time.
#[derive(PartialEq)]
struct SoloRun {
    machine: String,
    run: String,
    programs: Vec<CalibratedProgram>,
}

/// Reads the journals, computes the thresholds and prints them.
pub fn main(args: &Args) -> CommandResult {
    let calibration = compute(&runs(&args.runs)?).or_usage_error()?;
    let mut out = crate::print::stdout();
    if args.json {
        writeln!(out, "{}", calibration.to_json().context("cannot write JSON")?)?;
        return Ok(());
    }
    let heads = [("program", Left), ("queue-full/s", Right), ("references/s", Right)];
    let mut table = ReportTable::new(heads);
    for one in &calibration.programs {
        table.row([
            one.name.clone(),
            one.queue_full_per_s.to_string(),
            one.llc_references_per_s.to_string(),
        ]);
    }
    write!(out, "{}", table.to_text(WIDTH))?;
    let Calibration { th_sq, th_sq_below, th_sq_above, .. } = &calibration;
    writeln!(out, "\nth_sq:    {th_sq} (between {th_sq_below} and {th_sq_above})")?;
    let Calibration { th_ref, th_ref_below, th_ref_above, .. } = &calibration;
    writeln!(out, "th_ref:   {th_ref} (between {th_ref_below} and {th_ref_above})")?;
    writeln!(out, "use:      --policy '{}'", calibration.policy)?;
    if let Some(command) = &calibration.command {
        write!(out, "{}", fold_command(command, WIDTH, "repeat:   "))?;
    }
    Ok(())
}

/// Reads all runs without repetitions. Prints a note for each repetition.
fn runs(paths: &[PathBuf]) -> Result<Vec<SoloRun>, CommandError> {
    let mut all: Vec<(&Path, SoloRun)> = Vec::new();
    for path in paths {
        let run = read_solo_run(path)?;
        match all.iter().find(|(_, other)| *other == run) {
            Some((first, _)) => crate::print::note(format_args!(
                "{} is the same run as {}: it counts once",
                path.display(),
                first.display()
            )),
            None => all.push((path, run)),
        }
    }
    let machines = || all.iter().map(|(path, run)| (path, &run.machine));
    if let Some(((one, machine_a), (other, machine_b))) = machines()
        .zip(machines().skip(1))
        .find(|((_, machine_a), (_, machine_b))| machine_a != machine_b)
    {
        return Err(CommandError::Usage(anyhow!(
            "{} ran on {machine_a:?} and {} on {machine_b:?}: thresholds are valid for one machine: give the runs of one machine only",
            one.display(),
            other.display()
        )));
    }
    Ok(all.into_iter().map(|(_, run)| run).collect())
}

/// Computes the thresholds from all programs.
fn compute(runs: &[SoloRun]) -> anyhow::Result<Calibration> {
    let mut programs: Vec<CalibratedProgram> =
        runs.iter().flat_map(|run| run.programs.clone()).collect();
    programs.sort_by(|a, b| {
        let rates =
            |program: &CalibratedProgram| (program.queue_full_per_s, program.llc_references_per_s);
        let by_rates = rates(b).cmp(&rates(a));
        by_rates.then_with(|| (&a.name, &a.run).cmp(&(&b.name, &b.run)))
    });
    let sq = threshold("queue-full", programs.iter().map(|program| program.queue_full_per_s))?;
    let refs =
        threshold("references", programs.iter().map(|program| program.llc_references_per_s))?;
    Ok(Calibration {
        format: FORMAT,
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        command: crate::repeat::command_line(),
        machine: runs.first().map_or(String::new(), |run| run.machine.clone()),
        policy: format!("divided[th_sq={},th_ref={}]", sq.value, refs.value),
        th_sq: sq.value,
        th_sq_below: sq.below,
        th_sq_above: sq.above,
        th_ref: refs.value,
        th_ref_below: refs.below,
        th_ref_above: refs.above,
        programs,
    })
}

fn threshold(event: &str, values: impl Iterator<Item = u64>) -> anyhow::Result<Threshold> {
    let values: Vec<u64> = values.collect();
    calibrate(&values).with_context(|| event.to_owned())
}

/// Totals of a program over all of its executions in one journal, from the exit records of the host. The counters of
/// the main process of a program include its descendants, which are therefore not added again.
#[derive(Clone, Default)]
struct ProgramTotals {
    has_exited: bool,
    cpu_ns: u64,
    sq: Option<u64>,
    refs: Option<u64>,
}

impl ProgramTotals {
    fn add(&mut self, exit: &JobExit) {
        let deltas = engine::deltas_since_opened(&exit.counters);
        let add = |total: Option<u64>, event| match (total, deltas.get(event)) {
            (Some(total), Some(events)) => Some(total.saturating_add(events)),
            (total, events) => total.or(events),
        };
        self.has_exited = true;
        self.cpu_ns += (exit.user + exit.system).0;
        self.sq = add(self.sq, CounterEvent::QueueFull);
        self.refs = add(self.refs, CounterEvent::LlcReferences);
    }

    /// Computes queue-full cycles and LLC references per second of CPU time.
    fn rates(&self, run: &Path, name: &str) -> anyhow::Result<[u64; 2]> {
        let run = run.display();
        if !self.has_exited {
            bail!(
                "{run}: {name:?} has no exit record, which contains its counters: give runs in which every program started and ended"
            );
        }
        let (Some(sq), Some(refs)) = (self.sq, self.refs) else {
            bail!(
                "{run}: queue-full and llc-references of {name:?} were not counted: `evenkeel machine` lists the events that can be counted"
            );
        };
        let per_s = |events: u64| {
            let rate = u128::from(events) * 1_000_000_000 / u128::from(self.cpu_ns.max(1));
            u64::try_from(rate).unwrap_or(u64::MAX)
        };
        Ok([per_s(sq), per_s(refs)])
    }
}

/// Reads the event rates of each program of a run. Fails if programs ran at the same time.
fn read_solo_run(run: &Path) -> Result<SoloRun, CommandError> {
    let mut recording = input::journal(run)?;
    let machine = recording.header().machine.parts().name.clone();
    let id = recording.header().run_id.clone();
    let names: Vec<String> = recording.header().jobs.iter().map(|job| job.name.clone()).collect();
    let mut totals = vec![ProgramTotals::default(); names.len()];
    let mut running: Vec<JobId> = Vec::new();
    for turn in &mut recording {
        let turn = turn.or_usage_error()?;
        let record = turn.record();
        for event in &record.sample.jobs {
            if let JobEvent::Ended(job, exit) = event {
                running.retain(|other| other != job);
                totals.get_mut(job.index()).into_iter().for_each(|totals| totals.add(exit));
            }
        }
        for outcome in record.outcomes {
            let is_started = matches!(outcome.result, OutcomeResult::Done { .. });
            if let (Target::Job(job), None, true) = (outcome.target, &outcome.action, is_started) {
                if names.len() <= job.index() {
                    let jobs = base::counted_noun(names.len(), "job");
                    return Err(anyhow!(
                        "{}: turn {} names {job}, but the header has {jobs}: the journal is damaged or was edited",
                        run.display(),
                        record.turn.number
                    ))
                    .or_usage_error();
                }
                running.push(job);
            }
        }
        check_solo(run, &running, &names).or_usage_error()?;
    }
    let programs = names.into_iter().zip(totals).map(|(name, totals)| {
        let [queue_full_per_s, llc_references_per_s] = totals.rates(run, &name)?;
        Ok(CalibratedProgram { name, run: id.clone(), queue_full_per_s, llc_references_per_s })
    });
    let programs = programs.collect::<anyhow::Result<_>>().or_usage_error()?;
    Ok(SoloRun { machine, run: id, programs })
}

fn check_solo(run: &Path, running: &[JobId], names: &[String]) -> anyhow::Result<()> {
    if let [one, other, ..] = running {
        bail!(
            "{}: {:?} and {:?} ran at the same time: start each after the end of the previous one, or each in its own run",
            run.display(),
            names[one.index()],
            names[other.index()]
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = include_str!("../../../fixtures/journals/two-cores.jsonl");

    /// Computes the rates of two programs that ran one after the other on a live host.
    fn rates_of(turns: &str) -> Result<Vec<(String, [u64; 2])>, String> {
        let mut header: serde_json::Value =
            serde_json::from_str(HEADER.lines().next().expect("a header")).expect("JSON");
        header["jobs"].as_array_mut().expect("jobs").truncate(2);
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("journal.jsonl");
        std::fs::write(&path, format!("{header}\n{turns}")).expect("the directory is writable");
        match read_solo_run(&path) {
            Ok(run) => {
                let rates = |program: CalibratedProgram| {
                    (program.name, [program.queue_full_per_s, program.llc_references_per_s])
                };
                Ok(run.programs.into_iter().map(rates).collect())
            }
            Err(CommandError::Usage(error)) => {
                Err(format!("{error:#}").replace(&path.display().to_string(), "RUN"))
            }
            Err(_) => panic!("only the journal can be invalid"),
        }
    }

    /// The first task of each program includes its descendants. Task 12 is a descendant of task 11.
    const TURNS: &str = r#"{"turn":0,"at_ns":1000,"causes":["jobs-due"],"sample":{"jobs":[{"due":0}]},"outcomes":[{"job":0,"start":{},"done":11}]}
{"turn":1,"at_ns":500000000,"causes":["interval"],"sample":{"tasks":[{"tid":11,"start_time_ticks":1,"pid":11,"job":0,"cpu_ns":250000000,"counters":{"llc-references":[300,500000000],"queue-full":[100,500000000,250000000]},"includes_children":true},{"tid":12,"start_time_ticks":1,"pid":11,"job":0,"cpu_ns":250000000,"counters":{"llc-references":[150,250000000],"queue-full":[50,250000000,125000000]}}]}}
{"turn":2,"at_ns":1000000000,"causes":["ended"],"sample":{"jobs":[{"ended":0,"exit":0,"wall_ns":1000000000,"user_ns":900000000,"system_ns":100000000,"max_resident_bytes":0,"counters":{"llc-references":[600,1000000000],"queue-full":[200,1000000000,500000000]}},{"due":1}],"tasks":[{"tid":11,"start_time_ticks":1,"pid":11,"job":0,"cpu_ns":500000000,"counters":{"llc-references":[600,1000000000],"queue-full":[200,1000000000,500000000]},"includes_children":true},{"tid":12,"start_time_ticks":1,"pid":11,"job":0,"cpu_ns":500000000,"counters":{"llc-references":[300,500000000],"queue-full":[100,500000000,250000000]}}],"exited":[[11,1],[12,1]]},"outcomes":[{"job":1,"start":{},"done":13}]}
"#;
    const END_OF_SECOND: &str = r#"{"turn":3,"at_ns":2000000000,"causes":["ended"],"sample":{"jobs":[{"ended":1,"exit":0,"wall_ns":1000000000,"user_ns":500000000,"system_ns":0,"max_resident_bytes":0,"counters":{"llc-references":[7,500000000],"queue-full":[3,500000000]}}],"tasks":[{"tid":13,"start_time_ticks":2,"pid":13,"job":1,"cpu_ns":500000000,"counters":{"llc-references":[7,500000000],"queue-full":[3,500000000]},"includes_children":true}],"exited":[[13,2]]}}
"#;

    #[test]
    fn multiplexed_counters_are_scaled_and_no_event_of_a_descendant_counts_twice() {
        let rates = rates_of(&format!("{TURNS}{END_OF_SECOND}"));
        let program = |name: &str, rates| (name.to_owned(), rates);
        assert_eq!(rates, Ok(vec![program("brief", [400, 600]), program("brief.2", [6, 14])]));
    }

    #[test]
    fn a_program_without_an_exit_record_is_rejected() {
        assert_eq!(
            rates_of(TURNS),
            Err("RUN: \"brief.2\" has no exit record, which contains its counters: give runs in which every program started and ended".to_owned())
        );
    }
}
