//! Core kinds: performance and efficiency cores, and their relative capacity.
//!
//! The kernel has several sources, but no machine has all of them:
//!
//! ```text
//!   cpu_capacity                  relative throughput (Arm; Intel hybrids since 6.12)
//!   cpu_core, cpu_atom, …         Intel PMUs list the CPUs of each core type
//!   cpuinfo_max_freq, base_freq   frequency; distinguishes core kinds, without the work per cycle
//!   acpi_cppc/highest_perf        performance scale of the firmware
//! ```
//!
//! Cores are of one kind if all of these values are equal. Processors with favoured cores, which have slightly higher
//! turbo frequencies, are not hybrid: if cores have the same base frequency, maximum frequencies that differ by less
//! than [`TURBO_SPREAD_PERCENT`] count as equal.

use std::collections::{BTreeMap, BTreeSet};

use base::{CpuId, CpuSet};

use super::tree::Tree;

/// Source: hwloc (`topology-linux.c`, adjustment of maximum frequencies). The maximum frequencies of favoured cores
/// differ by less than this value, the maximum frequencies of core kinds by more.
const TURBO_SPREAD_PERCENT: u64 = 10;
/// If there are three or more kinds, kinds with at least this capacity are performance cores. Guessed: on known hybrid
/// processors efficiency cores have a capacity of 250 to 750 (of 1024) and performance cores above 850.
const PERFORMANCE_CAPACITY: u64 = 768;

/// Maximum plausible value (1 THz in kHz). Larger values are ignored.
const VALUE_MAX: u64 = 1_000_000_000;

/// Properties of one CPU. CPUs with equal properties are of one kind. Faster CPUs sort as greater.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Properties {
    capacity: Option<u64>,
    core_type: Option<CoreType>,
    max_khz: Option<u64>,
    base_khz: Option<u64>,
}

/// Core types with the names of Intel, slowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CoreType {
    LowPower,
    Efficiency,
    Performance,
}

/// Kind and capacity of every online CPU.
#[derive(Debug)]
pub(super) struct Kinds {
    of_cpu: BTreeMap<CpuId, (String, u32)>,
}

/// Reads the kinds. All cores have one kind if no source distinguishes them.
pub(super) fn read(tree: &Tree, online: &CpuSet) -> Kinds {
    let mut properties: BTreeMap<CpuId, Properties> =
        online.iter().map(|cpu| (cpu, of_cpu(tree, cpu))).collect();
    for (core_type, cpus) in core_types(tree) {
        cpus.iter().for_each(|cpu| {
            properties.entry(cpu).and_modify(|properties| properties.core_type = Some(core_type));
        });
    }
    equalize_favoured(&mut properties);
    Kinds { of_cpu: name(tree, &properties) }
}

impl Kinds {
    /// Returns the kind of the core with these CPUs. If firmware errors give the CPUs different kinds, the fastest kind
    /// is returned.
    pub(super) fn kind_of_core(&self, cpus: &CpuSet) -> (String, u32) {
        let known = cpus.iter().filter_map(|cpu| self.of_cpu.get(&cpu));
        let fastest = known.max_by_key(|(_, capacity)| *capacity).cloned();
        fastest.unwrap_or_else(|| ("uniform".to_owned(), 1024))
    }
}

fn of_cpu(tree: &Tree, cpu: CpuId) -> Properties {
    let number = |file: &str| {
        let path = format!("sys/devices/system/cpu/cpu{}/{file}", cpu.0);
        tree.number(&path).filter(|number| (1..=VALUE_MAX).contains(number))
    };
    let max_khz = number("cpufreq/cpuinfo_max_freq").map(whole_mhz);
    let base_khz = max_khz.and_then(|_| number("cpufreq/base_frequency")).map(whole_mhz);
    Properties { capacity: number("cpu_capacity"), core_type: None, max_khz, base_khz }
}

/// Removes rounding errors of a few kHz.
fn whole_mhz(khz: u64) -> u64 {
    khz / 1000 * 1000
}

/// Reads the CPUs of each Intel core type: each type has a PMU with a directory in sysfs, and some kernels list the
/// types.
fn core_types(tree: &Tree) -> Vec<(CoreType, CpuSet)> {
    let types = "sys/devices/system/cpu/types";
    let pmus = [
        (CoreType::Performance, "sys/devices/cpu_core/cpus", format!("{types}/intel_core")),
        (CoreType::Efficiency, "sys/devices/cpu_atom/cpus", format!("{types}/intel_atom")),
        (CoreType::LowPower, "sys/devices/cpu_lowpower/cpus", format!("{types}/intel_lowpower")),
    ];
    let read = |(core_type, pmu, kind): (CoreType, &str, String)| {
        let typed = || tree.mask_or_list(&format!("{kind}/cpumap"), &format!("{kind}/cpulist"));
        Some((core_type, tree.list(pmu).or_else(typed)?))
    };
    pmus.into_iter().filter_map(read).collect()
}

