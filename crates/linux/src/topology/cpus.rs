//! Present and online CPUs.

use base::{CpuId, CpuSet};

use super::cpuinfo::CpuInfo;
use super::tree::Tree;

/// The CPUs of a machine.
#[derive(Debug)]
pub(super) struct Cpus {
    pub(super) present: CpuSet,
    pub(super) online: CpuSet,
}

/// Present are the CPUs with a folder (otherwise `cpu/present`, otherwise `/proc/cpuinfo`). Online are those in
/// `cpu/online` (otherwise according to the file of each CPU; one without a file cannot go offline).
pub(super) fn read(tree: &Tree, info: &CpuInfo, warnings: &mut Vec<String>) -> Cpus {
    let folders = tree.numbered("sys/devices/system/cpu", "cpu");
    let mut present: CpuSet = folders.into_iter().map(CpuId).collect();
    if present.is_empty() {
        present = tree.list("sys/devices/system/cpu/present").unwrap_or_default();
    }
    if present.is_empty() {
        present = info.cpus.iter().copied().collect();
    }
    let listed = tree.list_or_warn::<CpuId>(ONLINE, "the file of each CPU is read", warnings);
    let online = match listed {
        Some(listed) => known(&listed, &present, warnings),
        None => one_by_one(tree, &present),
    };
    Cpus { present, online }
}

const ONLINE: &str = "sys/devices/system/cpu/online";

fn known(listed: &CpuSet, present: &CpuSet, warnings: &mut Vec<String>) -> CpuSet {
    let missing = listed.minus(present);
    if !missing.is_empty() {
        warnings.push(format!("CPUs {missing} are listed as online but do not exist; ignored"));
    }
    listed.and(present)
}

fn one_by_one(tree: &Tree, present: &CpuSet) -> CpuSet {
    let is_online = |cpu: &CpuId| {
        tree.number(&format!("sys/devices/system/cpu/cpu{}/online", cpu.0)) != Some(0)
    };
    present.iter().filter(is_online).collect()
}
