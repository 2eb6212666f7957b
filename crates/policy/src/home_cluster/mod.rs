//! Home cluster: each program has one cluster that both its processors and its pages refer to.
//!
//! ```text
//!              cluster 0          cluster 1         cluster 2
//!              [a][a][b][b]       [c][ ][ ][ ]      [ ][ ][ ][ ]
//!   d starts                                        ◄─ home: the most free processors
//!   b grows                       ◄─ home is full: the nearest cluster with free processors
//!   a ends     [ ][ ][b][b] ◄──── b comes back home
//! ```
//!
//! The home is chosen when a program starts: the cluster with the most free processors (loading policy
//! (c) of two-level scheduling); when none is free anywhere, the one that is home to the fewest programs.
//! Processors come from home first, then from the nearest cluster, of equally near ones from that with
//! the most free (`processors=home`), or from the cluster with the most free ones wherever home is
//! (`processors=free`). Processors are not shared as long as there are free ones, and none is taken from
//! its owner: what becomes free goes to programs that share theirs, those that lack most first, and to
//! those whose processors lie outside home.
//!
//! ```text
//!   pages=h0   come first from home                         and follow it when it changes
//!   pages=h1   lie where they are first touched
//!   pages=h2   lie where they are first touched             and go home when the program migrates
//!   pages=h3   read-only ones are copied                    cannot be had without two-level scheduling
//! ```
//!
//! When more than half of a program's processors have been outside home for `t_rehome`, home is where
//! most of them are. A program whose memory the workload file binds to one node is at home there for good,
//! and pages of which it says where they come from are left alone.
//!
//! This is the live and fluid form: a cluster is a node (or a cache, by `domains`), a processor a CPU, and
//! a process a job, whose placement holds for all that it starts later. Its group has as many CPUs as the
//! job has threads from its start to its end. When there are more threads than CPUs nobody waits in a
//! queue: CPUs are shared, the emptiest first. A job that ran before it was seen is at home where most of
//! its memory lies, or else where it runs. One whose CPUs went away keeps its home while that has any.
//! All of this form is our choice: of the source only the idea is public.

mod config;
mod group;
mod pages;
mod tell;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use base::{CpuSet, JobId, Nanos};
use sched::{Action, Cause, JobState, JobView, PerJob, Plan, Policy, Snapshot, Target};
use topology::{DomainChoice, Level};

use crate::PolicyError;
use crate::common;
use crate::ground::Ground;
use crate::places::Seats;
use crate::spec::Given;
pub(crate) use config::INFO;
use config::{Config, Pages};
use group::Group;
use pages::Wanted;
use tell::Homed;

/// The policy and what it remembers.
#[derive(Debug)]
struct HomeCluster {
    config: Config,
    lives: PerJob<Life>,
    /// What the numbers of homes are numbers of.
    level: Option<Level>,
    ground: Ground,
}

/// What is remembered of a job.
#[derive(Clone, Debug, Default)]
struct Life {
    /// The number of the cluster that is its home.
    home: Option<u32>,
    /// Since when more than half of its processors have been outside.
    outside_since: Option<Nanos>,
    /// Its pages are to go home.
    wanted: Option<Wanted>,
}

pub(crate) fn build(given: &Given<'_>, _seed: u64) -> Result<Box<dyn Policy>, PolicyError> {
    let config = Config::read(given)?;
    let (lives, ground) = (PerJob::default(), Ground::default());
    Ok(Box::new(HomeCluster { config, lives, level: None, ground }))
}

impl Policy for HomeCluster {
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        if self.ground.say(seen, plan) {
            self.say_pages(seen, plan);
        }
        let is_interval = seen.turn.causes.contains(&Cause::Interval);
        plan.quiescent = is_interval && seen.jobs.iter().all(|job| job.cpu_time == Nanos::ZERO);
        self.lives.forget_ended(seen);
        if !common::can_place(seen) {
            return;
        }
        if self.level.replace(seen.domains.level()) != Some(seen.domains.level()) {
            self.lives = PerJob::default(); // A number names another place now.
        }
        let mut seats = Seats::new(seen.machine);
        for job in seen.jobs.iter().filter(|job| job.state == JobState::Running) {
            job.placed.into_iter().for_each(|cpus| seats.sit(&cpus.and(seen.usable_cpus)));
        }
        let mut at_home = self.at_home(seen);
        for job in seen.jobs.iter().filter(|job| job.movable) {
            // Whoever looks for a home counts the others.
            self.home(seen, job.job.id).into_iter().for_each(|idx| at_home[idx] -= 1);
            self.admit(seen, job, (&mut seats, &at_home), plan);
            self.home(seen, job.job.id).into_iter().for_each(|idx| at_home[idx] += 1);
        }
        self.hand_out(seen, &mut seats, plan);
        let asked = asked(plan);
        for job in seen.jobs.iter().filter(|job| job.movable) {
            if !asked.contains(&job.job.id.into()) {
                self.move_home(seen, job, plan);
            }
        }
        self.move_pages(seen, plan);
    }

    fn name(&self) -> &str {
        INFO.name
    }

    fn interval(&self) -> Option<Nanos> {
        Some(self.config.interval)
    }

    fn domains(&self) -> DomainChoice {
        self.config.domains
    }
}

