//! Solutions of caches: they are those of the physics, and a steady task continues as the member that it is.

use super::*;

/// Two nodes with links and ports; programs on the second node use memory of the first.
pub(super) const REMOTE: Built =
    Built { nodes: 2, cores: 8, link: Some(8), port: Some(40), memory_link: Some(15), ..PLAIN };

/// Starts each program on a CPU of its own. Each second program on the second node has its memory on the first.
fn start(fluid: &mut Fluid, programs: &[(Program, f64)]) {
    for (nr, (program, weight)) in programs.iter().enumerate() {
        Program { sleeps: None, ..*program }.start(fluid, nr, nr, *weight);
        if nr % 2 == 1 && fluid.hardware.cpus[nr].node == 1 {
            fluid.place_memory(nr, &[program.footprint, 0]);
        }
    }
}

proptest! {
    #[test]
    fn occupancies_are_those_that_the_programs_fill_at_their_speeds(
        built in prop_oneof![Just(PLAIN), Just(REMOTE)],
        programs in proptest::collection::vec((program(), 0.1..4.0f64), 2..16),
    ) {
        let mut fluid = built.fluid(PRECISION);
        start(&mut fluid, &programs);
        fluid.next_event();
        for (cache, hardware) in fluid.hardware.caches.iter().enumerate() {
            let (bytes, time) = (hardware.bytes, fluid.solver.caches[cache].turnover_ns);
            let mut members = fluid.solver.members[cache].clone();
            let (mut sum, n_members) = (0.0, members.len());
            for member in members.iter_mut().filter(|_| 1 < n_members) {
                let table = &fluid.tasks[member.task].script.phases[0].fills[hardware.fill_index];
                let filled = member.fill(table, bytes, time);
                // The iteration ends when the speeds have converged; an occupancy that no speed depends on may lag behind.
                prop_assert!((filled - member.bytes).abs() <= 1e-2 * bytes, "{filled} {}", member.bytes);
                sum += std::mem::replace(&mut member.bytes, filled);
                prop_assert!(member.update_speed(table) <= 1e-3);
            }
            prop_assert!(sum <= bytes * (1.0 + 1e-9), "{sum}");
        }
    }

    #[test]
    fn a_steady_task_continues_as_the_member_that_it_would_be_without_earlier_solutions(
        programs in proptest::collection::vec((program(), 0.1..4.0f64), 2..16),
        at_ms in 1u64..400,
    ) {
        let mut fluid = REMOTE.fluid(PRECISION);
        start(&mut fluid, &programs);
        fluid.next_event();
        for cache in 0..2 {
            fluid.advance(at_ms * 1_000_000);
            fluid.next_event();
            for before in fluid.solver.members[cache].clone() {
                let (idx, place) = (before.task, (before.cpu, cache));
                if !fluid.tasks[idx].is_steady_in(cache, (before.duty, before.smt_share)) {
                    continue;
                }
                let mut both = Vec::new();
                fluid.enter_cache(idx, place, before.smt_share, &mut both);
                fluid.tasks[idx].cached.member = None;
                fluid.enter_cache(idx, place, before.smt_share, &mut both);
                let [mut continued, mut fresh] = [both[0], both[1]];
                let table = &fluid.tasks[idx].script.phases[0].fills[fluid.hardware.caches[cache].fill_index];
                for member in [&mut continued, &mut fresh] {
                    member.update_speed(table);
                }
                let (one, other) = (continued.ns, fresh.ns);
                prop_assert!((one / other - 1.0).abs() < 1e-9, "{one} {other}");
                prop_assert!(continued.is_steady && fresh.is_steady);
                prop_assert_eq!(continued.bytes, fresh.bytes);
                prop_assert_eq!((continued.duty, continued.ns_before), (fresh.duty, fresh.ns_before));
            }
        }
    }
}

#[test]
fn two_equilibria_of_equal_programs_differ_and_a_microsecond_decides() {
    // Both need 4 of 7 MiB. Equal shares are an equilibrium that no small difference survives.
    let needs_4_mib =
        Program { misses: 38.0, knee_mib: 4.0, left: 2.0, flat_mib: 3.0, ..SENSITIVE };
    let ends = |delay| {
        let mut fluid = Built { llc_mib: 7, ..PLAIN }.fluid(PRECISION);
        run(&mut fluid, &[(needs_4_mib, 0, 1.0, 0), (needs_4_mib, 1, 1.0, delay)])
    };
    let (together, apart) = (ends(0), ends(1000));
    assert_eq!(together[0], together[1]);
    // One of them has what it needs, and both end earlier.
    let ratios: Vec<f64> = apart.iter().map(|end| together[0] as f64 / *end as f64).collect();
    assert!(3.0 < ratios[0] && 1.5 < ratios[1], "{together:?} {apart:?}");
}

