//! Kinds of cores: which are fast, which are slow, and by how much.
//!
//! The kernel tells it in several places, none of which every machine has:
//!
//! ```text
//!   cpu_capacity                  relative throughput (ARM; Intel hybrids since 6.12)
//!   cpu_core, cpu_atom, …         Intel's counters list the CPUs of each sort
//!   cpuinfo_max_freq, base_freq   clock; tells sorts apart, but not what a cycle is worth
//!   acpi_cppc/highest_perf        the firmware's own scale of performance
//! ```
//!
//! Cores are of one kind when all of these agree. Processors that let single cores turbo a little
//! higher ("favoured cores") are not hybrids: maximum clocks that differ by less than
//! [`TURBO_SPREAD_PERCENT`] among cores with the same base clock are one.

use std::collections::{BTreeMap, BTreeSet};

use base::{CpuId, CpuSet};

use super::tree::Tree;

/// Taken over from hwloc, which found that favoured cores stay below it and other sorts of cores do not.
const TURBO_SPREAD_PERCENT: u64 = 10;
/// Of three kinds and more, those above this capacity are called performance cores. A guess: the
/// slow cores of known hybrids lie between 250 and 750 of 1024, the fast ones above 850.
const PERFORMANCE_CAPACITY: u64 = 768;

/// A terahertz in kHz; what is beyond it is a torn file, and left out.
const FIGURE_MAX: u64 = 1_000_000_000;

/// What tells one CPU's kind; equal values are one kind. Ordered so that faster is greater.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Signs {
    capacity: Option<u64>,
    sort: Option<Sort>,
    max_khz: Option<u64>,
    base_khz: Option<u64>,
}

/// Intel's own words, slowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sort {
    LowPower,
    Efficiency,
    Performance,
}

/// The kind and the capacity of every online CPU.
#[derive(Debug)]
pub(super) struct Kinds {
    of_cpu: BTreeMap<CpuId, (String, u32)>,
}

/// Reads what tells kinds apart; all alike when nothing does.
pub(super) fn read(tree: &Tree, online: &CpuSet) -> Kinds {
    let mut signs: BTreeMap<CpuId, Signs> =
        online.iter().map(|cpu| (cpu, of_cpu(tree, cpu))).collect();
    for (sort, cpus) in sorts(tree) {
        cpus.iter().for_each(|cpu| {
            signs.entry(cpu).and_modify(|signs| signs.sort = Some(sort));
        });
    }
    forget_favourites(&mut signs);
    Kinds { of_cpu: name(tree, &signs) }
}

impl Kinds {
    /// Of a core, by its CPUs, which are of one kind unless the firmware errs: then the fastest.
    pub(super) fn of(&self, cpus: &CpuSet) -> (String, u32) {
        let known = cpus.iter().filter_map(|cpu| self.of_cpu.get(&cpu));
        let fastest = known.max_by_key(|(_, capacity)| *capacity).cloned();
        fastest.unwrap_or_else(|| ("uniform".to_owned(), 1024))
    }
}

fn of_cpu(tree: &Tree, cpu: CpuId) -> Signs {
    let number = |file: &str| {
        let path = format!("sys/devices/system/cpu/cpu{}/{file}", cpu.0);
        tree.number(&path).filter(|number| (1..=FIGURE_MAX).contains(number))
    };
    let max_khz = number("cpufreq/cpuinfo_max_freq").map(whole_mhz);
    let base_khz = max_khz.and_then(|_| number("cpufreq/base_frequency")).map(whole_mhz);
    Signs { capacity: number("cpu_capacity"), sort: None, max_khz, base_khz }
}

/// Rounding errors of a few kHz are no difference.
fn whole_mhz(khz: u64) -> u64 {
    khz / 1000 * 1000
}

/// The CPUs of each of Intel's sorts: their counters have a folder each, and some kernels list types.
fn sorts(tree: &Tree) -> Vec<(Sort, CpuSet)> {
    let types = "sys/devices/system/cpu/types";
    let places = [
        (Sort::Performance, "sys/devices/cpu_core/cpus", format!("{types}/intel_core")),
        (Sort::Efficiency, "sys/devices/cpu_atom/cpus", format!("{types}/intel_atom")),
        (Sort::LowPower, "sys/devices/cpu_lowpower/cpus", format!("{types}/intel_lowpower")),
    ];
    let read = |(sort, counters, kind): (Sort, &str, String)| {
        let typed = || tree.mask_or_list(&format!("{kind}/cpumap"), &format!("{kind}/cpulist"));
        Some((sort, tree.list(counters).or_else(typed)?))
    };
    places.into_iter().filter_map(read).collect()
}

