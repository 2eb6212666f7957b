//! The life of every job as far as it is known: waiting, due, running, gone, due again.
//!
//! ```text
//!   (waiting) ── Due ──► due ── started ──► running ── Ended ──► (gone)
//!                         ▲                              │
//!                         └────────── Ended, Due ────────┘
//!   (unknown) ── Appeared ─────────────► running ── Left ──► (gone), its number free for another
//! ```
//!
//! What a job was placed on is what the host said it did, never what was wished. One that somebody
//! else bound is where they put it.

use base::{Bytes, CpuSet, JobId, Nanos, NodeId};
use program::Job;
use sched::{Action, CounterEvent, JobMemory, JobState, JobView};
use topology::{Domains, Machine};

use crate::derive::Declared;
use crate::moves::{ActiveMoves, JobMoves};

/// All jobs of a run.
#[derive(Debug)]
pub(crate) struct Jobs {
    jobs: Vec<Job>,
    entries: Vec<JobEntry>,
    /// What each declares.
    declared: Vec<Declared>,
    /// Indices of those that are due or running, rising.
    live: Vec<usize>,
}

/// What is known of one job.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobEntry {
    /// `None`: it waits or is gone.
    pub state: Option<JobState>,
    /// What it may use; `None`: everything that is usable, as for most jobs.
    pub allowed: Option<CpuSet>,
    /// Where it was put, by us or by who took it out of our hands.
    pub placed: Option<CpuSet>,
    /// The one domain that holds what is still usable of `placed`.
    pub home: Option<usize>,
    /// The home, or else where most of its tasks ran.
    pub domain: Option<usize>,
    /// The kernel or somebody else took it out of our hands.
    pub is_unmanaged: bool,
    pub started: Option<Nanos>,
    pub n_tasks: u32,
    pub rates: JobRates,
    /// Where its memory lies; `None` until that was looked at.
    pub memory: Option<JobMemory>,
    pub moves: JobMoves,
}

/// What a job did in the last interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobRates {
    pub cpu_time: Nanos,
    /// As long as all of its tasks waited together; absent when that of one is, or when it had none.
    pub wait: Option<Nanos>,
    pub load: u64,
    has_tasks: bool,
}

impl JobRates {
    /// One more task and what it did.
    pub fn add(&mut self, cpu_time: Nanos, wait: Option<Nanos>, load: u64) {
        let before = if self.has_tasks { self.wait } else { Some(Nanos::ZERO) };
        self.wait = before.zip(wait).map(|(sum, more)| sum.saturating_add(more));
        self.cpu_time = self.cpu_time.saturating_add(cpu_time);
        self.load = self.load.saturating_add(load);
        self.has_tasks = true;
    }
}

impl JobEntry {
    /// How much a move would carry, as far as is known: nothing is counted for what is not.
    pub fn amount(&self, from: Option<NodeId>, to: NodeId, limit: Bytes) -> Bytes {
        let known = self.memory.as_ref().map(|memory| memory.own_to_move(from, to));
        match known {
            Some(known) => known.min(limit),
            None if limit == Action::NO_LIMIT => Bytes::ZERO,
            None => limit,
        }
    }
}

impl Jobs {
    pub fn new(mut jobs: Vec<Job>, machine: &Machine) -> Self {
        jobs.sort_by_key(|job| job.id);
        let entries = vec![JobEntry::default(); jobs.len()];
        let declared = jobs.iter().map(|job| Declared::of(job, machine)).collect();
        Jobs { jobs, entries, declared, live: Vec::new() }
    }

    /// Where a job stands in the tables; `None` for a number that the workload does not have.
    pub fn idx(&self, id: JobId) -> Option<usize> {
        let straight = self.jobs.get(id.index()).is_some_and(|job| job.id == id);
        if straight {
            return Some(id.index());
        }
        self.jobs.binary_search_by_key(&id, |job| job.id).ok()
    }

    pub fn entry(&self, idx: usize) -> &JobEntry {
        &self.entries[idx]
    }

    pub fn entry_mut(&mut self, idx: usize) -> &mut JobEntry {
        &mut self.entries[idx]
    }

    /// A job that is due or running.
    pub fn live(&self, id: JobId) -> Option<(&Job, &JobEntry)> {
        let idx = self.idx(id).filter(|&idx| self.entries[idx].state.is_some())?;
        Some((&self.jobs[idx], &self.entries[idx]))
    }

    /// Where one that is due or running stands in the tables.
    pub fn live_idx(&self, id: JobId) -> Option<usize> {
        self.idx(id).filter(|&idx| self.entries[idx].state.is_some())
    }

    pub fn live_idxs(&self) -> &[usize] {
        &self.live
    }

    /// Whether any job, started or not, declares how much memory traffic it makes.
    pub fn any_declares_traffic(&self) -> bool {
        self.declared.iter().any(|declared| declared.ops_per_ms.is_some())
    }

    /// Whether any job, started or not, declares a event of its tasks.
    pub fn any_declares(&self, event: CounterEvent) -> bool {
        self.declared.iter().any(|declared| declared.knows(event))
    }

    /// What a job declares; `None` for a number that no job has.
    pub fn declared(&self, id: JobId) -> Option<&Declared> {
        self.idx(id).map(|idx| &self.declared[idx])
    }

    /// Its time has come, for the first time or again: nothing of an earlier run holds any more.
    pub fn due(&mut self, id: JobId) {
        let Some(idx) = self.idx(id) else { return };
        let allowed = self.entries[idx].allowed.take();
        self.entries[idx] = JobEntry { state: Some(JobState::Due), allowed, ..JobEntry::default() };
        if let Err(at) = self.live.binary_search(&idx) {
            self.live.insert(at, idx);
        }
    }

