//! Hardware of the simulated machine in dense tables, for the physics.
//!
//! ```text
//!   cpu ─► core (GHz, siblings) ─► cache (bytes) ─► local node
//!                                     │
//!                        path[node of the CPU][node of the memory]:
//!                        extra latency in nanoseconds, and the interconnect link
//! ```
//!
//! A machine file may omit values. [`Hardware::assumed`] describes the values that are assumed instead, so that
//! reports can print them. CPUs, cores, caches and nodes are identified by their index.

use base::{Bytes, CpuId, CpuSet, NodeId};
use topology::Machine;

use crate::physics::{Calibration, Channel};

/// Frequency of a core if the machine file has none, in GHz. Guessed: a typical value of servers under load.
const GHZ: f64 = 2.4;
/// Speed of a CPU with a busy SMT sibling, relative to its speed with an idle sibling. Guessed: two threads on a core
/// are a quarter to a third faster than one thread.
const SMT_SHARE: f64 = 0.62;
/// Unloaded latency of local memory in nanoseconds. Guessed: servers of the last ten years have 70 to 120.
const LOCAL_NS: f64 = 90.0;
/// Peak bandwidth of a node's memory per core, in bytes per nanosecond. Guessed: three to five cores share one
/// channel of DDR4 or DDR5.
const CAP_PER_CORE: f64 = 8.0;
/// Last-level cache per core on a machine without known caches, in bytes (guessed).
const CACHE_BYTES: f64 = 1024.0 * 1024.0;
/// Memory of a node with an unknown size (guessed).
const MEMORY: Bytes = Bytes(64 << 30);
/// SLIT distance between two nodes with an unknown distance (guessed).
const DISTANCE: u32 = 20;

/// Tables of a machine.
#[derive(Clone, Debug)]
pub struct Hardware {
    /// CPUs that were online when the machine was read, sorted by number.
    pub cpus: Vec<HardwareCpu>,
    /// The CPUs of each core.
    pub cores: Vec<Vec<usize>>,
    /// Last-level caches.
    pub caches: Vec<Cache>,
    /// NUMA nodes; at least one.
    pub nodes: Vec<HardwareNode>,
    /// Interconnect links with known bandwidth.
    pub links: Vec<Link>,
    /// Paths between nodes. The row is the node of the CPU, the column the node of the memory.
    paths: Vec<NodePath>,
    /// Index of each CPU by its number.
    index_of: Vec<Option<usize>>,
    assumed: Vec<String>,
}

/// A logical CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HardwareCpu {
    /// Number of the CPU.
    pub id: CpuId,
    /// Index of the core.
    pub core: usize,
    /// Index of the last-level cache.
    pub cache: usize,
    /// Index of the node.
    pub node: usize,
    /// Frequency in GHz.
    pub ghz: f64,
    /// Speed of the CPU with a busy SMT sibling, relative to its speed with an idle sibling.
    pub smt_speed: f64,
}

/// A last-level cache.
#[derive(Clone, Debug, PartialEq)]
pub struct Cache {
    /// Size in bytes.
    pub bytes: f64,
    /// CPUs that share the cache.
    pub cpus: Vec<usize>,
    /// Index of the size in [`Hardware::cache_sizes`].
    size_index: usize,
}

/// A NUMA node.
#[derive(Clone, Debug, PartialEq)]
pub struct HardwareNode {
    /// Number of the node; absent on a machine that reports no nodes.
    pub id: Option<NodeId>,
    /// CPUs of the node.
    pub cpus: Vec<usize>,
    /// Last-level caches of these CPUs, sorted.
    pub caches: Vec<usize>,
    /// Memory of the node.
    pub memory: Bytes,
    /// Memory controller and channels of the node.
    pub channel: Channel,
    /// All other nodes in the order of the kernel's fallback list (zonelist).
    pub fallback_order: Vec<usize>,
}

/// The path from the CPUs of one node to the memory of another.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodePath {
    /// Difference between the latency of this path and the latency of local memory, in nanoseconds.
    pub extra_ns: f64,
    /// The link on the path, if its bandwidth is known.
    pub link: Option<usize>,
    /// SLIT distance.
    pub distance: u32,
}

/// An interconnect link in one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// The node of the CPUs.
    pub from: usize,
    /// The node of the memory.
    pub to: usize,
    /// Bandwidth and queueing of the link. Its unloaded latency is zero; see [`NodePath::extra_ns`].
    pub channel: Channel,
}

impl Hardware {
    /// Returns the tables of a machine.
    pub fn new(machine: &Machine) -> Self {
        let mut hardware = Hardware {
            cpus: Vec::new(),
            cores: Vec::new(),
            caches: Vec::new(),
            nodes: Vec::new(),
            links: Vec::new(),
            paths: Vec::new(),
            index_of: Vec::new(),
            assumed: Vec::new(),
        };
        hardware.add_nodes(machine);
        hardware.add_cpus(machine);
        hardware.add_caches(machine);
        hardware.add_paths(machine);
        hardware
    }

