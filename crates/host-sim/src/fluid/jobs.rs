//! Start, affinity and end of jobs.

use std::cmp::Ordering;
use std::sync::Arc;

use super::numa::NumaScanState;
use super::tasks::WorkLeft;
use super::teamwork::{TeamThread, Teamwork};
use super::{Fluid, Task, TaskState};
use crate::frame::{JobStart, MemoryPlacement};
use crate::kernel::TieBreaker;
use crate::script::ScriptPhase;

/// A running job.
#[derive(Clone, Debug)]
pub(super) struct FluidJob {
    pub tasks: Vec<usize>,
    pub n_running: usize,
    pub memory: MemoryPlacement,
    pub generation: u64,
    /// State of NUMA balancing for the memory of the job.
    pub scan: NumaScanState,
    /// Progress of threads that wait for each other.
    pub teamwork: Teamwork,
}

impl Fluid {
    /// Starts a job and returns the TID of its main thread.
    ///
    /// The set of allowed CPUs must not be empty.
    pub fn start(&mut self, start: JobStart) -> u32 {
        let first_tid = self.next_tid;
        let generation = u64::from(first_tid);
        let state = FluidJob {
            tasks: Vec::new(),
            n_running: start.script.n_threads as usize,
            memory: start.memory.clone(),
            generation,
            scan: NumaScanState::default(),
            teamwork: Teamwork::default(),
        };
        self.jobs.insert(start.job, state);
        self.pages.begin(start.job);
        let random = self.variation.parent_cpu(start.random_key, self.hardware.cpus.len());
        // Without random placement, the first of the fastest CPUs: CPU 0 if all CPUs are equal.
        let fastest = || self.hardware.cpu_index(self.hardware.fastest_cpu().id).unwrap_or(0);
        let mut parent = random.unwrap_or_else(fastest);
        for thread in 0..start.script.n_threads {
            let task = self.new_task(&start, thread);
            // If no allowed CPU is online, the task runs on any online CPU.
            let cpu = self.fork_cpu(task, parent).unwrap_or(parent);
            if let Some(job) = self.jobs.get_mut(start.job) {
                job.tasks.push(task);
            }
            self.tasks[task].cpu = cpu;
            if start.script.plan.is_none() {
                self.begin_phase(task);
                self.enqueue(task, cpu);
            } else if self.begin_plan(task) {
                self.enqueue(task, cpu);
            }
            if self.tasks[task].state == TaskState::Ended {
                break; // Another thread of the job was OOM-killed.
            }
            parent = cpu;
        }
        self.begin_scans(start.job, generation, &start.memory);
        first_tid
    }

    /// Returns the random choice of the next CPU selection for a task.
    pub(super) fn tie_breaker(&mut self, idx: usize) -> TieBreaker {
        let task = &mut self.tasks[idx];
        task.n_selections += 1;
        self.variation.idle_choice(task.random_key, task.n_selections)
    }

    /// Selects a CPU for a task as for a new task: of the allowed CPUs, or of all CPUs if no allowed CPU is online.
    pub(super) fn fork_cpu(&mut self, idx: usize, parent: usize) -> Option<usize> {
        let mut tie_breaker = self.tie_breaker(idx);
        let allowed = self.tasks[idx].allowed.as_deref().map(Vec::as_slice);
        let cpu = self.kernel.fork(parent, allowed, &mut tie_breaker);
        cpu.or_else(|| self.kernel.fork(parent, None, &mut tie_breaker))
    }

    fn new_task(&mut self, start: &JobStart, thread: u32) -> usize {
        let task = Task {
            tid: self.next_tid,
            started: self.now,
            job: start.job,
            allowed: start.allowed.clone(),
            weight: start.weight,
            random_key: start.random_key.part(u64::from(thread)),
            generation: u64::from(self.next_tid),
            team: TeamThread::new(thread as usize),
            script: start.script.clone(),
            left: WorkLeft { burst: f64::INFINITY, ..WorkLeft::default() },
            ..Task::default()
        };
        self.next_tid += 1;
        match self.free_tasks.pop() {
            Some(idx) => {
                self.tasks[idx] = task;
                idx
            }
            None => {
                self.tasks.push(task);
                self.tasks.len() - 1
            }
        }
    }

    /// Starts the next phase of a task, which touches its new memory and then executes its instructions. Each thread
    /// holds an equal share of the footprint of its own phase.
    pub(super) fn begin_phase(&mut self, idx: usize) {
        let task = &mut self.tasks[idx];
        let phase = &task.script.phases[task.phase];
        task.left.instructions =
            self.variation.instructions(task.random_key, task.phase, phase.instructions);
        task.left.burst = phase.sleeps.map_or(f64::INFINITY, |(burst, _)| burst);
        let before = task.phase.checked_sub(1).map(|before| &task.script.phases[before]);
        let share = |phase: &ScriptPhase| phase.footprint as f64 / f64::from(task.script.n_threads);
        let (job, from, to) = (task.job, before.map_or(0.0, share), share(phase));
        self.tasks[idx].left.touch_bytes = self.change_footprint(job, from, to);
        self.mark_task_changed(idx);
    }

