//! The assignment model of integrated-behaviour scheduling: an upper bound of the work on unlike cores.
//!
//! ```text
//!   work of a task on core i = c/a × (T − T·m − T_mig − ε/a)
//!
//!   c      instructions per nanosecond of the core without memory stalls   a      tasks on the core
//!   m      share of memory time of the task on the slowest kind            ε/a    idle time of a core with few tasks
//!   T_mig  cost of a migration, 0 if the task stays on its core kind
//! ```
//!
//! Source: R. Chen, D. Qi, W. Lin, J. Li, Comprehensive Scheduling Algorithm for Asymmetric Multi-core Processors, the
//! objective with constraints (1) to (3). The objective is not linear, because `a` depends on the assignment. For given
//! task counts per core it is linear, and the best assignment of tasks to places is a linear assignment
//! problem. All lists of numbers are enumerated, up to the order of equal cores, and the best assignment is the best of
//! all lists. If there are too many lists, an upper bound of all assignments takes its place (`price_bound`).
//!
//! The core kinds are those of the machine. Cores of one kind may differ in power.
//!
//! The model ignores contention: the assignment with the largest work may not be the fastest. It places memory-bound
//! tasks on one core, because in the model the tasks of a core share only its time.

mod price_bound;

use std::collections::BTreeMap;

use base::CpuSet;
use host_sim::CpuObservation;
use host_sim::hardware::Hardware;
use host_sim::script::Script;
use pathfinding::kuhn_munkres::kuhn_munkres;
use pathfinding::matrix::Matrix;
use serde::{Deserialize, Serialize};
use topology::{CoreKind, Machine};

use price_bound::PriceBound;

/// Length of a phase (T) in seconds. Chosen, as the other constants: the paper gives none.
const PHASE_S: f64 = 10.0;
/// Cost of a migration between kinds (T_mig) in seconds, on a machine with one node and with several.
const MIGRATION_S: [f64; 2] = [0.001, 0.010];
/// Idle time (ε) in seconds of a core with one task.
const IDLE_S: f64 = 0.05 * PHASE_S;
/// Largest number of tasks for which the work is computed.
pub const N_TASKS_MAX: usize = 128;
/// Largest number of lists of which the best assignment is computed.
pub const N_LISTS_MAX: usize = 20_000;
/// Resolution of the solver, which has integer weights: a billionth of the largest work of a task.
const RESOLUTION: f64 = 1e9;

/// The cores of a machine with several core kinds.
#[derive(Clone, Debug, PartialEq)]
pub struct AssignmentModel {
    /// Index of the group of each core.
    group_of: Vec<usize>,
    /// The groups, most powerful first.
    groups: Vec<CoreGroup>,
    migration_s: f64,
}

/// Cores of one kind and of equal power.
#[derive(Clone, Copy, Debug, PartialEq)]
struct CoreGroup {
    /// Index of the kind in [`Machine::core_kinds`].
    kind: usize,
    /// Power of each core, in instructions per nanosecond.
    power: f64,
    n_cores: usize,
}

/// A task of a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelTask {
    /// Share of memory time on the slowest core, from 0 to 1.
    pub memory_share: f64,
    /// Index of the kind on which the task ran in the last phase.
    pub kind: Option<usize>,
}

/// The largest work of all assignments, in giga-instructions per phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LargestWork {
    /// The work.
    pub work: f64,
    /// Whether the work is an upper bound that the best assignment need not reach.
    pub is_bound: bool,
}

/// Distance of the assignments of a run to the assignment model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelGap {
    /// Share of the largest work that the assignments missed.
    pub share: f64,
    /// Whether the largest work is an upper bound in a part of the run; the share is then an upper bound as well.
    pub is_bound: bool,
}

/// Numbers of tasks on cores: the group of each core with tasks, and the number of its tasks.
type CountList = Vec<(usize, usize)>;

impl AssignmentModel {
    /// Returns the model of a machine; `None` if it has one core kind.
    pub fn new(machine: &Machine, hardware: &Hardware) -> Option<Self> {
        let kinds: Vec<CpuSet> = machine.core_kinds().iter().map(CoreKind::cpus).collect();
        let mut cores = vec![(0, 0.0); hardware.cores.len()];
        for cpu in &hardware.cpus {
            let kind = kinds.iter().position(|cpus| cpus.contains(cpu.id));
            cores[cpu.core] = (kind.unwrap_or(0), cpu.instructions_per_ns());
        }
        let is_numa = usize::from(1 < hardware.nodes.len());
        (1 < kinds.len()).then(|| AssignmentModel::of_cores(&cores, MIGRATION_S[is_numa]))
    }

