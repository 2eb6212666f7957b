//! Tests of the fluid model with few tasks: time sharing, caches, memory, page migration.

use topology::Machine;

use super::*;
use crate::frame::{JobPageMigration, JobStart, MemoryPlacement};
use crate::physics::{Calibration, CoreSpeed, CpiModel, MissCurve, MissPoint};
use crate::script::{Script, ScriptPhase};
use crate::variation::Variation;

const MIB: u64 = 1 << 20;

/// Returns a machine with simple values: 1 GHz, 100 ns, 10 GB/s, 8 MiB of cache.
pub(super) fn machine(text: &str) -> Fluid {
    Fluid::new(hardware(text), MachineSettings::default(), Variation::OFF.streams(0))
}

/// Returns the hardware of [`machine`].
pub(crate) fn hardware(text: &str) -> Arc<Hardware> {
    let machine = Machine::synthetic(text).expect("a machine");
    let mut hardware = Hardware::new(&machine);
    for cpu in &mut hardware.cpus {
        cpu.speed.ghz = 1.0;
    }
    for node in 0..hardware.nodes.len() {
        let peak = hardware.nodes[node].peak;
        hardware.channels[node] = Calibration::default().channel(90.0, peak);
    }
    Arc::new(hardware)
}

/// Returns a script with 1 ns per instruction and `misses` misses per 1000 instructions.
pub(crate) fn script(fluid: &Fluid, instructions: f64, misses: f64, mib: u64) -> Arc<Script> {
    let row = MissPoint::of_demand;
    let rows = vec![row(1048576.0, misses), row(8.0 * 1048576.0, misses / 4.0)];
    let character = MissCurve::new(rows, row(0.0, 4.0 * misses)).expect("a valid curve");
    let behaviour = CpiModel::from_core_cycles(
        &character,
        1.0,
        1.0,
        Calibration::default().parameters(CoreSpeed::new(1.0)),
    );
    let phase = ScriptPhase {
        shared: None,
        fills: Arc::new(fluid.hardware().fill_tables(&behaviour)),
        behaviour: Arc::new(behaviour),
        instructions,
        sleeps: None,
        footprint: mib * MIB,
        l1_misses: 8.0 * misses,
    };
    Arc::new(Script { phases: vec![phase], n_threads: 1, ..Script::default() })
}

pub(super) fn start(fluid: &mut Fluid, job: usize, script: &Arc<Script>, cpu: Option<usize>) {
    let allowed = cpu.map(|cpu| mask_of(fluid, &[cpu]));
    fluid.start(JobStart { allowed, ..JobStart::new(job, script.clone()) });
}

pub(crate) fn mask_of(fluid: &Fluid, cpus: &[usize]) -> Arc<Vec<bool>> {
    Arc::new((0..fluid.hardware().cpus.len()).map(|cpu| cpus.contains(&cpu)).collect())
}

pub(super) fn bind(fluid: &mut Fluid, job: usize, cpu: usize) {
    let only = mask_of(fluid, &[cpu]);
    fluid.bind(job, Some(only));
}

/// Returns the end of each job in milliseconds, by job number.
pub(super) fn ends(fluid: &mut Fluid) -> Vec<(usize, u64)> {
    let mut ends = Vec::new();
    while let Some(at) = fluid.next_event() {
        fluid.advance(at);
        for (when, notice) in fluid.take_notices() {
            if let HostNotice::JobEnded { job, .. } = notice {
                ends.push((job, when / 1_000_000));
            }
        }
    }
    fluid.check_pages().expect("all memory is accounted for");
    ends.sort_unstable();
    ends
}

#[test]
fn a_task_on_a_shared_cpu_takes_twice_as_long() {
    let mut fluid = machine("cores=2");
    let work = script(&fluid, 1e9, 0.0, 0);
    [0, 1].into_iter().for_each(|job| start(&mut fluid, job, &work, Some(0)));
    start(&mut fluid, 2, &work, Some(1));
    assert_eq!(ends(&mut fluid), [(0, 2000), (1, 2000), (2, 1000)]);
}

