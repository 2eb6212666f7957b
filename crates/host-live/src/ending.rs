//! How jobs end: by themselves, because their time is over, or because the run stops.
//!
//! ```text
//!   told to end ── TERM to the group ── grace ── KILL
//!   ended       ── last figures ── leftovers told to end ── waited for ── the end is told
//! ```

use std::sync::Arc;

use base::{JobId, Nanos};
use linux::child_exit::{self, ChildExit, ChildStatus, ChildUsage};
use linux::procfs;
use program::Ending;
use rustix::process::Signal;
use sched::{Cause, CounterEvent, Counters, ExitStatus, JobEvent, JobExit, Measured, PageMoveEnd};

use crate::agenda::Item;
use crate::host::{ASK_EVERY, LiveHost, Running, State, Stopping};
use crate::orphans::EXEC_WAIT;
use crate::signals;
use linux::tasks::{SampledTasks, TaskTotals};

/// A job that ends sooner than this and restarts is taken notice of only after it, so that a program
/// that fails at once does not fill the machine with its starts.
const RESTART_MIN: Nanos = Nanos::from_millis(100);

impl LiveHost {
    /// Somebody wants the run to end. Every job that runs is told, whenever it began.
    pub(crate) fn told_to_stop(&mut self, now: Nanos) {
        self.causes.insert(Cause::Stopping);
        if self.stopping == Stopping::No {
            self.stopping = Stopping::Told;
            self.agenda.forget(|item| matches!(item, Item::TimeLimit));
            self.start_nothing_more();
        }
        for job in self.running_jobs() {
            self.tell_to_end(job, now);
        }
    }

    /// Somebody does not want to wait for the grace time.
    pub(crate) fn told_to_stop_at_once(&mut self, now: Nanos) {
        self.told_to_stop(now);
        self.stopping = Stopping::Killed;
        self.kill_told(now, now);
    }

    /// What has not begun does not begin any more.
    fn start_nothing_more(&mut self) {
        self.agenda.forget(|item| matches!(item, Item::Start(_)));
        self.due.clear();
        self.pending.jobs.retain(|event| !matches!(event, JobEvent::Due(_)));
        for slot in &mut self.slots {
            if matches!(slot.state, State::Waiting | State::Due) {
                slot.state = State::Over;
            }
        }
    }

    /// Tells a job to end, once, and sees to it that it does.
    pub(crate) fn tell_to_end(&mut self, job: JobId, now: Nanos) {
        let Some(running) = self.running(job).filter(|running| running.told.is_none()) else {
            return;
        };
        running.told = Some(now);
        let pid = running.pid;
        self.signal(job, Signal::TERM);
        if !signals::is_permitted(pid) {
            self.say_not_permitted(Some(job), pid);
        }
        self.agenda.add(now + self.options.grace, Item::Kill { told: now });
        if self.running(job).is_some_and(|running| running.ended.is_some()) {
            // It waited for its restart, which will not be.
            let n_run = self.slots[job.index()].n_runs;
            self.agenda.add(now, Item::TakeEnd(job, n_run));
        }
    }

    /// To all processes of a job: its group, and those that left the group. Who was stopped must go
    /// on in order to end.
    fn signal(&mut self, job: JobId, signal: Signal) {
        let Some(group) = self.running(job).map(|running| running.pid) else { return };
        let outside =
            |pid: &u32| procfs::stat("/".as_ref(), *pid).is_ok_and(|stat| stat.group != group);
        let others = self.family.processes_of(job).filter(|(pid, _)| outside(pid));
        let others: Vec<(u32, u64)> =
            others.map(|(pid, its)| (pid, its.start_time_ticks)).collect();
        for signal in [signal, Signal::CONT] {
            signals::send_to_group(group, signal);
            for &(pid, born_ticks) in &others {
                signals::send(pid, born_ticks, signal);
            }
        }
    }

