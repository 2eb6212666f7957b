//! Threads of a job that wait for each other: at the end of a section, and at the queues of a pipeline.
//!
//! ```text
//!             ┌──────────────────────── next item ───────────────────────┐
//!             ▼                                                          │
//!   NeedsInput ──item in the queue──► Executing ──► HasOutput ──slot in the queue──► Arrived
//!             ▲                                                  after the last item    │
//!             └───────────── all threads have arrived: next section ────────────────────┘
//! ```
//!
//! A thread that cannot continue is blocked: it sleeps, without CPU time. All changes at one instant are made together,
//! in the order of the threads, after the segments at this instant have ended. A thread that can continue at this
//! instant therefore does not sleep.

use super::events::FluidEvent;
use super::teamwork::{Teamwork, ThreadStep};
use super::{Fluid, HostNotice, TaskState};
use crate::thread_plan::PlanPosition;

impl Fluid {
    /// Returns the nanoseconds in which a thread waited for other threads of its job.
    pub fn blocked_ns(&self, task: &super::Task) -> u64 {
        task.team.blocked_ns(self.now)
    }

    /// Begins the first section of a new thread. Returns whether the thread is runnable.
    pub(super) fn begin_plan(&mut self, idx: usize) -> bool {
        let (job, thread) = (self.tasks[idx].job, self.tasks[idx].team.thread);
        if thread == 0 {
            self.begin_section(job, PlanPosition::default());
        } else {
            self.enter_section(idx);
        }
        let is_runnable = self.step(idx);
        if !is_runnable {
            self.tasks[idx].team.blocked_since = Some(self.now);
        }
        is_runnable
    }

    /// Handles the end of a part of a thread.
    pub(super) fn part_ends(&mut self, idx: usize) {
        self.tasks[idx].team.step = ThreadStep::HasOutput;
        let now = self.now;
        let job = self.tasks[idx].job;
        let Some(state) = self.jobs.get_mut(job) else { return };
        if !std::mem::replace(&mut state.teamwork.is_due, true) {
            self.events.add(now, FluidEvent::Threads(job, state.generation));
        }
    }

    /// Advances the threads of a job as far as they can at this instant, blocks those that cannot continue, and wakes
    /// those that can.
    pub(super) fn advance_threads(&mut self, job: usize, generation: u64) {
        let state = self.jobs.get_mut(job);
        let Some(state) = state.filter(|s| s.generation == generation && 0 < s.n_running) else {
            return;
        };
        state.teamwork.is_due = false;
        let tasks = state.tasks.clone();
        loop {
            let mut has_changed = false;
            for &idx in &tasks {
                while self.step(idx) {
                    has_changed = true;
                }
            }
            let arrived = |&idx: &usize| self.tasks[idx].team.step == ThreadStep::Arrived;
            if tasks.iter().all(arrived) {
                let Some(first) = tasks.first() else { return };
                let position = self.jobs.get(job).map(|state| state.teamwork.position);
                let plan = self.tasks[*first].script.plan.as_ref();
                match plan.zip(position).and_then(|(plan, at)| plan.next(at)) {
                    Some(next) => self.begin_section(job, next),
                    None => return tasks.iter().for_each(|&idx| self.task_ends(idx)),
                }
                has_changed = true;
            }
            if !has_changed {
                break;
            }
        }
        // Threads that block free their CPUs for those that wake.
        let executes =
            |fluid: &Fluid, idx: usize| fluid.tasks[idx].team.step == ThreadStep::Executing;
        for &idx in &tasks {
            if self.tasks[idx].state == TaskState::Runnable && !executes(self, idx) {
                self.tasks[idx].team.blocked_since = Some(self.now);
                self.sleep_until_woken(idx);
            }
        }
        for &idx in &tasks {
            if executes(self, idx)
                && let Some(since) = self.tasks[idx].team.blocked_since.take()
            {
                self.tasks[idx].team.blocked_ns += self.now - since;
                self.wakes(idx, self.tasks[idx].generation);
            }
        }
    }