#[test]
fn a_cpu_is_shared_in_proportion_to_the_weights() {
    let mut fluid = machine("cores=1");
    let work = script(&fluid, 1e9, 0.0, 0);
    start(&mut fluid, 0, &work, None);
    fluid.start(JobStart { weight: 3.0, ..JobStart::new(1, work) });
    // Until 1333 ms, job 1 has three quarters of the CPU; then job 0 has the complete CPU.
    assert_eq!(ends(&mut fluid), [(0, 2000), (1, 1333)]);
}

#[test]
fn a_waiting_task_is_moved_to_an_idle_cpu() {
    let mut fluid = machine("cores=2");
    let (long, short) = (script(&fluid, 3e9, 0.0, 0), script(&fluid, 1e9, 0.0, 0));
    start(&mut fluid, 0, &short, None);
    [1, 2].into_iter().for_each(|job| start(&mut fluid, job, &long, None));
    // Tasks on shared CPUs rotate until the short task ends. After that, each long task has a CPU, and the 7 s of
    // work take a little more than 3.5 s.
    let found = ends(&mut fluid);
    assert_eq!(found.iter().map(|(_, ms)| ms).max(), Some(&3512), "{found:?}");
}

/// Returns the ends of `n_jobs` programs of one second that start one after the other, in milliseconds.
fn all_end(text: &str, n_jobs: usize) -> Vec<u64> {
    let mut fluid = machine(text);
    let work = script(&fluid, 1e9, 0.0, 0);
    (0..n_jobs).for_each(|job| start(&mut fluid, job, &work, None));
    ends(&mut fluid).into_iter().map(|(_, ms)| ms).collect()
}

#[test]
fn three_programs_on_two_cpus_get_equal_shares() {
    // Without rotation, one program would run alone for a second and two programs would share the other CPU.
    let ends = all_end("cores=2", 3);
    assert!(ends.iter().all(|ms| (1400..=1520).contains(ms)), "{ends:?}");
}

#[test]
fn tasks_on_shared_cpus_rotate_between_nodes() {
    let ends = all_end("nodes=4 cores=2", 9);
    // Without rotation, two programs would end after 1500 ms.
    assert!(ends.iter().all(|ms| *ms <= 1200), "{ends:?}");
}

#[test]
fn a_task_bound_to_a_shared_cpu_stays_there() {
    let mut fluid = machine("cores=2");
    let work = script(&fluid, 1e9, 0.0, 0);
    [0, 1].into_iter().for_each(|job| start(&mut fluid, job, &work, Some(0)));
    start(&mut fluid, 2, &work, Some(1));
    ends(&mut fluid);
    assert_eq!(fluid.counts.migrations, 0);
}

#[test]
fn programs_slow_each_other_down_only_on_a_shared_cache() {
    let together = |machine_text: &str| {
        let mut fluid = machine(machine_text);
        let work = script(&fluid, 1e9, 20.0, 0);
        [0, 1].into_iter().for_each(|job| start(&mut fluid, job, &work, Some(job)));
        ends(&mut fluid)[0].1
    };
    let apart = together("llcs=2 llc=8M");
    let shared = together("cores=2 llc=8M");
    assert!(11 * apart < 10 * shared, "{apart} {shared}");
}

#[test]
fn remote_memory_is_slower() {
    let took = |from: usize, to: usize| {
        let mut fluid = machine("nodes=2 cores=1 mem=1G");
        let work = script(&fluid, 1e9, 20.0, 64);
        start(&mut fluid, 0, &work, Some(from));
        fluid.advance(20_000_000);
        bind(&mut fluid, 0, to);
        ends(&mut fluid)[0].1
    };
    assert!(12 * took(0, 0) < 10 * took(0, 1), "{} {}", took(0, 0), took(0, 1));
    assert_eq!(took(0, 0), took(1, 1));
}

