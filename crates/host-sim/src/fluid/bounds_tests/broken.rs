//! A broken machine for each checker of [`super::super::invariants`].

use super::*;
use crate::frame::{InvariantViolation, JobPageMigration, SimMachine};

/// Returns a machine in the middle of a run with two programs, after an idle second, and breaks it.
fn broken(breaks: impl FnOnce(&mut Fluid)) -> Result<(), InvariantViolation> {
    let mut fluid = PLAIN.fluid(PRECISION);
    fluid.advance(1_000_000_000);
    [0, 1].into_iter().for_each(|job| STREAM.start(&mut fluid, job, job, 1.0));
    fluid.next_event();
    fluid.advance(1_050_000_000);
    fluid.next_event();
    fluid.update_all();
    fluid.check_invariants().expect("an intact machine");
    breaks(&mut fluid);
    fluid.check_invariants()
}

#[test]
fn every_checker_reports_a_broken_machine() {
    let problem = |breaks: fn(&mut Fluid)| broken(breaks).expect_err("it is broken").problem;
    let cases = [
        ("which is offline", problem(|fluid| fluid.kernel.online[0] = false)),
        (
            "outside its affinity",
            problem(|fluid| fluid.tasks[0].allowed = Some(mask_of(fluid, &[1]))),
        ),
        ("is not runnable", problem(|fluid| fluid.tasks[0].cpu = 1)),
        (
            "bytes used and",
            problem(|fluid| {
                fluid.place_memory(0, &[1 << 20]);
                fluid.pages.begin(0); // The pages of the job are in no list.
            }),
        ),
        (
            "has waited for 3050 ms",
            problem(|fluid| {
                STREAM.start(fluid, 2, 0, 1.0);
                fluid.next_event();
                fluid.tasks[2].allowed = None;
                fluid.waiting_since = Some(0);
                fluid.now += 2_000_000_000;
            }),
        ),
        ("the latency of channel", problem(|fluid| fluid.solver.channels[0].latency *= 1.5)),
        ("for work that takes its core", problem(|fluid| fluid.tasks[0].demand.path_ns -= 2e6)),
        ("of CPU time in", problem(|fluid| fluid.cpus[0].cpu_ns *= 1.01)),
        (
            "occupy",
            problem(|fluid| {
                fluid.tasks[0].cached.bytes *= 3.0;
                fluid.tasks[0].cached.refill_from = fluid.tasks[0].cached.bytes;
            }),
        ),
        ("have not converged", problem(|fluid| fluid.solver.caches[0].remaining = 0.1)),
        ("occupy 0.5 of it", problem(|fluid| fluid.solver.caches[0].occupied = 0.5)),
        ("caches [0] are not solved", problem(|fluid| fluid.solver.queue.push(0))),
        ("transferred", problem(|fluid| fluid.solver.transfer(0, 30e9))),
        (
            "its capacity is 20",
            problem(|fluid| {
                let uses = fluid.tasks.iter_mut().flat_map(|task| &mut task.demand.uses);
                uses.for_each(|of| of.bytes *= 4.0);
                fluid.solver.channels[0].near = fluid.solver.channels[0].near.scaled(4.0);
            }),
        ),
        ("its users have", problem(|fluid| fluid.tasks[0].demand.uses[0].bytes *= 1.5)),
    ];
    for (expected, found) in cases {
        assert!(found.contains(expected), "{expected}: {found}");
    }
    let mut fluid = PLAIN.fluid(PRECISION);
    COMPUTES.start(&mut fluid, 0, 0, 1.0);
    while fluid.take_notices().is_empty() {
        let at = fluid.next_event().expect("it ends");
        fluid.advance(at);
    }
    fluid.check_instructions(0).expect("it executed its script");
    fluid.tasks[0].counts.misses += 1e9;
    let problem = fluid.check_instructions(0).expect_err("more than accesses").problem;
    assert!(problem.contains("misses of"), "{problem}");
    fluid.tasks[0].counts.misses = 0.0;
    fluid.tasks[0].counts.instructions -= 1e6;
    assert!(
        fluid.check_instructions(0).expect_err("some are missing").problem.contains("has executed")
    );
}

#[test]
fn a_page_migration_whose_bytes_do_not_add_up_or_exceed_the_limit_is_reported() {
    let fluid = PLAIN.fluid(PRECISION);
    let done = JobPageMigration {
        requested: 30,
        limit: 30,
        moved: 10,
        no_memory: 15,
        busy: 5,
        ..JobPageMigration::default()
    };
    fluid.check_move(&done).expect("the bytes add up");
    let broken = [
        JobPageMigration { moved: 11, ..done.clone() },
        JobPageMigration { busy: 4, ..done.clone() },
        JobPageMigration { limit: 29, ..done },
    ];
    for done in broken {
        let problem = fluid.check_move(&done).expect_err("it is broken").problem;
        assert!(problem.contains("a page migration moved"), "{problem}");
    }
}

#[test]
fn a_run_on_a_broken_machine_ends_with_the_violation() {
    let mut fluid = PLAIN.fluid(PRECISION);
    STREAM.start(&mut fluid, 0, 0, 1.0);
    fluid.next_event();
    fluid.kernel.online[0] = false;
    let machine = topology::Machine::synthetic("cores=1").expect("a machine");
    let options = crate::SimOptions::default();
    let mut host = crate::SimHost::new(&machine, &[], options).expect("a host");
    host.machine = Box::new(fluid);
    let violation = engine::Host::wait(&mut host).expect_err("it is broken");
    assert!(violation.problem.contains("which is offline"), "{violation}");
}
