//! Upper bound of the work of all assignments, for numbers of tasks and cores that cannot be enumerated.
//!
//! ```text
//!   bound = Σ over tasks of price + Σ over cores of surplus
//!
//!   surplus of a core = largest Σ over its tasks of (work − price), for any number of tasks and any choice of them
//! ```
//!
//! This is the Lagrangian relaxation of the constraint that each task is on one core. It is valid for any prices: the work
//! of an assignment is the sum of the prices plus the sum of (work − price), and the surplus of each core is at least its
//! part of the second sum. A search by subgradient steps lowers the bound. The bound of a set in `reproduce ib`
//! (`set_bound`) is another dual problem, of the mean speed with shares of core kinds.

use super::{AssignmentModel, ModelTask};

/// Steps of the search for prices. Each step is a valid bound; more steps make it tighter. Chosen; a test compares the
/// bound with the best work on shipped machines.
const N_STEPS: usize = 300;
/// Steps without a lower bound after which the step length is halved (chosen).
const N_STEPS_STALLED: usize = 8;
/// Share of the last direction in the next one (chosen): equal cores select the same tasks, so that single directions
/// alternate.
const MOMENTUM: f64 = 0.7;

/// The lowest bound that was found.
#[derive(Clone, Debug)]
pub(super) struct PriceBound {
    /// The bound, in giga-instructions per phase.
    pub work: f64,
    /// Sum of the prices of all tasks.
    paid: f64,
    /// Surplus of a core by group and number of tasks.
    surplus: Vec<Vec<f64>>,
}

/// Equal tasks, which have one price.
struct TaskClass {
    task: ModelTask,
    n_tasks: usize,
}

impl PriceBound {
    pub fn new(model: &AssignmentModel, tasks: &[ModelTask]) -> Self {
        let mut classes: Vec<TaskClass> = Vec::new();
        for &task in tasks {
            match classes.iter_mut().find(|class| class.task == task) {
                Some(class) => class.n_tasks += 1,
                None => classes.push(TaskClass { task, n_tasks: 1 }),
            }
        }
        // Some assignment reaches the work of a level one, so no bound is below it.
        let level: Vec<usize> = (0..tasks.len()).map(|task| task % model.group_of.len()).collect();
        search(model, &classes, model.work(tasks, &level))
    }

    /// Returns the bound of the assignments with these numbers of tasks on the cores.
    pub fn of_list(&self, list: &[(usize, usize)]) -> f64 {
        self.paid + list.iter().map(|&(group, n)| self.surplus[group][n]).sum::<f64>()
    }
}

/// Returns the lowest bound of a search. `reached` is the work of some assignment.
fn search(model: &AssignmentModel, classes: &[TaskClass], reached: f64) -> PriceBound {
    let n_tasks: usize = classes.iter().map(|class| class.n_tasks).sum();
    let per_core = n_tasks.div_ceil(model.group_of.len()).max(1);
    let least = |class: &TaskClass| {
        let work = |group| model.task_work(class.task, (group, per_core));
        (0..model.groups.len()).map(work).fold(f64::INFINITY, f64::min)
    };
    let mut prices: Vec<f64> = classes.iter().map(least).collect();
    let (mut best, mut direction) = (bound(model, classes, &prices), vec![0.0; classes.len()]);
    let (mut best_prices, mut current) = (prices.clone(), best.clone());
    let (mut length, mut n_stalled) = (1.0, 0);
    for _ in 0..N_STEPS {
        let mut norm = 0.0;
        for (idx, class) in classes.iter().enumerate() {
            let n_unplaced = class.n_tasks as f64 - current.1[idx] as f64;
            direction[idx] = n_unplaced + MOMENTUM * direction[idx];
            norm += direction[idx] * direction[idx] / class.n_tasks as f64;
        }
        if norm == 0.0 {
            break;
        }
        let step = length * (current.0.work - reached).max(1e-6 * reached.abs()) / norm;
        for (idx, class) in classes.iter().enumerate() {
            prices[idx] -= step * direction[idx] / class.n_tasks as f64;
        }
        current = bound(model, classes, &prices);
        if current.0.work < best.0.work {
            (best, best_prices, n_stalled) = (current.clone(), prices.clone(), 0);
            continue;
        }
        n_stalled += 1;
        if n_stalled == N_STEPS_STALLED {
            (length, n_stalled) = (length / 2.0, 0);
            (prices, current) = (best_prices.clone(), best.clone());
        }
    }
    best.0
}

/// Returns the bound with these prices, and how many tasks of each class all cores together select.
fn bound(
    model: &AssignmentModel,
    classes: &[TaskClass],
    prices: &[f64],
) -> (PriceBound, Vec<usize>) {
    let n_tasks: usize = classes.iter().map(|class| class.n_tasks).sum();
    let paid: f64 = classes.iter().zip(prices).map(|(class, p)| class.n_tasks as f64 * p).sum();
    let (mut work, mut surplus, mut selected) = (paid, Vec::new(), vec![0; classes.len()]);
    let mut order: Vec<usize> = (0..classes.len()).collect();
    for (idx, group) in model.groups.iter().enumerate() {
        let (mut of_group, mut largest) = (vec![0.0], (0.0, Vec::new()));
        for n in 1..=n_tasks {
            let gain: Vec<f64> = classes
                .iter()
                .zip(prices)
                .map(|(class, price)| model.task_work(class.task, (idx, n)) - price)
                .collect();
            order.sort_by(|a, b| gain[*b].total_cmp(&gain[*a]).then(a.cmp(b)));
            let (mut left, mut sum, mut taken) = (n, 0.0, Vec::new());
            for &class in &order {
                let n_taken = left.min(classes[class].n_tasks);
                sum += n_taken as f64 * gain[class];
                taken.push((class, n_taken));
                left -= n_taken;
                if left == 0 {
                    break;
                }
            }
            of_group.push(sum);
            if largest.0 < sum {
                largest = (sum, taken);
            }
        }
        work += group.n_cores as f64 * largest.0;
        for (class, n_taken) in largest.1 {
            selected[class] += group.n_cores * n_taken;
        }
        surplus.push(of_group);
    }
    (PriceBound { work, paid, surplus }, selected)
}
