//! N-MASS: jobs run on the node of their memory, unless too many of them miss the cache there.
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
//! The home of a job is the node with most of its memory. Before the memory is sampled, the home is the node on which the
//! job started. The remote penalty is the counted CPI away from home divided by the counted CPI at home. Until both are
//! counted, the declared sensitivity is used, or 1. A job whose pages are spread evenly has no home: its penalty is 1.
//!
//! The source places processes. evenkeel places jobs, so that a placement also applies to children that start later. A
//! job with n threads needs n slots and adds its pressure n times. Unmanaged jobs, and jobs with more threads than a
//! domain has CPUs, stay where they are, take slots of their domain ([`crate::slots`]) and add their pressure.
//!
//! Units: pressure in thousandths of a miss per 1000 instructions, penalties in permille.

mod declaration;
mod history;
mod mapping;

use base::Nanos;
use sched::{Action, Cause, JobState, Plan, Reason, Snapshot};

use crate::notes::{MachineNotes, RateFailures};
use crate::placement;
use crate::slots::{MovableJob, PlacementJobs, assign_cpus};
use crate::{Params, Rules};
use declaration::{Config, NmassReasons, PRESSURE_UNKNOWN, Refine};
pub(crate) use declaration::{INFO, MAXIMUM_LOCAL};
use history::Histories;
use mapping::NmassJob;

/// State of the policies.
#[derive(Debug)]
struct NMass {
    /// The third step; `None` in maximum-local.
    refine: Option<Refine>,
    histories: Histories,
    notes: MachineNotes,
    /// `None` in maximum-local.
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

    /// Pressure of the fixed jobs: one share for each of their CPUs.
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
