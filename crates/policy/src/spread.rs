//! Round robin: consecutive jobs start as far from each other as possible.
//!
//! ```text
//!   node 0            node 1
//!     llc 0   llc 1     llc 2   llc 3
//!      1st     3rd       2nd     4th      then again from the first
//! ```
//!
//! Consecutive jobs go to different nodes first, then to different LLC domains of a node. Within an LLC domain a job
//! gets the CPU with the fewest jobs. If a job may not run on the next domain, it gets the next domain in this order on
//! which it may run. A job with more threads than an LLC domain has CPUs gets CPUs of the whole placement domain. Jobs
//! never migrate, unless their CPUs become unusable.
//!
//! The policy does not use loads. A comparison with this policy shows the effect of balancing only the number of jobs.

use base::{CpuSet, LlcId, NodeId, NodeSet};
use program::MemoryPolicy;
use sched::{Action, JobState, JobView, Plan, Reason, ReasonCode, Snapshot, reasons};
use topology::Level;

use crate::declaration::{DOMAINS, INTERVAL, names, params};
use crate::linux::SAMPLES_ONLY;
use crate::placement::{self, JobsPerCpu, cpus_label};
use crate::{PolicyInfo, Rules, notes};

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "spread",
    summary: "Starts jobs round robin over nodes and last-level caches; migrates nothing.",
    source: "common practice, a baseline for the other policies",
    signals: &[],
    params: &[&[DOMAINS], PARAMS, &[INTERVAL.help(SAMPLES_ONLY)]],
    reasons: &[notes::REASONS, REASONS],
    work_conserving: false,
    needs_core_kinds: false,
    rules: Some(|params, _seed| Box::new(RoundRobin::new(Config::new(params)))),
};

params! {
    struct Config from PARAMS {
        memory: MemoryBinding = "first-touch", "memory policy of a job: the kernel's default (first-touch), MPOL_BIND or \
            MPOL_PREFERRED to the node that it starts on"
            .no_effect_with(&["memory!=first-touch and domains=llc", "memory!=first-touch and domains=core"]);
    }
}

reasons! {
    /// A job starts on the next domain.
    ROUND_ROBIN = "round-robin":
        "{domain} was next in round-robin order; {cpus} had the fewest jobs there";
    /// CPUs of the job became unusable.
    CPUS_UNUSABLE = "cpus-unusable":
        "some of the job's CPUs ({lost}) became unusable, so it was placed like a new job: {domain} was next in round-robin order; {cpus} had the fewest jobs there";
    /// The memory policy of a job that starts: the node of its CPUs.
    MEMORY_BESIDE_CPUS = "memory-beside-cpus":
        "the job runs on {domain}, so its memory is allocated there";
}

names! {
    /// Memory policy of a job.
    enum MemoryBinding { FirstTouch = "first-touch", Bind = "bind", Preferred = "preferred" }
}

/// State of the policy.
#[derive(Debug)]
struct RoundRobin {
    config: Config,
    /// Index of the cell for the next job.
    next: usize,
    jobs_per_cpu: JobsPerCpu,
    /// The round-robin order for the usable CPUs `cells_of`.
    cells: Vec<Cell>,
    cells_of: CpuSet,
}

/// One entry of the round-robin order: a domain, or an LLC domain of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cell {
    label: String,
    cpus: CpuSet,
    /// All CPUs of the placement domain, for jobs with more threads than `cpus`.
    domain_cpus: CpuSet,
    node: Option<NodeId>,
}

impl Rules for RoundRobin {
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        self.add_notes(snapshot, plan);
        plan.quiescent = true; // Requests are made only when a job starts or ends, or the usable CPUs change.
        if !placement::can_place(snapshot) {
            return;
        }
        if self.cells_of != *snapshot.usable_cpus {
            self.cells = cells(snapshot);
            self.cells_of = snapshot.usable_cpus.clone();
        }
        self.jobs_per_cpu.count(snapshot.jobs);
        for job in snapshot.jobs {
            if placement::has_lost_cpus(job, snapshot.usable_cpus) {
                self.place(job, CPUS_UNUSABLE, plan);
            } else if job.state == JobState::Due {
                self.start(snapshot, job, plan);
            }
        }
    }
}

