//! By lot: a baseline that knows nothing and prefers nothing.
//!
//! ```text
//!   a program starts     on a place drawn by lot of those that it may use, there on a CPU drawn by lot
//!   every so often       (only if asked for) lots are drawn again for all of them
//! ```
//!
//! What others gain over the mean of many seeds is what their knowledge is worth; a single draw
//! may be the best placement or the worst. The same seed draws the same lots. A job gets a CPU for each of its
//! threads, from the place that was drawn as far as it has that many, and then from all others.

use base::{CpuId, CpuSet, Nanos, Rng};
use sched::{Action, Cause, JobState, JobView, Plan, Policy, Reason, ReasonCode, Snapshot};
use topology::DomainChoice;

use crate::common::{self, INTERVAL, cpus_label};
use crate::spec::Given;
use crate::{Origin, ParamInfo, PolicyError, PolicyInfo};

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "random",
    does: "Starts programs on CPUs drawn by lot; moves nothing unless told to draw again.",
    source: "common practice, to compare the others with",
    needs: &[],
    params: &[
        ParamInfo {
            name: "domains",
            takes: common::DOMAINS_TAKES,
            default: "auto",
            default_paper: None,
            meaning: "the places drawn from; auto is the coarsest level with two of them",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "bind",
            takes: "cpu or domain",
            default: "cpu",
            default_paper: None,
            meaning: "a job gets a CPU for each of its threads, or all CPUs of its place",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "every",
            takes: EVERY_TAKES,
            default: "never",
            default_paper: None,
            meaning: "lots are drawn again for all programs after so long, at the end of an interval",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "interval",
            takes: common::INTERVAL_TAKES,
            default: "250ms",
            default_paper: None,
            meaning: "time between two samples",
            origin: Origin::OurChoice,
        },
    ],
};

const EVERY_TAKES: &str = "never, or a time with its unit, from 1ms to 60min";

/// What it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Config {
    domains: DomainChoice,
    /// All CPUs of a place instead of one for each thread.
    whole: bool,
    every: Option<Nanos>,
    interval: Nanos,
}

/// The policy, its lots, and when it drew for all.
#[derive(Debug)]
struct Random {
    config: Config,
    rng: Rng,
    drawn_at: Nanos,
}

pub(crate) fn build(given: &Given<'_>, seed: u64) -> Result<Box<dyn Policy>, PolicyError> {
    let every = |text: &str| match text {
        "never" => Some(None),
        time => common::interval(time).map(Some),
    };
    let config = Config {
        domains: given.get("domains", DomainChoice::Auto, common::domains)?,
        whole: given.choice("bind", false, &[("cpu", false), ("domain", true)])?,
        every: given.get("every", None, every)?,
        interval: given.get("interval", INTERVAL, common::interval)?,
    };
    Ok(Box::new(Random { config, rng: Rng::new(seed), drawn_at: Nanos::ZERO }))
}

impl Policy for Random {
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        if seen.turn.number == 0 {
            plan.notes.extend(common::nothing_to_place(seen));
        }
        plan.quiescent = self.config.every.is_none();
        if !common::can_place(seen) {
            return;
        }
        let draws_again = self.is_time(seen);
        for job in seen.jobs {
            if job.state == JobState::Due || common::has_lost_its_place(job, seen.usable_cpus) {
                self.draw(seen, job, ReasonCode::ByLot, plan);
            } else if draws_again && job.movable {
                self.draw(seen, job, ReasonCode::DrawnAgain, plan);
            }
        }
    }

    fn name(&self) -> &str {
        INFO.name
    }

    fn interval(&self) -> Option<Nanos> {
        Some(self.config.interval)
    }

    fn domains(&self) -> DomainChoice {
        self.config.domains
    }
}

impl Random {
    /// Whether lots are drawn again now; from now on the next time counts.
    fn is_time(&mut self, seen: &Snapshot<'_>) -> bool {
        let Some(every) = self.config.every else { return false };
        let is_time = seen.turn.causes.contains(&Cause::Interval)
            && self.drawn_at.saturating_add(every) <= seen.turn.at;
        if is_time {
            self.drawn_at = seen.turn.at;
        }
        is_time
    }

    fn draw(&mut self, seen: &Snapshot<'_>, job: &JobView<'_>, code: ReasonCode, plan: &mut Plan) {
        let possible = seen.domains.iter().filter(|(_, d)| d.cpus.intersects(job.allowed));
        let possible: Vec<usize> = possible.map(|(idx, _)| idx).collect();
        if possible.is_empty() {
            return;
        }
        let idx = possible[self.rng.below(possible.len() as u64) as usize];
        let there = seen.domains.get(idx).cpus.and(job.allowed);
        let cpus = match self.config.whole {
            true => there,
            false => self.draw_cpus(job, &there),
        };
        if job.placed == Some(&cpus) && job.state == JobState::Running {
            return; // The lot fell on where it is.
        }
        let reason = Reason::new(code)
            .with("domain", seen.domains.label(idx))
            .with("n_possible", possible.len() as u64)
            .with("cpus", cpus_label(&cpus));
        let gone = job.placed.filter(|_| common::has_lost_its_place(job, seen.usable_cpus));
        let reason = match (gone, self.config.every) {
            (Some(gone), _) => reason.with("gone", gone.to_string()),
            (None, Some(every)) => reason.with("every", every.to_string()),
            (None, None) => reason,
        };
        plan.request(job.job.id, Action::Place(cpus), reason);
    }

    /// A CPU for each thread: of the place, and when it has too few of all others too.
    fn draw_cpus(&mut self, job: &JobView<'_>, there: &CpuSet) -> CpuSet {
        let mut drawn = CpuSet::new();
        for from in [there.clone(), job.allowed.minus(there)] {
            let mut from: Vec<CpuId> = from.iter().collect();
            while !from.is_empty() && drawn.len() < job.job.threads as usize {
                drawn.insert(from.swap_remove(self.rng.below(from.len() as u64) as usize));
            }
        }
        drawn
    }
}

#[cfg(test)]
mod tests;
