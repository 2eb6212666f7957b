//! Fault injection: CPUs that go offline, and unmanaged neighbours.

use std::sync::Arc;

use base::CpuSet;
use sched::Cause;

use super::SimHost;
use crate::faults::Sort;
use crate::fluid::{JobStart, MemoryRule};
use crate::physics::{Behaviour, Character, FillTable, Fitted, Row};
use crate::script::{Act, Script};

/// Average time that a CPU stays offline: several turns.
const AWAY_NS: u64 = 5_000_000_000;
/// Average time between start and end of a neighbour, and between end and start.
const NOISE_NS: u64 = 3_000_000_000;

/// The schedule of the faults.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trouble {
    /// The next instant at which a CPU goes offline, and the offline CPUs with the instants of their return.
    unplug_at: Option<u64>,
    away: Vec<(u64, usize)>,
    /// For each neighbour the next instant at which it starts or ends, and whether it runs.
    noise: Vec<(u64, bool)>,
    noise_script: Option<Arc<Script>>,
}

impl SimHost {
    pub(super) fn plan_trouble(&mut self) {
        let faults = self.luck.faults;
        if faults.unplugged.0 != 0 {
            self.trouble.unplug_at = Some(self.luck.around(Sort::Unplugged, faults.unplugged.0));
        }
        for nth in 0..faults.noisy {
            let at = self.luck.around(Sort::Noisy(nth), NOISE_NS);
            self.trouble.noise.push((at, false));
        }
        if 0 < faults.noisy {
            self.trouble.noise_script = Some(Arc::new(self.noise_script()));
        }
    }

    /// The next instant with a fault.
    pub(super) fn next_trouble(&self) -> Option<u64> {
        let away = self.trouble.away.iter().map(|(at, _)| *at);
        let noise = self.trouble.noise.iter().map(|(at, _)| *at);
        away.chain(noise).chain(self.trouble.unplug_at).min()
    }

    pub(super) fn take_trouble(&mut self) {
        let now = self.fluid.now();
        let back: Vec<usize> =
            self.trouble.away.iter().filter(|(at, _)| *at <= now).map(|(_, cpu)| *cpu).collect();
        self.trouble.away.retain(|(at, _)| now < *at);
        let mut changed = !back.is_empty();
        for cpu in back {
            self.fluid.set_online(cpu, true);
        }
        if self.trouble.unplug_at.is_some_and(|at| at <= now) {
            changed |= self.unplug();
            let every = self.luck.faults.unplugged.0;
            self.trouble.unplug_at = Some(now + self.luck.around(Sort::Unplugged, every));
        }
        if changed {
            self.pending.usable_cpus = Some(self.usable());
            self.why.insert(Cause::CpusChanged);
        }
        for nth in 0..self.trouble.noise.len() {
            self.noise(nth);
        }
    }

    /// Takes a CPU offline, except the last one of the machine.
    fn unplug(&mut self) -> bool {
        let n_cpus = self.fluid.hardware().cpus.len();
        let cpu = self.luck.one_of(Sort::Unplugged, n_cpus);
        let is_away = self.trouble.away.iter().any(|(_, away)| *away == cpu);
        if is_away || n_cpus <= self.trouble.away.len() + 1 {
            return false;
        }
        self.fluid.set_online(cpu, false);
        let back = self.fluid.now() + self.luck.around(Sort::Unplugged, AWAY_NS);
        self.trouble.away.push((back, cpu));
        true
    }

    /// The online CPUs.
    pub(super) fn usable(&self) -> CpuSet {
        let cpus = self.fluid.hardware().cpus.iter().enumerate();
        let online = cpus.filter(|(idx, _)| self.trouble.away.iter().all(|(_, cpu)| cpu != idx));
        online.map(|(_, cpu)| cpu.id).collect()
    }

    /// Starts or ends a neighbour.
    fn noise(&mut self, nth: usize) {
        let now = self.fluid.now();
        let (at, is_there) = self.trouble.noise[nth];
        let Some(script) = self.trouble.noise_script.clone().filter(|_| at <= now) else { return };
        // Job numbers above those of the workload.
        let job = self.slots.len() + nth;
        if is_there {
            self.fluid.settle_all();
            self.fluid.kill(job);
            self.fluid.forget(job);
        } else {
            let memory = MemoryRule::FirstTouch;
            self.fluid.start(JobStart { job, script, allowed: None, memory, weight: 1.0 });
        }
        self.trouble.noise[nth] =
            (now + self.luck.around(Sort::Noisy(nth as u32), NOISE_NS), !is_there);
    }

    /// A script that reads memory and never ends.
    fn noise_script(&self) -> Script {
        let hardware = self.fluid.hardware();
        let row = Row {
            bytes: 1048576.0,
            cycles: None,
            demand_misses: 20.0,
            misses: 20.0,
            reads: 20.0,
            writes: 5.0,
        };
        let character = Character::new(vec![row], row).expect("a curve of one point is valid");
        let behaviour = Behaviour::known(&character, 0.5, 4.0, Fitted::default().habits(2.4));
        let sizes = hardware.cache_sizes();
        let act = Act {
            fills: Arc::new(sizes.iter().map(|&size| FillTable::new(&character, size)).collect()),
            behaviour: Arc::new(behaviour),
            instructions: 1e18,
            sleeps: None,
            footprint: 16 << 20,
            references: 25.0,
            l1_misses: 50.0,
        };
        Script { acts: vec![act], n_threads: 1 }
    }
}
