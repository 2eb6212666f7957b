//! Whether a move gains more than it costs (`gain=FACTOR`; spec 1.10).
//!
//! ```text
//!   gain = time left × share of the domain's load × slope
//!   cost = pages that go with it × time of a page + time to fill the caches again
//!   move only if  gain > FACTOR × cost                                  1.5 in the spec
//! ```
//!
//! How long a job will go on nobody knows. One that ends after a stated time has the rest of it; any
//! other is expected to go on as long as it has run already, which is what the lifetimes of UNIX
//! processes were found to do (Harchol-Balter and Downey, ACM TOCS 15(3), 1997).
//!
//! The slope is the share of its time that a program loses when it makes all the load of an overloaded
//! domain. It is guessed, as is the time of a page until moves have shown it.

use base::{Bytes, Nanos};
use program::Ending;
use sched::{JobView, Snapshot};
use topology::Level;

use super::config::Memory;
use super::{Dfs, follow};

/// Bytes of an ordinary page.
const PAGE_BYTES: u64 = 4096;
/// Moves of fewer pages in all say little of what a page costs.
const PAGES_TO_TELL: u128 = 256;

/// What a move is expected to bring and to cost, in nanoseconds of the job's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Balance {
    pub gain: Nanos,
    pub cost: Nanos,
}

/// What moves of memory have cost so far.
#[derive(Debug, Default)]
pub(super) struct PageTime {
    pages: u128,
    nanos: u128,
}

impl PageTime {
    /// The time of one page, once enough of them were moved.
    fn shown(&self) -> Option<Nanos> {
        let mean = self.nanos.checked_div(self.pages).filter(|_| PAGES_TO_TELL <= self.pages)?;
        u64::try_from(mean).ok().map(Nanos)
    }
}

impl Dfs {
    /// Takes in what moves of memory have cost that ended since.
    pub(super) fn learn_page_time(&mut self, seen: &Snapshot<'_>) {
        for job in seen.jobs {
            let Some((at, moved)) = job.last_page_move else { continue };
            if self.told_at.of(job.job.id).replace(at) != Some(at) {
                self.page_time.pages += u128::from(moved.moved.0 / PAGE_BYTES);
                self.page_time.nanos += u128::from(moved.in_kernel.0);
            }
        }
    }

    /// What moving a job away from a domain with so much load is expected to bring and to cost.
    pub(super) fn balance(
        &self,
        seen: &Snapshot<'_>,
        job: &JobView<'_>,
        load: u64,
        to: usize,
    ) -> Balance {
        let left = u128::from(time_left(seen, job).0);
        let share = u128::from(job.load.min(load));
        let slope = u128::from(self.config.slope_permille);
        let gain = (left * share * slope / 1000).checked_div(u128::from(load)).unwrap_or(0);
        let pages = u128::from(self.bytes_along(seen, job, to).0 / PAGE_BYTES);
        let page_time = self.page_time.shown().unwrap_or(self.config.page_move);
        let cost = pages * u128::from(page_time.0) + u128::from(self.config.refill.0);
        let nanos = |time: u128| Nanos(u64::try_from(time).unwrap_or(u64::MAX));
        Balance { gain: nanos(gain), cost: nanos(cost) }
    }

    /// Whether a job is worth moving; always, when nobody asks.
    pub(super) fn is_worth(&self, balance: Balance) -> bool {
        let Some(factor) = self.config.gain_permille else { return true };
        u128::from(balance.cost.0) * u128::from(factor) < u128::from(balance.gain.0) * 1000
    }

    /// What goes along with a job to a domain.
    fn bytes_along(&self, seen: &Snapshot<'_>, job: &JobView<'_>, to: usize) -> Bytes {
        let goes = self.config.memory == Memory::Follow && seen.domains.level() == Level::Node;
        let node = base::NodeId(seen.domains.get(to).number);
        let memory = job.memory.filter(|_| goes);
        memory.map_or(Bytes::ZERO, |memory| memory.own_to_move(None, node))
    }

    /// What of a job's memory would be remote on a domain, in thousandths; nothing where memory
    /// follows, where places are no nodes, and as long as it is not known.
    pub(super) fn remote_permille(
        &self,
        seen: &Snapshot<'_>,
        job: &JobView<'_>,
        idx: usize,
    ) -> u64 {
        let stays = self.config.memory == Memory::Stay && seen.domains.level() == Level::Node;
        let node = base::NodeId(seen.domains.get(idx).number);
        let memory = job.memory.filter(|_| stays);
        memory.map_or(0, |memory| 1000 - follow::permille_on(memory, node).min(1000))
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
