//! Whether something has to move: once an interval.
//!
//! ```text
//!   S = sum of loads, nothing to do if it is 0
//!   H = domain with the largest load, L = with the smallest          ties: number
//!   too uneven?   load[H] > factor × S/n    or    load[H] >= 2 × load[L]
//!   v = job on H with the highest class                              ties: started last, number
//!   v goes to the CPU of L with the fewest programs
//! ```
//!
//! Everything in whole numbers. Only jobs that are ours to move and may run on L are looked at, and
//! (with `reading=ours`) none that was moved lately, none that is alone on H, and nothing at all
//! when there is too little load to matter.

use std::cmp::Reverse;

use sched::{Action, JobState, JobView, Plan, Reason, ReasonCode, Snapshot};

use super::Dfs;
use super::classes::misses_of;
use super::config::{Factor, Loads, MinLoad, OnlyJob, Placement, Trigger};
use super::gain::Balance;
use crate::common::{MILLION, cpus_label, is_stretched, permille_text};

/// The two ends of an imbalance that is too much.
#[derive(Clone, Copy)]
struct Uneven {
    most: usize,
    least: usize,
    total: u128,
}

/// A job that goes, and where to.
struct Move<'s> {
    victim: &'s JobView<'s>,
    to: usize,
    why: Chosen,
}

/// What told who goes.
#[derive(Clone, Copy)]
enum Chosen {
    Class,
    /// So many misses in the last interval.
    Misses(u64),
    /// So much less slow-down of all, in thousandths.
    Relief(u64),
}

/// How many times the smallest load the largest must be with `trigger=ratio` [published].
const RATIO: u64 = 2;

impl Dfs {
    /// Looks at the loads of the interval that went by and moves what has to move.
    pub(super) fn poll(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        self.n_polls += seen.n_intervals.max(1);
        if !seen.loads.readable {
            self.could_not_read(plan);
            return;
        }
        self.n_failures = 0;
        self.expected.reset(seen.domains.len());
        self.shown.learn(seen, &self.classes);
        if self.memory_is_coming(seen) {
            return;
        }
        let mut loads = seen.loads.loads.clone();
        for _ in 0..self.config.migrations_per_poll {
            let Some(uneven) = self.uneven(&loads) else { return };
            let Some(wish) = self.choose_move(seen, uneven, &loads, plan) else { return };
            self.move_away(seen, &wish, uneven, &loads, plan);
            // For a second move in the same poll the first counts as done.
            let carried = wish.victim.load.min(loads[uneven.most]);
            loads[uneven.most] -= carried;
            loads[wish.to] = loads[wish.to].saturating_add(carried);
        }
    }

    fn could_not_read(&mut self, plan: &mut Plan) {
        self.n_failures += 1;
        if self.config.failures <= self.n_failures {
            let reason = Reason::new(ReasonCode::CountersUnreadable);
            plan.abort = Some(reason.with("n_failures", self.n_failures));
        }
    }

    fn uneven(&self, loads: &[u64]) -> Option<Uneven> {
        let total: u128 = loads.iter().copied().map(u128::from).sum();
        if total == 0 || total < self.min_load() {
            return None;
        }
        let most = (0..loads.len()).rev().max_by_key(|&idx| loads[idx])?;
        let least = (0..loads.len()).min_by_key(|&idx| loads[idx])?;
        let (highest, n) = (u128::from(loads[most]), loads.len() as u128);
        let too_much = match self.config.trigger {
            Trigger::Ratio => u128::from(RATIO) * u128::from(loads[least]) <= highest,
            Trigger::MeanFactor => {
                let (num, den) = self.factor(loads.len() as u64);
                total * u128::from(num) < highest * n * u128::from(den)
            }
        };
        (too_much && most != least).then_some(Uneven { most, least, total })
    }

    fn min_load(&self) -> u128 {
        match self.config.min_load {
            MinLoad::Ops(ops) => u128::from(ops),
            MinLoad::OfPeak(millionths) => {
                u128::from(self.shown.peak()) * u128::from(millionths) / u128::from(MILLION)
            }
        }
    }

    pub(super) fn factor(&self, n_domains: u64) -> (u64, u64) {
        match self.config.factor {
            Factor::Auto => (2 * n_domains, n_domains + 1),
            Factor::Fixed { num, den } => (num, den),
        }
    }

