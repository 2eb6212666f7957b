//! Round robin: consecutive jobs start as far from each other as possible.
//!
//! ```text
//!   node 0            node 1
//!     llc 0   llc 1     llc 2   llc 3
//!      1st     3rd       2nd     4th      then again from the first
//! ```
//!
//! Consecutive jobs go to different nodes first, then to different LLC domains of a node; within one, to the
//! CPU with the fewest jobs. A job that may not run on the next domain takes the first one after it that it may
//! use. A job with more threads than an LLC domain has CPUs gets CPUs of the whole placement domain. Jobs never
//! migrate, unless their CPUs become unusable.
//!
//! Loads are not used: the policy measures the effect of spreading by number alone.

use base::{CpuSet, Nanos, NodeId, NodeSet};
use program::MemoryPolicy;
use sched::{Action, JobState, JobView, Plan, Policy, Reason, ReasonCode, Snapshot, reasons};
use topology::{DomainChoice, Level};

use crate::declaration::{DOMAINS, INTERVAL, Param, names};
use crate::linux::SAMPLES_ONLY;
use crate::placement::{self, Crowd, cpus_label};
use crate::{PolicyInfo, notes};

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "spread",
    summary: "Starts jobs round robin over nodes and last-level caches; migrates nothing.",
    source: "common practice, a baseline for the other policies",
    signals: &[],
    params: &[
        DOMAINS,
        Param::new(
            "memory",
            Memory::VALUES,
            "first-touch",
            "memory policy of a job: the kernel's default, or only or preferably the node that it starts on",
        ),
        INTERVAL.help(SAMPLES_ONLY),
    ],
    reasons: &[notes::REASONS, REASONS],
    build: Some(|params, _seed| {
        let config = Config {
            domains: params.domains(),
            memory: params.named("memory"),
            interval: params.time("interval"),
        };
        let (crowd, cells, cells_of) = (Crowd::default(), Vec::new(), CpuSet::new());
        Ok(Box::new(Spread { config, next: 0, crowd, cells, cells_of }))
    }),
};

reasons! {
    /// Round robin.
    NEXT_IN_TURN = "next-in-turn":
        "{domain} was next in round-robin order; {cpus} had the fewest jobs there";
    /// CPUs of the job became unusable.
    CPUS_UNUSABLE = "cpus-unusable":
        "some of the job's CPUs ({lost}) became unusable, so it was placed like a new job: {domain} was next in round-robin order; {cpus} had the fewest jobs there";
    /// Memory from the node of the job's CPUs.
    MEMORY_BESIDE_CPUS = "memory-beside-cpus":
        "the job runs on {domain}, so its memory is allocated there";
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Config {
    domains: DomainChoice,
    memory: Memory,
    interval: Nanos,
}

names! {
    /// Memory policy of a job.
    enum Memory { FirstTouch = "first-touch", Bind = "bind", Preferred = "preferred" }
}

/// State of the policy.
#[derive(Debug)]
struct Spread {
    config: Config,
    /// Index of the next cell.
    next: usize,
    crowd: Crowd,
    /// The round-robin order for the usable CPUs `cells_of`.
    cells: Vec<Cell>,
    cells_of: CpuSet,
}

/// One entry of the round-robin order: a domain, or an LLC domain in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cell {
    label: String,
    cpus: CpuSet,
    /// All CPUs of the placement domain, for jobs with more threads than `cpus`.
    domain_cpus: CpuSet,
    node: Option<NodeId>,
}

impl Policy for Spread {
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        self.add_notes(seen, plan);
        plan.quiescent = true; // Without a start, an end or other CPUs there is nothing to request.
        if !placement::can_place(seen) {
            return;
        }
        if self.cells_of != *seen.usable_cpus {
            self.cells = cells(seen);
            self.cells_of = seen.usable_cpus.clone();
        }
        self.crowd.count(seen.jobs);
        for job in seen.jobs {
            if placement::has_lost_cpus(job, seen.usable_cpus) {
                self.place(job, CPUS_UNUSABLE, plan);
            } else if job.state == JobState::Due {
                self.start(seen, job, plan);
            }
        }
    }

    fn name(&self) -> &str {
        INFO.name
    }

    fn reasons(&self) -> Vec<ReasonCode> {
        INFO.reasons.concat()
    }

    fn interval(&self) -> Option<Nanos> {
        Some(self.config.interval)
    }

    fn domains(&self) -> DomainChoice {
        self.config.domains
    }
}

impl Spread {
    fn add_notes(&self, seen: &Snapshot<'_>, plan: &mut Plan) {
        let level = seen.domains.level();
        if let Some(note) = notes::nothing_to_place(seen) {
            plan.note(note);
        } else if self.config.memory != Memory::FirstTouch && level != Level::Node {
            plan.note(Reason::new(notes::MEMORY_NOT_BOUND).with("level", level.to_string()));
        }
    }

    fn start(&mut self, seen: &Snapshot<'_>, job: &JobView<'_>, plan: &mut Plan) {
        let Some(cell) = self.place(job, NEXT_IN_TURN, plan) else { return };
        let at_node_level = seen.domains.level() == Level::Node && job.job.memory.is_none();
        let Some(node) = cell.node.filter(|_| at_node_level) else { return };
        let nodes = NodeSet::from_iter([node]);
        let memory = match self.config.memory {
            Memory::FirstTouch => return,
            Memory::Bind => MemoryPolicy::Bind(nodes),
            Memory::Preferred => MemoryPolicy::Preferred(nodes),
        };
        let reason = Reason::new(MEMORY_BESIDE_CPUS).with("domain", format!("node {}", node.0));
        plan.request(job.job.id, Action::MemoryPolicy(memory), reason);
    }

    /// Places a job on the next cell that it may use.
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
        let lost = job.placed.filter(|_| code == CPUS_UNUSABLE);
        let reason = Reason::new(code)
            .with("domain", cell.label.clone())
            .with("cpus", cpus_label(&cpus))
            .with_some("lost", lost.map(ToString::to_string));
        plan.request(job.job.id, Action::Place(cpus), reason);
        Some(cell)
    }
}

/// The round-robin order: domains split into LLC domains, sorted so that consecutive entries are on different
/// nodes first, then on different caches.
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

/// A domain, or its LLC domains if it has several.
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

/// Numbers in the order of their first use, with the members of each.
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

    /// Number of earlier uses of this number.
    fn count(&mut self, idx: usize) -> usize {
        self.counts[idx] += 1;
        self.counts[idx] - 1
    }

    /// The rank of a member within its number.
    fn member(&mut self, idx: usize, member: usize) -> usize {
        let members = &mut self.members[idx];
        members.iter().position(|&known| known == member).unwrap_or_else(|| {
            members.push(member);
            members.len() - 1
        })
    }
}
