//! Experiments that could refute the physics that a machine file selects.

use super::*;

const RANDOM: &str = "replacement = \"random\"";
const BY_PAIR: &str = "smt = \"by-pair\"";
const STREAMS: &str = "open_streams = { count = 4, permille = 500, source = \"assumed\" }";
const LOSS: &str = "prefetch_loss = { permille = 1000, source = \"assumed\" }";
pub(super) const ALL: &str = "replacement = \"random\", smt = \"by-pair\", open_streams = { count = 4, permille = 500, source = \"assumed\" }, prefetch_loss = { permille = 1000, source = \"assumed\" }";
const NEUTRAL: &str = "replacement = \"lru\", smt = \"equal\", open_streams = { count = 4, permille = 1000, source = \"assumed\" }, prefetch_loss = { permille = 0, source = \"assumed\" }";

const PREFETCHED: Program = Program { misses: 10.0, left: 10.0, prefetches: 30.0, ..STREAM };

fn with(physics: &'static str) -> Built {
    Built { physics, ..PLAIN }
}

/// Returns the end of each program.
fn ends_with(built: Built, programs: &[(Program, usize)]) -> Vec<u64> {
    together(built, programs).0
}

#[test]
fn neutral_values_are_the_default_physics() {
    let built = |physics| Built { smt: 2, ..with(physics) };
    let programs: Vec<_> =
        [SENSITIVE, STREAM, PREFETCHED, COMPUTES, STREAM, STREAM, STREAM, STREAM]
            .into_iter()
            .zip(0..)
            .collect();
    assert_eq!(ends_with(built(NEUTRAL), &programs), ends_with(built(""), &programs));
}

#[test]
fn a_program_alone_has_the_same_speed_with_all_physics_but_late_prefetches() {
    for program in [SENSITIVE, STREAM, COMPUTES] {
        let [plain, all] = ["", ALL].map(|physics| ends_with(with(physics), &[(program, 0)])[0]);
        assert!((all as f64 / plain as f64 - 1.0).abs() < 1e-3, "{program:?}: {plain} {all}");
    }
}

#[test]
fn a_program_that_reuses_lines_loses_more_to_a_stream_with_random_replacement() {
    let built = |physics| Built { memory: 400, ..with(physics) };
    let slow_stream = Program { misses: 5.0, left: 5.0, instructions: 1e11, ..STREAM };
    let programs = [(SENSITIVE, 0), (slow_stream, 1)];
    let [lru, random] = ["", RANDOM].map(|physics| ends_with(built(physics), &programs)[0] as f64);
    assert!(1.02 * lru < random, "{lru} {random}");
    // Streams have no hits to lose.
    let streams = [(STREAM, 0), (STREAM, 1)];
    let [lru, random] = ["", RANDOM].map(|physics| ends_with(built(physics), &streams)[0] as f64);
    assert!((lru / random - 1.0).abs() < 1e-3, "{lru} {random}");
}

#[test]
fn a_second_task_without_misses_does_not_lengthen_the_turnover_of_a_cache() {
    let turnover_ns = |physics, with_second: bool| {
        let mut fluid = Built { llc_mib: 16, memory: 400, ..with(physics) }.fluid(PRECISION);
        SENSITIVE.start(&mut fluid, 0, 0, 1.0);
        if with_second {
            COMPUTES.start(&mut fluid, 1, 1, 1.0);
        }
        fluid.next_event();
        fluid.solver.caches[0].turnover_ns
    };
    for physics in ["", RANDOM] {
        // The second program occupies 1 MiB of 16.
        let ratio = turnover_ns(physics, true) / turnover_ns(physics, false);
        assert!((0.85..1.0).contains(&ratio), "{physics}: {ratio}");
    }
}

