//! The counters of the memory controllers, one a node.

use base::{Nanos, NodeId};
use sched::{CounterReading, NodeSample, NodeView};
use topology::Machine;

use super::counters::growth;

/// What is known of every node.
#[derive(Debug)]
pub(crate) struct Controllers {
    seen: Vec<NodeView>,
    counters: Vec<NodeCounters>,
}

/// The counters of one node.
#[derive(Clone, Copy, Debug, Default)]
struct NodeCounters {
    now: Option<CounterReading>,
    /// The reading at the last interval turn at which all counters could be read.
    base: Option<CounterReading>,
    bits: u8,
    /// Bytes read and written: each now, and at the last interval turn.
    bytes: [(Option<CounterReading>, Option<CounterReading>); 2],
}

/// What the counters of some nodes told about an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ControllerGrowth {
    /// There never were counters for all of these nodes.
    Never,
    /// There were, and one of them cannot be read now.
    Lost,
    /// Operations of each node in the interval.
    Ops(Vec<u64>),
}

impl Controllers {
    pub fn new(machine: &Machine) -> Self {
        let seen = machine.nodes().iter().map(|node| NodeView {
            node: node.id,
            memory_free: node.memory_free,
            memory_reclaimable: None,
            memory_total: node.memory,
            controller_ops: None,
            read_bytes: None,
            written_bytes: None,
        });
        let seen: Vec<NodeView> = seen.collect();
        let counters = vec![NodeCounters::default(); seen.len()];
        Controllers { seen, counters }
    }

    /// All nodes, by id.
    pub fn seen(&self) -> &[NodeView] {
        &self.seen
    }

    /// Takes new totals in. The first total of a counter is where counting begins: what happened
    /// before the run is nobody's load.
    pub fn take(&mut self, samples: &[NodeSample]) {
        for sample in samples {
            let Some(idx) = self.idx(sample.node) else { continue };
            let seen = &mut self.seen[idx];
            seen.memory_free = sample.memory_free.or(seen.memory_free);
            seen.memory_reclaimable = sample.memory_reclaimable.or(seen.memory_reclaimable);
            let counter = &mut self.counters[idx];
            counter.now = ran(sample.controller_ops);
            counter.bits = sample.counter_bits;
            for ((now, base), told) in
                counter.bytes.iter_mut().zip([sample.read_bytes, sample.written_bytes])
            {
                *now = ran(told);
                *base = base.or(*now);
            }
            counter.base = counter.base.or(counter.now);
        }
    }

    /// Whether the counter of every one of these nodes has been read.
    pub fn known(&self, nodes: impl IntoIterator<Item = NodeId>) -> bool {
        let mut nodes = nodes.into_iter().peekable();
        let read = |node| self.idx(node).is_some_and(|i| self.counters[i].base.is_some());
        nodes.peek().is_some() && nodes.all(read)
    }

    /// Ends an interval that lasted `interval`, `elapsed` after counters were last read in full.
    ///
    /// When one of `nodes` cannot be read no counter is advanced, so that all loads stand for the
    /// same stretch of time when it can be read again. That stretch is longer than an interval;
    /// the operations are then those of the mean interval in it.
    pub fn turn_over(
        &mut self,
        nodes: &[NodeId],
        interval: Nanos,
        elapsed: Nanos,
    ) -> ControllerGrowth {
        if !self.known(nodes.iter().copied()) {
            self.advance(interval, elapsed);
            return ControllerGrowth::Never;
        }
        let lost =
            |node: &NodeId| self.idx(*node).is_none_or(|idx| self.counters[idx].grown().is_none());
        if nodes.iter().any(lost) {
            self.seen.iter_mut().for_each(|seen| seen.controller_ops = None);
            return ControllerGrowth::Lost;
        }
        self.advance(interval, elapsed);
        let ops = |node: &NodeId| self.idx(*node).and_then(|idx| self.seen[idx].controller_ops);
        ControllerGrowth::Ops(nodes.iter().map(|node| ops(node).unwrap_or(0)).collect())
    }

    fn advance(&mut self, interval: Nanos, elapsed: Nanos) {
        for (seen, counter) in self.seen.iter_mut().zip(&mut self.counters) {
            seen.controller_ops = counter.grown().map(|ops| per_interval(ops, interval, elapsed));
            counter.base = counter.now;
            let grown = |(now, base): (Option<CounterReading>, Option<CounterReading>)| {
                let bytes = growth(now?, Some(base?)).value()?;
                Some(per_interval(bytes, interval, elapsed))
            };
            [seen.read_bytes, seen.written_bytes] = counter.bytes.map(grown);
            counter.bytes.iter_mut().for_each(|(now, base)| *base = *now);
        }
    }

    fn idx(&self, node: NodeId) -> Option<usize> {
        self.seen.binary_search_by_key(&node, |seen| seen.node).ok()
    }
}

/// A reading of a counter that has been running at least once.
fn ran(reading: Option<CounterReading>) -> Option<CounterReading> {
    reading.filter(|reading| !reading.never_ran())
}

impl NodeCounters {
    /// Growth since the base. A counter that was never multiplexed and has wrapped around its width has
    /// grown; an estimate has no width, and a lower one has not grown.
    fn grown(&self) -> Option<u64> {
        let (now, base) = (self.now?, self.base?);
        if now.value < base.value && self.bits < 64 && now.running_ns == now.enabled_ns {
            return Some(now.value.wrapping_sub(base.value) & ((1 << self.bits) - 1));
        }
        growth(now, Some(base)).value()
    }
}

/// The mean interval of a longer stretch.
pub(super) fn per_interval(ops: u64, interval: Nanos, elapsed: Nanos) -> u64 {
    if elapsed <= interval {
        return ops;
    }
    let mean = u128::from(ops) * u128::from(interval.0) / u128::from(elapsed.0);
    u64::try_from(mean).unwrap_or(u64::MAX)
}
