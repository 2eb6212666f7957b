//! Home cluster: each job has one cluster from which both its CPUs and its pages come.
//!
//! ```text
//!              cluster 0          cluster 1         cluster 2
//!              [a][a][b][b]       [c][ ][ ][ ]      [ ][ ][ ][ ]
//!   d starts                                        ◄─ home: the most free CPUs
//!   b grows                       ◄─ home is full: the nearest cluster with free CPUs
//!   a ends     [ ][ ][b][b] ◄──── b returns home
//! ```
//!
//! The home is selected when a job starts: the cluster with the most free CPUs (loading policy (c) of two-level
//! scheduling: Y. Oishi, R. Fujiki, K. Saisho, A. Fukuda, Two-level Scheduling in Collaboration with Memory
//! Management for NUMA Multiprocessors). If no CPU is free, the home of the fewest jobs. CPUs come from home first,
//! then from the nearest cluster, of equally near clusters from the one with the most free CPUs (`processors=home`);
//! or always from the cluster with the most free CPUs (`processors=free`). CPUs are shared only if none is free, and
//! no CPU is taken from a job. A CPU that becomes free goes to jobs that share CPUs, those with the most shared
//! threads first, and to jobs with CPUs outside home.
//!
//! ```text
//!   pages=h0   preferably allocated at home                 and migrate when the home changes
//!   pages=h1   stay on the node of their first touch
//!   pages=h2   stay on the node of their first touch        and migrate home when the job migrates
//!   pages=h3   read-only pages are copied                   not available
//! ```
//!
//! If more than half of a job's CPUs have been outside home for `t_rehome`, the cluster of most of them becomes its
//! home. A job whose memory the workload binds to one node has its home there permanently, and pages with a declared
//! memory policy never migrate.
//!
//! A cluster is a node (or a cache, by `domains`), a processor a CPU, and a process a job, whose placement also holds
//! for children that start later. A job has as many CPUs as threads. With more threads than CPUs, CPUs are shared,
//! the emptiest first; no job waits in a queue. The home of a job that ran before it was attached is the node of most
//! of its pages, else its current one. A job whose CPUs became unusable keeps its home while that has usable CPUs.
//! All of these rules are our choice: of the source only the idea is public.

mod declaration;
mod pages;
mod processors;
mod reasons;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use base::{CpuSet, JobId, Nanos};
use sched::{Action, Cause, JobState, JobView, PerJob, Plan, Policy, ReasonCode, Snapshot, Target};
use topology::{DomainChoice, Level};

use crate::notes::MachineNotes;
use crate::placement;
use crate::slots::CpuOccupancy;
pub(crate) use declaration::INFO;
use declaration::{Config, Pages};
use pages::PendingPages;
use processors::CpuGroup;
use reasons::HomeChoice;

/// State of the policy.
#[derive(Debug)]
struct HomeCluster {
    config: Config,
    homes: PerJob<HomeState>,
    /// The level of the domains that homes refer to.
    level: Option<Level>,
    notes: MachineNotes,
}

/// The home of a job, and pending changes.
#[derive(Clone, Debug, Default)]
struct HomeState {
    /// The number of its home cluster.
    home: Option<u32>,
    /// Start of the time with more than half of its CPUs outside home.
    outside_since: Option<Nanos>,
    /// Pages that migrate home.
    pending: Option<PendingPages>,
}

impl Policy for HomeCluster {
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        if self.notes.add(seen, plan) {
            self.note_pages(seen, plan);
        }
        let is_interval = seen.turn.causes.contains(&Cause::Interval);
        plan.quiescent = is_interval && seen.jobs.iter().all(|job| job.cpu_time == Nanos::ZERO);
        self.homes.forget_ended(seen);
        if !placement::can_place(seen) {
            return;
        }
        if self.level.replace(seen.domains.level()) != Some(seen.domains.level()) {
            self.homes = PerJob::default(); // Numbers refer to other domains now.
        }
        let mut occupancy = CpuOccupancy::new(seen.machine);
        for job in seen.jobs.iter().filter(|job| job.state == JobState::Running) {
            job.placed.into_iter().for_each(|cpus| occupancy.add(&cpus.and(seen.usable_cpus)));
        }
        let mut at_home = self.at_home(seen);
        for job in seen.jobs.iter().filter(|job| job.movable) {
            // The selection of a home counts the other jobs.
            self.home(seen, job.job.id).into_iter().for_each(|idx| at_home[idx] -= 1);
            self.admit(seen, job, (&mut occupancy, &at_home), plan);
            self.home(seen, job.job.id).into_iter().for_each(|idx| at_home[idx] += 1);
        }
        self.assign_free_cpus(seen, &mut occupancy, plan);
        let requested = requested(plan);
        for job in seen.jobs.iter().filter(|job| job.movable) {
            if !requested.contains(&job.job.id.into()) {
                self.move_home(seen, job, plan);
            }
        }
        self.move_pages(seen, plan);
    }

    fn name(&self) -> &str {
        INFO.name
    }

    fn reasons(&self) -> Vec<ReasonCode> {
        INFO.reasons.concat()
    }

    fn interval(&self) -> Option<Nanos> {
        Some(self.config.interval)
    }

    fn domains(&self) -> DomainChoice {
        self.config.domains
    }
}

