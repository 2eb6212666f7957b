//! The machine as the physics needs it: numbers in dense tables instead of ids and sets.
//!
//! ```text
//!   cpu ─► core (GHz, siblings) ─► cache (bytes) ─► home node
//!                                     │
//!                        way[node of the CPU][node of the memory]:
//!                        nanoseconds more than at the controller, and the link on the way
//! ```
//!
//! A machine file may leave out any figure. What is then assumed is said in words
//! ([`Hardware::assumed`]), so that a result that stands on guesses can say so.

use base::{Bytes, CpuId, CpuSet, NodeId};
use topology::Machine;

use crate::physics::{Channel, Fitted};

/// Cycles per nanosecond of a core that nobody told of. Guessed: a server's usual speed under load.
const GHZ: f64 = 2.4;
/// How fast a CPU is beside a busy sibling. Guessed: two threads of a core together do a quarter to a
/// third more than one.
const SMT_SHARE: f64 = 0.62;
/// Nanoseconds of a miss to the own node's memory. Guessed: servers of the last ten years have 70 to 120.
const LOCAL_NS: f64 = 90.0;
/// Peak bytes per nanosecond of a controller for each core near it. Guessed: a channel of DDR4 or DDR5 for
/// three to five cores.
const CAP_PER_CORE: f64 = 8.0;
/// Bytes of last-level cache of a core on a machine that tells of no caches. Guessed.
const CACHE_BYTES: f64 = 1024.0 * 1024.0;
/// Memory of a node that nobody told of.
const MEMORY: Bytes = Bytes(64 << 30);
/// The firmware's number for a distance that nobody told.
const DISTANCE: u32 = 20;

/// A machine in tables. CPUs, cores, caches and nodes are named by their place in them.
#[derive(Clone, Debug)]
pub struct Hardware {
    /// By place, in the order of their numbers; those online when it was read.
    pub cpus: Vec<Cpu>,
    /// Cores, each with its CPUs.
    pub cores: Vec<Vec<usize>>,
    /// Last-level caches.
    pub caches: Vec<Cache>,
    /// Nodes; at least one.
    pub nodes: Vec<Node>,
    /// Links between nodes whose bandwidth is known.
    pub links: Vec<Link>,
    /// From the node of a CPU (row) to the node of memory (column).
    ways: Vec<Way>,
    /// Place of each CPU by its number.
    place_of: Vec<Option<usize>>,
    assumed: Vec<String>,
}

/// A CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cpu {
    /// Its number.
    pub id: CpuId,
    /// Its core.
    pub core: usize,
    /// Its last-level cache.
    pub cache: usize,
    /// Its node.
    pub node: usize,
    /// Cycles in a nanosecond.
    pub ghz: f64,
    /// How fast it is while a sibling is busy, as a part of alone.
    pub smt_share: f64,
}

/// A last-level cache.
#[derive(Clone, Debug, PartialEq)]
pub struct Cache {
    /// Its size.
    pub bytes: f64,
    /// Its CPUs.
    pub cpus: Vec<usize>,
    /// Which of the sizes that there are.
    kind: usize,
}

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its number; none on a machine that tells of no nodes.
    pub id: Option<NodeId>,
    /// Its CPUs.
    pub cpus: Vec<usize>,
    /// The last-level caches of these, rising.
    pub caches: Vec<usize>,
    /// Its memory.
    pub memory: Bytes,
    /// Its memory controller.
    pub channel: Channel,
    /// Other nodes in the order in which memory comes from them when there is none left here.
    pub nearest: Vec<usize>,
}

/// What lies between two nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Way {
    /// Nanoseconds more than an access of the memory's own node takes.
    pub more_ns: f64,
    /// The link that is used, if its bandwidth is known.
    pub link: Option<usize>,
    /// What the firmware calls the distance.
    pub distance: u32,
}

/// A link, in one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// From the node of the CPUs.
    pub from: usize,
    /// To the node of the memory.
    pub to: usize,
    /// How it queues; its unloaded time is nothing, since that stands in [`Way::more_ns`].
    pub channel: Channel,
}

