//! How much slower programs are side by side than alone.
//!
//! ```text
//!   programs.rs, profiles ── what each does alone ─┐
//!   site.rs ── caches and memories ── cast.rs ─────┼─► side by side ─► slow-downs
//!                                                  └─► split.rs ─► who goes where so that the mean is least
//! ```
//!
//! Each program runs on a core of its own. Caches are found from speeds and speeds from caches, in turn,
//! until they go together.

mod cast;
pub mod programs;
mod site;
mod split;
#[cfg(test)]
mod tests;

pub use cast::{Cast, CastError, Stage};
pub use site::{Site, SiteError, Sites, USUAL_GHZ, USUAL_LATENCY_NS, sites};
pub use split::{Guest, Split, SplitError, Way, best};

use crate::physics::{Behaviour, Channel, Demand, FillTable, shares_into};

/// A last-level cache and the memory behind it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Domain {
    /// Bytes of cache.
    pub cache: f64,
    /// The memory controller.
    pub channel: Channel,
}

impl Domain {
    /// Nanoseconds of 1000 instructions of a program that has it for itself.
    pub fn alone_ns(&self, its: &Behaviour) -> f64 {
        alone_ns(its, self.cache, &self.channel)
    }
}

fn alone_ns(its: &Behaviour, bytes: f64, channel: &Channel) -> f64 {
    channel.load(&[its.demand(bytes)]).each_ns.first().copied().unwrap_or(1.0)
}

/// What is predicted of one program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted {
    /// Times as long as alone on the same domain.
    pub slowdown: f64,
    /// Nanoseconds of 1000 instructions.
    pub takes_ns: f64,
    /// Bytes of the cache that it holds.
    pub cache: f64,
    /// Bytes per nanosecond that it moves.
    pub bytes_per_ns: f64,
}

/// So often who holds what and how fast everybody is are found from each other, at the most; half of each
/// change is taken, so that nothing swings.
const N_ROUNDS: usize = 48;
/// Bytes of a cache that are nothing, as a part of it.
const STILL: f64 = 1e-7;

/// All of them on one domain, each alone on a core; in their order.
pub fn side_by_side(programs: &[&Behaviour], domain: &Domain) -> Vec<Predicted> {
    together(&[(programs, domain.cache)], &domain.channel).into_iter().flatten().collect()
}

/// Groups of programs, each with a cache of its own, on one channel.
pub fn together(groups: &[(&[&Behaviour], f64)], channel: &Channel) -> Vec<Vec<Predicted>> {
    let mut caches: Vec<Cache<'_>> =
        groups.iter().map(|(programs, bytes)| Cache::new(programs, *bytes, channel)).collect();
    let mut demands: Vec<Demand> = Vec::new();
    for _ in 0..N_ROUNDS {
        // Every cache takes its turn, whether or not one before it still changes.
        let n_moving = caches.iter_mut().map(Cache::share).filter(|still| !still).count();
        demands.clear();
        demands.extend(caches.iter().flat_map(Cache::demands));
        let loaded = channel.load(&demands).each_ns;
        let mut each_ns = loaded.into_iter();
        caches.iter_mut().for_each(|cache| cache.run(&mut each_ns));
        if n_moving == 0 {
            break;
        }
    }
    caches.iter().map(Cache::told).collect()
}

/// A cache and who uses it.
struct Cache<'a> {
    programs: &'a [&'a Behaviour],
    bytes: f64,
    tables: Vec<FillTable>,
    /// Nanoseconds of 1000 instructions alone and together, and bytes held, in the programs' order.
    alone: Vec<f64>,
    each_ns: Vec<f64>,
    held: Vec<f64>,
}

impl<'a> Cache<'a> {
    fn new(programs: &'a [&'a Behaviour], bytes: f64, channel: &Channel) -> Self {
        let alone: Vec<f64> = programs.iter().map(|its| alone_ns(its, bytes, channel)).collect();
        let tables = programs.iter().map(|its| FillTable::new(its.character(), bytes)).collect();
        Cache { programs, bytes, tables, each_ns: alone.clone(), alone, held: Vec::new() }
    }

    /// Shares the cache by the speeds of now; whether hardly anything changed.
    fn share(&mut self) -> bool {
        let fast: Vec<_> = self.tables.iter().zip(self.each_ns.iter().copied()).collect();
        let mut fits = vec![0.0; fast.len()];
        shares_into(&fast, self.bytes, &mut fits);
        if self.held.is_empty() {
            self.held = fits;
            return self.held.len() < 2;
        }
        let mut still = true;
        for (held, fit) in self.held.iter_mut().zip(&fits) {
            still &= (*held - fit).abs() <= STILL * self.bytes;
            *held = (*held + fit) / 2.0;
        }
        still
    }

    fn demands(&self) -> impl Iterator<Item = Demand> {
        self.programs.iter().zip(&self.held).map(|(its, bytes)| its.demand(*bytes))
    }

    fn run(&mut self, each_ns: &mut impl Iterator<Item = f64>) {
        self.each_ns.iter_mut().zip(each_ns).for_each(|(ns, now)| *ns = now);
    }

    fn told(&self) -> Vec<Predicted> {
        let each = self.programs.iter().zip(&self.alone).zip(&self.each_ns).zip(&self.held);
        each.map(|(((its, alone), ns), held)| Predicted {
            slowdown: ns / alone,
            takes_ns: *ns,
            cache: *held,
            bytes_per_ns: its.demand(*held).bytes / ns,
        })
        .collect()
    }
}
