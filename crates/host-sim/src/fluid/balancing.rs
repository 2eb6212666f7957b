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
use crate::kernel::{KeptTasks, KernelModel, Locality, RunQueues, TaskPull};

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
        self.pull(|kernel, queues| {
            kernel.pull_idle(cpu, queues).or_else(|| kernel.pull_to_larger(cpu, queues))
        });
    }

    /// Migrates a task by the pull that `find` returns. Returns whether it returns one.
    fn pull(
        &mut self,
        find: impl FnOnce(&mut KernelModel, &QueueViews<'_>) -> Option<TaskPull>,
    ) -> bool {
        let (kernel, queues) = self.kernel_and_queues();
        let Some(pull) = find(kernel, &queues) else { return false };
        if let Some(idx) = queues.movable(pull) {
            self.migrate(idx, pull.to);
        }
        true
    }

    fn kernel_and_queues(&mut self) -> (&mut KernelModel, QueueViews<'_>) {
        let queues = QueueViews {
            cpus: &self.cpus,
            tasks: &self.tasks,
            jobs: &self.jobs,
            pages: &self.pages,
            hardware: &self.hardware,
            sharing: self.sharing,
            has_preferred_nodes: self.settings.numa_balancing,
        };
        (&mut self.kernel, queues)
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
            if !self.pull(|kernel, queues| kernel.balance(queues)) {
                break;
            }
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
            if self.pull(|kernel, queues| kernel.balance_busy((domain, group_idx), &groups, queues))
            {
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

/// The run queues, and the memory of their tasks.
struct QueueViews<'a> {
    cpus: &'a [CpuState],
    tasks: &'a [Task],
    jobs: &'a JobMap<FluidJob>,
    pages: &'a MemoryState,
    hardware: &'a Hardware,
    sharing: CpuSharing,
    /// Whether NUMA balancing is on.
    has_preferred_nodes: bool,
}

impl QueueViews<'_> {
    /// Returns the preferred node of a task (`numa_preferred_nid`), if its memory has been scanned. Assumed: most NUMA
    /// hinting faults are on the node with most of the memory; for a thread of a job with several threads, on the node
    /// from which the thread used its memory before the last scan.
    fn preferred_node(&self, idx: usize) -> Option<usize> {
        let task = &self.tasks[idx];
        let state = self.jobs.get(task.job).filter(|_| self.has_preferred_nodes)?;
        if !state.scan.is_scanned() {
            return None;
        }
        match state.tasks.len() {
            1 => self.pages.home(task.job, self.hardware),
            _ => task.used_from,
        }
    }

    /// Returns whether a pull that keeps tasks keeps this one (`migrate_degrades_locality`). `is_local`: whether all tasks
    /// of the source CPU run on their preferred node.
    fn stays(&self, idx: usize, pull: TaskPull, is_local: bool) -> bool {
        let [from, to] = [pull.from, pull.to].map(|cpu| self.hardware.cpus[cpu].node);
        let Some(preferred) = self.preferred_node(idx).filter(|_| from != to) else { return false };
        let job = self.tasks[idx].job;
        if preferred == from || preferred == to || pull.keeps == KeptTasks::Local {
            return preferred == from && !is_local;
        }
        let has_one_thread = self.jobs.get(job).is_some_and(|state| state.tasks.len() == 1);
        has_one_thread && self.pages.part_on(job, to) < self.pages.part_on(job, from)
    }
}

impl RunQueues for QueueViews<'_> {
    fn movable(&self, pull: TaskPull) -> Option<usize> {
        let TaskPull { from, to, running_too, .. } = pull;
        if !running_too && self.sharing.is_one_queue(self.hardware, from, to) {
            return None;
        }
        let keeps = pull.keeps != KeptTasks::None;
        let is_local = keeps && self.locality(from) == Locality::Local;
        let stays = |idx: usize| keeps && self.stays(idx, pull, is_local);
        let mut tasks = movable((&self.cpus[from], self.tasks), to, running_too);
        match pull.is_first {
            true => tasks.find(|&idx| !stays(idx)),
            false => tasks.rfind(|&idx| !stays(idx)),
        }
    }

    fn has_preferred_nodes(&self) -> bool {
        self.has_preferred_nodes
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
    use super::super::tests::{bind, machine, script, start};
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

    /// Four jobs of 64 MiB, one on each CPU of two nodes of two CPUs. Their memory has been scanned once.
    #[test]
    fn locality_degrades_by_leaving_the_preferred_node_beside_a_displaced_task() {
        let mut fluid = machine("nodes=2 cores=2 mem=1G");
        fluid.settings.numa_balancing = true;
        let work = script(&fluid, 1e12, 0.0, 64);
        (0..4).for_each(|job| start(&mut fluid, job, &work, Some(job)));
        fluid.advance(3_000_000_000);
        let locality = |fluid: &mut Fluid, cpu| fluid.kernel_and_queues().1.locality(cpu);
        let moves = |fluid: &mut Fluid, from, to| {
            let pull = TaskPull { from, to, keeps: KeptTasks::WithMemory, ..TaskPull::default() };
            fluid.kernel_and_queues().1.movable(pull)
        };
        assert_eq!((0..4).map(|cpu| locality(&mut fluid, cpu)).min(), Some(Locality::Local));
        // Job 0 is displaced on CPU 2, beside job 2.
        bind(&mut fluid, 0, 2);
        fluid.bind(0, None);
        fluid.bind(2, None);
        assert_eq!(locality(&mut fluid, 2), Locality::Displaced);
        let at = |fluid: &Fluid, job: usize| fluid.jobs.get(job).expect("it runs").tasks[0];
        let (displaced, local) = (at(&fluid, 0), at(&fluid, 2));
        fluid.cpus[2].running = Some(local);
        assert_eq!(moves(&mut fluid, 2, 0), Some(displaced), "to its memory");
        fluid.cpus[2].running = Some(displaced);
        assert_eq!(moves(&mut fluid, 2, 0), None, "the local task stays");
        fluid.settings.numa_balancing = false;
        assert_eq!(locality(&mut fluid, 2), Locality::Unknown);
    }

    /// A job of 300 MiB on nodes of 256 MiB, beside a running job on the node with the smaller part of its memory.
    #[test]
    fn a_displaced_task_goes_only_to_an_idle_node_with_less_memory() {
        let mut fluid = machine("nodes=3 cores=1 mem=256M");
        fluid.settings.numa_balancing = true;
        let work = script(&fluid, 1e12, 0.0, 300);
        start(&mut fluid, 0, &work, Some(0));
        fluid.advance(6_000_000_000);
        let second = (1..3).find(|&node| 0.0 < fluid.pages.part_on(0, node)).expect("it spills");
        bind(&mut fluid, 0, second);
        fluid.bind(0, None);
        let small = script(&fluid, 1e12, 0.0, 1);
        start(&mut fluid, 1, &small, Some(second));
        fluid.cpus[second].running = fluid.jobs.get(1).map(|job| job.tasks[0]);
        let displaced = fluid.jobs.get(0).map(|job| job.tasks[0]);
        let mut moves = |to: usize, keeps: KeptTasks| {
            let pull = TaskPull { from: second, to, keeps, ..TaskPull::default() };
            fluid.kernel_and_queues().1.movable(pull)
        };
        assert_eq!(moves(0, KeptTasks::WithMemory), displaced, "to most of its memory");
        assert_eq!(moves(3 - second, KeptTasks::WithMemory), None);
        assert_eq!(moves(3 - second, KeptTasks::Local), displaced);
    }
}
