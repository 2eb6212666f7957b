//! Experiments that could refute the costs of context switches and migrations.

use super::*;

const FREE: &str = "context_switch = { ns = 0, refill_bytes = 0, source = \"assumed\" }";
const SWITCH: &str = "context_switch = { ns = 40000, refill_bytes = 0, source = \"assumed\" }";
const REFILL: &str =
    "context_switch = { ns = 40000, refill_bytes = 1048576, source = \"assumed\" }";

fn ends_with(physics: &'static str, programs: &[(Program, usize)]) -> Vec<u64> {
    together(Built { physics, ..PLAIN }, programs).0
}

#[test]
fn switches_without_cost_change_nothing_and_a_task_alone_does_not_switch() {
    let shared = [(SENSITIVE, 0), (STREAM, 0), (COMPUTES, 1)];
    assert_eq!(ends_with(FREE, &shared), ends_with("", &shared));
    let apart = [(SENSITIVE, 0), (STREAM, 1), (COMPUTES, 2)];
    assert_eq!(ends_with(REFILL, &apart), ends_with("", &apart));
}

/// The slice of linux-6.18 on 16 CPUs is 4 ms, so 40 µs are one percent of it.
#[test]
fn tasks_on_one_cpu_lose_the_cost_of_a_switch_in_each_slice() {
    for n in [2, 4] {
        let shared: Vec<_> = (0..n).map(|_| (COMPUTES, 0)).collect();
        let last = |physics| *ends_with(physics, &shared).iter().max().expect("an end") as f64;
        let (free, switch, refill) = (last(""), last(SWITCH), last(REFILL));
        assert!((switch / free - 1.01).abs() < 1e-4, "{}", switch / free);
        // 16,384 lines, eight at a time, each 16.7 ns: 34 µs.
        let expected = 1.0 + (40_000.0 + 16_384.0 / 8.0 * CoreSpeed::HIT_NS) / 4e6;
        assert!((refill / free - expected).abs() < 1e-4, "{} {expected}", refill / free);
    }
}

#[test]
fn a_migration_costs_one_switch_and_refill() {
    let took = |physics, migrates: bool| {
        let mut fluid = Built { physics, ..PLAIN }.fluid(PRECISION);
        COMPUTES.start(&mut fluid, 0, 0, 1.0);
        fluid.next_event();
        fluid.advance(50_000_000);
        if migrates {
            let only = mask_of(&fluid, &[1]);
            fluid.bind(0, Some(only));
        }
        while fluid.take_notices().is_empty() {
            let at = fluid.next_event().expect("it ends");
            fluid.advance(at);
        }
        fluid.now() as i64
    };
    assert_eq!(took(SWITCH, false), took("", false));
    let cost = took(SWITCH, true) - took("", true);
    assert!((39_990..=40_010).contains(&cost), "{cost}");
    assert!(cost < took(REFILL, true) - took("", true));
}

#[test]
fn the_invariants_hold_with_switches_and_migrations() {
    let naps = Program { sleeps: Some((1e7, 3_000_000)), instructions: 1e8, ..SENSITIVE };
    let mut fluid = Built { physics: REFILL, cores: 4, ..PLAIN }.fluid(PRECISION);
    let programs: Vec<_> = (0..12)
        .map(|nth| (if nth % 2 == 0 { naps } else { STREAM }, nth % 4, 1.0, 0))
        .map(|(program, cpu, weight, at)| {
            (Program { instructions: 1e8, ..program }, cpu, weight, at)
        })
        .collect();
    run(&mut fluid, &programs);
}
