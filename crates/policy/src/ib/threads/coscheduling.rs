//! Co-scheduling: the runnable threads of a program are placed on all kinds in one step.
//!
//! ```text
//!   k threads, F fast and S slow cores      ⌈k F / (F + S)⌉ of them on the fast kind, lowest behaviour first
//! ```
//!
//! The step is made only if it lowers the predicted time of the slowest thread by more than 5 %, and lowers the product
//! of the predicted times of all programs. The product falls with each step, so that two programs cannot take the fast
//! cores from each other in turn. The prediction is for the work of the last interval: core time in inverse proportion
//! to the capacity, memory time equal on all kinds, and both multiplied by the slowdown of tasks that share CPUs and
//! cores.

use base::JobId;
use sched::{Reason, Snapshot};

use super::Threads;
use crate::core_kinds::KindJob;
use crate::core_kinds::speed::{SpeedModel, relative_times, share_on_fastest};
use crate::ib::queues::{Queues, SIMILAR, Unit};
use crate::ib::reasons::IB_COSCHEDULED;
use crate::ib::{Decision, IntegratedBehaviour};

/// Predicted gain above which threads migrate. Chosen.
const GAIN_MIN: f64 = 0.05;
/// Runnable threads of a program per CPU above which it is not co-scheduled. Chosen: the prediction assumes that all
/// threads on a kind compute as long as the slowest one, which with many threads is far above the work of an interval.
const THREADS_PER_CPU_MAX: usize = 4;
/// Intervals after a step in which the threads of the program are not co-scheduled and do not migrate for balance.
/// Chosen: the first interval after a migration is a warm-up, and the window of the local behaviour has three
/// intervals.
const COOLDOWN_INTERVALS: u64 = 5;

/// Predicted CPU time of a task's work in the last interval, alone on each kind, in nanoseconds.
#[derive(Debug)]
struct TaskTimes {
    unit: Unit,
    by_kind: Vec<f64>,
}

impl Threads {
    /// Ends an interval. Returns the programs that may be co-scheduled.
    fn end_interval(&mut self) -> Vec<JobId> {
        self.programs
            .values_mut()
            .for_each(|program| program.cooldown = program.cooldown.saturating_sub(1));
        let ready = self.programs.iter().filter(|(_, program)| program.cooldown == 0);
        ready.map(|(job, _)| *job).collect()
    }
}

