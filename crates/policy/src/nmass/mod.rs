//! N-MASS: jobs run on the node of their memory, unless the contention for the cache of that node is too high.
//!
//! On a NUMA machine, local memory accesses and low cache contention can require different placements. N-MASS migrates
//! jobs, never pages:
//!
//! ```text
//!   1  sort      by remote penalty, the highest first
//!   2  map       each job to its home if a core of its home is free, else to the least occupied other
//!                processor; this is the last step of maximum-local
//!   3  refine    while the jobs of one processor have many more misses than those of another: the job
//!                with the lowest remote penalty migrates, if its penalty is at most 1 + k × difference
//!
//!      processor 0   a 20  b 18  c 15        processor 1   d 1
//!      pressure      53                      1              MPKI, difference 52
//!                          └── b, with the lowest penalty, migrates ──►
//! ```
//!
//! The home of a job is the node with most of its memory. Before the memory is sampled, the home is the node on which
//! the job started. The remote penalty is the counted CPI away from home divided by the counted CPI at home. Until both
//! CPIs are counted, the declared sensitivity is used; without a declared sensitivity, the penalty is 1. A job whose
//! pages are spread evenly has no home: its penalty is 1.
//!
//! The source places processes. evenkeel places jobs, so that a placement also applies to children that start later. A
//! job with n threads needs n slots and adds its pressure n times. Unmanaged jobs, and jobs with more threads than a
//! domain has CPUs, stay on their domain, take slots of the domain ([`crate::slots`]) and add their pressure.
//!
//! Units: pressure in thousandths of a miss per 1000 instructions, penalties in permille.

mod declaration;
mod history;
mod mapping;

use base::{Bytes, CpuSet, Nanos};
use sched::{Action, Cause, CounterEvent, JobState, Plan, Reason, ReasonCode, Snapshot};

use crate::notes::{MachineNotes, OWN_CORE, RateFailures};
use crate::placement::{self, cpus_label, permille_text};
use crate::slots::{MovableJob, PlacementJobs, assign_cpus};
use crate::{Params, Rules};
use declaration::{
    Config, HOME_FREE, HOME_FULL, NO_FREE_SLOT, NO_HOME, PRESSURE_SWAPPED, PRESSURE_UNEVEN,
    PRESSURE_UNKNOWN, Refine, STAYS_THERE,
};
pub(crate) use declaration::{INFO, MAXIMUM_LOCAL};
use history::{Histories, Home, HomeSource};
use mapping::{Decision, NmassAssignment, NmassJob, PressureMigration};

/// State of the policies.
#[derive(Debug)]
struct NMass {
    /// Parameters of the third step; `None` in maximum-local.
    refine: Option<Refine>,
    histories: Histories,
    notes: MachineNotes,
    /// Counter of intervals without rates; `None` in maximum-local.
    failures: Option<RateFailures>,
    noted_unknown: bool,
}

impl NMass {
    fn new(params: &Params<'_>, refine: Option<Refine>) -> Self {
        let config = Config::new(params);
        let failures = refine.map(|_| RateFailures::new(params));
        let (histories, notes) = (Histories::new(&config), MachineNotes::default());
        NMass { refine, histories, notes, failures, noted_unknown: false }
    }
}

impl Rules for NMass {
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        self.notes.add(snapshot, plan);
        let is_interval = snapshot.turn.causes.contains(&Cause::Interval);
        if is_interval {
            self.histories.add(snapshot);
        }
        self.histories.start_turn(snapshot);
        if placement::can_place(snapshot) {
            if let Some(failures) = self.failures.as_mut().filter(|_| is_interval) {
                failures.check(snapshot, plan);
            }
            self.place(snapshot, plan);
        }
        self.histories.end_turn(snapshot, plan, is_interval);
        // The signals change only if jobs use CPU time.
        plan.quiescent = is_interval && snapshot.jobs.iter().all(|job| job.cpu_time == Nanos::ZERO);
    }
}

impl NMass {
    fn place(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        let jobs = PlacementJobs::of(snapshot);
        let nmass_jobs: Vec<NmassJob<'_>> =
            jobs.movable.iter().map(|job| self.nmass_job(snapshot, job)).collect();
        self.note_unknown(snapshot, &nmass_jobs, plan);
        let pressure = self.fixed_pressure(snapshot, &jobs);
        let assignments =
            mapping::map(self.refine.as_ref(), snapshot, &jobs, &nmass_jobs, pressure);
        let domains: Vec<usize> = assignments.iter().map(|assignment| assignment.domain).collect();
        let cpus = assign_cpus(snapshot, &jobs, &domains);
        let reasons = NmassReasons { refine: self.refine, snapshot, jobs: &nmass_jobs };
        for (at, (assignment, cpus)) in assignments.iter().zip(cpus).enumerate() {
            let job = &nmass_jobs[at].job;
            if !job.keeps(&cpus) {
                plan.request(
                    job.job.job.id,
                    Action::Place(cpus.clone()),
                    reasons.reason(at, assignment, &cpus),
                );
            }
        }
    }

    /// Returns the pressure of the fixed jobs on each processor. A job adds its misses once for each of its CPUs.
    fn fixed_pressure(&self, snapshot: &Snapshot<'_>, jobs: &PlacementJobs<'_>) -> Vec<u64> {
        let mut pressure = vec![0u64; snapshot.domains.len()];
        for job in &jobs.fixed {
            let Some(mpki) = self.histories.mpki(snapshot, job) else { continue };
            let cpus = job.placed.into_iter().flat_map(|cpus| cpus.iter());
            for idx in cpus.filter_map(|cpu| snapshot.domains.of_cpu(cpu)) {
                pressure[idx] = pressure[idx].saturating_add(mpki);
            }
        }
        pressure
    }

