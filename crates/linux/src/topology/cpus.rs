//! Which CPUs there are, and which of them the kernel schedules on.

use base::{CpuId, CpuSet};

use super::cpuinfo::CpuInfo;
use super::tree::Tree;

/// The CPUs of a machine.
#[derive(Debug)]
pub(super) struct Cpus {
    pub(super) present: CpuSet,
    pub(super) online: CpuSet,
}

/// Present are the CPUs that have a folder (else `cpu/present`, else `/proc/cpuinfo`); online those of
/// them that `cpu/online` lists (else each folder's own file; one without a file cannot go offline).
pub(super) fn read(tree: &Tree, info: &CpuInfo, warnings: &mut Vec<String>) -> Cpus {
    let folders = tree.numbered("sys/devices/system/cpu", "cpu");
    let mut present: CpuSet = folders.into_iter().map(CpuId).collect();
    if present.is_empty() {
        present = tree.list("sys/devices/system/cpu/present").unwrap_or_default();
    }
    if present.is_empty() {
        present = info.cpus.iter().copied().collect();
    }
    let listed = tree.told::<CpuId>(ONLINE, "each CPU's own file is asked instead", warnings);
    let online = match listed {
        Some(listed) => known(&listed, &present, warnings),
        None => one_by_one(tree, &present),
    };
    Cpus { present, online }
}

const ONLINE: &str = "sys/devices/system/cpu/online";

fn known(listed: &CpuSet, present: &CpuSet, warnings: &mut Vec<String>) -> CpuSet {
    let strangers = listed.minus(present);
    if !strangers.is_empty() {
        warnings.push(format!("CPUs {strangers} are called online but are not there; left out"));
    }
    listed.and(present)
}

fn one_by_one(tree: &Tree, present: &CpuSet) -> CpuSet {
    let is_online = |cpu: &CpuId| {
        tree.number(&format!("sys/devices/system/cpu/cpu{}/online", cpu.0)) != Some(0)
    };
    present.iter().filter(is_online).collect()
}
