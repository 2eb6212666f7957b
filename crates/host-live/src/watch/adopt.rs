//! A busy process becomes a job; one that ends, sleeps for long or must not be touched leaves.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{CpuSet, JobId, Nanos};
use linux::glance::{Glance, comm_text};
use program::{Class, Command, Ending, Job, Origin};
use sched::{Cause, DetachCause, JobEvent, PageMoveEnd};

use super::board::{Alone, Board, Managed};
use super::census::{Found, Stand};
use super::heirs::Heir;
use super::respect::LeftAlone;
use super::{BOARD_EVERY, WatchHost, is_coming_or_going, name_matches};
use crate::hold::{Hold, lives};
use linux::tasks::KeptFile;

/// So many jobs get numbers of their own before numbers of those that left are given again.
const NUMBERS_FRESH: u32 = 1024;

/// A process that is a job.
pub(super) struct Watched {
    pub hold: Hold,
    pub born_ticks: u64,
    pub since: Nanos,
    /// When it was last seen to use the CPU.
    pub busy_at: Nanos,
    /// When it was placed first, in clock ticks since boot: who is older has nothing from it.
    pub placed_ticks: Option<u64>,
    /// Wakes us at its end; absent when there was no descriptor left.
    ends: Option<KeptFile>,
}

impl WatchHost {
    /// Makes a busy process a job of the engine.
    pub(super) fn adopt(&mut self, pid: u32, glance: &Glance, permille: u64, now: Nanos) {
        let Ok(standing) = self.proc.status(pid) else { return };
        let heir =
            self.heirs.get(&pid).filter(|heir| heir.born_ticks == glance.born_ticks).cloned();
        let Some((base, placed)) = self.had(heir.as_ref(), standing.cpus) else {
            // Somebody has bound it since it was examined: it is examined again, after a rest.
            return self.census.could_not_look(pid, now);
        };
        let job = self.next_number();
        let name = format!("{}.{pid}", comm_text(&glance.comm));
        self.family.adopt(job, pid, placed.as_ref().unwrap_or(&base));
        if self.family.job_of(pid) != Some(job) {
            self.free_jobs.push_back(job); // It has ended meanwhile.
            return;
        }
        let masks = [Some(Arc::clone(&base)), placed.clone()].into_iter().flatten().collect();
        let hold =
            Hold { job, name, pid, base, placed, masks, hands_off: false, parts_placed: false };
        let ends = self.family.descriptors.keep_pidfd(pid).ok().flatten();
        let ends = ends.filter(|file| self.wakes.watch(file, pid).is_ok());
        let event = self.job(&hold, &comm_text(&glance.comm), permille);
        self.pending.jobs.push(JobEvent::Attached(Box::new(event)));
        let born_ticks = glance.born_ticks;
        let placed_ticks = heir.as_ref().map(|_| born_ticks);
        let watched = Watched { hold, born_ticks, since: now, busy_at: now, placed_ticks, ends };
        self.watched.insert(job, watched);
        self.census.stand(pid, Stand::Job(job), now);
        if heir.is_some() {
            self.heirs.remove(&pid);
            self.record_as_ours(job);
        }
    }

    /// What a process would have without us, and what it has from us by birth; `None` if what it has
    /// now is neither what processes have here nor ours.
    fn had(&self, heir: Option<&Heir>, cpus: CpuSet) -> Option<(Arc<CpuSet>, Option<Arc<CpuSet>>)> {
        let of = heir.and_then(|heir| Some((heir, self.watched.get(&heir.of)?)));
        match of {
            Some((heir, of)) if self.here.are_same(&cpus, &heir.mask) => {
                Some((Arc::clone(&of.hold.base), Some(Arc::clone(&heir.mask))))
            }
            _ => self.here.is_ordinary(&cpus).then(|| (Arc::new(cpus), None)),
        }
    }

    /// An heir that became a job of its own is written down under its own name.
    fn record_as_ours(&mut self, job: JobId) {
        let Some((hold, mut hands)) = self.grasp(job) else { return };
        let Some(mask) = hold.placed.clone() else { return };
        let threads = hands.family.threads_of(job);
        let tasks = threads.map(|(pid, t)| (t.id.tid, t.id.start_time_ticks, pid)).collect();
        // If this cannot be written it is still in the record under its parent's name.
        let _ = hands.record(&hold.name, [&hold.base, &mask, &mask], tasks);
    }

    fn job(&self, hold: &Hold, comm: &str, permille: u64) -> Job {
        Job {
            id: hold.job,
            name: hold.name.clone(),
            command: Command::Program { program: comm.into(), args: Vec::new() },
            start: Nanos::ZERO,
            class: self.class_of(comm),
            threads: u32::try_from(permille.div_ceil(1000)).unwrap_or(u32::MAX).max(1),
            ending: Ending::Exit,
            origin: Origin { file: format!("/proc/{}", hold.pid).into(), line: 0 },
            sensitivity: None,
            profile: None,
            found: None,
            dir: None,
            env: BTreeMap::new(),
            input: None,
            output: None,
            cpus: None,
            nodes: None,
            memory: None,
        }
    }

    fn class_of(&self, comm: &str) -> Option<Class> {
        let fits = |(pattern, _): &&(String, Class)| name_matches(pattern, comm);
        self.options.classes.iter().find(fits).map(|(_, class)| *class)
    }

    fn next_number(&mut self) -> JobId {
        if self.next_job < NUMBERS_FRESH || self.free_jobs.is_empty() {
            self.next_job += 1;
            return JobId(self.next_job - 1);
        }
        self.free_jobs.pop_front().unwrap_or(JobId(self.next_job))
    }

