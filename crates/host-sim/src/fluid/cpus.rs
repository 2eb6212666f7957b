//! Who runs on which CPU: tasks come, go, share it by weight, and are settled for what they did.

use super::calm::Calm;
use super::events::Event;
use super::tasks::Doing;
use super::{Fluid, News, Task, TaskState};
use crate::kernel::Pull;

/// What runs on a CPU.
#[derive(Clone, Debug, Default)]
pub(super) struct CpuState {
    /// Tasks that run or wait, in the order of their coming.
    pub tasks: Vec<usize>,
    /// Their weights together.
    pub weight: f64,
    /// How many of these are no whole numbers.
    n_broken: usize,
    /// Without contention: those that wait for the end of their stretch ([`super::calm`]).
    pub calm: Calm,
    /// Up to when they are settled.
    pub settled: u64,
    /// When the stretches on it were reckoned last, something has changed since.
    pub is_stale: bool,
}

/// When the busy CPUs of a domain look at each other.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    /// There is an event for it.
    is_due: bool,
    /// Looks that are still taken, until something changes.
    n_left: u32,
}

/// The kernel evens out so often after a change before it leaves things as they are: as often as it
/// takes to give up on tasks that run.
const BALANCE_TRIES: u32 = 6;
/// The busy CPUs of a domain look at each other so often in vain before they leave things as they are: until
/// a task's load of 1024, halved with each look after the first, is none.
const ROUND_TRIES: u32 = 12;
/// Nanoseconds between two such looks on a machine of one CPU, growing with the CPUs as the kernel's
/// interval of a domain does (`get_sd_balance_interval`: the weight in milliseconds).
const BALANCE_NS: u64 = 1_000_000;
/// At most this many milliseconds, however large the machine.
const BALANCE_MS_MAX: u64 = 64;

/// Whole numbers up to here are added and taken away without rounding.
const WHOLE_MAX: f64 = (1u64 << 52) as f64;

fn is_broken(weight: f64) -> bool {
    libm::floor(weight) != weight || WHOLE_MAX < weight
}

impl CpuState {
    /// A task comes, behind the others.
    fn comes(&mut self, idx: usize, weight: f64) {
        self.tasks.push(idx);
        self.weight += weight;
        self.n_broken += usize::from(is_broken(weight));
    }

    /// A task goes. Of whole weights the sum is exact; others are summed anew, so that nothing is left of
    /// weights that are gone.
    fn goes(&mut self, idx: usize, all: &[Task]) {
        let Some(at) = self.tasks.iter().position(|&other| other == idx) else { return };
        self.tasks.remove(at);
        let weight = all[idx].weight;
        self.n_broken -= usize::from(is_broken(weight));
        match self.n_broken == 0 && !is_broken(weight) && self.weight < WHOLE_MAX {
            true => self.weight -= weight,
            false => self.sum(all),
        }
    }

    fn sum(&mut self, all: &[Task]) {
        self.weight = self.tasks.iter().map(|&idx| all[idx].weight).sum();
        let broken = self.tasks.iter().filter(|&&idx| is_broken(all[idx].weight));
        self.n_broken = broken.count();
    }
}

impl Fluid {
    /// Settles everything on a CPU up to now.
    pub(super) fn settle_cpu(&mut self, cpu: usize) {
        let state = &mut self.cpus[cpu];
        let passed = (self.now - state.settled) as f64;
        state.settled = self.now;
        if passed == 0.0 || state.tasks.is_empty() {
            return;
        }
        let weight = state.weight;
        state.calm.served += passed / weight;
        let eager = if self.settings.contention { &state.tasks } else { &state.calm.restless };
        // A copy: whoever touches memory when none is left is killed, and leaves the list meanwhile.
        let mut all = std::mem::take(&mut self.settling);
        all.extend(eager);
        for &idx in &all {
            let task = &self.tasks[idx];
            if task.state == TaskState::Runnable && task.cpu == cpu {
                let share = task.weight / weight;
                self.settle_task(idx, passed * share, passed * (1.0 - share));
            }
        }
        all.clear();
        self.settling = all;
    }

    pub(super) fn settle_task(&mut self, idx: usize, cpu_ns: f64, wait_ns: f64) {
        self.cpu_ns_given += cpu_ns;
        let task = &mut self.tasks[idx];
        task.wait_ns += wait_ns;
        let before = (task.done.reads, task.done.writes);
        let touched = task.run_ns(cpu_ns);
        let (reads, writes) = (task.done.reads - before.0, task.done.writes - before.1);
        let job = task.job;
        let cpu_node = self.hardware.cpus[task.cpu].node;
        self.count_lines(job, cpu_node, reads, writes);
        if 0.0 < touched {
            self.touch(job, cpu_node, touched);
        }
    }

