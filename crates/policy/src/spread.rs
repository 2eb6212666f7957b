//! Round robin: one program here, the next as far from it as possible.
//!
//! ```text
//!   node 0            node 1
//!     llc 0   llc 1     llc 2   llc 3
//!      1st     3rd       2nd     4th      and round again
//! ```
//!
//! Consecutive jobs go to different nodes first, then to different LLC domains in the node; within
//! one, to the CPU with the fewest programs. A job that may not run on the place in turn takes the
//! next that it may; the turn goes on from there. One with more threads than the place has CPUs gets
//! CPUs of the whole node, or whatever the domain is. Nothing is ever moved, unless its CPU goes away.
//!
//! It looks at no load: what it shows is how much a spread by number alone is worth.

use base::{CpuSet, Nanos, NodeId, NodeSet};
use program::MemoryPolicy;
use sched::{Action, JobState, JobView, Plan, Policy, Reason, ReasonCode, Snapshot};
use topology::{DomainChoice, Level};

use crate::common::{self, Crowd, INTERVAL, cpus_label};
use crate::spec::Given;
use crate::{Origin, ParamInfo, PolicyError, PolicyInfo};

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "spread",
    does: "Starts programs round robin over nodes and last-level caches; moves nothing.",
    source: "common practice, to compare the others with",
    needs: &[],
    params: &[
        ParamInfo {
            name: "domains",
            takes: common::DOMAINS_TAKES,
            default: "auto",
            default_paper: None,
            meaning: "the places taken in turn; auto is the coarsest level with two of them",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "memory",
            takes: "first-touch, bind or preferred",
            default: "first-touch",
            default_paper: None,
            meaning: "where a program's memory comes from: as the kernel does it, or only or first \
                      from the node that it starts on",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "interval",
            takes: common::INTERVAL_TAKES,
            default: "250ms",
            default_paper: None,
            meaning: "time between two samples: nothing is decided, but the record is like the others'",
            origin: Origin::OurChoice,
        },
    ],
};

/// What it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Config {
    domains: DomainChoice,
    memory: Memory,
    interval: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    FirstTouch,
    Bind,
    Preferred,
}

/// Round robin, and whose turn it is.
#[derive(Debug)]
struct Spread {
    config: Config,
    next: usize,
    crowd: Crowd,
    /// The turn order, as long as the usable CPUs stay what they were.
    cells: Vec<Cell>,
    cells_of: CpuSet,
}

/// One place in the turn order.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cell {
    label: String,
    cpus: CpuSet,
    /// All CPUs of the domain that it is a piece of, for jobs with more threads than it has CPUs.
    domain_cpus: CpuSet,
    node: Option<NodeId>,
}

pub(crate) fn build(given: &Given<'_>, _seed: u64) -> Result<Box<dyn Policy>, PolicyError> {
    let config = Config {
        domains: given.get("domains", DomainChoice::Auto, common::domains)?,
        memory: given.choice("memory", Memory::FirstTouch, MEMORY)?,
        interval: given.get("interval", INTERVAL, common::interval)?,
    };
    let (crowd, cells, cells_of) = (Crowd::default(), Vec::new(), CpuSet::new());
    Ok(Box::new(Spread { config, next: 0, crowd, cells, cells_of }))
}

const MEMORY: &[(&str, Memory)] = &[
    ("first-touch", Memory::FirstTouch),
    ("bind", Memory::Bind),
    ("preferred", Memory::Preferred),
];

impl Policy for Spread {
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        self.say_notes(seen, plan);
        plan.quiescent = true; // Loads do not count here: without an event there is nothing to ask for.
        if !common::can_place(seen) {
            return;
        }
        if self.cells_of != *seen.usable_cpus {
            self.cells = cells(seen);
            self.cells_of = seen.usable_cpus.clone();
        }
        self.crowd.count(seen.jobs);
        for job in seen.jobs {
            if common::has_lost_its_place(job, seen.usable_cpus) {
                self.place(job, ReasonCode::CpusGone, plan);
            } else if job.state == JobState::Due {
                self.start(seen, job, plan);
            }
        }
    }

    fn name(&self) -> &str {
        INFO.name
    }

    fn interval(&self) -> Option<Nanos> {
        Some(self.config.interval)
    }

    fn domains(&self) -> DomainChoice {
        self.config.domains
    }
}

impl Spread {
    fn say_notes(&self, seen: &Snapshot<'_>, plan: &mut Plan) {
        let level = seen.domains.level();
        if let Some(note) = common::nothing_to_place(seen) {
            plan.note(note);
        } else if self.config.memory != Memory::FirstTouch && level != Level::Node {
            plan.note(Reason::new(ReasonCode::MemoryNotBound).with("level", level.to_string()));
        }
    }

