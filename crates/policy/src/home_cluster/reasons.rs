//! Reasons for the home and the CPUs of a job.

use base::Nanos;
use sched::{JobView, Reason, Snapshot};

use super::declaration::{AT_HOME, HOME_MOVED, PROCESSORS_FREE};
use super::processors::CpuGroup;
use crate::placement::cpus_label;

/// A home and the criterion of its selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HomeChoice {
    /// The cluster with the most free CPUs.
    MostFree { idx: usize, free: u64, n_cpus: u64 },
    /// No CPU was free; the home of the fewest jobs.
    FewestAtHome { idx: usize, n_at_home: u64 },
    /// The declared memory node.
    Declared { idx: usize },
    /// The node of most of its pages.
    ByMemory { idx: usize },
    /// The current cluster.
    Current { idx: usize },
    /// Unchanged.
    Kept { idx: usize },
}

impl HomeChoice {
    pub fn idx(&self) -> usize {
        match *self {
            HomeChoice::MostFree { idx, .. }
            | HomeChoice::FewestAtHome { idx, .. }
            | HomeChoice::Declared { idx }
            | HomeChoice::ByMemory { idx }
            | HomeChoice::Current { idx }
            | HomeChoice::Kept { idx } => idx,
        }
    }

    fn text(&self) -> String {
        match self {
            HomeChoice::MostFree { free, n_cpus, .. } => {
                format!("the cluster with the most free CPUs, {free} of {n_cpus}")
            }
            HomeChoice::FewestAtHome { n_at_home, .. } => {
                format!("the home of the fewest jobs, {n_at_home}, since no CPU was free")
            }
            HomeChoice::Declared { .. } => "its declared memory node".to_owned(),
            HomeChoice::ByMemory { .. } => "the node of most of its memory".to_owned(),
            HomeChoice::Current { .. } => "where it runs".to_owned(),
            HomeChoice::Kept { .. } => "unchanged".to_owned(),
        }
    }
}

/// A job gets its first CPUs, or others for those that became unusable.
pub(super) fn admitted(
    seen: &Snapshot<'_>,
    job: &JobView<'_>,
    choice: &HomeChoice,
    group: &CpuGroup,
    is_lost: bool,
) -> Reason {
    let reason = Reason::new(AT_HOME)
        .with("home", seen.domains.label(choice.idx()))
        .with("by", choice.text());
    let lost = job.placed.filter(|_| is_lost);
    with_group(reason, group).with_some("lost", lost.map(ToString::to_string))
}

/// A job gets CPUs that became free.
pub(super) fn processors_free(
    seen: &Snapshot<'_>,
    home: usize,
    now: &CpuGroup,
    group: &CpuGroup,
) -> Reason {
    let reason = Reason::new(PROCESSORS_FREE)
        .with("home", seen.domains.label(home))
        .with("had", cpus_label(&now.cpus))
        .with("n_shared_before", now.n_shared as u64)
        .with("n_outside_before", now.n_outside as u64);
    with_group(reason, group)
}

fn with_group(reason: Reason, group: &CpuGroup) -> Reason {
    reason
        .with("cpus", cpus_label(&group.cpus))
        .with("n_outside", group.n_outside as u64)
        .with("n_shared", group.n_shared as u64)
}

/// The home of a job changed.
pub(super) fn home_moved(
    seen: &Snapshot<'_>,
    job: &JobView<'_>,
    from: usize,
    to: usize,
    (n_outside, n_cpus): (usize, usize),
    time: Nanos,
) -> Reason {
    Reason::new(HOME_MOVED)
        .with("job", job.job.name.clone())
        .with("home", seen.domains.label(to))
        .with("before", seen.domains.label(from))
        .with("n_outside", n_outside as u64)
        .with("n_cpus", n_cpus as u64)
        .with("time", time.to_string())
}