    /// Settles every CPU.
    pub fn settle_all(&mut self) {
        for cpu in 0..self.cpus.len() {
            self.settle_cpu(cpu);
            self.settle_calm(cpu);
        }
    }

    /// A task joins the run queue of a CPU.
    pub(super) fn enqueue(&mut self, idx: usize, cpu: usize) {
        self.settle_cpu(cpu);
        if self.tasks[idx].state == TaskState::Ended {
            return; // A thread of its job found no memory.
        }
        self.tasks[idx].cpu = cpu;
        self.tasks[idx].state = TaskState::Runnable;
        self.n_changes += 1;
        self.cpus[cpu].comes(idx, self.tasks[idx].weight);
        self.comes_restless(idx, cpu);
        self.load.add(&self.hardware, cpu);
        self.warm_up(idx, self.hardware.cpus[cpu].cache);
        self.touched_cpu(cpu);
        self.balance_soon();
        self.look_round_soon(cpu);
    }

    /// A task leaves its run queue.
    pub(super) fn dequeue(&mut self, idx: usize) {
        let cpu = self.tasks[idx].cpu;
        self.n_changes += 1;
        self.settle_cpu(cpu);
        self.stir(idx);
        let state = &mut self.cpus[cpu];
        state.calm.leaves(idx);
        state.goes(idx, &self.tasks);
        if state.tasks.is_empty() {
            state.calm = Calm::default();
        }
        self.unlist(idx);
        self.load.remove(&self.hardware, cpu);
        self.touched_cpu(cpu);
        self.balance_soon();
    }

    /// What runs on a CPU has changed: its cache is to be solved again, and so are those of its siblings.
    pub(super) fn touched_cpu(&mut self, cpu: usize) {
        if !self.settings.contention {
            return self.touched_without_contention(cpu);
        }
        self.cpus[cpu].is_stale = true;
        let hardware = &self.hardware;
        self.solver.touch(hardware.cpus[cpu].cache);
        for &sibling in &hardware.cores[hardware.cpus[cpu].core] {
            self.solver.touch(hardware.cpus[sibling].cache);
        }
    }

    /// A task goes from one run queue to another.
    pub(super) fn migrate(&mut self, idx: usize, to: usize) {
        let from = self.tasks[idx].cpu;
        if from == to {
            return;
        }
        // Settled first: whoever finds no memory then is gone, maybe this task itself.
        self.settle_cpu(from);
        self.settle_cpu(to);
        if self.tasks[idx].state == TaskState::Ended {
            return;
        }
        self.dequeue(idx);
        self.enqueue(idx, to);
        self.count_migration(idx);
        if self.cpus[from].tasks.is_empty() {
            self.fell_idle(from);
        }
    }

    /// A task's share of its CPU against others is another.
    pub(super) fn reweigh(&mut self, idx: usize, weight: f64) {
        let cpu = self.tasks[idx].cpu;
        self.settle_cpu(cpu);
        self.stir(idx);
        self.tasks[idx].weight = weight;
        let state = &mut self.cpus[cpu];
        if state.tasks.contains(&idx) {
            state.sum(&self.tasks);
        }
        self.touched_cpu(cpu);
    }

    pub(super) fn count_migration(&mut self, idx: usize) {
        self.tasks[idx].n_migrations += 1;
        self.counts.migrations += 1;
    }

    /// When the first stretch on a CPU ends is reckoned anew.
    pub(super) fn reckon(&mut self, cpu: usize) {
        if !self.settings.contention {
            self.settle_cpu(cpu);
        }
        self.calm_down(cpu);
        let state = &self.cpus[cpu];
        let eager = if self.settings.contention { &state.tasks } else { &state.calm.restless };
        let ends = eager.iter().map(|&idx| {
            let task = &self.tasks[idx];
            task.stretch_ns() * state.weight / task.weight
        });
        let first = ends.fold(f64::INFINITY, f64::min).min(state.calm.first_ns(state.weight));
        // Rounded up, so that the stretch is over then; a task that never progresses has no event.
        let at = (first < 1e18).then(|| self.now + (libm::ceil(first) as u64).max(1));
        self.events.set_cpu(cpu, at);
        self.cpus[cpu].is_stale = false;
    }

    /// The first stretch on a CPU has ended.
    pub(super) fn stretch_ends(&mut self, cpu: usize) {
        self.settle_cpu(cpu);
        self.stir_those_through(cpu);
        let state = &self.cpus[cpu];
        let eager = if self.settings.contention { &state.tasks } else { &state.calm.restless };
        let mut all = std::mem::take(&mut self.stretching);
        all.extend(eager);
        for &idx in &all {
            self.touching_may_be_over(idx);
            if self.tasks[idx].is_through() && self.tasks[idx].state == TaskState::Runnable {
                self.stretch_of_task_ends(idx);
            }
        }
        all.clear();
        self.stretching = all;
        self.cpus[cpu].is_stale = true;
        self.solver.stale_cpus.push(cpu);
    }