    /// Returns the model of cores with these kinds and powers.
    fn of_cores(cores: &[(usize, f64)], migration_s: f64) -> Self {
        let mut groups: Vec<CoreGroup> = Vec::new();
        for &(kind, power) in cores {
            match groups.iter_mut().find(|group| (group.kind, group.power) == (kind, power)) {
                Some(group) => group.n_cores += 1,
                None => groups.push(CoreGroup { kind, power, n_cores: 1 }),
            }
        }
        groups.sort_by(|a, b| b.power.total_cmp(&a.power).then(a.kind.cmp(&b.kind)));
        let group_of = |core: &(usize, f64)| {
            groups.iter().position(|group| (group.kind, group.power) == *core).unwrap_or(0)
        };
        AssignmentModel { group_of: cores.iter().map(group_of).collect(), groups, migration_s }
    }

    /// Returns the share of memory time of a program on the slowest core, with the largest cache and unloaded memory.
    pub fn memory_share(&self, script: &Script, hardware: &Hardware) -> f64 {
        let least = script.least_demand(hardware);
        let core_ns = |group: usize| least.cycles / self.groups[group].power;
        let memory_ns = (least.cpu_ns - core_ns(0)).max(0.0);
        memory_ns / (memory_ns + core_ns(self.groups.len() - 1)).max(1e-9)
    }

    /// Returns the work of a task on a core of this group with this number of tasks, in giga-instructions.
    fn task_work(&self, task: ModelTask, (group, n_tasks): (usize, usize)) -> f64 {
        let (n_tasks, CoreGroup { kind, power, .. }) = (n_tasks as f64, self.groups[group]);
        let moves = task.kind.is_some_and(|old| old != kind);
        let migration_s = if moves { self.migration_s } else { 0.0 };
        let used_s = PHASE_S * (1.0 - task.memory_share) - migration_s - IDLE_S / n_tasks;
        power / n_tasks * used_s
    }

    /// Returns the work of an assignment of tasks to cores, in giga-instructions per phase.
    pub fn work(&self, tasks: &[ModelTask], cores: &[usize]) -> f64 {
        let n_on = |core: usize| cores.iter().filter(|other| **other == core).count();
        let of_task = |(task, core): (&ModelTask, &usize)| {
            self.task_work(*task, (self.group_of[*core], n_on(*core)))
        };
        tasks.iter().zip(cores).map(of_task).sum()
    }

    /// Returns the largest work of all assignments; `None` with too many tasks.
    pub fn largest_work(&self, tasks: &[ModelTask]) -> Option<LargestWork> {
        if N_TASKS_MAX < tasks.len() {
            return None;
        }
        let bound = PriceBound::new(self, tasks);
        let work = self.lists(tasks.len()).map(|lists| self.best_work(tasks, lists, &bound));
        Some(LargestWork { work: work.unwrap_or(bound.work), is_bound: work.is_none() })
    }

    /// Returns the work of the best assignment. The lists are solved by decreasing bound, until no bound of the others is
    /// above the best work.
    fn best_work(&self, tasks: &[ModelTask], lists: Vec<CountList>, bound: &PriceBound) -> f64 {
        let mut lists: Vec<(f64, CountList)> =
            lists.into_iter().map(|list| (bound.of_list(&list), list)).collect();
        lists.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let mut best = f64::MIN;
        for (bound, list) in &lists {
            if *bound <= best {
                break;
            }
            best = best.max(self.best_of(tasks, list));
        }
        best
    }

    /// Returns the work of the best assignment with these numbers of tasks on the cores.
    fn best_of(&self, tasks: &[ModelTask], list: &[(usize, usize)]) -> f64 {
        let places: CountList = list.iter().flat_map(|&core| vec![core; core.1]).collect();
        let work = |task: usize, place: usize| self.task_work(tasks[task], places[place]);
        let largest = self.groups[0].power * PHASE_S;
        let weight = |(task, place)| (work(task, place) / largest * RESOLUTION).round() as i64;
        let n = tasks.len();
        let (_, place_of) = kuhn_munkres(&Matrix::from_fn(n, n, weight));
        place_of.iter().enumerate().map(|(task, place)| work(task, *place)).sum()
    }

    /// Returns all lists for `n` tasks, up to the order of the cores of a group; `None` if there are too many.
    fn lists(&self, n: usize) -> Option<Vec<CountList>> {
        let mut lists: Vec<(CountList, usize)> = vec![(Vec::new(), n)];
        for (idx, group) in self.groups.iter().enumerate() {
            let is_last = idx + 1 == self.groups.len();
            let mut longer = Vec::new();
            for (list, left) in &lists {
                for n_group in if is_last { *left..=*left } else { 0..=*left } {
                    let mut parts = Vec::new();
                    partitions((n_group, n_group, group.n_cores), &mut Vec::new(), &mut parts);
                    for part in parts {
                        let cores = part.iter().map(|&on| (idx, on));
                        longer.push((list.iter().copied().chain(cores).collect(), left - n_group));
                    }
                    if N_LISTS_MAX < longer.len() {
                        return None;
                    }
                }
            }
            lists = longer;
        }
        Some(lists.into_iter().map(|(list, _)| list).collect())
    }

