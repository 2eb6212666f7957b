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
//!   [1][1][1][ ]       [2][2][3][3]         Group 3 causes no contention, so Group 2 is isolated
//! ```
//!
//! Group 1 is concentrated because Group 2 then ends early, and Group 1 spreads over the free cores. Group 2 is
//! identified by references, not by misses: under contention the misses of all jobs increase, but references are a
//! property of the program. Queue-full cycles are evaluated before references, because Group 1 has many references too.
//!
//! At each poll each thread gets a group, each job the group of most of its threads ([`groups`]), and each job a
//! socket ([`sockets`]). Between two polls only jobs that start or lost their CPUs are placed. If queue-full cycles
//! are not counted, bandwidth and misses are used instead: the grouping is approximate, and a note reports it.
//!
//! A socket is a placement domain (a node, or the level `domains`). evenkeel places jobs instead of threads, so that a
//! placement also applies to children that start later. A job with n threads takes n slots ([`crate::slots`]).
//! Unmanaged jobs, and jobs with more threads than a socket has CPUs, take slots on their current sockets, and have no
//! group. Pages never migrate, and the NUMA settings of the kernel do not change.
//!
//! Units: events per second of CPU time.

mod declaration;
mod groups;
mod sockets;
mod threshold;

use base::{CpuSet, Nanos};
use sched::{Action, Cause, CounterEvent, Plan, Reason, ReasonValue, SignalTier, Snapshot};
use topology::Level;

use crate::Rules;
use crate::notes::{MachineNotes, OWN_CORE};
use crate::placement::{self, cpus_label};
use crate::slots::{PlacementJobs, assign_cpus};
pub(crate) use declaration::INFO;
use declaration::{
    Config, GROUP_CONCENTRATED, GROUP_FILLS, GROUP_ISOLATED, GROUP_OVERFLOW, GROUP_PLACED,
    GROUP_SPREAD,
};
use groups::{ContentionGroup, GroupedJob, Groups};
use sockets::{Division, DivisionCase, SocketAssignment, SocketMap, SocketRole};
pub use threshold::{NoThreshold, Threshold, calibrate};

/// State of the policy.
#[derive(Debug)]
struct Divided {
    config: Config,
    groups: Groups,
    /// The division of the sockets at the last poll.
    division: Option<Division>,
    /// The sockets of the last turn. If the sockets change, the division is discarded.
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
        let is_poll = snapshot.turn.causes.contains(&Cause::Interval);
        self.groups.remove_state(snapshot);
        if is_poll {
            self.groups.add(snapshot, plan);
        }
        if placement::can_place(snapshot) {
            self.place(snapshot, is_poll, plan);
        }
        plan.quiescent = is_poll && snapshot.jobs.iter().all(|job| job.cpu_time == Nanos::ZERO);
    }
}

impl Divided {
    fn new(config: Config) -> Self {
        let (groups, notes) = (Groups::new(&config), MachineNotes::default());
        Divided { config, groups, division: None, sockets: Vec::new(), notes }
    }

    fn place(&mut self, snapshot: &Snapshot<'_>, is_poll: bool, plan: &mut Plan) {
        let jobs = PlacementJobs::of(snapshot);
        let grouped: Vec<GroupedJob<'_>> =
            jobs.movable.iter().map(|job| self.groups.grouped(job)).collect();
        let mut map = SocketMap::new(&self.config, snapshot, &jobs, &grouped);
        if is_poll {
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
            if job.keeps(&cpus) || !is_poll && job.is_bound {
                continue;
            }
            let reason = reasons.reason(grouped, assignment, &cpus);
            plan.request(job.job.job.id, Action::Place(cpus), reason);
        }
    }
}

/// Inputs of the reasons of a turn.
struct DividedReasons<'a> {
    snapshot: &'a Snapshot<'a>,
    /// Values about the division of the sockets: the same in every reason of a turn.
    division: Vec<(&'static str, ReasonValue)>,
}

impl<'a> DividedReasons<'a> {
    /// Creates the inputs for one turn. `division` is `None` until the sockets are divided.
    fn new(snapshot: &'a Snapshot<'a>, division: Option<&Division>) -> Self {
        let not_yet = || vec![("division", ReasonValue::from("none"))];
        DividedReasons {
            snapshot,
            division: division.map_or_else(not_yet, |division| division_values(snapshot, division)),
        }
    }

