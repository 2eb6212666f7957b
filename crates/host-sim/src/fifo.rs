//! Proof of the frame: a grain without the fluid model, which only makes the scripts of the test. One server serves jobs
//! in the order of their starts, each for as many nanoseconds as it has instructions.
//!
//! ```text
//!   starts (Poisson) ─► [ job job job ] ─► server ─► notices
//! ```
//!
//! With a constant service time, this is the queue M/D/1. Its mean wait time is ρ / (2 μ (1 − ρ)) for the utilization ρ and
//! the service rate μ (formula of Pollaczek and Khinchine; L. Kleinrock, "Queueing Systems", volume 1, 1975, chapter 5).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use base::Nanos;

use crate::fluid::{Fluid, tests};
use crate::frame::{
    EventQueue, Grain, HostNotice, InvariantViolation, JobPageMigration, JobStart, MachineSettings,
    NEVER, SimMachine, SimThread, SimulationWork, TaskCounts, advance,
};
use crate::script::Script;
use crate::variation::{RandomKey, Variation};

/// The only event: the job in service ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Departure(usize);

#[derive(Debug, Default)]
struct FifoServer {
    now: u64,
    next_tid: u32,
    events: EventQueue<Departure>,
    waiting: VecDeque<usize>,
    in_service: Option<usize>,
    jobs: BTreeMap<usize, FifoJob>,
    notices: Vec<(u64, HostNotice)>,
    work: SimulationWork,
}

#[derive(Debug)]
struct FifoJob {
    tid: u32,
    started: u64,
    service_ns: u64,
    served_from: Option<u64>,
    random_key: RandomKey,
}

impl FifoServer {
    fn serve_next(&mut self) {
        self.in_service = self.waiting.pop_front();
        let Some(job) = self.in_service else { return };
        let Some(state) = self.jobs.get_mut(&job) else { return };
        state.served_from = Some(self.now);
        self.events.add(self.now + state.service_ns, Departure(job));
    }
}

impl Grain for FifoServer {
    type Event = Departure;

    fn now(&self) -> u64 {
        self.now
    }

    fn set_now(&mut self, now: u64) {
        self.now = now;
    }

    fn next_event(&mut self) -> Option<u64> {
        Some(self.events.first_at()).filter(|&at| at != NEVER)
    }

    fn take_event(&mut self, at: u64) -> Option<Departure> {
        self.events.take_at(at)
    }

    fn handle(&mut self, Departure(job): Departure) {
        self.work.events += 1;
        self.notices.push((self.now, HostNotice::JobEnded { job, out_of_memory: false }));
        self.serve_next();
    }

    fn has_notices(&self) -> bool {
        !self.notices.is_empty()
    }
}

impl SimMachine for FifoServer {
    fn now(&self) -> u64 {
        self.now
    }

    fn next_event(&mut self) -> Option<u64> {
        Grain::next_event(self)
    }

    fn advance(&mut self, until: u64, n_instants: u64) {
        advance(self, until, n_instants);
    }

    fn take_notices(&mut self) -> Vec<(u64, HostNotice)> {
        std::mem::take(&mut self.notices)
    }

    fn work(&self) -> SimulationWork {
        self.work
    }

    fn start(&mut self, start: JobStart) -> u32 {
        let tid = self.next_tid;
        self.next_tid += 1;
        let service_ns = start.script.phases[0].instructions as u64;
        let JobStart { job, random_key, .. } = start;
        let state = FifoJob { tid, started: self.now, service_ns, served_from: None, random_key };
        self.jobs.insert(job, state);
        self.waiting.push_back(job);
        if self.in_service.is_none() {
            self.serve_next();
        }
        tid
    }

    fn bind(&mut self, _: usize, _: Option<Arc<Vec<bool>>>) -> u32 {
        0
    }

    fn bind_tid(&mut self, _: u32, _: Option<Arc<Vec<bool>>>) -> u32 {
        0
    }

    fn move_pages(&mut self, _: JobPageMigration) {}

    fn kill(&mut self, job: usize) {
        self.waiting.retain(|other| *other != job);
    }

    fn remove_job(&mut self, job: usize) {
        self.jobs.remove(&job);
    }

    fn set_online(&mut self, _: usize, _: bool) {}

    fn update_all(&mut self) {}