    /// Returns a phrase for each assumed value.
    pub fn assumed(&self) -> &[String] {
        &self.assumed
    }

    /// Returns the path from the node of a CPU to the node of the memory.
    pub fn path_between(&self, from: usize, to: usize) -> &NodePath {
        &self.paths[from * self.nodes.len() + to]
    }

    /// Returns the index of a CPU.
    pub fn cpu_index(&self, cpu: CpuId) -> Option<usize> {
        self.index_of.get(cpu.index()).copied().flatten()
    }

    /// Returns the index of a node.
    pub fn node_index(&self, id: NodeId) -> Option<usize> {
        self.nodes.iter().position(|node| node.id == Some(id))
    }

    /// Returns the distinct cache sizes in ascending order.
    pub fn cache_sizes(&self) -> Vec<f64> {
        let mut sizes: Vec<f64> = self.caches.iter().map(|cache| cache.bytes).collect();
        sizes.sort_by(f64::total_cmp);
        sizes.dedup();
        sizes
    }

    /// Returns the index of a cache's size in [`Hardware::cache_sizes`].
    pub fn cache_size_index(&self, cache: usize) -> usize {
        self.caches[cache].size_index
    }

    /// Returns the indexes of a set of CPUs in ascending order.
    pub fn cpu_indices(&self, cpus: &CpuSet) -> Vec<usize> {
        cpus.iter().filter_map(|cpu| self.cpu_index(cpu)).collect()
    }

    fn add_nodes(&mut self, machine: &Machine) {
        let anonymous = [topology::Node::default()];
        let listed = if machine.nodes().is_empty() { &anonymous[..] } else { machine.nodes() };
        let has_nodes = !machine.nodes().is_empty();
        for node in listed {
            if node.memory.is_none() {
                self.assume(format!("{} of memory on each node", MEMORY));
            }
            let access = machine.perf_attributes().accesses.iter();
            let own = access.clone().find(|a| has_nodes && a.from == node.id && a.to == node.id);
            let known_ns = own.and_then(|access| access.latency_ns);
            let known_capacity = own.and_then(|access| access.bandwidth_bytes_per_s);
            let n_cores = machine.cores().iter().filter(|c| c.cpus.intersects(&node.cpus)).count();
            let capacity = CAP_PER_CORE * n_cores.max(1) as f64;
            if known_ns.is_none() {
                self.assume(format!("{LOCAL_NS} ns for a miss to local memory"));
            }
            if known_capacity.is_none() {
                self.assume(format!("{CAP_PER_CORE} GB/s of memory bandwidth for each core"));
            }
            let ns = known_ns.map_or(LOCAL_NS, |ns| ns.value as f64);
            let capacity =
                known_capacity.map_or(capacity, |bandwidth| bandwidth.value as f64 / 1e9);
            self.nodes.push(HardwareNode {
                id: has_nodes.then_some(node.id),
                cpus: Vec::new(),
                caches: Vec::new(),
                memory: node.memory.unwrap_or(MEMORY),
                channel: Calibration::default().channel(ns, capacity),
                fallback_order: Vec::new(),
            });
        }
    }

