//! State of every job: waiting, due, running, ended.
//!
//! ```text
//!   (waiting) ── Due ──► due ── started ──► running ── Ended ──► (ended)
//!                         ▲                              │
//!                         └────────── Ended, Due ────────┘
//!   (unknown) ── Attached ─────────────► running ── Detached ──► (ended); a later job may reuse the id
//! ```
//!
//! The affinity of a job is derived from outcomes of the host, not from requests. If another program changes the
//! affinity, the host reports the change.

use base::{Bytes, CpuSet, JobId, Nanos, NodeId};
use program::Job;
use sched::{Action, EventSet, JobMemory, JobState, JobView};
use topology::{Domains, Machine};

use crate::page_migrations::{ActivePageMigrations, PageMigrationHistory};

mod declared;

use declared::Declared;

/// All jobs of a run.
#[derive(Debug)]
pub(crate) struct Jobs {
    jobs: Vec<Job>,
    entries: Vec<JobEntry>,
    /// Declared rates by job.
    declared: Vec<Declared>,
    /// Indexes of due and running jobs, in ascending order.
    live: Vec<usize>,
}

/// State of one job.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobEntry {
    /// `None` if the job is waiting or ended.
    pub state: Option<JobState>,
    /// Usable CPUs that the workload allows; `None`: all usable CPUs.
    pub allowed: Option<CpuSet>,
    /// The affinity that evenkeel or another program set.
    pub placed: Option<CpuSet>,
    /// The domain that contains the usable CPUs of `placed`.
    pub home: Option<usize>,
    /// `home`; without `home`, the domain in which most tasks of the job last ran.
    pub domain: Option<usize>,
    pub is_unmanaged: bool,
    pub started: Option<Nanos>,
    pub n_tasks: u32,
    pub rates: JobRates,
    /// Memory by node; `None` until the first sample.
    pub memory: Option<JobMemory>,
    pub page_migrations: PageMigrationHistory,
}

/// Deltas of a job in the last interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobRates {
    pub cpu_time: Nanos,
    /// Wait time of all tasks. Absent if the wait time of any task is absent, or if the job has no tasks.
    pub wait: Option<Nanos>,
    pub load: u64,
    has_tasks: bool,
}

impl JobRates {
    /// Adds the deltas of a task.
    pub fn add(&mut self, cpu_time: Nanos, wait: Option<Nanos>, load: u64) {
        let before = if self.has_tasks { self.wait } else { Some(Nanos::ZERO) };
        self.wait = before.zip(wait).map(|(sum, wait)| sum.saturating_add(wait));
        self.cpu_time = self.cpu_time.saturating_add(cpu_time);
        self.load = self.load.saturating_add(load);
        self.has_tasks = true;
    }
}

