//! Settings of a simulated machine and of its grain.

use base::Nanos;
use topology::{Machine, QuantumAttributes, QueueScope, SourcedValue, System};

use crate::kernel::KernelVersion;

/// Settings of the simulated machine that are not in the machine file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MachineSettings {
    /// The modelled kernel.
    pub kernel: KernelVersion,
    /// Whether automatic NUMA balancing is enabled.
    pub numa_balancing: bool,
    /// The grain.
    pub grain: GrainSettings,
    /// Whether programs contend for caches and memory bandwidth. Without contention, they share only CPU time.
    pub contention: bool,
    /// Relative changes of latencies and speeds up to this value are ignored. Other tolerances are multiples of it.
    pub precision: f64,
}

/// Precision of usual runs. With fixed bindings, end times differ from those of [`PRECISION_EXACT`] usually by less than
/// 1e-3 (docs/simulator.md).
pub const PRECISION: f64 = 3e-4;
/// Precision of runs that ignore no change.
pub const PRECISION_EXACT: f64 = 1e-8;

impl Default for MachineSettings {
    fn default() -> Self {
        MachineSettings {
            kernel: KernelVersion::default(),
            numa_balancing: false,
            grain: GrainSettings::Fluid,
            contention: true,
            precision: PRECISION,
        }
    }
}

/// The grain of a machine, with its settings.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum GrainSettings {
    /// Tasks share a CPU by weight.
    #[default]
    Fluid,
    /// One task runs on a CPU, for a slice.
    Quantum(QuantumSettings),
}

/// Settings of the quantum grain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuantumSettings {
    /// Which CPUs have one queue.
    pub queue: QueueScope,
    /// CPU time of a task before the next task of the queue runs, in nanoseconds.
    pub slice_ns: u64,
    /// CPU time that a switch to another task costs, in nanoseconds.
    pub switch_cost_ns: u64,
    /// Whether a task that wakes up, or arrives from another queue, preempts a running task that has received more.
    pub wakeup_preemption: bool,
}

/// A grain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GrainKind {
    /// See [`GrainSettings::Fluid`].
    #[default]
    Fluid,
    /// See [`GrainSettings::Quantum`].
    Quantum,
}

impl GrainKind {
    /// All grains.
    pub const ALL: [GrainKind; 2] = [GrainKind::Fluid, GrainKind::Quantum];

    /// Returns the name of the grain in machine files and options.
    pub fn name(self) -> &'static str {
        match self {
            GrainKind::Fluid => "fluid",
            GrainKind::Quantum => "quantum",
        }
    }

    /// Returns the grain with this name.
    pub fn of_name(name: &str) -> Option<GrainKind> {
        GrainKind::ALL.into_iter().find(|grain| grain.name() == name)
    }
}

impl GrainSettings {
    /// Returns the grain.
    pub fn kind(self) -> GrainKind {
        match self {
            GrainSettings::Fluid => GrainKind::Fluid,
            GrainSettings::Quantum(_) => GrainKind::Quantum,
        }
    }
}

/// Default length of a slice. Linux 6.18 has 2.8 ms on machines with eight or more CPUs (`sysctl_sched_base_slice`, 0.7 ms
/// times four), and CFS had 3 ms (`sysctl_sched_min_granularity`).
const SLICE_NS: u64 = 2_800_000;
/// Default cost of a switch. Assumed: the direct cost without the refilling of caches is one to four microseconds.
const SWITCH_COST_NS: u64 = 2_000;

impl QuantumSettings {
    /// Returns the settings of a machine file, with assumed values in place of absent ones.
    pub fn new(known: &QuantumAttributes) -> Self {
        let value = |known: Option<SourcedValue>, default| known.map_or(default, |it| it.value);
        QuantumSettings {
            queue: known.queue.unwrap_or_default(),
            slice_ns: value(known.slice_ns, SLICE_NS),
            switch_cost_ns: value(known.switch_cost_ns, SWITCH_COST_NS),
            wakeup_preemption: known.wakeup_preemption.unwrap_or(true),
        }
    }
}

