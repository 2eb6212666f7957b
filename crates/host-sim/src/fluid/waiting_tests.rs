//! Tests of threads that wait for each other, against the textbook: barriers, Amdahl's law, pipelines.

use std::path::Path;

use super::tests::{machine, mask_of, script, start};
use super::*;
use crate::physics::{Calibration, CoreSpeed, CpiModel, MissCurve, MissPoint, SharedFills};
use crate::script::Script;

/// Returns a script of `instructions` for all threads together, with the sections of a workload file.
fn with_sections(fluid: &Fluid, instructions: f64, n_threads: u32, keys: &str) -> Arc<Script> {
    let text = format!("[[job]]\ncommand = [\"a\"]\nthreads = {n_threads}\n{keys}\n");
    let workload = program::parse_toml(&text, Path::new("w.toml")).expect("a workload");
    let sections = workload.jobs[0].sections.clone().expect("sections");
    let mut one = (*script(fluid, instructions / f64::from(n_threads), 0.0, 0)).clone();
    one.n_threads = n_threads;
    one.plan = Some(one.plan_of(&sections).expect("a plan"));
    Arc::new(one)
}

/// Returns a machine with one slow CPU.
fn with_slow_cpu(n_cpus: usize, slow_ghz: f64) -> Fluid {
    let mut fluid = machine(&format!("cores={n_cpus}"));
    let mut hardware = (*fluid.hardware).clone();
    hardware.cpus[n_cpus - 1].speed.ghz = slow_ghz;
    fluid.hardware = Arc::new(hardware);
    fluid
}

/// Starts a job with one thread on each CPU.
fn start_spread(fluid: &mut Fluid, job: usize, work: &Arc<Script>) {
    start(fluid, job, work, None);
    let tids: Vec<u32> = fluid.tasks_of(job).map(|task| task.tid).collect();
    for (cpu, tid) in tids.into_iter().enumerate() {
        let only = mask_of(fluid, &[cpu]);
        fluid.bind_tid(tid, Some(only));
    }
}

/// Runs until job 0 ends. Returns the time in nanoseconds, and the CPU time and the blocked time of each thread.
fn run(fluid: &mut Fluid) -> (u64, Vec<(u64, u64)>) {
    loop {
        let at = fluid.next_event().expect("the job ends");
        fluid.advance(at);
        let is_over =
            |(_, notice): &(u64, HostNotice)| matches!(notice, HostNotice::JobEnded { job: 0, .. });
        let over = fluid.take_notices().into_iter().find(is_over);
        fluid.check_invariants().expect("all invariants hold");
        let Some((at, _)) = over else { continue };
        fluid.update_all();
        fluid.check_instructions(0).expect("the threads execute their plan");
        let times = fluid.tasks_of(0).map(|task| (task.cpu_ns as u64, fluid.blocked_ns(task)));
        return (at, times.collect());
    }
}

fn assert_ms(found: u64, expected: f64) {
    let found = found as f64 / 1e6;
    assert!((found - expected).abs() <= 1e-4 * expected + 0.001, "{found} ms, expected {expected}");
}

#[test]
fn a_team_with_barriers_is_as_slow_as_its_slowest_thread() {
    for rounds in [1, 10, 1000] {
        let mut fluid = with_slow_cpu(4, 0.25);
        let keys = format!("rounds = {rounds}\nsection = [{{ work = 1 }}]");
        let work = with_sections(&fluid, 4e8, 4, &keys);
        start_spread(&mut fluid, 0, &work);
        let (ns, times) = run(&mut fluid);
        // 100 million instructions at 0.25 GHz.
        assert_ms(ns, 400.0);
        for (cpu, blocked) in &times[..3] {
            assert_ms(*cpu, 100.0);
            assert_ms(*blocked, 300.0);
        }
        assert_ms(times[3].0, 400.0);
    }
}