impl JobEntry {
    /// Returns the bytes that a page migration is expected to move; zero if the amount is unknown and the request has
    /// no limit.
    pub fn amount(&self, from: Option<NodeId>, to: NodeId, limit: Bytes) -> Bytes {
        let known = self.memory.as_ref().map(|memory| memory.private_bytes_to_move(from, to));
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

    /// Returns the index of a job in the tables; `None` for an unknown id.
    pub fn idx(&self, id: JobId) -> Option<usize> {
        if self.jobs.get(id.index()).is_some_and(|job| job.id == id) {
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

    /// Returns a job that is due or running.
    pub fn live(&self, id: JobId) -> Option<(&Job, &JobEntry)> {
        let idx = self.live_idx(id)?;
        Some((&self.jobs[idx], &self.entries[idx]))
    }

    /// Returns the index of a job that is due or running.
    pub fn live_idx(&self, id: JobId) -> Option<usize> {
        self.idx(id).filter(|&idx| self.entries[idx].state.is_some())
    }

    pub fn live_idxs(&self) -> &[usize] {
        &self.live
    }

    /// Returns whether any job, started or not, declares memory traffic.
    pub fn any_declares_traffic(&self) -> bool {
        self.declared.iter().any(|declared| declared.ops_per_ms.is_some())
    }

    /// Returns the events whose rate any job, started or not, declares.
    pub fn declared_events(&self) -> EventSet {
        self.declared.iter().fold(EventSet::NONE, |events, declared| events.or(declared.events))
    }

    /// Returns the declared rates of a job; `None` for an unknown id.
    pub fn declared(&self, id: JobId) -> Option<&Declared> {
        self.idx(id).map(|idx| &self.declared[idx])
    }

    /// Makes a job due, for the first time or after a restart. Removes the state of an earlier run.
    pub fn set_due(&mut self, id: JobId) {
        let Some(idx) = self.idx(id) else { return };
        let allowed = self.entries[idx].allowed.take();
        self.entries[idx] = JobEntry { state: Some(JobState::Due), allowed, ..JobEntry::default() };
        self.add_live(idx);
    }

    fn add_live(&mut self, idx: usize) {
        if let Err(at) = self.live.binary_search(&idx) {
            self.live.insert(at, idx);
        }
    }

    pub fn set_running(&mut self, id: JobId, now: Nanos) {
        let Some(idx) = self.idx(id) else { return };
        let entry = &mut self.entries[idx];
        if entry.state == Some(JobState::Due) {
            entry.state = Some(JobState::Running);
            entry.started = Some(now);
        }
    }

    /// Adds a running job. The id must be the next unused id or the id of an ended job; jobs with other ids are
    /// ignored.
    pub fn add_attached(&mut self, job: &Job, now: Nanos, machine: &Machine, usable: &CpuSet) {
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
        self.add_live(idx);
    }

    pub fn set_ended(&mut self, id: JobId) {
        let Some(idx) = self.idx(id) else { return };
        let allowed = self.entries[idx].allowed.take();
        self.entries[idx] = JobEntry { allowed, ..JobEntry::default() };
        if let Ok(at) = self.live.binary_search(&idx) {
            self.live.remove(at);
        }
    }

    /// Makes a job unmanaged. Its affinity is unchanged.
    pub fn set_unmanaged(&mut self, id: JobId) {
        if let Some(idx) = self.idx(id) {
            self.entries[idx].is_unmanaged = true;
        }
    }

    pub fn is_unmanaged(&self, id: JobId) -> bool {
        self.idx(id).is_some_and(|idx| self.entries[idx].is_unmanaged)
    }

    /// Records an affinity after the host or another program changed it.
    pub fn set_placed(
        &mut self,
        id: JobId,
        cpus: Option<CpuSet>,
        domains: &Domains,
        usable: &CpuSet,
    ) {
        let Some(idx) = self.live_idx(id) else { return };
        let entry = &mut self.entries[idx];
        entry.placed = cpus;
        entry.home = home(entry.placed.as_ref(), domains, usable);
        entry.domain = entry.home;
    }

    /// Updates all jobs after a change of the usable CPUs and the domains.
    pub fn update_usable(&mut self, machine: &Machine, domains: &Domains, usable: &CpuSet) {
        for (job, entry) in self.jobs.iter().zip(&mut self.entries) {
            entry.allowed = allowed(job, machine, usable);
            entry.home = home(entry.placed.as_ref(), domains, usable);
            entry.domain = entry.home;
        }
    }

    pub fn active_page_migrations(&self) -> ActivePageMigrations {
        let mut sum = ActivePageMigrations::default();
        for history in self.live.iter().map(|&idx| &self.entries[idx].page_migrations) {
            if let Some(active) = &history.active {
                sum.add(active.to, history.amount);
            }
        }
        sum
    }

    /// Returns the views of the due and running jobs, by id.
    pub fn views<'a>(&'a self, usable: &'a CpuSet) -> Vec<JobView<'a>> {
        self.live.iter().map(|&idx| view(&self.jobs[idx], &self.entries[idx], usable)).collect()
    }
}

fn view<'a>(job: &'a Job, entry: &'a JobEntry, usable: &'a CpuSet) -> JobView<'a> {
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
        active_page_migration: entry.page_migrations.active.as_ref(),
        last_page_migration: entry.page_migrations.last.as_ref().map(|(at, last)| (*at, last)),
    }
}

/// Returns the usable CPUs that the workload allows for a job; `None` if the workload does not restrict the CPUs.
fn allowed(job: &Job, machine: &Machine, usable: &CpuSet) -> Option<CpuSet> {
    let of_nodes = job.nodes.as_ref().map(|nodes| machine.cpus_of_nodes(nodes));
    let declared = match (&job.cpus, of_nodes) {
        (Some(cpus), Some(of_nodes)) => cpus.and(&of_nodes),
        (Some(cpus), None) => cpus.clone(),
        (None, Some(of_nodes)) => of_nodes,
        (None, None) => return None,
    };
    Some(declared.and(usable))
}

fn home(placed: Option<&CpuSet>, domains: &Domains, usable: &CpuSet) -> Option<usize> {
    let placed = placed?;
    match placed.is_subset(usable) {
        true => domains.of_set(placed),
        false => domains.of_set(&placed.and(usable)),
    }
}
