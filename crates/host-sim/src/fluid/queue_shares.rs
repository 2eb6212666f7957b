//! Average shares of CPU time of tasks that have one queue for several CPUs.
//!
//! A CPU takes the task of the queue that has received the least CPU time over its weight, among those that may use it.
//! On average the tasks of a CPU are therefore filled to one level over their weights. A task has at most one CPU:
//!
//! ```text
//!                  ┌────┐ one CPU
//!   level ── ┌───┐ │    │ ┌─────────┐
//!            │ a │ │ b  │ │    c    │   width: weight; area: share of CPU time
//!            └───┘ └────┘ └─────────┘
//! ```
//!
//! CPUs for the same tasks are one pool. If a task may use several pools, the pools are filled one after the other,
//! several times; a task begins with its parts in the other pools. All CPUs are used fully, but the level is the same in
//! all pools of a task only if it has less than one CPU.

use super::Fluid;

/// Maximum number of times that all pools are filled.
const N_POOL_FILLINGS_MAX: usize = 64;
/// Change of a share below which the shares are final.
const CHANGE_MIN: f64 = 1e-9;

/// CPUs that the same tasks may use.
struct CpuPool {
    n_cpus: f64,
    tasks: Vec<usize>,
    /// Share of each task in these CPUs.
    given: Vec<f64>,
}

impl Fluid {
    /// Computes the shares of the runnable tasks of a cache, whose CPUs have one queue.
    pub(super) fn share_queue(&mut self, cache: usize) {
        let cpus = &self.hardware.caches[cache].cpus;
        let tasks: Vec<usize> =
            cpus.iter().flat_map(|&cpu| self.runnable_on(cpu)).copied().collect();
        let weights: Vec<f64> = tasks.iter().map(|&idx| self.tasks[idx].weight).collect();
        let users = |&cpu: &usize| {
            (0..tasks.len()).filter(|&nth| self.may_run(tasks[nth], cpu)).collect::<Vec<_>>()
        };
        let shares = queue_shares(&weights, cpus.iter().map(users));
        for (idx, share) in tasks.into_iter().zip(shares) {
            self.tasks[idx].queue_share = share;
        }
    }
}

/// Returns the share of CPU time of each task, at most 1, from its weight and from the tasks that may use each CPU.
fn queue_shares(weights: &[f64], users_of_cpus: impl Iterator<Item = Vec<usize>>) -> Vec<f64> {
    let mut pools: Vec<CpuPool> = Vec::new();
    for tasks in users_of_cpus {
        match pools.iter_mut().find(|pool| pool.tasks == tasks) {
            Some(pool) => pool.n_cpus += 1.0,
            None => pools.push(CpuPool { n_cpus: 1.0, given: vec![0.0; tasks.len()], tasks }),
        }
    }
    // Tasks that have CPUs for few tasks leave other CPUs to the others.
    pools.sort_by_key(|pool| pool.tasks.len());
    let mut shares = vec![0.0; weights.len()];
    for _ in 0..N_POOL_FILLINGS_MAX {
        let mut change = 0.0f64;
        for pool in &mut pools {
            change = change.max(pool.fill(weights, &mut shares));
        }
        if change < CHANGE_MIN {
            break;
        }
    }
    shares
}

impl CpuPool {
    /// Divides the CPUs among their tasks, which have the rest of their shares elsewhere. Returns the largest change of a
    /// share.
    fn fill(&mut self, weights: &[f64], shares: &mut [f64]) -> f64 {
        let elsewhere = |(&task, given): (&usize, &f64)| (shares[task] - given).max(0.0);
        let begins: Vec<f64> = self.tasks.iter().zip(&self.given).map(elsewhere).collect();
        // From its begin up to one CPU, the share of a task grows with the level in proportion to its weight.
        let mut bends: Vec<(f64, f64)> = Vec::new();
        for (&task, begin) in self.tasks.iter().zip(&begins) {
            let weight = weights[task];
            bends.extend([(begin / weight, weight), (1.0 / weight, -weight)]);
        }
        bends.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (mut level, mut slope, mut left) = (0.0, 0.0, self.n_cpus);
        for (at, more) in bends {
            if 0.0 < slope && left <= slope * (at - level) {
                break;
            }
            left -= slope * (at - level);
            (level, slope) = (at, slope + more);
        }
        if 0.0 < slope && 0.0 < left {
            level += left / slope;
        }
        let mut change = 0.0f64;
        for ((&task, begin), given) in self.tasks.iter().zip(begins).zip(&mut self.given) {
            let share = (level * weights[task]).clamp(begin, 1.0f64.max(begin));
            change = change.max(libm::fabs(share - shares[task]));
            (shares[task], *given) = (share, share - begin);
        }
        change
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the shares of tasks with weights, from the tasks that may use each CPU.
    fn shares(weights: &[f64], cpus: &[&[usize]]) -> Vec<f64> {
        let found = queue_shares(weights, cpus.iter().map(|tasks| tasks.to_vec()));
        found.iter().map(|share| (share * 1e6).round() / 1e6).collect()
    }

    #[test]
    fn tasks_without_affinity_have_shares_by_weight_of_at_most_one_cpu() {
        assert_eq!(shares(&[1.0, 3.0], &[&[0, 1]]), [0.25, 0.75]);
        assert_eq!(shares(&[1.0; 4], &[&[0, 1, 2, 3], &[0, 1, 2, 3]]), [0.5; 4]);
        // The rest of the heavy task's time is that of the others.
        assert_eq!(shares(&[1.0, 10.0, 1.0], &[&[0, 1, 2], &[0, 1, 2]]), [0.5, 1.0, 0.5]);
        assert_eq!(shares(&[2.0, 1.0], &[&[0, 1], &[0, 1], &[0, 1]]), [1.0, 1.0]);
        assert!(shares(&[], &[&[], &[]]).is_empty());
    }

    #[test]
    fn bound_tasks_have_shares_of_their_own_cpus() {
        assert_eq!(shares(&[2.0, 2.0, 4.0, 9.0], &[&[0, 1, 2], &[3]]), [0.25, 0.25, 0.5, 1.0]);
        // Idle CPUs help no task that may not use them.
        assert_eq!(shares(&[1.0, 1.0], &[&[0, 1], &[], &[]]), [0.5, 0.5]);
    }

    #[test]
    fn a_free_task_leaves_a_cpu_to_the_tasks_that_are_bound_to_it() {
        assert_eq!(shares(&[1.0, 1.0], &[&[0, 1], &[1]]), [1.0, 1.0]);
        // Two tasks on each CPU, one of which may use both.
        let two_thirds = 666_667.0 / 1e6;
        assert_eq!(shares(&[1.0; 3], &[&[0, 1], &[1, 2]]), [two_thirds; 3]);
        assert_eq!(
            shares(&[1.0; 4], &[&[0, 1, 2, 3], &[3]]),
            [1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0, 1.0].map(|share: f64| (share * 1e6).round() / 1e6)
        );
    }
}