    /// Returns the reason for the assignment of a job to these CPUs.
    fn reason(
        &self,
        grouped: &GroupedJob<'_>,
        assignment: &SocketAssignment,
        cpus: &CpuSet,
    ) -> Reason {
        let job = &grouped.job;
        let code = match assignment.role {
            _ if job.is_bound && job.now == Some(assignment.domain) => OWN_CORE,
            SocketRole::Starts | SocketRole::Stays => GROUP_PLACED,
            SocketRole::Overflow => GROUP_OVERFLOW,
            SocketRole::Even => GROUP_SPREAD,
            SocketRole::Fills => GROUP_FILLS,
            SocketRole::OwnGroup => match grouped.group {
                Some(ContentionGroup::One) => GROUP_CONCENTRATED,
                _ => GROUP_ISOLATED,
            },
        };
        let reason = with_group(Reason::new(code), grouped)
            .with("domain", self.snapshot.domains.label(assignment.domain))
            .with("cpus", cpus_label(cpus));
        let division = self.division.iter().cloned();
        let reason = division.fold(reason, |reason, (name, value)| reason.with(name, value));
        let selected = match assignment.role {
            SocketRole::Starts => Some("most-free"),
            SocketRole::Stays => Some("current"),
            _ => None,
        };
        reason
            .with_some("lost", job.lost_cpus().map(ToString::to_string))
            .with_some("selected", selected)
            .with_some("tier", grouped.group.map(|_| self.tier().name()))
    }

    /// Returns the signal tier of the groups.
    fn tier(&self) -> SignalTier {
        match self.snapshot.tiers.get(CounterEvent::QueueFull) {
            SignalTier::None => self.snapshot.tiers.get(CounterEvent::LlcMisses),
            tier => tier,
        }
    }
}

fn division_values(
    snapshot: &Snapshot<'_>,
    division: &Division,
) -> Vec<(&'static str, ReasonValue)> {
    let [n_one, n_two, n_three, n_unknown] = division.n;
    let sides = division.sides(snapshot);
    let case = match division.case {
        _ if sides.is_some() => "apart",
        DivisionCase::BelowGuard => "below-guard",
        DivisionCase::NoGroupTwo => "no-group-two",
        DivisionCase::OneSocket => "one-socket",
        DivisionCase::NoGroupOne | DivisionCase::Apart { .. } => "no-group-one",
    };
    let sides = sides.map(|(one, others)| {
        [
            ("sockets_one", ReasonValue::from(cpus_label(&one))),
            ("sockets_others", ReasonValue::from(cpus_label(&others))),
        ]
    });
    let threads = if n_unknown == 0 { "grouped" } else { "some-unknown" };
    let guard = division.guard.map(|(each, min)| {
        [("sq_each", ReasonValue::from(each)), ("sq_min", ReasonValue::from(min.to_string()))]
    });
    let values = [
        ("division", ReasonValue::from(case)),
        ("threads", ReasonValue::from(threads)),
        ("n_one", n_one.into()),
        ("n_two", n_two.into()),
        ("n_three", n_three.into()),
        ("n_unknown", n_unknown.into()),
    ];
    let optional = sides.into_iter().flatten().chain(guard.into_iter().flatten());
    values.into_iter().chain(optional).collect()
}

/// Adds the group of a job, its votes and its counters.
fn with_group(reason: Reason, grouped: &GroupedJob<'_>) -> Reason {
    let Some(group) = grouped.group else { return reason.with("group", "unknown") };
    let word = match group {
        ContentionGroup::One => "one",
        ContentionGroup::Two => "two",
        ContentionGroup::Three => "three",
    };
    let counters = &grouped.counters;
    let vote = match (counters.group == Some(group), counters.n_threads) {
        (false, _) => Some("other"),
        (true, 1) => None,
        (true, _) => Some("most"),
    };
    let reason = reason
        .with("group", word)
        .with_some("vote", vote)
        .with("n_votes", counters.n_votes)
        .with("n_voters", counters.n_threads);
    let values = counters.values.iter();
    values.fold(reason, |reason, (name, value)| reason.with(name, value.clone()))
}
