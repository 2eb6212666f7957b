//! Synthetic machines from one line of text, for tests, examples and the simulator.
//!
//! ```text
//!   nodes=2 llcs=2 cores=4 smt=2
//!
//!   node 0                              node 1
//!     llc 0           llc 1               llc 2           llc 3
//!       core 0 … 3      core 4 … 7          core 8 … 11     core 12 … 15
//!       cpu 0,1 … 6,7   cpu 8,9 … 14,15     …
//! ```
//!
//! `llcs` is the number of LLC domains per node, `cores` the number of cores per LLC domain, and `smt` the number of
//! CPUs per core. The default of each number is 1. CPUs are numbered node by node, cache by cache and core by core, so
//! SMT siblings have adjacent numbers. `mem` is the memory of each node, `llc` the size of each last-level cache (`0`:
//! the machine reports no caches), and `distance` the SLIT distance between two different nodes. `kinds=1024x2+512x2`
//! gives the capacities of the first four cores: two of 1024, two of 512. The list repeats until every core has a
//! capacity. Without it, all cores are of one kind. Every CPU is online and allowed. Half of the memory is free.

use std::str::FromStr;

use base::{
    Bytes, CoreId, CpuId, CpuSet, KeyValue, KeyValueError, LlcId, NodeId, SIZE_EXAMPLE, key_values,
};

use crate::{
    CAPACITY_MAX, Core, Cpu, DISTANCE_LOCAL, Llc, Machine, MachineError, MachineParts, Node,
};

/// Maximum number of CPUs of the kernel on x86 and Arm. A larger machine is a typing error.
const CPUS_MAX: u64 = 8192;
/// Maximum number of nodes of the kernel.
const NODES_MAX: u64 = 1024;
/// The largest distance in a SLIT; 255 means unreachable.
const DISTANCE_MAX: u64 = 254;
const KINDS_EXAMPLE: &str =
    "capacities with numbers of cores such as 1024x2+512x2; the largest is 1024";

/// Error in the text of a synthetic machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum SyntheticError {
    #[error(transparent)]
    Parameter(#[from] KeyValueError),
    #[error("{0} is defined twice")]
    DuplicateKey(&'static str),
    #[error("nodes × llcs × cores × smt is {0} CPUs; the maximum is {CPUS_MAX}")]
    TooManyCpus(u64),
    #[error(
        "kinds lists {listed} cores, and the machine has {cores}; write {}",
        kinds_remedy(*.listed, *.llcs)
    )]
    Kinds { listed: usize, cores: u64, llcs: u64 },
    #[error(transparent)]
    Machine(#[from] MachineError),
}

const KEYS: [&str; 8] = ["nodes", "llcs", "cores", "smt", "mem", "llc", "distance", "kinds"];

/// The parsed parameters.
struct Shape {
    n_nodes: u64,
    llcs_per_node: u64,
    cores_per_llc: u64,
    cpus_per_core: u64,
    node_memory: Bytes,
    llc_size: Bytes,
    distance: u32,
    /// Capacities of the first cores; repeated for all other cores.
    capacities: Vec<u32>,
}

impl Machine {
    /// Creates a machine from a line such as `nodes=2 llcs=2 cores=4 smt=2 mem=16G llc=32M distance=21`.
    pub fn synthetic(text: &str) -> Result<Machine, SyntheticError> {
        let shape = Shape::parse(text)?;
        let n_cpus = shape.n_cpus();
        if CPUS_MAX < n_cpus {
            return Err(SyntheticError::TooManyCpus(n_cpus));
        }
        let (listed, cores) = (shape.capacities.len(), n_cpus / shape.cpus_per_core);
        if !cores.is_multiple_of(listed as u64) {
            let llcs = shape.n_nodes * shape.llcs_per_node;
            return Err(SyntheticError::Kinds { listed, cores, llcs });
        }
        Ok(Machine::new(shape.parts(text))?)
    }
}

