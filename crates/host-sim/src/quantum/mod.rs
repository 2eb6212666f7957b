//! The quantum grain: one task runs on each CPU, for a slice; the others wait in queues.
//!
//! ```text
//!   fluid model   jobs · pages · caches · memory · placement and load balancing of the kernel model
//!       │ a task arrived, left                      ▲ runs, stops, migrates
//!       ▼                                           │
//!   queues        per CPU or per LLC domain: virtual time, slices, preemption at wake-up
//! ```
//!
//! Everything but the running task of each CPU is the fluid model: the speed of the running tasks follows from its
//! physics, and the kernel model selects CPUs and moves waiting tasks. Load balancing takes a waiting task when a CPU
//! becomes idle (work stealing); with one queue per LLC domain, the CPUs of the domain take tasks from their queue, and
//! load balancing works between the domains.
//!
//! Events at one instant have this order: those of the fluid model, then the ends of slices and switches, by CPU.
//! During a switch the CPU is busy and no task progresses. The cost includes everything that a switch costs, also the
//! refilling of private caches, and occurs if the CPU ran another task before.
//!
//! With equal tasks and without costs of switches, the grain converges to the fluid model for short slices. It does not
//! with unlike tasks that load the memory: tasks that run at the same time wait for each other, which the fluid model
//! averages.

mod fair_queue;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use topology::QueueScope;

use crate::fluid::{CpuSharing, Fluid, FluidGrain, QueueChange};
use crate::frame::{CpuTimers, Grain, MachineSettings, NEVER, QuantumSettings};
use crate::hardware::Hardware;
use crate::variation::VariationStreams;

pub(crate) use fair_queue::FairQueue;
use fair_queue::{Entry, TaskQueue, VirtualTask};

/// An event of the quantum grain.
#[derive(Clone, Copy, Debug)]
pub(crate) enum QuantumEvent<E> {
    /// An event of the fluid model.
    Fluid(E),
    /// A slice or a switch of a CPU ends.
    Timer(usize),
}

/// A machine with one running task per CPU, and queues of the kind `Q`.
#[derive(Debug)]
pub(crate) struct Quantum<Q> {
    fluid: Fluid,
    settings: QuantumSettings,
    domains: Vec<Domain<Q>>,
    domain_of: Vec<usize>,
    cpus: Vec<CpuSlot>,
    /// State of each task, by index in the fluid model.
    tasks: Vec<TaskSlot>,
    timers: CpuTimers,
    /// Domains with changed queues.
    changed: Vec<usize>,
}

/// CPUs with one queue.
#[derive(Debug)]
struct Domain<Q> {
    cpus: Vec<usize>,
    queue: Q,
    is_changed: bool,
    /// Tasks that arrived since the last dispatch and may preempt running tasks.
    arrived: Vec<usize>,
}

/// Activity of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Activity {
    #[default]
    Idle,
    /// The switch to a task ends at this time.
    Switching(usize, u64),
    /// A task has run since this time.
    Running(usize, u64),
}

#[derive(Clone, Copy, Debug, Default)]
struct CpuSlot {
    activity: Activity,
    /// The task that ran last, with its generation.
    last: Option<(usize, u64)>,
}

/// Place of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// Not runnable.
    #[default]
    Away,
    /// In the queue of a domain.
    Waiting,
    /// Selected by a CPU, running or after the switch.
    On(usize),
}

#[derive(Clone, Copy, Debug, Default)]
struct TaskSlot {
    generation: u64,
    place: Place,
    /// The last domain of the task.
    domain: usize,
    virtual_task: VirtualTask,
    /// Charged CPU time in nanoseconds.
    charged_ns: f64,
}

impl<Q: TaskQueue> Quantum<Q> {
    /// Returns a machine without jobs.
    pub fn new(
        hardware: Arc<Hardware>,
        machine: MachineSettings,
        settings: QuantumSettings,
        variation: VariationStreams,
    ) -> Self {
        let n_cpus = hardware.cpus.len();
        let (sharing, groups): (_, Vec<Vec<usize>>) = match settings.queue {
            QueueScope::Cpu => (CpuSharing::OneTask, (0..n_cpus).map(|cpu| vec![cpu]).collect()),
            QueueScope::Llc => {
                let caches = hardware.caches.iter().map(|cache| cache.cpus.clone());
                (CpuSharing::OneTaskPerLlcQueue, caches.collect())
            }
        };
        let mut domain_of = vec![0; n_cpus];
        for (domain, cpus) in groups.iter().enumerate() {
            cpus.iter().for_each(|&cpu| domain_of[cpu] = domain);
        }
        let domain = |cpus| Domain {
            cpus,
            queue: Q::new(settings.slice_ns),
            is_changed: false,
            arrived: Vec::new(),
        };
        Quantum {
            fluid: Fluid::new(hardware, machine, variation).with_sharing(sharing),
            settings,
            domains: groups.into_iter().map(domain).collect(),
            domain_of,
            cpus: vec![CpuSlot::default(); n_cpus],
            tasks: Vec::new(),
            timers: CpuTimers::new(n_cpus),
            changed: Vec::new(),
        }
    }