#[test]
fn a_task_is_fast_again_after_its_pages_migrate_to_it() {
    let took = |moves: bool| {
        let mut fluid = machine("nodes=2 cores=1 mem=1G");
        let work = script(&fluid, 1e9, 20.0, 64);
        start(&mut fluid, 0, &work, Some(0));
        fluid.advance(30_000_000);
        bind(&mut fluid, 0, 1);
        if moves {
            fluid.move_pages(JobPageMigration {
                to: 1,
                limit: u64::MAX,
                ..JobPageMigration::default()
            });
        }
        fluid.advance(500_000_000);
        fluid.check_pages().expect("all memory is accounted for");
        let moved = fluid.memory_of(0)[1];
        assert_eq!(moved, if moves { 64 * MIB } else { 0 });
        ends(&mut fluid)[0].1
    };
    assert!(11 * took(true) < 10 * took(false), "{} {}", took(true), took(false));
}

#[test]
fn a_full_node_falls_back_to_the_next_and_a_full_machine_oom_kills() {
    let mut fluid = machine("nodes=2 cores=1 mem=64M");
    let work = script(&fluid, 1e9, 0.0, 96);
    start(&mut fluid, 0, &work, Some(0));
    fluid.advance(50_000_000);
    assert_eq!(fluid.memory_of(0), [64 * MIB, 32 * MIB]);
    start(&mut fluid, 1, &work, Some(1));
    fluid.advance(200_000_000);
    let notice = fluid.take_notices();
    assert!(
        matches!(notice[..], [(_, HostNotice::JobEnded { job: 1, out_of_memory: true })]),
        "{notice:?}"
    );
    fluid.remove_job(1);
    fluid.check_pages().expect("its memory is free");
    assert_eq!(fluid.memory_free(1), 32 * MIB);
}

#[test]
fn a_job_is_oom_killed_if_another_job_allocates_the_last_memory_first() {
    let mut fluid = machine("cores=2 mem=64M");
    let work = script(&fluid, 1e9, 0.0, 128);
    start(&mut fluid, 0, &work, Some(0));
    fluid.advance(25_000_000);
    bind(&mut fluid, 0, 1);
    let notice = fluid.take_notices();
    assert!(
        matches!(notice[..], [(_, HostNotice::JobEnded { job: 0, out_of_memory: true })]),
        "{notice:?}"
    );
    fluid.check_affinities().expect("no ended task is on a CPU");
    fluid.remove_job(0);
    assert_eq!(fluid.memory_free(0), 64 * MIB);
}

#[test]
fn no_more_jobs_are_oom_killed_than_necessary() {
    let mut fluid = machine("cores=1 mem=48M");
    let work = script(&fluid, 1e9, 20.0, 24);
    (0..4).for_each(|job| start(&mut fluid, job, &work, None));
    let mut killed = Vec::new();
    // All jobs are updated repeatedly. In one update, the last page is allocated and the allocations of several jobs
    // fail.
    for sample in 1..=100_000 {
        fluid.advance(sample * 200_000);
        fluid.update_all();
        fluid.next_event();
        for (_, notice) in fluid.take_notices() {
            let HostNotice::JobEnded { job, out_of_memory } = notice else { continue };
            killed.extend(out_of_memory.then_some(job));
            fluid.remove_job(job);
        }
        fluid.check_pages().expect("all memory is accounted for");
        fluid.check_affinities().expect("no ended task is on a CPU");
    }
    assert_eq!(
        killed.len(),
        2,
        "48 MiB are enough for two jobs of 24 MiB, not for three: {killed:?}"
    );
    assert_eq!(fluid.memory_free(0), 48 * MIB);
}

#[test]
fn interleaved_memory_is_spread_evenly_over_all_nodes() {
    let mut fluid = machine("nodes=4 cores=1 mem=1G");
    let work = script(&fluid, 1e9, 0.0, 64);
    let memory = MemoryPlacement::Interleave(vec![0, 1, 2, 3]);
    fluid.start(JobStart { memory, ..JobStart::new(0, work) });
    fluid.advance(50_000_000);
    assert_eq!(fluid.memory_of(0), [16 * MIB; 4]);
}

