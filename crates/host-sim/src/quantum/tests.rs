//! Tests of the quantum grain: textbook cases, fairness, and the limit of short slices.

use std::sync::Arc;

use base::Rng;

use super::*;
use crate::fluid::tests::{hardware, mask_of, script};
use crate::frame::{GrainSettings, HostNotice, JobStart, SimMachine, SimThread};
use crate::script::Script;
use crate::variation::Variation;

const MS: u64 = 1_000_000;

const SCOPES: [QueueScope; 2] = [QueueScope::Cpu, QueueScope::Llc];

/// Slices of 4 ms without costs of switches.
const FREE: QuantumSettings = QuantumSettings {
    queue: QueueScope::Cpu,
    slice_ns: 4 * MS,
    switch_cost_ns: 0,
    wakeup_preemption: true,
};

fn quantum(text: &str, settings: QuantumSettings) -> Quantum<FairQueue> {
    let machine = MachineSettings { grain: GrainSettings::Quantum(settings), ..Default::default() };
    Quantum::new(hardware(text), machine, settings, Variation::OFF.streams(0))
}

fn fluid(text: &str) -> Fluid {
    Fluid::new(hardware(text), MachineSettings::default(), Variation::OFF.streams(0))
}

fn threads_of(machine: &dyn SimMachine, job: usize) -> impl Iterator<Item = SimThread> {
    machine.threads_of(job)
}

/// A start of a job: time, CPU, weight and script.
#[derive(Clone)]
struct Job {
    at: u64,
    cpu: Option<usize>,
    weight: f64,
    script: Arc<Script>,
}

impl Job {
    fn new(script: Arc<Script>) -> Self {
        Job { at: 0, cpu: None, weight: 1.0, script }
    }
}

/// The result of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Ended {
    at: f64,
    wait_ns: f64,
    cpu_ns: f64,
}

/// Runs jobs, which are sorted by start, and checks all invariants after every instant.
fn run<M: FluidGrain>(machine: &mut M, jobs: &[Job]) -> Vec<Ended> {
    let mut ended = vec![Ended::default(); jobs.len()];
    let (mut started, mut left) = (0, jobs.len());
    while 0 < left {
        while let Some(job) = jobs.get(started).filter(|job| job.at <= SimMachine::now(machine)) {
            let allowed = job.cpu.map(|cpu| mask_of(machine.fluid(), &[cpu]));
            let start = JobStart::new(started, job.script.clone());
            machine.start(JobStart { allowed, weight: job.weight, ..start });
            started += 1;
        }
        let due = jobs.get(started).map(|job| job.at);
        let at = SimMachine::next_event(machine).into_iter().chain(due).min().expect("jobs end");
        SimMachine::advance(machine, at, u64::MAX);
        machine.check(true).unwrap_or_else(|error| panic!("{error}"));
        for (_, notice) in SimMachine::take_notices(machine) {
            let HostNotice::JobEnded { job, .. } = notice else { continue };
            machine.check_instructions(job).unwrap_or_else(|error| panic!("{error}"));
            let mut end = Ended { at: SimMachine::now(machine) as f64, ..Ended::default() };
            for thread in threads_of(&*machine, job) {
                end.wait_ns += thread.wait_ns;
                end.cpu_ns += thread.cpu_ns;
            }
            ended[job] = end;
            machine.remove_job(job);
            left -= 1;
        }
    }
    ended
}

fn busy(machine: &impl FluidGrain, ms: f64) -> Arc<Script> {
    script(machine.fluid(), ms * 1e6, 0.0, 0)
}

