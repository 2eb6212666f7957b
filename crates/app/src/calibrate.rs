//! `evenkeel calibrate`: the limits of `divided` for one machine, from programs that ran alone there.
//!
//! ```text
//!   journals of runs, each program alone ─► events in a second of CPU time, by program
//!      full queues ─► widest gap ─► th_sq
//!      references  ─► widest gap ─► th_ref
//! ```
//!
//! The published text chose both from measured gaps and prints neither (spec 5.3).

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use base::{JobId, TaskId};
use policy::{Threshold, calibrate};
use sched::{Deed, JobEvent, OutcomeResult, Quantity, Target};
use serde_json::json;

use crate::exit::{Done, OrWrong};
use crate::recorded;

/// Find the limits th_sq and th_ref of the policy divided for a machine
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Journals of runs on that machine, or their folders, in which each program ran alone; some that
    /// fill their queue of requests and some that do not, some that use the cache much and some that do not
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// Print JSON: th_sq, th_ref and programs with name, sq_per_s, ref_per_s
    #[arg(long)]
    json: bool,
}

/// What a program did alone, in a second of CPU time.
struct Alone {
    name: String,
    sq: u64,
    refs: u64,
}

/// Reads the journals, finds the limits, prints.
pub fn main(args: &Args) -> Done {
    let mut programs = Vec::new();
    for run in &args.runs {
        programs.extend(alone(run)?);
    }
    let th_sq = limit("full queues", programs.iter().map(|one| one.sq)).or_wrong()?;
    let th_ref = limit("references", programs.iter().map(|one| one.refs)).or_wrong()?;
    let mut out = std::io::stdout().lock();
    if args.json {
        let row =
            |one: &Alone| json!({"name": one.name, "sq_per_s": one.sq, "ref_per_s": one.refs});
        let programs: Vec<_> = programs.iter().map(row).collect();
        let told = json!({"th_sq": th_sq.value, "th_ref": th_ref.value, "programs": programs});
        writeln!(out, "{told:#}")?;
        return Ok(());
    }
    programs.sort_by(|a, b| (b.sq, b.refs, &a.name).cmp(&(a.sq, a.refs, &b.name)));
    writeln!(out, "{:<24} {:>16} {:>16}", "program", "full queues/s", "references/s")?;
    for one in &programs {
        writeln!(out, "{:<24} {:>16} {:>16}", one.name, one.sq, one.refs)?;
    }
    let Threshold { below, above, .. } = th_sq;
    writeln!(out, "\nth_sq:    {} (between {below} and {above})", th_sq.value)?;
    let Threshold { below, above, .. } = th_ref;
    writeln!(out, "th_ref:   {} (between {below} and {above})", th_ref.value)?;
    writeln!(out, "use:      --policy 'divided[th_sq={},th_ref={}]'", th_sq.value, th_ref.value)?;
    Ok(())
}

fn limit(what: &str, values: impl Iterator<Item = u64>) -> anyhow::Result<Threshold> {
    let values: Vec<u64> = values.collect();
    calibrate(&values).with_context(|| what.to_owned())
}

/// A task as it was seen last.
struct Seen {
    job: JobId,
    cpu_ns: u64,
    sq: Option<u64>,
    refs: Option<u64>,
}

/// What each program of a run did, if each ran alone.
fn alone(run: &Path) -> Result<Vec<Alone>, crate::exit::Stop> {
    let mut recording = recorded::open(run)?;
    let names: Vec<String> = recording.header().jobs.iter().map(|job| job.name.clone()).collect();
    let mut tasks: BTreeMap<TaskId, Seen> = BTreeMap::new();
    let mut running: Vec<JobId> = Vec::new();
    for turn in &mut recording {
        let turn = turn.or_wrong()?;
        let record = turn.record();
        for task in &record.sample.tasks {
            let counted = |quantity| task.counters.get(quantity).value();
            let (sq, refs) = (counted(Quantity::QueueFull), counted(Quantity::LlcReferences));
            tasks.insert(task.task, Seen { job: task.job, cpu_ns: task.cpu_time.0, sq, refs });
        }
        for event in &record.sample.jobs {
            if let JobEvent::Ended(job, _) = event {
                running.retain(|other| other != job);
            }
        }
        for outcome in record.outcomes {
            let has_begun = matches!(outcome.result, OutcomeResult::Done { .. });
            if let (Target::Job(job), Deed::Start, true) =
                (outcome.target, &outcome.deed, has_begun)
            {
                running.push(job);
            }
        }
        check_alone(run, &running, &names).or_wrong()?;
    }
    let jobs = (0..names.len()).map(|idx| rates(run, &names[idx], JobId(idx as u32), &tasks));
    jobs.collect::<anyhow::Result<_>>().or_wrong()
}

fn check_alone(run: &Path, running: &[JobId], names: &[String]) -> anyhow::Result<()> {
    if let [one, other, ..] = running {
        bail!(
            "{}: {:?} and {:?} ran at the same time: start each when the one before has ended, or alone in a run of its own",
            run.display(),
            names[one.index()],
            names[other.index()]
        );
    }
    Ok(())
}

fn rates(
    run: &Path,
    name: &str,
    job: JobId,
    tasks: &BTreeMap<TaskId, Seen>,
) -> anyhow::Result<Alone> {
    let is_counted = |seen: &&Seen| seen.sq.is_some() && seen.refs.is_some();
    let own = || tasks.values().filter(|seen| seen.job == job).filter(is_counted);
    let sum = |of: fn(&Seen) -> Option<u64>| own().filter_map(of).reduce(u64::saturating_add);
    let cpu_ns: u64 = own().map(|seen| seen.cpu_ns).sum();
    let (Some(sq), Some(refs)) = (sum(|seen| seen.sq), sum(|seen| seen.refs)) else {
        bail!(
            "{}: queue-full and llc-references of {name:?} were not counted: `evenkeel machine` says what can be counted here",
            run.display()
        );
    };
    let per_s = |events: u64| {
        let rate = u128::from(events) * 1_000_000_000 / u128::from(cpu_ns.max(1));
        u64::try_from(rate).unwrap_or(u64::MAX)
    };
    Ok(Alone { name: name.to_owned(), sq: per_s(sq), refs: per_s(refs) })
}