/// Those of whom something is wished already.
fn asked(plan: &Plan) -> BTreeSet<Target> {
    plan.requests.iter().map(|ask| ask.target).collect()
}

impl HomeCluster {
    /// The index of a job's home; `None` when it has none, or when that has no CPU any more.
    fn home(&self, seen: &Snapshot<'_>, job: JobId) -> Option<usize> {
        let number = self.lives.get(job)?.home?;
        seen.domains.iter().find(|(_, domain)| domain.number == number).map(|(idx, _)| idx)
    }

    /// How many jobs are at home on each cluster.
    fn at_home(&self, seen: &Snapshot<'_>) -> Vec<u64> {
        let mut at_home = vec![0u64; seen.domains.len()];
        let homes = seen.jobs.iter().filter_map(|job| self.home(seen, job.job.id));
        homes.for_each(|idx| at_home[idx] += 1);
        at_home
    }

    /// Gives a home and processors to a job that has none, or whose processors went away.
    fn admit(
        &mut self,
        seen: &Snapshot<'_>,
        job: &JobView<'_>,
        (seats, at_home): (&mut Seats, &[u64]),
        plan: &mut Plan,
    ) {
        let is_due = job.state == JobState::Due;
        let is_lost = common::has_lost_its_place(job, seen.usable_cpus);
        if !is_due && !is_lost && job.placed.is_some() && self.home(seen, job.job.id).is_some() {
            return;
        }
        if is_due {
            *self.lives.of(job.job.id) = Life::default();
        }
        let Some(homed) = self.find_home(seen, job, (seats, at_home)) else { return };
        let life = self.lives.of(job.job.id);
        life.home = Some(seen.domains.get(homed.idx()).number);
        if !is_due && !is_lost && job.placed.is_some() {
            return; // Somebody put it there well; it only had no home yet.
        }
        let had = job.placed.map(|cpus| cpus.and(seen.usable_cpus)).unwrap_or_default();
        seats.rise(&had);
        let group = Group::allocate(&self.config, seen, job, homed.idx(), seats, &had);
        let reason = tell::admitted(seen, job, &homed, &group, is_lost);
        if is_lost {
            self.has_migrated(job.job.id);
        }
        seats.sit(&group.cpus);
        plan.request(job.job.id, Action::Place(group.cpus), reason);
        if is_due {
            self.bind_pages(seen, job, homed.idx(), plan);
        }
    }

    /// Where a job is at home from now on; `None` when it may run nowhere.
    fn find_home(
        &self,
        seen: &Snapshot<'_>,
        job: &JobView<'_>,
        (seats, at_home): (&Seats, &[u64]),
    ) -> Option<Homed> {
        let may = |idx: &usize| seen.domains.get(*idx).cpus.intersects(job.allowed);
        let of_node = |node| {
            let mut all = seen.domains.iter();
            all.find(|(idx, domain)| domain.node == Some(node) && may(idx)).map(|(idx, _)| idx)
        };
        if let Some(idx) = self.home(seen, job.job.id).filter(may) {
            return Some(Homed::Kept { idx });
        }
        if let Some(idx) = common::declared_node(job).and_then(of_node) {
            return Some(Homed::Declared { idx });
        }
        if job.state == JobState::Running {
            let by_memory = job.memory.and_then(|memory| memory.home()).and_then(of_node);
            if let Some(idx) = by_memory {
                return Some(Homed::ByMemory { idx });
            }
            if let Some(idx) = job.domain.filter(may) {
                return Some(Homed::WhereItRuns { idx });
            }
        }
        self.load(seen, job, (seats, at_home))
    }

