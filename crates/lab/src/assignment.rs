//! The assignment model of integrated-behaviour scheduling: an upper bound of the work on unlike cores.
//!
//! ```text
//!   work of a task on core i = c/a × (T − T·m − T_mig − ε/a)
//!
//!   c      instructions per nanosecond of the core without memory time     a      tasks on the core
//!   m      share of memory time of the task on the slowest kind            ε/a    idle time of a core with few tasks
//!   T_mig  cost of a migration, 0 if the task stays on its core kind
//! ```
//!
//! Source: R. Chen, D. Qi, W. Lin, J. Li, Comprehensive Scheduling Algorithm for Asymmetric Multi-core Processors, the
//! objective with constraints (1) to (3). The objective is not linear, because `a` depends on the assignment. For given
//! numbers of tasks on the cores it is linear, and the best assignment of tasks to places is a linear assignment
//! problem. All numbers are enumerated, up to the order of the cores of one kind.
//!
//! The model knows no contention: an assignment with the largest work need not be the fastest. It puts tasks with much
//! memory time on one core, because the tasks of a core share it equally and lose nothing else.

use std::collections::BTreeMap;

use host_sim::CpuObservation;
use host_sim::hardware::Hardware;
use host_sim::script::Script;
use pathfinding::kuhn_munkres::kuhn_munkres;
use pathfinding::matrix::Matrix;

/// Length of a phase (T) in seconds. Chosen, as the other constants: the paper gives none.
const PHASE_S: f64 = 10.0;
/// Cost of a migration between kinds (T_mig) in seconds, on a machine with one node and with several.
const MIGRATION_S: [f64; 2] = [0.001, 0.010];
/// Idle time (ε) in seconds of a core with one task.
const IDLE_S: f64 = 0.05 * PHASE_S;
/// Limits of the search. With more tasks or numbers of tasks the best assignment is not computed.
pub const N_TASKS_MAX: usize = 32;
const N_COUNTS_MAX: usize = 2000;
/// Resolution of the solver, which has integer weights: a billionth of the largest work of a task.
const RESOLUTION: f64 = 1e9;

/// The cores of a machine with several core kinds.
#[derive(Clone, Debug, PartialEq)]
pub struct AssignmentModel {
    /// Index of the kind of each core.
    kind_of: Vec<usize>,
    /// Power of a core, in instructions per nanosecond, and number of cores of each kind. Fastest first.
    kinds: Vec<(f64, usize)>,
    migration_s: f64,
}

/// A task of a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelTask {
    /// Share of memory time on the slowest kind, from 0 to 1.
    pub memory_share: f64,
    /// Index of the kind on which the task ran in the last phase.
    pub kind: Option<usize>,
}

impl AssignmentModel {
    /// Returns the model of a machine; `None` if all cores have the same power.
    pub fn new(hardware: &Hardware) -> Option<Self> {
        let mut powers = vec![0.0; hardware.cores.len()];
        for cpu in &hardware.cpus {
            powers[cpu.core] = cpu.instructions_per_ns();
        }
        let is_numa = usize::from(1 < hardware.nodes.len());
        let model = AssignmentModel::of_powers(&powers, MIGRATION_S[is_numa]);
        (1 < model.kinds.len()).then_some(model)
    }

    /// Returns the model of cores with these powers. Cores of equal power are one kind.
    fn of_powers(powers: &[f64], migration_s: f64) -> Self {
        let mut known = powers.to_vec();
        known.sort_by(|a, b| b.total_cmp(a));
        known.dedup();
        let n_cores = |power: &f64| powers.iter().filter(|other| *other == power).count();
        let kind_of = |power: &f64| known.iter().position(|other| other == power).unwrap_or(0);
        AssignmentModel {
            kind_of: powers.iter().map(kind_of).collect(),
            kinds: known.iter().map(|power| (*power, n_cores(power))).collect(),
            migration_s,
        }
    }

    /// Returns the share of memory time of a program on the slowest kind, with the largest cache and unloaded memory.
    pub fn memory_share(&self, script: &Script, hardware: &Hardware) -> f64 {
        let least = script.least_demand(hardware);
        let core_ns = |kind: usize| least.cycles / self.kinds[kind].0;
        let memory_ns = (least.cpu_ns - core_ns(0)).max(0.0);
        memory_ns / (memory_ns + core_ns(self.kinds.len() - 1)).max(1e-9)
    }