#[test]
fn a_serial_share_limits_the_speed_up_as_in_amdahls_law() {
    for n_threads in [2u32, 4, 8] {
        for serial in [5u32, 10, 30] {
            for rounds in [1, 20] {
                let mut fluid = machine("cores=8");
                let keys = format!(
                    "rounds = {rounds}\nsection = [{{ threads = 1, work = {serial} }}, {{ work = {} }}]",
                    100 - serial
                );
                let work = with_sections(&fluid, 1e9, n_threads, &keys);
                start_spread(&mut fluid, 0, &work);
                let (ns, times) = run(&mut fluid);
                let s = f64::from(serial) / 100.0;
                assert_ms(ns, 1000.0 * (s + (1.0 - s) / f64::from(n_threads)));
                assert_ms(times[0].1, 0.0);
                assert_ms(times[1].1, 1000.0 * s);
                let cpu: u64 = times.iter().map(|(cpu, _)| cpu).sum();
                assert_ms(cpu, 1000.0);
            }
        }
    }
}

#[test]
fn a_fork_of_unlike_threads_takes_the_time_of_its_longest_thread() {
    for rounds in [1, 5] {
        let mut fluid = machine("cores=4");
        let keys = format!(
            "rounds = {rounds}\nsection = [{{ threads = 1, work = 10 }}, {{ work = [10, 20, 30, 30] }}]"
        );
        let work = with_sections(&fluid, 1e9, 4, &keys);
        start_spread(&mut fluid, 0, &work);
        let (ns, times) = run(&mut fluid);
        assert_ms(ns, 100.0 + 300.0);
        let found = times.iter().map(|(cpu, _)| libm::round(*cpu as f64 / 1e6));
        assert_eq!(found.collect::<Vec<f64>>(), [200.0, 200.0, 300.0, 300.0]);
        assert_ms(times[0].1, 200.0);
    }
    // On a CPU of half the speed, the longest thread takes twice the time.
    let mut fluid = with_slow_cpu(2, 0.5);
    let work = with_sections(&fluid, 4e8, 2, "section = [{ work = [1, 3] }]");
    start_spread(&mut fluid, 0, &work);
    assert_ms(run(&mut fluid).0, 600.0);
}

#[test]
fn stages_with_their_own_phases_have_their_own_instructions_and_core_cycles() {
    let mut fluid = machine("cores=2");
    let text = "[[job]]\ncommand = [\"a\"]\nthreads = 2\n\
                section = [{ stages = [1, 1], phases = [1, 2], items = 50, queue = 1 }]\n";
    let workload = program::parse_toml(text, Path::new("w.toml")).expect("a workload");
    let sections = workload.jobs[0].sections.clone().expect("sections");
    let mut work = (*script(&fluid, 2.5e7, 0.0, 0)).clone();
    let mut second = work.phases[0].clone();
    let row = MissPoint::of_demand;
    let character = MissCurve::new(vec![row(1048576.0, 0.0)], row(0.0, 0.0)).expect("a curve");
    let parameters = Calibration::default().parameters(CoreSpeed::new(1.0));
    let behaviour = CpiModel::from_core_cycles(&character, 3.0, 1.0, parameters);
    (second.behaviour, second.instructions) = (Arc::new(behaviour), 5e7);
    work.phases.push(second);
    work.n_threads = 2;
    work.plan = Some(work.plan_of(&sections).expect("a plan"));
    start_spread(&mut fluid, 0, &Arc::new(work));
    let (ns, times) = run(&mut fluid);
    // Both threads together: a million instructions per item in a millisecond, and two million in six.
    assert_ms(ns, pipeline_ns(&[1.0, 6.0], 50, 1));
    assert_ms(times[0].0, 50.0);
    assert_ms(times[1].0, 300.0);
}

/// Returns the time in nanoseconds of a pipeline with these nanoseconds per item and stage, from its recurrence: an
/// item enters a stage when the stage has passed on the item before and the stage before has passed on this item; it
/// leaves when the next stage has taken the item that is `queue` items earlier.
fn pipeline_ns(stages: &[f64], items: usize, queue: usize) -> f64 {
    let n = stages.len();
    let mut starts = vec![vec![0.0f64; items]; n];
    let mut leaves = vec![vec![0.0f64; items]; n];
    for item in 0..items {
        for stage in 0..n {
            let free = if item == 0 { 0.0 } else { leaves[stage][item - 1] };
            let input = if stage == 0 { 0.0 } else { leaves[stage - 1][item] };
            starts[stage][item] = free.max(input);
            let slot = match item.checked_sub(queue) {
                Some(earlier) if stage + 1 < n => starts[stage + 1][earlier],
                _ => 0.0,
            };
            leaves[stage][item] = (starts[stage][item] + stages[stage]).max(slot);
        }
    }
    leaves[n - 1][items - 1]
}