/// Targets of requests of this turn.
fn requested(plan: &Plan) -> BTreeSet<Target> {
    plan.requests.iter().map(|request| request.target).collect()
}

impl HomeCluster {
    fn new(config: Config) -> Self {
        let (homes, notes) = Default::default();
        HomeCluster { config, homes, level: None, notes }
    }

    /// The index of a job's home; `None`: it has none, or its home has no usable CPU.
    fn home(&self, seen: &Snapshot<'_>, job: JobId) -> Option<usize> {
        let number = self.homes.get(job)?.home?;
        seen.domains.iter().find(|(_, domain)| domain.number == number).map(|(idx, _)| idx)
    }

    /// Number of jobs with their home on each cluster.
    fn at_home(&self, seen: &Snapshot<'_>) -> Vec<u64> {
        let mut at_home = vec![0u64; seen.domains.len()];
        let homes = seen.jobs.iter().filter_map(|job| self.home(seen, job.job.id));
        homes.for_each(|idx| at_home[idx] += 1);
        at_home
    }

    /// Assigns a home and CPUs to a job without them, or whose CPUs became unusable.
    fn admit(
        &mut self,
        seen: &Snapshot<'_>,
        job: &JobView<'_>,
        (occupancy, at_home): (&mut CpuOccupancy, &[u64]),
        plan: &mut Plan,
    ) {
        let is_due = job.state == JobState::Due;
        let is_lost = placement::has_lost_cpus(job, seen.usable_cpus);
        if !is_due && !is_lost && job.placed.is_some() && self.home(seen, job.job.id).is_some() {
            return;
        }
        if is_due {
            *self.homes.of(job.job.id) = HomeState::default();
        }
        let Some(choice) = self.select_home(seen, job, (occupancy, at_home)) else { return };
        let state = self.homes.of(job.job.id);
        state.home = Some(seen.domains.get(choice.idx()).number);
        if !is_due && !is_lost && job.placed.is_some() {
            return; // It has an affinity already, and only its home was unknown.
        }
        let had = job.placed.map(|cpus| cpus.and(seen.usable_cpus)).unwrap_or_default();
        occupancy.remove(&had);
        let group = CpuGroup::allocate(&self.config, seen, job, choice.idx(), occupancy, &had);
        let reason = reasons::admitted(seen, job, &choice, &group, is_lost);
        if is_lost {
            self.has_migrated(job.job.id);
        }
        occupancy.add(&group.cpus);
        plan.request(job.job.id, Action::Place(group.cpus), reason);
        if is_due {
            self.bind_pages(seen, job, choice.idx(), plan);
        }
    }

    /// The home of a job; `None`: it may use no domain.
    fn select_home(
        &self,
        seen: &Snapshot<'_>,
        job: &JobView<'_>,
        (occupancy, at_home): (&CpuOccupancy, &[u64]),
    ) -> Option<HomeChoice> {
        let is_allowed = |idx: &usize| seen.domains.get(*idx).cpus.intersects(job.allowed);
        let of_node = |node| {
            let mut all = seen.domains.iter();
            all.find(|(idx, domain)| domain.node == Some(node) && is_allowed(idx))
                .map(|(idx, _)| idx)
        };
        if let Some(idx) = self.home(seen, job.job.id).filter(is_allowed) {
            return Some(HomeChoice::Kept { idx });
        }
        if let Some(idx) = placement::declared_node(job).and_then(of_node) {
            return Some(HomeChoice::Declared { idx });
        }
        if job.state == JobState::Running {
            let by_memory = job.memory.and_then(|memory| memory.home()).and_then(of_node);
            if let Some(idx) = by_memory {
                return Some(HomeChoice::ByMemory { idx });
            }
            if let Some(idx) = job.domain.filter(is_allowed) {
                return Some(HomeChoice::Current { idx });
            }
        }
        self.emptiest_cluster(seen, job, (occupancy, at_home))
    }

