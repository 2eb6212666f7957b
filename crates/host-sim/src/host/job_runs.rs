//! States of the jobs of the workload.

use base::{Bytes, JobId, Nanos, TaskId};
use sched::{Cause, CounterEvent, Counters, ExitStatus, JobEvent, JobExit, RawCounter, StopCause};

use super::{ScheduledAction, SimHost, SimJobRun, SimJobState, sampling};

/// Signal of the OOM killer.
const SIGKILL: i32 = 9;
/// Signal of a termination that the host requested.
const SIGTERM: i32 = 15;

impl SimHost {
    pub(super) fn job_due(&mut self, job: JobId) {
        let slot = &mut self.slots[job.index()];
        if matches!(slot.state, SimJobState::Waiting) {
            slot.state = SimJobState::Due;
            self.due.push(job);
            self.pending.jobs.push(JobEvent::Due(job));
            self.turn_causes.insert(Cause::JobsDue);
        }
    }

    /// Terminates a job when its maximum run time is reached.
    pub(super) fn end_after_time(&mut self, job: JobId, run: u32) {
        let slot = &self.slots[job.index()];
        if slot.n_runs == run && matches!(slot.state, SimJobState::Running(_)) {
            self.terminate(job.index(), true);
        }
    }

    /// Handles the end of a job's last thread.
    pub(super) fn job_ended(&mut self, idx: usize, out_of_memory: bool) {
        if !matches!(self.slots[idx].state, SimJobState::Running(_)) {
            return;
        }
        let status =
            if out_of_memory { ExitStatus::Signaled(SIGKILL) } else { ExitStatus::Exited(0) };
        let slot = &self.slots[idx];
        let has_failed = out_of_memory && slot.job.ending.is_result(slot.has_ended);
        self.finish(idx, status, (false, out_of_memory));
        if has_failed && self.options.fail_fast && !self.is_stopping {
            self.stop_because(StopCause::FailedJob);
        }
    }

    /// Terminates a job.
    pub(super) fn terminate(&mut self, idx: usize, stopped_by_host: bool) {
        self.machine.update_all();
        self.machine.kill(idx);
        self.finish(idx, ExitStatus::Signaled(SIGTERM), (stopped_by_host, false));
    }

    fn finish(
        &mut self,
        idx: usize,
        status: ExitStatus,
        (stopped_by_host, oom_killed): (bool, bool),
    ) {
        self.final_sample(idx);
        let SimJobState::Running(running) =
            std::mem::replace(&mut self.slots[idx].state, SimJobState::Over)
        else {
            return;
        };
        self.slots[idx].has_ended = true;
        let others_left = self
            .slots
            .iter()
            .any(|slot| slot.is_awaited() && !matches!(slot.state, SimJobState::Over));
        let slot = &self.slots[idx];
        let job = slot.job.id;
        let restarts =
            slot.job.ending.restarts() && others_left && !stopped_by_host && !self.is_stopping;
        let end = self.job_exit(idx, &running, status, (stopped_by_host, restarts));
        let end = JobExit { oom_killed, ..end };
        let tasks: Vec<TaskId> =
            self.machine.threads_of(idx).map(|task| sampling::id_of(&task)).collect();
        self.last_reported.remove_job(idx);
        self.pending.exited.extend(tasks);
        self.pending.jobs.push(JobEvent::Ended(job, Box::new(end)));
        self.turn_causes.insert(Cause::Ended);
        self.machine.remove_job(idx);
        if restarts {
            self.slots[idx].state = SimJobState::Waiting;
            self.agenda.insert((self.machine.now(), job, ScheduledAction::Due));
        }
        if !others_left {
            self.end_restarting();
        }
    }

    /// Ends the restarted jobs if the run waits for no job.
    fn end_restarting(&mut self) {
        for idx in 0..self.slots.len() {
            match self.slots[idx].state {
                SimJobState::Running(_) => self.terminate(idx, true),
                SimJobState::Waiting => self.slots[idx].state = SimJobState::Over,
                SimJobState::Due | SimJobState::Over => {}
            }
        }
    }

    fn job_exit(
        &self,
        idx: usize,
        running: &SimJobRun,
        status: ExitStatus,
        (stopped_by_host, restarts): (bool, bool),
    ) -> JobExit {
        let (mut cpu, mut wait, mut blocked) = (0.0, 0.0, 0);
        let (mut migrations, mut lines) = (0, 0.0);
        let mut counters = Counters::NONE;
        for task in self.machine.threads_of(idx) {
            cpu += task.cpu_ns;
            wait += task.wait_ns;
            blocked += task.blocked_ns;
            migrations += task.n_migrations;
            lines += task.counts.reads + task.counts.writes;
            if self.options.capabilities.counters {
                counters = counters.plus(&sampling::counters_of(&task));
            }
        }
        let counters =
            counters.with(CounterEvent::TaskClock, RawCounter::unmultiplexed(cpu as u64));
        JobExit {
            status,
            stopped_by_host,
            oom_killed: false,
            restarts,
            wall: Nanos(self.machine.now() - running.started),
            user: Nanos(cpu as u64),
            system: Nanos::ZERO,
            max_resident: Bytes(self.slots[idx].script.footprint_max()),
            wait: Some(Nanos(wait as u64)),
            blocked: self.slots[idx].script.plan.as_ref().map(|_| Nanos(blocked)),
            n_migrations: Some(migrations),
            counters,
            traffic: Some(Bytes((lines * base::LINE_BYTES as f64) as u64)),
            n_remaining: 0,
        }
    }
}