impl RoundRobin {
    fn new(config: Config) -> Self {
        let (jobs_per_cpu, cells, cells_of) = Default::default();
        RoundRobin { config, next: 0, jobs_per_cpu, cells, cells_of }
    }

    fn add_notes(&self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        let level = snapshot.domains.level();
        if let Some(note) = notes::nothing_to_place(snapshot) {
            plan.note(note);
        } else if self.config.memory != MemoryBinding::FirstTouch && level != Level::Node {
            plan.note(Reason::new(notes::MEMORY_NOT_BOUND).with("level", level.to_string()));
        }
    }

    fn start(&mut self, snapshot: &Snapshot<'_>, job: &JobView<'_>, plan: &mut Plan) {
        let Some(cell) = self.place(job, ROUND_ROBIN, plan) else { return };
        let at_node_level = snapshot.domains.level() == Level::Node && job.job.memory.is_none();
        let Some(node) = cell.node.filter(|_| at_node_level) else { return };
        let nodes = NodeSet::from_iter([node]);
        let memory = match self.config.memory {
            MemoryBinding::FirstTouch => return,
            MemoryBinding::Bind => MemoryPolicy::Bind(nodes),
            MemoryBinding::Preferred => MemoryPolicy::Preferred(nodes),
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
        let cpus = self.jobs_per_cpu.least_loaded(&possible, job.job.threads);
        self.jobs_per_cpu.add(&cpus);
        let lost = job.placed.filter(|_| code == CPUS_UNUSABLE);
        let reason = Reason::new(code)
            .with("domain", cell.label.clone())
            .with("cpus", cpus_label(&cpus))
            .with_some("lost", lost.map(ToString::to_string));
        plan.request(job.job.id, Action::Place(cpus), reason);
        Some(cell)
    }
}

/// LLC domains of a node, with the number of cells in each.
type CellsPerLlc = Vec<(Option<LlcId>, usize)>;

/// Returns the round-robin order: domains split into LLC domains, sorted so that consecutive entries are on different
/// nodes first, then on different caches.
fn cells(snapshot: &Snapshot<'_>) -> Vec<Cell> {
    let mut cells: Vec<((usize, usize, usize), Cell)> = Vec::new();
    // Nodes in the order of their first use, with their LLC domains and the number of cells in each.
    let mut nodes: Vec<(Option<NodeId>, CellsPerLlc)> = Vec::new();
    for (idx, domain) in snapshot.domains.iter() {
        for piece in pieces(snapshot, idx, domain) {
            let llc = piece.cpus.first().and_then(|cpu| snapshot.machine.cpu(cpu)?.llc);
            let node_idx = position_or_push(&mut nodes, piece.node);
            let llcs = &mut nodes[node_idx].1;
            let llc_idx = position_or_push(llcs, llc);
            cells.push(((llcs[llc_idx].1, llc_idx, node_idx), piece));
            llcs[llc_idx].1 += 1;
        }
    }
    cells.sort_by_key(|(key, _)| *key);
    cells.into_iter().map(|(_, cell)| cell).collect()
}

/// Returns the position of the entry with this id; appends an entry if no entry has the id.
fn position_or_push<I: PartialEq, T: Default>(list: &mut Vec<(I, T)>, id: I) -> usize {
    list.iter().position(|(other, _)| *other == id).unwrap_or_else(|| {
        list.push((id, T::default()));
        list.len() - 1
    })
}

/// Returns a domain, or its LLC domains if the domain has several.
fn pieces(snapshot: &Snapshot<'_>, idx: usize, domain: &topology::Domain) -> Vec<Cell> {
    let whole = Cell {
        label: snapshot.domains.label(idx),
        cpus: domain.cpus.clone(),
        domain_cpus: domain.cpus.clone(),
        node: domain.node,
    };
    let in_llcs = snapshot.machine.llcs().iter().map(|llc| (llc, llc.cpus.and(&domain.cpus)));
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
