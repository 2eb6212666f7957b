//! `/proc/cpuinfo`: name of the processor, and a fallback for files that are missing in sysfs.
//!
//! The format depends on the architecture. Most architectures have a block per CPU that begins with `processor : N`.
//! s390 has one line per CPU: `processor N: …`.

use std::collections::{BTreeMap, BTreeSet};

use base::CpuId;

use super::tree::{Tree, whole_number};

/// Content of `/proc/cpuinfo`.
#[derive(Debug, Default)]
pub(super) struct CpuInfo {
    /// The listed CPUs.
    pub(super) cpus: BTreeSet<CpuId>,
    /// Package and core id of each CPU for which both are listed.
    pub(super) core_ids: BTreeMap<CpuId, (u64, u64)>,
    /// Name of the processor.
    pub(super) model: Option<String>,
    /// Vendor of the processor.
    vendor: Option<String>,
    /// Whether the processor is an AMD processor of family 21 or 22, whose modules list two cores as siblings.
    pub(super) has_amd_modules: bool,
}

impl CpuInfo {
    pub(super) fn read(tree: &Tree) -> Self {
        let mut info = CpuInfo::parse(&tree.text("proc/cpuinfo").unwrap_or_default());
        if info.model.is_none() {
            // Arm kernels list only numbers, so the product name of the board is used instead.
            info.model = tree.text("sys/devices/virtual/dmi/id/product_name");
        }
        info.model = info.model.or(info.vendor.take()).filter(|name| !name.is_empty());
        info
    }

    fn parse(text: &str) -> Self {
        let mut info = CpuInfo::default();
        let mut block = Block::default();
        let mut family = String::new();
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else { continue };
            let (key, value) = (key.trim(), value.trim());
            match key {
                "processor" => block.begin(value, &mut info),
                "physical id" => block.package = value.parse().ok(),
                "core id" => block.core = value.parse().ok(),
                "vendor_id" => info.vendor = Some(value.to_owned()),
                "cpu family" => family = value.to_owned(),
                _ => info.take_name(key, value),
            }
            block.add_to(&mut info);
        }
        let is_amd = info.vendor.as_deref() == Some("AuthenticAMD");
        info.has_amd_modules = is_amd && ["21", "22"].contains(&family.as_str());
        info
    }

    /// Stores the first name of the processor. The key is `cpu` on Power and SPARC.
    fn take_name(&mut self, key: &str, value: &str) {
        if let Some(number) = key.strip_prefix("processor ").and_then(whole_number) {
            self.cpus.extend(small(number)); // The line has the format of s390.
        }
        if self.model.is_none() && ["model name", "cpu", "cpu model", "Model Name"].contains(&key) {
            self.model = Some(value.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
}

/// The values read so far from the block of one CPU.
#[derive(Default)]
struct Block {
    cpu: Option<CpuId>,
    package: Option<u64>,
    core: Option<u64>,
}

impl Block {
    fn begin(&mut self, value: &str, info: &mut CpuInfo) {
        *self = Block { cpu: whole_number(value).and_then(small), ..Block::default() };
        info.cpus.extend(self.cpu);
    }

    fn add_to(&self, info: &mut CpuInfo) {
        if let (Some(cpu), Some(package), Some(core)) = (self.cpu, self.package, self.core) {
            info.core_ids.insert(cpu, (package, core));
        }
    }
}

fn small(number: u32) -> Option<CpuId> {
    (number <= 65_535).then_some(CpuId(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_of_processors_is_parsed() {
        let x86 = "processor\t: 0\nmodel name\t: Some  CPU\nphysical id\t: 0\ncore id\t\t: 3\n\n\
                   processor\t: 5\nmodel name\t: Some  CPU\nphysical id\t: 1\ncore id\t\t: 3\n";
        let info = CpuInfo::parse(x86);
        assert_eq!(info.core_ids, BTreeMap::from([(CpuId(0), (0, 3)), (CpuId(5), (1, 3))]));
        assert_eq!(info.model.as_deref(), Some("Some CPU"));

        let s390 =
            "vendor_id       : IBM/S390\nprocessor 0: version = 00\nprocessor 7: version = 00\n";
        assert_eq!(CpuInfo::parse(s390).cpus, BTreeSet::from([CpuId(0), CpuId(7)]));
    }
}
