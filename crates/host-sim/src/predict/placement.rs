//! Computes the placement of programs on LLC domains that has the smallest mean slowdown.
//!
//! ```text
//!   a b c d  ─►  {a b} {c d}   {a c} {b d}   {a d} {b c} …      every placement is predicted
//! ```
//!
//! Domains of one node share the node's channel, so the traffic of one domain affects the others. Of several equal
//! empty domains, only the first is tried. If there are too many placements, the programs are placed greedily; then
//! single programs are moved and pairs are swapped while the mean slowdown decreases.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::counted_noun;

use super::{CacheDomain, LlcDomain, predict_groups};
use crate::physics::CpiModel;

/// A program that can be placed on any of several domains.
#[derive(Clone, Debug, PartialEq)]
pub struct PlaceableProgram {
    /// Model of the program on each domain, in the order of the domains.
    on: Vec<Arc<CpiModel>>,
    /// Nanoseconds per 1000 instructions of the program alone in its fastest domain. This reference is common to all
    /// placements: relative to the domain of the placement, a program in a slow domain would have no slowdown.
    ns_alone: f64,
}

impl PlaceableProgram {
    /// Returns a program from its model in each domain; `None` without domains.
    pub fn new(on: Vec<Arc<CpiModel>>, llc_domains: &[LlcDomain]) -> Option<Self> {
        let alone = on.iter().zip(llc_domains).map(|(model, on)| on.domain.ns_alone(model));
        let ns_alone = alone.reduce(f64::min)?;
        Some(PlaceableProgram { on, ns_alone })
    }

    /// Returns the model of the program in the first domain.
    pub fn first_model(&self) -> Option<&CpiModel> {
        self.on.first().map(Arc::as_ref)
    }
}

/// A placement of programs on LLC domains.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramPlacement {
    /// Domain index of each program, in the order of the programs.
    pub domains: Vec<usize>,
    /// Slowdown of each program relative to the program alone in its fastest domain, in the order of the programs.
    pub slowdowns: Vec<f64>,
    /// Mean slowdown.
    pub mean: f64,
    /// Method of the search.
    pub method: SearchMethod,
}

/// Method by which a placement was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchMethod {
    /// All placements were predicted. The placement is optimal.
    Exhaustive,
    /// Greedy placement, then moves and swaps. A better placement may exist.
    Heuristic,
}

/// An error for programs that cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum PlacementError {
    #[error(
        "{n_programs} programs need more than the {} of {}",
        counted_noun(*n_cpus, "CPU"),
        counted_noun(*n_domains, "LLC domain")
    )]
    Crowded { n_programs: usize, n_cpus: usize, n_domains: usize },
}

/// Maximum number of placements for which all are predicted.
const N_ASSIGNMENTS_MAX: usize = 20_000;

/// Returns the best placement of programs on domains. A domain without a node has a separate channel.
///
/// # Errors
/// Returns an error if there are more programs than CPUs.
pub fn best_placement(
    programs: &[PlaceableProgram],
    llc_domains: &[LlcDomain],
) -> Result<ProgramPlacement, PlacementError> {
    let n_cpus = llc_domains.iter().map(|llc_domain| llc_domain.n_cpus).sum();
    if n_cpus < programs.len() {
        let (n_programs, n_domains) = (programs.len(), llc_domains.len());
        return Err(PlacementError::Crowded { n_programs, n_cpus, n_domains });
    }
    let mut search = ProgramPlacementSearch::new(programs, llc_domains);
    let mut all = Vec::new();
    let method = match search.collect(&mut Vec::new(), &mut all) {
        true => SearchMethod::Exhaustive,
        false => SearchMethod::Heuristic,
    };
    let best = match method {
        SearchMethod::Exhaustive => search.best_of(all),
        SearchMethod::Heuristic => search.search(),
    };
    let slowdowns = search.slowdowns(&best);
    let mean = slowdowns.iter().sum::<f64>() / slowdowns.len().max(1) as f64;
    Ok(ProgramPlacement { domains: best, slowdowns, mean, method })
}

