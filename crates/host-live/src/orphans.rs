//! Processes whose parent is gone: they come to us, because we are their subreaper.
//!
//! ```text
//!   an orphan ─► seen before, in a job's group, or with our run in its environment ─► that job's
//!             ─► in the middle of an exec ─► asked again a moment later
//!             ─► nothing says whose (`env -i setsid …`) ─► the only job's that has begun; otherwise
//!                a stray: watched by nobody, ended and told when the last job is over
//! ```
//!
//! As long as their job runs orphans are part of it; when it is over they are leftovers.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use base::{CpuSet, JobId, Nanos, TaskId};
use linux::procfs::Stat;
use linux::undo::Seen;
use linux::{affinity, child_exit, procfs};
use sched::Cause;

use crate::agenda::Item;
use crate::hold::may_live;
use crate::host::{LiveHost, State};
use linux::tasks::OrphanOwner;

/// An exec takes microseconds of CPU time. So often, and so far apart, is asked again; who is still in
/// one then has no environment that could tell anything.
const EXEC_LOOKS: u32 = 50;
pub(crate) const EXEC_WAIT: Nanos = Nanos::from_millis(1);

/// Orphans that are not a job's.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    /// Nothing says whose they are: number and birth.
    pub strays: BTreeMap<u32, u64>,
    /// In the middle of an exec when they were last asked: birth, and how often.
    in_exec: BTreeMap<u32, (u64, u32)>,
    /// Another user's by now; nothing can be done about them.
    left: BTreeSet<u32>,
    /// Jobs of which that has been said.
    pub not_permitted: BTreeSet<Option<JobId>>,
}

impl Orphans {
    /// Lets a process go its way.
    pub(crate) fn leave(&mut self, pid: u32) {
        self.left.insert(pid);
    }

    /// Whether somebody is to be asked again before anything is concluded.
    pub(crate) fn any_in_exec(&self) -> bool {
        self.in_exec.values().any(|&(_, n_looks)| n_looks < EXEC_LOOKS)
    }

    fn is_in_exec(&mut self, pid: u32, born_ticks: u64) -> bool {
        let seen = self.in_exec.entry(pid).or_insert((born_ticks, 0));
        if seen.0 != born_ticks {
            *seen = (born_ticks, 0);
        }
        seen.1 += 1;
        seen.1 < EXEC_LOOKS
    }
}

impl LiveHost {
    /// Takes in orphans that came to us, and waits for those that have ended.
    pub(crate) fn take_orphans(&mut self) {
        let own = std::process::id();
        let keeper = self.keeper.as_ref().map(crate::keeper::Keeper::pid);
        let children = procfs::children("/".as_ref(), own, own).unwrap_or_default();
        self.orphans.in_exec.retain(|pid, _| children.contains(pid));
        for pid in children {
            let is_known = self.first_process_of.contains_key(&pid)
                || self.stragglers.contains_key(&pid)
                || self.orphans.left.contains(&pid)
                || keeper == Some(pid);
            if !is_known && let Ok(stat) = procfs::stat("/".as_ref(), pid) {
                self.take_orphan(pid, &stat);
            }
        }
    }

    /// Tells the keeper who is there, so that it finds them wherever they hide.
    pub(crate) fn tell_keeper(&mut self) {
        let Some(keeper) = &mut self.keeper else { return };
        let stragglers = self.stragglers.iter().map(|(&pid, s)| (pid, s.born_ticks));
        let strays = self.orphans.strays.iter().map(|(&pid, &born_ticks)| (pid, born_ticks));
        keeper.know(self.family.all_processes().chain(stragglers).chain(strays).collect());
    }

    fn take_orphan(&mut self, pid: u32, stat: &Stat) {
        let is_stray = self.orphans.strays.get(&pid) == Some(&stat.born_ticks);
        let claim = match is_stray {
            true => OrphanOwner::Unknown,
            false => self.claim(pid, stat),
        };
        if claim != OrphanOwner::InExec {
            self.orphans.in_exec.remove(&pid);
        }
        match claim {
            OrphanOwner::Job(job) if stat.state == 'Z' => self.reap_orphan(Some(job), pid),
            OrphanOwner::Job(job) => self.adopt_orphan(job, pid, stat),
            OrphanOwner::InExec if self.orphans.is_in_exec(pid, stat.born_ticks) => {}
            _ if !self.options.is_sole_parent => {} // It may be a child of whoever uses this library.
            _ if stat.state == 'Z' => self.reap_orphan(None, pid),
            _ if is_stray => {}
            _ => {
                self.orphans.strays.insert(pid, stat.born_ticks);
            }
        }
    }