    /// Returns the work of a task on a core of this kind with this number of tasks, in giga-instructions.
    fn task_work(&self, task: ModelTask, (kind, n_tasks): (usize, usize)) -> f64 {
        let n_tasks = n_tasks as f64;
        let moves = task.kind.is_some_and(|old| old != kind);
        let migration_s = if moves { self.migration_s } else { 0.0 };
        let used_s = PHASE_S * (1.0 - task.memory_share) - migration_s - IDLE_S / n_tasks;
        self.kinds[kind].0 / n_tasks * used_s
    }

    /// Returns the work of an assignment of tasks to cores, in giga-instructions per phase.
    pub fn work(&self, tasks: &[ModelTask], cores: &[usize]) -> f64 {
        let n_on = |core: usize| cores.iter().filter(|other| **other == core).count();
        let of_task = |(task, core): (&ModelTask, &usize)| {
            self.task_work(*task, (self.kind_of[*core], n_on(*core)))
        };
        tasks.iter().zip(cores).map(of_task).sum()
    }

    /// Returns the largest work of an assignment, in giga-instructions per phase; `None` if there are too many.
    pub fn best_work(&self, tasks: &[ModelTask]) -> Option<f64> {
        if N_TASKS_MAX < tasks.len() {
            return None;
        }
        let counts = self.counts(tasks.len())?;
        counts.iter().map(|places| self.best_of(tasks, places)).reduce(f64::max)
    }

    /// Returns the largest work with these places: the kind of each, and the number of tasks on its core.
    fn best_of(&self, tasks: &[ModelTask], places: &[(usize, usize)]) -> f64 {
        let work = |task: usize, place: usize| self.task_work(tasks[task], places[place]);
        let largest = self.kinds[0].0 * PHASE_S;
        let weight = |(task, place)| (work(task, place) / largest * RESOLUTION).round() as i64;
        let n = tasks.len();
        let (_, place_of) = kuhn_munkres(&Matrix::from_fn(n, n, weight));
        place_of.iter().enumerate().map(|(task, place)| work(task, *place)).sum()
    }

    /// Returns all lists of places for `n` tasks, up to the order of the cores of a kind; `None` if there are too many.
    fn counts(&self, n: usize) -> Option<Vec<Vec<(usize, usize)>>> {
        let mut lists: Vec<Vec<(usize, usize)>> = vec![Vec::new()];
        for (kind, &(_, n_cores)) in self.kinds.iter().enumerate() {
            let is_last = kind + 1 == self.kinds.len();
            let mut longer = Vec::new();
            for list in &lists {
                let left = n - list.len();
                for n_kind in if is_last { left..=left } else { 0..=left } {
                    let mut parts = Vec::new();
                    partitions((n_kind, n_kind, n_cores), &mut Vec::new(), &mut parts);
                    for part in parts {
                        let places = part.iter().flat_map(|&on| vec![(kind, on); on]);
                        longer.push(list.iter().copied().chain(places).collect());
                    }
                    if N_COUNTS_MAX < longer.len() {
                        return None;
                    }
                }
            }
            lists = longer;
        }
        Some(lists)
    }

    /// Returns by which share the work of the observed assignments is below that of the best assignments. Each
    /// observation is a phase, and each task was on its previous kind before. `None` without an observation, or if
    /// there are too many assignments.
    pub fn missed_share(&self, shares: &[f64], observed: &[CpuObservation]) -> Option<f64> {
        let (mut reached, mut possible) = (0.0, 0.0);
        let mut old: BTreeMap<u32, usize> = BTreeMap::new();
        let mut last: Option<(Vec<ModelTask>, f64)> = None;
        for CpuObservation { threads } in observed {
            let tasks: Vec<ModelTask> = (threads.iter())
                .map(|thread| ModelTask {
                    memory_share: shares[thread.job],
                    kind: old.get(&thread.tid).copied(),
                })
                .collect();
            let cores: Vec<usize> = threads.iter().map(|thread| thread.core).collect();
            let best = match &last {
                Some((same, best)) if *same == tasks => *best,
                _ => self.best_work(&tasks)?,
            };
            possible += best;
            reached += self.work(&tasks, &cores);
            last = Some((tasks, best));
            old = threads.iter().map(|it| (it.tid, self.kind_of[it.core])).collect();
        }
        (0.0 < possible).then(|| 1.0 - reached / possible)
    }
}

