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
//! `llcs` is per node, `cores` per LLC domain, `smt` CPUs per core; the default is 1. CPUs are numbered node by
//! node, cache by cache and core by core, so SMT siblings have adjacent numbers. `mem` is the memory of each
//! node, `llc` the size of each last-level cache (`0`: the machine reports no caches), and `distance` the SLIT
//! distance between two different nodes. Every CPU is online and allowed. Half of the memory is free.

use base::suggest::did_you_mean;
use base::{Bytes, CoreId, CpuId, CpuSet, LlcId, NodeId};

use crate::{Core, Cpu, DISTANCE_LOCAL, Llc, Machine, MachineError, MachineParts, Node};

/// The limit of the kernel on x86 and ARM. A larger machine is a typing error.
const CPUS_MAX: u64 = 8192;
/// The limit of the kernel.
const NODES_MAX: u64 = 1024;
/// The largest distance in a SLIT; 255 means unreachable.
const DISTANCE_MAX: u64 = 254;

/// The error of a text that is not a synthetic machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyntheticError {
    /// Not `key=value`.
    #[error("{0:?} is not key=value; write for example \"nodes=2 llcs=2 cores=4 smt=2\"")]
    NotAPair(String),
    /// An unknown key.
    #[error("unknown key {:?}; {}", .0, did_you_mean(.0, KEYS))]
    UnknownKey(String),
    /// A key that occurs twice.
    #[error("{0} is defined twice")]
    DuplicateKey(&'static str),
    /// A value that is not a number, or is out of range.
    #[error("{key}={value}: {expected}")]
    Value {
        /// The key.
        key: &'static str,
        /// The value as written.
        value: String,
        /// The accepted values.
        expected: String,
    },
    /// Too many CPUs.
    #[error("nodes × llcs × cores × smt is {0} CPUs; the most is {CPUS_MAX}")]
    TooManyCpus(u64),
    /// An internal error of this module.
    #[error(transparent)]
    Machine(#[from] MachineError),
}

const KEYS: [&str; 7] = ["nodes", "llcs", "cores", "smt", "mem", "llc", "distance"];

/// The parsed parameters.
struct Shape {
    n_nodes: u64,
    llcs_per_node: u64,
    cores_per_llc: u64,
    cpus_per_core: u64,
    node_memory: Bytes,
    llc_size: Bytes,
    distance: u32,
}

impl Machine {
    /// A machine from a line such as `nodes=2 llcs=2 cores=4 smt=2 mem=16G llc=32M distance=21`.
    pub fn synthetic(text: &str) -> Result<Machine, SyntheticError> {
        let shape = Shape::parse(text)?;
        let n_cpus = shape.n_cpus();
        if CPUS_MAX < n_cpus {
            return Err(SyntheticError::TooManyCpus(n_cpus));
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
        };
        let mut seen = Vec::new();
        for pair in text.split([' ', ',', '\t', '\n']).filter(|pair| !pair.is_empty()) {
            let reject = || SyntheticError::NotAPair(pair.to_owned());
            let (key, value) = pair.split_once('=').ok_or_else(reject)?;
            let key = known(key)?;
            if seen.contains(&key) {
                return Err(SyntheticError::DuplicateKey(key));
            }
            seen.push(key);
            shape.set(key, value)?;
        }
        Ok(shape)
    }

    fn set(&mut self, key: &'static str, value: &str) -> Result<(), SyntheticError> {
        match key {
            "nodes" => self.n_nodes = number(key, value, 1, NODES_MAX)?,
            "llcs" => self.llcs_per_node = number(key, value, 1, CPUS_MAX)?,
            "cores" => self.cores_per_llc = number(key, value, 1, CPUS_MAX)?,
            "smt" => self.cpus_per_core = number(key, value, 1, 8)?,
            "mem" => self.node_memory = size(key, value)?,
            "llc" => self.llc_size = size(key, value)?,
            _ => {
                let local = u64::from(DISTANCE_LOCAL);
                self.distance = number(key, value, local + 1, DISTANCE_MAX)? as u32;
            }
        }
        Ok(())
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
        let apart = |to| if to == number { DISTANCE_LOCAL } else { self.distance };
        Node {
            id: NodeId(number as u32),
            cpus: run_of(number, n_cpus),
            memory: Some(self.node_memory),
            memory_free: Some(Bytes(self.node_memory.0 / 2)),
            distances: (0..self.n_nodes).map(|to| (NodeId(to as u32), apart(to))).collect(),
        }
    }

    fn llc(&self, number: u64) -> Llc {
        Llc {
            id: LlcId(number as u32),
            cpus: run_of(number, self.cores_per_llc * self.cpus_per_core),
            node: Some(NodeId((number / self.llcs_per_node) as u32)),
            size: Some(self.llc_size),
            level: 3,
        }
    }

    fn core(&self, number: u64) -> Core {
        Core {
            id: CoreId(number as u32),
            cpus: run_of(number, self.cpus_per_core),
            kind: "uniform".to_owned(),
            capacity: 1024,
        }
    }
}

fn name(text: &str) -> String {
    std::iter::once("synthetic").chain(text.split_whitespace()).collect::<Vec<_>>().join(" ")
}

fn cpu(number: u64) -> Cpu {
    Cpu { id: CpuId(number as u32), online: true, allowed: true, ..Cpu::default() }
}

/// The CPUs of part number `part` if every part has `n_cpus`.
fn run_of(part: u64, n_cpus: u64) -> CpuSet {
    (part * n_cpus..(part + 1) * n_cpus).map(|cpu| CpuId(cpu as u32)).collect()
}

fn known(key: &str) -> Result<&'static str, SyntheticError> {
    let exact = KEYS.into_iter().find(|known| *known == key);
    exact.ok_or_else(|| SyntheticError::UnknownKey(key.to_owned()))
}

