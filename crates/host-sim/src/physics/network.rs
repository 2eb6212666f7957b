//! Miss latencies of programs that share several memory controllers and links.
//!
//! ```text
//!   program a ──► controller 0            each channel has a latency that depends on its utilization;
//!   program b ──► controller 0, link, 1   each program has a speed that depends on the latencies;
//!   program c ──► controller 1            the speeds determine the utilization: solved iteratively
//! ```
//!
//! With one controller, the solution equals that of [`Channel::load`].

use super::channel::Channel;

/// Demand of one program on all its channels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryClient {
    /// Nanoseconds per 1000 instructions without stalls on memory.
    pub core_ns: f64,
    /// Stall nanoseconds per nanosecond of miss latency, per 1000 instructions.
    pub exposed: f64,
    /// Bytes transferred per 1000 instructions.
    pub bytes: f64,
    /// Share of time in which the program runs, 0 to 1.
    pub duty: f64,
    /// Fixed part of the miss latency in nanoseconds: the latency of the paths between nodes, averaged over the
    /// program's pages.
    pub fixed_ns: f64,
    /// The channels that the program uses, with the share of its misses on each.
    pub uses: Vec<(usize, f64)>,
}

/// Demand of a [`MemoryClient`] on one channel while the latencies of all other channels are constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientDemand {
    core_ns: f64,
    exposed: f64,
    bytes: f64,
    duty: f64,
    /// Part of the miss latency from other channels, in nanoseconds.
    elsewhere_ns: f64,
    /// Share of the program's misses on this channel.
    part: f64,
}

/// A memory controller or a link, with its background traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadedChannel {
    /// Capacity and queueing of the channel.
    pub channel: Channel,
    /// Background traffic in bytes per nanosecond: page migration and first touch.
    pub background: f64,
}

/// Maximum number of bisection steps per channel.
const N_HALVINGS: usize = 40;

impl MemoryClient {
    /// Returns the nanoseconds per 1000 instructions at these latencies.
    pub fn ns_per_1000(&self, latencies: &[f64]) -> f64 {
        self.core_ns + self.exposed * self.miss_ns(latencies)
    }

    /// Returns the demand on one channel, which has the share `part` of the misses. `elsewhere_ns` is the part of the
    /// miss latency from other channels.
    pub fn demand_on(&self, part: f64, elsewhere_ns: f64) -> ClientDemand {
        let MemoryClient { core_ns, exposed, bytes, duty, .. } = *self;
        ClientDemand { core_ns, exposed, bytes, duty, elsewhere_ns, part }
    }

    /// Returns the miss latency, averaged over the program's pages, in nanoseconds.
    pub fn miss_ns(&self, latencies: &[f64]) -> f64 {
        let each = self.uses.iter().map(|(channel_idx, part)| part * latencies[*channel_idx]);
        self.fixed_ns + each.sum::<f64>()
    }
}

/// Returns the latency of a channel that is consistent with its demand, and the demand divided by the capacity (at
/// least 1). The ratio also slows down programs that never stall on memory. `before` is the initial latency.
pub fn update_latency(demands: &[ClientDemand], loaded: &LoadedChannel, before: f64) -> (f64, f64) {
    let latency = solve_latency(&client_loads(demands, before), loaded, before);
    let used = utilization(&client_loads(demands, latency), loaded, latency, latency);
    (latency, used.max(1.0))
}

/// Demand of one program on a channel. The values that do not depend on the latency are computed once, because the
/// bisection evaluates many latencies.
#[derive(Clone, Copy, Debug)]
struct ClientLoad {
    /// Share of the program's misses on the channel.
    part: f64,
    /// Nanoseconds per 1000 instructions at the initial latency.
    ns_per_1000: f64,
    /// Stall nanoseconds per nanosecond of miss latency: `exposed_all` for all misses, `exposed` for misses on this
    /// channel.
    exposed_all: f64,
    exposed: f64,
    /// Bytes per 1000 instructions, weighted by the share of run time: `demands` on all channels, `bytes_here` on this
    /// channel.
    demands: f64,
    bytes_here: f64,
}

/// Returns the demands of programs with misses on the channel.
fn client_loads(demands: &[ClientDemand], latency: f64) -> Vec<ClientLoad> {
    let client_load = |demand: &ClientDemand| {
        let ClientDemand { core_ns, exposed, bytes, duty, elsewhere_ns, part } = *demand;
        let ns_per_1000 = core_ns + exposed * (elsewhere_ns + part * latency);
        ClientLoad {
            part,
            ns_per_1000,
            exposed_all: exposed,
            exposed: exposed * part,
            demands: duty * bytes,
            bytes_here: duty * part * bytes,
        }
    };
    demands.iter().filter(|demand| 0.0 < demand.part).map(client_load).collect()
}