    fn thread(&self, job: usize, nth: usize) -> Option<SimThread> {
        self.jobs.get(&job).filter(|_| nth == 0).map(|job| {
            let served_from = job.served_from.unwrap_or(self.now);
            SimThread {
                tid: job.tid,
                started: job.started,
                cpu: 0,
                is_runnable: true,
                cpu_ns: (self.now - served_from).min(job.service_ns) as f64,
                wait_ns: (served_from - job.started) as f64,
                blocked_ns: 0,
                n_migrations: 0,
                counts: TaskCounts::default(),
                random_key: job.random_key,
            }
        })
    }

    fn done_share(&self, _: usize) -> Option<f64> {
        None
    }

    fn memory_of(&self, _: usize) -> &[u64] {
        &[]
    }

    fn memory_free(&self, _: usize) -> u64 {
        0
    }

    fn memory_reclaimable(&self, _: usize) -> u64 {
        0
    }

    fn lines(&self, _: usize) -> [f64; 2] {
        [0.0; 2]
    }

    fn check(&self, _: bool) -> Result<(), InvariantViolation> {
        match self.in_service.is_none() && !self.waiting.is_empty() {
            true => {
                let problem = "a job waits for an idle server".to_owned();
                Err(InvariantViolation { at: Nanos(self.now), problem })
            }
            false => Ok(()),
        }
    }

    fn check_instructions(&self, _: usize) -> Result<(), InvariantViolation> {
        Ok(())
    }
}

const SERVICE_NS: f64 = 1e6;
/// Jobs of one run, and of its beginning, whose wait times do not count: the queue starts empty.
const N_JOBS: usize = 20_000;
const N_WARM_UP: usize = 4_000;
const N_RUNS: u64 = 20;
/// The 99 % quantile (two-sided) of Student's t with 19 degrees of freedom.
const T_99: f64 = 2.861;

/// Returns the mean wait time of a run with Poisson arrivals, in nanoseconds.
fn mean_wait_ns(machine: &mut dyn SimMachine, utilization: f64, seed: u64) -> f64 {
    let (script, mut rng) = (script(), RandomKey::of_job("arrivals").part(seed).rng());
    let (mut at, mut sum) = (0.0, 0.0);
    let mut take_ended = |machine: &mut dyn SimMachine| {
        machine.check(true).expect("the server is not idle while a job waits");
        for (_, notice) in machine.take_notices() {
            let HostNotice::JobEnded { job, .. } = notice else { continue };
            let wait_ns: f64 = machine.threads_of(job).map(|thread| thread.wait_ns).sum();
            sum += if N_WARM_UP <= job { wait_ns } else { 0.0 };
            machine.remove_job(job);
        }
    };
    for job in 0..N_JOBS {
        at -= libm::log(1.0 - rng.unit()) * SERVICE_NS / utilization;
        while machine.now() < at as u64 {
            machine.advance(at as u64, u64::MAX);
            take_ended(machine);
        }
        machine.start(JobStart::new(job, script.clone()));
    }
    while let Some(at) = machine.next_event() {
        machine.advance(at, u64::MAX);
        take_ended(machine);
    }
    sum / (N_JOBS - N_WARM_UP) as f64
}

fn script() -> Arc<Script> {
    let (hardware, variation) = (tests::hardware("cores=1"), Variation::OFF.streams(0));
    tests::script(&Fluid::new(hardware, MachineSettings::default(), variation), SERVICE_NS, 0.0, 0)
}

#[test]
fn a_server_with_poisson_arrivals_has_the_mean_wait_time_of_m_d_1() {
    for utilization in [0.3, 0.6, 0.9] {
        let expected = utilization * SERVICE_NS / (2.0 * (1.0 - utilization));
        let means: Vec<f64> = (0..N_RUNS)
            .map(|seed| mean_wait_ns(&mut FifoServer::default(), utilization, seed))
            .collect();
        let n = means.len() as f64;
        let mean = means.iter().sum::<f64>() / n;
        let variance = means.iter().map(|one| (one - mean) * (one - mean)).sum::<f64>() / (n - 1.0);
        let half = T_99 * libm::sqrt(variance / n);
        assert!(half < 0.1 * expected, "the interval shows nothing: {mean} ± {half}");
        assert!(
            (mean - expected).abs() < half,
            "utilization {utilization}: {mean} ± {half}, not {expected}"
        );
    }
}