    fn claim(&self, pid: u32, stat: &Stat) -> OrphanOwner {
        let is_first = |job, group| self.first_process_of.get(&group) == Some(&job);
        match self.family.orphan_owner(pid, stat, is_first) {
            OrphanOwner::Unknown if self.options.is_sole_parent => {
                let mut begun = self.slots.iter().filter(|slot| slot.n_runs != 0);
                match (begun.next(), begun.next()) {
                    (Some(only), None) => OrphanOwner::Job(only.job.id),
                    _ => OrphanOwner::Unknown,
                }
            }
            claim => claim,
        }
    }

    /// What an orphan used counts for its job as long as that runs.
    fn reap_orphan(&mut self, job: Option<JobId>, pid: u32) {
        let reaped = child_exit::try_reap(pid).ok().flatten();
        self.orphans.strays.remove(&pid);
        let mut gone = self.family.forget(pid);
        self.pending.exited.append(&mut gone);
        let running = job.and_then(|job| self.running(job));
        if let (Some(running), Some(reaped)) = (running, reaped) {
            running.of_orphans.add(&reaped);
        }
    }

    fn adopt_orphan(&mut self, job: JobId, pid: u32, stat: &Stat) {
        if let Some(running) = self.running(job) {
            let mask = Arc::clone(running.mask_by_birth());
            if !self.family.adopt(job, pid, &mask).is_empty() {
                self.check_newcomers(job);
            }
        } else if matches!(self.slots[job.index()].state, State::Over) {
            // It was born while the leftovers were being counted, or by one of them.
            let now = self.wakes.now();
            self.tell_leftover(Some(job), stat.group, (pid, stat.born_ticks), now);
        } // Otherwise its job is about to run again.
    }

    /// When all jobs are over: whether nothing of them lives any more. Strays are told to end now.
    pub(crate) fn nothing_left(&mut self) -> bool {
        self.take_orphans();
        if self.orphans.any_in_exec() {
            let now = self.wakes.now();
            self.agenda.add(now + EXEC_WAIT, Item::Orphans);
            return false;
        }
        self.tell_strays();
        self.stragglers.is_empty()
    }

    fn tell_strays(&mut self) {
        let strays = std::mem::take(&mut self.orphans.strays);
        if strays.is_empty() {
            return;
        }
        let text = match strays.len() {
            1 => "a process without a job's group and environment was".to_owned(),
            n => format!("{n} processes without a job's group and environment were"),
        };
        self.degraded(&format!("{text} left behind and told to end; whose cannot be told"));
        self.causes.insert(Cause::Ended); // For one more turn, which says so.
        let now = self.wakes.now();
        for (pid, born_ticks) in strays {
            self.tell_leftover(None, pid, (pid, born_ticks), now);
        }
    }

    /// Gives leftovers and strays that live on what they had, as far as the record tells.
    pub(crate) fn release_leftovers(&mut self) {
        let of_job = |job: Option<JobId>| job.map(|job| self.slots[job.index()].job.name.as_str());
        let leftovers = self.stragglers.iter().map(|(&pid, s)| (pid, s.born_ticks, of_job(s.job)));
        let strays = self.orphans.strays.iter().map(|(&pid, &born)| (pid, born, None));
        let mut any_left = false;
        for (pid, born_ticks, job) in leftovers.chain(strays) {
            let id = TaskId { tid: pid, start_time_ticks: born_ticks };
            any_left |= may_live(id) && !self.release_process(pid, job) && may_live(id);
        }
        if let Ok(log) = &mut self.undo
            && any_left
        {
            log.keep();
        }
    }

    /// Whether every thread of a leftover that had a mask of ours got back what it had.
    fn release_process(&self, pid: u32, job: Option<&str>) -> bool {
        let Ok(tids) = procfs::threads("/".as_ref(), pid) else { return false };
        let freed = tids.into_iter().map(|tid| match self.before_us(tid, job) {
            // Another user's is left as it is: that has been said.
            Ok(Some(before)) => affinity::set(tid, &before).is_ok(),
            Ok(None) => true,
            Err(_) => false,
        });
        // Each is tried, whatever became of the one before.
        freed.fold(true, |all, freed| all & freed)
    }

    /// What a thread of a leftover had before us, if it has a mask of ours now.
    fn before_us(&self, tid: u32, job: Option<&str>) -> io::Result<Option<CpuSet>> {
        let Ok(log) = &self.undo else { return Ok(None) };
        let records = log.records();
        let mask = affinity::get(tid)?;
        let born_ticks = procfs::stat("/".as_ref(), tid)?.born_ticks;
        let id = TaskId { tid, start_time_ticks: born_ticks };
        Ok(match job {
            Some(job) => match records.judge(id, job, &mask, &self.own_cpus) {
                Seen::Ours(before) => Some(before),
                Seen::AsBefore | Seen::Foreign => None,
            },
            None => records.has_mask(&mask, &self.own_cpus).then(|| (*self.own_cpus).clone()),
        })
    }
}