#[test]
fn a_pipeline_takes_the_time_of_its_recurrence() {
    for stages in [&[1, 1][..], &[1, 3], &[3, 1], &[1, 1, 3, 1], &[2, 1, 1, 1, 1, 1, 1, 4]] {
        for queue in [1, 2, 5, 100] {
            let n = stages.len();
            let mut fluid = machine(&format!("cores={n}"));
            let items = 50;
            let keys =
                format!("section = [{{ stages = {stages:?}, items = {items}, queue = {queue} }}]");
            let total: u32 = stages.iter().sum();
            // A work of 1 is a million instructions, or a millisecond, per item.
            let all = f64::from(total) * 1e6 * items as f64;
            let work = with_sections(&fluid, all, n as u32, &keys);
            start_spread(&mut fluid, 0, &work);
            let (ns, times) = run(&mut fluid);
            let each: Vec<f64> = stages.iter().map(|work| f64::from(*work)).collect();
            assert_ms(ns, pipeline_ns(&each, items, queue));
            // The throughput is that of the slowest stage.
            let slowest = each.iter().fold(0.0f64, |most, ms| most.max(*ms));
            assert!(slowest * items as f64 <= ns as f64 / 1e6 + 0.01);
            assert!(ns as f64 / 1e6 <= slowest * items as f64 + f64::from(total));
            for ((cpu, blocked), work) in times.iter().zip(&each) {
                assert_ms(*cpu, work * items as f64);
                assert_ms(cpu + blocked, ns as f64 / 1e6);
            }
        }
    }
}

#[test]
fn a_full_queue_blocks_the_producer_and_a_large_queue_does_not() {
    let blocked = |queue: u32| {
        let mut fluid = machine("cores=2");
        let keys = format!("section = [{{ stages = [1, 3], items = 20, queue = {queue} }}]");
        let work = with_sections(&fluid, 80e6, 2, &keys);
        start_spread(&mut fluid, 0, &work);
        let (ns, times) = run(&mut fluid);
        assert_ms(ns, 61.0);
        times[0].1 as f64 / 1e6
    };
    // The producer of 20 ms waits at the end for the consumer in any case.
    assert_eq!([1, 4, 20, 1000].map(|queue| libm::round(blocked(queue))), [41.0; 4]);
    // With a queue for two items, the producer has 14 items less to make when the queue is full for the first time.
    let mut fluid = machine("cores=2");
    let keys = "section = [{ stages = [1, 3], items = 20, queue = 2 }]";
    let work = with_sections(&fluid, 80e6, 2, keys);
    start_spread(&mut fluid, 0, &work);
    fluid.advance(30_000_000);
    fluid.update_all();
    let cpu: Vec<f64> = fluid.tasks_of(0).map(|task| libm::round(task.cpu_ns / 1e6)).collect();
    // At 30 ms the consumer executes its tenth item; the producer has made two items for the queue and holds a third.
    assert_eq!(cpu, [13.0, 29.0]);
}

#[test]
fn a_pipeline_with_queues_for_all_items_is_the_wavefront_of_a_grid() {
    let mut fluid = machine("cores=4");
    let work = with_sections(
        &fluid,
        2.0 * 16e6,
        4,
        "rounds = 2\nsection = [{ stages = [1, 1, 1, 1], items = 4, queue = 4 }]",
    );
    start_spread(&mut fluid, 0, &work);
    // Each grid of 4 x 4 cells has 7 levels.
    assert_ms(run(&mut fluid).0, 14.0);
}

#[test]
fn threads_that_share_one_cpu_take_the_time_of_all_their_work() {
    for keys in [
        "rounds = 7\nsection = [{ threads = 1, work = 1 }, { work = 3 }]",
        "section = [{ stages = [1, 2, 1], items = 30, queue = 1 }]",
    ] {
        let mut fluid = machine("cores=1");
        let work = with_sections(&fluid, 1e9, 3, keys);
        start(&mut fluid, 0, &work, None);
        assert_ms(run(&mut fluid).0, 1000.0);
    }
}