#[test]
fn a_cold_cache_costs_once_and_at_most_the_time_to_fill_it() {
    let took = |moves: u64| {
        let mut fluid = machine("llcs=2 cores=1 llc=8M");
        let work = script(&fluid, 1e9, 20.0, 0);
        start(&mut fluid, 0, &work, Some(0));
        for n in 1..=moves {
            fluid.advance(n * 100_000_000);
            bind(&mut fluid, 0, n as usize % 2);
        }
        ends(&mut fluid)[0].1
    };
    let (none, one, three) = (took(0), took(1), took(3));
    // 8 MiB are 131072 lines of 100 ns: at most 13 ms.
    assert!(none < one && one - none <= 14, "{none} {one}");
    assert!((three - none).abs_diff(3 * (one - none)) <= 2, "{none} {one} {three}");
}

#[test]
fn counters_report_the_work_of_a_task() {
    let mut fluid = machine("cores=1 llc=8M");
    let work = script(&fluid, 1e9, 20.0, 0);
    start(&mut fluid, 0, &work, None);
    while fluid.take_notices().is_empty() {
        let at = fluid.next_event().expect("it ends");
        fluid.advance(at);
    }
    let task = fluid.tasks_of(0).next().expect("it is not freed").clone();
    let close = |value: f64, expected: f64| (value / expected - 1.0).abs() < 1e-3;
    assert!(close(task.counts.instructions, 1e9), "{:?}", task.counts);
    // A quarter of 20 per 1000, and at most one miss for each of the 131072 lines of the cold cache.
    let cold = task.counts.misses - 5e6;
    assert!((0.0..131_072.0).contains(&cold), "{:?}", task.counts);
    assert!(close(task.counts.references, 8e7) && close(task.counts.l1_misses, 1.6e8));
    assert!(close(task.counts.cycles, task.cpu_ns), "1 GHz: {:?}", task.counts);
    assert!(close(fluid.lines(0)[0], 5e6 + cold), "{:?}", fluid.lines(0));
    assert!(0.0 < task.counts.queue_full && task.counts.queue_full < task.counts.references);
}

/// Returns the ends of programs that share a CPU by weight, in nanoseconds. This reference is computed step by step.
fn shared(work: &[(f64, f64, f64)]) -> Vec<f64> {
    let mut left: Vec<f64> = work.iter().map(|one| one.1).collect();
    let mut ends = vec![f64::NAN; work.len()];
    let mut now = 0.0;
    while ends.iter().any(|end| end.is_nan()) {
        let runs = |at: usize| work[at].0 <= now && ends[at].is_nan();
        let weight: f64 = (0..work.len()).filter(|&at| runs(at)).map(|at| work[at].2).sum();
        let to_end =
            |at: usize| if runs(at) { left[at] * weight / work[at].2 } else { f64::INFINITY };
        let to_start = |at: usize| if now < work[at].0 { work[at].0 - now } else { f64::INFINITY };
        let all = 0..work.len();
        let step = all.flat_map(|at| [to_end(at), to_start(at)]).fold(f64::INFINITY, f64::min);
        let ran: Vec<usize> = (0..work.len()).filter(|&at| runs(at)).collect();
        now += step;
        for at in ran {
            left[at] -= step * work[at].2 / weight;
            if left[at] < 1e-3 {
                ends[at] = now;
            }
        }
    }
    ends
}

