//! Why a program has the home and the processors that it has.

use base::Nanos;
use sched::{JobView, Reason, ReasonCode, Snapshot};

use super::group::Group;
use crate::common::cpus_label;

/// A home and how it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Homed {
    /// It had the most free processors.
    MostFree { idx: usize, free: u64, n_cpus: u64 },
    /// None was free anywhere, and it is home to the fewest programs.
    FewestAtHome { idx: usize, n_at_home: u64 },
    /// The program's memory is to come from there.
    Declared { idx: usize },
    /// Most of the memory of a program that ran before is there.
    ByMemory { idx: usize },
    /// Nothing but that it runs there is known of it.
    WhereItRuns { idx: usize },
    /// It was its home before.
    Kept { idx: usize },
}

impl Homed {
    pub fn idx(&self) -> usize {
        match *self {
            Homed::MostFree { idx, .. }
            | Homed::FewestAtHome { idx, .. }
            | Homed::Declared { idx }
            | Homed::ByMemory { idx }
            | Homed::WhereItRuns { idx }
            | Homed::Kept { idx } => idx,
        }
    }

    fn words(&self) -> String {
        match self {
            Homed::MostFree { free, n_cpus, .. } => {
                format!("which had the most free CPUs, {free} of {n_cpus}")
            }
            Homed::FewestAtHome { n_at_home, .. } => format!(
                "as no CPU was free anywhere and it was home to the fewest programs, {n_at_home}"
            ),
            Homed::Declared { .. } => "from where its memory is to come".to_owned(),
            Homed::ByMemory { .. } => "where most of its memory lies".to_owned(),
            Homed::WhereItRuns { .. } => "where it runs".to_owned(),
            Homed::Kept { .. } => "as before".to_owned(),
        }
    }
}

/// A job gets its first processors, or others for those that went away.
pub(super) fn admitted(
    seen: &Snapshot<'_>,
    job: &JobView<'_>,
    homed: &Homed,
    group: &Group,
    is_lost: bool,
) -> Reason {
    let reason = Reason::new(ReasonCode::AtHome)
        .with("home", seen.domains.label(homed.idx()))
        .with("by", homed.words());
    let reason = with_group(reason, group);
    match job.placed.filter(|_| is_lost) {
        Some(gone) => reason.with("gone", gone.to_string()),
        None => reason,
    }
}

/// A job gets processors that have become free.
pub(super) fn handed_out(seen: &Snapshot<'_>, home: usize, now: &Group, group: &Group) -> Reason {
    let reason = Reason::new(ReasonCode::ProcessorsFree)
        .with("home", seen.domains.label(home))
        .with("had", cpus_label(&now.cpus))
        .with("n_shared_before", now.n_shared as u64)
        .with("n_outside_before", now.n_outside as u64);
    with_group(reason, group)
}

fn with_group(reason: Reason, group: &Group) -> Reason {
    reason
        .with("cpus", cpus_label(&group.cpus))
        .with("n_outside", group.n_outside as u64)
        .with("n_shared", group.n_shared as u64)
}

/// A job's home is another from now on.
pub(super) fn moved_home(
    seen: &Snapshot<'_>,
    job: &JobView<'_>,
    from: usize,
    to: usize,
    (n_outside, n_cpus): (usize, usize),
    time: Nanos,
) -> Reason {
    Reason::new(ReasonCode::HomeMoved)
        .with("job", job.job.name.clone())
        .with("home", seen.domains.label(to))
        .with("before", seen.domains.label(from))
        .with("n_outside", n_outside as u64)
        .with("n_cpus", n_cpus as u64)
        .with("time", time.to_string())
}
