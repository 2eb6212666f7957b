//! Tasks that may use some CPUs of a kind only.
//!
//! ```text
//!   4-7: 1 task ── 4-5: 3 tasks ── 4: 1 task       2 of the 4 tasks on 4-5 run at once, and 3 of all 5 tasks
//! ```
//!
//! The tasks of a set and of its subsets run on the CPUs of the set. For nested and for separate sets the numbers of busy
//! CPUs are exact. Of sets that overlap otherwise, at most the CPUs of all of them are busy.

use base::CpuSet;

use crate::core_kinds::CoreKind;

/// The CPU sets of a kind with restricted tasks. Sets stay without tasks.
#[derive(Clone, Debug, Default)]
pub(super) struct RestrictedTasks {
    sets: Vec<TaskSet>,
    groups: Vec<Group>,
}

#[derive(Clone, Debug)]
struct TaskSet {
    cpus: CpuSet,
    n_cores: u64,
    n_tasks: u64,
    /// The smallest superset.
    superset: Option<usize>,
}

/// Sets that overlap, directly or by others.
#[derive(Clone, Debug)]
struct Group {
    /// The sets by their number of CPUs, so that a set is after its subsets.
    sets: Vec<usize>,
    cpus: CpuSet,
    n_cores: u64,
}

/// What restricted tasks occupy.
#[derive(Clone, Debug, Default)]
pub(super) struct Occupied {
    pub n_tasks: u64,
    /// Number of cores, if each task occupies one. An upper bound: separate sets that share a core (SMT siblings) count
    /// it once each.
    pub n_cores: u64,
    /// Number of CPUs, if each task occupies one.
    pub n_cpus: u64,
    /// Sum over the tasks of the logarithm of the number of tasks on the CPU of each.
    pub log_shared: f64,
}

impl RestrictedTasks {
    pub fn add(&mut self, kind: &CoreKind, cpus: &CpuSet, n_tasks: u64) {
        let idx = self.position(cpus).unwrap_or_else(|| self.insert(kind, cpus));
        self.sets[idx].n_tasks += n_tasks;
    }

    pub fn subtract(&mut self, cpus: &CpuSet, n_tasks: u64) {
        if let Some(idx) = self.position(cpus) {
            self.sets[idx].n_tasks -= n_tasks;
        }
    }

    fn position(&self, cpus: &CpuSet) -> Option<usize> {
        self.sets.iter().position(|set| set.cpus == *cpus)
    }

    /// Inserts a set without tasks. Groups that it overlaps are joined.
    fn insert(&mut self, kind: &CoreKind, cpus: &CpuSet) -> usize {
        let idx = self.sets.len();
        let n_cores = kind.n_cores_of(cpus);
        self.sets.push(TaskSet { cpus: cpus.clone(), n_cores, n_tasks: 0, superset: None });
        let (mut sets, mut all) = (vec![idx], cpus.clone());
        for group in self.groups.extract_if(.., |group| group.cpus.intersects(cpus)) {
            sets.extend(group.sets);
            all = all.or(&group.cpus);
        }
        sets.sort_by_key(|set| (self.sets[*set].cpus.len(), *set));
        for (at, set) in sets.iter().enumerate() {
            let of = &self.sets[*set].cpus;
            let superset =
                sets[at + 1..].iter().find(|larger| of.is_subset(&self.sets[**larger].cpus));
            self.sets[*set].superset = superset.copied();
        }
        let n_cores = kind.n_cores_of(&all);
        self.groups.push(Group { sets, cpus: all, n_cores });
        idx
    }

    /// Returns what the tasks occupy, if the number of tasks of a CPU set changes.
    pub fn occupied(&self, kind: &CoreKind, change: Option<(&CpuSet, i64)>) -> Occupied {
        let Some((cpus, more)) = change else {
            return self.occupied_by(|set| self.sets[set].n_tasks);
        };
        let Some(changed) = self.position(cpus) else {
            let mut with = self.clone();
            with.insert(kind, cpus);
            return with.occupied(kind, change);
        };
        self.occupied_by(|set| {
            let more = if set == changed { more } else { 0 };
            self.sets[set].n_tasks.saturating_add_signed(more)
        })
    }

