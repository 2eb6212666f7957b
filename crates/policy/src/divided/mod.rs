//! Divided scheduling: jobs that cause contention are concentrated on some sockets. Jobs that contention slows down run
//! on the other sockets.
//!
//! ```text
//!              slowdown of others   own slowdown   criterion
//!   Group 1    large                large          cycles with a full queue of off-core requests (queue-full)
//!   Group 2    small                large          many references to the last-level cache
//!   Group 3    small                small          neither
//!
//!   socket 0           socket 1
//!   [1][1][1][ ]       [2][2][3][3]         Group 3 causes no contention and protects Group 2
//! ```
//!
//! Group 1 is concentrated because Group 2 then ends early, and Group 1 spreads over the free cores. Group 2 is identified
//! by references, not by misses: under contention the misses of all jobs increase, but references are a property of the
//! program. Queue-full cycles are evaluated before references, because Group 1 has many references too.
//!
//! In each period each thread gets a group, each job the group of most of its threads ([`groups`]), and each job a socket
//! ([`sockets`]). Between two periods only jobs that start or lost their CPUs are placed. If queue-full cycles are not
//! counted, bandwidth and misses replace them: the grouping is approximate, and a note reports it.
//!
//! A socket is a placement domain (a node, or the level `domains`). evenkeel places jobs instead of threads, so that a
//! placement also applies to children that start later. A job with n threads takes n slots ([`crate::slots`]). Unmanaged
//! jobs, and jobs with more threads than a socket has CPUs, take slots where they are, and have no group. Pages never
//! migrate, and the NUMA settings of the kernel do not change.
//!
//! Units: events per second of CPU time.

mod declaration;
mod groups;
mod sockets;
mod threshold;

use base::Nanos;
use sched::{Action, Cause, Plan, Snapshot};
use topology::Level;

use crate::Rules;
use crate::notes::MachineNotes;
use crate::placement;
use crate::slots::{PlacementJobs, assign_cpus};
pub(crate) use declaration::INFO;
use declaration::{Config, DividedReasons};
use groups::{GroupedJob, Groups};
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

impl Rules for Divided {
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        self.notes.add_domains(snapshot, plan);
        let level = snapshot.domains.level();
        let sockets = snapshot.domains.iter().map(|(_, domain)| (level, domain.number)).collect();
        if self.sockets != sockets {
            (self.sockets, self.division) = (sockets, None);
        }
        let is_period = snapshot.turn.causes.contains(&Cause::Interval);
        self.groups.remove_state(snapshot);
        if is_period {
            self.groups.add(snapshot, plan);
        }
        if placement::can_place(snapshot) {
            self.place(snapshot, is_period, plan);
        }
        plan.quiescent = is_period && snapshot.jobs.iter().all(|job| job.cpu_time == Nanos::ZERO);
    }
}

impl Divided {
    fn new(config: Config) -> Self {
        let (groups, notes) = (Groups::new(&config), MachineNotes::default());
        Divided { config, groups, division: None, sockets: Vec::new(), notes }
    }

    fn place(&mut self, snapshot: &Snapshot<'_>, is_period: bool, plan: &mut Plan) {
        let jobs = PlacementJobs::of(snapshot);
        let grouped: Vec<GroupedJob<'_>> =
            jobs.movable.iter().map(|job| self.groups.grouped(job)).collect();
        let mut map = SocketMap::new(&self.config, snapshot, &jobs, &grouped);
        if is_period {
            self.division = Some(map.divide());
        } else {
            map.place_remaining(self.division.as_ref());
        }
        let reasons = DividedReasons::new(snapshot, self.division.as_ref());
        let assignments = map.assignments();
        let domains: Vec<usize> = assignments.iter().map(|assignment| assignment.domain).collect();
        let cpus = assign_cpus(snapshot, &jobs, &domains);
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
