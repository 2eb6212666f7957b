//! Hardware of the simulated machine in dense tables, for the physics.
//!
//! ```text
//!   cpu ─► core (speed, siblings) ─► cache (bytes, port, link to memory) ─► local node
//!                                       │
//!                          path[node of the CPU][node of the memory]:
//!                          extra latency in nanoseconds, and the interconnect links
//! ```
//!
//! Everything with a bandwidth is a channel: the memory of the nodes first, in the order of the nodes, then links
//! between nodes, and ports and memory links of caches. Only memory has a latency that grows with its utilization;
//! links and ports limit the bandwidth.
//!
//! A machine file may omit values. [`Hardware::assumed`] describes the values that are assumed instead, so that
//! reports can print them. CPUs, cores, caches and nodes are identified by their index.

mod clusters;
mod core_speeds;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use base::{Bytes, CpuId, CpuSet, LlcId, NodeId};
use topology::{
    AttributeSource, CAPACITY_MAX, ContextSwitch, Machine, Replacement, SmtSharing, SourcedValue,
};

use crate::physics::{Channel, CoreSpeed, LoadCurve, PrefetchTimeliness, StreamEfficiency};

pub use clusters::Cluster;
use clusters::distinct;
use core_speeds::{CoreSpeeds, frequency_assumption};

/// Frequency of a core if the machine file has none, in GHz. Guessed: a typical value of servers under load.
const GHZ: f64 = 2.4;
/// Throughput of a core with two busy SMT siblings relative to one. Guessed between published averages: 1.18 for SPEC
/// CPU2006 on a Xeon of 2016, 1.43 on POWER8.
const SMT_THROUGHPUT: f64 = 1.24;
/// The same on cores with more than two siblings, with two, three and more busy. Published averages of POWER8: 1.43
/// with two, about 2 with four, not more with eight; the value for three is between its neighbours.
const SMT_THROUGHPUT_WIDE: [f64; 3] = [1.43, 1.71, 2.0];
/// Unloaded latency of local memory in nanoseconds. Guessed: servers of the last ten years have 70 to 120.
const LOCAL_NS: f64 = 90.0;
/// Peak bandwidth of a node's memory per core, in bytes per nanosecond. Guessed: three to five cores share one
/// channel of DDR4 or DDR5.
const CAP_PER_CORE: f64 = 8.0;
/// Share of the peak bandwidth that programs reach, if the machine file has none. Published measurements of reads on
/// servers have 0.73 to 0.86; this is the value of a Xeon with eight channels of DDR5-4800.
const ACHIEVABLE: f64 = 0.78;
/// Loaded latency if the machine file has none: utilization and latency in permille. Published measurement of reads on
/// a Xeon with eight channels of DDR5-4800; other servers differ by a few percent up to a utilization of 0.7.
const LOADED_LATENCY: [(u64, u64); 10] = [
    (0, 1000),
    (200, 1050),
    (400, 1110),
    (500, 1150),
    (600, 1200),
    (700, 1270),
    (800, 1380),
    (900, 1560),
    (950, 1740),
    (1000, 2200),
];
/// Last-level cache per core on a machine without known caches, in bytes (guessed).
const CACHE_BYTES: f64 = 1024.0 * 1024.0;
/// Memory of a node with an unknown size (guessed).
const MEMORY: Bytes = Bytes(64 << 30);
/// SLIT distance between two nodes with an unknown distance (guessed).
const DISTANCE: u32 = 20;

/// Tables of a machine.
#[derive(Clone, Debug)]
pub struct Hardware {
    /// Online CPUs that this process may use, sorted by number.
    pub cpus: Vec<HardwareCpu>,
    /// The CPUs of each core.
    pub cores: Vec<Vec<usize>>,
    /// Speed of a CPU of each core relative to its speed with idle siblings, by the number of busy siblings of the core
    /// minus one. The first value is 1.
    pub smt_shares: Vec<Vec<f64>>,
    /// Effect of busy SMT siblings.
    pub smt: SmtSharing,
    /// Costs of context switches and migrations; `None`: they cost nothing.
    pub context_switch: Option<ContextSwitch>,
    /// Last-level caches.
    pub caches: Vec<Cache>,
    /// Clusters of cores with a shared cache below their last-level cache.
    pub clusters: Vec<Cluster>,
    /// Replacement in these caches.
    pub replacement: Replacement,
    /// NUMA nodes; at least one.
    pub nodes: Vec<HardwareNode>,
    /// Memory of each node, in the order of the nodes, then links and ports with a known bandwidth.
    pub channels: Vec<Channel>,
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
    /// Index of the cluster, if the CPU shares a cache below the last-level cache with other cores.
    pub cluster: Option<usize>,
    /// Index of the node.
    pub node: usize,
    /// Speed of the core, with the hit latency of its cache.
    pub speed: CoreSpeed,
    /// Capacity of the CPU: relative throughput, 1024 for the fastest.
    pub capacity: u32,
}

