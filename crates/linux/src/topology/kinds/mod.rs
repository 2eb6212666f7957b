//! Core kinds: performance and efficiency cores, and their relative capacity.
//!
//! The kernel has several sources, but no machine has all of them:
//!
//! ```text
//!   cpu_core, cpu_atom, …         Intel PMUs list the CPUs of each core type        core type
//!   midr_el1                      part number of Arm cores                          core type
//!   cpu_capacity                  relative throughput (Arm; Intel hybrids 6.12)     kinds, capacity
//!   cpuinfo_max_freq              frequency, without IPC                            kinds, capacity
//!   base_frequency                guaranteed frequency with all cores busy          kinds, capacity
//!   acpi_cppc/nominal_perf        sustained performance, a scale of the firmware    capacity
//!   acpi_cppc/highest_perf        peak performance, or a ranking of preferred cores capacity
//! ```
//!
//! Two cores are of one kind if no source separates them. A core type separates by equality. Numbers separate only at
//! gaps: the values of all CPUs are sorted, and a kind begins where a value exceeds the next lower value by
//! [`GAP_PERCENT`] or more. Preferred cores have slightly higher turbo frequencies and capacities than their
//! neighbours, often in several small steps, so that all of them stay in one kind.
//!
//! ```text
//!   718 718 731          997 997 1017 1024      capacities of 7 CPUs
//!   └─ one kind ─┘  36 %  └── one kind ──┘
//! ```
//!
//! Each core has its own capacity, relative to the fastest CPU of the machine.

mod sources;

use std::collections::{BTreeMap, BTreeSet};

use ::topology::{CAPACITY_MAX, CORE_KINDS_MAX, CoreKindSource, CoreKindsSource};
use base::{CpuId, CpuSet};

use self::sources::{CoreType, Values};
use super::tree::Tree;

/// Values separate kinds if the larger value exceeds the smaller by this share. Source: hwloc (`topology-linux.c`,
/// adjustment of maximum frequencies). The values of preferred cores differ from their neighbours by less: in
/// `fixtures/machines/nvidia-dgx-gb10` by at most 2 %, the core types by 36 %.
const GAP_PERCENT: u64 = 10;
/// If there are three or more kinds, kinds with at least this capacity are performance cores. Guessed: on known hybrid
/// processors efficiency cores have a capacity of 250 to 750 (of 1024) and performance cores above 850.
const PERFORMANCE_CAPACITY: u32 = 768;

/// What separates a CPU from CPUs of other kinds. CPUs with equal properties are of one kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Properties {
    core_type: Option<CoreType>,
    /// Number of the step in each source of speeds.
    steps: Vec<usize>,
}

/// Kind and capacity of every online CPU.
#[derive(Debug)]
pub(super) struct Kinds {
    of_cpu: BTreeMap<CpuId, (String, u32)>,
    /// `None` for a machine with one kind.
    pub(super) source: Option<CoreKindsSource>,
}

/// Reads the kinds. All cores have one kind if no source separates them, or if there would be more than
/// [`CORE_KINDS_MAX`].
pub(super) fn read(
    tree: &Tree,
    online: &CpuSet,
    cores: &[CpuSet],
    warnings: &mut Vec<String>,
) -> Kinds {
    let mut speeds = Speeds { tree, online, known: BTreeMap::new(), warnings };
    let (type_source, types) = sources::core_types(tree, online, speeds.warnings);
    let has_types = 1 < online.iter().map(|cpu| types.get(&cpu)).collect::<BTreeSet<_>>().len();
    let of_speeds = speeds.separating_sources();
    let steps: Vec<BTreeMap<CpuId, usize>> =
        of_speeds.iter().filter_map(|&source| speeds.of(source).map(steps)).collect();
    let properties = |cpu: CpuId| Properties {
        core_type: types.get(&cpu).copied(),
        steps: steps.iter().map(|step| step[&cpu]).collect(),
    };
    let properties: BTreeMap<CpuId, Properties> =
        online.iter().map(|cpu| (cpu, properties(cpu))).collect();
    warn_of_limits(&mut speeds, &properties);
    let has_too_many = CORE_KINDS_MAX < properties.values().collect::<BTreeSet<_>>().len();
    if has_too_many {
        let problem = format!("sysfs files separate more than {CORE_KINDS_MAX} core kinds");
        let remedy = "all cores are of one kind; --core-kinds sets others";
        speeds.warnings.push(format!("{problem}; {remedy}"));
    }
    if has_too_many || !has_types && of_speeds.is_empty() {
        let of_cpu = online.iter().map(|cpu| (cpu, ("uniform".to_owned(), CAPACITY_MAX))).collect();
        return Kinds { of_cpu, source: None };
    }
    let capacity = speeds.capacity_source();
    let of_cpu = name(&properties, capacity.and_then(|source| speeds.of(source)));
    warn_of_contradictions(&mut speeds, capacity, &types);
    let kinds = Some(type_source).filter(|_| has_types).into_iter().chain(of_speeds).collect();
    let kinds = Kinds { of_cpu, source: Some(CoreKindsSource { kinds, capacity }) };
    kinds.warn_of_mixed_cores(cores, warnings);
    kinds
}

