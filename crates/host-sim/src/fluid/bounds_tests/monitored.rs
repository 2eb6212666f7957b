//! The resctrl counters of the simulated machine agree with its memory controllers.

use super::*;

#[test]
fn traffic_of_caches_and_jobs_adds_up_to_that_of_the_memories() {
    let built = Built { nodes: 2, cores: 4, memory: 100, ..PLAIN };
    let mut fluid = built.fluid(PRECISION);
    fluid.monitor_traffic();
    let touches = Program { footprint: 1 << 28, instructions: 2e8, ..STREAM };
    let programs = [(touches, 0), (SENSITIVE, 1), (STREAM, 4), (touches, 5)];
    for (job, (program, cpu)) in programs.into_iter().enumerate() {
        program.start(&mut fluid, job, cpu, 1.0);
    }
    // The third job runs on node 1 and has its memory on node 0.
    fluid.place_memory(2, &[1 << 30, 0]);
    fluid.next_event();
    for step in 1..=40 {
        fluid.advance(step * 5_000_000);
        fluid.next_event();
        fluid.update_all();
        let caches = [0, 1].map(|cache| fluid.cache_traffic(cache).expect("it is kept"));
        let memories = [0, 1].map(|node| fluid.lines(node).iter().sum::<f64>() * 64.0);
        let sum: f64 = caches.iter().map(|bytes| bytes[0]).sum();
        // First touch is counted in whole pages by the memories.
        assert!(
            (sum - memories.iter().sum::<f64>()).abs() < 4.0 * 4096.0,
            "{caches:?} {memories:?}"
        );
        assert!(caches.iter().all(|bytes| bytes[1] <= bytes[0] * (1.0 + 1e-12)));
        for (cache, total) in caches.iter().map(|bytes| bytes[0]).enumerate() {
            let of_jobs = (0..4).map(|job| fluid.job_traffic(job, cache).expect("it is kept")[0]);
            assert!((of_jobs.sum::<f64>() - total).abs() < 1.0);
            let all = fluid.occupancies();
            let here = all.iter().filter(|((_, at), _)| *at == cache);
            let occupied: f64 = here.map(|(_, bytes)| bytes).sum();
            assert!(occupied <= fluid.hardware().caches[cache].bytes * (1.0 + 1e-6), "{occupied}");
        }
    }
    let remote = fluid.job_traffic(2, 1).expect("it is kept");
    assert!(0.0 < remote[0] && remote[1] == 0.0, "{remote:?}");
    assert_eq!(fluid.job_traffic(0, 1), Some([0.0, 0.0]));
    let occupied = fluid.occupancies();
    assert!(MIB < occupied[&(1, 0)] && !occupied.contains_key(&(1, 1)), "{occupied:?}");
}

#[test]
fn a_sleeping_program_keeps_its_occupancy_beside_no_fills_and_loses_it_beside_a_stream() {
    let naps = Program { sleeps: Some((5e7, 400_000_000)), instructions: 1e9, ..SENSITIVE };
    let asleep = |neighbour: Program| {
        let mut fluid = Built { memory: 400, ..PLAIN }.fluid(PRECISION);
        naps.start(&mut fluid, 0, 0, 1.0);
        fluid.next_event();
        fluid.advance(200_000_000);
        Program { instructions: 1e12, ..neighbour }.start(&mut fluid, 1, 1, 1.0);
        fluid.next_event();
        fluid.advance(350_000_000);
        fluid.occupancies()[&(0, 0)]
    };
    let (beside_quiet, beside_stream) = (asleep(COMPUTES), asleep(STREAM));
    assert!(
        MIB < beside_quiet && beside_stream < 0.01 * beside_quiet,
        "{beside_quiet} {beside_stream}"
    );
}