/// Round robin of `n` equal tasks of 2.5 slices: in the third round each task runs half a slice.
#[test]
fn equal_tasks_run_in_turn_and_wait_for_each_other() {
    for n in [2, 3, 5] {
        let mut machine = quantum("cores=1", FREE);
        let work = busy(&machine, 10.0);
        let found = run(&mut machine, &vec![Job::new(work); n]);
        for (nth, end) in found.iter().enumerate() {
            let expected = (2 * n) as f64 * 4e6 + (nth + 1) as f64 * 2e6;
            assert!((end.at - expected).abs() < 100.0, "{n} tasks, task {nth}: {end:?}");
            assert!((end.wait_ns - (expected - 10e6)).abs() < 100.0, "{n} tasks: {end:?}");
            assert!((end.cpu_ns - 10e6).abs() < 100.0, "{n} tasks: {end:?}");
        }
    }
}

#[test]
fn a_switch_costs_time_of_the_core_but_no_cpu_time_of_a_task() {
    let settings = QuantumSettings { switch_cost_ns: 100_000, ..FREE };
    let mut machine = quantum("cores=1", settings);
    let work = busy(&machine, 10.0);
    let found = run(&mut machine, &vec![Job::new(work.clone()); 2]);
    // a 4 ms, b 4 ms, a 4, b 4, a 2, b 2: six switches.
    assert!((found[1].at - 20.6e6).abs() < 100.0, "{found:?}");
    assert!(found.iter().all(|end| (end.cpu_ns - 10e6).abs() < 100.0), "{found:?}");
    let mut machine = quantum("cores=1", settings);
    let found = run(&mut machine, &[Job::new(work)]);
    assert!((found[0].at - 10.1e6).abs() < 100.0, "a task alone is switched to once: {found:?}");
}

/// While four tasks with weights 1, 2, 3 and 4 compete, the CPU time of each is its share, up to a slice.
#[test]
fn cpu_time_is_proportional_to_weight() {
    let mut machine = quantum("cores=1", FREE);
    let work = busy(&machine, 1000.0);
    for (job, weight) in [1.0, 2.0, 3.0, 4.0].into_iter().enumerate() {
        machine.start(JobStart { weight, ..JobStart::new(job, work.clone()) });
    }
    SimMachine::advance(&mut machine, 1000 * MS, u64::MAX);
    machine.update_all();
    assert!(200 < SimMachine::work(&machine).events, "each end of a slice is an event");
    for job in 0..4 {
        let cpu_ns = threads_of(&machine, job).map(|thread| thread.cpu_ns).sum::<f64>();
        let expected = (job + 1) as f64 * 100e6;
        assert!((cpu_ns - expected).abs() <= 2.0 * 4e6, "job {job}: {cpu_ns}");
    }
}

/// Three tasks on two CPUs: with a common queue, each has two thirds of a CPU without load balancing.
#[test]
fn the_cpus_of_an_llc_domain_share_a_queue() {
    let settings = QuantumSettings { queue: QueueScope::Llc, ..FREE };
    let mut machine = quantum("cores=2", settings);
    let work = busy(&machine, 100.0);
    let found = run(&mut machine, &vec![Job::new(work); 3]);
    for end in &found {
        assert!((end.at - 150e6).abs() <= 4e6, "{found:?}");
    }
}

#[test]
fn bound_tasks_have_the_same_shares_of_the_cache_with_both_queues() {
    // Task 0 alone on CPU 1 occupies the more of the cache the larger its share of CPU time is.
    let occupied = SCOPES.map(|queue| {
        let mut machine = quantum("cores=2 llc=2M", QuantumSettings { queue, ..FREE });
        let work = script(machine.fluid(), 1e10, 20.0, 0);
        for (job, cpu) in [1, 0, 0, 0].into_iter().enumerate() {
            let allowed = Some(mask_of(machine.fluid(), &[cpu]));
            machine.start(JobStart { allowed, ..JobStart::new(job, work.clone()) });
        }
        SimMachine::advance(&mut machine, 100 * MS, u64::MAX);
        machine.update_all();
        machine.fluid().occupancies()[&(0, 0)]
    });
    assert!((occupied[0] / f64::from(1 << 20) - 1.0).abs() < 0.02, "{occupied:?}");
    assert!((occupied[1] / occupied[0] - 1.0).abs() < 0.02, "{occupied:?}");
}

