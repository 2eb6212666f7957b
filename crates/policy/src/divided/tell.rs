//! Why a job is on its socket, with what it has shown and how the sockets are parted.

use base::CpuSet;
use sched::{CounterEvent, Reason, ReasonCode, ReasonValue, SignalTier, Snapshot};

use super::classes::Group;
use super::place::{Case, Member, Roles, Spot, Why};
use crate::common::cpus_label;

/// What reasons are told from.
pub(super) struct Tell<'a> {
    seen: &'a Snapshot<'a>,
    /// How the sockets are parted: the same in every reason of a turn.
    parting: Vec<(&'static str, ReasonValue)>,
}

impl<'a> Tell<'a> {
    /// Of one turn; without roles nothing was parted yet.
    pub fn new(seen: &'a Snapshot<'a>, roles: Option<&Roles>) -> Self {
        let not_yet = || vec![("parted", ReasonValue::from("sockets are not parted yet"))];
        Tell { seen, parting: roles.map_or_else(not_yet, |roles| parting(seen, roles)) }
    }

    /// Why one job goes to its spot, on these CPUs.
    pub fn reason(&self, member: &Member<'_>, spot: &Spot, cpus: &CpuSet) -> Reason {
        let guest = &member.guest;
        let code = match spot.why {
            _ if guest.is_bound && guest.now == Some(spot.to) => ReasonCode::OwnCore,
            Why::Comes | Why::Stays => ReasonCode::GroupComes,
            Why::Overflow => ReasonCode::GroupOverflow,
            Why::Even => ReasonCode::GroupSpread,
            Why::Fills => ReasonCode::GroupFills,
            Why::Side => match member.group {
                Some(Group::One) => ReasonCode::GroupApart,
                _ => ReasonCode::GroupSheltered,
            },
        };
        let reason = Reason::new(code)
            .with("group", group_text(member))
            .with("domain", self.seen.domains.label(spot.to))
            .with("cpus", cpus_label(cpus));
        let parting = self.parting.iter().cloned();
        let reason = parting.fold(reason, |reason, (name, figure)| reason.with(name, figure));
        let reason = match guest.gone() {
            Some(gone) => reason.with("gone", gone.to_string()),
            None => reason,
        };
        let reason = match spot.why {
            Why::Comes => reason.with("how", "which had most room for it"),
            Why::Stays => reason.with("how", "where it ran"),
            _ => reason,
        };
        match member.group {
            Some(_) => reason.with("tier", self.tier().name()),
            None => reason,
        }
    }

    /// What groups stand on.
    fn tier(&self) -> SignalTier {
        match self.seen.tiers.get(CounterEvent::QueueFull) {
            SignalTier::None => self.seen.tiers.get(CounterEvent::LlcMisses),
            tier => tier,
        }
    }
}

fn parting(seen: &Snapshot<'_>, roles: &Roles) -> Vec<(&'static str, ReasonValue)> {
    let [n1, n2, n3, unknown] = roles.n;
    let parted = match (roles.case, roles.sides(seen)) {
        (_, Some((a, b))) => {
            format!("Group 1 is to run on {}, the others on {}", cpus_label(&a), cpus_label(&b))
        }
        (Case::TooLittle, _) => "Group 1 does too little to be worth collecting".to_owned(),
        (Case::NobodyHurt, _) => "nobody has to be kept from Group 1".to_owned(),
        (Case::OneSocket, _) => "there is only one place".to_owned(),
        (Case::NobodyHurts | Case::Apart { .. }, _) => "there is no Group 1".to_owned(),
    };
    let threads = format!("{n1}, {n2} and {n3} threads of Groups 1, 2 and 3");
    let threads = match unknown {
        0 => threads,
        unknown => format!("{threads}, {unknown} of none yet"),
    };
    let guard = roles.guard.map(|(each, least)| {
        [("sq_each", ReasonValue::from(each)), ("sq_least", ReasonValue::from(least.to_string()))]
    });
    let told = [("parted", ReasonValue::from(parted)), ("threads", ReasonValue::from(threads))];
    told.into_iter().chain(guard.into_iter().flatten()).collect()
}

/// What a job is, and why.
fn group_text(member: &Member<'_>) -> String {
    let Some(group) = member.group else {
        return "it has not shown yet what it does".to_owned();
    };
    let what = match group {
        Group::One => "Group 1, which hurts others",
        Group::Two => "Group 2, which is hurt",
        Group::Three => "Group 3, which neither hurts nor is hurt much",
    };
    let told = &member.told;
    let voted = match (told.group == Some(group), told.n_threads) {
        (false, _) => ", though it looked otherwise in the last period".to_owned(),
        (true, 1) => String::new(),
        (true, n) => format!(", as {} of {n} threads in the last period", told.n_votes),
    };
    format!("it is of {what}{voted} ({})", told.words)
}