#[test]
fn an_unrelated_job_on_another_cpu_and_another_cache_changes_nothing() {
    let time = |with_other: bool| {
        let mut fluid = machine("llcs=2 cores=4 llc=8M");
        let keys = "rounds = 3\nsection = [{ threads = 1, work = 1 }, { stages = [2, 1, 1], items = 9, queue = 2 }]";
        let work = with_sections(&fluid, 1e9, 3, keys);
        start_spread(&mut fluid, 0, &work);
        if with_other {
            let other = script(&fluid, 3e8, 20.0, 0);
            start(&mut fluid, 1, &other, Some(7));
        }
        run(&mut fluid)
    };
    assert_eq!(time(false), time(true));
}

#[test]
fn with_and_without_contention_waiting_is_the_same() {
    let time = |contention: bool| {
        let mut fluid = with_slow_cpu(3, 0.5);
        fluid.settings.contention = contention;
        let keys =
            "rounds = 5\nsection = [{ work = 1 }, { stages = [2, 1, 1], items = 9, queue = 2 }]";
        let work = with_sections(&fluid, 1e9, 3, keys);
        start_spread(&mut fluid, 0, &work);
        run(&mut fluid).0
    };
    assert!(time(true).abs_diff(time(false)) < 1000, "{} {}", time(true), time(false));
}

#[test]
fn the_done_share_of_a_job_with_sections_is_its_executed_share() {
    let mut fluid = machine("cores=2");
    let keys = "rounds = 2\nsection = [{ threads = 1, work = 1 }, { stages = [1, 2], items = 4, queue = 2 }]";
    // Each round has 100 ms of one thread, then stages of 25 and 50 ms for four items.
    let work = with_sections(&fluid, 8e8, 2, keys);
    start_spread(&mut fluid, 0, &work);
    // After 50 ms; at the end of the first serial section; with one item in the second stage; at the end.
    for (ms, done) in [(50, 50.0), (100, 100.0), (125, 125.0), (150, 175.0), (649, 799.0)] {
        fluid.advance(ms * 1_000_000);
        fluid.update_all();
        let found = 800.0 * fluid.done_share(0).expect("a running job");
        assert!((found - done).abs() < 0.01, "{found} instead of {done} after {ms} ms");
    }
    assert_ms(run(&mut fluid).0, 650.0);
}

#[test]
fn a_thread_that_waits_loses_its_cache_to_other_tasks() {
    let apart = |with_other| kept_by_blocked_thread([0, 3], 0.0, with_other);
    assert!(apart(true) < 0.1 && 0.99 < apart(false), "{} {}", apart(true), apart(false));
}

#[test]
fn a_blocked_thread_finds_the_data_that_a_thread_beside_it_keeps() {
    let kept = [0.0, 0.5, 1.0].map(|share| kept_by_blocked_thread([4, 3], share, true));
    // Beside the stream, one thread keeps less of the common data than two.
    assert!(kept[0] < 0.1 && 0.3 < kept[1] && kept[1] < kept[2], "{kept:?}");
    assert!((0.6..1.0).contains(&kept[2]), "{kept:?}");
    // No data of a thread in another cache.
    assert!(kept_by_blocked_thread([0, 3], 1.0, true) < 0.1);
}

/// Returns the occupancy of thread 1 at the end of its wait relative to that at the begin, in a job in which it waits for
/// a long serial part of thread 0. The threads have these CPUs, and a share of common data.
fn kept_by_blocked_thread(cpus: [usize; 2], share: f64, with_other: bool) -> f64 {
    let mut fluid = machine("llcs=2 cores=3 llc=8M");
    let mut work = (*script(&fluid, 1e8, 20.0, 0)).clone();
    work.n_threads = 2;
    work.phases[0].shared = SharedFills::new(share, &work.phases[0].fills).map(Arc::new);
    let keys = "rounds = 2\nsection = [{ work = 2 }, { threads = 1, work = 8 }]";
    work.plan = with_sections(&fluid, 2e8, 2, keys).plan.clone();
    start(&mut fluid, 0, &Arc::new(work), None);
    for (thread, cpu) in cpus.into_iter().enumerate() {
        let only = mask_of(&fluid, &[cpu]);
        fluid.bind_tid(fluid.tasks[thread].tid, Some(only));
    }
    if with_other {
        let stream = script(&fluid, 1e12, 100.0, 0);
        start(&mut fluid, 1, &stream, Some(5));
    }
    let mut asleep_with = None;
    loop {
        let at = fluid.next_event().expect("it wakes up");
        fluid.advance(at);
        let thread = &fluid.tasks[1];
        match (thread.state, asleep_with) {
            (TaskState::Sleeping, None) => asleep_with = Some(thread.occupancy()),
            (TaskState::Runnable, Some(before)) => return thread.occupancy() / before,
            _ => {}
        }
    }
}