    /// A task that has touched all its memory asks for other things from now on.
    fn touching_may_be_over(&mut self, idx: usize) {
        let task = &mut self.tasks[idx];
        let is_touching = task.doing() == Doing::Touching;
        if std::mem::replace(&mut task.was_touching, is_touching) && !is_touching {
            let cpu = task.cpu;
            self.touched_cpu(cpu);
        }
    }

    fn stretch_of_task_ends(&mut self, idx: usize) {
        let task = &mut self.tasks[idx];
        let is_over = task.left <= 1e-3;
        if !is_over {
            let (burst, sleep) = task.script.acts[task.act].sleeps.unwrap_or((f64::INFINITY, 0));
            task.burst_left = burst;
            self.sleep(idx, sleep);
            return;
        }
        task.act += 1;
        if task.act == task.script.acts.len() {
            self.task_ends(idx);
        } else {
            self.begin_act(idx);
        }
    }

    fn sleep(&mut self, idx: usize, ns: u64) {
        let cpu = self.tasks[idx].cpu;
        self.dequeue(idx);
        self.tasks[idx].state = TaskState::Sleeping;
        let ns = self.causes.sleep(ns).max(1);
        self.events.add(self.now + ns, Event::Wake(idx, self.tasks[idx].life));
        self.fell_idle(cpu);
    }

    /// A sleep is over.
    pub(super) fn wakes(&mut self, idx: usize, life: u64) {
        let task = &self.tasks[idx];
        if task.life != life || task.state != TaskState::Sleeping {
            return;
        }
        let (before, allowed) = (task.cpu, task.allowed.clone());
        let allowed = allowed.as_deref().map(Vec::as_slice);
        let cpu = self.kernel.wake(&self.hardware, &self.load, before, allowed);
        // Where nothing that it may use is online it goes anywhere, as in the kernel.
        let cpu = cpu.or_else(|| self.kernel.wake(&self.hardware, &self.load, before, None));
        let cpu = cpu.unwrap_or(before);
        self.enqueue(idx, cpu);
        if cpu != before {
            self.count_migration(idx);
        }
    }

    /// A CPU has nothing to do any more: it takes from others.
    pub(super) fn fell_idle(&mut self, cpu: usize) {
        if !self.cpus[cpu].tasks.is_empty() || !self.kernel.online[cpu] {
            return;
        }
        let takes = |from: usize| self.one_for(from, cpu, false).is_some();
        if let Some(pull) = self.kernel.pull_idle(&self.hardware, &self.load, cpu, &takes) {
            self.pull(pull);
        }
    }

    fn one_for(&self, from: usize, to: usize, running_too: bool) -> Option<usize> {
        one_for(&self.cpus[from], &self.tasks, to, running_too)
    }

    fn pull(&mut self, pull: Pull) {
        if let Some(idx) = self.one_for(pull.from, pull.to, pull.running_too) {
            self.migrate(idx, pull.to);
        }
    }

    /// Something changed, so that the kernel's next even-outs may find something to do.
    pub(super) fn balance_soon(&mut self) {
        if self.balance_left == 0 {
            let ms = (self.cpus.len() as u64).clamp(4, BALANCE_MS_MAX);
            self.events.add(self.now + ms * BALANCE_NS, Event::Balance);
        }
        self.balance_left = BALANCE_TRIES;
    }

    /// The kernel evens out.
    pub(super) fn even_out(&mut self) {
        self.balance_left = self.balance_left.saturating_sub(1);
        let left = self.balance_left;
        let before = (self.n_changes, self.kernel.n_failed_changes());
        // Where nothing changed since it found nothing it finds nothing again.
        if self.even_at != Some(before) {
            self.pull_all();
            self.waiting_since = match self.waits_beside_idle() {
                Some(_) => self.waiting_since.or(Some(self.now)),
                None => None,
            };
            let after = (self.n_changes, self.kernel.n_failed_changes());
            self.even_at = Some(after).filter(|_| before == after);
        }
        self.balance_left = left;
        if 0 < left {
            let ms = (self.cpus.len() as u64).clamp(4, BALANCE_MS_MAX);
            self.events.add(self.now + ms * BALANCE_NS, Event::Balance);
        }
    }

    fn pull_all(&mut self) {
        for _ in 0..self.cpus.len() {
            let (cpus, tasks) = (&self.cpus, &self.tasks);
            let takes =
                |from: usize, to, running| one_for(&cpus[from], tasks, to, running).is_some();
            let pull = self.kernel.even_out(&self.hardware, &self.load, &takes);
            let Some(pull) = pull else { break };
            self.pull(pull);
        }
    }