    /// Loading policy (c): the cluster with the most free processors.
    fn load(
        &self,
        seen: &Snapshot<'_>,
        job: &JobView<'_>,
        (seats, at_home): (&Seats, &[u64]),
    ) -> Option<Homed> {
        let possible = |idx: usize| seen.domains.get(idx).cpus.and(job.allowed);
        let free = |idx: usize| possible(idx).iter().filter(|&cpu| seats.is_free(cpu)).count();
        let possible_ones = || (0..seen.domains.len()).filter(|&idx| !possible(idx).is_empty());
        let idx = possible_ones().min_by_key(|&idx| (Reverse(free(idx)), idx))?;
        if free(idx) != 0 {
            let (free, n_cpus) = (free(idx) as u64, possible(idx).len() as u64);
            return Some(Homed::MostFree { idx, free, n_cpus });
        }
        let idx = possible_ones().min_by_key(|&idx| (at_home[idx], idx))?;
        Some(Homed::FewestAtHome { idx, n_at_home: at_home[idx] })
    }

    /// What is free goes to those that share their processors, and to those outside home.
    fn hand_out(&mut self, seen: &Snapshot<'_>, seats: &mut Seats, plan: &mut Plan) {
        if !seen.usable_cpus.iter().any(|cpu| seats.is_free(cpu)) {
            return;
        }
        let asked = asked(plan);
        let is_placed = |job: &&JobView<'_>| {
            job.state == JobState::Running
                && job.movable
                && job.placed.is_some()
                && !asked.contains(&job.job.id.into())
        };
        let mut placed: Vec<&JobView<'_>> = seen.jobs.iter().filter(is_placed).collect();
        let lacks = |job: &JobView<'_>| Group::of(seen, job, 0, seats).n_shared;
        placed.sort_by_key(|job| (Reverse(lacks(job)), job.job.id));
        for job in placed {
            let Some(home) = self.home(seen, job.job.id) else { continue };
            let now = Group::of(seen, job, home, seats);
            if now.is_good(&self.config) {
                continue;
            }
            seats.rise(&now.cpus);
            let group = Group::allocate(&self.config, seen, job, home, seats, &now.cpus);
            if !group.is_better(&self.config, &now) {
                seats.sit(&now.cpus);
                continue;
            }
            if group.clusters(seen) != now.clusters(seen) {
                self.has_migrated(job.job.id);
            }
            seats.sit(&group.cpus);
            let reason = tell::handed_out(seen, home, &now, &group);
            plan.request(job.job.id, Action::Place(group.cpus), reason);
        }
    }

    /// Makes another cluster a job's home when it has long been there.
    fn move_home(&mut self, seen: &Snapshot<'_>, job: &JobView<'_>, plan: &mut Plan) {
        let Some(home) = self.home(seen, job.job.id) else { return };
        let cpus = job.placed.map(|cpus| cpus.and(seen.usable_cpus)).unwrap_or_default();
        let outside = cpus.minus(&seen.domains.get(home).cpus);
        let life = self.lives.of(job.job.id);
        let is_bound = common::declared_node(job).is_some();
        if job.state != JobState::Running || is_bound || 2 * outside.len() <= cpus.len() {
            life.outside_since = None;
            return;
        }
        let since = *life.outside_since.get_or_insert(seen.turn.at);
        let time = seen.turn.at.saturating_sub(since);
        let n_in = |idx: usize| seen.domains.get(idx).cpus.and(&cpus).len();
        // One that is wider than any cluster is outside wherever its home is.
        let is_better = |to: &usize| n_in(home) < n_in(*to) && self.config.t_rehome <= time;
        let Some(to) = most_of(seen, &cpus).filter(is_better) else { return };
        life.outside_since = None;
        life.home = Some(seen.domains.get(to).number);
        plan.note(tell::moved_home(seen, job, home, to, (outside.len(), cpus.len()), time));
        if self.config.pages != Pages::FirstTouch {
            life.wanted = Some(Wanted::new_home());
        }
    }

    /// With `pages=h2` a job's pages go home after it has come to other clusters.
    fn has_migrated(&mut self, job: JobId) {
        if self.config.pages == Pages::ReturnHome {
            self.lives.of(job).wanted = Some(Wanted::migrated());
        }
    }
}

/// The cluster that holds most of some CPUs; of equals the lowest number.
fn most_of(seen: &Snapshot<'_>, cpus: &CpuSet) -> Option<usize> {
    let n_in = |idx: usize| seen.domains.get(idx).cpus.and(cpus).len();
    (0..seen.domains.len()).rev().max_by_key(|&idx| n_in(idx))
}

#[cfg(test)]
mod tests;