    pub fn running(&mut self, id: JobId, now: Nanos) {
        let Some(idx) = self.idx(id) else { return };
        let entry = &mut self.entries[idx];
        if entry.state == Some(JobState::Due) {
            entry.state = Some(JobState::Running);
            entry.started = Some(now);
        }
    }

    /// It runs already. It takes the next number, or that of one that is gone; any other number is
    /// none that a host may give, and is ignored.
    pub fn attached(&mut self, job: &Job, now: Nanos, machine: &Machine, usable: &CpuSet) {
        let entry = JobEntry {
            state: Some(JobState::Running),
            started: Some(now),
            allowed: allowed(job, machine, usable),
            ..JobEntry::default()
        };
        let next = self.jobs.last().map_or(0, |last| last.id.0 + 1);
        let idx = match self.idx(job.id) {
            Some(idx) if self.entries[idx].state.is_none() => {
                (self.jobs[idx], self.entries[idx]) = (job.clone(), entry);
                self.declared[idx] = Declared::of(job, machine);
                idx
            }
            None if job.id.0 == next => {
                self.jobs.push(job.clone());
                self.entries.push(entry);
                self.declared.push(Declared::of(job, machine));
                self.jobs.len() - 1
            }
            _ => return,
        };
        if let Err(at) = self.live.binary_search(&idx) {
            self.live.insert(at, idx);
        }
    }

    pub fn ended(&mut self, id: JobId) {
        let Some(idx) = self.idx(id) else { return };
        let allowed = self.entries[idx].allowed.take();
        self.entries[idx] = JobEntry { allowed, ..JobEntry::default() };
        if let Ok(at) = self.live.binary_search(&idx) {
            self.live.remove(at);
        }
    }

    /// It is not ours to place any more, and stays where it is.
    pub fn set_unmanaged(&mut self, id: JobId) {
        if let Some(idx) = self.idx(id) {
            self.entries[idx].is_unmanaged = true;
        }
    }

    /// Whether it was taken out of our hands.
    pub fn is_unmanaged(&self, id: JobId) -> bool {
        self.idx(id).is_some_and(|idx| self.entries[idx].is_unmanaged)
    }

    /// The host bound it, or gave it back what it had; or somebody else put it there.
    pub fn placed(&mut self, id: JobId, cpus: Option<CpuSet>, domains: &Domains, usable: &CpuSet) {
        let Some(idx) = self.idx(id).filter(|&idx| self.entries[idx].state.is_some()) else {
            return;
        };
        let entry = &mut self.entries[idx];
        entry.placed = cpus;
        entry.home = home(entry.placed.as_ref(), domains, usable);
        entry.domain = entry.home;
    }

    /// What may be used changed, and with it the domains.
    pub fn usable_changed(&mut self, machine: &Machine, domains: &Domains, usable: &CpuSet) {
        for (job, entry) in self.jobs.iter().zip(&mut self.entries) {
            entry.allowed = allowed(job, machine, usable);
            entry.home = home(entry.placed.as_ref(), domains, usable);
            entry.domain = entry.home;
        }
    }

    /// What moves of memory are under way.
    pub fn active_moves(&self) -> ActiveMoves {
        let mut sum = ActiveMoves::default();
        for moves in self.live.iter().map(|&idx| &self.entries[idx].moves) {
            if let Some(moving) = &moves.moving {
                sum.add(moving.to, moves.amount);
            }
        }
        sum
    }

    /// Those that are due or running as a policy sees them, by id.
    pub fn seen<'a>(&'a self, usable: &'a CpuSet) -> Vec<JobView<'a>> {
        self.live.iter().map(|&idx| seen(&self.jobs[idx], &self.entries[idx], usable)).collect()
    }
}

fn seen<'a>(job: &'a Job, entry: &'a JobEntry, usable: &'a CpuSet) -> JobView<'a> {
    JobView {
        job,
        state: entry.state.unwrap_or(JobState::Due),
        allowed: entry.allowed.as_ref().unwrap_or(usable),
        placed: entry.placed.as_ref(),
        domain: entry.domain,
        movable: !entry.is_unmanaged,
        started: entry.started,
        cpu_time: entry.rates.cpu_time,
        load: entry.rates.load,
        wait: entry.rates.wait,
        n_tasks: entry.n_tasks,
        memory: entry.memory.as_ref(),
        active_page_move: entry.moves.moving.as_ref(),
        last_page_move: entry.moves.moved.as_ref().map(|(at, moved)| (*at, moved)),
    }
}

/// What a job's own wish leaves of the usable CPUs; `None` when it has no wish.
fn allowed(job: &Job, machine: &Machine, usable: &CpuSet) -> Option<CpuSet> {
    let of_nodes = job.nodes.as_ref().map(|nodes| machine.cpus_of_nodes(nodes));
    let wish = match (&job.cpus, of_nodes) {
        (Some(cpus), Some(of_nodes)) => cpus.and(&of_nodes),
        (Some(cpus), None) => cpus.clone(),
        (None, Some(of_nodes)) => of_nodes,
        (None, None) => return None,
    };
    Some(wish.and(usable))
}

fn home(placed: Option<&CpuSet>, domains: &Domains, usable: &CpuSet) -> Option<usize> {
    let placed = placed?;
    match placed.is_subset(usable) {
        true => domains.of_set(placed),
        false => domains.of_set(&placed.and(usable)),
    }
}
