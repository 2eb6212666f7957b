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
//! The home is selected when a job starts: the cluster with the most free CPUs (loading policy (c) of Y. Oishi, R.
//! Fujiki, K. Saisho, A. Fukuda, Two-level Scheduling in Collaboration with Memory Management for NUMA
//! Multiprocessors). If no CPU is free, the cluster that is the home of the fewest jobs is selected. With
//! `processors=home`, CPUs come from home first, then from the nearest cluster; ties: the most free CPUs. With
//! `processors=free`, CPUs always come from the cluster with the most free CPUs. CPUs are shared only if no CPU is
//! free, and a job never loses a CPU to another job. A CPU that becomes free is assigned to a job that shares CPUs; the
//! job with the most shared threads is first. Otherwise it is assigned to a job with CPUs outside home.
//!
//! ```text
//!   pages=h0   preferably allocated at home                 and migrate when the home changes
//!   pages=h1   stay on the node of their first touch
//!   pages=h2   stay on the node of their first touch        and migrate home when the job migrates
//! ```
//!
//! If more than half of a job's CPUs have been outside home for `t_rehome`, the cluster of most of its CPUs becomes its
//! home. If the workload declares the memory policy `bind` or `preferred` with one node for a job, this node is always
//! the home of the job. Pages with a declared memory policy never migrate.
//!
//! A cluster of the source is a node (or a cache, by `domains`), a processor is a CPU, and a process is a job, so that
//! a placement also applies to children that start later. A job gets as many CPUs as it has threads. With more threads
//! than CPUs, CPUs with the fewest jobs are shared first; no job waits in a queue. The home of a job that was running
//! before it was attached is the node of most of its pages, else its current node. A job whose CPUs became unusable
//! keeps its home as long as the home has usable CPUs. Only the idea of the source is public. All rules are evenkeel's
//! choice.

mod declaration;
mod pages;
mod processors;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use base::{CpuSet, JobId, Nanos};
use sched::{Action, Cause, JobState, JobView, PerJob, Plan, Reason, Snapshot, Target};
use topology::Level;

use crate::Rules;
use crate::notes::MachineNotes;
use crate::placement::{self, cpus_label};
use crate::slots::CpuOccupancy;
pub(crate) use declaration::INFO;
use declaration::{AT_HOME, Config, HOME_MOVED, PROCESSORS_FREE, Pages};
use pages::PendingPages;
use processors::CpuGroup;

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

impl Rules for HomeCluster {
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        if self.notes.add(snapshot, plan) {
            self.note_pages(snapshot, plan);
        }
        let is_interval = snapshot.turn.causes.contains(&Cause::Interval);
        plan.quiescent = is_interval && snapshot.jobs.iter().all(|job| job.cpu_time == Nanos::ZERO);
        self.homes.forget_ended(snapshot);
        if !placement::can_place(snapshot) {
            return;
        }
        if self.level.replace(snapshot.domains.level()) != Some(snapshot.domains.level()) {
            self.homes = PerJob::default(); // The homes are numbers of domains of the previous level.
        }
        let mut occupancy = CpuOccupancy::new(snapshot.machine);
        for job in snapshot.jobs.iter().filter(|job| job.state == JobState::Running) {
            job.placed.into_iter().for_each(|cpus| occupancy.add(&cpus.and(snapshot.usable_cpus)));
        }
        let mut at_home = self.at_home(snapshot);
        for job in snapshot.jobs.iter().filter(|job| job.movable) {
            // The job itself is not counted in the selection of its home.
            self.home(snapshot, job.job.id).into_iter().for_each(|idx| at_home[idx] -= 1);
            self.admit(snapshot, job, (&mut occupancy, &at_home), plan);
            self.home(snapshot, job.job.id).into_iter().for_each(|idx| at_home[idx] += 1);
        }
        self.assign_free_cpus(snapshot, &mut occupancy, plan);
        let requested = requested(plan);
        for job in snapshot.jobs.iter().filter(|job| job.movable) {
            if !requested.contains(&job.job.id.into()) {
                self.move_home(snapshot, job, plan);
            }
        }
        self.move_pages(snapshot, plan);
    }
}

