//! The script of a simulated job: its profile, converted for one machine.
//!
//! ```text
//!   phase 1: first touch of the footprint ─► instructions, with sleeps between bursts ─► phase 2 …
//! ```

use std::sync::Arc;

use program::Sections;

use crate::hardware::{Hardware, HardwareCpu};
use crate::physics::{CpiModel, Demand, FillTable, SharedFills};
use crate::thread_plan::ThreadPlan;

/// Work of one job.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// Phases in order; at least one.
    pub phases: Vec<ScriptPhase>,
    /// Number of threads. Without a plan, all threads execute equal numbers of instructions.
    pub n_threads: u32,
    /// Work of each thread, if the threads wait for each other. The instructions of the phases are then averages
    /// over the threads.
    pub plan: Option<Arc<ThreadPlan>>,
}

/// A part of a job with constant characteristics.
#[derive(Clone, Debug)]
pub struct ScriptPhase {
    /// CPI model, which gives the speed by cache size.
    pub behaviour: Arc<CpiModel>,
    /// Fill table for each cache size of the machine, see [`Hardware::fill_tables`].
    pub fills: Arc<Vec<FillTable>>,
    /// Data that the threads of the job share; `None`: each thread has its own.
    pub shared: Option<Arc<SharedFills>>,
    /// Number of instructions per thread.
    pub instructions: f64,
    /// Instructions between two sleeps, and the duration of each sleep in nanoseconds.
    pub sleeps: Option<(f64, u64)>,
    /// Memory of all threads of the job in this phase, in bytes.
    pub footprint: u64,
    /// Misses of the first-level cache per 1000 instructions.
    pub l1_misses: f64,
}

/// The least demand of a job on the resources of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LeastDemand {
    /// CPU time on the fastest core in nanoseconds.
    pub cpu_ns: f64,
    /// Core cycles of a core with the relative core cycles 1.
    pub cycles: f64,
    /// Bytes of memory traffic.
    pub bytes: f64,
}

impl ScriptPhase {
    /// Returns the nanoseconds per 1000 instructions alone on the fastest core of an idle machine with local memory. Links
    /// and cache ports are not part of this estimate.
    pub fn ns_alone(&self, hardware: &Hardware) -> f64 {
        let cpu = hardware.fastest_cpu();
        let demand = self.behaviour.demand_on(&cpu.speed, hardware.caches[cpu.cache].bytes);
        hardware.memory(cpu.node).ns_alone(demand)
    }
}

impl LeastDemand {
    fn least(self, other: Self) -> Self {
        LeastDemand {
            cpu_ns: self.cpu_ns.min(other.cpu_ns),
            cycles: self.cycles.min(other.cycles),
            bytes: self.bytes.min(other.bytes),
        }
    }

    fn plus(self, other: Self) -> Self {
        LeastDemand {
            cpu_ns: self.cpu_ns + other.cpu_ns,
            cycles: self.cycles + other.cycles,
            bytes: self.bytes + other.bytes,
        }
    }
}

impl Script {
    /// Returns the plan of the threads for these sections.
    ///
    /// # Errors
    /// Returns an error if the sections do not match the phases.
    pub fn plan_of(&self, sections: &Sections) -> Result<Arc<ThreadPlan>, String> {
        let n_threads = f64::from(self.n_threads);
        let phase = |phase: &ScriptPhase| (phase.instructions * n_threads, phase.footprint);
        let phases: Vec<(f64, u64)> = self.phases.iter().map(phase).collect();
        ThreadPlan::new(sections, &phases, self.n_threads).map(Arc::new)
    }

    /// Returns the largest memory footprint of any phase, in bytes.
    pub fn footprint_max(&self) -> u64 {
        self.phases.iter().map(|phase| phase.footprint).max().unwrap_or(0)
    }