    /// A look at a process that is a job: is it still to be looked after, and has it done anything?
    pub(super) fn look_at_job(&mut self, job: JobId, glance: &Glance, found: Found, now: Nanos) {
        let Some(watched) = self.watched.get_mut(&job) else { return };
        if matches!(found, Found::Busy(_)) {
            watched.busy_at = now;
        }
        let (pid, is_idle) = (watched.hold.pid, watched.busy_at + self.options.idle_after <= now);
        let is_named = self.census.get(pid).is_some_and(|known| known.is_named);
        let stand = match self.examine(pid, glance, is_named) {
            Stand::Open if self.has_come_to_a_cpuset(pid) => {
                Stand::LeftAlone(LeftAlone::OwnAffinity)
            }
            stand => stand,
        };
        if stand != Stand::Open {
            self.leave(job, DetachCause::Excluded);
            self.census.stand(pid, stand, now);
        } else if is_idle {
            self.leave(job, DetachCause::Idle);
            self.census.stand(pid, Stand::Open, now);
        } else {
            self.census.stand(pid, Stand::Job(job), now);
        }
    }

    /// Whether somebody has given a job a cpuset that says where its memory is to come from. One that
    /// gives it other CPUs shows in its mask, which is looked at more often.
    fn has_come_to_a_cpuset(&self, pid: u32) -> bool {
        let standing = self.proc.status(pid);
        standing.is_ok_and(|standing| self.here.keeps_memory(standing.nodes.as_ref()))
    }

    /// A process is gone.
    pub(super) fn has_ended(&mut self, pid: u32) {
        self.heirs.remove(&pid);
        let Some(known) = self.census.get(pid) else { return };
        if let Stand::Job(job) = known.stand {
            let id = base::TaskId { tid: pid, start_time_ticks: known.born_ticks };
            if lives(id) {
                return; // The number is another's, or its first thread alone has ended.
            }
            self.leave(job, DetachCause::Ended);
        }
        self.census.forget(pid);
    }

    /// A process is in none of the chosen cgroups any more.
    pub(super) fn has_left_the_choice(&mut self, pid: u32) {
        let Some(known) = self.census.forget(pid) else { return };
        if let Stand::Job(job) = known.stand {
            let id = base::TaskId { tid: pid, start_time_ticks: known.born_ticks };
            let why = if lives(id) { DetachCause::Excluded } else { DetachCause::Ended };
            self.leave(job, why);
        }
    }

    pub(super) fn leave_all(&mut self, why: DetachCause) {
        let jobs: Vec<JobId> = self.watched.keys().copied().collect();
        jobs.into_iter().for_each(|job| self.leave(job, why));
    }

    /// A job is one no longer. What is ours of it is put back.
    pub(super) fn leave(&mut self, job: JobId, why: DetachCause) {
        let stopped_by = match why {
            DetachCause::Ended => PageMoveEnd::Exited,
            _ => PageMoveEnd::Stopped,
        };
        self.memory.stop_moves_of(job, stopped_by);
        self.release(job);
        let Some(watched) = self.watched.remove(&job) else { return };
        if let Some(ends) = &watched.ends {
            self.wakes.unwatch(ends);
        }
        let counted = Box::new(self.family.take_counters_of(job));
        let mut gone = self.family.forget(watched.hold.pid);
        self.pending.exited.append(&mut gone);
        self.pending.jobs.push(JobEvent::Detached(job, why, counted));
        self.causes.insert(Cause::Ended);
        self.freed.push(job);
    }

    /// Brings up to date what is shown.
    pub(super) fn show(&mut self, has_acted: bool) {
        let now = self.turn_at;
        let is_news = self.pending.jobs.iter().any(is_coming_or_going) || has_acted;
        if now < self.board_at
            && !is_news
            && self.watched.len() == self.board.borrow().managed.len()
        {
            return;
        }
        self.board_at = now + BOARD_EVERY;
        let mut board = Board {
            way: self.notice.name().to_owned(),
            n_known: self.census.len() as u64,
            n_heirs: self.heirs.len() as u64,
            targets: self.here.targets(),
            whole: self.here.whole(),
            managed: self.watched.values().map(Watched::shown).collect(),
            ..Board::default()
        };
        self.count_stands(&mut board);
        *self.board.borrow_mut() = board;
    }

    fn count_stands(&self, board: &mut Board) {
        let mut alone: BTreeMap<LeftAlone, Alone> = BTreeMap::new();
        for (pid, known) in self.census.all() {
            match known.stand {
                Stand::LeftAlone(why) => {
                    alone.entry(why).or_default().add(pid, || comm_text(&known.comm));
                }
                Stand::Open => board.n_asleep += 1,
                Stand::NotChosen | Stand::Job(_) => {}
            }
        }
        for Watched { hold, born_ticks, .. } in self.watched.values() {
            let process = base::TaskId { tid: hold.pid, start_time_ticks: *born_ticks };
            if self.memory.leaves_alone(process) {
                let comm = hold.name.rsplit_once('.').map_or("", |(comm, _)| comm);
                let alone = alone.entry(LeftAlone::OwnMemoryPolicy).or_default();
                alone.add(hold.pid, || comm.to_owned());
            }
        }
        board.left_alone = alone;
    }
}

impl Watched {
    fn shown(&self) -> Managed {
        let Hold { job, name, pid, base, placed, hands_off, .. } = &self.hold;
        Managed {
            job: *job,
            name: name.clone(),
            pid: *pid,
            born_ticks: self.born_ticks,
            since: self.since,
            before: (**base).clone(),
            placed: placed.as_deref().cloned(),
            hands_off: *hands_off,
        }
    }
}