/// Returns the targets of all requests of this turn.
fn requested(plan: &Plan) -> BTreeSet<Target> {
    plan.requests.iter().map(|request| request.target).collect()
}

impl HomeCluster {
    fn new(config: Config) -> Self {
        let (homes, notes) = Default::default();
        HomeCluster { config, homes, level: None, notes }
    }

    /// Returns the index of a job's home; `None`: the job has no home, or its home has no usable CPU.
    fn home(&self, snapshot: &Snapshot<'_>, job: JobId) -> Option<usize> {
        let number = self.homes.get(job)?.home?;
        snapshot.domains.iter().find(|(_, domain)| domain.number == number).map(|(idx, _)| idx)
    }

    /// Returns the number of jobs with their home on each cluster.
    fn at_home(&self, snapshot: &Snapshot<'_>) -> Vec<u64> {
        let mut at_home = vec![0u64; snapshot.domains.len()];
        let homes = snapshot.jobs.iter().filter_map(|job| self.home(snapshot, job.job.id));
        homes.for_each(|idx| at_home[idx] += 1);
        at_home
    }

    /// Assigns a home and CPUs to a job that has none, or that has unusable CPUs.
    fn admit(
        &mut self,
        snapshot: &Snapshot<'_>,
        job: &JobView<'_>,
        (occupancy, at_home): (&mut CpuOccupancy, &[u64]),
        plan: &mut Plan,
    ) {
        let is_due = job.state == JobState::Due;
        let is_lost = placement::has_lost_cpus(job, snapshot.usable_cpus);
        if !is_due && !is_lost && job.placed.is_some() && self.home(snapshot, job.job.id).is_some()
        {
            return;
        }
        if is_due {
            *self.homes.get_or_default(job.job.id) = HomeState::default();
        }
        let Some(choice) = self.select_home(snapshot, job, (occupancy, at_home)) else { return };
        let state = self.homes.get_or_default(job.job.id);
        let home = choice.idx;
        state.home = Some(snapshot.domains.get(home).number);
        if !is_due && !is_lost && job.placed.is_some() {
            return; // The job has an affinity already; only its home was unknown.
        }
        let previous_cpus =
            job.placed.map(|cpus| cpus.and(snapshot.usable_cpus)).unwrap_or_default();
        occupancy.remove(&previous_cpus);
        let group =
            CpuGroup::allocate(&self.config, snapshot, job, home, occupancy, &previous_cpus);
        let reason = admitted(snapshot, job, choice, &group, is_lost);
        if is_lost {
            self.record_migration(job.job.id);
        }
        occupancy.add(&group.cpus);
        plan.request(job.job.id, Action::Place(group.cpus), reason);
        if is_due {
            self.bind_pages(snapshot, job, home, plan);
        }
    }

    /// Returns the home of a job; `None`: the job may use no domain.
    fn select_home(
        &self,
        snapshot: &Snapshot<'_>,
        job: &JobView<'_>,
        (occupancy, at_home): (&CpuOccupancy, &[u64]),
    ) -> Option<HomeChoice> {
        let choice = |idx, criterion| Some(HomeChoice { idx, criterion, counts: Vec::new() });
        let is_allowed = |idx: &usize| snapshot.domains.get(*idx).cpus.intersects(job.allowed);
        let of_node = |node| {
            let mut all = snapshot.domains.iter();
            all.find(|(idx, domain)| domain.node == Some(node) && is_allowed(idx))
                .map(|(idx, _)| idx)
        };
        if let Some(idx) = self.home(snapshot, job.job.id).filter(is_allowed) {
            return choice(idx, "unchanged");
        }
        if let Some(idx) = placement::declared_node(job).and_then(of_node) {
            return choice(idx, "declared");
        }
        if job.state == JobState::Running {
            let by_memory = job.memory.and_then(|memory| memory.home()).and_then(of_node);
            if let Some(idx) = by_memory {
                return choice(idx, "memory");
            }
            if let Some(idx) = job.domain.filter(is_allowed) {
                return choice(idx, "current");
            }
        }
        self.least_occupied_cluster(snapshot, job, (occupancy, at_home))
    }

