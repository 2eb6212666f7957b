//! Estimated gain and cost of a migration (`gain=FACTOR`).
//!
//! ```text
//!   gain = time left × share of the domain's load × slope
//!   cost = pages that follow × time per page + time to refill the caches
//!   migrate only if  gain > FACTOR × cost
//! ```
//!
//! The time left of a job with a declared duration is the rest of that. Any other job is expected to run for as
//! long as it has run, which holds for the lifetimes of UNIX processes (M. Harchol-Balter, A. B. Downey,
//! Exploiting Process Lifetime Distributions for Dynamic Load Balancing, ACM TOCS 15(3), 1997).
//!
//! The slope is the share of its time that a job loses if it causes all the load of an overloaded domain. It is
//! guessed, and so is the time per page until page migrations have been measured.

use base::{Bytes, Nanos};
use program::Ending;
use sched::{JobView, Snapshot};
use topology::Level;

use super::declaration::Memory;
use super::{Dfs, page_following};

/// Bytes of a base page.
const PAGE_BYTES: u64 = 4096;
/// Minimum number of measured pages.
const MEASURED_PAGES_MIN: u128 = 256;

/// Estimated gain and cost of a migration, in time of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GainAndCost {
    pub gain: Nanos,
    pub cost: Nanos,
}

/// Measured cost of page migrations.
#[derive(Debug, Default)]
pub(super) struct PageTime {
    pages: u128,
    nanos: u128,
}

impl PageTime {
    /// Time per page, once enough pages have been measured.
    fn measured(&self) -> Option<Nanos> {
        let mean =
            self.nanos.checked_div(self.pages).filter(|_| MEASURED_PAGES_MIN <= self.pages)?;
        u64::try_from(mean).ok().map(Nanos)
    }
}

impl Dfs {
    /// Adds the page migrations that ended since the last poll.
    pub(super) fn measure_page_time(&mut self, seen: &Snapshot<'_>) {
        for job in seen.jobs {
            let Some((at, moved)) = job.last_page_move else { continue };
            if self.measured_move_at.of(job.job.id).replace(at) != Some(at) {
                self.page_time.pages += u128::from(moved.moved.0 / PAGE_BYTES);
                self.page_time.nanos += u128::from(moved.in_kernel.0);
            }
        }
    }

    /// Gain and cost of migrating a job away from a domain with this load.
    pub(super) fn estimate(
        &self,
        seen: &Snapshot<'_>,
        job: &JobView<'_>,
        load: u64,
        to: usize,
    ) -> GainAndCost {
        let left = u128::from(time_left(seen, job).0);
        let share = u128::from(job.load.min(load));
        let slope = u128::from(self.config.slope_permille);
        let gain = (left * share * slope / 1000).checked_div(u128::from(load)).unwrap_or(0);
        let pages = u128::from(self.following_bytes(seen, job, to).0 / PAGE_BYTES);
        let page_time = self.page_time.measured().unwrap_or(self.config.page_move);
        let cost = pages * u128::from(page_time.0) + u128::from(self.config.refill.0);
        let nanos = |time: u128| Nanos(u64::try_from(time).unwrap_or(u64::MAX));
        GainAndCost { gain: nanos(gain), cost: nanos(cost) }
    }

    /// Whether a migration gains enough; always with `gain=off`.
    pub(super) fn is_worth(&self, estimate: GainAndCost) -> bool {
        let Some(factor) = self.config.gain_permille else { return true };
        u128::from(estimate.cost.0) * u128::from(factor) < u128::from(estimate.gain.0) * 1000
    }

    /// Own pages that follow a job to a domain.
    fn following_bytes(&self, seen: &Snapshot<'_>, job: &JobView<'_>, to: usize) -> Bytes {
        let follows = self.config.memory == Memory::Follow && seen.domains.level() == Level::Node;
        let node = base::NodeId(seen.domains.get(to).number);
        let memory = job.memory.filter(|_| follows);
        memory.map_or(Bytes::ZERO, |memory| memory.private_bytes_to_move(None, node))
    }

    /// Share of a job's pages that would be remote on a domain, in permille; 0 if pages follow, if domains are not
    /// nodes, or if it is unknown.
    pub(super) fn remote_permille(
        &self,
        seen: &Snapshot<'_>,
        job: &JobView<'_>,
        idx: usize,
    ) -> u64 {
        let stays = self.config.memory == Memory::Stay && seen.domains.level() == Level::Node;
        let node = base::NodeId(seen.domains.get(idx).number);
        let memory = job.memory.filter(|_| stays);
        memory.map_or(0, |memory| 1000 - page_following::permille_on(memory, node).min(1000))
    }
}

fn time_left(seen: &Snapshot<'_>, job: &JobView<'_>) -> Nanos {
    let started = job.started.unwrap_or(seen.turn.at);
    let so_far = seen.turn.at.saturating_sub(started);
    match job.job.ending {
        Ending::After(time) => time.saturating_sub(so_far),
        Ending::Exit | Ending::RestartUntilOthersDone => so_far,
    }
}