#[test]
fn without_contention_a_cpu_is_shared_by_weight_while_tasks_start_and_end() {
    let mut rng = base::Rng::new(3);
    for round in 0..30 {
        let mut fluid = machine("cores=2 llc=8M");
        fluid.settings.contention = false;
        let one = script(&fluid, 1.0, 0.0, 0);
        let ns_each = one.phases[0].ns_alone(fluid.hardware()) / 1000.0;
        let n_jobs = 1 + rng.below(8) as usize;
        // Start, CPU time and weight of each job. Times are whole milliseconds, so that events coincide.
        let work: Vec<(f64, f64, f64)> = (0..n_jobs)
            .map(|_| {
                let start = rng.below(20) as f64 * 1e6;
                (start, (1 + rng.below(30)) as f64 * 1e6, (1 + rng.below(4)) as f64)
            })
            .collect();
        let mut order: Vec<usize> = (0..n_jobs).collect();
        order.sort_by(|a, b| work[*a].0.total_cmp(&work[*b].0));
        let mut found = vec![0.0; n_jobs];
        let mut cpu_times = vec![0.0; n_jobs];
        let mut waiting = order.into_iter().peekable();
        loop {
            let event = fluid.next_event();
            let due = waiting.peek().map(|&job| work[job].0 as u64);
            let Some(at) = event.into_iter().chain(due).min() else { break };
            fluid.advance(at);
            for (when, notice) in fluid.take_notices() {
                let HostNotice::JobEnded { job, .. } = notice else { continue };
                found[job] = when as f64;
                cpu_times[job] = fluid.tasks_of(job).map(|task| task.cpu_ns).sum();
                fluid.remove_job(job);
            }
            while let Some(job) = waiting.next_if(|&job| work[job].0 as u64 <= fluid.now()) {
                let mut script = (*one).clone();
                script.phases[0].instructions = work[job].1 / ns_each;
                let (_, _, weight) = work[job];
                let allowed = Some(mask_of(&fluid, &[0]));
                fluid.start(JobStart { allowed, weight, ..JobStart::new(job, Arc::new(script)) });
            }
            if rng.below(3) == 0 {
                fluid.update_all(); // An update must not change the state.
            }
        }
        for (at, (end, expected)) in found.iter().zip(shared(&work)).enumerate() {
            assert!((end - expected).abs() < 100.0, "round {round}, job {at}: {end} {expected}");
            assert!(
                (cpu_times[at] - work[at].1).abs() < 100.0,
                "round {round}: {} {:?}",
                cpu_times[at],
                work[at]
            );
        }
        fluid.check_cpu_time().expect("at most the existing CPU time");
    }
}

#[test]
fn tasks_next_to_an_oom_killed_task_lose_no_cpu_time() {
    for contention in [true, false] {
        let mut fluid = machine("nodes=1 cores=1 mem=64M");
        fluid.settings.contention = contention;
        let greedy = script(&fluid, 1e9, 0.0, 96);
        let light = script(&fluid, 5e7, 0.0, 0);
        start(&mut fluid, 0, &greedy, Some(0));
        start(&mut fluid, 1, &light, Some(0));
        start(&mut fluid, 2, &light, Some(0));
        let mut cpu_times = [0.0; 3];
        let mut ends = Vec::new();
        while let Some(at) = fluid.next_event() {
            fluid.advance(at);
            for (when, notice) in fluid.take_notices() {
                let HostNotice::JobEnded { job, out_of_memory } = notice else { continue };
                assert_eq!(out_of_memory, job == 0);
                cpu_times[job] = fluid.tasks_of(job).map(|task| task.cpu_ns).sum();
                ends.push(when as f64);
            }
        }
        let last = ends.iter().copied().fold(0.0, f64::max);
        let sum: f64 = cpu_times.iter().sum();
        assert!(
            (sum - last).abs() < 100.0,
            "one CPU was never idle: {sum} of {last} ns of CPU time"
        );
        fluid.check_cpu_time().expect("at most the existing CPU time");
    }
}