/// Equalizes slightly different maximum frequencies of CPUs of the same core kind and base frequency. If the base
/// frequency is known, turbo is the cause of the difference, so the capacities of these CPUs are equalized too.
fn equalize_favoured(properties: &mut BTreeMap<CpuId, Properties>) {
    let groups: BTreeSet<(Option<CoreType>, Option<u64>)> =
        properties.values().map(|properties| (properties.core_type, properties.base_khz)).collect();
    for (core_type, base_khz) in groups {
        let of_group = |properties: &&mut Properties| {
            (properties.core_type, properties.base_khz) == (core_type, base_khz)
        };
        let clocks: Vec<u64> = properties
            .values_mut()
            .filter(of_group)
            .filter_map(|properties| properties.max_khz)
            .collect();
        let (Some(&low), Some(&high)) = (clocks.iter().min(), clocks.iter().max()) else {
            continue;
        };
        if low + low * TURBO_SPREAD_PERCENT / 100 <= high {
            continue;
        }
        let least = properties
            .values_mut()
            .filter(of_group)
            .filter_map(|properties| properties.capacity)
            .min();
        for properties in properties.values_mut().filter(of_group) {
            properties.max_khz = properties.max_khz.map(|_| low);
            if base_khz.is_some() && low != high {
                properties.capacity = properties.capacity.and(least);
            }
        }
    }
}

fn name(tree: &Tree, properties: &BTreeMap<CpuId, Properties>) -> BTreeMap<CpuId, (String, u32)> {
    let kinds: BTreeSet<&Properties> = properties.values().collect();
    if kinds.len() < 2 {
        return properties.keys().map(|&cpu| (cpu, ("uniform".to_owned(), 1024))).collect();
    }
    let speeds = speeds(tree, properties);
    let fastest = speeds.values().copied().max().unwrap_or(1);
    let capacity = |kind: &Properties| (speeds[kind] * 1024 / fastest).clamp(1, 1024);
    let mut ranked: Vec<&Properties> = kinds.into_iter().collect();
    ranked.sort_by_key(|kind| std::cmp::Reverse((capacity(kind), *kind)));
    let names = names(&ranked, capacity);
    let of_kind = |kind: &Properties| {
        let idx = ranked.iter().position(|ranked| *ranked == kind).unwrap_or_default();
        (names[idx].clone(), capacity(kind) as u32)
    };
    properties.iter().map(|(&cpu, kind)| (cpu, of_kind(kind))).collect()
}

/// Returns the throughput of each kind in an arbitrary unit, from the best source that has all kinds.
fn speeds(tree: &Tree, properties: &BTreeMap<CpuId, Properties>) -> BTreeMap<Properties, u64> {
    let from =
        |speed: &dyn Fn(CpuId, &Properties) -> Option<u64>| -> Option<BTreeMap<Properties, u64>> {
            let mut speeds = BTreeMap::new();
            for (&cpu, kind) in properties {
                let max_speed: &mut u64 = speeds.entry(kind.clone()).or_default();
                *max_speed = (*max_speed).max(speed(cpu, kind).filter(|&n| 0 < n)?);
            }
            Some(speeds)
        };
    // The file is read only if needed: on some machines the firmware needs a long time for it.
    let highest_perf = |cpu: CpuId, _: &Properties| {
        let path = format!("sys/devices/system/cpu/cpu{}/acpi_cppc/highest_perf", cpu.0);
        tree.number(&path).filter(|&number| number <= VALUE_MAX)
    };
    from(&|_, kind| kind.capacity)
        .or_else(|| from(&highest_perf))
        .or_else(|| from(&|_, kind| kind.max_khz))
        .or_else(|| from(&|_, _| Some(1)))
        .unwrap_or_default()
}

/// Returns the names of the kinds, fastest first: by Intel core type, otherwise by capacity. Kinds with the same name
/// are numbered.
fn names(ranked: &[&Properties], capacity: impl Fn(&Properties) -> u64) -> Vec<String> {
    let word = |(idx, kind): (usize, &&Properties)| match kind.core_type {
        Some(CoreType::Performance) => "performance",
        Some(CoreType::Efficiency) => "efficiency",
        Some(CoreType::LowPower) => "low-power",
        None if ranked.len() == 2 => ["performance", "efficiency"][idx],
        None if PERFORMANCE_CAPACITY <= capacity(kind) => "performance",
        None => "efficiency",
    };
    let words: Vec<&str> = ranked.iter().enumerate().map(word).collect();
    let numbered = words.iter().enumerate().map(|(idx, word)| {
        let nth = words[..=idx].iter().filter(|other| other == &word).count();
        let is_unique = words.iter().filter(|other| other == &word).count() == 1;
        if is_unique { (*word).to_owned() } else { format!("{word}-{nth}") }
    });
    numbered.collect()
}
