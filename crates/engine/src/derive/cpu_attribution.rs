//! CPU time of jobs by domain.
//!
//! The kernel reports the CPU time of a task and its last CPU, but not the CPU time on each CPU. A task that is not
//! bound to one domain can run in several domains in one interval. Two limits hold for every interval: a task uses at
//! most one CPU at a time, and the tasks in a domain use at most all CPUs of the domain.
//!
//! ```text
//!   task ──► domain of its last CPU ──► more than all CPUs of the domain?
//!                                          └► tasks that changed the domain: free CPU time of the domain before
//!                                                └► the rest is unattributed
//! ```
//!
//! Children that start and exit between two samples run on unknown CPUs. Their CPU time is attributed only if the job
//! is bound to one domain, because children inherit the affinity. It may also be from earlier intervals, so that a
//! part of it can exceed the limits and is unattributed.

use base::Nanos;

/// CPU time of one task in the interval, and the domains in which the task was sampled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TaskCpuTime {
    /// CPU time of the task itself.
    pub own: Nanos,
    /// CPU time of children that started and exited between two samples.
    pub unseen: Nanos,
    /// Domain at the end of the interval.
    pub domain: Option<usize>,
    /// Domain at the start of the interval.
    pub domain_before: Option<usize>,
    /// Whether the job is bound to `domain`.
    pub is_bound: bool,
}

/// CPU time of all tasks in the interval, by domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AttributedCpuTime {
    /// CPU time in each domain: at most the length of the interval multiplied by the number of CPUs.
    pub by_domain: Vec<Nanos>,
    /// CPU time that is not attributed to a domain.
    pub unattributed: Nanos,
}

impl AttributedCpuTime {
    /// Attributes the CPU time of `tasks`. `n_cpus` has the number of CPUs of each domain.
    pub fn attribute(
        &mut self,
        tasks: impl Iterator<Item = TaskCpuTime> + Clone,
        n_cpus: impl Iterator<Item = usize>,
        interval: Nanos,
    ) {
        let capacity: Vec<Nanos> =
            n_cpus.map(|n| Nanos(interval.0.saturating_mul(n as u64))).collect();
        self.unattributed = Nanos::ZERO;
        self.by_domain.clear();
        self.by_domain.resize(capacity.len(), Nanos::ZERO);
        for task in tasks.clone() {
            self.add(&task, interval);
        }
        for task in tasks {
            self.move_to_domain_before(&task, &capacity, interval);
        }
        for (sum, &capacity) in self.by_domain.iter_mut().zip(&capacity) {
            let excess = sum.saturating_sub(capacity);
            self.unattributed = self.unattributed.saturating_add(excess);
            *sum = sum.saturating_sub(excess);
        }
    }

    fn add(&mut self, task: &TaskCpuTime, interval: Nanos) {
        let own = task.own.min(interval);
        let unseen_domain = task.domain.filter(|_| task.is_bound || self.by_domain.len() == 1);
        self.add_to(task.domain, own);
        self.add_to(unseen_domain, task.unseen);
        self.unattributed = self.unattributed.saturating_add(task.own.saturating_sub(own));
    }

    fn add_to(&mut self, domain: Option<usize>, time: Nanos) {
        let sum = domain.and_then(|idx| self.by_domain.get_mut(idx));
        let sum = sum.unwrap_or(&mut self.unattributed);
        *sum = sum.saturating_add(time);
    }