    /// Applies the changes of the run queues since the last call: every CPU that may run a waiting task runs one.
    fn dispatch(&mut self) {
        while self.fluid.has_queue_changes() || !self.changed.is_empty() {
            for change in self.fluid.take_queue_changes() {
                match change {
                    QueueChange::Arrived { task, cpu } => self.arrives(task, cpu),
                    QueueChange::Left { task, cpu } => self.leaves(task, cpu),
                    QueueChange::Opened { cpu } => self.mark_changed(self.domain_of[cpu]),
                }
            }
            let Some(domain) = self.changed.pop() else { continue };
            self.domains[domain].is_changed = false;
            self.fill_idle_cpus(domain);
            self.preempt(domain);
            self.set_timers(domain);
        }
    }

    fn mark_changed(&mut self, domain: usize) {
        if !std::mem::replace(&mut self.domains[domain].is_changed, true) {
            self.changed.push(domain);
        }
    }

    /// Adds a runnable task to the queue of a CPU.
    fn arrives(&mut self, idx: usize, cpu: usize) {
        let domain = self.domain_of[cpu];
        self.advance_clock(domain);
        if self.tasks.len() <= idx {
            self.tasks.resize(idx + 1, TaskSlot::default());
        }
        let task = self.fluid.task(idx);
        let slot = &mut self.tasks[idx];
        let is_new = slot.generation != task.generation();
        let entry = match is_new {
            true => Entry::New,
            false => {
                Entry::From(slot.virtual_task.vruntime - self.domains[slot.domain].queue.clock())
            }
        };
        if is_new {
            *slot = TaskSlot { generation: task.generation(), ..TaskSlot::default() };
        }
        (slot.place, slot.domain) = (Place::Waiting, domain);
        slot.charged_ns = task.cpu_ns;
        slot.virtual_task = VirtualTask { idx, weight: task.weight, ..slot.virtual_task };
        self.domains[domain].queue.add(&mut slot.virtual_task, entry);
        if !is_new {
            self.domains[domain].arrived.push(idx);
        }
        self.mark_changed(domain);
    }

    /// Removes a task that is no longer runnable on a CPU.
    fn leaves(&mut self, idx: usize, cpu: usize) {
        match std::mem::take(&mut self.tasks[idx].place) {
            Place::Away => {}
            Place::Waiting => {
                let slot = &self.tasks[idx];
                self.domains[slot.domain].queue.remove(&slot.virtual_task);
            }
            Place::On(own) => {
                self.charge(idx);
                self.cpus[own].activity = Activity::Idle;
                self.timers.set(own, None);
            }
        }
        self.mark_changed(self.domain_of[cpu]);
    }

    /// Charges the CPU time of a task since the last call.
    fn charge(&mut self, idx: usize) {
        let (task, slot) = (self.fluid.task(idx), &mut self.tasks[idx]);
        if task.generation() == slot.generation {
            let cpu_ns = (task.cpu_ns - slot.charged_ns).max(0.0);
            slot.charged_ns = task.cpu_ns;
            self.domains[slot.domain].queue.charge(&mut slot.virtual_task, cpu_ns);
        }
    }

    /// Charges the running tasks of a domain, and advances its clock.
    fn advance_clock(&mut self, domain: usize) {
        let mut least = f64::INFINITY;
        for at in 0..self.domains[domain].cpus.len() {
            let cpu = self.domains[domain].cpus[at];
            match self.cpus[cpu].activity {
                Activity::Idle => continue,
                Activity::Switching(idx, _) => {
                    least = least.min(self.tasks[idx].virtual_task.vruntime);
                }
                Activity::Running(idx, _) => {
                    self.fluid.update_cpu(cpu);
                    self.charge(idx);
                    least = least.min(self.tasks[idx].virtual_task.vruntime);
                }
            }
        }
        self.domains[domain].queue.advance_clock(least);
    }