    /// Returns a lower bound of the run time in nanoseconds for any placement.
    pub fn lower_bound_ns(&self, hardware: &Hardware) -> f64 {
        let of_threads = self.least_demand(hardware).cpu_ns / f64::from(self.n_threads);
        let Some(plan) = &self.plan else { return of_threads + self.sum_ns(|_| 0.0) };
        let (cache, miss_ns) = best_memory(hardware);
        let ns_on = |phase: usize, cpu: &HardwareCpu| {
            self.phases[phase].behaviour.demand_on(&cpu.speed, cache).ns_at(miss_ns)
        };
        let least = |phase: usize| {
            let each = hardware.cpus.iter().map(|cpu| ns_on(phase, cpu));
            Some(each.fold(f64::INFINITY, f64::min)).filter(|ns| ns.is_finite()).unwrap_or(0.0)
        };
        of_threads.max(plan.path_ns(least))
    }

    /// Returns the least demand of all threads for any placement: fastest core, complete largest cache, unloaded memory.
    pub fn least_demand(&self, hardware: &Hardware) -> LeastDemand {
        let (cache, miss_ns) = best_memory(hardware);
        let mut cpus: Vec<&HardwareCpu> = hardware.cpus.iter().collect();
        cpus.dedup_by_key(|cpu| cpu.speed);
        let on_cpu = |demand: Demand, cpu: &HardwareCpu, thousands: f64| LeastDemand {
            cpu_ns: thousands * demand.ns_at(miss_ns),
            cycles: thousands * demand.core_ns * cpu.instructions_per_ns(),
            bytes: thousands * demand.bytes,
        };
        let mut sum = LeastDemand::default();
        let mut touched = 0;
        for phase in &self.phases {
            let thousands = phase.instructions / 1000.0 * f64::from(self.n_threads);
            let growth = phase.footprint.saturating_sub(touched) as f64 / 1000.0;
            touched = phase.footprint;
            let executes = cpus
                .iter()
                .map(|cpu| on_cpu(phase.behaviour.demand_on(&cpu.speed, cache), cpu, thousands));
            let touches = cpus.iter().map(|cpu| on_cpu(cpu.speed.touch_demand(), cpu, growth));
            let of_phase = [
                executes.reduce(LeastDemand::least).unwrap_or_default(),
                touches.reduce(LeastDemand::least).unwrap_or_default(),
            ];
            sum = of_phase.into_iter().fold(sum, LeastDemand::plus);
        }
        sum
    }

    /// Returns the run time in nanoseconds on the fastest core of an idle machine with local memory.
    pub fn run_ns_alone(&self, hardware: &Hardware) -> f64 {
        let Some(plan) = &self.plan else { return self.sum_ns(|phase| phase.ns_alone(hardware)) };
        // One thread at most executes all sleeps of the job.
        let each: Vec<f64> = self.phases.iter().map(|phase| phase.ns_alone(hardware)).collect();
        plan.path_ns(|phase| each[phase]) + f64::from(self.n_threads) * self.sum_ns(|_| 0.0)
    }

    /// Returns the run time of all phases with their sleeps. `each` returns the nanoseconds per 1000 instructions of
    /// a phase.
    fn sum_ns(&self, each: impl Fn(&ScriptPhase) -> f64) -> f64 {
        let phase_ns = |phase: &ScriptPhase| {
            let sleeps = phase.sleeps.map_or(0.0, |(burst, ns)| {
                libm::floor((phase.instructions - 1.0).max(0.0) / burst) * ns as f64
            });
            phase.instructions * each(phase) / 1000.0 + sleeps
        };
        self.phases.iter().map(phase_ns).sum()
    }
}

/// Returns the size of the largest cache, and the smallest unloaded latency of a memory.
fn best_memory(hardware: &Hardware) -> (f64, f64) {
    let cache = hardware.caches.iter().map(|cache| cache.bytes).fold(0.0, f64::max);
    let miss_ns = (0..hardware.nodes.len()).map(|node| hardware.memory(node).unloaded_ns);
    (cache, miss_ns.fold(f64::INFINITY, f64::min))
}
