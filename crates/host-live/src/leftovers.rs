//! What outlives the first process of its job: found, told to end, waited for.
//!
//! Orphans of jobs become our children, because we are their subreaper. As long as their job runs they
//! are part of it; when it is over they are leftovers.

use std::sync::Arc;

use base::{JobId, Nanos};
use linux::{procfs, reap};
use rustix::process::{Pid, Signal, kill_process};

use crate::agenda::Item;
use crate::family::Kept;
use crate::host::{ASK_EVERY, LiveHost, Stopping};

/// A process that outlived the first process of its job, and was told to end.
#[derive(Debug)]
pub(crate) struct Straggler {
    job: JobId,
    born_ticks: u64,
    pub told: Nanos,
    ends: Option<Kept>,
}

impl LiveHost {
    /// Ends what a job leaves behind, and tells how many processes that are.
    pub(crate) fn tell_leftovers(&mut self, job: JobId, first: u32, now: Nanos) -> u32 {
        let mut leftovers = Vec::new();
        for (pid, process) in self.family.processes_of(job).filter(|(pid, _)| *pid != first) {
            match procfs::stat("/".as_ref(), pid) {
                Ok(stat) if stat.born_ticks != process.born_ticks => {}
                Ok(stat) if stat.state == 'Z' => {
                    let _ = reap::try_reap(pid);
                }
                Ok(_) => leftovers.push((pid, process.born_ticks)),
                Err(_) => {}
            }
        }
        for &(pid, born_ticks) in &leftovers {
            let ends = self.watch_end(pid);
            let straggler = Straggler { job, born_ticks, told: now, ends };
            straggler.signal(pid, Signal::TERM);
            straggler.signal(pid, Signal::CONT);
            self.stragglers.insert(pid, straggler);
        }
        if !leftovers.is_empty() {
            let wait =
                if self.stopping == Stopping::Killed { Nanos::ZERO } else { self.options.grace };
            self.agenda.add(now + wait, Item::Kill { told: now });
        }
        u32::try_from(leftovers.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn straggler_ended(&mut self, pid: u32) {
        let Some(straggler) = self.stragglers.remove(&pid) else { return };
        if let Some(ends) = &straggler.ends {
            self.wakes.unwatch(ends);
        }
        let _ = reap::try_reap(pid); // It may have been another's child; then that one waits for it.
        self.free_if_alone(straggler.job);
    }

    /// Nothing of a job lives any more, so nothing of it is to be put back.
    pub(crate) fn free_if_alone(&mut self, job: JobId) {
        let any_left = self.stragglers.values().any(|straggler| straggler.job == job);
        let name = &self.slots[job.index()].job.name;
        if let Ok(log) = self
            .undo
            .as_mut()
            .map_err(|_| ())
            .and_then(|log| if any_left { Err(()) } else { Ok(log) })
        {
            let _ = log.free(name);
        }
    }

    /// Takes in orphans that came to us, and waits for those that have ended.
    pub(crate) fn take_orphans(&mut self) {
        let own = std::process::id();
        let keeper = self.keeper.as_ref().map(crate::keeper::Keeper::pid);
        for pid in procfs::children("/".as_ref(), own, own).unwrap_or_default() {
            let is_known_child = self.first_process_of.contains_key(&pid) || keeper == Some(pid);
            if is_known_child || self.stragglers.contains_key(&pid) {
                continue;
            }
            let Ok(stat) = procfs::stat("/".as_ref(), pid) else { continue };
            let job = self.family.job_of(pid).or_else(|| self.claim(pid));
            match (stat.state, job) {
                ('Z', known) if known.is_some() || self.options.is_sole_parent => {
                    let _ = reap::try_reap(pid);
                    let mut gone = self.family.forget(pid);
                    self.pending.gone.append(&mut gone);
                }
                (_, Some(job)) => self.adopt_orphan(job, pid),
                _ => {}
            }
        }
    }

    fn claim(&self, pid: u32) -> Option<JobId> {
        self.family.claim(pid, |job, group| self.first_process_of.get(&group) == Some(&job))
    }

    fn adopt_orphan(&mut self, job: JobId, pid: u32) {
        let now = self.wakes.now();
        match self.running(job) {
            Some(running) => {
                let mask = Arc::clone(running.mask_by_birth());
                if !self.family.adopt(job, pid, &mask).is_empty() {
                    self.check_newcomers(job);
                }
            }
            // Its job is over: it was born while the leftovers were being counted.
            None => {
                let born_ticks = procfs::stat("/".as_ref(), pid).map_or(0, |stat| stat.born_ticks);
                let ends = self.watch_end(pid);
                let straggler = Straggler { job, born_ticks, told: now, ends };
                straggler.signal(pid, Signal::TERM);
                self.stragglers.insert(pid, straggler);
                self.agenda.add(now + self.options.grace, Item::Kill { told: now });
            }
        }
    }

    /// Asks those that cannot wake us whether they have ended.
    pub(crate) fn ask(&mut self, now: Nanos) {
        let mut any_left = false;
        for job in self.running_jobs() {
            let Some(running) = self.running(job).filter(|r| r.ends.is_none()) else { continue };
            let (pid, known) = (running.pid, running.ended.is_some());
            match procfs::stat("/".as_ref(), pid) {
                Ok(stat) if stat.state != 'Z' => any_left = true,
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
    pub(crate) fn watch_end(&mut self, pid: u32) -> Option<Kept> {
        let kept = self.family.descriptors.keep_end(pid).ok().flatten();
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
        procfs::stat("/".as_ref(), pid)
            .is_ok_and(|stat| stat.born_ticks == self.born_ticks && stat.state != 'Z')
    }

    /// A descriptor stays with its process; without one the time of birth tells who it is.
    fn signal(&self, pid: u32, signal: Signal) {
        match &self.ends {
            Some(ends) => {
                let _ = rustix::process::pidfd_send_signal(ends, signal);
            }
            None if self.is_alive(pid) => kill(pid, signal),
            None => {}
        }
    }

    pub(crate) fn kill(&self, pid: u32) {
        self.signal(pid, Signal::KILL);
    }
}

/// Sends a signal; who is gone by now does not need it.
pub(crate) fn kill(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
        let _ = kill_process(pid, signal);
    }
}