    fn start(&mut self, seen: &Snapshot<'_>, job: &JobView<'_>, plan: &mut Plan) {
        let Some(cell) = self.place(job, ReasonCode::NextInTurn, plan) else { return };
        let at_node_level = seen.domains.level() == Level::Node && job.job.memory.is_none();
        let Some(node) = cell.node.filter(|_| at_node_level) else { return };
        let nodes = NodeSet::from_iter([node]);
        let memory = match self.config.memory {
            Memory::FirstTouch => return,
            Memory::Bind => MemoryPolicy::Bind(nodes),
            Memory::Preferred => MemoryPolicy::Preferred(nodes),
        };
        let reason =
            Reason::new(ReasonCode::MemoryBesideCpus).with("domain", format!("node {}", node.0));
        plan.request(job.job.id, Action::MemoryPolicy(memory), reason);
    }

    /// Puts a job on the next cell that it may use.
    fn place(&mut self, job: &JobView<'_>, code: ReasonCode, plan: &mut Plan) -> Option<Cell> {
        let n_cells = self.cells.len();
        let in_turn = (0..n_cells).map(|ahead| (self.next + ahead) % n_cells);
        let idx = in_turn.into_iter().find(|&idx| self.cells[idx].cpus.intersects(job.allowed))?;
        self.next = (idx + 1) % n_cells;
        let cell = self.cells[idx].clone();
        let mut possible = cell.cpus.and(job.allowed);
        if possible.len() < job.job.threads as usize {
            possible = cell.domain_cpus.and(job.allowed);
        }
        let cpus = self.crowd.emptiest(&possible, job.job.threads);
        self.crowd.add(&cpus);
        let mut reason =
            Reason::new(code).with("domain", cell.label.clone()).with("cpus", cpus_label(&cpus));
        if let Some(gone) = job.placed.filter(|_| code == ReasonCode::CpusGone) {
            reason = reason.with("gone", gone.to_string());
        }
        plan.request(job.job.id, Action::Place(cpus), reason);
        Some(cell)
    }
}

/// The turn order: the domains, cut along last-level caches, so arranged that neighbours in it lie
/// on different nodes first, and then on different caches.
fn cells(seen: &Snapshot<'_>) -> Vec<Cell> {
    let mut cells: Vec<(Vec<usize>, Cell)> = Vec::new();
    let (mut nodes, mut llcs) = (Ranks::default(), Ranks::default());
    for (idx, domain) in seen.domains.iter() {
        for piece in pieces(seen, idx, domain) {
            let llc = piece.cpus.first().and_then(|cpu| seen.machine.cpu(cpu)?.llc);
            let node = piece.node.map(|node| node.0);
            let node_idx = nodes.idx((node, None));
            let llc_idx = llcs.idx((node, llc.map(|llc| llc.0)));
            let in_llc = llcs.count(llc_idx);
            let llc_in_node = nodes.member(node_idx, llc_idx);
            cells.push((vec![in_llc, llc_in_node, node_idx], piece));
        }
    }
    cells.sort_by(|a, b| a.0.cmp(&b.0));
    cells.into_iter().map(|(_, cell)| cell).collect()
}

/// A domain, or the last-level caches in it when there are several.
fn pieces(seen: &Snapshot<'_>, idx: usize, domain: &topology::Domain) -> Vec<Cell> {
    let whole = Cell {
        label: seen.domains.label(idx),
        cpus: domain.cpus.clone(),
        domain_cpus: domain.cpus.clone(),
        node: domain.node,
    };
    let in_llcs = seen.machine.llcs().iter().map(|llc| (llc, llc.cpus.and(&domain.cpus)));
    let in_llcs: Vec<_> = in_llcs.filter(|(_, cpus)| !cpus.is_empty()).collect();
    let covered = in_llcs.iter().fold(CpuSet::new(), |all, (_, cpus)| all.or(cpus));
    if in_llcs.len() < 2 || covered != domain.cpus {
        return vec![whole];
    }
    let label = |llc: &topology::Llc| format!("llc {} of {}", llc.id.0, whole.label);
    let piece =
        |(llc, cpus): (&topology::Llc, CpuSet)| Cell { label: label(llc), cpus, ..whole.clone() };
    in_llcs.into_iter().map(piece).collect()
}

/// Numbers in the order of their first mention, and what was mentioned with each.
#[derive(Default)]
struct Ranks {
    numbers: Vec<(Option<u32>, Option<u32>)>,
    counts: Vec<usize>,
    members: Vec<Vec<usize>>,
}

impl Ranks {
    fn idx(&mut self, number: (Option<u32>, Option<u32>)) -> usize {
        if let Some(idx) = self.numbers.iter().position(|&known| known == number) {
            return idx;
        }
        self.numbers.push(number);
        self.counts.push(0);
        self.members.push(Vec::new());
        self.numbers.len() - 1
    }

    /// How many came before with this number.
    fn count(&mut self, idx: usize) -> usize {
        self.counts[idx] += 1;
        self.counts[idx] - 1
    }

    /// The rank of a member among those of this number.
    fn member(&mut self, idx: usize, member: usize) -> usize {
        let members = &mut self.members[idx];
        members.iter().position(|&known| known == member).unwrap_or_else(|| {
            members.push(member);
            members.len() - 1
        })
    }
}

#[cfg(test)]
mod tests;