/// Makes maximum clocks equal among CPUs of one sort and base clock when they differ by a little, and
/// capacities too where the base clock says that it is a matter of turbo.
fn forget_favourites(signs: &mut BTreeMap<CpuId, Signs>) {
    let alike: BTreeSet<(Option<Sort>, Option<u64>)> =
        signs.values().map(|signs| (signs.sort, signs.base_khz)).collect();
    for (sort, base_khz) in alike {
        let of_group = |signs: &&mut Signs| (signs.sort, signs.base_khz) == (sort, base_khz);
        let clocks: Vec<u64> =
            signs.values_mut().filter(of_group).filter_map(|signs| signs.max_khz).collect();
        let (Some(&low), Some(&high)) = (clocks.iter().min(), clocks.iter().max()) else {
            continue;
        };
        if low + low * TURBO_SPREAD_PERCENT / 100 <= high {
            continue;
        }
        let least = signs.values_mut().filter(of_group).filter_map(|signs| signs.capacity).min();
        for signs in signs.values_mut().filter(of_group) {
            signs.max_khz = signs.max_khz.map(|_| low);
            if base_khz.is_some() && low != high {
                signs.capacity = signs.capacity.and(least);
            }
        }
    }
}

fn name(tree: &Tree, signs: &BTreeMap<CpuId, Signs>) -> BTreeMap<CpuId, (String, u32)> {
    let kinds: BTreeSet<&Signs> = signs.values().collect();
    if kinds.len() < 2 {
        return signs.keys().map(|&cpu| (cpu, ("uniform".to_owned(), 1024))).collect();
    }
    let speeds = speeds(tree, signs);
    let fastest = speeds.values().copied().max().unwrap_or(1);
    let capacity = |kind: &Signs| (speeds[kind] * 1024 / fastest).clamp(1, 1024);
    let mut ranked: Vec<&Signs> = kinds.into_iter().collect();
    ranked.sort_by_key(|kind| std::cmp::Reverse((capacity(kind), *kind)));
    let names = names(&ranked, capacity);
    let of_kind = |kind: &Signs| {
        let idx = ranked.iter().position(|ranked| *ranked == kind).unwrap_or_default();
        (names[idx].clone(), capacity(kind) as u32)
    };
    signs.iter().map(|(&cpu, kind)| (cpu, of_kind(kind))).collect()
}

/// A figure for each kind's throughput, on any scale, from the best source that knows all kinds.
fn speeds(tree: &Tree, signs: &BTreeMap<CpuId, Signs>) -> BTreeMap<Signs, u64> {
    let from = |speed: &dyn Fn(CpuId, &Signs) -> Option<u64>| -> Option<BTreeMap<Signs, u64>> {
        let mut speeds = BTreeMap::new();
        for (&cpu, kind) in signs {
            let seen: &mut u64 = speeds.entry(kind.clone()).or_default();
            *seen = (*seen).max(speed(cpu, kind).filter(|&n| 0 < n)?);
        }
        Some(speeds)
    };
    // Read only here: on some machines the firmware takes long to answer.
    let highest_perf = |cpu: CpuId, _: &Signs| {
        let path = format!("sys/devices/system/cpu/cpu{}/acpi_cppc/highest_perf", cpu.0);
        tree.number(&path).filter(|&number| number <= FIGURE_MAX)
    };
    from(&|_, kind| kind.capacity)
        .or_else(|| from(&highest_perf))
        .or_else(|| from(&|_, kind| kind.max_khz))
        .or_else(|| from(&|_, _| Some(1)))
        .unwrap_or_default()
}

/// Names, fastest first: what Intel says, else by capacity; several of one name are numbered.
fn names(ranked: &[&Signs], capacity: impl Fn(&Signs) -> u64) -> Vec<String> {
    let word = |(idx, kind): (usize, &&Signs)| match kind.sort {
        Some(Sort::Performance) => "performance",
        Some(Sort::Efficiency) => "efficiency",
        Some(Sort::LowPower) => "low-power",
        None if ranked.len() == 2 => ["performance", "efficiency"][idx],
        None if PERFORMANCE_CAPACITY <= capacity(kind) => "performance",
        None => "efficiency",
    };
    let words: Vec<&str> = ranked.iter().enumerate().map(word).collect();
    let numbered = words.iter().enumerate().map(|(idx, word)| {
        let nth = words[..=idx].iter().filter(|other| other == &word).count();
        let alone = words.iter().filter(|other| other == &word).count() == 1;
        if alone { (*word).to_owned() } else { format!("{word}-{nth}") }
    });
    numbered.collect()
}
