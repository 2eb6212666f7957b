//! Which program goes to which LLC domain, so that the mean slow-down is least.
//!
//! ```text
//!   a b c d  ─►  {a b} {c d}   {a c} {b d}   {a d} {b c} …      as many as there are, each predicted
//! ```
//!
//! Domains of one node share its channel, so what runs in one is felt in the other. Of domains that are
//! alike and still empty only the first is tried. Where there are too many assignments the programs are put
//! one after the other where they cost least, and then moved and swapped as long as that helps.

use std::collections::BTreeMap;

use base::several;

use super::{Domain, Site, together};
use crate::physics::Behaviour;

/// An assignment.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    /// The domain of each program, in their order; numbers count in the list of domains.
    pub domains: Vec<usize>,
    /// The slow-down of each program, in their order.
    pub slowdowns: Vec<f64>,
    /// Their mean.
    pub mean: f64,
    /// How it was found.
    pub way: Way,
}

/// How an assignment was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// All of them were looked at.
    Exhaustive,
    /// One after the other, then moves and swaps: there may be a better one.
    Search,
}

/// Why there is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// More programs than CPUs.
    #[error(
        "{n_programs} programs are more than the {} of {}",
        several(*n_cpus, "CPU"),
        several(*n_domains, "LLC domain")
    )]
    Crowded {
        /// Programs.
        n_programs: usize,
        /// CPUs of all domains.
        n_cpus: usize,
        /// Domains.
        n_domains: usize,
    },
}

/// With so many assignments all are looked at.
const N_ASSIGNMENTS_MAX: usize = 20_000;

/// The best assignment of programs to domains, of which `sites` tells CPUs and nodes. Domains without a
/// node have a channel of their own.
///
/// # Errors
/// There are more programs than CPUs.
pub fn best(
    programs: &[&Behaviour],
    sites: &[Site],
    domains: &[Domain],
) -> Result<Split, SplitError> {
    let n_cpus = sites.iter().map(|site| site.n_cpus).sum();
    if n_cpus < programs.len() {
        let (n_programs, n_domains) = (programs.len(), sites.len());
        return Err(SplitError::Crowded { n_programs, n_cpus, n_domains });
    }
    let mut board = Board { programs, sites, domains, known: BTreeMap::new() };
    let mut all = Vec::new();
    let way = match board.collect(&mut Vec::new(), &mut all) {
        true => Way::Exhaustive,
        false => Way::Search,
    };
    let best = match way {
        Way::Exhaustive => board.least(all),
        Way::Search => board.search(),
    };
    let slowdowns = board.slowdowns(&best);
    let mean = slowdowns.iter().sum::<f64>() / slowdowns.len().max(1) as f64;
    Ok(Split { domains: best, slowdowns, mean, way })
}

struct Board<'a> {
    programs: &'a [&'a Behaviour],
    sites: &'a [Site],
    domains: &'a [Domain],
    /// Slow-downs on one channel, by its domains and who is in each.
    known: BTreeMap<Crew, Vec<(usize, f64)>>,
}

/// The domains of one channel, and the programs in each.
type Crew = Vec<(usize, Vec<usize>)>;