    /// Who goes from the busiest domain, and where to.
    fn choose_move<'s>(
        &self,
        seen: &'s Snapshot<'_>,
        uneven: Uneven,
        loads: &[u64],
        plan: &Plan,
    ) -> Option<Move<'s>> {
        let alone = self.table.in_domain(uneven.most).n_movable < 2;
        if alone && self.config.only_job == OnlyJob::Stay {
            return None;
        }
        match self.config.placement {
            Placement::Load => self.hungriest(seen, uneven, loads, plan),
            Placement::Sens => self.most_relieving(seen, uneven, loads, plan),
        }
    }

    /// The jobs on the busiest domain that may be moved from it now.
    fn free_on<'s>(
        &self,
        seen: &'s Snapshot<'_>,
        most: usize,
        plan: &Plan,
    ) -> impl Iterator<Item = &'s JobView<'s>> {
        seen.jobs.iter().filter(move |job| {
            let ours = job.state == JobState::Running && job.movable;
            let moved_now = || plan.requests.iter().any(|ask| ask.target == job.job.id.into());
            ours && job.domain == Some(most)
                && !is_stretched(seen, job)
                && !moved_now()
                && !self.rests(job.job.id)
        })
    }

    /// The one with the highest class, or with the most misses if those are to tell, among those that
    /// may go to the domain with the least load.
    fn hungriest<'s>(
        &self,
        seen: &'s Snapshot<'_>,
        uneven: Uneven,
        loads: &[u64],
        plan: &Plan,
    ) -> Option<Move<'s>> {
        let target = &seen.domains.get(uneven.least).cpus;
        let by_misses = self.config.loads == Loads::Both;
        let misses = |job: &JobView<'_>| misses_of(seen, job).filter(|_| by_misses);
        let free = self.free_on(seen, uneven.most, plan);
        let could = |job: &&JobView<'_>| {
            let balance = || self.balance(seen, job, loads[uneven.most], uneven.least);
            job.allowed.intersects(target) && self.is_worth(balance())
        };
        let victim = free.filter(could).max_by_key(|job| {
            (misses(job), self.classes.of(job), job.started, Reverse(job.job.id))
        })?;
        let why = misses(victim).map_or(Chosen::Class, Chosen::Misses);
        Some(Move { victim, to: uneven.least, why })
    }

    /// The pair of a job and a domain that lowers the predicted slow-downs of all most, if any does.
    /// Ties: the higher class, started last, the lower number; then the smaller load.
    fn most_relieving<'s>(
        &self,
        seen: &'s Snapshot<'_>,
        uneven: Uneven,
        loads: &[u64],
        plan: &Plan,
    ) -> Option<Move<'s>> {
        let pairs = self.free_on(seen, uneven.most, plan).flat_map(|job| {
            let others = seen.domains.iter().filter(move |(idx, domain)| {
                *idx != uneven.most && job.allowed.intersects(&domain.cpus)
            });
            others.map(move |(idx, _)| (job, idx))
        });
        let with_relief = pairs.filter_map(|(job, idx)| {
            let staying = self.slowdown(seen, job, uneven.most);
            let relief = staying.checked_sub(self.slowdown(seen, job, idx))?;
            let balance = || self.balance(seen, job, loads[uneven.most], idx);
            (relief != 0 && self.is_worth(balance())).then_some((relief, job, idx))
        });
        let (relief, victim, to) = with_relief.max_by_key(|&(relief, job, idx)| {
            let order = (self.classes.of(job), job.started, Reverse(job.job.id));
            (relief, order, Reverse(loads.get(idx).copied()), Reverse(idx))
        })?;
        Some(Move { victim, to, why: Chosen::Relief(relief) })
    }

    fn move_away(
        &mut self,
        seen: &Snapshot<'_>,
        wish: &Move<'_>,
        uneven: Uneven,
        loads: &[u64],
        plan: &mut Plan,
    ) {
        let victim = wish.victim;
        let reason = self.tell_move(seen, wish, uneven, loads);
        self.leave(victim);
        let cpus = self.take_cpus(seen, victim, wish.to);
        *self.moved_at.of(victim.job.id) = Some(self.n_polls);
        self.follow(seen, victim, wish.to);
        let reason = reason.with("cpus", cpus_label(&cpus));
        plan.request(victim.job.id, Action::Place(cpus), reason);
    }

    fn tell_move(
        &self,
        seen: &Snapshot<'_>,
        wish: &Move<'_>,
        Uneven { most, least, total }: Uneven,
        loads: &[u64],
    ) -> Reason {
        let n_domains = loads.len() as u64;
        let mean = u64::try_from(total / u128::from(n_domains)).unwrap_or(u64::MAX);
        let (code, limit) = match self.config.trigger {
            Trigger::Ratio => (ReasonCode::LoadDouble, RATIO.to_string()),
            Trigger::MeanFactor => (ReasonCode::LoadUneven, rational(self.factor(n_domains))),
        };
        let chosen = match wish.why {
            Chosen::Class => None,
            Chosen::Misses(n) => Some(format!("had the most cache misses ({n})")),
            Chosen::Relief(relief) => Some(format!(
                "lowers the predicted slow-downs of all most by going to {} (by {} of a program's \
                 time in sum)",
                seen.domains.label(wish.to),
                permille_text(relief)
            )),
        };
        let how = match self.config.trigger {
            Trigger::Ratio => {
                let (label, load) = (seen.domains.label(least), loads[least]);
                format!("at least {limit} times what {label} carried ({load})")
            }
            Trigger::MeanFactor => format!("more than {limit} times the mean ({mean})"),
        };
        let reason = Reason::new(chosen.as_ref().map_or(code, |_| ReasonCode::LoadRelieved))
            .with("from", seen.domains.label(most))
            .with("load_from", loads[most])
            .with("to", seen.domains.label(wish.to));
        let class = u64::from(self.classes.of(wish.victim));
        let reason = match chosen {
            Some(chosen) => reason.with("how", how).with("chosen", chosen).with("class", class),
            None => reason
                .with("load_to", loads[least])
                .with("factor", limit)
                .with("mean", mean)
                .with("class", class)
                .with("basis", self.basis(wish.victim)),
        };
        let reason = reason.with("tier", seen.loads.tier.to_string());
        if self.config.gain_permille.is_none() {
            return reason;
        }
        let Balance { gain, cost } = self.balance(seen, wish.victim, loads[most], wish.to);
        reason.with("gain", gain.to_string()).with("cost", cost.to_string())
    }

    /// What a job's class stands on.
    fn basis(&self, job: &JobView<'_>) -> String {
        match self.classes.has_shown(job) {
            true => "cache misses counted".to_owned(),
            false => self.config.class_basis.name().to_owned(),
        }
    }
}

/// A rational for people: `4/3`, `2`, `1.5`.
fn rational((num, den): (u64, u64)) -> String {
    let common = greatest_divisor(num, den);
    match (num / common, den / common) {
        (whole, 1) => whole.to_string(),
        (num, den) => format!("{num}/{den}"),
    }
}

fn greatest_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a.max(1) } else { greatest_divisor(b, a % b) }
}
