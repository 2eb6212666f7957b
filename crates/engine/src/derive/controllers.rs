//! Counters of memory controllers, summed per node.

use base::{Nanos, NodeId};
use sched::{NodeSample, NodeView, RawCounter};
use topology::Machine;

use super::counters::raw_delta;

#[derive(Debug)]
pub(crate) struct Controllers {
    views: Vec<NodeView>,
    counters: Vec<NodeCounters>,
}

/// The counters of one node.
#[derive(Clone, Copy, Debug, Default)]
struct NodeCounters {
    now: Option<RawCounter>,
    /// The sample in the last interval turn in which the counters of all nodes could be read.
    base: Option<RawCounter>,
    bits: u8,
    /// Counters of bytes read and of bytes written: the last sample, and the sample in the last interval turn.
    bytes: [(Option<RawCounter>, Option<RawCounter>); 2],
}

/// Deltas of the counters of some nodes in an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ControllerDelta {
    /// At least one of the nodes has no counter.
    Never,
    /// A counter that could be read before cannot be read.
    Lost,
    /// Operations per node in the interval.
    Ops(Vec<u64>),
}

impl Controllers {
    pub fn new(machine: &Machine) -> Self {
        let views = machine.nodes().iter().map(|node| NodeView {
            node: node.id,
            memory_free: node.memory_free,
            memory_reclaimable: None,
            memory_total: node.memory,
            controller_ops: None,
            read_bytes: None,
            written_bytes: None,
        });
        let views: Vec<NodeView> = views.collect();
        let counters = vec![NodeCounters::default(); views.len()];
        Controllers { views, counters }
    }

    /// Returns all nodes, by id.
    pub fn views(&self) -> &[NodeView] {
        &self.views
    }

    /// Stores new samples. Counting starts at the first sample of a counter and excludes operations before the run.
    pub fn update(&mut self, samples: &[NodeSample]) {
        for sample in samples {
            let Some(idx) = self.idx(sample.node) else { continue };
            let view = &mut self.views[idx];
            view.memory_free = sample.memory_free.or(view.memory_free);
            view.memory_reclaimable = sample.memory_reclaimable.or(view.memory_reclaimable);
            let counter = &mut self.counters[idx];
            counter.now = unless_never_ran(sample.controller_ops);
            if counter.now.is_some() {
                counter.bits = sample.counter_bits;
            }
            let bytes = [sample.read_bytes, sample.written_bytes];
            for ((now, base), raw) in counter.bytes.iter_mut().zip(bytes) {
                *now = unless_never_ran(raw);
                *base = base.or(*now);
            }
            counter.base = counter.base.or(counter.now);
        }
    }

    /// Returns whether the counters of all these nodes have been read at least once.
    pub fn all_have_been_read(&self, nodes: impl IntoIterator<Item = NodeId>) -> bool {
        let mut nodes = nodes.into_iter().peekable();
        let is_read = |node| self.idx(node).is_some_and(|i| self.counters[i].base.is_some());
        nodes.peek().is_some() && nodes.all(is_read)
    }

    /// Ends an interval. `elapsed` is the time since all counters were read.
    ///
    /// If a counter of `nodes` cannot be read, no counter advances, so that all loads cover the same period when the
    /// counter can be read again. The operations of this period are then scaled to one interval.
    pub fn end_interval(
        &mut self,
        nodes: &[NodeId],
        interval: Nanos,
        elapsed: Nanos,
    ) -> ControllerDelta {
        if !self.all_have_been_read(nodes.iter().copied()) {
            self.advance(interval, elapsed);
            return ControllerDelta::Never;
        }
        let lost =
            |node: &NodeId| self.idx(*node).is_none_or(|idx| self.counters[idx].delta().is_none());
        if nodes.iter().any(lost) {
            self.views.iter_mut().for_each(|view| view.controller_ops = None);
            return ControllerDelta::Lost;
        }
        self.advance(interval, elapsed);
        let ops = |node: &NodeId| self.idx(*node).and_then(|idx| self.views[idx].controller_ops);
        ControllerDelta::Ops(nodes.iter().map(|node| ops(node).unwrap_or(0)).collect())
    }

    fn advance(&mut self, interval: Nanos, elapsed: Nanos) {
        for (view, counter) in self.views.iter_mut().zip(&mut self.counters) {
            view.controller_ops = counter.delta().map(|ops| per_interval(ops, interval, elapsed));
            counter.base = counter.now;
            let delta = |(now, base): (Option<RawCounter>, Option<RawCounter>)| {
                let bytes = raw_delta(now?, Some(base?)).value()?;
                Some(per_interval(bytes, interval, elapsed))
            };
            [view.read_bytes, view.written_bytes] = counter.bytes.map(delta);
            counter.bytes.iter_mut().for_each(|(now, base)| *base = *now);
        }
    }

    fn idx(&self, node: NodeId) -> Option<usize> {
        self.views.binary_search_by_key(&node, |view| view.node).ok()
    }
}

/// Returns the sample, unless the counter never ran.
fn unless_never_ran(raw: Option<RawCounter>) -> Option<RawCounter> {
    raw.filter(|raw| !raw.never_ran())
}

impl NodeCounters {
    /// Returns the delta since `base`. A counter that is not multiplexed wraps at its width. A scaled value that
    /// decreases has a delta of zero.
    fn delta(&self) -> Option<u64> {
        let (now, base) = (self.now?, self.base?);
        if now.value < base.value && self.bits < 64 && now.running_ns == now.enabled_ns {
            return Some(now.value.wrapping_sub(base.value) & ((1 << self.bits) - 1));
        }
        raw_delta(now, Some(base)).value()
    }
}

/// Scales a delta over `elapsed` to one interval if `elapsed` is longer.
pub(super) fn per_interval(ops: u64, interval: Nanos, elapsed: Nanos) -> u64 {
    if elapsed <= interval {
        return ops;
    }
    let mean = u128::from(ops) * u128::from(interval.0) / u128::from(elapsed.0);
    u64::try_from(mean).unwrap_or(u64::MAX)
}