impl Hardware {
    /// The tables of a machine.
    pub fn new(machine: &Machine) -> Self {
        let mut hardware = Hardware {
            cpus: Vec::new(),
            cores: Vec::new(),
            caches: Vec::new(),
            nodes: Vec::new(),
            links: Vec::new(),
            ways: Vec::new(),
            place_of: Vec::new(),
            assumed: Vec::new(),
        };
        hardware.add_nodes(machine);
        hardware.add_cpus(machine);
        hardware.add_caches(machine);
        hardware.add_ways(machine);
        hardware
    }

    /// What was guessed because the machine file does not tell it, a sentence each.
    pub fn assumed(&self) -> &[String] {
        &self.assumed
    }

    /// What lies between a CPU's node and memory.
    pub fn way(&self, from: usize, to: usize) -> &Way {
        &self.ways[from * self.nodes.len() + to]
    }

    /// The place of a CPU.
    pub fn place(&self, cpu: CpuId) -> Option<usize> {
        self.place_of.get(cpu.index()).copied().flatten()
    }

    /// The place of a node.
    pub fn node_place(&self, id: NodeId) -> Option<usize> {
        self.nodes.iter().position(|node| node.id == Some(id))
    }

    /// The different sizes of its caches, rising.
    pub fn cache_sizes(&self) -> Vec<f64> {
        let mut sizes: Vec<f64> = self.caches.iter().map(|cache| cache.bytes).collect();
        sizes.sort_by(f64::total_cmp);
        sizes.dedup();
        sizes
    }

    /// Which of [`Hardware::cache_sizes`] a cache has.
    pub fn cache_kind(&self, cache: usize) -> usize {
        self.caches[cache].kind
    }

    /// The places of a set of CPUs, rising.
    pub fn places(&self, cpus: &CpuSet) -> Vec<usize> {
        cpus.iter().filter_map(|cpu| self.place(cpu)).collect()
    }

    fn add_nodes(&mut self, machine: &Machine) {
        let anonymous = [topology::Node::default()];
        let told = if machine.nodes().is_empty() { &anonymous[..] } else { machine.nodes() };
        let is_told = !machine.nodes().is_empty();
        for node in told {
            if node.memory.is_none() {
                self.assume(format!("{} of memory on each node", MEMORY));
            }
            let access = machine.perf_attributes().accesses.iter();
            let own = access.clone().find(|a| is_told && a.from == node.id && a.to == node.id);
            let told_ns = own.and_then(|access| access.latency_ns);
            let told_cap = own.and_then(|access| access.bandwidth_bytes_per_s);
            let n_cores = machine.cores().iter().filter(|c| c.cpus.intersects(&node.cpus)).count();
            let cap = CAP_PER_CORE * n_cores.max(1) as f64;
            if told_ns.is_none() {
                self.assume(format!("{LOCAL_NS} ns for a miss to the own node's memory"));
            }
            if told_cap.is_none() {
                self.assume(format!("{CAP_PER_CORE} GB/s of memory bandwidth for each core"));
            }
            let ns = told_ns.map_or(LOCAL_NS, |figure| figure.value as f64);
            let cap = told_cap.map_or(cap, |figure| figure.value as f64 / 1e9);
            self.nodes.push(Node {
                id: is_told.then_some(node.id),
                cpus: Vec::new(),
                caches: Vec::new(),
                memory: node.memory.unwrap_or(MEMORY),
                channel: Fitted::default().channel(ns, cap),
                nearest: Vec::new(),
            });
        }
    }

