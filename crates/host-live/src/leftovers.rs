//! What outlives the first process of its job: told to end, waited for, counted.

use base::{JobId, Nanos, TaskId};
use linux::{child_exit, procfs};
use rustix::process::Signal;

use crate::agenda::Item;
use crate::hold::may_live;
use crate::host::{ASK_EVERY, LiveHost, State, Stopping};
use crate::signals::{self, Sent};
use linux::tasks::KeptFile;

/// A process that outlived the first process of its job, and was told to end.
#[derive(Debug)]
pub(crate) struct Straggler {
    /// Absent: nothing said whose it was.
    pub job: Option<JobId>,
    /// The process group of its job.
    group: u32,
    pub born_ticks: u64,
    pub told: Nanos,
    ends: Option<KeptFile>,
}

impl LiveHost {
    /// Ends what a job leaves behind, and tells how many processes that are.
    pub(crate) fn tell_leftovers(&mut self, job: JobId, first: u32, now: Nanos) -> u32 {
        let mut leftovers = Vec::new();
        for (pid, process) in self.family.processes_of(job).filter(|(pid, _)| *pid != first) {
            match procfs::stat("/".as_ref(), pid) {
                Ok(stat) if stat.born_ticks != process.start_time_ticks || stat.state == 'Z' => {}
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                // Of whom nothing can be told now is seen to later.
                Ok(_) | Err(_) => leftovers.push((pid, process.start_time_ticks)),
            }
        }
        for &(pid, born_ticks) in &leftovers {
            self.tell_leftover(Some(job), first, (pid, born_ticks), now);
        }
        u32::try_from(leftovers.len()).unwrap_or(u32::MAX)
    }

    /// Tells one process to end, and sees to it that it does.
    pub(crate) fn tell_leftover(
        &mut self,
        job: Option<JobId>,
        group: u32,
        (pid, born_ticks): (u32, u64),
        now: Nanos,
    ) {
        let ends = self.watch_end(pid);
        let straggler = Straggler { job, group, born_ticks, told: now, ends };
        let sent = straggler.signal(pid, Signal::TERM);
        straggler.signal(pid, Signal::CONT);
        if sent == Sent::NotPermitted {
            self.say_not_permitted(job, pid);
        }
        self.stragglers.insert(pid, straggler);
        let at_once = self.stopping == Stopping::Killed;
        let wait = if at_once { Nanos::ZERO } else { self.options.grace };
        self.agenda.add(now + wait, Item::Kill { told: now });
    }

    /// Kills those that were told to end at or before an instant. Whom we may not kill is left behind.
    pub(crate) fn kill_stragglers(&mut self, told: Nanos) -> bool {
        let told = |straggler: &Straggler| straggler.told <= told;
        let pids: Vec<u32> =
            self.stragglers.iter().filter(|(_, s)| told(s)).map(|(&pid, _)| pid).collect();
        for &pid in &pids {
            let sent = self.stragglers.get(&pid).map(|s| s.signal(pid, Signal::KILL));
            if sent == Some(Sent::NotPermitted) {
                self.orphans.leave(pid);
                self.straggler_ended(pid);
            }
        }
        !pids.is_empty()
    }

    /// A straggler is gone; what it started meanwhile has come to us.
    pub(crate) fn straggler_ended(&mut self, pid: u32) {
        let Some(straggler) = self.stragglers.remove(&pid) else { return };
        if let Some(ends) = &straggler.ends {
            self.wakes.unwatch(ends);
        }
        let _ = child_exit::try_reap(pid); // It may have been another's child; then that one waits for it.
        self.take_orphans();
        let group = straggler.group;
        let in_group = self.stragglers.values().any(|other| other.group == group);
        if let Some(keeper) = self.keeper.as_mut().filter(|_| !in_group) {
            keeper.remove(group);
        }
        straggler.job.into_iter().for_each(|job| self.free_if_alone(job));
    }

    /// When nothing of a job lives any more, nothing of it is to be put back. What it left behind may
    /// be gone while it runs again: then the record of that run stays.
    pub(crate) fn free_if_alone(&mut self, job: JobId) {
        let slot = &self.slots[job.index()];
        let runs = matches!(slot.state, State::Running(_) | State::Due);
        let any_left = self.has_stragglers(job);
        if let Ok(log) = &mut self.undo
            && !runs
            && !any_left
        {
            // If this cannot be written, `restore` finds nobody of it alive.
            let _ = log.free(&slot.job.name);
        }
    }

    /// Whether something that a run of a job left behind still lives.
    pub(crate) fn has_stragglers(&self, job: JobId) -> bool {
        self.stragglers.values().any(|straggler| straggler.job == Some(job))
    }

    /// Says once for a job that something of it cannot be ended by us.
    pub(crate) fn say_not_permitted(&mut self, job: Option<JobId>, pid: u32) {
        if !self.orphans.not_permitted.insert(job) {
            return;
        }
        let whose = job.map_or("a job", |job| &self.slots[job.index()].job.name);
        let text = format!(
            "{whose}: process {pid} belongs to another user now, ending it needs CAP_KILL: it is left \
             behind, bound as it is, unless it ends by itself"
        );
        self.degraded(&text);
    }

    /// Asks those that cannot wake us whether they have ended.
    pub(crate) fn ask(&mut self, now: Nanos) {
        let mut any_left = false;
        for job in self.running_jobs() {
            let Some(running) = self.running(job).filter(|r| r.ends.is_none()) else { continue };
            let (pid, known) = (running.pid, running.ended.is_some());
            match procfs::stat("/".as_ref(), pid) {
                Ok(stat) if stat.state != 'Z' => any_left = true,
                // Nobody can tell now: asked again.
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => any_left = true,
                _ if known => {}
                _ => self.first_process_ended(job, now),
            }
        }
        let blind = |(pid, s): (&u32, &Straggler)| s.ends.is_none().then_some(*pid);
        let stragglers: Vec<u32> = self.stragglers.iter().filter_map(blind).collect();
        for pid in stragglers {
            match self.stragglers.get(&pid).is_some_and(|straggler| straggler.is_alive(pid)) {
                true => any_left = true,
                false => self.straggler_ended(pid),
            }
        }
        if any_left {
            self.agenda.add(now + ASK_EVERY, Item::Ask);
        }
    }

    /// A descriptor that wakes us at the end of a process. If there is none left, the process is asked
    /// now and then.
    pub(crate) fn watch_end(&mut self, pid: u32) -> Option<KeptFile> {
        let kept = self.family.descriptors.keep_pidfd(pid).ok().flatten();
        let watched = kept.filter(|file| self.wakes.watch(file, pid).is_ok());
        if watched.is_none() {
            if !std::mem::replace(&mut self.said_blind, true) {
                self.degraded(
                    "no descriptor is left to hear of the end of some jobs: they are asked ten times \
                     a second; raise the hard limit (ulimit -Hn)",
                );
            }
            let now = self.wakes.now();
            self.agenda.add(now + ASK_EVERY, Item::Ask);
        }
        watched
    }
}

impl Straggler {
    fn is_alive(&self, pid: u32) -> bool {
        may_live(TaskId { tid: pid, start_time_ticks: self.born_ticks })
    }

    /// A descriptor stays with its process; without one the time of birth tells who it is.
    fn signal(&self, pid: u32, signal: Signal) -> Sent {
        match &self.ends {
            Some(ends) => signals::send_by(ends, signal),
            None => signals::send(pid, self.born_ticks, signal),
        }
    }
}