/// The speeds of the CPUs by source, read when they are needed: on some machines the firmware needs a long time for the
/// files of CPPC.
struct Speeds<'a> {
    tree: &'a Tree,
    online: &'a CpuSet,
    known: BTreeMap<CoreKindSource, Option<Values>>,
    warnings: &'a mut Vec<String>,
}

impl Speeds<'_> {
    fn of(&mut self, source: CoreKindSource) -> Option<&Values> {
        let Speeds { tree, online, known, warnings } = self;
        let read = || sources::values(tree, online, source, warnings);
        known.entry(source).or_insert_with(read).as_ref()
    }

    fn separates(&mut self, source: CoreKindSource) -> bool {
        self.of(source).is_some_and(|values| steps(values).values().any(|&step| step != 0))
    }

    /// Returns the sources of speeds that separate kinds.
    fn separating_sources(&mut self) -> Vec<CoreKindSource> {
        let mut sources =
            vec![CoreKindSource::CpuCapacity, CoreKindSource::MaxFreq, CoreKindSource::BaseFreq];
        if sources.iter().all(|&source| self.of(source).is_none()) {
            sources.push(CoreKindSource::NominalPerf);
        }
        sources.retain(|&source| self.separates(source));
        sources
    }

    /// Returns the most trusted source whose speeds differ. The capacity of the kernel comes first, because its load
    /// balancer uses it. The scale of CPPC includes instructions per cycle, frequencies do not.
    fn capacity_source(&mut self) -> Option<CoreKindSource> {
        let is_ranking = sources::has_preferred_core_ranking(self.tree, self.online);
        let order = [
            CoreKindSource::CpuCapacity,
            CoreKindSource::NominalPerf,
            CoreKindSource::HighestPerf,
            CoreKindSource::MaxFreq,
            CoreKindSource::BaseFreq,
        ];
        let mut order = order
            .into_iter()
            .filter(|&source| !(is_ranking && source == CoreKindSource::HighestPerf));
        order.find(|&source| self.separates(source))
    }
}

/// Returns the step of each CPU: the number of gaps below its value.
fn steps(values: &Values) -> BTreeMap<CpuId, usize> {
    let sorted: BTreeSet<u64> = values.values().copied().collect();
    let sorted: Vec<u64> = sorted.into_iter().collect();
    let is_gap = |pair: &&[u64]| pair[0] * (100 + GAP_PERCENT) <= pair[1] * 100;
    let starts: Vec<u64> = sorted.windows(2).filter(is_gap).map(|pair| pair[1]).collect();
    let step = |value: u64| starts.iter().filter(|&&start| start <= value).count();
    values.iter().map(|(&cpu, &value)| (cpu, step(value))).collect()
}

impl Kinds {
    /// Returns the kind of the core with these CPUs. If firmware errors give the CPUs different kinds, the fastest kind
    /// is returned.
    pub(super) fn kind_of_core(&self, cpus: &CpuSet) -> (String, u32) {
        let known = cpus.iter().filter_map(|cpu| self.of_cpu.get(&cpu));
        let fastest = known.max_by_key(|(_, capacity)| *capacity).cloned();
        fastest.unwrap_or_else(|| ("uniform".to_owned(), CAPACITY_MAX))
    }

    fn warn_of_mixed_cores(&self, cores: &[CpuSet], warnings: &mut Vec<String>) {
        for core in cores {
            let kinds: BTreeSet<_> = core.iter().map(|cpu| self.of_cpu.get(&cpu)).collect();
            if 1 < kinds.len() {
                let (fastest, _) = self.kind_of_core(core);
                warnings.push(format!(
                    "SMT siblings {core} are of different core kinds; the core gets the fastest, {fastest}"
                ));
            }
        }
    }
}

