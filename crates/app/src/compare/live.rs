//! Comparison with real programs. The runs follow one another and alternate between the policies.
//!
//! Each run is a run of `evenkeel run`, with its own directory, journal and report below the directory of the
//! comparison. With `--solo` each job also runs alone before the first run, and the comparison contains slowdowns.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use ::files::OutputDir;
use anyhow::{Context, anyhow};
use base::{Bytes, JobId, Nanos};
use engine::{Sink, TurnRecord};
use lab::compare::{
    Column, ComparePlan, Completion, MachineVariant, MetricsRecorder, RunKey, RunMetrics, RunStore,
};
use linux::cgroup::CgroupMode;
use program::{Job, MemoryPolicy, Workload};
use report::StopCauseName;
use topology::Machine;

use super::progress::Progress;
use super::{
    Args, CheckedComparison, Inputs, RunOutputs, commands, files, open, publish, report_unsaved,
};
use crate::command_result::{CommandError, CommandResult, OrUsageError};
use crate::{output, run};
use linux::stop_signals::StopSignals;

/// Size limit of a journal part.
const JOURNAL_PART: Bytes = Bytes(64 << 20);
/// Policy of the runs of single jobs: the kernel places the job.
const ALONE: &str = "linux";

/// Runs the remaining part of the comparison and reports the whole comparison.
pub(super) fn main(args: &Args, inputs: Inputs) -> CommandResult {
    let Inputs { plan, workloads, notes } = inputs;
    reject_sim_options(args, &plan.columns).or_usage_error()?;
    crate::check_proc()?;
    let machine = linux::topology::read(Path::new("/"))?;
    let machine = args.core_kinds.apply(machine).or_usage_error()?;
    let signals = args.signals.overrides().or_usage_error()?;
    for workload in &workloads {
        run::check_loads(workload).or_usage_error()?;
        run::check_startable(workload, &machine, CgroupMode::Auto)?;
    }
    for column in &plan.columns {
        let policy = policy::build(&column.spec, 0).or_usage_error()?;
        crate::tier_override::check_readable(&signals, &*policy, &machine).or_usage_error()?;
    }
    let options = options(args, &plan.columns);
    let checked = CheckedComparison { plan, machine, workloads, notes, options };
    let signals = StopSignals::block()?;
    let (dir, store) = open(args, &checked)?;
    let n_done = store.done.len();
    let progress =
        Progress::new(args.quiet, checked.plan.n_runs() + n_warm_ups(args, &checked), n_done);
    let mut series = LiveSeries { args, checked: &checked, dir: &dir, store, progress, signals };
    let result = series.run_all();
    series.progress.finish();
    let store = series.store;
    let is_interrupted = !result?;
    // All columns of a live comparison have the same settings of the machine.
    let columns = 0..checked.plan.columns.len();
    let of_column =
        |column| store.alone.iter().map(move |(nr, times)| ((column, *nr, 0), times.clone()));
    let timeline = |key: &RunKey| {
        let name = files::run_name(&checked.plan, key);
        (key.clone(), format!("{}/{name}/report.html", files::RUNS))
    };
    let timelines = store.done.keys().map(timeline);
    let outputs = store.done.keys().map(|key| (key.clone(), output_of(&checked.plan, key)));
    let outputs = RunOutputs {
        alone: columns.flat_map(of_column).collect(),
        timelines: timelines.filter(|(_, name)| dir.path().join(name).is_file()).collect(),
        outputs: outputs.collect(),
        is_interrupted,
        error: None,
    };
    if is_interrupted {
        super::warn_interrupted(args, &dir);
    }
    publish(args, &checked, outputs, (&dir, &store))
}

/// Returns the files with the outputs of the jobs of a run, for a note about its failure.
fn output_of(plan: &ComparePlan, key: &RunKey) -> String {
    let jobs = format!("{}/{}/jobs", files::RUNS, files::run_name(plan, key));
    match &plan.parts(key).0.command {
        Some(_) => format!("standard error: {jobs}/{}.err", commands::NAME),
        None => format!("outputs of its jobs: {jobs}"),
    }
}

