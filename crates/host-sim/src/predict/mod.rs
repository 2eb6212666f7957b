//! Prediction of the slowdown of programs that run together.
//!
//! ```text
//!   program tables, profiles ── each program alone ─┐
//!   site.rs ── caches and memories ── cast.rs ──────┼─► together ─► slowdowns
//!                                                   └─► split.rs ─► placement with the smallest mean slowdown
//! ```
//!
//! Each program runs on its own core. Occupancies and speeds are iterated until they are consistent.

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

/// A last-level cache with the memory behind it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Domain {
    /// Size of the cache in bytes.
    pub cache: f64,
    /// The memory controller.
    pub channel: Channel,
}

impl Domain {
    /// Nanoseconds per 1000 instructions of a program that has the domain to itself.
    pub fn alone_ns(&self, its: &Behaviour) -> f64 {
        alone_ns(its, self.cache, &self.channel)
    }
}

fn alone_ns(its: &Behaviour, bytes: f64, channel: &Channel) -> f64 {
    channel.load(&[its.demand(bytes)]).each_ns.first().copied().unwrap_or(1.0)
}

/// The prediction for one program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted {
    /// Run time relative to alone on the same domain.
    pub slowdown: f64,
    /// Nanoseconds of 1000 instructions.
    pub takes_ns: f64,
    /// Cache occupancy in bytes.
    pub cache: f64,
    /// Bandwidth in bytes per nanosecond.
    pub bytes_per_ns: f64,
}

/// Most iterations between occupancies and speeds. Half of each change is applied, to avoid oscillation.
const N_ROUNDS: usize = 48;
/// Relative change of an occupancy below which it counts as converged.
const STILL: f64 = 1e-7;

/// The predictions for programs on one domain, each alone on its core, in the same order.
pub fn side_by_side(programs: &[&Behaviour], domain: &Domain) -> Vec<Predicted> {
    together(&[(programs, domain.cache)], &domain.channel).into_iter().flatten().collect()
}

/// The predictions for groups of programs with one cache per group and a common channel.
pub fn together(groups: &[(&[&Behaviour], f64)], channel: &Channel) -> Vec<Vec<Predicted>> {
    let mut caches: Vec<Cache<'_>> =
        groups.iter().map(|(programs, bytes)| Cache::new(programs, *bytes, channel)).collect();
    let mut demands: Vec<Demand> = Vec::new();
    for _ in 0..N_ROUNDS {
        // Every cache is updated, even if a previous one has not converged.
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
    caches.iter().map(Cache::predictions).collect()
}

/// A cache with its programs.
struct Cache<'a> {
    programs: &'a [&'a Behaviour],
    bytes: f64,
    tables: Vec<FillTable>,
    /// Nanoseconds per 1000 instructions alone and together, and occupancies in bytes, in the order of the programs.
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

    /// Updates the occupancies for the present speeds; returns whether they have converged.
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

    fn predictions(&self) -> Vec<Predicted> {
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
