//! Without contention: tasks that nobody has to look at until their stretch ends.
//!
//! What a task gets of its CPU hangs on weights alone then. So a CPU keeps one clock, the nanoseconds that it
//! has given for each unit of weight, and a task that only runs has an end by that clock which no coming or
//! going of others changes:
//!
//! ```text
//!   served ───────────────┬────────►        served += passed / weights
//!                         │
//!   calm, by their end    ▼ next
//!                    a    b         c   …   a task has got (served now - served then) × its weight
//! ```
//!
//! Of an event only those are settled and solved that it is about, not all tasks of its CPU. Tasks that touch memory for the
//! first time, or pay for something, are restless: they are settled whenever their CPU is, as all are
//! with contention. This is the virtual time of fair queueing (Parekh and Gallager, 1993).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::tally::Tally;
use super::tasks::Doing;
use super::{Fluid, Task, TaskState};
use crate::physics::Behaviour;

/// The calm and the restless of a CPU.
#[derive(Clone, Debug, Default)]
pub(super) struct Calm {
    /// Nanoseconds that it has given for each unit of weight since it was idle.
    pub served: f64,
    /// By the bits of their end, which order as the ends do, since none is negative. Those that were stirred
    /// stand there until their turn comes.
    by_end: BinaryHeap<Reverse<(u64, usize)>>,
    /// The others, in the order of their coming.
    pub restless: Vec<usize>,
    /// How fast it was beside its siblings when its tasks were solved last.
    smt: f64,
}

/// Fewer entries are not worth leaving those out that were stirred.
const LEAST_SWEPT: usize = 64;

/// How a program runs alone on a CPU, and what that hangs on.
#[derive(Clone, Debug)]
pub(super) struct Alone {
    behaviour: Arc<Behaviour>,
    figures: [u64; N_FIGURES],
    /// Nanoseconds for 1000 instructions, and of a miss.
    ns: f64,
    miss_ns: f64,
    each: Tally,
}

const N_FIGURES: usize = 6;
/// So many are remembered: more than programs and kinds of CPUs that mostly run together.
const N_ALONE: usize = 64;

/// A calm task.
#[derive(Clone, Copy, Debug)]
pub(super) struct CalmTask {
    /// What had been served when it was settled last.
    from: f64,
    /// When that was.
    at: u64,
    /// Its end, by what is served.
    end: f64,
}

impl Calm {
    /// Nanoseconds to the first end.
    pub fn first_ns(&self, weight: f64) -> f64 {
        let first = self.by_end.peek().map(|Reverse((end, _))| f64::from_bits(*end));
        first.map_or(f64::INFINITY, |end| (end - self.served).max(0.0) * weight)
    }

    /// Leaves out those that have been stirred: at the top, and everywhere when most are.
    fn drop_stirred(&mut self, (cpu, n_here): (usize, usize), tasks: &[Task]) {
        let holds = |&(end, idx): &(u64, usize)| {
            let task = &tasks[idx];
            task.cpu == cpu && task.calm.is_some_and(|calm| calm.end.to_bits() == end)
        };
        while self.by_end.peek().is_some_and(|Reverse(first)| !holds(first)) {
            self.by_end.pop();
        }
        if LEAST_SWEPT.max(2 * n_here) < self.by_end.len() {
            self.by_end.retain(|Reverse(one)| holds(one));
        }
    }

    /// A restless task is gone.
    pub fn leaves(&mut self, idx: usize) {
        self.restless.retain(|other| *other != idx);
    }
}

impl Fluid {
    /// A task that came to a CPU is restless until that is reckoned.
    pub(super) fn comes_restless(&mut self, idx: usize, cpu: usize) {
        if !self.settings.contention {
            self.cpus[cpu].calm.restless.push(idx);
            self.solver.fresh.push(idx);
        }
    }

    /// A calm task is settled and restless from here on. Its CPU is settled.
    pub(super) fn stir(&mut self, idx: usize) {
        if self.tasks[idx].calm.is_none() {
            return;
        }
        self.settle_one(idx);
        self.tasks[idx].calm = None;
        self.cpus[self.tasks[idx].cpu].calm.restless.push(idx);
    }

    /// What a calm task did since it was settled last. Its CPU is settled.
    fn settle_one(&mut self, idx: usize) {
        let task = &self.tasks[idx];
        let Some(calm) = task.calm else { return };
        let served = self.cpus[task.cpu].calm.served;
        let passed = (self.now - calm.at) as f64;
        let cpu_ns = ((served - calm.from) * task.weight).min(passed);
        self.tasks[idx].calm = Some(CalmTask { from: served, at: self.now, ..calm });
        if 0.0 < cpu_ns {
            self.settle_task(idx, cpu_ns, passed - cpu_ns);
        }
    }

    /// Settles the calm of a CPU that is settled.
    pub(super) fn settle_calm(&mut self, cpu: usize) {
        if self.settings.contention {
            return;
        }
        for at in 0..self.cpus[cpu].tasks.len() {
            self.settle_one(self.cpus[cpu].tasks[at]);
        }
    }

    /// Settles the calm tasks of a job: where its pages lie is about to change.
    pub(super) fn settle_job(&mut self, job: usize) {
        if self.settings.contention {
            return;
        }
        let tasks = self.jobs.get(job).map(|state| state.tasks.clone()).unwrap_or_default();
        for idx in tasks {
            if self.tasks[idx].calm.is_some() {
                self.settle_cpu(self.tasks[idx].cpu);
                self.settle_one(idx);
            }
        }
    }

