//! Latency and bandwidth from the CPUs of each node to the memory of each node.
//!
//! ```text
//!   latency     one CPU of node A follows a chain of pointers through the memory of node B: each load needs the result
//!               of the load before (`chain.rs`), as in lat_mem_rd of lmbench
//!   bandwidth   all CPUs of node A run the triad a[i] = b[i] + 3 c[i] of STREAM, with all arrays on node B (`triad.rs`)
//! ```
//!
//! The buffers are four times as large as the caches of the CPUs that use them, so that the caches have few of their lines.
//! Each value is the median of its repetitions.
//!
//! Units: nanoseconds per load; bytes per second as STREAM counts them, 24 bytes for each element of the triad. A cache
//! that reads a line before it is written moves a third more.
//!
//! Out of scope: latency under load, and mixes of reads and writes other than the triad.

mod chain;
mod triad;

use std::time::Duration;

use anyhow::{Context, anyhow};
use base::{Bytes, CpuId, CpuSet, NodeId, NodeSet};
use linux::affinity;
use linux::mempolicy::Prepared;
use program::MemoryPolicy;

/// A node of the machine that can be measured.
#[derive(Clone, Debug)]
pub struct MeasuredNode {
    /// The node.
    pub id: NodeId,
    /// CPUs of the node that this process may use.
    pub cpus: CpuSet,
    /// Memory of the node that this process may allocate: free, or reclaimable at low cost. `None` if it may not allocate
    /// there.
    pub available: Option<Bytes>,
    /// Share of the last-level cache for each CPU: its size divided by the number of its CPUs.
    pub cache_per_cpu: Bytes,
    /// Size of the last-level cache of a CPU.
    pub cache: Bytes,
}

/// The measured access from the CPUs of a node to the memory of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredAccess {
    /// The node of the CPUs.
    pub from: NodeId,
    /// The node of the memory.
    pub to: NodeId,
    /// Latency of a load.
    pub latency_ns: u64,
    /// Bandwidth of all CPUs of `from` together.
    pub bandwidth_bytes_per_s: u64,
}

/// Buffers are this many times as large as the cache (the rule of STREAM).
const CACHES: u64 = 4;
/// Smallest chain. Below it the private caches have a part of the chain.
const CHAIN_BYTES_MIN: Bytes = Bytes::from_mib(64);
/// Largest chain, which bounds the time to build it.
const CHAIN_BYTES_MAX: Bytes = Bytes::from_mib(1024);
/// Smallest array of a thread.
const ARRAY_BYTES_MIN: Bytes = Bytes::from_mib(4);
/// Number of repetitions of each value, also after the time has passed.
const N_REPETITIONS_MIN: usize = 3;

/// Measures all pairs of a node with CPUs and a node with memory. The repetitions take `time`; the allocation of the
/// buffers and the first repetitions of each pair are not limited.
///
/// # Errors
/// A node has too little available memory, no node can be measured, or the kernel rejects a call.
pub fn measure(nodes: &[MeasuredNode], time: Duration) -> anyhow::Result<Vec<MeasuredAccess>> {
    let sources: Vec<&MeasuredNode> = nodes.iter().filter(|node| !node.cpus.is_empty()).collect();
    let targets: Vec<&MeasuredNode> =
        nodes.iter().filter(|node| node.available.is_some()).collect();
    if sources.is_empty() || targets.is_empty() {
        return Err(anyhow!(
            "no node can be measured: this process may use no node with CPUs and memory"
        ));
    }
    targets.iter().try_for_each(|target| check_available(target, &sources))?;
    let n_values = u32::try_from(2 * sources.len() * targets.len()).unwrap_or(u32::MAX);
    let each = time / n_values;
    let mut accesses = Vec::new();
    for target in targets {
        let chain = on_thread(target.cpus.first(), target.id, || chain::build(chain_bytes(nodes)))?;
        for source in &sources {
            let cpu = source.cpus.first();
            let latency_ns = on_thread(cpu, target.id, || Ok(chain::latency_ns(&chain, each)))?;
            accesses.push(MeasuredAccess {
                from: source.id,
                to: target.id,
                latency_ns,
                bandwidth_bytes_per_s: 0,
            });
        }
        drop(chain);
        let first = accesses.len() - sources.len();
        for (access, source) in accesses[first..].iter_mut().zip(&sources) {
            access.bandwidth_bytes_per_s =
                triad::bandwidth(&source.cpus, target.id, array_bytes(source), each)?;
        }
    }
    accesses.sort_by_key(|access| (access.from, access.to));
    Ok(accesses)
}

