//! Checks of the capacities of cores against their frequencies.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::{MachineError, invalid};
use crate::PerfAttributes;
use crate::machine::{Core, MachineParts};

/// Largest accepted difference between a capacity and the speed that the other keys give, in permille. Capacities of
/// the kernel are rounded, and depend on the benchmark of the vendor.
const CAPACITY_TOLERANCE_PERMILLE: u64 = 50;

/// Accepted core cycles per instruction of a core kind, in permille of those of a profile.
pub(super) const CORE_CYCLES_PERMILLE: RangeInclusive<u64> = 50..=20_000;

/// Largest accepted core cycles that follow from frequency and capacity, in permille of those of a profile. Chosen: twice
/// the largest ratio known, that of Cortex-A55 and Cortex-X1 (`capacity-dmips-mhz` 250 and 1024 in `gs101.dtsi` of Linux).
/// A larger ratio must be declared by the key `core_cycles`.
const DERIVED_CORE_CYCLES_PERMILLE_MAX: u128 = 8_000;

/// Frequency of a core in MHz, and its core cycles per instruction in permille of those of a profile, if known.
type CoreSpeed = (u128, Option<u128>);

/// Checks that the capacities of cores do not contradict their frequencies.
///
/// Capacity is throughput: frequency over core cycles per instruction. If a kind has `core_cycles`, its capacity
/// follows from both. Otherwise the core cycles follow from frequency and capacity, and a core with a lower frequency
/// must not have fewer core cycles per instruction than the fastest core. The derived core cycles have a maximum. Cores of
/// one kind have equal core cycles.
pub(super) fn check_capacities(
    attributes: &PerfAttributes,
    parts: &MachineParts,
) -> Result<(), MachineError> {
    let speed = |core: &Core| {
        let kind = attributes.kinds.get(&core.kind);
        let mhz = attributes.core_mhz.get(&core.id).copied();
        let mhz = mhz.or(kind.and_then(|kind| kind.frequency_mhz))?.value;
        let permille = kind.and_then(|kind| kind.core_cycles_permille).map(|share| share.value);
        Some((u128::from(mhz), permille.map(u128::from)))
    };
    // A capacity of 0 has its own error.
    let cores = parts.cores.iter().filter(|core| 0 < core.capacity);
    let mut known: Vec<(&Core, CoreSpeed)> =
        cores.filter_map(|core| Some((core, speed(core)?))).collect();
    known.sort_by_key(|(core, (mhz, _))| (core.capacity, *mhz));
    let Some(&fastest) = known.last() else { return Ok(()) };
    let fastest_by_kind: BTreeMap<&str, (&Core, CoreSpeed)> =
        known.iter().map(|&(core, speed)| (core.kind.as_str(), (core, speed))).collect();
    for &(core, speed) in &known {
        let (of_kind, (mhz_max, _)) = fastest_by_kind[core.kind.as_str()];
        check_capacity((core, (speed.0, Some(1000))), (of_kind, (mhz_max, Some(1000))))?;
        check_capacity((core, speed), fastest)?;
    }
    Ok(())
}

/// Compares a core with the fastest core.
fn check_capacity(
    (core, (mhz, cycles)): (&Core, CoreSpeed),
    (fastest, (mhz_max, cycles_max)): (&Core, CoreSpeed),
) -> Result<(), MachineError> {
    // The capacity that frequency and core cycles give; without core cycles, the largest possible capacity.
    let expected = u128::from(fastest.capacity) * mhz * cycles_max.unwrap_or(1000)
        / (mhz_max * cycles.unwrap_or(1000)).max(1);
    let tolerance = expected * u128::from(CAPACITY_TOLERANCE_PERMILLE) / 1000 + 1;
    let capacity = u128::from(core.capacity);
    let is_below = cycles.is_some() && capacity + tolerance < expected;
    if capacity <= expected + tolerance && !is_below {
        return check_derived_cycles((core, mhz), (fastest, mhz_max), expected);
    }
    let problem = format!(
        "has capacity {capacity}, which contradicts its {mhz} MHz: {} has capacity {} at {mhz_max} MHz, so {} {expected}",
        fastest.id,
        fastest.capacity,
        if cycles.is_some() { "it is" } else { "it is at most" },
    );
    Err(invalid(core.id, "capacity", problem))
}

/// Checks the core cycles that follow from capacity and frequency. `expected` is the capacity with the core cycles of a
/// profile.
fn check_derived_cycles(
    (core, mhz): (&Core, u128),
    (fastest, mhz_max): (&Core, u128),
    expected: u128,
) -> Result<(), MachineError> {
    let capacity = core.capacity;
    let permille = expected * 1000 / u128::from(capacity);
    if permille <= DERIVED_CORE_CYCLES_PERMILLE_MAX {
        return Ok(());
    }
    let problem = format!(
        "has capacity {capacity}, which contradicts its {mhz} MHz: {} has capacity {} at {mhz_max} MHz, so core_cycles \
         are {permille} permille, at most {DERIVED_CORE_CYCLES_PERMILLE_MAX} are accepted; \
         correct one of these values, or declare core_cycles of the kind",
        fastest.id, fastest.capacity
    );
    Err(invalid(core.id, "capacity", problem))
}