/// A task sleeps 20 ms after each ms of CPU time, beside a task that computes.
#[test]
fn a_task_that_wakes_up_preempts_or_waits_for_the_end_of_the_slice() {
    let wait_ns = |wakeup_preemption| {
        let settings = QuantumSettings { wakeup_preemption, slice_ns: 10 * MS, ..FREE };
        let mut machine = quantum("cores=1", settings);
        let mut sleeper = (*busy(&machine, 20.0)).clone();
        sleeper.phases[0].sleeps = Some((1e6, 20 * MS));
        let jobs = [Job::new(busy(&machine, 1000.0)), Job::new(Arc::new(sleeper))];
        run(&mut machine, &jobs)[1].wait_ns
    };
    // Only the first start of the task waits: a new task starts behind the clock.
    assert!(wait_ns(true) <= 20e6, "{}", wait_ns(true));
    assert!(50e6 < wait_ns(false), "{}", wait_ns(false));
}

/// A random set of jobs for a machine with `n_cpus`.
fn random_jobs(rng: &mut Rng, machine: &Fluid, n_cpus: usize) -> Vec<Job> {
    let n_jobs = 3 + rng.below(8);
    let mut jobs: Vec<Job> = (0..n_jobs)
        .map(|_| {
            let misses = [0.0, 4.0, 30.0][rng.below(3) as usize];
            let instructions = 1e6 * (5 + rng.below(60)) as f64;
            let mut work = (*script(machine, instructions, misses, rng.below(3))).clone();
            work.n_threads = 1 + rng.below(3) as u32;
            if rng.below(3) == 0 {
                work.phases[0].sleeps = Some((2e6, 5 * MS));
            }
            let cpu = (rng.below(3) == 0).then(|| rng.below(n_cpus as u64) as usize);
            let weight = (1 + rng.below(4)) as f64;
            Job { at: rng.below(40) * MS, cpu, weight, script: Arc::new(work) }
        })
        .collect();
    jobs.sort_by_key(|job| job.at);
    jobs
}

/// [`run`] checks the invariants of the fluid model and of the grain after every instant: CPU time per CPU, bytes per
/// channel, occupancies, affinities, no idle CPU with a waiting task in its queue.
#[test]
fn invariants_hold_with_random_jobs_and_all_settings() {
    for seed in 0..24 {
        let mut rng = Rng::new(seed);
        let text = ["cores=1", "cores=3", "nodes=2 llcs=2 cores=2 smt=2 mem=1G llc=2M"];
        let text = text[rng.below(3) as usize];
        let settings = QuantumSettings {
            queue: SCOPES[rng.below(2) as usize],
            slice_ns: [MS / 4, 3 * MS, 20 * MS][rng.below(3) as usize],
            switch_cost_ns: [0, 5_000][rng.below(2) as usize],
            wakeup_preemption: rng.below(2) == 0,
        };
        let mut machine = quantum(text, settings);
        machine.fluid.set_contention(rng.below(4) != 0);
        let jobs = random_jobs(&mut rng, machine.fluid(), hardware(text).cpus.len());
        run(&mut machine, &jobs);
    }
}

/// With a common queue, task 3 alone on its CPU receives more than the three tasks on the other. When two further tasks
/// start on its CPU, it does not wait until they have received as much.
#[test]
fn no_task_starves() {
    for queue in SCOPES {
        let mut machine = quantum("cores=2", QuantumSettings { queue, ..FREE });
        let work = busy(&machine, 10_000.0);
        let start = |machine: &mut Quantum<FairQueue>, job: usize, cpu: usize| {
            let allowed = Some(mask_of(machine.fluid(), &[cpu]));
            machine.start(JobStart { allowed, ..JobStart::new(job, work.clone()) });
        };
        for (job, cpu) in [0, 0, 0, 1].into_iter().enumerate() {
            start(&mut machine, job, cpu);
        }
        let mut before = [0.0; 6];
        for step in 1..=100 {
            SimMachine::advance(&mut machine, step * 20 * MS, u64::MAX);
            machine.update_all();
            let n_started = if 50 < step { 6 } else { 4 };
            for (job, before) in before.iter_mut().enumerate().take(n_started) {
                let cpu_ns = threads_of(&machine, job).map(|thread| thread.cpu_ns).sum::<f64>();
                assert!(*before < cpu_ns, "{queue:?}: job {job} did not run in step {step}");
                *before = cpu_ns;
            }
            if step == 50 {
                [4, 5].into_iter().for_each(|job| start(&mut machine, job, 1));
            }
        }
    }
}

