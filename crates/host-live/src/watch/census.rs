//! Everybody that is known, and when each is looked at next.
//!
//! ```text
//!   ran        looked at again after one interval
//!   slept      after two, four, eight … intervals, but at least every 30 seconds
//!   ran a bit  the rest is halved
//! ```
//!
//! So thousands of sleepers cost a thirtieth of their number in looks a second, and one that wakes is
//! noticed within 30 seconds. Kernel threads stay what they are and are looked at every ten minutes. A
//! number that was given to somebody else is noticed by the birth.
//! Nothing here reads a file: what a look found is handed in.

use std::collections::{BTreeMap, BTreeSet};

use base::{JobId, Nanos};
use linux::glance::{Comm, Glance};

use super::respect::LeftAlone;

/// The longest that anybody is left without a look who can become something else …
pub(crate) const REST_MAX: Nanos = Nanos::from_secs(30);
/// … and what is part of the kernel, which only ends.
const KERNEL_REST: Nanos = Nanos::from_secs(600);
/// A process is busy that uses more than so many thousandths of a CPU between two looks …
pub(crate) const BUSY_PERMILLE: u64 = 10;
/// … and, if it has to use any, more than this: the kernel counts ticks, and one may be chance.
const BUSY_TICKS: u64 = 2;

/// What has come of a process so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    /// Nobody chose it.
    NotChosen,
    /// It was chosen, and there is a reason to leave it alone.
    LeftAlone(LeftAlone),
    /// It is looked after as soon as it is busy.
    Open,
    /// It is a job, and looked at by other means.
    Job(JobId),
}

/// A process that is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub born_ticks: u64,
    pub comm: Comm,
    pub stand: Stand,
    /// It was chosen by number, or comes from one that was.
    pub is_named: bool,
    cpu_ticks: u64,
    looked_at: Nanos,
    look_at: Nanos,
    n_rests: u8,
}

/// What a look at a process came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing that matters.
    Quiet,
    /// It uses the CPU: so many thousandths of one.
    Busy(u64),
    /// Another program, or another process with its number.
    Other,
}

/// Everybody that is known.
#[derive(Debug)]
pub(crate) struct Census {
    known: BTreeMap<u32, Known>,
    due: BTreeSet<(Nanos, u32)>,
    /// Those that were chosen by number, or come from one that was.
    n_named: usize,
    /// Jobs are looked at as seldom as this.
    job_rest: Nanos,
    busy_permille: u64,
    interval: Nanos,
    tick: Nanos,
}

impl Census {
    /// Knows nobody yet. Processes are looked at once an interval at the most; CPU time comes in
    /// clock ticks of this length.
    pub(crate) fn new(interval: Nanos, tick: Nanos) -> Self {
        let (known, due) = (BTreeMap::new(), BTreeSet::new());
        let (job_rest, busy_permille) = (REST_MAX, BUSY_PERMILLE);
        Census { known, due, n_named: 0, job_rest, busy_permille, interval, tick }
    }

    /// Who uses so many thousandths of a CPU is busy; with 0 everybody is.
    pub(crate) fn with_busy(mut self, permille: u64) -> Self {
        self.busy_permille = permille;
        self
    }

    /// A job that sleeps for so long has to be noticed.
    pub(crate) fn with_job_rest(mut self, rest: Nanos) -> Self {
        self.job_rest = rest.clamp(self.interval.min(REST_MAX), REST_MAX);
        self
    }

    /// How long somebody with this stand is left without a look at the most.
    fn rest_max(&self, stand: Stand) -> Nanos {
        match stand {
            Stand::Job(_) => self.job_rest,
            Stand::LeftAlone(LeftAlone::KernelThread) => KERNEL_REST,
            _ => REST_MAX,
        }
    }

    pub(crate) fn get(&self, pid: u32) -> Option<&Known> {
        self.known.get(&pid)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, &Known)> {
        self.known.iter().map(|(&pid, known)| (pid, known))
    }

    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// How many were chosen by number, or come from one that was.
    pub(crate) fn n_named(&self) -> usize {
        self.n_named
    }