    /// Kills what was told to end at or before an instant and still lives.
    pub(crate) fn kill_told(&mut self, told: Nanos, now: Nanos) {
        let mut any = false;
        for job in self.running_jobs() {
            let Some(running) = self.running(job) else { continue };
            if running.told.is_some_and(|at| at <= told) && running.ended.is_none() {
                self.kill_job(job);
                any = true;
            }
        }
        any |= self.kill_stragglers(told);
        if any {
            // A process may be stuck in the kernel for a while; whatever it starts then is killed too.
            self.agenda
                .add(now + self.options.grace.saturating_add(ASK_EVERY), Item::Kill { told });
        }
    }

    /// Kills all of a job. If its first process is out of our reach, the job counts as left behind:
    /// nobody waits for what may never end.
    fn kill_job(&mut self, job: JobId) {
        let Some(running) = self.running(job) else { return };
        let (pid, mask) = (running.pid, Arc::clone(running.mask_by_birth()));
        self.family.refresh(job, &mask);
        self.signal(job, Signal::KILL);
        if !signals::is_permitted(pid) {
            self.say_not_permitted(Some(job), pid);
            self.orphans.leave(pid);
            self.end_of(job, 1, false);
        }
    }

    /// A descriptor says that a process has ended.
    pub(crate) fn process_ended(&mut self, pid: u32, now: Nanos) {
        if self.stragglers.contains_key(&pid) {
            self.straggler_ended(pid);
        } else if let Some(&job) = self.first_process_of.get(&pid) {
            self.first_process_ended(job, now);
        }
    }

    pub(crate) fn first_process_ended(&mut self, job: JobId, now: Nanos) {
        let restarts = self.restarts(job);
        let n_run = self.slots[job.index()].n_runs;
        let Some(running) = self.running(job) else { return };
        running.ended = Some(now);
        let soonest = running.started + RESTART_MIN;
        if restarts && now < soonest {
            self.agenda.add(soonest, Item::TakeEnd(job, n_run));
        } else {
            self.take_end(job);
        }
    }

    /// Whether a job is started again when it ends.
    fn restarts(&self, job: JobId) -> bool {
        let slot = &self.slots[job.index()];
        let untold = matches!(&slot.state, State::Running(running) if running.told.is_none());
        slot.job.ending == Ending::RestartUntilOthersDone
            && 0 < self.n_ending_left
            && self.stopping == Stopping::No
            && untold
    }

    /// Takes notice of the end of a job's first process, which can still be read until it is waited
    /// for.
    pub(crate) fn take_end(&mut self, job: JobId) {
        let again = self.restarts(job);
        let n_run = self.slots[job.index()].n_runs;
        let Some(running) = self.running(job) else { return };
        let mask = Arc::clone(running.mask_by_birth());
        self.family.refresh(job, &mask);
        self.take_orphans();
        if self.orphans.any_in_exec() {
            // Somebody who may be left behind cannot be asked whose he is just now.
            let now = self.wakes.now();
            self.agenda.add(now + EXEC_WAIT, Item::TakeEnd(job, n_run));
            return;
        }
        self.end_of(job, 0, again);
    }

    /// Ends what is left of a job, tells its end, and starts it again if that is wanted.
    fn end_of(&mut self, job: JobId, n_out_of_reach: u32, again: bool) {
        let Some((pid, end)) = self.close(job, n_out_of_reach, again) else { return };
        self.memory.stop_moves_of(job, PageMoveEnd::Exited);
        self.groups.end(job, &mut self.undo);
        self.job_groups.end(job);
        self.forget_processes(job);
        self.first_process_of.remove(&pid);
        if let Some(keeper) = self.keeper.as_mut().filter(|_| end.n_orphans == 0) {
            keeper.remove(pid);
        }
        self.free_if_alone(job);
        let failed = !end.stopped_by_host && end.status != ExitStatus::Exited(0);
        self.pending.jobs.push(JobEvent::Ended(job, Box::new(end)));
        self.causes.insert(Cause::Ended);
        if again {
            self.slots[job.index()].state = State::Due;
            self.is_due(job);
        } else {
            self.is_over_now(job);
        }
        if failed && self.options.fail_fast {
            fails_run(self);
        }
    }