/// Returns the latency at which utilization and demand are consistent.
fn solve_latency(loads: &[ClientLoad], loaded: &LoadedChannel, before: f64) -> f64 {
    let channel = &loaded.channel;
    let used = |latency: f64| utilization(loads, loaded, before, latency);
    let fits = |latency: f64| {
        let used = used(latency);
        used <= 1.0 && channel.latency_ns(used) <= latency
    };
    let low = channel.latency_ns(0.0);
    if loads.is_empty() {
        return channel.latency_ns(loaded.background / channel.capacity);
    }
    // At this upper bound, the bandwidth of all programs together is below the capacity.
    let slowest = loads
        .iter()
        .map(|load| load.demands / channel.capacity / load.exposed_all.max(1e-12) / load.part);
    let bound = slowest.filter(|ns| ns.is_finite()).sum::<f64>().min(1e9);
    let latency_max = channel.latency_ns(1.0).max(bound);
    // The latency is usually close to the initial value, so a narrow range around the initial value is tried first.
    let (mut low, mut high) = narrow(low, latency_max, before, fits);
    for _ in 0..N_HALVINGS {
        if high - low < high * 1e-9 {
            break;
        }
        let middle = (low + high) / 2.0;
        if fits(middle) { high = middle } else { low = middle }
    }
    high
}

/// Returns a narrow range around the initial value that contains the solution.
fn narrow(low: f64, high: f64, before: f64, fits: impl Fn(f64) -> bool) -> (f64, f64) {
    if !(low < before && before < high) {
        return (low, high);
    }
    let mut step = before * 1e-4;
    if fits(before) {
        let mut upper = before;
        loop {
            let lower = upper - step;
            if lower <= low {
                return (low, upper);
            }
            if !fits(lower) {
                return (lower, upper);
            }
            (upper, step) = (lower, step * 8.0);
        }
    }
    let mut lower = before;
    loop {
        let upper = lower + step;
        if high <= upper {
            return (lower, high);
        }
        if fits(upper) {
            return (lower, upper);
        }
        (lower, step) = (upper, step * 8.0);
    }
}

fn utilization(loads: &[ClientLoad], loaded: &LoadedChannel, before: f64, latency: f64) -> f64 {
    let mut moved = loaded.background;
    for load in loads {
        let ns_per_1000 = load.ns_per_1000 + load.exposed * (latency - before);
        moved += load.bytes_here / ns_per_1000.max(1e-9);
    }
    moved / loaded.channel.capacity
}

#[cfg(test)]
mod tests {
    use super::super::channel::Demand;
    use super::*;

    const CHANNEL: Channel = Channel { unloaded_ns: 45.0, capacity: 8.0, slope_ns: 54.0 };

    fn user(core_ns: f64, bytes: f64, uses: &[(usize, f64)]) -> MemoryClient {
        let exposed = bytes / 128.0;
        MemoryClient { core_ns, exposed, bytes, duty: 1.0, fixed_ns: 0.0, uses: uses.to_vec() }
    }

    /// Returns the latencies of all channels after a fixed number of iterations.
    fn converged_latencies(users: &[MemoryClient], backgrounds: &[f64]) -> Vec<f64> {
        let mut latencies = vec![45.0; backgrounds.len()];
        for _ in 0..50 {
            for channel_idx in 0..backgrounds.len() {
                let demand_of = |user: &MemoryClient| {
                    let uses_of = |at: usize| user.uses.iter().filter(move |(p, _)| *p == at);
                    let share = uses_of(channel_idx).map(|(_, share)| share).sum();
                    let others = (0..backgrounds.len()).filter(|&other| other != channel_idx);
                    let elsewhere = others
                        .flat_map(uses_of)
                        .map(|(channel_idx, share)| share * latencies[*channel_idx]);
                    let fixed_ns = user.fixed_ns + elsewhere.sum::<f64>();
                    user.demand_on(share, fixed_ns)
                };
                let demands: Vec<ClientDemand> = users.iter().map(demand_of).collect();
                let loaded =
                    LoadedChannel { channel: CHANNEL, background: backgrounds[channel_idx] };
                latencies[channel_idx] =
                    update_latency(&demands, &loaded, latencies[channel_idx]).0;
            }
        }
        latencies
    }

    #[test]
    fn one_controller_is_solved_as_a_single_channel() {
        let users = [user(250.0, 640.0, &[(0, 1.0)]), user(50.0, 1280.0, &[(0, 1.0)])];
        let demands: Vec<Demand> = users
            .iter()
            .map(|u| Demand { core_ns: u.core_ns, exposed: u.exposed, bytes: u.bytes })
            .collect();
        let alone = CHANNEL.load(&demands);
        let latencies = converged_latencies(&users, &[0.0]);
        assert!((latencies[0] / alone.latency_ns - 1.0).abs() < 1e-6, "{latencies:?} {alone:?}");
    }

    #[test]
    fn a_program_on_the_less_utilized_controller_waits_less() {
        let hogs: Vec<MemoryClient> = (0..4).map(|_| user(20.0, 1280.0, &[(0, 1.0)])).collect();
        let both = user(250.0, 640.0, &[(0, 0.5), (1, 0.5)]);
        let far = user(250.0, 640.0, &[(1, 1.0)]);
        let all: Vec<MemoryClient> = hogs.into_iter().chain([both, far]).collect();
        let latencies = converged_latencies(&all, &[0.0, 0.0]);
        assert!(1.5 * latencies[1] < latencies[0], "{latencies:?}");
        let slow = |user: &MemoryClient| user.ns_per_1000(&latencies);
        assert!(slow(&all[5]) < slow(&all[4]));
    }

    #[test]
    fn background_traffic_raises_the_latency() {
        let users = [user(250.0, 640.0, &[(0, 1.0)])];
        let latency_with = |backgrounds| converged_latencies(&users, &[backgrounds])[0];
        assert!(latency_with(0.0) + 10.0 < latency_with(4.0));
    }
}
