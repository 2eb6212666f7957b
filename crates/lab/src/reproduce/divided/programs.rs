//! The paper's eleven programs, and what the physics says of them without a run.

use host_sim::hardware::Hardware;
use host_sim::physics::{Behaviour, Fitted, of_profile};
use host_sim::predict::Domain;
use program::Job;
use topology::Machine;

use super::super::ReproduceError;
use crate::shipped::{self, Alone, Draw};

/// The paper's groups; sp.B and ua.B hurt others and count as Group 3 for simplicity.
pub(super) const G1: [usize; 3] = [0, 1, 2];
pub(super) const G2: [usize; 3] = [3, 4, 5];
pub(super) const HURTING: [usize; 2] = [6, 7];
pub(super) const HARMLESS: [usize; 3] = [8, 9, 10];

/// By place: Group 1, Group 2, Group 3.
pub(super) const ELEVEN: [&str; 11] = [
    "lbm",
    "libquantum",
    "lu.B",
    "sphinx3",
    "omnetpp",
    "streamcluster",
    "sp.B",
    "ua.B",
    "canneal",
    "ferret",
    "gromacs",
];

/// The eleven on a socket of a machine, in a draw.
pub(super) struct Socket {
    pub alone: Vec<Alone>,
    pub behaviours: Vec<Behaviour>,
    pub domain: Domain,
}

/// # Errors
/// A machine or a profile that does not ship.
pub(super) fn socket(machine: &str, draw: Draw) -> Result<Socket, ReproduceError> {
    socket_of(&shipped::machine(machine)?, draw)
}

/// The same of a machine that may have been changed.
///
/// # Errors
/// A profile that does not ship.
pub(super) fn socket_of(machine: &Machine, draw: Draw) -> Result<Socket, ReproduceError> {
    let hardware = Hardware::new(machine);
    let cpu = &hardware.cpus[0];
    let domain = Domain {
        cache: hardware.caches[cpu.cache].bytes,
        channel: hardware.nodes[cpu.node].channel,
    };
    let habits = Fitted::default().habits(cpu.ghz);
    let (mut alone, mut behaviours) = (Vec::new(), Vec::new());
    for name in ELEVEN {
        let profile = shipped::profile_drawn(name, draw)?;
        let behaviour = of_profile(&profile, domain.cache, &domain.channel, habits);
        behaviours.push(behaviour.expect("shipped profiles have all that the physics needs"));
        let shown = shipped::alone(&profile, &hardware);
        alone.push(shown.expect("shipped profiles have all that the physics needs"));
    }
    Ok(Socket { alone, behaviours, domain })
}

/// Limits between few and many of the two events, from the widest gaps of the eleven alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub th_sq: u64,
    pub th_ref: u64,
}

impl Limits {
    pub fn of(socket: &Socket) -> Self {
        let limit = |of: fn(&Alone) -> f64| {
            let values: Vec<u64> = socket.alone.iter().map(|alone| of(alone) as u64).collect();
            policy::calibrate(&values).map_or(u64::MAX, |threshold| threshold.value)
        };
        Limits { th_sq: limit(|alone| alone.queue_full), th_ref: limit(|alone| alone.references) }
    }

    /// As parameters of the policy, which takes at most 10^12.
    pub fn params(self) -> String {
        let most = |value: u64| value.min(1_000_000_000_000);
        format!("th_sq={},th_ref={}", most(self.th_sq), most(self.th_ref))
    }
}

/// The group of each by the rank version: thirds by full queues, then by references (spec 5.3).
pub(super) fn by_rank(socket: &Socket) -> Vec<u8> {
    let mut groups = vec![3; socket.alone.len()];
    let mut left: Vec<usize> = (0..groups.len()).collect();
    let third = groups.len() / 3;
    for (group, of) in
        [(1, (|alone| alone.queue_full) as fn(&Alone) -> f64), (2, |alone| alone.references)]
    {
        left.sort_by(|a, b| of(&socket.alone[*b]).total_cmp(&of(&socket.alone[*a])).then(a.cmp(b)));
        left.drain(..third).for_each(|place| groups[place] = group);
    }
    groups
}

/// The group of each by the limits.
pub(super) fn by_limits(socket: &Socket, limits: Limits) -> Vec<u8> {
    let group = |alone: &Alone| match () {
        () if (limits.th_sq as f64) < alone.queue_full => 1,
        () if (limits.th_ref as f64) < alone.references => 2,
        () => 3,
    };
    socket.alone.iter().map(group).collect()
}

/// The least and the most of some.
pub(super) fn least(of: impl Fn(usize) -> f64, places: &[usize]) -> f64 {
    places.iter().map(|place| of(*place)).fold(f64::INFINITY, f64::min)
}

/// As [`least`].
pub(super) fn most(of: impl Fn(usize) -> f64, places: &[usize]) -> f64 {
    places.iter().map(|place| of(*place)).fold(f64::NEG_INFINITY, f64::max)
}

/// The paper's group of a job's program; 3 of one that it does not name.
pub(in super::super) fn group_of(job: &Job) -> u8 {
    ELEVEN.iter().position(|one| *one == plain(job)).map_or(3, published)
}

/// The name of a job's program without suite number and length.
pub(super) fn plain(job: &Job) -> &str {
    let name = job.profile.as_deref().unwrap_or(&job.name);
    let name = name.split('@').next().unwrap_or(name);
    name.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.')
}

/// The paper's group of one of the eleven.
pub(super) fn published(place: usize) -> u8 {
    match place {
        place if G1.contains(&place) => 1,
        place if G2.contains(&place) => 2,
        _ => 3,
    }
}
