//! Sources of core kinds and capacities.
//!
//! A machine is read from files that contradict each other, and a user can override them. Output therefore contains the
//! files that separated the kinds, and the file of the capacities.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A source of core kinds or capacities. The names of files are relative to `/sys/devices/system/cpu/cpuN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CoreKindSource {
    /// The option `--core-kinds`.
    #[serde(rename = "option")]
    Option,
    /// The hybrid PMUs of Intel, which list the CPUs of a core type.
    #[serde(rename = "pmu")]
    Pmu,
    /// The part number of an Arm core.
    #[serde(rename = "regs/identification/midr_el1")]
    Midr,
    /// The capacity of the kernel's load balancer.
    #[serde(rename = "cpu_capacity")]
    CpuCapacity,
    /// Sustained performance on the scale of the firmware (ACPI CPPC).
    #[serde(rename = "acpi_cppc/nominal_perf")]
    NominalPerf,
    /// Peak performance on the scale of the firmware (ACPI CPPC).
    #[serde(rename = "acpi_cppc/highest_perf")]
    HighestPerf,
    /// Maximum frequency of the hardware.
    #[serde(rename = "cpufreq/cpuinfo_max_freq")]
    MaxFreq,
    /// Frequency that all cores sustain together (intel_pstate).
    #[serde(rename = "cpufreq/base_frequency")]
    BaseFreq,
    /// Maximum frequency by the settings of cpufreq.
    #[serde(rename = "cpufreq/scaling_max_freq")]
    ScalingMaxFreq,
}

/// The sources of the core kinds of a machine with several kinds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreKindsSource {
    /// The sources that separate the kinds, most trusted first.
    pub kinds: Vec<CoreKindSource>,
    /// The source of the capacities; `None` if all kinds have the same capacity because no source is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<CoreKindSource>,
}

impl CoreKindSource {
    /// Returns the name in machine files and output.
    pub fn name(self) -> &'static str {
        match self {
            CoreKindSource::Option => "option",
            CoreKindSource::Pmu => "pmu",
            CoreKindSource::Midr => "regs/identification/midr_el1",
            CoreKindSource::CpuCapacity => "cpu_capacity",
            CoreKindSource::NominalPerf => "acpi_cppc/nominal_perf",
            CoreKindSource::HighestPerf => "acpi_cppc/highest_perf",
            CoreKindSource::MaxFreq => "cpufreq/cpuinfo_max_freq",
            CoreKindSource::BaseFreq => "cpufreq/base_frequency",
            CoreKindSource::ScalingMaxFreq => "cpufreq/scaling_max_freq",
        }
    }
}

impl fmt::Display for CoreKindSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for CoreKindsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<&str> = self.kinds.iter().map(|source| source.name()).collect();
        let capacity = self.capacity.map_or("unknown", CoreKindSource::name);
        write!(f, "source of the core kinds: {}; of the capacities: {capacity}", kinds.join(", "))
    }
}