#[test]
fn equal_tasks_of_a_cache_are_one_class_with_one_solution() {
    let mut fluid = PLAIN.fluid(PRECISION);
    let script = SENSITIVE.script(fluid.hardware());
    let start = |fluid: &mut Fluid, job: usize, cpu: usize| {
        let allowed = Some(mask_of(fluid, &[cpu]));
        fluid.start(JobStart { allowed, ..JobStart::new(job, script.clone()) });
        fluid.next_event();
    };
    let sizes = |fluid: &Fluid| {
        let members = fluid.solver.members[0].iter();
        members.map(|member| member.n_like as usize).collect::<Vec<_>>()
    };
    (0..4).for_each(|nr| start(&mut fluid, nr, nr));
    STREAM.start(&mut fluid, 4, 4, 1.0);
    fluid.next_event();
    let members = &fluid.solver.members[0];
    assert!(members[..4].iter().all(|member| member.bytes == members[0].bytes));
    assert_eq!(sizes(&fluid), [4, 0, 0, 0, 1]);
    // Tasks with other shares of a CPU are another class.
    start(&mut fluid, 5, 0);
    assert_eq!(sizes(&fluid), [2, 0, 3, 0, 0, 1]);
}

/// The second program of another cache raises the latency of the common controller by less than the tolerance.
#[test]
fn a_task_follows_the_latency_without_being_computed_again() {
    use super::super::tests::{ends, machine, script, start};
    let run = |precision| {
        let mut fluid = machine("nodes=1 llcs=2 cores=2");
        fluid.settings.precision = precision;
        let work = script(&fluid, 1e9, 4.0, 0);
        start(&mut fluid, 0, &work, Some(0));
        start(&mut fluid, 1, &work, Some(1));
        fluid.advance(100_000_000);
        fluid.next_event();
        let (before, latency) = (fluid.tasks[0].demand.uses[0], fluid.solver.channels[0].latency);
        let light = script(&fluid, 1e7, 4.0, 0);
        start(&mut fluid, 2, &light, Some(2));
        fluid.next_event();
        let (task, now) = (&fluid.tasks[0], fluid.solver.channels[0].latency);
        assert!(latency * 1.0005 < now && now < latency * 1.02, "{latency} {now}");
        let is_computed = task.demand.uses[0].near != before.near;
        let ns = fluid.ns_at_latencies(task);
        (is_computed, now, ns, ends(&mut fluid))
    };
    let (lazy, exact) = (run(PRECISION), run(PRECISION_EXACT));
    assert!(!lazy.0 && exact.0, "only an exact run computes all users");
    assert!((lazy.1 / exact.1 - 1.0).abs() < 1e-6 && (lazy.2 / exact.2 - 1.0).abs() < 1e-6);
    assert_eq!(lazy.3, exact.3, "in milliseconds");
}

/// With these programs Newton's method does not converge in some of the machines.
#[test]
fn caches_of_programs_with_several_equilibria_are_solved() {
    let rows = [
        (40.0, 1.0, 4.0, 0.5, 2.0),
        (30.0, 1.0, 6.0, 5.0, 1.0),
        (40.0, 1.0, 6.0, 0.5, 4.0),
        (40.0, 2.0, 5.0, 1.0, 2.0),
        (40.0, 3.0, 6.0, 5.0, 4.0),
        (40.0, 1.0, 3.0, 8.0, 2.0),
        (10.0, 3.0, 8.0, 8.0, 4.0),
        (20.0, 1.0, 4.0, 8.0, 1.0),
    ];
    let starts_us = [4029, 3453, 16316, 15866, 12932, 14013, 3144, 2190];
    let program = |(misses, flat_mib, knee_mib, left, overlap)| Program {
        instructions: 5e7,
        core_cycles: 0.5,
        misses,
        flat_mib,
        knee_mib,
        left,
        overlap,
        ..STREAM
    };
    let each = rows.into_iter().zip(starts_us).enumerate();
    let programs: Vec<_> =
        each.map(|(cpu, (row, start))| (program(row), cpu, 1.0, start * 1000)).collect();
    for (llc_mib, precision) in
        (4..24).flat_map(|mib| [PRECISION, PRECISION_EXACT].map(|precision| (mib, precision)))
    {
        run(&mut Built { llc_mib, ..PLAIN }.fluid(precision), &programs);
    }
}

