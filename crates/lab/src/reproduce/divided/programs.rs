//! The eleven programs of the paper. The physics computes their counters and slowdowns without a run.

use host_sim::hardware::Hardware;
use host_sim::physics::{Calibration, CpiModel, of_profile};
use host_sim::predict::{CacheDomain, CacheLimits};
use report::study::{RuleReading, StudyCell, StudyClaim, StudyValue};
use topology::Machine;

use super::super::finding::{claim, unjudged_claim, verdict_of_draws};
use super::super::published_groups::ELEVEN;
use super::super::{ReproduceError, RunPool};
use crate::shipped::{self, ProfileDraw, ProfileSet, SoloRates};

/// The eleven programs on a socket of a machine.
pub(super) struct Socket {
    pub alone: Vec<SoloRates>,
    pub behaviours: Vec<CpiModel>,
    pub domain: CacheDomain,
}

pub(super) fn socket(machine: &str, draw: ProfileDraw) -> Result<Socket, ReproduceError> {
    socket_of(&shipped::machine(machine)?, draw)
}

pub(super) fn socket_of(machine: &Machine, draw: ProfileDraw) -> Result<Socket, ReproduceError> {
    let hardware = Hardware::new(machine);
    let cpu = &hardware.cpus[0];
    let domain = CacheDomain {
        replacement: hardware.replacement,
        cache: hardware.caches[cpu.cache].bytes,
        channel: *hardware.memory(cpu.node),
        limits: CacheLimits::default(),
    };
    let habits = Calibration::default().parameters(cpu.speed);
    let (mut alone, mut behaviours) = (Vec::new(), Vec::new());
    for name in ELEVEN {
        let profile = shipped::profile_drawn(name, draw)?;
        let behaviour = of_profile(&profile, domain.cache, &domain.channel, habits);
        behaviours.push(behaviour.expect("shipped profiles are complete"));
        alone.push(shipped::alone(&profile, &hardware).expect("shipped profiles are complete"));
    }
    Ok(Socket { alone, behaviours, domain })
}

/// Returns the socket of xeon-2x4 in every draw.
pub(super) fn sockets(pool: &RunPool<'_>) -> Result<Vec<Socket>, ReproduceError> {
    pool.draws().map(|draw| socket("xeon-2x4", draw)).collect()
}

/// Returns a claim over all draws, and whether it is true in the middle of the ranges.
pub(super) fn claim_of_draws<T>(
    text: &str,
    is_true: impl Fn(&T) -> bool,
    middle: &T,
    drawn: &[T],
) -> StudyClaim {
    let n_true = drawn.iter().filter(|one| is_true(one)).count();
    let word = if is_true(middle) { "true" } else { "false" };
    let found =
        format!("in {n_true} of {} draws; in the middle of the ranges: {word}", drawn.len());
    let found = StudyCell::new(found, vec![StudyValue::count(n_true, drawn.len())]);
    claim(text, RuleReading::Either, found, verdict_of_draws(n_true, drawn.len()))
}

/// Claims with their conditions.
pub(super) type Conditions<T> = [(&'static str, fn(&T) -> bool)];

/// Start of a claim that the profiles `printed` contain. With these profiles it is not judged.
pub(super) const PRINTED_INPUT: &str = "input of profiles=printed: ";

/// Returns a claim over all draws for each condition.
pub(super) fn claims_of_draws<T>(
    set: ProfileSet,
    all: &Conditions<T>,
    middle: &T,
    drawn: &[T],
) -> Vec<StudyClaim> {
    let claim = |(text, is_true): &(&str, fn(&T) -> bool)| match text.strip_prefix(PRINTED_INPUT) {
        Some(text) if set == ProfileSet::Printed => {
            unjudged_claim(text, RuleReading::Either, "an input of these profiles")
        }
        input => claim_of_draws(input.unwrap_or(text), is_true, middle, drawn),
    };
    all.iter().map(claim).collect()
}

/// Thresholds between few and many queue-full events and LLC references per second: the middles of the widest gaps
/// between the eleven programs alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupThresholds {
    pub th_sq: u64,
    pub th_ref: u64,
}

impl GroupThresholds {
    pub fn of(socket: &Socket) -> Self {
        let limit = |of: fn(&SoloRates) -> f64| {
            let values: Vec<u64> = socket.alone.iter().map(|alone| of(alone) as u64).collect();
            policy::calibrate(&values).map_or(u64::MAX, |threshold| threshold.value)
        };
        GroupThresholds {
            th_sq: limit(|alone| alone.queue_full),
            th_ref: limit(|alone| alone.references),
        }
    }

    /// Returns the thresholds as parameters of `divided`, which accepts at most 10^12.
    pub fn params(self) -> String {
        let at_most = |value: u64| value.min(1_000_000_000_000);
        format!("th_sq={},th_ref={}", at_most(self.th_sq), at_most(self.th_ref))
    }
}

/// Returns the thresholds on a machine as parameters of `divided`.
pub(in super::super) fn thresholds(
    machine: &Machine,
    draw: ProfileDraw,
) -> Result<String, ReproduceError> {
    Ok(GroupThresholds::of(&socket_of(machine, draw)?).params())
}

/// Returns the groups of the rank version: a third of the programs by queue-full events, then a third by references.
pub(super) fn by_rank(socket: &Socket) -> Vec<u8> {
    let mut groups = vec![3; socket.alone.len()];
    let mut left: Vec<usize> = (0..groups.len()).collect();
    let third = groups.len() / 3;
    for (group, of) in
        [(1, (|alone| alone.queue_full) as fn(&SoloRates) -> f64), (2, |alone| alone.references)]
    {
        left.sort_by(|a, b| of(&socket.alone[*b]).total_cmp(&of(&socket.alone[*a])).then(a.cmp(b)));
        left.drain(..third).for_each(|idx| groups[idx] = group);
    }
    groups
}

/// Returns the groups of the threshold version.
pub(super) fn by_limits(socket: &Socket, limits: GroupThresholds) -> Vec<u8> {
    let group = |alone: &SoloRates| match () {
        () if (limits.th_sq as f64) < alone.queue_full => 1,
        () if (limits.th_ref as f64) < alone.references => 2,
        () => 3,
    };
    socket.alone.iter().map(group).collect()
}

/// Returns the smallest value of some programs.
pub(super) fn least(of: impl Fn(usize) -> f64, programs: &[usize]) -> f64 {
    programs.iter().map(|idx| of(*idx)).fold(f64::INFINITY, f64::min)
}

/// Returns the largest value of some programs.
pub(super) fn most(of: impl Fn(usize) -> f64, programs: &[usize]) -> f64 {
    programs.iter().map(|idx| of(*idx)).fold(f64::NEG_INFINITY, f64::max)
}
