//! Sources of core kinds and capacities.
//!
//! A machine is read from files that contradict each other, and a user can override them. Output therefore contains the
//! files that separated the kinds, and the file of the capacities.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A source of core kinds or capacities. The names of files are relative to `/sys/devices/system/cpu/cpuN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum CoreKindSource {
    /// The option `--core-kinds`.
    Option,
    /// The hybrid PMUs of Intel, which list the CPUs of a core type.
    Pmu,
    /// The part number of an Arm core.
    Midr,
    /// The capacity of the kernel's load balancer.
    CpuCapacity,
    /// Sustained performance on the scale of the firmware (ACPI CPPC).
    NominalPerf,
    /// Peak performance on the scale of the firmware (ACPI CPPC).
    HighestPerf,
    /// Maximum frequency of the hardware.
    MaxFreq,
    /// Guaranteed frequency with all cores busy (`base_frequency` of intel_pstate).
    BaseFreq,
    /// Maximum frequency by the settings of cpufreq.
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
    const ALL: [CoreKindSource; 9] = [
        CoreKindSource::Option,
        CoreKindSource::Pmu,
        CoreKindSource::Midr,
        CoreKindSource::CpuCapacity,
        CoreKindSource::NominalPerf,
        CoreKindSource::HighestPerf,
        CoreKindSource::MaxFreq,
        CoreKindSource::BaseFreq,
        CoreKindSource::ScalingMaxFreq,
    ];

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

impl From<CoreKindSource> for &'static str {
    fn from(source: CoreKindSource) -> Self {
        source.name()
    }
}

impl TryFrom<String> for CoreKindSource {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        CoreKindSource::ALL.into_iter().find(|source| source.name() == text).ok_or_else(|| {
            let names = CoreKindSource::ALL.map(CoreKindSource::name).join(", ");
            format!("{text:?} is not a source of core kinds; write one of {names}")
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_read_by_its_name_and_another_name_is_an_error() {
        for source in CoreKindSource::ALL {
            assert_eq!(CoreKindSource::try_from(source.name().to_owned()), Ok(source));
        }
        let error = CoreKindSource::try_from("cpu_speed".to_owned()).expect_err("no source");
        let start = "\"cpu_speed\" is not a source of core kinds; write one of option, pmu, ";
        assert!(error.starts_with(start), "{error}");
    }
}
