//! Injected faults that change the machine: CPUs that go offline, and unmanaged programs.

use std::sync::Arc;

use base::CpuSet;
use sched::Cause;

use super::SimHost;
use crate::faults::FaultKind;
use crate::frame::JobStart;
use crate::physics::{Calibration, CoreSpeed, CpiModel, MissCurve, MissPoint};
use crate::script::{Script, ScriptPhase};
use crate::variation::RandomKey;

/// Average time that a CPU is offline, which is longer than several turns.
const OFFLINE_NS_MEAN: u64 = 5_000_000_000;
/// Average run time of an unmanaged program, and average time between two runs.
const UNMANAGED_NS_MEAN: u64 = 3_000_000_000;

/// The schedule of the faults.
#[derive(Clone, Debug, Default)]
pub(super) struct FaultSchedule {
    /// Time at which the next CPU goes offline, and the offline CPUs with the times at which they return.
    unplug_at: Option<u64>,
    offline: Vec<(u64, usize)>,
    /// For each unmanaged program, the time at which it next starts or ends, and whether it is running.
    unmanaged_programs: Vec<(u64, bool)>,
    unmanaged_script: Option<Arc<Script>>,
}

impl SimHost {
    pub(super) fn schedule_faults(&mut self) {
        let faults = self.fault_injector.faults;
        if faults.cpus_offline.0 != 0 {
            self.fault_schedule.unplug_at =
                Some(self.fault_injector.random_ns(FaultKind::CpusOffline, faults.cpus_offline.0));
        }
        for nth in 0..faults.unmanaged_programs {
            let at =
                self.fault_injector.random_ns(FaultKind::UnmanagedProgram(nth), UNMANAGED_NS_MEAN);
            self.fault_schedule.unmanaged_programs.push((at, false));
        }
        if 0 < faults.unmanaged_programs {
            self.fault_schedule.unmanaged_script = Some(Arc::new(self.build_unmanaged_script()));
        }
    }

    /// Returns the time of the next fault.
    pub(super) fn next_fault(&self) -> Option<u64> {
        let away = self.fault_schedule.offline.iter().map(|(at, _)| *at);
        let noise = self.fault_schedule.unmanaged_programs.iter().map(|(at, _)| *at);
        away.chain(noise).chain(self.fault_schedule.unplug_at).min()
    }

    pub(super) fn inject_faults(&mut self) {
        let now = self.machine.now();
        let offline = std::mem::take(&mut self.fault_schedule.offline);
        let (back, offline): (Vec<_>, Vec<_>) = offline.into_iter().partition(|(at, _)| *at <= now);
        self.fault_schedule.offline = offline;
        let mut changed = !back.is_empty();
        for (_, cpu) in back {
            self.machine.set_online(cpu, true);
        }
        if self.fault_schedule.unplug_at.is_some_and(|at| at <= now) {
            changed |= self.unplug();
            let every = self.fault_injector.faults.cpus_offline.0;
            self.fault_schedule.unplug_at =
                Some(now + self.fault_injector.random_ns(FaultKind::CpusOffline, every));
        }
        if changed {
            self.pending.usable_cpus = Some(self.usable());
            self.turn_causes.insert(Cause::CpusChanged);
        }
        for nth in 0..self.fault_schedule.unmanaged_programs.len() {
            self.toggle_unmanaged_program(nth);
        }
    }

    /// Takes a CPU offline. The last CPU of the machine stays online. Returns whether a CPU went offline.
    fn unplug(&mut self) -> bool {
        let n_cpus = self.hardware.cpus.len();
        let cpu = self.fault_injector.random_index(FaultKind::CpusOffline, n_cpus);
        let is_away = self.fault_schedule.offline.iter().any(|(_, away)| *away == cpu);
        if is_away || n_cpus <= self.fault_schedule.offline.len() + 1 {
            return false;
        }
        self.machine.set_online(cpu, false);
        let back = self.machine.now()
            + self.fault_injector.random_ns(FaultKind::CpusOffline, OFFLINE_NS_MEAN);
        self.fault_schedule.offline.push((back, cpu));
        true
    }

    /// Returns the online CPUs.
    pub(super) fn usable(&self) -> CpuSet {
        let cpus = self.hardware.cpus.iter().enumerate();
        let online =
            cpus.filter(|(idx, _)| self.fault_schedule.offline.iter().all(|(_, cpu)| cpu != idx));
        online.map(|(_, cpu)| cpu.id).collect()
    }

    /// Starts an unmanaged program, or ends it if it is running.
    fn toggle_unmanaged_program(&mut self, nth: usize) {
        let now = self.machine.now();
        let (at, is_there) = self.fault_schedule.unmanaged_programs[nth];
        let Some(script) = self.fault_schedule.unmanaged_script.clone().filter(|_| at <= now)
        else {
            return;
        };
        // The job numbers of unmanaged programs follow the numbers of the workload.
        let job = self.slots.len() + nth;
        if is_there {
            self.machine.update_all();
            self.machine.kill(job);
            self.machine.remove_job(job);
        } else {
            // The key contains no number of a job: an additional job does not change the program's numbers.
            let random_key = RandomKey::of_job("unmanaged program").part(nth as u64);
            self.machine.start(JobStart { random_key, ..JobStart::new(job, script) });
        }
        self.fault_schedule.unmanaged_programs[nth] = (
            now + self
                .fault_injector
                .random_ns(FaultKind::UnmanagedProgram(nth as u32), UNMANAGED_NS_MEAN),
            !is_there,
        );
    }

    /// Returns a script that reads memory and never ends.
    fn build_unmanaged_script(&self) -> Script {
        let hardware = &self.hardware;
        let row = MissPoint { writes: 5.0, ..MissPoint::of_demand(1048576.0, 20.0) };
        let character = MissCurve::new(vec![row], row).expect("a curve of one point is valid");
        let behaviour = CpiModel::from_core_cycles(
            &character,
            0.5,
            4.0,
            Calibration::default().parameters(CoreSpeed::new(2.4)),
        );
        let phase = ScriptPhase {
            shared: None,
            fills: Arc::new(hardware.fill_tables(&behaviour)),
            behaviour: Arc::new(behaviour),
            instructions: 1e18,
            sleeps: None,
            footprint: 16 << 20,
            l1_misses: 50.0,
        };
        Script { phases: vec![phase], n_threads: 1, ..Script::default() }
    }
}