/// Returns the result of a random run without contention: ends of jobs, CPU time, wait time, lines. Tasks are updated
/// after every event, or only at the ends of jobs. No job has memory, and each job is bound to a CPU. Otherwise an
/// update could split a sum and shift an event by a nanosecond, and then the kernel may choose another CPU.
fn simulated(seed: u64, is_updated: bool) -> Vec<f64> {
    let mut rng = base::Rng::new(seed);
    let mut fluid = machine("nodes=2 llcs=1 cores=2 smt=2 mem=1G llc=8M");
    fluid.settings.contention = false;
    let n_cpus = fluid.hardware().cpus.len();
    let mut results = Vec::new();
    let mut left = 24;
    let mut job = 0;
    let mut running: Vec<usize> = Vec::new();
    loop {
        let until = fluid.now() + 1_000_000 * (1 + rng.below(400));
        while let Some(at) = fluid.next_event().filter(|&at| at <= until) {
            fluid.advance(at);
            for (when, notice) in fluid.take_notices() {
                let HostNotice::JobEnded { job, .. } = notice else { continue };
                results.push(when as f64);
                let tasks: Vec<&Task> = fluid.tasks_of(job).collect();
                results.push(tasks.iter().map(|task| task.cpu_ns).sum());
                results.push(tasks.iter().map(|task| task.wait_ns).sum());
                results.push(tasks.iter().map(|task| task.counts.reads).sum());
                fluid.remove_job(job);
                running.retain(|other| *other != job);
            }
            if is_updated {
                fluid.update_all();
            }
        }
        fluid.advance(until);
        if left == 0 && running.is_empty() {
            return results;
        }
        let some = |rng: &mut base::Rng| {
            running.get(rng.below(running.len().max(1) as u64) as usize).copied()
        };
        match rng.below(if left == 0 { 3 } else { 8 }) {
            1 => {
                let mask = mask_of(&fluid, &[rng.below(n_cpus as u64) as usize]);
                if let Some(job) = some(&mut rng) {
                    fluid.bind(job, Some(mask));
                }
            }
            0 | 2 => {}
            _ if left == 0 => {}
            _ => {
                let mut work = (*script(&fluid, 1e8 * (1 + rng.below(9)) as f64, 4.0, 0)).clone();
                work.n_threads = 1 + rng.below(3) as u32;
                if rng.below(2) == 0 {
                    work.phases[0].sleeps = Some((2e7, 30_000_000));
                }
                let allowed = Some(mask_of(&fluid, &[rng.below(n_cpus as u64) as usize]));
                let weight = (1 + rng.below(4)) as f64;
                fluid.start(JobStart { allowed, weight, ..JobStart::new(job, Arc::new(work)) });
                running.push(job);
                job += 1;
                left -= 1;
            }
        }
    }
}

#[test]
fn without_contention_additional_updates_change_nothing() {
    let is_same = |seed: &u64| {
        let (rarely, often) = (simulated(*seed, false), simulated(*seed, true));
        let is_close =
            |(one, other): (&f64, &f64)| (one - other).abs() <= 1e-6 * one.abs().max(1e9);
        rarely.len() == often.len() && rarely.iter().zip(&often).all(is_close)
    };
    let n_same = (0..100).filter(is_same).count();
    // Two events at one instant may be swapped.
    assert!(97 <= n_same, "{n_same} of 100");
}

#[test]
fn memory_of_the_kernel_and_page_cache_is_reclaimed_if_no_node_has_free_memory() {
    let settings = MachineSettings::default();
    let variation = Variation { pages: 0.5, ..Variation::OFF };
    let machine = Machine::synthetic("nodes=2 cores=1 mem=128M").expect("a machine");
    let hardware = Arc::new(Hardware::new(&machine));
    let held = |seed: u64| {
        let fluid = Fluid::new(hardware.clone(), settings, variation.streams(seed));
        [0, 1].map(|node| fluid.memory_reclaimable(node))
    };
    let [first, second] = held(1);
    assert!(first != second && first <= 64 * MIB && second <= 64 * MIB, "{first} {second}");
    assert_ne!(held(1), held(2));

    let mut fluid = Fluid::new(hardware.clone(), settings, variation.streams(1));
    let work = script(&fluid, 1e9, 0.0, 250);
    start(&mut fluid, 0, &work, Some(0));
    fluid.advance(500_000_000);
    fluid.check_pages().expect("all memory is accounted for");
    assert_eq!(fluid.memory_of(0).iter().sum::<u64>(), 250 * MIB, "all memory is allocated");
}