    /// Returns the cluster with the most free CPUs (loading policy (c)); if no CPU is free, the home of the fewest
    /// jobs.
    fn least_occupied_cluster(
        &self,
        snapshot: &Snapshot<'_>,
        job: &JobView<'_>,
        (occupancy, at_home): (&CpuOccupancy, &[u64]),
    ) -> Option<HomeChoice> {
        let possible = |idx: usize| snapshot.domains.get(idx).cpus.and(job.allowed);
        let free = |idx: usize| possible(idx).iter().filter(|&cpu| occupancy.is_free(cpu)).count();
        let possible_clusters =
            || (0..snapshot.domains.len()).filter(|&idx| !possible(idx).is_empty());
        let idx = possible_clusters().min_by_key(|&idx| (Reverse(free(idx)), idx))?;
        if free(idx) != 0 {
            let (n_free, n_possible) = (free(idx) as u64, possible(idx).len() as u64);
            let counts = vec![("n_free", n_free), ("n_possible", n_possible)];
            return Some(HomeChoice { idx, criterion: "free", counts });
        }
        let idx = possible_clusters().min_by_key(|&idx| (at_home[idx], idx))?;
        Some(HomeChoice { idx, criterion: "fewest", counts: vec![("n_jobs", at_home[idx])] })
    }

    /// Assigns free CPUs to jobs that share CPUs, and to jobs with CPUs outside home.
    fn assign_free_cpus(
        &mut self,
        snapshot: &Snapshot<'_>,
        occupancy: &mut CpuOccupancy,
        plan: &mut Plan,
    ) {
        if !snapshot.usable_cpus.iter().any(|cpu| occupancy.is_free(cpu)) {
            return;
        }
        let requested = requested(plan);
        let is_placed = |job: &&JobView<'_>| {
            job.state == JobState::Running
                && job.movable
                && job.placed.is_some()
                && !requested.contains(&job.job.id.into())
        };
        let mut placed: Vec<&JobView<'_>> = snapshot.jobs.iter().filter(is_placed).collect();
        let lacks = |job: &JobView<'_>| CpuGroup::of(snapshot, job, 0, occupancy).n_shared;
        placed.sort_by_key(|job| (Reverse(lacks(job)), job.job.id));
        for job in placed {
            let Some(home) = self.home(snapshot, job.job.id) else { continue };
            let now = CpuGroup::of(snapshot, job, home, occupancy);
            if now.is_optimal(&self.config) {
                continue;
            }
            occupancy.remove(&now.cpus);
            let group = CpuGroup::allocate(&self.config, snapshot, job, home, occupancy, &now.cpus);
            if !group.is_better(&self.config, &now) {
                occupancy.add(&now.cpus);
                continue;
            }
            if group.clusters(snapshot) != now.clusters(snapshot) {
                self.record_migration(job.job.id);
            }
            occupancy.add(&group.cpus);
            let reason = processors_free(snapshot, home, &now, &group);
            plan.request(job.job.id, Action::Place(group.cpus), reason);
        }
    }

    /// Changes the home of a job if more than half of its CPUs have been outside home for `t_rehome`.
    fn move_home(&mut self, snapshot: &Snapshot<'_>, job: &JobView<'_>, plan: &mut Plan) {
        let Some(home) = self.home(snapshot, job.job.id) else { return };
        let cpus = job.placed.map(|cpus| cpus.and(snapshot.usable_cpus)).unwrap_or_default();
        let outside = cpus.minus(&snapshot.domains.get(home).cpus);
        let state = self.homes.get_or_default(job.job.id);
        let is_bound = placement::declared_node(job).is_some();
        if job.state != JobState::Running || is_bound || 2 * outside.len() <= cpus.len() {
            state.outside_since = None;
            return;
        }
        let since = *state.outside_since.get_or_insert(snapshot.turn.at);
        let time = snapshot.turn.at.saturating_sub(since);
        let n_in = |idx: usize| snapshot.domains.get(idx).cpus.and(&cpus).len();
        // A job with more threads than a cluster has CPUs always has CPUs outside home.
        let is_better = |to: &usize| n_in(home) < n_in(*to) && self.config.t_rehome <= time;
        let Some(to) = most_of(snapshot, &cpus).filter(is_better) else { return };
        state.outside_since = None;
        state.home = Some(snapshot.domains.get(to).number);
        plan.note(home_moved(snapshot, job, home, to, (outside.len(), cpus.len()), time));
        if self.config.pages != Pages::FirstTouch {
            state.pending = Some(PendingPages::new_home());
        }
    }

    /// Records that a job changed clusters: with `pages=h2` its pages migrate home.
    fn record_migration(&mut self, job: JobId) {
        if self.config.pages == Pages::ReturnHome {
            self.homes.get_or_default(job).pending = Some(PendingPages::migrated());
        }
    }
}