struct ProgramPlacementSearch<'a> {
    programs: &'a [PlaceableProgram],
    llc_domains: &'a [LlcDomain],
    /// Domains of each channel.
    channels: Vec<Vec<usize>>,
    /// Channel of each domain.
    channel_of: Vec<usize>,
    /// First equal domain of each domain, and first channel with equal domains of each channel.
    domain_like: Vec<usize>,
    channel_like: Vec<usize>,
    /// Slowdowns of the programs on one channel, by its domains and their programs.
    known: BTreeMap<ProgramsByDomain, Vec<(usize, f64)>>,
}

/// Domains of one channel, and the programs in each.
type ProgramsByDomain = Vec<(usize, Vec<usize>)>;

impl<'a> ProgramPlacementSearch<'a> {
    fn new(programs: &'a [PlaceableProgram], llc_domains: &'a [LlcDomain]) -> Self {
        let mut channels: Vec<Vec<usize>> = Vec::new();
        let mut channel_of = Vec::new();
        for (domain, llc_domain) in llc_domains.iter().enumerate() {
            let is_on_node = |of: &Vec<usize>| {
                of.first().is_some_and(|at| {
                    llc_domain.node.is_some() && llc_domains[*at].node == llc_domain.node
                })
            };
            let channel = channels.iter().position(is_on_node).unwrap_or(channels.len());
            match channels.get_mut(channel) {
                Some(of) => of.push(domain),
                None => channels.push(vec![domain]),
            }
            channel_of.push(channel);
        }
        let domain_like = first_like(llc_domains, |one, other| {
            one.n_cpus == other.n_cpus && one.is_equal_to(other)
        });
        let channel_like = first_like(&channels, |one, other| {
            let kind = |domain: &usize| domain_like[*domain];
            one.iter().map(kind).eq(other.iter().map(kind))
        });
        let known = BTreeMap::new();
        ProgramPlacementSearch {
            programs,
            llc_domains,
            channels,
            channel_of,
            domain_like,
            channel_like,
            known,
        }
    }

    /// Collects all placements that begin with `begun`. Returns false if there are too many.
    fn collect(&self, begun: &mut Vec<usize>, all: &mut Vec<Vec<usize>>) -> bool {
        if begun.len() == self.programs.len() {
            all.push(begun.clone());
            return all.len() <= N_ASSIGNMENTS_MAX;
        }
        for domain in self.choices(begun) {
            begun.push(domain);
            let possible = self.collect(begun, all);
            begun.pop();
            if !possible {
                return false;
            }
        }
        true
    }

    /// Returns the domains with a free CPU. Of several equal empty domains, only the first is returned. Two domains
    /// are equal if they are on one channel, or on two equal idle channels.
    fn choices(&self, begun: &[usize]) -> Vec<usize> {
        let mut n_in = vec![0; self.llc_domains.len()];
        let mut busy = vec![false; self.channels.len()];
        for domain in begun {
            n_in[*domain] += 1;
            busy[self.channel_of[*domain]] = true;
        }
        let mut tried = BTreeSet::new();
        let mut is_new = |domain: usize| {
            let (kind, channel) = (self.domain_like[domain], self.channel_of[domain]);
            let is_new_on_channel = tried.insert((kind, false, channel));
            is_new_on_channel
                & (busy[channel] || tried.insert((kind, true, self.channel_like[channel])))
        };
        let is_choice = |domain: &usize| match n_in[*domain] {
            0 => is_new(*domain),
            n => n < self.llc_domains[*domain].n_cpus,
        };
        (0..self.llc_domains.len()).filter(is_choice).collect()
    }

    fn best_of(&mut self, all: Vec<Vec<usize>>) -> Vec<usize> {
        let mut best: Option<(f64, Vec<usize>)> = None;
        for assignment in all {
            let cost = self.cost(&assignment);
            if best.as_ref().is_none_or(|(least, _)| cost < *least - GAIN_MIN) {
                best = Some((cost, assignment));
            }
        }
        best.map_or_else(Vec::new, |(_, assignment)| assignment)
    }