    fn add_cpus(&mut self, machine: &Machine) {
        for cpu in machine.cpus().iter().filter(|cpu| cpu.online) {
            let cpu_idx = self.cpus.len();
            if self.index_of.len() <= cpu.id.index() {
                self.index_of.resize(cpu.id.index() + 1, None);
            }
            self.index_of[cpu.id.index()] = Some(cpu_idx);
            let node = cpu.node.and_then(|id| self.node_index(id)).unwrap_or(0);
            self.nodes[node].cpus.push(cpu_idx);
            self.cpus.push(HardwareCpu {
                id: cpu.id,
                core: 0,
                cache: 0,
                node,
                ghz: GHZ,
                smt_speed: 1.0,
            });
        }
        for core in machine.cores() {
            let known =
                machine.perf_attributes().kinds.get(&core.kind).copied().unwrap_or_default();
            if known.frequency_mhz.is_none() {
                self.assume(format!("{GHZ} GHz for the fastest cores"));
            }
            let fastest = GHZ * f64::from(core.capacity) / 1024.0;
            let ghz = known.frequency_mhz.map_or(fastest, |mhz| mhz.value as f64 / 1000.0);
            let cpus = self.cpu_indices(&core.cpus);
            let share = known.smt_permille.map(|permille| permille.value as f64 / 1000.0);
            if 1 < cpus.len() && share.is_none() {
                self.assume(format!(
                    "{SMT_SHARE} of the full speed for a CPU with a busy SMT sibling"
                ));
            }
            for &cpu in &cpus {
                self.cpus[cpu].core = self.cores.len();
                self.cpus[cpu].ghz = ghz;
                self.cpus[cpu].smt_speed = share.unwrap_or(SMT_SHARE);
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
            self.add_cache(bytes, self.cpu_indices(&llc.cpus), &mut has_one);
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
            cache.size_index = sizes.partition_point(|&bytes| bytes < cache.bytes);
        }
    }

    fn add_cache(&mut self, bytes: f64, cpus: Vec<usize>, has_one: &mut [bool]) {
        for &cpu in &cpus {
            self.cpus[cpu].cache = self.caches.len();
            has_one[cpu] = true;
        }
        self.caches.push(Cache { bytes, cpus, size_index: 0 });
    }

    fn add_paths(&mut self, machine: &Machine) {
        let n_nodes = self.nodes.len();
        self.paths = vec![NodePath::default(); n_nodes * n_nodes];
        for from in 0..n_nodes {
            for to in 0..n_nodes {
                let path = self.find_path(machine, from, to);
                self.paths[from * n_nodes + to] = path;
            }
        }
        let mut n_first = vec![0; n_nodes];
        for from in 0..n_nodes {
            self.nodes[from].fallback_order = self.fallbacks(from, &mut n_first);
        }
    }

    /// Returns the fallback order of a node's memory, as in the kernel's zonelists (`find_next_best_node`,
    /// `build_zonelists`). Nodes are sorted by distance. At equal distance, nodes without CPUs and nodes with numbers
    /// above `from` come first. Further ties go to the node that is the first choice of the fewest other nodes.
    fn fallbacks(&self, from: usize, n_first: &mut [u32]) -> Vec<usize> {
        let mut remaining: Vec<usize> = (0..self.nodes.len()).filter(|&to| to != from).collect();
        let mut order: Vec<usize> = Vec::with_capacity(remaining.len());
        let mut before = topology::DISTANCE_LOCAL;
        let cost = |to: usize| {
            let has_cpus = u32::from(!self.nodes[to].cpus.is_empty());
            self.path_between(from, to).distance.saturating_add(u32::from(to < from) + has_cpus)
        };
        while let Some(best) =
            remaining.iter().copied().min_by_key(|&to| (cost(to), n_first[to], to))
        {
            remaining.retain(|&to| to != best);
            let distance = self.path_between(from, best).distance;
            n_first[best] += u32::from(distance != before);
            before = distance;
            order.push(best);
        }
        order
    }

    fn find_path(&mut self, machine: &Machine, from: usize, to: usize) -> NodePath {
        let distance_of = |from: usize, to: usize| -> Option<u32> {
            let node = machine.node(self.nodes[from].id?)?;
            node.distances.get(&self.nodes[to].id?).copied()
        };
        if from == to {
            return NodePath { distance: topology::DISTANCE_LOCAL, ..NodePath::default() };
        }
        let distance = distance_of(from, to).unwrap_or(DISTANCE);
        let (Some(one), Some(other)) = (self.nodes[from].id, self.nodes[to].id) else {
            return NodePath { distance, ..NodePath::default() };
        };
        let access =
            machine.perf_attributes().accesses.iter().find(|a| a.from == one && a.to == other);
        let local_ns = self.nodes[to].channel.unloaded_ns;
        let known_ns = access.and_then(|access| access.latency_ns).map(|ns| ns.value as f64);
        if known_ns.is_none() {
            self.assume("latencies between nodes in proportion to their distances".to_owned());
        }
        let ns = known_ns.unwrap_or(local_ns * f64::from(distance) / 10.0);
        let bandwidth = access.and_then(|access| access.bandwidth_bytes_per_s);
        let link = bandwidth.map(|bandwidth| {
            let channel = Calibration::default().channel(local_ns, bandwidth.value as f64 / 1e9);
            self.links.push(Link { from, to, channel: Channel { unloaded_ns: 0.0, ..channel } });
            self.links.len() - 1
        });
        NodePath { extra_ns: (ns - local_ns).max(0.0), link, distance }
    }

    fn assume(&mut self, assumption: String) {
        if !self.assumed.contains(&assumption) {
            self.assumed.push(assumption);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_of_several_equally_distant_nodes_is_the_first_fallback() {
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
            "format_version = 2\nnodes = [{}]\ncores = [{}]\ncpus = [{}]\n",
            nodes.join(", "),
            list(", cpus = \"N\"").join(", "),
            list("").join(", ")
        );
        let machine = topology::file::parse_toml(&text, "ring").expect("a machine");
        let hardware = Hardware::new(&machine);
        let nearest = |node: usize| hardware.nodes[node].fallback_order.clone();
        assert_eq!(nearest(0), [1, 3, 2]);
        assert_eq!(nearest(1), [2, 0, 3]);
        assert_eq!(nearest(2), [3, 1, 0]);
        // Both neighbours of node 3 have lower numbers, and node 2 is already the first choice of node 1.
        assert_eq!(nearest(3), [0, 2, 1]);
    }
}