/// Rejects options of simulated machines.
fn reject_sim_options(args: &Args, columns: &[Column]) -> anyhow::Result<()> {
    let drawn = args.draw_profiles.map(|_| "--draw-profiles");
    if let Some(option) = args.sim.first_simulation_option().or(drawn) {
        return Err(anyhow!("{option} applies to a simulated machine: add --host sim, or omit it"));
    }
    if args.jobs.is_some() {
        return Err(anyhow!(
            "--jobs applies to simulated runs only: live runs are sequential, so that they do not influence each other"
        ));
    }
    if args.solo && columns.iter().any(|column| column.command.is_some()) {
        return Err(anyhow!(
            "--solo applies to workloads: each of several commands runs alone; omit it"
        ));
    }
    if let Some(column) = columns.iter().find(|column| column.variant.kernel.is_some()) {
        return Err(anyhow!(
            "{column}: the kernel of a live run is that of this machine: omit the variant, or compare kernels with --host sim"
        ));
    }
    match columns.iter().find(|column| column.variant.numa_balancing.is_some()) {
        Some(column) => Err(anyhow!(
            "{column}: NUMA balancing is a setting of the whole machine (sysctl kernel.numa_balancing) that evenkeel does not change: set it before, and run a comparison with --host live for each value"
        )),
        None => Ok(()),
    }
}

/// Returns the options that affect the metrics, in addition to policies, workloads and seeds.
fn options(args: &Args, columns: &[Column]) -> BTreeMap<String, String> {
    let mut options = BTreeMap::from([("host".to_owned(), "live".to_owned())]);
    // The text of the column of a command does not name a single policy.
    let of_commands = columns.first().filter(|column| column.command.is_some());
    if let Some(column) = of_commands.filter(|_| columns.len() == args.commands.len()) {
        options.insert("policy".to_owned(), column.spec.clone());
    }
    if let Some(limit) = args.time_limit {
        options.insert("time-limit".to_owned(), limit.to_string());
    }
    let core_kinds = args.core_kinds.text();
    options.extend(core_kinds.map(|kinds| ("core-kinds".to_owned(), kinds.to_owned())));
    options.extend(args.memory.journal_options());
    args.signals.add_to_options(&mut options);
    options
}

/// The runs of a live comparison, in sequence.
struct LiveSeries<'a> {
    args: &'a Args,
    checked: &'a CheckedComparison,
    dir: &'a OutputDir,
    store: RunStore,
    progress: Progress,
    signals: StopSignals,
}

