//! Random placement: a baseline that uses no information about the jobs.
//!
//! ```text
//!   a job starts         on a random domain of those that it may use, and on random CPUs of that domain
//!   every `every`        (off by default) all jobs are placed at random again
//! ```
//!
//! A single run may have the best or the worst placement, so other policies are compared with the mean over many seeds.
//! The same seed gives the same placements. A job gets a CPU for each of its threads, from the drawn domain first, then
//! from all other domains.

use base::{CpuId, CpuSet, Nanos, Rng};
use sched::{Action, Cause, JobState, JobView, Plan, Reason, ReasonCode, Snapshot, reasons};

use crate::declaration::{DOMAINS, INTERVAL, INTERVAL_TIMES, Values, params};
use crate::placement::{self, Bind, cpus_label};
use crate::{PolicyInfo, Rules, notes};

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "random",
    summary: "Starts each job on random CPUs; migrates jobs only if a redraw is requested.",
    source: "common practice, a baseline for the other policies",
    signals: &[],
    params: &[&[DOMAINS], PARAMS, &[INTERVAL]],
    reasons: &[notes::REASONS, REASONS],
    work_conserving: false,
    needs_core_kinds: false,
    rules: Some(|params, seed| {
        let (config, rng) = (Config::new(params), Rng::new(seed));
        Box::new(Random { config, rng, drawn_at: Nanos::ZERO })
    }),
};

params! {
    struct Config from PARAMS {
        bind: Bind = "cpu", "a CPU for each thread of a job, or all CPUs of its domain";
        every: Option<Nanos> [Values::Or("never", &INTERVAL_TIMES)] = "never",
            "time after which all jobs are placed at random again, at the end of an interval";
    }
}

reasons! {
    /// A job starts, or its CPUs became unusable.
    BY_LOT = "by-lot":
        "{domain} was drawn at random from the {n_possible} domains that the job may use, with {cpus}[; some of its CPUs ({lost}) became unusable]";
    /// All jobs are placed again.
    DRAWN_AGAIN = "drawn-again":
        "jobs are placed at random every {every}: {domain} was drawn from the {n_possible} domains that the job may use, with {cpus}";
}

/// State of the policy.
#[derive(Debug)]
struct Random {
    config: Config,
    rng: Rng,
    /// Time of the last turn in which all jobs were placed at random.
    drawn_at: Nanos,
}

impl Rules for Random {
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        if snapshot.turn.number == 0 {
            plan.notes.extend(notes::nothing_to_place(snapshot));
        }
        plan.quiescent = self.config.every.is_none();
        if !placement::can_place(snapshot) {
            return;
        }
        let draws_again = self.start_redraw_if_due(snapshot);
        for job in snapshot.jobs {
            if job.state == JobState::Due || placement::has_lost_cpus(job, snapshot.usable_cpus) {
                self.draw(snapshot, job, BY_LOT, plan);
            } else if draws_again && job.movable {
                self.draw(snapshot, job, DRAWN_AGAIN, plan);
            }
        }
    }
}

impl Random {
    /// Returns whether all jobs are placed again in this turn. If so, starts the time until the next redraw.
    fn start_redraw_if_due(&mut self, snapshot: &Snapshot<'_>) -> bool {
        let Some(every) = self.config.every else { return false };
        let is_due = snapshot.turn.causes.contains(&Cause::Interval)
            && self.drawn_at.saturating_add(every) <= snapshot.turn.at;
        if is_due {
            self.drawn_at = snapshot.turn.at;
        }
        is_due
    }

    fn draw(
        &mut self,
        snapshot: &Snapshot<'_>,
        job: &JobView<'_>,
        code: ReasonCode,
        plan: &mut Plan,
    ) {
        let possible = snapshot.domains.iter().filter(|(_, d)| d.cpus.intersects(job.allowed));
        let possible: Vec<usize> = possible.map(|(idx, _)| idx).collect();
        if possible.is_empty() {
            return;
        }
        let idx = possible[self.rng.below(possible.len() as u64) as usize];
        let in_domain = snapshot.domains.get(idx).cpus.and(job.allowed);
        let cpus = match self.config.bind {
            Bind::Domain => in_domain,
            Bind::Cpu => self.draw_cpus(job, &in_domain),
        };
        if job.placed == Some(&cpus) && job.state == JobState::Running {
            return; // The job has these CPUs already.
        }
        let reason = Reason::new(code)
            .with("domain", snapshot.domains.label(idx))
            .with("n_possible", possible.len() as u64)
            .with("cpus", cpus_label(&cpus));
        let lost = job.placed.filter(|_| placement::has_lost_cpus(job, snapshot.usable_cpus));
        let every = self.config.every.filter(|_| lost.is_none());
        let reason = reason
            .with_some("lost", lost.map(ToString::to_string))
            .with_some("every", every.map(|every| every.to_string()));
        plan.request(job.job.id, Action::Place(cpus), reason);
    }

    /// Returns a CPU for each thread: CPUs of the domain first, then other CPUs that the job may use.
    fn draw_cpus(&mut self, job: &JobView<'_>, in_domain: &CpuSet) -> CpuSet {
        let mut drawn = CpuSet::new();
        for cpus in [in_domain.clone(), job.allowed.minus(in_domain)] {
            let mut cpus: Vec<CpuId> = cpus.iter().collect();
            while !cpus.is_empty() && drawn.len() < job.job.threads as usize {
                drawn.insert(cpus.swap_remove(self.rng.below(cpus.len() as u64) as usize));
            }
        }
        drawn
    }
}
