//! The fluid machine: time-sharing, caches, memory, moves, in worlds of a few tasks.

use topology::Machine;

use super::*;
use crate::chance::Chance;
use crate::physics::{Behaviour, Character, FillTable, Fitted, Row};
use crate::script::{Act, Script};

const MIB: u64 = 1 << 20;

/// A machine of small nodes that is easy to reckon with: 1 GHz, 100 ns, 10 GB/s, 8 MiB of cache.
fn machine(text: &str) -> Fluid {
    let machine = Machine::synthetic(text).expect("a machine");
    let mut hardware = Hardware::new(&machine);
    for cpu in &mut hardware.cpus {
        cpu.ghz = 1.0;
    }
    let settings = Settings::default();
    Fluid::new(Arc::new(hardware), settings, Chance::OFF.causes(0))
}

/// One that needs a nanosecond for an instruction, and so many misses for 1000 of them.
fn script(fluid: &Fluid, instructions: f64, misses: f64, mib: u64) -> Arc<Script> {
    let row = |bytes: f64, misses: f64| Row {
        bytes,
        cycles: None,
        demand_misses: misses,
        misses,
        reads: misses,
        writes: 0.0,
    };
    let rows = vec![row(1048576.0, misses), row(8.0 * 1048576.0, misses / 4.0)];
    let character = Character::new(rows, row(0.0, 4.0 * misses)).expect("sound");
    let behaviour = Behaviour::known(&character, 1.0, 1.0, Fitted::default().habits(1.0));
    let sizes = fluid.hardware().cache_sizes();
    let act = Act {
        fills: Arc::new(sizes.iter().map(|&size| FillTable::new(&character, size)).collect()),
        behaviour: Arc::new(behaviour),
        instructions,
        sleeps: None,
        footprint: mib * MIB,
        references: 4.0 * misses,
        l1_misses: 8.0 * misses,
    };
    Arc::new(Script { acts: vec![act], n_threads: 1 })
}

fn start(fluid: &mut Fluid, job: usize, script: &Arc<Script>, cpu: Option<usize>) {
    let n_cpus = fluid.hardware().cpus.len();
    let mask = cpu.map(|cpu| Arc::new((0..n_cpus).map(|other| other == cpu).collect()));
    let memory = MemoryRule::FirstTouch;
    fluid.start(JobStart { job, script: script.clone(), allowed: mask, memory, weight: 1.0 });
}

/// When each job ends, in milliseconds, by number.
fn ends(fluid: &mut Fluid) -> Vec<(usize, u64)> {
    let mut ends = Vec::new();
    while let Some(at) = fluid.next_event() {
        fluid.advance(at);
        for (when, news) in fluid.take_news() {
            if let News::JobEnded { job, .. } = news {
                ends.push((job, when / 1_000_000));
            }
        }
    }
    fluid.check_pages().expect("of memory nothing is lost");
    ends.sort_unstable();
    ends
}

#[test]
fn who_shares_a_cpu_takes_twice_as_long() {
    let mut fluid = machine("cores=2");
    let work = script(&fluid, 1e9, 0.0, 0);
    [0, 1].into_iter().for_each(|job| start(&mut fluid, job, &work, Some(0)));
    start(&mut fluid, 2, &work, Some(1));
    assert_eq!(ends(&mut fluid), [(0, 2000), (1, 2000), (2, 1000)]);
}

#[test]
fn weights_share_a_cpu_in_their_proportion() {
    let mut fluid = machine("cores=1");
    let work = script(&fluid, 1e9, 0.0, 0);
    start(&mut fluid, 0, &work, None);
    start(&mut fluid, 1, &work, None);
    fluid.set_weight(1, 3.0);
    // Three quarters for the one until 1333 ms, then everything for the other.
    assert_eq!(ends(&mut fluid), [(0, 2000), (1, 1333)]);
}

#[test]
fn the_kernel_takes_an_idle_cpu_for_one_that_waits() {
    let mut fluid = machine("cores=2");
    let (long, short) = (script(&fluid, 3e9, 0.0, 0), script(&fluid, 1e9, 0.0, 0));
    start(&mut fluid, 0, &short, None);
    [1, 2].into_iter().for_each(|job| start(&mut fluid, job, &long, None));
    // Who shares goes round until the short one is over; then each long one has a CPU for itself, and
    // the 7 s of work are done after little more than 3.5 s.
    let found = ends(&mut fluid);
    assert_eq!(found.iter().map(|(_, ms)| ms).max(), Some(&3512), "{found:?}");
}

/// When each of so many programs of a second ends that are started one after the other, in milliseconds.
fn all_end(text: &str, n_jobs: usize) -> Vec<u64> {
    let mut fluid = machine(text);
    let work = script(&fluid, 1e9, 0.0, 0);
    (0..n_jobs).for_each(|job| start(&mut fluid, job, &work, None));
    ends(&mut fluid).into_iter().map(|(_, ms)| ms).collect()
}

#[test]
fn three_programs_on_two_cpus_share_them_alike() {
    // Not one alone on a CPU for a second and two together on the other.
    let ends = all_end("cores=2", 3);
    assert!(ends.iter().all(|ms| (1400..=1520).contains(ms)), "{ends:?}");
}

#[test]
fn who_shares_goes_round_between_nodes_too() {
    let ends = all_end("nodes=4 cores=2", 9);
    // If always the same two shared, they would end after 1500 ms.
    assert!(ends.iter().all(|ms| *ms <= 1200), "{ends:?}");
}