    fn nmass_job<'s>(&self, snapshot: &Snapshot<'_>, job: &MovableJob<'s>) -> NmassJob<'s> {
        let home = self.histories.home(snapshot, job.job);
        NmassJob {
            job: *job,
            penalty: self.histories.penalty(job.job, &home),
            mpki: self.histories.mpki(snapshot, job.job),
            home,
        }
    }

    /// Adds a note once, if jobs ran and no misses are known.
    fn note_unknown(&mut self, snapshot: &Snapshot<'_>, jobs: &[NmassJob<'_>], plan: &mut Plan) {
        let has_run = |job: &&NmassJob<'_>| {
            job.job.job.state == JobState::Running && job.job.job.cpu_time != Nanos::ZERO
        };
        let is_known = jobs.iter().any(|job| job.mpki.is_some());
        let is_possible = self.refine.is_some() && snapshot.interval != Nanos::ZERO;
        if is_possible && !self.noted_unknown && !is_known && jobs.iter().any(|job| has_run(&job)) {
            self.noted_unknown = true;
            plan.note(Reason::new(PRESSURE_UNKNOWN));
        }
    }
}

/// Inputs of the reasons of a turn.
struct NmassReasons<'a, 's> {
    refine: Option<Refine>,
    snapshot: &'a Snapshot<'a>,
    jobs: &'a [NmassJob<'s>],
}

impl NmassReasons<'_, '_> {
    /// Returns the reason for the assignment of a job to these CPUs.
    fn reason(&self, job_idx: usize, assignment: &NmassAssignment, cpus: &CpuSet) -> Reason {
        let job = &self.jobs[job_idx].job;
        let reason = match &assignment.decision {
            // The job stays on its domain and gets another core.
            _ if job.is_bound && job.now == Some(assignment.domain) => Reason::new(OWN_CORE),
            Decision::Pressure(migration) => self.pressure(job_idx, migration),
            Decision::Home { free, slots } => self
                .with_home(HOME_FREE, job_idx)
                .with("free", u64::from(*free))
                .with("slots", u64::from(*slots)),
            Decision::HomeFull { taken, slots } => self.taken(HOME_FULL, job_idx, *taken, *slots),
            Decision::Stays => self.with_home(STAYS_THERE, job_idx),
            Decision::NoHome { taken, slots } => self.taken(NO_HOME, job_idx, *taken, *slots),
            Decision::Full { taken, slots } => self.taken(NO_FREE_SLOT, job_idx, *taken, *slots),
        };
        let reason = reason
            .with("domain", self.snapshot.domains.label(assignment.domain))
            .with("cpus", cpus_label(cpus));
        reason.with_some("lost", job.lost_cpus().map(ToString::to_string))
    }

    fn taken(&self, code: ReasonCode, job_idx: usize, taken: u32, slots: u32) -> Reason {
        self.with_home(code, job_idx)
            .with("taken", u64::from(taken))
            .with("slots", u64::from(slots))
    }

    fn with_home(&self, code: ReasonCode, job_idx: usize) -> Reason {
        let NmassJob { home, penalty, .. } = &self.jobs[job_idx];
        with_home_source(Reason::new(code), home)
            .with("penalty", permille_text(penalty.permille))
            .with("penalty_source", penalty.source)
    }

    fn pressure(&self, job_idx: usize, migration: &PressureMigration) -> Reason {
        let after = migration.after(self.jobs);
        let is_migrating = job_idx == migration.job_idx;
        let code = if is_migrating { PRESSURE_UNEVEN } else { PRESSURE_SWAPPED };
        let NmassJob { mpki, .. } = &self.jobs[job_idx];
        let reason = self
            .with_home(code, job_idx)
            .with("from", self.snapshot.domains.label(migration.from))
            .with("to", self.snapshot.domains.label(migration.to))
            .with("pressure_from", permille_text(migration.before.high))
            .with("pressure_to", permille_text(migration.before.low))
            .with("d_min", permille_text(self.refine.map_or(0, |refine| refine.d_min.permille())))
            .with("mpki", permille_text(mpki.unwrap_or(0)))
            .with("penalty_max", permille_text(migration.penalty_max))
            .with("left_from", permille_text(after.high))
            .with("left_to", permille_text(after.low));
        let other = if is_migrating { migration.swapped_with } else { Some(migration.job_idx) };
        let reason = match other.map(|other| &self.jobs[other]) {
            Some(other) => reason
                .with("other", other.job.job.job.name.clone())
                .with("other_mpki", permille_text(other.mpki.unwrap_or(0))),
            None => reason,
        };
        reason.with("tier", self.snapshot.tiers.get(CounterEvent::LlcMisses).to_string())
    }
}

/// Adds the home of a job and the source of the home.
fn with_home_source(reason: Reason, home: &Home) -> Reason {
    let reason = reason.with_some("home", home.node.map(|node| format!("node {}", node.0)));
    let with_bytes = |source: &'static str, on_node: Bytes, total: Bytes| {
        let reason = reason.clone().with("home_source", source);
        reason.with("on_node", on_node.to_string()).with("total", total.to_string())
    };
    match home.source {
        HomeSource::Memory { on_node, total } => with_bytes("memory", on_node, total),
        HomeSource::Even { most, total } => with_bytes("even", most, total),
        HomeSource::Declared => reason.with("home_source", "declared"),
        HomeSource::Start => reason.with("home_source", "start"),
        HomeSource::NoPages => reason.with("home_source", "no-pages"),
    }
}
