//! Meeting processes: who is new, who became another, who is to be left alone.

use std::collections::BTreeSet;
use std::io;

use base::Nanos;
use linux::connector::ProcessEvent;
use linux::environ::{Environ, environ};
use linux::glance::{Glance, comm_text};
use linux::undo::RUN_VARIABLE;
use linux::{affinity, procfs};

use super::WatchHost;
use super::census::{Found, Known, Stand};
use super::choice::{Candidate, Chosen};
use super::notice::News;
use super::respect::LeftAlone;

/// What the kernel says of a thread that has ended (`ESRCH`).
const NO_SUCH_THREAD: i32 = 3;

impl WatchHost {
    /// Keeps the census: who was born or ended, and who is due to be looked at.
    pub(super) fn look_around(&mut self, now: Nanos) {
        self.release_late(now);
        self.take_births(now);
        while let Some(pid) = self.census.take_due(now) {
            self.look_at(pid, now);
        }
    }

    /// Whoever was born or ended until now.
    pub(super) fn take_births(&mut self, now: Nanos) {
        let news = self.notice.news(now);
        self.take_news(news, now);
    }

    fn take_news(&mut self, news: News, now: Nanos) {
        if let Some(why) = news.lost_way {
            self.pending.degraded.push(format!(
                "births of processes are heard of no longer ({why}): numbers given since are asked"
            ));
        }
        // In the order of events: a child that is told of before its parent's end is an heir by then.
        for heard in news.heard {
            match heard {
                ProcessEvent::Forked { parent, child } => self.is_born(child, Some(parent), now),
                ProcessEvent::Exec(pid) => {
                    if let Ok(glance) = self.proc.glance(pid) {
                        self.meet(pid, &glance, None, now);
                    }
                }
                ProcessEvent::Exited(pid) => self.has_ended(pid),
                ProcessEvent::Lost => {}
            }
        }
        for pid in news.numbers {
            self.is_born(pid, None, now);
        }
        if let Some(members) = news.members {
            self.are_members(&members, now);
        } else if news.all {
            self.look_through_all(now);
        }
    }

    /// A number was given. It may be a thread's, or its owner be gone again.
    fn is_born(&mut self, pid: u32, parent: Option<u32>, now: Nanos) {
        let Ok(glance) = self.proc.glance(pid) else { return };
        let is_process =
            parent.is_some() || self.proc.status(pid).is_ok_and(|its| its.process == pid);
        if is_process && self.census.get(pid).is_none_or(|k| k.born_ticks != glance.born_ticks) {
            self.meet(pid, &glance, parent, now);
        }
    }

    /// Exactly these are the processes of the chosen cgroups.
    fn are_members(&mut self, members: &[u32], now: Nanos) {
        let known: Vec<u32> = self.census.all().map(|(pid, _)| pid).collect();
        for pid in known.into_iter().filter(|pid| members.binary_search(pid).is_err()) {
            self.has_left_the_choice(pid);
        }
        for &pid in members {
            self.meet_if_new(pid, now);
        }
    }

    fn look_through_all(&mut self, now: Nanos) {
        let mut pids = Vec::new();
        if self.proc.list(|pid| pids.push(pid)).is_err() {
            return; // The next look through comes.
        }
        let there: BTreeSet<u32> = pids.iter().copied().collect();
        let gone: Vec<u32> =
            self.census.all().map(|(pid, _)| pid).filter(|pid| !there.contains(pid)).collect();
        gone.into_iter().for_each(|pid| self.has_ended(pid));
        for &pid in &pids {
            self.meet_if_new(pid, now);
        }
        self.find_families(&pids, now);
    }

    fn meet_if_new(&mut self, pid: u32, now: Nanos) {
        let known = self.census.get(pid);
        // Who is part of the kernel is looked at so seldom that its number may be another's by then.
        let is_certain = |known: &&Known| known.stand != Stand::LeftAlone(LeftAlone::KernelThread);
        if known.filter(is_certain).is_some() {
            return;
        }
        let born_ticks = known.map(|known| known.born_ticks);
        if let Ok(glance) = self.proc.glance(pid)
            && born_ticks != Some(glance.born_ticks)
        {
            self.meet(pid, &glance, None, now);
        }
    }