    /// The last figures of a job and how it ended; its leftovers are told to end.
    fn close(&mut self, job: JobId, n_out_of_reach: u32, again: bool) -> Option<(u32, JobExit)> {
        let now = self.wakes.now();
        let pid = self.running(job)?.pid;
        let mut look = SampledTasks::default();
        let (totals, counters) = self.family.final_sample(job, now, &mut look);
        let traffic = self.groups.traffic_of(job);
        let n_left_behind = n_out_of_reach + self.tell_leftovers(job, pid, now);
        let reaped = child_exit::try_reap(pid).ok().flatten();
        let state = std::mem::replace(&mut self.slots[job.index()].state, State::Over);
        let State::Running(running) = state else { return None };
        if let Some(ends) = &running.ends {
            self.wakes.unwatch(ends);
        }
        let figures = Figures { totals, counters, traffic, n_left_behind };
        let end = end(&running, reaped, figures, again, now);
        self.family.credit_rest((job, pid), &totals, end.user + end.system, &mut look);
        self.pending.tasks.append(&mut look.tasks);
        self.pending.exited.append(&mut look.exited);
        Some((pid, end))
    }

    /// A job will not run any more. When the last job that ends by itself is over, so are those that
    /// restart until then.
    pub(crate) fn is_over_now(&mut self, job: JobId) {
        let slot = &mut self.slots[job.index()];
        slot.state = State::Over;
        if slot.job.ending == Ending::RestartUntilOthersDone {
            return;
        }
        self.n_ending_left = self.n_ending_left.saturating_sub(1);
        if self.n_ending_left != 0 {
            return;
        }
        let now = self.wakes.now();
        self.start_nothing_more();
        for job in self.running_jobs() {
            self.tell_to_end(job, now);
        }
    }

    fn forget_processes(&mut self, job: JobId) {
        let pids: Vec<u32> = self.family.processes_of(job).map(|(pid, _)| pid).collect();
        for pid in pids {
            let mut gone = self.family.forget(pid);
            self.pending.exited.append(&mut gone);
        }
    }
}

/// A job failed, and the user wants that to be the end of the run.
pub(crate) fn fails_run(host: &mut LiveHost) {
    if host.stopping == Stopping::No {
        let now = host.wakes.now();
        host.told_to_stop(now);
    }
}

/// What was seen of a job, all its tasks together.
struct Figures {
    totals: TaskTotals,
    counters: Counters,
    traffic: Measured,
    n_left_behind: u32,
}

fn end(
    running: &Running,
    reaped: Option<ChildExit>,
    figures: Figures,
    again: bool,
    now: Nanos,
) -> JobExit {
    let status = match reaped.map(|reaped| reaped.status) {
        Some(ChildStatus::Exited(status)) => ExitStatus::Exited(status),
        Some(ChildStatus::Killed(signal)) => ExitStatus::Signaled(signal),
        // Somebody else waited for it: how it ended nobody can tell.
        None => ExitStatus::Exited(-1),
    };
    let ended = running.ended.unwrap_or(now);
    let mut used = running.of_orphans;
    reaped.iter().for_each(|reaped| used.add(reaped));
    let ChildUsage { user, system, max_resident, n_faults, n_switches } = used;
    let Figures { totals, counters, traffic, n_left_behind } = figures;
    let counters = match used == ChildUsage::default() {
        // Nobody was waited for.
        true => counters,
        false => counters
            .with(CounterEvent::PageFaults, Measured::Exact(n_faults))
            .with(CounterEvent::ContextSwitches, Measured::Exact(n_switches)),
    };
    JobExit {
        status,
        stopped_by_host: running.told.is_some(),
        restarts: again,
        wall: ended.saturating_sub(running.started),
        user,
        system,
        max_resident,
        wait: totals.wait(user + system),
        // Of a job whose tasks came and went unseen the counters know what /proc does not.
        n_migrations: match totals.n_migrations(user + system) {
            Measured::Absent => counters.get(CounterEvent::CpuMigrations),
            known => known,
        },
        counters,
        traffic,
        n_orphans: n_left_behind,
    }
}
