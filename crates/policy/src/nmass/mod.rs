//! N-MASS: jobs run on the node of their memory, unless too many of them miss the cache there.
//!
//! On a NUMA machine, local memory accesses and low cache contention may contradict each other. Pages never migrate
//! here, so jobs do:
//!
//! ```text
//!   1  sort      by remote penalty, the highest first
//!   2  map       each job to its home if a core is free there, else to the least occupied other
//!                processor: the policy maximum-local ends here
//!   3  refine    while the jobs of one processor have many more misses than those of another: the job
//!                with the lowest remote penalty migrates, if its penalty is at most 1 + k × difference
//!
//!      processor 0   a 20  b 18  c 15        processor 1   d 1
//!      pressure      53                      1              MPKI, difference 52
//!                          └── b, with the lowest penalty, migrates ──►
//! ```
//!
//! The home of a job is the node that holds most of its memory; before that is known, the node on which it started.
//! The remote penalty is its CPI away from home over its CPI at home, as counted; until both are known, as its
//! sensitivity declares, or 1. A job whose pages are spread evenly has no home: its penalty is 1.
//!
//! Jobs are placed where the source places processes, so that a placement also holds for children that start later. A
//! job with n threads needs n slots and adds its pressure n times. Unmanaged jobs, and jobs too wide for one
//! domain, stay where they are, take slots there ([`crate::slots`]) and add their pressure.
//!
//! Units: pressure in thousandths of a miss per 1000 instructions, penalties in permille.

mod declaration;
mod history;
mod mapping;
mod reasons;

use base::Nanos;
use sched::{Action, Cause, JobState, Plan, Policy, Reason, ReasonCode, Snapshot};
use topology::DomainChoice;

use crate::notes::{MachineNotes, RateFailures};
use crate::placement;
use crate::slots::{MovableJob, PlacementJobs, assign_cpus};
use declaration::{Config, PRESSURE_UNKNOWN};
pub(crate) use declaration::{INFO, MAXIMUM_LOCAL};
use history::Histories;
use mapping::Process;
use reasons::ReasonBuilder;

/// State of the policies.
#[derive(Debug)]
struct NMass {
    config: Config,
    name: &'static str,
    histories: Histories,
    notes: MachineNotes,
    failures: RateFailures,
    noted_unknown: bool,
}

impl NMass {
    fn new(config: Config, name: &'static str) -> Self {
        let (notes, failures) = Default::default();
        NMass {
            config,
            name,
            histories: Histories::new(&config),
            notes,
            failures,
            noted_unknown: false,
        }
    }
}

impl Policy for NMass {
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        self.notes.add(seen, plan);
        let is_interval = seen.turn.causes.contains(&Cause::Interval);
        if is_interval {
            self.histories.add(seen);
        }
        self.histories.start_turn(seen);
        if placement::can_place(seen) {
            if let Some(refine) = self.config.refine.filter(|_| is_interval) {
                self.failures.check(refine.failures, seen, plan);
            }
            self.place(seen, plan);
        }
        self.histories.end_turn(seen, plan, is_interval);
        // Without CPU time the signals do not change.
        plan.quiescent = is_interval && seen.jobs.iter().all(|job| job.cpu_time == Nanos::ZERO);
    }

    fn name(&self) -> &str {
        self.name
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

impl NMass {
    fn place(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        let jobs = PlacementJobs::of(seen);
        let processes: Vec<Process<'_>> =
            jobs.movable.iter().map(|job| self.process(seen, job)).collect();
        self.note_unknown(seen, &processes, plan);
        let pressure = self.fixed_pressure(seen, &jobs);
        let assignments = mapping::map(&self.config, seen, &jobs, &processes, pressure);
        let domains: Vec<usize> = assignments.iter().map(|assignment| assignment.domain).collect();
        let cpus = assign_cpus(seen, &jobs, &domains);
        let reasons = ReasonBuilder { config: &self.config, seen, processes: &processes };
        for (at, (assignment, cpus)) in assignments.iter().zip(cpus).enumerate() {
            let job = &processes[at].job;
            if !job.keeps(&cpus) {
                plan.request(
                    job.job.job.id,
                    Action::Place(cpus.clone()),
                    reasons.reason(at, assignment, &cpus),
                );
            }
        }
    }

    /// Pressure of the fixed jobs, once for each of their CPUs.
    fn fixed_pressure(&self, seen: &Snapshot<'_>, jobs: &PlacementJobs<'_>) -> Vec<u64> {
        let mut pressure = vec![0u64; seen.domains.len()];
        for job in &jobs.fixed {
            let Some(mpki) = self.histories.mpki(seen, job) else { continue };
            let cpus = job.placed.into_iter().flat_map(|cpus| cpus.iter());
            for idx in cpus.filter_map(|cpu| seen.domains.of_cpu(cpu)) {
                pressure[idx] = pressure[idx].saturating_add(mpki);
            }
        }
        pressure
    }

    fn process<'s>(&self, seen: &Snapshot<'_>, job: &MovableJob<'s>) -> Process<'s> {
        let home = self.histories.home(seen, job.job);
        Process {
            job: *job,
            penalty: self.histories.penalty(job.job, &home),
            mpki: self.histories.mpki(seen, job.job),
            home,
        }
    }

    /// Once, if jobs ran and no misses are known.
    fn note_unknown(&mut self, seen: &Snapshot<'_>, all: &[Process<'_>], plan: &mut Plan) {
        let has_run = |process: &&Process<'_>| {
            process.job.job.state == JobState::Running && process.job.job.cpu_time != Nanos::ZERO
        };
        let is_known = all.iter().any(|process| process.mpki.is_some());
        let is_possible = self.config.refine.is_some() && seen.interval != Nanos::ZERO;
        if is_possible && !self.noted_unknown && !is_known && all.iter().any(|p| has_run(&p)) {
            self.noted_unknown = true;
            plan.note(Reason::new(PRESSURE_UNKNOWN));
        }
    }
}
