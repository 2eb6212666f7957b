//! Experiments that could refute the model of data that threads share.

use super::*;
use crate::physics::SharedFills;

/// Starts a job with a thread on each CPU, whose data are common by this share.
fn start_threads(fluid: &mut Fluid, program: Program, share: f64, cpus: &[usize]) {
    let mut script = (*program.script(fluid.hardware())).clone();
    script.n_threads = cpus.len() as u32;
    script.phases[0].shared = SharedFills::new(share, &script.phases[0].fills).map(Arc::new);
    let allowed = Some(mask_of(fluid, cpus));
    fluid.start(JobStart { allowed, ..JobStart::new(0, Arc::new(script)) });
    bind_threads(fluid, cpus);
}

fn bind_threads(fluid: &mut Fluid, cpus: &[usize]) {
    let tids: Vec<u32> = fluid.tasks_of(0).map(|task| task.tid).collect();
    for (tid, cpu) in tids.into_iter().zip(cpus) {
        let only = mask_of(fluid, &[*cpu]);
        fluid.bind_tid(tid, Some(only));
    }
}

/// Runs a job with a thread on each CPU, and endless streams on other CPUs. The state is checked every millisecond. Returns
/// the end of the job in milliseconds, and the bytes that it occupied in each cache before its end.
fn run_threads(built: Built, share: f64, cpus: &[usize], streams: &[usize]) -> (f64, [f64; 2]) {
    let mut fluid = built.fluid(PRECISION);
    start_threads(&mut fluid, SENSITIVE, share, cpus);
    for (nth, cpu) in streams.iter().enumerate() {
        Program { instructions: 1e12, ..STREAM }.start(&mut fluid, 1 + nth, *cpu, 1.0);
    }
    let mut occupied = [0.0; 2];
    for ms in 1.. {
        fluid.next_event();
        fluid.advance(ms * 1_000_000);
        fluid.next_event();
        fluid.update_all();
        fluid.check_invariants().expect("the invariants hold");
        if fluid.has_notices() {
            return (fluid.now() as f64 / 1e6, occupied);
        }
        let all = fluid.occupancies();
        occupied = [0, 1].map(|cache| all.get(&(0, cache)).copied().unwrap_or_default());
    }
    unreachable!("a job ends")
}

const WIDE: Built = Built { nodes: 2, cores: 4, memory: 400, llc_mib: 8, ..PLAIN };

#[test]
fn threads_that_share_all_data_run_in_one_cache_as_one_thread_alone() {
    let alone = run_threads(WIDE, 0.0, &[0], &[]).0;
    let (common, occupied) = run_threads(WIDE, 1.0, &[0, 1], &[]);
    assert!((common / alone - 1.0).abs() < 0.01, "{common} {alone}");
    assert!(occupied[0] <= 8.0 * MIB * (1.0 + 1e-9), "{occupied:?}");
    // Without common data each has half of the cache, and its working set of 6 MiB does not fit.
    let apart = run_threads(WIDE, 0.0, &[0, 1], &[]).0;
    assert!(1.3 * common < apart, "{common} {apart}");
}

#[test]
fn the_common_part_occupies_one_cache_once_and_two_caches_twice() {
    let small = Built { llc_mib: 32, ..WIDE };
    // Beside a stream in each cache.
    let bytes = |share, cpus: &[usize]| run_threads(small, share, cpus, &[3, 7]).1;
    let (one, both) = (bytes(0.0, &[0])[0], bytes(1.0, &[0, 1])[0]);
    let own = bytes(0.0, &[0, 1])[0];
    // Two threads keep the common part better than one.
    assert!(one <= both * 1.01 && both < 0.8 * own, "{one} {both} {own}");
    let apart = bytes(1.0, &[0, 4]);
    assert!((apart[0] / apart[1] - 1.0).abs() < 0.02 && (apart[0] / one - 1.0).abs() < 0.02);
}

#[test]
fn together_or_apart_depends_on_the_share() {
    // Beside a stream in each cache, threads with common data are faster in one cache, others in two.
    let gain = |share| {
        let took = |cpus: &[usize]| run_threads(WIDE, share, cpus, &[3, 7]).0;
        took(&[0, 4]) / took(&[0, 1])
    };
    let gains = [0.0, 0.5, 1.0].map(gain);
    assert!(gains.is_sorted() && gains[0] < 1.0 && 1.0 < gains[2], "{gains:?}");
}

#[test]
fn a_thread_that_joins_another_finds_the_common_data() {
    let misses = |share| {
        let mut fluid = WIDE.fluid(PRECISION);
        start_threads(&mut fluid, SENSITIVE, share, &[0, 4]);
        fluid.next_event();
        fluid.advance(100_000_000);
        let count = |fluid: &mut Fluid| {
            fluid.update_all();
            fluid.tasks_of(0).map(|task| task.counts.misses).sum::<f64>()
        };
        let before = count(&mut fluid);
        let together = mask_of(&fluid, &[0, 1]);
        fluid.bind(0, Some(together));
        fluid.next_event();
        fluid.advance(110_000_000);
        count(&mut fluid) - before
    };
    let found = [1.0, 0.5, 0.0].map(misses);
    assert!(found.is_sorted() && 4.0 * found[0] < found[2], "{found:?}");
}

#[test]
fn threads_that_start_together_read_the_common_data_once() {
    // All misses are those of the cold caches: 6 MiB of data.
    let resident = Program { left: 0.0, instructions: 5e8, ..SENSITIVE };
    let roomy = Built { llc_mib: 64, ..WIDE };
    let read = |share, n_threads: usize| {
        let mut fluid = roomy.fluid(PRECISION);
        start_threads(&mut fluid, resident, share, &[0, 1, 2, 3][..n_threads]);
        let mut totals = [0.0; 2];
        for (nth, total) in totals.iter_mut().enumerate() {
            fluid.next_event();
            fluid.advance((nth as u64 + 1) * 50_000_000);
            fluid.update_all();
            *total = fluid.tasks_of(0).map(|task| task.counts.misses).sum::<f64>() * 64.0 / MIB;
            bind_threads(&mut fluid, &[4, 5, 6, 7][..n_threads]);
        }
        [totals[0], totals[1] - totals[0]]
    };
    let one = read(0.0, 1);
    assert!(one.iter().all(|mib| (mib / 6.0 - 1.0).abs() < 0.03), "{one:?}");
    for n in [2, 4] {
        for share in [0.0, 0.5, 1.0] {
            // In the first cache, and after a migration of all threads to the other cache.
            let expected = n as f64 * (1.0 - share) + share;
            let found = read(share, n).map(|mib| mib / one[0] / expected);
            assert!(found.iter().all(|ratio| (ratio - 1.0).abs() < 0.04), "{n} {share} {found:?}");
        }
    }
}
