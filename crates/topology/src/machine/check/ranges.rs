//! Ranges of the values of a machine. A value outside of these ranges is probably an error in the file.

use base::Bytes;

use super::{MachineError, invalid};
use crate::{Llc, PerfAttributes, SourcedValue};

/// Largest latency in nanoseconds. With a larger one, a simulated run does not end.
const LATENCY_MAX_NS: u64 = 1_000_000;
/// Largest latency of a hit in a last-level cache in nanoseconds. Published values are below 100.
const HIT_MAX_NS: u64 = 1000;
/// Frequencies of cores in MHz. Processors of simulated machines have 700 to 5500, records are below 10 GHz.
const MHZ_MIN: u64 = 100;
const MHZ_MAX: u64 = 10_000;
/// The smallest accepted cache in bytes. First-level caches have 16 KiB or more, and a cache of less than a line per way
/// holds no working set.
pub(super) const CACHE_MIN: u64 = 8192;

/// Checks the size of a last-level cache, if it is known.
pub(super) fn check_llc_size(llc: &Llc) -> Result<(), MachineError> {
    match llc.size {
        Some(Bytes::ZERO) => {
            let problem = "has size 0: remove the key if the size is unknown";
            Err(invalid(llc.id, "size_bytes", problem))
        }
        Some(Bytes(bytes)) if bytes < CACHE_MIN => {
            let problem = format!("has a size of {bytes} bytes: the smallest is {CACHE_MIN}");
            Err(invalid(llc.id, "size_bytes", problem))
        }
        _ => Ok(()),
    }
}

pub(super) fn check_latency(
    of: impl std::fmt::Display,
    latency: Option<SourcedValue>,
) -> Result<(), MachineError> {
    match latency.filter(|latency| LATENCY_MAX_NS < latency.value) {
        Some(latency) => {
            let found = latency.value;
            let problem = format!("has a latency of {found} ns; the largest is {LATENCY_MAX_NS}");
            Err(invalid(of, "latency", problem))
        }
        None => Ok(()),
    }
}

/// Checks the frequencies of core kinds and of cores with their own.
pub(super) fn check_frequencies(attributes: &PerfAttributes) -> Result<(), MachineError> {
    let of_kinds = attributes.kinds.iter().filter_map(|(kind, known)| {
        Some((format!("the kind {kind:?}"), "core_kinds", known.frequency_mhz?))
    });
    let of_cores =
        attributes.core_mhz.iter().map(|(core, mhz)| (core.to_string(), "frequency", *mhz));
    let is_outside = |(.., mhz): &(String, &'static str, SourcedValue)| {
        !(MHZ_MIN..=MHZ_MAX).contains(&mhz.value)
    };
    match of_kinds.chain(of_cores).find(is_outside) {
        Some((part, field, SourcedValue { value, .. })) => {
            let problem = format!("has a frequency of {value} MHz: write {MHZ_MIN} to {MHZ_MAX}");
            Err(invalid(part, field, problem))
        }
        None => Ok(()),
    }
}

/// Checks that a hit in a last-level cache is not slower than each known access to memory.
pub(super) fn check_llc_latencies(attributes: &PerfAttributes) -> Result<(), MachineError> {
    for (&llc, known) in &attributes.llcs {
        if let Some(hit) = known.latency_ns.filter(|hit| HIT_MAX_NS < hit.value) {
            let problem = format!("has a latency of {} ns; the largest is {HIT_MAX_NS}", hit.value);
            return Err(invalid(llc, "latency", problem));
        }
    }
    let memory = attributes.accesses.iter().filter_map(|access| access.latency_ns);
    let Some(slowest) = memory.map(|latency| latency.value).max() else { return Ok(()) };
    for (&llc, known) in &attributes.llcs {
        if let Some(hit) = known.latency_ns.filter(|hit| slowest < hit.value) {
            let problem = format!(
                "has a latency of {} ns, more than the {slowest} ns of the slowest memory: correct one of them",
                hit.value
            );
            return Err(invalid(llc, "latency", problem));
        }
    }
    Ok(())
}