    /// Moves CPU time of a task that changed the domain, as far as its domain has too much CPU time and the domain
    /// before has free CPU time.
    fn move_to_domain_before(&mut self, task: &TaskCpuTime, capacity: &[Nanos], interval: Nanos) {
        let Some((domain, before)) = task.domain.zip(task.domain_before) else { return };
        if domain == before {
            return;
        }
        let excess = self.by_domain[domain].saturating_sub(capacity[domain]);
        let free = capacity[before].saturating_sub(self.by_domain[before]);
        let moved = task.own.min(interval).min(excess).min(free);
        self.by_domain[domain] = self.by_domain[domain].saturating_sub(moved);
        self.by_domain[before] = self.by_domain[before].saturating_add(moved);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    const INTERVAL: Nanos = Nanos::from_millis(250);

    fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    fn task(own: u64, before: usize, domain: usize) -> TaskCpuTime {
        TaskCpuTime {
            own: ms(own),
            domain: Some(domain),
            domain_before: Some(before),
            ..TaskCpuTime::default()
        }
    }

    /// Returns the CPU time in two domains of one CPU each, and the unattributed CPU time, in milliseconds.
    fn attributed(tasks: &[TaskCpuTime]) -> ([u64; 2], u64) {
        let mut times = AttributedCpuTime::default();
        times.attribute(tasks.iter().copied(), [1, 1].into_iter(), INTERVAL);
        let ms = |time: &Nanos| time.0 / 1_000_000;
        ([ms(&times.by_domain[0]), ms(&times.by_domain[1])], ms(&times.unattributed))
    }

    #[test]
    fn a_task_that_changed_its_cpu_does_not_overfill_the_cpu() {
        // b ran on CPU 1 until a came from CPU 0, where a had used 200 ms.
        assert_eq!(attributed(&[task(250, 0, 1), task(200, 1, 1)]), ([200, 250], 0));
    }

    #[test]
    fn cpu_time_that_fits_in_no_domain_is_unattributed() {
        assert_eq!(attributed(&[task(200, 1, 1), task(250, 1, 1)]), ([0, 250], 200));
        assert_eq!(
            attributed(&[task(400, 0, 0)]),
            ([250, 0], 150),
            "a task uses one CPU at a time"
        );
        let outside = TaskCpuTime { own: ms(7), ..TaskCpuTime::default() };
        assert_eq!(attributed(&[outside]), ([0, 0], 7));
    }

    #[test]
    fn exited_children_count_for_the_domain_of_a_bound_job_only() {
        let unbound = TaskCpuTime { unseen: ms(90), ..task(10, 0, 0) };
        assert_eq!(attributed(&[unbound]), ([10, 0], 90));
        let bound = TaskCpuTime { is_bound: true, ..unbound };
        assert_eq!(attributed(&[bound]), ([100, 0], 0));
        let of_earlier_intervals = TaskCpuTime { unseen: ms(900), ..bound };
        assert_eq!(attributed(&[of_earlier_intervals]), ([250, 0], 660));
    }

    #[test]
    fn no_domain_exceeds_its_cpus_and_no_cpu_time_is_lost() {
        for seed in 0..2000 {
            let mut rng = Rng::new(seed);
            let n_cpus: Vec<usize> =
                (0..1 + rng.below(5)).map(|_| 1 + rng.below(4) as usize).collect();
            let domain = |rng: &mut Rng| {
                Some(rng.below(n_cpus.len() as u64 + 1) as usize).filter(|idx| *idx < n_cpus.len())
            };
            let tasks: Vec<TaskCpuTime> = (0..rng.below(20))
                .map(|_| TaskCpuTime {
                    own: Nanos(rng.below(2 * INTERVAL.0)),
                    unseen: Nanos(rng.below(3) * rng.below(INTERVAL.0)),
                    domain: domain(&mut rng),
                    domain_before: domain(&mut rng),
                    is_bound: rng.below(2) == 0,
                })
                .collect();
            let mut times = AttributedCpuTime::default();
            times.attribute(tasks.iter().copied(), n_cpus.iter().copied(), INTERVAL);
            for (sum, n) in times.by_domain.iter().zip(&n_cpus) {
                assert!(sum.0 <= INTERVAL.0 * *n as u64, "seed {seed}: {times:?}");
            }
            let used: u64 = tasks.iter().map(|task| task.own.0 + task.unseen.0).sum();
            let sum: u64 = times.by_domain.iter().map(|time| time.0).sum();
            assert_eq!(sum + times.unattributed.0, used, "seed {seed}");
        }
    }
}
