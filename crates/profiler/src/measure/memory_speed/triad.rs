//! The bandwidth of a node: the triad of STREAM on all its CPUs (J. D. McCalpin, *Memory bandwidth and machine balance in
//! current high performance computers*, IEEE TCCA Newsletter, 1995).
//!
//! ```text
//!   thread 1   ── triad ──┤     ├── triad ──┤        a repetition lasts from its common start to the end of the
//!   thread 2   ── triad ────┤   ├── triad ────┤      last thread
//! ```

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use base::{Bytes, CpuId, CpuSet, NodeId};
use linux::node_memory::NodeBuffer;

use super::{N_REPETITIONS_MIN, bind, median};

/// Bytes of an element of the triad, as STREAM counts them: two words are read and one is written.
const BYTES_PER_ELEMENT: u128 = 24;

/// State that the threads share.
struct Shared {
    /// All threads wait here before and after each repetition.
    barrier: Barrier,
    /// Whether a thread has no memory. No repetition starts.
    has_failed: AtomicBool,
    /// Whether the last repetition is done.
    is_done: AtomicBool,
}

/// Returns the bandwidth from the CPUs to the memory of a node in bytes per second, at least 1.
pub(super) fn bandwidth(
    cpus: &CpuSet,
    node: NodeId,
    array: Bytes,
    time: Duration,
) -> anyhow::Result<u64> {
    let n_words = usize::try_from(array.0 / 8).context("the arrays are too large")?;
    let shared = Shared {
        barrier: Barrier::new(cpus.len()),
        has_failed: AtomicBool::new(false),
        is_done: AtomicBool::new(false),
    };
    let ns = std::thread::scope(|scope| {
        let start = |(idx, cpu): (usize, CpuId)| {
            let shared = &shared;
            scope.spawn(move || repeat(shared, (cpu, node), n_words, (idx == 0).then_some(time)))
        };
        let threads: Vec<_> = cpus.iter().enumerate().map(start).collect();
        let results = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(anyhow!("a thread of the measurement failed")))
        });
        // All threads are joined before the first error is returned.
        results.collect::<Vec<_>>().into_iter().collect::<anyhow::Result<Vec<_>>>()
    })?;
    let ns = median(ns.into_iter().flatten().collect()).max(1);
    let bytes = BYTES_PER_ELEMENT * n_words as u128 * cpus.len() as u128;
    Ok(u64::try_from(bytes * 1_000_000_000 / u128::from(ns)).unwrap_or(u64::MAX).max(1))
}

/// Repeats the triad on one CPU. The thread with a time measures each repetition in nanoseconds and decides which one is
/// the last.
fn repeat(
    shared: &Shared,
    (cpu, node): (CpuId, NodeId),
    n_words: usize,
    time: Option<Duration>,
) -> anyhow::Result<Vec<u64>> {
    let arrays = allocate(cpu, node, n_words);
    if arrays.is_err() {
        shared.has_failed.store(true, Ordering::SeqCst);
    }
    shared.barrier.wait();
    let [mut a, b, c] = match arrays {
        Ok(arrays) if !shared.has_failed.load(Ordering::SeqCst) => arrays,
        result => return result.map(|_| Vec::new()),
    };
    let begin = Instant::now();
    let mut ns = Vec::new();
    loop {
        shared.barrier.wait();
        let start = Instant::now();
        triad(&mut a[..n_words], &b[..n_words], &c[..n_words]);
        shared.barrier.wait();
        if let Some(time) = time {
            ns.push(start.elapsed().as_nanos() as u64);
            let is_done = N_REPETITIONS_MIN <= ns.len() && time <= begin.elapsed();
            shared.is_done.store(is_done, Ordering::SeqCst);
        }
        shared.barrier.wait();
        if shared.is_done.load(Ordering::SeqCst) {
            return Ok(ns);
        }
    }
}

/// Binds the thread, and allocates its three arrays by writing to them.
fn allocate(cpu: CpuId, node: NodeId, n_words: usize) -> anyhow::Result<[NodeBuffer; 3]> {
    bind(Some(cpu), node)?;
    let array = |value: u64| -> anyhow::Result<NodeBuffer> {
        let mut memory = NodeBuffer::map(n_words * 8).context("cannot allocate memory")?;
        memory.fill(value);
        Ok(memory)
    };
    Ok([array(0)?, array(1)?, array(2)?])
}

fn triad(a: &mut [u64], b: &[u64], c: &[u64]) {
    for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
        *a = b.wrapping_add(c.wrapping_mul(3));
    }
    black_box(a);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_triad_uses_every_element() {
        let mut a = [0; 5];
        triad(&mut a, &[1; 5], &[2; 5]);
        assert_eq!(a, [7; 5]);
    }

    #[test]
    fn without_memory_all_threads_end() {
        let cpus = linux::affinity::get(0).expect("own mask");
        // No machine has a node with this number.
        let result = bandwidth(&cpus, NodeId(1000), Bytes::from_mib(1), Duration::ZERO);
        assert!(
            result.expect_err("no such node").to_string().contains("cannot allocate on node1000")
        );
    }
}
