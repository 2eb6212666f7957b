//! Files in sysfs with the type and the speed of each CPU.
//!
//! A source counts only if it has a value for every online CPU: a comparison of CPUs needs the same source for all. A
//! source with gaps or malformed values is ignored, with one warning.

use std::collections::BTreeMap;

use ::topology::CoreKindSource;
use base::{CpuId, CpuSet};

use super::super::tree::Tree;

/// Maximum plausible value (1 THz in kHz). Larger values are malformed.
const VALUE_MAX: u64 = 1_000_000_000;

/// The values of one source, for every online CPU.
pub(super) type Values = BTreeMap<CpuId, u64>;

/// Core types: the microarchitecture of a core. The types of Intel are sorted by speed, slowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CoreType {
    /// Implementer and part number of the register `MIDR_EL1` of Arm.
    Arm(u64),
    LowPower,
    Efficiency,
    Performance,
}

/// Reads one source. `None` if the source does not exist, has gaps, or is malformed. A value of zero means that the
/// firmware does not report the value.
pub(super) fn values(
    tree: &Tree,
    online: &CpuSet,
    source: CoreKindSource,
    warnings: &mut Vec<String>,
) -> Option<Values> {
    let mut values = Values::new();
    let mut malformed = CpuSet::new();
    for cpu in online.iter() {
        let Some(text) = tree.text(&path(cpu, source.name())) else { continue };
        match text.parse::<u64>() {
            Ok(0) => {}
            Ok(value) if value <= VALUE_MAX => drop(values.insert(cpu, value)),
            _ => malformed.extend([cpu]),
        }
    }
    if values.len() == online.len() {
        return Some(values);
    }
    let first = online.first()?;
    let is_unreadable = || {
        let path = path(first, source.name());
        tree.has(&path) && tree.text(&path).is_none()
    };
    if !values.is_empty() || !malformed.is_empty() || is_unreadable() {
        let missing = online.iter().filter(|cpu| !values.contains_key(cpu));
        let missing: CpuSet = missing.collect();
        warnings.push(format!(
            "{source} of CPUs {missing} is missing, unreadable or malformed; \
             the file is ignored for all CPUs"
        ));
    }
    None
}

/// Returns whether the values of `acpi_cppc/highest_perf` are a ranking of preferred cores (amd-pstate) instead of a
/// performance.
pub(super) fn has_preferred_core_ranking(tree: &Tree, online: &CpuSet) -> bool {
    let of = |cpu| tree.has(&path(cpu, "cpufreq/amd_pstate_prefcore_ranking"));
    online.first().is_some_and(of)
}

/// Reads the core type of each CPU, and the source of the types. Empty without a source.
pub(super) fn core_types(
    tree: &Tree,
    online: &CpuSet,
    warnings: &mut Vec<String>,
) -> (CoreKindSource, BTreeMap<CpuId, CoreType>) {
    let intel = intel_types(tree, online, warnings);
    if !intel.is_empty() {
        return (CoreKindSource::Pmu, intel);
    }
    (CoreKindSource::Midr, arm_types(tree, online))
}

/// Reads the CPUs of each Intel core type: each type has a PMU with a directory in sysfs, and some kernels list the
/// types.
fn intel_types(
    tree: &Tree,
    online: &CpuSet,
    warnings: &mut Vec<String>,
) -> BTreeMap<CpuId, CoreType> {
    let kernel_types = "sys/devices/system/cpu/types";
    let pmus = [
        (CoreType::Performance, "cpu_core", "intel_core"),
        (CoreType::Efficiency, "cpu_atom", "intel_atom"),
        (CoreType::LowPower, "cpu_lowpower", "intel_lowpower"),
    ];
    let mut types = BTreeMap::new();
    for (core_type, pmu, name) in pmus {
        let file = format!("sys/devices/{pmu}/cpus");
        let listed = tree.list_or_warn::<CpuId>(&file, "the file is ignored", warnings);
        let dir = format!("{kernel_types}/{name}");
        let typed = || tree.mask_or_list(&format!("{dir}/cpumap"), &format!("{dir}/cpulist"));
        let cpus = listed.or_else(typed).unwrap_or_default().and(online);
        let doubly: CpuSet = cpus.iter().filter(|cpu| types.contains_key(cpu)).collect();
        if !doubly.is_empty() {
            warnings
                .push(format!("CPUs {doubly} have several hybrid PMUs; {pmu} is ignored for them"));
        }
        types.extend(cpus.minus(&doubly).iter().map(|cpu| (cpu, core_type)));
    }
    let untyped: CpuSet = online.iter().filter(|cpu| !types.contains_key(cpu)).collect();
    if !types.is_empty() && !untyped.is_empty() {
        warnings.push(format!(
            "CPUs {untyped} have no hybrid PMU, but other CPUs have one; they are a core kind of their own"
        ));
    }
    types
}

/// Reads the core types of Arm: the implementer and the part number, without variant and revision.
fn arm_types(tree: &Tree, online: &CpuSet) -> BTreeMap<CpuId, CoreType> {
    let midr = |cpu: CpuId| {
        let text = tree.text(&path(cpu, CoreKindSource::Midr.name()))?;
        let register = u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()?;
        Some((cpu, CoreType::Arm(register & 0xff00_fff0)))
    };
    online.iter().map_while(midr).collect()
}

fn path(cpu: CpuId, file: &str) -> String {
    format!("sys/devices/system/cpu/cpu{}/{file}", cpu.0)
}