impl GrainSettings {
    /// Returns the settings of the grain that is selected in a machine file, or instead of it.
    ///
    /// # Errors
    /// The grain does not exist, or the file has settings of another grain.
    pub fn new(machine: &Machine, selected: Option<GrainKind>) -> Result<Self, GrainError> {
        let system = machine.system();
        let switch = machine.perf_attributes().physics.context_switch;
        let costs_time = switch.is_some_and(|it| 0 < it.ns || 0 < it.refill_bytes);
        let named = system.grain.as_deref().map(|name| {
            GrainKind::of_name(name).ok_or_else(|| GrainError::Unknown { found: name.to_owned() })
        });
        let named = named.transpose()?;
        match selected.or(named).unwrap_or_default() {
            GrainKind::Fluid if system.quantum.is_some() => Err(GrainError::NoEffect),
            GrainKind::Fluid => Ok(GrainSettings::Fluid),
            GrainKind::Quantum if costs_time => Err(GrainError::TwoSwitchCosts),
            GrainKind::Quantum => {
                let known = system.quantum.unwrap_or_default();
                Ok(GrainSettings::Quantum(QuantumSettings::new(&known)))
            }
        }
    }

    /// Returns a phrase for each value that the machine file does not have and that is therefore assumed.
    pub fn assumed(self, system: &System) -> Vec<String> {
        let GrainSettings::Quantum(settings) = self else { return Vec::new() };
        let known = system.quantum.unwrap_or_default();
        let slice = || format!("slices of {}", Nanos(settings.slice_ns));
        let switch = || format!("{} for a switch to another task", Nanos(settings.switch_cost_ns));
        let slice = known.slice_ns.is_none().then(slice);
        slice.into_iter().chain(known.switch_cost_ns.is_none().then(switch)).collect()
    }

    /// Returns the values that are recorded with a run, by name.
    pub fn recorded(self) -> Vec<(&'static str, String)> {
        let GrainSettings::Quantum(settings) = self else { return Vec::new() };
        vec![
            ("grain", self.kind().name().to_owned()),
            ("queue", settings.queue.name().to_owned()),
            ("slice", Nanos(settings.slice_ns).to_string()),
            ("switch-cost", Nanos(settings.switch_cost_ns).to_string()),
            ("wakeup-preemption", if settings.wakeup_preemption { "on" } else { "off" }.to_owned()),
        ]
    }
}

/// An error in the selection of the grain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum GrainError {
    #[error("there is no grain {found:?}: write {}", GrainKind::ALL.map(GrainKind::name).join(" or "))]
    Unknown { found: String },
    #[error(
        "the keys of quantum have no effect with the grain fluid: select the grain quantum, or remove them"
    )]
    NoEffect,
    #[error(
        "context_switch of physics is for the grain fluid: with the grain quantum write switch_cost of quantum instead"
    )]
    TwoSwitchCosts,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neutral_context_switch_is_accepted_with_the_quantum_grain() {
        let grain = |ns: u32, refill_bytes: u32| {
            let text = format!(
                "format_version = 2\ncpus = [{{ id = 0 }}]\ngrain = \"quantum\"\nphysics = {{ context_switch = {{ ns = {ns}, refill_bytes = {refill_bytes}, source = \"assumed\" }} }}\n"
            );
            let machine = topology::file::parse_toml(&text, "test").unwrap();
            GrainSettings::new(&machine, None).map(GrainSettings::kind)
        };
        assert_eq!(grain(0, 0), Ok(GrainKind::Quantum));
        assert_eq!(grain(1, 0), Err(GrainError::TwoSwitchCosts));
        assert_eq!(grain(0, 1), Err(GrainError::TwoSwitchCosts));
    }

    #[test]
    fn a_value_of_the_machine_file_is_not_reported_as_absent_whatever_its_source() {
        let assumed = |quantum: &str| {
            let text = format!(
                "format_version = 2\ncpus = [{{ id = 0 }}]\ngrain = \"quantum\"\n{quantum}"
            );
            let machine = topology::file::parse_toml(&text, "test").unwrap();
            GrainSettings::new(&machine, None).unwrap().assumed(machine.system()).join("; ")
        };
        assert_eq!(assumed(""), "slices of 2.8 ms; 2.0 us for a switch to another task");
        assert_eq!(
            assumed("[quantum]\nslice = { ns = 3000000, source = \"assumed\" }\n"),
            "2.0 us for a switch to another task"
        );
        assert_eq!(
            assumed("[quantum]\nswitch_cost = { ns = 2000, source = \"published\" }\n"),
            "slices of 2.8 ms"
        );
    }
}
