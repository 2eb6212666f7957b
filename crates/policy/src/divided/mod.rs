//! Divided scheduling: jobs that cause contention are concentrated on some sockets, jobs that contention slows
//! down run on the others.
//!
//! ```text
//!              slowdown of others   own slowdown   criterion
//!   Group 1    large                large          cycles with a full queue of off-core requests
//!   Group 2    small                large          many references to the last-level cache
//!   Group 3    small                small          neither
//!
//!   socket 0           socket 1
//!   [1][1][1][ ]       [2][2][3][3]         Group 3 causes no contention and protects Group 2
//! ```
//!
//! Group 1 is concentrated, not spread: Group 2 ends early, and Group 1 then spreads over the free cores. References
//! identify Group 2, not misses: under contention all jobs miss, but references are a property of the program. Full
//! queues come first, since Group 1 has many references too.
//!
//! In each period each thread gets a group ([`groups`]), each job that of most of its threads, and each job a socket
//! ([`sockets`]). Between two periods only jobs that start, or lost their CPUs, are placed. Where full queues are not
//! counted, bandwidth and misses replace them: an approximate grouping, with a note.
//!
//! A socket is a placement domain (a node, or the level `domains`). Jobs are placed, so that a placement also holds
//! for children that start later; a job with n threads takes n slots ([`crate::slots`]). Unmanaged jobs, and jobs too
//! wide for one socket, take slots where they are, and have no group. Pages never migrate, and the kernel's NUMA
//! settings stay.
//!
//! Units: events in a second of CPU time.

mod declaration;
mod groups;
mod reasons;
mod sockets;
mod threshold;

use base::Nanos;
use sched::{Action, Cause, Plan, Policy, ReasonCode, Snapshot};
use topology::{DomainChoice, Level};

use crate::notes::MachineNotes;
use crate::placement;
use crate::slots::{PlacementJobs, assign_cpus};
use declaration::Config;
pub(crate) use declaration::INFO;
use groups::{GroupedJob, Groups};
use reasons::ReasonBuilder;
use sockets::{Division, SocketMap};
pub use threshold::{NoThreshold, Threshold, calibrate};

/// State of the policy.
#[derive(Debug)]
struct Divided {
    config: Config,
    groups: Groups,
    /// The division of the sockets in the last period.
    division: Option<Division>,
    /// The sockets that were divided.
    sockets: Vec<(Level, u32)>,
    notes: MachineNotes,
}

impl Policy for Divided {
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        self.notes.add_domains(seen, plan);
        let level = seen.domains.level();
        let sockets = seen.domains.iter().map(|(_, domain)| (level, domain.number)).collect();
        if self.sockets != sockets {
            (self.sockets, self.division) = (sockets, None);
        }
        let is_period = seen.turn.causes.contains(&Cause::Interval);
        self.groups.forget(seen);
        if is_period {
            self.groups.add(seen, plan);
        }
        if placement::can_place(seen) {
            self.place(seen, is_period, plan);
        }
        plan.quiescent = is_period && seen.jobs.iter().all(|job| job.cpu_time == Nanos::ZERO);
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

impl Divided {
    fn new(config: Config) -> Self {
        let (groups, notes) = (Groups::new(&config), MachineNotes::default());
        Divided { config, groups, division: None, sockets: Vec::new(), notes }
    }

    fn place(&mut self, seen: &Snapshot<'_>, is_period: bool, plan: &mut Plan) {
        let jobs = PlacementJobs::of(seen);
        let grouped: Vec<GroupedJob<'_>> =
            jobs.movable.iter().map(|job| self.groups.grouped(job)).collect();
        let mut map = SocketMap::new(&self.config, seen, &jobs, &grouped);
        if is_period {
            self.division = Some(map.divide());
        } else {
            map.place_remaining(self.division.as_ref());
        }
        let reasons = ReasonBuilder::new(seen, self.division.as_ref());
        let assignments = map.assignments();
        let domains: Vec<usize> = assignments.iter().map(|assignment| assignment.domain).collect();
        let cpus = assign_cpus(seen, &jobs, &domains);
        for ((grouped, assignment), cpus) in grouped.iter().zip(&assignments).zip(cpus) {
            let job = &grouped.job;
            if job.keeps(&cpus) || !is_period && job.is_bound {
                continue;
            }
            let reason = reasons.reason(grouped, assignment, &cpus);
            plan.request(job.job.job.id, Action::Place(cpus), reason);
        }
    }
}