    /// Runs waiting tasks on the idle CPUs of a domain: each on its own CPU if it is idle.
    fn fill_idle_cpus(&mut self, domain: usize) {
        loop {
            let is_idle = |cpu: &usize| self.cpus[*cpu].activity == Activity::Idle;
            let idle: Vec<usize> =
                self.domains[domain].cpus.iter().copied().filter(is_idle).collect();
            let fluid = &self.fluid;
            let target = |idx: usize| {
                let own = fluid.task(idx).cpu;
                let mut open = idle.iter().copied().filter(|&cpu| fluid.may_run(idx, cpu));
                match idle.contains(&own) && fluid.may_run(idx, own) {
                    true => Some(own),
                    false => open.next(),
                }
            };
            let first = match idle.is_empty() {
                true => None,
                false => self.domains[domain].queue.first(|idx| target(idx).is_some()),
            };
            let Some((idx, cpu)) = first.and_then(|idx| Some((idx, target(idx)?))) else { return };
            self.switch_to(idx, cpu);
        }
    }

    /// Lets tasks that arrived preempt the running task that has received most.
    fn preempt(&mut self, domain: usize) {
        let arrived = std::mem::take(&mut self.domains[domain].arrived);
        let preempts = self.settings.wakeup_preemption;
        for idx in arrived.into_iter().filter(|_| preempts) {
            let TaskSlot { place, domain: own, virtual_task, .. } = self.tasks[idx];
            if place != Place::Waiting || own != domain {
                continue;
            }
            let candidates = self.domains[domain].cpus.iter().filter_map(|&cpu| {
                let Activity::Running(running, _) = self.cpus[cpu].activity else { return None };
                let running = self.tasks[running].virtual_task;
                let is_open = self.fluid.may_run(idx, cpu)
                    && self.domains[domain].queue.preempts(&virtual_task, &running);
                is_open.then_some((cpu, running))
            });
            let most = candidates.max_by(|(cpu, one), (other_cpu, other)| {
                one.vruntime.total_cmp(&other.vruntime).then(other_cpu.cmp(cpu))
            });
            if let Some((cpu, running)) = most {
                self.stop(running.idx, cpu);
                self.switch_to(idx, cpu);
                self.mark_changed(domain); // The stopped task may run on an idle CPU.
            } else if self.is_switching(domain) {
                self.domains[domain].arrived.push(idx); // The end of the switch is the next attempt.
            }
        }
    }

    fn is_switching(&self, domain: usize) -> bool {
        let mut cpus = self.domains[domain].cpus.iter();
        cpus.any(|&cpu| matches!(self.cpus[cpu].activity, Activity::Switching(..)))
    }

    /// Stops the running task of a CPU, which then waits.
    fn stop(&mut self, idx: usize, cpu: usize) {
        self.fluid.stop_running(cpu);
        self.charge(idx);
        self.cpus[cpu].activity = Activity::Idle;
        self.timers.set(cpu, None);
        let slot = &mut self.tasks[idx];
        slot.place = Place::Waiting;
        self.domains[slot.domain].queue.add(&mut slot.virtual_task, Entry::Again);
    }

    /// Switches an idle CPU to a waiting task of its domain.
    fn switch_to(&mut self, idx: usize, cpu: usize) {
        let slot = &mut self.tasks[idx];
        self.domains[slot.domain].queue.remove(&slot.virtual_task);
        slot.place = Place::On(cpu);
        let task = (idx, slot.generation);
        let until = self.fluid.now() + self.settings.switch_cost_ns;
        let is_other = self.cpus[cpu].last.replace(task) != Some(task);
        self.cpus[cpu].activity = Activity::Switching(idx, until);
        if self.fluid.task(idx).cpu != cpu {
            self.fluid.migrate_in_queue(idx, cpu);
        }
        // If its job was OOM-killed in this call, the task leaves the CPU with the next change.
        if !is_other || self.settings.switch_cost_ns == 0 {
            self.run(idx, cpu);
        }
    }

    fn run(&mut self, idx: usize, cpu: usize) {
        self.cpus[cpu].activity = Activity::Running(idx, self.fluid.now());
        self.fluid.run(idx, cpu);
    }

    /// Sets the timers of the CPUs of a domain. A slice ends only if another task waits; a task that ran alone has begun
    /// a new slice at each end.
    fn set_timers(&mut self, domain: usize) {
        let is_contended = 0 < self.domains[domain].queue.n_waiting();
        let now = self.fluid.now();
        for at in 0..self.domains[domain].cpus.len() {
            let cpu = self.domains[domain].cpus[at];
            let timer = match self.cpus[cpu].activity {
                Activity::Idle => None,
                Activity::Switching(_, until) => Some(until),
                Activity::Running(..) if is_contended && self.timers.of(cpu) != NEVER => continue,
                Activity::Running(idx, since) => {
                    let slice = self.domains[domain].queue.slice_ns(&self.tasks[idx].virtual_task);
                    let n_over = (now - since) / slice;
                    let since = since + n_over * slice;
                    self.cpus[cpu].activity = Activity::Running(idx, since);
                    is_contended.then_some(since + slice)
                }
            };
            self.timers.set(cpu, timer);
        }
    }