    /// Records the exit of one thread. Returns whether it was the last thread of the job.
    pub(super) fn thread_exited(&mut self, job: usize) -> bool {
        let Some(state) = self.jobs.get_mut(job) else { return false };
        state.n_running -= 1;
        state.n_running == 0
    }

    /// Kills a job without delay.
    pub fn kill(&mut self, job: usize) {
        let Some(state) = self.jobs.get_mut(job) else { return };
        state.n_running = 0;
        for idx in state.tasks.clone() {
            let was = self.tasks[idx].state;
            let cpu = self.tasks[idx].cpu;
            if was == TaskState::Runnable {
                self.dequeue(idx);
            }
            self.tasks[idx].state = TaskState::Ended;
            if was == TaskState::Runnable {
                self.balance_newly_idle(cpu);
            }
        }
    }

    /// Frees the memory and the tasks of an ended job. Called after its counters were read.
    pub fn remove_job(&mut self, job: usize) {
        self.pages.end(job);
        if let Some(monitor) = &mut self.traffic {
            monitor.remove_job(job);
        }
        self.oom_killed = self.oom_killed.filter(|killed| *killed != job);
        let Some(state) = self.jobs.remove(job) else { return };
        for idx in state.tasks {
            self.tasks[idx].generation = 0;
            self.free_tasks.push(idx);
        }
    }

    /// Returns the threads of a job that was started and not yet freed.
    pub fn tasks_of(&self, job: usize) -> impl Iterator<Item = &Task> {
        let tasks = self.jobs.get(job).map_or(&[][..], |state| &state.tasks);
        tasks.iter().map(|&idx| &self.tasks[idx])
    }

    /// Returns the n-th task of a job.
    pub fn task_of(&self, job: usize, nth: usize) -> Option<&Task> {
        self.jobs.get(job)?.tasks.get(nth).map(|&idx| &self.tasks[idx])
    }

    /// Returns the executed share of the instructions of a running job, at the last update of its tasks. The call does
    /// not update them, so that the observation of a run does not change its rounding.
    pub fn done_share(&self, job: usize) -> Option<f64> {
        let (mut done, mut all) = (0.0, 0.0);
        for task in self.tasks_of(job) {
            let each = |phase, mean| self.variation.instructions(task.random_key, phase, mean);
            if let Some(plan) = &task.script.plan {
                all += plan.instructions(task.team.thread, each);
                done += task.team.executed(task.left.instructions);
                continue;
            }
            for (idx, phase) in task.script.phases.iter().enumerate() {
                let instructions = each(idx, phase.instructions);
                all += instructions;
                done += match idx.cmp(&task.phase) {
                    Ordering::Less => instructions,
                    Ordering::Equal => instructions - task.left.instructions,
                    Ordering::Greater => 0.0,
                };
            }
        }
        (0.0 < all).then_some(done / all)
    }

    /// Sets the affinity of a job; `None` for all CPUs. Returns the number of affected threads.
    pub fn bind(&mut self, job: usize, allowed: Option<Arc<Vec<bool>>>) -> u32 {
        let tasks = self.jobs.get(job).map(|state| state.tasks.clone()).unwrap_or_default();
        let n = tasks.into_iter().map(|idx| self.bind_task(idx, allowed.clone())).sum();
        self.oom_kill();
        n
    }

    /// Sets the affinity of the thread with this TID. Returns the number of affected threads.
    pub fn bind_tid(&mut self, tid: u32, allowed: Option<Arc<Vec<bool>>>) -> u32 {
        let is_running = |task: &Task| task.tid == tid && task.generation != 0;
        match self.tasks.iter().position(is_running) {
            Some(idx) => self.bind_task(idx, allowed),
            None => 0,
        }
    }

    fn bind_task(&mut self, idx: usize, allowed: Option<Arc<Vec<bool>>>) -> u32 {
        if self.tasks[idx].state == TaskState::Ended {
            return 0;
        }
        self.tasks[idx].allowed.clone_from(&allowed);
        self.n_changes += 1;
        let cpu = self.tasks[idx].cpu;
        let may_stay = allowed.as_ref().is_none_or(|allowed| allowed[cpu]);
        let is_runnable = self.tasks[idx].state == TaskState::Runnable;
        if may_stay || !is_runnable {
            self.note_opened(cpu);
            if is_runnable && 1 < self.kernel.load.n_runnable[cpu] {
                self.schedule_balance(); // A waiting task may now be allowed on an idle CPU.
            }
            return 1;
        }
        // The kernel selects any CPU of the new mask. The model selects the idlest CPU near the previous CPU.
        let mask = allowed.as_deref().map(Vec::as_slice);
        let mut tie_breaker = self.tie_breaker(idx);
        if let Some(to) = self.kernel.fork(cpu, mask, &mut tie_breaker) {
            self.migrate(idx, to);
        }
        1
    }
}
