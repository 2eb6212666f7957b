//! The files that describe a machine. A recording contains only these files.
//!
//! A pattern is a path below the root. `#` matches a number, and `*` at the end of a part matches any text. Cpusets are
//! not included: a recording contains their effect in `proc/self/status`.

use std::fs;
use std::path::Path;

use crate::fault;

/// Files of a machine and of its signals.
const PATTERNS: [&str; 42] = [
    "proc/cpuinfo",
    "proc/filesystems",
    "proc/meminfo",
    "proc/self/status",
    "proc/sys/kernel/perf_event_paranoid",
    "sys/bus/event_source/devices/*/cpumask",
    "sys/bus/event_source/devices/*/events/*",
    "sys/bus/event_source/devices/*/format/*",
    "sys/bus/event_source/devices/*/type",
    "sys/devices/cpu_atom/cpus",
    "sys/devices/cpu_core/cpus",
    "sys/devices/cpu_lowpower/cpus",
    "sys/devices/system/cpu/cpu#/acpi_cppc/highest_perf",
    "sys/devices/system/cpu/cpu#/acpi_cppc/nominal_perf",
    "sys/devices/system/cpu/cpu#/cache/index#/id",
    "sys/devices/system/cpu/cpu#/cache/index#/level",
    "sys/devices/system/cpu/cpu#/cache/index#/shared_cpu_list",
    "sys/devices/system/cpu/cpu#/cache/index#/shared_cpu_map",
    "sys/devices/system/cpu/cpu#/cache/index#/size",
    "sys/devices/system/cpu/cpu#/cache/index#/type",
    "sys/devices/system/cpu/cpu#/cpu_capacity",
    "sys/devices/system/cpu/cpu#/cpufreq/amd_pstate_prefcore_ranking",
    "sys/devices/system/cpu/cpu#/cpufreq/base_frequency",
    "sys/devices/system/cpu/cpu#/cpufreq/cpuinfo_max_freq",
    "sys/devices/system/cpu/cpu#/cpufreq/scaling_max_freq",
    "sys/devices/system/cpu/cpu#/online",
    "sys/devices/system/cpu/cpu#/regs/identification/midr_el1",
    "sys/devices/system/cpu/cpu#/topology/core_cpus*",
    "sys/devices/system/cpu/cpu#/topology/core_id",
    "sys/devices/system/cpu/cpu#/topology/thread_siblings*",
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/present",
    "sys/devices/system/cpu/types/intel_*/cpulist",
    "sys/devices/system/cpu/types/intel_*/cpumap",
    "sys/devices/system/node/node#/access#/initiators/node#",
    "sys/devices/system/node/node#/access#/initiators/read_*",
    "sys/devices/system/node/node#/cpulist",
    "sys/devices/system/node/node#/cpumap",
    "sys/devices/system/node/node#/distance",
    "sys/devices/system/node/node#/meminfo",
    "sys/devices/system/node/online",
    "sys/devices/virtual/dmi/id/product_name",
];

/// Lists the files below a root that [`super::read`] reads, as relative paths, sorted. An offline CPU has no such
/// files; its directory is listed instead.
pub fn below(root: &Path) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for pattern in PATTERNS {
        let parts: Vec<&str> = pattern.split('/').collect();
        expand(root, "", &parts, &mut found);
    }
    expand(root, "", &["sys", "devices", "system", "cpu", "cpu#"], &mut found);
    found.sort_unstable();
    let is_inside =
        |next: &str, dir: &str| next.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'));
    // `/` sorts before digits, so a directory (`cpu1`) directly precedes its content (`cpu1/online`).
    let is_leaf =
        |idx: &usize| !found.get(idx + 1).is_some_and(|next| is_inside(next, &found[*idx]));
    (0..found.len()).filter(is_leaf).map(|idx| found[idx].clone()).collect()
}

/// Returns whether a relative path matches a pattern.
pub fn is_read(path: &str) -> bool {
    PATTERNS.iter().any(|pattern| {
        pattern.split('/').count() == path.split('/').count()
            && pattern.split('/').zip(path.split('/')).all(|(expected, part)| fits(expected, part))
    })
}

fn expand(root: &Path, dir: &str, parts: &[&str], found: &mut Vec<String>) {
    let Some((part, subparts)) = parts.split_first() else {
        found.push(dir.to_owned());
        return;
    };
    let join = |name: &str| if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") };
    if !part.contains(['#', '*']) {
        let path = join(part);
        let whole = root.join(&path);
        if fault::retry("stat", || whole.try_exists()).unwrap_or(false) {
            expand(root, &path, subparts, found);
        }
        return;
    }
    let entries = fault::retry("getdents64", || fs::read_dir(root.join(dir)));
    let entries = entries.into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    for name in names.filter(|name| fits(part, name)) {
        expand(root, &join(&name), subparts, found);
    }
}

fn fits(expected: &str, part: &str) -> bool {
    if let Some(start) = expected.strip_suffix('*') {
        return part.starts_with(start);
    }
    match expected.strip_suffix('#') {
        Some(start) => part.strip_prefix(start).and_then(super::tree::whole_number).is_some(),
        None => expected == part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_matches_digits_and_a_star_any_text() {
        for path in [
            "sys/devices/system/cpu/cpu17/online",
            "sys/devices/system/cpu/cpu0/topology/core_cpus_list",
            "sys/bus/event_source/devices/uncore_imc_0/type",
        ] {
            assert!(is_read(path), "{path}");
        }
        for path in ["proc/self/environ", "sys/devices/system/cpu/cpufreq/online", "proc/cpuinfo/x"]
        {
            assert!(!is_read(path), "{path}");
        }
    }

    #[test]
    fn listed_files_below_the_root_are_files_that_are_read() {
        let found = below(Path::new("/"));
        assert!(found.contains(&"proc/cpuinfo".to_owned()));
        assert!(found.is_sorted());
        for path in &found {
            let is_bare_cpu = path.rsplit('/').next().is_some_and(|part| fits("cpu#", part));
            assert!(is_bare_cpu || is_read(path), "{path}");
        }
    }
}