/// Returns the cluster that contains most CPUs of a set; ties: the lowest number.
fn most_of(snapshot: &Snapshot<'_>, cpus: &CpuSet) -> Option<usize> {
    let n_in = |idx: usize| snapshot.domains.get(idx).cpus.and(cpus).len();
    (0..snapshot.domains.len()).rev().max_by_key(|&idx| n_in(idx))
}

/// A home and the criterion of its selection.
struct HomeChoice {
    idx: usize,
    /// Word of the sentence template.
    criterion: &'static str,
    /// Values of the criterion.
    counts: Vec<(&'static str, u64)>,
}

/// Returns the reason for the first CPUs of a job, or for replacements of unusable CPUs.
fn admitted(
    snapshot: &Snapshot<'_>,
    job: &JobView<'_>,
    choice: HomeChoice,
    group: &CpuGroup,
    is_lost: bool,
) -> Reason {
    let reason = Reason::new(AT_HOME)
        .with("home", snapshot.domains.label(choice.idx))
        .with("criterion", choice.criterion);
    let counts = choice.counts.into_iter();
    let reason = counts.fold(reason, |reason, (name, count)| reason.with(name, count));
    let lost = job.placed.filter(|_| is_lost);
    with_group(reason, group).with_some("lost", lost.map(ToString::to_string))
}

/// Returns the reason for CPUs that became free.
fn processors_free(
    snapshot: &Snapshot<'_>,
    home: usize,
    now: &CpuGroup,
    group: &CpuGroup,
) -> Reason {
    let reason = Reason::new(PROCESSORS_FREE)
        .with("home", snapshot.domains.label(home))
        .with("previous_cpus", cpus_label(&now.cpus))
        .with("n_shared_before", now.n_shared as u64)
        .with("n_outside_before", now.n_outside as u64);
    with_group(reason, group)
}

fn with_group(reason: Reason, group: &CpuGroup) -> Reason {
    reason
        .with("cpus", cpus_label(&group.cpus))
        .with("n_outside", group.n_outside as u64)
        .with("n_shared", group.n_shared as u64)
}

/// Returns the note that the home of a job changed.
fn home_moved(
    snapshot: &Snapshot<'_>,
    job: &JobView<'_>,
    from: usize,
    to: usize,
    (n_outside, n_cpus): (usize, usize),
    time: Nanos,
) -> Reason {
    Reason::new(HOME_MOVED)
        .with("job", job.job.name.clone())
        .with("home", snapshot.domains.label(to))
        .with("before", snapshot.domains.label(from))
        .with("n_outside", n_outside as u64)
        .with("n_cpus", n_cpus as u64)
        .with("time", time.to_string())
}