/// A last-level cache.
#[derive(Clone, Debug, PartialEq)]
pub struct Cache {
    /// Number of the cache; absent if the machine reports no caches.
    pub id: Option<LlcId>,
    /// Channel of all accesses to the cache, if its bandwidth is known.
    pub port: Option<usize>,
    /// Channel between the cache and all memory, if its bandwidth is known.
    pub memory_link: Option<usize>,
    /// Size in bytes.
    pub bytes: f64,
    /// CPUs that share the cache.
    pub cpus: Vec<usize>,
    /// Clusters of these CPUs.
    pub clusters: Vec<usize>,
    /// Index of the size in [`Hardware::fill_tables`].
    pub fill_index: usize,
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
    /// Peak bandwidth of the memory in bytes per nanosecond.
    pub peak: f64,
    /// All other nodes in the order of the kernel's fallback list (zonelist).
    pub fallback_order: Vec<usize>,
}

/// The path from the CPUs of one node to the memory of another.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodePath {
    /// Difference between the latency of this path and the latency of local memory, in nanoseconds.
    pub extra_ns: f64,
    /// Channels of the links on the path: the link of this pair of nodes, and a link that several pairs share, if their
    /// bandwidths are known.
    pub links: [Option<usize>; 2],
    /// SLIT distance.
    pub distance: u32,
}

impl Hardware {
    /// Returns the tables of a machine.
    pub fn new(machine: &Machine) -> Self {
        Hardware::with_frequency(machine, None)
    }