/// Appends the partitions of `n` into at most `n_parts` parts of at most `largest`, in decreasing order.
fn partitions(
    (n, largest, n_parts): (usize, usize, usize),
    prefix: &mut Vec<usize>,
    all: &mut Vec<Vec<usize>>,
) {
    if n == 0 {
        all.push(prefix.clone());
        return;
    }
    if n_parts == 0 || N_COUNTS_MAX < all.len() {
        return;
    }
    for part in (1..=largest.min(n)).rev() {
        prefix.push(part);
        partitions((n - part, part, n_parts - 1), prefix, all);
        prefix.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks(shares: &[f64], kinds: &[Option<usize>]) -> Vec<ModelTask> {
        let both = shares.iter().zip(kinds);
        both.map(|(&memory_share, &kind)| ModelTask { memory_share, kind }).collect()
    }

    /// Returns the largest work of all assignments.
    fn exhaustive(model: &AssignmentModel, tasks: &[ModelTask]) -> f64 {
        let (n, n_cores) = (tasks.len() as u32, model.kind_of.len());
        let cores = |number: usize| -> Vec<usize> {
            (0..n).map(|task| number / n_cores.pow(task) % n_cores).collect()
        };
        let all = (0..n_cores.pow(n)).map(|number| model.work(tasks, &cores(number)));
        all.fold(f64::MIN, f64::max)
    }

    /// Returns a repeatable number from 0 to 1.
    fn number(state: &mut u64) -> f64 {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (*state >> 33) as f64 / (1u64 << 31) as f64
    }

    #[test]
    fn eight_tasks_on_two_fast_and_two_slow_cores_have_55_lists_of_places() {
        let model = AssignmentModel::of_powers(&[2.7, 2.7, 1.5, 1.5], 0.001);
        assert_eq!(model.counts(8).expect("few").len(), 55);
    }

    #[test]
    fn the_best_work_is_that_of_an_exhaustive_search() {
        let mut state = 7;
        let machines: [&[f64]; 4] =
            [&[2.7, 1.5], &[2.7, 2.7, 1.5, 1.5], &[3.0, 2.0, 2.0, 1.0], &[2.0, 1.0, 1.0]];
        for (powers, n_tasks) in machines.into_iter().flat_map(|it| (1..=6).map(move |n| (it, n))) {
            let model = AssignmentModel::of_powers(powers, 0.5);
            let shares: Vec<f64> = (0..n_tasks).map(|_| number(&mut state)).collect();
            let n_kinds = model.kinds.len();
            let kind = |_| Some((number(&mut state) * n_kinds as f64) as usize);
            let old: Vec<Option<usize>> = (0..n_tasks).map(kind).collect();
            let tasks = tasks(&shares, &old);
            let (best, all) = (model.best_work(&tasks), exhaustive(&model, &tasks));
            let best = best.expect("few assignments");
            assert!((best - all).abs() < 1e-6 * all, "{powers:?} {tasks:?}: {best}, not {all}");
        }
    }

    #[test]
    fn a_computing_task_gets_the_fast_core_unless_its_migration_costs_more() {
        let (shares, swapped) = ([0.1, 0.9], [Some(1), Some(0)]);
        let work = |migration_s: f64| {
            let model = AssignmentModel::of_powers(&[2.0, 1.0], migration_s);
            let tasks = tasks(&shares, &swapped);
            let (stay, swap) = (model.work(&tasks, &[1, 0]), model.work(&tasks, &[0, 1]));
            (model.best_work(&tasks).expect("few"), stay, swap)
        };
        let close = |a: f64, b: f64| (a - b).abs() < 1e-6;
        let (best, stay, swap) = work(0.001);
        assert!(stay < swap && close(best, swap), "{best}: {stay}, {swap}");
        let (best, stay, swap) = work(8.0);
        assert!(swap < stay && close(best, stay), "{best}: {stay}, {swap}");
    }

    #[test]
    fn with_too_many_assignments_there_is_no_best_work() {
        let powers: Vec<f64> = (0..40).map(|core| f64::from(1 + core % 2)).collect();
        let model = AssignmentModel::of_powers(&powers, 0.001);
        let many = |n: usize| tasks(&vec![0.5; n], &vec![None; n]);
        assert_eq!(model.best_work(&many(N_TASKS_MAX + 1)), None);
        assert_eq!(model.best_work(&many(N_TASKS_MAX)), None);
        assert!(model.best_work(&many(4)).is_some());
    }
}
