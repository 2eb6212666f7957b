//! `evenkeel calibrate`: the thresholds of policy `divided` for one machine, from programs that ran alone on it.
//!
//! ```text
//!   journals of runs, each program alone ─► events per second of CPU time, per program
//!      full queues ─► widest gap ─► th_sq
//!      references  ─► widest gap ─► th_ref
//! ```
//!
//! The paper on divided scheduling (Park and Kim) chooses both thresholds from measured gaps and prints neither. A run
//! that is given twice counts once, and the order of the runs has no effect.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use base::{JobId, TaskId};
use policy::{Threshold, calibrate};
use report::calibration::{CalibratedProgram, Calibration, FORMAT};
use sched::{CounterEvent, JobEvent, OutcomeResult, Target};

use crate::command_result::{CommandResult, OrUsageError};
use crate::input;

/// Compute the thresholds th_sq and th_ref of the policy divided for a machine
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Journals of runs on that machine, or their folders, in which each program ran alone. The set needs
    /// programs that fill their queue of requests and programs that do not, and programs with many and
    /// with few cache references
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// Print JSON: the thresholds, the values next to them, and each program (docs/report-fields.md)
    #[arg(long)]
    json: bool,
}

/// A run, and the event rates of its programs per second of CPU time.
#[derive(PartialEq)]
struct SoloRun {
    machine: String,
    run: String,
    programs: Vec<CalibratedProgram>,
}

/// Reads the journals, computes the thresholds and prints them.
pub fn main(args: &Args) -> CommandResult {
    let calibration = compute(&runs(&args.runs)?).or_usage_error()?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", calibration.to_json().context("cannot write JSON")?)?;
        return Ok(());
    }
    writeln!(out, "{:<24} {:>16} {:>16}", "program", "full queues/s", "references/s")?;
    for one in &calibration.programs {
        writeln!(out, "{:<24} {:>16} {:>16}", one.name, one.sq_per_s, one.ref_per_s)?;
    }
    let Calibration { th_sq, th_sq_below, th_sq_above, .. } = &calibration;
    writeln!(out, "\nth_sq:    {th_sq} (between {th_sq_below} and {th_sq_above})")?;
    let Calibration { th_ref, th_ref_below, th_ref_above, .. } = &calibration;
    writeln!(out, "th_ref:   {th_ref} (between {th_ref_below} and {th_ref_above})")?;
    writeln!(out, "use:      --policy '{}'", calibration.policy)?;
    Ok(())
}

/// All runs without repetitions. Prints a note for each repetition.
fn runs(paths: &[PathBuf]) -> Result<Vec<SoloRun>, crate::command_result::CommandError> {
    let mut all: Vec<(&Path, SoloRun)> = Vec::new();
    for path in paths {
        let run = read_solo_run(path)?;
        match all.iter().find(|(_, other)| *other == run) {
            Some((first, _)) => crate::command_result::print_error(format_args!(
                "{} is the same run as {}: it counts once",
                path.display(),
                first.display()
            )),
            None => all.push((path, run)),
        }
    }
    let machines = || all.iter().map(|(path, run)| (path, &run.machine));
    if let Some(((one, here), (other, there))) =
        machines().zip(machines().skip(1)).find(|((_, here), (_, there))| here != there)
    {
        return Err(crate::command_result::CommandError::Usage(anyhow!(
            "{} ran on {here:?} and {} on {there:?}: thresholds are valid for one machine: give the runs of one machine only",
            one.display(),
            other.display()
        )));
    }
    Ok(all.into_iter().map(|(_, run)| run).collect())
}

/// The thresholds from all programs.
fn compute(runs: &[SoloRun]) -> anyhow::Result<Calibration> {
    let mut programs: Vec<CalibratedProgram> =
        runs.iter().flat_map(|run| run.programs.clone()).collect();
    programs.sort_by(|a, b| {
        let by_rates = (b.sq_per_s, b.ref_per_s).cmp(&(a.sq_per_s, a.ref_per_s));
        by_rates.then_with(|| (&a.name, &a.run).cmp(&(&b.name, &b.run)))
    });
    let sq = threshold("full queues", programs.iter().map(|one| one.sq_per_s))?;
    let refs = threshold("references", programs.iter().map(|one| one.ref_per_s))?;
    Ok(Calibration {
        format: FORMAT,
        tool: env!("CARGO_PKG_VERSION").to_owned(),
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

fn threshold(what: &str, values: impl Iterator<Item = u64>) -> anyhow::Result<Threshold> {
    let values: Vec<u64> = values.collect();
    calibrate(&values).with_context(|| what.to_owned())
}

/// The last sample of a task.
struct TaskTotals {
    job: JobId,
    cpu_ns: u64,
    sq: Option<u64>,
    refs: Option<u64>,
}

/// Reads the event rates of each program of a run. Fails if programs ran at the same time.
fn read_solo_run(run: &Path) -> Result<SoloRun, crate::command_result::CommandError> {
    let mut recording = input::journal(run)?;
    let machine = recording.header().machine.parts().name.clone();
    let id = recording.header().run_id.clone();
    let names: Vec<String> = recording.header().jobs.iter().map(|job| job.name.clone()).collect();
    let mut tasks: BTreeMap<TaskId, TaskTotals> = BTreeMap::new();
    let mut running: Vec<JobId> = Vec::new();
    for turn in &mut recording {
        let turn = turn.or_usage_error()?;
        let record = turn.record();
        for task in &record.sample.tasks {
            let counted = |event| task.counters.get(event).map(|read| read.value);
            let (sq, refs) =
                (counted(CounterEvent::QueueFull), counted(CounterEvent::LlcReferences));
            tasks
                .insert(task.task, TaskTotals { job: task.job, cpu_ns: task.cpu_time.0, sq, refs });
        }
        for event in &record.sample.jobs {
            if let JobEvent::Ended(job, _) = event {
                running.retain(|other| other != job);
            }
        }
        for outcome in record.outcomes {
            let is_started = matches!(outcome.result, OutcomeResult::Done { .. });
            if let (Target::Job(job), None, true) = (outcome.target, &outcome.action, is_started) {
                running.push(job);
            }
        }
        check_solo(run, &running, &names).or_usage_error()?;
    }
    let programs = names.into_iter().enumerate().map(|(idx, name)| {
        let [sq_per_s, ref_per_s] = rates(run, &name, JobId(idx as u32), &tasks)?;
        Ok(CalibratedProgram { name, run: id.clone(), sq_per_s, ref_per_s })
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

/// Full queues and references of a job per second of CPU time.
fn rates(
    run: &Path,
    name: &str,
    job: JobId,
    tasks: &BTreeMap<TaskId, TaskTotals>,
) -> anyhow::Result<[u64; 2]> {
    let is_counted = |task: &&TaskTotals| task.sq.is_some() && task.refs.is_some();
    let own = || tasks.values().filter(|task| task.job == job).filter(is_counted);
    let sum = |of: fn(&TaskTotals) -> Option<u64>| own().filter_map(of).reduce(u64::saturating_add);
    let cpu_ns: u64 = own().map(|task| task.cpu_ns).sum();
    let (Some(sq), Some(refs)) = (sum(|task| task.sq), sum(|task| task.refs)) else {
        bail!(
            "{}: queue-full and llc-references of {name:?} were not counted: `evenkeel machine` lists the events that can be counted",
            run.display()
        );
    };
    let per_s = |events: u64| {
        let rate = u128::from(events) * 1_000_000_000 / u128::from(cpu_ns.max(1));
        u64::try_from(rate).unwrap_or(u64::MAX)
    };
    Ok([per_s(sq), per_s(refs)])
}