    /// Returns the result of the heuristic search: a greedy placement, improved by moves and swaps.
    fn search(&mut self) -> Vec<usize> {
        let mut now: Vec<usize> = Vec::new();
        for _ in 0..self.programs.len() {
            let after = |domain| now.iter().copied().chain([domain]).collect();
            let next: Vec<Vec<usize>> = self.choices(&now).into_iter().map(after).collect();
            now = self.best_of(next);
        }
        let mut cost = self.cost(&now);
        loop {
            let neighbours = self.neighbours(&now);
            let better = self.best_of(neighbours);
            let new_cost = self.cost(&better);
            if better.len() != now.len() || cost - GAIN_MIN <= new_cost {
                return now;
            }
            (now, cost) = (better, new_cost);
        }
    }

    fn neighbours(&self, now: &[usize]) -> Vec<Vec<usize>> {
        let mut neighbours = Vec::new();
        let choices = self.choices(now);
        for one in 0..now.len() {
            for &domain in &choices {
                let mut moved = now.to_vec();
                moved[one] = domain;
                neighbours.push(moved);
            }
            for other in (0..one).filter(|other| now[*other] != now[one]) {
                let mut swapped = now.to_vec();
                swapped.swap(one, other);
                neighbours.push(swapped);
            }
        }
        neighbours
    }

    fn cost(&mut self, assignment: &[usize]) -> f64 {
        self.slowdowns(assignment).iter().sum()
    }

    /// Returns the slowdowns of the programs that are already placed.
    fn slowdowns(&mut self, assignment: &[usize]) -> Vec<f64> {
        let mut slowdowns = vec![1.0; assignment.len()];
        let busy: BTreeSet<usize> = assignment.iter().map(|at| self.channel_of[*at]).collect();
        for channel in busy {
            for (program, slowdown) in self.channel_slowdowns(channel, assignment) {
                slowdowns[program] = slowdown;
            }
        }
        slowdowns
    }

    fn channel_slowdowns(&mut self, channel: usize, assignment: &[usize]) -> Vec<(usize, f64)> {
        let members = |domain: &usize| {
            let members = assignment.iter().enumerate().filter(|(_, at)| *at == domain);
            (*domain, members.map(|(program, _)| program).collect::<Vec<_>>())
        };
        let domains = &self.channels[channel];
        let key: ProgramsByDomain = domains.iter().map(members).collect();
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let members: Vec<Vec<&CpiModel>> = (key.iter())
            .map(|(at, members)| {
                members.iter().map(|program| &*self.programs[*program].on[*at]).collect()
            })
            .collect();
        let groups: Vec<(&[&CpiModel], &CacheDomain)> = (key.iter().zip(&members))
            .map(|((domain, _), members)| (members.as_slice(), &self.llc_domains[*domain].domain))
            .collect();
        let predictions = predict_groups(&groups);
        let flat = key.iter().flat_map(|(_, members)| members.iter().copied());
        let slow = |(program, ns_per_1000): (usize, f64)| {
            (program, ns_per_1000 / self.programs[program].ns_alone)
        };
        let takes = predictions.iter().flatten().map(|prediction| prediction.ns_per_1000);
        let slowdowns: Vec<(usize, f64)> = flat.zip(takes).map(slow).collect();
        self.known.insert(key, slowdowns.clone());
        slowdowns
    }
}

/// Returns, for each element, the index of the first equal element.
fn first_like<T>(all: &[T], is_like: impl Fn(&T, &T) -> bool) -> Vec<usize> {
    let mut firsts: Vec<usize> = Vec::new();
    let mut first_equal = |idx: usize| {
        let known = firsts.iter().copied().find(|first| is_like(&all[*first], &all[idx]));
        known.unwrap_or_else(|| {
            firsts.push(idx);
            idx
        })
    };
    (0..all.len()).map(&mut first_equal).collect()
}

/// Minimum improvement of the mean slowdown; smaller differences are rounding errors. Of equally good placements, the
/// first is used.
const GAIN_MIN: f64 = 1e-9;

/// Returns the slowdowns for any placement, for tests.
#[cfg(test)]
pub(super) fn testing<'a>(
    programs: &'a [PlaceableProgram],
    llc_domains: &'a [LlcDomain],
) -> impl FnMut(&[usize]) -> Vec<f64> + 'a {
    let mut search = ProgramPlacementSearch::new(programs, llc_domains);
    move |assignment| search.slowdowns(assignment)
}