/// Task b arrives in the third slice of a and starts one slice behind a, so a runs until the end of the fourth.
#[test]
fn a_new_task_starts_a_slice_behind_the_others() {
    let mut machine = quantum("cores=1", FREE);
    let (long, short) = (busy(&machine, 100.0), busy(&machine, 1.0));
    let found = run(&mut machine, &[Job::new(long), Job { at: 10 * MS, ..Job::new(short) }]);
    assert!((found[1].at - 17e6).abs() < 100.0, "{found:?}");
}

/// Returns the largest relative difference of the ends of bound jobs between the fluid and the quantum machine. The jobs
/// have these misses in turn.
fn difference(seed: u64, misses: [f64; 2], slice_ns: u64) -> f64 {
    let text = "cores=2 llc=8M";
    let mut rng = Rng::new(seed);
    let mut expected = fluid(text);
    let mut jobs: Vec<Job> = (0..6)
        .map(|nth| Job {
            at: rng.below(60) * MS,
            cpu: Some(nth % 2),
            ..Job::new(script(
                &expected,
                1e6 * (100 + rng.below(200)) as f64,
                misses[nth / 2 % 2],
                0,
            ))
        })
        .collect();
    jobs.sort_by_key(|job| job.at);
    let mut found = quantum(text, QuantumSettings { slice_ns, ..FREE });
    let (expected, found) = (run(&mut expected, &jobs), run(&mut found, &jobs));
    let both = expected.iter().zip(&found);
    both.map(|(one, other)| (one.at - other.at).abs() / one.at).fold(0.0, f64::max)
}

#[test]
fn with_short_slices_equal_tasks_end_as_in_the_fluid_machine() {
    for misses in [0.0, 8.0, 40.0] {
        let mean = |slice_ns| {
            (1..=6).map(|seed| difference(seed, [misses; 2], slice_ns)).sum::<f64>() / 6.0
        };
        let errors = [8 * MS, 2 * MS, MS / 2].map(mean);
        assert!(errors[1] < 0.5 * errors[0] && errors[2] < 0.5 * errors[1], "{misses}: {errors:?}");
        assert!(errors[2] < 2e-3, "{misses}: {errors:?}");
    }
}

/// Three tasks of 40 ms: when the second CPU becomes idle after 40 ms, 20 ms of each of the other two are left.
#[test]
fn an_idle_cpu_takes_a_waiting_task_of_another_cpu() {
    for queue in SCOPES {
        let mut machine = quantum("cores=2", QuantumSettings { queue, ..FREE });
        let work = busy(&machine, 40.0);
        let found = run(&mut machine, &vec![Job::new(work); 3]);
        let last = found.iter().map(|end| end.at).fold(0.0, f64::max);
        assert!((60e6..=64e6).contains(&last), "{queue:?}: {found:?}");
    }
}

/// A task that is bound to CPU 0 wakes and preempts the task there, which may also run on the idle CPU 1.
#[test]
fn a_task_that_is_preempted_by_a_bound_task_runs_on_an_idle_cpu() {
    let mut machine = quantum("cores=2", QuantumSettings { queue: QueueScope::Llc, ..FREE });
    let work = busy(&machine, 1000.0);
    let mut sleeper = (*work).clone();
    sleeper.phases[0].sleeps = Some((1e6, 20 * MS));
    for (job, script) in [Arc::new(sleeper), work].into_iter().enumerate() {
        let allowed = Some(mask_of(machine.fluid(), &[0]));
        machine.start(JobStart { allowed, ..JobStart::new(job, script) });
    }
    SimMachine::advance(&mut machine, 10 * MS, u64::MAX);
    machine.bind(1, None);
    for step in 20..200 {
        SimMachine::advance(&mut machine, step * MS / 2, u64::MAX);
        SimMachine::next_event(&mut machine);
        machine.check(true).expect("no task waits beside an idle CPU");
    }
}