impl Shape {
    fn parse(text: &str) -> Result<Self, SyntheticError> {
        let mut shape = Shape {
            n_nodes: 1,
            llcs_per_node: 1,
            cores_per_llc: 1,
            cpus_per_core: 1,
            node_memory: Bytes::from_mib(16 << 10),
            llc_size: Bytes::from_mib(32),
            distance: 21,
            capacities: vec![CAPACITY_MAX],
        };
        let list = text.replace([' ', '\t', '\n'], ",");
        let mut defined = Vec::new();
        for pair in key_values(&list) {
            let unknown = || pair.unknown("a parameter of a machine", "", &KEYS);
            let key = KEYS.into_iter().find(|known| *known == pair.key).ok_or_else(unknown)?;
            if defined.contains(&key) {
                return Err(SyntheticError::DuplicateKey(key));
            }
            defined.push(key);
            match key {
                "nodes" => shape.n_nodes = number(&pair, 1, NODES_MAX)?,
                "llcs" => shape.llcs_per_node = number(&pair, 1, CPUS_MAX)?,
                "cores" => shape.cores_per_llc = number(&pair, 1, CPUS_MAX)?,
                "smt" => shape.cpus_per_core = number(&pair, 1, 8)?,
                "mem" => shape.node_memory = pair.parse(SIZE_EXAMPLE, |_| true)?,
                "llc" => shape.llc_size = pair.parse(SIZE_EXAMPLE, |_| true)?,
                "kinds" => shape.capacities = pair.parse(KINDS_EXAMPLE, has_fastest)?.0,
                _ => {
                    let local = u64::from(DISTANCE_LOCAL);
                    shape.distance = number(&pair, local + 1, DISTANCE_MAX)? as u32;
                }
            }
        }
        Ok(shape)
    }

    fn n_cpus(&self) -> u64 {
        // Each factor is at most 8192, so the product of four does not overflow.
        self.n_nodes * self.llcs_per_node * self.cores_per_llc * self.cpus_per_core
    }

    fn parts(&self, text: &str) -> MachineParts {
        let n_llcs = self.n_nodes * self.llcs_per_node;
        let n_cores = n_llcs * self.cores_per_llc;
        let known_llcs = if self.llc_size == Bytes::ZERO { 0 } else { n_llcs };
        MachineParts {
            name: name(text),
            nodes: (0..self.n_nodes).map(|node| self.node(node)).collect(),
            llcs: (0..known_llcs).map(|llc| self.llc(llc)).collect(),
            cores: (0..n_cores).map(|core| self.core(core)).collect(),
            cpus: (0..self.n_cpus()).map(cpu).collect(),
            nodes_allowed: (0..self.n_nodes).map(|node| NodeId(node as u32)).collect(),
            ..MachineParts::default()
        }
    }

    fn node(&self, number: u64) -> Node {
        let n_cpus = self.llcs_per_node * self.cores_per_llc * self.cpus_per_core;
        let distance_to = |to| if to == number { DISTANCE_LOCAL } else { self.distance };
        Node {
            id: NodeId(number as u32),
            cpus: cpus_of_part(number, n_cpus),
            memory: Some(self.node_memory),
            memory_free: Some(Bytes(self.node_memory.0 / 2)),
            distances: (0..self.n_nodes).map(|to| (NodeId(to as u32), distance_to(to))).collect(),
        }
    }

    fn llc(&self, number: u64) -> Llc {
        Llc {
            id: LlcId(number as u32),
            cpus: cpus_of_part(number, self.cores_per_llc * self.cpus_per_core),
            node: Some(NodeId((number / self.llcs_per_node) as u32)),
            size: Some(self.llc_size),
            level: 3,
        }
    }

    fn core(&self, number: u64) -> Core {
        Core {
            id: CoreId(number as u32),
            cpus: cpus_of_part(number, self.cpus_per_core),
            kind: self.kind(self.capacity(number)),
            capacity: self.capacity(number),
        }
    }

    fn capacity(&self, core: u64) -> u32 {
        self.capacities[core as usize % self.capacities.len()]
    }

    fn kind(&self, capacity: u32) -> String {
        match self.capacities.iter().all(|&other| other == capacity) {
            true => "uniform".to_owned(),
            false => format!("capacity-{capacity}"),
        }
    }
}

