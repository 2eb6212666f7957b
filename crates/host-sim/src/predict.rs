//! How much slower programs are side by side than alone.

use crate::physics::{Behaviour, Channel, FillTable, shares};

/// A last-level cache and the memory behind it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Domain {
    /// Bytes of cache.
    pub cache: f64,
    /// The memory controller.
    pub channel: Channel,
}

/// What is predicted of one program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted {
    /// Times as long as alone.
    pub slowdown: f64,
    /// Bytes of the cache that it holds.
    pub cache: f64,
}

/// So often who holds what and how fast everybody is are found from each other; half of each change is
/// taken, so that nothing swings.
const N_ROUNDS: usize = 24;

/// All of them on one domain, each alone on a core; in their order.
pub fn side_by_side(programs: &[&Behaviour], domain: &Domain) -> Vec<Predicted> {
    let alone: Vec<f64> = programs.iter().map(|its| alone_ns(its, domain)).collect();
    let tables: Vec<FillTable> =
        programs.iter().map(|its| FillTable::new(its.character(), domain.cache)).collect();
    let mut each_ns = alone.clone();
    let mut held: Option<Vec<f64>> = None;
    for _ in 0..N_ROUNDS {
        let fast: Vec<_> = tables.iter().zip(each_ns.iter().copied()).collect();
        let fits = shares(&fast, domain.cache);
        let now: Vec<f64> = match &held {
            None => fits,
            Some(held) => held.iter().zip(&fits).map(|(held, fit)| (held + fit) / 2.0).collect(),
        };
        let demands: Vec<_> =
            programs.iter().zip(&now).map(|(its, bytes)| its.demand(*bytes)).collect();
        each_ns = domain.channel.load(&demands).each_ns;
        held = Some(now);
    }
    let held = held.unwrap_or_default();
    let told = each_ns.iter().zip(&alone).zip(&held);
    told.map(|((ns, alone), cache)| Predicted { slowdown: ns / alone, cache: *cache }).collect()
}

fn alone_ns(its: &Behaviour, domain: &Domain) -> f64 {
    let loaded = domain.channel.load(&[its.demand(domain.cache)]);
    loaded.each_ns.first().copied().unwrap_or(1.0)
}
