//! Why a process is put where it is, with every figure that decided.

use base::CpuSet;
use sched::{CounterEvent, Reason, ReasonCode, Snapshot};

use super::config::Config;
use super::map::{Process, Relief, Spot, Why};
use super::shown::{Home, HomeBy};
use crate::common::{cpus_label, permille_text};

/// What reasons are told from.
pub(super) struct Tell<'a, 's> {
    pub config: &'a Config,
    pub seen: &'a Snapshot<'a>,
    pub processes: &'a [Process<'s>],
}

impl Tell<'_, '_> {
    /// Why one process goes to its spot, on these CPUs.
    pub fn reason(&self, at: usize, spot: &Spot, cpus: &CpuSet) -> Reason {
        let guest = &self.processes[at].guest;
        let reason = match &spot.why {
            // It stays in its place, and gets a core of its own there.
            _ if guest.is_bound && guest.now == Some(spot.to) => Reason::new(ReasonCode::OwnCore),
            Why::Pressure(relief) => self.pressure(at, relief),
            Why::Home { free, places } => self
                .by_home(ReasonCode::HomeFree, at)
                .with("free", u64::from(*free))
                .with("places", u64::from(*places)),
            Why::HomeFull { taken, places } => {
                self.taken(ReasonCode::HomeFull, at, *taken, *places)
            }
            Why::Stays => self.by_home(ReasonCode::StaysThere, at),
            Why::NoHome { taken, places } => self.taken(ReasonCode::NoHome, at, *taken, *places),
            Why::Full { taken, places } => self.taken(ReasonCode::PlacesFull, at, *taken, *places),
        };
        let reason =
            reason.with("domain", self.seen.domains.label(spot.to)).with("cpus", cpus_label(cpus));
        match guest.gone() {
            Some(gone) => reason.with("gone", gone.to_string()),
            None => reason,
        }
    }

    fn taken(&self, code: ReasonCode, at: usize, taken: u32, places: u32) -> Reason {
        self.by_home(code, at).with("taken", u64::from(taken)).with("places", u64::from(places))
    }

    fn by_home(&self, code: ReasonCode, at: usize) -> Reason {
        let Process { home, penalty, .. } = &self.processes[at];
        Reason::new(code)
            .with("home", home_text(home))
            .with("penalty", permille_text(penalty.permille))
            .with("penalty_by", penalty.by.to_owned())
    }

    fn pressure(&self, at: usize, relief: &Relief) -> Reason {
        let left = relief.left(self.processes);
        let refine = self.config.refine.as_ref();
        let goes = at == relief.who;
        let code = if goes { ReasonCode::PressureUneven } else { ReasonCode::PressureSwapped };
        let Process { mpki, .. } = &self.processes[at];
        let reason = self
            .by_home(code, at)
            .with("from", self.seen.domains.label(relief.from))
            .with("to", self.seen.domains.label(relief.to))
            .with("press_from", permille_text(relief.press.high))
            .with("press_to", permille_text(relief.press.low))
            .with("d_min", permille_text(refine.map_or(0, |refine| refine.d_min_milli)))
            .with("mpki", permille_text(mpki.unwrap_or(0)))
            .with("penalty_max", permille_text(relief.penalty_max))
            .with("left_from", permille_text(left.high))
            .with("left_to", permille_text(left.low));
        let other = if goes { relief.partner } else { Some(relief.who) };
        let reason = match other.map(|other| &self.processes[other]) {
            Some(other) => reason
                .with("other", other.guest.job.job.name.clone())
                .with("other_mpki", permille_text(other.mpki.unwrap_or(0))),
            None => reason,
        };
        reason.with("tier", self.seen.tiers.get(CounterEvent::LlcMisses).to_string())
    }
}

/// Where a home is and how that is known, for people.
fn home_text(home: &Home) -> String {
    let node = home.node.map_or("nowhere".to_owned(), |node| format!("node {}", node.0));
    match home.by {
        HomeBy::Memory { there, of } => format!("{node} with {there} of its {of}"),
        HomeBy::Declared => format!("{node}, from where its memory is to come"),
        HomeBy::Start => format!("{node}, where it was first"),
        HomeBy::Even { most, of } => {
            format!("everywhere, as no node has more than {most} of its {of}")
        }
        HomeBy::Unborn => "everywhere, as it has no memory yet".to_owned(),
    }
}
