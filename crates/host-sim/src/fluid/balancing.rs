//! Load balancing: the times of the attempts, and the task that migrates. The model of the kernel ([`crate::kernel`])
//! selects the CPUs.
//!
//! ```text
//!   a CPU becomes idle  ─► it pulls a task at once
//!   a run queue changes ─► attempts between all CPUs, and among the busy CPUs of its domains, until nothing changes
//! ```

use super::cpus::CpuState;
use super::events::FluidEvent;
use super::job_map::JobMap;
use super::jobs::FluidJob;
use super::pages::MemoryState;
use super::time_slices::CpuSharing;
use super::{Fluid, Task};
use crate::hardware::Hardware;
use crate::kernel::{BusyTasks, Locality, TaskPull};

/// Balancing state of the busy CPUs of a domain.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BusyBalancing {
    /// Whether an event is scheduled.
    is_due: bool,
    /// Number of remaining attempts. A change resets it.
    attempts_left: u32,
}

/// Number of balancing attempts after a change. It is large enough that running tasks can be moved after failed
/// attempts.
const BALANCE_TRIES: u32 = 6;
/// Number of balancing attempts of the busy CPUs of a domain after a change. The load of a task (1024) is halved with
/// each attempt after the first, until it is zero.
const BUSY_TRIES: u32 = 12;
/// Limits of the milliseconds between two attempts. Between them, the interval in milliseconds is the number of CPUs of
/// the machine. The kernel has the number of CPUs of the domain (`get_sd_balance_interval`).
const BALANCE_MS_MIN: u64 = 4;
const BALANCE_MS_MAX: u64 = 64;

impl Fluid {
    /// Pulls a task from another CPU to an idle CPU.
    pub(super) fn balance_newly_idle(&mut self, cpu: usize) {
        if !self.cpus[cpu].tasks.is_empty() || !self.kernel.online[cpu] {
            return;
        }
        let waiting = |from: usize| self.last_movable(from, cpu, false).is_some();
        let running = |from: usize| self.last_movable(from, cpu, true).is_some();
        let pull = self.kernel.pull_idle(cpu, &waiting);
        if let Some(pull) = pull.or_else(|| self.kernel.pull_to_larger(cpu, &running)) {
            self.pull(pull);
        }
    }

    fn last_movable(&self, from: usize, to: usize, running_too: bool) -> Option<usize> {
        let shares_queue = !running_too && self.sharing.is_one_queue(&self.hardware, from, to);
        let last = movable((&self.cpus[from], &self.tasks), to, running_too).next_back();
        last.filter(|_| !shares_queue)
    }

    fn pull(&mut self, pull: TaskPull) {
        if let Some(idx) = self.last_movable(pull.from, pull.to, pull.running_too) {
            self.migrate(idx, pull.to);
        }
    }

    /// Schedules balancing attempts after a change of the run queues.
    pub(super) fn schedule_balance(&mut self) {
        if self.balance_left == 0 {
            self.add_attempt();
        }
        self.balance_left = BALANCE_TRIES;
    }

    fn add_attempt(&mut self) {
        let ms = (self.cpus.len() as u64).clamp(BALANCE_MS_MIN, BALANCE_MS_MAX);
        self.events.add(self.now + ms * 1_000_000, FluidEvent::Balance);
    }

    /// Handles a balancing attempt between all CPUs.
    pub(super) fn balance(&mut self) {
        let mut left = self.balance_left.saturating_sub(1);
        let before = (self.n_changes, self.kernel.n_failed_changes());
        // If the last attempt migrated no task and nothing has changed since then, this attempt is skipped; not with slices,
        // because another task may wait now.
        if self.is_sliced() || self.balanced_at != Some(before) {
            self.pull_all();
            self.waiting_since = match self.find_task_next_to_idle(false) {
                Some(_) => self.waiting_since.or(Some(self.now)),
                None => None,
            };
            let after = (self.n_changes, self.kernel.n_failed_changes());
            self.balanced_at = Some(after).filter(|_| before == after);
            // A migration of one level may unbalance another level; and a task that runs beside an idle CPU can only be
            // pulled after its slice.
            let may_wait = self.is_sliced() && self.find_task_next_to_idle(true).is_some();
            if before.0 != after.0 || may_wait {
                left = BALANCE_TRIES;
            }
        }
        self.balance_left = left;
        if 0 < left {
            self.add_attempt();
        }
    }

    fn pull_all(&mut self) {
        for _ in 0..self.cpus.len() {
            let (cpus, tasks) = (&self.cpus, &self.tasks);
            let (sharing, hardware) = (self.sharing, &self.hardware);
            let has_movable = |from: usize, to, running| {
                movable((&cpus[from], tasks), to, running).next_back().is_some()
                    && (running || !sharing.is_one_queue(hardware, from, to))
            };
            let pull = self.kernel.balance(&has_movable);
            let Some(pull) = pull else { break };
            self.pull(pull);
        }
    }