/// Returns the numbers of cores per LLC domain of which the machine has a multiple of the list.
fn kinds_remedy(listed: usize, llcs: u64) -> String {
    let (mut divisor, mut rest) = (listed as u64, llcs);
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    let per_llc = listed as u64 / divisor;
    format!("cores={per_llc}, or another multiple of {per_llc}")
}

fn has_fastest(list: &Capacities) -> bool {
    list.0.contains(&CAPACITY_MAX)
}

/// Capacities of cores: `1024x2+512x2`.
struct Capacities(Vec<u32>);

impl FromStr for Capacities {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut list = Vec::new();
        for part in text.split('+') {
            let (capacity, n_cores) = part.split_once('x').ok_or(())?;
            let capacity: u32 = capacity.parse().map_err(drop)?;
            let n_cores: usize = n_cores.parse().map_err(drop)?;
            if !(1..=CAPACITY_MAX).contains(&capacity) || CPUS_MAX < n_cores as u64 || n_cores == 0
            {
                return Err(());
            }
            list.resize(list.len() + n_cores, capacity);
            if CPUS_MAX < list.len() as u64 {
                return Err(());
            }
        }
        Ok(Capacities(list))
    }
}

fn name(text: &str) -> String {
    std::iter::once("synthetic").chain(text.split_whitespace()).collect::<Vec<_>>().join(" ")
}

fn cpu(number: u64) -> Cpu {
    Cpu { id: CpuId(number as u32), online: true, allowed: true, ..Cpu::default() }
}

/// Returns the CPUs of part number `part`, if every part has `n_cpus` CPUs.
fn cpus_of_part(part: u64, n_cpus: u64) -> CpuSet {
    (part * n_cpus..(part + 1) * n_cpus).map(|cpu| CpuId(cpu as u32)).collect()
}

fn number(pair: &KeyValue<'_>, min: u64, max: u64) -> Result<u64, KeyValueError> {
    let digits = pair.value.bytes().all(|byte| byte.is_ascii_digit());
    let is_valid = |value: &u64| digits && (min..=max).contains(value);
    pair.parse(format_args!("an integer from {min} to {max}"), is_valid)
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;
    use proptest::prelude::*;

    use super::*;

    /// Compares the nodes, caches and cores of each machine of a transcript, or its error.
    #[test]
    fn synthetic_machines() {
        let parts = |text: &str| match Machine::synthetic(text) {
            Ok(machine) => {
                let nodes = machine.nodes().iter();
                let nodes = nodes.map(|n| format!("{} {} {:?}\n", n.id, n.cpus, n.distances));
                let llcs = machine.llcs().iter();
                let llcs = llcs.map(|l| format!("{} {} {:?}\n", l.id, l.cpus, l.node));
                let kind = |c: &Core| match c.kind.as_str() {
                    "uniform" => String::new(),
                    kind => format!(" {kind} {}", c.capacity),
                };
                let cores = machine.cores().iter();
                let cores = cores.map(|c| format!("{} {}{}\n", c.id, c.cpus, kind(c)));
                nodes.chain(llcs).chain(cores).collect()
            }
            Err(error) => error.to_string(),
        };
        let cases = expect_file!["../cases/synthetic.txt"];
        cases.assert_eq(&base::transcript(&cases.data(), parts));
    }

    proptest! {
        #[test]
        fn any_text_gives_a_machine_or_an_error(text in "[a-z0-9= ,]{0,40}") {
            let _ = Machine::synthetic(&text);
        }

        #[test]
        fn every_cpu_is_on_one_node_one_llc_and_one_core(
            nodes in 1u32..5, llcs in 1u32..4, cores in 1u32..4, smt in 1u32..3,
        ) {
            let text = format!("nodes={nodes} llcs={llcs} cores={cores} smt={smt}");
            let machine = Machine::synthetic(&text).expect("a small machine");
            prop_assert_eq!(machine.cpus().len() as u32, nodes * llcs * cores * smt);
            for cpu in machine.cpus() {
                let llc = cpu.llc.and_then(|id| machine.llc(id)).expect("every CPU has an LLC domain");
                prop_assert!(llc.cpus.contains(cpu.id) && llc.node == cpu.node);
                prop_assert!(machine.core(cpu.core.expect("online")).is_some());
            }
        }
    }
}