    /// The restless of a CPU that only run are calm until their stretch ends.
    pub(super) fn calm_down(&mut self, cpu: usize) {
        if self.settings.contention {
            return;
        }
        let (now, tasks) = (self.now, &mut self.tasks);
        let Calm { served, by_end, restless, .. } = &mut self.cpus[cpu].calm;
        restless.retain(|&idx| {
            let task = &mut tasks[idx];
            if task.doing() != Doing::Running || task.speed <= 0.0 {
                return true;
            }
            let end = *served + task.stretch_ns() / task.weight;
            task.calm = Some(CalmTask { from: *served, at: now, end });
            by_end.push(Reverse((end.to_bits(), idx)));
            false
        });
        self.drop_stirred(cpu);
    }

    fn drop_stirred(&mut self, cpu: usize) {
        let state = &mut self.cpus[cpu];
        state.calm.drop_stirred((cpu, state.tasks.len()), &self.tasks);
    }

    /// The calm of a CPU whose stretch is over.
    pub(super) fn stir_those_through(&mut self, cpu: usize) {
        self.drop_stirred(cpu);
        while let Some(&Reverse((end, idx))) = self.cpus[cpu].calm.by_end.peek()
            && f64::from_bits(end) <= self.cpus[cpu].calm.served
        {
            self.stir(idx);
            self.drop_stirred(cpu);
        }
    }

    /// What runs on a CPU has changed. Nobody else is faster or slower for it but who shares its core.
    pub(super) fn touched_without_contention(&mut self, cpu: usize) {
        if !std::mem::replace(&mut self.cpus[cpu].is_stale, true) {
            self.solver.stale_cpus.push(cpu);
        }
        let siblings = &self.hardware.cores[self.hardware.cpus[cpu].core];
        if 1 < siblings.len() {
            self.solver.touched_cpus.extend(siblings);
        }
        self.solver.is_dirty = true;
    }

    /// Without contention everybody has the whole cache, and memory as it is when nobody else asks for it.
    pub(super) fn solve_each_alone(&mut self) {
        // Whoever is solved is settled first, and what comes of that may touch others.
        while !self.solver.fresh.is_empty() || !self.solver.touched_cpus.is_empty() {
            let mut fresh = std::mem::take(&mut self.solver.fresh);
            let mut touched = std::mem::take(&mut self.solver.touched_cpus);
            touched.sort_unstable();
            touched.dedup();
            for cpu in touched {
                let smt = self.smt_share(cpu);
                if std::mem::replace(&mut self.cpus[cpu].calm.smt, smt) != smt {
                    fresh.extend(&self.cpus[cpu].tasks);
                }
            }
            fresh.dedup(); // Who begins an act begins it on a CPU.
            for &idx in &fresh {
                if self.tasks[idx].state == TaskState::Runnable {
                    self.solve_alone(idx);
                }
            }
            if self.solver.fresh.is_empty() {
                fresh.clear();
                self.solver.fresh = fresh;
            }
        }
    }

    fn solve_alone(&mut self, idx: usize) {
        let cpu = self.tasks[idx].cpu;
        self.settle_cpu(cpu);
        self.stir(idx);
        if !std::mem::replace(&mut self.cpus[cpu].is_stale, true) {
            self.solver.stale_cpus.push(cpu);
        }
        let place = self.alone(idx, cpu);
        let its = &self.hardware.cpus[cpu];
        let Alone { ns, miss_ns, each, .. } = self.solver.alone[place];
        let task = &mut self.tasks[idx];
        task.held = self.hardware.caches[its.cache].bytes;
        task.warm_in = Some(its.cache);
        task.asks.ns = ns;
        task.asks.ns_shared = ns;
        task.speed = 1000.0 / ns;
        task.each = each;
        task.miss_ns = miss_ns;
    }

    /// How a task runs alone there. What programs of one character do on CPUs alike is reckoned once.
    fn alone(&mut self, idx: usize, cpu: usize) -> usize {
        let its = &self.hardware.cpus[cpu];
        let bytes = self.hardware.caches[its.cache].bytes;
        let fixed_ns = self.hardware.nodes[its.node].channel.unloaded_ns;
        let smt = self.smt_share(cpu);
        let act = self.act_of(idx);
        let figures = [bytes, fixed_ns, smt, its.ghz, act.references, act.l1_misses];
        let figures = figures.map(f64::to_bits);
        let is_it = |known: &Alone| {
            Arc::ptr_eq(&known.behaviour, &act.behaviour) && known.figures == figures
        };
        if let Some(place) = self.solver.alone.iter().position(is_it) {
            return place;
        }
        let behaviour = act.behaviour.clone();
        self.tasks[idx].held = bytes;
        self.tasks[idx].asks.user.fixed_ns = fixed_ns;
        self.tasks[idx].asks.ns = self.speed_at(idx, smt, bytes);
        self.set_each(idx);
        let task = &self.tasks[idx];
        let (ns, miss_ns, each) = (task.asks.ns, task.miss_ns, task.each);
        if self.solver.alone.len() == N_ALONE {
            self.solver.alone.clear();
        }
        self.solver.alone.push(Alone { behaviour, figures, ns, miss_ns, each });
        self.solver.alone.len() - 1
    }
}
