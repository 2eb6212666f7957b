//! Demand of a task on the machine.

/// Current demand of a task on the machine, per 1000 units of its activity.
#[derive(Clone, Debug, Default)]
pub(super) struct TaskDemand {
    /// Nanoseconds without stalls on misses.
    pub core_ns: f64,
    /// Stall nanoseconds per nanosecond of miss latency.
    pub exposed: f64,
    /// Stall nanoseconds of the paths to the memory, without load, minus the stalls that prefetches hide.
    pub path_ns: f64,
    /// Latency of the paths to the memory without load, in nanoseconds.
    pub unloaded_ns: f64,
    /// Share of time in which the task runs, 0 to 1, on average over the tasks of its CPU.
    pub duty: f64,
    /// Share of its current demand that the memory has to serve: the duty, or 1 if the task runs alone for a slice.
    pub traffic_share: f64,
    /// Speed of the CPU relative to its speed with idle SMT siblings and without context switches.
    pub smt_share: f64,
    /// Demand on each channel.
    pub uses: Vec<ChannelUse>,
    /// Nanoseconds with stalls, at the latencies of the last update.
    pub ns: f64,
    /// Factor by which the task is slower, because a channel cannot carry the demand.
    pub slower: f64,
    /// Whether the task is in the lists of users of its channels.
    pub is_on_channels: bool,
}

/// Demand of a task on one channel, per 1000 units of its activity.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ChannelUse {
    pub channel: usize,
    /// Share of the misses of the task, or of the accesses of its cache if the channel is its port.
    pub share: f64,
    pub is_port: bool,
    /// Stall nanoseconds per nanosecond of the channel's latency.
    pub stalls: f64,
    /// Bytes.
    pub bytes: f64,
    /// Transferred bytes that are not yet part of [`super::channels::ChannelState::transferred`].
    pub transferred: f64,
    /// The part of the task in [`super::channels::ChannelState::near`].
    pub near: Polynomial,
    /// Latency of the channel, and its integral over the time, at the last update of the task.
    pub latency: f64,
    pub integral: f64,
    /// Lowest latency for which the end of the segment was computed.
    pub least: f64,
}

/// Bandwidth in bytes per nanosecond, as a polynomial of the difference of the latency from the reference.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Polynomial([f64; 3]);

impl Polynomial {
    /// Returns a bandwidth that falls by the share `falls` per nanosecond of latency.
    pub fn falling(bandwidth: f64, falls: f64) -> Self {
        Polynomial([bandwidth, -bandwidth * falls, bandwidth * falls * falls])
    }

    /// Returns the value and its derivative.
    pub fn at(self, by: f64) -> (f64, f64) {
        let Polynomial([zeroth, first, second]) = self;
        (zeroth + by * (first + by * second), first + 2.0 * by * second)
    }

    #[cfg(test)]
    pub fn scaled(self, factor: f64) -> Self {
        Polynomial(self.0.map(|part| part * factor))
    }

    pub fn add(&mut self, other: Polynomial, factor: f64) {
        self.0.iter_mut().zip(other.0).for_each(|(own, other)| *own += factor * other);
    }
}
