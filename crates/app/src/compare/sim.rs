//! A comparison on a simulated machine: parallel runs, without journals.

use std::collections::BTreeMap;

use ::files::OutputDir;
use anyhow::Context;
use base::StopFlag;
use lab::compare::{
    ComparePlan, RunEvent, RunKey, RunMetrics, RunStore, SimBench, SimSetting, jobs_without_ranges,
    median_runs, run_all,
};

use super::progress::Progress;
use super::{
    Args, CheckedComparison, Inputs, RunOutputs, Timelines, files, open, publish, report_unsaved,
};
use crate::command_result::{CommandError, CommandResult, OrUsageError};
use crate::input;
use crate::output;
use crate::run::{SimSignals, check_declared, check_polls};
use linux::stop_signals::StopSignals;

/// Runs the remaining part of the comparison and reports the whole comparison.
pub(super) fn main(args: &Args, inputs: Inputs) -> CommandResult {
    let Inputs { plan, workloads, mut notes } = inputs;
    let machine = args.sim.machine()?;
    for column in plan.columns.iter().filter(|column| !column.is_oracle()) {
        let policy = policy::build(&column.spec, 0).or_usage_error()?;
        check_polls("the simulator", &*policy, &column.spec).or_usage_error()?;
    }
    if args.sim.readable == SimSignals::None {
        for (column, workload) in plan
            .columns
            .iter()
            .flat_map(|column| workloads.iter().map(move |workload| (column, workload)))
        {
            check_declared(&column.spec, workload).or_usage_error()?;
        }
    }
    let setting = SimSetting {
        machine: machine.clone(),
        options: args.sim.options(0, None, args.time_limit),
        limits: args.memory.limits(),
        signals: args.signals.overrides().or_usage_error()?,
    };
    let jobs = workloads.iter().map(|workload| workload.jobs.clone()).collect();
    let bench = SimBench::without_solo_runs(setting, jobs).or_usage_error()?;
    let mut options = options(args);
    for column in &plan.columns {
        let settings =
            bench.check(column).with_context(|| format!("policy {column}")).or_usage_error()?;
        if column.variant.kernel.is_none() {
            options.insert("kernel".to_owned(), settings.kernel.name().to_owned());
        }
        let recorded = settings.grain.recorded().into_iter();
        options.extend(recorded.map(|(name, value)| (name.to_owned(), value)));
    }
    if plan.n_draws.is_some() {
        let jobs = || workloads.iter().flat_map(|workload| &workload.jobs);
        let n_fixed = workloads.iter().map(|workload| jobs_without_ranges(&workload.jobs).len());
        if n_fixed.sum::<usize>() == jobs().count() {
            return Err(CommandError::Usage(anyhow::anyhow!(
                "--draw-profiles has no effect: no job has a shipped profile with ranges; omit it"
            )));
        }
    }
    let bench = bench.with_drawn_profiles(&plan).or_usage_error()?;
    let variants = plan.columns.iter().map(|column| column.variant);
    let bench = bench.with_solo_runs(variants).or_usage_error()?;
    let assumed = bench.assumed().join("; ");
    if !assumed.is_empty() {
        notes.push(format!("assumed values that the machine file does not give: {assumed}"));
        options.insert("assumed".to_owned(), assumed);
    }
    let checked = CheckedComparison { plan, machine, workloads, notes, options };
    let mut signals = StopSignals::block()?;
    let (dir, mut store) = open(args, &checked)?;
    run_remaining(args, &bench, &checked.plan, &mut store, &mut signals)?;
    let (timelines, error) = match signals.received() {
        true => (BTreeMap::new(), None),
        false => timelines(args, &bench, (&checked.plan, &store.done), &dir, &mut signals)?,
    };
    let is_interrupted = signals.received();
    if is_interrupted {
        super::warn_interrupted(args, &dir);
    }
    let alone = bench.all_alone(&checked.plan);
    let outputs = RunOutputs { alone, timelines, outputs: BTreeMap::new(), is_interrupted, error };
    publish(args, &checked, outputs, (&dir, &store))
}

/// Runs the part of the plan that is not in the store.
fn run_remaining(
    args: &Args,
    bench: &SimBench,
    plan: &ComparePlan,
    store: &mut RunStore,
    signals: &mut StopSignals,
) -> anyhow::Result<()> {
    let missing = store.unfinished_runs(plan);
    let stop = StopFlag::default();
    let mut progress = Progress::new(args.quiet, plan.n_runs(), store.done.len());
    let work = |key: &RunKey| -> anyhow::Result<_> { Ok(bench.run(plan.parts(key), &stop, None)?) };
    let receive = |event| -> anyhow::Result<()> {
        if let RunEvent::Finished(idx, metrics) = event {
            report_unsaved(store.save(missing[idx].clone(), metrics, plan));
            progress.add_finished_run();
        }
        if signals.received() {
            stop.raise();
        }
        progress.show();
        Ok(())
    };
    let result = run_all(&missing, input::n_threads(args.jobs), &stop, work, receive);
    progress.finish();
    result
}

/// Writes the reports of single runs below the directory, and returns their paths and the first write error. Existing
/// files are not replaced, because a repeated simulated run gives the same report.
fn timelines(
    args: &Args,
    bench: &SimBench,
    (plan, done): (&ComparePlan, &BTreeMap<RunKey, RunMetrics>),
    dir: &OutputDir,
    signals: &mut StopSignals,
) -> anyhow::Result<(BTreeMap<RunKey, String>, Option<anyhow::Error>)> {
    let keys = match args.timelines {
        Timelines::None => return Ok((BTreeMap::new(), None)),
        Timelines::Median => median_runs(plan, done),
        Timelines::All => done.keys().cloned().collect(),
    };
    let below = output::subdir(dir, files::TIMELINES)?;
    let name = |key: RunKey| (files::run_name(plan, &key) + ".html", key);
    let mut named: Vec<(String, RunKey)> = keys.into_iter().map(name).collect();
    let is_there = |name: &String| below.contains(name);
    let missing: Vec<_> = named.iter().filter(|(name, _)| !is_there(name)).collect();
    let stop = StopFlag::default();
    let work = |(_, key): &&(String, RunKey)| -> anyhow::Result<Option<String>> {
        Ok(bench.report(plan, key, &stop)?.map(|report| report.to_html()))
    };
    let mut error = None;
    let receive = |event| -> anyhow::Result<()> {
        if signals.received() {
            stop.raise();
        }
        let RunEvent::Finished(idx, page) = event else { return Ok(()) };
        if error.is_none() {
            error = output::write_report(&below, &missing[idx].0, page).err();
        }
        Ok(())
    };
    run_all(&missing, input::n_threads(args.jobs), &stop, work, receive)?;
    named.retain(|(name, _)| is_there(name));
    let path = |name| format!("{}/{name}", files::TIMELINES);
    Ok((named.into_iter().map(|(name, key)| (key, path(name))).collect(), error))
}

/// Returns the options that affect the metrics, in addition to policies, workloads and seeds.
fn options(args: &Args) -> BTreeMap<String, String> {
    let mut options = BTreeMap::from([("host".to_owned(), "sim".to_owned())]);
    options.extend(args.sim.result_options());
    if let Some(n_draws) = args.draw_profiles {
        options.insert("draw-profiles".to_owned(), n_draws.to_string());
    }
    if let Some(limit) = args.time_limit {
        options.insert("time-limit".to_owned(), limit.to_string());
    }
    options.extend(args.memory.journal_options());
    args.signals.add_to_options(&mut options);
    options
}