impl LiveSeries<'_> {
    /// Runs all remaining runs. Returns whether all of them finished.
    fn run_all(&mut self) -> Result<bool, CommandError> {
        if self.args.solo && !self.all_alone()? {
            return Ok(false);
        }
        let plan = &self.checked.plan;
        let remaining = self.store.unfinished_runs(plan);
        if !remaining.is_empty() && !self.warm_up()? {
            return Ok(false);
        }
        for key in remaining {
            let (column, workload, seed) = plan.parts(&key);
            let workload = self.workload(column, workload);
            let place = (files::RUNS, files::run_name(plan, &key));
            match self.run_once(place, workload, &column.spec, seed)? {
                Some(metrics) => report_unsaved(self.store.save(key, metrics, plan)),
                None => return Ok(false),
            }
            self.progress.add_finished_run();
            self.progress.show();
        }
        Ok(true)
    }

    /// Executes the runs of `--warmup`, in the order of the measured runs, without saving their results. Returns
    /// whether no signal stopped them.
    fn warm_up(&mut self) -> Result<bool, CommandError> {
        let plan = &self.checked.plan;
        let n_keys = plan.columns.len() * plan.workloads.len();
        let keys: Vec<_> = plan.keys().take(n_keys).collect();
        for key in keys.iter().cycle().take(n_warm_ups(self.args, self.checked)) {
            let (column, workload, seed) = plan.parts(key);
            let workload = self.workload(column, workload);
            let place = (files::RUNS, files::WARM_UP.to_owned());
            if self.run_once(place, workload, &column.spec, seed)?.is_none() {
                return Ok(false);
            }
            self.progress.add_finished_run();
        }
        // The last of these runs is not a result; a run that remains is replaced by the next one.
        let _ = output::subdir(self.dir, files::RUNS)?.remove_subdir_all(files::WARM_UP);
        Ok(true)
    }

    /// Returns the workload of a run: the workload with this index, or the command of the column.
    fn workload(&self, column: &Column, workload: usize) -> Workload {
        let command = column.command.as_ref().map(|(idx, _)| *idx);
        let workload = &self.checked.workloads[command.unwrap_or(workload)];
        with_variant(workload, column.variant, &self.checked.machine)
    }

    /// Executes one run in its own directory, below a directory of the comparison. Returns `None` if a signal stopped
    /// the run. The directory of an interrupted run is replaced: a finished run does not run again.
    fn run_once(
        &mut self,
        (below, name): (&str, String),
        workload: Workload,
        spec: &str,
        seed: u64,
    ) -> Result<Option<RunMetrics>, CommandError> {
        if self.signals.received() {
            return Ok(None);
        }
        let below = output::subdir(self.dir, below)?;
        let path = below.path().join(&name);
        below
            .remove_subdir_all(&name)
            .with_context(|| format!("cannot remove {} for a new run", path.display()))?;
        let dir = below.create_subdir(&name).with_context(|| output::cannot_write(&path))?;
        let dir = run::RunDir::within(dir)?;
        let recorder = MetricsRecorder::new(&workload.jobs);
        let mut listener = Listener { recorder, progress: &mut self.progress };
        let checked = run::LiveInput {
            machine: self.checked.machine.clone(),
            policy: policy::build(spec, seed)?,
            signals: self.args.signals.overrides()?,
            workload,
        };
        let options = run::RunOptions {
            policy: spec,
            seed,
            quiet: true,
            journal_part: JOURNAL_PART,
            grace: run::GRACE,
            fail_fast: false,
            kill_on_exit: false,
            time_limit: self.args.time_limit,
            memory: &self.args.memory,
            signals: &self.args.signals,
            view: crate::view::ViewArgs::default(),
            counters: host_live::CounterMode::Auto,
            cgroups: CgroupMode::Auto,
            passes_streams: false,
            json: false,
        };
        let run::RunResult { report, result: ended, .. } =
            run::run_live(&options, checked, Some(&dir), Some(&mut listener))?;
        let mut metrics = listener.recorder.into_metrics();
        crate::report::write_files(&report, &dir.dir)?;
        match (report.run.stopped_by, ended) {
            (_, Err(CommandError::Failed(error))) => return Err(CommandError::Failed(error)),
            (Some(StopCauseName::TimeLimit), _) => metrics.status = Completion::Stopped,
            (Some(_), _) => return Ok(None),
            (None, _) => {}
        }
        Ok(Some(metrics))
    }

    /// Runs each job alone, equal jobs once. Returns whether all of these runs finished.
    fn all_alone(&mut self) -> Result<bool, CommandError> {
        for (nr, workload) in self.checked.workloads.iter().enumerate() {
            if self.store.alone.contains_key(&nr) {
                continue;
            }
            let mut times_by_key: BTreeMap<String, Option<Nanos>> = BTreeMap::new();
            let mut alone = Vec::with_capacity(workload.jobs.len());
            for job in &workload.jobs {
                let key = alone_key(job);
                if !job.ending.is_program_exit() || times_by_key.contains_key(&key) {
                    alone.push(times_by_key.get(&key).copied().flatten());
                    continue;
                }
                let only = Job { id: JobId(0), start: Nanos::ZERO, ..job.clone() };
                let alone_workload = Workload { jobs: vec![only], ..workload.clone() };
                let place = (files::ALONE, files::solo_name(&workload.name, &job.name));
                let Some(metrics) = self.run_once(place, alone_workload, ALONE, 0)? else {
                    return Ok(false);
                };
                let well = metrics.status == Completion::Finished;
                let time = metrics.time_of(0, job).filter(|time| well && *time != Nanos::ZERO);
                times_by_key.insert(key, time);
                alone.push(time);
            }
            report_unsaved(self.store.save_solo_times(nr, alone));
        }
        Ok(true)
    }
}

/// Returns the number of runs before the measured runs.
fn n_warm_ups(args: &Args, checked: &CheckedComparison) -> usize {
    let plan = &checked.plan;
    args.warmup.unwrap_or(0) as usize * plan.columns.len() * plan.workloads.len()
}

/// Returns a key that is equal for jobs with the same run time alone.
fn alone_key(job: &Job) -> String {
    let Job { command, dir, env, input, threads, cpus, nodes, memory, .. } = job;
    format!("{command:?} {dir:?} {env:?} {input:?} {threads} {cpus:?} {nodes:?} {memory:?}")
}

/// Returns the workload with the memory policy of the variant for all jobs without a memory policy.
fn with_variant(workload: &Workload, variant: MachineVariant, machine: &Machine) -> Workload {
    let mut workload = workload.clone();
    if variant.interleave == Some(true) {
        for job in workload.jobs.iter_mut().filter(|job| job.memory.is_none()) {
            let nodes = job.nodes.clone().unwrap_or_else(|| machine.nodes_with_memory().clone());
            job.memory = Some(MemoryPolicy::Interleave(nodes));
        }
    }
    workload
}

/// Records the metrics of a run, and prints its progress.
struct Listener<'a> {
    recorder: MetricsRecorder,
    progress: &'a mut Progress,
}

impl Sink for Listener<'_> {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        self.progress.show();
        self.recorder.record(record)
    }
}
