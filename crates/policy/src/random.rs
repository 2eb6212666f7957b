//! Random placement: a baseline that uses no information about the jobs.
//!
//! ```text
//!   a job starts         on a random domain of those that it may use, there on random CPUs
//!   every `every`        (off by default) all jobs are placed at random again
//! ```
//!
//! A single run may have the best placement or the worst: compare a policy with the mean over many seeds. The
//! same seed gives the same placements. A job gets a CPU for each of its threads, from the drawn domain first,
//! then from all others.

use base::{CpuId, CpuSet, Nanos, Rng};
use sched::{
    Action, Cause, JobState, JobView, Plan, Policy, Reason, ReasonCode, Snapshot, reasons,
};
use topology::DomainChoice;

use crate::declaration::{DOMAINS, INTERVAL, INTERVAL_TIMES, Param, Values, names, time};
use crate::placement::{self, cpus_label};
use crate::{PolicyInfo, notes};

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "random",
    summary: "Starts each job on random CPUs; migrates jobs only if a redraw is requested.",
    source: "common practice, a baseline for the other policies",
    signals: &[],
    params: &[
        DOMAINS,
        Param::new(
            "bind",
            Bind::VALUES,
            "cpu",
            "a CPU for each thread of a job, or all CPUs of its domain",
        ),
        Param::new(
            "every",
            Values::Or("never", &INTERVAL_TIMES),
            "never",
            "time after which all jobs are placed at random again, at the end of an interval",
        ),
        INTERVAL,
    ],
    reasons: &[notes::REASONS, REASONS],
    build: Some(|params, seed| {
        let config = Config {
            domains: params.domains(),
            bind: params.named("bind"),
            every: params.unless("every", "never", time),
            interval: params.time("interval"),
        };
        Ok(Box::new(Random { config, rng: Rng::new(seed), drawn_at: Nanos::ZERO }))
    }),
};

reasons! {
    /// Drawn at start.
    BY_LOT = "by-lot":
        "{domain} was drawn at random from the {n_possible} domains that the job may use, with {cpus}[; some of its CPUs ({lost}) became unusable]";
    /// Drawn again.
    DRAWN_AGAIN = "drawn-again":
        "jobs are placed at random every {every}: {domain} was drawn from the {n_possible} domains that the job may use, with {cpus}";
}

names! {
    /// CPUs that a job is bound to.
    enum Bind {
        /// A CPU for each thread.
        Cpu = "cpu",
        /// All CPUs of the domain.
        Domain = "domain",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Config {
    domains: DomainChoice,
    bind: Bind,
    every: Option<Nanos>,
    interval: Nanos,
}

/// State of the policy.
#[derive(Debug)]
struct Random {
    config: Config,
    rng: Rng,
    /// When all jobs were placed at random last.
    drawn_at: Nanos,
}

impl Policy for Random {
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        if seen.turn.number == 0 {
            plan.notes.extend(notes::nothing_to_place(seen));
        }
        plan.quiescent = self.config.every.is_none();
        if !placement::can_place(seen) {
            return;
        }
        let draws_again = self.is_time(seen);
        for job in seen.jobs {
            if job.state == JobState::Due || placement::has_lost_cpus(job, seen.usable_cpus) {
                self.draw(seen, job, BY_LOT, plan);
            } else if draws_again && job.movable {
                self.draw(seen, job, DRAWN_AGAIN, plan);
            }
        }
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

impl Random {
    /// Whether all jobs are placed again in this turn; if so, the time until the next redraw starts.
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
        let cpus = match self.config.bind {
            Bind::Domain => there,
            Bind::Cpu => self.draw_cpus(job, &there),
        };
        if job.placed == Some(&cpus) && job.state == JobState::Running {
            return; // The drawn CPUs are those that it has.
        }
        let reason = Reason::new(code)
            .with("domain", seen.domains.label(idx))
            .with("n_possible", possible.len() as u64)
            .with("cpus", cpus_label(&cpus));
        let lost = job.placed.filter(|_| placement::has_lost_cpus(job, seen.usable_cpus));
        let every = self.config.every.filter(|_| lost.is_none());
        let reason = reason
            .with_some("lost", lost.map(ToString::to_string))
            .with_some("every", every.map(|every| every.to_string()));
        plan.request(job.job.id, Action::Place(cpus), reason);
    }

    /// A CPU for each thread: of the domain, then of all others that the job may use.
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