fn chain_bytes(nodes: &[MeasuredNode]) -> Bytes {
    let cache = nodes.iter().map(|node| node.cache).max().unwrap_or_default();
    Bytes(CACHES * cache.0).clamp(CHAIN_BYTES_MIN, CHAIN_BYTES_MAX)
}

fn array_bytes(source: &MeasuredNode) -> Bytes {
    Bytes(CACHES * source.cache_per_cpu.0).max(ARRAY_BYTES_MIN)
}

/// Checks that a node has a quarter more memory than the largest buffers, because other programs allocate memory too.
fn check_available(target: &MeasuredNode, sources: &[&MeasuredNode]) -> anyhow::Result<()> {
    let arrays =
        sources.iter().map(|source| 3 * array_bytes(source).0 * source.cpus.len() as u64).max();
    let chain = chain_bytes(&sources.iter().map(|&node| node.clone()).collect::<Vec<_>>());
    let largest = arrays.unwrap_or_default().max(chain.0);
    let needed = Bytes(largest + largest / 4);
    let available = target.available.unwrap_or_default();
    match available < needed {
        true => Err(anyhow!(
            "{} has {available} of available memory, and the measurement needs {needed}: free memory first",
            target.id
        )),
        false => Ok(()),
    }
}

/// Runs `work` in a new thread on a CPU, with its memory on a node. Without a CPU the kernel selects one.
fn on_thread<T: Send>(
    cpu: Option<CpuId>,
    node: NodeId,
    work: impl FnOnce() -> anyhow::Result<T> + Send,
) -> anyhow::Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            bind(cpu, node)?;
            work()
        });
        thread.join().map_err(|_| anyhow!("a thread of the measurement failed"))?
    })
}

/// Binds the calling thread to a CPU and its new pages to a node.
fn bind(cpu: Option<CpuId>, node: NodeId) -> anyhow::Result<()> {
    if let Some(cpu) = cpu {
        let cpus: CpuSet = [cpu].into_iter().collect();
        affinity::set(0, &cpus).with_context(|| format!("cannot run on {cpu}"))?;
    }
    let nodes: NodeSet = [node].into_iter().collect();
    let bound = Prepared::new(&MemoryPolicy::Bind(nodes)).apply();
    bound.with_context(|| format!("cannot allocate on {node}: its memory is excluded by a cpuset"))
}

/// Returns the median; of an even number of values the smaller one of the middle.
fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn this_node(available: u64) -> MeasuredNode {
        MeasuredNode {
            id: NodeId(0),
            cpus: affinity::get(0).expect("own mask").first().into_iter().collect(),
            available: Some(Bytes::from_mib(available)),
            cache_per_cpu: Bytes::from_mib(1),
            cache: Bytes::from_mib(1),
        }
    }

    #[test]
    fn the_memory_of_this_machine_is_measured() {
        let accesses = measure(&[this_node(4096)], Duration::from_millis(20)).expect("measured");
        let [access] = accesses[..] else { panic!("{accesses:?}") };
        assert_eq!((access.from, access.to), (NodeId(0), NodeId(0)));
        assert!(0 < access.latency_ns && 0 < access.bandwidth_bytes_per_s, "{access:?}");
    }

    #[test]
    fn a_node_with_too_little_memory_is_rejected_before_anything_is_allocated() {
        let error = measure(&[this_node(64)], Duration::ZERO).expect_err("it is too small");
        let text = error.to_string();
        assert!(text.contains("node0 has 64.0 MiB of available memory"), "{text}");
        let none = MeasuredNode { available: None, ..this_node(0) };
        let text = measure(&[none], Duration::ZERO).expect_err("no memory").to_string();
        assert!(text.contains("no node can be measured"), "{text}");
    }

    #[test]
    fn the_median_of_an_even_number_of_values_is_the_smaller_one() {
        assert_eq!(median(vec![5, 1, 9]), 5);
        assert_eq!(median(vec![5, 1, 9, 7]), 5);
        assert_eq!(median(Vec::new()), 0);
    }
}