    /// Begins a section. Its threads touch the memory by which the footprint of the job grows.
    fn begin_section(&mut self, job: usize, position: PlanPosition) {
        let Some(state) = self.jobs.get_mut(job) else { return };
        let tasks = state.tasks.clone();
        let Some(plan) = tasks.first().and_then(|&idx| self.tasks[idx].script.plan.clone()) else {
            return;
        };
        let n_threads = plan.section(position).parts.len();
        let (before, footprint) = (state.teamwork.footprint, plan.footprint(position) as f64);
        state.teamwork = Teamwork {
            position,
            taken: vec![0; n_threads],
            passed: vec![0; n_threads],
            touch_bytes: 0.0,
            footprint,
            is_due: state.teamwork.is_due,
        };
        let growth = self.change_footprint(job, before, footprint);
        if let Some(state) = self.jobs.get_mut(job) {
            state.teamwork.touch_bytes = growth / n_threads as f64;
        }
        tasks.into_iter().for_each(|idx| self.enter_section(idx));
    }

    /// Makes a thread begin the current section of its job.
    fn enter_section(&mut self, idx: usize) {
        let task = &mut self.tasks[idx];
        let Some(state) = self.jobs.get(task.job) else { return };
        let takes_part = task.team.thread < state.teamwork.taken.len();
        task.team.items = 0;
        task.team.step = if takes_part { ThreadStep::NeedsInput } else { ThreadStep::Arrived };
        if takes_part && 0.0 < state.teamwork.touch_bytes {
            task.left.touch_bytes = state.teamwork.touch_bytes;
            self.mark_task_changed(idx);
        }
    }

    /// Advances a thread by one step. Returns whether it has changed.
    fn step(&mut self, idx: usize) -> bool {
        let task = &mut self.tasks[idx];
        let Some(state) = self.jobs.get_mut(task.job) else { return false };
        let Some(plan) = &task.script.plan else { return false };
        let Teamwork { position, taken, passed, .. } = &mut state.teamwork;
        let section = plan.section(*position);
        let thread = task.team.thread;
        match task.team.step {
            ThreadStep::NeedsInput => {
                let is_first = section.queue.is_none() || thread == 0;
                if !is_first && passed[thread - 1] <= taken[thread] {
                    return false;
                }
                taken[thread] += 1;
                task.team.step = ThreadStep::Executing;
                let part = section.parts[thread];
                self.begin_part(idx, part);
                true
            }
            ThreadStep::HasOutput => {
                let next = taken.get(thread + 1).zip(section.queue);
                if next.is_some_and(|(taken, queue)| queue <= passed[thread] - taken) {
                    return false;
                }
                passed[thread] += 1;
                task.team.items += 1;
                let is_last = task.team.items == section.items;
                task.team.step = if is_last { ThreadStep::Arrived } else { ThreadStep::NeedsInput };
                true
            }
            ThreadStep::Executing | ThreadStep::Arrived => false,
        }
    }

    /// Gives a thread the instructions of a part.
    fn begin_part(&mut self, idx: usize, part: crate::thread_plan::PlanPart) {
        let task = &mut self.tasks[idx];
        task.team.executed += task.team.part_instructions;
        task.team.part_instructions =
            self.variation.instructions(task.random_key, part.phase, part.instructions);
        task.left.instructions = task.team.part_instructions;
        if task.phase != part.phase || task.left.burst == f64::INFINITY {
            let sleeps = task.script.phases[part.phase].sleeps;
            task.left.burst = sleeps.map_or(f64::INFINITY, |(burst, _)| burst);
        }
        if std::mem::replace(&mut task.phase, part.phase) != part.phase {
            self.mark_task_changed(idx);
        }
    }

    /// Changes the footprint of a job or of a thread, in bytes, and frees memory if it shrinks. Returns the bytes to touch.
    pub(super) fn change_footprint(&mut self, job: usize, from: f64, to: f64) -> f64 {
        if to < from {
            self.update_job(job);
            self.pages.free_some(job, from - to);
        }
        (to - from).max(0.0)
    }

    /// Ends a thread.
    pub(super) fn task_ends(&mut self, idx: usize) {
        let (job, cpu) = (self.tasks[idx].job, self.tasks[idx].cpu);
        let was_runnable = self.tasks[idx].state == TaskState::Runnable;
        if was_runnable {
            self.dequeue(idx);
        }
        self.tasks[idx].state = TaskState::Ended;
        if self.thread_exited(job) {
            self.notify(HostNotice::JobEnded { job, out_of_memory: false });
        }
        if was_runnable {
            self.balance_newly_idle(cpu);
        }
    }
}