    fn occupied_by(&self, n_tasks: impl Fn(usize) -> u64) -> Occupied {
        let mut all = Occupied::default();
        // CPUs and cores that the tasks of the subsets of each set occupy.
        let mut inside = vec![Occupied::default(); self.sets.len()];
        for group in &self.groups {
            let mut of_group = Occupied::default();
            for &idx in &group.sets {
                let set = &self.sets[idx];
                let mut of_set = std::mem::take(&mut inside[idx]);
                of_set.add_tasks(n_tasks(idx), (&set.cpus, set.n_cores));
                set.superset.map_or(&mut of_group, |superset| &mut inside[superset]).add(&of_set);
            }
            of_group.add_tasks(0, (&group.cpus, group.n_cores));
            all.add(&of_group);
        }
        all
    }
}

impl Occupied {
    fn add(&mut self, other: &Occupied) {
        self.n_tasks += other.n_tasks;
        self.n_cores += other.n_cores;
        self.n_cpus += other.n_cpus;
        self.log_shared += other.log_shared;
    }

    /// Adds tasks of a set, and limits the tasks of its subsets to the set.
    fn add_tasks(&mut self, n_tasks: u64, (cpus, n_cores): (&CpuSet, u64)) {
        let n_cpus = cpus.len() as u64;
        self.n_tasks += n_tasks;
        self.n_cores = (self.n_cores + n_tasks).min(n_cores);
        self.n_cpus = (self.n_cpus + n_tasks).min(n_cpus);
        let separate = self.log_shared + log_shared_by(n_tasks, n_cpus);
        self.log_shared = separate.max(log_shared_by(self.n_tasks, n_cpus));
    }
}

/// Returns the sum over `n_tasks` tasks that share CPUs equally of the logarithm of the number of tasks on each CPU.
fn log_shared_by(n_tasks: u64, n_cpus: u64) -> f64 {
    n_tasks as f64 * libm::log((n_tasks as f64 / n_cpus as f64).max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two cores of two siblings, with these numbers of tasks by CPU set.
    fn occupied(sets: &[(&str, u64)]) -> Occupied {
        let kind = CoreKind::test(1024, "0-3", 2, 1250);
        let mut tasks = RestrictedTasks::default();
        for (cpus, n_tasks) in sets {
            tasks.add(&kind, &cpus.parse().expect("CPUs"), *n_tasks);
        }
        tasks.occupied(&kind, None)
    }

    #[test]
    fn tasks_with_overlapping_cpu_sets_occupy_at_most_their_cores() {
        assert_eq!(occupied(&[("0", 5)]).n_cores, 1);
        assert_eq!(occupied(&[("0-1", 2)]).n_cores, 1, "siblings of one core");
        assert_eq!(occupied(&[("0", 1), ("1", 1)]).n_cores, 2, "separate sets: an upper bound");
        assert_eq!(occupied(&[("0", 2), ("0,2", 2)]).n_cores, 2);
        assert_eq!(occupied(&[("0", 5), ("0-3", 1)]).n_cores, 2);
        assert_eq!(
            occupied(&[("0", 1), ("2", 1), ("0-3", 5)]).n_cores,
            2,
            "joined by the third set"
        );
        assert_eq!(occupied(&[("0-1", 0), ("2", 1)]).n_cores, 1);
        assert_eq!(occupied(&[("0-3", 0), ("0-1", 2), ("0", 1)]).n_cores, 1, "nested");
    }

    #[test]
    fn siblings_are_separate_cpus_of_one_core() {
        assert_eq!(occupied(&[("0-1", 2)]).n_cpus, 2);
        assert_eq!(occupied(&[("0-1", 4), ("1-2", 4)]).n_cpus, 3);
    }

    #[test]
    fn tasks_of_overlapping_sets_share_their_cpus() {
        let log = |n: u64, each: f64| n as f64 * libm::log(each);
        assert_eq!(occupied(&[("0-1", 2)]).log_shared, 0.0);
        assert_eq!(occupied(&[("0-1", 4)]).log_shared, log(4, 2.0));
        assert_eq!(occupied(&[("0-1", 4), ("2-3", 6)]).log_shared, log(4, 2.0) + log(6, 3.0));
        assert_eq!(occupied(&[("0-1", 3), ("0-2", 3)]).log_shared, log(6, 2.0));
        assert_eq!(
            occupied(&[("0", 5), ("0-3", 1)]).log_shared,
            log(5, 5.0),
            "the sixth uses another CPU"
        );
    }
}