    /// Returns by which share the work of the observed assignments is below the largest work. Each observation is a phase,
    /// before which each task was on the kind of its previous observation. `None` without an observation, or with too many
    /// tasks.
    pub fn gap(&self, shares: &[f64], observed: &[CpuObservation]) -> Option<ModelGap> {
        let (mut reached, mut possible, mut is_bound) = (0.0, 0.0, false);
        let mut old: BTreeMap<u32, usize> = BTreeMap::new();
        let mut last: Option<(Vec<ModelTask>, LargestWork)> = None;
        for CpuObservation { threads } in observed {
            let tasks: Vec<ModelTask> = (threads.iter())
                .map(|thread| ModelTask {
                    memory_share: shares[thread.job],
                    kind: old.get(&thread.tid).copied(),
                })
                .collect();
            let cores: Vec<usize> = threads.iter().map(|thread| thread.core).collect();
            let largest = match &last {
                Some((same, largest)) if *same == tasks => *largest,
                _ => self.largest_work(&tasks)?,
            };
            possible += largest.work;
            is_bound |= largest.is_bound;
            reached += self.work(&tasks, &cores);
            last = Some((tasks, largest));
            let kind_of = |core: usize| self.groups[self.group_of[core]].kind;
            old.extend(threads.iter().map(|it| (it.tid, kind_of(it.core))));
        }
        (0.0 < possible).then(|| ModelGap { share: 1.0 - reached / possible, is_bound })
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
    if n_parts == 0 || N_LISTS_MAX < all.len() {
        return;
    }
    for part in (n.div_ceil(n_parts)..=largest.min(n)).rev() {
        prefix.push(part);
        partitions((n - part, part, n_parts - 1), prefix, all);
        prefix.pop();
    }
}

#[cfg(test)]
mod tests {
    use host_sim::ObservedThread;

    use super::*;
    use crate::shipped;

    /// Returns a model whose cores of equal power are one kind.
    fn of_powers(powers: &[f64], migration_s: f64) -> AssignmentModel {
        let mut known = powers.to_vec();
        known.sort_by(|a, b| b.total_cmp(a));
        known.dedup();
        let kind = |power: &f64| known.iter().position(|other| other == power).expect("known");
        let cores: Vec<(usize, f64)> = powers.iter().map(|power| (kind(power), *power)).collect();
        AssignmentModel::of_cores(&cores, migration_s)
    }

    fn tasks(shares: &[f64], kinds: &[Option<usize>]) -> Vec<ModelTask> {
        let both = shares.iter().zip(kinds);
        both.map(|(&memory_share, &kind)| ModelTask { memory_share, kind }).collect()
    }

    /// Returns the largest work of all assignments.
    fn exhaustive(model: &AssignmentModel, tasks: &[ModelTask]) -> f64 {
        let (n, n_cores) = (tasks.len() as u32, model.group_of.len());
        let cores = |number: usize| -> Vec<usize> {
            (0..n).map(|task| number / n_cores.pow(task) % n_cores).collect()
        };
        let all = (0..n_cores.pow(n)).map(|number| model.work(tasks, &cores(number)));
        all.fold(f64::MIN, f64::max)
    }

    /// Returns the work of the best assignment.
    fn best(model: &AssignmentModel, tasks: &[ModelTask]) -> f64 {
        let largest = model.largest_work(tasks).expect("few tasks");
        assert!(!largest.is_bound, "few lists");
        largest.work
    }

    /// Returns a repeatable number from 0 to 1.
    fn number(state: &mut u64) -> f64 {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (*state >> 33) as f64 / (1u64 << 31) as f64
    }

    /// Returns tasks with random memory shares and earlier kinds.
    fn random_tasks(n_tasks: usize, n_kinds: usize, state: &mut u64) -> Vec<ModelTask> {
        let shares: Vec<f64> = (0..n_tasks).map(|_| number(state)).collect();
        let kind = |_| Some((number(state) * n_kinds as f64) as usize);
        let old: Vec<Option<usize>> = (0..n_tasks).map(kind).collect();
        tasks(&shares, &old)
    }

    #[test]
    fn eight_tasks_on_two_fast_and_two_slow_cores_have_55_lists_of_places() {
        let model = of_powers(&[2.7, 2.7, 1.5, 1.5], 0.001);
        assert_eq!(model.lists(8).expect("few").len(), 55);
    }