#[test]
fn who_is_bound_to_a_shared_cpu_stays_there() {
    let mut fluid = machine("cores=2");
    let work = script(&fluid, 1e9, 0.0, 0);
    [0, 1].into_iter().for_each(|job| start(&mut fluid, job, &work, Some(0)));
    start(&mut fluid, 2, &work, Some(1));
    ends(&mut fluid);
    assert_eq!(fluid.counts().migrations, 0);
}

#[test]
fn programs_that_share_a_cache_slow_each_other_down_and_others_do_not() {
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
fn memory_of_another_node_takes_longer() {
    let took = |from: usize, to: usize| {
        let mut fluid = machine("nodes=2 cores=1 mem=1G");
        let work = script(&fluid, 1e9, 20.0, 64);
        start(&mut fluid, 0, &work, Some(from));
        fluid.advance(20_000_000);
        let only = (0..2).map(|cpu| cpu == to).collect();
        fluid.bind(0, Some(Arc::new(only)));
        ends(&mut fluid)[0].1
    };
    assert!(12 * took(0, 0) < 10 * took(0, 1), "{} {}", took(0, 0), took(0, 1));
    assert_eq!(took(0, 0), took(1, 1));
}

#[test]
fn pages_that_are_moved_after_it_make_it_fast_again() {
    let took = |moves: bool| {
        let mut fluid = machine("nodes=2 cores=1 mem=1G");
        let work = script(&fluid, 1e9, 20.0, 64);
        start(&mut fluid, 0, &work, Some(0));
        fluid.advance(20_000_000);
        fluid.bind(0, Some(Arc::new(vec![false, true])));
        if moves {
            fluid.move_pages(PageMove { to: 1, limit: u64::MAX, ..PageMove::default() });
        }
        fluid.advance(500_000_000);
        fluid.check_pages().expect("nothing is lost");
        let there = fluid.memory_of(0)[1];
        assert_eq!(there, if moves { 64 * MIB } else { 0 });
        ends(&mut fluid)[0].1
    };
    assert!(11 * took(true) < 10 * took(false), "{} {}", took(true), took(false));
}

#[test]
fn a_node_that_is_full_spills_to_the_nearest_and_a_full_machine_ends_somebody() {
    let mut fluid = machine("nodes=2 cores=1 mem=64M");
    let work = script(&fluid, 1e9, 0.0, 96);
    start(&mut fluid, 0, &work, Some(0));
    fluid.advance(50_000_000);
    assert_eq!(fluid.memory_of(0), [64 * MIB, 32 * MIB]);
    start(&mut fluid, 1, &work, Some(1));
    fluid.advance(200_000_000);
    let news = fluid.take_news();
    assert!(matches!(news[..], [(_, News::JobEnded { job: 1, out_of_memory: true })]), "{news:?}");
    fluid.forget(1);
    fluid.check_pages().expect("what it had is free again");
    assert_eq!(fluid.memory_free(1), 32 * MIB);
}

#[test]
fn striped_memory_lies_on_all_nodes_alike() {
    let mut fluid = machine("nodes=4 cores=1 mem=1G");
    let work = script(&fluid, 1e9, 0.0, 64);
    let memory = MemoryRule::Interleave(vec![0, 1, 2, 3]);
    fluid.start(JobStart { job: 0, script: work, allowed: None, memory, weight: 1.0 });
    fluid.advance(50_000_000);
    assert_eq!(fluid.memory_of(0), [16 * MIB; 4]);
}

#[test]
fn a_cold_cache_costs_once_and_no_more_than_filling_it() {
    let took = |moves: u64| {
        let mut fluid = machine("llcs=2 cores=1 llc=8M");
        let work = script(&fluid, 1e9, 20.0, 0);
        start(&mut fluid, 0, &work, Some(0));
        for n in 1..=moves {
            fluid.advance(n * 100_000_000);
            let to = n % 2;
            fluid.bind(0, Some(Arc::new(vec![to == 0, to == 1])));
        }
        ends(&mut fluid)[0].1
    };
    let (none, one, three) = (took(0), took(1), took(3));
    // 8 MiB are 131072 lines of 100 ns: 13 ms at the most.
    assert!(none < one && one - none <= 14, "{none} {one}");
    assert!((three - none).abs_diff(3 * (one - none)) <= 2, "{none} {one} {three}");
}

#[test]
fn counters_tell_what_was_done() {
    let mut fluid = machine("cores=1 llc=8M");
    let work = script(&fluid, 1e9, 20.0, 0);
    start(&mut fluid, 0, &work, None);
    while fluid.take_news().is_empty() {
        let at = fluid.next_event().expect("it ends");
        fluid.advance(at);
    }
    let task = fluid.tasks_of(0).next().expect("it is not forgotten").clone();
    let close = |value: f64, expected: f64| (value / expected - 1.0).abs() < 1e-3;
    assert!(close(task.done.instructions, 1e9), "{:?}", task.done);
    assert!(close(task.done.misses, 5e6), "a quarter of 20 per 1000: {:?}", task.done);
    assert!(close(task.done.references, 8e7) && close(task.done.l1_misses, 1.6e8));
    assert!(close(task.done.cycles, task.cpu_ns), "1 GHz: {:?}", task.done);
    assert!(close(fluid.lines(0)[0], 5e6), "{:?}", fluid.lines(0));
    assert!(0.0 < task.done.queue_full && task.done.queue_full < task.done.references);
}