    /// For a CPU with several tasks, schedules balancing among the busy CPUs of its domains.
    pub(super) fn schedule_busy_balance(&mut self, cpu: usize) {
        if self.kernel.load.n_runnable[cpu] < 2 {
            return;
        }
        for &domain in self.kernel.domains_of(cpu) {
            let state = &mut self.busy_balancing[domain];
            state.attempts_left = BUSY_TRIES;
            if !std::mem::replace(&mut state.is_due, true) {
                let at = self.now + self.kernel.period_ns(domain);
                self.events.add(at, FluidEvent::BalanceBusy(domain));
            }
        }
    }

    /// Handles a balancing attempt among the busy CPUs of a domain.
    pub(super) fn balance_busy(&mut self, domain: usize) {
        self.busy_balancing[domain].attempts_left -= 1;
        let mut groups = self.kernel.busy_groups(domain);
        for group_idx in 0..groups.len() {
            let queues = BusyQueues {
                cpus: &self.cpus,
                tasks: &self.tasks,
                jobs: &self.jobs,
                pages: &self.pages,
                hardware: &self.hardware,
                sharing: self.sharing,
            };
            let pull = self.kernel.balance_busy((domain, group_idx), &groups, &queues);
            if let Some((idx, to)) = pull {
                self.migrate(idx, to);
                groups = self.kernel.busy_groups(domain);
            }
        }
        let continues =
            0 < self.busy_balancing[domain].attempts_left && self.kernel.has_shared_cpu(domain);
        self.busy_balancing[domain].is_due = continues;
        if continues {
            let at = self.now + self.kernel.period_ns(domain);
            self.events.add(at, FluidEvent::BalanceBusy(domain));
        }
    }
}

/// The run queues of busy CPUs, and the memory of their tasks.
struct BusyQueues<'a> {
    cpus: &'a [CpuState],
    tasks: &'a [Task],
    jobs: &'a JobMap<FluidJob>,
    pages: &'a MemoryState,
    hardware: &'a Hardware,
    sharing: CpuSharing,
}

impl BusyQueues<'_> {
    /// Returns the node with most of the memory of a task (`numa_preferred_nid`). Returns `None` until the memory has
    /// been scanned for the first time, and for jobs with several threads.
    fn preferred_node(&self, idx: usize) -> Option<usize> {
        let job = self.tasks[idx].job;
        let state = self.jobs.get(job)?;
        let is_known = state.tasks.len() == 1 && state.scan.is_scanned();
        is_known.then(|| self.pages.home(job)).flatten()
    }

    /// Returns whether a migration between two CPUs degrades the locality of a task (`migrate_degrades_locality`).
    fn degrades_locality(&self, idx: usize, (from, to): (usize, usize)) -> bool {
        let [from_node, to_node] = [from, to].map(|cpu| self.hardware.cpus[cpu].node);
        let part_on = |node: usize| self.pages.part_on(self.tasks[idx].job, node);
        match self.preferred_node(idx) {
            None => false,
            Some(node) if node == from_node => self.locality(from) != Locality::Local,
            Some(node) => node != to_node && part_on(to_node) < part_on(from_node),
        }
    }
}

impl BusyTasks for BusyQueues<'_> {
    fn movable(&self, (from, to): (usize, usize), keeps_local: bool) -> Option<usize> {
        let mut tasks = movable((&self.cpus[from], self.tasks), to, false);
        let task = tasks.find(|&idx| !(keeps_local && self.degrades_locality(idx, (from, to))));
        task.filter(|_| !self.sharing.is_one_queue(self.hardware, from, to))
    }

    fn locality(&self, cpu: usize) -> Locality {
        let own = self.hardware.cpus[cpu].node;
        let of_task = |&idx: &usize| match self.preferred_node(idx) {
            None => Locality::Unknown,
            Some(node) if node == own => Locality::Local,
            Some(_) => Locality::Displaced,
        };
        self.cpus[cpu].tasks.iter().map(of_task).min().unwrap_or(Locality::Local)
    }
}

/// Returns the tasks of a CPU that may migrate to another CPU, in order of arrival; none if the CPU has only one task.
/// With `running_too`, the running task and the only task may migrate too.
///
/// An idle CPU pulls the last of these tasks. A busy CPU pulls the first: the kernel takes the tail of a list, and the
/// task that ran last is the head of the list. Therefore tasks migrate in rotation.
fn movable<'a>(
    (from, all): (&'a CpuState, &'a [Task]),
    to: usize,
    running_too: bool,
) -> impl DoubleEndedIterator<Item = usize> + 'a {
    let is_crowded = 1 < from.tasks.len();
    let may_leave = move |idx: usize| running_too || (is_crowded && Some(idx) != from.running);
    from.tasks.iter().copied().filter(move |&idx| may_leave(idx) && all[idx].may_use(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_balancing_moves_no_running_task_unless_it_may() {
        let mut from = CpuState::default();
        (from.tasks, from.running) = (vec![0, 1], Some(0));
        let tasks = [Task::default(), Task::default()];
        assert_eq!(movable((&from, &tasks), 1, false).next(), Some(1));
        from.running = Some(1);
        assert_eq!(movable((&from, &tasks), 1, false).next(), Some(0));
        assert_eq!(movable((&from, &tasks), 1, false).next_back(), Some(0));
        assert_eq!(movable((&from, &tasks), 1, true).next_back(), Some(1));
    }
}