impl Board<'_> {
    /// Adds every assignment that goes on from `begun`; whether that was possible.
    fn collect(&self, begun: &mut Vec<usize>, all: &mut Vec<Vec<usize>>) -> bool {
        if begun.len() == self.programs.len() {
            all.push(begun.clone());
            return all.len() <= N_ASSIGNMENTS_MAX;
        }
        for domain in 0..self.sites.len() {
            if self.is_full(begun, domain) || self.is_tried(begun, domain) {
                continue;
            }
            begun.push(domain);
            let possible = self.collect(begun, all);
            begun.pop();
            if !possible {
                return false;
            }
        }
        true
    }

    fn is_full(&self, begun: &[usize], domain: usize) -> bool {
        self.sites[domain].n_cpus <= begun.iter().filter(|at| **at == domain).count()
    }

    /// An earlier domain that is as empty and alike.
    fn is_tried(&self, begun: &[usize], domain: usize) -> bool {
        if begun.contains(&domain) {
            return false;
        }
        (0..domain).any(|other| !begun.contains(&other) && self.are_alike(begun, domain, other))
    }

    /// Same cache, same channel; or channels that are alike, with nobody on them.
    fn are_alike(&self, begun: &[usize], one: usize, other: usize) -> bool {
        let same_cpus = self.sites[one].n_cpus == self.sites[other].n_cpus;
        let kin = |at: usize| {
            let near = |idx: &usize| self.share_channel(*idx, at);
            let near: Vec<usize> = (0..self.sites.len()).filter(near).collect();
            let idle = near.iter().all(|idx| !begun.contains(idx));
            let like = |idx: &usize| (self.sites[*idx].n_cpus, self.domains[*idx].cache as u64);
            (idle, near.iter().map(like).collect::<Vec<_>>())
        };
        let apart = || {
            let (one, other) = (kin(one), kin(other));
            one.0 && other.0 && one.1 == other.1
        };
        let same_place = self.share_channel(one, other) || apart();
        same_cpus && self.domains[one] == self.domains[other] && same_place
    }

    fn share_channel(&self, one: usize, other: usize) -> bool {
        one == other
            || (self.sites[one].node.is_some() && self.sites[one].node == self.sites[other].node)
    }

    fn least(&mut self, all: Vec<Vec<usize>>) -> Vec<usize> {
        let mut best: Option<(f64, Vec<usize>)> = None;
        for assignment in all {
            let cost = self.cost(&assignment);
            if best.as_ref().is_none_or(|(least, _)| cost < *least - GAIN_MIN) {
                best = Some((cost, assignment));
            }
        }
        best.map_or_else(Vec::new, |(_, assignment)| assignment)
    }

    /// Each where it costs least, then moves and swaps.
    fn search(&mut self) -> Vec<usize> {
        let mut now: Vec<usize> = Vec::new();
        for _ in 0..self.programs.len() {
            let free = (0..self.sites.len()).filter(|domain| !self.is_full(&now, *domain));
            let next: Vec<Vec<usize>> =
                free.map(|domain| now.iter().copied().chain([domain]).collect()).collect();
            now = self.least(next);
        }
        let mut cost = self.cost(&now);
        loop {
            let near = self.neighbours(&now);
            let better = self.least(near);
            let then = self.cost(&better);
            if better.len() != now.len() || cost - GAIN_MIN <= then {
                return now;
            }
            (now, cost) = (better, then);
        }
    }

    fn neighbours(&self, now: &[usize]) -> Vec<Vec<usize>> {
        let mut near = Vec::new();
        for one in 0..now.len() {
            for domain in (0..self.sites.len()).filter(|domain| !self.is_full(now, *domain)) {
                let mut moved = now.to_vec();
                moved[one] = domain;
                near.push(moved);
            }
            for other in (0..one).filter(|other| now[*other] != now[one]) {
                let mut swapped = now.to_vec();
                swapped.swap(one, other);
                near.push(swapped);
            }
        }
        near
    }

    fn cost(&mut self, assignment: &[usize]) -> f64 {
        self.slowdowns(assignment).iter().sum()
    }

    /// Of the programs assigned so far.
    fn slowdowns(&mut self, assignment: &[usize]) -> Vec<f64> {
        let mut slowdowns = vec![1.0; assignment.len()];
        for lead in 0..self.sites.len() {
            if (0..lead).any(|earlier| self.share_channel(earlier, lead)) {
                continue;
            }
            for (program, slowdown) in self.on_channel(lead, assignment) {
                slowdowns[program] = slowdown;
            }
        }
        slowdowns
    }

    fn on_channel(&mut self, lead: usize, assignment: &[usize]) -> Vec<(usize, f64)> {
        let near = (0..self.sites.len()).filter(|idx| self.share_channel(*idx, lead));
        let who = |domain: usize| {
            let there = assignment.iter().enumerate().filter(|(_, at)| **at == domain);
            (domain, there.map(|(program, _)| program).collect::<Vec<_>>())
        };
        let key: Crew = near.map(who).collect();
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let members: Vec<Vec<&Behaviour>> = (key.iter())
            .map(|(_, who)| who.iter().map(|program| self.programs[*program]).collect())
            .collect();
        let groups: Vec<(&[&Behaviour], f64)> = (key.iter().zip(&members))
            .map(|((domain, _), members)| (members.as_slice(), self.domains[*domain].cache))
            .collect();
        let told = together(&groups, &self.domains[lead].channel);
        let flat = key.iter().flat_map(|(_, who)| who.iter().copied());
        let slow = told.iter().flatten().map(|its| its.slowdown);
        let both: Vec<(usize, f64)> = flat.zip(slow).collect();
        self.known.insert(key, both.clone());
        both
    }
}

/// Less than this is rounding; of equals the first stays.
const GAIN_MIN: f64 = 1e-9;

/// The slow-downs of any assignment, for tests.
#[cfg(test)]
pub(super) fn testing<'a>(
    programs: &'a [&'a Behaviour],
    sites: &'a [Site],
    domains: &'a [Domain],
) -> impl FnMut(&[usize]) -> Vec<f64> + 'a {
    let mut board = Board { programs, sites, domains, known: BTreeMap::new() };
    move |assignment| board.slowdowns(assignment)
}