#[test]
fn the_done_share_of_a_job_is_its_executed_share_of_all_phases_and_threads() {
    let mut fluid = machine("cores=2");
    let work = script(&fluid, 1e9, 0.0, 0);
    let phases =
        vec![work.phases[0].clone(), ScriptPhase { instructions: 3e9, ..work.phases[0].clone() }];
    let work = Arc::new(Script { phases, n_threads: 2, ..Script::default() });
    assert_eq!(fluid.done_share(0), None);
    start(&mut fluid, 0, &work, None);
    for (secs, expected) in [(0, 0.0), (1, 0.25), (2, 0.5), (3, 0.75)] {
        fluid.advance(secs * 1_000_000_000);
        fluid.update_all();
        let done = fluid.done_share(0).expect("a running job");
        assert!((done - expected).abs() < 1e-6, "{done} after {secs} s");
    }
}

#[test]
fn without_contention_a_task_has_the_speed_of_its_own_kind_of_core() {
    // The second core needs twice the cycles, and its two busy siblings have half of it each.
    let run = |cpus: &[usize]| {
        let text = "nodes=1 llcs=1 cores=2 smt=2";
        let mut hardware = Hardware::new(&Machine::synthetic(text).expect("a machine"));
        hardware.smt_shares = vec![vec![1.0, 0.5]; 2];
        for cpu in &mut hardware.cpus {
            cpu.speed.ghz = 1.0;
            cpu.speed.relative_cycles = if cpu.core == 1 { 2.0 } else { 1.0 };
        }
        let settings = MachineSettings { contention: false, ..MachineSettings::default() };
        let mut fluid = Fluid::new(Arc::new(hardware), settings, Variation::OFF.streams(0));
        let one = script(&fluid, 1e9, 0.0, 0);
        cpus.iter().enumerate().for_each(|(job, &cpu)| start(&mut fluid, job, &one, Some(cpu)));
        ends(&mut fluid).into_iter().map(|(_, ms)| ms).collect::<Vec<_>>()
    };
    assert_eq!(run(&[0, 2, 3]), [1000, 4000, 4000]);
}

/// A random machine: SMT 1, 2 or 4, one or more LLC domains, one to four nodes. With `is_unlike`, every second core of
/// each LLC domain has a lower capacity.
fn random_machine(rng: &mut base::Rng, is_unlike: bool) -> (String, Fluid) {
    let one_of = |rng: &mut base::Rng, of: &[u64]| of[rng.below(of.len() as u64) as usize];
    let text = format!(
        "nodes={} llcs={} cores={} smt={} mem=1G",
        one_of(rng, &[1, 1, 2, 4]),
        one_of(rng, &[1, 1, 2, 3]),
        1 + rng.below(5),
        one_of(rng, &[1, 2, 2, 4])
    );
    let mut hardware = Hardware::new(&Machine::synthetic(&text).expect("a machine"));
    for cpu in &mut hardware.cpus {
        cpu.speed.ghz = 1.0;
        cpu.capacity = if is_unlike && cpu.core % 2 == 1 { 500 } else { 1024 };
    }
    let settings = MachineSettings { contention: false, ..MachineSettings::default() };
    (text, Fluid::new(Arc::new(hardware), settings, Variation::OFF.streams(0)))
}

/// Returns the number of busy siblings of each core.
fn busy_siblings(fluid: &Fluid) -> Vec<usize> {
    let is_busy = |cpu: &&usize| !fluid.cpus[**cpu].tasks.is_empty();
    fluid.hardware().cores.iter().map(|cpus| cpus.iter().filter(is_busy).count()).collect()
}