    #[test]
    fn the_best_work_is_that_of_an_exhaustive_search() {
        let mut state = 7;
        let machines: [&[(usize, f64)]; 5] = [
            &[(0, 2.7), (1, 1.5)],
            &[(0, 2.7), (0, 2.7), (1, 1.5), (1, 1.5)],
            &[(0, 3.0), (1, 2.0), (1, 2.0), (2, 1.0)],
            &[(0, 2.0), (1, 1.0), (1, 1.0)],
            &[(0, 3.0), (0, 2.6), (1, 2.6), (1, 1.0)], // Unlike cores of one kind, and equal cores of two kinds.
        ];
        for (cores, n_tasks) in machines.into_iter().flat_map(|it| (1..=6).map(move |n| (it, n))) {
            let model = AssignmentModel::of_cores(cores, 0.5);
            let n_kinds = cores.iter().map(|(kind, _)| kind + 1).max().expect("cores");
            let tasks = random_tasks(n_tasks, n_kinds, &mut state);
            let (best, all) = (best(&model, &tasks), exhaustive(&model, &tasks));
            assert!((best - all).abs() < 1e-6 * all, "{cores:?} {tasks:?}: {best}, not {all}");
        }
    }

    #[test]
    fn a_computing_task_gets_the_fast_core_unless_its_migration_costs_more() {
        let (shares, swapped) = ([0.1, 0.9], [Some(1), Some(0)]);
        let work = |migration_s: f64| {
            let model = of_powers(&[2.0, 1.0], migration_s);
            let tasks = tasks(&shares, &swapped);
            let (stay, swap) = (model.work(&tasks, &[1, 0]), model.work(&tasks, &[0, 1]));
            (best(&model, &tasks), stay, swap)
        };
        let close = |a: f64, b: f64| (a - b).abs() < 1e-6;
        let (best, stay, swap) = work(0.001);
        assert!(stay < swap && close(best, swap), "{best}: {stay}, {swap}");
        let (best, stay, swap) = work(8.0);
        assert!(swap < stay && close(best, stay), "{best}: {stay}, {swap}");
    }

    #[test]
    fn a_thread_that_slept_pays_a_migration_to_another_kind_than_before_its_sleep() {
        let model = of_powers(&[2.0, 1.0], 1.0);
        let seen =
            |tid, core| CpuObservation { threads: vec![ObservedThread { job: 0, tid, core }] };
        let gap = model.gap(&[0.1], &[seen(1, 0), seen(2, 0), seen(1, 1)]).expect("threads").share;
        let work = |kind, core| model.work(&tasks(&[0.1], &[kind]), &[core]);
        let reached = work(None, 0) * 2.0 + work(Some(0), 1);
        assert!((gap - (1.0 - reached / (work(None, 0) * 3.0))).abs() < 1e-9, "{gap}");
    }

    #[test]
    fn a_migration_between_unlike_cores_of_one_kind_costs_nothing() {
        let machine = shipped::machine("cix-p1").expect("it ships");
        let model = AssignmentModel::new(&machine, &Hardware::new(&machine)).expect("three kinds");
        let kinds: Vec<(usize, usize)> =
            model.groups.iter().map(|group| (group.kind, group.n_cores)).collect();
        assert_eq!(kinds, [(0, 2), (0, 2), (1, 2), (1, 2), (2, 4)]);
        let work = |from: usize| {
            let from = Some(model.groups[model.group_of[from]].kind);
            model.work(&tasks(&[0.1], &[from]), &[0])
        };
        assert_eq!(work(10), work(0), "2.5 and 2.6 GHz are big cores");
        assert!(work(6) < work(0), "2.3 GHz is a medium core");
    }

    #[test]
    fn with_too_many_lists_the_work_is_a_bound() {
        let powers: Vec<f64> = (0..40).map(|core| f64::from(1 + core % 2)).collect();
        let model = of_powers(&powers, 0.001);
        let is_bound =
            |n: usize| Some(model.largest_work(&tasks(&vec![0.5; n], &vec![None; n]))?.is_bound);
        assert_eq!([4, 40, N_TASKS_MAX].map(is_bound), [Some(false), Some(true), Some(true)]);
        assert_eq!(is_bound(N_TASKS_MAX + 1), None);
    }

    #[test]
    fn the_bound_is_at_least_the_best_work_and_at_most_a_few_percent_above() {
        let mut state = 3;
        for name in ["opteron-2384-uma", "cix-p1", "hybrid-desktop"] {
            let machine = shipped::machine(name).expect("it ships");
            let model =
                AssignmentModel::new(&machine, &Hardware::new(&machine)).expect("several kinds");
            for n_tasks in [3, 8, 8, 8] {
                let tasks = random_tasks(n_tasks, machine.core_kinds().len(), &mut state);
                let (best, bound) = (best(&model, &tasks), PriceBound::new(&model, &tasks).work);
                let above = bound / best - 1.0;
                assert!((-1e-9..0.03).contains(&above), "{name}, {n_tasks} tasks: {above}");
            }
        }
    }
}