    /// Returns the tables of a machine. `ghz` is a frequency that follows from measurements of programs. It is used if
    /// the machine file has no frequency.
    pub fn with_frequency(machine: &Machine, ghz: Option<f64>) -> Self {
        let physics = machine.perf_attributes().physics;
        let mut hardware = Hardware {
            smt: physics.smt,
            context_switch: physics.context_switch,
            replacement: physics.replacement,
            cpus: Vec::new(),
            cores: Vec::new(),
            caches: Vec::new(),
            clusters: Vec::new(),
            nodes: Vec::new(),
            channels: Vec::new(),
            smt_shares: Vec::new(),
            paths: Vec::new(),
            index_of: Vec::new(),
            assumed: Vec::new(),
        };
        hardware.add_nodes(machine);
        hardware.add_cpus(machine, ghz);
        hardware.add_caches(machine);
        hardware.add_prefetch_loss(known(physics.prefetch_loss_permille).unwrap_or(0.0) / 1000.0);
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

    /// Calls `visit` once with each channel of the misses of a task, and with the share of its misses there: the memory
    /// of its pages, the links on the paths, and the link between the cache and memory.
    pub fn for_each_path(
        &self,
        (node, cache): (usize, usize),
        parts: &[(usize, f64)],
        mut visit: impl FnMut(usize, f64),
    ) {
        let parts = if parts.is_empty() { &[(node, 1.0)][..] } else { parts };
        let links_to = |to| self.path_between(node, to).links.into_iter().flatten();
        for (nth, &(to, share)) in parts.iter().enumerate() {
            visit(to, share);
            for link in links_to(to) {
                // Paths to several nodes can have common links.
                let has_link = |&&(to, _): &&(usize, f64)| links_to(to).any(|other| other == link);
                if !parts[..nth].iter().any(|part| has_link(&part)) {
                    visit(link, parts[nth..].iter().filter(has_link).map(|part| part.1).sum());
                }
            }
        }
        if let Some(link) = self.caches[cache].memory_link {
            visit(link, 1.0);
        }
    }

    /// Returns the additional latency of the paths to the memory of a task, in nanoseconds.
    pub fn path_ns(&self, node: usize, parts: &[(usize, f64)]) -> f64 {
        parts.iter().map(|&(to, share)| share * self.path_between(node, to).extra_ns).sum()
    }

    /// Returns the memory channel of a node.
    pub fn memory(&self, node: usize) -> &Channel {
        &self.channels[node]
    }

    /// Returns the fastest CPU of the machine.
    pub fn fastest_cpu(&self) -> &HardwareCpu {
        HardwareCpu::fastest(&self.cpus).expect("a machine has a CPU")
    }

    /// Returns the index of a CPU.
    pub fn cpu_index(&self, cpu: CpuId) -> Option<usize> {
        self.index_of.get(cpu.index()).copied().flatten()
    }

    /// Returns the index of a node.
    pub fn node_index(&self, id: NodeId) -> Option<usize> {
        self.nodes.iter().position(|node| node.id == Some(id))
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
            let unknown = topology::MemoryAccess::unknown(node.id, node.id);
            let own = own.unwrap_or(&unknown);
            let n_cores = machine.cores().iter().filter(|c| c.cpus.intersects(&node.cpus)).count();
            let ns = known(own.latency_ns).unwrap_or_else(|| {
                self.assume(format!("{LOCAL_NS} ns for a miss to local memory"));
                LOCAL_NS
            });
            let peak = known(own.bandwidth_bytes_per_s).unwrap_or_else(|| {
                self.assume(format!("{CAP_PER_CORE} GB/s of memory bandwidth for each core"));
                1e9 * CAP_PER_CORE * n_cores.max(1) as f64
            });
            let channel = self.memory_channel(own, ns, peak / 1e9);
            let streams = machine.perf_attributes().physics.open_streams;
            let streams = streams.map_or(StreamEfficiency::CONSTANT, |streams| StreamEfficiency {
                count: streams.count as f64,
                least: streams.permille as f64 / 1000.0,
            });
            self.channels.push(Channel { streams, ..channel });
            self.nodes.push(HardwareNode {
                id: has_nodes.then_some(node.id),
                cpus: Vec::new(),
                caches: Vec::new(),
                memory: node.memory.unwrap_or(MEMORY),
                peak: peak / 1e9,
                fallback_order: Vec::new(),
            });
        }
    }

    /// Returns the channel of a memory with this unloaded latency, and this peak bandwidth in bytes per nanosecond.
    fn memory_channel(
        &mut self,
        own: &topology::MemoryAccess,
        unloaded_ns: f64,
        peak: f64,
    ) -> Channel {
        let measured = |value: SourcedValue| value.source == AttributeSource::Measured;
        let share = known(own.achievable_permille).map(|permille| permille / 1000.0);
        // A measured bandwidth was reached by a program.
        let share = share.or(own.bandwidth_bytes_per_s.is_some_and(measured).then_some(1.0));
        let share = share.unwrap_or_else(|| {
            self.assume(format!("programs reach {ACHIEVABLE} of the peak bandwidth of the memory"));
            ACHIEVABLE
        });
        let curve = own.loaded_latency.clone().unwrap_or_else(|| {
            self.assume("the loaded latency of a server with eight channels of DDR5".to_owned());
            assumed_loaded_latency()
        });
        let curve = LoadCurve::new(&curve);
        let streams = StreamEfficiency::CONSTANT;
        Channel { unloaded_ns, capacity: share * peak, curve, streams }
    }

    /// Adds a channel that only limits the bandwidth. Returns its index.
    fn add_limit(&mut self, bandwidth: Option<SourcedValue>) -> Option<usize> {
        self.channels.push(Channel::limit(known(bandwidth)? / 1e9));
        Some(self.channels.len() - 1)
    }