#[test]
fn a_change_of_latencies_acts_on_the_occupancies_with_every_replacement() {
    for physics in ["", RANDOM] {
        let mut fluid = with(physics).fluid(PRECISION);
        SENSITIVE.start(&mut fluid, 0, 0, 1.0);
        STREAM.start(&mut fluid, 1, 1, 1.0);
        fluid.next_event();
        // With a sensitivity of 0 the cache would not be solved again.
        assert!(0.0 < fluid.solver.caches[0].sensitivity, "{physics}");
    }
}

#[test]
fn many_streams_move_at_most_the_bandwidth_of_their_number() {
    let rate = |physics, n: usize| {
        let all: Vec<_> = (0..n).map(|cpu| (STREAM, cpu)).collect();
        let (ends, fluid) = together(with(physics), &all);
        let bytes = fluid.lines(0).iter().sum::<f64>() * 64.0;
        gb_per_s(bytes, *ends.iter().max().expect("an end"))
    };
    assert!((rate("", 4) / rate(STREAMS, 4) - 1.0).abs() < 1e-3);
    assert!((19.0..=20.01).contains(&rate("", 16)), "{}", rate("", 16));
    // 20 GB/s x (0.5 + 0.5 x 4 / n)
    for (n, most) in [(8, 15.0), (16, 12.5)] {
        assert!((0.93 * most..=1.01 * most).contains(&rate(STREAMS, n)), "{}", rate(STREAMS, n));
    }
}

#[test]
fn late_prefetches_cost_time_under_load_and_not_alone_on_fast_memory() {
    let slowdown = |physics, memory, n: usize| {
        let all: Vec<_> = (0..n).map(|cpu| (PREFETCHED, cpu)).collect();
        let [plain, late] =
            ["", physics].map(|physics| ends_with(Built { memory, ..with(physics) }, &all)[0]);
        late as f64 / plain as f64
    };
    assert!((slowdown(LOSS, 4000, 1) - 1.0).abs() < 2e-3, "{}", slowdown(LOSS, 4000, 1));
    let (few, many) = (slowdown(LOSS, 40, 2), slowdown(LOSS, 40, 5));
    assert!(1.0 < few && few < many, "{few} {many}");
}

#[test]
fn a_sibling_that_stalls_on_memory_takes_less_of_the_core() {
    let built = |physics| Built { memory: 400, smt: 2, ..with(physics) };
    let beside = |physics, other| {
        let endless = Program { instructions: 1e11, ..other };
        ends_with(built(physics), &[(COMPUTES, 0), (endless, 1)])[0] as f64
    };
    let waits = Program { overlap: 1.0, ..STREAM };
    let alone = ends_with(built(BY_PAIR), &[(COMPUTES, 0)])[0] as f64;
    // Siblings that never stall have the common factor, 2 / 1.3.
    assert!((beside(BY_PAIR, COMPUTES) / alone - 2.0 / 1.3).abs() < 1e-3);
    let (by_pair, equal) = (beside(BY_PAIR, waits), beside("", waits));
    assert!(alone < by_pair && by_pair < 0.75 * equal, "{alone} {by_pair} {equal}");
}

/// The checks of `run` after every event: bandwidth, occupancy, residual, instructions.
#[test]
fn all_invariants_hold_with_all_alternatives() {
    let naps = Program { sleeps: Some((1e7, 3_000_000)), instructions: 2e8, ..SENSITIVE };
    let touches = Program { footprint: 1 << 28, instructions: 1e8, ..STREAM };
    let kinds = [SENSITIVE, STREAM, PREFETCHED, naps, touches, COMPUTES];
    for physics in [RANDOM, BY_PAIR, STREAMS, LOSS, ALL] {
        let built = Built { smt: 2, cores: 4, ..with(physics) };
        let mut fluid = built.fluid(PRECISION);
        let programs: Vec<_> = (0..12)
            .map(|nth| {
                let program = Program { instructions: 2e8, ..kinds[nth % kinds.len()] };
                (program, nth % 8, 1.0, 7_000_000 * nth as u64)
            })
            .collect();
        let ends = run(&mut fluid, &programs);
        assert!(ends.iter().all(|end| 0 < *end), "{physics}");
    }
}