fn number(key: &'static str, text: &str, min: u64, max: u64) -> Result<u64, SyntheticError> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let value = text.parse::<u64>().ok().filter(|value| digits && (min..=max).contains(value));
    value.ok_or_else(|| SyntheticError::Value {
        key,
        value: text.to_owned(),
        expected: format!("write an integer from {min} to {max}"),
    })
}

fn size(key: &'static str, text: &str) -> Result<Bytes, SyntheticError> {
    text.parse::<Bytes>().map_err(|error| SyntheticError::Value {
        key,
        value: text.to_owned(),
        expected: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;

    /// The nodes, caches and cores of each machine of a transcript, or its error.
    fn check(expected: Expect) {
        let parts = |text: &str| match Machine::synthetic(text) {
            Ok(machine) => {
                let nodes = machine.nodes().iter();
                let nodes = nodes.map(|n| format!("{} {} {:?}\n", n.id, n.cpus, n.distances));
                let llcs = machine.llcs().iter();
                let llcs = llcs.map(|l| format!("{} {} {:?}\n", l.id, l.cpus, l.node));
                let cores = machine.cores().iter().map(|c| format!("{} {}\n", c.id, c.cpus));
                nodes.chain(llcs).chain(cores).collect()
            }
            Err(error) => error.to_string(),
        };
        expected.assert_eq(&base::transcript(expected.data(), parts));
    }

    #[test]
    fn cpus_are_numbered_node_by_node_and_smt_siblings_are_adjacent() {
        check(expect![[r#"
            > nodes=2 llcs=2 cores=1 smt=2
            node0 0-3 {NodeId(0): 10, NodeId(1): 21}
            node1 4-7 {NodeId(0): 21, NodeId(1): 10}
            llc0 0-1 Some(NodeId(0))
            llc1 2-3 Some(NodeId(0))
            llc2 4-5 Some(NodeId(1))
            llc3 6-7 Some(NodeId(1))
            core0 0-1
            core1 2-3
            core2 4-5
            core3 6-7
        "#]]);
    }

    #[test]
    fn an_empty_text_is_one_cpu_and_a_cache_of_size_zero_is_unknown() {
        check(expect![[r#"
            >
            node0 0 {NodeId(0): 10}
            llc0 0 Some(NodeId(0))
            core0 0
            > cores=2 llc=0
            node0 0-1 {NodeId(0): 10}
            core0 0
            core1 1
        "#]]);
    }

    #[test]
    fn invalid_machines_are_rejected_with_a_valid_value() {
        check(expect![[r#"
            > nodes=0
            nodes=0: write an integer from 1 to 1024
            > nodes=-1
            nodes=-1: write an integer from 1 to 1024
            > nodes=2000
            nodes=2000: write an integer from 1 to 1024
            > nodes=+2
            nodes=+2: write an integer from 1 to 1024
            > smt=9
            smt=9: write an integer from 1 to 8
            > cores=99999999999999999999
            cores=99999999999999999999: write an integer from 1 to 8192
            > nodes=1024 llcs=8192 cores=8192 smt=8
            nodes × llcs × cores × smt is 549755813888 CPUs; the most is 8192
            > core=4
            unknown key "core"; did you mean "cores"?
            > nodes
            "nodes" is not key=value; write for example "nodes=2 llcs=2 cores=4 smt=2"
            > nodes=2 nodes=2
            nodes is defined twice
            > mem=lots
            mem=lots: "lots" is not a size; write bytes, or a number with K, M, G or T such as 64M
            > distance=10
            distance=10: write an integer from 11 to 254
            > coers=4
            unknown key "coers"; did you mean "cores"?
            > nodes=x
            nodes=x: write an integer from 1 to 1024
            > nodes=100 cores=100
            nodes × llcs × cores × smt is 10000 CPUs; the most is 8192
        "#]]);
    }

    proptest! {
        #[test]
        fn any_text_is_a_machine_or_an_error(text in "[a-z0-9= ,]{0,40}") {
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