    /// Somebody new, or somebody who became another.
    pub(crate) fn meet(
        &mut self,
        pid: u32,
        glance: &Glance,
        (stand, is_named): (Stand, bool),
        now: Nanos,
    ) {
        self.forget(pid);
        let look_at = match stand {
            Stand::Open => now + self.interval,
            // They are looked at for their end and their exec alone, spread over the time.
            _ => {
                let rest = self.rest_max(stand).0;
                now + Nanos(rest / 2 + rest / 128 * u64::from(pid % 64))
            }
        };
        let known = Known {
            born_ticks: glance.born_ticks,
            comm: glance.comm,
            stand,
            is_named,
            cpu_ticks: glance.cpu_ticks,
            looked_at: now,
            look_at,
            n_rests: 0,
        };
        self.known.insert(pid, known);
        self.due.insert((look_at, pid));
        self.n_named += usize::from(is_named);
    }

    pub(crate) fn forget(&mut self, pid: u32) -> Option<Known> {
        let known = self.known.remove(&pid)?;
        self.due.remove(&(known.look_at, pid));
        self.n_named -= usize::from(known.is_named);
        Some(known)
    }

    /// Somebody who is to be looked at by now, once each.
    pub(crate) fn take_due(&mut self, now: Nanos) -> Option<u32> {
        let &(at, pid) = self.due.first().filter(|(at, _)| *at <= now)?;
        self.due.remove(&(at, pid));
        Some(pid)
    }

    /// What came of a look at somebody who was due.
    pub(crate) fn look(&mut self, pid: u32, glance: &Glance, now: Nanos) -> Found {
        let (tick, interval) = (self.tick, self.interval);
        let rest_max = self.get(pid).map_or(REST_MAX, |known| self.rest_max(known.stand));
        let busy_ticks = if self.busy_permille == 0 { 0 } else { BUSY_TICKS };
        let Some(known) = self.known.get_mut(&pid) else { return Found::Other };
        if known.born_ticks != glance.born_ticks || known.comm != glance.comm {
            return Found::Other;
        }
        let used = glance.cpu_ticks.saturating_sub(known.cpu_ticks);
        let elapsed = now.saturating_sub(known.looked_at).0.max(1);
        let permille = used.saturating_mul(tick.0).saturating_mul(1000) / elapsed;
        (known.cpu_ticks, known.looked_at) = (glance.cpu_ticks, now);
        let is_busy = self.busy_permille <= permille && busy_ticks <= used;
        known.n_rests = match (is_busy, used) {
            (true, _) => 0,
            (false, 0) => known.n_rests.saturating_add(1).min(32),
            (false, _) => known.n_rests / 2,
        };
        let rest = match known.stand {
            Stand::Open => Nanos(interval.0.saturating_mul(1 << known.n_rests)).min(REST_MAX),
            _ => rest_max,
        };
        self.due.remove(&(known.look_at, pid));
        known.look_at = now + rest.max(interval);
        self.due.insert((known.look_at, pid));
        if is_busy { Found::Busy(permille) } else { Found::Quiet }
    }

    /// Somebody could not be looked at, or not well enough: after a rest that grows.
    pub(crate) fn could_not_look(&mut self, pid: u32, now: Nanos) {
        let interval = self.interval;
        let Some(known) = self.known.get_mut(&pid) else { return };
        self.due.remove(&(known.look_at, pid));
        known.n_rests = known.n_rests.saturating_add(1).min(32);
        let rest = Nanos(interval.0.saturating_mul(1 << known.n_rests)).min(REST_MAX);
        known.look_at = now + rest.max(interval);
        self.due.insert((known.look_at, pid));
    }