    /// Adds the CPUs that this process may use; all online CPUs if it may use none.
    fn add_cpus(&mut self, machine: &Machine, ghz: Option<f64>) {
        let usable = Some(machine.allowed()).filter(|allowed| !allowed.is_empty());
        let usable = usable.unwrap_or(machine.online());
        for cpu in machine.cpus().iter().filter(|cpu| usable.contains(cpu.id)) {
            let cpu_idx = self.cpus.len();
            if self.index_of.len() <= cpu.id.index() {
                self.index_of.resize(cpu.id.index() + 1, None);
            }
            self.index_of[cpu.id.index()] = Some(cpu_idx);
            let node = cpu.node.and_then(|id| self.node_index(id)).unwrap_or(0);
            self.nodes[node].cpus.push(cpu_idx);
            let speed = CoreSpeed::new(ghz.unwrap_or(GHZ));
            let capacity = CAPACITY_MAX;
            self.cpus.push(HardwareCpu {
                id: cpu.id,
                core: 0,
                cache: 0,
                cluster: None,
                node,
                speed,
                capacity,
            });
        }
        let speeds = CoreSpeeds::new(machine, ghz);
        for core in machine.cores() {
            let cpus = self.cpu_indices(&core.cpus);
            if cpus.is_empty() {
                continue;
            }
            let speed = speeds.of(core, |assumption| self.assume(assumption));
            for &cpu in &cpus {
                self.cpus[cpu].core = self.cores.len();
                self.cpus[cpu].speed = speed;
                self.cpus[cpu].capacity = core.capacity;
            }
            let shares = self.shares_of(machine, core, cpus.len());
            self.smt_shares.push(shares);
            self.cores.push(cpus);
        }
        if machine.cores().is_empty() {
            self.assume(frequency_assumption(ghz));
            for cpu in 0..self.cpus.len() {
                self.cpus[cpu].core = cpu;
                self.cores.push(vec![cpu]);
                self.smt_shares.push(vec![1.0]);
            }
        }
    }

    /// Returns the entry of [`Hardware::smt_shares`] for a core with this number of siblings.
    fn shares_of(
        &mut self,
        machine: &Machine,
        core: &topology::Core,
        n_siblings: usize,
    ) -> Vec<f64> {
        let kind = machine.perf_attributes().kinds.get(&core.kind);
        let listed = kind.and_then(|kind| kind.smt_throughput_permille.as_ref());
        let values: Vec<f64> = match listed {
            Some(list) => list.values.iter().map(|&value| value as f64 / 1000.0).collect(),
            None if n_siblings <= 2 => vec![SMT_THROUGHPUT],
            None => SMT_THROUGHPUT_WIDE.to_vec(),
        };
        if 1 < n_siblings && listed.is_none() {
            let list: Vec<String> = values.iter().map(f64::to_string).collect();
            self.assume(format!(
                "a core with 2 or more busy SMT siblings has {} times the throughput of one",
                list.join(", ")
            ));
        }
        let throughput = |n_busy: usize| match n_busy {
            1 => 1.0,
            _ => values[(n_busy - 2).min(values.len() - 1)],
        };
        (1..=n_siblings.max(1)).map(|n_busy| throughput(n_busy) / n_busy as f64).collect()
    }

    fn add_caches(&mut self, machine: &Machine) {
        let mut has_one = vec![false; self.cpus.len()];
        for llc in machine.llcs() {
            let cpus = self.cpu_indices(&llc.cpus);
            if cpus.is_empty() {
                continue;
            }
            if llc.size.is_none() {
                self.assume(format!("{} for each last-level cache", Bytes(CACHE_BYTES as u64)));
            }
            let bytes = llc.size.map_or(CACHE_BYTES, |bytes| bytes.0 as f64);
            let attributes =
                machine.perf_attributes().llcs.get(&llc.id).copied().unwrap_or_default();
            let port = self.add_limit(attributes.bandwidth_bytes_per_s);
            let memory_link = self.add_limit(attributes.memory_bandwidth_bytes_per_s);
            let hit_ns = known(attributes.latency_ns).unwrap_or_else(|| {
                self.assume(format!(
                    "{:.1} ns for a hit in the last-level cache",
                    CoreSpeed::HIT_NS
                ));
                CoreSpeed::HIT_NS
            });
            cpus.iter().for_each(|&cpu| self.cpus[cpu].speed.hit_ns = hit_ns);
            let cache = Cache { id: Some(llc.id), port, memory_link, ..Cache::new(bytes, cpus) };
            self.add_cache(cache, &mut has_one);
        }
        for core in 0..self.cores.len() {
            let bare = self.cores[core].iter().copied().filter(|&cpu| !has_one[cpu]);
            let bare: Vec<usize> = bare.collect();
            if !bare.is_empty() {
                self.assume(format!("{} of cache for each core", Bytes(CACHE_BYTES as u64)));
                self.add_cache(Cache::new(CACHE_BYTES, bare), &mut has_one);
            }
        }
        for node in &mut self.nodes {
            node.caches = node.cpus.iter().map(|&cpu| self.cpus[cpu].cache).collect();
            node.caches.sort_unstable();
            node.caches.dedup();
        }
        let sizes = distinct(self.caches.iter().map(|cache| cache.bytes));
        for cache in &mut self.caches {
            cache.fill_index = sizes.partition_point(|&bytes| bytes < cache.bytes);
        }
        self.add_clusters(machine, sizes.len());
    }