    /// After all numbers were given once, children may have smaller ones than their parents: those of
    /// chosen processes are looked for until there are no more.
    fn find_families(&mut self, pids: &[u32], now: Nanos) {
        if self.options.choice.pids.is_empty() {
            return;
        }
        loop {
            let mut found = false;
            for &pid in pids {
                if self.census.get(pid).is_none_or(|known| known.is_named) {
                    continue;
                }
                let Ok(glance) = self.proc.glance(pid) else { continue };
                if self.is_named(pid, &glance, None) {
                    self.meet(pid, &glance, None, now);
                    found = true;
                }
            }
            if !found {
                return;
            }
        }
    }

    /// Takes notice of a process that is new, or another program than before.
    fn meet(&mut self, pid: u32, glance: &Glance, parent: Option<u32>, now: Nanos) {
        let known = self.census.get(pid).filter(|known| known.born_ticks == glance.born_ticks);
        let job = known.and_then(|known| match known.stand {
            Stand::Job(job) => Some(job),
            _ => None,
        });
        let was_named = known.is_some_and(|known| known.is_named);
        let is_named = was_named || self.is_named(pid, glance, parent);
        let stand = self.examine(pid, glance, is_named);
        match (job, stand) {
            (Some(job), Stand::Open) => {
                self.census.meet(pid, glance, (Stand::Job(job), is_named), now);
            }
            (Some(job), other) => {
                self.leave(job, sched::DetachCause::Excluded);
                self.census.meet(pid, glance, (other, is_named), now);
            }
            (None, stand) => {
                if self.census.get(pid).is_some_and(|k| k.born_ticks != glance.born_ticks) {
                    self.has_ended(pid);
                }
                self.census.meet(pid, glance, (stand, is_named), now);
                self.inherits(pid, glance, parent.unwrap_or(glance.parent));
            }
        }
    }

    /// Whether a process was chosen by number, or comes from one that was.
    fn is_named(&self, pid: u32, glance: &Glance, parent: Option<u32>) -> bool {
        let named = &self.options.choice.pids;
        let is_it = named.get(&pid) == Some(&glance.born_ticks);
        let of_named = |parent: u32| self.census.get(parent).is_some_and(|known| known.is_named);
        !named.is_empty() && (is_it || of_named(glance.parent) || parent.is_some_and(of_named))
    }

    /// What comes of a process, as far as that can be told before it is busy.
    pub(super) fn examine(&self, pid: u32, glance: &Glance, is_named: bool) -> Stand {
        let choice = &self.options.choice;
        let comm = comm_text(&glance.comm);
        let standing = choice.asks_users().then(|| self.proc.status(pid));
        let cgroups = choice.asks_cgroups().then(|| self.proc.cgroups(pid));
        // Who may be excluded and cannot be asked is not chosen for now.
        let is_unknown = !choice.excluded.users.is_empty() && matches!(standing, Some(Err(_)))
            || !choice.excluded.cgroups.is_empty() && matches!(cgroups, Some(Err(_)));
        if is_unknown {
            return Stand::NotChosen;
        }
        let (standing, cgroups) = (standing.and_then(Result::ok), cgroups.and_then(Result::ok));
        let candidate = Candidate {
            comm: &comm,
            uid: standing.map(|standing| standing.uid),
            cgroups: cgroups.as_deref().unwrap_or_default(),
            is_named,
        };
        let chosen = choice.of(&candidate);
        if chosen == Chosen::No {
            return Stand::NotChosen;
        }
        let reason = if pid == std::process::id() {
            Some(LeftAlone::Ourselves)
        } else if pid == 1 {
            Some(LeftAlone::FirstProcess)
        } else if glance.is_kernel_thread {
            Some(LeftAlone::KernelThread)
        } else {
            match chosen {
                Chosen::ExcludedName => Some(LeftAlone::ExcludedName),
                Chosen::ExcludedUser => Some(LeftAlone::ExcludedUser),
                Chosen::ExcludedCgroup => Some(LeftAlone::ExcludedCgroup),
                _ => Glance::is_real_time(glance.class).then_some(LeftAlone::RealTime),
            }
        };
        reason.map_or(Stand::Open, Stand::LeftAlone)
    }