    /// What has come of somebody.
    pub(crate) fn stand(&mut self, pid: u32, stand: Stand, now: Nanos) {
        let rest = if stand == Stand::Open { self.interval } else { self.rest_max(stand) };
        let Some(known) = self.known.get_mut(&pid) else { return };
        self.due.remove(&(known.look_at, pid));
        known.stand = stand;
        known.look_at = now + rest;
        self.due.insert((known.look_at, pid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glance(born_ticks: u64, cpu_ticks: u64) -> Glance {
        let comm = *b"a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
        let (parent, n_threads, class) = (1, 1, 0);
        let (state, is_kernel_thread) = (b'S', false);
        Glance { comm, state, parent, is_kernel_thread, cpu_ticks, born_ticks, n_threads, class }
    }

    fn census() -> Census {
        let mut census = Census::new(Nanos::from_secs(1), Nanos::from_millis(10));
        census.meet(7, &glance(1, 100), (Stand::Open, false), Nanos::ZERO);
        census
    }

    /// Looks whenever it is due, with this CPU time each; tells when, in seconds.
    fn looks(census: &mut Census, ticks: &[u64]) -> Vec<u64> {
        let mut at = Vec::new();
        for &cpu_ticks in ticks {
            let now = census.due.first().expect("somebody").0;
            assert_eq!(census.take_due(now), Some(7));
            census.look(7, &glance(1, cpu_ticks), now);
            at.push(now.0 / 1_000_000_000);
        }
        at
    }

    #[test]
    fn a_sleeper_is_looked_at_ever_more_rarely_but_every_thirty_seconds() {
        let at = looks(&mut census(), &[100; 9]);
        assert_eq!(at, [1, 3, 7, 15, 31, 61, 91, 121, 151]);
    }

    #[test]
    fn who_runs_a_bit_is_looked_at_sooner_and_who_is_busy_at_once() {
        let at = looks(&mut census(), &[100, 100, 100, 100, 101, 101, 200, 300]);
        assert_eq!(at, [1, 3, 7, 15, 31, 35, 43, 44]);
    }

    #[test]
    fn busy_is_a_hundredth_of_a_cpu_and_more_than_a_tick() {
        let found =
            |cpu_ticks, secs| census().look(7, &glance(1, cpu_ticks), Nanos::from_secs(secs));
        assert_eq!(found(101, 1), Found::Quiet, "one tick may be chance");
        assert_eq!(found(102, 1), Found::Busy(20));
        assert_eq!(found(105, 10), Found::Quiet);
        assert_eq!(found(200, 1), Found::Busy(1000));
    }

    #[test]
    fn a_kernel_thread_is_looked_at_every_ten_minutes() {
        let mut census = census();
        let stand = Stand::LeftAlone(LeftAlone::KernelThread);
        census.meet(7, &glance(1, 100), (stand, false), Nanos::ZERO);
        assert_eq!(looks(&mut census, &[100, 200, 300]), [332, 932, 1532]);
    }

    #[test]
    fn who_was_named_is_counted_as_long_as_it_is_known() {
        let mut census = census();
        assert_eq!(census.n_named(), 0);
        for is_named in [true, true, false, true] {
            census.meet(7, &glance(1, 100), (Stand::Open, is_named), Nanos::ZERO);
            assert_eq!(census.n_named(), usize::from(is_named));
        }
        census.meet(8, &glance(2, 100), (Stand::NotChosen, true), Nanos::ZERO);
        census.forget(7);
        census.forget(7);
        assert_eq!(census.n_named(), 1);
    }

    #[test]
    fn a_number_that_was_given_again_is_somebody_else() {
        let mut census = census();
        assert_eq!(census.look(7, &glance(2, 100), Nanos::from_secs(1)), Found::Other);
        assert_eq!(census.look(8, &glance(2, 100), Nanos::from_secs(1)), Found::Other);
        census.meet(7, &glance(2, 500), (Stand::Open, false), Nanos::from_secs(1));
        assert_eq!(census.len(), 1);
        let found = census.look(7, &glance(2, 500), Nanos::from_secs(2));
        assert_eq!(found, Found::Quiet, "what the other one used is not its");
    }
}