    fn add_cpus(&mut self, machine: &Machine) {
        for cpu in machine.cpus().iter().filter(|cpu| cpu.online) {
            let place = self.cpus.len();
            if self.place_of.len() <= cpu.id.index() {
                self.place_of.resize(cpu.id.index() + 1, None);
            }
            self.place_of[cpu.id.index()] = Some(place);
            let node = cpu.node.and_then(|id| self.node_place(id)).unwrap_or(0);
            self.nodes[node].cpus.push(place);
            self.cpus.push(Cpu { id: cpu.id, core: 0, cache: 0, node, ghz: GHZ, smt_share: 1.0 });
        }
        for core in machine.cores() {
            let known =
                machine.perf_attributes().kinds.get(&core.kind).copied().unwrap_or_default();
            if known.frequency_mhz.is_none() {
                self.assume(format!("{GHZ} GHz for the fastest cores"));
            }
            let fastest = GHZ * f64::from(core.capacity) / 1024.0;
            let ghz = known.frequency_mhz.map_or(fastest, |figure| figure.value as f64 / 1000.0);
            let cpus = self.places(&core.cpus);
            let share = known.smt_permille.map(|figure| figure.value as f64 / 1000.0);
            if 1 < cpus.len() && share.is_none() {
                self.assume(format!("{SMT_SHARE} of its speed for a CPU beside a busy sibling"));
            }
            for &cpu in &cpus {
                self.cpus[cpu].core = self.cores.len();
                self.cpus[cpu].ghz = ghz;
                self.cpus[cpu].smt_share = share.unwrap_or(SMT_SHARE);
            }
            self.cores.push(cpus);
        }
        if machine.cores().is_empty() {
            self.assume(format!("{GHZ} GHz for the fastest cores"));
            for cpu in 0..self.cpus.len() {
                self.cpus[cpu].core = cpu;
                self.cores.push(vec![cpu]);
            }
        }
    }

    fn add_caches(&mut self, machine: &Machine) {
        let mut has_one = vec![false; self.cpus.len()];
        for llc in machine.llcs() {
            if llc.size.is_none() {
                self.assume(format!("{} for each last-level cache", Bytes(CACHE_BYTES as u64)));
            }
            let bytes = llc.size.map_or(CACHE_BYTES, |bytes| bytes.0 as f64);
            self.add_cache(bytes, self.places(&llc.cpus), &mut has_one);
        }
        for core in 0..self.cores.len() {
            let bare = self.cores[core].iter().copied().filter(|&cpu| !has_one[cpu]);
            let bare: Vec<usize> = bare.collect();
            if !bare.is_empty() {
                self.assume(format!("{} of cache for each core", Bytes(CACHE_BYTES as u64)));
                self.add_cache(CACHE_BYTES, bare, &mut has_one);
            }
        }
        for node in &mut self.nodes {
            node.caches = node.cpus.iter().map(|&cpu| self.cpus[cpu].cache).collect();
            node.caches.sort_unstable();
            node.caches.dedup();
        }
        let sizes = self.cache_sizes();
        for cache in &mut self.caches {
            cache.kind = sizes.partition_point(|&bytes| bytes < cache.bytes);
        }
    }

    fn add_cache(&mut self, bytes: f64, cpus: Vec<usize>, has_one: &mut [bool]) {
        for &cpu in &cpus {
            self.cpus[cpu].cache = self.caches.len();
            has_one[cpu] = true;
        }
        self.caches.push(Cache { bytes, cpus, kind: 0 });
    }

    fn add_ways(&mut self, machine: &Machine) {
        let n_nodes = self.nodes.len();
        self.ways = vec![Way::default(); n_nodes * n_nodes];
        for from in 0..n_nodes {
            for to in 0..n_nodes {
                let way = self.way_of(machine, from, to);
                self.ways[from * n_nodes + to] = way;
            }
        }
        let mut turns = vec![0; n_nodes];
        for from in 0..n_nodes {
            self.nodes[from].nearest = self.fallbacks(from, &mut turns);
        }
    }