impl IntegratedBehaviour {
    /// Co-schedules the programs with at least two runnable threads.
    pub(in crate::ib) fn coschedule(
        &mut self,
        snapshot: &Snapshot<'_>,
        (units, n_sampled): (&[KindJob<'_>], &[u64]),
        queues: &mut Queues,
        decisions: &mut Vec<Decision>,
    ) {
        let ready = self.threads.end_interval();
        if ready.is_empty() {
            return;
        }
        let times = self.task_times(snapshot, units, n_sampled);
        let mut of_programs = self.program_times(&times, queues);
        for job in ready {
            if self.coschedule_program(job, &times, &mut of_programs, queues, decisions) {
                self.threads.programs.entry(job).or_default().cooldown = COOLDOWN_INTERVALS;
            }
        }
    }

    /// Returns the times of the sampled tasks, by unit. Each task ran where it was placed at the start of the interval.
    fn task_times(
        &self,
        snapshot: &Snapshot<'_>,
        units: &[KindJob<'_>],
        n_sampled: &[u64],
    ) -> Vec<TaskTimes> {
        let model = SpeedModel::new(snapshot, &self.kinds);
        let mut times = Vec::new();
        for (unit, kind) in units.iter().filter_map(|unit| Some((unit, unit.kind?))) {
            let smt_slowdown = self.kinds.get(kind).smt_slowdown(n_sampled[kind]);
            times.extend(unit.tasks(snapshot).iter().map(|task| {
                let share = model.memory_share(std::slice::from_ref(task)).unwrap_or(0.0);
                let share = share_on_fastest(&self.kinds, share, (kind, smt_slowdown));
                let relative = relative_times(&self.kinds, share);
                // Busy siblings slow the core time down.
                let core_time = relative[kind] - share;
                let on_fastest = task.cpu_time.0 as f64 / (share + core_time * smt_slowdown);
                let by_kind = relative.iter().map(|time| time * on_fastest).collect();
                TaskTimes { unit: unit.into(), by_kind }
            }));
        }
        times.sort_by_key(|of_task| of_task.unit);
        times
    }

    /// Returns the predicted time of the slowest task of each program in nanoseconds, by job.
    fn program_times(&self, times: &[TaskTimes], queues: &Queues) -> Vec<(JobId, f64)> {
        let loads = (0..self.kinds.len()).map(|kind| queues.mean_slowdown(kind));
        let loads: Vec<f64> = loads.collect();
        let of_program = |times: &[TaskTimes]| {
            let of_task = |of_task: &TaskTimes| {
                let kind = queues.kind_of(of_task.unit)?;
                Some(of_task.by_kind[kind] * loads[kind])
            };
            (times[0].unit.job, times.iter().filter_map(of_task).fold(0.0, f64::max))
        };
        let programs = times.chunk_by(|one, other| one.unit.job == other.unit.job);
        programs.map(of_program).filter(|(_, ns)| 0.0 < *ns).collect()
    }

    /// Returns whether the threads of a program migrate together. `before` has the times of all programs.
    fn coschedule_program(
        &self,
        job: JobId,
        times: &[TaskTimes],
        before: &mut Vec<(JobId, f64)>,
        queues: &mut Queues,
        decisions: &mut Vec<Decision>,
    ) -> bool {
        let own = of_program(times, job);
        let Some(mut split) = self.split(job, own, queues) else { return false };
        let was_on = split.iter().map(|(unit, _)| queues.kind_of(*unit)).collect::<Vec<_>>();
        let proposed = queues.propose(&split);
        split.iter_mut().for_each(|(unit, kind)| *kind = queues.kind_of(*unit).unwrap_or(*kind));
        let own_after = self.program_times(own, queues).first().map_or(0.0, |(_, ns)| *ns);
        let at = before.binary_search_by_key(&job, |(of, _)| *of);
        let own_before = at.map_or(0.0, |at| before[at].1);
        // Most programs gain nothing: the times of all programs are computed only if this program gains.
        let after =
            (own_after < (1.0 - GAIN_MIN) * own_before).then(|| self.program_times(times, queues));
        // Both lists have the same programs.
        let lowers_product = |after: &Vec<(JobId, f64)>| {
            let both = before.iter().zip(after);
            both.map(|((_, before), (_, after))| after / before).product::<f64>() < 1.0
        };
        let Some(after) = after.filter(lowers_product) else {
            queues.undo(proposed);
            return false;
        };
        *before = after;
        queues.fix(split.iter().map(|(unit, _)| *unit));
        let mut n_tasks = vec![0; self.kinds.len()];
        split.iter().for_each(|(_, kind)| n_tasks[*kind] += 1);
        let reason = Reason::new(IB_COSCHEDULED)
            .with("n_threads", split.len() as u64)
            .with("split", self.kinds.counts_label(&n_tasks))
            .with("before", (own_before / 1e6).round() as u64)
            .with("after", (own_after / 1e6).round() as u64);
        for ((unit, to), _) in split.iter().zip(was_on).filter(|((_, to), was)| *was != Some(*to)) {
            decisions.push(Decision { unit: *unit, to: *to, reason: reason.clone() });
        }
        let of_others = proposed.balanced.into_iter().filter(|moved| moved.unit.job != job);
        self.balanced(of_others.collect(), decisions);
        true
    }

    /// Returns the kind of each runnable thread of a program in the co-scheduled placement; `None` if there is none, or
    /// if all threads are already on these kinds.
    fn split(
        &self,
        job: JobId,
        times: &[TaskTimes],
        queues: &Queues,
    ) -> Option<Vec<(Unit, usize)>> {
        let program = self.threads.programs.get(&job)?;
        let mut runnable: Vec<(u64, u64, Unit)> = Vec::new();
        for (&task, _) in program.threads.iter().filter(|(_, thread)| thread.is_runnable) {
            let unit = Unit { job, thread: Some(task) };
            queues.kind_of(unit)?;
            // The CPU time on the slowest kind is the demand: of similar threads, the largest gets a fast core.
            let at = times.binary_search_by_key(&unit, |of_task| of_task.unit).ok()?;
            let demand = times[at].by_kind.last().map_or(0, |ns| *ns as u64);
            runnable.push((self.behaviours.get(unit)?.ib / SIMILAR, u64::MAX - demand, unit));
        }
        let n_cpus: usize =
            program.possible.iter().map(|kind| self.kinds.get(kind).cpus.len()).sum();
        if runnable.len() < 2
            || program.possible.len() < 2
            || THREADS_PER_CPU_MAX * n_cpus < runnable.len()
        {
            return None;
        }
        runnable.sort();
        // The threads of a program have the same CPUs.
        let first = runnable[0].2;
        let mut kinds = program.possible.iter().flat_map(|kind| {
            let n_cores = |kind: usize| queues.n_cores_for(first, kind);
            let slower = program.possible.iter().filter(|other| kind <= *other);
            [(kind, n_cores(kind), slower.map(n_cores).sum::<u64>())]
        });
        let mut split = Vec::new();
        let mut left = &runnable[..];
        while let Some((kind, n_cores, n_total)) = kinds.next().filter(|_| !left.is_empty()) {
            let n = (left.len() as u64 * n_cores).div_ceil(n_total) as usize;
            let (these, others) = left.split_at(n.min(left.len()));
            split.extend(these.iter().map(|(.., unit)| (*unit, kind)));
            left = others;
        }
        let migrates = |(unit, kind): &(Unit, usize)| queues.kind_of(*unit) != Some(*kind);
        split.iter().any(migrates).then_some(split)
    }
}

/// Returns the times of the tasks of a program.
fn of_program(times: &[TaskTimes], job: JobId) -> &[TaskTimes] {
    let from = times.partition_point(|of_task| of_task.unit.job < job);
    let n = times[from..].partition_point(|of_task| of_task.unit.job == job);
    &times[from..from + n]
}
