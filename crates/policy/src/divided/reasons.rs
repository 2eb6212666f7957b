//! Reasons for the socket of a job, with its events and the division of the sockets.

use base::CpuSet;
use sched::{CounterEvent, Reason, ReasonValue, SignalTier, Snapshot};

use super::declaration::{
    GROUP_APART, GROUP_FILLS, GROUP_OVERFLOW, GROUP_PLACED, GROUP_SHELTERED, GROUP_SPREAD,
};
use super::groups::{Group, GroupedJob};
use super::sockets::{Assignment, Division, DivisionCase, Role};
use crate::notes::OWN_CORE;
use crate::placement::cpus_label;

/// Inputs of the reasons of a turn.
pub(super) struct ReasonBuilder<'a> {
    seen: &'a Snapshot<'a>,
    /// Values about the division of the sockets: the same in every reason of a turn.
    division: Vec<(&'static str, ReasonValue)>,
}

impl<'a> ReasonBuilder<'a> {
    /// For one turn; `None`: the sockets are not divided yet.
    pub fn new(seen: &'a Snapshot<'a>, division: Option<&Division>) -> Self {
        let not_yet = || vec![("parted", ReasonValue::from("sockets are not divided yet"))];
        ReasonBuilder {
            seen,
            division: division.map_or_else(not_yet, |division| division_values(seen, division)),
        }
    }

    /// The reason for the assignment of a job to these CPUs.
    pub fn reason(
        &self,
        grouped: &GroupedJob<'_>,
        assignment: &Assignment,
        cpus: &CpuSet,
    ) -> Reason {
        let job = &grouped.job;
        let code = match assignment.role {
            _ if job.is_bound && job.now == Some(assignment.domain) => OWN_CORE,
            Role::Comes | Role::Stays => GROUP_PLACED,
            Role::Overflow => GROUP_OVERFLOW,
            Role::Even => GROUP_SPREAD,
            Role::Fills => GROUP_FILLS,
            Role::Side => match grouped.group {
                Some(Group::One) => GROUP_APART,
                _ => GROUP_SHELTERED,
            },
        };
        let reason = Reason::new(code)
            .with("group", group_text(grouped))
            .with("domain", self.seen.domains.label(assignment.domain))
            .with("cpus", cpus_label(cpus));
        let division = self.division.iter().cloned();
        let reason = division.fold(reason, |reason, (name, value)| reason.with(name, value));
        let how = match assignment.role {
            Role::Comes => Some("the socket with the most free slots for it"),
            Role::Stays => Some("its current socket"),
            _ => None,
        };
        reason
            .with_some("lost", job.lost_cpus().map(ToString::to_string))
            .with_some("how", how)
            .with_some("tier", grouped.group.map(|_| self.tier().name()))
    }

    /// Signal tier of the groups.
    fn tier(&self) -> SignalTier {
        match self.seen.tiers.get(CounterEvent::QueueFull) {
            SignalTier::None => self.seen.tiers.get(CounterEvent::LlcMisses),
            tier => tier,
        }
    }
}

fn division_values(seen: &Snapshot<'_>, division: &Division) -> Vec<(&'static str, ReasonValue)> {
    let [n1, n2, n3, unknown] = division.n;
    let parted = match (division.case, division.sides(seen)) {
        (_, Some((a, b))) => {
            format!("Group 1 is assigned to {}, the others to {}", cpus_label(&a), cpus_label(&b))
        }
        (DivisionCase::BelowGuard, _) => {
            "Group 1 causes too little contention to be concentrated".to_owned()
        }
        (DivisionCase::NoGroupTwo, _) => "there is no Group 2".to_owned(),
        (DivisionCase::OneSocket, _) => "there is only one socket".to_owned(),
        (DivisionCase::NoGroupOne | DivisionCase::Apart { .. }, _) => {
            "there is no Group 1".to_owned()
        }
    };
    let threads = format!("{n1}, {n2} and {n3} threads of Groups 1, 2 and 3");
    let threads = match unknown {
        0 => threads,
        unknown => format!("{threads}, {unknown} without a group"),
    };
    let guard = division.guard.map(|(each, least)| {
        [("sq_each", ReasonValue::from(each)), ("sq_least", ReasonValue::from(least.to_string()))]
    });
    let values = [("parted", ReasonValue::from(parted)), ("threads", ReasonValue::from(threads))];
    values.into_iter().chain(guard.into_iter().flatten()).collect()
}

/// The group of a job and its basis, as text.
fn group_text(grouped: &GroupedJob<'_>) -> String {
    let Some(group) = grouped.group else {
        return "the group of the job is not known yet".to_owned();
    };
    let what = match group {
        Group::One => "Group 1, which causes contention",
        Group::Two => "Group 2, which contention slows down",
        Group::Three => "Group 3, which hardly causes contention and is hardly slowed down by it",
    };
    let evidence = &grouped.evidence;
    let voted = match (evidence.group == Some(group), evidence.n_threads) {
        (false, _) => ", although the last period had another result".to_owned(),
        (true, 1) => String::new(),
        (true, n) => format!(", as {} of {n} threads in the last period", evidence.n_votes),
    };
    format!("the job is in {what}{voted} ({})", evidence.text)
}
