//! Co-scheduling: the runnable threads of a program are placed on all kinds in one step.
//!
//! ```text
//!   k threads, F fast and S slow cores      ⌈k F / (F + S)⌉ of them on the fast kind, lowest behaviour first
//! ```
//!
//! The step is made only if it lowers the predicted time of the slowest thread by more than 5 %, and lowers the product of
//! the predicted times of all programs. The product falls with each step, so that two programs cannot take the fast cores
//! from each other in turn. The prediction is for the work of the last interval: core time in proportion to the
//! capacity, memory time equal on all kinds, and both multiplied by the tasks per core.

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
/// Intervals after a step in which the program is not co-scheduled. Chosen: the first interval after a migration is a
/// warm-up, and the window of the local behaviour has three.
const REST: u64 = 5;

/// Predicted CPU time of a task's work in the last interval on each kind, in nanoseconds.
struct TaskTimes {
    unit: Unit,
    by_kind: Vec<f64>,
}

impl Threads {
    /// Ends an interval. Returns the programs that may be co-scheduled.
    fn rested(&mut self) -> Vec<JobId> {
        self.programs
            .values_mut()
            .for_each(|program| program.rest = program.rest.saturating_sub(1));
        let rested = self.programs.iter().filter(|(_, program)| program.rest == 0);
        rested.map(|(job, _)| *job).collect()
    }
}

impl IntegratedBehaviour {
    /// Co-schedules the programs with at least two runnable threads.
    pub(in crate::ib) fn coschedule(
        &mut self,
        snapshot: &Snapshot<'_>,
        units: &[KindJob<'_>],
        queues: &mut Queues,
        decisions: &mut Vec<Decision>,
    ) {
        let times = self.task_times(snapshot, units);
        for job in self.threads.rested() {
            if self.coschedule_program(job, &times, queues, decisions) {
                self.threads.programs.entry(job).or_default().rest = REST;
            }
        }
    }

    /// Returns the times of the sampled tasks. Each task ran where it was placed at the start of the interval.
    fn task_times(&self, snapshot: &Snapshot<'_>, units: &[KindJob<'_>]) -> Vec<TaskTimes> {
        let model = SpeedModel::new(snapshot, &self.kinds);
        let mut times = Vec::new();
        for (unit, kind) in units.iter().filter_map(|unit| Some((unit, unit.kind?))) {
            times.extend(unit.tasks(snapshot).iter().map(|task| {
                let share = model.memory_share(std::slice::from_ref(task)).unwrap_or(0.0);
                let relative =
                    relative_times(&self.kinds, share_on_fastest(&self.kinds, share, kind));
                let on_fastest = task.cpu_time.0 as f64 / relative[kind];
                let by_kind = relative.iter().map(|time| time * on_fastest).collect();
                TaskTimes { unit: unit.into(), by_kind }
            }));
        }
        times
    }

    /// Returns the predicted time of the slowest task of each program in nanoseconds, by job.
    fn program_times(&self, times: &[TaskTimes], queues: &Queues) -> Vec<(JobId, f64)> {
        let loads: Vec<f64> = (queues.n_tasks().iter().zip(self.kinds.iter()))
            .map(|(n_tasks, kind)| (*n_tasks as f64 / kind.n_cores as f64).max(1.0))
            .collect();
        let mut programs: Vec<(JobId, f64)> = Vec::new();
        for TaskTimes { unit, by_kind } in times {
            let Some(kind) = queues.kind_of(*unit) else { continue };
            let ns = by_kind[kind] * loads[kind];
            match programs.last_mut().filter(|(job, _)| *job == unit.job) {
                Some((_, longest)) => *longest = longest.max(ns),
                None => programs.push((unit.job, ns)),
            }
        }
        programs.retain(|(_, ns)| 0.0 < *ns);
        programs
    }

    /// Returns whether the threads of a program migrate together.
    fn coschedule_program(
        &self,
        job: JobId,
        times: &[TaskTimes],
        queues: &mut Queues,
        decisions: &mut Vec<Decision>,
    ) -> bool {
        let Some(mut split) = self.split(job, times, queues) else { return false };
        let mut proposed = queues.clone();
        for (unit, kind) in &split {
            if let Some((_, member)) = proposed.remove(*unit) {
                proposed.insert(*kind, member);
            }
        }
        let moves = proposed.rebalance();
        split.iter_mut().for_each(|(unit, kind)| *kind = proposed.kind_of(*unit).unwrap_or(*kind));
        let (before, after) =
            (self.program_times(times, queues), self.program_times(times, &proposed));
        let of_program =
            |all: &[(JobId, f64)]| all.iter().find(|(of, _)| *of == job).map(|(_, ns)| *ns);
        let Some((own_before, own_after)) = of_program(&before).zip(of_program(&after)) else {
            return false;
        };
        // Both lists have the same programs.
        let ratios = before.iter().zip(&after).map(|((_, before), (_, after))| after / before);
        let gains = own_after < (1.0 - GAIN_MIN) * own_before && ratios.product::<f64>() < 1.0;
        if !gains {
            return false;
        }
        let mut n_tasks = vec![0; self.kinds.len()];
        split.iter().for_each(|(_, kind)| n_tasks[*kind] += 1);
        let reason = Reason::new(IB_COSCHEDULED)
            .with("n_threads", split.len() as u64)
            .with("split", self.kinds.counts_label(&n_tasks))
            .with("before", (own_before / 1e6).round() as u64)
            .with("after", (own_after / 1e6).round() as u64);
        for (unit, to) in split.iter().filter(|(unit, to)| queues.kind_of(*unit) != Some(*to)) {
            decisions.push(Decision { unit: *unit, to: *to, reason: reason.clone() });
        }
        let of_others = moves.into_iter().filter(|moved| moved.unit.job != job).collect();
        self.balanced(of_others, decisions);
        *queues = proposed;
        true
    }

    /// Returns the kind of each runnable thread of a program in the co-scheduled placement; `None` if there is none.
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
            let times = times.iter().find(|times| times.unit == unit)?;
            let demand = times.by_kind.last().map_or(0, |ns| *ns as u64);
            runnable.push((self.behaviours.get(&unit)?.ib / SIMILAR, u64::MAX - demand, unit));
        }
        if runnable.len() < 2 || program.possible.len() < 2 {
            return None;
        }
        runnable.sort();
        let mut kinds = program.possible.iter().flat_map(|&kind| {
            let n_cores = |kind: usize| self.kinds.get(kind).n_cores;
            let slower: u64 = program
                .possible
                .iter()
                .filter(|other| kind <= **other)
                .map(|other| n_cores(*other))
                .sum();
            [(kind, n_cores(kind), slower)]
        });
        let mut split = Vec::new();
        let mut left = &runnable[..];
        while let Some((kind, n_cores, n_total)) = kinds.next().filter(|_| !left.is_empty()) {
            let n = (left.len() as u64 * n_cores).div_ceil(n_total) as usize;
            let (these, others) = left.split_at(n.min(left.len()));
            split.extend(these.iter().map(|(.., unit)| (*unit, kind)));
            left = others;
        }
        Some(split)
    }
}