    /// Sets the share of prefetched lines that wait for the latency beyond that of the fastest idle memory.
    fn add_prefetch_loss(&mut self, loss: f64) {
        let latencies = self.channels[..self.nodes.len()].iter().map(|memory| memory.unloaded_ns);
        let hidden_ns = latencies.fold(f64::INFINITY, f64::min);
        for cpu in self.cpus.iter_mut().filter(|_| 0.0 < loss) {
            cpu.speed.prefetch = PrefetchTimeliness { hidden_ns, loss };
        }
    }

    fn add_cache(&mut self, cache: Cache, has_one: &mut [bool]) {
        for &cpu in &cache.cpus {
            self.cpus[cpu].cache = self.caches.len();
            has_one[cpu] = true;
        }
        self.caches.push(cache);
    }

    fn add_paths(&mut self, machine: &Machine) {
        let links = &machine.perf_attributes().links;
        let link = |link: &topology::LinkAttributes| {
            (link.id, self.add_limit(Some(link.bandwidth_bytes_per_s)))
        };
        let shared: BTreeMap<u32, Option<usize>> = links.iter().map(link).collect();
        let n_nodes = self.nodes.len();
        self.paths = vec![NodePath::default(); n_nodes * n_nodes];
        for from in 0..n_nodes {
            for to in 0..n_nodes {
                let path = self.find_path(machine, &shared, from, to);
                self.paths[from * n_nodes + to] = path;
            }
        }
        let mut n_first = vec![0; n_nodes];
        for from in 0..n_nodes {
            self.nodes[from].fallback_order = self.fallbacks(from, &mut n_first);
        }
    }

    /// Returns the nearest node with CPUs, which is the node itself if it has some.
    pub fn nearest_with_cpus(&self, node: usize) -> usize {
        if !self.nodes[node].cpus.is_empty() {
            return node;
        }
        let with_cpus = (0..self.nodes.len()).filter(|&to| !self.nodes[to].cpus.is_empty());
        with_cpus.min_by_key(|&to| (self.path_between(node, to).distance, to)).unwrap_or(node)
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

    fn find_path(
        &mut self,
        machine: &Machine,
        shared: &BTreeMap<u32, Option<usize>>,
        from: usize,
        to: usize,
    ) -> NodePath {
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
        let local_ns = self.channels[to].unloaded_ns;
        let known_ns = access.and_then(|access| known(access.latency_ns));
        if known_ns.is_none() {
            self.assume("latencies between nodes in proportion to their distances".to_owned());
        }
        let ns = known_ns.unwrap_or(local_ns * f64::from(distance) / 10.0);
        let own = self.add_limit(access.and_then(|access| access.bandwidth_bytes_per_s));
        let of_several = access.and_then(|access| shared.get(&access.link?).copied().flatten());
        NodePath { extra_ns: (ns - local_ns).max(0.0), links: [own, of_several], distance }
    }

    fn assume(&mut self, assumption: String) {
        if !self.assumed.contains(&assumption) {
            self.assumed.push(assumption);
        }
    }
}

/// Returns the loaded latency of a memory without one in its machine file.
pub fn assumed_loaded_latency() -> topology::LatencyCurve {
    let points = LOADED_LATENCY.to_vec();
    topology::LatencyCurve { points, source: AttributeSource::Assumed }
}

impl Cache {
    fn new(bytes: f64, cpus: Vec<usize>) -> Self {
        Cache {
            id: None,
            port: None,
            memory_link: None,
            bytes,
            cpus,
            clusters: Vec::new(),
            fill_index: 0,
        }
    }
}

/// Returns a value without its source.
fn known(value: Option<SourcedValue>) -> Option<f64> {
    value.map(|value| value.value as f64)
}