#[test]
fn a_killed_job_with_blocked_threads_leaves_no_task() {
    let mut fluid = machine("cores=2");
    let work = with_sections(&fluid, 1e9, 4, "section = [{ threads = 1 }, { work = 9 }]");
    start(&mut fluid, 0, &work, None);
    fluid.advance(50_000_000);
    fluid.kill(0);
    fluid.remove_job(0);
    assert_eq!(fluid.take_notices(), []);
    let next = script(&fluid, 1e8, 0.0, 0);
    start(&mut fluid, 1, &next, None);
    assert_eq!(super::tests::ends(&mut fluid), [(1, 150)]);
}

#[test]
fn sections_execute_every_phase_or_the_phases_that_they_name() {
    let mut fluid = machine("cores=2 mem=1G");
    let text = |keys: &str| format!("[[job]]\ncommand = [\"a\"]\nthreads = 2\n{keys}\n");
    let plan = |keys: &str, work: &Script| {
        let workload = program::parse_toml(&text(keys), Path::new("w.toml")).expect("a workload");
        let sections = workload.jobs[0].sections.clone().expect("sections");
        work.plan_of(&sections)
    };
    let mut work = (*script(&fluid, 1e8, 0.0, 8)).clone();
    let mut second = work.phases[0].clone();
    second.instructions = 3e8;
    work.phases.push(second);
    work.n_threads = 2;
    let both = "section = [{ threads = 1, phase = 1 }, { phase = 2 }]";
    work.plan = Some(plan(both, &work).expect("a plan"));
    start_spread(&mut fluid, 0, &Arc::new(work.clone()));
    let (ns, times) = run(&mut fluid);
    // Phase 1 is 200 million instructions of one thread, phase 2 are 300 million of each. 8 MiB are touched first.
    let touch_ns = times[0].0 as f64 - 500e6;
    assert!((0.0..10e6).contains(&touch_ns), "{touch_ns}");
    assert_ms(ns, 500.0 + touch_ns / 1e6);
    assert_eq!(fluid.memory_of(0).iter().sum::<u64>(), 8 << 20);
    let error = |keys: &str| plan(keys, &work).expect_err("an error");
    assert_eq!(
        error("section = [{ phase = 3 }]"),
        "a section executes phase 3, the profile has 2 phases"
    );
    assert_eq!(
        error("section = [{ phase = 2 }]"),
        "no section executes phase 1 of the profile; add one"
    );
    work.plan =
        Some(plan("section = [{ threads = 1, work = 1 }, { work = 1 }]", &work).expect("ok"));
    let mut fluid = machine("cores=2 mem=1G");
    start_spread(&mut fluid, 0, &Arc::new(work));
    let (ns, _) = run(&mut fluid);
    // In both phases, one half of the work is serial.
    assert_ms(ns, (100.0 + 50.0) + (300.0 + 150.0) + touch_ns / 1e6);
}

#[test]
fn the_lower_bound_of_a_job_with_sections_is_its_longest_path() {
    let fluid = with_slow_cpu(4, 0.5);
    let work = with_sections(&fluid, 1e9, 4, "section = [{ threads = 1, work = 1 }, { work = 1 }]");
    let bound = work.lower_bound_ns(fluid.hardware());
    assert!((bound / 1e6 - 625.0).abs() < 1e-6, "{bound}");
    assert!((work.run_ns_alone(fluid.hardware()) / 1e6 - 625.0).abs() < 1e-3);
}