    /// Where memory comes from when a node has none left, in the order of the kernel's zone lists
    /// (`find_next_best_node`, `build_zonelists`): the nearest first; of nodes as far away those with higher numbers
    /// before those with lower ones, and of these first which was not the first choice of others.
    fn fallbacks(&self, from: usize, turns: &mut [u32]) -> Vec<usize> {
        let mut left: Vec<usize> = (0..self.nodes.len()).filter(|&to| to != from).collect();
        let mut order: Vec<usize> = Vec::with_capacity(left.len());
        let mut before = topology::DISTANCE_LOCAL;
        let cost = |to: usize| {
            let has_cpus = u32::from(!self.nodes[to].cpus.is_empty());
            self.way(from, to).distance.saturating_add(u32::from(to < from) + has_cpus)
        };
        while let Some(best) = left.iter().copied().min_by_key(|&to| (cost(to), turns[to], to)) {
            left.retain(|&to| to != best);
            let distance = self.way(from, best).distance;
            turns[best] += u32::from(distance != before);
            before = distance;
            order.push(best);
        }
        order
    }

    fn way_of(&mut self, machine: &Machine, from: usize, to: usize) -> Way {
        let distance_of = |from: usize, to: usize| -> Option<u32> {
            let told = machine.node(self.nodes[from].id?)?;
            told.distances.get(&self.nodes[to].id?).copied()
        };
        if from == to {
            return Way { distance: topology::DISTANCE_LOCAL, ..Way::default() };
        }
        let distance = distance_of(from, to).unwrap_or(DISTANCE);
        let (Some(one), Some(other)) = (self.nodes[from].id, self.nodes[to].id) else {
            return Way { distance, ..Way::default() };
        };
        let told =
            machine.perf_attributes().accesses.iter().find(|a| a.from == one && a.to == other);
        let local_ns = self.nodes[to].channel.unloaded_ns;
        let told_ns = told.and_then(|access| access.latency_ns).map(|figure| figure.value as f64);
        if told_ns.is_none() {
            self.assume("that latencies between nodes are in proportion to distances".to_owned());
        }
        let ns = told_ns.unwrap_or(local_ns * f64::from(distance) / 10.0);
        let cap = told.and_then(|access| access.bandwidth_bytes_per_s);
        let link = cap.map(|cap| {
            let channel = Fitted::default().channel(local_ns, cap.value as f64 / 1e9);
            self.links.push(Link { from, to, channel: Channel { unloaded_ns: 0.0, ..channel } });
            self.links.len() - 1
        });
        Way { more_ns: (ns - local_ns).max(0.0), link, distance }
    }

    fn assume(&mut self, what: String) {
        if !self.assumed.contains(&what) {
            self.assumed.push(what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_nodes_as_far_away_memory_comes_from_the_next_one_first() {
        let ring = |from: u32| {
            let hops = |to: u32| from.abs_diff(to).min(4 - from.abs_diff(to));
            let to: Vec<String> =
                (0..4).map(|to| format!("{to} = {}", 10 + 10 * hops(to))).collect();
            let distances = to.join(", ");
            format!("{{ id = {from}, cpus = \"{from}\", distances = {{ {distances} }} }}")
        };
        let nodes: Vec<String> = (0..4).map(ring).collect();
        let list = |of: &str| -> Vec<String> {
            (0..4)
                .map(|id| format!("{{ id = {id}{} }}", of.replace('N', &id.to_string())))
                .collect()
        };
        let text = format!(
            "format_version = 1\nnodes = [{}]\ncores = [{}]\ncpus = [{}]\n",
            nodes.join(", "),
            list(", cpus = \"N\"").join(", "),
            list("").join(", ")
        );
        let machine = topology::file::parse_toml(&text, "ring").expect("a machine");
        let hardware = Hardware::new(&machine);
        let nearest = |node: usize| hardware.nodes[node].nearest.clone();
        assert_eq!(nearest(0), [1, 3, 2]);
        assert_eq!(nearest(1), [2, 0, 3]);
        assert_eq!(nearest(2), [3, 1, 0]);
        // Both neighbours have lower numbers; node 2 was the first choice of node 1 already.
        assert_eq!(nearest(3), [0, 2, 1]);
    }
}