    /// Somebody came to a CPU: where he shares it, the domains that it belongs to will look at that.
    fn look_round_soon(&mut self, cpu: usize) {
        if self.load.running[cpu] < 2 {
            return;
        }
        for &domain in self.kernel.domains_of(cpu) {
            let round = &mut self.rounds[domain];
            round.n_left = ROUND_TRIES;
            if !std::mem::replace(&mut round.is_due, true) {
                let at = self.now + self.kernel.period_ns(domain);
                self.events.add(at, Event::CarryRound(domain));
            }
        }
    }

    /// The busy CPUs of a domain look at each other: who shares a CPU is carried round.
    pub(super) fn carry_round(&mut self, domain: usize) {
        self.rounds[domain].n_left -= 1;
        for here in 0..self.kernel.n_groups(domain) {
            let (cpus, tasks) = (&self.cpus, &self.tasks);
            let takes = |from: usize, to| first_for(&cpus[from], tasks, to).is_some();
            let pull = self.kernel.carry_round(&self.load, (domain, here), &takes);
            let Some(Pull { from, to, .. }) = pull else { continue };
            if let Some(idx) = first_for(&self.cpus[from], &self.tasks, to) {
                self.migrate(idx, to);
            }
        }
        let goes_on = 0 < self.rounds[domain].n_left && self.kernel.shares(domain, &self.load);
        self.rounds[domain].is_due = goes_on;
        if goes_on {
            let at = self.now + self.kernel.period_ns(domain);
            self.events.add(at, Event::CarryRound(domain));
        }
    }

    /// A CPU is unplugged, or comes back. What ran there goes elsewhere, even where it may not (as the
    /// kernel does when no CPU that a task may use is left).
    pub fn set_online(&mut self, cpu: usize, online: bool) {
        if self.kernel.online[cpu] == online {
            return;
        }
        self.kernel.online[cpu] = online;
        self.n_changes += 1;
        let hardware = self.hardware.clone();
        if online {
            self.load.set_online(&hardware, cpu, true);
            self.take_back(cpu);
            self.balance_soon();
            return self.fell_idle(cpu);
        }
        for idx in self.cpus[cpu].tasks.clone() {
            let allowed = self.tasks[idx].allowed.clone();
            let allowed = allowed.as_deref().map(Vec::as_slice);
            let cpu_for = |kernel: &mut crate::kernel::Kernel, allowed: Option<&[bool]>| {
                kernel.fork(&self.hardware, &self.load, cpu, allowed)
            };
            let to = cpu_for(&mut self.kernel, allowed);
            let to = to.or_else(|| cpu_for(&mut self.kernel, None));
            if let Some(to) = to {
                self.migrate(idx, to);
            }
        }
        self.load.set_online(&hardware, cpu, false);
    }

    /// Those that ran where they may not because this CPU was away return to it (as since Linux 6.2).
    fn take_back(&mut self, cpu: usize) {
        for other in 0..self.cpus.len() {
            for idx in self.cpus[other].tasks.clone() {
                let strays = |allowed: &std::sync::Arc<Vec<bool>>| !allowed[other] && allowed[cpu];
                if self.tasks[idx].allowed.as_ref().is_some_and(strays) {
                    self.migrate(idx, cpu);
                }
            }
        }
    }

    fn task_ends(&mut self, idx: usize) {
        let (job, cpu) = (self.tasks[idx].job, self.tasks[idx].cpu);
        self.dequeue(idx);
        self.tasks[idx].state = TaskState::Ended;
        if self.thread_gone(job) {
            self.tell(News::JobEnded { job, out_of_memory: false });
        }
        self.fell_idle(cpu);
    }
}

/// Of the tasks that share a CPU the one that came first and may go to another CPU: the kernel takes from
/// the end of a list whose beginning is who ran last, so that they go in turn.
fn first_for(from: &CpuState, tasks: &[Task], to: usize) -> Option<usize> {
    let may = |idx: &&usize| tasks[**idx].allowed.as_ref().is_none_or(|allowed| allowed[to]);
    from.tasks.iter().find(may).copied().filter(|_| 1 < from.tasks.len())
}

/// A task of a run queue that may go to a CPU: of those that wait, the one that came last.
fn one_for(from: &CpuState, tasks: &[Task], to: usize, running_too: bool) -> Option<usize> {
    if from.tasks.len() < 2 && !running_too {
        return None;
    }
    let may = |idx: &&usize| tasks[**idx].allowed.as_ref().is_none_or(|allowed| allowed[to]);
    from.tasks.iter().rev().find(may).copied()
}