    /// What only matters once a process is busy, and costs more to find out: whether each of its
    /// threads may run where any may, and whose it is.
    ///
    /// # Errors
    /// It cannot be told now, so that it must not be touched now either.
    pub(super) fn examine_closely(&self, pid: u32) -> io::Result<Option<LeftAlone>> {
        let standing = self.proc.status(pid)?;
        if self.options.act && !self.own.may_bind(&standing) {
            return Ok(Some(LeftAlone::NotPermitted));
        }
        if self.here.keeps_memory(standing.nodes.as_ref()) {
            return Ok(Some(LeftAlone::OwnAffinity));
        }
        let of_us = self.heirs.get(&pid).map(|heir| &*heir.mask);
        for tid in procfs::threads("/".as_ref(), pid)? {
            let Some(mask) = unless_gone(affinity::get(tid))? else { continue };
            if mask != self.here.ordinary && of_us != Some(&mask) {
                return Ok(Some(LeftAlone::OwnAffinity));
            }
            let glance = unless_gone(self.proc.glance_thread(pid, tid))?;
            if glance.is_some_and(|glance| Glance::is_real_time(glance.class)) {
                return Ok(Some(LeftAlone::RealTime));
            }
        }
        let is_anothers = match environ("/".as_ref(), pid) {
            Ok(Environ::InExec) => return Err(io::ErrorKind::WouldBlock.into()),
            Ok(environ) => environ.variable(RUN_VARIABLE).is_some(),
            // Whose may not be read: it has no more of a reason than others.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => false,
            Err(error) => return Err(error),
        };
        Ok(is_anothers.then_some(LeftAlone::OtherEvenkeel))
    }

    /// Looks at somebody whose turn it is.
    fn look_at(&mut self, pid: u32, now: Nanos) {
        let glance = match self.proc.glance(pid) {
            Ok(glance) if !glance.has_ended() => glance,
            Ok(_) => return self.has_ended(pid),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return self.has_ended(pid);
            }
            Err(_) => return self.census.could_not_look(pid, now),
        };
        let found = self.census.look(pid, &glance, now);
        let Some(stand) = self.census.get(pid).map(|known| known.stand) else { return };
        match (found, stand) {
            (Found::Other, _) => self.meet(pid, &glance, None, now),
            (found, Stand::Job(job)) => self.look_at_job(job, &glance, found, now),
            (Found::Busy(permille), Stand::Open) => self.is_busy(pid, &glance, permille, now),
            (_, Stand::LeftAlone(_) | Stand::NotChosen) => {
                self.reconsider(pid, &glance, stand, now)
            }
            _ => {}
        }
    }

    /// Who was left alone for a reason that can pass away may be open again.
    fn reconsider(&mut self, pid: u32, glance: &Glance, stand: Stand, now: Nanos) {
        let is_named = self.census.get(pid).is_some_and(|known| known.is_named);
        let by_sight = self.examine(pid, glance, is_named);
        if by_sight != stand && by_sight != Stand::Open {
            self.census.stand(pid, by_sight, now);
        } else if by_sight == Stand::Open && self.examine_closely(pid).is_ok_and(|r| r.is_none()) {
            self.census.stand(pid, Stand::Open, now);
        }
    }

    fn is_busy(&mut self, pid: u32, glance: &Glance, permille: u64, now: Nanos) {
        match self.examine_closely(pid) {
            Ok(Some(reason)) => self.census.stand(pid, Stand::LeftAlone(reason), now),
            Ok(None) => self.adopt(pid, glance, permille, now),
            Err(_) => self.census.could_not_look(pid, now),
        }
    }
}

/// `None` of a thread that has ended meanwhile.
fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(NO_SUCH_THREAD) => Ok(None),
        Err(error) => Err(error),
    }
}