    /// Handles the end of a slice or of a switch.
    fn timer(&mut self, cpu: usize) {
        let domain = self.domain_of[cpu];
        match self.cpus[cpu].activity {
            Activity::Idle => return,
            Activity::Switching(idx, _) => self.run(idx, cpu),
            Activity::Running(idx, _) => {
                self.advance_clock(domain);
                let (fluid, queue) = (&self.fluid, &self.domains[domain].queue);
                let first = queue.first(|waiting| fluid.may_run(waiting, cpu));
                let ended = self.tasks[idx].virtual_task;
                let is_next =
                    |&next: &usize| queue.is_before(&self.tasks[next].virtual_task, &ended);
                match first.filter(is_next) {
                    Some(next) => {
                        self.stop(idx, cpu);
                        self.switch_to(next, cpu);
                    }
                    None => self.cpus[cpu].activity = Activity::Running(idx, fluid.now()),
                }
            }
        }
        self.mark_changed(domain);
    }
}

impl<Q: TaskQueue> Grain for Quantum<Q> {
    type Event = QuantumEvent<<Fluid as Grain>::Event>;

    fn now(&self) -> u64 {
        self.fluid.now()
    }

    fn set_now(&mut self, now: u64) {
        self.fluid.set_now(now);
    }

    fn next_event(&mut self) -> Option<u64> {
        loop {
            self.dispatch();
            let next = Grain::next_event(&mut self.fluid);
            // The solution of the rates may OOM-kill a job, which frees CPUs.
            if !self.fluid.has_queue_changes() {
                let first = next.unwrap_or(NEVER).min(self.timers.first().0);
                return Some(first).filter(|&at| at != NEVER);
            }
        }
    }

    fn take_event(&mut self, at: u64) -> Option<Self::Event> {
        self.dispatch();
        if let Some(event) = self.fluid.take_event(at) {
            return Some(QuantumEvent::Fluid(event));
        }
        let (first, cpu) = self.timers.first();
        (first <= at).then(|| {
            self.timers.set(cpu, None);
            QuantumEvent::Timer(cpu)
        })
    }

    fn handle(&mut self, event: Self::Event) {
        match event {
            QuantumEvent::Fluid(event) => self.fluid.handle(event),
            QuantumEvent::Timer(cpu) => {
                self.fluid.count_event();
                self.timer(cpu);
            }
        }
    }

    fn has_notices(&self) -> bool {
        self.fluid.has_notices()
    }
}

impl<Q: TaskQueue> FluidGrain for Quantum<Q> {
    fn fluid(&self) -> &Fluid {
        &self.fluid
    }

    fn fluid_mut(&mut self) -> &mut Fluid {
        &mut self.fluid
    }

    /// Checks that each CPU with runnable tasks runs one of them or switches to one, that the others are in the queue of
    /// its domain, and that no slice is exceeded while a task waits.
    fn check_own(&self) -> Result<(), String> {
        if self.fluid.has_queue_changes() || !self.changed.is_empty() {
            return Ok(()); // The host has changed the machine, and no time has passed since then.
        }
        for (domain_idx, domain) in self.domains.iter().enumerate() {
            let mut n_runnable = 0;
            let mut n_selected = 0;
            for &cpu in &domain.cpus {
                n_runnable += self.fluid.runnable_on(cpu).len();
                let running = match self.cpus[cpu].activity {
                    Activity::Idle => None,
                    Activity::Switching(..) => {
                        n_selected += 1;
                        None
                    }
                    Activity::Running(idx, since) => {
                        n_selected += 1;
                        let slice = domain.queue.slice_ns(&self.tasks[idx].virtual_task);
                        let ran_ns = self.fluid.now() - since;
                        if slice < ran_ns && 0 < domain.queue.n_waiting() {
                            return Err(format!(
                                "a task has run for {ran_ns} ns on CPU {cpu}, its slice is {slice} ns"
                            ));
                        }
                        Some(idx)
                    }
                };
                if running != self.fluid.running_on(cpu) {
                    return Err(format!("the running task of CPU {cpu} is not the selected task"));
                }
            }
            let n_waiting = domain.queue.n_waiting();
            if n_runnable != n_selected + n_waiting {
                return Err(format!(
                    "queue {domain_idx} has {n_waiting} waiting and {n_selected} selected tasks, but {n_runnable} are runnable"
                ));
            }
            let idle = domain.cpus.iter().filter(|&&cpu| self.cpus[cpu].activity == Activity::Idle);
            for &cpu in idle {
                if let Some(idx) = domain.queue.first(|idx| self.fluid.may_run(idx, cpu)) {
                    let tid = self.fluid.task(idx).tid;
                    return Err(format!("thread {tid} waits, but CPU {cpu} of its queue is idle"));
                }
            }
        }
        Ok(())
    }
}