    /// Loading policy (c): the cluster with the most free CPUs.
    fn emptiest_cluster(
        &self,
        seen: &Snapshot<'_>,
        job: &JobView<'_>,
        (occupancy, at_home): (&CpuOccupancy, &[u64]),
    ) -> Option<HomeChoice> {
        let possible = |idx: usize| seen.domains.get(idx).cpus.and(job.allowed);
        let free = |idx: usize| possible(idx).iter().filter(|&cpu| occupancy.is_free(cpu)).count();
        let possible_ones = || (0..seen.domains.len()).filter(|&idx| !possible(idx).is_empty());
        let idx = possible_ones().min_by_key(|&idx| (Reverse(free(idx)), idx))?;
        if free(idx) != 0 {
            let (free, n_cpus) = (free(idx) as u64, possible(idx).len() as u64);
            return Some(HomeChoice::MostFree { idx, free, n_cpus });
        }
        let idx = possible_ones().min_by_key(|&idx| (at_home[idx], idx))?;
        Some(HomeChoice::FewestAtHome { idx, n_at_home: at_home[idx] })
    }

    /// Assigns free CPUs to jobs that share CPUs, and to jobs with CPUs outside home.
    fn assign_free_cpus(
        &mut self,
        seen: &Snapshot<'_>,
        occupancy: &mut CpuOccupancy,
        plan: &mut Plan,
    ) {
        if !seen.usable_cpus.iter().any(|cpu| occupancy.is_free(cpu)) {
            return;
        }
        let requested = requested(plan);
        let is_placed = |job: &&JobView<'_>| {
            job.state == JobState::Running
                && job.movable
                && job.placed.is_some()
                && !requested.contains(&job.job.id.into())
        };
        let mut placed: Vec<&JobView<'_>> = seen.jobs.iter().filter(is_placed).collect();
        let lacks = |job: &JobView<'_>| CpuGroup::of(seen, job, 0, occupancy).n_shared;
        placed.sort_by_key(|job| (Reverse(lacks(job)), job.job.id));
        for job in placed {
            let Some(home) = self.home(seen, job.job.id) else { continue };
            let now = CpuGroup::of(seen, job, home, occupancy);
            if now.is_optimal(&self.config) {
                continue;
            }
            occupancy.remove(&now.cpus);
            let group = CpuGroup::allocate(&self.config, seen, job, home, occupancy, &now.cpus);
            if !group.is_better(&self.config, &now) {
                occupancy.add(&now.cpus);
                continue;
            }
            if group.clusters(seen) != now.clusters(seen) {
                self.has_migrated(job.job.id);
            }
            occupancy.add(&group.cpus);
            let reason = reasons::processors_free(seen, home, &now, &group);
            plan.request(job.job.id, Action::Place(group.cpus), reason);
        }
    }

    /// Changes the home of a job whose CPUs have been outside for long enough.
    fn move_home(&mut self, seen: &Snapshot<'_>, job: &JobView<'_>, plan: &mut Plan) {
        let Some(home) = self.home(seen, job.job.id) else { return };
        let cpus = job.placed.map(|cpus| cpus.and(seen.usable_cpus)).unwrap_or_default();
        let outside = cpus.minus(&seen.domains.get(home).cpus);
        let state = self.homes.of(job.job.id);
        let is_bound = placement::declared_node(job).is_some();
        if job.state != JobState::Running || is_bound || 2 * outside.len() <= cpus.len() {
            state.outside_since = None;
            return;
        }
        let since = *state.outside_since.get_or_insert(seen.turn.at);
        let time = seen.turn.at.saturating_sub(since);
        let n_in = |idx: usize| seen.domains.get(idx).cpus.and(&cpus).len();
        // A job wider than any cluster always has CPUs outside.
        let is_better = |to: &usize| n_in(home) < n_in(*to) && self.config.t_rehome <= time;
        let Some(to) = most_of(seen, &cpus).filter(is_better) else { return };
        state.outside_since = None;
        state.home = Some(seen.domains.get(to).number);
        plan.note(reasons::home_moved(seen, job, home, to, (outside.len(), cpus.len()), time));
        if self.config.pages != Pages::FirstTouch {
            state.pending = Some(PendingPages::new_home());
        }
    }

    /// With `pages=h2` the pages of a job migrate home after the job changed clusters.
    fn has_migrated(&mut self, job: JobId) {
        if self.config.pages == Pages::ReturnHome {
            self.homes.of(job).pending = Some(PendingPages::migrated());
        }
    }
}

/// The cluster of most of some CPUs; ties: the lowest number.
fn most_of(seen: &Snapshot<'_>, cpus: &CpuSet) -> Option<usize> {
    let n_in = |idx: usize| seen.domains.get(idx).cpus.and(cpus).len();
    (0..seen.domains.len()).rev().max_by_key(|&idx| n_in(idx))
}