/// Returns the violation of a machine with four tasks on two CPUs after a change.
fn violation(queue: QueueScope, change: impl FnOnce(&mut Quantum<FairQueue>)) -> String {
    let mut machine = quantum("cores=2", QuantumSettings { queue, ..FREE });
    let work = busy(&machine, 100.0);
    (0..4).for_each(|job| {
        machine.start(JobStart::new(job, work.clone()));
    });
    SimMachine::advance(&mut machine, MS, u64::MAX);
    SimMachine::next_event(&mut machine);
    machine.check(true).expect("the machine is not yet broken");
    change(&mut machine);
    machine.check(true).map_or_else(|error| error.problem, |()| "none".to_owned())
}

#[test]
fn each_check_finds_a_broken_machine() {
    for queue in SCOPES {
        let stopped = violation(queue, |machine| machine.fluid.stop_running(0));
        assert_eq!(stopped, "the running task of CPU 0 is not the selected task");
        let endless = violation(queue, |machine| {
            [0, 1].into_iter().for_each(|cpu| machine.timers.set(cpu, None));
            SimMachine::advance(machine, 9 * MS / 2, u64::MAX);
        });
        assert_eq!(endless, "a task has run for 4500000 ns on CPU 0, its slice is 4000000 ns");
        let lost = violation(queue, |machine| {
            let domain = machine.domain_of[0];
            let first = machine.domains[domain].queue.first(|_| true).expect("a task waits");
            machine.domains[domain].queue.remove(&machine.tasks[first].virtual_task);
        });
        assert!(lost.contains("waiting and"), "{lost}");
        let idle = violation(queue, |machine| {
            machine.fluid.stop_running(0);
            let Activity::Running(idx, _) = machine.cpus[0].activity else { panic!("it runs") };
            machine.cpus[0].activity = Activity::Idle;
            let domain = &mut machine.domains[machine.domain_of[0]];
            domain.queue.add(&mut machine.tasks[idx].virtual_task, Entry::Again);
        });
        assert!(idle.ends_with("waits, but CPU 0 of its queue is idle"), "{idle}");
    }
}

/// On each CPU, one program has no misses, and the other has many. By chance both programs with misses run at the same
/// time and slow each other down; the fluid machine averages their demand.
#[test]
fn unlike_tasks_that_load_the_memory_keep_a_difference_from_the_fluid_machine() {
    let mean =
        |slice_ns| (1..=6).map(|seed| difference(seed, [0.0, 40.0], slice_ns)).sum::<f64>() / 6.0;
    let (short, shorter) = (mean(MS / 2), mean(MS / 8));
    assert!(0.5 * short < shorter && shorter < 5e-3, "{short} {shorter}");
}

/// The task runs beside an idle CPU until its slice ends, and only then it waits and can be pulled. The other task is bound.
#[test]
fn an_idle_cpu_pulls_a_task_that_waits_after_a_long_slice() {
    let mut machine = quantum("cores=2", QuantumSettings { slice_ns: 200 * MS, ..FREE });
    let [long, short] = [500.0, 40.0].map(|ms| busy(&machine, ms));
    let jobs = [
        Job { cpu: Some(1), ..Job::new(short) },
        Job::new(long.clone()),
        Job { at: MS, cpu: Some(0), ..Job::new(long) },
    ];
    let found = run(&mut machine, &jobs);
    assert!(found[1].wait_ns < 10e6 && 190e6 < found[2].wait_ns, "{found:?}");
}