/// Starts endless jobs with random affinities on a random machine, some of which end, and balances until no task moves
/// for a second, for at most a minute: tasks on shared CPUs rotate. `check` gets the machine and its text.
fn on_settled_machines(is_unlike: bool, is_bound: bool, check: impl Fn(&str, &Fluid)) {
    for seed in 0..300 {
        let mut rng = base::Rng::new(seed);
        let (text, mut fluid) = random_machine(&mut rng, is_unlike);
        let text = format!("seed {seed}: {text}");
        let (endless, short) = (script(&fluid, 1e15, 0.0, 0), script(&fluid, 1e8, 0.0, 0));
        let n_cpus = fluid.hardware().cpus.len() as u64;
        for job in 0..1 + rng.below(2 * n_cpus) as usize {
            let work = if rng.below(3) == 0 { &short } else { &endless };
            let allowed = (is_bound && rng.below(3) == 0).then(|| {
                let chosen: Vec<usize> = (0..3).map(|_| rng.below(n_cpus) as usize).collect();
                mask_of(&fluid, &chosen)
            });
            fluid.start(JobStart { allowed, ..JobStart::new(job, work.clone()) });
        }
        let mut quiet_since = (0, 0);
        while fluid.now() - quiet_since.0 < 1_000_000_000 && fluid.now() < 60_000_000_000 {
            fluid.advance(fluid.now() + 10_000_000);
            fluid.take_notices();
            let n_migrations = fluid.counts.migrations;
            if n_migrations != quiet_since.1 {
                quiet_since = (fluid.now(), n_migrations);
            }
        }
        fluid.check_affinities().expect("all affinities hold");
        assert_eq!(fluid.find_task_next_to_idle(false), None, "{text}");
        check(&text, &fluid);
    }
}

#[test]
fn no_core_has_two_busy_siblings_while_a_core_of_its_node_is_idle() {
    on_settled_machines(false, false, |text, fluid| {
        let busy = busy_siblings(fluid);
        let node_of = |core: usize| fluid.hardware().cpus[fluid.hardware().cores[core][0]].node;
        for (core, _) in busy.iter().enumerate().filter(|(_, n_busy)| 1 < **n_busy) {
            let idle = (0..busy.len()).find(|&i| busy[i] == 0 && node_of(i) == node_of(core));
            assert_eq!(idle, None, "{text}: core {core} of {busy:?}");
        }
    });
}

#[test]
fn no_task_shares_a_core_while_another_core_of_its_cache_that_it_may_use_is_idle() {
    on_settled_machines(false, true, |text, fluid| {
        let busy = busy_siblings(fluid);
        let hardware = fluid.hardware();
        for task in fluid.tasks.iter().filter(|task| task.state == TaskState::Runnable) {
            let own = &hardware.cpus[task.cpu];
            let is_better = |cpu: &usize| {
                let other = &hardware.cpus[*cpu];
                task.may_use(*cpu) && other.cache == own.cache && busy[other.core] == 0
            };
            let better = (0..hardware.cpus.len()).find(is_better);
            let is_alone = busy[own.core] == 1;
            assert!(is_alone || better.is_none(), "{text}: {} of {busy:?}", task.cpu);
        }
    });
}

#[test]
fn no_large_core_of_a_node_is_idle_while_a_small_core_runs_a_task() {
    on_settled_machines(true, false, |text, fluid| {
        let busy = busy_siblings(fluid);
        let cpu_of = |core: usize| &fluid.hardware().cpus[fluid.hardware().cores[core][0]];
        for small in (0..busy.len()).filter(|&core| cpu_of(core).capacity < 1024 && busy[core] != 0)
        {
            let is_idle_large = |&core: &usize| {
                let large = cpu_of(core);
                busy[core] == 0 && large.capacity == 1024 && large.node == cpu_of(small).node
            };
            assert_eq!((0..busy.len()).find(is_idle_large), None, "{text}: {busy:?}");
        }
    });
}

#[test]
fn as_many_equal_tasks_as_equal_cpus_get_equal_cpu_time() {
    for seed in 0..100 {
        let mut rng = base::Rng::new(seed);
        let (text, mut fluid) = random_machine(&mut rng, false);
        let endless = script(&fluid, 1e15, 0.0, 0);
        let n_cpus = fluid.hardware().cpus.len();
        (0..n_cpus).for_each(|job| start(&mut fluid, job, &endless, None));
        fluid.advance(2_000_000_000);
        fluid.update_all();
        let times: Vec<f64> = fluid.tasks.iter().map(|task| task.cpu_ns).collect();
        // A task may wait for the first balancing attempts, which take 64 ms each on a large machine.
        assert!(times.iter().all(|ns| 1.8e9 < *ns), "seed {seed}: {text}: {times:?}");
    }
}