/// Adds a warning for kinds without speeds, and for each core type of which CPUs have a larger capacity and a lower
/// maximum frequency than others. On cores of different types this is expected, because one has more instructions per
/// cycle. On cores of one type the capacity follows the frequency.
fn warn_of_contradictions(
    speeds: &mut Speeds<'_>,
    capacity: Option<CoreKindSource>,
    types: &BTreeMap<CpuId, CoreType>,
) {
    let Some(source) = capacity else {
        let unknown =
            "no sysfs file contains the speeds of the core kinds: all have the capacity 1024";
        return speeds.warnings.push(format!("{unknown}; --core-kinds sets them"));
    };
    let Some(capacities) = speeds.of(source).map(steps) else { return };
    let Some(clocks) = speeds.of(CoreKindSource::MaxFreq).map(steps) else { return };
    let mut of_type: BTreeMap<CoreType, BTreeMap<(usize, usize), CpuSet>> = BTreeMap::new();
    for (&cpu, &core_type) in types {
        let steps = (capacities[&cpu], clocks[&cpu]);
        of_type.entry(core_type).or_default().entry(steps).or_default().extend([cpu]);
    }
    for groups in of_type.values() {
        let slower = |high: &(usize, usize), low: &(usize, usize)| low.0 < high.0 && high.1 < low.1;
        let found = groups.iter().rev().find_map(|(high, cpus)| {
            let (_, others) = groups.iter().find(|(low, _)| slower(high, low))?;
            Some((cpus, others))
        });
        if let Some((cpus, others)) = found {
            speeds.warnings.push(format!(
                "CPUs {cpus} have a larger {source} and a lower {} than CPUs {others} of the same core type; \
                 {source} is used",
                CoreKindSource::MaxFreq
            ));
        }
    }
}

/// Adds a warning if `scaling_max_freq` limits CPUs of one kind to different frequencies. The limit is a setting that
/// can change at any time, so it does not separate kinds.
fn warn_of_limits(speeds: &mut Speeds<'_>, properties: &BTreeMap<CpuId, Properties>) {
    let Some(limits) = speeds.of(CoreKindSource::ScalingMaxFreq).cloned() else { return };
    for kind in properties.values().collect::<BTreeSet<_>>() {
        let of_kind = limits.iter().filter(|(cpu, _)| properties[cpu] == *kind);
        let steps = steps(&of_kind.map(|(&cpu, &limit)| (cpu, limit)).collect());
        let fastest = steps.values().copied().max().unwrap_or_default();
        let limited: CpuSet =
            steps.iter().filter(|(_, step)| **step < fastest).map(|(&cpu, _)| cpu).collect();
        if !limited.is_empty() {
            speeds.warnings.push(format!(
                "{} limits CPUs {limited} below other CPUs of their core kind; a limit can change, so the CPUs have the \
                 capacities without it (--core-kinds sets another)",
                CoreKindSource::ScalingMaxFreq
            ));
        }
    }
}

/// Returns kind and capacity of each CPU. Without speeds all CPUs have the same capacity. Kinds are ranked by their
/// fastest CPU, as in [`::topology::CoreKind::capacity`].
fn name(
    properties: &BTreeMap<CpuId, Properties>,
    values: Option<&Values>,
) -> BTreeMap<CpuId, (String, u32)> {
    let speed = |cpu: CpuId| values.map_or(1, |values| values[&cpu]);
    let fastest = properties.keys().map(|cpu| speed(*cpu)).max().unwrap_or(1);
    let scale = u64::from(CAPACITY_MAX);
    let capacity = |cpu: CpuId| (speed(cpu) * scale / fastest).clamp(1, scale) as u32;
    let mut of_kind: BTreeMap<&Properties, u32> = BTreeMap::new();
    for (cpu, kind) in properties {
        let largest = of_kind.entry(kind).or_default();
        *largest = capacity(*cpu).max(*largest);
    }
    let mut ranked: Vec<&Properties> = of_kind.keys().copied().collect();
    ranked.sort_by_key(|kind| std::cmp::Reverse((of_kind[kind], *kind)));
    let names = names(&ranked, |kind| of_kind[kind]);
    let name_of = |kind: &Properties| {
        let idx = ranked.iter().position(|ranked| *ranked == kind).unwrap_or_default();
        names[idx].clone()
    };
    properties.iter().map(|(&cpu, kind)| (cpu, (name_of(kind), capacity(cpu)))).collect()
}

/// Returns the names of the kinds, fastest first: by Intel core type, otherwise by capacity. Kinds with the same name
/// are numbered.
fn names(ranked: &[&Properties], capacity: impl Fn(&Properties) -> u32) -> Vec<String> {
    let word = |(idx, kind): (usize, &&Properties)| match kind.core_type {
        Some(CoreType::Performance) => "performance",
        Some(CoreType::Efficiency) => "efficiency",
        Some(CoreType::LowPower) => "low-power",
        _ if ranked.len() == 2 => ["performance", "efficiency"][idx],
        _ if PERFORMANCE_CAPACITY <= capacity(kind) => "performance",
        _ => "efficiency",
    };
    let words: Vec<&str> = ranked.iter().enumerate().map(word).collect();
    let numbered = words.iter().enumerate().map(|(idx, word)| {
        let nth = words[..=idx].iter().filter(|other| other == &word).count();
        let is_unique = words.iter().filter(|other| other == &word).count() == 1;
        if is_unique { (*word).to_owned() } else { format!("{word}-{nth}") }
    });
    numbered.collect()
}