#[test]
fn misses_of_the_first_level_cache_are_those_of_the_phase_that_executed() {
    use super::super::tests::{machine, script, start};
    let mut fluid = machine("cores=1");
    let phases = [1.0, 4.0].map(|misses| script(&fluid, 1e6, misses, 0).phases[0].clone());
    let expected: f64 = phases.iter().map(|phase| phase.l1_misses * 1000.0).sum();
    let both = Arc::new(Script { phases: phases.to_vec(), n_threads: 1, ..Script::default() });
    start(&mut fluid, 0, &both, Some(0));
    while fluid.take_notices().is_empty() {
        let at = fluid.next_event().expect("it ends");
        fluid.advance(at);
    }
    let found = fluid.tasks[0].counts.l1_misses;
    assert!((found / expected - 1.0).abs() < 1e-6, "{found} {expected}");
}

/// Therefore an observation, which counts the touched pages, does not change the result.
#[test]
fn a_cache_is_solved_for_the_pages_that_a_program_will_touch() {
    let mut fluid = REMOTE.fluid(PRECISION);
    let touches = Program { footprint: 256 << 20, ..SENSITIVE }.script(fluid.hardware());
    let memory = MemoryPlacement::Bind(vec![1]);
    let allowed = Some(mask_of(&fluid, &[0]));
    fluid.start(JobStart { memory, allowed, ..JobStart::new(1, touches) });
    SENSITIVE.start(&mut fluid, 0, 1, 1.0);
    fluid.next_event();
    assert_eq!(fluid.memory_parts(1, 0)[..], [(1, 1.0)]);
    fluid.now += 1_000_000;
    fluid.update_all();
    assert!(0 < fluid.memory_of(1)[1] && fluid.solver.queue.is_empty());
}

/// A node fills up between the solution of a cache and the first page of a program that was solved for this node.
#[test]
fn first_touch_uses_the_link_to_the_node_that_receives_the_pages() {
    let mut fluid = REMOTE.fluid(PRECISION);
    let touches = Program { footprint: 512 << 20, instructions: 1e6, ..COMPUTES };
    (0..4).for_each(|nr| touches.start(&mut fluid, nr, nr, 1.0));
    fluid.next_event();
    let rest = fluid.memory_free(0);
    fluid.pages.begin(7);
    fluid.place_memory(7, &[rest, 0]);
    while fluid.take_notices().is_empty() {
        let at = fluid.next_event().expect("it ends");
        fluid.advance(at.min(fluid.now() + 10_000_000));
        fluid.update_all();
    }
    // The link carries 8 GB/s; the pages of the first 10 ms were not yet counted.
    let least_ns = (2u64 << 30) as f64 / 8.0 - 25e6;
    assert!(least_ns < fluid.now() as f64, "{}", fluid.now());
}

/// Many small changes of the latency make a task faster whose time hardly depends on it.
#[test]
fn the_end_of_a_task_with_few_stalls_follows_the_latency() {
    use super::super::tests::{machine, script, start};
    let end = |precision| {
        let mut fluid = machine("nodes=1 llcs=2 cores=16");
        fluid.settings.precision = precision;
        let calm = script(&fluid, 3e9, 0.02, 0);
        start(&mut fluid, 0, &calm, Some(0));
        for nr in 1..=16 {
            let stream = script(&fluid, 8e7 * nr as f64, 40.0, 0);
            start(&mut fluid, nr, &stream, Some(15 + nr));
        }
        loop {
            let at = fluid.next_event().expect("it ends");
            fluid.advance(at);
            let is_calm = |notice: &(u64, HostNotice)| {
                matches!(notice.1, HostNotice::JobEnded { job: 0, .. })
            };
            if fluid.take_notices().iter().any(is_calm) {
                return fluid.now() as f64;
            }
        }
    };
    let (lazy, exact) = (end(PRECISION), end(PRECISION_EXACT));
    assert!((lazy / exact - 1.0).abs() < 1e-5, "{lazy} {exact}");
}
