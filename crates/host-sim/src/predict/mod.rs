//! Prediction of the slowdown of programs that run together.
//!
//! ```text
//!   program tables, profiles ── each program alone ─┐
//!   llc_domains.rs ── caches and memories ──────────┼─► together ─► slowdowns
//!                                                   └─► placement.rs ─► placement with the smallest mean slowdown
//! ```
//!
//! Each program runs on a separate core. Occupancies and speeds are iterated until they are consistent.

mod channels;
mod llc_domains;
mod placement;
mod program_set;
pub mod program_table;
#[cfg(test)]
mod tests;

pub use channels::CacheLimits;
pub use llc_domains::{LlcDomain, LlcDomains, llc_domains};
pub use placement::{
    PlaceableProgram, PlacementError, ProgramPlacement, SearchMethod, best_placement,
};
pub use program_set::{PredictionSetup, ProgramSet, ProgramSetError};

use topology::Replacement;

use channels::{ProgramDemand, each_ns};

use crate::physics::{Channel, CpiModel, FillTable, occupancies_with};

/// A last-level cache and its memory controller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheDomain {
    /// Size of the cache in bytes.
    pub cache: f64,
    /// Replacement in the cache.
    pub replacement: Replacement,
    /// The memory controller.
    pub channel: Channel,
    /// Channels that limit the programs of the cache.
    pub limits: CacheLimits,
}

impl CacheDomain {
    /// Returns the nanoseconds per 1000 instructions of a program that runs alone in the domain.
    pub fn ns_alone(&self, model: &CpiModel) -> f64 {
        let demand = ProgramDemand::new(model, self.cache, &self.limits);
        each_ns(&[(self, vec![demand])])[0]
    }
}

/// Prediction for one program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Run time relative to the run time alone in the same domain.
    pub slowdown: f64,
    /// Nanoseconds per 1000 instructions.
    pub ns_per_1000: f64,
    /// Cache occupancy in bytes.
    pub cache: f64,
    /// Bandwidth in bytes per nanosecond.
    pub bytes_per_ns: f64,
}

/// Maximum number of iterations between occupancies and speeds. Each iteration applies half of the change, to avoid
/// oscillation.
const N_OCCUPANCY_ITERATIONS_MAX: usize = 48;
/// Change of an occupancy up to which it is final, as a share of the cache.
const OCCUPANCY_CHANGE_MAX: f64 = 1e-7;

/// Returns the predictions for programs in one domain, each on a separate core, in the order of the programs.
pub fn predict_together(programs: &[&CpiModel], domain: &CacheDomain) -> Vec<Prediction> {
    predict_groups(&[(programs, domain)]).into_iter().flatten().collect()
}

/// Returns the predictions for groups of programs. Each group has its own cache, and all groups share the memory of the
/// first.
pub fn predict_groups(groups: &[(&[&CpiModel], &CacheDomain)]) -> Vec<Vec<Prediction>> {
    let mut caches: Vec<SharedCache<'_>> =
        groups.iter().map(|(programs, domain)| SharedCache::new(programs, domain)).collect();
    for _ in 0..N_OCCUPANCY_ITERATIONS_MAX {
        // Every cache is updated, even after a cache that has not converged.
        let n_moving = caches
            .iter_mut()
            .map(SharedCache::share)
            .filter(|has_converged| !has_converged)
            .count();
        let demands: Vec<(&CacheDomain, Vec<ProgramDemand>)> =
            caches.iter().map(|cache| (cache.domain, cache.demands().collect())).collect();
        let mut each_ns = each_ns(&demands).into_iter();
        caches.iter_mut().for_each(|cache| cache.run(&mut each_ns));
        if n_moving == 0 {
            break;
        }
    }
    caches.iter().map(SharedCache::predictions).collect()
}

/// A cache and its programs.
struct SharedCache<'a> {
    programs: &'a [&'a CpiModel],
    domain: &'a CacheDomain,
    tables: Vec<FillTable>,
    /// Nanoseconds per 1000 instructions alone and together, and occupancies in bytes, in the order of the programs.
    alone: Vec<f64>,
    each_ns: Vec<f64>,
    occupancies: Vec<f64>,
}

impl<'a> SharedCache<'a> {
    fn new(programs: &'a [&'a CpiModel], domain: &'a CacheDomain) -> Self {
        let alone: Vec<f64> = programs.iter().map(|model| domain.ns_alone(model)).collect();
        let table = |model: &&CpiModel| FillTable::new(model.miss_curve(), domain.cache);
        SharedCache {
            programs,
            domain,
            tables: programs.iter().map(table).collect(),
            each_ns: alone.clone(),
            alone,
            occupancies: Vec::new(),
        }
    }

    /// Updates the occupancies for the current speeds. Returns whether the occupancies have converged.
    fn share(&mut self) -> bool {
        let fast: Vec<_> = self.tables.iter().zip(self.each_ns.iter().copied()).collect();
        let mut fits = vec![0.0; fast.len()];
        let CacheDomain { replacement, cache, .. } = *self.domain;
        occupancies_with(replacement, &fast, cache, 0.0, &mut fits);
        if self.occupancies.is_empty() {
            self.occupancies = fits;
            return self.occupancies.len() < 2;
        }
        let mut has_converged = true;
        for (occupancy, fit) in self.occupancies.iter_mut().zip(&fits) {
            has_converged &= (*occupancy - fit).abs() <= OCCUPANCY_CHANGE_MAX * cache;
            *occupancy = (*occupancy + fit) / 2.0;
        }
        has_converged
    }

    fn demands(&self) -> impl Iterator<Item = ProgramDemand> {
        let known = self.programs.iter().zip(&self.occupancies);
        known.map(|(model, bytes)| ProgramDemand::new(model, *bytes, &self.domain.limits))
    }

    fn run(&mut self, each_ns: &mut impl Iterator<Item = f64>) {
        self.each_ns.iter_mut().zip(each_ns).for_each(|(ns, now)| *ns = now);
    }

    fn predictions(&self) -> Vec<Prediction> {
        let each = self.programs.iter().zip(&self.alone).zip(&self.each_ns).zip(&self.occupancies);
        each.map(|(((model, alone), ns), occupancy)| Prediction {
            slowdown: ns / alone,
            ns_per_1000: *ns,
            cache: *occupancy,
            bytes_per_ns: model.demand(*occupancy).bytes / ns,
        })
        .collect()
    }
}
