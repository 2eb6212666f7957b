//! The fluid model behind the interface of the host. Grains that use its tasks, pages and physics share this.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Fluid, TaskState};
use crate::frame::{
    Grain, HostNotice, InvariantViolation, JobPageMigration, JobStart, SimMachine, SimThread,
    SimulationWork, advance,
};

/// A grain whose jobs, pages, caches and memories are those of the fluid model.
pub(crate) trait FluidGrain: Grain + std::fmt::Debug + Send {
    /// Returns the fluid model.
    fn fluid(&self) -> &Fluid;

    /// Returns the fluid model, for an action of the host.
    fn fluid_mut(&mut self) -> &mut Fluid;

    /// Checks the invariants of the grain itself.
    fn check_own(&self) -> Result<(), String> {
        Ok(())
    }
}

impl FluidGrain for Fluid {
    fn fluid(&self) -> &Fluid {
        self
    }

    fn fluid_mut(&mut self) -> &mut Fluid {
        self
    }
}

impl<G: FluidGrain> SimMachine for G {
    fn now(&self) -> u64 {
        Grain::now(self)
    }

    fn next_event(&mut self) -> Option<u64> {
        Grain::next_event(self)
    }

    fn advance(&mut self, until: u64, n_instants: u64) {
        advance(self, until, n_instants);
    }

    fn take_notices(&mut self) -> Vec<(u64, HostNotice)> {
        self.fluid_mut().take_notices()
    }

    fn work(&self) -> SimulationWork {
        self.fluid().counts
    }

    fn start(&mut self, start: JobStart) -> u32 {
        self.fluid_mut().start(start)
    }

    fn bind(&mut self, job: usize, allowed: Option<Arc<Vec<bool>>>) -> u32 {
        self.fluid_mut().bind(job, allowed)
    }

    fn bind_tid(&mut self, tid: u32, allowed: Option<Arc<Vec<bool>>>) -> u32 {
        self.fluid_mut().bind_tid(tid, allowed)
    }

    fn move_pages(&mut self, page_migration: JobPageMigration) {
        self.fluid_mut().move_pages(page_migration);
    }

    fn kill(&mut self, job: usize) {
        self.fluid_mut().kill(job);
    }

    fn remove_job(&mut self, job: usize) {
        self.fluid_mut().remove_job(job);
    }

    fn set_online(&mut self, cpu: usize, online: bool) {
        self.fluid_mut().set_online(cpu, online);
    }

    fn update_all(&mut self) {
        self.fluid_mut().update_all();
    }

    fn thread(&self, job: usize, nth: usize) -> Option<SimThread> {
        self.fluid().task_of(job, nth).map(|task| SimThread {
            tid: task.tid,
            started: task.started,
            cpu: task.cpu,
            is_runnable: task.state == TaskState::Runnable,
            cpu_ns: task.cpu_ns,
            wait_ns: task.wait_ns,
            blocked_ns: self.fluid().blocked_ns(task),
            n_migrations: task.n_migrations,
            counts: task.counts,
            random_key: task.random_key,
        })
    }

    fn done_share(&self, job: usize) -> Option<f64> {
        self.fluid().done_share(job)
    }

    fn memory_of(&self, job: usize) -> &[u64] {
        self.fluid().memory_of(job)
    }

    fn memory_free(&self, node: usize) -> u64 {
        self.fluid().memory_free(node)
    }

    fn memory_reclaimable(&self, node: usize) -> u64 {
        self.fluid().memory_reclaimable(node)
    }

    fn lines(&self, node: usize) -> [f64; 2] {
        self.fluid().lines(node)
    }

    fn monitor_traffic(&mut self) {
        self.fluid_mut().monitor_traffic();
    }

    fn cache_traffic(&self, cache: usize) -> Option<[f64; 2]> {
        self.fluid().cache_traffic(cache)
    }

    fn job_traffic(&self, job: usize, cache: usize) -> Option<[f64; 2]> {
        self.fluid().job_traffic(job, cache)
    }

    fn occupancies(&self) -> BTreeMap<(usize, usize), f64> {
        self.fluid().occupancies()
    }

    fn check(&self, has_changed: bool) -> Result<(), InvariantViolation> {
        match has_changed {
            true => self.fluid().check_invariants()?,
            false => self.fluid().check_waiting()?,
        }
        let at = base::Nanos(Grain::now(self));
        self.check_own().map_err(|problem| InvariantViolation { at, problem })
    }

    fn check_instructions(&self, job: usize) -> Result<(), InvariantViolation> {
        self.fluid().check_instructions(job)
    }
}
