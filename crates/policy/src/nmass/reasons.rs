//! Reasons for the domain of a job, with all values that decided.

use base::CpuSet;
use sched::{CounterEvent, Reason, ReasonCode, Snapshot};

use super::declaration::{
    Config, HOME_FREE, HOME_FULL, NO_HOME, PLACES_FULL, PRESSURE_SWAPPED, PRESSURE_UNEVEN,
    STAYS_THERE,
};
use super::history::{Home, HomeSource};
use super::mapping::{Assignment, Decision, Process, Relief};
use crate::notes::OWN_CORE;
use crate::placement::{cpus_label, permille_text};

/// Inputs of the reasons of a turn.
pub(super) struct ReasonBuilder<'a, 's> {
    pub config: &'a Config,
    pub seen: &'a Snapshot<'a>,
    pub processes: &'a [Process<'s>],
}

impl ReasonBuilder<'_, '_> {
    /// The reason for the assignment of a job to these CPUs.
    pub fn reason(&self, at: usize, assignment: &Assignment, cpus: &CpuSet) -> Reason {
        let job = &self.processes[at].job;
        let reason = match &assignment.decision {
            // It stays on its domain and gets another core there.
            _ if job.is_bound && job.now == Some(assignment.domain) => Reason::new(OWN_CORE),
            Decision::Pressure(relief) => self.pressure(at, relief),
            Decision::Home { free, slots } => self
                .with_home(HOME_FREE, at)
                .with("free", u64::from(*free))
                .with("slots", u64::from(*slots)),
            Decision::HomeFull { taken, slots } => self.taken(HOME_FULL, at, *taken, *slots),
            Decision::Stays => self.with_home(STAYS_THERE, at),
            Decision::NoHome { taken, slots } => self.taken(NO_HOME, at, *taken, *slots),
            Decision::Full { taken, slots } => self.taken(PLACES_FULL, at, *taken, *slots),
        };
        let reason = reason
            .with("domain", self.seen.domains.label(assignment.domain))
            .with("cpus", cpus_label(cpus));
        reason.with_some("lost", job.lost_cpus().map(ToString::to_string))
    }

    fn taken(&self, code: ReasonCode, at: usize, taken: u32, slots: u32) -> Reason {
        self.with_home(code, at).with("taken", u64::from(taken)).with("slots", u64::from(slots))
    }

    fn with_home(&self, code: ReasonCode, at: usize) -> Reason {
        let Process { home, penalty, .. } = &self.processes[at];
        Reason::new(code)
            .with("home", home_text(home))
            .with("penalty", permille_text(penalty.permille))
            .with("penalty_by", penalty.by.to_owned())
    }

    fn pressure(&self, at: usize, relief: &Relief) -> Reason {
        let left = relief.after(self.processes);
        let refine = self.config.refine.as_ref();
        let is_victim = at == relief.victim;
        let code = if is_victim { PRESSURE_UNEVEN } else { PRESSURE_SWAPPED };
        let Process { mpki, .. } = &self.processes[at];
        let reason = self
            .with_home(code, at)
            .with("from", self.seen.domains.label(relief.from))
            .with("to", self.seen.domains.label(relief.to))
            .with("press_from", permille_text(relief.press.high))
            .with("press_to", permille_text(relief.press.low))
            .with("d_min", permille_text(refine.map_or(0, |refine| refine.d_min_milli)))
            .with("mpki", permille_text(mpki.unwrap_or(0)))
            .with("penalty_max", permille_text(relief.penalty_max))
            .with("left_from", permille_text(left.high))
            .with("left_to", permille_text(left.low));
        let other = if is_victim { relief.partner } else { Some(relief.victim) };
        let reason = match other.map(|other| &self.processes[other]) {
            Some(other) => reason
                .with("other", other.job.job.job.name.clone())
                .with("other_mpki", permille_text(other.mpki.unwrap_or(0))),
            None => reason,
        };
        reason.with("tier", self.seen.tiers.get(CounterEvent::LlcMisses).to_string())
    }
}

/// The home and its source, as text.
fn home_text(home: &Home) -> String {
    let node = home.node.map_or("any node".to_owned(), |node| format!("node {}", node.0));
    match home.source {
        HomeSource::Memory { there, of } => format!("{node} (which holds {there} of its {of})"),
        HomeSource::Declared => format!("{node} (its declared memory node)"),
        HomeSource::Start => format!("{node} (where it started)"),
        HomeSource::Even { most, of } => {
            format!("{node} (no node holds more than {most} of its {of})")
        }
        HomeSource::NoPages => format!("{node} (it has no pages yet)"),
    }
}
