//! Experiments with several links that cannot carry the demand of their programs, some of which use two links.

use super::*;

const SLOW_LINKS: Built = Built { nodes: 3, cores: 16, link: Some(1), ..PLAIN };

fn check(fluid: &mut Fluid) {
    fluid.next_event();
    fluid.update_all();
    fluid.check_invariants().expect("the invariants hold");
}

/// Returns the bandwidth in GB/s that programs read from each node.
fn rates(fluid: &mut Fluid, passed_ms: u64) -> [f64; 3] {
    let lines = |fluid: &Fluid| [0, 1, 2].map(|node| fluid.lines(node).iter().sum::<f64>());
    check(fluid);
    let before = lines(fluid);
    fluid.advance(fluid.now() + passed_ms * 1_000_000);
    check(fluid);
    let after = lines(fluid);
    [0, 1, 2].map(|node| (after[node] - before[node]) * 64.0 / (passed_ms as f64 * 1e6))
}

#[test]
fn programs_that_another_link_slows_down_too_leave_no_link_partly_unused() {
    let endless = Program { instructions: 1e12, ..STREAM };
    let (first, second, both) = ([0, 1 << 26, 0], [0, 0, 1 << 26], [0, 1 << 26, 1 << 26]);
    for (n_first, n_second, n_both) in [(3, 1, 6), (3, 2, 6), (1, 1, 12), (6, 3, 6), (4, 0, 8)] {
        let parts = [(first, n_first), (second, n_second), (both, n_both)];
        let mut fluid = SLOW_LINKS.fluid(PRECISION);
        let all = parts.iter().flat_map(|&(memory, n)| vec![memory; n]);
        for (nr, memory) in all.enumerate() {
            endless.start(&mut fluid, nr, nr, 1.0);
            fluid.place_memory(nr, &memory);
        }
        let rates = rates(&mut fluid, 100);
        assert!((0.99..=1.002).contains(&rates[1]), "{n_first} {n_second} {n_both}: {rates:?}");
    }
}

proptest! {
    // The seed is fixed: where the same few programs saturate several channels, or a program with two equilibria saturates
    // one, the sweeps may reach their maximum number before they converge.
    #![proptest_config(ProptestConfig { cases: 128, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn the_invariants_hold_with_any_programs_on_slow_links(
        programs in proptest::collection::vec(placed(), 2..24),
        (memory, link) in (1u64..4, 1u64..4),
    ) {
        let built = Built { memory, link: Some(link), ..SLOW_LINKS };
        let mut fluid = built.fluid(PRECISION);
        for (nr, (program, cpu, memory)) in programs.iter().enumerate() {
            program.start(&mut fluid, nr, *cpu, 1.0);
            fluid.place_memory(nr, &memory.map(|parts| parts << 26));
        }
        let mut n_left = programs.len();
        while 0 < n_left {
            let at = fluid.next_event().expect("a program runs");
            fluid.advance(at);
            for (_, notice) in fluid.take_notices() {
                let HostNotice::JobEnded { job, .. } = notice else { continue };
                fluid.remove_job(job);
                n_left -= 1;
            }
            check(&mut fluid);
        }
    }
}

/// A program, its CPU, and its memory on each node in units of 64 MiB.
fn placed() -> impl Strategy<Value = (Program, usize, [u64; 3])> {
    (program(), 0..48usize, [0u64..3, 0u64..3, 0u64..3])
}
